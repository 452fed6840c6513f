"""The laws of kernels that run together, checked apart from how they have been found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sympy_tensordiff.codegen.facts import Shapes
from sympy_tensordiff.codegen.loops import AddAt, Fused, Kernel, Loop, Program, Scatter
from sympy_tensordiff.codegen.scalars import Load
from sympy_tensordiff.codegen.walk import array_shapes, filled_arrays, forms, own_names, scalars, statements, uses
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import data_entries


def check_together(program: Program) -> None:
    """Raise `VerificationError` where kernels that run together do not compute what they do one after the other."""
    shapes = array_shapes(program)
    outputs = {array.name for array in program.outputs}
    reads = [frozenset(uses(step).arrays) for step in program.kernels]
    read = Counter(name for names in reads for name in names)
    filled = Counter(name for step in program.kernels for name in filled_arrays(step))
    for step in program.kernels:
        if isinstance(step, Fused):
            _check_rows(
                step, shapes, {array.name for array in step.rows if read[array.name] or filled[array.name]} | outputs
            )
            _check_reads(step, shapes)
            _check_names(step)
    later: set[str] = set()
    for step, names in zip(reversed(program.kernels), reversed(reads), strict=True):
        early = sorted(later & names)
        if early:
            raise VerificationError(f"step {step.array}: {', '.join(early)} is read before it is complete")
        later.update(filled_arrays(step))


def _check_rows(step: Fused, shapes: Shapes, outside: Collection[str]) -> None:
    """Nothing else needs the arrays of which a row is kept."""
    for array in step.rows:
        if array.name in outside or array.name in step.totals or array.shape != shapes[array.name][1:]:
            raise VerificationError(f"one row of {array.name} is not enough: something else needs the others")


def _check_reads(step: Fused, shapes: Shapes) -> None:
    """Each kernel reads of the others what they have filled in the same turn."""
    before: set[str] = set()
    names = {kernel.array for kernel in step.kernels}
    for kernel in step.kernels:
        where = f"kernel {kernel.array}, together with {', '.join(sorted(names - {kernel.array}))}"
        if isinstance(kernel, Scatter) or any(isinstance(s, AddAt) for s in statements(kernel.body)):
            raise VerificationError(f"{where}: a scatter runs alone")
        if kernel.array in step.totals:
            _check_total(step, kernel, where)
        elif not kernel.axes or kernel.axes[0] != step.axis or shapes[kernel.array][0] != step.extent:
            raise VerificationError(f"{where}: {step.axis} is not its first axis")
        inside = [node for node in scalars(kernel.body) if isinstance(node, Load) and node.array in names]
        for node in inside:
            if node.array not in before - step.totals or node.index[0] != Affine.variable(step.axis):
                raise VerificationError(f"{where}: {node.array} is not complete where it is read")
        if any(entry.tensor in names for entry in data_entries(forms(kernel.body))):
            raise VerificationError(f"{where}: data are read that are not complete")
        before.add(kernel.array)


def _check_total(step: Fused, kernel: Kernel, where: str) -> None:
    """A total has one loop, over all values of the axis, which starts in every entry and ends in its store."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    bounds = [(b.form, b.divisor) for loop in loops for b in (*loop.lows, *loop.highs)]
    if [loop.variable for loop in loops] != [step.axis] or bounds != [(Affine.of(0), 1), (step.extent - 1, 1)]:
        raise VerificationError(f"{where}: no loop over all values of {step.axis}")


def _check_names(step: Fused) -> None:
    """What one kernel owns is no other's."""
    names = [name for kernel in step.kernels for name in own_names(kernel) if name != step.axis]
    if len(set(names)) != len(names):
        raise VerificationError(f"kernels that run together have a name in common: {step.array}")
