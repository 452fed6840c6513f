"""One call of a function of a C file through `ctypes`; needs nothing of ours, so that sanitizers are quick."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np


def call(library: Any, name: str, passed: Sequence[Any], sizes: Sequence[int], results: Sequence[Any]) -> int:
    """What a function returns; an array without axes is passed as a number."""
    dtype = results[0].dtype
    texts = [_passed(value) for value in (*passed, *results)]
    texts[len(passed) :] = [ctypes.c_void_p(result.ctypes.data) for result in results]
    count = getattr(library, f"{name}_scratch", None)
    if count is not None:
        count.restype = ctypes.c_ssize_t
        scratch = np.full(count(*map(ctypes.c_ssize_t, sizes)), np.nan, dtype)
        texts.append(ctypes.c_void_p(scratch.ctypes.data))
    return int(getattr(library, name)(*texts))


def _passed(value: Any) -> Any:
    if isinstance(value, int):
        return ctypes.c_ssize_t(value)
    if value.ndim:
        return ctypes.c_void_p(value.ctypes.data)
    return (ctypes.c_float if value.dtype == np.float32 else ctypes.c_double)(float(value))
