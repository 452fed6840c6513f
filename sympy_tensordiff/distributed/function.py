"""The callable of ``backend="dask"``: what it takes, what it returns, what a block reads, what a call costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.codegen.api import register_distribution
from sympy_tensordiff.codegen.program import program_at
from sympy_tensordiff.codegen.run.results import flatten, nesting
from sympy_tensordiff.codegen.run.signature import in_order, size_checker
from sympy_tensordiff.distributed.arguments import (
    blocks_of_chunks,
    checked_blocks,
    checked_memory,
    import_dask,
    number_at,
    shape_of,
    source,
)
from sympy_tensordiff.distributed.kernels import Kernel, loops_of
from sympy_tensordiff.distributed.partials import Part, Splitter
from sympy_tensordiff.distributed.tasks import FAN, Call, blocks_of, tree_tasks
from sympy_tensordiff.errors import ArgumentError, UnsupportedError
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.traversal import names_in


class Cost(NamedTuple):
    """What one call asks of a cluster.

    Tasks of kernels and of reductions, bytes that kernels read and that reductions add, and the bytes that the largest
    task reads and returns.
    """

    kernel_tasks: int
    reduction_tasks: int
    bytes_read: int
    bytes_reduced: int
    peak: int


class Block(NamedTuple):
    """A block of a kernel: its number along each loop, what it loads of each input, the shapes of what it makes."""

    position: tuple[int, ...]
    integers: list[int]
    cuts: list[tuple[slice, ...] | None]
    made: list[tuple[int, ...]]

    def bytes(self, itemsize: int) -> tuple[int, int]:
        """What it reads, what it makes."""
        read = sum(prod([s.stop - s.start for s in cut]) for cut in self.cuts if cut is not None)
        return read * itemsize, sum(map(prod, self.made)) * itemsize


class _Split(NamedTuple):
    """The kernels for some blocks, in which parts results are, which are stages, and the least sizes."""

    blocks: dict[str, int | None]
    kernels: tuple[Kernel, ...]
    results: list[int]
    stages: dict[TensorSymbol, int]
    least: dict[str, int]


class DaskFunction:
    """What `lambdify` returns for ``backend="dask"``; it takes arrays and returns lazy dask arrays.

    Arguments are NumPy arrays, memory maps, arrays of zarr and h5py, dask arrays of any chunks, in order or by name.
    Without ``blocks`` the largest chunks of the arguments of a call are the blocks, and `plan`, `kernels`, `footprint`
    and `cost` are those of the last call.

    Attributes
    ----------
    plan : str
        Which loops are in blocks, what is reduced over them, what each kernel reads, what the last call costs.
    kernels : tuple of Kernel
        The compiled functions, in the order of `footprint`'s ``kernel``.
    """

    def __init__(
        self, args: Any, expr: Any, blocks: Mapping[Any, int | None] | None, backend: str, memory: Any, options: Any
    ) -> None:
        self.args = tuple(args) if isinstance(args, tuple | list) else (args,)
        self._exprs, self._structure = flatten(expr)
        self._checker = size_checker(self.args, self._exprs, may_be_empty=True)
        self.memory = checked_memory(memory)
        self._options = backend, options
        self._known: dict[Any, _Split] = {}
        self._last: tuple[dict[str, int], int] | None = None
        self._fixed = None if blocks is None else self._split_by(checked_blocks(blocks))
        self._latest = self._fixed

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self._split.kernels

    @property
    def _split(self) -> _Split:
        """What ``blocks``, or the chunks of the last call, make of the expressions."""
        if self._latest is None:
            raise ArgumentError(
                "without blocks= the chunks of a call decide, and there was none: call the function first"
            )
        return self._latest

    def _split_by(self, blocks: dict[str, int | None]) -> _Split:
        key = tuple(blocks.items())
        if key not in self._known:
            self._known[key] = self._compiled(blocks)
        return self._known[key]

    def _compiled(self, blocks: dict[str, int | None]) -> _Split:
        splitter = Splitter(blocks)
        results = [splitter.add(one) for one in self._exprs]
        shapes = [sympy.sympify(n) for arg in self.args if isinstance(arg, TensorSymbol) for n in arg.shape]
        unknown = blocks.keys() - names_in(shapes) - splitter.names
        if unknown:
            raise ArgumentError(
                f"blocks has an entry for {', '.join(sorted(unknown))}, which is not a size or an index of the "
                "expressions: take it out"
            )
        if not splitter.loops.known:
            raise UnsupportedError(
                f"no axis of a result and no sum has a range that blocks={blocks} splits: a block would be the "
                "whole result. Name a size of an axis or of a sum, or take another backend"
            )
        groups: dict[Any, list[Part]] = {}
        for part in splitter.parts:
            groups.setdefault((part.level, loops_of(part)), []).append(part)
        every = (*self.args, *splitter.number_of)
        ordered = sorted(groups.items(), key=lambda item: item[0][0])
        backend, options = self._options
        kernels = tuple(Kernel(parts, every, blocks, backend, options) for _, parts in ordered)
        return _Split(blocks, kernels, results, splitter.number_of, splitter.least)

    # ------------------------------------------------------------------------ a call

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Lazy results, nested as the expressions are; ``named`` are arguments by their names."""
        if out is not None:
            raise ArgumentError(
                "results of backend='dask' are lazy, so there is nothing to fill out= with: leave it out, and write "
                "the results by dask.array.store(results, targets) or to_zarr"
            )
        if named:
            arrays = in_order(self._checker.arguments, arrays, named)
        self._checker.check_count(arrays)
        read = [source(arg, a, v) for arg, a, v in zip(self.args, self._checker.arguments, arrays, strict=True)]
        values = dict(zip(self.args, read, strict=True))
        self._latest = split = self._fixed or self._split_by(blocks_of_chunks(values))
        sizes = self._checker.sizes(read)
        self._check_least(sizes)
        self._check_empty_axes(sizes)
        call = Call(sizes, self._checker.result_dtype(read), values)
        self._last = sizes, call.dtype.itemsize
        addends: dict[int, list[Any]] = {}
        for number, kernel in enumerate(split.kernels):
            for stage, result in split.stages.items():
                if any(one.arg == stage for one in kernel.inputs):
                    values[stage] = sum(addends[result][1:], addends[result][0])
            blocks = list(self._blocks(kernel, sizes))
            if self.memory is not None:
                for block in blocks:
                    self._check_memory(number, block, call.dtype.itemsize)
            for part, array in zip(kernel.parts, blocks_of(kernel, blocks, call), strict=True):
                addends.setdefault(part.result, []).append(array)
        return nesting(self._structure)([sum(addends[number][1:], addends[number][0]) for number in split.results])

    def _blocks(self, kernel: Kernel, sizes: dict[str, int]) -> Any:
        """All blocks of a kernel."""
        shapes = {one.arg: shape_of(one.arg, sizes) for one in kernel.inputs if isinstance(one.arg, TensorSymbol)}
        axes = [[(number_at(n, sizes), loop) for _, n, loop in part.axes] for part in kernel.parts]
        grids = [loop.grid(sizes) for loop in kernel.loops]
        for position in product(*(range(len(grid)) for grid in grids)):
            at = {loop: grid[k] for loop, grid, k in zip(kernel.loops, grids, position, strict=True)}
            known = kernel.values(at, sizes)
            if kernel.is_empty(known):
                continue
            cuts = kernel.slices(known, shapes)
            made = [tuple(at[loop][1] if loop else n for n, loop in own) for own in axes]
            yield Block(position, kernel.integers(known), cuts, made)

    def _check_least(self, sizes: Mapping[str, int]) -> None:
        for name, least in self._split.least.items():
            if name in sizes and sizes[name] < least:
                raise ArgumentError(
                    f"{name} = {sizes[name]} is less than one block of {least}, and periodic indices are read right "
                    f"where there is one at least: give blocks={{{name}: ...}} of at most {sizes[name]}"
                )

    def _check_empty_axes(self, sizes: Mapping[str, int]) -> None:
        """Raise where a result has no value since an axis has no entries, as other backends do."""
        extents = [n for arg in self.args if isinstance(arg, TensorSymbol) for n in arg.shape]
        names = names_in(sympy.sympify(n) for n in extents if number_at(n, sizes) == 0) & sizes.keys()
        if names:
            known = tuple([(name, sizes[name]) for name in sorted(names)])
            program_at(self.args, tuple(self._exprs), "", {}, known)

    def _check_memory(self, number: int, block: Block, itemsize: int) -> None:
        """Raise where a task of a block, or a reduction of what it makes, needs more bytes than ``memory``."""
        kernel = self.kernels[number]
        parts = list(zip(kernel.parts, block.made, strict=True))
        needed = max(sum(block.bytes(itemsize)), *((FAN + 1) * prod(s) * itemsize * bool(p.loops) for p, s in parts))
        if self.memory is None or needed <= self.memory:
            return
        inputs = [(one, cut) for one, cut in zip(kernel.inputs, block.cuts, strict=True) if cut is not None]
        read = [f"{one.arg.name} {tuple(s.stop - s.start for s in cut)}" for one, cut in inputs]
        made = [f"{shape}{f', {FAN} of them to be reduced' * bool(part.loops)}" for part, shape in parts]
        axes: list[Any] = [(n, loop) for part in kernel.parts for _, n, loop in part.axes]
        axes += [axis for one, _ in inputs for axis in zip(one.arg.shape, one.cuts, strict=True)]
        whole = sorted({s.name for n, cut in axes if not cut for s in sympy.sympify(n).free_symbols})
        also = f", or blocks of {', '.join(whole)}" * bool(whole)
        raise UnsupportedError(
            f"block {block.position} of kernel {number} reads {'; '.join(read) or 'nothing'} and makes "
            f"{'; '.join(made)}: {needed:,} bytes at {itemsize} an entry, more than memory={self.memory:,}. Give "
            f"smaller blocks than {self._split.blocks}{also}"
        )

    # ------------------------------------------------------------------------ what a block reads, what a call costs

    def footprint(self, block: Sequence[int], kernel: int = 0, **sizes: int) -> dict[str, tuple[slice, ...]]:
        """The slices of every argument that one block reads.

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
        loads : what a task loads, which is less where two indices of an argument are in different blocks.
        """
        found = {a.name: (slice(0, 0),) * a.rank for a in self.args if isinstance(a, TensorSymbol)}
        for name, cuts in self.loads(block, kernel, **sizes).items():
            found[name] = tuple(slice(min(s.start for s in a), max(s.stop for s in a)) for a in zip(*cuts, strict=True))
        return found

    def loads(self, block: Sequence[int], kernel: int = 0, **sizes: int) -> dict[str, list[tuple[slice, ...]]]:
        """The parts of every argument that one block reads; parameters as for `footprint`.

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
        known, _ = self._sizes(sizes)
        one = self.kernels[kernel]
        grids = [loop.grid(known) for loop in one.loops]
        if len(block) != len(grids) or not all(0 <= k < len(g) for k, g in zip(block, grids, strict=True)):
            raise ArgumentError(
                f"kernel {kernel} has blocks {[len(g) for g in grids]} along its loops, so {block} is none"
            )
        values = one.values({loop: grid[k] for loop, grid, k in zip(one.loops, grids, block, strict=True)}, known)
        found: dict[str, list[tuple[slice, ...]]] = {}
        for given in one.inputs:
            cuts = given.slices(values, shape_of(given.arg, known)) if given.ranges else None
            if cuts is not None:
                found.setdefault(given.arg.name, []).append(cuts)
        return found

    def cost(self, itemsize: int | None = None, **sizes: int) -> Cost:
        """Tasks and bytes of a call at given sizes, counted from the footprints without any array.

        ``itemsize`` has the bytes of an entry: those of the last call, or 8.
        """
        known, last = self._sizes(sizes)
        itemsize = itemsize or last
        kernel_tasks = reduction_tasks = read = reduced = peak = 0
        for kernel in self.kernels:
            groups: dict[Any, int] = {}
            for block in self._blocks(kernel, known):
                loaded, made = block.bytes(itemsize)
                kernel_tasks, read, peak = kernel_tasks + 1, read + loaded, max(peak, loaded + made)
                for number, (part, shape) in enumerate(zip(kernel.parts, block.made, strict=True)):
                    if part.loops:
                        where = number, part.position(kernel.loops, block.position)
                        groups[where] = groups.get(where, 0) + 1
                        reduced += prod(shape) * itemsize
                        peak = max(peak, (min(FAN, groups[where]) + 1) * prod(shape) * itemsize)
            reduction_tasks += sum(map(tree_tasks, groups.values()))
        return Cost(kernel_tasks, reduction_tasks, read, reduced, peak)

    def _sizes(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        _ = self._split
        if not sizes:
            if self._last is None:
                raise ArgumentError("no call has told the sizes yet: give them by name, as in footprint((0,), n=1000)")
            return self._last
        known = {name: int(value) for name, value in sizes.items()}
        tensors = [arg for arg in (*self.args, *self._split.stages) if isinstance(arg, TensorSymbol)]
        missing = {s.name for t in tensors for n in t.shape for s in sympy.sympify(n).free_symbols} - known.keys()
        if missing:
            raise ArgumentError(f"the size {', '.join(sorted(missing))} is missing: give all sizes by name")
        self._check_least(known)
        return known, 8

    @property
    def plan(self) -> str:
        lines = []
        names = {number: f"stage {stage.name}" for stage, number in self._split.stages.items()}
        names |= {number: f"result {k}" for k, number in enumerate(self._split.results)}
        for number, kernel in enumerate(self.kernels):
            lines.append(f"kernel {number}:")
            lines += [f"  loop {k}: {loop}" for k, loop in enumerate(kernel.loops)]
            for part in kernel.parts:
                axes = [f"axis {a} by loop {kernel.loops.index(o)}" for a, (_, _, o) in enumerate(part.axes) if o]
                over = ", ".join(f"loop {kernel.loops.index(o)}" for o in kernel.loops if o in part.loops)
                what = [*axes, *([f"{part.operation} over {over}, {FAN} at a time"] if over else [])]
                lines.append(f"  {names[part.result]}: {'; '.join(what) or 'computed once'}")
            for one in kernel.inputs:
                shown = [("part of " if cut else "all of ") + f"axis {a}" for a, cut in enumerate(one.cuts)]
                lines.append(f"  reads {one.arg.name}: {', '.join(shown) or 'a number'}")
        if self._last:
            lines.append(f"the last call: {self.cost()}")
        return "\n".join(lines)


@register_distribution
def distribute(
    args: Any, expr: Any, blocks: Any, memory: Any, backend: str, options: Mapping[str, Any]
) -> DaskFunction:
    """What `lambdify` returns for the backends on Dask."""
    import_dask()
    if backend == "dask-numpy":
        return DaskFunction(args, expr, blocks, "numpy", memory, dict(options))
    # One thread for each of Dask's.
    return DaskFunction(args, expr, blocks, "llvm", memory, {**options, "parallel": False})
