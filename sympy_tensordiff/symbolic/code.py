"""SymPy's code printers: they know no ranges, guards and shapes, so they are refused with the way to ours.

A printer asks the node for a method of its own name first. `sympy.lambdify` prints code, too.
"""

from __future__ import annotations

from typing import Any

from sympy import Symbol

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.printing import short

# ``printmethod`` of every printer of SymPy that does not write for people.
METHODS = (
    *("_pythoncode", "_numpycode", "_cupycode", "_jaxcode", "_mpmathcode", "_cmathcode", "_lambdacode"),
    *("_numexprcode", "_tensorflowcode", "_torchcode", "_theano", "_aesara", "_llvmcode", "_ccode", "_cxxcode"),
    *("_fcode", "_rust_code", "_glsl", "_javascript", "_julia", "_octave", "_maple", "_mcode", "_rcode", "_smtlib"),
    *("_mathml_content", "_mathml_presentation"),
)


def print_code(node: Any, printer: Any, *args: Any, **options: Any) -> Any:
    """The name of a variable of rank 0, which is a number; everything else raises."""
    if node.is_symbol and not node.is_tensor_entry and node.rank == 0 and node in node.free_symbols:
        return printer._print(Symbol(node.name, real=True))
    what = f"the entry of {short(node.tensor)}" if node.is_tensor_entry else f"{short(node)} ({type(node).__name__})"
    raise UnsupportedError(
        f"{type(printer).__name__} of SymPy cannot print {what} as code: evaluate with "
        "td.lambdify(arguments, expression) in place of sympy.lambdify, and read the text of a kernel with "
        "td.generate_code(arguments, expression, backend)"
    )


class NoCode:
    """Mixin of all nodes."""

    is_tensor_entry = False


for _name in METHODS:
    setattr(NoCode, _name, print_code)
