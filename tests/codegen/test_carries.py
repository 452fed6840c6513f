"""Prefix sums, products and extrema inside of other sums take one pass, forwards and backwards."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import sympy
from as_python import as_python

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import print_source

i, j, k, n, m = td.indices("i j k n m")
a, b = td.TensorSymbol("a", n + 6), td.TensorSymbol("b", n + 6)
A = td.TensorSymbol("A", (m, n + 6))
g = sympy.Symbol("g", positive=True)
Sum, Prod = td.IndexedSum, td.IndexedProduct


def ahead(first, gap, last):
    """Terms after entry i, each times the factors between."""
    return Sum(b[j + 2] * Prod(a[k + 3], (k, i + gap, j + last)), (j, i + first, n - 1))


def behind(last, gap, first):
    """Terms up to entry i, each times the factors between."""
    return Sum(b[j + 2] * Prod(a[k + 3], (k, j + first, i + gap)), (j, 0, i + last))


ENTRIES = {
    "a product inside of a sum": b[i] * Prod(1 - a[k], (k, 0, i - 1)),
    "a maximum inside of a sum": (td.IndexedMax(a[k], (k, 0, i)) - a[i]) ** 2,
    "products ahead": ahead(1, 1, -1),
    "products ahead with their ends": ahead(1, 0, 0),
    "products ahead of both": ahead(2, 1, 1),
    "products behind": behind(-1, -1, 1),
    "products behind with their ends": behind(0, 0, 0),
    "discounted values": Sum(g ** (j - i) * b[j], (j, i, n - 1)),
    "filtered values": Sum(g ** (2 * i - 2 * j + 1) * b[j] * a[j + 1], (j, 0, i)),
    "behind a condition": sympy.Piecewise((ahead(1, 1, -1) + b[i], (i <= n - 2) & (i >= 1)), (0, True)),
    "two directions": ahead(1, 1, -1) * Prod(a[k], (k, 0, i)),
}
"""Entries that one pass computes."""

OTHERS = {
    "a product that ends later": ahead(1, 2, -1) * Prod(a[k], (k, i, i + 2)),
    "a product that misses the nearest term": Sum(b[j] * Prod(a[k], (k, i + 3, j - 1)), (j, i, n - 1)),
    "a base of the entry": Sum(a[i] ** (i - j) * b[j], (j, 0, i)),
    "a base of the term": Sum(a[j] ** (i - j) * b[j], (j, 0, i)),
    "a power that shrinks": Sum(g ** (j - i) * b[j], (j, 0, i)),
    "two factors": Sum(g ** (i - j) * sympy.cos(a[i] * b[j]), (j, 0, i)),
    "a product of the entry": Sum(b[j] * Prod(a[k] + a[i], (k, i + 1, j - 1)), (j, i + 1, n - 1)),
    "a window": Sum(b[j] * Prod(a[k], (k, i + 1, j - 1)), (j, i + 1, sympy.Min(i + 3, n - 1))),
}
"""Entries that have loops of their own."""


def values(count: int) -> tuple[Any, ...]:
    random = np.random.default_rng(count)
    first = random.normal(size=count + 6)
    first[count // 2] = 0
    return first, random.normal(size=count + 6), 1.2, count


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", [*ENTRIES, *OTHERS])
@pytest.mark.usefixtures("uncompiled")
def test_values_and_gradients(name):
    entry = {**ENTRIES, **OTHERS}[name]
    total = Sum(sympy.sin(entry), (i, 0, n - 1))
    results = (total, td.TensorComprehension(entry, (i, n)), *td.gradient(total, (a, b)))
    ours = td.lambdify((a, b, g, n), results, "numba")
    plain = td.lambdify((a, b, g, n), results, "numpy", temporaries=False)
    source = print_source(build_program((a, b, g, n), results[1]), "numba")
    assert "_so_far" in source if name in ENTRIES else not re.search(r"\bs\d*_so_far", source)
    for count in (1, 2, 9):
        for found, wanted in zip(ours(*values(count)), plain(*values(count)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_no_array_is_larger_than_a_window():
    program = build_program((a, b, n), td.TensorComprehension(OTHERS["a window"], (i, n)))
    assert all(len(array.shape) < 2 for array in program.temporaries)


class Counted(np.ndarray):
    """An array that counts its reads in the attribute of the class."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        Counted.reads += 1
        return np.asarray(self)[place]


@pytest.mark.parametrize("name", ["a product inside of a sum", "products ahead", "discounted values", "two directions"])
def test_the_work_is_linear(name):
    total = Sum(ENTRIES[name] ** 2, (i, 0, n - 1))
    run = as_python(print_source(build_program((a, b, g, n), (total, td.gradient(total, b))), "numba"))
    for count in (40, 80):
        Counted.reads = 0
        first, second, number, _ = values(count)
        run(first.view(Counted), second.view(Counted), number, count, np.empty(()), np.empty(count + 6))
        assert count <= Counted.reads <= 25 * count


def test_value_and_gradient_share_a_prefix_product():
    """Ray compositing: one array of products for both, which reads each factor once in each direction."""
    alpha, colour = td.TensorSymbol("alpha", (m, n)), td.TensorSymbol("colour", (m, n))
    pixel = Sum(colour[i, j] * alpha[i, j] * Prod(1 - alpha[i, k], (k, 0, j - 1)), (j, 0, n - 1))
    total = Sum(pixel**2, (i, 0, m - 1))
    results = (total, *td.gradient(total, (alpha, colour)))
    source = print_source(build_program((alpha, colour), results), "numba")
    assert source.count("product_so_far = real(1)") == 1
    plain = td.lambdify((alpha, colour), results, "numpy", temporaries=False)
    random = np.random.default_rng(0)
    arrays = random.uniform(size=(3, 7)), random.normal(size=(3, 7))
    for found, wanted in zip(td.lambdify((alpha, colour), results)(*arrays), plain(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_along_either_axis(axis):
    source = print_source(build_program((A,), td.cumsum(A, axis=axis)), "numba")
    assert "_so_far" in source
    array = np.random.default_rng(1).normal(size=(4, 9))
    ours = td.lambdify((A,), td.cumsum(A, axis=axis))
    np.testing.assert_allclose(ours(array), np.cumsum(array, axis=axis), rtol=1e-13)


ranks = td.TensorSymbol("ranks", (m, n), dtype=int, below=n + 6)
scores = td.TensorSymbol("scores", (m, n))


@pytest.mark.parametrize("score", [scores[i, k], a[ranks[i, k]]], ids=["scores", "ranked scores"])
@pytest.mark.usefixtures("uncompiled")
def test_rows_of_log_sum_exps_take_one_pass(score):
    """In the likelihood of rankings no exponential is kept for a pair of ranks, also where data select the scores."""
    after = sympy.log(Sum(sympy.exp(score), (k, j, n - 1)))
    total = Sum(after - score.subs(k, j), (j, 0, n - 1), (i, 0, m - 1))
    args, wrt = ((scores,), scores) if score.has(scores) else ((ranks, a), a)
    results = total, td.gradient(total, wrt)
    program = build_program(args, results)
    assert all(len(array.shape) < 3 for array in program.temporaries)
    assert len(re.findall(r"_so_far\*root", print_source(program, "numba"))) == 2
    run, plain = td.lambdify(args, results, "numba"), td.lambdify(args, results, "numpy", temporaries=False)
    for count in (1, 9):
        random = np.random.default_rng(count)
        values = 30 * random.normal(size=(count + 6 if wrt is a else (3, count)))
        arrays = (random.integers(0, count, (3, count)), values) if wrt is a else (values,)
        for found, wanted in zip(run(*arrays), plain(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
