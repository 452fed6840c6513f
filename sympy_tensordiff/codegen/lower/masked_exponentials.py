"""Sums of exponentials over selected terms, scaled by the greatest exponent of all terms, selected or not.

``log(Sum_j [c(i, j)]*exp(e(j)))`` is safe with the greatest selected exponent for each i, which takes an exponential
for each pair (i, j). Where all exponents are close together, the greatest of all of them does for every i, and one
exponential for each j is enough::

    Sum_j [c(i, j)]*exp(e(j) - max_k e(k))

That is decided when the function is called, once for all i. Derivatives are quotients by these sums, and their
exponentials become factors in front of the sums over i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy

from sympy_tensordiff.graph.instances import instance
from sympy_tensordiff.graph.interning import breadth_first, outside_of_binders
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_implied

CLOSE_EXPONENTS = 32
"""Exponents that differ by less are close together: the logarithm of a sum loses no more than 32 rounding errors."""


@dataclass(frozen=True)
class CommonScale:
    """A sum of ``exp(exponent)`` over ``variables`` in the range ``rows``, in which only the terms with a true
    ``condition`` count. To avoid overflow, terms are divided by ``exp(greatest)``, where ``greatest`` is the maximum of
    the exponents of all terms, whether they count or not.
    """

    variables: tuple[int, ...]
    rows: tuple[Constraint, ...]
    condition: Node
    exponent: Node
    greatest: Node
    are_close: Node
    """The condition that all exponents are close together; ``greatest`` is then a finite number."""

    def factor(self, graph: Graph, node: Node) -> Node | None:
        """Return ``exp(node - greatest)``, the term of the sum with the exponent `node`, divided by
        ``exp(self.greatest)``. None unless `node` is known to be one of the exponents of the sum.
        """
        own = [v for v in self.variables if v in self.exponent.free]
        place = instance(graph, self.exponent, own, node)
        if place is None or not all(self._is_place(v, node) for v in self.variables):
            return None
        return graph.call(sympy.exp, (graph.add((node, graph.neg(self.greatest))),))

    def selected(self, graph: Graph, term: Node, rest: Node) -> Node:
        """Return the select ``exp(exponent - greatest)*rest if condition else 0``, a term of the sum that does not
        overflow. The select `term` chooses the exponent by the same condition.
        """
        if rest.op == "select" and rest.args[0] is self.condition and graph.zero in rest.args:
            rest = next(part for part in rest.args[1:] if part is not graph.zero)
        scaled = graph.call(sympy.exp, (graph.add((self.exponent, graph.neg(self.greatest))),))
        product = graph.mul((scaled, rest))
        return graph.select(
            self.condition, *((product, graph.zero) if term.args[1] is self.exponent else (graph.zero, product))
        )

    def _is_place(self, v: int, node: Node) -> bool:
        """Return whether the range of `v` contains a whole axis of a tensor that the exponent reads at the index `v`.
        Any exponent of this form is then one of the sum. ``node`` is not used.
        """
        own = [row for row in self.rows if v in row.form.atoms()]
        for read in reachable(self.exponent):
            axes = [n for n, form in enumerate(read.data) if form == Affine.variable(v)] if read.op == "read" else []
            for axis in axes:
                inside = (
                    Constraint("ge", Affine.variable(v)),
                    Constraint("ge", read.args[0].shape[axis] - 1 - Affine.variable(v)),
                )
                if all(is_implied(row, inside) for row in own):
                    return True
        return False


def common_scale(
    graph: Graph,
    variables: tuple[int, ...],
    rows: tuple[Constraint, ...],
    term: Node,
    finite: Callable[[Graph, Node], Node],
) -> CommonScale | None:
    """Return the `CommonScale` of the sum of ``exp(term)`` over `variables` in the range `rows`, if `term` is a select
    ``exponent if condition else c`` with a constant c (a very negative number). None for other terms. The function
    `finite` replaces an infinite maximum by 0.

    Also None unless the condition depends on an outer index on which the exponent does not depend.
    """
    if term.op != "select":
        return None
    condition, *branches = term.args
    exponents = [branch for branch in branches if branch.op != "const"]
    if len(exponents) != 1 or not exponents[0].free.intersection(variables):
        return None
    (exponent,) = exponents
    outer = exponent.free.difference(variables)
    ranges = frozenset().union(*(row.form.atoms() for row in rows)).intersection(term.free)
    if not condition.free.difference(variables) - outer or not ranges <= outer.union(variables):
        return None
    greatest, least = (graph.reduce(op, variables, rows, exponent) for op in ("max", "min"))
    spread = graph.add((greatest, graph.neg(least)))
    are_close = graph.compare("lt", spread, graph.const(CLOSE_EXPONENTS))
    return CommonScale(variables, rows, condition, exponent, finite(graph, greatest), are_close)


class ScaleChoices:
    """Rewrites sums of exponentials over selected terms so that they do not overflow: the exponents are reduced by the
    maximum of all terms if all exponents are close together, else by that of the selected terms.

    The selects are moved out of outer sums, and so are the exponentials on whose indices they do not depend.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.found: set[Node] = set()
        """The choices made so far."""
        self.factors: set[Node] = set()
        """The exponentials in the scale of all terms: they are at most 1."""

    def choice(self, are_close: Node, near: Node, usual: Node) -> Node:
        """Return the select of ``near`` where the condition `are_close` holds (all exponents are close together), and
        of `usual` elsewhere. It is recorded in ``self.found``, so that `sum` recognises it.
        """
        node = self.graph.select(are_close, near, usual)
        self.found.add(node)
        return node

    def sum(self, node: Node, variables: Sequence[int], body: Node) -> Node:
        """Return the sum `node` over ``variables`` with ``body`` in place of its summand. If ``body`` contains a select
        made by `choice`, with a condition that does not depend on ``variables``, return a select between two sums.
        """
        graph = self.graph
        inside = next((part for part in breadth_first(body, outside_of_binders) if part in self.found), None)
        if inside is None or not inside.args[0].free.isdisjoint(variables):
            return graph.over(node, variables, body)
        are_close = inside.args[0]
        near, usual = (self._where(body, are_close, which, {}) for which in (1, 2))
        outer, near = self._factored(near, variables)
        quick = graph.mul((*outer, self.sum(node, variables, near)))
        # Which stays where it is in sums around this one: its values may fill an array.
        return graph.select(are_close, quick, self.sum(node, variables, usual))

    def _where(self, node: Node, are_close: Node, which: int, done: dict[Node, Node]) -> Node:
        """Return `node` with each choice that depends on the condition ``are_close`` replaced by one of its branches:
        the first one for ``which`` 1, the second for 2. ``done`` caches results.
        """
        if node in done:
            return done[node]
        if node in self.found and node.args[0] is are_close:
            done[node] = self._where(node.args[which], are_close, which, done)
        elif node.op in BINDERS:
            done[node] = node
        else:
            args = [self._where(arg, are_close, which, done) for arg in node.args]
            done[node] = self.graph.with_args(node, args)
        return done[node]

    def _factored(self, body: Node, variables: Sequence[int]) -> tuple[list[Node], Node]:
        """Return ``(factors, rest)``, whose product is `body`. The ``factors`` are the scaled exponentials ``exp(u -
        maximum)`` in `body` that do not depend on ``variables``, also from inside selects between a value and 0.
        """
        graph = self.graph
        if body.op == "select" and graph.zero in body.args[1:]:
            place = 1 if body.args[2] is graph.zero else 2
            outer, rest = self._factored(body.args[place], variables)
            branches = (rest, graph.zero) if place == 1 else (graph.zero, rest)
            return outer, graph.select(body.args[0], *branches)
        found: list[Node] = []
        rests: list[Node] = []
        for factor in body.args if body.op == "mul" else (body,):
            if factor in self.factors and factor.free.isdisjoint(variables):
                found.append(factor)
            elif factor.op in ("mul", "select") and factor is not body:
                outer, rest = self._factored(factor, variables)
                found += outer
                rests.append(rest)
            else:
                rests.append(factor)
        return found, graph.mul(rests)
