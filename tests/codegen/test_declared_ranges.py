"""Ranges of index arrays, declared or implied: what calls check, and what kernels need not test."""

import numpy as np
import pytest
from sympy import KroneckerDelta, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, DataIndexError
from sympy_tensordiff.testing.values import data_ranges

i, k, m, n, p = td.indices("i k m n p")
x, w, X = td.TensorSymbol("x", n), td.TensorSymbol("w", m), td.TensorSymbol("X", (n, n + 1))
declared = td.TensorSymbol("idx", m, dtype=int, below=n)
total, table = td.IndexedSum, td.TensorComprehension
GIVEN = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 2.0, 5.0])


def gather(idx):
    return total(w[i] * x[idx[i]] ** 2, (i, 0, m - 1))


def guarded(idx):
    return total(Piecewise((w[i] * x[idx[i]], idx[i] >= 0), (0, True)), (i, 0, m - 1))


def histogram(idx):
    return table(total(w[i] * KroneckerDelta(p, idx[i]), (i, 0, m - 1)), (p, n))


def compiled(function, idx, backend="numpy"):
    return td.lambdify((x, w, idx), function(idx), backend)


FUNCTIONS = {
    "value": gather,
    "gradient": lambda idx: td.gradient(gather(idx), x),
    "both": lambda idx: (gather(idx), td.gradient(gather(idx), x)),
    "guarded": guarded,
    "histogram": histogram,
}
SAID = r"idx\[2\] is {}: it is declared with below=n, and has to be from 0 to 2; negative ones do not wrap around"


def test_a_size_of_a_range_alone_is_an_argument():
    picked = td.TensorSymbol("idx", m, dtype=int, below=k)
    value = total(w[i] * picked[i], (i, 0, m - 1))
    with pytest.raises(ArgumentError, match="k is determined by no array's shape; add it to args"):
        td.lambdify((w, picked), value, "numpy")
    function = td.lambdify((w, picked, k), value, "numpy")
    assert function(GIVEN[1], np.array([0, 1, 2, 3]), 4) == 18.0
    with pytest.raises(DataIndexError, match=r"idx\[3\] is 3: it is declared with below=k, .* from 0 to 2"):
        function(GIVEN[1], np.array([0, 1, 2, 3]), 3)


def test_data_are_drawn_in_their_range():
    picked = td.TensorSymbol("idx", 4, dtype=int, below=3)
    y = td.TensorSymbol("y", 9)
    assert data_ranges([total(y[2 * picked[i] + 1], (i, 0, 3))]) == {"idx": (0, 2)}
    td.check_derivative(total(y[2 * picked[i] + 1] ** 2, (i, 0, 3)), y)


def on_the_simulator():
    function = compiled(FUNCTIONS["both"], declared, "cuda")
    value, slope = function(*GIVEN, np.array([2, 0, 1, 2]))
    assert value == 61.0
    np.testing.assert_allclose(slope, [-2.0, 8.0, 36.0])
    with pytest.raises(DataIndexError, match=SAID.format(3)):
        function(*GIVEN, np.array([2, 0, 3, 2]))


def test_ranges_on_the_simulator(simulator):
    simulator(on_the_simulator)
