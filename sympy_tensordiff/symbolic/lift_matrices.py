"""Matrix expressions of SymPy in index notation, rule by rule.

Inside of a matrix expression the operators keep SymPy's matrix meaning: ``A*B`` is the matrix
product. Matrices are real, so that the adjoint is the transpose; shapes are SymPy's, vectors of
n x 1 and 1 x n included. What has no index form (inverses, determinants, …) is refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sympy
from sympy import Add, And, Dummy, Expr, KroneckerDelta, Lt, Mod, Mul, Piecewise, Pow, S, Symbol, floor
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

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.binders import names_in
from sympy_tensordiff.symbolic.tabulate import Factor, common_shape, contract, read, shape_of, tabulate
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole import is_whole

Lift: TypeAlias = Callable[[Any], Any]
"""Lifts a sub-expression: a tensor expression, or a scalar."""

Rule: TypeAlias = Callable[[Any, Lift], Any]
"""Lifts an expression of one class."""

MATRIX_CLASSES: tuple[Any, ...] = (
    sympy.MatrixExpr,
    MatrixBase,
    MatrixElement,
    sympy.Trace,
    sympy.Determinant,
    sympy.Permanent,
    sympy.DotProduct,
)
"""The classes that `lift_matrix` takes."""

EXPLICIT_LIMIT = 64
"""A matrix of more explicit entries than these is refused."""


def lift_matrix(expr: Any, lift: Lift) -> Any:
    """A matrix expression, or a scalar made of matrices, in index notation.

    Parameters
    ----------
    expr : instance of one of `MATRIX_CLASSES`
    lift : callable
        Lifts the sub-expressions of ``expr``.

    Returns
    -------
    TensorSymbol, TensorComprehension or Expr
        Of rank 2 for a matrix; a scalar for entries, traces and dot products.

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
        rule = RULES.get(kind)
        if rule is not None:
            return rule(expr, lift)
        if kind in REFUSED:
            raise UnsupportedError(f"{type(expr).__name__} has no index form: {expr}; {REFUSED[kind]}")
    raise UnsupportedError(f"{type(expr).__name__} has no index form that is known here: {expr}; {OTHERWISE}")


# ------------------------------------------------------------------ variables and entries


def _symbol(expr: Any, lift: Lift) -> Any:
    return TensorSymbol(expr.name, expr.shape)


def _element(expr: Any, lift: Lift) -> Any:
    parent, row, column = expr.args
    return read(lift(parent), (lift(row), lift(column)), once=False)


def _function_matrix(expr: Any, lift: Lift) -> Any:
    inside = [Symbol(name) for name in names_in([expr.lamda])]
    return tabulate(expr.shape, inside, lambda i, j: lift(expr.lamda(i, j)))


def _explicit(expr: Any, lift: Lift) -> Any:
    """An array of written-out entries: the sum of its entries, each times deltas of its place."""
    shape = tuple(map(sympy.Integer, expr.shape))
    values = {place: expr[place] for place in itertools.product(*map(range, expr.shape))}
    values = {place: lift(value) for place, value in values.items() if value != 0}
    if len(values) > EXPLICIT_LIMIT:
        raise UnsupportedError(
            f"an explicit array of shape {shape} with {len(values)} entries: more than {EXPLICIT_LIMIT} are not "
            "written out; use a td.TensorSymbol or a MatrixSymbol of this shape, and pass the numbers as its array"
        )

    def entry(*indices: Expr) -> Expr:
        return Add(*(Mul(*map(KroneckerDelta, indices, place), value) for place, value in values.items()))

    return tabulate(shape, values.values(), entry)


# ------------------------------------------------------------------ entry by entry


def _constant(entry: Callable[..., Expr]) -> Rule:
    """The rule of a matrix that is known but for its shape."""
    return lambda expr, lift: tabulate(expr.shape, (), entry)


def elementwise(owner: Any, combine: Callable[[list[Any]], Expr], operands: Sequence[Any]) -> Any:
    """The tensor with the entries ``combine([a, b, …])`` of operands of one shape and of scalars."""
    shape = common_shape([shape_of(t) for t in operands if is_whole(t)], type(owner).__name__)

    def entry(*indices: Expr) -> Expr:
        return combine([read(tensor, indices, once=operands.count(tensor) == 1) for tensor in operands])

    return tabulate(shape, operands, entry)


def _matadd(expr: Any, lift: Lift) -> Any:
    return elementwise(expr, lambda entries: Add(*entries), [lift(arg) for arg in expr.args])


def _hadamard_product(expr: Any, lift: Lift) -> Any:
    return elementwise(expr, lambda entries: Mul(*entries), [lift(arg) for arg in expr.args])


def _hadamard_power(expr: Any, lift: Lift) -> Any:
    return elementwise(expr, lambda entries: Pow(*entries), [lift(arg) for arg in expr.args])


def apply_function(expr: Any, lift: Lift) -> Any:
    """A function of one argument, applied entry by entry."""
    tensor, argument = lift(expr.expr), Dummy(real=True)
    body = lift(expr.function(argument))

    def entry(*indices: Expr) -> Expr:
        return body.xreplace({argument: read(tensor, indices, once=body.count(argument) == 1)})

    return tabulate(shape_of(tensor), (tensor, body), entry)


# ------------------------------------------------------------------ products and sums


def _matmul(expr: Any, lift: Lift) -> Any:
    operands = [lift(arg) for arg in expr.args]
    matrices = [operand for operand in operands if is_whole(operand)]
    factors = [Factor(operand, ()) for operand in operands if not is_whole(operand)]
    factors += [Factor(matrix, (n, n + 1)) for n, matrix in enumerate(matrices)]
    return contract(factors, (0, len(matrices)), type(expr).__name__)


def _matpow(expr: Any, lift: Lift) -> Any:
    base, exponent = expr.args
    if not (exponent.is_Integer and exponent >= 0):
        raise UnsupportedError(
            f"the matrix power {expr} has the exponent {exponent}: only non-negative integer numbers have an index "
            "form; for powers of the entries write HadamardPower"
        )
    base = lift(base)
    result = base if exponent else tabulate(expr.shape, (), KroneckerDelta)
    for digit in f"{int(exponent):b}"[1:]:
        result = _product(result, result)
        result = _product(result, base) if digit == "1" else result
    return result


def _product(left: Any, right: Any) -> Any:
    return contract([Factor(left, (0, 1)), Factor(right, (1, 2))], (0, 2), "MatPow")


def _trace(expr: Any, lift: Lift) -> Any:
    return contract([Factor(lift(expr.arg), (0, 0))], (), "Trace")


def _dot_product(expr: Any, lift: Lift) -> Any:
    """The axes of length 1 have labels of their own."""
    vectors = [lift(arg) for arg in expr.args]
    labels = [(0, n + 1) if shape_of(vector)[1] == 1 else (n + 1, 0) for n, vector in enumerate(vectors)]
    return contract([Factor(*pair) for pair in zip(vectors, labels, strict=True)], (), "DotProduct")


# ------------------------------------------------------------------ entries moved


def _moved(place: Callable[[Any, Expr, Expr], tuple[Expr, Expr]]) -> Rule:
    """The rule of a matrix whose entry ``[i, j]`` is that of its first argument at ``place(expr, i, j)``."""

    def rule(expr: Any, lift: Lift) -> Any:
        tensor = lift(expr.args[0])
        return tabulate(expr.shape, (tensor, *expr.args[1:]), lambda i, j: read(tensor, place(expr, i, j), (i, j)))

    return rule


def _slice_place(expr: Any, i: Expr, j: Expr) -> tuple[Expr, Expr]:
    (row, _, row_step), (column, _, column_step) = expr.rowslice, expr.colslice
    return row_step * i + row, column_step * j + column


def _diagonal_matrix(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.arg)
    return tabulate(expr.shape, (tensor,), lambda i, j: KroneckerDelta(i, j) * read(tensor, (i, j)))


def _diag_matrix(expr: Any, lift: Lift) -> Any:
    tensor = lift(expr.args[0])
    column = shape_of(tensor)[1] == 1

    def entry(i: Expr, j: Expr) -> Expr:
        return KroneckerDelta(i, j) * read(tensor, (i, S.Zero) if column else (S.Zero, j), (i,) if column else (j,))

    return tabulate(expr.shape, (tensor,), entry)


def _kronecker(expr: Any, lift: Lift) -> Any:
    tensors = [lift(arg) for arg in expr.args]
    if not all(extent.is_Integer for tensor in tensors[1:] for extent in shape_of(tensor)):
        raise UnsupportedError(
            f"{expr} has symbolic extents in a factor that is not the first: the indices of its factors are quotients "
            "by these extents, which must be numbers; write the product of entries with one axis per factor"
        )

    def entry(*indices: Expr) -> Expr:
        place, entries = list(indices), []
        for tensor in reversed(tensors[1:]):
            extents = shape_of(tensor)
            entries.append(read(tensor, list(map(Mod, place, extents)), indices))
            place = [floor(index / extent) for index, extent in zip(place, extents, strict=True)]
        return Mul(read(tensors[0], place, indices), *entries)

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
    sympy.MatrixSymbol: _symbol,
    MatrixElement: _element,
    MatrixBase: _explicit,
    sympy.FunctionMatrix: _function_matrix,
    sympy.ZeroMatrix: _constant(lambda i, j: S.Zero),
    sympy.OneMatrix: _constant(lambda i, j: S.One),
    sympy.Identity: _constant(KroneckerDelta),
    sympy.MatAdd: _matadd,
    sympy.HadamardProduct: _hadamard_product,
    HadamardPower: _hadamard_power,
    ElementwiseApplyFunction: apply_function,
    sympy.MatMul: _matmul,
    sympy.MatPow: _matpow,
    sympy.Trace: _trace,
    sympy.DotProduct: _dot_product,
    sympy.Transpose: _moved(lambda expr, i, j: (j, i)),
    sympy.Adjoint: _moved(lambda expr, i, j: (j, i)),
    sympy.MatrixSlice: _moved(_slice_place),
    sympy.DiagonalOf: _moved(lambda expr, i, j: (i, i)),
    sympy.DiagonalMatrix: _diagonal_matrix,
    sympy.DiagMatrix: _diag_matrix,
    KroneckerProduct: _kronecker,
    sympy.BlockMatrix: _block_matrix,
}

WHOLE = "functions of a whole matrix are not supported yet; "
OTHERWISE = "write it entry by entry with td.TensorSymbol, td.IndexedSum and td.TensorComprehension"

REFUSED: dict[Any, str] = {
    sympy.Inverse: WHOLE + "pass the inverse as a tensor of its own",
    sympy.Determinant: WHOLE + "pass the determinant as a scalar of its own",
    sympy.Permanent: WHOLE + "pass the permanent as a scalar of its own",
    Factorization: WHOLE + "pass its factors as tensors of their own",
    GenericIdentity: "it has no shape; write Identity(n)",
    GenericZeroMatrix: "it has no shape; write ZeroMatrix(n, m)",
    DFT: "its entries are complex, and tensors are real",
    CompanionMatrix: OTHERWISE,
    PermutationMatrix: "its entries are read by data; write the permuted entries with td.TensorComprehension",
    MatrixPermute: "its entries are read by data; write the permuted entries with td.TensorComprehension",
}
