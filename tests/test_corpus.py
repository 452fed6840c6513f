"""The corpus of readable derivatives: what a person writes is right, and so is ours, which is hardly longer."""

import numpy as np
import pytest
import corpus_learning
import corpus_physics

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
