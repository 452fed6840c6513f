"""The laws of `sympy_tensordiff.integer.lattice`."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from sympy_tensordiff.integer.lattice import dot, echelon, nearest, product, reduce_in_groups, shortened, tidied


def random_rows(random, height, width, bound):
    return [[random.randint(-bound, bound) for _ in range(width)] for _ in range(height)]


def orthogonalised(basis):
    result = []
    for vector in basis:
        rest = [Fraction(x) for x in vector]
        for other in result:
            q = Fraction(dot(vector, other)) / dot(other, other)
            rest = [x - q * y for x, y in zip(rest, other, strict=True)]
        result.append(rest)
    return result


def is_lll_reduced(basis):
    stars = orthogonalised(basis)
    lengths = [dot(v, v) for v in stars]
    for k, vector in enumerate(basis):
        for i in range(k):
            if 2 * abs(Fraction(dot(vector, stars[i])) / lengths[i]) > 1:
                return False
        if k:
            mu = Fraction(dot(vector, stars[k - 1])) / lengths[k - 1]
            if lengths[k] < (Fraction(99, 100) - mu * mu) * lengths[k - 1]:
                return False
    return True


def same_lattice(first, second):
    """Equal spans: neither grows, in rank or in index, when the other is added."""
    pivots = [[next(x for x in row if x) for row in echelon(rows)[0]] for rows in (first, second, first + second)]
    return pivots[0] == pivots[1] == pivots[2]


def test_echelon_laws():
    random = Random(1)
    for _ in range(300):
        height, width = random.randint(1, 5), random.randint(1, 5)
        rows = random_rows(random, height, width, random.choice([1, 4, 50]))
        if height > 2:
            rows[-1] = [2 * x - y for x, y in zip(rows[0], rows[1], strict=True)]
        form, transform, relations = echelon(rows)
        assert product(transform, rows) == form
        assert not any(any(row) for row in product(relations, rows))
        assert len(transform) + len(relations) == height
        pivots = [next(j for j, x in enumerate(row) if x) for row in form]
        assert pivots == sorted(set(pivots)) and all(row[j] > 0 for row, j in zip(form, pivots, strict=True))
        for above, j in ((above, j) for k, j in enumerate(pivots) for above in form[:k]):
            assert 2 * abs(above[j]) <= next(row[j] for row, p in zip(form, pivots, strict=True) if p == j)
        assert is_lll_reduced(relations)


@pytest.mark.parametrize("groups", [[0, 0, 0], [0, 0, 1], [0, 1, 2]])
def test_reduction_in_groups_keeps_the_product(groups):
    random = Random(2)
    for _ in range(50):
        basis, dual = random_rows(random, 3, 4, 100), random_rows(random, 3, 2, 9)
        if any(not any(v) for v in orthogonalised(basis)):
            continue
        before = [[sum(d[i] * b[j] for d, b in zip(dual, basis, strict=True)) for j in range(4)] for i in range(2)]
        old = basis[:]
        reduce_in_groups(basis, groups, dual)
        assert before == [
            [sum(d[i] * b[j] for d, b in zip(dual, basis, strict=True)) for j in range(4)] for i in range(2)
        ]
        ends = [k + 1 for k in range(3) if k == 2 or groups[k] != groups[k + 1]]
        assert all(same_lattice(old[:end], basis[:end]) for end in ends)
        if len(set(groups)) == 1:
            assert is_lll_reduced(basis)


def test_shortened_stays_in_its_class():
    random = Random(4)
    for _ in range(50):
        basis = echelon([[x] for x in random_rows(random, 1, 4, 30)[0]])[2]
        vector = random_rows(random, 1, 4, 1000)[0]
        short = shortened(vector, basis)
        assert all(2 * abs(dot(short, other)) <= dot(other, other) for other in basis)
        assert same_lattice(basis, [*basis, [x - y for x, y in zip(vector, short, strict=True)]])


def test_nearest_is_the_least_residue():
    for p in range(-20, 21):
        for q in range(1, 8):
            value = nearest(p, q)
            assert 2 * abs(p - value * q) <= q
            assert nearest(-p, q) == -value


def test_tidied_orders_and_signs():
    assert tidied([[0, -1, 1], [-1, 0, 0]]) == [[1, 0, 0], [0, 1, -1]]
    assert tidied([[1, 0], [5, -1]]) == [[1, 0], [0, 1]]
    assert tidied([]) == []
