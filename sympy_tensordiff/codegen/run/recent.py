"""Calls like the last one: their arguments need no checks, no conversions and no new sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.ir.programs import Argument
from sympy_tensordiff.codegen.run.arguments import Prepared, unlocked

_INDICES = np.dtype(np.int64)

MOST_DATA = 2**22
"""Bytes of an array of integers of which a copy is kept, to see whether it is the same in the next call.

To compare 4 MB takes 0.6 ms, the checks that it spares 4 ms.
"""


@dataclass(frozen=True, slots=True)
class Recent:
    """What a call was like that needed no conversions: all checks would come out the same for another one like it."""

    expected: tuple[tuple[Any, Any, Any], ...]
    """Of each argument the type; then dtype and shape of an array, or None and the number."""
    data: tuple[tuple[int, bytes], ...]
    """The positions of arrays of integers, with their entries."""
    is_plain: bool
    """Whether all are arrays of NumPy's own."""
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    run: Callable[..., None]

    def prepare(self, values: Sequence[Any]) -> Sequence[Any] | None:
        """What the driver takes; None where the checks have to tell."""
        if len(values) != len(self.expected):
            return None
        if not self.is_plain:
            taken = [self._taken(*pair) for pair in zip(values, self.expected, strict=True)]
            return None if any(value is None for value in taken) or not self._has_same_data(values) else taken
        is_open = True
        for value, (kind, dtype, shape) in zip(values, self.expected, strict=True):
            if type(value) is not kind or value.dtype is not dtype or value.shape != shape:
                return None
            # Behaved: aligned, can be written, and in C order.
            if not (flags := value.flags).carray:
                if not (flags.c_contiguous and flags.aligned):
                    return None
                is_open = False
        if not self._has_same_data(values):
            return None
        return values if is_open else [unlocked(value) for value in values]

    def _has_same_data(self, values: Sequence[Any]) -> bool:
        """Whether arrays of integers have the entries that were checked: callers change them in place."""
        return all([values[position].tobytes() == entries for position, entries in self.data])

    def _taken(self, value: Any, expected: tuple[Any, Any, Any]) -> Any:
        """What the driver takes for one argument; None where the checks have to tell."""
        kind, dtype, shape = expected
        if type(value) is not kind:
            return None
        if dtype is None:
            return self.dtype.type(value) if kind is float else value if value == shape else None
        try:
            array = np.asarray(value)
        except Exception:  # of the library whose the value is
            return None
        return unlocked(array) if _fits(array, dtype) and array.shape == shape else None


def _fits(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Whether the driver takes an array as it is, or would if it were not read-only."""
    return array.dtype is dtype and array.flags.c_contiguous and array.flags.aligned


def remember(
    arguments: Sequence[Argument], values: Sequence[Any], prepared: Prepared, run: Callable[..., None]
) -> Recent | None:
    """What to know of a call to answer the next one sooner; None where that has to be checked, too."""
    if prepared.suspects:  # whether data lead out of an array may depend on numbers
        return None
    expected: list[tuple[Any, Any, Any]] = []
    data: list[tuple[int, bytes]] = []
    for argument, value, converted in zip(arguments, values, prepared.values, strict=True):
        kind = type(value)
        if argument.symmetric:  # the entries have to be looked at
            return None
        if argument.dtype == "integer":
            if kind is not np.ndarray or not value.ndim or not _fits(value, _INDICES) or value.nbytes > MOST_DATA:
                return None
            data.append((len(expected), value.tobytes()))
            expected.append((kind, value.dtype, value.shape))
        elif (
            isinstance(converted, np.ndarray)
            and hasattr(value, "__array__")
            and _fits(np.asarray(value), prepared.dtype)
        ):
            expected.append((kind, prepared.dtype, converted.shape))
        elif kind is (int if argument.kind == "integer" else float):
            expected.append((kind, None, value))
        else:
            return None
    is_plain = all(kind is np.ndarray for kind, _, _ in expected)
    return Recent(tuple(expected), tuple(data), is_plain, prepared.shapes, prepared.dtype, run)


# ---------------------------------------------------------------------------- memory of temporaries
# Workspaces: memory of temporaries from call to call: new pages cost more than what is computed in them.


MOST = 2**28
"""More bytes are given back after each call.

Time with memory that is kept beside time with new memory, of one thread of an AMD EPYC (glibc): for one temporary of
0.1 to 1 MB 0.97 to 1.05, of 2 MB 0.42, of 8 MB 0.39, of 72 MB 0.33; the benchmark ``attention`` takes 0.57.
"""


class Workspace:
    """A function that is given its temporaries, of certain shapes, with those of the call before.

    ``tables`` fills those that are the same in all calls, as it has done in ``arrays``.
    """

    def __init__(self, run_in: Callable[..., None], arrays: Sequence[np.ndarray[Any, Any]], tables: Any = None) -> None:
        self._run_in = run_in
        self._tables = tables
        self._likes = [(array.shape, array.dtype) for array in arrays]
        self._free = [list(arrays)]

    def fits(self, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
        """Whether the temporaries of a call are like these."""
        return self._likes == [(array.shape, array.dtype) for array in arrays]

    def __call__(self, *values: Any) -> None:
        try:
            arrays = self._free.pop()
        except IndexError:  # another thread works with them
            arrays = [np.empty(shape, dtype) for shape, dtype in self._likes]
            if self._tables is not None:
                self._tables(*values, *arrays)
        self._run_in(*values, *arrays)
        if not self._free:
            self._free.append(arrays)


class Runs:
    """What a module runs: ``run`` makes its temporaries, ``run_in`` is given those which ``scratch`` makes.

    Of these, ``tables`` fills what is the same in all calls.
    """

    def __init__(self, run: Callable[..., None], run_in: Any = None, scratch: Any = None, tables: Any = None) -> None:
        self.run = run
        self._tables = tables
        self.run_in = run_in
        self._scratch = scratch
        self._workspace: Workspace | None = None

    def chosen(self, values: Sequence[Any]) -> Callable[..., None]:
        """What runs in a call with ``values`` and in others of the same shapes."""
        if self._scratch is None:
            return self.run
        arrays = self._scratch(*values)
        if sum(array.nbytes for array in arrays) > MOST:
            self._workspace = None
            return self.run
        workspace = self._workspace  # another thread may put that for other shapes in its place
        if workspace is None or not workspace.fits(arrays):
            if self._tables is not None:
                self._tables(*values, *arrays)
            workspace = self._workspace = Workspace(self.run_in, arrays, self._tables)
        return workspace
