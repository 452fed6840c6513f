"""Arguments of `DaskFunction`: block sizes, memory limits, arrays, files, and the sizes that follow from them."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy

from sympy_tensordiff.codegen.ir.programs import Argument
from sympy_tensordiff.codegen.run.arguments import as_array, check_array, read_number
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


def import_dask() -> tuple[Any, Any]:
    """Return the modules ``dask`` and ``dask.array``; raise `BackendError` with advice if Dask is missing."""
    try:
        import dask
        import dask.array as da
    except ImportError as error:
        raise BackendError(f"backend='dask' needs Dask ({error}): pip install 'sympy_tensordiff[dask]'") from None
    return dask, da


def check_blocks(blocks: Any) -> dict[str, int | None]:
    """Return ``blocks`` as a dictionary from names of sizes or indices to block sizes (None: not split). Raise
    `ArgumentTypeError` for other values than positive ints and None.
    """
    if not isinstance(blocks, Mapping):
        raise ArgumentTypeError(f"blocks must be a mapping such as {{n: 200_000}}, not {blocks!r}")
    for key, block in blocks.items():
        if not (block is None or (isinstance(block, int | np.integer) and not isinstance(block, bool) and block > 0)):
            raise ArgumentTypeError(f"blocks[{key}] must be a positive int or None, not {block!r}")
    return {str(getattr(key, "name", key)): None if block is None else int(block) for key, block in blocks.items()}


def parse_memory(memory: Any) -> int | None:
    """Return a memory limit such as 10**9 or "1 GB" as a number of bytes; None for None. Raise `ArgumentTypeError` for
    other values.
    """
    if memory is None:
        return None
    dask, _ = import_dask()
    try:
        found = dask.utils.parse_bytes(memory)
    except (ValueError, TypeError, AttributeError):
        found = 0
    if found < 1 or isinstance(memory, bool):
        raise ArgumentTypeError(f"memory must be a number of bytes such as 10**9 or '1 GB', not {memory!r}")
    return int(found)


def blocks_from_chunks(values: Mapping[Any, Any]) -> dict[str, int | None]:
    """Return a dictionary from the names of symbolic sizes to block sizes, from the chunks of the Dask arrays in
    ``values``, which maps tensors to arrays. Raise `ArgumentError` if no array has chunks.
    """
    found: dict[str, int | None] = {}
    for arg, value in values.items():
        chunks: Any = getattr(value, "chunks", None)
        for axis, extent in enumerate(arg.shape if isinstance(arg, TensorSymbol) and chunks else ()):
            largest = int(np.max(chunks[axis]))
            if sympy.sympify(extent).is_Symbol and largest < value.shape[axis]:
                found[extent.name] = min(largest, found.get(extent.name) or largest)
    if not found:
        raise ArgumentError("no argument has several chunks along an axis whose extent is a symbol: give blocks=")
    return dict(sorted(found.items()))


class _MemoryMapFile:
    """A memory map that pickles as its file name and shape, so workers read the file instead of receiving the data."""

    def __init__(self, array: Any) -> None:
        self.filename, self.offset, self.order = array.filename, array.offset, "C" if array.flags.c_contiguous else "F"
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, slices: Any) -> Any:
        mapped: Any = np.memmap(self.filename, self.dtype, "r", self.offset, self.shape, self.order)  # type: ignore[call-overload]
        return np.array(mapped[slices])


def to_block_source(arg: Any, argument: Argument, value: Any) -> Any:
    """Return an argument in a form from which tasks read slices: a number, a NumPy array, a dask array or a file. Raise
    an error if it does not match the declared `argument`.
    """
    _, da = import_dask()
    if not isinstance(arg, TensorSymbol):
        return read_number(argument, value)
    if isinstance(value, da.Array) and np.isnan(value.shape).any():
        raise ArgumentError(
            f"the sizes of the chunks of {arg.name} are not known, so nothing says which of them a block reads: "
            f"call {arg.name}.compute_chunk_sizes() before"
        )
    if isinstance(value, np.memmap) and isinstance(value.base, mmap.mmap) and value.ndim:
        value = _MemoryMapFile(value)
    elif not isinstance(value, da.Array) and not (hasattr(value, "chunks") and arg.rank):  # not zarr, not HDF5
        value = as_array(argument, value)
    check_array(argument, value)
    return value


def numeric_shape(tensor: TensorSymbol, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of ``tensor`` at the given sizes."""
    return tuple(evaluate_extent(n, sizes) for n in tensor.shape)


def evaluate_extent(extent: Any, sizes: Mapping[str, int]) -> int:
    """Return ``extent`` as an int at the given sizes."""
    extent = sympy.sympify(extent)
    return int(extent.subs({s: sizes[s.name] for s in extent.free_symbols}))
