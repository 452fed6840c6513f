"""The innermost loops of each benchmark row run as often as by hand, and call as many functions.

Where a plan makes more than a person would, `BEYOND` says how many and why; elsewhere it makes exactly as many.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
from every import every

pytest.importorskip("numba")

from fuzz.count import count

from benchmarks.rows import ROWS, curvature, second_order
from benchmarks.rows.convolutions import extent
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set
from sympy_tensordiff.codegen.ir.scalars import Bound, Number, Operation
from sympy_tensordiff.codegen.ir.walk import subexpressions
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.integer.affine import Affine


def is_function(value):
    """Return whether a value is an exponential, a logarithm, a hyperbolic tangent or a root."""
    if not isinstance(value, Operation):
        return False
    root = value.function == "pow" and isinstance(value.arguments[1], Number) and value.arguments[1].value % 1 != 0
    return root or value.function in ("exp", "log", "tanh", "sqrt", "sigmoid", "logistic_density")


def calls_as_loops(body):
    """Nothing but loops that run as often as functions are called there."""
    found = []
    for statement in body:
        if isinstance(statement, Loop | If):
            inner = calls_as_loops(statement.body)
            found += [replace(statement, body=inner)] if inner else []
        elif isinstance(statement, Set):
            calls = sum(map(is_function, subexpressions(statement.value)))
            ends = [(Bound(Affine.of(end)),) for end in (0, calls - 1)]
            found += [Loop("call", *ends, ())] if calls else []
    return tuple(found)


def counted(program):
    """The innermost iterations of all kernels and products, and the calls of functions."""
    calls = [replace(kernel, body=calls_as_loops(kernel.body)) for kernel in program.nests]
    return count(program, {}).iterations, count(replace(program, kernels=tuple(calls)), {}).iterations


def convolution(by, stride, dilation):
    def hand(N, C, F, H, K):
        outputs = N * extent(stride, dilation, {"H": H, "K": K}) ** 2
        products = outputs * F * C * K * K
        # By the images: each output adds to the entries of its windows.
        return products + (outputs * C * K * K if by == "X" else 0), 0

    return hand


def pairs(n):
    """The pairs (i, j) with j <= i."""
    return n * (n + 1) // 2


def volterra_hessian(n, K):
    """Different products of two, three and four entries of a window."""
    return n * sum(comb(K + order - 1, order) for order in (2, 3, 4)), 0


def attention_row(N, D):
    """The keys that the mask leaves: scores, values times cotangent, gradient by the query; two sums of weights."""
    remaining = 2 * N // 3
    return 3 * remaining * D + 2 * remaining, remaining


HAND = {
    # Squared distances, which serve the gradient by c, too; gradients by a and by b; row sums; d with two indices.
    "paper": lambda I, J, K: (3 * I * J * K + 2 * I * J + I * K, I * J),
    "matmul": lambda n: (2 * n**3, 0),
    # The gradient by T; the product of T and dM, which serves both others: these take n^2 r each.
    "mttkrp": lambda n, r: (2 * n**3 * r + 2 * n**2 * r, 0),
    **{
        f"conv-{by}-{stride}-{dilation}": convolution(by, stride, dilation)
        for by in "XW"
        for stride, dilation in ((1, 1), (2, 1), (2, 2), (1, 3))
    },
    "fir": lambda n, K: (2 * n * K, 0),
    "toeplitz": lambda n: (2 * n**2, 0),
    "hankel": lambda n: (2 * n**2, 0),
    "variation": lambda n: (0, (n - 1) ** 2),
    "stencil": lambda n: (0, 0),
    # The greatest entry of a row, and the sum of the exponentials.
    "cross-entropy": lambda n, k: (2 * n * k, n * k),
    "logistic-gradient": lambda n, d: (2 * n * d, n),
    "logistic-hessian": lambda n, d: (n * d + n * pairs(d), n),
    "factorization-hessian": lambda m, n, r: (m * n * r + (m + n) * pairs(r), 0),
    "factorization-diagonal": lambda m, n, r: ((m + n) * r, 0),
    # Squared distances, and the gradient.
    "gaussian": lambda N, D: (2 * N * N * D, N * N),
    # The residual; by g; by h, of which one triangle is enough.
    "volterra": lambda n, K: (n * (K + K * K) + n * K + n * pairs(K), 0),
    "volterra-hessian": volterra_hessian,
    # Five products over the pairs that the mask leaves, and two sums of them.
    "attention": lambda N, D: (5 * pairs(N) * D + 2 * pairs(N), pairs(N)),
    "attention-row": attention_row,
    # Mean and variance, the two sums of the backward pass over rows, and the two gradients over columns.
    "layernorm": lambda B, n: (6 * B * n, B),
    # Each layer: its value, the gradient by its weights and by its input, but for the first; the softmax.
    # Both derivatives of tanh are computed from exponentials: 1 - tanh(u)**2 would lose the digits of large u.
    "network": lambda n, m, k: (5 * n * m * m + 3 * n * m * k + 2 * n * k, 4 * n * m + n * k),
    # The squared distance of each pair.
    "neighbour-forces": lambda n, K: (3 * n**3 * K, 0),
    "segment-softmax": lambda n, groups: (0, n),
    # The scores, and the gradient of each word by its negative samples.
    "embedding": lambda words, D, B, K: (B * D * (1 + 2 * K), B * (1 + K)),
    # A factorization, the inverse and a solution by it; squared distances, the gradient by their weights and two sums.
    "gaussian-process": lambda n, d: (n**3 // 3 + n**3 + n * n + 2 * d * n * n + n * n + 2 * n, n * n),
    # The inverse of each, and two products of matrices.
    "batch-inverse": lambda N, n: (3 * N * n**3, 0),
}

BEYOND = {
    # The covariances are computed again for the derivative.
    "gaussian-process": lambda n, d: (d * n * n, n * n),
    # Squared distances are computed again for the gradient by c.
    "paper": lambda I, J, K: (I * J * K - I * J, 0),
    # Products of matrices fill squares of which one triangle would be enough.
    "logistic-hessian": lambda n, d: (n * pairs(d - 1), 0),
    "factorization-hessian": lambda m, n, r: ((m + n) * pairs(r - 1), 0),
    # A product of matrices takes both triangles; its entries are multiplied by the window once more.
    "volterra": lambda n, K: (n * pairs(K - 1) + n * K, 0),
    "attention": lambda N, D: (4 * pairs(N - 1) * D, pairs(N - 1)),
    # Only the diagonals of V^T V and U^T U are used.
    "factorization-diagonal": lambda m, n, r: (2 * (m + n) * pairs(r - 1), 0),
    # Pairs of indices are taken once, and there are K//2 + 1 for each index; pairs of pairs are taken twice.
    "volterra-hessian": lambda n, K: (
        n * (K**2 + K * K * (K // 2 + 1) + (K * (K // 2 + 1)) ** 2) - volterra_hessian(n, K)[0],
        0,
    ),
    # The power -3/2 of a variance is computed next to its power -1/2.
    "layernorm": lambda B, n: (0, B),
    # The keys behind the mask are weighted, and their products with 0 are added.
    "attention-row": lambda N, D: (2 * (N - 2 * N // 3) * D, N - 2 * N // 3),
}
SMALL = {"variation": {"n": 40}, "stencil": {"n": 40}, "paper": {"I": 300, "J": 200, "K": 64}}
"""Sizes other than those of the row: where conditions are looked at point by point, or sizes would be the same."""


def test_rows_without_a_count_are_of_second_order():
    """Those are bounded by the law of cost (test_cost_law)."""
    assert {*ROWS} - {*HAND} == {row.name for module in (second_order, curvature) for row in module.ROWS}


@every("name", [*HAND], turns=8)
def test_as_by_hand(name):
    sizes = SMALL.get(name, ROWS[name].sizes)
    program = build_program(*ROWS[name].ours(sizes))
    hand, more = HAND[name](**sizes), BEYOND[name](**sizes) if name in BEYOND else (0, 0)
    assert counted(program) == tuple(a + b for a, b in zip(hand, more, strict=True))


def test_the_formula_of_the_paper_multiplied_out():
    """Three products of matrices instead of sums of three indices; squares and cubes for each row, and row sums."""
    sizes = SMALL["paper"]
    I, J, K = sizes.values()
    program = build_program(*ROWS["paper"].ours(sizes), expand=True)
    assert counted(program) == (3 * I * J * K + 3 * I * J + 3 * I * K + J * K, I * J)
