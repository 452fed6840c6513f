"""Products, quotients and logarithms of functions that overflow or underflow, although the result does not.

For entries, which are real numbers::

    log(expm1(u))                   u + log1p(-exp(-u))                     where u > 1
    log(sinh(u))                    u - log(2) + log1p(-exp(-2*u))          where u > 1
    log(1 + u)                      log1p(u)                                where u has no exponential
    log(1 - exp(u))                 log(-expm1(u)) where u > -log(2), else log1p(-exp(u))
    log(erfc(u))                    log1p(-erf(u)) where u < 1/2, else log(erfcx(u)) - u**2
    log(erfc(u)/2)                  log1p(-erfc(-u)/2) where u < 1/2, else log(erfcx(u)/2) - u**2
    log(tanh(u))                    log1p(-2*sigmoid(-2*u))                 where u > 1/2
    log(gamma(u))                   loggamma(u)                             where u > 0
    log(tan(pi/4 + u))              asinh(tan(2*u))
    log(u + sqrt(u**2 + 1))         asinh(u), also acosh(u) with -1
    log(besseli(0, u))              log1p(besseli(0, u) - 1) by its series  where abs(u) < 1
    log(besseli(m, u))              abs(u) + log(exp(-abs(u))*besseli(m, u))
    besseli(m, u)/besseli(n, u)     both with the factor exp(-abs(u))
    exp(v)*besseli(m, u)            exp(v + abs(u)) * exp(-abs(u))*besseli(m, u)
    exp(u)/expm1(u)**n              -1/expm1(-u)/expm1(u)**(n - 1)
    (exp(u) + 1)/expm1(u)**n        1/tanh(u/2)/expm1(u)**(n - 1)
    cosh(u)/sinh(u)**n              1/tanh(u)/sinh(u)**(n - 1)
    exp(u**2)*erfc(u)               erfcx(u), also exp(-u**2)/erfc(u) and other powers
    2*u*erfcx(u) - 2/sqrt(pi)       by a polynomial for large u: it is the derivative of erfcx
    erfcx_slope(u)/erfcx(u)         2*u - 2/(sqrt(pi)*erfcx(u)) where u < 0
    u*erfc(u) - exp(-u**2)/sqrt(pi) exp(-u**2)/2 times the same             where u > 1/2

Source: *NIST Digital Library of Mathematical Functions*, sections 7.12 and 10.25.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import factorial
from typing import Any

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.graph.functions import erfcx, erfcx_slope, scaled_besseli, sigmoid
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.nearby import log_of_quotient

_HALF = Fraction(1, 2)

BRANCH = Fraction(-9, 13)
"""About ``-log(2)``: above it ``expm1`` keeps the digits of ``1 - exp(u)``, below it ``log1p`` those of the log."""

_BESSEL_TERMS = 10
"""The terms of the series of ``besseli(0, u) - 1``: at 1, the next one is 1e-20 of the sum."""


def is_call(node: Node, function: Any) -> bool:
    """Return whether `node` is a call of `function`."""
    return node.op == "call" and node.data is function


# ---------------------------------------------------------------------------- logarithms


def _log_of_growing(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(argument)`` in a form that cannot overflow, for functions with a rule in this module, such as
    ``sinh`` or ``gamma``; None for others.
    """
    if argument.op == "select":  # a sum with its form for negative u
        argument = argument.args[2]
    if argument.op == "add":
        return _area_function(graph, argument)
    if argument.op != "call":
        return None
    if argument.data is sympy.besseli:
        return _log_of_bessel(graph, *argument.args)
    u, direct = argument.args[0], graph.call(sympy.log, (argument,))
    if argument.data is sympy.tan:
        return _log_of_tangent(graph, u)
    if argument.data is sympy.gamma:
        return graph.select(graph.compare("lt", graph.zero, u), graph.call(sympy.loggamma, (u,)), direct)
    if argument.data is sympy.tanh:
        rest = graph.call(sigmoid, (graph.scale(-2, u),))
        return _beyond(graph, u, _HALF, graph.call(log1p, (graph.scale(-2, rest),)), direct)
    if argument.data is expm1:
        return _beyond(graph, u, 1, graph.add((u, _log_of_complement(graph, graph.neg(u)))), direct)
    if argument.data is sympy.sinh:
        log_2 = graph.call(sympy.log, (graph.const(2),))
        far = graph.add((u, graph.neg(log_2), _log_of_complement(graph, graph.scale(-2, u))))
        return _beyond(graph, u, 1, far, direct)
    return None


def _log_of_tangent(graph: Graph, u: Node) -> Node | None:
    """Return ``log(tan(u))`` as ``asinh(tan(2*v))`` for the argument ``u = pi/4 + v``, where the tangent is close to 1
    for small v; None for other arguments.
    """
    quarter = graph.scale(Fraction(1, 4), graph.scalar(sympy.pi))
    if u.op != "add" or quarter not in u.args:
        return None
    double = graph.scale(2, graph.add([arg for arg in u.args if arg is not quarter]))
    return graph.call(sympy.asinh, (graph.call(sympy.tan, (double,)),))


def _beyond(graph: Graph, u: Node, start: Number, far: Node, near: Node) -> Node:
    """Return a choice with the value `far` where ``u > start`` and `near` elsewhere."""
    return graph.select(graph.compare("lt", graph.const(start), u), far, near)


def _log_of_complement(graph: Graph, u: Node) -> Node:
    """Return ``log1p(-exp(u))``."""
    return graph.call(log1p, (graph.neg(graph.call(sympy.exp, (u,))),))


def _area_function(graph: Graph, argument: Node) -> Node | None:
    """Return ``asinh(u)`` for the argument ``u + sqrt(u**2 + 1)`` of a logarithm, ``acosh(u)`` for ``u + sqrt(u**2 -
    1)``; None for other arguments.
    """
    if len(argument.args) != 2:
        return None
    for u, root in (argument.args, argument.args[::-1]):
        if root.op == "pow" and root.args[1].op == "const" and root.args[1].data == _HALF:
            rest = graph.add((root.args[0], graph.neg(graph.pow(u, graph.const(2)))))
            if rest.op == "const" and rest.data in (1, -1):
                return graph.call(sympy.asinh if rest.data == 1 else sympy.acosh, (u,))
    return None


def _log_of_erfc(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(argument)`` for ``erfc(u)`` or ``erfc(u)/2``, without underflow for large ``u``; None for other
    arguments.
    """
    factor, base = graph.split_coefficient(argument)
    if not is_call(base, sympy.erfc) or factor not in (1, _HALF):
        return None
    (u,) = base.args
    rest = graph.call(sympy.erf, (u,)) if factor == 1 else graph.scale(_HALF, graph.call(sympy.erfc, (graph.neg(u),)))
    near = graph.call(log1p, (graph.neg(rest),))
    scaled = graph.scale(factor, graph.call(erfcx, (u,)))
    far = graph.add((graph.call(sympy.log, (scaled,)), graph.neg(graph.pow(u, graph.const(2)))))
    return graph.select(graph.compare("lt", u, graph.const(_HALF)), near, far)


def _log_of_negative_expm1(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(1 - exp(u))`` for the argument ``-expm1(u)``, accurate for small and large ``-u``; None for other
    arguments.
    """
    factor, base = graph.split_coefficient(argument)
    if factor != -1 or not is_call(base, expm1):
        return None
    (u,) = base.args
    far = graph.call(log1p, (graph.neg(graph.call(sympy.exp, (u,))),))
    return graph.select(graph.compare("lt", graph.const(BRANCH), u), graph.call(sympy.log, (argument,)), far)


def _log_near_1(graph: Graph, argument: Node) -> Node | None:
    """Return ``log1p(u)`` for the argument ``1 + u``; None for other arguments, or if ``u`` contains an exponential."""
    if argument.op != "add" or graph.one not in argument.args or has_exponential(argument):
        return None
    return graph.call(log1p, (graph.add([arg for arg in argument.args if arg is not graph.one]),))


LOGARITHMS = {
    "log(erfc(u))": _log_of_erfc,
    "log(1 - exp(u))": _log_of_negative_expm1,
    "log(f(u)) for large f(u)": _log_of_growing,
    "log(a/b)": log_of_quotient,
    "log(1 + u)": _log_near_1,
}
"""The rules of logarithms, by the names that `.plan` shows."""


def has_exponential(node: Node) -> bool:
    """Return whether an exponential occurs in `node`: the logarithm of `node` is then computed from its largest
    exponent.
    """
    return any(part.op == "call" and part.data is sympy.exp for part in reachable(node))


# ---------------------------------------------------------------------------- Bessel functions


def _log_of_bessel(graph: Graph, order: Node, u: Node) -> Node:
    """Return ``log(besseli(order, u))`` in a form that neither overflows for large ``u`` nor loses digits near 0."""
    size = graph.call(sympy.Abs, (u,))
    far = graph.add((size, graph.call(sympy.log, (graph.call(scaled_besseli, (order, u)),))))
    if order is not graph.zero:
        return far
    square = graph.scale(Fraction(1, 4), graph.pow(u, graph.const(2)))
    series = graph.zero
    for k in range(_BESSEL_TERMS, 0, -1):
        series = graph.mul((square, graph.add((graph.const(Fraction(1, factorial(k) ** 2)), series))))
    return graph.select(graph.compare("lt", size, graph.one), graph.call(log1p, (series,)), far)


def with_scaled_bessel(graph: Graph, product: Node) -> Node:
    """Return `product` with each Bessel function replaced by ``exp(abs(u))`` times the exponentially scaled one, which
    does not overflow. Return it unchanged unless these exponentials cancel or join another exponential in it.
    """
    factors = graph.factors(product)
    found = next((part for part in map(_bessel_in, factors) if part is not None), None)
    if found is None:
        return product
    u = found.args[1]
    new, degree = [], Fraction(0)
    for factor in factors:
        scaled, own = _scaled(graph, factor, u)
        new.append(scaled)
        degree += own
    exponential = next((factor for factor in factors if is_call(factor, sympy.exp)), None)
    if degree == 0:
        return graph.mul(new)
    if exponential is None:
        return product
    size = graph.mul((graph.const(degree if degree.denominator > 1 else int(degree)), graph.call(sympy.Abs, (u,))))
    exponent = graph.add((exponential.args[0], size))
    return graph.mul((*(part for part in new if part is not exponential), graph.call(sympy.exp, (exponent,))))


def _bessel_in(factor: Node) -> Node | None:
    """Return the Bessel function in `factor`: itself, the base of a power, or one in a sum of multiples; None if there
    is none.
    """
    if is_call(factor, sympy.besseli):
        return factor
    if factor.op in ("pow", "add", "mul"):
        return next((part for part in factor.args if is_call(part, sympy.besseli)), None) or next(
            (part for term in factor.args if term.op == "mul" for part in term.args if is_call(part, sympy.besseli)),
            None,
        )
    return None


def _scaled(graph: Graph, factor: Node, u: Node) -> tuple[Node, Fraction]:
    """Return ``(new factor, p)`` for `factor` with its Bessel functions of `u` replaced by scaled ones, so that
    ``factor = new factor*exp(abs(u))**p``.
    """
    if is_call(factor, sympy.besseli) and factor.args[1] is u:
        return graph.call(scaled_besseli, factor.args), Fraction(1)
    if factor.op == "pow" and factor.args[1].op == "const" and isinstance(factor.args[1].data, int | Fraction):
        base, degree = _scaled(graph, factor.args[0], u)
        return (graph.pow(base, factor.args[1]), degree * factor.args[1].data) if degree else (factor, Fraction(0))
    if factor.op == "mul":
        parts = [_scaled(graph, part, u) for part in factor.args]
        return graph.mul([part for part, _ in parts]), sum((degree for _, degree in parts), Fraction(0))
    if factor.op == "add":
        parts = [_scaled(graph, part, u) for part in factor.args]
        degrees = {degree for _, degree in parts}
        if len(degrees) == 1 and degrees != {0}:
            return graph.add([part for part, _ in parts]), degrees.pop()
    return factor, Fraction(0)


# ---------------------------------------------------------------------------- error functions


def with_scaled_erfc(graph: Graph, product: Node) -> Node:
    """Return ``exp(p*u**2 + rest)*erfc(u)**p`` as ``exp(rest)*erfcx(u)**p``, which neither overflows nor underflows;
    another product unchanged.
    """
    exponential = next((factor for factor in product.args if is_call(factor, sympy.exp)), None)
    if exponential is None:
        whole = _with_exponential_outside(graph, product)
        return product if whole is product else with_scaled_erfc(graph, whole)
    others = [factor for factor in product.args if factor is not exponential]
    for factor in others:
        base, power = factor.args if factor.op == "pow" else (factor, graph.one)
        if is_call(base, sympy.erfc):
            square = graph.mul((power, _square(graph, base.args[0])))
            exponent = exponential.args[0]
            terms = exponent.args if exponent.op == "add" else (exponent,)
            if any(map(partial(_contains_square, graph, square), terms)):
                rest = graph.add((exponent, graph.neg(square)))
                scaled = graph.pow(graph.call(erfcx, base.args), power)
                left = graph.one if rest is graph.zero else graph.call(sympy.exp, (rest,))
                new = graph.mul((*(f for f in others if f is not factor), scaled, left))
                return with_scaled_erfc(graph, new) if new.op == "mul" else new
    return _distributed(graph, product, exponential, others)


def _contains_square(graph: Graph, square: Node, term: Node) -> bool:
    """Return whether `term` is `square` times a number that is at least 1: ``2*u**2`` contains ``u**2``."""
    (own, base), (factor, other) = graph.split_coefficient(square), graph.split_coefficient(term)
    return base is other and Fraction(factor) / Fraction(own) >= 1


def _with_exponential_outside(graph: Graph, product: Node) -> Node:
    """Return a product of ``erfc`` and a sum whose terms have a common exponential, with this exponential in front of
    the sum; another product unchanged.
    """
    if not any(is_call(part, sympy.erfc) for factor in product.args for part in (factor, *factor.args[:1])):
        return product
    for total in (factor for factor in product.args if factor.op == "add"):
        terms = [graph.factors(term) for term in total.args]
        shared = [part for part in terms[0] if is_call(part, sympy.exp) and all(part in own for own in terms)]
        if shared:
            rest = graph.add([graph.mul([part for part in own if part is not shared[0]]) for own in terms])
            return graph.mul((*(factor for factor in product.args if factor is not total), shared[0], rest))
    return product


def _square(graph: Graph, u: Node) -> Node:
    """Return ``u**2``; for a square root ``u = sqrt(v)`` that is ``v``."""
    is_root = u.op == "pow" and u.args[1].op == "const" and u.args[1].data == _HALF
    return u.args[0] if is_root else graph.pow(u, graph.const(2))


def _distributed(graph: Graph, product: Node, exponential: Node, others: Sequence[Node]) -> Node:
    """Return `product` with its factor `exponential` multiplied into a sum with terms in ``erfc``, if the exponential
    then cancels in every term; otherwise `product` unchanged. `others` are the remaining factors.
    """
    for factor in others:
        if factor.op == "add" and any(is_call(part, sympy.erfc) for term in factor.args for part in (term, *term.args)):
            terms = [with_scaled_erfc(graph, _joined_exponentials(graph, exponential, term)) for term in factor.args]
            if not any(exponential in (term, *term.args) for term in terms):
                return graph.mul((*(f for f in others if f is not factor), with_slopes(graph, graph.add(terms))))
    return product


def _joined_exponentials(graph: Graph, exponential: Node, term: Node) -> Node:
    """Return ``exponential*term``, where an exponential in `term` is joined with the other one: ``exp(a)*exp(b)`` is
    ``exp(a + b)``.
    """
    for factor in graph.factors(term):
        if is_call(factor, sympy.exp):
            exponent = graph.add((exponential.args[0], factor.args[0]))
            exponential = graph.one if exponent is graph.zero else graph.call(sympy.exp, (exponent,))
            return graph.mul((exponential, *(other for other in graph.factors(term) if other is not factor)))
    return graph.mul((exponential, term))


def integral_of_erfc(graph: Graph, total: Node) -> Node | None:
    """Return the addition ``total`` with ``c*u*erfc(u) - c*exp(-u**2)/sqrt(pi)``, whose terms nearly cancel for large
    u, replaced by one term with the function `erfcx_slope`; None for other additions.

    Expected improvements and prices of options have it, as ``x*Phi(x) + phi(x)`` of a normal distribution.
    """
    for term in total.args:
        tail = next((part for part in graph.factors(term) if is_call(part, sympy.erfc)), None)
        if tail is None:
            continue
        (u,) = tail.args
        outside = graph.mul([part for part in graph.factors(term) if part is not tail])
        c = graph.mul((outside, graph.pow(u, graph.const(-1))))
        density = graph.call(sympy.exp, (graph.neg(graph.pow(u, graph.const(2))),))
        for other in total.args:
            if other is not term and density in graph.factors(other):
                pi = graph.scalar(sympy.pi)
                ratio = graph.mul(
                    (other, graph.pow(graph.mul((c, density)), graph.const(-1)), graph.pow(pi, graph.const(_HALF)))
                )
                if ratio is graph.const(-1):
                    slope = graph.scale(_HALF, graph.mul((c, density, graph.call(erfcx_slope, (u,)))))
                    is_far = graph.compare("lt", graph.const(_HALF), u)
                    rest = [arg for arg in total.args if arg is not term and arg is not other]
                    return graph.add((*rest, graph.select(is_far, slope, graph.add((term, other)))))
    return None


def with_slopes(graph: Graph, total: Node) -> Node:
    """Return the sum ``total`` with ``2*c*u*erfcx(u)**p - 2*c*erfcx(u)**(p - 1)/sqrt(pi)``, whose terms nearly cancel,
    replaced by one term with the function `erfcx_slope`; another sum unchanged.

    Beside a negative power of ``erfcx(u)`` the slope has the form of `with_relative_slope`.
    """
    if total.op != "add":
        return total
    root_of_pi = graph.pow(graph.scalar(sympy.pi), graph.const(_HALF))
    powers = [part for term in total.args for part in graph.factors(term) if is_call(_base_of(part), erfcx)]
    for factor in dict.fromkeys(powers):
        base = _base_of(factor)
        for less in (graph.mul((factor, graph.pow(base, graph.const(-1)))), factor):
            unit = graph.mul((root_of_pi, graph.pow(less, graph.const(-1))))
            for other in total.args:
                c = graph.scale(-_HALF, graph.mul((other, unit)))
                term = graph.mul((graph.scale(2, c), base.args[0], less, base))
                if term is not other and term in total.args:
                    joined = with_relative_slope(graph, graph.mul((c, less, graph.call(erfcx_slope, base.args))))
                    rest = [arg for arg in total.args if arg is not term and arg is not other]
                    return graph.add((*rest, joined))
    return total


def with_relative_slope(graph: Graph, product: Node) -> Node:
    """Return a product with ``erfcx_slope(u)/erfcx(u)``, in which this quotient is ``2*u - 2/(sqrt(pi)*erfcx(u))`` for
    negative ``u``, where function and slope overflow; another product unchanged.
    """
    for slope in product.args:
        if not is_call(slope, erfcx_slope):
            continue
        base = graph.call(erfcx, slope.args)
        divisor = next((arg for arg in product.args if arg.op == "pow" and arg.args[0] is base), None)
        if divisor is None or divisor.args[1].op != "const" or divisor.args[1].data > -1:
            continue
        inverse, u = graph.pow(base, graph.const(-1)), base.args[0]
        root_of_pi = graph.pow(graph.scalar(sympy.pi), graph.const(_HALF))
        second = graph.mul((inverse, graph.pow(root_of_pi, graph.const(-1))))
        direct = graph.scale(2, graph.add((u, graph.neg(second))))
        quotient = graph.select(graph.compare("lt", u, graph.zero), direct, graph.mul((slope, inverse)))
        return graph.mul((*(arg for arg in product.args if arg is not slope), base, quotient))
    return product


def _base_of(factor: Node) -> Node:
    """Return the base of a power; another factor unchanged."""
    return factor.args[0] if factor.op == "pow" else factor


# ---------------------------------------------------------------------------- exponentials


def with_bounded_quotients(graph: Graph, product: Node, order: int = 1) -> Node:
    """Return a product in a form that does not overflow: ``exp(u)/expm1(u)`` as ``-1/expm1(-u)``, and
    ``cosh(u)/sinh(u)`` as ``1/tanh(u)``. The divisor may have a power up to `order`; other products are unchanged.
    """
    product = _with_divisors_outside(graph, product)
    for divisor in product.args:
        if divisor.op != "pow" or divisor.args[1].data not in range(-order, 0):
            continue
        below = divisor.args[0]
        if is_call(below, expm1):
            grown = graph.add((graph.call(sympy.exp, below.args), graph.one))
            if grown in product.args:  # (exp(u) + 1)/expm1(u) is 1/tanh(u/2)
                half = graph.call(sympy.tanh, (graph.scale(_HALF, below.args[0]),))
                rest = [arg for arg in product.args if arg is not divisor and arg is not grown]
                powers = graph.pow(below, graph.const(divisor.args[1].data + 1)), graph.pow(half, graph.const(-1))
                return with_bounded_quotients(graph, graph.mul((*rest, *powers)), order)
        above, bounded = _QUOTIENTS.get(below.data if below.op == "call" else None, (None, None))
        for factor in product.args if above is not None else ():
            if is_call(factor, above) and factor.args == below.args:
                rest = [arg for arg in product.args if arg is not divisor and arg is not factor]
                rest.append(graph.pow(below, graph.const(divisor.args[1].data + 1)))
                u = below.args[0]
                value = graph.call(bounded, (u,)) if bounded is sympy.tanh else graph.call(bounded, (graph.neg(u),))
                sign = 1 if bounded is sympy.tanh else -1
                return graph.scale(sign, graph.mul((*rest, graph.pow(value, graph.const(-1)))))
    return product


def _with_divisors_outside(graph: Graph, product: Node) -> Node:
    """Return a product of ``exp(u)`` or ``cosh(u)`` and a sum whose terms are all divided by ``expm1(u)`` or
    ``sinh(u)``, with this divisor in front of the sum; another product unchanged.
    """
    growing = [arg for arg in product.args if arg.op == "call" and arg.data in _DIVISORS]
    for below in (graph.call(_DIVISORS[arg.data], arg.args) for arg in growing):
        for total in (arg for arg in product.args if arg.op == "add"):
            degrees = [
                next((-part.args[1].data for part in graph.factors(term) if _is_divided(part, below)), 0)
                for term in total.args
            ]
            if min(degrees) > 0:
                power = graph.pow(below, graph.const(min(degrees)))
                inner = graph.add([graph.mul((term, power)) for term in total.args])
                rest = [arg for arg in product.args if arg is not total]
                return graph.mul((*rest, graph.pow(below, graph.const(-min(degrees))), inner))
    return product


def _is_divided(factor: Node, below: Node) -> bool:
    """Return whether `factor` is a power of ``below`` with a negative exponent."""
    return (
        factor.op == "pow"
        and factor.args[0] is below
        and isinstance(factor.args[1].data, int)
        and factor.args[1].data < 0
    )


_QUOTIENTS: dict[Any, tuple[Any, Any]] = {expm1: (sympy.exp, expm1), sympy.sinh: (sympy.cosh, sympy.tanh)}
"""From divisors to the functions that they divide, and to the function in the quotient."""

_DIVISORS = {above: below for below, (above, _) in _QUOTIENTS.items()}
"""From functions to the divisors that grow as they do."""
