"""Arrays in the memory of a device: what they are, whose they are, and new ones of the same kind."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError

Shape = tuple[int, ...]


def is_on_device(value: Any) -> bool:
    """Whether a value is an array in the memory of a CUDA device."""
    if type(value) in (np.ndarray, float, int):
        return False
    if getattr(value, "__cuda_ndarray__", False):  # Numba's own, also in its simulator
        return True
    place = getattr(value, "__dlpack_device__", None)
    if place is not None:
        return int(place()[0]) in (CUDA, CUDA_MANAGED)
    return getattr(value, "__cuda_array_interface__", None) is not None


@dataclass(frozen=True)
class Memory:
    """Where entries stand; ``strides`` in bytes, ``dtype`` None where NumPy has none (brain floats, complex ones)."""

    pointer: int
    shape: Shape
    strides: Shape
    dtype: np.dtype[Any] | None
    device: int


@dataclass(frozen=True, eq=False)
class DeviceArray(Memory):
    """An array of a library, as the checks of arguments see it."""

    dtype: np.dtype[Any]
    value: Any
    is_locked: bool
    stream: int | None
    """The stream that has to come by before the entries are there; None where that is settled."""
    keep: Any
    """What has to live as long as the memory is used."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether the entries lie in order; strides of axes of length 1 say nothing."""
        dense = c_strides(self.shape, self.dtype.itemsize)
        return all(n == 1 or a == b for n, a, b in zip(self.shape, self.strides, dense, strict=True))

    def overlaps(self, other: DeviceArray) -> bool:
        """Whether two dense arrays have memory in common."""
        return self.pointer < other.end and other.pointer < self.end

    @property
    def end(self) -> int:
        """The address behind the last of dense entries."""
        return self.pointer + prod(self.shape) * self.dtype.itemsize


def describe(label: str, value: Any, stream: int) -> DeviceArray:
    """What there is to know of an array; its library makes ``stream`` wait for what still computes it."""
    if not getattr(value, "__cuda_ndarray__", False) and hasattr(value, "__dlpack__"):
        try:
            capsule = value.__dlpack__(stream=stream or LEGACY_STREAM)
        except (BufferError, RuntimeError) as error:
            raise ArgumentTypeError(f"{label} is not given away by its library: {error}") from error
        memory = read_capsule(capsule)
        if memory.dtype is None:
            raise ArgumentTypeError(f"{label} has entries of type {value.dtype}, which kernels do not compute with")
        return DeviceArray(**vars(memory), value=value, is_locked=False, stream=None, keep=(value, capsule))
    # The simulator has arrays of the host.
    interface = getattr(value, "__cuda_array_interface__", None) or value.__array_interface__
    if interface.get("mask") is not None:
        raise ArgumentTypeError(f"{label} has a mask, which no kernel looks at: fill it first")
    shape = tuple(map(int, interface["shape"]))
    dtype = np.dtype(interface["typestr"])
    pointer, is_locked = interface["data"]
    strides = interface.get("strides") or c_strides(shape, dtype.itemsize)
    memory = Memory(int(pointer), shape, tuple(strides), dtype, _device_of(value))
    stream_before = interface.get("stream")
    return DeviceArray(**vars(memory), value=value, is_locked=bool(is_locked), stream=stream_before, keep=value)


def _device_of(value: Any) -> int:
    """The number of the device, of an array that does not tell by DLPack; 0 where it does not tell at all."""
    context = getattr(getattr(value, "gpu_data", None), "context", None)
    return int(context.device.id) if context is not None else 0


def check_as_it_is(label: str, array: DeviceArray, dtype: np.dtype[Any]) -> DeviceArray:
    """An array of a device, where nothing is converted or copied behind the caller's back."""
    if array.dtype != dtype:
        raise ArgumentTypeError(
            f"{label} has dtype {array.dtype} on the device, where the results have {dtype}: convert it first"
        )
    check_dense(label, array)
    return array


def check_dense(label: str, array: DeviceArray) -> None:
    """Refuse an array of a device whose entries do not lie in order."""
    if not array.is_dense:
        raise ArgumentError(
            f"{label} has strides of {array.strides} bytes on the device, with shape {array.shape} kernels need "
            f"{c_strides(array.shape, array.dtype.itemsize)}: pass a copy in C order, as cupy.ascontiguousarray and "
            "the tensor's .contiguous() make"
        )


# ---------------------------------------------------------------------------- streams


def stream_handle(stream: Any) -> int:
    """The number of a stream: of Numba, CuPy, PyTorch, or of anything that has ``__cuda_stream__``."""
    if stream is None or (isinstance(stream, int) and not isinstance(stream, bool)):
        return stream or 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    for name in ("ptr", "cuda_stream", "handle"):
        if hasattr(stream, name):
            return int(getattr(getattr(stream, name), "value", getattr(stream, name)) or 0)
    raise ArgumentTypeError(
        f"stream is {type(stream).__name__}, a stream of Numba, CuPy or PyTorch, or its number is needed"
    )


def recorded(cuda: Any, queue: Any) -> Any:
    """An event behind all that a stream of Numba has to do so far."""
    event = cuda.event(timing=False)
    event.record(queue)
    return event


# ---------------------------------------------------------------------------- libraries


class NumbaArrays:
    """New arrays of Numba, on a stream that who takes them can ask them for."""

    can_be_written = True

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def current_stream(self, value: Any) -> int:
        """The stream on which the caller works, who has passed this array."""
        return stream_handle(getattr(value, "stream", None))

    def empty(self, shape: Shape, dtype: np.dtype[Any], stream: Any) -> Any:
        """A new array, for kernels on a stream of Numba."""
        return self.cuda.device_array(shape, dtype, stream=stream)

    def given(self, array: Any, stream: Any) -> Any:
        """What the caller gets."""
        return array


class JaxArrays(NumbaArrays):
    """JAX has no arrays to be filled: Numba's memory becomes one of JAX."""

    can_be_written = False

    def current_stream(self, value: Any) -> int:
        return 0

    def given(self, array: Any, stream: Any) -> Any:
        def wait(theirs: int | None) -> None:
            event = recorded(self.cuda, stream)
            # Without a stream of theirs, nobody but the host can wait.
            event.synchronize() if theirs is None else event.wait(self.cuda.external_stream(theirs))

        jax = importlib.import_module("jax.dlpack")
        return jax.from_dlpack(Exported(describe("the result", array, 0), array, wait))


class CupyArrays(NumbaArrays):
    """New arrays out of CuPy's pool, whose blocks belong to streams."""

    def __init__(self, cuda: Any) -> None:
        super().__init__(cuda)
        self.cupy = importlib.import_module("cupy")

    def current_stream(self, value: Any) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    def empty(self, shape: Shape, dtype: np.dtype[Any], stream: Any) -> Any:
        handle = stream_handle(stream)
        cuda = self.cupy.cuda
        if handle == self.current_stream(None):
            return self.cupy.empty(shape, dtype)
        with cuda.ExternalStream(handle) if handle else cuda.Stream.null:
            return self.cupy.empty(shape, dtype)


class TorchArrays(NumbaArrays):
    """New tensors out of PyTorch's pool, whose blocks belong to streams."""

    def __init__(self, cuda: Any) -> None:
        super().__init__(cuda)
        self.torch = importlib.import_module("torch")

    def current_stream(self, value: Any) -> int:
        return int(self.torch.cuda.current_stream().cuda_stream)

    def empty(self, shape: Shape, dtype: np.dtype[Any], stream: Any) -> Any:
        handle, torch = stream_handle(stream), self.torch
        around: AbstractContextManager[Any] = nullcontext()
        if handle != self.current_stream(None):
            other = torch.cuda.ExternalStream(handle) if handle else torch.cuda.default_stream()
            around = torch.cuda.stream(other)
        with around:
            return torch.empty(shape, dtype=getattr(torch, dtype.name), device="cuda")


_LIBRARIES: dict[str, type[NumbaArrays]] = {
    "cupy": CupyArrays,
    "torch": TorchArrays,
    "jax": JaxArrays,
    "jaxlib": JaxArrays,
}


def library_of(value: Any) -> type[NumbaArrays]:
    """What makes new arrays of the kind of a value; Numba does for libraries that are not known here."""
    names = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    return next((_LIBRARIES[name] for name in names if name in _LIBRARIES), NumbaArrays)


class _Interface:
    """Memory of any library under the name by which Numba takes it."""

    def __init__(self, array: DeviceArray) -> None:
        self.owner = array.keep
        self.__cuda_array_interface__ = {
            "shape": array.shape or (1,),
            "typestr": array.dtype.str,
            "data": (array.pointer, False),
            "strides": None,
            "version": 2,
        }


def for_kernels(cuda: Any, array: DeviceArray) -> Any:
    """An array as Numba's kernels take it: with one axis at least."""
    if getattr(array.value, "__cuda_ndarray__", False):
        return array.value if array.shape else array.value.reshape(1)
    return cuda.as_cuda_array(_Interface(array), sync=False)


# ---------------------------------------------------------------------------- arrays of other libraries through DLPack
# Arrays of other libraries through DLPack: what a capsule says, and a capsule for memory of a device.
#
# The protocol is that of the array API standard: who takes an array names the stream on which it will work, and who
# gives it makes that stream wait for what still computes it. Nobody waits on the host.


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
