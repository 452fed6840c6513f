"""Affine forms, bounds and conditions of the graph into SymPy, under the names of bound variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Compound, Quotient, Row
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import Extremum, PositivePart, extrema_in, parts_in
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.products import Product, SymbolicQuotient
from sympy_tensordiff.integer.remainders import remainders_in, remainders_of
from sympy_tensordiff.integer.rows import atoms_in, normalise, quotients_of
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.indices import to_affine

Scope = tuple[tuple[int, Any], ...]
"""The bound variables around a node with their symbols."""

Term = tuple[int, Any, bool]
"""A coefficient, what it multiplies, and whether that is a size."""


class Forms:
    """The part of the writer that knows indices: names, forms, conditions, bounds."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.used = {str(s.name) for s in reader.free} | set(reader.tensors) | reader.scalars
        self.sizes = atoms_in([extent for leaf in reader.leaves() for extent in leaf.shape])

    # -------------------------------------------------------------- names

    def bind(self, variables: Sequence[int], names: Sequence[str], scope: Scope) -> Scope:
        """Symbols for bound variables, unlike all names around them."""
        taken = {str(symbol.name) for _, symbol in scope}
        for v, name in zip(variables, names, strict=True):
            choice = unlike(name, taken, self.used)
            taken.add(choice)
            scope = (*scope, (v, sympy.Symbol(choice, integer=True)))
        return scope

    def symbol(self, variable: int, scope: Scope) -> Any:
        """The symbol of a variable, bound or free."""
        for v, symbol in scope:
            if v == variable:
                return symbol
        return self.reader.symbols[variable]

    def form(self, form: Affine, scope: Scope) -> Any:
        """An affine form as a SymPy expression; remainders in it are ``Mod``, as they are printed."""
        terms = []
        if any(isinstance(v, Compound) for v, _ in form.terms):
            form, extrema = extrema_in(form)
            form, remainders = remainders_of(form)
            terms += [extremum.coefficient * self.extremum(extremum, scope) for extremum in extrema]
            terms += [self.form(part, scope) * self.remainder(f, d, scope) for part, f, d in remainders]
        terms.append(sympy.Integer(form.constant))
        for v, c in form.terms:
            if c < 0 and isinstance(v, SymbolicQuotient) and self.leads_negative(v.form, scope):
                terms.append(-c * self.quotient(sympy.ceiling, -v.form, v.divisor, scope))
            else:
                terms.append(c * self.variable(v, scope))
        return sympy.Add(*terms)

    def remainder(self, dividend: Affine, divisor: Affine, scope: Scope) -> Any:
        """``Mod`` of two forms as SymPy evaluates it, which is what a user has who types it, unless that is wrong.

        SymPy 1.14 takes ``Mod(2*Mod(i, 3), 3)`` for ``2*Mod(i, 3)``, and never ends on some with several terms below
        whose sign it knows, as ``Mod(p - 2, N + 1)`` with a positive ``N``.
        """
        above, below = self.form(dividend, scope), self.form(divisor, scope)
        if not (below.is_Add and below.is_positive):
            evaluated = sympy.Mod(above, below)
            found, meant = (to_affine(expr, str) for expr in (evaluated, sympy.Mod(above, below, evaluate=False)))
            rows = (normalise(Row("ge", form)) for form in (found - meant, meant - found))
            if all(row is True or (isinstance(row, Row) and implied(row, ())) for row in rows):
                return evaluated
        return sympy.Mod(above, below, evaluate=False)

    def quotient(self, function: Any, form: Affine, divisor: Affine, scope: Scope) -> Any:
        """``floor`` or ``ceiling`` of a quotient by sizes."""
        return function(self.form(form, scope) / self.form(divisor, scope))

    def extremum(self, extremum: Extremum, scope: Scope) -> Any:
        """The maximum or minimum of two forms, or the absolute value of one."""
        one = self.form(extremum.one, scope)
        if extremum.function == "abs":
            return sympy.Abs(one)
        return (sympy.Max if extremum.function == "max" else sympy.Min)(one, self.form(extremum.other, scope))

    def variable(self, variable: Any, scope: Scope) -> Any:
        """A plain variable or a compound of some."""
        match variable:
            case Quotient():
                return self.rounded(sympy.floor, variable.form, variable.divisor, scope)
            case SymbolicQuotient():
                return self.quotient(sympy.floor, variable.form, variable.divisor, scope)
            case PositivePart():
                return sympy.Max(0, self.form(variable.form, scope))
            case Product():
                return sympy.Mul(*(self.variable(factor, scope) for factor in variable.factors))
            case DataEntry():
                index = tuple(self.form(form, scope) for form in variable.index)
                return TensorEntry._trusted(self.reader.tensors[variable.tensor], index)
        return self.symbol(variable, scope)

    def rounded(self, function: Any, form: Affine, divisor: int, scope: Scope) -> Any:
        """``floor`` or ``ceiling`` of a quotient: what SymPy makes of it, which takes it milliseconds."""
        if divisor == 1:
            return self.form(form, scope)
        if self.is_known(form):
            return function(self.form(form, scope) / divisor)
        inside = Affine({v: c for v, c in form.terms if c % divisor}, form.constant if form.constant % divisor else 0)
        outside = (form - inside).divided(divisor)
        # Of remainders and other quotients SymPy may find a whole part; that of extrema it finds where there is none.
        evaluate = not inside.terms or (bool(inside.compounds()) and not parts_in((inside,)))
        return self.form(outside, scope) + function(self.form(inside, scope) / divisor, evaluate=evaluate)

    def is_known(self, *forms: Affine) -> bool:
        """Whether SymPy may use an assumption about an index: no row says that it is even, its sign is granted."""
        symbols = [self.reader.symbols.get(v, _PLAIN) for v in atoms_in(forms)]
        return any(not symbol.is_Symbol or symbol.is_even is not None for symbol in symbols)

    # -------------------------------------------------------------- rows

    def holds(self, rows: Sequence[Row], scope: Scope) -> Any:
        """That all rows hold, as a condition."""
        equations = [sympy.Eq(*self.equation(row, scope), evaluate=False) for row in rows if row.kind == "eq"]
        conditions = [self.condition(row, scope) for row in rows if row.kind != "eq"] + equations
        if len(conditions) < 2:
            return conditions[0] if conditions else sympy.true
        return sympy.And(*conditions, evaluate=False)

    def lead(self, form: Affine, scope: Scope) -> tuple[int, int]:
        """The term of a row that a reader expects alone on the left: a bound index, a free one, a size last."""
        bound, limits = dict(scope), self.reader.limits
        return min(form.terms, key=lambda term: (term[0] not in bound, term[0] in self.sizes, term[0] in limits))

    def leads_negative(self, form: Affine, scope: Scope) -> bool:
        """Whether the first term that a reader expects, the constant where it stands alone, is negative."""
        return (self.lead(form, scope)[1] if form.terms else form.constant) < 0

    def terms(self, form: Affine, scope: Scope) -> tuple[list[Term], int]:
        """The terms of a row with their coefficients, the leading one first, and its constant.

        A remainder is one term, which leads; what is no size is told from sizes.
        """
        rest, extrema = extrema_in(form)
        rest, remainders = remainders_in(rest)
        found: list[Term] = []
        for part, dividend, divisor in remainders:
            remainder = self.remainder(dividend, divisor, scope)
            if part.is_constant:
                found.append((part.constant, remainder, False))
            else:
                found.append((1, self.form(part, scope) * remainder, False))
        lead = self.lead(rest, scope) if rest.terms else None
        for v, c in sorted(rest.terms, key=lambda term: term != lead):
            found.append((c, self.variable(v, scope), v in self.sizes))
        found += [(extremum.coefficient, self.extremum(extremum, scope), False) for extremum in extrema]
        return found, rest.constant

    def equation(self, row: Row, scope: Scope) -> tuple[Any, Any]:
        """Left and right of an equation: one term alone, or with others where an index would be subtracted from one."""
        (lead, *others), constant = self.terms(row.form, scope)
        sign = 1 if lead[0] > 0 else -1
        beside = [term for term in others if term[0] * sign > 0]
        opposite = [term for term in others if term[0] * sign < 0]
        left = [lead]
        if beside and not all(is_size for _, _, is_size in opposite):
            left, others = [lead, *beside], opposite
        right = [*((-c, expr, size) for c, expr, size in others), (-constant, sympy.S.One, False)]
        return _total(left, sign), _total(right, sign)

    def condition(self, row: Row, scope: Scope) -> Any:
        """An inequality or a congruence."""
        if row.kind == "mod":
            remainder = self.remainder(row.form - row.form.constant, Affine.of(row.modulus), scope)
            return sympy.Eq(remainder, -row.form.constant % row.modulus, evaluate=False)
        (lead, *others), constant = self.terms(row.form, scope)
        sign = 1 if lead[0] > 0 else -1
        right = [*((-c, expr, size) for c, expr, size in others), (-constant, sympy.S.One, False)]
        relation = sympy.Ge if sign > 0 else sympy.Le
        return relation(_total([lead], sign), _total(right, sign), evaluate=False)

    def bounds(self, variable: int, forms: Sequence[Affine], scope: Scope) -> tuple[Any, Any]:
        """The lower and the upper bound of a variable that ``forms``, none of them negative, give."""
        below, above = quotients_of(variable, forms)
        lows = [self.rounded(sympy.ceiling, form, divisor, scope) for form, divisor in below]
        highs = [self.rounded(sympy.floor, form, divisor, scope) for form, divisor in above]
        # No bound follows from the others, so there is nothing to find out by comparing them.
        evaluate = len(forms) > 2 and self.is_known(*forms)
        return (
            lows[0] if len(lows) == 1 else sympy.Max(*lows, evaluate=evaluate),
            highs[0] if len(highs) == 1 else sympy.Min(*highs, evaluate=evaluate),
        )


def _total(terms: Sequence[Term], sign: int) -> Any:
    """The sum of terms, all of them times ``sign``."""
    return sympy.Add(*(sign * c * expr for c, expr, _ in terms))


def unlike(name: str, *taken: set[str]) -> str:
    """``name``, numbered where it is taken."""
    choice, n = name, 0
    while any(choice in names for names in taken):
        n += 1
        choice = f"{name}_{n}"
    return choice


_PLAIN = sympy.Symbol("i", integer=True)
