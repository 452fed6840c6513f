"""The accesses of an expression: its reads that are not proven to lie inside of their shapes, with the conditions
around.

The one walk over reads: of the checks of written reads, of the reads that a result may repeat, and of the checks of a
call.

A new sum or comprehension over numbers is refused if a read leaves its shape at some indices (`read_out_of_bounds`).

The check of an input (`check_reads`) refuses a read that leaves its shape for every size, whatever is asked about it:
kernels refuse a call in which a read leaves its shape, so such an input has no value at all, and a derivative of it
would be that of another expression. Considered are the reads that no condition guards; those that leave their shape for
some sizes only are left to the call, and so are those for which the integers cannot be projected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sympy_tensordiff.errors import OutOfShapeError, TensorDiffError
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write
from sympy_tensordiff.graph.write_forms import Forms
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient
from sympy_tensordiff.integer.extrema import PositivePart, cases
from sympy_tensordiff.integer.fourier_motzkin import project_exactly
from sympy_tensordiff.integer.implication import is_empty, is_implied, without_implied
from sympy_tensordiff.integer.indirect import data_entries, innermost_first, partition_data
from sympy_tensordiff.integer.rows import (
    Rows,
    atoms_in,
    bounds_a_loop,
    renaming_map,
    shape_rows,
    substitute_all,
    unit_bounds_of,
)
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.values import at_least_slack, find_point, least_slack_point
from sympy_tensordiff.simplify.facts import positive_sizes

MOST_CONDITIONS = 64
"""A node that depends on no index is visited in this many conditional contexts; in others it is not checked."""


class Loops(NamedTuple):
    """The loops of one binder (a sum, product, extremum or comprehension): its variables, outermost first, the
    constraints on them, and the `kind` of binder, such as ``sum``.
    """

    variables: tuple[int, ...]
    rows: Rows
    kind: str


class AccessContext(NamedTuple):
    """The context of a node: its enclosing loops, and the constraints and conditions under which it is evaluated."""

    loops: tuple[Loops, ...] = ()
    conditions: Rows = ()
    choices: tuple[Node, ...] = ()
    tested_together: Rows = ()
    """Constraints tested together with the one in question, with tensor entries that may be read out of bounds as
    well.
    """

    @property
    def variables(self) -> tuple[int, ...]:
        """The bound variables of all loops, outermost first."""
        return tuple([v for loops in self.loops for v in loops.variables])

    @property
    def rows(self) -> Rows:
        """All constraints that hold where the node is evaluated: ranges of the enclosing loops, conditions of the
        enclosing guards, and the other constraints that the same condition tests (`tested_together`).
        """
        return (*(row for loops in self.loops for row in loops.rows), *self.conditions, *self.tested_together)

    @property
    def choices_on_indices(self) -> bool:
        """Return whether the conditions of enclosing selects depend on indices alone, as ``i < j``, and not on real
        values, as ``x[i] > 0``.
        """
        return all(part.op not in ("read", "scalar", "call", "ein") for part in reachable(*self.choices))

    def inside(self, variables: Sequence[int], rows: Sequence[Constraint], kind: str) -> AccessContext:
        """Return the context inside of a sum or comprehension in this context. ``variables`` are the indices that it
        binds, `rows` their constraints, and `kind` is its op, such as ``sum``.
        """
        return self._replace(loops=(*self.loops, Loops(tuple(variables), tuple(rows), kind)))

    def with_rows(self, rows: Sequence[Constraint]) -> AccessContext:
        """Return this context with the constraints `rows` added to those that hold."""
        return self._replace(conditions=(*self.conditions, *rows))


class Access(NamedTuple):
    """A read of an entry: `tensor` at the index forms `forms`, with its enclosing loops and conditions `around`.

    An entry of an integer tensor in an index, a bound or a condition counts as a read.
    """

    tensor: Node
    forms: tuple[Affine, ...]
    around: AccessContext


class Accesses:
    """A walk over expressions that yields the reads not proven to lie inside of the shapes of their tensors.

    `facts` are the constraints on sizes and free indices. With `conditional`, reads below guards and in branches of
    selects are visited, too; with `all_entries`, those for all entries of a comprehension of which one is read.
    """

    def __init__(self, graph: Graph, facts: Rows, *, conditional: bool = True, all_entries: bool = False) -> None:
        self.graph = graph
        self.facts = facts
        self.conditional = conditional
        self.all_entries = all_entries
        self.safe: set[Node] = set()
        """Binders in which all reads are inside, whatever is around them."""

    def unproven(self, roots: Sequence[Node]) -> Iterator[tuple[Access, int, Constraint]]:
        """Yield ``(access, axis, row)`` for each read below `roots` that is not proved to be in bounds: `row` is the
        bound on the axis, such as ``i <= n - 1``, that its context does not imply.

        Shared nodes without unproven reads below are added to `safe`, and not visited again.
        """
        for node in reachable(*roots):
            # A reduction that contains outer indices is in one place; a table is read in many.
            is_shared = node.op == "comprehension" or (node.op in RANGED and all(v >= 0 for v in node.free))
            if is_shared and next(self.below([node]), None) is None:
                self.safe.add(node)
        yield from self.below(roots)

    def below(self, roots: Sequence[Node]) -> Iterator[tuple[Access, int, Constraint]]:
        """Yield ``(access, axis, row)`` for each read below `roots` that is not proved to be in bounds, as `unproven`
        does. Nodes in ``self.safe``, whose reads are known to be in bounds, are skipped.

        A node that uses no index from around is visited in at most ``MOST_CONDITIONS`` contexts with conditions.
        """
        stack = [(root, AccessContext()) for root in reversed(roots)]
        seen: set[tuple[Node, AccessContext]] = set()
        times: Counter[Node] = Counter()
        while stack:
            node, around = stack.pop()
            if node.free.isdisjoint(around.variables):
                times[node] += 1
                if times[node] > MOST_CONDITIONS and (around.conditions or around.choices):
                    continue
            if node in self.safe or (node, around) in seen:
                continue
            seen.add((node, around))
            parts = list(self.parts(node, around))
            for part in parts:
                if isinstance(part, Access):
                    yield from ((part, axis, row) for axis, row in self.outside(part))
            stack += [part for part in reversed(parts) if not isinstance(part, Access)]

    def outside(self, access: Access) -> Iterator[tuple[int, Constraint]]:
        """Yield ``(axis, row)`` for each bound on an index of the read `access`, such as ``i <= n - 1``, that does not
        follow from the conditions around the read.
        """
        known = (*self.facts, *access.around.rows)
        for axis, (form, extent) in enumerate(zip(access.forms, access.tensor.shape, strict=True)):
            yield from ((axis, row) for row in without_implied(shape_rows([form], [extent]), known))

    def parts(self, node: Node, around: AccessContext) -> Iterator[Access | tuple[Node, AccessContext]]:
        """Yield each tensor read that `node` itself makes, as an `Access`, and each argument of `node` as ``(argument,
        context)``, with the context it is evaluated in. `around` is the context of `node`.
        """
        match node.op:
            case "guard":
                yield from self.cases(node, (), around)
            case "read" | "index":
                forms = node.data if node.op == "read" else (node.data,)
                yield from self.reads_in_forms(forms, around)
                if node.op == "read":
                    yield Access(node.args[0], forms, around)
                    yield from self.entry(node, around)
            case "select":
                condition, *branches = node.args
                yield condition, around
                holding = (condition, self.graph.logic("not", [condition])) if self.conditional else ()
                for holds, branch in zip(holding, branches, strict=False):
                    yield branch, around._replace(choices=(*around.choices, holds))
            case op if op in BINDERS:
                variables, rows, body = self.graph.inside(node, around.variables)
                within = around.inside(variables, rows, op)
                tests: list[Constraint] = []
                if op in RANGED:
                    if self.graph.integers:
                        yield from self.bounds(variables, rows, around)
                    tests = [row for row in rows if not bounds_a_loop(row, variables)]
                yield from self.cases(body, tests, within)
            case _:
                yield from ((arg, around) for arg in node.args)

    def entry(self, read: Node, around: AccessContext) -> Iterator[tuple[Node, AccessContext]]:
        """Yield ``(node, context)`` for each node that the read `read` of a computed tensor evaluates: the body of a
        comprehension at the indices of `read`, or each argument of another tensor. `around` is the context of `read`.

        Nothing is yielded for a comprehension in `safe`.
        """
        (table,) = read.args
        if self.all_entries:
            yield table, around
        elif table.op != "comprehension":
            yield from ((arg, around) for arg in table.args)
        elif table not in self.safe:
            variables, rows, body = self.graph.open(table)
            place = dict(zip(variables, read.data, strict=True))
            inside = dict.fromkeys(substitute_all(rows, place))
            rows = tuple([row for row in inside if row not in around.rows])
            yield self.graph.substitute(body, place), around.inside((), rows, table.op)

    def bounds(self, variables: Sequence[int], rows: Rows, around: AccessContext) -> Iterator[Access]:
        """Yield the reads of integer tensors in the loop bounds among `rows`, such as ``p[i]`` in ``j <= p[i]``. The
        context of each read consists of `around` and of the loops outside of the bound, over earlier ones of the
        `variables`.
        """
        for n, v in enumerate(variables):
            inner = variables[n + 1 :]
            own = [r for r in rows if v in r.form.atoms() and r.form.atoms().isdisjoint(inner)]
            bounds = [row for row in own if bounds_a_loop(row, variables)]
            yield from self.reads_in_forms([row.form for row in bounds], around)
            around = around.inside([v], bounds, "sum")

    def cases(
        self, node: Node, tests: Sequence[Constraint], around: AccessContext
    ) -> Iterator[Access | tuple[Node, AccessContext]]:
        """Split `node` by its outermost guards into cases. For each case, yield the reads of integer tensors in the
        conditions of its guards, and then ``(case, context)``: the node inside of the guards, and `around` with these
        conditions added.

        `tests` are constraints of the loops around `node` that are tested together with the conditions.

        Guarded cases are left out unless `conditional` is set.
        """
        waiting = [(node, tuple(tests))]
        while waiting:
            case, rows = waiting.pop()
            if case.op == "guard":
                waiting += [(case.args[0], (*rows, *case.data))] if self.conditional else []
            elif rows and case.op == "add" and all(term.op == "guard" for term in case.args):
                waiting += [(term, rows) for term in reversed(case.args)]
            else:
                yield from self.reads_in_conjunction(rows, around)
                yield case, around.with_rows([row for row in rows if row not in tests])

    def reads_in_conjunction(self, rows: Sequence[Constraint], around: AccessContext) -> Iterator[Access]:
        """Yield the reads of integer tensors, such as ``p[i]``, in the constraints `rows`, which are tested together in
        the context `around`.

        An entry counts as read only where the other constraints hold: one that fails decides, whatever the entry is.
        """
        for row in rows if self.graph.integers else ():
            for entry in data_entries([row.form]):
                others = [other for other in rows if entry not in data_entries([other.form])]
                plain, _ = partition_data(others)
                known = (*self.facts, *around.rows, *plain)
                safe = [o for o in others if all(is_implied(r, known) for r in self.graph.inside_data([o.form]))]
                tested_together = tuple([other for other in others if other not in safe])
                place = around.with_rows(safe)._replace(tested_together=tested_together)
                yield Access(self.graph.integers[entry.tensor], entry.index, place)

    def reads_in_forms(self, forms: Sequence[Affine], around: AccessContext) -> Iterator[Access]:
        """Yield the reads of integer tensors in the index forms `forms`, such as ``p[i]`` in ``x[p[i]]``; inner reads
        first. Each gets the context `around`, the constraints known there.
        """
        for entry in innermost_first(forms) if self.graph.integers else ():
            yield Access(self.graph.integers[entry.tensor], entry.index, around)


MAX_UNPROVEN_READS = 1000
"""The number of unproven reads that `check_reads` looks at."""


def check_reads(reader: Reader, roots: Sequence[Node], facts: Rows) -> None:
    """Raise `OutOfShapeError` if an unconditional read below `roots` leaves its shape for every size. ``reader`` has
    the graph; ``facts`` are known constraints.

    `roots` are the nodes read by `reader`; `facts` include that extents are positive (`facts.positive_sizes`). The
    message names the read, the values of the indices at which it leaves the shape, and the range to write.
    """
    open_ended = bool(facts) or any(root.free for root in roots)  # all in numbers has been checked when it was built
    if open_ended and not is_empty(facts, ()):
        _Check(reader, facts).run(roots)


def check_expression(expr: Any) -> None:
    """Raise `OutOfShapeError` if an unconditional read in the SymPy `expr` is out of bounds for every size."""
    reader = Reader(Graph(), scans="leaf")
    node = reader.read(expr)
    check_reads(reader, [node], positive_sizes(reader.graph, [node, *reader.leaves()]))


class ReadOutOfBounds(NamedTuple):
    """A read out of bounds: the tensor (None for one that depends on indices), its index forms and its shape, with
    names as variables, the axis, and values of the indices in the index along this axis, by name.
    """

    tensor: Any
    forms: tuple[Affine, ...]
    shape: tuple[Affine, ...]
    axis: int
    point: dict[str, int]


def read_out_of_bounds(expr: Any) -> ReadOutOfBounds | None:
    """Return a read in the SymPy ``expr`` that is out of bounds for some indices in ranges of numbers; None without
    one, or if the graph cannot express ``expr``. Reads behind conditions on values are not checked, nor those in parts
    of ``expr`` that contain none of its indices, which have been checked when they were built.
    """
    reader = Reader(Graph(), scans="leaf", closed_leaves=True)
    try:
        node = reader.read(expr)
    except TensorDiffError:
        return None
    for (tensor, forms, around), axis, inside in Accesses(reader.graph, (), all_entries=True).unproven([node]):
        point = _point_outside(around, forms[axis], inside)
        if point is not None:
            names = {v: reader.graph.names[v] for v in atoms_in((*forms, *tensor.shape))}
            renaming = renaming_map(names, names.values())
            at = {names[v]: point[v] for v in around.variables if v in forms[axis].atoms()}
            named, shape = substitute_all(forms, renaming), substitute_all(tensor.shape, renaming)
            symbol = reader.tensors[tensor.data[0]] if tensor.op == "tensor" else None
            return ReadOutOfBounds(symbol, named, shape, axis, at)
    return None


def _point_outside(around: AccessContext, index: Affine, inside: Constraint) -> dict[int, int] | None:
    """Return values of the indices for which a read at `index` in the context `around` is evaluated and violates the
    bound `inside`, preferably at the ends of ranges. None if there are none, or if this depends on more than indices in
    ranges of numbers.

    A comprehension has entries whatever its extents are, a sum over a range that depends on a size may be empty.
    """
    bound, rows_of_loops = {*around.variables}, [(row, loops) for loops in around.loops for row in loops.rows]
    axes = {v for loops in around.loops if loops.kind == "comprehension" for v in loops.variables}
    sized = {v for row, _ in rows_of_loops if not row.form.atoms() <= bound for v in axes & row.form.atoms()}
    rows = tuple([row for row, loops in rows_of_loops if sized.isdisjoint({*loops.variables} & row.form.atoms())])
    rows += (*around.conditions, *around.tested_together)
    forms = [index, *(row.form for row in (*rows, inside))]
    compounds = definitions([v for form in forms for v in form.compounds()])
    if around.choices or not atoms_in(forms) <= bound - sized:
        return None
    if not all(isinstance(compound, Quotient | PositivePart) for compound in compounds):
        return None
    variables = [v for v in around.variables if v not in sized]
    least = least_slack_point(inside, variables[::-1], rows)
    ends = [Constraint("eq", Affine({v: 1}) - end) for v, end in least.items()]
    rows += (inside.negation(),)
    return find_point([*rows, *ends], variables) or find_point(rows, variables)


class _Check:
    """The check for reads out of bounds: `run` raises `OutOfShapeError` for a read that is always evaluated and is out
    of bounds for every size.
    """

    def __init__(self, reader: Reader, facts: Rows) -> None:
        self.reader = reader
        self.graph = reader.graph
        self.facts = facts

    def run(self, roots: Sequence[Node]) -> None:
        """Check the reads of tensor entries below `roots`: raise `OutOfShapeError` for a read that is always evaluated
        and is out of bounds for every size.

        Only the first ``MAX_UNPROVEN_READS`` reads that are not proved in bounds are checked.
        """
        found = Accesses(self.graph, self.facts, conditional=False).unproven(roots)
        for access, axis, inside in islice(found, MAX_UNPROVEN_READS):
            self.check(access, axis, inside)

    def always(self, rows: Sequence[Constraint], bound: Sequence[int]) -> bool:
        """Return whether, for every size, some values of the variables `bound` satisfy all constraints `rows`, so that
        a loop over them is never empty; False if unknown.
        """
        for case in dict.fromkeys((tuple(rows), *cases(rows))):
            found = project_exactly(case, bound)
            if found is not None and all(is_implied(row, self.facts) for row in found):
                return True
        return False

    def check(self, access: Access, axis: int, inside: Constraint) -> None:
        """Raise `OutOfShapeError` if for every size `access` violates `inside`, a bound on its index along `axis`."""
        around, bound = access.around.rows, access.around.variables[::-1]
        worst = at_least_slack(inside, bound, around)
        if worst is None or is_implied(worst.negation(), self.facts):
            met = worst is not None and self.values(inside, around, bound) is not None
            if met or self.always((*around, inside.negation()), bound):
                raise OutOfShapeError(self.message(access, axis, inside))

    # -------------------------------------------------------------- the message

    def message(self, access: Access, axis: int, inside: Constraint) -> str:
        """Return the error message for `access`, whose index along `axis` violates its bound `inside`; it suggests a
        range to write instead if one is known.
        """
        tensor, index, place = access
        around, bound = place.rows, place.variables[::-1]
        forms = Forms(self.reader)
        selecting = atoms_in(index)
        first = sorted(place.variables, key=lambda v: v not in selecting)  # the user's own names go to these
        symbols = forms.bind(first, [self.graph.names[v] for v in first], ())
        name = tensor.data[0] if tensor.op == "tensor" else "a table" if tensor.free else write(self.reader, tensor)
        shown = ", ".join(str(forms.form(form, symbols)) for form in index)
        text = f"{name}[{shown}] is read outside of the shape of {name}, along axis {axis}, whatever the sizes"
        values = self.values(inside, around, bound)
        mend = "fix the range, the index or the shape"
        if values:
            point = ", ".join(
                f"{forms.symbol(v, symbols)} = {forms.form(values[v], symbols)}" for v in reversed(values)
            )
            end = forms.form(tensor.shape[axis] - 1, symbols)
            text += (
                f": for {point} the index is {forms.form(index[axis].substitute(values), symbols)}, not in 0 … {end}"
            )
            limits = self.suggested_limit(inside, place, values)
            if limits is not None:
                (variable,) = values
                counted, *ends = limits
                written = ", ".join(str(forms.form(form, symbols)) for form in ends)
                mend = f"{counted}write ({forms.symbol(variable, symbols)}, {written})"
        return f"{text}; {mend}"

    def values(self, inside: Constraint, around: Rows, bound: Sequence[int]) -> dict[int, Affine] | None:
        """Return the values of the loop indices in `bound` at the point where the constraint `inside` has the least
        slack, as an example for an error message. None if this point is not unique, or if the loops do not reach it for
        some sizes.

        ``around`` are the constraints of the loops.
        """
        found = least_slack_point(inside, bound, around)
        known = substitute_all(around, found)
        there = inside.substitute(found).form.atoms().isdisjoint(bound) and self.always(
            known, [v for v in bound if v not in found]
        )
        return found if there else None

    def suggested_limit(
        self, inside: Constraint, place: AccessContext, values: dict[int, Affine]
    ) -> tuple[str, Affine] | tuple[str, Affine, Affine] | None:
        """Return a loop range to suggest to the user, in which a read is in bounds: ``(hint, end)`` or ``(hint, first,
        last)``, where ``hint`` is a remark or "". None if none is known.

        `inside` is the bound that fails at the indices `values`, `place` its context.
        """
        (variable, *others) = values
        lows, highs = unit_bounds_of(variable, place.rows)
        step = inside.form.coefficient(variable)
        if others or abs(step) != 1 or variable in inside.form.hidden() or len(lows) != 1 or len(highs) != 1:
            return None
        (low,), (high,) = lows, highs
        end = (inside.form - Affine({variable: step})) * -step
        if any(variable in loops.variables for loops in place.loops if loops.kind == "comprehension"):
            return ("", end + 1) if step < 0 else None
        if step > 0:
            return "", end, high
        if low == Affine.of(1) and high - end == low:
            return "indices count from 0, ", Affine.of(0), end
        return "", low, end
