"""Numba on the CPU: one compiled function per kernel and a driver that calls them in order."""

from __future__ import annotations

from sympy_tensordiff.codegen.loops import Kernel, Program
from sympy_tensordiff.codegen.printers.base import FormPrinter, Names
from sympy_tensordiff.codegen.printers.nests import (
    HELPERS,
    INDENT,
    NestPrinter,
    header,
    helpers,
    program_names,
    shape_text,
    sizes_text,
)
from sympy_tensordiff.codegen.walk import uses

# Contraction (fused multiply-add) and ignored signs of zero keep nan and inf. Reassociation, finite-math
# and reciprocals do not keep results near the limits of the number range: they stay off.
DECORATOR = '@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})'

OWN_NAMES = frozenset({"math", "np", "njit", "real", "run", "ARGUMENTS", *HELPERS})


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``."""
    functions = [f"fill_{kernel.array}" for kernel in program.kernels]
    names = Names(program_names(program), OWN_NAMES | set(functions))
    imports = "import math\n\nimport numpy as np\nfrom numba import njit"
    pieces = ["\n".join(header(program, "numba", names)[:-2]), imports, header(program, "numba", names)[-1] + "\n"]
    pieces += [text.strip("\n") + "\n" for text in helpers(program, NestPrinter.functions, DECORATOR)]
    pieces += [_kernel(kernel, program, names) + "\n" for kernel in program.kernels]
    pieces.append(_driver(program, names))
    return "\n\n".join(pieces).replace("\n\n\n\n", "\n\n\n") + "\n"


def _parameters(kernel: Kernel) -> list[str]:
    used = uses(kernel)
    return list(dict.fromkeys([kernel.array, *used.arrays, *used.scalars, *used.integers]))


def _kernel(kernel: Kernel, program: Program, names: Names) -> str:
    printer = NestPrinter(names, kernel, program)
    array = names(kernel.array)
    entry = f"{array}[{', '.join(map(names, kernel.axes))}]" if kernel.axes else array
    printer.line(0, DECORATOR)
    printer.line(0, f"def fill_{kernel.array}({', '.join(map(names, _parameters(kernel)))}):")
    printer.line(1, f'"""Fill {entry}."""')
    printer.line(1, f"real = {array}.dtype.type")
    for axis, name in enumerate(kernel.axes):
        printer.line(1 + axis, f"for {names(name)} in range({array}.shape[{axis}]):")
    printer.body(kernel.body, 1 + len(kernel.axes))
    return "\n".join(printer.lines)


def _driver(program: Program, names: Names) -> str:
    parameters = [a.name for a in program.arguments] + [a.name for a in program.outputs]
    lines = [f"def run({', '.join(map(names, parameters))}):"]
    lines.append(INDENT + f'"""Fill {", ".join(names(a.name) for a in program.outputs)}."""')
    lines += [INDENT + line for line in sizes_text(program, names)]
    first = names(program.outputs[0].name)
    temporaries = {a.name: a for a in program.temporaries}
    for kernel in program.kernels:
        if kernel.array in temporaries:
            shape = shape_text(temporaries[kernel.array].shape, FormPrinter(names))
            lines.append(INDENT + f"{names(kernel.array)} = np.empty({shape}, {first}.dtype)")
        lines.append(INDENT + f"fill_{kernel.array}({', '.join(map(names, _parameters(kernel)))})")
    return "\n".join(lines)
