"""The laws of `sympy_tensordiff.integer.smith` on random and chosen matrices."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import prod
from random import Random

import pytest
import sympy
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from smith_form import Smith, pseudo_inverse, smith_decomposition
from sympy.matrices.normalforms import smith_normal_decomp
from sympy.polys.matrices import DomainMatrix

from sympy_tensordiff.integer.smith import (
    Congruence,
    IntegerSolution,
    SolutionTerm,
    cokernel,
    kernel_basis,
    solve,
)

pytestmark = pytest.mark.quick


def times(left, right, columns):
    """The matrix product; ``columns`` is the number of columns of ``right``."""
    return tuple(tuple(sum(row[k] * right[k][j] for k in range(len(row))) for j in range(columns)) for row in left)


def apply(matrix, vector):
    return tuple(sum(a * x for a, x in zip(row, vector, strict=True)) for row in matrix)


def determinant(matrix):
    size = len(matrix)
    return int(DomainMatrix(list(map(list, matrix)), (size, size), sympy.ZZ).det()) if size else 1


def is_short(vectors, basis):
    """No vector gets shorter by a multiple of a single basis vector."""
    return all(2 * abs(apply([v], b)[0]) <= apply([b], b)[0] for v in vectors for b in basis)


def random_matrix(random, height, width, bound):
    return [[random.randint(-bound, bound) for _ in range(width)] for _ in range(height)]


def sympy_factors(matrix, width):
    """Invariant factors according to SymPy."""
    if not matrix or not width:
        return ()
    diagonal = smith_normal_decomp(sympy.Matrix(matrix), domain=sympy.ZZ)[0]
    return tuple(abs(int(x)) for x in diagonal.diagonal() if x)


@st.composite
def matrices(draw, height=4, width=5, bound=6):
    """A matrix and its number of columns: any shape, often of low rank or with common factors."""
    m, n = draw(st.integers(0, height)), draw(st.integers(0, width))
    entries = st.integers(-bound, bound)
    inner = draw(st.integers(0, 3))
    if inner < 2 and m and n:  # a product: low rank, or factors above 1
        k = draw(st.integers(1, 3))
        left = [[draw(st.integers(-3, 3)) for _ in range(k)] for _ in range(m)]
        right = [[draw(entries) for _ in range(n)] for _ in range(k)]
        return [list(row) for row in times(left, right, n)], n
    return [[draw(entries) for _ in range(n)] for _ in range(m)], n


def check_smith(matrix, width):
    result = smith_decomposition(matrix, width)
    u, s, v, rank, factors = result
    assert isinstance(result, Smith)
    assert times(times(u, matrix, width), v, width) == s
    assert abs(determinant(u)) == abs(determinant(v)) == 1
    assert len(u) == len(s) == len(matrix) and len(v) == width and all(len(row) == width for row in s)
    expected = [[factors[i] if i == j < rank else 0 for j in range(width)] for i in range(len(matrix))]
    assert [list(row) for row in s] == expected
    assert len(factors) == rank and all(f > 0 for f in factors)
    assert all(b % a == 0 for a, b in pairwise(factors))
    columns = tuple(zip(*v, strict=True))
    assert is_short(u[:rank], u[rank:]) and is_short(columns[:rank], columns[rank:])
    return result


@given(matrices())
@settings(max_examples=50, deadline=None)
def test_smith_laws(case):
    matrix, width = case
    result = check_smith(matrix, width)
    assert result.factors == sympy_factors(matrix, width)
    assert kernel_basis(matrix, width) == tuple(zip(*result.v, strict=True))[result.rank :]
    assert cokernel(matrix, width) == result.u[result.rank :]
    assert smith_decomposition(tuple(map(tuple, matrix)), width) == result


def test_smith_of_many_shapes():
    random = Random(7)
    for _ in range(400):
        height, width = random.randint(1, 7), random.randint(1, 7)
        matrix = random_matrix(random, height, width, random.choice([1, 3, 9, 1000]))
        for row in matrix:
            if random.random() < 0.3:
                row[:] = [x * random.choice([0, 2, 6]) for x in row]
        assert check_smith(matrix, width).factors == sympy_factors(matrix, width)


@given(matrices())
@settings(max_examples=40, deadline=None)
def test_cokernel_is_the_kernel_of_the_transpose(case):
    matrix, width = case
    rows = cokernel(matrix, width)
    assert len(rows) == len(matrix) - len(sympy_factors(matrix, width))
    assert not any(any(row) for row in times(rows, matrix, width))
    assert sympy_factors(list(map(list, rows)), len(matrix)) == (1,) * len(rows)


@given(matrices())
@settings(max_examples=40, deadline=None)
def test_pseudo_inverse(case):
    matrix, width = case
    inverse = pseudo_inverse(matrix, width)
    assert len(inverse) == width and all(len(row) == len(matrix) for row in inverse)
    assert all(isinstance(x, Fraction) for row in inverse for x in row)
    expected = tuple(map(tuple, matrix))
    assert times(times(matrix, inverse, len(matrix)), matrix, width) == expected
    u, _, v, rank, factors = smith_decomposition(matrix, width)
    if rank == width == len(matrix):  # then the pseudo-inverse is the inverse, eq. (18)
        scaled = [[Fraction(x, factor) for x in row] for row, factor in zip(u, factors, strict=True)]
        assert inverse == times(v, scaled, width)


def holds(solution, right):
    return not any(apply(solution.equations, right)) and all(
        sum(c * b for c, b in zip(row, right, strict=True)) % modulus == 0 for row, modulus in solution.congruences
    )


def particular(solution, right, width):
    """The particular solution as fractions."""
    x = [Fraction(0)] * width
    for row, factor, column in solution.particular:
        value = Fraction(sum(c * b for c, b in zip(row, right, strict=True)), factor)
        x = [a + value * c for a, c in zip(x, column, strict=True)]
    return x


def check_solution(matrix, width, right_sides, box):
    """`solve` against all ``x`` of a box: what they reach is accepted, what is accepted is reached."""
    solution = solve(matrix, width)
    assert isinstance(solution, IntegerSolution)
    assert all(modulus > 1 for _, modulus in solution.congruences)
    assert [modulus for _, modulus in solution.congruences] == [t.factor for t in solution.particular if t.factor > 1]
    assert all(2 * abs(c) <= modulus for row, modulus in solution.congruences for c in row)
    assert all(next(c for c in row if c) > 0 for row, _ in solution.congruences)
    assert is_short([t.row for t in solution.particular], solution.equations)
    assert is_short([t.column for t in solution.particular], solution.kernel)
    found = {}
    for x in product(range(-box, box + 1), repeat=width):
        found.setdefault(apply(matrix, x), []).append(x)
    assert all(holds(solution, right) for right in found)
    for right in right_sides:
        x = particular(solution, right, width)
        if holds(solution, right):
            assert all(value.denominator == 1 for value in x)
            assert apply(matrix, x) == tuple(right)
        else:
            assert right not in found
            assert any(value.denominator != 1 for value in x) or apply(matrix, x) != tuple(right)
    return solution, found


@given(matrices(height=3, width=3, bound=5))
@settings(max_examples=50, deadline=None)
def test_solve_against_brute_force(case):
    matrix, width = case
    check_solution(matrix, width, list(product(range(-4, 5), repeat=len(matrix))), box=2)


def test_every_solution_is_met_exactly_once():
    random = Random(3)
    for _ in range(60):
        height, width = random.randint(1, 2), random.randint(2, 3)
        matrix = random_matrix(random, height, width, 4)
        right = apply(matrix, [random.randint(-2, 2) for _ in range(width)])
        solution, found = check_solution(matrix, width, [right], box=4)
        start = particular(solution, right, width)
        reach = range(-60, 61) if len(solution.kernel) == 1 else range(-25, 26)
        met = []
        for z in product(reach, repeat=min(len(solution.kernel), 2)):
            if len(solution.kernel) > 2:
                break
            x = [a + sum(c * k[i] for c, k in zip(z, solution.kernel, strict=True)) for i, a in enumerate(start)]
            if all(-4 <= a <= 4 for a in x):
                met.append(tuple(map(int, x)))
        if len(solution.kernel) <= 2:
            assert sorted(met) == found[right]


def test_solve_has_the_index_of_the_smith_form():
    """The moduli need not be the invariant factors, but their product is the same index."""
    random = Random(11)
    for _ in range(200):
        matrix = [[x * random.choice([1, 2, 3]) for x in row] for row in random_matrix(random, 3, 4, 4)]
        factors = smith_decomposition(matrix).factors
        solution = solve(matrix)
        assert prod(t.factor for t in solution.particular) == prod(factors)
        assert len(solution.congruences) >= sum(f > 1 for f in factors)
        rows = [list(t.row) for t in solution.particular] + [list(row) for row in solution.equations]
        assert abs(determinant(rows)) == 1


@every(
    "matrix, factors, solution",
    [
        # Fig. 3 of the paper, and fig. 4.
        ([[1, -2]], (1,), IntegerSolution((SolutionTerm((1,), 1, (1, 0)),), (), (), ((2, 1),))),
        ([[1, -2, -2]], (1,), IntegerSolution((SolutionTerm((1,), 1, (1, 0, 0)),), (), (), ((0, 1, -1), (2, 1, 0)))),
        # x[2*i + 4*j]: the paper drops this congruence.
        ([[2, 4]], (2,), IntegerSolution((SolutionTerm((1,), 2, (1, 0)),), (Congruence((1,), 2),), (), ((2, -1),))),
        # x[2*i + 4*j, 3*j]
        (
            [[2, 4], [0, 3]],
            (1, 6),
            IntegerSolution(
                (SolutionTerm((1, 0), 2, (1, 0)), SolutionTerm((0, 1), 3, (-2, 1))),
                (Congruence((1, 0), 2), Congruence((0, 1), 3)),
                (),
                (),
            ),
        ),
        # x[2*i, i]: no congruence, the equation says it all.
        ([[2], [1]], (1,), IntegerSolution((SolutionTerm((0, 1), 1, (1,)),), (), ((1, -2),), ())),
        # x[6*i + 10*j + 15*k]: no two coefficients are coprime, all three are.
        ([[6, 10, 15]], (1,), IntegerSolution((SolutionTerm((1,), 1, (1, 1, -1)),), (), (), ((0, 3, -2), (5, 0, -2)))),
        # x[i + j, i - j]
        (
            [[1, 1], [1, -1]],
            (1, 2),
            IntegerSolution(
                (SolutionTerm((1, 0), 1, (1, 0)), SolutionTerm((1, -1), 2, (-1, 1))), (Congruence((1, 1), 2),), (), ()
            ),
        ),
        # x[i, i + j, j]
        (
            [[1, 0], [1, 1], [0, 1]],
            (1, 1),
            IntegerSolution(
                (SolutionTerm((1, 0, 0), 1, (1, 0)), SolutionTerm((0, 0, 1), 1, (0, 1))), (), ((1, -1, 1),), ()
            ),
        ),
        ([[-3]], (3,), IntegerSolution((SolutionTerm((1,), 3, (-1,)),), (Congruence((1,), 3),), (), ())),
        ([[0]], (), IntegerSolution((), (), ((1,),), ((1,),))),
        ([[0, 0]], (), IntegerSolution((), (), ((1,),), ((1, 0), (0, 1)))),
        ([[-1, 0], [0, 0]], (1,), IntegerSolution((SolutionTerm((1, 0), 1, (-1, 0)),), (), ((0, 1),), ((0, 1),))),
    ],
)
def test_chosen_matrices(matrix, factors, solution):
    width = len(matrix[0])
    assert check_smith(matrix, width).factors == factors == sympy_factors(matrix, width)
    assert solve(matrix) == solution
    check_solution(matrix, width, list(product(range(-6, 7), repeat=len(matrix))), box=3)


def test_no_rows_and_no_columns():
    assert smith_decomposition([], columns=2) == Smith((), (), ((1, 0), (0, 1)), 0, ())
    assert solve([], columns=2) == IntegerSolution((), (), (), ((1, 0), (0, 1)))
    assert smith_decomposition([[], []]) == Smith(((1, 0), (0, 1)), ((), ()), (), 0, ())
    assert solve([[], []]) == IntegerSolution((), (), ((1, 0), (0, 1)), ())
    assert smith_decomposition([], columns=0) == Smith((), (), (), 0, ())
    assert pseudo_inverse([], columns=2) == ((), ())
    assert pseudo_inverse([[], []]) == ()


def test_what_is_refused():
    with pytest.raises(ValueError, match="number of columns"):
        smith_decomposition([])
    with pytest.raises(ValueError, match="3 entries"):
        solve([[1, 2, 3], [1, 2]])
    with pytest.raises(ValueError, match="2 entries"):
        kernel_basis([[1, 2, 3]], columns=2)
    with pytest.raises(TypeError):
        solve([[Fraction(1, 2)]])
