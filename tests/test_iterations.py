"""Loops of random pullbacks run once for each contributing tuple; few of their outer values lead nowhere."""

from __future__ import annotations

import random

import pytest
import sympy
from counting import conditions_on_loops, contributing_tuples, loop_values, masks, size_values, visits
from every import every
from exact_checks import assert_derivative_exact
from fuzz.count import count

from sympy_tensordiff import IndexedSum, TensorComprehension, TensorSymbol, gradient, indices, vjp
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.reference import points

NAMES = sympy.symbols("i j k l m n", integer=True)


def random_read(seed):
    """``f[i, …] = Sum x[A (i, …, k, …) + c]*v[i, …, k, …]``: each tuple of indices reads one entry of v, its own."""
    generator = random.Random(seed)
    free, summed = generator.randint(1, 2), generator.randint(1, 3)
    axes = [(v, generator.randint(1, 4)) for v in NAMES[:free]]
    limits, around = [], [v for v, _ in axes]
    for v in NAMES[free : free + summed]:
        low = generator.choice((0, 0, -1, generator.choice(around)))
        high = low + generator.randint(-1, 3) if generator.random() < 0.6 else generator.choice(around) + 1
        limits.insert(0, (v, low, high))
        around.append(v)
    form = sum(generator.choice((0, 1, 1, -1, 2, 3, -4, 5, -6)) * v for v in around)
    everywhere = list(points(*limits, *[(v, 0, extent - 1) for v, extent in reversed(axes)]))
    order = [limit[0] for limit in limits] + [v for v, _ in reversed(axes)]
    tuples = [dict(zip(order, point, strict=True)) for point in everywhere]
    if not tuples:
        return random_read(seed + 10**6)
    values = [int(sympy.sympify(form).subs(point)) for point in tuples]
    x = TensorSymbol("x", max(values) - min(values) + 1 + generator.choice((0, 3)))
    lows = {v: min(point[v] for point in tuples) for v in around}
    v = TensorSymbol("v", tuple(max(point[w] for point in tuples) - lows[w] + 1 for w in around))
    body = x[form - min(values)] * v[tuple(w - lows[w] for w in around)]
    return TensorComprehension(IndexedSum(body, *limits), *axes), x, v


def pullback_program(function, x, v):
    weights = TensorSymbol("cotangent", function.shape)
    pullback = vjp(function, x, weights)
    assert not masks(pullback)
    return build_program([x, v, weights], pullback, temporaries=False)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_each_tuple_is_visited_once(start):
    for seed in range(start, start + 20):
        function, x, v = random_read(seed)
        program = pullback_program(function, x, v)
        assert not any(conditions_on_loops(kernel.body) for kernel in program.kernels), seed
        assert visits(program, "v", {}) == contributing_tuples(function, x, {}), seed


def test_few_outer_values_lead_nowhere():
    taken = skipped = 0
    for seed in range(100, 120):
        more, empty = loop_values(pullback_program(*random_read(seed)), {})
        taken, skipped = taken + more, skipped + empty
    assert taken > 150
    assert skipped < 0.1 * taken


I, J, K, M, N = indices("i j k m n")
ROUND, TAPS = TensorSymbol("x", N), TensorSymbol("w", M)


@pytest.mark.in_turns(8)
@every("stride, dilation", [(2, 3), (4, 3), (6, 4)])
def test_windows_around_a_circle_lead_somewhere(stride, dilation):
    """``stride*i + dilation*k - n*t == p``: the loop over ``t`` has few values, and most ``i`` have no ``t``."""
    windows = IndexedSum(ROUND[sympy.Mod(stride * I + dilation * K, N)] * TAPS[K], (K, 0, M - 1))
    function = TensorComprehension(windows, (I, N))
    program = build_program(
        [ROUND, TAPS, TensorSymbol("cotangent", N)], vjp(function, ROUND, TensorSymbol("cotangent", N))
    )
    for n in range(48, 48 + dilation):  # one for each remainder of the size by a divisor
        for size in (n, n + 2 * stride * dilation):
            sizes = {N: size, M: 5}
            assert visits(program, "cotangent", sizes) == 5 * size == contributing_tuples(function, ROUND, sizes)
            assert loop_values(program, sizes)[0] < 7 * size, sizes
    for n in range(3, 3 + dilation):
        assert_derivative_exact(function, ROUND, {N: n, M: 3}, backends=())


def test_a_sum_around_a_circle_is_counted_in_few_steps():
    """Whichever loop is inside, it is a number of values; few ``t`` stay outside, not the half of all ``j``."""
    total = IndexedSum(ROUND[sympy.Mod(2 * I + 3 * J, N)] ** 2, (J, 0, N - 1), (I, 0, 2))
    program = build_program([ROUND], gradient(total, ROUND))
    for n in (60, 61, 120, 121):
        assert count(program, size_values(program, {N: n})).iterations < 6 * n
    for n in (3, 4, 5, 6):
        assert_derivative_exact(total, ROUND, {N: n}, backends=())
