"""Guards and loop bounds in final form: without constraints that the context implies, and as tight as possible.

One walk from the root down. The facts known at a node are those about the whole expression (`simplify.facts`), the
ranges of the comprehensions and sums around it, and the guards around it; reads are never among them. Afterwards

- no guard row follows from what is known, and a guard that cannot hold is 0;
- the rows of a sum are triangular: each variable has bounds in those before it, outermost first,
  without redundant ones; a variable with one possible value is replaced by it;
- factors that do not depend on the variables of a sum are outside of it, unless that would evaluate a read that was not
  evaluated before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sympy_tensordiff.errors import LoopBoundError, UnsupportedError
from sympy_tensordiff.graph.index_tests import conjuncts, unequal_forms
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import REDUCTIONS, Graph, Node, Substitution
from sympy_tensordiff.graph.write_forms import distinct_name
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.clamps import decide_clamps_of_rows, gist, has_clamps_over
from sympy_tensordiff.integer.extrema import extrema_text
from sympy_tensordiff.integer.implication import is_empty, is_implied, without_implied, without_redundant
from sympy_tensordiff.integer.indirect import data_terms, eliminate_shared_entries, partition_data
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.integer.rows import Rows, atoms_in, linear, rows_connected_to, substitute_all
from sympy_tensordiff.integer.values import (
    ZERO,
    UniqueValue,
    are_ranges_nonempty,
    bound_rows,
    length_of_range,
    nest_in_some_order,
    remove_exact_floors,
    tighten_by_congruences,
    unique_value,
    unique_value_by_equation,
    without_exact_floors,
)
from sympy_tensordiff.simplify.deltas import has_usable_guard, summation
from sympy_tensordiff.simplify.guards import (
    GuardJoiner,
    pair_opposites,
    pivot,
    rewrite_in_fewest_indices,
    tighten_to_equations,
)
from sympy_tensordiff.simplify.node_properties import NodeProperties
from sympy_tensordiff.simplify.products_of_sums import ProductsOfSums
from sympy_tensordiff.simplify.remainders import CASES_LIMIT, systems_by_remainders


def tighten(
    graph: Graph, nodes: Iterable[Node], facts: Rows, sizes: frozenset[int], written: frozenset[Node] | None = None
) -> list[Node]:
    """Return `nodes` with tight loop bounds, and without guards that `facts` imply. ``sizes`` has the variables that
    are sizes. Comprehensions in `written`, those that the user wrote (None: all), are kept.

    A table that turns out to hold one number, or entries of another tensor as they are, is read there instead. Shared
    nodes are visited once.
    """
    nodes = tuple(nodes)
    work = _Tighten(graph, sizes, written, flat=any(node.has_tensor_ops for node in nodes))
    return [trampoline(work.visit(node, facts)) for node in nodes]


class _Tighten:
    """The recursion of `tighten`, which removes implied constraints. A result is stored for each pair of a node and the
    constraints known there.
    """

    def __init__(
        self,
        graph: Graph,
        sizes: frozenset[int],
        written: frozenset[Node] | None,
        flat: bool,
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.written = written
        self.choices = NodeProperties(graph)
        # A method of this object would tie it to its parts, and the whole graph with it, until garbage is collected.
        self.may_evaluate = self.choices.may_evaluate
        self.done: dict[tuple[Node, Rows], Node] = {}
        self.connected: dict[tuple[Rows, frozenset[int]], Rows] = {}
        self.sums = ProductsOfSums(graph, sizes, self.may_evaluate, flat=flat)

    def visit(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return `node` without the constraints that `facts` imply, and with tight loop bounds."""
        if node.is_guard_free:
            return node
        around = (facts, node.free)
        if around not in self.connected:
            self.connected[around] = rows_connected_to(facts, node.free, self.sizes)
        facts = self.connected[around]
        key = (node, facts)
        if key not in self.done:
            if node.op == "sum":
                result = yield self.sum(node, facts)
            elif node.op in REDUCTIONS:
                result = yield self.reduction(node, facts)
            elif node.op == "guard":
                result = yield self.guard(node, facts)
            elif node.op == "comprehension":
                result = yield self.comprehension(node, facts)
            elif node.op == "read":
                read: Node = yield self.arguments(node, facts)
                if not linear(read.data):
                    read = self.graph.map_own_forms(read, lambda form: gist(form, facts))
                result = self.read_through(node, read)
            elif node.op == "select" and (split := self.on_one_side(node, facts)) is not None:
                result = yield self.visit(split, facts)
            elif node.op == "index":
                result = self.graph.index(gist(node.data, facts))
            else:
                result = yield self.arguments(node, facts)
            self.done[key] = result
        return self.done[key]

    def arguments(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return `node` with its arguments tightened. Terms of an addition whose guards complement each other, ``i <
        j`` and ``i >= j``, are merged; a comparison of sizes is decided where `facts` decide it.
        """
        args = yield from in_turn(self.visit(arg, facts) for arg in node.args)
        if node.op == "add":
            united = GuardJoiner(self.graph, self.sizes).joined(args, facts)
            if united is not None:
                result: Node = yield self.visit(self.graph.add(united), facts)
                return result
            args = pair_opposites(self.graph, args, facts)
        new = self.graph.with_args(node, args)
        return self.decided(new, facts) if new.op == "compare" else new

    def on_one_side(self, node: Node, facts: Rows) -> Node | None:
        """Return the select `node`, ``a if i != j else b``, as ``[i > j]*a + [i == j]*b`` if `facts` exclude ``i < j``,
        or likewise with ``[i < j]`` if they exclude ``i > j``. None for another select, or if they exclude neither.
        """
        graph = self.graph
        condition, value, otherwise = node.args
        for form in unequal_forms(condition):
            rest = graph.logic("and", [one for one in conjuncts(condition) if one.args[0].data != form])
            value = graph.select(rest, node.args[1], otherwise)
            for side in (form, -form):
                if is_implied(Constraint("ge", side), facts):
                    positive_case = graph.guard((Constraint("ge", side - 1),), value)
                    return graph.add((positive_case, graph.guard((Constraint("eq", form),), otherwise)))
        return None

    def decided(self, node: Node, facts: Rows) -> Node:
        """Return the comparison `node` as true or false if it orders sizes, indices or numbers, as ``0 < n``, and
        `facts` decide it; else `node`.
        """
        forms = [arg.data for arg in node.args if arg.op in ("index", "const")]
        if node.data not in ("lt", "le") or len(forms) < 2 or not all(isinstance(one, (Affine, int)) for one in forms):
            return node
        left, right = map(Affine.of, forms)
        difference = right - left - (node.data == "lt")
        if is_implied(Constraint("ge", difference), facts):
            return self.graph.truth(True)
        return self.graph.truth(False) if is_implied(Constraint("ge", -difference - 1), facts) else node

    def read_through(self, node: Node, read: Node) -> Node:
        """Return the entry that `read` copies from another tensor: ``x[i, j]`` if `read` is the entry ``[j, i]`` of a
        comprehension that only transposes ``x``. Return `read` itself if there is none, or if the user wrote the
        comprehension.

        `node` is `read` before it was simplified.
        """
        table = read.args[0]
        if self.written is None or node.args[0] in self.written or table.op != "comprehension":
            return read
        return self.graph.entry(table, read.data) if table.args[0].op in ("const", "read") else read

    def comprehension(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return the comprehension `node` with a simplified body: constraints in it are left out if the ranges of the
        axes, or the constraints `facts` that hold around the node, imply them.
        """
        variables, rows, body = self.graph.open_shared(node, atoms_in(facts))
        new = yield self.visit(body, facts + rows)
        return node if new is body else self.graph.comprehension(variables, node.data, new)

    def reduction(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Simplify `node`, a product, maximum or minimum over a range: give it tighter bounds, in which each index is
        bounded by outer indices only, and simplify its body by them.
        """
        graph = self.graph
        variables, rows, body = graph.open_shared(node, atoms_in(facts))
        if is_empty(rows, facts):
            return graph.one if node.op == "prod" else node
        limits, outer = nest(graph, remove_exact_floors(rows, facts), variables, facts)
        if not outer:  # what no bound tells would not be a guard of the whole
            limits, body = without_unused_indices(graph, node.op, limits, body, facts, self.may_evaluate)
            if not limits:
                alone: Node = yield self.visit(body, facts)
                return alone
            variables, rows = tuple(limit.variable for limit in limits), tuple(bound_rows(limits))
        for limit in () if outer else limits:
            if limit.lows == limit.highs and len(limit.lows) == 1 and limit.lows[0][1] == 1:
                mapping = {limit.variable: limit.lows[0][0]}
                left = [v for v in variables if v != limit.variable]
                rest = [row.substitute(mapping) for row in rows if row.form.substitute(mapping) != ZERO]
                body = graph.substitute(body, mapping)
                again: Node = yield self.visit(graph.reduce(node.op, left, rest, body) if left else body, facts)
                return again
        new: Node = yield self.visit(body, facts + rows)
        reduced = graph.reduce(node.op, variables, rows, new)
        # What decides the cases of a value may leave out an index.
        lost = not body.free.difference(new.free).isdisjoint(variables)
        return (yield self.visit(reduced, facts)) if lost else reduced

    def guard(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return the guard `node` with only those constraints that `facts` do not imply; 0 if they contradict
        `facts`.
        """
        rows, body = node.data if linear(node.data) else decide_clamps_of_rows(node.data, facts), node.args[0]
        if is_empty(rows, facts):
            return self.graph.zero
        rows = tighten_to_equations(eliminate_shared_entries(rows), facts, self.sizes)
        equations: tuple[Constraint, ...] = ()
        while (found := pivot(rows, self.sizes)) is not None:
            # Equal variables get one name: the rest of the guard and the body are rewritten.
            row, mapping = found
            equations += (row,)
            rest = [r.substitute(mapping) for r in rows if r is not row]
            body = self.apply_equation(row, body, mapping)
            equations = tuple(r.substitute(mapping) if r is not row else r for r in equations)
            if is_empty(rest, facts + equations):
                return self.graph.zero
            rows = tighten_to_equations(rest, facts + equations, self.sizes)
        if any(row.kind == "mod" for row in rows):
            congruences = rows
            rows = tighten_by_congruences(remove_exact_floors(rows, rows))
            body = self.graph.map_forms(body, lambda form: without_exact_floors(form, congruences))
        for row in rows:
            body = self.apply_equation(row, body, {}) if row.kind == "eq" and data_terms(row.form) else body
        rows = equations + rows
        new_body = yield self.visit(body, facts + rows)
        if new_body.op == "guard":  # what an index that the body does not hold says of sizes is known here alone
            left = without_implied(new_body.data, facts + rows)
            new_body = self.graph.guard(left, new_body.args[0])
        needed = yield self.needed_rows(rows, new_body, facts)
        for row in needed if _scales_sums(self.graph, new_body) else ():
            # A factor that the row has let out of a sum stays in it without the row.
            others = tuple(other for other in needed if other is not row)
            inside = yield self.visit(body, facts + others)
            left = yield self.needed_rows((*others, row), inside, facts)
            if row not in left:
                needed, new_body = left, inside
        new = self.graph.guard(needed, new_body)
        # A guard that has moved out of the body is examined together with these constraints.
        return (yield self.visit(new, facts)) if new_body.op == "guard" and new is not node else new

    def apply_equation(self, row: Constraint, body: Node, solution: Substitution) -> Node:
        """Return `body`, which is evaluated only where the equation `row` holds, with the variables in `solution`
        replaced by their values from this equation.

        If `row` contains entries such as ``p[i]``, replace only if `body` then depends on fewer indices.
        """
        if not data_terms(row.form):
            return self.graph.substitute(body, solution)
        return rewrite_in_fewest_indices(self.graph, body, row, solution, self.sizes)

    def needed_rows(self, rows: Rows, body: Node, facts: Rows) -> Recursion[Rows]:
        """Return the constraints `rows` of a guard around `body` without redundant ones. A constraint is redundant if
        `body` is 0 wherever it is false: ``i >= 1`` around ``Sum_{j < i} x[j]``, which is an empty sum for i = 0.

        An empty sum is 0 already. Constraints stay without which data in the others would be read outside of their
        tensor.
        """
        remaining = list(rows)
        for row in rows:
            others = [other for other in remaining if other is not row]
            known = (*facts, *others)
            without_data = (*facts, *partition_data(others)[0])
            inside = self.graph.inside_data(other.form for other in others)
            needed = any(
                not is_implied(need, without_data) and is_implied(need, (*without_data, row)) for need in inside
            )
            if row.kind == "ge" and not needed and (yield self.choices.is_redundant(row, body, known)):
                remaining = others
        return tuple(remaining)

    def sum(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return the sum `node` with a tightened body and bounds. An index that can have only one value is replaced by
        it.

        Raises `UnsupportedError` for an equation that no index can be solved for.
        """
        graph = self.graph
        variables, rows, body = graph.open_shared(node, atoms_in(facts))
        if is_empty(rows, facts):
            return graph.zero
        is_linear = linear(rows)
        if not is_linear:
            rows = decide_clamps_of_rows(remove_exact_floors(rows, facts), facts)
        rows = without_redundant(rows, facts)
        own = frozenset(variables)
        if (not is_linear and has_clamps_over(rows, own)) or any(
            row.kind != "ge" and not row.form.atoms().isdisjoint(own) for row in rows
        ):
            # Opposite inequalities have met in an equation.
            solved = summation(graph, variables, rows, body)
            if solved is not node:
                again: Node = yield self.visit(solved, facts)
                return again
        single = unique_value(variables, rows, facts) or unique_value_by_equation(variables, rows, facts)
        fewer = self.without_single(node, variables, rows, body, single)
        if fewer is None and any(row.kind == "eq" for row in rows):
            systems = systems_by_remainders(graph, variables, rows, body, facts)
            if systems is not None:
                again = yield self.visit(graph.add([summation(graph, *system) for system in systems]), facts)
                return again
            raise UnsupportedError(_no_pivot(graph, variables, rows))
        if fewer is None:
            new = yield self.visit(body, facts + rows)
            if new is graph.zero:
                return new
            nested = _nested(graph, variables, rows, new, facts)
            if isinstance(nested, Node):
                if nested is not node:
                    again = yield self.visit(nested, facts)
                    return again
                nested = nest(graph, rows, variables, facts)
            limits, outer = nested
            limits = tuple(_with_known_quotients(limit, facts) for limit in limits)
            # Several constraints together may leave a variable a single value.
            single = unique_value(variables, tuple(bound_rows(limits)), facts)
            fewer = self.without_single(node, variables, rows, new, single)
            if fewer is None:
                return self.sum_within(limits, outer, new, facts)
        again = yield self.visit(fewer, facts)
        return again

    def without_single(
        self, node: Node, variables: Sequence[int], rows: Rows, body: Node, single: UniqueValue | None
    ) -> Node | None:
        """Return the sum of `body` over `variables` in the range `rows`, with variables that can have only one value
        replaced by that value. Return None if nothing changes.

        `single` is ``(dictionary from these variables to their values, further constraints)``, or None if there are
        none.
        """
        if single is None:
            return None
        mapping, guards = single
        left = [v for v in variables if v not in mapping]
        rows = substitute_all((*rows, *guards), mapping)
        # Constraints that follow from the definition of the new quotient would bring it into the system again.
        rows = tuple(row for row in rows if not (row.form.compounds() and is_implied(row, ())))
        fewer = summation(self.graph, left, rows, self.graph.substitute(body, mapping))
        return None if fewer is node else fewer

    def sum_within(self, limits: Sequence[Bounds], guards: Sequence[Constraint], body: Node, facts: Rows) -> Node:
        """Return the sum of `body` within the loop bounds `limits`, under `guards`. Factors that do not depend on a
        loop are moved out of it.
        """
        total = self.sums.of(limits, body, facts) if limits else body
        return self.graph.guard(guards, total)


def _nested(
    graph: Graph, variables: Sequence[int], rows: Rows, body: Node, facts: Rows
) -> Node | tuple[tuple[Bounds, ...], Rows]:
    """Return the loops of the sum of `body` over `variables` in the range `rows`, as `nest` does; or the sum itself,
    with more constraints on its indices: those of guards that have come to the top of `body`, or those of sums inside
    of it if `rows` do not bound an index, as in ``Sum_j c[j]*Sum_i [j <= h[i]]*f(i, j)``.
    """
    if has_usable_guard(graph, variables, rows, body):
        return summation(graph, variables, rows, body)
    try:
        return nest(graph, rows, variables, facts)
    except LoopBoundError:
        joined = _joined_with_inner_sums(graph, variables, rows, body)
        if joined is None:
            raise
        return joined


def _joined_with_inner_sums(graph: Graph, variables: Sequence[int], rows: Rows, body: Node) -> Node | None:
    """Return the sum of `body` over `variables` in the range `rows`, with the inner sums of its terms joined to it, one
    sum for each inner one: ``Sum_(i, j) c[j]*f(i, j)`` for ``Sum_j c[j]*Sum_i f(i, j)``. None if a term has no inner
    sum.
    """
    scaled = _scaled_sums(graph, body)
    if scaled is None:
        return None
    factors: dict[tuple[Node, Node], list[Node]] = {}
    for inner, condition, factor in scaled:
        factors.setdefault((inner, condition), []).append(factor)
    terms = []
    for (inner, condition), found in factors.items():
        more, own, summand = graph.open(inner)
        value = graph.select(condition, summand, graph.zero)
        terms.append(summation(graph, (*more, *variables), (*rows, *own), graph.mul((value, graph.add(found)))))
    return graph.add(terms)


def _scaled_sums(graph: Graph, node: Node) -> list[tuple[Node, Node, Node]] | None:
    """Return ``(sum, condition, factor)`` for each term of `node`, which is their products, added up where the
    conditions hold: products with sums are multiplied out, choices are those between a value and 0. None if a term has
    no sum.
    """
    match node.op:
        case "sum":
            return [(node, graph.truth(True), graph.one)]
        case "add":
            terms = [_scaled_sums(graph, term) for term in node.args]
            return None if None in terms else [one for found in terms if found for one in found]
        case "select" if node.args[2] is graph.zero and (found := _scaled_sums(graph, node.args[1])) is not None:
            return [(inner, graph.logic("and", [node.args[0], also]), factor) for inner, also, factor in found]
    factors = graph.factors(node)
    for place, factor in enumerate(factors) if len(factors) > 1 else ():
        if (found := _scaled_sums(graph, factor)) is not None:
            rest = factors[:place], factors[place + 1 :]
            return [(inner, condition, graph.mul((*rest[0], own, *rest[1]))) for inner, condition, own in found]
    return None


def _scales_sums(graph: Graph, node: Node) -> bool:
    """Return whether each term of `node` is a sum multiplied by a factor that may be undefined, such as `1/n`. A guard
    around `node` may then be needed: if a sum is empty, the other factor would still be evaluated.
    """
    terms = [graph.factors(term) for term in (node.args if node.op == "add" else (node,))]
    return all(sum(factor.op == "sum" for factor in factors) == 1 for factors in terms) and any(
        not factor.total for factors in terms for factor in factors if factor.op != "sum"
    )


def _with_known_quotients(limit: Bounds, facts: Rows) -> Bounds:
    """Return `limit` with ``floor(form/divisor)`` and maxima in the bounds replaced by simpler forms that are equal
    under `facts`.
    """
    if linear([form for side in limit[1:] for form, _ in side]):
        return limit
    sides = [[(gist(form, facts), divisor) for form, divisor in side] for side in limit[1:]]
    return Bounds(limit.variable, *(tuple(dict.fromkeys(side)) for side in sides))


def _no_pivot(graph: Graph, variables: Sequence[int], rows: Rows) -> str:
    """Return the text of the error that an equation in `rows`, the range of a sum over `variables`, cannot be solved:
    none of its indices has the coefficient 1.
    """
    row = next(row for row in rows if row.kind != "ge" and not row.form.hidden().isdisjoint(variables))
    names = ", ".join(dict.fromkeys(graph.names[v] for v in variables if v in row.form.hidden()))
    return (
        f"an index equation multiplies {names} by a symbol, and holds no index with the coefficient 1: use a number up "
        f"to {CASES_LIMIT} as the stride, as in x[Mod(3*i, M)], or add such an index, as in x[M*i + j] with 0 <= j < M"
    )


def nest(
    graph: Graph, rows: Sequence[Constraint], variables: Sequence[int], facts: Rows
) -> tuple[tuple[Bounds, ...], Rows]:
    """Return ``(bounds, rest)`` for loops over `variables` in the range `rows`: the bounds of each loop, which depend
    on outer loops only, and the constraints in `rows` without any of `variables`. ``facts`` are known constraints.

    Raise `LoopBoundError` if no loop nest expresses the rows; the message has the names of the variables.
    """
    try:
        return nest_in_some_order(rows, variables, facts)
    except LoopBoundError as error:
        raise error.named(lambda part: _text_of_part(graph, part)) from None


def _text_of_part(graph: Graph, part: Any) -> str:
    """Return the text of ``part``, a variable or constraint, for an error message; different variables get different
    names.
    """
    if not isinstance(part, Constraint):
        return str(graph.names[part])
    names: dict[Variable, str] = {}
    for v in sorted(part.form.atoms()):
        names[v] = distinct_name(graph.names[v], set(names.values()))
    form = part.form.substitute({v: Affine.variable(name) for v, name in names.items()})
    return f"{extrema_text(form)} {'>=' if part.kind == 'ge' else '=='} 0"


def without_unused_indices(
    graph: Graph,
    op: str,
    limits: Sequence[Bounds],
    body: Node,
    facts: Rows,
    may_evaluate: Callable[[Node, Rows], bool],
) -> tuple[tuple[Bounds, ...], Node]:
    """Return ``(limits, body)`` of the reduction `op` without the indices on which the body does not depend: a maximum
    ignores them, a product becomes a power.

    The constraints `facts` hold. ``may_evaluate(node, rows)`` says whether a node has a value wherever the constraints
    `rows` are true.

    A product over one that goes is a power: ``Prod_k b`` is ``b**n`` for n values of k. The maximum and the minimum of
    equal values is that value, if there is a value: over an empty range that is infinite. All values count where the
    greatest ones share a derivative: as often each, or the index stays.
    """
    remaining = tuple(limits)
    own = [limit.variable for limit in limits]
    for limit in reversed(limits):
        place = remaining.index(limit)
        before, behind = remaining[:place], remaining[place + 1 :]
        if limit.variable in body.free or any(limit.variable in row.form.atoms() for row in bound_rows(behind)):
            continue
        known = (*facts, *bound_rows(before))
        filled = are_ranges_nonempty([limit], known)
        count = length_of_range(limit)
        if op == "prod":
            if count is None or not (filled or is_implied(Constraint("ge", count), known)):
                continue
            if not (filled or may_evaluate(body, (*known, *bound_rows(behind)))):
                continue
            body = graph.pow(body, graph.index(count))
        elif not filled or count is None or not count.atoms().isdisjoint(own):
            continue
        remaining = (*before, *behind)
    return remaining, body
