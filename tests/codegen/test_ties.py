"""Values that are compared with their greatest one: the same numbers on both sides, in every kernel."""

from __future__ import annotations

import numpy as np
import pytest
from sympy import Eq, Piecewise, Symbol, exp, floor

import sympy_tensordiff as td
from sympy_tensordiff.codegen.api import build_program
from sympy_tensordiff.errors import UnsupportedError

i, j, k, n, m, p = td.indices("i j k n m p")
A, b, c, d = td.TensorSymbol("A", (n, m)), td.TensorSymbol("b", m), td.TensorSymbol("c", m), td.TensorSymbol("d", n)
x = td.TensorSymbol("x", n)
BODY = exp(A[i, k]) * b[k] + c[k]
VALUE = td.TensorComprehension(td.IndexedMax(BODY, (k, 0, m - 1)), (i, n))


def given(dtype):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((300, 37), 37, 37, 300)]


@pytest.mark.parametrize("temporaries", [True, False])
def test_weights_are_shares_of_one(temporaries):
    # By c the derivative of each row is the weights themselves.
    pullback = td.TensorComprehension(td.IndexedSum(td.jacobian(VALUE, c)[i, k] * d[i], (i, 0, n - 1)), (k, m))
    weights = td.lambdify([A, b, c, d], (td.jacobian(VALUE, c), pullback, VALUE), temporaries=temporaries)
    for dtype in (np.float32, np.float64):
        arguments = given(dtype)
        found, pulled, value = weights(*arguments)
        assert found.dtype == value.dtype == dtype
        assert (found.sum(axis=1) == 1).all()
        greatest = np.argmax(np.exp(arguments[0].astype(float)) * arguments[1] + arguments[2], axis=1)
        assert (found[range(300), greatest] == 1).all()
        np.testing.assert_allclose(pulled, found.T @ arguments[3], rtol=1e-4 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("backend", ["numpy", "numba", "cuda"])
@pytest.mark.parametrize("temporaries", [True, False])
def test_values_are_kept_once(backend, temporaries):
    program = build_program([A, b, c, d], td.vjp(VALUE, (A, c), d), temporaries=temporaries)
    kept = [note for note in program.notes if "compared with their greatest or least one" in note]
    assert len(kept) == 1
    text = td.generate_code([A, b, c, d], td.vjp(VALUE, (A, c), d), backend, temporaries=temporaries)
    # Once for the values, once where they are differentiated by A.
    assert text.count("exp(") == 2


@pytest.mark.parametrize(
    "body", [A[i, k], -A[i, k], A[i, k] - b[k], A[i, k] * b[k], abs(A[i, k])], ids=["read", "negative", "-", "*", "abs"]
)
def test_what_is_rounded_once_is_not_kept(body):
    value = td.TensorComprehension(td.IndexedMax(body, (k, 0, m - 1)), (i, n))
    program = build_program([A, b, d], td.vjp(value, A, d))
    assert not any("compared" in note for note in program.notes)
    rows, column, cotangent, _ = (v.astype(np.float32) for v in given(float))
    shares = td.lambdify([A, b, d], td.vjp(value, A, d))(rows, column, np.ones(300, np.float32))
    assert (shares != 0).sum() == 300


MAXIMA = {
    "every other entry": td.IndexedMax(exp(x[2 * k]), (k, 0, floor((n - 1) / 2))),
    "two strides": td.IndexedMax(exp(x[3 * k + 5 * j] + x[2 * k]), (k, 0, 1), (j, 0, 1)),
    "sums of strides": td.IndexedMax(exp(x[2 * k + 3 * j]), (k, 0, 1), (j, 0, 2)),
    "differences": td.IndexedMax(exp(x[k] - x[j]), (j, 0, floor(k / 3)), (k, 0, n - 1)),
    "pairs": td.IndexedMax(exp(x[k]) * exp(-x[j]), (k, 2 * j, n - 1), (j, 0, n - 1)),
    "indices as numbers": td.IndexedSum(td.IndexedMax(exp(x[k]) * i**2 - k, (k, 0, n - 1)), (i, 0, 5)),
    "a maximum of maxima": td.IndexedMax(exp(td.IndexedMax(exp(x[j] / 9), (j, k, n - 1))) - k, (k, 0, n - 1)),
    "a window": td.IndexedSum(td.IndexedMax(exp(x[i + k]), (k, 0, 2)) * (i + 1), (i, 1, n - 4)),
}


@pytest.mark.parametrize("name", MAXIMA)
@pytest.mark.parametrize("temporaries", [True, False])
def test_shares_wherever_the_values_stand(name, temporaries):
    value = MAXIMA[name]
    at = np.array([1.0, 3, 3, 2, 5, 5, 5, 1, 2, 1, 2, 3])
    expected = np.array(td.reference.differentiate(value, x, {x: at.tolist()}), float)
    for backend in ("numpy", "numba") if name == "differences" else ("numpy",):
        gradient = td.lambdify([x], td.gradient(value, x), backend, temporaries=temporaries)
        np.testing.assert_allclose(gradient(at), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_a_comparison_with_another_value_stays():
    own = td.TensorComprehension(Piecewise((1, Eq(x[i], td.IndexedMax(2 * x[k] - 1, (k, 0, n - 1)))), (0, True)), (i, n))
    assert td.lambdify([x], own, "numpy")(np.array([5.0, 1.0, 3.0])).tolist() == [0, 0, 0]
    assert td.lambdify([x], own, "numpy")(np.array([5.0, 1.0, 9.0, 9.0])[[0, 1]] - 4).tolist() == [1, 0]


def test_refusals():
    s = Symbol("s", real=True)
    halves = td.IndexedMax(exp(x[floor(k / 2)]) * k, (k, 0, n - 1))
    with pytest.raises(UnsupportedError, match="cannot tell which of the values it is that is compared"):
        td.lambdify([x], td.gradient(halves, x), "numpy")
    named = td.TensorComprehension(exp(x[floor(k / 2)]) * k, (k, n))
    at = [1.0, 3, 3, 2]
    found = td.lambdify([x], td.gradient(td.IndexedMax(named[k], (k, 0, n - 1)), x), "numpy")(np.array(at))
    expected = np.array(td.reference.differentiate(halves, x, {x: at}), float)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows = td.TensorComprehension(td.IndexedMax(exp(k * s), (k, 0, floor(i / 2))), (i, n))
    with pytest.raises(UnsupportedError, match="cannot be kept, for their indices have no bounds of their own"):
        td.lambdify([s, d], td.vjp(rows, s, d), "numpy")
