"""Refusals that no other test meets: the reference interpreter, supplied functions, generated loops, checks."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from every import every
from sympy import Function, I, IndexedBase, Piecewise, Symbol

import sympy_tensordiff as td
from sympy_tensordiff.codegen.emit.forms import FormNames
from sympy_tensordiff.codegen.run import compile as compile_module
from sympy_tensordiff.codegen.run.compile import CompiledFunction
from sympy_tensordiff.errors import (
    ArgumentError,
    ArgumentTypeError,
    BackendError,
    DerivativeMismatch,
    IndexExpressionError,
    LoopBoundError,
    OutOfShapeError,
    ShapeError,
    TensorDiffError,
    UnsupportedError,
    VerificationError,
)
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.nests import bounds
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.symbolic.index_notation.entries import TensorExpr
from sympy_tensordiff.testing import differences, random_values

i, j, k, n, p = td.indices("i j k n p")
x, y = td.TensorSymbol("x", 5), td.TensorSymbol("y", n)
r = Symbol("r", real=True)
g = Function("g")
SUM, TABLE = td.IndexedSum, td.TensorComprehension
f = TABLE(x[i] ** 2, (i, 5))
five = {x: [1, 2, 3, 4, 5]}


class Foreign(TensorExpr):
    """A tensor expression that nobody knows."""

    is_symbol = False
    shape = (sympy.Integer(5),)


def supplied(implementation, backend="numpy"):
    return td.lambdify([x], TABLE(g(x[i]), (i, 5)), backend, functions={"g": implementation})(np.ones(5))


INTERPRETER = {
    "no value for a tensor": (lambda: evaluate(x[0], {}), ArgumentError, "no value given for the tensor x"),
    "no value to differentiate at": (
        lambda: differentiate(r, x, {r: 1}),
        ArgumentError,
        "no value given for the tensor x",
    ),
    "by an index": (
        lambda: differentiate(x[p], p, {**five, p: 1}),
        ArgumentError,
        "p is neither a tensor symbol nor a scalar symbol with a value",
    ),
    "text as a value": (lambda: evaluate(r, {r: "1"}), ArgumentTypeError, "r: '1' is not a real number"),
    "rank of a value": (
        lambda: evaluate(x[0], {x: [[1] * 5]}),
        ShapeError,
        r"value of x has 2 axes; its shape \(5,\) has 1",
    ),
    "half an index": (
        lambda: evaluate(x[p], {**five, p: Fraction(1, 2)}),
        ArgumentTypeError,
        r"integer symbol p cannot have the value Fraction\(1, 2\)",
    ),
    "tensor as a scalar": (
        lambda: evaluate(sympy.Add._from_args((x, r)), {**five, r: 1}),
        UnsupportedError,
        r"x is a tensor of shape \(5,\) where a scalar is needed",
    ),
    "half as an index": (
        lambda: evaluate(td.TensorEntry._trusted(x, (sympy.Rational(1, 2),)), five),
        IndexExpressionError,
        "1/2 is 1/2 here, which is not an integer",
    ),
    "no value for a scalar": (lambda: evaluate(r * x[0], five), ArgumentError, "no value given for r"),
    "unknown tensor": (
        lambda: evaluate(Foreign()[0], {}),
        UnsupportedError,
        "the reference interpreter does not know the tensor",
    ),
    "read outside": (
        lambda: evaluate(x[p], {**five, p: 5}),
        OutOfShapeError,
        r"the read at \(5,\) leaves the shape \(5,\) of x",
    ),
    "function without a number": (
        lambda: evaluate(sympy.LeviCivita(r, 2, 3), {r: sympy.S.Half}),
        UnsupportedError,
        "SymPy gives no number for LeviCivita",
    ),
    "function without a derivative": (
        lambda: differentiate(sympy.zeta(r, 2), r, {r: 3}),
        UnsupportedError,
        "SymPy has no derivative of zeta by argument 1",
    ),
    "no value for an index": (
        lambda: random_values(x[p]),
        ArgumentError,
        "no value given for the integer symbol p; pass sizes=",
    ),
    "no value for a size": (lambda: random_values(y), ArgumentError, r"y: no value given for \['n'\]; pass sizes="),
}

SUPPLIED = {
    "list of functions": (
        lambda: td.lambdify([r], g(r), functions=[abs]),
        ArgumentTypeError,
        "functions must be a mapping from names to callables, not",
    ),
    "number as a function": (
        lambda: td.lambdify([r], g(r), functions={"g": 3}),
        ArgumentTypeError,
        r"functions\['g'\] is 3, which cannot be called",
    ),
    "two keys": (
        lambda: td.lambdify([r], g(r), functions={"g'": abs, ("g", (1,)): abs}),
        ArgumentError,
        "functions has two keys that mean",
    ),
    "unknown key": (
        lambda: td.lambdify([r], g(r), functions={"h": abs}),
        ArgumentError,
        r"functions\['h'\] is not in the expression: it calls g",
    ),
    "key of nothing": (
        lambda: td.lambdify([r], r, functions={"h": abs}),
        ArgumentError,
        "is not in the expression: it calls no function that has to be supplied",
    ),
    "error inside": (
        lambda: supplied(lambda a: [].pop()),
        ArgumentError,
        r"implementation of 'g' failed for arguments of shape .*: IndexError.*; it is called with arrays",
    ),
    "complex result": (
        lambda: supplied(lambda a: a * 1j),
        ArgumentTypeError,
        "implementation of 'g' returned dtype complex128; real numbers are needed",
    ),
    "complex result, compiled": (
        lambda: supplied(lambda a: a * 1j, "numba"),
        ArgumentTypeError,
        "implementation of 'g' returns complex128 for numbers; a real number is needed",
    ),
    "not for Numba": (
        lambda: supplied(lambda a: a.nothing(3), "numba"),
        ArgumentError,
        "implementation of 'g' is not for this backend: Numba cannot compile it .*; give a function of numbers that",
    ),
    "one name for two functions": (
        lambda: td.lambdify([r], g(r) * Function("g", real=True)(r), functions={"g": abs}),
        ArgumentError,
        r"two different functions are called g \(other assumptions",
    ),
}

EXPRESSIONS = {
    "parameter lists": (
        lambda: td.gradient(sympy.hyper([1], [2], r), r),
        UnsupportedError,
        "hyper takes lists of parameters, which is not supported",
    ),
    "power of a negative number": (
        lambda: td.gradient((-2) ** r, r),
        UnsupportedError,
        r"\(-2\)\*\*b has no derivative with respect to b: it is real for integers b only",
    ),
    "complex symbol": (
        lambda: td.gradient(Symbol("z", complex=True), r),
        UnsupportedError,
        r"z is not real; tensors and scalars are real: declare Symbol\('z', real=True\)",
    ),
    "boolean symbol": (
        lambda: td.gradient(Piecewise((r, Symbol("b")), (0, True)), r),
        UnsupportedError,
        "the condition b of a Piecewise is not a comparison",
    ),
    "diff by nothing": (lambda: td.diff(r), ArgumentError, "diff: there is no variable: give an entry"),
    "IndexedBase of two shapes": (
        lambda: td.lift(IndexedBase("A", shape=(3,))[i] * IndexedBase("A", shape=(4,))[i]),
        ShapeError,
        "two different tensors are called A: .* give the IndexedBase one shape everywhere",
    ),
    "native integral": (
        lambda: td.lift(sympy.Integral(r, (r, 0, 1))),
        UnsupportedError,
        r"Integral is not supported in a tensor expression: Integral\(r, \(r, 0, 1\)\); only Sum and Product are",
    ),
    "complex body": (
        lambda: SUM(I * x[i], (i, 0, 4)),
        UnsupportedError,
        r"body of IndexedSum is complex: I\*x\[i\]; tensors are real: write two real tensors",
    ),
    "half a range": (
        lambda: SUM(x[i], (i, 4)),
        ArgumentError,
        r"has no complete range; write \(index, first, last\), e.g. \(k, 0, n - 1\), the last value included",
    ),
    "no index": (
        lambda: SUM(x[0], (sympy.pi, 0, 4)),
        IndexExpressionError,
        "pi is not an index; an index is an integer symbol",
    ),
    "index that cannot be 0": (
        lambda: SUM(x[p], (Symbol("q", integer=True, positive=True), 0, 4)),
        ArgumentError,
        "the index q is declared positive, but its range starts at 0; declare it an integer only",
    ),
    "IndexedBase over something else": (
        lambda: td.lift(sympy.Indexed(sympy.Array([1, 2, 3]), i)),
        UnsupportedError,
        "only entries of an IndexedBase are lifted",
    ),
    "printed as code": (lambda: sympy.ccode(f[i]), UnsupportedError, "of SymPy cannot print the entry of .* as code"),
}

CHECKS = {
    "by nothing": (
        lambda: td.check_derivative(f, ()),
        ArgumentError,
        "no variable to differentiate with respect to: give one",
    ),
    "by an index": (
        lambda: td.check_derivative(f, i),
        ArgumentTypeError,
        "differentiate with respect to i: give a TensorSymbol or a real scalar symbol",
    ),
    "range without bounds": (
        lambda: bounds(
            [Constraint("ge", 3 * quotient(Affine({"i": 1}), 2) - 2 * quotient(Affine({"i": 1}), 3))], ["i"]
        ),
        LoopBoundError,
        "no bounds of a loop express .* split the sum by the remainder",
    ),
    "range of remainders": (
        lambda: bounds([Constraint("mod", Affine({"i": 1}), 2), Constraint("ge", Affine({"i": 1}))], ["i"]),
        LoopBoundError,
        "no bounds of the loop over i express .*i.* mod 2 == 0",
    ),
    "range that ends nowhere": (
        lambda: bounds([Constraint("ge", Affine({"i": 1}))], ["i"]),
        LoopBoundError,
        "the index i has no upper bound in the indices outside of its loop: give its range numbers",
    ),
    "a name that is not defined": (lambda: FormNames((), ())("s"), VerificationError, "'s' is used, but not defined"),
    "complex data": (
        lambda: td.lambdify([x], f, "numpy")(np.ones(5) * 1j),
        ArgumentTypeError,
        r"dtype complex128; real numbers \(float64, float32, integers\) are needed",
    ),
}


TABLES = [*INTERPRETER.items(), *SUPPLIED.items(), *EXPRESSIONS.items(), *CHECKS.items()]


@every("call, kind, message", [case for _, case in TABLES], ids=[name for name, _ in TABLES])
def test_refused(call, kind, message):
    with pytest.raises(TensorDiffError, match=message) as caught:
        call()
    assert caught.type is kind


def test_a_wrong_derivative_is_named(monkeypatch):
    monkeypatch.setattr(differences, "jacobian", lambda *_: td.jacobian(TABLE(x[i] ** 3, (i, 5)), x))
    message = (
        r"derivative with respect to x: entry \(\d, \d\) is .*, expected .* from central differences, relative error"
    )
    with pytest.raises(DerivativeMismatch, match=message):
        td.check_derivative(f, x)


def test_a_function_that_is_nowhere_smooth(monkeypatch):
    rough = differences._Slope(np.zeros(5), np.zeros(5, dtype=bool), 0.0)
    monkeypatch.setattr(differences.Point, "slope", lambda self, direction: rough)
    with pytest.raises(ArgumentError, match=r"no inputs found near which .* is smooth in x"):
        td.check_derivative(f, x)


def test_a_toolkit_without_a_part(monkeypatch):
    class NvrtcSupportError(Exception):
        pass

    def fail(*_):
        raise NvrtcSupportError("no NVRTC")

    kernel = td.lambdify([x], f, "cuda")
    monkeypatch.setattr(compile_module, "require_device", lambda: None)
    monkeypatch.setattr(CompiledFunction, "_cuda", SimpleNamespace(run=fail))
    with pytest.raises(BackendError, match=r"CUDA cannot compile: no NVRTC; pip install '\.\[cuda\]'"):
        kernel(np.ones(5))
