"""Integer points of systems of rows: the questions that the other rooms ask, and the search for points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .affine import Affine, Row, Variable
from .extrema import cases
from .implication import FALSE, implied, is_empty, maximum, minimum, remove_redundant, without_redundant
from .nests import Bounds, bounds, order
from .rows import atoms_in
from .system import System

__all__ = [
    "FALSE",
    "Bounds",
    "bounds",
    "count_points",
    "find_point",
    "implied",
    "is_empty",
    "maximum",
    "minimum",
    "order",
    "remove_redundant",
    "without_redundant",
]


def find_point(
    rows: Sequence[Row], variables: Sequence[Variable], limit: int | None = None
) -> dict[Variable, int] | None:
    """An integer point of a numeric system, all of whose variables are given; None where there is none.

    The search gives up after ``limit`` steps.

    Raises
    ------
    ValueError
        If the rows hold another variable, the search would be endless in an unbounded system, or
        it takes more steps than the limit.

    Examples
    --------
    >>> i, j = Affine.variable("i"), Affine.variable("j")
    >>> find_point([Row("eq", 3 * i - 2 * j - 1), Row("ge", i - 2), Row("ge", 9 - j)], ["i", "j"])
    {'i': 5, 'j': 7}
    """
    for case in cases(rows, limit=None):
        point = _point(case, variables, limit)
        if point is not None:
            return point
    return None


def _point(rows: Sequence[Row], variables: Sequence[Variable], limit: int | None) -> dict[Variable, int] | None:
    """As `find_point`, for rows without maxima and minima."""
    solved = _numeric(rows, variables)
    if solved.is_empty:
        return None
    corner = solved.rational_point()
    if all(value.denominator == 1 for value in corner):
        return _original(solved, variables, [value.numerator for value in corner])
    return next(_points(solved, variables, limit), None)


def count_points(rows: Sequence[Row], variables: Sequence[Variable]) -> int:
    """The number of integer points of a numeric system, by enumeration.

    >>> z1, z2 = Affine.variable("z1"), Affine.variable("z2")
    >>> box = [Row("ge", 1 - z1), Row("ge", z1 + 1), Row("ge", z1 + z2), Row("ge", 4 - z1 - z2)]
    >>> count_points([*box, Row("ge", z2 + 1), Row("ge", 5 - z2)], ["z1", "z2"])  # fig. 4 of the paper
    15
    """
    systems = (_numeric(case, variables) for case in cases(rows, limit=None))
    return sum(1 for solved in systems for _ in _points(solved, variables))


def _numeric(rows: Sequence[Row], variables: Sequence[Variable]) -> System:
    """The system of rows that hold no other variables than the given ones."""
    other = atoms_in(rows) - frozenset(variables)
    if other:
        raise ValueError(f"no values given for {sorted(map(str, other))}")
    return System(tuple(rows))


def _original(solved: System, variables: Sequence[Variable], columns: Sequence[int]) -> dict[Variable, int]:
    """The given variables at a point of the columns; one that no row holds is 0."""
    values = (*columns, 1)
    return {v: sum(c * values[i] for i, c in solved.images.get(v, ())) for v in variables}


def _points(solved: System, variables: Sequence[Variable], limit: int | None = None) -> Iterator[dict[Variable, int]]:
    """All integer points, one by one: a nest over the columns that the equations leave free."""
    if solved.is_empty:
        return
    if not solved.images.keys() >= set(variables):
        raise ValueError("the system is unbounded: a variable is in no row")
    system = [Row("ge", Affine(dict(enumerate(terms)), constant)) for terms, constant in solved.inequalities.items()]
    columns = range(solved.width)
    try:
        nest, _ = bounds(system, order(system, columns))
    except ValueError:
        raise ValueError("the system is unbounded") from None
    for values in _run(nest, limit):
        yield _original(solved, variables, [values[column] for column in columns])


def _run(nest: Sequence[Bounds], limit: int | None = None) -> Iterator[dict[Variable, int]]:
    """The points of a numeric nest, in order; the yielded mapping is reused."""
    values: dict[Variable, int] = {}
    if not nest:
        yield values
        return
    stack = [iter(nest[0].range(values))]
    steps = 0
    while stack:
        steps += 1
        if limit is not None and steps > limit:
            raise ValueError(f"no point was found in {limit} steps")
        depth = len(stack) - 1
        for value in stack[-1]:
            values[nest[depth].variable] = value
            if depth + 1 < len(nest):
                stack.append(iter(nest[depth + 1].range(values)))
                break
            yield values
        else:
            stack.pop()
