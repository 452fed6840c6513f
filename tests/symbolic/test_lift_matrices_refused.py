"""Matrix and array expressions without an index form: named, with the reason and the way out."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from every import every
from native_expressions import ALPHA
from sympy import DiagonalOf, HadamardProduct, MatPow, Matrix, MatrixSymbol, Symbol, Trace
from sympy.combinatorics import Permutation
from sympy.matrices.expressions.companion import CompanionMatrix
from sympy.matrices.expressions.factorizations import QofQR
from sympy.matrices.expressions.fourier import DFT
from sympy.matrices.expressions.permutation import MatrixPermute, PermutationMatrix
from sympy.matrices.expressions.special import GenericIdentity, GenericZeroMatrix
from sympy.tensor.array import ArrayComprehension
from sympy.tensor.array.array_derivatives import ArrayDerivative
from sympy.tensor.array.expressions import ArrayElement, ArraySymbol, Reshape

import sympy_tensordiff as td
from sympy_tensordiff.errors import (
    ArgumentError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    TensorDiffError,
    UnsupportedError,
)

i, j, k = td.indices("i j k")
n, m = sympy.symbols("n m", integer=True, positive=True)
A, B, X, Y = MatrixSymbol("A", n, m), MatrixSymbol("B", m, n), MatrixSymbol("X", n, n), MatrixSymbol("Y", n, n)
P = MatrixSymbol("P", 3, 3)
S = ArraySymbol("S", (n, m, 2))

ENTRY = "write it entry by entry"
REFUSED = [
    (sympy.Permanent(P), UnsupportedError, "Permanent has no index form"),
    (MatPow(X, k), UnsupportedError, "has the exponent k: only integer numbers are supported.*HadamardPower"),
    (MatPow(X, sympy.S.Half), UnsupportedError, "has the exponent 1/2"),
    (QofQR(P), UnsupportedError, "QofQR has no index form.*pass its factors"),
    (DFT(3), UnsupportedError, "DFT has no index form.*complex"),
    (CompanionMatrix(sympy.Poly([1, 2, 3], ALPHA)), UnsupportedError, f"CompanionMatrix has no index form.*{ENTRY}"),
    (PermutationMatrix(Permutation([1, 0])), UnsupportedError, "PermutationMatrix has no index form.*as_explicit"),
    (MatrixPermute(P, Permutation([1, 0, 2])), UnsupportedError, "MatrixPermute has no index form.*as_explicit"),
    (GenericIdentity(), UnsupportedError, r"write Identity\(n\)"),
    (GenericZeroMatrix(), UnsupportedError, r"write ZeroMatrix\(n, m\)"),
    (sympy.exp(P), UnsupportedError, r"exp of a whole tensor of rank 2: exp\(P\).*applyfunc"),
    (sympy.sin(P), UnsupportedError, r"sin of a whole tensor of rank 2: sin\(P\).*applyfunc"),
    (sympy.Eq(P, P.T), UnsupportedError, "Equality of a whole tensor of rank 2"),
    (sympy.Piecewise((P, i > 0), (P.T, True)), UnsupportedError, "a case of Piecewise of a whole tensor of rank 2"),
    (ArraySymbol("v", (3,)) * ArraySymbol("w", (3,)), UnsupportedError, r"Mul of a whole tensor of rank 1: v\*w"),
    (ArraySymbol("v", (3,)) + 1, UnsupportedError, "Add of a whole tensor of rank 1"),
    (sympy.I * X, UnsupportedError, "TensorMul: the operand I is not a finite real number; tensors are real"),
    (Reshape(ArraySymbol("v", (n, m)), (m, k)), ShapeError, r"reshapes \(n, m\) to \(m, k\), which have different"),
    (Matrix(9, 9, range(81)), UnsupportedError, r"shape \(9, 9\) with 80 entries: more than 64.*TensorSymbol"),
    (ArrayElement("v", (i,)), UnsupportedError, r"v\[i\]: v has no shape; declare it"),
    (sympy.tensor.array.ArrayComprehensionMap(lambda: 1, (j, 0, 3)), UnsupportedError, "ArrayComprehensionMap"),
    (ArrayDerivative(P, P), UnsupportedError, "ArrayDerivative has no index form.*call td.diff"),
    (sympy.Derivative(P, P), UnsupportedError, "Derivative of a whole tensor of rank 2.*call td.diff"),
    (ArrayComprehension(i, (i, 0, j), (j, 0, 3)), ShapeError, "the length of an axis depends on the index of another"),
    (A + B, ShapeError, r"MatAdd: TensorAdd: axis 0 of operand 0 \(A\) has extent n, that of operand 1 \(B\) has"),
    (HadamardProduct(A, B), ShapeError, "HadamardProduct: TensorMul: axis 0 of operand 0"),
    (A * A, ShapeError, r"power A\*\*2 is that of a matrix of shape \(n, m\), which is not square"),
    (MatPow(A, -1), ShapeError, r"power A\*\*\(-1\) is that of a matrix of shape \(n, m\), which is not square"),
    (MatPow(A, 0), ShapeError, r"power A\*\*0 is that of a matrix of shape \(n, m\), which is not square"),
    (A * X, ShapeError, "MatMul: .*: the label j is axis 1 of operand 0 with extent m, and axis 0 of operand 1 with"),
    (Trace(A), ShapeError, "Trace: .*: the label i is axis 0 of operand 0 with extent n, and axis 1 of operand 0"),
    (DiagonalOf(A), ShapeError, r"shape \(n, m\) has no known length"),
    (
        MatrixSymbol("A", Symbol("n", complex=True), 2),
        ShapeError,
        r"n is declared not to be an integer: use td.indices\('n'\)",
    ),
    (MatrixSymbol("A", 0, 2), ShapeError, "the extent 0: an extent must be a positive integer"),
    (MatrixSymbol("A", 2**n, 2), ShapeError, r"the extent 2\*\*n: 2\*\*n is a power"),
    (MatrixSymbol("A_{-1}", 2, 2), ArgumentError, r"'A_\{-1\}' is not a name for a tensor: use a Python identifier"),
    (MatrixSymbol("lambda", 2, 2), ArgumentError, "'lambda' is not a name for a tensor"),
    (P[i, Symbol("r", integer=False)], IndexExpressionError, "r is declared not to be an integer"),
    (P[0:3:k, 0:1], IndexExpressionError, r"multiplies indices or sizes"),
    (P[-1, 0], OutOfShapeError, r"index -1 of axis 0 lies outside of 0 … 2"),
]


@every("expr, error, message", REFUSED, ids=[str(case[0])[:40] for case in REFUSED])
def test_refused_by_name(expr: Any, error: type[TensorDiffError], message: str) -> None:
    with pytest.raises(error, match=message):
        td.lift(expr)
    with pytest.raises(TensorDiffError):
        td.diff(2 * Trace(X) + td.TensorSymbol("t", ()), td.lift(expr))
