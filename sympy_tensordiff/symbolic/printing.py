"""Text, LaTeX and two-dimensional form of the classes, as a person would write them."""

from __future__ import annotations

from typing import Any


def short(tensor: Any) -> str:
    """A tensor in an error message: its name, or that it is a comprehension."""
    return tensor.name if tensor.is_symbol else f"({tensor})"


def shape(tensor: Any) -> str:
    """The shape of a tensor as Python writes a tuple."""
    return str(tuple(tensor.shape))


def text(self: Any, printer: Any) -> str:
    """What `str` shows."""
    show = printer._print
    if getattr(self, "is_TensorEntry", False):
        return f"{show(self.tensor)}[{', '.join(map(show, self.indices)) or '()'}]"
    if self.is_symbol:
        return str(self.name)
    return f"{type(self).__name__}({', '.join(map(show, self.args))})"


def representation(self: Any, printer: Any) -> str:
    """What `srepr` shows: evaluates to an equal object."""
    show = printer._print
    if getattr(self, "is_TensorEntry", False):
        return f"{show(self.tensor)}[{', '.join(map(show, self.indices)) or '()'}]"
    if self.is_symbol:
        return f"TensorSymbol({self.name!r}, {show(self.args[1])})"
    return f"{type(self).__name__}({', '.join(map(show, self.args))})"


def latex(self: Any, printer: Any) -> str:
    """What `sympy.latex` shows."""
    return text(self, printer)


def pretty(self: Any, printer: Any) -> Any:
    """What `sympy.pretty` shows."""
    from sympy.printing.pretty.stringpict import prettyForm

    return prettyForm(str(self))
