"""Kernels compiled by LLVM: their values, writes and code on disk, and what Numba compiles instead."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import os
import platform
import re
import struct
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import sympy
from every import every
from generator import Generator
from oracle import check, expected
from programs import CASES
from test_elementary import EDGES

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.driver import scratch_arrays
from sympy_tensordiff.codegen.emit.elementary import FUNCTIONS
from sympy_tensordiff.codegen.emit.llvm import TOO_LARGE, Module
from sympy_tensordiff.codegen.emit.llvm_entries import shared_memory
from sympy_tensordiff.codegen.emit.llvm_nests import LlvmNestPrinter
from sympy_tensordiff.codegen.emit.llvm_products import LlvmProductPrinter, multiply
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import ConstantKernel
from sympy_tensordiff.codegen.ir.walk import filled_arrays
from sympy_tensordiff.codegen.run import cache, llvm
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.codegen.run.results import fit
from sympy_tensordiff.codegen.schedule.fusion import fuse
from sympy_tensordiff.errors import ArgumentError, SingularMatrixError

MARGIN, MARK = 64, -7.25e30
"""So many entries around an array are watched, which have this value."""

i, j, k, n, m, p = td.indices("i j k n m p")
x = td.TensorSymbol("x", n)
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))


@pytest.fixture(autouse=True)
def verified(monkeypatch, request):
    """No module is left to Numba, but where that is what is tested."""
    load = CompiledFunction._load_llvm

    def loaded(function, *given):
        found = load(function, *given)
        assert found is not None or "numba" in request.node.name, function._fallback
        return found

    monkeypatch.setattr(CompiledFunction, "_load_llvm", loaded)


def guarded(array):
    """An array with the same entries amid memory that is watched, and that memory."""
    memory = np.full(array.size + 2 * MARGIN, MARK, array.dtype)
    inside = memory[MARGIN : MARGIN + array.size].reshape(array.shape)
    inside[...] = array
    return inside, memory


def assert_writes_inside(function, arguments):
    """Fail where a call changes an argument, or memory around an argument or a result."""
    flat = [np.asarray(result) for result in fit(function.program.structure, function(*arguments))]
    targets = [guarded(np.zeros_like(result)) for result in flat]
    pairs = [guarded(v) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else (v, None) for v in arguments]
    before = [None if memory is None else memory.copy() for _, memory in pairs]
    out = iter([inside for inside, _ in targets])
    function(*[value for value, _ in pairs], out=function._nest([next(out) for _ in targets]))
    for (inside, memory), result in zip(targets, flat, strict=True):
        np.testing.assert_array_equal(inside, result)
        assert (memory[:MARGIN] == np.asarray(MARK, memory.dtype)).all()
        assert (memory[MARGIN + inside.size :] == np.asarray(MARK, memory.dtype)).all()
    for (_, memory), was in zip(pairs, before, strict=True):
        if memory is not None:
            np.testing.assert_array_equal(memory, was)


def single(values):
    return [v.astype(np.float32) if isinstance(v, np.ndarray) and v.dtype == float else v for v in values]


# ---------------------------------------------------------------------------- values


@every("name", [*CASES], turns=8)
def test_programs_by_hand(name):
    program, arguments = CASES[name]
    check(program, "llvm", arguments(np.random.default_rng(1)))


@every("name", [*CASES], turns=10)
def test_programs_by_hand_write_inside_of_arrays(name, monkeypatch):
    """On several cores, all indices are checked, too, those of reads and of temporaries included."""
    program, arguments = CASES[name]
    for parallel, debug in ((False, "verify"), (True, "check")):
        monkeypatch.setenv(llvm.DEBUG, debug)
        function = CompiledFunction(program, "llvm", parallel=parallel)
        assert_writes_inside(function, arguments(np.random.default_rng(1)))


@every("printer, method, expression", [
    (LlvmNestPrinter, "stop", td.TensorComprehension(td.IndexedSum(A[i, j] ** 2, (j, 0, m - 1)), (i, n))),
    (LlvmProductPrinter, "length_of", td.einsum("ij,jk->ik", A, B)),
])  # fmt: skip
def test_checked_code_finds_entries_outside_of_arrays(printer, method, expression, monkeypatch):
    """Loops that go one step too far, and products with one row too many, raise an error and change nothing else."""
    monkeypatch.setenv(llvm.DEBUG, "check")
    right = getattr(printer, method)
    values = [guarded(np.ones((3, 4)))[0], guarded(np.ones((4, 5)))[0]]
    for more in ("0", "1"):
        monkeypatch.setattr(printer, method, lambda self, given, more=more: self.add(right(self, given), more))
        kernel = td.lambdify([A, B], expression, "llvm", parallel=False)
        kernel = CompiledFunction(kernel.program, "llvm", parallel=False)  # equal functions share what is compiled
        out = guarded(np.zeros((3, 5)[: len(expression.shape)]))[0]
        if more == "0":
            kernel(*values, out=out)
            continue
        with pytest.raises(ValueError, match=r"a kernel reads or writes outside an array: .* please report it"):
            kernel(*values, out=out)


@every("name", ["section_six", "select_values", "long_sums", "masks", "elementary"], turns=8)
def test_single_precision(name):
    program, arguments = CASES[name]
    check(program, "llvm", single(arguments(np.random.default_rng(2))), 2e-5, np.float32)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seeds", [range(300, 306), pytest.param(range(306, 316), marks=pytest.mark.thorough)])
def test_random_programs(seeds):
    for seed in seeds:
        check_random_program(seed)


def check_random_program(seed):
    generator = Generator(seed)
    program = generator.program()
    rng = np.random.default_rng(seed)
    values = [rng.uniform(-1, 1, [f.evaluate(generator.sizes) for f in a.shape]) for a in program.arguments]
    check(program, "llvm", values)
    found = CompiledFunction(program, "llvm", parallel=True)(*values)
    for value, right in zip(fit(program.structure, found), expected(program, values), strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-11, atol=1e-11)


@pytest.mark.in_turns(8)
def test_elementary_functions_are_those_of_other_kernels():
    """Bit by bit, at special arguments and where formulas end; one kernel has all of them.

    In trigamma and tetragamma, compilers choose which products they fuse with additions.
    """
    expressions = {
        "exp": sympy.exp(x[i]), "log": sympy.log(x[i]), "tanh": sympy.tanh(x[i]), "expm1": sympy.exp(x[i]) - 1,
        "log1p": sympy.log(1 + x[i]), "sigmoid": 1 / (1 + sympy.exp(-x[i])), "softplus": sympy.log(1 + sympy.exp(x[i])),
        "sin_near": sympy.sin(x[i]), "cos_near": sympy.cos(x[i]), "erf": sympy.erf(x[i]),
        "erfc": sympy.erfc(x[i]), "general_power": x[i]**sympy.Rational(7, 3), "sinh": sympy.sinh(x[i]),
        "cosh": sympy.cosh(x[i]), "tan_near": sympy.tan(x[i]), "arctan": sympy.atan(x[i]),
        "arctan2": sympy.atan2(x[i], x[n - 1 - i]), "arcsinh": sympy.asinh(x[i]), "arccosh": sympy.acosh(x[i]),
        "arctanh": sympy.atanh(x[i]), "trigamma": sympy.polygamma(1, x[i]), "tetragamma": sympy.polygamma(2, x[i]),
        "logistic_density": 1 / (1 + sympy.exp(-x[i])) * (1 - 1 / (1 + sympy.exp(-x[i]))),
    }  # fmt: skip
    assert expressions.keys() == FUNCTIONS.keys()
    edges = [edge for name in FUNCTIONS for edge in EDGES.get(name, ())]
    values = np.array([*edges, 0.0, -0.0, math.inf, -math.inf, math.nan, *np.linspace(-20, 20, 401)])
    tables = [td.TensorComprehension(expressions[name], (i, n)) for name in FUNCTIONS]
    ours, theirs = (td.lambdify([x], tables, backend, parallel=False) for backend in ("llvm", "numba"))
    with np.errstate(all="ignore"):
        single_values = values.astype(np.float32)
    for given in (values, single_values):
        for name, own, other in zip(FUNCTIONS, ours(given), theirs(given), strict=True):
            bound = 64 * np.finfo(own.dtype).eps if name.endswith("gamma") else 0
            np.testing.assert_allclose(own, other, rtol=bound, atol=bound, err_msg=name)


def windows():
    image, kernel = td.TensorSymbol("X", (2, 3, 12, 11)), td.TensorSymbol("W", (6, 3, 3, 3))
    f, q, r, c, a, b = td.indices("f q r c a b")
    value = td.IndexedSum(kernel[f, q, a, b] * image[k, q, r + a, c + b], (q, 0, 2), (a, 0, 2), (b, 0, 2))
    total = td.IndexedSum(value**2, (k, 0, 1), (f, 0, 5), (r, 0, 9), (c, 0, 8))
    return (image, kernel), (
        value := td.TensorComprehension(value, (k, 2), (f, 6), (r, 10), (c, 9)),
        *td.gradient(total, (image, kernel)),
    )


def test_totals_of_blocks_are_added():
    """Each block of rows has its own copy of a short array of totals; a loop at the end adds them."""
    C, w = td.TensorSymbol("C", (n, 4)), td.TensorSymbol("w", 4)
    entry = sympy.sin(C[i, j])
    results = (
        td.TensorComprehension(td.IndexedSum(entry * w[j], (j, 0, 3)), (i, n)),
        td.TensorComprehension(td.IndexedSum(entry * x[i], (i, 0, n - 1)), (j, 4)),
    )
    function = td.lambdify([C, w, x], results, "llvm", parallel=True)
    assert "numba_parallel_for" in function.llvm
    given = [np.linspace(0, 3, 36).reshape(9, 4), np.arange(4.0), np.arange(9.0)]
    rows, columns = function(*given)
    np.testing.assert_allclose(rows, np.sin(given[0]) @ given[1])
    np.testing.assert_allclose(columns, given[2] @ np.sin(given[0]))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products(parallel, dtype):
    """Vectors, matrices, batches, operands that have to be copied, windows; some with axes without entries."""
    rng = np.random.default_rng(0)
    batch, other = td.TensorSymbol("U", (k, n, m)), td.TensorSymbol("V", (m, k, p))
    y = td.TensorSymbol("y", m)
    cases = [
        ((A, B), A @ B, [(300, 7), (7, 5)]), ((A, y), A @ y, [(5, 7), (7,)]), ((A, x), A.T @ x, [(5, 7), (5,)]),
        ((A, B), (A @ B).T, [(5, 0), (0, 3)]), ((x,), td.dot(x, x) * x, [(9,)]),
        ((batch, other), td.einsum("kij,jkl->lki", batch, other), [(2, 5, 7), (7, 2, 3)]),
        (*windows(), [(2, 3, 12, 11), (6, 3, 3, 3)]),
    ]  # fmt: skip
    for arguments, expression, shapes in cases:
        values = [rng.normal(size=shape).astype(dtype) for shape in shapes]
        function = td.lambdify(arguments, expression, "llvm", parallel=parallel)
        wanted = td.lambdify(arguments, expression, "numpy")(*[v.astype(float) for v in values])
        if 0 not in {length for shape in shapes for length in shape}:
            assert_writes_inside(function, values)
        structure = function.program.structure
        for found, right in zip(fit(structure, function(*values)), fit(structure, wanted), strict=True):
            tolerance = 1e-12 if dtype is np.float64 else 1e-4
            np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance * np.abs(right).max(initial=1))


@pytest.mark.parametrize("place", range(6))
def test_numbers_beyond_those_of_blas_are_refused(place):
    """Lengths, and distances of rows in arrays whose matrices lie apart: BLAS would read elsewhere."""
    module = Module("double", {})
    multiply(module)
    kinds = "ptr", "i64", "ptr", "i64", "i1", "ptr", "i64", "i1", "i64", "i64", "i64", "double"
    parameters = ", ".join(f"{kind} %p{n}" for n, kind in enumerate(kinds))
    entry = f"define i32 @entry({parameters}) {{\n  %code = call i32 @multiply({parameters})\n  ret i32 %code\n}}"
    text = module.text([entry])
    llvm._open_symbols(["blas_dgemm"])
    code = llvm.Code(llvm.compiled(text, {}))
    types = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i1": ctypes.c_bool, "double": ctypes.c_double}
    function = ctypes.CFUNCTYPE(ctypes.c_int, *(types[kind] for kind in kinds))(
        code._engine.get_function_address("entry")
    )
    left, right, out = np.arange(4.0).reshape(2, 2), np.eye(2), np.zeros((2, 2))

    def product(*numbers):
        steps, lengths = numbers[:3], numbers[3:]
        sides = [(array.ctypes.data, step, False) for array, step in zip((left, right), steps[1:], strict=True)]
        return function(out.ctypes.data, steps[0], *sides[0], *sides[1], *lengths, 1.0)

    assert product(*[2] * 6) == 0
    np.testing.assert_array_equal(out, left)
    assert product(*[2**31 if n == place else 2 for n in range(6)]) == TOO_LARGE


def test_library_calls_between_kernels():
    M = td.TensorSymbol("M", (n, n))
    total = td.logdet(M.T @ M) + td.IndexedSum(sympy.exp(td.inv(M)[i, j]), (i, 0, n - 1), (j, 0, n - 1))
    value = np.random.default_rng(0).normal(size=(5, 5))
    ours, theirs = (td.lambdify([M], td.gradient(total, M), backend) for backend in ("llvm", "numpy"))
    np.testing.assert_allclose(ours(value), theirs(value), rtol=1e-10)
    with pytest.raises(SingularMatrixError, match="the matrix M"):
        ours(np.zeros((5, 5)))


# ---------------------------------------------------------------------------- functions of the user

g = sympy.Function("g")
CALL = td.TensorComprehension(g(x[i]) + x[i], (i, n))


def test_functions_of_the_user_are_part_of_the_module():
    function = td.lambdify([x], CALL, "llvm", functions={"g": lambda t: math.exp(-t * t)})
    values = np.linspace(0, 1, 7)
    np.testing.assert_allclose(function(values), np.exp(-values * values) + values, rtol=1e-14)
    assert function(values.astype(np.float32)).dtype == np.float32
    assert "compiled by Numba" not in function.plan


def test_a_function_that_raises_is_left_to_numba():
    def root(t):
        if t < 0:
            raise ValueError("a negative number")
        return math.sqrt(t)

    function = td.lambdify([x], CALL, "llvm", functions={"g": root})
    np.testing.assert_allclose(function(np.ones(3)), [2, 2, 2])
    assert "compiled by Numba: a function that is supplied may raise an error" in function.plan
    with pytest.raises(ValueError, match="a negative number"):
        function(-np.ones(3))


def test_a_function_is_python_where_numba_compiles_nothing(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)
    function = td.lambdify([x], CALL, "llvm", functions={"g": math.exp})
    np.testing.assert_allclose(function(np.ones(3)), math.e + 1, rtol=1e-15)
    assert "compiled by Numba: Numba's compiler is switched off" in function.plan


def test_without_llvm_numba_compiles(monkeypatch):
    def refuse():
        raise llvm.UnavailableError("llvmlite 0.43 is too old, 0.45 is needed")

    monkeypatch.setattr(llvm, "_processor", refuse)
    function = td.lambdify([x], 2 * x, "llvm")
    assert function(np.ones(2)).tolist() == [2, 2]
    assert "compiled by Numba: llvmlite 0.43 is too old" in function.plan


@pytest.mark.in_turns(8)
def test_the_first_module_of_a_process_finds_the_library_of_c():
    """LLVM opens the symbols of the process with its first engine: without, the first function was left to Numba.

    A first call does not import masked arrays either, which NumPy 1 imports itself.
    """
    text = """
import sys, numpy as np
has_masked = "numpy.ma" in sys.modules
import sympy, sympy_tensordiff as td
i, n = td.indices("i n")
x = td.TensorSymbol("x", n)
function = td.lambdify([x], td.TensorComprehension(sympy.erf(x[i]) + sympy.gamma(x[i]), (i, n)), "llvm")
function(np.ones(2))
assert "compiled by Numba" not in function.plan, function.plan
assert has_masked or "numpy.ma" not in sys.modules, "masked arrays are imported"
"""
    subprocess.run([sys.executable, "-c", text], check=True, cwd=Path(td.__file__).parents[1])


@pytest.mark.in_turns(8)
def test_lapack_is_called_without_the_rest_of_its_package():
    """The import of ``scipy.linalg`` takes 0.1 s, which a first call does not need; it works later."""
    text = """
import sys, numpy as np, sympy_tensordiff as td
n, m = td.indices("n m")
A, X = td.TensorSymbol("A", (n, n)), td.TensorSymbol("X", (n, m))
a, b = np.diag([2.0, 3]) + 1, np.ones((2, 1))
function = td.lambdify([A, X], (td.solve(A, X), td.logdet(A)), "llvm")
assert "from scipy.linalg import lapack" in function.llvm
solution, value = function(a, b)
np.testing.assert_allclose(value, np.log(np.linalg.det(a)))
assert "scipy.linalg" not in sys.modules, "scipy.linalg is imported"
import scipy.linalg
np.testing.assert_allclose(scipy.linalg.lapack.dgesv(a, b)[2], solution)
np.testing.assert_allclose(scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b), solution)
np.testing.assert_allclose(td.lambdify([A, X], td.solve(A, X) * td.logdet(A), "llvm")(a, b), value * solution)
"""
    subprocess.run([sys.executable, "-c", text], check=True, cwd=Path(td.__file__).parents[1])


def test_a_missing_function_of_c_is_reported_before_llvm_ends_the_process():
    with pytest.raises(llvm.UnavailableError, match="the library of C has no function no_such_function"):
        llvm._open_symbols(["no_such_function"])


# ---------------------------------------------------------------------------- texts, code on disk, lifetime


def test_functions_that_differ_have_names_of_their_own():
    module = Module("double", {})
    texts = ["define i32 @{name}() {\n  ret i32 0\n}", "define i32 @{name}() {\n  ret i32 1\n}"]
    one, other = (module.shared("f", text) for text in texts)
    assert one != other
    assert module.shared("g", texts[0]) == one


def test_the_text():
    function = td.lambdify([x], 2 * x, "llvm")
    assert function.llvm == td.generate_code([x], 2 * x, "llvm")
    assert "fmul contract nsz float" in td.generate_code([x], 2 * x, "llvm", dtype="float32")
    first, _, rest = function.source.partition("\n")
    assert first == '"""Generated by sympy_tensordiff for Numba, with the loops that LLVM compiles.'
    assert rest == td.lambdify([x], 2 * x, "numba").source.partition("\n")[2] and "def run(x, result):" in rest
    with pytest.raises(AttributeError, match="a function for the backend 'numpy' has no text for LLVM"):
        _ = td.lambdify([x], 2 * x, "numpy").llvm
    with pytest.raises(ArgumentError, match="name= is for backend='c', not for backend='llvm'"):
        td.generate_code([x], 2 * x, "llvm", name="f")


def test_code_is_kept_on_disk_and_compiled_again_where_it_is_damaged(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMPY_TENSORDIFF_CACHE", str(tmp_path))
    monkeypatch.delenv(llvm.DEBUG)
    compiled = []
    monkeypatch.setattr(llvm, "compiled", lambda *given, old=llvm.compiled: compiled.append(0) or old(*given))
    expression = td.TensorComprehension(3 * x[i] + 17, (i, n))

    def value():
        llvm._recent.clear()
        return td.lambdify([x], expression, "llvm")(np.ones(2)).tolist()

    assert value() == [20, 20]
    with monkeypatch.context() as patch:  # stored code is found without printing anything
        patch.setattr(llvm, "print_llvm", None)
        assert value() == [20, 20]
    assert len(compiled) == 1
    (file,) = tmp_path.glob("*.o")
    content = file.read_bytes()
    other = llvm.ObjectCode.of_content(file.stem.removeprefix("k_"), content).content("the key of another program")
    for damaged in (content[:-1], b"", content[:40] + bytes([content[40] ^ 1]) + content[41:], other):
        file.write_bytes(damaged)
        assert value() == [20, 20]
        assert file.read_bytes() == content
    assert len(compiled) == 5
    tmp_path.chmod(0o777)  # others may write here: nothing is read from there
    assert value() == [20, 20]
    assert len(compiled) == 6
    tmp_path.chmod(0o700)
    assert td.clear_cache() >= 1
    assert not list(tmp_path.glob("*.o"))


def test_code_goes_with_its_last_function():
    function = td.lambdify([x], 5 * x, "llvm")
    function(np.ones(2))
    (runs,) = function._runs.values()
    code = weakref.ref(runs.run.__self__)
    run = runs.run
    del function, runs
    gc.collect()
    assert code() is not None
    result = np.empty(2)
    run(np.ones(2), result)
    assert result.tolist() == [5, 5]
    del run
    gc.collect()
    assert code() is None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell the memory of a process")
def test_compiling_keeps_no_memory():
    """The passes of a module take 32 KiB or more, which llvmlite does not free by itself."""

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    text = "define i32 @f() {\n  ret i32 0\n}"
    for _ in range(20):
        llvm.compiled(text, {})
    before = resident()
    for _ in range(100):
        llvm.compiled(text, {})
    assert resident() - before < 100 * 2**13


@pytest.mark.in_turns(8)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_calls_and_compiles():
    """A child has no threads of its parent's pool: it calls the serial code of known functions, and compiles others."""
    text = """
import os, numpy as np, sympy_tensordiff as td
x, value = td.TensorSymbol("x", td.indices("n")), np.linspace(0, 1, 1000)
known = td.lambdify([x], td.exp(x), parallel=True)
np.testing.assert_allclose(known(value), np.exp(value), rtol=1e-15)
child = os.fork()
if not child:
    right = np.allclose(known(value), np.exp(value)) and np.allclose(known(value[:10]), np.exp(value[:10]))
    for parallel in (False, True):
        right &= np.allclose(td.lambdify([x], td.tanh(x), parallel=parallel)(value), np.tanh(value))
    os._exit(0 if right else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
np.testing.assert_allclose(known(value), np.exp(value), rtol=1e-15)
"""
    subprocess.run([sys.executable, "-c", text], check=True, cwd=Path(td.__file__).parents[1], timeout=300)


def test_the_code_of_a_program_depends_on_all_that_makes_it(monkeypatch, tmp_path):
    """Precision, blocks, indices that are checked, and the files of this package, next to the program."""
    monkeypatch.setenv("SYMPY_TENSORDIFF_CACHE", str(tmp_path))
    monkeypatch.delenv(llvm.DEBUG)

    def count(dtype=np.float64, **options):
        llvm._recent.clear()
        td.lambdify([x], td.square(x) + 3, "llvm", **options)(np.ones(2, dtype))
        return len(list(tmp_path.glob("*.o")))

    assert [count(), count(), count(np.float32), count(parallel=True)] == [1, 1, 2, 3]
    monkeypatch.setenv(llvm.DEBUG, "check")
    assert count() == 4
    monkeypatch.setattr("sympy_tensordiff.codegen.run.cache._own_files", lambda: "other files")
    cache.code_versions.cache_clear()
    assert count() == 5
    cache.code_versions.cache_clear()


# ---------------------------------------------------------------------------- temporaries and loops


def test_temporaries_share_memory_after_their_last_use():
    """A chain of products needs two temporaries of one size at a time; the values do not depend on it."""
    M = td.TensorSymbol("M", (n, n))
    value = M
    for _ in range(5):
        value = td.exp(M @ value)
    function = td.lambdify([M], value)
    program = fuse(function._bounded, Prover(function._bounded))
    arrays = scratch_arrays(program)
    groups = shared_memory(program, arrays)
    assert sorted(array.name for group in groups for array in group) == sorted(array.name for array in arrays)
    assert len(groups) == 2 < len(arrays)
    for group in groups:
        uses_of = [
            [k for k, step in enumerate(program.kernels) if one.name in (*filled_arrays(step), *uses(step).arrays)]
            for one in group
        ]
        assert all(max(before) < min(after) for before, after in itertools.pairwise(uses_of))
    point = np.random.default_rng(0).normal(size=(4, 4)) / 8
    np.testing.assert_allclose(function(point), td.lambdify([M], value, "numpy")(point), rtol=1e-12)


def test_tables_keep_their_memory():
    """Tables for all calls share no memory, nor do arrays whose reads are not known from the steps."""
    w = td.TensorSymbol("w", 40)
    table = td.IndexedSum(sympy.sin(sympy.Rational(1, 7) * i * j) * w[i], (i, 0, 39))
    function = td.lambdify([w], td.TensorComprehension(sympy.exp(table), (j, 40)))
    steps = [step for step in function._bounded.kernels if isinstance(step, ConstantKernel)]
    assert steps
    arrays = scratch_arrays(function._bounded)
    for group in shared_memory(function._bounded, arrays):
        assert (
            len(group) == 1
            or group[-1].name in {step.array for step in steps}
            or not any(array.name in {step.array for step in steps} for array in group)
        )
    for seed in (0, 1):
        point = np.random.default_rng(seed).normal(size=40)
        right = np.exp(np.sin(np.outer(np.arange(40), np.arange(40)) / 7) @ point)
        np.testing.assert_allclose(function(point), right, rtol=1e-12)


@pytest.mark.parametrize("length", [1, 7, 8, 16, 20, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_of_known_lengths(length, dtype):
    """Rows of one or more vectors, with and without a remainder: entries, and sums along them."""
    Y, z = td.TensorSymbol("Y", (n, length)), td.TensorSymbol("z", length)
    entries = td.TensorComprehension(Y[i, j] * z[j] + 1, (i, n), (j, length))
    sums = td.TensorComprehension(td.IndexedSum(Y[i, j] * z[j] + 1, (j, 0, length - 1)), (i, n))
    function = td.lambdify([Y, z], (entries, sums))
    rng = np.random.default_rng(length)
    values = [rng.normal(size=shape).astype(dtype) for shape in ((5, length), length)]
    assert_writes_inside(function, values)
    right = values[0].astype(float) * values[1].astype(float) + 1
    tolerance = 1e-13 if dtype is np.float64 else 1e-5
    for found, wanted in zip(function(*values), (right, right.sum(1)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * length)


def test_long_loops_of_known_lengths_are_unrolled_in_part():
    """Not completely, which takes LLVM seconds; short rows are not unrolled."""
    for length, unrolled in ((40, False), (128, True)):
        x = td.TensorSymbol("x", (length,))
        text = td.lambdify([x], td.sum(td.square(x))).llvm
        (loop,) = re.findall(r"distinct !\{!\d+, (!\d+), !4\}", text)
        assert ('llvm.loop.unroll.count", i32 4' in text.partition(f"{loop} = ")[2].partition("\n")[0]) == unrolled


@pytest.mark.skipif(platform.machine() != "x86_64", reason="relocations of x86-64")
def test_code_and_constants_may_be_at_any_address():
    """No relocation of 32 bits between sections, for which LLVM ends the process where large arrays separate them."""
    x = td.TensorSymbol("x", n)
    formula = td.sum(td.exp(x) * td.log(x) + td.sin(x) / 3) + td.norm(x, 3)
    text = td.lambdify(x, (formula, td.gradient(formula, x))).llvm
    code = llvm.compiled(str(text), {})
    kinds = set()
    start, size, count = struct.unpack_from("<Q", code, 40)[0], *struct.unpack_from("<HH", code, 58)
    for number in range(count):
        section = struct.unpack_from("<IIQQQQIIQQ", code, start + number * size)
        if section[1] == 4:  # SHT_RELA
            entries = range(section[4], section[4] + section[5], 24)
            kinds |= {struct.unpack_from("<QQ", code, entry)[1] & 0xFFFFFFFF for entry in entries}
    narrow = {2: "PC32", 4: "PLT32", 9: "GOTPCREL", 10: "32", 11: "32S", 41: "GOTPCRELX", 42: "REX_GOTPCRELX"}
    assert kinds and not kinds & set(narrow), [narrow.get(kind, kind) for kind in kinds]


j, p = td.indices("j p")
y = td.TensorSymbol("y", n)
REMAINDERS = {
    "of an axis": td.TensorComprehension(
        sympy.Piecewise(
            (x[sympy.Mod(j, n)] * y[sympy.Mod(j, n)] + x[sympy.Mod(6 - p, n)], (p + j >= 2) & (2 * n >= p + j - 1)),
            (0, True),
        ),
        (p, 3),
        (j, 2 * n + 2),
    ),
    "behind data": td.TensorComprehension(
        sympy.Piecewise((x[j] * x[sympy.Mod(6 - p, n)], x[j] > 0), (y[j], True)), (p, 3), (j, n)
    ),
    "in a sum": td.TensorComprehension(
        td.IndexedSum(sympy.Piecewise((x[j] * x[sympy.Mod(6 - p, n)], y[j] > 0), (0, True)), (j, 0, n - 1)), (p, 3)
    ),
}
"""Remainders by a size that are the same for all entries of a row, behind conditions that are not."""


@pytest.mark.parametrize("name", REMAINDERS)
def test_a_remainder_behind_a_condition_is_computed_before_the_loop(name):
    """LLVM's vectors of them are wrong: the first entry's condition decides for all, and reads leave the array."""
    ours, theirs = (td.lambdify([x, y], REMAINDERS[name], backend, parallel=False) for backend in ("llvm", "numpy"))
    for size in (1, 2, 3, 5, 8, 17, 33):
        given = np.random.default_rng(size).normal(size=(2, size))
        np.testing.assert_allclose(ours(*given), theirs(*given), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("code", "is_raising"), [("0", False), ("1", True), ("%.1", True)])
def test_functions_that_return_the_codes_of_others_may_raise_if_those_may(code, is_raising):
    """Of functions that call each other no code is known."""
    call = "  %.1 = call i32 @{}(double %x)\n"
    outer = f"define i32 @outer(double %x) {{\n{call.format('inner')}  ret i32 %.1\n}}\n"
    inner = f"define i32 @inner(double %x) {{\n{call.format('outer')}  ret i32 {code}\n}}\n"
    assert llvm._may_raise(outer + inner, "outer") == is_raising


def test_derivatives_of_log_gamma_are_compiled_by_llvm():
    """Numba needed ten times as long for them: polygamma calls another compiled function."""
    i, x = td.indices("i"), td.TensorSymbol("x", 3)
    value = td.IndexedSum(sympy.loggamma(x[i]) + sympy.polygamma(1, x[i]), (i, 0, 2))
    function = td.lambdify(x, td.gradient(value, x), "llvm")
    at = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(function(at), scipy.special.digamma(at) + scipy.special.polygamma(2, at), rtol=1e-13)
    assert not function._fallback
