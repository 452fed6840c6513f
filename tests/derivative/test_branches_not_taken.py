"""Branches that are not taken contribute nothing: no logarithm of a negative number becomes a derivative."""

import numpy as np
import pytest
import sympy
from sympy import Piecewise, log, sin, sqrt

import sympy_tensordiff as td

i, j, k = td.indices("i j k")
x, y, A = td.TensorSymbol("x", 3), td.TensorSymbol("y", 3), td.TensorSymbol("A", (3, 3))
VALUES = np.array([0.3, -0.5, 0.7]), np.array([0.4, -0.6, 1.2]), np.array([[0.5, 0.9, 0.3], [-1, -2, -3], [2, 0.4, 1]])


def table(value, condition, otherwise=0, rank=1):
    return td.TensorComprehension(Piecewise((value, condition), (otherwise, True)), *[(v, 3) for v in (i, j)[:rank]])


CHOICES = {
    "a product": td.elementwise(lambda t: Piecewise((t * log(t), t > 0), (0, True)), x),
    "its power": td.elementwise(lambda t: Piecewise((t * log(t), t > 0), (0, True)), x) ** 3,
    "two operands": td.elementwise(lambda t, s: Piecewise((t * sqrt(s), s > 0), (t, True)), x, y),
    "entries of a product": table((td.log(y) * x)[i] * (td.log(y) * x * y)[i], y[i] > 0),
    "entries of many factors": table((td.log(y) * td.sqrt(y) * x * td.diag(A) * td.sin(y))[i], y[i] > 0),
    "entries of a matrix product": table(td.einsum("ij,j->i", td.log(A), x)[i] * x[i], y[i] > 0),
    "entries of an outer product": table(td.outer(td.log(y), x)[i, j] ** 2, y[i] > 0, x[j], rank=2),
    "entries elsewhere": table(td.einsum("i,ij->ij", td.log(y), A)[2 - i, i], y[2 - i] > 0),
    "functions of functions": td.elementwise(
        lambda t: Piecewise((sin(sqrt(t) * log(t)), t > 0), (sqrt(-t), True)), td.einsum("ij,j->i", A, x)
    ),
}


def slopes(function, place, step=1e-5):
    """Central differences by one argument: its axes are the last ones."""
    columns = []
    for entry in np.ndindex(VALUES[place].shape):
        ahead, behind = (list(map(np.copy, VALUES)) for _ in "ab")
        ahead[place][entry] += step
        behind[place][entry] -= step
        columns.append((function(*ahead) - function(*behind)) / (2 * step))
    return np.moveaxis(np.array(columns), 0, -1).reshape(*np.shape(columns[0]), *VALUES[place].shape)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("power", [1, 2])
def test_derivatives_stay_in_the_branch(name, power):
    symbols, tensor = (x, y, A), CHOICES[name]
    total = td.sum(tensor) ** power
    jacobian = td.jacobian(tensor, symbols)
    gradient = td.gradient(total, symbols)
    hessian = [block for row in td.hessian(total, symbols) for block in row]
    value, *found = td.lambdify(symbols, (tensor, *jacobian, *gradient, *hessian), "numpy")(*VALUES)
    function = td.lambdify(symbols, tensor, "numpy")
    expected = [slopes(function, place) for place in range(3)]
    expected += [slopes(lambda *at: function(*at).sum() ** power, place) for place in range(3)]
    for own in range(3):
        by_one = td.lambdify(symbols, gradient[own], "numpy")
        expected += [slopes(by_one, place) for place in range(3)]
    assert np.isfinite(value).all()
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_a_number_from_the_branch_is_no_choice():
    """The total in front is made of choices too, but the choice that counts is that of the entry."""
    total = td.sum(CHOICES["a product"])
    gradient = td.gradient(total**2, x)
    matrices = [part for part in gradient.atoms(td.TensorFunction) if len(part.shape) > 1]
    assert not matrices


def test_choices_under_products_of_products():
    """A long product is one factor of others, which go to the factor of its own that chooses."""
    value = sin(td.tanh(x)[k])
    total = td.IndexedSum(Piecewise((log(value) * sqrt(value), value > 0), (0, True)), (k, 0, 2))
    hessian = td.lambdify([x], td.hessian(total / (total + 2), x), "numpy")(VALUES[0])
    gradient = td.lambdify([x], td.gradient(total / (total + 2), x), "numpy")
    expected = slopes(lambda *at: gradient(at[0]), 0)
    np.testing.assert_allclose(hessian, expected, rtol=1e-5, atol=1e-6)
    assert not hessian[1].any() and not hessian[:, 1].any()


def test_a_choice_by_a_repeated_condition_can_be_read_again():
    both, either = (x[i] > 0) & (y[j] > 0), (x[i] > y[j]) | (y[i] > 0)
    choice = sympy.Piecewise((x[i] * y[j], both), (x[j] ** 2, either), (y[i], True))
    entries = td.TensorComprehension(choice, (i, 3), (j, 3))
    whole = entries.rewrite(td.EinsumProduct)
    assert not whole.has(td.TensorComprehension)
    for one, other in ((entries, whole), (td.gradient(td.sum(entries**2), x), td.gradient(td.sum(whole**2), x))):
        values = [td.lambdify([x, y], td.exp(form), "numpy")(*VALUES[:2]) for form in (one, other)]
        np.testing.assert_allclose(*values, rtol=1e-12)
