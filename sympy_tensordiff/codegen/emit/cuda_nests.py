"""Steps as functions for ``cuda.jit``: one thread for each value of the axes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.emit.base import NestPrinter
from sympy_tensordiff.codegen.emit.driver import (
    WORD,
    passed_names,
    pattern,
    task_text,
    without_unused_real,
)
from sympy_tensordiff.codegen.emit.forms import CHOICE, PRODUCT, SUM, UNARY, FormPrinter, Names
from sympy_tensordiff.codegen.emit.helpers import TYPED_HELPERS
from sympy_tensordiff.codegen.ir.bounds import check_bounds
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import ZERO, span, with_numbers
from sympy_tensordiff.codegen.ir.programs import Fused, Kernel, Scatter, kernels_of
from sympy_tensordiff.codegen.ir.scalars import Ends, External, Name, Scalar
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import filled_arrays, function_name, own_names
from sympy_tensordiff.codegen.schedule.launches import common_axes
from sympy_tensordiff.codegen.schedule.stages import SHORT
from sympy_tensordiff.integer.affine import Affine, quotient
from sympy_tensordiff.integer.data import DataEntry, data_entries
from sympy_tensordiff.integer.products import slope, times


class CudaPrinter(NestPrinter):
    """A kernel as a function for ``cuda.jit``, over arrays of one axis that hold the entries in order.

    What costs on a device is the arithmetic of indices. An unsigned place has no case for negative ones; ``while``
    has one comparison and one addition in a round, where ``range`` counts rounds beside; and with places of 64 bits
    the compiler finds out on its own by how much each of them grows.
    """

    functions: Mapping[str, str] = {**NestPrinter.functions, "floor": "floor", "ceil": "ceil", "real": "real"}

    def __init__(self, names: Names, step: Kernel | Fused, shapes: Shapes, chosen: Collection[int] | None) -> None:
        super().__init__(names.copy(), frozenset())
        self.shapes = shapes
        self.axes = common_axes(step)
        self.box = kernels_of(step)[0].box(shapes)[: len(self.axes)]
        self.is_met = isinstance(step, Scatter) and not step.exclusive
        """Whether several threads add to one entry."""
        self.own = list(dict.fromkeys(name for kernel in kernels_of(step) for name in own_names(kernel)))
        self.chosen = chosen
        """The numbers of the ``constants`` that are passed to the function; None for all of them."""
        self.constants: list[Affine] = []
        """What no thread changes of bounds and places, and what could be passed to the function therefore."""
        self.parameters: dict[str, Affine] = {}
        self.long: set[str] = set()
        """The variables of loops of many rounds."""

    def constant_of(self, form: Affine, wish: str) -> str | None:
        """The name of a constant that is passed to the function; None where it is not."""
        number = len(self.constants)
        self.constants.append(form)
        if self.chosen is not None and number not in self.chosen:
            return None
        name = self.names.fresh(wish)
        self.parameters[name] = form
        return name

    def length(self, form: Affine, level: int = CHOICE) -> str:
        """An end of rounds or threads."""
        passed = self.constant_of(form, "length") if self.is_constant(form) else None
        return passed or self.form(form, level)

    def is_constant(self, form: Affine) -> bool:
        """Whether neither an axis or loop nor data change a form."""
        return form.atoms().isdisjoint(self.own) and not data_entries([form])

    def threads(self, body: Sequence[Statement]) -> None:
        """Append the lines that give each axis its value from the thread's place in the grid, and the nest."""
        for _ in self.axes:
            (loop,) = body
            assert isinstance(loop, Loop)
            body = loop.body
        axes = [self.names(axis) for axis in self.axes]
        # Quotients by these tell several axes: by constants, they are products.
        many = self.box[:-3] and self.box[:-2]
        shape = [self.form(extent, UNARY) for extent in many]
        shape += [self.length(extent, UNARY) for extent in self.box[len(many) :]]
        if len(axes) < 2:
            self.line(1, f"{axes[0] if axes else 'flat'} = cuda.grid(1)")
            self.line(1, f"if {axes[0]} < {shape[0]}:" if axes else "if flat == 0:")
            self.body(body, 2)
            return
        last, middle, outer = axes[-1], axes[-2], axes[0] if len(axes) == 3 else "flat"
        grid = [last, middle] if len(axes) == 2 else [last, "first_y", outer]
        self.line(1, f"{', '.join(grid)} = cuda.grid({len(grid)})")
        self.line(1, f"{', '.join(['_', 'step_y', 'step_z'][: len(grid)])} = cuda.gridsize({len(grid)})")
        self.line(1, f"if {last} < {shape[-1]}:")
        depth = 2
        if len(axes) > 2:
            self.line(2, f"while {outer} < {'*'.join(shape[:-2])}:")
            depth = 3
            self.mixed([outer] if len(axes) == 3 else axes[:-2], outer, 3)
            self.line(3, f"{middle} = first_y")
        self.line(depth, f"while {middle} < {shape[-2]}:")
        self.body(body, depth + 1)
        self.line(depth + 1, f"{middle} += step_y")
        if len(axes) > 2:
            self.line(3, f"{outer} += step_z")

    def mixed(self, axes: Sequence[str], flat: str, depth: int) -> None:
        """Append the lines that give several axes their values out of one number."""
        for number in range(len(axes) - 1, -1, -1):
            extent = self.form(self.box[number], UNARY)
            value = f"{flat} % {extent}" if number else flat
            if value != axes[number]:
                self.line(depth, f"{axes[number]} = {value}")
            flat = f"{flat}//{extent}"

    def place(self, array: str, index: Sequence[Affine]) -> str:
        """Where an entry of an array stands: the last axis runs fastest."""
        return self.strided(array, index) or self.nested(array, index)

    def strided(self, array: str, index: Sequence[Affine]) -> str:
        """The place as a sum over axes and loops, where some factors are passed to the function; else nothing."""
        shape = self.shapes[array]
        rest = sum((times(form, *shape[n:]) for n, form in enumerate(index, 1)), Affine())
        factors: list[tuple[str, Affine]] = []
        for name in self.own:
            found = slope(rest, name)
            if found is None or not self.is_constant(found[0]):
                return ""
            factors += [(name, found[0])] if found[0] != Affine() else []
            rest = found[1]
        if not self.is_constant(rest):
            return ""
        texts = []
        for name, factor in factors:
            # Of long loops, compilers add numbers to addresses once for several rounds, and with no instruction more.
            is_number = name in self.long and factor.is_constant
            texts.append((self.names(name), None if is_number else self.constant_of(factor, "stride"), factor))
        constant = None if rest == Affine() else self.constant_of(rest, "offset")
        if constant is None and all(text is None for _, text, _ in texts):
            return ""
        sums = [
            name if text is None and factor == Affine.of(1) else f"{text or self.form(factor, PRODUCT)}*{name}"
            for name, text, factor in texts
        ]
        sums += [] if rest == Affine() else [constant or self.form(rest, SUM)]
        return f"uint64({' + '.join(sums)})"

    def nested(self, array: str, index: Sequence[Affine]) -> str:
        """The place with as few products as there are axes."""
        total, text = Affine.of(0), ""
        for form, extent in zip(index, self.shapes[array], strict=True):
            if extent.is_constant and not text:
                total = total * extent.constant + form
                continue
            text = text or self.form(total, PRODUCT + 1)
            if text == "0":
                total, text = form, ""
                continue
            rest = "" if form == Affine.of(0) else " + " + self.form(form, SUM)
            text = f"({text}*{self.form(extent, PRODUCT + 1)}{rest})"
        text = text.removeprefix("(").removesuffix(")") if text else self.form(total)
        return text if text.isdecimal() else f"uint64({text})"

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        if function in TYPED_HELPERS:
            return f"{function}({', '.join([*map(self.argument, arguments), 'real'])})"
        return super().call(function, arguments)

    def data(self, entry: DataEntry) -> str:
        return f"{self.names(entry.tensor)}[{self.place(entry.tensor, entry.index)}]"

    def set_text(self, statement: Set) -> str:
        target = statement.target
        if isinstance(target, Name) or not self.is_met:
            return super().set_text(statement)
        assert not isinstance(statement.value, Ends)
        place = self.place(target.array, target.index)
        return f"cuda.atomic.add({self.names(target.array)}, {place}, real({self.scalar(statement.value)}))"

    def statement(self, statement: Statement, depth: int) -> None:
        if not isinstance(statement, Loop):
            super().statement(statement, depth)
            return
        variable, stop = self.names(statement.variable), self.end(statement)
        self.line(depth, f"{variable} = {self.lower(statement.lows)}")
        if not stop.isalnum():
            end = self.names.fresh(f"{variable}_stop")
            self.line(depth, f"{end} = {stop}")
            stop = end
        self.line(depth, f"while {variable} < {stop}:")
        self.body(statement.body, depth + 1)
        self.line(depth + 1, f"{variable} += {self.form(Affine.of(statement.step))}")

    def end(self, loop: Loop) -> str:
        """One more than the last value. That of few rounds stays a constant: compilers unroll them."""
        form, *others = (quotient(bound.form, bound.divisor) + 1 for bound in loop.highs)
        if not others and form.is_constant and form.constant < SHORT:
            return self.stop(loop.highs)
        self.long.add(loop.variable)
        return self.stop(loop.highs) if others else self.length(form)


# ---------------------------------------------------------------------------- functions


def _extents(step: Kernel | Fused, shapes: Shapes) -> list[Affine]:
    """What tells where entries stand, and which threads have one."""
    arrays = (*filled_arrays(step), *uses(step).arrays)
    box = [extent for kernel in kernels_of(step) for extent in kernel.box(shapes)]
    return [*box, *(extent for array in arrays for extent in shapes[array][1:])]


def _check(step: Kernel | Fused, nest: Sequence[Statement], shapes: Shapes) -> None:
    """Raise `VerificationError` where a nest breaks a law: among others, no two threads write one entry."""
    used, is_scatter = uses(step), isinstance(step, Scatter)
    sizes = {str(name) for extent in _extents(step, shapes) for name in extent.atoms()}
    known = {*used.scalars, *used.integers, *used.arrays, *sizes, *([step.array] if is_scatter else [])}
    # What scatters add to an entry is added atomically, or laws of their own say that they do not meet.
    totals = [step.array] if is_scatter else []
    NestLaws(known, filled_arrays(step), totals=totals).check(nest)


class Printed(NamedTuple):
    """The function of a step, without decorator, what is passed to it, and the constants that could be."""

    text: str
    arguments: list[str]
    constants: tuple[Affine, ...]


def kernel_functions(
    steps: Sequence[Kernel | Fused], names: Names, prover: Prover
) -> Iterator[tuple[Kernel | Fused, Printed]]:
    """The functions of all steps: those that are the same but for some constants are passed these."""
    shapes = prover.shapes
    nests = [thread_nest(step, shapes) for step in steps]
    for step, nest in zip(steps, nests, strict=True):
        _check(step, nest, shapes)
        check_bounds(nest, step, prover)
    open_ = [_kernel(step, nest, shapes, names, None) for step, nest in zip(steps, nests, strict=True)]
    patterns = [pattern(printed.text, names.texts) for printed in open_]
    alike: dict[str, list[tuple[Affine, ...]]] = {}
    for key, printed in zip(patterns, open_, strict=True):
        alike.setdefault(key, []).append(printed.constants)
    for step, nest, key in zip(steps, nests, patterns, strict=True):
        columns = enumerate(zip(*alike[key], strict=True))
        differ = [number for number, column in columns if len(set(column)) > 1]
        yield step, _kernel(step, nest, shapes, names, differ)


def _kernel(
    step: Kernel | Fused, nest: Sequence[Statement], shapes: Shapes, names: Names, chosen: Collection[int] | None
) -> Printed:
    """The function of a step, which is passed its constants with the numbers ``chosen``, or all of them."""
    printer = CudaPrinter(names, step, shapes, chosen)
    first, *others = (task_text(k, names) for k in kernels_of(step) if k.array in filled_arrays(step))
    what = "point" if isinstance(step, Scatter) else "entry"
    if isinstance(step, Fused):
        what = ", ".join(map(names, printer.axes))
    tasks = ", ".join([first, *(other.removeprefix("Fill ") for other in others)])
    printer.line(1, f'"""{tasks}, one thread per {what}."""')
    printer.line(1, f"real = {names(filled_arrays(step)[0])}.dtype.type")
    printer.threads(nest)
    words = set(WORD.findall("\n".join(printer.lines)))
    own = [name for name in passed_names(step, names, _extents(step, shapes)) if name in words]
    head = f"def {function_name(step)}({', '.join([*own, *printer.parameters])}):"
    arguments = [*own, *map(FormPrinter(names).form, printer.parameters.values())]
    return Printed("\n".join(without_unused_real([head, *printer.lines])), arguments, tuple(printer.constants))


def thread_nest(step: Kernel | Fused, shapes: Shapes) -> tuple[Statement, ...]:
    """A step with threads for the values of its axes: the last one along x, the one before along y, the others z."""
    axes = common_axes(step)
    numbers = {array.name for array in step.rows} if isinstance(step, Fused) else set()
    body: tuple[Statement, ...] = ()
    for kernel in kernels_of(step):
        inner = with_numbers(kernel.body, numbers)
        for axis, extent in list(zip(kernel.axes, kernel.box(shapes), strict=True))[: len(axes) - 1 : -1]:
            inner = (span(axis, ZERO, extent, inner),)
        body += inner
    box = kernels_of(step)[0].box(shapes)
    for number, axis in enumerate(reversed(axes)):
        extent = box[len(axes) - 1 - number]
        body = (replace(span(axis, ZERO, extent, body), bind=f"grid.{'xyz'[min(number, 2)]}"),)
    return body
