"""The law of bounds: a scheduled nest reads and writes inside of its arrays, whatever has been done with its loops.

Reads of kernels are verified, or covered by checks of the call, before they are scheduled. That holds for the nest as
well, as far as data or those checks decide; all else is proved anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy_tensordiff.codegen.ir.facts import Prover, integer_value, loop_rows, reads, scalar_reads, with_integers
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement, is_let
from sympy_tensordiff.codegen.ir.nests import extent
from sympy_tensordiff.codegen.ir.programs import Fused, Kernel, kernels_of
from sympy_tensordiff.codegen.ir.scalars import Ends, Load, Name, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Row, Variable
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.integer.rows import Rows


def ends_rows(target: Name | Load, ends: Ends) -> Iterator[Row]:
    """What is known of an integer that is a maximum or a minimum.

    >>> from sympy_tensordiff.codegen.ir.scalars import Bound
    >>> last = Ends((), (Bound(Affine.variable("n"), 2),))
    >>> [str(row) for row in ends_rows(Name("stop"), last)]
    ['n - 2*stop + 2 >= 0']
    """
    assert isinstance(target, Name)
    end = Affine.variable(target.name)
    for low in ends.lows:
        yield Row("ge", low.divisor * end - low.form)
    for high in ends.highs:
        yield Row("ge", high.form - high.divisor * (end - 1))


def check_bounds(
    nest: Sequence[Statement], step: Kernel | Fused, prover: Prover, block: tuple[str, str] | None = None
) -> None:
    """Raise `VerificationError` where the nest of a step reads or writes outside of an array.

    ``block`` are the first value of the first axis and one past the last, where the nest fills a part only.
    """
    rows: Rows = ()
    if block is not None:
        first, stop = map(Affine.variable, block)
        whole = step.extent if isinstance(step, Fused) else step.box(prover.shapes)[0]
        rows = (Row("ge", first), Row("ge", stop - first - 1), Row("ge", whole - stop))
    _Bounds(step, prover).block(nest, rows)


class _Bounds:
    def __init__(self, step: Kernel | Fused, prover: Prover) -> None:
        self.step = step
        self.prover = prover
        self.shapes: dict[str, tuple[Affine, ...]] = {}
        self.lengths: dict[Variable, Affine] = {}
        """The lengths of axes, which a nest knows by the arrays."""
        for array, shape in prover.shapes.items():
            self.add(array, shape)
        for row in step.rows if isinstance(step, Fused) else ():
            self.add(row.name, row.shape)
        self.data: set[str] = set()
        """Integers that are entries of arrays."""
        self.integers: dict[str, Scalar] = {}
        """What scalars are that integers alone decide."""

    def add(self, array: str, shape: Sequence[Affine]) -> None:
        """The shape of an array, which may lack its first axis in here."""
        self.shapes[array] = tuple(shape)
        for number, length in enumerate(shape):
            (variable,) = extent(array, number).atoms()
            self.lengths[variable] = length

    def block(self, body: Sequence[Statement], rows: Rows) -> None:
        """Check statements, where ``rows`` hold."""
        for statement in body:
            if isinstance(statement, Alloc):
                ends = [(*shape.lows, *shape.highs)[-1].form + (not shape.lows) for shape in statement.shape]
                self.add(statement.name, [form.substitute(self.lengths) for form in ends])
            elif isinstance(statement, If):
                self.block(statement.body, (*rows, *statement.conditions))
            elif isinstance(statement, Loop):
                self.block(statement.body, (*rows, *(row.substitute(self.lengths) for row in loop_rows(statement))))
            elif isinstance(statement.value, Ends):
                rows = (*rows, *self.integer(statement, statement.value))
            else:
                self.entries(statement, rows)

    def integer(self, statement: Set, ends: Ends) -> Rows:
        """What is known of an integer from here on."""
        if data_entries(bound.form for bound in bounds(ends)):
            self.data.add(statement.name)
            return ()
        # One that a reduction changes only grows, or shrinks: it stays on one side of its first value.
        known = () if statement.reduction else ends_rows(statement.target, ends)
        return tuple([row.substitute(self.lengths) for row in known])

    def entries(self, statement: Set, rows: Rows) -> None:
        """Check what a statement reads, and the entry that it sets."""
        value = with_integers(statement.value, self.integers) if self.integers else statement.value
        for load, known, _ in scalar_reads(value, rows):
            self.entry(load, known)
        integer = integer_value(value) if is_let(statement) else None
        if integer is not None:
            self.integers[statement.name] = integer
        else:
            self.integers.pop(statement.name, None)
        if isinstance(statement.target, Load):
            self.entry(statement.target, rows)

    def entry(self, load: Load, rows: Rows) -> None:
        """Check that an entry is one of its array."""
        for axis, row in self.prover.axes_inside(load, self.shapes[load.array], rows):
            by_data = data_entries([row.form]) or not self.data.isdisjoint(row.form.atoms())
            if not (by_data or load.array in self.covered()):
                raise VerificationError(f"the nest of {self.step.array}: axis {axis} of {load.array} needs {row}")

    def covered(self) -> set[str]:
        """The arrays of which kernels have reads that rows do not prove: these are proved, or checked, otherwise."""
        shapes = self.prover.shapes
        found = [read for kernel in kernels_of(self.step) for read in reads(kernel, shapes)]
        return {
            read.load.array
            for read in found
            if self.prover.axes_inside(read.load, shapes[read.load.array], read.context)
        }
