"""The baseline: 42 derivatives written with SymPy's own `Sum` over `IndexedBase`.

What SymPy's `diff`, its `doit` and this package make of them is compared in the documentation
(`docs/regenerate_baseline.py`), tested (`test_baseline.py`) and timed (`benchmarks/baseline.py`). All arrays
are real and have shapes, in which every entry that is read lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Abs, Indexed, IndexedBase, KroneckerDelta, Max, Min, Piecewise, Product, Sum, exp, log, sign

i, j, k, p, q, r = sympy.symbols("i j k p q r", integer=True)
K, L, M, N = SIZES = sympy.symbols("K L M N", integer=True, positive=True)


@dataclass(frozen=True)
class Task:
    """A function and what it is differentiated by.

    Attributes
    ----------
    title : str
    function : Expr
    by : tuple of Indexed
        One entry, or two for a second derivative.
    by_data : bool
        Whether data select entries: then a delta stays under the sum.
    """

    title: str
    function: Any
    by: tuple[Any, ...]
    by_data: bool = False


def array(name: str, *shape: Any) -> IndexedBase:
    return IndexedBase(name, shape=shape, real=True)


def without_shapes(task: Task) -> Task:
    """The task with arrays of unknown shape."""

    def bare(expr: Any) -> Any:
        if isinstance(expr, Indexed):
            return IndexedBase(expr.base.name)[tuple(map(bare, expr.indices))]
        return expr.func(*map(bare, expr.args)) if expr.args else expr

    return Task(task.title, bare(task.function), tuple(map(bare, task.by)), task.by_data)


def tasks() -> dict[str, Task]:
    """All 42, by number."""
    found = {**_products(), **_index_maps(), **_functions()}
    return dict(sorted(found.items(), key=lambda item: (int(item[0].rstrip("bc")), item[0])))


def _products() -> dict[str, Task]:
    A, B, C, D, X = array("A", M, K), array("B", K, N), array("A", K, K), array("B", K, M), array("X", N, N)
    S, x, y, short, long = array("A", N, N), array("x", N), array("y", N), array("x", M), array("x", L)
    product, square = Sum(A[i, k] * B[k, j], (k, 0, K - 1)), Sum(A[i, k] * D[k, j], (k, 0, K - 1)) ** 2
    named_alike = Sum(C[i, k] * array("B", K, K)[k, j], (k, 0, K - 1))
    left, right = array("X", M, M, K), array("Y", M, M, M)
    forms = D[k, j] * left[p, i, k] * right[p, i, j]
    triangle = Sum(S[i, j] * x[j], (j, 0, i), (i, 0, N - 1))
    delta = KroneckerDelta(i, j)
    ranges = (p, 0, M - 1), (i, 0, M - 1), (j, 0, M - 1), (k, 0, K - 1)
    dot, squares = Sum(x[i] * y[i], (i, 0, N - 1)), Sum(x[i] ** 2, (i, 0, N - 1))
    quadratic = Sum(S[i, j] * x[i] * x[j], (i, 0, N - 1), (j, 0, N - 1))
    return {
        "1": Task("matrix product, one entry", product, (A[p, q],)),
        "2": Task("squares of a matrix product", Sum(square, (i, 0, M - 1), (j, 0, M - 1)), (A[p, q],)),
        "3": Task("dot product", dot, (x[p],)),
        "3b": Task("dot product of inner entries", Sum(x[i] * y[i], (i, 1, N - 2)), (x[p],)),
        "4": Task("trace", Sum(X[i, i], (i, 0, N - 1)), (X[p, q],)),
        "5": Task("squares of a diagonal", Sum(X[i, i] ** 2, (i, 0, N - 1)), (X[p, q],)),
        "13": Task("triangular matrix times vector, summed", triangle, (x[p],)),
        "13b": Task("the same by the matrix", triangle, (S[p, q],)),
        "14": Task("Kronecker delta in the sum", Sum(delta * x[i] * y[j], (i, 0, N - 1), (j, 0, N - 1)), (x[p],)),
        "14b": Task("delta over unequal ranges", Sum(delta * short[i] * y[j], (i, 0, M - 1), (j, 0, N - 1)), (y[p],)),
        "15": Task("quadratic form, second derivative", quadratic, (x[p], x[q])),
        "15b": Task("sum of cubes, second derivative", Sum(x[i] ** 3, (i, 0, N - 1)), (x[p], x[q])),
        "16": Task("entry named like the sum's index", dot, (x[i],)),
        "16b": Task("matrix entry named like the sum's index", named_alike, (C[k, j],)),
        "16c": Task("entry named like one of two sums' indices", squares * Sum(x[p], (p, 0, N - 1)), (x[p],)),
        "23": Task("entry that the sum does not run over", Sum(x[p] ** 2 * y[i], (i, 0, N - 1)), (x[p],)),
        "25": Task("entry 0", squares, (x[0],)),
        "25b": Task("entry 5, perhaps beyond the sum", Sum(long[i] ** 2, (i, 0, N - 1)), (long[5],)),
        "27": Task("batch of bilinear forms", Sum(forms, *ranges), (D[q, r],)),
    }


def _index_maps() -> dict[str, Task]:
    x, y, z, w, A = array("x", N), array("y", N), array("y", M), array("w", K), array("A", N, M)
    free, diagonals, twice = array("x", L), array("x", M + N - 1), array("x", 2 * N)
    strided, dilated, flat = array("x", 2 * N + K - 2), array("x", 2 * N + 3 * K - 4), array("x", M * N)
    c = IndexedBase("c", shape=(N,), integer=True)
    loss = Sum(Sum(w[k] * strided[2 * i + k], (k, 0, K - 1)) ** 2, (i, 0, N - 1))
    both = Sum(w[k] * dilated[2 * i + 3 * k] * y[i], (i, 0, N - 1), (k, 0, K - 1))
    flattened = Sum(A[i, j] * flat[M * i + j], (i, 0, N - 1), (j, 0, M - 1))
    antidiagonals = Sum(diagonals[i + j] ** 2, (i, 0, M - 1), (j, 0, N - 1))
    return {
        "6": Task("correlation, one entry", Sum(free[i + j] * z[j], (j, 0, M - 1)), (free[p],)),
        "7": Task("squares of sums of two indices", antidiagonals, (diagonals[p],)),
        "8": Task("every second entry", Sum(twice[2 * i] * y[i], (i, 0, N - 1)), (twice[p],)),
        "9": Task("squares of the odd entries", Sum(twice[2 * i + 1] ** 2, (i, 0, N - 1)), (twice[p],)),
        "10": Task("flattened matrix of symbolic width", flattened, (flat[p],)),
        "11": Task("convolution of stride 2, one entry", Sum(w[k] * free[2 * i + k], (k, 0, K - 1)), (free[p],)),
        "11b": Task("squares of a convolution of stride 2", loss, (strided[p],)),
        "12": Task("convolution of stride 2 and dilation 3", both, (dilated[p],)),
        "24": Task("entries chosen by data", Sum(x[c[i]] * y[i], (i, 0, N - 1)), (x[p],), by_data=True),
        "26": Task("reversed order", Sum(x[N - 1 - i] * y[i], (i, 0, N - 1)), (x[p],)),
        "28": Task("Toeplitz matrix, one entry", Sum(free[i - j] * y[j], (j, 0, N - 1)), (free[p],)),
    }


def _functions() -> dict[str, Task]:
    x, y, z, A = array("x", N), array("y", N), IndexedBase("x", shape=(N,)), array("A", N, M)
    softmax = exp(x[i]) / Sum(exp(x[j]), (j, 0, N - 1))
    rows = Sum(log(Sum(A[i, j] ** 2, (j, 0, M - 1)) + 1), (i, 0, N - 1))
    by_value = Piecewise((x[i] ** 2, x[i] > 0), (x[i], True))
    by_index = Piecewise((x[i] ** 2, i > 0), (x[i], True))

    def total(body: Any) -> Any:
        return Sum(body, (i, 0, N - 1))

    return {
        "17": Task("log-sum-exp", log(total(exp(x[i]))), (x[p],)),
        "17b": Task("softmax, one entry", softmax, (x[p],)),
        "17c": Task("sum of functions of sums", rows, (A[p, q],)),
        "18": Task("product", Product(x[i], (i, 0, N - 1)), (x[p],)),
        "18b": Task("product, entry named like its index", Product(x[i], (i, 0, N - 1)), (x[i],)),
        "19": Task("relu", total(y[i] * Max(0, x[i])), (x[p],)),
        "19b": Task("lesser of two entries", total(Min(x[i], y[i])), (x[p],)),
        "20": Task("absolute value", total(Abs(x[i])), (x[p],)),
        "20b": Task("absolute value, array not declared real", total(Abs(z[i])), (z[p],)),
        "21": Task("sign", total(sign(x[i]) * x[i]), (x[p],)),
        "22": Task("cases by value", total(by_value), (x[p],)),
        "22b": Task("cases by index", total(by_index), (x[p],)),
    }
