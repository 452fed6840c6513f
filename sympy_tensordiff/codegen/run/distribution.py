"""The door from `lambdify` to kernels on blocks of arrays, which `distributed` opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class BlockFunction(Protocol):
    """What `lambdify` returns for the backends on Dask; `DaskFunction` describes it."""

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any: ...

    def footprint(self, block: Any, kernel: int = 0, **sizes: int) -> dict[str, tuple[slice, ...]]:
        """The slices of every argument that one block reads."""

    def loads(self, block: Any, kernel: int = 0, **sizes: int) -> dict[str, list[tuple[slice, ...]]]:
        """The parts of every argument that one block reads."""

    def cost(self, itemsize: int | None = None, **sizes: int) -> Any:
        """Tasks and bytes of a call."""

    @property
    def plan(self) -> str:
        """Kernels, their loops in blocks, and what is reduced."""


Distribution: TypeAlias = Callable[..., BlockFunction]

_distribution: list[Distribution] = []


def register_distribution(function: Distribution) -> Distribution:
    """Make ``function(args, expr, blocks, memory, backend, options)`` the callable of the backends on Dask."""
    _distribution[:] = [function]
    return function


def distributed(args: Any, expr: Any, blocks: Any, memory: Any, backend: str, options: Any) -> BlockFunction:
    """A callable on Dask arrays by the registered function."""
    return _distribution[0](args, expr, blocks, memory, backend, options)
