"""Sums are checked where they are written: ranges, bodies, the binding of their indices, assumptions."""

import pytest
import sympy
from every import every
from sympy import Idx, Symbol, Tuple

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, IndexExpressionError, UnsupportedError
from sympy_tensordiff.symbolic import IndexedSum, TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices

i, j, k, l, n, m, p = indices("i j k l n m p")
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", n)


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
            r"the index t is declared not to be an integer: use td.indices\('t'\)",
        ),
        ([(3, 0, 3)], IndexExpressionError, "3 is not an index"),
        ([(x, 0, 3)], IndexExpressionError, "x is not an index"),
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


def test_assumptions():
    total = IndexedSum(x[i], (i, 0, n - 1))
    assert total.is_real and total.is_finite and total.is_commutative and total.is_scalar
    assert total.is_zero is None and total.is_positive is None
    assert IndexedSum(0, (i, 0, 3)).is_zero
    assert sympy.conjugate(total) == total
    assert sympy.Abs(total) ** 2 == total**2
