"""Calls with arguments like those of the last call skip the checks, and no others do."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError

n = sympy.Symbol("n", integer=True, positive=True)
x = td.TensorSymbol("x", n)
S = td.TensorSymbol("S", (n, n), symmetric=True)
a = sympy.Symbol("a", real=True)


def counted(fn, monkeypatch):
    """The list that grows by one with each call of `fn` that checks its arguments."""
    calls, prepare = [], fn._checker.prepare
    monkeypatch.setattr(fn._checker, "prepare", lambda values: calls.append(1) or prepare(values))
    return calls


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_numbers_of_numpy_are_checked_once(kind, monkeypatch):
    fn = td.lambdify((x, a), a * td.sum(x**2), "numpy")
    calls = counted(fn, monkeypatch)
    for number in (2, 3, 0.5):
        np.testing.assert_allclose(fn(np.arange(3.0), kind(number)), number * 5)
    assert len(calls) == 1
    np.testing.assert_allclose(fn(np.arange(3.0), 2), 10)  # another type
    assert len(calls) == 2


def test_single_precision_stays_so():
    fn = td.lambdify((x, a), a * td.sum(x**2), "numpy")
    values = np.arange(3, dtype=np.float32), np.float32(0.1)
    first, second = fn(*values), fn(*values)
    assert first.dtype == second.dtype == np.float32
    assert first == second


def test_symmetric_matrices_are_compared_at_each_call(monkeypatch):
    fn = td.lambdify((S, x), td.dot(x, S @ x), "numpy")
    calls = counted(fn, monkeypatch)
    matrix, vector = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    assert fn(matrix, vector) == fn(matrix, vector) == 18
    assert len(calls) == 1
    matrix[0, 1] = matrix[1, 0] = 2.0  # changed in place, still symmetric
    assert fn(matrix, vector) == 22
    assert len(calls) == 1
    matrix[0, 1] = 5.0
    with pytest.raises(ArgumentError, match="S is declared symmetric, but its entries"):
        fn(matrix, vector)
    matrix[0, 1] = 2.0 + 1e-12  # within rounding: checked in full, and accepted
    np.testing.assert_allclose(fn(matrix, vector), 22)


def test_other_shapes_and_orders_are_checked_again(monkeypatch):
    fn = td.lambdify((x, a), a * td.sum(x**2), "numpy")
    calls = counted(fn, monkeypatch)
    for length in (3, 4):
        assert fn(np.ones(length), np.float64(1)) == length
    assert fn(np.ones(8)[::2], np.float64(1)) == 4
    assert len(calls) == 3
