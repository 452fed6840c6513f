"""Sums without deltas: the constructor of sums that eliminates every equation over a bound variable.

This is the elimination of Urban & van der Smagt 2017, section 5.1, eqs. (38)-(47): the equations are solved over the
integers (`solving`), guards in the terms of a summand become rows of their sums, and conditions that no range
expresses are cases that do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sympy_tensordiff.graph.nodes import Graph, Node, reachable, replace
from sympy_tensordiff.integer.affine import Constraint
from sympy_tensordiff.integer.clamps import split_first_clamp
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import (
    constraints_for_the_body,
    data_terms,
    depends_only_indirectly,
    partition_data,
    variables_in_indirect_indices,
)
from sympy_tensordiff.integer.rows import Rows, linear, normalise, partition
from sympy_tensordiff.integer.solving import solve_equations, split_by_residue


def summation(graph: Graph, variables: Sequence[int], rows: Iterable[Constraint], body: Node) -> Node:
    """Return the sum of `body` over `variables`, at all integer points that satisfy the constraints `rows`. Equations
    in `rows` are used to eliminate variables: ``Sum_j [j == i]*x[j]`` is ``x[i]``.

    `variables` are eliminated in the given order of preference. `rows`, together with the guards inside `body`, bound
    every variable; guards in terms of `body` become constraints of their sums, and conditions on tensor entries that a
    variable selects are tested in the body. The result is a sum over inequalities, `body` itself if no variable is
    left, or an addition of such terms, guarded by the constraints without variables.
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
    classes = None if linear(rows) else split_by_residue(frozenset(variables), rows)
    if classes is not None:
        return graph.add([summation(graph, variables, case, body) for case in classes])
    solution = solve_equations(graph, variables, rows)
    if solution is None:
        return graph.zero
    remaining, mapping, rows = solution
    body = graph.substitute(body, mapping)
    if body.op == "guard":
        return summation(graph, remaining, rows, body)
    clamped = None if linear(rows) else split_first_clamp(graph.names, frozenset(remaining), rows)
    if clamped is not None:
        return graph.add([summation(graph, remaining, case, graph.substitute(body, new)) for case, new in clamped])
    cases = cases_of_nested_inequality(graph, frozenset(remaining), body)
    if cases is not None:
        return graph.add([summation(graph, remaining, rows, case) for case in cases])
    return _solved_sum(graph, remaining, rows, body)


def _solved_sum(graph: Graph, remaining: list[int], rows: tuple[Constraint, ...], body: Node) -> Node:
    """Return the sum of `body` over the variables `remaining`, in the range given by the constraints `rows`, from which
    equations have already been eliminated. Constraints that cannot be loop bounds become guards.

    Constraints without the variables `remaining` are a guard around it, the others its ranges.
    """
    outer, inner = partition(rows, remaining)
    tests = _tests(graph, inner, remaining) if graph.integers else []
    if tests:
        # What selects data that are tested alone runs over the shape of the data.
        inner = (*(row for row in inner if row not in tests), *_shapes_of_tested(graph, inner, tests, remaining))
        body = graph.guard(tests, body)
    factor, body = graph.split_coefficient(body)
    if body.op == "sum" and not body.free.isdisjoint(remaining):
        more, more_rows, body = graph.open(body)
        remaining, inner = [*remaining, *more], (*inner, *more_rows)
    return graph.scale(factor, graph.guard(outer, graph.sum(remaining, inner, body) if remaining else body))


def _tests(graph: Graph, rows: Sequence[Constraint], variables: Sequence[int]) -> list[Constraint]:
    """Return those of `rows`, the constraints of a sum over `variables`, that must be tested in the loop body because
    they cannot be loop bounds. These contain tensor entries such as ``p[i]``.
    """
    found = constraints_for_the_body(rows, variables)
    plain, data = partition_data(rows)
    for row in data:
        if row not in found and not variables_in_indirect_indices(row.form).isdisjoint(variables):
            is_inside = all(is_implied(inside, plain) for inside in graph.inside_data([row.form]))
            if not is_inside and all(_is_bounded(v, sign, plain) for v, sign in _bounded_by(row, variables)):
                found.append(row)
    return found


def _bounded_by(row: Constraint, variables: Sequence[int]) -> list[tuple[int, int]]:
    """Return ``(variable, sign)`` for each of `variables` that the inequality `row` bounds: the sign is 1 for a lower
    bound, -1 for an upper one.
    """
    present = row.form.atoms().intersection(variables) - variables_in_indirect_indices(row.form)
    return [(v, 1 if row.form.coefficient(v) > 0 else -1) for v in sorted(present)]


def _is_bounded(variable: int, sign: int, rows: Sequence[Constraint]) -> bool:
    """Return whether an inequality in `rows` bounds `variable`: from below for `sign` 1, from above for `sign` -1."""
    return any(row.kind == "ge" and row.form.coefficient(variable) * sign > 0 for row in rows)


def _shapes_of_tested(
    graph: Graph, rows: Sequence[Constraint], tests: Sequence[Constraint], variables: Sequence[int]
) -> list[Constraint]:
    """Return the bounds, such as ``i >= 0`` and ``n - 1 - i >= 0``, that keep the reads ``p[i]`` of integer tensors in
    the constraints `rows` in bounds, for each side on which no row bounds the index, one of the summed `variables`.
    Rows in `tests`, which become guards in the loop body, do not count as bounds.
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
    """Return a factor of `body` that is a sum with an equation on one of the outer ``variables`` in its range: the
    outer sum is merged with it to solve the equation. None if there is none.
    """
    factors = body.args if body.op == "mul" else (body,)
    return next((factor for factor in factors if factor.op == "sum" and has_constraint_on(factor, variables)), None)


def has_usable_guard(graph: Graph, variables: Sequence[int], rows: Sequence[Constraint], body: Node) -> bool:
    """Return whether a term of `body` has a guard that a sum over `variables`, in the range ``rows``, could use as a
    loop bound, such as ``[j < i]`` for ``j``.

    Guards that consist of tests of data do not count: they have to stay in the body.
    """
    tied = frozenset(variables)
    if body.is_guard_free:
        return False
    if body.op == "guard":
        tests = _tests(graph, (*rows, *body.data), variables)
        # An equation with an index that selects no data in it is solved, whatever other indices select.
        stay = all(
            row in tests and (row.kind == "ge" or depends_only_indirectly(row.form, variables)) for row in body.data
        )
        return not stay or has_usable_guard(graph, variables, rows, body.args[0])
    if terms_with_guards(graph, tied, body) is not None:
        return True
    return cases_of_nested_inequality(graph, tied, body) is not None


NESTED_LIMIT = 4
"""Each equation inside of a function triples the sums; with more of them the equations stay."""

SPLIT_LIMIT = 2
"""Each inequality inside of a function doubles the sums, up to four; with more of them the inequalities stay."""


def has_constraint_on(node: Node, variables: frozenset[int]) -> bool:
    """Return whether `node` is a guard or sum with a constraint on `variables`: an equation or inequality in a guard,
    also in a nested one, or an equation in the range of a sum.
    """
    rows = node.data if node.op == "guard" or (node.op == "sum" and not node.free.isdisjoint(variables)) else ()
    if any(not row.form.atoms().isdisjoint(variables) for row in rows if node.op == "guard" or row.kind == "eq"):
        return True
    inner = node.args[0] if node.op == "guard" else None
    terms = () if inner is None else inner.args if inner.op == "add" else (inner,)
    return any(term.op == "guard" and has_constraint_on(term, variables) for term in terms)


def terms_with_guards(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """Return the terms of `body` if at least one of them has a guard on `variables`, so that the sum can be split term
    by term; else None.
    """
    if body.is_guard_free:
        return None
    if body.op == "add" and any(has_constraint_on(term, variables) for term in body.args):
        plain = [term for term in body.args if not has_constraint_on(term, variables)]
        return [*(term for term in body.args if has_constraint_on(term, variables)), graph.add(plain)]
    if body.op == "mul":
        for n, factor in enumerate(body.args):
            if factor.op == "add" and any(has_constraint_on(term, variables) for term in factor.args):
                others = body.args[:n] + body.args[n + 1 :]
                terms = terms_with_guards(graph, variables, factor) or []
                return [graph.mul((*others, term)) for term in terms]
    return _cases_of_nested_equation(graph, variables, body)


def _cases_of_nested_equation(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """Split `body` into cases by an equation ``p == 0`` on `variables` in a guard inside of a function, as in ``f([p ==
    0])``. Return three guarded terms, for ``p == 0``, ``p > 0`` and ``p < 0``; None without such guards, or with too
    many.
    """
    guards, rows = _nested_rows(variables, body)
    equations = [row for row in rows if row.kind == "eq"]
    if not equations or len(equations) > NESTED_LIMIT:
        return None
    row = equations[0]
    elsewhere = _decided(graph, body, guards, {row: False})
    return [
        graph.guard([row], _decided(graph, body, guards, {row: True})),
        graph.guard([Constraint("ge", row.form - 1)], elsewhere),
        graph.guard([Constraint("ge", -row.form - 1)], elsewhere),
    ]


def cases_of_nested_inequality(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """Split `body` by an inequality on `variables` in a guard inside of a function: return two guarded terms, one where
    it is true and one where it is false. None if there is no such inequality, or too many.

    So no loop tests it.
    """
    if body.is_guard_free:
        return None
    guards, rows = _nested_rows(variables, body)
    opposites: dict[Constraint, Constraint] = {}
    for row in rows:
        opposite = normalise(row.negation()) if row.kind != "eq" and row not in opposites.values() else None
        if isinstance(opposite, Constraint):
            opposites[row] = opposite
    if not 0 < len(opposites) <= SPLIT_LIMIT:
        return None
    row, opposite = next(iter(opposites.items()))
    return [
        graph.guard([row], _decided(graph, body, guards, {row: True, opposite: False})),
        graph.guard([opposite], _decided(graph, body, guards, {row: False, opposite: True})),
    ]


def _nested_rows(variables: frozenset[int], body: Node) -> tuple[Sequence[Node], Rows]:
    """Return ``(guards, constraints)``: all guards in `body`, also those in function arguments, and the constraints of
    these guards that contain `variables`. Return ((), ()) if `body` contains a sum or other binder.

    Constraints on data that the variables select are left out: they are tested in any case.
    """
    if body.height:
        return (), ()
    guards = [node for node in reachable(body) if node.op == "guard"]
    rows = dict.fromkeys(row for node in guards for row in node.data)
    separate = (
        row for row in rows if variables_in_indirect_indices(row.form).isdisjoint(variables)
    )  # data is tested in any case
    return guards, partition(separate, variables)[1]


def _decided(graph: Graph, body: Node, guards: Sequence[Node], known: dict[Constraint, bool]) -> Node:
    """Return `body` simplified by the known truth values of constraints in ``known``. In each guard of `guards`, true
    constraints are removed; a guard with a false one becomes 0.
    """
    new: dict[Node, Node] = {}
    for node in guards:  # inner ones first: guards may be inside of others
        if not known.keys().isdisjoint(node.data):
            inner = replace(graph, node.args[0], new)
            fails = any(known.get(row) is False for row in node.data)
            new[node] = graph.zero if fails else graph.guard((r for r in node.data if r not in known), inner)
    return replace(graph, body, new)
