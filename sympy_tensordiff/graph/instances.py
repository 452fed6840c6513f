"""Matching up to index substitution: index forms for the variables of one node that turn it into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Variable
from sympy_tensordiff.integer.indirect import IndirectIndex, compounds_in
from sympy_tensordiff.integer.products import SymbolicQuotient
from sympy_tensordiff.integer.rows import atoms_in

Forms = tuple[Affine, ...]
Assignment = Mapping[Variable, Affine]

MAX_CANDIDATES = 200
"""The most candidate substitutions that are tried."""


def instance(graph: Graph, body: Node, variables: Sequence[int], node: Node) -> dict[int, Affine] | None:
    """Return the index forms that turn ``body`` into ``node`` if they replace the ``variables``: ``{i: p - 1}`` for
    ``x[i]`` and ``x[p - 1]``. None if there are no such forms.

    Every variable must be free in ``body``.
    """
    return next(instances(graph, body, variables, node), None)


class Comparison(NamedTuple):
    """Functions that decide which index forms and nodes `instances` treats as equal: two index forms if ``form`` maps
    them to the same form, two nodes if ``node`` maps them to the same node. ``moves`` yields variants of a candidate
    substitution that are tried, too.

    ``form`` and ``node`` map equal index forms and equal nodes to the same ones, as far as they can decide. ``moves``
    yields the variants of a substitution to try, which may be wrong by a multiple of a divisor.
    """

    form: Callable[[Affine], Affine] = lambda form: form
    node: Callable[[Node], Node] = lambda node: node
    moves: Callable[[Assignment], Iterator[dict[Any, Affine]]] = lambda found: iter([dict(found)])


EXACT = Comparison()


def instances(
    graph: Graph,
    body: Node,
    variables: Sequence[int],
    node: Node,
    compare: Comparison = EXACT,
    by_terms: bool = False,
) -> Iterator[dict[int, Affine]]:
    """Yield all substitutions of index forms for ``variables`` that turn ``body`` into a node equal to ``node``, where
    `compare` decides equality.

    Candidates are read off where both nodes read the same tensor, or have ranges or indices as numbers. With
    ``by_terms``, they include those for variables that occur in sums only, as in ``f(i - j)``.
    """

    def normal(part: Node) -> Node:
        """Return the normal form of the node `part`: two nodes that ``compare`` treats as equal have the same one."""
        return compare.node(with_joined_indices(graph, part))

    keys = frozenset(variables)
    body, node = normal(body), normal(node)
    targets: dict[Any, list[Forms]] = {}
    for part in reachable(node):
        for place, forms in _forms_to_match(part):
            # An equation may have the other sign where its variables come in another order.
            targets.setdefault(place, []).extend((forms, *_equal_forms(place, forms)))
    sources = [substitution for part in reachable(body, keys=keys) for substitution in _forms_to_match(part)]
    pairs = [(forms, targets.get(place, [])) for place, forms in sources if not _variables_in(forms).isdisjoint(keys)]
    pairs.sort(key=lambda pair: len(pair[1]))  # those that leave the least choice first
    reads = [part for part in reachable(body, keys=keys) if part.op == "read" and part.args[0].op == "tensor"]
    reads.sort(key=lambda part: len(targets.get(part.args[0], [])))
    seen = {tensor: set(forms) for tensor, forms in targets.items()}

    def reads_the_same(substitution: Assignment) -> bool:
        """Return whether ``node`` contains all reads of tensors that ``body`` contains after the ``substitution``. This
        quick test rejects most wrong substitutions.
        """
        for part in reads:
            forms = tuple([compare.form(form.substitute(substitution)) for form in part.data])
            if forms not in seen.get(part.args[0], ()):
                return False
        return True

    for first in islice(_substitutions(pairs, keys, {}, by_terms), MAX_CANDIDATES):
        for substitution in compare.moves(first):
            bound = (v for form in substitution.values() for v in form.atoms() if v < 0)
            if (
                node.free.issuperset(bound)
                and reads_the_same(substitution)
                and normal(graph.substitute(body, substitution)) is node
            ):
                yield {v: substitution[v] for v in variables}


def with_joined_indices(graph: Graph, node: Node) -> Node:
    """Return ``node`` with sums of indices that are used as numbers, such as ``i + 1`` in ``(i + 1)*x[i]``, merged into
    one index node.
    """
    parts = reachable(node)
    done: dict[Node, Node] = {}
    for part in parts if any(part.op == "index" for part in parts) else ():
        done[part] = new = graph.with_args(part, [done[arg] for arg in part.args])
        if new.op == "add" and not new.shape:
            forms = [_integer_form(term) for term in new.args]
            others = [term for term, form in zip(new.args, forms, strict=True) if form is None]
            total = sum((form for form in forms if form is not None), Affine())
            done[part] = graph.add([*others, graph.index(total)])
    return done.get(node, node)


def _integer_form(node: Node) -> Affine | None:
    """Return the affine form of a scalar that is an integer, an index form, or an integer multiple of one; None for
    others.
    """
    factor, index = (node.args[0].data, node.args[1]) if node.op == "mul" and len(node.args) == 2 else (1, node)
    if index.op == "index" and isinstance(factor, int):
        return index.data * factor  # type: ignore[no-any-return]
    return Affine.of(node.data) if node.op == "const" and isinstance(node.data, int) else None


def _forms_to_match(part: Node) -> Iterator[tuple[Any, Forms]]:
    """Yield pairs ``(key, forms)``: the index forms of the node ``part``, and those inside of nonlinear terms such as
    ``floor(i/2)`` and ``p[i]``. The key names the position of the forms; only forms with equal keys can match.
    """
    for position, forms in _forms_of_node(part):
        yield position, forms
        for compound in compounds_in(forms):
            if isinstance(compound, (Quotient, SymbolicQuotient)):
                yield "quotient", (compound.form, Affine.of(compound.divisor))
            else:
                kind = compound.tensor if isinstance(compound, IndirectIndex) else ""
                yield (type(compound).__name__, kind), compound.forms()


def _equal_forms(position: Any, forms: Forms) -> Iterator[Forms]:
    """Yield other notations of the index forms ``forms``: ``(-a,)`` for the form of an equation ``a == 0`` or a
    congruence, and those of opposite sign for a floor quotient ``(a, m)``. ``position`` says from which of these
    ``forms`` comes.
    """
    if position in ("eq", "mod"):
        yield (-forms[0],)
    elif position == "quotient":
        form, divisor = forms
        yield -1 - form, divisor
        yield divisor - 1 - form, divisor


def _forms_of_node(part: Node) -> Iterator[tuple[Any, Forms]]:
    """Yield pairs ``(position, forms)`` for the index forms of the node ``part`` itself, not of its arguments. The
    position is the tensor of a read ("table" for a computed tensor), "index" for a number, or the kind of a constraint.
    """
    if part.op == "read":
        yield (part.args[0] if part.args[0].op == "tensor" else "table"), part.data
    elif part.op == "index" or (part.op == "const" and isinstance(part.data, int)):
        yield "index", (Affine.of(part.data),)
    elif part.op in RANGED or part.op == "guard":
        for row in part.data:
            yield row.kind, (row.form,)


def _variables_in(forms: Forms) -> frozenset[int]:
    """Return the index variables in `forms`."""
    return atoms_in(forms)


def _substitutions(
    pairs: Sequence[tuple[Forms, Sequence[Forms]]], unknown: frozenset[int], found: Assignment, by_terms: bool
) -> Iterator[dict[Variable, Affine]]:
    """Yield candidates for substitutions that turn a pattern into a node, by solving equations between index forms.
    They extend ``found`` to all variables in ``unknown``.

    Each of `pairs` has forms of the body, and the forms in the node that may be equal to them.

    Only as many pairs are used as determine the variables; the others are not checked. With ``by_terms``, variables
    that no pair determines get the values of `_assignments_by_terms`.
    """
    waiting = unknown - found.keys()
    if not waiting:
        yield dict(found)
        return
    extended = False
    for n, (own, others) in enumerate(pairs):
        if not _variables_in(own).isdisjoint(waiting):
            for other in others:
                more = _solve_forms(own, other, unknown, found)
                if more is not None and len(more) > len(found):
                    extended = True
                    yield from _substitutions([*pairs[:n], *pairs[n + 1 :]], unknown, more, by_terms)
    for own, others in pairs if by_terms and not extended else ():
        for other in others:
            for more in _assignments_by_terms(own, other, waiting):
                yield from _substitutions(pairs, unknown, {**found, **more}, by_terms)


def _assignments_by_terms(forms: Forms, targets: Forms, unknown: frozenset[int]) -> Iterator[dict[Variable, Affine]]:
    """Yield values of one variable in ``unknown`` for equations that do not determine it: of ``i`` in ``i - j == p -
    q`` the value p, so that j is q.
    """
    for form, target in zip(forms, targets, strict=False):
        first = next((v for v, _ in form.terms if v in unknown), None)
        if first is not None:
            alike = (w for w, c in target.terms if isinstance(w, int) and c == form.coefficient(first))
            yield from ({first: Affine.variable(w)} for w in alike)


def _solve_forms(
    forms: Forms, targets: Forms, unknown: frozenset[int], found: Assignment
) -> dict[Variable, Affine] | None:
    """Return the dictionary ``found`` extended by the variables in ``unknown`` that follow from the equations
    ``forms[n] == targets[n]``; None if the equations contradict each other.
    """
    if len(forms) != len(targets):
        return None
    known = dict(found)
    waiting = list(zip(forms, targets, strict=True))
    while True:
        rest = []
        for form, value in waiting:
            left = form.substitute({v: known[v] for v in form.atoms() if v in known})
            unsolved = [v for v in left.atoms() if v in unknown and v not in known]
            if not unsolved:
                if left != value and not (left.compounds() or value.compounds()):
                    return None
            elif len(unsolved) == 1 and (c := _coefficient_to_solve_for(left, unsolved[0])):
                v = unsolved[0]
                if v in left.hidden():
                    left, value = _without_compounds(left), _without_compounds(value)
                exact = _divide_exactly(value - left + Affine({v: c}), c)
                if exact is None:
                    return None
                known[v] = exact
            else:
                rest.append((form, value))
        if len(rest) == len(waiting):
            return known
        waiting = rest


def _coefficient_to_solve_for(form: Affine, variable: int) -> int:
    """Return the coefficient of ``variable`` in ``form``, by which to divide when ``form == 0`` is solved for it; 0 if
    that is impossible.

    If the variable also occurs inside of a compound such as ``floor(i/2)``, only the coefficients 1 and -1 are
    accepted.
    """
    c = form.coefficient(variable)
    return 0 if variable in form.hidden() and abs(c) != 1 else c


def _without_compounds(form: Affine) -> Affine:
    """Return the affine part of `form`, without floor quotients, maxima and tensor entries."""
    return Affine({v: c for v, c in form.terms if not isinstance(v, Compound)}, form.constant)


def _divide_exactly(form: Affine, divisor: int) -> Affine | None:
    """Return ``form / divisor`` if all its coefficients are divisible; else None."""
    whole = all(c % divisor == 0 for _, c in form.terms) and form.constant % divisor == 0
    return Affine({v: c // divisor for v, c in form.terms}, form.constant // divisor) if whole else None
