"""Whether a node is another one with forms in place of some of its variables, and which forms these are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Variable
from sympy_tensordiff.integer.data import DataEntry, compounds_in
from sympy_tensordiff.integer.products import SymbolicQuotient
from sympy_tensordiff.integer.rows import atoms_in

Forms = tuple[Affine, ...]
Assignment = Mapping[Variable, Affine]

MOST = 200
"""So many pairs of reads are compared."""


def instance(graph: Graph, body: Node, variables: Sequence[int], node: Node) -> dict[int, Affine] | None:
    """The forms for ``variables`` that turn ``body`` into ``node``; None where there are none.

    Every variable stands free in ``body``.
    """
    return next(instances(graph, body, variables, node), None)


class Comparison(NamedTuple):
    """The comparison of nodes, with forms substituted for variables, with another node.

    ``form`` and ``node`` map equal index forms and equal nodes to the same ones, as far as they can tell. ``moves``
    yields all forms that are tried where some have been read off, which may be wrong by a multiple of a divisor.
    """

    form: Callable[[Affine], Affine] = lambda form: form
    node: Callable[[Node], Node] = lambda node: node
    moves: Callable[[Assignment], Iterator[dict[Any, Affine]]] = lambda found: iter([dict(found)])


EXACT = Comparison()


def instances(
    graph: Graph, body: Node, variables: Sequence[int], node: Node, compare: Comparison = EXACT
) -> Iterator[dict[int, Affine]]:
    """All such forms. They are read off where both nodes read the same tensor, or have ranges or indices as numbers.

    They count if the substitution gives ``node`` itself, or what ``compare`` says is the same.
    """

    def normal(part: Node) -> Node:
        return compare.node(with_joined_indices(graph, part))

    keys = frozenset(variables)
    body, node = normal(body), normal(node)
    targets: dict[Any, list[Forms]] = {}
    for part in reachable(node):
        for place, forms in _reads(part):
            # An equation may have the other sign where its variables come in another order.
            targets.setdefault(place, []).extend((forms, *_opposites(place, forms)))
    sources = [found for part in reachable(body, keys=keys) for found in _reads(part)]
    pairs = [(forms, targets.get(place, [])) for place, forms in sources if not _atoms(forms).isdisjoint(keys)]
    pairs.sort(key=lambda pair: len(pair[1]))  # those that leave the least choice first
    reads = [part for part in reachable(body, keys=keys) if part.op == "read" and part.args[0].op == "tensor"]
    reads.sort(key=lambda part: len(targets.get(part.args[0], [])))
    seen = {tensor: set(forms) for tensor, forms in targets.items()}

    def reads_the_same(found: Assignment) -> bool:
        """Whether each read of the body is one of the node: most assignments fail at the first."""
        for part in reads:
            forms = tuple([compare.form(form.substitute(found)) for form in part.data])
            if forms not in seen.get(part.args[0], ()):
                return False
        return True

    for first in islice(_solutions(pairs, keys, {}), MOST):
        for found in compare.moves(first):
            bound = (v for form in found.values() for v in form.atoms() if v < 0)
            if node.free.issuperset(bound) and reads_the_same(found) and normal(graph.substitute(body, found)) is node:
                yield {v: found[v] for v in variables}


def with_joined_indices(graph: Graph, node: Node) -> Node:
    """A node, where what is added to indices used as numbers, and what they are multiplied by, is in the indices."""
    parts = reachable(node)
    done: dict[Node, Node] = {}
    for part in parts if any(part.op == "index" for part in parts) else ():
        done[part] = new = graph.with_args(part, [done[arg] for arg in part.args])
        if new.op == "add" and not new.shape:
            forms = [_integer(term) for term in new.args]
            others = [term for term, form in zip(new.args, forms, strict=True) if form is None]
            total = sum((form for form in forms if form is not None), Affine())
            done[part] = graph.add([*others, graph.index(total)])
    return done.get(node, node)


def _integer(node: Node) -> Affine | None:
    """The form that a number is by its structure, a multiple of an index or a constant."""
    factor, index = (node.args[0].data, node.args[1]) if node.op == "mul" and len(node.args) == 2 else (1, node)
    if index.op == "index" and isinstance(factor, int):
        return index.data * factor  # type: ignore[no-any-return]
    return Affine.of(node.data) if node.op == "const" and isinstance(node.data, int) else None


def _reads(part: Node) -> Iterator[tuple[Any, Forms]]:
    """The forms in a node and inside of its forms, each with what those have in common with it that may be the same."""
    for place, forms in _own_forms(part):
        yield place, forms
        for compound in compounds_in(forms):
            if isinstance(compound, (Quotient, SymbolicQuotient)):
                yield "quotient", (compound.form, Affine.of(compound.divisor))
            else:
                kind = compound.tensor if isinstance(compound, DataEntry) else ""
                yield (type(compound).__name__, kind), compound.forms()


def _opposites(place: Any, forms: Forms) -> Iterator[Forms]:
    """The forms of equal compounds or rows in the opposite direction: ``floor(-p/n)`` is ``-1 - floor((p - 1)/n)``."""
    if place in ("eq", "mod"):
        yield (-forms[0],)
    elif place == "quotient":
        form, divisor = forms
        yield -1 - form, divisor
        yield divisor - 1 - form, divisor


def _own_forms(part: Node) -> Iterator[tuple[Any, Forms]]:
    if part.op == "read":
        yield (part.args[0] if part.args[0].op == "tensor" else "table"), part.data
    elif part.op == "index" or (part.op == "const" and isinstance(part.data, int)):
        yield "index", (Affine.of(part.data),)
    elif part.op in RANGED or part.op == "guard":
        for row in part.data:
            yield row.kind, (row.form,)


def _atoms(forms: Forms) -> frozenset[int]:
    return atoms_in(forms)


def _solutions(
    pairs: Sequence[tuple[Forms, Sequence[Forms]]], unknown: frozenset[int], found: Assignment
) -> Iterator[dict[Variable, Affine]]:
    """All forms for ``unknown`` under which what has to be looked at is one of those opposite."""
    waiting = unknown - found.keys()
    if not waiting:
        yield dict(found)
        return
    for n, (own, others) in enumerate(pairs):
        if not _atoms(own).isdisjoint(waiting):
            for other in others:
                more = _solved(own, other, unknown, found)
                if more is not None and len(more) > len(found):
                    yield from _solutions([*pairs[:n], *pairs[n + 1 :]], unknown, more)


def _solved(own: Forms, other: Forms, unknown: frozenset[int], found: Assignment) -> dict[Variable, Affine] | None:
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
                if left != value and not (left.compounds() or value.compounds()):
                    return None
            elif len(open_) == 1 and (c := _solvable(left, open_[0])):
                v = open_[0]
                if v in left.hidden():
                    left, value = _plain(left), _plain(value)
                exact = _divided(value - left + Affine({v: c}), c)
                if exact is None:
                    return None
                known[v] = exact
            else:
                rest.append((form, value))
        if len(rest) == len(waiting):
            return known
        waiting = rest


def _solvable(form: Affine, variable: int) -> int:
    """The coefficient of a variable if an equation with the form may be solved for it, up to multiples of divisors."""
    c = form.coefficient(variable)
    return 0 if variable in form.hidden() and abs(c) != 1 else c


def _plain(form: Affine) -> Affine:
    """A form without its compounds, among them the multiples of divisors."""
    return Affine({v: c for v, c in form.terms if not isinstance(v, Compound)}, form.constant)


def _divided(form: Affine, divisor: int) -> Affine | None:
    """A form over an integer, where that leaves no remainder."""
    whole = all(c % divisor == 0 for _, c in form.terms) and form.constant % divisor == 0
    return Affine({v: c // divisor for v, c in form.terms}, form.constant // divisor) if whole else None
