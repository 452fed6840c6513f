"""Faults of the machine, in each backend: a call has its values or says why, ends, and leaves no file behind."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faults
import pytest
from conftest import another_process
from simulated_threads import one_after_another

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks are those of Linux")

MODULES = {"jax": "jax", "torch": "torch", "dask": "dask.array", "dask-numpy": "dask.array"}
CACHED = ("numpy", "llvm", "numba", "cuda", "dask", "dask-numpy")
"""The backends that write files."""
KILLING = ("SIGKILL", "SIGTERM")
OTHERS = ("c", "jax", "torch")
IMPOSSIBLE = {
    ("cuda", "no memory"): "a thread of the simulator for each of millions of entries",
    ("cuda", "threads"): "the simulator runs one kernel at a time",
    **{(name, "fork"): "Dask's pool of threads is not usable in a fork" for name in ("dask", "dask-numpy")},
}


def is_missing(backend: str) -> bool:
    """Whether what a backend needs is not installed."""
    if backend in MODULES:
        return importlib.util.find_spec(MODULES[backend].split(".")[0]) is None
    return backend == "c" and faults.COMPILER is None


def cases(backends: tuple[str, ...], values: Sequence[Any]) -> list[Any]:
    """Backends and values; those that take seconds to start run seldom."""
    return [
        pytest.param(
            *(backend, value),
            marks=[
                pytest.mark.in_turns(8 if backend in ("numpy", "llvm") else 100),
                pytest.mark.skipif(is_missing(backend), reason=f"{backend} is not installed"),
            ],
        )
        for backend in backends
        for value in values
        if (backend, value) not in IMPOSSIBLE
    ]


@pytest.fixture(scope="module")
def host() -> Any:
    """A process that has imported everything and compiled nothing; each fault runs in a fork of it."""
    with another_process() as call:
        call(faults.prepare, ("numpy", "llvm"))
        yield call


@pytest.fixture(scope="module")
def device() -> Any:
    """A process with CUDA's simulator, likewise."""
    with another_process(NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1") as call:
        call(one_after_another)
        call(faults.prepare, ("cuda",))
        yield call


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Any:
    """The process for the backend of a test."""
    return request.getfixturevalue("device" if request.node.callspec.params["backend"] == "cuda" else "host")


def assert_tidy(folder: Path) -> None:
    """Only complete files of the cache are there."""
    others = [path.name for path in folder.rglob("*") if path.is_file() and path.name.startswith(".")]
    assert not others


@pytest.mark.parametrize("backend, fault", cases(CACHED + OTHERS, [name for name in faults.PLAIN if name != "call"]))
def test_calls_survive(fault: str, backend: str, process: Any, tmp_path: Path) -> None:
    assert process(faults.outcome, fault, backend, str(tmp_path)) == ("value", None)
    assert_tidy(tmp_path)


@pytest.mark.parametrize(
    "backend, folder", cases(CACHED, ["/proc/none/cache", "/dev/null", "/sys/kernel/cache", "off"])
)
def test_folders_that_cannot_be_written(folder: str, backend: str, process: Any) -> None:
    assert process(faults.outcome, "call", backend, folder) == ("value", None)


@pytest.mark.parametrize(
    "backend, how", cases(CACHED, ["empty", "half", "other", "is a folder", "the past", "the future"])
)
def test_damaged_files_are_not_used(how: str, backend: str, process: Any, tmp_path: Path) -> None:
    assert process(faults.outcome, "call", backend, str(tmp_path)) == ("value", None)
    assert faults.damage(tmp_path, how) > 0
    for _ in range(2):
        assert process(faults.outcome, "call", backend, str(tmp_path)) == ("value", None)
    assert_tidy(tmp_path)


@pytest.mark.parametrize("backend, name", cases(CACHED + OTHERS, ["SIGINT", "SIGTERM"]))
def test_signals_end_compilations(name: str, backend: str, process: Any, tmp_path: Path) -> None:
    kind, count = process(faults.interruptions, name, backend, str(tmp_path))
    assert kind == "value", count
    assert backend == "numpy" or count > 0
    assert_tidy(tmp_path)


@pytest.mark.parametrize(
    "backend, how", cases(CACHED, [f"{name} at {step}" for step in ("replace", "fdopen") for name in KILLING])
)
def test_a_killed_process_spoils_no_cache(
    how: str, backend: str, process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, step = how.split(" at ")
    assert process(faults.kill, step, name, backend, str(tmp_path)) == ("killed", getattr(signal, name))
    assert process(faults.outcome, "call", backend, str(tmp_path)) == ("value", None)
    monkeypatch.setenv("SYMPY_TENSORDIFF_CACHE", str(tmp_path))
    assert faults.td.clear_cache() > 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.in_turns(8)
def test_the_harness_sees_wrong_values_errors_and_hanging(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = faults.in_fork(lambda: faults.np.testing.assert_allclose(1, 2), str(tmp_path))
    assert wrong[0] == "raised" and wrong[1].startswith("AssertionError")
    assert faults.in_fork(lambda: os.kill(os.getpid(), signal.SIGTERM), str(tmp_path)) == ("killed", signal.SIGTERM)
    monkeypatch.setattr(faults, "SECONDS", 0.1)
    assert faults.in_fork(lambda: signal.pause(), str(tmp_path)) == ("hung", None)
