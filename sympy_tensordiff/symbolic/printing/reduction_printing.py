"""Printing of sums, products, maxima and minima over index ranges."""

from __future__ import annotations

import sys
from types import FrameType, SimpleNamespace
from typing import Any

from sympy import Ne
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from sympy_tensordiff.symbolic.expressions.sympy_callers import follows_as_factor, position_in_formula
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.printing.index_printing import show_index
from sympy_tensordiff.symbolic.printing.printed_forms import (
    PrintedForms,
    positive_first,
    refuse_unprintable,
    shown_body,
    unlabelled,
)


class ReductionForms(PrintedForms):
    """The printed forms of sums, products, maxima and minima over index ranges: a sign for each range, the outermost
    first.
    """

    def precedence(self, caller: FrameType) -> int:
        """Return the operator precedence of the printed reduction, by which SymPy sets parentheses. In LaTeX it needs
        them unless it is the last factor; in text it looks like a function call. ``caller`` is the call frame of the
        SymPy function that asks.
        """
        return int(PRECEDENCE[{"text": "Atom", "factor": "Add"}.get(position_in_formula(caller), "Mul")])

    def latex(self, printer: Any) -> str:
        """Return the LaTeX of the reduction: its sum, product or extremum signs, then the body."""
        refuse_unprintable(self.node, "LaTeX")
        this = unlabelled(self.node)
        return " ".join([*self._latex_signs(printer, this), self._latex_body(printer, _split_excluded_value(this)[0])])

    def pretty(self, printer: Any) -> Any:
        """Return the two-dimensional form of the reduction for pretty-printing: the sign of a sum, product or extremum,
        then the body.
        """
        refuse_unprintable(self.node, "pretty")
        with positive_first(printer):
            return _LastFactor.of(self._picture(printer, unlabelled(self.node)))

    def _latex_signs(self, printer: Any, this: Any) -> list[str]:
        """Return the LaTeX of the signs of the reduction ``this`` with their ranges, outermost first."""
        raise NotImplementedError

    def _latex_body(self, printer: Any, body: Any) -> str:
        """Return the LaTeX of ``body``, in parentheses if it is a sum."""
        text = str(shown_body(printer, body))
        return rf"\left({text}\right)" if _needs_parentheses(body) else text

    def _picture(self, printer: Any, this: Any) -> Any:
        """Return the pretty form of the reduction ``this``."""
        raise NotImplementedError


class SumForms(ReductionForms):
    """The LaTeX and pretty forms of a sum over index ranges, with one sum sign for each range."""

    _sign = r"\sum"

    def _latex_signs(self, printer: Any, this: Any) -> list[str]:
        """Return the LaTeX of the sum signs of ``this`` with their ranges, outermost first. One excluded value, ``j !=
        i``, is written below the innermost sign.
        """
        signs = []
        unequal = _split_excluded_value(this)[1]
        for index, low, high in reversed(this.limits):
            first = f"{printer._print(index)}={show_index(printer, low)}"
            if unequal is not None and index == this.limits[0][0]:  # under the innermost sign
                first += rf",\, {printer._print(unequal)}"
            signs.append(rf"{self._sign}_{{{first}}}^{{{show_index(printer, high)}}}")
        return signs

    def _latex_body(self, printer: Any, body: Any) -> str:
        """Return the LaTeX of ``body``. A `Piecewise` that is 1 where a condition is true, else 0, is written as this
        condition in brackets.
        """
        if body.is_Piecewise and len(body.args) == 2 and body.args[1] == (0, True) and body.args[0].expr == 1:
            # What counts has no lines: often it is the denominator of a fraction.
            return rf"\left[{printer._print(body.args[0].cond)}\right]"
        return super()._latex_body(printer, body)

    def _picture(self, printer: Any, this: Any) -> Any:
        """Return the pretty form of the sum ``this``, with SymPy's sum signs."""
        return printer._print_Sum(this)


class ProductForms(SumForms):
    """The LaTeX and pretty forms of a product over index ranges, with one product sign for each range."""

    _sign = r"\prod"

    def _picture(self, printer: Any, this: Any) -> Any:
        """Return the two-dimensional picture (SymPy's pretty form) of the product ``this`` over a range, with SymPy's
        product sign.
        """
        # SymPy leaves out the parentheses, without which only the first term belongs to the product.
        return printer._print_Product(SimpleNamespace(term=_PrintedBody(this.body), limits=this.limits))


class ExtremumForms(ReductionForms):
    """The LaTeX and pretty forms of a maximum or minimum over index ranges: the word ``max`` or ``min`` with all ranges
    below it.
    """

    @property
    def _word(self) -> str:
        """Return the name of the extremum, ``max`` or ``min``."""
        return "max" if isinstance(self.node, IndexedMax) else "min"

    def _latex_signs(self, printer: Any, this: Any) -> list[str]:
        r"""Return a list with one text: ``\max`` or ``\min`` in LaTeX with all ranges of the reduction as its
        subscript. ``this`` is the indexed maximum or minimum; ``printer`` is SymPy's.
        """
        below = []
        for low, index, sign, high in _ranges(printer, this):
            below.append(rf"{low} \le {index} {_LATEX[sign]} {high}")
        ranges = r",\, ".join(below)
        # The texts below two adjacent words would touch.
        space = r" \;" if isinstance(this.body, IndexedMax | IndexedMin) else ""
        return [rf"\{self._word}_{{{ranges}}}{space}"]

    def _picture(self, printer: Any, this: Any) -> Any:
        """Return the pretty form of the extremum ``this``: the word with all ranges below it, and the body."""
        body = printer._print(_PrintedBody(this.body))
        signs = {"<": " < ", "<=": " ≤ " if printer._use_unicode else " <= "}
        ranges: list[Any] = []
        for low, index, sign, high in _ranges(printer, this):
            ranges += [", " if ranges else "", low, signs["<="], index, signs[sign], high]
        word = prettyForm(self._word)
        word = prettyForm(*word.below(stringPict(*stringPict.next(*ranges))))
        word.baseline = 0
        return prettyForm(*word.right(" ", body), binding=prettyForm.MUL)


_LATEX = {"<": "<", "<=": r"\le"}


def _ranges(printer: Any, this: Any) -> list[tuple[Any, Any, str, Any]]:
    """Return ``(start, index, sign, end)`` for each range of the reduction ``this``, outermost first, as printed forms.
    A range ``0 <= k <= n - 1`` gives the sign ``<`` and the end ``n``; other ranges keep ``<=``.
    """
    found = []
    for index, low, high in reversed(this.limits):
        sign = "<" if high.is_Add and high.as_coeff_Add()[0] == -1 else "<="
        end = high + 1 if sign == "<" else high
        found.append((show_index(printer, low), printer._print(index), sign, show_index(printer, end)))
    return found


def _split_excluded_value(this: Any) -> tuple[Any, Any]:
    """Return ``(body, condition)`` if the sum ``this`` leaves out one value of its index by a condition ``i != j``;
    ``(whole body, None)`` for any other reduction.
    """
    body = this.body
    if isinstance(this, IndexedSum) and body.is_Piecewise:
        cases = body.args
        if len(cases) == 2 and cases[1] == (0, True) and isinstance(cases[0].cond, Ne) and cases[0].expr != 1:
            left, right = cases[0].cond.args
            turned = Ne(right, left, evaluate=False) if right == this.limits[0][0] else cases[0].cond
            return cases[0].expr, turned
    return body, None


class _PrintedBody:
    """The body behind a sum sign, in a form for SymPy's pretty printer: it gets parentheses if it is a sum or starts
    with a minus.
    """

    def __init__(self, body: Any) -> None:
        self.body = body

    def _pretty(self, printer: Any) -> Any:
        """SymPy's hook for pretty printing: return the body, in parentheses where needed."""
        form = printer._print(self.body)
        return prettyForm(*form.parens()) if _needs_parentheses(self.body) else form


class _LastFactor(prettyForm):
    """A pretty form of a reduction whose precedence (`binding`) depends on its place in a product: that of an addition
    if another factor follows, so that it gets parentheses, else that of a product.
    """

    @classmethod
    def of(cls, form: Any) -> Any:
        """Return SymPy's pretty form ``form`` as an object of this class, which gets parentheses in a product unless it
        is the last factor.
        """
        return cls("\n".join(form.picture), form.baseline)

    @property
    def binding(self) -> int:
        """Return the precedence of the printed sum, by which SymPy's pretty printer sets parentheses: that of an
        addition if another factor follows in a product, else that of a product.
        """
        # As for LaTeX: only the product knows the position of the factor.
        return int(prettyForm.ADD if follows_as_factor(self, sys._getframe(1)) else prettyForm.MUL)

    @binding.setter
    def binding(self, value: int) -> None:
        """Ignore ``value``, to which SymPy's constructor sets the attribute: this property computes its value."""


def _needs_parentheses(body: Any) -> bool:
    """Return whether ``body`` needs parentheses behind a sum sign: it is a sum, or a product that starts with a
    minus.
    """
    return bool(body.is_Add or (body.is_Mul and body.could_extract_minus_sign()))
