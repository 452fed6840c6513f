"""Notebooks show formulas and pictures: what IPython makes of the classes."""

from __future__ import annotations

import pytest
import sympy

import sympy_tensordiff as td

n, m = td.indices("n m")
i = td.indices("i")
X, y, w = td.TensorSymbol("X", (n, m)), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
LOSS = td.sum(td.softplus(X @ w)) - td.dot(y, X @ w)
SHOWN = [
    (LOSS, r"\mathbf{1}^{\top} \operatorname{softplus}\left(X w\right) - y^{\top} X w"),
    (td.gradient(LOSS, w), r"X^{\top} \left(\sigma\left(X w\right) - y\right)"),
    (y[i], "y_{i}"),
    (X, "X"),
    (td.IndexedSum(y[i] ** 2, (i, 0, n - 1)), r"\sum_{i=0}^{n - 1} y_{i}^{2}"),
    (td.TensorComprehension(sympy.exp(y[i]), (i, n)), r"\left[e^{y_{i}}\right]_{i < n}"),
    (td.parse("declare v 1 expression sin(v) derivative wrt v"), r"\sin\left(v\right)"),
]


@pytest.fixture(scope="module")
def shown():
    """What a cell of a notebook that ends with this value shows: texts by their types."""
    formatters = pytest.importorskip("IPython.core.formatters", reason="notebooks need IPython")
    formatter = formatters.DisplayFormatter()
    return lambda value: formatter.format(value)[0]


@pytest.mark.parametrize(("value", "formula"), SHOWN, ids=[str(value) for value, _ in SHOWN])
def test_formulas(value, formula, shown):
    assert shown(value) == {"text/plain": repr(value), "text/latex": rf"$\displaystyle {formula}$"}


def test_graphs(shown):
    drawing = td.draw_graph(LOSS, w)
    types = shown(drawing)
    assert types.pop("text/plain") == repr(drawing)
    assert list(types) == ["image/svg+xml"] and types["image/svg+xml"].rstrip().endswith("</svg>")
