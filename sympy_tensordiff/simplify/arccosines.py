"""Quotients of an angle and its sine, such as ``acos(c)/sqrt(1 - c**2)``, written so that they are finite at 0/0.

The slope of ``acos(u)`` is infinite at ``u = 1``; that of ``acos(u)**2``, a squared distance on a sphere, is -2 there.
For numbers and whole tensors, with the angle ``t = acos(u)``, whose sine is ``sqrt(1 - u**2)``::

    t/sqrt(1 - u**2)             1/sinc(t)
    (t - pi)/sqrt(1 - u**2)      -1/sinc(acos(-u))
    jn(m, t)/sqrt(1 - u**2)      (jn(m - 1, t) + jn(m + 1, t))/((2*m + 1)*sinc(t)),  m odd

and sums of products with such terms.
The derivatives of ``sinc`` are spherical Bessel functions, so that derivatives of the right sides are finite, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import sympy

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.logistic import PairJoiner


def with_finite_quotients(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with quotients like ``acos(c)/sqrt(1 - c**2)``, 0/0 at ``c = 1``, written with ``sinc``."""
    parts = reachable(*roots)
    if not any(part.op == "call" and part.data is sympy.acos for part in parts):
        return list(roots)
    work = _Quotients(graph)
    done: dict[Node, Node] = {}
    for part in parts:
        done[part] = work.form(graph.with_args(part, [done[arg] for arg in part.args]))
    return [done[root] for root in roots]


class _Quotients(PairJoiner):
    """The rules that rewrite ``acos(c)/sqrt(1 - c**2)`` as ``1/sinc(acos(c))``, and similar quotients."""

    def form(self, node: Node) -> Node:
        """Return `node`, whose arguments are already rewritten, with ``acos(c)/sqrt(1 - c**2)`` in it replaced by
        ``1/sinc(acos(c))``.
        """
        return self.product(node) if node.op in ("mul", "ein") else node

    def may_join(self, factor: Node) -> bool:
        """Return whether `factor` contains a factor ``1/sqrt(u)``, so that a rule of `joined` may merge it with an
        arccosine, as in ``acos(c)/sqrt(1 - c**2)``.
        """
        return any(map(_is_inverse_root, self.graph.factors(factor)))

    def joined(self, first: Node, second: Node) -> list[Node] | None:
        """Return the factors that replace the product ``first*second``, such as ``acos(c)`` times ``1/sqrt(1 - c**2)``;
        None if no rule applies. `first` may be a power ``base**n`` with an integer ``n >= 1``; `second` must have a
        factor ``1/sqrt(r)``, and `quotient` a rule for ``base/sqrt(r)``.
        """
        graph = self.graph
        base, power = first.args if first.op == "pow" else (first, graph.one)
        if power.op != "const" or not isinstance(power.data, int) or power.data < 1:
            return None
        factors = graph.factors(second)
        for root in filter(_is_inverse_root, factors):
            found = self.quotient(base, root.args[0])
            if found is not None:
                rest = [factor for factor in factors if factor is not root]
                return [*found, graph.pow(base, graph.const(power.data - 1)), *rest]
        return None

    def quotient(self, base: Node, radicand: Node) -> list[Node] | None:
        """Return the factors that replace ``base/sqrt(radicand)``: ``1/sinc(acos(c))`` for ``acos(c)/sqrt(1 - c**2)``.
        None if no rule applies.
        """
        graph = self.graph
        factors = graph.factors(base)
        for factor in factors if len(factors) > 1 else ():
            found = self.quotient(factor, radicand)
            if found is not None:
                return [*found, *(other for other in factors if other is not factor)]
        if base.op == "add":
            pairs = [graph.split_view(term) for term in base.args]
            sign, angle = next((pair for pair in pairs if _is_angle(pair[1])), pairs[0])
            if len(pairs) == 2 and abs(sign) == 1 and (-sign, graph.scalar(sympy.pi)) in pairs and _is_angle(angle):
                if not self.is_square_of_sine(radicand, angle.args[0]):
                    return None
                return [graph.scale(-sign, self.over_sine(graph.call(sympy.acos, (graph.neg(angle.args[0]),))))]
            terms = [(factor, self.quotient(term, radicand)) for factor, term in pairs]
            if any(part is None for _, part in terms):
                return None
            return [graph.add([graph.scale(factor, graph.mul(part or ())) for factor, part in terms])]
        order, angle = base.args if base.op == "call" and base.data is sympy.jn else (None, base)
        if not _is_angle(angle) or not self.is_square_of_sine(radicand, angle.args[0]):
            return None
        if order is None:
            return [self.over_sine(angle)]
        if order.op != "const" or not isinstance(order.data, int) or order.data % 2 == 0 or order.data < 1:
            return None
        neighbours = [graph.call(sympy.jn, (graph.const(order.data + step), angle)) for step in (-1, 1)]
        return [graph.scale(Fraction(1, 2 * order.data + 1), graph.add(neighbours)), self.over_sine(angle)]

    def over_sine(self, angle: Node) -> Node:
        """Return a node for ``angle/sin(angle)``: ``1/sinc(angle)``, which is finite at 0."""
        return self.graph.pow(self.graph.call(sympy.sinc, (angle,)), self.graph.const(-1))

    def is_square_of_sine(self, radicand: Node, cosine: Node) -> bool:
        """Return whether `radicand` is ``1 - cosine**2``, the square of the sine. For a `cosine` ``c*u`` with a number
        ``c``, the square may also be written as ``c**2*u**2``.
        """
        graph = self.graph
        number, rest = graph.split_view(cosine)
        squares = graph.pow(cosine, graph.const(2)), graph.scale(number**2, graph.pow(rest, graph.const(2)))
        return any(radicand is graph.add((graph.one, graph.neg(square))) for square in squares)


def _is_angle(node: Node) -> bool:
    """Return whether `node` is an arccosine."""
    return node.op == "call" and node.data is sympy.acos


def _is_inverse_root(node: Node) -> bool:
    """Return whether `node` is the inverse of a square root."""
    return node.op == "pow" and node.args[1].op == "const" and node.args[1].data == Fraction(-1, 2)
