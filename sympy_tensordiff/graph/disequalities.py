"""Sums and guards on both sides of a value as one over all values but that: ``j < p`` and ``j > p`` are ``j != p``.

So a reader has one sum over ``k != p`` and ``j != k, p`` for six ranges in order. The graph knows conjunctions of
inequalities only; where they are joined, a choice by ``compare ne`` of indices stands under the sum. Loops would ask it
at each point, so nothing is computed from this form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.interning import Number, Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.rows import Rows, atoms_in, partition, renaming, shape_rows, substitute_all


class Case(NamedTuple):
    """A number times ``product`` where all ``tests`` hold, summed over the points of ``rows`` at which no form is 0.

    ``outside`` are factors and tests that are written in front of the sum. Without variables it is a guard.
    """

    number: Number
    product: Node
    tests: frozenset[Node]
    outside: frozenset[Node]
    variables: tuple[int, ...]
    rows: Rows
    forms: frozenset[Affine]
    source: Node | None
    """The term that it is; None for two as one."""
    names: tuple[str, ...] = ()


def joined_sides(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The ``nodes`` with terms of additions on both sides of a value as one."""
    work = _Sides(graph)
    return [trampoline(work.visit(node, ())) for node in nodes]


def unequal_forms(condition: Node) -> tuple[Affine, ...]:
    """The forms of indices that a condition says are not 0, if it says nothing else."""
    parts = condition.args if condition.op == "and" else (condition,)
    if any(part.op != "compare" or part.data != "ne" or part.args[0].op != "index" for part in parts):
        return ()
    return tuple(part.args[0].data for part in parts) if all(part.args[1].data == 0 for part in parts) else ()


class _Sides:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.done: dict[tuple[Node, Rows], Node] = {}
        self.level: dict[int, int] = {}

    def visit(self, node: Node, known: Rows) -> Recursion[Node]:
        """A node, where the ranges around it are known; its guards are not, or chains of them would double the ways."""
        if node.plain:
            return node
        bound = node.free.intersection(self.level) if known else ()
        known = partition(known, bound)[1] if bound else ()
        if (node, known) not in self.done:
            self.done[node, known] = yield self.joined_within(node, known)
        return self.done[node, known]

    def joined_within(self, node: Node, known: Rows) -> Recursion[Node]:
        graph = self.graph
        if node.op in BINDERS:
            variables, rows, body = graph.inside(node, atoms_in(known))
            self.enter(variables)
            new = yield self.visit(body, (*known, *rows))
            if new is body:
                return node
            if node.op == "comprehension":
                return graph.comprehension(variables, node.data, new)
            return graph.reduce(node.op, variables, rows, new)
        args = yield from in_turn(self.visit(arg, known) for arg in node.args)
        new = graph.with_args(node, args)
        return self.joined(new, known) if new.op == "add" and not new.shape else new

    def enter(self, variables: Sequence[int]) -> None:
        for v in variables:
            self.level.setdefault(v, len(self.level))

    def joined(self, addition: Node, known: Rows) -> Node:
        """An addition, two terms of one product on both sides of a value as one."""
        shared: dict[int, tuple[int, ...]] = {}
        groups: dict[object, list[Case]] = {}
        rest = []
        for term in addition.args:
            case = self.case(term, shared)
            if case is None:
                rest.append(term)
            else:
                groups.setdefault((case.number, case.product, case.tests, case.variables), []).append(case)
        fewer = False
        for cases in groups.values():
            while (pair := self.joined_pair(cases, known)) is not None:
                cases[:], fewer = pair, True
        if not fewer:
            return addition
        return self.graph.add([*rest, *(self.term(case) for cases in groups.values() for case in cases)])

    def case(self, term: Node, shared: dict[int, tuple[int, ...]]) -> Case | None:
        """A guard, or a number times factors times one sum, over variables that all terms share."""
        graph = self.graph
        if term.op == "guard":
            number, body = graph.split_coefficient(term.args[0])
            forms, tests, factors = self.tests_and_factors(body)
            return Case(number, graph.mul(factors), tests, frozenset(), (), term.data, forms, term)
        number, core = graph.split_coefficient(term)
        unequal, outer, outside = self.tests_and_factors(core)
        sums = [factor for factor in outside if factor.op == "sum"]
        if len(sums) != 1 or unequal:
            return None
        bound = graph.bound(sums[0])
        if len(bound) not in shared:
            shared[len(bound)] = tuple(graph.fresh(name) for name in graph.hints[sums[0].id])
            self.enter(shared[len(bound)])
        variables = shared[len(bound)]
        opening = renaming(bound, variables)
        own, body = graph.split_coefficient(graph.substitute(sums[0].args[0], opening))
        outside = [factor for factor in outside if factor is not sums[0]]
        forms, inner, factors = self.tests_and_factors(body)
        rows = tuple(row.substitute(opening) for row in sums[0].data)
        product = graph.mul([*outside, *factors])
        names = graph.hints[sums[0].id]
        around = outer.union(outside)
        return Case(number * own, product, outer | inner, around, variables, rows, forms, term, names)

    def tests_and_factors(self, product: Node) -> tuple[frozenset[Affine], frozenset[Node], list[Node]]:
        """The forms that are not 0 and the tests that hold where a product counts, and the factors there."""
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

    def joined_pair(self, cases: Sequence[Case], known: Rows) -> list[Case] | None:
        """Cases of one product, two of them as one; None where no two are on both sides of a value."""
        for n, one in enumerate(cases):
            for m in range(n + 1, len(cases)):
                found = self.union(one, cases[m], known)
                if found is not None:
                    return [*cases[:n], found, *cases[n + 1 : m], *cases[m + 1 :]]
        return None

    def union(self, one: Case, other: Case, known: Rows) -> Case | None:
        """The case of both sides; None where the two are no such cases."""
        for side in one.rows:
            for opposite in other.rows:
                if side.kind != "ge" or opposite.kind != "ge" or side.form + opposite.form != Affine.of(-2):
                    continue
                inside = (*known, *_inside(one.product, one.variables))
                here, beyond = (*one.rows, *inside), (*other.rows, *inside)
                first, second = _needed(one.rows, side), _needed(other.rows, opposite)
                # On each side the limits of the other one hold anyway.
                if not all(implied(row, here) for row in second) or not all(implied(row, beyond) for row in first):
                    continue
                if all(_not_zero(f, here) for f in other.forms - one.forms) and all(
                    _not_zero(f, beyond) for f in one.forms - other.forms
                ):
                    forms = one.forms | other.forms | {self.signed(side.form + 1)}
                    rows, outside = tuple(dict.fromkeys((*first, *second))), one.outside & other.outside
                    return one._replace(rows=rows, forms=forms, outside=outside, source=None)
        return None

    def signed(self, form: Affine) -> Affine:
        """A form or its opposite: the index that is bound innermost is added."""
        last = max(form.terms, key=lambda term: (self.level.get(term[0], -1), str(term[0])))
        return form if last[1] > 0 else -form

    def term(self, case: Case) -> Node:
        graph = self.graph
        if case.source is not None:
            return case.source
        factors = graph.factors(case.product)
        outside = [factor for factor in factors if factor in case.outside]
        if len(outside) < len(case.outside - case.tests):  # one is a power with a factor inside
            outside = []
        inside = [factor for factor in factors if factor not in outside]
        body = graph.mul([*inside, *([] if case.variables else [graph.const(case.number)])])
        for test in sorted(case.tests - case.outside, key=lambda test: test.id):
            body = graph.select(test, body, graph.zero)
        if case.forms:
            order = sorted(case.forms, key=lambda form: sorted((self.level.get(v, -1), str(v)) for v, _ in form.terms))
            tests = [graph.compare("ne", graph.index(form), graph.zero) for form in order]
            body = graph.select(graph.logic("and", tests) if len(tests) > 1 else tests[0], body, graph.zero)
        if not case.variables:
            return graph.guard(case.rows, body)
        variables = [graph.fresh(name) for name in case.names]
        own = renaming(case.variables, variables)
        inner = graph.sum(variables, substitute_all(case.rows, own), graph.substitute(body, own))
        term = graph.mul([*outside, inner])
        for test in sorted(case.tests & case.outside, key=lambda test: test.id):
            term = graph.select(test, term, graph.zero)
        return graph.scale(case.number, term)


def _not_zero(form: Affine, known: Rows) -> bool:
    return implied(Row("ge", form - 1), known) or implied(Row("ge", -form - 1), known)


def _inside(body: Node, bound: Sequence[int]) -> Iterator[Row]:
    """Indices from outside at which a tensor is read are inside of it."""
    for part in reachable(body):
        if part.op == "read":
            for form, extent in zip(part.data, part.args[0].shape, strict=True):
                (atom,) = form.atoms() if len(form.atoms()) == 1 else (-1,)
                if isinstance(atom, int) and atom >= 0 and atom not in bound and form == Affine.variable(atom):
                    yield from shape_rows([form], [extent])


def _needed(rows: Sequence[Row], side: Row) -> list[Row]:
    """The rows but one, without those that it makes follow from the others."""
    found = [row for row in rows if row != side]
    for row in list(found):
        rest = [other for other in found if other != row]
        if implied(row, (*rest, side)) and not implied(row, rest):
            found = rest
    return found
