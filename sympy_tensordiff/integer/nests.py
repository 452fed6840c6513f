"""Loop nests over the integer points of a system (section 4.2 of the paper, eqs. (22) to (26)).

The range of each variable is a maximum and a minimum of forms in the parameters and the variables
outside of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Row, Variable
from .data import selected_in
from .fourier_motzkin import eliminate, grows, simplest
from .implication import FALSE, is_empty, merge_parallel, remove_redundant, without_redundant
from .rows import linear, partition, quotients_of
from .unfolding import (
    divided_bounds,
    expressible,
    may_miss,
    of_multiples,
    positive_divisors,
    rows_without_quotients,
    system_without_quotients,
)

MOST = 16
"""An order is chosen by so many rows: it decides how well the loops read and run, and not what they run over."""


class Bounds(NamedTuple):
    """The range of one loop: ``max(ceil(form/divisor) for lows) .. min(floor(form/divisor) for highs)``.

    Examples
    --------
    >>> Bounds("k", ((Affine.of(0), 1), (Affine({"p": 1}), 2)), ((Affine.of(4), 1),)).range({"p": 3})
    range(2, 5)
    """

    variable: Variable
    lows: tuple[tuple[Affine, int], ...]
    highs: tuple[tuple[Affine, int], ...]

    def range(self, values: Mapping[Variable, int]) -> range:
        """The values of the variable at given values of all others."""
        low = max(-(-form.evaluate(values) // divisor) for form, divisor in self.lows)
        high = min(form.evaluate(values) // divisor for form, divisor in self.highs)
        return range(low, high + 1)

    def substitute(self, mapping: Mapping[Variable, Affine]) -> Bounds:
        """The bounds with other variables replaced."""
        lows, highs = (
            tuple((form.substitute(mapping), divisor) for form, divisor in side) for side in (self.lows, self.highs)
        )
        return Bounds(self.variable, lows, highs)


def bounds(
    rows: Sequence[Row],
    variables: Sequence[Variable],
    facts: Sequence[Row] = (),
    *,
    multiples: bool = False,
) -> tuple[tuple[Bounds, ...], tuple[Row, ...]]:
    """The loop nest over ``variables``, outermost first, and the rows that hold none of them.

    Law: under ``facts`` the nest runs exactly over the integer points of ``rows``, where the
    returned rows hold. The innermost rows make it exact; the projections on the outer variables
    only tighten it (eqs. (30), (31)), so an outer value may have an empty inner range: a sum of
    nothing. Feasibility rows that come from projection alone (the matrix F of Algorithm 3) are not
    returned: an empty loop is 0 without them. No bound is implied by ``facts``, the returned rows,
    the bounds outside of it and the other bounds of its variable.

    What rows say that multiply an inner variable by a symbol only tightens the loops outside of it, as a rule;
    where one of these has no other bound, ``multiples`` asks for it.

    Facts that hold a loop variable are ignored. Where the rows are provably empty, the nest is
    ``0 .. -1`` and the returned rows are ``(FALSE,)``.

    Raises
    ------
    LoopBoundError
        If a variable has no lower or no upper bound, or a congruence or quotient holds a loop
        variable in a way that no bound expresses. The error holds variables: whoever knows their names gives them.

    Examples
    --------
    >>> p, k, j = (Affine.variable(v) for v in "pkj")
    >>> rows = [Row("ge", p - k), Row("ge", 2 - p + k), Row("ge", j), Row("ge", 3 - j), Row("ge", k), Row("ge", 4 - k)]
    >>> nest, rest = bounds(rows, ["k", "j"], [Row("ge", p), Row("ge", 7 - p)])
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
        return _nothing(variables)
    known = (*outside, *guards)
    system = without_redundant(partition(merged, loops)[1], known)
    if not linear(system):
        _check_data(system, variables)
    levels: list[list[Row]] = []
    for variable in reversed(variables):
        if FALSE in system:
            return _nothing(variables)
        system = system if linear(system) else system_without_quotients(system, variable, known)
        levels.append([row for row in system if variable in row.form.atoms()])
        if len(levels) < len(variables):
            system = _projected(system, variable, variables[: -len(levels)], known, multiples=multiples)
    nest: list[Bounds] = []
    for variable, level in zip(variables, reversed(levels), strict=True):
        # The only bound of its side is needed: nothing else holds the variable.
        kept = tuple(level) if len(level) == 2 and _are_inequalities(level) else remove_redundant(level, known)
        if FALSE in kept:
            return _nothing(variables)
        kept = _without_weaker_than_multiples(kept, variable, known)
        positive = () if linear(kept) else positive_divisors(variable, kept, known)
        guards, known = guards + positive, known + positive
        nest.append(_bounds_of(variable, kept, known))
        known += kept
    return tuple(nest), guards


def order(rows: Sequence[Row], variables: Sequence[Variable], facts: Sequence[Row] = ()) -> tuple[Variable, ...]:
    """A good loop order of ``variables``, outermost first.

    Innermost goes, step by step, the variable whose elimination is exact over the integers, adds
    the fewest rows on the other variables and has unit coefficients; the last one given where
    nothing else decides, so that independent variables keep their order.

    Examples
    --------
    >>> i, j, n = (Affine.variable(v) for v in "ijn")
    >>> order([Row("ge", i), Row("ge", j), Row("ge", i - j), Row("ge", n - i)], ["j", "i"])
    ('i', 'j')
    >>> order([Row("ge", j), Row("ge", i), Row("ge", n - i - 2 * j)], ["i", "j"])
    ('j', 'i')
    >>> from sympy_tensordiff.integer.products import times
    >>> gap = times(n, j) - 2 * i
    >>> order([Row("ge", gap), Row("ge", 9 - gap), Row("ge", i), Row("ge", n - 2 * i - 1)], ["i", "j"])
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
        chosen = min(reversed(remaining), key=lambda v: _innermost_cost(current, v, remaining, known))
        if not irredundant and grows(current, chosen):
            system = simplest(current, known, MOST)
            irredundant = True
            continue
        remaining.remove(chosen)
        inner.append(chosen)
        system = eliminate(_affine_in(current, chosen), chosen)
        irredundant = irredundant or (system is not None and len(system) > len(current))
        if system is not None and irredundant:
            system = simplest(system, known, MOST)
    return (*remaining, *reversed(inner))


def _check_data(rows: Sequence[Row], variables: Sequence[Variable]) -> None:
    """Raise where the innermost loop variable of a row selects data: no loop inside of it has bounds of these data."""
    for row in rows:
        innermost = _selecting(row, variables)
        if innermost is not None:
            raise LoopBoundError(
                "no bounds of a loop express {}, which data decide that {} selects: write the condition as a case of "
                "the summand, Piecewise((..., condition), (0, True))",
                row,
                innermost,
            )


def _selecting(row: Row, variables: Sequence[Variable]) -> Variable | None:
    """The innermost loop variable of a row, where it selects data in it."""
    innermost = next((v for v in reversed(variables) if v in row.form.atoms()), None)
    return innermost if not linear((row,)) and innermost in selected_in(row.form) else None


def _holds_any(row: Row, variables: frozenset[Variable]) -> bool:
    return not variables.isdisjoint(row.form.atoms())


def _are_inequalities(rows: Sequence[Row]) -> bool:
    return all(row.kind == "ge" for row in rows)


def _projected(
    system: tuple[Row, ...], variable: Variable, outer: Sequence[Variable], known: Sequence[Row], *, multiples: bool
) -> tuple[Row, ...]:
    """One variable eliminated from irredundant rows, and the rows that this makes redundant removed.

    What follows only tightens the loops over ``outer``: rows that no bound of these expresses are taken rationally,
    and those about data that the variable of a bound selects are left out.
    """
    more = of_multiples(system, variable, outer, known) if multiples else ()
    result = eliminate((*_affine_in(system, variable), *more), variable)
    if result is None:
        return (FALSE,)
    before = set(system)
    kept = [row if row in before else expressible(row, outer) for row in result]
    if all(row in before for row in kept):
        return result
    return without_redundant([row for row in kept if row is not None and _selecting(row, outer) is None], known)


def _affine_in(rows: Sequence[Row], variable: Variable) -> list[Row]:
    """The rows without those that multiply the variable by a symbol: what follows from these would only tighten."""
    return [row for row in rows if variable not in row.form.hidden()]


def _without_weaker_than_multiples(rows: tuple[Row, ...], variable: Variable, known: Sequence[Row]) -> tuple[Row, ...]:
    """The bounds of a loop without ``i >= 0`` beside ``M*i >= 3``: only the negation has products with what is known.

    The systems of all loops together keep them, where no elimination sees the rows that a symbol multiplies.
    """
    kept = list(rows)
    for row in rows if any(variable in row.form.hidden() for row in rows) else ():
        others = [other for other in kept if other is not row]
        if row.kind == "ge" and variable not in row.form.hidden() and is_empty((row.negation(), *others), known):
            kept = others
    return tuple(kept)


def _nothing(variables: Sequence[Variable]) -> tuple[tuple[Bounds, ...], tuple[Row, ...]]:
    empty = ((Affine(), 1),), ((Affine(None, -1), 1),)
    return tuple(Bounds(variable, *empty) for variable in variables), (FALSE,)


def _bounds_of(variable: Variable, rows: Sequence[Row], known: Sequence[Row]) -> Bounds:
    """Rows that all hold ``variable``, solved for it; an equation bounds it from both sides."""
    lows: list[tuple[Affine, int]] = []
    highs: list[tuple[Affine, int]] = []
    for row in rows:
        if row.kind == "mod":
            raise LoopBoundError("no bounds of the loop over {} express {}", variable, row)
        if variable in row.form.hidden():
            below, above = divided_bounds(variable, row, known)
        else:
            below, above = quotients_of(variable, [row.form])
            if row.kind == "eq":
                below, above = below or above, above or below
        lows += below
        highs += above
    for found, side in ((lows, "lower"), (highs, "upper")):
        if not found:
            raise LoopBoundError(
                f"the index {{}} has no {side} bound in the indices outside of its loop: give its range numbers or "
                "sizes as ends",
                variable,
            )
    return Bounds(variable, tuple(lows), tuple(highs))


def _innermost_cost(
    rows: Sequence[Row], variable: Variable, loops: Sequence[Variable], known: Sequence[Row]
) -> tuple[int, ...]:
    """What ``variable`` as the innermost loop costs: inexact pairs, new outer rows, other coefficients than 1.

    Rows that multiply it by a symbol bound nothing outside of it and count as inexact pairs. Where such rows may leave
    it no value, ``0 <= n*t - 2*u < m``, it stands outside: inside, it has none for most ``u`` if ``n`` is large. What
    selects the data in the bounds of another variable stands outside of that loop, whatever it costs.
    """
    others = frozenset(loops) - {variable}
    selecting = [] if linear(rows) else [row for row in rows if variable in selected_in(row.form)]
    blocked = any(_holds_any(row, others - selected_in(row.form)) for row in selecting)
    hiding = [row for row in rows if variable in row.form.hidden() and _holds_any(row, others)]
    lost = len(hiding)
    sparse = bool(hiding) and may_miss(hiding, variable, (*known, *partition(rows, [variable])[0]))
    held = [(row.form.coefficient(variable), row) for row in _affine_in(rows, variable)]
    held = [(c, row) for c, row in held if c]
    shared = [abs(c) for c, row in held if _holds_any(row, others)]
    non_unit = sum(c > 1 for c in shared)
    equations = [abs(c) for c, row in held if row.kind == "eq"]
    if equations:
        return (blocked, sparse, min(equations) - 2 + lost, 0, non_unit)
    inexact = lost
    new: dict[Row, None] = {}
    for a, low in held:
        for b, high in held:
            if a > 0 > b:
                row = Row("ge", a * high.form - b * low.form)
                if _holds_any(row, others):
                    inexact += a > 1 and b < -1
                    new[row] = None
                elif a > 1 and b < -1:
                    # A gap of fixed width, as in i - 1 <= 6*v <= i, is empty for most values of the others.
                    inexact += not row.form.is_constant or row.form.constant < (a - 1) * (-b - 1)
    merged, present = merge_parallel(new) or (), set(rows)
    return (blocked, sparse, inexact, sum(row not in present for row in merged), non_unit)
