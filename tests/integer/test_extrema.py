"""Maxima and minima of forms: their laws, and systems with them, against enumeration."""

import itertools
import pickle
import random

import pytest
from fuzz.systems import count_points

from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.extrema import (
    cases,
    extrema_in,
    maximum_of,
    minimum_of,
    positive_part,
    positive_parts_in,
)
from sympy_tensordiff.integer.implication import is_empty, is_implied, remove_redundant
from sympy_tensordiff.integer.products import times
from sympy_tensordiff.integer.values import find_point

NAMES = "ijn"
i, j, n = (Affine.variable(name) for name in NAMES)
POINTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(range(-3, 4), repeat=3)]
BOX = [row for v in (i, j, n) for row in (Constraint("ge", v + 3), Constraint("ge", 3 - v))]
FUNCTIONS = {"max": max, "min": min, "abs": lambda one, other: abs(one)}


def random_form(generator, depth=2, products=False):
    """A random form with maxima, minima, absolute values and quotients in it."""
    form = sum((generator.randint(-2, 2) * v for v in (i, j, n)), Affine.of(generator.randint(-3, 3)))
    if not depth or generator.random() > 0.6:
        return form
    other = random_form(generator, depth - 1, products)
    kind = generator.randrange(4 + products)
    if kind < 2:
        more = [random_form(generator, 0)] if generator.random() < 0.3 else []
        return (maximum_of, minimum_of)[kind]([form, other, *more])
    return (form + quotient(other, 3), form + 2 * positive_part(other) - other, times(n, positive_part(other)))[
        kind - 2
    ]


def test_forms_have_the_values_of_their_expressions():
    for seed in range(150):
        generator = random.Random(seed)
        forms = [random_form(generator, products=True) for _ in range(3)]
        most, fewest, part = maximum_of(forms), minimum_of(forms), positive_part(forms[0])
        rest, found = extrema_in(most + 2 * forms[1])
        mapping = {"i": random_form(generator), "n": forms[2]}
        moved = most.substitute(mapping)
        for point in generator.sample(POINTS, 25):
            values = [form.evaluate(point) for form in forms]
            assert (most.evaluate(point), fewest.evaluate(point)) == (max(values), min(values))
            assert part.evaluate(point) == max(0, values[0])
            written = rest.evaluate(point) + sum(
                extremum.coefficient * FUNCTIONS[extremum.function](*(f.evaluate(point) for f in extremum[2:]))
                for extremum in found
            )
            assert written == max(values) + 2 * values[1]
            new = {**point, **{v: form.evaluate(point) for v, form in mapping.items()}}
            assert moved.evaluate(point) == most.evaluate(new)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_systems_agree_with_enumeration(start):
    for seed in range(start, start + 20):
        generator = random.Random(seed)
        rows = [Constraint(generator.choice(("ge", "ge", "eq")), random_form(generator, 1)) for _ in range(3)]
        asked = Constraint(generator.choice(("ge", "eq")), random_form(generator, 1))
        inside = [point for point in POINTS if all(row.holds(point) for row in rows)]
        if is_empty(rows, BOX):
            assert not inside
        if is_implied(asked, (*rows, *BOX)):
            assert all(asked.holds(point) for point in inside)
        remaining = remove_redundant(rows, BOX)
        assert inside == [point for point in POINTS if all(row.holds(point) for row in remaining)]
        assert count_points([*rows, *BOX], NAMES) == len(inside)
        found = find_point([*rows, *BOX], NAMES)
        assert found in inside if inside else found is None


def test_cases_have_the_points_of_the_rows_once():
    for seed in range(30):
        generator = random.Random(seed)
        rows = [Constraint("ge", random_form(generator)) for _ in range(2)]
        systems = list(cases(rows, limit=None))
        assert not any(positive_parts_in(row.form for row in system) for system in systems)
        for point in generator.sample(POINTS, 60):
            holding = [system for system in systems if all(row.holds(point) for row in system)]
            assert len(holding) == all(row.holds(point) for row in rows)


def test_one_maximum_has_one_form():
    assert maximum_of([i, j]) == maximum_of([j, i]) == -minimum_of([-i, -j]) == i + j - minimum_of([i, j])
    assert maximum_of([i + 3, i]) == i + 3
    assert positive_part(3 - 3 * i) == 3 * positive_part(1 - i)
    assert positive_part(-positive_part(i)) == Affine()
    assert pickle.loads(pickle.dumps(maximum_of([i, n]))) == maximum_of([i, n])


@pytest.mark.parametrize("c", [1, 2, 3, 4])
def test_multiples_of_an_extremum_are_written_with_it(c):
    """``c*i + c*max(0, j - i)`` is ``c*max(i, j)``, whatever else is in the form, and if its sign is changed."""
    for rest in (Affine(), n, c * n, 5 * n):
        own, found = extrema_in(c * maximum_of([i, j]) + rest)
        assert own == rest and [(one, set(operands)) for one, _, *operands in found] == [(c, {i, j})]
        own, found = extrema_in(c * minimum_of([i, j]) + rest)
        assert own == rest and [(one, set(operands)) for one, _, *operands in found] == [(c, {i, j})]
