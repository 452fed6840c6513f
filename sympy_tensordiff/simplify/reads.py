"""Guards around reads that are not proved in bounds; sums with forward indices.

A read outside of its shape is 0 by definition, and all other passes rely on it. Printed reads are in bounds, so this
pass puts a guard around each read that needs one. Data that an index, a condition or a range selects are 0 outside of
their shape, too, or whatever else: such a node is split into the case where they are in bounds and the cases where they
are not, most of which have no point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.instances import instance
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.extrema import cases
from sympy_tensordiff.integer.floor_elimination import times_divisors
from sympy_tensordiff.integer.fourier_motzkin import project_exactly
from sympy_tensordiff.integer.implication import is_empty, is_implied, without_implied
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries, variables_in_indirect_indices
from sympy_tensordiff.integer.rows import Rows, atoms_in, shape_rows
from sympy_tensordiff.simplify.accesses import Accesses
from sympy_tensordiff.simplify.deltas import summation
from sympy_tensordiff.simplify.facts import size_variables
from sympy_tensordiff.simplify.node_properties import NodeProperties, context_of, inside_shape

Variables = tuple[int, ...]
Conditions = frozenset[Node]

MOST_READS = 1000
"""The number of unproven reads of a function that are compared with those of a result."""

MOST_TRIES = 60
"""The number of matches tried for one read; a superfluous guard is the worst that follows."""


def explicit_reads(graph: Graph, nodes: Iterable[Node], facts: Rows, function: Sequence[Node] = ()) -> list[Node]:
    """Return `nodes` with a guard ``[0 <= i < n]`` around each read that may be out of bounds. Reads that `facts` prove
    in bounds, or that the original expressions ``function`` make themselves, need none.

    Reads of ``function`` itself are in bounds: a call with other arguments is refused.

    Raise `UnsupportedError` if the range of a product, a maximum or a minimum ends at a tensor entry that may be read
    out of bounds.
    """
    work = _Explicit(graph, WrittenReads(graph, function, facts), facts)
    return [trampoline(work.visit(node, facts)) for node in nodes]


class _Written(NamedTuple):
    """A constraint ``form >= 0`` that holds because the user's function contains a read, which would be out of bounds
    otherwise. It holds for all ``variables`` in the range ``rows``, where the ``conditions`` of the read are true.
    """

    form: Affine
    variables: Variables
    rows: Rows
    conditions: Conditions


class WrittenReads:
    """Decides whether a derivative may assume that a read is in bounds: it may if the user's function makes the same
    read, and so requires this already (`holds`).

    `function` are the expressions as written, `facts` the constraints on sizes and free indices.
    """

    def __init__(self, graph: Graph, function: Sequence[Node], facts: Rows) -> None:
        self.graph = graph
        self.facts = facts
        self.function = function
        self.found: list[_Written] | None = None
        self.answers: dict[tuple[Constraint, Rows, Conditions], bool] = {}
        self.tries = 0

    def holds(self, row: Constraint, facts: Rows, conditions: Conditions = frozenset()) -> bool:
        """Return whether a derivative may assume the constraint `row` where `facts` and `conditions` hold: a read of
        the original function, evaluated there, is in bounds only if `row` is true.
        """
        key = (row, facts, conditions)
        if key not in self.answers:
            if self.found is None:
                self.found = list(dict.fromkeys(islice(self._uncertain_bounds(), MOST_READS)))
            self.tries = MOST_TRIES
            self.answers[key] = any(self._matches(read, row, facts, conditions) for read in self.found)
        return self.answers[key]

    def _matches(self, read: _Written, row: Constraint, facts: Rows, conditions: Conditions) -> bool:
        """Return whether the constraint `row` is an instance of the constraint `read`, that is, equal to it for some
        values of the variables of `read`. For these values, `facts` and `conditions` must imply the ranges and
        conditions of `read`.

        Return False after a limited number of tries.
        """
        graph = self.graph
        alike = len(read.form.terms) == len(row.form.terms) and len(read.conditions) <= len(conditions)
        if not alike or self.tries <= 0:
            return False
        used = tuple(v for v in read.variables if v in read.form.atoms())
        forms = instance(graph, graph.index(read.form), used, graph.index(row.form))
        return forms is not None and any(
            all(is_implied(other.substitute(found), facts) for other in read.rows)
            and all(graph.substitute(test, found) in conditions for test in read.conditions)
            for found in self._extended_to_all(read, dict(forms), facts)
        )

    def _extended_to_all(
        self, read: _Written, forms: dict[Variable, Affine], facts: Rows
    ) -> Iterator[dict[Variable, Affine]]:
        """Yield each way to extend the substitution `forms` to all variables in the constraints of `read`. A constraint
        with an unassigned variable is matched with one of `facts`: ``i < n`` and ``k < n`` give ``{i: k}``.

        The substitution replaces variables of `read` by index forms.
        """
        self.tries -= 1
        rest = frozenset(v for v in read.variables if v not in forms)
        rows = (other.form.substitute(forms) for other in read.rows if not rest.isdisjoint(other.form.atoms()))
        form = next(rows, None)
        if form is None:
            yield forms
            return
        unknown = tuple(rest.intersection(form.atoms()))
        for fact in facts:
            alike = len(fact.form.terms) == len(form.terms) and self.tries > 0
            found = (
                instance(self.graph, self.graph.index(form), unknown, self.graph.index(fact.form)) if alike else None
            )
            if found is not None:
                yield from self._extended_to_all(read, {**forms, **found}, facts)

    def _uncertain_bounds(self) -> Iterator[_Written]:
        """Yield the bounds ``form >= 0`` of those reads of the original function that are not provably in bounds, each
        with the loops and conditions around the read.
        """
        for access, _, row in Accesses(self.graph, self.facts).unproven(self.function):
            around = access.around
            yield from self._written_cases(row.form, around.variables, around.rows, frozenset(around.choices))

    def _written_cases(self, form: Affine, bound: Variables, known: Rows, conditions: Conditions) -> Iterator[_Written]:
        """Yield a `_Written` for the constraint ``form >= 0``, and one for each case of the maxima and minima in `form`
        that can occur. `known` and `conditions` hold at the read, `bound` are the variables of the loops around it.

        Variables in `bound` that are not needed are eliminated from `known`.
        """
        system = (Constraint("ge", form), *known)
        for inside, *around in dict.fromkeys((system, *cases(system))):
            needed = inside.form.atoms().union(*(test.free for test in conditions))
            rows = project_exactly(around, frozenset(bound).difference(needed))
            if rows is None:  # what selects data in conditions stays
                needed = needed.union(*(variables_in_indirect_indices(row.form) for row in around))
                rows = project_exactly(around, frozenset(bound).difference(needed))
            if rows is not None and not is_empty(rows):
                yield _Written(inside.form, tuple(v for v in bound if v in needed), rows, conditions)


class _Explicit:
    """Puts a guard around each read that may be out of bounds, for `explicit_reads`. Results are cached by node, known
    constraints and conditions.
    """

    def __init__(self, graph: Graph, written: WrittenReads, facts: Rows) -> None:
        self.graph = graph
        self.written = written
        self.facts = frozenset(facts)
        self.choices = NodeProperties(graph)
        self.conditions: Conditions = frozenset()
        self.done: dict[tuple[Node, Rows, Conditions], Node] = {}

    def visit(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return `node` with guards around the reads in it that `facts` do not prove to be in bounds. Results are
        cached.
        """
        if node.op == "comprehension":  # what is around it says nothing of the variables that it does not use
            facts = tuple([row for row in facts if row in self.facts or row.form.atoms() <= node.free])
        if node.is_guard_free and not self.unproven(tuple(self.choices.read_conditions(node)), facts):
            return node
        key = (node, facts, self.conditions)
        if key not in self.done:
            self.done[key] = yield self.explicit(node, facts)
        return self.done[key]

    def explicit(self, node: Node, facts: Rows) -> Recursion[Node]:
        """Return `node` with guards around its unproven reads, without looking up earlier results.

        A node whose tensor entries may be read out of bounds is split into cases.
        """
        graph = self.graph
        variables: Variables = ()
        rows: Rows = ()
        body = node
        if node.op == "guard":
            rows, (body,) = node.data, node.args
        elif node.op in BINDERS:
            variables, rows, body = graph.open_shared(node, atoms_in(facts))
        found = self.unproven_data(node, variables, rows, facts)
        if found is not None:
            cases = self.split_by_entry(node, variables, rows, body, *found)
            if not found[0].atoms().isdisjoint(variables):
                return graph.add(cases)  # they are looked at in their final form
            parts = yield from in_turn(self.visit(part, facts) for part in cases)
            return graph.add(parts)
        if body is not node:
            new = yield self.visit(body, facts + rows)
            return node if new is body else self.rebuilt(node, variables, rows, new)
        args = []
        around = self.conditions
        for n, arg in enumerate(node.args):
            if node.op == "select" and n:
                self.conditions = around | {node.args[0] if n == 1 else graph.logic("not", [node.args[0]])}
            args.append((yield self.visit(arg, facts)))
            self.conditions = around
        result = graph.with_args(node, args)
        return graph.guard(self.unproven(inside_shape(graph, node), facts), result)

    def unproven(self, rows: Rows, facts: Rows) -> Rows:
        """Return the constraints in `rows` that are not implied by `facts`, nor by the assumption that the reads in the
        user's function are in bounds.
        """
        return tuple([row for row in without_implied(rows, facts) if not self.is_proven(row, facts)])

    def is_proven(self, row: Constraint, facts: Rows) -> bool:
        """Return whether the constraint `row`, which `facts` alone do not imply, can be proved: from `facts` multiplied
        by symbolic divisors, or because the user's function reads an entry that exists only where `row` holds.
        """
        more = times_divisors(facts) if row.form.compounds() else ()
        return bool(more and is_implied(row, (*facts, *more))) or self.written.holds(row, facts, self.conditions)

    def rebuilt(self, node: Node, variables: Sequence[int], rows: Rows, body: Node) -> Node:
        """Return a guard, sum or other binder with the operation of `node`, and with the given `variables`, constraints
        `rows` and `body`.
        """
        if node.op == "guard":
            return self.graph.guard(rows, body)
        if node.op == "comprehension":
            return self.graph.comprehension(variables, node.data, body)
        return self.graph.reduce(node.op, variables, rows, body)

    # -------------------------------------------------------------- data

    def unproven_data(
        self, node: Node, variables: Sequence[int], rows: Rows, facts: Rows
    ) -> tuple[IndirectIndex, Rows] | None:
        """Return ``(entry, constraints)`` for the first integer-tensor entry, such as ``p[i]``, in the indices or
        constraints of `node` that may be out of bounds; the constraints are those known where it is read. None if all
        are proved.

        `variables` and `rows` are those that `node` binds.
        """
        if not self.graph.integers:
            return None
        forms = node.data if node.op == "read" else (node.data,) if node.op == "index" else ()
        places = [(form, facts) for form in forms]
        if node.op == "guard" or node.op in RANGED:
            places = self.forms_with_data(variables, rows, facts)
        for form, known in places:
            for entry in reversed(data_entries([form])):
                if not self.is_inside(entry, known):
                    return entry, known
        return None

    def forms_with_data(self, variables: Sequence[int], rows: Rows, facts: Rows) -> list[tuple[Affine, Rows]]:
        """Return ``(form, constraints)`` for each constraint among `rows` that contains an entry of an integer tensor,
        such as ``p[i]``: its affine form, and the constraints that hold where it is tested.

        `rows` belong to a guard or bound loops over `variables`; `facts` hold around them.
        """
        return [(row.form, (*facts, *context_of(row, rows, variables))) for row in rows if data_entries([row.form])]

    def is_inside(self, entry: IndirectIndex, facts: Rows) -> bool:
        """Return whether `entry` is proven to lie inside of its integer tensor."""
        return not self.unproven(self.shape(entry), facts)

    def shape(self, entry: IndirectIndex) -> Rows:
        """Return the constraints that the tensor entry `entry`, such as ``p[i]``, is in bounds; entries in its indices
        are not considered.
        """
        return shape_rows(entry.index, self.graph.integers[entry.tensor].shape)

    def cases(self, node: Node, rows: Rows, entry: IndirectIndex, known: Rows) -> Iterator[tuple[Rows, Rows | None]]:
        """Split the computation of `node` into cases: `entry`, an entry of an integer tensor, is in bounds, or it is
        out of bounds. Yield ``(constraints, tests)`` for each case: its own constraints, and those of `rows` left to
        test in it, None if one of these is false.

        In bounds, all of `rows` are tested; out of bounds, only the rows without `entry`.

        A result is right whatever value an entry outside of its tensor has,
        since its function does not depend on that. The value taken is below all numbers: no equation holds there, the
        entry is not read at such an index, and the inequalities hold in which the entry has a negative coefficient.
        """
        inside = self.unproven(self.shape(entry), known)
        yield inside, rows
        left = self.remaining_rows(rows, entry)
        if node.op == "read" or (left is None and node.op in ("guard", "sum")):
            return
        for n, row in enumerate(inside):
            case = (*inside[:n], row.negation())
            if not is_empty((*case, *known)):
                yield case, left

    def remaining_rows(self, rows: Rows, entry: IndirectIndex) -> Rows | None:
        """Return the constraints in `rows` that do not contain `entry`, an entry of an integer tensor that is out of
        bounds and counts as minus infinity. Return None if a constraint with `entry` then fails.
        """
        left: list[Constraint] = []
        for row in rows:
            slope = row.form.coefficient(entry)
            if entry not in data_entries([row.form]):
                left.append(row)
            elif not slope or row.kind != "ge" or slope > 0:
                return None  # what is inside of a quotient, or selects other data, lies below all numbers too
        return tuple(left)

    def split_by_entry(
        self, node: Node, variables: Sequence[int], rows: Rows, body: Node, entry: IndirectIndex, known: Rows
    ) -> list[Node]:
        """Split `node` into guarded terms that add up to it: one for the case that `entry`, an entry of an integer
        tensor, is in bounds, the others for the cases that it is out of bounds. Return the list of terms.

        `variables`, `rows` and `body` are those of `node`, a guard, sum or other binder; the constraints `known` hold
        around it.

        Raises `UnsupportedError` if the entry bounds a variable of a product, a maximum or a minimum.
        """
        graph = self.graph
        below: dict[Variable, Affine] = {entry: Affine()}
        found: list[Node] = []
        for case, own in self.cases(node, rows, entry, known):
            inner = body
            if found:  # an entry that holds no variables is in its own forms only
                inner = graph.map_own_forms(graph.substitute(body, below), lambda form: form.substitute(below))
            if own is None:
                own = tuple(
                    row
                    for v in variables
                    for row in (Constraint("ge", Affine.variable(v)), Constraint("ge", -1 - Affine.variable(v)))
                )
            if body is node or node.op == "guard":
                found.append(graph.guard((*case, *own), inner))
            elif entry.atoms().isdisjoint(variables):
                found.append(graph.guard(case, self.rebuilt(node, variables, own, inner)))
            elif node.op == "sum":
                found.append(summation(graph, variables, (*case, *own), inner))
            else:
                raise UnsupportedError(
                    f"an entry of {entry.tensor} that may be read outside of its shape ends the range of a {node.op}: "
                    "write a condition around it"
                )
        return found


# ---------------------------------------------------------------- reads in the order of the entries


def with_forward_reads(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return `nodes` with sums that read backwards reversed: a sum over ``j`` whose reads are all like ``x[n - 1 - j]``
    becomes one that reads ``x[j]``.

    ``Sum_j x[n - 1 - j]`` over ``j <= i`` is ``Sum_j x[j]`` over ``j >= n - 1 - i``. Shifts such as ``x[p - k]`` stay.
    """
    changed: dict[Node, Node] = {}
    sizes = size_variables(list(nodes))
    for part in reachable(*nodes):
        new = part
        if changed and not changed.keys().isdisjoint(part.args):
            new = graph.with_args(part, [changed.get(arg, arg) for arg in part.args])
        if new.op == "sum" and not new.has_tensor_ops:
            new = _forward(graph, new, sizes)
        if new is not part:
            changed[part] = new
    return [changed.get(node, node) for node in nodes]


def _forward(graph: Graph, total: Node, sizes: frozenset[int]) -> Node:
    """Return the sum `total` with each index that occurs only backwards in reads, as j in ``x[n - 1 - j]``, replaced by
    a forward one, as in ``x[i]``; `total` itself if there is none. ``sizes`` are the variables of sizes.
    """
    for n, bound in enumerate(graph.bound(total)):
        if _reflection(total.args[0], bound, sizes) is None:
            continue
        variables, rows, body = graph.open(total)
        form = _reflection(body, variables[n], sizes)
        if form is None:
            continue
        index = graph.fresh(graph.names[variables[n]])
        mapping = {variables[n]: form - Affine.variable(index)}
        chosen = [*variables[:n], index, *variables[n + 1 :]]
        total = graph.sum(chosen, [row.substitute(mapping) for row in rows], graph.substitute(body, mapping))
    return total


def _reflection(body: Node, variable: int, sizes: frozenset[int]) -> Affine | None:
    """Return the form ``c`` if `body` reads backwards in the index `variable`, at ``c - variable`` as in
    ``x[n - 1 - i]``, and uses it nowhere else; else None. If reads have several forms, c is that of the first. It
    contains only the variables in `sizes`.
    """
    found = None
    for part in reachable(body, keys=frozenset((variable,))):
        has_rows = part.op in RANGED or part.op == "guard"
        if part.op == "index" or (has_rows and variable in atoms_in(part.data)):
            return None
        for form in part.data if part.op == "read" else ():
            factors = {v: c for v, c in form.terms if v == variable or not isinstance(v, int)}
            if factors:
                if factors != {variable: -1}:
                    return None
                found = form if found is None else found
    if found is None:
        return None
    rest = found + Affine.variable(variable)
    return rest if rest.atoms() <= sizes else None
