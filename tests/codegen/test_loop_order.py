"""Loops run along rows of memory, in whatever order limits and axes were written."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Loop
from sympy_tensordiff.codegen.ir.programs import ContractionStep
from sympy_tensordiff.codegen.ir.walk import loops, statements
from sympy_tensordiff.codegen.lower.loop_order import nested_rows
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.integer.affine import Affine, Constraint

n, m = sympy.symbols("n m", integer=True, positive=True)
i, j, k, r = td.indices("i j k r")
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m))
Q, b, X, U = (
    td.TensorSymbol("Q", (n, n)),
    td.TensorSymbol("b", n),
    td.TensorSymbol("X", (n, 3)),
    td.TensorSymbol("U", (n, n, n)),
)
V = td.TensorSymbol("V", (n, m, 3))
spins = td.IndexedSum(V[i, j, k] ** 2, (k, 0, 2))
I, J = Affine.variable(1), Affine.variable(2)
laplacian = sum(U[i + a, j, k] + U[i, j + a, k] + U[i, j, k + a] for a in (-1, 1)) - 6 * U[i, j, k]
term = sympy.sqrt(1 + Q[i, j] ** 2)


def order(args, expression):
    """The variables of the loops of the first kernel, outermost first."""
    return [loop.variable for loop in loops(build_program(args, expression).nests[0].body)]


SUMS = {
    "columns first": ([A], td.IndexedSum(sympy.sqrt(1 + A[i, j] ** 2), (i, 0, n - 1), (j, 0, m - 1)), "ij"),
    "rows first": ([A], td.IndexedSum(sympy.sqrt(1 + A[i, j] ** 2), (j, 0, m - 1), (i, 0, n - 1)), "ij"),
    "three axes": ([U], td.IndexedSum(laplacian**2, (i, 1, n - 2), (j, 1, n - 2), (k, 1, n - 2)), "ijk"),
    "lower triangle": ([Q], td.IndexedSum(term, (i, j, n - 1), (j, 0, n - 1)), "ij"),
    "upper triangle": ([Q], td.IndexedSum(term, (i, 0, j), (j, 0, n - 1)), "ij"),
    "diagonal band": ([Q], td.IndexedSum(term, (i, sympy.Max(0, j - 2), sympy.Min(n - 1, j + 1)), (j, 0, n - 1)), "ij"),
    "maximum": ([Q], td.IndexedMax(term, (i, 0, n - 1), (j, 0, n - 1)), "ij"),
    "product": ([Q], td.IndexedProduct(term / 2, (i, 0, n - 1), (j, 0, n - 1)), "ij"),
    "a square outside": ([Q, b], td.IndexedSum(term * b[j] ** 2, (i, 0, n - 1), (j, 0, n - 1)), "ij"),
    "a root outside": ([Q, b], td.IndexedSum(term * sympy.sqrt(1 + b[j]), (i, 0, n - 1), (j, 0, n - 1)), "ji"),
    "a root inside": ([Q, b], td.IndexedSum(term * sympy.sqrt(1 + b[i]), (i, 0, n - 1), (j, 0, n - 1)), "ij"),
    "short inside": ([X], td.IndexedSum(sympy.sqrt(1 + X[i, k] ** 2), (k, 0, 2), (i, 0, n - 1)), "ik"),
    "short outside": ([X], td.IndexedSum(sympy.sqrt(1 + X[i, k] ** 2), (i, 0, n - 1), (k, 0, 2)), "ki"),
    "a short sum inside": ([V], td.IndexedSum(sympy.sqrt(1 + spins), (i, 0, n - 1), (j, 0, m - 1)), "ijk"),
}


def numbers(args, sizes, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ([int(sympy.sympify(s).subs(sizes)) for s in arg.shape] for arg in args)
    return [rng.uniform(0.1, 1, size=shape) for shape in shapes]


@pytest.mark.parametrize("name", SUMS)
def test_the_innermost_loop_of_a_reduction_runs_along_rows(name):
    args, expression, wanted = SUMS[name]
    assert "".join(order(args, expression)) == wanted


def root(x):
    return np.sqrt(1 + x**2)


def band(Q):
    return np.tril(np.triu(root(Q), -1), 2).sum()


WANTED = {
    "columns first": lambda A: root(A).sum(),
    "rows first": lambda A: root(A).sum(),
    "three axes": lambda U: (seven_points(U) ** 2).sum(),
    "lower triangle": lambda Q: np.tril(root(Q)).sum(),
    "upper triangle": lambda Q: np.triu(root(Q)).sum(),
    "diagonal band": band,
    "maximum": lambda Q: root(Q).max(),
    "product": lambda Q: (root(Q) / 2).prod(),
    "a square outside": lambda Q, b: (root(Q) * b**2).sum(),
    "a root outside": lambda Q, b: (root(Q) * np.sqrt(1 + b)).sum(),
    "a root inside": lambda Q, b: (root(Q) * np.sqrt(1 + b)[:, None]).sum(),
    "short inside": lambda X: root(X).sum(),
    "short outside": lambda X: root(X).sum(),
    "a short sum inside": lambda V: np.sqrt(1 + (V**2).sum(2)).sum(),
}


def seven_points(U):
    inner = slice(1, -1)
    found = -6 * U[inner, inner, inner]
    for a in (slice(2, None), slice(None, -2)):
        found = found + U[a, inner, inner] + U[inner, a, inner] + U[inner, inner, a]
    return found


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("temporaries", [True, False])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", SUMS)
def test_values_of_reductions(name, backend, temporaries):
    args, expression, _ = SUMS[name]
    fn = td.lambdify(args, expression, backend, temporaries=temporaries)
    for sizes in ({n: 3, m: 1}, {n: 2, m: 5}, {n: 7, m: 3}):
        if name == "three axes" and sizes[n] < 3:
            continue
        values = numbers(args, sizes)
        np.testing.assert_allclose(fn(*values), WANTED[name](*values), rtol=1e-12)


def test_rows_of_a_triangle_have_the_same_points():
    """The bounds of the interchanged loops, over all of a small square."""
    rows = nested_rows((2, 1), (Constraint("ge", J), Constraint("ge", I - J - 1), Constraint("ge", 4 - I)), ())
    points = [(x, y) for x in range(-2, 8) for y in range(-2, 8) if 0 <= x < y <= 4]
    holds = [(x, y) for x in range(-2, 8) for y in range(-2, 8) if all(at(row, x, y) for row in rows)]
    assert points == holds
    assert nested_rows((2, 1), (Constraint("ge", J), Constraint("ge", I - J)), ()) is None


def at(row, x, y):
    return row.substitute({1: Affine.of(y), 2: Affine.of(x)}).form.constant >= 0


@pytest.mark.usefixtures("uncompiled")
def test_the_axes_of_a_kernel_run_along_most_reads():
    C = td.TensorComprehension(sympy.sqrt(1 + A[i, j] ** 2 + B[i, j] ** 2), (j, m), (i, n))
    fn = td.lambdify([A, B], C, "numba")
    assert re.search(r"for i in range\(.*\):\n +for j in range", fn.source)
    values = numbers([A, B], {n: 5, m: 7})
    np.testing.assert_allclose(fn(*values), np.sqrt(1 + values[0] ** 2 + values[1] ** 2).T)


def test_the_axes_of_a_kernel_stay_where_reads_disagree():
    C = td.TensorComprehension(sympy.sqrt(1 + Q[i, j] ** 2 + Q[j, i] ** 2), (j, n), (i, n))
    assert re.search(r"for j in range\(.*\):\n +for i in range", td.lambdify([Q], C, "numba").source)


# ---------------------------------------------------------------------------- sums along rows and down columns


def loops_over(expression, *args):
    """Return the number of loops over the summation index in the kernel of a vector."""
    nests = build_program(args, td.TensorComprehension(expression, (i, n))).nests
    return sum(isinstance(part, Loop) for nest in nests for part in statements(nest.body))


@pytest.mark.parametrize("backend", ["numpy", "numba", "llvm"])
@pytest.mark.parametrize("size", [1, 2, 7, 600])
def test_a_symmetrised_matrix_times_a_vector_reads_along_rows(backend, size):
    """The derivative of a quadratic form: each loop runs along rows, since the matrix is read in two sums."""
    value = 3 * td.IndexedSum((2 * Q[j, i] + Q[i, j]) * b[j], (j, 0, n - 1)) + b[i]
    function = td.lambdify([Q, b], td.TensorComprehension(value, (i, n)), backend, parallel=False)
    random = np.random.default_rng(size)
    matrix, vector = random.normal(size=(size, size)), random.normal(size=size)
    wanted = 3 * (2 * matrix.T + matrix) @ vector + vector
    np.testing.assert_allclose(function(matrix, vector), wanted, rtol=1e-10, atol=1e-10)
    if backend == "numba":
        assert "sink: the last axis runs inside of sums" in function.plan


def test_sums_are_separated_only_where_both_reads_gain():
    j_range = (j, 0, n - 1)
    assert loops_over(td.IndexedSum((Q[j, i] + Q[i, j]) * b[j], j_range), Q, b) == 2
    assert loops_over(td.IndexedSum((Q[j, i] - Q[i, j]) * b[j], j_range), Q, b) == 1  # exactly 0 if Q is symmetric
    assert loops_over(td.IndexedSum((Q[j, i] + 2 * Q[j, i] ** 2) * b[j], j_range), Q, b) == 1
    assert loops_over(td.IndexedSum((Q[j, i] + Q[i, j]) * b[j] * b[i + j], j_range), Q, b) == 1


G = td.TensorSymbol("G", (n, n, n, n))
EXCHANGE = td.IndexedSum(
    (2 * G[i, j, k, r] - G[i, r, k, j]) * Q[i, j] * Q[k, r], *[(v, 0, n - 1) for v in (r, k, j, i)]
)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("size", [1, 3, 9])
def test_reads_of_permuted_indices_are_summed_separately(backend, size):
    """The energy of Coulomb and exchange integrals, and its gradient: each sum is contiguous along one loop."""
    random = np.random.default_rng(size)
    tensor, matrix = random.normal(size=(size,) * 4), random.normal(size=(size, size))
    wanted = [np.einsum(t, tensor, matrix, matrix) for t in ("ijkl,ij,kl", "ilkj,ij,kl")]
    entries = ("pqij,ij->pq", "ijpq,ij->pq", "iqpj,ij->pq", "pjiq,ij->pq")
    direct, turned, one, other = (np.einsum(t, tensor, matrix) for t in entries)
    function = td.lambdify([G, Q], (EXCHANGE, td.gradient(EXCHANGE, Q)), backend, parallel=False)
    value, gradient = function(tensor, matrix)
    np.testing.assert_allclose(value, 2 * wanted[0] - wanted[1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gradient, 2 * (direct + turned) - one - other, rtol=1e-10, atol=1e-10)


def innermost(expression, *args):
    """The variables of the innermost loops of a program, in the order of its text."""
    nests = build_program(args, expression).nests
    every = [loop for nest in nests for loop in loops(nest.body)]
    return [loop.variable for loop in every if not any(loops(loop.body))]


def test_each_sum_of_permuted_reads_has_an_innermost_loop_of_its_own():
    names = [name.rstrip("_0123456789") for name in innermost(EXCHANGE, G, Q)]
    assert sorted(names) == ["j", "r"]
    antisymmetric = td.IndexedSum((G[i, j, k, r] - G[i, r, k, j]) * Q[i, j], *[(v, 0, n - 1) for v in (r, k, j, i)])
    assert len(innermost(antisymmetric, G, Q)) == 1  # exactly 0 if G is symmetric
    R = td.TensorSymbol("R", (n, 4, 4))
    short = td.IndexedSum((2 * R[i, j, k] + R[i, k, j]) * b[i], (k, 0, 3), (j, 0, 3), (i, 0, n - 1))
    assert len(innermost(short, R, b)) == 1  # loops that are unrolled


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_a_matrix_and_its_transpose_multiply_a_vector_one_after_the_other(size):
    """``(Q + Q.T) @ b`` is two products that read ``Q`` along its rows; no sum of matrices is stored."""
    energy = td.dot(b, Q @ b)
    results = energy, td.gradient(energy, b)
    assert all(len(array.shape) < 2 for array in build_program([Q, b], results, rows=True).temporaries)
    generator = np.random.default_rng(size)
    matrix, vector = generator.normal(size=(size, size)), generator.normal(size=size)
    value, slope = td.lambdify([Q, b], results, "llvm", parallel=False)(matrix, vector)
    np.testing.assert_allclose(value, vector @ matrix @ vector, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, matrix @ vector + matrix.T @ vector, rtol=1e-12, atol=1e-12)


def test_a_product_with_a_matrix_and_its_transpose_uses_a_product_that_is_stored():
    """Of ``(Q + Q.T) @ H``, another result computes ``Q.T @ H``: what is left is one product, no sum of matrices."""
    h = td.TensorSymbol("H", (n, m))
    program = build_program([Q, h], (td.sum(td.exp(Q.T @ h)), (Q + Q.T) @ h))
    assert (Affine.variable("n"),) * 2 not in [array.shape for array in program.temporaries]
    assert sum(isinstance(step, ContractionStep) for step in program.kernels) == 2


def test_terms_that_may_cancel_are_subtracted_before_they_are_multiplied():
    """The product of ``Q - Q.T`` with a vector is exactly 0 for a symmetric matrix."""
    generator = np.random.default_rng(1)
    matrix = generator.normal(size=(9, 9))
    assert not td.lambdify([Q, b], (Q - Q.T) @ b, "llvm")(matrix + matrix.T, generator.normal(size=9)).any()
