"""Where the entries of arrays of integers lie in every call that is not refused.

Each entry of ``idx`` selects one of an axis in ``Sum_i x[idx[i]]``, whatever the sizes and the data. So the checks of
a call refuse it unless all of them are inside of this axis, and no kernel has to test them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.facts import Prover, Read, reads
from sympy_tensordiff.codegen.loops import Program
from sympy_tensordiff.codegen.safety import is_never_empty
from sympy_tensordiff.codegen.scalars import Load
from sympy_tensordiff.codegen.walk import loops
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import DataEntry, data_entries


def data_ranges(program: Program) -> tuple[tuple[str, Affine], ...]:
    """Arrays of integers with what all their entries are below: those that select in every call, for each entry."""
    prover = Prover(program)
    data = {a.name for a in program.arguments if a.dtype == "integer"}
    found: dict[tuple[str, Affine], None] = {}
    for kernel in program.nests if data else ():
        variables = [*kernel.axes, *(loop.variable for loop in loops(kernel.body))]
        for read in reads(kernel, prover.shapes):
            if read.choices or read.load.array == kernel.array:
                continue
            for form, extent in zip(read.load.index, prover.shapes[read.load.array], strict=True):
                entry = form.terms[0][0] if len(form.terms) == 1 else None
                is_one = isinstance(entry, DataEntry) and form == Affine.variable(entry)
                if is_one and (entry.tensor, extent) not in found and _selects_always(prover, entry, read, variables):
                    found[entry.tensor, extent] = None
    return tuple(found)


def _selects_always(prover: Prover, entry: DataEntry, read: Read, variables: Sequence[str]) -> bool:
    """Whether each entry of the array selects at some point of the loops around a read, whatever the sizes."""
    own = [form.terms[0][0] for form in entry.index if len(form.terms) == 1]
    if [Affine.variable(v) for v in own] != list(entry.index) or len(set(own)) < len(own):
        return False
    box = [row for _, row in prover.axes_inside(Load(entry.tensor, entry.index), prover.shapes[entry.tensor], ())]
    others = [v for v in variables if v not in own]
    alone = [row for row in read.context if row.form.atoms().isdisjoint(others)]
    if data_entries(row.form for row in read.context) or not all(prover.proves(row, box) for row in alone):
        return False
    rows = [row for row in read.context if row not in alone]
    return is_never_empty(others, rows, (*box, *prover.facts))
