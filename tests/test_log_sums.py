"""Sums of exponentials of whole tensors: none overflows below a logarithm or in a quotient, differences keep digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from every import every
from in_c import COMPILER, Function, build
from sympy import exp, log, sqrt
from test_accurate_formulas import off, slopes

import sympy_tensordiff as td
from benchmarks.rows import ROWS
from sympy_tensordiff.codegen.program import build_program

n, m, i = td.indices("n m i")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
A = td.TensorSymbol("A", (n, n))
S, TOTAL = td.sum, td.sum(td.exp(x))
FAR, WEIGHTS = np.array([1000.0, 1001, 999]), np.array([0.5, 0.25, 2])
MATRIX = np.array([[1.0, 2, 0.5], [0.25, 1, 3], [2, 0.125, 1]])
e, dot = mpmath.exp, mpmath.fdot


def total(v):
    """Return the sum of the exponentials of a list."""
    return mpmath.fsum(map(e, v))


def weighted(w, v):
    """Return the sum of the products of a list of weights and exponentials."""
    return dot(w, map(e, v))


def rows(a):
    """Return the rows of a matrix of nine numbers."""
    return [a[k : k + 3] for k in (0, 3, 6)]


# A formula of x and y, or of A and x, and the same of lists of numbers.
SCALED = {
    "logarithm of a mean": (td.log(td.mean(td.exp(x))), lambda v, w: mpmath.log(total(v) / 3)),
    "weighted sum": (td.log(S(y * td.exp(x))), lambda v, w: mpmath.log(weighted(w, v))),
    "product": (td.log(y @ td.exp(-x)), lambda v, w: mpmath.log(dot(w, [e(-a) for a in v]))),
    "weighted mean": (S(y * td.exp(x)) / TOTAL, lambda v, w: weighted(w, v) / total(v)),
    "quotient of means": (
        td.mean(y * td.exp(x)) / td.mean(td.exp(x)),
        lambda v, w: weighted(w, v) / total(v),
    ),
    "effective sample size": (TOTAL**2 / S(td.exp(2 * x)), lambda v, w: total(v) ** 2 / total([2 * a for a in v])),
    "norm of weights": (
        sqrt(S(td.exp(x) ** 2)) / TOTAL,
        lambda v, w: mpmath.sqrt(total([2 * a for a in v])) / total(v),
    ),
    "variance under weights": (
        S(y**2 * td.exp(x)) / TOTAL - (S(y * td.exp(x)) / TOTAL) ** 2,
        lambda v, w: weighted([b * b for b in w], v) / total(v) - (weighted(w, v) / total(v)) ** 2,
    ),
    "background": (td.log(S(y * td.exp(x)) + 3), lambda v, w: mpmath.log(weighted(w, v) + 3)),
    "matrix": (
        S(td.log(A @ td.exp(x))),
        lambda a, v: mpmath.fsum(mpmath.log(weighted(row, v)) for row in rows(a)),
    ),
    "rows": (
        S(td.log((td.exp(A + td.einsum("b,a->ab", x, td.ones(n)))) @ td.ones(n))),
        lambda a, v: mpmath.fsum(mpmath.log(total([p + q for p, q in zip(row, v, strict=True)])) for row in rows(a)),
    ),
}


def assert_accurate(found, function, arrays, dtype=np.float64, ulps=20):
    """Compare a value and its gradients with multiple precision, the latter by their largest entries."""
    value, *gradients = found
    with mpmath.workdps(900):
        lists = [[mpmath.mpf(float(a)) for a in np.ravel(array)] for array in arrays]
        assert off([value], [function(*lists)], dtype) <= ulps
        for position, gradient in enumerate(gradients):
            wanted = slopes(function, lists, position)
            if max(map(abs, wanted)) > np.finfo(dtype).tiny:
                assert off(np.ravel(gradient), wanted, dtype) <= ulps, position
            else:
                assert not gradient.any()


@every("name", [*SCALED], turns=10)
def test_sums_of_exponentials_do_not_overflow(name):
    formula, function = SCALED[name]
    arguments = (A, x) if formula.has(A) else (x, y)
    for backend in ("numpy", "llvm", *("numba",) * (name == "weighted mean")):
        compute = td.lambdify(arguments, (formula, *td.gradient(formula, arguments)), backend)
        for sign in (1, -1):
            arrays = (MATRIX, sign * FAR) if formula.has(A) else (sign * FAR, WEIGHTS)
            assert_accurate(compute(*arrays), function, arrays)
        single = [array.astype(np.float32) for array in arrays]
        assert_accurate(compute(*single), function, single, np.float32)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_in_c(tmp_path):
    formula, function = SCALED["variance under weights"]
    forms = formula, *td.gradient(formula, (x, y))
    library = build({"f": td.generate_code((x, y), forms, "c", name="f")}, tmp_path)
    compute = Function(library, "f", build_program((x, y), forms))
    assert_accurate([np.squeeze(part) for part in compute(FAR, WEIGHTS)], function, (FAR, WEIGHTS))


@pytest.mark.in_turns(8)
def test_exponentials_that_are_needed_stay():
    """An exponential that some value needs as it is serves all others: the iterations of Sinkhorn have one matrix."""
    arguments, expression = ROWS["sinkhorn-hvp"].ours(ROWS["sinkhorn-hvp"].quick)
    assert td.generate_code(arguments, expression, "numpy").count("np.exp(") == 1
    source = td.generate_code((x, y), (td.exp(x) + y, S(y * td.exp(x)) / TOTAL), "numpy")
    assert "x.max()" not in source
    source = td.generate_code((x, y), (td.exp(x), S(y * td.exp(x)) / TOTAL), "numpy")
    assert "x.max()" in source  # a result of its own is not a reason to overflow elsewhere


def log_sum(v):
    """Return the logarithm of the sum of exponentials of a list."""
    return mpmath.log(total(v))


def moved(v, w):
    """Return the sums of the entries of two lists."""
    return [a + b for a, b in zip(v, w, strict=True)]


in_indices = [td.IndexedSum(exp(part), (i, 0, n - 1)) for part in (x[i] + y[i], x[i])]
DIFFERENCES = {
    "log-sum-exps": td.logsumexp(x + y) - td.logsumexp(x),
    "logarithm of a quotient": td.log(S(td.exp(x + y)) / S(td.exp(x))),
    "means": td.log(td.mean(td.exp(x + y))) - td.log(td.mean(td.exp(x))),
    "in index notation": log(in_indices[0]) - log(in_indices[1]),
}
STEPS = {
    "near": (FAR, np.array([1e-9, 2e-9, 3e-9])),
    "far": (FAR, np.array([900.0, 2, 3])),
    "down": (FAR, np.array([-40.0, -50, -60])),
    "of both signs": (-FAR, np.array([0.1, -0.2, 0.3])),
}


@every("name", [*DIFFERENCES], turns=8)
def test_differences_of_log_sum_exps(name):
    """The value, and its derivative with respect to `x`, a difference of softmaxes, by its largest entry."""
    form = DIFFERENCES[name]
    for backend in ("numpy", "llvm"):
        compute = td.lambdify((x, y), (form, td.gradient(form, x)), backend)
        for at, arrays in STEPS.items():
            found = compute(*arrays)
            with mpmath.workdps(900):
                lists = [[mpmath.mpf(a) for a in array] for array in arrays]
                function = lambda v, w: log_sum(moved(v, w)) - log_sum(v)  # noqa: E731
                assert off([found[0]], [function(*lists)], np.float64) <= 8, (name, at)
                assert off(found[1], slopes(function, lists, 0), np.float64) <= 12, (name, at)


def test_differences_along_an_axis():
    form = S(td.logsumexp(A + td.einsum("b,a->ab", x, td.ones(n)), axis=1) - td.logsumexp(A, axis=1))
    step = np.array([1e-9, -2e-9, 3e-9])
    arrays = 1000 + MATRIX, step

    def function(a, v):
        """Return the sum of the differences of all rows."""
        return mpmath.fsum(log_sum(moved(row, v)) - log_sum(row) for row in rows(a))

    for backend in ("numpy", "llvm"):
        found = td.lambdify((A, x), (form, *td.gradient(form, (A, x))), backend)(*arrays)
        assert_accurate(found[:2], function, arrays, ulps=12)


def test_other_differences_stay():
    """Of exponents that have no short difference, and of one that is the shorter one."""
    source = td.generate_code((x, y), td.logsumexp(y) - td.logsumexp(x), "numpy")
    assert "expm1" not in source
    assert "log-sum-exps" in td.lambdify((x, y), td.logsumexp(x) - td.logsumexp(x + y), "numpy").plan


def test_exponents_of_other_shapes_are_not_subtracted():
    """A matrix and a vector have no difference."""
    form = td.logsumexp(A) - td.logsumexp(x)
    found = td.lambdify((A, x), form, "numpy")(MATRIX, WEIGHTS)
    np.testing.assert_allclose(found, np.log(np.exp(MATRIX).sum()) - np.log(np.exp(WEIGHTS).sum()), rtol=1e-14)


def test_a_mean_is_a_sum_below_a_logarithm():
    assert str(td.gradient(td.log(td.mean(td.exp(x))), x)) == "softmax(x)"
    assert str(td.gradient(S(td.log(td.mean(td.exp(A), axis=1))), A)) == "softmax(A, axis=1)"
    assert str(td.log(td.mean(td.exp(x)))) == "log(mean(exp(x)))"
