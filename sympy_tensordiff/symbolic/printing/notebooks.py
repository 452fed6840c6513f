"""Formulas in notebooks of SymPy's own scalars, such as a product of two sums of this package.

A scalar result is often a `Mul` or `Add` of SymPy, whose method for notebooks knows nothing of parts. IPython asks the
functions that are registered for a class before it asks such methods, so a function for `Expr` is registered. It leaves
all expressions to SymPy that contain neither a node of this package nor SymPy's own index notation.
"""

from __future__ import annotations

import sys
from typing import Any

from sympy import Expr, Indexed, KroneckerDelta

from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.base import TensorNode
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in


def formula(expr: Any) -> str | None:
    """Return the LaTeX in ``$`` that notebooks show for ``expr``: by `td.latex` for a scalar with index notation or
    with nodes of this package, else by the expression's own method.

    Return None if `sympy.init_printing` has turned LaTeX off.
    """
    own = expr._repr_latex_
    is_scalar = not isinstance(expr, TensorNode) and not getattr(expr, "shape", ())
    if is_scalar and any(isinstance(node, (TensorNode, Indexed, KroneckerDelta)) for node in nodes_in([expr])):
        if own.__name__ == "_repr_disabled":
            return None
        try:
            return f"$\\displaystyle {hooks.formula([expr])}$"
        except TensorDiffError:  # a sum of SymPy that cannot be lifted, for example
            pass
    shown: str | None = own()
    return shown


def register() -> None:
    """Register `formula` if the package is imported in a notebook or in another shell of IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/latex"].for_type(Expr, formula)


register()
