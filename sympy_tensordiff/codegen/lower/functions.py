"""Translation of SymPy's functions into operations of loop nests."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm, nan, pi, prod, sqrt
from typing import Any

import sympy
from sympy.codegen import cfunctions

from sympy_tensordiff.codegen.ir.scalars import External, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import rewrite_scalar
from sympy_tensordiff.codegen.lower.bessel import has_polynomial
from sympy_tensordiff.codegen.lower.special_functions import SPECIAL
from sympy_tensordiff.functions.table import reciprocals, record_of
from sympy_tensordiff.graph.functions import Partial, erfcx, erfcx_slope, log1mexp, log_ndtr, xlogy
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import times


def _inverse(name: str) -> Callable[..., Scalar]:
    """Return the function that makes the operation ``1/f(x)``, where f is the operation `name`."""
    return lambda x: Operation("pow", (Operation(name, (x,)), Number(-1)))


def _of_inverse(name: str) -> Callable[..., Scalar]:
    """Return the function that makes the operation ``f(1/x)``, where f is the operation `name`."""
    return lambda x: Operation(name, (Operation("pow", (x, Number(-1))),))


def _sinc(x: Scalar) -> Scalar:
    """Return the code expression ``sin(x)/x``, 1 at 0."""
    quotient = Operation("mul", (Operation("sin", (x,)), Operation("pow", (x, Number(-1)))))
    return Operation("select", (Operation("eq", (x, Number(0))), Number(1), quotient))


def _negative(x: Scalar) -> Scalar:
    """Return the code expression ``-x``."""
    return Operation("neg", (x,))


def _log1mexp(x: Scalar) -> Scalar:
    """Return ``log(1 - exp(-abs(x)))`` in two branches, which meet near ``log(2)`` (Mächler 2012)."""
    size = Operation("abs", (x,))
    near = Operation("log", (_negative(Operation("expm1", (_negative(size),))),))
    far = Operation("log1p", (_negative(Operation("exp", (_negative(size),))),))
    return Operation("select", (Operation("lt", (size, Number(Fraction(9, 13)))), near, far))


def _xlogy(x: Scalar, y: Scalar) -> Scalar:
    """Return the code expression ``x*log(y)``, 0 where x is 0."""
    product = Operation("mul", (x, Operation("log", (y,))))
    return Operation("select", (Operation("eq", (x, Number(0))), Number(0), product))


_ERFCX_TERMS = 20
"""The terms of the asymptotic series of `erfcx`: at 8, the next one is 1e-18."""


def _scaled_erfc(x: Scalar) -> Scalar:
    """Return a code expression for ``exp(x**2)*erfc(x)``, accurate for x up to 26; beyond, erfc underflows.

    The square of ``h``, which is `x` rounded down to a multiple of 1/64, is exact: ``exp(x**2)`` keeps its digits as
    ``exp(h**2)*exp((x - h)*(x + h))``.
    """
    return Operation("mul", (*_exponentials_of_square(x, 1), Operation("erfc", (x,))))


def _growing_erfc(x: Scalar) -> Scalar:
    """Return a code expression for ``exp(x**2)*erfc(x)`` as `_scaled_erfc` does, also for negative x of any size, where
    it is infinite: there, the second exponential alone would underflow.
    """
    bounded = Operation("max", (x, Number(-64)))
    return Operation("mul", (*_exponentials_of_square(bounded, 1), Operation("erfc", (x,))))


def _exponentials_of_square(x: Scalar, factor: int | Fraction) -> tuple[Scalar, Scalar]:
    """Return two code expressions whose product is ``exp(factor*x**2)``, without loss of digits:
    ``exp(factor*r**2)``, with r, x rounded down to a multiple of 1/64, and ``exp(factor*(x**2 - r**2))``.

    The square of r is exact.
    """
    rounded = Operation("mul", (Operation("floor", (Operation("mul", (x, Number(64))),)), Number(Fraction(1, 64))))
    rest = Operation("mul", (Operation("add", (x, _negative(rounded))), Operation("add", (x, rounded))))
    square = Operation("pow", (rounded, Number(2)))
    first, second = (Operation("mul", (Number(factor), one)) if factor != 1 else one for one in (square, rest))
    return Operation("exp", (first,)), Operation("exp", (second,))


def _erfcx(x: Scalar) -> Scalar:
    """Return a code expression for ``exp(x**2)*erfc(x)``; for x >= 8, it is a series (Abramowitz & Stegun 7.1.23)."""
    inverse_square = Operation("pow", (x, Number(-2)))
    series: Scalar = Number(1)
    for k in range(_ERFCX_TERMS, 0, -1):
        ratio = Operation("mul", (Number(Fraction(1 - 2 * k, 2)), inverse_square))
        series = Operation("add", (Number(1), Operation("mul", (ratio, series))))
    far = Operation("mul", (Number(1 / sqrt(pi)), Operation("pow", (x, Number(-1))), series))
    return Operation("select", (Operation("lt", (x, Number(8))), _growing_erfc(x), far))


_SLOPE_COEFFICIENTS = (
    0.94707145638506, 0.18020540678630967, -0.2559501707317058, 0.19201387828934505,
    -0.03861230465598306, -0.11265381672229867, 0.19236575562413225, -0.1877527362604918,
    0.13187072589935533, -0.06855136663884265, 0.024610748215662576, -0.0041822085325080235,
    -0.0012266261329011814, 0.0010087058782326883, -0.00017024104762655384, -9.190949943384314e-05,
    4.757197416543374e-05, 3.5778002549434703e-06, -7.928871552316633e-06, 6.717494570601861e-07,
    1.1247750545559513e-06, -2.4328295799952325e-07, -1.1051273205785477e-07, 4.059477102250149e-08,
    -1.0827666269720115e-09,
)  # fmt: skip
"""A polynomial in ``(x - 4)/(x + 4)`` for ``(1 + 2*x**2)*(1 - sqrt(pi)*x*erfcx(x))`` where ``x > 1/2``.

It interpolates at the 25 Chebyshev nodes, with an error of 1e-17.
"""


def _erfcx_slope(x: Scalar) -> Scalar:
    """Return a code expression for ``2*x*erfcx(x) - 2/sqrt(pi)``, the derivative of ``erfcx(x) = exp(x**2)*erfc(x)``.
    It is a polynomial where the two terms nearly cancel.
    """
    near = Operation("add", (Operation("mul", (Number(2), x, _growing_erfc(x))), Number(-2 / sqrt(pi))))
    place = Operation(
        "mul",
        (Operation("add", (x, Number(-4))), Operation("pow", (Operation("add", (x, Number(4))), Number(-1)))),
    )
    value: Scalar = Number(_SLOPE_COEFFICIENTS[-1])
    for coefficient in reversed(_SLOPE_COEFFICIENTS[:-1]):
        value = Operation("add", (Number(coefficient), Operation("mul", (place, value))))
    half = Operation("add", (Number(Fraction(1, 2)), Operation("pow", (x, Number(2)))))
    far = Operation("mul", (Number(-1 / sqrt(pi)), value, Operation("pow", (half, Number(-1)))))
    return Operation("select", (Operation("lt", (x, Number(Fraction(1, 2)))), near, far))


_TAIL_TERMS = 14
"""The terms of the asymptotic series of `log_ndtr`: at -10, the next one is 2e-14, and the value below -50."""


def _log_ndtr(x: Scalar) -> Scalar:
    """Return a code expression for the logarithm of the normal distribution function at ``x``: by ``erfc``, and below
    -10 by a series (Abramowitz & Stegun 26.2.12).
    """
    inverse_square = Operation("pow", (x, Number(-2)))
    series: Scalar = Number(0)
    for k in range(_TAIL_TERMS, 0, -1):
        ratio = Operation("mul", (Number(1 - 2 * k), inverse_square))
        series = Operation("mul", (ratio, Operation("add", (Number(1), series))))
    square = Operation("mul", (Number(Fraction(-1, 2)), Operation("pow", (x, Number(2)))))
    scaled = Operation("mul", (_negative(x), Number(sqrt(2 * pi))))
    tail = Operation("add", (square, _negative(Operation("log", (scaled,))), Operation("log1p", (series,))))
    below = Operation("erfc", (Operation("mul", (x, Number(-sqrt(0.5)))),))
    half = Fraction(1, 2)
    left: Scalar = Operation("log", (Operation("mul", (Number(half), below)),))
    # Beyond 37 the tail underflows, and the value is 0: a larger argument would only overflow.
    inside = Operation("mul", (Operation("min", (x, Number(37))), Number(sqrt(0.5))))
    above = Operation("mul", (Number(half), *_exponentials_of_square(x, -half), _scaled_erfc(inside)))
    right: Scalar = Operation("log1p", (_negative(above),))
    inner = Operation("select", (Operation("lt", (x, Number(0))), left, right))
    return Operation("select", (Operation("lt", (x, Number(-10))), tail, inner))


FORMULAS: dict[Any, Callable[..., Scalar]] = {
    **{function: _inverse(record_of(other).operation) for function, other in reciprocals().items()},
    sympy.asec: _of_inverse("arccos"),
    sympy.acsc: _of_inverse("arcsin"),
    sympy.acot: _of_inverse("arctan"),
    sympy.asech: _of_inverse("arccosh"),
    sympy.acsch: _of_inverse("arcsinh"),
    sympy.acoth: _of_inverse("arctanh"),
    sympy.sinc: _sinc,
    erfcx: _erfcx,
    erfcx_slope: _erfcx_slope,
    log1mexp: _log1mexp,
    log_ndtr: _log_ndtr,
    xlogy: _xlogy,
    sympy.frac: lambda x: Operation("add", (x, Operation("neg", (Operation("floor", (x,)),)))),
    sympy.factorial: lambda x: Operation("gamma", (Operation("add", (x, Number(1))),)),
    sympy.erf2: lambda x, y: Operation("add", (Operation("erf", (y,)), Operation("neg", (Operation("erf", (x,)),)))),
    cfunctions.exp2: lambda x: Operation("pow", (Number(2), x)),
    cfunctions.Sqrt: lambda x: Operation("pow", (x, Number(Fraction(1, 2)))),
    cfunctions.fma: lambda x, y, z: Operation("add", (Operation("mul", (x, y)), z)),
}


_LARGEST_EXPONENT = 16
"""Up to here, products are as exact as a general power for all that is asked of kernels."""


def has_root(exponent: Node) -> bool:
    """Return whether `root` computes ``x**exponent`` by square roots and products: for multiples of 1/4 that are not
    too large, except integers, 1/2 and -1/2, which backends have.
    """
    value = exponent.data if exponent.op == "const" else 0
    if not isinstance(value, Fraction) or abs(value) >= _LARGEST_EXPONENT:
        return False
    return value.denominator == 4 or (value.denominator == 2 and abs(value) > 1)


def root(base: Scalar, exponent: Fraction) -> Scalar:
    """Return ``base**exponent`` for an exponent that is a multiple of 1/4, as a product of an integer power of ``base``
    and its square roots: ``base*sqrt(base)``, ``1/sqrt(sqrt(base))``. This is faster than a general power.
    """
    whole, quarters = divmod(int(abs(exponent) * 4), 4)
    half = Operation("pow", (base, Number(Fraction(1, 2))))
    factors: list[Scalar] = [Operation("pow", (base, Number(whole)))] if whole else []
    factors += [half] if quarters & 2 else []
    factors += [Operation("pow", (half, Number(Fraction(1, 2))))] if quarters & 1 else []
    product = Operation("mul", tuple(factors)) if len(factors) > 1 else factors[0]
    return product if exponent > 0 else Operation("pow", (product, Number(-1)))


def rational_form(node: Node) -> tuple[Affine, int] | None:
    """Return ``(numerator, denominator)`` if `node` is an expression of indices with rational coefficients: ``(i + 1,
    2)`` for ``(i + 1)/2``. None for other nodes.
    """
    if node.op == "index":
        return node.data, 1
    if node.op == "const" and isinstance(node.data, int | Fraction):
        return Affine.of(node.data.numerator), node.data.denominator
    if node.op not in ("add", "mul"):
        return None
    found = [form for arg in node.args if (form := rational_form(arg)) is not None]
    if len(found) < len(node.args):
        return None
    if node.op == "mul":
        return times(*(form for form, _ in found)), prod(below for _, below in found)
    common = lcm(*(below for _, below in found))
    return sum((form * (common // below) for form, below in found), Affine()), common


def is_external(node: Node) -> bool:
    """Return whether `node` calls a function that no backend implements; the user or SciPy must supply it."""
    if node.op != "call":
        return False
    known = node.data in FORMULAS or is_spherical_bessel(node) or has_polynomial(node)
    return not record_of(node.data).operation and not known


def is_user_function(node: Node) -> bool:
    """Return whether `node` calls a function that only the user can supply; it may raise, or take very long, at
    arguments that a condition excludes. Functions of SciPy's do neither.
    """
    return is_external(node) and not external(node).is_special


def is_spherical_bessel(node: Node) -> bool:
    """Return whether `node` is a spherical Bessel function whose order is a natural number."""
    if node.data is not sympy.jn or node.args[0].op != "const":
        return False
    order = node.args[0].data
    return isinstance(order, int | Fraction) and order.denominator == 1 and order >= 0


def _chosen(value: Scalar) -> Scalar:
    """Return the branch that `value` chooses if it is a select whose test compares two numbers, as in the formula of
    ``log_ndtr(0)``: the other branch may divide by 0, which Python refuses. Other values are unchanged.
    """
    if not isinstance(value, Operation) or value.function != "select" or not isinstance(value.arguments[0], Operation):
        return value
    test = value.arguments[0]
    numbers = [side.value for side in test.arguments if isinstance(side, Number)]
    if len(numbers) < 2 or test.function not in ("lt", "le", "eq", "ne"):
        return value
    return value.arguments[1 if getattr(operator, str(test.function))(*numbers) else 2]


def external(node: Node) -> External:
    """Return the function that the call `node` needs from the user or SciPy: its name and the orders of its
    derivatives.
    """
    derivative = node.data if isinstance(node.data, Partial) else Partial(node.data, (0,) * len(node.args))
    is_special = not any(derivative.orders) and (derivative.function, len(derivative.orders)) in SPECIAL
    return External(str(derivative.function.__name__), derivative.orders, is_special)


def operation(node: Node, args: Sequence[Scalar]) -> Scalar:
    """Return the scalar expression for `node` (arithmetic, a condition or a call) with the arguments `args`. A function
    unknown to backends becomes a user function.
    """
    if node.op == "call":
        name = record_of(node.data).operation
        if name:
            return Operation(name, tuple(args))
        if is_spherical_bessel(node):
            return Operation("spherical_bessel", tuple(args))
        if node.data in FORMULAS:
            formula = FORMULAS[node.data](*args)
            return rewrite_scalar(formula, _chosen) if any(isinstance(arg, Number) for arg in args) else formula
        return Operation(external(node), tuple(args))
    if node.op == "pow" and args[0] == Number(0) and isinstance(args[1], Number) and args[1].value < 0:
        return Number(nan)  # of an empty sum, say; Python itself would raise
    return Operation(node.data if node.op == "compare" else node.op, tuple(args))
