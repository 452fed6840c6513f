"""Elementwise functions of tensors: SymPy's functions of real numbers; applied to scalars they return SymPy's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import sympy
from sympy import Basic, Dummy, Integer, Lambda
from sympy.codegen import cfunctions
from sympy.core.function import FunctionClass

from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.functions.table import log_of_sum
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.signatures import Scalar, documented
from sympy_tensordiff.symbolic.whole_tensors.einsum import aligned
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction, apply_to, placeholders
from sympy_tensordiff.symbolic.whole_tensors.operations import operand, shape_of
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import xlogy


@explained
def elementwise(f: Any, *operands: Any) -> Any:
    """Apply the function ``f`` of real numbers to tensors entry by entry; return the tensor of its values.

    Parameters
    ----------
    f : function class of SymPy, undefined function, Lambda or callable
        A callable is called once, with one symbol per operand, and returns an expression in them.
    *operands : Expr or number
        Tensors, repeated to one shape as in NumPy, and scalars, which are the same for every entry.

    Returns
    -------
    Expr
        A tensor of the shape of the operands; of scalars alone, the scalar ``f(*operands)``.

    Raises
    ------
    ShapeError
        If the shapes of two operands do not fit.
    ArgumentTypeError
        If ``f`` cannot be called with as many symbols, or returns no expression.
    ArgumentError
        If ``f`` puts its arguments into a tensor or a sum.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> A, B = td.TensorSymbol("A", (2, 3)), td.TensorSymbol("B", (2, 3))
    >>> c = sympy.Symbol("c", real=True)
    >>> td.elementwise(sympy.atan2, A, B).shape
    (2, 3)
    >>> td.elementwise(lambda a, b: sympy.exp(-c*a) + b**2, A, 3).shape
    (2, 3)
    >>> td.elementwise(sympy.Function("g"), c)
    g(c)
    """
    checked = aligned(operands, "elementwise")
    if not any(map(shape_of, checked)):
        return as_expr(_checked_call(f, checked), "the value of the function")
    variables = [Dummy(f"t{number}", real=True) for number in range(len(checked))]
    body = operand(_checked_call(f, variables), "elementwise")
    if body in variables and shape_of(checked[variables.index(body)]):
        return checked[variables.index(body)]
    return apply_to(variables, body, checked)


def _checked_call(f: Any, arguments: Sequence[Any]) -> Any:
    """Return ``f(*arguments)``; raise `ArgumentTypeError` if ``f`` cannot be called with these scalar expressions."""
    if not callable(f):
        raise ArgumentTypeError(f"elementwise: the first argument must be a function, e.g. sympy.sin, not {f!r}")
    try:
        return f(*arguments)
    except (TypeError, AttributeError) as error:
        hint = "" if isinstance(f, (FunctionClass, Lambda)) else "; it is called with symbols, so use SymPy's functions"
        raise ArgumentTypeError(
            f"elementwise: {f} cannot be called with {len(arguments)} scalar expressions{hint} ({error})"
        ) from error


Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def _template(function: Callable[..., Basic]) -> Lambda:
    """Return `function`, of one variable, as a SymPy `Lambda`, the form in which a `TensorFunction` stores its
    function.
    """
    (t,) = placeholders(1)
    return Lambda((t,), function(t))


def public(function: Function, name: str, summary: str, sections: str, example: str) -> Function:
    """Return ``function`` with its public name and a docstring made of ``summary``, ``sections`` and ``example``."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{summary}\n\nExamples\n--------\n>>> import sympy_tensordiff as td\n{example}\n"
    return documented(sections)(function)


_OF_ONE = """
Parameters
----------
x : Expr or number
    A tensor expression, or a real scalar.

Returns
-------
Expr
    Of the shape of ``x``.

Raises
------
ArgumentTypeError, UnsupportedError
    If ``x`` is neither a tensor expression nor a real scalar.
"""


def _function_of_one(name: str, function: Callable[..., Basic], description: str) -> Callable[[Scalar], Any]:
    """Return the public elementwise function ``name`` of one operand, such as `td.exp`, which applies SymPy's
    ``function``. ``description`` starts its docstring.
    """

    def applied(x: Scalar) -> Any:
        """Return ``function`` of the tensor ``x``, entry by entry; for a scalar ``x``, its value."""
        tensor = operand(x, name)
        if not shape_of(tensor):
            return as_expr(function(tensor), "the value of the function")
        return TensorFunction._unchecked(_template(function), tensor)

    example = f'>>> td.{name}(td.TensorSymbol("A", (2, 3))).shape\n(2, 3)'
    return public(applied, name, f"{description}, entry by entry; of a scalar, SymPy's own.", _OF_ONE, example)


exp = _function_of_one("exp", sympy.exp, "The exponential function")
log = _function_of_one("log", sympy.log, "The natural logarithm, of positive numbers")
sin = _function_of_one("sin", sympy.sin, "The sine")
cos = _function_of_one("cos", sympy.cos, "The cosine")
tan = _function_of_one("tan", sympy.tan, "The tangent")
asin = arcsin = _function_of_one("asin", sympy.asin, "The arcsine, of numbers from -1 to 1")
acos = arccos = _function_of_one("acos", sympy.acos, "The arccosine, of numbers from -1 to 1")
atan = arctan = _function_of_one("atan", sympy.atan, "The arctangent")
sinh = _function_of_one("sinh", sympy.sinh, "The hyperbolic sine")
cosh = _function_of_one("cosh", sympy.cosh, "The hyperbolic cosine")
tanh = _function_of_one("tanh", sympy.tanh, "The hyperbolic tangent")
asinh = _function_of_one("asinh", sympy.asinh, "The inverse hyperbolic sine")
acosh = _function_of_one("acosh", sympy.acosh, "The inverse hyperbolic cosine, of numbers from 1 on")
atanh = _function_of_one("atanh", sympy.atanh, "The inverse hyperbolic tangent, of numbers between -1 and 1")
sqrt = _function_of_one("sqrt", sympy.sqrt, "The square root, of numbers from 0 on")
abs = _function_of_one("abs", sympy.Abs, "The absolute value; its derivative at 0 is 0")
sign = _function_of_one("sign", sympy.sign, "The sign: -1, 0 or 1; its derivative is 0")
expm1 = _function_of_one("expm1", cfunctions.expm1, "``exp(x) - 1`` without loss of digits near 0")
log1p = _function_of_one("log1p", cfunctions.log1p, "``log(1 + x)`` without loss of digits near 0, of numbers above -1")
relu = _function_of_one("relu", lambda x: sympy.Max(x, 0), "The larger of x and 0; its derivative at 0 is 0")
erf = _function_of_one("erf", sympy.erf, "The error function")
erfc = _function_of_one("erfc", sympy.erfc, "``1 - erf(x)`` without loss of digits for large x")
floor = _function_of_one("floor", sympy.floor, "The largest integer that is not larger; its derivative is 0")
ceiling = _function_of_one("ceiling", sympy.ceiling, "The smallest integer that is not smaller; its derivative is 0")

_OF_OPERANDS = """
Parameters
----------
*operands : Expr or number
    Tensors, repeated to one shape as in NumPy, and scalars, which are the same for every entry.

Returns
-------
Expr
    A tensor expression of the broadcast shape; a scalar for scalars.

Raises
------
ShapeError
    If the shapes of two operands do not fit.
ArgumentTypeError
    If there is no operand.

Notes
-----
Where operands are tied, a number takes the whole derivative; otherwise they share it equally.
"""


def _function_of_several(name: str, function: Any, what: str) -> Callable[..., Any]:
    """Return the public function ``name`` (`td.maximum` or `td.minimum`), which applies ``function`` to any number of
    tensors or scalars entry by entry. ``what`` names the result in its docstring.
    """

    def applied(*operands: Any) -> Any:
        """Return the maximum or minimum (``function``) of ``operands``, entry by entry. Raise `ArgumentTypeError` if
        there are none.
        """
        if not operands:
            raise ArgumentTypeError(f"{name}: there is nothing to compare: give at least one operand")
        return elementwise(function, *operands)

    example = f""">>> A, B = td.TensorSymbol("A", (2, 3)), td.TensorSymbol("B", (2, 3))
>>> td.{name}(A, B, 0).shape, td.{name}(2, 3)
((2, 3), {function(2, 3)})"""
    return public(applied, name, f"The {what} of the operands, entry by entry.", _OF_OPERANDS, example)


maximum = _function_of_several("maximum", sympy.Max, "largest")
minimum = _function_of_several("minimum", sympy.Min, "smallest")


@explained
def hypot(x: Scalar, y: Scalar) -> Any:
    """``sqrt(x**2 + y**2)``, entry by entry, without overflow or underflow of the squares.

    Parameters
    ----------
    x, y : Expr or number
        Tensors, repeated to one shape as in NumPy, and scalars.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Notes
    -----
    The derivatives are 0 where both arguments are.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", 3)
    >>> float(td.evaluate(td.sum(td.hypot(x, y)), {x: [3, 0, 0], y: [4, 0, 2]}))
    7.0
    """
    return elementwise(cfunctions.hypot, x, y)


@explained
def logaddexp(x: Scalar, y: Scalar) -> Any:
    """``log(exp(x) + exp(y))``, entry by entry, without overflow.

    Parameters
    ----------
    x, y : Expr or number
        Tensors, repeated to one shape as in NumPy, and scalars.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> a, b = sympy.symbols("a b", real=True)
    >>> float(td.evaluate(td.logaddexp(a, b), {a: 1000, b: 1000}))
    1000.6931471805599
    """
    return elementwise(log_of_sum, x, y)


@explained
def entr(x: Scalar) -> Any:
    """``-x*log(x)``, the terms of an entropy, entry by entry; 0 at 0.

    Parameters
    ----------
    x : Expr or number
        A tensor expression or a scalar, not negative.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> p = td.TensorSymbol("p", 3)
    >>> td.gradient(td.sum(td.entr(p)), p)
    -log(p) - 1
    >>> float(td.evaluate(td.sum(td.entr(p)), {p: [0, 0.5, 0.5]}))
    0.6931471805599453
    """
    return elementwise(lambda a: -xlogy(a, a), x)


@explained
def square(A: Scalar) -> Any:
    """Return ``A**2``, entry by entry.

    Parameters
    ----------
    A : Expr or number

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.square(td.TensorSymbol("A", (3, 4)))
    A**2
    """
    return operand(A, "square") ** Integer(2)


@explained
def clip(A: Scalar, low: Any = None, high: Any = None) -> Any:
    """``A`` with each entry raised to at least ``low`` and lowered to at most ``high``; None means no bound.

    Parameters
    ----------
    A, low, high : Expr or number
        Tensors, repeated to one shape as in NumPy, and scalars.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Notes
    -----
    At a bound that is a number, the derivative is 0.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.clip(td.TensorSymbol("A", (3, 4)), 0, 1)
    clip(A, 0, 1)
    """
    above = operand(A, "clip") if low is None else maximum(A, low)
    return above if high is None else minimum(above, high)
