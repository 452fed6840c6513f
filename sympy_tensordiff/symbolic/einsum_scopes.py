"""The indices that are bound around a part of an expression, and the axes of whole tensors that they run over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from sympy import Expr, S

from sympy_tensordiff.symbolic.einsum_terms import Label
from sympy_tensordiff.symbolic.operations import TensorOperation
from sympy_tensordiff.symbolic.tabulate import same_extent
from sympy_tensordiff.symbolic.traversal import nodes_in

Scope: TypeAlias = frozenset[tuple[Any, Label | None]]
"""The indices that are bound around, and their labels; None for one that is no axis of a whole tensor."""


def axis(index: Any, extent: Expr, labels: dict[Any, Label | None]) -> Label | None:
    """The label of an axis that is read at an index; None where it is not read all along."""
    label = labels.get(index)
    if label is not None and same_extent(label.extent, extent):
        return label
    return Label(None, S.One, None) if index == 0 and extent == 1 else None


def depends(exprs: Iterable[Any], scope: Scope) -> bool:
    """Whether an operation on whole tensors depends on an index around, which it must not."""
    indices = {index for index, label in scope if label is None}
    operations = (node for node in nodes_in(exprs) if isinstance(node, TensorOperation)) if indices else ()
    return any(not indices.isdisjoint(node.free_symbols) for node in operations)


def is_open(scope: Scope) -> bool:
    """Whether there are axes around."""
    return any(label is not None for _, label in scope)


def closed(scope: Scope) -> Scope:
    """The same indices, none of which is an axis."""
    return frozenset((index, None) for index, _ in scope)


def among(scope: Scope, symbols: Iterable[Any]) -> Scope:
    """The part of a scope about some symbols."""
    return frozenset(pair for pair in scope if pair[0] in symbols)


def restricted(scope: Scope, expr: Any) -> Scope:
    """The part of a scope that an expression depends on."""
    return among(scope, expr.free_symbols) if scope else scope
