"""Maxima of values that data select: the derivative goes to the greatest ones of each segment."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Eq, KroneckerDelta, Max, Min, Piecewise, Symbol, exp

import sympy_tensordiff as td
from sympy_tensordiff.errors import DataIndexError

i, j, p, n, m = td.indices("i j p n m")
v, lab = td.TensorSymbol("v", (n,)), td.TensorSymbol("lab", (n,), dtype=int)
x, idx = td.TensorSymbol("x", (m,)), td.TensorSymbol("idx", (n, 3), dtype=int)

ROUNDED = exp(v[i]) * v[i] ** 2
NAMED = td.TensorComprehension(ROUNDED, (i, n))

VALUES = np.array([1.0, 3.0, 3.0, -2.0, 1.0, 4.0])
LABELS = np.array([0, 1, 1, 2, 0, 5])


def segment_maxima(body):
    """The greatest body of each segment, those of empty ones being far below."""
    greatest = td.IndexedMax(Piecewise((body, Eq(lab[i], p)), (-100, True)), (i, 0, n - 1))
    return td.TensorComprehension(greatest, (p, m))


SEGMENTED = {"read": v[i], "named": NAMED[i], "rounded": ROUNDED}


@pytest.mark.parametrize(
    ("backend", "name", "temporaries"),
    [
        *(("numpy", name, temporaries) for name in SEGMENTED for temporaries in (True, False)),
        *[("numba", "read", True), ("numba", "rounded", True)],
    ],
)
def test_segment_maxima(backend, name, temporaries):
    body = SEGMENTED[name]
    total = td.IndexedSum(segment_maxima(body)[p] * (p + 1), (p, 0, m - 1))
    gradient = td.gradient(total, v)
    got = td.lambdify([v, lab, m], gradient, backend, temporaries=temporaries)(VALUES, LABELS, 4)
    slopes = np.ones(6) if body == v[i] else np.exp(VALUES) * (VALUES**2 + 2 * VALUES)
    # The first segment holds a tie, and so does the second; the last label is outside.
    shares = np.array([0.5, 1.0, 1.0, 3.0, 0.5, 0.0])
    np.testing.assert_allclose(got, shares * slopes, rtol=1e-12)


@pytest.mark.parametrize("temporaries", [True, False])
def test_maxima_of_products_of_gathers(temporaries):
    greatest = td.IndexedMax(td.IndexedProduct(x[idx[i, j]], (j, 0, 2)), (i, 0, n - 1))
    gradient = td.lambdify([x, idx], td.gradient(greatest, x), "numpy", temporaries=temporaries)
    at, rows = np.array([1.0, 2.0, 3.0]), np.array([[0, 1, 1], [2, 2, 1], [0, 0, 2], [1, 2, 2]])
    # Two rows tie at 18: each has half of the derivative.
    np.testing.assert_allclose(gradient(at, rows), [0.0, 9.0, 12.0], rtol=1e-12)


@pytest.mark.parametrize("temporaries", [True, False])
def test_values_that_data_select_are_not_asked_for_elsewhere(temporaries):
    """A label outside of all segments comes with indices that lead nowhere."""
    c = Symbol("c", real=True)
    greatest = segment_maxima(exp(c * x[idx[i, 0]]) * x[idx[i, 0]])
    slope = td.lambdify([c, x, idx, lab], td.jacobian(greatest, c), "numpy", temporaries=temporaries)
    at, rows = np.array([1.0, 2.0, 3.0]), np.array([[2], [0], [9], [0], [1]]) * np.ones((1, 3), int)
    # The greatest of the segments stand at 3, 1 (a tie) and 2.
    greatest_at = np.array([3.0, 1.0, 2.0])
    expected = greatest_at**2 * np.exp(greatest_at)
    np.testing.assert_allclose(slope(1.0, at, rows, np.array([0, 1, 7, 1, 2])), expected, rtol=1e-12)
    with pytest.raises(DataIndexError, match="idx"):
        slope(1.0, at, rows, np.array([0, 1, 2, 1, 2]))


@pytest.mark.parametrize("temporaries", [True, False])
@pytest.mark.parametrize("twice", [0, 1])
def test_conditions_around_a_maximum_tell_which_of_its_values_are_asked_for(temporaries, twice):
    """The value that each entry of ``chosen`` names; what indices say at the others is nobody's concern."""
    chosen = td.TensorSymbol("chosen", (m,), dtype=int)
    named = KroneckerDelta(i, chosen[p]) * td.IndexedProduct(x[idx[Max(0, i - 1), j]], (j, 0, 2))
    greatest = td.TensorComprehension(td.IndexedMax(named, (i, p, n - 1)), (p, m))
    total = td.IndexedSum(greatest[p] * (p + 1) + twice * greatest[Min(p + 1, m - 1)] * x[p], (p, 0, m - 1))
    values = {x: [1.5, 2.0, 0.5], idx: [[1, 0, 2], [9, 0, 0], [1, 1, 2], [-4, 0, 0]], chosen: [1, 3, 3]}
    kernel = td.lambdify([x, idx, chosen], td.gradient(total, x), "numpy", temporaries=temporaries)
    expected = np.array(td.reference.differentiate(total, x, values), float)
    assert expected.all()
    np.testing.assert_allclose(kernel(*map(np.array, values.values())), expected, rtol=1e-12)
    with pytest.raises(DataIndexError, match=r"idx\[1, 0\] is 9"):
        kernel(np.array(values[x]), np.array(values[idx]), np.array([1, 2, 3]))


def test_maxima_over_other_indices_share_what_is_kept():
    w, first = td.TensorSymbol("w", (n, m)), td.TensorSymbol("first", (n + 1,), dtype=int)
    chosen = td.TensorSymbol("chosen", (m,), dtype=int)
    value = td.IndexedSum(v[lab[i]] * w[Min(i + 2, n - 1), idx[i, j]], (j, 0, 2))
    body = Piecewise((value, chosen[p] < m), (v[Max(0, Min(2 * i - p, n - 1))], True))
    greatest = td.TensorComprehension(td.IndexedMax(body, (i, Min(n - 1, first[p]), n - 1)), (p, m))
    total = td.IndexedSum(greatest[Min(p, m - 1)] * v[p], (p, 0, n - 1))
    rng = np.random.default_rng(3)
    values = {v: VALUES[:4], w: rng.normal(size=(4, 3)), lab: np.array([3, 0, 1, 1]), idx: rng.integers(0, 3, (4, 3)),
              first: np.array([1, 0, 2, 3, 3]), chosen: np.array([2, 0, 3])}  # fmt: skip
    kernel = td.lambdify(list(values), td.gradient(total, w), "numpy")
    expected = np.array(td.reference.differentiate(total, w, values), float)
    np.testing.assert_allclose(kernel(*values.values()), expected, rtol=1e-12)


def test_data_in_the_range_of_a_value_are_read_inside_where_it_is_kept():
    window = td.IndexedSum(v[j], (j, 0, lab[p - 2]))
    greatest = td.IndexedMax(Piecewise((window, i <= p - 2), (v[i], True)), (i, 0, 2))
    total = td.IndexedSum(td.TensorComprehension(greatest, (p, n))[p] * (p + 1), (p, 0, n - 1))
    values = {v: VALUES, lab: np.array([0, 2, 1, 5, -9, 9])}
    gradient = td.lambdify([v, lab], td.gradient(total, v), "numpy")
    expected = np.array(td.reference.differentiate(total, v, values), float)
    np.testing.assert_allclose(gradient(*values.values()), expected, rtol=1e-12)


@pytest.mark.parametrize("temporaries", [True, False])
def test_maxima_of_segments_of_gathers(temporaries):
    """By what is gathered; the label outside of all segments comes with an index that leads nowhere."""
    greatest = segment_maxima(exp(x[idx[i, 0]]) * x[idx[i, 0]])
    total = td.IndexedSum(greatest[p] * (p + 1), (p, 0, m - 1))
    gradient = td.lambdify([x, idx, lab], td.gradient(total, x), "numpy", temporaries=temporaries)
    at, rows = np.array([1.0, 2.0, 3.0]), np.array([[2], [0], [9], [0], [1]]) * np.ones((1, 3), int)
    values = {x: at, idx: rows, lab: np.array([0, 1, 7, 1, 2])}
    expected = np.array(td.reference.differentiate(total, x, values), float)
    np.testing.assert_allclose(gradient(*values.values()), expected, rtol=1e-12)
    with pytest.raises(DataIndexError, match=r"idx\[2, 0\] is 9"):
        gradient(at, rows, np.array([0, 1, 2, 1, 2]))


def test_a_filter_along_letters():
    """Maxima over a text of sums of letters at clamped places: weights and embedding."""
    s, t, k, d, T = td.indices("s t k d T")
    E, W = td.TensorSymbol("E", (5, 2)), td.TensorSymbol("W", (3, 2))
    letters, g = td.TensorSymbol("letters", (2, T), dtype=int), td.TensorSymbol("g", 2)
    match = td.IndexedSum(E[letters[s, Min(t + k, T - 1)], d] * W[k, d], (d, 0, 1), (k, 0, 2))
    best = td.TensorComprehension(td.IndexedMax(match, (t, 0, T - 1)), (s, 2))
    rng = np.random.default_rng(5)
    values = {
        E: rng.normal(size=(5, 2)),
        W: rng.normal(size=(3, 2)),
        letters: rng.integers(0, 5, (2, 6)),
        g: [1.0, 2.0],
    }
    kernel = td.lambdify([E, W, letters, g], td.vjp(best, (E, W), g), "numpy")
    loss = td.IndexedSum(best[s] * g[s], (s, 0, 1))
    for found, variable in zip(kernel(*values.values()), (E, W), strict=True):
        expected = np.array(td.reference.differentiate(loss, variable, values), float)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


ELSEWHERE = {
    "a delta": exp(v[i]) * v[i] * KroneckerDelta(i, lab[p]) * v[Min(p + 1, n - 1)],
    "a case": Piecewise((exp(v[i]) * v[Max(0, p - 1)], Eq(lab[p], lab[i])), (-9, True)),
}


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("temporaries", [True, False])
def test_data_in_conditions_are_read_inside_where_values_are_kept(name, temporaries):
    greatest = td.TensorComprehension(td.IndexedMax(ELSEWHERE[name], (i, 0, n - 1)), (p, n))
    total = td.IndexedSum(greatest[Min(p + 1, n - 1)] * (p + 2), (p, 0, n - 1))
    values = {v: VALUES / 2, lab: np.array([0, 2, 2, 1, 4, 0])}
    gradient = td.lambdify([v, lab], td.gradient(total, v), "numpy", temporaries=temporaries)
    expected = np.array(td.reference.differentiate(total, v, values), float)
    np.testing.assert_allclose(gradient(*values.values()), expected, rtol=1e-12)


W = td.TensorSymbol("w", (m, 2))
BINS = td.IndexedSum(KroneckerDelta(j, lab[i]) * v[i], (i, 0, n - 1))
EDGE = x[idx[i, 0]] - x[idx[i, 1]]
PLACES = td.IndexedSum((W[idx[i, 0], j] - W[idx[i, 1], j]) ** 2, (j, 0, 1))
GREATEST = {
    "bin": (v, td.IndexedMax(BINS, (j, 0, 2))),
    "least bin": (v, td.IndexedMin(BINS, (j, 0, 2)) ** 2),
    "function of a bin": (v, td.IndexedMax(exp(BINS) * BINS, (j, 0, 2))),
    "bin of squares": (
        v,
        td.IndexedMax(td.IndexedSum(Piecewise((v[i] ** 2, Eq(lab[i], j)), (0, True)), (i, 0, n - 1)), (j, 0, 5)),
    ),
    "edge": (x, td.IndexedMax(EDGE**2, (i, 0, n - 1))),
    "length of an edge": (x, td.IndexedMax(sympy.sqrt(EDGE**2 + 1) * x[idx[i, 0]], (i, 0, n - 1))),
    "edge between points": (W, td.IndexedMax(PLACES, (i, 0, n - 1))),
}


@pytest.mark.parametrize("temporaries", [True, False])
@pytest.mark.parametrize("name", GREATEST)
def test_the_greatest_of_what_data_add_up_or_select(name, temporaries):
    """A value that is compared with the greatest may be written with the other sign, or have an equation that does."""
    wrt, greatest = GREATEST[name]
    pairs = np.array([[0, 1, 0], [2, 3, 1], [1, 1, 0], [3, 0, 2], [0, 1, 1], [2, 0, 0]])
    values = {v: VALUES, lab: LABELS, x: np.array([0.5, 3.0, -1.0, 2.0]), idx: pairs, W: np.arange(8.0).reshape(4, 2)}
    given = {symbol: value for symbol, value in values.items() if greatest.has(symbol)}
    gradient = td.lambdify(list(given), td.gradient(greatest, wrt), "numpy", temporaries=temporaries)
    expected = np.array(td.reference.differentiate(greatest, wrt, given), float)
    np.testing.assert_allclose(gradient(*given.values()), expected, rtol=1e-12)
