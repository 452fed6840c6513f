"""Programs as modules for CUDA through ``numba.cuda``: one thread per entry, or blocks of threads that share memory.

There are no locks: each entry is written by one thread. Only scatters whose entries are selected by data use
atomic additions. The text is the same for a device and for Numba's simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.cuda_library import IMPORT, library_arguments, library_pieces, require_library
from sympy_tensordiff.codegen.emit.cuda_library import OWN_NAMES as LIBRARY_NAMES
from sympy_tensordiff.codegen.emit.cuda_nests import gpu_kernels, kernel_functions, loop_kernel_text
from sympy_tensordiff.codegen.emit.cuda_recurrences import BLOCK_HELPERS, BlockLoopPrinter, loop_text
from sympy_tensordiff.codegen.emit.cuda_recurrences import HELPERS as LOOPS
from sympy_tensordiff.codegen.emit.cuda_recurrences import OWN_NAMES as LOOP_NAMES
from sympy_tensordiff.codegen.emit.driver import (
    Functions,
    Temporaries,
    module_names,
    module_text,
    passed_names,
    run_parameters,
    shape_text,
    size_lines,
)
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY, FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.helpers import CUDA_HELPERS, called_by
from sympy_tensordiff.codegen.emit.library import library_text
from sympy_tensordiff.codegen.emit.recurrences import step_function, with_own_functions
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    Array,
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
from sympy_tensordiff.codegen.schedule.device_loops import MAX_BLOCK_OPERATIONS, BlockRecurrence, block_loop
from sympy_tensordiff.codegen.schedule.launches import common_axes, on_device
from sympy_tensordiff.integer.affine import Affine


def print_program(program: Program) -> str:
    """Return the text of a module whose ``run`` fills the outputs of ``program`` on a CUDA device."""
    program, names, pieces, compute, uses_library = _printed(program)
    table = {name: "@cuda.jit(device=True)\n" + text.strip("\n") for name, text in CUDA_HELPERS.items()}
    library = [text for text in pieces if "def library_" in text]
    others = [text for text in pieces if text not in library]
    helpers = [*called_by(others, table).values()]
    loops = [LOOPS.strip("\n")] if "memory.inside(" in "\n".join(pieces) else []
    loops += called_by([compute, *pieces], BLOCK_HELPERS).values()
    whole = [*helpers, *others, LAUNCH.strip("\n"), *loops, *(library_pieces(library) if uses_library else [])]
    whole += [compute, run_text(program, names)]
    library_import = IMPORT.strip() if uses_library else ""
    return module_text(program, "cuda", names, whole, {"numba": ("cuda", "uint64")}, library_import)


class _Printed(NamedTuple):
    """A program printed for a device: the program itself, its names, the functions of its steps, the function that
    launches them, and whether a step calls a library.
    """

    program: Program
    names: FormNames
    pieces: list[str]
    compute: str
    uses_library: bool


def _printed(program: Program, step: str = "") -> _Printed:
    """Return `program` printed for a device. If ``step`` is not empty, the program is the body of a recurrence, and
    ``step`` is the name of the function that runs it.
    """
    program, whole, products, deals = on_device(program)
    own = {f"library_{function_name(step)}" for step in program.kernels} | device_names(program)
    names = module_names(program, OWN_NAMES | own | {step})
    calls: dict[str, ProductStep | Apply] = dict(products)
    prover = Prover(program)
    shapes = prover.shapes
    functions = Functions(names)
    loops: list[str] = []
    block_loops: dict[str, BlockRecurrence] = {}
    uses_library = False
    for one in program.kernels:
        if isinstance(one, Recurrence):
            loop = block_loop(one)
            if loop is not None:
                loops += loop_pieces(loop.step, names, loop.axes, f"{function_name(one)}_in_blocks", "@cuda.jit\n")
                block_loops[one.array] = loop
            if loop is None or not loop.is_small:
                body = _printed(one.body, step_function(one))
                loops += with_own_functions(one, body.pieces, [body.compute])
                functions.add(one, loop_text(one, names))
                uses_library |= body.uses_library
        elif not isinstance(one, Kernel | FusedKernels):
            require_library(one)
            assert not isinstance(one, Correlation)
            calls[one.array] = one
    steps = [one for one in program.kernels if isinstance(one, Kernel | FusedKernels)]
    kernels = list(gpu_kernels(steps, names, prover, deals))
    for one, printed in zip(steps, kernel_functions(kernels, shapes), strict=True):
        functions.add(one, printed.text, "@cuda.jit\n", printed.arguments, printed.names)
    blocks = {kernel.step.array: kernel.nest for kernel in kernels if isinstance(kernel.nest, BlockNest)}
    library = Functions(names)
    for call in calls.values():
        library.add(call, library_text(call, program, names), passed=library_arguments(call, names, shapes))
    inside = "with of_library(stream):"
    by_library = {array: [inside, f"{INDENT}library_{library(call)}"] for array, call in calls.items()}
    texts = [text.replace("def fill_", "def library_fill_", 1) for text in library.texts]
    compute = compute_text(program, whole, names, functions, by_library, blocks, block_loops, step)
    return _Printed(program, names, [*loops, *functions.texts, *texts], compute, uses_library or bool(calls))


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

OWN_NAMES = LAUNCH_NAMES | LIBRARY_NAMES | LOOP_NAMES | {"cuda", "uint64", "real", "flat"}
OWN_NAMES |= {"first_y", "first_z", "step_y", "step_z", "exchanged", "exchanged_in_memory", *CUDA_HELPERS}

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
    block_loops: Mapping[str, BlockRecurrence],
    step: str = "",
) -> str:
    """Return the text of the Python function that launches the GPU kernels of all steps of ``program``, for arrays in
    device memory.

    Mappings from array names describe the steps that are not plain kernels: partial sums (``whole``), library calls
    (``by_library``), kernels with shared memory (``blocks``) and recurrences (``block_loops``).

    With ``step``, it is that of one step of a recurrence, has this name, and gets flat arrays and the memory of a loop.

    ``whole`` maps arrays of partial sums to their results. ``blocks`` has the nests of kernels whose blocks share
    memory, by the arrays that they fill, ``block_loops`` the recurrences that blocks run. ``by_library`` has the lines
    that fill arrays by a library, used instead of kernels if it is available. Its parameter ``empty`` allocates
    temporaries: callers may have a pool.
    """
    printer, shapes = FormPrinter(names), Prover(program).shapes
    temporaries = Temporaries(program, printer)
    task = "of a step " * bool(step)
    lines = [f'"""Launch the kernels {task}on a stream; all arrays are on the device."""', *size_lines(program, names)]
    read = {name for one in program.kernels for name in uses(one).arrays}
    flat = [a for a in program.arguments if a.name in read] + list(program.outputs)
    lines += [f"{names(a.name)} = {names(a.name)}.reshape(-1)" for a in flat if len(a.shape) > 1 and not step]
    dtype = f"{names(program.outputs[0].name)}.dtype"
    for one in program.kernels:
        made = [] if isinstance(one, Scatter) else list(filter(None, map(temporaries.get, filled_arrays(one))))
        new = [
            f'{names(a.name)} = memory("{names(a.name)}", {temporaries.entries(a)}, {dtype})'
            if step
            else f"{names(a.name)} = empty({temporaries.entries(a)}, {dtype}, stream=stream)"
            for a in made
        ]
        if isinstance(one, Recurrence):
            memory = f'memory.inside("{one.array}")' if step else "Memory(empty, stream)"
            loop = block_loops.get(one.array)
            host = [] if loop is not None and loop.is_small else [f"{functions(one)[:-1]}, stream, {memory})"]
            lines += [*new, *(host if loop is None else loop_lines(loop, host, names, temporaries, dtype, bool(step)))]
            continue
        if not isinstance(one, Kernel | FusedKernels):
            lines += [*new, *by_library[one.array]]
            continue
        function, _, rest = functions(one).partition("(")
        if one.array in blocks and not isinstance(one, Scatter):
            nest = blocks[one.array]
            box = nest.grid
            shape = f"{blocks_text(nest, printer)}, {shape_text((nest.x[1], nest.y[1]), printer)}"
        else:
            box = kernels_of(one)[0].box(shapes)[: len(common_axes(one))]
            shape = f"*launch({shape_text(box, printer)})"
        launch = [f"{function}[({shape}, stream)]({rest}" if shape[0] == "*" else f"{function}[{shape}, stream]({rest}"]
        # A grid without blocks cannot be launched.
        some = temporaries.nonempty_condition(box)
        launch = [f"if {some}:", *(INDENT + line for line in launch)] if some else launch
        if whole.get(one.array) in by_library:
            launch, new = ["if cupy is None:", *(INDENT + line for line in (*new, *launch))], []
        elif not isinstance(one, Scatter) and one.array in by_library:
            launch = ["if cupy is None:", *(INDENT + line for line in launch)]
            launch += ["else:", *(INDENT + line for line in by_library[one.array])]
        lines += new + launch
    head = f"def run_on_device({', '.join(map(names, run_parameters(program)))}, stream=0, empty=cuda.device_array):"
    head = f"def {step}({', '.join(map(names, run_parameters(program)))}, stream, memory):" if step else head
    return "\n".join([head, *(INDENT + line for line in lines)])


def loop_pieces(
    step: Recurrence, names: FormNames, axes: Mapping[str, int], name: str, decorator: str = "@cuda.jit(device=True)\n"
) -> list[str]:
    """Return the texts of the functions by which blocks of GPU threads run the recurrence ``step`` over time. The last
    one, called ``name`` and preceded by ``decorator``, starts it. ``axes`` maps arrays to their batch axes.

    The last one is a kernel, or a device function for a recurrence in the steps of another one.
    """
    body, prefix = step.body, f"step_of_{name}"
    own = module_names(body, OWN_NAMES | {name, prefix})
    prover, temporaries = Prover(body), Temporaries(body, FormPrinter(own))
    pieces, calls = [], []
    private = {row.name for one in body.kernels if isinstance(one, FusedKernels) for row in one.rows}
    for one in body.kernels:
        function = f"{prefix}_{function_name(one)}"
        if isinstance(one, Recurrence):
            pieces += loop_pieces(one, own, {}, function)
            calls.append(f"{function}({', '.join([*passed_names(one, own), 'work'])})")
            continue
        assert isinstance(one, Kernel | FusedKernels)
        found = loop_kernel_text(one, own, prover, axes.get(kernels_of(one)[0].array))
        pieces.append("@cuda.jit(device=True)\n" + found.text.replace("def ", f"def {prefix}_", 1))
        calls.append(f"{function}({', '.join(found.arguments)})")
    lines = ['"""Run one step in a block."""', *size_lines(body, own)]
    for array in body.temporaries:
        if array.name not in private:
            count = temporaries.entries(array)
            lines += [f"{own(array.name)} = work[:{count}]", f"work = work[{count}:]"]
    lines += [line for call in calls for line in (call, "cuda.syncthreads()")]
    head = f"@cuda.jit(device=True)\ndef {prefix}({', '.join([*map(own, run_parameters(body)), 'work'])}):"
    whole = "\n".join([head, *(INDENT + line for line in lines)])
    return [*pieces, whole, decorator + BlockLoopPrinter(step, names.copy(), axes, name).text()]


def loop_lines(
    loop: BlockRecurrence, host: Sequence[str], names: FormNames, temporaries: Temporaries, dtype: str, in_step: bool
) -> list[str]:
    """Return the lines that run the recurrence ``loop`` on the GPU in one launch. With the alternative lines ``host``,
    which control the loop over time from the host, return an ``if`` that takes these when the steps are large.

    ``in_step`` says that the recurrence is inside a step of another one, ``dtype`` is the text of the number type.
    """

    def entries(extents: Sequence[Affine]) -> str:
        """Return the text of the product of `extents`."""
        return temporaries.entries(Array("", tuple(extents)))

    size = " + ".join(["1", *map(entries, loop.memory)])
    counts = [*map(entries, loop.entries)]
    count = f"max({', '.join(counts)})" if counts[1:] else counts[0]
    shape = f"*blocks_of_loop({count}, {'1' if loop.batch is None else FormPrinter(names).form(loop.batch)}), stream"
    lines = [
        f'work = memory("work of {loop.step.array}", {size}, {dtype})'
        if in_step
        else f"work = empty({size}, {dtype}, stream=stream)",
        f"{function_name(loop.step)}_in_blocks[({shape})]({', '.join([*passed_names(loop.step, names), 'work'])})",
    ]
    if not host:
        return lines
    operations = " + ".join(map(entries, loop.operations))
    inside = [INDENT + line for line in lines]
    return [f"if {operations} <= {MAX_BLOCK_OPERATIONS}:", *inside, "else:", *(INDENT + line for line in host)]


def blocks_text(nest: BlockNest, printer: FormPrinter) -> str:
    """Return the text of the number of thread blocks to launch for a GPU nest."""
    *others, last = ["1", *(printer.form(extent, UNARY) for extent in nest.grid)]
    if nest.along:
        height = (nest.x if nest.along == "x" else nest.y)[1]
        return f"-(-{'*'.join([*others[1:], last])}//{printer.form(height, UNARY)})"
    return "*".join([*others[1:], last])


def run_text(program: Program, names: FormNames) -> str:
    """Return the Python text of the function that a user's call runs: it copies the arguments to the device, launches
    the computation there, and copies the results back.
    """
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
