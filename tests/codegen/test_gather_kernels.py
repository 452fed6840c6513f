"""Gathers by data and their derivatives, as kernels: values, checks, work and plans."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from fuzz.count import count
from gather_cases import CASES, K, at, bins, check, h, histogram, i, idx, j, m, n, p, r, s, sparse, u, v, w, x, z

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Scatter
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.errors import ArgumentError, DataIndexError, OutOfShapeError

RNG = np.random.default_rng(0)


@pytest.mark.in_turns(8)
def test_compiled():
    """As all gathers run as Python, below."""
    check("embedding", ("numba", True))


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", CASES)
def test_against_the_interpreter(name, simulator):
    """By turns CUDA's kernels in the simulator and Numba's as plain Python, with and without temporaries; NumPy's."""
    turn = list(CASES).index(name)
    simulator(check, name, (("cuda", "numba")[turn % 2], turn % 4 < 2), ("numpy", turn % 3 == 0))


# ---------------------------------------------------------------------------- scatters

TABLE = td.IndexedSum(w[i, j] * x[idx[i], j], (j, 0, m - 1), (i, 0, K - 1))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("axis", [i, j], ids=str)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_values_of_fewer_axes_than_their_places_are_added(backend, axis):
    """NumPy 2.4 reads past the end of values with fewer axes than the places in `np.add.at`."""
    places, table, values = (
        td.TensorSymbol("places", (3, 4), dtype=int),
        td.TensorSymbol("x", 5),
        td.TensorSymbol("v", 4),
    )
    total = td.IndexedSum(table[sp.Mod(places[i, j], 5)] * values[axis], (j, 0, 3), (i, 0, 2))
    kernel = td.lambdify((places, values), td.gradient(total, table), backend)
    given, added = RNG.integers(-9, 9, (3, 4)), RNG.normal(size=4)
    expected = np.zeros(5)
    for row, column in np.ndindex(3, 4):
        expected[given[row, column] % 5] += added[row if axis == i else column]
    for _ in range(10):
        np.testing.assert_allclose(kernel(given, added), expected, rtol=1e-12)


def scatters(program):
    return [step for step in program.kernels if isinstance(step, Scatter)]


def test_work_of_a_window():
    """Data bound where an entry of the data adds: the window, not all of the result."""
    case = CASES["window"]
    symbols = sorted(case.function.atoms(td.TensorSymbol), key=lambda symbol: symbol.name)
    program = build_program((*symbols, n), td.gradient(case.function, z))
    work = count(program, {"K": 7, "m": 3, "n": 100, "idx": [0, 5, 97, 98, 99, 50, 50]})
    assert [kernel.iterations for kernel in work.kernels] == [0, 3 * 5 + 2 + 1]


@pytest.mark.parametrize("name", ["function of a sparse product", "histogram"])
def test_sums_that_others_need_are_scattered_once(name):
    """The loops over the data are neither inside of loops over the entries nor of each other."""
    case = CASES[name]
    results = (case.function, *td.gradient(case.function, case.variables))
    symbols = {symbol for result in results for symbol in result.atoms(td.TensorSymbol)}
    arguments = sorted(symbols, key=lambda symbol: symbol.name)
    program = build_program(arguments, results)
    data = {symbol.name: [0] * 50 for symbol in symbols if symbol.dtype is int}
    work = count(program, {"K": 50, "n": 40, "m": 30, **data})
    assert work.iterations + work.stores <= 12 * 50


def test_several_scatters_into_one_result():
    """The zeros, or what is not a scatter, once; then one pass for each tensor of data."""
    sums = sparse(p) + histogram(p) + h[p]
    arguments = (v, u, r, *(symbol for symbol in sparse(p).atoms(td.TensorSymbol) if symbol.name == "c"), s, bins, h)
    function = td.lambdify(arguments, td.TensorComprehension(sums, (p, n)), "numpy")
    assert [step.number for step in scatters(function.program)] == [1, 2]
    assert len(function.program.kernels) == 3
    plan = function.plan
    assert "scatter: add to result[r[i]] over i" in plan
    assert "scatter: add to result[bins[i]] over i" in plan


@pytest.mark.usefixtures("uncompiled")
def test_all_data_outside():
    function = td.lambdify((s, bins, n), td.TensorComprehension(histogram(p), (p, n)), "numba")
    assert function(np.ones(3), np.array([-1, 4, 2**40]), 3).tolist() == [0, 0, 0]


# ---------------------------------------------------------------------------- checks


def test_remainders_of_what_selects_data_are_sums_of_their_own():
    selects, values = td.TensorSymbol("idx", 7, dtype=int), td.TensorSymbol("x", 4)
    total = td.IndexedSum(sp.Piecewise((values[selects[i]] ** 2, sp.Mod(4 * i, 5) <= 1), (0, True)), (i, 0, 6))
    sums = td.gradient(total, values).body.atoms(td.IndexedSum)
    assert [len(found.limits) for found in sums] == [1]


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_bad_data_are_refused_before_any_read(backend):
    function = td.lambdify((x, w, idx), (TABLE, td.gradient(TABLE, x)), backend)
    out = np.zeros(()), np.full((5, 3), 7.0)
    arrays = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
    for worst in (5, -1):
        with pytest.raises(DataIndexError, match=rf"idx\[2\] is {worst}: the index idx\[i\] of axis 0 of x .* 0 to 4"):
            function(*arrays, np.array([0, 4, worst, 1]), out=out)
    assert (out[1] == 7).all()


@pytest.mark.usefixtures("uncompiled")
def test_what_a_condition_keeps_from_being_read_is_not_checked():
    padded = td.IndexedSum(sp.Piecewise((z[idx[i]] ** 2, idx[i] >= 0), (0, True)), (i, 0, K - 1))
    chosen = td.IndexedSum(sp.Piecewise((z[idx[i]] ** 2, v[i] > 0), (0, True)), (i, 0, K - 1))
    values = np.array([1.0, 2, 3])
    function = td.lambdify((z, idx), (padded, td.gradient(padded, z)), "numpy")
    value, slope = function(values, np.array([2, -1, -1, 2]))
    assert value == 18
    assert slope.tolist() == [0, 0, 12]
    with pytest.raises(DataIndexError, match=r"idx\[0\] is 3"):
        function(values, np.array([3, -1, -1, 2]))
    for backend in ("numpy", "numba"):
        function = td.lambdify((z, v, idx), (chosen, td.gradient(chosen, z)), backend)
        value, slope = function(values, np.array([1.0, 0, -1, 1]), np.array([2, -1, 99, 2]))
        assert value == 18
        assert slope.tolist() == [0, 0, 12]
        with pytest.raises(DataIndexError, match=r"idx\[2\] is 99"):
            function(values, np.array([1.0, 0, 1, 1]), np.array([2, -1, 99, 2]))


@pytest.mark.usefixtures("uncompiled")
def test_tables_behind_conditions_read_no_more_than_is_asked_for():
    """Entries behind a condition on values, or on data, are not read ahead into an array."""
    sums = td.IndexedSum(z[bins[j]] ** 2, (j, 0, K - 1))
    chosen = td.IndexedSum(sp.Piecewise((sp.exp(sums) + sums, v[i] > 0), (0, True)), (i, 0, K - 1))
    tested = td.IndexedSum((sp.exp(sums) + sums) * at(idx[i], 1), (i, 0, K - 1))
    values, wrong = np.array([1.0, 2]), np.array([0, 1, 5, 0])
    function = td.lambdify((z, v, bins), chosen, "numpy")
    assert function(values, np.zeros(4), wrong) == 0
    with pytest.raises(DataIndexError, match=r"bins\[2\] is 5"):
        function(values, np.array([0.0, 0, 1, 0]), wrong)
    for backend in ("numpy", "numba"):
        function = td.lambdify((z, idx, bins), tested, backend)
        assert function(values, np.zeros(4, int), wrong) == 0
        with pytest.raises(DataIndexError, match=r"bins\[2\] is 5"):
            function(values, np.array([0, 0, 0, 1]), wrong)


@pytest.mark.parametrize("name", ["embedding", "flattened", "stride", "window"])
def test_the_extremes_of_good_data_settle_the_checks(name):
    """No search in calls whose data are inside of what they select, whatever their order."""
    case = CASES[name]
    symbols = sorted(case.function.atoms(td.TensorSymbol), key=lambda symbol: symbol.name)
    function = td.lambdify((*symbols, n, m), case.function, "numpy")
    sizes = {"n": 5, "m": 3, "K": 4}
    values = [np.zeros([form.evaluate(sizes) for form in a.shape], int) for a in function.program.arguments[:-2]]
    found = function._checker.prepare((*values, 5, 3))
    assert (len(function.program.data_checks) > 0) == (name != "embedding")  # of which all entries select
    assert found.suspects == ()


def test_data_have_to_be_given():
    with pytest.raises(ArgumentError, match="idx occurs in the expression, but not in args"):
        td.lambdify((x, w), TABLE)


def test_reads_of_data_outside_of_their_shape():
    behind = td.IndexedSum(z[idx[i + 1]], (i, 0, K - 1))
    with pytest.raises(OutOfShapeError):
        td.lambdify((z, idx), behind)


@pytest.mark.usefixtures("uncompiled")
def test_rows_of_a_nest_with_data():
    """Sums that a row expands are entries of no array of the program, and are not read before the loops."""
    f, g = td.TensorSymbol("f", n), td.TensorSymbol("g", n)
    b, one = sp.Symbol("b"), td.TensorSymbol("one", n, dtype=int, below=n)
    window = td.IndexedSum(f[p] * g[j], (p, sp.Max(0, j - 1), sp.Min(j + 1, n - 1)))
    total = td.IndexedSum((b * window + f[i]) / (2 + f[one[i]] ** 2 * f[j] ** 2), (i, 0, n - 1), (j, 0, n - 1))
    values = RNG.normal(size=6), RNG.normal(size=6), np.array([3, 1, 1, 0, 5, 2]), 0.5
    for wrt in (f, g):
        ours, plain = (td.lambdify((f, g, one, b), td.gradient(total, wrt), backend) for backend in ("numba", "numpy"))
        np.testing.assert_allclose(ours(*values), plain(*values), rtol=1e-12)
