"""Matrix products as functions for Numba, whose `np.dot` calls BLAS on dense matrices.

The labels form groups: batch labels, over which the function loops, free labels and summed labels. An operand whose
axes are in that order, or have the last two groups exchanged, is read in place; another one, or a diagonal, is
copied first.

On several cores, each thread calls BLAS for a panel of rows or for one entry of the batch. The number of panels
depends only on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.driver import head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.emit.library import LibraryMatrices, as_matrices, entries_text, lengths
from sympy_tensordiff.codegen.ir.programs import BLOCK, ContractionStep, Operand, Trapezoid
from sympy_tensordiff.integer.affine import Affine

Labels = Sequence[int]


MIN_PANEL_ROWS = 96
"""The least number of rows of a panel: with fewer, BLAS spends its time packing the other operand."""

MIN_HALF_ROWS = 64
"""The least number of rows of each of two panels, fewer than of more panels, so that both cores work."""

PANELS = '''\
def panels(rows):
    """How many panels of rows run side by side: a power of two, 64 at most; of their rows there are enough."""
    count = 1
    while count < 64 and rows >= 2*count*({MIN_HALF_ROWS} if count == 1 else {MIN_PANEL_ROWS}):
        count *= 2
    return count'''.replace("{MIN_PANEL_ROWS}", str(MIN_PANEL_ROWS)).replace("{MIN_HALF_ROWS}", str(MIN_HALF_ROWS))


def needs_no_copies(step: ContractionStep) -> bool:
    """Return whether BLAS can compute the matrix product ``step`` without copies: it can read both operands in place
    and store the result in the order of its axes.
    """
    left, right, both, rows, columns, terms = found = as_matrices(step)

    def has_axis_order(labels: Labels, first: Labels, second: Labels) -> bool:
        """Return whether BLAS can read an operand with the axes ``labels`` in place: they must be the product's batch
        labels, then the labels ``first`` and ``second`` of its rows and columns, in either order.
        """
        return list(labels) in ([*both, *first, *second], [*both, *second, *first])

    return (
        has_axis_order(left.labels, rows, terms)
        and has_axis_order(right.labels, terms, columns)
        and found.order == list(step.output)
    )


def product_text(step: ContractionStep | Trapezoid, names: FormNames, is_parallel: bool) -> str:
    """Return the text of the Numba function that computes a matrix product, possibly triangular, without decorator.
    With ``is_parallel``, it uses several cores.
    """
    return _MatrixProduct(step, names.copy(), is_parallel).print()


class _MatrixProduct:
    """Prints the Numba function of a matrix product, with BLAS calls."""

    def __init__(self, step: ContractionStep | Trapezoid, names: FormNames, is_parallel: bool) -> None:
        self.step = step
        self.names = names
        self.is_parallel = is_parallel
        self.text = TextBlock()
        self.lines = self.text.child(head_text(step, passed_names(step, names)))
        self.target = names(step.array)
        self.lengths = lengths(step, names)

    def print(self) -> str:
        """Return the text of the Numba function that fills the array of this step with a product of matrices."""
        out = list(self.step.output)
        entries = "*".join(entries_text(self.names, operand) for operand in self.step.operands)
        self.lines.line(f'"""Fill {self.target} with the sums of {entries}."""')
        found = as_matrices(self.step)
        if isinstance(self.step, Trapezoid) and self.step.row not in found.rows:
            found = found.transposed()
        product = self.target if found.order == out else self.array("product", found.order)
        self.multiply(found, product)
        if self.step.factor != 1:
            self.lines.line(f"{product} *= {product}.dtype.type({signed_text(self.step.factor)})")
        if found.order != out:
            self.copy(self.target, out, product, found.order)
        return "\n".join(self.text.render())

    def multiply(self, found: LibraryMatrices, product: str) -> None:
        """Append the calls of ``np.dot`` that store the product of the operands ``found`` in the array named
        ``product``: a single call, or one per batch entry or per block of rows.
        """
        _, _, both, rows, columns, terms = found
        left = self.operand(found.left, both, [rows, terms] if rows else [terms])
        right = self.operand(found.right, both, [terms, columns] if columns else [terms])
        result = self.matrix(product, both, [group for group in (rows, columns) if group])
        lines = self.lines
        if both:
            place = self.names.fresh("place")
            lines = lines.child(f"for {place} in {self.range}({self.length(both)}):")
            left, right, result = (text.format(f"[{place}]") for text in (left, right, result))
        else:
            left, right, result = (text.format("") for text in (left, right, result))
        if isinstance(self.step, Trapezoid):
            self.blocks(self.step, found, lines, (left, right, result))
        elif self.is_parallel and rows and not both:
            extent, count = self.define("rows", self.length(rows)), self.names.fresh("count")
            panel, start, stop = (self.names.fresh(wish) for wish in ("panel", "start", "stop"))
            lines.line(f"{count} = panels({extent})")
            lines = lines.child(f"for {panel} in prange({count}):")
            lines.line(f"{start}, {stop} = {extent}*{panel}//{count}, {extent}*({panel} + 1)//{count}")
            some = f"[{start}:{stop}]"
            left = f"np.ascontiguousarray({left}{some})" if left.endswith(".T") else left + some
            lines.line(f"np.dot({left}, {right}, {result}{some})")
        elif rows or columns:
            lines.line(f"np.dot({left}, {right}, {result})")
        else:
            entry = "" if both else "[()]"
            lines.line(f"{result}{entry} = np.dot({left}, {right})")

    def blocks(self, step: Trapezoid, found: LibraryMatrices, lines: TextBlock, matrices: tuple[str, str, str]) -> None:
        """Append to ``lines`` a loop over blocks of rows of the triangular matrix product `step`, with one call of
        ``np.dot`` per block. ``matrices`` are the texts of the left operand, the right operand and the result;
        ``found`` has their labels.

        A call sums over the indices that all rows of the block have.
        """
        names = [self.names.fresh(wish) for wish in ("left", "right", "result")]
        for name, text in zip(names, matrices, strict=True):
            lines.line(f"{name} = {text}")
        left, right, result = names
        block, start, stop, end = (self.names.fresh(wish) for wish in ("block", "start", "stop", "end"))
        height, terms = self.lengths[step.row], self.length(found.terms)
        count = f"({height} + {BLOCK - 1})//{BLOCK}"
        lines = lines.child(f"for {block} in {'range' if found.both else self.range}({count}):")
        lines.line(f"{start}, {stop} = {BLOCK}*{block}, min({BLOCK}*{block} + {BLOCK}, {height})")
        shift = Affine.variable(start) + step.shift + (BLOCK - 1 if step.is_upper else 1)
        printer = FormPrinter(self.names, {start: start})
        lines.line(f"{end} = max(0, min({terms}, {printer.form(shift)}))")
        others = "".join(f"*{self.lengths[label]}" for label in found.rows[1:])
        some, summed = f"{start}{others}:{stop}{others}", f"{end}:" if step.is_upper else f":{end}"
        own = f"{right}[{summed}]"
        own = f"np.ascontiguousarray({own})" if matrices[1].endswith(".T") else own
        lines.line(f"np.dot(np.ascontiguousarray({left}[{some}, {summed}]), {own}, {result}[{some}])")

    def length(self, labels: Labels) -> str:
        """Return the text of the number of entries along ``labels``."""
        return "*".join(self.lengths[label] for label in labels) or "1"

    @property
    def range(self) -> str:
        """The name of the range function for the outer loops, as text: ``prange`` on several cores, else ``range``."""
        return "prange" if self.is_parallel else "range"

    def define(self, wish: str, text: str) -> str:
        """Append a line that assigns the expression ``text`` to a new variable, and return the variable's name:
        ``wish``, or a similar one if that is taken.
        """
        name = self.names.fresh(wish)
        self.lines.line(f"{name} = {text}")
        return name

    def matrix(self, array: str, both: Labels, groups: Sequence[Labels], is_turned: bool = False) -> str:
        """Return the text of ``array`` as a matrix, in which the axes of each of ``groups`` (row labels, column labels)
        are merged into one. The text has the placeholder ``{}`` for the index along the batch labels `both`. With
        `is_turned`, the matrix is transposed.
        """
        groups = groups[::-1] if is_turned else groups
        if len(both) > 1 or any(len(group) != 1 for group in groups):
            shape = [self.length(group) for group in ([both] if both else []) + list(groups)]
            array = f"{array}.reshape({', '.join(shape)})"
        return array + "{}" + ".T" * is_turned

    def operand(self, operand: Operand, both: Labels, groups: Sequence[Labels]) -> str:
        """Return the text of `operand` of a matrix product as an array with one axis for each group of labels in
        ``groups``. If BLAS cannot read it in place, append code that copies it first.

        ``{}`` in the text stands for the index along the batch labels ``both``.
        """
        labels, array = list(operand.labels), self.names(operand.array)
        order = [label for group in (both, *groups) for label in group]
        is_turned = len(groups) == 2 and all(groups) and labels == [*both, *groups[1], *groups[0]]
        if not is_turned and labels != order:
            copied = self.array(f"{array}_ordered", order)
            self.copy(copied, order, array, labels)
            array = copied
        return self.matrix(array, both, groups, is_turned)

    def array(self, wish: str, labels: Labels) -> str:
        """Append the allocation of an array with the axes ``labels`` and a new name like ``wish``, and return the
        name.
        """
        shape = tuple_text(self.lengths[label] for label in labels)
        return self.define(wish, f"np.empty({shape}, {self.target}.dtype)")

    def copy(self, target: str, axes: Labels, source: str, labels: Labels) -> None:
        """Append loops that copy the array ``source`` with the axes ``labels`` to the array ``target`` with the axes
        ``axes``.
        """
        indices = {label: self.names.fresh(f"i{label}") for label in axes}
        lines = self.lines
        for label in axes:
            counts = self.range if lines is self.lines else "range"
            lines = lines.child(f"for {indices[label]} in {counts}({self.lengths[label]}):")
        left, right = (", ".join(indices[label] for label in order) for order in (axes, labels))
        lines.line(f"{target}[{left}] = {source}[{right}]")
