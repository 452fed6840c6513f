"""One harness for faults of the machine: each runs in a process that is forked for it, with a cache of its own."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sympy_tensordiff as td

SECONDS = 120
"""The time after which a process hangs."""
x = td.TensorSymbol("x", td.indices("n"))
POINTS = np.linspace(0.1, 1, 50)


def function(backend: str, number: int = 3) -> Any:
    """Return a function that no other process has compiled before, with a temporary array, and its exact values."""
    formula = td.softmax(number * x) * td.tanh(x)
    return td.lambdify([x], formula, backend, parallel=False)


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
def limited(resource_name: str, size: int) -> Iterator[None]:
    """Set a limit of this process inside."""
    import resource

    kind = getattr(resource, resource_name)
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (size, before[1]))
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
    values = np.full(8_000_000, 0.5)
    out = np.empty_like(values)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    with limited("RLIMIT_AS", pages * os.sysconf("SC_PAGE_SIZE") + 2**23):
        try:
            kernel(values, out=out)
        except MemoryError:
            pass
        else:  # a backend may need no other array
            np.testing.assert_allclose(out, expected(values), rtol=1e-9)
    kernel(values, out=out)
    np.testing.assert_allclose(out, expected(values), rtol=1e-9)


def interrupted(backend: str) -> int:
    """Ctrl-C at many moments of compilations: each ends at once, and the next call has its values. Return how many."""
    count = 0
    for number in range(3, 11):
        timer = threading.Timer(0.004 * (number - 2) ** 2, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            timer.start()
            call(backend, number)
            timer.join()
        except KeyboardInterrupt:
            count += 1
        timer.cancel()
        call(backend, number)
    return count


def killed(backend: str, step: str) -> None:
    """The process is killed where it is to call ``step`` of the module `os`."""
    setattr(os, step, lambda *_args, **_options: os.kill(os.getpid(), signal.SIGKILL))
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


def prepare() -> None:
    """Import all that a call needs, and fill the caches of SymPy, so that forks need not."""
    faulthandler.enable(file=sys.stderr)
    os.environ["SYMPY_TENSORDIFF_CACHE"] = "off"
    for backend in ("numpy", "llvm"):
        call(backend, 2)


def outcome(fault: str, backend: str, folder: str) -> tuple[str, Any]:
    """Return what a fault makes of calls."""
    return in_fork(lambda: PLAIN[fault](backend), folder)


def interruptions(backend: str, folder: str) -> tuple[str, Any]:
    return in_fork(lambda: interrupted(backend), folder)


def kill(step: str, backend: str, folder: str) -> tuple[str, Any]:
    """Kill a process in a step, and return how it ended."""
    return in_fork(lambda: killed(backend, step), folder)
