"""Sums ``p + q + r`` with ``r**2 = 4*p*q``, which are squares: ``c*a**2 - 2*c*a*b + c*b**2`` is ``c*(a - b)**2``.

In floating point, the terms cancel where a is close to b, and the sum may be negative. Of values, which are real
numbers, ``a + b - 2*sqrt(a*b)`` is ``((a - b)/(sqrt(a) + sqrt(b)))**2`` where a > 0.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import isqrt

from sympy_tensordiff.graph.nodes import Graph, Node

_HALF = Fraction(1, 2)


def perfect_square(graph: Graph, total: Node) -> Node | None:
    """Return the sum `total` with three terms such as ``a**2 + 2*a*b + b**2``, up to a factor, joined to one square;
    None if it has no such terms.
    """
    if len(total.args) < 3:
        return None
    numbers = {term: graph.split_coefficient(term)[0] for term in total.args}
    squares = {number**2 for number in numbers.values()}
    for p, q in combinations(total.args, 2):
        if 4 * numbers[p] * numbers[q] not in squares:
            continue
        ratio = _root(graph, graph.mul((p, graph.pow(q, graph.const(-1)))))
        if ratio is None:
            continue
        above, below = ratio
        share = graph.mul((q, graph.pow(below, graph.const(-2))))
        for sign in (-2, 2):
            middle = graph.scale(sign, graph.mul((share, above, below)))
            if middle in total.args and middle is not p and middle is not q:
                square = graph.pow(graph.add((above, graph.scale(sign // 2, below))), graph.const(2))
                rest = [term for term in total.args if term not in (p, q, middle)]
                return graph.add((*rest, graph.mul((share, square))))
    return None


def square_of_roots(graph: Graph, total: Node) -> Node | None:
    """Return the sum `total` with three terms ``a + b - 2*sqrt(a*b)`` joined to one square where ``a > 0``; None if it
    has no such terms.
    """
    for middle in total.args if len(total.args) > 2 else ():
        factor, root = graph.split_coefficient(middle)
        if root.op != "pow" or root.args[1] is not graph.const(_HALF) or not factor < 0:
            continue
        product = graph.mul((graph.const(Fraction(factor) ** 2 / 4), root.args[0]))
        for p, q in combinations([term for term in total.args if term is not middle], 2):
            if graph.mul((p, q)) is product:
                below = graph.add([graph.pow(term, graph.const(_HALF)) for term in (p, q)])
                share = graph.mul((graph.add((p, graph.neg(q))), graph.pow(below, graph.const(-1))))
                near, direct = graph.pow(share, graph.const(2)), graph.add((p, q, middle))
                rest = [term for term in total.args if term not in (p, q, middle)]
                return graph.add((*rest, graph.select(graph.compare("lt", graph.zero, p), near, direct)))
    return None


def _root(graph: Graph, ratio: Node) -> tuple[Node, Node] | None:
    """Return ``(a, b)``, products with integer powers, such that ``(a/b)**2`` is the product `ratio`; None if there are
    none.
    """
    parts: tuple[list[Node], list[Node]] = [], []
    for factor in graph.factors(ratio):
        if factor.op == "const":
            number = Fraction(factor.data) if isinstance(factor.data, int | Fraction) else Fraction(-1)
            ends = [number.numerator, number.denominator]
            if number < 0 or any(isqrt(end) ** 2 != end for end in ends):
                return None
            for side, end in zip(parts, ends, strict=True):
                side.append(graph.const(isqrt(end)))
            continue
        exponent = factor.args[1].data if factor.op == "pow" and factor.args[1].op == "const" else 1
        if not isinstance(exponent, int) or exponent % 2:
            return None
        power = graph.pow(factor.args[0], graph.const(abs(exponent) // 2))
        parts[exponent < 0].append(power)
    return graph.mul(parts[0]), graph.mul(parts[1])
