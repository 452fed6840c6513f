"""Sums of products in index notation become products of matrices where that pays, and mean the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy
from every import every
from fuzz.count import count

import sympy_tensordiff as td
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Kernel
from sympy_tensordiff.codegen.ir.scalars import Load, Name
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import call_arguments, random_values

i, j, k, p, q, r, n, m, l, a, b = td.indices("i j k p q r n m l a b")
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, l))
x, w = td.TensorSymbol("x", 2 * n + 3 * m), td.TensorSymbol("w", m)
T = td.TensorSymbol("T", (n, m, l))
C, D = td.TensorSymbol("C", (32, n)), td.TensorSymbol("D", (32, l))
E, y = td.TensorSymbol("E", (n, 2 * l + m)), td.TensorSymbol("y", (l, l))
F = td.TensorSymbol("F", (n, n))
SIZES = {n: 4, m: 3, l: 5}
table, total = td.TensorComprehension, td.IndexedSum

# Expressions, the number of products in matrix products at n, m, l, and the number of copies that are made for them.
PRODUCTS = {
    "plain": (table(total(A[p, k] * B[k, q], (k, 0, m - 1)), (p, n), (q, l)), n * m * l, 0),
    "transposed result": (table(-2 * total(A[p, k] * B[k, q], (k, 0, m - 1)), (q, l), (p, n)), n * m * l, 0),
    "weighted": (table(total(A[k, p] * A[k, q] * x[k] ** 2, (k, 0, n - 1)), (p, m), (q, m)), n * m * m, 1),
    "inside": (table(sympy.exp(-total(A[p, k] * B[k, q], (k, 0, m - 1))), (p, n), (q, l)), n * m * l, 0),
    "a table": (
        table(total(table(sympy.sin(A[i, j]), (i, n), (j, m))[p, k] * B[k, q], (k, 0, m - 1)), (p, n), (q, l)),
        n * m * l, 0,
    ),
    "batch": (table(total(T[p, k, q] * T[p, k, r], (k, 0, m - 1)), (p, n), (q, l), (r, l)), n * m * l * l, 0),
    "two sums": (
        table(total(T[p, j, k] * B[j, k] * x[q + j], (j, 0, m - 1), (k, 0, l - 1)), (p, n), (q, n)), n * n * m, 2,
    ),
    "shifted": (table(total(x[p + 2 * k] * B[k, q], (k, 0, m - 1)), (p, n), (q, l)), n * m * l, 1),
    "part of a range": (table(total(C[k, p] * D[k + 1, q], (k, 1, 30)), (p, n), (q, l)), n * 30 * l, 2),
    "four factors": (
        table(total(A[k, i] * A[k, j] * A[k, p] * A[k, q], (k, 0, n - 1)), (i, m), (j, m), (p, m), (q, m)),
        n * m**4, 1,
    ),
    "strided": (
        td.vjp(
            table(total(E[p, 2 * i + k] * B[k, q], (k, 0, m - 1)), (p, n), (i, l), (q, l)), E,
            td.TensorSymbol("h", (n, l, l)),
        ),
        n * l * m * l, 0,
    ),
    "a sum inside": (
        table(total(A[p, k] * total(B[k, j] * w[k] * y[j, q], (j, 0, q)), (k, 0, m - 1)), (p, n), (q, l)),
        n * m * l, 1,
    ),
    "a triangle inside": (
        table(total(A[p, k] * total(F[p, j] * A[j, k], (j, 0, p)), (k, 0, m - 1)), (p, n)), n * n * m, 0,
    ),
    "scattered": (
        td.vjp(
            table(total(x[2 * i + 3 * k] * B[k, q], (k, 0, m - 1)), (i, n), (q, l)), x, td.TensorSymbol("g", (n, l))
        ),
        n * m * l, 0,
    ),
}  # fmt: skip


def tensors(expr):
    """Those of an expression, and those that determine the sizes."""
    return sorted(expr.atoms(td.TensorSymbol) | {T}, key=str)


def products(program):
    return [step for step in program.kernels if isinstance(step, ContractionStep)]


def counted(program, sizes):
    """The products of matrix products, and the entries of all kernels."""
    found = count(program, {str(size): value for size, value in sizes.items()}).kernels
    pairs = list(zip(program.kernels, found, strict=True))
    kernels = [c for step, c in pairs if isinstance(step, Kernel)]
    return sum(c.iterations for step, c in pairs if isinstance(step, ContractionStep)), kernels


@every("name", [*PRODUCTS])
def test_products_are_found_and_exact(name):
    expr, work, copies = PRODUCTS[name]
    program = build_program(tensors(expr), expr)
    assert counted(program, SIZES)[0] == work.subs(SIZES), program
    assert sum(bool(re.fullmatch(r"t\d*", array.name)) for array in program.temporaries) >= copies
    values = random_values(tuple(tensors(expr)), SIZES, 3)
    args, arrays = call_arguments((expr, *tensors(expr)), values)
    found = td.lambdify(args, expr, "numpy")(*arrays)
    np.testing.assert_allclose(found, np.asarray(evaluate(expr, values), float), rtol=1e-9, atol=1e-9)


def test_an_index_that_only_counts_is_counted():
    square = td.TensorSymbol("square", (m, m))
    args = [A, w, x, square]
    body = (w[0] + x[j + 2 * i]) * square[k, j] * A[p, j]
    expr = table(total(body, (j, 0, m - 1), (i, 0, 4)), (p, n), (k, m))
    found, _ = counted(build_program(args, expr, expand=True), SIZES)
    assert found <= 2 * 4 * 3 * 3
    values = random_values(tuple(args), SIZES, 3)
    given, arrays = call_arguments((expr, *args), values)
    result = td.lambdify(given, expr, "numpy", expand=True)(*arrays)
    np.testing.assert_allclose(result, np.asarray(evaluate(expr, values), float), rtol=1e-9)


def test_a_sum_that_may_be_empty_stays_inside():
    """Its 0 is multiplied by the factors before it, which may be infinite."""
    expr = table(total(A[p, k] * total(F[p, j] * A[j, k], (j, 1, p)), (k, 0, m - 1)), (p, n))
    assert not products(build_program(tensors(expr), expr))


def test_sizes_tell_what_pays():
    expr = PRODUCTS["plain"][0]
    assert products(build_program([A, B], expr, sizes={n: 300, "m": 300}))
    assert not products(build_program([A, B], expr, sizes={n: 3, m: 300, l: 300}))
    assert not products(build_program([A, B], expr, sizes={n: 9, m: 9, l: 9}))
    chain = td.einsum("ij,jk,k->i", A, B, td.TensorSymbol("v", l))
    assert products(build_program([A, B, td.TensorSymbol("v", l)], chain, sizes={n: 2}))
    assert "matmul" in td.generate_code([A, B], expr, "numpy", sizes={l: 200})
    function = td.lambdify([A, B], expr, "numpy", sizes={n: 3})
    left, right = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(function(left, right), left @ right)


def test_no_copy_is_larger_than_memory():
    expr = PRODUCTS["shifted"][0]
    assert products(build_program([x, B], expr, sizes={n: 10**5, m: 100}))
    assert not products(build_program([x, B], expr, sizes={n: 10**6, m: 100}))


def test_sizes_that_are_none_are_refused():
    expr = PRODUCTS["plain"][0]
    with pytest.raises(ArgumentError, match="sizes has a value for r, which is not a size of the expression"):
        td.lambdify([A, B], expr, "numpy", sizes={r: 3})
    with pytest.raises(ArgumentTypeError, match=r"sizes\[n\] must be a positive int, not 0"):
        td.lambdify([A, B], expr, "numpy", sizes={n: 0})
    with pytest.raises(ArgumentTypeError, match=r"sizes must be a mapping such as \{n: 300\}, not 3"):
        td.lambdify([A, B], expr, "numpy", sizes=3)


def test_the_plan_tells_why():
    expr = PRODUCTS["shifted"][0]
    plan = td.lambdify([x, B], expr, "numpy", sizes={n: 200, m: 50, l: 60}).plan
    assert "result: a product of matrices, 200 by 60 entries, sums of 50: 600000 products" in plan
    assert "10000 entries copied, in place of 600000 iterations" in plan


# ---------------------------------------------------------------------------- expand

u, v, g = td.TensorSymbol("u", (n, m)), td.TensorSymbol("v", (l, m)), td.TensorSymbol("g", (n, l))
squares = total((u[p, k] + v[q, k]) ** 2, (k, 0, m - 1))
weighted = total(g[p, j] * (u[p, q] - 3 * v[j, q]), (j, 0, l - 1))
EXPANDED = {
    "squares": (table(squares, (p, n), (q, l)), n * m * l),
    "in a function": (table(sympy.exp(-squares / 4), (p, n), (q, l)), n * m * l),
    "weighted": (table(weighted, (p, n), (q, m)), n * m * l),
    "two sums": (
        table(total(g[p, j] * (u[p, k] + v[j, k]) ** 2, (k, 0, m - 1), (j, 0, l - 1)), (p, n)), n * m * l,
    ),
    "a slope": (td.gradient(total(sympy.exp(-squares / 4), (q, 0, l - 1), (p, 0, n - 1)), u), 2 * n * m * l),
}  # fmt: skip


@every("name", [*EXPANDED])
def test_sums_of_sums_are_multiplied_out_for_who_asks(name):
    expr, work = EXPANDED[name]
    args = [u, v, g]
    assert not products(build_program(args, expr))
    found, kernels = counted(build_program(args, expr, expand=True), {n: 40, m: 30, l: 50})
    assert found == work.subs({n: 40, m: 30, l: 50})
    assert all(c.iterations <= 4 * 50 * 40 for c in kernels)
    values = random_values(tuple(args), SIZES, 5)
    given, arrays = call_arguments((expr, *args), values)
    result = td.lambdify(given, expr, "numpy", expand=True)(*arrays)
    exact = td.lambdify(given, expr, "numpy", temporaries=False)(*arrays)
    np.testing.assert_allclose(result, exact, rtol=1e-10, atol=1e-10)


KEPT = {
    "a factor of all indices": table(total((u[p, k] + v[q, k]) ** 2 * T[p, k, q], (k, 0, m - 1)), (p, n), (q, l)),
    "terms of all indices": table(total((u[p, k] + u[p, k] ** 2) * A[p, k], (k, 0, m - 1)), (p, n)),
    "a high power": table(total((u[p, k] + v[q, k]) ** 5, (k, 0, m - 1)), (p, n), (q, l)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_gains_nothing_is_not_multiplied_out(name):
    expr = KEPT[name]
    args = [u, v, T, A]
    assert build_program(args, expr, expand=True).kernels == build_program(args, expr).kernels


def test_a_sum_that_may_be_empty_keeps_its_factors():
    """The factor of a sum without terms is not multiplied by 0: it may be infinite."""
    body = (1 / u[p, 0] + v[q, k]) * A[p, k]
    expr = table(total(body, (k, 0, m - 2)), (p, n), (q, l))
    args = [u, v, A]
    function = td.lambdify(args, expr, "numpy", expand=True)
    zeros = [np.zeros((2, 1)), np.ones((3, 1)), np.ones((2, 1))]
    np.testing.assert_array_equal(function(*zeros), np.zeros((2, 3)))


def test_expand_is_true_or_false():
    with pytest.raises(ArgumentTypeError, match="expand must be True or False, not 'yes'"):
        td.lambdify([A, B], PRODUCTS["plain"][0], "numpy", expand="yes")


def test_the_example_of_the_paper_is_three_products_of_matrices():
    """By hand: three products of matrices, and sums over one index for at most one other."""
    row = ROWS["paper"]
    sizes = row.sizes
    program = build_program(*row.ours(sizes), expand=True)
    found, kernels = counted(program, {})
    assert found == 3 * sizes["I"] * sizes["J"] * sizes["K"] == (row.work(sizes).flops - 10 * 300 * 300) // 2
    assert sum(c.iterations for c in kernels) <= 6 * sizes["I"] * sizes["J"]


def test_a_size_in_a_remainder_of_summed_indices():
    """``Mod(M + p, 2)`` is a label of an axis, and the size in it none of the indices."""
    p, s = td.indices("p s")
    size = sympy.Symbol("M", integer=True, positive=True)
    a, y = td.TensorSymbol("a", (size, 40, 40)), td.TensorSymbol("y", (40, 2, 30))
    total = td.IndexedSum(a[i, j, p] * y[j, sympy.Mod(size + p, 2), s], (j, 0, 39), (p, 0, 39))
    kernel = td.lambdify([a, y], td.TensorComprehension(total, (i, size), (s, 30)), backend="numpy", sizes={size: 50})
    left, right = np.random.default_rng(0).random((5, 40, 40)), np.random.default_rng(1).random((40, 2, 30))
    expected = sum(left[:, :, q] @ right[:, (5 + q) % 2] for q in range(40))
    np.testing.assert_allclose(kernel(left, right), expected, rtol=1e-13)


def test_products_within_sums_are_shared():
    """The loss of a CP decomposition and its gradients: one residual, in one layout, one product for two gradients."""
    r = td.indices("r")
    X, U, V, W = (
        td.TensorSymbol("X", (n, m, l)),
        *(td.TensorSymbol(*one) for one in zip("UVW", ((n, r), (m, r), (l, r)), strict=True)),
    )
    model = total(U[i, q] * V[j, q] * W[k, q], (q, 0, r - 1))
    loss = total((X[i, j, k] - model) ** 2, (i, 0, n - 1), (j, 0, m - 1), (k, 0, l - 1))
    exprs = (loss, *td.gradient(loss, (U, V, W)))
    program = build_program((X, U, V, W), exprs)
    assert sum(isinstance(step, ContractionStep) for step in program.kernels) == 3
    assert sum(len(array.shape) == 3 for array in program.temporaries) == 5
    sizes = (4, 3, 5, 2)
    random = np.random.default_rng(0)
    x0, u, v, w0 = random.normal(size=sizes[:3]), *(random.normal(size=(s, 2)) for s in sizes[:3])
    residual = x0 - np.einsum("iq,jq,kq->ijk", u, v, w0)
    wanted = [(residual**2).sum()]
    wanted += [-2 * np.einsum(f"ijk,{a},{b}->{c}", residual, s, t) for a, b, c, s, t in (
        ("jq", "kq", "iq", v, w0), ("iq", "kq", "jq", u, w0), ("iq", "jq", "kq", u, v),
    )]  # fmt: skip
    for found, value in zip(td.lambdify((X, U, V, W), exprs, "numpy")(x0, u, v, w0), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-12)


def test_what_is_kept_for_an_operand_is_made_in_its_order():
    """The probabilities of a softmax regression run along the rows that they are read by, in one loop over the rows."""
    x, w, y = td.TensorSymbol("x", (90, 50)), td.TensorSymbol("w", (50, 10)), td.TensorSymbol("y", (90, 10))
    score = td.IndexedSum(x[i, k] * w[k, l], (k, 0, 49))
    total = sympy.log(td.IndexedSum(sympy.exp(score), (l, 0, 9)))
    loss = td.IndexedSum(total - td.IndexedSum(y[i, l] * score, (l, 0, 9)), (i, 0, 89))
    function = td.lambdify([x, w, y], td.gradient(loss, w))
    assert {index[0] for index in re.findall(r"\by\[(\w+), (\w+)\]", function.source)} == {"i0"}
    assert re.search(r"together for each i0: fill .*t\[i0, i\d+\], of .* one row", function.plan)


def test_entries_of_a_product_have_no_array_of_their_own():
    """Causal attention: what several places need of a product below its diagonal is read there, and not copied."""
    rows, width = 256, 32
    keys, queries, values, wanted = (td.TensorSymbol(name, (rows, width)) for name in ("w", "q", "v", "t"))
    score = sympy.exp(td.IndexedSum(queries[i, k] * keys[j, k], (k, 0, width - 1)))
    weighted = td.IndexedSum(score * values[j, l], (j, 0, i)) / td.IndexedSum(score, (j, 0, i))
    loss = td.IndexedSum((weighted - wanted[i, l]) ** 2, (i, 0, rows - 1), (l, 0, width - 1))
    arguments = (queries, keys, values, wanted)
    program = build_program(arguments, td.gradient(loss, [queries, keys]), rows=True)
    products = {step.array for step in program.kernels if isinstance(step, ContractionStep)}
    assert len(products) == 2
    for kernel in program.nests:
        parts = [part for part in scalars(kernel.body) if not isinstance(part, Name)]
        assert not all(isinstance(part, Load) and part.array in products for part in parts), kernel.array


def residual(first, last):
    """Squared steps ``x[t + 1] - F @ x[t]`` of a linear system, with a function of the state."""
    state = td.TensorSymbol("state", (m, n))
    step = state[i + 1, p] - total(F[p, k] * sympy.sin(state[i, k]), (k, 0, n - 1))
    return state, total(step**2, (p, 0, n - 1), (i, first, last))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numpy", "numba", "llvm"])
def test_a_product_may_be_empty(backend):
    """The steps of a trajectory are one fewer than its states, so perhaps none: their product is one of matrices."""
    state, loss = residual(0, m - 2)
    results = loss, *td.gradient(loss, (state, F))
    assert sum(isinstance(step, ContractionStep) for step in build_program((state, F), results).kernels) >= 3
    function = td.lambdify((state, F), results, backend)
    plain = td.lambdify((state, F), results, "numpy", temporaries=False)
    for length in (1, 2, 6):
        random = np.random.default_rng(length)
        arrays = random.normal(size=(length, 4)), random.normal(size=(4, 4))
        wanted = plain(*arrays) if length > 1 else (0, np.zeros((1, 4)), np.zeros((4, 4)))
        for found, right in zip(function(*arrays), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-13)
