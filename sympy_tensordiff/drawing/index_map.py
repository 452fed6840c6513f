"""Index maps in numbers: the points of a lattice, and the solutions of ``A alpha + t == beta`` among them.

Everything is computed by the algebra that derivatives are made with: the Smith normal form gives the particular
solution, the kernel basis and the conditions, Fourier-Motzkin elimination the ranges (Urban & van der Smagt 2017,
sections 4 and 5.1). Variables are numbered from 0, those of the kernel basis too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.drawing.labels import form as form_text
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer import smith
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.nests import Bounds, bounds, order

Point: TypeAlias = tuple[int, ...]

LARGEST = 5000
"""Points of a picture; nobody can tell more of them apart."""


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
    failing = [
        f"{_combination(row, right, brackets=True)} mod {modulus} = {_dot(row, right) % modulus}, not 0"
        for row, modulus in solution.congruences
        if _dot(row, right) % modulus
    ]
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
    return tuple(row.substitute(values) for row in rows)


def points(rows: Sequence[Row], rank: int) -> tuple[tuple[Bounds, ...], list[Point]]:
    """The loops over the integer points of rows, and these points in lexicographic order.

    Raises
    ------
    UnsupportedError
        If there are too many to be drawn.
    """
    nest, guards = bounds(rows, order(rows, range(rank)))
    found: list[dict[int, int]] = [{}] if all(row.holds({}) for row in guards) else []
    for level in nest:
        ranges = [level.range(values) for values in found]
        if sum(map(len, ranges)) > LARGEST:
            raise UnsupportedError(
                f"the ranges hold more than {LARGEST} points, too many for a picture: choose smaller numbers"
            )
        found = [{**values, level.variable: v} for values, run in zip(found, ranges, strict=True) for v in run]
    return nest, sorted(tuple(values[v] for v in range(rank)) for values in found)


def nest_text(nest: Sequence[Bounds], names: Mapping[int, str]) -> str:
    """``z2 = -1 … 5, z1 = max(-1, -z2) … min(1, 4 - z2)``, outermost first."""
    parts = []
    for variable, lows, highs in nest:
        low = _extremum("max", [_rounded(form, divisor, "⌈⌉", names) for form, divisor in lows])
        high = _extremum("min", [_rounded(form, divisor, "⌊⌋", names) for form, divisor in highs])
        parts.append(f"{names[variable]} = {low}" + (f" … {high}" if low != high else ""))
    return ", ".join(parts)


def _rounded(form: Affine, divisor: int, brackets: str, names: Mapping[int, str]) -> str:
    text = form_text(form, names)
    if divisor == 1:
        return text
    return f"{brackets[0]}{text if text.isalnum() else f'({text})'}/{divisor}{brackets[1]}"


def _extremum(function: str, texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"


def _combination(row: Sequence[int], values: Sequence[int], brackets: bool = False) -> str:
    """The sum of the products as one writes it."""
    pairs = [(c, value) for c, value in zip(row, values, strict=True) if c]
    if len(pairs) == 1 and abs(pairs[0][0]) == 1:
        return str(pairs[0][0] * pairs[0][1])
    text = ""
    for c, value in pairs:
        number = str(value) if value >= 0 else f"({value})"
        text += (" - " if c < 0 else " + ") + (number if abs(c) == 1 else f"{abs(c)}*{number}")
    text = text[3:] if text.startswith(" + ") else "-" + text[3:]
    return f"({text})" if brackets else text


def _dot(row: Sequence[int], values: Sequence[int]) -> int:
    return sum(c * value for c, value in zip(row, values, strict=True))


def _moved(start: Point, vectors: Sequence[Point], steps: Sequence[int]) -> Point:
    """The point plus a combination of vectors."""
    return tuple(
        x + sum(step * vector[v] for step, vector in zip(steps, vectors, strict=True)) for v, x in enumerate(start)
    )
