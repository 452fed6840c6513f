"""Derivatives of SymPy's own sums: right where SymPy's rules capture an index or lose a condition."""

import itertools

import numpy as np
import pytest
import sympy
from every import every
from fuzz import random_function
from sympy import IndexedBase, KroneckerDelta, MatrixSymbol, Max, Min, Piecewise, Sum, Symbol, diff, exp, log

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, IndexExpressionError, ShapeError, UnsupportedError
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.testing import random_values

pytestmark = pytest.mark.quick

i, j, k, n, m, p, q = td.indices("i j k n m p q")
I, J, K, t = sympy.symbols("i j k t")
x, y = IndexedBase("x", shape=n), IndexedBase("y", shape=n)
A = IndexedBase("A", shape=(n, m))
z = IndexedBase("z")  # of unknown size
n_z = Symbol("n_z", integer=True, positive=True)
B, w = IndexedBase("B", shape=(m, n)), IndexedBase("w", shape=m)
dot = Sum(x[I] * y[I], (I, 0, n - 1))
CASES = {
    "dot": (dot, x),
    "log of a dot": (log(dot**2 + 1) ** 2, y),
    "inner range": (Sum(x[I] * y[I], (I, 1, n - 2)), x),
    "unknown size": (Sum(z[I] ** 3 * (I + 1), (I, 0, n - 1)), z),
    "matrix product": (Sum(A[i, K] * B[K, j], (K, 0, m - 1)).subs({i: 0, j: 0}), A),
    "squares of a product": (Sum(Sum(A[I, K] * B[K, J], (K, 0, m - 1)) ** 2, (I, 0, n - 1), (J, 0, n - 1)), A),
    "triangle": (Sum(A[I, J] * w[J], (J, 0, Min(I, m - 1)), (I, 0, n - 1)), A),
    "stride": (Sum(z[2 * I + 1] * x[I] ** 2, (I, 0, n - 1)), z),
    "dilated": (Sum(w[K] * z[2 * I + 3 * K] * x[I], (I, 0, n - 1), (K, 0, m - 1)), z),
    "reversed": (Sum(x[n - 1 - I] * y[I], (I, 0, n - 1)), x),
    "diagonal": (Sum(Sum(IndexedBase("C", shape=(n, n))[I, I] ** 2, (I, 0, n - 1)) * x[J], (J, 0, n - 1)), x),
    "a delta": (Sum(KroneckerDelta(2 * I, J) * x[I] * w[J] ** 2, (I, 0, n - 1), (J, 0, m - 1)), w),
    "a delta with a range": (Sum(KroneckerDelta(I, J, (1, 2)) * x[I] * y[J], (I, 0, n - 1), (J, 0, n - 1)), x),
    "cases on the index": (Sum(Piecewise((x[I] ** 2, I > 0), (x[I], True)), (I, 0, n - 1)), x),
    "cases on the value": (Sum(Piecewise((x[I] ** 2, x[I] > 0), (x[I], True)), (I, 0, n - 1)), x),
    "softmax": (exp(x[0]) / Sum(exp(x[J]), (J, 0, n - 1)), x),
    "relu": (Sum(y[I] * Max(0, x[I]), (I, 0, n - 1)), x),
    "Karr": (Sum(z[I] ** 2, (I, 5, 2)) * Sum(z[I], (I, 0, n)), z),
    "a matrix symbol": (sympy.Trace(MatrixSymbol("M", n, n) ** 2) * Sum(x[I], (I, 0, n - 1)), MatrixSymbol("M", n, n)),
}


def problem(expr, base, seed=0):
    """The lifted function, its variable, and values at sizes that fit."""
    lifted = td.lift(expr)
    (variable,) = [tensor for tensor in lifted.atoms(td.TensorSymbol) if tensor.name == str(base)]
    sizes = {n: 3, m: 2, n_z: 10}
    sizes = {symbol: size for symbol, size in sizes.items() if symbol in lifted.free_symbols}
    return lifted, variable, sizes, random_values(lifted, sizes, seed, low=0.25, high=2)


@every("expr, base", CASES.values(), ids=CASES, turns=8)
def test_against_the_reference(expr, base):
    lifted, variable, sizes, values = problem(expr, base)
    expected = differentiate(lifted, variable, values, sizes)
    # A bound index as the name of a free one: SymPy would capture it.
    for names in itertools.islice(itertools.permutations((i, j, p, q), variable.rank), 5):
        entry = base[names[0] if variable.rank == 1 else names]
        result = td.diff(expr, entry)
        assert not has_delta_under_a_sum(result)
        table = td.TensorComprehension(result, *zip(names, variable.shape, strict=True))
        np.testing.assert_array_equal(close(evaluate(table, values, sizes)), close(expected))
    for whole in (td.diff(expr, base), td.gradient(expr, base)):
        assert whole.shape == variable.shape
        np.testing.assert_array_equal(close(evaluate(whole, values, sizes)), close(expected))


def close(array):
    """Fractions stay exact; 30-digit floats to 20 digits."""
    return np.vectorize(lambda v: v if hasattr(v, "denominator") else f"{float(v):.13g}", otypes=[object])(array)


def has_delta_under_a_sum(expr):
    return any(total.body.has(KroneckerDelta) for total in expr.atoms(td.IndexedSum))


def test_unevaluated_derivatives():
    captured = sympy.Derivative(dot.xreplace({I: i}), x[i])
    assert isinstance(td.lift(captured), sympy.Derivative)
    assert td.lift(captured).doit() == td.lift(y[i])
    with pytest.raises(UnsupportedError, match=r"with \.doit\(\) \(of SymPy's own Sum after td\.lift\)"):
        td.diff(captured, x[p])


def test_captured_by_sympys_doit():
    nested = Sum(x[i] * Sum(A[i, k], (k, 0, m - 1)), (i, 0, n - 1))
    assert diff(nested, x[k]).doit().has(A[k, k])
    assert td.canonical(td.diff(nested, x[k])) == td.canonical(td.lift(Sum(A[k, j], (j, 0, m - 1))))


def test_products_name_no_index_like_a_free_one():
    result = td.diff(sympy.Product(x[i], (i, 0, n - 1)), x[i])
    assert evaluate(result, {td.lift(x): [2, 3, 5, 0]}, {i: 3}) == 30
    assert evaluate(result, {td.lift(x): [2, 3, 5, 7]}, {i: 0}) == 105


def test_scalars_and_counts():
    expr = t**3 * dot
    value = td.lift(dot)
    assert td.diff(expr, t) == 3 * t**2 * value
    assert td.diff(expr, t, 2) == td.diff(expr, (t, 2)) == td.diff(expr, sympy.Tuple(t, 2)) == 6 * t * value
    assert td.diff(expr, t, x[p]) == td.diff(expr, x[p], t) == 3 * t**2 * td.lift(y[p])
    assert td.diff(expr, (t, 0)) == t**3 * value and td.diff(expr, x[p], 0, t, 3) == 6 * value
    assert td.diff(sympy.sin(t) ** 2, t) == 2 * sympy.sin(t) * sympy.cos(t)
    assert td.diff(dot, z[p]) == 0
    assert td.diff(dot, x, y) == td.jacobian(td.gradient(dot, x), y)
    assert td.diff(Sum(z[i] * x[i], (i, 0, n - 1)), z).shape == (n_z,)


def test_mixtures():
    T = td.TensorComprehension(A[i, 0] ** 2 * Sum(x[j], (j, 0, i)), (i, n))
    assert td.diff(T, x[p]).shape == (n,) and td.diff(T, A).shape == (n, n, m)
    ours = td.IndexedSum(td.lift(x[i]) * y[i], (i, 0, n - 1))
    assert td.diff(ours, x[p]) == td.lift(y[p]) == sympy.diff(ours, td.lift(x)[p])
    assert td.vjp(T, x, y) == td.vjp(td.lift(T), td.lift(x), td.lift(y))
    assert td.jvp(dot, (x, y), (y, x)) == td.jvp(td.lift(dot), td.lift((x, y)), td.lift((y, x)))
    assert td.hvp(dot**2, x, y) == td.hvp(td.lift(dot) ** 2, td.lift(x), td.lift(y))
    assert td.hessian(dot**2, x) == td.hessian(td.lift(dot) ** 2, td.lift(x))
    assert (
        td.check_derivative(dot**2, (x, y)) < 1e-6
        and td.check_derivative(Sum(z[i] ** 2, (i, 0, 3)), z, {n_z: 6}) < 1e-6
    )


def test_plain_diff_of_ours_by_native_entries():
    ours = td.IndexedSum(z[i] ** 2, (i, 0, 3))
    assert diff(ours, z[p]) == td.diff(ours, z[p]) == Piecewise((2 * td.lift(z[p]), p <= 3), (0, True))
    assert diff(sympy.sin(ours), z[0]) == 2 * sympy.cos(ours) * td.lift(z[0])


def test_kernels_of_native_expressions():
    values = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    assert td.lambdify([x, y], dot, "numpy")(*values) == 32
    gradient = td.lambdify([z, n], td.gradient(Sum(z[i] ** 2, (i, 0, n - 1)), z), "numpy")
    assert list(gradient(values[0], 2)) == [2, 4, 0]
    total = td.lambdify([z, n], Sum(z[i] ** 2, (i, 0, n - 1)), "numpy")
    assert total(values[0], 0) == 0 and total(values[0], 2) == 5
    assert "range(" in td.generate_code([x, y], dot, "numba")


@every(
    "variables, kind, message",
    [
        ((), ArgumentError, "there is no variable"),
        ((2, t), ArgumentError, "the count 2 .* follows no variable"),
        ((t, 2, 3), ArgumentError, "the count 3 .* follows no variable"),
        (((t, -1),), ArgumentTypeError, "-1 in .* must be a number of times"),
        (((t, n),), ArgumentTypeError, "n in .* must be a number of times"),
        (((t, x[p], y[p]),), ArgumentTypeError, "not a pair of a variable and a count.*td.gradient"),
        ((n,), ArgumentTypeError, "cannot differentiate with respect to n"),
        (("t",), ArgumentTypeError, "cannot differentiate with respect to 't'"),
        ((IndexedBase("u"),), ShapeError, "u as a whole has no known rank"),
        ((x[Symbol("i", integer=False)],), IndexExpressionError, "i is declared not to be an integer"),
        ((z[p, q], z[p]), ShapeError, "two different tensors are called z"),
    ],
)
def test_refusals(variables, kind, message):
    with pytest.raises(kind, match=message):
        td.diff(t * dot, *variables)


@pytest.mark.parametrize("seed", range(4))
def test_random_functions(seed):
    """Random functions written natively, by entries whose indices have the names of bound ones."""
    function = random_function(seed, "tables", depth=3)
    whole, values = function.function, random_values(function.function, {}, seed)
    values |= {Symbol(v.name, real=True): a.item() for v, a in values.items() if not getattr(v, "shape", (1,))}
    axes = td.indices("u v w")[: whole.rank]
    native = whole[axes].rewrite(Sum)
    for variable in (v for v in function.variables if getattr(v, "rank", 0)):
        names = (k, i, j)[: variable.rank]
        result = td.diff(native, variable.rewrite(Sum)[names])
        assert not has_delta_under_a_sum(result)
        limits = zip((*axes, *names), (*whole.shape, *variable.shape), strict=True)
        got = evaluate(td.TensorComprehension(result, *limits), values)
        np.testing.assert_array_equal(got, differentiate(whole, variable, values))
