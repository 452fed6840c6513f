"""Products as LLVM's printer takes them: their operands lie as BLAS, or a block in registers, reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.emit.library import Matrices, as_matrices
from sympy_tensordiff.codegen.ir.loops import If, accumulator, add
from sympy_tensordiff.codegen.ir.programs import (
    BLOCK,
    Array,
    Contraction,
    Correlation,
    Operand,
    Program,
    Step,
    Trapezoid,
    entrywise,
)
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.ir.scalars import Load, Name
from sympy_tensordiff.codegen.ir.steps import Shapes, extents
from sympy_tensordiff.codegen.ir.walk import all_names, array_shapes
from sympy_tensordiff.codegen.schedule.correlations import ROWS, own_axis, tiling
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.products import times


def matrices_of(step: Contraction | Trapezoid) -> Matrices:
    """A contraction as products of matrices; the rows are those of the trapezoid."""
    found = as_matrices(step)
    return found.transposed() if isinstance(step, Trapezoid) and step.row not in found.rows else found


def is_turned(operand: Operand, both: Sequence[int], first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether an operand has the second group of axes before the first."""
    return bool(first and second) and list(operand.labels) == [*both, *second, *first]


def tasks_of(extent: Affine, is_block: bool) -> Affine:
    """The number of tasks along an axis of a correlation."""
    return quotient(extent + (ROWS - 1), ROWS) if is_block else extent


def blocks(step: Trapezoid, shapes: Shapes) -> Affine:
    """The number of blocks of rows."""
    return quotient(extents(step, shapes)[step.row] + (BLOCK - 1), BLOCK)


def parts_of(step: Contraction | Trapezoid | Correlation, shapes: Shapes) -> Affine:
    """Return the number of parts of a step; its function computes a range of them."""
    if isinstance(step, Correlation):
        tiles, out = tiling(step, shapes), shapes[step.array]
        assert tiles is not None
        row = own_axis(step.output, tiles.rows)
        return times(*(tasks_of(out[axis], axis == row) for axis in tiles.tasks))
    found, known = matrices_of(step), extents(step, shapes)
    if not found.both and isinstance(step, Trapezoid):
        return blocks(step, shapes)
    return times(*(known[label] for label in found.both or found.rows))


class Copies:
    """A program in which products read and fill arrays that lie as they need them, by copies that are kernels.

    ``width``: a whole number of vectors has so many entries. ``lanes`` are the operands of correlations in lanes.
    """

    def __init__(self, program: Program, width: int) -> None:
        self.width = width
        self.shapes = array_shapes(program)
        self.taken = all_names(program)
        self.lanes: dict[str, Load] = {}
        self.arrays: list[Array] = []
        self.steps: list[Step] = []
        for step in program.kernels:
            if isinstance(step, Contraction | Trapezoid):
                self.contraction(step)
            else:
                if isinstance(step, Correlation):
                    self.correlation(step)
                self.steps.append(step)
        self.program = program.with_steps(self.steps, new=self.arrays)

    def fresh(self, wish: str) -> str:
        """A new name."""
        name = unique(wish, self.taken)
        self.taken.add(name)
        return name

    def array(self, wish: str, shape: Sequence[Affine]) -> str:
        """A new temporary."""
        name = self.fresh(wish)
        self.arrays.append(Array(name, tuple(shape)))
        return name

    def copy(self, target: str, axes: Sequence[int], source: str, labels: Sequence[int]) -> None:
        """Copy an array into one with axes in another order."""
        names = {label: self.fresh("i") for label in axes}
        value = Load(source, tuple([Affine.variable(names[label]) for label in labels]))
        self.steps.append(entrywise(target, [names[label] for label in axes], [], value))

    def contraction(self, step: Contraction | Trapezoid) -> None:
        """A contraction with copies."""
        found, known = matrices_of(step), extents(step, self.shapes)

        def ordered(operand: Operand, first: Sequence[int], second: Sequence[int]) -> Operand:
            labels = [*found.both, *first, *second]
            if list(operand.labels) == labels or is_turned(operand, found.both, first, second):
                return operand
            name = self.array(f"{operand.array}_ordered", [known[label] for label in labels])
            self.copy(name, labels, operand.array, operand.labels)
            return Operand(name, tuple(labels))

        left = ordered(found.left, found.rows, found.terms)
        right = ordered(found.right, found.terms, found.columns)
        if found.order == list(step.output):
            self.steps.append(replace(step, left=left, right=right))
            return
        name = self.array(f"{step.array}_ordered", [known[label] for label in found.order])
        self.steps.append(replace(step, array=name, output=tuple(found.order), left=left, right=right))
        self.copy(step.array, step.output, name, found.order)

    def correlation(self, step: Correlation) -> None:
        """The copy of an operand whose lanes fill whole vectors, with zeros at the end."""
        tiles = tiling(step, self.shapes)
        assert tiles is not None
        view = tiles.right
        lane, shape = own_axis(view, tiles.lanes), self.shapes[view.array]
        assert lane is not None
        # The terms lie next to the lanes: what a block reads one after the other.
        others = [axis for axis in range(len(view.index)) if axis != lane]
        order = sorted(others, key=lambda axis: tiles.terms in view.index[axis].atoms())
        lanes = self.width * quotient(shape[lane] + (self.width - 1), self.width)
        name = self.array(f"{view.array}_lanes", [*(shape[axis] for axis in order), lanes])
        names = {axis: self.fresh("i") for axis in (*order, lane)}
        entry, total = (
            Load(view.array, tuple([Affine.variable(names[axis]) for axis in sorted(names)])),
            self.fresh("s"),
        )
        inside = If((Row("ge", shape[lane] - 1 - Affine.variable(names[lane])),), (add(total, entry),))
        self.steps.append(entrywise(name, list(names.values()), [accumulator(total), inside], Name(total)))
        self.lanes[step.array] = Load(name, tuple([view.index[axis] for axis in order]))
