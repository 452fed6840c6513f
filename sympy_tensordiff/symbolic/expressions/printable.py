"""The methods of nodes that SymPy's printers call: printed forms, from `printing`, and errors of code printers.

A printer first asks a node for a method of the printer's own name. The folder `printing` has the forms of each class as
text, LaTeX and two-dimensional form. SymPy's code printers know nothing of ranges, guards and shapes, so for them nodes
raise an error that names the functions of this package. `sympy.lambdify` prints code, too.
"""

from __future__ import annotations

import sys
from typing import Any

from sympy import Symbol

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.depth import measures

CODE_METHODS = (
    *("_pythoncode", "_numpycode", "_cupycode", "_jaxcode", "_mpmathcode", "_cmathcode", "_lambdacode"),
    *("_numexprcode", "_tensorflowcode", "_torchcode", "_theano", "_aesara", "_llvmcode", "_ccode", "_cxxcode"),
    *("_fcode", "_rust_code", "_glsl", "_javascript", "_julia", "_octave", "_maple", "_mcode", "_rcode", "_smtlib"),
    *("_mathml_content", "_mathml_presentation"),
)
"""The methods that printers of SymPy ask for, except those that write for people."""


class Printable:
    """The mixin of all nodes with the methods that SymPy's printers call. The printed forms of each class of nodes are
    in the folder `printing`.
    """

    # Properties that return methods: a call of these is one frame less in deep recursions. A class without forms has
    # none of these attributes, so that SymPy prints it by its own rules.
    _sympystr = property(lambda node: hooks.printed_forms(node).text, doc="SymPy's hook for `str`.")
    _sympyrepr = property(lambda node: hooks.printed_forms(node).constructor, doc="SymPy's hook for `srepr`.")
    _latex = property(lambda node: hooks.printed_forms(node).latex, doc="SymPy's hook for LaTeX.")
    _pretty = property(lambda node: hooks.printed_forms(node).pretty, doc="SymPy's hook for pretty printing.")

    @property
    def precedence(self) -> int:
        """Return the operator precedence of the printed form, by which SymPy decides on parentheses."""
        return int(hooks.printed_forms(self).precedence(sys._getframe(1)))

    def __format__(self: Any, spec: str) -> str:
        """Return the text; in messages, an expression too large for one line is named by its class and size."""
        return described(self) if not spec and measures(self).is_unprintable else format(str(self), spec)


def print_code(node: Any, printer: Any, *args: Any, **options: Any) -> Any:
    """SymPy's hook for its code printers: return the name of a scalar variable; for any other node raise
    `UnsupportedError`, which suggests `td.lambdify`.
    """
    if node.is_symbol and not node.is_tensor_entry and node.rank == 0 and node in node.free_symbols:
        return printer._print(Symbol(node.name, real=True))
    what = f"the entry of {short(node.tensor)}" if node.is_tensor_entry else f"{short(node)} ({type(node).__name__})"
    raise UnsupportedError(
        f"{type(printer).__name__} of SymPy cannot print {what} as code: evaluate with "
        "td.lambdify(arguments, expression) in place of sympy.lambdify, and read the text of a kernel with "
        "td.generate_code(arguments, expression, backend)"
    )


for _name in CODE_METHODS:
    setattr(Printable, _name, print_code)


def short(tensor: Any) -> str:
    """Return the text of a tensor for an error message: its name, or an expression in parentheses."""
    return str(tensor.name) if tensor.is_symbol else f"({tensor})"


def described(node: Any, end: str = "") -> str:
    """Return a description of an expression by its class and size, such as ``<EinsumProduct of ..., too much to
    print>``; ``end`` is appended.
    """
    return f"<{type(node).__name__} of {measures(node).described}, too much to print{end}>"
