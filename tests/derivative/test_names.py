"""Clashing names: whatever the indices are called, the derivative is the same function."""

import itertools

import numpy as np
import pytest
import sympy
from derivative_forms import same_form
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Derivative, Dummy, Idx, Symbol

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    hvp,
    indices,
    jacobian,
    lambdify,
    vjp,
)
from sympy_tensordiff import reference as oracle
from sympy_tensordiff.testing import call_arguments, random_values

i, j, k, n, p, q, i_1, k_1 = indices("i j k n p q i_1 k_1")
x, y, d = TensorSymbol("x", 5), TensorSymbol("y", 5), TensorSymbol("d", 9)
A = TensorSymbol("A", (5, 5))


def table(body, *axes):
    return TensorComprehension(body, *((axis, 5) for axis in axes))


def total(body, *bound):
    return IndexedSum(body, *((index, 0, 4) for index in bound))


def check_entry(expression, entry, derivative=None):
    """``diff`` by an entry against the oracle at all values of the free indices; both ways into a kernel agree."""
    derivative = sympy.diff(expression, entry) if derivative is None else derivative
    assert derivative.free_symbols <= expression.free_symbols | entry.free_symbols
    free = sorted((s for s in (expression.free_symbols | entry.free_symbols) if s.is_Symbol), key=str)
    numbers = random_values((expression, entry), dict.fromkeys(free, 1), seed=3)
    hits = 0
    for point in itertools.product(range(5), repeat=len(free)):
        values = numbers | dict(zip(free, point, strict=True))
        position = tuple(int(sympy.sympify(e).subs(dict(zip(free, point, strict=True)))) for e in entry.indices)
        if not all(0 <= at < extent for at, extent in zip(position, entry.tensor.shape, strict=True)):
            continue
        expected = oracle.differentiate(expression, entry.tensor, values)[(..., *position)]
        got = oracle.evaluate(derivative, values)
        assert np.array_equal(got, expected), (point, got, expected)
        hits += bool(np.any(expected != 0))
    assert hits, "the derivative is zero everywhere: the case shows nothing"
    symbols, arrays = call_arguments((expression, derivative, entry), numbers)
    got = lambdify(symbols, derivative, "numpy")(*arrays)
    np.testing.assert_allclose(got, np.asarray(oracle.evaluate(derivative, numbers), dtype=float), rtol=1e-12)


# ------------------------------------------------------- by x[i], where i is bound inside


def test_every_way_to_differentiate_agrees():
    expression = total(x[i] * total(A[i, j] * x[j], j), i)
    first = sympy.diff(expression, x[i])
    assert expression.diff(x[i]) == first == Derivative(expression, x[i]).doit()
    by_name = sympy.diff(expression, x[p]).subs(p, i)
    check_entry(expression, x[i], by_name)


# ------------------------------------------------------- two sums with one index name

ONE_NAME = {
    "nested": total(x[k] * total(y[k] * x[k], k), k),
    "nested three deep": total(x[k] * total(y[k] * total(x[k] ** 2, k) + x[k], k), k),
    "nested, another range": IndexedSum(x[k] * IndexedSum(x[k] * y[k], (k, 1, 3)), (k, 0, 4)),
    "nested, the inner range from outside": IndexedSum(x[k] * IndexedSum(x[j], (j, 0, k)), (k, 0, 4)),
    "the range of the inner one is the outer name": total(IndexedSum(x[j] * x[k], (j, k, 4)), k),
    "side by side": total(x[k] ** 2, k) * total(x[k] * y[k], k),
    "side by side, added": total(x[k] ** 3, k) + total(x[k] * y[k], k),
    "side by side, in a sum": total(total(A[i, k] * x[k], k) * total(A[k, i] * x[k], k), i),
    "a power": total(total(A[i, k] * x[k], k) ** 2, i),
    "a power of a sum of sums": total(total(A[k, j] * x[j], j) * x[k], k) ** 2,
    "free and bound": x[k] * total(x[k] * A[k, i], k) + A[i, k] * x[i],
    "under the name of an axis": table(x[i] * total(A[i, j] * x[j], j) + A[j, i] * x[j], i, j),
    "axes in another order": table(total(A[j, i] * x[i], i) * x[j], j),
    "an inner table": table(table(x[i] * A[j, i], i, j)[j, i] * x[i], i, j),
    "names that renaming would choose": x[i_1] * total(x[i] * A[i, i_1], i) + k_1 * x[k_1],
    "both": total(x[i] * total(x[i_1] * A[i_1, i], i_1), i),
}


@every("case", [*ONE_NAME])
@every("variable", [x, A, y], ids=str, turns=8)
def test_one_index_name_for_several_sums(case, variable):
    function = ONE_NAME[case]
    if not function.has(variable):
        assert vjp(function, variable, TensorSymbol("df", getattr(function, "shape", ()))).body == 0
        return
    sizes = {s: 2 for s in function.free_symbols if s.is_Symbol}
    assert_derivative_exact(function, variable, sizes)


@every("case", [case for case in ONE_NAME if not ONE_NAME[case].free_symbols & {i, k, i_1}], turns=8)
def test_one_index_name_at_second_order(case):
    assert_second_exact(ONE_NAME[case], x)


@every("case", [*ONE_NAME])
def test_other_names_give_the_same_result(case):
    function = ONE_NAME[case]
    renamed = function.as_dummy()
    df = TensorSymbol("df", getattr(function, "shape", ()))
    assert same_form(vjp(function, x, df), vjp(renamed, x, df))


# ------------------------------------------------------- substitution, then diff


def test_a_comprehension_is_put_in_for_a_tensor():
    inner = table(x[i] * A[i, j], i)  # j stays free
    outer = total(y[j] ** 2 * x[j], j).subs(y, inner)
    assert j in outer.free_symbols
    check_entry(outer, x[p])
    check_entry(outer, x[j])
    check_entry(outer, A[j, p])


# ------------------------------------------------------- chained comprehensions, all with the same names


def test_a_table_read_at_its_own_names_turned():
    inner = table(A[i, j] * x[i], i, j)
    for read in (inner[i, j], inner[j, i], inner[i, i], inner[4 - j, i]):
        assert_derivative_exact(table(read * x[j] * read, i, j), x)
        assert_derivative_exact(table(read * x[j] * inner[j, j], i, j), A)


# ------------------------------------------------------- names of tensors, scalars, results


def test_tensors_that_are_called_like_their_indices():
    i_tensor, k_tensor, i_1_tensor = TensorSymbol("i", 5), TensorSymbol("k", 5), TensorSymbol("i_1", 5)
    function = table(i_tensor[i] * total(k_tensor[k] * i_1_tensor[k] * i_tensor[i], k) * i_1_tensor[i], i)
    for variable in (i_tensor, k_tensor, i_1_tensor):
        assert_derivative_exact(function, variable, backends=("numpy", "numba") if variable == k_tensor else ("numpy",))


def test_the_cotangent_may_use_any_names():
    function = table(x[i] ** 2 * A[i, j], i, j)
    weights = TensorSymbol("weights", (5, 5))
    plain = vjp(function, x, weights)
    for cotangent in (
        TensorComprehension(weights[p, q], (p, 5), (q, 5)),
        TensorComprehension(weights[j, i], (j, 5), (i, 5)),
        TensorComprehension(weights[i, j], (i, 5), (j, 5)),
    ):
        values = random_values((function, weights), seed=2)
        assert np.array_equal(oracle.evaluate(vjp(function, x, cotangent), values), oracle.evaluate(plain, values))
    free = TensorComprehension(weights[i, j] * y[p] * y[k], (i, 5), (j, 5))  # p and k stay free
    result = vjp(function, x, free)
    values = random_values((function, weights, y), seed=2)
    for a, b in itertools.product(range(5), repeat=2):
        at = values | {p: a, k: b}
        expected = oracle.evaluate(plain, values) * values[y][a] * values[y][b]
        assert np.array_equal(oracle.evaluate(result, at), expected)


def test_the_vector_of_hvp_may_use_any_names():
    function = total(x[k] ** 3 * x[4 - k], k)
    values = random_values((function, y), seed=4)
    expected = oracle.evaluate(hvp(function, x, y), values)
    assert any(expected)
    for name in (p, q, k, i):
        assert np.array_equal(oracle.evaluate(hvp(function, x, table(y[name], name)), values), expected)


def test_dummies_idx_and_other_assumptions_are_indices_of_their_own():
    nonnegative, dummy = Symbol("i", integer=True, nonnegative=True), Dummy("i", integer=True)
    ranged = Idx("i", (0, 4))
    for bound in (nonnegative, dummy, ranged):
        inner = IndexedSum(x[bound] * A[bound, j], (bound, 0, 4))
        function = TensorComprehension(x[i] * inner, (i, 5), (j, 5))
        assert_derivative_exact(function, x)
        check_entry(inner, x[j])
    both = IndexedSum(x[dummy] * IndexedSum(A[dummy, nonnegative] * x[nonnegative], (nonnegative, 0, 4)), (dummy, 0, 4))
    assert_second_exact(both, x)
    two = Dummy("i", integer=True)
    assert_derivative_exact(total(x[dummy] * A[dummy, two] * x[two], dummy, two), x)


names = st.sampled_from([i, j, k, p])
reads = st.tuples(names, names)


@pytest.mark.in_turns(4)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(reads, reads, names, names, names, names)
def test_random_names_everywhere(first, second, outer, inner, axis, by):
    body = x[first[0]] * IndexedSum(A[first] * x[second[0]], (inner, 0, 4))
    body = IndexedSum(body * A[second], (outer, 0, 4)) * x[second[1]]
    function = TensorComprehension(body, (axis, 5))
    free = {s: 3 for s in function.free_symbols if s.is_Symbol}
    values = random_values((function, x), free, seed=7)
    expected = oracle.differentiate(function, x, values)
    assert np.array_equal(oracle.evaluate(jacobian(function, x), values), expected)
    for at in range(5):
        entry = oracle.evaluate(sympy.diff(function, x[by]), {**values, by: at})
        here = oracle.differentiate(function, x, {**values, **({by: at} if by in free else {})})
        assert np.array_equal(entry, here[:, at])
