"""Functions of ``k + c*u**2`` with numbers k and c, which overflow where ``u**2`` does, although the result does not::

    log(k + c*u**2)                 2*log(sqrt(c)*abs(u))       where abs(u) > 2**60
    log(f*(k + w))                  2*log(sqrt(f*w))            where w > 2**120, w is a product with even powers
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

_LARGE_ROOT = 2**30
_LARGE_SQUARE = _LARGE_ROOT**2
_SMALL_RATIO = 4
"""Where ``u**2`` exceeds `_LARGE_SQUARE`, ``k + u**2`` is ``u**2`` in double precision for k up to `_SMALL_RATIO`."""

MAX_EXPONENT = 4
"""Higher powers stay as they are."""

_MODERATE = 2**20
"""A number k below it is negligible next to a large square, and products with factors below it do not overflow."""


class _Square(NamedTuple):
    """The parts of a sum ``number + factor*base**2``; the factor is a number or a node."""

    number: Any
    factor: Any
    base: Node


def log_of_large_square(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(argument)`` for an `argument` ``k + c*u**2`` with numbers k and c, in a form in which the square
    does not overflow; None for other arguments.
    """
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


def log_of_large_product(graph: Graph, argument: Node) -> Node | None:
    """Return the logarithm of `argument` in a form that does not overflow, if `argument` is ``f*(k + w)``, with a
    positive number ``k`` and a product ``w`` with an even power, such as ``t**2/n``. None for other arguments.

    The factor ``f`` may be missing.

    Where ``f`` or another factor of the root is negative, its root is NaN, and so is the logarithm.
    """
    for total in graph.factors(argument):
        root = _root_of_square(graph, total)
        if root is None:
            continue
        number, square, size = root
        rest = graph.mul([part for part in graph.factors(argument) if part is not total])
        is_large = graph.compare("lt", graph.const(_LARGE_VALUE**2), square)
        if rest is graph.one and number is graph.one:
            logarithm = graph.call(log1p, (graph.select(is_large, size, square),))
        else:
            far = graph.mul((graph.pow(rest, graph.const(Fraction(1, 2))), size))
            logarithm = graph.call(sympy.log, (graph.select(is_large, far, argument),))
        return graph.mul((graph.select(is_large, graph.const(2), graph.one), logarithm))
    return None


def _root_of_square(graph: Graph, node: Node) -> tuple[Node, Node, Node] | None:
    """Return ``(k, w, sqrt(w))`` for a sum ``k + w`` with a positive number k of moderate size and a product w with an
    even power, such as ``t**2/n``; None for other nodes.
    """
    parts = _number_and_term(node)
    if parts is None or not parts[0].data > 0 or graph.split_coefficient(parts[1])[0] < 0:
        return None
    number, term = parts
    roots, has_even = [], False
    for factor in graph.factors(term):
        exponent = factor.args[1].data if factor.op == "pow" and factor.args[1].op == "const" else 1
        if isinstance(exponent, int) and exponent % 2 == 0:
            has_even = has_even or exponent > 0
            roots.append(graph.pow(graph.call(sympy.Abs, (factor.args[0],)), graph.const(exponent // 2)))
        else:
            roots.append(graph.pow(factor, graph.const(Fraction(1, 2))))
    return (number, term, graph.mul(roots)) if has_even else None


def with_large_squares(graph: Graph, product: Node) -> Node:
    """Return `product` with a quotient ``u**2/(k + c*u**2)`` in it computed so that the squares cannot overflow;
    another product is unchanged.

    ``c`` may be a product of letters, as in ``t**2/(1 + t**2/n)``.
    """
    factors = graph.factors(product)
    for divisor in factors:
        exponent = -_exponent(divisor) if divisor.op == "pow" else 0
        found = _any_square(graph, divisor.args[0]) if exponent > 0 else None
        if found is not None and isinstance(found.factor, Node) and graph.split_coefficient(found.factor)[0] < 0:
            continue
        above, leading, power = _growing(graph, factors, found.base) if found else (graph.one, graph.one, 0)
        if found is None or not (1 if exponent == 1 else 0) < power <= 2 * exponent:
            continue
        is_large = _is_large_square(graph, found, exponent)
        below = graph.mul(
            (graph.pow(_as_node(graph, found.factor), graph.const(exponent)),
             graph.pow(found.base, graph.const(2 * exponent - power)))
        )  # fmt: skip
        whole = graph.pow(divisor.args[0], graph.const(exponent))
        rest = [part for part in factors if part not in (above, divisor)]
        quotient = graph.pow(graph.select(is_large, below, whole), graph.const(-1))
        return graph.mul((*rest, graph.select(is_large, leading, above), quotient))
    return product


def _any_square(graph: Graph, node: Node) -> _Square | None:
    """Return the parts of a `node` ``k + c*u**2`` as a `_Square`: a number k, a number or product c, and u. None for
    other nodes.
    """
    found = _square(graph, node)
    parts = _number_and_term(node) if found is None else None
    if parts is None:
        return found
    number, term = parts
    square = next((part for part in graph.factors(term) if _exponent(part) == 2), None)
    if square is None:
        return None
    rest = graph.mul([part for part in graph.factors(term) if part is not square])
    return _Square(number.data, rest, square.args[0])


def _number_and_term(node: Node) -> tuple[Node, Node] | None:
    """Return ``(k, w)`` for a sum ``k + w`` with a number k of moderate size; None for other nodes."""
    if node.shape or node.op != "add" or len(node.args) != 2 or not any(arg.op == "const" for arg in node.args):
        return None
    number, term = sorted(node.args, key=lambda arg: arg.op != "const")
    return (number, term) if abs(number.data) < _MODERATE else None


def is_of_large_values(condition: Node) -> bool:
    """Return whether `condition` has the form ``c < value`` with a constant c of at least `_LARGE_ROOT`: this module
    guards its overflow-safe formulas by such conditions, which are false near 0.
    """
    if condition.op != "compare" or condition.data != "lt":
        return False
    bound = condition.args[0]
    return bound.op == "const" and bound.data >= _LARGE_ROOT


def _is_large_square(graph: Graph, found: _Square, exponent: int) -> Node:
    """Return the condition, a node, under which the number ``k`` is negligible in the sum ``k + c*u**2`` that ``found``
    describes. Where it is false, the power `exponent` of the sum does not overflow in single precision, if ``k`` is
    small enough.
    """
    if isinstance(found.factor, Node):
        square = graph.mul((found.factor, graph.pow(found.base, graph.const(2))))
        bound = _LARGE_SQUARE if exponent > 1 and found.number <= _SMALL_RATIO else _LARGE_VALUE**2
        return graph.compare("lt", graph.const(bound), square)
    if exponent > 1 and abs(found.number) <= _SMALL_RATIO * abs(found.factor):
        size = graph.call(sympy.Abs, (found.base,))
        return graph.compare("lt", graph.const(_LARGE_ROOT), size)
    return _is_large(graph, found.base)


def _as_node(graph: Graph, factor: Any) -> Node:
    """Return a factor, a number or a node, as a node."""
    return factor if isinstance(factor, Node) else graph.const(factor)


def _growing(graph: Graph, factors: Sequence[Node], u: Node) -> tuple[Node, Node, int]:
    """Return ``(factor, leading coefficient, degree)`` for the first of `factors` that grows with `u`: degree n for
    ``u**n``, 2 for ``k + c*u**2`` with a number k. Return ``(1, 1, 0)`` if none does.
    """
    for factor in factors:
        if factor is u or (factor.op == "pow" and factor.args[0] is u and _exponent(factor) > 0):
            return factor, graph.one, 1 if factor is u else _exponent(factor)
        own = _any_square(graph, factor)
        if own is not None and own.base is u:
            return factor, _as_node(graph, own.factor), 2
    return graph.one, graph.one, 0


def _exponent(node: Node) -> int:
    """Return the exponent of `node` if it is a power with an integer exponent of absolute value at most `MAX_EXPONENT`,
    else 0.
    """
    exponent = node.args[1].data if node.op == "pow" and node.args[1].op == "const" else 0
    return exponent if isinstance(exponent, int) and abs(exponent) <= MAX_EXPONENT else 0


def _square(graph: Graph, node: Node) -> _Square | None:
    """Return the parts of a scalar ``k + c*u**2`` with numbers k and c that are neither huge nor tiny; None for another
    node.
    """
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
