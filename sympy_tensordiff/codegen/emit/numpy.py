"""Programs as NumPy modules: each kernel computes all entries at once, and sums along axes of their own.

A sum of products is an ``einsum`` of two arrays (`numpy_products`); other sums are cut into blocks, so that
intermediate arrays have `numpy_sums.BLOCK` entries at most, or no more than their operands. Conditions shorten slices
or are masks (`numpy_lanes`). A sum whose range depends on the entry is a running sum (`numpy_sums`), or a sum over the
widest range with zeros (`numpy_products`); else it is a Python loop over the widest range, in which each operation
covers the entries for which the index is in bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sympy_tensordiff.codegen.emit import numpy_sums
from sympy_tensordiff.codegen.emit.base import initial_value_text
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
from sympy_tensordiff.codegen.emit.forms import Block, Names, tuple_text
from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS, called_by
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES, library_text
from sympy_tensordiff.codegen.emit.numpy_lanes import Lanes, Span
from sympy_tensordiff.codegen.emit.numpy_products import find_offsets, over_widest_range, print_product, print_window
from sympy_tensordiff.codegen.emit.numpy_scalars import Frame, StoredValue, VectorPrinter
from sympy_tensordiff.codegen.emit.numpy_sums import Additions, Narrowing, is_short, loop_ends
from sympy_tensordiff.codegen.emit.recurrences import recurrence_text, step_function, with_own_functions
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover, axis_rows, loop_rows
from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Set,
    Statement,
    is_accumulator,
    is_addition,
    is_let,
    is_scatter,
    is_store,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import Correlation, Fused, Kernel, Program, Recurrence, Scatter
from sympy_tensordiff.codegen.ir.scalars import Load, Number, Operation
from sympy_tensordiff.codegen.ir.walk import dependences, scalar_arrays
from sympy_tensordiff.integer.affine import Affine, Row

OWN_NAMES = frozenset({"real", "BLOCK", *NUMPY_HELPERS, *LIBRARY_NAMES})

_FILL_FUNCTIONS = {"0": ("zeros", ""), "1": ("ones", "")}
"""The NumPy functions that make arrays of one value, and their further arguments."""


def print_program(program: Program) -> str:
    """Return the text of a module whose ``run`` fills the outputs of ``program``."""
    names = module_names(program, OWN_NAMES)
    pieces = print_steps(program, names)
    pieces = [*called_by(pieces, NUMPY_HELPERS | LIBRARY_HELPERS).values(), *pieces]
    return module_text(program, "numpy", names, pieces, constants=block_constant(pieces))


def block_constant(pieces: Iterable[str]) -> str:
    """Return the definition of the constant of sums in blocks, if one of the texts uses it."""
    has_blocks = any(re.search(r"\bBLOCK\b", piece) for piece in pieces)
    return (
        f"BLOCK = {numpy_sums.BLOCK}  # entries that are computed at once where a sum is cut into blocks" * has_blocks
    )


def recurrence_pieces(step: Recurrence, names: Names) -> list[str]:
    """Return the functions of the body of a recurrence, and that of the recurrence itself, last."""
    own = module_names(step.body, {*OWN_NAMES, step_function(step)})
    inner = with_own_functions(step, print_steps(step.body, own, step_function(step)), step_function(step))
    return [*inner, recurrence_text(step, names)]


def print_steps(program: Program, names: Names, name: str = "run") -> list[str]:
    """Return the functions of all steps of a program, and the function ``name`` that calls them, last."""
    prover = Prover(program)
    bare = scalar_arrays(program.arguments)
    functions = Functions(names)
    inner: list[str] = []
    for kernel in program.kernels:
        assert not isinstance(kernel, Fused | Correlation)
        if isinstance(kernel, Recurrence):
            *below, text = recurrence_pieces(kernel, names)
            inner += below
            functions.add(kernel, text)
            continue
        if not isinstance(kernel, Kernel):
            functions.add(kernel, library_text(kernel, program, names))
            continue
        printer = KernelPrinter(kernel, bare, names.copy(), prover)
        text = printer.print()
        functions.add(kernel, text, passed=printer.passed)
    around = 'with np.errstate(all="ignore"):' if name == "run" else ""
    return [*inner, *functions.texts, host_driver(program, names, functions, around, name=name)]


class KernelPrinter:
    """Prints one kernel as a NumPy function: its statements over all lanes at once."""

    def __init__(self, kernel: Kernel, bare: frozenset[str], names: Names, prover: Prover) -> None:
        self.kernel = kernel
        self.names = names
        self.values = VectorPrinter(names, prover, bare)
        self.narrowing = Narrowing(self.values, prover)
        self.additions = Additions(self.narrowing)
        self.depends = dependences(kernel)
        self.passed: list[str] = []
        """The arguments of the function."""
        self.box = kernel.box(self.values.shapes)
        self.root = Lanes(tuple(Span(axis, Affine.of(0), n) for axis, n in zip(kernel.axes, self.box, strict=True)))

    def print(self) -> str:
        """Return the text of the function, and set ``passed``."""
        block = Block()
        inner = block.child("")
        inner.line(f'"""{task_text(self.kernel, self.names)}."""')
        inner.line(f"real = {self.names(self.kernel.array)}.dtype.type")
        frame = Frame(self.root, inner, (), axis_rows(self.kernel, self.values.shapes))
        for extent in self.box:  # slices with negative ends and views of negative lengths mean something else
            frame = self.narrowing.if_nonempty(frame, Affine.of(0), extent)
        self.print_body(self.kernel.body, frame)
        _, *lines = block.render()
        # Sizes in the shapes of arrays are passed if the text contains them.
        words = set(WORD.findall("\n".join(lines)))
        forms = [form for array in uses(self.kernel).arrays for form in self.values.shapes[array]]
        sizes = {name for form in forms for name in form.atoms() if isinstance(name, str) and self.names(name) in words}
        self.passed = passed_names(self.kernel, self.names, [*self.box, *map(Affine.variable, sizes)])
        return "\n".join(without_unused_real([head_text(self.kernel, self.passed), *lines]))

    def print_body(self, body: tuple[Statement, ...], frame: Frame) -> None:
        """Append statements over the lanes of ``frame``."""
        with self.values.inside(frame):
            for statement in body:
                if isinstance(statement, Loop):
                    self.print_loop(statement, frame)
                elif isinstance(statement, If):
                    self.print_body(statement.body, self.narrowing.restrict_lanes(frame, statement.conditions))
                elif is_accumulator(statement):
                    self.print_accumulator(statement, frame)
                elif is_let(statement):
                    self.print_let(statement, frame)
                elif is_addition(statement):
                    self.additions.add(statement.name, statement.value, reduction_of(statement), frame)
                elif is_scatter(statement):
                    self.print_scatter(statement, frame)
                elif is_store(statement):
                    text = self.values.scalar(statement.value)
                    frame.block.line(f"{self.names(self.kernel.array)}[...] = {text}")

    # ------------------------------------------------------------------------ values

    def print_let(self, statement: Set, frame: Frame) -> None:
        """Append the definition of a scalar, which is an array over the lanes along which it varies."""
        text = self.values.argument(statement.value)
        self.values.stored[statement.name] = StoredValue(frame.lanes, self.values.varies(statement.value), frame.mask)
        frame.block.line(f"{self.names(statement.name)} = {text}")

    def print_accumulator(self, statement: Set, frame: Frame) -> None:
        """Append the initialisation of a reduction."""
        name, start = statement.name, initial_value_text(reduction_of(statement))
        lanes = frame.lanes
        varies = lanes.dims_of(*map(Affine.variable, self.depends[name]))
        self.values.stored[name] = StoredValue(lanes, varies, frame.mask)
        text = f"real({start})"
        if varies:
            function, value = _FILL_FUNCTIONS.get(start, ("full", f", {start}"))
            if lanes is self.root and len(varies) == len(lanes.dims) and not isinstance(self.kernel, Scatter):
                text = f"np.{function}_like({self.names(self.kernel.array)}{value})"
            else:
                lengths = [
                    self.values.form(dim.length) if wanted else "1" for dim, wanted in lanes.dims_from_first(varies)
                ]
                shape = f"({', '.join(lengths)})" if len(lengths) > 1 else lengths[0]
                text = f"np.{function}({shape}{value}, real)"
        frame.block.line(f"{self.names(name)} = {text}")

    def print_scatter(self, statement: Set, frame: Frame) -> None:
        """Append one addition per lane to the entries of an array, in order; repeated indices count each time."""
        value = statement.value
        lanes, array = frame.lanes, self.names(self.kernel.array)
        images = [lanes.image(form) for form in statement.index]
        if frame.mask is not None:
            value = Operation("select", (frame.mask, value, Number(0)))
        elif not lanes.dims or (isinstance(self.kernel, Scatter) and self.kernel.exclusive):
            target = self.values.target_text(array, images, self.values.shapes[self.kernel.array], frame.block)
            frame.block.line(f"{target} += {self.values.scalar(value)}")
            return
        text, entries = self.values.scalar(value), self.values.index_arrays(self.kernel.array, statement.index)
        whole = tuple_text(self.values.form(dim.length) for dim in lanes.dims)
        if lanes.dims_of(*statement.index) != frozenset(lanes.dims):
            entries[0] = f"np.broadcast_to({entries[0]}, {whole})"
        if self.values.varies(value) not in (frozenset(), frozenset(lanes.dims)):
            # NumPy 2.4 reads past the end of values with fewer axes than one array of places has.
            text = f"np.broadcast_to({text}, {whole})"
        places = f"({', '.join(entries)})" if len(entries) > 1 else entries[0]
        frame.block.line(f"np.add.at({array}, {places}, {text})")

    # ------------------------------------------------------------------------ loops

    def print_loop(self, loop: Loop, frame: Frame) -> None:
        """Append a loop: as array operations if possible, else as a Python loop."""
        wide = self.narrowing.widest(loop, frame)
        if wide == loop:
            # One more dimension is worth it for a long sum, not for a short one.
            is_done = print_product(loop, frame, self.additions) or (
                not is_short(loop) and self.print_as_dimension(loop, frame)
            )
        else:
            is_done = not is_short(wide) and (
                self.print_by_offsets(loop, wide, frame)
                or self.additions.print_running_reduction(loop, wide, frame)
                or print_window(loop, wide, frame, self.additions)
                or self.print_over_widest_range(loop, wide, frame)
            )
        if not is_done:
            self.print_python_loop(loop, wide, frame)

    def print_python_loop(self, loop: Loop, wide: Loop, frame: Frame) -> None:
        """Append a Python loop over the range ``wide``, whose body covers the lanes for which the value is in range."""
        lows, stops = loop_ends(wide)
        low = self.values.extreme("max", self.narrowing.without_dominated(lows, 1, frame.known))
        stop = self.values.extreme("min", self.narrowing.without_dominated(stops, -1, frame.known))
        span = stop if low == "0" else f"{low}, {stop}"
        inner = frame.child(f"for {self.names(loop.variable)} in range({span}):", loop_rows(wide))
        tied = frame.lanes.varying_rows(loop_rows(loop))
        self.print_body(
            loop.body, self.narrowing.restrict_lanes(inner._replace(context=frame.context + loop_rows(wide)), tied)
        )

    def print_by_offsets(self, loop: Loop, wide: Loop, frame: Frame) -> bool:
        """Append a loop each of whose values touches few adjacent entries as a loop over these; return False for other
        loops.

        ``s[2*i + a] += v(i, a)`` for ``a = 0, 1, 2`` becomes three operations on all ``i``, in place of a loop over
        ``i`` with three entries each: the entries of one ``a`` are distinct, with a constant stride.
        """
        found = find_offsets(loop, frame.lanes)
        if found is None:
            return False
        old, first, length = found
        span, frame = self.narrowing.span(frame, wide)
        offset = self.names.fresh(f"{self.names(old.axis)}_offset")
        step, axis = Affine.variable(offset), Affine.variable(old.axis)
        known = (Row("ge", step), Row("ge", length - 1 - step))
        frame = frame.child(f"for {offset} in range({length}):", known)
        lanes = frame.lanes.replace(old, span, first + step)
        context = (*frame.context, *loop_rows(loop), Row("eq", first + step - axis))
        inside = (Row("ge", axis - old.low), Row("ge", old.stop - 1 - axis))
        rows = frame.lanes.varying_rows(loop_rows(loop)) + inside
        self.print_body(loop.body, self.narrowing.restrict_lanes(frame._replace(lanes=lanes, context=context), rows))
        return True

    def print_over_widest_range(self, loop: Loop, wide: Loop, frame: Frame) -> bool:
        """Append a sum over the widest range with zeros, and a Python loop for calls in which it is not valid; False if
        none is.
        """
        found = over_widest_range(loop, wide, frame, self.additions)
        if found is None:
            return False
        sum_over, conditions = found
        inner = frame
        if conditions:
            inner = frame.child(f"if {' and '.join(conditions)}:")
            self.print_python_loop(loop, wide, frame.child("else:"))
        with self.values.inside(inner):
            if not print_product(sum_over, inner, self.additions):
                self.print_as_dimension(sum_over, inner)
        return True

    def print_as_dimension(self, loop: Loop, frame: Frame) -> bool:
        """Append a loop as reductions along one more dimension, in blocks if terms are computed; return True."""
        span, frame = self.narrowing.span(frame, loop)
        if not _adds_view_entries(loop.body):
            span, frame = self.narrowing.blocks(frame, span, frame.lanes.dims)
        self.print_body(loop.body, frame._replace(lanes=frame.lanes.with_outer(span)))
        return True


def _adds_view_entries(body: tuple[Statement, ...]) -> bool:
    """Return whether the body only adds up entries of an array along its axes, which needs no memory."""
    if len(body) != 1 or not is_addition(body[0]) or not isinstance(body[0].value, Load):
        return False
    names = [name for form in body[0].value.index for name in form.atoms()]
    return len(set(names)) == len(names) and not any(form.hidden() for form in body[0].value.index)
