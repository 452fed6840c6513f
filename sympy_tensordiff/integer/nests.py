"""Loop nests over the integer points of a system (section 4.2 of the paper, eqs. (22) to (26)).

Each loop runs from a maximum to a minimum of forms in the parameters and the outer loop variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Constraint, Variable
from .floor_elimination import (
    bounds_by_multiples,
    divided_bounds,
    innermost_bound,
    may_miss,
    positive_divisors,
    rows_without_quotients,
    system_without_quotients,
)
from .fourier_motzkin import eliminate, grows, simplest
from .implication import FALSE, is_empty, merge_parallel, remove_redundant, without_redundant
from .indirect import variables_in_indirect_indices
from .rows import bounds_with_divisors, linear, partition

MAX_ROWS_FOR_ORDER = 16
"""The most rows by which a loop order is chosen; more would only improve how the loops read and run."""


class Bounds(NamedTuple):
    """The range of one loop: ``max(ceil(form/divisor) for lows) .. min(floor(form/divisor) for highs)``.

    Such bounds follow from a system by projection. The ranges that users write are `IndexRange`: their ends are any
    integer expressions of SymPy, also such as no affine forms express, and are substituted and printed as written.

    Examples
    --------
    >>> Bounds("k", ((Affine.of(0), 1), (Affine({"p": 1}), 2)), ((Affine.of(4), 1),)).range({"p": 3})
    range(2, 5)
    """

    variable: Variable
    lows: tuple[tuple[Affine, int], ...]
    highs: tuple[tuple[Affine, int], ...]

    def range(self, values: Mapping[Variable, int]) -> range:
        """Return the values of the loop variable at given ``values`` of all other variables."""
        low = max(-(-form.evaluate(values) // divisor) for form, divisor in self.lows)
        high = min(form.evaluate(values) // divisor for form, divisor in self.highs)
        return range(low, high + 1)

    def substitute(self, mapping: Mapping[Variable, Affine]) -> Bounds:
        """Return the bounds with ``mapping`` applied; it must not contain the loop variable itself."""
        lows, highs = (
            tuple((form.substitute(mapping), divisor) for form, divisor in side) for side in (self.lows, self.highs)
        )
        return Bounds(self.variable, lows, highs)


def bounds(
    rows: Sequence[Constraint],
    variables: Sequence[Variable],
    facts: Sequence[Constraint] = (),
    *,
    multiples: bool = False,
) -> tuple[tuple[Bounds, ...], tuple[Constraint, ...]]:
    """Return ``(loop bounds, guards)``, a loop nest over the integer points of the constraints ``rows``. Its loops run
    over ``variables``, outermost first; constraints without these variables become the guards.

    Constraints ``facts``, which hold already, are not tested again.

    Law: under ``facts`` the nest runs exactly over the integer points of ``rows``, if the
    returned rows hold. The innermost rows make it exact; the projections on the outer variables
    only tighten it (eqs. (30), (31)), so an outer value may have an empty inner range: a sum of
    nothing. Feasibility rows that come from projection alone (the matrix F of Algorithm 3) are not
    returned: an empty loop is 0 without them. No bound is implied by ``facts``, the returned rows,
    the outer bounds and the other bounds of its variable.

    Rows that multiply an inner variable by a symbol are not used for the bounds of outer loops unless ``multiples``
    asks for it: usually they only tighten these loops, but one of them may have no other bound.

    Facts with a loop variable are ignored. If the rows are provably empty, the nest is
    ``0 .. -1`` and the returned rows are ``(FALSE,)``.

    Raise `LoopBoundError` if a variable has no lower or no upper bound, or if a loop variable is in a congruence or
    quotient in a way that no bound expresses. Its arguments are variables; callers insert names.

    Examples
    --------
    >>> p, k, j = (Affine.variable(v) for v in "pkj")
    >>> rows = [Constraint("ge", p - k), Constraint("ge", 2 - p + k), Constraint("ge", j),
    ...         Constraint("ge", 3 - j), Constraint("ge", k), Constraint("ge", 4 - k)]
    >>> nest, rest = bounds(rows, ["k", "j"], [Constraint("ge", p), Constraint("ge", 7 - p)])
    >>> nest[0]
    Bounds(variable='k', lows=((p - 2, 1), (0, 1)), highs=((p, 1), (4, 1)))
    >>> nest[1], rest
    (Bounds(variable='j', lows=((0, 1),), highs=((3, 1),)), ())
    """
    loops = frozenset(variables)
    outside = partition(facts, loops)[0]
    merged = merge_parallel(rows if linear(rows) else rows_without_quotients(rows, loops))
    guards = (FALSE,) if merged is None else without_redundant(partition(merged, loops)[0], outside)
    if merged is None or FALSE in guards:
        return _empty_nest(variables)
    known = (*outside, *guards)
    system = without_redundant(partition(merged, loops)[1], known)
    if not linear(system):
        _check_selected_entries(system, variables)
    levels: list[list[Constraint]] = []
    for variable in reversed(variables):
        if FALSE in system:
            return _empty_nest(variables)
        system = system if linear(system) else system_without_quotients(system, variable, known)
        levels.append([row for row in system if variable in row.form.atoms()])
        if len(levels) < len(variables):
            system = _project_out(system, variable, variables[: -len(levels)], known, symbolic_coefficients=multiples)
    nest: list[Bounds] = []
    for variable, level in zip(variables, reversed(levels), strict=True):
        # The only bound of its side is needed: no other row contains the variable.
        irredundant = tuple(level) if len(level) == 2 and _are_inequalities(level) else remove_redundant(level, known)
        if FALSE in irredundant:
            return _empty_nest(variables)
        irredundant = _without_weaker_than_multiples(irredundant, variable, known)
        positive = () if linear(irredundant) else positive_divisors(variable, irredundant, known)
        guards, known = guards + positive, known + positive
        nest.append(_solve_for(variable, irredundant, known))
        known += irredundant
    return tuple(nest), guards


def order(
    rows: Sequence[Constraint], variables: Sequence[Variable], facts: Sequence[Constraint] = ()
) -> tuple[Variable, ...]:
    """Return ``variables`` in a good order for nested loops over the points of ``rows``, outermost first. Beginning
    with the innermost loop, each step takes the variable that is easiest to eliminate from the remaining constraints.
    ``facts`` are known constraints.

    From the inside out, each step takes the variable whose elimination is exact over the integers, adds
    the fewest rows on the other variables and has unit coefficients; of equally good ones the last of
    ``variables``, so that independent variables stay in order.

    Examples
    --------
    >>> i, j, n = (Affine.variable(v) for v in "ijn")
    >>> order([Constraint("ge", i), Constraint("ge", j), Constraint("ge", i - j), Constraint("ge", n - i)], ["j", "i"])
    ('i', 'j')
    >>> order([Constraint("ge", j), Constraint("ge", i), Constraint("ge", n - i - 2 * j)], ["i", "j"])
    ('j', 'i')
    >>> from sympy_tensordiff.integer.products import times
    >>> gap = times(n, j) - 2 * i
    >>> order([Constraint("ge", gap), Constraint("ge", 9 - gap), Constraint("ge", i),
    ...        Constraint("ge", n - 2 * i - 1)], ["i", "j"])
    ('j', 'i')
    """
    remaining = list(variables)
    loops = frozenset(variables)
    known = partition((*facts, *rows), loops)[0]
    own = partition(rows, loops)[1]
    system = merge_parallel(own if linear(own) else rows_without_quotients(own, loops))
    inner: list[Variable] = []
    irredundant = False
    while len(remaining) > 1 and system is not None:
        current = system
        next_inner = min(reversed(remaining), key=lambda v: _innermost_cost(current, v, remaining, known))
        if not irredundant and grows(current, next_inner):
            system = simplest(current, known, MAX_ROWS_FOR_ORDER)
            irredundant = True
            continue
        remaining.remove(next_inner)
        inner.append(next_inner)
        system = eliminate(_with_affine_occurrences(current, next_inner), next_inner)
        irredundant = irredundant or (system is not None and len(system) > len(current))
        if system is not None and irredundant:
            system = simplest(system, known, MAX_ROWS_FOR_ORDER)
    return (*remaining, *reversed(inner))


def _check_selected_entries(rows: Sequence[Constraint], variables: Sequence[Variable]) -> None:
    """Raise LoopBoundError if a constraint in ``rows`` cannot be a loop bound, because its innermost loop variable
    occurs in the index of a tensor entry. An example is ``i <= p[j]`` if the loop over j is inside of the loop over i.

    ``variables`` are those of the loops, outermost first.
    """
    for row in rows:
        innermost = _innermost_selector(row, variables)
        if innermost is not None:
            raise LoopBoundError(
                "no bounds of a loop express {}, which depends on a tensor entry that {} selects: write the condition "
                "as a case of the summand, Piecewise((..., condition), (0, True))",
                row,
                innermost,
            )


def _innermost_selector(row: Constraint, variables: Sequence[Variable]) -> Variable | None:
    """Return the innermost loop variable in the constraint ``row`` if it occurs in the index of a tensor entry, as
    ``j`` in ``i <= p[j]``; else None. ``variables`` are those of the loops, outermost first.
    """
    innermost = next((v for v in reversed(variables) if v in row.form.atoms()), None)
    return innermost if not linear((row,)) and innermost in variables_in_indirect_indices(row.form) else None


def _contains_any(row: Constraint, variables: frozenset[Variable]) -> bool:
    """Return whether one of ``variables`` occurs in ``row``."""
    return not variables.isdisjoint(row.form.atoms())


def _are_inequalities(rows: Sequence[Constraint]) -> bool:
    """Return whether all rows are inequalities ``form >= 0``, none an equation or a congruence."""
    return all(row.kind == "ge" for row in rows)


def _project_out(
    system: tuple[Constraint, ...],
    variable: Variable,
    outer: Sequence[Variable],
    known: Sequence[Constraint],
    *,
    symbolic_coefficients: bool,
) -> tuple[Constraint, ...]:
    """Eliminate ``variable`` from the constraints ``system``: return constraints on the variables ``outer`` that follow
    from these and from ``known``, without redundant ones. With ``symbolic_coefficients``, rows in which a symbol
    multiplies ``variable``, as in ``M*i <= r``, are used, too.

    ``known`` are constraints that hold already.

    The result only tightens the loops over ``outer``: rows that no bound of theirs expresses are relaxed over the
    rationals, and rows with tensor entries that the innermost of their variables selects are left out.
    """
    products = bounds_by_multiples(system, variable, outer, known) if symbolic_coefficients else ()
    result = eliminate((*_with_affine_occurrences(system, variable), *products), variable)
    if result is None:
        return (FALSE,)
    before = set(system)
    relaxed = [row if row in before else innermost_bound(row, outer) for row in result]
    if all(row in before for row in relaxed):
        return result
    return without_redundant(
        [row for row in relaxed if row is not None and _innermost_selector(row, outer) is None], known
    )


def _with_affine_occurrences(rows: Sequence[Constraint], variable: Variable) -> list[Constraint]:
    """Return ``rows`` without those that contain ``variable`` inside of a nonlinear term, such as ``floor(i/2)``.
    Elimination cannot use these; without them, the outer loops may only be longer.
    """
    return [row for row in rows if variable not in row.form.hidden()]


def _without_weaker_than_multiples(
    rows: tuple[Constraint, ...], variable: Variable, known: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """Return ``rows`` without redundant bounds of ``variable``: those that follow from ``known`` and the rows in which
    a symbol multiplies the variable, as ``i >= 0`` follows from ``M*i >= 3`` and ``M >= 1``.

    The simplex method sees this only for the negated constraint, whose products with known rows are formed. This must
    not be done for several loops together: projection does not use the rows with a symbolic multiple.
    """
    remaining = list(rows)
    for row in rows if any(variable in row.form.hidden() for row in rows) else ():
        others = [other for other in remaining if other is not row]
        if row.kind == "ge" and variable not in row.form.hidden() and is_empty((row.negation(), *others), known):
            remaining = others
    return tuple(remaining)


def _empty_nest(variables: Sequence[Variable]) -> tuple[tuple[Bounds, ...], tuple[Constraint, ...]]:
    """Return a nest of empty loops ``0 .. -1`` over ``variables``, with the guard that never holds."""
    empty = ((Affine(), 1),), ((Affine(None, -1), 1),)
    return tuple(Bounds(variable, *empty) for variable in variables), (FALSE,)


def _solve_for(variable: Variable, rows: Sequence[Constraint], known: Sequence[Constraint]) -> Bounds:
    """Return the loop bounds of ``variable`` from ``rows``, all of which contain it. An equation gives a lower and an
    upper bound. The constraints ``known`` hold, too.

    Raises LoopBoundError if a side has no bound or a row cannot be solved for the variable.
    """
    lows: list[tuple[Affine, int]] = []
    highs: list[tuple[Affine, int]] = []
    for row in rows:
        if row.kind == "mod":
            raise LoopBoundError("no bounds of the loop over {} express {}", variable, row)
        if variable in row.form.hidden():
            below, above = divided_bounds(variable, row, known)
        else:
            below, above = bounds_with_divisors(variable, [row.form])
            if row.kind == "eq":
                below, above = below or above, above or below
        lows += below
        highs += above
    for side_bounds, side in ((lows, "lower"), (highs, "upper")):
        if not side_bounds:
            raise LoopBoundError(
                f"the index {{}} has no {side} bound in the indices outside of its loop: give its range numbers or "
                "sizes as ends",
                variable,
            )
    return Bounds(variable, tuple(lows), tuple(highs))


def _innermost_cost(
    rows: Sequence[Constraint], variable: Variable, loops: Sequence[Variable], known: Sequence[Constraint]
) -> tuple[int, ...]:
    """Return a sort key for choosing the innermost of ``loops``: it is small if the bounds of ``variable`` in ``rows``
    are exact, and its elimination complicates the bounds of the other loops little. ``known`` are constraints that
    hold.

    Rows that multiply it by a symbol give no outer bounds and count as inexact pairs. If such rows may leave it without
    a value, as ``0 <= n*t - 2*u < m``, it should be an outer loop: as the inner one it would be empty for most ``u`` if
    ``n`` is large. A variable that selects a tensor entry in a bound of another one must be outside of that loop, at
    any cost.
    """
    others = frozenset(loops) - {variable}
    selectors = [] if linear(rows) else [row for row in rows if variable in variables_in_indirect_indices(row.form)]
    blocked = any(_contains_any(row, others - variables_in_indirect_indices(row.form)) for row in selectors)
    hiding = [row for row in rows if variable in row.form.hidden() and _contains_any(row, others)]
    skipped = len(hiding)
    may_be_empty = bool(hiding) and may_miss(hiding, variable, (*known, *partition(rows, [variable])[0]))
    involved = [(row.form.coefficient(variable), row) for row in _with_affine_occurrences(rows, variable)]
    involved = [(c, row) for c, row in involved if c]
    shared = [abs(c) for c, row in involved if _contains_any(row, others)]
    non_unit = sum(c > 1 for c in shared)
    equations = [abs(c) for c, row in involved if row.kind == "eq"]
    if equations:
        return (blocked, may_be_empty, min(equations) - 2 + skipped, 0, non_unit)
    inexact = skipped
    new: dict[Constraint, None] = {}
    for a, low in involved:
        for b, high in involved:
            if a > 0 > b:
                row = Constraint("ge", a * high.form - b * low.form)
                if _contains_any(row, others):
                    inexact += a > 1 and b < -1
                    new[row] = None
                elif a > 1 and b < -1:
                    # A gap of fixed width, as in i - 1 <= 6*v <= i, is empty for most values of the others.
                    inexact += not row.form.is_constant or row.form.constant < (a - 1) * (-b - 1)
    merged, present = merge_parallel(new) or (), set(rows)
    return (blocked, may_be_empty, inexact, sum(row not in present for row in merged), non_unit)
