"""NumPy: every kernel over all entries at once, sums along axes of their own.

A sum of products is an ``einsum`` of two arrays (`products`), any other one is cut into blocks, so
that what is computed on the way has `narrowing.LIMITS` entries at most, or no more than what it is
computed from. Reductions of prefixes are running ones (`prefixes`); another sum whose bounds depend
on the entry runs over the widest range with zeros in between (`zeros`). Where that would read
outside, or be several times the work, it becomes a loop in Python over the widest range, in which
each operation covers the entries for which the index is in bounds.
"""

from __future__ import annotations

from sympy_tensordiff.codegen.emit import narrowing
from sympy_tensordiff.codegen.emit.driver import (
    Functions,
    header,
    host_driver,
    imports,
    labels,
    module_names,
    passed_names,
)
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS
from sympy_tensordiff.codegen.emit.kernels import KernelPrinter
from sympy_tensordiff.codegen.emit.library import LIBRARY_NAMES, library_helpers, library_text
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import Correlation, Fused, Kernel, Program
from sympy_tensordiff.codegen.ir.walk import function_name, scalar_arrays
from sympy_tensordiff.integer.affine import Affine

OWN_NAMES = frozenset({"real", "BLOCK", *NUMPY_HELPERS, *LIBRARY_NAMES})


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``."""
    names = module_names(program, OWN_NAMES)
    prover = Prover(program)
    bare = scalar_arrays(program.arguments)
    functions = Functions()
    extents: dict[str, tuple[Affine, ...]] = {}
    used: set[str] = set()
    has_blocks = False
    for kernel in program.kernels:
        assert not isinstance(kernel, Fused | Correlation)
        if not isinstance(kernel, Kernel):
            functions.add(kernel, library_text(kernel, program, names), passed_names(kernel, names))
            continue
        printer = KernelPrinter(kernel, bare, names.copy(), prover)
        text = printer.print()
        extents[function_name(kernel)] = printer.extents
        functions.add(kernel, text, passed_names(kernel, names, printer.extents))
        used |= printer.values.helpers
        has_blocks |= printer.narrowing.has_blocks
    pieces = [NUMPY_HELPERS[name].strip("\n") for name in sorted(used)]
    pieces += library_helpers(program.kernels, functions.texts) + functions.texts
    pieces.append(host_driver(program, names, functions, 'with np.errstate(all="ignore"):', extents))
    top = [header(program, "numpy", names), imports(pieces, ""), labels(program, names)]
    if has_blocks:
        top.append(f"BLOCK = {narrowing.BLOCK}  # entries that are computed at once where a sum is cut into blocks")
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"
