"""Conditions on indices as constraints: a system holds at just the points of a box at which SymPy's condition does."""

import itertools
import random

import sympy
from sympy import ITE, Abs, And, Eq, Implies, Max, Min, Mod, Ne, Not, Or, Piecewise, Xor, floor, sign

from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic import TensorSymbol
from sympy_tensordiff.symbolic.index_notation.constraints import (
    MAX_ALTERNATIVES,
    alternatives,
    branch_alternatives,
    relation_row,
)
from sympy_tensordiff.symbolic.index_notation.indices import indices, to_affine

i, j, n = indices("i j n")
a, b = sympy.symbols("a b")
x = TensorSymbol("x", n)
idx = TensorSymbol("idx", 4, dtype=int)
POINTS = [{i: u, j: v} for u, v in itertools.product(range(-3, 4), repeat=2)]


def form(expr):
    return to_affine(expr, str)


def systems_hold(found, point):
    """The number of systems that hold at a point."""
    values = {str(symbol): value for symbol, value in point.items()}
    return sum(all(row.holds(values) for row in system) for system in found.systems)


def holds(condition, point):
    """The value of a condition on numbers, which are taken one after the other: SymPy does not simplify before."""
    if isinstance(condition, sympy.logic.boolalg.BooleanFunction):
        args = [sympy.sympify(holds(arg, point)) for arg in condition.args]
        return bool(condition.func(*args))
    if isinstance(condition, sympy.core.relational.Relational):
        return bool(condition.func(*(evaluate(side, point) for side in condition.args)))
    return bool(condition)


def random_side(rng, depth=0):
    if depth > 1 or rng.random() < 0.5:
        return rng.choice([i, j, i - j, 2 * i - j, i / 2 + j, j / 3, sympy.Integer(rng.randint(-3, 3)), 3 - i])
    one, other = random_side(rng, depth + 1), random_side(rng, depth + 1)
    return rng.choice(
        [
            lambda: Abs(one),
            lambda: Max(one, other),
            lambda: Min(one, other) + i,
            lambda: floor(one / 2) - j,
            lambda: Mod(sympy.Mul(2, i) + j, 3) + other,
            lambda: (i - j + rng.randint(-2, 2)) ** 2,
            lambda: (i + rng.randint(-2, 2)) * (j + rng.randint(-2, 2)),
            lambda: sign(i - rng.randint(-2, 2)),
            lambda: Piecewise((one, i < j), (other, True)),
        ]
    )()


def random_condition(rng, depth=0):
    if depth > 2 or rng.random() < 0.4:
        relation = rng.choice([sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge, Eq, Ne])
        return relation(random_side(rng), random_side(rng, 1))
    count = rng.randint(2, 3)
    parts = [random_condition(rng, depth + 1) for _ in range(3)]
    kind = rng.choice([And, And, Or, Or, Not, Xor, Implies, ITE])
    return kind(*parts[: {Not: 1, Implies: 2, ITE: 3}.get(kind, count)])


def test_random_conditions_hold_where_one_of_their_systems_does(in_turns):
    exact = strict = 0
    for seed in in_turns(range(96), 8):
        condition = random_condition(random.Random(seed))
        found = alternatives(condition, form)
        assert len(found.systems) <= MAX_ALTERNATIVES
        known = [(systems_hold(found, point) > 0, holds(condition, point)) for point in POINTS]
        if found.exact:
            assert all(one == other for one, other in known), condition
        else:
            assert all(one or not other for one, other in known), condition
        exact += found.exact
        strict += found.exact and len(set(known)) == 2
    assert exact > 2 and strict > 1


def test_branches_are_evaluated_where_their_systems_hold(in_turns):
    for seed in in_turns(range(40), 8):
        rng = random.Random(seed)
        branches = [(sympy.Integer(k), random_condition(rng, 2)) for k in range(3)]
        before = [sympy.false] * len(POINTS)
        for part, found in branch_alternatives(branches, form):
            is_value = isinstance(part, sympy.Integer)
            own = branches[int(part)][1] if is_value else sympy.true
            for n_of, point in enumerate(POINTS):
                wanted = not before[n_of] and holds(own, point)
                known = systems_hold(found, point) > 0
                assert known == wanted if found.exact else known or not wanted, (branches, part, point)
                if is_value:
                    before[n_of] = before[n_of] or holds(own, point)


def test_conditions_on_values_are_unknown():
    for value in (x[i] > 0, a < b, x[i] < i, Eq(a, 1.5), sympy.Symbol("c", real=True) > i / 2):
        below = alternatives(value, lambda expr: form(expr) if all(s.is_integer for s in expr.free_symbols) else None)
        assert below == (((),), False), value
    # What is known beside them is stated, and false is false.
    found = alternatives((x[i] > 0) & (i < 3), form)
    assert found.systems == ((relation_row(i < 3, form),),) and not found.exact
    assert alternatives((x[i] > 0) & sympy.false, form) == ((), True)
    assert set(alternatives((x[i] > 0) | (i < 3), form).systems) == {(), (relation_row(i < 3, form),)}


def test_entries_of_data_are_variables_of_their_own():
    found = alternatives((idx[i] < j) & Ne(2 * idx[i], 3), form)
    assert found.exact
    (entry,) = {entry for system in found.systems for row in system for entry in data_entries([row.form])}
    for value, at in itertools.product(range(-1, 4), range(-1, 4)):
        rows = [[row.substitute({entry: form(sympy.Integer(value))}) for row in system] for system in found.systems]
        assert any(all(row.holds({"j": at, "i": 0}) for row in system) for system in rows) == (value < at)


def test_conditions_with_too_many_alternatives_keep_those_that_fit():
    many = And(*(Ne(i, k) for k in range(6)), j >= 2)
    found = alternatives(many, form)
    assert not found.exact and len(found.systems) <= MAX_ALTERNATIVES
    assert all(relation_row(j >= 2, form) in system for system in found.systems)
    assert alternatives(Or(*(And(i > 3 * k, j < k) for k in range(20))), form) == (((),), False)
    assert alternatives(Ne(i, j), form, split_unequal=False) == (((),), False)
    assert alternatives(Eq(i, j), form, split_unequal=False) == alternatives(Eq(i, j), form)
