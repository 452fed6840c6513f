"""The reads that results ask for, each under its own conditions, and the checks of a call that follow from them.

A read that nothing proves inside of its shape is refused by a `Check` where sizes alone decide. Where data decide, the
extremes of the arrays of integers settle most calls; where they do not, a search does. That is an expression as any
other: the least place of an entry that leads a read out, over all points at which the read happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sympy_tensordiff.codegen.facts import data_reads
from sympy_tensordiff.codegen.functions import operation
from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import NOWHERE, Check, DataCheck
from sympy_tensordiff.codegen.lower import CONDITIONS, bounds_a_loop
from sympy_tensordiff.codegen.scalars import IndexValue, Load, Name, Number, Scalar
from sympy_tensordiff.codegen.storage import named
from sympy_tensordiff.codegen.verify import escape_at, failing
from sympy_tensordiff.errors import OutOfShapeError
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.data import apart, data_entries
from sympy_tensordiff.integer.extrema import shown
from sympy_tensordiff.integer.polyhedron import implied
from sympy_tensordiff.integer.products import factors_in
from sympy_tensordiff.simplify.facts import limits_of

Rows = tuple[Row, ...]

_MOST = 64
"""What depends on no index is looked at behind so many different conditions; then it counts as always asked for."""


Loops = tuple[tuple[int, ...], Rows]
"""Variables, outermost first, and the rows that bound them, of which some are tested in the loops."""


class Around(NamedTuple):
    """Where something is computed: in which loops, and under which conditions."""

    loops: tuple[Loops, ...] = ()
    conditions: Rows = ()
    choices: tuple[Node, ...] = ()
    beside: Rows = ()
    """Conditions beside one that is asked: they hold data that may be outside of their tensors as well."""

    @property
    def variables(self) -> tuple[int, ...]:
        """Those of all loops, outermost first."""
        return tuple([v for variables, _ in self.loops for v in variables])

    @property
    def rows(self) -> Rows:
        """All that holds, as far as rows say it."""
        return (*(row for _, rows in self.loops for row in rows), *self.conditions, *self.beside)

    def inside(self, variables: Sequence[int], rows: Sequence[Row]) -> Around:
        """What is around within further loops."""
        return self._replace(loops=(*self.loops, (tuple(variables), tuple(rows))))

    def behind(self, rows: Sequence[Row]) -> Around:
        """What is around behind further conditions."""
        return self._replace(conditions=(*self.conditions, *rows))


class Asked(NamedTuple):
    """A read of a tensor, or of an array of integers that selects or bounds, and where it happens."""

    tensor: Node
    forms: tuple[Affine, ...]
    around: Around


class _Reads:
    """The walk over the results: what they read that nothing proves inside."""

    def __init__(self, graph: Graph, facts: Rows) -> None:
        self.graph = graph
        self.facts = facts
        self.safe: set[Node] = set()
        """Binders in which all reads are inside, whatever is around them."""

    def unproven(self, roots: Sequence[Node]) -> Iterator[tuple[Asked, int, Row]]:
        """The reads, with the axis and the condition that is not proven."""
        for node in reachable(*roots):
            if node.op in BINDERS and next(self.below([node]), None) is None:
                self.safe.add(node)
        yield from self.below(roots)

    def below(self, roots: Sequence[Node]) -> Iterator[tuple[Asked, int, Row]]:
        stack = [(root, Around()) for root in reversed(roots)]
        seen: set[tuple[Node, Around]] = set()
        times: Counter[Node] = Counter()
        while stack:
            node, around = stack.pop()
            if node.free.isdisjoint(around.variables):
                times[node] += 1
                around = around if times[node] < _MOST else Around()
            if node in self.safe or (node, around) in seen:
                continue
            seen.add((node, around))
            parts = list(self.parts(node, around))
            for part in parts:
                if isinstance(part, Asked):
                    yield from ((part, axis, row) for axis, row in self.outside(part))
            stack += [part for part in reversed(parts) if not isinstance(part, Asked)]

    def outside(self, asked: Asked) -> Iterator[tuple[int, Row]]:
        """The conditions of a read, with their axes, that do not follow from what is around it."""
        known = (*self.facts, *asked.around.rows)
        for axis, (form, extent) in enumerate(zip(asked.forms, asked.tensor.shape, strict=True)):
            for row in (Row("ge", form), Row("ge", extent - 1 - form)):
                if not implied(row, known):
                    yield axis, row

    def parts(self, node: Node, around: Around) -> Iterator[Asked | tuple[Node, Around]]:
        """What a node reads itself, and what it is computed of."""
        match node.op:
            case "guard":
                yield from self.cases(node, (), around)
            case "read" | "index":
                forms = node.data if node.op == "read" else (node.data,)
                yield from self.data(forms, around)
                if node.op == "read":
                    yield Asked(node.args[0], forms, around)
                    yield from self.entry(node, around)
            case "select":
                condition, *branches = node.args
                yield condition, around
                for holds, branch in zip((condition, self.graph.logic("not", [condition])), branches, strict=True):
                    yield branch, around._replace(choices=(*around.choices, holds))
            case op if op in BINDERS:
                variables, rows, body = self.graph.inside(node, around.variables)
                within = around.inside(variables, rows)
                tests: list[Row] = []
                if op in RANGED:
                    yield from self.bounds(variables, rows, around)
                    tests = [row for row in rows if not bounds_a_loop(row, variables)]
                yield from self.cases(body, tests, within)
            case _:
                yield from ((arg, around) for arg in node.args)

    def entry(self, read: Node, around: Around) -> Iterator[tuple[Node, Around]]:
        """The entry of a table for the index at which it is read."""
        (table,) = read.args
        if table.op != "comprehension":
            yield from ((arg, around) for arg in table.args)
        elif table not in self.safe:
            variables, rows, body = self.graph.open(table)
            place = dict(zip(variables, read.data, strict=True))
            yield self.graph.substitute(body, place), around.behind([row.substitute(place) for row in rows])

    def bounds(self, variables: Sequence[int], rows: Rows, around: Around) -> Iterator[Asked]:
        """The data that bound loops, where those around run."""
        for n, v in enumerate(variables):
            inner = variables[n + 1 :]
            own = [r for r in rows if v in r.form.atoms() and r.form.atoms().isdisjoint(inner)]
            bounds = [row for row in own if bounds_a_loop(row, variables)]
            yield from self.data([row.form for row in bounds], around)
            around = around.inside([v], bounds)

    def cases(self, node: Node, tests: Sequence[Row], around: Around) -> Iterator[Asked | tuple[Node, Around]]:
        """The cases of a node, each with all that is tested for it: conditions have no order."""
        waiting = [(node, tuple(tests))]
        while waiting:
            case, rows = waiting.pop()
            if case.op == "guard":
                waiting.append((case.args[0], (*rows, *case.data)))
            elif rows and case.op == "add" and all(term.op == "guard" for term in case.args):
                waiting += [(term, rows) for term in reversed(case.args)]
            else:
                yield from self.tested(rows, around)
                yield case, around.behind([row for row in rows if row not in tests])

    def tested(self, rows: Sequence[Row], around: Around) -> Iterator[Asked]:
        """The data in conditions that are tested together: one that is known not to hold keeps others from it."""
        for row in rows:
            for load in data_reads([row.form]):
                others = [other for other in rows if load not in data_reads([other.form])]
                plain, _ = apart(others)
                known = (*self.facts, *around.rows, *plain)
                sure = [o for o in others if all(implied(r, known) for r in self.graph.inside_data([o.form]))]
                beside = tuple([other for other in others if other not in sure])
                yield Asked(self.graph.integers[load.array], load.index, around.behind(sure)._replace(beside=beside))

    def data(self, forms: Sequence[Affine], around: Around) -> Iterator[Asked]:
        for load in data_reads(forms):
            yield Asked(self.graph.integers[load.array], load.index, around)


@dataclass(frozen=True)
class Names:
    """What a program calls the sizes, the tensors and the arguments."""

    variables: Mapping[Any, str]
    arrays: Mapping[str, str]
    labels: Mapping[str, str]


class _Checks:
    """Builds the checks of one program."""

    def __init__(self, graph: Graph, names: Names, facts: Rows) -> None:
        self.graph = graph
        self.names = names
        self.graph_facts = facts
        self.facts = tuple([row._replace(form=named(row.form, names.variables, names.arrays)) for row in facts])
        self.checks: dict[Check, None] = {}
        self.data_checks: dict[tuple[Any, ...], DataCheck] = {}
        self.searches: list[Node] = []

    def add(self, asked: Asked, axis: int, row: Row) -> None:
        """The checks for a read and a condition that it needs."""
        local = self.local_names(asked.around.variables)
        change = partial(named, names=local, arrays=self.names.arrays)
        rows = [each._replace(form=change(each.form)) for each in asked.around.rows]
        inner = {local[v] for v in asked.around.variables}
        choices = [_as_scalar(choice, change) for choice in asked.around.choices]
        load = Load(self.array_name(asked.tensor), tuple(map(change, asked.forms)))
        number = None
        for case in failing(rows, choices, row._replace(form=change(row.form))):
            plain, data, ordered = _without_data(case)
            facts = (*self.facts, *ordered)
            factors = factors_in(each.form for each in plain) if data else ()
            plain += [each for each in facts if len(each.form.terms) == 1 and each.form.terms[0][0] in factors]
            escape = escape_at(plain, facts, inner | data)
            if escape is None:
                continue
            if not data:
                self.refuse(asked, load, axis, escape.violation, escape.points, escape.certain)
                continue
            if number is None:
                entry = self.entry_at_fault(asked, row)
                number = len(self.searches)
                self.searches.append(self.search(asked, row, entry))
                data_name = self.names.arrays[entry.array] if entry else ""
                extent = change(asked.tensor.shape[axis])
            key = load, axis, row, escape.violation, tuple(rows), asked.around.choices
            self.data_checks.setdefault(key, DataCheck(load, axis, extent, escape.violation, data_name, number))

    def local_names(self, variables: Sequence[int]) -> dict[Any, str]:
        """The names of sizes and of the loops around a read."""
        found = dict(self.names.variables)
        taken = {*found.values(), *self.names.arrays.values()}
        for v in variables:
            found[v] = unique(self.graph.names[v], taken)
            taken.add(found[v])
        return found

    def array_name(self, tensor: Node) -> str:
        if tensor.op == "tensor":
            return self.names.arrays[tensor.data[0]]
        return unique("t", {*self.names.variables.values(), *self.names.arrays.values()})

    def refuse(self, asked: Asked, load: Load, axis: int, violation: Rows, points: Rows, certain: bool) -> None:
        """A check for a read that the sizes alone decide."""
        array = self.names.labels.get(load.array, load.array)
        message = f"{array}[{', '.join(map(shown, load.index))}] is read outside of the shape of {array}"
        if load.array not in self.names.labels:
            tensors = [part.data[0] for part in reachable(asked.tensor) if part.op == "tensor"]
            sources = dict.fromkeys(self.names.labels.get(self.names.arrays[name], name) for name in tensors)
            message += f", which holds values of {', '.join(sources)}" if sources else ""
        message += f", along axis {axis}"
        if certain:
            raise OutOfShapeError(f"{message}, whatever the sizes; mend the range, the index or the shape")
        message += "; the sizes of the arguments do not fit the expression"
        self.checks[Check(violation, message, points)] = None

    # -------------------------------------------------------------- searches

    def entry_at_fault(self, asked: Asked, row: Row) -> Load | None:
        """The entry that a message names: one in the index, or in the bounds that the index meets first.

        None where several conditions are asked that may all read outside.
        """
        form = row.form
        found = data_reads([form])
        rows = [each for each in asked.around.rows if each not in asked.around.beside]
        told = [part.data for part in reachable(*asked.around.choices) if part.op == "index"]
        for v in reversed(asked.around.variables) if not found else ():
            bounds = limits_of(v, rows)[form.coefficient(v) < 0] if form.coefficient(v) else []
            bounds = [b for b in bounds if data_entries([b])] or bounds[:1]
            if bounds:
                form = form.substitute({v: bounds[0]})
        found = found or data_reads([form]) or data_reads(each.form for each in rows) or data_reads(told)
        return found[-1] if found else None

    def search(self, asked: Asked, row: Row, entry: Load | None) -> Node:
        """The least place, in reading order, of an entry at which a read leaves its axis; or `NOWHERE`."""
        graph, around = self.graph, asked.around
        place: list[Node] = []
        for axis, form in enumerate(entry.index if entry else ()):
            lengths = graph.integers[entry.array].shape[axis + 1 :] if entry else ()
            place.append(graph.mul([graph.index(form), *map(graph.index, lengths)]))
        value = graph.add(place)
        tests = [row.negation(), *around.conditions]
        for variables, rows in around.loops:
            tests += [each for each in rows if not bounds_a_loop(each, variables)]
        happens = [*map(self.condition, tests), *around.choices, *map(self.not_known_to_fail, around.beside)]
        value = graph.select(graph.logic("and", happens), value, graph.const(NOWHERE))
        for variables, rows in reversed(around.loops):
            value = graph.reduce("min", variables, [each for each in rows if bounds_a_loop(each, variables)], value)
        return value

    def not_known_to_fail(self, row: Row) -> Node:
        """That a row holds, or that its data are outside of their arrays."""
        inside = [self.condition(needed) for needed in self.graph.inside_data([row.form])]
        return self.graph.logic("or", [self.condition(row), *(self.graph.logic("not", [each]) for each in inside)])

    def condition(self, row: Row) -> Node:
        form = row.form - row.modulus * quotient(row.form, row.modulus) if row.kind == "mod" else row.form
        sides = self.graph.zero, self.graph.index(form)
        return self.graph.compare("le" if row.kind == "ge" else "eq", *sides)


def checks_of_reads(
    graph: Graph, roots: Sequence[Node], names: Names, facts: Rows
) -> tuple[tuple[Check, ...], tuple[DataCheck, ...], list[Node]]:
    """The checks of a call for the reads below ``roots``, and the searches of those of data by their numbers.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
        The results, as they were asked for.
    names : Names
    facts : rows
        What is known about the sizes and free indices.
    """
    work = _Checks(graph, names, facts)
    for asked, axis, row in _Reads(graph, facts).unproven(roots):
        work.add(asked, axis, row)
    return tuple(work.checks), tuple(work.data_checks.values()), work.searches


def _as_scalar(node: Node, change: Any) -> Scalar:
    """A condition between integers; what is none has some name."""
    match node.op:
        case "const":
            return Number(node.data)
        case "index":
            return IndexValue(change(node.data))
        case op if op in CONDITIONS or op in ("compare", "add", "mul"):
            return operation(node, [_as_scalar(arg, change) for arg in node.args])
    return Name("value")


def _without_data(rows: Sequence[Row]) -> tuple[list[Row], set[str], list[Row]]:
    """The rows with a variable for each entry of an array of integers, between the extremes of the array.

    And the rows that say which of the two extremes is the greater.
    """
    entries = data_entries(row.form for row in rows)
    values = {entry: Affine.variable(f"data {number}") for number, entry in enumerate(entries)}
    result = [row.substitute(values) for row in (*rows, *(row for entry in entries for row in entry.definition()))]
    for entry, value in values.items():
        result += [Row("ge", value - Affine.variable(f"least {entry.tensor}"))]
        result += [Row("ge", Affine.variable(f"greatest {entry.tensor}") - value)]
    tensors = dict.fromkeys(entry.tensor for entry in entries)
    ordered = [Row("ge", Affine({f"greatest {name}": 1, f"least {name}": -1})) for name in tensors]
    return result, {form.terms[0][0] for form in values.values()}, ordered
