"""Dense terms as low-rank products of two thin factors: ``sum over r of left[r, row] * right[r, column]``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.structure.pattern import TermGroup, find_pattern
from sympy_tensordiff.structure.points import all_hold, evaluate
from sympy_tensordiff.structure.terms import BlockIndex, DerivativeTerm
from sympy_tensordiff.structure.values import shift_to_origin
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in
from sympy_tensordiff.symbolic.index_notation.indices import data_of
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension


class _SeparatedTerm(NamedTuple):
    """A term ``sum_k left[k, row]*right[k, column]`` of a matrix: the ranges ``inner`` of the summed indices, and both
    factors.
    """

    inner: tuple[IndexRange, ...]
    left: tuple[tuple[IndexRange, ...], Expr, BlockIndex]
    right: tuple[tuple[IndexRange, ...], Expr, BlockIndex]


def low_rank_factors(operator: LinearOperator, max_rank: int) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return two arrays ``left`` and ``right`` with ``left.T @ right`` equal to the dense part of the matrix. None if
    that part is not a sum of at most ``max_rank`` products of a row factor and a column factor.
    """
    derivative, environment = operator._derivative, operator._environment
    factor_pairs: list[tuple[Any, Any]] = []
    rank = 0
    for group in derivative.dense_groups:
        if not all_hold(
            [c for c in group.conditions if not c.free_symbols & {b.index for b in group.binders}], environment
        ):
            continue
        for term in group.terms:
            factors = _separate_term(term)
            if factors is None:
                return None
            own_rank = math.prod(_range_length(b, environment) for b in factors.inner)
            rank += own_rank * (1 + term.mirrored)
            if rank > max_rank:
                return None
            if own_rank:
                sides = [_factor_matrix(operator, factors.inner, side, axis) for axis, side in enumerate(factors[1:])]
                factor_pairs += [(sides[0], sides[1])] + ([(sides[1], sides[0])] if term.mirrored else [])
    if not factor_pairs:
        return np.zeros((0, operator.shape[0])), np.zeros((0, operator.shape[1]))
    return np.concatenate([left for left, _ in factor_pairs]), np.concatenate([right for _, right in factor_pairs])


def _separate_term(term: DerivativeTerm) -> _SeparatedTerm | None:
    """Return the value of ``term`` as a factor that depends on the row indices times one that depends on the column
    indices; None if that is impossible or a range is not constant.
    """
    indices = {b.index for b in term.binders}
    if any(c.free_symbols & indices for c in term.conditions):
        return None
    value, inner = term.value, tuple[IndexRange, ...]()
    outside: list[Expr] = []
    sums: list[Expr] = []
    for factor in sympy.Mul.make_args(value):
        (sums if isinstance(factor, IndexedSum) and factor.free_symbols & indices else outside).append(factor)
    if len(sums) == 1:
        limits = sums[0].ranges()
        if not set().union(*(b.low.free_symbols | b.high.free_symbols for b in limits)) & indices:
            value, inner = sympy.Mul(*outside, sums[0].args[0]), limits
    row = {b for b in term.binders if b.index in set().union(*(e.free_symbols for e in term.row.indices))}
    sides: list[list[Expr]] = [[], []]
    for factor in sympy.Mul.make_args(value):
        free = free_symbols_in([factor])
        ranges_in_factor = {b for b in term.binders if b.index in free}
        if ranges_in_factor & row and ranges_in_factor - row:
            return None
        sides[int(bool(ranges_in_factor - row))].append(factor)
    own_ranges = [tuple(b for b in term.binders if (b in row) == is_row) for is_row in (True, False)]
    boxes = [end for b in (*inner, *term.binders) for end in (b.low, b.high)]
    if any(end.free_symbols & {b.index for b in (*inner, *term.binders)} or data_of(end) for end in boxes):
        return None
    left, right = sympy.Mul(*sides[0]), sympy.Mul(*sides[1])
    return _SeparatedTerm(inner, (own_ranges[0], left, term.row), (own_ranges[1], right, term.column))


def _range_length(binder: IndexRange, environment: dict[Any, Any]) -> int:
    """Return the number of integers in the range of ``binder`` at the sizes of ``environment``, 0 if it is empty."""
    return max(0, int(evaluate(binder.high, environment)) - int(evaluate(binder.low, environment)) + 1)


def _factor_matrix(operator: LinearOperator, inner: tuple[IndexRange, ...], side: Any, axis: int) -> NDArray[Any]:
    """Return the factor ``side`` of a separated term as a matrix. It has one row for each value of the summed indices
    ``inner``, and one column for each row (``axis`` 0) or column (1) of the derivative.
    """
    derivative, environment = operator._derivative, operator._environment
    own_ranges, value, position = side
    key = ("factor", inner, side)
    if key not in derivative._kernels:
        shifts, axes = shift_to_origin((*inner, *own_ranges))
        tensor = TensorComprehension(Replacement(Substitution(shifts))(value), *axes)
        derivative._kernels[key] = lambdify(derivative.args, tensor, **derivative._options)
    values = derivative._kernels[key](*operator._call.values)
    rank = math.prod(_range_length(b, environment) for b in inner)
    group = TermGroup(
        own_ranges, (), (DerivativeTerm(own_ranges, (), sympy.S.One, position, BlockIndex(0, ())),), False
    )
    pattern = find_pattern([group], (derivative.shapes(environment)[axis], [()]), environment)
    result = np.zeros((rank, pattern.shape[0]))
    counts = np.diff(pattern.starts) if pattern.starts is not None else 1
    np.add.at(result.T, np.repeat(pattern.rows, counts), values.reshape(rank, -1).T[pattern.sources])
    return result
