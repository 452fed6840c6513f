"""Reads that nothing proves inside of their arrays are tested: a read outside is 0, that of an integer, too.

The loops, guards and choices around a read may prove that it is inside, and so may the checks of a call. No earlier
pass has to know. Conditions may be tested in any order; this pass takes the one with the fewest tests of their data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.facts import Prover, Read, Rows, around_rows, axis_rows, condition_of, data_reads, reads
from sympy_tensordiff.codegen.loops import AddAt, If, Kernel, Program, Statement
from sympy_tensordiff.codegen.scalars import IndexValue, Load, MaskedEntry, Number, Operation, Scalar
from sympy_tensordiff.codegen.verify import is_refused
from sympy_tensordiff.codegen.walk import Around, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine, Row, Variable
from sympy_tensordiff.integer.data import DataEntry, data_depth, data_entries


def with_masks(program: Program) -> Program:
    """The program with a test of each read that may leave its array."""
    prover = Prover(program)
    data = frozenset(a.name for a in program.arguments if a.dtype == "integer")
    steps = [_masked(program, prover, data, s) if isinstance(s, Kernel) else s for s in program.kernels]
    return replace(program, kernels=tuple(steps))


def _masked(program: Program, prover: Prover, data: frozenset[str], kernel: Kernel) -> Kernel:
    start = axis_rows(kernel, prover.shapes)
    kernel = replace(kernel, body=rewrite(kernel.body, lambda s, around: (_in_layers(prover, s, around, start),)))
    masks = _Masks(kernel.array)
    for read in reads(kernel, prover.shapes):
        rows = _untold(program, prover, kernel, read)
        if rows and read.load.array in data:
            masks.entries.setdefault(read.load, {}).update(dict.fromkeys(rows))
        elif rows:
            masks.loads.setdefault((id(read.statement), read.load), {}).update(dict.fromkeys(rows))
    return replace(kernel, body=rewrite(kernel.body, masks.statement)) if masks.entries or masks.loads else kernel


def _untold(program: Program, prover: Prover, kernel: Kernel, read: Read) -> Rows:
    """What has to hold for a read to be inside, and nothing tells."""
    wanted = prover.axes_inside(read.load, prover.shapes[read.load.array], read.context)
    return tuple(row for _, row in wanted if not is_refused(program, prover, kernel, read, row))


def _in_layers(prover: Prover, statement: Statement, around: Around, start: Rows) -> Statement:
    """A guard as several, those outside without which data in others may be outside."""
    if not isinstance(statement, If) or not data_entries(row.form for row in statement.conditions):
        return statement
    known = around_rows(around, start)
    layers: list[list[Row]] = []
    waiting = list(statement.conditions)
    while waiting:
        least = min(data_depth(row.form) for row in waiting)
        level = [row for row in waiting if _is_inside(prover, row, known)]
        level = level or [row for row in waiting if data_depth(row.form) == least]
        layers.append(level)
        known = (*known, *level)
        waiting = [row for row in waiting if row not in level]
    for layer in reversed(layers):
        statement = If(tuple(layer), statement.body if layer is layers[-1] else (statement,))
    return statement


def _is_inside(prover: Prover, row: Row, known: Sequence[Row]) -> bool:
    """Whether the data in a row are proven inside of their arrays."""
    return not any(prover.axes_inside(load, prover.shapes[load.array], known) for load in data_reads([row.form]))


class _Masks:
    """The tests of one kernel: of integers wherever they stand, of other entries in the statements that need them."""

    def __init__(self, array: str) -> None:
        self.array = array
        self.entries: dict[Load, dict[Row, None]] = {}
        self.loads: dict[tuple[int, Load], dict[Row, None]] = {}

    def statement(self, statement: Statement, _: Around) -> tuple[Statement, ...]:
        """A statement with its tests; an addition to an entry outside is none."""
        new = with_parts(statement, lambda value: self.value(statement, value), self.form)
        own = Load(self.array, statement.index) if isinstance(statement, AddAt) else None
        rows = self.loads.get((id(statement), own)) if own is not None else None
        return (If(self.rows(rows), (new,)),) if rows else (new,)

    def value(self, statement: Statement, value: Scalar) -> Scalar:
        """A value with its tests."""

        def change(part: Scalar) -> Scalar:
            if isinstance(part, IndexValue):
                return IndexValue(self.form(part.form))
            if not isinstance(part, Load):
                return part
            rows = self.loads.get((id(statement), part), {})
            load = Load(part.array, tuple([self.form(form) for form in part.index]))
            return Operation("select", (condition_of(self.rows(rows)), load, Number(0))) if rows else load

        return rewrite_scalar(value, change)

    def rows(self, rows: Iterable[Row]) -> Rows:
        return tuple([row._replace(form=self.form(row.form)) for row in rows])

    def form(self, form: Affine) -> Affine:
        """A form with the tests of its integers."""
        found: dict[Variable, Affine] = {}
        for entry in data_entries([form]):
            index = tuple([self.form(inner) for inner in entry.index])
            rows: Iterable[Row] | None = self.entries.get(Load(entry.tensor, entry.index))
            rows = entry.inside if isinstance(entry, MaskedEntry) else rows
            new: DataEntry = DataEntry(entry.tensor, index, entry.below)
            if rows:
                new = MaskedEntry(entry.tensor, index, entry.below, self.rows(rows))
            if new != entry:
                found[entry] = Affine.variable(new)
        return form.substitute(found) if found else form
