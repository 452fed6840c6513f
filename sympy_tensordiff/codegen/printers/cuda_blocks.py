"""Long sums of few entries on CUDA: one block per entry, whose threads share the values.

Each thread adds every so many values up, neighbours side by side; a tree over shared memory makes one of what the
threads have, in the same order in every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.loops import Accumulator, Add, Bound, If, Kernel, Let, Loop, Scatter, Statement
from sympy_tensordiff.codegen.printers.cuda_threads import CudaPrinter
from sympy_tensordiff.codegen.printers.driver import task_text
from sympy_tensordiff.codegen.printers.forms import FormPrinter, Names
from sympy_tensordiff.codegen.scalars import External, Name, Scalar
from sympy_tensordiff.codegen.schedule.cuda import COMBINED, THREAD, block_nest
from sympy_tensordiff.codegen.walk import Around, function_name, own_names, rewrite, statements, used_names
from sympy_tensordiff.integer.affine import Affine

THREADS = 256
"""As many threads a block has; their number is a power of two."""

MOST_ENTRIES = 4096
"""So many blocks fill the largest devices."""

LEAST_VALUES = 256
"""Fewer values of an entry are not worth a block."""

SHARED = f'''
@functools.cache
def shared(shape, lengths):
    """The grid and the block for one block per entry; None where a thread for each is enough, or does little."""
    outer, inner = lengths
    if math.prod(shape) > {MOST_ENTRIES} or min(lengths) < 1 or outer*inner < {LEAST_VALUES}:
        return None
    width = min({THREADS}, fitting(inner))
    *others, rows, columns = (1, 1, *shape)
    return (columns, rows, math.prod(others)), (width, {THREADS} // width, 1)
'''

COMBINE = '''
@cuda.jit(device=True)
def NAME(part, parts):
    """WHAT what the threads of a block have, as a tree; all of them get it."""
    thread = cuda.threadIdx.y*cuda.blockDim.x + cuda.threadIdx.x
    parts[thread] = part
    cuda.syncthreads()
    half = HALF
    while half > 0:
        if thread < half:
            parts[thread] = VALUE
        cuda.syncthreads()
        half //= 2
    total = parts[0]
    cuda.syncthreads()
    return total
'''

_TEXTS = {
    "sum": ("The sum of", "parts[thread] + parts[thread + half]"),
    "max": ("The greatest of", "maximum(parts[thread], parts[thread + half])"),
    "min": ("The least of", "minimum(parts[thread], parts[thread + half])"),
}


def combining(text: str) -> list[str]:
    """The functions that the kernels in ``text`` combine values with."""
    return [
        COMBINE.strip("\n")
        .replace("NAME", name)
        .replace("WHAT", what)
        .replace("VALUE", value)
        .replace("HALF", str(THREADS // 2))
        for (what, value), name in zip(_TEXTS.values(), COMBINED.values(), strict=True)
        if f"{name}(" in text
    ]


class Shared(NamedTuple):
    """A statement whose values the threads of a block share, along ``across`` side by side."""

    statement: Statement
    across: Loop
    along: Loop | None
    """The loop around it, if that does little else."""
    adds: tuple[Add, ...]
    """To what is declared before the statement."""


def with_joined_sums(kernel: Kernel) -> Kernel:
    """The kernel with one sum in place of a sum of sums, so that threads share the values of both."""
    return replace(kernel, body=rewrite(kernel.body, lambda statement, _: (_joined(statement),)))


def _joined(statement: Statement) -> Statement:
    if not isinstance(statement, Loop | If):
        return statement
    lets, rest = _parted(statement.body)
    if len(rest) != 3:
        return statement
    start, inner, add = rest
    if not (isinstance(start, Accumulator) and isinstance(inner, Loop | If) and isinstance(add, Add)):
        return statement
    is_sum = add.value == Name(start.name) and add.reduction == start.reduction and add.reduction in COMBINED
    if not is_sum or any(start.name in used_names(other) for other in (*lets, inner)):
        return statement
    other = add.name

    def adding(part: Statement, _: Around) -> tuple[Statement, ...]:
        return (replace(part, name=other) if isinstance(part, Add) and part.name == start.name else part,)

    return replace(statement, body=(*lets, *rewrite([inner], adding)))


def _parted(body: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """What is computed once for an inner loop, and the other statements."""
    return [s for s in body if isinstance(s, Let)], [s for s in body if not isinstance(s, Let)]


def shared_statements(kernel: Kernel) -> list[Shared]:
    """The statements of a kernel that threads can share; empty where some reduction has to keep its order."""
    found: list[Shared] = []
    declared = {s.name for s in kernel.body if isinstance(s, Accumulator)}
    for statement in kernel.body if not isinstance(kernel, Scatter) else ():
        chain: list[Loop] = []
        inner: Statement | None = statement
        while isinstance(inner, Loop | If):
            chain += [inner] if isinstance(inner, Loop) else []
            inner = only_inner(inner)
        adds = [s for s in statements([statement]) if isinstance(s, Add) and s.name in declared]
        if any(add.reduction not in COMBINED for add in adds):
            return []
        if chain and adds:
            once = {add.name: add for add in adds}
            along = chain[-2] if len(chain) > 1 else None
            found.append(Shared(statement, chain[-1], along, tuple(once.values())))
    # The first one tells how many threads along x and y a block has.
    return sorted(found, key=lambda shared: shared.along is None)


def only_inner(statement: Loop | If) -> Loop | If | None:
    """The loop or guard inside of another one that does nothing else, but for what it computes once."""
    _, rest = _parted(statement.body)
    return rest[0] if len(rest) == 1 and isinstance(rest[0], Loop | If) else None


def lengths(
    kernel: Kernel, shared: Shared, names: Names, box: Sequence[Affine], known: Mapping[str, Affine]
) -> tuple[str, str] | None:
    """The numbers of rounds of the two loops, for the host, who knows those of some variables.

    None where the host cannot tell, or where a thread for each entry of the ``box`` is the better choice.
    """
    own = set(own_names(kernel))
    printer = FormPrinter(names)
    texts = []
    for loop in (shared.along, shared.across):
        if loop is None:
            text: str | None = "1"
        elif loop.variable in known:
            text = printer.form(known[loop.variable])
        else:
            text = _host_rounds(loop, own, printer)
        if text is None:
            return None
        texts.append(text)
    if all(extent.is_constant for extent in box) and prod(e.constant for e in box) > MOST_ENTRIES:
        return None
    if all(text.isdecimal() for text in texts) and prod(map(int, texts)) < LEAST_VALUES:
        return None
    return texts[0], texts[1]


def known_bounds(loop: Loop, own: set[str]) -> tuple[list[Bound], list[Bound]] | None:
    """The bounds of a loop without the names that only the kernel knows; None if these tell how many rounds it has."""
    lows, highs = ([b for b in found if own.isdisjoint(b.form.atoms())] for found in (loop.lows, loop.highs))
    return None if not lows or not highs or any(b.form.compounds() for b in (*lows, *highs)) else (lows, highs)


def _host_rounds(loop: Loop, own: set[str], printer: FormPrinter) -> str | None:
    """How many rounds a loop has, at most, for the host; None if it cannot tell."""
    if (found := known_bounds(loop, own)) is None:
        return None
    low, stop = printer.lower(found[0]), printer.stop(found[1])
    return stop if low == "0" else f"{stop} - ({low})"


class BlockPrinter(CudaPrinter):
    """A kernel with one block per entry."""

    def print(self, shared: list[Shared], parameters: str, inner: str) -> tuple[str, tuple[Statement, ...]]:
        """The text of the function, and its nest.

        The host knows ``inner`` as the rounds of the inner loop of the first statement.
        """
        kernel = self.kernel
        self.inner = inner
        self.memory = self.names.fresh("parts")
        loops = {
            id(found.statement): {id(found.along): "thread.y", id(found.across): "thread.x"}
            if found.along
            else {id(found.across): "thread"}
            for found in shared
        }
        nest = block_nest(kernel, kernel.box(self.shapes), loops, self.names.fresh)
        self.line(0, f"@cuda.jit\ndef {function_name(kernel)}_in_blocks({parameters}):")
        self.line(1, f'"""{task_text(kernel, self.names)}, one block per entry."""')
        self.line(1, f"real = {self.names(kernel.array)}.dtype.type")
        self.line(1, f"{self.memory} = cuda.shared.array({THREADS}, real)")
        self.axes()
        body: Sequence[Statement] = nest
        while isinstance(body[0], Loop) and body[0].bind.startswith("block."):
            body = body[0].body
        self.body(body, 1)
        return "\n".join(self.lines), nest

    def call(self, function: str | External, arguments: tuple[Scalar, ...]) -> str:
        text = super().call(function, arguments)
        return f"{text[:-1]}, {self.memory})" if function in COMBINED.values() else text

    def axes(self) -> None:
        """Append the lines that give each axis its value from the block's place in the grid."""
        axes = [self.names(axis) for axis in self.kernel.axes]
        for axis, place in zip(reversed(axes[-2:]), "xy", strict=False):
            self.line(1, f"{axis} = cuda.blockIdx.{place}")
        self.mixed(axes[:-2], "cuda.blockIdx.z", 1)

    def rounds(self, loop: Loop) -> tuple[str, str]:
        if not loop.bind:
            return super().rounds(loop)
        first, step = f"{THREAD[1]}*cuda.blockDim.x + {THREAD[0]}", str(THREADS)
        if loop.bind != "thread":
            place = loop.bind[-1]
            width = min(THREADS, 1 << (int(self.inner) - 1).bit_length()) if self.inner.isdecimal() else None
            steps = {"x": width, "y": width and THREADS // width}
            first, step = f"cuda.threadIdx.{place}", str(steps[place] or f"cuda.blockDim.{place}")
        low = self.lower(loop.lows)
        return first if low == "0" else f"{low} + {first}", step
