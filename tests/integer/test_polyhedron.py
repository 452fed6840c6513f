"""Implication, redundancy and loop nests. Random systems are checked by enumeration in fuzz/system_checks.py."""

from itertools import product
from random import Random

import numpy as np
import pytest
from every import every
from fuzz.system_checks import nest_of
from fuzz.systems import count_points, points, random_form, random_system

from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.floor_elimination import eliminate_floors
from sympy_tensordiff.integer.implication import FALSE, is_implied, remove_redundant
from sympy_tensordiff.integer.nests import Bounds, bounds
from sympy_tensordiff.integer.products import times
from sympy_tensordiff.integer.rows import normalise_rows
from sympy_tensordiff.integer.values import find_point

H, J, K, N, P, X, Y, Z = (Affine.variable(v) for v in ("h", "j", "k", "n", "p", "x", "y", "z"))


def ge(form):
    return Constraint("ge", form)


def eq(form):
    return Constraint("eq", form)


def mod(form, modulus):
    return Constraint("mod", form, modulus)


def between(low, form, high):
    return [ge(form - low), ge(-form + high)]


# Implication


def test_implied_of_constants_and_empty_systems():
    assert is_implied(ge(Affine.of(0)), [])
    assert not is_implied(ge(Affine.of(-1)), [])
    assert is_implied(ge(Affine.of(-1)), [ge(H), ge(-H - 1)])
    assert is_implied(mod(2 * H + 1, 2), [ge(H), ge(-H - 1)])
    assert not is_implied(mod(2 * H + 1, 2), [ge(H)])
    assert not is_implied(ge(H), [ge(J)])
    assert is_implied(ge(H), [ge(J), ge(-J - 1)])


# Redundancy


def test_congruences_tighten_and_vanish():
    assert remove_redundant([ge(17 - P), mod(P, 2)], [ge(P)]) == (ge(16 - P), mod(P, 2))
    assert remove_redundant([ge(P - 1)], [ge(P), mod(P + 1, 2)]) == ()
    assert remove_redundant([mod(P, 2), ge(P)], [mod(P, 4)]) == (ge(P),)
    assert remove_redundant([mod(P, 2), mod(P + 1, 2)]) == (FALSE,)
    assert remove_redundant([ge(11 - P)], [mod(P - N, 3), eq(N - 1)]) == (ge(10 - P),)


def test_empty_systems():
    assert remove_redundant([]) == ()
    assert remove_redundant([ge(H), ge(-H - 1)]) == (FALSE,)
    assert remove_redundant([ge(H)], [ge(-H - 1)]) == (FALSE,)
    assert remove_redundant([eq(2 * H - 1)]) == (FALSE,)
    assert remove_redundant([ge(Affine.of(2))]) == ()
    assert not FALSE.holds({})


# Loop nests


def test_no_bound_follows_from_outer_factors():
    for seed in range(60):
        system = random_system(seed)
        found = nest_of(system)
        if found is None or found.rest == (FALSE,):
            continue
        renamed = {v: Affine.variable(name) for v, name in found.names.items()}
        outside = [*(row.substitute(renamed) for row in system.facts), *found.rest]
        for level in found.nest:
            variable = Affine.variable(level.variable)
            own = normalise_rows(
                [ge(d * variable - form) for form, d in level.lows]
                + [ge(form - d * variable) for form, d in level.highs]
            )
            assert own is not None
            for row in own:
                assert not is_implied(row, [*outside, *(other for other in own if other != row)])
            outside += own


def test_figure_4():
    z1, z2 = Affine.variable("z1"), Affine.variable("z2")
    rows = [*between(-1, z1, 1), *between(0, z1 + z2, 4)]
    nest, rest = bounds(rows, ["z2", "z1"])
    assert nest == (
        Bounds("z2", ((Affine.of(-1), 1),), ((Affine.of(5), 1),)),
        Bounds("z1", ((Affine.of(-1), 1), (-z2, 1)), ((Affine.of(1), 1), (4 - z2, 1))),
    )
    assert rest == ()
    assert count_points(rows, ["z1", "z2"]) == 15


def test_quotients_of_loop_variables():
    nest, rest = bounds([ge(H), ge(P - quotient(H, 3))], ["h"])
    assert (nest, rest) == ((Bounds("h", ((Affine.of(0), 1),), ((3 * P + 2, 1),)),), ())
    nest, _ = bounds([ge(11 - H), ge(2 * quotient(H + 1, 3) - P)], ["h"])
    for p in range(-3, 9):
        assert list(nest[0].range({"p": p})) == [i for i in range(-30, 12) if 2 * ((i + 1) // 3) >= p]
    with pytest.raises(ValueError, match="express"):
        bounds([*between(0, H, 9), ge(P + H - 2 * quotient(H, 3))], ["h"])


def test_quotients_of_outer_loop_variables():
    rows = [*between(0, J, 11), ge(K), ge(2 * quotient(J, 3) - K), ge(3 * quotient(K, 2) + quotient(J, 2) - 4)]
    points = {(j, k) for j in range(12) for k in range(2 * (j // 3) + 1) if 3 * (k // 2) + j // 2 >= 4}
    for variables in (["j", "k"], ["k", "j"]):
        nest, rest = bounds(rows, variables)
        found = [
            {variables[0]: outer, variables[1]: inner}
            for outer in nest[0].range({})
            for inner in nest[1].range({variables[0]: outer})
        ]
        assert rest == ()
        assert len(found) == len(points)
        assert {(point["j"], point["k"]) for point in found} == points


MULTIPLES = {
    "two multiples": [ge(P - times(N, K)), ge(times(N, K) - times(N, J)), ge(times(N, J) + P)],
    "a multiple and the index itself": [ge(times(N, J) - times(N, K) + N - P), ge(K), ge(1 - J)],
}


@pytest.mark.parametrize("name", MULTIPLES)
def test_an_outer_loop_may_be_bounded_by_multiples_of_an_inner_index_alone(name):
    rows = MULTIPLES[name]
    nest, guards = bounds(rows, ["j", "k"], [ge(N - 1)], multiples=True)
    for size, rest in product((1, 2, 3, 5), range(-4, 9)):
        given = {"n": size, "p": rest}
        box = ({**given, "j": j, "k": k} for j, k in product(range(-12, 13), repeat=2))
        points = {(point["j"], point["k"]) for point in box if all(row.holds(point) for row in rows)}
        loops = {(j, k) for j in nest[0].range(given) for k in nest[1].range({**given, "j": j})}
        assert loops == (points if all(row.holds(given) for row in guards) else set())


def test_unbounded_variables_are_refused():
    with pytest.raises(ValueError, match="index h has no upper bound"):
        bounds([ge(H)], ["h"])
    with pytest.raises(ValueError, match="index j has no lower bound"):
        bounds([*between(0, H, 5), ge(H - J)], ["h", "j"])
    with pytest.raises(ValueError, match="index j has no lower bound"):
        bounds(between(0, H, 5), ["j", "h"])
    with pytest.raises(ValueError, match="express"):
        bounds([*between(0, H, 5), mod(H, 2)], ["h"])


# Numeric systems


def test_points_of_stride_and_congruence():
    assert find_point([eq(2 * H - 7), *between(0, H, 9)], ["h"]) is None
    assert find_point([mod(H, 4), *between(1, H, 3)], ["h"]) is None
    assert find_point([mod(H, 4), *between(1, H, 6)], ["h"]) == {"h": 4}
    # Not empty over the rationals, and all constants are tight: only the search tells.
    assert find_point([*between(1, 3 * X - 2 * Y, 2), *between(0, X - Y, 0), ge(X - 3), ge(9 - X)], ["x", "y"]) is None
    assert count_points([mod(X + Y, 3), *between(0, X, 5), *between(0, Y, 5)], ["x", "y"]) == 12
    assert count_points([], []) == 1


def test_points_of_open_systems():
    assert find_point([ge(H - 3)], ["h"]) == {"h": 3}
    with pytest.raises(ValueError, match="no values given"):
        find_point([ge(H - N)], ["h"])
    with pytest.raises(ValueError, match="unbounded"):
        count_points([ge(H)], ["h"])
    with pytest.raises(ValueError, match="unbounded"):
        count_points([*between(0, H, 3)], ["h", "j"])


# The solver unit tests of TVM (test_arith_solve_linear_equations.py, test_arith_solve_linear_inequality.py)


@every("seed", range(10))
def test_quotients_of_loops_are_written_out(seed):
    random, box = Random(seed), {v: range(-5, 6) for v in "ij"}
    names = tuple(box)
    form = random_form(random, names, 1) + random.choice((1, -1)) * quotient(random_form(random, names), 3)
    row = Constraint(("ge", "eq")[seed % 2], form)
    written = eliminate_floors(row, frozenset(names))
    if written is not None:
        assert not any(part.form.quotients() for part in written)
        assert np.array_equal(points([row], box, {}), points(written, box, {}))
