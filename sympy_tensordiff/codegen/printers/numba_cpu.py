"""Numba on the CPU: one compiled function per kernel and a driver that calls them in order."""

from __future__ import annotations

from sympy_tensordiff.codegen.loops import Kernel, Program
from sympy_tensordiff.codegen.printers.base import Names
from sympy_tensordiff.codegen.printers.driver import (
    call_text,
    entry_text,
    function_name,
    header,
    helpers,
    host_driver,
    labels,
    module_names,
)
from sympy_tensordiff.codegen.printers.nests import HELPERS, NestPrinter

# Contraction (fused multiply-add) and ignored signs of zero keep nan and inf. Reassociation, finite-math
# and reciprocals do not keep results near the limits of the number range: they stay off.
DECORATOR = '@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})\n'

OWN_NAMES = frozenset({"math", "np", "njit", "real", "run", "ARGUMENTS", *HELPERS})


class NumbaPrinter(NestPrinter):
    """A kernel as a function for ``njit``."""

    functions = NestPrinter.functions | {"floor": "np.floor", "ceil": "np.ceil"}


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``."""
    names = module_names(program, OWN_NAMES)
    top = [
        header(program, "numba", names),
        "import math\n\nimport numpy as np\nfrom numba import njit",
        labels(program),
    ]
    pieces = helpers(program, NumbaPrinter.functions, HELPERS, DECORATOR)
    pieces += [_kernel(kernel, program, names) for kernel in program.kernels]
    pieces.append(host_driver(program, names))
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _kernel(kernel: Kernel, program: Program, names: Names) -> str:
    printer = NumbaPrinter(names, kernel, program)
    array = names(kernel.array)
    printer.line(0, f"{DECORATOR}def {function_name(kernel)}{call_text(kernel, names)}:")
    printer.line(1, f'"""Fill {entry_text(kernel, names)}."""')
    printer.line(1, f"real = {array}.dtype.type")
    for axis, name in enumerate(kernel.axes):
        printer.line(1 + axis, f"for {names(name)} in range({array}.shape[{axis}]):")
    printer.body(kernel.body, 1 + len(kernel.axes))
    return "\n".join(printer.lines)
