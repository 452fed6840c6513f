"""Data that are read inside of their tensor wherever they stand shelter others, as numbers and sizes do."""

import numpy as np
import pytest
from sympy import KroneckerDelta, Mod, floor

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing.exact import assert_equal

i, c = td.indices("i c")
place = td.TensorSymbol("place", 5, dtype=int)
x, y, w = td.TensorSymbol("x", 8), td.TensorSymbol("y", 8), td.TensorSymbol("w", 2)
VALUES = {place: np.array([2, 1, 1, 1, 1]), y: np.arange(1, 9), w: np.array([3, 5]), x: np.arange(2, 10)}


@pytest.mark.parametrize("selected", [c, floor(c / 2), Mod(c, 3)], ids=str)
def test_a_range_that_ends_at_data_shelters_data_of_its_index(selected):
    # place[-2*i] is read at i = 1 nowhere: the range from 3 to place[0] == 2 is empty.
    inner = td.IndexedSum(KroneckerDelta(selected, place[-2 * i]) * y[c], (c, 3 * i, place[0]))
    function = td.TensorComprehension(x[i] ** 2 * inner, (i, 2))
    terms = [sum(VALUES[y][c] for c in range(3) if selected.subs(td.indices("c"), c) == 2), 0]
    expected = [a**2 * b for a, b in zip((2, 3), terms, strict=True)]
    assert_equal(evaluate(td.simplify_deltas(function), VALUES), np.array(expected), "value")
    by_x = [2 * a * b * g for a, b, g in zip((2, 3), terms, (3, 5), strict=True)]
    assert_equal(evaluate(td.vjp(function, x, w), VALUES), np.array([*by_x, 0, 0, 0, 0, 0, 0]), "by x")
    by_y = [4 * 3 * (c < 3 and selected.subs(td.indices("c"), c) == 2) for c in range(8)]
    assert_equal(evaluate(td.vjp(function, y, w), VALUES), np.array(by_y), "by y")
