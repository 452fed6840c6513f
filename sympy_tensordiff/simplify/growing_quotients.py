"""Quotients of sums that are linear in one exponential, in a form that does not overflow.

``exp(u)/(c + b*expm1(u))``, as logistic growth is written, is infinity by infinity for large u. With ``w = -abs(u)``::

    exp(u)/(c + b*expm1(u))     1/(c*exp(w) - b*expm1(w))           where u > 0
                                exp(w)/(c + b*expm1(w))             elsewhere

Both are the same quotient: on the first line numerator and denominator are divided by ``exp(u)``. Other powers of the
sums and of ``exp(u)`` and ``expm1(u)`` are treated alike, if the numerator does not grow faster than the denominator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sympy
from sympy.codegen.cfunctions import expm1

from sympy_tensordiff.graph.nodes import Graph, Node

_FUNCTIONS = (sympy.exp, expm1)


class _Forms(NamedTuple):
    """A power of a sum that is linear in ``exp(u)``, in two forms: ``far`` for ``u > 0``, divided by
    ``exp(abs(degree)*u)`` so that it does not overflow, and ``near`` for other u.

    For a divisor ``1/d``, the degree is negative, and the forms are those of ``d``.
    """

    far: Node
    near: Node
    degree: int


def with_bounded_growth(graph: Graph, product: Node) -> Node:
    """Rewrite a product with a divisor that is linear in ``expm1(u)``, such as ``exp(u)/(a + expm1(u))``, in a form
    that does not overflow for large u. Return `product` itself if it has no such divisor, grows with u, or cannot
    overflow.
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
    0``, divided by a power of ``exp(u)`` that grows as fast, and one for other u. `w` is ``-abs(u)``. None for another
    form.

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


def _exponent(factor: Node) -> int:
    """Return n if `factor` is a power ``x**n`` with an integer n, and 0 if it is a power with another exponent. Any
    other node counts as a first power: return 1.
    """
    if factor.op != "pow":
        return 1
    exponent = factor.args[1].data if factor.args[1].op == "const" else 0
    return exponent if isinstance(exponent, int) else 0
