"""Differences of two values of a function, and powers of values close to 1, in forms that lose no digits.

For entries, which are real numbers::

    exp(a) - exp(b)                 exp(b)*expm1(a - b)                     where abs(a - b) < 1
    sigmoid(a) - sigmoid(b)         sigmoid(a)*sigmoid(-b)*-expm1(b - a)    where a > b
    tanh(a) - tanh(b)               2*(sigmoid(2*a) - sigmoid(2*b))
    atan(a) - atan(b)               atan2(a - b, 1 + a*b)                   where abs(a - b) < 1 + a*b
    softplus(a) - softplus(b)       log1p(sigmoid(b)*expm1(a - b))          where abs(a - b) < 1
    pi/2 - atan(u)                  atan2(1, u), also pi/2 + atan(u)
    atan(u) - pi/4                  atan2(u - 1, u + 1)
    pi/2 - asin(u)                  acos(u), also pi/2 + asin(u) and pi/2 - acos(u)
    (1 + u)**p - 1                  expm1(p*log1p(u))                       where 1 + u > 0 or p is not an integer
    (1 + u)**p                      exp(p*log1p(u))                         where abs(u) < 1/2, if u is a quotient by a
                                                                            letter of p, or p one by a factor of u, so
                                                                            that p is large for small u
    (1 + u)**p - 1 - p*u*(1 + u)**(p - 1)           see `value_less_tangent`, with a letter p
    a**2 + b**2 - 2*a*b*cos(u)      (a - b)**2 + 4*a*b*sin(u/2)**2
    softplus(u) - u*sigmoid(u)      softplus(-u) + u*sigmoid(-u)            where u > 0
    a - b + (a - b)**2*c            (a - b)*(1 + (a - b)*c)

A rounding error of ``a - b`` changes these differences no more than the rounding errors of ``a`` and ``b`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable

_HALF = Fraction(1, 2)


def difference_of_close_values(graph: Graph, one: Node, other: Node) -> Node | None:
    """Return ``one - other`` without cancellation for two values of one function, such as ``exp(u) - exp(v)`` or
    ``tanh(u) - tanh(v)``; None for functions without a rule in this module.
    """
    if one.op != "call" or other.op != "call" or one.data is not other.data or one.data not in _DIFFERENCES:
        return None
    (u,), (v,) = one.args, other.args
    return None if graph.neg(u) is v else _DIFFERENCES[one.data](graph, one, other)


def _exponentials(graph: Graph, one: Node, other: Node) -> Node:
    """Return ``one - other``, which is ``exp(a) - exp(b)``, without cancellation."""
    distance = _minus(graph, one.args[0], other.args[0])
    is_near = graph.compare("lt", graph.call(sympy.Abs, (distance,)), graph.one)
    return graph.select(is_near, graph.mul((other, graph.call(expm1, (distance,)))), _minus(graph, one, other))


def _sigmoids(graph: Graph, one: Node, other: Node) -> Node:
    """Return ``one - other``, which is ``sigmoid(a) - sigmoid(b)``, without cancellation: as a product that contains
    ``expm1`` of the smaller argument minus the larger one.
    """
    a, b = one.args[0], other.args[0]
    is_less = graph.compare("lt", a, b)
    high, low = graph.select(is_less, b, a), graph.select(is_less, a, b)
    shares = graph.call(sigmoid, (high,)), graph.call(sigmoid, (graph.neg(low),))
    sign = graph.select(is_less, graph.one, graph.const(-1))
    return graph.mul((sign, *shares, graph.call(expm1, (_minus(graph, low, high),))))


def _hyperbolic_tangents(graph: Graph, one: Node, other: Node) -> Node:
    """Return ``one - other``, which is ``tanh(a) - tanh(b)``, without cancellation."""
    double = [graph.call(sigmoid, (graph.scale(2, node.args[0]),)) for node in (one, other)]
    return graph.scale(2, _sigmoids(graph, *double))


def _arctangents(graph: Graph, one: Node, other: Node) -> Node:
    """Return ``one - other``, which is ``atan(a) - atan(b)``, without cancellation."""
    a, b = one.args[0], other.args[0]
    below = graph.add((graph.one, graph.mul((a, b))))
    distance = _minus(graph, a, b)
    is_near = graph.compare("lt", graph.call(sympy.Abs, (distance,)), below)  # not where one of them is infinite
    return graph.select(is_near, graph.call(sympy.atan2, (distance, below)), _minus(graph, one, other))


def _softplus(graph: Graph, one: Node, other: Node) -> Node:
    """Return ``one - other``, which is ``softplus(a) - softplus(b)``, without cancellation."""
    distance = _minus(graph, one.args[0], other.args[0])
    is_near = graph.compare("lt", graph.call(sympy.Abs, (distance,)), graph.one)
    share = graph.mul((graph.call(sigmoid, other.args), graph.call(expm1, (distance,))))
    return graph.select(is_near, graph.call(log1p, (share,)), _minus(graph, one, other))


_DIFFERENCES = {
    softplus: _softplus,
    sympy.exp: _exponentials,
    sigmoid: _sigmoids,
    sympy.tanh: _hyperbolic_tangents,
    sympy.atan: _arctangents,
}
"""The rules for differences of two values, by the function."""


def _call_of(
    function: Any, factor: Number = 1, of_argument: Number = 1, power: int = 1
) -> Callable[[Graph, Node], Node]:
    """Return a simplification rule: a function that maps a graph and an argument ``u`` to the node
    ``factor*function(of_argument*u)**power``. The node replaces a sum that cancels: ``-2*sin(u/2)**2`` is ``cos(u) -
    1``.
    """

    def rule(graph: Graph, u: Node) -> Node:
        """Return the node ``factor*function(of_argument*u)**power``, which does not cancel, as ``-2*sin(u/2)**2`` in
        place of ``cos(u) - 1``.
        """
        value = graph.call(function, (graph.scale(of_argument, u),))
        return graph.scale(factor, graph.pow(value, graph.const(power)))

    return rule


WITH_NUMBER: dict[tuple[Any, Number], tuple[str, Callable[[Graph, Node], Node]]] = {
    (sympy.exp, -1): ("exp(u) - 1", _call_of(expm1)),
    (expm1, 1): ("expm1(u) + 1", _call_of(sympy.exp)),
    (sympy.cosh, -1): ("cosh(u) - 1", _call_of(sympy.sinh, 2, _HALF, 2)),
    (sympy.cos, -1): ("cos(u) - 1", _call_of(sympy.sin, -2, _HALF, 2)),
    (sympy.cos, 1): ("1 + cos(u)", _call_of(sympy.cos, 2, _HALF, 2)),
    (sympy.tanh, -1): ("tanh(u) - 1", _call_of(sigmoid, -2, -2)),
    (sympy.tanh, 1): ("1 + tanh(u)", _call_of(sigmoid, 2, 2)),
    (sigmoid, -1): ("sigmoid(u) - 1", _call_of(sigmoid, -1, -1)),
    (sigmoid, -_HALF): ("sigmoid(u) - 1/2", _call_of(sympy.tanh, _HALF, _HALF)),
    (sympy.erf, -1): ("erf(u) - 1", _call_of(sympy.erfc, -1)),
    (sympy.erf, 1): ("1 + erf(u)", _call_of(sympy.erfc, 1, -1)),
    (sympy.erfc, -1): ("erfc(u) - 1", _call_of(sympy.erf, -1)),
    (sympy.erfc, -2): ("erfc(u) - 2", _call_of(sympy.erfc, -1, -1)),
}
"""From functions f and numbers c to a name and a form of ``f(u) + c`` in which nothing cancels."""


def has_angle(graph: Graph, term: Node) -> bool:
    """Return whether a factor of `term` is an inverse trigonometric function, such as ``atan(u)``, for which
    `complement_of_angle` has a rule.
    """
    return any(part.op == "call" and part.data in _ANGLES for part in graph.factors(term))


def complement_of_angle(graph: Graph, term: Node, other: Node) -> Node | None:
    """Return ``term + other`` without cancellation if `term` is a multiple ``c*f(u)`` of an inverse trigonometric
    function f and `other` is ``c*pi/2``, ``-c*pi/2`` or ``-c*pi/4``; None for others.
    """
    for angle in graph.factors(term):
        if angle.op == "call" and angle.data in _ANGLES:
            factor = graph.mul([part for part in graph.factors(term) if part is not angle])
            (u,) = angle.args
            for fraction in (_HALF, -_HALF, Fraction(-1, 4)):
                if graph.mul((graph.const(fraction), factor, graph.scalar(sympy.pi))) is other:
                    found = _ANGLES[angle.data](graph, u, fraction)
                    return None if found is None else graph.mul((factor, found))
    return None


def _arctangent(graph: Graph, u: Node, fraction: Fraction) -> Node:
    """Return ``atan(u) + fraction*pi`` without cancellation, for the fractions 1/2, -1/2 and -1/4."""
    if fraction == Fraction(-1, 4):
        return graph.call(sympy.atan2, (graph.add((u, graph.const(-1))), graph.add((u, graph.one))))
    if fraction > 0:
        return graph.call(sympy.atan2, (graph.one, graph.neg(u)))
    return graph.neg(graph.call(sympy.atan2, (graph.one, u)))


def _arcsine(graph: Graph, u: Node, fraction: Fraction) -> Node | None:
    """Return ``asin(u) + fraction*pi`` as an arccosine, which does not cancel: ``acos(-u)`` for 1/2, ``-acos(u)`` for
    -1/2; None for other fractions.
    """
    if fraction == _HALF:
        return graph.call(sympy.acos, (graph.neg(u),))
    return graph.neg(graph.call(sympy.acos, (u,))) if fraction == -_HALF else None


def _arccosine(graph: Graph, u: Node, fraction: Fraction) -> Node | None:
    """Return ``acos(u) - pi/2`` as ``-asin(u)``, which does not cancel, for the `fraction` -1/2; None for other
    fractions of pi.
    """
    return graph.neg(graph.call(sympy.asin, (u,))) if fraction == -_HALF else None


_ANGLES: dict[Any, Any] = {sympy.atan: _arctangent, sympy.asin: _arcsine, sympy.acos: _arccosine}
"""The rules for an angle and a fraction of pi."""


def power_near_one(graph: Graph, power: Node) -> Node | None:
    """Return the power ``(1 + u)**p`` as a select that computes it by exp and log1p where ``abs(u) < 1/2``. Return None
    for other powers.

    This requires a divisor in `u` that occurs in `p`, as in ``(1 + r/m)**(m*t)``, or a factor of `u` that divides in
    `p`, as in ``(1 + c*u)**(-1/c)``.

    The rounding error of ``1 + u`` is multiplied by `p`, which is large where `u` is small.
    """
    u = excess_over_one(graph, power.args[0]) if power.op == "pow" and power.args[1].op != "const" else None
    if u is None:
        return None
    factors, inside = set(graph.factors(u)), reachable(power.args[1])
    divisors = {part.args[0] for part in factors if part.op == "pow" and part.args[1].op == "const"}
    below = {part.args[0] for part in inside if part.op == "pow" and part.args[1].op == "const"}
    if divisors.isdisjoint(inside) and below.isdisjoint(factors):
        return None
    near = graph.call(sympy.exp, (graph.mul((power.args[1], graph.call(log1p, (u,)))),))
    is_near = graph.compare("lt", graph.call(sympy.Abs, (u,)), graph.const(_HALF))
    return graph.select(is_near, near, power)


def power_less_one(graph: Graph, base: Node, exponent: Node) -> Node | None:
    """Return ``base**exponent - 1`` for the base ``1 + u`` by expm1 and log1p; None for other bases."""
    u = excess_over_one(graph, base)
    if u is None:
        return None
    near = graph.call(expm1, (graph.mul((exponent, graph.call(log1p, (u,)))),))
    if exponent.op == "const" and not isinstance(exponent.data, int):
        return near
    direct = graph.add((graph.pow(base, exponent), graph.const(-1)))
    return graph.select(graph.compare("lt", graph.zero, base), near, direct)


def value_less_tangent(graph: Graph, u: Node, p: Node) -> tuple[Node, Node]:
    """Return nodes for ``(1 + u)**p - 1 - p*u*(1 + u)**(p - 1)``, computed without cancellation for small ``u > -1``,
    and for the subtracted linear part, ``p*u*(1 + u)**(p - 1)``.

    With ``v = log1p(u)`` the first is ``p*exp(p*v)*(v - u/(1 + u)) - exp(p*v)*(expm1(-p*v) + p*v)``.
    """
    base, logarithm = graph.add((graph.one, u)), graph.call(log1p, (u,))
    exponent = graph.mul((p, logarithm))
    power, below = graph.call(sympy.exp, (exponent,)), graph.pow(base, graph.const(-1))
    first = _minus(graph, logarithm, graph.mul((u, below)))
    second = graph.add((graph.call(expm1, (graph.neg(exponent),)), exponent))
    value = _minus(graph, graph.mul((p, power, first)), graph.mul((power, second)))
    return value, graph.mul((p, u, graph.pow(base, graph.add((p, graph.const(-1))))))


def excess_over_one(graph: Graph, base: Node) -> Node | None:
    """Return ``u`` if `base` is a sum ``1 + u``; None for other nodes."""
    if base.op != "add" or graph.one not in base.args:
        return None
    return graph.add([arg for arg in base.args if arg is not graph.one])


def law_of_cosines(graph: Graph, node: Node) -> Node | None:
    """Return the sum `node`, which contains ``a**2 + b**2 - 2*a*b*cos(u)``, written with the sine of half the angle, so
    that it keeps its digits for small angles. None for other sums.
    """
    for term in node.args:
        cosine = next((part for part in graph.factors(term) if part.op == "call" and part.data is sympy.cos), None)
        if cosine is None:
            continue
        others = [part for part in graph.factors(term) if part is not cosine]
        factor, sides = _sides(graph, graph.scale(-_HALF, graph.mul(others)))
        if sides is None:
            continue
        squares = [graph.scale(factor, graph.pow(side, graph.const(2))) for side in sides]
        if all(square in node.args for square in squares):
            half = graph.pow(graph.call(sympy.sin, (graph.scale(_HALF, cosine.args[0]),)), graph.const(2))
            near = graph.mul((graph.const(4 * factor), *sides, half))
            rest = [arg for arg in node.args if arg is not term and arg not in squares]
            difference = graph.pow(_minus(graph, *sides), graph.const(2))
            return graph.add((*rest, graph.scale(factor, difference), near))
    return None


def _multiples_of_softplus(graph: Graph, node: Node) -> Iterator[tuple[Node, Node, Node]]:
    """Yield ``(term, c, value)`` for each term ``c*softplus(u)`` of the sum `node`; ``value`` is ``softplus(u)``."""
    for term in node.args:
        factors = graph.factors(term)
        value = next((part for part in factors if part.op == "call" and part.data is softplus), None)
        if value is not None:
            yield term, graph.mul([part for part in factors if part is not value]), value


def softplus_less_slope(graph: Graph, node: Node) -> Node | None:
    """Return the sum `node` with ``softplus(u) - u*sigmoid(u)``, the entropy of two states, written as ``softplus(-u) +
    u*sigmoid(-u)`` for positive u, so that it keeps its digits for large u. None for other sums.
    """
    for term, c, value in _multiples_of_softplus(graph, node):
        (u,) = value.args
        other = graph.mul((graph.const(-1), c, u, graph.call(sigmoid, (u,))))
        if other in node.args:
            opposite = graph.neg(u)
            shares = [graph.call(function, (opposite,)) for function in (softplus, sigmoid)]
            far = graph.add((shares[0], graph.mul((u, shares[1]))))
            near = graph.add((value, graph.mul((opposite, graph.call(sigmoid, (u,))))))
            rest = [arg for arg in node.args if arg is not term and arg is not other]
            return graph.add((*rest, graph.mul((c, graph.select(graph.compare("lt", graph.zero, u), far, near)))))
    return None


def logaddexp_in_parts(graph: Graph, node: Node) -> Node | None:
    """Return the sum `node` with ``c*softplus(u)`` computed as ``c*u + c*softplus(-u)`` for positive u, if other terms
    cancel a part of ``c*u``: ``x - softplus(x - y)`` becomes ``y - softplus(y - x)``. None for other sums.
    """
    for term, c, value in _multiples_of_softplus(graph, node):
        (u,) = value.args
        parts = _terms_multiplied_out(graph, graph.mul((c, u)))
        opposite = [graph.neg(part) for part in parts]
        own = [part for part in opposite if part in node.args]
        if not own or len(own) == len(parts):
            continue
        other = graph.mul((c, graph.call(softplus, (graph.neg(u),))))
        left = [part for part in parts if graph.neg(part) not in own]
        far, near = graph.add((other, *left)), graph.add((term, *own))
        rest = [arg for arg in node.args if arg is not term and arg not in own]
        return graph.add((*rest, graph.select(graph.compare("lt", graph.zero, u), far, near)))
    return None


def _terms_multiplied_out(graph: Graph, product: Node) -> list[Node]:
    """Return the terms of `product` after multiplying out its first factor that is a sum; ``[product]`` if no factor is
    one.
    """
    factors = graph.factors(product)
    total = next((part for part in factors if part.op == "add"), None)
    if total is None:
        return [product]
    rest = [part for part in factors if part is not total]
    return [graph.mul((*rest, part)) for part in total.args]


def log_of_mixture(graph: Graph, logarithm: Node) -> Node | None:
    """Return `logarithm`, which is ``log(exp(u) + c*expm1(u))``, computed by log1p where its argument is close to 1;
    None for other logarithms.

    ``log(p + (1 - p)*exp(u))`` has been rewritten to this form.
    """
    (argument,) = logarithm.args
    for power in argument.args if argument.op == "add" else ():
        if power.op != "call" or power.data is not sympy.exp:
            continue
        grown = graph.call(expm1, power.args)
        rest = [graph.factors(arg) for arg in argument.args if arg is not power]
        if all(grown in factors for factors in rest):
            shares = [graph.mul([part for part in factors if part is not grown]) for factors in rest]
            excess = graph.mul((graph.add((graph.one, *shares)), grown))
            is_near = graph.compare("lt", graph.call(sympy.Abs, (excess,)), graph.const(_HALF))
            return graph.select(is_near, graph.call(log1p, (excess,)), logarithm)
    return None


def common_difference(graph: Graph, node: Node) -> Node | None:
    """Factor a difference out of the addition `node`, if a power of it also occurs in another term: ``a - b + (a -
    b)**2*c`` becomes ``(a - b)*(1 + (a - b)*c)``. None for other additions.
    """
    for term in node.args if len(node.args) > 2 else ():
        for factor in graph.factors(term) if term.op == "mul" else ():
            base = factor.args[0] if factor.op == "pow" else factor
            is_power = factor.op != "pow" or (factor.args[1].op == "const" and factor.args[1].data in (2, 3, 4))
            if base.op != "add" or not is_power or len(base.args) != 2:
                continue
            first, second = map(graph.split_coefficient, base.args)
            if first[0] != -second[0]:
                continue
            for sign in (1, -1):
                own = [graph.scale(sign, arg) for arg in base.args]
                if all(arg in node.args for arg in own):
                    rest = graph.mul((term, graph.pow(base, graph.const(-1))))
                    joined = graph.mul((base, graph.add((graph.const(sign), rest))))
                    others = [arg for arg in node.args if arg is not term and arg not in own]
                    return graph.add((*others, joined))
    return None


def _sides(graph: Graph, product: Node) -> tuple[Number, tuple[Node, Node] | None]:
    """Return ``(number, (a, b))`` for a `product` ``number*a*b`` of two factors, the sides in the law of cosines;
    ``(number, None)`` for another product.
    """
    factor, base = graph.split_coefficient(product)
    sides = graph.factors(base)
    return factor, (sides[0], sides[1]) if len(sides) == 2 else None


def _minus(graph: Graph, a: Node, b: Node) -> Node:
    """Return ``a - b``."""
    return graph.add((a, graph.neg(b)))
