"""Quotients of sums that are linear in one exponential, in a form that does not overflow.

``exp(u)/(c + b*expm1(u))``, as logistic growth is written, is infinity by infinity for large u. With ``w = -abs(u)``::

    exp(u)/(c + b*expm1(u))     1/(c*exp(w) - b*expm1(w))           where u > 0
                                exp(w)/(c + b*expm1(w))             elsewhere

Both are the same quotient: on the first line numerator and denominator are divided by ``exp(u)``. Other powers of the
sums and of ``exp(u)`` and ``expm1(u)`` are treated alike, if the numerator does not grow faster than the denominator.

An exponential in front of a sum of such quotients is infinity by 0 for large u. It is multiplied in, if that bounds
each term: ``exp(u)*(a/expm1(u) + b*sigmoid(-u))`` is ``b*sigmoid(u) - a/expm1(-u)``. The terms keep their ratios, so
that their sum loses no more digits than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sympy
from sympy.codegen.cfunctions import expm1

from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.growing_functions import is_call

_FUNCTIONS = (sympy.exp, expm1)

MAX_DEGREE = 4
"""Exponentials of larger multiples stay as they are."""

_MAX_TERMS = 6
"""No exponential is multiplied into longer sums."""


class _Forms(NamedTuple):
    """A power of a sum that is linear in ``exp(u)``, in two forms: ``far`` for ``u > 0``, divided by
    ``exp(abs(degree)*u)`` so that it does not overflow, and ``near`` for other u.

    For a divisor ``1/d``, the degree is negative, and the forms are those of ``d``.
    """

    far: Node
    near: Node
    degree: int


def with_bounded_growth(graph: Graph, product: Node) -> Node:
    """Rewrite a product with a divisor that is linear in ``expm1(u)``, such as ``exp(u)/(a + expm1(u))``, so that it
    does not overflow for large u. Return it unchanged if it has no such divisor, grows with u, or cannot overflow.
    """
    for divisor in product.args:
        exponent = _exponent(divisor)
        if exponent < 0 and divisor.args[0].op == "add":
            terms = [part for term in divisor.args[0].args for part in graph.factors(term)]
            for u in dict.fromkeys(part.args[0] for part in terms if part.op == "call" and part.data is expm1):
                found = _bounded(graph, product.args, u)
                if found is not None:
                    return found
    return product


def with_bounded_terms(graph: Graph, product: Node) -> Node:
    """Multiply the factor ``exp(m*u)`` of a product, with a whole number m, into a sum that is another factor, if no
    term of the sum then grows with u, as in ``exp(u)*(a/expm1(u) + sigmoid(-u))``. Return another product unchanged.
    """
    others = [arg for arg in product.args if not is_call(arg, sympy.exp)]
    has_place = any(_base(arg).op == "call" and _base(arg).data in (sigmoid, expm1) for arg in others)
    has_place = has_place or any(arg.op == "add" and any(map(_may_fall, arg.args)) for arg in others)
    if len(others) == len(product.args) or not has_place or not any(map(_may_fall, others)):
        return product
    for growing in (arg for arg in product.args if is_call(arg, sympy.exp)):
        degree, u = graph.split_coefficient(growing.args[0])
        if isinstance(degree, int) and abs(degree) <= MAX_DEGREE:
            u, degree = (u, degree) if degree > 0 else (graph.neg(u), -degree)
            factors = [arg for arg in product.args if arg is not growing]
            found = _in_sums(graph, u, degree, factors) or (
                _opposite(graph, u, degree, factors) if degree > 1 else None
            )
            if found is not None:
                return found
    return product


def _in_sums(graph: Graph, u: Node, degree: int, factors: Sequence[Node]) -> Node | None:
    """Return the product of ``exp(degree*u)`` and `factors` with the exponential multiplied into a sum among the
    factors: the first one whose terms do not grow with u after that. None without such a sum.
    """
    for total in (factor for factor in factors if factor.op == "add" and len(factor.args) <= _MAX_TERMS):
        terms = [_times_exponential(graph, u, degree, term) for term in total.args]
        known = [term for term in terms if term is not None]
        if len(known) == len(terms):
            return graph.mul((*(factor for factor in factors if factor is not total), graph.add(known)))
    return None


def _times_exponential(graph: Graph, u: Node, degree: int, term: Node) -> Node | None:
    """Return ``exp(degree*u)*term`` in a form without overflow, if `term` has divisors that grow at least as fast with
    `u`; else None.
    """
    factors = list(graph.factors(term))
    if not _may_fall(term) and not any(is_call(factor, sympy.exp) for factor in factors):
        return None
    for factor in graph.factors(term):
        number, base = graph.split_coefficient(factor.args[0]) if is_call(factor, sympy.exp) else (0, u)
        if base is u and isinstance(number, int) and number:
            degree += number
            factors.remove(factor)
    if not 0 < degree <= MAX_DEGREE:
        return graph.mul((*factors, graph.call(sympy.exp, (graph.scale(degree, u),)))) if degree <= 0 else None
    return (
        _opposite(graph, u, degree, factors)
        or _in_sums(graph, u, degree, factors)
        or _bounded(graph, (*factors, *[graph.call(sympy.exp, (u,))] * degree), u)
    )


def _opposite(graph: Graph, u: Node, degree: int, factors: Sequence[Node]) -> Node | None:
    """Return the product of ``exp(degree*u)`` and `factors` without the exponential, by ``exp(u)/expm1(u) =
    -1/expm1(-u)`` or ``exp(u)*sigmoid(-u) = sigmoid(u)``, applied `degree` times to one factor. None if no factor has
    ``expm1(u)`` as divisor, or ``sigmoid(-u)``, to a power of at least `degree`.
    """
    if not any(_base(factor).op == "call" and _base(factor).data in (sigmoid, expm1) for factor in factors):
        return None
    minus = graph.neg(u)
    opposite = {graph.call(sigmoid, (minus,)): (graph.call(sigmoid, (u,)), 1)}
    opposite[graph.call(expm1, (u,))] = graph.call(expm1, (minus,)), -1
    for factor in factors:
        base = _base(factor)
        other, sign = opposite.get(base, (base, 0))
        if sign * _exponent(factor) >= degree:
            power = graph.const(sign * degree)
            rest = [part for part in factors if part is not factor]
            left = graph.pow(base, graph.const(_exponent(factor) - sign * degree))
            return graph.mul((*rest, graph.pow(graph.scale(sign, other), power), left))
    return None


def _bounded(graph: Graph, factors: Sequence[Node], u: Node) -> Node | None:
    """Return the product of `factors` in a form without overflow for large u: growing exponentials of u cancel, so that
    only ``exp(-abs(u))`` is left. None if the product itself grows with u, or if no factor does.
    """
    w = graph.neg(graph.call(sympy.Abs, (u,)))
    rest: list[Node] = []
    found: list[_Forms] = []
    for factor in factors:
        forms = _forms(graph, factor, u, w)
        if forms is None:
            rest.append(factor)
        else:
            found.append(forms)
    degree = sum(forms.degree for forms in found)
    if degree > 0 or not any(forms.degree > 0 for forms in found):
        return None
    is_positive = graph.compare("lt", graph.zero, u)
    below = graph.pow(graph.call(sympy.exp, (w,)), graph.const(-degree))
    far = [graph.mul([forms.far for forms in found if forms.degree > 0]), below]
    near = [forms.near for forms in found if forms.degree > 0]
    above = graph.select(is_positive, graph.mul(far), graph.mul(near))
    divisors = [graph.select(is_positive, forms.far, forms.near) for forms in found if forms.degree < 0]
    inverse = [graph.pow(divisor, graph.const(-1)) for divisor in divisors]
    return graph.mul((*rest, above, *inverse))


def _forms(graph: Graph, factor: Node, u: Node, w: Node) -> _Forms | None:
    """Return two formulas for `factor`, a power of a sum that is linear in ``exp(u)`` or ``expm1(u)``: one for ``u >
    0``, divided by a power of ``exp(u)`` that grows as fast, and one for other u. None for another form.

    `w` is ``-abs(u)``.

    For a divisor ``1/d``, these are the formulas of ``d``.
    """
    exponent = _exponent(factor)
    base = factor.args[0] if factor.op == "pow" else factor
    if exponent == 0 or u not in _arguments(graph, base):
        return None
    exponential, less_one = (graph.call(function, (w,)) for function in _FUNCTIONS)
    far, near = [], []
    for term in base.args if base.op == "add" else (base,):
        factors = graph.factors(term)
        value = next((part for part in factors if _is_growing(part) and part.args[0] is u), None)
        c = graph.mul([part for part in factors if part is not value])
        if any(_is_growing(part) for part in graph.factors(c)):
            return None  # another exponential may grow as well
        if value is None:
            far.append(graph.mul((c, exponential)))
            near.append(c)
        elif value.data is sympy.exp:
            far.append(c)
            near.append(graph.mul((c, exponential)))
        else:
            far.append(graph.mul((graph.const(-1), c, less_one)))
            near.append(graph.mul((c, less_one)))
    power = graph.const(abs(exponent))
    return _Forms(graph.pow(graph.add(far), power), graph.pow(graph.add(near), power), exponent)


def _arguments(graph: Graph, base: Node) -> list[Node]:
    """Return each u with a term ``c*exp(u)`` or ``c*expm1(u)`` in `base`, in the order of the terms."""
    terms = base.args if base.op == "add" else (base,)
    found = [part for term in terms for part in graph.factors(term) if _is_growing(part)]
    return list(dict.fromkeys(part.args[0] for part in found))


def _is_growing(node: Node) -> bool:
    """Return whether `node` is ``exp(u)`` or ``expm1(u)``."""
    return node.op == "call" and node.data in _FUNCTIONS


def _base(factor: Node) -> Node:
    """Return the base of a power; another factor unchanged."""
    return factor.args[0] if factor.op == "pow" else factor


def _may_fall(node: Node) -> bool:
    """Return whether `node` has a divisor, a sigmoid or a sum of these among its factors, so that it may be small where
    an exponential is large.
    """
    factors = node.args if node.op == "mul" else (node,)
    return any(
        _exponent(part) < 0
        or (_base(part).op == "call" and _base(part).data is sigmoid)
        or (part.op == "add" and all(map(_may_fall, part.args)))
        for part in factors
    )


def _exponent(factor: Node) -> int:
    """Return n if `factor` is a power ``x**n`` with an integer n, and 0 if it is a power with another exponent. Any
    other node counts as a first power: return 1.
    """
    if factor.op != "pow":
        return 1
    exponent = factor.args[1].data if factor.args[1].op == "const" else 0
    return exponent if isinstance(exponent, int) else 0
