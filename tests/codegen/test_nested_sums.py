"""Nested sums run in the order that reads along rows, and what several of them need is computed once."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from fuzz.count import count

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.loops import Loop
from sympy_tensordiff.codegen.ir.walk import loads, statements
from sympy_tensordiff.codegen.lower.plan import Planner
from sympy_tensordiff.codegen.lower.sums import joined_sums
from sympy_tensordiff.codegen.lower.terms import with_expanded_diagonals
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.simplify.facts import read_with_ranges
from sympy_tensordiff.symbolic.conversion.lift import as_operand

i, j, k, p = td.indices("i j k p")
J, K, P = 7, 5, 3
a, b, c = td.TensorSymbol("a", K), td.TensorSymbol("b", J), td.TensorSymbol("c", (J, K))
B = td.TensorSymbol("B", (P, J))
A_, B_, C_ = np.arange(1, K + 1.0), np.arange(2, J + 2.0), np.arange(J * K).reshape(J, K) - 3.0


def loops(program):
    """The loop variables of each kernel, outermost first."""
    found = []
    for kernel in program.nests:
        found.append([s.variable[0] for s in statements(kernel.body) if isinstance(s, Loop)])
    return found


def by_loops(last):
    """``sum a_k b_j c_jk`` over j up to ``last``, in plain integers."""
    return sum(int(A_[k]) * int(B_[j]) * int(C_[j, k]) for k in range(K) for j in range(last + 1))


def test_the_innermost_loop_runs_along_rows():
    down = td.IndexedSum(a[k] * td.IndexedSum(b[j] * c[j, k], (j, 0, J - 1)), (k, 0, K - 1))
    along = td.IndexedSum(b[j] * td.IndexedSum(a[k] * c[j, k], (k, 0, K - 1)), (j, 0, J - 1))
    for total in (down, along):
        program = build_program([a, b, c], total)
        assert loops(program) == [["j", "k"]]
        assert td.lambdify([a, b, c], total, "numpy")(A_, B_, C_) == by_loops(J - 1)


def test_a_sum_in_another_place_is_shared():
    """The products with the rows of c, which the entries hold, serve the total as well."""
    rows = td.IndexedSum(c[i, k] * a[k], (k, 0, K - 1))
    total = td.IndexedSum(a[k] * td.IndexedSum(b[j] * c[j, k], (j, 0, J - 1)), (k, 0, K - 1))
    table = td.TensorComprehension(rows**2 + total, (i, J))
    program = build_program([a, b, c], table)
    assert count(program, {}).iterations == J * K + J
    products = [sum(int(A_[k]) * int(C_[j, k]) for k in range(K)) for j in range(J)]
    expected = [value**2 + by_loops(J - 1) for value in products]
    assert td.lambdify([a, b, c], table, "numpy")(A_, B_, C_).tolist() == expected


def test_a_sum_in_a_function_and_in_a_divisor_is_computed_once():
    rows = td.IndexedSum(c[i, k] ** 2, (k, 0, K - 1))
    total = td.IndexedSum(sympy.log(rows), (i, 0, J - 1))
    assert count(build_program(c, (total, td.gradient(total, c))), {}).iterations == J * K + J


@pytest.mark.parametrize("last", ["the index around", "below the first"])
def test_sums_that_are_not_independent_stay(last):
    """An inner range that the outer index bounds; an outer range that may be empty, so that nothing may be read."""
    if last == "the index around":
        total = td.IndexedSum(a[k] * td.IndexedSum(b[j] * c[j, k], (j, 0, k)), (k, 0, K - 1))
        expected = sum(int(A_[k]) * int(B_[j]) * int(C_[j, k]) for k in range(K) for j in range(k + 1))
        assert td.lambdify([a, b, c], total, "numpy")(A_, B_, C_) == expected
    else:
        n = td.indices("n")
        total = td.IndexedSum(a[k] * td.IndexedSum(b[j + n] * c[j, k], (j, 0, J - 1)), (k, 1, -n))
        kernel = td.lambdify([a, b, c, n], total, "numpy")
        assert kernel(A_, B_, C_, 3) == 0  # b has no entries at j + 3
    assert loops(build_program([a, b, c] if last == "the index around" else [a, b, c, n], total)) == [["k", "j"]]


# ---------------------------------------------------------------------------- sums over one range

N, M, R = 6, 5, 3
x, y, w, f = (
    td.TensorSymbol("x", (N, M)),
    td.TensorSymbol("y", (N, M)),
    td.TensorSymbol("w", (M, R)),
    td.TensorSymbol("f", N),
)


def entry_sum(*factors):
    return td.IndexedSum(sympy.Mul(*factors), (j, 0, i))


WAVE = sympy.cos(x[i, j] + w[j, k])
ONE = {  # how often a loop runs through the sum over j of each entry; what it is
    "common factors": (1, entry_sum(x[i, j], y[i, j], w[j, k]) - f[i] * entry_sum(x[i, j], w[j, k])),
    "three terms": (
        1,
        entry_sum(x[i, j], w[j, k])
        - 3 * entry_sum(x[i, j], y[i, j], w[j, k])
        + f[i] * entry_sum(sympy.sin(y[i, j]), w[j, k], x[i, j]),
    ),
    "nothing in common": (2, entry_sum(x[i, j], y[i, j], w[j, k]) + entry_sum(sympy.sin(w[j, k] * f[i]))),
    "a running sum": (1, entry_sum(x[i, j], y[i, j], w[j, k]) + entry_sum(sympy.sin(w[j, k]))),
    "another range": (2, entry_sum(x[i, j], w[j, k]) - td.IndexedSum(x[i, j] * w[j, k], (j, i, M - 1))),
    "a common function of all indices": (
        1,
        entry_sum(sympy.cos(x[i, j] + w[j, k]), y[i, j]) - entry_sum(sympy.cos(x[i, j] + w[j, k]), w[j, k]),
    ),
}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ONE)
def test_sums_over_one_range_are_one(name):
    number, value = ONE[name]
    table = td.TensorComprehension(value, (i, M), (k, R))
    program = build_program([x, y, w, f], table)
    in_entry = [s for kernel in program.nests if kernel.array == "result" for s in statements(kernel.body)]
    assert sum(isinstance(s, Loop) for s in in_entry) == number
    random = np.random.default_rng(0)
    values = [random.normal(size=[int(extent) for extent in tensor.shape]) for tensor in (x, y, w, f)]
    plain = td.lambdify([x, y, w, f], table, "numpy", temporaries=False)(*values)
    for backend in ("numpy", "numba"):
        np.testing.assert_allclose(td.lambdify([x, y, w, f], table, backend)(*values), plain, rtol=1e-12)


def test_a_sum_that_others_use_stays():
    """The second one is a result of its own: nothing is gained. The products of x and y are stored."""
    means = td.TensorComprehension(entry_sum(x[i, j], w[j, k]), (i, M), (k, R))
    table = td.TensorComprehension(entry_sum(x[i, j], y[i, j], w[j, k]) - f[i] * means[i, k], (i, M), (k, R))
    program = build_program([x, y, w, f], (means, table))
    assert [sum(isinstance(s, Loop) for s in statements(kernel.body)) for kernel in program.nests] == [1, 0, 1]


def test_a_sum_that_is_divided_by_and_of_which_there_is_a_logarithm_is_computed_once():
    s = td.IndexedSum(x[i, j] ** 2, (j, 0, M - 1))
    value = td.IndexedSum(sympy.log(s), (i, 0, N - 1))
    program = build_program([x], (value, td.gradient(value, x)))
    assert count(program, {}).iterations < 2 * N * M + 3 * N


def joined(value):
    """The graph of a value before and after."""
    graph = Graph()
    (node,) = read_with_ranges(Reader(graph), [as_operand(value, "")])
    (new,) = joined_sums(graph, Planner(graph, ()), [node])
    return node, new


@pytest.mark.parametrize(
    "value",
    [
        entry_sum(x[i, j], f[j]) - entry_sum(x[i, j], w[j, k]),
        entry_sum(x[i, j], y[i, j], w[j, k]) - f[i] * entry_sum(x[i, j], w[j, k]) + entry_sum(x[i, j], w[j, k]) ** 2,
        w[0, k] * entry_sum(x[i, j], y[0, j]) + y[0, k] * entry_sum(x[i, j], w[j, 0]),
    ],
    ids=["one over fewer indices", "one that is used twice", "two whose sum would depend on one index more"],
)
def test_sums_that_stay(value):
    node, new = joined(value)
    assert new is node


@pytest.mark.in_turns(8)
def test_many_sums_are_joined():
    """More than Python's stack has room for."""
    count = 1100
    rows = td.TensorSymbol("rows", (count, M))
    _, new = joined(sympy.Add(*[f[0] ** m * entry_sum(x[i, j], rows[m, j]) for m in range(count)]))
    assert new.op == "sum"


def test_a_quadratic_form_reads_the_sums_of_its_gradient():
    """Four reads of the tensor for the gradient, none for the value: its sums over k and l are those of an entry.

    The gradient is one sum of four terms; half of them are those of the value.
    """
    l, n = td.indices("l n")
    g, d = td.TensorSymbol("g", (n,) * 4), td.TensorSymbol("d", (n, n))
    limits = [(index, 0, n - 1) for index in (l, k, j, i)]
    value = td.IndexedSum(d[i, j] * d[k, l] * (g[i, j, k, l] - g[i, l, k, j] / 2), *limits) / 2
    program = build_program([g, d], (value, td.gradient(value, d)))
    assert sum(read.array == "g" for kernel in program.nests for read in loads(kernel.body)) == 4
    random = np.random.default_rng(0)
    G, D = random.normal(size=(5,) * 4), random.normal(size=(5, 5))
    tensor = G - np.einsum("ilkj->ijkl", G) / 2
    both = np.einsum("ijkl,kl->ij", tensor, D) + np.einsum("ijkl,ij->kl", tensor, D)
    found = td.lambdify([g, d], (value, td.gradient(value, d)))(G, D)
    np.testing.assert_allclose(found[0], np.einsum("ijkl,ij,kl", tensor, D, D) / 2, rtol=1e-12)
    np.testing.assert_allclose(found[1], both / 2, rtol=1e-12)


def test_common_factors_of_all_terms_precede_the_sum():
    graph = Graph()
    reader = Reader(graph)
    read = lambda *exprs: [reader.read(as_operand(one, "")) for one in exprs]  # noqa: E731
    given = read(f[i] * x[i, j] - 2 * f[i] * y[i, j], f[i] * x[i, j] - y[i, j], f[i] * x[i, j] * f[j] - f[i] * f[j])
    expected = read(f[i] * (x[i, j] - 2 * y[i, j]), f[i] * x[i, j] - y[i, j], f[i] * f[j] * (x[i, j] - 1))
    assert given[0] is not expected[0] and given[2] is not expected[2]
    assert with_expanded_diagonals(graph, given) == with_expanded_diagonals(graph, expected)


def test_terms_that_may_cancel_stay_in_one_sum():
    """The skew part of a symmetric tensor vanishes exactly, though the value needs half of its terms."""
    p, q, l, n = td.indices("p q l n")
    g, d = td.TensorSymbol("g", (n,) * 4), td.TensorSymbol("d", (n, n))
    value = td.IndexedSum(d[i, j] * d[k, l] * g[i, j, k, l], *[(index, 0, n - 1) for index in (l, k, j, i)])
    terms = (g[p, q, k, l] - g[k, l, p, q]) * d[k, l]
    skew = td.TensorComprehension(td.IndexedSum(terms, (k, 0, n - 1), (l, 0, n - 1)), (p, n), (q, n))
    random = np.random.default_rng(0)
    tensor = random.normal(size=(7,) * 4)
    symmetric = tensor + tensor.transpose(2, 3, 0, 1)
    _, found = td.lambdify([g, d], (value, skew), "llvm")(symmetric, random.normal(size=(7, 7)))
    assert not found.any()
