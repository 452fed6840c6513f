"""Bound indices: no substitution captures them, none reaches them."""

import pytest
import sympy
from every import every
from sympy import Dummy, Idx, Symbol

from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic import IndexedSum, TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.testing import random_values

i, j, k, n, m, p, q = indices("i j k n m p q")
x = TensorSymbol("x", n)
y = TensorSymbol("y", n)
X = TensorSymbol("X", (n, n))
S = IndexedSum(x[k] * X[k, i], (k, 0, n - 1))


def test_nested_binders_of_one_name():
    total = IndexedSum(x[k] * IndexedSum(X[k, i], (k, 0, n - 1)), (k, 0, n - 1))
    result = total.subs(i, k)
    assert result.dummy_eq(IndexedSum(x[j] * IndexedSum(X[q, k], (q, 0, n - 1)), (j, 0, n - 1)))
    assert total.subs(k, 0) == total


def test_simultaneous_substitution():
    T = X[i, j] + IndexedSum(X[i, k] * X[k, j], (k, 0, n - 1))
    assert T.subs({i: j, j: i}, simultaneous=True) == X[j, i] + IndexedSum(X[j, k] * X[k, i], (k, 0, n - 1))
    swapped = T.subs({i: k, j: i}, simultaneous=True)
    assert swapped.dummy_eq(X[k, i] + IndexedSum(X[k, q] * X[q, i], (q, 0, n - 1)))
    y3 = TensorSymbol("y", 3)
    assert S.subs({x: y3, n: 3, i: 0}, simultaneous=True) == S.subs(x, y).subs(n, 3).subs(i, 0)
    both = IndexedSum(x[k] * y[k + 1], (k, 0, p))
    assert both.subs({x: y, y: x}, simultaneous=True) == IndexedSum(y[k] * x[k + 1], (k, 0, p))


def test_idx_and_dummy_indices_are_renamed_in_kind():
    I = Idx("k", n)
    total = IndexedSum(X[I, i], I)
    result = total.subs(i, I)
    (bound,) = result.variables
    assert isinstance(bound, Idx) and bound != I and bound.upper == n - 1
    d = Dummy("d", integer=True)
    (bound,) = IndexedSum(X[d, i], (d, 0, n - 1)).subs(i, d).variables
    assert isinstance(bound, Dummy) and bound != d
    positive = Symbol("k", integer=True, nonnegative=True)
    (bound,) = IndexedSum(X[positive, i], (positive, 0, n - 1)).subs(i, positive).variables
    assert bound.is_nonnegative


def test_alpha_equivalence():
    renamed = IndexedSum(x[j] * X[j, i], (j, 0, n - 1))
    assert renamed != S
    assert renamed.dummy_eq(S) and S.dummy_eq(renamed)
    assert renamed.as_dummy() == S.as_dummy()
    assert not S.dummy_eq(IndexedSum(x[k] * X[i, k], (k, 0, n - 1)))
    assert not S.dummy_eq(IndexedSum(x[k] * X[k, j], (k, 0, n - 1)))
    assert sympy.sin(renamed).dummy_eq(sympy.sin(S))
    assert S.as_dummy().free_symbols == S.free_symbols
    assert S.as_dummy().as_dummy() == S.as_dummy()


@every("old", [i, j])
@every("new", [i, j, k, q, i + k, 2 * j, k + q + 1], turns=8)
@every(
    "expr",
    [
        IndexedSum(X[i, k] * x[k + j], (k, 0, 2)),
        IndexedSum(X[i, k] * IndexedSum(X[k, j] * x[q], (q, 0, k)), (k, i, 3)),
        IndexedSum(x[k] * IndexedSum(X[i, k] + x[j], (k, 0, i)), (k, 0, 2)),
        IndexedSum(X[i, q] * x[k], (k, j, q), (q, 0, i)),
    ],
)
def test_substitution_means_what_it_says(expr, old, new):
    values = random_values((x, X), {n: 9}, seed=1)
    for number in range(16):
        point = values | {symbol: number >> bit & 1 for bit, symbol in enumerate((i, j, k, q))}
        expected = evaluate(expr, point | {old: evaluate(new, point)})
        assert evaluate(expr.subs(old, new), point) == evaluate(expr.xreplace({old: new}), point) == expected


def test_entries_are_rebuilt_with_checks():
    with pytest.raises(IndexError, match="index 9 of axis 0"):
        IndexedSum(TensorSymbol("z", 3)[i] * x[k], (k, 0, 2)).subs(i, 9)
    assert TensorEntry(x, i).subs(i, 2 * j) == x[2 * j]
