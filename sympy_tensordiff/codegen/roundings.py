"""Which parts of a value may be other numbers where they are computed again, and values put together of such parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sympy

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.implication import is_empty

EXTREMA = frozenset({"max", "min"})
_EXACT = frozenset({sympy.Abs, sympy.Max, sympy.Min, sympy.sign, sympy.floor, sympy.ceiling})

Rows = tuple[Row, ...]


def rounded_parts(node: Node, closed: frozenset[int]) -> Iterator[tuple[Node, Rows]]:
    """The parts of a value, one of which it is, that may be other numbers elsewhere, and the conditions around them."""
    stack: list[tuple[Node, Rows]] = [(node, ())]
    seen = set()
    while stack:
        part, rows = stack.pop()
        if (part, rows) in seen or _is_exact(part, closed, 1):
            continue
        seen.add((part, rows))
        choices = _choices(part, closed)
        if choices:
            stack += [(choice, rows + part.data if part.op == "guard" else rows) for choice in reversed(choices)]
        else:
            yield part, rows


def _choices(node: Node, closed: frozenset[int]) -> Sequence[Node]:
    """The values, one of which or whose negative a node is; none where it is computed from several."""
    match node.op:
        case "guard":
            return node.args
        case "select":
            return node.args[1:] if _is_exact(node.args[0], closed, 1) else ()
        case "add":
            return node.args if _most_terms(node) == 1 else ()
        case "mul":
            return node.args[1:] if len(node.args) == 2 and node.args[0].data == -1 else ()
    return ()


def rebuilt(graph: Graph, node: Node, new: Mapping[Node, Node]) -> Node:
    """A value with ``new`` parts in place of some that it is chosen from."""
    done = dict(new)
    for part in reachable(node):
        if part not in done and not done.keys().isdisjoint(part.args):
            done[part] = graph.with_args(part, [done.get(arg, arg) for arg in part.args])
    return done.get(node, node)


def may_equal(value: Node, other: Node) -> bool:
    """Whether a value may be another one, in another form."""
    if value.op in EXTREMA and other.op not in EXTREMA:
        return False
    own, others = _tensors(value), _tensors(other)
    chosen = any(part.op in ("guard", "select") for part in reachable(other))
    return bool(own) and (own <= others if chosen else own == others)


def _is_exact(node: Node, closed: frozenset[int], roundings: int) -> bool:
    """Whether a value is the same number wherever it is computed: it is rounded no more than so many times."""
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op == "add":
            roundings -= _most_terms(part) - 1
        elif part.op == "mul":
            roundings -= len(part.args) - 1 - (part.args[0].op == "const" and part.args[0].data in (1, -1))
        known = part.op == "read" and (part.args[0].op == "tensor" or part.args[0].free <= closed)
        if known or part.op in ("const", "scalar", "index"):
            continue
        plain = part.op in ("add", "mul", "guard", "select", "compare", "and", "or", "not", *EXTREMA)
        if roundings < 0 or not (plain or (part.op == "call" and part.data in _EXACT)):
            return False
        stack += part.args
    return True


def _most_terms(total: Node) -> int:
    """How many terms of an addition may differ from 0 at once: no more than one of guards that exclude each other."""
    groups: list[list[Rows]] = []
    for term in total.args:
        rows = term.data if term.op == "guard" else ()
        for group in groups:
            if all(is_empty((*rows, *other)) for other in group):
                group.append(rows)
                break
        else:
            groups.append([rows])
    return len(groups)


def _tensors(node: Node) -> set[Node]:
    return {part for part in reachable(node) if part.op == "tensor"}
