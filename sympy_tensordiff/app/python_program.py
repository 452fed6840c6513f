"""An input and its derivative as a Python program: tensors, expression, derivative, and a compiled function of both."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import sympy
from sympy import Basic

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.printing import refuse_unprintable

_OWN = frozenset({"td", "sympy", "expression", "derivative", "function"})
"""Names of the program that no tensor may have."""


def python_program(parsed: Any, arguments: Sequence[Any]) -> str:
    """The program; it prints the derivative.

    Parameters
    ----------
    parsed : ParsedExpression
    arguments : sequence of symbols
        Those of the compiled function.

    Raises
    ------
    UnsupportedError
        If the expression cannot be printed, or one of its names cannot be a name in Python.
    """
    refuse_unprintable(parsed.expression, "Python")
    names = _Names(parsed.tensors)
    expression = names.written(parsed.expression)
    declared = parsed.tensors.items()
    tensors = [f'{name} = td.TensorSymbol("{name}", {names.details(tensor)})' for name, tensor in declared]
    indices = sorted(names.indices)
    called = ", ".join(map(str, arguments)) + "," * (len(arguments) == 1)
    lines = [
        *([f'{", ".join(indices)} = td.indices("{" ".join(indices)}")'] if indices else []),
        *tensors,
        "",
        f"expression = {expression}",
        *_derivatives(parsed),
        "print(derivative)",
        "",
        "# Compiled at its first call:",
        f"function = td.lambdify(({called}), (expression, derivative))",
    ]
    modules = ["import sympy"] * any("sympy." in line for line in lines) + ["import sympy_tensordiff as td", ""]
    return "\n".join([*modules, *lines, ""])


def _derivatives(parsed: Any) -> list[str]:
    """The lines that differentiate."""
    is_scalar = not getattr(parsed.expression, "shape", ())
    match [argument.name for argument in parsed.arguments]:
        case [name] if is_scalar:
            return [f"derivative = td.gradient(expression, {name})"]
        case [name, again] if is_scalar and name == again:
            return [f"derivative = td.hessian(expression, {name})"]
        case [name, *others]:
            lines = [f"derivative = td.jacobian(expression, {name})"]
            return lines + [f"derivative = td.jacobian(derivative, {other})" for other in others]
    return ["derivative = expression"]


class _Names(ast.NodeTransformer):
    """Printed expressions as Python with ``td.`` and ``sympy.`` before their names; the indices are collected."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors
        self.symbols: set[str] = set()
        self.indices: set[str] = set()
        for name in tensors:
            if name in _OWN:
                raise UnsupportedError(f"the tensor {name} cannot have this name in a Python program: rename it")

    def written(self, expr: Any) -> str:
        """An expression as Python."""
        self.symbols |= set(symbols_by_name(expr))
        try:
            return ast.unparse(self.visit(ast.parse(str(expr), mode="eval")))
        except (SyntaxError, RecursionError):
            raise UnsupportedError("this cannot be written in Python; see the index notation") from None

    def details(self, tensor: Any) -> str:
        """What `TensorSymbol` takes after the name."""
        extents = [self.written(extent) for extent in tensor.shape]
        text = extents[0] if len(extents) == 1 else f"({', '.join(extents)})"
        facts: str = ", symmetric=True" * tensor.symmetric + ", positive=True" * tensor.positive
        return text + ", dtype=int" * (tensor.dtype is int) + facts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.symbols:
            return _from_module(node)
        if node.id not in self.tensors:
            self.indices.add(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A function may have the name of a symbol."""
        arguments = [self.visit(argument) for argument in node.args]
        keywords = [ast.keyword(word.arg, self.visit(word.value)) for word in node.keywords]
        function = _from_module(node.func) if isinstance(node.func, ast.Name) else self.visit(node.func)
        return ast.Call(function, arguments, keywords)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Quotients of integers are exact in printed expressions, and rounded in Python."""
        number = node.left.operand if isinstance(node.left, ast.UnaryOp) else node.left
        is_quotient = isinstance(node.op, ast.Div) and isinstance(number, ast.Constant)
        self.generic_visit(node)
        if is_quotient and isinstance(node.right, ast.Constant):
            return ast.Call(_from_module(ast.Name("Rational")), [node.left, node.right], [])
        return node


def _from_module(name: ast.Name) -> ast.expr:
    """The name of a function or a constant with the module that has it."""
    if name.id in td.__all__:
        return ast.Attribute(ast.Name("td"), name.id)
    if hasattr(sympy, name.id):
        return ast.Attribute(ast.Name("sympy"), name.id)
    raise UnsupportedError(f"{name.id} has no name in Python; see the index notation")


def symbols_by_name(expr: Basic) -> dict[str, Any]:
    """All symbols of an expression, bound ones too, by the names that are printed."""
    return {str(node): node for node in sympy.preorder_traversal(expr) if getattr(node, "is_symbol", False)}
