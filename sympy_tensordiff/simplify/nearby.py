"""Differences ``f(a) - f(b)`` at close arguments, rewritten so that no digits are lost.

Where ``d = a - b`` has fewer terms than ``a`` or ``b``, or is itself a difference that is rewritten::

    sin(a) - sin(b)                 2*cos((a + b)/2)*sin(d/2)
    cos(a) - cos(b)                 -2*sin((a + b)/2)*sin(d/2)
    exp(a) - exp(b)                 exp(b)*expm1(d)                         where abs(d) < 1
    sinh(a) - sinh(b)               2*cosh((a + b)/2)*sinh(d/2)
    cosh(a) - cosh(b)               2*sinh((a + b)/2)*sinh(d/2)
    tan(a) - tan(b)                 sin(d)/(cos(a)*cos(b))
    atan(a) - atan(b)               atan2(d, 1 + a*b)
    log(a) - log(b)                 log1p(d/b)                              where d is positive or abs(d/b) < 1/2
    log(a/b)                        log1p(d/b)                              where abs(d/b) < 1/2
    log(A) - log(B), A = Sum w*exp(a), B = Sum w*exp(b)      D = log1p(q), q = Sum w*exp(b)*expm1(d) / B
                                                             where -9/10 < q < 2**20
    exp(a)/A - exp(b)/B             exp(b)/B*expm1(d - D)                   where abs(d - D) < 1
    a*log(a) - b*log(b)             d*log(a) + b*log1p(d/b)                 where d is a positive number
                                                                            or abs(d/b) < 1/2

The cosine of ``(a + b)/2 = b + d/2`` is computed by the addition theorem where that angle is large: its sum has a
rounding error that grows with it.

Sums of three or more equal negative powers whose bases differ by numbers, as ``1/(x + 1) - 2/x + 1/(x - 1)``, become
quotients with the common denominator; the leading terms of the numerator cancel.

Source: Hamming 1987, *Numerical Methods for Scientists and Engineers*, chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product as product_of
from math import prod
from typing import Any

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.sign_analysis import sign_facts

_HALF = Fraction(1, 2)


Distance = Callable[[Node, Node], "Node | None"]
"""A function that returns ``a - b`` in a form that keeps its digits, None if it knows none."""

MAX_POLE_ORDER = 4
"""The highest order of the poles of sums that get a common denominator."""


def nearby(graph: Graph, factor: Number, one: Node, other: Node, distance: Distance) -> Node | None:
    """Return ``factor*(one - other)`` in a form that loses no digits, where `one` is ``f(a)`` and `other` is ``f(b)``
    for close a and b; None if there is no rule for f. ``distance(a, b)`` returns ``a - b`` accurately, or None.
    """
    if one.op == other.op == "mul":
        found = _difference_of_softmaxes(graph, one, other, distance)
        return _times_logarithm(graph, factor, one, other) if found is None else graph.scale(factor, found)
    (function, a), (own, b) = _function_and_argument(graph, one), _function_and_argument(graph, other)
    if function is not own or function not in _RULES:
        return None
    if function is sympy.log and a.op == b.op == "sum":
        value = _logarithms_of_sums(graph, a, b, distance)
        return None if value is None else graph.scale(factor, value)
    d = distance(a, b)
    if d is None:
        return None
    value = _RULES[function](graph, a, b, d)
    return None if value is None else graph.scale(factor, value)


def minus(graph: Graph, a: Node, b: Node) -> Node:
    """Return ``a - b`` with the terms of both in one addition, so that equal terms cancel."""
    terms, others = (part.args if part.op == "add" else (part,) for part in (a, b))
    return graph.add((*terms, *map(graph.neg, others)))


MAX_PRODUCT_TERMS = 16
"""Products that have more terms when they are multiplied out are not compared with single terms."""


def product_less_term(graph: Graph, product: Node, term: Node) -> Node | None:
    """Return ``product - term`` without cancellation if `term` is one of the terms of `product` multiplied out: ``(1 +
    u)*(1 + v) - 1`` is ``u*(1 + v) + v``. None for other terms, or if the product has too many.
    """
    factors = graph.factors(product)
    if prod(len(factor.args) for factor in factors if factor.op == "add") > MAX_PRODUCT_TERMS:
        return None
    if not _may_contain_term(graph, factors, term):
        return None
    choices = [
        (total, part, graph.mul([one for one in factors if one is not total]))
        for total in factors
        if total.op == "add"
        for part in total.args
    ]
    for total, part, rest in choices:
        if graph.mul((part, rest)) is term:
            return graph.mul((minus(graph, total, part), rest))
    for total, part, rest in choices:
        inner = graph.mul((part, rest))
        own = [one for one in graph.factors(inner) if one.op == "add"]
        if own and len(own) < sum(factor.op == "add" for factor in factors):
            found = product_less_term(graph, inner, term)
            if found is not None:
                return graph.add((graph.mul((minus(graph, total, part), rest)), found))
    return None


def _may_contain_term(graph: Graph, factors: Sequence[Node], term: Node) -> bool:
    """Return whether `term` may be one of the terms that result if sums among the `factors` are multiplied out. A quick
    test, which compares the exponents of the bases only: if it is False, `term` is none of them.
    """
    wanted = _exponents(graph, (term,))
    if wanted is None:
        return True
    alternatives = [(factor, *factor.args) if factor.op == "add" else (factor,) for factor in factors]
    for chosen in product_of(*alternatives):
        found = _exponents(graph, chosen)
        if found is None or found == wanted:
            return True
    return False


def _exponents(graph: Graph, factors: Sequence[Node]) -> dict[Node, Number] | None:
    """Return the product of `factors` as a dictionary from bases to nonzero exponents, without its numbers.

    None if it has exponentials, powers of products or exponents that are not numbers: products join these by other
    rules.
    """
    found: dict[Node, Number] = {}
    for factor in (part for one in factors for part in graph.factors(one)):
        base, exponent = factor, 1
        if factor.op == "pow":
            base, power = factor.args
            if power.op != "const" or base.op in ("mul", "const", "pow"):
                return None
            exponent = power.data
        elif factor.op == "const":
            continue
        if base.op not in ("read", "scalar", "add", "index", "call") or base.data is sympy.exp:
            return None
        found[base] = found.get(base, 0) + exponent
    return {base: exponent for base, exponent in found.items() if exponent}


def _function_and_argument(graph: Graph, node: Node) -> tuple[Any, Node]:
    """Return ``(function, argument)`` of a call; ``log1p(u)`` counts as the logarithm of ``1 + u``. ``(None, node)`` if
    `node` is not a call of one argument.
    """
    if node.op != "call" or len(node.args) != 1:
        return None, node
    if node.data is log1p:
        return sympy.log, graph.add((node.args[0], graph.one))
    return node.data, node.args[0]


def has_fewer_terms(difference: Node, argument: Node) -> bool:
    """Return whether `argument` is a sum with more terms than `difference`."""
    terms = len(difference.args) if difference.op == "add" else 1
    return argument.op == "add" and terms < len(argument.args)


def _middle(graph: Graph, a: Node, b: Node) -> Node:
    """Return ``(a + b)/2``."""
    return graph.scale(_HALF, graph.add((a, b)))


def _at_middle(graph: Graph, function: Any, a: Node, b: Node, d: Node) -> Node:
    """Return ``function((a + b)/2)``, where the function is sine or cosine, accurate also for large angles; `d` is ``a
    - b``.
    """
    middle = _middle(graph, a, b)
    value = graph.call(function, (middle,))
    exact = [(part, sign) for part, sign in ((b, 1), (a, -1)) if part.op != "add"]
    if graph.add((a, b)).op != "add" or not exact:
        return value
    start, sign = exact[0]
    half = graph.scale(_HALF * sign, d)
    sine, cosine = (graph.call(of, (start,)) for of in (sympy.sin, sympy.cos))
    step = [graph.call(of, (half,)) for of in (sympy.cos, sympy.sin)]
    terms = (sine, cosine) if function is sympy.sin else (cosine, graph.neg(sine))
    is_small = graph.compare("lt", graph.call(sympy.Abs, (middle,)), graph.one)
    return graph.select(is_small, value, graph.add(list(map(graph.mul, zip(terms, step, strict=True)))))


def _sines(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``sin(a) - sin(b)`` without cancellation; `d` is ``a - b``."""
    half = graph.call(sympy.sin, (graph.scale(_HALF, d),))
    return graph.scale(2, graph.mul((_at_middle(graph, sympy.cos, a, b, d), half)))


def _cosines(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``cos(a) - cos(b)`` without cancellation; `d` is ``a - b``."""
    half = graph.call(sympy.sin, (graph.scale(_HALF, d),))
    return graph.scale(-2, graph.mul((_at_middle(graph, sympy.sin, a, b, d), half)))


def _hyperbolic(of_middle: Any) -> Callable[[Graph, Node, Node, Node], Node]:
    """Return the rule for ``f(a) - f(b)``, where f is sinh or cosh: ``2*g((a + b)/2)*sinh((a - b)/2)``. The function g,
    given as `of_middle`, is cosh for sinh and sinh for cosh.
    """

    def rule(graph: Graph, a: Node, b: Node, d: Node) -> Node:
        """Return ``f(a) - f(b)`` without cancellation, for the function f whose rule this is; `d` is ``a - b``."""
        half = graph.call(sympy.sinh, (graph.scale(_HALF, d),))
        return graph.scale(2, graph.mul((graph.call(of_middle, (_middle(graph, a, b),)), half)))

    return rule


def _exponentials(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``exp(a) - exp(b)`` without cancellation; `d` is ``a - b``."""
    far = [graph.call(sympy.exp, (part,)) for part in (a, b)]
    near = graph.mul((far[1], graph.call(expm1, (d,))))
    is_near = graph.compare("lt", graph.call(sympy.Abs, (d,)), graph.one)
    return graph.select(is_near, near, graph.add((far[0], graph.neg(far[1]))))


def _tangents(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``tan(a) - tan(b)`` without cancellation; `d` is ``a - b``."""
    below = [graph.pow(graph.call(sympy.cos, (argument,)), graph.const(-1)) for argument in (a, b)]
    return graph.mul((graph.call(sympy.sin, (d,)), *below))


def _arctangents(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``atan(a) - atan(b)`` without cancellation; `d` is ``a - b``."""
    return graph.call(sympy.atan2, (d, graph.add((graph.one, graph.mul((a, b))))))


def _logarithms(graph: Graph, a: Node, b: Node, d: Node) -> Node:
    """Return ``log(a) - log(b)`` without cancellation, by log1p of a quotient; `d` is ``a - b``."""
    signs = sign_facts(graph, d).sign, sign_facts(graph, graph.neg(d)).sign
    sign, below = (-1, a) if signs[1] == 1 and signs[0] != 1 else (1, b)
    quotient = graph.mul((graph.scale(sign, d), graph.pow(below, graph.const(-1))))
    near = graph.scale(sign, graph.call(log1p, (quotient,)))
    if d.op == "const":
        return near
    # The quotient may be infinite, or close to -1.
    is_near = graph.compare("lt", quotient, graph.one)
    if 1 not in signs:
        is_near = graph.compare("lt", graph.call(sympy.Abs, (quotient,)), graph.const(_HALF))
    return graph.select(is_near, near, _difference_of_calls(graph, sympy.log, a, b))


def _difference_of_calls(graph: Graph, function: Any, a: Node, b: Node) -> Node:
    """Return ``function(a) - function(b)``, computed directly: the form for arguments that are not close, where no
    digits cancel.
    """
    return graph.add((graph.call(function, (a,)), graph.neg(graph.call(function, (b,)))))


def _logarithms_of_sums(graph: Graph, a: Node, b: Node, distance: Distance) -> Node | None:
    """Return ``log(a) - log(b)`` without cancellation for two sums of exponentials over one range with close exponents;
    None for other `a` and `b`. ``distance(u, v)`` returns ``u - v`` accurately, or None.
    """
    variables, rows, body = graph.open(a)
    others, own_rows, other = graph.open(b)
    renamed = {w: Affine.variable(v) for w, v in zip(others, variables, strict=False)}
    if len(others) != len(variables) or {row.substitute(renamed) for row in own_rows} != set(rows):
        return None
    other = graph.substitute(other, renamed)
    found = [_exponent(graph, one) for one in (body, other)]
    if found[0] is None or found[1] is None or found[0][1] is not found[1][1]:
        return None
    exponents = found[0][0], found[1][0]
    if has_fewer_terms(*exponents):  # those of fewest terms have the fewest rounding errors
        value = _logarithms_of_sums(graph, b, a, distance)
        return None if value is None else graph.neg(value)
    d = distance(*exponents)
    if d is None:
        return None
    part = graph.sum(variables, rows, graph.mul((other, graph.call(expm1, (d,)))))
    share = graph.mul((part, graph.pow(b, graph.const(-1))))
    far = [graph.call(sympy.log, (one,)) for one in (a, b)]
    return graph.select(
        is_log1p_better(graph, share), graph.call(log1p, (share,)), graph.add((far[0], graph.neg(far[1])))
    )


def is_log1p_better(graph: Graph, share: Node) -> Node:
    """Return a node that is true where ``log(1 + share)`` is more accurate as ``log1p(share)``: for a `share` between
    -0.9 and 2**20.
    """
    low, high = graph.const(Fraction(-9, 10)), graph.const(2**20)
    return graph.logic("and", (graph.compare("lt", low, share), graph.compare("lt", share, high)))


def _exponent(graph: Graph, product: Node) -> tuple[Node, Node] | None:
    """Return ``(u, w)`` for the product ``exp(u)*w``; None unless it has exactly one exponential as a factor."""
    factors = graph.factors(product)
    found = [factor for factor in factors if _is_exponential(factor)]
    rest = graph.mul([factor for factor in factors if factor not in found])
    return (found[0].args[0], rest) if len(found) == 1 else None


def _difference_of_softmaxes(graph: Graph, one: Node, other: Node, distance: Distance) -> Node | None:
    """Return ``one - other`` without cancellation if these are softmax values ``exp(a)/A`` and ``exp(b)/B``, where A
    and B are sums of exponentials with close exponents; None for other products. ``distance(a, b)`` returns ``a - b``
    accurately, or None.
    """
    found = []
    for product in (one, other):
        parts = _exponent(graph, product)
        below = [f for f in graph.factors(product) if _is_reciprocal(f) and f.args[0].op == "sum"]
        if parts is None or len(below) != 1:
            return None
        rest = graph.mul([f for f in graph.factors(parts[1]) if f is not below[0]])
        found.append((parts[0], below[0].args[0], rest))
    (a, above, factor), (b, below_b, same) = found
    if factor is not same or (d := distance(a, b)) is None:
        return None
    if has_fewer_terms(a, b):
        value = _difference_of_softmaxes(graph, other, one, distance)
        return None if value is None else graph.neg(value)
    logarithm = _logarithms_of_sums(graph, above, below_b, distance)
    if logarithm is None:
        return None
    step = graph.add((d, graph.neg(logarithm)))
    close = graph.mul((other, graph.call(expm1, (step,))))
    is_small = graph.compare("lt", graph.call(sympy.Abs, (step,)), graph.one)
    return graph.select(is_small, close, graph.add((one, graph.neg(other))))


def _is_exponential(node: Node) -> bool:
    """Return whether `node` is an exponential."""
    return node.op == "call" and node.data is sympy.exp


_RULES: dict[Any, Callable[[Graph, Node, Node, Node], Node | None]] = {
    sympy.exp: _exponentials,
    sympy.sinh: _hyperbolic(sympy.cosh),
    sympy.cosh: _hyperbolic(sympy.sinh),
    sympy.sin: _sines,
    sympy.cos: _cosines,
    sympy.tan: _tangents,
    sympy.atan: _arctangents,
    sympy.log: _logarithms,
}


def log_of_quotient(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(a/b)``, where ``argument`` is ``a/b``, in a form that computes ``log1p((a - b)/b)`` if a is close to
    b, so that no digits cancel. None unless b is a sum and ``a - b`` is short or exact near 0.

    ``a - b`` is short if it has fewer terms than a or b.
    """
    factors = argument.args if argument.op == "mul" else ()
    reciprocal = next((factor for factor in factors if _is_reciprocal(factor)), None)
    if reciprocal is None or len(factors) != 2:
        return None
    a, b = next(factor for factor in factors if factor is not reciprocal), reciprocal.args[0]
    difference = minus(graph, a, b)
    is_short = has_fewer_terms(difference, a) or has_fewer_terms(difference, b)
    if b.op != "add" or not (is_short or is_exact_near_zero(difference)):
        return None
    share = graph.mul((difference, reciprocal))
    is_near = graph.compare("lt", graph.call(sympy.Abs, (share,)), graph.const(_HALF))
    return graph.select(is_near, graph.call(log1p, (share,)), graph.call(sympy.log, (argument,)))


def is_exact_near_zero(difference: Node) -> bool:
    """Return whether `difference`, such as ``x - 1`` or ``2*x - 1``, is computed without a rounding error where it is
    close to 0.
    """
    terms = difference.args if difference.op == "add" else ()
    if len(terms) != 2 or not any(term.op == "const" for term in terms):
        return False
    (term,) = [term for term in terms if term.op != "const"] or [terms[0]]
    factors = term.args if term.op == "mul" else (term,)
    numbers = [abs(factor.data) for factor in factors if factor.op == "const"]
    return not factors[-1].args[1:] and (numbers or [1]) in ([1], [2]) and len(factors) - len(numbers) == 1


def _times_logarithm(graph: Graph, factor: Number, one: Node, other: Node) -> Node | None:
    """Return ``factor*(one - other)``, where ``one`` is ``a*log(a)`` and ``other`` is ``b*log(b)``, without
    cancellation if ``a - b`` has fewer terms than a; None for other products.
    """
    a, b = _under_logarithm(graph, one), _under_logarithm(graph, other)
    if a is None or b is None:
        return None
    d = minus(graph, a, b)
    if not has_fewer_terms(d, a):
        return None
    share = graph.mul((d, graph.pow(b, graph.const(-1))))
    near = graph.add((graph.mul((d, graph.call(sympy.log, (a,)))), graph.mul((b, graph.call(log1p, (share,))))))
    if d.op != "const" or d.data <= 0:
        is_near = graph.compare("lt", graph.call(sympy.Abs, (share,)), graph.const(_HALF))
        near = graph.select(is_near, near, minus(graph, one, other))
    return graph.scale(factor, near)


def _under_logarithm(graph: Graph, product: Node) -> Node | None:
    """Return ``a`` if `product` is ``a*log(a)``, else None."""
    if len(product.args) != 2:
        return None
    for a, logarithm in (product.args, product.args[::-1]):
        if _function_and_argument(graph, logarithm) == (sympy.log, a):
            return a
    return None


# ---------------------------------------------------------------------------- reciprocals


def reciprocals(graph: Graph, node: Node, terms: Sequence[tuple[Number, Node]]) -> Node | None:
    """Return a sum with three or more `terms` like ``1/(x - 1) - 2/x + 1/(x + 1)`` as one fraction without
    cancellation; None if the sum has no such terms.

    The terms are given as factors and bases.
    """
    order = next((_pole_order(base) for _, base in terms if _pole_order(base)), 0)
    found = [(factor, base.args[0]) for factor, base in terms if order and _pole_order(base) == order]
    if len(found) < 3:
        return None
    # The center is the base of fewest terms, as x among x + 1, x and x - 1.
    center = min((base for _, base in found), key=lambda base: (len(base.args) if base.op == "add" else 1, base.id))
    for n, (factor, base) in enumerate(found):  # of opposite sign, such as 1 - x for x + 1
        if graph.add((base, center)).op == "const":
            found[n] = factor * (-1) ** order, minus(graph, graph.zero, base)
    shifts = [minus(graph, base, center) for _, base in found]
    if sum(factor for factor, _ in found) != 0 or any(
        shift.op != "const" or not isinstance(shift.data, int | Fraction) for shift in shifts
    ):
        return None
    numerator = [Fraction(0)] * ((len(found) - 1) * order + 1)
    for n, (factor, _) in enumerate(found):
        product = [Fraction(factor)]
        for m, shift in enumerate(shifts):
            for _ in range(order if m != n else 0):
                product = _times_linear(product, Fraction(shift.data))
        numerator = [c + p for c, p in zip(numerator, product, strict=True)]
    value = graph.zero
    for c in reversed(numerator):
        value = graph.add((graph.mul((center, value)), graph.const(c.numerator if c.denominator == 1 else c)))
    below = [graph.pow(base, graph.const(-order)) for _, base in found]
    rest = [arg for arg, (_, base) in zip(node.args, terms, strict=True) if _pole_order(base) != order]
    return graph.add((*rest, graph.mul((value, *below))))


def _pole_order(base: Node) -> int:
    """Return n if `base` is ``x**-n`` with n of at most `MAX_POLE_ORDER`, else 0."""
    power = base.args[1].data if base.op == "pow" and base.args[1].op == "const" else 0
    return -power if isinstance(power, int) and -MAX_POLE_ORDER <= power < 0 else 0


def _is_reciprocal(base: Node) -> bool:
    """Return whether `base` is ``1/x``."""
    return _pole_order(base) == 1


def _times_linear(polynomial: Sequence[Fraction], shift: Fraction) -> list[Fraction]:
    """Return the coefficients, the constant first, of ``polynomial*(x + shift)``."""
    shifted = [shift * c for c in polynomial] + [Fraction(0)]
    return [c + below for c, below in zip(shifted, [Fraction(0), *polynomial], strict=True)]
