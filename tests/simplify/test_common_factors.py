"""Factors that some terms of a sum have in common are written once."""

import random

import pytest
from fuzz.count import count
from fuzz.equality import assert_equal
from sympy import Rational, exp, log, symbols

import sympy_tensordiff as td
from sympy_tensordiff import IndexedSum as S
from sympy_tensordiff import TensorSymbol, indices
from sympy_tensordiff import simplify_deltas as simplified
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values

i, j, k, n, p, q = indices("i j k n p q")
u, v, w, x, y, z = (TensorSymbol(name, n) for name in "uvwxyz")
A, B = (TensorSymbol(name, (n, n)) for name in "AB")
OVER_J = (j, 0, n - 1)
FORMS = [
    (x[p] * y[p] * u[p] + x[p] * y[p] * v[p] + z[p], (u[p] + v[p]) * x[p] * y[p] + z[p]),
    # The group that saves the most comes first, and what is left is grouped in turn.
    (
        x[p] * z[p] * u[p] + x[p] * z[p] * v[p] + y[p] * exp(w[p]) * u[p] + y[p] * exp(w[p]) * v[p],
        (exp(w[p]) * y[p] + x[p] * z[p]) * (u[p] + v[p]),
    ),
    (x[p] * y[p] + x[p] ** 2 * u[p] + x[p] * v[p] + w[p], (u[p] * x[p] + v[p] + y[p]) * x[p] + w[p]),
    (u[p] * y[p] / x[p] + v[p] * y[p] / x[p] + w[p], w[p] + (u[p] + v[p]) * y[p] / x[p]),
    (2 * x[p] * y[p] * u[p] - 4 * x[p] * y[p] * v[p] + w[p], "2*(u[p] - 2*v[p])*x[p]*y[p] + w[p]"),
    (x[p] * (u[p] + v[p]) - u[p] - v[p] + w[p], (x[p] - 1) * (u[p] + v[p]) + w[p]),
    # Brackets are worth two signs; polynomials in one variable stay, and so does a mean in each term.
    (u[p] * x[p] + v[p] * x[p] + w[p], None),
    (3 * x[p] ** 2 + 2 * x[p] + u[p], None),
    (x[p] / n + y[p] / n + u[p], None),
    (x[p] + x[p] * y[p] + u[p], None),
    # Sums over one range, whose summands are computed.
    (
        S(exp(A[p, j]) * x[j], OVER_J) - S(exp(A[p, j]) * y[j] * z[j], OVER_J),
        S((x[j] - y[j] * z[j]) * exp(A[p, j]), OVER_J),
    ),
    (S(A[p, j] * x[j], OVER_J) + S(A[p, j] * y[j], OVER_J), None),
]


@pytest.mark.parametrize(("written", "by_hand"), FORMS, ids=str)
def test_forms(written, by_hand):
    found = simplified(written)
    assert str(found) == str(written if by_hand is None else by_hand)
    assert simplified(found) == found
    values = random_values((written, u, v, w, x, y, z, A), {n: 3, p: 1, q: 2}, seed=3)
    assert_equal(evaluate(found, values), evaluate(written, values), str(written))


def random_sum(rng):
    """A sum of products of a few entries, numbers, divisors and functions."""
    atoms = [u[p], v[p], w[q], x[p], y[q], exp(z[p]), 1 / (1 + u[p] ** 2), x[p] + y[q]]
    terms = []
    for _ in range(rng.randint(3, 7)):
        term = Rational(rng.choice([1, 1, 2, -1, -3]), rng.choice([1, 1, 2]))
        for factor in rng.sample(atoms, rng.randint(1, 4)):
            term *= factor ** rng.choice([1, 1, 1, 2])
        terms.append(term)
    return sum(terms)


def operations(expression):
    """The number of operations that the kernel of `expression` takes."""
    body = td.TensorComprehension(expression, (p, n), (q, n))
    return count(build_program([u, v, w, x, y, z], body), {"n": 7})


@pytest.mark.in_turns(8)
def test_random_sums_keep_their_values_and_take_no_more_operations():
    rng = random.Random(572)
    shorter = 0
    for _ in range(60):
        written = random_sum(rng)
        found = simplified(written)
        assert str(simplified(found)) == str(found), written
        values = random_values((written, u, v, w, x, y, z), {n: 3, p: 1, q: 2}, seed=4)
        assert_equal(evaluate(found, values), evaluate(written, values), str(written))
        shorter += found.count_ops() < written.count_ops()
        assert found.count_ops() <= written.count_ops(), written
    assert shorter > 20


def test_terms_that_are_zero_times_a_logarithm_stay_finite():
    """``x*log(x)`` is 0 at 0, also with ``x`` in front of several terms."""
    written = S(x[i] * log(x[i]) - x[i] * log(y[i]) + z[i], (i, 0, n - 1))
    divergence = simplified(written)
    zeros, ones = [0.0, 0.0], [1.0, 2.0]
    assert td.lambdify([x, y, z], divergence, "numpy")(zeros, ones, ones) == 3


a, eps = symbols("a epsilon", positive=True)
X, G = (TensorSymbol(name, (n, n)) for name in "XG")
CENTRED = x - td.mean(x)
ROWS = X - td.mean(X, axis=1)[:, None]


@pytest.mark.parametrize(
    ("function", "wrt", "text"),
    [
        # Scalars among the terms of a sum of tensors.
        (
            td.sum(y * CENTRED / td.sqrt(td.mean(CENTRED**2) + eps)),
            x,
            "(y - (y.T @ (x - mean(x)))*(x - mean(x))/(n*(epsilon + mean((x - mean(x))**2))) - mean(y))"
            "/sqrt(epsilon + mean((x - mean(x))**2))",
        ),
        # Divisors of rows.
        (
            td.sum(G * X / td.sqrt(td.sum(X**2, axis=1))[:, None]),
            X,
            "diag(1/sqrt(sum(X**2, axis=1))) @ (G - diag(sum(G*X, axis=1)/sum(X**2, axis=1)) @ X)",
        ),
        # A symmetric matrix has its axes in either order.
        (
            td.sum((A @ td.tanh(B @ B.T) @ A) * (X @ X.T + 1) ** 2),
            X,
            "2*((A @ tanh(B @ B.T) @ A + A.T @ tanh(B @ B.T) @ A.T)*(X @ X.T + 1)) @ X",
        ),
    ],
    ids=["batch norm", "norms of rows", "symmetric"],
)
def test_whole_tensors(function, wrt, text):
    gradient = td.gradient(function, wrt)
    assert str(gradient) == text
    assert td.check_derivative(function, wrt, {n: 3}) < 1e-6
