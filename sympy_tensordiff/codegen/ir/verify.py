"""Verification of programs: all laws, and a proof or a check that each read is in bounds; masks for other reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.facts import (
    Prover,
    Read,
    axis_rows,
    condition_cases,
    condition_of,
    data_reads,
    enclosing_rows,
)
from sympy_tensordiff.codegen.ir.laws import check_laws
from sympy_tensordiff.codegen.ir.loops import If, Statement, is_scatter
from sympy_tensordiff.codegen.ir.programs import Check, Correlation, Kernel, Program
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, MaskedEntry, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import Around, loops, outer_names, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Variable
from sympy_tensordiff.integer.extrema import cases, extrema_text
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.implication import is_implied, remove_redundant
from sympy_tensordiff.integer.indirect import IndirectIndex, data_depth, data_entries, partition_data
from sympy_tensordiff.integer.products import IndexProduct, product_rows, quotients_in
from sympy_tensordiff.integer.rows import Rows, ranges
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.values import find_point


def verify(program: Program) -> None:
    """Raise VerificationError if ``program`` is malformed (see `check_laws`), or if a read may be out of bounds and no
    run-time check covers it.
    """
    check_laws(program)
    prover = Prover(program)
    for kernel in program.nests:
        for read, axis, row in prover.unproved(kernel):
            if not is_covered_by_checks(program, prover, kernel, read, row):
                raise VerificationError(
                    f"kernel {kernel.array}: axis {axis} of the read {_load_text(read.load)} in "
                    f"{type(read.statement).__name__} is not provably inside, and no check covers it"
                )


def check_correlation(step: Correlation, prover: Prover) -> None:
    """Raise VerificationError if a correlation may read or write out of bounds."""
    box = ranges(list(dict(step.labels)), list(dict(step.labels).values()))
    for view in step.views:
        for axis, row in prover.unproved_bounds(view, box):
            raise VerificationError(
                f"correlation {step.array}: axis {axis} of {view.array} at {view.index[axis]} needs {row}"
            )


class OutOfBounds(NamedTuple):
    """The sizes at which a read may be out of bounds, described by two systems of constraints. ``violation``, on sizes
    only, holds at all of them, and perhaps at others; each integer point of ``points`` is an out-of-bounds read.

    ``certain`` is whether the read is out of bounds in every call.
    """

    violation: Rows
    """Constraints on the sizes: a projection over the rationals, an over-approximation."""
    points: Rows
    """Constraints on the sizes and further variables: each integer point is an out-of-bounds read."""
    certain: bool
    """The read is out of bounds in every call."""


def is_covered_by_checks(program: Program, prover: Prover, kernel: Kernel, read: Read, row: Constraint) -> bool:
    """Return whether the run-time checks of ``program`` refuse every call in which ``read``, in ``kernel``, is executed
    at an index that violates its bound ``row``.

    False if the row depends on data: then neither sizes nor integer arguments decide.
    """
    if data_entries([row.form]):
        return False  # data are unknown to a projection, also in the context of the read
    plain, _ = partition_data(read.context)
    inner = {*kernel.axes, *(loop.variable for loop in loops(kernel.body))}
    found = [
        out_of_bounds_point(partition_data(rows)[0], prover.facts, inner) for rows in failing(plain, read.choices, row)
    ]
    return all(case is None or _is_covered_by_a_check(case, program, prover.facts) for case in found)


def failing(context: Sequence[Constraint], choices: Sequence[Scalar], row: Constraint) -> Iterator[Rows]:
    """Yield systems of constraints whose union describes where a read is executed and out of bounds: ``context`` and
    the select conditions ``choices`` hold, and the bound ``row`` of the read does not.
    """
    for known in dict.fromkeys(condition_cases(Operation("and", tuple(choices)), True)):
        yield from cases((*context, *known, row.negation()), limit=None)


def out_of_bounds_point(rows: Sequence[Constraint], facts: Rows, inner: set[str]) -> OutOfBounds | None:
    """Find the sizes for which a read is out of bounds: those for which the constraints ``rows`` have an integer
    solution in the variables ``inner``. Return an `OutOfBounds` that describes them, or None if there are none.

    The constraints ``facts`` are true in every call.
    """
    plain, fresh = _replace_quotients(rows, inner)
    linear, products = _replace_products(plain, inner | fresh)
    projected = project(linear, sorted(inner | fresh | products, key=str), facts)
    if projected is None:
        return None
    rest = remove_redundant(projected, facts)
    if any(r.form.is_constant for r in rest):
        return None
    if products:
        return OutOfBounds(rest, tuple(plain), False)
    names = frozenset().union(*(r.form.atoms() for r in plain))
    certain = names <= inner | fresh
    if certain and not _has_point(plain, sorted(names)):
        return None  # the integers decide where the rational shadow says too much
    return OutOfBounds(rest, tuple(plain), certain or (not rest and _is_exact(plain, inner | fresh)))


def _has_point(rows: Sequence[Constraint], names: Sequence[str]) -> bool:
    """Return whether an integer point satisfies the constraints ``rows`` on the variables ``names``; True if the search
    cannot decide.
    """
    try:
        return find_point(rows, names) is not None
    except ValueError:
        return True


def _is_exact(rows: Sequence[Constraint], names: set[str]) -> bool:
    """Return whether eliminating ``names`` from ``rows`` is exact over the integers: each integer point of the
    projection has integer values of ``names`` that satisfy ``rows``.

    It is if all rows but one bound a single name with coefficient 1: the remaining row is then satisfied at a corner of
    the box, if anywhere.
    """
    own = [(row, [c for name, c in row.form.terms if name in names]) for row in rows]
    mixed = [row for row, found in own if len(found) > 1 or any(abs(c) != 1 for c in found)]
    return len(mixed) <= 1 and all(row.kind == "ge" for row in mixed)


def _replace_quotients(rows: Sequence[Constraint], inner: set[str]) -> tuple[list[Constraint], set[str]]:
    """Replace each quotient in `rows` that contains an ``inner`` name by a new variable and the constraints that define
    it: ``floor(i/2)`` by q with ``2*q <= i <= 2*q + 1``; congruences likewise. Return ``(constraints, new variables)``.
    """
    result: list[Constraint] = []
    fresh: dict[Compound, Affine] = {}
    work = list(rows)
    for number, row in enumerate(rows):
        if row.kind == "mod" and row.form.atoms() & inner:
            multiple = Affine.variable(f"multiple {number}")
            work[work.index(row)] = Constraint("eq", row.form - row.modulus * multiple)
    for compound, pair in definitions(c for row in work for c in row.form.compounds()).items():
        if compound.atoms() & inner and not isinstance(compound, IndexProduct):
            fresh[compound] = Affine.variable(f"quotient {len(fresh)}")
            work += pair
    for row in work:
        while any(c in fresh for c in quotients_in(row.form)):
            row = row.substitute(fresh)
        result.append(row)
    names = {name for row in result for name in row.form.atoms()}
    return result, {name for name in names if name.startswith(("quotient ", "multiple "))}


def _replace_products(rows: Sequence[Constraint], inner: set[str]) -> tuple[list[Constraint], set[str]]:
    """Replace each product in ``rows`` that contains an ``inner`` name, such as ``n*i``, by a new variable. Return
    ``(constraints, new variables)``. The new constraints are weaker than ``rows`` (a relaxation).
    """
    products = dict.fromkeys(c for row in rows for c in sorted(row.form.compounds()) if c.atoms() & inner)
    loose = {c: Affine.variable(f"product {number}") for number, c in enumerate(products)}
    known = (
        [Constraint("ge", form) for form in product_rows([row.form for row in rows if row.kind == "ge"])]
        if loose
        else []
    )
    names = {form.terms[0][0] for form in loose.values()}
    # Rows about these products may contain further ones, which stay unknown: these rows are dropped.
    known_rows = [row.substitute(loose) for row in known]
    known_rows = [row for row in known_rows if inner.isdisjoint(row.form.hidden())]
    return [row.substitute(loose) for row in rows] + known_rows, names


def _is_covered_by_a_check(case: OutOfBounds, program: Program, facts: Rows) -> bool:
    """Return whether one of the run-time checks of ``program`` refuses all calls with sizes at which the read of
    ``case`` is out of bounds. ``facts`` are known constraints.
    """
    known, points, outer = (*case.violation, *facts), (*case.points, *facts), outer_names(program)

    def is_always_executed(check: Check) -> bool:
        """Return whether `check` refuses every call whose sizes satisfy its ``violation``. It does if its ``points``
        then certainly have an integer solution.
        """
        names = set().union(*(row.form.atoms() for row in check.points)) - outer
        return _is_exact(check.points, names) or all(is_implied(row, points) for row in check.points)

    return any(all(is_implied(row, known) for row in c.violation) and is_always_executed(c) for c in program.checks)


def _load_text(load: Load) -> str:
    """Return the read ``load`` as text, for messages."""
    return f"{load.array}[{', '.join(map(extrema_text, load.index))}]"


# ---------------------------------------------------------------------------- masked reads
# Reads that are not proved to be in bounds are masked: an out-of-bounds read is 0, also of an integer.
#
# Enclosing loops, guards and choices may prove that a read is in bounds, and so may the checks of a call. No earlier
# pass has to care. Conditions may be tested in any order; this pass chooses the order with the fewest masks in them.


def with_masks(program: Program) -> Program:
    """Return a program in which reads that may be out of bounds are masked: out of bounds, they give 0."""
    prover = Prover(program)
    data = frozenset(a.name for a in program.arguments if a.dtype == "integer")
    steps = [_mask_kernel(program, prover, data, s) if isinstance(s, Kernel) else s for s in program.kernels]
    return replace(program, kernels=tuple(steps))


def _mask_kernel(program: Program, prover: Prover, data: frozenset[str], kernel: Kernel) -> Kernel:
    """Return a kernel in which out-of-bounds reads give 0; ``data`` are the names of integer arrays."""
    start = axis_rows(kernel, prover.shapes)
    kernel = replace(kernel, body=rewrite(kernel.body, lambda s, around: (_split_guard(prover, s, around, start),)))
    masks = _ReadMasks(kernel.array)
    for read, _, row in prover.unproved(kernel):
        if is_covered_by_checks(program, prover, kernel, read, row):
            continue
        if read.load.array in data:
            masks.entries.setdefault(read.load, {})[row] = None
        else:
            masks.loads.setdefault((id(read.statement), read.load), {})[row] = None
    return replace(kernel, body=rewrite(kernel.body, masks.statement)) if masks.entries or masks.loads else kernel


def _split_guard(prover: Prover, statement: Statement, enclosing: Around, start: Rows) -> Statement:
    """Split the guard `statement`, if its conditions read integer arrays, into nested guards, so that the outer ones
    keep the reads in the inner ones in bounds. Other statements are unchanged.

    The constraints ``start``, and those of the statements ``enclosing``, are known to hold.
    """
    if not isinstance(statement, If) or not data_entries(row.form for row in statement.conditions):
        return statement
    known = enclosing_rows(enclosing, start)
    layers: list[list[Constraint]] = []
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


def _is_inside(prover: Prover, row: Constraint, known: Sequence[Constraint]) -> bool:
    """Return whether the reads of integer arrays in the constraint ``row`` are in bounds where ``known`` holds."""
    return not any(prover.unproved_bounds(load, known) for load in data_reads([row.form]))


class _ReadMasks:
    """Rewrites one kernel so that reads that may be out of bounds are executed only where they are in bounds, and give
    0 elsewhere.
    """

    def __init__(self, array: str) -> None:
        self.array = array
        self.entries: dict[Load, dict[Constraint, None]] = {}
        self.loads: dict[tuple[int, Load], dict[Constraint, None]] = {}

    def statement(self, statement: Statement, _: Around) -> tuple[Statement, ...]:
        """Return a statement in which out-of-bounds reads give 0; an addition to an out-of-bounds entry is guarded."""
        new = with_parts(statement, lambda value: self.value(statement, value), self.form)
        added = statement.target if is_scatter(statement) else None
        rows = self.loads.get((id(statement), added)) if isinstance(added, Load) else None
        return (If(self.rows(rows), (new,)),) if rows else (new,)

    def value(self, statement: Statement, value: Scalar) -> Scalar:
        """Return `value`, an expression in `statement`, with each read that may be out of bounds put in a select, which
        gives 0 where it is out of bounds.
        """

        def change(part: Scalar) -> Scalar:
            """Return the node ``part`` of a scalar expression. A read that may be out of bounds becomes a select that
            gives 0 where it is.
            """
            if isinstance(part, IndexValue):
                return IndexValue(self.form(part.form))
            if not isinstance(part, Load):
                return part
            rows = self.loads.get((id(statement), part), {})
            load = Load(part.array, tuple([self.form(form) for form in part.index]))
            return Operation("select", (condition_of(self.rows(rows)), load, Number(0))) if rows else load

        return rewrite_scalar(value, change)

    def rows(self, rows: Iterable[Constraint]) -> Rows:
        """Return the constraints ``rows`` with all entries of integer arrays masked: an entry counts as 0 where reading
        it would be out of bounds.
        """
        return tuple([row._replace(form=self.form(row.form)) for row in rows])

    def form(self, form: Affine) -> Affine:
        """Return an affine form with its integer-array entries masked: an entry is 0 where reading it would be out of
        bounds.
        """
        found: dict[Variable, Affine] = {}
        for entry in data_entries([form]):
            index = tuple([self.form(inner) for inner in entry.index])
            rows: Iterable[Constraint] | None = self.entries.get(Load(entry.tensor, entry.index))
            rows = entry.inside if isinstance(entry, MaskedEntry) else rows
            new: IndirectIndex = IndirectIndex(entry.tensor, index, entry.below)
            if rows:
                new = MaskedEntry(entry.tensor, index, entry.below, self.rows(rows))
            if new != entry:
                found[entry] = Affine.variable(new)
        return form.substitute(found) if found else form
