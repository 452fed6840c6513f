"""Lifting of SymPy's matrix expressions, one rule per class.

Inside of a matrix expression the operators keep SymPy's matrix meaning: ``A*B`` is the matrix product. Matrices are
real, so that the adjoint is the transpose; shapes are SymPy's, vectors of n x 1 and 1 x n included. A node without an
index form (permanents, factorisations, …) is rejected by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import sympy
from sympy import And, Expr, KroneckerDelta, Lt, Piecewise, S
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
from sympy_tensordiff.symbolic.conversion import lift_arrays as arrays
from sympy_tensordiff.symbolic.conversion.lift_arrays import ConvertSubexpression, Factor, Rule, entry_through_views
from sympy_tensordiff.symbolic.index_notation.tabulate import same_extent, tabulate
from sympy_tensordiff.symbolic.whole_tensors.concatenation import kronecker
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorMul, TensorPow
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorDeterminant, TensorInverse
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of

MATRIX_CLASSES: tuple[Any, ...] = (
    sympy.MatrixExpr,
    MatrixBase,
    MatrixElement,
    sympy.Trace,
    sympy.Determinant,
    sympy.Permanent,
    sympy.DotProduct,
    *arrays.ARRAY_RULES,
    *arrays.ARRAYS_REFUSED,
)
"""The classes that `lift_matrix` takes; not all of them are expressions to SymPy."""


def lift_matrix(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert a matrix or array expression, or a scalar made of matrices, into the classes of this package.

    `expr` is an instance of one of `MATRIX_CLASSES`; `convert` handles its subexpressions. A matrix becomes a tensor
    of rank 2; entries, traces, dot products and full contractions become scalars. Raise `UnsupportedError` if there is
    no index form; the message names the node and what to write instead.

    Examples
    --------
    >>> from sympy import MatrixSymbol, Trace
    >>> A, B = MatrixSymbol("A", 2, 3), MatrixSymbol("B", 3, 2)
    >>> def convert(expr):
    ...     return lift_matrix(expr, convert) if isinstance(expr, MATRIX_CLASSES) else expr
    >>> convert(Trace(A*B))
    trace(A @ B)
    """
    for kind in type(expr).__mro__:
        if kind in RULES:
            try:
                return RULES[kind](expr, convert)
            except ShapeError as error:
                raise ShapeError(f"{kind.__name__}: {error}") from None
        if kind in REFUSED:
            break
    raise _refusal(expr)


def _refusal(expr: Any) -> UnsupportedError:
    """Return the exception to raise for ``expr``, which cannot be written with indices; its text says what to write
    instead.
    """
    way_out = next((REFUSED[kind] for kind in type(expr).__mro__ if kind in REFUSED), OTHERWISE)
    return UnsupportedError(f"{type(expr).__name__} has no index form: {expr}; {way_out}")


def matrix_operands(expr: Any) -> list[Any]:
    """Return the operands of SymPy's matrix or array expression ``expr`` that have to be converted before it: scalars,
    matrices and arrays. [] for an explicit matrix or array, which is converted as a whole.

    If these are lifted first and cached, deep expressions need no recursion.
    """
    if isinstance(expr, (MatrixBase, NDimArray)):
        return []
    parts = expr.blocks.flat() if isinstance(expr, sympy.BlockMatrix) else expr.args
    return [part for part in parts if isinstance(part, (Expr, *MATRIX_CLASSES))]


# ------------------------------------------------------------------ products and sums


def _matadd(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's matrix sum ``expr`` to a tensor sum. It becomes the transpose of a sum if that contains fewer
    transposes: for row vectors, or if most terms are transposed.

    SymPy transposes sums term by term; this way a residual and its transpose share one tensor.
    """
    factors = [factor for term in expr.args for factor in (term.args if isinstance(term, sympy.MatMul) else [term])]
    transposes = [isinstance(factor, sympy.Transpose) for factor in factors if isinstance(factor, sympy.MatrixExpr)]
    rows, columns = expr.shape
    if columns == 1 or (rows != 1 and 2 * sum(transposes) <= len(transposes)):
        return TensorAdd(*map(convert, expr.args))
    terms = [arrays.labelled(term, convert, itertools.count()) for term in expr.args]
    return EinsumProduct("ij->ji", TensorAdd(*(arrays.contraction(own, axes[::-1]) for own, axes in terms)))


def _matpow(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's integer power of a square matrix to products, by repeated squaring; raise `UnsupportedError` for
    another exponent.
    """
    base, exponent = expr.args
    if base.shape == (1, 1):
        return TensorPow(convert(base), convert(exponent))
    if not exponent.is_Integer:
        raise UnsupportedError(
            f"the matrix power {expr} has the exponent {exponent}: only integer numbers are supported; for powers of "
            "the entries write HadamardPower"
        )
    base = convert(base)
    rows, columns = shape_of(base)
    if not same_extent(rows, columns):
        raise ShapeError(f"the matrix power {expr} is that of a matrix of shape {(rows, columns)}, which is not square")
    if exponent < 0:
        base = TensorInverse(base)
    result = base if exponent else DeltaTensor(rows)
    for digit in f"{abs(int(exponent)):b}"[1:]:
        result = EinsumProduct("ij,jk->ik", result, result)
        result = EinsumProduct("ij,jk->ik", result, base) if digit == "1" else result
    return result


def _inverse(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's inverse of a matrix to a `TensorInverse`; that of a 1 x 1 matrix to a power."""
    matrix = convert(expr.arg)
    return TensorPow(matrix, -1) if expr.shape == (1, 1) else TensorInverse(matrix)


def _determinant(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's determinant to a `TensorDeterminant`; that of a 1 x 1 matrix to its entry."""
    matrix = convert(expr.arg)
    return only_entry(matrix) if expr.arg.shape == (1, 1) else TensorDeterminant(matrix)


def only_entry(matrix: Any) -> Any:
    """Return the only entry of a matrix of shape ``(1, 1)``."""
    if isinstance(matrix, EinsumProduct):
        inputs = ",".join(matrix.inputs).replace(matrix.output[1], matrix.output[0])
        return EinsumProduct(f"{inputs}->", *matrix.operands)
    return (
        entry_through_views(matrix, (S.Zero, S.Zero))
        if matrix.is_symbol or matrix.is_binder
        else EinsumProduct("ii->", matrix)
    )


def _trace(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's trace to an einsum in which rows and columns have the same label."""
    factors, (row, column) = arrays.labelled(expr.arg, convert, itertools.count())
    return arrays.contraction(arrays.renamed(factors, {column: row}), ())


def _dot_product(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert a `DotProduct` of two row or column vectors to a scalar."""
    vectors = [convert(arg) for arg in expr.args]
    return arrays.contraction([Factor(v, (0, 1) if shape_of(v)[1] == 1 else (1, 0)) for v in vectors], ())


# ------------------------------------------------------------------ entries of others at other places


def _slice(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert a slice of a matrix, ``A[1:5, ::2]``, to a comprehension. ``convert`` handles the matrix."""
    tensor = convert(expr.parent)
    row, _, down = map(convert, expr.rowslice)
    column, _, right = map(convert, expr.colslice)

    def entry(i: Expr, j: Expr) -> Expr:
        """Return the entry ``(i, j)`` of a matrix slice: the entry ``(down*i + row, right*j + column)`` of the whole
        matrix ``tensor``.
        """
        return entry_through_views(tensor, (down * i + row, right * j + column))

    return tabulate(expr.shape, (tensor, row, down, column, right), entry)


def _diagonal_of(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert the diagonal of a matrix to a column; raise `ShapeError` if its length is not known."""
    tensor = convert(expr.arg)
    rows, columns = shape_of(tensor)
    lengths = [extent for extent in (rows, columns) if extent.is_Integer]
    if not lengths and not same_extent(rows, columns):
        raise ShapeError(f"{expr}: the diagonal of a matrix of shape {(rows, columns)} has no known length")
    if same_extent(rows, columns):
        return EinsumProduct("ii,j->ij", tensor, FilledTensor(S.One, 1))
    return tabulate((min(lengths, default=rows), 1), (tensor,), lambda i, j: entry_through_views(tensor, (i, i)))


def _diagonal_matrix(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's `DiagonalMatrix`: the matrix with all entries off the diagonal replaced by 0."""
    tensor = convert(expr.arg)
    if same_extent(*shape_of(tensor)):
        return EinsumProduct("ii,ij->ij", tensor, DeltaTensor(tensor.shape[0]))
    return tabulate(
        shape_of(tensor), (tensor,), lambda i, j: KroneckerDelta(i, j) * entry_through_views(tensor, (i, j))
    )


def _diag_matrix(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert SymPy's `DiagMatrix`, the matrix with a given row or column vector on its diagonal, to an einsum."""
    tensor = convert(expr.args[0])
    rows, columns = shape_of(tensor)
    if rows == 1:
        return EinsumProduct("ki,ij->ij", tensor, DeltaTensor(columns))
    return EinsumProduct("ik,ij->ij", tensor, DeltaTensor(rows))


def _block_matrix(expr: Any, convert: ConvertSubexpression) -> Any:
    """Convert a block matrix to a comprehension, in which a `Piecewise` selects the block by the indices. ``convert``
    handles the blocks.
    """
    rows, columns = _block_starts(expr.rowblocksizes), _block_starts(expr.colblocksizes)
    places = itertools.product(range(len(rows) - 1), range(len(columns) - 1))
    blocks = [(r, c, convert(expr.blocks[r, c])) for r, c in places]

    def entry(i: Expr, j: Expr) -> Expr:
        """Return the entry ``(i, j)`` of the block matrix, a `Piecewise` with one branch for each of its ``blocks``."""
        branches = []
        for r, c, block in blocks:
            branches.append(
                (
                    entry_through_views(block, (i - rows[r], j - columns[c])),
                    And(*_block_condition(i, rows, r), *_block_condition(j, columns, c)),
                )
            )
        return Piecewise(*branches)

    return tabulate(expr.shape, [block for _, _, block in blocks], entry)


def _block_starts(extents: Sequence[Expr]) -> list[Expr]:
    """Return the first index of each block along an axis, followed by the total extent."""
    return list(itertools.accumulate(extents, initial=S.Zero))


def _block_condition(index: Expr, starts: list[Expr], number: int) -> list[Any]:
    """Return ``[index < start of the next block]``, the condition that ``index`` is in block ``number`` if it is in no
    earlier one; [] for the last block.
    """
    return [Lt(index, starts[number + 1])] if number + 2 < len(starts) else []


RULES: dict[Any, Rule] = {
    **arrays.ARRAY_RULES,
    sympy.Transpose: arrays.network,
    sympy.Adjoint: arrays.network,
    sympy.MatrixSlice: _slice,
    sympy.DiagonalOf: _diagonal_of,
    sympy.DiagonalMatrix: _diagonal_matrix,
    sympy.DiagMatrix: _diag_matrix,
    KroneckerProduct: lambda expr, convert: kronecker(list(map(convert, expr.args)), entry_through_views),
    sympy.BlockMatrix: _block_matrix,
    sympy.MatrixSymbol: arrays.symbol,
    MatrixElement: lambda expr, convert: arrays.element(expr.parent, expr.indices, expr, convert),
    MatrixBase: arrays.explicit,
    sympy.FunctionMatrix: lambda expr, convert: arrays.tabulate_function(expr.shape, expr.lamda, convert),
    sympy.ZeroMatrix: arrays.constant(S.Zero),
    sympy.OneMatrix: arrays.constant(S.One),
    sympy.Identity: lambda expr, convert: DeltaTensor(expr.rows),
    sympy.MatAdd: _matadd,
    sympy.HadamardProduct: arrays.elementwise(TensorMul),
    HadamardPower: arrays.elementwise(TensorPow),
    ElementwiseApplyFunction: arrays.apply_function,
    sympy.MatMul: arrays.network,
    sympy.MatPow: _matpow,
    sympy.Inverse: _inverse,
    sympy.Determinant: _determinant,
    sympy.Trace: _trace,
    sympy.DotProduct: _dot_product,
}

WHOLE = "functions of a whole matrix are not supported yet; "
OTHERWISE = "write it entry by entry with td.TensorSymbol, td.IndexedSum and td.TensorComprehension"
PERMUTED = "a permuted index is not affine; multiply by the explicit matrix, PermutationMatrix(p).as_explicit()"

REFUSED: dict[Any, str] = {
    **arrays.ARRAYS_REFUSED,
    sympy.Permanent: WHOLE + "pass the permanent as a scalar of its own",
    Factorization: WHOLE + "pass its factors as tensors of their own",
    GenericIdentity: "it has no shape; write Identity(n)",
    GenericZeroMatrix: "it has no shape; write ZeroMatrix(n, m)",
    DFT: "its entries are complex, and tensors are real",
    CompanionMatrix: OTHERWISE,
    PermutationMatrix: PERMUTED,
    MatrixPermute: PERMUTED,
}
