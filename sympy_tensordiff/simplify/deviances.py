"""Deviances and logarithms of quotients, which are small differences where the two values of a quotient are close.

With ``g(u) = u - log1p(u)``, and values whose difference ``a - b`` is that of two letters or numbers, as of ``x`` and
``y``, ``1 - x`` and ``1 - y``, ``2*x`` and ``x + y``::

    log(a/b)                        log1p((a - b)/b) where a/b >= 1, else -log1p((b - a)/a)
    c*a*log(a/b)                    c*(a - b) + c*a*g((b - a)/a)
    c*log(a/b)                      c*(a - b)/b - c*g((a - b)/b)
    w*a/b - w                       w*(a - b)/b, also where a - b has fewer terms than b
    a/b - c/d                       (a - b)*(1/b + 1/d)         where a - b = d - c

Logarithms are read as ``log((a/b)**n)/n`` too, with n = -1, 2 and -2. The second and third are used where the first
terms on the right cancel all other terms of a sum: those are the deviances of Poisson, gamma and Bernoulli
distributions, and Kullback-Leibler and Jensen-Shannon divergences. For small ``u``, ``g(u)`` is computed from ``r =
u/(2 + u)`` as ``u*r - 2*r**3*(1/3 + r**2/5 + r**4/7 + ...)``.

Source: Loader 2000, *Fast and Accurate Computation of Binomial Probabilities*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import sympy
from sympy.codegen.cfunctions import log1p

from sympy_tensordiff.graph.nodes import Graph, Node

_HALF = Fraction(1, 2)

_SERIES_TERMS = 16
"""The terms of the series of ``g``: for ``abs(u) < 1/2``, the next one is 1e-17 of the sum."""


def exact_difference(graph: Graph, a: Node, b: Node) -> Node | None:
    """Return ``a - b`` if it is a multiple of the difference of two inputs (tensor entries, scalars or numbers); else
    None. Such a difference has no rounding error if the inputs are close.
    """
    difference = graph.add((*_terms(a), *map(graph.neg, _terms(b))))
    parts = [graph.split_coefficient(term) for term in difference.args] if difference.op == "add" else []
    is_plain = len(parts) == 2 and all(base.op in ("read", "scalar", "const") for _, base in parts)
    return difference if is_plain and parts[0][0] == -parts[1][0] else None


def log_of_close_quotient(graph: Graph, argument: Node) -> Node | None:
    """Return ``log(a/b)`` by `log1p`, accurate where a is close to b; `argument` is ``a/b``. None unless ``a - b`` is
    exact there, being a multiple of the difference of two inputs.
    """
    quotient = _quotient(graph, argument)
    if quotient is None:
        return None
    a, b, difference = quotient
    above, below = graph.mul((difference, _inverse(graph, b))), graph.mul((graph.neg(difference), _inverse(graph, a)))
    is_less = graph.compare("lt", above, graph.zero)
    value = graph.call(log1p, (graph.select(is_less, below, above),))
    return graph.select(is_less, graph.neg(value), value)


def deviance(graph: Graph, node: Node, arguments: Mapping[Node, Node]) -> Node | None:
    """Rewrite the sum `node`, such as ``a*log(a/b) - a + b``, to a form that is accurate for ``a`` close to ``b``, by
    the function ``g(u) = u - log1p(u)``. Return None for other sums.

    `arguments` maps logarithms that are already rewritten to their quotients ``a/b``.

    The other terms of the sum must cancel the linear parts of the logarithms.
    """
    if not any(_argument(part, arguments) is not None for term in node.args for part in graph.factors(term)):
        return None
    found = (_deviance_in_powers(graph, node, arguments, power) for power in (1, -1, 2, -2))
    return next((one for one in found if one is not None), None)


def _deviance_in_powers(graph: Graph, node: Node, arguments: Mapping[Node, Node], power: int) -> Node | None:
    """Rewrite the sum `node`, such as ``a*log(a/b) - a + b``, to a form that is accurate for ``a`` close to ``b``.
    Return None unless other terms cancel the linear parts of its logarithms.

    Each ``log(a/b)`` is treated as ``log((a/b)**power)/power``; ``arguments`` maps rewritten logarithms to ``a/b``.
    """
    logarithms: list[tuple[Node, Node, Node, Node]] = []  # terms, their linear parts, c and u of the rest c*g(u)
    others: list[Node] = []
    rest: list[Node] = []
    for term in node.args:
        factors = graph.factors(term)
        logarithm = next((part for part in factors if _argument(part, arguments) is not None), graph.one)
        argument = _argument(logarithm, arguments)
        quotient = None if argument is None else _quotient(graph, argument) or _multiple(graph, argument)
        if quotient is None:
            others += _distributed(graph, term)
            continue
        a, b, difference = _to_power(graph, quotient, power)
        outside = graph.scale(Fraction(1, power), graph.mul([part for part in factors if part is not logarithm]))
        share = graph.mul((outside, _inverse(graph, a)))
        if _has_divisor(graph, share):  # c*log(a/b)
            u = graph.mul((difference, _inverse(graph, b)))
            logarithms.append((term, graph.mul((outside, u)), graph.neg(outside), u))
            rest += [graph.mul((outside, part, _inverse(graph, b))) for part in _terms(a)] + [graph.neg(outside)]
        else:
            u = graph.mul((graph.neg(difference), _inverse(graph, a)))
            logarithms.append((term, graph.mul((share, difference)), outside, u))
            rest += [graph.mul((share, part)) for part in (*_terms(a), *map(graph.neg, _terms(b)))]
    if not logarithms:
        return None
    left = [part for part in _terms(graph.add((*others, *rest))) if part is not graph.zero]
    if left and not set(left) < set(others):
        return None
    values = left
    for term, linear, outside, u in logarithms:
        is_near = graph.compare("lt", graph.call(sympy.Abs, (u,)), graph.const(_HALF))
        near, far = graph.mul((outside, _g(graph, u))), graph.add((term, graph.neg(linear)))
        values.append(graph.select(is_near, near, far))
    return graph.add(values)


def quotient_less_one(graph: Graph, one: Node, other: Node) -> Node | None:
    """Return ``one - other`` without cancellation as ``other*(a - b)/b``, if the quotient ``one/other`` is ``a/b`` and
    ``a - b`` is exact or has fewer terms than ``b``. None for other nodes, or if the result has more divisors than
    `one` and `other`.
    """
    if not (_has_divisor(graph, one) or _has_divisor(graph, other)):
        return None
    ratio = graph.mul((one, _inverse(graph, other)))
    quotient = _quotient(graph, ratio)
    if quotient is None:
        divisor = next((part for part in graph.factors(ratio) if _is_divisor(part) and part.args[1].data == -1), None)
        if divisor is None or divisor.args[0].op != "add":
            return None
        above = graph.mul([part for part in graph.factors(ratio) if part is not divisor])
        quotient = above, divisor.args[0], graph.add((*_terms(above), *map(graph.neg, divisor.args[0].args)))
        if len(_terms(quotient[2])) >= len(divisor.args[0].args):
            return None
    a, b, difference = quotient
    # Without these divisors it is a difference of two products.
    if not any(_is_divisor(part) and part.args[0] in (a, b) for term in (one, other) for part in graph.factors(term)):
        return None
    result = graph.mul((other, _inverse(graph, b), difference))
    return result if _degree(graph, result) <= max(_degree(graph, one), _degree(graph, other)) else None


def difference_of_quotients(graph: Graph, one: Node, other: Node) -> Node | None:
    """Return ``a/b - c/d``, the difference of `one` and `other`, as ``(a - b)*(1/b + 1/d)``, which does not cancel.
    None unless ``a - b`` equals ``d - c`` and is a multiple of the difference of two inputs.
    """
    first, second = _quotient(graph, one), _quotient(graph, other)
    if first is None or second is None or graph.add((*first[2].args, *second[2].args)) is not graph.zero:
        return None
    return graph.mul((first[2], graph.add((_inverse(graph, first[1]), _inverse(graph, second[1])))))


def zero_times_logarithm(graph: Graph, product: Node, arguments: dict[Node, Node]) -> Node:
    """Return a product such as ``a*log(a/b)`` with the logarithm replaced by 1 where ``a`` is 0, so that the product is
    0 there, not nan. `arguments` maps logarithms to their arguments; the new factor is added to it.

    Other products stay as they are.
    """
    factors = graph.factors(product)
    for factor in factors:
        above = graph.factors(arguments[factor]) if factor in arguments else ()
        base = next((part for part in factors if part is not factor and part in above and part.op != "const"), None)
        if base is not None and factor.args[1] is not graph.one:
            finite = graph.select(graph.compare("eq", base, graph.zero), graph.one, factor)
            arguments[finite] = arguments[factor]
            return graph.mul([finite if part is factor else part for part in factors])
    return product


def _quotient(graph: Graph, node: Node) -> tuple[Node, Node, Node] | None:
    """Return ``(a, b, a - b)`` for the quotient `node`, ``a/b``, if ``a - b`` is a multiple of the difference of two
    inputs, so that it is exact for close inputs. None for other nodes.
    """
    divisors = [part for part in graph.factors(node) if _is_divisor(part)]
    if node.shape or len(divisors) != 1 or divisors[0].args[1].data != -1:
        return None
    a, b = graph.mul([part for part in graph.factors(node) if part is not divisors[0]]), divisors[0].args[0]
    difference = exact_difference(graph, a, b)
    return None if difference is None else (a, b, difference)


def _to_power(graph: Graph, quotient: tuple[Node, Node, Node], power: int) -> tuple[Node, Node, Node]:
    """Return the triple ``(a, b, a - b)`` of a quotient ``a/b`` after raising it to the `power` 1, 2, -1 or -2: for the
    square it is ``(a**2, b**2, (a - b)*(a + b))``.
    """
    a, b, difference = quotient
    if abs(power) == 2:
        difference = graph.mul((difference, graph.add((a, b))))
        a, b = graph.pow(a, graph.const(2)), graph.pow(b, graph.const(2))
    return (a, b, difference) if power > 0 else (b, a, graph.neg(difference))


def _argument(logarithm: Node, arguments: Mapping[Node, Node]) -> Node | None:
    """Return ``x`` for a logarithm ``log(x)``. For a logarithm in another form, return the argument to which
    ``arguments`` maps it; None for other nodes.
    """
    own = logarithm.args[0] if logarithm.op == "call" and logarithm.data is sympy.log else None
    return arguments.get(logarithm, own)


def _multiple(graph: Graph, node: Node) -> tuple[Node, Node, Node] | None:
    """Return ``(a, b, a - b)`` with ``b = 1/q`` if `node` is ``q*a``, a number times an array entry or scalar: `node`
    is then treated as the quotient ``a/b``. None for other nodes.
    """
    factor, a = graph.split_coefficient(node)
    if a.op not in ("read", "scalar") or not isinstance(factor, int | Fraction):
        return None
    b = _inverse(graph, graph.const(factor))
    return a, b, graph.add((a, graph.neg(b)))


def _g(graph: Graph, u: Node) -> Node:
    """Return a formula for ``u - log1p(u)``, a series that is accurate for small `u`."""
    r = graph.mul((u, _inverse(graph, graph.add((graph.const(2), u)))))
    square, series = graph.pow(r, graph.const(2)), graph.zero
    for k in reversed(range(_SERIES_TERMS)):
        series = graph.add((graph.const(Fraction(1, 2 * k + 3)), graph.mul((square, series))))
    return graph.mul((r, graph.add((u, graph.scale(-2, graph.mul((square, series)))))))


def _distributed(graph: Graph, term: Node) -> Iterator[Node]:
    """Yield the terms of `term` multiplied out if it is a product with a sum as a factor, else `term` itself."""
    factors = graph.factors(term)
    total = next((part for part in factors if part.op == "add"), graph.one)
    others = [part for part in factors if part is not total]
    yield from (graph.mul((*others, part)) for part in _terms(total)) if total.op == "add" else (term,)


def _terms(node: Node) -> tuple[Node, ...]:
    """Return the terms of `node` if it is a sum, otherwise ``(node,)``."""
    return node.args if node.op == "add" else (node,)


def _inverse(graph: Graph, node: Node) -> Node:
    """Return ``1/node``."""
    return graph.pow(node, graph.const(-1))


def _is_divisor(node: Node) -> bool:
    """Return whether `node` is a power with a negative number as exponent."""
    return node.op == "pow" and node.args[1].op == "const" and bool(node.args[1].data < 0)


def _has_divisor(graph: Graph, product: Node) -> bool:
    """Return whether a factor of `product` is a power with a negative constant exponent, such as ``1/x``."""
    return any(map(_is_divisor, graph.factors(product)))


def _degree(graph: Graph, product: Node) -> Fraction:
    """Return the degree of the denominator of `product`: the sum of the exponents of its divisors, 3 for
    ``x/(y*z**2)``.
    """
    return sum((-Fraction(part.args[1].data) for part in graph.factors(product) if _is_divisor(part)), Fraction(0))
