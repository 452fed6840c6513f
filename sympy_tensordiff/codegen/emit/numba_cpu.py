"""Numba on the CPU: a compiled function that calls those of all kernels and of products of matrices in order.

Other calls of a library cannot be compiled: with one among the steps, the driver is Python, and
each kernel a compiled function of its own. A single kernel needs no compiled driver around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.emit.correlations import MARK, TILE, correlation_texts, part_name
from sympy_tensordiff.codegen.emit.correlations import NAMES as TILE_NAMES
from sympy_tensordiff.codegen.emit.driver import (
    Functions,
    header,
    helpers,
    host_driver,
    imports,
    labels,
    module_names,
    passed_names,
    run_text,
    scratch_arrays,
    scratch_text,
)
from sympy_tensordiff.codegen.emit.elementary import ELEMENTARY_NAMES, FUNCTIONS, elementary_functions
from sympy_tensordiff.codegen.emit.forms import Names
from sympy_tensordiff.codegen.emit.helpers import SCALAR_HELPERS
from sympy_tensordiff.codegen.emit.library import LIBRARY_NAMES, library_helpers, library_text
from sympy_tensordiff.codegen.emit.matrix_products import MULTIPLY, MULTIPLY_NAMES, PANELS, product_text
from sympy_tensordiff.codegen.emit.numba_nests import (
    NumbaPrinter,
    block_ends,
    block_name,
    blocks_text,
    function_text,
)
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import (
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Program,
    Scatter,
    Step,
    Table,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.steps import is_compiled_whole
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.cpu import Place
from sympy_tensordiff.codegen.schedule.fusion import fuse
from sympy_tensordiff.codegen.schedule.rows import runs_in_strips
from sympy_tensordiff.codegen.schedule.together import nest_of

PLUS = '''\
def plus(total, term):
    """One more term of a sum; the terms may be added in any order, so that the sum can be vectorised."""
    return total + term'''

AT = '''\
def at(place):
    """A place in an array: without a sign, it is not tested for counting from the end."""
    return np.uint64(place)'''

INLINED = 400
"""Lines of kernels that the driver holds itself; the functions of more are compiled apart.

A function that the driver calls is taken through LLVM twice, alone and with the driver. CPU of first calls in s, apart
and within: loss, gradient and Hessian of a softmax 2.5 and 2.0, the gradient of a logistic regression 1.05 and 0.97.
"""

HELPERS = {name: text for name, text in SCALAR_HELPERS.items() if name not in FUNCTIONS}

OWN_NAMES = frozenset(
    {"njit", "prange", "register_jitable", "types", "intrinsic", "overload", "cgutils", "binding", "ir"}
)
OWN_NAMES |= {"real", "compiled_once", "plus", "at", "panels", *MULTIPLY_NAMES, *TILE_NAMES, *HELPERS, *LIBRARY_NAMES}
OWN_NAMES |= ELEMENTARY_NAMES


def print_program(program: Program, parallel: frozenset[str] = frozenset()) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``.

    ``parallel``: the names of the functions that run on several cores.
    """
    prover = Prover(program)
    program = fuse(program, prover)
    blocks = {block_name(step) for step in program.kernels if function_name(step) in parallel}
    blocks |= {part_name(step) for step in program.kernels if isinstance(step, Correlation)}
    names = module_names(program, OWN_NAMES | blocks)
    decorators = Decorators(program, names)
    functions = Functions()
    made = frozenset(array.name for array in (*program.outputs, *program.temporaries) if not array.shape)

    def values(step: Step) -> frozenset[str]:
        """The arrays of rank 0 of which a step is passed the entry: in a ``prange``, Numba takes no other."""
        return made.difference(filled_arrays(step)) if isinstance(step, Kernel | Fused) else frozenset()

    for step in program.kernels:
        is_block = function_name(step) in parallel
        bare = scalar_arrays(program.arguments) | values(step)
        if isinstance(step, Kernel | Fused):
            local = names.copy()
            place = Place(prover, local.fresh, bare, block=block_ends(local) if is_block else None)
            text = function_text(step, nest_of(step, place), local, place.block)
        elif isinstance(step, Correlation):
            part, whole = correlation_texts(step, names, prover.shapes, is_block)
            text = (decorators.once if is_block else decorators.inner) + part
            text += f"\n\n\n{decorators.of(step, is_block)}{whole}"
        elif isinstance(step, Trapezoid) or decorators.is_whole:
            assert isinstance(step, Contraction | Trapezoid)
            text = product_text(step, names, prover.shapes, is_block)
        else:
            text = library_text(step, program, names)
        decorator = "" if isinstance(step, Correlation) else decorators.of(step, is_block)
        if is_block and isinstance(step, Kernel | Fused):
            text = f"{decorators.once}{text}\n\n\n{decorators.blocks}{blocks_text(step, names, prover)}"
            decorator = ""
        rows = [names(array.name) for array in step.rows] if isinstance(step, Fused) else []
        functions.add(step, text, [*passed_names(step, names), *rows], decorator)
    if decorators.is_whole:
        # Strips are slower within the driver: the row fir took 1.08 times as long.
        strips = [step for step in program.kernels if isinstance(step, Kernel) and runs_in_strips(step, prover)]
        called = {function_name(step) for step in strips if not isinstance(step, Scatter)}
        functions.inline((decorators.kernel, decorators.product), INLINED, called)
    own = (
        (r" = plus\(", decorators.plus, PLUS),
        (r"\bat\(", decorators.inner, AT),
        (r" = panels\(", decorators.inner, PANELS),
        (MARK, "", TILE),
        (r"\bmultiply\(", "", MULTIPLY),
    )
    pieces = [ONCE] if any(text.startswith(decorators.once) for text in functions.texts) else []
    pieces += elementary_functions(functions.texts)
    pieces += helpers(program, NumbaPrinter.functions, HELPERS, decorators.inner)
    pieces += [decorator + text for mark, decorator, text in own if any(re.search(mark, t) for t in functions.texts)]
    if not decorators.is_whole:
        pieces += library_helpers(program.kernels, functions.texts)
    # What NumPy warns of is no news: compiled loops are silent about it.
    has_calls = not all(isinstance(step, Kernel | Fused) for step in program.kernels)
    around = 'with np.errstate(all="ignore"):' if has_calls and not decorators.is_whole else ""
    arrays = scratch_arrays(program, names) if decorators.is_whole else []
    tables = [step for step in program.kernels if isinstance(step, Table)] if arrays else []
    steps = [step for step in program.kernels if step not in tables]
    pieces += functions.called_texts
    for chosen, name in ((steps, "run_in" if arrays else "run"), (tables, "tables")):
        if chosen or name == "run":
            inside = replace(program, kernels=tuple(chosen))
            pieces.append(decorators.run + host_driver(inside, names, functions, around, None, values, arrays, name))
    if arrays:
        pieces.append(decorators.product + scratch_text(program, names, arrays))
        pieces.append(decorators.run + run_text(program, names, arrays, bool(tables)))
    top = [header(program, "numba", names), imports(pieces, decorators.imports(pieces)), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


# ---------------------------------------------------------------------------- how functions are compiled
# What stands before the functions of a module for Numba on the CPU: how each is compiled.


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
        if isinstance(step, Kernel | Fused) or (isinstance(step, Trapezoid) and not is_parallel):
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
