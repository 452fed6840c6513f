"""Shifted uses: ``r[i - 1]``, ``r[i]`` and ``r[i + 1]`` are uses of one value, which is stored if that pays.

The derivative of a sum of ``phi(r[i])`` over a grid has ``phi'(r)`` at each point of the stencil of ``r``, and the sum
itself has ``phi(r)``. Uses are counted per value in all loops of a program, whatever their shifts, their signs and the
numbers in front of them: all that are the same function of their indices, counted from their own start, are one
candidate for an array. On a periodic axis, where indices are ``Mod(i + 1, n)``, they are counted round the circle. The
value is stored where the operations that are saved are more than the reads and the write of the array. A stored value
has a loop of its own, whose parts are counted in turn. The array may have entries that no use reads; they may be NaN.

Factors that several products have in common are one value if at least two of them call functions. A value that reads
out of bounds where a condition on integer arrays fails is stored where the condition holds, if all uses have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, permutations
from math import gcd, lcm
from typing import NamedTuple

from sympy_tensordiff.codegen.lower.functions import is_user_function
from sympy_tensordiff.codegen.lower.materialise import CONDITIONS, is_dear
from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, Planner, StorageCandidate, index_forms
from sympy_tensordiff.codegen.lower.scatters import solved_equation
from sympy_tensordiff.codegen.lower.shift_normal_form import at_origin
from sympy_tensordiff.codegen.lower.structures import Structures
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.implication import is_implied, remove_redundant
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.products import quotient_by, times
from sympy_tensordiff.integer.rows import Rows, shape_rows

READ = 2
"""The cost of reading a stored value, in operations: it comes from further away than the neighbours that a stencil
reads again.

A write costs two reads.
"""

STREAM = 10
"""The cost of one more loop over the entries of an array, in operations per entry: they come from a slower cache."""

FUNCTION = 20
"""The operations of a function, or of a power that is not a product."""

DIVISION = 4

VALUES = frozenset({"add", "mul", "pow", "call", "select"})

MOST_PARTS = 2000
"""Kernels of more parts are not searched."""

MOST_PRODUCTS = 60
"""No more products than these are compared for factors in common."""


@dataclass(frozen=True)
class Instance:
    """A use ``node`` of a value that is also used at shifted indices, written as ``number`` times the value of
    ``candidate`` at some index: ``2*exp(x[k + 1])`` is 2 times ``exp(x[a])`` at ``a = k + 1``.
    """

    node: Node
    number: Number
    candidate: StorageCandidate
    tests: Rows = ()
    """What guards around the use say about entries of integer arrays, over the axes of the candidate. The value may
    read out of bounds where they do not hold."""


@dataclass(eq=False)
class _LoopBody:
    """The body of a loop nest: the expressions ``nodes`` that it computes in each iteration. Also recorded are the
    subexpressions that arrays store, and those that are worth an array.
    """

    nodes: tuple[Node, ...]
    context: EnclosingLoops
    is_array: bool
    """Whether they are the entries of an array, not the terms of a reduction."""
    stored: set[Node] = field(default_factory=set)
    """The values in it that are entries of arrays."""
    structures: dict[int, list[tuple[Node, Rows]]] = field(default_factory=dict)
    """Its parts that may be worth an array, with the guards around each, by the numbers of their structures."""
    is_changed: bool = True
    """Whether ``structures`` have to be found again."""
    reading: set[Node] = field(default_factory=set)
    """The parts that read stored values."""
    work: dict[Node, int] = field(default_factory=dict)
    """About how many operations these parts take."""

    def is_invariant(self, node: Node) -> bool:
        """Return whether `node` is loop-invariant. It is then computed before the loop, and costs nothing."""
        return node.free.isdisjoint(self.context.variables)

    def store(self, node: Node) -> None:
        """Record that `node` is stored in an array, so that this loop reads the array instead of computing the
        subexpressions of `node`.
        """
        self.stored.add(node)
        self.is_changed = True

    def find_groups(self, values: Iterable[tuple[Node, Rows]], number: Callable[[Node], int]) -> Iterable[int]:
        """Group the subexpressions ``values``, pairs of a node and its guards, by ``number(node)``: nodes that differ
        only in indices have the same number. Store the groups in ``self.structures``, and return their numbers.
        """
        self.structures, self.reading, self.work, self.is_changed = {}, set(), {}, False
        for part in reachable(*self.nodes):
            if part in self.stored or not self.reading.isdisjoint(part.args):
                self.reading.add(part)
        for part, guards in values:
            self.structures.setdefault(number(part), []).append((part, guards))
        return self.structures


class _Candidate(NamedTuple):
    """A value that is worth an array: the number of operations that the array saves, the range of its indices
    (``domain``), and the uses of the value in loop bodies.
    """

    saved: int
    domain: StorageCandidate
    uses: Sequence[tuple[_LoopBody, Instance]]


def _loop_bodies(graph: Graph, entries: Sequence[Node]) -> list[_LoopBody]:
    """Return the bodies of the loop nests that compute `entries`: one for each entry, and one for each reduction in
    them, however often it occurs.
    """
    found: list[_LoopBody] = []
    stack = [(entry, EnclosingLoops((), ())) for entry in reversed(entries)]
    opened: set[Node] = set()
    while stack:
        part, context = stack.pop()
        body = part
        if part.op in BINDERS:
            variables, rows, body = graph.open(part)
            context = context.inside(variables, rows)
        found.append(_LoopBody((body,), context, part.op not in RANGED))
        inner: list[tuple[Node, Rows]] = [(body, ())]
        seen = set(inner)
        while inner:
            node, guards = inner.pop()
            if node.op in BINDERS:
                if node not in opened:
                    opened.add(node)
                    stack.append((node, context.inside((), guards)))
                continue
            guards = (*guards, *(row for row in node.data if row not in guards)) if node.op == "guard" else guards
            new = [(arg, guards) for arg in node.args if (arg, guards) not in seen]
            seen.update(new)
            inner += new
    return found


@dataclass
class Shifts:
    """Finds values that are used at several shifts, such as ``r[i]`` and ``r[i + 1]``, and decides which of them are
    worth an array.
    """

    graph: Graph
    planner: Planner
    stores_freely: bool = False
    """Whether each value is an array in any case, so that storing one that several loops need takes no time."""
    members: dict[Node, Instance] = field(default_factory=dict)
    """The nodes that read stored values, with their uses."""
    domains: dict[Node, StorageCandidate] = field(default_factory=dict)
    """Where all uses of a value need it, by the node of the candidate."""
    box: Rows = ()
    """Constraints that all entries of the array satisfy whose loops are searched, beyond its extents: an extent
    ``max(0, n - 2)`` says nothing about n."""
    products: dict[Node, list[Node]] = field(default_factory=dict)
    """The products of several factors that stored values replace, by the products that contain them."""
    _common_factors: list[frozenset[tuple[int, int]]] = field(default_factory=list)
    """The structures of factors that several products have in common, with the number of each; the largest sets
    first."""
    _normals: dict[Node, Node] = field(default_factory=dict)
    """Nodes whose products have the common numbers of their factors in front, by the nodes as they were."""
    _reads: dict[Node, frozenset[frozenset[int]]] = field(default_factory=dict)
    """The variables of the reads below nodes."""
    _shapes: set[tuple[Affine, ...]] = field(default_factory=set)
    """The shapes of all tensors that the program reads: no array of values is larger."""
    _structures: Structures = field(default_factory=lambda: Structures(has_numbers=False))
    _uses: dict[tuple[Node, EnclosingLoops], Instance | None] = field(default_factory=dict)
    """The uses of values by parts of loops, as far as they were needed."""
    _work: dict[Node, int] = field(default_factory=dict)
    """About how many operations parts take that read nothing stored."""
    _external: dict[Node, bool] = field(default_factory=dict)
    """Whether there are calls of user functions in nodes."""

    def survey(self, entries: Sequence[Node]) -> None:
        """Choose which values to store in arrays, since the loops that compute ``entries`` use them several times, at
        equal or shifted indices such as ``r[i]`` and ``r[i + 1]``. Record the index range of each array in
        ``self.domains``.

        `entries` are its results and temporaries, before any of them is lowered. A stored value has a loop of its own,
        whose parts are counted as well.
        """
        places = _loop_bodies(self.graph, entries)
        if len(places) == 1 and not has_shifts(entries):
            return
        self._shapes = {part.shape for part in reachable(*entries) if part.op == "tensor"}
        self._common_factors = self._find_common_factors(places)
        values: dict[int, _Candidate | None] = {}
        while (found := self._most_saving_value(places, values)) is not None:
            domain = found.domain
            self.domains[domain.node] = domain
            for place, use in found.uses:
                self._structures.add(use.node)
                place.store(use.node)
            places.append(_LoopBody((domain.node,), EnclosingLoops(domain.axes, domain.rows), True))

    def search(self, bodies: Sequence[Node], context: EnclosingLoops, is_array: bool) -> None:
        """Find the values in the loop `bodies` for which `survey` has chosen an array, and record in ``self.members``
        the array and index from which to read each. Record in ``self.products`` the products of which several factors
        together are such a value.

        The bodies are inside the loops of ``context``; with ``is_array``, they are entries of an array, else terms of a
        reduction.
        """
        if not self.domains:
            return
        place = _LoopBody(tuple(bodies), context, is_array, set(self.members))
        for part, guards in self._found_values(place):
            if part in self._structures:
                use = self._instance(part, context.inside((), guards))
                if use is not None and use.candidate.node in self.domains:
                    self.members[use.node] = use
                    place.store(use.node)
        for part in reachable(*bodies):
            found = [product for product in self._partial_products(part) if product in place.stored]
            if found:
                self.products[part] = found

    def _find_common_factors(self, places: Sequence[_LoopBody]) -> list[frozenset[tuple[int, int]]]:
        """Return the sets of factors that two products in the loop bodies ``places`` have in common, the largest first:
        ``{exp(x), 1/log(y)}`` for ``a*exp(x)/log(y)`` and ``b*exp(x)/log(y)``. Each factor is given as ``(number of its
        structure, multiplicity)``.

        At least two of them call functions: one factor is stored itself, and to multiply again costs nothing.
        """
        products: dict[frozenset[tuple[int, int]], None] = {}
        calling: set[int] = set()
        for place in places:
            for part in reachable(*place.nodes):
                if part.op == "mul" and not place.is_invariant(part) and len(products) < MOST_PRODUCTS:
                    factors = self._factors(part)
                    calling.update(number for number, found in factors.items() if calls_function(found[0]))
                    products[frozenset((number, len(found)) for number, found in factors.items())] = None
        found = {}
        for one, other in combinations(products, 2):
            if sum(count for number, count in one & other if number in calling) > 1:
                found[one & other] = sum(count for _, count in one & other)
        return sorted(found, key=lambda common: (-found[common], sorted(common)))

    def _factors(self, product: Node) -> dict[int, list[Node]]:
        """Return the factors of ``product`` except numbers, grouped by structure: a dictionary from the number of a
        structure to the factors that have it. ``x[i]`` and ``x[i + 1]`` have the same structure.
        """
        found: dict[int, list[Node]] = {}
        for factor in product.args:
            if factor.op != "const":
                found.setdefault(self._structures.number(factor), []).append(factor)
        return found

    def _partial_products(self, part: Node) -> Iterator[Node]:
        """Yield those partial products of the product ``part`` that also occur in another product: ``a*b`` for
        ``a*b*c`` if there is also ``a*b*d``. Yield nothing if ``part`` is not a product.
        """
        if part.op != "mul" or not self._common_factors:
            return
        factors = self._factors(part)
        pairs = {(number, len(found)) for number, found in factors.items()}
        for chosen in self._common_factors:
            if chosen < pairs:
                yield self.graph.mul([factor for number, _ in sorted(chosen) for factor in factors[number]])

    def is_inside(self, use: Instance, context: EnclosingLoops) -> bool:
        """Return whether all entries that `use`, one occurrence of a stored value, reads in the loops of `context` are
        inside of the array that stores the value.
        """
        domain = self.domains[use.candidate.node]
        forms = dict(zip(domain.axes, use.candidate.forms, strict=True))
        known = (*self.planner.facts, *context.rows, *self.box)
        return all(is_implied(row.substitute(forms), known) for row in domain.rows)

    def _most_saving_value(
        self, places: Sequence[_LoopBody], values: dict[int, _Candidate | None]
    ) -> _Candidate | None:
        """Return the value in the loop bodies ``places`` whose storage saves the most operations; None if no storage
        pays. ``values`` caches the candidates found before, by structure.

        `values` are those found before, by the numbers of their structures; those in loops that have changed since then
        are looked at again. How much a structure may save at most is known from its number of uses, so that the uses
        themselves are compared for the most promising structures only: a part of a value that is stored goes with it.
        """
        for place in places:
            if place.is_changed:
                for number in (
                    *place.structures,
                    *place.find_groups(self._found_values(place), self._structures.number),
                ):
                    values.pop(number, None)
        groups: dict[int, list[tuple[_LoopBody, Node, Rows]]] = {}
        for place in places:
            for number, parts in place.structures.items():
                if number not in values:
                    groups.setdefault(number, []).extend((place, *one) for one in parts)
        best = max(filter(None, values.values()), key=lambda one: one.saved, default=None)
        most = {number: self._most_saved(uses) for number, uses in groups.items()}
        for number in sorted(groups, key=lambda number: -most[number]):
            if most[number] <= (0 if best is None else best.saved):
                break
            values[number] = found = self._most_saving_of(groups[number])
            best = found if best is None or (found is not None and found.saved > best.saved) else best
        return best

    def _most_saved(self, uses: Sequence[tuple[_LoopBody, Node, Rows]]) -> int:
        """Return an upper bound of the number of operations that storing a value with these `uses` saves; 0 for a
        single use.
        """
        count = len({(place, part) for place, part, _ in uses})
        return self._saved(max(self._work_at(place, part) for place, part, _ in uses), count, 1) if count > 1 else 0

    def _most_saving_of(self, uses: Sequence[tuple[_LoopBody, Node, Rows]]) -> _Candidate | None:
        """Return the value among those in `uses` whose storage in an array saves the most operations, as a
        `_Candidate`; None if storing does not pay.

        Each item of `uses` is a loop body, a value in it and the guards of the value. The values are equal up to
        indices.
        """
        values: dict[Node, list[tuple[_LoopBody, Instance]]] = {}
        for place, part, guards in uses:
            context = place.context.inside((), guards)
            if (part, context) not in self._uses:
                self._uses[part, context] = self._instance(part, context)
            if (use := self._uses[part, context]) is not None:
                values.setdefault(use.candidate.node, []).append((place, use))
        best: _Candidate | None = None
        for instances in values.values():
            count = len({(place, use.candidate.forms) for place, use in instances})
            work = min(self._work_at(place, use.node) for place, use in instances)
            saved = self._saved(work, count, len({place for place, _ in instances}))
            if saved > (0 if best is None else best.saved):
                known = self.domains.get(instances[0][1].candidate.node)
                before = [] if known is None else [known]
                domain = self._common_candidate([*before, *(use.candidate for _, use in instances)])
                if domain is None and all(use.tests for _, use in instances):
                    tested = [replace(use.candidate, rows=(*use.candidate.rows, *use.tests)) for _, use in instances]
                    domain = self._common_candidate([*before, *tested])
                best = best if domain is None else _Candidate(saved, domain, instances)
        return best

    def _found_values(self, place: _LoopBody) -> Iterator[tuple[Node, Rows]]:
        """Yield the subexpressions of the loop body `place` that may be worth an array, outermost first, each with the
        constraints of the guards around it.

        The parts of values that are stored meanwhile are left out.
        """
        bodies = place.nodes
        own = frozenset(place.context.variables)
        stack: list[tuple[Node, Rows]] = [(body, ()) for body in bodies]
        seen = set(stack)
        whole_bodies = {body.args[0] if body.op == "guard" else body for body in bodies if place.is_array}
        if self.stores_freely and not place.is_array:  # a library sums products without an array of them
            cores = [self.graph.split_coefficient(body)[1] for body in bodies]
            whole_bodies.update(core for core in cores if core.op == "mul")
        while stack and len(seen) < MOST_PARTS:
            part, guards = stack.pop()
            core = self.graph.split_coefficient(part)[1]
            if part.op in BINDERS or own.isdisjoint(part.free) or core in place.stored:
                continue
            is_value = core.op in VALUES and core not in whole_bodies and not (core.height or core.shape)
            if is_value and self._is_storable(place, core):
                yield core, guards
                if core in place.stored:
                    continue
            covered: set[Node] = set()
            for product in () if core.height or core.shape else self._partial_products(core):
                if not covered.isdisjoint(product.args):
                    continue
                if product not in place.stored and self._is_storable(place, product):
                    yield product, guards
                covered.update(product.args if product in place.stored else ())
            inner = (*guards, *(row for row in part.data if row not in guards)) if part.op == "guard" else guards
            # A value that is computed under a condition only may be undefined elsewhere.
            below = part.args if part.op != "select" else [part.args[0], *(arg for arg in part.args[1:] if arg.total)]
            below = below if not covered else [arg for arg in core.args if arg not in covered]
            new = [(arg, inner) for arg in reversed(below) if (arg, inner) not in seen]
            seen.update(new)
            stack += new

    def _is_storable(self, place: _LoopBody, node: Node) -> bool:
        """Return whether the value `node` in the loop body ``place`` may be stored in an array and costs enough work
        for that. The array must not be too large, and `node` must not call a user function.
        """
        is_small = self._is_as_small(node, frozenset(place.context.variables)) and is_number(node)
        return is_small and self._is_work(place, node) and not self._calls_user_function(node)

    def _is_as_small(self, node: Node, variables: frozenset[int]) -> bool:
        """Return whether an array for the values of `node`, with an axis for each of `variables` in it, is known to be
        no larger than some tensor of the program.

        It is if a tensor has as many axes as `node` contains indices of `variables`, and at least two, or if one read
        in `node` contains all these indices.
        """
        if any(len(shape) >= max(2, len(node.free & variables)) for shape in self._shapes):
            return True
        for part in reachable(node, known=self._reads):
            below = frozenset[frozenset[int]]().union(*(self._reads[arg] for arg in part.args))
            self._reads[part] = below | {part.free} if part.op == "read" else below
        return any(free >= node.free & variables for free in self._reads[node])

    def _instance(self, part: Node, context: EnclosingLoops) -> Instance | None:
        """Write `part`, an expression in the loops of `context`, as a number times a value that may also be used at
        other indices: ``2*exp(x[k + 1])`` is 2 times ``exp(x[a])`` at ``a = k + 1``. None if it is not a function of
        bounded indices.
        """
        value, forms = part, dict[Variable, Affine]()
        for v in context.variables:
            if v in part.free and (found := with_shifts_from_zero(self.graph, value, v, context.rows)) is not None:
                value, forms[v] = found
        candidate = self.planner.candidate(value, context)
        if candidate is None or not candidate.axes:
            return None
        tests = _tests_of_data(candidate, context) if not forms else ()
        tested = at_origin(self.graph, replace(candidate, rows=(*candidate.rows, *tests)))
        candidate = replace(tested, rows=tested.rows[: len(candidate.rows)])
        number, value = self._number_and_core(candidate.node)
        at = tuple([form.substitute(forms) for form in candidate.forms])
        return Instance(part, number, replace(candidate, node=value, forms=at), tested.rows[len(candidate.rows) :])

    def _number_and_core(self, node: Node) -> tuple[Number, Node]:
        """Return ``(number, core)`` with ``number*core`` equal to `node`, such that multiples of one value have the
        same core: ``(2, a - b)`` for ``2*a - 2*b``, and ``(-1, a - b)`` for ``b - a``.
        """
        graph, done = self.graph, self._normals
        for part in reachable(node, known=done):
            found = graph.with_args(part, [done[arg] for arg in part.args])
            if found.op == "mul":
                factors = [without_common_factor(graph, factor) for factor in found.args]
                found = graph.mul([*(graph.const(number) for number, _ in factors), *(core for _, core in factors)])
            elif found.op == "pow" and found.args[1].op == "const" and found.args[1].data % 2 == 0:
                number, core = without_common_factor(graph, found.args[0])
                found = graph.pow(graph.scale(number if number > 0 else -number, core), found.args[1])
            done[part] = found
        return without_common_factor(graph, done[node])

    def _common_candidate(self, candidates: Sequence[StorageCandidate]) -> StorageCandidate | None:
        """Return the description of one array that stores the values of all `candidates`, which are descriptions of
        arrays for the same value. None if they have no common bounded domain in which all reads are in bounds, or if
        the array would be too large.
        """
        found = self.common_domain(candidates)
        if found is None:
            return None
        reads = [part for part in reachable(found.node) if part.op == "read"]
        is_small = any(part.free.issuperset(found.axes) for part in reads) or self._has_place(found)
        return found if is_small else None

    def common_domain(self, candidates: Sequence[StorageCandidate]) -> StorageCandidate | None:
        """Return one storage candidate whose points include those of all `candidates`, which store the same value. None
        if an axis has no bounds, or if filling its array would read out of bounds.
        """
        first, facts = candidates[0], self.planner.facts
        rows = dict.fromkeys(row for one in candidates for row in one.rows)
        every = [r for r in rows if all(r in one.rows or is_implied(r, (*facts, *one.rows)) for one in candidates)]
        found = remove_redundant(every, facts)
        if found != first.rows:
            plain = tuple([row for row in found if not data_entries([row.form])])
            boxes = [self.planner.box(axis, [a for a in first.axes if a != axis], plain, False) for axis in first.axes]
            if not all(low and high for low, high in boxes):
                return None
            lows, highs = zip(*boxes, strict=True)
            first = replace(first, rows=found, lows=lows, highs=highs)
        if not all(self._reads_inside(part, found) for part in _outermost_reads(first.node)):
            return None
        return first if self.planner.is_safe(first.node, found) else None

    def _reads_inside(self, part: Node, rows: Rows) -> bool:
        """Return whether `part`, a read, or a reduction with all reads in it, stays inside of the shapes of tensors
        wherever `rows` hold.
        """
        if part.op == "read":
            return all(
                is_implied(row, (*self.planner.facts, *rows)) for row in shape_rows(part.data, part.args[0].shape)
            )
        _, own, body = self.planner.graph.inside(part, ())
        return all(self._reads_inside(inner, (*rows, *own)) for inner in _outermost_reads(body))

    def _has_place(self, candidate: StorageCandidate) -> bool:
        """Return whether an array for `candidate` is provably no larger than some tensor of the program: for some order
        of its axes, each extent is at most that of the tensor.
        """
        facts = self.planner.facts
        if any(len(low) != 1 for low in candidate.lows):
            return False
        extents = [
            [high - low[0] + 1 for high in highs] for low, highs in zip(candidate.lows, candidate.highs, strict=True)
        ]

        def fits(ends: Sequence[Affine], extent: Affine) -> bool:
            """Return whether the enclosing method's ``facts`` imply that some form in `ends` is at most `extent`."""
            return any(is_implied(Constraint("ge", extent - end), facts) for end in ends)

        return any(
            all(map(fits, extents, chosen)) for shape in self._shapes for chosen in permutations(shape, len(extents))
        )

    def _saved(self, work: int, count: int, loops: int) -> int:
        """Return the number of operations saved by storing a value that takes `work` operations and is used `count`
        times, in `loops` different loops. It is at most 0 if it is better to compute the value again.
        """
        if self.stores_freely:
            return work * (count - 1)
        return work * (count - 1) - READ * (count + 2) - STREAM * (loops - 1)

    def _is_work(self, place: _LoopBody, node: Node) -> bool:
        """Return whether computing `node` in the loop body `place` costs more than two reads, so that storing it may
        pay.
        """
        total, seen, stack = 0, {node}, [node]
        while stack and total <= 2 * READ:
            part = stack.pop()
            if part not in place.stored and not place.is_invariant(part):
                total += own_work(part)
                new = [arg for arg in part.args if arg not in seen]
                seen.update(new)
                stack += new
        return total > (0 if self.stores_freely else 2 * READ)

    def _calls_user_function(self, node: Node) -> bool:
        """Return whether a node below `node` calls a user function."""
        known = self._external
        for part in reachable(node, known=known):
            known[part] = is_user_function(part) or any(known[arg] for arg in part.args)
        return known[node]

    def _work_at(self, place: _LoopBody, node: Node) -> int:
        """Estimate the number of operations that `node` takes in the loop body `place`. Loop-invariant subexpressions,
        and those read from arrays, do not count.
        """
        # The rest of a product without its number may not be a part of the loop itself.
        reads_stored = node in place.stored or not place.reading.isdisjoint((node, *node.args))
        known = place.work if reads_stored else self._work
        if node not in known:
            parts = reachable(node, known=place.stored)
            known[node] = sum(own_work(part) for part in parts if not place.is_invariant(part))
        return known[node]


def _tests_of_data(candidate: StorageCandidate, context: EnclosingLoops) -> Rows:
    """Return the constraints of the loops `context` that contain integer-array entries, such as ``p[i] >= 2``, with the
    axes of `candidate` in place of the loop indices. Return () if an axis is not a single loop index.

    Other loop indices are eliminated by equations with such entries, as j by ``j == p[i]``. A constraint with an index
    that cannot be eliminated is left out.
    """
    axes = {form: axis for axis, form in zip(candidate.axes, candidate.forms, strict=True)}
    names = {v: Affine.variable(axes[place]) for v in context.variables if (place := Affine.variable(v)) in axes}
    if len(names) < len(axes):
        return ()
    rows = context.rows
    others = [v for v in context.variables if v not in names]
    while (solved := solved_equation(rows, others)) is not None:
        equation, v, value = solved
        rows = tuple([row.substitute({v: value}) for row in rows if row is not equation])
        others.remove(v)
    rows = tuple([row for row in rows if data_entries([row.form]) and row.form.atoms().isdisjoint(others)])
    return tuple([row.substitute(names) for row in rows])


def calls_function(node: Node) -> bool:
    """Return whether `node` calls a costly function outside of reductions and entries of comprehensions."""
    return any(is_dear(part) for part in breadth_first(node, lambda part: () if part.op in BINDERS else part.args))


def without_common_factor(graph: Graph, node: Node) -> tuple[Number, Node]:
    """Return ``(number, rest)`` with ``number*rest == node``, where the number is the greatest common divisor of the
    coefficients: ``(2, a - 2*b)`` for ``2*a - 4*b``, ``(3, x)`` for ``3*x``. It is 1 for an addition with floats.

    The sign is that of the term that came into the graph first.
    """
    if node.op != "add":
        return graph.split_coefficient(node)
    terms = [graph.split_coefficient(term) for term in node.args]
    if not all(isinstance(number, int | Fraction) for number, _ in terms):
        return 1, node
    numbers = [Fraction(number) for number, _ in terms]
    common = Fraction(gcd(*(n.numerator for n in numbers)), lcm(*(n.denominator for n in numbers)))
    first, _ = min(terms, key=lambda term: term[1].id)
    common = -common if first < 0 else common
    rest = graph.add([graph.scale(whole(n / common), core) for n, (_, core) in zip(numbers, terms, strict=True)])
    return whole(common), rest


def whole(number: Fraction) -> Fraction | int:
    """Return `number` as an int if it is integral, else as a fraction."""
    return number.numerator if number.denominator == 1 else number


def with_shifts_from_zero(graph: Graph, node: Node, v: int, rows: Rows) -> tuple[Node, Affine] | None:
    """Return ``(new node, start)``: `node` with its periodic reads over `v` shifted so that the smallest shift is 0,
    and the index at which the new node equals the old one at `v`. ``u[Mod(v - 1, n)] + u[v]`` gives ``u[v] + u[Mod(v +
    1, n)]`` and ``Mod(v - 1, n)``; None if no read is shifted.

    None also where the range of ``v`` according to ``rows`` is not that of a whole axis.
    """
    own = [row for row in rows if v in row.form.atoms()]
    place = Affine.variable(v)
    ends = [row.form + place + 1 for row in own if row.form.coefficient(v) == -1]
    if len(own) != 2 or len(ends) != 1 or Constraint("ge", place) not in own:
        return None
    extent = ends[0]
    reads = [part for part in reachable(node) if part.op != "scalar" and any(v in f.atoms() for f in index_forms(part))]
    if any(part.op != "read" for part in reads):
        return None
    shifts = {form: shift_of(form, v, extent) for part in reads for form in part.data if v in form.atoms()}
    if None in shifts.values() or not any(shifts.values()):
        return None
    least = min(shift for shift in shifts.values() if shift is not None)
    moved = {form: remainder(place + (shift - least), extent) for form, shift in shifts.items() if shift is not None}

    def shifted(part: Node) -> Node:
        """Return the read `part` with all its periodic indices shifted by the same number, such that the smallest shift
        becomes 0: ``u[v]`` for ``u[Mod(v - 1, n)]`` if -1 is the smallest shift of all reads. Other nodes are
        unchanged.
        """
        if part.op != "read":
            return part
        return graph.read(part.args[0], [moved.get(form, form) if v in form.atoms() else form for form in part.data])

    (found,) = rewritten(graph, [node], shifted)
    return found, remainder(place + least, extent)


def shift_of(form: Affine, v: int, extent: Affine) -> int | None:
    """Return 0 if `form` is ``v``, and s if it is ``Mod(v + s, extent)``; None for any other form."""
    place = Affine.variable(v)
    if form == place:
        return 0
    return form.constant if form == remainder(place + form.constant, extent) else None


def remainder(form: Affine, extent: Affine) -> Affine:
    """Return ``Mod(form, extent)``, where `form` is an index plus a constant. If the constant is 0, `form` is less than
    `extent` already, and returned unchanged.
    """
    return form if not form.constant else form - times(extent, quotient_by(form, extent))


def has_shifts(bodies: Sequence[Node]) -> bool:
    """Return whether `bodies` read an array at two indices that differ by a constant shift, such as ``x[i]`` and ``x[i
    + 1]``; values may then be used at several shifts.
    """
    seen: set[object] = set()
    for part in reachable(*bodies):
        if part.op == "read":
            key = (
                part.args[0],
                tuple([tuple([term for term in form.terms if isinstance(term[0], int)]) for form in part.data]),
            )
            if key in seen:
                return True
            seen.add(key)
    return False


def is_number(node: Node) -> bool:
    """Return whether the value of `node` is a number. It is False only for a select between conditions: the caller
    excludes comparisons and other conditions.
    """
    return node.op != "select" or all(arg.op not in CONDITIONS and is_number(arg) for arg in node.args[1:])


def own_work(part: Node) -> int:
    """Return an estimate of the number of operations of the node `part` itself, without those of its arguments."""
    if part.op in ("add", "mul"):
        return len(part.args) - 1
    if part.op == "call":
        return FUNCTION if is_dear(part) else 1
    if part.op == "pow":
        exponent = part.args[1].data if part.args[1].op == "const" else None
        if not isinstance(exponent, int | Fraction) or exponent.denominator > 2 or not -4 <= exponent <= 4:
            return FUNCTION
        return 1 + DIVISION * (int(exponent < 0) + int(exponent.denominator == 2))
    return int(part.op in ("read", "select"))


def _outermost_reads(node: Node) -> list[Node]:
    """Return the reads and the reductions below `node` that are in no other reduction."""
    inside = frozenset(("read", *BINDERS))
    return [
        part for part in breadth_first(node, lambda part: () if part.op in BINDERS else part.args) if part.op in inside
    ]
