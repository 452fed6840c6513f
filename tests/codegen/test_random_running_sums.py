"""Random functions of several running sums in one row: scheduled kernels against plain NumPy without stored arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

i, j, k, n, m = td.indices("i j k n m")
x, y = td.TensorSymbol("x", (m, n)), td.TensorSymbol("y", (m, n))
r, q = td.TensorSymbol("r", m), td.TensorSymbol("q", m)
ARGUMENTS = x, y, r, q
SHAPES = ((1, 1), (2, 5), (3, 14))


def running(choice):
    """Return a reduction over the entries before (or after) the entry i, with or without i."""
    values, rate = choice.choice((x, y)), choice.choice((r, q))
    first, last = choice.choice(((0, i), (0, i - 1), (i, n - 1), (i + 1, n - 1)))
    distance = i - j if first == 0 else j - i
    terms = (
        values[k, j],
        values[k, j] * sympy.exp(-distance * rate[k]),
        values[k, j] * distance * sympy.exp(-distance * rate[k]),
        values[k, j] * rate[k] ** distance,
        sympy.exp(values[k, j] - values[k, i]) * rate[k],
        sympy.sin(values[k, j] * rate[k]) ** 2,
    )
    kind = choice.randrange(len(terms) + 3)
    if kind < len(terms):
        return td.IndexedSum(terms[kind], (j, first, last))
    if kind == len(terms):
        return sympy.log(1 + td.IndexedSum(sympy.exp(values[k, j]), (j, first, last)))
    if kind == len(terms) + 1:
        return td.IndexedProduct(1 + values[k, j] / 8, (j, first, last))
    return td.IndexedMax(values[k, j], (j, 0, i))


def function(seed):
    """Return a random function of two or three running reductions with random weights, summed over all entries."""
    choice = random.Random(seed)
    parts = [running(choice) for _ in range(choice.choice((2, 2, 3)))]
    weights = [choice.choice((1, 2, r[k], 1 - sympy.exp(-q[k]), x[k, i], y[k, i])) for _ in parts]
    value = sympy.Add(*(weight * part for weight, part in zip(weights, parts, strict=True)))
    outer = choice.choice(
        (
            sympy.sqrt(1 + value**2),
            value**2,
            sympy.sin(value),
            sympy.log(1 + value**2) * y[k, i],
            (sympy.sqrt(2 + value**2) - sympy.sqrt(1 + x[k, i] ** 2)) ** 2,
            sympy.exp(-(value**2) / 9),
        )
    )
    return td.IndexedSum(outer, (i, 0, n - 1), (k, 0, m - 1))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", range(16))
def test_values_and_gradients(seed):
    value = function(seed)
    results = (value, *td.gradient(value, ARGUMENTS))
    compiled = td.lambdify(ARGUMENTS, results, "llvm")
    plain = td.lambdify(ARGUMENTS, results, "numpy", temporaries=False)
    for shape in SHAPES:
        numbers = np.random.default_rng(seed)
        arrays = [*numbers.normal(0, 0.7, (2, *shape)), *numbers.uniform(0.1, 0.9, (2, shape[0]))]
        for found, wanted in zip(compiled(*arrays), plain(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-8, atol=1e-9 * max(1, np.abs(wanted).max()))
