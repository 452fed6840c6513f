"""The algebra of index systems against enumeration: solutions, projections, bounds, emptiness, redundancy."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer import fourier_motzkin, smith
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.implication import FALSE, is_empty, is_implied, maximum, minimum, remove_redundant
from sympy_tensordiff.integer.nests import Bounds, bounds, order
from sympy_tensordiff.integer.solving import solve_equations
from sympy_tensordiff.integer.values import find_point

from .systems import IndexSystem, Points, count_points, points, random_form, random_system


def check_system(seed: int) -> float:
    """Check all that is computed of one random system; the worst ratio of loop values visited to points.

    Raises
    ------
    VerificationError
        A result differs from enumeration.
    LoopBoundError
        The system is refused.
    """
    generator = random.Random(seed)
    check_linear(generator)
    system = random_system(seed)
    found = [points(system.rows, system.box, values) for values in system.draws]
    check_emptiness(system, found)
    check_implications(generator, system, found)
    check_redundancy(system, found)
    check_projection(generator, system, found)
    return check_nest(system, found)


def expect(holds: Any, what: str, *details: object) -> None:
    """Raise where a law does not hold."""
    if not holds:
        raise VerificationError(f"{what} differs from enumeration: " + "; ".join(map(str, details)))


def check_linear(generator: random.Random) -> None:
    """Equations ``A x = b``: solvable exactly under the conditions, each solution once."""
    rows, columns = generator.randint(1, 4), generator.randint(1, 4)
    matrix = [[generator.choice((0, 1, -1, generator.randint(-6, 6))) for _ in range(columns)] for _ in range(rows)]
    solution = smith.solve(matrix, columns)
    for solvable in (True, False):
        x = [generator.randint(-5, 5) for _ in range(columns)]
        b = _product(matrix, x) if solvable else [generator.randint(-9, 9) for _ in range(rows)]
        fulfilled = all(_dot(c.row, b) % c.modulus == 0 for c in solution.congruences)
        fulfilled &= all(_dot(row, b) == 0 for row in solution.equations)
        expect(fulfilled or not solvable, "the condition of a solution", matrix, b)
        if not fulfilled:
            continue
        special = [Fraction(0)] * columns
        for row, factor, column in solution.particular:
            special = [s + Fraction(_dot(row, b) * c, factor) for s, c in zip(special, column, strict=True)]
        expect(all(s.denominator == 1 for s in special), "an integer solution", matrix, b, special)
        integral = [int(s) for s in special]
        expect(_product(matrix, integral) == b, "a particular solution", matrix, b, special)
        if solvable:
            rest = [u - v for u, v in zip(x, integral, strict=True)]
            expect(_combines(solution.kernel, rest), "a combination of kernel vectors", matrix, rest)


def _dot(row: Sequence[int], column: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(row, column, strict=True))


def _product(matrix: Sequence[Sequence[int]], x: Sequence[int]) -> list[int]:
    return [_dot(row, x) for row in matrix]


def _combines(vectors: Sequence[Sequence[int]], target: Sequence[int]) -> bool:
    """Return whether integer multiples of independent vectors add up to the target, by Gaussian elimination."""
    lines = [[*map(Fraction, entries)] for entries in zip(*vectors, target, strict=True)]
    pivots: list[list[Fraction]] = []
    for k in range(len(vectors)):
        pivot = next((line for line in lines if line[k]), None)
        if pivot is None:
            return False  # not independent
        lines.remove(pivot)
        pivot = [a / pivot[k] for a in pivot]
        lines, pivots = [
            [[a - line[k] * b for a, b in zip(line, pivot, strict=True)] for line in group] for group in (lines, pivots)
        ]
        pivots.append(pivot)
    return all(line[-1].denominator == 1 for line in pivots) and not any(line[-1] for line in lines)


def check_emptiness(system: IndexSystem, found: Sequence[Points]) -> None:
    """Proofs of emptiness, the search for one point, and the number of points."""
    empty = is_empty(system.rows, system.facts)
    for values, inside in zip(system.draws, found, strict=True):
        expect(not (empty and len(inside)), "emptiness", system, values)
        fixed = (*system.rows, *(Constraint("eq", Affine({v: 1}, -c)) for v, c in values.items()))
        names = (*system.loops, *system.parameters)
        point = find_point(fixed, names)
        expect(count_points(fixed, names) == len(inside), "the number of points", system, values)
        expect((point is not None) == (len(inside) > 0), "the existence of a point", system, values, point)
        if point is not None:
            expect(all(row.holds(point) for row in fixed), "a point", system, values, point)


def check_redundancy(system: IndexSystem, found: Sequence[Points]) -> None:
    """The irredundant rows have the same points where the facts hold, and none of them follows from the others."""
    reduced = remove_redundant(system.rows, system.facts)
    for row in reduced if reduced != (FALSE,) else ():
        others = (*system.facts, *(other for other in reduced if other is not row))
        expect(not is_implied(row, others), "a redundant row", system, row)
    for values, inside in zip(system.draws, found, strict=True):
        same = np.array_equal(points(reduced, system.box, values), inside)
        expect(same, "the points of the irredundant rows", system, values, reduced)


def check_implications(generator: random.Random, system: IndexSystem, found: Sequence[Points]) -> None:
    """Implied rows hold at all points, and forms stay within their ranges."""
    names = (*system.loops, *system.parameters)
    known = (*system.rows, *system.facts)
    form = random_form(generator, names, 2)
    least, most = minimum(form, known), maximum(form, known)
    modulus = generator.randint(2, 4)
    candidates = [
        Constraint("ge", form),
        Constraint("mod", form, modulus),
        Constraint("eq", random_form(generator, names, 1, 1)),
    ]
    proven = [row for row in candidates if is_implied(row, known)]
    for values, inside in zip(system.draws, found, strict=True):
        if not len(inside):
            continue
        at = {**values, **dict(zip(system.box, inside.T, strict=True))}
        numbers = np.atleast_1d(form.evaluate(at))
        expect(least is None or least <= int(numbers.min()), "the least value of a form", system, form, values)
        expect(most is None or most >= int(numbers.max()), "the greatest value of a form", system, form, values)
        for row in proven:
            expect(np.all(row.holds(at)), "an implied row", system, row, values)


def check_projection(generator: random.Random, system: IndexSystem, found: Sequence[Points]) -> None:
    """Eliminated variables: all points stay, and where it was one variable each point has a rational completion."""
    drop = generator.sample(system.loops, generator.randint(1, len(system.loops)))
    rows = [row for row in system.rows if row.form.atoms().isdisjoint(drop) or _eliminable(row)]
    projected = fourier_motzkin.project(rows, drop, system.facts)
    for values, inside in zip(system.draws, found, strict=True):
        expect(not (projected is None and len(inside)), "a projection without points", system, drop, values)
        if projected is None or not len(inside):
            continue
        at = {**values, **dict(zip(system.box, inside.T, strict=True))}
        for row in projected:
            expect(np.all(row.holds(at)), "a projection", system, drop, row, values)
    if len(drop) == 1 and projected is not None:
        outer = {v: r for v, r in system.box.items() if v not in drop}
        for values in system.draws[:1]:
            for point in points(projected, outer, values)[:20]:
                at = {**values, **dict(zip(outer, map(int, point), strict=True))}
                expect(_completes(rows, drop[0], at), "the completion of a projected point", system, drop, at)


def _eliminable(row: Constraint) -> bool:
    return row.kind != "mod" and not row.form.quotients()


def _completes(rows: Sequence[Constraint], variable: Variable, at: Mapping[Variable, int]) -> bool:
    """Return whether a rational value of the variable completes a point."""
    lows, highs = [], []
    for row in rows:
        c = row.form.coefficient(variable)
        rest = (row.form - Affine({variable: c})).evaluate(at)
        if not c:
            if not Constraint(row.kind, Affine(None, rest), row.modulus).holds({}):
                return False
            continue
        bound = Fraction(-rest, c)
        if row.kind == "eq" or c > 0:
            lows.append(bound)
        if row.kind == "eq" or c < 0:
            highs.append(bound)
    return not lows or not highs or max(lows) <= min(highs)


class LoopNest(NamedTuple):
    """The loops over a system: their variables and the parameters have the ``names`` that they have in a graph.

    ``rest`` are the rows that hold no loop variable, ``loops`` the original loops as forms in the new ones.
    """

    nest: tuple[Bounds, ...]
    rest: tuple[Constraint, ...]
    loops: tuple[Affine, ...]
    names: dict[Variable, int]

    def run(self, values: Mapping[Variable, int], visit: Callable[[int], None]) -> list[tuple[int, ...]]:
        """The points for ``values`` of the parameters; ``visit`` receives the depth of each value of each loop."""
        at = {self.names[v]: c for v, c in values.items()}
        if not all(row.holds(at) for row in self.rest):
            return []
        return [tuple(form.evaluate(place) for form in self.loops) for place in _run(self.nest, at, visit)]


def nest_of(system: IndexSystem) -> LoopNest | None:
    """The loops over a system as sums are made: equations solved, then bounds in the best order.

    None where there is provably no point.
    """
    graph = Graph()
    names = {v: graph.fresh(v) for v in (*system.loops, *system.parameters)}
    renaming = {v: Affine.variable(w) for v, w in names.items()}
    rows = [row.substitute(renaming) for row in system.rows]
    facts = [row.substitute(renaming) for row in system.facts]
    solution = solve_equations(graph, [names[v] for v in system.loops], rows)
    if solution is None:
        return None
    remaining, mapping, solved = solution
    nest, rest = bounds(solved, order(solved, remaining, facts), facts)
    return LoopNest(nest, rest, tuple(renaming[v].substitute(mapping) for v in system.loops), names)


def check_nest(system: IndexSystem, found: Sequence[Points]) -> float:
    """The loops run over each point once; the worst ratio of values visited to points."""
    loops = nest_of(system)
    worst = 0.0
    for values, inside in zip(system.draws, found, strict=True):
        if loops is None:
            expect(not len(inside), "a system without a solution", system, values)
            continue
        visited: list[int] = []
        reached = loops.run(values, visited.append)
        expect(sorted(reached) == list(map(tuple, inside.tolist())), "the points of the loops", system, values, loops)
        if visited and len(inside):
            worst = max(worst, len(visited) / (len(loops.nest) * len(inside)))
    return worst


def _run(
    nest: Sequence[Bounds], values: dict[Variable, int], visit: Callable[[int], None], depth: int = 0
) -> Iterator[dict[Variable, int]]:
    """The points of a nest, by recursion."""
    if depth == len(nest):
        yield values
        return
    for value in nest[depth].range(values):
        visit(depth)
        yield from _run(nest, {**values, nest[depth].variable: value}, visit, depth + 1)
