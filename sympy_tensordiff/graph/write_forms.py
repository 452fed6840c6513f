"""Writing affine forms, bounds and conditions of the graph as SymPy expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient, Variable
from sympy_tensordiff.integer.extrema import Extremum, PositivePart, extrema_in, positive_parts_in
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient
from sympy_tensordiff.integer.remainders import remainders_in, remainders_of
from sympy_tensordiff.integer.rows import atoms_in, bounds_with_divisors, normalise
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.indices import to_affine

BoundSymbols = tuple[tuple[int, Any], ...]
"""Pairs ``(variable, symbol)``: the bound variables around a node with the SymPy symbols that are written for them."""

WrittenTerm = tuple[int, Any, bool]
"""A coefficient, the expression that it multiplies, and whether that is a size."""


class Forms:
    """The methods of `ExpressionWriter` that write index expressions: symbols, affine forms, loop bounds and conditions
    on indices.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.used = {str(s.name) for s in reader.free} | set(reader.tensors) | reader.scalars
        self.sizes = atoms_in([extent for leaf in reader.leaves() for extent in leaf.shape])

    # -------------------------------------------------------------- names

    def bind(self, variables: Sequence[int], names: Sequence[str], bound_symbols: BoundSymbols) -> BoundSymbols:
        """Return ``bound_symbols`` extended by a symbol for each bound variable, with a name that no other symbol there
        has.
        """
        taken = {str(symbol.name) for _, symbol in bound_symbols}
        for v, name in zip(variables, names, strict=True):
            choice = distinct_name(name, taken, self.used)
            taken.add(choice)
            bound_symbols = (*bound_symbols, (v, sympy.Symbol(choice, integer=True)))
        return bound_symbols

    def symbol(self, variable: int, bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy symbol of a variable: from ``bound_symbols`` if it is bound, else the symbol that the user
        wrote.
        """
        for v, symbol in bound_symbols:
            if v == variable:
                return symbol
        return self.reader.symbols[variable]

    def form(self, form: Affine, bound_symbols: BoundSymbols) -> Any:
        """Return an affine form as a SymPy expression, with remainders as ``Mod`` and extrema as ``Max``, ``Min`` or
        ``Abs``.
        """
        terms = []
        if any(isinstance(v, Compound) for v, _ in form.terms):
            form, extrema = extrema_in(form)
            form, remainders = remainders_of(form)
            terms += [extremum.coefficient * self.extremum(extremum, bound_symbols) for extremum in extrema]
            terms += [self.form(part, bound_symbols) * self.remainder(f, d, bound_symbols) for part, f, d in remainders]
        terms.append(sympy.Integer(form.constant))
        for v, c in form.terms:
            if c < 0 and isinstance(v, SymbolicQuotient) and self.has_negative_lead(v.form, bound_symbols):
                terms.append(-c * self.quotient(sympy.ceiling, -v.form, v.divisor, bound_symbols))
            else:
                terms.append(c * self.variable(v, bound_symbols))
        return sympy.Add(*terms)

    def remainder(self, dividend: Affine, divisor: Affine, bound_symbols: BoundSymbols) -> Any:
        """Return ``Mod(dividend, divisor)`` as SymPy evaluates it when a user types it; unevaluated if SymPy's result
        is wrong.

        SymPy 1.14 evaluates ``Mod(2*Mod(i, 3), 3)`` to ``2*Mod(i, 3)``, and does not terminate on some with a divisor
        of several terms whose sign it knows, as ``Mod(p - 2, N + 1)`` with a positive ``N``.
        """
        above, below = self.form(dividend, bound_symbols), self.form(divisor, bound_symbols)
        if not (below.is_Add and below.is_positive):
            evaluated = sympy.Mod(above, below)
            found, meant = (to_affine(expr, str) for expr in (evaluated, sympy.Mod(above, below, evaluate=False)))
            rows = (normalise(Constraint("ge", form)) for form in (found - meant, meant - found))
            if all(row is True or (isinstance(row, Constraint) and is_implied(row, ())) for row in rows):
                return evaluated
        return sympy.Mod(above, below, evaluate=False)

    def quotient(self, function: Any, form: Affine, divisor: Affine, bound_symbols: BoundSymbols) -> Any:
        """Return ``function(form/divisor)`` as a SymPy expression, where ``function`` is floor or ceiling and
        ``divisor`` is not a number.
        """
        return function(self.form(form, bound_symbols) / self.form(divisor, bound_symbols))

    def extremum(self, extremum: Extremum, bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy expression of ``extremum``, the maximum or minimum of two forms or the absolute value of
        one.
        """
        one = self.form(extremum.one, bound_symbols)
        if extremum.function == "abs":
            return sympy.Abs(one)
        return (sympy.Max if extremum.function == "max" else sympy.Min)(one, self.form(extremum.other, bound_symbols))

    def variable(self, variable: Any, bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy expression of the graph variable ``variable``: a symbol, or a floor, product, maximum or
        entry of an integer tensor.
        """
        match variable:
            case Quotient():
                return self.rounded(sympy.floor, variable.form, variable.divisor, bound_symbols)
            case SymbolicQuotient():
                return self.quotient(sympy.floor, variable.form, variable.divisor, bound_symbols)
            case PositivePart():
                return sympy.Max(0, self.form(variable.form, bound_symbols))
            case IndexProduct():
                return sympy.Mul(*(self.variable(factor, bound_symbols) for factor in variable.factors))
            case IndirectIndex():
                index = tuple(self.form(form, bound_symbols) for form in variable.index)
                return TensorEntry._trusted(self.reader.tensors[variable.tensor], index)
        return self.symbol(variable, bound_symbols)

    def rounded(self, function: Any, form: Affine, divisor: int, bound_symbols: BoundSymbols) -> Any:
        """Return ``function(form/divisor)``, with floor or ceiling as ``function``, in the notation to which SymPy
        evaluates it. SymPy's slow evaluation is avoided where possible.
        """
        if divisor == 1:
            return self.form(form, bound_symbols)
        if self.has_assumptions(form):
            return function(self.form(form, bound_symbols) / divisor)
        inside = Affine({v: c for v, c in form.terms if c % divisor}, form.constant if form.constant % divisor else 0)
        outside = (form - inside).divided(divisor)
        # Of remainders and other quotients SymPy may find a whole part; that of extrema it finds where there is none.
        evaluate = not inside.terms or (bool(inside.compounds()) and not positive_parts_in((inside,)))
        return self.form(outside, bound_symbols) + function(
            self.form(inside, bound_symbols) / divisor, evaluate=evaluate
        )

    def has_assumptions(self, *forms: Affine) -> bool:
        """Return whether SymPy may know more about a variable in ``forms`` than that it is an integer: it is written as
        an expression, or its symbol is declared even or odd. SymPy could then simplify the written form.
        """
        symbols = [self.reader.symbols.get(v, _UNRESTRICTED) for v in atoms_in(forms)]
        return any(not symbol.is_Symbol or symbol.is_even is not None for symbol in symbols)

    # -------------------------------------------------------------- rows

    def holds(self, rows: Sequence[Constraint], bound_symbols: BoundSymbols) -> Any:
        """Return the SymPy condition that all constraints in ``rows`` hold."""
        equations = [sympy.Eq(*self.equation(row, bound_symbols), evaluate=False) for row in rows if row.kind == "eq"]
        conditions = [self.condition(row, bound_symbols) for row in rows if row.kind != "eq"] + equations
        if len(conditions) < 2:
            return conditions[0] if conditions else sympy.true
        return sympy.And(*conditions, evaluate=False)

    def lead(self, form: Affine, bound_symbols: BoundSymbols) -> tuple[int, int]:
        """Return the term of ``form`` that is printed alone on the left of a constraint, as
        ``(variable, coefficient)``: that of the outermost bound index, else of a free index, else of a size.
        ``bound_symbols`` lists the bound variables, outermost first.
        """
        bound, limits = {v: n for n, (v, _) in enumerate(bound_symbols)}, self.reader.limits

        def order(term: tuple[Variable, int]) -> tuple[int, bool, bool]:
            """Return the sort key of `term`; the term with the least key is written on the left."""
            v = term[0]
            return bound.get(v, len(bound)) if isinstance(v, int) else len(bound), v in self.sizes, v in limits

        return min(form.terms, key=order)

    def has_negative_lead(self, form: Affine, bound_symbols: BoundSymbols) -> bool:
        """Return whether the coefficient of the leading term of `form` is negative; without terms, whether its constant
        is.
        """
        return (self.lead(form, bound_symbols)[1] if form.terms else form.constant) < 0

    def terms(self, form: Affine, bound_symbols: BoundSymbols) -> tuple[list[WrittenTerm], int]:
        """Return ``(terms, constant)`` of the affine form `form` for printing, the leading term first. The terms of
        `form` that make up a remainder ``Mod(f, m)``, such as ``f - m*floor(f/m)``, become one term.
        """
        rest, extrema = extrema_in(form)
        rest, remainders = remainders_in(rest)
        found: list[WrittenTerm] = []
        for part, dividend, divisor in remainders:
            remainder = self.remainder(dividend, divisor, bound_symbols)
            if part.is_constant:
                found.append((part.constant, remainder, False))
            else:
                found.append((1, self.form(part, bound_symbols) * remainder, False))
        lead = self.lead(rest, bound_symbols) if rest.terms else None
        for v, c in sorted(rest.terms, key=lambda term: term != lead):
            found.append((c, self.variable(v, bound_symbols), v in self.sizes))
        found += [(extremum.coefficient, self.extremum(extremum, bound_symbols), False) for extremum in extrema]
        return found, rest.constant

    def equation(self, row: Constraint, bound_symbols: BoundSymbols) -> tuple[Any, Any]:
        """Return ``(left, right)``, the two sides of the equation ``row`` as SymPy expressions for printing, with the
        leading term alone on the left: ``Eq(i, n - j)``.

        Other terms with the sign of the leading term stay on the left, too, if the terms of opposite sign are not only
        sizes: ``Eq(i + j, k)``.
        """
        (lead, *others), constant = self.terms(row.form, bound_symbols)
        sign = 1 if lead[0] > 0 else -1
        same_side = [term for term in others if term[0] * sign > 0]
        opposite = [term for term in others if term[0] * sign < 0]
        left = [lead]
        if same_side and not all(is_size for _, _, is_size in opposite):
            left, others = [lead, *same_side], opposite
        right = [*((-c, expr, size) for c, expr, size in others), (-constant, sympy.S.One, False)]
        return _signed_sum(left, sign), _signed_sum(right, sign)

    def condition(self, row: Constraint, bound_symbols: BoundSymbols) -> Any:
        """Return the inequality or congruence ``row`` as a SymPy condition."""
        if row.kind == "mod":
            remainder = self.remainder(row.form - row.form.constant, Affine.of(row.modulus), bound_symbols)
            return sympy.Eq(remainder, -row.form.constant % row.modulus, evaluate=False)
        (lead, *others), constant = self.terms(row.form, bound_symbols)
        sign = 1 if lead[0] > 0 else -1
        right = [*((-c, expr, size) for c, expr, size in others), (-constant, sympy.S.One, False)]
        relation = sympy.Ge if sign > 0 else sympy.Le
        return relation(_signed_sum([lead], sign), _signed_sum(right, sign), evaluate=False)

    def bounds(self, variable: int, forms: Sequence[Affine], bound_symbols: BoundSymbols) -> tuple[Any, Any]:
        """Return ``(lower bound, upper bound)`` of `variable` as SymPy expressions, from the constraints that each of
        ``forms`` is nonnegative.

        Several lower bounds become their maximum, several upper bounds their minimum.
        """
        below, above = bounds_with_divisors(variable, forms)
        lows = [self.rounded(sympy.ceiling, form, divisor, bound_symbols) for form, divisor in below]
        highs = [self.rounded(sympy.floor, form, divisor, bound_symbols) for form, divisor in above]
        # No bound follows from the others, so there is nothing to find out by comparing them.
        evaluate = len(forms) > 2 and self.has_assumptions(*forms)
        return (
            lows[0] if len(lows) == 1 else sympy.Max(*lows, evaluate=evaluate),
            highs[0] if len(highs) == 1 else sympy.Min(*highs, evaluate=evaluate),
        )


def _signed_sum(terms: Sequence[WrittenTerm], sign: int) -> Any:
    """Return ``sign`` times the sum of terms."""
    return sympy.Add(*(sign * c * expr for c, expr, _ in terms))


def distinct_name(name: str, *taken: set[str]) -> str:
    """Return ``name``, or ``name_1``, ``name_2``, ... if that is in one of ``taken``."""
    choice, n = name, 0
    while any(choice in names for names in taken):
        n += 1
        choice = f"{name}_{n}"
    return choice


_UNRESTRICTED = sympy.Symbol("i", integer=True)
