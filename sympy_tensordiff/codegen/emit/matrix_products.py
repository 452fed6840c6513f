"""Matrix products as functions for Numba: calls of BLAS on dense arrays.

The labels form groups: batch labels, over which the function loops, free labels and summed labels. An operand whose
axes are in that order, or have the last two groups exchanged, is read in place; another one, or a diagonal, is
copied first.

Numba's own `np.dot` is a function that is compiled for each pair of shapes (0.1 to 0.3 s of CPU each), on arrays with
as many axes as matrices have, and without a factor: the call of BLAS is written here.

On several cores, each thread calls BLAS for a panel of rows or for one entry of the batch. The number of panels
depends only on the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.driver import head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter, TextBlock, tuple_text
from sympy_tensordiff.codegen.emit.library import LibraryMatrices, as_matrices, entries_text, lengths
from sympy_tensordiff.codegen.ir.programs import BLOCK, ContractionStep, Operand, Trapezoid
from sympy_tensordiff.codegen.ir.steps import Shapes, extents
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

MULTIPLY = '''\
def multiply(c, c0, a, a0, a_step, a_turned, b, b0, b_step, b_turned, rows, columns, terms, factor):
    """Fill rows*columns entries of ``c`` with a factor times the product of two matrices, rows*terms and terms*columns.

    Each array is given with the place in it where its matrix begins, and the distance of what stands first in memory:
    rows, or columns of a matrix that is turned. Without rows or columns, which are None then, an operand is a vector.
    """
    m, n = 1 if rows is None else rows, 1 if columns is None else columns
    a_row, a_term = (1, a_step) if a_turned else (a_step, 1)
    b_term, b_column = (1, b_step) if b_turned else (b_step, 1)
    left = a.reshape(-1)[a0 + np.arange(m)[:, None]*a_row + np.arange(terms)*a_term]
    right = b.reshape(-1)[b0 + np.arange(terms)[:, None]*b_term + np.arange(n)*b_column]
    c.reshape(-1)[c0:c0 + m*n] = np.dot(left, right).reshape(-1)*c.dtype.type(factor)


@type_callable(multiply)
def type_of_multiply(context):
    """Numba's type of what ``multiply`` gives, of arrays that lie in memory as they are written."""
    def typer(c, c0, a, a0, a_step, a_turned, b, b0, b_step, b_turned, rows, columns, terms, factor):
        return types.void if {c.layout, a.layout, b.layout} == {"C"} else None
    return typer


@lower_builtin(multiply, types.VarArg(types.Any))
def compiled_multiply(context, builder, signature, values):
    """The call of BLAS: it sees each matrix turned, since it takes columns to lie in memory one after the other."""
    kinds, byte = signature.args, ir.IntType(8)
    pointer, size, real = byte.as_pointer(), context.get_value_type(types.intp), context.get_value_type(kinds[0].dtype)

    def whole(value):
        return ir.Constant(size, value)

    def number(argument):
        return context.cast(builder, values[argument], kinds[argument], types.intp)

    def array(argument):
        data = context.make_array(kinds[argument])(context, builder, values[argument]).data
        return builder.bitcast(builder.gep(data, [number(argument + 1)]), pointer)

    def slot(value):
        place = cgutils.alloca_once_value(builder, value)
        return builder.bitcast(place, pointer)

    def step(argument):
        return builder.select(builder.icmp_signed(">", number(argument), whole(1)), number(argument), whole(1))

    def order(argument, turned="t", other="n"):
        return builder.select(values[argument], *(ir.Constant(byte, ord(letter)) for letter in (turned, other)))

    def checked(name, arguments):
        kind = ir.Constant(byte, ord("s" if kinds[0].dtype == types.float32 else "d"))
        function = ir.FunctionType(ir.IntType(32), [one.type for one in (kind, *arguments)])
        found = builder.call(cgutils.get_or_insert_function(builder.module, function, name), (kind, *arguments))
        with builder.if_then(cgutils.is_not_null(builder, found), likely=False):
            context.call_conv.return_user_exc(builder, RuntimeError, ("BLAS did not compute a product",))

    c, a, b, terms = array(0), array(2), array(6), number(12)
    rows, columns = (None if kinds[argument] == types.none else number(argument) for argument in (10, 11))
    factor, zero = context.cast(builder, values[13], kinds[13], kinds[0].dtype), ir.Constant(real, 0.0)
    lengths = [length for length in (rows, columns, terms) if length is not None]
    for length in lengths:
        with builder.if_then(builder.icmp_signed(">=", length, whole(2**31)), likely=False):
            context.call_conv.return_user_exc(builder, ValueError, ("BLAS counts to 2**31 - 1",))
    with builder.if_else(builder.icmp_signed("<", terms, whole(1))) as (empty, some):
        with empty:
            width = whole(context.get_abi_sizeof(real))
            for length in lengths[:-1]:
                width = builder.mul(width, length)
            cgutils.memset(builder, c, width, 0)
        with some:
            if rows is None and columns is None:
                checked("numba_xxdot", [ir.Constant(byte, 0), terms, a, b, c])
                place = builder.bitcast(c, real.as_pointer())
                builder.store(builder.fmul(builder.load(place), factor), place)
            elif columns is None:
                first, second = (builder.select(values[5], m, n) for m, n in ((rows, terms), (terms, rows)))
                sides = [order(5, "n", "t"), first, second]
                checked("numba_xxgemv", [*sides, slot(factor), a, step(4), b, slot(zero), c])
            elif rows is None:
                first, second = (builder.select(values[9], m, n) for m, n in ((terms, columns), (columns, terms)))
                checked("numba_xxgemv", [order(9), first, second, slot(factor), b, step(8), a, slot(zero), c])
            else:
                sides = [order(9), order(5), columns, rows, terms]
                operands = [b, step(8), a, step(4)]
                checked("numba_xxgemm", [*sides, slot(factor), *operands, slot(zero), c, columns])
    return context.get_dummy_value()'''

MULTIPLY_NAMES = ("multiply", "type_of_multiply", "compiled_multiply", "type_callable", "lower_builtin")


def needs_no_copies(step: ContractionStep) -> bool:
    """Return whether BLAS can read both operands in place and fill the result in its order."""
    left, right, both, rows, columns, terms = found = as_matrices(step)

    def lies(labels: Labels, first: Labels, second: Labels) -> bool:
        """Return whether ``labels`` are the batch labels, followed by ``first`` and ``second`` in either order."""
        return list(labels) in ([*both, *first, *second], [*both, *second, *first])

    return lies(left.labels, rows, terms) and lies(right.labels, terms, columns) and found.order == list(step.output)


def product_text(step: ContractionStep | Trapezoid, names: FormNames, shapes: Shapes, is_parallel: bool) -> str:
    """Return the function of a matrix product, or of a triangular one, without decorator."""
    return _MatrixProduct(step, names.copy(), shapes, is_parallel).print()


class _MatrixProduct:
    """Prints the Numba function of a matrix product, with BLAS calls."""

    def __init__(self, step: ContractionStep | Trapezoid, names: FormNames, shapes: Shapes, is_parallel: bool) -> None:
        self.step = step
        self.names = names
        self.extents = extents(step, shapes)
        self.is_parallel = is_parallel
        self.text = TextBlock()
        self.lines = self.text.child(head_text(step, passed_names(step, names)))
        self.target = names(step.array)
        self.lengths = lengths(step, names)

    def print(self) -> str:
        """Return the text of the Numba function of the product."""
        out = list(self.step.output)
        entries = "*".join(entries_text(self.names, operand) for operand in self.step.operands)
        self.lines.line(f'"""Fill {self.target} with the sums of {entries}."""')
        found = as_matrices(self.step)
        if isinstance(self.step, Trapezoid):
            found = found if self.step.row in found.rows else found.transposed()
        elif self.is_parallel and not found.both and found.left is self.step.left:
            is_transposed = self.is_short(found.rows) and not self.is_short(found.columns)
            found = found.transposed() if is_transposed and not self.is_short(found.terms) else found
        first = self.operand(found.left, found.both, found.rows, found.terms)
        second = self.operand(found.right, found.both, found.terms, found.columns)
        product = self.target if found.order == out else self.array("product", found.order)
        self.multiply(found, first, second, product)
        if found.order != out:
            self.copy(self.target, out, product, found.order)
        return "\n".join(self.text.render())

    def multiply(self, found: LibraryMatrices, first: tuple[str, bool], second: tuple[str, bool], out: str) -> None:
        """Append the BLAS calls of a product, one per batch entry or panel of rows. `first` and `second` are (array,
        whether it is transposed).
        """
        _, _, both, own, other, summed = found
        rows, columns, terms = (self.length(group) for group in (own, other, summed))
        a_step, b_step = (rows if first[1] else terms), (terms if second[1] else columns)
        ends = f"{columns if other else None}, {terms}, {signed_text(self.step.factor)})"
        left, right = f"{first[0]}, {{}}, {a_step}, {first[1]}", f"{second[0]}, {{}}, {b_step}, {second[1]}"
        if isinstance(self.step, Trapezoid):
            self.blocks(self.step, found, left, right, out)
            return
        if self.is_parallel and own and not both:
            rows, count = self.define("rows", rows), self.define("count", f"panels({rows})")
            panel, start = (self.names.fresh(wish) for wish in ("panel", "start"))
            lines = self.lines.child(f"for {panel} in prange({count}):")
            lines.line(f"{start} = {rows}*{panel}//{count}")
            places: tuple[str, ...] = (f"{start}*({columns})", start if first[1] else f"{start}*({terms})", "0")
            rows = f"{rows}*({panel} + 1)//{count} - {start}"
        elif both:
            place = self.names.fresh("place")
            lines = self.lines.child(f"for {place} in {self.range}({self.length(both)}):")
            sizes = [[*own, *other], [*own, *summed], [*summed, *other]]
            places = tuple(["*".join([place, *(self.lengths[label] for label in group)]) for group in sizes])
        else:
            lines, places = self.lines, ("0", "0", "0")
        left, right = left.format(places[1]), right.format(places[2])
        lines.line(f"multiply({out}, {places[0]}, {left}, {right}, {rows if own else None}, {ends}")

    def blocks(self, step: Trapezoid, found: LibraryMatrices, left: str, right: str, out: str) -> None:
        """Append the products of a triangular contraction, one per block of rows, over the terms that all rows of the
        block have.
        """
        _, _, both, own, other, summed = found
        rows, columns, terms = (self.length(group) for group in (own, other, summed))
        place, block, start, end = (self.names.fresh(wish) for wish in ("place", "block", "start", "end"))
        lines, before = self.lines, ("", "", "")
        if both:
            lines = lines.child(f"for {place} in {self.range}({self.length(both)}):")
            before = f"{place}*{rows}*{columns} + ", f"{place}*{rows}*{terms} + ", f"{place}*{terms}*{columns} + "
        counts = "range" if both else self.range
        height = self.lengths[step.row]
        lines = lines.child(f"for {block} in {counts}(({height} + {BLOCK - 1})//{BLOCK}):")
        lines.line(f"{start} = {BLOCK}*{block}")
        shift = Affine.variable(start) + step.shift + (BLOCK - 1 if step.is_upper else 1)
        printer = FormPrinter(self.names, {start: start})
        lines.line(f"{end} = max(0, min({terms}, {printer.form(shift)}))")
        others = "".join(f"*{self.lengths[label]}" for label in own[1:])
        first = f"{start}{others}"  # in the rows
        places = [f"{first}*{columns}", first if left.endswith("True") else f"{first}*{terms}", ""]
        if step.is_upper:
            places[1] += f" + {end}*{rows}" if left.endswith("True") else f" + {end}"
            places[2] = end if right.endswith("True") else f"{end}*{columns}"
        at_out, at_left, at_right = (f"{one}{two or 0}" for one, two in zip(before, places, strict=True))
        operands = f"{left.format(at_left)}, {right.format(at_right)}"
        count = f"{terms} - {end}" if step.is_upper else end
        ends = f"{columns if other else None}, {count}, {signed_text(step.factor)}"
        lines.line(f"multiply({out}, {at_out}, {operands}, min({BLOCK}, {height} - {start}){others}, {ends})")

    def length(self, labels: Labels) -> str:
        """Return the text of the number of entries along ``labels``."""
        return "*".join(self.lengths[label] for label in labels) or "1"

    @property
    def range(self) -> str:
        """The range function of outer loops: ``prange`` on several cores."""
        return "prange" if self.is_parallel else "range"

    def is_short(self, labels: Labels) -> bool:
        """Return whether the axes ``labels`` are known to have too few entries for splitting a product into two panels,
        one per core.
        """
        entries = self.entries(labels)
        return entries is not None and entries < 2 * MIN_HALF_ROWS

    def entries(self, labels: Labels) -> int | None:
        """Return the number of entries along ``labels``; None if it depends on sizes."""
        lengths = [self.extents[label] for label in labels]
        return prod(length.constant for length in lengths) if all(length.is_constant for length in lengths) else None

    def define(self, wish: str, text: str) -> str:
        """Append the definition of a new name for a value, and return the name."""
        name = self.names.fresh(wish)
        self.lines.line(f"{name} = {text}")
        return name

    def operand(self, operand: Operand, both: Labels, rows: Labels, columns: Labels) -> tuple[str, bool]:
        """Return ``(array, whether transposed)`` with the axes grouped as batch, rows, columns; copied if need be.

        Append a copy if the array is in neither order.
        """
        labels, array = list(operand.labels), self.names(operand.array)
        if labels == [*both, *columns, *rows] and rows and columns:
            return array, True
        order = [*both, *rows, *columns]
        if labels != order:
            copied = self.array(f"{array}_ordered", order)
            self.copy(copied, order, array, labels)
            array = copied
        return array, False

    def array(self, wish: str, labels: Labels) -> str:
        """Append the allocation of an array with the axes ``labels``, and return its name."""
        shape = tuple_text(self.lengths[label] for label in labels)
        return self.define(wish, f"np.empty({shape}, {self.target}.dtype)")

    def copy(self, target: str, axes: Labels, source: str, labels: Labels) -> None:
        """Append loops that copy an array with the axes ``labels`` to one with the axes ``axes``."""
        indices = {label: self.names.fresh(f"i{label}") for label in axes}
        lines = self.lines
        for label in axes:
            counts = self.range if lines is self.lines else "range"
            lines = lines.child(f"for {indices[label]} in {counts}({self.lengths[label]}):")
        left, right = (", ".join(indices[label] for label in order) for order in (axes, labels))
        lines.line(f"{target}[{left}] = {source}[{right}]")
