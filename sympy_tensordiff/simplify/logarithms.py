"""Logarithms of products as sums of logarithms, if the signs of the factors are known.

``exp(-1000)*exp(-1000)`` is 0 in floating point numbers, and so is a product of a thousand probabilities, but
their logarithms are moderate. Factors are taken out of a logarithm by these laws, of numbers and of whole tensors::

    log(exp(u))      u                      log(prod_k a(k))     sum_k log(a(k))
    log(a**b)        b*log(a)               log(a if c else b)   log(a) if c else log(b)
    log(a*b)         log(a) + log(b)        log(s(u))            -p(-u)
    log(1 + exp(u))  p(u)                   log(exp(u)+exp(v))   u + p(v - u)
    log(det(A)*det(B))  log(det(A @ B))     in what is computed

with s and p for `sigmoid` and `softplus`.

A factor is taken out where it is *wide*, i.e. made of exponentials, of products over ranges or of powers with high or
variable exponents, and where it is positive, or where no factor is negative: ``log(-2*-3)`` exists, ``log(-2)`` does
not. All other factors stay together. Where a factor is 0, both sides are minus infinity.

Products over ranges of numbers of any sign and hyperbolic cosines stay as they are for readers; there is another form
for numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import sympy

from sympy_tensordiff.graph.contractions import sums_labels
from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.sign_analysis import sign_facts

_WIDE_RANGE_FUNCTIONS: frozenset[Any] = frozenset(
    {sympy.exp, sympy.cosh, sympy.sech, sympy.sinh, sympy.erfc, sympy.besseli, sigmoid}
)
"""Functions whose logarithms are moderate where they themselves are not."""


_MODERATE = 2
"""Powers of up to this degree are moderate where their bases are."""


class Logarithms:
    """Builds logarithms in a form that does not overflow: ``log(exp(u)*y)`` becomes ``u + log(y)``.

    With `numbers`, for kernels rather than readers, logarithms of hyperbolic cosines, powers and products over ranges
    are expanded whatever the signs of the factors: ``log(prod_k a(k))`` is
    ``sum_k log(abs(a(k))) + log(prod_k sign(a(k)))``.
    """

    def __init__(self, graph: Graph, numbers: bool) -> None:
        self.graph = graph
        self.numbers = numbers
        self.wide: dict[Node, bool] = {}

    # -------------------------------------------------------------- laws

    def logarithm(self, node: Node) -> Node:
        """Return ``log(node)`` in a form that does not compute `node` if it may overflow: ``u`` for ``exp(u)``,
        ``log(a) + log(b)`` for ``a*b``.
        """
        graph = self.graph
        factors = self.factors(node)
        if len(factors) > 1:
            return self.of_factors(node, factors)
        match node.op:
            case "call":
                return self.of_function(node)
            case "add" if (found := self.of_tangent(node)) is not None:
                return found
            case "add" if (exponents := exponents_of(graph, node)) is not None:
                difference = graph.add((exponents[1], graph.neg(exponents[0])))
                return graph.add((exponents[0], graph.call(softplus, (difference,))))
            case "pow":
                return self.of_power(node, *node.args)
            case "prod":
                return self.of_product(node)
            case "select" if self.is_wide(node) and all(map(self.is_split, node.args[1:])):
                return graph.select(node.args[0], *map(self.logarithm, node.args[1:]))
        return graph.call(sympy.log, (node,))

    def is_split(self, branch: Node) -> bool:
        """Return whether the logarithm of a choice is computed for the value `branch` by itself: it is not negative,
        and for readers not 0. Kernels compute log(0), but SymPy's value of it is not real.
        """
        return self.sign(branch) > 0 and (self.numbers or branch != self.graph.zero)

    def of_function(self, node: Node) -> Node:
        """Return the logarithm of the call `node`: ``u`` for exp(u), ``-softplus(-u)`` for sigmoid(u), in kernels also
        ``softplus(2*u) - u - log(2)`` for cosh(u); for other functions the plain logarithm.
        """
        graph, argument = self.graph, node.args[0]
        if node.data is sympy.exp:
            return argument
        if node.data is sigmoid:
            return graph.neg(graph.call(softplus, (graph.neg(argument),)))
        if node.data is sympy.sech and self.numbers:
            return graph.neg(self.of_function(graph.call(sympy.cosh, (argument,))))
        if node.data is sympy.cosh and self.numbers:
            terms = graph.call(softplus, (graph.scale(2, argument),)), graph.neg(argument)
            return graph.add((*terms, graph.neg(graph.call(sympy.log, (graph.const(2),)))))
        return graph.call(sympy.log, (node,))

    def of_tangent(self, node: Node) -> Node | None:
        """Return the logarithm of the addition ``a + a*tanh(u)`` as ``log(2*a) + log(sigmoid(2*u))``; None for other
        additions.
        """
        graph = self.graph
        number, *rest = sorted(node.args, key=lambda term: term.op != "const")
        factor, tangent = graph.split_view(rest[0])
        if number.op != "const" or len(rest) > 1 or tangent.op != "call" or tangent.data is not sympy.tanh:
            return None
        if number.data <= 0 or abs(factor) != number.data:
            return None
        share = graph.call(sigmoid, (graph.scale(2 if factor > 0 else -2, tangent.args[0]),))
        return self.logarithm(graph.mul((graph.const(2 * number.data), share)))

    def factors(self, node: Node) -> tuple[Node, ...]:
        """Return the factors of `node`. A number that multiplies a whole tensor counts as a factor, and so does a sum
        over axes as a whole.
        """
        numbers = [arg for arg in node.args if not arg.shape] if sums_labels(node) else []
        if numbers:
            operands = zip(node.args, node.data.inputs, strict=True)
            total = self.graph.ein(1, [pair for pair in operands if pair[0].shape], node.data.output)
            return (*numbers, *self.graph.factors(total))
        number, rest = self.graph.split_view(node) if node.shape else (1, node)
        return self.graph.factors(rest) if number == 1 else (self.graph.const(number), *self.graph.factors(rest))

    def of_factors(self, node: Node, factors: Sequence[Node]) -> Node:
        """Return the logarithm of `node`, the product of `factors`, as a sum of logarithms of the factors that have a
        known sign and may overflow: ``log(a*b)`` as ``log(a) + log(b)``. The other factors remain in one logarithm.
        """
        graph = self.graph
        if self.numbers and (joined := _of_determinants(graph, factors)) is not None:
            return self.logarithm(joined)
        some = min(map(self.sign, factors)) >= 0 and all(map(self.sign, factors))
        taken = [factor for factor in factors if self.is_wide(factor) and (some or self.sign(factor) == 2)]
        others = [factor for factor in factors if factor not in taken]
        rest = graph.mul(others)
        parts = [self.logarithm(factor) for factor in taken]
        if self.numbers and any(map(self.is_wide, others)):
            parts += [self.of_absolute_value(rest), graph.call(sympy.log, (self.sign_of(rest),))]
        elif not taken:
            return graph.call(sympy.log, (node,))
        elif rest is not graph.one:
            parts.append(self.logarithm(rest))
        return graph.add([graph.broadcast(part, node.shape) for part in parts])

    def of_power(self, node: Node, base: Node, exponent: Node) -> Node:
        """Return the logarithm of the power `node`, ``base**exponent``, as ``exponent*log(base)`` if the signs permit.
        For kernels, an even power gives ``exponent*log(abs(base))``; otherwise return ``log(node)``.
        """
        graph = self.graph
        power = exponent.data if exponent.op == "const" else None
        if self.sign(base) == 2 or (power is not None and (self.sign(base) or power % 2)):
            return graph.mul((exponent, self.logarithm(base)))
        if power is not None and self.numbers:
            return graph.mul((exponent, graph.call(sympy.log, (graph.call(sympy.Abs, (base,)),))))
        return graph.call(sympy.log, (node,))

    def of_product(self, node: Node) -> Node:
        """Return the logarithm of `node`, the product ``prod_k a(k)`` over a range, as ``sum_k log(a(k))`` if ``a`` is
        known to have no negative values.

        Else only the positive factors of ``a`` are treated in this way and, for kernels, the absolute values of the
        others.
        """
        graph = self.graph
        variables, rows, body = graph.open(node)
        if self.sign(body):
            return graph.sum(variables, rows, self.logarithm(body))
        positive = [factor for factor in self.factors(body) if self.sign(factor) == 2]
        rest = graph.mul([factor for factor in self.factors(body) if factor not in positive])
        parts = [graph.sum(variables, rows, self.logarithm(graph.mul(positive)))]
        if self.numbers:
            parts.append(graph.sum(variables, rows, self.of_absolute_value(rest)))
            rest = self.sign_of(rest)
        parts.append(graph.call(sympy.log, (graph.reduce("prod", variables, rows, rest),)))
        return graph.add(parts)

    def of_absolute_value(self, node: Node) -> Node:
        """Return ``log(abs(node))`` as a sum over its factors, where ``abs(a)**b`` contributes ``b*log(abs(a))``."""
        graph, parts = self.graph, []
        for factor in self.factors(node):
            if self.sign(factor):
                parts.append(self.logarithm(factor))
            else:
                base, exponent = _as_power(graph, factor)
                parts.append(graph.mul((exponent, graph.call(sympy.log, (graph.call(sympy.Abs, (base,)),)))))
        return graph.add([graph.broadcast(part, node.shape) for part in parts])

    def sign_of(self, node: Node) -> Node:
        """Return the sign (1, 0 or -1) of the product `node` as the product of the signs of its factors, since `node`
        itself may overflow.
        """
        graph, signs = self.graph, []
        for factor in self.factors(node):
            if not self.sign(factor):
                base, exponent = _as_power(graph, factor)
                signs.append(graph.pow(graph.call(sympy.sign, (base,)), graph.const(1 if exponent.data > 0 else -1)))
        return graph.mul(signs)

    # -------------------------------------------------------------- facts

    def sign(self, node: Node) -> int:
        """Return 2 if `node` is positive, 1 if it is not negative, 0 if nothing is known."""
        return sign_facts(self.graph, node).sign + 1

    def is_wide(self, node: Node) -> bool:
        """Return whether `node` may overflow or underflow although the entries of all tensors are moderate, as
        ``exp(x)`` may.
        """
        for part in reachable(node) if node not in self.wide else ():
            if part not in self.wide:
                self.wide[part] = self._is_wide(part)
        return self.wide[node]

    def _is_wide(self, node: Node) -> bool:
        """Return whether the value of `node` may overflow or underflow; ``self.wide`` has the answers for its
        arguments.
        """
        match node.op:
            case "call":
                return node.data in _WIDE_RANGE_FUNCTIONS
            case "pow":
                exponent = node.args[1]
                is_high = exponent.op != "const" or (self.numbers and abs(exponent.data) > _MODERATE)
                return self.wide[node.args[0]] or is_high
            case "prod":
                return True
            case "add" | "mul" | "ein" | "sum" | "guard" | "read" | "comprehension":
                return any(self.wide[arg] for arg in node.args)
            case "select":
                return any(self.wide[arg] for arg in node.args[1:])
        return False


def _of_determinants(graph: Graph, factors: Sequence[Node]) -> Node | None:
    """Return the factors with ``det(A)*det(B)`` replaced by ``det(A @ B)``, since the product of large determinants may
    overflow; None unless two factors are determinants.
    """
    found = [factor for factor in factors if factor.op == "cof" and factor.data == 0 and not factor.shape]
    if len(found) < 2 or found[0].args[0].shape != found[1].args[0].shape:
        return None
    (one,), (other,) = (factor.args for factor in found[:2])
    extent = one.shape[0]
    product = graph.ein(1, [(one, (0, 1)), (other, (1, 2))], (0, 2), dict.fromkeys(range(3), extent))
    rest = [factor for factor in factors if factor is not found[0] and factor is not found[1]]
    return graph.mul((graph.tensor_node(found[0], (product,)), *rest))


def _as_power(graph: Graph, node: Node) -> tuple[Node, Node]:
    """Return ``(base, exponent)`` of a power with a constant integer exponent; ``(node, 1)`` for another node."""
    is_power = node.op == "pow" and node.args[1].op == "const" and Fraction(node.args[1].data).denominator == 1
    return (node.args[0], node.args[1]) if is_power else (node, graph.one)


def exponents_of(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """Return the exponents of a sum of two exponentials: ``(u, v)`` for ``exp(u) + exp(v)``, and ``(0, v)`` for ``1 +
    exp(v)``; None for other nodes.
    """
    if node.op != "add" or len(node.args) != 2:
        return None
    found = [arg.args[0] for arg in node.args if arg.op == "call" and arg.data is sympy.exp]
    if graph.one in node.args:
        found.insert(0, graph.zero)
    return (found[0], found[1]) if len(found) == 2 else None
