"""Which parts of a value other values use, too, and so are worth an array before the value has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence, Set
from math import prod

from sympy_tensordiff.codegen.lower.functions import is_external
from sympy_tensordiff.codegen.lower.materialise import CONDITIONS
from sympy_tensordiff.codegen.lower.plan import Candidate
from sympy_tensordiff.graph.nodes import RANGED, Node, reachable

_ARITHMETIC = RANGED | {"add", "mul", "pow", "call"}


def uses(*bodies: Node) -> Counter[Node]:
    """How often each node is used in a kernel; a comprehension has kernels of its own."""
    found: Counter[Node] = Counter()
    seen = set(bodies)
    stack = list(bodies)
    while stack:
        for arg in stack.pop().args:
            found[arg] += 1
            if arg not in seen and arg.op != "comprehension":
                seen.add(arg)
                stack.append(arg)
    return found


def shared_parts(node: Node, totals: Sequence[Counter[Node]], known: Set[int]) -> list[Node]:
    """The outermost parts of ``node`` that hold a sum, depend on ``known`` variables only and are used elsewhere.

    ``totals`` count uses in all of a kernel, and in all results. What only one branch of a choice needs is left
    there, and so is what calls a function of the user's.
    """
    elsewhere = _used_elsewhere(node, totals)
    found = []
    stack = [node]
    seen = {node}
    while stack:
        part = stack.pop()
        if part is not node:
            if not part.height or part.shape or part.op == "comprehension":
                continue
            kept = part.op in _ARITHMETIC or (part.op == "select" and _is_number(part))
            if part in elsewhere and kept and known >= part.free and not calls_external(part):
                found.append(part)
                continue
            if part.op == "select":
                continue
        new = [arg for arg in reversed(part.args) if arg not in seen]
        seen.update(new)
        stack += new
    return found


def _used_elsewhere(node: Node, totals: Sequence[Counter[Node]]) -> set[Node]:
    """The parts of ``node`` that something outside of it uses, itself or as a part of what it uses."""
    here = uses(node)
    found = {part for part in here if any(total[part] > here[part] for total in totals)}
    stack = list(found)
    while stack:
        new = [arg for arg in stack.pop().args if arg in here and arg not in found]
        found.update(new)
        stack += new
    return found


def _is_number(choice: Node) -> bool:
    """Whether a choice is one between numbers, and not between conditions."""
    stack, seen = [choice], {choice}
    while stack:
        part = stack.pop()
        new = [arg for arg in part.args[1:] if arg.op == "select" and arg not in seen]
        seen.update(new)
        stack += new
        if any(arg.op in CONDITIONS for arg in part.args[1:]):
            return False
    return True


def calls_external(node: Node) -> bool:
    """Whether a part of a node is a function of the user's."""
    return any(part.op == "call" and is_external(part) for part in reachable(node))


# ---------------------------------------------------------------------------- what all calls have in common

LARGEST_TABLE = 2**20
"""Of more entries than these, no values of functions are kept from call to call."""


def is_table(candidate: Candidate, arguments: Container[Node]) -> bool:
    """Whether a part depends on no argument, nor on a size, and has few enough values to keep them for all calls."""
    if not candidate.node.free <= frozenset(candidate.axes):
        return False
    if any(part.op == "tensor" or part in arguments for part in reachable(candidate.node)):
        return False
    extents = [high[0] - low[0] + 1 for low, high in zip(candidate.lows, candidate.highs, strict=True)]
    is_short = all(extent.is_constant for extent in extents) and prod(e.constant for e in extents) <= LARGEST_TABLE
    return is_short and not calls_external(candidate.node)
