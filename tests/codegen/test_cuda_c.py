"""Files in CUDA C++: what they compute on the processor and refuse, and that NVIDIA's compilers take them."""

from __future__ import annotations

import shutil
import subprocess

import assembler
import in_c
import in_cuda
import numpy as np
import oracle
import programs
import pytest
import sympy
from test_c import EXPRESSIONS, EXTENTS, A, S, equal, i, idx, j, k, m, n, values, x, y

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ArgumentError, NotInCError

PROGRAMS = ("long_sums", "rank_five", "awkward_names", "scattered_in_loops", "elementary")
OWN = {name: EXPRESSIONS[name] for name in ("products", "gathered", "windows", "searched")}
OWN["symmetric"] = ((S, x), S @ x)
# Products in tiles, and sums over rows and columns that blocks of threads share.
OWN["blocks"] = ((A, x), (A.T @ A, 2 * td.einsum("ij,kj->ik", A, A) + 1, td.max(A, axis=1), A.T @ x, td.sum(A * A)))
PAIR = td.TensorSymbol("P", (3, 100)), td.TensorSymbol("C", (24, 3))
OWN["constant"] = (PAIR, (td.sum(PAIR[0], axis=1), td.max(PAIR[1].T, axis=1), td.sum(PAIR[1] ** 2)))
distance = td.IndexedSum((x[i] - x[j]) ** 2, (k, 0, 1)) * A[i, 0]
OWN["pairs"] = ((A, x), td.gradient(td.sum(td.TensorComprehension(sympy.exp(-distance), (i, n), (j, n))), (A, x)))
OWN["one"] = ((x, y), (td.logsumexp(x), td.softmax(td.outer(x, y), axis=1), td.max(x)))
centred = td.TensorComprehension(A[i, j] - td.IndexedSum(A[i, k], (k, 0, m - 1)) / m, (i, n), (j, m))
spread = td.TensorComprehension(td.IndexedSum(centred[i, k] ** 2, (k, 0, m - 1)) / m + 1, (i, n))
normed = td.TensorComprehension(centred[i, j] / sympy.sqrt(spread[i]), (i, n), (j, m))
OWN["rows"] = ((A,), (td.softmax(A, axis=1), normed, td.vjp(td.softmax(A, axis=1), A, A)))
triangle = td.TensorComprehension(td.IndexedSum(A[i, k] * A[j, k], (k, i, m - 1)), (i, n), (j, n))
turned = td.TensorComprehension(sympy.exp(-A[j, i]) + i, (i, m), (j, n))
OWN["tiles"] = ((A,), (triangle, turned))
thin = td.TensorSymbol("T", (n, 3))
OWN["thin_rows"] = ((thin, x), td.TensorComprehension(td.IndexedSum(thin[i, k] * x[i], (i, 0, n - 1)), (k, 3)))
# Single precision for every other one; the threads of a block run backwards for every third one.
CHOICES = {name: (("float64", "float32")[k % 2], (1, 1, -1)[k % 3]) for k, name in enumerate((*PROGRAMS, *OWN))}
RTOL = {"float64": 1e-12, "float32": 3e-4}


@pytest.fixture(scope="module")
def built():
    found = {name: programs.CASES[name][0] for name in PROGRAMS}
    return found | {name: build_program(*case, library=False, rows=False) for name, case in OWN.items()}


@pytest.fixture(scope="module")
def files(built):
    return {name: in_cuda.source(program, name, dtype=CHOICES[name][0]) for name, program in built.items()}


@pytest.fixture(scope="module")
def compiled(built, files, tmp_path_factory):
    if in_cuda.COMPILER is None:
        pytest.skip("no C++ compiler")
    library = in_cuda.build(files, tmp_path_factory.mktemp("cuda_c"), "-O0")
    found = {name: in_cuda.Function(library, name, program, CHOICES[name][0]) for name, program in built.items()}
    for name, function in found.items():
        function.order = CHOICES[name][1]
    return found


@pytest.mark.in_turns(8)
def test_programs_equal_the_interpreter(compiled):
    for name in PROGRAMS:
        program, arguments = programs.CASES[name]
        given = arguments(np.random.default_rng(0))
        rtol = RTOL[CHOICES[name][0]]
        for one, other in zip(compiled[name](*given), oracle.expected(program, given), strict=True):
            scale = np.abs(other[np.isfinite(other)]).max(initial=1.0)
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * scale, err_msg=name)


def given_for(name, sizes):
    if name in EXPRESSIONS:
        found = values(name, sizes)
        return [*found[:1], np.zeros_like(found[1])] if name == "searched" else found
    rng = np.random.default_rng(2)
    shapes = [[sizes.get(extent, extent) for extent in tensor.shape] for tensor in OWN[name][0]]
    found = [rng.uniform(0.2, 1.2, list(map(int, shape))) for shape in shapes]
    return [found[0] + found[0].T, found[1]] if name == "symmetric" else found


def test_expressions_equal_numpy(compiled):
    for name, (arguments, expression) in OWN.items():
        function = td.lambdify(arguments, expression, "numpy")
        for sizes in (*EXTENTS, {n: 3 if name == "windows" else 1, m: 1}, {n: 131, m: 130}):
            given = given_for(name, sizes)
            expected = function(*given)
            got = compiled[name](*given)
            equal(got, expected if isinstance(expected, tuple) else (expected,), RTOL[CHOICES[name][0]])


def code(function, arguments, known):
    return function.code(arguments, known, [np.empty(1000, function.dtype) for _ in function.program.outputs])


def test_calls_are_refused_by_their_code(compiled):
    empty = [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(0), np.zeros(3)]
    assert code(compiled["products"], empty, {"n": 0, "m": 3}) == 1
    for wrong in (-1, 2):
        assert code(compiled["gathered"], [np.ones((2, 3)), np.ones(2), np.array([0, wrong, 1])], {"n": 2, "m": 3}) == 2
    matrix = np.array([[1.0, 2.0], [2.0, np.nan]])
    assert code(compiled["symmetric"], [matrix, np.ones(2)], {"n": 2}) == 0
    matrix[0, 1] = 0
    assert code(compiled["symmetric"], [matrix, np.ones(2)], {"n": 2}) == 2
    for last, expected in ((2, 0), (1, 2)):
        assert code(compiled["searched"], [np.ones(3), np.array([2, 0, 0, last])], {"n": 3, "m": 4}) == expected


def test_a_barrier_that_not_all_threads_reach_stops_the_runner(tmp_path):
    """The runner of the tests itself: a race shows in the order of the threads, a missed barrier ends the process."""
    if in_cuda.COMPILER is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "main.cu").write_text("""
#include <cuda_runtime.h>
__global__ void reverse(int *to, const int *from, bool waits, bool all) {
    __shared__ int own[8];
    own[threadIdx.x] = from[threadIdx.x];
    if (waits && (all || threadIdx.x < 4)) {
        __syncthreads();
    }
    to[threadIdx.x] = own[7 - threadIdx.x];
}
int main(int count, char **) {
    const int from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int to[8], sum[2] = {0, 0};
    for (int order = 1; order > -2; order -= 2) {
        set_order_of_threads(order);
        LAUNCH(reverse, dim3(1), dim3(8), nullptr, to, from, count != 2, count != 3);
        for (int k = 0; k < 8; k++) {
            sum[order < 0] += (k + 1)*to[k];
        }
    }
    printf("%d %d", sum[0], sum[1]);
}""")
    command = [in_cuda.COMPILER, *in_cuda.FLAGS, "main.cu", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    runs = [subprocess.run([tmp_path / "main", *"ab"[:k]], capture_output=True, text=True) for k in range(3)]
    assert runs[0].stdout == "120 120"
    first, second = runs[1].stdout.split()
    assert first != "120" or second != "120"
    assert runs[2].returncode and "a barrier is not reached by all threads" in runs[2].stderr


@pytest.mark.in_turns(8)
def test_the_compilers_of_nvidia_have_no_warnings(files, tmp_path):
    nvrtc, nvcc = assembler.compiler_of_kernels(), shutil.which("nvcc")
    if nvrtc is None and nvcc is None:
        pytest.skip("needs pip install '.[ptx]', or CUDA")
    if nvrtc is not None:
        for name, text in files.items():
            assert assembler.compile_kernels(nvrtc, text) == (0, ""), name
    if nvcc is not None:
        (tmp_path / "all.cu").write_text(files["searched"])
        flags = ["-arch=sm_90", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-c", "all.cu"]
        done = subprocess.run([nvcc, *flags], cwd=tmp_path, capture_output=True, text=True)
        assert not done.returncode and not done.stderr, done.stderr


def test_the_header_is_c(files, tmp_path):
    if in_c.COMPILER is None:
        pytest.skip("no C compiler")
    (tmp_path / "all.c").write_text("\n".join(text.header for text in files.values()))
    subprocess.run([in_c.COMPILER, *in_c.WARNINGS, "-c", "all.c"], cwd=tmp_path, check=True)
    assert "struct CUstream_st *stream);" in files["products"].header


def test_what_is_refused():
    with pytest.raises(NotInCError, match=r"CUDA files have no routine for .*: use the backend 'cuda' w"):
        td.generate_code([S, x], td.inv(S) @ x, "cuda_c")
    with pytest.raises(NotInCError, match="CUDA has no function g: use another backend"):
        td.generate_code([x], td.elementwise(sympy.Function("g"), x), "cuda_c")
    with pytest.raises(ArgumentError, match="allocate=True is for backend='c'"):
        td.generate_code([x], 2 * x, "cuda_c", allocate=True)
    with pytest.raises(ArgumentError, match="parallel= is not for backend='cuda_c'"):
        td.generate_code([x], 2 * x, "cuda_c", parallel=True)
    with pytest.raises(ArgumentError, match="backend='cuda_c' is for text only"):
        td.lambdify([x], 2 * x, "cuda_c")


@pytest.mark.parametrize("declared", [{"below": n}, {}])
def test_the_host_reads_no_data(declared):
    """A sum whose range data end has as many blocks as the declared range of the data needs, or none of its own."""
    last = td.TensorSymbol("last", m, dtype=int, **declared)
    total = td.IndexedSum(sympy.sin(x[i]), (i, 0, last[0]))
    for backend, start in (("cuda_c", "ptrdiff_t f_scratch("), ("cuda", "def launch(")):
        text = td.generate_code([x, last], total, backend, **({"name": "f"} if backend == "cuda_c" else {}))
        kernels, host = text.split(start, 1)
        assert "last[0] + 1" in kernels and "last[0]" not in host
        assert ("n + 255" in host) == bool(declared)


def test_kernels_have_the_name_of_their_file():
    """So that files with equal steps can be linked together."""
    rows = td.TensorComprehension(td.IndexedSum(A[i, j], (j, 0, m - 1)), (i, n))
    text = td.generate_code([A], rows, "cuda_c", name="f")
    kernels = [line.partition("(")[0].split()[-1] for line in text.splitlines() if "__global__ void" in line]
    assert kernels and all(kernel.startswith("f_fill_") for kernel in kernels)
    assert idx.name not in text
