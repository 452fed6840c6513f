"""Fusion of kernels over the same entries into one launch on CUDA: a thread fills its entry of one array after the
other.

The launches of a stream run one after the other, each some microseconds at least, so merging kernels loses nothing if
they do not depend on each other, or only on entries that the same thread has filled. A value that no other launch reads
is a scalar of the thread. A row of few entries belongs to one thread, which may read all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.dataflow import check_order, uses
from sympy_tensordiff.codegen.ir.loops import Statement
from sympy_tensordiff.codegen.ir.nests import ZERO, span, with_entries_as_scalars
from sympy_tensordiff.codegen.ir.programs import (
    Array,
    ContractionStep,
    FusedKernels,
    Kernel,
    Program,
    Scatter,
    Step,
    kernels_of,
)
from sympy_tensordiff.codegen.ir.rename import renamed
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.steps import Shapes, as_product, calls_in_loops
from sympy_tensordiff.codegen.ir.walk import array_shapes, filled_arrays, loops, outer_names, own_names, scalars, weight
from sympy_tensordiff.codegen.schedule.block_nests import shares_memory
from sympy_tensordiff.codegen.schedule.fusion import MAX_STEPS_BETWEEN
from sympy_tensordiff.codegen.schedule.recompute import recomputed
from sympy_tensordiff.codegen.schedule.row_blocks import with_row_launches
from sympy_tensordiff.codegen.schedule.shared_sums import SharedLoop
from sympy_tensordiff.codegen.schedule.split import MAX_KERNEL_OPERATIONS
from sympy_tensordiff.codegen.schedule.split_reductions import SHORT, in_blocks, rounds
from sympy_tensordiff.integer.affine import Affine


def in_launches(program: Program, unfused: Collection[str] = ()) -> Program:
    """Return the program with kernels of equal shape merged, one thread per entry, to save GPU launches. Kernels that
    fill arrays in ``unfused`` are not merged.

    Law: every result is the same.
    """
    shapes = array_shapes(program)
    launches: list[_Launch] = []
    for step in program.kernels:
        for launch in reversed(launches[-MAX_STEPS_BETWEEN:]):
            if isinstance(step, Kernel) and step.array not in unfused and launch.can_take(step):
                launch.add(step)
                break
            if launch.precedes(step):
                launches.append(_Launch(step, shapes, unfused))
                break
        else:
            launches.append(_Launch(step, shapes, unfused))
    taken = outer_names(program)
    private = _used_by_one_launch(program, launches)
    result = replace(program, kernels=tuple([launch.as_one_step(private, taken) for launch in launches]))
    check_order(result)
    return result


def _used_by_one_launch(program: Program, launches: Collection[_Launch]) -> frozenset[str]:
    """Return the names of the temporaries of ``program`` that only one of ``launches`` fills and reads; they can stay
    in registers.
    """
    users = Counter(name for launch in launches for name in launch.filled | launch.read)
    return frozenset([array.name for array in program.temporaries if users[array.name] == 1])


def common_axes(step: Kernel | FusedKernels) -> tuple[str, ...]:
    """Return the names of the axes along which the launch of `step` has threads: the leading axes that all kernels of
    `step` share.
    """
    if isinstance(step, Kernel):
        return step.axes
    first, *others = (kernel.axes for kernel in step.kernels)
    return first[: next(n for n in range(len(first), -1, -1) if all(axes[:n] == first[:n] for axes in others))]


def thread_nest(step: Kernel | FusedKernels, shapes: Shapes) -> tuple[Statement, ...]:
    """Return a step as a GPU loop nest with one thread per entry: the last axis becomes the thread axis x, the one
    before it y, all others z.
    """
    axes = common_axes(step)
    numbers = {array.name for array in step.rows} if isinstance(step, FusedKernels) else set()
    body: tuple[Statement, ...] = ()
    for kernel in kernels_of(step):
        inner = with_entries_as_scalars(kernel.body, numbers)
        for axis, extent in list(zip(kernel.axes, kernel.box(shapes), strict=True))[: len(axes) - 1 : -1]:
            inner = (span(axis, ZERO, extent, inner),)
        body += inner
    box = kernels_of(step)[0].box(shapes)
    for number, axis in enumerate(reversed(axes)):
        extent = box[len(axes) - 1 - number]
        body = (replace(span(axis, ZERO, extent, body), bind=f"grid.{'xyz'[min(number, 2)]}"),)
    return body


class _Launch:
    """One GPU launch under construction: its kernels, with one thread per entry of an array of the shape ``box``. A
    step that is not a kernel is a launch by itself, without kernels.
    """

    def __init__(self, step: Step, shapes: Shapes, unfused: Collection[str]) -> None:
        self.shapes = shapes
        self.first = step
        self.kernels = [step] if isinstance(step, Kernel) else []
        is_open = bool(self.kernels) and not isinstance(step, Scatter) and step.array not in unfused
        self.box = shapes[step.array] if is_open else ()
        self.read, self.filled = set(uses(step).arrays), set(filled_arrays(step))
        self.weight = weight(step.body) if isinstance(step, Kernel) else 0

    def precedes(self, step: Step) -> bool:
        """Return whether `step` must run after this launch: it reads or fills an array that the launch fills."""
        return not self.filled.isdisjoint((step.array, *uses(step).arrays))

    def can_take(self, step: Kernel) -> bool:
        """Return whether merging the kernel `step` into this launch is possible and useful."""
        box = self.common(step)
        if isinstance(step, Scatter) or not box or self.weight + weight(step.body) > MAX_KERNEL_OPERATIONS:
            return False
        loads = [node for node in scalars(step.body) if isinstance(node, Load) and node.array in self.filled]
        own = tuple(map(Affine.variable, step.axes[: len(box)]))
        if any(load.index[: len(box)] != own for load in loads):
            return False
        members = (step, *self.kernels)
        rows = [kernel for kernel in members if len(kernel.axes) > len(box)]
        return not rows or (bool(loads) and all(self.is_short(kernel, len(box)) for kernel in rows))

    def is_short(self, kernel: Kernel, axis: int) -> bool:
        """Return whether the loops of `kernel` over its axes from number `axis` on have so few iterations that a single
        thread can run them.
        """
        own = set(own_names(kernel))
        lengths = [*self.shapes[kernel.array][axis:], *(rounds(loop, own) for loop in loops(kernel.body))]
        numbers = [length.constant for length in lengths if length is not None and length.is_constant]
        return len(numbers) == len(lengths) and prod(numbers) < SHORT

    def common(self, step: Kernel) -> tuple[Affine, ...]:
        """Return the extents of the leading axes that this launch and the array of the kernel `step` have in common.
        One thread for each entry along these axes can then compute both.
        """
        pairs = zip(self.box, self.shapes[step.array], strict=False)
        same = [one == other for one, other in pairs]
        return self.box[: (*same, False).index(False)]

    def add(self, step: Kernel) -> None:
        """Add the kernel `step` to the launch."""
        self.box = self.common(step)
        self.kernels.append(step)
        self.read |= set(uses(step).arrays)
        self.filled.add(step.array)
        self.weight += weight(step.body)

    def as_one_step(self, private: Collection[str], taken: Collection[str]) -> Step:
        """Return the kernels of the launch as one step: a single step itself, or fused kernels with common names of
        axes, in which arrays in ``private`` are replaced by scalars. New names differ from those in ``taken``.
        """
        if len(self.kernels) < 2:
            return self.first
        axes = self.kernels[0].axes[: len(self.box)]
        known = {*taken, *axes}
        kernels = [renamed(kernel, dict(zip(kernel.axes, axes, strict=False)), known) for kernel in self.kernels]
        numbers = [Array(k.array, ()) for k in kernels if k.array in private and len(k.axes) == len(axes)]
        return FusedKernels(axes[0], self.box[0], tuple(kernels), rows=tuple(numbers))


class Device(NamedTuple):
    """A program divided into GPU launches, with its matrix products, its arrays of partial sums, and the sums that
    blocks of threads share.
    """

    program: Program
    whole: Mapping[str, str]
    """The array of the totals for each array of partial sums."""
    products: Mapping[str, ContractionStep]
    """The products by the arrays that they fill; the program has kernels for them, too."""
    shared_loops: Mapping[str, SharedLoop] = {}
    """The sums that blocks of threads share, by the arrays of their kernels."""


def on_device(program: Program) -> Device:
    """Return `program` prepared for a GPU: its steps as launches, in which blocks of threads share memory for long sums
    and matrix products.
    """
    products = {step.array: step for step in program.kernels if isinstance(step, ContractionStep)}
    plain = recomputed(calls_in_loops(program))
    shapes = array_shapes(plain)
    found = [as_product(step, shapes) for step in plain.kernels if isinstance(step, Kernel)]
    products |= {step.array: step for step in found if step is not None and step.array not in products}
    (staged, whole), sums = in_blocks(plain)
    shapes = array_shapes(staged)
    staged, shared_loops = with_row_launches(staged, sums, products)
    blocks = {step.array for step in staged.kernels if shares_memory(step, shared_loops, shapes)}
    unfused = {*blocks, *products, *(part for part, array in whole.items() if array in products)}
    return Device(in_launches(staged, unfused), whole, products, shared_loops)
