"""Sums over several indices as sums of sums: ``Sum_a f[a]*Sum_b g[b]*x[i+a, j+b]`` for
``Sum_ab f[a]*g[b]*x[i+a, j+b]``.

The inner sum depends on two integers, ``i + a`` and j. Its values are stored in an array, and serve all i and a with
the same ``i + a``: a blur with a separable window of 11 x 11 entries takes 22 products an entry in place of 121. (For
finite elements of high order this is known as sum factorisation.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import sympy

from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, Planner, is_never_empty
from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.graph.interning import Number, Recursion, breadth_first, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows

LEAST_GAIN = 2
"""A sum is split if the parts have so many times fewer terms: storing the inner sum takes time, too."""

MAX_TERMS = 8
"""Additions of more terms are not multiplied out."""

_BOUNDED = frozenset({sympy.sin, sympy.cos, sympy.tanh, sympy.erf, sigmoid})
_ARITHMETIC = frozenset({"const", "scalar", "index", "read", "mul", "add", "select", "compare"})

MAX_POWER = 4
"""Factors with higher powers may overflow, as those with negative ones may."""


def factored_sums(graph: Graph, planner: Planner, roots: Sequence[Node], hints: Callable[[Affine], int]) -> list[Node]:
    """Return `roots` with sums over several indices written as sums of sums, if the inner ones depend on so few
    integers that fewer products are computed. ``hints(extent)`` is the expected length of an axis.

    Factors that may overflow or underflow, such as exponentials, are not separated.
    """
    work = _Factoring(graph, planner, hints)
    return [trampoline(work.visit(root, EnclosingLoops((), ()))) for root in roots]


class _Factoring:
    """The recursion of `factored_sums`."""

    def __init__(self, graph: Graph, planner: Planner, hints: Callable[[Affine], int]) -> None:
        self.graph = graph
        self.planner = planner
        self.hints = hints
        self.done: dict[tuple[Node, EnclosingLoops], Node] = {}
        self.wide: dict[Node, bool] = {}

    def visit(self, node: Node, context: EnclosingLoops) -> Recursion[Node]:
        """Return `node`, in the loops of ``context``, with its sums written as sums of sums."""
        if not self.has_wide_sum(node):
            return node
        key = node, context
        if key not in self.done:
            self.done[key] = yield self.visit_inside(node, context)
        return self.done[key]

    def has_wide_sum(self, node: Node) -> bool:
        """Return whether there is a sum over several indices in `node`."""
        for part in reachable(node, known=self.wide):
            is_own = part.op == "sum" and len(self.graph.bound(part)) > 1
            self.wide[part] = is_own or any(self.wide[arg] for arg in part.args)
        return self.wide[node]

    def visit_inside(self, node: Node, context: EnclosingLoops) -> Recursion[Node]:
        """Return `node` with its sums written as sums of sums, inner ones first."""
        graph = self.graph
        if node.op not in BINDERS:
            args = yield from in_turn(self.visit(arg, context) for arg in node.args)
            return graph.with_args(node, args)
        is_table = node.op == "comprehension"  # no loop around it occurs in it
        variables, rows, body = graph.inside(node, ()) if is_table else graph.open(node)
        around = EnclosingLoops((), ()) if is_table else context
        new: Node = yield self.visit(body, around.inside(variables, rows))
        if node.op == "sum" and len(variables) > 1:
            split = self.split(variables, rows, new, _own_loops(node, context))
            if split is not None:
                return split
        if new is body:
            return node
        return graph.over(node, variables, new)

    def split(self, variables: Sequence[int], rows: Rows, body: Node, context: EnclosingLoops) -> Node | None:
        """Return the sum of `body` over `variables` in the range `rows` as a sum of sums, or as several such sums; None
        if that takes no fewer products.
        """
        graph = self.graph
        number, product = graph.split_coefficient(body)
        factors = graph.factors(product)
        if len(factors) < 2 or not all(map(_is_moderate, factors)):
            return None
        best = self.best(variables, rows, factors, context)
        if best is None:
            return self.split_terms(variables, rows, number, factors, context)
        v = best[1]
        own, others, left = _parted(v, variables, rows)
        inner = graph.sum((v,), own, graph.mul([f for f in factors if v in f.free]))
        rest = [f for f in factors if v not in f.free]
        summand = graph.scale(number, graph.mul([*rest, inner]))
        return self.split(left, others, summand, context) or graph.sum(left, others, summand)

    def best(
        self, variables: Sequence[int], rows: Rows, factors: Sequence[Node], context: EnclosingLoops
    ) -> tuple[float, int] | None:
        """Return ``(gain, variable)`` for the variable whose inner sum saves most products; None if none saves enough
        of them.
        """
        gains = [(self.gain(v, variables, rows, factors, context), v) for v in variables]
        return max((one for one in gains if one[0] >= LEAST_GAIN), key=lambda one: one[0], default=None)

    def split_terms(
        self, variables: Sequence[int], rows: Rows, number: Number, factors: Sequence[Node], context: EnclosingLoops
    ) -> Node | None:
        """Return the sum of ``number`` times the product of `factors`, one of which is an addition, as one sum of sums
        for each of its terms: ``Sum_ab f[a]*f[b]*(u[i-a, j-b] + x[i, j]*v[i-a, j-b])``. None if that takes no fewer
        products.

        Terms with the same factors in front stay together. All terms depend on the indices of the sum: the difference
        ``x[j] - x[i]`` is exact for close numbers, a difference of sums is not.
        """
        graph, own = self.graph, frozenset(variables)
        addition = next((f for f in factors if f.op == "add" and len(f.args) <= MAX_TERMS), None)
        if addition is None or any(term.free.isdisjoint(own) for term in addition.args):
            return None
        rest = [factor for factor in factors if factor is not addition]
        groups: dict[tuple[Node, ...], list[Node]] = {}
        for term in addition.args:
            scale, core = graph.split_coefficient(term)
            parts = graph.factors(core)
            outside = tuple(part for part in parts if part.free.isdisjoint(own))
            inside = [part for part in parts if part not in outside]
            groups.setdefault(outside, []).append(graph.scale(scale, graph.mul(inside)))
        if len(groups) < 2 or not all(map(_is_moderate, addition.args)):
            return None
        terms = []
        for outside, found in groups.items():
            summand = graph.mul([*rest, graph.add(found)])
            best = self.best(variables, rows, graph.factors(graph.split_coefficient(summand)[1]), context)
            split = self.split(variables, rows, summand, context) if best and best[0] > LEAST_GAIN else None
            if split is None:
                return None
            terms.append(graph.mul([*outside, split]))
        return graph.scale(number, graph.add(terms))

    def gain(
        self, v: int, variables: Sequence[int], rows: Rows, factors: Sequence[Node], context: EnclosingLoops
    ) -> float:
        """Return how many times fewer products the sum takes if its part over ``v`` is stored: 0 if it cannot be."""
        inside = [factor for factor in factors if v in factor.free]
        outside = [factor for factor in factors if v not in factor.free]
        own, others, left = _parted(v, variables, rows)
        if not outside or any(not row.form.atoms().isdisjoint(left) for row in own):
            return 0
        if not is_never_empty((v,), own, (*self.planner.facts, *context.rows, *others)):
            return 0  # an empty sum is 0, also where the factors in front are infinite
        if not any(factor.free.intersection(left) for factor in outside):
            return 0
        around = context.inside(left, others)
        inner = self.graph.sum((v,), own, self.graph.mul(inside))
        if inner.op != "sum" or self.planner.rank(inner, around) >= around.dimension:
            return 0
        candidate = self.planner.candidate(inner, around)
        if candidate is None:
            return 0
        ends = zip(candidate.lows, candidate.highs, strict=True)
        stored = prod(self.hints(high[0] - low[0] + 1) for low, high in ends)
        points = self.planner.entries(map(Affine.variable, around.variables), around, self.hints)
        length = self.planner.entries((Affine.variable(v),), around.inside((v,), own), self.hints)
        return points * length / (stored * length + points)


def _own_loops(node: Node, context: EnclosingLoops) -> EnclosingLoops:
    """Return the loops of ``context`` on which `node` depends: others do not compute it again, but read its array."""
    variables = tuple(v for v in context.variables if v in node.free)
    others = frozenset(context.variables).difference(variables)
    return EnclosingLoops(variables, tuple(row for row in context.rows if others.isdisjoint(row.form.atoms())))


def _parted(v: int, variables: Sequence[int], rows: Rows) -> tuple[Rows, Rows, tuple[int, ...]]:
    """Return ``(constraints on v, other constraints, other variables)``."""
    own = tuple(row for row in rows if v in row.form.atoms())
    return own, tuple(row for row in rows if row not in own), tuple(w for w in variables if w != v)


def _is_moderate(factor: Node) -> bool:
    """Return whether `factor` neither overflows nor underflows where entries of tensors are moderate."""
    parts = breadth_first(factor, lambda part: () if part.op in BINDERS or part.op == "read" else part.args)
    return all(map(_is_moderate_operation, parts))


def _is_moderate_operation(part: Node) -> bool:
    """Return whether the value of `part` is moderate if its arguments are."""
    if part.op == "pow":
        exponent = part.args[1]
        return exponent.op == "const" and 0 < exponent.data <= MAX_POWER
    return part.op in _ARITHMETIC or part.op in BINDERS or (part.op == "call" and part.data in _BOUNDED)
