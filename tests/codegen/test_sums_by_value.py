"""Sums that begin or end where data say, and their transposes: one pass over the data, values as without arrays."""

from __future__ import annotations

import numpy as np
import pytest
from every import every
from sympy import Piecewise, exp, log, sin

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.work import NOMINAL_SIZE, nominal_work
from sympy_tensordiff.codegen.program import build_program

i, j, k, t, n, m, g, d = td.indices("i j k t n m g d")
x, y, w = td.TensorSymbol("x", n), td.TensorSymbol("y", g), td.TensorSymbol("w", m)
Z = td.TensorSymbol("Z", (g, d))
first = td.TensorSymbol("first", g, dtype=int, below=n)
time = td.TensorSymbol("time", n, dtype=int, below=m)
Sum = td.IndexedSum
ARGUMENTS = (x, y, Z, w, first, time)


def where(value, condition):
    return Piecewise((value, condition), (0, True))


def over(value, *indices):
    return Sum(value, *((index, 0, size - 1) for index, size in indices))


AT_RISK = over(log(Sum(exp(x[j]), (j, first[t], n - 1))) * y[t], (t, g))
BEFORE = over(Sum(x[j], (j, 0, first[t] - 1)) ** 2, (t, g))
LATER = over(log(over(where(exp(x[j]), time[j] >= time[i]), (j, n))), (i, n))
"""Cox's partial likelihood with subjects in the order of their times, and with times that are integers."""
FORMS = {
    "at risk": (AT_RISK, (x, y)),
    "before": (BEFORE, (x,)),
    "later": (LATER, (x,)),
    "below an index": (over(over(where(x[i] * sin(y[t]), i >= first[t]), (t, g)) ** 2, (i, n)), (x, y)),
    "above an index": (over(over(where(y[t], 2 * i < first[t] + 3), (t, g)) ** 2 * x[i], (i, n)), (x, y)),
    "poles outside": (over(over(where(y[t] / x[i], i < 5 - first[t]), (t, g)) ** 2, (i, n)), (x, y)),
    "columns": (over(over(where(Z[t, k] * x[i], i >= first[t]), (t, g)) ** 2, (i, n), (k, d)), (x, Z)),
    "mixed": (over(over(where(y[t] * sin(x[i] * y[t]), i >= first[t]), (t, g)), (i, n)), (x, y)),
    "guarded data": (over(x[i] * over(where(y[t], (first[t] >= 2) & (i >= first[t])), (t, g)), (i, n)), (x, y)),
    "moving data": (over(x[i] * over(where(y[t], (i >= t) & (i >= first[t])), (t, g)), (i, n)), (x, y)),
    "gathers": (over(over(where(w[time[j]] * x[j], time[j] >= time[i] + 1), (j, n)) ** 2, (i, n)), (x, w)),
    "greatest": (over(td.IndexedMax(x[j], (j, first[t], n - 1)) * y[t], (t, g)), (x, y)),
}


def values(sizes, seed=3):
    rng = np.random.default_rng(seed)
    shape = dict(zip((n, m, g, d), sizes, strict=True))
    floats = [rng.normal(size=[shape[size] for size in array.shape]) for array in ARGUMENTS[:4]]
    return (*floats, rng.integers(0, shape[n], shape[g]), rng.integers(0, shape[m], shape[n]))


@every("name", list(FORMS))
@every("backend", ["numpy", "llvm"])
def test_values_and_gradients_are_those_without_arrays(name, backend):
    value, by = FORMS[name]
    results = (value, *(td.gradient(value, argument) for argument in by))
    function = td.lambdify(ARGUMENTS, results, backend)
    plain = td.lambdify(ARGUMENTS, results, "numpy", temporaries=False)
    for sizes in ((7, 4, 5, 2), (1, 1, 1, 1), (13, 6, 9, 3), (3, 2, 40, 2), (30, 30, 1, 1)):
        arrays = values(sizes)
        for found, expected in zip(function(*arrays), plain(*arrays), strict=True):
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_sums_at_risk_of_large_exponents():
    """Running sums of exponentials are scaled, in both directions, although no two sums have one scale."""
    function = td.lambdify(ARGUMENTS, (AT_RISK, td.gradient(AT_RISK, x)), "llvm")
    plain = td.lambdify(ARGUMENTS, (AT_RISK, td.gradient(AT_RISK, x)), "numpy", temporaries=False)
    _, *others = values((40, 5, 11, 1))
    for slope in (-900, 900):
        exponents = np.linspace(0, slope, 40)
        for found, expected in zip(function(exponents, *others), plain(exponents, *others), strict=True):
            assert np.isfinite(found).all() and found == pytest.approx(expected, rel=1e-9, abs=1e-300)


def work(arguments, name):
    """The nominal number of operations of a value and its gradients, with the data of these arguments."""
    value, by = FORMS[name]
    value = value.xreplace(dict(zip(ARGUMENTS, arguments, strict=True)))
    results = (value, *(td.gradient(value, argument) for argument in by))
    return nominal_work(build_program(arguments, results))


@every("name", ["before", "below an index", "above an index", "gathers"])
def test_work_is_linear_in_the_data(name):
    assert work(ARGUMENTS, name) < 150 * NOMINAL_SIZE < 3 * NOMINAL_SIZE**2


@every("name", ["mixed", "moving data"])
def test_sums_that_are_not_running_ones_stay_as_they_are(name):
    """Their terms, or their ranges, depend on the compared index."""
    data = [td.TensorSymbol(array.name, array.shape, dtype=int) for array in (first, time)]
    assert work(ARGUMENTS, name) <= work((*ARGUMENTS[:4], *data), name)


@every("name", [name for name in FORMS if name not in ("poles outside", "mixed", "guarded data", "moving data")])
def test_work_is_less_than_for_data_without_a_range(name):
    """Data without a declared range are read in loops around the sums. (Rare recalculations of running sums count.)"""
    data = [td.TensorSymbol(array.name, array.shape, dtype=int) for array in (first, time)]
    assert work(ARGUMENTS, name) < 0.8 * work((*ARGUMENTS[:4], *data), name)


def test_factors_that_are_not_finite_count_only_where_there_are_terms():
    """Where no term counts the sum is 0, whatever the factor in front; terms that cancel do count."""
    total = over(where(y[t] / x[i], i >= first[t]), (t, g))
    function = td.lambdify((x, y, first), td.TensorComprehension(total, (i, n)), "llvm")
    assert function([0.0, 0.0, 2.0], [3.0], [2]) == pytest.approx([0, 0, 1.5])
    assert np.isnan(function([1.0, 0.0, 2.0], [3.0, -3.0], [1, 1])).tolist() == [False, True, False]


def stored_tables(arguments, value):
    """The shapes of temporary arrays with two or more axes."""
    return [str(array.shape) for array in build_program(arguments, value).temporaries if len(array.shape) > 1]


def test_arrays_of_running_sums_are_no_larger_than_what_is_read():
    """There would be an array for each value of the compared index, of a second limit, or of a place in a segment."""
    begin = td.TensorSymbol("begin", (g, n), dtype=int, below=m)
    start = td.TensorSymbol("start", g + 1, dtype=int, below=n + 1)
    of_each_index = over(over(where(y[t], i >= begin[t, i]), (t, g)) ** 2 * x[i], (i, n))
    second_limit = over(over(Sum(sin(x[j]), (j, first[t], i)) ** 2, (t, g)), (i, n))
    segments = over(Sum(log(Sum(exp(x[j] * x[i]), (j, first[t], n - 1))), (i, start[t], start[t + 1] - 1)), (t, g))
    assert not stored_tables((x, y, w, begin), of_each_index)
    assert not stored_tables((x, y, first), FORMS["mixed"][0])
    assert not stored_tables((x, y, first), FORMS["moving data"][0])
    assert stored_tables((x, y, first), second_limit) == ["(g, n)"]
    assert not stored_tables((x, y, first, start), segments)


def test_greatest_values_below_an_empty_range_in_torch():
    """With one value of the data only there is no earlier one."""
    pytest.importorskip("torch", reason="needs pip install torch")
    value = over(log(1 + over(where(exp(x[j]), time[j] < time[i]), (j, n))) * x[i], (i, n))
    arrays = np.array([0.5, -1.0]), np.zeros(1), np.array([0, 0])
    assert float(td.lambdify((x, w, time), value, "torch")(*arrays)) == 0


def test_data_of_a_large_declared_range_get_no_array_of_all_values():
    """The arrays would have an entry for each of a million codes."""
    code, level = td.TensorSymbol("code", n, dtype=int, below=10**6), td.TensorSymbol("level", n, dtype=int, below=5)
    later = over(over(where(x[j], code[j] >= code[i]), (j, n)) ** 2, (i, n))
    large = td.TensorSymbol("large", 10**6)
    at_code = over(Sum(large[j], (j, code[i], 10**6 - 1)) ** 2, (i, n))
    few = over(over(where(x[j], level[j] >= level[i]), (j, n)) ** 2, (i, n))

    def extents(value, data):
        arrays = build_program((x, data), (value, td.gradient(value, x))).temporaries
        return {extent.constant for array in arrays for extent in array.shape if extent.is_constant}

    assert extents(few, level) == {5} and extents(later, code) == set()
    assert not build_program((large, code), at_code).temporaries
