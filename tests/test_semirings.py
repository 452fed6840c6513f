"""`td.einsum` over other semirings: log-sum-exp, max-plus and min-plus."""

from __future__ import annotations

import numpy as np
import pytest

import sympy_tensordiff as td

i, n, m, l = td.indices("i n m l")
A, B, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, l)), td.TensorSymbol("x", m)
REDUCED = {"log": lambda t: np.log(np.sum(np.exp(t), 1)), "max": lambda t: t.max(1), "min": lambda t: t.min(1)}
random = np.random.default_rng(0)
LEFT, RIGHT = random.normal(size=(3, 4)), random.normal(size=(4, 5))


@pytest.mark.parametrize("semiring", REDUCED)
def test_products_of_matrices(semiring):
    product = td.einsum("ij,jk->ik", A, B, semiring=semiring)
    assert product.shape == (n, l)
    found = td.lambdify((A, B), product, "numpy")(LEFT, RIGHT)
    np.testing.assert_allclose(found, REDUCED[semiring](LEFT[:, :, None] + RIGHT), rtol=1e-14)


@pytest.mark.parametrize("semiring", REDUCED)
@pytest.mark.parametrize("subscripts", ["ij,j->i", "ij,ij->", "jj,j->j", ",ij->j", "ij->i"])
def test_derivatives(semiring, subscripts):
    square = td.TensorSymbol("S", (3, 3))
    operands = {"j": td.TensorSymbol("v", 3), "": td.TensorSymbol("c", ())}
    inputs = subscripts.split("->")[0].split(",")
    given = [operands.get(labels, square) for labels in inputs]
    result = td.einsum(subscripts, *given, semiring=semiring)
    td.check_derivative(td.sum(td.square(result)), square)


def test_large_entries_do_not_overflow():
    result = td.einsum("ij,j->i", A, x, semiring="log")
    total = td.sum(result)
    value, slope = td.lambdify((A, x), (total, td.gradient(total, x)), "numpy")(LEFT + 2000, np.zeros(4))
    assert np.isfinite(value)
    np.testing.assert_allclose(slope.sum(), 3)


def test_without_a_summed_label_entries_are_added():
    assert td.einsum("ij,ij->ij", A, A, semiring="max")[0, 1].doit() == 2 * A[0, 1]


@pytest.mark.parametrize("semiring", ["plus", 3])
def test_other_semirings_are_refused(semiring):
    with pytest.raises(td.errors.ArgumentError, match=r'td.einsum has no semiring .*; write "log"'):
        td.einsum("ij,jk->ik", A, B, semiring=semiring)
