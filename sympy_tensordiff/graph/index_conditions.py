"""Conditions on indices as combinations of linear relations, which are rows.

``Abs(f) <= g``, ``Max(f, g) < h``, ``f**2 <= 4``, ``f*g > 0`` and relations with signs, deltas and cases of indices
become `And`, `Or` and `Not` of relations between linear forms, over the integers: ``f**2 <= 5`` is ``-2 <= f <= 2``.
What is none stays as it is: a condition on values. The cases that a reader makes of the result do not overlap,
since it decides one relation after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import ceil, floor, isqrt, lcm
from typing import Any

import sympy
from sympy import (
    Abs,
    Add,
    And,
    Dummy,
    Eq,
    Heaviside,
    KroneckerDelta,
    Max,
    Min,
    Mul,
    Or,
    Piecewise,
    Pow,
    Rational,
    S,
    sign,
)
from sympy.core.relational import Relational

from sympy_tensordiff.symbolic.indices import is_data

RELATIONS_LIMIT = 12
"""A condition that consists of more relations once it is rewritten stays as it is."""

Test = Callable[[Any], bool]
Cases = list[tuple[Any, Any]]

_INDEX_PARTS = (
    *(Add, Mul, Pow, sympy.Rational, sympy.Symbol, sympy.Idx, sympy.floor, sympy.ceiling, sympy.frac, sympy.Mod),
    *(Abs, Max, Min, sign, Heaviside, KroneckerDelta, Piecewise, sympy.functions.elementary.piecewise.ExprCondPair),
    *(Relational, sympy.And, sympy.Or, sympy.Not, sympy.logic.boolalg.BooleanAtom),
)


def on_indices(expr: Any, integers: Collection[Any] = ()) -> bool:
    """Whether an expression or a condition is computed from integer symbols, data and rational numbers alone.

    ``integers`` are symbols that are integers though they are not declared so.
    """
    waiting, seen = [expr], {id(expr)}
    while waiting:
        part = waiting.pop()
        if isinstance(part, sympy.Idx) or is_data(part):
            continue
        if not isinstance(part, _INDEX_PARTS) or (part.is_Symbol and not part.is_integer and part not in integers):
            return False
        waiting += [arg for arg in part.args if id(arg) not in seen]
        seen.update(map(id, part.args))
    return True


def linear_condition(condition: Any, is_linear: Test, integers: Collection[Any] = ()) -> Any:
    """A condition with its relations on indices as combinations of linear ones, as far as there are such.

    >>> i, j = sympy.symbols("i j", integer=True)
    >>> def linear(expr): return expr.is_polynomial(i, j) and sympy.Poly(expr, i, j).total_degree() < 2
    >>> linear_condition(Abs(i - j) <= 2, linear)
    (-i + j + 2 >= 0) & (i - j + 2 >= 0)
    >>> linear_condition((Max(i, j) < 3) & (i**2 > 5), linear)
    ((i > 2) | (i < -2)) & (3 - i > 0) & (3 - j > 0)
    """
    given = linear_relations(condition, is_linear, integers)
    return condition.xreplace(given) if given else condition


def linear_relations(condition: Any, is_linear: Test, integers: Collection[Any]) -> dict[Any, Any]:
    """The relations on indices in a condition that are combinations of linear ones, and these, short ones first."""
    given: dict[Any, Any] = {}
    for relation in condition.atoms(Relational):
        if on_indices(relation, integers) and not _is_final(relation, is_linear):
            rewritten = _with_integer_symbols(relation, is_linear, integers)
            if rewritten is not None:
                given[relation] = rewritten
    order = sorted(given, key=lambda r: (len(given[r].atoms(Relational)), sympy.default_sort_key(r)))
    return {relation: given[relation] for relation in order}


def _with_integer_symbols(relation: Any, is_linear: Test, integers: Collection[Any]) -> Any:
    """The relation as `_rewritten`; what selects its data has no cases, for one of them may leave the data.

    Data, and symbols that SymPy is not told to be integers, have integer symbols for the time being.
    """
    undeclared = sorted(relation.free_symbols.intersection(integers), key=sympy.default_sort_key)
    given = {Dummy(integer=True): part for part in (*_data_in(relation), *undeclared)}
    plain = relation.xreplace({part: symbol for symbol, part in given.items()})
    result = _rewritten(plain, lambda expr: is_linear(expr.xreplace(given)))
    return None if result is None else result.xreplace(given)


def _data_in(relation: Any) -> list[Any]:
    """The entries of data in a relation, each once; those that select others are not looked for."""
    found: set[Any] = set()
    waiting = [relation]
    while waiting:
        part = waiting.pop()
        if is_data(part):
            found.add(part)
        else:
            waiting += part.args
    return sorted(found, key=sympy.default_sort_key)


def values_of(expr: Any) -> Cases | None:
    """The values of an indicator of indices with their conditions, the last one `true`; None of all else.

    >>> i = sympy.Symbol("i", integer=True)
    >>> values_of(sign(i))
    [(1, i > 0), (0, Eq(i, 0)), (-1, True)]
    """
    if isinstance(expr, sign):
        return [(S.One, expr.args[0] > 0), (S.Zero, Eq(expr.args[0], 0)), (S.NegativeOne, S.true)]
    if isinstance(expr, Heaviside) and expr.args[1] in (0, 1):
        return [(S.One, expr.args[0] >= 0 if expr.args[1] else expr.args[0] > 0), (S.Zero, S.true)]
    if isinstance(expr, Heaviside):
        return [(S.One, expr.args[0] > 0), (expr.args[1], Eq(expr.args[0], 0)), (S.Zero, S.true)]
    if isinstance(expr, KroneckerDelta) and len(expr.args) == 2:
        return [(S.One, Eq(*expr.args)), (S.Zero, S.true)]
    if isinstance(expr, Piecewise):
        return [(pair.expr, pair.cond) for pair in expr.args]
    return None


# ---------------------------------------------------------------------------- one relation


def _rewritten(relation: Any, is_linear: Test) -> Any:
    """The relation as a combination of linear ones; None where there is none, or a long one only."""
    result = _unevaluated(relation)
    final: set[Any] = set()

    def is_form(expr: Any) -> bool:
        return not expr.has(Abs, Max, Min) and is_linear(_released(expr))

    while len(relations := result.atoms(Relational)) <= RELATIONS_LIMIT:
        waiting = [r for r in relations if r not in final and not _is_final(r, is_form)]
        if not waiting:
            return _released(result)
        first = min(waiting, key=sympy.default_sort_key)
        step = _step(first, is_form)
        if step is not None:
            result = result.xreplace({first: step})
        elif is_form(first.lhs - first.rhs):
            final.add(first)
        else:
            return None
    return None


class _Unevaluated(sympy.Function):  # type: ignore[misc]
    """A rounded quotient or remainder that does not evaluate, as ``_Unevaluated(name, *args)``.

    SymPy 1.14 takes an even number over 6 for an integer, and so ``Mod(n + Max(0, 2*i), 6)`` for ``Mod(n, 6)``.
    """

    is_integer = True


_ROUNDING = {function.__name__: function for function in (sympy.floor, sympy.ceiling, sympy.Mod)}


def _unevaluated(expr: Any) -> Any:
    """The expression with stand-ins for what rounds a maximum or minimum, in which these can be replaced."""

    def holds(part: Any) -> bool:
        return type(part).__name__ in _ROUNDING and bool(part.has(Abs, Max, Min))

    return expr.replace(holds, lambda part: _Unevaluated(sympy.Symbol(type(part).__name__), *part.args))


def _released(expr: Any) -> Any:
    """The expression without stand-ins."""
    return expr.replace(
        lambda part: isinstance(part, _Unevaluated), lambda part: _ROUNDING[str(part.args[0])](*part.args[1:])
    )


def _is_final(relation: Any, is_linear: Test) -> bool:
    """Whether a relation is a row as it stands; a form with powers is one as well, but may be a simpler one."""
    return is_linear(relation.lhs - relation.rhs) and not relation.has(Pow)


def _step(relation: Any, is_linear: Test) -> Any:
    """The relation as a combination of simpler ones; None where it is not known how."""
    if isinstance(relation, sympy.Ne):
        return Or(relation.lhs > relation.rhs, relation.lhs < relation.rhs)
    if isinstance(relation, Eq):
        difference = relation.lhs - relation.rhs
        if (cases := _by_cases(difference)) is not None:
            return _joined(cases, lambda value: Eq(value, 0))
        if difference.is_Mul:
            return Or(*(Eq(factor, 0) for factor in difference.args if not factor.is_Number))
        return And(difference >= 0, difference <= 0)
    difference = relation.gts - relation.lts
    strict = isinstance(relation, sympy.StrictGreaterThan | sympy.StrictLessThan)

    def holds(value: Any) -> Any:
        return value > 0 if strict else value >= 0

    found = _of_extremum(difference, holds)
    if found is None:
        found = _of_power(difference, strict, is_linear)
    if found is None and (product := _as_product(difference)) is not None:
        one, other = product
        found = Or(And(holds(one), holds(other)), And(holds(-one), holds(-other)))
    if found is None and (cases := _by_cases(difference)) is not None:
        found = _joined(cases, holds)
    return found


def _of_extremum(difference: Any, holds: Callable[[Any], Any]) -> Any:
    """``g - Max(a, b)`` is positive where ``g - a`` and ``g - b`` are, ``Max(a, b) - g`` where one of them is."""
    for term in Add.make_args(difference):
        factor, extremum = term.as_coeff_Mul()
        if isinstance(extremum, Abs | Max | Min):
            args = (extremum.args[0], -extremum.args[0]) if isinstance(extremum, Abs) else extremum.args
            rest = difference - term
            join = Or if bool(factor > 0) is not isinstance(extremum, Min) else And
            return join(*(holds(rest + factor * arg) for arg in args))
    return None


def _of_power(difference: Any, strict: bool, is_linear: Test) -> Any:
    """``c - f**n`` and ``f**n - c`` with numbers ``c`` and ``n`` by integer roots."""
    constant, rest = difference.as_coeff_Add()
    factor, power = rest.as_coeff_Mul()
    if not isinstance(power, Pow) or not power.exp.is_Integer or power.exp < 2:
        return None
    if not power.base.is_integer and not is_linear(power.base):
        return None
    exponent = int(power.exp)
    base = sympy.expand(power.base)
    scale = lcm(*(int(c.q) for c in base.as_coefficients_dict().values()))
    base = sympy.expand(scale * base)
    limit = Rational(-constant, factor) * scale**exponent
    if factor < 0:  # base**n <= limit
        most = ceil(limit) - 1 if strict else floor(limit)
        if exponent % 2:
            return base <= _root(most, exponent)
        return And(base <= _root(most, exponent), base >= -_root(most, exponent)) if most >= 0 else S.false
    most = floor(limit) if strict else ceil(limit) - 1  # base**n > most
    if exponent % 2:
        return base > _root(most, exponent)
    return Or(base > _root(most, exponent), base < -_root(most, exponent)) if most >= 0 else S.true


def _root(value: int, exponent: int) -> int:
    """The greatest integer whose power is at most ``value``; the exponent is odd where that is negative."""
    if exponent == 2:
        return isqrt(value)
    if value >= 0:
        return int(sympy.integer_nthroot(value, exponent)[0])
    root, exact = sympy.integer_nthroot(-value, exponent)
    return -int(root) - (not exact)


def _as_product(difference: Any) -> tuple[Any, Any] | None:
    """Two factors, of a difference of squares too; None where it is no product."""
    if difference.is_Add and len(difference.args) == 2:
        (c, one), (d, other) = (term.as_coeff_Mul() for term in difference.args)
        if c == -d and all(isinstance(p, Pow) and p.exp == 2 for p in (one, other)):
            return c * (one.base - other.base), one.base + other.base
    if isinstance(difference, Pow) and difference.exp.is_Integer and difference.exp > 1:
        return difference.base, difference.base ** (difference.exp - 1)
    product = difference.as_coeff_Mul()[1]
    return (product.args[0], difference / product.args[0]) if product.is_Mul else None


# ---------------------------------------------------------------------------- one value after the other


def _by_cases(expr: Any) -> Cases | None:
    """An expression by the cases of one choice in it; None where it holds none."""
    choices = expr.atoms(sign, Heaviside, KroneckerDelta, Piecewise) or expr.atoms(Abs, Max, Min)
    if not choices:
        return None
    choice = min(choices, key=lambda c: (c.count_ops(), sympy.default_sort_key(c)))
    cases = values_of(choice)
    if cases is None:
        args = (choice.args[0], -choice.args[0]) if isinstance(choice, Abs) else choice.args
        sense = -1 if isinstance(choice, Min) else 1
        cases = [(arg, And(*(sense * (arg - other) >= 0 for other in args))) for arg in args[:-1]]
        cases.append((args[-1], S.true))
    return [(expr.xreplace({choice: value}), condition) for value, condition in cases]


def _joined(cases: Cases, holds: Callable[[Any], Any]) -> Any:
    """Whether something holds of the value in the first case that is met."""
    result, before = S.false, S.true
    for value, condition in cases:
        result = Or(result, And(before, condition, holds(value)))
        before = And(before, sympy.Not(condition))
    return result
