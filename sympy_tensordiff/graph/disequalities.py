"""Coalescing of sums and guards on both sides of a value: ``j < p`` and ``j > p`` become ``j != p``.

The printed result has one sum over ``k != p`` and ``j != k, p`` instead of six ordered ranges. Guards of the graph are
conjunctions of inequalities; a coalesced term has a `select` by ``compare ne`` of indices under the sum instead. Loops
would test it at each point, so this form is for printing, and for sums with entries of matrices, of which the diagonal
is stored as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.index_tests import unequal_forms
from sympy_tensordiff.graph.interning import Number, Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.rows import Rows, atoms_in, partition, renaming_map, shape_rows, substitute_all


class PuncturedSum(NamedTuple):
    """A sum over the points of a range (``rows``) at which no form in ``forms`` is 0: over ``j != p`` if ``j - p`` is
    one of ``forms``. The summand is ``number*product`` where the conditions ``tests`` hold, and 0 elsewhere.

    Factors and tests in ``outside`` are written in front of the sum. Without variables it is a guard.
    """

    number: Number
    product: Node
    tests: frozenset[Node]
    outside: frozenset[Node]
    variables: tuple[int, ...]
    rows: Rows
    forms: frozenset[Affine]
    source: Node | None
    """The original term; None for the union of two."""
    names: tuple[str, ...] = ()
    conditions: Rows = ()
    """Constraints that are tested in the summand, as those on entries of integer data."""


def coalesce_sides(graph: Graph, nodes: Sequence[Node], of_matrices: bool = False) -> list[Node]:
    """Return ``nodes`` with ``Sum_{j < p} f + Sum_{j > p} f`` written as one sum over ``j != p``; with ``of_matrices``
    only if f has an entry of a matrix at the row and column j and p, since other such sums go on from p to p + 1.
    """
    work = _SideJoiner(graph, of_matrices)
    return [trampoline(work.visit(node, ())) for node in nodes]


class _SideJoiner:
    """The recursion of `coalesce_sides`, which writes a sum over ``j < p`` and one over ``j > p`` as one over ``j !=
    p``; inner additions come first.
    """

    def __init__(self, graph: Graph, of_matrices: bool) -> None:
        self.graph = graph
        self.of_matrices = of_matrices
        self.done: dict[tuple[Node, Rows], Node] = {}
        self.level: dict[int, int] = {}

    def visit(self, node: Node, known: Rows) -> Recursion[Node]:
        """Return `node` with pairs of equal sums over ``j < p`` and ``j > p`` joined to one over ``j != p``. ``known``
        are the constraints on indices of the sums around `node`.

        Enclosing guards are not used: chains of them would double the number of visits.
        """
        if node.is_guard_free:
            return node
        bound = node.free.intersection(self.level) if known else ()
        known = partition(known, bound)[1] if bound else ()
        if (node, known) not in self.done:
            self.done[node, known] = yield self.visit_inside(node, known)
        return self.done[node, known]

    def visit_inside(self, node: Node, known: Rows) -> Recursion[Node]:
        """Return `node` with each pair of sums over ``j < p`` and over ``j > p`` joined to one over ``j != p``, in the
        nodes below it and then among its own terms. `known` are the constraints on indices of outer sums.
        """
        graph = self.graph
        if node.op in BINDERS:
            variables, rows, body = graph.open_shared(node, atoms_in(known))
            outer = self.level
            self.level = dict(outer)
            self.note_nesting(variables)
            new = yield self.visit(body, (*known, *rows))
            self.level = outer
            if new is body:
                return node
            if node.op == "comprehension":
                return graph.comprehension(variables, node.data, new)
            return graph.reduce(node.op, variables, rows, new)
        args = yield from in_turn(self.visit(arg, known) for arg in node.args)
        new = graph.with_args(node, args)
        return self.coalesce_terms(new, known) if new.op == "add" and not new.shape else new

    def note_nesting(self, variables: Sequence[int]) -> None:
        """Record in ``self.level`` the nesting depth at which each of ``variables`` is bound. The first one is the
        outermost; all are inside of the variables that were recorded before.
        """
        for v in variables:
            self.level[v] = max(self.level.values(), default=-1) + 1

    def coalesce_terms(self, addition: Node, known: Rows) -> Node:
        """Return `addition` with terms joined in pairs, such as sums over ``j < p`` and ``j > p``, until no pair can be
        joined; the constraints `known` hold around it.
        """
        shared: dict[int, tuple[int, ...]] = {}
        groups: dict[object, list[PuncturedSum]] = {}
        rest = []
        for term in addition.args:
            case = self.as_punctured_sum(term, shared, addition.free.union(atoms_in(known)))
            if case is None:
                rest.append(term)
            else:
                groups.setdefault((case.number, case.product, case.tests, case.variables), []).append(case)
        fewer = False
        for cases in groups.values():
            while (pair := self.coalesce_pair(cases, known)) is not None:
                cases[:], fewer = pair, True
        if not fewer:
            return addition
        return self.graph.add([*rest, *(self.to_node(case) for cases in groups.values() for case in cases)])

    def as_punctured_sum(
        self, term: Node, shared: dict[int, tuple[int, ...]], taken: frozenset[int]
    ) -> PuncturedSum | None:
        """Return `term`, a guard or a product with exactly one sum, as a `PuncturedSum`: a sum that leaves out the
        points where some forms are 0. None for other terms.

        `shared` maps numbers of indices to the variables that such sums use; new ones are not in `taken`.

        Sums with the same variables can be compared.
        """
        graph = self.graph
        if term.op == "guard":
            number, body = graph.split_coefficient(term.args[0])
            forms, tests, factors = self.split_factors(body)
            return PuncturedSum(number, graph.mul(factors), tests, frozenset(), (), term.data, forms, term)
        number, core = graph.split_coefficient(term)
        unequal, outer, outside = self.split_factors(core)
        sums = [factor for factor in outside if factor.op == "sum"]
        if len(sums) != 1 or unequal:
            return None
        bound = graph.bound(sums[0])
        if len(bound) not in shared:
            shared[len(bound)] = graph.shared_variables(graph.hints[sums[0].id], taken)
            self.note_nesting(shared[len(bound)])
        variables, rows, body = graph.opened_over(sums[0], shared[len(bound)])
        conditions, body = (body.data, body.args[0]) if body.op == "guard" else ((), body)
        own, body = graph.split_coefficient(body)
        outside = [factor for factor in outside if factor is not sums[0]]
        forms, inner, factors = self.split_factors(body)
        product = graph.mul([*outside, *factors])
        names = graph.hints[sums[0].id]
        in_front = outer.union(outside)
        return PuncturedSum(
            number * own, product, outer | inner, in_front, variables, rows, forms, term, names, conditions
        )

    def split_factors(self, product: Node) -> tuple[frozenset[Affine], frozenset[Node], list[Node]]:
        """Return ``(forms, tests, factors)`` of a product: the index forms that its conditions require to be nonzero,
        its other conditions, and the remaining factors.
        """
        forms: frozenset[Affine] = frozenset()
        tests: frozenset[Node] = frozenset()
        factors = []
        waiting = [*self.graph.factors(product)][::-1]
        while waiting:
            factor = waiting.pop()
            if factor.op == "select" and factor.args[2] is self.graph.zero:
                found = unequal_forms(factor.args[0])
                forms = forms.union(found)
                tests = tests if found else tests.union([factor.args[0]])
                waiting += reversed(self.graph.factors(factor.args[1]))
            else:
                factors.append(factor)
        return forms, tests, factors

    def coalesce_pair(self, terms: Sequence[PuncturedSum], known: Rows) -> list[PuncturedSum] | None:
        """Merge the first two of the sums `terms` that can be written as one sum, and return the shorter list; None if
        no two can be merged. The constraints `known` hold around the sums.
        """
        for n, one in enumerate(terms):
            for m in range(n + 1, len(terms)):
                found = self.coalesce(one, terms[m], known)
                if found is not None:
                    return [*terms[:n], found, *terms[n + 1 : m], *terms[m + 1 :]]
        return None

    def coalesce(self, one: PuncturedSum, other: PuncturedSum, known: Rows) -> PuncturedSum | None:
        """Merge two terms, one summed over ``form > 0`` and one over ``form < 0``, into one term summed over ``form !=
        0``; None if they do not fit together. The constraints `known` hold around both.
        """
        if one.conditions != other.conditions:
            return None if self.of_matrices else self.coalesce_conditions(one, other)
        for side in one.rows:
            for opposite in other.rows:
                if not _are_opposite(side, opposite):
                    continue
                if self.of_matrices and not _has_matrix_entry(one.product, side.form):
                    continue
                inside = (*known, *_read_ranges(one.product, one.variables))
                here, there = (*one.rows, *inside), (*other.rows, *inside)
                first, second = _without_made_redundant(one.rows, side), _without_made_redundant(other.rows, opposite)
                # The bounds of the other side must be implied on each side.
                if not all(is_implied(row, here) for row in second) or not all(is_implied(row, there) for row in first):
                    continue
                if all(_not_zero(f, here) for f in other.forms - one.forms) and all(
                    _not_zero(f, there) for f in one.forms - other.forms
                ):
                    forms = one.forms | other.forms | {self.canonical_sign(side.form + 1)}
                    rows, outside = tuple(dict.fromkeys((*first, *second))), one.outside & other.outside
                    return one._replace(rows=rows, forms=forms, outside=outside, source=None)
        return None

    def coalesce_conditions(self, one: PuncturedSum, other: PuncturedSum) -> PuncturedSum | None:
        """Merge two terms that differ only in a condition ``form > 0`` and ``form < 0`` of their summands, as in
        ``Sum_i [y[i] < p]*f(i) + Sum_i [y[i] > p]*f(i)``, into one with ``form != 0``. None if they differ in more, or
        if the form is a single entry, perhaps plus a number.
        """
        own = [row for row in one.conditions if row not in other.conditions]
        others = [row for row in other.conditions if row not in one.conditions]
        if len(own) != 1 or len(others) != 1 or not _are_opposite(own[0], others[0]):
            return None
        if len(own[0].form.terms) < 2:  # a test of an entry by itself: sums are stored under each sign
            return None
        if (one.rows, one.forms) != (other.rows, other.forms):
            return None
        conditions = tuple([row for row in one.conditions if row is not own[0]])
        forms, outside = one.forms | {self.canonical_sign(own[0].form + 1)}, one.outside & other.outside
        return one._replace(conditions=conditions, forms=forms, outside=outside, source=None)

    def canonical_sign(self, form: Affine) -> Affine:
        """Return ``form`` or its negative, so that the innermost index has a positive coefficient."""
        last = max(form.terms, key=lambda term: (self.level.get(term[0], -1), str(term[0])))
        return form if last[1] > 0 else -form

    def to_node(self, punctured: PuncturedSum) -> Node:
        """Return the node of `punctured`, a sum without the points where some forms are 0: the original node if nothing
        has changed, else a new sum or guard, in which a select tests ``form != 0``.
        """
        graph = self.graph
        if punctured.source is not None:
            return punctured.source
        factors = graph.factors(punctured.product)
        outside = [factor for factor in factors if factor in punctured.outside]
        if len(outside) < len(punctured.outside - punctured.tests):  # one is a power with a factor inside
            outside = []
        inside = [factor for factor in factors if factor not in outside]
        body = graph.mul([*inside, *([] if punctured.variables else [graph.const(punctured.number)])])
        for test in sorted(punctured.tests - punctured.outside, key=lambda test: test.id):
            body = graph.select(test, body, graph.zero)
        if punctured.forms:
            order = sorted(
                punctured.forms, key=lambda form: sorted((self.level.get(v, -1), str(v)) for v, _ in form.terms)
            )
            tests = [graph.compare("ne", graph.index(form), graph.zero) for form in order]
            body = graph.select(graph.logic("and", tests) if len(tests) > 1 else tests[0], body, graph.zero)
        if not punctured.variables:
            return graph.guard(punctured.rows, body)
        variables = punctured.variables
        if punctured.names != tuple(graph.names[v] for v in variables):
            variables = tuple(graph.fresh(name) for name in punctured.names)
        body = graph.guard(punctured.conditions, body)
        own = renaming_map(punctured.variables, variables)
        inner = graph.sum(variables, substitute_all(punctured.rows, own), graph.substitute(body, own))
        term = graph.mul([*outside, inner])
        for test in sorted(punctured.tests & punctured.outside, key=lambda test: test.id):
            term = graph.select(test, term, graph.zero)
        return graph.scale(punctured.number, term)


def _are_opposite(side: Constraint, opposite: Constraint) -> bool:
    """Return whether the constraints are ``form > 0`` and ``form < 0`` for one form."""
    return side.kind == opposite.kind == "ge" and side.form + opposite.form == Affine.of(-2)


def _has_matrix_entry(product: Node, form: Affine) -> bool:
    """Return whether `product` has an entry of a tensor with the variables of `form`, j and p of ``j - p``, on separate
    axes.
    """
    wanted = form.atoms()
    axes = (
        [index.atoms() & wanted for index in part.data]
        for part in reachable(product)
        if part.op == "read" and part.args[0].op == "tensor"
    )
    return any(frozenset().union(*own) == wanted and not any(one == wanted for one in own) for own in axes)


def _not_zero(form: Affine, known: Rows) -> bool:
    """Return whether ``known`` implies that ``form`` is not 0, because it is positive or negative."""
    return is_implied(Constraint("ge", form - 1), known) or is_implied(Constraint("ge", -form - 1), known)


def _read_ranges(body: Node, bound: Sequence[int]) -> Iterator[Constraint]:
    """Yield the constraints ``0 <= p < n`` for each read ``x[p]`` in ``body`` along an axis of length n, unless the
    index ``p`` is in ``bound``. They hold because all reads are in bounds.
    """
    for part in reachable(body):
        if part.op == "read":
            for form, extent in zip(part.data, part.args[0].shape, strict=True):
                (atom,) = form.atoms() if len(form.atoms()) == 1 else (-1,)
                if isinstance(atom, int) and atom >= 0 and atom not in bound and form == Affine.variable(atom):
                    yield from shape_rows([form], [extent])


def _without_made_redundant(rows: Sequence[Constraint], side: Constraint) -> list[Constraint]:
    """Return ``rows`` without ``side``, and without the rows that become redundant only by ``side``: they follow from
    ``side`` and the other rows, but not from the other rows alone.
    """
    found = [row for row in rows if row != side]
    for row in list(found):
        rest = [other for other in found if other != row]
        if is_implied(row, (*rest, side)) and not is_implied(row, rest):
            found = rest
    return found
