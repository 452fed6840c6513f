"""Cases and conditions into the graph.

Conditions on indices become guards, split so that no two of the pieces overlap; conditions on
values become `select` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import lcm, nan
from typing import Any, TypeAlias

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from sympy_tensordiff.errors import IndexExpressionError, UnsupportedError
from sympy_tensordiff.graph.applications import Applications, Scope
from sympy_tensordiff.graph.index_conditions import linear_condition, linear_relations, on_indices, values_of
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.graph.trampoline import Recursion
from sympy_tensordiff.integer.affine import Affine, Compound, Row
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.symbolic.entries import TensorEntry

Pairs: TypeAlias = list[tuple[Any, Any]]

CASES_LIMIT = 16
"""Conditions on indices that are no rows as they stand become at most so many cases; else they are masks."""


class Conditions(Applications):
    """The part of the reader that knows `Piecewise` and what stands in it."""

    def __init__(self) -> None:
        super().__init__()
        self._branches = 0  # how many cases by values stand around

    def _piecewise(self, expr: Any, scope: Scope) -> Recursion[Node]:
        pairs = [(pair.expr, pair.cond) for pair in expr.args]
        node: Node = yield self._cases(self._with_few_cases(pairs, scope), scope)
        return node

    def _with_few_cases(self, pairs: Pairs, scope: Scope) -> Pairs:
        """The cases with linear relations for as many of those on indices as can be; the others are masks."""
        given: dict[Any, Any] = {}
        for _, condition in pairs:
            given |= linear_relations(condition, lambda expr: self._linear_form(expr, scope) is not None)
        kept = given if not given or _are_few(_with_relations(pairs, given), ()) else {}
        for relation in given if not kept else ():
            more = {**kept, relation: given[relation]}
            if _are_few(_with_relations(pairs, more), given.keys() - more.keys()):
                kept = more
        return _with_relations(pairs, kept)

    def _indicator(self, expr: Any, scope: Scope) -> Recursion[Node]:
        """A sign or a step: of indices it is cases, of values a function."""
        cases = values_of(expr) if on_indices(expr) else None
        if cases is None:
            node: Node = yield self._function(expr, scope)
        else:
            node = yield self._cases([(value, self._linear(test, scope)) for value, test in cases], scope)
        return node

    def _linear(self, condition: Any, scope: Scope) -> Any:
        """The condition with its relations on indices as combinations of linear ones, as far as there are such."""
        return linear_condition(condition, lambda expr: self._linear_form(expr, scope) is not None)

    def _cases(self, pairs: Pairs, scope: Scope) -> Recursion[Node]:
        """Splits on one condition on indices after the other; what is left are conditions on values."""
        graph = self.graph
        for relation in _relations(pairs):
            literal = relation.negated if isinstance(relation, sympy.Ne) else relation
            split = self._index_condition(literal, scope)
            if split is None:
                continue
            yes, no = split
            parts = [graph.guard(yes, (yield self._cases(_decide(pairs, literal, True), scope)))]
            otherwise = yield self._cases(_decide(pairs, literal, False), scope)
            return graph.add(parts + [graph.guard(rows, otherwise) for rows in no])
        result = graph.const(nan)  # no condition holds: SymPy's own answer
        for value, condition in reversed(pairs):
            if isinstance(condition, BooleanFalse):
                continue
            self._branches += 1
            node = yield self._scalar(value, scope)
            self._branches -= 1
            if isinstance(condition, BooleanTrue):
                result = node
            else:
                result = graph.select((yield self._condition(condition, scope)), node, result)
        return result

    def _index_condition(self, relation: Any, scope: Scope) -> tuple[list[Row], list[list[Row]]] | None:
        """Rows of a relation between indices and, apart from each other, those of its negation."""
        difference = self._linear_form(relation.lhs - relation.rhs, scope)
        if difference is None:
            return None
        if isinstance(relation, sympy.Eq):
            return [Row("eq", difference)], [[Row("ge", difference - 1)], [Row("ge", -difference - 1)]]
        form = difference if relation.gts is relation.lhs else -difference
        if isinstance(relation, sympy.StrictGreaterThan | sympy.StrictLessThan):
            form = form - 1
        return [Row("ge", form)], [[Row("ge", -form - 1)]]

    def _linear_form(self, expr: Any, scope: Scope) -> Affine | None:
        """As `_scaled`, without a maximum or minimum, but of what selects data: of those a relation is several."""
        form = self._scaled(expr, scope)
        return None if form is None or _is_several(form) else form

    def _scaled(self, expr: Any, scope: Scope) -> Affine | None:
        """A positive multiple of a difference of indices as a form; None where it is no such thing."""
        try:
            return self.affine(sympy.expand(_denominator(expr) * expr), scope)
        except IndexExpressionError:
            return None

    def _condition(self, condition: Any, scope: Scope) -> Recursion[Node]:
        graph = self.graph
        if isinstance(condition, sympy.And | sympy.Or | sympy.Not):
            parts = []
            for arg in condition.args:
                parts.append((yield self._condition(arg, scope)))
            return graph.logic({sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[condition.func], parts)
        if isinstance(condition, sympy.ITE):
            test, yes, no = condition.args
            node: Node = yield self._condition((test & yes) | (~test & no), scope)
            return node
        if isinstance(condition, Relational) and type(condition) in _RELATIONS:
            factor = _denominator(condition.lhs - condition.rhs) if on_indices(condition) else 1
            sides = [_multiple(factor, side) for side in condition.args] if factor > 1 else condition.args
            left, right = yield self._all(sides, scope)  # integers, which are compared without rounding
            return graph.compare(*_RELATIONS[type(condition)](left, right))
        if isinstance(condition, BooleanTrue | BooleanFalse):  # what is left of conditions on indices
            return graph.truth(bool(condition))
        if isinstance(condition, sympy.Xor | sympy.Implies | sympy.Equivalent):
            node = yield self._condition(condition.to_nnf(simplify=False), scope)
            return node
        raise UnsupportedError(f"the condition {condition} of a Piecewise is not a comparison")


def _denominator(expr: Any) -> int:
    """What makes the coefficients of an expression integers, those inside of a maximum, too."""
    parts = [term.as_coeff_Mul() for term in sympy.Add.make_args(sympy.expand(expr))]
    inner = [lcm(*map(_denominator, part.args)) if isinstance(part, _EXTREMA) else 1 for _, part in parts]
    return lcm(*(int(c.q) * n for (c, _), n in zip(parts, inner, strict=True) if c.is_Rational))


def _multiple(factor: Any, expr: Any) -> Any:
    """An expression times a positive number, with that inside of each maximum."""
    result = sympy.S.Zero
    for term in sympy.Add.make_args(sympy.expand(factor * expr)):
        c, part = term.as_coeff_Mul()
        is_extremum = isinstance(part, _EXTREMA) and c.is_Rational
        result += sympy.sign(c) * part.func(*(_multiple(abs(c), arg) for arg in part.args)) if is_extremum else term
    return result


_EXTREMA = sympy.Abs, sympy.Max, sympy.Min


def _relations(pairs: Pairs) -> list[Any]:
    """The relations that the conditions are made of, not those inside of the compared values.

    Those that hold data come last: others of one condition may say where the data are read inside of their tensors.
    """
    found: dict[Any, None] = {}
    for _, condition in pairs:
        stack = [condition]
        while stack:
            part = stack.pop()
            if isinstance(part, Relational):
                found[part] = None
            else:
                stack.extend(reversed(part.args))
    return sorted(found, key=lambda relation: bool(relation.has(TensorEntry)))


def _with_relations(pairs: Pairs, given: Mapping[Any, Any]) -> Pairs:
    return [(value, condition.xreplace(given)) for value, condition in pairs] if given else pairs


def _are_few(pairs: Pairs, masks: Collection[Any]) -> bool:
    """Whether cases that do not overlap, without those of ``masks``, are few."""
    count, waiting = 0, [pairs]
    while waiting and count <= CASES_LIMIT:
        top = waiting.pop()
        relations = [r for r in _relations(top) if on_indices(r) and r not in masks]
        if relations:
            waiting += [_decide(top, relations[0], False), _decide(top, relations[0], True)]
        else:
            count += any(value != 0 for value, _ in top[:1])
    return count <= CASES_LIMIT


def _decide(pairs: Pairs, literal: Any, value: bool) -> Pairs:
    """The cases once a relation is known; those behind a condition that is now true fall away."""
    yes, no = (sympy.true, sympy.false) if value else (sympy.false, sympy.true)
    negated = literal.negated
    known = {literal: yes, literal.reversed: yes, negated: no, negated.reversed: no}
    result = []
    for expr, condition in pairs:
        condition = condition.xreplace(known)
        if condition != sympy.false:
            result.append((expr, condition))
        if condition == sympy.true:
            break
    return result


_RELATIONS: dict[Any, Callable[[Node, Node], tuple[str, Node, Node]]] = {
    sympy.StrictLessThan: lambda a, b: ("lt", a, b),
    sympy.LessThan: lambda a, b: ("le", a, b),
    sympy.StrictGreaterThan: lambda a, b: ("lt", b, a),
    sympy.GreaterThan: lambda a, b: ("le", b, a),
    sympy.Eq: lambda a, b: ("eq", a, b),
    sympy.Ne: lambda a, b: ("ne", a, b),
}


def _is_several(form: Affine) -> bool:
    """Whether a maximum or minimum stands in a form, apart from what selects its data."""
    inner = [v for v, _ in form.terms if isinstance(v, Compound) and not isinstance(v, DataEntry)]
    return any(isinstance(v, PositivePart) or any(map(_is_several, v.forms())) for v in inner)
