"""SymPy decides Smith normal forms: invariant factors, transforms, and the conditions under which equations have a
solution.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import smith_form
from sympy import ZZ, Matrix
from sympy.matrices.normalforms import smith_normal_decomp

from sympy_tensordiff.integer import smith

from .report import WrongAnswerError


def random_matrix(seed: int) -> list[list[int]]:
    """Return a matrix with up to 5 rows and columns: sparse or dense, of any rank, small entries more often."""
    generator = random.Random(seed)
    rows, columns = generator.randint(1, 5), generator.randint(1, 5)
    largest = generator.choice((1, 2, 6, 6, 30, 1000))
    density = generator.choice((0.3, 0.6, 1.0))
    matrix = [
        [generator.randint(-largest, largest) if generator.random() < density else 0 for _ in range(columns)]
        for _ in range(rows)
    ]
    if rows > 1 and generator.random() < 0.3:  # dependent rows
        a, b = generator.randint(-3, 3), generator.randrange(rows - 1)
        matrix[-1] = [a * x for x in matrix[b]]
    if generator.random() < 0.2:  # a common factor
        matrix = [[x * 6 for x in row] for row in matrix]
    return matrix


def judge(seed: int) -> Counter[str]:
    """Compare the Smith form of a random matrix, and the solutions that follow from it, with SymPy's."""
    rows = random_matrix(seed)
    matrix = Matrix(rows)
    ours = smith_form.smith_decomposition(rows)
    form, left, _ = smith_normal_decomp(matrix, domain=ZZ)
    diagonal = [abs(int(form[i, i])) for i in range(min(matrix.shape)) if form[i, i]]
    _expect(list(ours.factors) == sorted(diagonal), "invariant factors", rows, ours.factors, diagonal)
    u, s, v = Matrix(ours.u), Matrix(ours.s), Matrix(ours.v)
    _expect(u * matrix * v == s, "the product of a decomposition", rows)
    _expect(abs(u.det()) == 1 and abs(v.det()) == 1, "the determinant of a transform", rows)
    _expect(ours.rank == matrix.rank(), "the rank", rows)
    kernel = smith.kernel_basis(rows)
    _expect(len(kernel) == matrix.cols - ours.rank, "the dimension of the kernel", rows)
    _expect(all(not any(matrix * Matrix(vector)) for vector in kernel), "a vector of the kernel", rows)
    if kernel:  # a basis of the whole lattice: its own invariant factors are 1
        units = smith_normal_decomp(Matrix(kernel), domain=ZZ)[0]
        _expect(all(abs(units[i, i]) == 1 for i in range(len(kernel))), "a basis of the kernel", rows, kernel)
    found = Counter({"smith form: equal": 1})
    solution = smith.solve(rows)
    generator = random.Random(seed)
    for _ in range(4):
        side = [generator.randint(-8, 8) for _ in rows]
        if generator.random() < 0.5:
            side = list(matrix * Matrix([generator.randint(-4, 4) for _ in range(matrix.cols)]))
        turned = left * Matrix(side)
        solvable = all(
            turned[i] % abs(form[i, i]) == 0 if i < matrix.cols and form[i, i] else turned[i] == 0
            for i in range(matrix.rows)
        )
        holds = not any(_dot(row, side) for row in solution.equations)
        holds &= all(_dot(c.row, side) % c.modulus == 0 for c in solution.congruences)
        _expect(holds == solvable, "the conditions of a solution", rows, side)
        found["equations: solvable" if solvable else "equations: not solvable"] += 1
    return found


def _dot(row: Sequence[int], column: Sequence[int]) -> int:
    return sum(int(a) * int(b) for a, b in zip(row, column, strict=True))


def _expect(holds: bool, message: str, *details: object) -> None:
    if not holds:
        raise WrongAnswerError(f"{message}: " + "; ".join(map(str, details)))
