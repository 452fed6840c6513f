"""Values between limits that data give are stored as those between known limits are."""

from __future__ import annotations

import numpy as np
import pytest
from every import every
from sympy import Symbol, exp, log, loggamma

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.work import nominal_work
from sympy_tensordiff.codegen.program import build_program

i, j, k, t, u, n, m, g, d = td.indices("i j k t u n m g d")
last = Symbol("last", integer=True)
x, y, Z = td.TensorSymbol("x", n), td.TensorSymbol("y", g), td.TensorSymbol("Z", (g, d))
first = td.TensorSymbol("first", g, dtype=int, below=6)
length, order = td.TensorSymbol("length", g, dtype=int, below=9), td.TensorSymbol("order", (g, 8), dtype=int, below=n)
start = td.TensorSymbol("start", g + 1, dtype=int, below=n + 1)
ARGUMENTS = (x, y, Z, first, length, order, start, last)


def over(value, *indices):
    return td.IndexedSum(value, *((index, 0, size - 1) for index, size in indices))


def truncated(low):
    """The logarithm of a truncated series whose terms are sums, as in N-mixture models."""
    terms = over(loggamma(u + 1 + Z[t, k] ** 2) - u * Z[t, k], (k, d)) - loggamma(u + 1)
    return over(log(td.IndexedSum(exp(u * y[t] + terms), (u, low, last))), (t, g))


def rankings(count):
    """The Plackett-Luce likelihood of ranked items."""
    later = td.IndexedSum(exp(x[order[t, j]]), (j, i, count - 1))
    return td.IndexedSum(x[order[t, i]] - log(later), (i, 0, count - 1), (t, 0, g - 1))


FORMS = {
    "truncated": (truncated(first[t]), (y, Z), truncated(0)),
    "rankings": (rankings(length[t]), (x,), rankings(8)),
}


def values(sizes, seed=3):
    items, groups, terms, greatest = sizes
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 6, groups), rng.integers(0, 9, groups), rng.integers(0, items, (groups, 8))
    starts = np.sort(rng.integers(0, items + 1, groups + 1))
    return rng.normal(size=items), rng.normal(size=groups), rng.normal(size=(groups, terms)), *data, starts, greatest


def results(value, by):
    return (value, *(td.gradient(value, argument) for argument in by))


@every("name", list(FORMS))
@every("backend", ["numpy", "llvm"])
def test_values_and_gradients_are_those_without_arrays(name, backend):
    value, by, _ = FORMS[name]
    function = td.lambdify(ARGUMENTS, results(value, by), backend)
    plain = td.lambdify(ARGUMENTS, results(value, by), "numpy", temporaries=False)
    for sizes in ((7, 4, 2, 9), (1, 1, 1, 5), (3, 12, 3, 6), (9, 20, 2, 30)):
        arrays = values(sizes)
        for found, expected in zip(function(*arrays), plain(*arrays), strict=True):
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-10)


@every("name", list(FORMS))
def test_work_is_that_of_known_limits(name):
    """The terms are computed once for the greatest, the sum and the gradients."""
    value, by, known = FORMS[name]
    work = nominal_work(build_program(ARGUMENTS, results(value, by), rows=True))
    assert work < 1.5 * nominal_work(build_program(ARGUMENTS, results(known, by), rows=True))


@every("low", [0, first[t]])
def test_work_is_that_of_limits_that_are_never_empty(low):
    """The last index may be negative, and the terms fill an array whose length is at least 0."""
    work = []
    for end in (last, Symbol("last", integer=True, positive=True)):
        chosen = over(
            loggamma(u + 1) - loggamma(u - Z[t, k] + 1) + (u - Z[t, k]) * log(1 + exp(Z[t, k] * x[0])), (k, d)
        )
        terms = exp(u * y[t] - exp(y[t]) - loggamma(u + 1) + chosen)
        value = over(log(td.IndexedSum(terms, (u, low, end + 8))), (t, g))
        work.append(nominal_work(build_program((*ARGUMENTS[:-1], end), results(value, (y,)), rows=True)))
    assert work[0] < 1.1 * work[1]


def test_terms_of_segments_get_no_table():
    """A table would have an entry for each segment and each entry of all segments."""
    terms = over((Z[t, k] - x[i]) ** 2, (k, d))
    value = over(log(td.IndexedSum(exp(terms), (i, start[t], start[t + 1] - 1))), (t, g))
    program = build_program(ARGUMENTS, results(value, (x, Z)), rows=True)
    assert "(g, n)" not in {str(array.shape) for array in program.temporaries}
