"""Exponentials in quotients as logistic functions, which do not overflow.

``exp(1000)`` overflows, but ``log(1 + exp(1000))`` and ``1/(1 + exp(1000))`` do not. From the inside out, of numbers
and of whole tensors, with s and p for `sigmoid` and `softplus`::

    1/(1 + exp(u))**n    s(-u)**n    exp(-m*u)*s(u)**n            s(-u)**m * s(u)**(n - m),  m <= n
    a - a*s(u)           a*s(-u)     (a - b*exp(-m*u))*s(u)**n    a*s(u)**n - b*exp(-m*u)*s(u)**n
    sinh(u)/cosh(u)      tanh(u)      (exp(u) - exp(-u))/(exp(u) + exp(-u))       tanh(u)
    (c*exp(u) - c*exp(-u))/cosh(u)     2*c*tanh(u)
    a - 2*a*s(u)         -a*tanh(u/2), in kernels                    exp(-u/2)*s(u)   1/(2*cosh(u/2)), likewise

and logarithms as `logarithms` says.

A function is rewritten so before it is differentiated: the functions above have derivatives that do not overflow
either. Results for readers follow one more law, where ``a - b`` is one term: ``(1 - y)*s(u) - y*s(-u)`` is
``s(u) - y``::

    a*s(u) + b*s(-u)       (a - b)*s(u) + b

and two for numbers a and b, so that a function and its derivative are written by the same functions::

    a*p(u) - a*p(-u)       a*u            a*s(2*u) + b*tanh(u)       a/2 + (a/2 + b)*tanh(u)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice, product
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.growing_functions import is_call
from sympy_tensordiff.simplify.logarithms import Logarithms, exponents_of
from sympy_tensordiff.simplify.products import counted

_FUNCTIONS = frozenset({sympy.exp, sympy.log, sympy.cosh, sigmoid, softplus})
"""A graph without these functions needs no rewriting."""

_MAX_TERMS = 6
"""Longer additions are left as they are."""


def without_overflow(graph: Graph, roots: Sequence[Node], *, numbers: bool) -> list[Node]:
    """Return `roots` rewritten so that no exponential overflows: quotients such as ``1/(1 + exp(u))`` become sigmoids,
    and logarithms of products become sums of logarithms.

    Without `numbers`, for printing and differentiation, logarithms get no form that only serves the computation.
    """
    work = _Logistic(graph, numbers)
    return _rewritten(graph, roots, work)


def for_readers(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with sigmoids in a short form for printing: ``a*sigmoid(u) + b*sigmoid(-u)`` as ``(a -
    b)*sigmoid(u) + b`` if ``a - b`` is one term.
    """
    work = _Readable(graph, False)
    return _rewritten(graph, roots, work)


def _rewritten(graph: Graph, roots: Sequence[Node], work: _Logistic) -> list[Node]:
    """Return `roots` with the rules of `work` applied to each node in them, to arguments before the nodes that use
    them.
    """
    parts = reachable(*roots)
    if not any(part.op == "call" and part.data in _FUNCTIONS for part in parts):
        return list(roots)
    done: dict[Node, Node] = {}
    work.uses = counted(parts, roots)
    for part in parts:
        done[part] = new = graph.with_args(part, [done[arg] for arg in part.args])
        work.uses[new] += work.uses[part] if new is not part else 0
        done[part] = work.form(new)
    return [done[root] for root in roots]


class PairJoiner(ABC):
    """A rewriting that replaces pairs of factors of a product by others, such as ``exp(u)*sigmoid(-u)`` by
    ``sigmoid(u)``. Subclasses define the pairs.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @abstractmethod
    def form(self, node: Node) -> Node:
        """Return `node`, whose arguments are already rewritten, with pairs of its factors replaced, such as
        ``exp(u)*sigmoid(-u)`` by ``sigmoid(u)``. Subclasses define the pairs.
        """

    @abstractmethod
    def may_join(self, factor: Node) -> bool:
        """Return whether `joined` may have a rule for a product whose second factor is `factor`. This is a quick test
        of the form of `factor`: `joined` may still find no rule.
        """

    @abstractmethod
    def joined(self, first: Node, second: Node) -> list[Node] | None:
        """Return the factors that replace ``first*second`` in a product; None if there is no rule for the pair."""

    def product(self, node: Node) -> Node:
        """Return the product `node` with pairs of factors replaced by a rule, such as ``exp(u)*sigmoid(-u)`` by
        ``sigmoid(u)``. Factors that are tensors must have equal labels.
        """
        labels = node.data.inputs if node.op == "ein" else [()] * len(node.args)
        factors = list(zip(node.args, labels, strict=True))
        for second, own in [pair for pair in factors if self.may_join(pair[0])]:
            for first, its in factors:
                found = self.joined(first, second) if its == own and first is not second else None
                if found is not None:
                    rest = [pair for pair in factors if pair not in ((first, own), (second, own))]
                    return self.form(self.with_factors(node, [*rest, *((factor, own) for factor in found)]))
        return node

    def with_factors(self, node: Node, factors: Sequence[tuple[Node, Sequence[int]]]) -> Node:
        """Replace the factors of the product or einsum `node` by `factors`, pairs of a node and the labels of its axes,
        and return the new product. In an einsum, the labels of a scalar are ignored.
        """
        if node.op == "mul":
            return self.graph.mul([factor for factor, _ in factors])
        coefficient, _, output, extents = node.data
        operands = [(factor, labels if factor.shape else ()) for factor, labels in factors]
        return self.graph.ein(coefficient, operands, output, dict(enumerate(extents)))


class _Hyperbolic(NamedTuple):
    """A multiple ``factor*function(argument)`` of a hyperbolic sine or cosine."""

    function: Any
    argument: Node
    factor: Number


class _Logistic(PairJoiner):
    """The rules of `without_overflow`, such as ``1/(1 + exp(u))`` to ``sigmoid(-u)``."""

    def __init__(self, graph: Graph, numbers: bool) -> None:
        super().__init__(graph)
        self.numbers = numbers
        self.logarithms = Logarithms(graph, numbers)
        self.uses: Counter[Node] = Counter()

    def form(self, node: Node) -> Node:
        """Return `node`, whose arguments are already rewritten, in a form that does not overflow: a logarithm as a sum
        of logarithms, and powers, sums and products of exponentials as sigmoids.
        """
        if node.op == "call" and node.data is sympy.log:
            return self.logarithms.logarithm(node.args[0])
        match node.op:
            case "pow":
                return self.power(node, *node.args)
            case "add":
                return self.complement(node)
            case "mul" | "ein":
                return self.product(node)
        return node

    def sigmoid(self, argument: Node) -> Node:
        """Return ``sigmoid(argument)``."""
        return self.graph.call(sigmoid, (argument,))

    def power(self, node: Node, base: Node, exponent: Node) -> Node:
        """Return the power `node`, ``base**exponent``, as ``sigmoid(-u)**n`` if it is ``(1 + exp(u))**-n``; other
        powers are unchanged.
        """
        exponents = exponents_of(self.graph, base)
        if exponents is None or exponents[0] is not self.graph.zero:
            return node
        if exponent.op != "const" or not isinstance(exponent.data, int) or exponent.data > 0:
            return node
        return self.graph.pow(self.sigmoid(self.graph.neg(exponents[1])), self.graph.const(-exponent.data))

    def complement(self, node: Node) -> Node:
        """Return the addition `node` with ``a*sigmoid(-u)`` in place of ``a - a*sigmoid(u)``; unchanged without such
        terms.

        With ``self.numbers``, ``a - 2*a*sigmoid(u)`` also becomes ``-a*tanh(u/2)``, which is accurate near 0. Additions
        with too many terms are unchanged.

        Of whole tensors ``s*(1 - s)`` stays.
        """
        graph, terms = self.graph, node.args
        for term in terms if len(terms) <= _MAX_TERMS else ():
            coefficient, rest = graph.split_view(term)
            factors = graph.factors(rest)
            for factor in factors:
                base, times = self.as_power_of_sigmoid(factor)
                if times == 1 and self.numbers:
                    half = graph.scale(-Fraction(coefficient) / 2, graph.mul([f for f in factors if f is not factor]))
                    if half in terms:
                        tangent = graph.call(sympy.tanh, (graph.scale(Fraction(-1, 2), base.args[0]),))
                        others = [other for other in terms if other is not term and other is not half]
                        return self.form(graph.add([graph.mul((half, tangent)), *others]))
                if times and (not node.shape or self.is_replaceable(base)):
                    others = [other for other in factors if other is not factor]
                    others += [graph.pow(base, graph.const(times - 1))] if times > 1 else []
                    product = graph.mul(others)
                    whole = graph.scale(-coefficient, product)
                    if whole in terms:
                        joined = self.form(graph.mul((whole, self.sigmoid(graph.neg(base.args[0])))))
                        return self.form(graph.add([joined, *(t for t in terms if t is not term and t is not whole)]))
        return node

    def is_replaceable(self, base: Node) -> bool:
        """Return whether to write ``1 - sigmoid(u)`` as ``sigmoid(-u)``, where `base` is ``sigmoid(u)``. This is False
        if `base` is also used elsewhere and ``sigmoid(-u)`` is not: one more sigmoid costs more than a subtraction.
        """
        return self.uses[base] < 2 or self.uses[self.sigmoid(self.graph.neg(base.args[0]))] > 0

    def as_power_of_sigmoid(self, node: Node) -> tuple[Node, int]:
        """Return ``(sigmoid(u), n)`` if `node` is ``sigmoid(u)**n`` with a positive integer n. Otherwise return
        ``(base, 0)`` for a power ``base**p``, and ``(node, 0)`` for any other node.
        """
        base, times = (node.args[0], node.args[1].data) if node.op == "pow" else (node, 1)
        return base, times if is_call(base, sigmoid) and isinstance(times, int) and times > 0 else 0

    def may_join(self, factor: Node) -> bool:
        """Return whether `factor` is a positive power of a sigmoid, or a power of cosh. Only such a factor can be the
        second argument of `joined`.
        """
        if self.as_power_of_sigmoid(factor)[1] > 0:
            return True
        found = self.hyperbolic(factor.args[0]) if factor.op == "pow" else None
        return found is not None and found.function is sympy.cosh

    def joined(self, first: Node, second: Node) -> list[Node] | None:
        """Return the factors that replace ``first * second``; None if no rule applies."""
        graph = self.graph
        base, times = self.as_power_of_sigmoid(second)
        if not times:
            return self.tangent(first, second)
        opposite = graph.neg(base.args[0])
        if first.op == "add" and len(first.args) <= _MAX_TERMS:
            parts = [part for term in first.args for part in graph.factors(term)]
            if any(0 < self.multiple(part, opposite) <= times for part in parts):
                return [graph.add([self.form(graph.mul((term, second))) for term in first.args])]
        m = self.multiple(first, opposite)
        root = graph.scale(Fraction(times, 2), opposite)
        if times % 2 and self.numbers and is_call(first, sympy.exp) and first.args[0] is root:
            half = graph.call(sympy.cosh, (graph.scale(Fraction(1, 2), opposite),))
            return [graph.const(Fraction(1, 2**times)), graph.pow(half, graph.const(-times))]
        if not 0 < m <= times:
            return None
        return [graph.pow(self.sigmoid(opposite), graph.const(m)), graph.pow(base, graph.const(times - m))]

    def tangent(self, first: Node, second: Node) -> list[Node] | None:
        """Rewrite ``first*second``, a power of ``a*sinh(u)`` divided by a power of ``b*cosh(u)``, by ``tanh(u)``:
        return the factors ``(a/b)**2``, ``tanh(u)**2`` and ``a*sinh(u)`` for ``(a*sinh(u))**3/(b*cosh(u))**2``. None
        for other factors.
        """
        graph = self.graph
        base, k = first.args if first.op == "pow" else (first, graph.one)
        below, n = second.args
        sine, cosine = self.hyperbolic(base), self.hyperbolic(below)
        if sine is None or cosine is None or sine.function is not sympy.sinh or k.op != "const" or n.op != "const":
            return None
        m = min(k.data, -n.data)
        if m <= 0 or not isinstance(m, int) or cosine.argument not in (sine.argument, graph.neg(sine.argument)):
            return None
        tangent = graph.call(sympy.tanh, (sine.argument,))
        powers = [graph.pow(*one) for one in (
            (tangent, graph.const(m)), (base, graph.const(k.data - m)), (below, graph.const(n.data + m))
        )]  # fmt: skip
        is_float = isinstance(sine.factor, float) or isinstance(cosine.factor, float)
        number = (sine.factor / (cosine.factor if is_float else Fraction(cosine.factor))) ** m
        return powers if number == 1 else [graph.const(number), *powers]

    def hyperbolic(self, node: Node) -> _Hyperbolic | None:
        """Return ``(function, argument, factor)`` if `node` is ``factor*sinh(argument)`` or ``factor*cosh(argument)``,
        also if it is written by exponentials: ``3*exp(u) - 3*exp(-u)`` is ``6*sinh(u)``. Return None for other nodes.
        """
        if is_call(node, sympy.sinh) or is_call(node, sympy.cosh):
            return _Hyperbolic(node.data, node.args[0], 1)
        if node.op == "add" and len(node.args) == 2:
            (c, one), (d, other) = map(self.graph.split_view, node.args)
            are_opposite = all(is_call(term, sympy.exp) for term in (one, other)) and (
                one.args[0] is self.graph.neg(other.args[0])
            )
            if are_opposite and c in (d, -d):
                return _Hyperbolic(sympy.cosh if c == d else sympy.sinh, one.args[0], 2 * c)
        return None

    def multiple(self, exponential: Node, argument: Node) -> int:
        """Return the integer m such that `exponential` equals ``exp(m*argument)``; 0 if there is none."""
        if not is_call(exponential, sympy.exp):
            return 0
        (c, rest), (own, other) = (self.graph.split_view(n) for n in (exponential.args[0], argument))
        if rest is not other or not own or c % own != 0:
            return 0
        return int(c // own)


class _Readable(_Logistic):
    """The rules of `for_readers`, such as ``a*sigmoid(u) + b*sigmoid(-u)`` to ``(a - b)*sigmoid(u) + b``."""

    def form(self, node: Node) -> Node:
        """Return `node` in the form for printing and differentiation, in which a formula contains one sigmoid instead
        of those of both ``u`` and ``-u``. Its arguments are in this form already.
        """
        if node.op in ("mul", "ein"):
            return self.product(node)
        for rule in (self.joined_terms, self.one_sigmoid, self.joined_terms):
            node = rule(node) if node.op == "add" else node
        return node

    def joined_terms(self, node: Node) -> Node:
        """Return the addition `node` with pairs of terms joined for a shorter form: ``a*softplus(u) - a*softplus(-u)``
        becomes ``a*u``, where ``a`` is a number.

        If ``tanh(u)`` is a term, too, ``a*sigmoid(2*u)`` becomes ``a/2 + a/2*tanh(u)``, which joins with it.
        """
        graph = self.graph
        split = [graph.split_view(term) for term in node.args] if len(node.args) <= _MAX_TERMS else []
        numbers = {rest: number for number, rest in split if rest.op == "call"}
        for rest, number in numbers.items():
            (u, *_) = rest.args
            opposite = graph.call(softplus, (graph.neg(u),)) if rest.data is softplus else None
            half = graph.scale(Fraction(1, 2), u) if rest.data is sigmoid else None
            if opposite is not None and numbers.get(opposite) == -number:
                removed, new = {rest, opposite}, [graph.scale(number, u)]
            elif half is not None and (tanh := graph.call(sympy.tanh, (half,))) in numbers:
                one = graph.filled(1, u.shape) if u.shape else graph.one
                removed, new = {rest}, [graph.scale(number * Fraction(1, 2), term) for term in (one, tanh)]
            else:
                continue
            others = [term for term, (_, own) in zip(node.args, split, strict=True) if own not in removed]
            joined = graph.add([*others, *new])
            return self.joined_terms(joined) if joined.op == "add" else joined
        return node

    def one_sigmoid(self, node: Node) -> Node:
        """Replace ``a*sigmoid(u) + b*sigmoid(-u)`` in the addition `node` by ``(a - b)*sigmoid(u) + b``, if ``a - b``
        is one term, and return the new node; else `node` unchanged.
        """
        graph = self.graph
        if len(node.args) > _MAX_TERMS:
            return node
        cofactors: dict[Node, dict[Node, Node]] = {}
        for term in node.args:
            split = self.split(term)
            if split is not None:
                cofactors.setdefault(split[0], {})[term] = split[1]
        found: list[Node] = []
        for base in sorted(cofactors, key=self.subtracted):
            opposite = graph.call(sigmoid, (graph.neg(base.args[0]),))
            if opposite in cofactors and opposite is not base:  # 0 is its own opposite
                first, second = cofactors[base], cofactors[opposite]
                common = self.common([*first.values(), *second.values()])
                constant = self.expanded(self.without(common, second.values()))
                difference = self.expanded([*self.without(common, first.values()), graph.neg(constant)])
                if difference.op != "add":
                    others = [term for term in node.args if term not in first and term not in second]
                    new = [graph.mul((*common, difference, base)), graph.mul((*common, constant))]
                    found.append(graph.add([*new, *others]))
        shortest = min(found, key=_number_of_terms) if found else node
        return self.one_sigmoid(shortest) if shortest.op == "add" and shortest is not node else shortest

    def common(self, products: Sequence[Node]) -> list[Node]:
        """Return the factors that occur in each of `products`, numbers excluded."""
        own = [self.graph.factors(product) for product in products]
        return [factor for factor in own[0] if factor.op != "const" and all(factor in other for other in own)]

    def without(self, common: Sequence[Node], products: Iterable[Node]) -> list[Node]:
        """Return `products` without the factors in `common`, which each of them has."""
        return [self.graph.mul([f for f in self.graph.factors(product) if f not in common]) for product in products]

    def split(self, term: Node) -> tuple[Node, Node] | None:
        """Return ``(sigmoid(u), other factors)`` for a `term` with exactly one sigmoid as a factor; None for other
        terms.
        """
        factors: list[Node] = []
        stack = [term]
        while stack:
            inner = self.graph.factors(stack.pop())
            factors += inner if len(inner) == 1 else ()
            stack += inner if len(inner) > 1 else ()
        found = [factor for factor in factors if is_call(factor, sigmoid)]
        if len(found) != 1 or any(factor.op == "pow" and is_call(factor.args[0], sigmoid) for factor in factors):
            return None
        return found[0], self.graph.mul([factor for factor in factors if factor is not found[0]])

    def subtracted(self, base: Node) -> int:
        """Return the number of negative terms in ``u`` minus the number of its other terms, where `base` is
        ``sigmoid(u)``: a sort key for the choice between ``sigmoid(u)`` and ``sigmoid(-u)``.
        """
        argument = base.args[0]
        terms = argument.args if argument.op == "add" else (argument,)
        return sum(1 if self.graph.split_view(term)[0] < 0 else -1 for term in terms)

    def expanded(self, terms: Iterable[Node]) -> Node:
        """Return the sum of `terms`, with products of additions multiplied out if this gives few terms."""
        graph = self.graph
        total = graph.add(terms)
        parts: list[Node] = []
        for term in total.args if total.op == "add" else (total,):
            sums = [factor.args if factor.op == "add" else (factor,) for factor in graph.factors(term)]
            products = list(islice(product(*sums), _MAX_TERMS + 1))
            parts += map(graph.mul, products) if len(products) <= _MAX_TERMS else [term]
        return graph.add(parts)


def _number_of_terms(node: Node) -> int:
    """Return the number of terms of the longest addition among `node` and its arguments, 2 for ``c*(a + b)``; 1 if
    there is no addition.
    """
    return max(len(part.args) if part.op == "add" else 1 for part in (node, *node.args))
