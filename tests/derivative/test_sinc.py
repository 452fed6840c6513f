"""Derivatives of ``sinc`` and of spherical Bessel functions, at 0 and near it, too."""

from __future__ import annotations

from functools import cache

import in_c
import mpmath
import numpy as np
import pytest
import sympy
from uncompiled import numba_as_python

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


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("backend", ["numpy", "llvm", "numba", "c"])
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
        with numba_as_python(backend):
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
    function = td.lambdify(x, tuple(td.TensorComprehension(sympy.jn(k, x[i]), (i, n)) for k in range(11)), backend)
    with numba_as_python(backend):
        double, single_precision = function(points), function(points.astype(np.float32))
    for k, one, single in zip(range(11), double, single_precision, strict=True):
        expected = spherical_jn(k, points)
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-15, err_msg=str(k))
        assert single.dtype == np.float32
        moderate = abs(points) < 40
        np.testing.assert_allclose(single[moderate], expected[moderate], rtol=0, atol=4e-7, err_msg=str(k))


def test_compiled_helpers_are_plain_python():
    """Helpers that Numba compiles for CUDA run as Python."""
    module: dict[str, object] = {}
    exec("import math\n" + CUDA_HELPERS["spherical_bessel"], module)
    function = module["spherical_bessel"]
    assert [function(1.0, at) for at in (0.0, float("inf"))] == [0.0, 0.0]
    assert abs(function(1.0, 1e-3) + exact(1, 1e-3)) < 1e-17
    assert "spherical_bessel" in td.generate_code([x], derivatives(1)[1], "cuda")


FROM = 1 - np.array([0.0, 1e-12, 1e-7, 0.01, 0.7, 1.5])
"""Cosines of angles from 0 on."""


def slopes_of_squares(order, cosine):
    """The derivatives of ``acos(c)**2`` by ``c``: from ``(1 - c**2) f'' - c f' = 2``, differentiated; limits at 1."""
    with mpmath.workdps(60):
        c = mpmath.mpf(cosine)
        if c == 1:
            # By Leibniz' rule at c = 1: (2*k + 1)*f^(k + 1) = -k**2*f^(k), where f' = -2.
            found = mpmath.mpf(-2)
            for k in range(1, order):
                found *= -mpmath.mpf(k * k) / (2 * k + 1)
            return float(found)
        return float(mpmath.diff(lambda u: mpmath.acos(u) ** 2, c, order, h=mpmath.mpf(10) ** -25))


@pytest.mark.parametrize(
    ("function", "sign"),
    [
        (td.IndexedSum(sympy.acos(x[i]) ** 2, (i, 0, n - 1)), 1),
        (td.IndexedSum((sympy.acos(x[i]) - sympy.pi) ** 2, (i, 0, n - 1)), -1),
        (td.sum(td.acos(x) ** 2), 1),
        (td.sum((td.acos(x) - sympy.pi) ** 2), -1),
    ],
    ids=["acos", "to pi", "whole acos", "whole to pi"],
)
def test_squared_angles_have_derivatives_at_their_ends(function, sign):
    """The slope of the angle is infinite there."""
    d = td.TensorSymbol("d", n)
    gradient = td.gradient(function, x)
    results = (gradient, td.hvp(function, x, d), td.jvp(td.hvp(function, x, d), x, d))
    found = td.lambdify([x, d], results, "numpy")(sign * FROM, np.ones(len(FROM)))
    for order, values in enumerate(found, 1):
        expected = [sign**order * slopes_of_squares(order, at) for at in FROM]
        np.testing.assert_allclose(values, expected, 1e-6, err_msg=str(order))


def test_a_squared_distance_on_a_sphere_is_smooth_where_points_meet():
    u, v = td.TensorSymbol("u", 3), td.TensorSymbol("v", 3)
    distance = td.acos(td.dot(u, v)) ** 2
    at = np.array([0.6, 0.0, 0.8])
    slope, curvature = td.lambdify([u, v], (td.gradient(distance, u), td.hessian(distance, u)), "numpy")(at, at)
    np.testing.assert_allclose(slope, -2 * at, 1e-7)
    np.testing.assert_allclose(curvature, 2 / 3 * np.outer(at, at), 1e-7)
