"""Copies of operands for LLVM modules, so that BLAS and register tiles can read them in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.emit.library import LibraryMatrices, as_matrices
from sympy_tensordiff.codegen.ir.loops import If, accumulator, add
from sympy_tensordiff.codegen.ir.programs import (
    BLOCK,
    Array,
    ContractionStep,
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
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.products import times


def matrices_of(step: ContractionStep | Trapezoid) -> LibraryMatrices:
    """Return the matrix product by which BLAS computes a contraction: ``A @ B`` or, if BLAS can then write the result
    in place, the transposed product ``B.T @ A.T``.

    A triangular contraction is transposed if the label that bounds its sum is not a row of the product.
    """
    found = as_matrices(step)
    if isinstance(step, Trapezoid):
        return found if step.row in found.rows else found.transposed()
    return found.transposed() if matrix_order(step.output, found.both, found.rows, found.columns) else found


def matrix_order(
    labels: Sequence[int], both: Sequence[int], first: Sequence[int], second: Sequence[int]
) -> bool | None:
    """Return whether an array stores a matrix transposed: True or False, or None if BLAS cannot read it without a copy.
    `labels` are the axes of the array: batch axes (``both``), the row axes ``first`` and the column axes ``second`` of
    the matrix.
    """
    rest = [label for label in labels if label not in both]
    is_turned = bool(first and second) and rest == [*second, *first]
    if len(set(labels)) < len(labels) or (not is_turned and rest != [*first, *second]):
        return None
    places = {label: place for place, label in enumerate(labels)}
    if any(places[group[-1]] - places[group[0]] >= len(group) for group in (first, second) if group):
        return None
    return is_turned if not rest or rest[-1] == labels[-1] else None


def is_transposed(operand: Operand, both: Sequence[int], first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether the matrices in the array of ``operand`` are stored transposed: its axes are the batch labels
    ``both``, then the column labels ``second``, then the row labels ``first``. False if ``first`` or ``second`` is
    empty.
    """
    return bool(first and second) and list(operand.labels) == [*both, *second, *first]


def task_count(extent: Affine, is_block: bool) -> Affine:
    """Return the number of tasks into which an axis of length `extent` is divided: one per entry, or with ``is_block``,
    one per block of `ROWS` entries.
    """
    return quotient(extent + (ROWS - 1), ROWS) if is_block else extent


def block_count(step: Trapezoid, shapes: Shapes) -> Affine:
    """Return the number of blocks of rows into which the triangular contraction ``step`` is divided. ``shapes`` maps
    arrays to their shapes.
    """
    return quotient(extents(step, shapes)[step.row] + (BLOCK - 1), BLOCK)


def part_count(step: ContractionStep | Trapezoid | Correlation, shapes: Shapes) -> Affine:
    """Return the number of parts in which the result of `step` can be computed independently, by several threads: its
    rows, blocks of rows, batch entries or tasks.
    """
    if isinstance(step, Correlation):
        tiles, out = tiling(step, shapes), shapes[step.array]
        assert tiles is not None
        row = own_axis(step.output, tiles.rows)
        return times(*(task_count(out[axis], axis == row) for axis in tiles.tasks))
    found, known = matrices_of(step), extents(step, shapes)
    if not found.both and isinstance(step, Trapezoid):
        return block_count(step, shapes)
    return times(*(known[label] for label in found.both or found.rows))


class Copies:
    """Adds kernels to a program that copy operands of matrix products and correlations into an order of axes that BLAS
    or vector instructions can read.

    ``width`` is the number of entries that lanes are padded to a multiple of; ``lanes`` are the copied operands of
    correlations, by result.
    """

    def __init__(self, program: Program, width: int) -> None:
        self.width = width
        self.shapes = array_shapes(program)
        self.taken = all_names(program)
        self.lanes: dict[str, Load] = {}
        self.arrays: list[Array] = []
        self.steps: list[Step] = []
        for step in program.kernels:
            if isinstance(step, ContractionStep | Trapezoid):
                self.add_contraction(step)
            else:
                if isinstance(step, Correlation):
                    self.add_correlation(step)
                self.steps.append(step)
        self.program = program.with_steps(self.steps, new=self.arrays)

    def fresh(self, wish: str) -> str:
        """Return an unused name like ``wish``, and reserve it."""
        name = unique(wish, self.taken)
        self.taken.add(name)
        return name

    def new_temporary(self, wish: str, shape: Sequence[Affine]) -> str:
        """Add a temporary with a new name like ``wish`` to the program, and return its name."""
        name = self.fresh(wish)
        self.arrays.append(Array(name, tuple(shape)))
        return name

    def add_copy(self, target: str, axes: Sequence[int], source: str, labels: Sequence[int]) -> None:
        """Add a kernel that copies the array ``source`` with the axes ``labels`` to ``target``, whose axes are in the
        order ``axes``.
        """
        names = {label: self.fresh("i") for label in axes}
        value = Load(source, tuple([Affine.variable(names[label]) for label in labels]))
        self.steps.append(entrywise(target, [names[label] for label in axes], [], value))

    def add_contraction(self, step: ContractionStep | Trapezoid) -> None:
        """Add a contraction, with copies of operands and of the result if BLAS cannot use their axis order."""
        found, known, is_triangular = matrices_of(step), extents(step, self.shapes), isinstance(step, Trapezoid)

        def readable_by_blas(operand: Operand, first: Sequence[int], second: Sequence[int]) -> Operand:
            """Return ``operand`` if BLAS can read it in place. Otherwise add a copy to a new temporary, whose axes are
            the batch labels, then ``first``, then ``second``, and return that.
            """
            labels = [*found.both, *first, *second]
            if list(operand.labels) == labels or is_transposed(operand, found.both, first, second):
                return operand
            if not is_triangular and matrix_order(operand.labels, found.both, first, second) is not None:
                return operand
            name = self.new_temporary(f"{operand.array}_ordered", [known[label] for label in labels])
            self.add_copy(name, labels, operand.array, operand.labels)
            return Operand(name, tuple(labels))

        left = readable_by_blas(found.left, found.rows, found.terms)
        right = readable_by_blas(found.right, found.terms, found.columns)
        in_place = not is_triangular and matrix_order(step.output, found.both, found.rows, found.columns) is not None
        if in_place or found.order == list(step.output):
            self.steps.append(replace(step, left=left, right=right))
            return
        name = self.new_temporary(f"{step.array}_ordered", [known[label] for label in found.order])
        self.steps.append(replace(step, array=name, output=tuple(found.order), left=left, right=right))
        self.add_copy(step.array, step.output, name, found.order)

    def add_correlation(self, step: Correlation) -> None:
        """Add a kernel that copies one operand of a correlation, with the axis of vector instructions last and padded
        with zeros to whole vectors.
        """
        tiles = tiling(step, self.shapes)
        assert tiles is not None
        view = tiles.right
        lane, shape = own_axis(view, tiles.lanes), self.shapes[view.array]
        assert lane is not None
        # The summed axis comes right before the lanes: a block reads them one after the other.
        others = [axis for axis in range(len(view.index)) if axis != lane]
        order = sorted(others, key=lambda axis: tiles.terms in view.index[axis].atoms())
        lanes = self.width * quotient(shape[lane] + (self.width - 1), self.width)
        name = self.new_temporary(f"{view.array}_lanes", [*(shape[axis] for axis in order), lanes])
        names = {axis: self.fresh("i") for axis in (*order, lane)}
        entry, total = (
            Load(view.array, tuple([Affine.variable(names[axis]) for axis in sorted(names)])),
            self.fresh("s"),
        )
        inside = If((Constraint("ge", shape[lane] - 1 - Affine.variable(names[lane])),), (add(total, entry),))
        self.steps.append(entrywise(name, list(names.values()), [accumulator(total), inside], Name(total)))
        self.lanes[step.array] = Load(name, tuple([view.index[axis] for axis in order]))
