"""Differences of square roots and other values, rewritten so that no digits are lost.

For entries, which are real numbers::

    sqrt(a + b**2) - b              a/(sqrt(a + b**2) + b)                  where b > 0 and a < 3*b**2
    b/sqrt(a + b**2) - 1            -a/(r*(r + b)) with the root r          where b > 0 and a < 3*b**2
    b**2*a**p - a**(p + 1)          (b**2 - a)*a**p                         where b**2 - a has fewer terms than a

Here b may be a sum, whose terms are terms of the difference: squares are multiplied out to find a.
"""

from __future__ import annotations

from fractions import Fraction

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.nearby import has_fewer_terms, minus

_HALF = Fraction(1, 2)

MAX_SQUARED_TERMS = 4
"""Squares of longer sums are not multiplied out."""


def root_less_sum(graph: Graph, node: Node) -> Node | None:
    """Return the addition `node` with its terms ``sqrt(a + (b + c)**2) - b - c`` computed without cancellation where
    ``a`` is small and ``b + c`` positive. None if it has no such terms.
    """
    for term in node.args:
        factor, root = graph.split_coefficient(term)
        if not is_root_of_sum(graph, root):
            continue
        for b in (square.args[0] for square in root.args[0].args if square.op == "pow" and square.args[0].op == "add"):
            for sign in (1, -1):
                own = [graph.scale(-sign * factor, part) for part in b.args]
                if all(part in node.args for part in own):
                    value = root_minus_value(graph, root, graph.scale(sign, b))
                    rest = [arg for arg in node.args if arg is not term and arg not in own]
                    return None if value is None else graph.add((*rest, graph.scale(factor, value)))
    return None


def shares_less_number(graph: Graph, node: Node) -> Node | None:
    """Return the sum `node` of a number and terms divided by one root, such as ``b/s + c/s - 1`` with ``s = sqrt(a + (b
    + c)**2)``, in a form that is accurate where it is nearly 0. None for other sums.
    """
    numbers = [arg for arg in node.args if arg.op == "const"]
    terms = [graph.factors(arg) for arg in node.args if arg.op != "const"]
    if len(numbers) != 1 or len(terms) < 2:
        return None
    inverse = next((part for part in terms[0] if part.op == "pow" and part.args[1] is graph.const(-_HALF)), None)
    if inverse is None or not all(inverse in term for term in terms):
        return None
    number = numbers[0].data
    scale = graph.const(-1 / Fraction(number))
    b = graph.add([graph.mul((scale, *(part for part in term if part is not inverse))) for term in terms])
    value = share_minus_one(graph, graph.mul((b, inverse)))
    return None if value is None else graph.scale(-number, value)


def difference_of_powers_by_one(graph: Graph, one: Node, other: Node) -> Node | None:
    """Return ``b*a**p - c*a**(p + 1)``, the difference of `one` and `other`, as ``(b - c*a)*a**p`` if ``b - c*a`` has
    fewer terms than the sum ``a``; else None.
    """
    factors = graph.factors(one), graph.factors(other)
    for power in factors[0]:
        more = graph.mul((power.args[0], power)) if power.op == "pow" and power.args[0].op == "add" else None
        if more in factors[1]:
            base = power.args[0]
            common = [part for part in factors[0] if part in factors[1]]
            b, c = (graph.mul([part for part in own if part not in (power, more, *common)]) for own in factors)
            found = minus(graph, b, base if c is graph.one else graph.mul((c, base)))
            if has_fewer_terms(found, base):
                return graph.mul((*common, power, found))
    return None


def is_root_of_sum(graph: Graph, node: Node) -> bool:
    """Return whether `node` is the square root of a sum."""
    return node.op == "pow" and node.args[1] is graph.const(_HALF) and node.args[0].op == "add"


def root_minus_value(graph: Graph, root: Node, b: Node) -> Node | None:
    """Return ``root - b`` without cancellation for a root ``sqrt(b**2 + c)``; None for other roots, or if `b` is a
    number that is not positive.

    It is a select of ``c/(root + b)`` where ``b > 0`` and ``c < 3*b**2``, and of the plain difference elsewhere.
    """
    if not is_root_of_sum(graph, root):
        return None
    is_positive = graph.compare("lt", graph.zero, b)
    if graph.truth_value(is_positive) is False:
        return None
    square = graph.pow(b, graph.const(2))
    rest = _rest_of_square(graph, root.args[0], b)
    if rest is None:
        return None
    # Where the root is at least 2*b, nothing cancels, and the square may be infinite.
    is_near = graph.compare("lt", rest, graph.scale(3, square))
    joined = graph.mul((rest, graph.pow(graph.add((root, b)), graph.const(-1))))
    return graph.select(graph.logic("and", (is_positive, is_near)), joined, graph.add((root, graph.neg(b))))


def _rest_of_square(graph: Graph, base: Node, b: Node) -> Node | None:
    """Return ``base - b**2`` if it has fewer terms than `base`; squares of sums may be multiplied out for this. Else
    None.
    """
    rest = minus(graph, base, graph.pow(b, graph.const(2)))
    if has_fewer_terms(rest, base):
        return rest
    if b.op != "add" or len(b.args) > MAX_SQUARED_TERMS:
        return None
    rest = graph.add(
        (*_multiplied_out(graph, base), *map(graph.neg, _multiplied_out(graph, graph.pow(b, graph.const(2)))))
    )
    return rest if has_fewer_terms(rest, base) else None


def _multiplied_out(graph: Graph, node: Node) -> list[Node]:
    """Return the terms of `node` with squares of short sums multiplied out."""
    terms: list[Node] = []
    for term in node.args if node.op == "add" else (node,):
        base = term.args[0] if term.op == "pow" and term.args[1] is graph.const(2) else term
        if base is term or base.op != "add" or len(base.args) > MAX_SQUARED_TERMS:
            terms.append(term)
        else:
            terms += [graph.mul((one, other)) for one in base.args for other in base.args]
    return terms


def share_minus_one(graph: Graph, share: Node) -> Node | None:
    """Return ``share - 1`` without cancellation for a share ``b/sqrt(b**2 + c)``, which is close to 1 for small c; None
    for others.
    """
    factors = graph.factors(share)
    inverse = next((factor for factor in factors if factor.op == "pow" and factor.args[0].op == "add"), None)
    if inverse is None or inverse.args[1].op != "const" or inverse.args[1].data != -_HALF:
        return None
    b = graph.mul([factor for factor in factors if factor is not inverse])
    square = graph.pow(b, graph.const(2))
    rest = _rest_of_square(graph, inverse.args[0], b)
    if rest is None:
        return None
    root = graph.pow(inverse.args[0], graph.const(_HALF))
    is_near = graph.compare("lt", rest, graph.scale(3, square))
    cancels = graph.logic("and", (graph.compare("lt", graph.zero, b), is_near))
    joined = graph.mul((graph.const(-1), rest, inverse, graph.pow(graph.add((root, b)), graph.const(-1))))
    return graph.select(cancels, joined, graph.add((share, graph.const(-1))))
