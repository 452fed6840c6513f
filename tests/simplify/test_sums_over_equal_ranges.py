"""Sums over the same range with a factor in common are one sum, and no loop runs more often for it."""

import random

import pytest
from every import every
from fuzz.count import count
from sympy import Min, Piecewise, exp

from sympy_tensordiff import IndexedSum, TensorSymbol, gradient, indices, jacobian
from sympy_tensordiff import simplify_deltas as simplified
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import assert_equal, call_arguments

a, b, i, j, k, p, q, K, M, N = indices("a b i j k p q K M N")
x, y, z = TensorSymbol("x", (N,)), TensorSymbol("y", (N,)), TensorSymbol("z", (N,))
A, B = TensorSymbol("A", (N, N)), TensorSymbol("B", (N, N))
over_i, over_j, over_k = (i, 0, N - 1), (j, 0, N - 1), (k, 0, N - 1)
S = IndexedSum
INNER = S(A[i, j] * x[j], over_j)
OTHER = S(B[i, j] * x[j], over_j)


@every(
    "written, by_hand",
    [
        (S(INNER * y[i], over_i) + S(INNER * z[i], over_i), S((y[i] + z[i]) * INNER, over_i)),
        (
            S(INNER * y[i], over_i) - 3 * S(y[k] * z[k], over_k),
            S(y[k] * (S(A[k, j] * x[j], over_j) - 3 * z[k]), over_k),
        ),
        (2 * S(INNER * y[i], over_i) - 4 * S(INNER * z[i], over_i), 2 * S((y[i] - 2 * z[i]) * INNER, over_i)),
        (x[p] * S(INNER * y[i], over_i) + x[p] * S(INNER * z[i], over_i), x[p] * S((y[i] + z[i]) * INNER, over_i)),
        # A product of two additions, term by term.
        (
            S(INNER * OTHER, over_i) + S(INNER * z[i], over_i) + S(y[i] * OTHER, over_i) + S(y[i] * z[i], over_i),
            S((y[i] + INNER) * (z[i] + OTHER), over_i),
        ),
        # A tensor and its transpose are one factor.
        (S(A[p, k] * x[k], over_k) + S(A[k, p] * x[k], over_k), S((A[k, p] + A[p, k]) * x[k], over_k)),
        (2 * (S(A[p, i] * x[i], over_i) - S(A[k, p] * x[k], over_k)), 2 * S((A[p, k] - A[k, p]) * x[k], over_k)),
        # Loops over plain products stay apart, and so do ranges that differ, and sums that need other indices.
        (S(A[p, k] * x[k], over_k) + S(B[k, p] * x[k], over_k), None),
        (S(INNER * y[i], over_i) + S(INNER * z[i], (i, 1, N - 1)), None),
        (S(INNER * y[i], over_i) + S(INNER * A[i, p], over_i), None),
        (x[p] * S(INNER * y[i], over_i) + x[q] * S(INNER * z[i], over_i), None),
    ],
)
def test_sums_that_share_a_factor(written, by_hand):
    found = simplified(written)
    assert str(found) == str(written if by_hand is None else by_hand)
    assert simplified(found) == found
    values = random_values((written, x, y, z, A, B), {N: 3, p: 1, q: 2}, seed=7)
    assert_equal(evaluate(found, values), evaluate(written, values), str(written))


def random_term(rng):
    triangle = S(A[i, j] * x[j], (j, 0, Min(i, N - 1)))
    chosen = Piecewise((1 / y[i], i >= 1), (0, True))
    factors = [y[i], z[i], x[p], A[i, p], INNER, OTHER, triangle, INNER + y[i], chosen, exp(INNER), x[N - 2]]
    body = rng.choice([1, -1, 2, 3])
    for _ in range(rng.randint(1, 3)):
        body *= rng.choice(factors)
    return rng.choice([1, -2, y[p]]) * S(body, (i, rng.choice([0, 0, 0, 1]), N - rng.choice([2, 2, 2, 1])))


@pytest.mark.parametrize("seed", range(5))
def test_random_sums_keep_their_values(seed):
    rng = random.Random(seed)
    written = sum(random_term(rng) for _ in range(rng.randint(2, 5)))
    found = simplified(written)
    for n in (1, 2, 4):
        if n == 1 and written.has(x[N - 2]) and any(limit[2] == N - 1 for s in written.atoms(S) for limit in s.limits):
            continue
        values = random_values((written, x, y, z, A, B), {N: n, p: 0}, seed=seed, low=1, high=2)
        assert_equal(evaluate(found, values), evaluate(written, values), f"{written} at N = {n}", 1e-9)


def test_derivatives_of_a_volterra_series_run_over_few_points():
    w, G = TensorSymbol("x", (N + K - 1,)), TensorSymbol("G", (K, K))
    found = S(S(G[a, b] * w[i + a] * w[i + b], (a, 0, K - 1), (b, 0, K - 1)) ** 2, over_i)
    values = random_values((found, w), {N: 9, K: 4}, seed=8)
    arguments, _ = call_arguments((found, w), values)
    for order in (1, 2, 3):
        found = gradient(found, w) if order == 1 else jacobian(found, w)
        program = build_program(arguments, found)
        # N*K*K for what is squared, and N*K for its slopes, each a sum over K; then N*K**order products of them.
        needed = 9 * 4**2 + 2 * 9 * 4 * 4 + 9 * 4**order
        assert count(program, {"N": 9, "K": 4}).iterations <= 2 * needed, order
