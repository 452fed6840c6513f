"""Sums whose equation determines no index, as one sum per residue class of the sizes.

Some equations multiply one index by a number and others by sizes, ``2*i - n*t == p``, as ``Mod(2*i, n)`` has it. None
of the indices can be solved for over the integers without knowing the sizes, but their remainders decide. The index
with the number ``c`` is ``i = (p + n*t)/c`` where that is an integer. Where ``n mod c`` is known to be ``r`` this is a
congruence ``p + r*t == 0 mod c``, which is linear, so `systems_by_remainders` has one system for each remainder.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from math import gcd
from typing import NamedTuple

from sympy_tensordiff.graph.nodes import Graph, Node, Substitution
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.products import slope, times
from sympy_tensordiff.integer.rows import Rows, substitute_all

CASES_LIMIT = 16
"""The maximal number of combinations of remainders; an equation with more is left as it is."""


class RemainderSum(NamedTuple):
    """One case of a sum from which an equation has been eliminated: the remaining variables, constraints and body, for
    sizes of one residue class, such as even n.
    """

    variables: list[int]
    rows: Rows
    body: Node


def systems_by_remainders(
    graph: Graph, variables: Sequence[int], rows: Rows, body: Node, facts: Rows
) -> list[RemainderSum] | None:
    """Split the sum of `body` over `variables` in the range `rows` into cases by remainders, so that an equation can be
    solved in each: ``m*i + 2*j == k`` can be solved for ``j`` if it is known whether ``m`` is even. None if no equation
    has this form.
    """
    for row in rows:
        hidden = row.form.hidden().intersection(variables) if row.kind == "eq" else ()
        numbers = [(abs(c), v) for v, c in row.form.terms if hidden and v in variables and v not in hidden]
        for c, v in sorted(numbers):
            congruences = _congruences(row.form - Affine({v: row.form.coefficient(v)}), variables, c)
            if congruences is not None:
                others = [other for other in rows if other is not row]
                digits = [w for w in sorted(hidden) if _is_remainder(w, c, (*rows, *facts))]
                return [_system(graph, variables, others, body, row.form, v, given, digits) for given in congruences]
    return None


def _congruences(rest: Affine, variables: Sequence[int], modulus: int) -> list[Rows] | None:
    """Return the conditions under which ``rest`` is divisible by `modulus`, as a list of alternative systems of
    constraints. None if ``rest`` is not linear in `variables`, or if there are more than ``CASES_LIMIT`` systems.

    There is one for each combination of remainders of the symbolic coefficients of `variables`.
    """
    factors: dict[int, Affine] = {}
    for v in sorted(rest.atoms().intersection(variables)):
        parts = slope(rest, v)
        if parts is None or not parts[0].atoms().isdisjoint(variables):
            return None
        factors[v], rest = _modulo(parts[0], modulus), parts[1]
    unknown = sorted({factor for factor in factors.values() if not factor.is_constant})
    if modulus ** len(unknown) > CASES_LIMIT:
        return None
    found = []
    for remainders in product(range(modulus), repeat=len(unknown)):
        known = dict(zip(unknown, remainders, strict=True))
        form = rest + Affine({v: known.get(factor, factor.constant) for v, factor in factors.items()})
        conditions = [Constraint("mod", factor - remainder, modulus) for factor, remainder in known.items()]
        found.append((*conditions, Constraint("mod", form, modulus)))
    return found


def _modulo(factor: Affine, modulus: int) -> Affine:
    """Return the affine form `factor` with its coefficients and constant reduced modulo `modulus`."""
    return Affine({v: c % modulus for v, c in factor.terms}, factor.constant % modulus)


def _system(
    graph: Graph,
    variables: Sequence[int],
    rows: Sequence[Constraint],
    body: Node,
    equation: Affine,
    v: int,
    given: Rows,
    digits: Collection[int],
) -> RemainderSum:
    """Return one case of `systems_by_remainders`: the sum of `body` over `variables` in the range `rows`, with the
    variable `v` eliminated by ``equation == 0``. `given` has the constraints of the case, `digits` indices known to be
    remainders.

    `given` has the conditions on the sizes and, last, the congruence by which ``v`` is an integer. `digits` are indices
    known to be at least 0 and less than the coefficient of ``v`` (without its sign), so that the congruence can
    determine them.

    This congruence is solved for another index if possible.
    """
    c = equation.coefficient(v)
    rest = equation - Affine({v: c})
    value = {v: quotient(rest if c < 0 else -rest, abs(c))}

    def with_equation(form: Affine) -> Affine:
        """Return `form` with ``v`` eliminated by subtracting a multiple of ``equation``; `form` itself if its
        coefficient of ``v`` is not a multiple of ``c``, the one in the equation.
        """
        factor, left = divmod(form.coefficient(v), c)
        return form if left else form - factor * equation

    body = graph.substitute(graph.map_forms(body, with_equation), value)
    left = [w for w in variables if w != v]
    rows = [_without(row, v, equation, value) for row in rows]
    *conditions, congruence = given
    new = _solved(graph, congruence, left, equation.hidden(), digits)
    if new is None:
        return RemainderSum(left, (*rows, *given), body)
    fresh = dict.fromkeys(w for form in new.values() for w in sorted(form.atoms()) if w not in equation.atoms())
    rows = substitute_all((*rows, *conditions), new)
    return RemainderSum([*(w for w in left if w not in new), *fresh], tuple(rows), graph.substitute(body, new))


def _without(row: Constraint, v: int, equation: Affine, value: Substitution) -> Constraint:
    """Return the constraint `row` with the variable `v` eliminated by ``equation == 0``; the substitution `value` maps
    ``v`` to its solution, a quotient.

    A row linear in `v` is scaled so that a multiple of the equation can be subtracted without a division. For other
    rows, the substitution `value`, from ``v`` to a quotient, is applied.
    """
    parts = slope(row.form, v)
    if parts is None:
        return row.substitute(value)
    c = equation.coefficient(v)
    multiple = times(parts[0], equation - Affine({v: c}))
    return Constraint(row.kind, parts[1] * abs(c) - (multiple if c > 0 else -multiple), row.modulus * abs(c))


def _is_remainder(v: int, modulus: int, known: Rows) -> bool:
    """Return whether `known` implies ``0 <= v < modulus``."""
    form = Affine.variable(v)
    return all(is_empty((Constraint("ge", outside),), known) for outside in (-form - 1, form - modulus))


def _solved(
    graph: Graph, row: Constraint, variables: Sequence[int], last: frozenset[int], digits: Collection[int]
) -> dict[int, Affine] | None:
    """Solve the congruence `row` for one of `variables`, ``v``: return ``{v: modulus*t + remainder}`` with a new
    variable ``t``. None if no coefficient is coprime to the modulus. `last` are variables to avoid, `digits` variables
    known to be remainders.

    Variables in `last` are chosen last; for one in `digits`, itself a remainder, ``t`` is 0 if possible.

    Indices in `last` are taken only if need be. A remainder without other indices is the least one: with ``t = 2*u + p
    mod 2`` for ``p + t == 0 mod 2`` the products of sizes with ``t`` and ``p`` are small, and ``u`` stays near 0. It is
    all of the solution if ``t`` is in `digits`.
    """
    shares = {v: gcd(row.form.coefficient(v), row.modulus) for v in variables}
    units = [v for v in variables if shares[v] == 1]
    if not units:
        return None
    share = min((shares[v] for v in variables if v not in last), default=row.modulus)
    if 1 < share < row.modulus:
        return _solved_twice(graph, row, variables, last, share)
    v = min(units, key=lambda unit: unit in last)
    c = row.form.coefficient(v)
    form = (row.form - Affine({v: c})) * -pow(c, -1, row.modulus)
    form = Affine({w: b % row.modulus for w, b in form.terms}, form.constant % row.modulus)
    if form.atoms().isdisjoint(variables):
        form = form - row.modulus * quotient(form, row.modulus)
        if v in digits:
            return {v: form}
    return {v: form + Affine({graph.fresh(graph.names[v]): row.modulus})}


def _solved_twice(
    graph: Graph, row: Constraint, variables: Sequence[int], last: frozenset[int], share: int
) -> dict[int, Affine] | None:
    """Solve the congruence `row` for some of `variables` in two steps: modulo `share`, a divisor of its modulus, then
    modulo the quotient. Return ``{variable: form}``, or None if a step fails. `last` are variables to avoid.

    Variables in `last` are solved for only if no other can be. Modulo `share`, the coefficients of the other indices
    vanish, which gives a simpler solution.

    Of ``2*i + t + p == 0 mod 4`` that is ``t = 2*s + p mod 2`` and ``i = 2*u + s + (p + p mod 2)/2``: sizes multiply
    ``s`` alone, which has few values, where ``t = 4*u - 2*i - p`` leaves products of sizes with ``i``, too.
    """
    first = _solved(graph, row._replace(modulus=share), variables, last, ())
    if first is None:
        return None
    rest = quotient(row.form.substitute(first), share)
    left = [v for v in (*variables, *sorted(rest.atoms() - row.form.atoms())) if v not in first]
    then = _solved(graph, Constraint("mod", rest, row.modulus // share), left, last, ())
    return None if then is None else {v: form.substitute(then) for v, form in first.items()} | then
