"""Modified Bessel functions of the orders 0 and 1 in kernels: values in all backends, against many digits."""

from __future__ import annotations

import shutil
import subprocess

import mpmath
import numpy as np
import pytest
import sympy
from sympy import besseli, exp, log

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError

i, n = td.indices("i n")
x = td.TensorSymbol("x", n)
POINTS = [0, 1e-300, -1e-9, 0.3, -2, 3.75, 7.99, 8, -8.01, 15, -100, 690, 711, 1e5, -1e300]


def entries(value):
    return td.TensorComprehension(value, (i, n))


VALUES = {
    "scaled 0": (exp(-sympy.Abs(x[i])) * besseli(0, x[i]), lambda u: mpmath.exp(-abs(u)) * mpmath.besseli(0, u)),
    "scaled 1": (exp(-sympy.Abs(x[i])) * besseli(1, x[i]), lambda u: mpmath.exp(-abs(u)) * mpmath.besseli(1, u)),
    "order 0": (besseli(0, x[i]), lambda u: mpmath.besseli(0, u)),
    "order 1": (besseli(1, x[i]), lambda u: mpmath.besseli(1, u)),
    "logarithm": (log(besseli(0, x[i])), lambda u: mpmath.log(mpmath.besseli(0, u))),
    "ratio": (besseli(1, x[i]) / besseli(0, x[i]), lambda u: mpmath.besseli(1, u) / mpmath.besseli(0, u)),
}


def exact(function, point):
    """The value in double precision; far out by the first terms of the asymptotic series."""
    with mpmath.workdps(60):
        try:
            return float(function(mpmath.mpf(point)))
        except (OverflowError, mpmath.libmp.NoConvergence):
            return np.inf


@pytest.mark.parametrize("backend", ["numpy", "llvm", pytest.param("numba", marks=pytest.mark.in_turns(8))])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, dtype, backend):
    value, function = VALUES[name]
    limits = np.finfo(dtype)
    points = np.array([point for point in POINTS if abs(point) < float(limits.max)], dtype)
    expected = np.array([exact(function, float(point)) for point in points])
    with np.errstate(all="ignore"):
        found = td.lambdify([x], entries(value), backend)(points)
    usable = np.abs(expected) < float(limits.max)
    assert usable.sum() >= 10
    np.testing.assert_allclose(found[usable], expected[usable], rtol=8 * limits.eps, atol=4 * limits.tiny)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_between(dtype):
    """At 400 points: errors of up to 8 units in the last place."""
    generator = np.random.default_rng(0)
    points = np.concatenate([generator.uniform(-9, 9, 200), np.exp(generator.uniform(2, 12, 200))]).astype(dtype)
    for name in ("scaled 0", "scaled 1"):
        value, function = VALUES[name]
        expected = np.array([exact(function, float(point)) for point in points])
        found = td.lambdify([x], entries(value), "llvm")(points)
        np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps)


def test_limits():
    value = entries(exp(-sympy.Abs(x[i])) * besseli(1, x[i]))
    with np.errstate(all="ignore"):
        found = td.lambdify([x], value, "llvm")(np.array([0.0, np.inf, -np.inf, np.nan]))
    np.testing.assert_array_equal(found, [0, 0, 0, np.nan])


def test_no_library_is_called():
    """The Rice distribution: its likelihood and gradient in C and CUDA."""
    value = td.IndexedSum(log(besseli(0, x[i])) - x[i] ** 2, (i, 0, n - 1))
    results = value, td.gradient(value, x)
    for backend in ("c", "cuda_c", "numba"):
        assert "besseli" not in td.generate_code([x], results, backend)
    v = td.TensorSymbol("v", n)
    with pytest.raises(UnsupportedError, match="besseli"):
        td.generate_code([x, v], td.hvp(value, x, v), "c")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_compiles(tmp_path):
    source = tmp_path / "rice.c"
    source.write_text(td.generate_code([x], entries(besseli(1, x[i])), "c"))
    subprocess.run(["cc", "-c", "-o", str(tmp_path / "rice.o"), str(source)], check=True)
