"""Numba on the CPU: a compiled function that calls those of all kernels and of products of matrices in order.

Other calls of a library cannot be compiled: with one among the steps, the driver is Python, and
each kernel a compiled function of its own. A single kernel needs no compiled driver around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.fusion import fuse
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Contraction,
    Fused,
    If,
    Kernel,
    Loop,
    Program,
    Scatter,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.printers.base import start_text
from sympy_tensordiff.codegen.printers.decorators import Decorators
from sympy_tensordiff.codegen.printers.driver import (
    Functions,
    header,
    helpers,
    host_driver,
    imports,
    labels,
    module_names,
    passed_names,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.printers.elementary import ELEMENTARY_NAMES, FUNCTIONS, elementary_functions
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.printers.helpers import SCALAR_HELPERS
from sympy_tensordiff.codegen.printers.library import LIBRARY_NAMES, library_helpers, library_text
from sympy_tensordiff.codegen.printers.matrix_products import PANELS, product_text
from sympy_tensordiff.codegen.printers.nests import NestPrinter
from sympy_tensordiff.codegen.printers.parallel import block_ends, block_name, blocks_text, head_text
from sympy_tensordiff.codegen.printers.rows import STRIP, RowPlan, row_plan, runs_in_strips, untied
from sympy_tensordiff.codegen.printers.scans import Scan
from sympy_tensordiff.codegen.printers.scratch import run_text, scratch_arrays, scratch_text
from sympy_tensordiff.codegen.printers.together import Together
from sympy_tensordiff.codegen.rename import Renaming
from sympy_tensordiff.codegen.walk import (
    EXTREMA,
    filled_arrays,
    forms,
    function_name,
    loops,
    operations,
    scalar_arrays,
    scalars,
)
from sympy_tensordiff.integer.affine import Affine

PLUS = '''\
def plus(total, term):
    """One more term of a sum; the terms may be added in any order, so that the sum can be vectorised."""
    return total + term'''

AT = '''\
def at(place):
    """A place in an array: without a sign, it is not tested for counting from the end."""
    return np.uint64(place)'''

CHAINS = 8
"""As many maxima are computed side by side."""

CHAIN_WEIGHT = 8
"""Of values of no more operations and reads than this."""

HELPERS = {name: text for name, text in SCALAR_HELPERS.items() if name not in FUNCTIONS}

OWN_NAMES = frozenset(
    {"math", "np", "njit", "prange", "register_jitable", "real", "run", "plus", "ARGUMENTS", "at", "panels"}
)
OWN_NAMES |= {*HELPERS, *LIBRARY_NAMES, *ELEMENTARY_NAMES}


Ends = tuple[tuple[Affine, ...], tuple[Affine, ...]]
"""Entries of a row which are the first, and the last, of a loop: the greatest and the least of them are."""


class NumbaPrinter(NestPrinter):
    """A kernel as a function for ``njit``."""

    functions = NestPrinter.functions | {"floor": "np.floor", "ceil": "np.ceil"} | {name: name for name in FUNCTIONS}

    def __init__(
        self,
        names: Names,
        kernel: Kernel,
        bare: frozenset[str],
        prover: Prover,
        outer: tuple[str, ...] = (),
        is_block: bool = False,
        counted: tuple[str, ...] = (),
    ) -> None:
        super().__init__(names.copy() if is_block else names, kernel, bare)
        self.block: tuple[str, str] | tuple[()] = block_ends(self.names) if is_block else ()
        """The first entry of the first axis and the one past the last, of a function that fills a block."""
        self.outer = outer
        """Axes of the array in front of those of the kernel, over which something else loops."""
        self.rows = row_plan(kernel, prover)
        self.strip = self.strip_ends(prover) if not outer else ()
        self.counted = {*counted, *kernel.axes[is_block or bool(self.strip) :], *counters(kernel.body, self.rows)}
        """The names of integers that LLVM sees to have no sign."""
        self.running: dict[str, str] = {}
        """The names of accumulators in the pass that fills their arrays."""

    def print(self) -> str:
        """The text of the function."""
        array = self.names(self.kernel.array)
        self.line(0, head_text(self.kernel, self.names, self.block))
        self.line(1, f'"""{task_text(self.kernel, self.names)}."""')
        self.line(1, f"real = {array}.dtype.type")
        self.buffers(1)
        self.nest(1)
        return "\n".join(without_unused_real(self.lines))

    def extent(self, number: int) -> str:
        """The extent of an axis."""
        if isinstance(self.kernel, Scatter):
            return self.form(self.kernel.extents[number])
        return f"{self.names(self.kernel.array)}.shape[{len(self.outer) + number}]"

    def strip_ends(self, prover: Prover) -> tuple[str, str] | tuple[()]:
        """Names for the ends of a strip of a row that is the whole array, and so may be long; none elsewhere."""
        if not runs_in_strips(self.kernel, prover):
            return ()
        if self.block:
            return self.block
        self.names = self.names.copy()
        return self.names.fresh("first"), self.names.fresh("last")

    def buffers(self, depth: int) -> None:
        """Append the lines that make rows for what has one value for each entry of a row."""
        for name in sorted(self.rows.expanded) if self.rows is not None else ():
            length, array = self.extent(len(self.kernel.axes) - 1), self.names(self.kernel.array)
            if self.strip:
                length = f"{self.strip[1]} - {self.strip[0]}" if self.block else str(STRIP)
            self.line(depth, f"{self.names(name)} = np.empty({length}, {array}.dtype)")

    def nest(self, depth: int) -> None:
        """Append the loops over the axes and what runs inside of them."""
        axes = self.kernel.axes if self.rows is None else self.kernel.axes[:-1]
        for number, axis in enumerate(axes):
            span = ", ".join(self.block) if self.block and not number else self.extent(number)
            self.line(depth + number, f"for {self.names(axis)} in range({span}):")
        if self.rows is None:
            self.body(self.kernel.body, depth + len(axes))
        elif self.strip and not self.block:
            first, last = self.strip
            self.line(depth, f"for {first} in range(0, {self.extent(0)}, {STRIP}):")
            self.line(depth + 1, f"{last} = min({first} + {STRIP}, {self.extent(0)})")
            self.segments(self.rows, depth + 1)
        else:
            self.segments(self.rows, depth + len(axes))

    def store(self, statement: Store, depth: int) -> None:
        array = self.names(self.kernel.array)
        if self.kernel.array in self.bare:
            self.line(depth, f"{array} = real({self.scalar(statement.value)})")
            return
        entry = self.subscript(tuple(Affine.variable(axis) for axis in (*self.outer, *self.kernel.axes)))
        self.line(depth, f"{array}[{entry}] = {self.scalar(statement.value)}")

    def statement(self, statement: Statement, depth: int) -> None:
        if isinstance(statement, Loop) and self.is_extremum(statement):
            self.extremum_loop(statement, depth)
        else:
            super().statement(statement, depth)

    def subscript(self, index: tuple[Affine, ...]) -> str:
        return ", ".join(self.place(form) for form in index) or "()"

    def place(self, form: Affine) -> str:
        """One index of a read or of the store: an entry of the array, as the verifier has proven."""
        counts = form.constant >= 0 and all(factor > 0 and atom in self.counted for atom, factor in form.terms)
        return self.form(form) if counts else f"at({self.form(form)})"

    def is_extremum(self, loop: Loop) -> bool:
        """Whether a loop, perhaps a long one, does nothing but compare short values with a maximum or a minimum."""
        if len(loop.body) != 1 or not isinstance(loop.body[0], Add) or loop.body[0].reduction not in EXTREMA:
            return False
        if loop.body[0].name in self.running or sum(1 for _ in scalars(loop.body)) > CHAIN_WEIGHT:
            return False
        return not runs_less_often(loop, CHAINS) and any(loop.variable in form.atoms() for form in forms(loop.body))

    def extremum_loop(self, loop: Loop, depth: int) -> None:
        """Several chains of comparisons side by side: in one, each would wait for the one before."""
        (add,) = loop.body
        assert isinstance(add, Add)
        variable, local = self.names(loop.variable), self.names.copy()
        low, stop = (local.fresh(f"{variable}_{end}") for end in ("low", "stop"))
        chains = [local.fresh(f"{self.names(add.name)}_{n}") for n in range(1, CHAINS)]
        greatest, own = self.functions[add.reduction], self.name(add.name)
        self.line(depth, f"{low}, {stop} = {self.lower(loop.lows)}, {self.stop(loop.highs)}")
        self.line(depth, f"{' = '.join(chains)} = {own}")
        self.line(depth, f"for {variable} in range({low}, {stop} - {CHAINS - 1}, {CHAINS}):")
        for n, chain in enumerate([own, *chains]):
            moved = Renaming({}, forms={loop.variable: Affine({loop.variable: 1}, n)}).value(add.value)
            self.line(depth + 1, f"{chain} = {greatest}({chain}, {self.scalar(moved)})")
        for chain in chains:
            self.line(depth, f"{own} = {greatest}({own}, {chain})")
        self.line(depth, f"for {variable} in range({low} + max({stop} - {low}, 0)//{CHAINS}*{CHAINS}, {stop}):")
        self.line(depth + 1, f"{own} = {greatest}({own}, {self.scalar(add.value)})")

    # ------------------------------------------------------------------------ sums over rows

    def segments(self, plan: RowPlan, depth: int) -> None:
        """Append the segments of a kernel that runs row by row."""
        for number, segment in enumerate(plan.segments):
            for scan in plan.scans if number == len(plan.segments) - 1 else ():
                self.scan(scan, depth)
            if segment.kind == "row":
                self.body(segment.body, depth)
            elif segment.kind == "sum":
                self.row_sum(segment.body, depth)
            else:
                whole = [s for s in segment.body if isinstance(s, Accumulator) and s.name in plan.expanded]
                for statement in whole:
                    self.line(depth, f"{self.names(statement.name)}[:] = {start_text(statement.reduction)}")
                self.along_row([s for s in segment.body if s not in whole], depth)

    def along_row(self, body: Sequence[Statement], depth: int, ends: Ends = ((), ())) -> None:
        """Append statements that run once per entry of a row, between ``ends`` of it."""
        if not body:
            return
        last = len(self.kernel.axes) - 1
        lows, stops = [self.form(low) for low in ends[0]], [self.form(high + 1) for high in ends[1]]
        begin, end = self.strip or ("0", self.extent(last))
        low = f"max({', '.join([begin, *lows])})" if lows else begin
        stop = f"min({', '.join([end, *stops])})" if stops else end
        self.line(
            depth, f"for {self.names(self.kernel.axes[last])} in range({stop if low == '0' else f'{low}, {stop}'}):"
        )
        self.body(body, depth + 1)

    def scan(self, scan: Scan, depth: int) -> None:
        """Append one pass along a row, which goes on with the loop of a scan from entry to entry."""
        loop, last = scan.loop, len(self.kernel.axes) - 1
        axis, variable, local = self.names(self.kernel.axes[last]), self.names(loop.variable), self.names.copy()
        extent = self.extent(last)
        low, stop = self.lower(loop.lows), self.stop(loop.highs)
        end = local.fresh(f"{variable}_{'low' if scan.downward else 'stop'}")
        self.line(depth, f"{end} = {stop if scan.downward else low}")
        for accumulator in scan.accumulators:
            self.running[accumulator.name] = local.fresh(f"{self.names(accumulator.name)}_so_far")
            self.line(depth, f"{self.running[accumulator.name]} = real({start_text(accumulator.reduction)})")
        span = f"{extent} - 1, -1, -1" if scan.downward else extent
        self.line(depth, f"for {axis} in range({span}):")
        if scan.conditions:
            self.head(If(scan.conditions, ()), depth + 1)
        inner = depth + 1 + bool(scan.conditions)
        self.line(inner, f"for {variable} in range({f'{low}, {end}' if scan.downward else f'{end}, {stop}'}):")
        self.loop_depth += 1
        self.body(loop.body, inner + 1)
        self.loop_depth -= 1
        self.line(inner, f"{end} = {f'min({end}, {low})' if scan.downward else f'max({end}, {stop})'}")
        for accumulator in scan.accumulators:
            running = self.running.pop(accumulator.name)
            self.line(inner, f"{self.name(accumulator.name)} = {running}")

    def row_sum(self, body: Sequence[Statement], depth: int, ends: Ends = ((), ())) -> None:
        """Append loops with the loop over the row inside of them, between ``ends`` of it."""
        assert self.rows is not None
        leaf: list[Statement] = []
        for statement in body:
            if not self.rows.planner.varies(statement):
                self.statement(statement, depth)
            elif isinstance(statement, Loop | If):
                self.along_row(leaf, depth, ends)
                leaf, inner = [], ends
                if isinstance(statement, Loop) and (window := untied(statement, self.rows.planner.axis)) is not None:
                    statement, inner = window.loop, ((*ends[0], *window.lows), (*ends[1], *window.highs))
                self.head(statement, depth)
                self.row_sum(statement.body, depth + 1, inner)
            else:
                leaf.append(statement)
        self.along_row(leaf, depth, ends)

    # ------------------------------------------------------------------------ scalars

    def name(self, name: str) -> str:
        if name in self.running:
            return self.running[name]
        text = super().name(name)
        if self.rows is not None and name in self.rows.expanded:
            axis = self.names(self.kernel.axes[-1])
            return f"{text}[at({axis} - {self.strip[0]})]" if self.strip else f"{text}[{axis}]"
        return text

    def add(self, statement: Add, depth: int) -> None:
        in_row = self.rows is not None and statement.name in self.rows.expanded and statement.name not in self.running
        if in_row or not self.loop_depth or statement.reduction != "sum":
            # The factors of a product stay in order: 0*1e200*1e200 is 0, 0*(1e200*1e200) is nan.
            super().add(statement, depth)
        else:
            name = self.name(statement.name)
            self.line(depth, f"{name} = plus({name}, {self.scalar(statement.value)})")


def counters(body: Sequence[Statement], rows: RowPlan | None) -> Iterator[str]:
    """The variables of loops that begin at a number which is not negative."""
    scanned = {scan.loop.variable for scan in rows.scans} if rows is not None else set()
    for loop in loops(body):
        low = loop.lows[0].form
        if len(loop.lows) == 1 and low.is_constant and low.constant >= 0 and loop.variable not in scanned:
            yield loop.variable


def runs_less_often(loop: Loop, times: int) -> bool:
    """Whether two of the bounds of a loop are less than so many integers apart."""
    ends = product(loop.lows, loop.highs)
    spans = [high.form - low.form for low, high in ends if low.divisor == high.divisor == 1]
    return any(span.is_constant and span.constant + 1 < times for span in spans)


def print_program(program: Program, parallel: frozenset[str] = frozenset()) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``.

    ``parallel``: the names of the functions that run on several cores.
    """
    prover = Prover(program)
    program = fuse(program, prover)
    blocks = {block_name(step) for step in program.kernels if function_name(step) in parallel}
    names = module_names(program, OWN_NAMES | blocks)
    decorators = Decorators(program, names)
    functions = Functions()
    made = frozenset(array.name for array in (*program.outputs, *program.temporaries) if not array.shape)

    def values(step: Step) -> frozenset[str]:
        """The arrays of rank 0 of which a step is passed the entry: in a ``prange``, Numba takes no other."""
        return made.difference(filled_arrays(step)) if isinstance(step, Kernel | Fused) else frozenset()

    def printer(kernel: Kernel, bare: frozenset[str], outer: tuple[str, ...], counted: tuple[str, ...]) -> NumbaPrinter:
        return NumbaPrinter(names, kernel, bare, prover, outer, counted=counted)

    for step in program.kernels:
        is_block = function_name(step) in parallel
        bare = scalar_arrays(program.arguments) | values(step)
        if isinstance(step, Kernel):
            text = NumbaPrinter(names, step, bare, prover, (), is_block).print()
        elif isinstance(step, Fused):
            text = Together(step, names, bare, prover, printer, is_block).print()
        elif decorators.is_whole:
            assert isinstance(step, Contraction)
            text = product_text(step, names, prover.shapes, is_block)
        else:
            text = library_text(step, program, names)
        if is_block and not isinstance(step, Contraction):
            text = f"{decorators.inner}{text}\n\n\n{decorators.blocks}{blocks_text(step, names, prover)}"
        else:
            text = decorators.of(step, is_block) + text
        rows = [names(array.name) for array in step.rows] if isinstance(step, Fused) else []
        functions.add(step, text, [*passed_names(step, names), *rows])
    own = (
        (r" = plus\(", decorators.plus, PLUS),
        (r"\bat\(", decorators.inner, AT),
        (r" = panels\(", decorators.inner, PANELS),
    )
    pieces = elementary_functions(operations(program))
    pieces += helpers(program, NumbaPrinter.functions, HELPERS, decorators.inner)
    pieces += [decorator + text for mark, decorator, text in own if any(re.search(mark, t) for t in functions.texts)]
    if not decorators.is_whole:
        pieces += library_helpers(program.kernels, functions.texts)
    # What NumPy warns of is no news: compiled loops are silent about it.
    has_calls = not all(isinstance(step, Kernel | Fused) for step in program.kernels)
    around = 'with np.errstate(all="ignore"):' if has_calls and not decorators.is_whole else ""
    arrays = scratch_arrays(program, names) if decorators.is_whole else []
    pieces += [*functions.texts, decorators.run + host_driver(program, names, functions, around, None, values, arrays)]
    if arrays:
        pieces.append(decorators.product + scratch_text(program, names, arrays))
        pieces.append(decorators.run + run_text(program, names, arrays))
    top = [header(program, "numba", names), imports(pieces, decorators.imports(pieces)), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"
