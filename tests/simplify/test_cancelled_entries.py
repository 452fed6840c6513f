"""Entries of comprehensions are written out where their terms cancel others: what is 0 is not printed."""

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

i, j, k, e, n, m = td.indices("i j k e n m")
g, c = td.TensorSymbol("g", n), td.TensorSymbol("c", m)
place = td.TensorSymbol("place", m, dtype=int, below=n)
expected = td.TensorComprehension(sympy.digamma(g[k]) - sympy.digamma(td.IndexedSum(g[j], (j, 0, n - 1))), (k, n))
words = td.IndexedSum(c[e] * sympy.exp(expected[place[e]]), (e, 0, m - 1))
divergence = td.IndexedSum((g[k] - 1) * expected[k] - sympy.loggamma(g[k]), (k, 0, n - 1))
divergence += sympy.loggamma(td.IndexedSum(g[k], (k, 0, n - 1)))


def test_the_entropy_of_a_dirichlet_distribution_leaves_no_difference_of_equal_terms():
    gradient = td.gradient(words - divergence, g)
    outside = gradient.replace(sympy.exp, lambda _: sympy.Integer(1))
    assert "polygamma(0" not in str(outside), gradient


@pytest.mark.in_turns(4)
def test_values_do_not_change():
    arrays = np.array([0.5, 1.5, 2.5]), np.array([1.0, 2.0]), np.array([0, 2])
    compiled = td.lambdify((g, c, place), (words - divergence, td.gradient(words - divergence, g)))
    value, gradient = compiled(*arrays)
    for position in range(3):
        step = np.zeros(3)
        step[position] = 1e-6
        ends = [compiled(arrays[0] + sign * step, *arrays[1:])[0] for sign in (1, -1)]
        np.testing.assert_allclose(gradient[position], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    assert np.isfinite(value)
