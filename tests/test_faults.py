"""Faults of the machine, in each backend: a call has its values or says why, ends, and leaves no file behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import faults
import pytest
from conftest import another_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks are those of Linux")

# Numba takes seconds in each process; `codegen/test_unfinished_compilations.py` has its faults without one.
BACKENDS = ["numpy", "llvm", pytest.param("numba", marks=pytest.mark.thorough)]


@pytest.fixture(scope="module")
def process() -> Any:
    """A process that has imported everything and compiled nothing; each fault runs in a fork of it."""
    with another_process() as call:
        call(faults.prepare)
        yield call


def assert_tidy(folder: Path) -> None:
    """Only complete files of the cache are there."""
    others = [path.name for path in folder.rglob("*") if path.is_file() and path.name.startswith(".")]
    assert not others


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fault", [name for name in faults.PLAIN if name != "call"])
def test_calls_survive(fault: str, backend: str, process: Any, tmp_path: Path) -> None:
    assert process(faults.outcome, fault, backend, str(tmp_path)) == ("value", None)
    assert_tidy(tmp_path)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("folder", ["/proc/none/cache", "/dev/null", "/sys/kernel/cache", "off"])
def test_folders_that_cannot_be_written(backend: str, folder: str, process: Any) -> None:
    assert process(faults.outcome, "call", backend, folder) == ("value", None)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", ["empty", "half", "other", "is a folder", "the past", "the future"])
def test_damaged_files_are_not_used(how: str, backend: str, process: Any, tmp_path: Path) -> None:
    assert process(faults.outcome, "call", backend, str(tmp_path)) == ("value", None)
    assert faults.damage(tmp_path, how) > 0
    for _ in range(2):
        assert process(faults.outcome, "call", backend, str(tmp_path)) == ("value", None)
    assert_tidy(tmp_path)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_ends_compilations(backend: str, process: Any, tmp_path: Path) -> None:
    kind, count = process(faults.interruptions, backend, str(tmp_path))
    assert kind == "value", count
    assert backend == "numpy" or count > 0
    assert_tidy(tmp_path)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step", ["replace", "fdopen"])
def test_a_killed_process_spoils_no_cache(step: str, backend: str, process: Any, tmp_path: Path, monkeypatch) -> None:
    assert process(faults.kill, step, backend, str(tmp_path)) == ("killed", signal.SIGKILL)
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
