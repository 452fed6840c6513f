"""Values that are compared with the greatest or the least of them are computed once.

``b(p) == max_k b(k)`` chooses where the derivative of a maximum goes. It holds for floating point numbers if both
sides are made of the same ones: compiled in two places, ``exp(a[k])*c[k]`` may differ in its last bit, as vectors or
with products fused into additions. So the values get an array, which all comparisons with their maximum, and the
maximum itself, read; also where no other temporaries are wanted. What is read as it is, or rounded once, is the same
number everywhere and needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from sympy_tensordiff.codegen.lower import Lowering
from sympy_tensordiff.codegen.plan import Candidate, Context, index_forms
from sympy_tensordiff.codegen.tensors import Definition
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.instances import instance
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.graph.trampoline import Recursion, trampoline
from sympy_tensordiff.integer.affine import Affine, Compound, Row, quotient
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.simplify.facts import unconditional_reads

_EXTREMA = frozenset({"max", "min"})
_EXACT = frozenset({sympy.Abs, sympy.Max, sympy.Min, sympy.sign, sympy.floor, sympy.ceiling})

Rows = tuple[Row, ...]
Key = tuple[Node, Rows]


@dataclass(frozen=True)
class Kept:
    """An array of values: the candidate that it keeps, the tensor that stands for it and its first indices."""

    candidate: Candidate
    tensor: Node
    lows: tuple[Affine, ...]


def with_kept_values(graph: Graph, lowering: Lowering, definitions: Sequence[Definition]) -> list[Definition]:
    """The definitions, and in front of those that need them the arrays of values that are compared with a maximum."""
    entries = [definition.entries for definition in definitions if definition.entries is not None]
    work = _Ties(graph, lowering)
    for entry in entries:
        work.collect(entry)
    if not work.kept:
        return list(definitions)
    found: list[Definition] = []
    for definition in definitions:
        if definition.entries is None:
            found.append(definition)
            continue
        new = trampoline(work.replaced(definition.entries))
        found += work.needed([new])
        found.append(Definition(definition.name, definition.array, new))
    return found


class _Ties:
    def __init__(self, graph: Graph, lowering: Lowering) -> None:
        self.graph = graph
        self.lowering = lowering
        self.kept: dict[Key, Kept] = {}
        self.done: dict[tuple[Node, Rows], Node] = {}
        self.opened: dict[Node, tuple[tuple[int, ...], Rows, Node]] = {}
        self.around: dict[int, Rows] = {}
        """The rows of the binder of each variable."""
        self.defined: set[Node] = set()

    def open(self, node: Node) -> tuple[tuple[int, ...], Rows, Node]:
        """The variables, rows and body of a binder, the same ones each time."""
        if node not in self.opened:
            self.opened[node] = variables, rows, _ = self.graph.open(node)
            self.around.update(dict.fromkeys(variables, rows))
        return self.opened[node]

    # -------------------------------------------------------------- what is kept

    def collect(self, root: Node) -> None:
        """Arrays for the values of all maxima that something is compared with."""
        stack, seen = [root], {root}
        while stack:
            node = stack.pop()
            for _, extremum in _comparisons(node):
                candidate = self.candidate(extremum)
                if candidate is not None:
                    self.keep(candidate)
            for part in (self.open(node)[2],) if node.op in BINDERS else node.args:
                if part not in seen:
                    seen.add(part)
                    stack.append(part)

    def candidate(self, extremum: Node) -> Candidate | None:
        """The values of a maximum as a function of as few integers as possible, wherever they can be read."""
        variables, rows, body = self.open(extremum)
        if _is_exact(body, self.lowering.outside, 1):
            return None
        used = body.free.union(*(row.form.atoms() for row in rows)).difference(variables)
        outer = sorted(v for v in used if v in self.around)
        rounded = self.rounded(body, frozenset((*outer, *variables)))
        rows = tuple(
            row.substitute(rounded) for row in (*rows, *(row for part in rounded for row in part.definition()))
        )
        body = self.graph.substitute(body, rounded)
        rows += unconditional_reads(self.graph, body, (*self.lowering.facts, *rows))
        own = (*variables, *(v for form in rounded.values() for v in form.variables()))
        binders = self.binders(outer)
        wider = rows + tuple(row for around in dict.fromkeys(binders.values()) for row in around)
        planner = self.lowering.planner
        found = (
            planner.candidate(body, Context((*outer, *own), rows))
            or planner.candidate(body, Context((*outer, *own), rows), rounded=True)
            or planner.candidate(body, Context((*binders, *own), wider), rounded=True)
        )
        if found is None:
            raise UnsupportedError(
                "values are compared with the greatest or least of them and cannot be kept, for their indices have no "
                "bounds of their own: give the values a name as a TensorComprehension"
            )
        again = {v: Affine.variable(part) for part, form in rounded.items() for v in form.variables()}
        return replace(found, forms=tuple([form.substitute(again) for form in found.forms]))

    def binders(self, variables: Sequence[int]) -> dict[int, Rows]:
        """The rows of the binders of some variables, and of those that their ranges depend on."""
        found: dict[int, Rows] = {}
        waiting = list(variables)
        while waiting:
            v = waiting.pop()
            if v in self.around and v not in found:
                found[v] = self.around[v]
                waiting += [w for row in found[v] for w in sorted(row.form.atoms())]
        return {v: found[v] for v in sorted(found)}

    def rounded(self, body: Node, known: frozenset[int]) -> dict[Compound, Affine]:
        """Variables in place of what stands in index forms and is no affine form itself, such as quotients."""
        parts = {part for node in reachable(body) for form in index_forms(node) for part in form.compounds()}
        own = [part for part in parts if not known.isdisjoint(part.atoms()) and part.atoms() <= body.free]
        return {part: Affine.variable(self.graph.fresh("w")) for part in sorted(own)}

    def keep(self, candidate: Candidate) -> None:
        """An array for the values of a candidate."""
        key = candidate.node, candidate.rows
        if key not in self.kept:
            name, lows, extents = self.lowering.allocated(candidate)
            self.lowering.notes.append(f"{name}: values that are compared with their greatest or least one")
            # No tensor of a user's is called so: names are cut at blanks there.
            tensor = self.graph.tensor(f"kept {name}", tuple(extents))
            self.lowering.arrays[tensor.data[0]] = name
            self.kept[key] = Kept(candidate, tensor, lows)

    # -------------------------------------------------------------- what reads it

    def replaced(self, node: Node, congruences: Rows = ()) -> Recursion[Node]:
        """A node behind guards with ``congruences``, with reads of the arrays in place of the values."""
        key = node, congruences
        if key not in self.done:
            self.done[key] = yield self._replaced(node, congruences)
        return self.done[key]

    def _replaced(self, node: Node, congruences: Rows) -> Recursion[Node]:
        graph = self.graph
        if node.op in BINDERS:
            variables, rows, body = self.open(node)
            kept = self.of(node) if node.op in _EXTREMA else None
            if kept is None:
                new = yield self.replaced(body, congruences)
            else:
                new = self.read(kept[0], kept[1].forms)
            if node.op == "comprehension":
                return node if new is body else graph.comprehension(variables, node.data, new)
            return node if new is body else graph.reduce(node.op, variables, rows, new)
        if node.op == "guard":
            congruences = (*congruences, *(row for row in node.data if row.kind == "mod"))
        args = []
        for arg in node.args:
            args.append((yield self.replaced(arg, congruences)))
        for position, extremum in _comparisons(node):
            kept = self.of(extremum)
            if kept is not None:
                args[position] = self.entry(kept[0], node.args[position], congruences) or args[position]
        return graph.with_args(node, args)

    def of(self, extremum: Node) -> tuple[Kept, Candidate] | None:
        """The array of the values of a maximum, and how these depend on the indices there."""
        candidate = self.candidate(extremum)
        kept = None if candidate is None else self.kept.get((candidate.node, candidate.rows))
        return None if kept is None or candidate is None else (kept, candidate)

    def read(self, kept: Kept, forms: Sequence[Affine]) -> Node:
        """The entry of an array where the integers that the values depend on are these ``forms``."""
        return self.graph.read(kept.tensor, [form - low for form, low in zip(forms, kept.lows, strict=True)])

    def entry(self, kept: Kept, value: Node, congruences: Rows) -> Node | None:
        """The entry of an array that holds a value; None where that is another one."""
        candidate = kept.candidate
        found = instance(self.graph, candidate.node, candidate.axes, value)
        for row in congruences if found is None else ():
            for v in sorted(v for v, c in row.form.terms if abs(c) == 1 and isinstance(v, int)):
                # What is a multiple of m is m times another integer.
                c, whole = row.form.coefficient(v), self.graph.fresh("m")
                exact = Affine({v: 1}) + (row.modulus * Affine.variable(whole) - row.form) * c
                inner = instance(self.graph, candidate.node, candidate.axes, self.graph.substitute(value, {v: exact}))
                if inner is not None:
                    rounded = quotient(row.form, row.modulus)
                    found = {axis: form.substitute({whole: rounded}) for axis, form in inner.items()}
        if found is not None:
            return self.read(kept, [found[axis] for axis in candidate.axes])
        if value.op == candidate.node.op and _tensors(value) == _tensors(candidate.node):
            raise UnsupportedError(
                "a kernel cannot tell which of the values it is that is compared with the greatest or least of them: "
                "give the values a name as a TensorComprehension"
            )
        return None

    # -------------------------------------------------------------- how it is filled

    def needed(self, roots: Sequence[Node]) -> Iterator[Definition]:
        """The definitions of the arrays that ``roots`` read and that have not been defined yet, inner ones first."""
        read = {part for root in roots for part in reachable(root) if part.op == "tensor"}
        for kept in self.kept.values():
            if kept.tensor not in read or kept.tensor in self.defined:
                continue
            self.defined.add(kept.tensor)
            graph, candidate = self.graph, kept.candidate
            axes = [graph.fresh(f"i{n}") for n in range(len(kept.lows))]
            shift = {a: Affine.variable(v) + low for a, v, low in zip(candidate.axes, axes, kept.lows, strict=True)}
            body = trampoline(self.replaced(candidate.node))
            body = graph.guard([row.substitute(shift) for row in candidate.rows], graph.substitute(body, shift))
            entries = graph.comprehension(axes, kept.tensor.shape, body) if axes else body
            yield from self.needed([entries])
            yield Definition(self.lowering.arrays[kept.tensor.data[0]], kept.tensor, entries)


def _comparisons(node: Node) -> Iterator[tuple[int, Node]]:
    """Where something stands that is compared with a maximum or a minimum, and which."""
    if node.op == "compare" and node.data in ("eq", "ne"):
        for position, other in enumerate(reversed(node.args)):
            if other.op in _EXTREMA:
                yield position, other


def _tensors(node: Node) -> set[Node]:
    return {part for part in reachable(node) if part.op == "tensor"}


def _is_exact(node: Node, closed: frozenset[int], roundings: int) -> bool:
    """Whether a value is the same number wherever it is computed: it is rounded no more than so many times."""
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op == "add":
            roundings -= _most_terms(part) - 1
        elif part.op == "mul":
            roundings -= len(part.args) - 1 - (part.args[0].op == "const" and part.args[0].data in (1, -1))
        known = part.op == "read" and (part.args[0].op == "tensor" or part.args[0].free <= closed)
        if known or part.op in ("const", "scalar", "index"):
            continue
        plain = part.op in ("add", "mul", "guard", "select", "compare", "and", "or", "not", *_EXTREMA)
        if roundings < 0 or not (plain or (part.op == "call" and part.data in _EXACT)):
            return False
        stack += part.args
    return True


def _most_terms(total: Node) -> int:
    """How many terms of an addition may differ from 0 at once: no more than one of guards that exclude each other."""
    groups: list[list[Rows]] = []
    for term in total.args:
        rows = term.data if term.op == "guard" else ()
        for group in groups:
            if all(is_empty((*rows, *other)) for other in group):
                group.append(rows)
                break
        else:
            groups.append([rows])
    return len(groups)
