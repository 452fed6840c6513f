"""CUDA through ``numba.cuda``: one thread per entry, also of the parts of long sums.

No locks: every entry is written by the thread it belongs to. Only a scatter, where data select the entries, has
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.loops import (
    Apply,
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Product,
    Program,
    Scatter,
    Statement,
)
from sympy_tensordiff.codegen.printers.cuda_driver import (
    LAUNCH,
    LAUNCH_NAMES,
    compute_text,
    device_names,
    run_text,
)
from sympy_tensordiff.codegen.printers.cuda_library import (
    IMPORT,
    library_lines,
    library_pieces,
    require_library,
)
from sympy_tensordiff.codegen.printers.cuda_library import OWN_NAMES as LIBRARY_NAMES
from sympy_tensordiff.codegen.printers.cuda_parts import in_stages
from sympy_tensordiff.codegen.printers.cuda_threads import CudaPrinter, Shapes
from sympy_tensordiff.codegen.printers.driver import (
    header,
    helpers,
    imports,
    labels,
    module_names,
    passed_names,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.printers.helpers import CUDA_HELPERS
from sympy_tensordiff.codegen.schedule.cuda import thread_nest
from sympy_tensordiff.codegen.schedule.verify import NestLaws
from sympy_tensordiff.codegen.steps import calls_in_loops
from sympy_tensordiff.codegen.walk import array_shapes, function_name, uses
from sympy_tensordiff.integer.affine import Affine

OWN_NAMES = LAUNCH_NAMES | LIBRARY_NAMES | {"cuda", "uint64", "real", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS}


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    calls: dict[str, Product | Apply] = {step.array: step for step in program.kernels if isinstance(step, Contraction)}
    stages = in_stages(calls_in_loops(program))
    program = stages.program
    own = {f"library_{function_name(step)}" for step in program.kernels} | device_names(program)
    names = module_names(program, OWN_NAMES | own)
    shapes = array_shapes(program)
    pieces = helpers(program, CudaPrinter.functions, CUDA_HELPERS, "@cuda.jit(device=True)\n")
    passed: dict[str, list[str]] = {}
    for step in program.kernels:
        if not isinstance(step, Kernel):
            assert not isinstance(step, Fused | Correlation)
            require_library(step)
            calls[step.array] = step
            continue
        passed[function_name(step)] = passed_names(step, names, _extents(step, shapes))
        pieces.append(_kernel(step, shapes, names, passed[function_name(step)]))
    pieces.append(LAUNCH.strip("\n"))
    pieces += library_pieces(list(calls.values()), program, names) if calls else []
    by_library = {array: library_lines(step, names, shapes) for array, step in calls.items()}
    pieces += [compute_text(stages, names, passed, by_library), run_text(program, names)]
    last = f"from numba import cuda{', uint64' * any('uint64(' in piece for piece in pieces)}"
    last += f"\n{IMPORT.rstrip()}" if calls else ""
    top = [header(program, "cuda", names), imports(pieces, last), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _extents(kernel: Kernel, shapes: Shapes) -> list[Affine]:
    """What tells where entries stand, and which threads have one."""
    arrays = (kernel.array, *uses(kernel).arrays)
    return [*kernel.box(shapes), *(extent for array in arrays for extent in shapes[array][1:])]


def _check(kernel: Kernel, nest: Sequence[Statement], shapes: Shapes) -> None:
    """Raise `VerificationError` where a nest breaks a law: among others, no two threads write one entry."""
    used, is_scatter = uses(kernel), isinstance(kernel, Scatter)
    sizes = {str(name) for extent in _extents(kernel, shapes) for name in extent.atoms()}
    known = {*used.scalars, *used.integers, *used.arrays, *sizes, *([kernel.array] if is_scatter else [])}
    # What scatters add to an entry is added atomically, or laws of their own say that they do not meet.
    totals = [kernel.array] if is_scatter else []
    NestLaws(known, [kernel.array], totals=totals).check(nest)


def _kernel(kernel: Kernel, shapes: Shapes, names: Names, parameters: Sequence[str]) -> str:
    printer = CudaPrinter(names, kernel, shapes)
    printer.line(0, f"@cuda.jit\ndef {function_name(kernel)}({', '.join(parameters)}):")
    what = "thread per point" if isinstance(kernel, Scatter) else "thread per entry"
    printer.line(1, f'"""{task_text(kernel, names)}, one {what}."""')
    printer.line(1, f"real = {names(kernel.array)}.dtype.type")
    nest = thread_nest(kernel, kernel.box(shapes))
    _check(kernel, nest, shapes)
    printer.threads(nest)
    return "\n".join(without_unused_real(printer.lines))
