"""CUDA through ``numba.cuda``: one thread per entry, or one block per entry where few of them are long sums.

No locks: every entry is written by the thread it belongs to. Only a scatter, where data select the entries, has
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.in_loops import calls_in_loops
from sympy_tensordiff.codegen.loops import Apply, Contraction, Correlation, Fused, Kernel, Product, Program, Scatter
from sympy_tensordiff.codegen.printers import cuda_tiles
from sympy_tensordiff.codegen.printers.cuda_blocks import (
    COMBINED,
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
from sympy_tensordiff.codegen.printers.cuda_threads import CudaPrinter, Shapes
from sympy_tensordiff.codegen.printers.cuda_tile_printer import TilePrinter
from sympy_tensordiff.codegen.printers.cuda_tile_writers import check_tiles
from sympy_tensordiff.codegen.printers.cuda_tiles import tile_counts, tiled_product, tiled_text
from sympy_tensordiff.codegen.printers.cuda_writers import check_writers
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
from sympy_tensordiff.codegen.walk import array_shapes, function_name, uses
from sympy_tensordiff.integer.affine import Affine

OWN_NAMES = LAUNCH_NAMES | LIBRARY_NAMES | {"math", "cuda", "uint64", "real", "ARGUMENTS", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS, *COMBINED.values()}


def print_program(program: Program) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    calls: dict[str, Product | Apply] = {step.array: step for step in program.kernels if isinstance(step, Contraction)}
    program = calls_in_loops(program)
    names = module_names(program, OWN_NAMES | device_names(program))
    shapes = array_shapes(program)
    pieces = helpers(program, CudaPrinter.functions, CUDA_HELPERS, "@cuda.jit(device=True)\n")
    count = len(pieces)
    parameters = {}
    in_blocks = {}
    in_tiles = {}
    for step in program.kernels:
        if not isinstance(step, Kernel):
            assert not isinstance(step, Fused | Correlation)
            require_library(step)
            calls[step.array] = step
            continue
        parameters[function_name(step)] = passed_names(step, names, _extents(step, shapes))
        pieces.append(_kernel(step, shapes, names, parameters[function_name(step)]))
        written = names(step.array), [names(axis) for axis in step.axes]
        if not isinstance(step, Scatter) or step.exclusive:
            check_writers(pieces[-1], *written)
        joined = with_joined_sums(step)
        shared = shared_statements(joined)
        long = lengths(joined, shared[0], names, step.box(shapes)) if shared else None
        if long is not None:
            in_blocks[function_name(step)] = long
            text = ", ".join(parameters[function_name(step)])
            pieces.append(BlockPrinter(names, joined, shapes).print(shared, text))
            check_writers(pieces[-1], *written, tuple(COMBINED.values()))
        tiled = tiled_product(joined)
        counts = tile_counts(tiled, names, shapes) if tiled else None
        if tiled is not None and counts is not None:
            in_tiles[function_name(step)] = counts
            text = ", ".join(parameters[function_name(step)])
            for size in cuda_tiles.TILING.rows:
                pieces.append(TilePrinter(names, tiled, shapes, size).print(text))
                check_tiles(pieces[-1], written[0], cuda_tiles.TILING.across**2)
    pieces[count:count] = combining("\n".join(pieces))
    pieces += [LAUNCH.strip("\n"), *([SHARED.strip("\n")] if in_blocks else []), *([tiled_text()] if in_tiles else [])]
    pieces += library_pieces(list(calls.values()), program, names) if calls else []
    by_library = {array: library_lines(step, names, shapes) for array, step in calls.items()}
    pieces += [compute_text(program, names, parameters, in_blocks, in_tiles, by_library), run_text(program, names)]
    last = f"from numba import cuda{', uint64' * any('uint64(' in piece for piece in pieces)}"
    last += f"\n{IMPORT.rstrip()}" if calls else ""
    top = [header(program, "cuda", names), imports(pieces, last), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"


def _extents(kernel: Kernel, shapes: Shapes) -> list[Affine]:
    """What tells where entries stand, and which threads have one."""
    arrays = (kernel.array, *uses(kernel).arrays)
    return [*kernel.box(shapes), *(extent for array in arrays for extent in shapes[array][1:])]


def _kernel(kernel: Kernel, shapes: Shapes, names: Names, parameters: Sequence[str]) -> str:
    printer = CudaPrinter(names, kernel, shapes)
    printer.line(0, f"@cuda.jit\ndef {function_name(kernel)}({', '.join(parameters)}):")
    what = "thread per point" if isinstance(kernel, Scatter) else "thread per entry"
    printer.line(1, f'"""{task_text(kernel, names)}, one {what}."""')
    printer.line(1, f"real = {names(kernel.array)}.dtype.type")
    printer.threads()
    return "\n".join(without_unused_real(printer.lines))
