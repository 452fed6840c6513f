"""The arrays that a caller gives to be filled: they fit, can be written, and share no memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sympy_tensordiff.codegen.device_arrays import DeviceArray, check_as_it_is
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError


def check_device_out(
    name: str, out: DeviceArray, shape: tuple[int, ...], dtype: np.dtype[Any], others: Sequence[tuple[str, DeviceArray]]
) -> None:
    """Refuse an array of a device that does not fit or shares memory with one of ``others``."""
    label = f"out for {name}"
    if out.shape != shape:
        raise ArgumentError(f"{label} has shape {out.shape}, expected {shape}")
    if out.dtype != dtype:
        raise ArgumentTypeError(f"{label} has dtype {out.dtype}, expected {dtype}")
    if out.is_locked:
        raise ArgumentError(f"{label} is read-only")
    check_as_it_is(label, out, dtype)
    for other, array in others:
        if out.overlaps(array):
            raise ArgumentError(f"{label} shares memory with {other}; pass an array of its own")


def check_out(
    name: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], others: Sequence[tuple[str, Any]]
) -> NDArray[Any]:
    """``out`` itself, refused where it does not fit or shares memory with one of ``others``."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise ArgumentTypeError(f"out for {name} is {type(out).__name__}, a NumPy array is needed")
    if out.shape != shape:
        raise ArgumentError(f"out for {name} has shape {out.shape}, expected {shape}")
    if out.dtype != dtype:
        raise ArgumentTypeError(f"out for {name} has dtype {out.dtype}, expected {dtype}")
    if not out.flags.writeable:
        raise ArgumentError(f"out for {name} is read-only")
    if not out.flags.c_contiguous and _overlaps_itself(out):
        raise ArgumentError(f"out for {name} has entries that share memory; pass an array whose entries are apart")
    for label, other in others:
        if isinstance(other, np.ndarray) and _overlap(out, other):
            raise ArgumentError(f"out for {name} shares memory with {label}; pass an array of its own")
    return out


def _overlaps_itself(out: NDArray[Any]) -> bool:
    places = np.zeros((), np.int64)
    for length, stride in zip(out.shape, out.strides, strict=True):
        places = np.add.outer(places, np.arange(length) * stride)
    return bool(np.unique(places).size != out.size)


def _overlap(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        # The typed signature of max_work knows two constants only.
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type, unused-ignore]
    except RuntimeError:  # TooHardError, which has moved between the versions of NumPy
        return True
