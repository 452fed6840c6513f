"""NumPy: interim form, the loops of the Numba printer run by Python."""

from __future__ import annotations

from sympy_tensordiff.codegen.loops import Program
from sympy_tensordiff.codegen.printers import numba_cpu


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``."""
    text = numba_cpu.print_program(program).replace('backend "numba"', 'backend "numpy"')
    return text.replace(numba_cpu.DECORATOR, "").replace("from numba import njit\n", "")
