"""Truncated power series of entries about 0, with exact coefficients.

A series ``t**order*(c[0] + c[1]*t + c[2]*t**2 + ...)`` is known up to its last coefficient; ``c[0]`` is not 0. Series
of functions follow from their differential equations, coefficient by coefficient.

Source: Knuth, *The Art of Computer Programming*, volume 2, section 4.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any, NamedTuple

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.functions.table import reciprocals, record_of
from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Node

Coefficients = Sequence[Fraction]


class Series(NamedTuple):
    """A truncated Laurent series ``t**order*(c[0] + c[1]*t + ...)`` with rational coefficients ``c``.

    ``terms_order`` is the order of its terms before they cancel: 0 for ``exp(t) - 1``, whose order is 1.
    """

    order: int
    coefficients: Coefficients
    terms_order: int


def monomial(node: Node, bases: Mapping[Node, Number]) -> tuple[Number, int] | None:
    """Return ``(c, k)`` for a `node` that is ``c*t**k`` with a number c; None for other nodes. The variable ``t`` is
    given by `bases`, a dictionary from bases to exponents: ``{x: 1, y: -1}`` for ``t = x/y``.
    """
    coefficient: Number = 1
    orders: dict[Node, Fraction] = {}
    for factor in node.args if node.op == "mul" else (node,):
        if factor.op == "const" and isinstance(factor.data, int | Fraction):
            coefficient *= factor.data
            continue
        is_power = factor not in bases and factor.op == "pow" and factor.args[1].op == "const"
        base, exponent = (factor.args[0], factor.args[1].data) if is_power else (factor, 1)
        if base not in bases or not isinstance(exponent, int | Fraction):
            return None
        orders[base] = Fraction(exponent) / Fraction(bases[base])
    order = next(iter(orders.values()), Fraction(1, 2))
    if len(orders) < len(bases) or order.denominator != 1 or any(other != order for other in orders.values()):
        return None
    return coefficient, int(order)


def series_of(
    node: Node, bases: Mapping[Node, Number], length: int, memo: dict[Node, Series | None] | None = None
) -> Series | None:
    """Return the power series of the scalar `node` in ``t`` about 0, with `length` coefficients; None if it is not
    known. The variable ``t`` is given by `bases`, a dictionary from bases to exponents: ``{x: 1, y: -1}`` for
    ``t = x/y``.

    It is computed with `length` coefficients, of which fewer may remain if terms cancel. `node` has no free variables
    but ``t``. `memo` caches the series of nodes for the same `bases` and `length`.
    """
    memo = {} if memo is None else memo

    def visit(part: Node) -> Series | None:
        """Return the power series of `part`, computed once and cached in `memo`; None if it is not known."""
        if part not in memo:
            memo[part] = read(part)
        return memo[part]

    def read(part: Node) -> Series | None:
        """Return the first ``length`` terms of the power series of `part`, from the series of its arguments; None if
        one is not known.
        """
        if (power := monomial(part, bases)) is not None:
            return _monomial(Fraction(power[0]), power[1], length)
        if part.op == "const":
            exact = isinstance(part.data, int | Fraction) and part.data != 0
            return _monomial(Fraction(part.data), 0, length) if exact else None
        if part.op not in ("add", "mul", "pow", "call") or (part.op == "call" and part.data not in _SERIES):
            return None
        if part.op == "pow":
            return _power_of(part, visit)
        args = [visit(arg) for arg in part.args]
        found = [arg for arg in args if arg is not None]
        if len(found) < len(args):
            return None
        if part.op == "call" and (other := record_of(part.data).reciprocal_of) is not None:
            below = _call(other, found[0], length)
            return None if below is None else _raised(below, Fraction(-1))
        if part.op == "call":
            return _call(part.data, found[0], length)
        return total(found) if part.op == "add" else product(found, length)

    return visit(node)


def _monomial(factor: Fraction, order: int, length: int) -> Series:
    """Return the power series of ``factor*t**order`` with `length` coefficients: `factor`, and zeros after it."""
    return Series(order, [factor] + [Fraction(0)] * (length - 1), order)


def _power_of(part: Node, visit: Callable[[Node], Series | None]) -> Series | None:
    """Return the series of the power `part`; ``visit(base)`` returns the series of its base. None unless its exponent
    is rational and its base has a series.
    """
    base, exponent = part.args
    if exponent.op != "const" or not isinstance(exponent.data, int | Fraction):
        return None
    found = visit(base)
    return None if found is None else _raised(found, Fraction(exponent.data))


def _raised(found: Series, power: Fraction) -> Series | None:
    """Return the series ``found**power``. Return None for a fractional `power` if the first coefficient is not 1, or if
    the result is not a series: ``(t**2)**(1/2)`` is ``abs(t)``.

    A root has no series if its sign depends on the sign of ``t``: ``(t**2)**(1/2)`` is ``abs(t)``.
    """
    if (found.order * power).denominator != 1:
        return None
    if power.denominator != 1 and (found.order % 2 or found.order * power % 2):
        return None
    first = found.coefficients[0]
    if power.denominator != 1 and first != 1:
        return None
    scale = first ** int(power) if power.denominator == 1 else Fraction(1)
    loss = found.order - found.terms_order
    order = int(found.order * power)
    unit = [c / first for c in found.coefficients]
    return Series(order, [scale * c for c in _power(unit, power)], order - loss)


def total(args: Sequence[Series]) -> Series | None:
    """Return the sum of the series `args`; None if all known coefficients cancel."""
    if len(args) == 1:
        return args[0]
    lowest = min(arg.order for arg in args)
    end = min(arg.order + len(arg.coefficients) for arg in args)
    added = [Fraction(0)] * max(end - lowest, 0)
    for arg in args:
        for k, c in enumerate(arg.coefficients[: max(end - arg.order, 0)]):
            if c:
                added[arg.order - lowest + k] += c
    first = next((k for k, c in enumerate(added) if c), None)
    terms = min(arg.terms_order for arg in args)
    return None if first is None else Series(lowest + first, added[first:], terms)


def product(args: Sequence[Series], length: int) -> Series:
    """Return the product of the series `args`; the series of 1 with `length` coefficients if there are none."""
    result = args[0] if args else _monomial(Fraction(1), 0, length)
    for arg in args[1:]:
        coefficients = _times(result.coefficients, arg.coefficients)
        result = Series(result.order + arg.order, coefficients, result.terms_order + arg.terms_order)
    return result


def shifted(series: Series, order: int) -> Series:
    """Return ``t**order`` times `series`."""
    return Series(series.order + order, series.coefficients, series.terms_order + order)


def _call(function: Any, arg: Series, length: int) -> Series | None:
    """Return the first ``length`` terms of the series of ``function(arg)``. None if the series `arg` is not 0 at 0 (1
    for the logarithm), or if all these terms are 0.
    """
    inner: list[Fraction] = [*[Fraction(0)] * max(arg.order, 0), *arg.coefficients][:length]
    if function is sympy.log:
        if arg.order != 0 or inner[0] != 1:
            return None
        inner[0] = Fraction(0)
    elif arg.order < 1:
        return None
    values = _FUNCTIONS[function](inner)
    first = next((k for k, c in enumerate(values) if c), None)
    if first is None:
        return None
    loses = function is sympy.log
    return Series(first, values[first:], 0 if loses or first == 0 else first - (arg.order - arg.terms_order))


# ---------------------------------------------------------------------------- coefficients


def _numerators(a: Coefficients) -> tuple[list[int], int]:
    """Return ``(numerators, denominator)`` of the coefficients `a` over their common denominator. Sums of products are
    then computed with integers, which is faster than with fractions.
    """
    denominator = lcm(*(c.denominator for c in a))
    return [c.numerator * (denominator // c.denominator) for c in a], denominator


def _times(a: Coefficients, b: Coefficients) -> list[Fraction]:
    """Return the coefficients of the product of the series `a` and `b`, as many as the shorter of them has."""
    size = min(len(a), len(b))
    (left, below), (right, other) = _numerators(a[:size]), _numerators(b[:size])
    result = [0] * size
    for i in range(size):
        if left[i]:
            for j in range(size - i):
                result[i + j] += left[i] * right[j]
    return [Fraction(c, below * other) for c in result]


def _power(a: Coefficients, power: Fraction) -> list[Fraction]:
    """Return the coefficients of ``a**power`` for a series `a` with ``a[0] == 1``."""
    return list(_power_of_unit(tuple(a), power))


@lru_cache(maxsize=256)
def _power_of_unit(a: tuple[Fraction, ...], power: Fraction) -> tuple[Fraction, ...]:
    """Return the coefficients of ``a**power`` for a series `a` with ``a[0] == 1``, from a cache if possible: functions
    of different variables often have equal series.
    """
    if power.denominator == 1:
        return tuple(_integer_power(a, int(power)))
    others = [k for k in range(1, len(a)) if a[k]]
    result = [Fraction(1)]
    for n in range(1, len(a)):
        terms = [(k, result[n - k]) for k in others if k <= n]
        parts = [(power * k - (n - k)) * (a[k] * value) for k, value in terms if value]
        result.append(sum(parts, Fraction(0)) / n)
    return tuple(result)


def _integer_power(a: Coefficients, power: int) -> list[Fraction]:
    """Return the coefficients of ``a**power`` for a series `a` with ``a[0] == 1`` and an integer `power`. All
    intermediate results are integers, which is faster than with fractions.

    It is the recurrence of `_power`: with a denominator d of all ``a[k]``, coefficient n of the power is an integer
    over ``d**n``.
    """
    numerators, below = _numerators(a)
    scaled = [c * below ** max(k - 1, 0) for k, c in enumerate(numerators)]  # a[k]*d**k
    result = [1]
    for n in range(1, len(a)):
        parts = [(power * k - (n - k)) * scaled[k] * result[n - k] for k in range(1, n + 1) if scaled[k]]
        result.append(sum(parts) // n)
    return [Fraction(c, below**n) for n, c in enumerate(result)]


def _derivative(a: Coefficients) -> list[Fraction]:
    """Return the coefficients of the derivative of the series `a`."""
    return [k * c for k, c in enumerate(a)][1:]


def _integral(a: Coefficients) -> list[Fraction]:
    """Return the coefficients of the integral of the series `a` from 0."""
    return [Fraction(0), *(c / (k + 1) for k, c in enumerate(a))]


def _exp(a: Coefficients) -> list[Fraction]:
    """Return the coefficients of ``exp(a)`` for a series `a` with ``a[0] == 0``."""
    result = [Fraction(1)]
    for n in range(1, len(a)):
        result.append(sum((k * a[k] * result[n - k] for k in range(1, n + 1) if a[k]), Fraction(0)) / n)
    return result


def _circular(a: Coefficients, sign: int) -> tuple[list[Fraction], list[Fraction]]:
    """Return the coefficients of ``(sin(a), cos(a))`` for ``sign=-1``, and of ``(sinh(a), cosh(a))`` for ``sign=1``.
    The first coefficient of `a` must be 0.
    """
    sine, cosine = [Fraction(0)], [Fraction(1)]
    for n in range(1, len(a)):
        sine.append(sum((k * a[k] * cosine[n - k] for k in range(1, n + 1) if a[k]), Fraction(0)) / n)
        cosine.append(sign * sum((k * a[k] * sine[n - k] for k in range(1, n + 1) if a[k]), Fraction(0)) / n)
    return sine, cosine


def _quotient(a: Coefficients, b: Coefficients) -> list[Fraction]:
    """Return the coefficients of ``a/b`` for series with ``b[0] == 1``."""
    return _times(a, _power(b, Fraction(-1)))


def _inverse_function(sign: int, power: Fraction) -> Callable[[Coefficients], list[Fraction]]:
    """Return the function that maps the coefficients of `a` to those of ``f(a)``, for f with ``f(0) = 0`` and
    ``f'(x) = (1 + sign*x**2)**power``. Inverse trigonometric and inverse hyperbolic functions have this form.
    """

    def of(a: Coefficients) -> list[Fraction]:
        """Return the coefficients of ``f(a)``, where `a` is a power series without constant term, and the derivative of
        ``f`` is ``(1 + sign*x**2)**power``, as for the arcsine.
        """
        square = [sign * c for c in _times(a, a)]
        square[0] += 1
        return _integral(_times(_derivative(a), _power(square, power)[: len(a) - 1]))

    return of


def _log1p(a: Coefficients) -> list[Fraction]:
    """Return the coefficients of ``log(1 + a)``."""
    return _integral(_quotient(_derivative(a), [a[0] + 1, *a[1:]][: len(a) - 1]))


def _expm1(a: Coefficients) -> list[Fraction]:
    """Return the coefficients of ``exp(a) - 1``."""
    return [Fraction(0), *_exp(a)[1:]]


class ErrorIntegral(sympy.Function):  # type: ignore[misc]
    """The function ``sqrt(pi)*erf(x)``, the integral of ``2*exp(-t**2)`` from 0 to x, whose series has rational
    coefficients.
    """


def _error_integral(a: Coefficients) -> list[Fraction]:
    """Return the coefficients of ``sqrt(pi)*erf(a)``, which is `ErrorIntegral`."""
    slopes = _times(_derivative(a), _exp([-c for c in _times(a, a)])[: len(a) - 1])
    return [2 * c for c in _integral(slopes)]


def _sigmoid(a: Coefficients) -> list[Fraction]:
    """Return the power series coefficients of ``1/(1 + exp(-a))``, where ``a`` is a power series given by its
    coefficients.
    """
    below = [c / 2 for c in _exp([-c for c in a])]
    below[0] += Fraction(1, 2)
    return [c / 2 for c in _power(below, Fraction(-1))]


_FUNCTIONS: dict[Any, Callable[[Coefficients], list[Fraction]]] = {
    sympy.exp: _exp,
    expm1: _expm1,
    sympy.log: _log1p,
    log1p: _log1p,
    sympy.sin: lambda a: _circular(a, -1)[0],
    sympy.cos: lambda a: _circular(a, -1)[1],
    sympy.tan: lambda a: _quotient(*_circular(a, -1)),
    sympy.sinh: lambda a: _circular(a, 1)[0],
    sympy.cosh: lambda a: _circular(a, 1)[1],
    sympy.tanh: lambda a: _quotient(*_circular(a, 1)),
    sympy.asin: _inverse_function(-1, Fraction(-1, 2)),
    sympy.asinh: _inverse_function(1, Fraction(-1, 2)),
    sympy.atan: _inverse_function(1, Fraction(-1)),
    sympy.atanh: _inverse_function(-1, Fraction(-1)),
    sigmoid: _sigmoid,
    ErrorIntegral: _error_integral,
}
"""The functions with known series; the logarithm of ``1 + a`` is given ``a``."""

_SERIES = frozenset((*_FUNCTIONS, *reciprocals()))

KNOWN = _SERIES | {sympy.erf}
"""All functions with known series, the error function up to a factor."""
