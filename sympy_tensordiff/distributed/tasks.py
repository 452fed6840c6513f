"""The graph of Dask: one task for each block of a kernel, trees of reductions, and parts of chunks that blocks read."""

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

from sympy_tensordiff.distributed.arguments import import_dask, number_at
from sympy_tensordiff.distributed.kernels import Kernel
from sympy_tensordiff.distributed.partials import Part

FAN = 8
"""So many partial results are added by one task. Their order does not depend on the schedule."""


class Call(NamedTuple):
    """What a call knows: sizes, the type of results, and the values of arguments and stages."""

    sizes: dict[str, int]
    dtype: Any
    values: dict[Any, Any]


def blocks_of(kernel: Kernel, blocks: Sequence[Any], call: Call) -> list[Any]:
    """One dask array for each part of a kernel.

    The task of a block returns a tuple of its parts; where there is one part only, this part itself.
    """
    _, da = import_dask()
    token = uuid4().hex
    run, function = f"kernel-{token}", (f"function-{token}",)
    layer: dict[Any, Any] = {function: _Function(kernel.function)}
    names = [f"part{number}-{token}" for number in range(len(kernel.parts))]
    chunks = [_chunks(part, call.sizes) for part in kernel.parts]
    is_single = len(kernel.parts) == 1
    layers = [layer] if is_single else [{} for _ in kernel.parts]
    keys = [
        _parts(layers[k], names[k], run, kernel, part, blocks, chunks[k], call.dtype)
        for k, part in enumerate(kernel.parts)
    ]
    args = list(dict.fromkeys(one.arg for one in kernel.inputs))
    sources = {arg: _Source(f"input{k}-{token}", call.values[arg], layer) for k, arg in enumerate(args)}
    parts = [[(one.arg, _ends(cut)) for one, cut in zip(kernel.inputs, own.cuts, strict=True)] for own in blocks]
    uses = Counter(part for own in parts for part in own)
    for number, block in enumerate(blocks):
        given = [sources[part[0]].part(cut, uses[part]) for part, cut in zip(parts[number], block.cuts, strict=True)]
        key = keys[0][number] if is_single else (run, *block.position)
        cuts, values = zip(*given, strict=True) if given else ((), ())
        layer[key] = (_run, function, call.dtype, block.integers, is_single, list(cuts), list(values))
        for k, own in enumerate(() if is_single else layers):
            own[keys[k][number]] = (operator.getitem, key, k)
    arrays = [one.value for one in sources.values() if isinstance(one.value, da.Array)]
    inner = {} if is_single else {run: layer}
    outer = zip(names, layers, chunks, strict=True)
    return [_array(name, own, sizes, inner, arrays, call.dtype) for name, own, sizes in outer]


def _array(name: str, layer: Any, chunks: Any, inner: Mapping[str, Any], arrays: Sequence[Any], dtype: Any) -> Any:
    """A dask array of tasks in ``layer``, which use those of ``inner`` and some arrays."""
    _, da = import_dask()
    from dask.highlevelgraph import HighLevelGraph

    layers = {below: own for array in arrays for below, own in array.dask.layers.items()}
    dependencies = {below: own for array in arrays for below, own in array.dask.dependencies.items()}
    needed = {below for array in arrays for below in array.__dask_layers__()}
    dependencies |= {**dict.fromkeys(inner, needed), name: set(inner) or needed}
    return da.Array(HighLevelGraph(layers | {**inner, name: layer}, dependencies), name, chunks, dtype=dtype)


def _chunks(part: Part, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(extent for _, extent in loop.grid(sizes)) or (0,) if loop else (number_at(n, sizes),)
        for _, n, loop in part.axes
    )


def _parts(
    layer: dict[Any, Any], name: str, run: str, kernel: Kernel, part: Part, blocks: Any, chunks: Any, dtype: Any
) -> list[Any]:
    """The keys of a part of each block; ``layer`` gets the tasks from these keys to the chunks of the result."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, block in enumerate(blocks):
        groups.setdefault(part.position(kernel.loops, block.position), []).append(number)
    found: list[Any] = [None] * len(blocks)
    loops = [loop for loop in kernel.loops if loop not in part.loops]
    axes = [loops.index(loop) if loop else None for _, _, loop in part.axes]
    for index in product(*(range(len(own)) for own in chunks)):
        where = [0] * len(loops)
        for axis, k in zip(axes, index, strict=True):
            if axis is not None:
                where[axis] = k
        own = groups.get(tuple(where), [])
        if not own:  # a reduction over nothing
            start = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}[part.operation]
            shape = tuple(sizes[k] for sizes, k in zip(chunks, index, strict=True))
            layer[(name, *index)] = (np.full, shape, start, dtype)
        keys = [(name, *index)] if len(own) == 1 else [(f"{name}-{run}", *index, k) for k in range(len(own))]
        for number, key in zip(own, keys, strict=True):
            found[number] = key
        _reduce(layer, name, index, keys, part.operation)
    return found


def _reduce(layer: dict[Any, Any], name: str, index: tuple[int, ...], keys: list[Any], operation: str) -> None:
    """A tree of reductions from ``keys`` to ``(name, *index)``."""
    level = 0
    while len(keys) > 1:
        level, groups = level + 1, [keys[k : k + FAN] for k in range(0, len(keys), FAN)]
        last = len(groups) == 1
        keys = [(name, *index) if last else (f"{name}-level{level}", *index, k) for k in range(len(groups))]
        layer.update({key: (_combined, operation, group) for key, group in zip(keys, groups, strict=True)})


def tree_tasks(count: int) -> int:
    """The tasks of `_reduce` for so many pieces."""
    total = 0
    while count > 1:
        count = -(-count // FAN)
        total += count
    return total


# ---------------------------------------------------------------------------- what blocks read


class _Source:
    """The value of an input, and the tasks for the parts of it that blocks read.

    The chunks of a dask array are tasks, and so are the parts that are cut out of them and joined: a chunk is free once
    its parts are there, before any kernel runs. Parts of a file are read by the task that needs them, or by one of
    their own where several do.
    """

    def __init__(self, name: str, value: Any, layer: dict[Any, Any]) -> None:
        _, da = import_dask()
        self.name, self.value, self.layer = name, value, layer
        self.is_file = bool(getattr(value, "shape", ())) and not isinstance(value, np.ndarray | da.Array)
        self.chunks: Any = value.chunks if isinstance(value, da.Array) else None
        self.ends = [np.cumsum(own) for own in self.chunks or ()]
        self._known: dict[Any, tuple[Any, Any]] = {}

    def part(self, cut: Any, uses: int) -> tuple[Any, Any]:
        """A key or an array, and what the kernel's task has to cut out of it first, or None."""
        ends = _ends(cut)
        if ends not in self._known:
            self._known[ends] = self._part(cut, ends, uses)
        return self._known[ends]

    def _part(self, cut: Any, ends: Any, uses: int) -> tuple[Any, Any]:
        if self.chunks:
            return None, self._of_chunks(cut, ends)
        if cut is None:
            return None, self.value if self.chunks is None else (self.value.name,)
        if not self.is_file and any(s.stop - s.start < n for s, n in zip(cut, self.value.shape, strict=True)):
            return None, self.value[cut]
        self.layer.setdefault((self.name,), self.value)
        if self.is_file and uses > 1:
            self.layer[key := (f"{self.name}-part", *ends)] = (_cut_out, (self.name,), cut)
            return None, key
        return (cut if self.is_file else None), (self.name,)

    def _of_chunks(self, cut: Any, ends: Any) -> Any:
        places, keys = [], []
        for pieces in product(*(self._pieces(axis, own) for axis, own in enumerate(cut))):
            key: Any = (self.value.name, *(chunk for chunk, _, _ in pieces))
            inside = tuple(own for _, own, _ in pieces)
            if any(s.stop - s.start < self.chunks[a][c] for a, (c, s, _) in enumerate(pieces)):
                whole, key = key, (f"{self.name}-cut", *key[1:], *_ends(inside))
                self.layer[key] = (_cut_out, whole, inside)
            places.append(tuple(where for _, _, where in pieces))
            keys.append(key)
        if len(keys) == 1:
            return keys[0]
        self.layer[key := (f"{self.name}-part", *ends)] = (_joined, tuple(s.stop - s.start for s in cut), places, keys)
        return key

    def _pieces(self, axis: int, cut: Any) -> Iterator[tuple[int, slice, slice]]:
        """The chunks along an axis that a part meets, the slice of each and where it belongs in the part."""
        ends = self.ends[axis]
        first = int(np.searchsorted(ends, cut.start, side="right"))
        for chunk in range(first, len(ends)):
            begin = int(ends[chunk]) - int(self.chunks[axis][chunk])
            low, high = max(cut.start, begin), min(cut.stop, int(ends[chunk]))
            if low >= high:
                break
            yield chunk, slice(low - begin, high - begin), slice(low - cut.start, high - cut.start)


def _ends(cut: Any) -> Any:
    return cut and tuple(end for own in cut for end in (own.start, own.stop))


def _cut_out(array: Any, cut: tuple[slice, ...]) -> Any:
    """A part of an array; a copy where the part would keep more than twice its memory."""
    part = np.asarray(array[cut])
    return part.copy() if part.base is not None and 2 * part.nbytes < getattr(part.base, "nbytes", 0) else part


def _run(function: Any, dtype: Any, integers: Any, is_single: bool, cuts: Sequence[Any], given: Sequence[Any]) -> Any:
    arrays = [_read(value, cut) for value, cut in zip(given, cuts, strict=True)]
    results = tuple(np.asarray(result, dtype) for result in function(*arrays, *integers))
    return results[0] if is_single else results


def _read(value: Any, cut: Any) -> Any:
    return value if cut is None else _cut_out(value, cut)


def _joined(shape: tuple[int, ...], places: Sequence[Any], pieces: Sequence[Any]) -> Any:
    whole = np.empty(shape, np.result_type(*pieces))
    for place, piece in zip(places, pieces, strict=True):
        whole[place] = piece
    return whole


def _combined(operation: str, pieces: Sequence[Any]) -> Any:
    function = getattr(np, operation)
    total = np.array(pieces[0])
    for piece in pieces[1:]:
        function(total, piece, out=total)
    return total


class _Function:
    """A compiled function that a worker loads once, however many graphs bring it."""

    def __init__(self, function: Any) -> None:
        self.function, self.content = function, b""

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __reduce__(self) -> Any:
        self.content = self.content or pickle.dumps(self.function)
        return _loaded, (self.content,)


@lru_cache(maxsize=64)
def _loaded(content: bytes) -> _Function:
    return _Function(pickle.loads(content))
