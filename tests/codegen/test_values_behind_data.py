"""Functions behind a test of data, such as ``y[i] == 0``, are computed once, not again for each entry of a result."""

from itertools import pairwise

import numpy as np
import pytest
import sympy
from scipy.special import erfc

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import Load, Operation
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program

i, j, p = td.indices("i j p")
n, m = td.indices("n m")
X, w = td.TensorSymbol("X", (n, m)), td.TensorSymbol("w", m)
y = td.TensorSymbol("y", n, dtype=int)
score = td.IndexedSum(X[i, j] * w[j], (j, 0, m - 1))


def value(function, level):
    """The sum of a function of the scores of the rows that have this level."""
    return td.IndexedSum(sympy.Piecewise((function(score), sympy.Eq(y[i], level)), (0, True)), (i, 0, n - 1))


CASES = {
    "erfc": (lambda z: sympy.log(sympy.erfc(z)), lambda z: -2 / np.sqrt(np.pi) * np.exp(-(z**2)) / erfc(z)),
    "tanh": (lambda z: sympy.exp(sympy.tanh(z)), lambda z: np.exp(np.tanh(z)) / np.cosh(z) ** 2),
    "sin": (lambda z: 1 / (2 + sympy.sin(z)), lambda z: -np.cos(z) / (2 + np.sin(z)) ** 2),
}
"""Functions, and their derivatives in NumPy."""


@pytest.mark.parametrize("name", CASES)
def test_functions_are_computed_once_for_each_row(name):
    gradient = td.gradient(value(CASES[name][0], 2), w)
    for kernel in build_program((X, w, y), gradient).kernels:
        if isinstance(kernel, Kernel) and {part.array for part in scalars(kernel.body) if isinstance(part, Load)} >= {
            "X"
        }:
            called = {part.function for part in scalars(kernel.body) if isinstance(part, Operation)}
            assert (
                not kernel.axes
                or kernel.array != "result"
                or called.isdisjoint({"erfc", "erfcx", "exp", "tanh", "sin", "cos", "cosh", "logistic_density"})
            )


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("name", CASES)
def test_values(name, backend):
    call = td.lambdify((X, w, y), td.gradient(value(CASES[name][0], 2), w), backend)
    rng = np.random.default_rng(2)
    for rows, columns in ((1, 1), (5, 3), (19, 11)):
        x, weights, labels = (
            rng.normal(size=(rows, columns)),
            rng.normal(size=columns) / columns,
            rng.integers(0, 4, rows),
        )
        wanted = x.T @ (CASES[name][1](x @ weights) * (labels == 2))
        np.testing.assert_allclose(call(x, weights, labels), wanted, rtol=1e-11, atol=1e-12)
        single = call(x.astype(np.float32), weights.astype(np.float32), labels)
        np.testing.assert_allclose(single, wanted, rtol=1e-4, atol=1e-5)


def test_values_in_ranges_from_data_are_stored_once():
    """The range of v comes from data, its declared limits are sizes: values of v are stored for all of them, once."""
    n, q, d, i, v, k = td.indices("n q d i v k")
    X, w = td.TensorSymbol("X", (q, d)), td.TensorSymbol("w", d)
    start = td.TensorSymbol("start", n + 1, dtype=int, below=q + 1)
    miss = 1 - td.sigmoid(td.IndexedSum(X[v, k] * w[k], (k, 0, d - 1)))
    value = td.IndexedSum(td.IndexedProduct(miss, (v, start[i], start[i + 1] - 1)), (i, 0, n - 1))
    gradient = td.gradient(value, w)
    program = build_program((X, w, start), gradient)
    assert {str(array.shape) for array in program.temporaries} == {"(q,)"} and len(program.temporaries) == 3
    rng = np.random.default_rng(0)
    points, weights, limits = rng.normal(size=(9, 2)), rng.normal(size=2), np.array([0, 2, 2, 6, 7, 9])
    own = 1 / (1 + np.exp(points @ weights))
    wanted = sum(-np.prod(own[low:high]) * ((1 - own[low:high]) @ points[low:high]) for low, high in pairwise(limits))
    for backend in ("numpy", "llvm"):
        found = td.lambdify((X, w, start), gradient, backend)(points, weights, limits)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_an_array_over_rows_of_data_is_no_larger_than_the_loops():
    """Values of i and of v in the range that data give for i would fill n*q entries; the loops visit q."""
    n, q, i, v, u = td.indices("n q i v u")
    x = td.TensorSymbol("x", q)
    start = td.TensorSymbol("start", n + 1, dtype=int, below=q + 1)
    before = td.IndexedSum(sympy.sin(x[u]), (u, start[i], v - 1))
    value = td.IndexedSum(sympy.cos(before) * x[v], (v, start[i], start[i + 1] - 1), (i, 0, n - 1))
    program = build_program((x, start), value)
    assert all(len(array.shape) < 2 for array in program.temporaries)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_pairs_of_rows_and_their_neighbours_are_not_stored(backend):
    """A table over rows i and all neighbours e would have n*q entries, of which q are needed; nor is a product of
    matrices computed for all of them.
    """
    n, q, d, i, e, k = td.indices("n q d i e k")
    X, U = td.TensorSymbol("X", (n, d)), td.TensorSymbol("U", (q, d))
    start = td.TensorSymbol("start", n + 1, dtype=int, below=q + 1)
    near = td.TensorSymbol("near", q, dtype=int, below=n)
    distance = td.IndexedSum((X[i, k] - X[near[e], k]) ** 2, (k, 0, d - 1))
    product = td.IndexedSum(X[i, k] * U[e, k], (k, 0, d - 1))
    total = td.IndexedSum(sympy.exp(-distance) * sympy.tanh(product), (e, start[i], start[i + 1] - 1))
    value = td.IndexedSum(total**2, (i, 0, n - 1))
    results = value, td.gradient(value, X)
    program = build_program((X, U, start, near), results, library=backend == "numpy")
    sizes = [str(array.shape) for array in program.temporaries]
    assert "(n, q)" not in sizes and "(q, n)" not in sizes
    rng = np.random.default_rng(0)
    points, others = rng.normal(size=(4, 2)), rng.normal(size=(9, 2))
    limits, neighbours = np.array([0, 3, 3, 7, 9]), rng.integers(0, 4, 9)
    owner = np.repeat(np.arange(4), np.diff(limits))

    def of_arrays(at):
        terms = np.exp(-((at[owner] - at[neighbours]) ** 2).sum(1)) * np.tanh((at[owner] * others).sum(1))
        return (np.bincount(owner, terms, 4) ** 2).sum()

    found = td.lambdify((X, U, start, near), results, backend)(points, others, limits, neighbours)
    assert found[0] == pytest.approx(of_arrays(points), rel=1e-12)
    along, step = rng.normal(size=(4, 2)), 1e-3
    ends = [(h, of_arrays(points + h * along), of_arrays(points - h * along)) for h in (step, 2 * step)]
    slopes = [(above - below) / (2 * h) for h, above, below in ends]
    assert (found[1] * along).sum() == pytest.approx((4 * slopes[0] - slopes[1]) / 3, rel=1e-8)
