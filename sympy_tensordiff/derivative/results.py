"""Derivatives with respect to several variables as one result."""

from __future__ import annotations

from typing import Any

import sympy


class Derivatives(tuple[Any, ...]):
    """A tuple of derivatives, which Jupyter shows as formulas one below the other."""

    __slots__ = ()

    def _repr_latex_(self) -> str:
        rows = r" \\ ".join(f"&{sympy.latex(entry)}" for entry in self)
        return rf"$\displaystyle \begin{{aligned}}{rows}\end{{aligned}}$"
