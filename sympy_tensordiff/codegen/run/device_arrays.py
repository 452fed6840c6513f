"""Arrays in device memory: their description, their library, and new arrays of the same library."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.lazy import numpy as np

Shape = tuple[int, ...]


def is_on_device(value: Any) -> bool:
    """Return whether a value is an array in the memory of a CUDA device."""
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
    """A strided array in device memory; ``strides`` in bytes, ``dtype`` None if NumPy has none (bfloat16, complex)."""

    pointer: int
    shape: Shape
    strides: Shape
    dtype: np.dtype[Any] | None
    device: int


@dataclass(frozen=True, eq=False)
class DeviceArray(Memory):
    """An array of any library in device memory, described by its memory, its owner and the stream that still computes
    it.
    """

    dtype: np.dtype[Any]
    value: Any
    is_readonly: bool
    stream: int | None
    """The stream that computes the entries and has to be waited for; None if the entries are ready."""
    keep: Any
    """The objects that own the memory."""

    @property
    def ndim(self) -> int:
        """The number of axes of the device array."""
        return len(self.shape)

    @property
    def is_dense(self) -> bool:
        """Return whether the entries are dense in row-major order; strides of axes of length 1 are ignored."""
        dense = c_strides(self.shape, self.dtype.itemsize)
        return all(n == 1 or a == b for n, a, b in zip(self.shape, self.strides, dense, strict=True))

    def overlaps(self, other: DeviceArray) -> bool:
        """Return whether this dense array and ``other`` share memory."""
        return self.pointer < other.end and other.pointer < self.end

    @property
    def end(self) -> int:
        """The address one past the last entry of a contiguous device array."""
        return self.pointer + prod(self.shape) * self.dtype.itemsize


def describe_array(label: str, value: Any, stream: int) -> DeviceArray:
    """Return the description (address, shape, dtype, stream) of ``value``, an array in device memory that is to be used
    on the CUDA stream number ``stream``. Error messages call it ``label``.

    An array read through DLPack is exported for ``stream``, so its library makes ``stream`` wait for pending
    computations; for other arrays the description records the stream that they name, and the caller must wait for it.

    Raise ArgumentTypeError for masked arrays and types without kernels.
    """
    if not getattr(value, "__cuda_ndarray__", False) and hasattr(value, "__dlpack__"):
        try:
            capsule = value.__dlpack__(stream=stream or LEGACY_STREAM)
        except (BufferError, RuntimeError) as error:
            raise ArgumentTypeError(f"{label} cannot be exported by its library: {error}") from error
        memory = read_capsule(capsule)
        if memory.dtype is None:
            raise ArgumentTypeError(f"{label} has entries of type {value.dtype}, which kernels do not support")
        return DeviceArray(**vars(memory), value=value, is_readonly=False, stream=None, keep=(value, capsule))
    # The simulator's arrays are in host memory.
    interface = getattr(value, "__cuda_array_interface__", None) or value.__array_interface__
    if interface.get("mask") is not None:
        raise ArgumentTypeError(f"{label} has a mask, which kernels ignore: fill it first")
    shape = tuple(map(int, interface["shape"]))
    dtype = np.dtype(interface["typestr"])
    pointer, is_readonly = interface["data"]
    strides = interface.get("strides") or c_strides(shape, dtype.itemsize)
    memory = Memory(int(pointer), shape, tuple(strides), dtype, _device_of(value))
    stream_before = interface.get("stream")
    return DeviceArray(**vars(memory), value=value, is_readonly=bool(is_readonly), stream=stream_before, keep=value)


def _device_of(value: Any) -> int:
    """Return the number of the GPU whose memory contains the array ``value``; 0 if the array has no information about
    it.
    """
    context = getattr(getattr(value, "gpu_data", None), "context", None)
    return int(context.device.id) if context is not None else 0


def check_unconverted(label: str, array: DeviceArray, dtype: np.dtype[Any]) -> DeviceArray:
    """Return ``array`` if kernels can use it without conversion; raise, with a message about ``label``, if its dtype is
    not ``dtype`` or it is not contiguous.
    """
    if array.dtype != dtype:
        raise ArgumentTypeError(
            f"{label} has dtype {array.dtype} on the device, where the results have {dtype}: convert it first"
        )
    check_dense(label, array)
    return array


def check_dense(label: str, array: DeviceArray) -> None:
    """Raise ArgumentError, with a message about ``label``, if a device array is not dense in row-major order."""
    if not array.is_dense:
        raise ArgumentError(
            f"{label} has strides of {array.strides} bytes on the device, with shape {array.shape} kernels need "
            f"{c_strides(array.shape, array.dtype.itemsize)}: pass a copy in C order, as cupy.ascontiguousarray and "
            "the tensor's .contiguous() make"
        )


# ---------------------------------------------------------------------------- streams


def stream_handle(stream: Any) -> int:
    """Return the handle of a stream of Numba, CuPy, PyTorch, or of any object with ``__cuda_stream__``; 0 for None."""
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


def record_event(cuda: Any, queue: Any) -> Any:
    """Return a new event that completes when all current work of ``queue``, a stream of Numba, is done; ``cuda`` is the
    module `numba.cuda`.
    """
    event = cuda.event(timing=False)
    event.record(queue)
    return event


# ---------------------------------------------------------------------------- libraries


class NumbaArrays:
    """Allocates results on a GPU as arrays of Numba, the default, and finds the stream that the caller uses. Other
    array libraries have classes with the same methods.
    """

    can_be_written = True

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def current_stream(self, value: Any) -> int:
        """Return the handle of the stream of ``value``, an array that the caller passed; 0, the default stream, if it
        has none.
        """
        return stream_handle(getattr(value, "stream", None))

    def empty(self, shape: Shape, dtype: np.dtype[Any], stream: Any) -> Any:
        """Return a new array of Numba, to be filled by kernels on the stream ``stream`` of Numba."""
        return self.cuda.device_array(shape, dtype, stream=stream)

    def to_caller(self, array: Any, stream: Any) -> Any:
        """Return the result ``array`` unchanged: it is an array of the caller's library already. ``stream`` is not
        used.
        """
        return array


class JaxArrays(NumbaArrays):
    """The interface to JAX for results on a GPU: memory of Numba becomes arrays of JAX, which cannot be written to."""

    can_be_written = False

    def current_stream(self, value: Any) -> int:
        """Return 0, the default stream, for any ``value``: JAX does not expose its streams."""
        return 0

    def to_caller(self, array: Any, stream: Any) -> Any:
        """Return the result ``array`` as an array of JAX over the same memory; kernels fill it on the stream ``stream``
        of Numba.
        """

        def wait(theirs: int | None) -> None:
            """Make the stream number ``theirs`` wait until the kernels on Numba's stream ``stream`` are done. For None,
            the host waits instead.
            """
            event = record_event(self.cuda, stream)
            # Without a stream, only the host can wait.
            event.synchronize() if theirs is None else event.wait(self.cuda.external_stream(theirs))

        jax = importlib.import_module("jax.dlpack")
        return jax.from_dlpack(Exported(describe_array("the result", array, 0), array, wait))


class CupyArrays(NumbaArrays):
    """The interface to CuPy for results on a GPU: arrays come from CuPy's pool, whose blocks belong to streams."""

    def __init__(self, cuda: Any) -> None:
        super().__init__(cuda)
        self.cupy = importlib.import_module("cupy")

    def current_stream(self, value: Any) -> int:
        """Return the handle of CuPy's current stream on the current device; ``value`` is not used."""
        return int(self.cupy.cuda.get_current_stream().ptr)

    def empty(self, shape: Shape, dtype: np.dtype[Any], stream: Any) -> Any:
        """Return a new array of CuPy, to be filled by kernels on the stream ``stream`` of Numba."""
        handle = stream_handle(stream)
        cuda = self.cupy.cuda
        if handle == self.current_stream(None):
            return self.cupy.empty(shape, dtype)
        with cuda.ExternalStream(handle) if handle else cuda.Stream.null:
            return self.cupy.empty(shape, dtype)


class TorchArrays(NumbaArrays):
    """The interface to PyTorch for results on a GPU: tensors come from PyTorch's pool, whose blocks belong to
    streams.
    """

    def __init__(self, cuda: Any) -> None:
        super().__init__(cuda)
        self.torch = importlib.import_module("torch")

    def current_stream(self, value: Any) -> int:
        """Return the handle of PyTorch's current stream on the current device; ``value`` is not used."""
        return int(self.torch.cuda.current_stream().cuda_stream)

    def empty(self, shape: Shape, dtype: np.dtype[Any], stream: Any) -> Any:
        """Return a new tensor of PyTorch, to be filled by kernels on the stream ``stream`` of Numba."""
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
    """Return the class that allocates arrays of the same library as ``value``; `NumbaArrays` if the library is
    unknown.
    """
    names = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    return next((_LIBRARIES[name] for name in names if name in _LIBRARIES), NumbaArrays)


class _Interface:
    """An object with the attribute ``__cuda_array_interface__``, from which Numba reads where the memory of a device
    array of another library is.
    """

    def __init__(self, array: DeviceArray) -> None:
        self.owner = array.keep
        self.__cuda_array_interface__ = {
            "shape": array.shape or (1,),
            "typestr": array.dtype.str,
            "data": (array.pointer, False),
            "strides": None,
            "version": 2,
        }


def as_numba_array(cuda: Any, array: DeviceArray) -> Any:
    """Return a GPU array in the form that kernels of ``cuda``, Numba's module, take as an argument. A scalar gets an
    axis of length 1 if it is a Numba array.
    """
    if getattr(array.value, "__cuda_ndarray__", False):
        return array.value if array.shape else array.value.reshape(1)
    return cuda.as_cuda_array(_Interface(array), sync=False)


# ---------------------------------------------------------------------------- arrays of other libraries through DLPack
# Arrays of other libraries through DLPack: reading a capsule, and making one for device memory.
#
# The protocol is that of the array API standard: the consumer names the stream on which it will work, and the producer
# makes that stream wait for pending computations. The host does not wait.


CUDA, CUDA_MANAGED = 2, 13
"""The DLPack device types whose memory kernels can access."""

LEGACY_STREAM = 1
"""The number of the default stream in the protocol; its handle is 0."""

_KINDS = "iuf"


class _DlpackTensor(ctypes.Structure):
    """The C structure ``DLTensor`` that a capsule points to."""

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
_capsule_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _read_tensor(capsule: Any) -> _DlpackTensor:
    """Return the structure that a DLPack capsule points to."""
    return ctypes.cast(_capsule_address(capsule, b"dltensor"), ctypes.POINTER(_DlpackTensor)).contents


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of a dense array in row-major order: ``(24, 8)`` for the shape ``(2, 3)`` and entries
    of ``itemsize`` 8.
    """
    result: list[int] = []
    for length in reversed(shape):
        result.append(itemsize)
        itemsize *= length
    return tuple(reversed(result))


def read_capsule(capsule: Any) -> Memory:
    """Return the description of the array in a DLPack capsule, which must live as long as the memory is used."""
    tensor = _read_tensor(capsule)
    shape = tuple(tensor.shape[: tensor.ndim])
    itemsize = tensor.bits // 8
    strides = tuple(s * itemsize for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    known = tensor.code < len(_KINDS) and tensor.lanes == 1 and itemsize in (1, 2, 4, 8)
    dtype = np.dtype(f"{_KINDS[tensor.code]}{itemsize}") if known else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    return Memory(pointer, shape, strides or c_strides(shape, itemsize), dtype, tensor.device)


class Exported:
    """Device memory as an object that other libraries import with ``from_dlpack``.

    NumPy makes the capsule, for an array over this memory, which nobody reads on the host: so the deleter is compiled
    code that may run in any thread at any time. Only the device is written into it afterwards.

    The object keeps the `owner` of the memory alive. `wait` makes a stream wait for the entries; it is None if no
    stream is named.
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
        if stream != -1:  # -1: the consumer synchronises itself
            self.wait(stream)
        capsule = np.asarray(self).__dlpack__()
        _read_tensor(capsule).device_type, _read_tensor(capsule).device = self.__dlpack_device__()
        return capsule
