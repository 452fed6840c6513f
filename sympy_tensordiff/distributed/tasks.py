"""The Dask graph: one task for each block of a kernel, trees of reductions, and the slices of chunks that
blocks read.
"""

from __future__ import annotations

import operator
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from sympy_tensordiff.distributed.arguments import evaluate_extent, import_dask
from sympy_tensordiff.distributed.kernels import BlockKernel
from sympy_tensordiff.distributed.partials import PartialResult

MAX_FAN_IN = 8
"""Number of partial results that one task reduces. Their order does not depend on the schedule."""


class CallContext(NamedTuple):
    """The data of one call of a function on Dask: its sizes by name, the dtype of its results, and a dictionary with
    the values of arguments and of intermediate arrays.
    """

    sizes: dict[str, int]
    dtype: Any
    values: dict[Any, Any]


def make_dask_arrays(kernel: BlockKernel, blocks: Sequence[Any], call: CallContext) -> list[Any]:
    """Return a dask array for each partial result of a kernel, made of one task for each of ``blocks``. ``call`` has
    the data of the call: sizes, dtype and arrays.

    The task of a block returns the tuple of its partial results, or the only one itself.
    """
    _, da = import_dask()
    token = uuid4().hex
    run, function = f"kernel-{token}", (f"function-{token}",)
    layer: dict[Any, Any] = {function: _SharedFunction(kernel.function)}
    names = [f"part{number}-{token}" for number in range(len(kernel.parts))]
    chunks = [_chunk_sizes(part, call.sizes) for part in kernel.parts]
    is_single = len(kernel.parts) == 1
    layers = [layer] if is_single else [{} for _ in kernel.parts]
    keys = [
        _add_part_tasks(layers[k], names[k], run, kernel, part, blocks, chunks[k], call.dtype)
        for k, part in enumerate(kernel.parts)
    ]
    args = list(dict.fromkeys(one.arg for one in kernel.inputs))
    sources = {arg: _InputTasks(f"input{k}-{token}", call.values[arg], layer) for k, arg in enumerate(args)}
    parts = [[(one.arg, _end_points(cut)) for one, cut in zip(kernel.inputs, own.cuts, strict=True)] for own in blocks]
    uses = Counter(part for own in parts for part in own)
    for number, block in enumerate(blocks):
        given = [sources[part[0]].part(cut, uses[part]) for part, cut in zip(parts[number], block.cuts, strict=True)]
        key = keys[0][number] if is_single else (run, *block.position)
        cuts, values = zip(*given, strict=True) if given else ((), ())
        layer[key] = (_run_kernel, function, call.dtype, block.integers, is_single, list(cuts), list(values))
        for k, own in enumerate(() if is_single else layers):
            own[keys[k][number]] = (operator.getitem, key, k)
    arrays = [one.value for one in sources.values() if isinstance(one.value, da.Array)]
    inner = {} if is_single else {run: layer}
    outer = zip(names, layers, chunks, strict=True)
    return [_make_dask_array(name, own, sizes, inner, arrays, call.dtype) for name, own, sizes in outer]


def _make_dask_array(
    name: str, layer: Any, chunks: Any, inner: Mapping[str, Any], arrays: Sequence[Any], dtype: Any
) -> Any:
    """Return a dask array with the given ``name``, ``chunks`` and ``dtype`` from the tasks in ``layer``, a part of a
    task graph. They depend on the tasks in the layers ``inner`` and on the dask arrays ``arrays``.
    """
    _, da = import_dask()
    from dask.highlevelgraph import HighLevelGraph

    layers = {below: own for array in arrays for below, own in array.dask.layers.items()}
    dependencies = {below: own for array in arrays for below, own in array.dask.dependencies.items()}
    needed = {below for array in arrays for below in array.__dask_layers__()}
    dependencies |= {**dict.fromkeys(inner, needed), name: set(inner) or needed}
    return da.Array(HighLevelGraph(layers | {**inner, name: layer}, dependencies), name, chunks, dtype=dtype)


def _chunk_sizes(part: PartialResult, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Return the chunk sizes of the partial result ``part`` along each axis, in dask's format."""
    return tuple(
        tuple(extent for _, extent in loop.grid(sizes)) or (0,) if loop else (evaluate_extent(n, sizes),)
        for _, n, loop in part.axes
    )


def _add_part_tasks(
    layer: dict[Any, Any],
    name: str,
    run: str,
    kernel: BlockKernel,
    part: PartialResult,
    blocks: Any,
    chunks: Any,
    dtype: Any,
) -> list[Any]:
    """Add to the Dask graph ``layer`` the tasks that combine the results of all ``blocks`` for ``part`` into the chunks
    of the array ``name``. Return a list of keys, one for each block, under which the block's result is to be stored.

    ``run`` is the name of the kernel's tasks, which is part of the keys; ``chunks`` has the chunk sizes along each
    axis; ``dtype`` is that of the results.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, block in enumerate(blocks):
        groups.setdefault(part.position(kernel.loops, block.position), []).append(number)
    found: list[Any] = [None] * len(blocks)
    loops = [loop for loop in kernel.loops if loop not in part.loops]
    axes = [loops.index(loop) if loop else None for _, _, loop in part.axes]
    for index in product(*(range(len(own)) for own in chunks)):
        target = [0] * len(loops)
        for axis, k in zip(axes, index, strict=True):
            if axis is not None:
                target[axis] = k
        own = groups.get(tuple(target), [])
        if not own:  # a reduction over nothing
            start = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}[part.operation]
            shape = tuple(sizes[k] for sizes, k in zip(chunks, index, strict=True))
            layer[(name, *index)] = (np.full, shape, start, dtype)
        keys = [(name, *index)] if len(own) == 1 else [(f"{name}-{run}", *index, k) for k in range(len(own))]
        for number, key in zip(own, keys, strict=True):
            found[number] = key
        _add_reduction_tree(layer, name, index, keys, part.operation)
    return found


def _add_reduction_tree(
    layer: dict[Any, Any], name: str, index: tuple[int, ...], keys: list[Any], operation: str
) -> None:
    """Add tasks to the dask graph ``layer`` that combine the values of ``keys`` by ``operation`` in a tree, a few at a
    time. The last task has the key ``(name, *index)``.
    """
    level = 0
    while len(keys) > 1:
        level, groups = level + 1, [keys[k : k + MAX_FAN_IN] for k in range(0, len(keys), MAX_FAN_IN)]
        last = len(groups) == 1
        keys = [(name, *index) if last else (f"{name}-level{level}", *index, k) for k in range(len(groups))]
        layer.update({key: (_combine, operation, group) for key, group in zip(keys, groups, strict=True)})


def count_tree_tasks(count: int) -> int:
    """Return the number of tasks that reduce ``count`` partial results to one in a tree, in which each task combines at
    most `MAX_FAN_IN` results.
    """
    total = 0
    while count > 1:
        count = -(-count // MAX_FAN_IN)
        total += count
    return total


# ---------------------------------------------------------------------------- what blocks read


class _InputTasks:
    """One input of a kernel on Dask. It gives each task of the kernel the slice of the input that the task needs, and
    adds the Dask tasks that cut these slices from chunks, files or arrays.

    The chunks of a dask array are tasks, and so are their slices and the joins of these: a chunk is released once it is
    sliced, before any kernel runs. A slice of a file is read by the task that needs it, or by a task of its own if
    several need it.
    """

    def __init__(self, name: str, value: Any, layer: dict[Any, Any]) -> None:
        _, da = import_dask()
        self.name, self.value, self.layer = name, value, layer
        self.is_file = bool(getattr(value, "shape", ())) and not isinstance(value, np.ndarray | da.Array)
        self.chunks: Any = value.chunks if isinstance(value, da.Array) else None
        self.ends = [np.cumsum(own) for own in self.chunks or ()]
        self._parts_by_end_points: dict[Any, tuple[Any, Any]] = {}

    def part(self, cut: Any, uses: int) -> tuple[Any, Any]:
        """Return ``(slices, source)`` for a task that needs the slice `cut` of this input: it reads ``source[slices]``,
        or all of ``source`` if ``slices`` is None. ``source`` is a task key or an array; ``uses`` is the number of
        tasks that need the slice.

        A slice that several blocks need is copied from a file once.
        """
        ends = _end_points(cut)
        if ends not in self._parts_by_end_points:
            self._parts_by_end_points[ends] = self._make_part(cut, ends, uses)
        return self._parts_by_end_points[ends]

    def _make_part(self, cut: Any, ends: Any, uses: int) -> tuple[Any, Any]:
        """Make the slice `cut` of the input (None: all of it) available to the ``uses`` blocks that need it. Return
        ``(slices, source)``: tasks read ``source[slices]`` or, if ``slices`` is None, all of ``source``, an array or a
        task key. ``ends`` is `cut` as a key.

        Tasks that this needs are added at its first use.
        """
        if self.chunks:
            return None, self._join_chunks(cut, ends)
        if cut is None:
            return None, self.value if self.chunks is None else (self.value.name,)
        if not self.is_file and any(s.stop - s.start < n for s, n in zip(cut, self.value.shape, strict=True)):
            return None, self.value[cut]
        self.layer.setdefault((self.name,), self.value)
        if self.is_file and uses > 1:
            self.layer[key := (f"{self.name}-part", *ends)] = (_copy_slice, (self.name,), cut)
            return None, key
        return (cut if self.is_file else None), (self.name,)

    def _join_chunks(self, cut: Any, ends: Any) -> Any:
        """Add tasks that join the slice ``cut`` of a dask array from the chunks that overlap it. Return the key of the
        last task. ``ends`` is `cut` in the form of a part of a key.
        """
        positions, keys = [], []
        for pieces in product(*(self._overlapping_chunks(axis, own) for axis, own in enumerate(cut))):
            key: Any = (self.value.name, *(chunk for chunk, _, _ in pieces))
            inside = tuple(own for _, own, _ in pieces)
            if any(s.stop - s.start < self.chunks[a][c] for a, (c, s, _) in enumerate(pieces)):
                whole, key = key, (f"{self.name}-cut", *key[1:], *_end_points(inside))
                self.layer[key] = (_copy_slice, whole, inside)
            positions.append(tuple(target for _, _, target in pieces))
            keys.append(key)
        if len(keys) == 1:
            return keys[0]
        self.layer[key := (f"{self.name}-part", *ends)] = (
            _join_pieces,
            tuple(s.stop - s.start for s in cut),
            positions,
            keys,
        )
        return key

    def _overlapping_chunks(self, axis: int, cut: Any) -> Iterator[tuple[int, slice, slice]]:
        """Yield ``(number, slice, position)`` for each chunk along an axis that overlaps the slice ``cut``: the slice
        of the chunk that is needed, and its position in the result.
        """
        ends = self.ends[axis]
        first = int(np.searchsorted(ends, cut.start, side="right"))
        for chunk in range(first, len(ends)):
            begin = int(ends[chunk]) - int(self.chunks[axis][chunk])
            low, high = max(cut.start, begin), min(cut.stop, int(ends[chunk]))
            if low >= high:
                break
            yield chunk, slice(low - begin, high - begin), slice(low - cut.start, high - cut.start)


def _end_points(cut: Any) -> Any:
    """Return the starts and stops of the slices ``cut`` as a tuple that can be part of a key; None for None."""
    return cut and tuple(end for own in cut for end in (own.start, own.stop))


def _copy_slice(array: Any, cut: tuple[slice, ...]) -> Any:
    """Return the slice ``cut`` of an array. It is a copy if a view would keep the memory of a much larger array
    alive.
    """
    part = np.asarray(array[cut])
    return part.copy() if part.base is not None and 2 * part.nbytes < getattr(part.base, "nbytes", 0) else part


def _run_kernel(
    function: Any, dtype: Any, integers: Any, is_single: bool, cuts: Sequence[Any], given: Sequence[Any]
) -> Any:
    """Call a kernel ``function`` on one block, in a dask task: with the slices ``cuts`` of the inputs ``given``, and
    with ``integers``. Return its results as arrays of the type ``dtype``: a tuple, or the only one if ``is_single``.
    """
    arrays = [_read_slice(value, cut) for value, cut in zip(given, cuts, strict=True)]
    results = tuple(np.asarray(result, dtype) for result in function(*arrays, *integers))
    return results[0] if is_single else results


def _read_slice(value: Any, cut: Any) -> Any:
    """Return the slice ``cut`` of ``value``; all of ``value`` if ``cut`` is None."""
    return value if cut is None else _copy_slice(value, cut)


def _join_pieces(shape: tuple[int, ...], positions: Sequence[Any], pieces: Sequence[Any]) -> Any:
    """Return a new array of the given shape with ``pieces`` at ``positions``; called as a dask task."""
    whole = np.empty(shape, np.result_type(*pieces))
    for position, piece in zip(positions, pieces, strict=True):
        whole[position] = piece
    return whole


def _combine(operation: str, pieces: Sequence[Any]) -> Any:
    """Reduce the arrays ``pieces`` entry by entry with the NumPy ufunc named ``operation``, such as "add"; called as a
    dask task.
    """
    function = getattr(np, operation)
    total = np.array(pieces[0])
    for piece in pieces[1:]:
        function(total, piece, out=total)
    return total


class _SharedFunction:
    """A compiled function wrapped so that a worker unpickles it once, although many task graphs contain it."""

    def __init__(self, function: Any) -> None:
        self.function, self.content = function, b""

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __reduce__(self) -> Any:
        self.content = self.content or pickle.dumps(self.function)
        return _unpickle_function, (self.content,)


@lru_cache(maxsize=64)
def _unpickle_function(content: bytes) -> _SharedFunction:
    """Return the function pickled in ``content``, cached per worker."""
    return _SharedFunction(pickle.loads(content))
