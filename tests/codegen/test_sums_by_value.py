"""Sums that begin or end where data say, and their transposes: one pass over the data, values as without arrays."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
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


@every("name", list(FORMS))
def test_work_is_less_than_for_data_without_a_range(name):
    """Data without a declared range are read in loops around the sums. (Rare recalculations of running sums count.)"""
    data = [td.TensorSymbol(array.name, array.shape, dtype=int) for array in (first, time)]
    assert work(ARGUMENTS, name) < 0.8 * work((*ARGUMENTS[:4], *data), name)


def test_factors_that_are_infinite_count_only_where_there_are_terms():
    """Where no term counts the sum is 0, also if the factor in front of it is infinite."""
    total = over(where(y[t] / x[i], i >= first[t]), (t, g))
    function = td.lambdify((x, y, first), td.TensorComprehension(total, (i, n)), "llvm")
    assert function([0.0, 0.0, 2.0], [3.0], [2]) == pytest.approx([0, 0, 1.5])


def test_data_of_a_large_declared_range_get_no_array_of_all_values():
    """The array would have an entry for each of a million codes."""
    code = td.TensorSymbol("code", n, dtype=int, below=10**6)
    value = over(over(where(x[j], code[j] >= code[i]), (j, n)) ** 2, (i, n))
    program = build_program((x, code), td.gradient(value, x))
    assert not any(sympy.Integer(10**6) in map(sympy.sympify, array.shape) for array in program.temporaries)
