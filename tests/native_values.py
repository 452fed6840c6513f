"""Values of SymPy's own notation by plain loops, sums and products as Karr's.

`sympy_tensordiff.reference` reads the package's notation alone, which `lift` and `rewrite` make of this one and this
one of: a second opinion on both. With symbols as entries the value of a function is its sum written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Mul, Piecewise, Product, Sum

Entry = Callable[[str, tuple[Any, ...]], Any]


def native_value(expr: Any, entry: Entry, numbers: Mapping[Any, Any]) -> Any:
    """The value of an expression with ``numbers`` for symbols and ``entry(name, position)`` for entries.

    What is behind a false condition, or times a delta that is 0, is not read.
    """

    def at(part: Any) -> Any:
        return native_value(part, entry, numbers)

    if isinstance(expr, Indexed):
        return entry(expr.base.name, tuple(map(at, expr.indices)))
    if isinstance(expr, (Sum, Product)):
        return _of_all(expr.func, expr.function, expr.limits, entry, numbers)
    if isinstance(expr, Piecewise):
        return _chosen(expr.args, at)
    if isinstance(expr, sympy.ITE):
        return at(expr.args[1] if at(expr.args[0]) else expr.args[2])
    if isinstance(expr, Mul) and any(at(factor) == 0 for factor in expr.args if isinstance(factor, KroneckerDelta)):
        return sympy.Integer(0)
    if expr in numbers:
        return sympy.sympify(numbers[expr])
    return expr.func(*map(at, expr.args)) if expr.args else expr


def _chosen(pairs: Any, at: Callable[[Any], Any]) -> Any:
    """The first case that holds; those of a condition on symbols stay."""
    cases = []
    for value, condition in pairs:
        holds = at(condition)
        if holds != sympy.false:
            cases.append((at(value), holds))
        if holds == sympy.true:
            break
    return cases[0][0] if len(cases) == 1 else Piecewise(*cases, evaluate=False)


def _of_all(kind: type, body: Any, limits: Sequence[Any], entry: Entry, numbers: Mapping[Any, Any]) -> Any:
    """A sum or a product; where the upper bound is below the lower one, the opposite of what is between."""
    if not limits:
        return native_value(body, entry, numbers)
    *inner, (index, low, high) = limits
    low, high = (int(native_value(bound, entry, numbers)) for bound in (low, high))
    is_reversed = high < low - 1
    values = range(high + 1, low) if is_reversed else range(low, high + 1)
    parts = [_of_all(kind, body, inner, entry, {**numbers, index: value}) for value in values]
    if kind is Sum:
        return -sympy.Add(*parts) if is_reversed else sympy.Add(*parts)
    return 1 / Mul(*parts) if is_reversed else Mul(*parts)


def entries_of(arrays: Mapping[str, Any]) -> Entry:
    """Entries of nested lists; a read outside of them raises `IndexError`."""

    def entry(name: str, place: tuple[Any, ...]) -> Any:
        value = arrays[name]
        for index in place:
            if not index.is_Integer or not 0 <= index < len(value):
                raise IndexError(f"{name}{list(place)}")
            value = value[int(index)]
        return sympy.sympify(value)

    return entry
