"""Common parts of values over the same points: stored once, and read by the loops of all values that need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import sympy

from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry
from sympy_tensordiff.symbolic.traversal import native_parts, nodes_in, postorder, with_args

CALL, DIVISION, REDUCTION = 20, 5, 50
"""Operations of a call of a function, a division, and a sum, where an addition is one."""


def with_common_parts(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The values, with entries of comprehensions over the axes in the places of parts that several of them need.

    A part is stored where to compute it again for each value would take more than to write and to read it.
    """
    rooted, index = _with_roots(values, axes), tuple(i for i, _ in axes)
    order: dict[int, Any] = {}
    for value in rooted:
        order.update((id(node), node) for node in postorder(value, order, _below, id))
    stored = _stored(order, {id(value) for value in rooted})
    done: dict[int, Any] = {}
    for key, node in order.items():
        new = with_args(node, [done[id(part)] for part in node.args]) if _below(node) else node
        done[key] = TensorComprehension(new, *axes)[index] if key in stored else new
    return [done[id(value)] for value in rooted]


def _with_roots(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The values with the roots that several of them hold as entries of tensors.

    Half-integer powers of one base are powers of its square root.
    """
    powers = [{p for p in nodes_in([v]) if isinstance(p, sympy.Pow)} for v in values]
    halves = [{p for p in own if p.exp.is_Rational and p.exp.q == 2} for own in powers]
    counts = Counter(base for own in halves for base in {p.base for p in own})
    index = tuple(i for i, _ in axes)
    roots = {base: TensorComprehension(sympy.sqrt(base), *axes)[index] for base, n in counts.items() if n > 1}
    chosen = {p: roots[p.base] ** (2 * p.exp) for own in halves for p in own if p.base in roots}
    return [*map(Replacement(chosen), values)]


def _below(node: Any) -> tuple[Any, ...]:
    """Return the parts that are computed wherever the node is: none of a choice, whose cases may not be."""
    return () if isinstance(node, sympy.Piecewise) else native_parts(node)


def _stored(order: dict[int, Any], roots: set[int]) -> set[int]:
    """Return the parts to store: those that two or more loops, of a value or of another stored part, would compute.

    ``order`` holds the nodes, parts first.
    """
    reaching = _consumers(order, roots, set())
    costs: dict[int, int] = {}
    chosen: set[int] = set()
    for key, node in order.items():
        costs[key] = _own_cost(node) + sum(0 if id(p) in chosen else costs[id(p)] for p in _below(node))
        if key not in roots and _pays(costs[key], len(reaching[key])):
            chosen.add(key)
    consumers = _consumers(order, roots, chosen)  # fewer, where only other stored parts need it
    return {key for key in chosen if _pays(costs[key], len(consumers[key]))}


def _pays(cost: int, consumers: int) -> bool:
    """Whether to store costs less than to compute for each consumer."""
    return cost * (consumers - 1) > 4 + 2 * consumers


def _consumers(order: dict[int, Any], roots: set[int], stored: set[int]) -> dict[int, set[int]]:
    """Return the values and stored parts that compute each node."""
    found: dict[int, set[int]] = {key: {key} if key in roots else set() for key in order}
    for key, node in reversed(order.items()):
        for part in _below(node):
            found[id(part)] |= {key} if key in stored else found[key]
    return found


def _own_cost(node: Any) -> int:
    """Return the operations of a node itself."""
    if isinstance(node, sympy.Add | sympy.Mul):
        return sum(not part.is_Number for part in node.args) - isinstance(node, sympy.Mul)
    if isinstance(node, sympy.Pow):
        whole = node.exp.is_Integer
        return abs(int(node.exp)).bit_length() + DIVISION * bool(node.exp < 0) if whole else CALL
    if not node.args or isinstance(node, TensorEntry):
        return 0
    if isinstance(node, sympy.Piecewise | sympy.Abs | sympy.Max | sympy.Min):
        return len(node.args)
    return CALL if native_parts(node) else REDUCTION
