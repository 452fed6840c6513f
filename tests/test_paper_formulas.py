"""Formulas as papers print them (`printed.txt` has their forms): values by dual numbers and by differences."""

import numpy as np
import pytest
import sympy
from every import every
from sympy import Abs, LeviCivita, Ne, Piecewise, Rational

import sympy_tensordiff as td
from sympy_tensordiff.reference import derivative, evaluate

n, N, i, j, k, p, q = td.indices("n N i j k p q")
x, y, v, w = (td.TensorSymbol(name, n) for name in "xyvw")
u, M = td.TensorSymbol("u", 3), td.TensorSymbol("M", (n, n))
over_i, over_j, three = (i, 0, n - 1), (j, 0, n - 1), [(index, 0, 2) for index in (i, j, k)]
ratio, size, eps = td.exp(x - y), Abs(x[i] - x[j]), Rational(1, 4)
spline = Piecewise((1 - 6 * size**2 + 6 * size**3, size < Rational(1, 2)), (2 * (1 - size) ** 3, size < 1), (0, True))
square = (x[i] - x[j]) ** 2


def unequal(body):
    return Piecewise((body, Ne(i, j)), (0, True))


neighbours = td.IndexedSum(unequal(M[i, j] * sympy.log(1 + square)), over_j, over_i) + sympy.log(
    td.IndexedSum(unequal(1 / (1 + square)), over_j, over_i)
)
LOSSES = {
    "sums of what follows": td.sum(v * td.log(td.flip(td.cumsum(td.flip(td.exp(x)))))),
    "products of what follows": td.sum(v * td.flip(td.cumprod(td.flip(x)))),
    "clipped objective": td.mean(td.minimum(ratio * v, td.clip(ratio, 1 - eps, 1 + eps) * v)),
    "clipped by a tensor": td.sum(v * td.minimum(td.maximum(x, y), w)),
    "greater of two": td.sum(w * td.maximum(x, v)),
    "spline of distances": td.IndexedSum(spline, over_i, over_j),
    "neighbours": neighbours,
    "Student's t": 2 * td.sum(td.log(1 + (y - M @ x) ** 2 / 3)),
}


def values(at):
    rng = np.random.default_rng(at)
    found = {tensor: rng.uniform(0.2, 1.5, size=4) for tensor in (x, y, v, w)}
    found |= {M: rng.normal(size=(4, 4)), n: 4}
    found[x][:2] = found[v][:2] = found[y][:2]  # ties
    return found


@every("name", [*LOSSES])
def test_gradients(name):
    loss, given = LOSSES[name], values(1)
    gradient = td.gradient(loss, x)
    right = np.asarray(derivative(loss, (x,), given), dtype=float)
    np.testing.assert_allclose(np.asarray(evaluate(gradient, given), dtype=float), right, rtol=1e-9)
    tensors = sorted((t for t in given if t is not n and gradient.has(t)), key=str)
    kernel = td.lambdify(tensors, gradient, "numpy")
    np.testing.assert_allclose(kernel(*(given[t] for t in tensors)), right, rtol=1e-9)
    parts, (reduced,) = td.cse([gradient])
    for symbol, definition in parts:
        given[symbol] = evaluate(definition, given)
    np.testing.assert_allclose(np.asarray(evaluate(reduced, given), dtype=float), right, rtol=1e-9)


def test_a_reversed_running_sum_is_one_sum():
    tail = td.flip(td.cumsum(td.flip(x)))
    assert str(tail) == "TensorComprehension(IndexedSum(x[j], (j, i, n - 1)), (i, n))"
    assert evaluate(tail, {x: [1, 2, 4], n: 3}).tolist() == [7, 6, 4]
    assert "carry" in str(td.lambdify(x, td.gradient(td.sum(td.log(tail)), x)).plan)


def test_backward_sums_that_read_other_entries_stay():
    both = td.IndexedSum(x[n - 1 - i] * y[i], over_i)
    assert str(td.simplify_deltas(both)) == "IndexedSum(x[n - i - 1]*y[i], (i, 0, n - 1))"
    weighted = td.IndexedSum(i * x[n - 1 - i], over_i)
    assert str(td.simplify_deltas(weighted)) == "IndexedSum(i*x[n - i - 1], (i, 0, n - 1))"
    pairs = td.IndexedSum(x[n - 1 - i] * y[n - 1 - i], over_i)
    assert str(td.simplify_deltas(pairs)) == "IndexedSum(x[i]*y[i], (i, 0, n - 1))"


def test_one_guard_around_a_sum():
    bare, a = sympy.IndexedBase("x"), Rational(1, 3)
    energy = sympy.Sum((bare[i] ** 2 - 1) ** 2, (i, 0, N - 1)) + sympy.Sum(
        (bare[i + 1] - bare[i] - a) ** 2, (i, 0, N - 2)
    )
    slope = td.diff(energy, bare[p])
    assert str(slope).count("p <= N - 1") == 1
    entries = np.array([0.3, -0.5, 1.2, 0.7, 2.0])

    def total(at):
        return ((at[:4] ** 2 - 1) ** 2).sum() + ((at[1:4] - at[:3] - 1 / 3) ** 2).sum()

    (tensor,) = slope.atoms(td.TensorSymbol)
    (extent,) = tensor.shape
    for place in range(5):
        step = 1e-6 * np.eye(5)[place]
        right = (total(entries + step) - total(entries - step)) / 2e-6
        found = evaluate(slope, {tensor: entries, N: 4, p: place, extent: 5})
        assert float(found) == pytest.approx(right, abs=1e-8)


def test_matrices_of_sympy_stay_matrices():
    column, D, weights = sympy.MatrixSymbol("u", n, 1), sympy.MatrixSymbol("D", n, n), sympy.MatrixSymbol("w", n, 1)
    residual = D * D * column + column.applyfunc(sympy.exp)
    slope = td.diff((residual.T * sympy.HadamardProduct(weights, residual))[0, 0], column)
    assert isinstance(slope, sympy.MatrixExpr)
    rng = np.random.default_rng(0)
    at, by, d = rng.normal(size=(3, 1)), rng.normal(size=(3, 1)), rng.normal(size=(3, 3))
    r = d @ d @ at + np.exp(at)
    right = 2 * r * np.exp(at) * by + 2 * d.T @ d.T @ (r * by)
    np.testing.assert_allclose(td.lambdify([column, D, weights], slope, "numpy")(at, d, by), right)


def test_permutation_symbols_keep_their_name():
    a, b = td.TensorSymbol("a", 3), td.TensorSymbol("b", 3)
    triple = td.IndexedSum(LeviCivita(i, j, k) * u[i] * a[j] * b[k], *three)
    slope = td.gradient(triple, u)
    assert slope.body.has(LeviCivita)
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=3), rng.normal(size=3)
    np.testing.assert_allclose(td.lambdify([a, b], slope, "numpy")(first, second), np.cross(first, second))


def test_formulas_write_entries_out_and_name_norms():
    mean = td.TensorComprehension(td.IndexedSum(M[i, k], (k, 0, n - 1)) / n, (i, n))
    assert td.latex(x[p] - mean[p]) == r"x_{p} - \frac{\sum_{k=0}^{n - 1} M_{p k}}{n}"
    assert td.latex(td.IndexedSum(mean[i] ** 2, over_i)) == (
        r"\sum_{i=0}^{n - 1} \frac{\left(\sum_{k=0}^{n - 1} M_{i k}\right)^{2}}{n^{2}}"
    )
    assert td.latex(3 * td.norm(M @ x)) == r"3 \left\|M x\right\|"
