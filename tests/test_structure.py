"""Structured Jacobians and Hessians: pattern, values, products, diagonal, blocks and solves against the dense ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sympy
from fuzz.random_functions import random_function
from uncompiled import run_as_python

import sympy_tensordiff as td
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    OutOfShapeError,
    SingularMatrixError,
    UnsupportedError,
)
from sympy_tensordiff.structure import terms
from sympy_tensordiff.structure import values as compiled_here
from sympy_tensordiff.structure.points import check_inside, enumerate_points, evaluate
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.testing.values import random_values

i, j, k, l, m, n, q, t = td.indices("i j k l m n q t")
x, y, w = td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("w", n)
X, U, V = td.TensorSymbol("X", (m, n)), td.TensorSymbol("U", (n, q)), td.TensorSymbol("V", (m, q))
at = td.TensorSymbol("at", t, dtype=int)
other = td.TensorSymbol("other", t, dtype=int)
r = td.TensorSymbol("r", t)
s = sympy.Symbol("s", real=True)
S = td.IndexedSum
SIZES = {n: 7, m: 4, q: 2, t: 6}

HESSIANS = {
    "chain": ((x,), S((x[i + 1] - x[i] ** 2) ** 2, (i, 0, n - 2)), x),
    "condition": ((x,), S(sympy.Piecewise((x[i] * x[n - 1 - i] ** 2, i >= 2), (x[i] ** 3, True)), (i, 0, n - 1)), x),
    "stride": ((x, y), S(sympy.sin(x[2 * i]) * y[i], (i, 0, m - 1)), (x, y)),
    "triangle": ((x,), S(x[i] * x[j] ** 2, (j, 0, i - 1), (i, 0, n - 1)), x),
    "delta": ((x,), S(sympy.KroneckerDelta(i, 2 * j) * x[i] ** 2 * x[j] ** 2, (i, 0, n - 1), (j, 0, n - 1)), x),
    "data": ((x, at, r), S((r[i] - x[at[i]] ** 3) ** 2, (i, 0, t - 1)), x),
    "ratings": (
        (U, V, at, other, r),
        S((r[i] - S(U[at[i], j] * V[other[i], j], (j, 0, q - 1))) ** 2, (i, 0, t - 1)),
        (U, V),
    ),
    "logistic": ((X, y, x), td.sum(td.log(1 + td.exp(-y * (X @ x)))), x),
    "rank one": ((x,), sympy.exp(S(x[i] ** 2, (i, 0, n - 1)) / 10), x),
    "scalar": ((x, s), S((x[i] - s) ** 4, (i, 0, n - 1)), (x, s)),
    "weights": ((x, y), S(sympy.cos(S(y[k] * x[i + k], (k, 0, m - 1))), (i, 0, n - m)), (x, y)),
    "matrix": ((U,), td.sum((U @ U.T) ** 2), U),
    "nearest": (
        (X, U, w),
        S(w[i] * td.IndexedMin(S((X[k, i] - U[i, j] * k) ** 2, (k, 0, m - 1)) * U[i, j], (j, 0, q - 1)), (i, 0, n - 1)),
        (X, U),
    ),
    "scatter": (
        (x, at, r),
        S(S(sympy.KroneckerDelta(j, at[i]) * r[i] * x[j] * x[at[i] + 1], (i, 0, t - 1)) ** 2, (j, 0, n - 1)),
        x,
    ),
    "every other": (
        (x, at, r),
        S(sympy.KroneckerDelta(2 * j + 1, at[i] - 1) * r[i] * x[j] ** 3 * x[i], (i, 0, t - 1), (j, 0, n - 1)),
        x,
    ),
    "roots": (
        (X,),
        S(sympy.sqrt((X[i + 1, j] - X[i, j]) ** 2 + (X[i, j + 1] - X[i, j]) ** 2 + 1), (j, 0, n - 2), (i, 0, m - 2)),
        X,
    ),
}
JACOBIANS = {
    "neighbours": ((x,), td.TensorComprehension(x[i + 1] - x[i] * s.subs(s, 2), (i, n - 1)), x),
    "several": ((x, y), (td.TensorComprehension(x[2 * i] * y[i], (i, m)), S(y[i] ** 2, (i, 0, m - 1))), (x, y)),
    "gather": ((x, at), td.TensorComprehension(x[at[i]] ** 2 * x[0], (i, t)), x),
    "product": ((X, x), X @ x, (X, x)),
    "scatter": (
        (r, at),
        td.TensorComprehension(S(sympy.KroneckerDelta(j, at[i]) * r[i] ** 2, (i, 0, t - 1)), (j, 4)),
        r,
    ),
    "greatest": ((X,), td.TensorComprehension(td.IndexedMax(X[j, i] ** 2, (i, 0, n - 1)), (j, m)), X),
}


def arrays(args, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for arg in args:
        shape = tuple(SIZES[e] for e in arg.shape) if isinstance(arg, td.TensorSymbol) else ()
        integer = getattr(arg, "dtype", float) is int
        found.append(np.random.default_rng(3).integers(0, 4, shape) if integer else rng.normal(size=shape))
    return [a if a.ndim else float(a) for a in found]


def dense(args, functions, wrt, given, second):
    """The derivative that `td.hessian` or `td.jacobian` gives, as one matrix."""
    values = dict(zip(args, given, strict=True))
    variables = wrt if isinstance(wrt, tuple) else (wrt,)
    rows = td.hessian(functions[0], variables) if second else [td.jacobian(f, variables) for f in functions]
    sides = variables if second else functions
    blocks = [
        [
            np.reshape(td.evaluate(e, values), (count(a, given, args), count(b, given, args)))
            for e, b in zip(row, variables, strict=True)
        ]
        for row, a in zip(rows, sides, strict=True)
    ]
    return np.block(blocks)


def count(tensor, given, args):
    known = dict(SIZES)
    shape = [int(sympy.sympify(e).subs(known)) for e in getattr(tensor, "shape", ())]
    return int(np.prod(shape, dtype=int))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Kernels as Python: compilation would take all the time."""
    monkeypatch.setattr(compiled_here, "_compiled_sum_sources", lambda: compiled_here._sum_sources)
    with run_as_python():
        yield


def check(derivative, matrix, given, variables, tolerance=1e-12):
    scale = tolerance * max(1.0, np.abs(matrix).max())
    operator = derivative(*given)
    assert isinstance(operator, scipy.sparse.linalg.LinearOperator) and operator.shape == matrix.shape
    np.testing.assert_allclose(operator.toarray(), matrix, rtol=0, atol=scale)
    np.testing.assert_allclose(operator.tocsr().toarray(), matrix, rtol=0, atol=scale)
    np.testing.assert_allclose(operator.diagonal(), np.diag(matrix), rtol=0, atol=scale)
    rng = np.random.default_rng(5)
    right, left = rng.normal(size=matrix.shape[1]), rng.normal(size=matrix.shape[0])
    np.testing.assert_allclose(operator.matvec(right), matrix @ right, rtol=0, atol=10 * scale)
    np.testing.assert_allclose(operator.rmatvec(left), matrix.T @ left, rtol=0, atol=10 * scale)
    for lower in (False, True):
        rows, columns = derivative.structure(*given, lower=lower)
        values = derivative.values(*given, lower=lower)
        again = scipy.sparse.coo_array((values, (rows, columns)), matrix.shape).toarray()
        np.testing.assert_allclose(again, np.tril(matrix) if lower else matrix, rtol=0, atol=scale)
        assert (np.diff(rows * matrix.shape[1] + columns) > 0).all()  # sorted, each once
    return operator


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", HESSIANS)
def test_hessians(name):
    args, loss, wrt = HESSIANS[name]
    derivative = td.structured_hessian(args, loss, wrt)
    matrix = None
    for seed in range(2):
        given = arrays(args, seed)
        own = dense(args, [loss], wrt, given, True)
        operator = check(derivative, own, given, wrt)
        matrix = np.abs(own) + (0 if matrix is None else matrix)
    rows, columns = derivative.structure(*given)
    found = np.zeros(matrix.shape, bool)
    found[rows, columns] = True
    wanted = matrix != 0
    if name == "nearest":  # which entry is the least is a question of values
        assert (found >= wanted).all() and found.sum() == 28 + 2 * 28 * 2 + 14  # X by X, X by U twice, U by U
    else:
        np.testing.assert_array_equal(found, wanted)
    ends = np.cumsum([0, *(count(v, given, args) for v in (wrt if isinstance(wrt, tuple) else (wrt,)))])
    for a in range(len(ends) - 1):
        for b in range(len(ends) - 1):
            block, wanted = operator.block(a, b), own[ends[a] : ends[a + 1], ends[b] : ends[b + 1]]
            np.testing.assert_allclose(block.toarray(), wanted, atol=1e-11)
            np.testing.assert_allclose(block @ np.ones(wanted.shape[1]), wanted.sum(1), atol=1e-11)
            np.testing.assert_allclose(block.rmatvec(np.ones(wanted.shape[0])), wanted.sum(0), atol=1e-11)
            np.testing.assert_allclose(block.diagonal(), np.diag(wanted), atol=1e-11)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians(name):
    args, functions, wrt = JACOBIANS[name]
    given = arrays(args)
    several = functions if isinstance(functions, tuple) else (functions,)
    check(td.structured_jacobian(args, functions, wrt), dense(args, several, wrt, given, False), given, wrt)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("seed", range(100, 106))
def test_random_functions(seed):
    made = random_function(seed, "tables", kinks=False, depth=2 + seed % 2)
    variables = tuple(made.variables)
    sampled = random_values((made.function, *variables), made.sizes, seed, low=-1, high=1)
    args = tuple(sampled)
    given = [np.asarray(value, dtype=float) for value in sampled.values()]
    given = [value if value.ndim else float(value) for value in given]
    rows = td.jacobian(made.function, variables)
    values = dict(zip(args, given, strict=True))
    size = int(np.prod([int(e) for e in getattr(made.function, "shape", ())], dtype=int))
    matrix = np.hstack([np.reshape(td.evaluate(part, values), (size, -1)) for part in rows])
    check(td.structured_jacobian(args, made.function, variables), matrix, given, variables, tolerance=1e-11)


# ---------------------------------------------------------------------------- points


def test_points_are_those_of_the_polyhedron():
    box = [IndexRange(i, sympy.S.Zero, n - 1), IndexRange(j, sympy.S.Zero, n - 1), IndexRange(k, i - 1, i + j)]
    conditions = [sympy.Ge(2 * i, j), sympy.Eq(sympy.Mod(i + k, 3), 0), sympy.Ne(k, 2), (i < 3) | (j > 2)]
    wanted = [
        (a, b, c)
        for a in range(5)
        for b in range(5)
        for c in range(a - 1, a + b + 1)
        if 2 * a >= b and (a + c) % 3 == 0 and c != 2 and (a < 3 or b > 2)
    ]
    assert list(zip(*(c.tolist() for c in enumerate_points(box, conditions, {n: 5})), strict=True)) == wanted


def test_a_band_takes_time_linear_in_its_length():
    n_large = 200_000  # the box has 4e10 points
    band = [IndexRange(i, sympy.S.Zero, n - 1), IndexRange(j, sympy.S.Zero, n - 1), IndexRange(k, sympy.S.Zero, n - 1)]
    conditions = [(i <= k) & (k <= i + 1), sympy.Eq(j, k)]
    points = enumerate_points(band, conditions, {n: n_large})
    assert len(points[0]) == 2 * n_large - 1 and (points[1] == points[2]).all()
    for condition, count in ((abs(i - k) <= 1, 3 * n_large - 2), ((i / 2 <= k / 2) & (k / 3 <= i / 3), n_large)):
        assert len(enumerate_points([band[0], band[2]], [condition], {n: n_large})[0]) == count
    near = IndexRange(k, sympy.Max(0, i - 1), sympy.Min(n - 1, i))
    assert len(enumerate_points([band[0], near], [sympy.Eq(i, 7)], {n: n_large})[0]) == 2


def test_ranges_by_data():
    first = td.TensorSymbol("first", n, dtype=int)
    rows = S(S(r[t_] * x[i] ** 2, (t_, first[i], first[i + 1] - 1)), (i, 0, n - 2)) if (t_ := td.indices("u")) else None
    derivative = td.structured_hessian((first, r, x), rows, x)
    given = [np.array([0, 2, 2, 6]), np.arange(1.0, 7.0), np.ones(4)]
    assert derivative(*given).diagonal().tolist() == [6.0, 0.0, 36.0, 0.0]


def test_the_pattern_follows_the_data():
    args, loss, wrt = HESSIANS["data"]
    derivative = td.structured_hessian(args, loss, wrt)
    vector, places, weights = np.ones(4), np.array([0, 1, 1]), np.zeros(3)
    assert derivative.structure(vector, places, weights)[0].tolist() == [0, 1]
    places[:] = 3  # the same array, changed in place
    assert derivative.structure(vector, places, weights)[0].tolist() == [3]
    with pytest.raises(OutOfShapeError):
        derivative.structure(vector, places + 1, weights)
    with pytest.raises(OutOfShapeError, match="reads at 9, but the positions there are 0 to 4"):
        check_inside(np.array([1, 9]), 5, "the index")


# ---------------------------------------------------------------------------- solves


def matrix_of(loss, *given, args=(x,), wrt=x):
    return td.structured_hessian(args, loss, wrt)(*given)


def solved(operator, **options):
    right = np.linspace(-1, 1, operator.shape[0])
    solution = operator.solve(right, **options)
    shift = options.get("shift", 0.0)
    np.testing.assert_allclose(operator.matvec(solution) + shift * solution, right, atol=1e-8)
    return operator.method


def test_methods():
    ones, rng = np.ones(30), np.random.default_rng(0)
    square = S(x[i] ** 2 * w[i], (i, 0, n - 1))
    assert solved(matrix_of(square, ones, ones, args=(x, w))).startswith("diagonal: nothing is outside")
    chain = S((x[i + 1] - x[i]) ** 2, (i, 0, n - 2))
    assert solved(matrix_of(chain, ones), shift=0.5).startswith("banded: 1 diagonals below")
    assert solved(matrix_of(chain, ones), shift=-1.0).startswith("banded")  # indefinite
    rows = S(S(X[i, j], (j, 0, n - 1)) ** 2 + S(X[i, j] ** 4, (j, 0, n - 1)), (i, 0, m - 1))
    block = matrix_of(rows, rng.normal(size=(5, 6)) + 2, args=(X,), wrt=X)
    assert solved(block).startswith("block diagonal: 5 blocks of 6 rows")
    arrow = matrix_of(S((x[i] - x[0]) ** 2 + x[i] ** 4, (i, 0, n - 1)), ones)
    assert solved(arrow).startswith("arrow: 1 rows and columns are full")
    low = matrix_of(square + S(x[i] * w[i], (i, 0, n - 1)) ** 2, ones, ones, args=(x, w))
    assert solved(low).startswith("low rank: a sparse matrix plus one of rank 1 of 30 rows")
    ridge = S(x[i] ** 2, (i, 0, n - 1)) + S(sympy.exp(S(X[j, i] * x[i], (i, 0, n - 1))), (j, 0, m - 1))
    inner = matrix_of(ridge, rng.normal(size=(3, 30)), rng.normal(size=30), args=(X, x))
    assert solved(inner).startswith("low rank: a sparse matrix plus one of rank 3 of 30 rows")
    far = matrix_of(S((x[i] - x[sympy.Mod(7 * i + 3, n)]) ** 2, (i, 0, n - 1)), np.ones(101))
    assert solved(far, shift=1.0).startswith("lu: ")
    for method in ("cg", "minres", "dense", "lu"):
        assert solved(far, shift=1.0, method=method) == f"{method}: asked for"
    full = matrix_of(S(sympy.exp(-((x[i] - x[j]) ** 2)), (i, 0, n - 1), (j, 0, n - 1)), rng.normal(size=12))
    assert full.method.startswith("dense: terms fill blocks, and 12 rows are few")
    assert solved(full, shift=3.0).startswith("dense")


def test_dense_terms_of_large_size_stay_factored():
    operator = matrix_of(S(X[0, i] * x[i], (i, 0, n - 1)) ** 2 + S(x[i] ** 2, (i, 0, n - 1)), np.ones((1, 9000)),
                         np.ones(9000), args=(X, x))  # fmt: skip
    with pytest.raises(ArgumentError, match="the matrix would have 81000000 entries, the limit is 20000000"):
        operator.tocsr()
    with pytest.raises(ArgumentError, match="would have 81000000 entries"):
        operator.toarray()
    assert operator.diagonal().tolist() == [4.0] * 9000
    assert solved(operator).startswith("low rank")


def test_what_cannot_be_solved():
    ones = np.ones(5)
    linear = matrix_of(S(x[i] ** 3, (i, 0, n - 1)), np.zeros(5))
    with pytest.raises(SingularMatrixError, match="5 entries of its diagonal are 0; add a shift"):
        linear.solve(ones)
    chain = matrix_of(S((x[i + 1] - x[i]) ** 2, (i, 0, n - 2)), ones)
    with pytest.raises(SingularMatrixError, match="singular"):
        chain.solve(ones)
    for method in ("dense", "lu", "banded"):
        with pytest.raises(SingularMatrixError, match="add a shift, or take the least-squares solution of"):
            chain.solve(ones, method=method)
    with pytest.raises(SingularMatrixError, match=r"the matrix is singular: add a shift|singular to working precision"):
        matrix_of(S(x[i] * x[n - 1], (i, 0, n - 2)), ones).solve(ones, method="lu")
    with pytest.raises(SingularMatrixError, match="did not converge in 50 steps"):
        chain.solve(np.arange(5.0), method="cg", rtol=0.0)
    with pytest.raises(ArgumentError, match=r"the right-hand side has the shape \(4,\), the matrix needs \(5,\)"):
        chain.solve(ones[1:])
    with pytest.raises(ArgumentError, match="the right-hand side has 1 entries that are not finite"):
        chain.solve([np.nan, 1, 1, 1, 1])
    with pytest.raises(ArgumentError, match="entries of the matrix are not finite: look for NaN"):
        matrix_of(S(x[i] ** 3, (i, 0, n - 1)), np.array([1.0, np.nan])).solve([1.0, 1.0])
    with pytest.raises(ArgumentError, match="method is 'qr', it must be one of auto, diagonal"):
        chain.solve(ones, method="qr")
    for method, reason in {
        "diagonal": "entries are outside of the diagonal",
        "low rank": "no term fills a block",
        "block diagonal": "the matrix has no blocks of one size up to 512",
        "arrow": "no few full rows and columns leave a band",
    }.items():
        with pytest.raises(ArgumentError, match=f"method '{method}' does not apply: {reason}"):
            chain.solve(ones, method=method)
    jacobian = td.structured_jacobian((x,), td.TensorComprehension(x[i] ** 2, (i, n - 1)), x)(ones)
    with pytest.raises(ArgumentError, match=r"solve needs a square matrix, this one has the shape \(4, 5\)"):
        jacobian.solve(ones)
    assert jacobian.method == "none: the matrix is not square"


# ---------------------------------------------------------------------------- refusals and conveniences


def test_bad_input(monkeypatch):
    with pytest.raises(ArgumentError, match=r"the loss has the shape \(n,\): a Hessian is that of a scalar"):
        td.structured_hessian((x,), td.exp(x), x)
    with pytest.raises(ArgumentError, match="wrt is empty: name at least one variable"):
        td.structured_hessian((x,), td.sum(x), ())
    with pytest.raises(ArgumentError, match="wrt contains a variable twice: x, x"):
        td.structured_hessian((x,), td.sum(x), (x, x))
    with pytest.raises(
        ArgumentTypeError, match="wrt contains at, which is not a tensor symbol or symbol of real numbers"
    ):
        td.structured_hessian((x, at), td.sum(x), at)
    with pytest.raises(ArgumentError, match="structured_jacobian needs at least one function"):
        td.structured_jacobian((x,), (), x)
    with pytest.raises(
        UnsupportedError, match="a structured derivative goes through scalar functions, sums, maxima and minima"
    ):
        td.structured_hessian((x,), td.IndexedProduct(x[i], (i, 0, n - 1)), x)
    monkeypatch.setattr(terms, "MAX_TERMS", 1)
    with pytest.raises(UnsupportedError, match="the derivative has more than 1 terms, since its sums are nested"):
        td.structured_hessian((x,), S(x[i] ** 2 * x[i + 1] ** 2, (i, 0, n - 2)), x)
    chain = td.structured_hessian((x, w), S(x[i] ** 2 * w[i], (i, 0, n - 1)), x)
    with pytest.raises(ArgumentError, match="argument w has length 4 on axis 0, expected 3"):
        chain(np.ones(3), np.ones(4))
    with pytest.raises(
        ArgumentError, match=r"out has the shape and type \(2,\) and float64, the values have \(3,\) and float64"
    ):
        chain.values(np.ones(3), np.ones(3), out=np.ones(2))
    operator = chain(np.ones(3), np.ones(3))
    with pytest.raises(ArgumentError, match=r"block \(0, 1\): there are 1 variables, counted from 0"):
        operator.block(0, 1)
    with pytest.raises(ArgumentError, match=r"block \(1, 0\): a block has one block"):
        operator.block(0, 0).block(1, 0)
    assert operator.block(0, 0).block(0, 0).shape == (3, 3)


def test_index_arrays_must_be_arguments():
    k, n = td.indices("k n")
    with pytest.raises(UnsupportedError, match=r"at\[k\] is in an index or a condition .*, but at is not an argument"):
        evaluate(td.TensorSymbol("at", n, dtype=int)[k] + 1, {k: np.arange(3)})


def test_symmetric_variables_are_refused_and_names_written_out():
    k, n = td.indices("k n")
    x, S = td.TensorSymbol("x", n), td.TensorSymbol("S", (n, n), symmetric=True)
    with pytest.raises(UnsupportedError, match="wrt contains S, a symmetric matrix: its entries are not independent"):
        td.structured_hessian((S,), td.IndexedSum(S[0, k] ** 2, (k, 0, n - 1)), S)
    squares = td.name(td.TensorComprehension(x[k] ** 2, (k, n)), "squares")
    by_name = td.structured_hessian((x,), td.IndexedSum(squares[k] * x[k], (k, 0, n - 1)), x)
    assert by_name(np.array([1.0, 2.0])).toarray().tolist() == [[6, 0], [0, 12]]


def test_a_loss_without_second_derivative():
    operator = td.structured_hessian((x,), S(3 * x[i], (i, 0, n - 1)), x)(np.ones(4))
    assert operator.tocsr().nnz == 0 and operator.toarray().shape == (4, 4) and not operator.diagonal().any()


def test_terms_print():
    terms = td.structured_hessian((x,), S(x[i] * x[i + 1] ** 2, (i, 0, n - 2)), x).terms
    assert [str(term) for term in terms] == [
        "2*x[i] at [0, i + 1] x [0, i + 1] for i = 0 .. n - 2",
        "2*x[i + 1] at [0, i + 1] x [0, i] and transposed for i = 0 .. n - 2",
    ]


def test_values_into_an_array_and_single_precision():
    derivative = td.structured_hessian((x,), S(x[i] * x[i + 1] ** 2, (i, 0, n - 2)), x)
    out = np.full(9, np.nan)
    assert derivative.values(np.arange(4.0), out=out) is out and np.isfinite(out).all()
    assert derivative.values(np.arange(4.0, dtype=np.float32)).dtype == np.float32
    assert derivative(np.arange(4.0, dtype=np.float32)).dtype == np.float32


def test_spy():
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = td.structured_hessian((x,), S(x[i] * x[i + 1] ** 2, (i, 0, n - 2)), x).spy(np.ones(5))
    assert axes.get_xlim() == (-0.5, 4.5)
    plt.close(axes.figure)


def test_an_operator_is_a_hessian_for_scipy():
    loss = S(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2, (i, 0, n - 2))
    value, slope = td.lambdify(x, loss, "numpy"), td.lambdify(x, td.gradient(loss, x), "numpy")
    hessian = td.structured_hessian((x,), loss, x)
    start = np.full(6, 0.5)
    for method in ("trust-constr", "trust-krylov", "trust-ncg"):
        second_derivative = {"hess": hessian} if method == "trust-constr" else {"hessp": lambda p, v: hessian(p) @ v}
        found = scipy.optimize.minimize(value, start, jac=slope, method=method, **second_derivative)
        np.testing.assert_allclose(found.x, 1, atol=1e-4)


# ---------------------------------------------------------------------------- nonlinear programs


def program():
    u = td.TensorSymbol("u", n - 1)
    h = sympy.Symbol("h", real=True)
    objective = S(h * u[i] ** 2, (i, 0, n - 2)) + sympy.cos(x[0]) ** 2
    steps = td.TensorComprehension(x[i + 1] - x[i] - h * sympy.sin(u[i]) * x[i], (i, n - 1))
    ends = x[n - 1] - 2
    return u, td.nlp(
        objective, (steps, ends), (x, u), start=(np.linspace(1, 2, 5), np.full(4, 0.3)), data={h: 0.25},
        bounds={u: (-1, None)}, constraint_bounds=[(0, 0), (-0.1, 0.1)],
    )  # fmt: skip


def test_a_nonlinear_program():
    _, problem = program()
    assert (problem.n, problem.m) == (9, 5)
    assert problem.lb.tolist() == [-np.inf] * 5 + [-1.0] * 4 and np.isinf(problem.ub).all()
    assert problem.cl.tolist() == [0, 0, 0, 0, -0.1] and problem.cu.tolist() == [0, 0, 0, 0, 0.1]
    point = np.random.default_rng(0).normal(size=9)
    multipliers = np.random.default_rng(1).normal(size=5)
    step = 1e-6
    jacobian = scipy.sparse.coo_array((problem.jacobian(point), problem.jacobianstructure()), (5, 9)).toarray()
    lower = scipy.sparse.coo_array(
        (problem.hessian(point, multipliers, 0.7), problem.hessianstructure()), (9, 9)
    ).toarray()

    def slope(p):
        rows = scipy.sparse.coo_array((problem.jacobian(p), problem.jacobianstructure()), (5, 9))
        return 0.7 * problem.gradient(p) + rows.T @ multipliers

    def differences(function):
        return np.array([(function(point + step * e) - function(point - step * e)) / (2 * step) for e in np.eye(9)])

    np.testing.assert_allclose(differences(problem.objective), problem.gradient(point), atol=1e-7)
    np.testing.assert_allclose(differences(problem.constraints).T, jacobian, atol=1e-7)
    np.testing.assert_allclose(differences(slope), lower + np.tril(lower, -1).T, atol=1e-7)
    np.testing.assert_allclose(problem.jacobian_operator(point).toarray(), jacobian)
    np.testing.assert_allclose(np.tril(problem.hessian_operator(point, multipliers, 0.7).toarray()), lower)
    assert [part.shape for part in problem.unpack(point)] == [(5,), (4,)]


def test_scipy_solves_a_nonlinear_program():
    _, problem = program()
    found = scipy.optimize.minimize(
        problem.objective, problem.x0, jac=problem.gradient, hess=problem.hessian_operator, method="trust-constr",
        bounds=scipy.optimize.Bounds(problem.lb, problem.ub),
        constraints=scipy.optimize.NonlinearConstraint(
            problem.constraints, problem.cl, problem.cu, jac=lambda p: problem.jacobian_operator(p).tocsr(),
            hess=lambda p, v: problem.hessian_operator(p, v, 0.0),
        ),
    )  # fmt: skip
    assert found.constr_violation < 1e-6 and found.optimality < 1e-4


def test_bad_programs():
    loss = S(x[i] ** 2, (i, 0, n - 1))
    with pytest.raises(ArgumentError, match=r"the objective has the shape \(n,\): it must be a scalar"):
        td.nlp(td.exp(x), (), x, start=np.ones(3))
    with pytest.raises(ArgumentError, match="start has 1 arrays, there are 2 variables"):
        td.nlp(loss + S(y[i], (i, 0, m - 1)), (), (x, y), start=(np.ones(3),))
    with pytest.raises(ArgumentError, match="bounds are given for y, which wrt does not hold"):
        td.nlp(loss, (), x, start=np.ones(3), bounds={y: (0, 1)})
    with pytest.raises(ArgumentError, match="constraint_bounds has 2 pairs, there are 0 constraints"):
        td.nlp(loss, (), x, start=np.ones(3), constraint_bounds=[(0, 1)] * 2)
    with pytest.raises(ArgumentError, match=r"a bound of x has the shape \(2,\), it needs \(3,\) or one number"):
        td.nlp(loss, (), x, start=np.ones(3), bounds={x: (np.zeros(2), None)})
    problem = td.nlp(loss, (), x, start=np.ones(3))
    assert problem.m == 0 and problem.constraints(problem.x0).size == 0 and problem.jacobian(problem.x0).size == 0
    assert problem.hessian(problem.x0, np.zeros(0), 2.0).tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(ArgumentError, match=r"the vector of unknowns has the shape \(2,\), the problem needs"):
        problem.objective(np.ones(2))
    with pytest.raises(ArgumentError, match=r"the multipliers have the shape \(2,\), the problem needs \(0,\)"):
        problem.hessian(np.ones(3), np.ones(2), 1.0)
    with pytest.raises(ArgumentError, match="the problem has no constraints"):
        problem.jacobian_operator(np.ones(3))


def test_ranges_may_be_given_by_data() -> None:
    """Rows of a sparse matrix, one after the other: the ends of the range of ``k`` are entries of an array."""
    i, k, n, m = td.indices("i k n m")
    x, ends = td.TensorSymbol("x", m), td.TensorSymbol("ends", n + 1, dtype=int)
    row = td.IndexedSum(x[k] ** 2, (k, ends[i], ends[i + 1] - 1))
    arrays = np.arange(1.0, 6.0), np.array([0, 2, 2, 5])
    jacobian = td.structured_jacobian((x, ends), td.TensorComprehension(row, (i, n)), x)(*arrays)
    assert jacobian.toarray().tolist() == [[2, 4, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 6, 8, 10]]
    hessian = td.structured_hessian((x, ends), td.IndexedSum(row**2, (i, 0, n - 1)), x)(*arrays)
    expected = td.evaluate(td.hessian(td.IndexedSum(row**2, (i, 0, n - 1)), x), {x: arrays[0], ends: arrays[1]})
    np.testing.assert_allclose(hessian.toarray(), expected)


def test_an_operator_is_pickled_after_calls() -> None:
    """Compiled functions and buffers stay behind."""
    f = td.IndexedSum(sympy.exp(x[i] * x[i + 1]), (i, 0, n - 2))
    hessian, at_x = td.structured_hessian([x], f, x), np.linspace(0, 1, 6)
    first = hessian(at_x).toarray()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(hessian))(at_x).toarray(), first)
