"""Temporaries: decides which values get arrays, and gives names to everything in a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple, TypeVar

from sympy_tensordiff.codegen.ir import loops, programs, scalars
from sympy_tensordiff.codegen.ir.rename import named, unique
from sympy_tensordiff.codegen.ir.walk import live_statements
from sympy_tensordiff.codegen.lower.blocks import CodeBlock
from sympy_tensordiff.codegen.lower.carries import carried_last, carried_variables, has_windows
from sympy_tensordiff.codegen.lower.materialise import calls_user_function, is_dear, is_table, shared_parts, uses
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, Planner, StorageCandidate, Stored
from sympy_tensordiff.codegen.lower.scatters import ScatterTerm, split_diagonals, split_scatters
from sympy_tensordiff.codegen.lower.shift_normal_form import ShiftNormaliser
from sympy_tensordiff.codegen.lower.shifts import READ, VALUES, Instance, Shifts, own_work
from sympy_tensordiff.codegen.lower.structures import Structures
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.interning import Recursion, breadth_first, trampoline
from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, ranges, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.facts import unconditional_reads

S = TypeVar("S", bound="Storage")

_SIMPLE = VALUES | {"const", "scalar", "index"}
"""Nodes without conditions, reads and reductions."""


def is_array_entry(node: Node) -> bool:
    """Return whether `node` is worth an array if a loop needs it several times: it is an entry of a tensor, a reduction
    or a call of a costly function.
    """
    return node.op == "read" or node.op in RANGED or is_dear(node)


MAX_WRITTEN_OUT = 100
"""Formulas of more nodes are not looked for in other kernels."""


class Entry(NamedTuple):
    """The expression `node` that an array stores at the indices `axes`."""

    axes: tuple[int, ...]
    node: Node


class Storage:
    """Builds the kernels of one program, and decides which intermediate values get temporary arrays. `Lowering`, a
    subclass, translates single expressions.

    `names` maps variables and scalar nodes (sizes, free indices, scalar arguments) to names, `arrays` maps tensors'
    names to arrays. `facts` are the constraints on sizes and free indices. Without `temporaries`, only comprehensions
    and nested sums are stored. `reserved` are the names of results, `hints` the expected lengths of axes, without which
    no sum becomes a matrix product.
    """

    def __init__(
        self,
        graph: Graph,
        names: dict[Any, str],
        arrays: dict[str, str],
        facts: Rows,
        temporaries: bool,
        reserved: Sequence[str] = (),
        hints: Hints | None = None,
    ) -> None:
        self.graph = graph
        self.names = dict(names)
        self.outside = frozenset(v for v in names if isinstance(v, int))  # sizes and free indices
        self.arrays = arrays
        self.facts = facts
        self.temporaries = temporaries
        self.hints = hints or Hints()
        self.library = hints is not None
        self.planner = Planner(graph, facts)
        self.shift_normaliser = ShiftNormaliser(graph)
        self.shifts = Shifts(graph, self.planner)
        self.kernels: list[programs.Step] = []
        self.stored: dict[Node, list[Stored]] = {}
        self.stored_arrays: list[programs.Array] = []
        self.sizes: list[programs.Size] = []
        self.notes: list[str] = []
        self.entries: dict[str, Entry] = {}
        self.formulas: dict[str, Entry] = {}
        """The entries of arrays as formulas of arguments, products and sums, without reads of other such arrays."""
        """Of the arrays that one kernel fills."""
        self._taken = {*self.names.values(), *arrays.values(), *reserved}
        self._locals: set[str] = set()
        self._all_locals: set[str] = set()
        self._structures = Structures()
        self._extremes: dict[tuple[frozenset[Affine], bool], Affine] = {}
        """The sizes that the host computes, by the forms of which they are the greatest (or least)."""
        self._tried: dict[str, int] = {}
        self._tried_locals: dict[str, int] = {}
        self._uses: Counter[Node] = Counter()
        self._uses_in_results: Counter[Node] = Counter()
        self._in_progress: set[Node] = set()
        self._hoisted: dict[Node, list[Node]] = {}
        """The entries of arrays that a value reads; none if it takes no longer to compute it than to read it."""
        self.repeated: set[Node] = set()
        """Calls and sums that several sums need, over the axes of `Planner.numbered`."""
        self.large_sums: set[Node] = set()
        """The sums in ``repeated`` whose arrays may be larger than all arguments, such as distances."""
        self.shares_rows = False
        self.tables = False  # whether the backend keeps what depends on no argument from call to call
        self.of_rows: set[str] = set()
        """Arrays of repeated calls that may be larger than all arguments: for kernels that need one row of them."""
        self.only_rows = False  # whether only loops along their rows read them
        self.domains: dict[Node, StorageCandidate] = {}
        """Where values are needed in all of the program, known from lowering it before: one array contains them all."""
        self._products: dict[Any, tuple[Node, tuple[int, ...]]] = {}
        self._axes: tuple[int, ...] = ()
        """The axes of the kernel that is being built."""
        self.chained: set[Node] = set()
        """Products that a sum needs which continues along the last axis; they are not stored."""

    def copied(self: S) -> S:
        """Return a copy with the same names, facts and options, from which another program is built. Raise
        AssertionError if `self` has already built kernels.
        """
        assert not self.kernels and not self.stored
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(other, name, copy(value))
        other.shift_normaliser, other.shifts = (
            ShiftNormaliser(self.graph),
            Shifts(self.graph, self.planner, self.shifts.stores_freely),
        )
        other._structures = Structures()
        return other

    # -------------------------------------------------------------- arrays

    def expect(self, results: Sequence[Node], shares: bool = True) -> None:
        """Register `results`, all nodes that the program will compute; to be called before the first kernel is built.
        With `shares`, values that several loops use are chosen to be stored in arrays.
        """
        self._uses_in_results = uses(*results)
        if self.temporaries and shares:
            self.shifts.survey(results)

    def output(self, node: Node, name: str) -> programs.Array:
        """Add the kernel that computes the result `node` into an array called `name`; return this array."""
        return trampoline(self._output(node, name))

    def _output(self, node: Node, name: str) -> Recursion[programs.Array]:
        """Add the kernel that computes `node` into the array `name`, and return the array. Like `output`, but a
        generator, so that deep graphs do not exhaust Python's call stack.
        """
        graph = self.graph
        extents: Sequence[Affine] = ()
        axes: tuple[int, ...] = ()
        if node.op == "comprehension":
            extents = node.data
            axes, _, body = graph.inside(node, ())
        elif node.op == "tensor":
            extents = node.data[1]
            axes = tuple(graph.fresh(f"i{n}") for n in range(len(extents)))
            body = graph.read(node, [Affine.variable(v) for v in axes])
        else:
            body = node
        array = programs.Array(name, tuple(self.form(extent) for extent in extents))
        yield self._store_common_parts(body, EnclosingLoops((), ()))
        yield self._store_tables(body)
        yield self._kernel(name, axes, extents, (), body)
        if node.op == "comprehension" and node not in self.stored:
            self.stored[node] = [Stored(name, StorageCandidate(node, (), (), (), (), ()), ())]
            self._register_result(name, axes, extents, body)
        return array

    def _register_result(self, name: str, axes: Sequence[int], extents: Sequence[Affine], body: Node) -> None:
        """Record that the result array `name` has the entry `body` at the indices `axes`, whose ranges have the lengths
        `extents`. Kernels built later can then read these values instead of computing them.
        """
        context, units = EnclosingLoops(tuple(axes), ranges(axes, extents)), [Affine.variable(axis) for axis in axes]
        written = self._written_out(body)
        if len(parts := reachable(written)) <= MAX_WRITTEN_OUT and not any(part.op in RANGED for part in parts):
            self.formulas[name] = Entry(tuple(axes), written)
        for form in dict.fromkeys((body, written)):
            if not (form.height or is_dear(form)) or form.op == "read":
                continue
            found = self.planner.candidate(form, context)
            for candidate in (
                () if found is None else dict.fromkeys((self.shift_normaliser.with_known_axes(found), found))
            ):
                if sorted(candidate.forms) != sorted(units):
                    continue
                order = tuple(candidate.forms.index(unit) for unit in units)
                stored = Stored(name, candidate, (Affine.of(0),) * len(axes), order)
                self.stored.setdefault(candidate.node, []).append(stored)
                self._structures.add(candidate.node)

    def _written_out(self, body: Node) -> Node:
        """Return `body` with reads of arrays replaced by the formulas of their entries, if these are known. Equal
        values in different kernels are then recognised.
        """
        done: dict[Node, Node] = {}
        for node in reachable(body):
            is_entry = node.op == "read" and node.args[0].op == "tensor"
            entry = self.formulas.get(self.arrays.get(node.args[0].data[0], "")) if is_entry else None
            if entry is None:
                done[node] = self.graph.with_args(node, [done[arg] for arg in node.args])
            else:
                done[node] = self.graph.substitute(entry.node, dict(zip(entry.axes, node.data, strict=True)))
        return done[body]

    def _kernel(
        self,
        name: str,
        axes: Sequence[int],
        extents: Sequence[Affine],
        guard: Rows,
        body: Node,
        box: Rows = (),
    ) -> Recursion[None]:
        """Add the kernel that sets the entries of the array `name` to `body` where ``guard`` is true, and to 0
        elsewhere. `axes` are the indices of an entry, ``extents`` the lengths of the axes; all entries also satisfy the
        constraints ``box``.

        Terms of `body` that are scatters, or 0 off a diagonal, get kernels of their own.
        """
        saved = self._locals, self._tried_locals, self._uses, self._axes, self.shifts.box
        rows = ranges(axes, extents)
        scatters = bool(self.graph.integers)
        body, parts = split_scatters(self.graph, axes, rows, guard, body, self.temporaries) if scatters else (body, [])
        body, diagonals = split_diagonals(self.graph, axes, extents, self.facts, guard, body)
        if not (parts or diagonals):
            self.entries[name] = Entry(tuple(axes), self.graph.guard(guard, body))
        # Kernels around this one may have axes in common with it.
        renamed = {v: self.names[v] for v in axes if v in self.names}
        block = self._start_block(axes, extents, body, box)
        names = tuple(self.names[v] for v in axes)
        value = yield self.value(self.graph.guard(guard, body), block)
        self.kernels.append(programs.entrywise(name, names, block.statements, value))
        for number, part in enumerate((*parts, *diagonals), 1):
            yield self._scatter(name, number, part)
        self._locals, self._tried_locals, self._uses, self._axes, self.shifts.box = saved
        self.names.update(renamed)

    def _start_block(self, axes: Sequence[int], extents: Sequence[Affine], body: Node, box: Rows = ()) -> CodeBlock:
        """Prepare a new kernel that computes `body` in loops over `axes`, which have the lengths `extents` and also
        satisfy the constraints ``box``, and return its outermost block of code. The names and use counts of the
        previous kernel are reset.
        """
        self._locals, self._tried_locals, self._uses, self._axes = set(), {}, uses(body), tuple(axes)
        for v in axes:
            self.names[v] = self._local(self.graph.names[v])
        context = EnclosingLoops(tuple(axes), ranges(axes, extents))
        self.shifts.box = box
        if self.temporaries:
            self.shifts.search([body], context, True)
        return CodeBlock(context, frozenset(axes), uses=uses(body))

    def _scatter(self, name: str, number: int, part: ScatterTerm) -> Recursion[None]:
        """Add a kernel for the scatter `part`, such as ``y[p[k]] += v[k]``, which adds values to entries of the array
        `name`. ``number`` distinguishes several scatters into one array.

        Conditions that the declared ranges of integer tensors prove are not tested.
        """
        known = (*self.facts, *part.rows)
        part = replace(part, conditions=tuple(row for row in part.conditions if not is_implied(row, known)))
        heads, inner = part.variables[: len(part.extents)], part.variables[len(part.extents) :]
        block = self._start_block(heads, part.extents, part.value)
        self._axes = ()  # a scatter has no entries along which a sum goes on
        for v in inner:
            self.names[v] = self._local(self.graph.names[v])
        if self.temporaries:
            self.shifts.search([part.value], EnclosingLoops(part.variables, (*part.rows, *part.conditions)), False)
        statements: tuple[loops.Statement, ...] = yield self._additions(name, inner, part, block)
        axes, extents = tuple(self.names[v] for v in heads), tuple(self.form(extent) for extent in part.extents)
        body = tuple(live_statements((*block.statements, *statements), set()))
        self.kernels.append(programs.Scatter(name, axes, body, extents, number, part.exclusive, part.reduction))

    def _temporary(
        self, node: Node, context: EnclosingLoops, shared: bool = False
    ) -> Recursion[tuple[Stored, tuple[Affine, ...]] | None]:
        """Return ``(array, index)``: an array that stores `node`, created if there is none, and the index at which to
        read it inside of the loops of `context`. None if `node` cannot be stored, or if that does not pay.

        For a ``shared`` node it is assumed to pay.
        """
        wanted = shared or node.op == "comprehension" or (is_dear(node) and self.tables)
        wanted = wanted or self._is_running_reduction(node, context)
        if not wanted and node not in self._structures and not self._may_be_worth_storing(node, context):
            return None  # the quick answer in most cases
        if node.free.isdisjoint(context.variables):
            for stored in self.stored.get(node, ()):
                if not stored.candidate.rows:
                    return stored, ()
        candidates = self._candidates(node, context)
        for found in candidates:
            if (serving := self._array_containing(found, context)) is not None:
                return serving, self._index(serving, found)
        if not shared and is_dear(node):
            shared = wanted = self.tables and bool(candidates) and is_table(candidates[0], self.names)
        if not (node.height or shared or self._is_redundant_call(node, candidates, context)):
            return None  # a call of a function, of which there is no array
        if not candidates or not (wanted or self._is_worth_storing(node, candidates[0].axis_count, context)):
            return None
        candidate = candidates[0]
        is_rounded = node.op == "read" or (not wanted and len(candidate.axes) >= context.dimension)
        if is_rounded and not self._takes_fewer(candidate, context):
            return None
        # One that is begun is an array for the sake of a scatter, and turns out to be none.
        if candidate.node in self._in_progress or not self.planner.is_safe(candidate.node, candidate.rows):
            return None
        yield self._store_common_parts(node, context)
        self._in_progress.add(candidate.node)
        stored = yield self._create_array(candidate, context)
        self._in_progress.discard(candidate.node)
        return stored, self._index(stored, candidate)

    def _store_common_parts(self, node: Node, home: EnclosingLoops) -> Recursion[None]:
        """Store sums inside of `node` in temporary arrays, if they are also used elsewhere and depend on no indices but
        those of the loops ``home`` around `node`: ``1/S`` and ``1/S**2`` then read one array of ``S``.

        Outermost parts only: their kernels handle the nodes below.
        """
        if not self.temporaries or node.op == "comprehension":
            return
        totals = self._uses, self._uses_in_results
        for part in shared_parts(node, totals, self.outside.union(home.variables)):
            yield self._temporary(self.graph.split_coefficient(part)[1], home, shared=True)

    def _store_tables(self, node: Node) -> Recursion[None]:
        """Store comprehensions below `node` in arrays if they call a costly function and depend on no loop variable.
        Then the function is not called in each iteration.
        """
        for part in reachable(node):
            table = part.args[0] if part.op == "read" else part
            if table.op == "comprehension" and table.free <= self.outside and is_dear(table.args[0]):
                yield self._temporary(table, EnclosingLoops((), ()))

    def _at_shift(self, use: Instance, context: EnclosingLoops) -> Recursion[scalars.Scalar | None]:
        """Return an expression that reads the value of `use`, one of several uses of a value at shifted indices, from
        an array. Create the array if necessary; return None if it is still being filled or does not have this entry.
        """
        candidate = use.candidate
        if candidate.node in self._in_progress or not self.shifts.is_inside(use, context):
            return None
        stored = self._array_containing(replace(candidate, rows=self.shifts.domains[candidate.node].rows))
        if stored is None:
            self._in_progress.add(candidate.node)
            stored = yield self._create_array(
                replace(self.shifts.domains[candidate.node], forms=candidate.forms), context
            )
            self._in_progress.discard(candidate.node)
        entry = scalars.Load(stored.array, tuple(self.form(form) for form in self._index(stored, candidate)))
        return entry if use.number == 1 else scalars.Operation("mul", (scalars.Number(use.number), entry))

    def _candidates(self, node: Node, context: EnclosingLoops) -> list[StorageCandidate]:
        """Return the ways to store `node` in an array, inside of the loops of `context`, as storage candidates. A
        candidate that equals a known one up to a shift of its axes comes first, so shifted, and both nodes can share an
        array.
        """
        found = self.planner.candidates(node, context)
        if node.op == "read":  # over its remainders it would be the array that it reads
            found = found[-1:]
        return list(dict.fromkeys((*map(self.shift_normaliser.with_known_axes, found), *found)))

    def _array_containing(self, candidate: StorageCandidate, context: EnclosingLoops | None = None) -> Stored | None:
        """Return an existing array that stores `candidate` at all of its points, or at those at which the loops of
        `context` read it; None if there is none.

        With the option ``only_rows``, an array filled row by row counts only if the outermost loop of `context` runs
        over its rows.
        """
        known = (*self.facts, *candidate.rows)
        forms = dict(zip(candidate.axes, candidate.forms, strict=True))
        box = (*self.facts, *context.rows, *self.shifts.box) if context and self.shifts.box else ()
        for array in self.stored.get(candidate.node, ()):
            rows = [row for row in array.candidate.rows if not is_implied(row, known)]
            if not rows or (box and all(is_implied(row.substitute(forms), box) for row in rows)):
                if not (context and self.only_rows and array.array in self.of_rows):
                    return array
                index = self._index(array, candidate)
                if len(index) < 2 or index[0].atoms() == {context.variables[0]}:
                    return array
        return None

    def _index(self, stored: Stored, candidate: StorageCandidate) -> tuple[Affine, ...]:
        """Return the index at which the array `stored` has the value of `candidate`."""
        index = tuple(form - low for form, low in zip(candidate.forms, stored.lows, strict=True))
        return tuple(index[place] for place in stored.order) or index

    def allocated(self, candidate: StorageCandidate) -> tuple[str, tuple[Affine, ...], list[Affine]]:
        """Return ``(name, lows, extents)`` for a new array that stores `candidate`: a new name, and the lowest index
        and the extent of each axis.
        """
        name = self._fresh(self.graph.labels.get(candidate.node, "t"))
        lows = tuple(self._extreme(low, True, name) for low in candidate.lows)
        extents = []
        for low, high in zip(lows, candidate.highs, strict=True):
            extent = self._extreme(high, False, name) - low + 1
            if not is_implied(Constraint("ge", extent), self.facts):
                extent = self.clamped(extent, name)
            extents.append(extent)
        return name, lows, extents

    def _create_array(
        self,
        candidate: StorageCandidate,
        context: EnclosingLoops,
        order: tuple[int, ...] | None = None,
        is_operand: bool = False,
    ) -> Recursion[Stored]:
        """Create an array that stores `candidate`, with its axes in `order`, and add the kernel that fills it. The
        operand of a product has the range of `candidate`; other arrays may serve several temporaries.
        """
        graph = self.graph
        candidate = self._also_for_small_sizes(candidate)
        domain = None if is_operand else self.domains.get(candidate.node)
        # A value that is itself stored over a larger range needs more of this one than the range was found for.
        if domain is not None and all(is_implied(row, (*self.facts, *candidate.rows)) for row in domain.rows):
            candidate = replace(domain, forms=candidate.forms)
        name, lows, extents = self.allocated(candidate)
        order = order or carried_last(graph, candidate, candidate.order(context)) or candidate.order(context)
        axes = [graph.fresh(f"i{n}") for n in range(len(lows))]
        extents = [extents[place] for place in order]
        shift = {candidate.axes[n]: Affine.variable(v) + lows[n] for n, v in zip(order, axes, strict=True)}
        body = graph.substitute(candidate.node, shift)
        box = ranges(axes, extents)
        for place, v in zip(order, axes, strict=True):  # an extent that is clamped at 0 has no entries
            box += tuple([Constraint("ge", high - lows[place] - Affine.variable(v)) for high in candidate.highs[place]])
        needed = tuple(row.substitute(shift) for row in candidate.rows)
        guard = tuple(row for row in needed if not is_implied(row, (*self.facts, *box)))
        if body.op == "comprehension":
            own, _, body_entry = graph.inside(body, axes)
            extents, axes, body = [*extents, *body.data], [*axes, *own], body_entry
        yield self._kernel(name, axes, extents, guard, body, box)
        self.stored_arrays.append(programs.Array(name, tuple(self.form(extent) for extent in extents)))
        count = len(candidate.axes)
        why = f"{count} indices in place of {context.dimension} axes and loops"
        if count >= context.dimension:
            why = "needed in several places"
        self.notes.append(f"{name}: {'a tensor of its own' if candidate.node.op == 'comprehension' else why}")
        stored = Stored(name, candidate, lows, order)
        self.stored.setdefault(candidate.node, []).append(stored)
        self._structures.add(candidate.node)
        # Under a guard the entries are 0 where others may need them.
        if candidate.node.op == "comprehension" and not (lows or guard):
            self._register_result(name, axes, extents, body)
        return stored

    def doubled_domains(self) -> dict[Node, StorageCandidate]:
        """Find the costly values that several temporaries store, each over a part of the index range. Return a
        dictionary from the value to a candidate for one array over the whole range, with which the program can be built
        again.
        """
        names = {array.name for array in self.stored_arrays}
        found = {}
        for node, arrays in self.stored.items():
            own = {array.array: array.candidate for array in arrays if array.array in names and array.candidate.axes}
            if len(own) > 1 and (node.height or is_dear(node)) and node.op != "comprehension":
                domain = self.shifts.common_domain(list(own.values()))
                if domain is not None and self._is_known_outside(domain):
                    found[node] = domain
        return found

    def _is_known_outside(self, domain: StorageCandidate) -> bool:
        """Return whether the bounds of `domain`, an array to be allocated, contain only its own axes and inputs of the
        program: sizes and free indices. Variables of enclosing loops, and lengths that the host computes, are not
        allowed.
        """
        forms = [row.form for row in domain.rows]
        forms += [form for bounds in (*domain.lows, *domain.highs) for form in bounds]
        return all(form.atoms() <= self.outside.union(domain.axes) for form in forms)

    def _also_for_small_sizes(self, candidate: StorageCandidate) -> StorageCandidate:
        """Return `candidate` without conditions that only exclude small sizes, such as ``n >= 2``, if all of its reads
        are in bounds without them. Uses with and without the condition can then share one array.
        """
        sizes = [row for row in candidate.rows if _is_least_size(row, candidate.axes)]
        rest = tuple([row for row in candidate.rows if row not in sizes])
        known = (*self.facts, *rest)
        if not sizes or not self.planner.is_safe(candidate.node, rest):
            return candidate
        reads = unconditional_reads(self.graph, candidate.node, known)
        return replace(candidate, rows=rest) if all(is_implied(row, known) for row in reads) else candidate

    def clamped(self, extent: Affine, owner: str) -> Affine:
        """Return the size ``max(extent, 0)``, named after `owner` if it is new: the length of an axis of `extent`
        entries if that may be negative.
        """
        return self._extreme((extent, Affine.of(0)), True, owner)

    def known_clamped(self, extent: Affine) -> Affine | None:
        """Return the size ``max(extent, 0)`` if the program has it already, else None."""
        return self._extremes.get((frozenset((extent, Affine.of(0))), True))

    def _extreme(self, forms: Sequence[Affine], greatest: bool, owner: str) -> Affine:
        """Return the maximum of `forms`, or the minimum without ``greatest``. A single form is returned itself. Several
        become a new size, named after `owner`, which the host computes before the kernels run.

        Equal sets of forms share one size, so that one loop can fill several arrays.
        """
        if len(forms) == 1:
            return forms[0]
        key = frozenset(forms), greatest
        if key in self._extremes:
            return self._extremes[key]
        v = self.graph.fresh(f"{owner}_size")
        self.names[v] = self._fresh(f"{owner}_size")
        named = tuple(self.form(form) for form in forms)
        self.sizes.append(programs.Size(self.names[v], named if greatest else (), () if greatest else named))
        sign = 1 if greatest else -1
        self.facts += tuple(Constraint("ge", sign * (Affine.variable(v) - form)) for form in forms)
        self._extremes[key] = Affine.variable(v)
        return self._extremes[key]

    def _may_be_worth_storing(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether an array of the values of `node` may have fewer axes than there are loops around it. This is a
        cheap test; `_is_worth_storing` decides.
        """
        axis_count = self.planner.rank(node, context)
        return self._is_worth_storing(node, axis_count - bool(self.planner.quotients(node, context)), context)

    def _is_worth_storing(self, node: Node, axis_count: int, context: EnclosingLoops) -> bool:
        """Return whether an array with `axis_count` axes for the values of `node` is worth storing: there are more
        loops around `node` than axes, so that values are read repeatedly. If temporaries are switched off, only sums of
        sums are stored.
        """
        if not self.temporaries:
            # The paper's form recomputes; sums of sums inside of sums would do so exponentially often.
            nested = node.op in RANGED and any(a.op in RANGED for a in reachable(node.args[0]))
            if not nested:
                return False
        return axis_count < context.dimension

    def _is_running_reduction(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether the reduction `node`, in the loops of ``context``, continues along an index around it, as
        ``Sum_{j <= i} x[j]`` does along i, so that one pass computes all of its values.
        """
        if not self.temporaries or node in self.chained:
            return False
        carried = carried_variables(self.graph, node).intersection(context.variables)
        if not carried or (context.variables == self._axes and self._axes[-1] in carried):
            return False
        return not has_windows([v for v in context.variables if v in node.free], context.rows)

    def _is_redundant_call(self, node: Node, candidates: Sequence[StorageCandidate], context: EnclosingLoops) -> bool:
        """Return whether the loops of `context` evaluate the call `node` many times for each of its distinct values.
        ``candidates`` are the ways to store the call in an array.
        """
        is_costly = is_dear(node)
        if not is_costly and candidates:
            is_plain = all(form in map(Affine.variable, context.variables) for form in candidates[0].forms)
            is_costly = is_plain and self._is_worth_hoisting(node, context)
        is_call = self.temporaries and bool(candidates) and is_costly and not calls_user_function(node)
        return is_call and candidates[0].axis_count < context.dimension and self._takes_fewer(candidates[0], context)

    def _is_worth_hoisting(self, node: Node, context: EnclosingLoops) -> bool:
        """Return whether to compute `node` outside of the loop nest and store its values: each value serves several
        iterations, and computing it takes longer than reading it. In loops over i, j and k, ``1/s[k]**2`` is stored.

        Its array is not larger than one that it reads.
        """
        own = node.free.intersection(context.variables)
        if not self.temporaries or not own or len(own) >= context.dimension or node.op not in VALUES:
            return False
        if node not in self._hoisted:
            parts = list(breadth_first(node, lambda part: () if is_array_entry(part) else part.args))
            reads = [part for part in parts if is_array_entry(part)]
            is_simple = all(part.op in _SIMPLE for part in parts if part not in reads)
            is_simple = is_simple and all(part.op == "read" for part in reads)
            is_simple = is_simple and not any(f.compounds() for part in reads for f in part.data)
            work = sum(own_work(part) for part in parts if part not in reads) + len(reads)
            self._hoisted[node] = reads if is_simple and work > READ else []
        return any(own <= part.free for part in self._hoisted[node])

    def _takes_fewer(self, candidate: StorageCandidate, context: EnclosingLoops) -> bool:
        """Return whether an array for `candidate` has fewer entries than the loops of `context` have iterations, at
        typical sizes. Its axes may be quotients or remainders of loop indices, such as ``i // 2``.

        ``i // 2`` takes fewer values than ``i``; ``(i + k) % n`` may take more than ``k``, and ``100*i + k`` more than
        both together.
        """
        ends = zip(candidate.lows, candidate.highs, strict=True)
        entries = prod(self.hints(high[0] - low[0] + 1) for low, high in ends)
        return entries < self.planner.entries(map(Affine.variable, context.variables), context, self.hints)

    def _count_uses(self, body: Node) -> None:
        """Add to the use counts how often each node is an argument in `body`."""
        self._uses.update(uses(body))

    # -------------------------------------------------------------- names and forms

    def form(self, form: Affine) -> Affine:
        """Return the index `form` with program names in place of graph variables and integer tensors."""
        return named(form, self.names, self.arrays)

    def rows(self, rows: Rows) -> Rows:
        """Return the constraints ``rows`` with program names in place of graph variables and integer tensors."""
        return tuple(Constraint(row.kind, self.form(row.form), row.modulus) for row in rows)

    def _fresh(self, name: str) -> str:
        """Return a name like `name` that is unused in the program, and reserve it."""
        choice = unique(name, self._taken, self._all_locals, tried=self._tried)
        self._taken.add(choice)
        return choice

    def _local(self, name: str) -> str:
        """Return a name like `name` that is unused in this kernel, and reserve it."""
        if name in self._tried:  # temporaries are called so, and there may be many
            name = f"{name}_"
        choice = unique(name, self._taken, self._locals, tried=self._tried_locals)
        self._locals.add(choice)
        self._all_locals.add(choice)
        return choice

    # -------------------------------------------------------------- what a kernel computes

    def value(self, node: Node, block: CodeBlock) -> Recursion[scalars.Scalar]:
        """Return the scalar expression of `node` in `block`; implemented by `lower.Lowering`."""
        raise NotImplementedError

    def _additions(
        self, array: str, variables: Sequence[int], part: ScatterTerm, block: CodeBlock
    ) -> Recursion[tuple[loops.Statement, ...]]:
        """Return the loops over `variables`, in the block ``block``, that scatter the term `part`: in each iteration,
        they add its value to an entry of `array`. `lower.Lowering` implements this.
        """
        raise NotImplementedError


def _is_least_size(row: Constraint, axes: Collection[int]) -> bool:
    """Return whether `row` is a lower bound on sizes alone: an inequality such as ``n + m - 3 >= 0``, with positive
    coefficients and without compounds, entries of data or any of `axes`.
    """
    form = row.form
    return (
        row.kind == "ge"
        and not (form.compounds() or form.atoms().intersection(axes) or data_entries([form]))
        and all(c > 0 for _, c in form.terms)
    )
