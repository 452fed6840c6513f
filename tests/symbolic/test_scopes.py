"""Bound indices: no substitution captures them, none reaches them."""

import pytest
import sympy
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Dummy, Idx, Symbol
from written_out import same, written_out

from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorEntry, TensorSymbol, indices

i, j, k, n, m, p, q = indices("i j k n m p q")
x = TensorSymbol("x", n)
y = TensorSymbol("y", n)
X = TensorSymbol("X", (n, n))
S = IndexedSum(x[k] * X[k, i], (k, 0, n - 1))


def test_substituting_the_name_of_a_bound_index_renames_it():
    result = S.subs(i, k)
    (bound,) = result.variables
    assert bound not in (i, k) and bound.is_integer
    assert result == IndexedSum(x[bound] * X[bound, k], (bound, 0, n - 1))
    assert result.free_symbols == {x, X, n, k}
    assert result.dummy_eq(IndexedSum(x[j] * X[j, k], (j, 0, n - 1)))
    assert str(result) == "IndexedSum(X[k_1, k]*x[k_1], (k_1, 0, n - 1))"


def test_renaming_avoids_every_name_inside():
    k_1 = Symbol("k_1", integer=True)
    total = IndexedSum(x[k] * X[k_1, i], (k, 0, n - 1))
    assert total.subs(i, k) == IndexedSum(x[indices("k_2")] * X[k_1, k], (indices("k_2"), 0, n - 1))
    again = S.subs(i, k).subs(k, indices("k_1"))
    assert again.dummy_eq(IndexedSum(x[j] * X[j, k_1], (j, 0, n - 1)))


def test_a_bound_index_is_not_substituted():
    assert S.subs(k, 2) == S
    assert S.subs(k, i) == S
    assert S.subs({k: 5, i: 1}) == IndexedSum(x[k] * X[k, 1], (k, 0, n - 1))
    T = TensorComprehension(x[i] * X[i, j], (i, n))
    assert T.subs(i, 0) == T
    assert T.subs(j, i).dummy_eq(TensorComprehension(x[k] * X[k, i], (k, n)))


def test_an_expression_of_bound_indices_is_another_one_outside():
    assert S.subs(x[k], y[k]) == S
    assert (S + x[k]).subs(x[k], y[k]) == S + y[k]
    assert S.subs(x[i], 3) == S
    total = IndexedSum(x[k] * x[i], (k, 0, n - 1))
    assert total.subs(x[i], y[k]).dummy_eq(IndexedSum(x[j] * y[k], (j, 0, n - 1)))


def test_tensors_and_sizes_are_substituted():
    assert S.subs(x, y) == IndexedSum(y[k] * X[k, i], (k, 0, n - 1))
    assert S.subs(n, 4) == IndexedSum(TensorSymbol("x", 4)[k] * TensorSymbol("X", (4, 4))[k, i], (k, 0, 3))
    T = TensorComprehension(y[k] ** 2, (k, n))
    assert S.subs(x, T) == IndexedSum(T[k] * X[k, i], (k, 0, n - 1))
    assert S.subs(n, k).free_symbols == {TensorSymbol("x", k), TensorSymbol("X", (k, k)), k, i}


def test_bounds_are_substituted_without_capture():
    total = IndexedSum(X[j, k], (j, 0, k), (k, 0, p))
    result = total.subs(p, k)
    assert result.dummy_eq(IndexedSum(X[j, q], (j, 0, q), (q, 0, k)))
    assert total.subs(p, j).dummy_eq(IndexedSum(X[i, q], (i, 0, q), (q, 0, j)))


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


def test_xreplace_does_not_capture_and_renames_bound_indices_on_request():
    assert S.xreplace({i: k}).dummy_eq(IndexedSum(x[j] * X[j, k], (j, 0, n - 1)))
    assert S.xreplace({k: j}) == IndexedSum(x[j] * X[j, i], (j, 0, n - 1))
    assert S.xreplace({x: y}) == IndexedSum(y[k] * X[k, i], (k, 0, n - 1))
    assert S.xreplace({}) is S
    assert S.xreplace({q: k}) is S
    assert S.xreplace({S: p}) == p
    d = Dummy("d", integer=True)
    assert S.xreplace({k: d}).variables == (d,)


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


def test_alpha_equivalence_of_nested_binders():
    def nest(outer, inner):
        total = IndexedSum(x[outer] * IndexedSum(X[outer, inner] * x[inner], (inner, 0, outer)), (outer, 0, n - 1))
        return TensorComprehension(total * y[p], (p, n))

    assert nest(i, j).dummy_eq(nest(j, i))
    assert nest(i, j).dummy_eq(nest(k, q))
    shadow = IndexedSum(x[i] * IndexedSum(x[i], (i, 0, n - 1)), (i, 0, n - 1))
    assert shadow.dummy_eq(IndexedSum(x[i] * IndexedSum(x[j], (j, 0, n - 1)), (i, 0, n - 1)))
    assert not shadow.dummy_eq(IndexedSum(x[i] * IndexedSum(x[i], (j, 0, n - 1)), (i, 0, n - 1)))
    awkward = Symbol("_0", integer=True)
    free = IndexedSum(X[i, awkward], (i, 0, n - 1))
    assert free.as_dummy().free_symbols == free.free_symbols


@every("old", [i, j])
@every("new", [i, j, k, q, i + k, 2 * j, k + q + 1])
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
    symbols = (i, j, k, q)

    def expected(point):
        inside = written_out(new, point)
        return written_out(expr, point | {old: int(inside)})

    result = expr.subs(old, new)
    replaced = expr.xreplace({old: new})
    for value in range(16):
        point = {symbol: value >> bit & 1 for bit, symbol in enumerate(symbols)}
        assert sympy.expand(written_out(result, point) - expected(point)) == 0
        assert sympy.expand(written_out(replaced, point) - expected(point)) == 0


names = st.sampled_from([i, j, k, q])


@settings(deadline=None)
@given(names, names, names, names)
def test_names_of_bound_indices_do_not_matter(outer, inner, free, new):
    """Free index renamed to any name: the value is that of an expression with indices of its own."""
    d, e = Dummy("d", integer=True), Dummy("e", integer=True)
    if free in (outer, inner) or outer == inner:
        return

    def build(a, b):
        return IndexedSum(x[a] * IndexedSum(X[a, b] * y[free + b], (b, 0, a)), (a, 0, 2))

    assert same(build(outer, inner).subs(free, new), build(d, e).xreplace({free: new}), (new,))
    assert build(outer, inner).dummy_eq(build(d, e))


def test_entries_are_rebuilt_with_checks():
    with pytest.raises(IndexError, match="index 9 of axis 0"):
        IndexedSum(TensorSymbol("z", 3)[i] * x[k], (k, 0, 2)).subs(i, 9)
    assert TensorEntry(x, i).subs(i, 2 * j) == x[2 * j]
