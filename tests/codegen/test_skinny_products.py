"""Sums for the few columns of a matrix read the other factor along its rows, whatever else is in them."""

import numpy as np
import pytest
import sympy
from sympy import Piecewise

import sympy_tensordiff as td

i, k, p, q = td.indices("i k p q")
n, m = td.indices("n m")
Sum, Entries = td.IndexedSum, td.TensorComprehension
B, w = td.TensorSymbol("B", (n, m)), td.TensorSymbol("w", n)


def fitted(columns):
    """The gradient of distances of a curve from points by its control points, which are also penalised."""
    P, Q = td.TensorSymbol("P", (m, columns)), td.TensorSymbol("Q", (n, columns))
    miss = Sum(B[i, k] * P[k, q], (k, 0, m - 1)) - Q[i, q]
    bending = Sum((P[k + 1, q] - P[k, q]) ** 2, (q, 0, columns - 1), (k, 0, m - 2))
    value = Sum(sympy.sqrt(1 + Sum(miss**2, (q, 0, columns - 1))), (i, 0, n - 1)) + bending
    return (P, Q, B), (value, td.gradient(value, P))


def fitted_by_numpy(P, Q, B):
    miss = B @ P - Q
    length = np.sqrt(1 + (miss**2).sum(1))
    steps = np.diff(P, axis=0)
    ends = np.zeros((1, P.shape[1]))
    bending = 2 * (np.concatenate([ends, steps]) - np.concatenate([steps, ends]))
    return length.sum() + (steps**2).sum(), B.T @ (miss / length[:, None]) + bending


def kernel_sums(columns):
    """Sums of squares of differences, for few columns, guarded."""
    V = td.TensorSymbol("V", (n, columns))
    total = Sum((B[i, p] - w[i]) ** 2 * V[i, q], (i, 0, n - 1))
    return (B, V, w), Entries(Piecewise((total, p > 0), (w[0], True)), (p, m), (q, columns))


def kernel_sums_by_numpy(B, V, w):
    wanted = ((B - w[:, None]) ** 2).T @ V
    wanted[0] = w[0]
    return wanted


def arrays_for(arguments, rows, columns):
    random = np.random.default_rng(rows)
    return [
        random.normal(size=[int(sympy.sympify(extent).subs({n: rows, m: columns})) for extent in one.shape])
        for one in arguments
    ]


SIZES = [(1, 1), (1, 3), (5, 1), (2, 2), (7, 9), (33, 17), (130, 12)]


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize(
    "backend",
    [
        "llvm",
        pytest.param("uncompiled", marks=pytest.mark.in_turns(3)),
        pytest.param("numba", marks=pytest.mark.in_turns(10)),
    ],
    indirect=True,
)
def test_values(columns, backend):
    for make, by_numpy in ((fitted, fitted_by_numpy), (kernel_sums, kernel_sums_by_numpy)):
        arguments, results = make(columns)
        compiled = td.lambdify(arguments, results, backend)
        for size in SIZES:
            arrays = arrays_for(arguments, *size)
            found, wanted = compiled(*arrays), by_numpy(*arrays)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_values_in_single_precision_and_of_strided_arrays():
    for make, by_numpy in ((fitted, fitted_by_numpy), (kernel_sums, kernel_sums_by_numpy)):
        arguments, results = make(2)
        compiled = td.lambdify(arguments, results, "llvm")
        for size in SIZES:
            arrays = arrays_for(arguments, *size)
            wanted = by_numpy(*arrays)
            for one, other in zip(compiled(*map(np.asfortranarray, arrays)), wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
            for one, other in zip(compiled(*(a.astype(np.float32) for a in arrays)), wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("columns", [2, 3])
def test_no_loop_reads_columns(columns):
    plan = td.lambdify(*fitted(columns), "llvm", parallel=False).plan
    assert "along which its sums read" in plan
    assert "sink: the last axis runs inside of sums" in plan
    assert "B_turned" not in plan
