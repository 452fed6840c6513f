"""Arrays that depend on no argument are filled once for all calls."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.llvm_entries import shared_memory
from sympy_tensordiff.codegen.ir.programs import Array, ConstantKernel, ContractionStep, Kernel, Operand, Program
from sympy_tensordiff.codegen.ir.verify import verify
from sympy_tensordiff.codegen.lower.materialise import LARGEST_TABLE
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run import repeated_calls as recent
from sympy_tensordiff.errors import VerificationError

i, j, k, n = td.indices("i j k n")
N = 40
x, y = td.TensorSymbol("x", N), td.TensorSymbol("y", (3, N))
total, table = td.IndexedSum, td.TensorComprehension


def waves(size, amplitude=1, tensor=x):
    """Sums of a tensor with cosines."""
    return table(total(tensor[j] * amplitude * sympy.cos(2 * sympy.pi * i * j / size), (j, 0, size - 1)), (i, size))


def power(tensor=x):
    """The squares of the waves, whose gradient reads the table twice."""
    return total(waves(N)[i] ** 2, (i, 0, N - 1))


def cosines(size=N):
    return np.cos(2 * np.pi * np.outer(np.arange(size), np.arange(size)) / size)


def tables(args, expr, **options) -> list[ConstantKernel]:
    program = build_program(args, expr, tables=True, **options)
    return [step for step in program.kernels if isinstance(step, ConstantKernel)]


def test_a_table_is_filled_once(uncompiled):
    function = td.lambdify([x], td.gradient(power(), x))
    assert "depends on no argument" in str(function.plan)
    assert "once for all calls" in str(function.plan)
    values = [np.random.default_rng(seed).normal(size=N) for seed in range(3)]
    for value in values:
        np.testing.assert_allclose(function(value), 2 * cosines().T @ (cosines() @ value), rtol=1e-10, atol=1e-10)
    found = re.findall(r"^define (?:internal )?\w+ @([\w.]+)[^\n]*\n(.*?)^}", function.llvm, re.MULTILINE | re.DOTALL)
    bodies = dict(found)
    called = {name: re.findall(r"@(fill_[\w.]+)\(", bodies[name]) for name in ("tables", "run")}
    assert ["@cos_near" in bodies[name] for name in called["tables"]] == [True]
    assert called["run"] and not any("@cos_near" in bodies[name] for name in called["run"])


# Each precision is compiled once, for one core and for several.
COMPILED = {(np.float64, None), (np.float32, True)}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("parallel", [None, True, False])
def test_calls_of_all_kinds(dtype, parallel, request):
    if (dtype, parallel) not in COMPILED:
        request.getfixturevalue("uncompiled")
    function = td.lambdify([x], td.gradient(power(), x), parallel=parallel)
    for seed in range(3):
        value = np.random.default_rng(seed).normal(size=N).astype(dtype)
        wanted = 2 * cosines().T @ (cosines() @ value)
        tolerance = 1e-10 if dtype is np.float64 else 3e-5
        for given in (value, value[::-1].copy()[::-1]):
            found = function(given)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(function(list(map(float, value))), wanted, rtol=1e-2, atol=1e-2)


def test_temporaries_of_another_length_have_the_same_tables(uncompiled):
    z = td.TensorSymbol("z", (n, N))
    function = td.lambdify([z], td.exp(table(total(z[k, j] * sympy.cos(i * j), (j, 0, N - 1)), (k, n), (i, N))))
    for rows in (3, 5, 200, 3):
        value = np.random.default_rng(rows).normal(size=(rows, N)) / N
        wanted = np.exp(value @ np.cos(np.outer(np.arange(N), np.arange(N))).T)
        np.testing.assert_allclose(function(value), wanted, rtol=1e-10)


def test_more_memory_than_is_kept(monkeypatch, uncompiled):
    monkeypatch.setattr(recent, "MAX_WORKSPACE_BYTES", 10)
    function = td.lambdify([x], td.gradient(power(), x))
    value = np.random.default_rng(0).normal(size=N)
    for _ in range(2):
        np.testing.assert_allclose(function(value), 2 * cosines().T @ (cosines() @ value), rtol=1e-10, atol=1e-10)


def test_threads_have_tables_of_their_own():
    """Two calls at once: the second one finds no arrays, and fills the table for itself."""
    calls = []

    def run_in(value, result, memory):
        if calls[-1] == "begun":
            thread = threading.Thread(target=remaining, args=(value, result))
            calls.append(thread)
            thread.start()
            thread.join()
        result.append((value, memory[0]))

    def fill(value, result, memory):
        calls.append("filled")
        memory[...] = 7

    found: list = []
    runs = recent.Runs(run_in, run_in, lambda *values: (np.empty(2),), fill)
    remaining = runs.function_for((1, found))
    calls.append("begun")
    remaining(1, found)
    assert [number for _, number in found] == [7, 7]
    assert calls.count("filled") == 2
    remaining(2, found)
    assert runs.function_for((3, found)) is remaining
    assert calls.count("filled") == 2


def test_what_is_no_table():
    m = td.TensorSymbol("m", n)
    assert len(tables([x], waves(N))) == 1
    assert not tables([m], waves(n, tensor=m)), "it depends on a size"
    a = sympy.Symbol("a", real=True)
    assert not tables([x, a], table(total(x[j] * sympy.cos(a * i * j), (j, 0, N - 1)), (i, N))), "on a number"
    assert not tables([x], table(total(sympy.cos(x[j] * i), (j, 0, N - 1)), (i, N))), "on an argument"
    free = td.indices("p")
    assert not tables([x, free], total(x[j] * sympy.cos(free * j), (j, 0, N - 1))), "on a free index"
    f = sympy.Function("f", real=True)
    own = table(total(x[j] * sympy.exp(f(i + j)), (j, 0, N - 1)), (i, N))
    assert not tables([x], own), "on a function of the user's"
    assert not tables([x], waves(N), temporaries=False)


def test_large_tables_are_computed():
    size = int(LARGEST_TABLE**0.5)
    for length, count in ((size, 1), (size + 1, 0)):
        long = td.TensorSymbol("long", length)
        assert len(tables([long], waves(length, tensor=long))) == count


def test_a_table_of_sums_reads_a_table(uncompiled):
    """Weights that add up to 1."""
    bell = sympy.exp(-((i - j) ** 2) / sympy.Integer(9))
    norm = table(total(bell, (j, 0, N - 1)), (i, N))
    expr = table(total(x[j] * bell, (j, 0, N - 1)) / norm[i], (i, N))
    assert len(tables([x], expr)) == 2
    weights = np.exp(-(np.subtract.outer(np.arange(N), np.arange(N)) ** 2) / 9)
    value = np.random.default_rng(0).normal(size=N)
    found = td.lambdify([x], expr)(value)
    np.testing.assert_allclose(found, weights @ value / weights.sum(1), rtol=1e-12)


def test_other_backends_have_no_tables():
    for backend in ("numpy", "c", "cuda", "numba"):
        source = td.generate_code([x], waves(N), backend)
        assert not re.search(r"\btables\b", source)
    assert "@tables(" in td.generate_code([x], waves(N), "llvm")


def test_a_table_that_depends_on_an_argument_is_refused():
    program: Program = build_program([x], td.gradient(power(), x))
    kernel = program.kernels[0]
    broken = ConstantKernel(kernel.array, kernel.axes, kernel.body)
    with pytest.raises(VerificationError, match="depends on an argument"):
        verify(replace(program, kernels=(broken, *program.kernels[1:])))


def test_zeros_to_which_a_scatter_adds_are_no_table(uncompiled):
    """They depend on no argument, and are filled in each call: the sums of two calls would be added up."""
    w, bins = td.TensorSymbol("w", 9), td.TensorSymbol("bins", 9, dtype=int)
    sums = table(total(w[k] * sympy.KroneckerDelta(i, bins[k]), (k, 0, 8)), (i, 4))
    function = td.lambdify([w, bins], td.IndexedSum(sums[i] * sympy.exp(sums[i]), (i, 0, 3)))
    weights, places = np.linspace(0, 1, 9), np.arange(9) % 4
    wanted = np.bincount(places, weights)
    for _ in range(3):
        np.testing.assert_allclose(function(weights, places), (wanted * np.exp(wanted)).sum())


def test_what_a_number_in_it_changes_has_no_array():
    """Cosines of ``i*j/n`` are computed where they are used, as before, since no call after this one has them."""
    waves_of = table(total(x[j] * sympy.cos(2 * sympy.pi * i * j / n), (j, 0, N - 1)), (i, N))
    program = build_program([x, n], td.gradient(total(waves_of[i] ** 2, (i, 0, N - 1)), x), tables=True)
    assert [len(array.shape) for array in program.temporaries] == [1]


def test_a_table_shares_no_memory_with_arrays_before_it() -> None:
    """It is filled once, before the first call, wherever its step is; arrays of later calls must not overwrite it."""

    def product(array: str, operand: str) -> ContractionStep:
        return ContractionStep(array, (), Operand(operand, ()), Operand(operand, ()))

    steps = Kernel("a", (), ()), product("b", "a"), ConstantKernel("c", (), ()), product("d", "c")
    program = Program((), (), tuple(Array(name, ()) for name in "abcd"), steps)
    groups = shared_memory(program, [Array(name, ()) for name in "ac"])
    assert [[array.name for array in group] for group in groups] == [["a"], ["c"]]
