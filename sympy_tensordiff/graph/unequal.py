"""Sums on both sides of a value as one over all values but that: ``j < p`` and ``j > p`` are ``j != p``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.implication import implied


class Unequal(NamedTuple):
    """A number times factors times the sum of ``body`` over the points of ``rows`` at which ``form`` is not 0.

    ``node`` is one of the two sums, whose indices have names.
    """

    number: Number
    factors: tuple[Node, ...]
    node: Node
    variables: tuple[int, ...]
    rows: tuple[Row, ...]
    form: Affine
    body: Node


def without_sides(graph: Graph, terms: Sequence[Node], known: Sequence[Row]) -> Iterator[Node | Unequal]:
    """The terms of an addition, two sums of one body on both sides of a value as one.

    Parameters
    ----------
    graph : Graph
    terms : sequence of Node
    known : sequence of Row
        What is known of the indices around.
    """
    waiting = [(term, _parts(graph, term)) for term in terms]
    while waiting:
        term, parts = waiting.pop(0)
        for number, (_, others) in enumerate(waiting):
            joined = None if parts is None or others is None else _joined(graph, parts, others, known)
            if joined is not None:
                del waiting[number]
                yield joined
                break
        else:
            yield term


_Parts = tuple[Number, tuple[Node, ...], Node]


def _parts(graph: Graph, term: Node) -> _Parts | None:
    """A term as a number, factors and the only sum among them."""
    number, core = graph.split_coefficient(term)
    factors = graph.factors(core)
    sums = [factor for factor in factors if factor.op == "sum"]
    return (number, tuple(f for f in factors if f is not sums[0]), sums[0]) if len(sums) == 1 else None


def _joined(graph: Graph, one: _Parts, other: _Parts, known: Sequence[Row]) -> Unequal | None:
    """The sum over both sides; None where the two are no such sums."""
    if one[:2] != other[:2] or one[2].args[0] is not other[2].args[0]:
        return None
    variables, rows, body = graph.open(one[2])
    theirs, beyond, _ = graph.open(other[2])
    beyond = tuple(
        row.substitute({v: Affine.variable(w) for v, w in zip(theirs, variables, strict=True)}) for row in beyond
    )
    known = [*known, *_inside(body, variables)]
    for side in rows:
        for opposite in beyond:
            if side.kind == opposite.kind == "ge" and side.form + opposite.form == Affine.of(-2):
                first, second = _needed(rows, side), _needed(beyond, opposite)
                # On each side the limits of the other one hold anyway.
                if all(implied(row, (*rows, *known)) for row in second) and all(
                    implied(row, (*beyond, *known)) for row in first
                ):
                    joined = tuple(dict.fromkeys((*first, *second)))
                    return Unequal(one[0], one[1], one[2], variables, joined, side.form + 1, body)
    return None


def _inside(body: Node, bound: Sequence[int]) -> Iterator[Row]:
    """Indices from outside at which a tensor is read are inside of it."""
    for part in reachable(body):
        if part.op == "read":
            for form, extent in zip(part.data, part.args[0].shape, strict=True):
                (atom,) = form.atoms() if len(form.atoms()) == 1 else (-1,)
                if isinstance(atom, int) and atom >= 0 and atom not in bound and form == Affine.variable(atom):
                    yield from (Row("ge", form), Row("ge", extent - 1 - form))


def _needed(rows: Sequence[Row], side: Row) -> list[Row]:
    """The rows but one, without those that it makes follow from the others."""
    found = [row for row in rows if row != side]
    for row in list(found):
        rest = [other for other in found if other != row]
        if implied(row, (*rest, side)) and not implied(row, rest):
            found = rest
    return found
