"""Products of logistic functions and squares of hyperbolic secants as values of one function.

In kernels, with s and d for `sigmoid` and `logistic_density`::

    s(u)*s(-u)              d(u)
    1/cosh(u)**2            4*d(2*u), if cosh(u) is not needed for anything else

The density takes one exponential, which it shares with ``s(u)`` or ``tanh(u)`` in the same loop: both functions take
``exp(-abs(u))`` or ``exp(-abs(2*u))``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import sympy

from sympy_tensordiff.graph.functions import logistic_density, sigmoid
from sympy_tensordiff.graph.nodes import Graph, Node, reachable, rewritten
from sympy_tensordiff.simplify.growing_functions import is_call

_FUNCTIONS = frozenset({sigmoid, sympy.cosh})
"""A graph without these functions has no such products."""


def with_densities(graph: Graph, roots: Sequence[Node], tables: Mapping[Node, Node]) -> list[Node]:
    """Return the entries `roots` with ``s(u)*s(-u)``, for the logistic function s, and ``1/cosh(u)**2`` computed by
    `logistic_density`. `tables` maps stored arrays to their entries, because a factor may be read from an array.
    """
    parts = reachable(*roots)
    if not any(part.op == "call" and part.data in _FUNCTIONS for part in parts):
        return list(roots)
    work = _Densities(graph, parts, tables)
    return rewritten(graph, roots, work.form)


class _Densities:
    """Rewrites ``s(u)*s(-u)`` and ``1/cosh(u)**2`` in a graph as values of `logistic_density`; ``s`` is the logistic
    function.
    """

    def __init__(self, graph: Graph, parts: Sequence[Node], tables: Mapping[Node, Node]) -> None:
        self.graph = graph
        self.tables = tables
        self.uses = Counter(arg for part in parts for arg in part.args)
        self.needed = {arg for part in parts for arg in part.args if not is_even_reciprocal(part)}
        """The nodes that are arguments of other operations than reciprocals of even powers."""
        products = [part for part in parts if part.op == "mul"]
        self.paired = Counter(
            factor for part in products for one, other, *_ in self.pairs(part) for factor in (one, other)
        )
        """For each ``s(u)``: the number of products that contain ``s(-u)``, too."""

    def form(self, node: Node) -> Node:
        """Return `node` rewritten by the rule for its operation, such as ``cosh(x)**(-2)`` as
        ``4*logistic_density(2*x)``; other nodes are unchanged. The arguments of `node` are already rewritten.
        """
        graph = self.graph
        if is_even_reciprocal(node) and is_call(node.args[0], sympy.cosh) and node.args[0] not in self.needed:
            times = -node.args[1].data // 2
            density = graph.call(logistic_density, (graph.scale(2, node.args[0].args[0]),))
            return graph.pow(graph.scale(4, density), graph.const(times))
        return self.product(node) if node.op == "mul" else node

    def product(self, node: Node) -> Node:
        """Return the product `node` with each pair of factors such as ``sigmoid(u)*sigmoid(-u)`` replaced by the
        logistic density of ``u``, unless both factors are also needed elsewhere.
        """
        graph = self.graph
        for one, other, u, times, its in self.pairs(node):
            are_paired = all(self.uses[factor] <= self.paired[factor] for factor in (one, other))
            if self.is_needed(one) and self.is_needed(other) and not are_paired:
                continue
            count = min(times, its)
            density = graph.call(logistic_density, (graph.neg(u) if graph.split_view(u)[0] < 0 else u,))
            left = [(one, times - count), (other, its - count)]
            rest = [graph.pow(self.base(factor), graph.const(times)) for factor, times in left]
            others = [factor for factor in node.args if factor is not one and factor is not other]
            return self.product(graph.mul((*others, *rest, graph.pow(density, graph.const(count)))))
        return node

    def pairs(self, node: Node) -> list[tuple[Node, Node, Node, int, int]]:
        """Return ``(a, b, u, n, m)`` for the factors a and b of the product `node` that are ``s(u)**n`` and
        ``s(-u)**m``.
        """
        powers = [(factor, *own) for factor in node.args if (own := self.logistic(factor)) is not None]
        return [(a, b, u, n, m) for (a, u, n), (b, v, m) in combinations(powers, 2) if self.graph.neg(u) is v]

    def logistic(self, factor: Node) -> tuple[Node, int] | None:
        """Return ``(u, n)`` for a factor ``sigmoid(u)**n`` with a positive integer n, also if its base is an entry of
        an array in ``self.tables`` with the formula ``sigmoid(u)``; None for other factors.
        """
        base = self.base(factor)
        times = 1 if base is factor else factor.args[1].data
        if base.op == "read" and base.args[0] in self.tables:
            table = self.tables[base.args[0]]
            body = table.args[0] if table.op == "comprehension" else table
            if is_call(body, sigmoid):
                base = self.graph.entry(table, base.data) if table.op == "comprehension" else table
        return (base.args[0], times) if is_call(base, sigmoid) and isinstance(times, int) and times > 0 else None

    def base(self, factor: Node) -> Node:
        """Return the base of a power; another factor unchanged."""
        return factor.args[0] if factor.op == "pow" else factor

    def is_needed(self, factor: Node) -> bool:
        """Return whether `factor` is computed even if a product with it is rewritten: it is read from an array, or
        several nodes use it. For a power, what counts are the uses of its base.
        """
        return self.uses[self.base(factor)] > 1 or factor.op == "read"


def is_even_reciprocal(node: Node) -> bool:
    """Return whether `node` is ``x**-2``, ``x**-4`` or another negative even power."""
    return (
        node.op == "pow"
        and node.args[1].op == "const"
        and isinstance(node.args[1].data, int)
        and node.args[1].data < 0
        and node.args[1].data % 2 == 0
    )
