"""Forms that a person would write: values of their derivatives, and what is shown."""

import numpy as np
import pytest
from every import every
from sympy import Abs, Eq, Min, Ne, Piecewise, Symbol, exp, latex, log, sqrt, tanh
from test_printed import entries

import sympy_tensordiff as td
from sympy_tensordiff.reference import derivative, evaluate
from sympy_tensordiff.testing.values import random_values

i, j, k, n, m, p, q = td.indices("i j k n m p q")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
W, X = td.TensorSymbol("W", (n, n)), td.TensorSymbol("X", (n, m))
S = td.IndexedSum
BOTH = ((i, 0, n - 1), (j, 0, n - 1))


def unequal(body):
    return Piecewise((body, Ne(i, j)), (0, True))


@every("function", lambda: [entry.value for entry in entries("Gradients of forms that a person would write")], turns=8)
def test_forms(function):
    gradient = td.gradient(function, x)
    values = random_values((function, x, y, W), {n: 4}, seed=3)
    assert (np.asarray(evaluate(gradient, values, {n: 4})) == derivative(function, (x,), values, {n: 4})).all()
    again = td.gradient(S(gradient[k], (k, 0, n - 1)), x)  # read again, and differentiated
    once = td.vjp(td.gradient(function, x), x, td.ones(n))
    one, other = (np.asarray(evaluate(e, values, {n: 4}), dtype=object) for e in (again, once))
    assert (one == other).all()


def test_unequal_names_its_limits_below_the_sign():
    forces = td.diff(S(unequal(y[i] * y[j] / Abs(x[i] - x[j])), *BOTH), x[p])
    assert r"\sum_{j=0,\, j \neq p}^{n - 1} \frac" in latex(forces)
    assert latex(S(unequal(W[i, j]), *BOTH)) == r"\sum_{j=0}^{n - 1} \sum_{i=0,\, i \neq j}^{n - 1} W_{i j}"


def test_all_but_two_values_are_one_case():
    cube, s = td.TensorSymbol("Y", (n, n, n)), td.indices("s")
    energy = S(Piecewise((x[i] * cube[i, j, k] ** 2, Ne(k, i) & Ne(k, j)), (0, True)), *BOTH, (k, 0, n - 1))
    gradient = td.diff(energy, cube[p, q, s])
    assert str(gradient) == "Piecewise((2*Y[p, q, s]*x[p], Ne(p, s) & Ne(q, s)), (0, True))"
    values = random_values((energy, x), {n: 3}, seed=3)
    whole = td.TensorComprehension(gradient, (p, n), (q, n), (s, n))
    assert (np.asarray(evaluate(whole, values)) == derivative(energy, (cube,), values)).all()


def test_named_parts_name_temporaries():
    distance = td.name(
        td.TensorComprehension(sqrt(S((X[i, k] - X[j, k]) ** 2, (k, 0, m - 1))), (i, n), (j, n)), r"\hat{r}"
    )
    energy = S(exp(-distance[i, j]) * distance[j, i], *BOTH)
    source = td.generate_code((X,), td.gradient(energy, X), "numpy")
    assert "dhatr = np.empty(" in source


def test_tuples_are_shown_as_formulas():
    both = td.gradient(x @ y * (x @ x), (x, y))
    assert isinstance(both, tuple)
    assert both._repr_latex_() == rf"$\displaystyle {td.latex(both)}$"
    assert td.latex(both).splitlines()[1:3] == [
        r"& \left(x^{\top} x\right) y + 2 x^{\top} y x \\",
        r"& \left(x^{\top} x\right) x",
    ]
    blocks = td.hessian(Piecewise((x[0] * y[1], x[0] < y[0]), (0, True)), (x, y))
    assert blocks._repr_html_().count("<tr><td>$") == 2
    assert blocks._repr_html_().count("</td><td>$") == 2
    assert " &lt; " in blocks._repr_html_()


def test_results_with_names_are_shown_with_their_definitions():
    K = td.name(W @ W.T, "K")
    by_w = td.gradient(y @ td.inv(K) @ y, W)
    assert by_w._repr_latex_() == rf"$\displaystyle {td.latex(by_w, parts=True)}$"
    assert r"\text{where}\quad" in by_w._repr_latex_()
    both = td.gradient(y @ td.inv(K) @ y, (W, y))
    assert both._repr_html_().count("<td>") == both._repr_html_().count("where") == 1


def test_a_number_that_all_terms_have_is_in_front():
    before = {
        2 * x[i] - 2 * y[i]: r"2 \left(x_{i} - y_{i}\right)",
        -2 * x[i] - 2 * y[i]: r"- 2 \left(x_{i} + y_{i}\right)",
    }
    before |= {x[i] / 2 - y[i] / 2: r"\frac{x_{i} - y_{i}}{2}", 2 * x[i] - 3 * y[i]: r"2 x_{i} - 3 y_{i}"}
    before |= {2 * x[i] - 2: r"2 x_{i} - 2", 0.5 * x[i] - 0.5 * y[i]: r"0.5 x_{i} - 0.5 y_{i}"}
    for body, formula in before.items():
        assert td.latex(td.TensorComprehension(body, (i, n)), "g") == rf"g_{{i}} = {formula}, \quad i < n"
    assert str(td.TensorComprehension(2 * x[i] - 2 * y[i], (i, n))) == "TensorComprehension(2*(x[i] - y[i]), (i, n))"
    assert td.latex(-2 * x[p] + 2 * y[p]) == r"2 \left(y_{p} - x_{p}\right)"


def test_sums_over_several_indices_that_differ_are_one():
    triple = S(Piecewise((W[i, j] * W[j, k] * x[k], Ne(i, j) & Ne(j, k) & Ne(i, k)), (0, True)), *BOTH, (k, 0, n - 1))
    chosen = S(Piecewise((Piecewise((W[i, j] * x[i] * x[j], x[i] > x[j]), (0, True)), Ne(i, j)), (0, True)), *BOTH)
    assert str(td.gradient(triple, x)) == (
        "TensorComprehension(IndexedSum(Piecewise((W[i, j]*W[j, p], Ne(i, j) & Ne(p, i) & Ne(p, j)), (0, True)), "
        "(j, 0, n - 1), (i, 0, n - 1)), (p, n))"
    )
    assert str(td.gradient(chosen, x)).count("IndexedSum") == 1
    for energy in (triple, chosen):
        values = random_values((energy, x), {n: 5}, seed=6)
        right = np.asarray(derivative(energy, (x,), values), dtype=float)
        np.testing.assert_allclose(np.asarray(evaluate(td.gradient(energy, x), values), dtype=float), right)


def test_powers_with_symbolic_exponents_join():
    counts = td.TensorSymbol("counts", n, dtype=int)
    assert str(td.gradient(S(log(x[i] ** y[i]), (i, 0, n - 1)), x)) == "TensorComprehension(y[p]/x[p], (p, n))"
    assert str(td.gradient(td.sum(td.log(td.TensorPow(x, y))), x)) == "y/x"
    gradient = td.gradient(S(log(x[i] ** counts[i] * exp(-x[i])), (i, 0, n - 1)), x)
    assert str(gradient) == "TensorComprehension(Piecewise((counts[p]/x[p], Ne(counts[p], 0)), (0, True)) - 1, (p, n))"
    function = td.lambdify([x, counts], gradient, "numpy")
    np.testing.assert_allclose(function(np.array([0.5, 2.0, 0.0]), np.array([3, 0, 0])), [5, -1, -1])


def test_numbers_leave_divisors():
    assert str(td.gradient(td.sum(td.log(3 * x)), x)) == "1/x"
    assert str(td.gradient(td.sum(td.log(3 * td.TensorPow(x, 2))), x)) == "2/x"
    assert str(td.gradient(td.sum(x / (3 * y)), y)) == "-x/(3*y**2)"
    assert str(td.gradient(td.sum(x / y) / 3, x)) == "1/(3*y)"


def test_data_that_differ_from_a_number_are_one_case():
    counts = td.TensorSymbol("counts", n, dtype=int)
    a = Symbol("a", positive=True)
    total = S(Piecewise((a * x[i] ** 2, Ne(counts[i], 0)), (0, True)), (i, 0, n - 1))
    assert str(td.diff(total, a)) == "IndexedSum(Piecewise((x[i]**2, Ne(counts[i], 0)), (0, True)), (i, 0, n - 1))"
    clipped = S(Piecewise((1, Eq(counts[i], m)), (y[Min(counts[i], m - 1)], True)) * x[i], (i, 0, n - 1))
    by_table = str(td.gradient(S(y[Min(counts[i], n - 1)] ** 2 * x[i], (i, 0, n - 1)), y))
    assert by_table.count("Min") == 1 and "Piecewise" not in by_table
    assert str(td.gradient(clipped, y)).count("IndexedSum") == 1


@pytest.mark.parametrize("kind", [int, None])
def test_terms_of_one_condition_are_one_sum(kind):
    """Zero-inflated counts: the slope by the share of zeros has one sum for each case at most."""
    counts = td.TensorSymbol("counts", n, **({"dtype": kind} if kind else {}))
    a = Symbol("a", positive=True)
    zero, rest = a + (1 - a) * exp(-x[i]), (1 - a) * exp(-x[i]) * x[i] ** counts[i]
    total = S(log(Piecewise((zero, Eq(counts[i], 0)), (rest, True))), (i, 0, n - 1))
    slope = td.diff(total, a)
    assert str(slope).count("IndexedSum") == (2 if kind else 1)
    values, data, share = np.array([0.3, 1.7, 2.2, 0.9]), np.array([0, 2, 0, 1]), 0.25
    hits = (1 - np.exp(-values)) / (share + (1 - share) * np.exp(-values))
    right = np.where(data == 0, hits, -1 / (1 - share)).sum()
    for backend in ("numpy", "llvm"):
        function = td.lambdify([x, counts, a], slope, backend)
        np.testing.assert_allclose(function(values, data if kind else data * 1.0, share), right, rtol=1e-14)


def test_a_function_and_its_slope_use_the_same_functions():
    """The entropy of two states with odds ``exp(2*x)``: sigmoids of ``2*x`` and softplus terms are not needed."""
    share = (1 + tanh(x[i])) / 2
    gradient = td.gradient(S(share * log(share) + (1 - share) * log(1 - share), (i, 0, n - 1)), x)
    assert str(gradient) == "TensorComprehension((1 - tanh(x[p])**2)*x[p], (p, n))"
    energy = S(share * log(share) + (1 - share) * log(1 - share) - y[i] * tanh(x[i]), (i, 0, n - 1))
    assert str(td.gradient(energy, x)) == "TensorComprehension((1 - tanh(x[p])**2)*(x[p] - y[p]), (p, n))"
    terms = S(y[i] * (3 * td.softplus(x[i]) - 3 * td.softplus(-x[i])), (i, 0, n - 1))
    assert str(td.gradient(terms, y)) == "TensorComprehension(3*x[p], (p, n))"
    whole = td.gradient(td.dot(y, td.tanh(x) - 2 * td.sigmoid(2 * x)), y)
    assert str(whole) == "-ones(n)"
