"""Printed expressions read back as Python: ``str(expr)`` means what it says, by Python's own precedence.

The text is parsed by `ast` and evaluated node by node with the names of this package, of SymPy and of the
expression's symbols: no code runs but these, and integers are SymPy's, so that quotients stay exact.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import sympy
from sympy import Expr

import sympy_tensordiff as td
from sympy_tensordiff.app.forms import symbols_by_name
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.expressions.depth import measures

from .equality import assert_equal

_MODULES = (td, sympy)
_OPERATORS: Mapping[type, Callable[..., Any]] = MappingProxyType(
    {
        **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.MatMult: operator.matmul},
        **{ast.Div: operator.truediv, ast.Pow: operator.pow, ast.USub: operator.neg, ast.Invert: operator.invert},
        **{ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Lt: operator.lt, ast.LtE: operator.le},
        **{ast.Gt: operator.gt, ast.GtE: operator.ge},
    }
)


def read_printed(text: str, symbols: Mapping[str, Any]) -> Any:
    """The value of a printed expression.

    Parameters
    ----------
    text : str
        Python, as `str` writes expressions.
    symbols : mapping of str
        The tensors, scalars and indices by their names.

    Examples
    --------
    >>> x = td.TensorSymbol("x", 3)
    >>> read_printed("2/(x.T @ x)", {"x": x}) == 2 / td.dot(x, x)
    True
    """
    return _value(ast.parse(text, mode="eval").body, symbols)


def assert_printed(expr: Expr, value: Any, values: Mapping[Any, Any], what: str) -> None:
    """Raise `DerivativeMismatch` where the text of an expression, read as Python, has another value.

    Parameters
    ----------
    expr : Expr
    value : array or number
        The value of the expression.
    values : mapping
        The values of its tensors and symbols.
    what : str
        Begins the message.
    """
    if not measures(expr).is_unprintable:
        text = str(expr)
        assert_equal(evaluate(read_printed(text, symbols_by_name(expr)), values), value, f"{what} as text, {text}")


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=bool() | str() | None):
            return node.value
        case ast.Constant():
            return sympy.sympify(node.value)
        case ast.Name():
            return names[node.id] if node.id in names else _function(node.id)
        case ast.Tuple() | ast.List():
            return tuple(_value(element, names) for element in node.elts)
        case ast.Attribute(attr="T"):
            return _value(node.value, names).T
        case ast.Subscript():
            return _value(node.value, names)[_value(node.slice, names)]
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_value(node.operand, names))
        case ast.BinOp():
            return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
        case ast.Compare(ops=[relation], comparators=[right]):
            return _OPERATORS[type(relation)](_value(node.left, names), _value(right, names))
        case ast.Lambda():
            parameters = [parameter.arg for parameter in node.args.args]
            return lambda *args: _value(node.body, {**names, **dict(zip(parameters, args, strict=True))})
        case ast.Call():
            keywords = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
            return _value(node.func, names)(*(_value(arg, names) for arg in node.args), **keywords)
    raise UnsupportedError(f"{ast.unparse(node)} is not read: printed expressions have no {type(node).__name__}")


def _function(name: str) -> Any:
    """A function of this package, else one of SymPy's."""
    for module in _MODULES:
        if callable(vars(module).get(name)):
            return vars(module)[name]
    raise UnsupportedError(f"{name} is neither a name of the expression, nor of this package, nor of SymPy")
