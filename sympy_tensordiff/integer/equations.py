"""Linear equations solved over the integers by changes of columns, and inequalities tightened."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TypeAlias

from .affine import Affine, Variable
from .simplex import Vector

Direction: TypeAlias = tuple[int, ...]


class Solver:
    """Solves equations over the integers by changes of columns, and tightens inequalities."""

    def __init__(self, variables: Iterable[Variable], forms: list[Affine], equations: list[Affine]) -> None:
        index = {v: i for i, v in enumerate(variables)}
        width = len(index)
        self.live = [True] * width
        self.images = [[0] * i + [1] + [0] * (width - i) for i in range(width)]
        self.forms = [_dense(form, index) for form in forms]
        self.equations = [_dense(form, index) for form in equations]
        self.inequalities: dict[Direction, int] = {}
        self.shares: dict[Direction, int] = {}
        self.has_met = False

    def run(self) -> bool:
        """Whether no contradiction came up; ``inequalities`` then holds constants by coefficients."""
        while True:
            while self.equations:
                if not self._solve_one():
                    return False
            if not self._tighten():
                return False
            if not self.equations:
                return True
            self.has_met = True

    def _solve_one(self) -> bool:
        """Take one equation a step on: a unit coefficient removes a column, a larger one is reduced."""
        equation = self.equations.pop()
        constant = equation.pop()
        content = gcd(*equation)
        if content == 0:
            return constant == 0
        if constant % content:
            return False
        if content > 1:
            equation = [c // content for c in equation]
            constant //= content
        size, k = min((abs(c), i) for i, c in enumerate(equation) if c)
        sign = 1 if equation[k] > 0 else -1
        equation.append(constant)
        # With column_k = t - sum(round(c_i/c_k) * column_i), the coefficients of the equation over
        # t and the other columns are remainders by c_k, which shrink until one is a unit.
        image = [-sign * ((2 * c + size) // (2 * size)) for c in equation]
        if size > 1:
            image[k] = 1
            self.equations.append(equation)
        else:
            image[k] = 0
            self.live[k] = False
        self._substitute(k, image)
        return True

    def _substitute(self, k: int, image: Vector) -> None:
        for vectors in (self.images, self.forms, self.equations):
            for i, vector in enumerate(vectors):
                factor = vector[k]
                if factor:
                    changed = [a + factor * b for a, b in zip(vector, image, strict=True)]
                    changed[k] = factor * image[k]
                    vectors[i] = changed

    def _tighten(self) -> bool:
        """Floor all constants, keep the strongest of parallel rows, turn rows that meet into equations."""
        strongest: dict[Direction, int] = {}
        shares: dict[Direction, int] = {}
        for vector in self.forms:
            constant = vector[-1]
            terms = tuple(vector[:-1])
            content = gcd(*terms)
            if content == 0:
                if constant < 0:
                    return False
                continue
            if content > 1:
                terms = tuple([c // content for c in terms])
                constant //= content
            known = strongest.get(terms)
            if known is None or constant < known:
                strongest[terms] = constant
                shares[terms] = 1
            elif constant == known:
                shares[terms] += 1
        for terms, constant in strongest.items():
            opposite = strongest.get(tuple([-c for c in terms]))
            if opposite is not None and constant + opposite <= 0:
                if constant + opposite < 0:
                    return False
                self.equations.append([*terms, constant])
        self.inequalities, self.shares = strongest, shares
        self.forms = [[*terms, constant] for terms, constant in strongest.items()]
        return True


def _dense(form: Affine, index: dict[Variable, int]) -> Vector:
    result = [0] * len(index)
    for v, c in form.terms:
        result[index[v]] = c
    result.append(form.constant)
    return result
