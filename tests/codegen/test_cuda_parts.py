"""Sums that blocks of threads share, in one launch or two: in the simulator, of which kernels and when."""

from __future__ import annotations

import linecache
import re
from contextlib import nullcontext

import numpy as np
import pytest
from every import every
from races import Race, watched
from simulated_threads import ARRAYS
from sympy import exp

import sympy_tensordiff as td
from sympy_tensordiff.integer import system

i, j, k, n, m, p, b = td.indices("i j k n m p b")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", (n, m))
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))
E, F = td.TensorSymbol("E", (n, b, m)), td.TensorSymbol("F", (m, p, b))
C, X = td.TensorSymbol("C", (b, n, m)), td.TensorSymbol("X", (n, 3))


def matrix(body):
    return td.TensorComprehension(body, (i, n), (j, p))


greatest = td.TensorComprehension(td.IndexedMax(y[i, k], (k, 0, m - 1)), (i, n))
triangle = matrix(td.IndexedSum(A[i, k] * B[k, j], (k, i, m - 1)))
chosen = matrix(td.IndexedSum(A[i, k + 1] * B[k, j], (k, 1, m - 3)))

# Arguments, expression, sizes, how many parts there are and how many threads share a sum.
CASES = {
    "product": ((A, B), A @ B, {n: 3, m: 40, p: 5}, [1]),
    "two sums": ((E, F), td.einsum("ibj,jkb->ik", E, F), {n: 3, b: 3, m: 17, p: 2}, [3]),
    "more than a sum": ((A, B), 2 * chosen + A[0, 0], {n: 1, m: 40, p: 2}, [1]),
    "no round": ((A, B), chosen, {n: 2, m: 1, p: 3}, [1]),
    "triangle": ((A, B), triangle, {n: 65, m: 33, p: 3}, [1]),
    "transposed": ((A,), td.TensorComprehension(exp(A[j, i]) + i, (i, m), (j, n)), {n: 17, m: 33}, []),
    "maximum": ((y,), greatest, {n: 9, m: 65}, [32]),
    "minimum": ((y,), td.IndexedMin(y[i, k], (i, 0, n - 1), (k, 0, m - 1)), {n: 3, m: 95}, [32, 3, 32]),
    "number": ((x,), td.IndexedSum(exp(x[i]), (i, 0, n - 1)), {n: 5000}, [2, 32]),
    "inner ranges": ((x,), td.IndexedSum(x[i] * x[k], (k, 0, i), (i, 0, n - 1)), {n: 70}, [32, 70, 32]),
    "a thread": ((y,), td.einsum("ij->i", y), {n: 20, m: 7}, [1]),
    "short rows": ((X, x), td.TensorComprehension(td.IndexedSum(X[i, j] * x[i], (i, 0, n - 1)), (j, 3)), {n: 300}, [1]),
    "three axes": ((C,), td.einsum("bij->bj", C**2), {b: 2, n: 150, m: 3}, [2]),
    "logarithm": ((y,), td.logsumexp(y, 1), {n: 3, m: 70}, []),
    "softmax": ((y,), td.softmax(y, 1), {n: 2, m: 5}, []),
}


def in_parts(name, dtype):
    """Return the numbers of parts and threads."""
    args, expression, sizes, _ = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-1, 1, [sizes.get(e, e) for e in arg.shape]).astype(dtype) for arg in args]
    function = td.lambdify(args, expression, "cuda")
    with watched():
        found = function(*arrays)
    right = td.lambdify(args, expression, "numpy")(*(array.astype(float) for array in arrays))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, right, rtol=1e-12 if dtype == "float64" else 2e-5, atol=1e-5)
    return counts(function.source, {str(size): value for size, value in sizes.items()})


def counts(source, sizes):
    """Return the number of parts, and the number of threads that share a sum, at some sizes."""
    scope = dict(sizes)
    found = re.findall(r"^    (\w+_(?:count|threads)\d*) = (.*)$", source, re.MULTILINE)
    for name, text in found:
        scope[name] = eval(text, scope)
    return [scope[name] for name, _ in found]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", CASES)
def test_parts_in_the_simulator(name, simulator):
    """Lengths that threads do not divide, one round for each, none at all; no two threads meet."""
    dtype = ("float64", "float32")[len(name) % 2]
    assert simulator(in_parts, name, dtype) == CASES[name][-1]


def without_a_barrier():
    function = td.lambdify((y,), td.einsum("ij->i", y), "cuda")
    given, text = np.ones((1, 512)), function.source
    start = text.index("@cuda.jit\ndef fill_result(")
    refusals = {
        "pass": (Race, "threads meet at entry"),
        "if x < 5:\n        cuda.syncthreads()": (AssertionError, "a barrier is not reached"),
    }
    for new, (error, message) in refusals.items():
        kernel = text[start:].partition("\n\n\n")[0].replace("cuda.syncthreads()", new, 1)
        linecache.cache["broken.py"] = (len(kernel), None, kernel.splitlines(True), "broken.py")
        exec(compile(kernel, "broken.py", "exec"), vars(function._cuda))
        with watched() if error is Race else nullcontext(), pytest.raises(error, match=message):
            function(given)
    assert ARRAYS["shared"](given) is given


def test_races_and_missed_barriers_are_seen(simulator):
    simulator(without_a_barrier)


# Of which sum, for which sizes: how many parts there are, and how many threads share a sum.
NUMBER = ((x,), td.IndexedSum(x[i], (i, 0, n - 1)))
ROWS, COLUMNS = ((y,), td.einsum("ij->i", y)), ((y,), td.einsum("ij->j", y))
COUNTS = {
    "a number": (NUMBER, {"n": 10**8}, [256, 64]),
    "a short one": (NUMBER, {"n": 191}, [1, 32]),
    "no round": (NUMBER, {"n": 0}, [1, 32]),
    "long rows": (ROWS, {"n": 100, "m": 10**5}, [256]),
    "short rows": (ROWS, {"n": 100, "m": 40}, [32]),
    "columns": (COLUMNS, {"n": 10**6, "m": 300}, [27]),
    "wide columns": (COLUMNS, {"n": 10**6, "m": 10**5}, [1]),
    "products": (((A, B), A @ B), {"n": 8, "m": 10**6, "p": 8}, [256]),
    "rows and columns": (((y,), td.einsum("ij->", y)), {"n": 10**4, "m": 600}, [96, 682, 96]),
    "long columns": (((y,), td.einsum("ij->", y)), {"n": 10**6, "m": 8}, [8, 8192, 256]),
}


@every("function, sizes, wanted", COUNTS)
def test_how_loops_are_dealt_out(function, sizes, wanted):
    """There are enough blocks for a device, and no more parts than a block adds up."""
    assert counts(td.generate_code(*function, "cuda"), sizes) == wanted


def test_which_sums_have_parts():
    """The text has kernels for them, and the plan says so."""

    def has_parts(args, expression):
        function = td.lambdify(args, expression, "cuda")
        assert ("result_parts" in function.source) == ("in two launches, where there are few entries" in function.plan)
        return "result_parts" in function.source

    small, wide = td.TensorSymbol("S", (9, 150)), td.TensorSymbol("R", (300, 70000))
    assert has_parts([y], td.einsum("ij->j", y)) and has_parts([x], td.sum(x))
    assert not has_parts([small], td.einsum("ij->i", small))  # too short
    assert not has_parts([wide], td.einsum("ij->j", wide))  # blocks enough
    assert not has_parts([wide], td.einsum("ij->i", wide))  # a block for each row
    assert not has_parts([x], td.IndexedProduct(x[k], (k, 0, n - 1)))  # factors stay in order


@pytest.mark.in_turns(4)
def test_proofs_do_not_read_the_sizes_of_other_kernels(monkeypatch):
    """Each long sum of four symbolic axes has a number of parts, whose definition is a product of sizes."""
    most = 0
    original = system._inequalities_and_equations

    def counted(rows, also):
        nonlocal most
        found = original(rows, also)
        most = max(most, len(found[0]))
        return found

    monkeypatch.setattr(system, "_inequalities_and_equations", counted)
    system.system.cache_clear()
    o, v, q, r, s, t = td.indices("o v q r s t")
    G, K, V = td.TensorSymbol("G", (n, n, n, n)), td.TensorSymbol("K", (n, o)), td.TensorSymbol("V", (n, v))
    pairs = td.einsum("pqrs,pi,qa,rj,sb->iajb", G, K, V, K, V)
    energy = td.IndexedSum(pairs[q, r, s, t] ** 2, (t, 0, v - 1), (s, 0, o - 1), (r, 0, v - 1), (q, 0, o - 1))
    assert "t0_count" in td.generate_code([G, K, V], td.gradient(energy, (K, V)), "cuda")
    assert most < 100
