"""Logistic forms written out, as the functions that do not overflow.

``exp(1000)`` is no floating point number, but ``log(1 + exp(1000))`` and ``1/(1 + exp(1000))`` are.
From the inside out, of numbers and of whole tensors, with s and p for `sigmoid` and `softplus`::

    log(1 + exp(u))        p(u)                a - a*s(u)           a*s(-u)
    log(exp(u) + exp(v))   u + p(v - u)        exp(-m*u)*s(u)**n    s(-u)**m * s(u)**(n - m),  m <= n
    1/(1 + exp(u))**n      s(-u)**n            log(s(u))            -p(-u)

What is differentiated is written so before: the functions above have derivatives that do not overflow either.
Results for readers follow one more law, where ``a - b`` is one term: ``(1 - y)*s(u) - y*s(-u)`` is ``s(u) - y``::

    a*s(u) + b*s(-u)       (a - b)*s(u) + b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product

import sympy

from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.nodes import Graph, Node, reachable

_FEW = 6
"""Longer additions are left as they are."""


def without_overflow(graph: Graph, roots: Sequence[Node], *, whole: bool = True) -> list[Node]:
    """``roots`` with logistic forms in place of sums of exponentials.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    whole : bool
        Whether nodes of whole tensors are rewritten, too: `recognition` has rules of its own for those.
    """
    work = _Logistic(graph)
    return _rewritten(graph, roots, lambda node: work.form(node) if whole or not node.whole else node)


def with_one_sigmoid(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """``roots`` with ``(a - b)*s(u) + b`` in place of ``a*s(u) + b*s(-u)``, where ``a - b`` is one term."""
    return _rewritten(graph, roots, _Opposites(graph).joined)


def _rewritten(graph: Graph, roots: Sequence[Node], form: Callable[[Node], Node]) -> list[Node]:
    """``roots`` in the form that is made of each node over its rewritten arguments."""
    parts = reachable(*roots)
    if not any(part.op == "call" and part.data in (sympy.exp, sigmoid) for part in parts):
        return list(roots)
    done: dict[Node, Node] = {}
    for part in parts:
        done[part] = form(graph.with_args(part, [done[arg] for arg in part.args]))
    return [done[root] for root in roots]


class _Logistic:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def form(self, node: Node) -> Node:
        """A node, whose arguments are in their final form."""
        match node.op:
            case "call" if node.data is sympy.log:
                return self.logarithm(node, node.args[0])
            case "pow":
                return self.power(node, *node.args)
            case "add":
                return self.complement(node)
            case "mul" | "ein":
                return self.product(node)
        return node

    def sigmoid(self, argument: Node) -> Node:
        return self.graph.call(sigmoid, (argument,))

    def logarithm(self, node: Node, argument: Node) -> Node:
        graph = self.graph
        if _is_call(argument, sigmoid):
            return graph.neg(graph.call(softplus, (graph.neg(argument.args[0]),)))
        exponents = self.exponents(argument)
        if exponents is None:
            return node
        first, second = exponents
        difference = graph.add((second, graph.neg(first)))
        return graph.add((first, graph.call(softplus, (difference,))))

    def exponents(self, node: Node) -> tuple[Node, Node] | None:
        """``u`` and ``v`` of ``exp(u) + exp(v)``; 1 is ``exp(0)``, the first of the two."""
        if node.op != "add" or len(node.args) != 2:
            return None
        found = [arg.args[0] for arg in node.args if _is_call(arg, sympy.exp)]
        if self.graph.one in node.args:
            found.insert(0, self.graph.zero)
        return (found[0], found[1]) if len(found) == 2 else None

    def power(self, node: Node, base: Node, exponent: Node) -> Node:
        exponents = self.exponents(base)
        if exponents is None or exponents[0] is not self.graph.zero:
            return node
        if exponent.op != "const" or not isinstance(exponent.data, int) or exponent.data > 0:
            return node
        return self.graph.pow(self.sigmoid(self.graph.neg(exponents[1])), self.graph.const(-exponent.data))

    def complement(self, node: Node) -> Node:
        """``a - a*s(u)`` among few terms as ``a*s(-u)``."""
        graph, terms = self.graph, node.args
        for term in terms if len(terms) <= _FEW else ():
            coefficient, rest = graph.split_view(term)
            factors = graph.factors(rest)
            for factor in factors:
                base, times = self.raised(factor)
                if times:
                    others = [other for other in factors if other is not factor]
                    product = graph.mul((*others, graph.pow(base, graph.const(times - 1))))
                    whole = graph.scale(-coefficient, product)
                    if whole in terms:
                        joined = self.form(graph.mul((whole, self.sigmoid(graph.neg(base.args[0])))))
                        return self.form(graph.add([joined, *(t for t in terms if t is not term and t is not whole)]))
        return node

    def raised(self, node: Node) -> tuple[Node, int]:
        """A `sigmoid` and how often it is a factor of its power; 0 times for other nodes."""
        base, times = (node.args[0], node.args[1].data) if node.op == "pow" else (node, 1)
        return base, times if _is_call(base, sigmoid) and isinstance(times, int) and times > 0 else 0

    def product(self, node: Node) -> Node:
        """Factors, of whole tensors under the same labels, that are an exponential and a power of `sigmoid`."""
        graph = self.graph
        labels = node.data.inputs if node.op == "ein" else [()] * len(node.args)
        factors = list(zip(node.args, labels, strict=True))
        for power, own in factors:
            base, times = self.raised(power)
            for factor, its in factors if times else ():
                m = self.multiple(factor, graph.neg(base.args[0])) if _is_call(factor, sympy.exp) and its == own else 0
                if 0 < m <= times:
                    rest = [pair for pair in factors if pair not in ((power, own), (factor, its))]
                    new = (graph.pow(self.sigmoid(graph.neg(base.args[0])), graph.const(m)), own)
                    return self.form(self.again(node, [*rest, new, (graph.pow(base, graph.const(times - m)), own)]))
        return node

    def again(self, node: Node, factors: Sequence[tuple[Node, Sequence[int]]]) -> Node:
        """A product of other factors; what has become a number has no labels."""
        if node.op == "mul":
            return self.graph.mul([factor for factor, _ in factors])
        coefficient, _, output, extents = node.data
        operands = [(factor, labels if factor.shape else ()) for factor, labels in factors]
        return self.graph.ein(coefficient, operands, output, dict(enumerate(extents)))

    def multiple(self, exponential: Node, argument: Node) -> int:
        """The m of ``exp(m*argument)``; 0 where there is none."""
        (c, rest), (own, other) = (self.graph.split_view(n) for n in (exponential.args[0], argument))
        if rest is not other or c % own != 0:
            return 0
        return int(c // own)


class _Opposites:
    """Joins terms that are multiples of a sigmoid and of that of the opposite argument."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def joined(self, node: Node) -> Node:
        """An addition with one sigmoid for two; other nodes, and longer additions, as they are."""
        graph = self.graph
        if node.op != "add" or len(node.args) > _FEW:
            return node
        cofactors: dict[Node, dict[Node, Node]] = {}
        for term in node.args:
            found = self.split(term)
            if found is not None:
                cofactors.setdefault(found[0], {})[term] = found[1]
        for base in sorted(cofactors, key=self.subtracted):
            opposite = graph.call(sigmoid, (graph.neg(base.args[0]),))
            if opposite in cofactors:
                first, second = cofactors[base], cofactors[opposite]
                constant = self.expanded(second.values())
                difference = self.expanded([*first.values(), graph.neg(constant)])
                if difference.op != "add":
                    others = [term for term in node.args if term not in first and term not in second]
                    return self.joined(graph.add([graph.mul((difference, base)), constant, *others]))
        return node

    def split(self, term: Node) -> tuple[Node, Node] | None:
        """The one sigmoid among the factors of a term, and the product of all others."""
        factors = self.graph.factors(term)
        found = [factor for factor in factors if _is_call(factor, sigmoid)]
        if len(found) != 1 or any(factor.op == "pow" and _is_call(factor.args[0], sigmoid) for factor in factors):
            return None
        return found[0], self.graph.mul([factor for factor in factors if factor is not found[0]])

    def subtracted(self, base: Node) -> int:
        """How many terms the argument of a sigmoid subtracts, less those that it adds."""
        argument = base.args[0]
        terms = argument.args if argument.op == "add" else (argument,)
        return sum(1 if self.graph.split_view(term)[0] < 0 else -1 for term in terms)

    def expanded(self, terms: Iterable[Node]) -> Node:
        """An addition with few products of additions multiplied out, where the result has few terms."""
        graph = self.graph
        total = graph.add(terms)
        parts: list[Node] = []
        for term in total.args if total.op == "add" else (total,):
            sums = [factor.args if factor.op == "add" else (factor,) for factor in graph.factors(term)]
            products = list(islice(product(*sums), _FEW + 1))
            parts += map(graph.mul, products) if len(products) <= _FEW else [term]
        return graph.add(parts)


def _is_call(node: Node, function: type) -> bool:
    return node.op == "call" and node.data is function
