"""Plain `sympy.diff` of SymPy's own scalar nodes over whole tensors: right against central differences, or refused."""

import numpy as np
import pytest
import sympy
from every import every
from sympy import Derivative, Function, IndexedBase, Max, Min, Piecewise, Symbol, cos, exp, log, sin

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference import evaluate

i, j, p, q = td.indices("i j p q")
X, Y = td.TensorSymbol("X", (3, 3)), td.TensorSymbol("Y", (3, 3))
A, x = td.TensorSymbol("A", (2, 3)), td.TensorSymbol("x", 3)
s = td.TensorSymbol("s", ())
lam = Symbol("lam", positive=True)
random = np.random.default_rng(5)
VALUES = {
    X: np.eye(3) * 2 + random.uniform(-0.7, 0.7, (3, 3)),
    Y: random.uniform(-1, 1, (3, 3)),
    A: random.uniform(-1, 1, (2, 3)),
    x: random.uniform(0.2, 1, 3),
    s: 0.8,
    lam: 1.3,
    p: 2,
    q: 1,
}
D, trace, total = td.det(X), td.trace(X), td.IndexedSum(X[i, 0] ** 2 * x[i], (i, 0, 2))

SCALARS = {
    "the known one": (lam * log(D) + sin(trace), X),
    "an entry times": (X[0, 1] * D, X),
    "a free entry times": (X[p, q] * D + X[q, q] ** 2, X),
    "an entry by a matrix": (X[0, 1] ** 2, X),
    "a sum": (exp(-total) * D / (1 + total), X),
    "a sum of entries by a vector": (total * x[1] + td.dot(x, X @ x), x),
    "power": (D**3 + D**-2 + sympy.sqrt(D), X),
    "power in the exponent": (lam**trace * 2**D, X),
    "power in both": (D**trace, X),
    "norm": (td.norm(A) + td.norm(A, 1) * td.sum(A), A),
    "function of two": (sympy.atan2(D, trace) + sympy.erf(trace), X),
    "logistic": (td.sigmoid(trace) * td.softplus(D), X),
    "extrema": (Max(D, trace, 0) + Min(trace, lam), X),
    "absolute value": (sympy.Abs(trace - 20) * D, X),
    "log-sum-exp": (td.logsumexp(A) ** 2 * s, A),
    "quadratic": (td.sum((A @ X @ x - A @ x) ** 2) / 2 + lam * td.sum(X**2), X),
    "unevaluated product": (sympy.Mul(D, trace, evaluate=False), X),
    "unevaluated sum": (sympy.Add(D, trace, D, evaluate=False), X),
    "softmax": (log(td.einsum("i,i->", td.softmax(x), X[0, 0] * x)), x),
    "cases of a function": (td.sum(td.elementwise(lambda a: Piecewise((a**2, a > 0), (sin(a), True)), A)) ** 2, A),
    "comprehension": (cos(td.sum(td.TensorComprehension(x[i] * A[j, i], (j, 2), (i, 3)) ** 2)), A),
    "inverse": (td.einsum("i,ij,j->", x, td.inv(X), x) * lam, X),
}


def number(expr, values):
    return np.array(evaluate(expr, values), dtype=float)


def differences(expr, variable, step=1e-5):
    """Central differences of every entry; axes of the value first."""
    base = np.array(VALUES[variable], dtype=float)
    columns = []
    for place in np.ndindex(base.shape):
        moved = []
        for sign in (1, -1):
            changed = base.copy()
            changed[place] += sign * step
            moved.append(number(expr, VALUES | {variable: changed if base.shape else float(changed)}))
        columns.append((moved[0] - moved[1]) / (2 * step))
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(*stacked.shape[:-1], *base.shape)


@every("what", [*SCALARS], turns=8)
def test_first_derivatives(what):
    expr, variable = SCALARS[what]
    expected = differences(expr, variable)
    assert np.abs(expected).max() > 1e-3
    for result in (sympy.diff(expr, variable), expr.diff(variable), Derivative(expr, variable).doit()):
        assert result.shape == variable.shape
        np.testing.assert_allclose(number(result, VALUES), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(number(td.gradient(expr, variable), VALUES), expected, rtol=1e-6, atol=1e-8)


@every("what", ["the known one", "an entry times", "power in both", "inverse", "norm", "logistic"], turns=8)
def test_second_derivatives(what):
    expr, variable = SCALARS[what]
    expected = differences(sympy.diff(expr, variable), variable)
    for result in (
        sympy.diff(expr, variable, variable),
        expr.diff((variable, 2)),
        Derivative(expr, (variable, 2)).doit(),
    ):
        assert result.shape == 2 * variable.shape
        np.testing.assert_allclose(number(result, VALUES), expected, rtol=1e-5, atol=1e-7)


WHOLE = {
    "element-wise": td.sin(A) * A**2 / (2 + td.cos(A)),
    "product": A @ X @ X.T,
    "broadcast": A * td.det(X) + lam * td.sum(A),
    "softmax": td.softmax(A, 0),
    "power": (A**2 + 1) ** A,
    "inverse": td.inv(X) @ td.adj(X),
}


@every("variable", [A, X, lam, A[0, 1], X[2, 1]], ids=str)
@every("what", [*WHOLE], turns=8)
def test_tensors(what, variable):
    expr = WHOLE[what]
    tensor = getattr(variable, "tensor", variable)
    expected = differences(expr, tensor)
    if tensor is not variable:
        expected = expected[(..., *map(int, variable.indices))]
    for result in (sympy.diff(expr, variable), Derivative(expr, variable).doit()):
        assert result.shape == expr.shape + getattr(variable, "shape", ())
        np.testing.assert_allclose(number(result, VALUES), expected, rtol=1e-6, atol=1e-8)


def test_by_entries_and_by_scalars():
    expr = lam * log(D) * X[0, 1] + s * trace
    by_matrix = number(sympy.diff(expr, X), VALUES)
    assert np.isclose(float(number(sympy.diff(expr, X[0, 1]), VALUES)), by_matrix[0, 1])
    assert np.isclose(float(number(sympy.diff(expr, X[p, q]), VALUES)), by_matrix[2, 1])
    mixed = sympy.diff(expr, X, lam)
    assert mixed.shape == (3, 3) and sympy.diff(expr, lam, X).shape == (3, 3)
    np.testing.assert_allclose(number(mixed, VALUES), number(sympy.diff(expr, lam, X), VALUES), rtol=1e-12)
    np.testing.assert_allclose(number(sympy.diff(expr, s, X), VALUES), np.eye(3))


def test_absent_variables_keep_the_shape():
    other, c = td.TensorSymbol("other", 4), Symbol("c")
    for expr in (td.sin(A), X @ X, td.inv(X), A, td.TensorComprehension(x[i], (i, 3)), td.ones((2, 2))):
        for variable, axes in ((other, (4,)), (c, ()), (other[0], ()), (lam, ())):
            for result in (sympy.diff(expr, variable), Derivative(expr, variable).doit(), expr.diff(variable)):
                assert result.shape == expr.shape + axes
                assert not number(result, VALUES).any()
    for expr in (D, trace, total, X[0, 1], s):
        for result in (sympy.diff(expr, other), Derivative(expr, other).doit(), expr.diff(other)):
            assert result.shape == (4,) and not number(result, VALUES).any()
        assert sympy.diff(expr, c) == 0


def test_functions_without_a_formula():
    g = Function("g")
    result = sympy.diff(g(D, trace), X)
    assert result.shape == (3, 3) and result.has(sympy.Subs)
    assert td.gradient(g(D, trace), X).shape == (3, 3)


def test_refused():
    for differentiate in (
        lambda: sympy.diff(Piecewise((D, lam > 2), (trace, True)), X),
        lambda: Derivative(lam * Piecewise((D, D > 0), (trace, True)), X).doit(),
    ):
        with pytest.raises(UnsupportedError, match=r"a case of Piecewise: .* td.gradient\(expression, X\)"):
            differentiate()
    assert td.gradient(Piecewise((D, lam > 2), (trace, True)), X).shape == (3, 3)
    for variable in (X, X[0, 1], X[p, q]):
        with pytest.raises(UnsupportedError, match=r"X\[0, 1\] in .* is an entry of SymPy's own IndexedBase"):
            sympy.diff(D * IndexedBase("X")[0, 1], variable)
    with pytest.raises(UnsupportedError, match="does not depend on lam, so SymPy makes the derivative with respect to"):
        sympy.diff(D + trace, X, lam)


def test_integers_are_no_variables_of_tensors():
    n = td.indices("n")
    with pytest.raises(UnsupportedError, match="has no derivative with respect to n, which is an integer"):
        sympy.diff(td.sin(td.TensorSymbol("z", n)), n)
