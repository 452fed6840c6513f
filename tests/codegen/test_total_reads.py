"""What is read outside of its tensor is 0, integers too, whatever order a kernel computes in; conditions are logic."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from sympy import Abs, Eq, KroneckerDelta, Max, Min, Mod, Ne, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.codegen import program
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.simplify import data_ranges

a, b, c, i, j, k, p, q, n, m = td.indices("a b c i j k p q n m")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", (n, m))
idx, jdx = td.TensorSymbol("idx", m, dtype=int), td.TensorSymbol("jdx", m, dtype=int)
pairs, ends = td.TensorSymbol("pairs", 5, dtype=int), td.TensorSymbol("ends", (3, 2), dtype=int)
z, u = td.TensorSymbol("z", 12), td.TensorSymbol("u", 9)

VALUES = {
    n: 5, m: 4, x: np.arange(2, 7), y: np.arange(20).reshape(5, 4) - 7, z: np.arange(1, 13), u: np.arange(2, 11),
    idx: np.array([3, -1, 7, 1]), jdx: np.array([1, 4, -2, 0]), pairs: np.array([0, 2, 1, -2, 7]),
    ends: np.array([[3, 0], [1, 2], [2, 1]]),
}  # fmt: skip


def sum_of(body, *limits):
    return td.IndexedSum(body, *limits)


def table(body, *axes):
    return td.TensorComprehension(body, *axes)


def where(body, condition):
    return Piecewise((body, condition), (0, True))


NEAR = (pairs[i - 1] <= q) & (q <= pairs[i - 1] + 1) & Eq(idx[i], 1)
ROW = table(sum_of(z[k + 1] * z[j], (k, 0, ends[idx[0] - 2, Max(0, 1 - j)])), (j, 3))
PART = table(sum_of(z[6 * i + 2 * k - 12] * jdx[Abs(3 * i - 6)], (k, 15 * j, 15 * j + 2)), (j, 1))
WINDOW = sum_of(x[p + k + m - 5] * x[k], (k, 0, 2))
ENTRY = pairs[4 - Mod(p, 2)]
ODD = where(sp.sin(sum_of(z[i + 2] * u[p], (i, Max(0, floor(p / 2) + 9 * ENTRY), 4))), Eq(Mod(p, 2), 1) & (ENTRY >= -1))
FREE_MAXIMUM = td.IndexedMax(Piecewise((sum_of(x[j], (j, 0, idx[p - 2])), i <= p - 2), (x[i], True)), (i, 0, 2))

CASES = {
    "a gather": table(x[idx[i]], (i, m)),
    "of rows": sum_of(y[idx[i], j] * x[i + j + m - 5], (i, 0, m - 1), (j, 0, m - 1)),
    "of a gather": table(x[idx[jdx[i] + 1]], (i, m)),
    "by sizes": table(x[p + m - 2] + x[p - m], (p, n)),
    "in both factors": table(x[idx[i]] * y[jdx[i], i + m - 2] + 1, (i, m)),
    "a quotient": table(1 / (1 + x[idx[i]] ** 2), (i, m)),
    "in a condition": table(Piecewise((x[0], Eq(idx[p + m - 2], 0)), (2, True)), (p, n)),
    "in the way of another": table(where(x[i], Eq(idx[i], 3) & Eq(jdx[i + idx[i] - 1], 4)), (i, m)),
    "in the way of each other": sum_of(where(x[i], Eq(idx[i + jdx[i]], jdx[i - idx[i]])), (i, 0, m - 1)),
    "or in the way": table(where(x[idx[i]], (idx[i] < 0) | (jdx[idx[i]] > 0)), (i, m)),
    "as bounds": table(sum_of(x[k], (k, idx[i], jdx[i] + 2)), (i, m)),
    "as bounds from outside": table(sum_of(y[k, i], (k, idx[p + m - 2], 3), (i, 0, jdx[p] + 9)), (p, n)),
    "added up": table(sum_of(x[i] * KroneckerDelta(p, idx[i]), (i, 0, m - 1)), (p, n)),
    "added up outside": table(sum_of(x[idx[i]] * KroneckerDelta(p, jdx[idx[i]]), (i, 0, m - 1)), (p, n)),
    "a window of data": table(sum_of(where(z[i], NEAR), (i, 0, 3)), (q, 3)),
    "sums by value": table(sum_of(x[i] * KroneckerDelta(idx[i], idx[p]), (i, 0, m - 1)), (p, n)),
    "a residual": sum_of(WINDOW**2, (p, 0, n - 1)),
    "a residual in two places": table(where(WINDOW, p > 1) * x[p] + sum_of(WINDOW, (p, 0, n + 1)), (p, n)),
    "of a table": table(table(x[j] ** 2, (j, n))[idx[i]], (i, m)),
    "of a table of sums": table(table(sum_of(x[j + k], (k, 0, m)), (j, n))[p + m - 3], (p, n)),
    "a table between data": sum_of(z[i] * sum_of(z[j + i] * ROW[j], (j, 0, 2)), (i, 0, floor(idx[0] / 2) - 1)),
    "a table behind an equation": table(
        z[pairs[4 - i] + 2] ** 2 * where(PART[0], Ne(i, 1) & (pairs[4 - i] < 1)), (i, 4)
    ),
    "behind a remainder": table(ODD + u[Mod(p, 2)], (p, 5)),
    "by either branch": table(
        Piecewise((z[5 * i] ** 2, Ne(Mod(idx[i], 6), 1) | Eq(Abs(Min(j, 2 * i - 1) - 1), 2)), (u[0] ** 2, True)),
        (i, m),
        (j, 2),
    ),
    "what an axis says of a loop": table(
        sum_of(KroneckerDelta(c, 5 - a - pairs[c]) * z[c], (c, Max(2 - 6 * b, 3 - a), Min(4, 5 - a))), (a, 4), (b, 2)
    ),
    "a maximum": table(td.IndexedMax(x[idx[i]] - x[p + i], (i, 0, m - 1)), (p, n)),
    "the range of a maximum": sum_of(table(FREE_MAXIMUM, (p, n))[p] * (p + 1), (p, 0, n - 1)),
    "deep in a product": table(sp.prod([x[idx[i] + t] + 1 for t in range(-12, 12)]), (i, m)),
}


def value_and_kernels(name, *kernels):
    """The value where no read is refused, by the interpreter, and that of kernels in backends and with temporaries."""
    case = CASES[name]
    values = {key: value for key, value in VALUES.items() if case.has(key)}
    symbols = [key for key in values if key not in (n, m) or not case.has(x if key == n else idx)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "checks_of_reads", lambda *_: ((), (), []))
        patch.setattr(data_ranges, "implied_ranges", lambda *_: {})
        expected = np.array(evaluate(case, values, total=True), dtype=float)
        for backend, temporaries in kernels:
            kernel = td.lambdify(symbols, case, backend, temporaries=temporaries)
            found = kernel(
                *(values[symbol] * np.float64(1) if _is_real(symbol) else values[symbol] for symbol in symbols)
            )
            np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{backend}, {temporaries}")


def _is_real(symbol):
    return isinstance(symbol, td.TensorSymbol) and symbol.dtype is not int


@pytest.mark.parametrize("name", CASES)
def test_as_the_interpreter(name):
    value_and_kernels(name, ("numpy", True), ("numpy", False))


@pytest.mark.parametrize(
    "name", ["of a gather", "as bounds", "a residual", "in the way of each other", "sums by value"]
)
def test_compiled(name):
    value_and_kernels(name, ("numba", True))


@pytest.mark.parametrize("name", CASES)
def test_simulated(name, simulator):
    """CUDA's kernels in the simulator, and Numba's as plain Python."""
    simulator(value_and_kernels, name, ("cuda", True), ("numba", True), ("numba", False))
