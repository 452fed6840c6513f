"""The simplex dictionary against the corners of the polyhedron, found by enumeration of the bases."""

from fractions import Fraction
from itertools import combinations
from random import Random

from every import every

from sympy_tensordiff.integer.simplex import Dictionary


def corner(rows, size):
    """The point where ``size`` rows are zero, by elimination over the rationals; None where it is not unique."""
    table = [[Fraction(a) for a in row] for row in rows]
    for e in range(size):
        pivot = next((r for r in range(e, size) if table[r][e]), None)
        if pivot is None:
            return None
        table[e], table[pivot] = table[pivot], table[e]
        table[e] = [a / table[e][e] for a in table[e]]
        for r in range(size):
            if r != e:
                table[r] = [a - table[r][e] * b for a, b in zip(table[r], table[e], strict=True)]
    return [-row[size] for row in table]


def value(row, point):
    return sum(a * x for a, x in zip(row, point, strict=False)) + row[-1]


def corners(rows, size):
    found = [corner(chosen, size) for chosen in combinations(rows, size)]
    return [x for x in found if x is not None and all(value(row, x) >= 0 for row in rows)]


def random_system(random, size):
    """A box of side 10 that some rows cut."""
    rows = [[random.randint(-4, 4) for _ in range(size)] + [random.randint(-6, 9)] for _ in range(random.randint(1, 5))]
    for e in range(size):
        rows.append([int(j == e) for j in range(size)] + [5])
        rows.append([-int(j == e) for j in range(size)] + [5])
    random.shuffle(rows)
    return rows


@every("seed", range(20))
def test_minimum_is_the_least_corner(seed):
    random = Random(seed)
    size = random.randint(1, 3)
    rows = random_system(random, size)
    dictionary = Dictionary(rows, size)
    vertices = corners(rows, size)
    assert dictionary.feasible == bool(vertices)
    if not vertices:
        return
    assert all(value(row, dictionary.point()) >= 0 for row in rows)
    for _ in range(4):
        form = [random.randint(-3, 3) for _ in range(size + 1)]
        least = min(value(form, x) for x in vertices)
        assert dictionary.minimum(form) == least
        reached = dictionary.minimum(form, enough=0)
        assert reached is not None and (reached == least if least > 0 else least <= reached <= 0)


@every("seed", range(13))
def test_without_is_the_minimum_over_the_other_rows(seed):
    random = Random(seed)
    size = random.randint(1, 3)
    rows = random_system(random, size)
    dictionary = Dictionary(rows, size)
    if not dictionary.feasible:
        return
    left = dict(enumerate(rows))
    for r, row in enumerate(rows):
        others = [other for place, other in left.items() if place != r]
        expected = Dictionary(others, size).minimum(row)
        found, rest = dictionary.without(r, -1000)
        assert found == expected or (expected is None and (found is None or found <= -1000))
        if found is not None and found >= 0:
            dictionary = rest
            del left[r]


def test_free_directions_are_unbounded():
    strip = Dictionary([[1, -1, 0], [-1, 1, 4]], 2)
    assert strip.feasible
    assert strip.minimum([1, 0, 0]) is None
    assert strip.minimum([1, -1, 3]) == 3
    assert Dictionary([], 2).minimum([0, 1, 0]) is None
    assert Dictionary([], 0).minimum([7]) == 7


def test_cycling_example_ends():
    """Beale's example cycles under the largest-coefficient rule."""
    rows = [
        [-1, 240, 4, -36, 0],
        [-1, 180, 1, -6, 0],
        [0, 0, -1, 0, 1],
        *([int(j == e) for j in range(4)] + [0] for e in range(4)),
    ]
    assert Dictionary(rows, 4).minimum([-3, 600, -8, 24, 0]) is not None
