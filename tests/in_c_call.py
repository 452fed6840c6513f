"""One call of a function of a C file through `ctypes`; needs nothing of ours, so that sanitizers are quick."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np


def call(library: Any, name: str, passed: Sequence[Any], sizes: Sequence[int], results: Sequence[Any]) -> int:
    """Call a function and return its value; an array without axes is passed as a number.

    The function must not use more scratch memory than it says.
    """
    dtype = results[0].dtype
    texts = [_passed(value) for value in (*passed, *results)]
    texts[len(passed) :] = [ctypes.c_void_p(result.ctypes.data) for result in results]
    count = getattr(library, f"{name}_scratch", None)
    if count is None:
        return int(getattr(library, name)(*texts))
    count.restype = ctypes.c_ssize_t
    entries = count(*map(ctypes.c_ssize_t, sizes))
    scratch = np.full(entries + 64, np.nan, dtype)
    code = int(getattr(library, name)(*texts, ctypes.c_void_p(scratch.ctypes.data)))
    assert np.isnan(scratch[entries:]).all(), "written behind the scratch memory"
    return code


def _passed(value: Any) -> Any:
    if isinstance(value, int):
        return ctypes.c_ssize_t(value)
    if value.ndim:
        return ctypes.c_void_p(value.ctypes.data)
    return (ctypes.c_float if value.dtype == np.float32 else ctypes.c_double)(float(value))
