"""Logarithms of sums of exponentials in loops, one exponential for the sum and for the shares, which sum to 1."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from as_python import as_python
from every import every
from oracle import expected

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Set
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import Operation
from sympy_tensordiff.codegen.ir.walk import scalars, statements
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.results import fit

n, m, k, i = td.indices("n m k i")
z, y = td.TensorSymbol("z", (n, m)), td.TensorSymbol("y", (n, m))
batch = td.TensorSymbol("batch", (k, n, m))

v, u = td.TensorSymbol("v", n), td.TensorSymbol("u", n)

LOSS = td.sum(td.logsumexp(z, axis=1))

# In each there is one exponential of an entry.
CASES = {
    "a value": td.logsumexp(z, axis=1),
    "a softmax": td.softmax(z, axis=1),
    "its pullback": td.vjp(td.softmax(z, axis=1), z, y),
    "a loss and its gradient": (LOSS, td.gradient(LOSS, z)),
    "a sum of both": 2 * td.logsumexp(z, axis=1) + td.einsum("ij->i", td.softmax(z, axis=1) * y),
    "the last of three axes": td.softmax(batch, axis=2),
    "the last two axes": td.logsumexp(batch, axis=(1, 2)),
    "the logarithm of a first axis": td.logsumexp(z, axis=0),
    "a first axis": td.softmax(z, axis=0),
    "a first axis, transposed": td.softmax(z, axis=0).T,
    "an axis in the middle": td.softmax(batch, axis=1),
    "the outer axes": td.gradient(td.sum(td.logsumexp(batch, axis=(0, 2))), batch),
    "a vector": td.softmax(v),
    "all axes": td.logsumexp(z),
}  # fmt: skip

EDGES = np.array([[1e3, 999.0, -1e3], [-np.inf, 0.0, 1.0], [np.nan, 0.0, 1.0], [-np.inf, -np.inf, -np.inf]])


def arguments_of(expression):
    results = expression if isinstance(expression, tuple) else (expression,)
    return [t for t in (z, y, batch, v) if any(result.has(t) for result in results)]


def values_of(arguments):
    random = np.random.default_rng(3)
    sizes = {n: 4, m: 3, k: 2}
    return [random.normal(size=[sizes[extent] for extent in a.shape]) for a in arguments]


@every("name", [*CASES])
def test_values_and_counts(name):
    expression = CASES[name]
    arguments = arguments_of(expression)
    program = build_program(arguments, expression)
    assert all(isinstance(step, Kernel) for step in program.kernels)
    nodes = [node for kernel in program.nests for node in scalars(kernel.body)]
    assert sum(isinstance(node, Operation) and node.function == "exp" for node in nodes) == 1
    values = values_of(arguments)
    wanted = td.lambdify(arguments, expression, "numpy")(*values)
    for found, right in zip(expected(program, values), fit(program.structure, wanted), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-13)


@pytest.mark.parametrize("columns", [3, 8, 21])
def test_compiled(columns):
    """Maxima side by side: fewer entries than chains, as many, and some that are left."""
    pair = td.logsumexp(z, axis=1), td.softmax(z, axis=1)
    function = td.lambdify([z], pair)
    by_numpy = td.lambdify([z], pair, "numpy")
    for scores in (np.random.default_rng(columns).normal(size=(4, columns)), np.resize(EDGES, (4, columns))):
        wanted = by_numpy(scores)
        for dtype, rtol in ((np.float64, 1e-12), (np.float32, 1e-5)):
            for found, right in zip(function(scores.astype(dtype)), wanted, strict=True):
                np.testing.assert_allclose(found, right, rtol=rtol, atol=1e-300)
    assert "result0_shift" in function.plan


# What sums to 1 over all entries, or over those of a column or of a row.
SHARES = {
    "softmax": (td.softmax(v), v, None),
    "gradient": (td.gradient(td.logsumexp(v), v), v, None),
    "gradient of a loss": (td.gradient(td.logsumexp(v) - u @ v, v) + u, v, None),
    "of a multiple": (td.softmax(-3 * v), v, None),
    "exponential": (td.exp(v - td.logsumexp(v)), v, None),
    "index notation": (td.TensorComprehension(sympy.exp(v[i] - td.logsumexp(v)), (i, n)), v, None),
    "along": (td.jvp(td.logsumexp(v), v, td.TensorComprehension(1, (i, n))), v, None),
    "columns": (td.softmax(z, axis=0), z, 0),
    "rows": (td.softmax(z, axis=1), z, 1),
    "both": (td.softmax(z, axis=(0, 1)), z, None),
    "transposed": (td.softmax(z, axis=0).T, z, 1),
    "gradient of rows": (td.gradient(LOSS, z), z, 1),
    "negative rows": (-td.softmax(z, axis=1), z, 1),
}


def sums_of_shares(name, backend):
    """The sums of the shares among numbers near 10^5 in single precision."""
    expression, variable, axis = SHARES[name]
    arguments = [variable, u] if expression.has(u) else [variable]
    value = np.float32(1e5) + np.random.default_rng(5).normal(size=(30, 20)[: len(variable.shape)]).astype(np.float32)
    values = [value, np.zeros(30, np.float32)][: len(arguments)]
    if backend == "numba":
        shares = np.empty([value.shape[variable.shape.index(extent)] for extent in expression.shape], np.float32)
        with np.errstate(all="ignore"):
            as_python(td.generate_code(arguments, expression, backend))(*values, shares)
    else:
        shares = td.lambdify(arguments, expression, backend)(*values)
    return np.abs(shares).sum(axis, dtype=np.float64)


@every("name", [*SHARES], turns=8)
def test_shares_of_large_numbers(name):
    for backend in ("numpy", "numba"):
        np.testing.assert_allclose(sums_of_shares(name, backend), 1, rtol=1e-6)


def test_shares_on_cuda(simulator):
    for name in ("softmax", "columns", "gradient of rows"):
        np.testing.assert_allclose(simulator(sums_of_shares, name, "cuda"), 1, rtol=1e-6)


def shares_of(a):
    power = np.exp(a - a.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


# Tensors, their values, and whether their greatest entries are computed before the exponentials.
BOUNDED = {
    "tanh": (td.tanh(z), lambda a, b: np.tanh(a), False),
    "a multiple": (16 * td.sin(z), lambda a, b: 16 * np.sin(a), False),
    "too large a multiple": (800 * td.sin(z), lambda a, b: 800 * np.sin(a), True),
    "a softmax": (td.softmax(z, axis=1), lambda a, b: shares_of(a), False),
    "a choice": (
        td.where(td.greater(y, 0), td.softmax(z, axis=1), td.sin(z)),
        lambda a, b: np.where(b > 0, shares_of(a), np.sin(a)),
        False,
    ),
    "other entries": (td.softmax(z, axis=1) + z, lambda a, b: shares_of(a) + a, True),
    "a square": ((td.tanh(z) - td.cos(y)) ** 2, lambda a, b: (np.tanh(a) - np.cos(b)) ** 2, False),
    "a reciprocal": (1 / td.sin(z), lambda a, b: 1 / np.sin(a), True),
}


def maxima(expression):
    """The number of statements that take maxima."""
    kernels = [step for step in build_program([z, y], expression).kernels if isinstance(step, Kernel)]
    return sum(one.reduction == "max" for step in kernels for one in statements(step.body) if isinstance(one, Set))


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@every("name", [*BOUNDED], turns=4)
def test_bounded_entries_need_no_greatest_one(name, backend):
    tensor, values, is_shifted = BOUNDED[name]
    value = td.logsumexp(tensor, axis=1)
    assert (maxima(value) > maxima(tensor)) == is_shifted
    random = np.random.default_rng(3)
    a, b = 5 * random.normal(size=(2, 4, 3))

    def sums(a):
        return np.logaddexp.reduce(values(a, b), axis=1)

    units = 1e-6 * np.eye(a.size).reshape(-1, *a.shape)
    slopes = [((sums(a + h) ** 2).sum() - (sums(a - h) ** 2).sum()) / 2e-6 for h in units]
    wanted = sums(a), np.exp(values(a, b) - sums(a)[:, None]), np.reshape(slopes, a.shape)
    compiled = td.lambdify([z, y], (value, td.softmax(tensor, axis=1), td.gradient(td.sum(value**2), z)), backend)
    for found, one, tolerance in zip(compiled(a, b), wanted, (1e-13, 1e-12, 1e-5), strict=True):
        np.testing.assert_allclose(found, one, rtol=tolerance, atol=tolerance * np.abs(one).max())
    single = compiled(a.astype(np.float32), b.astype(np.float32))[0]
    np.testing.assert_allclose(single, wanted[0], rtol=1e-3)
