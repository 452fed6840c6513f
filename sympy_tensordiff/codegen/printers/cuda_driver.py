"""What launches the kernels of a CUDA module, and what moves arrays between host and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Kernel, Program, Scatter
from sympy_tensordiff.codegen.printers import cuda_tiles
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.cuda_tiles import tile_function
from sympy_tensordiff.codegen.printers.driver import Temporaries, run_parameters, shape_text, size_lines, used_arguments
from sympy_tensordiff.codegen.printers.forms import FormPrinter, Names
from sympy_tensordiff.codegen.walk import function_name, uses

LAUNCH = '''
@functools.cache
def launch(shape):
    """The grid and the block for one thread per entry: last axis on x, the one before on y, the others on z."""
    if len(shape) < 2:
        entries = math.prod(shape)
        threads = min(256, fitting(entries))
        return -(-entries // threads), threads
    *outer, rows, columns = shape
    width = min(32, fitting(columns))
    height = min(256 // width, fitting(rows))
    # A grid has at most 65535 blocks along y and z: the kernels stride over what is left.
    grid = -(-columns // width), min(-(-rows // height), 65535), min(math.prod(outer), 65535)
    return grid, (width, height, 1)


def fitting(extent):
    """The least power of two that is not below the extent."""
    return 1 << (extent - 1).bit_length()
'''

LAUNCH_NAMES = frozenset(
    {
        "functools",
        "np",
        "stream",
        "empty",
        "run",
        "compute",
        "launch",
        "fitting",
        "shared",
        "blocks",
        "tiled",
        "tiles",
        "size",
    }
)

# The results' names may have an underscore appended, so that both are kept free.
_DEVICE = ("_device", "__device")


def device_names(program: Program) -> set[str]:
    """What the arrays on the device are called."""
    return {f"{a.name}{tail}" for a in program.outputs for tail in _DEVICE}


def compute_text(
    program: Program,
    names: Names,
    parameters: Mapping[str, Sequence[str]],
    in_blocks: Mapping[str, str],
    in_tiles: Mapping[str, str],
    by_library: Mapping[str, Sequence[str]],
) -> str:
    """The function that launches the kernels.

    ``parameters`` are those of their functions; those that can run in blocks, too, have lengths of their sums, those
    that can run in tiles the numbers of rows, columns and so on.
    ``by_library`` has lines that fill arrays otherwise, instead of kernels where there is the library.
    Where temporaries lie is left to the caller, whose library may have memory at hand.
    """
    temporaries = Temporaries(program, names)
    shapes = Prover(program).shapes
    lines = ['"""Launch the kernels on a stream; all arrays are on the device."""', *size_lines(program, names)]
    read = set(used_arguments(program))
    flat = [a for a in program.arguments if a.name in read] + list(program.outputs)
    lines += [f"{names(a.name)} = {names(a.name)}.reshape(-1)" for a in flat if len(a.shape) > 1]
    for kernel in program.kernels:
        made = None if isinstance(kernel, Scatter) else temporaries.get(kernel.array)
        if made is not None:
            dtype = f"{names(program.outputs[0].name)}.dtype"
            lines.append(f"{names(made.name)} = empty({temporaries.entries(made)}, {dtype}, stream=stream)")
        if not isinstance(kernel, Kernel):
            lines += by_library[kernel.array]
            continue
        printer = FormPrinter(names)
        box = kernel.box(shapes)
        function, shape = function_name(kernel), shape_text(box, printer)
        passed = f"({', '.join(parameters[function])})"
        launch = [f"{function}[(*launch({shape}), stream)]{passed}"]
        if function in in_tiles:
            launch = [*_in_tiles(kernel, names, in_tiles[function], passed), *(INDENT + line for line in launch)]
        if function in in_blocks:
            blocks = [f"blocks = shared({shape}, {in_blocks[function]})", "if blocks:"]
            launch = [*blocks, f"{INDENT}{function}_in_blocks[(*blocks, stream)]{passed}", "else:"] + [
                INDENT + line for line in launch
            ]
        # A grid without blocks cannot be launched.
        unsure = [f"{printer.form(extent)} > 0" for extent in box if not temporaries.is_positive(extent)]
        launch = [f"if {' and '.join(unsure)}:", *(INDENT + line for line in launch)] if unsure else launch
        if not isinstance(kernel, Scatter) and kernel.array in by_library:
            launch = ["if cupy is None:", *(INDENT + line for line in launch)]
            launch += ["else:", *(INDENT + line for line in by_library[kernel.array])]
        lines += launch
    head = f"def compute({', '.join(map(names, run_parameters(program)))}, stream=0, empty=cuda.device_array):"
    return "\n".join([head, *(INDENT + line for line in lines)])


def _in_tiles(kernel: Kernel, names: Names, counts: str, passed: str) -> list[str]:
    """The lines that launch a kernel in tiles, by the bytes of a number, up to the ``else`` for all other calls."""
    lines = [f"size = {names(kernel.array)}.dtype.itemsize"]
    heights = ", ".join(f"{size}: {cuda_tiles.TILING.across * own}" for size, own in cuda_tiles.TILING.rows.items())
    functions = ", ".join(f"{size}: {tile_function(kernel, size)}" for size in cuda_tiles.TILING.rows)
    lines.append(f"tiles = tiled({counts}, {{{heights}}}[size])")
    return [*lines, "if tiles:", f"{INDENT}{{{functions}}}[size][(*tiles, stream)]{passed}", "else:"]


def run_text(program: Program, names: Names) -> str:
    """The function that copies the arguments to the device and the results back."""
    read = {name for kernel in program.kernels for name in uses(kernel).arrays}
    lines = ['"""Fill the arrays behind the arguments, which lie in the memory of the host."""']
    passed = []
    for argument in program.arguments:
        name = names(argument.name)
        if argument.kind == "array" and argument.name in read:
            name = f"cuda.to_device({name if argument.shape else f'np.reshape({name}, 1)'}, stream)"
        passed.append(name)
    outputs = [(names(a.name), bool(a.shape)) for a in program.outputs]
    for name, ranked in outputs:
        shape = f"{name}.shape" if ranked else "1"
        lines.append(f"{name}_device = cuda.device_array({shape}, {name}.dtype, stream=stream)")
    lines.append(f"compute({', '.join([*passed, *(f'{name}_device' for name, _ in outputs)])}, stream)")
    for name, ranked in outputs:
        lines.append(f"{name}_device.copy_to_host({name if ranked else f'{name}.reshape(1)'}, stream)")
    lines += ["if stream:", f"{INDENT}stream.synchronize()"]
    head = f"def run({', '.join(map(names, run_parameters(program)))}, stream=0):"
    return "\n".join([head, *(INDENT + line for line in lines)])
