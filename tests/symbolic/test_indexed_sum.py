import pytest
import sympy
from every import every
from sympy import Idx, Max, Min, Symbol, Tuple, ceiling, floor

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, IndexExpressionError, UnsupportedError
from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorSymbol, indices
from sympy_tensordiff.symbolic.limits import bound_forms

i, j, k, l, n, m, p = indices("i j k l n m p")
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", n)


def test_parts():
    total = IndexedSum(A[i, j], (j, 0, i), (i, 0, n - 1))
    assert total.body == total.function == A[i, j]
    assert total.limits == (Tuple(j, 0, i), Tuple(i, 0, n - 1))
    assert total.variables == (j, i)
    assert total.bound_symbols == [j, i]
    assert total.free_symbols == {A, n, m}
    assert [index for index, _, _ in total.ranges()] == [i, j]


def test_free_symbols_are_those_outside():
    assert IndexedSum(A[i, j] * k, (j, 0, p)).free_symbols == {A, n, m, i, k, p}
    free = IndexedSum(x[i], (i, 0, n - 1)).free_symbols
    free.clear()
    assert IndexedSum(x[i], (i, 0, n - 1)).free_symbols == {x, n}
    nested = IndexedSum(x[i] * IndexedSum(x[i], (i, 0, j)), (i, 0, p))
    assert nested.free_symbols == {x, n, j, p}


def test_dependent_bounds_of_the_paper():
    y = TensorSymbol("y", n)
    total = IndexedSum(y[l], (l, 2 * i - 1, i + k), (k, 0, i), (i, 1, 3))
    assert total.variables == (l, k, i)
    assert total.free_symbols == {y, n}


@every(
    "low, high, lows, highs",
    [
        (0, n - 1, {0}, {n - 1}),
        (Max(0, p - 2), Min(4, p), {0, p - 2}, {4, p}),
        (ceiling(p / 2), floor(p / 2) + 3, {ceiling(p / 2)}, {floor(p / 2) + 3}),
        (Max(1, ceiling(p / 3)) - 1, Min(n, m) - 1, {0, ceiling(p / 3) - 1}, {n - 1, m - 1}),
        (-Min(p, 3), -Max(p, 3), {-p, -3}, {-p, -3}),
        (0, p + 2 * Min(n, m), {0}, {p + 2 * n, p + 2 * m}),
        (Min(0, p), 3 - Min(n, m), {Min(0, p)}, {3 - Min(n, m)}),
    ],
)
def test_bounds_are_maxima_and_minima(low, high, lows, highs):
    total = IndexedSum(x[k], (k, low, high))
    assert set(bound_forms(total.limits[0][1], Max)) == lows
    assert set(bound_forms(total.limits[0][2], Min)) == highs
    ((index, lower, upper),) = total.ranges()
    assert (index, set(lower), set(upper)) == (k, lows, highs)


@every("limits", [(), (i,), ((i,),), ((i, n),), ((i, 0, None),), (Idx("i"),), ("i",), ({i: 3},)])
def test_a_sum_needs_a_range(limits):
    with pytest.raises(ArgumentError, match=r"has no (complete )?range; write .*\(k, 0, n - 1\)"):
        IndexedSum(x[i], *limits)


@every(
    "limits, error, message",
    [
        ([(i, 0, sympy.oo)], ArgumentError, "the upper bound of i is oo; a finite range is needed"),
        ([(i, -sympy.oo, 3)], ArgumentError, "the lower bound of i is -oo"),
        ([(i, 0, sympy.nan)], ArgumentError, "the upper bound of i is nan"),
        (
            [(Symbol("t", integer=False), 0, 3)],
            IndexExpressionError,
            r"the index t is declared to be no integer: use td.indices\('t'\)",
        ),
        ([(3, 0, 3)], IndexExpressionError, "3 is no index"),
        ([(x, 0, 3)], IndexExpressionError, "x is no index"),
        ([(i, 0, n / 2)], IndexExpressionError, r"upper bound of i: n/2 is not an integer .* floor\(n/2\)"),
        ([(i, 0, 2**n)], IndexExpressionError, r"upper bound of i: 2\*\*n is a power"),
        ([(i, 0, 2.5)], IndexExpressionError, "upper bound of i: 2.5.* is a float"),
        ([(i, x[0], 3)], IndexExpressionError, r"lower bound of i: x\[0\] is data of a tensor"),
        ([(i, 0, 2), (i, 0, 3)], ArgumentError, "the index i occurs in two limits; use two names"),
        ([(i, 0, i)], IndexExpressionError, "the range of i depends on itself"),
        ([(i, 0, n), (j, 0, i)], IndexExpressionError, "the range of j depends on i, which is bound further inside"),
        ([(i, "0", 3)], ArgumentTypeError, "not '0'"),
        ([(Idx("i", n), 0, 3)], ArgumentError, r"i in the body x\[i\] is not the index i of the limit"),
    ],
)
def test_range_refusals(limits, error, message):
    with pytest.raises(error, match=message):
        IndexedSum(x[i], *limits)


@every(
    "body, error, message",
    [
        (x, UnsupportedError, r"x has rank 1; .*TensorComprehension\(x\[i\] \+ 1, \(i, n\)\)"),
        (x + 1, UnsupportedError, r"the tensor T = .* has rank 1; write it entry by entry"),
        (sympy.I * x[i], UnsupportedError, "is complex"),
        (x[i] > 0, ArgumentTypeError, "must be a scalar expression"),
        (sympy.Matrix([1]), ArgumentTypeError, "must be a scalar expression"),
        ((1,), ArgumentTypeError, "must be a scalar expression"),
        ([1], ArgumentTypeError, r"not \[1\]"),
        ("x", ArgumentTypeError, "not 'x'"),
    ],
)
def test_bodies_are_real_scalars(body, error, message):
    with pytest.raises(error, match=message):
        IndexedSum(body, (i, 0, 2))


def test_idx_brings_its_range():
    I, J = Idx("i", n), Idx("j", (1, 4))
    total = IndexedSum(x[I] * J, I, (J,))
    assert total.limits == (Tuple(I, 0, n - 1), Tuple(J, 1, 4))
    assert total.free_symbols == {x, n}
    assert IndexedSum(x[I], (I, 0, 2)).limits == (Tuple(I, 0, 2),)
    assert total.subs(n, 5).limits[0] == Tuple(Idx("i", 5), 0, 4)
    assert total.subs(n, 5).free_symbols == {TensorSymbol("x", 5)}
    assert total.subs(Symbol("i", integer=True), 3) == total


def test_idx_in_nested_binders_keeps_its_binding_under_subs():
    I = Idx("i", n)
    T = TensorComprehension(IndexedSum(x[I] * A[I, j], (j, 0, m - 1)), I)
    assert T.subs(n, 4).free_symbols == {TensorSymbol("x", 4), TensorSymbol("A", (4, m)), m}


def test_sums_of_one_name_nest_and_stand_side_by_side():
    inner = IndexedSum(x[i], (i, 0, n - 1))
    outer = IndexedSum(inner * x[i], (i, 0, n - 1))
    assert outer.body == inner * x[i]
    assert inner + inner == 2 * inner


def test_nothing_is_summed():
    for total in (IndexedSum(1, (i, 0, 3)), IndexedSum(x[0], (i, 0, 3)), IndexedSum(x[i], (i, 5, 2))):
        assert isinstance(total, IndexedSum)
        assert total.doit() == total
    assert IndexedSum(sympy.Integral(p, p) + x[i], (i, 0, 3)).doit() == IndexedSum(p**2 / 2 + x[i], (i, 0, 3))
    T = TensorComprehension(x[i] ** 2, (i, n))
    assert IndexedSum(T[j], (j, 0, n - 1)).doit() == IndexedSum(x[j] ** 2, (j, 0, n - 1))
    assert IndexedSum(T[j], (j, 0, n - 1)).doit(deep=False) == IndexedSum(T[j], (j, 0, n - 1))


def test_assumptions():
    total = IndexedSum(x[i], (i, 0, n - 1))
    assert total.is_real and total.is_finite and total.is_commutative and total.is_scalar
    assert total.is_zero is None and total.is_positive is None
    assert IndexedSum(0, (i, 0, 3)).is_zero
    assert sympy.conjugate(total) == total
    assert sympy.Abs(total) ** 2 == total**2


def test_trusted_constructor_builds_equal_objects():
    total = IndexedSum(x[i] * A[i, j], (j, 0, i), (i, 0, n - 1))
    assert IndexedSum._trusted(total.body, total.limits) == total
    assert IndexedSum._trusted(total.body, ((j, sympy.S.Zero, i), (i, sympy.S.Zero, n - 1))) == total
