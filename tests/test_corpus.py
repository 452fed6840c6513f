"""The corpus of readable derivatives: what a person writes is right, and so is ours, which is hardly longer."""

from statistics import median

import corpus_learning
import corpus_physics
import numpy as np
import pytest
from corpus_forms import of_ours, of_person

import sympy_tensordiff as td
from sympy_tensordiff.reference import derivative, evaluate, symbols_of
from sympy_tensordiff.testing.values import random_values

FORMS = {form.name: form for form in (*corpus_learning.FORMS, *corpus_physics.FORMS)}
SIZES = {td.indices(name): size for name, size in {"n": 4, "m": 3, "d": 2, "c": 3}.items()}


def values_of(form):
    tensors = [tensor for tensor in (form.along, form.variable, form.function) if tensor is not None]
    given = {symbol: size for symbol, size in SIZES.items() if symbol in symbols_of(*tensors)}
    values = random_values(tuple(tensors), given, seed=5, kind="float", low=form.low, high=form.high)
    if form.raised is not None:
        shape = values[form.raised].shape
        values[form.raised] = values[form.raised] + 9 * (np.eye(shape[0]) if len(shape) == 2 else 1)
    return values


def expected(form, values):
    """The derivative by dual numbers, without any rule of the package."""
    if form.along is None:
        return derivative(form.function, (form.variable,), values)
    direction, orders = np.asarray(values[form.along], dtype=float), 2 if form.kind == "gradient" else 1
    jacobian = np.asarray(derivative(form.function, (form.wrt,) * orders, values), dtype=float)
    product = np.tensordot(jacobian, direction, direction.ndim)
    return np.tensordot(product, jacobian, 1) if form.kind == "gauss-newton" else product


@pytest.mark.parametrize("name", FORMS)
def test_both_forms_are_the_derivative(name):
    form = FORMS[name]
    values = values_of(form)
    right = np.asarray(expected(form, values), dtype=float)
    assert np.isfinite(right).all()
    assert right.any()
    for written in (form.person, form.derivative()):
        found = np.asarray(evaluate(form.whole(written), values), dtype=float)
        np.testing.assert_allclose(found, right, rtol=1e-7, atol=1e-9)


LONGER = {
    "harmonic bonds": 1.96,
    "norm of a matrix": 1.6,
    "softmax, its Jacobian": 1.58,
    "entropy of a softmax": 1.5,
    "normal distribution by its covariance": 1.43,
    "t-SNE": 1.42,
    "Morse": 1.42,
    "Student's t by its location": 1.38,
    "linear system": 1.38,
    "multidimensional scaling": 1.34,
    "differences as a whole tensor": 1.25,
    "hinge loss": 1.23,
    "reaction and diffusion, linearised": 1.22,
    "Gaussian process by its length": 1.2,
    "batch normalisation": 1.16,
    "Saint Venant-Kirchhoff, stress": 1.16,
}
"""The ratios that are recorded; all others are 1.15 at most."""


def test_derivatives_are_hardly_longer_than_what_a_person_writes():
    ratios = {name: of_ours(form.derivative()) / of_person(form) for name, form in FORMS.items()}
    assert {name for name, ratio in ratios.items() if ratio > LONGER.get(name, 1.15)} == set()
    assert max(ratios.values()) < 2
    assert median(ratios.values()) <= 1.15
