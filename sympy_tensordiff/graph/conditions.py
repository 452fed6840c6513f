"""Reading `Piecewise` and conditions into the graph.

Conditions on indices become guards of disjoint cases; conditions on values become `select` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import nan
from typing import Any

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.decision_trees import (
    Decision,
    Literal,
    Pairs,
    Rows,
    TooManyCasesError,
    Unequal,
    conjuncts,
    decided,
    decisions,
    logic,
    relations,
    written,
)
from sympy_tensordiff.graph.interning import Recursion, in_turn
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.read_functions import Applications, BoundVariables
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import complement
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.constraints import (
    EXTREMA,
    common_denominator,
    linear_multiple,
    relation_row,
)
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.index_conditions import (
    linear_condition,
    linear_relations,
    on_indices,
    values_of,
)

MAX_EXPANDED_XOR = 4
"""The most conditions of a `Xor` that is expanded, which doubles with each; a longer one is the sign of a product."""


class ConditionReader(Applications):
    """The methods of `Reader` that convert `Piecewise`, sign and step functions, and conditions to nodes."""

    _branches: int
    integers: set[Any]

    def _read_piecewise(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a `Piecewise`."""
        node: Node = yield self._read_branches([(pair.expr, pair.cond) for pair in expr.args], bound_variables)
        return node

    def _read_indicator(self, expr: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of ``expr``, a sign or step function: a choice by constraints on indices if its argument
        contains indices only, else a function call.
        """
        cases = values_of(expr) if on_indices(expr, self.integers) else None
        node: Node = yield (
            self._read_function(expr, bound_variables) if cases is None else self._read_branches(cases, bound_variables)
        )
        return node

    def _linearise(self, condition: Any, bound_variables: BoundVariables) -> Any:
        """Return ``condition`` with nonlinear relations between indices, such as ``i**2 < 9``, rewritten as linear ones
        where possible.
        """
        return linear_condition(
            condition, lambda expr: self._linear_form(expr, bound_variables) is not None, self.integers
        )

    def _read_branches(self, branches: Pairs, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a `Piecewise`, given as ``branches``, pairs ``(value, condition)`` of which the first true
        one counts. Conditions on indices become guards if this needs few cases; others become selects.
        """
        linear: dict[Any, Any] = {}
        for _, condition in branches:
            linear |= linear_relations(
                condition, lambda expr: self._linear_form(expr, bound_variables) is not None, self.integers
            )
        combinations = {relation: logic(combination) for relation, combination in linear.items()}
        trees = [(value, logic(condition)) for value, condition in branches]
        node: Node = yield self._read_cases(self._decide_indices(trees, combinations, bound_variables), bound_variables)
        return node

    def _decide_indices(self, pairs: Pairs, combinations: Mapping[Any, Any], bound_variables: BoundVariables) -> Any:
        """Return a decision tree that equals the `Piecewise` with the branches `pairs`, tuples ``(value, condition)``:
        it tests linear constraints on indices, and leaves other conditions in the branches. ``combinations`` maps
        nonlinear relations between indices to combinations of linear ones.
        """
        try:
            linearised = decided(pairs, combinations)
            return decisions(linearised, self._index_literals(_relations(linearised), bound_variables))
        except TooManyCasesError:
            return self._decide_some_indices(pairs, combinations, bound_variables)

    def _decide_some_indices(
        self, pairs: Pairs, combinations: Mapping[Any, Any], bound_variables: BoundVariables
    ) -> Any:
        """Return a decision tree for the branches `pairs`, tuples ``(value, condition)``, that tests only some
        relations between indices, since testing all would take too many cases; the others stay in the branches.
        ``combinations`` maps nonlinear relations to combinations of linear ones.

        Relations with tensor entries come last: others keep the entries inside their tensors.
        """
        conjoined = {part for _, tree in pairs for part in conjuncts(tree) if isinstance(part, Relational)}
        groups: dict[Any, list[Any]] = {}
        for relation in [r for r in _relations(pairs) if r not in combinations] + list(combinations):
            rest, on_data = relation not in conjoined, bool(relation.has(TensorEntry))
            own = relation if relation in combinations and not rest else None  # one of many cases leaves the others
            groups.setdefault((on_data, rest, relation in combinations, own), []).append(relation)
        accepted: list[Literal] = []
        result: Any = pairs
        for group in (groups[key] for key in sorted(groups, key=lambda key: key[:3])):
            inside = decided(
                pairs, {relation: combinations[relation] for relation in group if relation in combinations}
            )
            new = [r for relation in group for r in relations(combinations.get(relation, relation))]
            literals = self._index_literals(dict.fromkeys([*(a.relation for a in accepted), *new]), bound_variables)
            try:
                result = decisions(inside, literals)
            except TooManyCasesError:
                continue
            pairs, accepted = inside, literals
        return result

    def _index_literals(self, found: Iterable[Any], bound_variables: BoundVariables) -> list[Literal]:
        """Return a `Literal` for each relation in ``found`` that is a linear constraint on indices: the relation as
        constraints, together with its negation. Other relations, and repeated ones, are left out.
        """
        result: dict[Any, Literal | None] = {}
        for relation in found:
            literal = relation.negated if isinstance(relation, sympy.Ne) else relation
            if literal not in result:
                split = self._as_rows(literal, bound_variables)
                result[literal] = None if split is None else Literal(literal, *split)
        return [literal for literal in result.values() if literal is not None]

    def _read_cases(self, case: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of ``case``, a `Decision` or a list of pairs of value and condition. A decision becomes a sum
        of guarded branches, a list becomes nested selects.

        The select ends in NaN if no condition is always true.
        """
        graph = self.graph
        if isinstance(case, Decision):
            parts = []
            for rows, inside in case.cases:
                part = yield self._read_cases(inside, bound_variables)
                tests = [row for row in rows if isinstance(row, Unequal)]
                for test in tests:
                    unequal = graph.compare("ne", graph.index(test.form), graph.zero)
                    part = graph.select(unequal, part, graph.zero)
                parts.append(graph.guard([row for row in rows if isinstance(row, Constraint)], part))
            return graph.add(parts)
        result = graph.const(nan)  # no condition holds: SymPy's own answer
        for value, tree in reversed(case):
            self._branches += 1
            node = yield self._read_scalar(value, bound_variables)
            self._branches -= 1
            result = (
                node
                if tree is True
                else graph.select((yield self._read_condition(written(tree), bound_variables)), node, result)
            )
        return result

    def _as_rows(
        self, relation: Any, bound_variables: BoundVariables
    ) -> tuple[tuple[Constraint, ...], tuple[Rows, ...]] | None:
        """Return ``(constraints, alternatives)`` for a relation between indices, such as ``i == j``: the constraints
        that state it, and the cases of its negation, here ``i > j`` and ``i < j``. None if it is not linear.

        Two bound indices that differ are one alternative, which is tested at each point: the two ranges on both sides
        would double every sum that reads them. So are entries of integer data, whose values have no ranges in loops. An
        index is on one side of most bounds.
        """
        row = relation_row(relation, lambda expr: self._form_of_indices(expr, bound_variables))
        if row is None:
            return None
        shared = len(row.form.atoms().intersection(bound_variables.values())) > 1
        if row.kind == "eq" and (shared or data_entries([row.form])):
            return (row,), ((Unequal(row.form),),)
        return (row,), tuple(complement([row]))

    def _linear_form(self, expr: Any, bound_variables: BoundVariables) -> Affine | None:
        """Return an affine form, with integer coefficients, that has the sign of ``expr``; None if ``expr`` is not
        affine in indices or contains a maximum.
        """
        return linear_multiple(expr, lambda multiple: self._form_of_indices(multiple, bound_variables))

    def _form_of_indices(self, expr: Any, bound_variables: BoundVariables) -> Affine | None:
        """Return the affine form of ``expr``, None if it contains values only; raise `IndexExpressionError` if it is
        not affine.

        A symbol that is compared with an index is an integer, too; symbols that are compared with each other are
        values.
        """
        symbols = expr.atoms(sympy.Symbol)
        if symbols and not any(s.is_integer or s in bound_variables or s in self.integers for s in symbols):
            return None
        return self.affine(expr, bound_variables)

    def _read_condition(self, condition: Any, bound_variables: BoundVariables) -> Recursion[Node]:
        """Return the node of a condition on values, such as ``x[i] > 0``; raise UnsupportedError if it does not combine
        comparisons.
        """
        graph = self.graph
        if isinstance(condition, sympy.And | sympy.Or | sympy.Not):
            parts = yield from in_turn(self._read_condition(arg, bound_variables) for arg in condition.args)
            return graph.logic({sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[condition.func], parts)
        if isinstance(condition, sympy.ITE):
            test, yes, no = condition.args
            node: Node = yield self._read_condition((test & yes) | (~test & no), bound_variables)
            return node
        if isinstance(condition, Relational) and type(condition) in _RELATIONS:
            factor = common_denominator(condition.lhs - condition.rhs) if on_indices(condition, self.integers) else 1
            sides = [_scale(factor, side) for side in condition.args] if factor > 1 else condition.args
            left, right = yield self._read_scalars(
                sides, bound_variables
            )  # integers, which are compared without rounding
            if isinstance(condition, sympy.Eq | sympy.Ne) and not left.shape and not right.shape:
                left, right = _solve_for_extremum(graph, left, right)
            return graph.compare(*_RELATIONS[type(condition)](left, right))
        if isinstance(condition, BooleanTrue | BooleanFalse):  # all conditions on indices have been decided
            return graph.truth(bool(condition))
        if isinstance(condition, sympy.Xor) and len(condition.args) > MAX_EXPANDED_XOR:
            signs = []
            for arg in condition.args:
                holds = yield self._read_condition(arg, bound_variables)
                signs.append(graph.select(holds, graph.const(-1), graph.one))
            return graph.compare("lt", graph.mul(signs), graph.zero)
        if isinstance(condition, sympy.Xor | sympy.Implies | sympy.Equivalent):
            node = yield self._read_condition(condition.to_nnf(simplify=False), bound_variables)
            return node
        raise UnsupportedError(f"the condition {condition} of a Piecewise is not a comparison")


def _scale(factor: Any, expr: Any) -> Any:
    """Return ``factor*expr`` for a positive number `factor`, with maxima, minima and absolute values multiplied inside:
    ``Max(2*i, 2*j)`` for ``2*Max(i, j)``.
    """
    result = sympy.S.Zero
    for term in sympy.Add.make_args(sympy.expand(factor * expr)):
        c, part = term.as_coeff_Mul()
        is_extremum = isinstance(part, EXTREMA) and c.is_Rational
        result += sympy.sign(c) * part.func(*(_scale(abs(c), arg) for arg in part.args)) if is_extremum else term
    return result


def _solve_for_extremum(graph: Graph, left: Node, right: Node) -> tuple[Node, Node]:
    """Solve the equation ``left == right`` for a maximum or minimum M in it, and return ``(value, M)``: ``(3*u/7 - 1,
    M)`` for ``u == 7*M/3 + 7/3``.

    Return ``(left, right)`` unless ``value`` has the operations, numbers and tensors of an operand of M.

    SymPy moves the numbers of an equation to one side when it rebuilds a `Piecewise`: ``Eq(3*u/7 - 1, M)`` becomes
    ``Eq(u, 7*M/3 + 7/3)``. Of floating point numbers only the first one holds exactly where ``M`` is ``3*u/7 - 1``.
    """
    candidates = []
    for side, other in ((left, right), (right, left)):
        terms = side.args if side.op == "add" else (side,)
        for term in terms:
            factor, extremum = graph.split_coefficient(term)
            rest = [other, *(graph.neg(each) for each in terms if each is not term)]
            if _is_extremum(extremum) and extremum not in reachable(*rest):
                parts = [part for each in rest for part in (each.args if each.op == "add" else (each,))]
                value = graph.add([graph.scale(1 / Fraction(factor), part) for part in parts])
                if any(_skeleton(value) == _skeleton(one) for one in _operands_of(extremum)):
                    candidates.append((value, extremum))
    # Of nested maxima, take the outermost one.
    return max(candidates, key=lambda sides: len(reachable(sides[1])), default=(left, right))


def _operands_of(extremum: Node) -> tuple[Node, ...]:
    """Return the operands of a maximum or minimum: its arguments or, for one over a range, its body."""
    return extremum.args if extremum.op == "call" else extremum.args[:1]


def _skeleton(node: Node) -> set[Any]:
    """Return the ops, constants, tensors and functions in ``node``, without its indices: two nodes that differ only in
    indices, such as ``x[i]`` and ``x[j]``, have equal sets.
    """
    parts = [part for part in reachable(node) if part.op not in ("index", "compare", "and", "or", "not")]
    return {(part.op, part.data if part.op in ("const", "tensor", "call") else None) for part in parts}


def _is_extremum(node: Node) -> bool:
    """Return whether `node` is a maximum or minimum, of several arguments or over indices."""
    return node.op in ("max", "min") or (node.op == "call" and node.data in (sympy.Max, sympy.Min))


def _relations(pairs: Pairs) -> list[Any]:
    """Return the relations, such as ``i < j``, in the conditions of ``pairs`` (value, condition); those with tensor
    entries come last.

    Other relations of a condition may say where the entries are inside their tensors.
    """
    found = dict.fromkeys(relation for _, tree in pairs for relation in relations(tree))
    return sorted(found, key=lambda relation: any(isinstance(node, TensorEntry) for node in nodes_in([relation])))


_RELATIONS: dict[Any, Callable[[Node, Node], tuple[str, Node, Node]]] = {
    sympy.StrictLessThan: lambda a, b: ("lt", a, b),
    sympy.LessThan: lambda a, b: ("le", a, b),
    sympy.StrictGreaterThan: lambda a, b: ("lt", b, a),
    sympy.GreaterThan: lambda a, b: ("le", b, a),
    sympy.Eq: lambda a, b: ("eq", a, b),
    sympy.Ne: lambda a, b: ("ne", a, b),
}
