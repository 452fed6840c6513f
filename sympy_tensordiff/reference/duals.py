"""Numbers of the oracle: exact rationals, 30-digit floats, and sparse dual numbers over either.

A *plain* number is an ``int``, a ``Fraction`` or an ``mpf`` of `CONTEXT`; plain arithmetic stays
exact as long as no float takes part. A `Dual` carries a number and its derivatives by the
entries it depends on; its value and its derivatives may be `Dual` again, of a lower level, which
is what second derivatives are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import mpmath
from mpmath.libmp import from_int, from_rational, round_nearest

CONTEXT = mpmath.MPContext()
CONTEXT.dps = 30

Number: TypeAlias = Any
# An entry differentiated by: its indices, () for a scalar.
Key: TypeAlias = tuple[int, ...]
EXACT = (int, Fraction)
# Asked for each addition: `isinstance` is slow for a class of `numbers`, which `Fraction` is.
_EXACT_TYPES = frozenset({int, bool, Fraction})


class Dual:
    """A number with its derivatives, ``value + sum(parts[key] * d(key))``.

    Parameters
    ----------
    value : number
    parts : dict from key to number
        The derivatives that are not zero by structure; a key is an entry differentiated by.
    level : int
        Duals of a lower level are constants to those of a higher one.
    """

    __slots__ = ("level", "parts", "value")

    def __init__(self, value: Number, parts: dict[Key, Number], level: int = 1) -> None:
        self.value = value
        self.parts = parts
        self.level = level

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.parts!r}, {self.level})"


def primal(number: Number) -> Number:
    """The plain value of a number, all derivatives dropped."""
    while isinstance(number, Dual):
        number = number.value
    return number


def to_float(number: Number) -> Number:
    """A plain number as a 30-digit float; a complex one is not a number (tensors are real)."""
    kind = type(number)
    if kind is CONTEXT.mpf:
        return number
    if kind is Fraction:
        return CONTEXT.make_mpf(from_rational(number.numerator, number.denominator, CONTEXT.prec, round_nearest))
    if kind is int:
        return CONTEXT.make_mpf(from_int(number, CONTEXT.prec, round_nearest))
    if isinstance(number, CONTEXT.mpc):
        return number.real if number.imag == 0 else CONTEXT.nan
    return CONTEXT.mpf(number)


def is_exact_zero(number: Number) -> bool:
    """Whether a number is 0 without rounding and without derivatives."""
    return type(number) in _EXACT_TYPES and not number


def compare(left: Number, right: Number) -> int:
    """-1, 0 or 1 as the value of ``left`` is less than, equal to or greater than ``right``'s."""
    left, right = primal(left), primal(right)
    if not (type(left) in _EXACT_TYPES and type(right) in _EXACT_TYPES):
        left, right = to_float(left), to_float(right)
    return int(left > right) - int(left < right)


def chain(
    arguments: Sequence[Number],
    value: Callable[[Sequence[Number]], Number],
    slope: Callable[[int, Sequence[Number]], Number],
) -> Number:
    """The chain rule: ``value`` of ``arguments``, and its derivatives if any of them is a `Dual`.

    ``value`` and ``slope(n, ...)``, the partial derivative by argument ``n``, are called with the
    arguments one level down.
    """
    level = 0
    for argument in arguments:
        if isinstance(argument, Dual) and argument.level > level:
            level = argument.level
    if level == 0:
        return value(arguments)
    inner = [a.value if isinstance(a, Dual) and a.level == level else a for a in arguments]
    result = value(inner)
    parts: dict[Key, Number] = {}
    for n, argument in enumerate(arguments):
        if not isinstance(argument, Dual) or argument.level != level:
            continue
        factor = _slope_at(slope, n, inner, argument, result)
        if is_exact_zero(factor):
            continue
        is_one = type(factor) is int and factor == 1
        for key, part in argument.parts.items():
            term = part if is_one else multiply(factor, part)
            parts[key] = add(parts[key], term) if key in parts else term
    return Dual(result, parts, level) if parts else result


def _slope_at(
    slope: Callable[[int, Sequence[Number]], Number], n: int, inner: Sequence[Number], argument: Dual, result: Number
) -> Number:
    """A slope; 0 where it is infinite, the value is not, and all first derivatives of the argument are 0: at a kink."""
    try:
        factor = slope(n, inner)
    except ZeroDivisionError:
        if not _is_infinite(result) and _is_flat(argument):
            return 0
        raise
    return 0 if _is_infinite(factor) and not _is_infinite(result) and _is_flat(argument) else factor


def _is_infinite(number: Number) -> bool:
    number = primal(number)
    return type(number) is CONTEXT.mpf and bool(CONTEXT.isinf(number))


def _is_flat(number: Number) -> bool:
    """Whether the first derivatives by all variables are 0."""
    while isinstance(number, Dual):
        if any(primal(part) != 0 for part in number.parts.values()):
            return False
        number = number.value
    return True


def add(left: Number, right: Number) -> Number:
    """The sum of two numbers."""
    if type(left) in _EXACT_TYPES and type(right) in _EXACT_TYPES:
        return left + right
    if isinstance(left, Dual) or isinstance(right, Dual):
        return chain((left, right), lambda x: add(*x), lambda n, x: 1)
    return to_float(left) + to_float(right)


def multiply(left: Number, right: Number) -> Number:
    """The product of two numbers; an exact 0 makes it an exact 0."""
    left_is_exact, right_is_exact = type(left) in _EXACT_TYPES, type(right) in _EXACT_TYPES
    if (left_is_exact and not left) or (right_is_exact and not right):
        return 0
    if left_is_exact and right_is_exact:
        return left * right
    if isinstance(left, Dual) or isinstance(right, Dual):
        return chain((left, right), lambda x: multiply(*x), lambda n, x: x[1 - n])
    return to_float(left) * to_float(right)


def power(base: Number, exponent: Number) -> Number:
    """``base**exponent``, exact for rational bases and integer exponents; ``0**0`` is 1."""
    if isinstance(base, Dual) or isinstance(exponent, Dual):
        return chain((base, exponent), lambda x: power(*x), _power_slope)
    if isinstance(exponent, EXACT) and exponent.denominator == 1:
        exponent = int(exponent)
        return Fraction(base) ** exponent if isinstance(base, EXACT) else base**exponent
    return to_float(CONTEXT.power(to_float(base), to_float(exponent)))


def _power_slope(n: int, arguments: Sequence[Number]) -> Number:
    base, exponent = arguments
    if n == 0:
        return 0 if is_exact_zero(exponent) else multiply(exponent, power(base, add(exponent, -1)))
    if compare(base, 0) == 0 and compare(exponent, 0) == 1:
        return 0  # the limit, where log(0) is infinite
    return multiply(power(base, exponent), logarithm(base))


_Function: TypeAlias = Callable[[Number], Number]


def _of_one(compute: _Function, slope: _Function) -> _Function:
    """A function of one number, by how its value is computed of a plain one, and by its derivative."""

    def function(number: Number) -> Number:
        if isinstance(number, Dual):
            return chain((number,), lambda x: function(x[0]), lambda n, x: slope(x[0]))
        return compute(number)

    return function


logarithm: _Function = _of_one(lambda x: to_float(CONTEXT.log(to_float(x))), lambda x: power(x, -1))
exponential: _Function = _of_one(lambda x: to_float(CONTEXT.exp(to_float(x))), lambda x: exponential(x))
absolute: _Function = _of_one(abs, lambda x: sign(x))
"""Of derivative 0 at 0."""


def sign(number: Number) -> Number:
    """-1, 0 or 1, of derivative 0."""
    return compare(number, 0)


def floor(number: Number) -> Number:
    """The greatest integer that is not greater, of derivative 0."""
    number = primal(number)
    return number.__floor__() if isinstance(number, EXACT) else int(CONTEXT.floor(number))


def modulo(left: Number, right: Number) -> Number:
    """``left - right*floor(left/right)``, the remainder with the sign of ``right``."""
    quotient = floor(multiply(primal(left), power(primal(right), -1)))
    return add(left, multiply(-quotient, right))


def heaviside(number: Number, at_zero: Number) -> Number:
    """The step function, of derivative 0."""
    return {-1: 0, 0: primal(at_zero), 1: 1}[compare(number, 0)]


def extremum(arguments: Sequence[Number], literal: Sequence[bool], direction: int) -> Number:
    """The largest argument (``direction`` 1) or the smallest (-1).

    Parameters
    ----------
    arguments : sequence of numbers
    literal : sequence of bool
        Which arguments are written as numbers: such a one wins a tie and leaves no derivative.
        Otherwise the tied arguments share the derivative equally.
    direction : {1, -1}
    """
    best = arguments[0]
    for argument in arguments[1:]:
        if compare(argument, best) == direction:
            best = argument
    tied = [n for n, argument in enumerate(arguments) if compare(argument, best) == 0]
    if len(tied) == 1:
        return best
    for n in tied:
        if literal[n]:
            return arguments[n]
    if not any(isinstance(arguments[n], Dual) for n in tied):
        return best
    total: Number = 0
    for n in tied:  # the mean of the differences, not of the values: a rounded mean would be none of them
        total = add(total, add(arguments[n], multiply(best, -1)))
    return add(best, multiply(total, Fraction(1, len(tied))))
