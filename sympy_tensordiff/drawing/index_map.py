"""Index maps in numbers: the points of a lattice, the solutions of ``A alpha + t == beta``, and their positions in the
plane.

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

from sympy_tensordiff.drawing.labels import form_text, limit_text, quotient_text
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer import smith
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.nests import Bounds, bounds, order
from sympy_tensordiff.integer.rows import substitute_all
from sympy_tensordiff.integer.values import points_of_nest

Point: TypeAlias = tuple[int, ...]
Position: TypeAlias = tuple[float, float]
HalfPlane: TypeAlias = tuple[int, int, int]

MAX_LATTICE_POINTS = 5000
"""Largest number of points of a picture; more cannot be distinguished."""

LAYER_GAP = 1
"""Empty columns between two layers."""

THICKNESS = (Constraint("ge", Affine({1: 4}, 1)), Constraint("ge", Affine({1: -4}, 1)))
"""The second dimension of a one-dimensional lattice: -1/4 to 1/4."""


class IndexMap(NamedTuple):
    """The affine map ``alpha -> A alpha + t`` from the indices of a loop to the position of the entry that is read, and
    the ranges of these indices.
    """

    names: tuple[str, ...]
    forms: tuple[Affine, ...]
    rows: tuple[Constraint, ...]

    @property
    def number_of_indices(self) -> int:
        """The number of indices that the map takes, the length of ``alpha`` in ``A alpha + t``."""
        return len(self.names)

    @property
    def is_affine(self) -> bool:
        """Return whether the map is affine: none of its forms contains a floor, a maximum or a minimum."""
        return not any(form.compounds() for form in self.forms)

    def matrix(self) -> list[list[int]]:
        """Return the coefficient matrix ``A`` of the map ``A alpha + t``."""
        return [[form.coefficient(v) for v in range(self.number_of_indices)] for form in self.forms]

    def image(self, point: Point) -> Point:
        """Return ``A alpha + t`` for the indices ``alpha`` given as `point`."""
        values = dict(enumerate(point))
        return tuple(form.evaluate(values) for form in self.forms)


class IndexSolutions(NamedTuple):
    """All integer solutions ``alpha`` of the index equation ``A alpha + t == at``: ``particular`` plus each combination
    of the kernel basis ``kernel`` with integer coefficients ``z``. There are none if ``failing`` names a condition.

    For a map that is not affine the solutions are listed, and ``particular`` is empty.
    """

    at: Point
    failing: tuple[str, ...]
    particular: Point
    kernel: tuple[Point, ...]
    rows: tuple[Constraint, ...]
    nest: tuple[Bounds, ...]
    by_kernel: dict[Point, Point]

    @property
    def points(self) -> list[Point]:
        """All solutions of the index equation within the index ranges, in the order of their coordinates ``z`` with
        respect to the kernel basis.
        """
        return list(self.by_kernel.values())

    def solution_at(self, z: Sequence[int]) -> Point:
        """Return the solution of the index equations for the integers ``z``: the particular solution plus the
        combination of the kernel basis with the coefficients ``z``.
        """
        return _translate(self.particular, self.kernel, z)


def solve_index_map(index_map: IndexMap, at: Point) -> IndexSolutions:
    """Solve ``A alpha + t == at``, the equation of ``index_map``, for integer indices alpha. Return the conditions that
    fail, one solution, a kernel basis of A, and the ranges of the coefficients ``z`` of its vectors.
    """
    if not index_map.is_affine:
        _, inside = lattice_points(index_map.rows, index_map.number_of_indices)
        return IndexSolutions(at, (), (), (), (), (), {p: p for p in inside if index_map.image(p) == at})
    right = [value - form.constant for value, form in zip(at, index_map.forms, strict=True)]
    solution = smith.solve(index_map.matrix(), index_map.number_of_indices)
    failing = []
    for row, modulus in solution.congruences:
        text, rest = _combination_text(row, right), _dot(row, right) % modulus
        if rest:
            failing.append(f"{f'({text})' if ' ' in text else text} mod {modulus} = {rest}, not 0")
    failing += [
        f"{_combination_text(row, right)} = {_dot(row, right)}, not 0" for row in solution.equations if _dot(row, right)
    ]
    if failing:
        return IndexSolutions(at, tuple(failing), (), solution.kernel, (), (), {})
    steps = [_dot(row, right) // factor for row, factor, _ in solution.particular]
    columns = [term.column for term in solution.particular]
    particular = _translate((0,) * index_map.number_of_indices, columns, steps)
    rows = constraints_on_kernel(index_map.rows, particular, solution.kernel)
    nest, found = lattice_points(rows, len(solution.kernel))
    by_kernel = {z: _translate(particular, solution.kernel, z) for z in found}
    return IndexSolutions(at, (), particular, solution.kernel, rows, nest, by_kernel)


def constraints_on_kernel(
    rows: Sequence[Constraint], particular: Point, kernel: Sequence[Point]
) -> tuple[Constraint, ...]:
    """Return the inequalities ``rows`` on ``alpha`` rewritten as inequalities on ``z``, where ``alpha = particular +
    kernel z``.
    """
    values = {
        v: Affine({z: vector[v] for z, vector in enumerate(kernel)}, constant) for v, constant in enumerate(particular)
    }
    return substitute_all(rows, values)


def lattice_points(rows: Sequence[Constraint], number_of_indices: int) -> tuple[tuple[Bounds, ...], list[Point]]:
    """Return ``(loop bounds, points)``: nested loops over the integer points that satisfy `rows`, constraints on the
    variables 0 to ``number_of_indices`` - 1, and these points in lexicographic order.

    Raise `UnsupportedError` if there are too many to be drawn.
    """
    nest, guards = bounds(rows, order(rows, range(number_of_indices)))
    found: list[Point] = []
    for values in points_of_nest(nest) if all(row.holds({}) for row in guards) else ():
        found.append(tuple(values[v] for v in range(number_of_indices)))
        if len(found) > MAX_LATTICE_POINTS:
            raise UnsupportedError(
                f"the ranges contain more than {MAX_LATTICE_POINTS} points, too many to draw: choose smaller numbers"
            )
    return nest, sorted(found)


def nest_text(nest: Sequence[Bounds], names: Mapping[int, str]) -> str:
    """Return the ranges of the nested loops ``nest`` as text, outermost first: ``z2 = -1 … 5, z1 = max(-1, -z2) …
    min(1, 4 - z2)``. ``names`` maps variables to names.
    """
    parts = []
    for variable, lows, highs in nest:
        low = limit_text("max", [_rounded_text(form, divisor, "⌈⌉", names) for form, divisor in lows])
        high = limit_text("min", [_rounded_text(form, divisor, "⌊⌋", names) for form, divisor in highs])
        parts.append(f"{names[variable]} = {low}" + (f" … {high}" if low != high else ""))
    return ", ".join(parts)


def _rounded_text(form: Affine, divisor: int, brackets: str, names: Mapping[int, str]) -> str:
    """Return ``form/divisor`` as text between two ``brackets``, the signs of a floor or a ceiling; without them if the
    divisor is 1. ``names`` maps variables to their names.
    """
    text = quotient_text(form, Affine.of(divisor), names)
    return form_text(form, names) if divisor == 1 else f"{brackets[0]}{text}{brackets[1]}"


def _combination_text(row: Sequence[int], values: Sequence[int]) -> str:
    """Return the text of the sum of products ``row[n]*values[n]``, such as ``2*3 - 1``."""
    names = {v: str(value) if value >= 0 else f"({value})" for v, value in enumerate(values)}
    total = _dot(row, values)
    return str(total) if sum(map(abs, row)) == 1 else form_text(Affine(dict(enumerate(row))), names)


def _dot(row: Sequence[int], values: Sequence[int]) -> int:
    """Return the dot product of the integer vectors ``row`` and ``values``."""
    return sum(c * value for c, value in zip(row, values, strict=True))


def _translate(start: Point, vectors: Sequence[Point], steps: Sequence[int]) -> Point:
    """Return ``start`` plus the combination of ``vectors`` with the coefficients ``steps``."""
    return tuple(
        x + sum(step * vector[v] for step, vector in zip(steps, vectors, strict=True)) for v, x in enumerate(start)
    )


# ---------------------------------------------------------------------------- positions in the plane


class LatticeFrame(NamedTuple):
    """The box of integer points, of up to three indices, that a picture shows: ``low`` and ``high`` are the smallest
    and largest value of each index. Its methods map the points to positions in the picture.

    The first two indices are horizontal and vertical; the layers of a third are drawn side by side. So the map to the
    plane is linear, and an arrow from one layer to another is straight.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def layers(self) -> range:
        """The values of the third index, each of which is drawn as a layer of its own; ``range(1)``, a single layer, if
        there are only two indices.
        """
        return range(self.low[2], self.high[2] + 1) if len(self.low) == 3 else range(1)

    @property
    def pitch(self) -> int:
        """The horizontal distance between the drawings of two neighbouring layers, values of the third index."""
        return self.high[0] - self.low[0] + 1 + LAYER_GAP

    def position(self, point: Sequence[float | Fraction]) -> Position:
        """Return the position in the drawing of a lattice point of one, two or three indices."""
        layer = point[2] - self.low[2] if len(point) == 3 else 0
        return float(point[0] + layer * self.pitch), float(point[1] if len(point) > 1 else 0)

    def contains(self, point: Sequence[float | Fraction]) -> bool:
        """Return whether ``point`` is within the drawn range of each index."""
        return all(a <= x <= b for a, x, b in zip(self.low, point, self.high, strict=True))

    def constraints(self, scale: int = 1, margin: int = 0) -> tuple[Constraint, ...]:
        """Return the frame as inequalities on the indices, made larger by ``margin/scale`` on each side."""
        return tuple(
            Constraint("ge", form)
            for v, (a, b) in enumerate(zip(self.low, self.high, strict=True))
            for form in (Affine({v: scale}, margin - scale * a), Affine({v: -scale}, margin + scale * b))
        )

    def corners(self) -> tuple[Position, Position]:
        """Return the lower left and the upper right corner of the picture."""
        right = self.high[0] + self.pitch * (len(self.layers) - 1)
        low, high = (self.low[1], self.high[1]) if len(self.low) > 1 else (0, 0)
        return (self.low[0], low), (right, high)


def make_frame(points: Sequence[Sequence[int]], extra_points: Sequence[Sequence[int]] = ()) -> LatticeFrame:
    """Return the smallest `LatticeFrame` that contains ``points`` and the points of ``extra_points`` close to them."""
    low, high = _bounding_box(points)
    reach = [max(3, b - a) for a, b in zip(low, high, strict=True)][:2]
    for point in extra_points:
        limits = list(zip(low, point, high, reach, strict=False))
        if all(a - r <= x <= b + r for a, x, b, r in limits) and all(
            low[v] <= point[v] <= high[v] for v in range(2, len(point))
        ):
            points = [*points, point]
    return LatticeFrame(*_bounding_box(points))


def _bounding_box(lattice_points: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the smallest and the largest value of each coordinate of the points."""
    columns = list(zip(*lattice_points, strict=True))
    return tuple(map(min, columns)), tuple(map(max, columns))


def layer_outlines(rows: Sequence[Constraint], frame: LatticeFrame) -> Iterator[list[Position]]:
    """Yield, for each layer of ``frame`` (value of the third index), the corners of the polygon in which the
    inequalities `rows` hold, in order around it.
    """
    rows = [*rows, *(THICKNESS if len(frame.low) == 1 else ())]
    for layer in frame.layers:
        here = [row.substitute({2: Affine.of(layer)}).form for row in rows]
        planes = [(form.coefficient(0), form.coefficient(1), form.constant) for form in here]
        corners = _polygon_corners(planes)
        if corners:
            yield [frame.position((x, y, layer)[: max(2, len(frame.low))]) for x, y in corners]


def _polygon_corners(planes: Sequence[HalfPlane]) -> list[tuple[Fraction, Fraction]]:
    """Return the corners of the intersection of half-planes ``a*x + b*y + c >= 0``, counter-clockwise; [] if empty."""
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


def rational_lines(index_map: IndexMap, at: Point, frame: LatticeFrame) -> Iterator[list[Position]]:
    """Yield the two ends of each line, clipped to ``frame``, of rational indices at which ``index_map`` has the value
    ``at``: the solutions of ``A alpha + t == at``. There is at most one line in each layer of the picture.

    The line is drawn even if it contains no lattice point because a congruence fails.
    """
    equations = [form - value for form, value in zip(index_map.forms, at, strict=True)]
    rows = [Constraint("ge", side) for form in equations for side in (form, -form)]
    found = layer_outlines([*rows, *frame.constraints(2, 1)], frame) if index_map.number_of_indices > 1 else iter(())
    return (corners for corners in found if len(corners) == 2)
