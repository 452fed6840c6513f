"""Derivatives stay where the function is chosen: no slope is evaluated in a branch that is not taken.

The cotangent of ``log(x[i])`` in ``Piecewise((log(x[i]), x[i] > 0), (0, True))`` is 0 where the
condition does not hold, but floating point numbers say ``0 * 1/x[i] = nan`` at ``x[i] = 0``. So the
slope goes into the branch: ``Piecewise((1/x[i], x[i] > 0), (0, True))``.

A node that is needed under several conditions has an addition, or a sum, of such choices as its
cotangent. The slope then goes into each of them. That costs operations, and is not done for a
node that is needed anyway: where it is a number, so is its slope.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.polyhedron import implied
from sympy_tensordiff.simplify.choices import inside_conditions
from sympy_tensordiff.simplify.facts import unconditional_reads

Rows = tuple[Row, ...]

LIMIT = 32
"""Cotangents that are made of more choices are left as they are: products with all of them would explode."""

READS = 64
"""So many nodes of a comprehension are looked at for its reads: a chain of them stays linear."""


def protected(graph: Graph, product: Node, *, anyway: bool = True) -> Node:
    """A derivative with what is only a number where a choice among its factors is not 0 moved into the choice.

    Parameters
    ----------
    graph : Graph
    product : Node
        A cotangent times a slope, or an addition of such.
    anyway : bool
        Whether the node whose slope this is is needed under no condition. Then choices that are factors
        themselves are seen to, and those inside of additions and sums are not.
    """
    if product.op == "guard":
        return graph.guard(product.data, protected(graph, product.args[0], anyway=anyway))
    if product.op == "add":
        return graph.add([protected(graph, term, anyway=anyway) for term in product.args])
    if product.op == "select":
        return graph.select(product.args[0], *(protected(graph, side, anyway=anyway) for side in product.args[1:]))
    factors = graph.factors(product)
    if len(factors) < 2 or all(factor.total for factor in factors):
        return product
    if anyway:
        choices = [factor for factor in factors if graph.is_choice(factor)]
    else:
        choices = [factor for factor in factors if is_chosen(graph, factor)]
    if not choices:
        return product
    # All choices go into the first: they, too, may be numbers in its branch only.
    choice, *inner = sorted(choices, key=lambda factor: not factor.total)
    partial = [factor for factor in factors if not (factor.total or factor is choice)]
    if not partial:
        return product
    moved = [*(factor for factor in partial if factor not in inner), *inner]
    rest = [factor for factor in factors if factor is not choice and factor not in moved]
    return graph.mul((*rest, _within(graph, choice, moved, anyway)))


def _within(graph: Graph, node: Node, factors: Sequence[Node], anyway: bool) -> Node:
    """``node`` times the factors, which stand beside what ``node`` chooses."""
    if node is graph.zero:
        return node
    if node.op == "select" and (graph.is_choice(node) or (not anyway and is_chosen(graph, node))):
        return graph.select(node.args[0], *(_within(graph, side, factors, anyway) for side in node.args[1:]))
    if not anyway and is_chosen(graph, node):
        if node.op == "guard":
            return graph.guard(node.data, _within(graph, node.args[0], factors, anyway))
        if node.op == "add":
            return graph.add([_within(graph, term, factors, anyway) for term in node.args])
        if node.op == "sum":
            variables, rows, body = graph.open(node)
            return graph.sum(variables, rows, _within(graph, body, factors, anyway))
    product = graph.mul((node, *factors))
    parts = graph.factors(node)
    if not anyway and len(parts) > 1 and node in graph.factors(product) and is_chosen(graph, node):
        # A product that stays one factor of others: they go to the factor of its own that chooses.
        choice = next(part for part in parts if is_chosen(graph, part))
        others = [part for part in parts if part is not choice]
        return graph.mul((*others, _within(graph, choice, factors, anyway)))
    return protected(graph, product, anyway=anyway)


def within(graph: Graph, entry: Node, factors: Sequence[Node]) -> Node:
    """An entry that conditions choose times factors, which stand beside what it chooses."""
    return _within(graph, entry, factors, anyway=False)


def inside(graph: Graph, node: Node, rows: Rows, cotangent: Node) -> Rows:
    """What keeps the reads of a node, which its slope repeats, inside of shapes where the cotangent may be chosen.

    Where they are outside the function has not asked for the node: the cotangent, a sum perhaps, chooses nothing.
    """
    if not _may_choose(graph, cotangent):
        return ()
    reads = unconditional_reads(graph, node, rows, most=READS)
    return tuple(row for row in reads if not implied(row, rows))


def inside_data(graph: Graph, node: Node, rows: Rows, cotangent: Node) -> Rows:
    """What keeps the data in an index, a condition or a range, which rows repeat, inside of shapes; see `inside`."""
    needed = graph.inside_data(node.data) if node.op == "read" else inside_conditions(graph, node)
    return tuple(row for row in needed if not implied(row, rows)) if _may_choose(graph, cotangent) else ()


def _may_choose(graph: Graph, cotangent: Node) -> bool:
    factors = graph.factors(cotangent)
    is_entry = any(part.op == "read" and part.args[0].op == "comprehension" for part in factors)
    return is_entry or is_chosen(graph, cotangent)


def is_chosen(graph: Graph, node: Node) -> bool:
    """Whether a node is 0 unless conditions choose otherwise, as far as few steps show."""
    return _is_chosen(graph, node, [LIMIT])


def _is_chosen(graph: Graph, node: Node, room: list[int]) -> bool:
    """Whether a node is 0 unless conditions choose otherwise; it is looked at within the ``room`` left."""
    room[0] -= 1
    if room[0] < 0:
        return False
    if node.op == "add":
        return all(_is_chosen(graph, term, room) for term in node.args)
    parts = node.args[1:] if node.op == "select" else graph.factors(node)
    if node.op == "select" or len(parts) > 1:
        return graph.zero in parts or any(_is_chosen(graph, part, room) for part in parts)
    return node.op in ("guard", "sum") and (node.op == "guard" or _is_chosen(graph, node.args[0], room))
