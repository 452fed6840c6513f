"""Blocks of threads that copy what a kernel reads down columns into shared memory first, along rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.ir.loops import (
    Alloc,
    Barrier,
    If,
    Set,
    Statement,
)
from sympy_tensordiff.codegen.ir.nests import exactly
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Ends, Load, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import (
    loops,
    rewrite,
    rewrite_scalar,
    scalars,
)
from sympy_tensordiff.codegen.schedule.blocks import LEAST_IN_USE, SIDE, BlockNest, NameMaker, names_in
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.indirect import data_entries

MAX_TILES = 4
"""The most reads of one kernel that are copied, each into 2 KB of shared memory."""


def transposed_reads(kernel: Kernel, shapes: Shapes) -> tuple[str, tuple[Load, ...]] | None:
    """Return ``(axis, reads)`` for a kernel that fills ``y[i, j]``: its transposed reads, such as ``a[j, i]``, and the
    axis i along which they are contiguous. None if there are none, or too many for shared memory.
    """
    if type(kernel) is not Kernel or len(kernel.axes) < 2:
        return None
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    column, inner = last_axis(box), {loop.variable for loop in loops(kernel.body)}
    reads = dict.fromkeys(node for node in scalars(kernel.body) if isinstance(node, Load) and len(node.index) > 1)
    found: dict[str, list[Load]] = {}
    for load in reads:
        row = str(load.index[-1] - load.index[-1].constant)
        others = names_in(load.index[:-1])
        if (
            row in kernel.axes
            and row != column
            and column in others
            and not {row, *inner} & others
            and not data_entries(load.index)
        ):
            found.setdefault(row, []).append(load)
    for row, loads in found.items():
        lengths = [box[axis] for axis in (row, column)]
        if len(loads) <= MAX_TILES and not any(n.is_constant and n.constant < LEAST_IN_USE * SIDE for n in lengths):
            return row, tuple(loads)
    return None


def last_axis(box: Mapping[str, Affine]) -> str:
    """Return the last axis with more than one entry of an array with the extents ``box``: a step along it leads to the
    next entry in memory. Return "" if there is none.
    """
    return next((axis for axis, extent in [*box.items()][::-1] if extent != Affine.of(1)), "")


def transposing_nest(kernel: Kernel, row: str, reads: Sequence[Load], shapes: Shapes, fresh: NameMaker) -> BlockNest:
    """Return the GPU nest of a kernel with transposed `reads`, which are contiguous along the axis `row`. Each block of
    threads computes a square of entries from copies in shared memory. ``shapes`` maps arrays to shapes; ``fresh``
    returns a new name.
    """
    box = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    column = last_axis(box)
    tiles = {axis: fresh(axis) for axis in (row, column)}
    x, y = fresh("x"), fresh("y")
    across, down = Affine.variable(x), Affine.variable(y)
    starts = {axis: SIDE * Affine.variable(tile) for axis, tile in tiles.items()}
    names = {load: fresh(f"{load.array}_tile") for load in reads}

    def inside(entry: Mapping[str, Affine]) -> list[Constraint]:
        """Return the constraints ``index <= extent - 1`` on an `entry` of the result, given as a dictionary from axes
        to indices.
        """
        return [Constraint("ge", box[axis] - 1 - form) for axis, form in entry.items()]

    at = {row: starts[row] + across, column: starts[column] + down}
    copies: list[Statement] = []
    for load, name in names.items():
        index = tuple([form.substitute(at) for form in load.index])
        shape = list(zip(index, shapes[load.array], strict=True))
        rows = [row for form, n in shape for row in (Constraint("ge", form), Constraint("ge", n - 1 - form))]
        copies.append(If((*inside(at), *rows), (Set(Load(name, (down, across)), Load(load.array, index)),)))
    entry = {row: starts[row] + down, column: starts[column] + across}

    def from_tile(node: Scalar) -> Scalar:
        """Return a transposed read as the read of its copy in shared memory; any other node unchanged."""
        return Load(names[node], (across, down)) if isinstance(node, Load) and node in names else node

    def reading_copies(statement: Statement, _: object) -> tuple[Statement, ...]:
        """Return a tuple with ``statement``, in which each transposed read is replaced by the read of its copy in
        shared memory.
        """
        if isinstance(statement, Set) and not isinstance(statement.value, Ends):
            statement = replace(statement, value=rewrite_scalar(statement.value, from_tile))
        return (statement,)

    body = Renaming({}, forms=entry).body(rewrite(kernel.body, reading_copies))
    nest = (*copies, Barrier(), If(tuple(inside(entry)), body))
    blocks = [(axis, extent) for axis, extent in box.items() if axis not in tiles]
    blocks += [(tiles[axis], quotient(box[axis] + (SIDE - 1), SIDE)) for axis in tiles]
    shape_of_tile = (exactly(Affine.of(SIDE)), exactly(Affine.of(SIDE + 1)))
    shared = tuple([Alloc(name, shape_of_tile, kernel.array) for name in names.values()])
    used = tuple([(tiles[axis], box[axis], SIDE) for axis in tiles])
    coordinates = (x, Affine.of(SIDE)), (y, Affine.of(SIDE))
    return BlockNest(nest, *coordinates, shared, tuple(blocks), tiles=used)
