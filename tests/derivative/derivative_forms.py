"""The parts of a derivative: its sums, its guards, and the parts that contain the cotangent."""

from __future__ import annotations

import sympy
from sympy import Eq, KroneckerDelta, Mod, Piecewise
from sympy.core.relational import Relational

from sympy_tensordiff import IndexedSum, TensorComprehension
from sympy_tensordiff.reference import evaluate, points


def sums_with(result, tensor):
    """The sums that ``tensor`` is read in: those of the derivative, where it is the cotangent."""
    return [node for node in sympy.preorder_traversal(result) if isinstance(node, IndexedSum) and node.body.has(tensor)]


def sums_without(result, tensor):
    """All other sums: those of the values of the function."""
    return [node for node in result.atoms(IndexedSum) if not node.body.has(tensor)]


def ranges(node):
    """The ranges of a sum by index."""
    return {index: (low, high) for index, low, high in node.limits}


def bounds(result, tensor):
    """The pairs of bounds of all sums that hold ``tensor``, sorted by their text."""
    found = [pair for node in sums_with(result, tensor) for pair in ranges(node).values()]
    return sorted(found, key=str)


def conditions(result):
    """All comparisons that are in a Piecewise."""
    return {c for piece in result.atoms(Piecewise) for _, cond in piece.args for c in cond.atoms(Relational)}


def congruences(result):
    """The conditions that a remainder is a number; inequalities between remainders are none."""
    return {c for c in conditions(result) if isinstance(c, Eq) and isinstance(c.lhs, Mod) and c.rhs.is_Integer}


def guards(result):
    """Every condition on indices, the deltas among them."""
    return conditions(result) | result.atoms(KroneckerDelta)


def same_form(result, expected):
    """Return whether two expressions are one but for the names of bound indices."""
    return canonical(result) == canonical(expected)


def canonical(expr, depth=0):
    """Bound indices named after the depth of their binder, which does not depend on the order of terms."""
    if isinstance(expr, IndexedSum | TensorComprehension):
        levels = [sympy.Symbol(f"_{depth + n}", integer=True) for n in range(len(expr.variables))]
        expr = expr.xreplace(dict(zip(expr.variables, levels, strict=True)))
        depth += len(levels)
    args = [canonical(arg, depth) for arg in expr.args]
    return expr.func(*args) if args and args != list(expr.args) else expr


def holds(condition, values):
    """The truth of conditions at integers."""
    return bool(evaluate(Piecewise((1, condition), (0, True)), values))


def entries_read(result, tensor, at):
    """The entries of ``tensor`` that the only sum over it runs through at one entry of the result, in order."""
    assert isinstance(result, TensorComprehension)
    (node,) = sums_with(result, tensor)
    (read,) = {entry for entry in node.body.atoms(type(tensor[at_any(tensor)])) if entry.tensor == tensor}
    values = dict(zip(result.indices, at, strict=True))
    order = [index for index, *_ in node.limits]
    found = []
    for point in points(*node.limits, values=values):
        here = {**values, **dict(zip(order, point, strict=True))}
        found.append(tuple(int(index.subs(here)) for index in read.indices))
    return found


def at_any(tensor):
    return (0,) * len(tensor.shape)
