"""Choices between a value and 0 by indices that differ, ``v if i != j else 0``.

No polyhedron, and so no guard, describes the points at which two indices differ: each point is tested.
"""

from __future__ import annotations

from sympy_tensordiff.graph.interning import Node
from sympy_tensordiff.integer.affine import Affine


def conjuncts(condition: Node) -> tuple[Node, ...]:
    """Return the conditions that `condition` joins by "and"; itself, as the only element, if it is not such a
    conjunction.
    """
    return condition.args if condition.op == "and" else (condition,)


def unequal_forms(condition: Node) -> tuple[Affine, ...]:
    """Return the index forms that ``condition`` requires to be nonzero, such as ``i - j`` for ``i != j``. Return () if
    a part of it is not of the kind ``form != 0``.
    """
    parts = conjuncts(condition)
    if any(part.op != "compare" or part.data != "ne" or part.args[0].op != "index" for part in parts):
        return ()
    return tuple(part.args[0].data for part in parts) if all(part.args[1].data == 0 for part in parts) else ()


def is_index_choice(node: Node) -> bool:
    """Return whether `node` is ``v if i != j else 0``: a value where indices differ, else 0."""
    if node.op != "select" or node.args[2].op != "const" or node.args[2].data != 0:
        return False
    return bool(unequal_forms(node.args[0]))
