"""Cofactors of order 2 in a direction: values at regular and singular matrices, and no array of n**4 entries."""

from __future__ import annotations

import numpy as np
import pytest
from every import every
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Apply, CofactorTangent
from sympy_tensordiff.codegen.ir.walk import array_shapes
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference.interpreter import evaluate

n = td.indices("n")
X, V, C = (td.TensorSymbol(name, (n, n)) for name in "XVC")
v, w = td.TensorSymbol("v", n), td.TensorSymbol("w", n)
cof = td.TensorCofactor(2, X)
adj = td.adj(X)
CASES = {
    "vjp of adj": td.vjp(adj, X, C),
    "jvp of adj": td.jvp(adj, X, V),
    "hvp of det": td.hvp(td.det(X), X, V),
    "of its square": td.hvp(td.det(X) ** 2, X, V),
    "ijab,ab->ij": td.einsum("ijab,ab->ij", cof, V),
    "ijab,ba->ij": td.einsum("ijab,ba->ij", cof, V),
    "ijab,ab->ji": td.einsum("ijab,ab->ji", cof, V),
    "ijab,ij->ba": td.einsum("ijab,ij->ba", cof, V),
    "with a coefficient": td.einsum(",ijab,ba->ij", -3, cof, V),
    "in a sum": td.TensorAdd(td.einsum("ijab,ab->ij", cof, td.TensorMul(2, V)), td.einsum("ij->ji", C)),
    "both pairs": td.einsum("ijab,ab,ij->", cof, V, C),
    "a product": td.einsum("ijab,ac,cb->ij", cof, V, C),
    "multiplied": td.einsum("ijab,ab,jk->ik", cof, V, C),
    "entry by entry": td.einsum("ijab,ab,ij->ij", cof, V, C),
    "a diagonal": td.einsum("iiab,ab->i", cof, V),
    "an outer product": td.einsum("ijab,a,b->ij", cof, v, w),
    "rows": td.einsum("ijab,a->ij", cof, v),
    "sums": td.gradient(td.sum(adj), X),
    "a trace": td.gradient(td.trace(adj), X),
    "a diagonal matrix": td.einsum("ijaa,a->ij", cof, v),
    "at a transpose": td.einsum("ijab,ba->ij", td.TensorCofactor(2, td.einsum("ij->ji", X)), V),
    "at a product": td.jvp(td.adj(td.einsum("ij,kj->ik", X, C)), X, V),
    "in its own direction": td.einsum("ijab,ab->ij", cof, X),
    "of its cofactors": td.einsum("ijab,ba->ij", cof, adj),
    "of a function": td.einsum("ijab,ab->ij", cof, td.TensorPow(V, 2)),
    "of ones": td.einsum("ijab,ab->ij", cof, td.ones((n, n))),
    "of the unit matrix": td.einsum("ijab,ab->ij", cof, td.DeltaTensor((n,))),
}  # fmt: skip
SYMBOLS = [X, V, C, v, w]
RANKS = [(size, rank) for size in range(1, 5) for rank in {size, size - 1, size - 2, size - 3, 0} if rank >= 0]


def given(size, rank, seed=0):
    """Integers, X of that rank."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(-3, 4, (size, rank)), rng.integers(-3, 4, (rank, size))
    left[:rank] += 5 * np.eye(rank, dtype=int)
    right[:, :rank] += 5 * np.eye(rank, dtype=int)
    square = [rng.integers(-3, 4, (size, size)) for _ in "VC"]
    return [left @ right, *square, rng.integers(1, 5, size), rng.integers(1, 5, size)]


def arguments_of(expr):
    return [symbol for symbol in SYMBOLS if expr.has(symbol)]


def check(function, expr, size, rank):
    arrays = dict(zip(SYMBOLS, given(size, rank), strict=True))
    arguments = arguments_of(expr)
    wanted = np.asarray(evaluate(expr, {symbol: arrays[symbol] for symbol in arguments})).astype(float)
    found = function(*(arrays[symbol].astype(float) for symbol in arguments))
    scale = max(1.0, abs(wanted).max(), float(abs(arrays[X]).max()) ** max(0, size - 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * scale)


@every("name", [*CASES], turns=8)
def test_values(name):
    """Against the exact oracle, at regular matrices and at singular ones of every rank."""
    expr = CASES[name]
    function = td.lambdify(arguments_of(expr), expr, "numpy")
    for size, rank in RANKS:
        check(function, expr, size, rank)


@every("name", [*CASES])
def test_no_array_has_four_axes(name):
    expr = CASES[name]
    program = build_program(arguments_of(expr), expr)
    assert max(len(shape) for shape in array_shapes(program).values()) <= 2
    assert sum(isinstance(step, CofactorTangent) for step in program.kernels) == 1
    assert count(program, {"n": 50}).iterations <= 10 * 50**3


def test_what_is_no_direction_needs_the_whole_tensor():
    """An index of each pair, or a tensor that has an index of the other pair or of the result, too."""
    for expr in (
        td.einsum("ijab,ja->ib", cof, V),
        td.einsum("ijab,ab,ia->ij", cof, V, C),
        td.einsum("ijab,ab->ija", cof, V),
        td.einsum("ijaj->ia", cof),
    ):
        program = build_program(arguments_of(expr), expr)
        assert any(isinstance(step, Apply) and step.options == (2,) for step in program.kernels)
        check(td.lambdify(arguments_of(expr), expr, "numpy"), expr, 3, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled(dtype):
    arrays = [array.astype(dtype) for array in given(4, 3)]
    for name in ("vjp of adj", "at a product"):
        expr = CASES[name]
        values = [array for symbol, array in zip(SYMBOLS, arrays, strict=True) if expr.has(symbol)]
        found = td.lambdify(arguments_of(expr), expr, "numba")(*values)
        assert found.dtype == dtype
        wanted = td.lambdify(arguments_of(expr), expr, "numpy")(*(value.astype(float) for value in values))
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4 * abs(wanted).max())


def test_the_plan_names_the_direction():
    plan = td.lambdify([X, V], CASES["ijab,ba->ij"], "numpy").plan
    assert "fill result[i, j] = cofactors of X[i, j] in the direction V[j, i]: 5*n*n*n products" in plan


def test_not_a_number_stays_one():
    function = td.lambdify([X, V], CASES["hvp of det"], "numpy")
    for bad in (np.nan, np.inf):
        broken = np.eye(3)
        broken[0, 1] = bad
        assert np.isnan(function(broken, np.eye(3))).all()
        assert np.isnan(function(np.eye(3), broken)).all()


def test_cuda_has_none():
    with pytest.raises(UnsupportedError, match="a cofactor cannot be computed without a library for matrices"):
        td.generate_code([X, V], CASES["hvp of det"], "cuda")
