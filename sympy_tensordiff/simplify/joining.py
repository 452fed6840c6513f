"""Guards of equal bodies as one, where the points of both together are those of fewer rows.

``[p >= q + 1]*f + [p == q]*f`` is ``[p >= q]*f``, and two bands side by side are one band. The rows
of the union are those of each guard that hold at all points of the other. They are the union if
nothing lies between: no integer point that fulfils them violates a row of both. That is decided
against what is known of the indices, and where it cannot be decided the guards stay apart.

The body of a guard with an equation is written in fewer indices. It is the same body where that of
the other guard, with the equation put in, is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

from sympy_tensordiff.graph.nodes import Graph, Node, Substitution, reachable
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.polyhedron import implied, is_empty
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.divisors import divides_by_none

LONGEST = 32
"""Additions with more parts under guards are left as they are: each part is compared with all others."""


class Part(NamedTuple):
    """One summand of a guard: its rows, with those of a guard that it is itself; its body; and where they stand."""

    rows: Rows
    body: Node
    place: int
    summand: Node


class Joining:
    """Additions of guards.

    Parameters
    ----------
    graph : Graph
    tight : callable
        The rows of a guard in final form, given facts.
    solved : callable
        The indices that the equations among rows determine, as forms of the others.
    """

    def __init__(
        self,
        graph: Graph,
        tight: Callable[[Rows, Rows], Rows],
        solved: Callable[[Rows], Substitution],
    ) -> None:
        self.graph = graph
        self.tight = tight
        self.solved = solved

    def joined(self, terms: Sequence[Node], facts: Rows) -> list[Node] | None:
        """The terms of an addition with two guards as one; None where no two of them can be one."""
        # One term may stand here twice, and then counts twice: parts know the place of their term.
        parts = [part for place, term in enumerate(terms) if term.op == "guard" for part in self.parts(term, place)]
        for pair in combinations(parts if len(parts) <= LONGEST else (), 2):
            body = self.common_body(*pair)
            rows = union(pair[0].rows, pair[1].rows, facts) if body is not None else None
            if body is None or rows is None:
                continue
            new = [self.graph.guard(rows, body)]
            both = (*pair[0].rows, *pair[1].rows)
            if not is_empty(both, facts):
                # Where they overlap the body counts twice.
                both = self.tight(both, facts)
                if len(self.tight(rows, facts)) + len(both) >= len(pair[0].rows) + len(pair[1].rows):
                    continue
                new.append(self.graph.guard(both, body))
            left = [self.without(term, [p for p in pair if p.place == place]) for place, term in enumerate(terms)]
            return [*left, *new]
        return None

    def parts(self, term: Node, place: int) -> list[Part]:
        """The summands of the body of a guard, apart."""
        number, core = self.graph.split_coefficient(term.args[0])
        parts = []
        for summand in core.args if core.op == "add" else (core,):
            rows, body = (summand.data, summand.args[0]) if summand.op == "guard" else ((), summand)
            parts.append(Part((*term.data, *rows), self.graph.scale(number, body), place, summand))
        return parts

    def without(self, term: Node, parts: Sequence[Part]) -> Node:
        """A guard without some of its summands; another term as it is."""
        if not parts:
            return term
        gone = {part.summand for part in parts}
        number, core = self.graph.split_coefficient(term.args[0])
        left = [summand for summand in (core.args if core.op == "add" else (core,)) if summand not in gone]
        return self.graph.guard(term.data, self.graph.scale(number, self.graph.add(left)))

    def common_body(self, one: Part, two: Part) -> Node | None:
        """What both parts are, each under its rows."""
        if one.body is two.body:
            return one.body
        for general, special in ((one, two), (two, one)):
            mapping = self.solved(special.rows)
            if not mapping or not divides_by_none(general.body, mapping):
                continue
            same = self.graph.substitute(general.body, mapping) is special.body
            # ``1 + p*log(x[p])`` is 1 at ``p == 0``, where ``x[0]`` need not be positive.
            if same and (general.body.total or _functions(general.body) == _functions(special.body)):
                return general.body
        return None


def _functions(body: Node) -> int:
    """The number of nodes that may be no number somewhere, as a logarithm, or read what is none."""
    return sum(node.op not in ("const", "index", "add", "mul") for node in reachable(body))


def union(first: Rows, second: Rows, facts: Rows) -> Rows | None:
    """The rows of all points that fulfil all of the first or all of the second rows; None where none are known.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> p, q = Affine.variable("p"), Affine.variable("q")
    >>> union((Row("ge", p - q - 1),), (Row("eq", p - q),), ())
    (p - q >= 0,)
    >>> union((Row("ge", p - 2),), (Row("eq", p),), ()) is None
    True
    """
    one, two = _halves(first), _halves(second)
    if one is None or two is None:
        return None
    common = [row for row in one if implied(row, (*facts, *second))]
    common += [row for row in two if implied(row, (*facts, *first))]
    known = (*facts, *common)
    for row in one:
        for other in two:
            if row not in common and other not in common and not is_empty((row.negation(), other.negation()), known):
                return None
    return tuple(dict.fromkeys(common))


def _halves(rows: Rows) -> list[Row] | None:
    """Inequalities that say the same; None where there are congruences."""
    if any(row.kind == "mod" for row in rows):
        return None
    return [Row("ge", form) for row in rows for form in ((row.form, -row.form) if row.kind == "eq" else (row.form,))]
