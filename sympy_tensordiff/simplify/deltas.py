"""Sums without deltas: the constructor of sums that eliminates every equation over a bound variable.

This is the elimination of Urban & van der Smagt 2017, section 5.1, eqs. (38)-(47): the equations are solved over the
integers (`solving`), guards in the terms of a summand become rows of their sums, and conditions that no range
expresses are cases that do not overlap.

Some equations multiply one index by a number and others by sizes, ``2*i - n*t == p``, as ``Mod(2*i, n)`` has it. None
of the indices can be solved for over the integers without knowing the sizes, but their remainders decide. The index
with the number ``c`` is ``i = (p + n*t)/c`` where that is an integer. Where ``n mod c`` is known to be ``r`` this is a
congruence ``p + r*t == 0 mod c``, which is linear, so `systems_by_remainders` has one system for each remainder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product
from math import gcd
from typing import NamedTuple

from sympy_tensordiff.graph.nodes import Graph, Node, Substitution, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.clamps import cases_of_clamps
from sympy_tensordiff.integer.data import data_terms, is_opaque, partition_data, selected_in, tested
from sympy_tensordiff.integer.implication import implied, is_empty
from sympy_tensordiff.integer.products import slope, times
from sympy_tensordiff.integer.rows import Rows, linear, normalise, partition, substitute_all
from sympy_tensordiff.integer.solving import residues, solve_equations


def summation(graph: Graph, variables: Sequence[int], rows: Iterable[Row], body: Node) -> Node:
    """Return the sum of `body` over all integer points of `rows`, in which no equation over `variables` is left.

    Parameters
    ----------
    graph : Graph
    variables : sequence of int
        The variables summed over, in the order in which one would like to lose them.
    rows : iterable of Row
        Conditions; together with the guards inside ``body`` they bound every variable. Conditions on
        data that a variable selects are tested in the body.
    body : Node
        The summand. Guards in its terms become rows of their sums.

    Returns
    -------
    Node
        A sum over inequalities, the body itself where no variable is left, or an addition of
        such; guarded by the rows that hold none of the variables.
    """
    while body.op == "guard":
        rows, body = (*rows, *body.data), body.args[0]
    if body is graph.zero:
        return body
    rows = tuple(rows)
    terms = terms_with_guards(graph, frozenset(variables), body)
    if terms is not None:
        return graph.add([summation(graph, variables, rows, term) for term in terms])
    waiting = _unsolved_factor(body, frozenset(variables))
    if waiting is not None:
        # An index of this sum may be the unit pivot that the sum inside lacks.
        others = [factor for factor in (body.args if body.op == "mul" else ()) if factor is not waiting]
        more, more_rows, inside = graph.open(waiting)
        return summation(graph, [*variables, *more], [*rows, *more_rows], graph.mul((*others, inside)))
    classes = None if linear(rows) else residues(frozenset(variables), rows)
    if classes is not None:
        return graph.add([summation(graph, variables, case, body) for case in classes])
    solution = solve_equations(graph, variables, rows)
    if solution is None:
        return graph.zero
    kept, mapping, rows = solution
    body = graph.substitute(body, mapping)
    if body.op == "guard":
        return summation(graph, kept, rows, body)
    clamped = None if linear(rows) else cases_of_clamps(graph.names, frozenset(kept), rows)
    if clamped is not None:
        return graph.add([summation(graph, kept, case, graph.substitute(body, new)) for case, new in clamped])
    cases = cases_of_nested_inequality(graph, frozenset(kept), body)
    if cases is not None:
        return graph.add([summation(graph, kept, rows, case) for case in cases])
    return _solved_sum(graph, kept, rows, body)


def _solved_sum(graph: Graph, kept: list[int], rows: tuple[Row, ...], body: Node) -> Node:
    """Return the sum over `kept`, whose equations are solved: free constraints outside, bounds as ranges, tests in the
    body.
    """
    outer, inner = partition(rows, kept)
    tests = _tests(graph, inner, kept) if graph.integers else []
    if tests:
        # What selects data that are tested alone runs over the shape of the data.
        inner = (*(row for row in inner if row not in tests), *_shapes_of_tested(graph, inner, tests, kept))
        body = graph.guard(tests, body)
    factor, body = graph.split_coefficient(body)
    if body.op == "sum" and not body.free.isdisjoint(kept):
        more, more_rows, body = graph.open(body)
        kept, inner = [*kept, *more], (*inner, *more_rows)
    return graph.scale(factor, graph.guard(outer, graph.sum(kept, inner, body) if kept else body))


def _tests(graph: Graph, rows: Sequence[Row], variables: Sequence[int]) -> list[Row]:
    """Return the constraints in `rows` that the body tests, as no loop bound expresses them or their data may be
    outside.
    """
    found = tested(rows, variables)
    plain, data = partition_data(rows)
    for row in data:
        if row not in found and not selected_in(row.form).isdisjoint(variables):
            sure = all(implied(inside, plain) for inside in graph.inside_data([row.form]))
            if not sure and all(_is_bounded(v, sign, plain) for v, sign in _bounded_by(row, variables)):
                found.append(row)
    return found


def _bounded_by(row: Row, variables: Sequence[int]) -> list[tuple[int, int]]:
    """Return ``(variable, sign)`` for each of `variables` that `row` bounds: 1 from below, -1 from above."""
    held = row.form.atoms().intersection(variables) - selected_in(row.form)
    return [(v, 1 if row.form.coefficient(v) > 0 else -1) for v in sorted(held)]


def _is_bounded(variable: int, sign: int, rows: Sequence[Row]) -> bool:
    """Whether an inequality in `rows` bounds `variable`: from below if `sign` is 1, from above if it is -1."""
    return any(row.kind == "ge" and row.form.coefficient(variable) * sign > 0 for row in rows)


def _shapes_of_tested(graph: Graph, rows: Sequence[Row], tests: Sequence[Row], variables: Sequence[int]) -> list[Row]:
    """Return bounds for variables that only tests of data bound: those that keep the data they select inside of its
    shape.
    """
    bounds = [row for row in rows if row not in tests]
    found = []
    for row in graph.inside_data(row.form for row in rows):
        for v in row.form.atoms().intersection(variables) if not data_terms(row.form) else ():
            sign = row.form.coefficient(v)
            if sign and not _is_bounded(v, sign, bounds):
                found.append(row)
    return found


def _unsolved_factor(body: Node, variables: frozenset[int]) -> Node | None:
    """Return a factor of `body` that is a sum with an unsolved equation in `variables`; None without one."""
    factors = body.args if body.op == "mul" else (body,)
    return next((factor for factor in factors if factor.op == "sum" and ties(factor, variables)), None)


def guarded(graph: Graph, variables: Sequence[int], rows: Sequence[Row], body: Node) -> bool:
    """Whether a term of `body` has a guard that a sum over `variables` would take as constraints of its own.

    Guards that consist of tests of data do not count: they have to stay in the body.
    """
    tied = frozenset(variables)
    if body.plain:
        return False
    if body.op == "guard":
        tests = _tests(graph, (*rows, *body.data), variables)
        # An equation with an index that selects no data in it is solved, whatever other indices select.
        stay = all(row in tests and (row.kind == "ge" or is_opaque(row.form, variables)) for row in body.data)
        return not stay or guarded(graph, variables, rows, body.args[0])
    if terms_with_guards(graph, tied, body) is not None:
        return True
    return cases_of_nested_inequality(graph, tied, body) is not None


NESTED_LIMIT = 4
"""Each equation inside of a function triples the sums; with more of them the equations stay."""

SPLIT_LIMIT = 2
"""Each inequality inside of a function doubles the sums, up to four; with more of them the inequalities stay."""


def ties(node: Node, variables: frozenset[int]) -> bool:
    """Whether `node` is a guard over `variables`, contains one right inside of it, or is a sum with an equation over
    them.
    """
    rows = node.data if node.op == "guard" or (node.op == "sum" and not node.free.isdisjoint(variables)) else ()
    if any(not row.form.atoms().isdisjoint(variables) for row in rows if node.op == "guard" or row.kind == "eq"):
        return True
    inner = node.args[0] if node.op == "guard" else None
    terms = () if inner is None else inner.args if inner.op == "add" else (inner,)
    return any(term.op == "guard" and ties(term, variables) for term in terms)


def terms_with_guards(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """Return the terms of `body` one by one if one of them is guarded over `variables`; None if none is."""
    if body.plain:
        return None
    if body.op == "add" and any(ties(term, variables) for term in body.args):
        plain = [term for term in body.args if not ties(term, variables)]
        return [*(term for term in body.args if ties(term, variables)), graph.add(plain)]
    if body.op == "mul":
        for n, factor in enumerate(body.args):
            if factor.op == "add" and any(ties(term, variables) for term in factor.args):
                others = body.args[:n] + body.args[n + 1 :]
                terms = terms_with_guards(graph, variables, factor) or []
                return [graph.mul((*others, term)) for term in terms]
    return _cases_of_nested_equation(graph, variables, body)


def _cases_of_nested_equation(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """Split ``f(delta)`` into guarded cases: the equation of the delta holds, its form is positive, or negative; None
    without one.
    """
    guards, rows = _nested_rows(variables, body)
    equations = [row for row in rows if row.kind == "eq"]
    if not equations or len(equations) > NESTED_LIMIT:
        return None
    row = equations[0]
    elsewhere = _decided(graph, body, guards, {row: False})
    return [
        graph.guard([row], _decided(graph, body, guards, {row: True})),
        graph.guard([Row("ge", row.form - 1)], elsewhere),
        graph.guard([Row("ge", -row.form - 1)], elsewhere),
    ]


def cases_of_nested_inequality(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """Split ``f(guard)`` into the cases that an inequality of the guard holds and that it fails; None without one.

    So no loop tests it.
    """
    if body.plain:
        return None
    guards, rows = _nested_rows(variables, body)
    opposites: dict[Row, Row] = {}
    for row in rows:
        opposite = normalise(row.negation()) if row.kind != "eq" and row not in opposites.values() else None
        if isinstance(opposite, Row):
            opposites[row] = opposite
    if not 0 < len(opposites) <= SPLIT_LIMIT:
        return None
    row, opposite = next(iter(opposites.items()))
    return [
        graph.guard([row], _decided(graph, body, guards, {row: True, opposite: False})),
        graph.guard([opposite], _decided(graph, body, guards, {row: False, opposite: True})),
    ]


def _nested_rows(variables: frozenset[int], body: Node) -> tuple[Sequence[Node], Rows]:
    """Return the guards inside of functions in `body`, and their constraints over `variables`; none if `body` has
    binders.

    Constraints on data that the variables select are left out: they are tested in any case.
    """
    if body.height:
        return (), ()
    guards = [node for node in reachable(body) if node.op == "guard"]
    rows = dict.fromkeys(row for node in guards for row in node.data)
    apart = (row for row in rows if selected_in(row.form).isdisjoint(variables))  # data is tested in any case
    return guards, partition(apart, variables)[1]


def _decided(graph: Graph, body: Node, guards: Sequence[Node], known: dict[Row, bool]) -> Node:
    """Return `body` with the truth values `known` of constraints put into `guards`: those that fail are 0."""
    new: dict[Node, Node] = {}
    for node in guards:  # inner ones first: guards may stand inside of others
        if not known.keys().isdisjoint(node.data):
            inner = replace(graph, node.args[0], new)
            fails = any(known.get(row) is False for row in node.data)
            new[node] = graph.zero if fails else graph.guard((r for r in node.data if r not in known), inner)
    return replace(graph, body, new)


CASES_LIMIT = 16
"""More remainders of sizes than these are not told apart."""


class System(NamedTuple):
    """The sum that is left for one choice of remainders."""

    variables: list[int]
    rows: Rows
    body: Node


def systems_by_remainders(
    graph: Graph, variables: Sequence[int], rows: Rows, body: Node, facts: Rows
) -> list[System] | None:
    """Return one system for each remainder of the sizes in an equation, without this equation; None without such an
    equation.
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
    """Return, for each choice of remainders of the coefficients in it, constraints that say ``rest mod modulus == 0``.

    None if a coefficient depends on `variables` itself, or if there are more than ``CASES_LIMIT`` choices.
    """
    factors: dict[int, Affine] = {}
    for v in sorted(rest.atoms().intersection(variables)):
        parts = slope(rest, v)
        if parts is None or not parts[0].atoms().isdisjoint(variables):
            return None
        factors[v], rest = _reduced(parts[0], modulus), parts[1]
    unknown = sorted({factor for factor in factors.values() if not factor.is_constant})
    if modulus ** len(unknown) > CASES_LIMIT:
        return None
    found = []
    for remainders in product(range(modulus), repeat=len(unknown)):
        known = dict(zip(unknown, remainders, strict=True))
        form = rest + Affine({v: known.get(factor, factor.constant) for v, factor in factors.items()})
        conditions = [Row("mod", factor - remainder, modulus) for factor, remainder in known.items()]
        found.append((*conditions, Row("mod", form, modulus)))
    return found


def _reduced(factor: Affine, modulus: int) -> Affine:
    """Return `factor` with its coefficients and constant reduced modulo `modulus`."""
    return Affine({v: c % modulus for v, c in factor.terms}, factor.constant % modulus)


def _system(
    graph: Graph,
    variables: Sequence[int],
    rows: Sequence[Row],
    body: Node,
    equation: Affine,
    v: int,
    given: Rows,
    digits: Collection[int],
) -> System:
    """Return the sum without `v`, which `equation` determines, for one choice of remainders.

    Of the constraints `given` the last is the congruence under which ``v`` is an integer; it is solved for another
    index if possible. The `digits` are indices that are known to be remainders by the coefficient of ``v``.
    """
    c = equation.coefficient(v)
    rest = equation - Affine({v: c})
    value = {v: quotient(rest if c < 0 else -rest, abs(c))}

    def exact(form: Affine) -> Affine:
        """Return `form` without `v` where its coefficient is a multiple of that in the equation, so that nothing is
        rounded.
        """
        factor, left = divmod(form.coefficient(v), c)
        return form if left else form - factor * equation

    body = graph.substitute(graph.map_forms(body, exact), value)
    left = [w for w in variables if w != v]
    rows = [_without(row, v, equation, value) for row in rows]
    *conditions, congruence = given
    new = _solved(graph, congruence, left, equation.hidden(), digits)
    if new is None:
        return System(left, (*rows, *given), body)
    fresh = dict.fromkeys(w for form in new.values() for w in sorted(form.atoms()) if w not in equation.atoms())
    rows = substitute_all((*rows, *conditions), new)
    return System([*(w for w in left if w not in new), *fresh], tuple(rows), graph.substitute(body, new))


def _without(row: Row, v: int, equation: Affine, value: Substitution) -> Row:
    """Return `row` without `v`; multiplied by its coefficient, not rounded, where the row is linear in it."""
    parts = slope(row.form, v)
    if parts is None:
        return row.substitute(value)
    c = equation.coefficient(v)
    multiple = times(parts[0], equation - Affine({v: c}))
    return Row(row.kind, parts[1] * abs(c) - (multiple if c > 0 else -multiple), row.modulus * abs(c))


def _is_remainder(v: int, modulus: int, known: Rows) -> bool:
    """Whether `known` implies ``0 <= v < modulus``."""
    form = Affine.variable(v)
    return all(is_empty((Row("ge", outside),), known) for outside in (-form - 1, form - modulus))


def _solved(
    graph: Graph, row: Row, variables: Sequence[int], last: frozenset[int], digits: Collection[int]
) -> dict[int, Affine] | None:
    """Return an index as a remainder plus a multiple of the modulus, by the congruence `row`; None if no coefficient is
    a unit.

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
    graph: Graph, row: Row, variables: Sequence[int], last: frozenset[int], share: int
) -> dict[int, Affine] | None:
    """Solve the congruence `row` modulo its divisor `share` for an index in `last`, then for another index; None if a
    step fails.

    Modulo the divisor `share` the coefficients of the other indices vanish.

    Of ``2*i + t + p == 0 mod 4`` that is ``t = 2*s + p mod 2`` and ``i = 2*u + s + (p + p mod 2)/2``: sizes multiply
    ``s`` alone, which has few values, where ``t = 4*u - 2*i - p`` leaves products of sizes with ``i``, too.
    """
    first = _solved(graph, row._replace(modulus=share), variables, last, ())
    if first is None:
        return None
    rest = quotient(row.form.substitute(first), share)
    left = [v for v in (*variables, *sorted(rest.atoms() - row.form.atoms())) if v not in first]
    then = _solved(graph, Row("mod", rest, row.modulus // share), left, last, ())
    return None if then is None else {v: form.substitute(then) for v, form in first.items()} | then
