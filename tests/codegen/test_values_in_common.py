"""Values that the results of a program have in common are computed once: scores, quotients, powers, data."""

import re
from functools import cache

import numpy as np
import pytest
import sympy
from sympy import exp, log

import sympy_tensordiff as td

i, j, k, l, p, q, e = td.indices("i j k l p q e")
n, m, d, t = td.indices("n m d t")
Sum, Entries = td.IndexedSum, td.TensorComprehension
Delta = sympy.KroneckerDelta
X, C, M = td.TensorSymbol("X", (n, d)), td.TensorSymbol("C", (m, d)), td.TensorSymbol("M", (n, m))
F, G, width = td.TensorSymbol("F", (m, d)), td.TensorSymbol("G", (n, d)), td.TensorSymbol("width", (m, d))
L, w, c = td.TensorSymbol("L", (m, d, d)), td.TensorSymbol("w", m), td.TensorSymbol("c", n)
src, dst = (td.TensorSymbol(name, n, dtype=int, below=m) for name in ("src", "dst"))


def over(index, extent):
    return index, 0, extent - 1


def with_gradient(value, *variables):
    return (value, *td.gradient(value, variables))


@cache
def triangular_mixture():
    """A mixture of Gaussians with triangular factors, by its weights, widths, centres and factors."""
    inner = exp(width[k, q]) * (X[i, q] - C[k, q]) + Sum(L[k, q, l] * (X[i, l] - C[k, l]), (l, 0, q - 1))
    score = w[k] - Sum(inner**2, over(q, d)) / 2 + Sum(width[k, q], over(q, d))
    value = Sum(log(Sum(exp(score), over(k, m))), over(i, n))
    return (X, C, L, w, width), with_gradient(value, w, width, C, L)


@cache
def soft_assignment():
    """The log-likelihood of centres, by the centres."""
    value = Sum(log(Sum(w[k] * exp(-Sum((X[i, q] - C[k, q]) ** 2, over(q, d))), over(k, m))), over(i, n))
    return (X, C, w), with_gradient(value, C)


@cache
def flows():
    """Return arguments and results: sums at nodes of flows of two types along edges, signed by the edge's end."""
    ends = Delta(p, src[e]), Delta(p, dst[e])
    kinds = (ends[0] - ends[1]) * c[e] - (ends[0] + ends[1]) * log(c[e])
    return (w, c, src, dst), (Entries(Sum(kinds * w[src[e]], over(e, n)), (p, m)),)


@cache
def expected_words():
    """A function of gathered functions, by the arguments of the functions."""
    inner = Entries(sympy.gamma(1 + width[p, q] ** 2), (p, m), (q, d))
    value = Sum(log(Sum(exp(inner[src[e], q]), over(q, d))) * c[e], over(e, n))
    return (width, c, src), with_gradient(value, width)


@cache
def binomial():
    """Two products of matrices in logarithms, with the limits in reading order."""
    one = Sum(G[i, q] * F[j, q], over(q, d))
    other = Sum(G[i, q] * (1 - F[j, q]), over(q, d))
    f = -sympy.Sum(M[i, j] * log(one) + (2 - M[i, j]) * log(other), over(i, n), over(j, m))
    return (G, F, M), with_gradient(f, G, F)


@cache
def kinetics():
    """Steps of reactions whose rates are products of powers, by the concentrations."""
    rate = Entries(sympy.Mul(w[k], td.IndexedProduct(G[i, q] ** C[k, q], over(q, d))), (i, n), (k, m))
    right = Entries(Sum(F[k, q] * rate[i, k], over(k, m)), (i, n), (q, d))
    value = Sum((G[i + 1, q] - G[i, q] - (right[i, q] + right[i + 1, q]) / 20) ** 2, (i, 0, n - 2), over(q, d))
    return (G, C, F, w), with_gradient(value, G)


@cache
def blur():
    """A periodic blur of an image, by the weights."""
    image, seen = td.TensorSymbol("image", (n, m)), td.TensorSymbol("seen", (n, m))
    weights = td.TensorSymbol("weights", (3, 3))
    blurred = Sum(weights[k, l] * image[sympy.Mod(i + k - 1, n), sympy.Mod(j + l - 1, m)], over(k, 3), over(l, 3))
    value = Sum((log(1 + blurred**2) - seen[i, j]) ** 2, over(i, n), over(j, m))
    return (image, seen, weights), with_gradient(value, weights)


@cache
def spectra():
    """Logarithms of the spectra of overlapping windows, by the signal."""
    signal, window = td.TensorSymbol("signal", 4 * n + 8), td.TensorSymbol("window", 8)
    angle = sympy.pi * j * k / 4
    parts = [Sum(window[k] * signal[4 * i + k] * f(angle), over(k, 8)) for f in (sympy.cos, sympy.sin)]
    value = Sum(log(parts[0] ** 2 + parts[1] ** 2 + 1), (j, 0, 4), over(i, n))
    return (signal, window), with_gradient(value, signal)


@cache
def orders():
    """Sums of a function of SciPy's over its orders, by the bases of powers of which one may be to the zero."""
    value = Sum(log(Sum(sympy.besselj(k, c[i]) ** 2 * M[i, k] ** k, over(k, m))), over(i, n))
    return (c, M), with_gradient(value, M)


def products_to_orders():
    """Sums of products of powers up to an order that is a size of no argument's, by their bases."""
    value = Sum(log(Sum(exp(-c[i] * k) * sympy.Product(M[i, j] ** k, over(j, m)), (k, 0, e))), over(i, n))
    return (M, c, e), with_gradient(value, M)


PROGRAMS = [triangular_mixture, soft_assignment, flows, expected_words, binomial, kinetics, blur, spectra, orders]


def arguments_of(make, sizes, random):
    given = []
    for tensor in make()[0]:
        shape = [int(sympy.sympify(extent).subs(sizes)) for extent in tensor.shape]
        if tensor in (src, dst):
            given.append(random.integers(0, sizes[m], shape))
        else:
            given.append(random.uniform(0.2, 0.8, shape))
    return given


@cache
def lines_of(make):
    arguments, results = make()
    return td.lambdify(arguments, results, "llvm", parallel=False).source.partition("def fill")[2]


@cache
def by_numpy(make):
    return td.lambdify(*make(), "numpy")


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "backend",
    [
        "llvm",
        pytest.param("uncompiled", marks=pytest.mark.in_turns(3)),
        pytest.param("numba", marks=pytest.mark.in_turns(10)),
    ],
    indirect=True,
)
def test_values_are_those_of_numpy(make, backend):
    arguments, results = make()
    compiled, plain = td.lambdify(arguments, results, backend), by_numpy(make)
    random = np.random.default_rng(0)
    for sizes in ({n: 2, m: 1, d: 1}, {n: 3, m: 2, d: 4}, {n: 9, m: 5, d: 2}, {n: 4, m: 7, d: 3}, {n: 33, m: 4, d: 17}):
        if make is blur:
            sizes = {n: sizes[n] + 1, m: sizes[m] + 2}
        given = arguments_of(make, sizes, random)
        for found, wanted in zip(compiled(*given), plain(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.in_turns(4)
def test_quotients_with_other_exponentials_have_one_maximum():
    """Weights are at most 1: no sum of them over the points needs a maximum over the points."""
    text = lines_of(triangular_mixture)
    assert text.count("greatest = -real(math.inf)") == 1
    assert text.count("exp(") == 2  # of the widths and of the scores


def test_scores_of_a_row_are_computed_once():
    """For their maximum and for the exponentials; no array has an entry for each pair."""
    text = lines_of(soft_assignment)
    first = text.partition("\ndef ")[0]
    assert first.count("**2") == 1 and first.count("exp(") == 1
    assert not re.search(r"np.empty\(\((n, m|m, n)\)", text)


@pytest.mark.in_turns(4)
def test_memory_for_pairs_is_used_only_where_another_array_needs_as_much():
    arrays = re.findall(r"np.empty\(\(([^()]*)\)", lines_of(triangular_mixture))
    assert any(sorted(shape.split(", ")) == ["d", "m", "n"] for shape in arrays)
    assert sum(sorted(shape.split(", ")) == ["m", "n"] for shape in arrays) == 1


def test_selections_in_a_sum_are_scatters():
    """No loop over the edges runs inside of a loop over the nodes."""
    text = lines_of(flows)
    assert not re.search(r"== (src|dst)\[", text)
    assert text.count("def scatter") == 2


def test_functions_of_the_entry_are_called_once_for_each_entry():
    text = lines_of(expected_words)
    scatters = [part for part in text.split("\ndef ") if part.startswith("scatter")]
    assert scatters and not any("polygamma(" in part or "gamma(" in part for part in scatters)


def test_loops_around_stored_sums_run_along_rows():
    (kernel,) = (part for part in lines_of(binomial).split("\ndef ") if "log(" in part)
    assert re.search(r"\[i0?, j\d*\]", kernel.partition("log(")[2])
    assert kernel.rindex("for j") > kernel.rindex("for i")


def test_parts_of_one_value_are_one_array():
    """The powers at all steps, which the rates of this and of the next step need, and their derivatives."""
    assert lines_of(kinetics).count("general_power(") == 2


def test_periodic_reads_in_windows_are_copied_once():
    """Only the copy has remainders, the sums over the window have none."""
    for part in lines_of(blur).split("\ndef "):
        assert not ("//n" in part and "weights[" in part)


def test_functions_of_a_difference_of_indices_are_tables():
    """``cos(pi*j*(p - 4*i)/4)`` in the gradient is an entry of the table of the function."""
    text = lines_of(spectra)
    assert text.count("cos_near(") == text.count("sin_near(") == 1


def test_an_extent_that_may_be_negative_needs_no_guards():
    """The signal has four entries for each window, and eight more: it says nothing of the number of windows."""
    assert "if n >" not in lines_of(spectra)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_entries_that_nothing_selects_are_zero_where_a_function_is_infinite(backend):
    """An empty sum is 0, and calls nothing: log(0) is not a factor of it."""
    chosen = Sum(Delta(p, src[e]) * log(w[p]) * c[e], over(e, n))
    value = Sum(c[e] * sympy.loggamma(w[src[e]]), over(e, n))
    function = td.lambdify((w, c, src), (Entries(chosen, (p, m)), td.gradient(value, w)), backend)
    found = function(np.array([1.5, 0.0, 2.0, 0.0]), np.array([1.0, 2.0, 3.0]), np.array([0, 2, 0]))
    np.testing.assert_allclose(found[0], [4 * np.log(1.5), 0, 2 * np.log(2), 0])
    assert np.isfinite(found[1]).all() and not found[1][1::2].any()


def test_sums_of_functions_of_scipy_are_computed_once():
    """A condition on the order around their reciprocals does not move them into the loop over the orders."""
    text = lines_of(orders)
    assert text.count("besselj(") == 1
    assert text.count("plus(") == 1


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("last", [0, 1, 5])
def test_arrays_of_ranges_up_to_an_order(backend, last):
    """Products before and after an index share powers, for orders of which the program computes the number."""
    arguments, results = products_to_orders()
    random = np.random.default_rng(1)
    bases, rates = random.uniform(0.5, 1.5, (3, 4)), random.uniform(0.5, 1.5, 3)
    value, slopes = td.lambdify(arguments, results, backend)(bases, rates, last)
    number = np.arange(last + 1)
    terms = np.exp(-rates[:, None] * number) * bases.prod(1)[:, None] ** number
    np.testing.assert_allclose(value, np.log(terms.sum(1)).sum(), rtol=1e-12)
    np.testing.assert_allclose(slopes, ((terms * number).sum(1) / terms.sum(1))[:, None] / bases, rtol=1e-11)
