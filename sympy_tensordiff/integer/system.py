"""Systems of rows made ready for questions: equations solved over the integers, the rest tightened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import gcd

from .affine import Affine, Quotient, Row, Variable, quotient
from .simplex import Dictionary, Vector


class System:
    """The integer points of ``rows``, as inequalities over columns that no equation ties any more.

    The definitions of all quotients join the rows, a congruence ``form mod m == 0`` as the
    equation ``form == m*floor(form/m)``. The equations are solved over the integers, so the
    columns are integers that vary freely but for the inequalities; every inequality is divided
    by its content and its constant floored. Two that meet are one more equation.

    Attributes
    ----------
    is_empty : bool
        Whether the system provably has no integer point (it has no rational one, after tightening).

    Examples
    --------
    >>> p, t = Affine.variable("p"), Affine.variable("t")
    >>> system = System((Row("eq", p - 2 * t - 1), Row("ge", p)))
    >>> system.minimum(system.vector(p)), system.is_empty
    (Fraction(1, 1), False)
    >>> System((Row("eq", p - 2 * t - 1), Row("mod", p, 2))).is_empty
    True
    """

    __slots__ = ("_dictionary", "highs", "images", "inequalities", "is_empty", "loose", "lows", "width")

    def __init__(self, rows: Sequence[Row]) -> None:
        forms, equations = _closure(rows)
        variables = dict.fromkeys(v for form in chain(forms, equations) for v, _ in form.terms)
        self.width = width = len(variables)
        index = {v: i for i, v in enumerate(variables)}
        unit = [[int(i == j) for j in range(width + 1)] for i in range(width)]
        solver = _Solver(unit, [_vector(f, index, width) for f in forms], [_vector(f, index, width) for f in equations])
        self.is_empty = not solver.run()
        self._dictionary: Dictionary | None = None
        if not self.is_empty:
            self.images = dict(zip(variables, solver.images, strict=True))
            self.inequalities = solver.inequalities
            self._read_box()
            self.is_empty = self._has_no_rational_point()

    def _read_box(self) -> None:
        """Collect the range of each column, and whether a column occurs in no longer inequality (is loose)."""
        self.lows: list[int | None] = [None] * self.width
        self.highs: list[int | None] = [None] * self.width
        self.loose = [True] * self.width
        for terms, constant in self.inequalities.items():
            held = [i for i, c in enumerate(terms) if c]
            if len(held) > 1:
                for i in held:
                    self.loose[i] = False
            elif terms[held[0]] > 0:
                self.lows[held[0]] = -constant
            else:
                self.highs[held[0]] = constant

    def _has_no_rational_point(self) -> bool:
        if all(self.loose):
            return False
        for terms, constant in self.inequalities.items():
            most = self._least_in_box([-c for c in terms])
            if most is not None and constant < most:
                return True
        return not self._rational().feasible

    def _rational(self) -> Dictionary:
        """The simplex dictionary, made when first asked for."""
        if self._dictionary is None:
            rows = [[*terms, constant] for terms, constant in self.inequalities.items()]
            self._dictionary = Dictionary(rows, self.width)
        return self._dictionary

    def _least_in_box(self, vector: Sequence[int]) -> int | None:
        """A lower bound of ``vector``, without its constant, from the ranges of the columns alone."""
        total = 0
        for c, low, high in zip(vector, self.lows, self.highs, strict=False):
            if c:
                bound = low if c > 0 else high
                if bound is None:
                    return None
                total += c * bound
        return total

    def vector(self, form: Affine) -> Vector | None:
        """``form`` over the columns, the constant last; None where it holds a variable that no row holds."""
        result = [0] * self.width
        result.append(form.constant)
        for v, c in form.terms:
            image = self.images.get(v)
            if image is None:
                return None
            result = [a + c * b for a, b in zip(result, image, strict=True)]
        return result

    def minimum(self, vector: Vector | None, enough: int | None = None) -> Fraction | None:
        """The least value of a form over the rational points; None where it is unbounded below.

        With ``enough`` any value that is reached and not above it may be returned.
        """
        if vector is None:
            return None
        if all(loose for c, loose in zip(vector, self.loose, strict=False) if c):
            least = self._least_in_box(vector)
            return None if least is None else Fraction(least + vector[-1])
        return self._rational().minimum(vector, enough)

    def implies_nonnegative(self, form: Affine) -> bool:
        """Whether ``form >= 0`` provably holds at all integer points of the system, which is not empty."""
        vector = self.vector(form)
        if vector is None:
            return False
        constant = vector.pop()
        content = gcd(*vector)
        if content == 0:
            return constant >= 0
        vector = [c // content for c in vector]
        constant //= content
        known = self.inequalities.get(tuple(vector))
        if known is not None and known <= constant:
            return True
        least = self._least_in_box(vector)
        if least is not None and least + constant >= 0:
            return True
        vector.append(constant)
        value = self.minimum(vector, -1)
        return value is not None and value > -1

    def implies_congruence(self, form: Affine, modulus: int) -> bool:
        """Whether the equations alone make ``form`` a multiple of ``modulus``."""
        vector = self.vector(form)
        return vector is not None and all(c % modulus == 0 for c in vector)


@lru_cache(maxsize=4096)
def system(rows: tuple[Row, ...]) -> System:
    """`System`, remembered: the same rows are asked about many times."""
    return System(rows)


def definitions(quotients: Iterable[Quotient]) -> dict[Quotient, tuple[Row, Row]]:
    """The defining rows of quotients and of those inside them."""
    result: dict[Quotient, tuple[Row, Row]] = {}
    open_ones = list(quotients)
    while open_ones:
        found = open_ones.pop()
        if found not in result:
            result[found] = found.definition()
            open_ones += found.form.quotients()
    return result


def as_equation(row: Row) -> Affine:
    """The form that a congruence equates to zero, ``form - m*floor(form/m)``.

    >>> as_equation(Row("mod", Affine({"p": 1}, 1), 2))
    p - 2*floor((p + 1)/2) + 1
    """
    return row.form - row.modulus * quotient(row.form, row.modulus)


def _closure(rows: Iterable[Row]) -> tuple[list[Affine], list[Affine]]:
    """All inequalities and all equations that the rows state, those of their quotients too."""
    forms: list[Affine] = []
    equations: list[Affine] = []
    for kind, form, modulus in rows:
        if kind == "ge":
            forms.append(form)
        else:
            equations.append(form if kind == "eq" else as_equation(Row(kind, form, modulus)))
    quotients = [v for form in chain(forms, equations) for v, _ in form.terms if isinstance(v, Quotient)]
    if quotients:
        forms += [row.form for pair in definitions(quotients).values() for row in pair]
    return forms, equations


def _vector(form: Affine, index: dict[Variable, int], width: int) -> Vector:
    result = [0] * width
    for v, c in form.terms:
        result[index[v]] = c
    result.append(form.constant)
    return result


class _Solver:
    """Solves equations over the integers by changes of columns, and tightens inequalities."""

    def __init__(self, images: list[Vector], forms: list[Vector], equations: list[Vector]) -> None:
        self.images = images
        self.forms = forms
        self.equations = equations
        self.inequalities: dict[tuple[int, ...], int] = {}

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
        # With column_k = t - sum(round(c_i/c_k) * column_i), the coefficients of the equation over
        # t and the other columns are remainders by c_k, which shrink until one is a unit.
        image = [-sign * ((2 * c + size) // (2 * size)) for c in [*equation, constant]]
        if size > 1:
            image[k] = 1
            self.equations.append([*equation, constant])
        else:
            image[k] = 0
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
        strongest: dict[tuple[int, ...], int] = {}
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
            if constant < strongest.get(terms, constant + 1):
                strongest[terms] = constant
        for terms, constant in strongest.items():
            opposite = strongest.get(tuple([-c for c in terms]))
            if opposite is not None and constant + opposite <= 0:
                if constant + opposite < 0:
                    return False
                self.equations.append([*terms, constant])
        self.inequalities = strongest
        self.forms = [[*terms, constant] for terms, constant in strongest.items()]
        return True
