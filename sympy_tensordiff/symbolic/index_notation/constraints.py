"""Conversion of conditions on indices to integer constraints.

A condition becomes alternatives, systems of constraints: ``Ne(i, j)`` becomes ``i > j`` and ``i < j``. Relations with
absolute values, maxima, powers and cases of indices become linear ones first (`index_conditions`). The caller converts
index expressions to affine forms, and so decides which symbols are variables and if entries of data are; a relation
without such forms, as one between real values, is a condition that is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import lcm
from typing import Any, NamedTuple

import sympy
from sympy import Abs, Add, And, Eq, Expr, Max, Min, Ne, Not, Or, S
from sympy.core.relational import Relational

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.rows import Rows, complement
from sympy_tensordiff.symbolic.expressions.traversal import native_parts, nodes_in
from sympy_tensordiff.symbolic.index_notation.index_conditions import linear_condition
from sympy_tensordiff.symbolic.index_notation.indices import is_data

MAX_ALTERNATIVES = 16
"""A condition that needs more alternatives is converted in part only."""

AffineForm = Callable[[Expr], Affine | None]
"""A conversion of index expressions with integer coefficients to affine forms. For other expressions it returns None or
raises `IndexExpressionError`.
"""

EXTREMA = Abs, Max, Min


class Alternatives(NamedTuple):
    """The systems of constraints of which one holds wherever a condition does; none for a condition that is false.

    If ``exact``, one of them holds nowhere else; otherwise they may hold where the condition does not.
    """

    systems: tuple[Rows, ...]
    exact: bool


UNKNOWN = Alternatives(((),), False)


def alternatives(condition: Any, form: AffineForm, *, split_unequal: bool = True) -> Alternatives:
    """Return the SymPy ``condition`` as alternative systems of constraints. ``form`` converts index expressions. Unless
    ``split_unequal``, linear forms that differ are not known, instead of two alternatives.

    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices, to_affine
    >>> i, j = indices("i j")
    >>> alternatives((i < j) & Ne(i, 2), lambda expr: to_affine(expr, str))
    Alternatives(systems=((-i + j - 1 >= 0, i - 3 >= 0), (-i + j - 1 >= 0, -i + 1 >= 0)), exact=True)
    """
    linear = linear_condition(condition, lambda expr: linear_multiple(expr, form) is not None)
    return _convert(sympy.to_nnf(linear, simplify=False), form, split_unequal)


def _convert(condition: Any, form: AffineForm, split_unequal: bool) -> Alternatives:
    """Return the alternatives of ``condition``, relations joined by `And` and `Or`, as `alternatives` does."""
    if condition in (S.true, S.false):
        return Alternatives(((),) if condition else (), True)
    if isinstance(condition, Relational):
        is_unequal = isinstance(condition, Ne)
        row = relation_row(condition.negated if is_unequal else condition, form)
        if row is None or (is_unequal and not split_unequal):
            return UNKNOWN
        return Alternatives(tuple(complement([row])) if is_unequal else ((row,),), True)
    if not isinstance(condition, And | Or):
        return UNKNOWN
    parts = [_convert(part, form, split_unequal) for part in condition.args]
    is_exact = all(part.exact for part in parts)
    if isinstance(condition, Or):
        systems = tuple(dict.fromkeys(system for part in parts for system in part.systems))
        return Alternatives(systems, is_exact) if len(systems) <= MAX_ALTERNATIVES else UNKNOWN
    systems = ((),)
    for part in parts:
        joined = tuple(dict.fromkeys((*one, *other) for one in systems for other in part.systems))
        is_exact = is_exact and len(joined) <= MAX_ALTERNATIVES
        systems = joined if len(joined) <= MAX_ALTERNATIVES else systems
    return Alternatives(systems, is_exact or not systems)


def branch_alternatives(
    branches: Iterable[Any], form: AffineForm, *, split_unequal: bool = True
) -> Iterator[tuple[Any, Alternatives]]:
    """Yield the conditions and the values of a `Piecewise`, given as ``branches`` (value, condition), each with the
    alternatives under which it is evaluated, as `alternatives` does.
    """
    before: Any = S.true
    for value, condition in branches:
        yield condition, alternatives(before, form, split_unequal=split_unequal)
        yield value, alternatives(And(before, condition), form, split_unequal=split_unequal)
        before = And(before, Not(condition))


def relation_row(relation: Any, form: AffineForm) -> Constraint | None:
    """Return ``relation``, an equation or inequality of integers such as ``i/2 < j``, as a constraint; None if ``form``
    does not convert the difference of its sides.

    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices, to_affine
    >>> i, j = indices("i j")
    >>> relation_row(i/2 < j, lambda expr: to_affine(expr, str))
    -i + 2*j - 1 >= 0
    """
    is_equation = isinstance(relation, Eq)
    difference = linear_multiple(relation.lhs - relation.rhs if is_equation else relation.gts - relation.lts, form)
    if difference is None:
        return None
    is_strict = isinstance(relation, sympy.StrictGreaterThan | sympy.StrictLessThan)
    return Constraint("eq" if is_equation else "ge", difference - int(is_strict))


def linear_multiple(expr: Any, form: AffineForm) -> Affine | None:
    """Return the affine form of the least positive multiple of ``expr`` with integer coefficients: ``2*i - j`` for
    ``i - j/2``. None if it contains a maximum or values of a tensor, or if ``form`` does not convert it.
    """
    # A value may be deep and shared; SymPy would expand it as a tree, or rewrite the conditions in it.
    if any(hasattr(node, "is_tensor_entry") and not is_data(node) for node in nodes_in([expr], native_parts)):
        return None
    try:
        found = form(sympy.expand(common_denominator(expr) * expr))
    except IndexExpressionError:
        return None
    return None if found is None or _has_extremum(found) else found


def common_denominator(expr: Any) -> int:
    """Return the least positive integer that makes the coefficients of ``expr`` integers, also inside maxima."""
    parts = [term.as_coeff_Mul() for term in Add.make_args(sympy.expand(expr))]
    inner = [lcm(*map(common_denominator, part.args)) if isinstance(part, EXTREMA) else 1 for _, part in parts]
    return lcm(*(int(c.q) * n for (c, _), n in zip(parts, inner, strict=True) if c.is_Rational))


def _has_extremum(form: Affine) -> bool:
    """Return whether `form` contains a maximum or minimum; the indices of tensor entries in it are not searched."""
    inner = [v for v, _ in form.terms if isinstance(v, Compound) and not isinstance(v, IndirectIndex)]
    return any(isinstance(v, PositivePart) or any(map(_has_extremum, v.forms())) for v in inner)
