"""Elimination against the shadow of the points, found by enumeration."""

from random import Random

import pytest
import random_systems as systems
from every import every

from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.fourier_motzkin import eliminate, project, project_exactly
from sympy_tensordiff.integer.implication import is_empty

pytestmark = pytest.mark.quick

H, J, K, N, P = (Affine.variable(v) for v in ("h", "j", "k", "n", "p"))


def ge(form):
    return Row("ge", form)


@every("seed", range(50))
def test_projections_hold_exactly_where_integers_complete_them(seed):
    random = Random(seed)
    box = {v: range(-3, 4) for v in ("p", "j", "k")}
    rows = [row for v in ("j", "k") for row in (ge(Affine({v: 1}, 2)), ge(Affine({v: -1}, 2)))]
    rows += [Row("eq" if random.random() < 0.2 else "ge", systems.form(random, [*box], 2)) for _ in range(2)]
    exact = project_exactly(rows, ["j", "k"])
    assert exact is not None or seed > 9  # some are refused
    shadow = {point["p"] for point in systems.points(rows, box)}
    for p in box["p"] if exact is not None else ():
        assert all(row.holds({"p": p}) for row in exact) == (p in shadow)


@every("seed", range(26))
def test_projection_holds_the_shadow(seed):
    """Every point has its shadow in the projection; every rational pre-image set is not empty."""
    random = Random(seed)
    names = systems.LOOPS[: random.randint(2, 3)]
    box = {v: range(-3, 5) for v in names}
    rows = [row for v in names for row in (ge(Affine({v: 1}, 3)), ge(Affine({v: -1}, 4)))]
    for _ in range(random.randint(1, 4)):
        rows.append(Row("eq" if random.random() < 0.2 else "ge", systems.form(random, names, 3)))
    dropped = names[: random.randint(1, len(names) - 1)]
    projected = project(rows, dropped)
    inside = systems.points(rows, box)
    if projected is None:
        assert not inside
        return
    assert all(row.form.atoms().isdisjoint(dropped) for row in projected)
    assert all(row.holds(point) for row in projected for point in inside)
    kept = [v for v in names if v not in dropped]
    for shadow in systems.points(projected, {v: box[v] for v in kept}):
        fixed = [row.substitute({v: Affine.of(c) for v, c in shadow.items()}) for row in rows]
        scaled = [Row(row.kind, Affine({v: c for v, c in row.form.terms}, 60 * row.form.constant)) for row in fixed]
        assert not is_empty(scaled), "no rational point above a point of the projection"


def test_hidden_variables_are_refused():
    with pytest.raises(ValueError, match="congruence"):
        eliminate([Row("mod", H + J, 2)], "h")
    with pytest.raises(ValueError, match="quotient"):
        eliminate([ge(2 * quotient(H + 1, 2) - 3 * J)], "h")
