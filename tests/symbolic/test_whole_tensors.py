"""Whole tensors of rank > 0 never pass for scalars."""

import operator

import numpy as np
import pytest
import sympy
from sympy import Add, Eq, Function, Max, Min, Mul, Pow, Rational, Symbol

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic import TensorComprehension, TensorSymbol, indices

i, n, m = indices("i n m")
A = TensorSymbol("A", (n, m))
B = TensorSymbol("B", (n, m))
x = TensorSymbol("x", n)
T = TensorComprehension(x[i], (i, n))
t = Symbol("t")

BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv),
    *(operator.lt, operator.le, operator.gt, operator.ge, divmod),
]


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("other", [1, 2.5, t, Rational(1, 2), sympy.pi, t + 1, x[i], B, np.ones(3), np.float64(2)])
def test_operators_point_to_index_notation(operation, other):
    hint = r"A has rank 2; write it entry by entry, e.g. TensorComprehension\(A\[i, j\] \+ 1, \(i, n\), \(j, m\)\)"
    with pytest.raises(UnsupportedError, match=hint):
        operation(A, other)
    with pytest.raises(UnsupportedError, match="has rank 2"):
        operation(other, A)


@pytest.mark.parametrize("operation", [operator.neg, operator.pos, abs])
def test_unary_operators(operation):
    with pytest.raises(UnsupportedError, match="x has rank 1"):
        operation(x)
    with pytest.raises(UnsupportedError, match=r"the comprehension T = .* has rank 1; .*T\[i\] \+ 1, \(i, n\)"):
        operation(T)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Add(A, B),
        lambda: Add(1, A),
        lambda: Mul(2, A),
        lambda: Mul(t, A, x[i]),
        lambda: Pow(A, 2),
        lambda: Pow(2, A),
        lambda: sympy.sqrt(A),
        lambda: sympy.exp(A),
        lambda: sympy.sin(T),
        lambda: sympy.atan2(A, t),
        lambda: sympy.sign(A),
        lambda: sympy.Abs(A),
        lambda: sympy.re(A),
        lambda: sympy.gamma(A),
        lambda: sympy.floor(A),
        lambda: Function("f")(A),
        lambda: Function("f")(t, A),
        lambda: Max(A, 0),
        lambda: Max(A, B),
        lambda: Min(x[i], A),
        lambda: Eq(A, B),
        lambda: sympy.Lt(A, B),
        lambda: sympy.Ge(t, A),
        lambda: sympy.KroneckerDelta(A, 1),
        lambda: sympy.transpose(A),
        lambda: sympy.adjoint(A),
        lambda: sympy.Matrix([1, 2]) * A,
        lambda: A * sympy.Matrix([1, 2]),
        lambda: sympy.MatrixSymbol("M", 2, 2) * A,
        lambda: A @ B,
        lambda: x @ np.ones(3),
        lambda: np.ones(3) @ x,
        lambda: sum([A, B]),
    ],
)
def test_functions_and_constructors(build):
    with pytest.raises(UnsupportedError, match=r"whole tensors|products of whole tensors"):
        build()


def test_tensors_are_not_iterable():
    for tensor in (A, x, T, TensorSymbol("s", ())):
        for use in (list, iter, len, sympy.Matrix):
            with pytest.raises(TypeError):
                use(tensor)
        with pytest.raises(TypeError):
            t in tensor  # noqa: B015
    assert not sympy.utilities.iterables.iterable(A)


def test_numpy_does_not_absorb_them():
    with pytest.raises(TypeError, match="__array_ufunc__"):
        np.sin(A)
    with pytest.raises(UnsupportedError):
        np.ones((2, 2)) + A
    assert (np.ones(3) == A) is False


def test_comparison_for_identity_still_works():
    assert TensorSymbol("A", (n, m)) == A
    assert A != B and A != 1 and A != 1.0 and A != "A" and sympy.Float(1) != A
    assert A in {A} and A not in [B, 1, t]
    assert A.is_scalar is False and A.is_commutative is True and not A.is_real
    assert sympy.conjugate(A) == A


def test_rank_0_passes():
    s = TensorSymbol("s", ())
    for build in (lambda: s + 1, lambda: sympy.exp(s), lambda: Max(s, 0), lambda: s < 1, lambda: Eq(s, t), lambda: -s):
        assert build().has(s)
    assert sympy.transpose(s) == s
    assert (2 - s) / 2 == 1 - s / 2
    assert abs(s) == sympy.Abs(s)
    assert np.float64(2) * s == 2.0 * s
