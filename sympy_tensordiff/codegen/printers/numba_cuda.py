"""CUDA through ``numba.cuda``: one thread per entry, or one block per entry where few of them are long sums.

No locks: every entry is written by the thread it belongs to. Only a scatter, where data select the entries, has
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from sympy_tensordiff.codegen.printers.cuda_blocks import (
    SHARED,
    BlockPrinter,
    combining,
    lengths,
    shared_statements,
    with_joined_sums,
)
from sympy_tensordiff.codegen.printers.cuda_driver import (
    LAUNCH,
    LAUNCH_NAMES,
    Launched,
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
from sympy_tensordiff.codegen.schedule.cuda import COMBINED, THREAD, thread_nest
from sympy_tensordiff.codegen.schedule.verify import NestLaws
from sympy_tensordiff.codegen.steps import calls_in_loops
from sympy_tensordiff.codegen.walk import array_shapes, function_name, uses
from sympy_tensordiff.integer.affine import Affine

OWN_NAMES = LAUNCH_NAMES | LIBRARY_NAMES | {"cuda", "uint64", "real", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS, *COMBINED.values()}


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    calls: dict[str, Product | Apply] = {step.array: step for step in program.kernels if isinstance(step, Contraction)}
    stages = in_stages(calls_in_loops(program))
    program, seconds = stages.program, set(stages.whole.values())
    own = {f"library_{function_name(step)}" for step in program.kernels} | device_names(program)
    names = module_names(program, OWN_NAMES | own)
    shapes = array_shapes(program)
    pieces = helpers(program, CudaPrinter.functions, CUDA_HELPERS, "@cuda.jit(device=True)\n")
    count = len(pieces)
    launched = {}
    for step in program.kernels:
        if not isinstance(step, Kernel):
            assert not isinstance(step, Fused | Correlation)
            require_library(step)
            calls[step.array] = step
            continue
        known = None if step.array in seconds else stages.rounds.get(step.array, {})
        launched[function_name(step)] = _launched(step, shapes, names, pieces, known)
    pieces[count:count] = combining("\n".join(pieces))
    pieces.append(LAUNCH.strip("\n"))
    pieces += [SHARED.strip("\n")] if any(way.blocks for way in launched.values()) else []
    pieces += library_pieces(list(calls.values()), program, names) if calls else []
    by_library = {array: library_lines(step, names, shapes) for array, step in calls.items()}
    pieces += [compute_text(stages, names, launched, by_library), run_text(program, names)]
    last = f"from numba import cuda{', uint64' * any('uint64(' in piece for piece in pieces)}"
    last += f"\n{IMPORT.rstrip()}" if calls else ""
    top = [header(program, "cuda", names), imports(pieces, last), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _extents(kernel: Kernel, shapes: Shapes) -> list[Affine]:
    """What tells where entries stand, and which threads have one."""
    arrays = (kernel.array, *uses(kernel).arrays)
    return [*kernel.box(shapes), *(extent for array in arrays for extent in shapes[array][1:])]


def _launched(
    kernel: Kernel, shapes: Shapes, names: Names, pieces: list[str], known: Mapping[str, Affine] | None
) -> Launched:
    """The functions of one kernel, with a thread and perhaps with a block for each entry; ``pieces`` get their texts.

    ``known`` are the rounds of loops that the host decides on; without them, no block is for one entry.
    """
    parameters = passed_names(kernel, names, _extents(kernel, shapes))
    pieces.append(_kernel(kernel, shapes, names, parameters))
    joined = with_joined_sums(kernel)
    shared = shared_statements(joined) if known is not None else []
    blocks = lengths(joined, shared[0], names, kernel.box(shapes), known) if shared and known is not None else None
    if blocks is not None:
        block, nest = BlockPrinter(names, joined, shapes).print(shared, ", ".join(parameters), blocks[1])
        _check(joined, nest, shapes, THREAD)
        pieces.append(block)
    return Launched(parameters, blocks)


def _check(kernel: Kernel, nest: Sequence[Statement], shapes: Shapes, alone: Sequence[str] = ()) -> None:
    """Raise `VerificationError` where a nest breaks a law: among others, no two threads write one entry."""
    used, is_scatter = uses(kernel), isinstance(kernel, Scatter)
    sizes = {str(name) for extent in _extents(kernel, shapes) for name in extent.atoms()}
    known = {*used.scalars, *used.integers, *used.arrays, *sizes, *([kernel.array] if is_scatter else [])}
    # What scatters add to an entry is added atomically, or laws of their own say that they do not meet.
    totals = [kernel.array] if is_scatter else []
    NestLaws(known, [kernel.array], totals=totals, alone=alone).check(nest)


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
