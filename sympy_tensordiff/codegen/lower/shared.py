"""Which parts of a value other values use, too, and so are worth an array before the value has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from sympy_tensordiff.codegen.lower.functions import is_external
from sympy_tensordiff.codegen.lower.materialise import CONDITIONS
from sympy_tensordiff.codegen.lower.plan import Planner, is_never_empty
from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Row

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
            if part in elsewhere and kept and known >= part.free and not _calls_external(part):
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


def _calls_external(node: Node) -> bool:
    return any(part.op == "call" and is_external(part) for part in reachable(node))


# ---------------------------------------------------------------------------- the order of nested sums
# The order of nested sums: ``Sum_k a_k*Sum_j b_j*c_jk`` is ``Sum_j b_j*Sum_k a_k*c_jk``.
#
# Both take the same multiplications, but for the arrays that keep the inner sum. The other order is chosen
#
# - where its inner sum depends on fewer indices around both sums, and so is computed less often;
# - where it depends on as many, and is needed elsewhere, too: then one array of it serves both;
# - for a single number, where its innermost loop reads along rows and the other one down columns.


Rows = tuple[Row, ...]


class Exchanged(NamedTuple):
    """A sum in the other order, its inner sum, the indices of that, and whether it runs along rows more often."""

    whole: Node
    inner: Node
    outer: tuple[int, ...]
    is_fewer: bool
    is_along: bool


def ordered_sums(graph: Graph, planner: Planner, roots: Sequence[Node]) -> tuple[list[Node], set[Node]]:
    """``roots`` with nested sums in the better order, and the inner sums that several places need.

    The latter are given as `Planner.numbered` does, over the numbered axes.
    """
    parts = reachable(*roots)
    known = {_numbered(planner, part) for part in parts if part.op == "sum"}
    shared: set[Node] = set()
    done: dict[Node, Node] = {}
    for node in parts:
        new = graph.with_args(node, [done[arg] for arg in node.args])
        found = _exchanged(graph, new, planner.facts) if new.op == "sum" else None
        if found is not None:
            name = _numbered(planner, found.inner, found.outer)
            if name in known:
                shared.add(name)
            if found.is_fewer or name in known or (found.is_along and not _around(new)):
                new = found.whole
        done[node] = new
    return [done[root] for root in roots], shared


def _exchanged(graph: Graph, node: Node, facts: Rows) -> Exchanged | None:
    """A sum over one other sum in the other order; None where it costs more, or one sum is bounded by the other."""
    outer, outer_rows, body = graph.open(node)
    factors = graph.factors(body)
    sums = [factor for factor in factors if factor.op == "sum"]
    if len(sums) != 1 or len(factors) == 1 or not is_never_empty(outer, outer_rows, facts):
        return None
    inner, inner_rows, summand = graph.open(sums[0])
    if any(not row.form.atoms().isdisjoint(outer) for row in inner_rows):
        return None
    others = [factor for factor in factors if factor is not sums[0]]
    coupled = [factor for factor in graph.factors(summand) if not factor.free.isdisjoint(outer)]
    own = [factor for factor in graph.factors(summand) if factor.free.isdisjoint(outer)]
    if not coupled or any(factor.free.isdisjoint(inner) for factor in coupled):
        return None
    new = graph.sum(outer, outer_rows, graph.mul([*others, *coupled]))
    if not _around(new) <= _around(sums[0]):
        return None
    whole = graph.sum(inner, inner_rows, graph.mul([*own, new]))
    along = _along(coupled, outer) > _along(coupled, inner)
    return Exchanged(whole, new, inner, _around(new) < _around(sums[0]), along)


def _around(node: Node) -> set[int]:
    """The indices around a node that it depends on, but for those that have been opened."""
    return {v for v in node.free if v < 0}


def _numbered(planner: Planner, node: Node, opened: Sequence[int] = ()) -> Node:
    return planner.numbered(node, sorted(v for v in node.free if v < 0 or v in opened))


def _along(factors: Sequence[Node], variables: Sequence[int]) -> int:
    """How many reads run along rows if these variables do."""
    count = 0
    for part in reachable(*factors):
        if part.op == "read" and part.data:
            *heads, last = [form.atoms().isdisjoint(variables) for form in part.data]
            count += not last and all(heads)
    return count
