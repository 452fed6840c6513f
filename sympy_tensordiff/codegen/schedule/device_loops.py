"""Recurrences on a device: blocks of threads run a loop over time whose steps are small, the host any other one.

In a loop of the host, each step launches its kernels. A block of threads runs all steps itself: its threads share the
entries of each kernel, and wait for each other after it. If each entry of a step depends on the states at one value of
an axis only, this axis is a batch: each block has some entries of it, and no block waits for another one.

The host does not read the device's memory, so that the numbers of a step are arrays of one entry for its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.loops import Loop
from sympy_tensordiff.codegen.ir.programs import (
    Argument,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Scatter,
    kernels_of,
)
from sympy_tensordiff.codegen.ir.scalars import Load, Name, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes, calls_in_loops
from sympy_tensordiff.codegen.ir.walk import array_shapes, loads, own_names, walk, with_values
from sympy_tensordiff.codegen.schedule.launches import common_axes, in_launches, on_device
from sympy_tensordiff.codegen.schedule.recompute import recomputed
from sympy_tensordiff.codegen.schedule.split_reductions import rounds
from sympy_tensordiff.integer.affine import Affine

MAX_BLOCK_OPERATIONS = 2**16
"""The most terms and entries of a step, for one entry of the batch, for which blocks run the loop over time.

By a model of a device, not a measurement: 256 threads compute that many in some microseconds, in which the host
launches one kernel.
"""

Extents = tuple[Affine, ...]


class BlockRecurrence(NamedTuple):
    """A recurrence whose whole loop over time can run inside of one GPU kernel, in blocks of threads: its step, its
    batch axes, and the extents from which its work and memory follow.

    ``step`` has the kernels of one step for a block. ``axes`` maps each array of its body that has the batch as an axis
    to the number of this axis, ``batch`` is the extent of the batch; they are empty and None without a batch. For one
    entry of the batch, ``entries`` are the extents of each kernel, and ``operations`` products of extents whose sum is
    the number of terms and entries of a step. ``memory`` has the shapes of the arrays that the loop needs.
    """

    step: Recurrence
    batch: Affine | None
    axes: Mapping[str, int]
    entries: tuple[Extents, ...]
    operations: tuple[Extents, ...]
    memory: tuple[Extents, ...]

    @property
    def is_small(self) -> bool | None:
        """Return whether a step has at most `MAX_BLOCK_OPERATIONS`; None if that depends on sizes."""
        if not all(form.is_constant for extents in self.operations for form in extents):
            return None
        counts = [prod(max(form.constant, 0) for form in extents) for extents in self.operations]
        return sum(counts) <= MAX_BLOCK_OPERATIONS


def block_loop(step: Recurrence) -> BlockRecurrence | None:
    """Convert the recurrence `step` so that blocks of GPU threads can run its loop over time. Return None if a step
    calls a library, is known to be large, or needs an amount of memory that changes from step to step.
    """
    loop = _block_loop(step)
    return None if loop is None or loop.is_small is False else loop


def _block_loop(step: Recurrence) -> BlockRecurrence | None:
    """Convert the recurrence `step` like `block_loop`, so that blocks of GPU threads can run its loop over time, but
    accept steps known to be large. Return None if a step calls a library or needs an amount of memory that changes with
    the time.
    """
    inner: dict[str, BlockRecurrence] = {}
    for one in step.body.kernels:
        if isinstance(one, Recurrence):
            loop = _block_loop(one)
            if loop is None:
                return None
            inner[one.array] = loop
    kernels = tuple([inner[k.array].step if isinstance(k, Recurrence) else k for k in step.body.kernels])
    body = in_launches(recomputed(calls_in_loops(replace(step.body, kernels=kernels))))
    shapes, axes = array_shapes(body), batch_axes(body, [(state.argument, state.result) for state in step.carried])
    private = {row.name for one in body.kernels if isinstance(one, FusedKernels) for row in one.rows}
    stored = {record.result for record in step.recorded if record.kind == "stack"}
    memory = [shapes[array.name] for array in body.temporaries if array.name not in private]
    memory += [output.shape for output in body.outputs if output.name not in stored]
    memory += [shapes[name] for name in {state.result: None for state in step.carried} if name not in stored]
    if any(step.is_timed(shape) for shape in memory):
        return None
    entries: list[Extents] = []
    operations: list[Extents] = []
    for one in body.kernels:
        if isinstance(one, Recurrence):
            entries += inner[one.array].entries
            memory += inner[one.array].memory
            operations += [(one.length, *extents) for extents in inner[one.array].operations]
        elif isinstance(one, Kernel | FusedKernels):
            box = kernels_of(one)[0].box(shapes)[: len(common_axes(one))]
            entries.append(without_axis(box, axes.get(kernels_of(one)[0].array)))
            operations += [terms for kernel in kernels_of(one) for terms in _terms(kernel, shapes, axes)]
        else:
            return None
    outside = dict(step.integers) | ({step.time: step.length - 1} if step.time else {})
    array, axis = next(iter(axes.items()), ("", 0))
    return BlockRecurrence(
        replace(step, body=body),
        shapes[array][axis].substitute(outside) if axes else None,
        axes,
        tuple(dict.fromkeys([_substituted(extents, outside) for extents in entries])),
        tuple([_substituted(extents, outside) for extents in operations]),
        tuple([_substituted(extents, outside) for extents in memory]),
    )


def _substituted(extents: Extents, mapping: Mapping[str, Affine]) -> Extents:
    """Return `extents` with each variable in ``mapping`` replaced by its form."""
    return tuple([form.substitute(mapping) for form in extents])


def without_axis(extents: Sequence[Affine], axis: int | None) -> Extents:
    """Return `extents` without the extent number `axis`; all of them if `axis` is None."""
    return tuple([extent for number, extent in enumerate(extents) if number != axis])


def _terms(kernel: Kernel, shapes: Shapes, axes: Mapping[str, int]) -> Iterator[Extents]:
    """Estimate the operations of `kernel` for one batch entry as a sum of products, and yield each product as a tuple
    of its known factors: extents of the kernel's array, and lengths of nested loops.

    The extents are found in `shapes`; `axes` maps arrays to their batch axes.
    """
    box, own = kernel.box(shapes), set(own_names(kernel))
    extents = without_axis(box, axes.get(kernel.array))
    yield extents
    for statement, around in walk(kernel.body):
        if isinstance(statement, Loop):
            nest = [loop for loop in (*around, statement) if isinstance(loop, Loop)]
            counts = [rounds(loop, own, dict(zip(kernel.axes, box, strict=True))) for loop in nest]
            yield (*extents, *(count for count in counts if count is not None))


def describe_device(program: Program) -> list[str]:
    """Return lines of ``.plan`` that describe how a program runs on a GPU: arrays that are computed again instead of
    stored, sums that take two launches, loops over time inside of a kernel, and kernels that share a launch.
    """
    device = on_device(program)
    whole = ", ".join(dict.fromkeys(device.whole.values()))
    stored = {array.name for array in device.program.temporaries}
    again = ", ".join(array.name for array in program.temporaries if array.name not in stored)
    lines = [f"computed again where they are summed, instead of stored: {again}"] if again else []
    lines += [f"in two launches, where there are few entries: {whole}"] if whole else []
    for step in device.program.kernels:
        if isinstance(step, Recurrence):
            lines += _describe_loop(step)
    groups = [step for step in device.program.kernels if isinstance(step, FusedKernels)]
    return lines + [f"in one launch: {', '.join(kernel.array for kernel in step.kernels)}" for step in groups]


def _describe_loop(step: Recurrence) -> Iterator[str]:
    """Yield the lines of ``.plan`` that describe the loop over time ``step``: whether blocks of threads or the host run
    it, and the number of kernels in each time step.
    """
    loop, text = block_loop(step), ""
    if loop is not None:
        blocks = "one block runs" if loop.batch is None else f"blocks run, each for some of {loop.batch} entries,"
        size = "" if loop.is_small else f" of steps of at most {MAX_BLOCK_OPERATIONS} operations"
        count = len(loop.step.body.kernels)
        yield f"{blocks} the loop{size} for {step.array}: {count} kernel{'s' * (count > 1)} in each step"
        text = "other ones are "
    if loop is None or not loop.is_small:
        count = len(on_device(step.body).program.kernels)
        yield f"{text}launched by the host in each step of {step.array}: {count} kernel{'s' * (count > 1)}"


# ---------------------------------------------------------------------------- batches


def batch_axes(body: Program, states: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Find a batch axis of a recurrence, along which all entries are computed independently. Return ``{array: axis}``,
    the number of this axis in each array of the step ``body`` and of its states; {} if there is none.

    ``states`` are pairs (argument, result).

    Law: a kernel's entry at one value of its axis reads these arrays at the same value of theirs.
    """
    if not states or any(not isinstance(k, Kernel | FusedKernels) or isinstance(k, Scatter) for k in body.kernels):
        return {}
    shapes, first = array_shapes(body), states[0][0]
    if any(shapes[argument] != shapes[result] for argument, result in states):
        return {}  # numbers, which are arrays of one entry
    for axis in range(len(shapes[first])):
        found = {first: axis}
        while _is_extended(found, body, states):
            pass
        if _is_batch(found, body, states):
            return found
    return {}


def _moving(body: Program, states: Sequence[tuple[str, str]]) -> set[str]:
    """Return the names of the arrays that differ from step to step of a recurrence: its ``states``, given as pairs of
    names (old value, new value), and all arrays that the kernels of `body` fill.
    """
    return {*(argument for argument, _ in states), *(kernel.array for kernel in body.nests)}


def _is_extended(axes: dict[str, int], body: Program, states: Sequence[tuple[str, str]]) -> bool:
    """Add arrays to `axes`, a dictionary from arrays to their batch axes, that a kernel of ``body`` or a pair in
    ``states`` connects with an array in it. Return whether any were added.

    A pair has the argument and the result of a state.
    """
    before, moving = len(axes), _moving(body, states)
    for pair in states:
        for one, other in (pair, pair[::-1]):
            if one in axes:
                axes.setdefault(other, axes[one])
    for kernel in body.nests:
        for load in loads(kernel.body):
            if load.array in axes and kernel.array not in axes:
                form = load.index[axes[load.array]]
                own = [number for number, axis in enumerate(kernel.axes) if form == Affine.variable(axis)]
                axes |= {kernel.array: own[0]} if own else {}
            elif load.array in moving and load.array not in axes and kernel.array in axes:
                variable = Affine.variable(kernel.axes[axes[kernel.array]])
                own = [number for number, form in enumerate(load.index) if form == variable]
                axes |= {load.array: own[0]} if own else {}
    return len(axes) > before


def _is_batch(axes: Mapping[str, int], body: Program, states: Sequence[tuple[str, str]]) -> bool:
    """Return whether `axes`, a dictionary from arrays to axes, gives a batch axis for all arrays that change from time
    step to time step: each kernel of ``body`` reads them only at its own index along this axis. Entries of the batch
    are then independent.

    ``states`` are pairs of the argument and the result of a state.
    """
    shapes, moving = array_shapes(body), _moving(body, states)
    if moving != axes.keys() or len({shapes[array][axis] for array, axis in axes.items()}) > 1:
        return False
    if any(axes[argument] != axes[result] for argument, result in states):
        return False
    for step in body.kernels:
        assert isinstance(step, Kernel | FusedKernels)
        name, *others = {kernel.axes[axes[kernel.array]] for kernel in kernels_of(step)}
        if others or name not in common_axes(step):
            return False
        read = [load for kernel in kernels_of(step) for load in loads(kernel.body) if load.array in moving]
        if any(load.index[axes[load.array]] != Affine.variable(name) for load in read):
            return False
    return True


# ---------------------------------------------------------------------------- numbers of steps


def with_numbers_in_memory(step: Recurrence) -> Recurrence:
    """Return a recurrence in which each real-number argument of the steps is replaced by an array with one entry."""
    numbers = {a.name for a in step.body.arguments if _is_number(a)}

    def read(value: Scalar) -> Scalar:
        """Return ``x[0]`` for `value` if it is the name or an entry of a real number ``x``, which is stored as an array
        of one entry. Other expressions are unchanged.
        """
        name = value.name if isinstance(value, Name) else value.array if isinstance(value, Load) else ""
        return Load(name, (Affine(),)) if name in numbers else value

    body = step.body
    kernels = [replace(k, body=with_values(k.body, read)) if isinstance(k, Kernel) else k for k in body.kernels]
    arguments = [replace(a, kind="array", shape=(Affine.of(1),)) if a.name in numbers else a for a in body.arguments]
    return replace(step, body=replace(body, kernels=tuple(kernels), arguments=tuple(arguments)))


def _is_number(argument: Argument) -> bool:
    """Return whether an argument is a real number."""
    return argument.kind != "integer" and not argument.shape and argument.dtype == "real"
