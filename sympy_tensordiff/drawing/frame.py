"""Where the points of a lattice of one to three dimensions lie in the plane, with the outlines of what bounds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import atan2
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.integer import smith
from sympy_tensordiff.integer.affine import Affine, Row

Place: TypeAlias = tuple[float, float]
HalfPlane: TypeAlias = tuple[int, int, int]

GAP = 1
"""Columns that are left free between two layers."""

THICKNESS = (Row("ge", Affine({1: 4}, 1)), Row("ge", Affine({1: -4}, 1)))
"""What a lattice of one dimension has for a second: -1/4 to 1/4."""


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

    def place(self, point: Sequence[float | Fraction]) -> Place:
        """Where a point lies in the plane."""
        layer = point[2] - self.low[2] if len(point) == 3 else 0
        return float(point[0] + layer * self.pitch), float(point[1] if len(point) > 1 else 0)

    def holds(self, point: Sequence[float | Fraction]) -> bool:
        """Whether the picture shows a point."""
        return all(a <= x <= b for a, x, b in zip(self.low, point, self.high, strict=True))

    def rows(self) -> tuple[Row, ...]:
        """The inequalities of what the picture shows."""
        return tuple(
            Row("ge", form)
            for v, (a, b) in enumerate(zip(self.low, self.high, strict=True))
            for form in (Affine({v: 1}, -a), Affine({v: -1}, b))
        )

    def corners(self) -> tuple[Place, Place]:
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


def outlines(rows: Sequence[Row], frame: Frame) -> Iterator[list[Place]]:
    """The corners of what inequalities leave of each layer, in order round it; exact before they are placed."""
    rows = [*rows, *(THICKNESS if len(frame.low) == 1 else ())]
    for layer in frame.layers:
        here = [row.substitute({2: Affine.of(layer)}).form for row in rows]
        planes = [(form.coefficient(0), form.coefficient(1), form.constant) for form in here]
        corners = _corners(planes)
        if corners:
            yield [frame.place((x, y, layer)[: max(2, len(frame.low))]) for x, y in corners]


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


def lines(matrix: Sequence[Sequence[int]], right: Sequence[int], frame: Frame) -> Iterator[tuple[Place, Place]]:
    """The rational solutions of ``matrix * x = right`` in each layer where they are a line, cut off at the frame.

    A line is drawn also where it goes past all points: where a congruence fails.
    """
    if len(frame.low) == 1:
        return
    flat = [row[:2] for row in matrix]
    inverse, solution = smith.pseudo_inverse(flat, 2), smith.solve(flat, 2)
    if len(solution.kernel) != 1:
        return
    for layer in frame.layers:
        rest = [b - row[2] * layer if len(row) == 3 else b for row, b in zip(matrix, right, strict=True)]
        if any(sum(c * b for c, b in zip(row, rest, strict=True)) for row in solution.equations):
            continue
        start = [sum((c * b for c, b in zip(row, rest, strict=True)), Fraction()) for row in inverse]
        ends = _cut(start, solution.kernel[0], frame)
        if ends is not None:
            first, last = ([x + t * k for x, k in zip(start, solution.kernel[0], strict=True)] for t in ends)
            tail = [layer] * (len(frame.low) - 2)
            yield frame.place([*first, *tail]), frame.place([*last, *tail])


def _cut(start: Sequence[Fraction], way: Sequence[int], frame: Frame) -> tuple[Fraction, Fraction] | None:
    """The first and the last parameter of a line that lie half a step round the frame."""
    low: list[Fraction] = []
    high: list[Fraction] = []
    half = Fraction(1, 2)
    for x, k, a, b in zip(start, way, frame.low, frame.high, strict=False):
        if k:
            ends = sorted(((a - half - x) / k, (b + half - x) / k))
            low.append(ends[0])
            high.append(ends[1])
        elif not a - half <= x <= b + half:
            return None
    return (max(low), min(high)) if max(low) < min(high) else None
