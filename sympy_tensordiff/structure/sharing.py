"""Common-subexpression elimination over equal points: a shared subexpression is stored once and read by every loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import sympy

from sympy_tensordiff.symbolic.expressions.replacement import Replacement
from sympy_tensordiff.symbolic.expressions.traversal import native_parts, nodes_in, postorder, with_args
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry

CALL_COST, DIVISION_COST, REDUCTION_COST = 20, 5, 50
"""Estimated costs of a function call, a division and a reduction, in units of one addition."""


def extract_common_subexpressions(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return ``values`` that read common subexpressions from arrays (comprehensions over ``axes``), if these are
    cheaper to store than to compute again.
    """
    with_roots, index = _extract_square_roots(values, axes), tuple(i for i, _ in axes)
    nodes: dict[int, Any] = {}
    for value in with_roots:
        nodes.update((id(node), node) for node in postorder(value, nodes, _unconditional_args, id))
    stored = _choose_stored_nodes(nodes, {id(value) for value in with_roots})
    rewritten: dict[int, Any] = {}
    for key, node in nodes.items():
        new = with_args(node, [rewritten[id(arg)] for arg in node.args]) if _unconditional_args(node) else node
        rewritten[key] = TensorComprehension(new, *axes)[index] if key in stored else new
    return [rewritten[id(value)] for value in with_roots]


def _extract_square_roots(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return ``values`` in which square roots that several of them contain are computed once: they are read from
    comprehensions over ``axes``.

    Half-integer powers of one base are powers of its square root.
    """
    powers = [{p for p in nodes_in([v]) if isinstance(p, sympy.Pow)} for v in values]
    half_powers = [{p for p in own if p.exp.is_Rational and p.exp.q == 2} for own in powers]
    counts = Counter(base for own in half_powers for base in {p.base for p in own})
    index = tuple(i for i, _ in axes)
    roots = {base: TensorComprehension(sympy.sqrt(base), *axes)[index] for base, n in counts.items() if n > 1}
    replacements = {p: roots[p.base] ** (2 * p.exp) for own in half_powers for p in own if p.base in roots}
    return [*map(Replacement(replacements), values)]


def _unconditional_args(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node`` that are computed whenever it is: () for a `Piecewise`."""
    return () if isinstance(node, sympy.Piecewise) else native_parts(node)


def _choose_stored_nodes(nodes: dict[int, Any], roots: set[int]) -> set[int]:
    """Return the ids of the nodes to store: computing them again for each of their consumers would cost more.

    ``nodes`` maps ids to nodes, arguments before their users.
    """
    consumers_without_storing = _find_consumers(nodes, roots, set())
    costs: dict[int, int] = {}
    stored: set[int] = set()
    for key, node in nodes.items():
        costs[key] = _count_own_operations(node) + sum(
            0 if id(p) in stored else costs[id(p)] for p in _unconditional_args(node)
        )
        if key not in roots and _is_storing_cheaper(costs[key], len(consumers_without_storing[key])):
            stored.add(key)
    consumers = _find_consumers(nodes, roots, stored)  # fewer if only other stored nodes use it
    return {key for key in stored if _is_storing_cheaper(costs[key], len(consumers[key]))}


def _is_storing_cheaper(cost: int, consumers: int) -> bool:
    """Return whether storing a value of this ``cost`` is cheaper than recomputing it for each of the ``consumers``."""
    return cost * (consumers - 1) > 4 + 2 * consumers


def _find_consumers(nodes: dict[int, Any], roots: set[int], stored: set[int]) -> dict[int, set[int]]:
    """Return for each node the results and stored nodes whose loops compute it. Nodes are given by their ``id``."""
    consumers: dict[int, set[int]] = {key: {key} if key in roots else set() for key in nodes}
    for key, node in reversed(nodes.items()):
        for arg in _unconditional_args(node):
            consumers[id(arg)] |= {key} if key in stored else consumers[key]
    return consumers


def _count_own_operations(node: Any) -> int:
    """Return the estimated operations of ``node`` itself, its arguments excluded, in units of one addition."""
    if isinstance(node, sympy.Add | sympy.Mul):
        return sum(not arg.is_Number for arg in node.args) - isinstance(node, sympy.Mul)
    if isinstance(node, sympy.Pow):
        whole = node.exp.is_Integer
        return abs(int(node.exp)).bit_length() + DIVISION_COST * bool(node.exp < 0) if whole else CALL_COST
    if not node.args or isinstance(node, TensorEntry):
        return 0
    if isinstance(node, sympy.Piecewise | sympy.Abs | sympy.Max | sympy.Min):
        return len(node.args)
    return CALL_COST if native_parts(node) else REDUCTION_COST
