"""Sums over several indices as sums of sums: the counts of products, the values, and where they stay one sum."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sympy
from every import every
from scipy.ndimage import correlate1d

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.work import NOMINAL_SIZE, nominal_work
from sympy_tensordiff.codegen.program import build_program

i, j, k, a, b, c, n, m = td.indices("i j k a b c n m")
x, y = td.TensorSymbol("x", (n, m)), td.TensorSymbol("y", (n, m))
f, g = td.TensorSymbol("f", 7), td.TensorSymbol("g", 7)
Sum = td.IndexedSum


def blurred(values):
    """The entry i, j of a blur by the window ``f[a]*g[b]``, where it lies inside."""
    return Sum(f[a] * g[b] * values(i + a, j + b), (b, 0, 6), (a, 0, 6))


def over_entries(entry):
    return td.TensorComprehension(entry, (i, n - 6), (j, m - 6))


def operations(arguments, expression):
    """The approximate number of operations of a kernel where each size is `NOMINAL_SIZE`."""
    return nominal_work(build_program(arguments, expression))


def test_a_separable_window_takes_two_sums():
    blur, window = over_entries(blurred(lambda p, q: x[p, q])), td.TensorSymbol("w", (7, 7))
    one_sum = over_entries(Sum(window[a, b] * x[i + a, j + b], (b, 0, 6), (a, 0, 6)))
    assert operations((x, f, g), blur) < operations((x, window), one_sum) / 3


@every("backend", ["numpy", "llvm", "numba"])
def test_values_and_gradients_of_separable_windows(backend):
    """The local covariance of two images, whose gradient adds three separable sums of different entries."""
    mean, other = blurred(lambda p, q: x[p, q]), blurred(lambda p, q: y[p, q])
    value = Sum((blurred(lambda p, q: x[p, q] * y[p, q]) - mean * other) ** 2, (j, 0, m - 7), (i, 0, n - 7))
    gradient = td.gradient(value, x)
    function = td.lambdify((x, y, f, g), (value, gradient), backend)
    rng = np.random.default_rng(4)
    one, two, *windows = *rng.normal(size=(2, 11, 9)), *rng.uniform(0, 0.3, (2, 7))

    def blur(values):
        return correlate1d(correlate1d(values, windows[0], 0), windows[1], 1)[3:-3, 3:-3]

    def of_arrays(first):
        return ((blur(first * two) - blur(first) * blur(two)) ** 2).sum()

    found = function(one, two, *windows)
    assert found[0] == pytest.approx(of_arrays(one), rel=1e-12)
    along = rng.normal(size=one.shape)
    step = 1e-3
    slopes = [(of_arrays(one + h * along) - of_arrays(one - h * along)) / (2 * h) for h in (step, 2 * step)]
    assert (found[1] * along).sum() == pytest.approx((4 * slopes[0] - slopes[1]) / 3, rel=1e-9)
    assert operations((x, y, f, g), gradient) < 3 * operations((x, y, f, g), value)


def test_three_indices():
    """An interpolation in three directions: 3*p products an entry, not p**3."""
    e, p, q, r = td.indices("e p q r")
    u, B = td.TensorSymbol("u", (e, 9, 9, 9)), td.TensorSymbol("B", (9, 9))
    t = td.indices("t")
    body = B[i, p] * B[j, q] * B[k, r] * u[t, p, q, r]
    value = td.TensorComprehension(Sum(body, (r, 0, 8), (q, 0, 8), (p, 0, 8)), (t, e), (i, 9), (j, 9), (k, 9))
    assert operations((u, B), value) < NOMINAL_SIZE * 9**3 * 9 * 2 * 4
    rng = np.random.default_rng(0)
    entries, matrix = rng.normal(size=(3, 9, 9, 9)), rng.normal(size=(9, 9))
    wanted = np.einsum("ip,jq,kr,tpqr->tijk", matrix, matrix, matrix, entries, optimize=True)
    np.testing.assert_allclose(td.lambdify((u, B), value, "llvm")(entries, matrix), wanted, rtol=1e-11, atol=1e-12)


def test_exponentials_stay_together():
    """``exp(705)*1e5`` overflows, ``exp(-705)*exp(705)*1e5`` does not."""
    body = sympy.exp(f[a]) * sympy.exp(g[b]) * x[i + a, j + b]
    value = over_entries(Sum(body, (b, 0, 6), (a, 0, 6)))
    found = td.lambdify((x, f, g), value, "llvm")(np.full((7, 7), 1e5), np.full(7, -705.0), np.full(7, 705.0))
    np.testing.assert_allclose(found, [[49e5]], rtol=1e-12)


def test_differences_of_close_entries_stay():
    """``x[i + a, j + b] - x[i, j]`` is exact for close numbers; a difference of two sums is not."""
    body = f[a] * g[b] * (x[i + a, j + b] - x[i, j])
    value = over_entries(Sum(body, (b, 0, 6), (a, 0, 6)))
    numbers = 1e8 + np.arange(49.0).reshape(7, 7) / 1024
    windows = np.linspace(0.1, 0.9, 7), np.linspace(0.7, 0.2, 7)
    wanted = np.einsum("a,b,ab->", *windows, numbers - numbers[0, 0])
    found = td.lambdify((x, f, g), value, "llvm")(numbers, *windows)
    np.testing.assert_allclose(found, [[wanted]], rtol=1e-14)


def random_sum(seed):
    """A random product of entries, summed over two or three indices of a window."""
    choice = random.Random(seed)
    summed = [a, b, c][: choice.choice((2, 2, 3))]
    indices = [*summed, i, j]

    def place():
        found = sum((v for v in choice.sample(indices, choice.choice((1, 2)))), sympy.S.Zero)
        return found + choice.choice((0, 0, 1))

    factors = [choice.choice((f, g))[v] for v in summed if choice.random() < 0.8]
    factors += [choice.choice((x, y))[place(), place()] for _ in range(choice.choice((1, 1, 2)))]
    if choice.random() < 0.4:
        factors.append(x[i, j] * y[place(), place()] + y[place(), place()])
    limits = [(v, 0, choice.choice((2, 4, 6))) for v in summed]
    limits = [(v, low, high) if choice.random() < 0.8 else (v, low, i) for v, low, high in limits]
    return td.TensorComprehension(Sum(sympy.Mul(*factors), *limits), (i, 3), (j, 3))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", range(40))
def test_random_sums(seed):
    """The value and a gradient, against NumPy without stored arrays; entries outside of x and y are 0."""
    value = random_sum(seed)
    results = value, td.gradient(td.sum(value**2), x)
    arguments = x, y, f, g
    compiled = td.lambdify(arguments, results, "llvm")
    plain = td.lambdify(arguments, results, "numpy", temporaries=False)
    rng = np.random.default_rng(seed)
    arrays = [*rng.normal(size=(2, 16, 16)), *rng.normal(size=(2, 7))]
    for found, wanted in zip(compiled(*arrays), plain(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10 * max(1, np.abs(wanted).max()))


def test_an_empty_sum_is_zero_behind_infinite_factors():
    """The range of b may be empty, so that the sums stay one: ``inf*0`` is not a number."""
    count = sympy.Symbol("count", integer=True, nonnegative=True)
    value = over_entries(Sum(f[a] * g[b] * x[i + a, j + b], (b, 0, count - 1), (a, 0, 6)))
    function = td.lambdify((x, f, g, count), value, "llvm")
    for number, wanted in ((0, 0), (2, np.inf)):
        assert (function(np.ones((8, 8)), np.full(7, np.inf), np.ones(7), number) == wanted).all()


def test_a_sum_has_one_form_in_all_loops():
    """The squares of a Volterra series depend on i alone: the loops over p and q around i do not count as its own."""
    p, q, s = td.indices("p q s")
    signal, target, h = td.TensorSymbol("signal", 8), td.TensorSymbol("target", 6), td.TensorSymbol("h", (3, 3))
    linear = td.TensorSymbol("linear", 3)
    squares = Sum(h[p, q] * signal[s + p] * signal[s + q], (q, 0, 2), (p, 0, 2))
    value = Sum((Sum(linear[a] * signal[s + a], (a, 0, 2)) + squares - target[s]) ** 2, (s, 0, 5))
    text = td.generate_code((signal, target, linear, h), td.gradient(value, (linear, h)), "numba")
    assert text[text.index("def fill") : text.index("def checked")].count("target[i0]") == 1
