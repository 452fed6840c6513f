"""Tensors, their entries and tables are checked where they are written: names, shapes, indices, scopes."""

import pickle

import pytest
import sympy
from every import every
from sympy import Idx, IndexedBase, Rational, Sum, Symbol, latex

import sympy_tensordiff as td
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataIndexError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    TensorDiffError,
    UnsupportedError,
)
from sympy_tensordiff.symbolic import (
    IndexedSum,
    TensorComprehension,
    TensorEntry,
    TensorSymbol,
    indices,
)

i, j, k, n, m, p = indices("i j k n m p")
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", n)
z = TensorSymbol("z", 3)
s = TensorSymbol("s", ())


@every(
    "name",
    [
        *("x);import os", "", "1x", "x y", "x-y", "lambda", "None", "x\n", "x.y", "eval()", " x", "x;", "\\", "x\\"),
        *(r"\1", "{x}", "\\theta\n", r"\theta\"", "'", r"\theta#", r"\x y", "x{\0}"),
    ],
)
def test_a_name_is_an_identifier_or_one_of_latex(name):
    with pytest.raises(
        ArgumentError, match=r"is not a name for a tensor: use a Python identifier .* or a name of LaTeX"
    ):
        TensorSymbol(name, 3)


def test_names_of_latex_are_printed_as_they_are_and_never_reach_code():
    theta, idx = IndexedBase(r"\theta", shape=n), TensorSymbol(r"\idx", m, dtype=int)
    x = TensorSymbol("theta", n)
    gradient = td.gradient(Sum(theta[i] ** 2 * x[i], (i, 0, n - 1)), theta)
    assert latex(gradient) == r"\left[2 \theta_{p} \theta_{p}\right]_{p < n}"
    assert str(gradient) == r"TensorComprehension(2*\theta[p]*theta[p], (p, n))"
    lifted = td.lift(theta)
    assert pickle.loads(pickle.dumps(lifted)) == lifted == TensorSymbol(r"\theta", n)
    function = TensorComprehension(lifted[idx[i]] * x[idx[i]], (i, m))
    for backend in ("numpy", "numba", "cuda"):
        assert "run(theta, theta0, idx, result)" in td.generate_code([lifted, x, idx], function, backend)
    kernel = td.lambdify([lifted, x, idx], function)
    assert kernel([1.0, 2.0], [3.0, 4.0], [1, 0, 1]).tolist() == [8, 3, 8]
    with pytest.raises(DataIndexError, match=r"\\idx"):
        kernel([1.0, 2.0], [3.0, 4.0], [1, 0, 2])


@every("name", [3, None, Symbol("x"), b"x", ("x",)])
def test_a_name_is_a_str(name):
    with pytest.raises(ArgumentTypeError, match="the name of a tensor must be a str"):
        TensorSymbol(name, 3)


@every(
    "extent, error, message",
    [
        (0, ShapeError, "tensor T has the extent 0: an extent must be a positive integer"),
        (-2, ShapeError, "extent -2"),
        (2.0, ShapeError, "extent 2.0"),
        (Rational(1, 2), ShapeError, "extent 1/2"),
        (sympy.oo, ShapeError, "extent oo"),
        (True, ShapeError, "extent True"),
        (n - n, ShapeError, "extent 0"),
        ((n, 0), ShapeError, "extent 0"),
        (((3,),), ShapeError, r"extent \(3,\)"),
        (Symbol("N", integer=False), ShapeError, "N is declared not to be an integer"),
        (Symbol("N", integer=True, negative=True), ShapeError, "N, which is not positive by its assumptions"),
        (n / 2, ShapeError, "n/2 is not an integer for all values"),
        (x[i], ShapeError, r"x\[i\] is data of a tensor"),
        (sympy.sin(n), ShapeError, r"sin\(n\)"),
        (sympy.Add(n, -n, -3, evaluate=False), ShapeError, "= -3: an extent must be a positive integer"),
        (2**n, ShapeError, r"2\*\*n is a power"),
        (sympy.Max(n, m), UnsupportedError, "use a symbol of its own for a maximum or minimum"),
        ("n", ArgumentTypeError, "not 'n'"),
        (None, ArgumentTypeError, "not None"),
    ],
)
def test_extents_are_positive_integers_or_sizes(extent, error, message):
    with pytest.raises(error, match=message):
        TensorSymbol("T", extent)
    assert issubclass(error, TensorDiffError)


@every(
    "read, message",
    [
        (lambda: x[i, j], r"x\[i, j\]: x has rank 1 \(shape \(n,\)\), so an entry needs 1 index, not 2"),
        (lambda: A[i, j, k], r"A\[i, j, k\]: A has rank 2 \(shape \(n, m\)\), so an entry needs 2 indices, not 3"),
        (lambda: A[()], r"A\[\(\)\]: A has rank 2"),
        (lambda: s[0], r"s\[0\]: s has rank 0 \(shape \(\)\), so an entry needs 0 indices, not 1"),
        (lambda: TensorComprehension(x[i], (i, n))[i, j], r"rank 1 .* needs 1 index, not 2"),
    ],
)
def test_the_number_of_indices_is_the_rank(read, message):
    with pytest.raises(ShapeError, match=message):
        read()


@every(
    "read, message",
    [
        (lambda: z[3], r"z\[3\]: index 3 of axis 0 lies outside of 0 … 2 \(shape \(3,\)\)"),
        (lambda: z[-1], "negative ones do not wrap around"),
        (lambda: x[-1], r"index -1 of axis 0 lies outside of 0 … n - 1 .*wrap around; write n - 1$"),
        (lambda: z[-4], "negative ones do not wrap around$"),
        (lambda: TensorSymbol("B", (2, 3))[-3], "index -3 of axis 0 lies outside of 0 … 1"),
        (lambda: A[0, -2], "index -2 of axis 1"),
        (lambda: TensorSymbol("B", (2, 3))[2, 0], "index 2 of axis 0 lies outside of 0 … 1"),
        (lambda: z[i].subs(i, 7), "index 7 of axis 0"),
        (lambda: TensorComprehension(z[i], (i, 3))[4], "index 4 of axis 0"),
    ],
)
def test_a_literal_index_lies_inside(read, message):
    with pytest.raises(OutOfShapeError, match=message):
        read()


def test_parts():
    assert x[:] is x is x[...] and A[:, j].shape == (n,)
    assert x[0:2].shape == (2,) and x[None].shape == (1, n) and A[i][j].doit() == A[i, j]
    assert A[i].free_symbols == {A, i, n, m}


def test_an_entry_needs_a_tensor():
    with pytest.raises(ArgumentTypeError, match="must be a tensor expression, not 3"):
        TensorEntry(3, i)


def test_rank_0_is_a_real_scalar():
    assert s[()] is s
    assert TensorEntry(s) is s
    assert s.is_real and s.is_scalar and s.is_commutative and s.rank == 0
    assert sympy.expand((s + 1) ** 2) == s**2 + 2 * s + 1
    assert sympy.solve(s**2 - 4, s) == [-2, 2]
    assert sympy.sin(s).subs(s, 0) == 0
    assert sympy.sqrt(s**2) == sympy.Abs(s)
    assert (s > 0).subs(s, 1) == True  # noqa: E712
    assert sympy.Max(s, 0).subs(s, -1) == 0
    assert -s + s == 0


def test_writing_out_respects_scopes():
    T = TensorComprehension(x[i] * IndexedSum(x[i] + A[j, i], (i, 0, n - 1)), (i, n))
    assert T[2 * p].doit() == x[2 * p] * IndexedSum(x[i] + A[j, i], (i, 0, n - 1))
    U = TensorComprehension(IndexedSum(A[i, k], (k, 0, m - 1)), (i, n))
    assert U[k].doit().dummy_eq(IndexedSum(A[k, j], (j, 0, m - 1)))


def test_idx_as_limit():
    I, J = Idx("i", n), Idx("j", (0, 3))
    B = TensorSymbol("B", (n, 4))
    T = TensorComprehension(B[I, J], I, (J,))
    assert T.shape == (n, 4)
    assert T[p, 2].doit() == B[p, 2]
    assert TensorComprehension(B[I, 0], (I, n)).shape == (n,)
    with pytest.raises(ShapeError, match=r"the range of i starts at 1, but the axes of a tensor start at 0"):
        TensorComprehension(x[Idx("i", (1, n))], Idx("i", (1, n)))


@every(
    "build, error, message",
    [
        (lambda: TensorComprehension(x[i], i), ArgumentError, r"the limit \(i\) must be \(index, extent\)"),
        (lambda: TensorComprehension(x[i], (i, 0, n - 1)), ArgumentError, r"must be \(index, extent\), e.g. \(i, n\)"),
        (lambda: TensorComprehension(x[i], Idx("i")), ArgumentError, r"must be \(index, extent\)"),
        (lambda: TensorComprehension(x[i], (i, 0)), ShapeError, "extent 0"),
        (lambda: TensorComprehension(x[i], (i, 2**n)), ShapeError, "is a power"),
        (lambda: TensorComprehension(x[i], (i, n), (i, n)), ArgumentError, "the index i occurs in two limits"),
        (lambda: TensorComprehension(x[i], (i, n), (j, i)), ShapeError, "the extent i of j depends on the index i"),
        (lambda: TensorComprehension(x[i], (j, i), (i, n)), ShapeError, "the extent i of j depends on the index i"),
        (lambda: TensorComprehension(x[i], (i, i)), ShapeError, "the extent i of i depends on the index i"),
        (
            lambda: TensorComprehension(x[i], (Symbol("t", integer=False), n)),
            IndexExpressionError,
            "t is declared not to be an integer",
        ),
        (lambda: TensorComprehension(x[i], (2, n)), IndexExpressionError, "2 is not an index"),
        (lambda: TensorComprehension(A, (i, n)), UnsupportedError, r"A has rank 2; .* write an entry of it, A\[i, j\]"),
        (lambda: TensorComprehension("x", (i, n)), ArgumentTypeError, "not 'x'"),
        (lambda: TensorComprehension(x[i] > 0, (i, n)), ArgumentTypeError, "must be a scalar expression"),
        (lambda: TensorComprehension(sympy.eye(2), (i, n)), ArgumentTypeError, "must be a scalar expression"),
        (lambda: TensorComprehension(sympy.I * x[i], (i, n)), UnsupportedError, "is complex: .* tensors are real"),
        (lambda: TensorComprehension(x[Idx(i, n)], (i, n)), ArgumentError, "one of the two is a sympy.Idx"),
        (lambda: TensorComprehension(x[i], (Idx(i, n), n)), ArgumentError, "use the same object in both places"),
    ],
)
def test_comprehension_refusals(build, error, message):
    with pytest.raises(error, match=message):
        build()
