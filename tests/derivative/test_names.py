"""Clashing names: whatever the indices are called, the derivative is the same function."""

import itertools

import numpy as np
import sympy
from derivative_forms import same_form
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Derivative, Dummy, Idx, Piecewise, Symbol

from sympy_tensordiff import (
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    gradient,
    hessian,
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

BY_A_BOUND_NAME = {
    "sum": (total(x[i] ** 2 * y[i], i), x[i]),
    "sum of products": (total(x[i] * x[j], i, j), x[i]),
    "sum, the other one": (total(x[i] * x[j] ** 2, i, j), x[j]),
    "outside too": (x[i] ** 2 * total(x[i] * y[i], i), x[i]),
    "nested": (total(x[i] * total(A[i, j] * x[j], j), i), x[j]),
    "nested, one name": (total(x[i] * total(x[i] ** 2, i), i), x[i]),
    "dependent range": (IndexedSum(x[k] * x[i], (k, 0, i), (i, 0, 4)), x[k]),
    "range by the name outside": (IndexedSum(x[k] * y[k], (k, 0, i)) + x[i], x[k]),
    "range by the variable's index": (IndexedSum(x[k] ** 2, (k, i, 4)), x[i]),
    "a matrix": (total(A[i, j] * A[j, i], i, j), A[i, j]),
    "a matrix, turned": (total(A[i, j] ** 2 * x[j], i, j), A[j, i]),
    "its diagonal": (total(A[i, j] * A[j, i] * x[i], i, j), A[i, i]),
    "a shifted entry": (IndexedSum(d[i + k] ** 2, (k, 0, 4)), d[k + 2]),
    "a strided entry": (IndexedSum(d[2 * k] ** 2 * x[k], (k, 0, 4)), d[2 * k]),
    "a strided entry, another name": (IndexedSum(d[k + i] * d[k] * x[k], (k, 0, 4)), d[2 * i]),
    "in a function": (1 / (3 + total(x[i] ** 2, i)), x[i]),
    "behind a condition": (total(Piecewise((x[i] ** 2, i < j), (x[j], True)), i), x[i]),
    "a table": (table(x[i] ** 2 * x[j], i, j), x[i]),
    "a table of sums": (table(total(A[i, j] * x[j], j), i), x[j]),
    "a table of sums, one name": (table(x[i] * total(A[i, i] * x[i], i), i), x[i]),
    "an entry of a table": (table(x[i] ** 2 * y[j], i, j)[j, i], x[i]),
    "an entry of a table in a sum": (total(table(x[i] ** 2 * x[j], i, j)[j, i] * y[j], i), x[i]),
}


@every("case", [*BY_A_BOUND_NAME])
def test_by_an_entry_whose_index_is_bound_inside(case):
    expression, entry = BY_A_BOUND_NAME[case]
    check_entry(expression, entry)


def test_the_bound_index_is_renamed_and_the_free_one_is_not():
    derivative = sympy.diff(x[i] * total(x[i] * y[i], i), x[i])
    assert i in derivative.free_symbols
    assert not any(i in node.variables for node in derivative.atoms(IndexedSum) if node.free_symbols & {i})
    assert same_form(derivative, total(x[k] * y[k], k) + x[i] * y[i])


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
@every("variable", [x, A, y], ids=str)
def test_one_index_name_for_several_sums(case, variable):
    function = ONE_NAME[case]
    if not function.has(variable):
        assert vjp(function, variable, TensorSymbol("df", getattr(function, "shape", ()))).body == 0
        return
    sizes = {s: 2 for s in function.free_symbols if s.is_Symbol}
    assert_derivative_exact(function, variable, sizes)


@every("case", [case for case in ONE_NAME if not ONE_NAME[case].free_symbols & {i, k, i_1}])
def test_one_index_name_at_second_order(case):
    assert_second_exact(ONE_NAME[case], x)


@every("case", [*ONE_NAME])
def test_other_names_give_the_same_result(case):
    function = ONE_NAME[case]
    renamed = function.as_dummy()
    df = TensorSymbol("df", getattr(function, "shape", ()))
    assert same_form(vjp(function, x, df), vjp(renamed, x, df))


# ------------------------------------------------------- substitution, then diff


def test_a_bound_name_is_put_in_and_the_derivative_follows():
    window = IndexedSum(d[i + j] ** 2 * x[j], (j, 0, 4))
    moved = window.subs(i, j)
    assert j in moved.free_symbols
    check_entry(moved, d[p])
    check_entry(moved, d[j])
    check_entry(moved, x[j])
    substituted = sympy.diff(window, d[p]).subs(i, j)
    check_entry(moved, d[p], substituted)


def test_a_derivative_takes_bound_names_as_its_index():
    window = IndexedSum(d[i + j] ** 2 * x[j], (j, 0, 4))
    check_entry(window, d[j], sympy.diff(window, d[p]).subs(p, j))
    check_entry(window, d[i], sympy.diff(window, d[p]).subs(p, i))
    check_entry(window, x[j], sympy.diff(window, x[p]).subs(p, j))


@every("first", [i, j, k, p])
@every("second", [i, j, k, p])
def test_substitutions_in_every_order(first, second):
    function = total(x[k] * A[k, i] * total(A[j, k] * x[j], j), k)
    moved = function.subs(i, first)
    check_entry(moved, x[p].subs(p, second))
    check_entry(moved, x[second], sympy.diff(moved, x[q]).subs(q, second))


def test_a_comprehension_is_put_in_for_a_tensor():
    inner = table(x[i] * A[i, j], i)  # j stays free
    outer = total(y[j] ** 2 * x[j], j).subs(y, inner)
    assert j in outer.free_symbols
    check_entry(outer, x[p])
    check_entry(outer, x[j])
    check_entry(outer, A[j, p])


# ------------------------------------------------------- second derivatives by one index twice

TWICE = {
    "power": total(x[k] ** 3, k),
    "triangle": IndexedSum(x[k] * x[i] ** 2, (k, 0, i), (i, 0, 4)),
    "window": IndexedSum(d[i + k] ** 3 * d[k], (k, 0, 4)),
    "reversed": total(x[k] * x[4 - k] ** 2, k),
    "square of a sum": total(x[k] * y[k], k) ** 3,
    "bound under the name": total(x[p] ** 2 * x[q], p, q),
    "quadratic": total(total(A[p, q] * x[q], q) * x[p], p),
    "free entry": x[p] ** 2 * total(x[p] ** 2 * y[p], p),
    "strides": IndexedSum(d[2 * k] ** 2 * d[k], (k, 0, 4)),
}


@every("case", [*TWICE])
@every("names", [(p, p), (q, p), (k, k), (k, p)], ids=str)
def test_second_derivatives(case, names):
    function = TWICE[case]
    variable = d if function.has(d) else x
    first, second = (variable[name] for name in names)
    twice = sympy.diff(sympy.diff(function, first), second)
    free = sorted((s for s in function.free_symbols | set(names) if s.is_Symbol), key=str)
    numbers = random_values((function, variable), dict.fromkeys(free, 0), seed=5)
    some = False
    for point in itertools.product(range(5), repeat=len(free)):
        values = numbers | dict(zip(free, point, strict=True))
        dense = oracle.hessian(function, variable, values)
        expected = dense[values[names[0]], values[names[1]]]
        assert oracle.evaluate(twice, values) == expected, point
        some = some or expected != 0
    assert some


def test_twice_by_one_entry_in_one_call():
    function = total(x[k] ** 3 * x[4 - k], k)
    twice = sympy.diff(sympy.diff(function, x[p]), x[p])
    for other in (sympy.diff(function, x[p], x[p]), sympy.diff(function, x[p], 2), sympy.diff(function, (x[p], 2))):
        for at in range(5):
            values = {x: [1, 2, 3, 4, 5], p: at}
            assert oracle.evaluate(other, values) == oracle.evaluate(twice, values)


def test_third_derivatives_by_one_index():
    function = total(x[k] ** 4, k) * x[p]
    derivative = sympy.diff(function, x[p], 3)
    values = {x: [1, 2, 3, 4, 5]}
    for at in range(5):
        # d^3 (S x) = S''' x + 3 S''
        entry = values[x][at]
        assert oracle.evaluate(derivative, {**values, p: at}) == 24 * entry * entry + 3 * 12 * entry**2


# ------------------------------------------------------- chained comprehensions, all with the same names


def test_chained_tables_with_one_set_of_names():
    first = table(total(A[i, j] * x[j], j), i)
    second = table(first[i] * first[4 - i] + total(A[j, i] * first[j], j), i)
    third = table(total(second[j] * A[i, j], j) * first[i] * second[i], i)
    for function in (second, third):
        assert_derivative_exact(function, x)
        assert_derivative_exact(function, A)


open_table = table(x[i] * A[i, j], i)  # j stays free
AROUND = {
    "the axis of a table": table(open_table[j] * y[j], j),
    "an axis, at another index": table(open_table[k] ** 2, k, j),
    "an axis, read in a sum": table(total(open_table[k] * y[k], k) ** 2, j),
    "the index of a sum": total(open_table[j] * y[j], j),
    "the index of a sum in a table": table(total(open_table[j] * x[j], j) * x[i], i),
    "its name bound again": table(total(open_table[i] * y[j], i) * x[j], j),
    "at two reads": table(open_table[j] * open_table[4 - j] * x[j], j),
    "behind conditions": table(Piecewise((open_table[0], j > 2), (open_table[1] * y[j], True)), j),
    "in a triangle": table(IndexedSum(open_table[k], (k, 0, j)) * open_table[j], j),
    "below the diagonal only": table(IndexedSum(open_table[k] ** 2, (k, j, 3)), j),
    "in a denominator": table(1 / (2 + open_table[j] ** 2), j),
    "two levels": table(total(table(A[i, j] * x[i] * A[i, k], i)[j] * open_table[k], k), j),
    "a table of it": table(table(open_table[i] ** 2 * y[j] + open_table[j], i)[4 - j] * y[j], j),
    "a window": table(IndexedSum(TensorComprehension(d[i + j] * x[j], (i, 5))[k] ** 2, (k, j, 4)), j),
}


@every("variable", [x, A], ids=str)
@every("case", [*AROUND])
def test_a_table_that_depends_on_the_index_around_it(case, variable):
    sizes = {k: 2} if k in AROUND[case].free_symbols else {}
    if AROUND[case].has(variable):
        assert_derivative_exact(AROUND[case], variable, sizes)
        assert_second_exact(AROUND[case], variable, sizes)


def test_a_table_read_at_its_own_names_turned():
    inner = table(A[i, j] * x[i], i, j)
    for read in (inner[i, j], inner[j, i], inner[i, i], inner[4 - j, i]):
        assert_derivative_exact(table(read * x[j] * read, i, j), x)
        assert_derivative_exact(table(read * x[j] * inner[j, j], i, j), A)


# ------------------------------------------------------- names of tensors, scalars, results


def test_names_of_tensors_and_scalars_are_no_names_of_indices():
    p_tensor, q_scalar = TensorSymbol("p", 5), Symbol("q", real=True)
    function = table(p_tensor[i] ** 2 * q_scalar + p_tensor[4 - i], i)
    result = vjp(function, p_tensor, TensorSymbol("r", 5))
    assert not {"p", "q", "r", "i"} & {axis.name for axis in result.indices}
    assert_derivative_exact(function, p_tensor)
    assert_derivative_exact(function, q_scalar)
    assert_second_exact(function, p_tensor)


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


def test_free_indices_may_have_the_names_of_the_axes():
    function = x[p] * total(x[q] * A[q, p] * x[k], k, q)
    for at in range(5):
        assert_derivative_exact(function, x, {p: at})
        assert_derivative_exact(function, A, {p: at})
    assert p not in {axis for axis in gradient(function, A).indices}
    assert_second_exact(function, x, {p: 1})


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


def test_a_size_may_be_called_like_an_index_elsewhere():
    u = TensorSymbol("u", k)
    function = IndexedSum(u[i] * IndexedSum(x[j] * u[i], (j, 0, 4)), (i, 0, k - 1))
    assert_derivative_exact(function, u, {k: 3})
    assert_derivative_exact(function, x, {k: 3})
    result = gradient(total(x[k] ** 2, k) * IndexedSum(u[i], (i, 0, k - 1)), u)
    assert result.shape == (k,)
    values = {x: [1, 2, 3, 4, 5], u: [1, 1, 1]}
    assert oracle.evaluate(result, values).tolist() == [55] * 3


names = st.sampled_from([i, j, k, p])
reads = st.tuples(names, names)


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


def test_hessians_in_one_call_and_by_entries_agree():
    function = total(x[i] * total(A[i, j] * x[j] ** 2, j), i)
    values = random_values((function,), seed=9)
    dense = oracle.evaluate(hessian(function, x), values)
    for a, b in itertools.product(range(5), repeat=2):
        twice = sympy.diff(function, x[i], x[j])
        assert oracle.evaluate(twice, {**values, i: a, j: b}) == dense[a, b]


def test_more_derivatives_than_there_are_letters():
    """The axes of the tenth have names of their own, too."""
    result = IndexedSum(sympy.sin(x[i]), (i, 0, 4))
    for _ in range(12):
        result = jacobian(result, x)
    assert len({*result.indices}) == len(result.shape) == 12
    assert oracle.evaluate(result[(3,) * 12], {x: [1, 2, 3, 0, 4]}) == 0
    assert oracle.evaluate(jacobian(result[(3,) * 12], x)[3], {x: [1, 2, 3, 0, 4]}) == 1
