"""C files on several cores, and their special functions, against SciPy."""

from __future__ import annotations

import ctypes
import ctypes.util

import in_c
import mpmath
import numpy as np
import pytest
import sympy
from scipy import special

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program

i, j, n, m = td.indices("i j n m")
A, x, y, order = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("o", n)

SUMS = {
    "flat": td.IndexedSum(sympy.exp(x[i]), (i, 0, n - 1)),
    "rounds": td.IndexedSum((A[i, j] - x[i]) ** 2 * y[j], (i, 0, n - 1), (j, 0, m - 1)),
    "strided": td.IndexedSum(x[2 * i + 1] / (1 + x[i] ** 2), (i, 2, (n - 2) // 2)),
    "triangle": td.IndexedSum(x[i] * x[j], (j, 0, i), (i, 0, n - 1)),
    "conditions": td.IndexedSum(sympy.Piecewise((x[i], i < m), (y[m - 1] / x[i], True)), (i, 0, n - 1)),
}


def built(tmp_path, program, *flags, **options):
    found, refused = in_c.sources({"compute": program}, **options)
    assert not refused
    folder = tmp_path / "_".join(("c", *map(str, (*flags, *options.values()))))
    folder.mkdir()
    dtype = options.get("dtype", "float64")
    return in_c.Function(in_c.build(found, folder, *flags), "compute", program, dtype), found["compute"]


@pytest.mark.in_turns(8)
@pytest.mark.skipif(in_c.COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_do_not_depend_on_the_number_of_threads(tmp_path, dtype):
    """A sum is added in fixed parts, whatever number of threads computes them, with and without OpenMP."""
    if ctypes.util.find_library("gomp") is None:
        pytest.skip("no runtime library of OpenMP")
    threads = ctypes.CDLL(ctypes.util.find_library("gomp")).omp_set_num_threads
    program = build_program((A, x, y), tuple(SUMS.values()))
    serial, _ = built(tmp_path, program, dtype=dtype)
    plain, text = built(tmp_path, program, "-O1", dtype=dtype, parallel=True)
    cores, _ = built(tmp_path, program, "-O1", "-fopenmp", dtype=dtype, parallel=True)
    assert text.count("_parts[64]") == len(SUMS) + 1  # the condition makes two loops of one
    reference = td.lambdify((A, x, y), tuple(SUMS.values()), "numpy")
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (40, 3), (3000, 70)):
        given = [rng.uniform(0.1, 1.1, shape) for shape in ((rows, columns), rows, columns)]
        expected, rtol = reference(*given), 1e-12 if dtype == "float64" else 1e-5
        found = []
        for count in (1, 2, 3):
            threads(count)
            found.append(np.array(cores(*given)))
        threads(2)
        for got in (*found, plain(*given), serial(*given)):
            np.testing.assert_allclose(np.array(got).ravel(), np.array(expected), rtol=rtol)
        assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.skipif(in_c.COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_special_functions_are_those_of_scipy(tmp_path, dtype):
    entries = td.TensorComprehension(sympy.polygamma(order[i], x[i]), (i, n))
    inverse = td.TensorComprehension(sympy.erfinv(x[i]), (i, n))
    digamma = td.gradient(td.IndexedSum(sympy.loggamma(x[i]), (i, 0, n - 1)), x)
    vectors = (td.TensorComprehension(sympy.polygamma(k, x[i]), (i, n)) for k in (1, 2))
    program = build_program((order, x), (entries, inverse, digamma, *vectors))
    function, _ = built(tmp_path, program, "-O2", dtype=dtype)
    rng, is_double = np.random.default_rng(0), dtype == "float64"
    rtol = 1e-12 if is_double else 1e-6
    tails = 1 - 10.0 ** -rng.uniform(0, 15, 300)
    tiny = 10.0 ** -rng.uniform(0, 300 if is_double else 30, 100)
    random, exact = rng.uniform(-1, 1, 300), [0.0, 1, -1, 2, np.nan]
    points = np.concatenate([random, tails, -tails, tiny, -tiny, exact]).astype(dtype)
    got = function(np.zeros_like(points), points)[1]
    np.testing.assert_allclose(got, special.erfinv(points), rtol=5e-15 if is_double else 5e-7)
    for k in range(8):
        parts = rng.uniform(-5, 5, 300), rng.uniform(0, 40, 300), 10.0 ** rng.uniform(-2, 8, 100)
        points = np.concatenate([*parts, [0.0, -1, -2, np.nan, -1e18, -np.inf, np.inf]]).astype(dtype)
        points = points[(abs(points) > 0.02) | (points == 0)]
        got, _, first, *others = function(np.full(points.shape, k), points)
        expected = special.polygamma(k, points.astype(float)).astype(dtype)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-14 if is_double else 1e-7, err_msg=str(k))
        if not k:
            assert first.tobytes() == got.tobytes()
        if k in (1, 2):
            np.testing.assert_allclose(others[k - 1], expected, rtol=rtol, atol=1e-14 if is_double else 1e-7)
    assert np.isnan(function(np.array([0.5, -1.0]), np.array([1.0, 1.0]))[0]).all()


def test_polygamma_of_compiled_code_at_its_poles():
    """Poles are infinite, and end the recurrence at arguments to which 1 adds nothing."""
    entries = td.TensorComprehension(sympy.polygamma(order[i], x[i]), (i, n))
    orders, points = np.array([1.0, 2, 1, 2, 3]), np.array([0.0, 0.0, -3.0, -1e18, -np.inf])
    got = td.lambdify((order, x), entries)(orders, points)
    np.testing.assert_array_equal(got, [np.inf, -np.inf, np.inf, -np.inf, np.inf])


@pytest.mark.in_turns(4)
def test_polygamma_far_below_zero():
    """By three values at positive numbers, not by as many terms as the argument is large."""
    entries = td.TensorComprehension(sympy.polygamma(order[i], x[i]), (i, n))
    points = np.array([-0.25, -7.3, -(10.0**6) - 0.25, -(10.0**9) - 0.5, -(2.0**49) - 0.125])
    kernels = {backend: td.lambdify((order, x), entries, backend) for backend in ("numpy", "llvm")}
    for k in (1, 2, 3, 6):
        with mpmath.workdps(150):
            wanted = []
            for at in map(mpmath.mpf, points.tolist()):
                rest, sign = at - mpmath.floor(at), 1 if k % 2 else -1
                parts = [mpmath.polygamma(k, one) for one in (rest, 1 - rest, 1 - at)]
                wanted.append(float(parts[0] + sign * (parts[1] - parts[2])))
        for backend, kernel in kernels.items():
            got = kernel(np.full(points.shape, float(k)), points)
            np.testing.assert_allclose(got, wanted, rtol=1e-13, err_msg=f"{k} {backend}")
