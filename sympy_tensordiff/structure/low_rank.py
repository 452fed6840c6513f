"""Terms that fill blocks as products of two thin matrices: ``sum over r of left[r, row] * right[r, column]``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.structure.pattern import Group, find_pattern
from sympy_tensordiff.structure.points import evaluate, holds
from sympy_tensordiff.structure.terms import Binder, BlockIndex, Term
from sympy_tensordiff.structure.values import over_box
from sympy_tensordiff.symbolic.indices import Substitution, data_of
from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.traversal import free_symbols_in


class _Factors(NamedTuple):
    """The two factors of a term, each over the inner indices and its own ones."""

    inner: tuple[Binder, ...]
    left: tuple[tuple[Binder, ...], Expr, BlockIndex]
    right: tuple[tuple[Binder, ...], Expr, BlockIndex]


def low_rank_factors(operator: LinearOperator, most: int) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Arrays ``left``, ``right``: ``left.T @ right`` is the sum of the dense terms, of rank at most ``most``.

    None where a term is no such product, has conditions, or the rank is larger.
    """
    derivative, known = operator._derivative, operator._known
    found: list[tuple[Any, Any]] = []
    rank = 0
    for group in derivative.dense_groups:
        if not holds([c for c in group.conditions if not c.free_symbols & {b.index for b in group.binders}], known):
            continue
        for term in group.terms:
            factors = _factors(term)
            if factors is None:
                return None
            own = math.prod(_length(b, known) for b in factors.inner)
            rank += own * (1 + term.mirrored)
            if rank > most:
                return None
            if own:
                sides = [_matrix(operator, factors.inner, side, axis) for axis, side in enumerate(factors[1:])]
                found += [(sides[0], sides[1])] + ([(sides[1], sides[0])] if term.mirrored else [])
    if not found:
        return np.zeros((0, operator.shape[0])), np.zeros((0, operator.shape[1]))
    return np.concatenate([left for left, _ in found]), np.concatenate([right for _, right in found])


def _factors(term: Term) -> _Factors | None:
    """Each factor of the value goes to the side whose indices it holds; the others go to the left."""
    indices = {b.index for b in term.binders}
    if any(c.free_symbols & indices for c in term.conditions):
        return None
    value, inner = term.value, tuple[Binder, ...]()
    outside: list[Expr] = []
    sums: list[Expr] = []
    for factor in sympy.Mul.make_args(value):
        (sums if isinstance(factor, IndexedSum) and factor.free_symbols & indices else outside).append(factor)
    if len(sums) == 1:
        limits = [Binder(*limit) for limit in reversed(sums[0].args[1:])]
        if not set().union(*(b.low.free_symbols | b.high.free_symbols for b in limits)) & indices:
            value, inner = sympy.Mul(*outside, sums[0].args[0]), tuple(limits)
    row = {b for b in term.binders if b.index in set().union(*(e.free_symbols for e in term.row.indices))}
    sides: list[list[Expr]] = [[], []]
    for factor in sympy.Mul.make_args(value):
        free = free_symbols_in([factor])
        holding = {b for b in term.binders if b.index in free}
        if holding & row and holding - row:
            return None
        sides[int(bool(holding - row))].append(factor)
    own = [tuple(b for b in term.binders if (b in row) == is_row) for is_row in (True, False)]
    boxes = [end for b in (*inner, *term.binders) for end in (b.low, b.high)]
    if any(end.free_symbols & {b.index for b in (*inner, *term.binders)} or data_of(end) for end in boxes):
        return None
    left, right = sympy.Mul(*sides[0]), sympy.Mul(*sides[1])
    return _Factors(inner, (own[0], left, term.row), (own[1], right, term.column))


def _length(binder: Binder, known: dict[Any, Any]) -> int:
    return max(0, int(evaluate(binder.high, known)) - int(evaluate(binder.low, known)) + 1)


def _matrix(operator: LinearOperator, inner: tuple[Binder, ...], side: Any, axis: int) -> NDArray[Any]:
    """One factor: a row for each point of the inner indices, a column for each place on an axis of the matrix."""
    derivative, known = operator._derivative, operator._known
    own, value, place = side
    key = ("factor", inner, side)
    if key not in derivative._kernels:
        moved, axes = over_box((*inner, *own))
        tensor = TensorComprehension(Replacement(Substitution(moved))(value), *axes)
        derivative._kernels[key] = lambdify(derivative.args, tensor, **derivative._options)
    values = derivative._kernels[key](*operator._call.values)
    rank = math.prod(_length(b, known) for b in inner)
    group = Group(own, (), (Term(own, (), sympy.S.One, place, BlockIndex(0, ())),), False)
    pattern = find_pattern([group], (derivative.shapes(known)[axis], [()]), known)
    result = np.zeros((rank, pattern.shape[0]))
    counts = np.diff(pattern.starts) if pattern.starts is not None else 1
    np.add.at(result.T, np.repeat(pattern.rows, counts), values.reshape(rank, -1).T[pattern.sources])
    return result
