"""What SymPy does by recursion, done bottom-up where nodes of ours are too deep for it, or too much shared.

A recursive method enters a node of ours by the method of that node. So where one is asked that is
deep, all nodes of ours below it are asked before, the lowest first, and what they answer is kept
until the answer of the first is there: each is asked once, and none recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import local
from typing import Any, TypeAlias

from sympy import Basic, Idx

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.measures import measures
from sympy_tensordiff.symbolic.traversal import nodes_in

Parts: TypeAlias = Callable[[Any], tuple[Any, ...]]
"""From a node to its arguments, or to some of them."""


class _Passes(local):
    """The passes that are under way in a thread, with the answers so far."""

    def __init__(self) -> None:
        self.running: dict[Hashable, dict[Any, Any]] = {}


_passes = _Passes()


def parts_of(node: Any) -> tuple[Any, ...]:
    """The arguments of a node that walks enter."""
    return () if isinstance(node, Idx) or not isinstance(node, Basic) else node.args


def answered(node: Any, question: Hashable, answer: Callable[[Any], Any], parts: Parts = parts_of) -> Any:
    """``answer(node)``, where ``answer`` puts the same question to the nodes of ours below.

    ``parts`` gives the arguments of a node that the question is put to.
    """
    known = _passes.running.get(question)
    if known is None:
        if node.is_symbol or not measures(node).is_deep:
            return answer(node)
        known = _passes.running[question] = {}
        try:
            for part in own_nodes(node, parts):
                known[part] = answer(part)
        finally:
            del _passes.running[question]
    elif node not in known:
        known[node] = answer(node)
    return known[node]


def own_nodes(root: Basic, parts: Parts = parts_of) -> list[Any]:
    """The nodes of ours, the lowest first."""
    return [node for node in _ordered(root, parts) if hasattr(node, "_measures")]


def _ordered(root: Basic, parts: Parts = parts_of) -> list[Any]:
    """All nodes, each object once, arguments first."""
    done: dict[int, Any] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [arg for arg in parts(node) if id(arg) not in done]
        if missing:
            stack += missing
        else:
            done[id(node)] = stack.pop()
    return list(done.values())


def refuse_walk(node: Any, what: str) -> None:
    """Raise where a walk over all paths by recursion would overflow the stack or never end."""
    found = measures(node)
    if found.is_unwalkable:
        raise UnsupportedError(
            f"{what} of a {type(node).__name__} of {found.described}: that is too much for what visits every path; "
            "td.vjp, td.generate_code and td.lambdify take it as it is, and .body and .args hold its parts"
        )


def not_walked(node: Any, walk: Any) -> tuple[Any, ...]:
    """The arguments that a breadth-first walk, which has collected all nodes in a list, has not come by yet."""
    collected = walk.f_locals["args"]
    if _seen.collected is not collected:
        _seen.collected, _seen.ids, _seen.count = collected, set(), 0
    _seen.ids.update(map(id, collected[_seen.count :]))
    _seen.count = len(collected)
    return tuple(arg for arg in node._args if id(arg) not in _seen.ids)


class _Seen(local):
    """What the latest walk has come by."""

    def __init__(self) -> None:
        self.collected: list[Any] | None = None
        self.ids: set[int] = set()
        self.count = 0


_seen = _Seen()


def atoms(node: Any, types: tuple[Any, ...]) -> set[Any]:
    """As `Basic.atoms`, by one visit to each node."""
    kinds = tuple(kind if isinstance(kind, type) else type(kind) for kind in types)
    return {part for part in nodes_in([node]) if (isinstance(part, kinds) if kinds else not part.args)}


# ---------------------------------------------------------------------------- pickles


def packed(root: Basic) -> list[tuple[Any, tuple[int, ...] | None]]:
    """The nodes in an order of which each names those before it: leaves as they are, others by class and numbers."""
    numbers: dict[int, int] = {}
    result: list[tuple[Any, tuple[int, ...] | None]] = []
    for node in _ordered(root):
        numbers[id(node)] = len(result)
        args = parts_of(node)
        result.append((type(node), tuple(numbers[id(arg)] for arg in args)) if args else (node, None))
    return result


def unpacked(table: list[tuple[Any, tuple[int, ...] | None]]) -> Any:
    """The last node of a packed table."""
    nodes: list[Any] = []
    for head, numbers in table:
        if numbers is None:
            nodes.append(head)
        else:
            nodes.append(getattr(head, "_unchecked", head)(*(nodes[number] for number in numbers)))
    return nodes[-1]
