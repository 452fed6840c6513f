"""The texts of the printers: exact, readable, deterministic, and deaf to hostile names."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from every import every
from programs import CASES, N, i, load, op, result, single, store

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.base import ScalarPrinter
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter
from sympy_tensordiff.codegen.ir.programs import Argument
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Name, Number, Operation
from sympy_tensordiff.codegen.run.compile import BACKENDS, CompiledFunction, print_source
from sympy_tensordiff.errors import UnsupportedError, VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient

LETTERS = "ijkpqNM"
FORMS = FormPrinter(FormNames(LETTERS, ()))

PYTHON = tuple(backend for backend in BACKENDS if backend != "llvm")
"""The backends whose texts are modules of Python."""


def form_of(**terms):
    constant = terms.pop("c", 0)
    return Affine(terms, constant)


# ---------------------------------------------------------------------------- integer forms


def random_form(rng, depth=2):
    form = Affine({v: rng.randint(-3, 3) for v in rng.sample(LETTERS, rng.randint(0, 3))}, rng.randint(-4, 4))
    for _ in range(rng.randint(0, depth)):
        form = form + rng.choice([1, -1, 2, -3]) * quotient(random_form(rng, depth - 1), rng.randint(2, 5))
    return form


def test_texts_of_forms_and_conditions_mean_them():
    rng = random.Random(0)
    for _ in range(400):
        form = random_form(rng)
        values = {v: rng.randint(-9, 9) for v in LETTERS}
        assert eval(FORMS.form(form), {}, values) == form.evaluate(values)
        assert eval(f"3 - 2*{FORMS.form(form, 9)}", {}, values) == 3 - 2 * form.evaluate(values)
        for row in (Constraint("ge", form), Constraint("eq", form), Constraint("mod", form, rng.randint(2, 4))):
            assert eval(FORMS.condition(row), {}, values) == row.holds(values), (row, FORMS.condition(row))


# ---------------------------------------------------------------------------- scalars


class Plain(ScalarPrinter):
    functions = {"sqrt": "sqrt", "max": "max", "sin": "sin"}  # noqa: RUF012

    def constant(self, text):
        return text

    def index_value(self, form):
        return f"float({self.form(form)})"


PLAIN = Plain(FormNames([*"xyz", *LETTERS], ()))
X, Y, Z = (Name(name) for name in "xyz")
SCALARS = {
    "x + y - z": op("add", X, Y, op("neg", Z)),
    "x - (y + z)": op("add", X, op("neg", op("add", Y, Z))),
    "-x*y": op("neg", op("mul", X, Y)),
    "x*y/z": op("mul", X, Y, op("pow", Z, -1)),
    "1/x/y": op("mul", op("pow", X, -1), op("pow", Y, -1)),
    "x/(y + z)": op("mul", X, op("pow", op("add", Y, Z), -1)),
    "x/y**2": op("mul", X, op("pow", Y, -2)),
    "-x**2": op("neg", op("pow", X, 2)),
    "(-x)**2": op("pow", op("neg", X), 2),
    "(x**y)**z": op("pow", op("pow", X, Y), Z),
    "1/sqrt(x)": op("pow", X, Fraction(-1, 2)),
    "0.5*x": op("mul", Fraction(1, 2), X),
    "1/3*x": op("mul", Fraction(1, 3), X),
    "x*(1/3)": op("mul", X, Fraction(1, 3)),
    "x - 2*y": op("add", X, op("mul", -2, Y)),
    "x - 2": op("add", X, -2),
    "-2*x": op("mul", -2, X),
    "-x": op("mul", -1, X),
    "x**(-y)": op("pow", X, op("neg", Y)),
    "-(x + y)": op("neg", op("add", X, Y)),
    "x if y < z else -x": op("select", op("lt", Y, Z), X, op("neg", X)),
    "(x if y < z else y) + 1": op("add", op("select", op("lt", Y, Z), X, Y), 1),
    "x if not (x < y and y < z) else z": op("select", op("not", op("and", op("lt", X, Y), op("lt", Y, Z))), X, Z),
    "x*(y*z)": op("mul", X, op("mul", Y, Z)),
    "-x*y*2": op("mul", X, op("neg", Y), 2),
    "max(max(x, y), z)": op("max", X, Y, Z),
    "x if i < N - 1 else float(i)": op(
        "select", op("lt", IndexValue(form_of(i=1)), IndexValue(form_of(N=1, c=-1))), X, IndexValue(form_of(i=1))
    ),
    "x**2.5": op("pow", X, 2.5),
    "(x + y)**3": op("pow", op("add", X, Y), 3),
    "2**x": op("pow", 2, X),
    "(-2)**x": op("pow", -2, X),
}


@every("text", [*SCALARS])
def test_scalars_read_well(text):
    assert PLAIN.scalar(SCALARS[text]) == text


def random_scalar(rng, depth):
    if depth == 0:
        return rng.choice([X, Y, Z, Number(rng.choice([2, -1, 0.5, Fraction(-1, 3), 3]))])
    name = rng.choice(["add", "mul", "neg", "pow", "select", "add", "mul"])
    parts = [
        random_scalar(rng, depth - 1) for _ in range({"neg": 1, "pow": 1, "select": 2}.get(name, rng.randint(2, 3)))
    ]
    if name == "pow":
        parts.append(Number(rng.choice([2, 3, -1, -2, 1, 0])))
    if name == "select":
        compare = Operation(rng.choice(["lt", "le", "eq", "ne"]), (random_scalar(rng, depth - 1), X))
        condition = op(rng.choice(["and", "or"]), compare, op("not", op("lt", Y, Z)))
        parts.insert(0, condition)
    return Operation(name, tuple(parts))


def test_texts_of_scalars_mean_them():
    from interpreter import Interpreter

    rng = random.Random(1)
    for _ in range(500):
        values = {name: np.float64(rng.uniform(0.5, 2)) for name in "xyz"}
        node = random_scalar(rng, rng.randint(1, 4))
        interpreter = Interpreter(CASES["matmul"][0], values, {})
        with np.errstate(all="ignore"):
            wanted = interpreter.value(node)
            found = eval(PLAIN.scalar(node), {"sqrt": np.sqrt}, {k: np.float64(v) for k, v in values.items()})
        np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=PLAIN.scalar(node))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 10**400, Fraction(10**400)])
def test_constants_that_no_double_holds(value):
    for backend in BACKENDS:
        program = single((), result("y"), "", store(Number(value)))
        with pytest.raises(UnsupportedError, match="is not a finite double"):
            print_source(program, backend)


def test_an_unknown_function():
    program = single((), result("y"), "", store(Operation("bessel", (Number(1),))))
    for backend in BACKENDS:
        # What Numba is given is verified once more, behind the passes that are for it alone.
        known = "the function 'bessel' is not known to the |no operation 'bessel' with 1 arguments"
        with pytest.raises((UnsupportedError, VerificationError), match=known):
            print_source(program, backend)


# ---------------------------------------------------------------------------- modules


@every("backend", PYTHON, turns=8)
@every("name", [*CASES])
def test_modules_are_tidy(name, backend):
    """Texts parse, have no line of whitespace at its end, no unused import, and a docstring everywhere."""
    source = print_source(CASES[name][0], backend)
    tree = ast.parse(source)
    assert backend in ast.get_docstring(tree)
    assert source.endswith("\n")
    assert not source.endswith("\n\n")
    assert all(line == line.rstrip() for line in source.splitlines())
    assert "\n\n\n\n" not in source
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            assert ast.get_docstring(node), node.name
        if isinstance(node, ast.Import | ast.ImportFrom):
            name = node.names[0].asname or node.names[0].name
            assert source.count(name) > 1 + (name == "numpy"), name


def texts():
    # LLVM's printer has no spherical Bessel functions.
    known = [(name, backend) for name in CASES for backend in BACKENDS if (name, backend) != ("elementary", "llvm")]
    return [print_source(CASES[name][0], backend) for name, backend in known]


@pytest.mark.in_turns(8)
def test_texts_do_not_depend_on_hashes(elsewhere):
    assert elsewhere(texts) == texts()


HOSTILE = [
    "x);import os",
    '"""\nimport os\n"""',
    "'; import os #",
    "a\\",
    "a\nb",
    "{x}",
    "\u2028import os",
    "ünïcode",
    '"',
    "\x00",
]


@every("label", HOSTILE)
def test_hostile_labels_stay_data(label):
    argument = Argument("array", "x", label, (N,))
    program = single((argument,), result("y", N), "i", store(load("x", i)))
    clean = single((replace(argument, label="x"),), result("y", N), "i", store(load("x", i)))
    assert print_source(program, "llvm") == print_source(clean, "llvm")
    for backend in PYTHON:
        tree = ast.parse(print_source(program, backend))
        table = next(node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "ARGUMENTS")
        assert ast.literal_eval(table.value) == (label,)
        table.value = ast.parse("('x',)", mode="eval").body
        assert ast.unparse(tree) == ast.unparse(ast.parse(print_source(clean, backend)))
    np.testing.assert_array_equal(CompiledFunction(program, "numpy")(np.ones(2)), np.ones(2))


@every("name", ["x);import os", "x y", "", "1x", "x\n"])
def test_hostile_names_are_refused(name):
    program = single((Argument("array", name, "x", (N,)),), result("y", N), "i", store(load(name, i)))
    for backend in BACKENDS:
        with pytest.raises(VerificationError, match="is not an identifier"):
            print_source(program, backend)


# ---------------------------------------------------------------------------- exact texts


def test_numpy_text():
    assert (
        print_source(CASES["correlation_adjoint"][0], "numpy")
        == '''"""Generated by sympy_tensordiff for the backend "numpy".

run(w, g, dx) fills dx.

w : array (K,)
g : array (N,)
dx : array (K + N - 1,), to be filled
"""

import numpy as np

ARGUMENTS = ('w', 'g')


def fill_dx(dx, w, g, K, N):
    """Fill dx[p]."""
    s = np.zeros_like(dx)
    s += np.convolve(g, w)
    dx[...] = s


def run(w, g, dx):
    """Fill dx."""
    K = w.shape[0]
    N = g.shape[0]
    with np.errstate(all="ignore"):
        fill_dx(dx, w, g, K, N)
'''
    )


def test_numba_text():
    text = print_source(CASES["correlation_adjoint"][0], "numba")
    assert (
        text[text.index("def fill_dx") :]
        == '''def fill_dx(dx, w, g, K, N):
    """Fill dx[p]."""
    real = dx.dtype.type
    for p in range(dx.shape[0]):
        s = real(0)
        for k in range(max(0, p - N + 1), min(K, p + 1)):
            s = plus(s, w[at(k)]*g[at(p - k)])
        dx[p] = s


def run(w, g, dx):
    """Fill dx."""
    K = w.shape[0]
    N = g.shape[0]
    fill_dx(dx, w, g, K, N)
'''
    )


def test_cuda_text():
    n = td.indices("n")
    a = td.TensorSymbol("a", (n, 64))
    text = td.generate_code([a], td.einsum("ij->i", a), "cuda")
    assert (
        text[text.index("@cuda.jit\ndef fill") : text.index("@functools")]
        == '''@cuda.jit
def fill_result(result, a, n):
    """Fill result[i0], sums shared by the threads of a block."""
    real = result.dtype.type
    x = cuda.threadIdx.x
    i0 = cuda.blockIdx.x*cuda.blockDim.y + cuda.threadIdx.y
    s_part = real(0)
    if n > i0:
        k = x
        while k < 64:
            s_part += a[uint64(64*i0 + k)]
            k += 32
    s = warp_sum(s_part, 32)
    if n > i0 and x == 0:
        result[uint64(i0)] = s


'''
    )
    assert (
        text[text.index("def run_on_device") : text.index("def checked")]
        == '''def run_on_device(a, result, stream=0, empty=cuda.device_array):
    """Launch the kernels on a stream; all arrays are on the device."""
    n = a.shape[0]
    a = a.reshape(-1)
    fill_result[-(-n//8), (32, 8), stream](result, a, n)


def run(a, result, stream=0):
    """Fill the arrays behind the arguments, which lie in the memory of the host."""
    result_device = cuda.device_array(result.shape, result.dtype, stream=stream)
    run_on_device(cuda.to_device(a, stream), result_device, stream)
    result_device.copy_to_host(result, stream)
    if stream:
        stream.synchronize()


'''
    )
