"""Loops over sines and cosines: on vectors, and with the functions of the C library where angles are large."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy
from every import every
from optimised import optimised

import sympy_tensordiff as td
from sympy_tensordiff.codegen.schedule.angles import MAX_NEAR_ANGLE

n, m = sympy.symbols("n m", integer=True, positive=True)
i, j, k = td.indices("i j k")
A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", n)
index = td.TensorSymbol("index", n, dtype=int)
WIDE = [0.0, 2 * MAX_NEAR_ANGLE, -1e30, np.inf, -np.inf, np.nan]

PRODUCT = A[i, k] * x[i]
ROWS = td.TensorComprehension(td.IndexedSum(sympy.sin(PRODUCT) * sympy.cos(PRODUCT), (k, 0, m - 1)), (i, n))
TOTAL = td.IndexedSum(sympy.sin(A[i, k]) + x[i], (k, 0, m - 1), (i, 0, n - 1))
NESTED = td.cos(td.sin(A) + td.exp(td.cos(A)))
UNROLLED = td.TensorComprehension(td.IndexedSum(sympy.sin(x[i] + k), (k, 0, 2)), (i, n))
GUARDED = td.TensorComprehension(sympy.Piecewise((sympy.sin(x[i + 1]), i < n - 1), (0, True)), (i, n))


def expected(A, x):
    """Return NumPy's value of the functions."""
    scaled = A * x[:, None]
    return (
        (np.sin(scaled) * np.cos(scaled)).sum(1),
        (np.sin(A) + x[:, None]).sum(),
        np.cos(np.sin(A) + np.exp(np.cos(A))),
        sum(np.sin(x + k) for k in range(3)),
        np.append(np.sin(x[1:]), 0),
    )


RESULTS = (ROWS, TOTAL, NESTED, UNROLLED, GUARDED)


@pytest.fixture(scope="module")
def function():
    return td.lambdify([A, x], RESULTS, parallel=False)


@pytest.fixture(scope="module")
def products():
    """Those whose angles are rounded, which single precision shows."""
    return td.lambdify([A, x], (ROWS, UNROLLED), parallel=False)


@every("wide", WIDE)
def test_values_with_angles_of_any_size(function, wide):
    check(function, RESULTS, np.float64, wide)


@every("wide", WIDE)
def test_values_in_single_precision(function, products, wide, thorough):
    chosen = (function, RESULTS) if thorough else (products, (ROWS, UNROLLED))
    check(*chosen, np.float32, wide)


def check(function, results, dtype, wide):
    random = np.random.default_rng(7)
    values = random.uniform(-9, 9, (21, 37)).astype(dtype), random.uniform(-3, 3, 21).astype(dtype)
    values[0][4, 5], values[1][8] = wide, wide
    with np.errstate(all="ignore"):
        wanted = expected(*(value.astype(float) for value in values))
        # Of what is rounded to be an angle, the sine is another one.
        angles = (values[0] * values[1][:, None]).astype(float)
        shifted = sum(np.sin((values[1] + dtype(k)).astype(float)) for k in range(3))
        wanted = ((np.sin(angles) * np.cos(angles)).sum(1), *wanted[1:3], shifted, wanted[4])
    wanted = [right for result, right in zip(RESULTS, wanted, strict=True) if result in results]
    for found, right in zip(function(*values), wanted, strict=True):
        scale = np.nanmax(np.abs(np.where(np.isfinite(right), right, 0)), initial=1)
        np.testing.assert_allclose(found, right, rtol=0, atol=40 * np.finfo(dtype).eps * scale)


def test_loops_work_on_vectors(function):
    arithmetic = re.findall(r"= f(?:add|sub|mul) .*<\d+ x double>", optimised(function))
    assert len(arithmetic) >= 5 * 40


@every(
    "expression",
    [
        td.TensorComprehension(sympy.Piecewise((sympy.sin(x[i]), x[i] > 0), (0, True)), (i, n)),
        td.TensorComprehension(td.IndexedSum(sympy.sin(A[i, k]) * sympy.Function("g")(A[i, k]), (k, 0, m - 1)), (i, n)),
        td.TensorComprehension(td.IndexedSum(sympy.sin(A[k, i] * x[k]), (k, 0, n - 1)), (i, m)),
    ],
    ids=["choices", "functions of the user's", "sums over rows"],
)
def test_loops_that_cannot_run_twice(expression):
    source = td.generate_code([A, x, index], expression)
    assert "math." in source
    assert "_near" not in source
    assert "wide" not in source


def test_names_of_the_user():
    wide, angle = td.TensorSymbol("wide", n), td.TensorSymbol("angle", n)
    source = td.generate_code([wide, angle], td.sin(wide) * td.cos(angle))
    assert "wide_1 |= real(100000.0) < abs(angle_1)" in source
    assert "wide_1 |= real(100000.0) < abs(angle_2)" in source
