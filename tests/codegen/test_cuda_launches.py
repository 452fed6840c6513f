"""Launches on CUDA fill all arrays they can, and equal kernels are one function: plans, texts, simulated values."""

from __future__ import annotations

import re

import numpy as np
import pytest
from every import every
from races import watched
from sympy import KroneckerDelta, exp, sin

import sympy_tensordiff as td
from benchmarks.rows import ROWS

i, j, k, n, m, p = td.indices("i j k n m p")
x, y, q = td.TensorSymbol("x", n), td.TensorSymbol("y", (n, m)), td.TensorSymbol("q", (n, n))
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, n))
short, long, deep = td.TensorSymbol("z", (n, 5)), td.TensorSymbol("w", (n, 200)), td.TensorSymbol("g", (n, 5, 40))
idx = td.TensorSymbol("idx", m, dtype=int, below=n)
power = td.exp(td.tanh(q) @ td.tanh(q))


def entries(body, *axes):
    return td.TensorComprehension(body, *axes)


def total(row):
    return td.IndexedSum(exp(y[row, k]), (k, 0, m - 1))


sums = entries(total(i), (i, n))
squares = entries(td.IndexedSum(deep[i, j, k] ** 2, (k, 0, 39)), (i, n), (j, 5))
added = td.IndexedSum(x[idx[k]] ** 2 + x[idx[k]], (k, 0, m - 1))

# Arguments, results, what one launch fills.
MANY = range(22), range(22, 30)
LAUNCHES = {
    "kernels that do not depend on each other": (
        (x,),
        (entries(x[i] + 1, (i, n)), entries(2 * x[i], (i, n))),
        ["result0, result1"],
    ),
    "another number of entries": ((x,), (entries(x[i] + 1, (i, n)), entries(2 * x[i], (i, n - 1))), []),
    "the own entry": ((y,), (sums, entries(total(i) ** 2, (i, n))), ["t, result0, result1"]),
    "another entry": ((y,), (sums, entries(total(i) - total(n - 1 - i), (i, n))), ["result0, result1"]),
    "what another launch reads, too": (
        (y,),
        (entries(total(i) ** 2, (i, n)), entries(total(i) - total(n - 1 - i), (i, n))),
        ["result0, result1"],
    ),
    "the transposed entry": ((q,), (power, power + power.T), []),
    "what is filled in between": (
        (y,),
        (sums, entries(total(i) / td.IndexedSum(total(j), (j, 0, n - 1)), (i, n))),
        [],
    ),
    "products, which a library may compute": ((A, B), (A @ B, td.tanh(A @ B)), []),
    "short rows": ((short,), td.softmax(short, 1), ["t_shift, t_power, t_total, t_share, result"]),
    "long rows": ((long,), td.softmax(long, 1), ["t_shift, t_total, t_share, result"]),
    "rows of an unknown length": ((y,), td.softmax(y, 1), ["t_shift, t_total, t_share, result"]),
    "short rows of long sums": (
        (deep,),
        td.softmax(squares, 1),
        ["t0_shift, t0_power, t0_total, t0_share, result"],
    ),
    "short rows that do not depend on each other": (
        (short,),
        (entries(short[i, 0], (i, n)), entries(2 * short[i, j], (i, n), (j, 5))),
        [],
    ),
    "what data select": ((x, idx), (td.gradient(added, x), entries(3 * x[i], (i, n))), ["result0, result1"]),
    "many values": (
        (x,),
        tuple(entries(exp(x[i]) * sin(a * x[i]) ** 2 / (x[i] + a) ** 3, (i, n)) for a in range(2, 32)),
        # Of the exponential, which all of them need, there is one array.
        [", ".join(["t"] * (not group.start) + [f"result{number}" for number in group]) for group in MANY],
    ),
}


def planned(function):
    return re.findall(r"^in one launch: (.*)$", function.plan, re.MULTILINE)


@every("args, results, wanted", LAUNCHES, turns=8)
def test_what_one_launch_fills(args, results, wanted):
    assert planned(td.lambdify(args, results, "cuda")) == wanted


def as_with_numpy(args, results, sizes):
    """Compare the kernels with those of NumPy; no two threads meet."""
    rng = np.random.default_rng(3)
    arrays = [
        rng.integers(0, sizes[n], sizes[m]) if arg == idx else rng.uniform(0.1, 1, [sizes.get(e, e) for e in arg.shape])
        for arg in args
    ]
    with watched():
        found = td.lambdify(args, results, "cuda")(*arrays)
    right = td.lambdify(args, results, "numpy")(*arrays)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


SIMULATED = [name for name in LAUNCHES if name not in ("what data select", "long rows", "short rows of long sums")]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", SIMULATED)
def test_launches_in_the_simulator(name, simulator):
    args, results, _ = LAUNCHES[name]
    results = results if isinstance(results, tuple) else (results,)
    simulator(as_with_numpy, args, results, {n: 3, m: 4})


X, Y = td.TensorSymbol("X", (60, 30)), td.TensorSymbol("Y", (70, 30))
U, V, W = td.TensorSymbol("U", (30, 50)), td.TensorSymbol("V", (50, 60)), td.TensorSymbol("W", (60, 50))
C, D = td.TensorSymbol("C", (40, 5)), td.TensorSymbol("D", (40, 7))
four, other = td.TensorSymbol("f", (2, 3, 4, 5)), td.TensorSymbol("o", (3, 2, 4, 5))


def rows(a):
    return entries(td.IndexedSum(a[i, k], (k, 0, a.shape[1] - 1)), (i, a.shape[0]))


# Arguments, results, how many kernels and functions there are.
FUNCTIONS = {
    "sides of the operands": ((A, B), (A @ B, B @ A), 4, 3),
    "lengths in the conditions of tiles": ((X, U, Y), (X @ U, Y @ U), 2, 2),
    "strides of long loops": ((U, V, W), (U @ V, td.einsum("ij,kj->ik", U, W)), 2, 2),
    "lengths": ((X, U), (td.tanh(X), td.tanh(U)), 2, 1),
    "other loops": ((C, V), (rows(C), rows(V)), 2, 2),
    "short loops": ((C, td.TensorSymbol("E", (30, 7))), (rows(C), rows(td.TensorSymbol("E", (30, 7)))), 2, 2),
    "numbers that are divided by": ((four, other), (td.tanh(four), td.tanh(other)), 2, 2),
    "sizes": ((A, B), (td.tanh(A), td.tanh(B)), 2, 1),
}


def counted(source):
    kernels = re.findall(r"^ *(fill_\w+)\[", source, re.MULTILINE)
    assert set(kernels) == set(re.findall(r"^@cuda\.jit\ndef (\w+)", source, re.MULTILINE))
    return len(kernels), len(set(kernels))


@every("args, results, kernels, functions", FUNCTIONS)
def test_which_kernels_are_one_function(args, results, kernels, functions):
    assert counted(td.generate_code(args, results, "cuda")) == (kernels, functions)


def test_a_network_has_few_functions():
    row = ROWS["network"]
    assert counted(td.generate_code(*row.ours(row.sizes), "cuda"))[1] <= 10


@pytest.mark.parametrize("name", ["sizes", "lengths"])
def test_shared_functions_in_the_simulator(name, simulator):
    args, results, *_ = FUNCTIONS[name]
    simulator(as_with_numpy, args, results, {n: 3, m: 4})


def test_data_are_read_on_the_device(simulator):
    """The host does not know the entries of an index array: the device reads them."""
    results = entries(x[idx[0]] * x[i], (i, n)), entries(x[idx[1]] * x[i], (i, n - 1))
    simulator(as_with_numpy, (x, idx), results, {n: 4, m: 3})


def diagonal_added():
    """The greatest error of a product in tiles, and of sums that blocks share, to whose entries a scatter adds."""
    tensor = td.TensorSymbol("T", (90, 40))
    product = td.IndexedSum(tensor[i, k] * tensor[j, k], (k, 0, 39))
    added = entries(product + KroneckerDelta(i, j) * sin(tensor[i, 0]), (i, 90), (j, 90))
    function = td.lambdify([tensor], added, "cuda")
    assert "diagonal_result[(*launch((90,)), stream)]" in function.source
    given = np.random.default_rng(0).uniform(size=(90, 40))
    return np.abs(function(given) - td.lambdify([tensor], added, "numpy")(given)).max()


@pytest.mark.in_turns(4)
def test_scatters_have_a_thread_per_entry(simulator):
    """Not the blocks of the kernel that fills their array."""
    assert simulator(diagonal_added) < 1e-12
