"""Printers of names, integer forms and conditions as Python text, and of nested blocks of lines."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from sympy_tensordiff.codegen.ir.scalars import Bound, External, MaskedEntry
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Compound, Constraint, Quotient, quotient
from sympy_tensordiff.integer.extrema import Extremum, extrema_in
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import IndexProduct, SymbolicQuotient

CHOICE, OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY, POWER, ATOM = range(10)
"""The precedences of Python's operators, loosest first."""

RESERVED = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins))
"""Names that no variable of a generated module may take."""


class FormNames:
    """The identifiers of one generated module. Called with a name of the program, it returns the identifier: the same
    name, with underscores appended if it is taken in the module.
    """

    def __init__(self, names: Iterable[str], own: Iterable[str]) -> None:
        self._below: FormNames | None = None
        taken = self._taken = set(own) | RESERVED
        self._text: dict[str, str] = {}
        self.functions: dict[External, str] = {}
        self.texts: set[str] = set()
        """The texts of all names of arrays, scalars, loops and functions of the program, in all copies."""
        for name in dict.fromkeys(names):
            if not name.isidentifier() or not name.isascii():
                raise VerificationError(f"{name!r} is not an identifier")
            text = self.spelled(name)
            while text in taken:
                text += "_"
            taken.add(text)
            self._text[name] = text
            self.texts.add(text)

    def spelled(self, name: str) -> str:
        """Return a program name as an identifier of the target language; here unchanged."""
        return name

    def copy(self) -> FormNames:
        """Return a copy of these names, so that names reserved in it do not affect this object."""
        result = type(self)((), ())
        result._below = self
        result.functions, result.texts = self.functions, self.texts
        return result

    def has(self, text: str) -> bool:
        """Return whether ``text`` is in use, in the program or in the module."""
        here = text in self._taken or text in self._text
        return here or (self._below is not None and self._below.has(text))

    def add_function(self, external: External) -> None:
        """Choose a name for a user's function, such as ``g``, or for a derivative of it, such as ``g_1`` or
        ``g_01``.
        """
        orders = "_" + "".join(map(str, external.orders)) if any(external.orders) else ""
        word = re.sub(r"[^A-Za-z0-9_]", "_", external.name).strip("_") or "f"
        self.functions[external] = self.fresh(("f" if word[0].isdigit() else "") + word + orders)
        self.texts.discard(self.functions[external])

    def fresh(self, wish: str) -> str:
        """Return an unused name, ``wish``, ``wish_1``, ``wish_2``, …, and reserve it."""
        wish = self.spelled(wish)
        text, number = wish, 0
        while self.has(text):
            number += 1
            text = f"{wish}_{number}"
        self._taken.add(text)
        self._text[text] = text
        self.texts.add(text)
        return text

    def __call__(self, name: str) -> str:
        text = self._text.get(name)
        if text is not None:
            return text
        if self._below is None:
            raise VerificationError(f"{name!r} is used, but not defined")
        return self._below(name)


class FormPrinter:
    """Prints integer forms and conditions as Python; ``replace`` maps some variables to other texts."""

    conjunction: ClassVar[str] = " and "
    choice: ClassVar[str] = "{1} if {0} else {2}"
    """A conditional expression of a condition, the value if it holds, and the value otherwise."""
    absolute: ClassVar[str] = "abs({0})"

    def __init__(self, names: FormNames, replace: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.replace = dict(replace or {})

    def variable(self, name: str) -> str:
        """Return the text of the integer variable ``name``: its replacement in `replace` if there is one, else its
        identifier.
        """
        return self.replace[name] if name in self.replace else self.names(name)

    def data(self, entry: IndirectIndex) -> str:
        """Return the text of an entry of an integer array."""
        name = self.names(entry.tensor)
        return f"{name}[{', '.join(self.form(form) for form in entry.index)}]" if entry.index else name

    def integer(self, entry: IndirectIndex) -> str:
        """Return the text of an entry of an integer array. For a `MaskedEntry`, it is a choice: the entry where its
        constraints hold, else 0.
        """
        if not isinstance(entry, MaskedEntry):
            return self.data(entry)
        return f"({self.choice.format(self.conditions(entry.inside), self.data(entry), 0)})"

    def form(self, form: Affine, level: int = CHOICE) -> str:
        """Return ``form`` as text, positive terms first, in parentheses if its precedence is below ``level``."""
        return self._total(*extrema_in(form), level)

    def _total(self, form: Affine, extrema: Sequence[Extremum], level: int = CHOICE) -> str:
        """Return the text of the sum of an affine form and `extrema` (maxima and minima with coefficients), in
        parentheses if its precedence is below ``level``.
        """
        parts: list[tuple[Any, int]] = [*form.terms, *((extremum, extremum.coefficient) for extremum in extrema)]
        terms = sorted(parts, key=lambda term: term[1] < 0)
        text = ""
        for variable, coefficient in terms:
            sign = " - " if coefficient < 0 else " + "
            text += sign + self._term(variable, abs(coefficient), first_negative=coefficient < 0 and not text)
        if form.constant or not text:
            text += f" - {-form.constant}" if form.constant < 0 else f" + {form.constant}"
        negative = text.startswith(" - ")
        text = ("-" if negative else "") + text[3:]
        pieces = len(terms) + bool(form.constant)
        own = SUM if pieces > 1 else UNARY if negative else ATOM
        if (
            own == ATOM
            and terms
            and (terms[0][1] != 1 or isinstance(terms[0][0], IndexProduct | Quotient | SymbolicQuotient))
        ):
            own = PRODUCT
        return f"({text})" if own < level else text

    def _term(self, variable: str | Compound | Extremum, factor: int, first_negative: bool) -> str:
        """Return ``factor*variable``, one term of an affine form without its sign, as text. If it is the first term and
        a minus sign precedes it (`first_negative`), a quotient ``a//b`` is in parentheses.
        """
        if isinstance(variable, Extremum):
            text = self.extremum(variable)
            return text if factor == 1 else f"{factor}*{text}"
        if isinstance(variable, IndexProduct):
            numbers = [str(factor)] if factor != 1 else []
            return "*".join([*numbers, *(self.form(Affine.variable(f), UNARY) for f in variable.factors)])
        if not isinstance(variable, Quotient | SymbolicQuotient):
            name = self.integer(variable) if isinstance(variable, IndirectIndex) else self.variable(str(variable))
            return name if factor == 1 else f"{factor}*{name}"
        text = f"{self.form(variable.form, POWER)}//{self.form(Affine.of(variable.divisor), POWER)}"
        # A sign binds more tightly than a division that rounds down.
        return f"{factor}*({text})" if factor != 1 else f"({text})" if first_negative else text

    def extremum(self, extremum: Extremum) -> str:
        """Return the text of ``extremum``: ``max(a, b)`` or ``min(a, b)`` of two integers, or an absolute value."""
        if extremum.function == "abs":
            return self.absolute.format(self.form(extremum.one))
        return self.integers(extremum.function, [self.form(extremum.one), self.form(extremum.other)])

    def integers(self, function: str, texts: Sequence[str]) -> str:
        """Return the text of the maximum (``function`` "max") or minimum ("min") of the integers with the given
        ``texts``.
        """
        return f"{function}({', '.join(texts)})"

    def lower(self, bounds: Iterable[Bound]) -> str:
        """Return the text of the first value of a loop: the maximum of its lower bounds."""
        return self.extreme("max", [quotient(b.form + (b.divisor - 1), b.divisor) for b in bounds])

    def stop(self, bounds: Iterable[Bound]) -> str:
        """Return the text of the end of a loop: one more than the minimum of its upper bounds."""
        return self.extreme("min", [quotient(b.form, b.divisor) + 1 for b in bounds])

    def extreme(self, function: str, forms: Iterable[Affine]) -> str:
        """Return the text of the maximum (``function`` "max") or minimum ("min") of ``forms``; constants are folded."""
        forms = list(dict.fromkeys(forms))
        constants = [f.constant for f in forms if f.is_constant]
        texts = [self.form(f) for f in forms if not f.is_constant]
        if constants:
            texts.insert(0, str(max(constants) if function == "max" else min(constants)))
        return texts[0] if len(texts) == 1 else self.integers(function, texts)

    def conditions(self, rows: Iterable[Constraint]) -> str:
        """Return the conjunction of the constraints ``rows`` as text; "" for none."""
        return self.conjunction.join(map(self.condition, rows))

    def condition(self, row: Constraint) -> str:
        """Return the condition ``row`` as the text of a comparison."""
        if row.kind == "mod":
            return f"{self.form(row.form, PRODUCT + 1)} % {row.modulus} == 0"
        form, extrema = extrema_in(row.form)
        left = Affine({v: c for v, c in form.terms if c > 0}), [e for e in extrema if e.coefficient > 0]
        right = Affine({v: -c for v, c in form.terms if c < 0}), [_opposite(e) for e in extrema if e.coefficient < 0]
        constant = form.constant
        only_right = left[0].is_constant and not left[1]
        if row.kind == "eq":
            if only_right:
                left, right, constant = right, left, -constant
            return f"{self._total(*left)} == {self._total(right[0] - constant, right[1])}"
        if only_right:
            return f"{self._total(*right)} <= {self.form(left[0] + constant)}"
        if constant < 0 and (right[1] or not right[0].is_constant):
            return f"{self._total(*left)} > {self._total(right[0] - (constant + 1), right[1])}"
        return f"{self._total(*left)} >= {self._total(right[0] - constant, right[1])}"


def tuple_text(texts: Iterable[str]) -> str:
    """Return a tuple as text."""
    texts = list(texts)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _opposite(extremum: Extremum) -> Extremum:
    """Return the maximum or minimum ``extremum`` with the opposite coefficient, for printing after a minus sign."""
    return extremum._replace(coefficient=-extremum.coefficient)


# ---------------------------------------------------------------------------- text of nested blocks
# Text of nested blocks, with slots that are filled later.


INDENT = "    "


class TextBlock:
    """A block of generated code: lines with one indentation, nested blocks, and placeholders that are filled later."""

    def __init__(self) -> None:
        self._items: list[str | tuple[str, TextBlock] | TextBlock] = []

    def line(self, text: str) -> None:
        """Append one line of code to the block."""
        self._items.append(text)

    def child(self, head: str) -> TextBlock:
        """Append ``head`` and an indented block below it; return the block."""
        inner = TextBlock()
        self._items.append((head, inner))
        return inner

    def slot(self, lines: TextBlock | None = None) -> TextBlock:
        """Append the block ``lines`` at the same indentation, or an empty block, and return it, so that lines can be
        inserted there later.
        """
        inner = TextBlock() if lines is None else lines
        self._items.append(inner)
        return inner

    def render(self, depth: int = 0) -> list[str]:
        """Return all lines of this text block as text lines, indented by ``depth`` levels or more; an empty block
        becomes ``pass``.
        """
        lines: list[str] = []
        for item in self._items:
            if isinstance(item, str):
                lines.append(INDENT * depth + item if item else item)
            elif isinstance(item, TextBlock):
                lines += item.render(depth)
            else:
                head, inner = item
                lines += [INDENT * depth + head, *(inner.render(depth + 1) or [INDENT * (depth + 1) + "pass"])]
        return lines
