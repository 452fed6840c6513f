"""Maxima in rows that other rows decide: the rows hold at the same integer points as before."""

import random
from itertools import product

import pytest

from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.clamps import decide_clamps_of_rows
from sympy_tensordiff.integer.extrema import maximum_of

i, j = Affine.variable("i"), Affine.variable("j")
BOX = tuple(Constraint("ge", form) for form in (i, 3 - i, j, 3 - j))


def random_form(generator, depth):
    """An affine form, with maxima and floors of such added to it."""
    c, d = generator.choice((-2, -1, -1, 0, 1, 1, 2)), generator.choice((-2, -1, 0, 1, 1, 2))
    form = c * i + d * j + generator.randint(-3, 3)
    for _ in range(depth):
        inner = random_form(generator, depth - 1)
        if generator.random() < 0.6:
            form += generator.choice((-1, 1, 1, 2)) * maximum_of([inner, Affine()])
        else:
            form += generator.choice((-2, -1, 1, 4)) * quotient(inner, generator.choice((2, 3, 4)))
    return form


def random_row(generator, shared):
    """A row that may hold a maximum, the same in all rows, in two places."""
    form = random_form(generator, generator.choice((0, 1, 2)))
    if generator.random() < 0.6:
        form += generator.choice((-1, 1, 1)) * shared
    if generator.random() < 0.4:
        inner = random_form(generator, 0) - generator.choice((1, -1)) * shared
        form += generator.choice((-4, -1, 1, 4)) * quotient(inner, generator.choice((2, 4)))
    return Constraint("ge", form) if generator.random() < 0.8 else Constraint("mod", form, generator.choice((2, 3, 4)))


def check(rows, facts):
    decided = decide_clamps_of_rows(rows, facts)
    if decided == rows:
        return False
    for a, b in product(range(-6, 8), repeat=2):
        at = {"i": a, "j": b}
        if all(fact.holds(at) for fact in facts):
            assert all(row.holds(at) for row in rows) == all(row.holds(at) for row in decided), (rows, decided, at)
    return True


@pytest.mark.in_turns(4)
def test_they_hold_at_the_same_points(thorough):
    changed = 0
    for seed in range(600 if thorough else 100):
        generator = random.Random(seed)
        shared = maximum_of([random_form(generator, 0), Affine()])
        rows = tuple(random_row(generator, shared) for _ in range(generator.randint(1, 3)))
        changed += check(rows, BOX if generator.random() < 0.5 else ())
    assert changed > 60


def test_a_maximum_that_a_row_holds_twice_does_not_decide_itself():
    """With ``i - 2*j + 2`` in both places the row would hold at fewer points, ``(-6, 0)`` not among them."""
    part = maximum_of([i - 2 * j + 2, Affine()])
    row = Constraint("ge", 2 * j - 4 * quotient(j + part + 1, 2) + 2 * quotient(i - 2 * j + 2, 4) + part)
    check((row,), ())
    # What a row holds once, and adds, it decides.
    once = Constraint("ge", part - j - 9)
    assert decide_clamps_of_rows((once, Constraint("ge", j)), ()) == (
        Constraint("ge", i - 3 * j - 7),
        Constraint("ge", j),
    )
