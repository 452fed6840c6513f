"""Printing of tensor entries as text, LaTeX and two-dimensional form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from types import FrameType
from typing import Any

from sympy import S, srepr
from sympy.printing.precedence import PRECEDENCE, precedence, precedence_traditional
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.sympy_callers import position_in_formula
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension
from sympy_tensordiff.symbolic.printing.index_printing import show_index
from sympy_tensordiff.symbolic.printing.printed_forms import (
    PrintedForms,
    names_a_point,
    shown_body,
    unlabelled,
)
from sympy_tensordiff.symbolic.printing.repeated_tensors import repeated_tensor
from sympy_tensordiff.symbolic.printing.tensor_printing import softmax_notation
from sympy_tensordiff.symbolic.whole_tensors.einsum import FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import Entrywise, TensorFunction

_ONE_LETTER = re.compile(r"([a-zA-Z]|\\[a-zA-Z]+)(_\{\w+\})?'*")

WRITTEN_LEVELS = 12
"""Entries of deeper operations stay entries."""

WRITTEN_SIZE = 40
"""Entries of comprehensions with more nodes stay entries: the body would be written at each of them."""


class EntryForms(PrintedForms):
    """The printed forms of a tensor entry: ``A[i, j]`` in text, subscripts in LaTeX. An entry of an elementwise
    operation is printed as the operation on entries, ``2*x[i]``.
    """

    def precedence(self, caller: FrameType) -> int:
        """Return the operator precedence of the printed entry: that of multiplication if it is printed as ``2*x[i]``,
        for example, and that of an atom if it is not printed as an operation.

        ``caller`` is the call frame of the SymPy function that asks for it, which tells whether text or a formula is
        printed.
        """
        written = self.of_operands()
        if written is None:
            return super().precedence(caller)
        return int(precedence(written) if position_in_formula(caller) == "text" else precedence_traditional(written))

    def of_operands(self) -> Any | None:
        """Return the formula to print for an entry of an elementwise operation, in entries of its operands:
        ``A[i, j] + B[i, j]`` for ``(A + B)[i, j]``. None if the entry is printed with its indices.
        """
        return None if self.node.tensor.is_symbol else _entry_of_operands(self.node)

    def text(self, printer: Any) -> str:
        """Return the text of a tensor entry."""
        entry = self.node
        if names_a_point(printer):
            return str(srepr(entry))
        if (written := self.of_operands()) is not None:
            return str(shown_body(printer, written))
        indices = ", ".join(show_index(printer, index) for index in entry.indices)
        tensor = printer.parenthesize(entry.tensor, PRECEDENCE["Atom"], strict=True)
        return f"{tensor}[{indices or '()'}]"

    def constructor(self, printer: Any) -> str:
        """Return ``T[i, j]`` with constructor calls for ``T`` and the indices."""
        indices = ", ".join(printer._print(index) for index in self.node.indices)
        return f"{printer._print(self.node.tensor)}[{indices or '()'}]"

    def latex(self, printer: Any) -> str:
        """Return the LaTeX of a tensor entry."""
        if (written := self.of_operands()) is not None:
            return str(shown_body(printer, written))
        base = printer._print(self.node.tensor)
        if not self.node.tensor.is_symbol or "_" in base or "^" in base:
            base = rf"\left({base}\right)"
        indices = [show_index(printer, unlabelled(index)) for index in self.node.indices]
        # Single letters are written side by side; A_{1 2} would read as twelve.
        plain = all(_ONE_LETTER.fullmatch(index) for index in indices)
        return f"{base}_{{{(' ' if plain else ', ').join(indices)}}}"

    def pretty(self, printer: Any) -> Any:
        """Return the two-dimensional form of a tensor entry."""
        if (written := self.of_operands()) is not None:
            return shown_body(printer, written)
        base = printer._print(self.node.tensor)
        if not self.node.tensor.is_symbol:
            base = prettyForm(*base.parens())
        indices: list[Any] = []
        for index in self.node.indices:
            indices += [", " if indices else "[", show_index(printer, unlabelled(index))]
        return prettyForm(*stringPict.next(base, *(indices or "["), "]"), binding=prettyForm.ATOM)


@lru_cache(maxsize=1 << 8)
def _entry_of_operands(entry: Any) -> Any | None:
    """Return the formula to print for an ``entry`` of an elementwise operation, such as ``A[i, j] + B[i, j]`` for ``(A
    + B)[i, j]``, or of a small comprehension. None for entries of other tensors or of deeply nested operations.
    """
    tensor = entry.tensor
    if entry.indices and isinstance(tensor, TensorComprehension) and measures(tensor).size <= WRITTEN_SIZE:
        return tensor.write_out(entry.indices)
    if not isinstance(tensor, Entrywise) or measures(tensor).depth > WRITTEN_LEVELS:
        return None
    if isinstance(tensor, TensorFunction) and softmax_notation(tensor) is not None:
        return None

    def read(operand: Any, indices: Sequence[Any], varying: Any = None) -> Any:
        """Return the entry of ``operand`` at ``indices`` to be printed: for an operation, the formula in the entries of
        its operands. A scalar is returned unchanged. ``varying``, which other functions of this type use, is ignored.
        """
        if not getattr(operand, "shape", ()):
            return operand
        if isinstance(operand, FilledTensor):
            return operand.value
        at = [S.Zero if extent == 1 else index for index, extent in zip(indices, operand.shape, strict=True)]
        found = repeated_tensor(operand)
        if found is not None:
            operand, axes = found
            return read(operand, [at[axis] for axis in axes])
        if isinstance(operand, TensorComprehension) and getattr(operand.body, "is_tensor_entry", False):
            return operand.write_out(tuple(at))  # entries in other places, as of a slice
        own = type(entry)._trusted(operand, at)
        written = None if operand.is_symbol else _entry_of_operands(own)
        return own if written is None else written

    return tensor.entry_of(entry.indices, read)
