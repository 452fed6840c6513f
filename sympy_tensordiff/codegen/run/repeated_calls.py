"""Repeated calls: arguments like those of the last call need no checks, conversions or new sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sympy_tensordiff.codegen.ir.programs import Argument
from sympy_tensordiff.codegen.run.arguments import PreparedArguments, writable_alias
from sympy_tensordiff.lazy import numpy as np

MAX_COMPARED_BYTES = 2**22
"""The most bytes of an integer array that is copied and compared with that of the next call.

Comparing 4 MB takes 0.6 ms, the checks that it saves take 4 ms.
"""


@dataclass(frozen=True, slots=True)
class LastCall:
    """A record of the last call of a function (types, shapes and index arrays of its arguments), so that a similar call
    needs no further checks.
    """

    expected: tuple[tuple[Any, Any, Any], ...]
    """The type of each argument, then the dtype and shape of an array, or None and the number."""
    data: tuple[tuple[int, bytes], ...]
    """The positions of arrays of integers, with their entries."""
    symmetric: tuple[int, ...]
    """The positions of arrays that are declared symmetric."""
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    run: Callable[..., None]

    def prepare(self, values: Sequence[Any]) -> Sequence[Any] | None:
        """Return ``values`` in the form that the driver takes, if their types, shapes and index data equal those of the
        recorded call; None if they need the full checks.
        """
        if len(values) != len(self.expected):
            return None
        taken = []
        for value, (kind, dtype, shape) in zip(values, self.expected, strict=True):
            if type(value) is not kind:
                return None
            if kind is np.ndarray:
                if value.dtype is not dtype or value.shape != shape:
                    return None
                # carray: aligned, writable and in C order.
                if not (flags := value.flags).carray:
                    if not (flags.c_contiguous and flags.aligned):
                        return None
                    value = writable_alias(value)
            elif (value := self._prepare_one(value, dtype, shape)) is None:
                return None
            taken.append(value)
        return taken if self._has_same_data(taken) else None

    def _has_same_data(self, values: Sequence[Any]) -> bool:
        """Return whether the index arrays in the arguments ``values`` still have the recorded entries, and whether
        matrices declared symmetric are so exactly. Callers may change arrays in place.
        """
        same = all([values[position].tobytes() == entries for position, entries in self.data])
        return same and all([np.array_equal(values[position], values[position].T) for position in self.symmetric])

    def _prepare_one(self, value: Any, dtype: Any, shape: Any) -> Any:
        """Return ``value``, an argument of a repeated call, as the compiled function takes it; None if it does not
        match the expected ``dtype`` and ``shape``, and needs the full checks.

        For a number, ``dtype`` is None, and ``shape`` is the expected value if it is an integer.
        """
        if dtype is None:
            if type(value) is int:
                return value if value == shape else None
            return self.dtype.type(value)
        try:
            array = np.asarray(value)
        except Exception:  # raised by the library of the value
            return None
        return writable_alias(array) if _fits(array, dtype) and array.shape == shape else None


def _fits(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Return whether the driver can use an array without conversion: dtype, alignment and C order are right."""
    return array.dtype is dtype and array.flags.c_contiguous and array.flags.aligned


def remember(
    arguments: Sequence[Argument], values: Sequence[Any], prepared: PreparedArguments, run: Callable[..., None]
) -> LastCall | None:
    """Return a record of a call, by which a next call with equal types and shapes can be checked quickly; None if calls
    of this kind need the full checks. ``values`` are given for ``arguments``; ``prepared`` has them converted.

    ``run`` computed the results.
    """
    if prepared.suspects:  # whether data are out of bounds may depend on numbers
        return None
    expected: list[tuple[Any, Any, Any]] = []
    data: list[tuple[int, bytes]] = []
    symmetric: list[int] = []
    numbers = {float, np.float32, np.float64}  # no check depends on their values
    for argument, value, converted in zip(arguments, values, prepared.values, strict=True):
        kind = type(value)
        if argument.symmetric:
            symmetric.append(len(expected))
        if argument.dtype == "integer":
            if (
                kind is not np.ndarray
                or not value.ndim
                or not _fits(value, np.dtype(np.int64))
                or value.nbytes > MAX_COMPARED_BYTES
            ):
                return None
            data.append((len(expected), value.tobytes()))
            expected.append((kind, value.dtype, value.shape))
        elif (
            isinstance(converted, np.ndarray)
            and hasattr(value, "__array__")
            and _fits(np.asarray(value), prepared.dtype)
        ):
            expected.append((kind, prepared.dtype, converted.shape))
        elif kind is int if argument.kind == "integer" else kind in numbers:
            expected.append((kind, None, value))
        else:
            return None
    return LastCall(tuple(expected), tuple(data), tuple(symmetric), prepared.shapes, prepared.dtype, run)


# ---------------------------------------------------------------------------- memory of temporaries
# Workspaces: temporaries reused between calls, since new pages of memory cost more than the computation in them.


MAX_WORKSPACE_BYTES = 2**28
"""The most bytes of temporaries that are reused; more are freed after each call.

Time with reused memory divided by time with new memory, on one thread of an AMD EPYC (glibc): for one temporary of
0.1 to 1 MB 0.97 to 1.05, of 2 MB 0.42, of 8 MB 0.39, of 72 MB 0.33; the benchmark ``attention`` takes 0.57.
"""


class Workspace:
    """A callable that runs a compiled function with memory for temporaries that it reuses from call to call. The memory
    fits calls with the same shapes of arguments.

    ``tables`` fills the constant temporaries of new ``arrays``; the given ones are filled already.
    """

    def __init__(self, run_in: Callable[..., None], arrays: Sequence[np.ndarray[Any, Any]], tables: Any = None) -> None:
        self._run_in = run_in
        self._tables = tables
        self._likes = [(array.shape, array.dtype) for array in arrays]
        self._free = [list(arrays)]

    def fits(self, arrays: Sequence[np.ndarray[Any, Any]]) -> bool:
        """Return whether the temporaries ``arrays``, allocated for a call, have the same shapes and dtypes as those of
        this workspace, so that it can run the call.
        """
        return self._likes == [(array.shape, array.dtype) for array in arrays]

    def __call__(self, *values: Any) -> None:
        try:
            arrays = self._free.pop()
        except IndexError:  # another thread uses them
            arrays = [np.empty(shape, dtype) for shape, dtype in self._likes]
            if self._tables is not None:
                self._tables(*values, *arrays)
        self._run_in(*values, *arrays)
        if not self._free:
            self._free.append(arrays)


class Runs:
    """The functions of a loaded module that compute the results: ``run`` allocates temporaries in each call, ``run_in``
    takes temporaries that ``scratch`` has allocated, so that calls can share them.

    ``tables`` fills the temporaries that are constant.
    """

    def __init__(self, run: Callable[..., None], run_in: Any = None, scratch: Any = None, tables: Any = None) -> None:
        self.run = run
        self._tables = tables
        self.run_in = run_in
        self._scratch = scratch
        self._workspace: Workspace | None = None

    def function_for(self, values: Sequence[Any]) -> Callable[..., None]:
        """Return the function to call for ``values``: one that reuses its temporaries, unless these are too large."""
        if self._scratch is None:
            return self.run
        arrays = self._scratch(*values)
        if sum(array.nbytes for array in arrays) > MAX_WORKSPACE_BYTES:
            self._workspace = None
            return self.run
        workspace = self._workspace  # another thread may replace it by one for other shapes
        if workspace is None or not workspace.fits(arrays):
            if self._tables is not None:
                self._tables(*values, *arrays)
            workspace = self._workspace = Workspace(self.run_in, arrays, self._tables)
        return workspace
