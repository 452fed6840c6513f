"""Sums for the entries of a short row: one pass of a long loop adds to all of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from as_python import as_python
from every import every
from sympy import Piecewise, exp

import sympy_tensordiff as td

i, j, k, p, q, n, m = td.indices("i j k p q n m")


def text_of(body, width, *args, outer=True):
    axes = ((p, n), (q, width)) if outer else ((q, width),)
    return td.generate_code(args, td.TensorComprehension(body, *axes), parallel=False)


def passes(source):
    """The loops over ``j``, and the sums that each adds to."""
    bodies = re.findall(r"(?m)^ *for j in .*\n((?: +.*plus\(.*\n)+)", source)
    return [body.count("plus(") for body in bodies]


@every("width", [1, 2, 3, 8, 9])
@every("outer", [True, False])
def test_entries_share_a_pass(width, outer):
    """Up to eight of them."""
    x, y, b = td.TensorSymbol("x", (n, width)), td.TensorSymbol("y", (width, m)), td.TensorSymbol("b", m)
    near = x[p, q] if outer else x[0, q]
    body = 2 * td.IndexedSum((near - y[q, j]) ** 2 * b[j], (j, 0, m - 1))
    source = text_of(body, width, x, y, b, outer=outer)
    assert passes(source) == ([width] if width <= 8 else [1])
    rng = np.random.default_rng(width)
    values = [rng.integers(-9, 9, shape) for shape in ((4, width), (width, 7), 7)]
    out = np.full((4, width) if outer else width, np.nan)
    as_python(source)(*[value.astype(float) for value in values], out)
    expected = 2 * np.einsum("pqj,j->pq", (values[0][:, :, None] - values[1]) ** 2, values[2])
    np.testing.assert_array_equal(out, expected if outer else expected[0])


@pytest.mark.usefixtures("uncompiled")
def test_what_is_the_same_for_all_entries_is_computed_once():
    x, y, b = td.TensorSymbol("x", (n, 3)), td.TensorSymbol("y", (3, m)), td.TensorSymbol("b", m)
    weights = td.IndexedSum(b[j] * td.IndexedSum(x[p, k] * y[k, j], (k, 0, 2)) ** 2 * y[q, j], (j, 0, m - 1))
    body = weights * td.IndexedSum(exp(b[i]), (i, 0, m - 1))
    source = td.generate_code([x, y, b], td.TensorComprehension(body, (p, n), (q, 3)), temporaries=False)
    assert source.count("for k in range(3):") == 1
    rng = np.random.default_rng(0)
    values = [rng.uniform(-1, 1, shape) for shape in ((4, 3), (3, 6), 6)]
    function = td.lambdify([x, y, b], td.TensorComprehension(body, (p, n), (q, 3)), temporaries=False)
    points, others, factors = values
    expected = np.einsum("pj,qj->pq", factors * (points @ others) ** 2, others) * np.exp(factors).sum()
    np.testing.assert_allclose(function(*values), expected, rtol=1e-13)


def test_a_condition_on_what_is_the_same_for_all_entries():
    """Behind a condition that does not hold nothing is read."""
    x, b = td.TensorSymbol("x", (3, m)), td.TensorSymbol("b", m)
    term = Piecewise((x[q, j] * b[j] * b[j - p], j >= p), (0, True))
    source = text_of(td.IndexedSum(term, (j, 0, m - 1)), 3, x, b, n)
    assert sum(passes(source)) == 3
    rng = np.random.default_rng(0)
    rows, factors = rng.integers(-9, 9, (3, 5)), rng.integers(-9, 9, 5)
    out = np.full((7, 3), np.nan)
    as_python(source)(rows.astype(float), factors.astype(float), 7, out)
    lags = [factors[lag:] * factors[: 5 - lag] if lag < 5 else factors[:0] for lag in range(7)]
    np.testing.assert_array_equal(out, [[(row[5 - len(lag) :] * lag).sum() for row in rows] for lag in lags])


ALONE = {
    "nothing is the same": lambda x, y, b: td.IndexedSum(y[q, j] ** 2, (j, 0, m - 1)),
    "entries end at places of their own": lambda x, y, b: td.IndexedSum(y[q, j] * b[j], (j, 0, m - 1 - q)),
    "a maximum": lambda x, y, b: td.IndexedMax(y[q, j] * b[j] * b[j] * x[p, q] * x[p, 0] * b[0], (j, 0, m - 1)),
    "reads across": lambda x, y, b: td.IndexedSum(y[q, j] * b[m - 1 - 2 * j], (j, 0, (m - 1) // 2)),
}


@pytest.mark.parametrize("name", ALONE)
def test_entries_that_gain_nothing_stay_separate(name):
    x, y, b = td.TensorSymbol("x", (n, 3)), td.TensorSymbol("y", (3, m)), td.TensorSymbol("b", m)
    source = text_of(ALONE[name](x, y, b), 3, x, y, b)
    assert re.search(r"for q in range\((3|result\.shape\[1\])\):", source)


@pytest.mark.parametrize(("steps", "is_separate"), [(31, True), (32, False)])
def test_few_steps_are_not_worth_it(steps, is_separate):
    y, b = td.TensorSymbol("y", (3, steps)), td.TensorSymbol("b", steps)
    source = text_of(td.IndexedSum(y[q, j] * exp(b[j]), (j, 0, steps - 1)), 3, y, b, outer=False)
    assert passes(source) == ([1] if is_separate else [3])
