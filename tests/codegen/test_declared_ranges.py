"""Ranges of index arrays, declared or implied: what calls check, and what kernels need not test."""

import numpy as np
import pytest
from sympy import KroneckerDelta, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, DataIndexError
from sympy_tensordiff.testing.integer_data import data_ranges

i, k, m, n, p = td.indices("i k m n p")
x, w, X = td.TensorSymbol("x", n), td.TensorSymbol("w", m), td.TensorSymbol("X", (n, n + 1))
free = td.TensorSymbol("idx", m, dtype=int)
declared = td.TensorSymbol("idx", m, dtype=int, below=n)
total, table = td.IndexedSum, td.TensorComprehension
GIVEN = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 2.0, 5.0])


def gather(idx):
    return total(w[i] * x[idx[i]] ** 2, (i, 0, m - 1))


def guarded(idx):
    return total(Piecewise((w[i] * x[idx[i]], idx[i] >= 0), (0, True)), (i, 0, m - 1))


def histogram(idx):
    return table(total(w[i] * KroneckerDelta(p, idx[i]), (i, 0, m - 1)), (p, n))


def compiled(function, idx, backend="numpy"):
    return td.lambdify((x, w, idx), function(idx), backend)


FUNCTIONS = {
    "value": gather,
    "gradient": lambda idx: td.gradient(gather(idx), x),
    "both": lambda idx: (gather(idx), td.gradient(gather(idx), x)),
    "guarded": guarded,
    "histogram": histogram,
}
SAID = r"idx\[2\] is {}: it is declared with below=n, and has to be from 0 to 2; negative ones do not wrap around"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_data_outside_of_a_declared_range_are_refused_in_every_call(name, backend):
    function = compiled(FUNCTIONS[name], declared, backend)
    inside = np.array([2, 0, 1, 2])
    same, wanted = ([*f(*GIVEN, inside)] if name == "both" else [f(*GIVEN, inside)] for f in (function, plain(name)))
    for found, right in zip(same, wanted, strict=True):
        np.testing.assert_allclose(found, right)
    for wrong in (-1, 3, -(2**40), 2**40):
        with pytest.raises(DataIndexError, match=SAID.format(wrong)):
            function(*GIVEN, np.array([2, 0, wrong, -7]))
    assert function.program.data_checks == ()


def plain(name):
    return compiled(FUNCTIONS[name], free)


@pytest.mark.parametrize(
    ("name", "searches", "taken"),
    [("value", 0, False), ("both", 0, False), ("guarded", 1, True), ("gradient", 0, True), ("histogram", 0, True)],
)
def test_without_a_declaration_only_reads_refuse(name, searches, taken):
    """A search looks at reads behind a condition only, which may keep data such as -1 from being read."""
    function = plain(name)
    assert len(function.program.data_checks) == searches
    data = np.array([2, 0, -1, 2])
    if taken:
        assert np.isfinite(function(*GIVEN, data)).all()
    else:
        with pytest.raises(DataIndexError, match=r"idx\[2\] is -1: the index idx\[i\] of axis 0 of x has to be from"):
            function(*GIVEN, data)


@pytest.mark.parametrize(
    ("body", "extent", "below"),
    [
        (X[free[i], free[i]], m, "n"),
        (x[free[i]] * td.TensorSymbol("y", m)[free[i]], m, None),
        (x[free[i + 1]], m - 1, None),
        (x[free[i] + 1], m, None),
        (Piecewise((x[free[i]], i < 2), (0, True)), m, None),
        (total(x[free[k]], (k, 0, i)), m, None),
        (total(x[free[k]], (k, 0, m - 1)), 3, "n"),
        (table(x[free[k]], (k, m))[i], m, None),
    ],
)
def test_the_range_is_that_of_the_axis_that_all_entries_select_from(body, extent, below):
    """Of several axes, it is the shortest; none, where that is not known, or where some entries select nothing."""
    function = table(body, (i, extent))
    used = sorted(function.atoms(td.TensorSymbol), key=str)
    program = td.lambdify((*used, *([m, n] if below is None else [])), function, "numpy").program
    found = next(a.below for a in program.arguments if a.name == "idx")
    assert (None if found is None else str(found)) == below


def test_a_size_of_a_range_alone_is_an_argument():
    picked = td.TensorSymbol("idx", m, dtype=int, below=k)
    value = total(w[i] * picked[i], (i, 0, m - 1))
    with pytest.raises(ArgumentError, match="k is determined by no array's shape; add it to args"):
        td.lambdify((w, picked), value, "numpy")
    function = td.lambdify((w, picked, k), value, "numpy")
    assert function(GIVEN[1], np.array([0, 1, 2, 3]), 4) == 18.0
    with pytest.raises(DataIndexError, match=r"idx\[3\] is 3: it is declared with below=k, .* from 0 to 2"):
        function(GIVEN[1], np.array([0, 1, 2, 3]), 3)


def test_data_are_drawn_in_their_range():
    picked = td.TensorSymbol("idx", 4, dtype=int, below=3)
    y = td.TensorSymbol("y", 9)
    assert data_ranges([total(y[2 * picked[i] + 1], (i, 0, 3))]) == {"idx": (0, 2)}
    td.check_derivative(total(y[2 * picked[i] + 1] ** 2, (i, 0, 3)), y)


def on_the_simulator():
    function = compiled(FUNCTIONS["both"], declared, "cuda")
    value, slope = function(*GIVEN, np.array([2, 0, 1, 2]))
    assert value == 61.0
    np.testing.assert_allclose(slope, [-2.0, 8.0, 36.0])
    with pytest.raises(DataIndexError, match=SAID.format(3)):
        function(*GIVEN, np.array([2, 0, 3, 2]))


def test_ranges_on_the_simulator(simulator):
    simulator(on_the_simulator)
