"""Random systems of rows and their integer points by enumeration."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.nests import Bounds

LOOPS = ("i", "j", "k", "l")
PARAMETERS = ("n", "p")


def form(random: Random, variables: Sequence[str], size: int = 4, constant: int = 8) -> Affine:
    """A sparse form with coefficients up to ``size``."""
    terms = {v: random.randint(-size, size) for v in variables if random.random() < 0.6}
    return Affine(terms, random.randint(-constant, constant))


def loop_rows(random: Random, loops: Sequence[str], parameters: Sequence[str]) -> list[Row]:
    """Rows that bound all loop variables to values in -2 .. 8 where all parameters are at most 6."""
    rows: list[Row] = []
    for v in loops:
        rows.append(Row("ge", Affine({v: 1}, random.randint(-2, 2))))
        if parameters and random.random() < 0.4:
            rows.append(Row("ge", Affine({random.choice(parameters): 1, v: -1}, random.randint(-2, 2))))
        else:
            rows.append(Row("ge", Affine({v: -1}, random.randint(1, 5))))
    names = (*loops, *parameters)
    for _ in range(random.randint(0, 3)):
        if random.random() < 0.15:
            rows.append(Row("eq", form(random, names, 2, 3)))
        else:
            rows.append(Row("ge", form(random, names) + random.randint(0, 8)))
    if random.random() < 0.25:
        share = quotient(form(random, names, 3), random.randint(2, 4))
        rows.append(Row("ge", form(random, names, 1) + random.choice((1, -1)) * share + random.randint(0, 8)))
    if parameters and random.random() < 0.3:
        rows.append(Row("mod", form(random, parameters), random.randint(2, 3)))
    random.shuffle(rows)
    return rows


def parameter_facts(random: Random, parameters: Sequence[str]) -> list[Row]:
    """What is known of the parameters."""
    facts = [Row("ge", Affine({v: 1}, random.randint(-1, 1))) for v in parameters]
    if parameters and random.random() < 0.3:
        facts.append(Row("mod", form(random, parameters), random.randint(2, 4)))
    if parameters and random.random() < 0.2:
        facts.append(Row("ge", form(random, parameters, 1) + quotient(form(random, parameters, 2), 2)))
    return facts


def points(rows: Sequence[Row], box: dict[str, range]) -> list[dict[str, int]]:
    """All points of a box that fulfil the rows."""
    candidates = (dict(zip(box, values, strict=True)) for values in product(*box.values()))
    return [point for point in candidates if all(row.holds(point) for row in rows)]


def run(nest: Sequence[Bounds], values: dict[str, int]) -> Iterator[dict[str, int]]:
    """The points that a nest runs over, by recursion."""
    if not nest:
        yield dict(values)
        return
    for value in nest[0].range(values):
        yield from run(nest[1:], {**values, nest[0].variable: value})
