"""Long sums of few entries on CUDA in two stages: kernels for parts of the sum, and one that makes entries of these.

The loops around a sum are cut into parts, which are axes of an array that lives as long as the call. Any kernel that
fills entries fills this array as well: a thread or a block for each entry, or tiles. Nothing is added atomically, and
how loops are cut depends on sizes only, so that the same values are added in the same order in every run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.in_loops import calls_in_loops
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Bound,
    Kernel,
    Let,
    Loop,
    Program,
    Scatter,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.printers import cuda_blocks
from sympy_tensordiff.codegen.printers.cuda_blocks import host_rounds, only_inner, with_joined_sums
from sympy_tensordiff.codegen.printers.cuda_threads import Shapes
from sympy_tensordiff.codegen.printers.cuda_tiles import (
    TILING,
    Tiled,
    last_place,
    product_text,
    tile_counts,
    tiled_product,
)
from sympy_tensordiff.codegen.printers.driver import module_names
from sympy_tensordiff.codegen.printers.forms import FormPrinter, Names
from sympy_tensordiff.codegen.scalars import Load, Name
from sympy_tensordiff.codegen.schedule.cuda import COMBINED
from sympy_tensordiff.codegen.walk import array_shapes, own_names, rewrite, statements
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import quotient_by, times

BLOCKS = 4 * 132
"""So many blocks of 256 threads with 64 registers are in work at a time on 132 multiprocessors."""

MANY = 100
"""Loops that have so many rounds together can be cut into parts enough."""

LEAST_ROUNDS = 96
"""What a thread adds up in a part, at least: writing and reading the parts costs as much as a few products."""

LEAST_ROUNDS_OF_BLOCKS = 16 * 256
"""What a block adds up in a part, at least."""

_PARTED = '''
@functools.cache
def parted(blocks, least, rounds, *lengths):
    """How loops are cut, so that more blocks have work: the number of parts of each and their length, one by one.

    None where so many blocks are enough, or some more would be few. A part has ``least`` rounds on average, or more;
    ``rounds`` are those within one of these loops.
    """
    if min(blocks, rounds, *lengths) < 1:
        return None
    wanted = min(BLOCKS // blocks, rounds*math.prod(lengths) // least)
    cut = []
    for length in lengths:
        size = -(-length // min(max(1, wanted), length))
        parts = -(-length // size)
        wanted //= parts
        cut += [parts, size]
    parts = math.prod(cut[::2])
    return cut if parts > 1 and parts*blocks >= FEW else None
'''


def parted_text() -> str:
    """The function of the module that decides, for the sizes of a call, how loops are cut."""
    numbers = {"BLOCKS": BLOCKS, "FEW": TILING.least_tiles}
    return re.sub("[A-Z]{2,}", lambda word: str(numbers[word[0]]), _PARTED.strip("\n"))


class Cut(NamedTuple):
    """A loop in parts: how many and how long they are is decided in a call."""

    variable: str
    rounds: str
    """How many there are, for the host."""
    parts: str
    length: str


class Parts(NamedTuple):
    """The two kernels that fill an array in two stages."""

    kernel: Kernel
    """Fills the array of parts."""
    shape: tuple[Affine, ...]
    """Of that array, whose first axis has a place for each part."""
    whole: Kernel
    function: str
    """The name of the function that makes entries of parts."""
    cuts: tuple[Cut, ...]
    is_across: bool
    """Entries along the last axis read what lies nearer than what the rounds of the innermost loop read."""
    rest: str
    """Rounds of the loops inside of those that are cut, for the host."""

    @property
    def number(self) -> str:
        """How many parts there are."""
        return str(self.shape[0])

    @property
    def known(self) -> dict[str, str]:
        """How many rounds the loops that are cut have in a part, at most."""
        return {cut.variable: cut.length for cut in self.cuts}


def in_parts(kernel: Kernel, names: Names, shapes: Shapes, tiled: Tiled | None) -> Parts | None:
    """The two stages of a kernel, which may be computed in tiles; None where its sum is cut in no call."""
    if isinstance(kernel, Scatter) or len(kernel.body) != 3:
        return None
    start, outer, store = kernel.body
    if not isinstance(start, Accumulator) or start.reduction not in COMBINED or not isinstance(outer, Loop):
        return None
    assert isinstance(store, Store)
    chain = _chain(outer)
    printer, own = FormPrinter(names), set(own_names(kernel))
    rounds = {loop.variable: host_rounds(loop, own, printer) for loop in chain}
    free = [loop for loop in chain if rounds[loop.variable] and _can_be_cut(loop, own)]
    # Values along the last axis lie side by side: these stay together.
    values = [s.value for s in statements([outer]) if isinstance(s, Let | Add)]
    free.sort(key=lambda loop: last_place(values, loop.variable))
    chosen = _chosen(free, rounds)
    is_across = bool(kernel.axes) and last_place(values, kernel.axes[-1]) > last_place(values, chain[-1].variable)
    inner = [text for loop in chain if loop not in chosen and (text := rounds[loop.variable])]
    rest = product_text([text if text.isalnum() else f"({text})" for text in inner])
    if not chosen or _is_too_short(
        [*(rounds[loop.variable] for loop in chosen), rest], kernel.box(shapes), tiled is not None
    ):
        return None
    array = names.fresh(f"{names(kernel.array)}_parts")
    cuts = tuple([_cut(loop, rounds[loop.variable] or "", names) for loop in chosen])
    part = names.fresh(f"{names(chosen[0].variable)}_part" if len(chosen) == 1 else "part")
    count = cuts[0].parts if len(chosen) == 1 else names.fresh("parts")
    numbers = {cut.variable: (form, cut.length) for cut, form in zip(cuts, _numbers(part, cuts), strict=True)}
    # Tiles write rows and columns as if each were one axis.
    order = kernel.axes if tiled is None else (*tiled.batch, *tiled.sides[0], *tiled.sides[1])
    extents = dict(zip(kernel.axes, kernel.box(shapes), strict=True))
    axes = (part, *order)
    cut_loops = rewrite([outer], lambda statement, _: (_with_cut(statement, numbers),))
    parts = Kernel(array, axes, (start, *cut_loops, Store(Name(start.name))))
    read = Add(start.name, Load(array, tuple(map(Affine.variable, axes))), start.reduction)
    bounds = (Bound(Affine.of(0)),), (Bound(Affine.variable(count) - 1),)
    whole = replace(kernel, body=(start, Loop(part, *bounds, (read,)), store))
    shape = (Affine.variable(count), *(extents[axis] for axis in order))
    return Parts(parts, shape, whole, names.fresh(f"add_{array}"), cuts, is_across, rest)


def describe_parts(program: Program) -> str | None:
    """Whose sums can be cut into parts, and when they are, in a line of ``.plan``."""
    program = calls_in_loops(program)
    names, shapes = module_names(program, ()), array_shapes(program)
    found = [with_joined_sums(kernel) for kernel in program.nests]
    arrays = [kernel.array for kernel in found if in_parts(kernel, names, shapes, tiles_of(kernel, names, shapes))]
    return f"in parts, where fewer than {BLOCKS // 2} blocks have work: {', '.join(arrays)}" if arrays else None


def tiles_of(kernel: Kernel, names: Names, shapes: Shapes) -> Tiled | None:
    """What tiles compute of a kernel, if they are worth it in parts at least."""
    tiled = tiled_product(kernel)
    return tiled if tiled is not None and tile_counts(tiled, names, shapes, 1) else None


def _chain(loop: Loop) -> list[Loop]:
    """A loop and those inside of it, each of which does nothing but the next one."""
    found = [loop]
    while isinstance(inner := only_inner(found[-1]), Loop):
        found.append(inner)
    return found


def _can_be_cut(loop: Loop, own: set[str]) -> bool:
    """Whether all threads have the same rounds, and the host can tell how many these are."""
    forms = [bound.form for bound in (*loop.lows, *loop.highs)]
    return len(loop.lows) == 1 and loop.lows[0].divisor == 1 and all(own.isdisjoint(form.atoms()) for form in forms)


def _chosen(loops: Sequence[Loop], rounds: dict[str, str | None]) -> list[Loop]:
    """Those whose length is not known, and others until there are parts enough, the long ones first.

    No more of them than needed: what is cut takes registers. Short loops are unrolled, and tiles take them together by
    dividing by their lengths, which are numbers where they are not cut.
    """
    texts = {loop.variable: rounds[loop.variable] or "" for loop in loops}
    lengths = {variable: int(text) if text.isdecimal() else None for variable, text in texts.items()}
    found: list[str] = []
    total = 1
    for variable, length in sorted(lengths.items(), key=lambda item: item[1] is not None and item[1] < TILING.long):
        if length is None or (total < MANY and length > 1):
            found.append(variable)
        total *= 1 if length is None else length
    return [loop for loop in loops if loop.variable in found]


def _is_too_short(rounds: Sequence[str | None], box: Sequence[Affine], is_tiled: bool) -> bool:
    """Whether the sums are cut in no call; a number that is not known before may be any."""
    texts = [text or "" for text in rounds]
    entries = prod(extent.constant for extent in box) if all(extent.is_constant for extent in box) else None
    has_blocks = entries is not None and entries <= cuda_blocks.MOST_ENTRIES and not is_tiled
    least = LEAST_ROUNDS_OF_BLOCKS if has_blocks else LEAST_ROUNDS
    is_short = all(text.isdecimal() for text in texts) and prod(map(int, texts)) < 2 * least
    most = BLOCKS // 2 * (TILING.width**2 if is_tiled else cuda_blocks.THREADS)
    return is_short or (entries is not None and entries > most)


def _cut(loop: Loop, rounds: str, names: Names) -> Cut:
    name = names(loop.variable)
    return Cut(loop.variable, rounds, *(names.fresh(f"{name}_{tail}") for tail in ("parts", "length")))


def _numbers(part: str, cuts: Sequence[Cut]) -> list[Affine]:
    """Which part of each loop belongs to a part of the sum; that of the last loop runs fastest."""
    found: list[Affine] = []
    rest = Affine.variable(part)
    for cut in reversed(cuts[1:]):
        count = Affine.variable(cut.parts)
        whole = quotient_by(rest, count)
        found.append(rest - times(whole, count))
        rest = whole
    return [rest, *reversed(found)]


def _with_cut(loop: Statement, cuts: Mapping[str, tuple[Affine, str]]) -> Statement:
    """A loop with the rounds of one part, where its number and its length are given."""
    if not isinstance(loop, Loop) or loop.variable not in cuts:
        return loop
    number, length = cuts[loop.variable][0], Affine.variable(cuts[loop.variable][1])
    low = loop.lows[0].form + times(number, length)
    return replace(loop, lows=(Bound(low),), highs=(*loop.highs, Bound(low + length - 1)))
