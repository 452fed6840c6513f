"""Values behind conditions on data, and factors that products have in common, are computed once for all loops."""

import re

import numpy as np
import pytest
import sympy
from sympy import Piecewise, exp, log, sin
from uncompiled import numba_as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.ir.scalars import Operation
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program

i, j, p, q = td.indices("i j p q")
n, m, d = td.indices("n m d")
Sum, Entries = td.IndexedSum, td.TensorComprehension
a, b, c = td.TensorSymbol("a", n), td.TensorSymbol("b", m), td.TensorSymbol("c", (m, d))
y = td.TensorSymbol("y", (n, m), dtype=int, below=d + 1)
W = td.TensorSymbol("W", (n, m))


def over(index, extent):
    return index, 0, extent - 1


def answers():
    """A score for each answer above 0, by the persons, the questions and the thresholds that the answers select."""
    score = b[j] * (a[i] - c[j, y[i, j] - 1])
    value = Sum(Piecewise((log(2 + sin(score)), y[i, j] > 0), (0, True)), over(i, n), over(j, m))
    return (a, b, c, y), (value, *td.gradient(value, (a, b, c)))


def value_of_answers(a, b, c, y):
    rows, columns = np.nonzero(y > 0)
    level = y[rows, columns] - 1
    difference = a[rows] - c[columns, level]
    score = b[columns] * difference
    slope = np.cos(score) / (2 + np.sin(score))
    results = [np.log(2 + np.sin(score)).sum(), np.zeros_like(a), np.zeros_like(b), np.zeros_like(c)]
    np.add.at(results[1], rows, slope * b[columns])
    np.add.at(results[2], columns, slope * difference)
    np.add.at(results[3], (columns, level), -slope * b[columns])
    return results


def marginals():
    """Sums of one product of functions along each axis, and along both."""
    product = exp(-W[i, j]) * sin(W[i, j] + 1)
    rows = Entries(Sum(product * b[j], over(j, m)), (i, n))
    columns = Entries(Sum(product * a[i], over(i, n)), (j, m))
    return (W, a, b), (rows, columns, Sum(product * a[i] * b[j], over(i, n), over(j, m)))


def value_of_marginals(W, a, b):
    product = np.exp(-W) * np.sin(W + 1)
    return [product @ b, a @ product, a @ product @ b]


CASES = {"answers": (answers, value_of_answers), "marginals": (marginals, value_of_marginals)}


def calls(program, *functions):
    """The number of calls of each function in the text of `program`."""
    found = [part for step in program.nests for part in scalars(step.body) if isinstance(part, Operation)]
    return [sum(part.function == function for part in found) for function in functions]


def test_values_behind_conditions_on_data_are_computed_once():
    program = build_program(*answers())
    assert calls(program, "sin", "cos", "log") == [1, 1, 1]
    (scatter,) = (step for step in program.nests if isinstance(step, Scatter))
    assert not any(isinstance(part, Operation) and part.function in ("sin", "cos") for part in scalars(scatter.body))


def test_the_common_factors_of_products_have_one_array():
    text = td.generate_code(*marginals(), "numba")
    host = text[text.index("def run(") : text.index("def checked(")]
    assert re.findall(r"np\.empty\((.*), result0", host) == ["(n, m)"]


def test_other_conditions_do_not_read_what_one_condition_stores():
    """The array is filled where all uses have the condition, and one use has another one."""
    score = b[j] * (a[i] - c[j, y[i, j] - 1])
    parts = [Sum(Piecewise((sin(score) * factor, y[i, j] > least), (0, True)), over(j, m)) for factor, least in
             ((b[j], 0), (W[i, j], 1))]  # fmt: skip
    results = tuple(Entries(part, (i, n)) for part in parts)
    rng = np.random.default_rng(3)
    values = rng.normal(size=5), rng.normal(size=7), rng.normal(size=(7, 4)), rng.integers(0, 5, (5, 7))
    weights = rng.normal(size=(5, 7))
    level = np.maximum(values[3] - 1, 0)
    sines = np.sin(values[1] * (values[0][:, None] - values[2][np.arange(7), level]))
    for backend in ("numpy", "numba", "llvm"):
        with numba_as_python(backend):
            got = td.lambdify((a, b, c, y, W), results, backend)(*values, weights)
        assert got[0] == pytest.approx((sines * values[1] * (values[3] > 0)).sum(1), rel=1e-12)
        assert got[1] == pytest.approx((sines * weights * (values[3] > 1)).sum(1), rel=1e-12)


def made(tensor, sizes, rng):
    """An array for `tensor`, with values of which every second entry is used."""
    shape = [2 * int(sympy.sympify(extent).subs(sizes)) for extent in tensor.shape]
    full = rng.integers(0, sizes[d] + 1, shape) if tensor == y else rng.normal(size=shape)
    return full[tuple(slice(None, None, 2) for _ in shape)]


@pytest.mark.parametrize(
    "backend", ["numpy", "llvm", "uncompiled", pytest.param("numba", marks=pytest.mark.in_turns(10))], indirect=True
)
@pytest.mark.parametrize("name", CASES)
def test_values(name, backend):
    build, oracle = CASES[name]
    args, results = build()
    function = td.lambdify(args, results, backend)
    rng = np.random.default_rng(7)
    for rows, columns, levels in [(1, 1, 1), (2, 1, 3), (1, 5, 2), (7, 3, 1), (4, 18, 6), (18, 17, 5)]:
        values = [made(arg, {n: rows, m: columns, d: levels}, rng) for arg in args]
        for got, want in zip(function(*values), oracle(*values), strict=True):
            assert np.asarray(got) == pytest.approx(np.asarray(want), rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_scatter_into_an_array_without_entries(backend):
    """Counts of all levels but the last: for one level there is nothing to count into."""
    x, level, weight = td.TensorSymbol("x", n), td.TensorSymbol("level", n, dtype=int), td.TensorSymbol("weight", d)
    inner = Sum(x[i] * sympy.KroneckerDelta(p, level[i]), over(i, n))
    value = Sum(sin(inner) * weight[p] ** 2, (p, 0, d - 2))
    function = td.lambdify([x, level, weight], (value, td.gradient(value, x)), backend)
    for number in (1, 3):
        data = np.array([0, number - 1])
        counts = np.bincount(data, minlength=number)[: number - 1]
        found = function(np.ones(2), data, np.full(number, 2.0))
        np.testing.assert_allclose(found[0], 4 * np.sin(counts).sum())
        slopes = [4 * np.cos(counts[own]) if own < number - 1 else 0 for own in data]
        np.testing.assert_allclose(found[1], slopes)
