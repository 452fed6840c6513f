"""Sums of few entries: one block for each, in the simulator; and which sums those are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from races import watched
from sympy import exp

import sympy_tensordiff as td
from sympy_tensordiff.codegen.cache import load_source

i, j, k, n, m = td.indices("i j k n m")
x, y, z = td.TensorSymbol("x", (300,)), td.TensorSymbol("y", (2, 300)), td.TensorSymbol("z", (17, 19))


def rows(body):
    return td.TensorComprehension(body, (i, 2))


# Expression, its tensor, NumPy's, how many blocks of which threads.
CASES = {
    "number": (td.IndexedSum(x[k] ** 2, (k, 0, 299)), x, lambda x: np.sum(x**2), ((1, 1, 1), (256, 1, 1))),
    "sums": (
        rows(td.IndexedSum(exp(y[i, k]), (k, 0, 299)) ** 2),
        y,
        lambda y: np.exp(y).sum(1) ** 2,
        ((2, 1, 1), (256, 1, 1)),
    ),
    "sum of sums": (
        td.IndexedSum(exp(z[i, j] * (i + 1)), (j, 0, 18), (i, 0, 16)),
        z,
        lambda z: np.exp(z * np.arange(1, 18)[:, None]).sum(),
        ((1, 1, 1), (32, 8, 1)),
    ),
    "sum of values of sums": (
        td.IndexedSum(td.IndexedSum(y[0, k] * y[1, k + j], (k, 0, 2)) ** 2, (j, 0, 296)),
        y,
        lambda y: np.sum(np.correlate(y[1, :299], y[0, :3], "valid") ** 2),
        ((1, 1, 1), (256, 1, 1)),
    ),
    "maximum": (rows(td.IndexedMax(y[i, k], (k, 0, 299))), y, lambda y: y.max(1), ((2, 1, 1), (256, 1, 1))),
    "minimum": (rows(td.IndexedMin(y[i, k], (k, 0, 299))), y, lambda y: y.min(1), ((2, 1, 1), (256, 1, 1))),
    "two sums": (
        rows(td.IndexedSum(y[i, k], (k, 0, 299)) * td.IndexedSum(y[i, k] ** 2, (k, 5, 298))),
        y,
        lambda y: y.sum(1) * (y[:, 5:299] ** 2).sum(1),
        ((2, 1, 1), (256, 1, 1)),
    ),
    "a sum and a sum of sums": (
        td.IndexedSum(exp(z[0, j]), (j, 0, 18)) * td.IndexedSum(exp(z[i, j] * (i + 1)), (j, 0, 18), (i, 0, 16)),
        z,
        lambda z: np.exp(z[0]).sum() * np.exp(z * np.arange(1, 18)[:, None]).sum(),
        ((1, 1, 1), (32, 8, 1)),
    ),
    "logarithm": (td.logsumexp(y, 1), y, lambda y: scipy.special.logsumexp(y, 1), ((2, 1, 1), (256, 1, 1))),
}


def run_blocks(name):
    expression, tensor, wanted, _ = CASES[name]
    array = np.random.default_rng(3).uniform(-1, 1, tensor.shape)
    function = td.lambdify([tensor], expression, "cuda")
    with watched():
        np.testing.assert_allclose(function(array), wanted(array), rtol=1e-12)
    return function.source


@pytest.mark.parametrize("name", CASES)
def test_blocks_in_the_simulator(name, simulator):
    source = simulator(run_blocks, name)
    call = source[source.index("blocks = shared(") :].partition("\n")[0]
    scope = vars(load_source(source, "test"))
    assert eval(call.partition(" = ")[2], scope) == CASES[name][3]


def test_which_sums_have_blocks():
    a, b = td.TensorSymbol("a", (n, m)), td.TensorSymbol("b", (m,))
    product = td.TensorComprehension(td.IndexedSum(a[i, k] * b[k], (k, 0, m - 1)), (i, n))
    source = td.generate_code((a, b), product, "cuda")
    shared = load_source(source, "test").shared
    assert shared((5,), (1, 255)) is None and shared((4097,), (1, 1000)) is None and shared((3,), (-1, -1000)) is None
    assert shared((5, 6), (1000, 3)) == ((6, 5, 1), (4, 64, 1))
    assert shared((2, 3, 5, 6), (1, 300)) == ((6, 5, 6), (256, 1, 1))
    short = td.TensorComprehension(td.IndexedSum(x[i + k], (k, 0, 9)), (i, 290))
    many = td.TensorComprehension(td.IndexedSum(exp(x[k] * i), (k, 0, 299)), (i, 5000))
    # The factors of a product stay in order, so that zeros and overflows meet as they stand.
    ordered = td.IndexedProduct(x[k], (k, 0, 299))
    for expression in (short, many, ordered):
        assert "in_blocks" not in td.generate_code([x], expression, "cuda")
