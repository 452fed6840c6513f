"""Matrix and array expressions of SymPy: values, derivatives, forms, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact, assert_second_exact
from fuzz.equality import assert_equal
from native_expressions import ALPHA, RandomArrays, RandomMatrices, explicit, random_arrays, symbols_of
from sympy import (
    Array,
    BlockDiagMatrix,
    BlockMatrix,
    DiagMatrix,
    DiagonalMatrix,
    DiagonalOf,
    DotProduct,
    FunctionMatrix,
    HadamardProduct,
    Identity,
    IndexedBase,
    Lambda,
    Matrix,
    MatrixSymbol,
    OneMatrix,
    Sum,
    Symbol,
    Trace,
    symbols,
)
from sympy.matrices.expressions.kronecker import KroneckerProduct
from sympy.tensor.array.expressions import (
    ArrayContraction,
    ArrayDiagonal,
    ArraySymbol,
    ArrayTensorProduct,
    Reshape,
    array_derive,
)
from test_printed import entries

import sympy_tensordiff as td
from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in

i, j, k, p, q = td.indices("i j k p q")
n, m = symbols("n m", integer=True, positive=True)
A, B, X, Y = MatrixSymbol("A", n, m), MatrixSymbol("B", m, n), MatrixSymbol("X", n, n), MatrixSymbol("Y", n, n)
x, y = MatrixSymbol("x", n, 1), MatrixSymbol("y", n, 1)
P, Q = MatrixSymbol("P", 3, 3), MatrixSymbol("Q", 2, 3)
S = ArraySymbol("S", (n, m, 2))


def fraction(number: Any) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def as_object_array(value: Any) -> np.ndarray:
    """A matrix or an array of SymPy as an array of fractions."""
    shape = tuple(int(extent) for extent in value.shape)
    result = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        result[place] = fraction(value[place])
    return result


def lifted_values(values: dict[Any, Any]) -> dict[Any, Any]:
    """Values of SymPy's symbols as values of the lifted ones."""
    numbers = {ALPHA: fraction(values[ALPHA])}
    arrays = {td.lift(symbol): as_object_array(value) for symbol, value in values.items() if symbol != ALPHA}
    return {**arrays, **numbers}


def random_case(kind: str, seed: int) -> tuple[Any, tuple[int, ...]]:
    """An expression and its shape."""
    make = RandomMatrices(seed) if kind == "matrices" else RandomArrays(seed)
    shape = make.shape(2) if kind == "matrices" else make.shape(1, 1, 2, 2, 3)
    return make.expression(shape, make.random.choice((1, 2, 2, 3))), shape


# ------------------------------------------------------------------ random expressions


@every("kind", ["matrices", "arrays"])
@every("block", range(4), turns=8)
def test_values_are_those_of_sympys_explicit_arrays(kind: str, block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        expr, shape = random_case(kind, seed)
        values = random_arrays(expr, seed)
        result = td.lift(expr)
        assert result.shape == shape, (seed, expr)
        assert_equal(
            evaluate(result, lifted_values(values)), as_object_array(explicit(expr, values)), f"{seed}: {expr}"
        )


@every("kind", ["matrices", "arrays"])
@every("block", range(4), turns=8)
def test_derivatives_are_exact(kind: str, block: int) -> None:
    for seed in range(1000 + 8 * block, 1008 + 8 * block):
        expr, _ = random_case(kind, seed)
        variables = symbols_of(expr)
        if variables:
            variable = td.lift(variables[seed % len(variables)])
            assert_derivative_exact(td.lift(expr), variable, seed=seed)
            if seed % 4 == 0 and np.prod(variable.shape) <= 9:
                assert_second_exact(td.lift(expr), variable, seed=seed)


# ------------------------------------------------------------------ symbolic sizes

BLOCKS = BlockMatrix([[X, A], [B, Identity(m)]])
SYMBOLIC = [
    *(A * B * X, x.T * X * x, X**3 * x, Trace(A * B * X), HadamardProduct(X, A * B) * x, (A * B).applyfunc(sympy.sin)),
    *(
        KroneckerProduct(X, Q),
        KroneckerProduct(A, Q, Q.T),
        KroneckerProduct(X, A),
        KroneckerProduct(A, MatrixSymbol("Z", m, 2), x),
        Trace(KroneckerProduct(X, Y) * KroneckerProduct(Y, X)),
        BLOCKS,
        BLOCKS * BLOCKS.T,
        Trace(BlockDiagMatrix(X, Y) * BlockDiagMatrix(Y, X)),
    ),
    *(DiagMatrix(x) * X, DiagMatrix(x.T), DiagonalOf(X * Y), DiagonalMatrix(X * Y), X[1:n, 0 : n - 1], X[0:n, 0:2] * Q),
    *(Reshape(S, (n, 2 * m)), Reshape(ArraySymbol("S", (n, 4)), (2 * n, 2)), DotProduct(x, y) * X),
    *(Reshape(S, (2 * n * m,)), Reshape(S, (m, 2, n)), Reshape(ArraySymbol("v", (n, m)), (m, n))),
    *(ArrayContraction(ArrayTensorProduct(S, S), (0, 3), (1, 4)), ArrayDiagonal(ArrayTensorProduct(S, A), (0, 3))),
    *(Matrix([[1, 2], [3, 4]]) * MatrixSymbol("Z", 2, n), OneMatrix(n, m) * B, X * Trace(X), X[1, n - 1] * X),
]


@every("expr", SYMBOLIC, ids=str, turns=8)
def test_symbolic_sizes(expr: Any, thorough: bool) -> None:
    """First derivatives; second ones, which no longer see what has been lifted, of every third expression."""
    result = td.lift(expr)
    for position, variable in enumerate(sorted(map(td.lift, symbols_of(expr)), key=str)):
        assert_derivative_exact(result, variable, {n: 3, m: 2})
        if position == 0 and (thorough or SYMBOLIC.index(expr) % 3 == 0):
            assert_second_exact(result, variable, {n: 2, m: 3}, backends=())


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "expr",
    [KroneckerProduct(Q, P) * KroneckerProduct(P, P), pytest.param(BLOCKS**2, marks=pytest.mark.thorough)],
    ids=["Kronecker", "blocks"],
)
def test_kernels(expr: Any) -> None:
    variable = td.lift(symbols_of(expr)[-1])
    assert_derivative_exact(td.lift(expr), variable, {n: 3, m: 2}, backends=("numba",))


# ------------------------------------------------------------------ forms


def test_lifting_again_changes_nothing() -> None:
    for entry in entries("Matrices and arrays of SymPy that are lifted"):
        assert td.lift(td.lift(entry.value)) == td.lift(entry.value)


# ------------------------------------------------------------------ names and scopes


def test_indices_are_not_captured() -> None:
    """Free indices in scalar coefficients, in functions, and in the sums around."""
    scaled = td.lift(X.applyfunc(lambda e: e * i + Sum(j * e, (j, 0, 2))))
    value = evaluate(scaled, {td.lift(X): [[1, 2], [3, 4]], i: 10})
    assert value.tolist() == [[13, 26], [39, 52]]
    function = FunctionMatrix(2, 2, Lambda(symbols("u v"), Symbol("u") * i + Sum(j * Symbol("v"), (j, 0, 2))))
    assert evaluate(td.lift(function), {i: 10}).tolist() == [[0, 3], [10, 13]]
    assert td.lift(Trace(i * X)).subs(i, k).dummy_eq(td.lift(Trace(k * X)))


def test_sums_around_matrices() -> None:
    """The index of a sum may be a plain symbol, which becomes an integer one."""
    plain = Symbol("i")
    power = Sum(Trace(plain * P) * P[plain, 0], (plain, 0, 2))
    values = {P: Matrix(3, 3, range(9))}
    expected = sum(r * 12 * values[P][r, 0] for r in range(3))
    assert evaluate(td.lift(power), {td.lift(P): np.arange(9).reshape(3, 3)}) == expected
    sliced = Sum(Trace(X[plain : plain + 2, 0:2]), (plain, 0, n - 2))
    array = np.arange(9).reshape(3, 3)
    assert evaluate(td.lift(sliced), {td.lift(X): array}) == sum(np.trace(array[r : r + 2, :2]) for r in range(2))


def test_one_name_is_one_tensor() -> None:
    mixed = Trace(P) * IndexedBase("P", shape=(3, 3))[0, 1] + ArraySymbol("P", (3, 3))[2, 2]
    assert td.lift(mixed).atoms(td.TensorSymbol) == {td.TensorSymbol("P", (3, 3))}
    with pytest.raises(ShapeError, match=r"two different tensors are called P: .*\(2, 2\).*\(3, 3\)"):
        td.lift(Trace(P) + Trace(MatrixSymbol("P", 2, 2)))


# ------------------------------------------------------------------ sharing


def products_in(expr: Any) -> list[Any]:
    """All products of an expression; shared parts are visited once."""
    return [node for node in nodes_in([expr]) if isinstance(node, td.EinsumProduct)]


def test_products_are_chains() -> None:
    matrices = [MatrixSymbol(f"M{number}", n, n) for number in range(40)]
    (product,) = products_in(td.lift(sympy.MatMul(*matrices[:12])))
    assert product.subscripts == "ij,jk,kl,lm,mn,no,op,pq,qr,rs,st,tu->iu"
    assert len(products_in(td.lift(sympy.MatMul(*matrices)))) == 4
    assert len(products_in(td.lift(X**1000))) == 9 + 5  # squares, and one product per further 1 in 1111101000
    assert td.lift(X**3 * x) == td.lift(sympy.MatMul(X, X, X, x)) != td.lift(sympy.MatMul(X, X, x))
    assert str(td.lift(Trace(X * Y * X))) == "trace(X @ Y @ X)" and len(products_in(td.lift(Trace(X * Y * X)))) == 1


def test_vectors_are_multiplied_first() -> None:
    """No product of two matrices is computed: the number of operations is quadratic."""
    for expr in (X * Y * x, x.T * X * Y, x.T * X * Y * y, X * x * x.T * Y, X**5 * x):
        kernel = td.lambdify(sorted(map(td.lift, symbols_of(expr)), key=str), td.lift(expr), backend="numpy")
        assert "n*n*n" not in str(kernel.plan), (expr, kernel.plan)


def test_contractions_of_tensor_products_are_chains_too() -> None:
    factors = [MatrixSymbol(f"M{number}", n, n) for number in range(6)]
    pairs = [(2 * number + 1, 2 * number + 2) for number in range(5)]
    chain = ArrayContraction(ArrayTensorProduct(*factors), *pairs)
    assert str(td.lift(chain)) == str(td.lift(sympy.MatMul(*factors)))


# ------------------------------------------------------------------ derivatives and their axes


def test_the_gradient_of_a_trace() -> None:
    """SymPy's matrix calculus agrees on gradients of scalars."""
    drawn = np.random.default_rng(5)
    for expr in [Trace(A * B * X), Trace(X * Y * X), Trace(X.T * X), Trace(A.T * X * A)]:
        theirs, ours = td.lift(expr.diff(X)), td.gradient(td.lift(expr), td.lift(X))
        values = {t: drawn.integers(-5, 6, (3, 3)) for t in map(td.lift, (A, B, X, Y))}
        assert_equal(evaluate(ours, values, {n: 3, m: 3}), evaluate(theirs, values, {n: 3, m: 3}), str(expr))
        assert_equal(evaluate(td.diff(expr, X), values, {n: 3, m: 3}), evaluate(ours, values, {n: 3, m: 3}), str(expr))


@pytest.mark.in_turns(4)
def test_gradients_that_are_matrices_have_the_values_of_the_tensors() -> None:
    matrices = 0
    for seed in range(30):
        expr, _ = random_case("matrices", seed)
        scalar = Trace(expr.T * expr)
        for variable in symbols_of(expr)[:1]:
            result, tensor = td.gradient(scalar, variable), td.gradient(td.lift(scalar), variable)
            values = lifted_values(random_arrays(expr, seed))
            assert_equal(evaluate(result, values), evaluate(tensor, values), f"{seed}: {expr}")
            matrices += isinstance(result, sympy.MatrixExpr)
    assert matrices >= 10


@every("expr", [P * P, P.T, Q * P, HadamardProduct(P, P), P.applyfunc(sympy.exp) * P], ids=str, turns=8)
def test_axes_of_sympys_array_derivatives_are_the_other_way_round(expr: Any) -> None:
    """The axes of the value come first here, those of the variable in SymPy's array derivatives."""
    variable = td.lift(P)
    ours = td.diff(expr, P)
    assert ours.shape == (*expr.shape, 3, 3)
    drawn = random_arrays(expr, 1)
    values = {td.lift(s): as_object_array(value) for s, value in drawn.items() if s != ALPHA}
    value = evaluate(ours, values)
    theirs = sympy.derive_by_array(Array(expr.as_explicit()), Array(P.as_explicit()))
    entries = {P[r, c]: drawn[P][r, c] for r in range(3) for c in range(3)}
    if expr.has(Q):
        entries |= {Q[r, c]: drawn[Q][r, c] for r in range(2) for c in range(3)}
    for place in np.ndindex(value.shape):
        expected = theirs[(*place[2:], *place[:2])].subs(entries)
        assert abs(float(value[place]) - float(expected)) < 1e-9 * max(1, abs(float(expected))), place
    assert_derivative_exact(td.lift(expr), variable)


def test_sympys_own_array_derivative_lifts_to_the_permuted_jacobian() -> None:
    theirs = td.lift(array_derive(Q * P, P))
    ours = td.diff(Q * P, P)
    values = {td.lift(Q): np.arange(6).reshape(2, 3)}
    assert theirs.shape == (3, 3, 2, 3) and ours.shape == (2, 3, 3, 3)
    assert_equal(evaluate(theirs, values), evaluate(ours, values).transpose(2, 3, 0, 1), "array_derive")


def test_where_sympys_matrix_calculus_is_wrong() -> None:
    """Of the trace of a function of the entries it keeps the diagonal only, as a vector."""
    function = Trace(P.applyfunc(sympy.sin))
    assert td.lift(function.diff(P)).shape == (3,)
    assert str(td.diff(function, P[p, q])) == "cos(P[p, p])*KroneckerDelta(p, q)"
    assert td.gradient(function, P).shape == (3, 3)
    assert_derivative_exact(td.lift(function), td.lift(P))


def test_by_entries() -> None:
    assert str(td.diff(Trace(X * Y), X[p, q])) == "Y[q, p]"
    assert td.diff(P * P, P[p, q]).shape == (3, 3)
    assert (
        str(td.diff(ArrayContraction(ArrayTensorProduct(S, S), (0, 3), (1, 4), (2, 5)), S[p, q, 0])) == "2*S[p, q, 0]"
    )
    assert not td.diff(DiagMatrix(x) * X, x[p, 0]).body.has(td.IndexedSum)


def test_by_variables_in_sympys_own_notation() -> None:
    """To plain `diff` they would be absent, and the derivative 0."""
    trace, entry = td.lift(Trace(X * Y)), td.lift(X)[p, q]
    v = IndexedBase("v", shape=(n,))
    total = td.lift(Sum(v[i] ** 2, (i, 0, n - 1)))
    assert sympy.diff(trace, X[p, q]) == trace.diff(X[p, q]) == trace.diff(entry) == td.lift(Y[q, p])
    assert sympy.diff(total, v[p]) == td.lift(2 * v[p]) and total.diff((v[p], 2)) == 2
    assert sympy.diff(td.lift(X * Y), X) == td.jacobian(X * Y, X)
    assert td.diff(sympy.sin(trace), X[p, q]) == sympy.cos(trace) * td.lift(Y[q, p])
    assert trace.diff(X) == td.gradient(trace, X) and trace.diff(X).shape == (n, n)
