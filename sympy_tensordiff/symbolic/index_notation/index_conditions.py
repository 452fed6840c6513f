"""Conditions on indices as combinations of linear relations, which become constraints.

``Abs(f) <= g``, ``Max(f, g) < h``, ``f**2 <= 4``, ``f*g > 0`` and relations with signs, deltas and cases of indices
become `And`, `Or` and `Not` of relations between linear forms, over the integers: ``f**2 <= 5`` is ``-2 <= f <= 2``.
Other conditions stay as they are: conditions on values. The cases of the result are disjoint, since the reader decides
one relation after the other.
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

from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.indices import is_data

RELATIONS_LIMIT = 12
"""The most relations that a rewritten condition may consist of; with more it is not rewritten."""

Test = Callable[[Any], bool]
Cases = list[tuple[Any, Any]]

_INDEX_PARTS = (
    *(Add, Mul, Pow, sympy.Rational, sympy.Symbol, sympy.Idx, sympy.floor, sympy.ceiling, sympy.frac, sympy.Mod),
    *(Abs, Max, Min, sign, Heaviside, KroneckerDelta, Piecewise, sympy.functions.elementary.piecewise.ExprCondPair),
    *(Relational, sympy.And, sympy.Or, sympy.Not, sympy.logic.boolalg.BooleanAtom),
)


def on_indices(expr: Any, integers: Collection[Any] = ()) -> bool:
    """Return whether ``expr``, an expression or condition, depends only on integers: symbols declared so or in
    `integers`, and entries of integer tensors, but no real values.
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
    """Return ``condition`` with nonlinear relations between indices, such as ``i**2 < 9``, rewritten as combinations of
    linear ones where possible.

    ``is_linear(expr)`` says whether an expression is linear in the indices; symbols in ``integers`` count as integers.

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
    """Return a dictionary from the nonlinear relations between indices in `condition`, such as ``i**2 < 9``, to
    equivalent combinations of linear relations, if there are any; the shortest come first.

    ``is_linear(expr)`` tests a side of a relation; symbols in ``integers`` count as indices.
    """
    given: dict[Any, Any] = {}
    for relation in (part for part in nodes_in([condition]) if isinstance(part, Relational)):
        if on_indices(relation, integers) and not _is_final(relation, is_linear):
            rewritten = _rewrite_with_integer_symbols(relation, is_linear, integers)
            if rewritten is not None:
                given[relation] = rewritten
    order = sorted(given, key=lambda r: (len(given[r].atoms(Relational)), sympy.default_sort_key(r)))
    return {relation: given[relation] for relation in order}


def _rewrite_with_integer_symbols(relation: Any, is_linear: Test, integers: Collection[Any]) -> Any:
    """Rewrite ``relation``, a condition on integers, as a combination of linear relations; None if that is impossible.
    ``is_linear(expr)`` decides whether an expression is linear in the indices.

    New integer symbols replace its tensor entries and the symbols in ``integers`` meanwhile.

    Indices of tensor entries are therefore not split into cases: one of these may be outside of the tensor.
    """
    undeclared = sorted(relation.free_symbols.intersection(integers), key=sympy.default_sort_key)
    given = {Dummy(integer=True): part for part in (*_tensor_entries_in(relation), *undeclared)}
    plain = relation.xreplace({part: symbol for symbol, part in given.items()})
    result = _rewrite_relation(plain, lambda expr: is_linear(expr.xreplace(given)))
    return None if result is None else result.xreplace(given)


def _tensor_entries_in(relation: Any) -> list[Any]:
    """Return the entries of integer tensors in `relation`, such as ``p[i]``, each once; entries inside of indices of
    others are left out.
    """
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
    """Return the cases of a function of indices, a sign, step function, `KroneckerDelta` or `Piecewise`, as pairs
    ``(value, condition)``: the first pair with a true condition gives the value. None for other expressions.

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


def _rewrite_relation(relation: Any, is_linear: Test) -> Any:
    """Return ``relation`` as a combination of relations between expressions that are linear in the indices, as
    ``is_linear(expr)`` decides. None if that is impossible or would be too long.
    """
    result = _hold_rounding(relation)
    final: set[Any] = set()

    def is_form(expr: Any) -> bool:
        """Return whether `expr` is linear in the indices and contains no maximum, minimum or absolute value."""
        return not expr.has(Abs, Max, Min) and is_linear(_release_rounding(expr))

    while len(relations := result.atoms(Relational)) <= RELATIONS_LIMIT:
        waiting = [r for r in relations if r not in final and not _is_final(r, is_form)]
        if not waiting:
            return _release_rounding(result)
        first = min(waiting, key=sympy.default_sort_key)
        step = _simplify_once(first, is_form)
        if step is not None:
            result = result.xreplace({first: step})
        elif is_form(first.lhs - first.rhs):
            final.add(first)
        else:
            return None
    return None


class _HeldRounding(sympy.Function):
    """A placeholder for a floor, ceiling or Mod, so that SymPy does not evaluate it: ``_HeldRounding(Mod, a, b)`` for
    ``Mod(a, b)``. The first argument is a symbol with the name of the function.

    SymPy 1.14 takes an even number over 6 for an integer, and so ``Mod(n + Max(0, 2*i), 6)`` for ``Mod(n, 6)``.
    """

    is_integer = True


_ROUNDING = {function.__name__: function for function in (sympy.floor, sympy.ceiling, sympy.Mod)}


def _hold_rounding(expr: Any) -> Any:
    """Replace each floor, ceiling and Mod that contains a maximum, minimum or absolute value by a placeholder, so that
    SymPy does not evaluate it. `_release_rounding` restores them.
    """

    def holds(part: Any) -> bool:
        """Return whether ``part`` is a rounding function, such as ``floor``, of an expression with a maximum, minimum
        or absolute value.
        """
        return type(part).__name__ in _ROUNDING and bool(part.has(Abs, Max, Min))

    return expr.replace(holds, lambda part: _HeldRounding(sympy.Symbol(type(part).__name__), *part.args))


def _release_rounding(expr: Any) -> Any:
    """Replace the placeholders of `_hold_rounding` by floor, ceiling and Mod again."""
    return expr.replace(
        lambda part: isinstance(part, _HeldRounding), lambda part: _ROUNDING[str(part.args[0])](*part.args[1:])
    )


def _is_final(relation: Any, is_linear: Test) -> bool:
    """Return whether ``relation`` needs no rewriting: the difference of its sides is linear, as ``is_linear`` decides,
    and it contains no power.
    """
    return is_linear(relation.lhs - relation.rhs) and not relation.has(Pow)


def _simplify_once(relation: Any, is_linear: Test) -> Any:
    """Apply one rule that rewrites ``relation`` as a combination of simpler relations, and return the result; None if
    no rule applies. ``is_linear`` decides whether an expression is linear in the indices.
    """
    if isinstance(relation, sympy.Ne):
        return Or(relation.lhs > relation.rhs, relation.lhs < relation.rhs)
    if isinstance(relation, Eq):
        difference = relation.lhs - relation.rhs
        if (cases := _split_cases(difference)) is not None:
            return _holds_in_cases(cases, lambda value: Eq(value, 0))
        if difference.is_Mul:
            return Or(*(Eq(factor, 0) for factor in difference.args if not factor.is_Number))
        return And(difference >= 0, difference <= 0)
    difference = relation.gts - relation.lts
    strict = isinstance(relation, sympy.StrictGreaterThan | sympy.StrictLessThan)

    def holds(value: Any) -> Any:
        """Return the SymPy condition ``value > 0`` if the relation is ``strict``, else ``value >= 0``."""
        return value > 0 if strict else value >= 0

    found = _split_extremum(difference, holds)
    if found is None:
        found = _split_power(difference, strict, is_linear)
    if found is None and (product := _as_product(difference)) is not None:
        one, other = product
        found = Or(And(holds(one), holds(other)), And(holds(-one), holds(-other)))
    if found is None and (cases := _split_cases(difference)) is not None:
        found = _holds_in_cases(cases, holds)
    return found


def _split_extremum(difference: Any, holds: Callable[[Any], Any]) -> Any:
    """Return the condition ``holds(difference)`` with one maximum, minimum or absolute value in ``difference`` replaced
    by its operands: ``Max(a, b) > 0`` becomes ``a > 0 or b > 0``. None if ``difference`` contains none.

    ``g - Max(a, b)`` is positive if ``g - a`` and ``g - b`` are, ``Max(a, b) - g`` if one of ``a - g`` and ``b - g``
    is.
    """
    for term in Add.make_args(difference):
        factor, extremum = term.as_coeff_Mul()
        if isinstance(extremum, Abs | Max | Min):
            args = (extremum.args[0], -extremum.args[0]) if isinstance(extremum, Abs) else extremum.args
            rest = difference - term
            join = Or if bool(factor > 0) is not isinstance(extremum, Min) else And
            return join(*(holds(rest + factor * arg) for arg in args))
    return None


def _split_power(difference: Any, strict: bool, is_linear: Test) -> Any:
    """Solve the relation ``difference > 0`` (``>=`` if not ``strict``) for ``f`` if ``difference`` is ``c - f**n`` or
    ``f**n - c``, and return the result: ``-3 < i < 3`` for ``9 - i**2 > 0``. None for other differences.
    """
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
        bound = ceil(limit) - 1 if strict else floor(limit)
        if exponent % 2:
            return base <= _integer_root(bound, exponent)
        return (
            And(base <= _integer_root(bound, exponent), base >= -_integer_root(bound, exponent))
            if bound >= 0
            else S.false
        )
    bound = floor(limit) if strict else ceil(limit) - 1  # base**n > most
    if exponent % 2:
        return base > _integer_root(bound, exponent)
    return Or(base > _integer_root(bound, exponent), base < -_integer_root(bound, exponent)) if bound >= 0 else S.true


def _integer_root(value: int, exponent: int) -> int:
    """Return the greatest integer ``r`` with ``r**exponent <= value``; a negative ``value`` needs an odd exponent."""
    if exponent == 2:
        return isqrt(value)
    if value >= 0:
        return int(sympy.integer_nthroot(value, exponent)[0])
    root, exact = sympy.integer_nthroot(-value, exponent)
    return -int(root) - (not exact)


def _as_product(difference: Any) -> tuple[Any, Any] | None:
    """Return two factors with the product `difference`, such as ``(i - j, i + j)`` for ``i**2 - j**2``; None unless it
    is a product, a power or a difference of squares.
    """
    if difference.is_Add and len(difference.args) == 2:
        (c, one), (d, other) = (term.as_coeff_Mul() for term in difference.args)
        if c == -d and all(isinstance(p, Pow) and p.exp == 2 for p in (one, other)):
            return c * (one.base - other.base), one.base + other.base
    if isinstance(difference, Pow) and difference.exp.is_Integer and difference.exp > 1:
        return difference.base, difference.base ** (difference.exp - 1)
    product = difference.as_coeff_Mul()[1]
    return (product.args[0], difference / product.args[0]) if product.is_Mul else None


# ---------------------------------------------------------------------------- one value after the other


def _split_cases(expr: Any) -> Cases | None:
    """Split ``expr`` by the cases of one function in it, such as a `Piecewise`, `Abs` or `Max`. Return pairs
    ``(value, condition)``: ``[(x, 2*x >= 0), (-x, True)]`` for ``abs(x)``. None if it contains no such function.
    """
    choices = expr.atoms(sign, Heaviside, KroneckerDelta, Piecewise) or expr.atoms(Abs, Max, Min)
    if not choices:
        return None
    choice = min(choices, key=lambda c: (c.count_ops(), sympy.default_sort_key(c)))
    cases = values_of(choice)
    if cases is None:
        args = (choice.args[0], -choice.args[0]) if isinstance(choice, Abs) else choice.args
        sign_of_order = -1 if isinstance(choice, Min) else 1
        cases = [(arg, And(*(sign_of_order * (arg - other) >= 0 for other in args))) for arg in args[:-1]]
        cases.append((args[-1], S.true))
    return [(expr.xreplace({choice: value}), condition) for value, condition in cases]


def _holds_in_cases(cases: Cases, holds: Callable[[Any], Any]) -> Any:
    """Return the condition that ``holds(value)`` is true for a value that depends on cases. ``cases`` are pairs
    ``(value, condition)``; the first pair with a true condition gives the value.
    """
    result, no_earlier_case = S.false, S.true
    for value, condition in cases:
        result = Or(result, And(no_earlier_case, condition, holds(value)))
        no_earlier_case = And(no_earlier_case, sympy.Not(condition))
    return result
