"""Notations of elementwise choices: functions that are a `Piecewise` of their arguments, printed with `where`, and
`clip`.
"""

from __future__ import annotations

from typing import Any

from sympy import And, Max, Min, Not, Or, Piecewise, S, default_sort_key

from sympy_tensordiff.symbolic.printing.notation import Choice, Connected, Indicator, Leaf, Relation
from sympy_tensordiff.symbolic.printing.notation_text import RELATIONS
from sympy_tensordiff.symbolic.printing.repeated_tensors import rank
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction


def choice_notation(body: Any, values: dict[Any, Any]) -> Choice | Indicator | None:
    """Return the notation (for printing as ``where(...)``) of a `Piecewise` whose values and conditions are made of
    function arguments, given in `values`; None if it contains anything else.

    ``values`` maps the arguments to the notations of the operands; 1 or 0 by one condition is an `Indicator`.
    """
    if not isinstance(body, Piecewise) or body.args[-1].cond is not S.true:
        return None
    results = [_argument(value, values) for value, _ in body.args]
    conditions = [_condition(condition, values) for _, condition in body.args[:-1]]
    if None in results or None in conditions:
        return None
    if [value for value, _ in body.args] == [1, 0]:
        return Indicator(conditions[0])
    return Choice(tuple(zip(results[:-1], conditions, strict=True)), results[-1])


def _argument(value: Any, values: dict[Any, Any]) -> Any | None:
    """Return the notation of a branch's value: a number, a nested choice, or a function argument, whose notation is in
    ``values``. None for anything else.
    """
    if isinstance(value, Piecewise):
        return choice_notation(value, values)
    return Leaf(value) if value.is_Number else values.get(value)


def _condition(condition: Any, values: dict[Any, Any]) -> Any | None:
    """Return the notation of a condition made of relations between function arguments; None for other conditions."""
    if isinstance(condition, (And, Or, Not)):
        parts = tuple(_condition(part, values) for part in _ordered(condition))
        return None if None in parts else Connected(type(condition).__name__.lower(), parts)
    if getattr(condition, "rel_op", None) not in RELATIONS:
        return None
    sides = _argument(condition.lhs, values), _argument(condition.rhs, values)
    return None if None in sides else Relation(condition.rel_op, *sides)


def _ordered(condition: Any) -> list[Any]:
    """Return the parts of a condition in a canonical order."""
    return sorted(condition.args, key=default_sort_key)


def clipped(node: Any) -> tuple[Any, Any, Any] | None:
    """Return ``(tensor, lower, upper)`` if `node` is ``min(max(tensor, lower), upper)`` with scalar bounds, so that it
    prints as ``clip``; None for other nodes.
    """
    above, high = _bounded(node, Min)
    tensor, low = _bounded(above, Max)
    return None if low is None or high is None else (tensor, low, high)


def _bounded(node: Any, extremum: type) -> tuple[Any, Any]:
    """Return ``(tensor, scalar)`` if `node` is the elementwise maximum of a tensor and a scalar, or the minimum
    (`extremum` is `Max` or `Min`); ``(None, None)`` for other nodes.
    """
    if not isinstance(node, TensorFunction) or type(node.template.expr) is not extremum or len(node.operands) != 2:
        return None, None
    scalar, tensor = sorted(node.operands, key=lambda operand: rank(operand) > 0)
    return (tensor, scalar) if rank(tensor) and not rank(scalar) else (None, None)
