"""Checks of data that select entries: what a call refuses, and programs that find the entries that are wrong.

The extremes of an array of integers settle most calls. Where they do not, because a read happens behind a
condition only, or several entries make up an index, a program of its own counts the reads that would leave
their arrays: it has the loops and guards of the kernel, and what the conditions around the read need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sympy_tensordiff.codegen.facts import Prover, Rows, data_reads
from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    AddAt,
    Array,
    DataCheck,
    If,
    Kernel,
    Loop,
    Program,
    Scatter,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.masks import with_masks
from sympy_tensordiff.codegen.scalars import IndexValue, Load, Number, Operation, Scalar
from sympy_tensordiff.codegen.verify import UnprovenRead, unproven_reads
from sympy_tensordiff.codegen.walk import all_names, array_shapes, filled, function_name, used_names, uses
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Row, Variable
from sympy_tensordiff.integer.data import apart, data_depth, data_entries
from sympy_tensordiff.integer.extrema import PositivePart


def data_checks(program: Program) -> tuple[DataCheck, ...]:
    """A check for each read that data may lead out of its array, in the order of the reads.

    What a search itself reads outside is 0, as everywhere.
    """
    shapes = array_shapes(program)
    checks = []
    for read in unproven_reads(program, beside):
        if read.has_data:
            data, search = _search(program, read)
            extent = shapes[read.load.array][read.axis]
            step = function_name(read.kernel)
            checks.append(DataCheck(step, read.load, read.axis, extent, read.violation, data, search))
    return tuple(checks)


def beside(statement: If, load: Load) -> Rows:
    """The conditions that do not read an entry of data, and keep it from being read where they do not hold."""
    return tuple(row for row in statement.conditions if load not in data_reads([row.form]))


def inside_rows(prover: Prover, rows: Iterable[Row], known: Rows) -> Rows:
    """What the data in rows need to be inside of their arrays, and is not known; outer data behind those in them."""
    found: dict[Row, None] = {}
    for load in data_reads(row.form for row in rows):
        wanted = prover.axes_inside(load, prover.shapes[load.array], (*known, *found))
        found.update(dict.fromkeys(row for _, row in wanted))
    return tuple(sorted(found, key=lambda row: data_depth(row.form)))


def _search(program: Program, read: UnprovenRead) -> tuple[str, Program]:
    """An argument, and the program that counts the wrong reads at each of its entries; at one for all without a name.

    No entry can be named where a read happens unless other data say otherwise, which may be outside themselves.
    """
    taken = all_names(program)
    others = beside(read.statement, read.load) if isinstance(read.statement, If) else ()
    entries = data_reads([read.row.form])
    if not entries and not apart(others)[1]:
        entries = data_reads(row.form for row in _behind(read.row, read.context))
    # Behind a choice the innermost entry can be named, of which the others are chosen.
    entry = entries[0 if read.choices else -1] if entries else Load("", ())
    shape = next((a.shape for a in program.arguments if a.name == entry.array), ())
    count = Array(unique("wrong", taken), shape or (Affine.of(1),))
    tests = _tests(read, entry.index or (Affine.of(0),))
    if isinstance(read.statement, If):
        prover = Prover(program)
        for needed in reversed(inside_rows(prover, [read.row], read.context)):
            tests = (If((needed,), tests),)
        for row in others:
            tests = _unless_false(row, inside_rows(prover, [row], read.context), tests)
    body = _skeleton(read.kernel.body, read.statement, tests)
    assert body is not None
    extents = read.kernel.box(array_shapes(program))
    scatter = Scatter(count.name, read.kernel.axes, body, extents)
    steps, arrays = _needed(program, read.kernel, scatter)
    search = Program(program.arguments, (count,), arrays, (*steps, _zeros(count, taken), scatter), program.sizes)
    return entry.array, with_masks(search)


def _behind(needed: Row, context: Rows) -> Rows:
    """The first row that holds data, of those that bound what a read needs, or all rows where none of these does.

    ``n - 1 - k`` is bounded from below by ``k <= ptr[i + 1] - 1``, and not by ``k >= ptr[i]``.
    """
    waiting = [*_signs(needed.form).items()]
    for v, sign in waiting:
        for row in context:
            own = _signs(row.form)
            if own.get(v) == sign or (row.kind == "eq" and v in own):
                if data_entries([row.form]):
                    return (row,)
                turned = -sign * own[v]
                # Without v the rows together hold the others in its place.
                waiting += [pair for u, s in own.items() if u != v and (pair := (u, turned * s)) not in waiting]
    return context


def _signs(form: Affine) -> dict[Variable, int]:
    """The signs of the variables in a form, of those in what is rounded or clamped too, not of what selects data."""
    found: dict[Variable, int] = {}
    for v, c in form.terms:
        parts: Iterable[tuple[Variable, int]] = [(v, 1)]
        if isinstance(v, Quotient | PositivePart):
            parts = _signs(v.form).items()
        elif isinstance(v, Compound):
            parts = ()
        for part, sign in parts:
            found.setdefault(part, sign if c > 0 else -sign)
    return found


def _zeros(array: Array, taken: set[str]) -> Kernel:
    axes: list[str] = []
    for number in range(len(array.shape)):
        axes.append(unique(f"e{number}", taken, set(axes)))
    return Kernel(array.name, tuple(axes), (Store(Number(0)),))


def _tests(read: UnprovenRead, place: tuple[Affine, ...]) -> tuple[Statement, ...]:
    """What counts a wrong read, at the place where it would happen."""
    if not read.choices:
        return (If((read.row.negation(),), (AddAt(place, Number(1)),)),)
    value: Scalar = Operation("lt", (IndexValue(read.row.form), Number(0)))
    for condition in (None, *reversed(read.choices)):
        test = value if condition is None else condition
        chosen = Number(1) if condition is None else value
        value = Operation("select", (test, chosen, Number(0)))
    return (AddAt(place, value),)


def _unless_false(row: Row, inside: Rows, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """``body`` where a row holds, and where one of the rows does not that keep the data in it ``inside``."""
    found: tuple[Statement, ...] = (If((row,), body),)
    for needed in reversed(inside):
        found = (If((needed,), found), If((needed.negation(),), body))
    return found


def _skeleton(
    body: tuple[Statement, ...], target: Statement, tests: tuple[Statement, ...]
) -> tuple[Statement, ...] | None:
    """The loops and guards around ``target``, with ``tests`` in its place and what these need before it."""
    for number, statement in enumerate(body):
        inner: tuple[Statement, ...] | None = tests if statement is target else None
        if inner is None and isinstance(statement, Loop | If):
            within = _skeleton(statement.body, target, tests)
            inner = None if within is None else (replace(statement, body=within),)
        if inner is not None:
            needed = set().union(*(used_names(part) for part in inner))
            kept: list[Statement] = []
            for earlier in reversed(body[:number]):
                own = filled(earlier)
                if needed.intersection(own):
                    kept.append(earlier)
                    needed |= {*own, *used_names(earlier)}
            return (*reversed(kept), *inner)
    return None


def _needed(program: Program, kernel: Kernel, scatter: Scatter) -> tuple[tuple[Step, ...], tuple[Array, ...]]:
    """The steps before ``kernel`` that fill what ``scatter`` reads, and their arrays."""
    place = next(number for number, step in enumerate(program.kernels) if step is kernel)
    wanted = set(uses(scatter).arrays)
    steps: list[Step] = []
    for step in reversed(program.kernels[:place]):
        if step.array in wanted:
            steps.append(step)
            wanted.update(uses(step).arrays)
    arrays = tuple([array for array in program.outputs + program.temporaries if array.name in wanted])
    return tuple(reversed(steps)), arrays
