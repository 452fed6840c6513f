"""Random systems of rows over loop variables and parameters, and their integer points by enumeration."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sympy_tensordiff.integer.affine import Affine, Constraint, Variable, quotient
from sympy_tensordiff.integer.extrema import cases
from sympy_tensordiff.integer.values import _enumerate_points, _numeric_system

Points = NDArray[np.int64]

_LOOPS = ("i", "j", "k", "l")
_PARAMETERS = ("n", "p", "q", "r")
_LARGEST = 6
"""The largest coefficient of a row."""
_VALUES = range(-1, 8)
"""What parameters are drawn from."""
_DRAWS = 3


@dataclass(frozen=True)
class IndexSystem:
    """A system of rows.

    Attributes
    ----------
    loops, parameters : tuple of str
        The variables.
    rows : tuple of Constraint
        They bound the loops; equations, congruences and quotients among them.
    facts : tuple of Constraint
        Rows over the parameters alone.
    box : dict from variable to range
        Values of the loops that hold all points.
    draws : list of dict from variable to int
        Values of the parameters that fulfil the facts.
    """

    loops: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    rows: tuple[Constraint, ...]
    facts: tuple[Constraint, ...]
    box: dict[Variable, range]
    draws: list[dict[Variable, int]]


def random_form(
    generator: random.Random, variables: Sequence[Variable], size: int = _LARGEST, constant: int = 8
) -> Affine:
    """A sparse form with coefficients up to ``size``, small ones more often."""
    terms = {v: generator.choice((1, 1, 2, size)) for v in variables if generator.random() < 0.6}
    terms = {v: generator.choice((1, -1)) * generator.randint(1, c) for v, c in terms.items()}
    return Affine(terms, generator.randint(-constant, constant))


def random_system(seed: int) -> IndexSystem:
    """A random system with up to 4 loops and 4 parameters and coefficients up to 6; same seed, same system.

    Examples
    --------
    >>> random_system(3) == random_system(3)
    True
    >>> max(abs(c) for seed in range(9) for row in random_system(seed).rows for _, c in row.form.terms)
    6
    """
    generator = random.Random(seed)
    loops = _LOOPS[: generator.randint(1, 4)]
    parameters = _PARAMETERS[: generator.randint(0, 4)]
    facts = _facts(generator, parameters)
    # A place inside, for most of the systems: boxes around it, rows that hold there.
    place = _fulfilling(generator, facts, parameters)
    draws = [place] if place is not None else []
    for _ in range(_DRAWS - 1):
        other = _fulfilling(generator, facts, parameters)
        if other is not None and other not in draws:
            draws.append(other)
    inside = {**(place or dict.fromkeys(parameters, 0)), **{v: generator.randint(-1, 3) for v in loops}}
    box: dict[Variable, range] = {}
    rows: list[Constraint] = []
    for v in loops:
        low, high = inside[v] - generator.randint(0, 3), inside[v] + generator.randint(0, 3)
        if generator.random() < 0.05:
            high = low - generator.randint(1, 2)  # an empty range
        box[v] = range(low, high + 1)
        factor = generator.choice((1, 1, 1, 2, 3))
        rows.append(Constraint("ge", factor * Affine({v: 1}, -low) + generator.randrange(factor)))
        rows.append(Constraint("ge", factor * Affine({v: -1}, high) + generator.randrange(factor)))
    names = (*loops, *parameters)
    for _ in range(generator.randint(0, 4)):
        rows.append(_random_row(generator, names, loops, inside))
    generator.shuffle(rows)
    return IndexSystem(loops, parameters, tuple(rows), facts, box, draws)


def _random_row(
    generator: random.Random, names: Sequence[Variable], loops: Sequence[Variable], inside: Mapping[Variable, int]
) -> Constraint:
    """An inequality, an equation or a congruence, with a quotient now and then; most hold at ``inside``."""
    form = random_form(generator, names)
    if generator.random() < 0.15:
        share = quotient(random_form(generator, generator.choice((names, loops)), 3), generator.randint(2, 6))
        form += generator.choice((1, -1, 2, -3)) * share
    draw = generator.random()
    value = form.evaluate(inside)
    if draw < 0.3:
        return Constraint("eq", form - (value if generator.random() < 0.9 else 0))
    if draw < 0.45:
        return Constraint("mod", form - (value if generator.random() < 0.8 else 0), generator.randint(2, 6))
    return Constraint("ge", form - value + generator.choice((0, 0, 1, 2, 5, 9)) if generator.random() < 0.9 else form)


def _facts(generator: random.Random, parameters: Sequence[Variable]) -> tuple[Constraint, ...]:
    """Return facts about the parameters."""
    facts = [Constraint("ge", Affine({v: 1}, generator.choice((1, 0, -1)))) for v in parameters]
    if len(parameters) > 1 and generator.random() < 0.3:
        first, second = generator.sample(parameters, 2)
        facts.append(Constraint("ge", Affine({first: 1, second: -1}, generator.randint(0, 2))))
    if parameters and generator.random() < 0.3:
        facts.append(Constraint("mod", random_form(generator, parameters), generator.randint(2, 4)))
    if parameters and generator.random() < 0.2:
        facts.append(
            Constraint("ge", random_form(generator, parameters, 1) + quotient(random_form(generator, parameters), 2))
        )
    return tuple(facts)


def _fulfilling(
    generator: random.Random, rows: Sequence[Constraint], parameters: Sequence[Variable]
) -> dict[Variable, int] | None:
    """Values of the parameters at which the rows hold, None where none are found."""
    for _ in range(40):
        values = {v: generator.choice(_VALUES) for v in parameters}
        if all(row.holds(values) for row in rows):
            return values
    return None


def points(rows: Sequence[Constraint], box: Mapping[Variable, range], values: Mapping[Variable, int]) -> Points:
    """All points of a box that fulfil the rows at ``values`` of the other variables.

    One point a line, its coordinates in the order of the box, in lexicographic order.

    Examples
    --------
    >>> i, j = Affine.variable("i"), Affine.variable("j")
    >>> points([Constraint("ge", i - j), Constraint("eq", 2 * j - Affine.variable("p"))],
    ...        {"i": range(3), "j": range(3)}, {"p": 2})
    array([[1, 1],
           [2, 1]])
    """
    axes = [np.arange(r.start, r.stop, dtype=np.int64) for r in box.values()]
    grid = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    count = grid[0].size if grid else 1
    mask = np.ones(count, dtype=bool)
    at: dict[Variable, Any] = {**values, **dict(zip(box, grid, strict=True))}
    for row in rows:
        mask &= row.holds(at)
    return np.stack(grid, axis=1)[mask] if grid else np.zeros((int(mask[0]), 0), dtype=np.int64)


def count_points(rows: Sequence[Constraint], variables: Sequence[Variable]) -> int:
    """Return the number of integer points of a system whose only variables are ``variables``, by enumeration.

    >>> z1, z2 = Affine.variable("z1"), Affine.variable("z2")
    >>> box = [Constraint("ge", 1 - z1), Constraint("ge", z1 + 1), Constraint("ge", z1 + z2),
    ...        Constraint("ge", 4 - z1 - z2)]
    >>> count_points([*box, Constraint("ge", z2 + 1), Constraint("ge", 5 - z2)], ["z1", "z2"])  # fig. 4 of the paper
    15
    """
    systems = (_numeric_system(case, variables) for case in cases(rows, limit=None))
    return sum(1 for solved in systems for _ in _enumerate_points(solved, variables))
