"""Values of SymPy's own notation by plain loops over fractions, sums and products as Karr's: an oracle for `lift`."""

import math
from fractions import Fraction

import sympy
from sympy import Indexed, KroneckerDelta, Piecewise, Sum

PLAIN = {
    sympy.Max: max,
    sympy.Min: min,
    sympy.Abs: abs,
    sympy.floor: math.floor,
    sympy.ceiling: math.ceil,
    sympy.sign: lambda v: (v > 0) - (v < 0),
    sympy.Mod: lambda a, b: a % b,
    sympy.Gt: lambda a, b: a > b,
    sympy.Ge: lambda a, b: a >= b,
    sympy.Lt: lambda a, b: a < b,
    sympy.Le: lambda a, b: a <= b,
    sympy.Eq: lambda a, b: a == b,
    sympy.Ne: lambda a, b: a != b,
    sympy.And: lambda *v: all(v),
    sympy.Or: lambda *v: any(v),
    sympy.Not: lambda v: not v,
}


def native_value(expr, arrays, env):
    """The number that a native expression stands for.

    ``arrays`` maps names of bases to nested lists, ``env`` symbols to numbers. A read outside of an
    array raises `IndexError`; behind a false condition, or times a delta that is 0, it does not happen.
    """
    for kind, rule in RULES.items():
        if isinstance(expr, kind):
            return rule(expr, lambda part: native_value(part, arrays, env), arrays, env)
    return PLAIN[expr.func](*(native_value(arg, arrays, env) for arg in expr.args))


def entry(expr, at, arrays, env):
    value = arrays[str(expr.base.label)]
    for index in map(at, expr.indices):
        if index.denominator != 1 or not 0 <= index < len(value):
            raise IndexError(f"{expr} at {env}")
        value = value[int(index)]
    return Fraction(value)


def product(expr, at, arrays, env):
    deltas = [factor for factor in expr.args if isinstance(factor, KroneckerDelta)]
    return math.prod(map(at, expr.args)) if all(map(at, deltas)) else Fraction(0)


def power(expr, at, arrays, env):
    base, exponent = map(at, expr.args)
    assert exponent.denominator == 1
    return base ** int(exponent)


def delta(expr, at, arrays, env):
    i, j = map(at, expr.args[:2])
    inside = len(expr.args) < 3 or at(expr.args[2][0]) <= i <= at(expr.args[2][1])
    return Fraction(i == j and inside)


def choice(expr, at, arrays, env):
    return at(expr.args[1] if at(expr.args[0]) else expr.args[2])


def total(expr, at, arrays, env):
    def add(values):
        return sum(values, Fraction(0))

    return karr(expr.function, list(expr.limits), arrays, env, add, lambda value: -value)


def repeated_product(expr, at, arrays, env):
    def multiply(values):
        return math.prod(values, start=Fraction(1))

    return karr(expr.function, list(expr.limits), arrays, env, multiply, lambda value: 1 / value)


RULES = {
    sympy.Rational: lambda expr, at, arrays, env: Fraction(int(expr.p), int(expr.q)),
    (type(sympy.true), type(sympy.false)): lambda expr, at, arrays, env: bool(expr),
    (sympy.Symbol, sympy.Idx): lambda expr, at, arrays, env: Fraction(env[expr]),
    Indexed: entry,
    sympy.Add: lambda expr, at, arrays, env: sum(map(at, expr.args)),
    sympy.Mul: product,
    sympy.Pow: power,
    KroneckerDelta: delta,
    Piecewise: lambda expr, at, arrays, env: next(at(value) for value, condition in expr.args if at(condition)),
    sympy.ITE: choice,
    Sum: total,
    sympy.Product: repeated_product,
}


def karr(body, limits, arrays, env, reduce, opposite):
    """A sum or a product; where the upper bound lies below the lower one, the opposite of what lies between."""
    if not limits:
        return native_value(body, arrays, env)
    *inner, (index, low, high) = limits
    low, high = (int(native_value(bound, arrays, env)) for bound in (low, high))
    values = range(low, high + 1) if high >= low - 1 else range(high + 1, low)
    result = reduce(karr(body, inner, arrays, {**env, index: v}, reduce, opposite) for v in values)
    return result if high >= low - 1 else opposite(result)
