"""Short sums along windows that move with a row: the loop over the row is the innermost."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sympy
from as_python import as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Loop, let
from sympy_tensordiff.codegen.ir.scalars import Bound, Load
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import print_source
from sympy_tensordiff.codegen.schedule.rows import most_steps, windowed
from sympy_tensordiff.integer.affine import Affine

i, j, k, l, p, q, n, m = td.indices("i j k l p q n m")


def filter_adjoint(length):
    """The pullback of a filter with five taps: each tap meets a window of the row."""
    x, h, dy = td.TensorSymbol("x", n + length - 1), td.TensorSymbol("h", length), td.TensorSymbol("dy", n)
    y = td.TensorComprehension(td.IndexedSum(x[i + k] * h[k], (k, 0, length - 1)), (i, n))
    return [h, dy], td.vjp(y, x, dy)


@pytest.mark.usefixtures("uncompiled")
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


def test_a_window_is_counted_from_its_start_where_it_has_fewer_steps():
    """Not where the index of the sum has fewer values, nor where the length of the window is long, or no number."""
    start, end, last, far = (Bound(Affine.variable("p") + shift) for shift in (-8, 0, 2, 7))
    many = Bound(Affine.of(99))
    x = let("v", Load("x", (Affine.variable("i"),)))
    for low, high, stop, steps in (
        (start, end, Bound(Affine.of(9)), 9),
        (start, last, Bound(Affine.of(9)), None),
        (start, last, many, 11),
        (start, far, many, None),
        (start, Bound(Affine.variable("p") + Affine.variable("m")), many, None),
    ):
        loop = Loop("i", (Bound(Affine.of(0)), low), (stop, high), (x,))
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


@pytest.mark.parametrize(("length", "strips"), [(9, 0), (64, 0), (512, 0), (513, 1), (n, 1)])
def test_short_rows_of_known_length_are_one_strip(length, strips):
    a = td.TensorSymbol("a", (9, length))
    table = td.TensorComprehension(td.IndexedSum(a[k, p] ** 2, (k, 0, 8)), (p, length))
    source = print_source(build_program([a], table), "numba")
    assert source.count("for first in range(") == strips
    assert source.count(f"for p in range({length}):") == (0 if strips else 4)
    found = np.empty(700 if length is n else length)
    values = np.random.default_rng(0).normal(size=(9, len(found)))
    as_python(source)(values, found)
    np.testing.assert_allclose(found, (values**2).sum(axis=0), rtol=1e-13)


A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m))
GUARDED = {
    "upper": sympy.And(j < m - 1),
    "lower": sympy.And(j >= 2),
    "both": sympy.And(j >= 1, j < m - 2),
}


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["llvm", "numba"])
@pytest.mark.parametrize("name", GUARDED)
def test_guards_around_sums_are_bounds_of_rows(name, backend):
    """The loop over a row moves inside of a sum down the columns, and the guard with it."""
    total = td.IndexedSum(sympy.Abs(A[i, sympy.Min(j + 1, m - 1)] - B[i, j]) * A[i, j], (i, 0, n - 1))
    table = td.TensorComprehension(sympy.Piecewise((3 * total * B[0, j], GUARDED[name]), (0, True)), (j, m))
    source = td.lambdify([A, B], table, backend, parallel=False).source
    assert re.search(r"for i in range\(n\):\n +for j in range\(", source)
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (2, 3), (5, 40), (3, 600)):
        arrays = rng.normal(size=(rows, columns)), rng.normal(size=(rows, columns))
        wanted = td.lambdify([A, B], table, "numpy", temporaries=False)(*arrays)
        found = td.lambdify([A, B], table, backend, parallel=False)(*arrays)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
