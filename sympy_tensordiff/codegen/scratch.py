"""Memory of temporaries that is kept from call to call: new pages cost more than what is computed in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MOST = 2**28
"""More bytes are given back after each call.

Time with memory that is kept beside time with new memory, of one thread of an AMD EPYC (glibc): for one temporary of
0.1 to 1 MB 0.97 to 1.05, of 2 MB 0.42, of 8 MB 0.39, of 72 MB 0.33; the benchmark ``attention`` takes 0.57.
"""


class Kept:
    """A function that is given its temporaries, of certain shapes, with those of the call before."""

    def __init__(self, run_in: Callable[..., None], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        self._run_in = run_in
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
        self._run_in(*values, *arrays)
        if not self._free:
            self._free.append(arrays)


class Runs:
    """What a module runs: ``run`` makes its temporaries, ``run_in`` is given those which ``scratch`` makes."""

    def __init__(self, run: Callable[..., None], run_in: Any = None, scratch: Any = None) -> None:
        self.run = run
        self.run_in = run_in
        self._scratch = scratch
        self._kept: Kept | None = None

    def chosen(self, values: Sequence[Any]) -> Callable[..., None]:
        """What runs in a call with ``values`` and in others of the same shapes."""
        if self._scratch is None:
            return self.run
        arrays = self._scratch(*values)
        if sum(array.nbytes for array in arrays) > MOST:
            self._kept = None
            return self.run
        if self._kept is None or not self._kept.fits(arrays):
            self._kept = Kept(self.run_in, arrays)
        return self._kept
