"""The schedule of kernels that run together: one loop over their common axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sympy_tensordiff.codegen.ir.loops import Accumulator, Alloc, Bound, Ends, Statement, Store
from sympy_tensordiff.codegen.ir.nest_laws import NestLaws
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly, extent, span, start
from sympy_tensordiff.codegen.ir.programs import Array, Fused, Kernel, Scatter
from sympy_tensordiff.codegen.ir.scalars import Load, Name
from sympy_tensordiff.codegen.ir.walk import filled_arrays, own_names, uses
from sympy_tensordiff.codegen.schedule.cpu import Nest, Place, scheduled
from sympy_tensordiff.codegen.schedule.fusion import total_loop
from sympy_tensordiff.codegen.schedule.primitives import localise, split_sums
from sympy_tensordiff.codegen.schedule.short_rows import PART
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Row


def nest_of(step: Kernel | Fused, place: Place) -> Nest:
    """The nest of a step, which fulfils the laws of nests."""
    nest = scheduled_together(step, place) if isinstance(step, Fused) else scheduled(step, place)
    used, totals = uses(step), step.totals if isinstance(step, Fused) else ()
    known = {*used.scalars, *used.integers, *used.arrays, *([step.array] if isinstance(step, Scatter) else [])}
    NestLaws(known, filled_arrays(step), place.block, totals).check((*nest.arrays, *nest.body))
    return nest


def scheduled_together(step: Fused, place: Place) -> Nest:
    """The nest of kernels that run together."""
    bare = place.bare.union(array.name for array in step.rows if not array.shape)
    parts = _Parts(step, replace(place, bare=bare, outer=(), block=None, is_within=True))
    names = [name for kernel in step.kernels for name in own_names(kernel) if name != step.axis]
    if len(set(names)) != len(names):
        raise VerificationError(f"kernels that run together have a name in common: {step.array}")
    for kernel in step.kernels:
        if kernel.array in step.totals:
            parts.total(kernel)
        else:
            parts.row(kernel)
    first, stop = map(Affine.variable, place.block) if place.block is not None else (ZERO, step.extent)
    loops: tuple[Statement, ...] = (span(step.axis, first, stop, parts.inside),)
    if parts.sums and not (step.extent.is_constant and step.extent.constant <= PART):
        loops = split_sums(span(step.axis, first, stop, parts.inside), parts.sums, PART, place.fresh)
    rows = [parts.alloc(array) for array in step.rows if array.shape]
    return Nest((*rows, *parts.arrays), (*parts.before, *loops, *parts.after), bare)


@dataclass
class _Parts:
    """What runs before, in, and after the loop over the common axis, and the sums that are one number."""

    step: Fused
    place: Place
    arrays: list[Alloc] = field(default_factory=list)
    before: list[Statement] = field(default_factory=list)
    inside: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = frozenset(array.name for array in self.step.rows)

    def alloc(self, array: Array) -> Alloc:
        """The array of which one row is enough."""
        proves = self.place.prover.proves
        shape = [exactly(e) if proves(Row("ge", e)) else Ends((Bound(ZERO), Bound(e))) for e in array.shape]
        return Alloc(array.name, tuple(shape), self.step.filled[0])

    def row(self, kernel: Kernel) -> None:
        """One row of a kernel in each turn."""
        outer = () if kernel.array in self.rows else (self.step.axis,)
        nest = scheduled(self.local(kernel, kernel.axes[1:], kernel.body), replace(self.place, outer=outer))
        self.arrays += nest.arrays
        self.inside += nest.body

    def total(self, kernel: Kernel) -> None:
        """A sum over the turns: each adds to all entries."""
        accumulator, axes = _accumulator(kernel), kernel.axes
        if (loop := total_loop(kernel, self.step.extent)) is None:
            raise VerificationError(f"{kernel.array} has no loop over all values of {self.step.axis}")
        own = Name(accumulator.name)
        entry = Load(kernel.array, tuple(map(Affine.variable, axes))) if axes else own
        first: Statement = start(entry, accumulator.reduction)
        for number, axis in reversed(list(enumerate(axes))):
            first = span(axis, ZERO, extent(kernel.array, number), [first])
        self.before.append(first)
        self.sums += [own.name] if not axes and accumulator.reduction == "sum" else []
        self.inside += self.turn(kernel, loop.body, {own.name: entry})
        store = kernel.body[-1]
        assert isinstance(store, Store)
        if not axes or store.value != own:
            self.after += self.turn(kernel, [store], {own.name: entry})

    def turn(self, kernel: Kernel, body: Sequence[Statement], entry: dict[str, Name | Load]) -> Sequence[Statement]:
        """The nest of some statements of a kernel, with its accumulator where the total is."""
        return scheduled(self.local(kernel, kernel.axes, body), replace(self.place, entries=entry)).body

    def local(self, kernel: Kernel, axes: tuple[str, ...], body: Sequence[Statement]) -> Kernel:
        """A kernel with other axes that reads the rows in the place of their arrays."""
        return replace(kernel, axes=axes, body=localise(body, self.rows))


def _accumulator(kernel: Kernel) -> Accumulator:
    (found,) = (s for s in kernel.body if isinstance(s, Accumulator))
    return found
