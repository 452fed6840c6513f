"""SymPy's functions in the terms of the loop nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm, nan, prod
from typing import Any

import sympy
from sympy.codegen import cfunctions

from sympy_tensordiff.codegen.scalars import External, Number, Operation, Scalar
from sympy_tensordiff.codegen.special import SPECIAL
from sympy_tensordiff.graph.functions import Partial, sigmoid, softplus
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import times

NAMES: dict[Any, str] = {
    sympy.exp: "exp",
    sympy.log: "log",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.tan: "tan",
    sympy.asin: "arcsin",
    sympy.acos: "arccos",
    sympy.atan: "arctan",
    sympy.atan2: "arctan2",
    sympy.sinh: "sinh",
    sympy.cosh: "cosh",
    sympy.tanh: "tanh",
    sympy.asinh: "arcsinh",
    sympy.acosh: "arccosh",
    sympy.atanh: "arctanh",
    sympy.Abs: "abs",
    sympy.sign: "sign",
    sympy.floor: "floor",
    sympy.ceiling: "ceil",
    sympy.Heaviside: "heaviside",
    sympy.erf: "erf",
    sympy.erfc: "erfc",
    sympy.gamma: "gamma",
    sympy.loggamma: "lgamma",
    cfunctions.expm1: "expm1",
    cfunctions.log1p: "log1p",
    cfunctions.log2: "log2",
    cfunctions.log10: "log10",
    cfunctions.Cbrt: "cbrt",
    cfunctions.hypot: "hypot",
    sigmoid: "sigmoid",
    softplus: "softplus",
    sympy.Max: "max",
    sympy.Min: "min",
}


def _inverse(name: str) -> Callable[..., Scalar]:
    """1 / f(x)"""
    return lambda x: Operation("pow", (Operation(name, (x,)), Number(-1)))


def _of_inverse(name: str) -> Callable[..., Scalar]:
    """f(1 / x)"""
    return lambda x: Operation(name, (Operation("pow", (x, Number(-1))),))


def _sinc(x: Scalar) -> Scalar:
    quotient = Operation("mul", (Operation("sin", (x,)), Operation("pow", (x, Number(-1)))))
    return Operation("select", (Operation("eq", (x, Number(0))), Number(1), quotient))


FORMULAS: dict[Any, Callable[..., Scalar]] = {
    sympy.sec: _inverse("cos"),
    sympy.csc: _inverse("sin"),
    sympy.cot: _inverse("tan"),
    sympy.sech: _inverse("cosh"),
    sympy.csch: _inverse("sinh"),
    sympy.coth: _inverse("tanh"),
    sympy.asec: _of_inverse("arccos"),
    sympy.acsc: _of_inverse("arcsin"),
    sympy.acot: _of_inverse("arctan"),
    sympy.asech: _of_inverse("arccosh"),
    sympy.acsch: _of_inverse("arcsinh"),
    sympy.acoth: _of_inverse("arctanh"),
    sympy.sinc: _sinc,
    sympy.frac: lambda x: Operation("add", (x, Operation("neg", (Operation("floor", (x,)),)))),
    sympy.factorial: lambda x: Operation("gamma", (Operation("add", (x, Number(1))),)),
    sympy.erf2: lambda x, y: Operation("add", (Operation("erf", (y,)), Operation("neg", (Operation("erf", (x,)),)))),
    cfunctions.exp2: lambda x: Operation("pow", (Number(2), x)),
    cfunctions.Sqrt: lambda x: Operation("pow", (x, Number(Fraction(1, 2)))),
    cfunctions.fma: lambda x, y, z: Operation("add", (Operation("mul", (x, y)), z)),
}


def rational_form(node: Node) -> tuple[Affine, int] | None:
    """Numerator and denominator of a rational combination of indices, None for any other node."""
    if node.op == "index":
        return node.data, 1
    if node.op == "const" and isinstance(node.data, int | Fraction):
        return Affine.of(node.data.numerator), node.data.denominator
    if node.op not in ("add", "mul"):
        return None
    found = [form for arg in node.args if (form := rational_form(arg)) is not None]
    if len(found) < len(node.args):
        return None
    if node.op == "mul":
        return times(*(form for form, _ in found)), prod(below for _, below in found)
    common = lcm(*(below for _, below in found))
    return sum((form * (common // below) for form, below in found), Affine()), common


def is_external(node: Node) -> bool:
    """Whether no backend knows the function of a call."""
    return node.data not in NAMES and node.data not in FORMULAS


def external(node: Node) -> External:
    """The function of a call that no backend knows."""
    derivative = node.data if isinstance(node.data, Partial) else Partial(node.data, (0,) * len(node.args))
    is_special = not any(derivative.orders) and (derivative.function, len(derivative.orders)) in SPECIAL
    return External(str(derivative.function.__name__), derivative.orders, is_special)


def operation(node: Node, args: Sequence[Scalar]) -> Scalar:
    """The operation of an arithmetic node, a condition or a function; one that no backend knows is the user's."""
    if node.op == "call":
        name = NAMES.get(node.data)
        if name is not None:
            return Operation(name, tuple(args))
        if node.data in FORMULAS:
            return FORMULAS[node.data](*args)
        return Operation(external(node), tuple(args))
    if node.op == "pow" and args[0] == Number(0) and isinstance(args[1], Number) and args[1].value < 0:
        return Number(nan)  # of an empty sum, say; Python itself would raise
    return Operation(node.data if node.op == "compare" else node.op, tuple(args))
