"""The cases that conditions on indices make: one relation is decided after the other, as long as the cases are few.

A case is a guard, so that loops run over what counts only. ``And(Ne(i, a), Ne(i, b), ...)`` of many values is many
loops, and conditions that nothing ties double the cases each. So there is a budget: what exceeds it stays a condition,
which the loops test. Cases without a point, and those of the value 0, cost nothing and are not looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction

from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.rows import normalise

CASES_LIMIT = 16
"""So many cases, and one for each value, are worth loops of their own."""

DECISIONS_LIMIT = 256
"""Cases that take more decisions to be told apart are not looked for."""

Pairs: TypeAlias = list[tuple[Any, Any]]
Logic: TypeAlias = Any
"""A `bool`, a relation, or a tuple of a function of SymPy's logic and the arguments."""


class Literal(NamedTuple):
    """A relation, the rows that say it, and those of the systems that do not overlap and say the opposite."""

    relation: Any
    yes: tuple[Row, ...]
    no: tuple[tuple[Row, ...], ...]


class Decision(NamedTuple):
    """Systems that do not overlap, each with the cases inside of it; nothing is 0 elsewhere."""

    cases: tuple[tuple[tuple[Row, ...], Any], ...]


class TooManyCasesError(Exception):
    """The budget is spent."""


def logic(condition: Any) -> Logic:
    """A condition of SymPy's as a tree that is decided without SymPy, which orders all relations at each step."""
    if isinstance(condition, BooleanAtom):
        return bool(condition)
    if isinstance(condition, BooleanFunction) and not isinstance(condition, Relational):
        return (condition.func, *map(logic, condition.args))
    return condition


def written(tree: Logic) -> Any:
    """The condition that a tree stands for."""
    if isinstance(tree, tuple):
        return tree[0](*map(written, tree[1:]), evaluate=False)
    return sympy.true if tree is True else sympy.false if tree is False else tree


def relations(tree: Logic) -> Iterator[Any]:
    """The relations of a tree, from left to right."""
    for part in tree[1:] if isinstance(tree, tuple) else (tree,):
        if isinstance(part, tuple):
            yield from relations(part)
        elif isinstance(part, Relational):
            yield part


def conjuncts(tree: Logic) -> tuple[Logic, ...]:
    """What has to hold wherever a tree does."""
    return tree[1:] if isinstance(tree, tuple) and tree[0] is sympy.And else (tree,)


def replaced(tree: Logic, known: Mapping[Any, Logic]) -> Logic:
    """The tree with something in place of relations; what is known now falls away."""
    if not isinstance(tree, tuple):
        return known.get(tree, tree)
    args = [replaced(arg, known) for arg in tree[1:]]
    if all(new is old for new, old in zip(args, tree[1:], strict=True)):
        return tree
    function = tree[0]
    if function in (sympy.And, sympy.Or):
        neutral = function is sympy.And
        left = [arg for arg in args if arg is not neutral]
        if any(isinstance(arg, bool) for arg in left):
            return not neutral
        return (function, *left) if len(left) > 1 else left[0] if left else neutral
    if function is sympy.Not:
        return negated(args[0])
    if function is sympy.Xor:
        left = [arg for arg in args if not isinstance(arg, bool)]
        odd = (function, *left) if len(left) > 1 else left[0] if left else False
        return negated(odd) if args.count(True) % 2 else odd
    return logic(function(*map(written, args)))


def negated(tree: Logic) -> Logic:
    """The opposite."""
    if isinstance(tree, bool):
        return not tree
    return tree[1] if isinstance(tree, tuple) and tree[0] is sympy.Not else (sympy.Not, tree)


def decided(pairs: Pairs, known: Mapping[Any, Logic]) -> Pairs:
    """The values with their conditions once something is known; those behind one that always holds fall away."""
    result: Pairs = []
    for value, tree in pairs:
        tree = replaced(tree, known)
        if tree is not False:
            result.append((value, tree))
        if tree is True:
            break
    return result


def decisions(pairs: Pairs, literals: Sequence[Literal]) -> Any:
    """The cases of the literals, in their order; the pairs themselves where nothing is left to decide.

    Raises
    ------
    TooManyCasesError
        If the cases are not worth it.
    """
    return _Decisions(literals, CASES_LIMIT + len(pairs)).of(pairs, {})


class _Decisions:
    def __init__(self, literals: Sequence[Literal], most: int) -> None:
        self.literals = literals
        self.aliases = [_aliases(literal) for literal in literals]
        self.place = {alias: n for n, aliases in enumerate(self.aliases) for alias, _ in aliases}
        self.cases, self.steps = most, DECISIONS_LIMIT

    def of(self, pairs: Pairs, known: Mapping[Any, int]) -> Any:
        """The cases that the pairs are made of where the terms of forms have at least some known values."""
        if pairs and pairs[-1][1] is True and all(value == 0 for value, _ in pairs):
            return pairs[-1:]
        places = {self.place[r] for _, tree in pairs for r in relations(tree) if r in self.place}
        if not places:
            self.cases -= 1
            if self.cases < 0:
                raise TooManyCasesError
            return pairs
        self.steps -= 1
        if self.steps < 0:
            raise TooManyCasesError
        place, cases = min(places), []
        literal = self.literals[place]
        for value, systems in ((True, (literal.yes,)), (False, literal.no)):
            inside = decided(pairs, {alias: value is holds for alias, holds in self.aliases[place]})
            for rows in systems:
                told = _with_rows(known, rows)
                if told is not None:
                    cases.append((rows, self.of(inside, told)))
        return Decision(tuple(cases))


def _with_rows(known: Mapping[Any, int], rows: Iterable[Row]) -> dict[Any, int] | None:
    """The least values of the terms of forms, once rows hold too; None where one contradicts another.

    Forms that differ in a constant are compared and no others: cases without points that stay cost a part of the
    budget, and the simplex method for each decision costs more.
    """
    result = dict(known)
    for row in rows:
        reduced = normalise(row)
        if isinstance(reduced, bool):
            if not reduced:
                return None
            continue
        form = reduced.form
        for side in {"ge": (form,), "eq": (form, -form), "mod": ()}[reduced.kind]:
            least = max(-side.constant, result.get(side.terms, -side.constant))
            opposite = (-side).terms
            if opposite in result and least + result[opposite] > 0:
                return None
            result[side.terms] = least
    return result


def _aliases(literal: Literal) -> list[tuple[Any, bool]]:
    """The ways to write a relation, and its opposite."""
    relation, negated = literal.relation, literal.relation.negated
    return [(relation, True), (relation.reversed, True), (negated, False), (negated.reversed, False)]
