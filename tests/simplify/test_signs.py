"""One sign: terms that differ in the sign of a difference, or in the names of indices, are one."""

import random

import pytest
from every import every
from sympy import Abs, Piecewise, Rational, Symbol, cos, exp, sin, sqrt, tanh

from sympy_tensordiff import IndexedSum, TensorSymbol, gradient, indices, jacobian, simplify_deltas
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import assert_equal

i, j, p, q, N = indices("i j p q N")
x, y = TensorSymbol("x", (N,)), TensorSymbol("y", (N,))
eps = Symbol("eps", positive=True)


def energy(summand):
    return IndexedSum(summand, (i, 0, N - 1), (j, 0, N - 1))


def at_p(body, name=j):
    return IndexedSum(body, (name, 0, N - 1))


ENERGIES = {
    "power": ((x[i] - x[j]) ** 4, 8 * at_p((x[p] - x[j]) ** 3)),
    "exp": (exp(-((x[i] - x[j]) ** 2)), -4 * at_p((x[p] - x[j]) * exp(-((x[p] - x[j]) ** 2)))),
    "cos": (cos(x[i] - x[j]), -2 * at_p(sin(x[p] - x[j]))),
    "odd": (sin(x[i] - x[j]), 0),
    "two": (
        tanh(x[i] - x[j]) * (y[i] - y[j]),
        2 * at_p((1 - tanh(x[p] - x[j]) ** 2) * (y[p] - y[j])),
    ),
    "root": (sqrt((x[i] - x[j]) ** 2 + eps), 2 * at_p((x[p] - x[j]) / sqrt((x[p] - x[j]) ** 2 + eps))),
}


@pytest.mark.parametrize("name", ["power", "exp", "two"])
def test_higher_derivatives_of_a_pairwise_energy_have_one_sum(name):
    summand = energy(ENERGIES[name][0])
    found = gradient(summand, x)
    values = random_values((summand, x), {N: 3}, seed=3)
    for order in (2, 3):
        found = jacobian(found, x)
        assert str(found).count("IndexedSum(") == 1
        assert_equal(evaluate(found, values), derivative(summand, (x,) * order, values), f"{name} order {order}")


@every(
    "written, read",
    [
        ((x[p] - x[q]) * (x[q] - x[p]), "-(x[p] - x[q])**2"),
        ((2 * x[p] - 2 * y[p]) * (y[p] - x[p]) * y[q], "-2*(x[p] - y[p])**2*y[q]"),
        ((x[p] / 2 + y[p] / 2) ** 2, "(x[p] + y[p])**2/4"),
        ((x[q] - x[p] - y[p]) ** 3, "-(x[p] - x[q] + y[p])**3"),
        ((1 - x[p]) ** 2, "(1 - x[p])**2"),
        ((x[p] - 1.5) ** 3, "-(1.5 - x[p])**3"),
        (exp(y[p] - x[p]), "exp(-x[p] + y[p])"),
        (y[p] - x[p], "-x[p] + y[p]"),
        (1 / (y[p] - x[p]) ** 3 + 1 / (x[p] - y[p]) ** 3, "0"),
        (at_p(x[p] * y[j] - 2 * y[j], j), "(x[p] - 2)*IndexedSum(y[j], (j, 0, N - 1))"),
        (at_p(y[j] - x[p], j) + at_p(x[p] - y[i], i), "0"),
        (Abs(y[p] - x[p]) - Abs(x[p] - y[p]), "0"),
        (Piecewise(((y[p] - x[p]) ** 2, p > q), (0, True)) - Piecewise(((x[p] - y[p]) ** 2, p > q), (0, True)), "0"),
    ],
)
def test_differences_have_one_sign(written, read):
    assert str(simplify_deltas(written)) == read


def random_term(rng, depth=3):
    if depth == 0:
        return rng.choice([x[i], x[j], x[p], y[i], y[p], y[q], rng.choice([1, 2, Rational(1, 2)])])
    a, b = random_term(rng, depth - 1), random_term(rng, depth - 1)
    c, d = rng.choice([1, -1, 2, -3, Rational(1, 2)]), rng.choice([1, -1, 2, -2, Rational(-3, 2)])
    return rng.choice(
        [
            lambda: c * a + d * b,
            lambda: (c * a + d * b) ** rng.choice([2, 3]),
            lambda: (c * a - d * b) * (d * b - c * a),
            lambda: sin(c * a + d * b) - sin(-c * a - d * b),
            lambda: Abs(c * a + d * b),
            lambda: at_p(c * a + d * b, rng.choice([i, j])),
            lambda: c * a * b,
        ]
    )()


@pytest.mark.parametrize("seed", range(3))
def test_random_terms_keep_their_values(seed):
    rng = random.Random(seed)
    for _ in range(5):
        written = energy(random_term(rng))
        values = random_values((written, x, y), {N: 2, p: 1, q: 0}, seed=seed)
        found = simplify_deltas(written)
        assert_equal(evaluate(found, values), evaluate(written, values), str(written), 1e-9)
