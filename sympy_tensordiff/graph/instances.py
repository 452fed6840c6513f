"""Whether a node is another one with forms in place of some of its variables, and which forms these are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Variable

Forms = Mapping[Variable, Affine]

MOST = 200
"""So many pairs of reads are compared."""


def instance(graph: Graph, body: Node, variables: Sequence[int], node: Node) -> dict[int, Affine] | None:
    """The forms that make ``body`` to ``node`` if they stand in place of ``variables``; None where there are none.

    Every variable stands free in ``body``. Forms are read off where both nodes read the same tensor, and count if the
    substitution gives ``node`` itself.
    """
    keys = frozenset(variables)
    sources = [(_place(part), part) for part in reachable(body, keys=keys) if part.op in ("read", "index")]
    targets: dict[Any, list[Node]] = {}
    for part in reachable(node):
        if part.op in ("read", "index", "const"):
            targets.setdefault(_place(part), []).append(part)
    pairs = [(part, targets.get(place, [])) for place, part in sources]
    for n, found in enumerate(_solutions(pairs, keys, {})):
        if graph.substitute(body, found) is node:
            return {v: found[v] for v in variables}
        if n > MOST:
            break
    return None


def _place(part: Node) -> Any:
    """What two reads have in common."""
    return part.args[0] if part.op == "read" else "index"


def _forms(part: Node) -> Sequence[Affine]:
    if part.op == "const":
        return (Affine.of(part.data),) if isinstance(part.data, int) else ()
    return (part.data,) if part.op == "index" else part.data


def _solutions(
    pairs: Sequence[tuple[Node, Sequence[Node]]], unknown: frozenset[int], found: Forms
) -> Iterator[dict[Variable, Affine]]:
    """All forms for ``unknown`` under which each read that has to be looked at is one of those opposite."""
    if not unknown - found.keys():
        yield dict(found)
        return
    for n, (part, others) in enumerate(pairs):
        if part.free & (unknown - found.keys()):
            for other in others:
                more = _solved(_forms(part), _forms(other), unknown, found)
                if more is not None and len(more) > len(found):
                    yield from _solutions([*pairs[:n], *pairs[n + 1 :]], unknown, more)


def _solved(
    own: Sequence[Affine], other: Sequence[Affine], unknown: frozenset[int], found: Forms
) -> dict[Variable, Affine] | None:
    """``found`` with the forms of further unknowns that ``own == other`` decides, one form after the other."""
    if len(own) != len(other):
        return None
    known = dict(found)
    waiting = list(zip(own, other, strict=True))
    while True:
        rest = []
        for form, value in waiting:
            left = form.substitute({v: known[v] for v in form.atoms() if v in known})
            open_ = [v for v in left.atoms() if v in unknown and v not in known]
            if not open_:
                if left != value:
                    return None
            elif len(open_) == 1 and (c := left.coefficient(v := open_[0])) and v not in left.hidden():
                exact = _divided(value - left + Affine({v: c}), c)
                if exact is None:
                    return None
                known[v] = exact
            else:
                rest.append((form, value))
        if len(rest) == len(waiting):
            return known
        waiting = rest


def _divided(form: Affine, divisor: int) -> Affine | None:
    """A form over an integer, where that leaves no remainder."""
    whole = all(c % divisor == 0 for _, c in form.terms) and form.constant % divisor == 0
    return Affine({v: c // divisor for v, c in form.terms}, form.constant // divisor) if whole else None
