"""Whole tensors: closed forms, the oracle's dual numbers and our derivatives agree.

The forms are in `cases_einsum`. Ours and the oracle's are compared exactly where they are rational.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest
from cases_einsum import DATA, FIGURES, PEERS, THESIS, A, B, Row, X, target, weights, x
from fuzz.equality import assert_equal
from sympy import Derivative, Function, Lambda, Symbol

import sympy_tensordiff as td
from sympy_tensordiff import TensorSymbol, einsum
from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.reference import derivative, evaluate
from sympy_tensordiff.testing import call_arguments, random_values, to_double

i, n = td.indices("i n")

ROWS: dict[str, Row] = {
    **{f"peers {number}": row for number, row in PEERS.items()},
    **{f"thesis {number}": row for number, row in THESIS.items()},
    **{f"figure {name}": row for name, row in FIGURES.items()},
}


def inputs(row: Row, seed: int = 0) -> dict[Any, Any]:
    values = random_values((row.build(), *row.wrt), seed=seed, low=row.low, high=row.high)
    for matrix in row.shifted:
        values[matrix] = values[matrix] + 6 * np.identity(len(values[matrix]), dtype=int)
    return values


def closed_form(row: Row, values: dict[Any, Any]) -> Any:
    arrays = {str(variable): to_double(value) for variable, value in values.items()}
    return np.asarray(row.expected(**{name: arrays[name] for name in signature(row.expected).parameters}))


def derived(row: Row) -> Any:
    result = row.build()
    for variable in row.wrt:
        result = td.jacobian(result, variable)
    return result


SCALARS = [f"peers {n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 14, 15, 17, 18, 19, 20, 23, 24, 35, 36, 41, 52)]


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", ROWS)
def test_derivatives_agree_with_the_closed_form_and_the_oracle(name):
    row = ROWS[name]
    values = inputs(row)
    function, result, exact = row.build(), derived(row), derivative(row.build(), row.wrt, values)
    assert_equal(to_double(exact), closed_form(row, values), f"oracle, {name}", 1e-10)
    assert_equal(evaluate(result, values), exact, name)
    if name in SCALARS:
        of_a_scalar = (td.gradient if len(row.wrt) == 1 else td.hessian)(function, row.wrt[0])
        assert_equal(evaluate(of_a_scalar, values), exact, f"of a scalar, {name}")
    check_pullback_and_pushforward(row, name)
    check_kernels("numpy", name)


def check_pullback_and_pushforward(row, name):
    function, variable = row.build(), row.wrt[0]
    values = inputs(row, seed=2)
    cotangent = TensorSymbol("cotangent", getattr(function, "shape", ()))
    tangent = TensorSymbol("tangent", getattr(variable, "shape", ()))
    values |= random_values((cotangent, tangent), seed=3)
    slopes = derivative(function, (variable,), values)
    rank = np.ndim(values[cotangent])
    back = np.tensordot(np.array(values[cotangent], dtype=object), slopes, rank)
    forth = np.tensordot(slopes, np.array(values[tangent], dtype=object), slopes.ndim - rank)
    assert_equal(evaluate(td.vjp(function, variable, cotangent), values), back, f"vjp, {name}")
    assert_equal(evaluate(td.jvp(function, variable, tangent), values), forth, f"jvp, {name}")


# Numba compiles for a second per function. These hold every construct inside of another one (which operator,
# call, condition, loop or read is in which) that no compiled kernel of the tests of `codegen` holds.
NUMBA = [*(f"peers {n}" for n in (6, 11, 15, 22, 34, 61)), "thesis 36", "thesis 39", "thesis 54", "figure 4.7"]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", [*NUMBA[::2], *(pytest.param(n, marks=pytest.mark.thorough) for n in NUMBA[1::2])])
def test_compiled_kernels_agree_with_the_closed_form(name):
    check_kernels("numba", name)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", [*NUMBA[1::2], *[n for n in ROWS if n not in NUMBA][::3]])
def test_kernels_run_as_python_agree_with_the_closed_form(name, simulator):
    simulator(check_kernels, "numba", name)


def check_kernels(backend, name):
    row = ROWS[name]
    values = inputs(row, seed=5)
    results = row.build(), derived(row)
    arguments, arrays = call_arguments((*results, *row.wrt), values)
    value, slope = td.lambdify(arguments, results, backend)(*arrays)
    assert_equal(value, to_double(evaluate(results[0], values)), f"value, {name}", 1e-10)
    assert_equal(slope, closed_form(row, values), name, 1e-10)


# ---------------------------------------------------------------- further cases of the peers


def test_71_names_of_labels_do_not_matter():
    assert td.canonical(einsum("ij,jk->ik", A, X)) == td.canonical(einsum("ab,bd->ad", A, X))
    first, other = td.jacobian(einsum("ij,jk->ik", A, X), A), td.jacobian(einsum("pq,qr->pr", A, X), A)
    assert td.canonical(first) == td.canonical(other)


@pytest.mark.parametrize(
    "build",
    [
        lambda: einsum("ij,jk->ik", B, B),
        lambda: einsum("ij,jk->ik", A, TensorSymbol("C", (n, 4))),
        lambda: x + TensorSymbol("z", 5),
        lambda: B * B.T,
        lambda: td.inv(B),
    ],
)
def test_72_and_76_sizes_that_differ_are_refused(build):
    with pytest.raises(ShapeError):
        build()


def deep_tanh(depth: int) -> Any:
    layer = x
    for _ in range(depth):
        layer = td.tanh(A @ layer)
    return td.sum(layer)


@pytest.mark.parametrize("depth", [3, 20])
def test_73_a_deep_chain_of_layers(depth):
    function = deep_tanh(depth)
    values = random_values((x, A), seed=5, low=-1, high=1)
    assert_equal(evaluate(td.gradient(function, x), values), derivative(function, (x,), values), "tanh")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_75_the_logistic_loss_at_large_margins(backend):
    values = inputs(PEERS[10])
    loss = PEERS[10].build()
    for expression in (loss, td.gradient(loss, weights)):
        kernel = td.lambdify((DATA, target, weights), expression, backend)
        for scale in (1000, -1000):
            far = {**values, weights: scale * values[weights]}
            got = kernel(*(to_double(far[argument]) for argument in (DATA, target, weights)))
            assert np.isfinite(got).all()
            assert_equal(got, to_double(evaluate(expression, far)), "large margins", 1e-9)


SINGULAR = {
    2: [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    1: [[1, 2, -3], [2, 4, -6], [-1, -2, 3]],
    0: np.zeros((3, 3), dtype=int),
}


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("rank", SINGULAR)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_77_det_and_adj_at_singular_matrices(rank, order):
    S = TensorSymbol("S", (3, 3))
    for function in (td.det(S), td.adj(S), td.trace(td.adj(S @ S)) + td.det(S.T @ S)):
        result = function
        for _ in range(order):
            result = td.jacobian(result, S)
        values = {S: SINGULAR[rank]}
        assert_equal(evaluate(result, values), derivative(function, (S,) * order, values), str(function))


def test_inverses_of_badly_scaled_matrices():
    values = {A: np.diag([10**-12, 1, 10**9, 10**3]).astype(object) + 1, x: [1, 2, 3, 4]}
    function = x @ td.inv(A) @ x
    for order in (1, 2):
        expected = derivative(function, (A,) * order, values)
        got = td.gradient(function, A) if order == 1 else td.hessian(function, A)
        assert_equal(evaluate(got, values), expected, f"order {order}")


def test_80_functions_of_the_user_keep_their_derivative():
    f, u = Function("f"), Symbol("u", real=True)
    function = td.sum(td.elementwise(f, B @ x))
    values = random_values((B, x), seed=7) | {f: Lambda(u, u**3 - u)}
    for order in (1, 2):
        result = td.gradient(function, x) if order == 1 else td.hessian(function, x)
        assert result.has(Derivative)
        assert_equal(evaluate(result, values), derivative(function, (x,) * order, values), f"order {order}")
