"""What is known about the integers of a program, as rows: at the call, and at each read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, product
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, is_let
from sympy_tensordiff.codegen.ir.nests import lengths
from sympy_tensordiff.codegen.ir.programs import Kernel, Program
from sympy_tensordiff.codegen.ir.scalars import Ends, IndexValue, Load, MaskedEntry, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.walk import Around, array_shapes, rewrite_scalar, tested_forms, walk
from sympy_tensordiff.integer.affine import Affine, Row, Variable, quotient
from sympy_tensordiff.integer.data import innermost_first
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.products import factors_in, times
from sympy_tensordiff.integer.rows import Rows, ranges, shape_rows

Shapes = Mapping[str, tuple[Affine, ...]]

_MOST_CASES = 64


def call_facts(program: Program) -> Rows:
    """Rows that hold in every call: what the argument checks and the host's computations guarantee."""
    rows = [Row("ge", form - 1) for a in program.arguments for form in a.shape]
    rows += [Row("ge", form - 1) for a in program.outputs for form in a.shape]
    rows += [Row("ge", Affine({name: 1}, -1)) for name in factors_in(f for a in program.arguments for f in a.shape)]
    rows += [Row("ge", Affine({solved.name: 1}, -1)) for solved in solve_sizes(program.arguments)]
    for size in program.sizes:
        rows += [Row("ge", Affine.variable(size.name) - form) for form in size.lows]
        rows += [Row("ge", form - Affine.variable(size.name)) for form in size.highs]
    for check in (*program.granted, *program.checks):
        if len(check.violation) == 1 and check.violation[0].kind == "ge" and not check.points:
            rows.append(Row("ge", -check.violation[0].form - 1))
    return tuple(dict.fromkeys(row for row in rows if not row.form.is_constant))


def size_cases(program: Program) -> tuple[Rows, ...]:
    """For each choice of the bounds that the computed sizes equal: the rows that say so."""
    choices = [
        [Row("eq", Affine.variable(size.name) - form) for form in size.lows or size.highs]
        for size in program.sizes
        if len(size.lows or size.highs) > 1
    ]
    fixed = tuple(
        Row("eq", Affine.variable(size.name) - (size.lows or size.highs)[0])
        for size in program.sizes
        if len(size.lows or size.highs) == 1
    )
    if math.prod(map(len, choices)) > _MOST_CASES:
        return (fixed,)
    return tuple((*fixed, *chosen) for chosen in product(*choices))


class Prover:
    """Proves rows from a context, from the facts of the call and by cases of the computed sizes.

    ``shapes`` are those of all arrays of the program.
    """

    def __init__(self, program: Program) -> None:
        self.shapes: Shapes = array_shapes(program)
        self.facts = call_facts(program)
        self.cases = size_cases(program)
        self._sizes: dict[Variable, frozenset[Variable]] = {size.name: frozenset() for size in program.sizes}
        for size in program.sizes:
            atoms = frozenset[Variable]().union(*(form.atoms() for form in (*size.lows, *size.highs)))
            self._sizes[size.name] = atoms & self._sizes.keys()
        self._facts_by_sizes = [(fact, self._own(fact)) for fact in self.facts]
        self._plain = tuple([fact for fact in self.facts if not fact.form.compounds()])

    @cached_property
    def lengths(self) -> dict[Variable, Affine]:
        """The lengths of axes, which a nest knows by the arrays."""
        return {name: form for array, shape in self.shapes.items() for name, form in lengths(array, shape).items()}

    def proves(self, row: Row, context: Sequence[Row] = ()) -> bool:
        """Whether ``row`` follows from ``context`` in every call.

        Most rows follow from what the context and the call say without quotients, maxima and products. Of the computed
        sizes, the definitions of those that occur are enough: a size that is only defined restricts no other.
        """
        if implied(row, (*context, *self._plain)):
            return True
        used = self._sizes_in((row, *context))
        facts = tuple([fact for fact, sizes in self._facts_by_sizes if sizes <= used])
        if facts != self._plain and implied(row, (*context, *facts)):
            return True
        cases = dict.fromkeys(tuple([each for each in case if self._own(each) <= used]) for case in self.cases)
        return any(cases) and all(implied(row, (*context, *case, *facts)) for case in cases)

    def _sizes_in(self, rows: Iterable[Row]) -> set[Variable]:
        """The computed sizes in some rows, and in the definitions of these sizes."""
        waiting = [v for row in rows for v in self._own(row)]
        found: set[Variable] = set()
        while waiting:
            size = waiting.pop()
            if size not in found:
                found.add(size)
                waiting += self._sizes[size]
        return found

    def _own(self, row: Row) -> frozenset[Variable]:
        """The computed sizes in a row."""
        return row.form.atoms() & self._sizes.keys()

    def axes_inside(
        self, load: Load, context: Sequence[Row], shape: Sequence[Affine] | None = None
    ) -> list[tuple[int, Row]]:
        """The conditions of a read, with their axes, that do not follow from ``context``."""
        rows = shape_rows(load.index, self.shapes[load.array] if shape is None else shape)
        return [(n // 2, row) for n, row in enumerate(rows) if not self.proves(row, context)]

    def unproved(self, kernel: Kernel) -> Iterator[tuple[Read, int, Row]]:
        """The reads of a kernel that may be outside of an array, each with an axis and what that needs."""
        for read in reads(kernel, self.shapes):
            yield from ((read, axis, row) for axis, row in self.axes_inside(read.load, read.context))


# ---------------------------------------------------------------------------- contexts


def axis_rows(kernel: Kernel, shapes: Shapes) -> Rows:
    """The rows that the axes of a kernel fulfil."""
    return ranges(kernel.axes, kernel.box(shapes))


def loop_rows(loop: Loop) -> Rows:
    """The rows that the variable of a loop fulfils."""
    variable = Affine.variable(loop.variable)
    return _between(loop, variable, variable)


def _between(ends: Loop | Ends, first: Affine, last: Affine) -> Rows:
    """The rows that say that forms are not before the lower bounds, and not behind the upper ones."""
    lows = [Row("ge", bound.divisor * first - bound.form) for bound in ends.lows]
    return (*lows, *(Row("ge", bound.form - bound.divisor * last) for bound in ends.highs))


def rows_of(statement: Statement) -> Rows:
    """What holds inside of a loop or guard, or behind a statement: of an integer that is a maximum or a minimum.

    >>> from sympy_tensordiff.codegen.ir.scalars import Bound
    >>> rows_of(Set(Name("stop"), Ends((), (Bound(Affine.variable("n"), 2),))))
    (n - 2*stop + 2 >= 0,)
    """
    if isinstance(statement, Loop | If):
        return loop_rows(statement) if isinstance(statement, Loop) else statement.conditions
    # One that a reduction changes only grows, or shrinks: it stays on one side of its first value.
    if isinstance(statement, Set) and isinstance(statement.value, Ends) and not statement.reduction:
        end, ends = Affine.variable(statement.name), statement.value
        alone = ends.lows if len(ends.lows) == 1 and not ends.highs else ()
        # The greatest of one is that one, rounded up.
        return (*_between(ends, end, end - 1), *(Row("ge", low.form - low.divisor * (end - 1) - 1) for low in alone))
    return ()


def around_rows(around: Around, start: Rows = ()) -> Rows:
    """The rows that hold inside of loops and guards, behind those at the ``start``."""
    return (*start, *chain.from_iterable(map(rows_of, around)))


def condition_rows(condition: Scalar, holds: bool) -> Rows:
    """What a condition of a ``select`` says about integers where it is true (or false); other parts say nothing."""
    return tuple(chain.from_iterable(_comparison_rows(*part) for part in _conjuncts(condition, holds)))


def condition_cases(condition: Scalar, holds: bool) -> list[Rows]:
    """As `condition_rows`, where one of several has to hold: the rows of each, of which at least one is fulfilled.

    The parts of most cases say nothing where these are too many.
    """
    parts = sorted((_cases(*part) for part in _conjuncts(condition, holds)), key=len)
    while math.prod(map(len, parts)) > _MOST_CASES:
        parts.pop()
    return [tuple(chain.from_iterable(chosen)) for chosen in product(*parts)]


def _cases(condition: Scalar, holds: bool) -> list[Rows]:
    """The cases of a condition that is none of several that all hold."""
    function, arguments = (condition.function, condition.arguments) if isinstance(condition, Operation) else ("", ())
    if function in ("and", "or"):
        return [rows for argument in arguments for rows in condition_cases(argument, holds)]
    if function in ("eq", "ne") and holds == (function == "ne"):
        return [_comparison_rows(Operation("lt", sides), True) for sides in (arguments, arguments[::-1])]
    return [_comparison_rows(condition, holds)]


def _conjuncts(condition: Scalar, holds: bool) -> Iterator[tuple[Scalar, bool]]:
    """The conditions that all hold, or all fail, where a condition holds, or fails."""
    function, arguments = (condition.function, condition.arguments) if isinstance(condition, Operation) else ("", ())
    if function in ("not", "and" if holds else "or"):
        for argument in arguments:
            yield from _conjuncts(argument, holds != (function == "not"))
    else:
        yield condition, holds


def _comparison_rows(condition: Scalar, holds: bool) -> Rows:
    """What a comparison says about integers."""
    if not isinstance(condition, Operation) or condition.function not in ("lt", "le", "eq", "ne"):
        return ()
    function = condition.function
    left, right = map(integer_form, condition.arguments)
    if left is None or right is None:
        return ()
    if function in ("eq", "ne"):
        return (Row("eq", left - right),) if holds == (function == "eq") else ()
    if holds:
        return (Row("ge", right - left - (function == "lt")),)
    return (Row("ge", left - right - (function == "le")),)


def condition_of(rows: Sequence[Row]) -> Scalar:
    """Rows as a condition."""
    parts = [_comparison(row) for row in rows]
    return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))


def _comparison(row: Row) -> Scalar:
    if row.kind == "mod":
        return Operation("eq", (IndexValue(row.form), IndexValue(row.modulus * quotient(row.form, row.modulus))))
    above = Affine({v: c for v, c in row.form.terms if c > 0}, max(0, row.form.constant))
    return Operation("le" if row.kind == "ge" else "eq", (IndexValue(above - row.form), IndexValue(above)))


def integer_form(node: Scalar) -> Affine | None:
    """The integer that ``node`` is without rounding, None for any other scalar.

    >>> k = Affine.variable("k")
    >>> print(integer_form(Operation("add", (Operation("neg", (IndexValue(k),)), Number(-1)))))
    -k - 1
    """
    if isinstance(node, IndexValue):
        return node.form
    if isinstance(node, Number) and isinstance(node.value, int):
        return Affine.of(node.value)
    if isinstance(node, Operation) and node.function in ("add", "mul", "neg"):
        found = [form for argument in node.arguments if (form := integer_form(argument)) is not None]
        if len(found) < len(node.arguments):
            return None
        if node.function != "mul":
            return sum(found, Affine()) * (1 if node.function == "add" else -1)
        # A product of more may be greater than any integer of the machine.
        return times(*found) if sum(not form.is_constant for form in found) <= 2 else None
    return None


def integer_value(value: Scalar) -> Scalar | None:
    """An integer, or a condition on integers, as it may stand in the place of a name for it; None for all else."""
    form = integer_form(value)
    return IndexValue(form) if form is not None else value if _is_condition(value) else None


def _is_condition(value: Scalar) -> bool:
    """Whether integers alone decide a condition."""
    if not isinstance(value, Operation):
        return False
    if value.function in ("and", "or", "not"):
        return all(map(_is_condition, value.arguments))
    return value.function in ("lt", "le", "eq", "ne") and None not in map(integer_form, value.arguments)


def with_integers(value: Scalar, known: Mapping[str, Scalar]) -> Scalar:
    """A scalar with what names stand for in their places."""
    return rewrite_scalar(value, lambda part: known.get(part.name, part) if isinstance(part, Name) else part)


class Read(NamedTuple):
    """A read, the statement it stands in, and the rows that hold where it happens.

    ``choices`` are the conditions that decide whether it happens, of the ``select`` around it.
    """

    load: Load
    statement: Statement
    context: Rows
    choices: tuple[Scalar, ...] = ()


def scalar_reads(value: Scalar, context: Rows) -> Iterator[tuple[Load, Rows, tuple[Scalar, ...]]]:
    """All reads of a scalar expression, each with the rows that hold where it happens, and the choices around it."""
    stack: list[tuple[Scalar, Rows, tuple[Scalar, ...]]] = [(value, context, ())]
    while stack:
        node, rows, choices = stack.pop()
        if isinstance(node, Load):
            yield from ((load, rows, choices) for load in (*data_reads(node.index), node))
        elif isinstance(node, IndexValue):
            yield from ((load, rows, choices) for load in data_reads([node.form]))
        elif isinstance(node, Operation) and node.function == "select":
            condition, chosen, otherwise = node.arguments
            fails = Operation("not", (condition,))
            stack.append((otherwise, rows + condition_rows(condition, False), (*choices, fails)))
            stack.append((chosen, rows + condition_rows(condition, True), (*choices, condition)))
            stack.append((condition, rows, choices))
        elif isinstance(node, Operation):
            stack.extend((argument, rows, choices) for argument in reversed(node.arguments))


def data_reads(forms: Iterable[Affine]) -> list[Load]:
    """The entries of arrays of integers that forms are made of, each behind those in its own index."""
    return [Load(entry.tensor, entry.index) for entry in innermost_first(forms) if not isinstance(entry, MaskedEntry)]


def reads(kernel: Kernel, shapes: Shapes) -> Iterator[Read]:
    """All reads of a kernel in the order of the text, and the entries that it sets or adds to."""
    start = axis_rows(kernel, shapes)
    integers: dict[str, Scalar] = {}
    for statement, around in walk(kernel.body):
        yield from own_reads(statement, around_rows(around, start), integers)


def own_reads(statement: Statement, rows: Rows, integers: dict[str, Scalar]) -> Iterator[Read]:
    """What a statement reads itself, where ``rows`` hold, and the entry that it sets or adds to.

    ``integers``: what scalars are that integers alone decide.
    """
    own = statement.index if isinstance(statement, Set) else tested_forms(statement)
    yield from (Read(load, statement, rows) for load in data_reads(own))
    if not isinstance(statement, Set):
        return
    value = with_integers(statement.value, integers) if integers else statement.value
    integers.pop(statement.name, None)
    if is_let(statement) and (integer := integer_value(value)) is not None:
        integers[statement.name] = integer
    for load, context, choices in scalar_reads(value, rows):
        yield Read(load, statement, context, choices)
    if isinstance(statement.target, Load):
        yield Read(statement.target, statement, rows)
