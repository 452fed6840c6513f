"""Sums of products with each factor outside of the sums over indices that it does not contain.

A product under a sum is split into groups that share no variable: ``Sum_jk a[j]*b[k]`` is
``(Sum_j a[j])*(Sum_k b[k])``. The same is done below each of the outer variables: for ``Sum_i Sum_ab a[i, a]*b[i, b]``
there is one sum over ``i`` of a product of two. Factors that are sums, and those that know of more indices than the
inner sum does, leave it. Entries and values of functions that know less stay: ``Sum_ij x[i]*A[i, j]*x[j]`` reads best
flat, and costs the same, unless one divides by the inner sum. Another order of the sums is taken where that one lets a
factor leave: for each k, ``Sum_ij x[i]*A[i, j]*B[j, k]`` is ``Sum_j B[j, k]*Sum_i x[i]*A[i, j]``.

Common factors of all terms of a summand are outside of the addition. An addition is summed term by term only where one
term at most is left then, as in ``Sum_k (x[k] - mean)``, which is 0: the sum of small differences is more exact than
the difference of large sums.

An empty sum is 0, and reads nothing. So a factor leaves a sum, and a sum its neighbour, only where
the sum is known to run, or where the factor is defined everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from sympy_tensordiff.graph.index_tests import is_index_choice
from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import RANGED, Graph, Node
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.extrema import positive_part
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.integer.rows import Rows, atoms_in
from sympy_tensordiff.integer.values import are_ranges_nonempty, bound_rows, length_of_range
from sympy_tensordiff.simplify.common_factors import factor_out_common
from sympy_tensordiff.simplify.node_properties import is_conditional

Limits = Sequence[Bounds]

MAX_TERMS_SUMMED = 8
"""Longer additions are not summed term by term to see what cancels."""


class ProductsOfSums:
    """Builds sums of products as nested sums with each factor outside of all sums on whose index it does not depend:
    ``Sum_i a[i] * Sum_j b[j]``.

    The variables in `sizes` are never bound. `may_evaluate` says whether a node may be evaluated where it was not
    before, given the constraints that hold there. With `flat`, sums over several variables stay as they are, for passes
    that look for tensor products.
    """

    def __init__(
        self, graph: Graph, sizes: frozenset[int], may_evaluate: Callable[[Node, Rows], bool], *, flat: bool
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.may_evaluate = may_evaluate
        self.flat = flat

    def of(self, limits: Limits, body: Node, facts: Rows) -> Node:
        """Return the sum of `body` over the loop bounds `limits`, outermost first, with factors moved out of loops in
        which they do not change, if `facts` show that this is safe.
        """
        if not self.flat:
            tests, inner = self.graph.split_index_choice(body)
            body = self.graph.tested(tests, factor_out_common(self.graph, inner))
        graph = self.graph
        for choice in graph.factors(body):
            if self.may_leave(choice, limits, facts):
                others = [factor for factor in graph.factors(body) if factor is not choice]
                sides = [graph.mul((*others, side)) for side in choice.args[1:]]
                sums = [side if side is graph.zero else self.of(limits, side, facts) for side in sides]
                return graph.select(choice.args[0], *sums)
        return self.product(
            limits, [part for factor in self.graph.factors(body) for part in self.parts(factor, limits, facts)], facts
        )

    def may_leave(self, choice: Node, limits: Limits, facts: Rows) -> bool:
        """Return whether the select `choice`, a factor of a sum, may be moved out of the sum over `limits`: its
        condition does not depend on the indices, and is defined even where the sum is empty.
        """
        if not self.graph.is_choice(choice):
            return False
        condition = choice.args[0]
        outside = condition.free.isdisjoint([limit.variable for limit in limits])
        return outside and (are_ranges_nonempty(limits, facts) or self.may_evaluate(condition, facts))

    def parts(self, factor: Node, limits: Limits, facts: Rows) -> list[Node]:
        """Split the guard or select `factor` of a sum over `limits`, so that factors without the summed indices can be
        moved out: ``[i < j]*a*x[i]`` gives ``[a, [i < j]*x[i]]`` in a sum over i. Return ``[factor]`` if there are
        none.
        """
        graph = self.graph
        is_choice = factor.op == "select" and is_index_choice(factor)
        if factor.op != "guard" and not is_choice:
            return [factor]
        variables = frozenset(limit.variable for limit in limits)
        inside = graph.factors(factor.args[1 if is_choice else 0])
        free = [part for part in inside if part.free.isdisjoint(variables) and self.may_evaluate(part, facts)]
        if not free:
            return [factor]
        rest = graph.mul([part for part in inside if part not in free])
        if is_choice:
            return [*free, graph.tested(factor.args[0], rest)]
        return [*free, graph.guard(factor.data, rest)]

    def product(self, limits: Limits, factors: Sequence[Node], facts: Rows) -> Node:
        """Return the sum of the product of `factors` over `limits`: the factors without summed indices in front, times
        one sum for each group of factors that share no summed index with the others.
        """
        variables = frozenset(limit.variable for limit in limits)
        free = [factor for factor in factors if factor.free.isdisjoint(variables)]
        runs = are_ranges_nonempty(limits, facts)
        chosen = any(is_conditional(self.graph, factor) for factor in factors if factor not in free)
        outside = [f for f in free if (runs and (f.total or not chosen)) or self.may_evaluate(f, facts)]
        inside = [factor for factor in factors if factor not in outside]
        groups = [] if self.flat or len(free) > len(outside) else self.groups(limits, inside)
        if len(groups) < 2 or not self.may_split_sum(groups, runs, facts):
            groups = [(list(limits), inside)]
        return self.graph.mul([*outside, *(self.group(*group, facts) for group in groups)])

    def groups(self, limits: Limits, factors: Sequence[Node]) -> list[tuple[list[Bounds], list[Node]]]:
        """Partition the loop bounds `limits` and the `factors` of a sum: return pairs ``(limits, factors)`` of which no
        two share a summed variable, so that the sum is the product of the sums of the groups.
        """
        classes: list[set[int]] = []
        used = [factor.free for factor in factors]
        for linked in [*(_atoms(limit) for limit in limits), *used]:
            own = {limit.variable for limit in limits} & linked
            touched = [found for found in classes if not own.isdisjoint(found)]
            classes = [found for found in classes if own.isdisjoint(found)]
            if own:
                classes.append(own.union(*touched))
        classes.sort(key=lambda found: min(n for n, limit in enumerate(limits) if limit.variable in found))
        return [
            (
                [limit for limit in limits if limit.variable in found],
                [factor for factor in factors if not factor.free.isdisjoint(found)],
            )
            for found in classes
        ]

    def may_split_sum(self, groups: Sequence[tuple[list[Bounds], list[Node]]], run: bool, facts: Rows) -> bool:
        """Return whether ``Sum_i Sum_j a[i]*b[j]`` may become ``(Sum_i a[i])*(Sum_j b[j])``; `groups` has the bounds
        and factors of each new sum, `run` says that no range is empty.

        Always true if `run` says that all ranges are nonempty. Otherwise the factors of each group must be safe to
        evaluate (no read out of bounds) if a range of another group may be empty.
        """
        if run:
            return True
        for limits, factors in groups:
            known = (*facts, *bound_rows(limits))
            others = [limit for other, _ in groups if other is not limits for limit in other]
            if not are_ranges_nonempty(others, facts) and not all(
                self.may_evaluate(factor, known) for factor in factors
            ):
                return False
        return True

    def group(self, limits: list[Bounds], factors: Sequence[Node], facts: Rows) -> Node:
        """Return the sum over `limits` of the product of `factors`, which have indices in common, in the form with
        least work: factors that do not depend on the indices of inner sums are moved in front of them.
        """
        graph = self.graph
        last = limits[-1]
        if all(last.variable not in factor.free for factor in factors):
            # Nothing depends on the innermost variable: its sum is a number of repetitions.
            count = self.number_of_values(last, factors, (*facts, *bound_rows(limits[:-1])))
            if count is not None:
                repeated = [graph.index(count), *factors]
                return self.product(limits[:-1], repeated, facts) if limits[:-1] else graph.mul(repeated)
        if len(limits) > 1 and not self.flat and (total := self.cancelled(limits, factors, facts)) is not None:
            return total
        for order in [] if self.flat else [limits, *_other_orders(limits)]:
            for n in range(1, len(limits)) if order is limits else [len(limits) - 1]:
                known = (*facts, *bound_rows(order[:n]))
                inner = frozenset(limit.variable for limit in order[n:])
                free = [factor for factor in factors if factor.free.isdisjoint(inner)]
                bound = [factor for factor in factors if not factor.free.isdisjoint(inner)]
                if not self.is_better(order[n:], free, bound):
                    continue
                if are_ranges_nonempty(order[n:], known) or all(self.may_evaluate(factor, known) for factor in free):
                    inside = self.product(order[n:], bound, known)
                    if order is limits:
                        return self.sum(limits[:n], graph.mul([*free, inside]), facts)
                    return self.group(order[:n], [*free, *graph.factors(inside)], facts)
        return self.sum(limits, graph.mul(factors), facts)

    def number_of_values(self, limit: Bounds, factors: Sequence[Node], facts: Rows) -> Affine | None:
        """Return the number of values of the loop variable of `limit`. A product of `factors` without this variable is
        multiplied by it instead of being summed. None if the number is unknown, or may be 0 where a factor is
        undefined.
        """
        count = length_of_range(limit)
        if count is None or are_ranges_nonempty([limit], facts):
            return count
        if not all(self.may_evaluate(factor, facts) for factor in factors):
            return None
        return count if is_implied(Constraint("ge", count), facts) else positive_part(count)

    def is_better(self, inner: Limits, free: Sequence[Node], bound: Sequence[Node]) -> bool:
        """Return whether it pays to move the factors `free` out of the sum over `inner`, in which the factors `bound`
        remain. It pays if the sum can then be split, if it depends on fewer indices, or if `free` contains loops.
        """
        if len(self.groups(inner, bound)) > 1:
            return True
        needed = self.sizes.union(*(factor.free for factor in bound), *(_atoms(limit) for limit in inner))
        return any(_contains_loops(factor) or not factor.free <= needed for factor in free)

    def cancelled(self, limits: Limits, factors: Sequence[Node], facts: Rows) -> Node | None:
        """Cancel a divisor with an inner sum in the sum of the product of `factors` over `limits`:
        ``Sum_ij c[i]*x[i, j]/S[i]`` is ``Sum_i c[i]`` if ``S[i]`` is ``Sum_j x[i, j]``. None if nothing cancels.
        """
        guards = [factor for factor in factors if factor.op == "guard"]
        rows: Rows = guards[0].data if len(guards) == 1 else ()
        if rows:
            factors = [*(f for f in factors if f is not guards[0]), *self.graph.factors(guards[0].args[0])]
        bases = [f.args[0] for f in factors if f.op == "pow" and f.args[0].op == "sum" and f.args[1].op == "const"]
        for base in bases:
            others = [limit for limit in limits if limit.variable not in base.free]
            for inner in combinations(others, len(self.graph.bound(base))):
                part = self.quotient_sum(base, inner, limits, factors, rows, facts)
                if part is not None:
                    return part
        return None

    def quotient_sum(
        self, base: Node, inner: Limits, limits: Limits, factors: Sequence[Node], rows: Rows, facts: Rows
    ) -> Node | None:
        """Return ``Sum_i c[i]`` for ``Sum_ij c[i]*x[i, j]/S[i]``, where `base` is ``S[i] = Sum_j x[i, j]``, `limits`
        are those of i and j, `inner` those of j. None unless the sum over `inner` is a multiple of `base`. `rows` is a
        guard of the `factors`.
        """
        outer = [limit for limit in limits if limit not in inner]
        variables = frozenset(limit.variable for limit in inner)
        if not outer or not variables.isdisjoint(atoms_in(rows)) or any(variables & _atoms(limit) for limit in outer):
            return None
        known = (*facts, *bound_rows(outer), *rows)
        free = [factor for factor in factors if factor.free.isdisjoint(variables)]
        if not (are_ranges_nonempty(inner, known) or all(self.may_evaluate(factor, known) for factor in free)):
            return None
        part = self.product(inner, [factor for factor in factors if factor not in free], known)
        if self.graph.split_coefficient(part)[1] is not base:
            return None
        left = self.graph.mul([*free, part])
        if rows:
            return self.sum(outer, self.graph.guard(rows, left), facts)
        return self.product(outer, self.graph.factors(left), facts)

    def sum(self, limits: Limits, body: Node, facts: Rows) -> Node:
        """Return the sum of `body` over the loop bounds `limits`; if `body` is itself a sum, both become one sum."""
        coefficient, body = self.graph.split_coefficient(body)
        variables, rows = [limit.variable for limit in limits], bound_rows(limits)
        if body.op == "sum":
            more, more_rows, body = self.graph.open(body)
            variables, rows = [*variables, *more], [*rows, *more_rows]
        elif body.op == "add" and len(body.args) <= MAX_TERMS_SUMMED and (split := self.vanishing(limits, body, facts)):
            return self.graph.scale(coefficient, split)
        return self.graph.scale(coefficient, self.graph.sum(variables, rows, body))

    def vanishing(self, limits: Limits, body: Node, facts: Rows) -> Node | None:
        """Sum the addition `body` over `limits` term by term, if at most one term remains after cancellation; if not,
        try the same for the sum over the innermost index alone. Return the new sum, or None if neither succeeds.

        `facts` are known constraints.
        """
        for n in sorted({0, len(limits) - 1}):
            split = self.by_terms(limits[n:], body, (*facts, *bound_rows(limits[:n])))
            if split is not None:
                return self.product(limits[:n], self.graph.factors(split), facts) if n else split
        return None

    def by_terms(self, limits: Limits, body: Node, facts: Rows) -> Node | None:
        """Return the sum over `limits` of the addition `body`, summed term by term, if terms then cancel so that at
        most one remains; else None.
        """
        graph = self.graph
        variables = frozenset(limit.variable for limit in limits)
        free = [term for term in body.args if term.free.isdisjoint(variables)]
        counts = [length_of_range(limit) for limit in limits]
        if not free or not are_ranges_nonempty(limits, facts):
            return None
        numbers = []
        for count in counts:
            if count is None or not count.atoms().isdisjoint(variables):
                return None
            numbers.append(graph.index(count))
        bound = [self.product(limits, graph.factors(term), facts) for term in body.args if term not in free]
        split = graph.add([*bound, *(graph.mul([*numbers, term]) for term in free)])
        if split.op == "add" and any(self.opened(term) is not term for term in free):
            split = graph.add([*bound, *(graph.mul([*numbers, self.opened(term)]) for term in free)])
        return split if split.op != "add" else None

    def opened(self, term: Node) -> Node:
        """Return `term`, a number times an entry of a comprehension, with the formula of the entry in its place:
        ``2*x[i]**2`` for ``2*T[i]``, where T has the entries ``x[i]**2``. Another term is unchanged.
        """
        number, core = self.graph.split_coefficient(term)
        if core.op != "read" or core.args[0].op != "comprehension":
            return term
        return self.graph.scale(number, self.graph.entry(core.args[0], core.data))


def _contains_loops(factor: Node) -> bool:
    """Return whether `factor` contains a sum or other reduction among its factors, terms or bases, not counting the
    inside of functions.
    """

    def operands(node: Node) -> Sequence[Node]:
        """Return the arguments of ``node`` if it is an addition, product or power with loops or guards inside; () for
        any other node.
        """
        return node.args if node.op in ("add", "mul", "pow") and not node.is_guard_free else ()

    return any(node.op in RANGED for node in breadth_first(factor, operands))


def _other_orders(limits: list[Bounds]) -> list[list[Bounds]]:
    """Return other orders of the loops `limits` that move one of them to the innermost place, from the last but one to
    the first; [] if the range of one depends on another.
    """
    variables = frozenset(limit.variable for limit in limits)
    if any(len(_atoms(limit) & variables) > 1 for limit in limits):
        return []
    return [[*limits[:n], *limits[n + 1 :], limits[n]] for n in range(len(limits) - 2, -1, -1)]


def _atoms(limit: Bounds) -> frozenset[int]:
    """Return the variables in the loop bounds `limit`, and the loop variable itself."""
    return atoms_in(bound_rows([limit]))
