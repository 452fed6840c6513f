"""The laws of the loop nests, checked; a program that breaks one is a bug of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sympy_tensordiff.codegen.facts import Prover, Read, Rows, condition_cases, every_choice, reads
from sympy_tensordiff.codegen.laws import check_laws
from sympy_tensordiff.codegen.loops import If, Kernel, Program, Statement
from sympy_tensordiff.codegen.scalars import Load, Scalar
from sympy_tensordiff.codegen.walk import function_name, loops
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Compound, Row
from sympy_tensordiff.integer.data import apart, data_entries
from sympy_tensordiff.integer.extrema import cases, shown
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.polyhedron import find_point, implied, remove_redundant
from sympy_tensordiff.integer.products import Product, factors_in, product_rows, rounded
from sympy_tensordiff.integer.system import definitions


def verify(program: Program) -> None:
    """Raise `VerificationError` where ``program`` breaks a law of the loop nests."""
    check_laws(program)
    prover = Prover(program)
    for kernel in program.nests:
        for read in reads(kernel, prover.shapes):
            for axis, row in prover.axes_inside(read.load, prover.shapes[read.load.array], read.context):
                if not is_refused(program, prover, kernel, read, row):
                    raise VerificationError(
                        f"kernel {kernel.array}: axis {axis} of the read {_show(read.load)} in "
                        f"{type(read.statement).__name__} is not provably inside, and no check covers it"
                    )


class UnprovenRead(NamedTuple):
    """A read that may leave its array along ``axis``, where ``violation`` (over the sizes) holds."""

    kernel: Kernel
    load: Load
    axis: int
    violation: Rows
    statement: Statement
    points: Rows
    """Over the sizes and further variables: each integer point is a way in which the read leaves its array."""
    certain: bool
    """The read leaves its array in every call, whatever the sizes."""
    has_data: bool
    """Entries of arrays of integers decide. Their extremes are among the sizes, as ``least NAME`` and so on."""
    row: Row
    """What has to hold for the read to be inside."""
    context: Rows
    choices: tuple[Scalar, ...]
    """The rows and the conditions of choices under which it happens."""


def unproven_reads(program: Program, tested: Callable[[If, Load], Rows] | None = None) -> list[UnprovenRead]:
    """The reads that are not provably inside their arrays, with the sizes for which they are not.

    The violation rows are the projection of the read's context and of "the index is negative" or
    "the index is past the end" on the sizes and integer arguments. An empty violation says that
    the read leaves its array in every call. A read for which the projection is empty is proven.
    ``tested`` is that of `facts.reads`.
    """
    prover = Prover(program)
    found: dict[tuple[Any, ...], UnprovenRead] = {}
    for kernel in program.nests:
        for read in reads(kernel, prover.shapes, tested):
            for axis, row in prover.axes_inside(read.load, prover.shapes[read.load.array], read.context):
                for unproven in _escapes(prover, kernel, read, axis, row):
                    choices = tuple(map(id, read.choices)) if unproven.has_data else ()
                    key = (function_name(kernel), read.load, axis, row if unproven.has_data else None)
                    found.setdefault((*key, unproven.violation, unproven.points, choices), unproven)
    return list(found.values())


def is_refused(program: Program, prover: Prover, kernel: Kernel, read: Read, row: Row) -> bool:
    """Whether a read happens in no call where ``row`` does not hold, as far as sizes and integer arguments tell."""
    plain, told = apart(read.context)
    if told and not data_entries([row.form]):
        # Without what data say, which are unknown numbers to a projection.
        alone = read._replace(context=tuple(plain), choices=())
        if is_refused(program, prover, kernel, alone, row):
            return True
    found = _escapes(prover, kernel, read, 0, row)
    return all(not each.has_data and _is_covered(each, program, prover.facts) for each in found)


def _escapes(prover: Prover, kernel: Kernel, read: Read, axis: int, row: Row) -> Iterator[UnprovenRead]:
    """The cases in which a read leaves its array, for ``row`` does not hold."""
    for rows, data in _failing(read, row):
        failure = _violation(rows, prover.facts, kernel)
        if failure is not None and failure[2] and data:
            # Data decide in a call whether it happens at all.
            failure = _violation((*rows, *data), prover.facts, kernel)
        if failure is not None:
            context = (*read.context, *data)
            yield UnprovenRead(
                kernel, read.load, axis, failure[0], read.statement, *failure[1:], row, context, read.choices
            )


def _failing(read: Read, row: Row) -> Iterator[tuple[Rows, Rows]]:
    """The rows of each case in which a read happens, and ``row`` does not hold; and what choices say of data."""
    for known in dict.fromkeys(every_choice([condition_cases(condition, True) for condition in read.choices])):
        plain, data = apart(known)
        for rows in cases((*read.context, *plain, Row("ge", -row.form - 1)), limit=None):
            yield rows, tuple(data)


def _violation(failing: Rows, facts: Rows, kernel: Kernel) -> tuple[Rows, Rows, bool, bool] | None:
    """The sizes for which the rows of a failing read have points, those rows, whether no size matters, or data do.

    None where there never is a point.
    """
    rows, data, ordered = _without_data(failing)
    if data:
        facts = (*facts, *ordered)
        factors = factors_in(row.form for row in rows)
        rows += [row for row in facts if len(row.form.terms) == 1 and row.form.terms[0][0] in factors]
    inner = {*kernel.axes, *(loop.variable for loop in loops(kernel.body)), *data}
    plain, fresh = _without_quotients(rows, inner)
    linear, products = _without_products(plain, inner | fresh)
    projected = project(linear, sorted(inner | fresh | products, key=str), facts)
    if projected is None:
        return None
    rest = remove_redundant(projected, facts)
    if any(r.form.is_constant for r in rest):
        return None
    if products or data:
        return rest, tuple(plain), False, bool(data)
    names = frozenset().union(*(r.form.atoms() for r in plain))
    certain = names <= inner | fresh
    if certain and find_point(plain, sorted(names)) is None:
        return None  # the integers decide where the rational shadow says too much
    return rest, tuple(plain), certain or (not rest and _is_exact(plain, inner | fresh)), False


def _without_data(rows: Sequence[Row]) -> tuple[list[Row], set[str], list[Row]]:
    """The rows with a variable for each entry of an array of integers, between the extremes of the array.

    And the rows that say which of the two extremes is the greater.
    """
    entries = data_entries(row.form for row in rows)
    names = {entry: Affine.variable(f"data {number}") for number, entry in enumerate(entries)}
    result = [row.substitute(names) for row in (*rows, *(row for entry in entries for row in entry.definition()))]
    for entry, value in names.items():
        result += [Row("ge", value - Affine.variable(f"least {entry.tensor}"))]
        result += [Row("ge", Affine.variable(f"greatest {entry.tensor}") - value)]
    tensors = dict.fromkeys(entry.tensor for entry in entries)
    ordered = [Row("ge", Affine({f"greatest {name}": 1, f"least {name}": -1})) for name in tensors]
    return result, {form.terms[0][0] for form in names.values()}, ordered


def _is_exact(rows: Sequence[Row], names: set[str]) -> bool:
    """Whether the projection of ``rows`` without ``names`` is exact over the integers.

    It is where all but one of the rows bound a single name with coefficient 1: that one row is
    then met at a corner of the box if anywhere.
    """
    own = [(row, [c for name, c in row.form.terms if name in names]) for row in rows]
    mixed = [row for row, found in own if len(found) > 1 or any(abs(c) != 1 for c in found)]
    return len(mixed) <= 1 and all(row.kind == "ge" for row in mixed)


def _without_quotients(rows: Sequence[Row], inner: set[str]) -> tuple[list[Row], set[str]]:
    """The rows with each quotient or congruence that holds an inner name replaced by a variable of its own."""
    result: list[Row] = []
    fresh: dict[Compound, Affine] = {}
    work = list(rows)
    for number, row in enumerate(rows):
        if row.kind == "mod" and row.form.atoms() & inner:
            multiple = Affine.variable(f"multiple {number}")
            work[work.index(row)] = Row("eq", row.form - row.modulus * multiple)
    for compound, pair in definitions(c for row in work for c in row.form.compounds()).items():
        if compound.atoms() & inner and not isinstance(compound, Product):
            fresh[compound] = Affine.variable(f"quotient {len(fresh)}")
            work += pair
    for row in work:
        while any(c in fresh for c in rounded(row.form)):
            row = row.substitute(fresh)
        result.append(row)
    names = {name for row in result for name in row.form.atoms()}
    return result, {name for name in names if name.startswith(("quotient ", "multiple "))}


def _without_products(rows: Sequence[Row], inner: set[str]) -> tuple[list[Row], set[str]]:
    """The rows with a loose variable for each product that holds an inner name, which allows more points."""
    held = dict.fromkeys(c for row in rows for c in sorted(row.form.compounds()) if c.atoms() & inner)
    loose = {c: Affine.variable(f"product {number}") for number, c in enumerate(held)}
    known = [Row("ge", form) for form in product_rows([row.form for row in rows if row.kind == "ge"])] if loose else []
    names = {form.terms[0][0] for form in loose.values()}
    # The rows that tell of the products hold them in new ones, which stay unknown.
    told = [row.substitute(loose) for row in known]
    told = [row for row in told if inner.isdisjoint(row.form.hidden())]
    return [row.substitute(loose) for row in rows] + told, names


def _is_covered(read: UnprovenRead, program: Program, facts: Rows) -> bool:
    """Whether a check of the program refuses all sizes for which the read leaves its array."""
    if any(check.points and check.points == read.points for check in program.checks):
        return True
    known = (*read.violation, *facts)
    return any(all(implied(row, known) for row in check.violation) for check in program.checks)


def _show(load: Load) -> str:
    return f"{load.array}[{', '.join(map(shown, load.index))}]"
