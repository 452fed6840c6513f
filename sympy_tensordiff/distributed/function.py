"""The callable of ``backend="dask"``: its arguments, results, footprints and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.codegen.api import register_distribution
from sympy_tensordiff.codegen.ir.sizes import EmptyAxes
from sympy_tensordiff.codegen.program import program_at
from sympy_tensordiff.codegen.run.plan_text import Plan
from sympy_tensordiff.codegen.run.results import flatten, nesting
from sympy_tensordiff.codegen.run.signature import in_order, size_checker
from sympy_tensordiff.distributed.arguments import (
    blocks_from_chunks,
    check_blocks,
    evaluate_extent,
    import_dask,
    numeric_shape,
    parse_memory,
    to_block_source,
)
from sympy_tensordiff.distributed.kernels import BlockKernel, loops_of_part
from sympy_tensordiff.distributed.partials import PartialResult, ResultSplitter
from sympy_tensordiff.distributed.tasks import MAX_FAN_IN, CallContext, count_tree_tasks, make_dask_arrays
from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.symbolic.expressions.traversal import names_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


class BlockCost(NamedTuple):
    """The predicted cost of one call on a cluster: the numbers of tasks, the bytes that they read and reduce, and the
    memory of the largest one.
    """

    kernel_tasks: int
    reduction_tasks: int
    bytes_read: int
    bytes_reduced: int
    peak: int


class KernelBlock(NamedTuple):
    """The work of one task, a block of a kernel: its position in the grid of blocks, its integer arguments, the slices
    of each input that it reads, and the shapes of its results.
    """

    position: tuple[int, ...]
    integers: list[int]
    cuts: list[tuple[slice, ...] | None]
    result_shapes: list[tuple[int, ...]]

    def bytes(self, itemsize: int) -> tuple[int, int]:
        """Return ``(read, returned)``: the numbers of bytes of the block's inputs and results, with ``itemsize`` bytes
        per entry.
        """
        read = sum(prod([s.stop - s.start for s in cut]) for cut in self.cuts if cut is not None)
        return read * itemsize, sum(map(prod, self.result_shapes)) * itemsize


class _BlockProgram(NamedTuple):
    """The kernels compiled for given block sizes. The arrays that they compute are numbered: ``results`` has the
    numbers of the function's results, ``stages`` those of intermediate arrays. ``min_sizes`` has the least sizes for
    which the kernels are valid.
    """

    blocks: dict[str, int | None]
    kernels: tuple[BlockKernel, ...]
    results: list[int]
    stages: dict[TensorSymbol, int]
    min_sizes: dict[str, int]


class DaskFunction:
    """The function that `lambdify` returns for ``backend="dask"``; it takes arrays and returns lazy dask arrays.

    Arguments are NumPy arrays, memory maps, arrays of zarr and h5py, dask arrays of any chunks, in order or by name.
    Without ``blocks`` the largest chunks of the arguments of a call are the blocks, and `plan`, `kernels`, `footprint`
    and `cost` are those of the last call.
    """

    def __init__(
        self, args: Any, expr: Any, blocks: Mapping[Any, int | None] | None, backend: str, memory: Any, options: Any
    ) -> None:
        self.args = tuple(args) if isinstance(args, tuple | list) else (args,)
        self._exprs, self._structure = flatten(expr)
        self._checker = size_checker(self.args, self._exprs, may_be_empty=True)
        self.memory = parse_memory(memory)
        self._options = backend, options
        self._programs: dict[Any, _BlockProgram] = {}
        self._last: tuple[dict[str, int], int] | None = None
        self._given_program = None if blocks is None else self._program_for(check_blocks(blocks))
        self._current = self._given_program

    @property
    def kernels(self) -> tuple[BlockKernel, ...]:
        """The compiled kernels, in the order of their numbers in `plan`."""
        return self._program.kernels

    @property
    def _program(self) -> _BlockProgram:
        """The kernels for the block sizes in use: those of ``blocks``, or the chunks of the last call. Raise
        `ArgumentError` if there is neither.
        """
        if self._current is None:
            raise ArgumentError(
                "without blocks= the chunks of a call decide, and there was none: call the function first"
            )
        return self._current

    def _program_for(self, blocks: dict[str, int | None]) -> _BlockProgram:
        """Return the kernels for these block sizes, compiled once."""
        key = tuple(blocks.items())
        if key not in self._programs:
            self._programs[key] = self._compile(blocks)
        return self._programs[key]

    def _compile(self, blocks: dict[str, int | None]) -> _BlockProgram:
        """Return the compiled kernels for these block sizes. Raise if ``blocks`` names an unknown size or splits
        nothing.
        """
        splitter = ResultSplitter(blocks)
        results = [splitter.add(one) for one in self._exprs]
        shapes = [sympy.sympify(n) for arg in self.args if isinstance(arg, TensorSymbol) for n in arg.shape]
        unknown = blocks.keys() - names_in(shapes) - splitter.names
        if unknown:
            raise ArgumentError(
                f"blocks has an entry for {', '.join(sorted(unknown))}, which is not a size or an index of the "
                "expressions: take it out"
            )
        if not splitter.loops.loop_of_key:
            raise UnsupportedError(
                f"no axis of a result and no sum has a range that blocks={blocks} splits: a block would be the "
                "whole result. Name a size of an axis or of a sum, or take another backend"
            )
        groups: dict[Any, list[PartialResult]] = {}
        for part in splitter.parts:
            groups.setdefault((part.level, loops_of_part(part)), []).append(part)
        every = (*self.args, *splitter.result_of_stage)
        ordered = sorted(groups.items(), key=lambda item: item[0][0])
        backend, options = self._options
        kernels = tuple(BlockKernel(parts, every, blocks, backend, options) for _, parts in ordered)
        return _BlockProgram(blocks, kernels, results, splitter.result_of_stage, splitter.min_sizes)

    # ------------------------------------------------------------------------ a call

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Return lazy results, nested like the expressions; ``named`` are arguments by name."""
        if out is not None:
            raise ArgumentError(
                "results of backend='dask' are lazy, so there is nothing to fill out= with: leave it out, and write "
                "the results by dask.array.store(results, targets) or to_zarr"
            )
        if named:
            arrays = in_order(self._checker.arguments, arrays, named)
        self._checker.check_count(arrays)
        read = [
            to_block_source(arg, a, v) for arg, a, v in zip(self.args, self._checker.arguments, arrays, strict=True)
        ]
        values = dict(zip(self.args, read, strict=True))
        self._current = program = self._given_program or self._program_for(blocks_from_chunks(values))
        try:
            sizes = self._checker.sizes(read)
        except EmptyAxes as empty:  # blocks without entries are left out
            sizes = dict(empty.values)
        self._check_least(sizes)
        self._check_empty_axes(sizes)
        call = CallContext(sizes, self._checker.result_dtype(read), values)
        self._last = sizes, call.dtype.itemsize
        addends: dict[int, list[Any]] = {}
        for number, kernel in enumerate(program.kernels):
            for stage, result in program.stages.items():
                if any(one.arg == stage for one in kernel.inputs):
                    values[stage] = sum(addends[result][1:], addends[result][0])
            blocks = list(self._blocks(kernel, sizes))
            if self.memory is not None:
                for block in blocks:
                    self._check_memory(number, block, call.dtype.itemsize)
            for part, array in zip(kernel.parts, make_dask_arrays(kernel, blocks, call), strict=True):
                addends.setdefault(part.result, []).append(array)
        return nesting(self._structure)([sum(addends[number][1:], addends[number][0]) for number in program.results])

    def _blocks(self, kernel: BlockKernel, sizes: dict[str, int]) -> Any:
        """Yield all nonempty blocks of a kernel at the given sizes."""
        shapes = {one.arg: numeric_shape(one.arg, sizes) for one in kernel.inputs if isinstance(one.arg, TensorSymbol)}
        axes = [[(evaluate_extent(n, sizes), loop) for _, n, loop in part.axes] for part in kernel.parts]
        grids = [loop.grid(sizes) for loop in kernel.loops]
        for position in product(*(range(len(grid)) for grid in grids)):
            at = {loop: grid[k] for loop, grid, k in zip(kernel.loops, grids, position, strict=True)}
            variables = kernel.values(at, sizes)
            if kernel.is_empty(variables):
                continue
            cuts = kernel.slices(variables, shapes)
            result_shapes = [tuple(at[loop][1] if loop else n for n, loop in own) for own in axes]
            yield KernelBlock(position, kernel.integers(variables), cuts, result_shapes)

    def _check_least(self, sizes: Mapping[str, int]) -> None:
        """Raise `ArgumentError` if a size is smaller than the compiled kernels allow (periodic indices need a block of
        entries).
        """
        for name, min_size in self._program.min_sizes.items():
            if name in sizes and sizes[name] < min_size:
                raise ArgumentError(
                    f"{name} = {sizes[name]} is less than one block of {min_size}, and periodic indices are correct "
                    f"for one block at least: give blocks={{{name}: ...}} of at most {sizes[name]}"
                )

    def _check_empty_axes(self, sizes: Mapping[str, int]) -> None:
        """Raise an error if an axis without entries makes a result undefined, such as the maximum of nothing; other
        backends raise it, too.
        """
        extents = [n for arg in self.args if isinstance(arg, TensorSymbol) for n in arg.shape]
        names = names_in(sympy.sympify(n) for n in extents if evaluate_extent(n, sizes) == 0) & sizes.keys()
        if names:
            empty_axes = tuple([(name, sizes[name]) for name in sorted(names)])
            program_at(self.args, tuple(self._exprs), "", {}, empty_axes)

    def _check_memory(self, number: int, block: KernelBlock, itemsize: int) -> None:
        """Raise `UnsupportedError` if the task of ``block`` in kernel ``number``, or a reduction of its results, needs
        more bytes than the user's limit ``memory``. A number takes ``itemsize`` bytes.
        """
        kernel = self.kernels[number]
        parts = list(zip(kernel.parts, block.result_shapes, strict=True))
        needed = max(
            sum(block.bytes(itemsize)), *((MAX_FAN_IN + 1) * prod(s) * itemsize * bool(p.loops) for p, s in parts)
        )
        if self.memory is None or needed <= self.memory:
            return
        inputs = [(one, cut) for one, cut in zip(kernel.inputs, block.cuts, strict=True) if cut is not None]
        read = [f"{one.arg.name} {tuple(s.stop - s.start for s in cut)}" for one, cut in inputs]
        results = [f"{shape}{f', {MAX_FAN_IN} of them to be reduced' * bool(part.loops)}" for part, shape in parts]
        axes: list[Any] = [(n, loop) for part in kernel.parts for _, n, loop in part.axes]
        axes += [axis for one, _ in inputs for axis in zip(one.arg.shape, one.cuts, strict=True)]
        whole = sorted({s.name for n, cut in axes if not cut for s in sympy.sympify(n).free_symbols})
        also = f", or blocks of {', '.join(whole)}" * bool(whole)
        raise UnsupportedError(
            f"block {block.position} of kernel {number} reads {'; '.join(read) or 'nothing'} and makes "
            f"{'; '.join(results)}: {needed:,} bytes at {itemsize} an entry, more than memory={self.memory:,}. Give "
            f"smaller blocks than {self._program.blocks}{also}"
        )

    # ------------------------------------------------------------------------ what a block reads, what a call costs

    def footprint(self, block: Sequence[int], kernel: int = 0, **sizes: int) -> dict[str, tuple[slice, ...]]:
        """Return a dictionary from arguments to the slices, one per axis, that contain all entries which one block
        reads: the block at position ``block`` of kernel number ``kernel``, at the given ``sizes``.

        Parameters
        ----------
        block : sequence of int
            The number of the block along each loop of the kernel, as the plan lists them.
        kernel : int
            The number of the kernel in the plan.
        **sizes : int
            The sizes by their names; those of the last call where none is given.

        Returns
        -------
        dict
            Slices by the names of arguments, and of stages: on each axis from the first to the last entry that is
            read. Empty ones where the block reads nothing.

        See Also
        --------
        loads : the slices that a task loads, which are less if two indices of an argument are in different blocks.
        """
        found = {a.name: (slice(0, 0),) * a.rank for a in self.args if isinstance(a, TensorSymbol)}
        for name, cuts in self.loads(block, kernel, **sizes).items():
            found[name] = tuple(slice(min(s.start for s in a), max(s.stop for s in a)) for a in zip(*cuts, strict=True))
        return found

    def loads(self, block: Sequence[int], kernel: int = 0, **sizes: int) -> dict[str, list[tuple[slice, ...]]]:
        """Return a dictionary from arguments to the lists of slices that one task loads: the task of the block at
        position ``block`` of kernel number ``kernel``, at the given ``sizes``.

        Examples
        --------
        >>> import sympy_tensordiff as td
        >>> i, n = td.indices("i n")
        >>> x = td.TensorSymbol("x", n)
        >>> mirrored = td.TensorComprehension(x[i] * x[n - 1 - i], (i, n))
        >>> f = td.lambdify(x, mirrored, "dask", blocks={n: 4})  # doctest: +SKIP
        >>> f.loads((0,), n=100), f.footprint((0,), n=100)  # doctest: +SKIP
        ({'x': [(slice(0, 4, None),), (slice(96, 100, None),)]}, {'x': (slice(0, 100, None),)})
        """
        known_sizes, _ = self._complete_sizes(sizes)
        one = self.kernels[kernel]
        grids = [loop.grid(known_sizes) for loop in one.loops]
        if len(block) != len(grids) or not all(0 <= k < len(g) for k, g in zip(block, grids, strict=True)):
            raise ArgumentError(
                f"kernel {kernel} has blocks {[len(g) for g in grids]} along its loops: there is no block {block}"
            )
        values = one.values({loop: grid[k] for loop, grid, k in zip(one.loops, grids, block, strict=True)}, known_sizes)
        found: dict[str, list[tuple[slice, ...]]] = {}
        for given in one.inputs:
            cuts = given.slices(values, numeric_shape(given.arg, known_sizes)) if given.ranges else None
            if cuts is not None:
                found.setdefault(given.arg.name, []).append(cuts)
        return found

    def cost(self, itemsize: int | None = None, **sizes: int) -> BlockCost:
        """Return the predicted number of tasks and bytes of a call at given sizes, for entries of ``itemsize`` bytes
        (by default as in the last call, or 8). No array is needed for it.
        """
        known_sizes, last = self._complete_sizes(sizes)
        itemsize = itemsize or last
        kernel_tasks = reduction_tasks = read = reduced = peak = 0
        for kernel in self.kernels:
            groups: dict[Any, int] = {}
            for block in self._blocks(kernel, known_sizes):
                loaded, result_shapes = block.bytes(itemsize)
                kernel_tasks, read, peak = kernel_tasks + 1, read + loaded, max(peak, loaded + result_shapes)
                for number, (part, shape) in enumerate(zip(kernel.parts, block.result_shapes, strict=True)):
                    if part.loops:
                        where = number, part.position(kernel.loops, block.position)
                        groups[where] = groups.get(where, 0) + 1
                        reduced += prod(shape) * itemsize
                        peak = max(peak, (min(MAX_FAN_IN, groups[where]) + 1) * prod(shape) * itemsize)
            reduction_tasks += sum(map(count_tree_tasks, groups.values()))
        return BlockCost(kernel_tasks, reduction_tasks, read, reduced, peak)

    def _complete_sizes(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Return the sizes by name, and the bytes of an entry. If ``sizes`` is empty, use the sizes of the last call;
        raise `ArgumentError` if one is missing.
        """
        _ = self._program
        if not sizes:
            if self._last is None:
                raise ArgumentError(
                    "the sizes are unknown before the first call: give them by name, as in footprint((0,), n=1000)"
                )
            return self._last
        known_sizes = {name: int(value) for name, value in sizes.items()}
        tensors = [arg for arg in (*self.args, *self._program.stages) if isinstance(arg, TensorSymbol)]
        missing = {s.name for t in tensors for n in t.shape for s in sympy.sympify(n).free_symbols} - known_sizes.keys()
        if missing:
            raise ArgumentError(f"the size {', '.join(sorted(missing))} is missing: give all sizes by name")
        self._check_least(known_sizes)
        return known_sizes, 8

    @property
    def plan(self) -> str:
        """A text on the loops over blocks, the reductions over them, the inputs of each kernel, and the cost of the
        last call.
        """
        lines = []
        names = {number: f"stage {stage.name}" for stage, number in self._program.stages.items()}
        names |= {number: f"result {k}" for k, number in enumerate(self._program.results)}
        for number, kernel in enumerate(self.kernels):
            lines.append(f"kernel {number}:")
            lines += [f"  loop {k}: {loop}" for k, loop in enumerate(kernel.loops)]
            for part in kernel.parts:
                axes = [f"axis {a} by loop {kernel.loops.index(o)}" for a, (_, _, o) in enumerate(part.axes) if o]
                over = ", ".join(f"loop {kernel.loops.index(o)}" for o in kernel.loops if o in part.loops)
                what = [*axes, *([f"{part.operation} over {over}, {MAX_FAN_IN} at a time"] if over else [])]
                lines.append(f"  {names[part.result]}: {'; '.join(what) or 'computed once'}")
            for one in kernel.inputs:
                shown = [("part of " if cut else "all of ") + f"axis {a}" for a, cut in enumerate(one.cuts)]
                lines.append(f"  reads {one.arg.name}: {', '.join(shown) or 'a number'}")
        if self._last:
            lines.append(f"the last call: {self.cost()}")
        return Plan("\n".join(lines))


@register_distribution
def distribute(
    args: Any, expr: Any, blocks: Any, memory: Any, backend: str, options: Mapping[str, Any]
) -> DaskFunction:
    """Return the `DaskFunction` that computes ``expr`` in blocks, when `lambdify` is called with a backend on Dask. The
    parameters are those of `lambdify`; ``options`` has the remaining ones.
    """
    import_dask()
    if backend == "dask-numpy":
        return DaskFunction(args, expr, blocks, "numpy", memory, dict(options))
    serial = {**options, "parallel": False}  # Dask runs one thread for each task
    return DaskFunction(args, expr, blocks, "llvm", memory, serial)
