"""Calls of CUDA kernels with arrays on the device, and readable errors of the device."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from sympy_tensordiff.codegen.ir.programs import Argument, DataCheck, Program
from sympy_tensordiff.codegen.run.arguments import ArgumentChecker, PreparedArguments
from sympy_tensordiff.codegen.run.device_arrays import (
    DeviceArray,
    NumbaArrays,
    as_numba_array,
    check_dense,
    describe_array,
    is_on_device,
    library_of,
    record_event,
    stream_handle,
)
from sympy_tensordiff.codegen.run.results import check_out
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    DeviceMemoryError,
    SingularMatrixError,
)
from sympy_tensordiff.lazy import numpy as np


def require_device() -> Any:
    """Return the module ``numba.cuda``; raise BackendError with advice if there is no device."""
    try:
        cuda = importlib.import_module("numba.cuda")
        if cuda.is_available():
            return cuda
        reason = str(cuda.cuda_error()).strip().partition("\n")[0].rstrip(": ")
    except Exception as error:  # versions of numba-cuda and NumPy that do not fit raise all sorts of errors here
        reason = f"{type(error).__name__}: {error}"
    installed = importlib.util.find_spec("numba_cuda") is not None
    wayout = "is there one, with its driver?" if installed else "pip install '.[cuda]'."
    raise BackendError(
        f"the backend 'cuda' found no CUDA device ({reason}): {wayout} "
        "Without one, NUMBA_ENABLE_CUDASIM=1 in the environment runs the kernels in Numba's slow simulator; "
        ".source holds their text"
    )


@contextmanager
def translate_device_errors(program: Program, prepared: PreparedArguments, sizes: Mapping[str, int]) -> Iterator[None]:
    """Context manager: convert errors of the GPU, its driver and tools to errors of this package with advice.
    ``prepared`` and ``sizes`` give the bytes of the call, for the message.
    """
    with warnings.catch_warnings():
        # Without the warning that small arrays do not fill a device.
        warnings.filterwarnings("ignore", message=".*Grid size")  # the text begins with a colour
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise SingularMatrixError(str(error)) from error
        except Exception as error:
            kind, text = type(error).__name__, str(error)
            if "OUT_OF_MEMORY" in text or "OutOfMemory" in kind:
                raise DeviceMemoryError(_out_of_memory_message(program, prepared, sizes)) from error
            if "UNSUPPORTED_PTX_VERSION" in text:
                raise BackendError(
                    f"the driver is older than the toolkit ({text}): update the driver, or pip install '.[cuda12]'"
                ) from error
            if "Support" in kind:  # a part of NVIDIA's toolkit is missing
                raise BackendError(f"CUDA cannot compile: {error}; pip install '.[cuda]'") from error
            raise


def _out_of_memory_message(program: Program, prepared: PreparedArguments, sizes: Mapping[str, int]) -> str:
    """Return the message for a call that needs more memory than the device has, with the bytes of the results in
    ``prepared`` and of the temporaries.
    """

    def bytes_text(shapes: Sequence[Sequence[int]]) -> str:
        """Return the total size of arrays with these `shapes` as text for the message, such as ``1,024 bytes``."""
        return f"{sum(prod(max(n, 0) for n in shape) for shape in shapes) * prepared.dtype.itemsize:,} bytes"

    made = [tuple([form.evaluate(dict(sizes)) for form in array.shape]) for array in program.temporaries]
    return (
        f"the device is out of memory: the results of this call need {bytes_text(prepared.shapes)} and its temporaries "
        f"{bytes_text(made)}, next to other arrays on it; free arrays, pass smaller ones, or use temporaries=False"
    )


class DeviceCalls:
    """Runs one program with arrays on a device; nothing is copied to the host, and the host does not wait."""

    def __init__(self, program: Program, checker: ArgumentChecker) -> None:
        self.program = program
        self.checker = checker
        self.pending: deque[tuple[Any, list[Any]]] = deque()
        """The arrays that kernels may still be reading, each with the event that completes after them."""

    def __call__(
        self,
        compute: Callable[..., None],
        args: Sequence[Any],
        out: Sequence[Any] | None,
        stream: Any,
        check: Callable[[Sequence[DataCheck], Sequence[Any]], None],
    ) -> list[Any]:
        """Return the results for ``args``, which contain arrays on a device: ``out``, or new arrays of the library of
        the first one. ``compute`` runs the kernels on `stream`, ``check`` tests index data on the host.
        """
        cuda = importlib.import_module("numba.cuda")
        first = next(value for value in args if is_on_device(value))
        library = library_of(first)(cuda)
        handle = library.current_stream(first) if stream is None else stream_handle(stream)
        queue = cuda.external_stream(handle) if handle else 0
        given = {
            argument.name: _describe_argument(argument, value, handle)
            for argument, value in zip(self.program.arguments, args, strict=False)
            if is_on_device(value)
        }
        values = [
            self._for_checks(cuda, given, *pair, queue) for pair in zip(self.program.arguments, args, strict=False)
        ]
        prepared = self.checker.prepare(values if len(values) == len(args) else args)
        if prepared.suspects:
            check(prepared.suspects, [_on_host(cuda, v, queue) if isinstance(v, DeviceArray) else v for v in values])
        with translate_device_errors(self.program, prepared, self.checker.known_sizes()):
            results = self._results(library, given, prepared, out, handle, queue)
            arrays = [*given.values(), *results]
            _check_devices(cuda, arrays)
            self._wait(cuda, arrays, handle, queue)
            passed = [
                self._kernel_argument(cuda, given, argument, value, queue)
                for argument, value in zip(self.program.arguments, prepared.values, strict=True)
            ]
            filled = [as_numba_array(cuda, array) for array in results]

            def empty(entries: int, dtype: np.dtype[Any], stream: Any) -> Any:
                """Return a new device array of ``entries`` numbers of the type ``dtype`` for a temporary, made on
                ``stream`` by the array library of the caller's arguments.
                """
                return as_numba_array(
                    cuda, describe_array("a temporary", library.empty((entries,), dtype, stream), handle)
                )

            compute(*passed, *filled, stream=queue, empty=empty)
            self._keep_alive(cuda, library, first, [array.keep for array in arrays], handle, queue)
            return [library.to_caller(array.value, queue) if out is None else array.value for array in results]

    def _for_checks(
        self, cuda: Any, given: Mapping[str, DeviceArray], argument: Argument, value: Any, queue: Any
    ) -> Any:
        """Return the `value` of ``argument`` as the checks of a call need it: an index array as a copy on the host,
        another device array as its description in ``given``, a number unchanged. Raise `ArgumentError` for a real array
        on the host.

        ``cuda`` is Numba's module, ``queue`` the stream.
        """
        array = given.get(argument.name)
        if array is None:
            if argument.kind == "array" and argument.shape and argument.dtype == "real":
                raise ArgumentError(
                    f"argument {argument.label} is in the memory of the host, others are on the device: "
                    "move it there first, as cupy.asarray, torch.as_tensor(..., device='cuda') or "
                    "numba.cuda.to_device do"
                )
            return value
        # Indices are checked before any kernel runs, so they are needed on the host.
        return _on_host(cuda, array, queue) if argument.dtype == "integer" else array

    def _kernel_argument(
        self, cuda: Any, given: Mapping[str, DeviceArray], argument: Argument, value: Any, queue: Any
    ) -> Any:
        """Return the `value` of an argument in the form that CUDA kernels take: a device array of Numba, or a number.
        ``given`` has the descriptions of the arrays in device memory by name; ``queue`` is the stream for copies from
        the host.
        """
        array = given.get(argument.name)
        if array is not None:
            return as_numba_array(cuda, array)
        return cuda.to_device(np.reshape(value, value.shape or 1), queue) if argument.kind == "array" else value

    def _results(
        self,
        library: NumbaArrays,
        given: Mapping[str, DeviceArray],
        prepared: PreparedArguments,
        out: Sequence[Any] | None,
        handle: int,
        queue: Any,
    ) -> list[DeviceArray]:
        """Return the arrays for the results of a call: those in ``out``, after a check that they fit and share no
        memory with the arguments ``given``, or new arrays of ``library``.

        The shapes are in ``prepared``. ``queue`` is the stream of the call, ``handle`` its number.
        """
        if out is None:
            new = [library.empty(shape, prepared.dtype, queue) for shape in prepared.shapes]
            return [describe_array("a result", array, handle) for array in new]
        labels = {a.name: f"argument {a.label}" for a in self.program.arguments}
        others = [(labels[name], array) for name, array in given.items()]
        results = []
        for output, value, shape in zip(self.program.outputs, out, prepared.shapes, strict=True):
            label = f"out for {output.name}"
            if not is_on_device(value):
                raise ArgumentTypeError(f"{label} is in the memory of the host, the arguments are on the device")
            if not library_of(value).can_be_written:
                raise ArgumentTypeError(f"{label} is an array of JAX, which cannot be written: leave out=")
            array = describe_array(label, value, handle)
            check_out(output.name, array, shape, prepared.dtype, others)
            others.append((label, array))
            results.append(array)
        return results

    def _wait(self, cuda: Any, arrays: Sequence[DeviceArray], handle: int, queue: Any) -> None:
        """Make the stream ``queue`` of a call wait for the other streams that still compute its argument ``arrays``.
        ``handle`` is the number of ``queue``, ``cuda`` Numba's module.
        """
        for other in sorted({array.stream for array in arrays if array.stream is not None} - {handle}):
            record_event(cuda, cuda.external_stream(other)).wait(queue)

    def _keep_alive(
        self, cuda: Any, library: NumbaArrays, first: Any, objects: list[Any], handle: int, queue: Any
    ) -> None:
        """Keep ``objects`` in memory until the kernels on the CUDA stream ``queue``, with the number ``handle``, have
        finished. ``library`` is the caller's array library, ``first`` one of its arrays.

        This is unnecessary if the library works on the same stream: it then reuses no memory earlier.
        """
        while self.pending and self.pending[0][0].query():
            self.pending.popleft()
        if not library.can_be_written or handle != library.current_stream(first):
            self.pending.append((record_event(cuda, queue), objects))


def _describe_argument(argument: Argument, value: Any, handle: int) -> DeviceArray:
    """Return the description of an array argument in device memory, for a call on the stream with the number
    ``handle``. Raise if it is a number, or an index array with another type of integers than kernels take.
    """
    if argument.kind != "array":
        raise ArgumentTypeError(
            f"argument {argument.label} is one number on the device, which the host would have to wait for: "
            "pass .item(), or declare a TensorSymbol of shape ()"
        )
    array = describe_array(f"argument {argument.label}", value, handle)
    if argument.dtype == "integer" and array.dtype.kind in "iu":
        if array.dtype not in (np.int32, np.int64):
            raise ArgumentTypeError(
                f"argument {argument.label} has dtype {array.dtype} on the device, int32 or int64 is needed there"
            )
        check_dense(f"argument {argument.label}", array)
    return array


def _on_host(cuda: Any, array: DeviceArray, queue: Any) -> Any:
    """Return a copy of the device ``array`` in host memory, made on the stream ``queue``. The host waits until the copy
    is complete. ``cuda`` is Numba's CUDA module.
    """
    found = as_numba_array(cuda, array).copy_to_host(stream=queue)
    if queue:
        queue.synchronize()
    return found.reshape(array.shape)


def _check_devices(cuda: Any, arrays: Sequence[DeviceArray]) -> None:
    """Raise ArgumentError if one of ``arrays`` is not on the current device of ``cuda``, Numba's module."""
    current = cuda.gpus.current
    number = 0 if current is None else int(current.id)
    for array in arrays:
        if array.device != number:
            raise ArgumentError(
                f"an array is on device {array.device}, the current one is {number}: choose it first, as "
                f"numba.cuda.select_device, or with torch.cuda.device({array.device})"
            )
