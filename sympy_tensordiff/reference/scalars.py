"""Rules of the interpreter for SymPy's own nodes: arithmetic, functions, conditions, functions given as formulas.

A rule takes the function that compiles nodes, and a node. It returns a closure: a function of the environment (the
values of all symbols in scope), called once for each index tuple.
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
from sympy_tensordiff.functions.table import ELEMENTARY_ERROR, record_of
from sympy_tensordiff.reference import duals
from sympy_tensordiff.reference.duals import CONTEXT, Number
from sympy_tensordiff.symbolic.expressions.integer_symbols import integers_by_use
from sympy_tensordiff.symbolic.index_notation.index_conditions import on_indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import log1mexp, sigmoid, softplus, xlogy

SymbolValues: TypeAlias = Mapping[Basic, Number]
Compiled: TypeAlias = Callable[[SymbolValues], Number]
CompileSubexpression: TypeAlias = Callable[[Basic], Compiled]
ScalarRule: TypeAlias = Callable[[CompileSubexpression, Any], Compiled]

Implementations = Mapping[Any, sympy.Lambda]


def _spherical_bessel(order: Number, at: Number) -> Number:
    """Return the value at `at` of the spherical Bessel function of the first kind and this ``order``, which SymPy
    cannot evaluate.
    """
    if at == 0:
        return CONTEXT.mpf(order == 0)
    value = CONTEXT.sqrt(CONTEXT.pi / (2 * abs(at))) * CONTEXT.besselj(order + CONTEXT.mpf(0.5), abs(at))
    return -value if at < 0 and order % 2 == 1 else value


def _compile_constant(compile_: CompileSubexpression, node: Expr) -> Compiled:
    """Return a function that evaluates a number, an infinity or NaN. ``compile_`` is not used."""
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


def _compile_product(compile_: CompileSubexpression, node: Expr) -> Compiled:
    """Return a function that evaluates the product `node`, whose factors ``compile_`` compiles. If a factor is 0
    because of a condition on indices, the result is 0 and the other factors are not evaluated.
    """
    factors = [compile_(arg) for arg in node.args]
    choices = [factor for factor, arg in zip(factors, node.args, strict=True) if _is_index_condition_factor(arg)]
    zeros = [lambda env, choice=choice: duals.is_exact_zero(choice(env)) for choice in choices]

    def run(env: SymbolValues) -> Number:
        """Return the value of the product for the values ``env`` of symbols. It is 0, and the other factors are not
        evaluated, if one of ``zeros``, factors that are conditions on indices, is 0.
        """
        if _any_is_decisive(zeros, True, env):
            return 0
        return reduce(duals.multiply, [factor(env) for factor in factors])

    return run


def _is_index_condition_factor(factor: Expr) -> bool:
    """Return whether ``factor`` is a `KroneckerDelta` or a `Piecewise` whose conditions depend on indices and integer
    tensors only.
    """
    conditions = [condition for _, condition in factor.args] if isinstance(factor, sympy.Piecewise) else []
    return isinstance(factor, sympy.KroneckerDelta) or (
        bool(conditions) and all(map(_depends_on_indices_only, conditions))
    )


def _depends_on_indices_only(condition: Basic) -> bool:
    """Return whether ``condition`` depends on indices and integer tensors only, and not on real values."""
    return not condition.has(TensorEntry, TensorSymbol) or on_indices(condition, integers_by_use([condition]))


def _any_is_decisive(conditions: Sequence[Compiled], decisive: bool, env: SymbolValues) -> bool:
    """Return whether any of the ``conditions`` has the truth value ``decisive`` for the values ``env`` of symbols: True
    decides an "or", False an "and". An out-of-bounds error in a condition is raised only if no other condition is
    decisive.
    """
    error_of_read = None
    for condition in conditions:
        try:
            if bool(condition(env)) is decisive:
                return True
        except OutOfShapeError as error:
            error_of_read = error_of_read or error
    if error_of_read is not None:
        raise error_of_read
    return False


def _compile_piecewise(compile_: CompileSubexpression, node: Expr) -> Compiled:
    """Return a function that evaluates a `Piecewise`: the value of the first branch whose condition is true, or NaN.
    ``compile_`` returns the functions for its subexpressions.
    """
    pieces = [(compile_(value), compile_(condition)) for value, condition in node.args]

    def run(env: SymbolValues) -> Number:
        """Return the value of the first branch whose condition is true at the values ``env`` of symbols."""
        for value, condition in pieces:
            if condition(env):
                return value(env)
        return CONTEXT.nan

    return run


def _connective_rule(decisive: bool) -> ScalarRule:
    """Return the rule that compiles ``And`` (``decisive`` False) or ``Or`` (True) to a Python function."""

    def rule(compile_: CompileSubexpression, node: Expr) -> Compiled:
        """Return a function that evaluates the "and" or "or" `node`, and stops at the first condition that decides the
        result.
        """
        arguments = [compile_(arg) for arg in node.args]
        return lambda env: _any_is_decisive(arguments, decisive, env) is decisive

    return rule


def _extremum_rule(direction: int) -> ScalarRule:
    """Return the rule that compiles ``Max`` (``direction`` 1) or ``Min`` (-1) to a Python function."""

    def rule(compile_: CompileSubexpression, node: Expr) -> Compiled:
        """Return a function that evaluates the maximum or minimum `node`, whose arguments ``compile_`` compiles."""
        arguments = [compile_(arg) for arg in node.args]
        literal = [bool(arg.is_number) for arg in node.args]
        return lambda env: duals.extremum([a(env) for a in arguments], literal, direction)

    return rule


def _function_rule(function: Callable[..., Any], count: int | None = None) -> ScalarRule:
    """Return the rule that compiles a call to a function: it applies ``function`` to the numbers of the first ``count``
    arguments (None: all).
    """

    def rule(compile_: CompileSubexpression, node: Expr) -> Compiled:
        """Return a function that evaluates the call `node`, given the values of symbols: it calls the enclosing
        function's ``function`` with the values of the first ``count`` arguments of `node`.
        """
        arguments = [compile_(arg) for arg in node.args[:count]]
        return lambda env: function(*[a(env) for a in arguments])

    return rule


def _formula_rule(formula: Callable[..., Expr]) -> ScalarRule:
    """Return the rule that compiles a function defined by others: it compiles the expression ``formula(*arguments)`` in
    place of the call.
    """
    return lambda compile_, node: compile_(formula(*node.args))


def _relation_rule(holds: Callable[[int, int], bool]) -> ScalarRule:
    """Return the rule that compiles a comparison such as ``a < b``: ``holds(sign, 0)`` decides it from the sign of ``a
    - b``.
    """
    return _function_rule(lambda left, right: holds(duals.compare(left, right), 0))


def _compile_power(compile_: CompileSubexpression, node: Expr) -> Compiled:
    """Return a function that evaluates the power ``node``. ``compile_`` does the same for its base and exponent."""
    base, exponent = node.args
    if base is sympy.zoo:  # SymPy rewrites 0**(-exponent) to it, which is 1 for the exponent 0
        base, exponent = sympy.S.Zero, -exponent
    arguments = compile_(base), compile_(exponent)
    return lambda env: duals.power(*(a(env) for a in arguments))


def _compile_function_call(compile_: CompileSubexpression, node: Expr) -> Compiled:
    """Return a function that evaluates `node`, a call of a SymPy function, and its derivatives by SymPy's rules. Raise
    `UnsupportedError` for `DiracDelta`, which has no values.

    ``compile_`` returns the functions for its arguments.
    """
    if isinstance(node, sympy.DiracDelta):
        raise UnsupportedError(f"the reference interpreter has no value for {node.func}: {node}")
    function = node.func
    arguments = [compile_(arg) for arg in node.args]
    count = len(arguments)

    def value(numbers: Sequence[Number]) -> Number:
        """Return the value of the enclosing ``function``, a SymPy function, at its arguments ``numbers``. If an
        argument is a dual number (a number with derivatives), so is the result, by the chain rule.
        """
        if any(isinstance(number, duals.Dual) for number in numbers):
            return duals.apply_chain_rule(numbers, value, slope)
        return _evaluate_at_floats(function, [duals.to_float(number) for number in numbers])

    def slope(n: int, numbers: Sequence[Number]) -> Number:
        """Return the partial derivative, with respect to argument number ``n``, of the function that the enclosing
        function compiles, at the arguments ``numbers``.
        """
        dummies, derivative = _partial_derivative(function, count, n)
        return compile_(derivative)(dict(zip(dummies, numbers, strict=True)))

    return lambda env: value([a(env) for a in arguments])


def _evaluate_at_floats(function: Any, numbers: Sequence[Number]) -> Number:
    """Return the value of a SymPy function at ``numbers``, 30-digit floats, by mpmath or SymPy; NaN if it is complex.
    Raise `UnsupportedError` if neither can evaluate it.
    """
    # For speed only: SymPy evaluates the other functions.
    record = record_of(function)
    direct = getattr(CONTEXT, record.c_name, None) if record.error == ELEMENTARY_ERROR else None
    direct = _spherical_bessel if function is sympy.jn else direct
    if direct is not None:
        return duals.to_float(direct(*numbers))
    floats = [sympy.Float(number._mpf_, precision=CONTEXT.prec) for number in numbers]
    result = function(*floats).evalf(CONTEXT.dps)
    if result.has(function):
        result = result.expand(func=True).evalf(CONTEXT.dps)
    if not result.is_number or result.has(function):
        raise UnsupportedError(f"SymPy gives no number for {function.__name__}{tuple(floats)}")
    if result.is_real is False:
        return CONTEXT.nan
    return CONTEXT.make_mpf(sympy.Float(result, CONTEXT.dps)._mpf_)


@cache
def _partial_derivative(function: Any, count: int, n: int) -> tuple[tuple[Dummy, ...], Expr]:
    """Return ``(dummies, derivative)``: symbols for the ``count`` arguments of a SymPy function, and its derivative
    with respect to argument ``n``, written in them. Raise `UnsupportedError` if SymPy has none.
    """
    dummies = tuple(Dummy(f"x{m}", real=True) for m in range(count))
    try:
        derivative = function(*dummies).fdiff(n + 1)
    except (sympy.core.function.ArgumentIndexError, AttributeError, TypeError):
        derivative = sympy.Derivative(function(*dummies), dummies[n]).doit()
    if derivative.has(sympy.Derivative, sympy.Subs, sympy.Integral):
        raise UnsupportedError(f"SymPy has no derivative of {function.__name__} by argument {n + 1}")
    return dummies, derivative


def _levi_civita(*numbers: Number) -> Number:
    """Return the Levi-Civita symbol of integers; raise `UnsupportedError` for other numbers."""
    if any(number != int(number) for number in numbers):
        raise UnsupportedError(f"SymPy gives no number for LeviCivita{numbers}")
    return int(sympy.LeviCivita(*map(int, numbers)))


SCALAR_RULES: dict[type, ScalarRule] = {
    sympy.Number: _compile_constant,
    sympy.NumberSymbol: _compile_constant,
    type(sympy.zoo): _compile_constant,
    sympy.Add: _function_rule(lambda *terms: reduce(duals.add, terms, 0)),
    sympy.Mul: _compile_product,
    sympy.Pow: _compile_power,
    sympy.KroneckerDelta: _function_rule(lambda left, right: int(duals.compare(left, right) == 0), 2),
    sympy.Piecewise: _compile_piecewise,
    sympy.Max: _extremum_rule(1),
    sympy.Min: _extremum_rule(-1),
    sympy.Abs: _function_rule(duals.absolute),
    sympy.sign: _function_rule(duals.sign),
    sympy.floor: _function_rule(duals.floor),
    sympy.Mod: _function_rule(duals.modulo),
    sympy.LeviCivita: _function_rule(_levi_civita),
    sympy.Heaviside: _function_rule(duals.heaviside),
    Cbrt: _formula_rule(lambda x: sympy.sign(x) * sympy.Abs(x) ** sympy.Rational(1, 3)),
    hypot: _formula_rule(lambda x, y: sympy.sqrt(x**2 + y**2)),
    **dict.fromkeys((sigmoid, softplus), lambda compile_, node: compile_(node.rewrite(sympy.exp))),
    log1mexp: lambda compile_, node: compile_(node.rewrite(sympy.exp)),
    xlogy: lambda compile_, node: compile_(node.rewrite(sympy.log)),
    **dict.fromkeys((sympy.ceiling, sympy.frac), lambda compile_, node: compile_(node.rewrite(sympy.floor))),
    sympy.Function: _compile_function_call,
    sympy.Eq: _relation_rule(operator.eq),
    sympy.Ne: _relation_rule(operator.ne),
    sympy.Lt: _relation_rule(operator.lt),
    sympy.Le: _relation_rule(operator.le),
    sympy.Gt: _relation_rule(operator.gt),
    sympy.Ge: _relation_rule(operator.ge),
    sympy.And: _connective_rule(False),
    sympy.Or: _connective_rule(True),
    sympy.Not: _function_rule(operator.not_),
    sympy.ITE: lambda compile_, node: compile_(node.to_nnf(simplify=False)),
    sympy.Xor: _function_rule(lambda *operands: sum(map(bool, operands)) % 2 == 1),
    sympy.Equivalent: _function_rule(lambda *operands: len(set(map(bool, operands))) < 2),
    sympy.Implies: _function_rule(lambda operands, follows: follows or not operands),
    type(sympy.true): lambda compile_, node: lambda env: True,
    type(sympy.false): lambda compile_, node: lambda env: False,
}


# ---------------------------------------------------------------------------- functions that are given as formulas


def split_off_functions(values: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[Any, sympy.Lambda]]:
    """Split the user's ``values`` into those of symbols and those of undefined functions; raise `ArgumentTypeError` if
    the latter are not `sympy.Lambda`.
    """
    functions = {key: value for key, value in values.items() if isinstance(key, sympy.core.function.UndefinedFunction)}
    for function, value in functions.items():
        if not isinstance(value, sympy.Lambda):
            raise ArgumentTypeError(f"the value of the function {function} must be a sympy.Lambda, not {value!r}")
    return {key: value for key, value in values.items() if key not in functions}, functions


def compile_function(compile_: CompileSubexpression, functions: Implementations, node: Basic) -> Compiled | None:
    """Return a function that evaluates a call of an undefined function, a ``Derivative`` of one or a ``Subs``; None for
    any other node. ``functions`` are the user's implementations; ``compile_`` returns the functions for subexpressions.
    """
    if isinstance(node, sympy.Subs):
        return _compile_subs(compile_, node)
    applied = node.expr if isinstance(node, sympy.Derivative) else node
    if not isinstance(applied, AppliedUndef):
        return None
    if applied.func not in functions:
        raise UnsupportedError(f"the reference interpreter has no value for {applied.func}: {applied}")
    parameters = [sympy.Dummy(f"x{n}", real=True) for n in range(len(applied.args))]
    formula = functions[applied.func](*parameters)
    if isinstance(node, sympy.Derivative):
        for variable, times in node.variable_count:
            positions = [n for n, arg in enumerate(applied.args) if arg == variable]
            if len(positions) != 1:
                raise UnsupportedError(f"the reference interpreter cannot tell the argument {variable} of {node}")
            formula = formula.diff((parameters[positions[0]], times))
    body, arguments = compile_(formula), [compile_(arg) for arg in applied.args]
    return lambda env: body({p: a(env) for p, a in zip(parameters, arguments, strict=True)})


def _compile_subs(compile_: CompileSubexpression, node: sympy.Subs) -> Compiled:
    """Return a function that evaluates a ``Subs``. Its bound variables are renamed first, to differ from all other
    symbols.
    """
    fresh = [sympy.Dummy(str(v), **v.assumptions0) for v in node.variables]
    body = compile_(node.expr.xreplace(dict(zip(node.variables, fresh, strict=True))))
    points = [compile_(point) for point in node.point]
    return lambda env: body({**env, **{v: p(env) for v, p in zip(fresh, points, strict=True)}})
