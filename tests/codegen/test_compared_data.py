"""Maxima of values that data select: the derivative goes to the greatest ones of each segment."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Eq, KroneckerDelta, Max, Min, Piecewise, exp

import sympy_tensordiff as td
from sympy_tensordiff.errors import DataIndexError

i, j, p, n, m = td.indices("i j p n m")
v, lab = td.TensorSymbol("v", (n,)), td.TensorSymbol("lab", (n,), dtype=int)
x, idx = td.TensorSymbol("x", (m,)), td.TensorSymbol("idx", (n, 3), dtype=int)
W, w = td.TensorSymbol("W", (m, 2)), td.TensorSymbol("w", (n, m))
chosen, first = td.TensorSymbol("chosen", (m,), dtype=int), td.TensorSymbol("first", (n + 1,), dtype=int)

VALUES, LABELS = np.array([1.0, 3.0, 3.0, -2.0, 1.0, 4.0]), np.array([0, 1, 1, 2, 0, 5])
PAIRS = np.array([[0, 1, 0], [2, 3, 1], [1, 1, 0], [3, 0, 2], [0, 1, 1], [2, 0, 0]])
GIVEN = {v: VALUES, lab: LABELS, x: np.array([0.5, 3.0, -1.0, 2.0]), idx: PAIRS, W: np.arange(8.0).reshape(4, 2)}


def segment_maxima(body):
    """The greatest body of each segment, those of empty ones being far below."""
    greatest = td.IndexedMax(Piecewise((body, Eq(lab[i], p)), (-100, True)), (i, 0, n - 1))
    return td.TensorComprehension(greatest, (p, m))


def weighted(entries, size=m):
    return td.IndexedSum(entries[p] * (p + 1), (p, 0, size - 1))


def named_values(twice):
    """The value that each entry of ``chosen`` names; what indices say at the others is nobody's concern."""
    named = KroneckerDelta(i, chosen[p]) * td.IndexedProduct(x[idx[Max(0, i - 1), j]], (j, 0, 2))
    greatest = td.TensorComprehension(td.IndexedMax(named, (i, p, n - 1)), (p, m))
    return td.IndexedSum(greatest[p] * (p + 1) + twice * greatest[Min(p + 1, m - 1)] * x[p], (p, 0, m - 1))


def over_other_indices():
    value = td.IndexedSum(v[lab[i]] * w[Min(i + 2, n - 1), idx[i, j]], (j, 0, 2))
    body = Piecewise((value, chosen[p] < m), (v[Max(0, Min(2 * i - p, n - 1))], True))
    greatest = td.TensorComprehension(td.IndexedMax(body, (i, Min(n - 1, first[p]), n - 1)), (p, m))
    return td.IndexedSum(greatest[Min(p, m - 1)] * v[p], (p, 0, n - 1))


def in_conditions(body):
    greatest = td.TensorComprehension(td.IndexedMax(body, (i, 0, n - 1)), (p, n))
    return td.IndexedSum(greatest[Min(p + 1, n - 1)] * (p + 2), (p, 0, n - 1))


def bins(value, last=2):
    return td.IndexedSum(Piecewise((value, Eq(lab[i], j)), (0, True)), (i, 0, n - 1)), (j, 0, last)


ROUNDED = exp(v[i]) * v[i] ** 2
EDGE = x[idx[i, 0]] - x[idx[i, 1]]
BINS = td.IndexedSum(KroneckerDelta(j, lab[i]) * v[i], (i, 0, n - 1))
PLACES = td.IndexedSum((W[idx[i, 0], j] - W[idx[i, 1], j]) ** 2, (j, 0, 1))
SEGMENTS = {v: VALUES, lab: LABELS, m: 4}  # two ties, and a label outside of all segments
# Such a label comes with an index that leads nowhere.
NOWHERE = {
    x: np.array([1.0, 2.0, 3.0]),
    idx: np.array([[2], [0], [9], [0], [1]]) * np.ones((1, 3), int),
    lab: np.array([0, 1, 7, 1, 2]),
}
NAMED = {
    x: np.array([1.5, 2.0, 0.5]),
    idx: np.array([[1, 0, 2], [9, 0, 0], [1, 1, 2], [-4, 0, 0]]),
    chosen: np.array([1, 3, 3]),
}
RNG = np.random.default_rng(3)
OTHERS = {
    v: VALUES[:4],
    w: RNG.normal(size=(4, 3)),
    lab: np.array([3, 0, 1, 1]),
    idx: RNG.integers(0, 3, (4, 3)),
    first: np.array([1, 0, 2, 3, 3]),
    chosen: np.array([2, 0, 3]),
}
CONDITIONS = {v: VALUES / 2, lab: np.array([0, 2, 2, 1, 4, 0])}
_window = Piecewise((td.IndexedSum(v[j], (j, 0, lab[p - 2])), i <= p - 2), (v[i], True))
_windows = td.TensorComprehension(td.IndexedMax(_window, (i, 0, 2)), (p, n))
# A function, what it is differentiated by, arguments, and others with what is said of them.
ROWS = {
    "segments of entries": (weighted(segment_maxima(v[i])), v, SEGMENTS),
    "segments of a table": (weighted(segment_maxima(td.TensorComprehension(ROUNDED, (i, n))[i])), v, SEGMENTS),
    "segments of what is rounded": (weighted(segment_maxima(ROUNDED)), v, SEGMENTS),
    "segments of gathers": (
        weighted(segment_maxima(exp(x[idx[i, 0]]) * x[idx[i, 0]])),
        x,
        NOWHERE,
        ({lab: np.array([0, 1, 2, 1, 2])}, r"idx\[2, 0\] is 9"),
    ),
    "products of gathers": (
        td.IndexedMax(td.IndexedProduct(x[idx[i, j]], (j, 0, 2)), (i, 0, n - 1)),
        x,
        {x: np.array([1.0, 2.0, 3.0]), idx: np.array([[0, 1, 1], [2, 2, 1], [0, 0, 2], [1, 2, 2]])},
    ),
    "values that data name": (named_values(0), x, NAMED, ({chosen: np.array([1, 2, 3])}, r"idx\[1, 0\] is 9")),
    "values that data name twice": (named_values(1), x, NAMED),
    "over other indices": (over_other_indices(), w, OTHERS),
    "ranges that data end": (weighted(_windows, n), v, {v: VALUES, lab: np.array([0, 2, 1, 5, -9, 9])}),
    "a delta next to it": (
        in_conditions(exp(v[i]) * v[i] * KroneckerDelta(i, lab[p]) * v[Min(p + 1, n - 1)]),
        v,
        CONDITIONS,
    ),
    "a case around": (
        in_conditions(Piecewise((exp(v[i]) * v[Max(0, p - 1)], Eq(lab[p], lab[i])), (-9, True))),
        v,
        CONDITIONS,
    ),
    "a bin": (td.IndexedMax(BINS, (j, 0, 2)), v, GIVEN),
    "the least bin": (td.IndexedMin(BINS, (j, 0, 2)) ** 2, v, GIVEN),
    "a function of a bin": (td.IndexedMax(exp(BINS) * BINS, (j, 0, 2)), v, GIVEN),
    "a bin of squares": (td.IndexedMax(*bins(v[i] ** 2, 5)), v, GIVEN),
    "an edge": (td.IndexedMax(EDGE**2, (i, 0, n - 1)), x, GIVEN),
    "the length of an edge": (td.IndexedMax(sympy.sqrt(EDGE**2 + 1) * x[idx[i, 0]], (i, 0, n - 1)), x, GIVEN),
    "an edge between points": (td.IndexedMax(PLACES, (i, 0, n - 1)), W, GIVEN),
}


LONG = {"over other indices"}


@pytest.mark.in_turns(10)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if n in LONG else ()) for n in ROWS])
def test_the_greatest_of_what_data_select(name):
    """By turns NumPy's kernels with and without temporaries, and Numba's, against the interpreter."""
    function, wrt, given, *refusals = ROWS[name]
    values = {symbol: value for symbol, value in given.items() if function.has(symbol)}
    gradient = td.gradient(function, wrt)
    expected = np.array(td.reference.differentiate(function, wrt, values), float)
    assert expected.any()
    backend, temporaries = (("numpy", True), ("numba", True), ("numpy", False))[[*ROWS].index(name) % 3]
    kernel = td.lambdify(list(values), gradient, backend, temporaries=temporaries)
    np.testing.assert_allclose(kernel(*values.values()), expected, rtol=1e-12)
    for changed, message in refusals:
        with pytest.raises(DataIndexError, match=message):
            kernel(*(values | changed).values())


def test_a_filter_along_letters():
    """Maxima over a text of sums of letters at clamped places: weights and embedding."""
    s, t, k, d, T = td.indices("s t k d T")
    E, filters = td.TensorSymbol("E", (5, 2)), td.TensorSymbol("W", (3, 2))
    letters, g = td.TensorSymbol("letters", (2, T), dtype=int), td.TensorSymbol("g", 2)
    match = td.IndexedSum(E[letters[s, Min(t + k, T - 1)], d] * filters[k, d], (d, 0, 1), (k, 0, 2))
    best = td.TensorComprehension(td.IndexedMax(match, (t, 0, T - 1)), (s, 2))
    rng = np.random.default_rng(5)
    values = {E: rng.normal(size=(5, 2)), filters: rng.normal(size=(3, 2))}
    values |= {letters: rng.integers(0, 5, (2, 6)), g: np.array([1.0, 2.0])}
    kernel = td.lambdify(list(values), td.vjp(best, (E, filters), g), "numpy")
    loss = td.IndexedSum(best[s] * g[s], (s, 0, 1))
    for found, variable in zip(kernel(*values.values()), (E, filters), strict=True):
        expected = np.array(td.reference.differentiate(loss, variable, values), float)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
