"""Numba on the CPU: a compiled function that calls those of all kernels and of products of matrices in order.

Other calls of a library cannot be compiled: with one among the steps, the driver is Python, and
each kernel a compiled function of its own. A single kernel needs no compiled driver around it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.fusion import fuse
from sympy_tensordiff.codegen.loops import (
    Add,
    Bound,
    Contraction,
    Correlation,
    Fused,
    Kernel,
    Let,
    Loop,
    Program,
    Scatter,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.printers.angles import near_angles, works_on_near_angles
from sympy_tensordiff.codegen.printers.correlations import correlation_texts, part_name
from sympy_tensordiff.codegen.printers.decorators import ONCE, Decorators
from sympy_tensordiff.codegen.printers.driver import (
    Functions,
    header,
    helpers,
    host_driver,
    imports,
    labels,
    module_names,
    passed_names,
    run_text,
    scratch_arrays,
    scratch_text,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.printers.elementary import ELEMENTARY_NAMES, FUNCTIONS, elementary_functions
from sympy_tensordiff.codegen.printers.helpers import SCALAR_HELPERS
from sympy_tensordiff.codegen.printers.library import LIBRARY_NAMES, library_helpers, library_text
from sympy_tensordiff.codegen.printers.matrix_products import MULTIPLY, MULTIPLY_NAMES, PANELS, product_text
from sympy_tensordiff.codegen.printers.parallel import block_name, blocks_text, head_text
from sympy_tensordiff.codegen.printers.row_nests import RowPrinter
from sympy_tensordiff.codegen.printers.rows import RowPlan, has_few_steps, runs_in_strips, runs_less_often
from sympy_tensordiff.codegen.printers.sums import PART, in_rounds, long_sums
from sympy_tensordiff.codegen.printers.tiles import MARK, TILE
from sympy_tensordiff.codegen.printers.tiles import NAMES as TILE_NAMES
from sympy_tensordiff.codegen.printers.together import Together
from sympy_tensordiff.codegen.rename import Renaming
from sympy_tensordiff.codegen.walk import (
    EXTREMA,
    added,
    filled_arrays,
    forms,
    function_name,
    loops,
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

INLINED = 400
"""Lines of kernels that the driver holds itself; the functions of more are compiled apart.

A function that the driver calls is taken through LLVM twice, alone and with the driver. CPU of first calls in s, apart
and within: loss, gradient and Hessian of a softmax 2.5 and 2.0, the gradient of a logistic regression 1.05 and 0.97.
"""

HELPERS = {name: text for name, text in SCALAR_HELPERS.items() if name not in FUNCTIONS}

OWN_NAMES = frozenset(
    {"njit", "prange", "register_jitable", "types", "intrinsic", "overload", "cgutils", "binding", "ir"}
)
OWN_NAMES |= {"real", "compiled_once", "plus", "at", "panels", *MULTIPLY_NAMES, *TILE_NAMES, *HELPERS, *LIBRARY_NAMES}
OWN_NAMES |= ELEMENTARY_NAMES


class NumbaPrinter(RowPrinter):
    """A kernel as a function for ``njit``."""

    is_plain = False
    """Whether sines are those of the C library."""
    wide = ""
    """What notes angles for which they have to be."""
    is_within = False
    """Whether a loop over something else than a sum's terms is around, so that many sums may be short."""

    functions = RowPrinter.functions | {"floor": "np.floor", "ceil": "np.ceil"} | {name: name for name in FUNCTIONS}

    @property
    def has_one_entry(self) -> bool:
        """Whether what is printed runs once in a call, so that it may well be long."""
        return not (self.kernel.axes or self.outer or self.is_within)

    @functools.cached_property
    def counted(self) -> set[str]:
        """The names of integers that LLVM sees to have no sign."""
        axes = self.kernel.axes[bool(self.block or self.strip) :]
        return {*axes, *counters(self.kernel.body, self.rows)}

    def print(self) -> str:
        """The text of the function."""
        array = self.names(self.kernel.array)
        self.line(0, head_text(self.kernel, self.names, self.block))
        self.line(1, f'"""{task_text(self.kernel, self.names)}."""')
        self.line(1, f"real = {array}.dtype.type")
        self.buffers(1)
        self.nest(1)
        return "\n".join(without_unused_real(self.lines))

    def store(self, statement: Store, depth: int) -> None:
        array = self.names(self.kernel.array)
        if self.kernel.array in self.bare:
            self.line(depth, f"{array} = real({self.scalar(statement.value)})")
            return
        index = [Affine.variable(axis) for axis in (*self.outer, *self.kernel.axes)]
        if self.entry is not None:
            index[-1] = self.entry
        self.line(depth, f"{array}[{self.subscript(tuple(index))}] = {self.scalar(statement.value)}")

    def statement(self, statement: Statement, depth: int) -> None:
        if isinstance(statement, Loop) and self.is_extremum(statement):
            self.extremum_loop(statement, depth)
        elif isinstance(statement, Loop) and has_few_steps(statement):
            before, self.is_plain = self.is_plain, True
            super().statement(statement, depth)
            self.is_plain = before
        elif isinstance(statement, Loop) and self.has_one_entry and (sums := long_sums(statement)):
            self.loop_in_parts(statement, sums, depth)
        elif isinstance(statement, Let) and statement.name == self.wide:
            # With "or", LLVM would see a branch.
            self.line(depth, f"{self.wide} |= {self.scalar(statement.value)}")
        else:
            super().statement(statement, depth)

    def loop_in_parts(self, loop: Loop, sums: list[str], depth: int) -> None:
        """A loop whose terms are added part by part (`sums`)."""
        outside, self.names, self.is_within = self.names, self.names.copy(), True
        own = {name: self.name(name) for name in sums}
        totals, parts = ({name: self.names.fresh(f"{own[name]}_{what}") for name in sums} for what in ("total", "part"))
        self.line(depth, f"{' = '.join(totals.values())} = 0.0")
        rounds = in_rounds(loop.body)
        low = self.names.fresh(f"{self.names(loop.variable)}_low")
        if rounds:
            self.line(depth, self.head_text(loop))
            self.begin(loop.variable, depth + 1)
        else:
            self.line(depth, f"for {low} in range({self.lower(loop.lows)}, {self.stop(loop.highs)}, {PART}):")
        self.line(depth + 1, f"{' = '.join(parts.values())} = real(0)")
        self.running |= parts
        if rounds:
            self.loop_depth += 1
            self.body(loop.body, depth + 1)
            self.loop_depth -= 1
        else:
            self.counted.discard(loop.variable)
            highs = (*loop.highs, Bound(Affine.variable(low) + (PART - 1)))
            super().statement(replace(loop, lows=(Bound(Affine.variable(low)),), highs=highs), depth + 1)
        for name in sums:
            del self.running[name]
            self.line(depth + 1, f"{totals[name]} += {parts[name]}")
        for name in sums:
            self.line(depth, f"{own[name]} += real({totals[name]})")
        self.names, self.is_within = outside, False

    def loop(self, head: str, body: Sequence[Statement], depth: int, variable: str) -> None:
        names = {name: self.name(name) for name in added(body)}
        can_repeat = all(text.isidentifier() for text in names.values())
        if self.is_plain or not can_repeat or not works_on_near_angles(body):
            super().loop(head, body, depth, variable)
            return
        outside, self.names = self.names, self.names.copy()
        wide = self.wide = self.names.fresh("wide")
        kept = [(text, self.names.fresh(f"{text}_before")) for text in names.values()]
        self.line(depth, f"{wide} = False")
        for text, before in kept:
            self.line(depth, f"{before} = {text}")
        super().loop(head, near_angles(body, self.names.fresh, wide), depth, variable)
        self.wide = ""
        self.line(depth, f"if {wide}:")
        for text, before in kept:
            self.line(depth + 1, f"{text} = {before}")
        self.is_plain = True
        super().loop(head, body, depth + 1, variable)
        self.is_plain = False
        self.names = outside

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
        # Numba's own max is one more function to compile.
        rest = f"{low} + ({stop} - {low} if {low} < {stop} else 0)//{CHAINS}*{CHAINS}"
        self.line(depth, f"for {variable} in range({rest}, {stop}):")
        self.line(depth + 1, f"{own} = {greatest}({own}, {self.scalar(add.value)})")

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


def print_program(program: Program, parallel: frozenset[str] = frozenset()) -> str:
    """The text of a module whose ``run`` fills the outputs of ``program``.

    ``parallel``: the names of the functions that run on several cores.
    """
    prover = Prover(program)
    program = fuse(program, prover)
    blocks = {block_name(step) for step in program.kernels if function_name(step) in parallel}
    blocks |= {part_name(step) for step in program.kernels if isinstance(step, Correlation)}
    names = module_names(program, OWN_NAMES | blocks)
    decorators = Decorators(program, names)
    functions = Functions()
    made = frozenset(array.name for array in (*program.outputs, *program.temporaries) if not array.shape)

    def values(step: Step) -> frozenset[str]:
        """The arrays of rank 0 of which a step is passed the entry: in a ``prange``, Numba takes no other."""
        return made.difference(filled_arrays(step)) if isinstance(step, Kernel | Fused) else frozenset()

    def printer(kernel: Kernel, bare: frozenset[str], outer: tuple[str, ...]) -> NumbaPrinter:
        return NumbaPrinter(names, kernel, bare, prover, outer)

    for step in program.kernels:
        is_block = function_name(step) in parallel
        bare = scalar_arrays(program.arguments) | values(step)
        if isinstance(step, Kernel):
            text = NumbaPrinter(names, step, bare, prover, (), is_block).print()
        elif isinstance(step, Fused):
            text = Together(step, names, bare, prover, printer, is_block).print()
        elif isinstance(step, Correlation):
            part, whole = correlation_texts(step, names, prover.shapes, is_block)
            text = (decorators.once if is_block else decorators.inner) + part
            text += f"\n\n\n{decorators.of(step, is_block)}{whole}"
        elif decorators.is_whole:
            assert isinstance(step, Contraction)
            text = product_text(step, names, prover.shapes, is_block)
        else:
            text = library_text(step, program, names)
        decorator = "" if isinstance(step, Correlation) else decorators.of(step, is_block)
        if is_block and isinstance(step, Kernel | Fused):
            text = f"{decorators.once}{text}\n\n\n{decorators.blocks}{blocks_text(step, names, prover)}"
            decorator = ""
        rows = [names(array.name) for array in step.rows] if isinstance(step, Fused) else []
        functions.add(step, text, [*passed_names(step, names), *rows], decorator)
    if decorators.is_whole:
        # Strips are slower within the driver: the row fir took 1.08 times as long.
        strips = [step for step in program.kernels if isinstance(step, Kernel) and runs_in_strips(step, prover)]
        called = {function_name(step) for step in strips if not isinstance(step, Scatter)}
        functions.inline((decorators.kernel, decorators.product), INLINED, called)
    own = (
        (r" = plus\(", decorators.plus, PLUS),
        (r"\bat\(", decorators.inner, AT),
        (r" = panels\(", decorators.inner, PANELS),
        (MARK, "", TILE),
        (r"\bmultiply\(", "", MULTIPLY),
    )
    pieces = [ONCE] if any(text.startswith(decorators.once) for text in functions.texts) else []
    pieces += elementary_functions(functions.texts)
    pieces += helpers(program, NumbaPrinter.functions, HELPERS, decorators.inner)
    pieces += [decorator + text for mark, decorator, text in own if any(re.search(mark, t) for t in functions.texts)]
    if not decorators.is_whole:
        pieces += library_helpers(program.kernels, functions.texts)
    # What NumPy warns of is no news: compiled loops are silent about it.
    has_calls = not all(isinstance(step, Kernel | Fused) for step in program.kernels)
    around = 'with np.errstate(all="ignore"):' if has_calls and not decorators.is_whole else ""
    arrays = scratch_arrays(program, names) if decorators.is_whole else []
    pieces += [
        *functions.called_texts,
        decorators.run + host_driver(program, names, functions, around, None, values, arrays),
    ]
    if arrays:
        pieces.append(decorators.product + scratch_text(program, names, arrays))
        pieces.append(decorators.run + run_text(program, names, arrays))
    top = [header(program, "numba", names), imports(pieces, decorators.imports(pieces)), labels(program, names)]
    return "\n\n\n".join(["\n\n".join(top), *pieces]) + "\n"
