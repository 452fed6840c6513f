"""Values of functions that loops around would compute again: they have arrays."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.scalars import Operation
from sympy_tensordiff.codegen.ir.walk import scalars
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import print_source

i, j, k, l, n, m, d = td.indices("i j k l n m d")
total, table = td.IndexedSum, td.TensorComprehension
x, c, s = td.TensorSymbol("x", (n, d)), td.TensorSymbol("c", (m, d)), td.TensorSymbol("s", (m, d))
z, e = td.TensorSymbol("z", 1000), td.TensorSymbol("e", (6, 2))


def scaled(scale):
    """Distances in which each axis has a scale."""
    return table(total(scale * (x[i, l] - c[k, l]) ** 2, (k, 0, m - 1), (l, 0, d - 1)), (i, n))


def remaining(args, expr, function="exp", **options):
    """The ranks of the arrays whose kernels call a function, but for the result."""
    program = build_program(args, expr, **options)
    ranks = {array.name: len(array.shape) for array in program.temporaries}
    kernels = [step for step in program.kernels if isinstance(step, Kernel) and step.array in ranks]
    calls = {
        step.array: any(isinstance(part, Operation) and part.function == function for part in scalars(step.body))
        for step in kernels
    }
    return sorted(ranks[name] for name, found in calls.items() if found)


def test_a_function_of_fewer_indices_than_loops_has_an_array():
    expr = scaled(sympy.exp(-2 * s[k, l]))
    assert remaining([x, c, s], expr) == [2]
    values = [np.random.default_rng(0).normal(size=shape) for shape in ((9, 3), (4, 3), (4, 3))]
    wanted = (np.exp(-2 * values[2]) * (values[0][:, None] - values[1]) ** 2).sum((1, 2))
    for backend in ("numba", "numpy"):
        np.testing.assert_allclose(td.lambdify([x, c, s], expr, backend)(*values), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("args", "expr"),
    [
        ([x, c, s], scaled(s[k, l] ** 2)),
        ([x, c], table(total(sympy.exp(x[i, l]) * c[k, l], (k, 0, m - 1)), (i, n), (l, d))),
        ([x, c], scaled(sympy.exp(x[i, l] * c[k, l]))),
        ([z, e], table(total(sympy.exp(z[101 * i + 10 * k]) * e[k, l], (k, 0, 5)), (i, 9), (l, 2))),
        ([x, c, s], scaled(sympy.Abs(s[k, l]))),
    ],
    ids=["no call", "no more loops around", "as many indices", "as many values", "a cheap function"],
)
def test_what_is_computed_where_it_is_used(args, expr):
    assert not remaining(args, expr)


def test_functions_of_the_users_are_asked_as_before():
    f = sympy.Function("f", real=True)
    program = build_program([x, c, s], scaled(sympy.exp(f(s[k, l]))))
    assert not program.temporaries


def test_without_temporaries_nothing_is_kept():
    assert not remaining([x, c, s], scaled(sympy.exp(-2 * s[k, l])), temporaries=False)


def test_a_table_that_a_product_of_matrices_reads_serves_the_sums():
    """The gradient of a contrastive loss has an array of exponentials for its products: its sums read it, too."""
    N, D = 40, 32
    a, b = td.TensorSymbol("a", (N, D)), td.TensorSymbol("b", (N, D))
    score = table(total(a[i, k] * b[j, k], (k, 0, D - 1)), (i, N), (j, N))
    loss = total(sympy.log(total(sympy.exp(score[i, j]), (j, 0, N - 1))) - score[i, i], (i, 0, N - 1))
    program = build_program((a, b), td.gradient(loss, (a, b)), rows=True)
    text = print_source(program, "numba")
    assert text[text.index("def fill_") :].count("= exp(") == 1


RANGES = {
    "to the end": ((i, n - 1), lambda p, size: range(p, size), True),
    "from the first": ((0, i), lambda p, size: range(p + 1), True),
    "from the second": ((1, i), lambda p, size: range(1, p + 1), False),
    "two further": ((i + 2, n - 1), lambda p, size: range(p + 2, size), False),
    "but one": ((0, i - 1), lambda p, size: range(p), False),
    "but the last": ((i, n - 2), lambda p, size: range(p, size - 1), False),
}


@pytest.mark.parametrize("name", RANGES)
def test_prefix_sums_of_exponentials(name, uncompiled):
    """No exponential for a shift that stays, as a maximum so far mostly does; those of single terms before the pass."""
    bounds, terms, is_single = RANGES[name]
    y = td.TensorSymbol("y", n)
    expr = table(sympy.log(total(sympy.exp(y[j]), (j, *bounds))), (i, n))
    function = td.lambdify(y, expr)
    assert "moved" in function.source
    assert ("s_so_far += s[" in function.source) == is_single
    random = np.random.default_rng(0)
    cases = [
        random.normal(size=50), np.linspace(-800, 800, 30), np.linspace(800, -800, 30), np.full(9, 3.0),
        np.array([1.0, np.inf, 2.0, np.inf, 0.0]), np.array([-np.inf, -np.inf, 1.0, -np.inf]),
        np.array([0.0, np.nan, 1.0, 2.0]), np.array([1000.0, 1000.0, -1000.0, 1000.0]), np.zeros(1),
    ]  # fmt: skip
    for value in cases:
        picked = [value[list(terms(p, len(value)))] for p in range(len(value))]
        with np.errstate(invalid="ignore"):
            wanted = [np.logaddexp.reduce(part) if len(part) else -np.inf for part in picked]
        np.testing.assert_allclose(function(value), wanted, rtol=1e-12)
