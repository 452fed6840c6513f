"""Functions without a rule of their own: those of the user, given as `sympy.Lambda`, and derivatives of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import Basic
from sympy.core.function import AppliedUndef

from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError
from sympy_tensordiff.reference.scalars import Compile, Compiled

Implementations = Mapping[Any, sympy.Lambda]


def take_functions(values: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[Any, sympy.Lambda]]:
    """The values of symbols, and those of undefined functions (the keys are the functions themselves)."""
    functions = {key: value for key, value in values.items() if isinstance(key, sympy.core.function.UndefinedFunction)}
    for function, value in functions.items():
        if not isinstance(value, sympy.Lambda):
            raise ArgumentTypeError(f"the value of the function {function} must be a sympy.Lambda, not {value!r}")
    return {key: value for key, value in values.items() if key not in functions}, functions


def compile_function(compile_: Compile, functions: Implementations, node: Basic) -> Compiled | None:
    """The closure of an applied function, a ``Derivative`` of one or a ``Subs``; None for any other node."""
    if isinstance(node, sympy.Subs):
        return _subs(compile_, node)
    applied = node.expr if isinstance(node, sympy.Derivative) else node
    if not isinstance(applied, AppliedUndef):
        return None
    if applied.func not in functions:
        raise UnsupportedError(f"the reference interpreter has no value for {applied.func}: {applied}")
    parameters = [sympy.Dummy(f"x{n}", real=True) for n in range(len(applied.args))]
    formula = functions[applied.func](*parameters)
    if isinstance(node, sympy.Derivative):
        for variable, times in node.variable_count:
            places = [n for n, arg in enumerate(applied.args) if arg == variable]
            if len(places) != 1:
                raise UnsupportedError(f"the reference interpreter cannot tell the argument {variable} of {node}")
            formula = formula.diff((parameters[places[0]], times))
    body, arguments = compile_(formula), [compile_(arg) for arg in applied.args]
    return lambda env: body({p: a(env) for p, a in zip(parameters, arguments, strict=True)})


def _subs(compile_: Compile, node: sympy.Subs) -> Compiled:
    # The variables are bound: another name keeps them apart from the symbols around.
    fresh = [sympy.Dummy(str(v), **v.assumptions0) for v in node.variables]
    body = compile_(node.expr.xreplace(dict(zip(node.variables, fresh, strict=True))))
    points = [compile_(point) for point in node.point]
    return lambda env: body({**env, **{v: p(env) for v, p in zip(fresh, points, strict=True)}})
