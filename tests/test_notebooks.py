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


def test_latex_is_a_formula(shown):
    formula = td.latex(LOSS)
    assert isinstance(formula, str)
    assert shown(formula) == {"text/plain": str(formula), "text/latex": rf"$\displaystyle {formula}$"}


def test_common_parts_are_formulas(shown):
    found = td.cse([td.gradient(LOSS, w), LOSS])
    assert found == ([(found[0][0][0], X @ w)], found[1]) and isinstance(found, tuple)
    text = shown(found)["text/latex"]
    assert text.startswith(r"$\displaystyle \begin{aligned}") and r"\text{where}\quad t_{0} &= X w" in text
    assert td.cse([w])._repr_latex_() == r"$\displaystyle w$"


def test_plans_are_tables(shown):
    plan = td.lambdify((X, y, w), td.gradient(LOSS, w), "numpy").plan
    assert isinstance(plan, str)
    types = shown(plan)
    assert types["text/plain"] == plan
    cell = '<td style="text-align: left">'
    assert '<th colspan="2" style="text-align: left">kernels</th>' in types["text/html"]
    assert f"<tr>{cell}X</td>{cell}array (n, m)</td></tr>" in types["text/html"]
    assert f"<tr>{cell}1.</td>{cell}fill t[i] = sum of X[i, j]*w[j]: n*m products</td></tr>" in types["text/html"]


def test_structured_derivatives_are_tables_of_terms(shown):
    chain = td.IndexedSum((y[i + 1] - y[i]) ** 2 * y[0], (i, 0, n - 2))
    types = shown(td.structured_hessian(y, chain, y))
    assert types["text/plain"].startswith("StructuredDerivative(")
    table = types["text/html"]
    assert table.count("<tr>") == int(types["text/plain"].partition("(")[2].split()[0]) + 1
    assert r"<td>$\displaystyle 2 y_{0}$</td><td>$\displaystyle 0: \left[i\right]$</td>" in table
    assert r"0 \le i \le n - 2" in table


def test_a_table_of_many_terms_is_cut(shown):
    sums = [td.IndexedSum(td.sin(y[i] * y[i + k]), (i, 0, n - 1 - k)) for k in range(1, 12)]
    hessian = td.structured_hessian(y, sum(sums), y)
    assert f"and {len(hessian.terms) - 30} more terms" in shown(hessian)["text/html"]
