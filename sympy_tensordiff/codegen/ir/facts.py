"""Known constraints (rows) on the integers of a program, in every call and at each read, and proofs from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, is_let
from sympy_tensordiff.codegen.ir.nests import lengths
from sympy_tensordiff.codegen.ir.programs import Kernel, Program
from sympy_tensordiff.codegen.ir.scalars import (
    VECTORISED,
    Ends,
    IndexValue,
    Load,
    MaskedEntry,
    Name,
    Number,
    Operation,
    Scalar,
)
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.walk import Around, array_shapes, head_forms, rewrite_scalar, walk
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable, quotient
from sympy_tensordiff.integer.implication import is_empty, is_implied
from sympy_tensordiff.integer.indirect import innermost_first
from sympy_tensordiff.integer.products import factors_of_products, times
from sympy_tensordiff.integer.rows import Rows, ranges, shape_rows

Shapes = Mapping[str, tuple[Affine, ...]]

_MAX_CASES = 64


def call_facts(program: Program) -> Rows:
    """Return the constraints on sizes that hold in every call, by argument checks and the definitions of sizes."""
    rows = [Constraint("ge", form - 1) for a in program.arguments for form in a.shape]
    rows += [Constraint("ge", form - 1) for a in program.outputs for form in a.shape]
    rows += [
        Constraint("ge", Affine({name: 1}, -1))
        for name in factors_of_products(f for a in program.arguments for f in a.shape)
    ]
    rows += [Constraint("ge", Affine({solved.name: 1}, -1)) for solved in solve_sizes(program.arguments)]
    for size in program.sizes:
        rows += [Constraint("ge", Affine.variable(size.name) - form) for form in size.lows]
        rows += [Constraint("ge", form - Affine.variable(size.name)) for form in size.highs]
    for check in (*program.assumptions, *program.checks):
        if len(check.violation) == 1 and check.violation[0].kind == "ge" and not check.points:
            rows.append(Constraint("ge", -check.violation[0].form - 1))
    return tuple(dict.fromkeys(row for row in rows if not row.form.is_constant))


def size_cases(program: Program) -> tuple[Rows, ...]:
    """Return the cases to distinguish for sizes that are maxima or minima, each a system of constraints: for ``m =
    max(a, b)``, one case has ``m == a``, the other ``m == b``. If there would be too many cases, return one, without
    constraints on sizes with several bounds.
    """
    choices = [
        [Constraint("eq", Affine.variable(size.name) - form) for form in size.lows or size.highs]
        for size in program.sizes
        if len(size.lows or size.highs) > 1
    ]
    fixed = tuple(
        Constraint("eq", Affine.variable(size.name) - (size.lows or size.highs)[0])
        for size in program.sizes
        if len(size.lows or size.highs) == 1
    )
    if math.prod(map(len, choices)) > _MAX_CASES:
        return (fixed,)
    return tuple((*fixed, *chosen) for chosen in product(*choices))


class Prover:
    """Proves constraints on integers, such as ``i + 1 <= n - 1``, for every call of a program. It uses the constraints
    of the place in question, the checks of arguments, and the definitions of sizes as maxima or minima.

    ``shapes`` are the shapes of all arrays of the program, ``arguments`` the names of its arguments.
    """

    def __init__(self, program: Program) -> None:
        self.shapes: Shapes = array_shapes(program)
        self.arguments = frozenset(argument.name for argument in program.arguments)
        self.facts = call_facts(program)
        self.cases = size_cases(program)
        self._sizes: dict[Variable, frozenset[Variable]] = {size.name: frozenset() for size in program.sizes}
        for size in program.sizes:
            atoms = frozenset[Variable]().union(*(form.atoms() for form in (*size.lows, *size.highs)))
            self._sizes[size.name] = atoms & self._sizes.keys()
        self._facts_by_sizes = [(fact, self._sizes_of_row(fact)) for fact in self.facts]
        self._simple_facts = tuple([fact for fact in self.facts if not fact.form.compounds()])

    @cached_property
    def lengths(self) -> dict[Variable, Affine]:
        """Return a dictionary from the variables that represent axis lengths of arrays in loop nests to these lengths
        as forms in the sizes.
        """
        return {name: form for array, shape in self.shapes.items() for name, form in lengths(array, shape).items()}

    def proves(self, row: Constraint, context: Sequence[Constraint] = ()) -> bool:
        """Return whether ``row`` follows from ``context`` in every call of the program.

        Most rows follow without quotients, maxima and products. Only the definitions of computed sizes that occur are
        needed: a size that is only defined restricts no other.
        """
        if is_implied(row, (*context, *self._simple_facts)):
            return True
        used, facts = self._facts_of((row, *context))
        if facts != self._simple_facts and is_implied(row, (*context, *facts)):
            return True
        cases = dict.fromkeys(tuple([each for each in case if self._sizes_of_row(each) <= used]) for case in self.cases)
        return any(cases) and all(is_implied(row, (*context, *case, *facts)) for case in cases)

    def excludes(self, rows: Sequence[Constraint]) -> bool:
        """Return whether the constraints ``rows`` cannot all hold at once, in any call of the program."""
        return is_empty(rows, self._simple_facts) or is_empty(rows, self._facts_of(rows)[1])

    def _facts_of(self, rows: Iterable[Constraint]) -> tuple[set[Variable], Rows]:
        """Return ``(sizes, facts)`` for a proof about ``rows``: the maxima and minima of sizes on which ``rows``
        depend, and the known constraints that contain no others.
        """
        used = self._sizes_in(rows)
        return used, tuple([fact for fact, sizes in self._facts_by_sizes if sizes <= used])

    def _sizes_in(self, rows: Iterable[Constraint]) -> set[Variable]:
        """Return the computed sizes (maxima or minima of other sizes) on which the constraints ``rows`` depend,
        directly or through the definitions of other computed sizes.
        """
        waiting = [v for row in rows for v in self._sizes_of_row(row)]
        found: set[Variable] = set()
        while waiting:
            size = waiting.pop()
            if size not in found:
                found.add(size)
                waiting += self._sizes[size]
        return found

    def _sizes_of_row(self, row: Constraint) -> frozenset[Variable]:
        """Return those variables in the constraint ``row`` that are computed sizes: maxima or minima of other sizes."""
        return row.form.atoms() & self._sizes.keys()

    def unproved_bounds(
        self, load: Load, context: Sequence[Constraint], shape: Sequence[Affine] | None = None
    ) -> list[tuple[int, Constraint]]:
        """Return ``(axis, constraint)`` for each bound of the read ``load`` that the constraints ``context`` do not
        imply; [] if the read is in bounds. ``shape`` replaces the array's shape in the program, if given.
        """
        rows = shape_rows(load.index, self.shapes[load.array] if shape is None else shape)
        return [(n // 2, row) for n, row in enumerate(rows) if not self.proves(row, context)]

    def unproved(self, kernel: Kernel) -> Iterator[tuple[Read, int, Constraint]]:
        """Yield ``(read, axis, bound)`` for each read of a kernel that may be out of bounds, with the bound that is not
        proved.
        """
        for read in reads(kernel, self.shapes):
            yield from ((read, axis, row) for axis, row in self.unproved_bounds(read.load, read.context))


# ---------------------------------------------------------------------------- contexts


def axis_rows(kernel: Kernel, shapes: Shapes) -> Rows:
    """Return the constraints ``0 <= i < n`` for each axis ``i`` of a kernel and its extent ``n``."""
    return ranges(kernel.axes, kernel.box(shapes))


def loop_rows(loop: Loop) -> Rows:
    """Return the bounds of a loop variable as constraints."""
    variable = Affine.variable(loop.variable)
    return _bound_rows(loop, variable, variable)


def _bound_rows(ends: Loop | Ends, first: Affine, last: Affine) -> Rows:
    """Return the constraints ``first >= low`` for each lower bound in ``ends``, and ``last <= high`` for each upper
    bound.
    """
    lows = [Constraint("ge", bound.divisor * first - bound.form) for bound in ends.lows]
    return (*lows, *(Constraint("ge", bound.form - bound.divisor * last) for bound in ends.highs))


def rows_of(statement: Statement) -> Rows:
    """Return the constraints that hold in the body of a loop or guard, or after an assignment of integers, ``m =
    max(...)`` or ``m = min(...)``; () for other statements.

    >>> from sympy_tensordiff.codegen.ir.scalars import Bound
    >>> rows_of(Set(Name("stop"), Ends((), (Bound(Affine.variable("n"), 2),))))
    (n - 2*stop + 2 >= 0,)
    """
    if isinstance(statement, Loop | If):
        return loop_rows(statement) if isinstance(statement, Loop) else statement.conditions
    # A reduction only increases, or decreases, an integer: it stays on one side of its first value.
    if isinstance(statement, Set) and isinstance(statement.value, Ends) and not statement.reduction:
        end, ends = Affine.variable(statement.name), statement.value
        single = ends.lows if len(ends.lows) == 1 and not ends.highs else ()
        # The maximum of a single bound equals it, rounded up.
        return (
            *_bound_rows(ends, end, end - 1),
            *(Constraint("ge", low.form - low.divisor * (end - 1) - 1) for low in single),
        )
    return ()


def enclosing_rows(enclosing: Around, start: Rows = ()) -> Rows:
    """Return the constraints ``start``, followed by those that hold inside of the ``enclosing`` loops and guards."""
    return (*start, *chain.from_iterable(map(rows_of, enclosing)))


def condition_rows(condition: Scalar, holds: bool) -> Rows:
    """Return the constraints on integers that follow if the boolean expression ``condition`` is true (if it is false,
    for ``holds=False``).
    """
    return tuple(chain.from_iterable(_comparison_rows(*part) for part in _conjuncts(condition, holds)))


def condition_cases(condition: Scalar, holds: bool) -> list[Rows]:
    """Return systems of constraints, at least one of which holds if the condition is true (if it is false, for
    ``holds=False``): two for ``i < k or i > k``.

    If the product of the alternatives is too large, the parts with most alternatives are left out.
    """
    parts = sorted((_cases_of_part(*part) for part in _conjuncts(condition, holds)), key=len)
    while math.prod(map(len, parts)) > _MAX_CASES:
        parts.pop()
    return [tuple(chain.from_iterable(chosen)) for chosen in product(*parts)]


def _cases_of_part(condition: Scalar, holds: bool) -> list[Rows]:
    """Return a list of systems of constraints, at least one of which holds where `condition` is true (where it is
    false, for ``holds=False``): two systems for ``i != j``, one for another comparison, those of all operands for an
    "or".

    `condition` is not a conjunction.
    """
    function, arguments = (condition.function, condition.arguments) if isinstance(condition, Operation) else ("", ())
    if function in ("and", "or"):
        return [rows for argument in arguments for rows in condition_cases(argument, holds)]
    if function in ("eq", "ne") and holds == (function == "ne"):
        return [_comparison_rows(Operation("lt", sides), True) for sides in (arguments, arguments[::-1])]
    return [_comparison_rows(condition, holds)]


def _conjuncts(condition: Scalar, holds: bool) -> Iterator[tuple[Scalar, bool]]:
    """Split `condition`, which is true (false, for ``holds=False``), into parts with known truth values. Yield pairs
    ``(part, truth value)``: ``(a, True), (b, True)`` for ``a and b``, ``(a, False), (b, False)`` for ``not (a or b)``.
    """
    function, arguments = (condition.function, condition.arguments) if isinstance(condition, Operation) else ("", ())
    if function in ("not", "and" if holds else "or"):
        for argument in arguments:
            yield from _conjuncts(argument, holds != (function == "not"))
    else:
        yield condition, holds


def _comparison_rows(condition: Scalar, holds: bool) -> Rows:
    """Return the comparison ``condition`` of integers, which is true (false, for ``holds=False``), as a tuple with one
    constraint: ``(i - j >= 0,)`` for a false ``i < j``. Return () for ``i != j``, which is not a constraint, and for
    other conditions.
    """
    if not isinstance(condition, Operation) or condition.function not in ("lt", "le", "eq", "ne"):
        return ()
    function = condition.function
    left, right = map(integer_form, condition.arguments)
    if left is None or right is None:
        return ()
    if function in ("eq", "ne"):
        return (Constraint("eq", left - right),) if holds == (function == "eq") else ()
    if holds:
        return (Constraint("ge", right - left - (function == "lt")),)
    return (Constraint("ge", left - right - (function == "le")),)


def nonzero_forms(condition: Scalar) -> Iterator[Affine]:
    """Yield the integer forms that are not 0 where a condition is true: ``i - j`` for ``i != j and i > 0``."""
    for part, holds in _conjuncts(condition, True):
        if isinstance(part, Operation) and part.function == ("ne" if holds else "eq"):
            left, right = map(integer_form, part.arguments)
            if left is not None and right is not None:
                yield left - right


def condition_of(rows: Sequence[Constraint]) -> Scalar:
    """Return the constraints ``rows`` as one boolean scalar expression."""
    parts = [_comparison(row) for row in rows]
    return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))


def _comparison(row: Constraint) -> Scalar:
    """Return the constraint ``row`` as a comparison, a boolean scalar expression."""
    if row.kind == "mod":
        return Operation("eq", (IndexValue(row.form), IndexValue(row.modulus * quotient(row.form, row.modulus))))
    above = Affine({v: c for v, c in row.form.terms if c > 0}, max(0, row.form.constant))
    return Operation("le" if row.kind == "ge" else "eq", (IndexValue(above - row.form), IndexValue(above)))


def integer_form(node: Scalar) -> Affine | None:
    """Return the integer form that equals ``node`` without rounding; None for any other scalar.

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
        # A product of more factors may overflow.
        return times(*found) if sum(not form.is_constant for form in found) <= 2 else None
    return None


def as_integer_or_condition(value: Scalar) -> Scalar | None:
    """Return `value`, the value of a scalar variable, as an integer form or a condition on integers; None for any other
    value. Proofs replace the variable by the result.
    """
    form = integer_form(value)
    return IndexValue(form) if form is not None else value if _is_condition(value) else None


def _is_condition(value: Scalar) -> bool:
    """Return whether a value is a condition on integers only."""
    if not isinstance(value, Operation):
        return False
    if value.function in ("and", "or", "not"):
        return all(map(_is_condition, value.arguments))
    return value.function in ("lt", "le", "eq", "ne") and None not in map(integer_form, value.arguments)


def with_integers(value: Scalar, known: Mapping[str, Scalar]) -> Scalar:
    """Return the expression `value` with each name that is a key of ``known`` replaced by the scalar to which it is
    mapped: an integer form or a condition.
    """
    return rewrite_scalar(value, lambda part: known.get(part.name, part) if isinstance(part, Name) else part)


class Read(NamedTuple):
    """A read (or store) in a kernel, with its statement and the constraints that are true where it is executed.

    ``choices`` are the conditions of the enclosing ``select`` operations that decide whether it happens.
    """

    load: Load
    statement: Statement
    context: Rows
    choices: tuple[Scalar, ...] = ()


def scalar_reads(value: Scalar, context: Rows) -> Iterator[tuple[Load, Rows, tuple[Scalar, ...]]]:
    """Yield ``(read, constraints, conditions)`` for each read in the scalar expression ``value``. A read is evaluated
    only where these hold: ``context`` and the constraints on integers that enclosing selects imply, and the conditions
    of these selects.
    """
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
    """Return a read for each integer-array entry that occurs in `forms`. In ``p[q[i]]``, the read of q comes first."""
    return [Load(entry.tensor, entry.index) for entry in innermost_first(forms) if not isinstance(entry, MaskedEntry)]


def reads(kernel: Kernel, shapes: Shapes) -> Iterator[Read]:
    """Yield all reads and stores of a kernel, in the order of its text."""
    start = axis_rows(kernel, shapes)
    integers: dict[str, Scalar] = {}
    for statement, around in walk(kernel.body):
        yield from statement_reads(statement, enclosing_rows(around, start), integers)


def statement_reads(statement: Statement, rows: Rows, integers: dict[str, Scalar]) -> Iterator[Read]:
    """Yield a `Read` for each array entry that ``statement``, apart from statements nested in it, reads or sets under
    the constraints ``rows``.

    ``integers`` maps scalars to their values if these are integers or conditions on integers; the entry of the scalar
    that the statement sets is updated.
    """
    own = statement.index if isinstance(statement, Set) else head_forms(statement)
    yield from (Read(load, statement, rows) for load in data_reads(own))
    if not isinstance(statement, Set):
        return
    value = with_integers(statement.value, integers) if integers else statement.value
    integers.pop(statement.name, None)
    if is_let(statement) and (integer := as_integer_or_condition(value)) is not None:
        integers[statement.name] = integer
    for load, context, choices in scalar_reads(value, rows):
        yield Read(load, statement, context, choices)
    if isinstance(statement.target, Load):
        yield Read(statement.target, statement, rows)


def is_vectorised(value: Scalar) -> bool:
    """Return whether ``value`` calls a function that is computed for several entries at once (with vector
    instructions), such as exp or a general power.
    """
    if not isinstance(value, Operation):
        return False
    return value.function in VECTORISED or (value.function == "pow" and is_general_exponent(value.arguments[1]))


def is_general_exponent(exponent: Scalar) -> bool:
    """Return whether ``x**exponent`` needs a logarithm: products, divisions and square roots are not enough."""
    if isinstance(exponent, Number):
        value = exponent.value if exponent.value > 0 else -exponent.value
        return value != Fraction(1, 2) and (value != int(value) or value >= MAX_INTEGER_EXPONENT)
    return integer_form(exponent) is None


MAX_INTEGER_EXPONENT = 2**16
"""Powers with smaller integer exponents are products."""
