"""Notations in two-dimensional form, for SymPy's pretty printer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Mul, fraction
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from sympy_tensordiff.symbolic.printing.notation import Applied, Chain, Constant, Product
from sympy_tensordiff.symbolic.printing.notation_formulas import TraditionalWriter
from sympy_tensordiff.symbolic.printing.notation_text import ATOM, CONTRACTED, MUL, POW, SCALED, with_sums

Form = Any


class PrettyWriter(TraditionalWriter):
    """Writes formulas as two-dimensional forms for SymPy's pretty printing, in Unicode or ASCII as the printer says."""

    words = "for ", "otherwise"

    def __init__(self, printer: Any) -> None:
        super().__init__(printer)
        self.is_unicode = bool(printer._use_unicode)
        signs = ("⋅", "⊙", "⊙", "∑", "δ") if self.is_unicode else ("*", ".*", ".", "Sum", "delta")
        self.times, self.by_entry, self.power_sign, self.sigma, self.unit = signs

    def parenthesized(self, form: Form) -> Form:
        """Return the two-dimensional ``form`` in parentheses."""
        return prettyForm(*form.parens())

    def bracketed(self, form: Form) -> Form:
        """Return the two-dimensional ``form`` in square brackets."""
        return prettyForm(*form.parens("[", "]"))

    def joined(self, *parts: Any) -> Form:
        """Return two-dimensional forms and texts side by side."""
        return prettyForm(*stringPict.next(*parts))

    def write_constant(self, constant: Constant) -> Form:
        """Return the symbol of a constant tensor."""
        name = {"ones": "1", "zeros": "0", "identity": "I"}[constant.name]
        if self.is_unicode and (constant.name != "identity" or len(constant.shape) > 1):
            name = {"1": "𝟙", "0": "𝟘", "I": "𝕀"}[name]
        return prettyForm(name)

    def write_product(self, notation: Product) -> Form:
        """Return the two-dimensional form of an elementwise product, with a fraction bar if it has divisors."""
        over, under = fraction(abs(notation.number) * Mul(*notation.scalars))
        inner = [self.at(item, POW) for item in notation.inner]
        divisors = [divisor.tensor for divisor in notation.divisors]
        front = [] if over == 1 else [self.front(over)]
        if notation.factors:
            inner.append(self.elementwise(notation.factors, CONTRACTED if front or inner else 0))
        below = [] if under == 1 else [self.front(under)]
        below += [self.elementwise(divisors, MUL if below else 0)] if divisors else []
        form = self.between(self.times, [*front, *inner] or [prettyForm("1")])
        if below:
            form = prettyForm(*stringPict.stack(form, stringPict.LINE, self.between(self.times, below)))
        return self.joined("-", form) if notation.number.is_negative else form

    def write_chain(self, notation: Chain) -> Form:
        """Return the two-dimensional form of a matrix product."""
        first, *rest = with_sums(notation)
        return self.between(self.times, [self.at(first, SCALED if rest else 0), *(self.at(part, MUL) for part in rest)])

    def superscript(self, base: Any, above: Any) -> Form:
        """Return ``base`` with the superscript ``above``."""
        form = self.at(base, ATOM)
        exponent = stringPict(above) if isinstance(above, str) else above
        top = stringPict(*exponent.left(" " * form.width()))
        return prettyForm(*stringPict(*form.right(" " * exponent.width())).above(top))

    def subscript(self, form: Form, below: Sequence[str]) -> Form:
        """Return the two-dimensional ``form`` with the indices ``below`` on its lower right."""
        indices = stringPict(", ".join(below))
        indices.baseline = form.baseline - form.height()
        return prettyForm(*form.right(indices))

    def named(self, name: str, args: Sequence[Any], keywords: Sequence[tuple[str, Any]] = ()) -> Form:
        """Return the two-dimensional form of a call of the function ``name``; ``abs`` is written as bars, and keywords
        with the value None are left out.
        """
        if name == "abs":
            return prettyForm(*args[0].parens("|", "|"))
        return super().named(name, args, [(key, value) for key, value in keywords if value is not None])

    def write_applied(self, notation: Applied) -> Form:
        """Return the two-dimensional form of an elementwise function that has no name in this package."""
        function = self.parenthesized(self.printer._print(notation.template))
        return self.joined(function, self.parenthesized(self.between(", ", self.arguments(notation.args))))

    def sign_of(self, sign: str) -> str:
        """Return the printed form of ``sign``, a relation such as ``<=``, in Unicode if possible."""
        return {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}.get(sign, sign) if self.is_unicode else sign

    def connective(self, name: str) -> str:
        """Return the printed sign of ``and``, ``or`` or ``not``."""
        if not self.is_unicode:
            return {"and": " and ", "or": " or ", "not": "not "}[name]
        return {"and": " ∧ ", "or": " ∨ ", "not": "¬"}[name]

    def cases(self, branches: Sequence[tuple[Any, Any]]) -> Form:
        """Return the two-dimensional form of a choice: ``branches``, pairs of value and condition, below each other
        after a brace.
        """
        widest = max(value.width() for value, _ in branches)
        lines = [self.joined(value, " " * (widest - value.width() + 2), where) for value, where in branches]
        width = max(line.width() for line in lines)
        rows = [prettyForm(*line.right(" " * (width - line.width()))) for line in lines]
        return prettyForm(*prettyForm(*stringPict.stack(*rows)).parens("{", ""))

    def summed(self, indices: Sequence[str], body: Form) -> Form:
        """Return the two-dimensional form of the sum of ``body`` over ``indices``: a sum sign with the indices below
        it, then the body.
        """
        sign = prettyForm(*stringPict(self.sigma).below(", ".join(indices)))
        sign.baseline = 0
        return self.joined(sign, " ", body)

    def delta(self, left: str, right: str) -> Form:
        """Return the two-dimensional form of the Kronecker delta of the indices ``left`` and ``right``."""
        return prettyForm(f"{self.unit}[{left}, {right}]")

    def entry(self, tensor: Any, indices: Sequence[str]) -> Form:
        """Return the two-dimensional form of ``tensor`` with ``indices`` in brackets."""
        return self.joined(self.at(tensor, ATOM), f"[{', '.join(indices)}]")
