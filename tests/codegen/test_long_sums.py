"""Numba adds the terms of a long sum part by part, so that the error does not grow with their number."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.schedule.short_rows import PART

i, j, k, n, m = td.indices("i j k n m")
x, z, y = (td.TensorSymbol(name, extent) for name, extent in (("x", n), ("z", n), ("y", m)))
A = td.TensorSymbol("A", (n, m))
row = td.IndexedSum(A[i, j] * y[j], (j, 0, m - 1))
COUNT = 10**6 + 3


def tenths(*shape):
    return np.full(shape, 0.1, np.float32)


LONG = {
    "entries": (td.sum(x), {x: tenths(COUNT)}, 0.1 * COUNT),
    "from 3 on": (td.IndexedSum(x[i - 3], (i, 3, n + 2)), {x: tenths(COUNT)}, 0.1 * COUNT),
    "backwards": (td.IndexedSum(x[n - 1 - i], (i, 0, n - 1)), {x: tenths(COUNT)}, 0.1 * COUNT),
    "every third": (td.IndexedSum(x[3 * i], (i, 0, sympy.floor((n - 1) / 3))), {x: tenths(COUNT)}, 0.1 * 333335),
    "a condition": (
        td.IndexedSum(sympy.Piecewise((x[i], i > 7), (0, True)), (i, 0, n - 1)),
        {x: tenths(COUNT)},
        0.1 * (COUNT - 8),
    ),
    "functions": (td.sum(td.elementwise(sympy.exp, x)), {x: tenths(COUNT)}, np.exp(0.1) * COUNT),
    "angles": (td.sum(td.elementwise(sympy.cos, x)), {x: tenths(COUNT)}, np.cos(0.1) * COUNT),
    "two sums": (td.sum(x) * td.sum(td.elementwise(sympy.exp, z)), {x: tenths(COUNT), z: tenths(COUNT)}, 0.0),
    "three columns": (
        td.sum(td.TensorSymbol("B", (n, 3))),
        {td.TensorSymbol("B", (n, 3)): tenths(COUNT, 3)},
        0.3 * COUNT,
    ),
    "three rows": (td.sum(td.TensorSymbol("B", (3, n))), {td.TensorSymbol("B", (3, n)): tenths(3, COUNT)}, 0.3 * COUNT),
    "a matrix": (td.sum(A), {A: tenths(1003, 997)}, 0.1 * 1003 * 997),
    "sums of sums": (
        td.IndexedSum(sympy.exp(row), (i, 0, n - 1)),
        {A: tenths(COUNT, 2), y: tenths(2)},
        np.exp(0.02) * COUNT,
    ),
}
LONG["two sums"] = (*LONG["two sums"][:2], 0.1 * np.exp(0.1) * COUNT**2)


# Of one loop over one array, others are compiled below, and with conditions, and of two sums.
ALIKE = ["from 3 on", "backwards", "every third", "functions", "three rows"]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if n in ALIKE else ()) for n in LONG])
def test_the_error_does_not_grow_with_the_number_of_terms(name):
    expression, given, right = LONG[name]
    kernel = td.lambdify(list(given), expression, "numba")
    found = kernel(*given.values())
    assert found.dtype == np.float32
    assert abs(float(found) / right - 1) < 2e-6, abs(float(found) / right - 1)


def test_a_sum_to_which_each_turn_adds():
    """Of a loop that fills an array as well; the terms of a turn may be a sum themselves."""
    outer = td.IndexedSum(sympy.exp(A[i, j] * A[k, j]), (j, 0, m - 1))
    cases = [
        (
            td.TensorComprehension(row, (i, n)),
            td.IndexedSum((row - z[i]) ** 2, (i, 0, n - 1)),
            (COUNT, 2),
            (0.02 - 0.1) ** 2 * COUNT,
        ),
        (
            td.TensorComprehension(outer, (i, n), (k, n)),
            td.IndexedSum(outer * z[i], (i, 0, n - 1), (k, 0, n - 1)),
            (1000, 1),
            0.1 * np.exp(0.01) * 10**6,
        ),
    ]
    for array, total, shape, right in cases:
        kernel = td.lambdify([A, y, z], [array, total], "numba")
        assert "to which each adds" in kernel.source
        _, found = kernel(tenths(*shape), tenths(shape[1]), tenths(shape[0]))
        assert abs(float(found) / right - 1) < 2e-6


@pytest.mark.usefixtures("uncompiled")
@every("number, name", list(enumerate(["sum", "angles", "condition", "two", "matrix", "turns"])))
def test_all_terms_are_added_once(number, name, thorough):
    for dtype in (np.float32, np.float64) if thorough else ((np.float32, np.float64)[number % 2],):
        check_all_terms(name, dtype)


def check_all_terms(name, dtype):
    total = td.IndexedSum(x[i] * z[i], (i, 0, n - 1))
    expression = {
        "sum": td.IndexedSum(x[i] * z[n - 1 - i], (i, 2, n - 2)),
        "angles": td.sum(td.elementwise(sympy.sin, x)),
        "condition": td.IndexedSum(sympy.Piecewise((x[i], i > 1030), (z[i], True)), (i, 0, n - 1)),
        "two": sympy.exp(-(td.sum(x) ** 2) / 10**7) + td.IndexedSum(sympy.Abs(z[i]), (i, 1, n - 1)),
        "matrix": td.IndexedSum(sympy.Abs(x[i] - z[j]), (j, i, sympy.Min(n - 1, i + 9)), (i, 0, n - 1)),
        "turns": [td.TensorComprehension(sympy.exp(x[k] / 9) * total, (k, n)), total],
    }[name]
    kernels = [td.lambdify([x, z], expression, backend) for backend in ("numba", "numpy")]
    rng = np.random.default_rng(0)
    for length in (1, 2, 7, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 17):
        arguments = [rng.integers(-4, 5, length).astype(dtype) for _ in range(2)]
        if name == "angles":
            arguments[0][length // 2] = 3e5
        found, right = (kernel(*arguments) for kernel in kernels)
        pairs = zip(found, right, strict=True) if name == "turns" else [(found, right)]
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=1e-5)
