"""Kernels whose axes can be exchanged: half of the entries are computed, the others copied."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sympy import Abs

import sympy_tensordiff as td
from sympy_tensordiff.codegen.mirrored import FEWEST

k, p, q, r, s, t, n, m = td.indices("k p q r s t n m")
X, Y, x = td.TensorSymbol("X", (n, 8)), td.TensorSymbol("Y", (n, m)), td.TensorSymbol("x", n)
distance = td.IndexedSum(Abs(X[p, k] - X[q, k]), (k, 0, 7))
both = td.IndexedSum(Abs(Y[p, r] * Y[q, s] + Y[p, k] * Y[q, k]), (k, 0, m - 1))

SYMMETRIC = {
    "square": ([X], td.TensorComprehension(distance, (p, n), (q, n))),
    "behind an axis": ([X, x], td.TensorComprehension(x[t] * distance, (t, n), (p, n), (q, n))),
    "around an axis": ([X, x], td.TensorComprehension(x[t] ** 2 * distance, (p, n), (t, n), (q, n))),
    "in front of an axis": ([X, x], td.TensorComprehension(x[t] * distance, (p, n), (q, n), (t, n))),
    "two pairs at once": ([Y], td.TensorComprehension(both, (p, n), (r, m), (q, n), (s, m))),
}
OTHERS = {
    "cheap": ([x], td.TensorComprehension(x[p] * x[q], (p, n), (q, n))),
    "not the same": ([X, x], td.TensorComprehension(distance * x[p], (p, n), (q, n))),
    "few": ([X], td.TensorComprehension(distance, (p, FEWEST - 1), (q, FEWEST - 1))),
    "other extents": ([X], td.TensorComprehension(distance, (p, n), (q, n - 1))),
}


def as_python(source):
    """The module without its decorators, which is Python."""
    namespace = {"prange": range}
    exec(re.sub(r"(?m)^(@.*|from numba.*)$", "", source), namespace)
    return namespace["run"]


def arrays_of(args, size):
    rng = np.random.default_rng(size)
    extents = {n: size, m: 3}
    return [rng.integers(-9, 9, [extents.get(e, e) for e in arg.shape]) / 8 for arg in args]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_mirrored(name, parallel):
    """In tiles, whatever is left of them, all entries are those that NumPy computes, and exactly symmetric."""
    args, expr = SYMMETRIC[name]
    source = td.generate_code(args, expr, parallel=parallel, temporaries=False)
    assert re.search(r"result\[.*\] = result\[", source)
    for size in (1, 2, 5) if len(expr.shape) > 2 else (1, 31, 32, 33, 70):
        values = arrays_of(args, size)
        expected = td.lambdify(args, expr, backend="numpy")(*values)
        out = np.full(expected.shape, np.nan)
        as_python(source)(*values, out)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OTHERS)
def test_all_entries_are_computed(name):
    args, expr = OTHERS[name]
    assert "_to in" not in td.generate_code(args, expr)


def test_half_of_the_entries_are_computed():
    """What runs for each of them is counted."""
    args, expr = SYMMETRIC["square"]
    source = td.generate_code(args, expr, parallel=False).replace("for k in range(8):", "for k in counted():")
    calls = []
    namespace = {"counted": lambda: calls.append(1) or range(8)}
    exec(re.sub(r"(?m)^(@.*|from numba.*)$", "", source), namespace)
    namespace["run"](np.zeros((40, 8)), np.empty((40, 40)))
    assert len(calls) == 40 * 41 // 2


@pytest.mark.parametrize("parallel", [False, True])
def test_compiled(parallel):
    args, expr = SYMMETRIC["square"]
    function = td.lambdify(args, expr, parallel=parallel)
    for size in (1, 33, 200):
        (points,) = arrays_of(args, size)
        found = function(points)
        np.testing.assert_allclose(found, np.abs(points[:, None] - points).sum(axis=2), rtol=1e-13)
        np.testing.assert_array_equal(found, found.T)


def test_a_kernel_that_others_read_in_the_same_turn_computes_all():
    """Its entries on the other side would come too late."""
    square = td.TensorComprehension(distance, (p, n), (q, n))
    sums = td.TensorComprehension(td.IndexedSum(distance, (q, 0, n - 1)), (p, n))
    function = td.lambdify([X], (square, sums), parallel=False)
    (points,) = arrays_of([X], 40)
    expected = np.abs(points[:, None] - points).sum(axis=2)
    found, total = function(points)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(total, expected.sum(axis=1), rtol=1e-13)


def test_the_plan_tells():
    args, expr = SYMMETRIC["square"]
    assert "fill result[p, q], where q <= p, and the same where p and q are exchanged" in td.lambdify(args, expr).plan
    args, expr = SYMMETRIC["two pairs at once"]
    plan = td.lambdify(args, expr, temporaries=False).plan
    assert "where q <= p, and the same where p and q, r and s are exchanged" in plan
