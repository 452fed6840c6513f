"""Short sums along windows that move with a row: the loop over the row is the innermost."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Bound, Let, Loop
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.schedule.windows import most_steps, windowed
from sympy_tensordiff.integer.affine import Affine

i, j, k, l, p, q, n, m = td.indices("i j k l p q n m")


def filter_adjoint(length):
    """The pullback of a filter with five taps: each tap meets a window of the row."""
    x, h, dy = td.TensorSymbol("x", n + length - 1), td.TensorSymbol("h", length), td.TensorSymbol("dy", n)
    y = td.TensorComprehension(td.IndexedSum(x[i + k] * h[k], (k, 0, length - 1)), (i, n))
    return [h, dy], td.vjp(y, x, dy)


@pytest.mark.parametrize("parallel", [False, True])
def test_windows_of_a_long_row(parallel):
    """In strips, on all cores too."""
    arguments, adjoint = filter_adjoint(5)
    function = td.lambdify(arguments, adjoint, parallel=parallel)
    head = "for turn in prange((extent + 511)//512):" if parallel else "for first in range(0, result.shape[0], 512):"
    assert head in function.source
    assert re.search(r"for p in range\(max\((first|start), k\), min\((last|stop), k \+ n\)\):", function.source)
    rng = np.random.default_rng(0)
    for length in (1, 508, 509, 2500):
        h, dy = rng.normal(size=5), rng.normal(size=length)
        np.testing.assert_allclose(function(h, dy), np.convolve(dy, h), rtol=1e-13, atol=1e-13)


def test_windows_of_short_rows():
    """The pullback of a convolution in two dimensions, along the last of them."""
    x, w, dy = td.TensorSymbol("x", (n + 2, m + 5)), td.TensorSymbol("w", (3, 6)), td.TensorSymbol("dy", (n, m))
    terms = td.IndexedSum(x[i + k, j + l] * w[k, l], (k, 0, 2), (l, 0, 5))
    adjoint = td.vjp(td.TensorComprehension(terms, (i, n), (j, m)), x, dy)
    function = td.lambdify([w, dy], adjoint)
    assert re.search(r"for q in range\(max\(0, \w+\), min\(result\.shape\[1\], \w+ \+ m\)\):", function.source)
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (4, 2), (3, 70)):
        weights, seed = rng.normal(size=(3, 6)), rng.normal(size=(rows, columns))
        expected = np.zeros((rows + 2, columns + 5))
        for a, b in np.ndindex(3, 6):
            expected[a : a + rows, b : b + columns] += weights[a, b] * seed
        np.testing.assert_allclose(function(weights, seed), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("width", [9])
def test_a_window_of_a_table_is_counted_from_its_start(width):
    """Where the index of a sum runs through a table, and the window through the row: few steps, each along the row."""
    x, w, t = td.TensorSymbol("x", 200 + width), td.TensorSymbol("w", width), td.TensorSymbol("t", 200)
    value = td.IndexedSum(x[i + k] * w[k], (k, 0, width - 1))
    loss = td.IndexedSum((sympy.tanh(value) - t[i]) ** 2, (i, 0, 199))
    function = td.lambdify([x, w, t], td.gradient(loss, x))
    in_steps = re.search(rf"for i in range\({width}\):\n +for p in range\(max\(", function.source)
    assert in_steps
    arrays = [np.random.default_rng(0).normal(size=size) for size in (200 + width, width, 200)]
    values = np.tanh(np.correlate(arrays[0], arrays[1], "valid")[:200])
    seed = 2 * (values - arrays[2]) * (1 - values**2)
    expected = np.append(np.convolve(seed, arrays[1]), 0.0)
    np.testing.assert_allclose(function(*arrays), expected, rtol=1e-12, atol=1e-12)


def test_a_window_is_counted_from_its_start_where_it_has_fewer_steps():
    """Not where the index of the sum has fewer values, nor where the length of the window is none in numbers."""
    start, end, last = (Bound(Affine.variable("p") + shift) for shift in (-8, 0, 2))
    x = Let("v", Load("x", (Affine.variable("i"),)))
    for low, high, steps in (
        (start, end, 9),
        (start, last, None),
        (start, Bound(Affine.variable("p") + Affine.variable("m")), None),
    ):
        loop = Loop("i", (Bound(Affine.of(0)), low), (Bound(Affine.of(9)), high), (x,))
        found = windowed(loop, "p")
        assert (found != loop) == (steps is not None)
        if steps is not None:
            assert most_steps(replace(found, lows=found.lows[:1], highs=found.highs[:1])) == steps


def without_compute(source):
    """The text of a module without the function that allocates the result."""
    kernels, allocates, _ = source.partition("def compute(")
    assert allocates
    return kernels


def test_windows_with_data_in_their_bounds_stay_in_their_bounds():
    """Outside of them the data would be read where there are none: at -6 for a single entry."""
    h, dy, g = td.TensorSymbol("h", 7), td.TensorSymbol("dy", m), td.TensorSymbol("g", n)
    idx = td.TensorSymbol("idx", m, dtype=int)
    value, begin = td.sin(g[l + p]), idx[m - 1 - k]
    terms = td.IndexedSum(h[k] * dy[p - k] * value, (l, begin, begin + 5), (k, 0, sympy.Min(6, p)))
    source = td.generate_code([h, dy, g, idx], td.TensorComprehension(terms, (p, m)), temporaries=False)
    assert "for k in range(min(7, p + 1)):" in source
    assert "np.empty" not in without_compute(source)


def test_other_sums_stay_inside_of_the_loop_over_the_row():
    """Long ones, those that are unrolled, and those that read down a column."""
    x, a, h = td.TensorSymbol("x", n), td.TensorSymbol("a", (n, 9)), td.TensorSymbol("h", 9)
    long = td.TensorComprehension(td.IndexedSum(x[k] * x[k - i], (k, i, n - 1)), (i, n))
    unrolled = td.TensorComprehension(td.IndexedSum(x[i + k] * h[k], (k, 0, 3)), (i, n - 8))
    columns = td.TensorComprehension(td.IndexedSum(a[i, k] * h[k], (k, 0, 8)), (i, n))
    for expression in (long, unrolled, columns):
        assert "np.empty" not in without_compute(td.generate_code([x, a, h], expression))
