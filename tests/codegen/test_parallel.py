"""Kernels on several cores: the same results, however many there are, and only where that pays and is safe."""

from __future__ import annotations

import os
import random
import re

import numba
import numpy as np
import pytest
from as_python import as_python
from every import every
from oracle import expected
from programs import CASES
from sympy import Mod

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.work import kernel_work
from sympy_tensordiff.codegen.run import threads
from sympy_tensordiff.codegen.run.compile import CompiledFunction, print_source
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError

i, j, k, n, m = td.indices("i j k n m")


def filled(source, program, arguments):
    function = CompiledFunction(program, "numpy")
    prepared = function._checker.prepare(arguments)
    results = [np.full(shape, np.nan) for shape in prepared.shapes]
    with np.errstate(all="ignore"):
        as_python(source)(*prepared.values, *results)
    return results


@every("name", [*CASES], turns=8)
def test_blocks_in_any_order(name):
    program, arguments = CASES[name]
    values = arguments(np.random.default_rng(3))
    serial, parallel = print_source(program, "numba"), print_source(program, "numba", True)
    # The kernel of a vector may run along it as a row, which is not a block.
    assert "prange(" in parallel or all(len(kernel.axes) < 2 for kernel in program.nests)
    results = [filled(text, program, values) for text in (serial, parallel)]
    for left, right, wanted in zip(*results, expected(program, values), strict=True):
        np.testing.assert_array_equal(left, right)
        np.testing.assert_allclose(left, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.in_turns(8)
def test_compiled_blocks():
    """The number of threads changes no bit."""
    program, _ = CASES["matmul"]
    rng = np.random.default_rng(0)
    values = [rng.uniform(-0.5, 0.5, shape) for shape in ((70, 9), (9, 33))]
    parallel = CompiledFunction(program, "numba", parallel=True)
    several = parallel(*values)
    numba.set_num_threads(1)
    try:
        one = parallel(*values)
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    for left, right, wanted in zip(several, one, CompiledFunction(program, "numpy")(*values), strict=True):
        np.testing.assert_array_equal(left, right)
        np.testing.assert_allclose(left, wanted, rtol=1e-11, atol=1e-15)
    serial = CompiledFunction(program, "numba", parallel=False)
    assert "prange" in parallel.source
    assert "prange" not in serial.source
    assert re.search(r"^on all cores: \w+", parallel.plan, re.MULTILINE)
    assert "cores" not in serial.plan


def test_data_in_bounds_are_no_obstacle():
    x, ends = td.TensorSymbol("x", n), td.TensorSymbol("ends", m, dtype=int)
    parts = td.TensorComprehension(td.IndexedSum(x[j], (j, 0, ends[i])), (i, m))
    assert all(
        work > 0 for work in kernel_work(td.lambdify([x, ends], parts, "numpy").program, {"n": 9, "m": 9}).values()
    )


def test_only_large_kernels_run_on_all_cores(monkeypatch):
    x, y = td.TensorSymbol("x", (n, n)), td.TensorSymbol("y", m)
    program = td.lambdify([x, y], (td.exp(x), td.exp(y)), "numpy").program
    assert threads.blockable(program) == {"fill_result0", "fill_result1"}
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 2)
    large = {"n": 1000, "m": 1000}
    assert threads.large_steps(program, large) == {"fill_result0"}
    assert not threads.large_steps(program, {"n": 100, "m": 1000})
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 1)
    assert not threads.large_steps(program, large)


def test_numbers_go_to_blocks_by_value():
    """Numba cannot pass an array of rank 0 into a ``prange``."""
    x = td.TensorSymbol("x", (n, m))
    share = td.TensorComprehension(x[i, j] / td.IndexedSum(x[k, i] ** 2, (k, 0, n - 1), (i, 0, m - 1)), (i, n), (j, m))
    function = td.lambdify([x], share, parallel=True)
    assert "fill_result(result, t[()], x)" in function.source
    value = np.arange(1.0, 13).reshape(4, 3)
    np.testing.assert_allclose(function(value), value / 650, rtol=1e-15)


def test_what_adds_to_entries_stays_in_order():
    x, idx = td.TensorSymbol("x", n), td.TensorSymbol("idx", m, dtype=int)
    slope = td.gradient(td.IndexedSum(x[idx[i]] ** 2, (i, 0, m - 1)), x)
    source = td.generate_code([x, idx], slope, parallel=True)
    scatter = source.partition("Add to the entries of result")[2].partition("def ")[0]
    assert "+=" in scatter
    assert "prange" not in scatter
    assert "def fill_result_block(" in source


def test_a_process_that_was_forked_has_no_threads(monkeypatch):
    monkeypatch.setattr(threads, "_owner", None)
    called = []
    run = threads.with_threads(
        lambda *values: called.append("parallel"), lambda: lambda *values: called.append("serial")
    )
    run()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    run()
    assert called == ["parallel", "serial"]


def test_refused():
    x = td.TensorSymbol("x", n)
    with pytest.raises(ArgumentTypeError, match="parallel must be None, True or False, not 2"):
        td.lambdify([x], x + x, parallel=2)
    with pytest.raises(ArgumentError, match="parallel=True is for 'llvm' and 'numba', not for 'numpy': leave it out"):
        td.generate_code([x], x + x, "numpy", parallel=True)


def test_quotients_of_rows_are_rounded_in_blocks():
    """In a block, the range of the row bounds a quotient only together with the ends of the block."""
    i, m = td.indices("i m")
    x, d = td.TensorSymbol("x", (3, 3)), td.TensorSymbol("d", (3,))
    low = i + Mod(3 - i, 6)
    product = td.TensorComprehension(td.IndexedProduct(x[i, m - 3] * d[m - 3], (m, low, low + 2)), (i, 3))
    found = td.lambdify([x, d], product, parallel=True)(np.eye(3) + 1, np.arange(1.0, 4.0))
    assert found.tolist() == [12, 12, 12]


def test_places_without_a_sign():
    """Only where LLVM sees that no place counts from the end, it needs no test for that; a test hinders vectors."""
    x, h = td.TensorSymbol("x", n), td.TensorSymbol("h", 3)
    convolved = td.vjp(td.TensorComprehension(td.IndexedSum(x[i + k] * h[k], (k, 0, 2)), (i, n - 2)), x, td.ones(n - 2))
    source = td.generate_code([x, h], convolved)
    assert re.search(r"h\[at\(k\)\]", source)
    assert "at(" not in td.generate_code([x, h], td.IndexedSum(x[i + 1] * h[i], (i, 0, 2)))
    square = td.TensorComprehension(x[i] + x[j], (i, n), (j, n))
    assert "result[at(i), j]" in td.generate_code([x], square, parallel=True)


PRODUCTS = {"ik,kj->ij": (0, 1), "ki,jk->ij": (0, 1), "ki,kj->ij": (0, 2)}


def test_products_of_matrices_in_panels(uncompiled):
    """Beside a large kernel, on the same threads: the same entries, however the operands lie."""
    check_panels([*PRODUCTS])


def test_a_product_of_turned_matrices_in_panels():
    """The memory layout of operands is an argument of one function, which is compiled here."""
    check_panels(["ki,jk->ij"])


def check_panels(texts):
    operands = td.TensorSymbol("a", (n, m)), td.TensorSymbol("b", (m, n)), td.TensorSymbol("c", (n, m))
    together = tuple(td.einsum(text, *(operands[v] for v in PRODUCTS[text])) ** 2 for text in texts)
    function = td.lambdify(operands, together, parallel=True, sizes={"n": 250, "m": 200})
    assert "panels(" in function.source
    rng = np.random.default_rng(0)
    values = [rng.uniform(-0.1, 0.1, shape) for shape in ((250, 200), (200, 250), (250, 200))]
    for text, found in zip(texts, function(*values), strict=True):
        expected = np.einsum(text, *(values[v] for v in PRODUCTS[text])) ** 2
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_one_pool_of_threads():
    """BLAS runs in one thread while Numba's threads run, and as before afterwards."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pytest.importorskip("scipy.linalg.cython_blas")
    seen = []

    def counts():
        return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]

    before = counts()
    threads.with_threads(lambda: seen.extend(counts()), lambda: None)()
    assert before
    assert set(seen) == {1}
    assert counts() == before
    seen.clear()
    threads.with_threads(lambda: seen.extend(counts()), lambda: None, has_products=False)()
    assert seen == before


def test_a_library_that_python_calls_keeps_its_threads(monkeypatch, uncompiled):
    """An inverse between kernels is computed by LAPACK on all cores, also where loops run on Numba's threads."""
    x = td.TensorSymbol("x", (n, n))
    limited = []

    def with_threads(run, serial, has_products):
        limited.append(has_products)
        return run

    monkeypatch.setattr("sympy_tensordiff.codegen.run.compile.with_threads", with_threads)
    for expression, wanted in ((td.inv(x) ** 2, {False}), ((x @ x) ** 2, {True})):
        td.lambdify([x], expression, parallel=True)(np.eye(3))
        assert set(limited) == wanted
        limited.clear()


@pytest.mark.in_turns(8)
def test_without_products_no_library_is_loaded(monkeypatch):
    monkeypatch.setattr("sympy_tensordiff.codegen.run.threads._blas", None)
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    gradient = td.gradient(td.sum(td.exp(x)) * td.sum(y), (x, y))
    for found in td.lambdify([x, y], gradient, parallel=True)(np.zeros(3), np.ones(3)):
        np.testing.assert_array_equal(found, 3)
    function = td.lambdify([x, y], gradient, "numba", parallel=True)
    assert "prange" in function.source
    for found in function(np.zeros(3), np.ones(3)):
        np.testing.assert_array_equal(found, 3)


LENGTHS = {"i": 3, "j": 4, "k": 5, "l": 6, "m": 2}


@every("seed", range(8))
def test_products_with_axes_in_any_order(seed):
    """Operands are read where they lie, matrix by matrix, or copied; the product is put in order."""
    draw = random.Random(seed)
    left, right = (draw.sample("ijklm", draw.randint(2, 4)) for _ in range(2))
    right[0] = left[-1] if left[-1] not in right else right[0]
    out = [letter for letter in {**dict.fromkeys(left), **dict.fromkeys(right)} if draw.random() < 0.6] or [left[0]]
    out += [letter for letter in (set(left) ^ set(right)) - set(out)]
    draw.shuffle(out)
    text = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    shapes = [tuple(LENGTHS[letter] for letter in letters) for letters in (left, right, out)]
    a, b = (td.TensorSymbol(name, shape) for name, shape in zip("ab", shapes, strict=False))
    product = td.einsum(text, a, b)
    values = [np.random.default_rng(seed).normal(size=shape) for shape in shapes[:2]]
    for parallel in (False, True):
        source = td.generate_code([a, b], (product, td.exp(product)), parallel=parallel)
        results = [np.full(shapes[2], np.nan) for _ in range(2)]
        as_python(source)(*values, *results)
        np.testing.assert_allclose(results[0], np.einsum(text, *values), rtol=1e-12, atol=1e-12)


def test_products_alone_are_left_to_the_threads_of_blas(monkeypatch):
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 2)
    a, b = td.TensorSymbol("a", (600, 500)), td.TensorSymbol("b", (500, 700))
    t = td.TensorSymbol("t", (600, 500, 7))
    plain = td.lambdify([a, b], (td.einsum("ij,jk->ik", a, b), td.einsum("ij,jk->ki", a, b))).program
    moved = td.lambdify([t, b], (td.einsum("ijl,jk->ilk", t, b), td.einsum("ijl,jk->kl", t, b))).program
    found = [threads.large_steps(program, {}) for program in (plain, moved)]
    assert found[0] == frozenset()
    assert "fill_result0" in found[1]


@pytest.mark.parametrize("images, is_large", [(4, True), (1, False)])
def test_convolutions_of_ten_million_products_are_large(images, is_large, monkeypatch):
    """Multiplications of a convolution count as operations of loops; those of a matrix product count less."""
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 2)
    b, c, f, h, w, p, q = td.indices("b c f h w p q")
    x, weights = td.TensorSymbol("x", (images, 32, 64, 64)), td.TensorSymbol("weights", (32, 32, 3, 3))
    change = td.TensorSymbol("change", (images, 32, 31, 31))
    term = x[b, c, 2 * h + p, 2 * w + q] * weights[f, c, p, q]
    value = td.TensorComprehension(
        td.IndexedSum(term, (c, 0, 31), (p, 0, 2), (q, 0, 2)), (b, images), (f, 32), (h, 31), (w, 31)
    )
    program = td.lambdify((x, weights, change), td.vjp(value, x, change), "llvm")._fused
    assert bool(threads.large_steps(program, {})) is is_large  # 9.2 million products for an image
