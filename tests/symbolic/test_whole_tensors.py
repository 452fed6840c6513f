"""Whole tensors of rank > 0 never pass for scalars: SymPy's scalar nodes refuse them, and say what to write."""
# ruff: noqa: SIM300

import operator
import re

import numpy as np
import pytest
import sympy
from every import every
from sympy import Eq, Function, Integer, Max, Min, Mul, Piecewise, Pow, Rational, Symbol

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError
from sympy_tensordiff.symbolic import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.index_notation.indices import indices

i, n, m = indices("i n m")
A = TensorSymbol("A", (n, m))
B = TensorSymbol("B", (n, m))
x = TensorSymbol("x", n)
T = TensorComprehension(x[i], (i, n))
t = Symbol("t", real=True)
matrix = sympy.Matrix([[1, 2], [3, 4]])
array = sympy.Array([1, 2])
symbol = sympy.MatrixSymbol("M", 3, 3)

FUNCTIONS = [
    *(sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tan, sympy.asin, sympy.sinh, sympy.tanh, sympy.acosh),
    *(sympy.sign, sympy.re, sympy.im, sympy.arg, sympy.gamma, sympy.loggamma, sympy.erf, sympy.floor, sympy.ceiling),
    *(sympy.Heaviside, sympy.DiracDelta, sympy.LambertW, sympy.factorial, sympy.zeta, sympy.sinc, Function("f")),
    *(lambda e: sympy.log(e, 2), lambda e: sympy.atan2(e, t), lambda e: sympy.besselj(0, e), lambda e: Mul(e, 0)),
    *(lambda e: Function("f")(t, e), lambda e: sympy.Mod(e, 2), lambda e: sympy.KroneckerDelta(e, 1)),
    *(lambda e: sympy.exp(e, evaluate=False), lambda e: sympy.sin(t).subs(t, e)),
    lambda e: sympy.sin(t).xreplace({t: e}),
]  # fmt: skip


@every("tensor", [A, x, T, 2 * A, A + 1, td.sin(A), A @ A.T, td.inv(A @ A.T)])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: getattr(f, "__name__", str(f)))
def test_functions_of_sympy(function, tensor):
    with pytest.raises(
        UnsupportedError, match=r"a scalar is needed, and .* has rank [12]; (entry by entry it is|SymPy makes it)"
    ):
        function(tensor)


PLACES = {
    "exp": (lambda: sympy.exp(A), r"exp of a whole tensor: .* A has rank 2; .* td.elementwise\(exp, A\)"),
    "Max": (lambda: Max(A, 0), r"Max or Min of a whole tensor: .* write td.maximum\(A, B\) or td.minimum"),
    "Max of two": (lambda: Max(A, B), "Max or Min"),
    "Min": (lambda: Min(x[i], A), "Max or Min"),
    "Max by subs": (lambda: Max(t, 0).subs(t, A), "Max or Min"),
    "Eq": (lambda: Eq(A, B), "Eq of a whole tensor.*a comparison of tensors is one truth for each entry"),
    "Eq with a number": (lambda: Eq(1, A), "Eq of a whole tensor"),
    "Ne": (lambda: sympy.Ne(A, B), "Eq of a whole tensor"),
    "Lt": (lambda: sympy.Lt(A, B), r"a comparison of a whole.* entries by td.where\(td.greater\(A, B\), A, B\)"),
    "Ge": (lambda: sympy.Ge(t, A), "a comparison of a whole tensor"),
    "less": (lambda: A < B, r"operator <: .*: write td.less\(A, B\), 1 where .*td.where\(td.less\(A, B\), A, B\)"),
    "reflected": (lambda: 1 <= A, r"operator >=: .*td.greater_equal\(A, B\)"),
    "greater": (lambda: A > t, "operator >"),
    "at least": (lambda: T >= x, r"operator >=: a scalar is needed, and the tensor T = .* has rank 1"),
    "Piecewise": (lambda: Piecewise((A, t > 0), (B, True)), r"case of Piece.* td.where.* td.gradient\(expression, X\)"),
    "a certain case": (lambda: Piecewise((A, True)), "a case of Piecewise"),
    "power 0": (lambda: Pow(A, 0), r"Pow\(A, 0\): .* SymPy makes it the scalar 1: write \*\* or td.ones"),
    "base 1": (lambda: Pow(1, A), r"Pow\(1, A\)"),
    "times 0": (lambda: Mul(0, A), r"Mul with 0: .* SymPy makes it the scalar 0: write 0\*A or td.zeros"),
    "times 0 and more": (lambda: Mul(t, A, 0), "Mul with 0"),
    "Sum": (lambda: sympy.Sum(A, (i, 0, 2)), r"a sum or an integral of SymPy .* write td.sum\(A, axis\)"),
    "summation": (lambda: sympy.summation(A, (i, 0, 2)), "a sum or an integral"),
    "Integral": (lambda: sympy.Integral(A, (t, 0, 1)), "a sum or an integral"),
    "derivative of a sum": (
        lambda: sympy.diff(sympy.Sum(x[i], (i, 0, 2)), x),
        r"the derivative of a sum by a whole tensor is td.gradient\(expression, X\)",
    ),
    "unevaluated": (lambda: sympy.UnevaluatedExpr(A), "UnevaluatedExpr of a whole tensor: .* write the tensor itself"),
    "matrix by a tensor": (
        lambda: sympy.Matrix([td.sum(A), t]).diff(A),
        r"SymPy's derivative of or with respect to its own matrices and arrays: .* write td.diff\(td.lift\(M\), X\)",
    ),
    "array by a tensor": (
        lambda: sympy.diff(sympy.Array([td.sum(A), t]), A),
        "of or with respect to its own matrices and arrays",
    ),
    "function of two": (lambda: sympy.atan2(A, B), r"entry by entry it is td.elementwise\(atan2, A, B\)"),
    "Order": (lambda: sympy.Order(A), "an order of SymPy of a whole tensor"),
    "Order of a product": (lambda: Mul(A, sympy.Order(t)), "an order of SymPy of a whole tensor"),
    "entry of a matrix": (lambda: sympy.Matrix([[A]]), "an entry of SymPy's own matrix or array"),
    "entry of a column": (lambda: sympy.ImmutableMatrix([A, B]), "entries are scalars"),
    "entry of a sparse matrix": (lambda: sympy.SparseMatrix([[A]]), "an entry of SymPy's own matrix"),
    "entry of an array": (lambda: sympy.Array([A]), "an entry of SymPy's own matrix or array"),
    "array times": (lambda: array * A, "an array times a whole tensor: .* write td.lift"),
    "array divided": (lambda: array / A, "an array divided by a whole tensor"),
    "body of a sum": (lambda: td.IndexedSum(A, (i, 0, 2)), r"body of IndexedSum.*write an entry of it, A\[i, j\]"),
}  # fmt: skip


@every("build", [*PLACES])
def test_places_for_scalars(build):
    call, message = PLACES[build]
    with pytest.raises(UnsupportedError, match=message):
        call()


FOREIGN = {
    "matrix": matrix,
    "matrix symbol": symbol,
    "array": array,
    "array symbol": sympy.tensor.array.expressions.ArraySymbol("S", (2, 2)),
    "IndexedBase": sympy.IndexedBase("w"),
}
OPERATIONS = {
    **{"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b},
    **{"**": lambda a, b: a**b, "@": lambda a, b: a @ b, "Mul": Mul},
}


@every("other", FOREIGN.values(), ids=FOREIGN)
@every("sign", [*OPERATIONS])
def test_matrices_and_arrays_of_sympy_are_lifted_first(sign, other):
    message = r"write td\.lift\(.*\)|a scalar is needed"
    if sign == "Mul" and other == array:
        return  # deprecated by SymPy
    for left, right in ((A, other), (other, A), (2 * A, other), (other, A + 1)):
        with pytest.raises(UnsupportedError, match=message):
            OPERATIONS[sign](left, right)


@every("other", [sympy.I, sympy.oo, -sympy.oo, sympy.zoo, sympy.nan, 2 + sympy.I * t])
def test_operands_are_finite_and_real(other):
    for build in (lambda: A + other, lambda: A * other, lambda: A**other, lambda: td.maximum(A, other)):
        with pytest.raises(UnsupportedError, match="is not a finite real number; tensors are real"):
            build()
        if other is not sympy.nan:  # which is what it makes of everything
            with pytest.raises(UnsupportedError, match="is not a finite real number"):
                other * A
    with pytest.raises(UnsupportedError, match="zoo is not a finite real number"):
        A / 0
    with pytest.raises(UnsupportedError, match="the operand z does not commute"):
        A * Symbol("z", commutative=False)


@every("other", ["x", None, [1, 2], "A + 1", object()])
def test_operands_are_expressions(other):
    for build in (lambda: A + other, lambda: other * A, lambda: td.sin(other), lambda: td.det(other)):
        with pytest.raises(ArgumentTypeError, match=r"an operand of .* must be a SymPy expression or a number, not"):
            build()
    for truth in (True, t > 0, sympy.S.true):
        with pytest.raises(ArgumentTypeError, match="an operand must be a tensor or a real scalar, not"):
            A * truth


@every(
    "make, way_out",
    [
        (lambda: sympy.MatMul(A, A), "MatMul.*write A @ B"),
        (lambda: sympy.MatMul(sympy.MatrixSymbol("M", n, n), A), "MatMul.*write A @ B"),
        (lambda: sympy.HadamardProduct(A, sympy.MatrixSymbol("M", n, n)), r"Hadamard product.*write A\*B"),
        (lambda: sympy.HadamardPower(A, 2), r"Hadamard product.*A\*\*p"),
        (lambda: sympy.DiagMatrix(x), r"DiagMatrix.*write td.diag\(x\)"),
        (lambda: sympy.tensorproduct(A, B), r"tensorproduct.*write td.outer\(A, B\)"),
    ],
)
def test_products_of_sympy_with_other_meanings(make, way_out):
    with pytest.raises(UnsupportedError, match=way_out):
        make()


def test_numpy_does_not_absorb_them():
    for call, hint in (
        (lambda: np.sin(A), "numpy.sin computes with arrays, and tensors are expressions: write td.sin(A)"),
        (lambda: np.absolute(A.T @ x), "write td.abs(A.T @ x)"),
        (lambda: np.maximum(A, 0), "write td.maximum(A, 0)"),
        (lambda: np.greater_equal(A, np.ones(2)), "write td.greater_equal(A, …)"),
        (lambda: np.float64(2) > A, "write td.greater(2.0, A)"),
        (lambda: np.equal(A, 1), "write td.equal(A, 1)"),
        (lambda: np.arctan2(A, 2), "td.elementwise(f, A, 2) applies a function f of SymPy"),
        (lambda: np.add.reduce(A), "numpy.add computes with arrays"),
        (lambda: np.add(A, np.ones(2)), "an operand of operator + must be a SymPy expression or a number, not array"),
        (lambda: np.ones(2) @ A, "an operand of operator @ must be a SymPy expression or a number, not array"),
    ):
        with pytest.raises(ArgumentTypeError, match=re.escape(hint)):
            call()
    for function, args in ((np.dot, (A, A)), (np.dot, (np.ones(2), A)), (np.sum, (A,)), (np.einsum, ("ij,jk", A, A))):
        with pytest.raises(
            UnsupportedError, match=rf"numpy.{function.__name__} computes with arrays, and A is an .*td.dot"
        ):
            function(*args)
    assert (np.ones(3) == A) is False
    assert (np.float64(3) == A) is False and (np.float64(3) != A) is True and (np.ones(3) != A) is True
    assert np.float64(2) * A == 2.0 * A and A - np.int64(3) == A - 3
    operators = (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.floordiv,
        operator.mod,
    )
    for function in (*operators, divmod):
        assert function(np.float64(2), A) == function(2.0, A) and function(A, np.float64(2)) == function(A, 2.0)
    assert np.multiply(A, 2) == 2 * A and np.matmul(A, A.T) == A @ A.T and 2 - td.sum(x) == np.int64(2) - td.sum(x)


def test_comparison_for_identity_still_works():
    assert TensorSymbol("A", (n, m)) == A
    assert A != B and A != 1 and A != 1.0 and A != "A" and sympy.Float(1) != A
    assert A in {A} and A not in [B, 1, t] and A not in matrix and matrix != A
    assert A.is_scalar is False and A.is_commutative is True and not A.is_real and A.is_zero is None
    assert sympy.conjugate(A) == A


def test_rank_0_passes():
    s = TensorSymbol("s", ())
    for scalar in (s, td.det(A @ A.T), td.trace(A @ A.T), td.sum(A)):
        assert scalar.is_real and scalar.is_scalar and scalar.shape == ()
        for build in (
            *(lambda e: e + 1, sympy.exp, lambda e: Max(e, 0), lambda e: e < 1, lambda e: Eq(e, t), lambda e: -e),
            *(lambda e: sympy.Matrix([[e]]), lambda e: Piecewise((e, t > 0), (0, True)), lambda e: Pow(2, e)),
            *(lambda e: sympy.Array([1, 2]) * e, lambda e: matrix * e, lambda e: symbol * e, lambda e: array / e),
        ):
            assert build(scalar).has(scalar)
        assert sympy.transpose(scalar) == scalar == scalar.T and Mul(0, scalar) == 0 and Pow(scalar, 0) == 1
        assert (2 - scalar) / 2 == 1 - scalar / 2 and abs(scalar) == sympy.Abs(scalar)
        assert np.float64(2) * scalar == 2.0 * scalar and Rational(1, 2) * scalar == scalar / Integer(2)


def test_what_sympy_takes_for_scalars_of_rank_0():
    total = td.sum(x)
    assert sympy.Mod(total, 2).args == (total, 2) and sympy.UnevaluatedExpr(total).doit() == total
    assert sympy.Matrix([total**2, t]).diff(x[0]) == sympy.Matrix([2 * total, 0])
