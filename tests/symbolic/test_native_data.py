"""An ``IndexedBase`` that is declared to hold integers selects entries, as a tensor of integers does."""

import numpy as np
import pytest
import sympy
from sympy import IndexedBase, Sum, symbols

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, DataIndexError, IndexExpressionError, UnsupportedError

M, N = symbols("M N", integer=True, positive=True)
e, p = symbols("e p", integer=True)
r, k = IndexedBase("r", shape=N), IndexedBase("k", shape=M)
start, end = (IndexedBase(name, shape=M, integer=True) for name in ("start", "end"))
ENERGY = Sum(k[e] * (r[start[e]] - r[end[e]]) ** 2, (e, 0, M - 1))
RNG = np.random.default_rng(1)


def test_springs():
    places, stiffness = RNG.normal(size=5), RNG.normal(size=7)
    ends = RNG.integers(0, 5, size=(2, 7))
    function = td.lambdify([r, k, start, end], (ENERGY, td.gradient(ENERGY, r), td.diff(ENERGY, r[3])), "numpy")
    energy, force, one = function(places, stiffness, *ends)
    stretch = places[ends[0]] - places[ends[1]]
    expected = np.zeros(5)
    np.add.at(expected, ends[0], 2 * stiffness * stretch)
    np.add.at(expected, ends[1], -2 * stiffness * stretch)
    np.testing.assert_allclose(energy, (stiffness * stretch**2).sum(), rtol=1e-13)
    np.testing.assert_allclose(force, expected, rtol=1e-13)
    np.testing.assert_allclose(one, expected[3], rtol=1e-13)
    with pytest.raises(DataIndexError, match=r"end\[0\] is 5: the index end\[e\] of axis 0 of r"):
        function(places, stiffness, np.zeros(7, int), np.full(7, 5))
    with pytest.raises(ArgumentTypeError, match="argument start has dtype float64, but selects entries"):
        function(places, stiffness, ends[0] * 1.0, ends[1])


def test_same_as_a_tensor_of_integers():
    lifted = td.lift(ENERGY)
    assert {t for t in lifted.free_symbols if getattr(t, "dtype", None) is int} == {
        td.TensorSymbol("start", M, dtype=int),
        td.TensorSymbol("end", M, dtype=int),
    }
    assert td.lift(lifted.rewrite(Sum)) == lifted
    (n_at,) = symbols("n_at", integer=True, positive=True, seq=True)
    assert td.TensorSymbol("at", n_at, dtype=int) in td.lift(r[IndexedBase("at", integer=True)[e]]).free_symbols
    scalar = td.TensorSymbol("s", (), dtype=int)
    written = td.IndexedSum(td.lift(r)[scalar] * td.lift(k)[e], (e, 0, M - 1)).rewrite(Sum)
    assert sympy.Symbol("s", integer=True) in written.free_symbols


def test_refused():
    with pytest.raises(UnsupportedError, match="nothing has a derivative with respect to start, a tensor of integers"):
        td.diff(Sum(start[e] * k[e], (e, 0, M - 1)), start[p])
    with pytest.raises(
        IndexExpressionError, match=r"k\[e\] is data of a tensor, .* or IndexedBase\('idx', integer=True\)"
    ):
        td.diff(Sum(r[k[e]], (e, 0, M - 1)), r[p])
