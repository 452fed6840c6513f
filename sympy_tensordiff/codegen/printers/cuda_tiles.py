"""Sums of products on CUDA whose factors many entries share: one block per tile of entries.

The block keeps some rounds of both factors in shared memory, where each value is computed or loaded once for all
entries of a row or a column of the tile; a thread has a small tile of entries of its own in registers, so that each
number from shared memory enters several products. Each entry adds its products in order, in every run the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.in_loops import calls_in_loops
from sympy_tensordiff.codegen.loops import Accumulator, Add, Kernel, Loop, Program, Scatter, Store
from sympy_tensordiff.codegen.printers.cuda_blocks import difference, with_joined_sums
from sympy_tensordiff.codegen.printers.cuda_threads import Shapes
from sympy_tensordiff.codegen.printers.driver import module_names
from sympy_tensordiff.codegen.printers.forms import UNARY, FormPrinter, Names
from sympy_tensordiff.codegen.scalars import Load, Operation, Scalar
from sympy_tensordiff.codegen.walk import array_shapes, bounds, function_name, own_names, scalar_names, subexpressions
from sympy_tensordiff.integer.data import data_entries


class Tiling(NamedTuple):
    """How large tiles are, and when they pay; the numbers of `TILING` are from assembled code, not from a device."""

    across: int
    """Threads along each side of a block."""
    columns: int
    """Entries of a thread along the last axis."""
    rows: dict[int, int]
    """Entries of a thread along the other side, by the bytes of a number: registers are of 4 bytes."""
    depth: int
    """Rounds that are kept. The more, the fewer waits, and the more registers the compiler uses."""
    padding: int
    """Numbers at the end of a row in shared memory, so that neighbours down a column lie in different banks."""
    least_tiles: int
    """Fewer do not fill a device, which has a thread for each entry then."""
    least_rounds: int
    """Of shorter sums, a factor is not read often enough."""
    fullness: int
    """One in so many of a tile's entries is one of the array, at least: shared memory saves more than that of loads."""
    registers: int
    """More would leave too few threads at work; compilers take some more where they are not told."""

    @property
    def width(self) -> int:
        """Entries of a tile along the last axis."""
        return self.across * self.columns

    @property
    def long(self) -> int:
        """So many rounds of a loop are enough: what is kept of the last ones is not mostly zeros."""
        return 3 * self.depth


TILING = Tiling(
    across=16,
    columns=4,
    rows={4: 4, 8: 2},
    depth=8,
    padding=4,
    least_tiles=16,
    least_rounds=16,
    fullness=3,
    registers=64,
)

_TILES = '''
@functools.cache
def tiled(batch, rows, columns, rounds, height):
    """How many tiles there are; none where a thread for each entry does as well."""
    tiles = batch*-(-rows // height)*-(-columns // WIDTH)
    return tiles if rounds >= ROUNDS and FULL*batch*rows*columns >= tiles*height*WIDTH else 0
'''


def tiled_text() -> str:
    """The function of the module that decides, for the sizes of a call, whether there are tiles."""
    numbers = {"WIDTH": TILING.width, "ROUNDS": TILING.least_rounds, "FULL": TILING.fullness}
    return re.sub("[A-Z]{2,}", lambda word: str(numbers[word[0]]), _TILES.strip("\n"))


def limits_text() -> str:
    """What compilers are told of the registers of tiles; the simulator has none."""
    return f'LIMITED = {{}} if config.ENABLE_CUDASIM else {{"max_registers": {TILING.registers}}}'


def tile_number(batch: int, rows: int, columns: int, rounds: int, height: int) -> int:
    """As the function of the module decides, for sizes that are numbers."""
    tiles = batch * -(-rows // height) * -(-columns // TILING.width)
    is_full = TILING.fullness * batch * rows * columns >= tiles * height * TILING.width
    return tiles if rounds >= TILING.least_rounds and is_full else 0


class Tiled(NamedTuple):
    """A kernel whose entries are sums of products, as the rows and columns of matrices."""

    kernel: Kernel
    total: str
    loops: tuple[tuple[Loop, ...], tuple[Loop, ...]]
    """What is summed over: loops around the tiles, and those whose rounds are numbered in a row."""
    factors: tuple[Scalar, Scalar]
    """The one of the rows, the one of the columns."""
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    """The axes that only the factor depends on, of the rows and of the columns."""
    batch: tuple[str, ...]
    """The axes that both factors depend on."""
    part: str = ""
    """The axis that numbers the parts of sums; neither factor depends on it."""


def tiled_product(kernel: Kernel, part: str = "") -> Tiled | None:
    """What tiles compute of a kernel, which has an axis ``part`` if it fills parts of sums; None for other kernels."""
    found = _sum(kernel)
    if found is None:
        return None
    loops, add = found
    own = set(own_names(kernel))
    forms = [bound.form for loop in loops for bound in bounds(loop)]
    parts = _factors(add.value)
    if parts is None or data_entries(forms) or any((own - {part}) & form.atoms() for form in forms):
        return None
    one, other = (scalar_names(part, {}) & set(kernel.axes) for part in parts)
    if one | other != set(kernel.axes) - {part} or one <= other or other <= one or kernel.axes[-1] in one & other:
        return None
    if kernel.axes[-1] in one:
        parts, one, other = (parts[1], parts[0]), other, one
    rows, columns, batch = (
        tuple([axis for axis in kernel.axes if axis in wanted]) for wanted in (one - other, other - one, one & other)
    )
    order = sorted(loops, key=lambda loop: last_place(parts, loop.variable))
    return Tiled(kernel, add.name, _numbered(order), parts, (rows, columns), batch, part)


def _numbered(loops: Sequence[Loop]) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
    """The loops but for the last ones, and those: their lengths are numbers, by which it is easier to divide.

    No more of them than needed, since to take a round apart costs as much as some products.
    """
    count, rounds = len(loops) - 1, 1
    while count and all(bound.form.is_constant for bound in bounds(loops[count])):
        rounds *= max(0, _last(loops[count]) - _first(loops[count]) + 1)
        if rounds >= TILING.long:
            break
        count -= 1
    return tuple(loops[:count]), tuple(loops[count:])


def _first(loop: Loop) -> int:
    return max(-(-bound.form.constant // bound.divisor) for bound in loop.lows)


def _last(loop: Loop) -> int:
    return min(bound.form.constant // bound.divisor for bound in loop.highs)


def _sum(kernel: Kernel) -> tuple[list[Loop], Add] | None:
    """The loops around the one addition that an entry is the sum of."""
    if isinstance(kernel, Scatter) or len(kernel.body) != 3:
        return None
    start, inner, store = kernel.body
    loops = []
    while isinstance(inner, Loop) and len(inner.body) == 1:
        loops.append(inner)
        inner = inner.body[0]
    is_sum = isinstance(start, Accumulator) and start.reduction == "sum" and isinstance(store, Store)
    return (loops, inner) if is_sum and loops and isinstance(inner, Add) else None


def _factors(value: Scalar) -> tuple[Scalar, Scalar] | None:
    """What stands before the last factor of a product, and that factor: nothing is multiplied in another order."""
    if not isinstance(value, Operation) or value.function not in ("mul", "neg"):
        return None
    if value.function == "neg":
        inner = _factors(value.arguments[0])
        return None if inner is None else (Operation("neg", inner[:1]), inner[1])
    *first, last = value.arguments
    return (first[0] if len(first) == 1 else Operation("mul", tuple(first))), last


def last_place(factors: Sequence[Scalar], variable: str) -> int:
    """How far behind in the index of a read a variable stands: entries along the last axis lie side by side."""
    loads = [node for factor in factors for node in subexpressions(factor) if isinstance(node, Load)]
    places = [at - len(load.index) for load in loads for at, form in enumerate(load.index) if variable in form.atoms()]
    return max(places, default=-1 - sum(len(load.index) for load in loads))


def tile_counts(tiled: Tiled, names: Names, shapes: Shapes, least: int) -> str | None:
    """How many batches, rows, columns and rounds there are, for the host; None where tiles are fewer in any call."""
    printer = FormPrinter(names)
    texts = [count_text(group, tiled.kernel, shapes, printer) for group in (tiled.batch, *tiled.sides)]
    lengths = [rounds_text(loop, printer) for loop in tiled.loops[1]]
    # Two ranges of negative lengths are no product of many rounds.
    if len(lengths) > 1:
        lengths = [text if text.isdecimal() else f"max(0, {text})" for text in lengths]
    texts.append(product_text(lengths))
    if all(text.isdecimal() for text in texts):
        numbers = [int(text) for text in texts]
        batch, rows, columns, rounds = numbers
        heights = [TILING.across * own for own in TILING.rows.values()]
        if max(tile_number(batch, rows, columns, rounds, height) for height in heights) < least:
            return None
    return ", ".join(texts)


def describe_tiles(program: Program) -> str | None:
    """Which kernels can run in tiles as a whole, and when they do, in a line of ``.plan``."""
    program = calls_in_loops(program)
    names, shapes = module_names(program, ()), array_shapes(program)
    found = [(kernel, tiled_product(with_joined_sums(kernel))) for kernel in program.nests]
    arrays = [k.array for k, tiled in found if tiled and tile_counts(tiled, names, shapes, TILING.least_tiles)]
    heights = [f"{TILING.across * own} (numbers of {size} bytes)" for size, own in TILING.rows.items()]
    size = f"{' or '.join(heights)} times {TILING.width} entries"
    least = f"{TILING.least_tiles} tiles of {size} and {TILING.least_rounds} products for each"
    return f"in tiles, from {least} on: {', '.join(arrays)}" if arrays else None


def count_text(axes: Sequence[str], kernel: Kernel, shapes: Shapes, printer: FormPrinter) -> str:
    """How many entries there are along some axes."""
    extents = dict(zip(kernel.axes, kernel.box(shapes), strict=True))
    return product_text([printer.form(extents[axis], UNARY) for axis in axes])


def product_text(texts: Sequence[str]) -> str:
    """The product of integers as text."""
    if all(text.isdecimal() for text in texts):
        return str(prod(map(int, texts)))
    return "*".join(texts)


def tile_function(kernel: Kernel, size: int) -> str:
    """The name of the function with one block per tile, for numbers of so many bytes."""
    return f"{function_name(kernel)}_in_tiles{size}"


def rounds_text(loop: Loop, printer: FormPrinter) -> str:
    """How many rounds a loop has, where it has any."""
    text = difference(printer, loop.lows, loop.highs)
    return text if text.isalnum() else f"({text})"
