"""The callable of ``backend="dask"``: blocks as tasks, partial results in a tree, stages before what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import sympy

from sympy_tensordiff.codegen.results import flatten
from sympy_tensordiff.distributed.kernels import Kernel, loops_of
from sympy_tensordiff.distributed.partials import Loop, Part, Splitter
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError, UnsupportedError
from sympy_tensordiff.symbolic.tensors import TensorSymbol

FAN = 8
"""So many partial results are added by one task. Their order does not depend on the schedule."""


class Cost(NamedTuple):
    """What one call asks of a cluster: tasks of kernels and of reductions, bytes, and the largest task's bytes."""

    kernel_tasks: int
    reduction_tasks: int
    bytes_read: int
    bytes_reduced: int
    peak: int


class DaskFunction:
    """What `lambdify` returns for ``backend="dask"``; it takes arrays and returns lazy dask arrays.

    Attributes
    ----------
    plan : str
        Which loops are in blocks, what is reduced over them, what each kernel reads.
    kernels : tuple of Kernel
        The compiled functions, in the order of `footprint`'s ``kernel``.
    """

    def __init__(self, args: Any, expr: Any, blocks: Mapping[Any, int | None], backend: str, options: Any) -> None:
        self.args = tuple(args) if isinstance(args, Sequence) else (args,)
        flat, self._structure = flatten(expr)
        self._single = not isinstance(expr, tuple | list)
        self._expr = expr
        self.blocks = checked_blocks(blocks)
        splitter = Splitter(self.blocks)
        self._results = [splitter.add(one) for one in flat]
        if not splitter.loops:
            raise UnsupportedError(
                f"no axis of a result and no sum has a range that blocks={self.blocks} splits: a block would be the "
                "whole result. Name a size of an axis or of a sum, or take another backend"
            )
        self._shapes, self._stages = splitter.shapes, splitter.number_of
        groups: dict[Any, list[Part]] = {}
        for part in splitter.parts:
            groups.setdefault((part.level, loops_of(part)), []).append(part)
        every = (*self.args, *self._stages)
        ordered = sorted(groups.items(), key=lambda item: item[0][0])
        self.kernels = tuple(Kernel(parts, every, self.blocks, backend, options) for _, parts in ordered)
        self._last: tuple[dict[str, int], dict[Any, tuple[int, ...]]] | None = None

    # ------------------------------------------------------------------------ a call

    def __call__(self, *arrays: Any) -> Any:
        """Lazy results, nested as the expressions are."""
        dask, da = import_dask()
        if len(arrays) != len(self.args):
            raise ArgumentError(
                f"{len(self.args)} arguments are needed ({', '.join(map(str, self.args))}), not {len(arrays)}"
            )
        values = {arg: _as_array(arg, value, da) for arg, value in zip(self.args, arrays, strict=True)}
        sizes = sizes_of(values)
        dtype = _dtype(values)
        shapes = self._all_shapes(values, sizes)
        self._last = sizes, shapes
        addends: dict[int, list[Any]] = {}
        for kernel in self.kernels:
            for stage, number in self._stages.items():
                if stage in kernel.cuts:
                    values[stage] = _sum_of(addends[number])
            for part, array in zip(kernel.parts, _blocks(kernel, values, sizes, shapes, dtype, dask, da), strict=True):
                addends.setdefault(part.result, []).append(array)
        results = iter([_sum_of(addends[number]) for number in self._results])
        return _nested(self._expr, results)

    def _all_shapes(self, values: Mapping[Any, Any], sizes: Mapping[str, int]) -> dict[Any, tuple[int, ...]]:
        shapes = {arg: np.shape(value) for arg, value in values.items() if isinstance(arg, TensorSymbol)}
        return shapes | {stage: tuple(_number(n, sizes) for n in stage.shape) for stage in self._stages}

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
            Slices by the names of arguments, and of stages; empty ones where the block reads nothing.
        """
        known, shapes = self._sizes(sizes)
        one = self.kernels[kernel]
        grids = [_grid(loop, known) for loop in one.loops]
        if len(block) != len(grids) or not all(0 <= k < len(g) for k, g in zip(block, grids, strict=True)):
            raise ArgumentError(
                f"kernel {kernel} has blocks {[len(g) for g in grids]} along its loops, so {block} is none"
            )
        at = {loop: grid[k] for loop, grid, k in zip(one.loops, grids, block, strict=True)}
        nothing = {a.name: (slice(0, 0),) * a.rank for a in self.args if isinstance(a, TensorSymbol)}
        return nothing | {a.name: cut for a, cut in one.slices(one.values(at, known), shapes, load=False).items()}

    def cost(self, itemsize: int = 8, **sizes: int) -> Cost:
        """Tasks and bytes of a call at given sizes, counted from the footprints without any array."""
        known, shapes = self._sizes(sizes)
        kernel_tasks = reduction_tasks = read = reduced = peak = 0
        for kernel in self.kernels:
            grids = [_grid(loop, known) for loop in kernel.loops]
            groups: dict[Any, int] = {}
            for position in product(*(range(len(grid)) for grid in grids)):
                at = {loop: grid[k] for loop, grid, k in zip(kernel.loops, grids, position, strict=True)}
                cuts = kernel.slices(kernel.values(at, known), shapes)
                loaded = sum(_count([s.stop - s.start for s in own]) for own in cuts.values()) * itemsize
                made = 0
                for number, part in enumerate(kernel.parts):
                    size = _count([at[o][1] if o else _number(n, known) for _, n, o in part.axes]) * itemsize
                    made += size
                    if part.loops:
                        where = (
                            number,
                            *(k for loop, k in zip(kernel.loops, position, strict=True) if loop not in part.loops),
                        )
                        groups[where] = groups.get(where, 0) + 1
                        reduced += size
                kernel_tasks, read, peak = kernel_tasks + 1, read + loaded, max(peak, loaded + made)
            reduction_tasks += sum(map(_tree_tasks, groups.values()))
        return Cost(kernel_tasks, reduction_tasks, read, reduced, peak)

    def _sizes(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], dict[Any, tuple[int, ...]]]:
        if not sizes:
            if self._last is None:
                raise ArgumentError("no call has told the sizes yet: give them by name, as in footprint((0,), n=1000)")
            return self._last
        known = {name: int(value) for name, value in sizes.items()}
        tensors = [arg for arg in (*self.args, *self._stages) if isinstance(arg, TensorSymbol)]
        missing = {s.name for t in tensors for n in t.shape for s in sympy.sympify(n).free_symbols} - known.keys()
        if missing:
            raise ArgumentError(f"the size {', '.join(sorted(missing))} is missing: give all sizes by name")
        return known, {t: tuple(_number(n, known) for n in t.shape) for t in tensors}

    @property
    def plan(self) -> str:
        lines = []
        names = {number: f"stage {stage.name}" for stage, number in self._stages.items()}
        names |= {number: f"result {k}" for k, number in enumerate(self._results)}
        for number, kernel in enumerate(self.kernels):
            lines.append(f"kernel {number}:")
            lines += [f"  loop {k}: {loop}" for k, loop in enumerate(kernel.loops)]
            for part in kernel.parts:
                axes = [f"axis {a} by loop {kernel.loops.index(o)}" for a, (_, _, o) in enumerate(part.axes) if o]
                over = ", ".join(f"loop {kernel.loops.index(o)}" for o in kernel.loops if o in part.loops)
                what = [*axes, *([f"{part.operation} over {over}, {FAN} at a time"] if over else [])]
                lines.append(f"  {names[part.result]}: {'; '.join(what) or 'computed once'}")
            for arg, cuts in kernel.cuts.items():
                shown = [("part of " if cut else "all of ") + f"axis {a}" for a, cut in enumerate(cuts)]
                lines.append(f"  reads {arg.name}: {', '.join(shown) or 'a number'}")
        if self._last:
            lines.append(f"the last call: {self.cost()}")
        return "\n".join(lines)


# ---------------------------------------------------------------------------- tasks


def _blocks(kernel: Kernel, values: Any, sizes: Any, shapes: Any, dtype: Any, dask: Any, da: Any) -> list[Any]:
    """One dask array for each part of a kernel."""
    grids = [_grid(loop, sizes) for loop in kernel.loops]
    function = dask.delayed(kernel.function, pure=False, traverse=False)
    run = dask.delayed(_run, pure=False, nout=len(kernel.parts))
    made: list[dict[tuple[int, ...], list[Any]]] = [{} for _ in kernel.parts]
    for position in product(*(range(len(grid)) for grid in grids)):
        at = {loop: grid[k] for loop, grid, k in zip(kernel.loops, grids, position, strict=True)}
        known = kernel.values(at, sizes)
        cuts = kernel.slices(known, shapes)
        given = [values[arg][cuts[arg]] if cuts.get(arg) else values[arg] for arg in kernel.args]
        pieces = run(function, dtype, kernel.integers(known), *given)
        for part, own, piece in zip(kernel.parts, made, pieces, strict=True):
            where = tuple(k for loop, k in zip(kernel.loops, position, strict=True) if loop not in part.loops)
            own.setdefault(where, []).append(piece)
    return [
        _assembled(
            part,
            [(o, g) for o, g in zip(kernel.loops, grids, strict=True) if o not in part.loops],
            own,
            sizes,
            dtype,
            dask,
            da,
        )
        for part, own in zip(kernel.parts, made, strict=True)
    ]


def _assembled(part: Part, grids: Any, made: Any, sizes: Any, dtype: Any, dask: Any, da: Any) -> Any:
    shape = tuple(_number(n, sizes) for _, n, _ in part.axes)
    if not made:  # a sum over nothing
        start = {"add": 0, "multiply": 1, "maximum": -np.inf, "minimum": np.inf}[part.operation]
        return da.full(shape, start, dtype=dtype)
    numbers = {loop: k for k, (loop, _) in enumerate(grids)}

    def nested(axis: int, where: tuple[int, ...], extents: tuple[int, ...]) -> Any:
        if axis == len(part.axes):
            piece = _tree(made[where], part.operation, dask)
            return da.from_delayed(piece, extents, dtype)
        loop = part.axes[axis][2]
        if loop is None:
            return nested(axis + 1, where, (*extents, shape[axis]))
        grid = grids[numbers[loop]][1]
        parts = []
        for k, (_, extent) in enumerate(grid):
            place = list(where)
            place[numbers[loop]] = k
            parts.append(nested(axis + 1, tuple(place), (*extents, extent)))
        return da.concatenate(parts, axis=axis) if len(parts) > 1 else parts[0]

    return nested(0, (0,) * len(grids), ())


def _run(function: Any, dtype: Any, integers: Any, *given: Any) -> Any:
    arrays = [np.require(g, requirements=["C", "W"]) if isinstance(g, np.ndarray) and g.ndim else g for g in given]
    return tuple(np.asarray(result, dtype) for result in function(*arrays, *integers))


def _tree(pieces: list[Any], operation: str, dask: Any) -> Any:
    combine = dask.delayed(_combined, pure=False)
    while len(pieces) > 1:
        pieces = [combine(operation, pieces[k : k + FAN]) for k in range(0, len(pieces), FAN)]
    return pieces[0]


def _tree_tasks(count: int) -> int:
    total = 0
    while count > 1:
        count = -(-count // FAN)
        total += count
    return total


def _combined(operation: str, pieces: Sequence[Any]) -> Any:
    function = getattr(np, operation)
    total = np.array(pieces[0])
    for piece in pieces[1:]:
        function(total, piece, out=total)
    return total


# ---------------------------------------------------------------------------- arguments


def import_dask() -> tuple[Any, Any]:
    """Dask and its arrays, or an error that says what to install."""
    try:
        import dask
        import dask.array as da
    except ImportError as error:
        raise BackendError(f"backend='dask' needs Dask ({error}): pip install 'sympy_tensordiff[dask]'") from None
    return dask, da


def checked_blocks(blocks: Any) -> dict[str, int | None]:
    """The extents of blocks by the names of sizes or indices."""
    if not isinstance(blocks, Mapping):
        raise ArgumentTypeError(f"blocks must be a mapping such as {{n: 200_000}}, not {blocks!r}")
    for key, block in blocks.items():
        if not (block is None or (isinstance(block, int) and not isinstance(block, bool) and block > 0)):
            raise ArgumentTypeError(f"blocks[{key}] must be a positive int or None, not {block!r}")
    return {str(getattr(key, "name", key)): block for key, block in blocks.items()}


def sizes_of(values: Mapping[Any, Any]) -> dict[str, int]:
    """The sizes that shapes and integer arguments determine; shapes that contradict one another raise."""
    known: dict[str, int] = {
        a.name: int(v) for a, v in values.items() if not isinstance(a, TensorSymbol) and a.is_integer
    }
    equations = []
    for arg, value in values.items():
        if isinstance(arg, TensorSymbol):
            shape = np.shape(value)
            if len(shape) != len(arg.shape):
                raise ArgumentError(f"{arg.name} has {len(arg.shape)} axes, its array {len(shape)}")
            equations += [(arg, sympy.sympify(n), int(length)) for n, length in zip(arg.shape, shape, strict=True)]
    for _ in equations:
        for _, extent, length in equations:
            unknown = [s for s in extent.free_symbols if s.name not in known]
            if len(unknown) == 1:
                rest = sympy.expand(extent.subs({s: known[s.name] for s in extent.free_symbols if s.name in known}))
                slope = rest.coeff(unknown[0])
                size = (length - rest.subs(unknown[0], 0)) / slope
                if size.is_Integer:
                    known[unknown[0].name] = int(size)
    for arg, extent, length in equations:
        if any(s.name not in known for s in extent.free_symbols) or _number(extent, known) != length:
            raise ArgumentError(
                f"an axis of {arg.name} has {length} entries, where its extent is {extent} with sizes {known}"
            )
    return known


def _number(extent: Any, sizes: Mapping[str, int]) -> int:
    extent = sympy.sympify(extent)
    return int(extent.subs({s: sizes[s.name] for s in extent.free_symbols}))


def _as_array(arg: Any, value: Any, da: Any) -> Any:
    if isinstance(arg, TensorSymbol) and not isinstance(value, da.Array):
        if hasattr(value, "chunks"):  # a zarr array
            return da.from_array(value, chunks=value.chunks)
        return np.asarray(value) if not isinstance(value, np.ndarray) else value
    return value


def _dtype(values: Mapping[Any, Any]) -> Any:
    kinds = [np.dtype(v.dtype) for a, v in values.items() if isinstance(a, TensorSymbol) and a.dtype is not int]
    return np.result_type(*(kind if kind.kind == "f" else np.float64 for kind in kinds)) if kinds else np.dtype(float)


def _grid(loop: Loop, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """The origin and the extent of each block of a loop."""
    whole = loop.range.range(sizes)
    return [(o, min(loop.block, whole.stop - o)) for o in range(whole.start, whole.stop, loop.block)]


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 1


def _sum_of(arrays: list[Any]) -> Any:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


def _nested(expr: Any, results: Any) -> Any:
    return tuple(_nested(one, results) for one in expr) if isinstance(expr, tuple | list) else next(results)
