"""The graph of Dask: one task for each block of a kernel, trees of reductions, and parts of chunks that blocks read."""

from __future__ import annotations

import mmap
import operator
import pickle
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import sympy

from sympy_tensordiff.distributed.kernels import Kernel
from sympy_tensordiff.distributed.partials import Part
from sympy_tensordiff.errors import BackendError
from sympy_tensordiff.symbolic.tensors import TensorSymbol

FAN = 8
"""So many partial results are added by one task. Their order does not depend on the schedule."""


def import_dask() -> tuple[Any, Any]:
    """Dask and its arrays, or an error that says what to install."""
    try:
        import dask
        import dask.array as da
    except ImportError as error:
        raise BackendError(f"backend='dask' needs Dask ({error}): pip install 'sympy_tensordiff[dask]'") from None
    return dask, da


class Call(NamedTuple):
    """What a call knows: sizes, the type of results, and the values of arguments and stages."""

    sizes: dict[str, int]
    dtype: Any
    values: dict[Any, Any]


def blocks_of(kernel: Kernel, blocks: Sequence[Any], call: Call) -> list[Any]:
    """One dask array for each part of a kernel."""
    _, da = import_dask()
    from dask.highlevelgraph import HighLevelGraph

    token = uuid4().hex
    run = f"kernel-{token}"
    layer: dict[Any, Any] = {(f"function-{token}",): _Function(kernel.function)}
    sources = [_Source(f"input{k}-{token}", call.values[one.arg], layer) for k, one in enumerate(kernel.inputs)]
    for block in blocks:
        given = [one.part(cut) for one, cut in zip(sources, block.cuts, strict=True)]
        layer[(run, *block.position)] = (
            _run,
            (f"function-{token}",),
            call.dtype,
            block.integers,
            [where for where, _ in given],
            [list(keys) for _, keys in given],
        )
    arrays = {one.value.name: one.value for one in sources if isinstance(one.value, da.Array)}
    found = []
    for number, part in enumerate(kernel.parts):
        name = f"part{number}-{token}"
        chunks = _chunks(part, call.sizes)
        own = _part(name, run, number, kernel, part, blocks, chunks, call.dtype)
        layers = {run: layer, name: own}
        dependencies: dict[str, set[str]] = {run: set(arrays), name: {run}}
        for array in arrays.values():
            layers |= array.dask.layers
            dependencies |= array.dask.dependencies
        dependencies[run] = {layer for array in arrays.values() for layer in array.__dask_layers__()}
        found.append(da.Array(HighLevelGraph(layers, dependencies), name, chunks, dtype=call.dtype))
    return found


def _chunks(part: Part, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(extent for _, extent in loop.grid(sizes)) or (0,) if loop else (number_at(n, sizes),)
        for _, n, loop in part.axes
    )


def _part(
    name: str, run: str, number: int, kernel: Kernel, part: Part, blocks: Any, chunks: Any, dtype: Any
) -> dict[Any, Any]:
    """The tasks from the blocks of a kernel to the chunks of one of its results."""
    layer: dict[Any, Any] = {}
    pieces: dict[tuple[int, ...], list[Any]] = {}
    for block in blocks:
        pieces.setdefault(part.position(kernel.loops, block.position), []).append((run, *block.position))
    loops = [loop for loop in kernel.loops if loop not in part.loops]
    axes = [loops.index(loop) if loop else None for _, _, loop in part.axes]
    for index in product(*(range(len(own)) for own in chunks)):
        where = [0] * len(loops)
        for axis, k in zip(axes, index, strict=True):
            if axis is not None:
                where[axis] = k
        own = pieces.get(tuple(where), [])
        if not own:  # a reduction over nothing
            start = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}[part.operation]
            shape = tuple(sizes[k] for sizes, k in zip(chunks, index, strict=True))
            layer[(name, *index)] = (np.full, shape, start, dtype)
            continue
        keys = []
        for k, piece in enumerate(own):
            key = (name, *index) if len(own) == 1 else (f"{name}-piece", *index, k)
            layer[key] = (operator.getitem, piece, number)
            keys.append(key)
        _reduce(layer, name, index, keys, part.operation)
    return layer


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
    """The value of an input, and the tasks for the parts of it that blocks read."""

    def __init__(self, name: str, value: Any, layer: dict[Any, Any]) -> None:
        self.name, self.value, self.layer = name, value, layer
        self.shape = tuple(getattr(value, "shape", ()))
        self.chunks: Any = getattr(value, "chunks", None)
        if self.chunks:
            self.ends = [np.cumsum(own) for own in self.chunks]
        self._parts: dict[Any, tuple[Any, list[Any]]] = {}

    def part(self, cut: Any) -> tuple[Any, list[Any]]:
        """The pieces of a part as ``(shape, places)``, and the keys or arrays of these pieces."""
        key = cut and tuple((s.start, s.stop) for s in cut)
        if key not in self._parts:
            self._parts[key] = self._part(cut)
        return self._parts[key]

    def _part(self, cut: Any) -> tuple[Any, list[Any]]:
        shape = self.shape
        if self.chunks is None or not shape:
            whole = cut is None or all(s.stop - s.start == n for s, n in zip(cut, shape, strict=True))
            value = self.value if whole else self.value[cut]
            if whole and shape:
                self.layer.setdefault((self.name,), value)
                value = (self.name,)
            return None, [(value.name,) if cut is None and self.chunks is not None else value]
        places, keys = [], []
        for pieces in product(*(self._pieces(axis, own) for axis, own in enumerate(cut))):
            key: Any = (self.value.name, *(chunk for chunk, _, _ in pieces))
            inside = tuple(own for _, own, _ in pieces)
            if any(s.stop - s.start < self.chunks[a][c] for a, (c, s, _) in enumerate(pieces)):
                whole, key = key, (f"{self.name}-cut", *key[1:], *(end for s in inside for end in (s.start, s.stop)))
                self.layer[key] = (_cut_out, whole, inside)
            places.append(tuple(where for _, _, where in pieces))
            keys.append(key)
        extents = tuple(s.stop - s.start for s in cut)
        return (None if len(keys) == 1 else (extents, places)), keys

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


def _cut_out(chunk: Any, cut: tuple[slice, ...]) -> Any:
    """A part of a chunk; a small one is a copy, so that it does not keep the chunk in memory."""
    part = np.asarray(chunk)[cut]
    return part.copy() if 2 * part.size < np.size(chunk) else part


def _run(function: Any, dtype: Any, integers: Sequence[int], places: Sequence[Any], given: Sequence[Any]) -> Any:
    arrays = [_joined(where, pieces) for where, pieces in zip(places, given, strict=True)]
    return tuple(np.asarray(result, dtype) for result in function(*arrays, *integers))


def _joined(where: Any, pieces: Sequence[Any]) -> Any:
    if where is None:
        return pieces[0]
    shape, places = where
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


# ---------------------------------------------------------------------------- arguments


class _Mapped:
    """A file as an array that each task reads its part of; a memory map would travel with all of its content."""

    def __init__(self, array: Any) -> None:
        self.filename, self.offset, self.order = array.filename, array.offset, "C" if array.flags.c_contiguous else "F"
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, cut: Any) -> Any:
        whole: Any = np.memmap(self.filename, self.dtype, "r", self.offset, self.shape, self.order)  # type: ignore[call-overload]
        return np.array(whole[cut])


def source(arg: Any, value: Any) -> Any:
    """A NumPy or dask array for the value of an argument: of a memory map or a zarr array, whose parts tasks read."""
    _, da = import_dask()
    if not isinstance(arg, TensorSymbol) or isinstance(value, da.Array):
        return value
    if isinstance(value, np.memmap) and isinstance(value.base, mmap.mmap) and value.ndim:
        return da.from_array(_Mapped(value), meta=np.empty((0,) * value.ndim, value.dtype))
    if hasattr(value, "chunks"):  # a zarr array
        return da.from_array(value, chunks=value.chunks)
    return np.asarray(value)


def number_at(extent: Any, sizes: Mapping[str, int]) -> int:
    """An extent at given sizes."""
    extent = sympy.sympify(extent)
    return int(extent.subs({s: sizes[s.name] for s in extent.free_symbols}))
