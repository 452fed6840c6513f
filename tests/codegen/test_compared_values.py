"""Values that are compared with their greatest one: the same numbers on both sides, in every kernel."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from every import every
from sympy import Eq, Max, Min, Mod, Piecewise, Rational, Symbol, exp, floor

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import OutOfShapeError, UnsupportedError
from sympy_tensordiff.integer.affine import Affine

i, j, k, n, m, p = td.indices("i j k n m p")
A, b, c, d = td.TensorSymbol("A", (n, m)), td.TensorSymbol("b", m), td.TensorSymbol("c", m), td.TensorSymbol("d", n)
x = td.TensorSymbol("x", n)
BODY = A[i, k] * b[k] * c[k] * d[i] * exp(d[i])
"""Loops over k around i multiply other factors first than loops over i around k."""
VALUE = td.TensorComprehension(td.IndexedMax(BODY, (k, 0, m - 1)), (i, n))

VALUES = td.IndexedMax(x[k] ** 2 * exp(x[k]), (k, 0, n - 1))


def given(dtype):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((300, 37), 37, 37, 300)]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("backend", "temporaries"), [("numba", True), ("numpy", True), ("numpy", False)])
def test_weights_are_shares_of_one(backend, temporaries):
    # By A the derivative of each row is the weights times the factors.
    ones = td.TensorComprehension(1, (i, n))
    by_rows, by_columns = td.vjp(VALUE, A, ones), td.vjp(VALUE, c, ones)
    kernel = td.lambdify([A, b, c, d], (by_rows, by_columns, VALUE), backend, temporaries=temporaries)
    # Which of two values is rounded up shows in either precision: it is compiled for one.
    for dtype in (np.float32,) if backend == "numba" else (np.float32, np.float64):
        arguments = given(dtype)
        rows, columns, value = kernel(*arguments)
        assert rows.dtype == columns.dtype == value.dtype == dtype
        assert ((rows != 0).sum(axis=1) == 1).all()
        # Euler: the value is linear in A, and in c.
        a, _, vector, _ = arguments
        rtol = 1e-4 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose((rows * a).sum(axis=1), value, rtol)
        np.testing.assert_allclose((columns * vector).sum(), value.sum(), rtol)


@every("backend", ["numpy", "numba", "cuda"])
@every("temporaries", [True, False])
def test_values_are_kept_once(backend, temporaries):
    program = build_program([A, b, c, d], td.vjp(VALUE, (A, c), d), temporaries=temporaries)
    remaining = [note for note in program.notes if "compared with their greatest or least one" in note]
    assert len(remaining) == 1
    text = td.generate_code([A, b, c, d], td.vjp(VALUE, (A, c), d), backend, temporaries=temporaries)
    # Once for the values, once where they are differentiated; CUDA has further kernels for parts of sums.
    kernels = text.partition("fill_t")[2].split("\n\n\n")
    functions = [part for part in kernels if "_parts" not in part.partition("(")[0]]
    assert 0 < "".join(functions).count("exp(") <= 3


@pytest.mark.usefixtures("uncompiled")
@every(
    "body",
    [A[i, k], -A[i, k], A[i, k] - b[k], A[i, k] * b[k], abs(A[i, k])],
    ids=["read", "negative", "-", "*", "abs"],
    turns=4,
)
def test_what_is_rounded_once_is_not_kept(body):
    value = td.TensorComprehension(td.IndexedMax(body, (k, 0, m - 1)), (i, n))
    program = build_program([A, b, d], td.vjp(value, A, d))
    assert not any("compared" in note for note in program.notes)
    rows, column, *_ = (v.astype(np.float32) for v in given(float))
    shares = td.lambdify([A, b, d], td.vjp(value, A, d))(rows, column, np.ones(300, np.float32))
    assert (shares != 0).sum() == 300


MAXIMA = {
    "rounded indices": td.IndexedMax(exp(x[floor(k / 2)]) * k, (k, 0, n - 1)),
    "clamped indices": td.IndexedMax(exp(x[Min(k + 2, n - 1)]) - k, (k, 0, n - 1)),
    "every other entry": td.IndexedMax(exp(x[2 * k]), (k, 0, floor((n - 1) / 2))),
    "two strides": td.IndexedMax(exp(x[3 * k + 5 * j] + x[2 * k]), (k, 0, 1), (j, 0, 1)),
    "sums of strides": td.IndexedMax(exp(x[2 * k + 3 * j]), (k, 0, 1), (j, 0, 2)),
    "differences": td.IndexedMax(exp(x[k] - x[j]), (j, 0, floor(k / 3)), (k, 0, n - 1)),
    "pairs": td.IndexedMax(exp(x[k]) * exp(-x[j]), (k, 2 * j, n - 1), (j, 0, n - 1)),
    "indices as numbers": td.IndexedSum(td.IndexedMax(exp(x[k]) * i**2 - k, (k, 0, n - 1)), (i, 0, 5)),
    "a maximum of maxima": td.IndexedMax(exp(td.IndexedMax(exp(x[j] / 9), (j, k, n - 1))) - k, (k, 0, n - 1)),
    "chosen by indices": td.IndexedSum(
        (p + 1) * td.IndexedMax(Piecewise((exp(x[i]) * x[i] ** 2, i < p), (-100, True)), (i, 0, n - 1)), (p, 0, n - 1)
    ),
    "a term chosen by indices": td.IndexedMax(
        exp(x[k]) * x[k] + Piecewise((x[n - 1 - k] ** 3, Eq(Mod(k, 3), 0)), (0, True)), (k, 0, n - 1)
    ),
    "chosen by values": td.IndexedMax(Piecewise((exp(x[k]) * k, x[k] > 2), (-exp(x[k]) * x[k], True)), (k, 0, n - 1)),
    "two of a form": td.IndexedMax(
        Piecewise((exp(x[k]) * x[k], k < 2), (-exp(x[k]) * x[k], k < 6), (exp(x[k - 2]) * x[k - 2], True)),
        (k, 0, n - 1),
    ),
    "rolled": td.IndexedMax(x[Mod(k + 1, n)] ** 3 * x[k] * x[Min(k + 2, n - 1)], (k, 0, n - 1)),
    "in another order": td.IndexedMax(Max(x[k] ** 3, x[Min(k + 1, n - 1)] * x[floor(k / 2)] ** 2), (k, 0, n - 1)),
    "a window": td.IndexedSum(td.IndexedMax(exp(x[i + k]), (k, 0, 2)) * (i + 1), (i, 1, n - 4)),
}


@pytest.mark.usefixtures("uncompiled")
@every("name", [*MAXIMA], turns=10)
def test_values_at_all_positions_are_shared(name):
    value = MAXIMA[name]
    slope = td.gradient(value, x)
    at = np.array([1.0, 3, 3, 2, 5, 5, 5, 1, 2, 1, 2, 3])
    expected = np.array(td.reference.differentiate(value, x, {x: at.tolist()}), float)
    compiled = [("numba", True)] if name == "differences" else []
    for backend, temporaries in [("numpy", True), ("numpy", False), *compiled]:
        gradient = td.lambdify([x], slope, backend, temporaries=temporaries)
        np.testing.assert_allclose(gradient(at), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


PERIODIC = {
    "two periods": (
        td.IndexedMax(2 * x[Mod(k + 1, n)] - x[Mod(k + 2, n)], (k, 0, n - 1)),
        lambda v: lambda at: 2 * np.roll(v, -1)[at] - np.roll(v, -2)[at],
    ),
    "from one": (
        td.IndexedMin(exp(x[Mod(k, n)]) * x[Mod(k - 1, n)], (k, 1, n)),
        lambda v: lambda at: np.exp(np.roll(v, -1)[at]) * v[at],
    ),
    "a number": (
        td.IndexedMax(x[Mod(k + 1, 3)] ** 2 - 3 * x[Mod(k + 2, 3)], (k, 0, 2)),
        lambda v: lambda at: v[(at + 1) % 3] ** 2 - 3 * v[(at + 2) % 3],
    ),
}


@pytest.mark.usefixtures("uncompiled")
@every("name", [*PERIODIC])
def test_periodic_reads_find_their_own_value(name):
    """A value is read from its array at `Mod(p - 1, n)`, not at `p - 1`, which is outside for `p = 0`."""
    function, written = PERIODIC[name]
    choose = np.argmin if isinstance(function, td.IndexedMin) else np.argmax
    kernels = [td.lambdify([x], td.gradient(function, x), backend) for backend in ("numpy", "numba")]
    rng = np.random.default_rng(5)
    for _ in range(20):
        at = rng.standard_normal(5)
        length = 3 if name == "a number" else 5
        best = choose([written(at)(place) for place in range(length)])
        step = 1e-6 * np.eye(5)
        expected = [(written(at + h)(best) - written(at - h)(best)) / 2e-6 for h in step]
        for kernel in kernels:
            np.testing.assert_allclose(kernel(at), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("uncompiled")
def test_the_least_entry_of_a_cross_product():
    a, y = td.TensorSymbol("a", 3), td.TensorSymbol("y", 3)
    rng = np.random.default_rng(6)
    for backend in ("numpy", "numba"):
        slope = td.lambdify([a, y], td.gradient(td.min(td.cross(a, y)), y), backend)
        for _ in range(20):
            left, right = rng.standard_normal((2, 3))
            np.testing.assert_allclose(slope(left, right), np.cross(left, np.eye(3))[:, np.cross(left, right).argmin()])


X = td.TensorSymbol("X", (n, m))
SYMMETRIC = {
    "another order": (
        td.IndexedMax(3 * x[i] ** 2 * x[Mod(i + j, n)] ** 2, (j, 1, n - 1), (i, 0, n - 1)),
        lambda v: max(3 * v[a] ** 2 * v[b] ** 2 for a in range(4) for b in range(4) if a != b),
    ),
    "from both ends": (
        td.IndexedMin(3 * x[i] ** 2 * x[n - 1 - i] ** 2, (i, 0, n - 1)),
        lambda v: min(3 * v**2 * v[::-1] ** 2),
    ),
    "around a circle": (
        td.IndexedMax(3 * exp(x[i]) * x[Mod(-i, n)] * exp(x[Mod(-i, n)]) * x[i], (i, 0, n - 1)),
        lambda v: max(3 * np.exp(v + np.roll(v[::-1], 1)) * v * np.roll(v[::-1], 1)),
    ),
    "more rows than columns": (
        td.IndexedMax(3 * exp(x[i] * x[j]) * x[i] * x[j], (i, 0, n - 1), (j, 0, floor((n + 1) / 2))),
        lambda v: max(3 * np.exp(a * b) * a * b for a in v for b in v[:3]),
    ),
    "pairs": (
        td.IndexedMax(3 * x[i] ** 2 * x[j] ** 2, (i, 0, j - 1), (j, 1, n - 1)),
        lambda v: max(3 * v[a] ** 2 * v[b] ** 2 for b in range(4) for a in range(b)),
    ),
}


@pytest.mark.usefixtures("uncompiled")
@every("name", [*SYMMETRIC], turns=8)
def test_values_that_are_equal_by_their_form_are_one_number(name):
    """`(3*a)*b` and `(3*b)*a` are rounded apart: which of them a maximum is made of is not left to chance."""
    function, written = SYMMETRIC[name]
    kernels = [td.lambdify([x], td.gradient(function, x), backend) for backend in ("numpy", "numba")]
    rng = np.random.default_rng(5)
    for _ in range(40):
        at = rng.standard_normal(4)
        step = 1e-6 * np.eye(4)
        expected = [(written(at + h) - written(at - h)) / 2e-6 for h in step]
        for kernel in kernels:
            np.testing.assert_allclose(kernel(at), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("uncompiled")
def test_the_closest_pair():
    """Behind `Ne(p, i)` the distance of `i` and `p` is that of `(i, p)` or of `(p, i)`."""
    distance = td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, m - 1))
    gradient = td.gradient(td.IndexedMin(distance, (i, 0, j - 1), (j, 1, n - 1)), X)
    at = np.random.default_rng(2).standard_normal((6, 3))
    pairs = [(a, b) for b in range(6) for a in range(b)]
    a, b = min(pairs, key=lambda pair: ((at[pair[0]] - at[pair[1]]) ** 2).sum())
    expected = np.zeros((6, 3))
    expected[a], expected[b] = 2 * (at[a] - at[b]), 2 * (at[b] - at[a])
    for backend in ("numpy", "numba"):
        np.testing.assert_allclose(td.lambdify([X], gradient, backend)(at), expected)


INNER = td.IndexedMax(x[j] * exp(x[k]), (j, k, n - 1))
MOVED = {
    "a multiple": td.IndexedMax(-3 * exp(x[k]) * x[k] / 7, (k, 0, n - 1)),
    "a multiple of a read": td.IndexedMin(3 * x[k] / 7, (k, 0, n - 1)),
    "other terms": td.IndexedMax(3 * exp(x[k]) / 7 - Rational(1, 10), (k, 0, n - 1)),
    "a maximum of maxima": td.IndexedMax(Rational(3, 7) * INNER - Rational(1, 3), (k, 0, n - 1)),
    "of three": td.IndexedSum(
        Max(3 * exp(x[k]) / 7 - Rational(1, 10), 3 * x[k] - k, x[k] / 3 + Rational(1, 7)), (k, 0, n - 1)
    ),
}


@pytest.mark.usefixtures("uncompiled")
@every("name", [*MOVED], turns=4)
def test_equations_that_sympy_moves(name):
    """A `Piecewise` that is made anew moves the numbers of an equation to one side."""
    gradient = td.gradient(MOVED[name], x)
    moved = pickle.loads(pickle.dumps(gradient))
    assert moved.atoms(Eq) != gradient.atoms(Eq)
    kernels = [td.lambdify([x], slope, "numpy", temporaries=False) for slope in (gradient, moved)]
    rng = np.random.default_rng(3)
    for _ in range(30):
        at = rng.standard_normal(12)
        expected, found = (kernel(at) for kernel in kernels)
        assert expected.any()
        np.testing.assert_array_equal(found, expected)


def test_a_comparison_with_another_value_stays():
    is_greatest = Eq(x[i], td.IndexedMax(2 * x[k] - 1, (k, 0, n - 1)))
    own = td.TensorComprehension(Piecewise((1, is_greatest), (0, True)), (i, n))
    assert td.lambdify([x], own, "numpy")(np.array([5.0, 1.0, 3.0])).tolist() == [0, 0, 0]
    assert td.lambdify([x], own, "numpy")(np.array([5.0, 1.0, 9.0, 9.0])[[0, 1]] - 4).tolist() == [1, 0]


def test_chosen_values_have_one_array_each():
    """A chosen value is stored as a function of its own indices, whatever the conditions depend on."""
    gradient = td.gradient(MAXIMA["chosen by indices"], x)
    program = build_program([x], gradient)
    remaining = [note for note in program.notes if "compared with their greatest" in note]
    assert [note.partition(":")[0] for note in remaining] == [program.temporaries[0].name]
    assert program.temporaries[0].shape == (Affine.variable("n"),)


def test_values_between_rounded_bounds_are_kept():
    s = Symbol("s", real=True)
    rows = td.TensorComprehension(td.IndexedMax(exp(k * s), (k, 0, floor(i / 2))), (i, n))
    shares = td.lambdify([s, d], td.vjp(rows, s, d), "numpy")
    weights = np.arange(1.0, 8)
    last = np.arange(7) // 2
    assert shares(-0.5, weights) == 0
    assert shares(0.0, weights) == weights @ (last / 2)
    np.testing.assert_allclose(shares(0.5, weights), weights @ (last * np.exp(last / 2)), rtol=1e-12)


@pytest.mark.parametrize("most", [1, 2])
def test_rounded_conditions_around_a_maximum(most):
    """The values are kept everywhere; what the conditions ask for outside is refused."""
    steps = Mod(3 * p + 1, 14)

    def value(k):
        return x[2 * k - 4 * steps + 4 * most + 1] / (b[p] ** 2 + 1)

    def ties(bound):
        greatest = td.IndexedMax(value(i), (i, 0, 2))
        count = td.IndexedSum(Piecewise((1, Eq(value(k), greatest)), (0, True)), (k, 0, 2))
        return td.TensorComprehension(Piecewise((1 / count, steps <= bound), (0, True)), (p, m))

    values = {x: (np.arange(4 * most + 6) % 5 < 2).astype(int), b: np.arange(11)}
    expected = np.array(td.reference.evaluate(ties(most), values), float)
    assert set(expected) == {0, 0.5, 1}
    arrays = [value.astype(float) for value in values.values()]
    np.testing.assert_array_equal(td.lambdify([x, b], ties(most), "numpy")(*arrays), expected)
    with pytest.raises(OutOfShapeError, match="is read outside of the shape of x, along"):
        td.lambdify([x, b], ties(most + 1), "numpy")(*arrays)


def test_refusals():
    s = Symbol("s", real=True)
    rows = td.TensorComprehension(td.IndexedMax(exp(k * s), (k, 0, floor(i / m))) * b[0], (i, n))
    with pytest.raises(UnsupportedError, match="cannot be kept, for their indices have no bounds of their own"):
        td.lambdify([s, b, d], td.vjp(rows, s, d), "numpy")
    other = td.TensorComprehension(Piecewise((1, Eq(exp(x[i]) * x[i], VALUES)), (0, True)), (i, n))
    with pytest.raises(UnsupportedError, match="cannot determine which value attains the maximum"):
        td.lambdify([x], other, "numpy")


@pytest.mark.usefixtures("uncompiled")
def test_an_equation_with_a_multiple_of_a_maximum_stays():
    """The maximum is not one of the values compared with its multiple: nothing is divided."""
    other = td.TensorSymbol("other", 1)
    kernel = td.lambdify(
        [x, other], Piecewise((1, Eq(49 * td.IndexedMax(x[k], (k, 0, n - 1)), other[0])), (0, True)), "numpy"
    )
    assert all(kernel(np.arange(float(top + 1)), np.array([49.0 * top])) == 1 for top in range(1, 60))


def test_values_of_one_form_are_entries_of_one_array():
    """An equation that a user writes holds where both sides are one value, however they are computed."""
    value = 3 * exp(x[i]) * d[i] - td.sin(x[i])
    count = td.IndexedSum(Piecewise((1, Eq(value, value.subs(i, j))), (0, True)), (i, 0, n - 1), (j, 0, n - 1))
    notes = build_program([x, d], count).notes
    assert len([note for note in notes if "compared with" in note]) == 1
    at = np.random.default_rng(4).standard_normal((2, 50))
    assert td.lambdify([x, d], count, "numpy")(*at) == 50
    other = td.IndexedSum(Piecewise((1, Eq(exp(x[i]) * d[i], exp(d[i]) * x[i])), (0, True)), (i, 0, n - 1))
    assert not [note for note in build_program([x, d], other).notes if "compared with" in note]
