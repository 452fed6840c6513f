"""Index maps in numbers: the points of a lattice, the solutions of ``A alpha + t == beta``, their places in the plane.

Everything is computed by the algebra that derivatives are made with: the Smith normal form gives the particular
solution, the kernel basis and the conditions, Fourier-Motzkin elimination the ranges (Urban & van der Smagt 2017,
sections 4 and 5.1). Variables are numbered from 0, those of the kernel basis too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import atan2
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.drawing.labels import form as form_text
from sympy_tensordiff.drawing.labels import limit, quotient
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer import smith
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.nests import Bounds, bounds, order
from sympy_tensordiff.integer.rows import substitute_all
from sympy_tensordiff.integer.values import run

Point: TypeAlias = tuple[int, ...]
Position: TypeAlias = tuple[float, float]
HalfPlane: TypeAlias = tuple[int, int, int]

LARGEST = 5000
"""Points of a picture; nobody can tell more of them apart."""

GAP = 1
"""Columns that are left free between two layers."""

THICKNESS = (Row("ge", Affine({1: 4}, 1)), Row("ge", Affine({1: -4}, 1)))
"""What a lattice of one dimension has for a second: -1/4 to 1/4."""


class IndexMap(NamedTuple):
    """The forms ``A alpha + t`` of the indices ``alpha``, and the inequalities that these fulfil."""

    names: tuple[str, ...]
    forms: tuple[Affine, ...]
    rows: tuple[Row, ...]

    @property
    def rank(self) -> int:
        """The number of indices."""
        return len(self.names)

    @property
    def is_affine(self) -> bool:
        """Whether nothing is rounded or clamped."""
        return not any(form.compounds() for form in self.forms)

    def matrix(self) -> list[list[int]]:
        """The coefficients ``A``."""
        return [[form.coefficient(v) for v in range(self.rank)] for form in self.forms]

    def image(self, point: Point) -> Point:
        """The index ``A alpha + t``."""
        values = dict(enumerate(point))
        return tuple(form.evaluate(values) for form in self.forms)


class Solutions(NamedTuple):
    """All ``alpha`` with ``A alpha + t == at``: ``particular + kernel z`` where nothing is ``failing``.

    Of a map that is not affine they are listed, each for a ``z`` of its own; there is no particular one.
    """

    at: Point
    failing: tuple[str, ...]
    particular: Point
    kernel: tuple[Point, ...]
    rows: tuple[Row, ...]
    nest: tuple[Bounds, ...]
    by_kernel: dict[Point, Point]

    @property
    def points(self) -> list[Point]:
        """Those in the ranges, ordered by ``z``."""
        return list(self.by_kernel.values())

    def of(self, z: Sequence[int]) -> Point:
        """The solution that belongs to ``z``."""
        return _moved(self.particular, self.kernel, z)


def solutions(index_map: IndexMap, at: Point) -> Solutions:
    """What solves the index equation: the conditions, one solution, the kernel basis, and the ranges of ``z``."""
    if not index_map.is_affine:
        _, inside = points(index_map.rows, index_map.rank)
        return Solutions(at, (), (), (), (), (), {p: p for p in inside if index_map.image(p) == at})
    right = [value - form.constant for value, form in zip(at, index_map.forms, strict=True)]
    solution = smith.solve(index_map.matrix(), index_map.rank)
    failing = []
    for row, modulus in solution.congruences:
        text, rest = _combination(row, right), _dot(row, right) % modulus
        if rest:
            failing.append(f"{f'({text})' if ' ' in text else text} mod {modulus} = {rest}, not 0")
    failing += [
        f"{_combination(row, right)} = {_dot(row, right)}, not 0" for row in solution.equations if _dot(row, right)
    ]
    if failing:
        return Solutions(at, tuple(failing), (), solution.kernel, (), (), {})
    steps = [_dot(row, right) // factor for row, factor, _ in solution.particular]
    columns = [term.column for term in solution.particular]
    particular = _moved((0,) * index_map.rank, columns, steps)
    rows = in_kernel(index_map.rows, particular, solution.kernel)
    nest, found = points(rows, len(solution.kernel))
    by_kernel = {z: _moved(particular, solution.kernel, z) for z in found}
    return Solutions(at, (), particular, solution.kernel, rows, nest, by_kernel)


def in_kernel(rows: Sequence[Row], particular: Point, kernel: Sequence[Point]) -> tuple[Row, ...]:
    """Inequalities of ``alpha = particular + kernel z`` as such of ``z``."""
    values = {
        v: Affine({z: vector[v] for z, vector in enumerate(kernel)}, constant) for v, constant in enumerate(particular)
    }
    return substitute_all(rows, values)


def points(rows: Sequence[Row], rank: int) -> tuple[tuple[Bounds, ...], list[Point]]:
    """The loops over the integer points of rows, and these points in lexicographic order.

    Raises
    ------
    UnsupportedError
        If there are too many to be drawn.
    """
    nest, guards = bounds(rows, order(rows, range(rank)))
    found: list[Point] = []
    for values in run(nest) if all(row.holds({}) for row in guards) else ():
        found.append(tuple(values[v] for v in range(rank)))
        if len(found) > LARGEST:
            raise UnsupportedError(
                f"the ranges hold more than {LARGEST} points, too many for a picture: choose smaller numbers"
            )
    return nest, sorted(found)


def nest_text(nest: Sequence[Bounds], names: Mapping[int, str]) -> str:
    """``z2 = -1 … 5, z1 = max(-1, -z2) … min(1, 4 - z2)``, outermost first."""
    parts = []
    for variable, lows, highs in nest:
        low = limit("max", [_rounded(form, divisor, "⌈⌉", names) for form, divisor in lows])
        high = limit("min", [_rounded(form, divisor, "⌊⌋", names) for form, divisor in highs])
        parts.append(f"{names[variable]} = {low}" + (f" … {high}" if low != high else ""))
    return ", ".join(parts)


def _rounded(form: Affine, divisor: int, brackets: str, names: Mapping[int, str]) -> str:
    text = quotient(form, Affine.of(divisor), names)
    return form_text(form, names) if divisor == 1 else f"{brackets[0]}{text}{brackets[1]}"


def _combination(row: Sequence[int], values: Sequence[int]) -> str:
    """The sum of the products as one writes it."""
    names = {v: str(value) if value >= 0 else f"({value})" for v, value in enumerate(values)}
    total = _dot(row, values)
    return str(total) if sum(map(abs, row)) == 1 else form_text(Affine(dict(enumerate(row))), names)


def _dot(row: Sequence[int], values: Sequence[int]) -> int:
    return sum(c * value for c, value in zip(row, values, strict=True))


def _moved(start: Point, vectors: Sequence[Point], steps: Sequence[int]) -> Point:
    """The point plus a combination of vectors."""
    return tuple(
        x + sum(step * vector[v] for step, vector in zip(steps, vectors, strict=True)) for v, x in enumerate(start)
    )


# ---------------------------------------------------------------------------- places in the plane


class Frame(NamedTuple):
    """The smallest and the largest value of each index that the picture shows.

    The first two indices are the horizontal and the vertical one; the planes of a third stand side by side. So
    the way into the plane is linear, and an arrow from one layer to another is straight.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def layers(self) -> range:
        """The values of the third index."""
        return range(self.low[2], self.high[2] + 1) if len(self.low) == 3 else range(1)

    @property
    def pitch(self) -> int:
        """The distance of two layers."""
        return self.high[0] - self.low[0] + 1 + GAP

    def position(self, point: Sequence[float | Fraction]) -> Position:
        """Where a point lies in the plane."""
        layer = point[2] - self.low[2] if len(point) == 3 else 0
        return float(point[0] + layer * self.pitch), float(point[1] if len(point) > 1 else 0)

    def holds(self, point: Sequence[float | Fraction]) -> bool:
        """Whether the picture shows a point."""
        return all(a <= x <= b for a, x, b in zip(self.low, point, self.high, strict=True))

    def rows(self, scale: int = 1, room: int = 0) -> tuple[Row, ...]:
        """The inequalities of what the picture shows, with ``room/scale`` round it."""
        return tuple(
            Row("ge", form)
            for v, (a, b) in enumerate(zip(self.low, self.high, strict=True))
            for form in (Affine({v: scale}, room - scale * a), Affine({v: -scale}, room + scale * b))
        )

    def corners(self) -> tuple[Position, Position]:
        """The lower left and the upper right end of the picture."""
        right = self.high[0] + self.pitch * (len(self.layers) - 1)
        low, high = (self.low[1], self.high[1]) if len(self.low) > 1 else (0, 0)
        return (self.low[0], low), (right, high)


def frame_of(points: Sequence[Sequence[int]], near: Sequence[Sequence[int]] = ()) -> Frame:
    """What holds the points, and those of others that are near to them."""
    low, high = _span(points)
    reach = [max(3, b - a) for a, b in zip(low, high, strict=True)][:2]
    for point in near:
        flat = list(zip(low, point, high, reach, strict=False))
        if all(a - r <= x <= b + r for a, x, b, r in flat) and all(
            low[v] <= point[v] <= high[v] for v in range(2, len(point))
        ):
            points = [*points, point]
    return Frame(*_span(points))


def _span(points: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    columns = list(zip(*points, strict=True))
    return tuple(map(min, columns)), tuple(map(max, columns))


def outlines(rows: Sequence[Row], frame: Frame) -> Iterator[list[Position]]:
    """The corners of what inequalities leave of each layer, in order round it; exact before they are placed."""
    rows = [*rows, *(THICKNESS if len(frame.low) == 1 else ())]
    for layer in frame.layers:
        here = [row.substitute({2: Affine.of(layer)}).form for row in rows]
        planes = [(form.coefficient(0), form.coefficient(1), form.constant) for form in here]
        corners = _corners(planes)
        if corners:
            yield [frame.position((x, y, layer)[: max(2, len(frame.low))]) for x, y in corners]


def _corners(planes: Sequence[HalfPlane]) -> list[tuple[Fraction, Fraction]]:
    """The corners of the intersection of half-planes ``a*x + b*y + c >= 0``, counter-clockwise."""
    found: dict[tuple[Fraction, Fraction], None] = {}
    for (a, b, c), (d, e, f) in combinations(dict.fromkeys(planes), 2):
        det = a * e - b * d
        if det:
            x, y = Fraction(b * f - c * e, det), Fraction(c * d - a * f, det)
            if all(p * x + q * y + r >= 0 for p, q, r in planes):
                found[x, y] = None
    if not found:
        return []
    middle = (sum(x for x, _ in found) / len(found), sum(y for _, y in found) / len(found))
    return sorted(found, key=lambda corner: atan2(corner[1] - middle[1], corner[0] - middle[0]))


def lines(index_map: IndexMap, at: Point, frame: Frame) -> Iterator[list[Position]]:
    """The ends of the rational solutions in each layer where they are a line, cut off half a step round the frame.

    A line is what two opposite inequalities leave. It is drawn also where it goes past all points: where a
    congruence fails.
    """
    equations = [form - value for form, value in zip(index_map.forms, at, strict=True)]
    rows = [Row("ge", side) for form in equations for side in (form, -form)]
    found = outlines([*rows, *frame.rows(2, 1)], frame) if index_map.rank > 1 else iter(())
    return (corners for corners in found if len(corners) == 2)
