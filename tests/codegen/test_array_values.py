"""Programs of array libraries compute each array once: few operations, the same values."""

from __future__ import annotations

import ast
import itertools

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.array_values import with_common_values

i, j, k, n, m = td.indices("i j k n m")
x, X = td.TensorSymbol("x", n), td.TensorSymbol("X", (n, 3))

BODIES = {
    "a part of two expressions": ("return np.exp(x)/(1 + np.exp(x))", "np.exp", 1),
    "a value with a name": ("v = -x[1:]\n    return v + abs(-x[1:])", "-x", 1),
    "a name that is assigned again": ("s = x\n    t = np.sin(s)\n    s = s + 1\n    return t*np.sin(s)", "np.sin", 2),
    "a loop changes an operand": (
        "s = x\n    t = np.sin(s)\n    for k in range(2):\n        s = s + np.sin(s)*t\n    return s + np.sin(s)",
        "np.sin",
        3,
    ),
    "a loop reads a value from before": (
        "t = np.cos(x)\n    for k in range(2):\n        t = t + np.exp(x)*k\n    return t + np.exp(x)*np.exp(x)",
        "np.exp",
        2,
    ),
    "an invariant value in a loop": (
        "t = x - x\n    u = np.exp(x)\n    for k in range(2):\n        t = t + np.exp(x)*x[k]*x[k]\n    return t + u",
        "np.exp",
        1,
    ),
    "the entries of two loops": (
        "t = x - x\n    for k in range(2):\n        t = t + x[k]*x[k]\n    for k in range(3):\n        t = t - x[k]"
        "\n    return t",
        "x[k]",
        2,
    ),
    "a branch that may not be computed": ("return 1/x if n > 3 else 2 + 1/x", "1/x", 2),
    "two unused names": ("a = np.exp(x)\n    b = a + 1\n    return x", "np.exp", 0),
    "a number of an axis": ("s = x[:n - 1]\n    return s + x[:n - 1]*(n - 1)", "x[:n - 1]", 1),
    "parentheses": ("return np.where((x != 0), x, 1)*(x != 0)", "x != 0", 1),
}
"""The body of a function of ``x`` and ``n``, an operation, and how often it is printed."""


@pytest.mark.parametrize("name", BODIES)
def test_values_are_computed_once(name):
    body, operation, count = BODIES[name]
    names = (f"w_{number}" for number in itertools.count())
    found = "\n".join(with_common_values(f"    {body}".split("\n"), ["n"], lambda _: next(names)))
    assert found.count(operation) == count
    values = np.array([0.5, -1.0, 0.0, 2.0, 3.0])
    results = []
    for lines in (f"    {body}", found):
        space = {"np": np}
        with np.errstate(all="ignore"):
            exec(f"def function(x, n):\n{lines}", space)
            results.append(space["function"](values, 5))
    np.testing.assert_array_equal(*results)


def operations(text):
    """The number of array operations in the functions of a program, without those of its driver."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    steps = [node for node in functions if node.name.startswith(("fill_", "scatter"))]
    calls = [node for step in steps for node in ast.walk(step)]
    return sum(isinstance(node, ast.BinOp | ast.Compare | ast.Call) for node in calls)


def distances(X, i, j):
    return sympy.sqrt(td.IndexedSum((X[i, k] - X[j, k]) ** 2, (k, 0, 2)))


ends = td.TensorSymbol("ends", (m, 3), dtype=int, below=n)
a, b = (lambda t: X[ends[t, 0], k] - X[ends[t, 1], k]), (lambda t: X[ends[t, 2], k] - X[ends[t, 1], k])
rate = sympy.Symbol("rate", positive=True)
PROGRAMS = {
    "Morse potential of pairs": (
        (X, rate),
        td.IndexedSum((1 - sympy.exp(-rate * (distances(X, i, j) - 1))) ** 2, (j, 0, i - 1), (i, 0, n - 1)),
        75,
    ),
    "angles": (
        (X, ends),
        td.IndexedSum(
            (
                td.IndexedSum(a(i) * b(i), (k, 0, 2))
                / sympy.sqrt(td.IndexedSum(a(i) ** 2, (k, 0, 2)) * td.IndexedSum(b(i) ** 2, (k, 0, 2)))
                - 1
            )
            ** 2,
            (i, 0, m - 1),
        ),
        50,
    ),
    "periodic advection": (
        (x, rate),
        td.IndexedSum((x[i] - rate * x[i] * (x[(i + 1) % n] - x[(i - 1) % n])) ** 2, (i, 0, n - 1)),
        22,
    ),
}
"""The arguments of a function, its formula, and at most how many operations its value and gradient take in PyTorch."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_take_few_operations(name):
    args, value, most = PROGRAMS[name]
    text = td.generate_code(args, (value, td.gradient(value, args[0])), "torch")
    assert operations(text) <= most


def test_one_axis_is_not_cut_into_blocks():
    """Periodic reads of whole axes are rolls, and a part of an axis needs index arrays."""
    args, value, _ = PROGRAMS["periodic advection"]
    text = td.generate_code(args, value, "torch")
    assert "torch.roll" in text and "BLOCK" not in text and "arange(" not in text.partition("def run")[0]


def test_products_that_are_summed_are_not_stored():
    """A library sums products without an array of all of them."""
    A = td.TensorSymbol("A", (n, n))
    form = td.IndexedSum(x[i] * A[i, j] * x[j], (i, 0, n - 1), (j, 0, n - 1))
    text = td.generate_code((x, A), (form, td.gradient(form, x)), "torch")
    assert "x*A" not in text and "x[:, None]*A" not in text and "einsum" in text


def test_torch_selects_by_data_without_knowing_them():
    """Integers in data would be numbers in brackets, which PyTorch's compiler has to know."""
    torch = pytest.importorskip("torch", reason="needs pip install torch")
    places, A = td.TensorSymbol("places", 3, dtype=int), td.TensorSymbol("A", (n, m))
    row = td.IndexedSum(A[places[0], j] ** 2, (j, 0, m - 1)) * A[places[1], places[2]]
    exprs = row, td.gradient(row, A)
    arrays = np.arange(12.0).reshape(4, 3), np.array([2, 1, 0])
    ours = td.lambdify((A, places), exprs, "torch")
    tensors = [torch.as_tensor(array) for array in arrays]
    wanted = td.lambdify((A, places), exprs, "numpy")(*arrays)
    for function in (ours, torch.compile(ours, backend="aot_eager", fullgraph=True)):
        for one, other in zip(function(*tensors), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)
