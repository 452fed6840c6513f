"""C files: what they compute, refuse and are called. All files are compiled as one library, if there is a compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import in_c
import numpy as np
import oracle
import programs
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit import c
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, NotInCError

i, j, k, n, m, p, q = td.indices("i j k n m p q")
A, x, y, w = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("w", 3)
S, B = td.TensorSymbol("S", (n, n), symmetric=True), td.TensorSymbol("B", (m, n))
idx = td.TensorSymbol("idx", m, dtype=int)
windows = td.TensorComprehension(td.IndexedSum(x[2 * i + k] * w[k], (k, 0, 2)), (i, sympy.floor((n - 1) / 2)))

gathered = td.TensorComprehension(sympy.sin(x[idx[j]]) * A[i, j], (i, n), (j, m))

PROGRAMS = (
    "arithmetic", "elementary", "guard_on_integers", "long_sums", "reductions", "scans", "section_six",
    "empty_temporary", "awkward_names", "mixed_forms", "scattered_in_loops",
)  # fmt: skip
EXPRESSIONS = {
    "products": ((A, B, x, y), (A @ B, td.einsum("ij,ki->jk", A, B), A @ y + 2 * x, td.outer(x, y) * A)),
    "equations": ((S, x), (td.inv(S) @ x, td.inv(S), td.logdet(S), td.det(S), td.solve(S.T, x))),
    "gathered": ((A, x, idx), td.vjp(gathered, (x, A), A)),
    "windows": ((x, w), td.gradient(td.sum(td.tanh(windows)), (x, w))),
    "remainders": ((x, y), td.TensorComprehension(
        x[sympy.Mod(2 - 5 * i, n)] * sympy.floor((1 - 3 * i) / sympy.Integer(4)) * y[i], (i, m))),
    "searched": ((x, idx), td.IndexedSum(x[idx[j] - idx[m - 1 - j]], (j, 0, m - 1))),
}  # fmt: skip
EXTENTS = ({n: 7, m: 4}, {n: 4, m: 1}, {n: 3, m: 300})


@pytest.fixture(scope="module")
def built():
    return {name: build_program(*case) for name, case in EXPRESSIONS.items()}


@pytest.fixture(scope="module")
def compiled(built, tmp_path_factory):
    """The functions by name; those of single precision, and those that allocate, end so."""
    if in_c.COMPILER is None:
        pytest.skip("no C compiler")
    wanted = {f"p_{name}": (programs.CASES[name][0], {}) for name in PROGRAMS}
    wanted |= {name: (program, {"parallel": name == "windows"}) for name, program in built.items()}
    wanted |= {f"{name}_single": (program, {"dtype": "float32", "allocate": True}) for name, program in built.items()}
    files = {name: in_c.sources({name: program}, **options)[0][name] for name, (program, options) in wanted.items()}
    library = in_c.build(files, tmp_path_factory.mktemp("c"))
    return {
        name: in_c.Function(library, name, program, options.get("dtype", "float64"))
        for name, (program, options) in wanted.items()
    }


def values(name, sizes):
    """Random arguments of an expression."""
    rng = np.random.default_rng(1)
    found = []
    for tensor in EXPRESSIONS[name][0]:
        shape = [int(sympy.sympify(extent).subs(sizes)) for extent in tensor.shape]
        value = rng.uniform(0.2, 1.2, shape)
        if tensor == S:
            value = value + value.T + len(value) * np.eye(len(value))
        found.append(np.arange(shape[0]) % 3 if tensor == idx else value)
    return found


def equal(got, expected, rtol):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max(initial=1.0))


def test_programs_equal_the_interpreter(compiled):
    for name in PROGRAMS:
        program, arguments = programs.CASES[name]
        given = arguments(np.random.default_rng(0))
        expected = oracle.expected(program, given)
        for one, other in zip(compiled[f"p_{name}"](*given), expected, strict=True):
            scale = np.abs(other[np.isfinite(other)]).max(initial=1.0)
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * scale, err_msg=name)


def test_expressions_equal_numpy_in_both_precisions(compiled):
    for name, (arguments, expression) in EXPRESSIONS.items():
        function = td.lambdify(arguments, expression, "numpy")
        for sizes in EXTENTS:
            given = values(name, sizes)
            if name == "searched":
                given[1] = np.zeros_like(given[1])
            expected = function(*given)
            expected = expected if isinstance(expected, tuple) else (expected,)
            equal(compiled[name](*given), expected, 1e-12)
            equal(compiled[f"{name}_single"](*given), expected, 2e-4)


def test_the_programs_of_the_page(tmp_path):
    """The page prints what its programs print."""
    if in_c.COMPILER is None:
        pytest.skip("no C compiler")
    page = (Path(td.__file__).parent.parent / "docs" / "howto_c.md").read_text()
    blocks = {kind: re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("c", "fortran", "text")}
    X, label, weight = td.TensorSymbol("X", (n, m)), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
    loss = td.sum(td.softplus(X @ weight)) - td.dot(label, X @ weight)
    source = td.generate_code((X, label, weight), (loss, td.gradient(loss, weight)), "c", name="logistic")
    texts = {"logistic.c": source, "logistic.h": source.header, "main.c": blocks["c"], "main.f90": blocks["fortran"]}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    compilers = [(in_c.COMPILER, "main.c", *in_c.WARNINGS)]
    compilers += [("gfortran", "main.f90")] if shutil.which("gfortran") else []
    for compiler, main, *flags in compilers:
        subprocess.run([compiler, *flags, "-o", "main", main, "logistic.c", "-lm"], cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
        assert done.stdout == blocks["text"]


def code(function, arguments, known, shapes=((1000,),) * 5):
    return function.code(arguments, known, [np.empty(shape, function.dtype) for shape in shapes])


def test_calls_are_refused_by_their_code(compiled):
    zero = [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(0), np.zeros(3)]
    assert code(compiled["products"], zero, {"n": 0, "m": 3}) == 1
    matrix = np.ones((2, 2))
    assert code(compiled["equations"], [matrix, np.ones(2)], {"n": 2}) == 3
    assert code(compiled["equations_single"], [matrix, np.ones(2)], {"n": 2}) == 3
    matrix[0, 1] = 2
    assert code(compiled["equations"], [matrix, np.ones(2)], {"n": 2}) == 2
    for wrong in (-1, 2):
        given = [np.ones((2, 3)), np.ones(2), np.array([0, wrong, 1])]
        assert code(compiled["gathered"], given, {"n": 2, "m": 3}) == 2
    given = np.ones(3), np.array([2, 0, 0, 2])
    assert code(compiled["searched"], given, {"n": 3, "m": 4}) == 0
    assert code(compiled["searched"], (given[0], np.array([2, 0, 0, 1])), {"n": 3, "m": 4}) == 2
    assert code(compiled["searched_single"], (given[0], np.array([2, 0, 0, 1])), {"n": 3, "m": 4}) == 2


def test_scratch_memory_is_of_the_caller_or_of_the_file(built):
    lent, own = (c.print_c(built["products"], c.COptions(allocate=allocate)) for allocate in (False, True))
    assert "malloc" not in lent and "stdlib" not in lent and "real *restrict scratch)" in lent
    assert "malloc" in own and "scratch" not in own.header and "compute_scratch" in lent.header
    assert re.findall("#include <(.*)>", lent) == ["math.h", "stddef.h", "stdint.h"]


def test_names_that_c_has(built):
    taken = ("int", "I", "exp", "real", "restrict", "sizeof", "new", "NAN", "isnan")
    awkward = (*taken, "_x", "__y", "fill_result", "scratch")
    awkward = (*awkward, "power_2", "vector_exp")
    tensors = [td.TensorSymbol(name, 3) for name in awkward]
    source = td.generate_code(tensors, sum(tensors[1:], tensors[0] ** 2), "c", name="total")
    (passed,) = re.findall(r"int total\((.*)\);", source.header)
    names = re.findall(r"(\w+)(?:,|$)", passed)
    assert len(set(names)) == len(awkward) + 2 and not {*names} & {*taken}
    assert not any(name.startswith("_") for name in names)


def test_what_a_user_calls_a_tensor_is_no_code():
    scalar = sympy.Symbol("*/ int bad; /* ??/", real=True)
    source = td.generate_code([x, scalar], scalar * x, "c")
    assert "*/ int bad" not in source and "??" not in source and "_ int bad_" in source


def test_pragmas_are_an_option():
    source = td.generate_code([A, y], A @ td.sin(y) + td.exp(A @ y), "c", parallel=True)
    assert "PARALLEL\n    for" in source and "omp parallel for" in source
    assert "omp parallel" not in td.generate_code([A, y], A @ td.sin(y), "c")
    # The sum over all entries is one number: its turns depend on each other, those of its parts do not.
    assert "PARALLEL\n    for (ptrdiff_t part = 0" in td.generate_code([x], td.sum(td.exp(x)), "c", parallel=True)
    assert "PARALLEL\n" not in td.generate_code([x], td.max(x), "c", parallel=True)


def test_refusals():
    g = sympy.Function("g")
    with pytest.raises(NotInCError, match="C has no function g: use another backend"):
        td.generate_code([x], td.TensorComprehension(g(x[i]), (i, n)), "c")
    with pytest.raises(NotInCError, match=r"which is a cofactor .*write det\(A\)\*inv\(A\)"):
        M = td.TensorSymbol("M", (n, n))
        td.generate_code([M], td.gradient(td.det(M), M), "c")
    with pytest.raises(NotInCError, match="CofactorTangent, which needs singular values"):
        td.generate_code([M, S], td.hvp(td.det(M), M, S), "c")
    with pytest.raises(NotInCError, match="dtype='complex128' is not a number type of C files"):
        td.generate_code([x], 2 * x, "c", dtype="complex128")
    with pytest.raises(ArgumentError, match=r"name='2x' is not a name of a C function"):
        td.generate_code([x], 2 * x, "c", name="2x")
    with pytest.raises(ArgumentError, match=r"name='sin' is a name of C, math.h or the file itself"):
        td.generate_code([x], 2 * x, "c", name="sin")
    with pytest.raises(ArgumentTypeError, match="allocate must be True or False, not 1"):
        td.generate_code([x], 2 * x, "c", allocate=1)
    with pytest.raises(ArgumentTypeError, match="parallel must be None, True or False, not 1"):
        td.generate_code([x], 2 * x, "c", parallel=1)
    with pytest.raises(ArgumentError, match=r"dtype= is for backend='c', not for backend='numpy'"):
        td.generate_code([x], 2 * x, "numpy", dtype="float32")
    with pytest.raises(ArgumentError, match=r"text only: write it with td.generate_code"):
        td.lambdify([x], 2 * x, "c")


def test_a_file_that_does_not_know_whether_sizes_fit_says_so():
    """Return whether windows of a length that sizes decide stay inside is a question for integer algebra."""
    window = (k, sympy.floor(i * n / m), sympy.ceiling((i + 1) * n / m) - 1)
    source = td.generate_code([x, y], td.TensorComprehension(td.IndexedSum(x[k], window) * y[i], (i, m)), "c")
    assert "return 5;" in source and "5 where it does not know whether sizes fit" in source.header
    assert "return 5;" not in td.generate_code([A, y], A @ y, "c")
