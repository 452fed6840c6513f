"""Scores of ``-oo`` are left out of softmax, log-sum-exp and maxima, in values and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from every import every
from sympy import Piecewise, oo

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError

n, m, i, j, k, l = td.indices("n m i j k l")
A, M, V, W = (
    td.TensorSymbol(name, shape) for name, shape in zip("AMVW", ((n, m), (n, m), (m, 2), (n, 2)), strict=True)
)
SCORES = td.where(td.greater(M, 0), A, -oo)
RNG = np.random.default_rng(0)
MASK = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]], float)
VALUES = {A: RNG.normal(size=(3, 4)), M: MASK, V: RNG.normal(size=(4, 2)), W: RNG.normal(size=(3, 2))}


def weights(a, mask):
    """Return the softmax of the rows by definition; zeros for a row that is left out."""
    powers = np.exp(a) * mask
    total = powers.sum(axis=1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def attention(a, mask):
    """Return the value and the gradient of ``sum(W*(weights @ V))``, as in a textbook."""
    share, scores = weights(a, mask), VALUES[W] @ VALUES[V].T
    return (share * scores).sum(), share * (scores - (share * scores).sum(axis=1, keepdims=True))


def entry(row, column):
    """Return the score in index notation."""
    return Piecewise((A[row, column], M[row, column] > 0), (-oo, True))


TOTAL = td.IndexedSum(sympy.exp(entry(i, l)), (l, 0, m - 1))
ATTENTION = {
    "whole tensors": td.sum(W * (td.softmax(SCORES, axis=1) @ V)),
    "indices": td.IndexedSum(
        W[i, k] * V[j, k] * sympy.exp(entry(i, j)) / TOTAL, (i, 0, n - 1), (j, 0, m - 1), (k, 0, 1)
    ),
}


@every("name", [*ATTENTION], turns=8)
def test_attention_with_a_mask(name):
    loss = ATTENTION[name]
    forms = loss, td.gradient(loss, A)
    empty_row = MASK * [[1], [0], [1]]
    for backend in ("numpy", "llvm"):
        function = td.lambdify((A, M, V, W), forms, backend)
        for mask in (MASK, empty_row):
            for large in (0, 800):
                found = function(VALUES[A] + large, mask, VALUES[V], VALUES[W])
                for own, wanted in zip(found, attention(VALUES[A], mask), strict=True):
                    np.testing.assert_allclose(own, wanted, rtol=0, atol=1e-13)
    np.testing.assert_allclose(td.evaluate(loss, VALUES), attention(VALUES[A], MASK)[0], rtol=1e-13)
    td.check_derivative(loss, A, {n: 2, m: 3})


def test_log_sums_and_maxima_leave_scores_out():
    a = np.where(MASK > 0, VALUES[A], -np.inf)
    rows = td.logsumexp(SCORES, axis=1), td.max(SCORES, axis=1)
    for backend in ("numpy", "llvm"):
        sums, maxima = td.lambdify((A, M), rows, backend)(VALUES[A], MASK)
        np.testing.assert_allclose(sums, np.log(np.exp(a).sum(axis=1)), rtol=1e-14)
        np.testing.assert_array_equal(maxima, a.max(axis=1))
        nothing = td.lambdify((A, M), rows, backend)(VALUES[A], 0 * MASK)
        np.testing.assert_array_equal(nothing, -np.inf)
    slopes = td.lambdify((A, M), td.gradient(td.sum(td.logsumexp(SCORES, axis=1)), A), "numpy")
    np.testing.assert_allclose(slopes(VALUES[A], MASK), weights(VALUES[A], MASK), rtol=1e-14)


def test_a_condition_on_indices_leaves_scores_out():
    """A causal mask: row i has the scores up to i."""
    causal = td.IndexedSum(sympy.exp(Piecewise((A[i, j], j <= i), (-oo, True))), (j, 0, m - 1))
    loss = td.IndexedSum(sympy.log(causal), (i, 0, n - 1))
    powers = np.tril(np.exp(VALUES[A]))
    for backend in ("numpy", "llvm"):
        value, slopes = td.lambdify(A, (loss, td.gradient(loss, A)), backend)(VALUES[A])
        np.testing.assert_allclose(value, np.log(powers.sum(axis=1)).sum(), rtol=1e-14)
        np.testing.assert_allclose(slopes, powers / powers.sum(axis=1, keepdims=True), rtol=1e-14, atol=1e-16)


def test_second_derivatives_agree():
    loss = td.sum(td.logsumexp(SCORES, axis=1) ** 2)
    direct, indirect = td.hvp(loss, A, W @ V.T), td.jvp(td.gradient(loss, A), A, W @ V.T)
    arguments = VALUES[A], MASK, VALUES[V], VALUES[W]
    found = td.lambdify((A, M, V, W), (direct, indirect), "numpy")(*arguments)
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-14)
    step = 1e-6 * VALUES[W] @ VALUES[V].T
    gradient = td.lambdify((A, M), td.gradient(loss, A), "numpy")
    difference = (gradient(VALUES[A] + step, MASK) - gradient(VALUES[A] - step, MASK)) / 2e-6
    np.testing.assert_allclose(found[0], difference, rtol=1e-8, atol=1e-8)


def test_they_print_as_they_were_written():
    assert str(td.softmax(SCORES, axis=1)) == "softmax(where(greater(M, 0), A, -oo), axis=1)"
    assert r"-\infty" in td.latex(SCORES)
    assert "-INFINITY" in td.generate_code((A, M), td.softmax(SCORES, axis=1), "c")


@pytest.mark.parametrize(
    "make", [lambda: A + oo, lambda: td.elementwise(lambda a, b: a * b, A, -oo), lambda: td.softmax(-oo * A)]
)
def test_infinity_elsewhere_is_refused(make):
    with pytest.raises(UnsupportedError, match=r"oo is not a finite real number; .* td\.where and Piecewise"):
        make()
    with pytest.raises(UnsupportedError, match="the constant oo is not a finite real number"):
        td.lambdify(A, td.IndexedSum(A[i, i] + oo, (i, 0, 2)))
