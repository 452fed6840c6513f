"""Products in which a function of an exponential decays faster than other factors grow::

    exp(m*w)*f(exp(w))      min(exp(w), 2**60)**m * f(exp(w))

with a function f such as ``exp(-v)``, ``1/cosh(v)`` or ``1/expm1(v)``. Where ``exp(w)`` overflows, the product is 0,
and would be infinity by 0: so it is in the gradients of ``exp(-exp(w))``, of Gumbel's density and of
``x*tanh(exp(x))``.

The other factors may be sums, such as ``exp(w) - 1``. The exponent of f may have more terms than ``-c*exp(w)``: if
these balance it beyond `_LIMIT`, the rounding error of their sum is above 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy
from sympy.codegen.cfunctions import expm1

from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.growing_functions import is_call

_GROWING = (sympy.exp, expm1)

_DECAYING: dict[Any, tuple[int, ...]] = {sympy.exp: (-1,), sigmoid: (-1,), sympy.erfc: (1,)}
"""Functions that decay for large arguments of the sign given."""

_RECIPROCALS: dict[Any, tuple[int, ...]] = {sympy.exp: (1,), expm1: (1,), sympy.cosh: (1, -1), sympy.sinh: (1, -1)}
"""Functions whose reciprocals do."""

_LIMIT = 2**60
"""All functions of `_DECAYING` are 0 from here on; squares of this number do not overflow in single precision."""

_LEAST_FACTOR = 2.0**-6
"""Exponentials with smaller factors in a function's argument are not looked at."""


class DoubleExponentials:
    """The rule for products of ``exp(w)`` and a function that decays with ``exp(w)``, such as ``exp(w)*exp(-exp(w))``:
    where ``exp(w)`` overflows, the product is computed as 0 and not NaN. It also looks into the formulas of stored
    tensors.
    """

    def __init__(self, graph: Graph, tables: Mapping[Node, Node]) -> None:
        """Take the `graph` of the products and `tables`, a dictionary from stored tensors to their formulas."""
        self.graph = graph
        self.tables = tables
        self.is_seen: dict[Node, bool] = {}
        """Whether entries of a stored tensor are exponentials or decaying functions of such."""

    def limited(self, product: Node) -> Node:
        """Return `product` with exponentials ``exp(w)`` replaced by ``min(exp(w), 2**60)`` if another factor is a
        decaying function of ``exp(w)``. Another product is unchanged.
        """
        for factor in product.args:
            for w in self.exponents_in(factor):
                others = [self.with_limits(other, w) for other in product.args if other is not factor]
                found = self.graph.mul((factor, *others))
                if found is not product:
                    return found
        return product

    def entry(self, node: Node) -> Node:
        """Return the formula of an entry of a stored tensor, if it is an exponential or has a factor that is a decaying
        function of one; another node unchanged.
        """
        table = self.tables.get(node.args[0]) if node.op == "read" else None
        if table is None or table.op != "comprehension":
            return node
        if table not in self.is_seen:
            self.is_seen[table] = False  # no tensor reads itself
            body = table.args[0]
            self.is_seen[table] = _is_growing(body) or next(self.exponents_in(body), None) is not None
        return self.graph.entry(table, node.data) if self.is_seen[table] else node

    def exponents_in(self, product: Node) -> Iterator[Node]:
        """Yield the exponents w for which a factor of `product` is a decaying function of ``exp(w)``."""
        for factor in self.graph.factors(product):
            entry = self.entry(factor)
            for part in (factor,) if entry is factor else self.graph.factors(entry):
                yield from self.exponents_of(part)

    def exponents_of(self, factor: Node) -> Iterator[Node]:
        """Yield the exponents w for which `factor` is a decaying function of ``exp(w)``."""
        base, signs = factor, _DECAYING
        if factor.op == "pow" and factor.args[1].op == "const":
            base, signs = factor.args[0], _DECAYING if factor.args[1].data > 0 else _RECIPROCALS
        if base.op != "call" or base.data not in signs:
            return
        (total,) = base.args
        factor_of_total: Number = 1
        if total.op == "mul" and len(total.args) == 2 and any(arg.op == "add" for arg in total.args):
            factor_of_total, total = self.graph.split_coefficient(total)  # as in -(x + exp(w))
        terms = total.args if total.op == "add" else (total,)
        grown = [term for term in terms if any(_is_growing(self.entry(part)) for part in self.graph.factors(term))]
        if len(grown) == 1:
            number, rest = self.graph.split_coefficient(grown[0])
            exponential = self.entry(rest)
            number *= factor_of_total
            if _is_growing(exponential) and any(sign * number >= _LEAST_FACTOR for sign in signs[base.data]):
                yield exponential.args[0]

    def with_limits(self, node: Node, w: Node) -> Node:
        """Return `node` with ``exp(w)``, ``expm1(w)`` and their roots limited to at most `_LIMIT`, and ``exp(p*w)``
        with ``1 < p <= 2`` to at most ``_LIMIT**2``.
        """
        graph, done = self.graph, dict[Node, Node]()
        limits = [graph.const(_LIMIT), graph.const(_LIMIT**2)]
        scale, base = graph.split_coefficient(w)
        for part in reachable(node):
            is_limited = is_call(part, sympy.Min) and part.args[-1] in limits
            done[part] = part if part.shape or is_limited else graph.with_args(part, [done[arg] for arg in part.args])
            entry = self.entry(part)
            if _is_growing(entry):
                own, other = graph.split_coefficient(entry.args[0])
                power = 1 if entry.args[0] is w else own / scale if other is base else 0
                if 0 < power <= 2:
                    done[part] = graph.call(sympy.Min, (part, limits[power > 1]))
        return done[node]


def _is_growing(node: Node) -> bool:
    """Return whether `node` is ``exp(w)`` or ``expm1(w)``."""
    return node.op == "call" and node.data in _GROWING
