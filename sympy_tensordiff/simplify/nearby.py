"""Differences of one function at two arguments ``a`` and ``b`` that are close, without the loss of digits.

Where ``d = a - b`` has fewer terms than ``a`` or ``b``::

    sin(a) - sin(b)                 2*cos((a + b)/2)*sin(d/2)
    cos(a) - cos(b)                 -2*sin((a + b)/2)*sin(d/2)
    tan(a) - tan(b)                 sin(d)/(cos(a)*cos(b))
    atan(a) - atan(b)               atan2(d, 1 + a*b)
    log(a) - log(b)                 log1p(d/b)                              where d is a positive number
    log(a/b)                        log1p(d/b)                              where abs(d/b) < 1/2
    a*log(a) - b*log(b)             d*log(a) + b*log1p(d/b)                 where d is a positive number
    sqrt(a + b**2) - b              a/(sqrt(a + b**2) + b)                  where b > 0 and a < 3*b**2

and of three or more reciprocals whose arguments differ by numbers, ``1/(x + 1) - 2/x + 1/(x - 1)``, the sum over their
common denominator, where the leading terms of its numerator cancel.

Source: Hamming 1987, *Numerical Methods for Scientists and Engineers*, chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import sympy
from sympy.codegen.cfunctions import log1p

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node

_HALF = Fraction(1, 2)


def nearby(graph: Graph, factor: Number, one: Node, other: Node) -> Node | None:
    """Return ``factor*(f(a) - f(b))``, where `one` is ``f(a)`` and `other` is ``f(b)``, without cancellation; None if
    no rule applies.
    """
    if one.op == other.op == "mul":
        return _times_logarithm(graph, factor, one, other)
    (function, a), (own, b) = _called(graph, one), _called(graph, other)
    if function is not own or function not in _RULES:
        return None
    d = minus(graph, a, b)
    if not _has_fewer_terms(d, a) and not _has_fewer_terms(d, b):
        return None
    value = _RULES[function](graph, a, b, d)
    return None if value is None else graph.scale(factor, value)


def minus(graph: Graph, a: Node, b: Node) -> Node:
    """Return ``a - b`` without parentheses around `b`, so that equal terms cancel."""
    return graph.add((a, *map(graph.neg, b.args if b.op == "add" else (b,))))


def _called(graph: Graph, node: Node) -> tuple[Any, Node]:
    """Return ``(function, argument)`` of a call, ``(log, 1 + u)`` for ``log1p(u)``; ``(None, node)`` for other
    nodes.
    """
    if node.op != "call" or len(node.args) != 1:
        return None, node
    if node.data is log1p:
        return sympy.log, graph.add((node.args[0], graph.one))
    return node.data, node.args[0]


def _has_fewer_terms(difference: Node, argument: Node) -> bool:
    """Whether `argument` is a sum and the node `difference` has fewer terms, since terms cancelled."""
    terms = len(difference.args) if difference.op == "add" else 1
    return argument.op == "add" and terms < len(argument.args)


def _middle(graph: Graph, a: Node, b: Node) -> Node:
    """Return ``(a + b)/2``."""
    return graph.scale(_HALF, graph.add((a, b)))


def _sines(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``sin(a) - sin(b)`` as a product with ``sin(d/2)``, ``d = a - b``."""
    half = graph.call(sympy.sin, (graph.scale(_HALF, d),))
    return graph.scale(2, graph.mul((graph.call(sympy.cos, (_middle(graph, a, b),)), half)))


def _cosines(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``cos(a) - cos(b)`` as a product with ``sin(d/2)``, ``d = a - b``."""
    half = graph.call(sympy.sin, (graph.scale(_HALF, d),))
    return graph.scale(-2, graph.mul((graph.call(sympy.sin, (_middle(graph, a, b),)), half)))


def _tangents(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``tan(a) - tan(b)`` as a product with ``sin(d)``, ``d = a - b``."""
    below = [graph.pow(graph.call(sympy.cos, (argument,)), graph.const(-1)) for argument in (a, b)]
    return graph.mul((graph.call(sympy.sin, (d,)), *below))


def _arctangents(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``atan(a) - atan(b)`` as one arctangent of a quotient with ``d = a - b``."""
    return graph.call(sympy.atan2, (d, graph.add((graph.one, graph.mul((a, b))))))


def _logarithms(graph: Graph, a: Node, b: Node, d: Node) -> Node | None:
    """Return ``log(a) - log(b)`` as ``log1p`` of a quotient if ``d = a - b`` is a number, else None."""
    if d.op != "const":
        return None
    below, sign = (b, 1) if d.data > 0 else (a, -1)
    quotient = graph.mul((graph.scale(sign, d), graph.pow(below, graph.const(-1))))
    return graph.scale(sign, graph.call(log1p, (quotient,)))


_RULES = {
    sympy.sin: _sines,
    sympy.cos: _cosines,
    sympy.tan: _tangents,
    sympy.atan: _arctangents,
    sympy.log: _logarithms,
}


def log_of_quotient(graph: Graph, argument: Node) -> Node | None:
    """Return log(a/b) by `log1p` where the sums `a` and `b` are close; None unless ``a - b`` has fewer terms."""
    factors = argument.args if argument.op == "mul" else ()
    reciprocal = next((factor for factor in factors if _is_reciprocal(factor)), None)
    if reciprocal is None or len(factors) != 2:
        return None
    a, b = next(factor for factor in factors if factor is not reciprocal), reciprocal.args[0]
    difference = minus(graph, a, b)
    if b.op != "add" or not _has_fewer_terms(difference, a):
        return None
    share = graph.mul((difference, reciprocal))
    is_near = graph.compare("lt", graph.call(sympy.Abs, (share,)), graph.const(_HALF))
    return graph.select(is_near, graph.call(log1p, (share,)), graph.call(sympy.log, (argument,)))


def _times_logarithm(graph: Graph, factor: Number, one: Node, other: Node) -> Node | None:
    """Return ``factor*(a*log(a) - b*log(b))`` where ``a - b`` is a positive number, else None."""
    a, b = _under_logarithm(graph, one), _under_logarithm(graph, other)
    if a is None or b is None:
        return None
    d = minus(graph, a, b)
    if d.op != "const" or d.data <= 0:
        return None
    logarithm = graph.call(log1p, (graph.mul((d, graph.pow(b, graph.const(-1)))),))
    return graph.scale(factor, graph.add((graph.mul((d, graph.call(sympy.log, (a,)))), graph.mul((b, logarithm)))))


def _under_logarithm(graph: Graph, product: Node) -> Node | None:
    """Return ``a`` if `product` is ``a*log(a)``, else None."""
    if len(product.args) != 2:
        return None
    for a, logarithm in (product.args, product.args[::-1]):
        if _called(graph, logarithm) == (sympy.log, a):
            return a
    return None


def less_value(graph: Graph, root: Node, b: Node) -> Node | None:
    """Return ``sqrt(c + b**2) - b`` as ``c/(sqrt(c + b**2) + b)`` where that avoids cancellation; None if `root` is no
    such root.
    """
    if root.op != "pow" or root.args[1].op != "const" or root.args[1].data != _HALF or root.args[0].op != "add":
        return None
    square = graph.pow(b, graph.const(2))
    rest = graph.add((root.args[0], graph.neg(square)))
    if not _has_fewer_terms(rest, root.args[0]):
        return None
    # Where the root is at least 2*b, nothing cancels, and the square may be infinite.
    is_near = graph.compare("lt", rest, graph.scale(3, square))
    cancels = graph.logic("and", (graph.compare("lt", graph.zero, b), is_near))
    joined = graph.mul((rest, graph.pow(graph.add((root, b)), graph.const(-1))))
    return graph.select(cancels, joined, graph.add((root, graph.neg(b))))


# ---------------------------------------------------------------------------- reciprocals


def reciprocals(graph: Graph, node: Node, terms: Sequence[tuple[Number, Node]]) -> Node | None:
    """Return a sum with terms ``1/(x + c)`` over their common denominator; None unless three or more cancel.

    The terms are given as factors and bases.
    """
    found = [(factor, base.args[0]) for factor, base in terms if _is_reciprocal(base)]
    if len(found) < 3:
        return None
    first = found[0][1]
    for n, (factor, base) in enumerate(found):  # of opposite sign, such as 1 - x for x + 1
        if graph.add((base, first)).op == "const":
            found[n] = -factor, minus(graph, graph.zero, base)
    shifts = [minus(graph, base, first) for _, base in found]
    if sum(factor for factor, _ in found) != 0 or any(
        shift.op != "const" or not isinstance(shift.data, int | Fraction) for shift in shifts
    ):
        return None
    numerator = [Fraction(0)] * len(found)
    for n, (factor, _) in enumerate(found):
        product = [Fraction(factor)]
        for m, shift in enumerate(shifts):
            if m != n:
                product = _times_linear(product, Fraction(shift.data))
        numerator = [c + p for c, p in zip(numerator, product, strict=True)]
    value = graph.zero
    for c in reversed(numerator):
        value = graph.add((graph.mul((first, value)), graph.const(c.numerator if c.denominator == 1 else c)))
    below = [graph.pow(base, graph.const(-1)) for _, base in found]
    rest = [arg for arg, (_, base) in zip(node.args, terms, strict=True) if not _is_reciprocal(base)]
    return graph.add((*rest, graph.mul((value, *below))))


def _is_reciprocal(base: Node) -> bool:
    """Whether `base` is ``1/x``."""
    return base.op == "pow" and base.args[1].op == "const" and base.args[1].data == -1


def _times_linear(polynomial: Sequence[Fraction], shift: Fraction) -> list[Fraction]:
    """Return the coefficients, the constant first, of ``polynomial*(x + shift)``."""
    shifted = [shift * c for c in polynomial] + [Fraction(0)]
    return [c + below for c, below in zip(shifted, [Fraction(0), *polynomial], strict=True)]
