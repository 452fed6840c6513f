"""Matrices of SymPy whose entries are those of others at other places: parts, diagonals, blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
from sympy import And, Expr, KroneckerDelta, Lt, Mul, Piecewise, S
from sympy.matrices.expressions.kronecker import KroneckerProduct

from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.symbolic.lift_arrays import Lift, Rule
from sympy_tensordiff.symbolic.tabulate import digits, read, same_extent, shape_of, tabulate


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


PART_RULES: dict[Any, Rule] = {
    sympy.Transpose: _moved(lambda i, j: (j, i)),
    sympy.Adjoint: _moved(lambda i, j: (j, i)),
    sympy.MatrixSlice: _slice,
    sympy.DiagonalOf: _diagonal_of,
    sympy.DiagonalMatrix: _diagonal_matrix,
    sympy.DiagMatrix: _diag_matrix,
    KroneckerProduct: _kronecker,
    sympy.BlockMatrix: _block_matrix,
}
