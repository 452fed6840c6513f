"""What launches the kernels of a CUDA module, and what moves arrays between host and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Kernel, Program, Scatter
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.cuda_parts import Stages
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
    # A block has at most 64 threads along z.
    depth = min(256 // (width*height), 64, fitting(math.prod(outer)))
    # A grid has at most 65535 blocks along y and z: the kernels stride over what is left.
    grid = -(-columns // width), min(-(-rows // height), 65535), min(-(-math.prod(outer) // depth), 65535)
    return grid, (width, height, depth)


def fitting(extent):
    """The least power of two that is not below the extent."""
    return 1 << (extent - 1).bit_length()
'''

LAUNCH_NAMES = frozenset({"functools", "np", "stream", "empty", "run", "run_on_device", "launch", "fitting"})

# The results' names may have an underscore appended, so that both are kept free.
_DEVICE = ("_device", "__device")


def device_names(program: Program) -> set[str]:
    """What the arrays on the device are called."""
    return {f"{a.name}{tail}" for a in program.outputs for tail in _DEVICE}


def compute_text(
    stages: Stages,
    names: Names,
    passed: Mapping[str, Sequence[str]],
    by_library: Mapping[str, Sequence[str]],
) -> str:
    """The function that launches the kernels.

    ``passed`` are the parameters of their functions, by the names of these.
    ``by_library`` has lines that fill arrays otherwise, instead of kernels where there is the library.
    Where temporaries lie is left to the caller, whose library may have memory at hand.
    """
    program = stages.program
    temporaries = Temporaries(program, names)
    shapes = Prover(program).shapes
    lines = ['"""Launch the kernels on a stream; all arrays are on the device."""', *size_lines(program, names)]
    read = set(used_arguments(program))
    flat = [a for a in program.arguments if a.name in read] + list(program.outputs)
    lines += [f"{names(a.name)} = {names(a.name)}.reshape(-1)" for a in flat if len(a.shape) > 1]
    for kernel in program.kernels:
        made = None if isinstance(kernel, Scatter) else temporaries.get(kernel.array)
        new: list[str] = []
        if made is not None:
            dtype = f"{names(program.outputs[0].name)}.dtype"
            new = [f"{names(made.name)} = empty({temporaries.entries(made)}, {dtype}, stream=stream)"]
        whole = stages.whole.get(kernel.array)
        lines += new if whole is None else []
        if not isinstance(kernel, Kernel):
            lines += by_library[kernel.array]
            continue
        printer, box, function = FormPrinter(names), kernel.box(shapes), function_name(kernel)
        grid = f"(*launch({shape_text(box, printer)}), stream)"
        launch = [*(new if whole else []), f"{function}[{grid}]({', '.join(passed[function])})"]
        # A grid without blocks cannot be launched.
        uncertain = [f"{printer.form(extent)} > 0" for extent in box if not temporaries.is_positive(extent)]
        launch = [f"if {' and '.join(uncertain)}:", *(INDENT + line for line in launch)] if uncertain else launch
        if not isinstance(kernel, Scatter) and (whole or kernel.array) in by_library:
            launch = ["if cupy is None:", *(INDENT + line for line in launch)]
            if whole is None:
                launch += ["else:", *(INDENT + line for line in by_library[kernel.array])]
        lines += launch
    head = f"def run_on_device({', '.join(map(names, run_parameters(program)))}, stream=0, empty=cuda.device_array):"
    return "\n".join([head, *(INDENT + line for line in lines)])


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
    lines.append(f"run_on_device({', '.join([*passed, *(f'{name}_device' for name, _ in outputs)])}, stream)")
    for name, ranked in outputs:
        lines.append(f"{name}_device.copy_to_host({name if ranked else f'{name}.reshape(1)'}, stream)")
    lines += ["if stream:", f"{INDENT}stream.synchronize()"]
    head = f"def run({', '.join(map(names, run_parameters(program)))}, stream=0):"
    return "\n".join([head, *(INDENT + line for line in lines)])
