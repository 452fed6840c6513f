"""Long sums of few entries in two stages: in the simulator, of which kernels and when; and how loops are cut."""

from __future__ import annotations

import re

import numpy as np
import pytest
from every import every
from races import watched
from sympy import exp

import sympy_tensordiff as td
from sympy_tensordiff.codegen.schedule import split_reductions as stages
from sympy_tensordiff.integer import system

i, j, k, n, m, p, b = td.indices("i j k n m p b")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", (n, m))
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, p))
E, F = td.TensorSymbol("E", (n, b, m)), td.TensorSymbol("F", (m, p, b))
C = td.TensorSymbol("C", (b, n, m))


def matrix(body):
    return td.TensorComprehension(body, (i, n), (j, p))


greatest = td.TensorComprehension(td.IndexedMax(y[i, k], (k, 0, m - 1)), (i, n))

# Arguments, expression, sizes, how many parts there are in each stage.
CASES = {
    "product": ((A, B), A @ B, {n: 3, m: 7, p: 5}, [3]),
    "fewer parts": ((A, B), A @ B, {n: 2, m: 5, p: 3}, [2]),
    "two sums": ((E, F), td.einsum("ibj,jkb->ik", E, F), {n: 3, b: 5, m: 3, p: 2}, [5, 1]),
    "more than a sum": (
        (A, B),
        matrix(2 * td.IndexedSum(A[i, k + 1] * B[k, j], (k, 1, m - 3)) + A[i, 0]),
        {n: 1, m: 8, p: 2},
        [2],
    ),
    "no round": ((A, B), matrix(td.IndexedSum(A[i, k] * B[k, j], (k, 1, m - 3))), {n: 2, m: 1, p: 3}, [1]),
    "maximum": ((y,), greatest, {n: 1, m: 6}, [3, 1]),
    "minimum": ((y,), td.IndexedMin(y[i, k], (i, 0, n - 1), (k, 0, m - 1)), {n: 3, m: 5}, [5, 1, 1, 2]),
    "number": ((x,), td.IndexedSum(exp(x[i]), (i, 0, n - 1)), {n: 17}, [8, 4]),
    "few at a time": ((x,), td.IndexedSum(exp(x[i]), (i, 0, n - 1)), {n: 300}, [64, 32]),
    "inner ranges": ((x,), td.IndexedSum(x[i] * x[k], (k, 0, i), (i, 0, n - 1)), {n: 6}, [3, 1]),
    "sum of sums": (
        (y,),
        td.IndexedSum(td.IndexedSum(y[i, k] ** 2, (k, 0, m - 1)), (i, 0, n - 1)),
        {n: 4, m: 6},
        [6, 2, 1, 3],
    ),
    "three axes": ((C,), td.einsum("bij->bj", C**2), {b: 2, n: 5, m: 3}, [2]),
    "logarithm": ((y,), td.logsumexp(y, 1), {n: 3, m: 8}, [4, 2, 4, 2]),
}


def in_parts(name, dtype):
    """How many parts there are in the stages of a sum."""
    args, expression, sizes, _ = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-1, 1, [sizes.get(e, e) for e in arg.shape]).astype(dtype) for arg in args]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "LEAST_ROUNDS", 2)
        patch.setattr(stages, "THREADS", 64)
        function = td.lambdify(args, expression, "cuda")
        with watched():
            found = function(*arrays)
    right = td.lambdify(args, expression, "numpy")(*(array.astype(float) for array in arrays))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, right, rtol=1e-12 if dtype == "float64" else 2e-5, atol=1e-6)
    return counts(function.source, {str(size): value for size, value in sizes.items()})


def counts(source, sizes):
    """How many parts there are, for some sizes."""
    scope = dict(sizes)
    found = re.findall(r"^    (\w+_count\d*) = (.*)$", source, re.MULTILINE)
    for name, text in found:
        scope[name] = eval(text, scope)
    return [scope[name] for name, _ in found]


@pytest.mark.parametrize("name", CASES)
def test_parts_in_the_simulator(name, simulator):
    """Lengths that parts do not divide, one round in a part, none at all."""
    dtype = ("float64", "float32")[len(name) % 2]
    assert simulator(in_parts, name, dtype) == CASES[name][-1]


# Of which sum, for which sizes: how many parts. A device has place for 135168 threads.
NUMBER = ((x,), td.IndexedSum(x[i], (i, 0, n - 1)))
ROWS, COLUMNS = ((y,), td.einsum("ij->i", y)), ((y,), td.einsum("ij->j", y))
COUNTS = {
    "a number": (NUMBER, {"n": 10**8}, [135168, 1408]),
    "parts that are not short": (NUMBER, {"n": 10**6}, [10416, 108]),
    "a short one": (NUMBER, {"n": 191}, [1, 1]),
    "no round": (NUMBER, {"n": 0}, [1, 1]),
    "rows": (ROWS, {"n": 100, "m": 10**5}, [1041, 10]),
    "as many rows as there are threads": (ROWS, {"n": 135168, "m": 10**5}, [1, 1]),
    "columns": (COLUMNS, {"n": 10**6, "m": 300}, [450, 4]),
    "products": (((A, B), A @ B), {"n": 8, "m": 10**6, "p": 8}, [2112]),
    "rows and columns": (((y,), td.einsum("ij->", y)), {"n": 10**4, "m": 600}, [600, 104, 1, 6]),
}


@every("function, sizes, wanted", COUNTS)
def test_how_loops_are_dealt_out(function, sizes, wanted):
    """No part is short, and there are no more parts than a device has place for."""
    assert counts(td.generate_code(*function, "cuda"), sizes) == wanted


def test_which_sums_have_parts():
    """The text has kernels for them, and the plan says so."""

    def has_parts(args, expression):
        function = td.lambdify(args, expression, "cuda")
        assert ("result_parts" in function.source) == ("in parts, where there are less than" in function.plan)
        return "result_parts" in function.source

    small, wide = td.TensorSymbol("S", (9, 150)), td.TensorSymbol("R", (300, 70000))
    assert has_parts([y], td.einsum("ij->j", y)) and has_parts([wide], td.einsum("ij->i", wide))
    assert not has_parts([small], td.einsum("ij->i", small))  # too short
    assert not has_parts([wide], td.einsum("ij->j", wide))  # more than half as many entries as threads
    assert not has_parts([x], td.TensorComprehension(td.IndexedSum(x[k], (k, 0, i)), (i, n)))  # ranges of their own
    assert not has_parts([x], td.IndexedProduct(x[k], (k, 0, n - 1)))  # factors stay in order


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
