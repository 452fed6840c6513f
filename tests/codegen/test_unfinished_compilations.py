"""Compilations that are interrupted, or whose code finds no room on the disk: the next call, or this one, works."""

from __future__ import annotations

import errno
import itertools
import signal
import sys
import tempfile

import numpy as np
import pytest
from programs import N, array, i, load, op, result, single, store

from sympy_tensordiff.codegen.run import cache
from sympy_tensordiff.codegen.run.compile import CompiledFunction

FACTORS = itertools.count(7)


@pytest.fixture
def factor(tmp_path, monkeypatch):
    """A number that makes a program which no other test compiles."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    return next(FACTORS) + 0.015625


def scaled(factor):
    program = single((array("x", N),), result("y", N), "i", store(op("mul", factor, load("x", i))))
    return CompiledFunction(program, "numba")


def check(function, factor):
    for n in (2, 2, 3):
        np.testing.assert_array_equal(function(np.ones(n)), np.full(n, factor))


def fail(code):
    def refuse(*_args, **_options):
        raise OSError(code, "no")

    return refuse


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("step", ["_save_index", "_save_data", "_load_index"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_code_without_room_on_the_disk(factor, monkeypatch, step, code):
    monkeypatch.setattr(f"numba.core.caching.IndexDataCacheFile.{step}", fail(code))
    check(scaled(factor), factor)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_no_folder_of_numba_can_be_written(factor, monkeypatch, code):
    monkeypatch.setattr(tempfile, "TemporaryFile", fail(code))
    check(scaled(factor), factor)


def test_errors_of_files_that_are_not_of_the_cache_are_raised(factor, monkeypatch):
    function = scaled(factor)
    monkeypatch.setattr(function, "_run_translating_errors", fail(errno.EIO))
    with pytest.raises(OSError, match="no"):
        function(np.ones(2))


def interrupted(function, place, raised=signal.SIGINT):
    """Call the function, and press Ctrl-C where Python calls ``place``."""

    def press(frame, event, _):
        if event == "call" and frame.f_code.co_name == place:
            sys.setprofile(None)
            signal.raise_signal(raised)

    sys.setprofile(press)
    try:
        function(np.ones(2))
    finally:
        is_over = sys.getprofile() is None
        sys.setprofile(None)
        assert is_over, f"nothing calls {place}"


PLACES = ("_object_compiled_hook", "exec_module", "add_overload", "finalize_object", "_save_data", "_dispose")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_inside_of_a_compilation(factor, place, capfd):
    """At the first of these places, the exception is lost in a function that C calls."""
    function, before = scaled(factor), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupted(function, place)
    assert signal.getsignal(signal.SIGINT) is before
    check(function, factor)
    check(scaled(factor), factor)


def test_what_is_compiled_outlives_ctrl_c(factor):
    function = scaled(factor)
    function(np.ones(2))
    loaded = function._load(np.dtype(float))
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda x: function(x.astype(int)), "_run_translating_errors")
    assert function._load(np.dtype(float)) is loaded


def test_a_handler_of_the_users_is_called(factor, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        function = scaled(factor)
        interrupted(function, "_object_compiled_hook")
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    check(function, factor)


# A file that Ctrl-C reaches before `close` is closed when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_on_any_line_leaves_no_unfinished_file(tmp_path):
    """The exception is raised on each line of `write_bytes` in turn, as a signal between two lines would."""

    def stopped(number):
        lines = itertools.count()

        def trace(frame, event, _argument):
            if frame.f_code is not cache.write_bytes.__code__:
                return None
            if event == "line" and next(lines) == number:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            cache.write_bytes(tmp_path, "kernel", b"content")
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    count = 0
    while stopped(count):
        assert {path.name for path in tmp_path.iterdir()} <= {"kernel"}
        count += 1
    assert count >= 6
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"content"]
