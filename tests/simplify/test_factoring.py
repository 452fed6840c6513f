"""Values and forms of sums in which operands are factored out."""

from __future__ import annotations

import pytest

import sympy_tensordiff as td

n = td.indices("n")
h, s, t = (td.TensorSymbol(name, n) for name in "hst")
W = td.TensorSymbol("W", (n, n))


@pytest.mark.parametrize(
    ("residual", "printed"),
    [
        (W @ h + h - s * h, "2*outer((W + DeltaTensor(n) - diag(s)) @ h, h)"),
        (W @ h + 3 * h - s * h, "2*outer((W + 3*DeltaTensor(n) - diag(s)) @ h, h)"),
        (W @ h - s * h, "2*outer((W - diag(s)) @ h, h)"),
        (W @ h + h, "2*outer(h + W @ h, h)"),
    ],
)
def test_a_vector_alone_is_a_unit_matrix_beside_matrices(residual, printed):
    """``W h + h - s*h`` is ``(W + 1 - diag(s)) h`` with the unit matrix as 1, not with a matrix of ones."""
    value = td.sum(residual**2)
    gradient = td.gradient(value, W)
    assert str(gradient) == printed
    td.check_derivative(value, W)
    td.check_derivative(value, h)
    td.check_derivative(gradient, h)


def test_a_number_beside_scalars_and_diagonals():
    total = td.sum((W @ h + h * td.norm(t) + h - s * h + h * td.exp(s)) ** 2)
    td.check_derivative(total, W)
    td.check_derivative(total, h)
