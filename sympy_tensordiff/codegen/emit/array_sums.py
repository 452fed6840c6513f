"""Conditions, loop ranges and reductions as array operations: narrower spans, masks, summed dimensions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from sympy_tensordiff.codegen.emit.array_lanes import SHORT_LENGTH, Lanes, Span, SpanEnds, sort_conditions
from sympy_tensordiff.codegen.emit.array_scalars import PrintingContext, StoredValue, VectorPrinter, slope_along
from sympy_tensordiff.codegen.emit.base import initial_value_text
from sympy_tensordiff.codegen.emit.dialects import Dialect
from sympy_tensordiff.codegen.emit.forms import ATOM, SUM, UNARY, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.ir.facts import Prover, condition_of, loop_rows
from sympy_tensordiff.codegen.ir.loops import Loop, Set, Statement, is_addition, reduction_of
from sympy_tensordiff.codegen.ir.scalars import (
    EXTREMA,
    Bound,
    External,
    Identity,
    Load,
    Name,
    Number,
    Operation,
    Reduction,
    Scalar,
)
from sympy_tensordiff.codegen.ir.walk import subexpressions
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.indirect import bound_of_data, data_entries
from sympy_tensordiff.integer.rows import Rows

WINDOW_BLOCK_FACTOR = 64
"""The most entries of windows that are copied at once for a matrix product, as a multiple of ``Dialect.block``.

Half and twice of it change no text of the benchmarks.
"""

SHORTEST_LENGTH = 4
"""The greatest length of a loop that is written out although a compiler fuses sums.

A minimum image in three dimensions takes 1.8 of the time of JAX's own gradient, and 5.4 as a dimension of length 3.
"""


LONG_ARITHMETIC = 7
"""The fewest operations of the terms of a sum that XLA computes before it adds them up.

Then 1e5 terms of 10 operations take 0.32 of the time, of 2 and 3 operations 1.2 to 1.6; of 5 from 0.54 to 1.9.
"""

OPERATIONS_OF_FUNCTION = 8
"""The operations by which each function, such as an exponential, raises `LONG_ARITHMETIC`: sums compute it faster."""

_ARITHMETIC = frozenset({"add", "mul", "pow", "sqrt", "max", "min", "floor", "abs"})
"""The functions that count as one operation each; a change of sign counts as none."""


class Narrowing:
    """Restricts array code to the entries at which conditions are true: by a Python ``if``, by narrower ranges of
    indices, or by a mask.
    """

    def __init__(self, values: VectorPrinter, prover: Prover) -> None:
        self.values = values
        self.prover = prover

    def restrict_lanes(self, frame: PrintingContext, rows: Rows) -> PrintingContext:
        """Return the context `frame` restricted to the entries at which the constraints ``rows`` hold: by narrower
        ranges of its dimensions, an ``if`` or a mask. The code for these is printed.
        """
        found = sort_conditions(frame.lanes, rows, self.values.dialect.is_pure)
        scalar = tuple(row for row in found.scalar if not self.prover.proves(row, frame.known))
        if scalar:
            frame = frame.child(f"if {' and '.join(map(self.values.condition, scalar))}:", scalar)
        for axis, wanted in found.spans.items():
            frame = self._narrow_span(frame, axis, wanted)
        frame = frame._replace(context=(*frame.context, *found.dense))
        if not found.mask:
            return frame
        mask = self.values.names.fresh("mask")
        with self.values.inside(frame):
            tests = [f"({self.values.condition(row)})" for row in found.mask]
            varies = frame.lanes.dims_of(*(row.form for row in found.mask))
            if frame.mask is not None:
                tests.insert(0, self.values.scalar(frame.mask, SUM))
                varies |= self.values.varies(frame.mask)
            frame.block.line(f"{mask} = {' & '.join(tests) if len(tests) > 1 else tests[0][1:-1]}")
        self.values.stored[mask] = StoredValue(frame.lanes, varies, None)
        self.values.add_mask(mask, found.mask, frame.mask)
        return frame._replace(mask=Name(mask))

    def _narrow_span(self, frame: PrintingContext, axis: str, wanted: SpanEnds) -> PrintingContext:
        """Return `frame` with the index ``axis`` restricted to values within the bounds ``wanted``. Code printed in
        this frame runs only if there are such values.

        A frame has the vectorised dimensions, the mask and the text block of the code to print.
        """
        span = frame.lanes.dim(axis)
        low, frame = self._extreme(frame, f"{axis}_low", [span.low, *wanted.lows], 1)
        stop, frame = self._extreme(frame, f"{axis}_stop", [span.stop, *wanted.stops], -1)
        frame = self.if_nonempty(frame, low, stop)
        return frame._replace(lanes=frame.lanes.replace(span, Span(axis, low, stop)))

    # ------------------------------------------------------------------------ loops

    def widest(self, loop: Loop, frame: PrintingContext) -> Loop:
        """Return ``loop`` with a range that is the same for all entries of an array and contains the range of each: ``j
        < n`` for ``j <= i``. ``frame`` has the dimensions of the array.
        """

        def furthest(bounds: Sequence[Bound], name: str, sign: int) -> tuple[Bound, ...]:
            """Return the lower (``sign`` -1) or upper (1) ``bounds`` of a loop with each one replaced by its least or
            greatest value over all array entries, so that it does not depend on the entry.

            ``name`` becomes part of the names of new variables.
            """
            if self.values.dialect.is_pure:  # the others contain the range
                bounds = [bound for bound in bounds if bound_of_data(bound.form, sign) is not None] or bounds
            forms = [self._furthest(bound.form, f"{loop.variable}_{name}", sign, frame) for bound in bounds]
            return tuple([Bound(form, bound.divisor) for form, bound in zip(forms, bounds, strict=True)])

        return Loop(loop.variable, furthest(loop.lows, "low", -1), furthest(loop.highs, "high", 1), loop.body)

    def _furthest(self, form: Affine, name: str, sign: int, frame: PrintingContext) -> Affine:
        """Return the greatest (``sign`` 1) or least (-1) value of `form` over all array entries that code in ``frame``
        computes. If this is not an affine form, append a line that computes it, and return a new variable with a name
        like ``name``.
        """
        image = frame.lanes.image(form)
        if self.values.dialect.is_pure:
            image = _without_data(image, sign)
        extreme = frame.lanes.extreme(image, sign)
        if extreme is not None:
            return extreme
        variable = self.values.names.fresh(name)
        text, function = self.values.form, "max" if sign > 0 else "min"
        if self.values.dialect.is_pure:  # an array may be traced, and a bound has to be known
            spans = map(frame.lanes.dim, frame.lanes.axes_in(image))
            names, printer = self.values.names, FormPrinter(self.values.names)
            loops = [f"for {names(one.axis)} in range({text(one.low)}, {text(one.stop)})" for one in spans]
            frame.block.line(f"{variable} = {function}({' '.join([printer.form(image), *loops])})")
        else:
            frame.block.line(f"{variable} = np.{function}({text(image)})")
        return Affine.variable(variable)

    def span(self, frame: PrintingContext, loop: Loop) -> tuple[Span, PrintingContext]:
        """Return ``(range, context)`` to print `loop`, whose bounds are the same for all entries, as one array
        operation: the range of its variable, and the context for printing its body. Print a test that the range is not
        empty.
        """
        lows, stops = ([frame.lanes.image(form) for form in forms] for forms in loop_ends(loop))
        low, frame = self._extreme(frame, f"{loop.variable}_low", lows, 1)
        stop, frame = self._extreme(frame, f"{loop.variable}_stop", stops, -1)
        frame = self.if_nonempty(frame, low, stop)
        return Span(loop.variable, low, stop), frame._replace(context=frame.context + loop_rows(loop))

    def blocks(
        self, frame: PrintingContext, span: Span, others: Sequence[Span], times: int = 1
    ) -> tuple[Span, PrintingContext]:
        """Print a loop over blocks of ``span``, so that an array along ``span`` and ``others`` has at most
        ``times*BLOCK`` entries, if possible. Return the range of one block and the context inside of the loop; ``span``
        and ``frame`` if no loop is needed.

        No loop is needed if a compiler fuses the sum, if it is short, or if the array is one axis of another one.
        """
        lengths = [dim.length for dim in (span, *others)]
        dialect = self.values.dialect
        if dialect.is_fused or (dialect.is_pure and span.is_short and span.length.constant <= SHORTEST_LENGTH):
            return span, frame
        if dialect.is_pure and not others and any(span.length in shape for shape in self.values.shapes.values()):
            return span, frame  # no longer than an array of the program, and read by slices of it
        if all(n.is_constant for n in lengths) and prod(n.constant for n in lengths) <= dialect.block * times:
            return span, frame
        name, fresh, form = self.values.names(span.axis), self.values.names.fresh, self.values.form
        first, last, step = fresh(f"{name}_from"), fresh(f"{name}_to"), "BLOCK" if times == 1 else f"{times}*BLOCK"
        if others:
            texts = [form(dim.length) for dim in others]
            width = "*".join(f"({text})" if " " in text else text for text in texts)
            most, step = step, fresh("block")
            frame.block.line(f"{step} = max(1, {most}//{f'({width})' if '*' in width else width})")
        low, stop = Affine.variable(first), Affine.variable(last)
        known = (Constraint("ge", low - span.low), Constraint("ge", span.stop - stop), Constraint("ge", stop - low - 1))
        frame = frame.child(f"for {first} in range({form(span.low)}, {form(span.stop)}, {step}):", known)
        frame.block.line(f"{last} = min({first} + {step}, {form(span.stop)})")
        return Span(span.axis, low, stop), frame

    def without_dominated(self, forms: list[Affine], sign: int, known: Rows) -> list[Affine]:
        """Return ``forms`` without those that cannot be the maximum (``sign`` 1) or minimum (-1): another form is
        provably as large, or as small, given the constraints ``known``.
        """
        remaining: list[Affine] = []
        for form in dict.fromkeys(forms):
            if not any(self.prover.proves(Constraint("ge", (other - form) * sign), known) for other in remaining):
                remaining = [o for o in remaining if not self.prover.proves(Constraint("ge", (form - o) * sign), known)]
                remaining.append(form)
        return remaining

    def if_nonempty(self, frame: PrintingContext, low: Affine, stop: Affine) -> PrintingContext:
        """Open an ``if`` block that runs only if ``low < stop``, and return the frame (the context for printing) inside
        of it. If the condition is known to hold, open no block and return `frame` itself.
        """
        some = Constraint("ge", stop - low - 1)
        if self.prover.proves(some, frame.known):
            return frame
        return frame.child(f"if {self.values.condition(some)}:", (some,))

    def _extreme(
        self, frame: PrintingContext, name: str, forms: list[Affine], sign: int
    ) -> tuple[Affine, PrintingContext]:
        """Return ``(form, frame)``: the maximum (``sign`` 1) or minimum (-1) of the integer `forms`, and the frame for
        code that uses it. Unless one form is proved to be extreme, print the assignment of a new variable, named like
        ``name``.

        The new frame has the bounds of the variable.
        """
        remaining = self.without_dominated(forms, sign, frame.known)
        if len(remaining) == 1:
            return remaining[0], frame
        variable = Affine.variable(self.values.names.fresh(name))
        texts = ", ".join(map(self.values.form, remaining))
        frame.block.line(f"{self.values.form(variable)} = {'max' if sign > 0 else 'min'}({texts})")
        known = tuple(Constraint("ge", (variable - form) * sign) for form in remaining)
        return variable, frame._replace(known=frame.known + known)


def _without_data(form: Affine, sign: int) -> Affine:
    """Return an upper bound (``sign`` 1) or lower bound of ``form`` that contains no integer-array entries; raise
    UnsupportedError if there is none.
    """
    bound = bound_of_data(form, sign)
    if bound is None:
        entry = data_entries([form])[0]
        raise UnsupportedError(
            f"the range of a sum depends on {entry}: libraries that trace programs need a bound that is known "
            f"before the data, so declare {entry.tensor} with below=, or use another backend"
        )
    return bound


def tied_rows(loop: Loop, lanes: Lanes, dialect: Dialect) -> Rows:
    """Return the bounds of `loop` that differ between the entries of a vectorised result: they contain the index of a
    vectorised dimension in ``lanes``, as ``j <= i`` does. In a pure dialect, bounds with an entry of an integer array
    count, too.
    """
    rows = lanes.varying_rows(loop_rows(loop))
    if not dialect.is_pure:
        return rows
    return tuple([row for row in loop_rows(loop) if row in rows or data_entries([row.form])])


def _single_tie(rows: Rows, lanes: Lanes) -> tuple[Rows, Rows]:
    """Return ``((row,), others)`` for the first constraint in `rows` with exactly one vectorised dimension of
    ``lanes``, if no other constraint contains that dimension and the constraint contains no entry of an integer array.
    Return ``((), ())`` if there is none.
    """
    for row in rows:
        own, rest = lanes.dims_of(row.form), tuple([other for other in rows if other is not row])
        is_alone = len(own) == 1 and not own & lanes.dims_of(*(other.form for other in rest))
        if is_alone and not data_entries([row.form]):
            return (row,), rest
    return (), ()


def loop_ends(loop: Loop) -> tuple[list[Affine], list[Affine]]:
    """Return ``(lows, stops)``: the lower bounds of a loop, and its upper bounds plus 1, as in ``range(low, stop)``."""
    lows = [quotient(b.form + (b.divisor - 1), b.divisor) for b in loop.lows]
    return lows, [quotient(b.form, b.divisor) + 1 for b in loop.highs]


def is_short(loop: Loop, length: int = SHORT_LENGTH) -> bool:
    """Return whether a loop has at most ``length`` iterations, whatever the sizes are."""
    lows, stops = loop_ends(loop)
    lengths = [stop - low for stop in stops for low in lows]
    return any(n.is_constant and n.constant <= length for n in lengths)


# ---------------------------------------------------------------------------- sums of lanes


FUNCTIONS: dict[Reduction, tuple[str, str]] = {
    "sum": ("np.add", "+"), "prod": ("np.multiply", "*"), "max": ("np.maximum", ""), "min": ("np.minimum", ""),
}  # fmt: skip
"""The NumPy functions and the operators of reductions."""


class Additions:
    """Appends the lines of code that add array values to accumulators."""

    def __init__(self, narrowing: Narrowing) -> None:
        self.narrowing = narrowing
        self.values = narrowing.values
        self.complete: set[str] = set()
        """The lines that add to all entries of an accumulator."""
        self.lets: dict[str, Scalar] = {}
        """The values of names that are assigned once."""
        self.arguments: frozenset[str] = frozenset()
        """The arrays that are arguments of the program."""

    def is_polynomial(self, value: Scalar) -> bool:
        """Return whether `value` is a polynomial of entries of arguments, so that it is finite if they are."""
        waiting, seen = [value], set[str]()
        while waiting:
            for part in subexpressions(waiting.pop()):
                if isinstance(part, Name) and part.name in self.lets:
                    if part.name not in seen:
                        seen.add(part.name)
                        waiting.append(self.lets[part.name])
                elif isinstance(part, Load):
                    if part.array not in self.arguments:
                        return False
                elif not isinstance(part, Number) and not (
                    isinstance(part, Operation) and part.function in ("add", "mul", "neg")
                ):
                    return False
        return True

    def applies_to_all_lanes(self, name: str, frame: PrintingContext) -> bool:
        """Return whether the accumulator ``name`` was defined under the same mask as the code in `frame`, so that an
        addition to it needs no further mask.
        """
        return frame.mask == self.values.stored[name].mask

    def single_addition(self, body: Sequence[Statement], frame: PrintingContext) -> Set | None:
        """Return the only statement of ``body`` if it is an addition that needs no mask; else None."""
        is_one = len(body) == 1 and is_addition(body[0]) and self.applies_to_all_lanes(body[0].name, frame)
        return body[0] if is_one and isinstance(body[0], Set) else None

    def summed_dims(self, name: str, lanes: Lanes) -> tuple[Span, ...]:
        """Return the dimensions in ``lanes`` that are vectorised, but along which the accumulator `name` has no axis.
        Adding a vectorised value to it sums over them.
        """
        return lanes.dims[: len(lanes.dims) - len(self.values.stored[name].lanes.dims)]

    def add(self, name: str, value: Scalar, reduction: Reduction, frame: PrintingContext) -> None:
        """Append code to ``frame`` that updates the accumulator ``name`` by ``value``: adds it or, as `reduction` says,
        multiplies or takes the maximum or minimum. `value` is first reduced along the dimensions that the accumulator
        does not have.
        """
        if not self.applies_to_all_lanes(name, frame):
            assert frame.mask is not None
            neutral = Name(name) if reduction in EXTREMA else Number(int(reduction == "prod"))
            value = Operation("select", (frame.mask, value, neutral))
        varies = self.values.varies(value)
        text = self._reduction_text(value, self.summed_dims(name, frame.lanes), reduction, frame)
        self.update(name, text, reduction, frame, varies)

    def update(
        self, name: str, text: str, reduction: Reduction, frame: PrintingContext, varies: frozenset[Span] = frozenset()
    ) -> None:
        """Append a line to ``frame`` that updates the accumulator ``name`` with the array expression ``text`` by the
        operation `reduction`: ``s += text`` for a sum.

        ``varies`` are the dimensions along which the text is known to have entries.
        """
        function, operator = FUNCTIONS[reduction]
        if self.values.dialect.is_pure:
            own = self.values.names(name)
            part, own_dims = self._in_whole(name, text if varies else f"real({text})", reduction, frame)
            if operator == "*" and " " in part:
                part = f"({part})"
            line = f"{own} = {own} {operator} {part}" if operator else f"{own} = {function}({own}, {part})"
            frame.block.line(line)
            if own_dims <= varies:
                self.complete.add(line)
            return
        target = self._target(name, frame)
        if not operator and target.isidentifier() and target != self.values.names(name):
            target += "[...]"
        frame.block.line(f"{target} {operator}= {text}" if operator else f"{target} = {function}({target}, {text})")

    def _reduction_text(
        self, value: Scalar, summed: Sequence[Span], reduction: Reduction, frame: PrintingContext
    ) -> str:
        """Return the text of the reduction of ``value`` over the dimensions ``summed``, the outermost ones of
        ``frame``.
        """
        varies, dims = self.values.varies(value), self.values.lanes.dims
        counts = [self.values.form(dim.length) for dim in summed if dim not in varies]
        if varies.isdisjoint(summed):
            if not counts:
                return self.values.scalar(value)
            if reduction == "prod":  # an integer to the power of a length may be too large for a real number
                inner = self.values.scalar(value, ATOM) if varies else f"real({self.values.scalar(value)})"
            else:
                inner = self.values.scalar(value, UNARY)
            return reduce_copies(inner, counts, reduction)
        order = self.memory_order([value], varies)
        if not isinstance(value, Load | Name):  # inner loops of a compiled reduction are along the last axis
            order.sort(key=lambda dim: not dim.is_short)
        if self.values.dialect.is_fused and order != [dim for dim in dims if dim in varies]:
            return reduce_copies(self._reduced_in_order(value, order, summed, reduction, frame), counts, reduction)
        remaining = [dims.index(dim) for dim in varies if dim not in summed]
        axes = range(min(remaining) - min(map(dims.index, varies))) if remaining else range(0)
        axis = f"axis={tuple(axes) if len(axes) > 1 else 0}" if remaining else ""
        call = f".{self.values.dialect.methods.get(reduction, reduction)}({axis})"
        if reduction == "prod" and len(axes) > 1 and not self.values.dialect.reduces_several:
            call = ".prod(axis=0)" * len(axes)
        return reduce_copies(self._terms_text(value) + call, counts, reduction)

    def _terms_text(self, value: Scalar) -> str:
        """Return the text of ``value``, the array of the terms of a reduction. Long arithmetic is wrapped in a call
        that makes the library's compiler compute it before the reduction, if the dialect has such a call.
        """
        template = self.values.dialect.computed_first
        if template and self._excess_of_arithmetic(value) >= LONG_ARITHMETIC:
            return template.format(self.values.scalar(value))
        return self.values.scalar(value, ATOM)

    def _excess_of_arithmetic(self, value: Scalar) -> int:
        """Return the number of arithmetic operations in the terms ``value`` of a reduction, less
        `OPERATIONS_OF_FUNCTION` for each call of another function, such as exp. If it is large, the terms are better
        computed before the reduction.

        The definitions of names in ``value`` count as well.

        Branches of a choice, and operations along fewer dimensions than ``value``, do not count.
        """
        count, waiting, seen = 0, [value], set[str]()
        dims = self.values.varies(value)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Name) and node.name in self.lets and node.name not in seen:
                seen.add(node.name)
                waiting.append(self.lets[node.name])
            if not isinstance(node, Operation) or node.function == "select":
                continue
            wide = [part for part in node.arguments if self.values.varies(part) == dims]
            if node.function != "neg" and Number(-1) not in node.arguments[:1] and self.values.varies(node) == dims:
                is_arithmetic = node.function in _ARITHMETIC
                count += max(len(wide) - 1, 1) if is_arithmetic else -OPERATIONS_OF_FUNCTION
            waiting += node.arguments
        return count

    def memory_order(self, values: Sequence[Scalar], dims: Collection[Span]) -> list[Span]:
        """Return the dimensions ``dims`` in the order in which they are axes of the arrays that ``values`` read. Arrays
        that vary along more dimensions decide first.
        """
        lanes = self.values.lanes
        loads = [part for value in values for part in subexpressions(value) if isinstance(part, Load)]
        loads.sort(key=lambda load: -len(self.values.varies(load)))
        own = [lanes.dim(axis) for load in loads for form in load.index for axis in lanes.axes_in(form)]
        return [dim for dim in dict.fromkeys([*own, *lanes.dims]) if dim in dims]

    def _reduced_in_order(
        self, value: Scalar, order: Sequence[Span], summed: Sequence[Span], reduction: Reduction, frame: PrintingContext
    ) -> str:
        """Return the text of the reduction of ``value`` over the dimensions ``summed``, computed from an array of its
        terms with the axes in the given `order`, so that memory is read contiguously.
        """
        lanes = frame.lanes
        with self.values.inside(frame._replace(lanes=Lanes(tuple(order), lanes.images))):
            text = self._terms_text(value)
        axes, remaining = (
            [n for n, dim in enumerate(order) if dim in summed],
            [dim for dim in order if dim not in summed],
        )
        axis = "" if not remaining else f"axis={axes[0] if len(axes) == 1 else tuple(axes)}"
        text += f".{self.values.dialect.methods.get(reduction, reduction)}({axis})"
        with self.values.inside(frame._replace(lanes=Lanes(lanes.dims[len(summed) :], lanes.images))):
            return self.values.in_lane_order(text, remaining, [":"] * len(remaining)) if remaining else text

    def _in_whole(
        self, name: str, text: str, reduction: Reduction, frame: PrintingContext
    ) -> tuple[str, frozenset[Span]]:
        """Return ``(new text, dimensions)``: the array ``text``, which is to be added to a part of the accumulator
        ``name``, padded to the shape of the accumulator, and the dimensions along which the result varies.

        It is padded by values that change nothing, such as 0 in a sum.

        XLA fuses padded arrays. It computes what ``x.at[a:b].add`` adds by an operation of its own, a scatter: programs
        with stencils took 1.14 times as long, and their compilation 1.35 times.
        """
        home = self.values.stored[name]
        rest = frame.lanes.dims[len(frame.lanes.dims) - len(home.lanes.dims) :]
        if not home.varies or rest == home.lanes.dims:
            return text, home.varies
        lanes, form = Lanes(rest, frame.lanes.images), self.values.form
        spans, wanted_dims = [], set[Span]()
        for dim, wanted in home.lanes.dims_from_first(home.varies):
            image = lanes.image(Affine.variable(dim.axis)) - dim.low
            (own,) = lanes.dims_of(image)
            step = slope_along(image, own)
            assert step
            start = image.substitute({own.axis: own.low})
            wanted_dims |= {own} if wanted else set()
            forms = start, Affine.of(step), own.length, dim.length
            is_part = own is not dim and wanted
            spans.append(tuple_text(map(form, forms)) if is_part else "None")
        return f"spread({', '.join([text, initial_value_text(reduction), *spans])})", frozenset(wanted_dims)

    def _target(self, name: str, frame: PrintingContext) -> str:
        """Return the text of the accumulator ``name`` on the left of an update: its name, or a slice such as ``s[1:]``
        if the dimensions of ``frame`` (the vectorised loops) cover only a part of its array.
        """
        home, text = self.values.stored[name], self.values.names(name)
        rest = frame.lanes.dims[len(frame.lanes.dims) - len(home.lanes.dims) :]
        if not home.varies or rest == home.lanes.dims:
            return text
        inner = frame._replace(lanes=Lanes(rest, frame.lanes.images))
        with self.values.inside(inner):
            return self.values.target_text(text, *self.values.indices_into(home), inner.block)

    # ------------------------------------------------------------------------ running reductions

    def print_running_reduction(self, loop: Loop, wide: Loop, frame: PrintingContext) -> bool:
        """Append code for ``loop`` as one pass of NumPy's ``accumulate`` and return True, if it is a running sum or
        product such as ``prod_{k < p} x[k]`` for all ``p``; else return False.

        ``wide`` is a loop over the values of k for all p.

        Nothing is subtracted again, so that infinities and nan only reach the entries that contain them.
        """
        lanes, add = frame.lanes, self.single_addition(loop.body, frame)
        tied = tied_rows(loop, lanes, self.values.dialect)
        rest: Rows = ()
        if self.values.dialect.is_pure:
            tied, rest = _single_tie(tied, lanes)
        if add is None or len(tied) != 1 or len(lanes.dims_of(tied[0].form)) != 1:
            return False
        if rest:
            identity = Identity(reduction_of(add)).value
            add = replace(add, value=Operation("select", (condition_of(rest), add.value, identity)))
        if self.summed_dims(add.name, lanes) or calls_user_function(add.value):
            return False
        (dim,) = lanes.dims_of(tied[0].form)
        lines = TextBlock()
        span, inner = self.narrowing.span(frame._replace(block=lines), wide)
        with self.values.inside(inner._replace(lanes=lanes.with_outer(span), block=TextBlock())):
            varies = self.values.varies(add.value)
        if span not in varies or dim in varies or self.reads_outside(add.value, inner):
            return False
        others = tuple(other for other in lanes.dims if other in varies)
        with self.values.inside(inner._replace(lanes=Lanes((span, *others), lanes.images))):
            text = self.values.scalar(add.value)
        is_first = tied[0].form.coefficient(loop.variable) < 0
        array, function = self.values.names.fresh("partial"), FUNCTIONS[reduction_of(add)][0]
        if self.values.dialect.is_pure:
            function = repr(reduction_of(add))
        turned = text if is_first else f"({text}){self.values.dialect.reverse}"
        inner.block.line(f"{array} = running({function}, {turned}, {initial_value_text(reduction_of(add))})")
        tied_lows, tied_stops = ([f for f in forms if dim in lanes.dims_of(f)] for forms in loop_ends(loop))
        count = tied_stops[0] - span.low if is_first else span.stop - tied_lows[0]
        with self.values.inside(inner._replace(lanes=Lanes((dim,), lanes.images))):
            index = self.values.form(count)
            rows = [Constraint("ge", form) for form in (count, span.length - count)]
            if not all(self.values.prover.proves(row, frame.context + inner.known) for row in rows):
                index = f"np.clip({index}, 0, {self.values.form(span.length)})"
        text = self.values.in_lane_order(f"{array}[{index}]", [dim, *others], [":"] * (1 + len(others)))
        self.update(add.name, text, reduction_of(add), inner, frozenset((dim, *others)))
        frame.block.slot(lines)
        return True

    def reads_outside(self, value: Scalar, frame: PrintingContext) -> list[Load]:
        """Return the reads in ``value`` that may be out of bounds in the context ``frame``."""
        loads = dict.fromkeys(part for part in subexpressions(value) if isinstance(part, Load))
        return [load for load in loads if self.values.prover.unproved_bounds(load, frame.context)]


def reduce_copies(text: str, counts: Sequence[str], reduction: Reduction) -> str:
    """Return the text of a reduction of many copies of one value, as many as the product of ``counts``: ``count*value``
    for a sum, ``value**count`` for a product, ``value`` for an extremum.
    """
    if not counts or reduction in EXTREMA:
        return text
    factors = [f"({count})" if " " in count else count for count in counts]
    if reduction == "sum":
        return "*".join([*factors, text])
    return f"{text}**({'*'.join(factors)})" if len(factors) > 1 else f"{text}**{factors[0]}"


def calls_user_function(value: Scalar) -> bool:
    """Return whether a value calls a user function, which must be called only where its result is needed."""
    return any(isinstance(part, Operation) and isinstance(part.function, External) for part in subexpressions(value))
