"""Logarithms and quotients of sums of exponentials in index notation, where an exponential overflows."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from every import every
from sympy import Max, Piecewise, exp, log
from uncompiled import numba_as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import is_accumulator, reduction_of
from sympy_tensordiff.codegen.ir.walk import statements
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.reference import evaluate

i, j, k, n, m, p = td.indices("i j k n m p")
A, x, c = td.TensorSymbol("A", (n, n)), td.TensorSymbol("x", n), td.TensorSymbol("c", n)
ROW = log(td.IndexedSum(exp(A[i, j]), (j, 0, n - 1)))
SOFTMAX = exp(A[i, j]) / td.IndexedSum(exp(A[i, k]), (k, 0, n - 1))

FUNCTIONS = {
    "vector": log(td.IndexedSum(exp(x[i]), (i, 0, n - 1))),
    "rows": td.IndexedSum(c[i] * ROW, (i, 0, n - 1)),
    "scaled": log(td.IndexedSum(3 * c[i] ** 2 * exp(x[i] / 2 - c[i]), (i, 0, n - 1))),
    "up to": td.IndexedSum(c[i] * log(td.IndexedSum(exp(x[j]), (j, 0, i))), (i, 0, n - 1)),
    "several limits": log(td.IndexedSum(exp(A[i, j] + x[j]), (j, 0, i), (i, 0, n - 1))),
    "next to one": log(1 + td.IndexedSum(exp(x[i]), (i, 0, n - 1))),
    "of two sums": log(td.IndexedSum(exp(x[i]), (i, 0, n - 1)) + td.IndexedSum(exp(-x[i]), (i, 1, n - 1))),
    "nested": log(td.IndexedSum(exp(ROW - x[i]), (i, 0, n - 1))),
    "inside of exp": td.IndexedSum(c[i] * c[j] * exp(A[i, j] - ROW), (i, 0, n - 1), (j, 0, n - 1)),
    "average": td.IndexedSum(c[i] * x[j] * SOFTMAX, (j, 0, n - 1), (i, 0, n - 1)),
    "masked": log(td.IndexedSum(Piecewise((exp(x[i]), c[i] > 0), (0, True)), (i, 0, n - 1))),
    "window": td.IndexedSum(log(td.IndexedSum(exp(x[j]), (j, Max(0, i - 1), i))), (i, 0, n - 1)),
}
# Compiled loops differ by their types alone: one of these functions runs in double precision, the other in single.
COMPILED = {"up to": (True, np.float32)}
MORE = {"average": (False, np.float64)}
VALUES = {
    A: np.array([[1000, 999, -1000], [-1000, -1001, -1002], [5, 0, 1000]]),
    x: np.array([1000, -1000, 998]),
    c: np.array([1, 2, -0.5]),
}


def derivatives(value):
    """A function and its derivatives of both orders."""
    by = A if value.has(A) else x
    along = A if by is A else c
    return value, td.gradient(value, by), td.hvp(value, by, along)


@every("name", [*FUNCTIONS], turns=10)
def test_large_exponents(name, thorough):
    results = derivatives(FUNCTIONS[name])
    expected = [np.array(result, float) for result in evaluate(results, VALUES)]
    assert all(np.isfinite(result).all() for result in expected)
    # In single precision exp(100) overflows, and what is left of 1000 has three digits.
    small = {t: v if t is c else v / 8 for t, v in VALUES.items()}
    exact = [np.array(result, float) for result in evaluate(results, small)]
    both = np.float64, np.float32
    compiled = COMPILED | MORE if thorough else COMPILED
    kernels = {
        td.lambdify([A, x, c], results, "numpy", temporaries=remaining): both
        for remaining in {True, len(name) % 2 == 0}
    }
    if name in compiled:
        temporaries, dtype = compiled[name]
        kernels[td.lambdify([A, x, c], results, "numba", temporaries=temporaries)] = (dtype,)
    for kernel, dtype in [(kernel, dtype) for kernel, dtypes in kernels.items() for dtype in dtypes]:
        values, right, tolerance = (VALUES, expected, 1e-10) if dtype is np.float64 else (small, exact, 1e-3)
        for found, wanted in zip(kernel(*(v.astype(dtype) for v in values.values())), right, strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "numba"])
def test_values_without_and_with_infinite_exponents(backend):
    with numba_as_python(backend):
        check_infinite_exponents(backend)


def check_infinite_exponents(backend):
    value = FUNCTIONS["vector"]
    kernel = td.lambdify([x], (value, td.gradient(value, x)), backend)
    inf = np.inf
    found, weights = kernel(np.array([-inf, 3, 3]))
    assert found == pytest.approx(3 + np.log(2))
    np.testing.assert_allclose(weights, [0, 0.5, 0.5])
    assert kernel(np.array([-inf, -inf]))[0] == -inf
    assert kernel(np.array([inf, 1]))[0] == inf
    assert np.isnan(kernel(np.array([np.nan, 1]))[0])
    empty = td.TensorComprehension(log(td.IndexedSum(exp(x[j]), (j, 0, i - 1))), (i, n))
    assert td.lambdify([x], empty, backend)(np.array([1000.0, 0])).tolist() == [-inf, 1000]


@pytest.mark.in_turns(4)
def test_accuracy_is_that_of_the_plain_form():
    rng = np.random.default_rng(0)
    values = {A: rng.uniform(-3, 3, (3, 3)), x: rng.uniform(-3, 3, 3), c: rng.uniform(0.5, 2, 3)}
    for name, value in FUNCTIONS.items():
        results = derivatives(value)
        found = td.lambdify([A, x, c], results, "numpy")(*values.values())
        for got, wanted in zip(found, evaluate(results, values), strict=True):
            scale = float(np.abs(np.array(wanted, float)).max())
            np.testing.assert_allclose(got, np.array(wanted, float), rtol=0, atol=2e-14 * max(scale, 1), err_msg=name)


def test_the_greatest_exponent_is_found_once():
    program = build_program([A, c], td.vjp(FUNCTIONS["rows"], A, 1))
    kinds = [reduction_of(s) for nest in program.nests for s in statements(nest.body) if is_accumulator(s)]
    assert sorted(kinds) == ["max", "sum"]


def test_shifts_of_two_sums_with_one_greatest_exponent_are_added():
    label = td.TensorSymbol("label", 4, dtype=int)
    y = td.TensorSymbol("y", 4)
    same = sympy.KroneckerDelta(label[i], label[p])
    mass = td.IndexedSum(exp(y[k]) * sympy.KroneckerDelta(label[k], label[p]), (k, 0, 3))
    body = exp(y[p]) * td.IndexedSum(exp(y[i]) * same * mass, (i, 0, 3)) / (mass**2 + 1)
    function = td.TensorComprehension(body, (p, 4))
    values = {label: np.array([0, 1, 1, 2]), y: np.array([0.3, -0.2, 0.5, 0.1])}
    got = td.lambdify((label, y), function, backend="numpy")(values[label], values[y])
    np.testing.assert_allclose(got, np.array(evaluate(function, values), float), rtol=1e-13)


@pytest.mark.usefixtures("uncompiled")
def test_a_condition_that_indices_differ_is_one_choice():
    """InfoNCE without the own pair: one loop over `j != i`, with values that do not overflow."""
    a, d = td.indices("a d")
    z = td.TensorSymbol("z", (n, d))
    product = td.IndexedSum(z[i, a] * z[j, a], (a, 0, d - 1))
    row = td.IndexedSum(Piecewise((exp(product), sympy.Ne(i, j)), (0, True)), (j, 0, n - 1))
    function = td.IndexedSum(log(row), (i, 0, n - 1))
    results = (function, td.gradient(function, z))
    program = build_program([z], results)
    maxima = [s for k in program.kernels for s in statements(getattr(k, "body", ())) if is_accumulator(s)]
    assert sum(reduction_of(each) == "max" for each in maxima) == 1
    at = np.random.default_rng(3).standard_normal((6, 4)) * 30
    scores = at @ at.T
    np.fill_diagonal(scores, -np.inf)
    top = scores.max(axis=1)
    shares = np.exp(scores - top[:, None])
    value = (top + np.log(shares.sum(axis=1))).sum()
    shares /= shares.sum(axis=1)[:, None]
    for backend in ("numpy", "numba"):
        found, slope = td.lambdify([z], results, backend)(at)
        np.testing.assert_allclose(found, value, rtol=1e-12)
        np.testing.assert_allclose(slope, (shares + shares.T) @ at, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(td.lambdify([z], function, backend)(at), value, rtol=1e-12)


def test_roots_of_sums_of_exponentials_need_no_maximum():
    """A band energy ``-sqrt(Sum_j exp(-x_ij))`` and its gradient compute each exponential once, without a maximum."""
    i, j, n = td.indices("i j n")
    x = td.TensorSymbol("x", (n, n))
    band = td.IndexedSum(sympy.Piecewise((sympy.exp(-x[i, j]), sympy.Ne(i, j)), (0, True)), (j, 0, n - 1))
    energy = td.IndexedSum(sympy.sqrt(band), (i, 0, n - 1))
    function = td.lambdify(x, (energy, td.gradient(energy, x)), "llvm", parallel=False)
    assert "greatest" not in function.source
    values = np.random.default_rng(3).uniform(0, 2, (6, 6))
    values[4] = 800  # no neighbour is near: the sum underflows, and its root has the derivative 0
    terms = np.exp(-values) * (1 - np.eye(6))
    sums = terms.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(sums[:, None] > 0, -terms / (2 * np.sqrt(sums))[:, None], 0)
    value, found = function(values)
    np.testing.assert_allclose(value, np.sqrt(sums).sum(), 1e-14)
    np.testing.assert_allclose(found, slope, 1e-13)


B = td.TensorSymbol("B", (n, m))
LEFT = td.TensorSymbol("A", (p, n))
PRODUCT = td.TensorComprehension(log(td.IndexedSum(exp(LEFT[i, k] + B[k, j]), (k, 0, n - 1))), (i, p), (j, m))


def log_product(a, b):
    with np.errstate(all="ignore"):
        total = a.astype(float)[:, :, None] + b.astype(float)
        shift = total.max(1)
        shift[~np.isfinite(shift)] = 0
        return shift + np.log(np.exp(total - shift[:, None]).sum(1))


@pytest.mark.parametrize("form", ["sum", "semiring"])
def test_logarithms_of_products_of_exponentials_are_products_of_matrices(form):
    """Of n*n*n exponentials, n*n are left; a third operand and terms of k alone are factors as well."""
    forms = {
        "sum": PRODUCT,
        "semiring": td.einsum("ik,kj->ij", LEFT, B, semiring="log"),
    }
    plan = td.lambdify([LEFT, B], forms[form]).plan
    assert "a product of matrices" in plan and "usual: what rarely runs" in plan
    weighted = td.TensorComprehension(
        log(td.IndexedSum(exp(LEFT[i, k] + x[k] + B[k, j]), (k, 0, n - 1))), (i, p), (j, m)
    )
    assert "a product of matrices" in td.lambdify([LEFT, x, B], weighted).plan


@pytest.mark.parametrize(
    "body",
    [LEFT[i, k] * B[k, j], LEFT[i, k] + B[k, j] + LEFT[i, k] * B[k, j], LEFT[i, k] + x[k], LEFT[i, k] + B[n - 1, j]],
)
def test_other_exponents_are_no_products(body):
    value = td.TensorComprehension(log(td.IndexedSum(exp(body), (k, 0, n - 1))), (i, p), (j, m))
    assert "a product of matrices" not in td.lambdify([LEFT, B, x], value).plan


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [0.1, 1, 30, 1000, 1e6])
def test_products_of_exponentials_at_any_scale(scale, dtype):
    """A sum whose product underflows is computed with its own maximum; infinite and undefined terms stay."""
    function = td.lambdify([LEFT, B], PRODUCT)
    generator = np.random.default_rng(0)
    for shape in ((1, 1, 1), (5, 3, 7), (33, 40, 18)):
        a = (scale * generator.normal(size=shape[:2])).astype(dtype)
        b = (scale * generator.normal(size=shape[1:])).astype(dtype)
        rtol = 1e-14 if dtype == np.float64 else 2e-6
        np.testing.assert_allclose(function(a, b), log_product(a, b), rtol=rtol, atol=rtol * 10)
    a[0, 0], a[1], b[2, 1], b[:, 2], b[4, 4] = np.inf, -np.inf, np.inf, -np.inf, np.nan
    np.testing.assert_allclose(function(a, b), log_product(a, b), rtol=rtol, atol=rtol * 10)


def test_derivatives_of_products_of_exponentials():
    """The gradient of a weighted sum of such logarithms, next to its value."""
    weights = td.TensorSymbol("C", (p, m))
    value = td.IndexedSum(weights[i, j] * PRODUCT[i, j], (j, 0, m - 1), (i, 0, p - 1))
    function = td.lambdify([weights, LEFT, B], (value, td.gradient(value, LEFT)))
    generator = np.random.default_rng(0)
    for scale in (1, 1000):
        c, a, b = (scale * generator.normal(size=size) for size in ((4, 6), (4, 5), (5, 6)))
        whole = log_product(a, b)
        found, slope = function(c, a, b)
        np.testing.assert_allclose(found, (c * whole).sum(), rtol=1e-12)
        chosen = np.exp(a[:, :, None] + b - whole[:, None])
        np.testing.assert_allclose(slope, (c[:, None] * chosen).sum(2), rtol=1e-9, atol=1e-9)
