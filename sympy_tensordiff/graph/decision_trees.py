"""Case distinctions by conditions on indices: one relation is decided after the other, as long as the cases are few.

A case is a guard, so that loops run only over the points where it holds. ``And(Ne(i, a), Ne(i, b), ...)`` of many
values is many loops, and each independent condition doubles the cases. So there is a budget: conditions that exceed
it are tested inside the loops. Cases without a point and cases with the value 0 cost nothing and are not split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction

from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.rows import normalise

CASES_LIMIT = 16
"""The greatest number of cases that become loops of their own, in addition to one for each value."""

DECISIONS_LIMIT = 256
"""The most decisions that a case distinction may take."""

Pairs: TypeAlias = list[tuple[Any, Any]]
Logic: TypeAlias = Any
"""A `bool`, a relation, or a tuple of a function of SymPy's logic and the arguments."""


class Unequal(NamedTuple):
    """The condition that an index form, such as ``i - j``, is not 0. It cannot be a `Constraint`, because its points
    form no polyhedron, so it is tested at each point.
    """

    form: Affine


Rows: TypeAlias = tuple[Constraint | Unequal, ...]


class Literal(NamedTuple):
    """A relation between indices as constraints, and its negation as a list of disjoint alternatives, each a system of
    constraints.
    """

    relation: Any
    yes: tuple[Constraint, ...]
    no: tuple[Rows, ...]


class Decision(NamedTuple):
    """A decision tree as a list of disjoint cases ``(constraints, tree)``: each tree is another `Decision`, or the
    branches that remain possible in this case. The value is 0 if no case holds.
    """

    cases: tuple[tuple[Rows, Any], ...]


class TooManyCasesError(Exception):
    """Raised when a decision tree would need more cases or decisions than allowed."""


def logic(condition: Any) -> Logic:
    """Convert a SymPy condition to nested tuples such as ``(And, i < j, i < k)``, which are faster to simplify."""
    if isinstance(condition, BooleanAtom):
        return bool(condition)
    if isinstance(condition, BooleanFunction) and not isinstance(condition, Relational):
        return (condition.func, *map(logic, condition.args))
    return condition


def written(tree: Logic) -> Any:
    """Convert the condition ``tree``, nested tuples by `logic` such as ``(And, a, b)``, back to SymPy without
    evaluating it.
    """
    if isinstance(tree, tuple):
        return tree[0](*map(written, tree[1:]), evaluate=False)
    return sympy.true if tree is True else sympy.false if tree is False else tree


def relations(tree: Logic) -> Iterator[Any]:
    """Yield the relations (leaves) of the condition ``tree``, nested tuples made by `logic`, from left to right."""
    for part in tree[1:] if isinstance(tree, tuple) else (tree,):
        if isinstance(part, tuple):
            yield from relations(part)
        elif isinstance(part, Relational):
            yield part


def conjuncts(tree: Logic) -> tuple[Logic, ...]:
    """Return the conditions that ``tree``, made by `logic`, joins by "and"; a condition of another kind is returned as
    the only element.
    """
    return tree[1:] if isinstance(tree, tuple) and tree[0] is sympy.And else (tree,)


def replaced(tree: Logic, known: Mapping[Any, Logic]) -> Logic:
    """Return the condition ``tree`` with relations in it replaced, and simplified. The dictionary ``known`` maps
    relations to truth values or to other conditions.
    """
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
    """Return the negation of the condition ``tree``, nested tuples made by `logic`."""
    if isinstance(tree, bool):
        return not tree
    return tree[1] if isinstance(tree, tuple) and tree[0] is sympy.Not else (sympy.Not, tree)


def decided(branches: Pairs, known: Mapping[Any, Logic]) -> Pairs:
    """Return ``branches``, pairs ``(value, condition)``, with each relation in a condition that is a key of ``known``
    replaced by its value there. Branches that can never apply are left out.
    """
    result: Pairs = []
    for value, tree in branches:
        tree = replaced(tree, known)
        if tree is not False:
            result.append((value, tree))
        if tree is True:
            break
    return result


def decisions(branches: Pairs, literals: Sequence[Literal]) -> Any:
    """Return a decision tree that selects one of ``branches``, pairs ``(value, condition)``. It tests the index
    relations ``literals`` in order, and each leaf lists the branches that remain possible; without a relation to test,
    return ``branches``.

    Raise `TooManyCasesError` if there are too many cases.
    """
    return _CaseSplitter(literals, CASES_LIMIT + len(branches)).of(branches, {})


class _CaseSplitter:
    """Builds a decision tree from branches (pairs of value and condition) by deciding one relation between indices
    after the other. `of` returns it, or raises `TooManyCasesError` above a number of cases or decisions.
    """

    def __init__(self, literals: Sequence[Literal], max_cases: int) -> None:
        self.literals = literals
        self.aliases = [_equivalent_relations(literal) for literal in literals]
        self.place = {alias: n for n, aliases in enumerate(self.aliases) for alias, _ in aliases}
        self.cases, self.steps = max_cases, DECISIONS_LIMIT

    def of(self, branches: Pairs, known: Mapping[Any, int]) -> Any:
        """Return the decision tree that selects one of ``branches``, pairs ``(value, condition)``. `known` maps linear
        forms to lower bounds that hold in this case. Raise `TooManyCasesError` if the tree gets too large.
        """
        if branches and branches[-1][1] is True and all(value == 0 for value, _ in branches):
            return branches[-1:]
        places = {self.place[r] for _, tree in branches for r in relations(tree) if r in self.place}
        if not places:
            self.cases -= 1
            if self.cases < 0:
                raise TooManyCasesError
            return branches
        self.steps -= 1
        if self.steps < 0:
            raise TooManyCasesError
        place, cases = min(places), []
        literal = self.literals[place]
        for value, systems in ((True, (literal.yes,)), (False, literal.no)):
            inside = decided(branches, {alias: value is holds for alias, holds in self.aliases[place]})
            for rows in systems:
                extended = _add_lower_bounds(known, rows)
                if extended is not None:
                    cases.append((rows, self.of(inside, extended)))
        return Decision(tuple(cases))


def _add_lower_bounds(known: Mapping[Any, int], rows: Iterable[Constraint | Unequal]) -> dict[Any, int] | None:
    """Return the lower bounds ``known`` of linear forms, tightened by the constraints ``rows``; None if these
    contradict each other.

    Only forms that differ by a constant are compared: cases without points that are not noticed cost a part of the
    budget, the simplex method for each decision would cost more.
    """
    result = dict(known)
    for row in rows:
        if isinstance(row, Unequal):
            continue
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


def _equivalent_relations(literal: Literal) -> list[tuple[Any, bool]]:
    """Return all SymPy notations of the relation of `literal`, such as ``i < j`` and ``j > i``, each paired with True,
    and all notations of its negation, each paired with False.
    """
    relation, negated = literal.relation, literal.relation.negated
    return [(relation, True), (relation.reversed, True), (negated, False), (negated.reversed, False)]
