"""What stands before the functions of a module for Numba on the CPU: how each is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.loops import Fused, Kernel, Program, Step
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.steps import is_compiled_whole

# Contraction (fused multiply-add) and ignored signs of zero keep nan and inf. Reassociation, finite-math
# and reciprocals do not keep results near the limits of the number range: they stay off.
FLAGS = 'error_model="numpy", fastmath={"contract", "nsz"}'

ONCE = f'''\
def compiled_once(function):
    """A function that Numba compiles once, however the functions around it are compiled."""
    function.compiled = njit(no_cfunc_wrapper=True, no_cpython_wrapper=True, {FLAGS})(function)
    function._numba_type_ = types.Dispatcher(function.compiled)
    return function'''
"""For functions within a loop on several cores: of others Numba takes the loop and what is around it as two callers."""


class Decorators:
    """What stands before the functions of a module.

    A function that is compiled only within others has no entry of its own from Python, which would take as long to
    compile as a small kernel does: called from Python, it runs as Python.
    """

    def __init__(self, program: Program, names: Names) -> None:
        self.is_whole = is_compiled_whole(program)
        # Numba's cache does not know what the functions of the user's are: their code would be mistaken for others'.
        # Nor does it find their modules again, which have other names in every process.
        # None is called from C, for which Numba compiles a third entry that nobody asked for.
        entry = f"@njit({'' if names.functions else 'cache=True, '}nogil=True, no_cfunc_wrapper=True, "
        within = "@register_jitable(no_cfunc_wrapper=True, "
        outer = within if self.is_whole else entry
        self.kernel = f"{outer}{FLAGS})\n"
        self.blocks = f'{outer}error_model="numpy", parallel=True)\n'
        self.product = f'{within}error_model="numpy")\n' if self.is_whole else ""
        self.inner = f"{within}{FLAGS})\n"
        self.once = "@compiled_once\n"
        self.plus = f'{within}{FLAGS[:-1]}, "reassoc"}})\n'
        self.run = f"{entry}{FLAGS})\n" if self.is_whole else ""

    def of(self, step: Step, is_parallel: bool) -> str:
        """What stands before the function of a step."""
        if isinstance(step, Kernel | Fused):
            return self.kernel
        return self.blocks if is_parallel else self.product

    def imports(self, pieces: Sequence[str]) -> str:
        """The lines that import the decorators and what the texts call."""
        text = "\n".join(pieces)
        marks = (("njit", "njit("), ("prange", "prange("), ("types", "types."))
        found = {
            "numba": [name for name, mark in marks if mark in text],
            "numba.extending": [
                name
                for name in ("intrinsic", "lower_builtin", "overload", "register_jitable", "type_callable")
                if f"@{name}" in text or f"{name}(" in text
            ],
            "numba.core": ["cgutils"] if "cgutils." in text else [],
            "llvmlite": [name for name in ("binding", "ir") if f" {name}." in text],
        }
        return "\n".join(f"from {module} import {', '.join(names)}" for module, names in found.items() if names)
