"""The sum inside of a residual is computed once for each entry of the residual, whatever the strides of its reads."""

from __future__ import annotations

import itertools
from math import gcd

import numpy as np
import pytest
import sympy
from every import every
from fuzz.count import count
from oracle import expected

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import OutOfShapeError

i, j, k, l = td.indices("i j k l")
I, K = 7, 8
STRIDES = [(1, 1), (1, 2), (2, 1), (3, 2), (2, 3), (4, 6), (5, 5), (11, 1), (1, 9), (4, 9)]
PLANES = [((1, 9), (1, 1)), ((3, 2), (2, 3)), ((4, 6), (3, 2))]


def places(strides, lengths):
    """All values of ``a*i + b*k`` in one axis, counted from the least one, and the offset and extent."""
    index = sum(s * np.arange(n).reshape((-1,) + (1,) * p) for s, n, p in zip(strides, lengths, (1, 0), strict=True))
    return index - index.min(), -int(index.min()), int(np.ptp(index)) + 1


def in_a_line(a, b):
    index, offset, extent = places((a, b), (I, K))
    x, w, z = td.TensorSymbol("x", extent), td.TensorSymbol("w", K), td.TensorSymbol("z", I)
    y = td.IndexedSum(x[a * i + b * k + offset] * w[k], (k, 0, K - 1))
    return (x, w, z), td.IndexedSum((y - z[i]) ** 2, (i, 0, I - 1)), (index,)


def in_a_plane(first, second):
    (p, down, m), (q, right, n) = (places(s, lengths) for s, lengths in [(first, (I, K)), (second, (6, 5))])
    x, w, z = td.TensorSymbol("x", (m, n)), td.TensorSymbol("w", (K, 5)), td.TensorSymbol("z", (I, 6))
    read = x[first[0] * i + first[1] * k + down, second[0] * j + second[1] * l + right]
    y = td.IndexedSum(read * w[k, l], (k, 0, K - 1), (l, 0, 4))
    return (x, w, z), td.IndexedSum((y - z[i, j]) ** 2, (i, 0, I - 1), (j, 0, 5)), (p, q)


def wanted(places, x, w, z):
    """The gradients with respect to x and w, tuple by tuple."""
    by_x, by_w = np.zeros_like(x), np.zeros_like(w)
    windows = [(entry, tuple(p[e] for p, e in zip(places, entry, strict=True))) for entry in np.ndindex(z.shape)]
    for entry, window in windows:
        window = np.ix_(*window)
        slope = 2 * ((x[window] * w).sum() - z[entry])
        by_x[window] += slope * w
        by_w += slope * x[window]
    return by_x, by_w


@every("strides", [*STRIDES, *PLANES], ids=str, turns=8)
def test_gradients_of_a_residual(strides):
    symbols, loss, index = in_a_line(*strides) if strides in STRIDES else in_a_plane(*strides)
    x, w, _ = symbols
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-4, 5, s.shape).astype(float) for s in symbols]
    right = wanted(index, *arguments)
    tuples = int(np.prod([p.size for p in index]))
    gradients = td.gradient(loss, (x, w))
    program = build_program(symbols, gradients[0])
    assert count(program, {}).iterations <= 2 * tuples
    np.testing.assert_array_equal(expected(program, arguments)[0], right[0])
    both = build_program(symbols, gradients)
    assert count(both, {}).iterations <= 3 * tuples
    for found, value in zip(expected(both, arguments), right, strict=True):
        np.testing.assert_array_equal(found, value)


COPRIME = [(a, b) for a in range(2, 5) for b in range(2, 5) if gcd(a, b) == 1]


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_the_variable_of_a_sum_counts_up_from_about_0(signs):
    rows, columns = sympy.symbols("I K", integer=True, positive=True)
    v, w = td.TensorSymbol("v", rows), td.TensorSymbol("w", columns)
    for strides in COPRIME:
        a, b = (s * c for s, c in zip(signs, strides, strict=True))
        least = min(a, 0) * (rows - 1) + min(b, 0) * (columns - 1)
        shift = (a + b) % 3
        x = td.TensorSymbol("x", abs(a) * (rows - 1) + abs(b) * (columns - 1) + 1 + shift)
        read = x[a * i + b * k - least + shift]
        gradient = td.gradient(td.IndexedSum(read * v[i] * w[k], (i, 0, rows - 1), (k, 0, columns - 1)), x)
        ((_, first, last),) = gradient.body.limits
        (p,) = gradient.indices
        low, high = (int(bound.subs({rows: 40, columns: 40, p: 37})) for bound in (first, last))
        assert 0 <= low <= high + 1 <= 37, gradient


@every("strides", [(1, 1), (1, 2), (2, 1), (3, 2), (2, 3), (4, 6)], ids=str, turns=8)
def test_sizes_of_their_own(strides):
    """A call with sizes that do not fit is refused, with and without a table of the inner sums."""
    a, b = strides
    n, m, p = sympy.symbols("n m p", integer=True, positive=True)
    x, w, z = td.TensorSymbol("x", n), td.TensorSymbol("w", m), td.TensorSymbol("z", p)
    y = td.IndexedSum(x[a * i + b * k] * w[k], (k, 0, m - 1))
    gradient = td.gradient(td.IndexedSum((y - z[i]) ** 2, (i, 0, p - 1)), x)
    program = build_program([x, w, z], gradient)
    sizes = {"n": a * 29 + b * 19 + 1, "m": 20, "p": 30}
    assert count(program, sizes).iterations == 2 * 20 * 30
    kernels = [td.lambdify([x, w, z], gradient, "numpy", temporaries=remaining) for remaining in (True, False)]
    rng = np.random.default_rng(0)
    outcomes = []
    for lengths in itertools.product(range(1, 12), (1, 2, 3), (1, 2, 4)):
        arguments = [rng.integers(-4, 5, length).astype(float) for length in lengths]
        found = []
        for kernel in kernels:
            try:
                found.append(kernel(*arguments).tolist())
            except OutOfShapeError as error:
                assert "the sizes of the arguments do not fit" in str(error)
                found.append("refused")
        assert found[0] == found[1], lengths
        outcomes.append(found[0] == "refused")
    assert 10 < sum(outcomes) < len(outcomes) - 10


@every("shift", [1, 5])
@every("strides", [(1, 1), (1, 2), (2, 1), (3, 2), (5, 4), (7, 3)], ids=str)
def test_one_table_wherever_the_reads_begin(strides, shift):
    """Both gradients read the same table, of which one counts the entries from ``shift``."""
    index, offset, extent = places(strides, (I, K))
    x, w, z = td.TensorSymbol("x", extent + shift), td.TensorSymbol("w", K), td.TensorSymbol("z", I)
    y = td.IndexedSum(x[strides[0] * i + strides[1] * k + offset + shift] * w[k], (k, 0, K - 1))
    program = build_program([x, w, z], td.gradient(td.IndexedSum((y - z[i]) ** 2, (i, 0, I - 1)), (x, w)))
    assert count(program, {}).iterations <= 3 * I * K
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-4, 5, s.shape).astype(float) for s in (x, w, z)]
    for found, value in zip(expected(program, arguments), wanted((index + shift,), *arguments), strict=True):
        np.testing.assert_array_equal(found, value)
