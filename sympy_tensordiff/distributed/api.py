"""`lambdify` with ``backend="dask"``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy

from sympy_tensordiff.distributed.function import Cost, DaskFunction, checked_memory
from sympy_tensordiff.distributed.tasks import import_dask
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.symbolic.hooks import register_distribution
from sympy_tensordiff.symbolic.tensors import TensorSymbol


def distribute(
    args: Any, expr: Any, blocks: Mapping[Any, int | None] | None, memory: Any, backend: str, options: Mapping[str, Any]
) -> DaskFunction | ChunkedFunction:
    """The callable on Dask arrays; without ``blocks`` one that takes them from the chunks of its arguments."""
    import_dask()
    own: dict[str, Any] = dict(options)
    if backend == "dask":
        own["parallel"] = False  # one thread for each of Dask's
    kernel = "numpy" if backend == "dask-numpy" else "numba"
    args = tuple(args) if isinstance(args, tuple | list) else (args,)
    if blocks is None:
        return ChunkedFunction(args, expr, kernel, checked_memory(memory), own)
    return DaskFunction(args, expr, blocks, kernel, checked_memory(memory), own)


class ChunkedFunction:
    """A function whose blocks are the largest chunks of the arguments; `last` is that of the last call."""

    def __init__(self, args: tuple[Any, ...], expr: Any, *options: Any) -> None:
        self.args, self._expr, self._options = args, expr, options
        self._known: dict[Any, DaskFunction] = {}
        self.last: DaskFunction | None = None

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """As `DaskFunction`."""
        blocks: dict[str, int] = {}
        given = {str(arg.name): array for arg, array in zip(self.args, arrays, strict=False)} | named
        for arg in self.args:
            array: Any = given.get(arg.name)
            chunks: Any = getattr(array, "chunks", None)
            for axis, extent in enumerate(arg.shape if isinstance(arg, TensorSymbol) and chunks else ()):
                largest = int(np.max(chunks[axis]))
                if sympy.sympify(extent).is_Symbol and largest < array.shape[axis]:
                    blocks[extent.name] = min(largest, blocks.get(extent.name, largest))
        if not blocks:
            raise ArgumentError("no argument has several chunks along an axis whose extent is a symbol: give blocks=")
        key = tuple(sorted(blocks.items()))
        if key not in self._known:
            self._known[key] = DaskFunction(self.args, self._expr, blocks, *self._options)
        self.last = self._known[key]
        return self.last(*arrays, out=out, **named)

    def footprint(self, block: Any, kernel: int = 0, **sizes: int) -> dict[str, tuple[slice, ...]]:
        """`DaskFunction.footprint` of the last call's blocks."""
        return self._latest().footprint(block, kernel, **sizes)

    def loads(self, block: Any, kernel: int = 0, **sizes: int) -> dict[str, list[tuple[slice, ...]]]:
        """`DaskFunction.loads` of the last call's blocks."""
        return self._latest().loads(block, kernel, **sizes)

    def cost(self, itemsize: int | None = None, **sizes: int) -> Cost:
        """`DaskFunction.cost` of the last call's blocks."""
        return self._latest().cost(itemsize, **sizes)

    @property
    def plan(self) -> str:
        """`DaskFunction.plan` of the last call's blocks."""
        return self._latest().plan

    def _latest(self) -> DaskFunction:
        if self.last is None:
            raise ArgumentError(
                "without blocks= the chunks of a call decide, and there was none: call the function first"
            )
        return self.last


register_distribution(distribute)
