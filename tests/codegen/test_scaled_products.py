"""Numbers and scalar factors of products: they are multiplied into the values of the fewest loops."""

from __future__ import annotations

import numpy as np
import pytest
from cost_judge.generate import random_function
from cost_judge.judge import judge
from cost_judge.oracle import executed, figures

import sympy_tensordiff as td

N, M = td.indices("n m")
X, Y, Z = td.TensorSymbol("x", N), td.TensorSymbol("y", M), td.TensorSymbol("z", N)
SIZES = {"n": 48, "m": 40}
ENTRIES = SIZES["n"] * SIZES["m"]

ARRAYS = {name: np.random.default_rng(7).standard_normal((3, 5)[name == "y"]) for name in "xyz"}

OUTER = np.multiply.outer
CASES = {
    "a number": (3 * td.outer(X * td.exp(Z), Y), lambda x, y, z: 3 * OUTER(x * np.exp(z), y)),
    "a negative number": (-3 * td.outer(X * td.exp(Z), Y), lambda x, y, z: -3 * OUTER(x * np.exp(z), y)),
    "a scalar": (td.sum(X**2) * td.outer(X * Z, Y), lambda x, y, z: (x**2).sum() * OUTER(x * z, y)),
    "both": (5 * td.sum(X**2) * td.outer(Y, X * Z), lambda x, y, z: 5 * (x**2).sum() * OUTER(y, x * z)),
}


@pytest.mark.parametrize("name", CASES)
def test_factors_are_multiplied_into_a_vector(name):
    """One multiplication for each entry of an outer product, whatever numbers and scalars are multiplied with it."""
    expression, in_numpy = CASES[name]
    operations = figures(executed([X, Y, Z], expression), SIZES).operations
    assert operations <= ENTRIES + 8 * SIZES["n"] + 8
    for backend in ("numpy", "llvm"):
        value = td.lambdify([X, Y, Z], expression, backend)(**ARRAYS)
        np.testing.assert_allclose(value, in_numpy(**ARRAYS), rtol=1e-13)


def test_multiple_of_a_long_product_is_one_array():
    """Exponents ``2*outer(u, v)`` with long formulas for `u` and `v` are stored once, not with and without the 2."""
    u, v = (X**2 / 4 - X) * td.softmax(X, axis=0), Y / (td.softmax(Y, axis=0) ** 2 + 2)
    program = executed([X, Y], td.logsumexp(2 * td.outer(u, v), axis=1))
    assert [array.name for array in program.temporaries if len(array.shape) == 2] == ["t4"]


def test_function_of_the_judge():
    """The log-sum-exp of a multiple, the only breach of the cost law in seeds 4955 to 5484."""
    assert not judge(random_function(5104), orders="f", by_jax=False).breaches
