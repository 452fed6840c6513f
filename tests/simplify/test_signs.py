"""One sign: terms that differ in the sign of a difference, or in the names of indices, are one."""

import random

import pytest
from fuzz.equality import assert_equal
from sympy import Abs, Rational, Symbol, cos, exp, sin, sqrt, tanh

from sympy_tensordiff import IndexedSum, TensorSymbol, gradient, indices, jacobian, simplify_deltas
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.testing import random_values

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
