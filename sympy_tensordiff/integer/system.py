"""Systems of constraints prepared for queries: equations solved over the integers, inequalities tightened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain, compress
from math import gcd
from typing import TypeAlias

from .affine import Affine, Compound, Constraint, Quotient, Variable, quotient
from .products import IndexProduct, product_rows
from .simplex import Dictionary, Vector

Direction: TypeAlias = tuple[int, ...]


class EquationSolver:
    """Eliminates the equations of a system over the integers. It writes the variables as forms in fewer independent
    integers (the columns), and tightens the inequalities, written in these columns.
    """

    def __init__(self, variables: Iterable[Variable], forms: list[Affine], equations: list[Affine]) -> None:
        index = {v: i for i, v in enumerate(variables)}
        width = len(index)
        self.is_live = [True] * width
        self.images = [[0] * i + [1] + [0] * (width - i) for i in range(width)]
        self.forms = [_as_vector(form, index) for form in forms]
        self.equations = [_as_vector(form, index) for form in equations]
        self.inequalities: dict[Direction, int] = {}
        self.multiplicity: dict[Direction, int] = {}
        self.has_implicit_equality = False

    def run(self) -> bool:
        """Eliminate all equations; return False on a contradiction. The result is in ``inequalities``."""
        while True:
            while self.equations:
                if not self._reduce_one_equation():
                    return False
            if not self._tighten():
                return False
            if not self.equations:
                return True
            self.has_implicit_equality = True

    def _reduce_one_equation(self) -> bool:
        """Use one equation to eliminate a column, or to make its coefficients smaller, as in Euclid's algorithm. Return
        False if the equation has no integer solution.
        """
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
            self.is_live[k] = False
        self._substitute(k, image)
        return True

    def _substitute(self, k: int, image: Vector) -> None:
        """Replace column ``k``, an unknown integer, by ``image``, an integer combination of the columns, in all vectors
        of the system.

        In ``image``, column ``k`` may stand for a new unknown.
        """
        for vectors in (self.images, self.forms, self.equations):
            for i, vector in enumerate(vectors):
                factor = vector[k]
                if factor:
                    changed = [a + factor * b for a, b in zip(vector, image, strict=True)]
                    changed[k] = factor * image[k]
                    vectors[i] = changed

    def _tighten(self) -> bool:
        """Simplify the inequalities: round their constants to integers, keep only the strongest of parallel ones, and
        make equations of pairs such as ``x >= 2, x <= 2``. Return False if two contradict each other.
        """
        strongest: dict[Direction, int] = {}
        multiplicity: dict[Direction, int] = {}
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
                multiplicity[terms] = 1
            elif constant == known:
                multiplicity[terms] += 1
        for terms, constant in strongest.items():
            opposite = strongest.get(tuple([-c for c in terms]))
            if opposite is not None and constant + opposite <= 0:
                if constant + opposite < 0:
                    return False
                self.equations.append([*terms, constant])
        self.inequalities, self.multiplicity = strongest, multiplicity
        self.forms = [[*terms, constant] for terms, constant in strongest.items()]
        return True


def _as_vector(form: Affine, index: dict[Variable, int]) -> Vector:
    """Return ``form`` as a vector: the coefficient of each variable at its position in the dictionary ``index``, and
    the constant last.
    """
    result = [0] * len(index)
    for v, c in form.terms:
        result[index[v]] = c
    result.append(form.constant)
    return result


class System:
    """A system of constraints, prepared to find exact minima over its points. The equations are solved first: each
    variable becomes a form in fewer independent integers (columns), and the inequalities are written in these.

    The compounds ``also`` have columns, too.

    The definitions of all compounds and the inequalities about products are added to the rows, a congruence
    ``form mod m == 0`` as the equation ``form == m*floor(form/m)``. The equations are solved over
    the integers, so the columns are integers that are restricted by the inequalities only; every
    inequality is divided by its content and its constant floored. Two that meet are one more
    equation.

    Attributes
    ----------
    is_empty : bool
        Whether the system provably has no integer point (it has no rational one, after tightening).
        The other attributes exist where it is False.
    images : dict from variable to sparse form
        Each variable over the columns, as pairs (column, coefficient); the constant's column is ``width``.
    inequalities : dict from coefficients to constant
        The strongest inequality of each direction, in lowest terms.
    multiplicity : dict from coefficients to int
        How many rows state the strongest inequality of a direction.
    has_derived : bool
        Whether inequalities have been derived from several rows: rounding cuts, and those about products.
    has_implicit_equality : bool
        Whether inequalities have become an equation, so that they do not correspond to single rows.

    Examples
    --------
    >>> p, t = Affine.variable("p"), Affine.variable("t")
    >>> system = System((Constraint("eq", p - 2 * t - 1), Constraint("ge", p)))
    >>> system.minimum(p), system.is_empty
    (Fraction(1, 1), False)
    >>> System((Constraint("eq", p - 2 * t - 1), Constraint("mod", p, 2))).is_empty
    True
    """

    __slots__ = (
        "_dictionary",
        "has_derived",
        "has_implicit_equality",
        "highs",
        "images",
        "inequalities",
        "is_empty",
        "lows",
        "multiplicity",
        "only_in_box",
        "width",
    )

    def __init__(self, rows: Sequence[Constraint], also: Sequence[Compound] = ()) -> None:
        forms, equations, self.has_derived = _inequalities_and_equations(rows, also)
        variables = dict.fromkeys(v for form in chain(forms, equations) for v, _ in form.terms)
        solver = EquationSolver(variables, forms, equations)
        self.is_empty = not solver.run()
        if self.is_empty:
            return
        is_live = [*solver.is_live, True]  # the constant last
        self.width = sum(is_live) - 1
        self.images = {
            v: [(i, c) for i, c in enumerate(compress(image, is_live)) if c]
            for v, image in zip(variables, solver.images, strict=True)
        }
        self.inequalities = {tuple(compress(terms, is_live)): c for terms, c in solver.inequalities.items()}
        self.multiplicity = {tuple(compress(terms, is_live)): c for terms, c in solver.multiplicity.items()}
        self.has_implicit_equality = solver.has_implicit_equality
        self._dictionary: Dictionary | None = None
        self._find_ranges()
        self.is_empty = self._has_no_rational_point()

    def _find_ranges(self) -> None:
        """Compute the constant lower and upper bounds of each variable (a column of the system), and record in
        ``only_in_box`` whether these bounds are the only inequalities that contain it.
        """
        self.lows: list[int | None] = [None] * self.width
        self.highs: list[int | None] = [None] * self.width
        self.only_in_box = [True] * self.width
        for terms, constant in self.inequalities.items():
            involved = [i for i, c in enumerate(terms) if c]
            if len(involved) > 1:
                for i in involved:
                    self.only_in_box[i] = False
            elif terms[involved[0]] > 0:
                self.lows[involved[0]] = -constant
            else:
                self.highs[involved[0]] = constant

    def _has_no_rational_point(self) -> bool:
        """Return whether the inequalities of the system have no rational solution. A quick test with the ranges of the
        single unknowns comes first, then the simplex method decides.
        """
        if all(self.only_in_box):
            return False
        for terms, constant in self.inequalities.items():
            least = self._least_in_box([-c for c in terms])
            if least is not None and constant < least:
                return True
        return not self.dictionary().feasible

    def dictionary(self) -> Dictionary:
        """Return the simplex dictionary of the inequalities, in their order; it is made once."""
        if self._dictionary is None:
            rows = [(*terms, constant) for terms, constant in self.inequalities.items()]
            self._dictionary = Dictionary(rows, self.width)
        return self._dictionary

    def rational_point(self) -> list[Fraction]:
        """Return some rational solution of the system, which must have one, as the values of its columns (independent
        integers).
        """
        if all(self.only_in_box):
            box = zip(self.lows, self.highs, strict=True)
            return [Fraction(low if low is not None else high or 0) for low, high in box]
        return self.dictionary().point()

    def _least_in_box(self, vector: Sequence[int]) -> int | None:
        """Return the least value of ``sum(vector[k]*x[k])`` over the ranges of the columns x (independent integers) of
        the system; None if it has no lower bound.
        """
        total = 0
        for c, low, high in zip(vector, self.lows, self.highs, strict=False):
            if c:
                bound = low if c > 0 else high
                if bound is None:
                    return None
                total += c * bound
        return total

    def vector(self, form: Affine) -> Vector | None:
        """Return the affine form ``form`` as a vector: its coefficient for each column of the system, then its
        constant. None if it contains a variable that is not in the system.
        """
        result = [0] * self.width
        result.append(form.constant)
        for v, c in form.terms:
            image = self.images.get(v)
            if image is None:
                return None
            for i, b in image:
                result[i] += c * b
        return result

    def tightened(self, form: Affine) -> tuple[Direction, int] | None:
        """Return the inequality ``form >= 0`` in lowest terms, as a pair (coefficients of the columns, constant).
        Return None if the form contains a variable that the system does not.

        The coefficients are all zero if the equations make the form a constant.
        """
        vector = self.vector(form)
        if vector is None:
            return None
        constant = vector.pop()
        content = gcd(*vector)
        if content > 1:
            return tuple([c // content for c in vector]), constant // content
        return tuple(vector), constant

    def excess(self, form: Affine) -> int:
        """Return the least nonnegative integer value of ``form`` that the equations of the system allow: 1 for ``2*p +
        3``, which is odd. Inequalities do not count.

        >>> p = Affine.variable("p")
        >>> System((Constraint("mod", p + 1, 4),)).excess(p), System(()).excess(2 * p + 3)
        (3, 1)
        """
        foreign = {v: c for v, c in form.terms if v not in self.images}
        vector = self.vector(form - Affine(foreign)) or [form.constant]
        content = gcd(*vector[:-1], *foreign.values())
        return vector[-1] % content if content else 0

    def minimum(self, form: Affine) -> Fraction | None:
        """Return the least value of a form over the rational points; None if it is unbounded below."""
        vector = self.vector(form)
        return None if vector is None else self._minimum_of_vector(vector, None)

    def _minimum_of_vector(self, vector: Vector, stop_at: int | None) -> Fraction | None:
        """Return the least value of the linear form ``vector`` over the rational points of the system; None if there is
        none. The search may stop early: at any value that is at most ``stop_at``.
        """
        if all(self.only_in_box[i] for i, c in enumerate(vector[:-1]) if c):
            least = self._least_in_box(vector)
            return None if least is None else Fraction(least + vector[-1])
        return self.dictionary().minimum(vector, stop_at)

    def implies_nonnegative(self, form: Affine) -> bool:
        """Return whether ``form >= 0`` provably holds at all integer points of the system, which must not be empty."""
        inequality = self.tightened(form)
        if inequality is None:
            return False
        terms, constant = inequality
        known = self.inequalities.get(terms)
        if known is not None and known <= constant:
            return True
        least = self._least_in_box(terms)
        if least is not None and least + constant >= 0:
            return True
        # Its values at integer points are integers, so that more than -1 is not negative.
        value = self._minimum_of_vector([*terms, constant], -1)
        return value is not None and value > -1

    def implies_congruence(self, form: Affine, modulus: int) -> bool:
        """Return whether ``form`` is a multiple of ``modulus`` at all integer solutions of the equations."""
        vector = self.vector(form)
        return vector is not None and all(c % modulus == 0 for c in vector)


@lru_cache(maxsize=1024)
def system(rows: tuple[Constraint, ...], also: tuple[Compound, ...] = ()) -> System:
    """Return the `System` of ``rows`` and of the definitions of the nonlinear terms ``also``; cached, since the same
    rows are queried many times.
    """
    return System(rows, also)


def _rounding_cuts(forms: Iterable[Affine], defined: dict[Compound, tuple[Constraint, ...]]) -> list[Affine]:
    """Return inequalities that follow by rounding from inequalities ``forms`` and the definitions of floors in
    ``defined``: ``p <= 2*q + 1`` gives ``floor(p/2) <= q``. All are given as forms that are not negative.

    ``p <= 2*q + 1`` and ``2*floor(p/2) <= p`` give ``floor(p/2) <= q``: the sum is ``2*(q - floor(p/2)) >= -1``.
    """
    cuts: list[Affine] = []
    for compound, rows in defined.items():
        lead = compound.form.terms[0][0] if isinstance(compound, Quotient) else None
        for definition in (row.form for row in rows if lead is not None):
            b = definition.coefficient(lead)
            for form in forms:
                a = form.coefficient(lead)
                if a * b < 0:
                    cut = form * abs(b) + definition * abs(a)
                    content = cut.content()
                    if len(cut.terms) <= len(form.terms) + 1 and content > 1 and cut.constant % content:
                        cuts.append(cut)
    return cuts


def definitions(compounds: Iterable[Compound]) -> dict[Compound, tuple[Constraint, ...]]:
    """Return a dictionary from each of ``compounds``, and those nested in them, to the constraints that define it: for
    ``q = floor(i/2)``, ``0 <= i - 2*q <= 1``. Products have no such constraints.
    """
    result: dict[Compound, tuple[Constraint, ...]] = {}
    waiting = list(compounds)
    while waiting:
        compound = waiting.pop()
        if compound not in result:
            result[compound] = compound.definition()
            waiting += (v for form in compound.forms() for v in form.compounds())
    return result


def _inequalities_and_equations(
    rows: Iterable[Constraint], also: Sequence[Compound]
) -> tuple[list[Affine], list[Affine], bool]:
    """Return ``(inequalities, equations, has_derived)`` for the constraints ``rows``: the forms f of all ``f >= 0``,
    the forms f of all ``f == 0``, and whether further inequalities were derived.

    The definitions of nonlinear terms in ``rows`` and ``also`` are included.

    Inequalities about products are added for the products in the rows and in ``also``.
    """
    forms: list[Affine] = []
    derived: list[Affine] = []
    equations: list[Affine] = []
    for kind, form, modulus in rows:
        if kind == "ge":
            forms.append(form)
        else:
            equations.append(form if kind == "eq" else form - modulus * quotient(form, modulus))
    compounds = [v for form in chain(forms, equations) for v, _ in form.terms if isinstance(v, Compound)]
    if compounds or also:
        defined = definitions((*compounds, *also))
        derived += _rounding_cuts(forms, defined)
        forms += [row.form for more in defined.values() for row in more]
        stated = {v for form in chain(forms, equations) for v, _ in form.terms if isinstance(v, IndexProduct)}.union(
            also
        )
        if any(isinstance(v, IndexProduct) for v in stated):
            derived += _without_loose_products(
                product_rows(chain(forms, equations, (-form for form in equations)), also), stated
            )
    return forms + derived, equations, bool(derived)


def _without_loose_products(derived: Sequence[Affine], stated: Collection[Compound]) -> list[Affine]:
    """Return the inequalities ``derived`` without those that are useless in proofs: they contain a product such as
    ``i*j`` that is not in ``stated`` and has the same sign in all of ``derived``, so that nothing bounds it from the
    other side.

    A product that only derived inequalities contain, and with one sign, is restricted by nothing else: they imply
    nothing about others.
    """
    remaining = list(derived)
    while True:
        signs: dict[Variable, set[bool]] = {}
        for form in remaining:
            for v, c in form.terms:
                if isinstance(v, IndexProduct) and v not in stated:
                    signs.setdefault(v, set()).add(c > 0)
        only_in_box = {v for v, all_signs in signs.items() if len(all_signs) == 1}
        if not only_in_box:
            return remaining
        remaining = [form for form in remaining if only_in_box.isdisjoint(v for v, _ in form.terms)]
