"""Notations as two-dimensional pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Mul, fraction
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from sympy_tensordiff.symbolic.notation import (
    Applied,
    Call,
    Chain,
    Choice,
    Constant,
    Contraction,
    Diagonal,
    Indicator,
    Leaf,
    Power,
    Product,
    Sum,
)
from sympy_tensordiff.symbolic.notation_latex import TraditionalWriter
from sympy_tensordiff.symbolic.notation_text import (
    ADD,
    ATOM,
    CONTRACTED,
    ELEMENTWISE,
    MUL,
    POW,
    SCALED,
    is_sum,
    with_sums,
)

Form = Any


class PrettyWriter(TraditionalWriter):
    """Pictures; in Unicode or ASCII as the printer says."""

    @property
    def is_unicode(self) -> bool:
        """Whether signs beyond ASCII may be used."""
        return bool(self.printer._use_unicode)

    def parenthesized(self, form: Form) -> Form:
        return prettyForm(*form.parens())

    def concatenated(self, *parts: Any) -> Form:
        """Forms and texts from the left to the right, on one baseline."""
        return prettyForm(*stringPict.next(*parts))

    def between(self, sign: str, forms: Sequence[Form]) -> Form:
        """Forms with a sign between them."""
        parts: list[Any] = [forms[0]]
        for form in forms[1:]:
            parts += [sign, form]
        return self.concatenated(*parts)

    def leaf(self, leaf: Leaf) -> Form:
        return self.printer._print(leaf.node)

    def constant(self, constant: Constant) -> Form:
        name = {"ones": "1", "zeros": "0", "identity": "I"}[constant.name]
        if self.is_unicode and (constant.name != "identity" or len(constant.shape) > 1):
            name = {"1": "𝟙", "0": "𝟘", "I": "𝕀"}[name]
        return prettyForm(name)

    def sum(self, notation: Sum) -> Form:
        parts: list[Any] = []
        for minus, term in notation.terms:
            sign = (" - " if minus else " + ") if parts else "-" if minus else ""
            parts += [sign, self.at(term, ELEMENTWISE if minus else ADD)]
        return self.concatenated(*parts[not parts[0] :])

    def product(self, notation: Product) -> Form:
        over, under = fraction(abs(notation.number) * Mul(*notation.scalars))
        inner = [self.at(item, POW) for item in notation.inner]
        divisors = [divisor.tensor for divisor in notation.divisors]
        front = [] if over == 1 else [self.scalar(over)]
        if notation.factors:
            inner.append(self.joined(notation.factors, CONTRACTED if front or inner else 0))
        below = [] if under == 1 else [self.scalar(under)]
        below += [self.joined(divisors, MUL if below else 0)] if divisors else []
        form = self.between(self.times, [*front, *inner] or [prettyForm("1")])
        if below:
            form = prettyForm(*stringPict.stack(form, stringPict.LINE, self.between(self.times, below)))
        return self.concatenated("-", form) if notation.number.is_negative else form

    @property
    def times(self) -> str:
        """The sign of products."""
        return "⋅" if self.is_unicode else "*"

    def scalar(self, scalar: Any) -> Form:
        """A scalar that something follows."""
        form = self.printer._print(scalar)
        is_open = any(getattr(factor, "is_binder", False) for factor in Mul.make_args(scalar))
        return self.parenthesized(form) if is_open or scalar.is_Add else form

    def joined(self, factors: Sequence[Any], alone: int) -> Form:
        """Factors of an element-wise product; ``alone`` says how tightly a single one has to bind."""
        forms = [self.at(factor, POW if len(factors) > 1 else alone) for factor in factors]
        return self.between("⊙" if self.is_unicode else ".*", forms)

    def level(self, notation: Any) -> int:
        return ATOM if is_sum(notation) else super().level(notation)

    def chain(self, notation: Chain) -> Form:
        first, *rest = with_sums(notation)
        return self.between(self.times, [self.at(first, SCALED if rest else 0), *(self.at(part, MUL) for part in rest)])

    def diagonal(self, notation: Diagonal) -> Form:
        return self.call(Call("diag", (notation.vector,)))

    def power(self, notation: Power) -> Form:
        return self.superscript(notation.base, self.concatenated(self.dot, self.at(notation.exponent, 0)))

    @property
    def dot(self) -> str:
        """The sign of what is done entry by entry, before an exponent."""
        return "⊙" if self.is_unicode else "."

    def superscript(self, base: Any, above: Any) -> Form:
        form = self.at(base, ATOM)
        exponent = stringPict(above) if isinstance(above, str) else above
        top = stringPict(*exponent.left(" " * form.width()))
        return prettyForm(*stringPict(*form.right(" " * exponent.width())).above(top))

    def call(self, notation: Call) -> Form:
        args = self.between(", ", [self.at(arg, 0) for arg in notation.args])
        if notation.name == "abs":
            return prettyForm(*args.parens("|", "|"))
        keywords = [f", {name}={value}" for name, value in notation.keywords if value is not None]
        return self.concatenated(notation.name, self.parenthesized(self.concatenated(args, *keywords)))

    def applied(self, notation: Applied) -> Form:
        function = self.parenthesized(self.printer._print(notation.template))
        args = self.between(", ", [self.at(arg, 0) for arg in notation.args])
        return self.concatenated(function, self.parenthesized(args))

    def indicator(self, notation: Indicator) -> Form:
        left, right = (self.at(side, 0) for side in notation.sides)
        return prettyForm(*self.concatenated(left, f" {self.relation(notation.sign)} ", right).parens("[", "]"))

    def relation(self, sign: str) -> str:
        """The sign of a relation."""
        return {">=": "≥", "<=": "≤"}.get(sign, sign) if self.is_unicode else sign

    def choice(self, notation: Choice) -> Form:
        values = [self.at(value, 0) for value, *_ in notation.branches]
        widest = max(value.width() for value in values)
        lines = []
        for value, (_, *relation) in zip(values, notation.branches, strict=True):
            where: list[Any] = ["otherwise"]
            if relation:
                left, sign, right = relation
                where = ["for ", self.at(left, 0), f" {self.relation(sign)} ", self.at(right, 0)]
            lines.append(self.concatenated(value, " " * (widest - value.width() + 2), *where))
        width = max(line.width() for line in lines)
        rows = [prettyForm(*line.right(" " * (width - line.width()))) for line in lines]
        return prettyForm(*prettyForm(*stringPict.stack(*rows)).parens("{", ""))

    def contraction(self, notation: Contraction) -> Form:
        entries, summed, kept = self.in_entries(notation)
        body = self.between(self.times, entries or [prettyForm("1")])
        if summed:
            sign = prettyForm(*stringPict("∑" if self.is_unicode else "Sum").below(", ".join(summed)))
            sign.baseline = 0
            body = self.concatenated(sign, " ", body)
        if not notation.output:
            return body
        body = prettyForm(*body.parens("[", "]"))
        below = stringPict(", ".join(kept))
        below.baseline = body.baseline - body.height()
        return prettyForm(*body.right(below))

    def entry(self, tensor: Any, indices: Sequence[str]) -> Form:
        if isinstance(tensor, Constant) and tensor.name == "identity":
            delta, half = "δ" if self.is_unicode else "delta", len(tensor.shape)
            pairs = zip(indices[:half], indices[half:], strict=True)
            return self.between(self.times, [prettyForm(f"{delta}[{left}, {right}]") for left, right in pairs])
        return self.concatenated(self.at(tensor, ATOM), f"[{', '.join(indices)}]")
