"""Differences of log-gamma functions and their derivatives at ``x`` and ``x + a``, in forms that lose no digits.

For positive ``x`` and ``a``, with ``z = x + 8`` and Stirling's series ``s(z) = 1/(12*z) - 1/(360*z**3) + ...``::

    loggamma(x + a) - loggamma(x)   (z + a - 1/2)*log1p(a/z) + a*(log(z) - 1) + s(z + a) - s(z) - log1p(e)
    digamma(x + a) - digamma(x)     log1p(a/z) + ..., the derivatives of these terms
    trigamma(x + a) - trigamma(x)   likewise
    loggamma(x) + loggamma(y) - loggamma(x + y)     the first, at the larger one of x and y

where ``1 + e`` is the product of ``1 + a/(x + k)`` for k from 0 to 7. Differences of powers of ``1/z`` up to 5
are computed as their divided differences, whose terms do not cancel. Those of higher powers are small: they matter
where a is below 1e-9.

Source: *NIST Digital Library of Mathematical Functions*, sections 5.5, 5.11 and 5.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from math import factorial

import sympy
from sympy.codegen.cfunctions import log1p

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.nearby import has_fewer_terms, minus
from sympy_tensordiff.simplify.sign_analysis import sign_facts

_HALF = Fraction(1, 2)

SHIFT = 8
"""The series are used from here on."""

TERMS = 10
"""The terms of the series: at 8, the next one is 1e-17 of the sum."""

EXACT = 5
"""Differences of powers up to this one are computed without cancellation."""

_LARGEST_FRACTION = 10**6
"""Coefficients with larger numerators or denominators are floating point numbers in kernels."""


def difference_of_gammas(graph: Graph, one: Node, other: Node) -> Node | None:
    """Return ``one - other`` without cancellation if both are values of log-gamma, digamma or trigamma and the
    difference of their arguments has fewer terms than the first argument, as in ``loggamma(x + 1/2) - loggamma(x)``;
    None for others.
    """
    order = _order(one)
    if order is None or _order(other) != order:
        return None
    b = other.args[-1]
    d = minus(graph, one.args[-1], b)
    if not has_fewer_terms(d, one.args[-1]):
        return None
    if d.op == "const":
        if d.data < 0:
            return None  # the pair in the other order has a rule
        return _where_positive(graph, b, _difference(graph, b, d, order), graph.add((one, graph.neg(other))))
    is_less = graph.compare("lt", d, graph.zero)
    low = graph.select(is_less, one.args[-1], b)
    size = graph.call(sympy.Abs, (d,))
    sign = graph.select(is_less, graph.const(-1), graph.one)
    near = graph.mul((sign, _difference(graph, low, size, order)))
    return _where_positive(graph, low, near, graph.add((one, graph.neg(other))))


def logarithm_of_beta(graph: Graph, node: Node) -> Node | None:
    """Return a sum with ``loggamma(x) + loggamma(y) - loggamma(x + y)`` without cancellation, even if one of x and y is
    much larger than the other; None for other sums.
    """
    terms = [graph.split_coefficient(arg) for arg in node.args]
    gammas = [(factor, base) for factor, base in terms if _order(base) == -1]
    for (factor, one), (same, two), (opposite, both) in permutations(gammas, 3) if len(gammas) > 2 else ():
        if factor == same == -opposite and both.args[0] is graph.add((*one.args, *two.args)):
            low, high = (graph.call(function, (*one.args, *two.args)) for function in (sympy.Min, sympy.Max))
            near = graph.add((graph.call(sympy.loggamma, (low,)), graph.neg(_difference(graph, high, low, -1))))
            value = _where_positive(graph, low, near, graph.add((one, two, graph.neg(both))))
            own = [graph.scale(factor, one), graph.scale(factor, two), graph.scale(-factor, both)]
            return graph.add((*(arg for arg in node.args if arg not in own), graph.scale(factor, value)))
    return None


def _where_positive(graph: Graph, low: Node, near: Node, far: Node) -> Node:
    """Return a choice with the value `near` where ``low > 0`` and `far` elsewhere; `near` alone if `low` is known to be
    positive.
    """
    return near if sign_facts(graph, low).sign == 1 else graph.select(graph.compare("lt", graph.zero, low), near, far)


def _order(node: Node) -> int | None:
    """Return a code for the function called in `node`: -1 for log-gamma, 0 for digamma, 1 for trigamma, None for any
    other.
    """
    if node.op == "call" and node.data is sympy.loggamma:
        return -1
    is_polygamma = node.op == "call" and node.data is sympy.polygamma and node.args[0].op == "const"
    return node.args[0].data if is_polygamma and node.args[0].data in (0, 1) else None


def _difference(graph: Graph, x: Node, a: Node, order: int) -> Node:
    """Return ``f(x + a) - f(x)`` without cancellation for positive `x` and `a`. The function f is log-gamma, digamma or
    trigamma for the `order` -1, 0 or 1.
    """
    z = graph.add((x, graph.const(SHIFT)))
    r, last = _inverse(graph, z), _inverse(graph, graph.add((z, a)))
    step = graph.mul((a, r, last))  # r - last
    logarithm = graph.call(log1p, (graph.mul((a, r)),))
    coefficients = _coefficients(order)
    ends = [_powers_above(graph, at, coefficients) for at in (last, r)]
    near = graph.mul((step, _divided_difference(graph, r, last, coefficients[: EXACT + 1])))
    series = graph.add((graph.neg(near), ends[0], graph.neg(ends[1])))
    if order == -1:
        factor = graph.add((z, a, graph.const(-_HALF)))
        leading = graph.mul((a, graph.add((graph.call(sympy.log, (z,)), graph.const(-1)))))
        below = graph.call(log1p, (_product_minus_one(graph, x, a),))
        return graph.add((graph.mul((factor, logarithm)), leading, series, graph.neg(below)))
    terms = [series]
    if order == 0:
        terms.append(logarithm)
    for k in range(SHIFT):
        first, second = (_inverse(graph, graph.add((x, *more, graph.const(k)))) for more in ((), (a,)))
        product = graph.mul((a, first, second))
        terms.append(product if order == 0 else graph.neg(graph.mul((product, graph.add((first, second))))))
    return graph.add(terms)


def _product_minus_one(graph: Graph, x: Node, a: Node) -> Node:
    """Return ``prod_k (1 + a/(x + k)) - 1``, for k from 0 to ``SHIFT - 1``, without cancellation."""
    excess = graph.zero
    for k in range(SHIFT):
        share = graph.mul((a, _inverse(graph, graph.add((x, graph.const(k))))))
        excess = graph.add((graph.mul((excess, graph.add((share, graph.one)))), share))  # each one once
    return excess


def _coefficients(order: int) -> list[Fraction]:
    """Return the coefficients of the asymptotic series in ``r = 1/z`` of log-gamma (`order` -1) or of the polygamma
    function of this `order`, without its logarithmic terms. Item k belongs to ``r**k``.
    """
    found = [Fraction(0)] * (2 * TERMS + max(order, 0) + 1)
    sign = 1 if order == -1 else (-1) ** (order + 1)
    if order == 0:
        found[1] = Fraction(-1, 2)
    if order == 1:
        found[1], found[2] = Fraction(1), _HALF
    for k in range(1, TERMS + 1):
        bernoulli = Fraction(int(sympy.bernoulli(2 * k).p), int(sympy.bernoulli(2 * k).q))
        if order == -1:
            found[2 * k - 1] = bernoulli / (2 * k * (2 * k - 1))
        else:
            found[2 * k + order] += sign * bernoulli * factorial(2 * k + order - 1) / factorial(2 * k)
    return found


def _divided_difference(graph: Graph, r: Node, last: Node, coefficients: Sequence[Fraction]) -> Node:
    """Return ``(p(r) - p(last))/(r - last)`` without cancellation, for the polynomial p with these `coefficients`."""
    value, found = graph.zero, graph.zero
    for c in reversed(coefficients[1:]):
        value = graph.add((graph.const(_number(c)), graph.mul((last, value))))
        found = graph.add((value, graph.mul((r, found))))
    return found


def _powers_above(graph: Graph, r: Node, coefficients: Sequence[Fraction]) -> Node:
    """Return the terms of a polynomial in `r` with powers above `EXACT`. ``coefficients[k]`` belongs to ``r**k``; of
    these terms, only every second may be nonzero.
    """
    first = next(k for k in range(EXACT + 1, len(coefficients)) if coefficients[k])
    square, value = graph.pow(r, graph.const(2)), graph.zero
    for c in reversed(coefficients[first::2]):
        value = graph.add((graph.const(_number(c)), graph.mul((square, value))))
    return graph.mul((graph.pow(r, graph.const(first)), value))


def _number(value: Fraction) -> Number:
    """Return a number as an int or a short fraction if it is one, else as a float."""
    if value.denominator == 1:
        return value.numerator
    return value if max(abs(value.numerator), value.denominator) < _LARGEST_FRACTION else float(value)


def _inverse(graph: Graph, node: Node) -> Node:
    """Return ``1/node``."""
    return graph.pow(node, graph.const(-1))
