"""Indices that differ are tested in one sum: no sum is split at them, and every value is the interpreter's."""

import re

import numpy as np
import pytest
import sympy
from every import every
from sympy import Eq, Ne, Piecewise, exp, sqrt

import sympy_tensordiff as td
from sympy_tensordiff import reference
from sympy_tensordiff.codegen.program import build_program

i, j, k, n = td.indices("i j k n")
x, y, W = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("W", (n, n))
X, d, D = td.TensorSymbol("X", (n, 3)), td.TensorSymbol("d", n), td.TensorSymbol("D", (n, 3))
S = td.IndexedSum


def over(*indices):
    return [(index, 0, n - 1) for index in indices]


def where(value, condition):
    return Piecewise((value, condition), (0, True))


DISTANCE = sqrt(S((X[i, k] - X[j, k]) ** 2, (k, 0, 2)))
FUNCTIONS = {
    "a product": S(where(x[i] * y[j] ** 2, Ne(i, j)), *over(i, j)),
    "three indices": S(where(x[i] * x[j] * x[k], Ne(i, j) & Ne(j, k) & Ne(i, k)), *over(i, j, k)),
    "one side only": S(where(x[i] * W[i, j], Ne(i, j)), (j, 0, i), (i, 0, n - 1)),
    "a read that needs it": S(where(x[i - j - 1] ** 2, Ne(i, j)), (j, 0, i), (i, 0, n - 1)),
    "equal or not": S(Piecewise((x[i] * x[j], Eq(i, j)), (W[i, j] * x[i], True)), *over(i, j)),
    "a stride": S(where(x[i] * x[j] ** 2, Ne(2 * i, j)), *over(i, j)),
    "poles": S(where(1 / (x[i] - x[j]), Ne(i, j)), *over(i, j)) ** 2,
    "inside of a logarithm": S(sympy.log(1 + S(where(exp(x[i] - x[j]), Ne(i, j)), *over(j))), *over(i)),
    "with a condition on data": S(where(x[i] / (x[i] - x[j]) * W[j, i], Ne(i, j) & (W[i, j] > 0)), *over(i, j)),
    "distances": S(where(1 / DISTANCE, Ne(i, j)), *over(i, j)),
}


@every("name", [*FUNCTIONS], turns=8)
def test_values_and_derivatives_are_those_of_the_interpreter(name):
    value = FUNCTIONS[name]
    wrt, direction = (X, D) if name == "distances" else (x, d)
    functions = [
        td.lambdify([x, y, W, X, d, D], (value, td.gradient(value, wrt), td.hvp(value, wrt, direction)), backend)
        for backend in ("numpy", "llvm")
    ]
    random = np.random.default_rng(0)
    for size in (1, 2, 3):
        arrays = {tensor: random.normal(size=(size,) if tensor.rank == 1 else (size, 3)) for tensor in (x, y, X, d, D)}
        arrays[W] = random.normal(size=(size, size))
        exact = {**arrays, n: size}
        ((gradient, product),) = reference.hvp(value, {wrt: arrays[direction]}, exact)
        expected = float(reference.evaluate(value, exact)), gradient.astype(float), product.astype(float)
        for function in functions:
            found = function(*(arrays[tensor] for tensor in (x, y, W, X, d, D)))
            for own, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(own, right, rtol=1e-9, atol=1e-11)


def test_a_triple_sum_has_as_many_sums_as_without_the_tests():
    """Each test doubled the sums of every value that reads them: 35 kernels for the gradient of such an energy."""
    bonds = td.TensorComprehension(where(exp(-DISTANCE), Ne(i, j)), (i, n), (j, n))
    angles = S((X[j, k] - X[i, k]) * (X[td.indices("l"), k] - X[i, k]), (k, 0, 2))
    l = td.indices("l")
    term = bonds[i, j] * bonds[i, l] * angles**2
    energies = [
        S(where(term, Ne(i, j) & Ne(i, l) & Ne(j, l)), *over(l, j, i)),
        S(bonds[i, j] * bonds[i, l] * angles**2, *over(l, j, i)),
    ]
    kernels = [len(build_program([X], (value, td.gradient(value, X))).kernels) for value in energies]
    assert kernels[0] <= kernels[1] + 2


@pytest.mark.parametrize("symmetric", [True, False])
def test_common_factors_leave_the_sum_and_the_test(symmetric):
    c = sympy.Symbol("c")
    weight = 1 if symmetric else W[i, j]
    value = S(where(c * weight * (x[i] - x[j]) ** 2, Ne(i, j)), *over(i, j))
    assert str(td.gradient(value, x)).count("IndexedSum") == 1


def test_long_sums_below_a_mask_stay_conditional():
    """Computed for all entries, the sum would take n operations where a sparse mask asks for none."""
    text = {}
    for name, condition in {"mask": Ne(W[i, j], 0), "indices": Ne(i, j)}.items():
        entry = where(sympy.log(S((x[k] - W[i, j]) ** 2, (k, 0, n - 1))), condition)
        text[name] = td.generate_code([x, W], S(entry, *over(j, i)), "c")
    conditional = r"if \(\w+\) \{\s*SUMS\(\w+\)\s*for \(ptrdiff_t k"
    assert re.search(conditional, text["mask"]) and not re.search(conditional, text["indices"])
    assert text["mask"].count("for (ptrdiff_t k") == 1  # no loop that adds zeros where no entry of the mask differs


def test_an_index_on_one_side_has_a_range():
    value = S(where(y[i] * W[i, j], Ne(i, j)), (j, 0, i), (i, 0, n - 1))
    assert str(td.gradient(value, y)) == "TensorComprehension(IndexedSum(W[p, j], (j, 0, p - 1)), (p, n))"


def test_stored_values_keep_the_direction_of_their_indices():
    """The sign of ``i - j != 0`` is none of the forms by which an array is indexed."""
    band = S(sqrt(S(where(exp(-DISTANCE), Ne(i, j)), *over(j))), *over(i))
    text = td.generate_code([X], (band, td.gradient(band, X)), "c")
    assert not re.search(r"n - \w+ - ", text[text.index("void fill_") : text.index("_scratch(")])


def test_a_condition_leaves_a_sum_with_other_factors():
    """Both sums over a, of which one has a factor next to the condition, share their exponentials."""
    a, e, cut = *td.indices("a e"), sympy.Symbol("cut")
    eta, w = td.TensorSymbol("eta", e), td.TensorSymbol("w", e)
    square = (x[i] - x[j]) ** 2
    term = exp(-eta[a] * square) * where((1 + square / cut) / 2, Ne(i, j) & (square < cut))
    table = td.TensorComprehension(S(term, (j, 0, n - 1)), (i, n), (a, e))
    text = td.generate_code([x, eta, w, cut], td.gradient(td.sum(td.tanh(table @ w)), x), "c")
    assert text[text.index("void fill_") :].count("exp(") == 2  # for the table, and for its derivative
