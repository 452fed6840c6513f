"""Sums of products over trapezoids: blocks of a library's products, and the terms next to the slant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
from every import every
from oracle import expected

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Array, Operand, Program, Trapezoid
from sympy_tensordiff.codegen.ir.steps import calls_in_loops
from sympy_tensordiff.codegen.ir.verify import verify
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine

i, j, k, l, h, n, m, d = td.indices("i j k l h n m d")
total, table = td.IndexedSum, td.TensorComprehension
A, B, C, w = (td.TensorSymbol(name, shape) for name, shape in zip("ABCw", ((n, n), (n, d), (n, d), n), strict=True))
R, T = td.TensorSymbol("R", (n, n + m)), td.TensorSymbol("T", (n + m, d))
H, G = td.TensorSymbol("H", (3, n, n)), td.TensorSymbol("G", (3, n, d))
Y, Z = td.TensorSymbol("Y", (130, 130)), td.TensorSymbol("Z", (130, 5))
P, W = td.TensorSymbol("P", (n, n, d)), td.TensorSymbol("W", (40, n, n))
idx = td.TensorSymbol("idx", n, dtype=int, below=n)
HINTS = {n: 200, m: 10, d: 8}


def lower(*bounds, last=n):
    """Triangles of A with B."""
    return table(total(A[i, j] * B[j, l], (j, *bounds)), (i, last), (l, d))


SMOOTH = total(sympy.sin(total(A[i, j] * B[j, l], (j, 0, i))) * C[i, l], (i, 0, n - 1), (l, 0, d - 1))
FOUND = {
    "diagonal": (lower(0, i), 1),
    "strict": (lower(0, i - 1), 1),
    "from the third": (table(total(Y[i, j] * Z[j, l], (j, 2, i - 3)), (i, 130), (l, 5)), 1),
    "to the hundredth": (table(total(Y[i, j] * Z[j, l], (j, 0, sympy.Min(i, 100))), (i, 130), (l, 5)), 1),
    "from the ninth": (table(total(Y[j, i] * Z[i, l], (i, sympy.Max(j, 9), 129)), (j, 130), (l, 5)), 1),
    "to the last but nine": (table(total(Y[j, i] * Z[i, l], (i, j + 1, 120)), (j, 130), (l, 5)), 1),
    "rows further down": (table(total(A[i + 2, j] * B[j, l], (j, 0, i)), (i, n - 2), (l, d)), 1),
    "shifted by a size": (table(total(R[i, j] * T[j, l], (j, 0, i + m)), (i, n), (l, d)), 1),
    "upper": (table(total(A[i, j] * C[i, l], (i, j, n - 1)), (j, n), (l, d)), 1),
    "upper, later": (table(total(A[j, i] * C[i, l], (i, j + 5, n - 1)), (j, n), (l, d)), 1),
    "upper, from a size": (table(total(R[i, j] * T[j, l], (j, i + m, n + m - 1)), (i, n), (l, d)), 1),
    "scaled": (table(w[i] * total(w[j] * A[i, j] * B[j, l], (j, 0, i)) ** 2, (i, n), (l, d)), 1),
    "of many matrices": (table(total(H[h, i, j] * G[h, j, l], (j, 0, i)), (h, 3), (i, n), (l, d)), 1),
    "columns of two axes": (table(total(A[i, j] * G[h, j, l], (j, 0, i)), (h, 3), (i, n), (l, d)), 1),
    "rows of two axes": (table(total(H[h, i, j] * B[j, l], (j, 0, i)), (h, 3), (i, n), (l, d)), 1),
    "rounded columns": (table(total(A[i, j] * B[j, sympy.floor(l / 2)], (j, 0, i)), (i, n), (l, 2 * d)), 1),
    "gradients": (td.gradient(SMOOTH, (A, B)), 2),
}  # fmt: skip
OTHERS = {
    "a band": lower(sympy.Max(0, i - 9), i),
    "a rectangle": lower(0, n - 1),
    "every second": table(total(A[i, j] * B[j, l], (j, 0, 2 * i)), (i, n // 2), (l, d)),
    "against the diagonal": table(total(A[i, j] * B[j, l], (j, 0, n - 1 - i)), (i, n), (l, d)),
    "half a size further": table(
        total(sympy.Piecewise((R[i, j] * T[j, l], 2 * j <= 2 * i + m), (0, True)), (j, 0, n - 1)), (i, n), (l, d)
    ),
    "every second term": table(
        total(sympy.Piecewise((A[i, j] * B[j, l], sympy.Eq(sympy.Mod(i - j, 2), 0)), (0, True)), (j, 0, n - 1)),
        (i, n), (l, d),
    ),
    "a rounded slant": lower(0, i - sympy.floor(i / 4)),
    "no columns": table(total(A[i, j] * w[j], (j, 0, i)), (i, n)),
    "rows of both": table(total(W[h, i, j] * P[i, j, l], (j, 0, i)), (h, 40), (i, n), (l, d)),
    "by data": table(total(A[i, idx[j]] * B[j, l], (j, 0, i)), (i, n), (l, d)),
    "two slants": table(total(A[i, j] * B[j, l], (j, l, i)), (i, n), (l, d)),
}  # fmt: skip


def tensors(expr):
    exprs = expr if isinstance(expr, tuple) else (expr,)
    return sorted({x for e in exprs for x in e.atoms(td.TensorSymbol)}, key=str)


def hints(expr):
    """Return the expected lengths of the axes of an expression."""
    sizes = {size for x in tensors(expr) for extent in x.shape for size in sympy.sympify(extent).free_symbols}
    return {size: HINTS[size] for size in sizes}


def program_of(expr, sizes=None, **options):
    return build_program(tensors(expr), expr, sizes=sizes or hints(expr), trapezoids=True, **options)


def trapezoids(program):
    return [step for step in program.kernels if isinstance(step, Trapezoid)]


def values_of(arguments, sizes, seed=0):
    random = np.random.default_rng(seed)
    shapes = [[int(sympy.sympify(extent).subs(sizes)) for extent in x.shape] for x in arguments]
    return [random.normal(size=shape) for shape in shapes]


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


@every("name", [*FOUND], turns=10)
def test_trapezoids_are_found_and_exact(name, uncompiled):
    expr, count = FOUND[name]
    assert len(trapezoids(program_of(expr))) == count
    arguments = tensors(expr)
    function, plain = (td.lambdify(arguments, expr, backend, sizes=hints(expr)) for backend in ("numba", "numpy"))
    for sizes in ({n: 70, m: 5, d: 3}, {n: 33, m: 40, d: 1}, {n: 32, m: 1, d: 2}, {n: 6, m: 2, d: 1}):
        values = values_of(arguments, sizes)
        for one, other in zip(as_tuple(function(*values)), as_tuple(plain(*values)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@every("name", [*OTHERS])
def test_what_is_no_trapezoid(name):
    assert not trapezoids(program_of(OTHERS[name]))


def test_short_sums_stay_loops():
    assert not trapezoids(program_of(FOUND["diagonal"][0], {n: 90, d: 8}))
    assert not trapezoids(program_of(FOUND["diagonal"][0], temporaries=False))


# Compiled loops differ in the terms that they leave out, which neither the slant nor the
# precision changes: each slant, precision and kind of loop is compiled once, and all of them run as Python.
COMPILED = {("diagonal", False, np.float64), ("upper, later", True, np.float32)}


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", ["diagonal", "upper, later"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_terms_outside_of_the_range_are_not_multiplied(name, parallel, dtype, request):
    """Entries that are not finite change only the results that read them: 0*nan is nan."""
    if (name, parallel, dtype) not in COMPILED:
        request.getfixturevalue("uncompiled")
    expr = FOUND[name][0]
    arguments = tensors(expr)
    sizes = {n: 131, d: 8}
    values = [value.astype(dtype) for value in values_of(arguments, sizes)]
    A_, B_ = values
    rows, columns = np.indices(A_.shape)
    outside = columns > rows if name == "diagonal" else columns < rows + 5
    A_[outside & ((rows + columns) % 2 == 0)] = np.nan
    A_[outside & ((rows + columns) % 2 == 1)] = np.inf
    B_[100, 3], B_[40, 2] = np.nan, np.inf
    found = td.lambdify(arguments, expr, "numba", sizes=hints(expr), parallel=parallel)(*values)
    wanted = np.empty_like(found)
    for p in range(131):
        inside = ~outside[p]
        wanted[p] = sum((A_[p, q] * B_[q] for q in np.flatnonzero(inside)), np.zeros(8, dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-11 if dtype is np.float64 else 1e-3, atol=1e-4)


@pytest.mark.in_turns(8)
def test_loops_with_a_library_call_that_is_not_compiled():
    X = td.TensorSymbol("X", (d, d))
    expr = FOUND["diagonal"][0] @ td.inv(X)
    assert trapezoids(program_of(expr))
    arguments = tensors(expr)
    values = values_of(arguments, {n: 100, d: 4})
    found = td.lambdify(arguments, expr, "numba", sizes=hints(expr))(*values)
    np.testing.assert_allclose(found, np.tril(values[0]) @ values[1] @ np.linalg.inv(values[2]), rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------------- the step

SHAPES = tuple(Affine.variable(name) for name in ("rows", "terms", "columns"))
STEP = Trapezoid("r", (0, 2), Operand("a", (0, 1)), Operand("b", (1, 2)), row=0, shift=Affine.of(3))


def one_step(step):
    from sympy_tensordiff.codegen.ir.programs import Argument

    shapes = {"a": SHAPES[:2], "b": SHAPES[1:]}
    arguments = tuple([Argument("array", name, name, shape) for name, shape in shapes.items()])
    return Program(arguments, (Array("r", (SHAPES[0], SHAPES[2])),), (), (step,))


@pytest.mark.parametrize("shift", [0, 3, -2, 40, -40])
@pytest.mark.parametrize("is_upper", [False, True])
def test_a_row_has_the_terms_that_its_block_has(shift, is_upper):
    program = one_step(replace(STEP, shift=Affine.of(shift), is_upper=is_upper))
    verify(program)
    a, b = np.random.default_rng(0).normal(size=(70, 66)), np.ones((66, 2))
    (found,) = expected(calls_in_loops(program), [a, b])
    for row in range(70):
        block = range(row // 32 * 32, row // 32 * 32 + 32)
        terms = [t for t in range(66) if all(t >= p + shift if is_upper else t <= p + shift for p in block)]
        np.testing.assert_allclose(found[row], a[row, terms].sum(), atol=1e-12)


@every(
    "step",
    [
        replace(STEP, row=2),
        replace(STEP, row=1),
        replace(STEP, output=(0, 1, 2)),
    ],
)
def test_steps_that_are_no_trapezoids_are_refused(step):
    with pytest.raises(VerificationError):
        verify(one_step(step))
