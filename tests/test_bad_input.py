"""Bad input: a clear error of our own that names the culprit and the way out; nothing is computed."""

import ast
import importlib
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy
from every import every
from sympy import (
    Derivative,
    DiracDelta,
    Dummy,
    Function,
    I,
    Idx,
    IndexedBase,
    Integral,
    KroneckerDelta,
    Matrix,
    MatrixSymbol,
    Max,
    Mod,
    Piecewise,
    Product,
    Rational,
    Sum,
    Symbol,
    arg,
    exp,
    floor,
    nan,
    oo,
    sin,
    zoo,
)

import sympy_tensordiff as td
from sympy_tensordiff import errors
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    IndexExpressionError,
    OutOfShapeError,
    ShapeError,
    TensorDiffError,
    UnsupportedError,
)
from sympy_tensordiff.testing.differences import SizeError

i, j, k, m, n, p = td.indices("i j k m n p")
x, y, A = td.TensorSymbol("x", 5), td.TensorSymbol("y", n), td.TensorSymbol("A", (3, 4))
df = td.TensorSymbol("df", 5)
a, r, c = Symbol("a"), Symbol("r", real=True), Symbol("c", commutative=False)
f = td.TensorComprehension(x[i] ** 2, (i, 5))
s = td.IndexedSum(x[i] ** 2, (i, 0, 4))
z, h, g = Symbol("z", complex=True), Symbol("h", integer=False), Function("g")
HOSTILE = "x);import os"
TENSORS, SUMS, TABLES = td.TensorSymbol, td.IndexedSum, td.TensorComprehension
PACKAGE = str(Path(td.__file__).parent)


def refuse(call, kind, message):
    """The call raises just this error, from inside the package."""
    with pytest.raises(TensorDiffError, match=message) as caught:
        call()
    assert caught.type is kind
    frame = caught.traceback[-1]
    assert str(frame.path).startswith(PACKAGE), f"raised in {frame.path}"


def table(cases):
    """A table by name; ``(call, kind, message)`` each."""
    return every("call, kind, message", cases)


# ------------------------------------------------------- writing expressions

TENSOR_SYMBOLS = {
    "no name": (lambda: TENSORS("", 3), ArgumentError, "'' is not a name for a tensor: use a Python identifier"),
    "hostile name": (lambda: TENSORS(HOSTILE, 3), ArgumentError, r"'x\);import os' is not a name for a tensor"),
    "name with a line": (lambda: TENSORS("x\n", 3), ArgumentError, r"'x\\n' is not a name"),
    "name with a space": (lambda: TENSORS("a b", 3), ArgumentError, "'a b' is not a name"),
    "keyword": (lambda: TENSORS("lambda", 3), ArgumentError, "'lambda' is not a name.*not a keyword"),
    "number as a name": (lambda: TENSORS(3, 3), ArgumentTypeError, "name of a tensor must be a str, not 3"),
    "no name at all": (lambda: TENSORS(None, 3), ArgumentTypeError, "must be a str, not None"),
    "symbol as a name": (lambda: TENSORS(Symbol("x"), 3), ArgumentTypeError, "must be a str, not x"),
    "extent 0": (lambda: TENSORS("x", 0), ShapeError, "tensor x has the extent 0: .*positive integer"),
    "extent 0 of two": (lambda: TENSORS("x", (3, 0)), ShapeError, "tensor x has the extent 0"),
    "negative extent": (lambda: TENSORS("x", -1), ShapeError, "tensor x has the extent -1"),
    "extent that is 0": (lambda: TENSORS("x", n - n), ShapeError, "tensor x has the extent 0"),
    "float extent": (lambda: TENSORS("x", 2.0), ShapeError, "extent 2.0+: .*positive integer"),
    "fraction": (lambda: TENSORS("x", Rational(1, 2)), ShapeError, "extent 1/2"),
    "infinite extent": (lambda: TENSORS("x", oo), ShapeError, "extent oo"),
    "nan": (lambda: TENSORS("x", nan), ShapeError, "extent nan"),
    "complex extent": (lambda: TENSORS("x", I), ShapeError, "tensor x has the extent I"),
    "True": (lambda: TENSORS("x", True), ShapeError, "extent True"),
    "real symbol": (
        lambda: TENSORS("x", h),
        ShapeError,
        r"extent h: h is declared not to be an integer: use td.indices\('h'",
    ),
    "power of a size": (lambda: TENSORS("x", 2**n), ShapeError, "extent 2[*][*]n: 2[*][*]n is a power"),
    "greatest": (lambda: TENSORS("x", Max(n, 2)), UnsupportedError, "a symbol of its own for a maximum or minimum"),
    "no extent": (lambda: TENSORS("x", None), ArgumentTypeError, "extent must be .* not None"),
    "text": (lambda: TENSORS("x", "3"), ArgumentTypeError, "extent must be .* not '3'"),
    "array of extents": (lambda: TENSORS("x", np.array([3, 4])), ArgumentTypeError, "extent must be .* array"),
    "set": (lambda: TENSORS("x", {3, 4}), ShapeError, "extent {3, 4}"),
    "tensor as an extent": (lambda: TENSORS("y", x), ShapeError, "tensor y has the extent x"),
    "negative size": (
        lambda: TENSORS("x", Symbol("z", integer=True, negative=True)),
        ShapeError,
        "extent z, which is not positive",
    ),
    "never positive": (lambda: TENSORS("x", -Symbol("n", integer=True, positive=True)), ShapeError, "extent -n"),
}

ENTRIES = {
    "too many": (lambda: x[i, j], ShapeError, r"x\[i, j\]: x has rank 1 .* needs 1 index, not 2"),
    "too few": (lambda: A[[1]], ShapeError, r"A\[1\]: A has rank 2 \(shape \(3, 4\)\).* needs 2 indices, not 1"),
    "none": (lambda: A[()], ShapeError, "needs 2 indices, not 0"),
    "list": (lambda: x[[0, 1]], ShapeError, "needs 1 index, not 2"),
    "of a comprehension": (lambda: f[i, j], ShapeError, "needs 1 index, not 2"),
    "product": (lambda: x[i * j], IndexExpressionError, r"x\[i\*j\]: i\*j multiplies indices .*integer combination"),
    "square": (lambda: x[i**2], IndexExpressionError, r"i\*\*2 multiplies indices"),
    "exponential": (lambda: x[2**i], IndexExpressionError, r"2\*\*i is a power"),
    "half": (lambda: x[i / 2], IndexExpressionError, r"i/2 is not an integer .*floor\(i/2\)"),
    "irrational": (lambda: x[i * sympy.pi], IndexExpressionError, "pi .*is not an index"),
    "float": (lambda: x[1.0], IndexExpressionError, "1.0+ is a float"),
    "float factor": (lambda: x[1.5 * i], IndexExpressionError, "1.50+ is a float"),
    "complex": (lambda: x[1j], IndexExpressionError, r"x\[1j\]"),
    "imaginary": (lambda: x[I], IndexExpressionError, "I .*is not an index"),
    "infinity": (lambda: x[oo], IndexExpressionError, "oo .*is not an index"),
    "nan": (lambda: x[nan], IndexExpressionError, "nan .*is not an index"),
    "zoo": (lambda: x[zoo], IndexExpressionError, "zoo .*is not an index"),
    "True": (lambda: x[True], IndexExpressionError, "True is not an index"),
    "condition": (lambda: x[i > 0], IndexExpressionError, "i > 0 is not an index"),
    "real symbol": (lambda: x[h], IndexExpressionError, "h is declared not to be an integer"),
    "symbolic stride": (lambda: x[n * i], IndexExpressionError, r"i\*n multiplies"),
    "gather": (lambda: x[x[i]], IndexExpressionError, r"x\[i\] is data of a tensor, but no entry of one of integers"),
    "whole tensor": (lambda: x[x], IndexExpressionError, "x is data of a tensor"),
    "function": (lambda: x[sin(i)], IndexExpressionError, r"sin\(i\) .*is not an index"),
    "undefined function": (lambda: x[g(i)], IndexExpressionError, r"g\(i\) .*is not an index"),
    "maximum of a value": (lambda: x[Max(x[i], 0)], IndexExpressionError, r"x\[i\] is data of a tensor"),
    "maximum of a real symbol": (lambda: x[Max(h, 0)], IndexExpressionError, "h is declared not to be an integer"),
    "maximum that is not an integer": (
        lambda: x[Max(i / 2, 0)],
        IndexExpressionError,
        r"Max\(0, i/2\) is not an integer",
    ),
    "maximum as an extent": (
        lambda: td.TensorSymbol("z", Max(n, 2)),
        UnsupportedError,
        r"the extent Max\(2, n\): use a symbol of its own for a maximum or minimum",
    ),
    "case": (lambda: x[Piecewise((i, i > 0), (0, True))], IndexExpressionError, "is not an index"),
    "sum": (lambda: x[td.IndexedSum(k, (k, 0, 1))], IndexExpressionError, "is not an index"),
    "half a modulus": (lambda: x[Mod(i, -n / 2)], IndexExpressionError, "not an integer for all values .*round it"),
    "symbolic power": (lambda: x[floor(i / 2**n)], IndexExpressionError, r"2\*\*\(?-?n\)? is a power"),
    "slice": (lambda: x[3:3], ShapeError, "the slice 3:3 has no entries; no axis is empty"),
    "step": (lambda: x[::0], IndexExpressionError, "the step of a slice is 0; it must be another integer"),
    "ellipses": (lambda: x[..., ...], IndexExpressionError, "two ellipses leave open which axes they mean"),
    "slices": (lambda: x[:, :], ShapeError, "there are more indices than axes"),
    "text": (lambda: x["i"], ArgumentTypeError, "index must be .* not 'i'"),
    "array": (lambda: x[np.array([0, 1])], ArgumentTypeError, "index must be .*array"),
    "negative": (lambda: x[-1], OutOfShapeError, r"x\[-1\]: index -1 of axis 0 lies outside of 0 … 4 .*wrap"),
    "past the end": (lambda: A[0, 4], OutOfShapeError, r"A\[0, 4\]: index 4 of axis 1 lies outside of 0 … 3"),
    "in a sum": (lambda: SUMS(x[i], (i, 0, 5)), OutOfShapeError, r"x\[i\] leaves the shape \(5,\): at i = 5"),
    "in a table": (lambda: TABLES(x[i + 1], (i, 5)), OutOfShapeError, r"x\[i \+ 1\] leaves the shape .* i = 4"),
    "before the start": (lambda: TABLES(x[i - 1], (i, 5)), OutOfShapeError, "at i = 0 its index i - 1"),
    "of a table": (lambda: TABLES(f[i + j], (i, 4), (j, 3)), OutOfShapeError, "leaves the shape"),
}

BINDERS = {
    "no range": (lambda: SUMS(x[i]), ArgumentError, r"IndexedSum\(x\[i\]\) has no range; write IndexedSum\(body, \(k"),
    "bare index": (lambda: SUMS(x[i], i), ArgumentError, r"limit \(i\) has no complete range"),
    "two parts": (lambda: SUMS(x[i], (i, 5)), ArgumentError, r"limit \(i, 5\) has no complete range"),
    "four parts": (lambda: SUMS(x[i], (i, 0, 4, 1)), ArgumentError, "has no complete range"),
    "half a range": (lambda: SUMS(x[i], (i, None, 4)), ArgumentError, "has no complete range"),
    "no limit": (lambda: SUMS(x[i], None), ArgumentError, "has no complete range"),
    "infinite": (lambda: SUMS(x[i], (i, 0, oo)), ArgumentError, "upper bound of i is oo; .*finite range"),
    "infinite below": (lambda: SUMS(x[i], (i, -oo, 4)), ArgumentError, "lower bound of i is -oo"),
    "float bound": (lambda: SUMS(x[i], (i, 0.0, 4)), IndexExpressionError, "lower bound of i: 0.* is a float"),
    "half bound": (lambda: SUMS(x[i], (i, 0, Rational(7, 2))), IndexExpressionError, "upper bound of i: 7/2"),
    "complex bound": (lambda: SUMS(x[i], (i, 0, 3j)), IndexExpressionError, "upper bound of i"),
    "boolean bound": (lambda: SUMS(x[i], (i, False, 4)), ArgumentError, "lower bound of i is False"),
    "bound of data": (lambda: SUMS(x[0], (i, 0, x[0])), IndexExpressionError, r"upper bound of i: x\[0\] is data"),
    "power as a bound": (lambda: SUMS(x[0], (i, 0, 2**n)), IndexExpressionError, r"upper bound of i: 2\*\*n"),
    "real bound": (lambda: SUMS(x[0], (i, 0, h)), IndexExpressionError, "h is declared not to be an integer"),
    "text as an index": (lambda: SUMS(x[i], ("i", 0, 4)), ArgumentTypeError, "index of a limit must be .* not 'i'"),
    "number as an index": (lambda: SUMS(x[i], (3, 0, 4)), IndexExpressionError, "3 is not an index"),
    "entry as an index": (lambda: SUMS(x[i], (x[i], 0, 4)), IndexExpressionError, r"x\[i\] is not an index"),
    "real index": (lambda: SUMS(h, (h, 0, 4)), IndexExpressionError, "index h is declared not to be"),
    "range of itself": (lambda: SUMS(x[i], (i, 0, i)), IndexExpressionError, "range of i depends on itself"),
    "range of an inner index": (
        lambda: SUMS(x[i] * x[j], (i, 0, 4), (j, 0, i)),
        IndexExpressionError,
        "range of j depends on i, which is bound further inside",
    ),
    "one index twice": (lambda: SUMS(x[i], (i, 0, 4), (i, 0, 4)), ArgumentError, "index i occurs in two limits"),
    "another index of that name": (lambda: SUMS(x[i], (Idx("i", 5), 0, 4)), ArgumentError, "is not the index i"),
    "text as a body": (lambda: SUMS("x[i]", (i, 0, 4)), ArgumentTypeError, r"body of IndexedSum .* not 'x\[i\]'"),
    "no body": (lambda: SUMS(None, (i, 0, 4)), ArgumentTypeError, "body of IndexedSum .* not None"),
    "list as a body": (lambda: SUMS([x[i]], (i, 0, 4)), ArgumentTypeError, "body of IndexedSum"),
    "condition as a body": (lambda: SUMS(x[i] > 0, (i, 0, 4)), ArgumentTypeError, r"not x\[i\] > 0"),
    "matrix as a body": (lambda: SUMS(Matrix([1]), (i, 0, 4)), ArgumentTypeError, "must be a scalar expression"),
    "tensor as a body": (
        lambda: SUMS(x, (i, 0, 4)),
        UnsupportedError,
        "a scalar is needed, and x has rank 1; write it entry",
    ),
    "complex body": (lambda: SUMS(I * x[i], (i, 0, 4)), UnsupportedError, r"is complex: I\*x\[i\]; tensors are real"),
    "no extent": (lambda: TABLES(x[i], i), ArgumentError, r"limit \(i\) must be \(index, extent\)"),
    "a range as an extent": (lambda: TABLES(x[i], (i, 0, 4)), ArgumentError, r"must be \(index, extent\)"),
    "extent 0": (lambda: TABLES(x[i], (i, 0)), ShapeError, "TensorComprehension has the extent 0"),
    "negative extent": (lambda: TABLES(x[i], (i, -1)), ShapeError, "extent -1"),
    "float extent": (lambda: TABLES(x[i], (i, 5.0)), ShapeError, "extent 5.0+"),
    "infinite extent": (lambda: TABLES(x[i], (i, oo)), ShapeError, "extent oo"),
    "extent of an index": (lambda: TABLES(x[i], (i, 5), (j, i)), ShapeError, "extent i of j depends on the index i"),
    "one axis twice": (lambda: TABLES(x[i], (i, 5), (i, 5)), ArgumentError, "index i occurs in two limits"),
    "axis that starts at 1": (
        lambda: TABLES(x[Idx("i", (1, 4))], Idx("i", (1, 4))),
        ShapeError,
        "starts at 1, but the axes of a tensor start at 0",
    ),
    "tensor as the body of a table": (lambda: TABLES(x, (i, 5)), UnsupportedError, "body of TensorComprehension"),
}

WHOLE = {
    "another shape": (
        lambda: x + y,
        ShapeError,
        r"axis 0 of operand 0 \(x\) has extent 5, that of operand 1 \(y\) has ext",
    ),
    "another rank": (
        lambda: A * x,
        ShapeError,
        r"axis 1 of operand 0 \(A\) has extent 4, axis 0 of operand 1 \(x\) has extent 5",
    ),
    "function": (lambda: exp(x), UnsupportedError, "exp of a whole tensor: .* td.elementwise"),
    "maximum": (lambda: Max(x, 0), UnsupportedError, "Max or Min of a whole tensor"),
    "comparison": (lambda: x < 1, UnsupportedError, "operator <"),
    "matrix product": (lambda: A @ x, ShapeError, "the label j is axis 1 of operand 0 with extent 4, and axis 0 of"),
    "times an array": (lambda: np.ones(5) * x, ArgumentTypeError, "name an array as a td.TensorSymbol"),
    "a table": (lambda: exp(f * 2), UnsupportedError, "the tensor T = .* has rank 1"),
}


@table(TENSOR_SYMBOLS)
def test_tensor_symbols(call, kind, message):
    refuse(call, kind, message)


@table(ENTRIES)
def test_entries(call, kind, message):
    refuse(call, kind, message)


@table(BINDERS)
def test_sums_and_comprehensions(call, kind, message):
    refuse(call, kind, message)


@table(WHOLE)
def test_whole_tensors(call, kind, message):
    refuse(call, kind, message)


def test_python_itself_refuses_other_types_than_containers():
    for call in (lambda: list(x), lambda: len(x), lambda: float(x[0]), lambda: bool(x[0] > 0), lambda: np.exp(x)):
        with pytest.raises(TypeError):
            call()


# ------------------------------------------------------- differentiating

COTANGENTS = {
    "longer": (lambda: td.vjp(f, x, TENSORS("df", 6)), ShapeError, r"cotangent has shape \(6,\), but \(5,\) is needed"),
    "of another rank": (lambda: td.vjp(f, x, TENSORS("df", (5, 1))), ShapeError, r"shape \(5, 1\), but \(5,\)"),
    "scalar": (lambda: td.vjp(f, x, 1), ShapeError, r"shape \(\), but \(5,\)"),
    "of symbolic shape": (lambda: td.vjp(f, x, y), ShapeError, r"shape \(n,\), but \(5,\)"),
    "of a scalar": (lambda: td.vjp(s, x, df), ShapeError, r"shape \(5,\), but \(\) is needed"),
    "matrix": (lambda: td.vjp(f, x, Matrix([1] * 5)), ShapeError, r"shape \(5, 1\), but \(5,\)"),
    "complex": (lambda: td.vjp(s, x, I), UnsupportedError, "I"),
    "infinite": (lambda: td.vjp(s, x, oo), UnsupportedError, "oo is not a finite real number"),
    "nan": (lambda: td.vjp(s, x, nan), UnsupportedError, "nan is not a finite real number"),
    "a condition": (lambda: td.vjp(s, x, True), UnsupportedError, "True"),
    "of a name with another shape": (
        lambda: td.vjp(TABLES(x[i], (i, 3)), x, TENSORS("x", 3)),
        ShapeError,
        "two different tensors are called x",
    ),
    "vector of another shape": (
        lambda: td.hvp(s, x, TENSORS("v", 4)),
        ShapeError,
        r"vector has shape \(4,\), but \(5,",
    ),
    "vector that is a scalar": (lambda: td.hvp(s, x, 1), ShapeError, r"vector has shape \(\), but \(5,\)"),
}

VARIABLES = {
    **{
        f"{name}": (
            lambda v=v: td.gradient(s, v),
            ArgumentTypeError,
            f"cannot differentiate with respect to {shown}: give a Tensor",
        )
        for name, v, shown in [
            ("nothing", None, "None"),
            ("a number", 3, "3"),
            ("an index", i, "i"),
            ("a size", n, "n"),
            ("an entry", x[0], r"x\[0\]"),
            ("an entry of any index", x[i], r"x\[i\]"),
            ("a sum", s, "IndexedSum.*"),
            ("an expression", r + 1, r"r \+ 1"),
            ("a set", {x}, "{x}"),
            ("a nested tuple", ((x,),), r"\(x,\)"),
        ]
    },
    "undefined function": (
        lambda: td.gradient(s, g(r)),
        ArgumentTypeError,
        r"cannot differentiate with respect to g\(r\): it is the value of a function; .* or put a symbol in its place",
    ),
    "a comprehension": (lambda: td.gradient(s, f), UnsupportedError, "it is an expression; name it as a TensorSymbol"),
    "IndexedBase": (
        lambda: td.gradient(s, IndexedBase("q")),
        ShapeError,
        "q as a whole has no known rank: give it a sh",
    ),
    "a tensor of another shape": (lambda: td.gradient(s, TENSORS("x", 6)), ShapeError, "two different .* called x"),
    "hessian by an entry": (lambda: td.hessian(s, x[0]), ArgumentTypeError, r"with respect to x\[0\]"),
    "jacobian by an entry": (lambda: td.jacobian(f, x[0]), ArgumentTypeError, r"with respect to x\[0\]"),
    "plain diff of cases by a tensor": (
        lambda: sympy.diff(Piecewise((s, r > 0), (0, True)), x),
        UnsupportedError,
        r"a case of Piecewise: .* td.gradient\(expression, X\)",
    ),
    "plain diff next to an IndexedBase": (
        lambda: sympy.diff(s * IndexedBase("x")[0], x),
        UnsupportedError,
        r"x\[0\] in .* is an entry of SymPy's own IndexedBase, which SymPy takes for a constant .* td.gradient lift",
    ),
    "plain diff by a tensor and what is absent": (
        lambda: sympy.diff(1 + s, x, r),
        UnsupportedError,
        r"does not depend on r, so SymPy makes the derivative with respect to \[x, r\] the scalar 0, but it has axes",
    ),
    "plain diff by an index": (
        lambda: sympy.diff(f[i], i),
        UnsupportedError,
        "no derivative with respect to i, which is an integer",
    ),
    "plain diff by a size": (
        lambda: sympy.diff(SUMS(y[i], (i, 0, n - 1)), n),
        UnsupportedError,
        "derivative with respect to n",
    ),
}

FUNCTIONS = {
    "gradient of a tensor": (lambda: td.gradient(f, x), ShapeError, r"not a tensor of shape \(5,\): use td.jacobian"),
    "gradient of a variable": (lambda: td.gradient(x, x), ShapeError, "use td.jacobian or td.vjp"),
    "gradient of two": (lambda: td.gradient((s, s), x), UnsupportedError, "Tuple is not supported"),
    "gradient of nothing": (lambda: td.gradient(None, x), ArgumentTypeError, "the expression must be .* not None"),
    "hessian of a tensor": (lambda: td.hessian(f, x), ShapeError, r"not a tensor of shape \(5,\)"),
    "hvp of a tensor": (lambda: td.hvp(f, x, x), ShapeError, r"not a tensor of shape \(5,\)"),
    **{
        name: (lambda e=e: td.gradient(e, x), kind, message)
        for name, e, kind, message in [
            ("infinite Sum", s * Sum(x[i], (i, 0, oo)), ArgumentError, "the upper bound of i is oo"),
            ("infinite Product", s * Product(x[i], (i, 0, oo)), ArgumentError, "the upper bound of i is oo"),
            ("Indexed of two ranks", IndexedBase("z")[i] * IndexedBase("z")[i, j], ShapeError, "two different tensors"),
            ("integral", Integral(r * x[0], (r, 0, 1)), UnsupportedError, "Integral is not supported"),
            ("derivative", Derivative(sin(r), r) * x[0], UnsupportedError, r"evaluate it first, with .doit\(\)"),
            ("condition", x[0] > 1, UnsupportedError, r"x\[0\] > 1"),
            ("complex", I * x[0], UnsupportedError, "the constant I is not a finite real number"),
            ("infinite", oo * s, UnsupportedError, "oo is not a finite real number"),
            (
                "least of all",
                x[0] - oo,
                UnsupportedError,
                "oo is not a finite real number; tensors are real: td.where and Piecewise take it",
            ),
            ("no number", nan * x[0], UnsupportedError, "nan is not a finite real number"),
            ("does not commute", c * x[0], UnsupportedError, "symbol c is not real"),
            ("angle", arg(x[0]), UnsupportedError, "arg is not supported .*; write Piecewise"),
            (
                "delta function",
                DiracDelta(x[0]),
                UnsupportedError,
                "DiracDelta is not supported .*it is not a function",
            ),
            ("unit", sympy.UnevaluatedExpr(x[0]), UnsupportedError, "UnevaluatedExpr is not supported"),
            ("order term", x[0] + sympy.O(r), UnsupportedError, "Order is not supported"),
            ("delta of reals", KroneckerDelta(z, 1) * x[0], IndexExpressionError, "z is declared not to be an integer"),
            ("boolean symbol", Piecewise((x[0], Symbol("b")), (0, True)), UnsupportedError, "condition b of a Piec"),
            (
                "two shapes",
                td.IndexedSum(x[0] * TENSORS("x", 6)[0], (i, 0, 1)),
                ShapeError,
                r"called x: one of shape \(5,\), one of shape \(6,\)",
            ),
            ("delta with a range", KroneckerDelta(i, j, (0, h)) * x[0], IndexExpressionError, "h is declared"),
        ]
    },
    "simplify a Sum": (lambda: td.simplify_deltas(Sum(i, (i, 0, oo))), ArgumentError, "the upper bound of i is oo"),
    "simplify nothing": (lambda: td.simplify_deltas(None), ArgumentTypeError, "the expression must be .* not None"),
    "check an undefined function": (lambda: td.check_derivative(g(x[0]), x), UnsupportedError, "can evaluate g"),
    "check where there is no value": (
        lambda: td.check_derivative(sympy.log(-1 - x[0] ** 2), x),
        ArgumentError,
        "no inputs found at which .* has a finite value",
    ),
}


TEXTS_REFUSED = {
    "a function": lambda text: td.gradient(text, x),
    "a tensor": lambda text: td.jacobian(text, x),
    "a pullback": lambda text: td.vjp(text, x, df),
    "a cotangent": lambda text: td.vjp(s, x, text),
    "a variable": lambda text: td.vjp(f, text, df),
    "one of two variables": lambda text: td.gradient(s, (x, text)),
    "a vector": lambda text: td.hvp(s, x, text),
    "a scalar": lambda text: td.hessian(text, x),
    "a sum of deltas": lambda text: td.simplify_deltas(text),
    "an argument": lambda text: td.lambdify([text], s),
    "a kernel": lambda text: td.lambdify([x], text),
    "one of two kernels": lambda text: td.lambdify([x], (s, text)),
    "source": lambda text: td.generate_code([x], text),
    "a check": lambda text: td.check_derivative(text, x),
    "the variable of a check": lambda text: td.check_derivative(f, text),
    "an index": lambda text: x[text],
    "an extent": lambda text: TENSORS("y", text),
    "a body": lambda text: SUMS(text, (i, 0, 4)),
    "a bound": lambda text: SUMS(x[0], (i, 0, text)),
}


@pytest.mark.parametrize("call", list(TEXTS_REFUSED.values()), ids=list(TEXTS_REFUSED))
@pytest.mark.parametrize("text", ["x", "r**2", "__import__('sys').modules['evaluated'].append(1)"])
def test_text_is_refused_and_not_evaluated(call, text, monkeypatch):
    evaluated = []
    monkeypatch.setitem(sys.modules, "evaluated", evaluated)
    with pytest.raises(ArgumentTypeError) as caught:
        call(text)
    assert repr(text) in str(caught.value)
    assert not evaluated


@table(COTANGENTS)
def test_cotangents(call, kind, message):
    refuse(call, kind, message)


@table(VARIABLES)
def test_variables(call, kind, message):
    refuse(call, kind, message)


@table(FUNCTIONS)
def test_functions(call, kind, message):
    refuse(call, kind, message)


# ------------------------------------------------------- building kernels

KERNELS = {
    "missing tensor": (lambda: td.lambdify([A], f), ArgumentError, "x occurs in the expression, but not in args"),
    "missing scalar": (lambda: td.lambdify([x], TABLES(x[i] * r, (i, 5))), ArgumentError, "r occurs .* not in args"),
    "argument twice": (lambda: td.lambdify([x, x], f), ArgumentError, "two arguments are called x"),
    "name twice": (lambda: td.lambdify([x, Symbol("x", real=True)], f), ArgumentError, "two arguments are called x"),
    "dummies of one name": (lambda: td.lambdify([Dummy("d"), Dummy("d")], r), ArgumentError, "two .* called d"),
    "another shape": (lambda: td.lambdify([TENSORS("x", 6)], f), ShapeError, "two different tensors are called x"),
    "text as args": (lambda: td.lambdify("x", f), ArgumentTypeError, "'x' cannot be an argument of a kernel"),
    "no args": (lambda: td.lambdify(None, f), ArgumentTypeError, "None cannot be an argument"),
    "an entry": (lambda: td.lambdify([x[i]], f), ArgumentTypeError, r"x\[i\] cannot be an argument"),
    "a table": (lambda: td.lambdify([f], f), ArgumentTypeError, "cannot be an argument"),
    "an expression": (lambda: td.lambdify([r + 1], r), ArgumentTypeError, r"r \+ 1 cannot be an argument"),
    "a number": (lambda: td.lambdify([3], f), ArgumentTypeError, "3 cannot be an argument"),
    "a nested list": (lambda: td.lambdify([[x]], f), ArgumentTypeError, r"\[x\] cannot be an argument"),
    "IndexedBase": (lambda: td.lambdify([IndexedBase("q")], f), ShapeError, "q as a whole has no known rank"),
    "no expression": (lambda: td.lambdify([x], ()), ArgumentError, "there is no expression"),
    "nothing": (lambda: td.lambdify([x], None), ArgumentTypeError, "the expression must be .* not None"),
    "free index": (lambda: td.lambdify([x], x[i]), ArgumentError, "i is .*add it to args"),
    "size of the result": (lambda: td.lambdify([x], TABLES(x[0] * i, (i, n))), ArgumentError, "n is .*add it to args"),
    "size of a sum": (lambda: td.lambdify([x], SUMS(i * x[0], (i, 0, n))), ArgumentError, "n is .*add it to args"),
    "two sizes on one axis": (
        lambda: td.lambdify([TENSORS("w", n + m)], TABLES(TENSORS("w", n + m)[i], (i, n))),
        ArgumentError,
        "[mn] is .*add it to args",
    ),
    "dictionary": (lambda: td.lambdify([x], (f, {"f": f})), UnsupportedError, "Dict is not supported"),
    "matrix": (lambda: td.lambdify([x], MatrixSymbol("M", 3, 3).I), ArgumentError, "M occurs in the expression"),
    "condition": (lambda: td.lambdify([r], r > 1), UnsupportedError, "r > 1"),
    "undefined function": (
        lambda: td.lambdify([r], g(r)),
        UnsupportedError,
        r"no backend can evaluate g: supply what is missing, functions=\{'g': ...\}",
    ),
    "no backend knows it": (
        lambda: td.lambdify([r], sympy.polylog(r, r)),
        UnsupportedError,
        "no backend can evaluate polylog",
    ),
    "unknown backend": (
        lambda: td.lambdify([x], f, "julia"),
        ArgumentError,
        "'julia'; the backends are 'numpy', 'numba', ",
    ),
    "capital letters in a backend": (
        lambda: td.lambdify([x], f, "Jax"),
        ArgumentError,
        r"unknown backend 'Jax' \(did you mean 'jax'\?\); the backends are .*'torch', .*, and 'c' and 'cuda_c'",
    ),
    "another name of a backend": (lambda: td.lambdify([x], f, "pytorch"), ArgumentError, "did you mean 'torch'"),
    "a backend of torch_function": (
        lambda: td.torch_function([x], f, backend="jax"),
        ArgumentError,
        "torch_function works with the backends 'torch', 'llvm', 'numba', 'numpy' and 'cuda', not with 'jax'",
    ),
    "no backend": (lambda: td.lambdify([x], f, None), ArgumentError, "unknown backend None"),
    "unknown backend of text": (lambda: td.generate_code([x], f, "julia"), ArgumentError, "unknown backend 'julia'"),
}


@table(KERNELS)
def test_kernels(call, kind, message):
    refuse(call, kind, message)


def test_a_backend_that_is_not_installed(monkeypatch):
    kernel = td.lambdify([x], f, "cuda")
    original = importlib.import_module

    def without_cuda(name, package=None):
        if name == "numba.cuda":
            raise ImportError("No module named 'numba.cuda'")
        return original(name, package)

    monkeypatch.setattr(importlib, "import_module", without_cuda)
    with pytest.raises(BackendError, match=r"'cuda' found no CUDA device .*No module named 'numba.cuda'"):
        kernel(np.ones(5))
    assert "cuda.grid" in kernel.source  # the text needs no device


# ------------------------------------------------------- calling kernels

numbers = np.arange(5.0)
readonly = np.full(5, 7.0)
readonly.flags.writeable = False
u, v, odd = TENSORS("u", n), TENSORS("v", n), TENSORS("odd", 2 * n + 1)
square = td.lambdify([x], f, "numpy")
both = td.lambdify([x], (f, TABLES(x[4 - i], (i, 5))), "numpy")
total = td.lambdify([x], s, "numpy")
matrix = td.lambdify([A], TABLES(A[i, j] ** 2, (i, 3), (j, 4)), "numpy")
pairs = td.lambdify([u, v], TABLES(u[i] * v[i], (i, n)), "numpy")
scaled = td.lambdify([x, r, n], TABLES(x[i] * r * n, (i, 5)), "numpy")
entry = td.lambdify([x, p], x[p], "numpy")
shifted = td.lambdify([u], TABLES(u[i + 2], (i, 3)), "numpy")
long = td.lambdify([x, n], TABLES(x[0] * i, (i, n)), "numpy")

CALLS = {
    "too few": (lambda: square(), ArgumentError, r"1 argument is needed \(x\), 0 given"),
    "too many": (lambda: square(numbers, numbers), ArgumentError, "1 argument is needed"),
    "rank": (lambda: square(np.ones((5, 1))), ArgumentError, r"argument x has 2 axes \(shape \(5, 1\)\), expected 1"),
    "number": (lambda: square(3.0), ArgumentError, "argument x has 0 axes"),
    "length": (lambda: square(np.ones(4)), ArgumentError, "argument x has length 4 on axis 0, expected 5"),
    "turned": (lambda: matrix(np.ones((4, 3))), ArgumentError, "argument A has length 4 on axis 0, expected 3"),
    "length 0": (lambda: square(np.ones(0)), ArgumentError, "argument x has length 0 on axis 0, expected 5"),
    "length 0 of one": (
        lambda: pairs(np.ones(0), np.ones(2)),
        ArgumentError,
        "argument v has length 2 on axis 0, expec",
    ),
    "two sizes": (
        lambda: pairs(np.ones(3), np.ones(4)),
        ArgumentError,
        "argument v has length 4.* n = 3 from axis 0 of u",
    ),
    "no such size": (
        lambda: td.lambdify([odd], TABLES(odd[2 * i], (i, n)), "numpy")(np.ones(4)),
        ArgumentError,
        r"argument odd has length 4 on axis 0, which is not 2\*n \+ 1",
    ),
    "size and array": (
        lambda: td.lambdify([u, n], TABLES(u[i], (i, n)), "numpy")(np.ones(3), 4),
        ArgumentError,
        "argument u has length 3 on axis 0, expected 4",
    ),
    "complex": (lambda: square(numbers * 1j), ArgumentTypeError, "argument x has dtype complex128; real numbers"),
    "objects": (lambda: square(numbers.astype(object)), ArgumentTypeError, "argument x has dtype object"),
    "fractions": (lambda: square([Fraction(1, 2)] * 5), ArgumentTypeError, "argument x has dtype object"),
    "text": (lambda: square("abcde"), ArgumentTypeError, "argument x has dtype <U5"),
    "dates": (lambda: square(np.zeros(5, "M8[s]")), ArgumentTypeError, "argument x has dtype datetime64"),
    "records": (lambda: square(np.zeros(5, [("a", "f8")])), ArgumentTypeError, "argument x has dtype"),
    "half precision": (lambda: square(np.ones(5, np.float16)), ArgumentTypeError, "float16, .*pass it as float32"),
    "masked": (lambda: square(np.ma.array(numbers)), ArgumentTypeError, "argument x is a masked array; fill"),
    "None": (lambda: square(None), ArgumentTypeError, "argument x has dtype object"),
    "dictionary": (lambda: square({}), ArgumentTypeError, "argument x"),
    "ragged": (lambda: square([[1, 2], [3]]), ArgumentTypeError, "argument x is not an array"),
    "matrix of SymPy": (lambda: square(Matrix([1] * 5)), ArgumentTypeError, "argument x has dtype object"),
    "a tensor symbol": (lambda: square(x), ArgumentTypeError, "argument x has dtype object"),
    "array for a scalar": (lambda: scaled(numbers, np.ones(1), 3), ArgumentError, r"argument r has shape \(1,\)"),
    "text for a scalar": (lambda: scaled(numbers, "a", 3), ArgumentTypeError, "argument r has dtype"),
    "complex for a scalar": (lambda: scaled(numbers, 1j, 3), ArgumentTypeError, "argument r has dtype complex"),
    "huge for a scalar": (lambda: scaled(numbers, 10**400, 3), ArgumentError, "argument r is 10+, which no float64"),
    "float for an integer": (lambda: scaled(numbers, 1.0, 3.0), ArgumentTypeError, r"argument n is 3.0 \(float\)"),
    "boolean for an integer": (lambda: scaled(numbers, 1.0, True), ArgumentTypeError, "argument n is True"),
    "None for an integer": (lambda: scaled(numbers, 1.0, None), ArgumentTypeError, "argument n is None"),
    "huge for an integer": (lambda: scaled(numbers, 1.0, 2**70), ArgumentError, "argument n is 11805.*too large"),
    "index past the end": (lambda: entry(numbers, 5), OutOfShapeError, r"x\[p\] is read outside .*p = 5 from argument"),
    "negative index": (lambda: entry(numbers, -1), OutOfShapeError, r"x\[p\] is read outside .*p = -1"),
    "array too short": (
        lambda: shifted(np.ones(4)),
        OutOfShapeError,
        r"u\[i \+ 2\] is read outside .*n = 4 from axis 0",
    ),
    "result of negative length": (lambda: long(numbers, -2), ArgumentError, "-2 on axis 0, .*a length is not negative"),
}

OUTS = {
    "shape": (square, np.full(6, 7.0), ArgumentError, r"out for result has shape \(6,\), expected \(5,\)"),
    "dtype": (square, np.full(5, 7, np.float32), ArgumentTypeError, "dtype float32, expected float64"),
    "integers": (square, np.full(5, 7), ArgumentTypeError, "dtype int64, expected float64"),
    "list": (square, [7.0] * 5, ArgumentTypeError, "out for result is list, a NumPy array is needed"),
    "text": (square, "7", ArgumentTypeError, "out for result is str"),
    "tuple for one": (square, (np.full(5, 7.0),), ArgumentTypeError, "out for result is tuple"),
    "read-only": (square, readonly, ArgumentError, "out for result is read-only"),
    "one for two": (both, np.full((2, 5), 7.0), ArgumentTypeError, "out is ndarray, a tuple of 2 arrays is needed"),
    "too few": (both, (np.full(5, 7.0),), ArgumentError, "out has 1 arrays, 2 are needed"),
    "None for one of two": (both, (np.full(5, 7.0), None), ArgumentTypeError, "out for result1 is NoneType"),
    "number for a scalar": (total, 7.0, ArgumentTypeError, "out for result is float"),
    "rank 1 for a scalar": (total, np.full(1, 7.0), ArgumentError, r"shape \(1,\), expected \(\)"),
}


@table(CALLS)
def test_calls(call, kind, message):
    refuse(call, kind, message)


@every("kernel, out, kind, message", list(OUTS.values()), ids=list(OUTS))
def test_outputs(kernel, out, kind, message):
    refuse(lambda: kernel(numbers, out=out), kind, message)
    for array in out if isinstance(out, tuple) else (out,):
        assert not isinstance(array, np.ndarray) or (array == 7).all(), "something was computed"


def test_overlapping_outputs():
    memory = np.full(12, 7.0)
    for given, out in ((memory[:5], memory[:5]), (memory[:5], memory[4:9]), (memory[1:6], memory[:10:2])):
        refuse(
            lambda given=given, out=out: square(given, out=out), ArgumentError, "result shares memory with argument x"
        )
    out = memory[5:10]
    refuse(lambda: both(numbers, out=(out, out)), ArgumentError, "out for result1 shares memory with out for result0")
    assert (memory == 7).all(), "something was computed"
    square(memory[1:6], out=memory[6:11])
    assert (memory[6:11] == 49).all()


def test_a_refused_call_leaves_the_outputs_alone():
    out = np.full(5, 7.0)
    with pytest.raises(ArgumentError):
        square(np.ones(4), out=out)
    with pytest.raises(OutOfShapeError):
        short = np.full(3, 7.0)
        shifted(np.ones(4), out=short)
    assert (out == 7).all() and (short == 7).all()


# ------------------------------------------------------- names

TEXTS = ["a b", HOSTILE, '"""\nimport os\n"""', "\\", "1", "", "x\n\nimport os\n", "α", "np", "lambda"]
NAMES = ["range", "math", "np", "numba", "cuda", "result", "run", "s", "v", "t", "i", "out", "__import__", "real", "é"]
NAMES += [r"\theta", r"\hat{x}_{1,2}", "x'", "A_{1}", r"\lambda", "x^2"]


@every("name", NAMES, turns=8)
def test_any_identifier_and_name_of_latex_names_a_tensor(name):
    tensor = TENSORS(name, 5)
    function = TABLES(tensor[i] * td.IndexedSum(tensor[k], (k, 0, 4)), (i, 5))
    check_source([tensor], function)
    np.testing.assert_allclose(td.lambdify([tensor], function, "numpy")(numbers), 10 * numbers)


def check_source(arguments, function):
    """The generated modules import what they need and nothing that a name has brought in."""
    for backend in ("numpy", "numba", "cuda"):
        tree = ast.parse(td.generate_code(arguments, function, backend))
        imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported <= {"functools", "math", "numpy", "numba", "numba.extending"}, imported


@every(
    "name",
    [*TEXTS, "x", "result", "i"],
)
def test_any_text_names_an_index(name):
    symbol = Symbol(name, integer=True)
    function = TABLES(x[symbol] * td.IndexedSum(x[k], (k, 0, 4)), (symbol, 5))
    check_source([x], function)
    np.testing.assert_allclose(td.lambdify([x], function, "numpy")(numbers), 10 * numbers)


# ------------------------------------------------------- what once came through from SymPy, NumPy or Python

CLOSED = {
    "list to simplify": (lambda: td.simplify_deltas([f]), ArgumentTypeError, "must be a SymPy expression"),
    "list as a backend": (lambda: td.lambdify([x], f, ["numpy"]), ArgumentError, "unknown backend"),
    "check a negative size": (
        lambda: td.check_derivative(TABLES(y[i], (i, n)), y, sizes={n: -3}),
        SizeError,
        "the extent n of .* is -3 for sizes={n: -3}; extents are positive",
    ),
    "plain diff by an entry of a table": (
        lambda: sympy.diff(s, f[i]),
        UnsupportedError,
        "with respect to .* entry of an expression",
    ),
    "hvp by a tuple": (lambda: td.hvp(s, (x,), x), ArgumentTypeError, "wrt and vector must both be tuples"),
    "check a size that leaves an axis empty": (
        lambda: td.check_derivative(TABLES(y[0] * i, (i, n - 3)), y, sizes={n: 3}),
        SizeError,
        "the extent n - 3 of .* is 0",
    ),
    "check a size of a name": (
        lambda: td.check_derivative(f, x, sizes={"n": 3}),
        ArgumentTypeError,
        "sizes has the key 'n', which is not an integer symbol",
    ),
    "check a size that is not an int": (
        lambda: td.check_derivative(s, x, sizes={n: 3.0}),
        ArgumentTypeError,
        "the size n must be an int, not 3.0",
    ),
    "check with a list of sizes": (
        lambda: td.check_derivative(s, x, sizes=[3]),
        ArgumentTypeError,
        r"sizes must be a mapping from integer symbols to ints, not \[3\]",
    ),
    "check with a negative seed": (
        lambda: td.check_derivative(f, x, seed=-1),
        ArgumentTypeError,
        "seed must be an int from 0 on and rtol a positive number, not -1 and 1e-06",
    ),
    "check with a tolerance of text": (
        lambda: td.check_derivative(f, x, rtol="a"),
        ArgumentTypeError,
        "rtol a positive number, not 0 and 'a'",
    ),
    "check by an index": (
        lambda: td.check_derivative(f, i),
        ArgumentTypeError,
        "cannot differentiate with respect to i: give",
    ),
    "check by nothing": (lambda: td.check_derivative(f, ()), ArgumentError, "there is no variable"),
    "complex symbol": (lambda: td.gradient(z * x[0], x), UnsupportedError, "the symbol z is not real; .*real=True"),
    "by a complex symbol": (lambda: td.gradient(x[0], z), UnsupportedError, "the symbol z is not real"),
    "complex symbol as an argument": (lambda: td.lambdify([x, z], f), UnsupportedError, "the symbol z is not real"),
    "temporaries of text": (
        lambda: td.lambdify([x], f, temporaries="no"),
        ArgumentTypeError,
        "temporaries must be True or False, not 'no'",
    ),
    "array as a cotangent": (
        lambda: td.vjp(f, x, np.ones(5)),
        ArgumentTypeError,
        r"cotangent must be .* not array\(.*; name an array as a td.TensorSymbol, and pass it to the kernel",
    ),
    "array as a vector": (lambda: td.hvp(s, x, np.ones(5)), ArgumentTypeError, "name an array as a td.TensorSymbol"),
    "read past every size": (lambda: td.lambdify([y], y[n], "numpy"), OutOfShapeError, r"y\[n\] .* whatever the sizes"),
    "read before every size": (
        lambda: td.lambdify([y], TABLES(y[-1 - i - n], (i, 3)), "numpy"),
        OutOfShapeError,
        r"y\[-i - n - 1\] .* whatever the sizes",
    ),
    "read past every size, inside of two ranges": (
        lambda: td.lambdify([y], TABLES(SUMS(y[j - i - n - 1], (j, 0, i)), (i, 3)), "numpy"),
        OutOfShapeError,
        "whatever the sizes: for i = 2, j = 0 the index is -n - 3, not in 0 … n - 1; fix the range",
    ),
    "masked output": (
        lambda: square(numbers, out=np.ma.masked_all(5)),
        ArgumentTypeError,
        "MaskedArray",
    ),
}


@table(CLOSED)
def test_what_once_came_through(call, kind, message):
    refuse(call, kind, message)


def test_every_error_of_ours_is_also_one_of_python():
    own = [kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__]
    kinds = [kind for kind in own if isinstance(kind, type) and kind is not TensorDiffError]
    assert len(kinds) >= 9
    for kind in kinds:
        assert issubclass(kind, TensorDiffError)
        assert issubclass(
            kind,
            ValueError | TypeError | IndexError | NotImplementedError | ImportError | AssertionError | MemoryError,
        ), kind
