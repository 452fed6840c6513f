"""A slow second opinion: every sum over numeric ranges written out, entries as plain symbols.

It knows nothing of `subs`, scopes or bounds of the package: indices are evaluated in Python.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import sympy

from sympy_tensordiff.symbolic import IndexedSum, TensorEntry


def number(expr: Any, values: dict[Any, int]) -> Fraction:
    """The value of an index expression or a bound."""
    if expr.is_Rational:
        return Fraction(int(expr.p), int(expr.q))
    if expr in values:
        return Fraction(values[expr])
    parts = [number(arg, values) for arg in expr.args]
    if expr.is_Add:
        return sum(parts, Fraction(0))
    if expr.is_Mul:
        return math.prod(parts, start=Fraction(1))
    operations = {
        sympy.floor: lambda a: Fraction(math.floor(a)),
        sympy.ceiling: lambda a: Fraction(math.ceil(a)),
        sympy.Mod: lambda a, n: a % n,
        sympy.Max: max,
        sympy.Min: min,
    }
    return operations[expr.func](*parts)


def written_out(expr: Any, values: dict[Any, int]) -> Any:
    """The expression at integer ``values`` of its free indices, without any sum."""
    if isinstance(expr, TensorEntry):
        if not expr.tensor.is_symbol:
            indices = [number(index, values) for index in expr.indices]
            return written_out(
                expr.tensor.body, values | dict(zip(expr.tensor.indices, map(int, indices), strict=True))
            )
        return sympy.Symbol(f"{expr.tensor.name}{[int(number(index, values)) for index in expr.indices]}")
    if isinstance(expr, IndexedSum):
        return sum((written_out(expr.body, point) for point in points(expr.limits[::-1], values)), sympy.Integer(0))
    if expr in values:
        return sympy.Integer(values[expr])
    return expr.func(*(written_out(arg, values) for arg in expr.args)) if expr.args else expr


def points(limits: Any, values: dict[Any, int]) -> Any:
    """All values of the bound indices, the outermost limit first."""
    if not limits:
        yield values
        return
    index, low, high = limits[0]
    for value in range(int(number(low, values)), int(number(high, values)) + 1):
        yield from points(limits[1:], values | {index: value})


def same(left: Any, right: Any, symbols: Any, top: int = 3) -> bool:
    """Whether both agree at all values below ``top`` of the symbols."""
    grid = itertools.product(range(top), repeat=len(symbols))
    return all(
        sympy.expand(written_out(left, dict(zip(symbols, point, strict=True))))
        == sympy.expand(written_out(right, dict(zip(symbols, point, strict=True))))
        for point in grid
    )
