"""A static model of kernels on a device: figures of each launch, from its nest and the sizes of a call.

Memory is read in sectors of 32 bytes. A warp of 32 threads that reads entries side by side needs as many sectors as the
entries fill; one that reads scattered entries needs one for each. The figures are counted at one warp in the middle of
the grid, at the middle of each loop; nothing is timed. A roofline gives the least time on a named device (`CARD`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import ceil, prod
from typing import Any, NamedTuple

from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel, Program, Scatter, kernels_of
from sympy_tensordiff.codegen.ir.rename import reserve_name
from sympy_tensordiff.codegen.ir.scalars import Ends, Identity, Load
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import all_names, array_shapes, function_name, subexpressions
from sympy_tensordiff.codegen.schedule.block_nests import block_nest
from sympy_tensordiff.codegen.schedule.blocks import WARP, BlockNest, names_in, shared_size
from sympy_tensordiff.codegen.schedule.iterations import Iteration, is_unrolled, iterations, work
from sympy_tensordiff.codegen.schedule.launches import Device, common_axes, on_device, thread_nest
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint

SECTOR = 32
TYPICAL = 1024
"""The sizes for which ``.plan`` shows the model."""

Values = Mapping[Any, Any]


class Card(NamedTuple):
    """The data of a GPU for the cost model: the number of its processors, the limits of one processor (such as its
    threads), and its rates per second.

    Attributes
    ----------
    threads, registers, shared, blocks : int
        The most threads, registers, bytes of shared memory and blocks of one processor at a time.
    bandwidth : float
        Bytes of global memory.
    rates : dict from int to float
        Operations on numbers of so many bytes.
    """

    name: str
    processors: int
    threads: int
    registers: int
    shared: int
    blocks: int
    bandwidth: float
    rates: Mapping[int, float]


CARD = Card("H200", 132, 2048, 2**16, 228 * 1024, 32, 4.8e12, {8: 34e12, 4: 67e12})
"""The device of ``.plan``, by its data sheet."""
REGISTERS, TILE_REGISTERS = 64, 80
"""The most registers of a thread, and of one with a tile of a product; tests compare them with the assembler's."""


class LaunchCosts(NamedTuple):
    """The predicted costs of one launch of a GPU kernel, such as memory sectors and operations, per thread unless
    stated otherwise.

    Attributes
    ----------
    name : str
        The name of the kernel.
    threads : int
        The threads of the launch.
    lanes : float
        The part of the threads of all warps that has an entry, or a term of a sum, to compute.
    loads, shared, operations : int
        Reads of global and of shared arrays, and operations on numbers.
    sectors : float
        The sectors that a warp reads of an array in an iteration, over those that their entries would fill: for the
        worst of the arrays that are read most often, but for those of 32 sectors, which stay in a cache.
    serial : int
        The rounds of the longest nest of loops.
    occupancy : float
        The part of the threads of a processor that its registers and its shared memory admit.
    slots : float
        The threads of the launch over those that the device runs at a time.
    seconds : float
        The least time: that of all operations, by the processors that have a block, or that of reading and writing
        each entry once, whichever is longer.
    iterations : tuple of Iteration
        What an iteration of each innermost loop reads and computes.
    """

    name: str
    threads: int
    lanes: float
    loads: int
    shared: int
    operations: int
    sectors: float
    serial: int
    occupancy: float
    slots: float
    seconds: float
    iterations: tuple[Iteration, ...]


def computed_sizes(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return `sizes` with those sizes added that the program computes from them."""
    known = dict(sizes)
    for size in program.sizes:
        values = [int(form.evaluate(known)) for form in (size.lows or size.highs)]
        known[size.name] = max(values) if size.lows else min(values)
    return known


def figures(device: Device, sizes: Mapping[str, int], itemsize: int = 8) -> list[LaunchCosts]:
    """Return the predicted costs of each launch of the program of ``device`` at the given sizes, for numbers of
    ``itemsize`` bytes.
    """
    program = device.program
    known, shapes = computed_sizes(program, sizes), array_shapes(program)
    found, taken = [], all_names(program)
    nests: dict[str, BlockNest] = {}
    for step in program.kernels:
        nest = block_nest(step, device.shared_loops, shapes, lambda wish: reserve_name(wish, taken))
        nests |= {} if nest is None else {step.array: nest}
    for step in program.kernels:
        if isinstance(step, Kernel | FusedKernels):
            own = None if isinstance(step, Scatter) else nests.get(step.array)
            launch = _Threads(step, shapes, known) if own is None else _ModelBlocks(own, known)
            written = [kernel.array for kernel in kernels_of(step)]
            found.append(_LaunchCounter(launch, shapes, known, itemsize).figures(function_name(step), written))
    return found


def temporary_bytes(program: Program, sizes: Mapping[str, int], itemsize: int = 8) -> dict[str, int]:
    """Return a dictionary from the names of the temporary arrays of ``program`` to their numbers of bytes at the given
    ``sizes``. Arrays that fused kernels store one row at a time, in registers, are left out.

    ``itemsize`` is the number of bytes of an entry.
    """
    known = computed_sizes(program, sizes)
    own = {row.name for step in program.kernels if isinstance(step, FusedKernels) for row in step.rows}
    arrays = [array for array in program.temporaries if array.name not in own]
    return {a.name: itemsize * prod(max(0, int(form.evaluate(known))) for form in a.shape) for a in arrays}


class _Threads:
    """The threads of a GPU launch with one thread per entry, for the cost model: block shape, number of threads, and
    the indices of each.
    """

    def __init__(self, step: Kernel | FusedKernels, shapes: Shapes, known: Values) -> None:
        axes, first = common_axes(step), kernels_of(step)[0]
        box = [max(0, int(form.evaluate(known))) for form in first.box(shapes)[: len(axes)]]
        self.body = thread_nest(step, shapes)
        for _ in axes:
            (loop,) = self.body
            assert isinstance(loop, Loop)
            self.body = loop.body
        self.shared: Sequence[Alloc] = ()
        self.has_tiles = False
        self.axes, self.box = axes, box
        *outer, rows, columns = [1, 1, *box]
        self.extents = (columns, rows, prod(outer))
        self.block = block_shape(*self.extents) if prod(box) else (1, 1, 1)
        blocks = [ceil(extent / size) for extent, size in zip(self.extents, self.block, strict=True)]
        self.start = [count // 2 * size for count, size in zip(blocks, self.block, strict=True)]
        self.count, self.size = prod(blocks), ceil(prod(self.block) / WARP) * WARP
        self.threads = self.count * self.size
        self.lanes = prod(box) / max(1, self.threads)

    def lane(self, number: int) -> dict[str, int] | None:
        """Return the indices of the entry that thread `number` of a warp computes; None for a thread without an
        entry.
        """
        width, height, _ = self.block
        inside = (number % width, number // width % height, number // (width * height))
        at = [start + own for start, own in zip(self.start, inside, strict=True)]
        if any(own >= extent for own, extent in zip(at, self.extents, strict=True)):
            return None
        values = dict(zip(self.axes[::-1][:2], at, strict=False))
        rest = at[2]
        for axis, extent in list(zip(self.axes, self.box, strict=True))[: max(0, len(self.axes) - 2)][::-1]:
            values[axis] = rest % extent
            rest //= extent
        return values


class _ModelBlocks:
    """The thread blocks of a GPU launch with shared memory, for the cost model: the width and height of a block, the
    numbers of blocks and threads, and the index values of a thread in a block (`lane`).
    """

    def __init__(self, nest: BlockNest, known: Values) -> None:
        self.nest, self.body, self.shared, self.has_tiles = nest, nest.body, nest.shared, bool(nest.tiles)
        self.width, self.height = (int(extent.evaluate(known)) for _, extent in (nest.x, nest.y))
        self.box = [(name, int(extent.evaluate(known))) for name, extent in (*nest.blocks, *nest.entries)]
        self.each = {"x": self.width, "y": self.height, "": 1}[nest.along]
        self.count = ceil(prod(extent for _, extent in self.box) / self.each)
        self.middle = self.count // 2
        self.size = ceil(self.width * self.height / WARP) * WARP
        self.threads = self.count * self.size
        self.lanes = prod(extent for _, extent in self.box) / (self.count * self.each)
        for tile, extent, full in nest.tiles:
            self.lanes *= int(extent.evaluate(known)) / (full * dict(self.box)[tile])

    def lane(self, number: int) -> dict[str, int] | None:
        """Return the values of the index variables for thread `number` of a warp, in a block in the middle of the GPU
        grid. None if this thread computes no entry.
        """
        x, y = number % self.width, number // self.width
        if y >= self.height:
            return None
        values = {self.nest.x[0]: x, self.nest.y[0]: y}
        rest = self.middle * self.each + {"x": x, "y": y, "": 0}[self.nest.along]
        for name, extent in reversed(self.box):
            values[name] = rest % extent
            rest //= extent
        return None if rest else values


class _LaunchCounter:
    """The cost model of one GPU launch: it counts reads and operations by running through the loop nest for the threads
    of one warp.
    """

    def __init__(self, launch: _Threads | _ModelBlocks, shapes: Shapes, known: Values, itemsize: int) -> None:
        self.launch, self.itemsize = launch, itemsize
        self.shared = {alloc.name for alloc in launch.shared}
        self.entries = {
            name: prod(max(0, int(form.evaluate(known))) for form in shape) for name, shape in shapes.items()
        }
        self.reads: dict[str, int] = {}
        """The reads of a thread from each array."""
        self.strides = {
            name: [prod(int(form.evaluate(known)) for form in shape[axis + 1 :]) for axis in range(len(shape))]
            for name, shape in shapes.items()
        }
        own = [launch.lane(number) for number in range(WARP)]
        self.warp = [{**known, **lane} for lane in own if lane is not None]
        self.loads = self.shared_loads = self.operations = self.serial = 0
        self.level, self.times = 0, [1]
        """The number of the loop around the current statement, and how often the body of each is executed."""
        self.touched: dict[tuple[int, str], tuple[set[int], set[int]]] = {}
        """The offsets that a warp reads of an array in a loop: in one iteration, and in those of short loops in it."""
        self.short: list[Loop] = []
        """The loops of a few constant iterations around the current statement."""

    def figures(self, name: str, written: Sequence[str]) -> LaunchCosts:
        """Return the predicted costs of the launch of the kernel ``name``, which fills the arrays ``written``, counted
        in its statements for one warp of threads.
        """
        if self.warp:
            self.count(self.launch.body, self.warp, 1)
        resident = self.resident_blocks() * self.launch.size
        slots = self.launch.threads / max(1, CARD.processors * resident)
        return LaunchCosts(
            name, self.launch.threads, self.launch.lanes, self.loads, self.shared_loads, self.operations,
            self.worst_ratio(), self.serial, resident / CARD.threads, slots, self.least_seconds(written),
            tuple(iterations(self.launch.body, self.shared)),
        )  # fmt: skip

    def resident_blocks(self) -> int:
        """Return how many blocks of the launch are resident on one multiprocessor at a time."""
        threads = max(WARP, self.launch.size)
        registers = threads * (TILE_REGISTERS if self.launch.has_tiles else REGISTERS)
        shared = self.itemsize * sum(map(shared_size, self.launch.shared))
        most = min(CARD.blocks, CARD.threads // threads, CARD.registers // registers)
        return min(most, CARD.shared // shared) if shared else most

    def least_seconds(self, written: Sequence[str]) -> float:
        """Return a lower bound of the run time of the launch in seconds (the roofline model). ``written`` are the
        arrays that it writes.
        """
        threads = round(self.launch.threads * self.launch.lanes)
        share = min(1.0, self.launch.count / CARD.processors)
        entries = [min(self.entries[array], count * threads) for array, count in self.reads.items()]
        moved = self.itemsize * (sum(entries) + sum(self.entries[array] for array in written))
        compute = self.operations * threads / CARD.rates[self.itemsize]
        return max(compute / share if share else 0.0, moved / CARD.bandwidth)

    def count(self, body: Sequence[Statement], warp: Sequence[dict[Any, Any]], times: int) -> None:
        """Add the costs of the statements `body` to the counts; the threads of `warp` execute them `times` times."""
        for statement in body:
            if isinstance(statement, If):
                inside = [lane for lane in warp if _holds(statement.conditions, lane)]
                self.count(statement.body, inside or warp, times)
            elif isinstance(statement, Loop):
                rounds, inner = _middle(statement, warp)
                self.serial = max(self.serial, times * rounds)
                is_short, level = is_unrolled(statement), self.level
                self.short += [statement] * is_short
                if not is_short:
                    self.level = len(self.times)
                    self.times.append(times * rounds)
                self.count(statement.body, inner, times * rounds)
                self.short, self.level = self.short[:-1] if is_short else self.short, level
            elif isinstance(statement, Set) and times:
                self.count_value(statement, warp, times)

    def count_value(self, statement: Set, warp: Sequence[Values], times: int) -> None:
        """Add to the counts the operations and reads of one statement, which a warp executes `times` times. ``warp``
        has the values of the loop variables in each of its threads.
        """
        if isinstance(statement.value, Ends | Identity):
            return
        nodes = list(subexpressions(statement.value))
        self.operations += times * (bool(statement.reduction) + sum(map(work, nodes)))
        for load in dict.fromkeys(node for node in nodes if isinstance(node, Load)):
            if load.array in self.shared:
                self.shared_loads += times
                continue
            self.loads += times
            self.reads[load.array] = self.reads.get(load.array, 0) + times
            with suppress(KeyError, TypeError, VerificationError):  # data select the entry
                self.touch(load, warp)

    def touch(self, load: Load, warp: Sequence[Values]) -> None:
        """Record the memory offsets of the entries that the threads of a GPU warp read by ``load``: those of one
        iteration, and those of all iterations of the short loops around it. ``warp`` has the index values of each
        thread.

        The memory sectors of short loops stay in the cache. Small arrays are left out.
        """
        if self.entries[load.array] * self.itemsize <= WARP * SECTOR:
            return
        used = names_in(load.index)
        ranges = [
            [(loop.variable, value) for value in range(loop.lows[0].form.constant, loop.highs[0].form.constant + 1)]
            for loop in self.short
            if loop.variable in used
        ]
        together = [{**lane, **dict(chosen)} for chosen in product(*ranges) for lane in warp]
        touched = self.touched.setdefault((self.level, load.array), (set(), set()))
        for offsets, points in zip(touched, (warp, together), strict=True):
            offsets |= {self.offset(load, values) for values in points}

    def offset(self, load: Load, values: Values) -> int:
        """Return the offset, in entries from the beginning of the array, at which the read ``load`` accesses it in a
        thread whose variables have the ``values``.
        """
        strides = self.strides[load.array]
        return sum(int(form.evaluate(values)) * stride for form, stride in zip(load.index, strides, strict=True))

    def ratio(self, offsets: Collection[int]) -> float:
        """Return the number of memory sectors that the entries at `offsets` occupy, divided by the number for as many
        adjacent entries.
        """
        sectors = {offset * self.itemsize // SECTOR for offset in offsets}
        return len(sectors) / ceil(len(offsets) * self.itemsize / SECTOR)

    def worst_ratio(self) -> float:
        """Return the ratio of memory sectors read to sectors needed, 1 if the reads are perfectly coalesced. It is the
        worst ratio among the arrays that are read most often.
        """
        worst: dict[int, float] = {}
        for (level, _), each in self.touched.items():
            times = self.times[level]
            worst[times] = max(min(map(self.ratio, filter(None, each)), default=1.0), worst.get(times, 0.0))
        return worst[max(worst)] if worst else 1.0


def _holds(rows: Sequence[Constraint], lane: Values) -> bool:
    """Return whether the constraints `rows` hold for a GPU thread, given ``lane``, the values of its variables; True if
    they depend on the data of a call, which are not known.
    """
    try:
        values = [(row, int(row.form.evaluate(lane))) for row in rows]
    except KeyError:  # of data, which the model does not know
        return True
    return all(v >= 0 if r.kind == "ge" else v == 0 if r.kind == "eq" else v % r.modulus == 0 for r, v in values)


def _middle(loop: Loop, warp: Sequence[dict[Any, Any]]) -> tuple[int, list[dict[Any, Any]]]:
    """Return ``(iterations, variables)``: the greatest number of iterations that `loop` has in any thread of a warp,
    and the variables of each thread in the middle iteration.
    """
    most, inner = 0, []
    for lane in warp:
        low = max(ceil(b.form.evaluate(lane) / b.divisor) for b in loop.lows)
        high = min(b.form.evaluate(lane) // b.divisor for b in loop.highs)
        step = int(loop.step.evaluate(lane)) if isinstance(loop.step, Affine) else loop.step
        rounds = max(0, (high - low) // step + 1 if step > 0 else high - low + 1)
        most = max(most, rounds)
        inner.append({**lane, loop.variable: low + rounds // 2 * step})
    return most, inner


def block_shape(columns: int, rows: int, outer: int) -> tuple[int, int, int]:
    """Return the numbers of threads of a GPU block along x, y and z, for a grid with `columns`, `rows` and `outer`
    entries along these axes. The generated function ``launch`` chooses them in the same way.
    """

    def share(extent: int, most: int) -> int:
        """Return ``extent/n``, rounded up, for the smallest number of parts n such that the parts have at most ``most``
        entries: 34 for 100 entries in parts of at most 40.
        """
        return ceil(extent / ceil(extent / most))

    width = columns if columns <= 128 else ceil(share(columns, 256 if outer * rows == 1 else 128) / 8) * 8
    height = share(rows, 256 // width)
    return width, height, share(outer, min(256 // (width * height), 64))


def describe_model(program: Program) -> Iterator[str]:
    """Yield the lines of ``.plan`` with the predicted costs of the launches, at `TYPICAL` sizes."""
    device = on_device(program)
    names = {a.name for a in program.arguments if a.kind == "integer"}
    names |= {solved.name for solved in solve_sizes(program.arguments)}
    sizes = dict.fromkeys(names, TYPICAL)
    found, memory = figures(device, sizes), sum(temporary_bytes(device.program, sizes).values()) / 2**20
    where = f" for sizes of {TYPICAL}" if sizes else ""
    least = 1e6 * sum(one.seconds for one in found)
    yield (
        f"model of an {CARD.name}{where}, in float64: {len(found)} launches, {memory:.3g} MB of temporaries, "
        f"at least {least:.3g} microseconds"
    )
    for one in found:
        per, inner = one.loads / max(1, one.operations), max(one.iterations, key=lambda own: own.operations)
        yield (
            f"  {one.name}: {one.threads} threads, {100 * one.lanes:.0f} % of lanes, {per:.2g} loads per operation "
            f"({inner.loads} for {inner.operations} in an iteration), {one.sectors:.2g} of the ideal sectors, "
            f"{one.serial} rounds, {100 * one.occupancy:.0f} % occupancy, at least {1e6 * one.seconds:.3g} microseconds"
        )
