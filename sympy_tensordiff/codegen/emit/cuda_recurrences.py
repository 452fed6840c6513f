"""Recurrences in modules for ``numba.cuda``: blocks of threads run the loop over time of small steps, the host any
other one, in which each step launches its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sympy_tensordiff.codegen.emit.driver import passed_names
from sympy_tensordiff.codegen.emit.forms import PRODUCT, SUM, UNARY, FormNames, FormPrinter, TextBlock
from sympy_tensordiff.codegen.emit.recurrences import step_function
from sympy_tensordiff.codegen.ir.programs import Recurrence
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name
from sympy_tensordiff.codegen.schedule.device_loops import without_axis
from sympy_tensordiff.integer.affine import Affine

HELPERS = '''
class Memory(dict):
    """The arrays of a loop over time, which are allocated once for all steps unless they grow."""

    def __init__(self, empty, stream):
        self.empty, self.stream = empty, stream

    def __call__(self, name, entries, dtype):
        if name not in self or self[name].size < entries:
            self[name] = self.empty(entries, dtype, stream=self.stream)
        return self[name]

    def inside(self, name):
        """The arrays of a loop in the steps."""
        return self.setdefault(("inside", name), Memory(self.empty, self.stream))


@cuda.jit
def fill_zeros(to):
    place = cuda.grid(1)
    if place < to.size:
        to[place] = 0


@cuda.jit
def copy_entries(to, source):
    place = cuda.grid(1)
    if place < to.size:
        to[place] = source[place]


@cuda.jit
def add_entries(to, source):
    place = cuda.grid(1)
    if place < to.size:
        to[place] += source[place]
'''
"""The memory of loops over time, and the kernels between the steps."""

_IN_BLOCK = '''
@cuda.jit(device=True)
def {name}(to, {given}entries, row, batch):
    """{task}. An array has `entries` for each part of the batch, in rows."""
    part = cuda.blockIdx.x*cuda.blockDim.y + cuda.threadIdx.y
    entry = cuda.threadIdx.x
    while part < batch and entry < entries:
        place = (entry//row*batch + part)*row + entry % row
        {line}
        entry += cuda.blockDim.x
    cuda.syncthreads()
'''

_TASKS = (
    ("fill", "Set the entries of a block to 0", "", "to[place] = 0"),
    ("copy", "Copy the entries of a block", "source, ", "to[place] = source[place]"),
    ("add", "Add the entries of a block", "source, ", "to[place] += source[place]"),
)

BLOCK_HELPERS = {
    "blocks_of_loop": '''
@functools.cache
def blocks_of_loop(entries, batch):
    """The grid and the block of a loop over time: threads along the entries of a step, and along a batch."""
    width = 1
    while width < min(entries, 256):
        width *= 2
    height = min(256 // width, batch)
    return -(-batch // height), (width, height)
''',
    **{
        f"{name}_in_block": _IN_BLOCK.format(name=f"{name}_in_block", task=task, given=given, line=line)
        for name, task, given, line in _TASKS
    },
}
"""The threads of loops over time that blocks run, and their functions between the steps, by name."""

OWN_NAMES = frozenset({"Memory", "memory", "fill_zeros", "copy_entries", "add_entries", "work", *BLOCK_HELPERS})


def loop_text(step: Recurrence, names: FormNames) -> str:
    """Return the text of the Python function with which the host runs the recurrence ``step``, whose time steps launch
    GPU kernels. Its arrays are flat: one number addresses an entry.
    """
    return _DeviceLoop(step, names.copy()).text()


class _DeviceLoop:
    """Prints the Python function with which the host runs a recurrence (a loop over time) whose steps are computed on
    the GPU.

    ``states``, ``results`` and ``spare`` map names of arrays of a time step (its arguments, its results, and those
    results that become states) to names of variables; those in ``spare`` are second buffers.
    """

    last_parameters: tuple[str, ...] = ("stream", "memory")

    def __init__(self, step: Recurrence, names: FormNames) -> None:
        self.name = function_name(step)
        self.step, self.names, self.form = step, names, FormPrinter(names).form
        self.integers = dict(step.integers)
        self.shapes = {a.name: a.shape for a in step.body.arguments}
        self.shapes |= {output.name: output.shape for output in step.body.outputs}
        self.stacked = {record.result: record.array for record in step.recorded if record.kind == "stack"}
        self.time = names.fresh("time")
        self.states = {state.argument: names.fresh(state.argument) for state in step.carried}
        self.results = {output.name: names.fresh(f"new_{output.name}") for output in step.body.outputs}
        carried = dict.fromkeys(state.result for state in step.carried if state.result not in self.stacked)
        self.spare = {name: names.fresh(f"next_{name}") for name in carried}

    def text(self) -> str:
        """Return the text of the Python function that runs the recurrence: a loop over its steps that launches CUDA
        kernels.
        """
        step, names, block = self.step, self.names, TextBlock()
        inner = block.child(f"def {self.name}({', '.join([*passed_names(step, names), *self.last_parameters])}):")
        inner.line(f'"""Fill {" and ".join(map(names, filled_arrays(step)))} step by step."""')
        for state in step.carried:
            inner.line(f"{self.states[state.argument]} = {names(state.initial)}")
        for name, own in (*self.results.items(), *self.spare.items()):
            if name not in self.stacked:
                for line in self.memory_lines(own, name):
                    inner.line(line)
        for record in step.recorded:
            if record.kind == "sum":
                inner.line(self.launch("fill", record.result, names(record.array)))
        length = self.form(step.length)
        loop = inner.child(f"for {self.time} in range({f'{length} - 1, -1, -1' if step.is_reversed else length}):")
        for line in self.step_lines():
            loop.line(line)
        for record in step.recorded:
            if record.kind == "last":
                last = self.spare.get(record.result, self.results[record.result])
                inner.line(self.launch("copy", record.result, names(record.array), last))
        return "\n".join(block.render())

    def entries(self, name: str, level: int = 0) -> str:
        """Return the CUDA text of the number of entries of the array ``name`` of a time step, such as ``n*m``. For an
        array with one axis, it is in parentheses if its precedence is below ``level``.
        """
        shape: Sequence[Affine] = [extent.substitute(self.integers) for extent in self.shapes[name]]
        return "*".join(self.form(extent, UNARY if shape[1:] else level) for extent in shape) or "1"

    def row(self, array: str, name: str) -> str:
        """Return the text of the slice of ``array`` for the current time. ``array`` stores the values of all times in
        one flat array; the entries of one time are those of the array ``name`` in a time step.
        """
        count = self.entries(name, PRODUCT)
        if count == "1":
            return f"{self.names(array)}[{self.time}:{self.time} + 1]"
        return f"{self.names(array)}[{self.time}*{count}:({self.time} + 1)*{count}]"

    def launch(self, task: str, name: str, *arrays: str) -> str:
        """Return the Python line that launches the kernel for a task ("fill", "copy" or "add") on ``arrays``, with one
        thread for each entry of the array ``name`` of a step.
        """
        kernel = "fill_zeros" if task == "fill" else f"{task}_entries"
        return f"{kernel}[(*launch(({self.entries(name, SUM)},)), stream)]({', '.join(arrays)})"

    def call(self, passed: Sequence[str]) -> str:
        """Return the line that runs one step with the arguments ``passed``."""
        return f'{step_function(self.step)}({", ".join(passed)}, stream, memory.inside("steps"))'

    def memory_lines(self, array: str, name: str) -> list[str]:
        """Return the line that allocates device memory for the result ``name`` of a time step, as the variable
        ``array`` of the generated code.
        """
        return [f'{array} = memory("{array}", {self.entries(name)}, {self.names(self.step.array)}.dtype)']

    def step_lines(self) -> Iterator[str]:
        """Yield the lines of one time step: the call of its function, the updates of arrays that store its results for
        all times or their sums, and the exchange of buffers.
        """
        step, names = self.step, self.names
        for result, array in self.stacked.items():
            yield f"{self.results[result]} = {self.row(array, result)}"
        values = {name: self.form(form) for name, form in step.integers} | {step.time: self.time} | self.states
        values |= {name: self.row(array, name) for name, array in step.rows}
        values |= {name: names(array) for name, array in step.constants}
        passed = [*(values[a.name] for a in step.body.arguments), *self.results.values()]
        yield self.call(passed)
        for record in step.recorded:
            own = self.results[record.result]
            if record.kind == "sum":
                yield self.launch("add", record.result, names(record.array), own)
            elif record.kind == "stack" and self.stacked[record.result] != record.array:
                yield self.launch("copy", record.result, self.row(record.array, record.result), own)
        for state in step.carried:
            yield f"{self.states[state.argument]} = {self.results[state.result]}"
        for name, own in self.spare.items():
            new = self.results[name]
            yield f"{new}, {own} = {own}, {new}"


class BlockLoopPrinter(_DeviceLoop):
    """Prints the GPU kernel in which blocks of threads run a recurrence (see `BlockRecurrence`).

    For a recurrence nested in the time steps of another one, it prints a device function. ``axes`` maps arrays to the
    numbers of their batch axes.
    """

    last_parameters = ("work",)

    def __init__(self, step: Recurrence, names: FormNames, axes: Mapping[str, int], name: str) -> None:
        super().__init__(step, names)
        self.axes, self.name = axes, name

    def launch(self, task: str, name: str, *arrays: str) -> str:
        """Return the line in which the threads of a block together do a task ("fill", "copy" or "add") for their part
        of ``arrays``, which have the shape of the array ``name`` of a time step.
        """
        shape, axis = [extent.substitute(self.integers) for extent in self.shapes[name]], self.axes.get(name)
        parts = without_axis(shape, axis), shape if axis is None else shape[axis + 1 :]
        texts = [*map(self.product, parts), "1" if axis is None else self.form(shape[axis])]
        return f"{task}_in_block({', '.join([*arrays, *texts])})"

    def product(self, extents: Sequence[Affine]) -> str:
        """Return a product of extents as text."""
        return "*".join(self.form(extent, UNARY) for extent in extents) or "1"

    def call(self, passed: Sequence[str]) -> str:
        """Return the line that runs one step with the arguments ``passed``."""
        return f"step_of_{self.name}({', '.join(passed)}, work)"

    def memory_lines(self, array: str, name: str) -> list[str]:
        """Return the lines of code that set the variable ``array`` to memory for the result ``name`` of a time step:
        they cut it off the front of the loop's work memory, the array ``work``.
        """
        return [f"{array} = work[:{self.entries(name)}]", f"work = work[{self.entries(name, PRODUCT)}:]"]
