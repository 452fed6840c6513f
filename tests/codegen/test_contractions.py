"""The order of products, what becomes an array, depth, and the laws of library calls."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pytest
import sympy
from every import every
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    Argument,
    Array,
    CofactorTangent,
    ContractionStep,
    Operand,
    Program,
    Solve,
)
from sympy_tensordiff.codegen.ir.verify import verify
from sympy_tensordiff.codegen.program import Task, assemble, build_program
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.graph.contraction_paths import contraction_path, operation_count
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine

n, m, p = td.indices("n m p")
A, B, x, y = (td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p)), td.TensorSymbol("x", n),
              td.TensorSymbol("y", m))  # fmt: skip


def chain(length, size=10):
    return [td.TensorSymbol(f"M{number}", (size, size)) for number in range(length)]


def nested(matrices, vector, from_left):
    """The matrices multiplied with each other first, then with the vector."""
    product = matrices[0] if from_left else matrices[-1]
    for matrix in matrices[1:] if from_left else matrices[-2::-1]:
        product = td.einsum("ij,jk->ik", *((product, matrix) if from_left else (matrix, product)))
    return td.einsum("ij,j->i", product, vector)


def totals(program, **sizes):
    return count(program, sizes).iterations


def products_of(program, **sizes):
    """The multiplications in contractions alone."""
    contractions = tuple(step for step in program.kernels if isinstance(step, ContractionStep))
    return totals(replace(program, kernels=contractions), **sizes)


# ---------------------------------------------------------------------------- order


@every("from_left", [True, False])
@every("length", [2, 5, 9, 30])
def test_matrices_are_not_multiplied_with_each_other(length, from_left):
    matrices, vector = chain(length), td.TensorSymbol("v", 10)
    program = build_program([*matrices, vector], nested(matrices, vector, from_left))
    assert totals(program) == 100 * length
    assert all(isinstance(step, ContractionStep) for step in program.kernels)


def test_a_product_used_forward_and_backward():
    """The gradient of a square of (A B) v reads the product twice; the product of A and B is not worth it."""
    v = td.TensorSymbol("v", p)
    product = td.einsum("ij,j->i", td.einsum("ij,jk->ik", A, B), v)
    loss = td.sum(td.TensorPow(product, 2))
    sizes = {"n": 7, "m": 8, "p": 9}
    for wrt, backward in [(A, 0), (B, 7 * 8), (v, 7 * 8 + 8 * 9)]:
        program = build_program([A, B, v], td.gradient(loss, wrt))
        assert products_of(program, **sizes) == 7 * 8 + 8 * 9 + backward
    many = td.TensorSymbol("X", (p, 1000))
    loss = td.sum(td.TensorPow(td.einsum("ij,jk->ik", td.einsum("ij,jk->ik", A, B), many), 2))
    program = build_program([A, B, many], td.gradient(loss, many))
    assert program.kernels[0] == ContractionStep("t", (0, 2), Operand("A", (0, 1)), Operand("B", (1, 2)))


def test_diagonals_and_outer_products_need_no_square_matrix():
    """(diag(p) - p p^T) A, (S + lam I) x, and a gradient that is an outer product, times a matrix."""
    jacobian = td.jacobian(td.softmax(td.einsum("ij,j->i", A, y)), y)
    program = build_program([A, y], jacobian)
    assert totals(program, n=50, m=3) == 2 * 50 * 3 + 2 * 50
    assert all(len(array.shape) < 2 for array in program.temporaries)
    square, lam = td.TensorSymbol("S", (n, n)), sympy.Symbol("lam", real=True)
    shifted = td.TensorAdd(square, td.einsum(",ij->ij", lam, td.DeltaTensor((n,))))
    program = build_program([square, lam, x], td.einsum("ij,j->i", shifted, x))
    assert [len(array.shape) for array in program.temporaries] == [1]
    outer = td.einsum("i,j->ij", x, td.exp(y))
    program = build_program([x, y, B], (td.einsum("ij,jk->ik", outer, B), td.sum(td.sin(outer))))
    assert products_of(program, n=50, m=30, p=20) == 30 * 20


def test_the_plan_shows_the_order_and_its_work():
    function = td.lambdify([A, B, x], td.einsum("ij,jk,i->k", A, B, x), "numpy")
    lines = function.plan.splitlines()
    assert lines[-2].endswith("fill t[j] = sum of A[i, j]*x[i]: n*m products")
    assert lines[-1].endswith("fill result[j] = sum of B[i, j]*t[i]: m*p products")
    square = td.TensorSymbol("S", (n, n))
    function = td.lambdify([square, x], (td.einsum("ij,j->i", td.inv(square), x), td.logsumexp(x)), "numpy")
    assert "sum of inv(S)[i, j]*x[j] by solving equations: n*n*n/3 + n*n products" in function.plan
    assert "fill result1_shift\n  3. fill result1_total\n  4. fill result1" in function.plan


def test_the_numbers_of_operations():
    square = td.TensorSymbol("S", (6, 6))
    v = td.TensorSymbol("v", 6)
    work = {
        td.einsum("ij,jk->ik", square, square): 216, td.inv(square): 216, td.det(square): 216,
        td.einsum("ij,j->i", td.inv(square), v): 36 + 72, td.adj(square): 216, td.logsumexp(square): 72,
        td.TensorCofactor(2, square): 6**5, td.jvp(td.adj(square), square, square): 5 * 216,
    }  # fmt: skip
    for expr, expected in work.items():
        assert totals(build_program([square, v], expr)) == expected


# ---------------------------------------------------------------------------- paths


def test_many_operands():
    """A star, a ring and parts that nothing connects: every operand is used once."""
    star = [frozenset((0, number)) for number in range(1, 40)]
    ring = [frozenset((number, (number + 1) % 15)) for number in range(15)]
    groups = [frozenset((number // 2,)) for number in range(24)]
    for inputs in (star, ring, groups):
        labels = frozenset().union(*inputs)
        path = contraction_path(inputs, frozenset((0,)), dict.fromkeys(labels, 3))
        used = [number for step in path for number in step]
        assert sorted(used) == list(range(2 * len(inputs) - 2))


@pytest.mark.in_turns(4)
def test_an_order_for_ten_thousand_operands():
    """Four times as many operands take about four times as long; twelve leaves room for noise, a square is sixteen."""
    seconds = []
    for length in (2_500, 10_000):
        inputs = [frozenset((number, number + 1)) for number in range(length)] + [frozenset((length,))]
        sizes = dict.fromkeys(range(length + 1), 100)
        begin = process_time()
        path = contraction_path(inputs, frozenset((0,)), sizes)
        seconds.append(process_time() - begin)
        assert operation_count(inputs, frozenset((0,)), sizes, path) == 100**2 * length
    assert seconds[1] < 12 * seconds[0]


# ---------------------------------------------------------------------------- what becomes an array


def test_the_plan_shows_factors_and_transposes():
    square = td.TensorSymbol("S", (n, n))
    results = (td.TensorMul(-2, td.einsum("ij,j->i", A, y)), td.TensorMul(-1, td.adj(square)), td.inv(square))
    plan = td.lambdify([A, y, square], results, "numpy").plan
    assert "fill result0[i] = -2*sum of A[i, j]*y[j]: n*m products" in plan
    assert "fill factors = triangular factors of S" in plan
    assert "fill result1 = -cofactor(S by factors, 1), its axes in the order (1, 0)" in plan
    assert plan.endswith("fill result2 = inv(S by factors)")


@pytest.mark.in_turns(4)
def test_conditions_are_no_arrays():
    expr = A
    for _ in range(20):
        expr = td.maximum(td.sin(expr), td.TensorMul(expr, td.cos(expr)))
    gradient = td.gradient(td.sum(expr), A)
    function = td.lambdify([A], gradient, "numpy")
    a, step = np.array([[0.1, -0.2, 0.3]]), 1e-6
    value = td.lambdify([A], td.sum(expr), "numpy")
    for place in range(3):
        direction = np.eye(3)[[place]] * step
        slope = (value(a + direction) - value(a - direction)) / (2 * step)
        assert function(a)[0, place] == pytest.approx(slope, rel=1e-6)


# ---------------------------------------------------------------------------- depth


def program_of(graph, roots, tensors):
    """The program of a graph over tensors of numeric sizes."""
    arguments = tuple(Argument("array", t.data[0], t.data[0], t.data[1]) for t in tensors)
    names = {t.data[0]: t.data[0] for t in tensors}
    structure = "." if len(roots) == 1 else f"({'.' * len(roots)})"
    task = Task(
        graph=graph, nodes=roots, structure=structure, arguments=arguments, names={}, arrays=names, sizes=frozenset()
    )
    return assemble(task)


@pytest.mark.in_turns(8)
def test_a_deep_chain_of_products_is_one_einsum():
    graph = Graph()
    w, v = graph.tensor("W", (Affine.of(3), Affine.of(3))), graph.tensor("v", (Affine.of(3),))
    node = w
    for _ in range(1100):  # more than Python calls inside one another
        node = graph.ein(1, [(node, "ij"), (w, "jk")], "ik")
    node = graph.ein(1, [(node, "ij"), (v, "j")], "i")
    assert totals(program_of(graph, [node], [w, v])) == 9 * 1101


# ---------------------------------------------------------------------------- laws


N, M = Affine.variable("N"), Affine.variable("M")
ARRAYS = (Argument("array", "A", "A", (N, M)), Argument("array", "x", "x", (M,)), Argument("array", "S", "S", (N, N)))
PRODUCT = ContractionStep("r", (0,), Operand("A", (0, 1)), Operand("x", (1,)))
TANGENT = CofactorTangent("r", (0, 1), Operand("S", (0, 1)), Operand("S", (1, 0)))


def one_step(step, *shape):
    return Program(ARRAYS, (Array("r", shape),), (), (step,))


BROKEN = {
    "step r: z is read before it is complete": one_step(replace(PRODUCT, left=Operand("z", (0, 1))), N),
    "1 labels for the axes of A": one_step(replace(PRODUCT, left=Operand("A", (0,))), N),
    "a label has the extents N and M": one_step(replace(PRODUCT, left=Operand("A", (1, 0))), N),
    r"the labels \(0, 0\) are not an output of": one_step(replace(PRODUCT, output=(0, 0)), N, N),
    r"the labels \(1,\) are not an output of": one_step(replace(PRODUCT, output=(1,)), M),
    r"the result has shape \(N,\), the array \(M,\)": one_step(PRODUCT, M),
    "one axis of a square matrix is summed over": one_step(
        Solve("r", (0,), Operand("A", (0, 1)), Operand("x", (1,))), N
    ),
    r"two square matrices are needed, under the labels \(0, 1\)": one_step(
        CofactorTangent("r", (0, 1), Operand("A", (0, 1)), Operand("A", (0, 1))), N, M
    ),
    r"two square matrices are needed, under the labels \(0, 2\)": one_step(
        replace(TANGENT, output=(0, 2), right=Operand("S", (2, 1))), N, N
    ),
    "Apply r: a square matrix is needed, not an array of shape": one_step(Apply("r", "inv", "A"), N, M),
    r"an array of shape \(N, N\) does not hold factors": one_step(Apply("r", "inv", "S", factored="lu"), N, N),
    "no library call is named 'exp'": one_step(Apply("r", "exp", "S"), N, N),
    r"\(0, 0\) is not an order of 2 axes": one_step(Apply("r", "inv", "S", axes=(0, 0)), N, N),
    "r is an argument or has been written before": replace(one_step(PRODUCT, N), kernels=(PRODUCT, PRODUCT)),
}


@every("message", [*BROKEN])
def test_laws_of_library_calls(message):
    with pytest.raises(VerificationError, match=message):
        verify(BROKEN[message])


def test_the_order_of_many_scalars_is_found_at_once():
    """All orders cost the same; trying them all takes minutes."""
    inputs = [frozenset[int]()] * 9 + [frozenset({0})]
    path = contraction_path(inputs, frozenset({0}), {0: 100})
    assert operation_count(inputs, frozenset({0}), {0: 100}, path) == 108


def test_an_inverse_that_is_computed_is_multiplied_by_matrices():
    """Solutions for as many right-hand sides as there are rows take twice the time of a product with the inverse."""
    n = td.indices("n")
    A, V, x = td.TensorSymbol("A", (n, n)), td.TensorSymbol("V", (n, n)), td.TensorSymbol("x", n)
    twice = td.hvp(td.sum(td.inv(A) ** 2), A, V)
    steps = build_program((A, V), twice).kernels
    assert not any(isinstance(step, Solve) for step in steps)
    assert any(isinstance(step, Solve) for step in build_program((A, V), td.inv(A) @ V).kernels)
    assert any(isinstance(step, Solve) for step in build_program((A, x), (td.inv(A), td.inv(A) @ x)).kernels)
    rng = np.random.default_rng(0)
    arrays = {A: rng.normal(size=(4, 4)) + 4 * np.eye(4), V: rng.normal(size=(4, 4))}
    found = td.lambdify((A, V), twice, "numpy")(*arrays.values())
    np.testing.assert_allclose(found, td.evaluate(twice, arrays), rtol=1e-10)


LAYOUTS = (
    *("nhd,mhd->nhm", "nhm,mhd->nhd", "nhd,mhd->hnm", "hnd,hdm->nhm", "hnd,dhm->hmn", "nhd,nhm->hdm"),
    *("bnhd,bmhd->bhnm", "bhnm,bmhd->bnhd", "nbhd,hmbd->mhbn", "nhd,dh->hn", "hd,nhd->nh", "dnh,dmh->hnm"),
    *("nbd,mdn->bnm", "nhd,hde->nhe"),
)
"""Products of a batch of matrices whose axes lie apart in memory; BLAS reads and writes most of them in place."""


@pytest.mark.parametrize("lengths", [(1, 1, 1, 1, 1, 1), (2, 3, 5, 4, 7, 6), (3, 1, 33, 2, 9, 20), (2, 3, 5, 4, 0, 6)])
def test_batches_in_any_layout(lengths):
    sizes = dict(zip("bhndme", lengths, strict=True))
    symbols = {letter: td.indices(f"n{letter} zz")[0] for letter in sizes}
    generator = np.random.default_rng(0)
    arguments, results, arrays, expected = [], [], [], []
    for number, layout in enumerate(LAYOUTS):
        operands = layout.partition("->")[0].split(",")
        for side, letters in zip("AB", operands, strict=True):
            arguments.append(td.TensorSymbol(f"{side}{number}", [symbols[letter] for letter in letters]))
            arrays.append(generator.normal(size=[sizes[letter] for letter in letters]))
        results.append(td.einsum(layout, *arguments[-2:]))
        expected.append(np.einsum(layout, *arrays[-2:]))
    for found, own in zip(td.lambdify(arguments, results, "llvm")(*arrays), expected, strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-12, atol=1e-12)


SMALL = {"nab,nb->na": 12, "nab,na->nb": 12, "nab,nbc->nac": 5, "nab,nbc->anc": 5}
"""The longest axes of the matrices for which loops compute the batch, for each layout."""


@pytest.mark.parametrize("layout", SMALL)
def test_batches_of_small_products_run_in_loops(layout):
    def steps(length, batch=n, **options):
        sides = layout.partition("->")[0].split(",")
        shapes = [[batch if letter == "n" else length for letter in letters] for letters in sides]
        pair = [td.TensorSymbol(name, shape) for name, shape in zip("AB", shapes, strict=True)]
        program = build_program(pair, td.einsum(layout, *pair), **options)
        return sum(isinstance(step, ContractionStep) for step in program.kernels)

    most = SMALL[layout]
    assert [steps(length, rows=True) for length in (1, 3, most)] == [0, 0, 0]
    assert [steps(most + 1, rows=True), steps(m, rows=True), steps(3)] == [1, 1, 1]  # large, unknown, on other devices


@pytest.mark.parametrize("backend", ["llvm", "numba"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_quadratic_forms_of_a_batch(backend, dtype):
    r, W = td.TensorSymbol("r", (n, 3)), td.TensorSymbol("W", (n, 3, 3))
    f = td.einsum("na,nab,nb->", r, W, r) / 2
    run = td.lambdify([r, W], [f, td.gradient(f, r)], backend)
    generator = np.random.default_rng(0)
    for length in (0, 1, 7):
        r0 = generator.normal(size=(length, 6)).astype(dtype)[:, ::2]
        W0 = np.asfortranarray(generator.normal(size=(length, 3, 3)).astype(dtype))
        value, slope = run(r0, W0)
        rtol = 1e-12 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(value, np.einsum("na,nab,nb->", r0, W0, r0) / 2, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(slope, (np.einsum("nab,nb->na", W0, r0) + np.einsum("nab,na->nb", W0, r0)) / 2,
                                   rtol=rtol, atol=rtol)  # fmt: skip
