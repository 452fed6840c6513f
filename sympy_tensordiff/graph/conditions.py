"""Cases and conditions into the graph.

Conditions on indices become guards, split so that no two of the pieces overlap; conditions on
values become `select` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import lcm, nan
from typing import Any

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from sympy_tensordiff.errors import IndexExpressionError, UnsupportedError
from sympy_tensordiff.graph.applications import Applications, Scope
from sympy_tensordiff.graph.decision_trees import (
    Decision,
    Literal,
    Pairs,
    TooManyCasesError,
    conjuncts,
    decided,
    decisions,
    logic,
    relations,
    written,
)
from sympy_tensordiff.graph.index_conditions import linear_condition, linear_relations, on_indices, values_of
from sympy_tensordiff.graph.interning import Recursion, in_turn
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Compound, Row
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.indices import relation_row

XOR_LIMIT = 4
"""Of more conditions, an odd number holds where a product of signs is negative: as `And` and `Or` its size doubles."""


class Conditions(Applications):
    """The part of the reader that knows `Piecewise` and what stands in it."""

    _branches: int
    integers: set[Any]

    def _piecewise(self, expr: Any, scope: Scope) -> Recursion[Node]:
        node: Node = yield self._choice([(pair.expr, pair.cond) for pair in expr.args], scope)
        return node

    def _indicator(self, expr: Any, scope: Scope) -> Recursion[Node]:
        """A sign or a step: of indices it is cases, of values a function."""
        cases = values_of(expr) if on_indices(expr, self.integers) else None
        node: Node = yield (self._function(expr, scope) if cases is None else self._choice(cases, scope))
        return node

    def _linear(self, condition: Any, scope: Scope) -> Any:
        """The condition with its relations on indices as combinations of linear ones, as far as there are such."""
        return linear_condition(condition, lambda expr: self._linear_form(expr, scope) is not None, self.integers)

    def _choice(self, pairs: Pairs, scope: Scope) -> Recursion[Node]:
        """Values with conditions: cases of those on indices that make few, and choices by all others."""
        given: dict[Any, Any] = {}
        for _, condition in pairs:
            given |= linear_relations(condition, lambda expr: self._linear_form(expr, scope) is not None, self.integers)
        rows = {relation: logic(combination) for relation, combination in given.items()}
        trees = [(value, logic(condition)) for value, condition in pairs]
        node: Node = yield self._cases(self._decisions(trees, rows, scope), scope)
        return node

    def _decisions(self, pairs: Pairs, rows: Mapping[Any, Any], scope: Scope) -> Any:
        """The cases by all conditions on indices, or by as many as make few; the others are masks."""
        try:
            everything = decided(pairs, rows)
            return decisions(everything, self._literals(_relations(everything), scope))
        except TooManyCasesError:
            return self._few_decisions(pairs, rows, scope)

    def _few_decisions(self, pairs: Pairs, rows: Mapping[Any, Any], scope: Scope) -> Any:
        """The cases by what whole values need, as it stands and then rewritten, and by what else makes few.

        Conditions on data come last: others keep them inside of their tensors.
        """
        needed = {part for _, tree in pairs for part in conjuncts(tree) if isinstance(part, Relational)}
        groups: dict[Any, list[Any]] = {}
        for relation in [r for r in _relations(pairs) if r not in rows] + list(rows):
            rest, on_data = relation not in needed, bool(relation.has(TensorEntry))
            own = relation if relation in rows and not rest else None  # one of many cases leaves the others
            groups.setdefault((on_data, rest, relation in rows, own), []).append(relation)
        accepted: list[Literal] = []
        result: Any = pairs
        for group in (groups[key] for key in sorted(groups, key=lambda key: key[:3])):
            inside = decided(pairs, {relation: rows[relation] for relation in group if relation in rows})
            new = [r for relation in group for r in relations(rows.get(relation, relation))]
            literals = self._literals(dict.fromkeys([*(a.relation for a in accepted), *new]), scope)
            try:
                result = decisions(inside, literals)
            except TooManyCasesError:
                continue
            pairs, accepted = inside, literals
        return result

    def _literals(self, found: Iterable[Any], scope: Scope) -> list[Literal]:
        """The relations that are rows, each once, in their order."""
        result: dict[Any, Literal | None] = {}
        for relation in found:
            literal = relation.negated if isinstance(relation, sympy.Ne) else relation
            if literal not in result:
                split = self._index_condition(literal, scope)
                result[literal] = None if split is None else Literal(literal, *split)
        return [literal for literal in result.values() if literal is not None]

    def _cases(self, case: Any, scope: Scope) -> Recursion[Node]:
        """Guards of cases; what is left are conditions on values, and masks."""
        graph = self.graph
        if isinstance(case, Decision):
            parts = []
            for rows, inside in case.cases:
                parts.append(graph.guard(rows, (yield self._cases(inside, scope))))
            return graph.add(parts)
        result = graph.const(nan)  # no condition holds: SymPy's own answer
        for value, tree in reversed(case):
            self._branches += 1
            node = yield self._scalar(value, scope)
            self._branches -= 1
            result = node if tree is True else graph.select((yield self._condition(written(tree), scope)), node, result)
        return result

    def _index_condition(
        self, relation: Any, scope: Scope
    ) -> tuple[tuple[Row, ...], tuple[tuple[Row, ...], ...]] | None:
        """Rows of a relation between indices and, apart from each other, those of its negation."""
        difference = self._linear_form(relation.lhs - relation.rhs, scope)
        if difference is None:
            return None
        row = relation_row(relation, difference)
        if row.kind == "eq":
            return (row,), ((Row("ge", difference - 1),), (Row("ge", -difference - 1),))
        return (row,), ((row.negation(),),)

    def _linear_form(self, expr: Any, scope: Scope) -> Affine | None:
        """As `_scaled`, without a maximum or minimum, but of what selects data: of those a relation is several."""
        form = self._scaled(expr, scope)
        return None if form is None or _is_several(form) else form

    def _scaled(self, expr: Any, scope: Scope) -> Affine | None:
        """A positive multiple of a difference of indices as a form; None where it is no such thing.

        What is compared with an index is an integer, too; values that are compared with each other are none.
        """
        symbols = expr.atoms(sympy.Symbol)
        if symbols and not any(s.is_integer or s in scope or s in self.integers for s in symbols):
            return None
        try:
            return self.affine(sympy.expand(_denominator(expr) * expr), scope)
        except IndexExpressionError:
            return None

    def _condition(self, condition: Any, scope: Scope) -> Recursion[Node]:
        graph = self.graph
        if isinstance(condition, sympy.And | sympy.Or | sympy.Not):
            parts = yield from in_turn(self._condition(arg, scope) for arg in condition.args)
            return graph.logic({sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[condition.func], parts)
        if isinstance(condition, sympy.ITE):
            test, yes, no = condition.args
            node: Node = yield self._condition((test & yes) | (~test & no), scope)
            return node
        if isinstance(condition, Relational) and type(condition) in _RELATIONS:
            factor = _denominator(condition.lhs - condition.rhs) if on_indices(condition, self.integers) else 1
            sides = [_multiple(factor, side) for side in condition.args] if factor > 1 else condition.args
            left, right = yield self._all(sides, scope)  # integers, which are compared without rounding
            if isinstance(condition, sympy.Eq | sympy.Ne) and not left.shape and not right.shape:
                left, right = _solved_for_extremum(graph, left, right)
            return graph.compare(*_RELATIONS[type(condition)](left, right))
        if isinstance(condition, BooleanTrue | BooleanFalse):  # what is left of conditions on indices
            return graph.truth(bool(condition))
        if isinstance(condition, sympy.Xor) and len(condition.args) > XOR_LIMIT:
            signs = []
            for arg in condition.args:
                holds = yield self._condition(arg, scope)
                signs.append(graph.select(holds, graph.const(-1), graph.one))
            return graph.compare("lt", graph.mul(signs), graph.zero)
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


def _solved_for_extremum(graph: Graph, left: Node, right: Node) -> tuple[Node, Node]:
    """The sides of an equation with a maximum or minimum, of which one is a multiple plus other terms, as one of them.

    SymPy moves the numbers of an equation to one side where a `Piecewise` is made anew: ``Eq(3*u/7 - 1, M)`` becomes
    ``Eq(u, 7*M/3 + 7/3)``. Of floating point numbers only the first one holds exactly where ``M`` is ``3*u/7 - 1``.
    """
    found = []
    for side, other in ((left, right), (right, left)):
        terms = side.args if side.op == "add" else (side,)
        for term in terms:
            factor, extremum = graph.split_coefficient(term)
            rest = [other, *(graph.neg(each) for each in terms if each is not term)]
            if _is_extremum(extremum) and extremum not in reachable(*rest):
                parts = [part for each in rest for part in (each.args if each.op == "add" else (each,))]
                value = graph.add([graph.scale(1 / Fraction(factor), part) for part in parts])
                if any(_skeleton(value) == _skeleton(one) for one in _values(extremum)):
                    found.append((value, extremum))
    # The greatest of several maxima holds them, and what is compared with it does, too.
    return max(found, key=lambda sides: len(reachable(sides[1])), default=(left, right))


def _values(extremum: Node) -> tuple[Node, ...]:
    return extremum.args if extremum.op == "call" else extremum.args[:1]


def _skeleton(node: Node) -> set[Any]:
    """What a value is made of but for its indices: other values of a maximum have the same."""
    parts = [part for part in reachable(node) if part.op not in ("index", "compare", "and", "or", "not")]
    return {(part.op, part.data if part.op in ("const", "tensor", "call") else None) for part in parts}


def _is_extremum(node: Node) -> bool:
    return node.op in ("max", "min") or (node.op == "call" and node.data in (sympy.Max, sympy.Min))


def _relations(pairs: Pairs) -> list[Any]:
    """The relations that the conditions are made of, not those inside of the compared values.

    Those that hold data come last: others of one condition may say where the data are read inside of their tensors.
    """
    found = dict.fromkeys(relation for _, tree in pairs for relation in relations(tree))
    return sorted(found, key=lambda relation: bool(relation.has(TensorEntry)))


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
