"""Derivatives of sums over ranges that integer data give, with parameters that all ranges share."""

import numpy as np
import pytest
import sympy
from sympy import Piecewise, exp

import sympy_tensordiff as td

i, j, n = td.indices("i j n")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
h, p = td.TensorSymbol("h", n, dtype=int), td.TensorSymbol("p", n + 1, dtype=int)
r = sympy.Symbol("r")
Sum = td.IndexedSum

ENDS = np.array([0, 2, 1, 3, 4])
STARTS = np.array([0, 1, 1, 3, 4, 5])
VALUES = {"x": np.linspace(-1, 2, 5), "y": np.linspace(2, 0.5, 5) ** 2, "h": ENDS, "p": STARTS, "r": 0.3}
TERM = exp(-j * r) * x[j]

RANGES = {
    "until": ((0, h[i]), lambda q: range(ENDS[q] + 1)),
    "from": ((h[i], n - 1), lambda q: range(ENDS[q], 5)),
    "rows": ((p[i], p[i + 1] - 1), lambda q: range(STARTS[q], STARTS[q + 1])),
}


@pytest.mark.parametrize("name", RANGES)
def test_by_a_parameter_of_all_ranges(name):
    """The ranges bound j only together with i."""
    limits, places = RANGES[name]
    value = Sum(y[i] * Sum(TERM, (j, *limits)) ** 2, (i, 0, n - 1))
    slope = td.lambdify((x, y, h, p, r), sympy.diff(value, r), "numpy")(*VALUES.values())
    terms = [{b: np.exp(-b * 0.3) * VALUES["x"][b] for b in places(a)} for a in range(5)]
    wanted = sum(
        -2 * VALUES["y"][a] * sum(own.values()) * sum(b * term for b, term in own.items())
        for a, own in enumerate(terms)
    )
    assert slope == pytest.approx(wanted, rel=1e-13)


def test_by_a_parameter_reads():
    value = Sum(y[i] * Sum(TERM, (j, 0, h[i])), (i, 0, n - 1))
    assert str(sympy.diff(value, r)) == "-IndexedSum(j*exp(-j*r)*x[j]*y[i], (j, 0, h[i]), (i, 0, n - 1))"


def test_conditions_precede_the_limits_that_need_them():
    """``p[h[i] - 1]`` exists only where the condition holds."""
    before = Piecewise((Sum(TERM, (j, p[h[i] - 1], p[h[i]] - 1)), h[i] >= 1), (0, True))
    slope = sympy.diff(Sum(y[i] * before, (i, 0, n - 1)), r)
    (case,) = slope.atoms(Piecewise)
    assert case.args[0][0].func is Sum and case.args[0][0].limits == ((j, p[h[i] - 1], p[h[i]] - 1),)
    found = td.lambdify((x, y, h, p, r), slope, "numpy")(*VALUES.values())
    wanted = -sum(
        VALUES["y"][a] * b * np.exp(-b * 0.3) * VALUES["x"][b]
        for a in range(5)
        if ENDS[a] >= 1
        for b in range(STARTS[ENDS[a] - 1], STARTS[ENDS[a]])
    )
    assert found == pytest.approx(wanted, rel=1e-13)


def test_a_class_and_all_others_are_two_terms():
    """Classes above and below that of an entry are one sum over all others."""
    k, a, c, d = td.indices("k a c d")
    W, X = td.TensorSymbol("W", (c, d)), td.TensorSymbol("X", (n, d))
    label = td.TensorSymbol("label", n, dtype=int, below=c)
    score = Sum(W[k, a] * X[i, a], (a, 0, d - 1)) + Piecewise((1, sympy.Ne(k, label[i])), (0, True))
    gradient = td.gradient(Sum(td.IndexedMax(score, (k, 0, c - 1)), (i, 0, n - 1)), W)
    text = str(gradient)
    assert "label[i] + 1" not in text and "label[i] - 1" not in text
    arrays = np.arange(12.0).reshape(4, 3) % 5 / 3, np.cos(np.arange(15.0).reshape(5, 3)), np.array([0, 3, 2, 2, 1])
    found = td.lambdify((W, X, label), gradient, "numpy")(*arrays)
    scores = arrays[1] @ arrays[0].T + (np.arange(4) != arrays[2][:, None])
    winners = scores == scores.max(1, keepdims=True)
    np.testing.assert_allclose(found, (winners / winners.sum(1, keepdims=True)).T @ arrays[1], rtol=1e-12, atol=1e-14)


def test_signs_of_an_entry_stay_separate():
    """Loops store a sum under each sign: ``h[i] != 0`` would be tested at each entry."""
    assert "Ne(" not in str(sympy.diff(Sum(r ** h[i] * x[i], (i, 0, n - 1)), r))
    others = [Sum(Piecewise((x[i] * y[j], sign), (0, True)), (i, 0, n - 1)) for sign in (h[i] >= j + 1, h[i] <= j - 1)]
    total = Sum(r * others[0] + r * others[1], (j, 0, n - 1))
    assert "Ne(j, h[i])" in str(sympy.diff(total, r))


def test_a_maximum_over_distances_has_a_gradient():
    """The greatest value is found again among values that depend on the difference of two indices only."""
    q, m = td.indices("q m")
    s = td.TensorSymbol("s", m)
    value = Sum(td.IndexedMax(s[q] * exp(-s[q] * (i - j) ** 2), (j, i + 1, n - 1)), (i, 0, n - 2), (q, 0, m - 1))
    gradient = td.lambdify((s, y), td.gradient(value, s) + 0 * y[0], "numpy")
    rates = np.array([0.3, -0.2, 1.5])  # each term is greatest at the distance 1
    np.testing.assert_allclose(gradient(rates, np.zeros(5)), 4 * np.exp(-rates) * (1 - rates), rtol=1e-13)


def test_by_what_a_comparison_selects():
    """The range of j is bounded in a choice: only rows i bound the entries j that are greater than an entry."""
    q = td.indices("q")
    z = td.TensorSymbol("z", n)
    less = Sum(Piecewise((z[q], z[q] < z[j]), (0, True)), (q, 0, n - 1))
    value = Sum(y[i] * Sum(x[j] * less, (j, p[i], p[i + 1] - 1)), (i, 0, n - 1))
    numbers = np.array([0.3, -0.2, 1.1, 0.7, -1.3])
    found = td.lambdify((x, y, p, z), td.gradient(value, z), "numpy")(VALUES["x"], VALUES["y"], STARTS, numbers)
    rows = [(a, b) for a in range(5) for b in range(STARTS[a], STARTS[a + 1])]
    wanted = [sum(VALUES["y"][a] * VALUES["x"][b] * (one < numbers[b]) for a, b in rows) for one in numbers]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_of_products_whose_factors_are_sums(backend):
    """A parameter of all factors, ``2*s*y - s`` with ``s = sigmoid(r*x)``: its sum is multiplied out of two terms."""
    logistic = td.sigmoid(r * x[j])
    product = td.IndexedProduct(2 * logistic * y[j] - logistic, (j, p[i], p[i + 1] - 1))
    value = Sum(product, (i, 0, n - 1))
    slope = sympy.diff(value, r)
    assert len(slope.atoms(Sum)) == 1
    found = td.lambdify((x, y, h, p, r), slope, backend)(*VALUES.values())

    def total(rate):
        own = 1 / (1 + np.exp(-rate * VALUES["x"])) * (2 * VALUES["y"] - 1)
        return sum(np.prod(own[STARTS[q] : STARTS[q + 1]]) for q in range(5))

    step = 1e-3
    differences = [(total(0.3 + k * step) - total(0.3 - k * step)) / (2 * k * step) for k in (1, 2)]
    assert found == pytest.approx((4 * differences[0] - differences[1]) / 3, rel=1e-9)
