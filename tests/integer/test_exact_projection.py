"""Projections that are exact over the integers, against enumeration."""

import random

import pytest

from sympy_tensordiff.integer.affine import Affine, Quotient, Row
from sympy_tensordiff.integer.exact_projection import project_exactly

WIDE = range(-12, 13)


def random_rows(draw: random.Random, variables: tuple[str, ...]) -> list[Row]:
    """Boxes around the last variables, and rows of all kinds over all of them."""
    rows = [Row("ge", Affine({v: sign}, 4)) for v in variables[1:] for sign in (1, -1)]
    for _ in range(draw.randint(1, 3)):
        form = Affine({v: draw.randint(-3, 3) for v in variables}, draw.randint(-4, 4))
        kind = draw.choice(("ge", "ge", "ge", "eq", "mod"))
        rows.append(Row(kind, form, draw.randint(2, 4) if kind == "mod" else 0))
    if draw.random() < 0.3:
        inner = Affine({v: draw.randint(-2, 2) for v in variables}, draw.randint(-2, 2))
        rows.append(Row("ge", Affine({Quotient(inner, draw.randint(2, 4)): draw.choice((1, -1)), variables[0]: 1})))
    return rows


@pytest.mark.parametrize("dropped", [("k",), ("k", "l")])
def test_projections_hold_exactly_where_integers_complete_them(dropped: tuple[str, ...]) -> None:
    found = 0
    for seed in range(150):
        draw = random.Random(seed)
        rows = random_rows(draw, ("p", *dropped))
        projected = project_exactly(rows, dropped)
        if projected is None:
            continue
        found += 1
        assert all(row.form.atoms() <= {"p"} for row in projected)
        for p in WIDE:
            points = [{"p": p}]
            for v in dropped:
                points = [{**point, v: value} for point in points for value in range(-4, 5)]
            completed = any(all(row.holds(point) for row in rows) for point in points)
            assert all(row.holds({"p": p}) for row in projected) == completed, (seed, p, rows, projected)
    assert found > 60
