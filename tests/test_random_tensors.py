"""Random programs of whole tensors against the oracle: values of derivatives, exactly where they are rational."""

from __future__ import annotations

import numpy as np
import pytest
from exact_checks import assert_derivative_exact, assert_kernel_exact, assert_second_exact
from fuzz import random_tensors
from fuzz.costs import assert_within_law
from fuzz.equality import assert_equal

import sympy_tensordiff as td
from sympy_tensordiff import IndexedSum, TensorComprehension, einsum
from sympy_tensordiff.reference import derivative, differentiate, evaluate
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import concrete_shape, shape_of

# Tensors of many axes, which the oracle's loops take half of the time of all seeds for, and which found nothing.
HEAVY = {21, 106, 107, 209, 305, 415, 417}
"""Seeds that take a second or two each."""
LARGE = {11, 25, 31, 103, 104, 110, 114, 115, 116, 118, 203, 206, 215, 507}


def programs(seeds):
    """Seeds as parameters, the heavy ones with ``--thorough`` only."""
    return [pytest.param(n, marks=pytest.mark.thorough if n in HEAVY else ()) for n in seeds if n not in LARGE]


def test_random_programs_are_reproducible_and_various():
    functions = [random_tensors(seed, depth=4, kinks=True).function for seed in range(40)]
    assert functions[:5] == [random_tensors(seed, depth=4, kinks=True).function for seed in range(5)]
    assert len(set(functions)) > 35
    functions += [random_tensors(seed, kind="smooth").function for seed in range(40)]
    kinds = {type(node).__name__ for node in nodes_in(functions)}
    whole = {name for name in td.__all__ if name.startswith("Tensor")} - {"TensorCofactor"}
    assert kinds >= whole | {"EinsumProduct", "DeltaTensor", "FilledTensor", "IndexedSum", "Symbol"}


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", [seed for seed in range(10) if seed not in LARGE])
def test_values_have_the_inferred_shape(seed):
    random = random_tensors(seed, depth=4, kinks=True, kind="smooth" if seed % 3 == 0 else "rational")
    values = random_values((random.function, *random.variables), random.sizes, seed)
    assert np.shape(evaluate(random.function, values)) == concrete_shape(random.function, values)


def check_pushforward(random, wrt, seed):
    """The pushforward is the transpose of the Jacobian."""
    tangent = TensorSymbol("tangent", shape_of(wrt))
    values = random_values((random.function, *random.variables, tangent), random.sizes, seed)
    slopes = differentiate(random.function, wrt, values)
    along = np.tensordot(slopes, np.array(values[tangent], dtype=object), len(shape_of(wrt)))
    assert_equal(evaluate(td.jvp(random.function, wrt, tangent), values), along, f"jvp by {wrt}")


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", programs(range(12, 24)))
def test_rational_programs(seed):
    random = random_tensors(seed)
    for wrt in random.variables:
        assert_derivative_exact(random.function, wrt, random.sizes, seed, backends=())
        check_pushforward(random, wrt, seed)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", programs(range(100, 110)))
def test_deep_programs(seed):
    random = random_tensors(seed, rank=seed % 3, depth=5)
    for wrt in random.variables:
        assert_derivative_exact(random.function, wrt, random.sizes, seed, backends=())


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", programs(range(200, 210)))
def test_smooth_programs(seed):
    random = random_tensors(seed, rank=seed % 3, kind="smooth")
    for wrt in random.variables:
        assert_derivative_exact(random.function, wrt, random.sizes, seed, low=-1, high=1, backends=())
        check_pushforward(random, wrt, seed)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", programs(range(300, 308)))
def test_programs_with_kinks(seed):
    random = random_tensors(seed, kinks=True)
    for wrt in random.variables:
        assert_derivative_exact(random.function, wrt, random.sizes, seed, backends=())


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", programs(range(414, 419)))
def test_second_derivatives(seed):
    random = random_tensors(seed, rank=seed % 2, kind="smooth" if seed % 4 == 0 else "rational")
    for wrt, second in zip(random.variables, random.variables[1:] + random.variables[:1], strict=True):
        for other in (wrt, second):
            assert_second_exact(random.function, wrt, random.sizes, seed, second=other, backends=())


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", programs(range(503, 510)))
def test_several_variables_at_once(seed):
    random = random_tensors(seed, rank=seed % 2, depth=4)
    check_together(random, seed)


def check_together(random, seed):
    """One pullback to all variables, and the blocks of the Hessian."""
    function, variables = random.function, tuple(random.variables)
    cotangent = TensorSymbol("cotangent", shape_of(function))
    values = random_values((function, *variables, cotangent), random.sizes, seed)
    weights = np.array(values[cotangent], dtype=object)
    pullbacks = td.vjp(function, variables, cotangent)
    assert_within_law(function, variables, pullbacks)
    for wrt, got in zip(variables, pullbacks, strict=True):
        expected = np.tensordot(weights, differentiate(function, wrt, values), weights.ndim)
        assert_equal(evaluate(got, values), expected, f"vjp by {wrt}")
    if shape_of(function) or len(variables) > 3:
        return
    for wrt, row in zip(variables, td.hessian(function, variables), strict=True):
        for second, block in zip(variables, row, strict=True):
            expected = derivative(function, (wrt, second), values)
            assert_equal(evaluate(block, values), expected, f"hessian by {wrt} and {second}")


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", range(600, 608))
def test_kernels_of_random_programs(seed):
    random = random_tensors(seed, rank=seed % 3, kind="smooth" if seed % 2 else "rational")
    assert_kernel_exact(random.function, random.variables, random.sizes, seed, low=-1, high=1, rtol=1e-7)


u, v, Q = TensorSymbol("u", 3), TensorSymbol("v", 4), TensorSymbol("Q", (4, 4))
BROADCAST = einsum("bb,a->ab", Q**2, td.ones(3))
# Found by longer runs: kernels of single entries, and of tensors that repeat others.
FOUND = {
    "entry of a sum": (u + u**2)[0],
    "entry of an outer product": td.outer(v**3, td.diag(Q))[1, 3],
    "entry of a diagonal": td.diag(Q)[1],
    "broadcast in a sum": einsum("ab,ab->", 3 - BROADCAST, 3 - BROADCAST),
}
i, j, k = td.indices("i j k")
# Programs of which the cotangents, which are given entry by entry, are inside of products.
TWICE = TensorComprehension(IndexedSum(IndexedSum(Q[i, k], (k, 0, 3)), (j, 0, 2)), (i, 4))
SPARSE = {
    "entry of a sum in a sum": (TWICE**2)[1],
    "entry of a repeated column": (TensorComprehension(Q[i, 0], (i, 4), (j, 3)) ** 2)[1, 2],
    "entry of a sum of rows": (TensorComprehension(IndexedSum(Q[i, k], (k, 0, 3)), (i, 4), (j, 3)) ** 2)[1, 2],
}


@pytest.mark.parametrize("name", SPARSE)
def test_entries_of_tables(name):
    assert_derivative_exact(SPARSE[name], Q)
    assert_second_exact(SPARSE[name], Q)


@pytest.mark.parametrize("name", FOUND)
def test_what_longer_runs_found(name):
    variables = [w for w in (u, v, Q) if w in FOUND[name].free_symbols]
    assert_kernel_exact(FOUND[name], variables)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", [5103, 5152, 5426])
def test_kernels_of_seeds_from_longer_runs(seed):
    random = random_tensors(
        seed,
        rank=(0, 1, 2, 0, 1, 3)[seed % 6],
        depth=3 + seed % 2,
        kind=("rational", "smooth")[seed % 2],
        symbolic=seed % 4 < 2,
    )
    assert_kernel_exact(random.function, random.variables, random.sizes, seed, low=-1, high=1, rtol=1e-7)
