"""The law of bounds: a scheduled nest has no out-of-bounds access, whatever a schedule has done with its loops.

Reads of kernels are verified, or covered by checks of the call, before scheduling. This carries over to the nest for
indices that depend on data or on those checks; all other accesses are proved again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.ir.facts import Prover, rows_of, statement_reads
from sympy_tensordiff.codegen.ir.loops import Alloc, Barrier, If, Loop, Statement
from sympy_tensordiff.codegen.ir.nests import lengths
from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel, kernels_of
from sympy_tensordiff.codegen.ir.scalars import Ends, Load, Scalar
from sympy_tensordiff.codegen.ir.walk import bounds
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.rows import Rows


def check_bounds(
    nest: Sequence[Statement], step: Kernel | FusedKernels, prover: Prover, block: tuple[str, str] | None = None
) -> None:
    """Raise `VerificationError` if ``nest``, the loop nest of ``step``, may read or write out of bounds.

    If the nest computes only a part of the first axis, `block` has two variable names: that of the first index and that
    of the index after the last.
    """
    checker = _BoundsChecker(step, prover)
    rows: Rows = ()
    if block is not None:
        first, stop = map(Affine.variable, block)
        whole = step.extent if isinstance(step, FusedKernels) else step.box(prover.shapes)[0]
        rows = (Constraint("ge", first), Constraint("ge", stop - first - 1), Constraint("ge", whole - stop))
        checker.ends = {block[0]: first, block[1]: whole - stop}
    checker.check_statements(nest, rows)


class _BoundsChecker:
    """Checks that all array accesses of one loop nest are in bounds; raises `VerificationError` for an access that is
    not proved to be.

    Accesses by integer data, which each call checks, and those of `unproved_arrays` are accepted without proof.
    """

    def __init__(self, step: Kernel | FusedKernels, prover: Prover) -> None:
        self.step = step
        self.prover = prover
        self.shapes = dict(prover.shapes)
        self.lengths = dict(prover.lengths)
        for row in step.rows if isinstance(step, FusedKernels) else ():
            self.add_array(row.name, row.shape)
        self.data: set[str] = set()
        """The names of integers that are array entries."""
        self.integers: dict[str, Scalar] = {}
        """The values of scalars that depend on integers only."""
        self.ends: dict[str, Affine] = {}
        """The ends of a block, each with a form that is not negative and leads from it to the end of the axis."""

    def add_array(self, array: str, shape: Sequence[Affine]) -> None:
        """Record that ``array`` has the given ``shape`` in this loop nest. In a nest of fused kernels it is the shape
        of one row, if only one row of the array is stored at a time.
        """
        self.shapes[array] = tuple(shape)
        self.lengths.update(lengths(array, shape))

    def check_statements(self, body: Sequence[Statement], rows: Rows) -> None:
        """Raise VerificationError unless all accesses of ``body`` are in bounds where the constraints ``rows`` hold."""
        for statement in body:
            if isinstance(statement, Alloc):
                ends = [(*shape.lows, *shape.highs)[-1].form + (not shape.lows) for shape in statement.shape]
                self.add_array(statement.name, [form.substitute(self.lengths) for form in ends])
                continue
            if isinstance(statement, Barrier):
                continue
            known = tuple([row.substitute(self.lengths) for row in rows_of(statement)])
            for read in statement_reads(statement, rows, self.integers):
                self.check_access(read.load, read.context)
            if isinstance(statement, Loop | If):
                self.check_statements(statement.body, (*rows, *known, *self.for_whole_axis(known)))
                continue
            if isinstance(statement.value, Ends) and data_entries(end.form for end in bounds(statement.value)):
                self.data.add(statement.name)
            rows = (*rows, *known)

    def for_whole_axis(self, rows: Rows) -> Rows:
        """Return those constraints in ``rows`` that bound an index by an end of one thread's block, such as ``i <
        stop``, with the end of the whole axis in its place, ``i < n``. Other constraints are left out.
        """
        signs = {name: form.coefficient(name) for name, form in self.ends.items()}
        return tuple(
            Constraint("ge", row.form + form)
            for row in rows
            for name, form in self.ends.items()
            if row.kind == "ge" and row.form.coefficient(name) == -signs[name]
        )

    def check_access(self, load: Load, rows: Rows) -> None:
        """Raise VerificationError if the read or write ``load`` may be out of bounds where the constraints ``rows`` are
        true. Accesses that depend on integer arrays are accepted without proof, since each call checks them.
        """
        for axis, row in self.prover.unproved_bounds(load, rows, self.shapes[load.array]):
            by_data = data_entries([row.form]) or not self.data.isdisjoint(row.form.atoms())
            if not (by_data or load.array in unproved_arrays(self.step, self.prover)):
                raise VerificationError(f"the nest of {self.step.array}: axis {axis} of {load.array} needs {row}")


def unproved_arrays(step: Kernel | FusedKernels, prover: Prover) -> set[str]:
    """Return the names of the arrays for which the loops and guards of ``step``, as it was before scheduling, do not
    prove that all reads are in bounds.

    Conditions of selects, or checks in each call, must ensure that.
    """
    unproved = (prover.unproved(kernel) for kernel in kernels_of(step))
    return {read.load.array for found in unproved for read, *_ in found}
