"""SymPy's functions in the terms of the loop nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy

from sympy_tensordiff.codegen.loops import Number, Operation, Scalar
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.nodes import Node

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
}


def operation(node: Node, args: Sequence[Scalar]) -> Scalar:
    """The operation of an arithmetic node, a condition or a function.

    Raises
    ------
    UnsupportedError
        For a function that no backend evaluates.
    """
    if node.op == "call":
        name = NAMES.get(node.data)
        if name is not None:
            return Operation(name, tuple(args))
        if node.data in FORMULAS:
            return FORMULAS[node.data](*args)
        raise UnsupportedError(
            f"no backend can evaluate {node.data.__name__}; write it with functions that one can, "
            f"among them {', '.join(sorted(f.__name__ for f in [*NAMES, *FORMULAS]))}"
        )
    return Operation(node.data if node.op == "compare" else node.op, tuple(args))
