"""Matrix expressions of SymPy in index notation, rule by rule.

Inside of a matrix expression the operators keep SymPy's matrix meaning: ``A*B`` is the matrix
product. Matrices are real, so that the adjoint is the transpose; shapes are SymPy's, vectors of
n x 1 and 1 x n included. What has no index form (inverses, determinants, …) is refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
from sympy import Add, And, Expr, KroneckerDelta, Lt, Mul, Piecewise, Pow, S
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.companion import CompanionMatrix
from sympy.matrices.expressions.factorizations import Factorization
from sympy.matrices.expressions.fourier import DFT
from sympy.matrices.expressions.hadamard import HadamardPower
from sympy.matrices.expressions.kronecker import KroneckerProduct
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.matrices.expressions.permutation import MatrixPermute, PermutationMatrix
from sympy.matrices.expressions.special import GenericIdentity, GenericZeroMatrix
from sympy.matrices.matrixbase import MatrixBase
from sympy.tensor.array.ndim_array import NDimArray

from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.symbolic.lift_arrays import (
    ARRAY_RULES,
    ARRAYS_REFUSED,
    Lift,
    Rule,
    apply_function,
    constant,
    element,
    elementwise,
    explicit,
    tabulate_function,
)
from sympy_tensordiff.symbolic.matrix_functions import TensorDeterminant, TensorInverse
from sympy_tensordiff.symbolic.tabulate import (
    Factor,
    contract,
    digits,
    read,
    same_extent,
    shape_of,
    tabulate,
)
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole import is_whole

MATRIX_CLASSES: tuple[Any, ...] = (
    sympy.MatrixExpr,
    MatrixBase,
    MatrixElement,
    sympy.Trace,
    sympy.Determinant,
    sympy.Permanent,
    sympy.DotProduct,
    *ARRAY_RULES,
    *ARRAYS_REFUSED,
)
"""The classes that `lift_matrix` takes; not all of them are expressions to SymPy."""

REPEATED = 16
"""Powers up to this one are multiplied to a vector factor by factor."""


def lift_matrix(expr: Any, lift: Lift) -> Any:
    """A matrix or an array expression, or a scalar made of matrices, in index notation.

    Parameters
    ----------
    expr : instance of one of `MATRIX_CLASSES`
    lift : callable
        Lifts the sub-expressions of ``expr``.

    Returns
    -------
    TensorSymbol, TensorComprehension or Expr
        Of rank 2 for a matrix; a scalar for entries, traces, dot products and full contractions.

    Raises
    ------
    UnsupportedError
        There is no index form; the message names the node and the way out.

    Examples
    --------
    >>> from sympy import MatrixSymbol, Trace
    >>> A, B = MatrixSymbol("A", 2, 3), MatrixSymbol("B", 3, 2)
    >>> def lift(expr):
    ...     return lift_matrix(expr, lift) if isinstance(expr, MATRIX_CLASSES) else expr
    >>> lift(Trace(A*B))
    IndexedSum(A[i, k]*B[k, i], (k, 0, 2), (i, 0, 1))
    """
    for kind in type(expr).__mro__:
        if kind in RULES:
            return RULES[kind](expr, lift)
        if kind in REFUSED:
            break
    raise _refusal(expr)


def _refusal(expr: Any) -> UnsupportedError:
    way_out = next((REFUSED[kind] for kind in type(expr).__mro__ if kind in REFUSED), OTHERWISE)
    return UnsupportedError(f"{type(expr).__name__} has no index form: {expr}; {way_out}")


def matrix_operands(expr: Any) -> list[Any]:
    """What `lift_matrix` is going to lift in ``expr``, but for the entries of explicit arrays and of functions.

    To lift these first, and to remember them, keeps deep expressions off Python's stack.
    """
    if isinstance(expr, (MatrixBase, NDimArray)):
        return []
    parts = expr.blocks.flat() if isinstance(expr, sympy.BlockMatrix) else expr.args
    return [part for part in parts if isinstance(part, (Expr, *MATRIX_CLASSES))]


# ------------------------------------------------------------------ variables and entries


def _symbol(expr: Any, lift: Lift) -> Any:
    return TensorSymbol(expr.name, expr.shape)


def _function_matrix(expr: Any, lift: Lift) -> Any:
    return tabulate_function(expr.shape, expr.lamda, lift)


# ------------------------------------------------------------------ products and sums


def _matmul(expr: Any, lift: Lift) -> Any:
    parts = [part for arg in expr.args for part in (_repeated(arg) if 1 in expr.shape else [arg])]
    operands = [lift(part) for part in parts]
    matrices = [operand for operand in operands if is_whole(operand)]
    factors = [Factor(operand, ()) for operand in operands if not is_whole(operand)]
    factors += [Factor(matrix, (n, n + 1)) for n, matrix in enumerate(matrices)]
    return contract(factors, (0, len(matrices)), type(expr).__name__)


def _repeated(arg: Any) -> list[Any]:
    """The factors of a power, which are cheaper one by one where a vector is multiplied."""
    if isinstance(arg, sympy.MatPow) and arg.exp.is_Integer and 1 < arg.exp <= REPEATED:
        return [arg.base] * int(arg.exp)
    return [arg]


def _matpow(expr: Any, lift: Lift) -> Any:
    base, exponent = expr.args
    if base.shape == (1, 1):
        return elementwise(Pow)(expr, lift)
    if not exponent.is_Integer:
        raise UnsupportedError(
            f"the matrix power {expr} has the exponent {exponent}: only integer numbers are supported; for powers of "
            "the entries write HadamardPower"
        )
    base = lift(base)
    rows, columns = shape_of(base)
    if not same_extent(rows, columns):
        raise ShapeError(f"the matrix power {expr} is that of a matrix of shape {(rows, columns)}, which is not square")
    if exponent < 0:
        base = TensorInverse(base)
    result = base if exponent else tabulate((rows, rows), (), KroneckerDelta)
    for digit in f"{abs(int(exponent)):b}"[1:]:
        result = _product(result, result)
        result = _product(result, base) if digit == "1" else result
    return result


def _product(left: Any, right: Any) -> Any:
    return contract([Factor(left, (0, 1)), Factor(right, (1, 2))], (0, 2), "MatPow")


def _whole(rule: Rule, function: Any) -> Rule:
    """The rule of a function of whole matrices; ``rule`` is that of the matrix of one entry."""
    return lambda expr, lift: rule(expr, lift) if expr.args[0].shape == (1, 1) else function(lift(expr.args[0]))


def _trace(expr: Any, lift: Lift) -> Any:
    return contract([Factor(lift(expr.arg), (0, 0))], (), "Trace")


def _dot_product(expr: Any, lift: Lift) -> Any:
    """The axes of length 1 have labels of their own."""
    vectors = [lift(arg) for arg in expr.args]
    labels = [(0, n + 1) if shape_of(vector)[1] == 1 else (n + 1, 0) for n, vector in enumerate(vectors)]
    return contract([Factor(*pair) for pair in zip(vectors, labels, strict=True)], (), "DotProduct")


# ------------------------------------------------------------------ entries of others at other places


def _moved(place: Callable[[Expr, Expr], tuple[Expr, Expr]]) -> Rule:
    """The rule of a matrix whose entry ``[i, j]`` is that of its argument at ``place(i, j)``."""

    def rule(expr: Any, lift: Lift) -> Any:
        tensor = lift(expr.args[0])
        return tabulate(expr.shape, (tensor,), lambda *indices: read(tensor, place(*indices), indices))

    return rule


def _slice(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.parent)
    row, _, down = map(lift, expr.rowslice)
    column, _, right = map(lift, expr.colslice)

    def entry(i: Expr, j: Expr) -> Expr:
        return read(tensor, (down * i + row, right * j + column), (i, j))

    return tabulate(expr.shape, (tensor, row, down, column, right), entry)


def _diagonal_of(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.arg)
    rows, columns = shape_of(tensor)
    lengths = [extent for extent in (rows, columns) if extent.is_Integer]
    if not lengths and not same_extent(rows, columns):
        raise ShapeError(f"{expr}: the diagonal of a matrix of shape {(rows, columns)} has no known length")
    return tabulate((min(lengths, default=rows), 1), (tensor,), lambda i, j: read(tensor, (i, i), (i,)))


def _diagonal_matrix(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.arg)
    return tabulate(shape_of(tensor), (tensor,), lambda i, j: KroneckerDelta(i, j) * read(tensor, (i, j)))


def _diag_matrix(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.args[0])
    rows, columns = shape_of(tensor)

    def entry(i: Expr, j: Expr) -> Expr:
        return KroneckerDelta(i, j) * (read(tensor, (0, j), (j,)) if rows == 1 else read(tensor, (i, 0), (i,)))

    length = columns if rows == 1 else rows
    return tabulate((length, length), (tensor,), entry)


def _kronecker(expr: Any, lift: Lift) -> Any:
    tensors = [lift(arg) for arg in expr.args]
    extents = list(zip(*map(shape_of, tensors), strict=True))

    def entry(*indices: Expr) -> Expr:
        places = zip(*map(digits, indices, extents), strict=True)
        return Mul(*(read(tensor, place, indices) for tensor, place in zip(tensors, places, strict=True)))

    return tabulate(expr.shape, tensors, entry)


def _block_matrix(expr: Any, lift: Lift) -> Any:
    """Which block an entry is in, is a condition on its indices."""
    rows, columns = _starts(expr.rowblocksizes), _starts(expr.colblocksizes)
    places = itertools.product(range(len(rows) - 1), range(len(columns) - 1))
    blocks = [(r, c, lift(expr.blocks[r, c])) for r, c in places]

    def entry(i: Expr, j: Expr) -> Expr:
        branches = []
        for r, c, block in blocks:
            value = read(block, (i - rows[r], j - columns[c]), (i, j))
            branches.append((value, And(*_before(i, rows, r), *_before(j, columns, c))))
        return Piecewise(*branches)

    return tabulate(expr.shape, [block for _, _, block in blocks], entry)


def _starts(extents: Sequence[Expr]) -> list[Expr]:
    return list(itertools.accumulate(extents, initial=S.Zero))


def _before(index: Expr, starts: list[Expr], number: int) -> list[Any]:
    """The condition that an index, not in an earlier block, is in this one; none for the last block."""
    return [Lt(index, starts[number + 1])] if number + 2 < len(starts) else []


RULES: dict[Any, Rule] = {
    **ARRAY_RULES,
    sympy.Transpose: _moved(lambda i, j: (j, i)),
    sympy.Adjoint: _moved(lambda i, j: (j, i)),
    sympy.MatrixSlice: _slice,
    sympy.DiagonalOf: _diagonal_of,
    sympy.DiagonalMatrix: _diagonal_matrix,
    sympy.DiagMatrix: _diag_matrix,
    KroneckerProduct: _kronecker,
    sympy.BlockMatrix: _block_matrix,
    sympy.MatrixSymbol: _symbol,
    MatrixElement: lambda expr, lift: element(expr.parent, expr.indices, expr, lift),
    MatrixBase: explicit,
    sympy.FunctionMatrix: _function_matrix,
    sympy.ZeroMatrix: constant(lambda i, j: S.Zero),
    sympy.OneMatrix: constant(lambda i, j: S.One),
    sympy.Identity: constant(KroneckerDelta),
    sympy.MatAdd: elementwise(Add),
    sympy.HadamardProduct: elementwise(Mul),
    HadamardPower: elementwise(Pow),
    ElementwiseApplyFunction: apply_function,
    sympy.MatMul: _matmul,
    sympy.MatPow: _matpow,
    sympy.Inverse: _whole(elementwise(Pow), TensorInverse),
    sympy.Determinant: _whole(lambda expr, lift: read(lift(expr.arg), (S.Zero, S.Zero)), TensorDeterminant),
    sympy.Trace: _trace,
    sympy.DotProduct: _dot_product,
}

WHOLE = "functions of a whole matrix are not supported yet; "
OTHERWISE = "write it entry by entry with td.TensorSymbol, td.IndexedSum and td.TensorComprehension"
PERMUTED = "a permuted index is not affine; multiply by the explicit matrix, PermutationMatrix(p).as_explicit()"

REFUSED: dict[Any, str] = {
    **ARRAYS_REFUSED,
    sympy.Permanent: WHOLE + "pass the permanent as a scalar of its own",
    Factorization: WHOLE + "pass its factors as tensors of their own",
    GenericIdentity: "it has no shape; write Identity(n)",
    GenericZeroMatrix: "it has no shape; write ZeroMatrix(n, m)",
    DFT: "its entries are complex, and tensors are real",
    CompanionMatrix: OTHERWISE,
    PermutationMatrix: PERMUTED,
    MatrixPermute: PERMUTED,
}
