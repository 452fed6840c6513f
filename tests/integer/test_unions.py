"""Constraints that hold in the union of systems, by enumeration."""

import random
from itertools import product

from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.fourier_motzkin import constraints_on_union

BOX = range(-3, 4)


def systems(seed):
    chance = random.Random(seed)

    def row():
        form = Affine({v: chance.randint(-2, 2) for v in "ikn"}, chance.randint(-3, 3))
        return Constraint(chance.choice(["ge", "ge", "ge", "eq"]), form)

    return [[row() for _ in range(chance.randint(1, 4))] for _ in range(chance.randint(1, 3))]


def test_what_is_joined_holds_in_every_system():
    bounded = 0
    for seed in range(60):
        given = systems(seed)
        rows = constraints_on_union(given, ["k", "i"])
        common = set(given[0]).intersection(*given[1:])
        assert common <= set(rows)
        bounded += len(rows) - len(common)
        for values in product(BOX, repeat=3):
            point = dict(zip("ikn", values, strict=True))
            if any(all(row.holds(point) for row in system) for system in given):
                assert all(row.holds(point) for row in rows), (given, rows, point)
    assert bounded > 30


def test_a_variable_that_all_systems_bound_is_bounded():
    i, k, n = (Affine.variable(v) for v in "ikn")
    one = [Constraint("ge", k), Constraint("ge", i - k), Constraint("ge", n + i - k)]
    other = [Constraint("eq", k - n), Constraint("ge", i - 2 * k)]
    low, high = constraints_on_union([one, other], ["k"])
    for values in product(BOX, repeat=3):
        point = dict(zip("ikn", values, strict=True))
        assert low.holds(point) == (point["k"] >= min(0, point["n"]))
        assert high.holds(point) == (point["k"] <= max(point["i"], point["n"]))
    assert constraints_on_union([one, [Constraint("ge", k)]], ["k"]) == (Constraint("ge", k),)
