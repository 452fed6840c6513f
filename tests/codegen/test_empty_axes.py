"""Calls in which an axis has no entries: sums over it are 0, results follow, what has no value is refused by name."""

import contextlib
import pickle
from itertools import product

import numpy as np
import pytest
import sympy
from every import every
from jax_versions import enable_x64
from sympy import KroneckerDelta, Max, Min, Mod, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff import IndexedMax, IndexedMin, IndexedProduct, IndexedSum, TensorComprehension, TensorSymbol
from sympy_tensordiff.errors import ArgumentError, OutOfShapeError
from sympy_tensordiff.reference import evaluate

i, j, k, p, n, m = td.indices("i j k p n m")
x, y, A, B = TensorSymbol("x", n), TensorSymbol("y", m), TensorSymbol("A", (n, m)), TensorSymbol("B", (m, n))
chosen = TensorSymbol("chosen", m, dtype=int)
gaps = TensorComprehension((x[i + 1] - x[i]) ** 2, (i, n - 1))
SUMS = {
    "sum": IndexedSum(x[i] ** 2, (i, 0, n - 1)) + 3,
    "sum of two": IndexedSum(x[i] * y[j], (i, 0, n - 1), (j, 0, m - 1)),
    "product": IndexedProduct(x[i], (i, 0, n - 1)) * IndexedSum(y[j], (j, 0, m - 1)),
    "number of terms": IndexedSum(y[j], (i, 0, n - 1), (j, 0, m - 1)),
    "one term, which is there for a size": IndexedSum(KroneckerDelta(i, 0) * y[j], (i, 0, n - 1), (j, 0, m - 1)),
    "a prefix": TensorComprehension(IndexedSum(x[j], (j, 0, Min(i, n - 1))), (i, m)),
    "a suffix": TensorComprehension(IndexedSum(x[j], (j, Max(0, n - 2), n - 1)), (i, m)),
    "a choice": TensorComprehension(Piecewise((x[i], i < n), (y[i], True)), (i, m)),
    "a circle": TensorComprehension(IndexedSum(x[Mod(i + j, n)], (j, 0, n - 1)), (i, m)),
    "whole": td.sum(x**2) * td.sum(td.exp(y)),
    "products of matrices": A @ B,
    "the other order": B @ A @ y,
    "row sums": td.sum(A, axis=1) + x,
    "softmax": td.softmax(A, axis=1),
    "trace": td.trace(A @ B),
    "outer": td.einsum("i,j->ij", x, y),
    "Gram determinant": td.det(A @ B + td.DeltaTensor(n)),
    "inverse": td.inv(A @ B + td.DeltaTensor(n)),
    "differences": td.sum(gaps) + td.sum(y),
    "table twice": TensorComprehension(td.sum(td.exp(A), axis=0)[i] * y[i], (i, m)),
    "greatest of each row": TensorComprehension(IndexedMax(A[i, j], (j, 0, m - 1), (k, 0, 2)), (i, n)),
}
DATA = {
    "neighbours": IndexedSum(x[Min(chosen[j], n - 1)] * y[j], (j, 0, m - 1)),
    "gathered": TensorComprehension(y[j] * chosen[j], (j, m)),
}
MISSING = {
    "IndexedMax has no value where an axis has no entries": IndexedMax(x[i], (i, 0, n - 1)),
    "IndexedMin has no value": TensorComprehension(IndexedMin(x[i] * y[j], (i, 0, n - 1)), (j, m)),
    "logsumexp has no value": td.logsumexp(x),
    "a quotient by a size has no value": td.mean(x),
    "with n = 0: a quotient by a size": td.mean(A, axis=0) + y,
    "an index divided by 0 has no value": TensorComprehension(x[0] * Mod(j, n), (j, m)),
}


def arrays(rows, columns):
    rng = np.random.default_rng(0)
    shapes = {x: (rows,), y: (columns,), A: (rows, columns), B: (columns, rows)}
    return {tensor: rng.integers(1, 5, shape).astype(float) / 4 for tensor, shape in shapes.items()}


def same(got, want):
    want = np.asarray(want).astype(float)
    assert np.shape(got) == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@every("name", [*SUMS], turns=8)
def test_as_the_interpreter_has_it(name):
    """The value and the derivatives, for all choices of sizes of which one is 0, and for positive ones after that."""
    value = SUMS[name]
    shape = getattr(value, "shape", ())
    results = (value, *td.vjp(value, (x, y), td.FilledTensor(1, shape) if shape else sympy.S.One))
    kernel = td.lambdify([x, y, A, B], results, "numpy")
    checked = 0
    for sizes in product((0, 1, 3), repeat=2):
        values = arrays(*sizes)
        try:
            wanted = [evaluate(result, values) for result in results]
        except (ArithmeticError, ValueError, OutOfShapeError):
            continue
        if (name.startswith("greatest") and sizes == (3, 0)) or (sizes == (1, 0) and name.startswith("greatest")):
            continue
        for got, want in zip(kernel(*values.values()), wanted, strict=True):
            same(got, want)
        checked += 0 in sizes
    assert checked >= 2


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", ["products of matrices", "softmax", "differences"])
def test_compiled(name):
    kernel = pickle.loads(pickle.dumps(td.lambdify([x, y, A, B], SUMS[name], "numba")))
    for sizes in ((1 if name == "differences" else 0, 2), (2, 0), (2, 2)):
        values = arrays(*sizes)
        same(kernel(*values.values()), evaluate(SUMS[name], values))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", DATA)
def test_data(name, backend):
    kernel = td.lambdify([x, y, chosen], DATA[name], backend)
    got = kernel(np.ones(3), np.ones(0), np.ones(0, int))
    assert np.size(got) == 0 or got == 0
    with pytest.raises(OutOfShapeError):
        td.lambdify([x, chosen], TensorComprehension(x[chosen[j]], (j, m)), backend)(np.ones(0), np.zeros(2, int))


@every("message", [*MISSING])
def test_what_has_no_value_is_refused(message):
    kernel = td.lambdify([x, y, A], MISSING[message], "numpy")
    values = arrays(0, 3)
    with pytest.raises(ArgumentError, match=message):
        kernel(values[x], values[y], values[A])
    values = arrays(2, 3)
    kernel(values[x], values[y], values[A])


def test_reads_of_what_is_not_there_are_refused():
    with pytest.raises(OutOfShapeError, match=r"with n = 0: x\[0\] is read outside of the shape of x, along axis 0"):
        td.lambdify([x, y], x[0] * y, "numpy")(np.ones(0), np.ones(2))


def test_results_are_given_and_functions_of_users_work():
    h = sympy.Function("h")
    kernel = td.lambdify(
        [x, y], TensorComprehension(IndexedSum(h(x[i]), (i, 0, n - 1)), (j, m)), "numpy", functions={"h": np.exp}
    )
    out = np.full(2, 7.0)
    assert kernel(np.ones(0), np.ones(2), out=out) is out
    np.testing.assert_array_equal(out, 0)
    np.testing.assert_allclose(kernel(np.ones(1), np.ones(2)), np.e)
    assert kernel(np.ones(0, "f"), np.ones(2, "f")).dtype == np.float32


def test_programs_for_empty_axes_are_built_once():
    kernel = td.lambdify([x, y], SUMS["sum of two"], "numpy")
    kernels = [kernel(np.ones(0), np.ones(size)) for size in range(1, 30)]
    assert kernels == [0] * 29
    assert kernel._for_empty_axes.cache_info().currsize == 1


def test_what_a_declared_sign_forbids_is_refused():
    size = sympy.Symbol("N", integer=True, positive=True)
    z = TensorSymbol("z", size)
    with pytest.raises(ArgumentError, match="N is declared to be at least 1, and is 0 in this call"):
        td.lambdify([z], IndexedSum(z[i], (i, 0, size - 1)), "numpy")(np.ones(0))


def test_cuda_refuses_arrays_without_entries():
    kernel = td.lambdify([x, y], SUMS["sum of two"], "cuda")
    with pytest.raises(ArgumentError, match=r"argument x has length 0 on axis 0 .* only functions for 'numpy'"):
        kernel(np.ones(0), np.ones(2))


WINDOWS = {
    "products of matrices": IndexedSum(
        sympy.log(1 + IndexedSum(y[k] * x[4 * i + k] * sympy.cos(j * k), (k, 0, 7)) ** 2), (j, 0, 4), (i, 0, n - 1)
    ),
    "one array": IndexedSum(sympy.exp(IndexedSum(y[k] * x[4 * i + k], (k, 0, 7))), (i, 0, n - 1)) + x[0],
}
"""Functions of windows, which no tensor has an axis for: windows of a signal of ``4*n + 8`` entries."""


@pytest.mark.parametrize("backend", ["numpy", "llvm", pytest.param("numba", marks=pytest.mark.in_turns(10)), "jax"])
@pytest.mark.parametrize("name", WINDOWS)
def test_sizes_of_0_that_are_no_extents(name, backend):
    """A size that a program assumes to be positive is 0 although no axis is empty."""
    if backend == "jax":
        pytest.importorskip("jax")
    double = enable_x64(True) if backend == "jax" else contextlib.nullcontext()
    signal, weights = TensorSymbol("x", 4 * n + 8), TensorSymbol("y", 8)
    value = WINDOWS[name].xreplace({x: signal, y: weights})
    results = (value, *td.gradient(value, (signal, weights)))
    with double:
        kernel = td.lambdify([signal, weights], results, backend)
        for length in (8, 12, 8, 20):
            values = {signal: np.linspace(0.1, 0.5, length), weights: np.linspace(0.2, 0.3, 8)}
            for got, result in zip(kernel(*values.values()), results, strict=True):
                same(got, evaluate(result, values))
        with pytest.raises(ArgumentError, match="4\\*n \\+ 8 for any integer n that is not negative"):
            kernel(np.ones(4), np.ones(8))
