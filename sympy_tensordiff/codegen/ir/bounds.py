"""The law of bounds: a scheduled nest reads and writes inside of its arrays, whatever has been done with its loops.

Reads of kernels are verified, or covered by checks of the call, before they are scheduled. That holds for the nest as
well, as far as data or those checks decide; all else is proved anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.ir.facts import Prover, own_reads, rows_of
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Statement
from sympy_tensordiff.codegen.ir.nests import lengths
from sympy_tensordiff.codegen.ir.programs import Fused, Kernel, kernels_of
from sympy_tensordiff.codegen.ir.scalars import Ends, Load, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.integer.rows import Rows


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
        self.shapes = dict(prover.shapes)
        self.lengths = dict(prover.lengths)
        for row in step.rows if isinstance(step, Fused) else ():
            self.add(row.name, row.shape)
        self.data: set[str] = set()
        """Integers that are entries of arrays."""
        self.integers: dict[str, Scalar] = {}
        """What scalars are that integers alone decide."""

    def add(self, array: str, shape: Sequence[Affine]) -> None:
        """The shape of an array, which may lack its first axis in here."""
        self.shapes[array] = tuple(shape)
        self.lengths.update(lengths(array, shape))

    def block(self, body: Sequence[Statement], rows: Rows) -> None:
        """Check statements, where ``rows`` hold."""
        for statement in body:
            if isinstance(statement, Alloc):
                ends = [(*shape.lows, *shape.highs)[-1].form + (not shape.lows) for shape in statement.shape]
                self.add(statement.name, [form.substitute(self.lengths) for form in ends])
                continue
            known = tuple([row.substitute(self.lengths) for row in rows_of(statement)])
            for read in own_reads(statement, rows, self.integers):
                self.entry(read.load, read.context)
            if isinstance(statement, Loop | If):
                self.block(statement.body, (*rows, *known))
                continue
            if isinstance(statement.value, Ends) and data_entries(end.form for end in bounds(statement.value)):
                self.data.add(statement.name)
            rows = (*rows, *known)

    def entry(self, load: Load, rows: Rows) -> None:
        """Check that an entry is one of its array."""
        for axis, row in self.prover.axes_inside(load, rows, self.shapes[load.array]):
            by_data = data_entries([row.form]) or not self.data.isdisjoint(row.form.atoms())
            if not (by_data or load.array in self.covered()):
                raise VerificationError(f"the nest of {self.step.array}: axis {axis} of {load.array} needs {row}")

    def covered(self) -> set[str]:
        """The arrays of which kernels have reads that rows do not prove: these are proved, or checked, otherwise."""
        unproved = (self.prover.unproved(kernel) for kernel in kernels_of(self.step))
        return {read.load.array for found in unproved for read, *_ in found}
