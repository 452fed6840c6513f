"""What is added to an accumulator by NumPy: which dimensions are summed over, and where the sums go."""

from __future__ import annotations

from collections.abc import Collection

from sympy_tensordiff.codegen.emit.base import start_text
from sympy_tensordiff.codegen.emit.forms import ATOM, UNARY, Block
from sympy_tensordiff.codegen.emit.lanes import Dim, Lanes, Span, walk_dims
from sympy_tensordiff.codegen.emit.narrowing import Narrowing, Place
from sympy_tensordiff.codegen.emit.vectors import Home, VectorPrinter
from sympy_tensordiff.codegen.ir.facts import Rows, loop_rows
from sympy_tensordiff.codegen.ir.loops import Add, Loop, Reduction
from sympy_tensordiff.codegen.ir.scalars import External, Load, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import EXTREMA, subexpressions
from sympy_tensordiff.integer.affine import Affine, Row, quotient

FUNCTIONS: dict[Reduction, tuple[str, str]] = {
    "sum": ("np.add", "+"), "prod": ("np.multiply", "*"), "max": ("np.maximum", ""), "min": ("np.minimum", ""),
}  # fmt: skip
"""NumPy's functions of two arrays, and their operators, that reduce."""


class Additions:
    """Writes additions over the current lanes of ``values``; ``promoted`` are the loops' indices among the lanes."""

    def __init__(self, values: VectorPrinter, promoted: Collection[str]) -> None:
        self.values = values
        self.promoted = promoted
        self.renamed: dict[str, str] = {}
        """Loops' indices that run in the place of another axis: what is summed along that is along them."""

    def kept(self, home: Home) -> frozenset[Dim]:
        """The current dimensions along which an accumulator made at ``home`` varies."""
        return frozenset[Dim]().union(*(self.values.current_dims(dim) for dim in home.varies))

    def summed(self, home: Home) -> list[Dim]:
        """The current dimensions to be summed over."""
        kept = self.kept(home)
        return [dim for dim in self.values.lanes.dims if dim not in kept and not self._is_outside(dim, home)]

    def may_meet(self, home: Home) -> bool:
        """Whether several lanes may belong to one entry of the accumulator."""
        return any(not self._is_outside(dim, home) for dim in self.kept(home))

    def line(self, name: str, value: Scalar, reduction: Reduction) -> str:
        """The statement that takes ``value`` into the accumulator ``name``."""
        home = self.values.homes[name]
        summed = self.summed(home)
        text = self._reduced(value, summed, reduction)
        if self.may_meet(home):
            return f"{FUNCTIONS[reduction][0]}.at({self.values.names(name)}, {self._positions(home)}, {text})"
        return self.assignment(name, home, summed, text, reduction)

    def assignment(self, name: str, home: Home, summed: list[Dim], text: str, reduction: Reduction = "sum") -> str:
        """The statement that takes an array, reduced already, into the accumulator ``name``."""
        function, operator = FUNCTIONS[reduction]
        entry = f"{self.values.names(name)}{self._target(home, summed)}"
        return f"{entry} {operator}= {text}" if operator else f"{entry} = {function}({entry}, {text})"

    def _is_outside(self, dim: Dim, home: Home) -> bool:
        """Whether no summation index that ``home`` does not have runs along ``dim``."""
        # What is made inside of such a loop knows the index by its own name.
        names = [(self.renamed.get(axis, axis), axis) for axis in dim.axes]
        return all(name not in self.promoted or home.lanes.has(name) or home.lanes.has(axis) for name, axis in names)

    def _reduced(self, value: Scalar, summed: list[Dim], reduction: Reduction) -> str:
        """The text of ``value`` reduced along the dimensions ``summed``, which stand in front."""
        varies = self.values.varies(value)
        counts = [self.values.length(dim) for dim in summed if dim not in varies]
        if not varies.intersection(summed):
            if not counts:
                return self.values.scalar(value)
            if reduction == "prod":  # an integer to the power of a length may be too large for a real number
                inner = self.values.scalar(value, ATOM) if varies else f"real({self.values.scalar(value)})"
            else:
                inner = self.values.scalar(value, UNARY)
            return repeated(inner, counts, reduction)
        places = [self.values.lanes.dims.index(dim) for dim in varies if dim not in summed]
        first = min(self.values.lanes.dims.index(dim) for dim in varies)
        axes = range(min(places) - first) if places else range(0)
        inner = self.values.scalar(value, ATOM)
        text = f"{inner}.{reduction}({f'axis={tuple(axes) if len(axes) > 1 else 0}' if places else ''})"
        return repeated(text, counts, reduction)

    def _target(self, home: Home, summed: list[Dim]) -> str:
        """The part of an accumulator that the current lanes add to, as a subscript."""
        if not home.varies or self.values.is_here(home):
            return ""
        entries, extents = self.values.entries(home)
        slices = self.values.slices(entries, extents)
        rest = [dim for dim in self.values.lanes.dims if dim not in summed]
        if slices is not None and len(rest) == len(home.lanes.dims):
            texts, dims = slices
            present = [wanted for _, wanted in walk_dims(home.lanes.dims, home.varies)]
            behind = rest[len(rest) - len(present) :]
            if dims == [dim for dim, wanted in zip(behind, present, strict=True) if wanted]:
                return f"[{', '.join(t if w else ':' for t, w in zip(texts, present, strict=True))}]"
        return f"[{', '.join(self.values.entry_text(entry) for entry in entries)}]"

    def _positions(self, home: Home) -> str:
        entries, _ = self.values.entries(home)
        texts = [self.values.entry_text(entry) for entry in entries]
        return f"({', '.join(texts)})" if len(texts) > 1 else texts[0]


def repeated(text: str, counts: list[str], reduction: Reduction) -> str:
    """A value so many times, reduced: the counts of several dimensions are multiplied."""
    if not counts or reduction in EXTREMA:
        return text
    factors = [f"({count})" if " " in count else count for count in counts]
    if reduction == "sum":
        return "*".join([*factors, text])
    return f"{text}**({'*'.join(factors)})" if len(factors) > 1 else f"{text}**{factors[0]}"


# ---------------------------------------------------------------------------- running reductions
# Reductions whose range ends, or begins, where the entry says: running ones, by NumPy's ``accumulate``.
#
# ``prod_{k < p} x[k]`` for all ``p`` is one pass along ``x``. Nothing is taken away again, so that
# infinities and values that are not numbers stay with the entries that have them.


class Prefixes:
    """Writes running reductions."""

    def __init__(self, narrowing: Narrowing, additions: Additions) -> None:
        self.narrowing = narrowing
        self.values = narrowing.values
        self.prover = narrowing.prover
        self.additions = additions

    def print(self, loop: Loop, place: Place, context: Rows) -> bool:
        """Write a loop around one addition, of whose range one end depends on one lane; False for any other."""
        lanes = place.lanes
        if len(loop.body) != 1 or not isinstance(add := loop.body[0], Add):
            return False
        tied = [row for row in loop_rows(loop) if lanes.dims_of(row.form)]
        home = self.values.homes[add.name]
        if len(tied) != 1 or len(lanes.dims_of(tied[0].form)) != 1 or self.additions.summed(home):
            return False
        (dim,) = lanes.dims_of(tied[0].form)
        wide = self.narrowing.widest(loop, lanes)
        others = self._others(wide, add, lanes, context)
        if others is None or dim in others or not isinstance(dim, Span) or self.additions.may_meet(home):
            return False
        span, place = self.narrowing.span(place, wide)
        with self.values.inside(Lanes((span, *others), lanes.replaced), place.block):
            text = self.values.scalar(add.value)
        is_first = tied[0].form.coefficient(loop.variable) < 0
        array = self.values.names.fresh("partial")
        self.values.helpers.add("running")
        turned = text if is_first else f"({text})[::-1]"
        start = start_text(add.reduction)
        place.block.line(f"{array} = running({FUNCTIONS[add.reduction][0]}, {turned}, {start})")
        known = context + place.known
        count = self._count(loop, span, lanes, is_first)
        with self.values.inside(Lanes((dim,), lanes.replaced), place.block):
            index = self.values.form(count)
            if not all(self.prover.proves(Row("ge", form), known) for form in (count, span.length - count)):
                index = f"np.clip({index}, 0, {self.values.form(span.length)})"
        text = self.values.in_order(f"{array}[{index}]", [dim, *others])
        place.block.line(self.additions.assignment(add.name, home, [], text, add.reduction))
        return True

    def _others(self, wide: Loop, add: Add, lanes: Lanes, context: Rows) -> list[Dim] | None:
        """The lanes along which the values vary; None where they cannot be taken for the whole range."""
        parts = list(subexpressions(add.value))
        if any(isinstance(part, Operation) and isinstance(part.function, External) for part in parts):
            return None
        around = context + loop_rows(wide)
        loads = [part for part in parts if isinstance(part, Load)]
        if any(self.prover.axes_inside(load, self.values.shapes[load.array], around) for load in loads):
            return None
        draft = self.narrowing.draft(wide)
        with self.values.inside(Lanes((draft, *lanes.dims), lanes.replaced), Block()):
            varies = self.values.varies(add.value)
        return [dim for dim in lanes.dims if dim in varies] if draft in varies else None

    def _count(self, loop: Loop, span: Span, lanes: Lanes, is_first: bool) -> Affine:
        """How many of the values an entry has, the first or the last ones."""
        if is_first:
            bound = next(bound for bound in loop.highs if lanes.dims_of(bound.form))
            return quotient(bound.form, bound.divisor) + 1 - span.low
        bound = next(bound for bound in loop.lows if lanes.dims_of(bound.form))
        return span.stop - quotient(bound.form + (bound.divisor - 1), bound.divisor)
