"""Calls with arrays of a device: in the simulator, whose arrays are Numba's, and with libraries made up for that."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import types
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run.device_arrays import Exported, Memory, is_on_device, read_capsule, stream_handle
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    DataIndexError,
    DeviceMemoryError,
)

i, k, n, m = td.indices("i k n m")
A, x, c = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m), sympy.Symbol("c", real=True)
chosen, point = td.TensorSymbol("chosen", 2, dtype=int), td.TensorSymbol("point", ())
# A temporary of n entries, and two results, one of them a number.
INNER = td.TensorComprehension(td.IndexedSum(A[i, k] * x[k], (k, 0, m - 1)) ** 2, (i, n))
BOTH = (td.TensorComprehension(c * INNER[i] * x[k], (i, n), (k, m)), td.IndexedSum(INNER[i], (i, 0, n - 1)))
GIVEN = np.arange(6.0).reshape(2, 3), np.array([1.0, -2.0, 0.5])


def wanted(a, v, factor):
    inner = (a @ v) ** 2
    return factor * np.outer(inner, v), inner.sum()


def both():
    return td.lambdify((A, x, c), BOTH, "cuda")


def on_device(*arrays):
    from numba import cuda

    return [cuda.to_device(array) for array in arrays]


def same(found, right):
    for value, other in zip(found, right, strict=True):
        np.testing.assert_allclose(value.copy_to_host().reshape(np.shape(other)), other, rtol=1e-12)


# ---------------------------------------------------------------------------- arrays of Numba


def arrays_stay():
    """New arrays of Numba, or those given, of the types of the arguments; nothing comes back to the host."""
    from numba import cuda

    function, (a, v) = both(), on_device(*GIVEN)
    for stream in (None, 0):
        found = function(a, v, 2.0, stream=stream)
        assert all(cuda.cudadrv.devicearray.is_cuda_ndarray(value) for value in found)
        assert [value.shape for value in found] == [(2, 3), ()]
        same(found, wanted(*GIVEN, 2.0))
    out = cuda.device_array((2, 3)), cuda.device_array(())
    assert function(a, v, 3.0, out=out) is out
    same(out, wanted(*GIVEN, 3.0))
    single = function(*on_device(*[array.astype(np.float32) for array in GIVEN]), 2.0)
    assert [value.dtype for value in single] == [np.float32] * 2
    again = pickle.loads(pickle.dumps(function))(a, v, 2.0)
    same(again, wanted(*GIVEN, 2.0))
    assert isinstance(function(*GIVEN, 2.0)[0], np.ndarray)


def data_and_numbers():
    """Integers come from either side, and are looked at before; a tensor of rank 0 may be a number of the host."""
    function = td.lambdify((x, chosen, point), td.TensorComprehension(x[chosen[i]] * point[()], (i, 2)), "cuda")
    (v, picked, two) = on_device(GIVEN[1], np.array([2, 0], np.int32), np.array(2.0))
    for selects in (picked, np.array([2, 0])):
        for factor in (two, 2.0):
            same([function(v, selects, factor)], [[1.0, 2.0]])
    with pytest.raises(DataIndexError, match=r"chosen\[1\] is 3: the index .* has to be from 0 to 2"):
        function(v, on_device(np.array([0, 3]))[0], two)


def test_arrays_stay_on_the_device(simulator):
    simulator(arrays_stay)


def test_data_and_numbers_on_the_device(simulator):
    simulator(data_and_numbers)


REFUSED = {
    "argument x is in the memory of the host, others are on the device: move it": (ArgumentError, {"x": GIVEN[1]}),
    r"argument A has strides of \(8, 16\) bytes on the device, with shape \(2, 3\) kernels need \(24, 8\)": (
        ArgumentError,
        {"A": np.asfortranarray(GIVEN[0])},
    ),
    "argument x has dtype float32 on the device, where the results have float64: convert it": (
        ArgumentTypeError,
        {"x": GIVEN[1].astype(np.float32)},
    ),
    r"argument A has dtype int64 on the device, where": (ArgumentTypeError, {"A": np.ones((2, 3), int)}),
    "argument c is one number on the device, which the host would have to wait for": (
        ArgumentTypeError,
        {"c": np.array(2.0)},
    ),
    r"argument x has 2 axes \(shape \(1, 3\)\), expected 1": (ArgumentError, {"x": GIVEN[1][None]}),
    "argument x has length 4 on axis 0, expected 3": (ArgumentError, {"x": np.ones(4)}),
    "argument x has dtype float16, which has too little range": (ArgumentTypeError, {"x": np.ones(3, np.float16)}),
    "out for result0 is in the memory of the host, the arguments are on the device": (
        ArgumentTypeError,
        {"out": (np.empty((2, 3)), np.empty(()))},
    ),
    r"out for result0 has shape \(3, 2\), expected \(2, 3\)": (ArgumentError, {"out": ((3, 2), ())}),
    "out for result1 has dtype float64, expected float32": (ArgumentTypeError, {"single": True, "out": ((2, 3), ())}),
    "out for result0 shares memory with argument A; pass": (ArgumentError, {"out": ("A", ())}),
    "stream is str, a stream of Numba, CuPy or PyTorch": (ArgumentTypeError, {"stream": "fast"}),
}


def refused(message):
    from numba import cuda

    error, change = REFUSED[message]
    change = dict(change)
    arrays = {"A": GIVEN[0], "x": GIVEN[1]}
    if change.pop("single", False):
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    arrays |= {name: change.pop(name) for name in ("A", "x", "c") if name in change}
    host = arrays.pop("x") if "memory of the host, others" in message else None
    given = {name: cuda.to_device(array) for name, array in arrays.items()}
    if host is not None:
        given["x"] = host
    shapes = change.pop("out", None)
    if shapes is not None:
        made = {"A": given["A"]}
        out = [s if isinstance(s, np.ndarray) else made[s] if s in made else cuda.device_array(s) for s in shapes]
        if "out for result1" in message:
            out[0] = cuda.device_array((2, 3), np.float32)
        change["out"] = tuple(out)
    with pytest.raises(error, match=message):
        both()(given["A"], given["x"], given.get("c", 2.0), **change)


@every("message", [*REFUSED])
def test_refusals_on_the_device(message, simulator):
    simulator(refused, message)


def more_refusals():
    function = td.lambdify((x, chosen), td.TensorComprehension(x[chosen[i]], (i, 2)), "cuda")
    (v,) = on_device(GIVEN[1])
    for data, message in (
        (np.array([0, 1], np.uint8), "argument chosen has dtype uint8 on the device, int32 or int64 is needed"),
        (np.array([0.0, 1.0]), "argument chosen has dtype float64, but selects entries"),
    ):
        with pytest.raises(ArgumentTypeError, match=message):
            function(v, *on_device(data))
    with pytest.raises(ArgumentError, match="2 arguments are needed"):
        function(v)


def test_refusals_of_data_on_the_device(simulator):
    simulator(more_refusals)


def test_streams_are_for_cuda():
    with pytest.raises(ArgumentError, match="stream is for the backend 'cuda', not for 'numpy'"):
        td.lambdify((x,), x, "numpy")(GIVEN[1], stream=0)


# ---------------------------------------------------------------------------- errors of devices


class CudaAPIError(Exception):
    """As the driver's: its text names the code."""


class NvrtcSupportError(ImportError):
    pass


FAILURES = {
    "OUT_OF_MEMORY": (
        CudaAPIError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
        DeviceMemoryError,
        r"the device is out of memory: the results of this call need 56 bytes and its temporaries \d+ bytes",
    ),
    "PTX": (
        CudaAPIError("[222] Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
        BackendError,
        r"the driver is older than the toolkit .*: update the driver",
    ),
    "toolkit": (NvrtcSupportError("no NVRTC"), BackendError, "CUDA cannot compile: no NVRTC; pip install"),
    "other": (CudaAPIError("[700] CUDA_ERROR_ILLEGAL_ADDRESS"), CudaAPIError, "ILLEGAL_ADDRESS"),
}


def failing(name):
    raised, error, message = FAILURES[name]

    def fail(*_, **__):
        raise raised

    function = both()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(function._cuda, "run_on_device", fail)
        for arrays in (GIVEN, on_device(*GIVEN)):
            with pytest.raises(error, match=message):
                function(*arrays, 2.0)


@pytest.mark.parametrize("name", FAILURES)
def test_errors_of_devices(name, simulator):
    simulator(failing, name)


# ---------------------------------------------------------------------------- DLPack


def exported(array, waits):
    memory = Memory(array.ctypes.data, array.shape, array.strides, array.dtype, 3)
    return Exported(memory, array, waits.append)


def test_capsules_have_the_positions_of_entries():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    read = read_capsule(array.T.__dlpack__())
    assert read == Memory(array.ctypes.data, (4, 3), (4, 16), np.dtype(np.float32), 0)
    assert read_capsule(np.ones((2, 2), complex).__dlpack__()).dtype is None
    assert read_capsule(np.array(2).__dlpack__()).shape == ()


class Owner(np.ndarray):
    """An array that can be looked after."""


def test_memory_is_given_away_and_let_go():
    array, waits = np.arange(6.0).reshape(2, 3).view(Owner), []
    alive, memory = weakref.ref(array), Memory(array.ctypes.data, (2, 3), (24, 8), array.dtype, 3)
    given = exported(array, waits)
    assert given.__dlpack_device__() == (2, 3)
    first, second = given.__dlpack__(stream=7), given.__dlpack__(stream=-1)
    assert waits == [7] and read_capsule(first) == read_capsule(second) == memory
    del array, given, first
    assert alive() is not None
    with pytest.raises(ZeroDivisionError):  # let go while an exception goes up
        [second, [second := None, 1 // 0]]
    gc.collect()
    assert alive() is None


def test_numbers_of_streams():
    class Named:
        def __init__(self, **names):
            vars(self).update(names)

    class Protocol:
        def __cuda_stream__(self):
            return 0, 7

    streams = (None, 0, 7, Named(ptr=7), Named(cuda_stream=7), Named(handle=ctypes.c_void_p(7)), Protocol())
    assert [stream_handle(stream) for stream in streams] == [0, 0, 7, 7, 7, 7, 7]
    assert stream_handle(Named(handle=ctypes.c_void_p(0))) == 0
    assert not any(map(is_on_device, (1.0, np.ones(2), np.float32(1), [1.0], None)))


# ---------------------------------------------------------------------------- another library


class Tensor:
    """An array of a made-up device, which is the memory of the host; it tells by DLPack where it is."""

    def __init__(self, array, strange=False):
        self.array, self.strange = array, strange
        self.dtype, self.shape = array.dtype, array.shape

    def __dlpack_device__(self):
        return 2, int(self.strange)

    def __dlpack__(self, *, stream):
        LOG.append(("wait", stream))
        if self.dtype == np.float16:
            raise BufferError("use tensor.detach()")
        if self.dtype == complex:
            return self.array.__dlpack__()
        memory = Memory(self.array.ctypes.data, self.shape, self.array.strides, self.dtype, int(self.strange))
        return Exported(memory, self, lambda _: None).__dlpack__()


class Stream:
    def __init__(self, ptr):
        self.ptr = ptr

    def __enter__(self):
        LOG.append(("enter", self.ptr))

    def __exit__(self, *_):
        pass


class Event:
    def record(self, stream):
        LOG.append(("record", stream_handle(stream)))

    def wait(self, stream):
        LOG.append(("event", stream_handle(stream)))

    def query(self):
        return True


LOG: list[tuple[str, int]] = []


def made_up(name):
    """A module like CuPy, or like PyTorch, whose current stream is 5."""
    module = types.ModuleType(name)
    module.cuda = types.SimpleNamespace(
        get_current_stream=lambda: Stream(5),
        ExternalStream=Stream,
        Stream=types.SimpleNamespace(null=Stream(0)),
        current_stream=lambda: types.SimpleNamespace(cuda_stream=5),
        default_stream=lambda: Stream(0),
        stream=lambda stream: stream,
    )
    module.float64 = np.float64
    module.empty = lambda shape, dtype, device=None: Tensor(np.empty(shape, dtype))
    return module


@contextmanager
def with_library(name):
    """Numba's simulator with what it lacks: arrays and streams of others."""
    from numba import cuda
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    def as_cuda_array(value, sync):
        assert not sync
        interface = value.__cuda_array_interface__
        count = int(np.prod(interface["shape"])) * np.dtype(interface["typestr"]).itemsize
        memory = (ctypes.c_char * count).from_address(interface["data"][0])
        found = FakeCUDAArray(np.frombuffer(memory, interface["typestr"]).reshape(interface["shape"]))
        found.owner = value  # as Numba's own does
        return found

    LOG.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, made_up(name))
        patch.setattr(Tensor, "__module__", f"{name}._core")
        patch.setattr(cuda, "as_cuda_array", as_cuda_array, raising=False)
        patch.setattr(cuda, "external_stream", Stream, raising=False)
        patch.setattr(cuda, "event", lambda timing: Event())
        patch.setattr(Stream, "synchronize", lambda self: LOG.append(("host waits", self.ptr)), raising=False)
        yield


def of_the_callers_kind(name, stream):
    """On the caller's stream, or on that given, in memory of the caller's library that belongs to this stream."""
    function, arrays = both(), [Tensor(array) for array in GIVEN]
    with with_library(name):
        found = function(*arrays, 2.0, stream=stream)
        used = 5 if stream is None else stream_handle(stream)
        for value, right in zip(found, wanted(*GIVEN, 2.0), strict=True):
            assert type(value) is Tensor
            np.testing.assert_allclose(value.array, right, rtol=1e-12)
        assert {number for what, number in LOG if what == "wait"} == {used or 1}  # the default stream is 1 there
        entered = [number for what, number in LOG if what == "enter"]
        # Two results, a temporary, and the parts of a sum.
        assert entered == ([] if used == 5 else [used] * 4)
        assert not [what for what, _ in LOG if what == "host waits"]
        # What another stream reads is kept until that has come by.
        assert len(function._device_calls.pending) == (used != 5)
        out = tuple(Tensor(np.empty(shape)) for shape in ((2, 3), ()))
        assert function(*arrays, 3.0, out=out, stream=stream) is out
        np.testing.assert_allclose(out[0].array, wanted(*GIVEN, 3.0)[0], rtol=1e-12)
        assert len(function._device_calls.pending) == (used != 5)


# The default stream of the process, that of the thread, and another one.
@every("stream", [None, 0, 2, 9])
@every("name", ["cupy", "torch"])
def test_arrays_of_other_libraries(name, stream, simulator):
    simulator(of_the_callers_kind, name, stream)


def not_given_away():
    function, (a, v) = both(), [Tensor(array) for array in GIVEN]
    with with_library("cupy"):
        with pytest.raises(ArgumentTypeError, match=r"argument x cannot be exported by its library: use tensor.detach"):
            function(a, Tensor(GIVEN[1].astype(np.float16)), 2.0)
        with pytest.raises(ArgumentTypeError, match="argument x has entries of type complex128, which kernels"):
            function(a, Tensor(GIVEN[1].astype(complex)), 2.0)
        with pytest.raises(ArgumentError, match="an array is on device 1, the current one is 0: choose it first"):
            function(a, Tensor(GIVEN[1], strange=True), 2.0)
        with pytest.raises(ArgumentError, match=r"argument A has strides of \(8, 16\) bytes"):
            function(Tensor(np.asfortranarray(GIVEN[0])), v, 2.0)


def test_what_libraries_do_not_give_away(simulator):
    simulator(not_given_away)


class Interfaced:
    """An array that is known by its interface, and computed on a stream of its own."""

    def __init__(self, array, stream=None, **more):
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__ | {"stream": stream} | more


def known_by_interface():
    from numba import cuda

    function, (a, v) = both(), (Interfaced(GIVEN[0], 3), Interfaced(GIVEN[1], 4))
    with with_library("cupy"):
        found = function(a, v, 2.0, stream=4)
        assert cuda.cudadrv.devicearray.is_cuda_ndarray(found[0])
        assert LOG == [("record", 3), ("event", 4), ("record", 4)]  # the last for what is kept
        with pytest.raises(ArgumentTypeError, match="argument x has a mask, which kernels ignore"):
            function(a, Interfaced(GIVEN[1], mask=np.ones(3, bool)), 2.0)
        locked = Interfaced(np.empty((2, 3)))
        locked.__cuda_array_interface__["data"] = (locked.array.ctypes.data, True)
        with pytest.raises(ArgumentError, match="out for result0 is read-only"):
            function(a, v, 2.0, out=(locked, Interfaced(np.empty(()))))
    same(found, wanted(*GIVEN, 2.0))


def test_arrays_known_by_their_interface(simulator):
    simulator(known_by_interface)


def of_jax():
    """JAX takes memory of Numba; its arrays are never written."""
    function, arrays = both(), [Tensor(array) for array in GIVEN]
    taken = []
    with with_library("jax"), pytest.MonkeyPatch.context() as patch:
        module = types.ModuleType("jax.dlpack")
        module.from_dlpack = taken.append
        patch.setitem(sys.modules, "jax.dlpack", module)
        patch.setitem(sys.modules, "jax", types.ModuleType("jax"))
        function(*arrays, 2.0)
        assert [given.__dlpack_device__() for given in taken] == [(2, 0), (2, 0)]
        assert {number for what, number in LOG if what == "wait"} == {1}
        before = len(LOG)
        read = read_capsule(taken[0].__dlpack__(stream=6))
        assert LOG[before:] == [("record", 0), ("event", 6)]
        assert (read.shape, read.dtype) == ((2, 3), np.float64)
        assert len(function._device_calls.pending) == 1
        with pytest.raises(ArgumentTypeError, match="out for result0 is an array of JAX, which cannot be written"):
            function(*arrays, 2.0, out=(Tensor(np.empty((2, 3))), Tensor(np.empty(()))))
    np.testing.assert_allclose(taken[0].owner.copy_to_host(), wanted(*GIVEN, 2.0)[0], rtol=1e-12)


def test_arrays_of_jax(simulator):
    simulator(of_jax)
