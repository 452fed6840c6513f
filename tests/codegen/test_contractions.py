"""The order of products, what becomes an array, depth, and the laws of library calls."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import sympy
from every import every
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import (
    Apply,
    Argument,
    Array,
    CofactorTangent,
    Contraction,
    Operand,
    Program,
    Solve,
)
from sympy_tensordiff.codegen.ir.verify import verify
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.lower.materialise import LARGE
from sympy_tensordiff.codegen.lower.paths import contraction_path, operation_count
from sympy_tensordiff.codegen.program import assemble, build_program
from sympy_tensordiff.errors import VerificationError
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
    contractions = tuple(step for step in program.kernels if isinstance(step, Contraction))
    return totals(replace(program, kernels=contractions), **sizes)


# ---------------------------------------------------------------------------- order


def three_ways(first, second, third):
    """The derivatives by two vectors of ``sum_ijk T_ijk a_i b_j c_k``, for axes of these lengths, and their values."""
    lengths = (first, second, third)
    T = td.TensorSymbol("T", lengths)
    a, b, c = (td.TensorSymbol(name, length) for name, length in zip("abc", lengths, strict=True))
    args = (T, a, b, c)
    return args, td.gradient(td.einsum("ijk,i,j,k->", *args), (b, c))


def test_orders_of_equal_work_share_a_product():
    """``Sum_i T_ijk a_i`` serves the derivatives by b and by c, which are written as others would be."""
    args, _ = three_ways(6, 6, 6)
    gradients = tuple(
        td.einsum(f"ijk,i,{o}->{w}", *args[:2], v) for o, w, v in zip("kj", "jk", args[:1:-1], strict=True)
    )
    assert products_of(build_program(args, gradients)) == 6**3 + 2 * 6**2
    apart = (td.einsum("ijk,i,k->j", *args[:2], args[3]), td.einsum("ijk,j,k->i", args[0], *args[2:]))
    assert products_of(build_program(args, apart)) == 6**3 + 2 * 6**2
    alone = build_program(args, (apart[0], td.einsum("ijk,i,j->k", args[0], args[2], args[1])))
    assert products_of(alone) == 2 * (6**3 + 6**2)


@pytest.mark.parametrize("size", [2, 5])
def test_a_shared_product_is_exact(size):
    args, gradients = three_ways(size, size, size)
    values = [np.arange(np.prod(arg.shape, dtype=int)).reshape(arg.shape) % 7 - 3.0 for arg in args]
    by_b, by_c = td.lambdify(args, gradients, "numpy")(*values)
    T, a, b, c = values
    box = range(size)
    assert by_b.tolist() == [sum(T[i, j, k] * a[i] * c[k] for i in box for k in box) for j in box]
    assert by_c.tolist() == [sum(T[i, j, k] * a[i] * b[j] for i in box for j in box) for k in box]


@every("from_left", [True, False])
@every("length", [2, 5, 9, 30])
def test_matrices_are_not_multiplied_with_each_other(length, from_left):
    matrices, vector = chain(length), td.TensorSymbol("v", 10)
    program = build_program([*matrices, vector], nested(matrices, vector, from_left))
    assert totals(program) == 100 * length
    assert all(isinstance(step, Contraction) for step in program.kernels)


def test_a_jacobian_chain_runs_where_it_is_small():
    """Wide in the middle: neither forward nor reverse mode is the cheapest order."""
    sizes = [50, 3, 60, 2, 40]
    matrices = [td.TensorSymbol(f"J{k}", (a, b)) for k, (a, b) in enumerate(itertools.pairwise(sizes))]
    whole = matrices[0]
    for matrix in matrices[1:]:
        whole = td.einsum("ij,jk->ik", whole, matrix)
    program = build_program(matrices, whole)
    forward = 50 * 3 * 60 + 50 * 60 * 2 + 50 * 2 * 40
    best = 3 * 60 * 2 + 50 * 3 * 2 + 50 * 2 * 40
    assert totals(program) == best < forward


def test_layers_with_diagonals():
    """W2 diag(tanh'(h)) W1 v: four products with a vector or a diagonal."""
    W2, W1 = td.TensorSymbol("W2", (7, 8)), td.TensorSymbol("W1", (8, 9))
    h, v = td.TensorSymbol("h", 8), td.TensorSymbol("v", 9)
    slope = td.TensorAdd(1, td.TensorMul(-1, td.TensorPow(td.tanh(h), 2)))
    jacobian = td.einsum("ij,j,jk->ik", W2, slope, W1)
    program = build_program([W2, W1, h, v], td.einsum("ij,j->i", jacobian, v))
    assert products_of(program) == 7 * 8 + 8 * 9


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
    assert program.kernels[0] == Contraction("t", (0, 2), Operand("A", (0, 1)), Operand("B", (1, 2)))


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


def test_what_is_used_twice_is_computed_once():
    ab = td.einsum("ij,jk->ik", A, B)
    program = build_program([A, B], (td.sum(td.exp(ab)), td.einsum("ij,ik->jk", ab, ab)))
    assert sum(isinstance(step, Contraction) for step in program.kernels) == 2
    assert Counter(f for f in _calls(program))["exp"] == 1


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


def all_paths(operands):
    """Every order of products of two, by brute force; each product has the next number."""
    if len(operands) == 1:
        yield []
        return
    for a, b in itertools.combinations(operands, 2):
        new = max(operands) + 1
        rest = [number for number in operands if number not in (a, b)] + [new]
        for tail in all_paths(rest):
            yield [(a, b), *tail]


@every("seed", range(10))
def test_few_operands_in_an_order_of_little_work(seed):
    """The best one, or nearly."""
    rng = np.random.default_rng(seed)
    sizes = {label: int(rng.integers(2, 9)) for label in range(5)}
    while True:
        inputs = [frozenset(map(int, rng.choice(5, rng.integers(1, 4), replace=False))) for _ in range(5)]
        held = Counter(label for labels in inputs for label in labels)
        output = frozenset(label for label in held if held[label] == 1 or rng.random() < 0.3)
        if max(held.values()) > 1:
            break
    found = operation_count(inputs, output, sizes, contraction_path(inputs, output, sizes))
    best = min(operation_count(inputs, output, sizes, path) for path in all_paths(list(range(5))))
    assert best <= found <= 1.1 * best


def test_many_operands():
    """A star, a ring and parts that nothing connects: every operand is used once."""
    star = [frozenset((0, number)) for number in range(1, 40)]
    ring = [frozenset((number, (number + 1) % 15)) for number in range(15)]
    apart = [frozenset((number // 2,)) for number in range(24)]
    for inputs in (star, ring, apart):
        labels = frozenset().union(*inputs)
        path = contraction_path(inputs, frozenset((0,)), dict.fromkeys(labels, 3))
        used = [number for step in path for number in step]
        assert sorted(used) == list(range(2 * len(inputs) - 2))


def test_an_order_for_ten_thousand_operands():
    inputs = [frozenset((number, number + 1)) for number in range(10_000)] + [frozenset((10_000,))]
    sizes = dict.fromkeys(range(10_001), 100)
    path = contraction_path(inputs, frozenset((0,)), sizes)
    assert operation_count(inputs, frozenset((0,)), sizes, path) == 100**2 * 10_000


# ---------------------------------------------------------------------------- what becomes an array


def _calls(program):
    return [
        node.function
        for kernel in program.nests
        for node in scalars(kernel.body)
        if hasattr(node, "function") and isinstance(node.function, str)
    ]


def _temporaries(args, expr):
    return [(array.name, len(array.shape)) for array in build_program(args, expr).temporaries]


def test_entry_by_entry_operations_need_no_arrays():
    expr = td.exp(td.TensorAdd(td.TensorMul(2, A), td.sin(A), 1))
    assert _temporaries([A], expr) == []


def test_factors_and_transposes_of_library_results_need_no_arrays():
    square = td.TensorSymbol("S", (n, n))
    turned, ab = td.einsum("ij->ji", A), td.einsum("ij,jk->ik", A, B)
    exprs = [
        td.TensorMul(2, td.einsum("ij,j->i", A, y)), td.TensorMul(sympy.Rational(-1, 3), td.einsum("ij->ji", ab)),
        td.TensorMul(-1, td.einsum("ij,jk->ik", td.inv(square), A)), td.einsum("ij->ji", td.inv(square)),
        td.TensorMul(-0.5, td.inv(square)), td.adj(square), td.TensorMul(3, td.adj(square)),
        td.TensorMul(2, td.einsum("ij->ji", td.jvp(td.adj(square), square, square))),
    ]  # fmt: skip
    for expr in exprs:
        assert _temporaries([A, B, y, square], expr) == []
    # What the result is a multiple of is an array where something else needs it.
    assert _temporaries([A, B], (td.TensorMul(2, ab), td.sum(td.exp(ab)))) == [("t", 2)]
    assert _temporaries([A, B], (ab, td.TensorMul(2, ab))) == []
    # A residual is multiplied by the scalar of a mean as it is computed: its two arrays, and none for the result.
    loss = td.mean(td.TensorPow(td.TensorAdd(td.einsum("ij,j->i", A, y), td.TensorMul(-1, x)), 2))
    assert _temporaries([A, x, y], td.gradient(loss, y)) == [("t", 1), ("t0", 1)]
    lam = sympy.Symbol("lam", real=True)
    assert _temporaries([A, x, y, lam], td.TensorMul(lam, turned @ td.exp(x))) == [("t", 1)]


def test_the_plan_shows_factors_and_transposes():
    square = td.TensorSymbol("S", (n, n))
    results = (td.TensorMul(-2, td.einsum("ij,j->i", A, y)), td.TensorMul(-1, td.adj(square)), td.inv(square))
    plan = td.lambdify([A, y, square], results, "numpy").plan
    assert "fill result0[i] = -2*sum of A[i, j]*y[j]: n*m products" in plan
    assert "fill result1 = -cofactor(S, 1), its axes in the order (1, 0)" in plan
    assert plan.endswith("fill result2 = inv(S)")


def test_a_function_is_not_computed_again_for_every_entry():
    """exp(x) and exp(y) once each, the outer product from arrays; so the factor of a tensor."""
    assert _temporaries([x, y], td.einsum("i,j->ij", td.exp(x), td.exp(y))) == [("t", 1), ("t0", 1)]
    assert _temporaries([x, y], td.einsum("i,j->ij", x, td.TensorMul(2, y))) == []
    assert _temporaries([A, x], td.TensorMul(td.exp(td.sum(A)), x)) == [("t", 0), ("t0", 0)]


def test_two_users_share_what_is_dear():
    dear, cheap = td.exp(A), td.TensorAdd(A, 1)
    users = (td.sum(td.sin(dear)), td.sum(td.cos(dear), axis=0))
    assert _temporaries([A], users) == [("t", 2)]
    assert _temporaries([A], (td.sum(td.sin(cheap)), td.sum(td.cos(cheap), axis=0))) == []


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
    return assemble(
        graph, roots, arguments, {}, names, frozenset(), structure="." if len(roots) == 1 else f"({'.' * len(roots)})"
    )


def test_a_deep_chain_of_functions_has_bounded_kernels():
    graph = Graph()
    a = graph.tensor("A", (Affine.of(2), Affine.of(3)))
    node = a
    for number in range(1200):  # more kernels than Python may recurse
        node = graph.call((sympy.sin, sympy.cos)[number % 2], (node,))
    program = program_of(graph, [node], [a])
    assert max(sum(1 for _ in scalars(kernel.body)) for kernel in program.nests) < 2 * LARGE
    assert Counter(_calls(program)) == {"sin": 600, "cos": 600}


def test_a_deep_chain_of_layers():
    graph = Graph()
    w, v = graph.tensor("W", (Affine.of(3), Affine.of(3))), graph.tensor("v", (Affine.of(3),))
    node = v
    for _ in range(500):
        node = graph.call(sympy.tanh, (graph.ein(1, [(w, "ij"), (node, "j")], "i"),))
    program = program_of(graph, [node], [w, v])
    assert len(program.kernels) == 1000
    assert totals(program) == 9 * 500


def test_a_deep_chain_of_products_is_one_einsum():
    graph = Graph()
    w, v = graph.tensor("W", (Affine.of(3), Affine.of(3))), graph.tensor("v", (Affine.of(3),))
    node = w
    for _ in range(2000):
        node = graph.ein(1, [(node, "ij"), (w, "jk")], "ik")
    node = graph.ein(1, [(node, "ij"), (v, "j")], "i")
    assert totals(program_of(graph, [node], [w, v])) == 9 * 2001


def test_forty_levels_of_sharing():
    graph = Graph()
    a = graph.tensor("A", (Affine.of(2),))
    node = a
    for _ in range(40):
        node = graph.add((graph.mul((graph.call(sympy.sin, (node,)), graph.call(sympy.cos, (node,)))), node))
    program = program_of(graph, [node], [a])
    assert Counter(_calls(program))["sin"] <= 3 * 40


# ---------------------------------------------------------------------------- laws


N, M = Affine.variable("N"), Affine.variable("M")
ARRAYS = (Argument("array", "A", "A", (N, M)), Argument("array", "x", "x", (M,)), Argument("array", "S", "S", (N, N)))
PRODUCT = Contraction("r", (0,), Operand("A", (0, 1)), Operand("x", (1,)))
SOLUTION = Solve("r", (0, 2), Operand("S", (0, 1)), Operand("A", (1, 2)))
TANGENT = CofactorTangent("r", (0, 1), Operand("S", (0, 1)), Operand("S", (1, 0)))


def one_step(step, *shape):
    return Program(ARRAYS, (Array("r", shape),), (), (step,))


BROKEN = {
    "Contraction r: z is read before it is written": one_step(replace(PRODUCT, left=Operand("z", (0, 1))), N),
    "1 labels for the axes of A": one_step(replace(PRODUCT, left=Operand("A", (0,))), N),
    "a label has the extents N and M": one_step(replace(PRODUCT, left=Operand("A", (1, 0))), N),
    r"the labels \(0, 0\) are no output of": one_step(replace(PRODUCT, output=(0, 0)), N, N),
    r"the labels \(1,\) are no output of": one_step(replace(PRODUCT, output=(1,)), M),
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
    r"\(0, 0\) is no order of 2 axes": one_step(Apply("r", "inv", "S", axes=(0, 0)), N, N),
    "r is an argument or has been written before": replace(one_step(PRODUCT, N), kernels=(PRODUCT, PRODUCT)),
}


@every("message", [*BROKEN])
def test_laws_of_library_calls(message):
    with pytest.raises(VerificationError, match=message):
        verify(BROKEN[message])


def test_lawful_library_calls():
    for step, shape in [
        (PRODUCT, (N,)), (SOLUTION, (N, M)), (Apply("r", "cofactor", "S", (2,)), (N,) * 4),
        (Apply("r", "det", "S"), ()),
        (TANGENT, (N, N)), (Apply("r", "inv", "S", axes=(1, 0), factor=-1), (N, N)),
    ]:  # fmt: skip
        verify(one_step(step, *shape))


def test_the_order_of_many_scalars_is_found_at_once():
    """All orders cost the same; trying them all takes minutes."""
    inputs = [frozenset[int]()] * 9 + [frozenset({0})]
    path = contraction_path(inputs, frozenset({0}), {0: 100})
    assert operation_count(inputs, frozenset({0}), {0: 100}, path) == 108
