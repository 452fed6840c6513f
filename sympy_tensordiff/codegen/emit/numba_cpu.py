"""Programs as modules for Numba on the CPU: a compiled driver that calls the functions of all steps in order.

Library calls other than matrix products cannot be compiled: with one among the steps, the driver is Python and each
kernel is a compiled function of its own; with one in the steps of a recurrence, these run in Python with NumPy. A
single kernel needs no compiled driver.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from sympy_tensordiff.codegen.emit.arrays import block_constant, recurrence_pieces
from sympy_tensordiff.codegen.emit.base import NestPrinter
from sympy_tensordiff.codegen.emit.correlations import TILE, TILE_NAMES, correlation_texts, task_name
from sympy_tensordiff.codegen.emit.driver import (
    WORD,
    Functions,
    head_text,
    host_driver,
    module_names,
    module_text,
    passed_names,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.emit.elementary import ELEMENTARY_NAMES, FUNCTIONS, elementary_functions
from sympy_tensordiff.codegen.emit.forms import ATOM, INDENT, POWER, FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS, SCALAR_HELPERS, called_by
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES, library_text
from sympy_tensordiff.codegen.emit.matrix_products import PANELS, product_text
from sympy_tensordiff.codegen.emit.recurrences import recurrence_text, step_function, with_own_functions
from sympy_tensordiff.codegen.ir.facts import Prover, integer_form, is_general_exponent
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import ZERO
from sympy_tensordiff.codegen.ir.programs import (
    ConstantKernel,
    ContractionStep,
    Correlation,
    FusedKernels,
    Kernel,
    Program,
    Recurrence,
    Step,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.rare_loops import condition_of_loop, without_condition
from sympy_tensordiff.codegen.ir.scalars import Ends, Name, Number, Scalar
from sympy_tensordiff.codegen.ir.steps import is_compiled_whole, uncompiled_arrays
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name, scalar_arrays
from sympy_tensordiff.codegen.schedule.cpu import Nest, ScheduleContext
from sympy_tensordiff.codegen.schedule.fusion import fuse, nest_of
from sympy_tensordiff.codegen.schedule.rows import STRIP, runs_in_strips
from sympy_tensordiff.integer.affine import Affine


class NumbaPrinter(NestPrinter):
    """Prints nests of `Loop`, `If`, `Set` and `Alloc` as Python for Numba."""

    functions: Mapping[str, str] = {
        **NestPrinter.functions, **{name: name for name in FUNCTIONS}, "floor": "np.floor", "ceil": "np.ceil",
        "real": "real", "double": "np.float64",
    }  # fmt: skip

    def __init__(self, names: FormNames, bare: frozenset[str]) -> None:
        super().__init__(names, bare)
        self.loop_depth = 0
        self.counted: set[str] = set()
        """The names of loop variables that LLVM can prove non-negative."""
        self.defined: dict[str, int] = {}
        """The loop depth at which each scalar is initialised."""

    def variable(self, name: str) -> str:
        """Return a variable, or the length of an array axis, as text."""
        array, dot, attribute = name.partition(".")
        return super().variable(array) + dot + attribute

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """Return ``index`` as the text of a subscript without brackets, such as ``i, at(j - 1)``, where the function
        ``at`` tells Numba that the index is not negative. ``array`` is not used.
        """
        return ", ".join(map(self.unsigned, index)) or "()"

    def unsigned(self, form: Affine) -> str:
        """Return the text of the index ``form``, wrapped in ``at(...)`` unless it is evidently nonnegative. The
        function ``at`` converts it to an unsigned integer, so that Numba tests for no negative index.
        """
        return self.form(form) if self.is_never_negative(form) else f"at({self.form(form)})"

    def is_never_negative(self, form: Affine) -> bool:
        """Return whether ``form`` is evidently never negative: its constant and coefficients are not negative, and its
        variables are loop variables that count from 0.
        """
        return form.constant >= 0 and all(factor > 0 and atom in self.counted for atom, factor in form.terms)

    def power(self, base: Scalar, exponent: Scalar) -> tuple[str, int]:
        """Return the text of ``base**exponent`` and the precedence of its outermost operator. Powers with integer forms
        as exponents are computed by repeated squaring.
        """
        form = integer_form(exponent)
        if isinstance(exponent, Number) and not is_general_exponent(exponent):
            return super().power(base, exponent)
        if isinstance(exponent, Number) or form is None:
            return self.call("general_power", (base, exponent)), ATOM
        # Products by squaring: in loops of few steps, LLVM sees how many. Of 0, Numba raises no negative power.
        value = self.scalar(base, POWER + 1)
        text = f"{value}**({self.form(form)})"
        if not self.is_never_negative(form):
            text += f" if {self.form(form)} >= 0 else real(1)/{value}**({self.form(-1 * form)})"
        return f"real({text})", ATOM

    def head_text(self, statement: Loop | If) -> str:
        """Return the first line of a loop or guard, such as ``for i in range(0, n, 4):``. The step of a loop may be any
        constant, also a negative one.
        """
        if isinstance(statement, If) or statement.step == 1:
            return super().head_text(statement)
        assert isinstance(statement.step, int)
        low, stop = self.lower(statement.lows), self.stop(statement.highs)
        span = f"{low}, {stop}, {statement.step}"
        if statement.step < 0:
            below = self.lower(statement.lows) + " - 1" if low != "0" else "-1"
            span = f"{stop} - 1, {below}, {statement.step}"
        return f"for {self.names(statement.variable)} in range({span}):"

    def statement(self, statement: Statement, depth: int) -> None:
        """Append the lines of a statement, indented by ``depth`` levels; note which loop variables are non-negative."""
        if isinstance(statement, Loop):
            if (test := condition_of_loop(statement)) is not None:
                self.line(depth, f"if {self.scalar(test)}:")
                statement, depth = without_condition(statement, test), depth + 1
            self.line(depth, self.head_text(statement))
            counts = len(statement.lows) == 1 and statement.lows[0].form == ZERO and statement.step != -1
            outside = self.counted
            self.counted = outside | {statement.variable} if counts else outside - {statement.variable}
            self.loop_depth += 1
            self.body(statement.body, depth + 1)
            self.loop_depth -= 1
            self.counted = outside
        elif isinstance(statement, Alloc):
            shape = ", ".join(map(self.integer_text, statement.shape))
            text = f"({shape})" if len(statement.shape) > 1 else shape
            self.line(depth, f"{self.names(statement.name)} = np.empty({text}, {self.names(statement.like)}.dtype)")
        else:
            super().statement(statement, depth)

    def set_text(self, statement: Set) -> str:
        """Return the text of an assignment or update. Updates of sums in loops call ``plus``, so that Numba may reorder
        and vectorise them.
        """
        target, value = statement.target, statement.value
        if isinstance(target, Name) and not isinstance(value, Ends):
            if not statement.reduction:
                self.defined[target.name] = self.loop_depth
            elif statement.reduction == "sum" and self.defined.get(target.name, 0) < self.loop_depth:
                # The factors of a product stay in order: 0*1e200*1e200 is 0, 0*(1e200*1e200) is nan.
                return f"{self.name(target.name)} = plus({self.name(target.name)}, {self.scalar(value)})"
        return super().set_text(statement)


def function_text(step: Kernel | FusedKernels, nest: Nest, names: FormNames, block: tuple[str, str] | None) -> str:
    """Return the text of the Numba function that runs a step with the loop nest ``nest``, without decorator. ``block``,
    a pair of parameter names (first row, row after the last one), restricts it to a range of rows; None for all rows.
    """
    printer = NumbaPrinter(names, nest.bare)
    printer.line(0, _head_text(step, names, block or ()))
    if isinstance(step, FusedKernels):
        entries = [f"{INDENT}{_entry_text(step, kernel, names)}" for kernel in step.kernels]
        axes = ", ".join(map(names, step.axes))
        printer.lines += [f'{INDENT}"""Fill, for one {axes} after the other:', "", *entries, f'{INDENT}"""']
    else:
        printer.line(1, f'"""{task_text(step, names)}."""')
    # Tables are computed in double precision: the angles of their sines may be large.
    dtype = "np.float64" if isinstance(step, ConstantKernel) else f"{names(filled_arrays(step)[0])}.dtype.type"
    printer.line(1, f"real = {dtype}")
    printer.body((*nest.arrays, *nest.body), 1)
    return "\n".join(without_unused_real(printer.lines))


def _entry_text(step: FusedKernels, kernel: Kernel, names: FormNames) -> str:
    """Return a comment on the entries that ``kernel``, one of the kernels of the fused loop ``step``, fills."""
    storage = ", of which one row is kept" * any(array.name == kernel.array for array in step.rows)
    added = ", to which each adds" * (kernel.array in step.totals)
    axes = f"[{', '.join(map(names, kernel.axes))}]" if kernel.axes else ""
    return f"{names(kernel.array)}{axes}{storage}{added}"


# ---------------------------------------------------------------------------- blocks on several cores
# Kernels on several cores: a parallel loop over blocks of the first axis.
#
# One function computes the entries of a block in whichever thread, so that results do not depend on the threads.


BLOCKS = 64
"""The number of blocks of a kernel: several per core of a usual machine."""

PARTIAL_TOTALS = 8
"""The number of blocks of a step with totals: each block has partial totals, which are added in order."""

BLOCK_STRIDE = 39
"""The stride between blocks of consecutive iterations: odd and near the golden section, to balance uneven blocks."""


def block_name(step: Step) -> str:
    """Return the name of the function that computes one block of rows of a step."""
    return f"{function_name(step)}_block"


def block_ends(names: FormNames) -> tuple[str, str]:
    """Return two new names for parameters: the first row of a block, and the row after its last one."""
    return names.fresh("start"), names.fresh("stop")


def _head_text(step: Step, names: FormNames, block: Sequence[str]) -> str:
    """Return the ``def`` line for the function of a step, or of one block of its rows if ``block`` gives the names of
    the block's two ends. ``names`` has the names of sizes.
    """
    passed = passed_names(step, names)
    return f"def {block_name(step)}({', '.join([*passed, *block])}):" if block else head_text(step, passed)


def blocks_text(step: Step, names: FormNames, prover: Prover) -> str:
    """Return the text of the function that runs all blocks of a step in parallel, without decorator. ``names`` has the
    names of arrays and sizes in the text.
    """
    local = names.copy()
    extent, turn, block = (local.fresh(wish) for wish in ("extent", "turn", "block"))
    length = FormPrinter(names).form(step.extent) if isinstance(step, FusedKernels) else f"{names(step.array)}.shape[0]"
    totals = (
        [kernel for kernel in step.kernels if kernel.array in step.totals] if isinstance(step, FusedKernels) else []
    )
    parts = {names(kernel.array): local.fresh(f"{names(kernel.array)}_parts") for kernel in totals}
    count = PARTIAL_TOTALS if parts else BLOCKS
    head, inside = f"for {turn} in prange({count}):", [f"{block} = {turn}*{BLOCK_STRIDE} % {count}"]
    ends = f"{extent}*{block}//{count}, {extent}*({block} + 1)//{count}"
    if isinstance(step, Kernel) and runs_in_strips(step, prover):
        head, inside = f"for {turn} in prange(({extent} + {STRIP - 1})//{STRIP}):", []
        ends = f"{turn}*{STRIP}, min({turn}*{STRIP} + {STRIP}, {extent})"
    passed = ", ".join(f"{parts[name]}[{block}]" if name in parts else name for name in passed_names(step, names))
    lines = [
        head_text(step, passed_names(step, names)),
        f'{INDENT}"""Fill {" and ".join(map(names, filled_arrays(step)))} block by block, on all cores."""',
        f"{INDENT}{extent} = {length}",
        *(f"{INDENT}{part} = np.empty(({count}, *{name}.shape), {name}.dtype)" for name, part in parts.items()),
        INDENT + head,
        *(INDENT * 2 + line for line in inside),
        f"{INDENT * 2}{block_name(step)}({passed}, {ends})",
    ]
    for name, part in parts.items():
        lines.append(f"{INDENT}{name}[...] = {part}[0]")
        lines += [f"{INDENT}for {block} in range(1, {count}):", f"{INDENT * 2}{name} += {part}[{block}]"]
    return "\n".join(lines)


# ---------------------------------------------------------------------------- modules


PLUS = '''\
def plus(total, term):
    """One more term of a sum; the terms may be added in any order, so that the sum can be vectorised."""
    return total + term'''

AT = '''\
def at(place):
    """A place in an array: without a sign, it is not tested for counting from the end."""
    return np.uint64(place)'''

HELPERS = {name: text for name, text in SCALAR_HELPERS.items() if name not in FUNCTIONS}

MODULES = {
    "numba": ("njit", "prange", "types"),
    "numba.extending": ("intrinsic", "overload", "register_jitable"),
    "numba.core": ("cgutils",),
    "llvmlite": ("binding", "ir"),
}
"""The names that a module imports if it uses them, by their modules."""

OWN_NAMES = frozenset(name for names in MODULES.values() for name in names)
OWN_NAMES |= {"real", "plus", "at", "panels", *TILE_NAMES, *HELPERS, *LIBRARY_NAMES}
OWN_NAMES |= ELEMENTARY_NAMES


def print_program(program: Program, parallel: frozenset[str] = frozenset()) -> str:
    """Return the text of a Numba module whose function ``run`` fills the outputs of ``program``; the functions in
    ``parallel`` run on several cores.
    """
    prover = Prover(program)
    program = fuse(program, prover)
    blocks = {block_name(step) for step in program.kernels if function_name(step) in parallel}
    blocks |= {task_name(step) for step in program.kernels if isinstance(step, Correlation)}
    names = module_names(program, OWN_NAMES | blocks)
    decorators = Decorators(program, names)
    functions, inner = _step_functions(program, names, decorators, prover, parallel)
    table = {name: decorators.inner + text.strip("\n") for name, text in HELPERS.items()}
    table |= {"plus": decorators.plus + PLUS, "at": decorators.inner + AT, "panels": decorators.inner + PANELS}
    table |= {"add_tile": TILE} | LIBRARY_HELPERS
    inner = _with_helpers(inner, table)
    pieces = [*elementary_functions(functions.texts), *called_by(functions.texts, table).values()]
    # Without NumPy's warnings, as in compiled loops.
    has_calls = not all(isinstance(step, Kernel | FusedKernels) for step in program.kernels)
    around = 'with np.errstate(all="ignore"):' if has_calls and not decorators.is_whole else ""
    pieces += [*inner, *functions.texts, decorators.run + host_driver(program, names, functions, around)]
    return module_text(program, "numba", names, pieces, MODULES, constants=block_constant(inner))


def _step_functions(
    program: Program, names: FormNames, decorators: Decorators, prover: Prover, parallel: frozenset[str] = frozenset()
) -> tuple[Functions, list[str]]:
    """Return ``(functions, texts)``: the Numba functions of all steps of ``program``, and the texts of the time-step
    functions of recurrences that Numba cannot compile and NumPy runs. Functions named in ``parallel`` run on several
    cores. ``decorators`` has the texts like ``@njit``.
    """
    functions = Functions(names)
    made = frozenset(array.name for array in (*program.outputs, *program.temporaries) if not array.shape)

    inner: list[str] = []
    for step in program.kernels:
        if isinstance(step, Recurrence):
            is_compiled = not uncompiled_arrays(step.body)
            *below, text = (
                _compiled_recurrence(step, names, decorators) if is_compiled else recurrence_pieces(step, names)
            )
            (functions.texts if is_compiled else inner).extend(below)
            functions.add(step, text, decorators.kernel if is_compiled else "")
            continue
        is_block = function_name(step) in parallel
        # The entries of arrays of rank 0 are passed, not the arrays: Numba accepts no others in a ``prange``.
        own = made.difference(filled_arrays(step)) if isinstance(step, Kernel | FusedKernels) else frozenset[str]()
        entries = {names(array): f"{names(array)}[()]" for array in own}
        bare = scalar_arrays(program.arguments) | own
        if isinstance(step, Kernel | FusedKernels):
            local = names.copy()
            ends = block_ends(local) if is_block else None
            place = ScheduleContext(prover, local.fresh, bare, block=ends, off=program.rules_off)
            text = function_text(step, nest_of(step, place), local, place.block)
        elif isinstance(step, Correlation):
            part, whole = correlation_texts(step, names, prover.shapes, is_block)
            text = f"{decorators.inner}{part}\n\n\n{decorators.for_step(step, is_block)}{whole}"
        elif isinstance(step, Trapezoid) or decorators.is_whole:
            assert isinstance(step, ContractionStep | Trapezoid)
            text = product_text(step, names, is_block)
        else:
            text = library_text(step, program, names)
        decorator = "" if isinstance(step, Correlation) else decorators.for_step(step, is_block)
        if is_block and isinstance(step, Kernel | FusedKernels):
            text = f"{decorators.inner}{text}\n\n\n{decorators.blocks}{blocks_text(step, names, prover)}"
            decorator = ""
        passed = [entries.get(name, name) for name in passed_names(step, names)]
        functions.add(step, text, decorator, passed)
    return functions, inner


def _compiled_recurrence(step: Recurrence, names: FormNames, decorators: Decorators) -> list[str]:
    """Return the texts of a recurrence's functions for Numba: first those of the steps, and last the function that runs
    the recurrence. The last one has no decorator.
    """
    prover = Prover(step.body)
    body, name = fuse(step.body, prover), step_function(step)
    own = module_names(body, OWN_NAMES | {name})
    functions, inner = _step_functions(body, own, Decorators(body, own, is_inside=True), prover)
    pieces = [*inner, *functions.texts]
    return [
        *with_own_functions(step, pieces, [decorators.inner + host_driver(body, own, functions, name=name)]),
        recurrence_text(step, names),
    ]


def _with_helpers(texts: list[str], compiled: Container[str]) -> list[str]:
    """Return ``texts``, those of NumPy functions, preceded by the texts of the helper functions that they call. A
    helper with the name of a ``compiled`` function is renamed.
    """
    found = [*called_by(texts, NUMPY_HELPERS | LIBRARY_HELPERS).values(), *texts]
    return [
        WORD.sub(lambda m: f"numpy_{m[0]}" if m[0] in NUMPY_HELPERS and m[0] in compiled else m[0], text)
        for text in found
    ]


# ---------------------------------------------------------------------------- how functions are compiled
# The decorators of the functions of a module for Numba on the CPU.


# Contraction (fused multiply-add) and ignored signs of zero keep nan and inf. Reassociation, finite-math
# and reciprocals do not keep results near the limits of the number range: they stay off.
FLAGS = 'error_model="numpy", fastmath={"contract", "nsz"}'


class Decorators:
    """The texts of the Numba decorators in one module, such as ``@njit(...)``: one for functions that Python calls,
    another for those that only compiled code calls.

    A function that is compiled only as part of others runs as Python if Python calls it. So are all of a body of a
    compiled recurrence, for which ``is_inside`` is true.
    """

    def __init__(self, program: Program, names: FormNames, is_inside: bool = False) -> None:
        self.is_whole = is_inside or is_compiled_whole(program)
        # Numba's cache cannot distinguish functions of the user: it would take the code of one for another's. Nor does
        # it find their modules again, which have new names in every process.
        entry = f"@njit({'' if names.functions else 'cache=True, '}nogil=True, "
        within = "@register_jitable("
        outer = within if self.is_whole else entry
        self.kernel = f"{outer}{FLAGS})\n"
        self.blocks = f'{outer}error_model="numpy", parallel=True)\n'
        self.product = f'{within}error_model="numpy")\n' if self.is_whole else ""
        self.inner = f"{within}{FLAGS})\n"
        self.plus = f'{within}{FLAGS[:-1]}, "reassoc"}})\n'
        self.run = f"{entry}{FLAGS})\n" if self.is_whole else ""

    def for_step(self, step: Step, is_parallel: bool) -> str:
        """Return the Numba decorator line of a step's function, given whether the function `is_parallel`."""
        if isinstance(step, Kernel | FusedKernels) or (isinstance(step, Trapezoid) and not is_parallel):
            return self.kernel
        return self.blocks if is_parallel else self.product
