"""The callable: backends by name, the cache of modules, pickling, the plan, threads."""

from __future__ import annotations

import importlib
import os
import pickle
import stat
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from programs import CASES, N, array, i, load, op, result, single, store

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Argument
from sympy_tensordiff.codegen.run import cache
from sympy_tensordiff.codegen.run.compile import CompiledFunction, print_source
from sympy_tensordiff.errors import ArgumentError

HERE = Path(__file__).parent
A, B = np.ones((3, 4)), np.ones((4, 5))


def doubled(label="x", factor=2.0):
    return single((Argument("array", "x", label, (N,)),), result("y", N), "i", store(op("mul", factor, load("x", i))))


def test_unknown_backend():
    with pytest.raises(
        ArgumentError, match="unknown backend 'fortran'; the backends are 'numpy', 'numba', 'llvm', 'cuda'"
    ):
        CompiledFunction(doubled(), "fortran")


def test_plan():
    plan = CompiledFunction(CASES["section_six"][0], "numpy").plan
    assert plan.splitlines() == [
        "arguments:", "  a : array (L, K)", "  b : array (M, K)", "  c : array (L, L)", "  d : array (K + L - 1)",
        "  g : array (L, M)", "results:", "  dd : array (K + L - 1)", "  dc : array (L, L)", "temporaries:",
        "  f : array (L, M)", "  r : array (L)", "  f is used by every derivative", "  r is the sum over j",
        "kernels:", "  1. fill f[i, j]", "  2. fill r[i]", "  3. fill dd[p]", "  4. fill dc[p, q]",
    ]  # fmt: skip
    plan = CompiledFunction(CASES["computed_sizes"][0], "numpy").plan
    assert "  low = max(0, N - 2)\n  high = min(M - 1, 2*N - 4)\n" in plan


def test_repr():
    assert repr(CompiledFunction(CASES["matmul"][0], "numpy")) == "<CompiledFunction(a, b) for numpy>"


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_pickle(backend):
    function = CompiledFunction(CASES["matmul"][0], backend)
    function(A, B)
    again = pickle.loads(pickle.dumps(function))
    assert again.source == function.source
    assert again.program == function.program
    np.testing.assert_array_equal(again(A, B), function(A, B))


def source_and_results(function, arguments):
    assert hash(function.program.arguments[0].shape[0]) == hash(function.program.arguments[2].shape[1])
    return function.source, function(*arguments)


@pytest.mark.in_turns(4)
def test_pickle_into_another_process(elsewhere):
    """Names hash differently there: nothing may depend on the hashes of this process."""
    function = CompiledFunction(CASES["section_six"][0], "numpy")
    arguments = CASES["section_six"][1](np.random.default_rng(0))
    source, results = elsewhere(source_and_results, function, arguments)
    assert source == function.source
    for left, right in zip(results, function(*arguments), strict=True):
        np.testing.assert_array_equal(left, right)


def test_threads():
    """Concurrent calls with different sizes do not mix them up."""
    function = CompiledFunction(doubled(), "numba")
    function(np.ones(1))
    wrong = []

    def work(n):
        for _ in range(200):
            if function(np.ones(n)).shape != (n,):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---------------------------------------------------------------------------- modules on disk


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "deep" / "cache"))
    return tmp_path / "deep" / "cache"


def unique_program(request):
    """A program whose module no other test has loaded."""
    return doubled(factor=float(abs(hash(request.node.name)) % 10**6) + 0.25)


def test_modules_are_kept_for_the_user_alone(folder, request):
    function = CompiledFunction(unique_program(request), "numba")
    function(np.ones(2))
    files = list(folder.glob("k_*.py"))
    assert [file.read_text() for file in files] == [function.source]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.glob("__pycache__/*.nbi"))  # Numba's compiled code lies next to it
    assert not list(folder.glob(".k_*"))


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "sympy_tensordiff"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / ".cache" / "sympy_tensordiff"


def test_a_file_with_another_text_is_replaced(folder, request):
    program = unique_program(request)
    CompiledFunction(program, "numpy")(np.ones(2))
    path = next(folder.glob("k_*.py"))
    path.write_text("raise SystemExit")
    for name in [n for n in sys.modules if n.endswith(path.stem)]:
        del sys.modules[name]
    assert CompiledFunction(program, "numpy")(np.ones(2))[0] > 0
    assert "raise" not in path.read_text()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")
def test_a_folder_that_others_can_write_is_not_used(folder, request):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert CompiledFunction(unique_program(request), "numpy")(np.ones(2))[0] > 0
    assert not list(folder.iterdir())


def test_without_a_folder(monkeypatch, tmp_path, request):
    """A file where the folder should be: the temporary folder takes its place."""
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    function = CompiledFunction(unique_program(request), "numba")
    assert function(np.ones(2))[0] > 0
    assert function._load(np.dtype(float)).run.__code__.co_filename.startswith(tempfile.gettempdir())


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_without_any_file(monkeypatch, backend):
    """Without a writable folder, modules are in memory only, and tracebacks still show their lines."""

    def refuse():
        raise PermissionError

    monkeypatch.setattr(cache, "cache_folder", refuse)
    monkeypatch.setattr(cache, "temporary_folder", refuse)
    function = CompiledFunction(doubled(factor=7.125 if backend == "numpy" else 7.375), backend)
    assert function(np.ones(2))[0] > 7
    run = function._load(np.dtype(float)).run
    try:
        getattr(run, "py_func", run)(None, None)
    except AttributeError:
        assert "N = x.shape[0]" in traceback.format_exc()


def loaded_again(program, backend="numba"):
    """The program as a process would load it that knows none of its modules."""
    for name in [name for name in sys.modules if name.startswith("sympy_tensordiff_generated.")]:
        del sys.modules[name]
    return CompiledFunction(program, backend)


def reused(function):
    return sum(function._load(np.dtype(float)).run.__globals__["fill_y"].stats.cache_hits.values())


def hits(folder):
    """Return the number of compiled functions that a new process loads from a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.VARIABLE, folder)
        function = loaded_again(doubled())
        assert function(np.ones(4))[1] == 2
        return reused(function)


def test_compiled_code_is_reused(folder, elsewhere):
    """Processes that begin at once do not disturb each other; a later one finds what they have compiled."""
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(elsewhere, hits, str(folder))
        assert {hits(str(folder)), other.result()} <= {0, 1}
    assert elsewhere(hits, str(folder)) == hits(str(folder)) == 1
    assert not [path for path in folder.rglob("*") if ".tmp" in path.name or path.name.startswith(".")]


def test_damaged_code_is_compiled_again(folder, request):
    program = unique_program(request)
    expected = CompiledFunction(program, "numba")(np.ones(2))
    again = loaded_again(program)
    np.testing.assert_array_equal(again(np.ones(2)), expected)
    assert reused(again) == 1
    for damaged in folder.glob("__pycache__/*.nb?"):
        damaged.write_bytes(damaged.read_bytes()[:-100])
    again = loaded_again(program)
    np.testing.assert_array_equal(again(np.ones(2)), expected)
    assert not reused(again)


def test_code_that_others_could_have_written_is_not_used(folder, request):
    program = unique_program(request)
    CompiledFunction(program, "numpy")(np.ones(2))
    (folder / "__pycache__").chmod(0o777)
    assert loaded_again(program, "numpy")(np.ones(2))[0] > 0
    (name,) = [name for name in sys.modules if name.startswith("sympy_tensordiff_generated.")]
    assert sys.modules[name].__spec__.origin.startswith(str(cache.temporary_folder()))


def test_python_reads_no_code_of_its_own(folder, request):
    """Python takes a module from a file next to it that has the right date, whatever the module says."""
    program = unique_program(request)
    CompiledFunction(program, "numpy")(np.ones(2))
    assert not list(folder.glob("__pycache__/*.pyc"))


def test_nothing_on_disk(monkeypatch, tmp_path, request):
    monkeypatch.setenv(cache.VARIABLE, "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    function = CompiledFunction(unique_program(request), "numpy")
    assert function(np.ones(2))[0] > 0
    assert td.clear_cache() == 0
    assert not list(tmp_path.iterdir())


def test_clear_cache(folder, request):
    CompiledFunction(unique_program(request), "numpy")(np.ones(2))
    CompiledFunction(doubled(factor=11.5), "numpy")(np.ones(2))
    (folder / "k_mine.py").write_text("my own")
    (folder / "__pycache__" / f"k_{64 * 'a'}.run-1.py311.nbi").write_text("")
    assert td.clear_cache() == 3
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["k_mine.py"]


def test_the_code_depends_on_the_machine_and_on_the_type(folder, request, monkeypatch):
    function = CompiledFunction(unique_program(request), "numba")
    double = function._load(np.dtype(np.float64)).run
    assert function._load(np.dtype(np.float32)).run.__module__ != double.__module__
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
    cache.code_versions.cache_clear()
    assert loaded_again(function.program)._load(np.dtype(np.float64)).run.__module__ != double.__module__
    monkeypatch.undo()
    cache.code_versions.cache_clear()


def test_printed_modules_need_no_package(tmp_path):
    """The text is a module that anybody can import and run."""
    (tmp_path / "standing.py").write_text(print_source(CASES["matmul"][0], "numpy"))
    specification = importlib.util.spec_from_file_location("standing", tmp_path / "standing.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    out = np.empty((3, 5))
    module.run(A, B, out)
    np.testing.assert_array_equal(out, A @ B)


def test_arrays_of_another_program_are_distinguished():
    """Modules are loaded by their text: equal texts are one module, different ones never are."""
    first, second = CompiledFunction(doubled(), "numpy"), CompiledFunction(doubled(factor=3.0), "numpy")
    assert first(np.ones(1)) != second(np.ones(1))
    third = CompiledFunction(doubled(), "numpy")
    third(np.ones(1))
    assert third._load(np.dtype(float)).run is first._load(np.dtype(float)).run
    assert array("x", N).label == "x"
