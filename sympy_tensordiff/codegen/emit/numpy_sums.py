"""What is added to an accumulator by NumPy: which dimensions are summed over, and where the sums go."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.emit.base import start_text
from sympy_tensordiff.codegen.emit.forms import ATOM, UNARY, Block
from sympy_tensordiff.codegen.emit.numpy_conditions import Narrowing, loop_ends
from sympy_tensordiff.codegen.emit.numpy_lanes import Lanes, Span
from sympy_tensordiff.codegen.emit.numpy_scalars import Frame
from sympy_tensordiff.codegen.ir.facts import loop_rows
from sympy_tensordiff.codegen.ir.loops import Add, Loop, Reduction
from sympy_tensordiff.codegen.ir.scalars import External, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import EXTREMA, subexpressions
from sympy_tensordiff.integer.affine import Row

_FUNCTIONS: dict[Reduction, tuple[str, str]] = {
    "sum": ("np.add", "+"), "prod": ("np.multiply", "*"), "max": ("np.maximum", ""), "min": ("np.minimum", ""),
}  # fmt: skip
"""NumPy's functions of two arrays, and their operators, that reduce."""


class Additions:
    """Writes additions over the current lanes."""

    def __init__(self, narrowing: Narrowing) -> None:
        self.narrowing = narrowing
        self.values = narrowing.values

    def counts_everywhere(self, name: str, frame: Frame) -> bool:
        """Whether what a frame adds to an accumulator counts in all lanes."""
        return frame.mask == self.values.homes[name].mask

    def summed(self, name: str, lanes: Lanes) -> tuple[Span, ...]:
        """The dimensions of lanes that an accumulator does not have: they stand in front."""
        return lanes.dims[: len(lanes.dims) - len(self.values.homes[name].lanes.dims)]

    def add(self, name: str, value: Scalar, reduction: Reduction, frame: Frame) -> None:
        """Take ``value`` into an accumulator, summed along the dimensions that are new since it was made."""
        if not self.counts_everywhere(name, frame):
            assert frame.mask is not None
            idle = Name(name) if reduction in EXTREMA else Number(int(reduction == "prod"))
            value = Operation("select", (frame.mask, value, idle))
        self.assign(name, self._reduced(value, self.summed(name, frame.lanes), reduction), reduction, frame)

    def assign(self, name: str, text: str, reduction: Reduction, frame: Frame) -> None:
        """Take an array, reduced already, into an accumulator."""
        function, operator = _FUNCTIONS[reduction]
        target = self._target(name, frame)
        if not operator and target.isidentifier() and target != self.values.names(name):
            target += "[...]"
        frame.block.line(f"{target} {operator}= {text}" if operator else f"{target} = {function}({target}, {text})")

    def _reduced(self, value: Scalar, summed: Sequence[Span], reduction: Reduction) -> str:
        """The text of ``value`` reduced along the dimensions ``summed``."""
        varies, dims = self.values.varies(value), self.values.lanes.dims
        counts = [self.values.form(dim.length) for dim in summed if dim not in varies]
        if varies.isdisjoint(summed):
            if not counts:
                return self.values.scalar(value)
            if reduction == "prod":  # an integer to the power of a length may be too large for a real number
                inner = self.values.scalar(value, ATOM) if varies else f"real({self.values.scalar(value)})"
            else:
                inner = self.values.scalar(value, UNARY)
            return repeated(inner, counts, reduction)
        kept = [dims.index(dim) for dim in varies if dim not in summed]
        axes = range(min(kept) - min(map(dims.index, varies))) if kept else range(0)
        axis = f"axis={tuple(axes) if len(axes) > 1 else 0}" if kept else ""
        return repeated(f"{self.values.scalar(value, ATOM)}.{reduction}({axis})", counts, reduction)

    def _target(self, name: str, frame: Frame) -> str:
        """The part of an accumulator that the current lanes add to."""
        home, text = self.values.homes[name], self.values.names(name)
        rest = frame.lanes.dims[len(frame.lanes.dims) - len(home.lanes.dims) :]
        if not home.varies or rest == home.lanes.dims:
            return text
        inner = frame._replace(lanes=Lanes(rest, frame.lanes.images))
        with self.values.inside(inner):
            return self.values.target(text, *self.values.entries(home), inner.block)

    # ------------------------------------------------------------------------ running reductions

    def running(self, loop: Loop, wide: Loop, frame: Frame) -> bool:
        """Write a loop around one addition, of whose range one end depends on one lane, as NumPy's ``accumulate``.

        ``prod_{k < p} x[k]`` for all ``p`` is one pass along ``x``. Nothing is taken away again, so that
        infinities and values that are not numbers stay with the entries that have them. False for any other loop.
        """
        lanes, add = frame.lanes, loop.body[0]
        tied = [row for row in loop_rows(loop) if lanes.dims_of(row.form)]
        if len(loop.body) != 1 or not isinstance(add, Add) or len(tied) != 1 or len(lanes.dims_of(tied[0].form)) != 1:
            return False
        if self.summed(add.name, lanes) or not self.counts_everywhere(add.name, frame) or calls_others(add.value):
            return False
        (dim,) = lanes.dims_of(tied[0].form)
        lines = Block()
        span, inner = self.narrowing.span(frame._replace(block=lines), wide)
        with self.values.inside(inner._replace(lanes=lanes.inside(span), block=Block())):
            varies = self.values.varies(add.value)
        if span not in varies or dim in varies or self.reads_outside(add.value, inner):
            return False
        others = tuple(other for other in lanes.dims if other in varies)
        with self.values.inside(inner._replace(lanes=Lanes((span, *others), lanes.images))):
            text = self.values.scalar(add.value)
        is_first = tied[0].form.coefficient(loop.variable) < 0
        array, function = self.values.names.fresh("partial"), _FUNCTIONS[add.reduction][0]
        self.values.helpers.add("running")
        turned = text if is_first else f"({text})[::-1]"
        inner.block.line(f"{array} = running({function}, {turned}, {start_text(add.reduction)})")
        tied_lows, tied_stops = ([f for f in forms if lanes.dims_of(f)] for forms in loop_ends(loop))
        count = tied_stops[0] - span.low if is_first else span.stop - tied_lows[0]
        with self.values.inside(inner._replace(lanes=Lanes((dim,), lanes.images))):
            index = self.values.form(count)
            rows = [Row("ge", form) for form in (count, span.length - count)]
            if not all(self.values.prover.proves(row, frame.context + inner.known) for row in rows):
                index = f"np.clip({index}, 0, {self.values.form(span.length)})"
        text = self.values.in_order(f"{array}[{index}]", [dim, *others], [":"] * (1 + len(others)))
        self.assign(add.name, text, add.reduction, inner)
        frame.block.slot(lines)
        return True

    def reads_outside(self, value: Scalar, frame: Frame) -> list[Load]:
        """The reads of a value that may be outside in a frame."""
        loads = dict.fromkeys(part for part in subexpressions(value) if isinstance(part, Load))
        prover, shapes = self.values.prover, self.values.shapes
        return [load for load in loads if prover.axes_inside(load, shapes[load.array], frame.context)]


def repeated(text: str, counts: Sequence[str], reduction: Reduction) -> str:
    """A value so many times, reduced: the counts of several dimensions are multiplied."""
    if not counts or reduction in EXTREMA:
        return text
    factors = [f"({count})" if " " in count else count for count in counts]
    if reduction == "sum":
        return "*".join([*factors, text])
    return f"{text}**({'*'.join(factors)})" if len(factors) > 1 else f"{text}**{factors[0]}"


def calls_others(value: Scalar) -> bool:
    """Whether a function of the user's is called, which may be asked for the values that count only."""
    return any(isinstance(part, Operation) and isinstance(part.function, External) for part in subexpressions(value))
