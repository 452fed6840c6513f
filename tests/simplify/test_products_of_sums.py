"""Sums of products are products of sums where they can be, and no read leaves its range."""

import random

import pytest
from every import every
from fuzz.equality import assert_equal
from sympy import Max, Min, exp, log, sqrt

from sympy_tensordiff import IndexedSum, TensorSymbol, gradient, indices, jacobian, lambdify
from sympy_tensordiff import simplify_deltas as simplified
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import call_arguments, to_double

a, b, i, j, k, m, p, q, r, K, L, M, N, R = indices("a b i j k m p q r K L M N R")
x, y, z = TensorSymbol("x", (N,)), TensorSymbol("y", (M,)), TensorSymbol("z", (N,))
A, B = TensorSymbol("A", (N, M)), TensorSymbol("B", (M, N))
over_i, over_j, over_k = (i, 0, N - 1), (j, 0, M - 1), (k, 0, N - 1)
S = IndexedSum


@every(
    "written, by_hand",
    [
        (S(x[i] * y[j], over_i, over_j), S(x[i], over_i) * S(y[j], over_j)),
        (S(x[i] * z[i] * y[j] ** 2, over_j, over_i), S(x[i] * z[i], over_i) * S(y[j] ** 2, over_j)),
        (S(A[i, j] * y[j] * x[k], over_k, over_j, over_i), S(x[k], over_k) * S(A[i, j] * y[j], over_j, over_i)),
        (S(A[i, j] * B[j, k], over_k, over_i, over_j), S(S(A[i, j], over_i) * S(B[j, k], over_k), over_j)),
        (S(x[i], over_i, over_k), N * S(x[i], over_i)),
        (S(x[i], over_i, over_k, (m, 0, N - 1)), N**2 * S(x[i], over_i)),
        (S(x[i] * y[j] * S(z[k], over_k), over_i, over_j), S(x[i], over_i) * S(y[j], over_j) * S(z[k], over_k)),
        (S(A[p, j] * B[j, i] * x[i], over_i, over_j), S(A[p, j] * S(B[j, i] * x[i], over_i), over_j)),
        # A part of the sum is the divisor.
        (S(x[i] * exp(A[i, j]) / S(exp(A[i, k]), (k, 0, M - 1)), over_i, over_j), S(x[i], over_i)),
        (S(x[i] * exp(A[i, j]) / S(exp(A[i, k]), (k, 0, M - 1)), over_j, over_i), S(x[i], over_i)),
        (
            S(x[i] * exp(A[i, j]) / S(exp(A[i, k]), (k, 0, M - 1)) ** 2, over_i, over_j),
            S(x[i] / S(exp(A[i, k]), (k, 0, M - 1)), over_i),
        ),
        (
            S(exp(A[i, j]) * y[j] / S(exp(A[i, k]), (k, 0, M - 1)), over_i, over_j),
            S(S(exp(A[i, j]) * y[j], over_j) / S(exp(A[i, k]), (k, 0, M - 1)), over_i),
        ),
        # What an inner sum knows already stays with it.
        (S(x[i] * A[i, j] * y[j], over_j, over_i), S(x[i] * A[i, j] * y[j], over_j, over_i)),
        # Triangles fall apart under the variable that bounds them only.
        (
            S(x[i] * z[k], (i, 0, m), (k, 0, m), (m, 0, N - 1)),
            S(S(x[i], (i, 0, m)) * S(z[k], (k, 0, m)), (m, 0, N - 1)),
        ),
        (S(x[i] * z[k], (k, 0, i), over_i), S(x[i] * z[k], (k, 0, i), over_i)),
        # What all terms have is outside of their addition, and leaves the sum where it can.
        (S(x[i] * z[i] - z[i], over_i), -S((1 - x[i]) * z[i], over_i)),
        (S(x[q] * y[j] * A[p, j] - 3 * A[p, j] * y[j], over_j), -(3 - x[q]) * S(A[p, j] * y[j], over_j)),
        (S(x[i] / (1 + z[i]) - z[i] / (1 + z[i]), over_i), S((x[i] - z[i]) / (1 + z[i]), over_i)),
        # The terms of an addition leave a sum where they cancel, and only there.
        (S(x[i] - S(x[k], over_k) / N, over_i), 0),
        (S(A[i, j] - S(A[k, j], (k, 0, N - 1)) / N, over_i, over_j), 0),
        (S(x[i] - x[p], over_i), -S(x[p] - x[i], over_i)),
        (S(x[i] - z[i] + 1 - S(x[k], over_k) / N, over_i), S(x[i] - z[i] + 1 - S(x[k], over_k) / N, over_i)),
    ],
)
def test_sums_of_products(written, by_hand):
    found = simplified(written)
    assert found == by_hand or str(found) == str(by_hand)
    assert simplified(found) == found
    values = random_values((written, x, y, z, A, B), {N: 3, M: 2, p: 1, q: 2}, seed=4)
    assert_equal(evaluate(found, values), evaluate(written, values), str(written))


def test_a_read_stays_in_its_range():
    # Both ranges may be empty: x[N - 2] is there only where the first is not, y[M - 2] where the second is not.
    ranges = ((i, 0, N - 2), (j, 0, M - 2))
    for body in (x[N - 2] * y[j], x[i] * y[M - 2], x[i] * y[j] * x[N - 2], y[M - 2] * S(z[i + m], (m, 0, 1)) * y[j]):
        written = S(body, *ranges)
        found = simplified(written)
        for n, rows in ((1, 1), (1, 3), (3, 1), (3, 3)):
            values = random_values((written, x, y, z), {N: n, M: rows}, seed=5)
            assert_equal(evaluate(found, values), evaluate(written, values), f"{found} at N = {n}, M = {rows}")
            arguments, arrays = call_arguments((written, x, y, z), values)
            assert_equal(
                lambdify(arguments, written, "numpy")(*arrays), to_double(evaluate(written, values)), str(body)
            )


def random_summand(rng):
    reads = [x[i], x[i + 1], y[j], A[i, j], A[k, j], z[k], x[k], x[N - 2], y[M - 1 - j], 1 / (2 + z[k] ** 2), exp(x[i])]
    body = 1
    for _ in range(rng.randint(2, 5)):
        body *= rng.choice(reads) ** rng.choice([1, 1, 1, 2])
    return body


@pytest.mark.parametrize("seed", range(5))
def test_random_sums_of_products_keep_their_values(seed):
    rng = random.Random(seed)
    ranges = {
        i: [(i, 0, N - 2), (i, Max(0, j - 1), N - 2), (i, 1, Min(j, N - 2))],
        j: [(j, 0, M - 1), (j, 1, M - 1), (j, 0, Min(k, M - 1))],
        k: [(k, 0, N - 1), (k, 2, N - 1), (k, 1, N - 2)],
    }
    written = S(random_summand(rng), *(rng.choice(ranges[v]) for v in (i, j, k)))
    found = simplified(written)
    for n, rows in ((1, 1), (2, 3), (3, 2), (4, 1)):
        values = random_values((written, x, y, z, A), {N: n, M: rows}, seed=seed)
        assert_equal(evaluate(found, values), evaluate(written, values), f"{written} at N = {n}, M = {rows}")


def nesting(expression):
    """The greatest number of loops inside of each other."""
    inner = max(map(nesting, expression.args), default=0)
    return inner + len(expression.limits) if isinstance(expression, IndexedSum) else inner


U, V, W = TensorSymbol("U", (N, R)), TensorSymbol("V", (M, R)), TensorSymbol("W", (K, R))
T = TensorSymbol("T", (N, M, K))
MTTKRP = S((T[i, j, k] - S(U[i, r] * V[j, r] * W[k, r], (r, 0, R - 1))) ** 2, over_i, over_j, (k, 0, K - 1))
G = TensorSymbol("G", (K, K))
KERNEL = (a, 0, Min(K - 1, i))
VOLTERRA = S(S(G[a, b] * x[i - a] * x[i - b], KERNEL, (b, 0, Min(K - 1, i))) ** 2, over_i)
h, x_long = TensorSymbol("h", (K,)), TensorSymbol("x", (N + K - 1,))
QUADRATIC = S(G[a, b] * x_long[i + a] * x_long[i + b], (a, 0, K - 1), (b, 0, K - 1))
ENERGY = S((S(h[a] * x_long[i + a], (a, 0, K - 1)) + QUADRATIC) ** 2, over_i)
CROSS_ENTROPY = -S(z[i] * log(exp(x[i]) / S(exp(x[j]), (j, 0, N - 1))), over_i)
MEAN = S(x[j], (j, 0, N - 1)) / N
LAYERNORM = S(z[i] * (x[i] - MEAN) / sqrt(S((x[k] - MEAN) ** 2, over_k) / N + 1), over_i)

# The depth that the mathematics needs, and no more sums than there are now, by order of the derivative.
COMPLEXITY = {
    "mttkrp": (MTTKRP, U, {N: 2, M: 2, K: 2, R: 2}, [(3, 2), (1, 2), (0, 0)]),
    "volterra": (VOLTERRA, x, {N: 3, K: 2}, [(3, 4), (3, 7), (2, 9)]),
    "volterra by its kernel": (VOLTERRA, G, {N: 3, K: 2}, [(3, 2), (1, 1), (0, 0)]),
    "volterra with two orders": (ENERGY, x_long, {N: 2, K: 2}, [(3, 5), (3, 8), (2, 9)]),
    "cross-entropy": (CROSS_ENTROPY, x, {N: 3}, [(1, 2), (1, 4), (1, 10)]),
    "logsumexp": (log(S(exp(x[i]), over_i)), x, {N: 3}, [(1, 1), (1, 2), (1, 5)]),
    "pairwise": (S(exp(-((x[i] - x[j]) ** 2)), over_i, (j, 0, N - 1)), x, {N: 3}, [(1, 1), (1, 1), (1, 1)]),
    "ordered pairs": (S((x[i] - x[j]) ** 4, (j, i + 1, N - 1), over_i), x, {N: 3}, [(1, 2), (1, 2), (1, 2)]),
    "total variation": (S(sqrt((x[i + 1] - x[i]) ** 2 + 1), (i, 0, N - 2)), x, {N: 3}, [(0, 0), (0, 0)]),
    "layernorm": (LAYERNORM, x, {N: 2}, [(2, 10), (2, 24), (2, 71)]),
}


@every("name", [*COMPLEXITY], turns=8)
def test_derivatives_are_no_deeper_than_their_mathematics(name):
    function, variable, sizes, expected = COMPLEXITY[name]
    values = random_values((function, variable), sizes, seed=6)
    found = gradient(function, variable)
    for order, (depth, sums) in enumerate(expected, 1):
        assert nesting(found) <= depth, found
        assert str(found).count("IndexedSum(") <= sums, found
        assert_equal(evaluate(found, values), derivative(function, (variable,) * order, values), f"order {order}")
        if order < len(expected):
            found = jacobian(found, variable)
