"""Reads that a loop makes before others, in kernels that read where data select.

For all that a compiler knows, an array of integers may lie where the kernel writes. It would load each place again in
every pass of the innermost loop, and could not vectorise that. So a loop reads once for all passes of the loops inside
of it, and functions of what data select are computed of a row that has been read before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sympy_tensordiff.codegen.facts import Prover, Rows, around_rows, data_reads
from sympy_tensordiff.codegen.loops import If, Kernel, Let, Loop, Set, Statement, Store
from sympy_tensordiff.codegen.printers.elementary import FUNCTIONS
from sympy_tensordiff.codegen.scalars import IndexValue, Load, MaskedEntry, Name, Operation, Scalar
from sympy_tensordiff.codegen.schedule.nests import exactly
from sympy_tensordiff.codegen.schedule.rows import RowPlan, RowPlanner, Segment
from sympy_tensordiff.codegen.walk import Around, forms, rewrite_scalar, scalars, walk, with_parts, with_values
from sympy_tensordiff.integer.affine import Affine, Row, Variable
from sympy_tensordiff.integer.data import DataEntry, data_entries

Entry: TypeAlias = "DataEntry | Load"


class Once:
    """Finds the entries that are read where a pass of a loop begins.

    ``entries`` are those by the variable of the loop; "" is before all loops. Each lies inside of its array wherever
    the loop runs, whatever conditions stand around its use.

    Parameters
    ----------
    kernel : Kernel
    body : sequence of statements
        What runs at each point of the axes.
    outer : sequence of str
        Axes of the array in front of those of the kernel, over which something else loops.
    prover : Prover
    plan : RowPlan, optional
        How the loop over the last axis moves inside of the others.
    """

    def __init__(
        self,
        kernel: Kernel,
        body: Sequence[Statement],
        outer: Sequence[str],
        prover: Prover,
        plan: RowPlan | None,
    ) -> None:
        self.kernel = kernel
        self.prover = prover
        self.plan = plan
        self.has_values = not outer
        self.entries: dict[str, list[Entry]] = {}
        axes, box = (*outer, *kernel.axes), kernel.box(prover.shapes)
        if len(axes) != len(box) or (plan is not None and plan.scans) or not data_entries(forms(body)):
            return
        self.known: dict[str, Rows] = {"": ()}
        rows: Rows = ()
        for axis, extent in zip(axes, box, strict=True):
            rows += (Row("ge", Affine.variable(axis)), Row("ge", extent - Affine.variable(axis) - 1))
            self.known[axis if axis in kernel.axes else ""] = rows
        for statement, around in walk(body):
            if isinstance(statement, Loop):
                self.known[statement.variable] = around_rows((*around, statement), rows)
            self.find(statement, around)

    def find(self, statement: Statement, around: Around) -> None:
        """Note the entries in a statement."""
        loops = [one for one in around if isinstance(one, Loop)]
        order = ["", *self.kernel.axes, *(loop.variable for loop in loops)]
        if self.plan is not None:
            if any(map(self.plan.planner.is_tied, loops)):
                return
            last = self.kernel.axes[-1]
            order = [*(name for name in order if name != last), last]
        for entry in self.wanted(statement):
            atoms = frozenset[object]().union(*(form.atoms() for form in entry.index))
            home = next(name for name in reversed(order) if name in atoms or not name)
            found = self.entries.setdefault(home, [])
            if home != order[-1] and entry not in found and self.is_inside(entry, self.known[home]):
                found.append(entry)

    def wanted(self, statement: Statement) -> Iterator[Entry]:
        """The entries of data in a statement, and those of arrays that the kernel does not fill."""
        own = [replace(statement, body=()) if isinstance(statement, Loop | If) else statement]
        for entry in data_entries(forms(own)):
            if not isinstance(entry, MaskedEntry):
                yield entry
        for value in scalars(own) if self.has_values else ():
            if isinstance(value, Load) and value.index and value.array != self.kernel.array:
                yield value

    def is_inside(self, entry: Entry, context: Rows) -> bool:
        """Whether an entry, and the data that select it, are entries of their arrays."""
        own = entry if isinstance(entry, Load) else Load(entry.tensor, entry.index)
        if any(isinstance(inner, MaskedEntry) for inner in data_entries(own.index)):
            return False
        loads = [*data_reads(own.index), own]
        shapes = self.prover.shapes
        return not any(self.prover.axes_inside(load, shapes[load.array], context) for load in loads)


def entry_name(entry: Entry) -> str:
    """A name for an entry: ``idx_i`` for ``idx[i]``."""
    array = entry.array if isinstance(entry, Load) else entry.tensor
    name = "_".join([array, *map(str, entry.index)])
    return name if name.isidentifier() else f"{array}_entry"


def gathers_apart(kernel: Kernel, fresh: Callable[[str], str]) -> tuple[Kernel, RowPlan] | None:
    """A kernel that first reads what data select for a row, and then computes functions of that.

    None where there is nothing of the kind. ``fresh`` makes names.
    """
    if not kernel.axes or not all(isinstance(statement, Let | Store) for statement in kernel.body):
        return None
    parts = list(scalars(kernel.body))
    functions = {part.function for part in parts if isinstance(part, Operation)}
    if not functions & FUNCTIONS.keys() or "select" in functions:
        return None
    loads = [part for part in parts if isinstance(part, Load)]
    axis = kernel.axes[-1]
    gathers = [load for load in loads if any(axis in entry.atoms() for entry in data_entries(load.index))]
    if not gathers:
        return None
    names = {load: fresh(f"{load.array}_row") for load in dict.fromkeys(gathers)}
    lets = [Let(name, load) for load, name in names.items()]
    body = with_values(
        kernel.body, lambda part: Name(names[part]) if isinstance(part, Load) and part in names else part
    )
    kernel = replace(kernel, body=(*lets, *body))
    segments = [Segment("entry", [*lets]), Segment("entry", [*body])]
    return kernel, RowPlan(RowPlanner(kernel, is_long=False), segments, frozenset(names.values()))


def with_reads_once(
    body: Sequence[Statement], entries: Mapping[str, Sequence[Entry]], fresh: Callable[[str], str]
) -> tuple[Statement, ...]:
    """A nest in which a pass of a loop first reads the ``entries`` of its variable, those that are used in it."""
    found = dict.fromkeys(entry for those in entries.values() for entry in those)
    names = {entry: fresh(entry_name(entry)) for entry in found}
    return _Reads(entries, names).block(body, {}, "") if names else tuple(body)


@dataclass(frozen=True)
class _Reads:
    entries: Mapping[str, Sequence[Entry]]
    names: Mapping[Entry, str]

    def block(self, body: Sequence[Statement], known: Mapping[Entry, str], variable: str) -> tuple[Statement, ...]:
        """What runs in a pass of a loop, or of nothing ("")."""
        own = self.entries.get(variable, ())
        inner = {**known, **{entry: self.names[entry] for entry in own}}
        result = [self.statement(statement, inner) for statement in body]
        for number in reversed(range(len(own))):
            entry = own[number]
            name, before = self.names[entry], {**known, **{e: self.names[e] for e in own[:number]}}
            if any(name in used for used in _names(result)):
                value = entry if isinstance(entry, Load) else exactly(Affine.variable(entry))
                result.insert(0, with_parts(Set(Name(name), value), *self._changes(before)))
        return tuple(result)

    def statement(self, statement: Statement, known: Mapping[Entry, str]) -> Statement:
        new = with_parts(statement, *self._changes(known))
        if isinstance(statement, Loop | If):
            variable = statement.variable if isinstance(statement, Loop) else None
            inside = statement.body
            body = self.block(inside, known, variable) if variable else [self.statement(s, known) for s in inside]
            return replace(new, body=tuple(body))  # type: ignore[call-arg]
        return new

    def _changes(self, known: Mapping[Entry, str]) -> tuple[Callable[[Scalar], Scalar], Callable[[Affine], Affine]]:
        """The names of known entries in values and in forms."""
        data: dict[Variable, Affine] = {e: Affine.variable(n) for e, n in known.items() if isinstance(e, DataEntry)}

        def form(one: Affine) -> Affine:
            return one.substitute(data)

        def part(one: Scalar) -> Scalar:
            if isinstance(one, IndexValue):
                return IndexValue(form(one.form))
            if not isinstance(one, Load):
                return one
            return Name(known[one]) if one in known else Load(one.array, tuple(map(form, one.index)))

        return lambda value: rewrite_scalar(value, part), form


def _names(body: Sequence[Statement]) -> Iterator[frozenset[str]]:
    """The names of scalars and integers that are read in a nest."""
    yield frozenset(node.name for node in scalars(body) if isinstance(node, Name))
    for form in forms(body):
        yield form.atoms()
