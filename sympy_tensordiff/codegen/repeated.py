"""Values of functions that several sums need: they are worth an array, however few values they are taken of.

What is multiplied out is computed in more places than what it was made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sympy_tensordiff.codegen.functions import is_external
from sympy_tensordiff.codegen.materialise import is_dear
from sympy_tensordiff.codegen.plan import Planner
from sympy_tensordiff.graph.nodes import BINDERS, Node, reachable


def repeated_calls(planner: Planner, roots: Sequence[Node]) -> set[Node]:
    """The calls of functions of sums that stand in several binders, whatever their indices are called.

    They are given as `Planner.numbered` does, over the numbered axes.
    """
    places: Counter[Node] = Counter()
    for node in reachable(*roots):
        if node.op in BINDERS:
            found = {planner.numbered(call, sorted(v for v in call.free if v < 0)) for call in _calls_of(node)}
            places.update(found)
    return {call for call, count in places.items() if count > 1}


def _calls_of(binder: Node) -> list[Node]:
    """The outermost dear calls below a binder, and not below an inner one."""
    stack, seen, found = [binder.args[0]], {binder.args[0]}, []
    while stack:
        node = stack.pop()
        if node.op in BINDERS or not node.height:
            continue
        if is_dear(node) and not is_external(node):
            found.append(node)
            continue
        stack += [arg for arg in node.args if arg not in seen]
        seen.update(node.args)
    return found
