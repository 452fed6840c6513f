"""Programs as modules for CUDA through ``numba.cuda``: one thread per entry, or blocks of threads that share memory.

There are no locks: each entry is written by one thread. Only scatters whose entries are selected by data use
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.codegen.emit.cuda_library import IMPORT, library_arguments, library_pieces, require_library
from sympy_tensordiff.codegen.emit.cuda_library import OWN_NAMES as LIBRARY_NAMES
from sympy_tensordiff.codegen.emit.cuda_nests import gpu_kernels, kernel_functions
from sympy_tensordiff.codegen.emit.driver import (
    Functions,
    Temporaries,
    module_names,
    module_text,
    run_parameters,
    shape_text,
    size_lines,
)
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY, FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.helpers import CUDA_HELPERS, called_by
from sympy_tensordiff.codegen.emit.library import library_text
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    Correlation,
    FusedKernels,
    Kernel,
    ProductStep,
    Program,
    Recurrence,
    Scatter,
    kernels_of,
)
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name
from sympy_tensordiff.codegen.schedule.blocks import BlockNest
from sympy_tensordiff.codegen.schedule.launches import common_axes, on_device


def print_program(program: Program) -> str:
    """Return the text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    program, whole, products, shared_loops = on_device(program)
    calls: dict[str, ProductStep | Apply] = dict(products)
    own = {f"library_{function_name(step)}" for step in program.kernels} | device_names(program)
    names = module_names(program, OWN_NAMES | own)
    prover = Prover(program)
    shapes = prover.shapes
    functions = Functions(names)
    for step in program.kernels:
        if not isinstance(step, Kernel | FusedKernels):
            require_library(step)
            assert not isinstance(step, Correlation | Recurrence)
            calls[step.array] = step
    steps = [step for step in program.kernels if isinstance(step, Kernel | FusedKernels)]
    kernels = list(gpu_kernels(steps, names, prover, shared_loops))
    for step, printed in zip(steps, kernel_functions(kernels, shapes), strict=True):
        functions.add(step, printed.text, "@cuda.jit\n", printed.arguments, printed.names)
    blocks = {kernel.step.array: kernel.nest for kernel in kernels if isinstance(kernel.nest, BlockNest)}
    table = {name: "@cuda.jit(device=True)\n" + text.strip("\n") for name, text in CUDA_HELPERS.items()}
    pieces = [*called_by(functions.texts, table).values(), *functions.texts, LAUNCH.strip("\n")]
    library = Functions(names)
    for call in calls.values():
        library.add(call, library_text(call, program, names), passed=library_arguments(call, names, shapes))
    pieces += library_pieces(library) if calls else []
    inside = "with of_library(stream):"
    by_library = {array: [inside, f"{INDENT}library_{library(call)}"] for array, call in calls.items()}
    pieces += [compute_text(program, whole, names, functions, by_library, blocks), run_text(program, names)]
    library_import = IMPORT.strip() if calls else ""
    return module_text(program, "cuda", names, pieces, {"numba": ("cuda", "uint64")}, library_import)


# ---------------------------------------------------------------------------- launches and transfers
# The functions of a CUDA module that launch kernels and copy arrays between host and device.


LAUNCH = '''
@functools.cache
def launch(shape):
    """The grid and the block for one thread per entry: last axis on x, the one before on y, the others on z."""
    *outer, rows, columns = (1, 1, *shape)
    outer = math.prod(outer)
    width = columns if columns <= 128 else -(-share(columns, 256 if outer*rows == 1 else 128) // 8)*8
    height = share(rows, 256 // width)
    # A block has at most 64 threads along z.
    depth = share(outer, min(256 // (width*height), 64))
    # A grid has at most 65535 blocks along y and z: the kernels stride over what is left.
    grid = -(-columns // width), min(-(-rows // height), 65535), min(-(-outer // depth), 65535)
    return grid, (width, height, depth)


def share(extent, most):
    """The extent, divided into as many equal pieces as it takes for none to be longer than most."""
    return -(-extent // -(-extent // most))
'''

LAUNCH_NAMES = frozenset({"functools", "np", "stream", "empty", "run", "run_on_device", "launch", "share"})

OWN_NAMES = LAUNCH_NAMES | LIBRARY_NAMES | {"cuda", "uint64", "real", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", *CUDA_HELPERS}

# The results' names may have an underscore appended, so that both are kept free.
_DEVICE = ("_device", "__device")


def device_names(program: Program) -> set[str]:
    """Return the names that the generated module uses for device copies of the outputs."""
    return {f"{a.name}{tail}" for a in program.outputs for tail in _DEVICE}


def compute_text(
    program: Program,
    whole: Mapping[str, str],
    names: FormNames,
    functions: Functions,
    by_library: Mapping[str, Sequence[str]],
    blocks: Mapping[str, BlockNest],
) -> str:
    """Return the function that launches the kernels of all steps on arrays on the device.

    ``whole`` maps arrays of partial sums to their results. ``blocks`` has the nests of kernels whose blocks share
    memory, by the arrays that they fill. ``by_library`` has the lines that fill arrays by a library,
    used instead of kernels if it is available. Its parameter ``empty`` allocates temporaries: callers may have a pool.
    """
    printer, shapes = FormPrinter(names), Prover(program).shapes
    temporaries = Temporaries(program, printer)
    lines = ['"""Launch the kernels on a stream; all arrays are on the device."""', *size_lines(program, names)]
    read = {name for step in program.kernels for name in uses(step).arrays}
    flat = [a for a in program.arguments if a.name in read] + list(program.outputs)
    lines += [f"{names(a.name)} = {names(a.name)}.reshape(-1)" for a in flat if len(a.shape) > 1]
    dtype = f"{names(program.outputs[0].name)}.dtype"
    for step in program.kernels:
        made = [] if isinstance(step, Scatter) else list(filter(None, map(temporaries.get, filled_arrays(step))))
        new = [f"{names(a.name)} = empty({temporaries.entries(a)}, {dtype}, stream=stream)" for a in made]
        if not isinstance(step, Kernel | FusedKernels):
            lines += [*new, *by_library[step.array]]
            continue
        function, _, rest = functions(step).partition("(")
        if step.array in blocks:
            nest = blocks[step.array]
            box = nest.grid
            shape = f"{blocks_text(nest, printer)}, {shape_text((nest.x[1], nest.y[1]), printer)}"
        else:
            box = kernels_of(step)[0].box(shapes)[: len(common_axes(step))]
            shape = f"*launch({shape_text(box, printer)})"
        launch = [f"{function}[({shape}, stream)]({rest}" if shape[0] == "*" else f"{function}[{shape}, stream]({rest}"]
        # A grid without blocks cannot be launched.
        some = temporaries.nonempty_condition(box)
        launch = [f"if {some}:", *(INDENT + line for line in launch)] if some else launch
        if whole.get(step.array) in by_library:
            launch, new = ["if cupy is None:", *(INDENT + line for line in (*new, *launch))], []
        elif not isinstance(step, Scatter) and step.array in by_library:
            launch = ["if cupy is None:", *(INDENT + line for line in launch)]
            launch += ["else:", *(INDENT + line for line in by_library[step.array])]
        lines += new + launch
    head = f"def run_on_device({', '.join(map(names, run_parameters(program)))}, stream=0, empty=cuda.device_array):"
    return "\n".join([head, *(INDENT + line for line in lines)])


def blocks_text(nest: BlockNest, printer: FormPrinter) -> str:
    """Return the number of blocks of a nest as text."""
    *others, last = ["1", *(printer.form(extent, UNARY) for extent in nest.grid)]
    if nest.along:
        height = (nest.x if nest.along == "x" else nest.y)[1]
        return f"-(-{'*'.join([*others[1:], last])}//{printer.form(height, UNARY)})"
    return "*".join([*others[1:], last])


def run_text(program: Program, names: FormNames) -> str:
    """Return the function that copies the arguments to the device, computes, and copies the results back."""
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
