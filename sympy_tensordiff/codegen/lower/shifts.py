"""Values that are needed at several shifts: ``r[i - 1]``, ``r[i]`` and ``r[i + 1]`` are uses of one value.

The derivative of a sum of ``phi(r[i])`` over a grid holds ``phi'(r)`` at each point of the stencil of ``r``. Uses are
counted per value, whatever their shifts, their signs and the numbers in front of them: all that are the same function
of their indices, counted from their own start, are one candidate for an array. On a periodic axis, where indices are
``Mod(i + 1, n)``, they are counted round the circle. The value is stored where the operations that are saved are more
than the reads and the write of the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, lcm

from sympy_tensordiff.codegen.lower.materialise import CONDITIONS, calls_external, is_dear
from sympy_tensordiff.codegen.lower.plan import Context, Planner, StorageCandidate, index_forms
from sympy_tensordiff.codegen.lower.shift_normal_form import at_origin
from sympy_tensordiff.codegen.lower.structures import Structures
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.implication import is_implied, remove_redundant
from sympy_tensordiff.integer.products import quotient_by, times
from sympy_tensordiff.integer.rows import Rows, shape_rows

READ = 2
"""What a read of a stored value costs beside one operation: it comes from further away than what a stencil reads again.

A write costs two reads.
"""

FUNCTION = 20
"""The operations of a function, or of a power that is no product."""

DIVISION = 4

VALUES = frozenset({"add", "mul", "pow", "call", "select"})

MOST_PARTS = 2000
"""Kernels of more parts are not searched."""


@dataclass(frozen=True)
class Instance:
    """One use of a value that is needed at several shifts: ``node == number * candidate``, at the candidate's forms."""

    node: Node
    number: Number
    candidate: StorageCandidate


@dataclass
class Shifts:
    """Finds values used at several shifts, such as ``r[i]`` and ``r[i + 1]``, that are worth storing in an array."""

    graph: Graph
    planner: Planner
    members: dict[Node, Instance] = field(default_factory=dict)
    """The nodes that read stored values, with their uses."""
    domains: dict[Node, StorageCandidate] = field(default_factory=dict)
    """Where all uses of a value need it, by the node of the candidate."""
    _work: dict[Node, int] = field(default_factory=dict)
    _normals: dict[Node, Node] = field(default_factory=dict)
    """Nodes whose products have the common numbers of their factors in front, by the nodes as they were."""
    _structures: Structures = field(default_factory=lambda: Structures(has_numbers=False))

    def search(self, bodies: Sequence[Node], context: Context) -> None:
        """Find values in the kernel bodies that are worth an array; record them in `domains` and their uses in
        `members`.
        """
        if not self.domains and not any(map(has_shifts, bodies)):
            return
        known: dict[tuple[Node, Rows], Instance | None] = {}
        while (found := self._best(bodies, context, known)) is not None:
            domain, instances = found
            if domain.node not in self.domains:
                self.domains[domain.node] = domain
                self._structures.add(domain.node)
            self.members.update((one.node, one) for one in instances)

    def is_inside(self, use: Instance, context: Context) -> bool:
        """Return whether the array for a value contains all entries that `use` reads in `context`."""
        domain = self.domains[use.candidate.node]
        forms = dict(zip(domain.axes, use.candidate.forms, strict=True))
        known = (*self.planner.facts, *context.rows)
        return all(is_implied(row.substitute(forms), known) for row in domain.rows)

    def _best(
        self, bodies: Sequence[Node], context: Context, known: dict[tuple[Node, Rows], Instance | None]
    ) -> tuple[StorageCandidate, list[Instance]] | None:
        """Return the value whose storage saves the most work, or one that is stored already, and its uses; None without
        one.

        ``known`` are the uses that have been found before.
        """
        groups: dict[int, dict[tuple[Node, Rows], None]] = {}
        for part, guards in self._values(bodies, context):
            groups.setdefault(self._structures.number(part), {})[part, guards] = None
        best, most = None, 0
        for structure, uses in groups.items():
            if structure not in self._structures.stored and len({part for part, _ in uses}) == 1:
                continue
            values: dict[Node, list[Instance]] = {}
            for part, guards in uses:
                if (part, guards) not in known:
                    known[part, guards] = self._instance(part, context.inside((), guards))
                if (use := known[part, guards]) is not None:
                    values.setdefault(use.candidate.node, []).append(use)
            for node, instances in values.items():
                if node in self.domains:
                    return self.domains[node], instances
                count = len({one.candidate.forms for one in instances})
                saved = self.work(node) * (count - 1) - READ * (count + 2)
                if (
                    saved > most
                    and (domain := self._common_candidate([one.candidate for one in instances])) is not None
                ):
                    best, most = (domain, instances), saved
        return best

    def _values(self, bodies: Sequence[Node], context: Context) -> Iterator[tuple[Node, Rows]]:
        """Yield the subexpressions of `bodies` that may be worth an array, with the guards around each."""
        own = frozenset(context.variables)
        stack: list[tuple[Node, Rows]] = [(body, ()) for body in bodies]
        seen = set(stack)
        whole_bodies = {body.args[0] if body.op == "guard" else body for body in bodies}
        while stack and len(seen) < MOST_PARTS:
            part, guards = stack.pop()
            core = self.graph.split_coefficient(part)[1]
            if part.op in BINDERS or own.isdisjoint(part.free) or core in self.members:
                continue
            is_value = core.op in VALUES and core not in whole_bodies and not (core.height or core.shape)
            if is_value and is_number(core) and self.work(core) > 2 * READ and not calls_external(core):
                yield core, guards
            inner = (*guards, *(row for row in part.data if row not in guards)) if part.op == "guard" else guards
            # What is computed behind a condition only may be no number elsewhere.
            below = part.args if part.op != "select" else [part.args[0], *(arg for arg in part.args[1:] if arg.total)]
            new = [(arg, inner) for arg in reversed(below) if (arg, inner) not in seen]
            seen.update(new)
            stack += new

    def _instance(self, part: Node, context: Context) -> Instance | None:
        """Return `part` as a number times a stored value at index forms, with shifts counted from 0; None if it cannot
        be stored.
        """
        value, forms = part, dict[Variable, Affine]()
        for v in context.variables:
            if v in part.free and (found := unrolled(self.graph, value, v, context.rows)) is not None:
                value, forms[v] = found
        candidate = self.planner.candidate(value, context)
        if candidate is None or not candidate.axes:
            return None
        candidate = at_origin(self.graph, candidate)
        number, value = self._number_and_core(candidate.node)
        at = tuple([form.substitute(forms) for form in candidate.forms])
        return Instance(part, number, replace(candidate, node=value, forms=at))

    def _number_and_core(self, node: Node) -> tuple[Number, Node]:
        """Return `node` as ``(number, core)``, with one core for all multiples of it, such as ``2*a - 2*b`` and ``b -
        a``.
        """
        graph, done = self.graph, self._normals
        for part in reachable(node, known=done):
            found = graph.with_args(part, [done[arg] for arg in part.args])
            if found.op == "mul":
                factors = [primitive(graph, factor) for factor in found.args]
                found = graph.mul([*(graph.const(number) for number, _ in factors), *(core for _, core in factors)])
            done[part] = found
        return primitive(graph, done[node])

    def _common_candidate(self, candidates: Sequence[StorageCandidate]) -> StorageCandidate | None:
        """Return one candidate for all points at which any of `candidates` is needed; None if it has no bounds or reads
        out of bounds.
        """
        first, facts = candidates[0], self.planner.facts
        rows = dict.fromkeys(row for one in candidates for row in one.rows)
        every = [r for r in rows if all(r in one.rows or is_implied(r, (*facts, *one.rows)) for one in candidates)]
        found = remove_redundant(every, facts)
        if found != first.rows:
            boxes = [self.planner.box(axis, [a for a in first.axes if a != axis], found, False) for axis in first.axes]
            if not all(low and high for low, high in boxes):
                return None
            lows, highs = zip(*boxes, strict=True)
            first = replace(first, rows=found, lows=lows, highs=highs)
        reads = [part for part in reachable(first.node) if part.op == "read"]
        rows_of_reads = [row for part in reads for row in shape_rows(part.data, part.args[0].shape)]
        if not all(is_implied(row, (*facts, *found)) for row in rows_of_reads):
            return None
        # No array is larger than what it is made of; what may be no number is computed only where it is needed.
        is_small = any(part.free.issuperset(first.axes) for part in reads)
        is_exact = first.node.total or all(set(one.rows) == set(found) for one in candidates)
        return first if is_small and is_exact and self.planner.is_safe(first.node, found) else None

    def work(self, node: Node) -> int:
        """Return roughly how many operations and reads one entry of `node` takes."""
        if node not in self._work:
            self._work[node] = sum(map(_own_work, reachable(node)))
        return self._work[node]


def primitive(graph: Graph, node: Node) -> tuple[Number, Node]:
    """Return ``(number, rest)``, the common numeric factor of the terms of an addition taken out; 1 with a float.

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


def unrolled(graph: Graph, node: Node, v: int, rows: Rows) -> tuple[Node, Affine] | None:
    """Return ``(node, start)`` with periodic reads ``u[Mod(v - 1, n)]`` shifted so that the smallest shift is 0; None
    if impossible.

    ``u[Mod(v - 1, n)] + u[v]`` is ``u[v] + u[Mod(v + 1, n)]`` at ``Mod(v - 1, n)``. None where ``v`` is not the index
    of a whole axis, or occurs elsewhere.
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

    def move(part: Node) -> Node:
        """Return a read with its periodic index shifted; other nodes unchanged."""
        if part.op != "read":
            return part
        return graph.read(part.args[0], [moved.get(form, form) if v in form.atoms() else form for form in part.data])

    (found,) = rewritten(graph, [node], move)
    return found, remainder(place + least, extent)


def shift_of(form: Affine, v: int, extent: Affine) -> int | None:
    """Return the number ``s`` if `form` is ``v`` (0), or ``Mod(v + s, extent)``; else None."""
    place = Affine.variable(v)
    if form == place:
        return 0
    return form.constant if form == remainder(place + form.constant, extent) else None


def remainder(form: Affine, extent: Affine) -> Affine:
    """Return ``Mod(form, extent)``; for a single variable, already below the extent, the variable."""
    return form if not form.constant else form - times(extent, quotient_by(form, extent))


def has_shifts(body: Node) -> bool:
    """Whether an array below `body` is read at two indices that differ only in constants or quotients, as ``x[i]`` and
    ``x[i + 1]``.
    """
    seen: set[object] = set()
    for part in reachable(body):
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
    """Whether `node` has a numeric value: it is not a select between conditions."""
    return node.op != "select" or all(arg.op not in CONDITIONS and is_number(arg) for arg in node.args[1:])


def _own_work(part: Node) -> int:
    """Return roughly how many operations `part` takes beyond its arguments."""
    if part.op in ("add", "mul"):
        return len(part.args) - 1
    if part.op == "call":
        return FUNCTION if is_dear(part) else 1
    if part.op == "pow":
        exponent = part.args[1].data if part.args[1].op == "const" else None
        is_product = isinstance(exponent, int) and 0 < exponent <= 4
        return 1 if is_product else DIVISION if exponent == -1 else FUNCTION
    return int(part.op in ("read", "select"))
