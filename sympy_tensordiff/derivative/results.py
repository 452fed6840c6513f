"""Derivatives with respect to several variables as one result."""

from __future__ import annotations

from html import escape
from typing import Any

import sympy


class Derivatives(tuple[Any, ...]):
    """A tuple of derivatives, which Jupyter shows as formulas one below the other."""

    __slots__ = ()

    def _repr_latex_(self) -> str:
        rows = r" \\ ".join(f"&{sympy.latex(entry)}" for entry in self)
        return rf"$\displaystyle \begin{{aligned}}{rows}\end{{aligned}}$"

    def _repr_html_(self) -> str:
        """A table, in which the blocks of a Hessian have rows and columns."""
        rows = (row if isinstance(row, Derivatives) else (row,) for row in self)
        cells = ("".join(f"<td>$\\displaystyle {escape(sympy.latex(part))}$</td>" for part in row) for row in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
