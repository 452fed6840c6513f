"""Notebooks show formulas and pictures: what IPython makes of the classes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.symbolic.printing import notebooks

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
    """Return the output of a notebook cell that ends with this value: texts by their types."""
    formatters = pytest.importorskip("IPython.core.formatters", reason="notebooks need IPython")
    shell = SimpleNamespace(display_formatter=formatters.DisplayFormatter())
    with pytest.MonkeyPatch.context() as patch:  # the package is imported in a shell
        patch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
        notebooks.register()
    return lambda value: shell.display_formatter.format(value)[0]


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


def test_scalars_of_sympy_are_shown_in_parts():
    p, q, k, a = *td.indices("p q k"), sympy.Symbol("a")
    r = sympy.sqrt(td.IndexedSum((X[i, k] - X[p, k]) ** 2, (k, 0, m - 1)))
    force = td.diff(td.IndexedSum(sympy.exp(-a * r) / r, (i, 0, n - 1)) ** 2, X[p, q])
    assert isinstance(force, sympy.Mul)
    assert notebooks.formula(force) == rf"$\displaystyle {td.latex(force)}$"
    assert r"\text{where}\quad" in td.latex(force)
    assert notebooks.formula(2 * y[i] * y[p]) == r"$\displaystyle 2 y_{i} y_{p}$"


def test_remainders_of_native_results_have_no_brackets():
    p, q, x, size = *td.indices("p q"), sympy.IndexedBase("x"), sympy.Symbol("N", integer=True, positive=True)
    energy = sympy.Sum((x[sympy.Mod(i + 1, size)] - x[i]) ** 2, (i, 0, size - 1))
    second = notebooks.formula(td.diff(energy, x[p], x[q]))
    assert r"4 \delta_{p q} - 2 \delta_{q, \left(p + 1\right) \bmod N} - 2" in second


def test_other_expressions_are_left_to_sympy(monkeypatch):
    a = sympy.Symbol("a")
    endless = sympy.Sum(sympy.exp(-(a**n)), (n, 0, sympy.oo))
    for value in (a**2, sympy.Matrix([a]), sympy.Eq(a, 1), sympy.MatrixSymbol("M", n, n), endless * y[0]):
        assert notebooks.formula(value) == value._repr_latex_()
    with monkeypatch.context() as patch:  # `sympy.init_printing(use_latex=False)`
        patch.setattr(sympy.core._print_helpers.Printable, "_repr_latex_", sympy.Basic._repr_disabled)
        assert notebooks.formula(2 * y[0]) is None and notebooks.formula(a) is None


def test_ipython_shows_scalars_of_sympy_as_td_latex_writes_them(shown):
    difference = y[n - 1] - y[0] ** 2
    assert sympy.latex(difference) == "- y_{0}^{2} + y_{n - 1}"
    assert shown(difference) == {"text/plain": str(difference), "text/latex": r"$\displaystyle y_{n - 1} - y_{0}^{2}$"}
