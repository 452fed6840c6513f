"""Defects that a hostile user reported: each line was wrong, ugly or a foreign exception once."""

import numpy as np
import pytest
import sympy
from every import every
from sympy import And, IndexedBase, KroneckerDelta, Max, Piecewise, Symbol, diff, exp

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from sympy_tensordiff.reference import evaluate

i, j, k, p, q = td.indices("i j k p q")
n, m = sympy.symbols("n m", integer=True, positive=True)
x, xn, v = td.TensorSymbol("x", 4), td.TensorSymbol("xn", n), td.TensorSymbol("v", 5)
A = td.TensorSymbol("A", (3, 5))
square = td.TensorComprehension(v[i] ** 2, (i, 5))


@pytest.mark.parametrize(
    ("assumptions", "low"), [({"positive": True}, 0), ({"even": True}, 0), ({"nonzero": True}, 0), ({"prime": True}, 2)]
)
def test_an_index_that_contradicts_its_range_is_refused(assumptions, low):
    z = Symbol("z", integer=True, **assumptions)
    with pytest.raises(ArgumentError, match=r"the index z is declared .* td\.indices\('z'\)"):
        td.IndexedSum(x[z], (z, low, 3))


@every(
    "call",
    [
        lambda: td.vjp(x[0] ** 2, "x", 1),
        lambda: td.gradient("x**2", x),
        lambda: td.jacobian(square, "v"),
        lambda: td.simplify_deltas("x"),
        lambda: td.lambdify([x], "x[0]"),
        lambda: td.check_derivative(square, 5),
        lambda: td.certify_convex("v[0]**2", v),
    ],
)
def test_text_is_never_evaluated(call):
    with pytest.raises(ArgumentTypeError):
        call()


def test_entries_that_share_memory_cannot_be_filled():
    out = np.lib.stride_tricks.as_strided(np.zeros(1), (5,), (0,))
    with pytest.raises(ArgumentError, match="entries that share memory"):
        td.lambdify((v,), square, "numpy")(np.arange(5.0), out=out)


def test_sizes_that_nothing_determines():
    for args, expression in (
        ((x,), td.TensorComprehension(x[0] * i, (i, m))),
        ((td.TensorSymbol("u", n + m),), td.TensorComprehension(i, (i, n))),
    ):
        with pytest.raises(ArgumentError, match="is determined by no array's shape; add it to args"):
            td.lambdify(args, expression, "numpy")


@pytest.mark.parametrize("extent", [-n, 1 - n])
def test_extents_that_are_never_positive(extent):
    with pytest.raises(ShapeError, match="not positive"):
        td.TensorSymbol("u", extent)


def test_native_entries_in_a_body_are_entries_of_a_tensor():
    z = td.TensorSymbol("z", sympy.Symbol("n_z", integer=True, positive=True))
    for entry in (IndexedBase("z")[i], z[i]):
        result = td.gradient(td.IndexedSum(entry * x[i], (i, 0, 3)), x)
        assert result == td.TensorComprehension(z[p], (p, 4))


def test_results_read_well():
    relu = td.hessian(td.IndexedSum(Max(x[i], 0) ** 2, (i, 0, 3)), x)
    assert relu.body == Piecewise((2, x[p] > 0), (0, True)) * KroneckerDelta(p, q)
    h, w = td.TensorSymbol("h", 3), td.TensorSymbol("w", n)
    padded = Piecewise((xn[i + k - 1], And(i + k - 1 >= 0, i + k - 1 < n)), (0, True)) * h[k]
    by_kernel = td.vjp(td.TensorComprehension(td.IndexedSum(padded, (k, 0, 2)), (i, n)), h, w)
    assert not by_kernel.has(Piecewise)
    assert diff(x, x) == td.DeltaTensor(4)
    odd = td.vjp(td.TensorComprehension(v[2 * i + 1] ** 2, (i, 2)), v, td.TensorSymbol("d", 2))
    assert v[p] in odd.atoms(td.TensorEntry)


def test_deltas_inside_of_functions_leave_the_sum():
    for body in (x[i] / (1 + KroneckerDelta(i, p)), exp(x[i] * KroneckerDelta(i, p)), exp(KroneckerDelta(2 * i, p))):
        total = td.IndexedSum(body, (i, 0, 3))
        result = td.simplify_deltas(total)
        for node in sympy.preorder_traversal(result):
            assert not (isinstance(node, td.IndexedSum) and node.has(KroneckerDelta))
        for at in range(-2, 10):
            values = {x: [2, 3, 5, 7], p: at}
            assert abs(float(evaluate(result, values)) - float(evaluate(total, values))) < 1e-9


def test_equal_arguments_of_an_extremum_are_one():
    """A delta makes y[2*q] and y[q] one entry: there is no tie to share, and nothing counts twice."""
    y = td.TensorSymbol("y", n)
    for body in (Max(y[2 * q], y[q]), sympy.Min(y[2 * q], y[3 * q], y[q])):
        assert td.diff(KroneckerDelta(0, q) * body, y[q]) == KroneckerDelta(0, q)
        assert sympy.simplify(td.diff(body, y[q]).subs(q, 0)) == 1
    pairs = td.IndexedSum(KroneckerDelta(i, j) * Max(y[i], y[j], 2 * y[i]), (i, 0, n - 1), (j, 0, n - 1))
    expected = Piecewise((2, y[p] > 0), (1, y[p] < 0), (sympy.Rational(3, 2), True))
    for at in (-1, 0, 1):
        assert evaluate(td.diff(pairs, y[p]), {y: [at], p: 0}) == expected.subs(y[p], at)
    assert td.diff(td.IndexedSum(KroneckerDelta(i, j) * Max(y[i], y[j]), (i, 0, n - 1), (j, 0, n - 1)), y[p]) == 1


@pytest.mark.parametrize("condition", [x[0] > 0, x[p] > 0, p > 0])
def test_cases_around_a_sum_of_cases_are_folded_and_simplified(condition):
    """SymPy looked for cases under the sum for ever, and took the tensor x for the unknown of x[0] > 0."""
    relu = td.IndexedSum(Piecewise((v[i], v[i] > 0), (0, True)), (i, 0, 4))
    for expression in (Piecewise((relu, condition), (0, True)), relu * Piecewise((relu, condition), (v[0], True))):
        assert sympy.piecewise_fold(expression).atoms(td.IndexedSum) == {relu}
        for result in (sympy.simplify(expression), sympy.piecewise_fold(expression)):
            for value in (-1, 1):
                values = {v: [1, -2, 3, 4, -5], x: [value, 2, -3, 4], p: value % 3}
                assert evaluate(result, values) == evaluate(expression, values)


@pytest.mark.parametrize("function", [td.gradient, lambda e, v: td.diff(e, v[p]), lambda e, v: td.lambdify([v, p], e)])
def test_whole_arrays_among_scalars_are_refused_as_lift_does(function):
    """SymPy takes an IndexedBase for a scalar; a foreign error or a zero came out."""
    X = IndexedBase("x", shape=n)
    refused = (
        X + 1,
        exp(X),
        Max(X, 0),
        Piecewise((X, X[0] > 0), (0, True)),
        Piecewise((1, X > 0), (0, True)),
        X + X[p],
    )
    for expression in refused:
        with pytest.raises(UnsupportedError, match=r"of a whole tensor of rank 1: .* write A\.applyfunc\(f\)"):
            function(expression, X)
    with pytest.raises(UnsupportedError, match=r"x among scalars: a scalar is needed, .* TensorComprehension\(x\[i\]"):
        function(td.IndexedSum(exp(X) * X[i], (i, 0, n - 1)), X)
    u = td.TensorSymbol("x", n)
    one = td.TensorComprehension(KroneckerDelta(i, p) * u[q], (i, n))
    assert td.diff(X[q] * X, X[p]) == td.TensorAdd(one, td.TensorMul(KroneckerDelta(p, q), u))
    assert td.jacobian(sympy.transpose(X), X) == td.DeltaTensor(n)


def test_entries_of_native_index_arrays_select_entries_of_own_tensors():
    """The message for `x[fr[e]]` asked to write the IndexedBase that was there."""
    n, m, e, i = td.indices("n m e i")
    x, fr, ptr = (
        td.TensorSymbol("x", n),
        sympy.IndexedBase("fr", shape=(m,), integer=True),
        sympy.IndexedBase("ptr", integer=True),
    )
    gradient = td.gradient(td.IndexedSum(x[fr[e]] ** 2, (e, 0, m - 1)), x)
    assert str(gradient) == "TensorComprehension(2*x[p]*IndexedSum(KroneckerDelta(p, fr[e]), (e, 0, m - 1)), (p, n))"
    found = td.lambdify([x, fr], gradient, "numpy")(np.array([1.0, 2, 3]), np.array([0, 2, 2]))
    np.testing.assert_array_equal(found, [2, 0, 12])
    part = td.lambdify([x, ptr], td.IndexedSum(x[i], (i, ptr[0], ptr[1] - 1)), "numpy")
    assert part(np.array([1.0, 2, 3]), np.array([1, 3])) == 5
    with pytest.raises(td.errors.IndexExpressionError, match="no entry of one of integers"):
        x[sympy.IndexedBase("v")[e]]
