"""Small programs built by hand, used by all tests of the code generation."""

from __future__ import annotations

from fractions import Fraction

from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Argument,
    Array,
    Bound,
    If,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Number,
    Operation,
    Program,
    Scalar,
    Statement,
    Store,
)
from sympy_tensordiff.integer.affine import Affine, Row, quotient

I, J, K, N = (Affine.variable(name) for name in "IJKN")
i, j, k, p, q = (Affine.variable(name) for name in "ijkpq")


def op(function: str, *arguments: Scalar | int) -> Operation:
    """An operation; ints become numbers."""
    return Operation(function, tuple(Number(a) if isinstance(a, int) else a for a in arguments))


def load(array: str, *index: Affine | int) -> Load:
    return Load(array, tuple(Affine.of(form) for form in index))


def array(name: str, *shape: Affine | int) -> Argument:
    return Argument("array", name, name, tuple(Affine.of(form) for form in shape))


def result(name: str, *shape: Affine | int) -> Array:
    return Array(name, tuple(Affine.of(form) for form in shape))


def loop(variable: str, low: Affine | int, high: Affine | int, *body: Statement) -> Loop:
    return Loop(variable, (Bound(Affine.of(low)),), (Bound(Affine.of(high)),), body)


def total(name: str, value: Scalar, *limits: tuple[str, Affine | int, Affine | int]) -> tuple[Statement, ...]:
    """``name`` = the sum of ``value`` over the limits, the first outermost."""
    inner: Statement = Add(name, value)
    for variable, low, high in reversed(limits):
        inner = loop(variable, low, high, inner)
    return Accumulator(name), inner


def vector_add() -> Program:
    body = (Store(op("add", load("x", i), load("y", i))),)
    return Program((array("x", N), array("y", N)), (result("z", N),), (), (Kernel("z", ("i",), body),))


def matmul() -> Program:
    value = op("mul", load("a", i, k), load("b", k, j))
    body = (*total("acc", value, ("k", 0, K - 1)), Store(Name("acc")))
    return Program((array("a", I, K), array("b", K, J)), (result("c", I, J),), (), (Kernel("c", ("i", "j"), body),))
