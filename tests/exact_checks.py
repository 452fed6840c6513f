"""Derivatives against the oracle: exact where the functions are rational, in every backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from fuzz.equality import as_scalar, assert_equal
from numpy.typing import NDArray
from sympy import Expr

from sympy_tensordiff.codegen import api as codegen_api
from sympy_tensordiff.derivative import api as derivative_api
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.reference import hessian as exact_hessian
from sympy_tensordiff.reference import hvp as exact_hvp
from sympy_tensordiff.reference.duals import add, multiply
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.testing.values import as_expressions, call_arguments, random_values, shape_of, to_double

# What is checked at several sizes is derived and compiled once.
remembered = lru_cache(maxsize=50)
lambdify = remembered(codegen_api.lambdify)
gradient, hessian, hvp, jacobian, vjp = map(
    remembered,
    (derivative_api.gradient, derivative_api.hessian, derivative_api.hvp, derivative_api.jacobian, derivative_api.vjp),
)


def contract(cotangent: NDArray[Any], jacobian_: NDArray[Any]) -> NDArray[np.object_]:
    """The cotangent times the Jacobian, summed over the axes of the value."""
    inner = jacobian_.shape[cotangent.ndim :]
    result = np.full(inner, Fraction(0), dtype=object)
    for position in np.ndindex(jacobian_.shape):
        outer, index = position[: cotangent.ndim], position[cotangent.ndim :]
        result[index] = add(result[index], multiply(cotangent[outer], jacobian_[position]))
    return result


def pullback_problem(
    expression: Expr,
    wrt: Expr,
    sizes: Mapping[Any, int] | None,
    seed: int,
    values: Mapping[Any, Any] | None,
    low: float,
    high: float,
) -> tuple[TensorSymbol, dict[Any, Any]]:
    """A cotangent for an expression, and values for both."""
    cotangent = TensorSymbol("cotangent", shape_of(expression))
    drawn = random_values((expression, *as_expressions(wrt), cotangent), sizes, seed, low=low, high=high, given=values)
    return cotangent, drawn


def assert_derivative_exact(
    expression: Expr,
    wrt: Expr,
    sizes: Mapping[Any, int] | None = None,
    seed: int = 0,
    *,
    values: Mapping[Any, Any] | None = None,
    backends: Sequence[str] = ("numpy",),
    low: float = -2,
    high: float = 2,
    rtol: float = 1e-9,
    largest: int = 6000,
) -> tuple[dict[Any, Any], NDArray[np.object_]]:
    """Check ``vjp`` and ``jacobian`` (``gradient`` of a scalar) of one expression by one variable.

    The derived expressions, run by the reference interpreter, must equal its own derivative by
    dual numbers: exactly for rational functions. Then the kernels of ``backends`` must agree.

    Parameters
    ----------
    expression : scalar or tensor expression
    wrt : TensorSymbol or scalar symbol
    sizes : mapping, optional
        The integer symbols.
    seed : int
    values : mapping, optional
        Values that are not to be random.
    backends : sequence of str
    low, high : float
        The range of the random values.
    rtol : float
        For the kernels, relative to the largest entry.
    largest : int
        The full Jacobian is checked up to so many entries.

    Returns
    -------
    The values, and the exact Jacobian there.

    Raises
    ------
    DerivativeMismatch
    """
    cotangent, values_ = pullback_problem(expression, wrt, sizes, seed, values, low, high)
    expected_jacobian = differentiate(expression, wrt, values_)
    expected = contract(np.asarray(values_[cotangent], dtype=object), expected_jacobian)
    pullback = vjp(expression, wrt, cotangent)
    assert_equal(evaluate(pullback, values_), expected, f"vjp by {wrt}")
    if expected_jacobian.size <= largest:
        assert_equal(evaluate(jacobian(expression, wrt), values_), expected_jacobian, f"jacobian by {wrt}")
    if not shape_of(expression):
        assert_equal(evaluate(gradient(expression, wrt), values_), expected_jacobian, f"gradient by {wrt}")
    for backend in backends:
        arguments, arrays = call_arguments((expression, cotangent), values_)
        kernel = lambdify(tuple(arguments), pullback, backend=backend)
        assert_equal(kernel(*arrays), to_double(expected), f"vjp by {wrt} on {backend}", rtol)
    return values_, expected_jacobian


def assert_kernel_exact(
    expression: Expr,
    variables: Sequence[Expr],
    sizes: Mapping[Any, int] | None = None,
    seed: int = 0,
    *,
    order: int = 1,
    values: Mapping[Any, Any] | None = None,
    kernels: Sequence[tuple[str, bool]] = (("numpy", True),),
    low: float = -2,
    high: float = 2,
    rtol: float = 1e-9,
    with_value: bool = True,
) -> None:
    """Check one kernel that holds the pullbacks of all variables, out of one ``vjp``, and the value.

    Of order 2 it also holds, by all variables, the pullbacks of one direction through all of these
    pullbacks: every block of the second derivative takes part.

    Parameters are those of `assert_derivative_exact`; ``kernels`` are the options of ``lambdify``
    to be tried, a backend and whether there are temporaries.
    """
    variables = tuple(variables)
    cotangent, values_ = pullback_problem(expression, sympy.Tuple(*variables), sizes, seed, values, low, high)
    directions = [TensorSymbol(f"along_{n}", shape_of(v)) for n, v in enumerate(variables)]
    values_ |= random_values(tuple(directions), values_, seed + 1)
    scalar = as_scalar(expression, cotangent)
    if order == 2:
        along = {v: values_[direction] for v, direction in zip(variables, directions, strict=True)}
        expected = exact_hvp(scalar, along, values_)
    else:
        expected = [(differentiate(scalar, v, values_), np.empty(0, object)) for v in variables]
    results = vjp(expression, variables, cotangent)
    checked = {
        f"vjp by {v}": (result, first) for v, result, (first, _) in zip(variables, results, expected, strict=True)
    }
    if with_value:
        checked["value"] = (expression, evaluate(expression, values_))
    if order == 2:
        parts = [as_scalar(slope, direction) for slope, direction in zip(results, directions, strict=True)]
        seconds = gradient(sympy.Add(*parts), variables)
        for v, second, (_, exact) in zip(variables, seconds, expected, strict=True):
            checked[f"vjp of vjp by {v}"] = (second, exact)
    arguments, arrays = call_arguments(
        (expression, cotangent, *variables, *directions[: None if order == 2 else 0]), values_
    )
    derived = tuple(result for result, _ in checked.values())
    for backend, keep in kernels:
        kernel = lambdify(tuple(arguments), derived, backend, temporaries=keep)
        for got, (name, (_, exact)) in zip(kernel(*arrays), checked.items(), strict=True):
            assert_equal(got, to_double(exact), f"{name} on {backend}, temporaries={keep}", rtol)


def assert_second_exact(
    expression: Expr,
    wrt: Expr,
    sizes: Mapping[Any, int] | None = None,
    seed: int = 0,
    *,
    second: Expr | None = None,
    values: Mapping[Any, Any] | None = None,
    backends: Sequence[str] = ("numpy",),
    low: float = -2,
    high: float = 2,
    rtol: float = 1e-9,
) -> None:
    """Check the second derivatives of an expression contracted with a cotangent.

    By one variable ``hessian`` and ``hvp``, by two ``jacobian`` and ``vjp`` of the gradient.

    Parameters are those of `assert_derivative_exact`; ``second`` is the variable that the gradient
    is differentiated by, ``wrt`` where it is left out.
    """
    second = wrt if second is None else second
    cotangent, values_ = pullback_problem(expression, sympy.Tuple(wrt, second), sizes, seed, values, low, high)
    scalar = as_scalar(expression, cotangent)
    expected = exact_hessian(scalar, wrt, values_, second=second)
    direction = TensorSymbol("direction", shape_of(wrt))
    values_ |= random_values(direction, values_, seed + 1)
    along = contract(np.asarray(values_[direction], dtype=object), expected)
    if second == wrt:
        results = hessian(scalar, wrt), hvp(scalar, wrt, direction)
    else:
        slope = gradient(scalar, wrt)
        results = jacobian(slope, second), vjp(slope, second, direction)
    checked = (
        (f"second derivative with respect to {wrt} and {second}", expected),
        (f"hvp by {wrt} and {second}", along),
    )
    for got, (name, exact) in zip(evaluate(results, values_), checked, strict=True):
        assert_equal(got, exact, name)
    for backend in backends:
        arguments, arrays = call_arguments((scalar, direction, wrt, second), values_)
        kernel = lambdify(tuple(arguments), results, backend=backend)
        for got, (name, exact) in zip(kernel(*arrays), checked, strict=True):
            assert_equal(got, to_double(exact), f"{name} on {backend}", rtol)
