"""Reads at remainders by affine forms of sizes: ``x[Mod(3*i, 2*n)]``, ``x[Mod(2*i, n + 2)]``."""

import numpy as np
import pytest
from every import every
from exact_checks import assert_derivative_exact
from sympy import Mod, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import IndexExpressionError, UnsupportedError
from sympy_tensordiff.reference import evaluate

i, j, n, m, p, s, u = td.indices("i j n m p s u")
y, w, z = td.TensorSymbol("y", p), td.TensorSymbol("w", n), td.TensorSymbol("z", m)

EXTENTS = (n, 2 * n, n + 2, 3 * n - 1, 2 * n + m + 1)
READS = [(c * i + (c + 1) % 3, extent) for extent in EXTENTS for c in (2, 3)]


def tensor(extent):
    return td.TensorSymbol("x", extent)


@every("dividend, extent", READS, ids=str, turns=8)
def test_values_and_gradients(dividend, extent):
    x = tensor(extent)
    read = x[Mod(dividend, extent)]
    assert read.func(*read.args) == read
    total = td.IndexedSum(read**2 * y[i] + 0 * z[0] * w[0], (i, 0, p - 1))
    for sizes in ({n: 2, m: 3, p: 7}, {n: 3, m: 2, p: 4}):
        known = {size: value for size, value in sizes.items() if size in total.free_symbols}
        assert_derivative_exact(total, x, known, backends=())
        length = int(extent.subs(sizes))
        values = {x: np.arange(1, length + 1), y: np.arange(2, 2 + sizes[p])}
        expected = sum((int(dividend.subs(i, k)) % length + 1) ** 2 * (k + 2) for k in range(sizes[p]))
        assert evaluate(total, values, sizes) == expected


@pytest.mark.in_turns(8)
def test_several_indices_multiples_and_kernels():
    x = tensor(2 * n)
    pairs = td.IndexedSum(x[Mod(3 * i + 2 * j, 2 * n)] ** 2 * y[i] * w[j], (i, 0, p - 1), (j, 0, n - 1))
    table = td.TensorComprehension(tensor(4 * n)[2 * Mod(3 * i, 2 * n)] * y[i], (i, p))
    assert_derivative_exact(pairs, x, {n: 3, p: 4})
    assert_derivative_exact(table, tensor(4 * n), {n: 2, p: 5}, backends=("numpy", "numba"))


def test_refusals():
    x = td.TensorSymbol("x", p)
    for index in (i * s + 2 * u, 2 * u + i * floor(3 * j / n), 3 * i - n * s * floor(3 * i / n)):
        with pytest.raises(IndexExpressionError, match=r"next to a symbolic stride, as in M\*i, one index needs"):
            x[index]
    assert str(x[i * s + u]) == "x[i*s + u]"
    with pytest.raises(UnsupportedError, match="use a number up to 16 as the stride"):
        td.gradient(td.IndexedSum(tensor(2 * n)[Mod(17 * i, 2 * n)] * y[i], (i, 0, p - 1)), tensor(2 * n))
