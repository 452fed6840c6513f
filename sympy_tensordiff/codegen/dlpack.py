"""Arrays of other libraries through DLPack: what a capsule says, and a capsule for memory of a device.

The protocol is that of the array API standard: who takes an array names the stream on which it will work, and who
gives it makes that stream wait for what still computes it. Nobody waits on the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

CUDA, CUDA_MANAGED = 2, 13
"""The types of devices with memory that kernels reach."""

LEGACY_STREAM = 1
"""How the protocol calls the default stream, whose handle is 0."""

_KINDS = "iuf"


class _Tensor(ctypes.Structure):
    """What stands at the address in a capsule."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


# With a declaration of its own: that of `ctypes.pythonapi` is shared by the whole process.
_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _tensor(capsule: Any) -> _Tensor:
    return ctypes.cast(_address(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents


@dataclass(frozen=True)
class Memory:
    """Where entries stand; ``strides`` in bytes, ``dtype`` None where NumPy has none (brain floats, complex ones)."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any] | None
    device: int


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of dense entries, the last axis fastest."""
    result: list[int] = []
    for length in reversed(shape):
        result.append(itemsize)
        itemsize *= length
    return tuple(reversed(result))


def read_capsule(capsule: Any) -> Memory:
    """What a capsule says, which has to be kept as long as the memory is used."""
    tensor = _tensor(capsule)
    shape = tuple(tensor.shape[: tensor.ndim])
    itemsize = tensor.bits // 8
    strides = tuple(s * itemsize for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    known = tensor.code < len(_KINDS) and tensor.lanes == 1 and itemsize in (1, 2, 4, 8)
    dtype = np.dtype(f"{_KINDS[tensor.code]}{itemsize}") if known else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    return Memory(pointer, shape, strides or c_strides(shape, itemsize), dtype, tensor.device)


class Exported:
    """Memory of a device as an object that other libraries take with their ``from_dlpack``.

    NumPy makes the capsule, for an array over this memory, which nobody reads on the host: so what lets the memory
    go is compiled, and runs in whatever thread and at whatever moment. Only the device is written in afterwards.

    Parameters
    ----------
    memory : Memory
    owner : object
        What keeps the memory.
    wait : callable
        Makes the stream that it is given wait for the entries; None is given where no stream is named.
    """

    def __init__(self, memory: Memory, owner: Any, wait: Callable[[int | None], None]) -> None:
        assert memory.dtype is not None
        self.memory = memory
        self.owner = owner
        self.wait = wait
        self.__array_interface__ = {
            "shape": memory.shape,
            "strides": memory.strides,
            "typestr": memory.dtype.str,
            "data": (memory.pointer, False),
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.memory.device

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        if stream != -1:  # by which a consumer says that it takes care itself
            self.wait(stream)
        capsule = np.asarray(self).__dlpack__()
        _tensor(capsule).device_type, _tensor(capsule).device = self.__dlpack_device__()
        return capsule
