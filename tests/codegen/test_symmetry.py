"""Values that are equal under an exchange of indices are one node, computed once in products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.lower.temporaries import Entry
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule.symmetric_pairs import exchangeable_axes
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader

i, j, k, l, p, q = td.indices("i j k l p q")
x, A = td.TensorSymbol("x", 30), td.TensorSymbol("A", (6, 6))
W = td.TensorSymbol("W", (6, 6, 6))


def exchanged(body, *limits):
    """The pairs of axes that can be exchanged in a tensor of these entries."""
    graph = Graph()
    axes, _, entry = graph.open(Reader(graph).read(td.TensorComprehension(body, *limits)))
    return list(exchangeable_axes(graph, Entry(axes, entry)))


def fourth_moments(K, n):
    """``sum_i x_{i+p} x_{i+q} x_{i+k} x_{i+l}``, and the third ones."""
    v = td.TensorSymbol("v", n + K - 1)
    second = v[i + p] * v[i + q]
    fourth = td.TensorComprehension(
        td.IndexedSum(second * v[i + k] * v[i + l], (i, 0, n - 1)), (p, K), (q, K), (k, K), (l, K)
    )
    third = td.TensorComprehension(td.IndexedSum(second * v[i + k], (i, 0, n - 1)), (k, K), (p, K), (q, K))
    return [v], (fourth, third)


@pytest.mark.parametrize("K", [4, 5])
def test_pairs_are_multiplied_once(K):
    """Indices are paired with those up to half of the circle away: K//2 + 1 of K distances."""
    n = 400
    args, results = fourth_moments(K, n)
    program = build_program(args, results)
    pairs = (K // 2 + 1) * K
    assert f"{pairs} of {K * K} pairs of indices" in "\n".join(program.notes)
    assert max(c.iterations for c in count(program, {}).kernels) == n * pairs**2
    values = np.arange(n + K - 1) % 7 - 3.0
    windows = np.array([values[m : m + n] for m in range(K)]).astype(int)
    fourth, third = td.lambdify(args, results, "numpy")(values)
    for index in itertools.product(range(K), repeat=4):
        assert fourth[index] == windows[list(index)].prod(0).sum()
    for index in itertools.product(range(K), repeat=3):
        assert third[index] == windows[list(index)].prod(0).sum()


@pytest.mark.usefixtures("uncompiled")
def test_numba_spreads_pairs():
    args, results = fourth_moments(4, 400)
    values = np.arange(403) % 7 - 3.0
    kernel = td.lambdify(args, results, "numba", parallel=False)
    assert "4. fill" in kernel.plan
    assert "pairs of indices" in kernel.plan
    for ours, other in zip(kernel(values), td.lambdify(args, results, "numpy")(values), strict=True):
        assert (ours == other).all()


def test_small_products_and_other_tensors_are_not_packed():
    for args, results in (fourth_moments(4, 40), fourth_moments(3, 400)):
        assert not any("pairs" in array.name for array in build_program(args, results).temporaries)
    n, K = 400, 4
    v, w = td.TensorSymbol("v", n + K - 1), td.TensorSymbol("w", n + K - 1)
    body = v[i + p] * w[i + q] * v[i + k] * w[i + l]
    mixed = td.TensorComprehension(td.IndexedSum(body, (i, 0, n - 1)), (p, K), (q, K), (k, K), (l, K))
    packed = [array.name for array in build_program([v, w], mixed).temporaries if "pairs" in array.name]
    values, others = np.arange(n + K - 1) % 5 - 2.0, np.arange(n + K - 1) % 3 - 1.0
    moments = td.lambdify([v, w], mixed, "numpy")(values, others)
    for a, b, c, d in itertools.product(range(K), repeat=4):
        window = [values[a : a + n], others[b : b + n], values[c : c + n], others[d : d + n]]
        assert moments[a, b, c, d] == np.prod(window, 0).sum(), packed
