"""Elimination against the shadow of the points, found by enumeration."""

from random import Random

import pytest
import random_systems as systems
from every import every

from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.fourier_motzkin import eliminate, project, project_exactly
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.products import quotient_by

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


@every("seed", range(20))
def test_unit_coefficients_project_exactly(seed):
    random = Random(seed)
    names = systems.LOOPS[:3]
    box = {v: range(-3, 5) for v in names}
    rows = [row for v in names for row in (ge(Affine({v: 1}, 3)), ge(Affine({v: -1}, 4)))]
    for _ in range(3):
        rows.append(ge(systems.form(random, names[1:], 3) + random.randint(-1, 1) * Affine.variable("i")))
    result = eliminate(rows, "i")
    shadow = {(point["j"], point["k"]) for point in systems.points(rows, box)}
    if result is None:
        assert not shadow
    else:
        assert {tuple(x.values()) for x in systems.points(result, {"j": box["j"], "k": box["k"]})} == shadow


def test_equation_is_substituted():
    assert eliminate([Row("eq", H - J - 2), ge(N - H), ge(J)], "h") == (ge(J), ge(N - J - 2))
    assert eliminate([Row("eq", 2 * H - 3 * J), ge(H - 1), ge(5 - H)], "h") == (ge(J - 1), ge(3 - J))
    assert eliminate([Row("eq", 2 * H - J), Row("eq", 3 * H - K)], "h") == (Row("eq", 3 * J - 2 * K),)


def test_constants_are_floored_and_rows_meet():
    assert eliminate([ge(2 * H - J), ge(3 - 2 * H), ge(J - 1)], "h") == (ge(J - 1), ge(2 - J))
    assert eliminate([ge(H - J), ge(K - H), ge(J - K)], "h") == (Row("eq", J - K),)


def test_one_sided_variables_vanish_with_their_rows():
    assert eliminate([ge(H - J), ge(2 * H + K), ge(K)], "h") == (ge(K),)
    assert project([ge(H - J), ge(J - K), ge(K - 2)], "hjk") == ()


def test_infeasible():
    assert eliminate([ge(H - 3), ge(2 - H)], "h") is None
    assert project([ge(H - J - 1), ge(J - K), ge(K - H)], ["h", "j"]) is None
    assert project([ge(H + J), ge(-H - J - 1), ge(K)], ["k"]) is None


def test_nothing_to_eliminate():
    assert eliminate([], "h") == ()
    assert project([ge(2 * J - 1)], []) == (ge(J - 1),)
    assert project([Row("mod", P, 2), ge(H), ge(P - H)], ["h"]) == (ge(P), Row("mod", P, 2))


def test_hidden_variables_are_refused():
    with pytest.raises(ValueError, match="congruence"):
        eliminate([Row("mod", H + J, 2)], "h")
    with pytest.raises(ValueError, match="quotient"):
        eliminate([ge(2 * quotient(H + 1, 2) - 3 * J)], "h")


def test_rows_that_hide_what_goes_are_left_out_of_a_projection():
    # In lowest terms floor(p/n) >= h + j is p >= n*h + n*j.
    by_size = quotient_by(P, N)
    rows = [ge(H), ge(J - 1), ge(P - 2 - H), ge(by_size - H - J)]
    assert project(rows, ["h"]) == (ge(J - 1), ge(P - 2))
    # A row may come to hide a variable when another has gone.
    assert project([ge(by_size - K), ge(K - 2 * H), ge(H - J), ge(K - J)], ["k", "h"]) == ()
    assert project([Row("mod", H + J, 2), ge(H - J), ge(P - H)], ["h"]) == (ge(P - J),)


def test_projection_of_a_cube_stays_small():
    """The rows of a random octahedron double at every step without redundancy removal."""
    names = ["a", "b", "c", "d", "e"]
    rows = []
    for signs in range(32):
        terms = {v: 1 if signs >> n & 1 else -1 for n, v in enumerate(names)}
        rows.append(ge(Affine(terms, 7)))
    result = project(rows, names[:4])
    assert result is not None
    assert set(result) == {ge(Affine({"e": 1}, 7)), ge(Affine({"e": -1}, 7))}


def test_facts_shorten_a_projection():
    """P - K >= 0 follows from N - K >= 0 and the facts; the rows grow, so that it is looked at."""
    rows = [ge(H), ge(H - K), ge(2 * H - K - J), ge(N - H), ge(P - H), ge(2 * N - H - K)]
    shared = {ge(N), ge(P), ge(N - K), ge(P - K)}
    assert shared <= set(project(rows, ["h"]) or ())
    assert shared & set(project(rows, ["h"], [ge(N), ge(P - 2 * N)]) or ()) == {ge(N - K)}


def test_rows_that_keep_data_inside_stay_in_a_projection():
    """Rows of data that imply ``n >= 2`` may be tested only where it holds."""
    n, m, k = (Affine.variable(v) for v in "nmk")
    entry = Affine.variable(DataEntry("idx", (n - 2,)))
    tests = [Row("ge", entry), Row("ge", n - 2 - entry)]
    ranges = [Row("ge", k + form) for form in (0, m, 2 * m - n)] + [Row("ge", n - k - 2), Row("ge", n + m - k)]
    found = project([*tests, *ranges], "k")
    assert Row("ge", n - 2) in found
    assert set(tests) <= set(found)
