"""Second derivatives of norms at points near 0 and far away, where the cube of the norm is not a number."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from uncompiled import run_as_python

import sympy_tensordiff as td

n = td.indices("n")
i = td.indices("i")
x, y, v, W = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("v", n), td.TensorSymbol("W", (n, n))

HESSIANS = {  # a function, and the degree of homogeneity of its second derivatives
    "norm": (td.norm(x), -1),
    "of a product": (td.norm(W @ x), -1),
    "in indices": (td.sqrt(td.IndexedSum(x[i] ** 2, (i, 0, n - 1))), -1),
    "cosine": (td.dot(x, y) / (td.norm(x) * td.norm(y)), -2),
}
PRODUCTS = {**HESSIANS, "unit vector": (td.dot(y, x / td.norm(x)), -2), "squares": (td.norm((W @ x) ** 2), 0)}


# Numba takes a second for each function and type: its texts run as Python, and LLVM compiles the same loops.
BACKENDS = ["numpy", "numba as Python", "llvm", pytest.param("numba", marks=pytest.mark.thorough)]


def check_homogeneous(expression, degree, backend, scales):
    """Check a derivative at points scaled by the ``scales`` of each type of numbers."""
    name, _, is_python = backend.partition(" ")
    with run_as_python() if is_python else nullcontext():
        compute = td.lambdify((x, y, v, W), expression, name)
        for dtype, factors in scales.items():
            random = np.random.default_rng(0)
            arrays = [random.standard_normal(shape).astype(dtype) for shape in (3, 3, 3, (3, 3))]
            expected = compute(*arrays)
            for scale in map(dtype, factors):
                found = compute(scale * arrays[0], *arrays[1:])
                np.testing.assert_allclose(found, expected * scale ** dtype(degree), rtol=1e4 * np.finfo(dtype).eps)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", HESSIANS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_hessians(name, backend):
    value, degree = HESSIANS[name]
    scales = {np.float64: [1e-110, 1e110], np.float32: [1e-14, 1e14]}
    check_homogeneous(td.hessian(value, x), degree, backend, scales)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_products_with_a_tangent(name, backend):
    value, degree = PRODUCTS[name]
    scales = {np.float64: [1e-110, 1e110], np.float32: [1e-14, 1e14]}
    squared = {np.float64: [1e-60, 1e60], np.float32: [1e-7, 1e7]}
    check_homogeneous(td.hvp(value, x, v), degree, backend, squared if name == "squares" else scales)


@pytest.mark.in_turns(3)
def test_deep_squares():
    """The 64th powers of small numbers: the norm is 1e-100, and every second derivative a number."""
    h = x
    for _ in range(6):
        h = (W @ h) ** 2 / 4
    compute = td.lambdify((x, W), td.hessian(td.norm(h), x), "numpy")
    gradient = td.lambdify((x, W), td.gradient(td.norm(h), x), "numpy")
    random = np.random.default_rng(0)
    at, weights = random.standard_normal(3) / 3, random.standard_normal((3, 3)) / 2
    step = 1e-5
    columns = [(gradient(at + step * e, weights) - gradient(at - step * e, weights)) / (2 * step) for e in np.eye(3)]
    expected = np.stack(columns, axis=1)
    assert 0 < np.abs(expected).max() < 1e-90
    np.testing.assert_allclose(compute(at, weights), expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_powers_of_every_entry_are_no_norms():
    """``(1 + (W @ x)**2)**(-3/2)`` in the second derivative is a vector."""
    td.check_derivative(td.hvp(td.dot(y, td.sqrt(1 + (W @ x) ** 2)), x, v), x)
