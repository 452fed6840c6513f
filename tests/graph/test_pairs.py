"""Products with sums of matrices and outer products: no matrix of the sum if the products are computed in any case."""

import numpy as np
import pytest
import sympy
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import ContractionStep
from sympy_tensordiff.codegen.program import build_program

n, c = td.indices("n c")
A, P, u, v = (td.TensorSymbol(name, shape) for name, shape in (("A", (n, n)), ("P", (n, c)), ("u", n), ("v", n)))
outer = td.einsum("i,j->ij", u, v)
FUNCTIONS = {
    "an outer product": A - outer,
    "with a number": A - outer / 3,
    "with a scalar": A - outer / (1 + td.sum(u)),
    "of products": A - td.einsum("i,j->ij", A @ u, A @ v) / td.sum(u),
}


def squares(program):
    """Return the arrays with two axes of length n that a program stores besides its results."""
    return [a.name for a in program.temporaries if [str(extent) for extent in a.shape] == ["n", "n"]]


@every("name", [*FUNCTIONS], turns=8)
def test_a_form_of_a_matrix_minus_an_outer_product_stores_no_square_matrix(name):
    matrix = FUNCTIONS[name]
    value = td.trace(P.T @ matrix @ P)
    assert not squares(build_program([A, P, u, v], value))
    results = value, td.gradient(value, P)
    random = np.random.default_rng(0)
    arrays = [random.normal(size=size) for size in ((5, 5), (5, 2), 5, 5)]
    found = td.lambdify([A, P, u, v], results)(*arrays)
    square = td.evaluate(matrix, dict(zip((A, P, u, v), arrays, strict=True)))
    points = arrays[1]
    np.testing.assert_allclose(found[0], np.trace(points.T @ square @ points), rtol=1e-12)
    np.testing.assert_allclose(found[1], (square + square.T) @ points, rtol=1e-12)


def test_products_that_the_value_computes_serve_its_gradient():
    """``A.T @ P`` is part of the form: multiplying the matrix of the gradient out costs one product, ``A @ P``."""
    value = td.trace(P.T @ FUNCTIONS["of products"] @ P)
    program = build_program([A, P, u, v], (value, td.gradient(value, P)))
    assert not squares(program)


@pytest.mark.in_turns(4)
def test_columns_are_vectors():
    """The products of native matrices, ``d d.T`` with a column ``d``, sum an axis of extent 1."""
    M, Z, one = (sympy.MatrixSymbol(name, n, width) for name, width in (("M", n), ("Z", c), ("one", 1)))
    degrees = M * one
    value = sympy.Trace(Z.T * (M - degrees * degrees.T / (one.T * M * one)[0, 0]) * Z)
    program = build_program([M, Z, one], (value, td.gradient(value, Z)))
    assert not squares(program)


H, L = td.TensorSymbol("H", (n, n)), td.TensorSymbol("L", (n, n))
K = (1 + P @ P.T) ** 2
CONTAINED = {
    "trace of four matrices": (td.trace(K @ H @ L @ H), L, 3),
    "with a symmetric factor": (td.trace(K @ H @ td.tanh(A @ A.T) @ H), P, 5),
    "two traces": (td.trace(A @ H @ L @ H) + td.trace(L @ A @ H @ A.T), L, 4),
}


@every("name", [*CONTAINED], turns=4)
def test_values_read_the_products_of_their_gradients(name):
    """The value takes one more sum than the gradient: that of a product of arrays. Each of `count` products is needed
    for the gradient, or for the other one of two values.
    """
    value, by, count = CONTAINED[name]
    arguments = [A, P, H, L]
    slope = td.gradient(value, by)
    program = build_program(arguments, (value, slope))
    products = [step for step in program.kernels if isinstance(step, ContractionStep)]
    assert len([step for step in products if step.output]) <= count
    random = np.random.default_rng(0)
    arrays = [random.normal(size=size) for size in ((4, 4), (4, 2), (4, 4), (4, 4))]
    values = dict(zip(arguments, arrays, strict=True))
    found = td.lambdify(arguments, (value, slope))(*arrays)
    np.testing.assert_allclose(found[0], td.evaluate(value, values), rtol=1e-10)
    np.testing.assert_allclose(found[1], td.evaluate(slope, values), rtol=1e-10)


B, C, D = (td.TensorSymbol(name, (n, n)) for name in "BCD")


@pytest.mark.parametrize(
    "value",
    [
        td.tanh((A @ B + C) @ u) + td.sin((A @ B + D) @ v),
        td.tanh((A @ B + C) @ u) + td.sin(((A @ B).T / 2 + D) @ v) + (C - A @ B) @ u,
        td.sum(A @ B + C) * td.sum(D - (A @ B).T),
    ],
)
def test_a_product_in_several_sums_is_not_computed_if_all_of_them_multiply_vectors(value):
    assert not squares(build_program([A, B, C, D, u, v], value))
    assert sympy.degree(td.cost(value).operations, n) == 2
    arrays = dict(zip((A, B, C, D, u, v), np.random.default_rng(0).normal(size=(6, 4, 4)), strict=True))
    arrays |= {u: arrays[u][0], v: arrays[v][0]}
    product = td.TensorSymbol("product", (n, n))
    expected = td.evaluate(value.xreplace({A @ B: product}), {**arrays, product: arrays[A] @ arrays[B]})
    np.testing.assert_allclose(td.lambdify([*arrays], value)(*arrays.values()), expected, rtol=1e-12)


def test_a_product_that_one_of_its_sums_needs_as_a_matrix_is_computed_once():
    value = td.sum(td.tanh(A @ B + C)) + td.dot(u, (A @ B + D) @ v)
    assert sympy.Poly(td.cost(value).operations, n).LC() == 2
    assert len(squares(build_program([A, B, C, D, u, v], value))) <= 2


def test_the_trace_of_a_hessian_multiplies_each_weight_once():
    """It is a sum of traces of congruences ``P.T @ diag(c) @ P``, as the Hessian is one of these."""
    q, w, first, second = td.TensorSymbol("q", c), u, td.TensorSymbol("first", (n, c)), A
    network = td.dot(w, td.tanh(B @ td.tanh(second @ td.tanh(first @ q))))
    for derivative in (td.hessian(network, q), td.trace(td.hessian(network, q))):
        assert td.cost(derivative).operations.coeff(c * n**2) == 4


def test_products_of_a_chain_read_each_other():
    """Each of three results takes one more product, although the best order for the longest begins at its other end."""
    chain = C @ D @ A, B @ C @ D @ A, A @ B @ C @ D @ A
    program = build_program([A, B, C, D], chain)
    assert len([step for step in program.kernels if isinstance(step, ContractionStep)]) == 4
    a, b, c, d = arrays = np.random.default_rng(0).normal(size=(4, 3, 3))
    for found, expected in zip(
        td.lambdify([A, B, C, D], chain)(*arrays), (c @ d @ a, b @ c @ d @ a, a @ b @ c @ d @ a), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("has_square", [False, True])
def test_a_shared_product_is_no_larger_than_the_other_tensors(has_square):
    """``W @ W.T`` serves both products with it; of a flat ``W`` it is larger than all inputs and results."""
    b, k = td.indices("b k")
    W, P, Q = td.TensorSymbol("W", (n, k)), td.TensorSymbol("P", (b, n)), td.TensorSymbol("Q", (b, n))
    results = [P @ W @ W.T, Q @ W @ W.T, *([td.tanh(td.TensorSymbol("S", (n, n)))] if has_square else [])]
    operations = sympy.Poly(td.cost(results).operations, n, b, k)
    assert operations.coeff_monomial(n**2 * k) == (2 if has_square else 0)
    assert operations.coeff_monomial(b * n * k) == (0 if has_square else 8)


def test_of_equal_orders_one_without_a_larger_array_is_chosen():
    """The function stores an array (c, c); its gradient can be computed with another one, and with one of (n, n)."""
    T, S, Y = td.TensorSymbol("T", (c, n)), td.TensorSymbol("S", (n, c)), td.TensorSymbol("Y", (c, n))
    value = td.sum(Y * td.relu(T @ S @ (T / td.norm(T))))
    gradient = td.gradient(value, T)
    assert not squares(build_program([T, S, Y], value))
    assert not squares(build_program([T, S, Y], gradient))
    t, s, y = (np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(((3, 5), (5, 3), (3, 5))))
    expected, step = np.empty_like(t), 1e-5
    for place in np.ndindex(t.shape):
        ends = (
            t + sign * step * np.eye(t.size)[np.ravel_multi_index(place, t.shape)].reshape(t.shape) for sign in (1, -1)
        )
        upper, lower = (np.sum(y * np.maximum(0, end @ s @ end / np.linalg.norm(end))) for end in ends)
        expected[place] = (upper - lower) / (2 * step)
    np.testing.assert_allclose(td.lambdify([T, S, Y], gradient)(t, s, y), expected, rtol=1e-6, atol=1e-8)


def test_a_multiple_of_a_chain_is_multiplied_out_as_the_chain_is():
    """The chain ``T @ K @ S`` serves the value and the gradient: vectors are multiplied by its matrices one by one."""
    T, K, S = td.TensorSymbol("T", (n, c)), td.TensorSymbol("K", (c, c)), td.TensorSymbol("S", (c, n))
    y, z = td.TensorSymbol("y", n), td.TensorSymbol("z", c)
    value = td.norm(td.outer(y, (T / td.norm(T)) @ (K @ S) @ (T @ z)))
    gradient = td.gradient(value, z)
    operations = sympy.Poly(td.cost(gradient).operations, n, c)
    assert operations.total_degree() == 2
    assert not squares(build_program([T, K, S, y, z], gradient))
    random = np.random.default_rng(0)
    t, k, s, b, a = (random.normal(size=shape) for shape in ((5, 3), (3, 3), (3, 5), 5, 3))
    chain = t / np.linalg.norm(t) @ k @ s @ t
    expected = np.linalg.norm(b) * chain.T @ chain @ a / np.linalg.norm(chain @ a)
    np.testing.assert_allclose(td.lambdify([T, K, S, y, z], gradient)(t, k, s, b, a), expected, rtol=1e-12)
