"""Gradients of windows that begin where data say: they are added along the window, not searched for at each entry."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.ir.scalars import Operation
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program

a, k, q, n, m, K = td.indices("a k q n m K")
x, P, M = td.TensorSymbol("x", n), td.TensorSymbol("P", m), td.TensorSymbol("M", (K, m))
first = td.TensorSymbol("first", K, dtype=int)
WINDOWS = td.IndexedSum(
    (td.IndexedSum(P[a] * x[first[k] + a] * sympy.cos(2 * sympy.pi * a * q / m), (a, 0, m - 1)) - M[k, q]) ** 2,
    (q, 0, m - 1),
    (k, 0, K - 1),
)
ARGUMENTS = x, P, M, first


def wanted(values, pupil, amplitudes, begin):
    """Return the value and its gradient by `x`; entries outside of `x` are 0."""
    size = len(pupil)
    table = np.cos(2 * np.pi * np.outer(np.arange(size), np.arange(size)) / size)
    places = begin[:, None] + np.arange(size)
    inside = (places >= 0) & (places < len(values))
    windows = np.where(inside, values[np.where(inside, places, 0)], 0) * pupil
    rest = windows @ table - amplitudes
    gradient = np.zeros_like(values)
    np.add.at(gradient, places[inside], (2 * rest @ table.T * pupil)[inside])
    return (rest**2).sum(), gradient


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(backend, dtype):
    function = td.lambdify(ARGUMENTS, (WINDOWS, td.gradient(WINDOWS, x)), backend)
    rng = np.random.default_rng(0)
    for count, size, windows in ((12, 4, 5), (5, 1, 3), (1, 1, 1), (9, 9, 2), (20, 3, 40)):
        arrays = [rng.normal(size=shape).astype(dtype) for shape in (count, size, (windows, size))]
        begin = rng.integers(0, count - size + 1, windows)
        expected = wanted(*(array.astype(float) for array in arrays), begin)
        tolerance = 1e-4 if dtype is np.float32 else 1e-11
        for found, value in zip(function(*arrays, begin), expected, strict=True):
            np.testing.assert_allclose(found, value, tolerance, atol=tolerance)


def test_loops_run_along_the_window_and_read_the_table_of_cosines():
    program = build_program(ARGUMENTS, td.gradient(WINDOWS, x))
    (scatter,) = (step for step in program.kernels if isinstance(step, Scatter))
    assert len(scatter.axes) == 1  # the windows; the bounds of the loop along each keep it inside of the array
    functions = {part.function for part in scalars(scatter.body) if isinstance(part, Operation)}
    assert functions <= {"add", "mul", "neg"}
