"""Sums whose terms are left out where two indices are equal run in vectors, without branches."""

import re

import numpy as np
import pytest
import sympy
from sympy import Ne, Piecewise, exp, sqrt

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.llvm_driver import print_llvm
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run import llvm
from sympy_tensordiff.codegen.schedule.passes import prepared

i, j, k, l, n = td.indices("i j k l n")
X, w, x = td.TensorSymbol("X", (n, 3)), td.TensorSymbol("w", (n, n)), td.TensorSymbol("x", n)
Sum, Entries = td.IndexedSum, td.TensorComprehension


def over(index):
    return index, 0, n - 1


def cosines():
    """The products of the differences to two neighbours."""
    return Sum((X[j, k] - X[i, k]) * (X[l, k] - X[i, k]), (k, 0, 2))


def triples():
    """A sum over three different points."""
    term = w[i, l] / (2 + cosines() ** 2)
    return (X, w), Entries(Sum(Piecewise((term, Ne(i, j) & Ne(j, l) & Ne(i, l)), (0, True)), over(l)), (i, n), (j, n))


def near_triples():
    """A sum over three different points of which two are near each other."""
    inner = Sum(Piecewise((w[i, l] / (2 + cosines() ** 2), Ne(j, l) & Ne(i, l)), (0, True)), over(l))
    return (X, w), Entries(Piecewise((inner, Ne(i, j) & (w[i, j] < 1)), (0, True)), (i, n), (j, n))


def energies():
    """The energies of points in a potential of all others."""
    square = Sum((X[i, k] - X[j, k]) ** 2, (k, 0, 2))
    return (X, x), Entries(Sum(Piecewise((x[j] * exp(-sqrt(square)), Ne(i, j)), (0, True)), over(j)), (i, n))


def expected_triples(X, w):
    d = X[None] - X[:, None]
    different = ~np.eye(len(X), dtype=bool)
    term = w[:, None] / (2 + np.einsum("ijk,ilk->ijl", d, d) ** 2)
    return (term * (different[:, :, None] & different[None] & different[:, None])).sum(2)


def expected_near(X, w):
    return np.where(w < 1, expected_triples(X, w), 0)


def expected_energies(X, x):
    r = np.sqrt(((X[:, None] - X[None]) ** 2).sum(2))
    return (np.exp(-r) * ~np.eye(len(X), dtype=bool)) @ x


FUNCTIONS = {
    triples: expected_triples,
    near_triples: expected_near,
    energies: expected_energies,
}


def machine_text(args, value):
    """The optimised LLVM text of a function on this machine, without and with its entry points."""
    program = prepared(build_program(args, value), "llvm")
    return str(llvm.optimised(print_llvm(program, llvm.target(np.dtype(float))).text, {}, llvm._machine()))


def quotients_and_roots(text):
    """The divisions and roots of a text in vectors, and those that are computed for single entries."""
    vectors = len(re.findall(r"(?:fdiv .*<\d+ x double>|call .*llvm\.sqrt\.v\d+f64)", text))
    return vectors, len(re.findall(r"(?:fdiv [a-z ]*double|call .*llvm\.sqrt\.f64)", text))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_terms_are_computed_in_vectors(function):
    args, value = function()
    vectors, _ = quotients_and_roots(machine_text(args, value))
    assert vectors
    assert "llvm.masked.load" not in machine_text(args, value)


@pytest.mark.parametrize(
    "backend", ["numpy", "llvm", "uncompiled", pytest.param("numba", marks=pytest.mark.in_turns(10))], indirect=True
)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values(function, backend):
    """Of all sizes around those of vectors, contiguous or not."""
    args, value = function()
    compiled = td.lambdify(args, value, backend)
    for size in range(1, 19):
        rng = np.random.default_rng(size)
        shapes = [tuple(size if length == n else int(length) for length in arg.shape) for arg in args]
        given = [rng.uniform(0.5, 1.5, shape) for shape in shapes]
        expected = FUNCTIONS[function](*given)
        np.testing.assert_allclose(compiled(*given), expected, rtol=1e-13, atol=1e-300)
        strided = [np.full([2 * length for length in one.shape], np.nan) for one in given]
        for whole, one in zip(strided, given, strict=True):
            whole[(slice(None, None, 2),) * one.ndim] = one
        views = [whole[(slice(None, None, 2),) * one.ndim] for whole, one in zip(strided, given, strict=True)]
        np.testing.assert_allclose(compiled(*views), expected, rtol=1e-13, atol=1e-300)


def test_terms_that_are_not_needed_may_be_infinite():
    term = Piecewise((x[j] / (x[i] - x[j]), Ne(i, j)), (0, True))
    compiled = td.lambdify([x], Entries(Sum(term, over(j)), (i, n)), "llvm")
    given = np.arange(1.0, 12.0) ** 2
    with np.errstate(divide="ignore"):
        quotients = given[None] / (given[:, None] - given[None])
    np.fill_diagonal(quotients, 0)
    np.testing.assert_allclose(compiled(given), quotients.sum(1), rtol=1e-13)


labels = td.TensorSymbol("labels", n, dtype=int)
y = td.TensorSymbol("y", n)


def functions_of_some():
    rows = Sum(Piecewise((sqrt(x[i] / y[i]) * w[i, j], Ne(labels[i], 2)), (0, True)), over(i))
    total = Sum(Piecewise((sympy.log(x[i]), labels[i] >= 1), (0, True)), over(i))
    products = Sum(x[i] * y[i] * sympy.KroneckerDelta(1, labels[i]), over(i))
    return (labels, x, y, w), (Entries(rows, (j, n)), total + products)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "numba"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_terms_that_integers_select(backend, dtype):
    """The functions of a term that is not selected may be undefined."""
    compiled = td.lambdify(*functions_of_some(), backend)
    limits = {"rtol": 1e-12, "atol": 1e-12} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-5}
    for size in (1, 2, 3, 4, 7, 8, 9, 33):
        rng = np.random.default_rng(size)
        chosen = rng.integers(0, 3, 2 * size)[::2]
        first, second = rng.uniform(0.5, 2, (2, size)).astype(dtype)
        second[chosen == 2] = 0
        matrix = np.asfortranarray(rng.normal(size=(size, size)).astype(dtype))
        needed = chosen != 2
        with np.errstate(all="ignore"):
            rows, total = compiled(chosen, first, second, matrix)
        np.testing.assert_allclose(rows, np.sqrt(first[needed] / second[needed]) @ matrix[needed], **limits)
        first[chosen < 1] = -1
        with np.errstate(all="ignore"):
            _, total = compiled(chosen, first, second, matrix)
        expected = np.log(first[chosen >= 1]).sum() + (first * second)[chosen == 1].sum()
        np.testing.assert_allclose(total, expected, **limits)


def test_sums_that_integers_select_read_rows():
    """Equations with data do not test loop indices: the loop over the result's axis is inside of those over terms."""
    rows = [Sum(w[i, j] * sympy.KroneckerDelta(number, labels[i]), over(i)) for number in (0, 1)]
    text = td.generate_code((labels, w), Entries(rows[0] * rows[1], (j, n)), "numba")
    assert len(re.findall(r"for i\w* in range.*\n.*labels.*\n +for j in range", text)) == 2


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_ranges_that_begin_at_data(backend):
    """The start of a range is not a test of data."""
    value = Sum(x[j] * (1 + y[i]), (j, labels[i], n - 1), over(i)) + Sum(x[j], (j, 0, labels[0]))
    compiled = td.lambdify((labels, x, y), value, backend)
    chosen, first, second = np.array([2, 0, 5, 1, 3]), np.arange(5.0), np.arange(5.0) ** 2
    expected = sum(first[start:].sum() * (1 + one) for start, one in zip(chosen, second, strict=True))
    assert compiled(chosen, first, second) == expected + first[:3].sum()


def test_long_formulas_stay_behind_tests():
    """Their parts are computed for no term that is not selected."""
    total = Sum(td.log_ndtr(x[i]) * sympy.KroneckerDelta(1, labels[i]), over(i))
    assert re.search(r"\n +if labels\[.*\] == 1:\n", td.generate_code((labels, x), total, "numba"))
