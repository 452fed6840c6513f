"""One harness for faults of the machine: each runs in a process that is forked for it, with a cache of its own."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sympy_tensordiff as td

SECONDS = 120
"""The time after which a process hangs."""
COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
x = td.TensorSymbol("x", td.indices("n"))
POINTS = np.linspace(0.1, 1, 50)


Kernel = Callable[..., Any]
"""Takes values and an array for the result, which it may leave as it is, and returns the result."""


def function(backend: str, number: int = 3) -> Kernel:
    """Return a function that no other process has compiled before, with a temporary array, and its exact values."""
    formula = td.softmax(number * x) * td.tanh(x)
    if backend == "c":
        return in_c(td.generate_code([x], formula, "c"))
    kernel = td.lambdify([x], formula, backend, parallel=False if backend in ("numpy", "llvm", "numba") else None)
    if backend == "jax":
        asarray = importlib.import_module("jax.numpy").asarray
        return lambda values, out=None: np.asarray(kernel(asarray(values)))
    if backend == "torch":
        from_numpy = importlib.import_module("torch").from_numpy
        return lambda values, out=None: np.asarray(kernel(from_numpy(values)))
    if backend in ("dask", "dask-numpy"):
        from_array = importlib.import_module("dask.array").from_array
        return lambda values, out=None: np.asarray(kernel(from_array(values, chunks=len(values) // 3)).compute())
    return kernel


def in_c(text: str) -> Kernel:
    """Compile a file in C without the limits of this process, and return its function."""
    with contextlib.ExitStack() as stack:
        for name in ("RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_AS"):
            stack.enter_context(limited(name, None))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        source, library = folder / "compute.c", folder / "compute.so"
        source.write_text(text, encoding="utf-8")
        subprocess.run([COMPILER, "-std=c99", "-O1", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
        loaded = ctypes.CDLL(str(library))
    loaded.compute_scratch.restype = ctypes.c_ssize_t

    def run(values: Any, out: Any = None) -> Any:
        size = ctypes.c_ssize_t(len(values))
        result = np.empty_like(values) if out is None else out
        arrays = (values, result, np.empty(loaded.compute_scratch(size)))
        given, filled, scratch = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
        assert loaded.compute(given, size, filled, scratch) == 0
        return result

    return run


def expected(values: Any, number: int = 3) -> Any:
    weights = np.exp(number * values - np.max(number * values))
    return weights / weights.sum() * np.tanh(values)


def call(backend: str, number: int = 3, values: Any = POINTS) -> None:
    """Compile and call a function, and compare its values."""
    np.testing.assert_allclose(function(backend, number)(values), expected(values, number), rtol=1e-13)


def in_fork(work: Callable[[], Any], folder: str) -> tuple[str, Any]:
    """Run ``work`` in a fork with a folder for the cache; return ("value", value), ("raised", name of the class and its
    text), ("killed", number of the signal) or ("hung", None).
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        answer: tuple[str, Any] = ("raised", "none")
        try:
            os.close(read)
            os.environ["SYMPY_TENSORDIFF_CACHE"] = folder
            signal.signal(signal.SIGINT, signal.default_int_handler)
            answer = "value", work()
        except BaseException as error:
            answer = "raised", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        with contextlib.suppress(BaseException):
            os.write(write, pickle.dumps(answer)[-60_000:])
        os._exit(0)
    os.close(write)
    end = time.monotonic() + SECONDS
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hung", None
        time.sleep(0.005)
    with os.fdopen(read, "rb") as file:
        content = file.read()
    code = os.waitstatus_to_exitcode(found[1])
    return pickle.loads(content) if code == 0 else ("killed", -code)


@contextlib.contextmanager
def limited(resource_name: str, size: int | None) -> Iterator[None]:
    """Set a limit of this process inside; None for the largest one."""
    import resource

    kind = getattr(resource, resource_name)
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (before[1] if size is None else size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def full_disk(backend: str) -> None:
    """No file takes a byte: the call computes all the same, and again with space."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with limited("RLIMIT_FSIZE", 0):
        call(backend)
    call(backend)
    call(backend, 4)


def no_files(backend: str) -> None:
    """The process may open no further file."""
    call(backend, 4)
    opened = len(os.listdir("/proc/self/fd"))
    with limited("RLIMIT_NOFILE", opened - 1):
        call(backend)
    call(backend)


def no_memory(backend: str) -> None:
    """An array finds no space during a call, which says so; the next call has it."""
    kernel = function(backend)
    kernel(POINTS)
    values = np.full(2_000_000, 0.5)
    out = np.empty_like(values)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    found = None
    with limited("RLIMIT_AS", pages * os.sysconf("SC_PAGE_SIZE") + 2**23):
        try:
            found = kernel(values, out=out)
        except MemoryError:
            pass
        except RuntimeError as error:  # of JAX and PyTorch
            if "memory" not in str(error).lower():
                raise
    if found is not None:  # a backend may need no other array
        np.testing.assert_allclose(found, expected(values), rtol=1e-9)
    np.testing.assert_allclose(kernel(values, out=out), expected(values), rtol=1e-9)


def interrupted(backend: str, name: str) -> int:
    """A signal at many moments of compilations, Ctrl-C or that of a server that is asked to end: each ends at once, and
    the next call has its values. Return how many.
    """
    number, count = getattr(signal, name), 0
    if name == "SIGTERM":
        signal.signal(number, lambda *_: sys.exit(143))
    for factor in range(3, 11):
        timer = threading.Timer(0.004 * (factor - 2) ** 2, lambda: os.kill(os.getpid(), number))
        try:
            timer.start()
            call(backend, factor)
            timer.join()
        except (KeyboardInterrupt, SystemExit):
            count += 1
        timer.cancel()
        call(backend, factor)
    return count


def killed(backend: str, step: str, name: str) -> None:
    """The process gets a signal that ends it where it is to call ``step`` of the module `os`."""
    setattr(os, step, lambda *_args, **_options: os.kill(os.getpid(), getattr(signal, name)))
    call(backend)


def in_threads(backend: str) -> None:
    """Many threads compile and call one function, and different ones."""
    shared, failed = function(backend), []

    def work(number: int) -> None:
        try:
            np.testing.assert_allclose(shared(POINTS), expected(POINTS), rtol=1e-13)
            call(backend, 3 + number % 3)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def forked(backend: str) -> None:
    """A fork calls what its parent has compiled, and compiles; the parent does, too."""
    kernel = function(backend)
    kernel(POINTS)
    folder = os.environ["SYMPY_TENSORDIFF_CACHE"]

    def child() -> None:
        np.testing.assert_allclose(kernel(POINTS), expected(POINTS), rtol=1e-13)
        call(backend, 5)

    assert in_fork(child, folder)[0] == "value"
    call(backend, 5)
    np.testing.assert_allclose(kernel(POINTS), expected(POINTS), rtol=1e-13)


def clock_runs_backwards(backend: str) -> None:
    """All clocks that Python reads jump by years, back and forth."""
    jumps = iter(range(10**6))
    for name in ("time", "monotonic", "perf_counter"):
        right = getattr(time, name)
        setattr(time, name, lambda right=right: right() + (-1) ** next(jumps) * 10**9)
    call(backend)
    call(backend, 4)


PLAIN: dict[str, Callable[[str], Any]] = {
    "full disk": full_disk,
    "no files": no_files,
    "no memory": no_memory,
    "threads": in_threads,
    "fork": forked,
    "clock": clock_runs_backwards,
    "call": call,
}


def damage(folder: Path, how: str) -> int:
    """Damage all files of a cache, and return how many."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        if how == "is a folder":
            path.unlink()
            path.mkdir()
        elif how in ("the past", "the future"):
            os.utime(path, (0, 0) if how == "the past" else (2**32, 2**32))
        else:
            path.write_bytes({"empty": b"", "half": content[: len(content) // 2], "other": content[::-1]}[how])
    return len(files)


# ---------------------------------------------------------------------------- called in the process of the tests


def prepare(backends: Sequence[str]) -> None:
    """Import all that a call needs, and fill the caches of SymPy, so that forks need not."""
    faulthandler.enable(file=sys.stderr)
    os.environ["SYMPY_TENSORDIFF_CACHE"] = "off"
    for backend in backends:
        call(backend, 2)


def start(backend: str) -> None:
    """Import the library of a backend. It may have threads, which a fork would not have."""
    if backend == "jax":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if backend in ("jax", "torch", "dask", "dask-numpy", "numba"):
        folder, os.environ["SYMPY_TENSORDIFF_CACHE"] = os.environ["SYMPY_TENSORDIFF_CACHE"], "off"
        call(backend, 2)
        os.environ["SYMPY_TENSORDIFF_CACHE"] = folder


def in_prepared_fork(work: Callable[[str], Any], backend: str, folder: str) -> tuple[str, Any]:
    def run() -> Any:
        start(backend)
        return work(backend)

    return in_fork(run, folder)


def outcome(fault: str, backend: str, folder: str) -> tuple[str, Any]:
    """Return what a fault makes of calls."""
    return in_prepared_fork(PLAIN[fault], backend, folder)


def interruptions(name: str, backend: str, folder: str) -> tuple[str, Any]:
    return in_prepared_fork(lambda given: interrupted(given, name), backend, folder)


def kill(step: str, name: str, backend: str, folder: str) -> tuple[str, Any]:
    """End a process in a step by a signal, and return how it ended."""
    return in_prepared_fork(lambda given: killed(given, step, name), backend, folder)
