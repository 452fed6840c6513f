"""Derivatives of ``sinc`` and of spherical Bessel functions, at 0 and near it, too."""

from __future__ import annotations

from functools import cache

import in_c
import mpmath
import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.helpers import CUDA_HELPERS
from sympy_tensordiff.codegen.program import build_program

n, i = td.indices("n i")
x, s = td.TensorSymbol("x", n), sympy.Symbol("s", real=True)
POINTS = np.concatenate([[0.0, -0.0, 1e-200, 1e-9, -1e-5, 1e-3], np.linspace(-30, 30, 17), [1e4]])


@cache
def exact(order, at):
    """The integral of ``t**order*cos(at*t + order*pi/2)`` from 0 to 1, the derivative of sinc under its integral."""
    with mpmath.workdps(30):
        pieces = max(1, int(abs(at) / 10))
        ends = [mpmath.mpf(q) / pieces for q in range(pieces + 1)]
        return float(mpmath.quad(lambda t: t**order * mpmath.cos(at * t + order * mpmath.pi / 2), ends))


def derivatives(count):
    """The derivatives of sinc(s) of orders 0, 1, ..., as arrays over x."""
    found = [sympy.sinc(s)]
    for _ in range(count):
        found.append(td.diff(found[-1], s))
    return tuple(td.TensorComprehension(one.subs(s, x[i]), (i, n)) for one in found)


@pytest.mark.parametrize("backend", ["numpy", "numba", "c"])
def test_derivatives_of_sinc_exist_everywhere(backend, tmp_path):
    expressions = derivatives(6)
    points = POINTS[abs(POINTS) < 100]
    if backend == "c":
        if in_c.COMPILER is None:
            pytest.skip("no C compiler")
        program = build_program(x, expressions)
        files, _ = in_c.sources({"sinc": program})
        got = in_c.Function(in_c.build(files, tmp_path), "sinc", program)(points)
    else:
        got = td.lambdify(x, expressions, backend)(points)
    for order, values in enumerate(got):
        expected = [exact(order, at) for at in points]
        np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-15, err_msg=str(order))


def test_gradients_and_hessians_read_well():
    f = td.IndexedSum(sympy.sinc(x[i]), (i, 0, n - 1))
    assert str(td.gradient(f, x)) == "TensorComprehension(-jn(1, x[p]), (p, n))"
    point = np.array([0.0, 0.5])
    np.testing.assert_allclose(
        td.lambdify(x, td.hessian(f, x), "numpy")(point), np.diag([exact(2, at) for at in point]), rtol=1e-14
    )
    td.check_derivative(f, x)


@pytest.mark.parametrize("backend", ["numpy", "numba", "llvm"])
def test_spherical_bessel_functions(backend):
    """All orders to many digits, also where the recurrence begins, and in single precision."""
    from scipy.special import spherical_jn

    around = np.concatenate([sign * np.arange(1, 12) * (1 + shift) for sign in (1, -1) for shift in (-1e-9, 0, 1e-9)])
    points = np.concatenate([POINTS, around, [np.inf, -np.inf, np.nan]])
    orders = range(0, 11, 2) if backend == "numba" else range(11)
    function = td.lambdify(x, tuple(td.TensorComprehension(sympy.jn(k, x[i]), (i, n)) for k in orders), backend)
    for k, one, single in zip(orders, function(points), function(points.astype(np.float32)), strict=True):
        expected = spherical_jn(k, points)
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-15, err_msg=str(k))
        assert single.dtype == np.float32
        moderate = abs(points) < 40
        np.testing.assert_allclose(single[moderate], expected[moderate], rtol=0, atol=4e-7, err_msg=str(k))


def test_compiled_helpers_are_plain_python():
    """What Numba compiles for CUDA, run as Python."""
    module: dict[str, object] = {}
    exec("import math\n" + CUDA_HELPERS["spherical_bessel"], module)
    function = module["spherical_bessel"]
    assert [function(1.0, at) for at in (0.0, float("inf"))] == [0.0, 0.0]
    assert abs(function(1.0, 1e-3) + exact(1, 1e-3)) < 1e-17
    assert "spherical_bessel" in td.generate_code([x], derivatives(1)[1], "cuda")
