"""How the interpreter reads SymPy's own nodes: arithmetic, functions, conditions, functions given as formulas.

A rule takes the function that compiles a node and the node, and gives the node's closure: a
function of the environment (the values of all symbols in force), called once per index tuple.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from typing import Any, TypeAlias

import sympy
from sympy import Basic, Dummy, Expr
from sympy.codegen.cfunctions import Cbrt, hypot
from sympy.core.function import AppliedUndef

from sympy_tensordiff.errors import ArgumentTypeError, OutOfShapeError, UnsupportedError
from sympy_tensordiff.graph.index_conditions import on_indices
from sympy_tensordiff.reference import duals
from sympy_tensordiff.reference.duals import CONTEXT, Number
from sympy_tensordiff.symbolic.indices import integers_by_use
from sympy_tensordiff.symbolic.scalar_functions import log1mexp, sigmoid, softplus, xlogy
from sympy_tensordiff.symbolic.tensors import TensorEntry, TensorSymbol

Environment: TypeAlias = Mapping[Basic, Number]
Compiled: TypeAlias = Callable[[Environment], Number]
Compile: TypeAlias = Callable[[Basic], Compiled]
Rule: TypeAlias = Callable[[Compile, Any], Compiled]

Implementations = Mapping[Any, sympy.Lambda]

# Only for speed: any other function is evaluated by SymPy.
_NAMES = ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2", "erf")
_DIRECT = {name: getattr(CONTEXT, name) for name in _NAMES}


def _spherical_bessel(order: Number, at: Number) -> Number:
    """Return the spherical Bessel function of the first kind, which SymPy gives no number for."""
    if at == 0:
        return CONTEXT.mpf(order == 0)
    value = CONTEXT.sqrt(CONTEXT.pi / (2 * abs(at))) * CONTEXT.besselj(order + CONTEXT.mpf(0.5), abs(at))
    return -value if at < 0 and order % 2 == 1 else value


_DIRECT["jn"] = _spherical_bessel


def _constant(compile_: Compile, node: Expr) -> Compiled:
    value: Number
    if isinstance(node, sympy.Integer):
        value = int(node)
    elif isinstance(node, sympy.Rational):
        value = Fraction(int(node.p), int(node.q))
    elif node is sympy.oo or node is -sympy.oo:
        value = CONTEXT.inf if node is sympy.oo else -CONTEXT.inf
    elif node is sympy.nan or node is sympy.zoo:
        value = CONTEXT.nan
    else:
        value = CONTEXT.make_mpf(sympy.Float(node, CONTEXT.dps)._mpf_)
    return lambda env: value


def _multiply(compile_: Compile, node: Expr) -> Compiled:
    # Where a condition on indices or data makes its own factor 0 the product is 0, whatever the others read.
    factors = [compile_(arg) for arg in node.args]
    choices = [factor for factor, arg in zip(factors, node.args, strict=True) if _is_choice(arg)]
    zeros = [lambda env, choice=choice: duals.is_exact_zero(choice(env)) for choice in choices]

    def run(env: Environment) -> Number:
        if _any_decides(zeros, True, env):
            return 0
        return reduce(duals.multiply, [factor(env) for factor in factors])

    return run


def _is_choice(factor: Expr) -> bool:
    """Whether indices and data, which are no values of tensors, decide if a factor is 0."""
    conditions = [condition for _, condition in factor.args] if isinstance(factor, sympy.Piecewise) else []
    return isinstance(factor, sympy.KroneckerDelta) or (bool(conditions) and all(map(_is_of_indices, conditions)))


def _is_of_indices(condition: Basic) -> bool:
    return not condition.has(TensorEntry, TensorSymbol) or on_indices(condition, integers_by_use([condition]))


def _any_decides(conditions: Sequence[Compiled], decisive: bool, env: Environment) -> bool:
    """Whether one of several conditions is the decisive one; what others read outside counts where none is."""
    outside = None
    for condition in conditions:
        try:
            if bool(condition(env)) is decisive:
                return True
        except OutOfShapeError as error:
            outside = outside or error
    if outside is not None:
        raise outside
    return False


def _piecewise(compile_: Compile, node: Expr) -> Compiled:
    pieces = [(compile_(value), compile_(condition)) for value, condition in node.args]

    def run(env: Environment) -> Number:
        for value, condition in pieces:
            if condition(env):
                return value(env)
        return CONTEXT.nan

    return run


def _connective(decisive: bool) -> Rule:
    def rule(compile_: Compile, node: Expr) -> Compiled:
        arguments = [compile_(arg) for arg in node.args]
        return lambda env: _any_decides(arguments, decisive, env) is decisive

    return rule


def _extremum(direction: int) -> Rule:
    def rule(compile_: Compile, node: Expr) -> Compiled:
        arguments = [compile_(arg) for arg in node.args]
        literal = [bool(arg.is_number) for arg in node.args]
        return lambda env: duals.extremum([a(env) for a in arguments], literal, direction)

    return rule


def _by(function: Callable[..., Any], count: int | None = None) -> Rule:
    """The rule that applies a function of numbers to the arguments, or to the first of them."""

    def rule(compile_: Compile, node: Expr) -> Compiled:
        arguments = [compile_(arg) for arg in node.args[:count]]
        return lambda env: function(*[a(env) for a in arguments])

    return rule


def _as(formula: Callable[..., Expr]) -> Rule:
    """The rule of a function that is a formula of others."""
    return lambda compile_, node: compile_(formula(*node.args))


def _relation(holds: Callable[[int, int], bool]) -> Rule:
    return _by(lambda left, right: holds(duals.compare(left, right), 0))


def _power(compile_: Compile, node: Expr) -> Compiled:
    base, exponent = node.args
    if base is sympy.zoo:  # what SymPy makes of 0**(-exponent), which is 1 where the exponent is 0
        base, exponent = sympy.S.Zero, -exponent
    arguments = compile_(base), compile_(exponent)
    return lambda env: duals.power(*(a(env) for a in arguments))


def _function(compile_: Compile, node: Expr) -> Compiled:
    if isinstance(node, sympy.DiracDelta):
        raise UnsupportedError(f"the reference interpreter has no value for {node.func}: {node}")
    kind = node.func
    arguments = [compile_(arg) for arg in node.args]
    count = len(arguments)

    def value(numbers: Sequence[Number]) -> Number:
        if any(isinstance(number, duals.Dual) for number in numbers):
            return duals.chain(numbers, value, slope)
        return _evaluate(kind, [duals.to_float(number) for number in numbers])

    def slope(n: int, numbers: Sequence[Number]) -> Number:
        dummies, derivative = _partial(kind, count, n)
        return compile_(derivative)(dict(zip(dummies, numbers, strict=True)))

    return lambda env: value([a(env) for a in arguments])


def _evaluate(kind: Any, numbers: Sequence[Number]) -> Number:
    direct = _DIRECT.get(kind.__name__)
    if direct is not None:
        return duals.to_float(direct(*numbers))
    floats = [sympy.Float(number._mpf_, precision=CONTEXT.prec) for number in numbers]
    result = kind(*floats).evalf(CONTEXT.dps)
    if result.has(kind):
        result = result.expand(func=True).evalf(CONTEXT.dps)
    if not result.is_number or result.has(kind):
        raise UnsupportedError(f"SymPy gives no number for {kind.__name__}{tuple(floats)}")
    if result.is_real is False:
        return CONTEXT.nan
    return CONTEXT.make_mpf(sympy.Float(result, CONTEXT.dps)._mpf_)


@cache
def _partial(kind: Any, count: int, n: int) -> tuple[tuple[Dummy, ...], Expr]:
    """The partial derivative of a SymPy function by argument ``n``, as an expression in dummies."""
    dummies = tuple(Dummy(f"x{m}", real=True) for m in range(count))
    try:
        derivative = kind(*dummies).fdiff(n + 1)
    except (sympy.core.function.ArgumentIndexError, AttributeError, TypeError):
        derivative = sympy.Derivative(kind(*dummies), dummies[n]).doit()
    if derivative.has(sympy.Derivative, sympy.Subs, sympy.Integral):
        raise UnsupportedError(f"SymPy has no derivative of {kind.__name__} by argument {n + 1}")
    return dummies, derivative


def _levi_civita(*numbers: Number) -> Number:
    if any(number != int(number) for number in numbers):
        raise UnsupportedError(f"SymPy gives no number for LeviCivita{numbers}")
    return int(sympy.LeviCivita(*map(int, numbers)))


SCALAR_RULES: dict[type, Rule] = {
    sympy.Number: _constant,
    sympy.NumberSymbol: _constant,
    type(sympy.zoo): _constant,
    sympy.Add: _by(lambda *terms: reduce(duals.add, terms, 0)),
    sympy.Mul: _multiply,
    sympy.Pow: _power,
    sympy.KroneckerDelta: _by(lambda left, right: int(duals.compare(left, right) == 0), 2),
    sympy.Piecewise: _piecewise,
    sympy.Max: _extremum(1),
    sympy.Min: _extremum(-1),
    sympy.Abs: _by(duals.absolute),
    sympy.sign: _by(duals.sign),
    sympy.floor: _by(duals.floor),
    sympy.Mod: _by(duals.modulo),
    sympy.LeviCivita: _by(_levi_civita),
    sympy.Heaviside: _by(duals.heaviside),
    Cbrt: _as(lambda x: sympy.sign(x) * sympy.Abs(x) ** sympy.Rational(1, 3)),
    hypot: _as(lambda x, y: sympy.sqrt(x**2 + y**2)),
    **dict.fromkeys((sigmoid, softplus), lambda compile_, node: compile_(node.rewrite(sympy.exp))),
    log1mexp: lambda compile_, node: compile_(node.rewrite(sympy.exp)),
    xlogy: lambda compile_, node: compile_(node.rewrite(sympy.log)),
    **dict.fromkeys((sympy.ceiling, sympy.frac), lambda compile_, node: compile_(node.rewrite(sympy.floor))),
    sympy.Function: _function,
    sympy.Eq: _relation(operator.eq),
    sympy.Ne: _relation(operator.ne),
    sympy.Lt: _relation(operator.lt),
    sympy.Le: _relation(operator.le),
    sympy.Gt: _relation(operator.gt),
    sympy.Ge: _relation(operator.ge),
    sympy.And: _connective(False),
    sympy.Or: _connective(True),
    sympy.Not: _by(operator.not_),
    sympy.ITE: lambda compile_, node: compile_(node.to_nnf(simplify=False)),
    sympy.Xor: _by(lambda *held: sum(map(bool, held)) % 2 == 1),
    sympy.Equivalent: _by(lambda *held: len(set(map(bool, held))) < 2),
    sympy.Implies: _by(lambda held, follows: follows or not held),
    type(sympy.true): lambda compile_, node: lambda env: True,
    type(sympy.false): lambda compile_, node: lambda env: False,
}


# ---------------------------------------------------------------------------- functions that are given as formulas


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
