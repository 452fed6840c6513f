"""Forms that a person would write: of each the derivative before and after, its values and its kernel."""

import numpy as np
import pytest
from sympy import Abs, Ne, Piecewise, latex

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


FORMS = {
    "a tensor and its transpose": (
        S(W[i, j] * x[i] * x[j], *BOTH),
        "IndexedSum((W[i, p] + W[p, i])*x[i], (i, 0, n - 1))",
    ),
    "differences of pairs": (
        S(W[i, j] * (x[i] - x[j]) ** 2, *BOTH),
        "2*IndexedSum((W[j, p] + W[p, j])*(x[p] - x[j]), (j, 0, n - 1))",
    ),
    "all pairs but equal ones": (
        S(unequal(W[i, j] * (x[i] - x[j]) ** 2), *BOTH),
        "2*IndexedSum(Piecewise(((W[j, p] + W[p, j])*(x[p] - x[j]), Ne(p, j)), (0, True)), (j, 0, n - 1))",
    ),
    "forces": (
        S(unequal(y[i] * y[j] / (1 + (x[i] - x[j]) ** 2)), *BOTH),
        "-4*y[p]*IndexedSum(Piecewise(((x[p] - x[j])*y[j]/((x[p] - x[j])**2 + 1)**2, Ne(p, j)), (0, True)), "
        "(j, 0, n - 1))",
    ),
    "one side stays one side": (
        S(x[i] * x[j] * y[i], (j, 0, i - 1), (i, 0, n - 1)),
        "y[p]*IndexedSum(x[j], (j, 0, p - 1)) + IndexedSum(x[i]*y[i], (i, p + 1, n - 1))",
    ),
    "sides with other ends stay apart": (
        S(x[i] * y[j], (j, 0, i - 1), (i, 0, n - 1)) + S(x[i] * y[j], (j, i + 1, 2), (i, 0, n - 1)),
        "IndexedSum(y[j], (j, 0, p - 1)) + IndexedSum(y[j], (j, p + 1, 2))",
    ),
    "all but the next one": (
        S(Piecewise((x[i] * y[j], Ne(j, i + 1)), (0, True)), *BOTH),
        "IndexedSum(Piecewise((y[j], Ne(p, j - 1)), (0, True)), (j, 0, n - 1))",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    function, text = FORMS[name]
    gradient = td.gradient(function, x)
    assert str(gradient.body) == text
    values = random_values((function, x, y, W), {n: 4}, seed=3)
    assert (np.asarray(evaluate(gradient, values, {n: 4})) == derivative(function, (x,), values, {n: 4})).all()
    again = td.gradient(S(gradient[k], (k, 0, n - 1)), x)  # read again, and differentiated
    once = td.vjp(td.gradient(function, x), x, td.ones(n))
    one, other = (np.asarray(evaluate(e, values, {n: 4}), dtype=object) for e in (again, once))
    assert (one == other).all()


def test_unequal_stands_under_the_sign():
    forces = td.diff(S(unequal(y[i] * y[j] / Abs(x[i] - x[j])), *BOTH), x[p])
    assert r"\sum_{j=0,\, j \neq p}^{n - 1} \frac" in latex(forces)
    assert latex(S(unequal(W[i, j]), *BOTH)) == r"\sum_{j=0}^{n - 1} \sum_{i=0,\, i \neq j}^{n - 1} W_{i j}"


def test_kernels_read_along_rows():
    """Kernels take a tensor and its transpose apart: both are read along rows."""
    gradient = td.gradient(FORMS["differences of pairs"][0], x)
    by_hand = sum(2 * S((x[p] - x[j]) * entry, (j, 0, n - 1)) for entry in (W[j, p], W[p, j]))
    one = td.generate_code((x, W), gradient)
    other = td.generate_code((x, W), td.TensorComprehension(by_hand, (p, n)))
    assert one.count("for ") == other.count("for ")
    values = np.random.default_rng(0).normal(size=(5, 6))
    weights, at = values[:, :5], values[:, 5]
    expected = 2 * ((at[:, None] - at) * (weights + weights.T)).sum(1)
    np.testing.assert_allclose(td.lambdify((x, W), gradient, "numpy")(at, weights), expected)
