"""Derivatives with respect to several variables as one result."""

from __future__ import annotations

from html import escape
from typing import Any

from sympy_tensordiff.symbolic import hooks
from sympy_tensordiff.symbolic.traversal import named_in


class Derivatives(tuple[Any, ...]):
    """A tuple of derivatives, which Jupyter shows as formulas one below the other."""

    __slots__ = ()

    @property
    def flat(self) -> list[Any]:
        """The derivatives, those of the rows of a Hessian one after the other."""
        return [part for row in self for part in (row if isinstance(row, Derivatives) else (row,))]

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {hooks.formula(self.flat)}$"

    def _repr_html_(self) -> str:
        """A table, in which the blocks of a Hessian have rows and columns; with named parts, whose meaning follows."""
        rows = (row if isinstance(row, Derivatives) else (row,) for row in self)
        table = [[hooks.formula([part]) for part in row] for row in rows]
        if named_in(self.flat):
            table = [[hooks.formula(self.flat)]]
        cells = ("".join(f"<td>$\\displaystyle {escape(part)}$</td>" for part in row) for row in table)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
