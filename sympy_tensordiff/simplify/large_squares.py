"""Functions of ``k + c*u**2`` with numbers k and c, which overflow where ``u**2`` does, although the result does not::

    log(k + c*u**2)                 2*log(sqrt(c)*abs(u))       where abs(u) > 2**60
    u**2/(k + c*u**2)               1/c                         where abs(u) > 2**60, likewise with other powers

There k is less than the rounding error of the sum, in double and in single precision, as 1 is in ``log1p(abs(u))``,
the logarithm where k is 1. One logarithm and one division are computed, of a numerator and a denominator that are
chosen.

Quotients with ``u`` above stay as they are, as `u/(k + c*u**2)`: where ``u**2`` overflows, their value is 0 instead of
a number below 1e-154 (5e-20 in single precision). With a higher power above it would be NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import sympy
from sympy.codegen.cfunctions import log1p

from sympy_tensordiff.graph.nodes import Graph, Node

_LARGE_VALUE = 2**60

MAX_EXPONENT = 4
"""Higher powers stay as they are."""

_MODERATE = 2**20
"""Numbers k and c below are negligible and harmless, respectively."""


class _Square(NamedTuple):
    """The parts of a sum ``number + factor*base**2``."""

    number: Any
    factor: Any
    base: Node


def log_of_large_square(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(k + c*u**2)`` without overflow of the square; None for other arguments."""
    found = _square(graph, argument)
    if found is None or found.number < 0 or found.factor < 0:
        return None
    is_large, size = _is_large(graph, found.base), graph.call(sympy.Abs, (found.base,))
    root = graph.mul((graph.pow(graph.const(found.factor), graph.const(Fraction(1, 2))), size))
    if found.number == 1:
        square = graph.scale(found.factor, graph.pow(found.base, graph.const(2)))
        logarithm = graph.call(log1p, (graph.select(is_large, root, square),))
    else:
        logarithm = graph.call(sympy.log, (graph.select(is_large, root, argument),))
    return graph.mul((graph.select(is_large, graph.const(2), graph.one), logarithm))


def with_large_squares(graph: Graph, product: Node) -> Node:
    """Return `product` with a quotient ``u**2/(k + c*u**2)`` in it computed so that the squares cannot overflow;
    another product is unchanged.
    """
    factors = graph.factors(product)
    for divisor in factors:
        exponent = -_exponent(divisor) if divisor.op == "pow" else 0
        found = _square(graph, divisor.args[0]) if exponent > 0 else None
        above, leading, power = _growing(graph, factors, found.base) if found else (graph.one, graph.one, 0)
        if found is None or not 1 < power <= 2 * exponent:
            continue
        is_large = _is_large(graph, found.base)
        below = graph.scale(found.factor**exponent, graph.pow(found.base, graph.const(2 * exponent - power)))
        whole = graph.pow(divisor.args[0], graph.const(exponent))
        rest = [part for part in factors if part not in (above, divisor)]
        quotient = graph.pow(graph.select(is_large, below, whole), graph.const(-1))
        return graph.mul((*rest, graph.select(is_large, leading, above), quotient))
    return product


def _growing(graph: Graph, factors: Sequence[Node], u: Node) -> tuple[Node, Node, int]:
    """Return ``(factor, leading coefficient, degree)`` for the first of `factors` that grows with `u`: ``u**n``, or ``k
    + c*u**2`` with numbers of any sign. The degree is 0 if there is none.
    """
    for factor in factors:
        if factor is u or (factor.op == "pow" and factor.args[0] is u and _exponent(factor) > 0):
            return factor, graph.one, 1 if factor is u else _exponent(factor)
        own = _square(graph, factor)
        if own is not None and own.base is u:
            return factor, graph.const(own.factor), 2
    return graph.one, graph.one, 0


def _exponent(node: Node) -> int:
    """Return the exponent of `node` if it is a power with an integer exponent of absolute value at most `MAX_EXPONENT`,
    else 0.
    """
    exponent = node.args[1].data if node.op == "pow" and node.args[1].op == "const" else 0
    return exponent if isinstance(exponent, int) and abs(exponent) <= MAX_EXPONENT else 0


def _square(graph: Graph, node: Node) -> _Square | None:
    """Return the parts of ``k + c*u**2`` with numbers k and c of moderate size; None for other nodes."""
    if node.shape or node.op != "add" or len(node.args) != 2:
        return None
    number, term = sorted(node.args, key=lambda arg: arg.op != "const")
    factor, square = graph.split_coefficient(term)
    if number.op != "const" or square.op != "pow" or square.args[1].op != "const" or square.args[1].data != 2:
        return None
    is_moderate = abs(number.data) < _MODERATE and Fraction(1, _MODERATE) < abs(Fraction(factor)) < _MODERATE
    return _Square(number.data, factor, square.args[0]) if is_moderate else None


def _is_large(graph: Graph, u: Node) -> Node:
    """Return the condition ``abs(u) > 2**60``."""
    return graph.compare("lt", graph.const(_LARGE_VALUE), graph.call(sympy.Abs, (u,)))
