"""Products of matrices as functions that Numba compiles: `np.dot`, i.e. BLAS, on dense arrays of two axes.

Each group of labels is one axis: those that both operands keep, over which the function loops, own
ones, those summed over. An operand whose axes stand in that order, or with the last two groups
exchanged, is read where it lies; another one, and one that is a diagonal, is copied first.

On all cores, the library runs in one thread in each: for panels of rows, or for one of the entries that
both operands keep. How many panels there are depends on nothing but the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sympy_tensordiff.codegen.loops import Contraction, Operand
from sympy_tensordiff.codegen.printers.base import number_text
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import call_text
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.printers.library import common_labels, entries_text, kept_labels
from sympy_tensordiff.codegen.steps import Shapes, extents, operands
from sympy_tensordiff.codegen.walk import function_name

Labels = Sequence[int]


PANEL = 96
"""Rows of a panel, at least: with fewer, a library spends its time with arranging the other operand."""

HALF = 64
"""Of two panels, rather than one: so that no core is idle."""

PANELS = '''\
def panels(rows):
    """How many panels of rows run side by side: a power of two, 64 at most; of their rows there are enough."""
    count = 1
    while count < 64 and rows >= 2*count*({HALF} if count == 1 else {PANEL}):
        count *= 2
    return count'''.replace("{PANEL}", str(PANEL)).replace("{HALF}", str(HALF))


def is_plain(step: Contraction) -> bool:
    """Whether a library reads both operands where they lie, and fills the result in its order."""
    left, right, out = step.left, step.right, list(step.output)
    both, own, other = common_labels(left, right, out), kept_labels(left, right, out), kept_labels(right, left, out)
    summed = [label for label in dict.fromkeys(left.labels) if label not in out]

    def lies(labels: Labels, first: Labels, second: Labels) -> bool:
        return list(labels) in ([*both, *first, *second], [*both, *second, *first])

    return lies(left.labels, own, summed) and lies(right.labels, summed, other) and lies(out, own, other)


def product_text(step: Contraction, names: Names, shapes: Shapes, is_parallel: bool) -> str:
    """The function of a contraction, without decorator."""
    return _Printer(step, names.copy(), shapes, is_parallel).print()


class _Printer:
    def __init__(self, step: Contraction, names: Names, shapes: Shapes, is_parallel: bool) -> None:
        self.step = step
        self.names = names
        self.extents = extents(step, shapes)
        self.is_parallel = is_parallel
        self.head = f"def {function_name(step)}{call_text(step, names)}:"
        self.target = names(step.array)
        self.lines: list[str] = []
        self.lengths: dict[int, str] = {}
        for operand in operands(step):
            for axis, label in enumerate(operand.labels):
                self.lengths.setdefault(label, f"{names(operand.array)}.shape[{axis}]")

    def print(self) -> str:
        """The text of the function."""
        step = self.step
        left, right, out = step.left, step.right, list(step.output)
        entries = f"{entries_text(self.names, left)}*{entries_text(self.names, right)}"
        self.lines = [self.head, f'{INDENT}"""Fill {self.target} with the sums of {entries}."""']
        both, own, other = common_labels(left, right, out), kept_labels(left, right, out), kept_labels(right, left, out)
        summed = [label for label in dict.fromkeys(left.labels) if label not in out]
        if (other and [*both, *other, *own] == out) or (
            self.is_parallel
            and not both
            and self.is_short(own)
            and not self.is_short(other)
            and not self.is_short(summed)
        ):
            left, right, own, other = right, left, other, own
        first = self.operand(left, both, own, summed)
        second = self.operand(right, both, summed, other)
        order = [*both, *own, *other]
        in_place = order == out
        product = self.target if in_place else self.array("product", order)
        grouped = self.grouped(product, both, [own, other])
        self.multiply(first, second, grouped, both, bool(own or other))
        if not in_place:
            self.copy(self.target, out, product, order)
        if step.factor != 1:
            text = number_text(step.factor) if step.factor > 0 else "-" + number_text(-step.factor)
            value = f"{self.target}.dtype.type({text})"
            # An array without axes is no array any more once it has been multiplied.
            self.line(1, f"{self.target}[()] *= {value}" if not out else f"{self.target} *= {value}")
        return "\n".join(self.lines)

    def line(self, depth: int, text: str) -> None:
        self.lines.append(INDENT * depth + text)

    def multiply(self, first: tuple[str, str], second: tuple[str, str], out: str, both: Labels, has_axes: bool) -> None:
        """Append the products of two operands, one for each entry of the axes that both keep."""
        depth, place = 1, ""
        if self.is_parallel and not both and has_axes:
            self.panels(first, second, out)
            return
        if both:
            place = f"[{self.names.fresh('place')}]"
            names = [self.define(wish, text) for wish, text in (("a", first[0]), ("b", second[0]), ("c", out))]
            first, second, out = (names[0], first[1]), (names[1], second[1]), names[2]
            self.line(1, f"for {place[1:-1]} in {self.range}({out}.shape[0]):")
            depth = 2
        left, right = f"{first[0]}{place}{first[1]}", f"{second[0]}{place}{second[1]}"
        if has_axes:
            self.line(depth, f"np.dot({left}, {right}, {out}{place})")
        else:
            self.line(depth, f"{out}{place or '[()]'} = np.dot({left}, {right})")

    def panels(self, first: tuple[str, str], second: tuple[str, str], out: str) -> None:
        """Append the products of panels of rows of the first operand with the second one."""
        a, b, c = (self.define(wish, text) for wish, text in (("a", first[0]), ("b", "".join(second)), ("c", out)))
        rows = self.define("rows", f"{c}.shape[0]")
        count = self.define("count", f"panels({rows})")
        panel, start, stop = (self.names.fresh(wish) for wish in ("panel", "start", "stop"))
        self.line(1, f"for {panel} in prange({count}):")
        self.line(2, f"{start}, {stop} = {rows}*{panel}//{count}, {rows}*({panel} + 1)//{count}")
        part = f"np.ascontiguousarray({a}[:, {start}:{stop}]).T" if first[1] else f"{a}[{start}:{stop}]"
        self.line(2, f"np.dot({part}, {b}, {c}[{start}:{stop}])")

    @property
    def range(self) -> str:
        """What outer loops run over."""
        return "prange" if self.is_parallel else "range"

    def is_short(self, labels: Labels) -> bool:
        """Whether a group of axes is known to have too few entries for two panels."""
        entries = self.entries(labels)
        return entries is not None and entries < 2 * HALF

    def entries(self, labels: Labels) -> int | None:
        """The number of entries of some axes, where it is a number."""
        lengths = [self.extents[label] for label in labels]
        return prod(length.constant for length in lengths) if all(length.is_constant for length in lengths) else None

    def define(self, wish: str, text: str) -> str:
        """A name for a value."""
        name = self.names.fresh(wish)
        self.line(1, f"{name} = {text}")
        return name

    def operand(self, operand: Operand, both: Labels, rows: Labels, columns: Labels) -> tuple[str, str]:
        """An operand with one axis per group, and what is to be appended to each of its matrices."""
        labels, array = list(operand.labels), self.names(operand.array)
        if labels == [*both, *columns, *rows] and rows and columns:
            return self.grouped(array, both, [columns, rows]), ".T"
        order = [*both, *rows, *columns]
        if labels != order:
            copied = self.array(f"{array}_ordered", order)
            self.copy(copied, order, array, labels)
            array = copied
        return self.grouped(array, both, [rows, columns]), ""

    def grouped(self, array: str, both: Labels, groups: Sequence[Labels]) -> str:
        """A dense array with one axis for ``both`` and one for each group, where there are any."""
        wanted = [group for group in (both, *groups) if group]
        if all(len(group) == 1 for group in wanted):
            return array
        lengths = ["*".join(self.lengths[label] for label in group) for group in wanted]
        return f"{array}.reshape({', '.join(lengths)})"

    def array(self, wish: str, labels: Labels) -> str:
        """A new array with these axes."""
        shape = ", ".join(self.lengths[label] for label in labels)
        return self.define(wish, f"np.empty(({shape}{',' * (len(labels) == 1)}), {self.target}.dtype)")

    def copy(self, target: str, axes: Labels, source: str, labels: Labels) -> None:
        """Append loops that copy the entries of one array into another one with other axes."""
        indices = {label: self.names.fresh(f"i{label}") for label in axes}
        for depth, label in enumerate(axes, 1):
            counts = self.range if depth == 1 else "range"
            self.line(depth, f"for {indices[label]} in {counts}({self.lengths[label]}):")
        left, right = (", ".join(indices[label] for label in order) for order in (axes, labels))
        self.line(len(axes) + 1, f"{target}[{left}] = {source}[{right}]")
