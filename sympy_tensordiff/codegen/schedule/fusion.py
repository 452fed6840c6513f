"""Loop fusion: kernels over the same leading axes in common loops.

A kernel that reads another's entries at the index of its own first axis only, ``t[i, j]`` for ``u[i, k]``, does not
have to wait for the rest: both run for one ``i``, then for the next. Intermediate entries stay in the cache, and of an
array that nothing else reads one row is enough. A sum over that axis (``Sum_i t[i, p]``) is fused as well, if it has
fewer entries than the arrays it reads: each value of ``i`` adds to all of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.bounds import check_bounds
from sympy_tensordiff.codegen.ir.dataflow import Dataflow, check_order, uses
from sympy_tensordiff.codegen.ir.facts import Prover, is_vectorised
from sympy_tensordiff.codegen.ir.laws import NestLaws
from sympy_tensordiff.codegen.ir.loops import (
    Alloc,
    Loop,
    Set,
    Statement,
    defines,
    is_accumulator,
    is_let,
    is_store,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly, extent, span
from sympy_tensordiff.codegen.ir.programs import (
    Array,
    ConstantKernel,
    ContractionStep,
    Correlation,
    FusedKernels,
    Kernel,
    Program,
    Scatter,
    Step,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.rename import Renaming, renamed, unique
from sympy_tensordiff.codegen.ir.scalars import (
    OF_ONE_EXPONENTIAL,
    Bound,
    Ends,
    External,
    Load,
    Name,
    Operation,
    Scalar,
)
from sympy_tensordiff.codegen.ir.walk import (
    filled_arrays,
    forms,
    loads,
    loops,
    outer_names,
    own_names,
    scalars,
    statements,
    used_names,
    weight,
)
from sympy_tensordiff.codegen.schedule.cpu import (
    PLAIN,
    Nest,
    ScheduleContext,
    common_loops,
    distributed_rows,
    scheduled,
    usual_rows,
)
from sympy_tensordiff.codegen.schedule.primitives import localise, split_sums
from sympy_tensordiff.codegen.schedule.rows import has_few_steps, is_short, row_plan
from sympy_tensordiff.codegen.schedule.short_rows import PART
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries

MAX_STEPS_BETWEEN = 64
"""Steps further away than so many others do not run together.

Half and twice as much change no text of the benchmarks.
"""

MAX_GROUP_OPERATIONS = 1200
"""Kernels of more scalar operations and reads in all do not run together.

Half as many take 2.4 of the time of the derivatives of a drug's concentrations after several doses, whose exponentials
are then computed once in each of two loops; twice as many take as long.
"""

MAX_SUMS_IN_LOOP = 12
"""So many sums over the rows of an array are taken in the loop that reads these rows for another kernel.

Of more, the passes of several rows at a time, which a loop of its own has, are worth more than one pass over memory.
CPU time of ``Sum_i f(Sum_k x[i, k]*w[k])`` with respect to w for 20,000 rows, in separate loops and fused: rows of 3
entries 93 and 73 us, of 12 195 and 139 us, of 16 155 and 175 us, of 100 0.45 and 0.54 ms.
"""


EXPONENTIAL = "exp(-abs(x))"
"""The name in sets of functions of the exponential that `OF_ONE_EXPONENTIAL` have in common."""


def fuse(program: Program, prover: Prover) -> Program:
    """Return the program with kernels over the same first axis fused into common loops, unless its options switch that
    off.
    """
    if "fuse" in program.rules_off:
        return program
    result = replace(program, kernels=tuple(_Fusion(program, prover).steps()))
    check_order(result)
    return result


@dataclass
class _Group:
    """Kernels that will share a loop over their first axis, of length ``extent``, and the arrays that they fill and
    read.
    """

    extent: Affine
    kernels: list[Kernel] = field(default_factory=list)
    totals: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    weight: int = 0


class _Fusion:
    """Fuses kernels of one program into common loops over their first axis, where this is legal and saves time."""

    def __init__(self, program: Program, prover: Prover) -> None:
        self.program = program
        self.prover = prover
        self.shapes = prover.shapes
        self.flow = Dataflow(program)
        self.taken = outer_names(program)
        self.weights: dict[int, int] = {}
        """The weights of kernels, by their identity: each is asked for in front of many groups."""
        self.plans: dict[int, bool] = {}
        """Whether kernels have a `row_plan`, by their identity."""

    def steps(self) -> list[Step]:
        """Return the steps of the program in order, with each group of fused kernels as one step."""
        waiting = deque(self.by_readers())
        result: list[Step] = []
        while waiting:
            first = waiting.popleft()
            group = self.new_group(first)
            if group is None:
                result.append(first)
                continue
            left: list[Step] = []
            while waiting and len(left) < MAX_STEPS_BETWEEN and group.weight < MAX_GROUP_OPERATIONS:
                step = waiting.popleft()
                producers = self.producers(step, left, group)
                group.others -= {other.array for other in producers}
                if isinstance(step, Kernel) and self.joins(step, group, producers):
                    for kernel in (*producers, step):
                        self.add(kernel, group)
                    left = [other for other in left if other not in producers]
                else:
                    left.append(step)
                    group.others |= {*filled_arrays(step), *(other.array for other in producers)}
            waiting.extendleft(reversed(left))
            result.append(self.fused(group) if len(group.kernels) > 1 else first)
        return result

    def by_readers(self) -> list[Step]:
        """Return the steps in a new order: a kernel whose array only one kernel reads, row by row, comes directly
        before this reader, so that the two can be fused.
        """
        late: list[Step] = []
        for step in reversed(self.program.kernels):
            place = 0
            reader, shape = self.flow.reader(step.array), self.shapes[step.array]
            if type(step) is Kernel and type(reader) is Kernel and len(self.flow.writers[step.array]) == 1:
                is_row = bool(shape) and shape[:1] == self.shapes[reader.array][:1]
                if is_row and _reads_only_at(reader, {step.array}, reader.axes[0]):
                    place = next((n for n, other in enumerate(late) if other is reader), 0)
            late.insert(place, step)
        return late

    # ------------------------------------------------------------------------ who takes part

    def new_group(self, step: Step) -> _Group | None:
        """Return a new group with `step` as its first kernel; None if `step` cannot be fused with others."""
        if not isinstance(step, Kernel) or not self.shapes[step.array] or not self.is_row_kernel(step):
            return None
        group = _Group(self.shapes[step.array][0])
        self.add(step, group)
        return group

    def is_row_kernel(self, kernel: Kernel) -> bool:
        """Return whether `kernel` can be fused with others in a common loop over their first axis, in which each
        computes one row. A kernel with one axis cannot if it is better to move the loop over it inside of its sums (see
        `row_plan`).
        """
        if isinstance(kernel, Scatter | ConstantKernel) or not kernel.axes:
            return False
        return len(kernel.axes) > 1 or not self.has_row_plan(kernel)

    def has_row_plan(self, kernel: Kernel) -> bool:
        """Return whether `row_plan` finds a plan for `kernel`; the answer is cached."""
        if id(kernel) not in self.plans:
            self.plans[id(kernel)] = row_plan(kernel, self.prover) is not None
        return self.plans[id(kernel)]

    def producers(self, step: Step, left: Sequence[Step], group: _Group) -> list[Kernel]:
        """Return the kernels in `left`, the steps that are not fused yet, that fill arrays for `step` and can join
        `group` before it. No other step reads these arrays.
        """
        wanted = self.flow.reads(step) & group.others if self.flow.reads(step) & group.filled else frozenset()
        return [
            other
            for other in left
            if type(other) is Kernel and other.array in wanted and self.flow.writer(other.array) is other
            if self.flow.reader(other.array) and self.is_row(other, group)
            if self.flow.reads(other).isdisjoint(group.others | group.totals)
            if _reads_only_at(other, self.flow.reads(other) & group.filled, other.axes[0])
        ]

    def is_row(self, kernel: Kernel, group: _Group) -> bool:
        """Return whether `kernel` can join the common loop of `group` such that each iteration computes one row of its
        array: the first axis has the length of the loop, and the kernel computes row by row.
        """
        shape = self.shapes[kernel.array]
        return bool(shape) and shape[0] == group.extent and self.is_row_kernel(kernel)

    def joins(self, step: Kernel, group: _Group, producers: Sequence[Kernel] = ()) -> bool:
        """Return whether `step` may be fused into `group`, and if this pays, because both read or fill the same array
        or repeat costly functions.

        `producers` are kernels that only `step` reads, to be fused with it.
        """
        if isinstance(step, Scatter | ConstantKernel):
            return False
        read = self.flow.reads(step)
        own = read & (group.filled | {kernel.array for kernel in producers})
        own_weight = sum(map(self.weight, (*producers, step)))
        if not read.isdisjoint(group.others | group.totals) or group.weight + own_weight > MAX_GROUP_OPERATIONS:
            return False
        # The arrays that it reads from the group, or that both read.
        common = own or {name for name in read & group.read if len(self.shapes[name]) > 1}
        if not own and self.is_row(step, group) and self.repeats_functions(step, group):
            return True
        if not common:
            return False
        return (self.is_row(step, group) and _reads_only_at(step, common, step.axes[0])) or self.is_total(
            step, group, common
        )

    def repeats_functions(self, kernel: Kernel, group: _Group) -> bool:
        """Return whether `kernel` and `group` probably compute the same costly function values: they call the same
        function in long loops, and one of them reads only arrays that the other reads, too.
        """
        read = self.flow.reads(kernel)
        if not (read <= group.read or group.read <= read):
            return False
        own, *others = (_functions_in_loops(one) for one in (kernel, *group.kernels))
        return bool(own) and any(own & other for other in others)

    def is_total(self, kernel: Kernel, group: _Group, common: AbstractSet[str]) -> bool:
        """Return whether `kernel` can be fused into the loop of `group`, because it is one reduction over this loop.
        ``common`` are the arrays that it shares with the group.

        It must read the arrays ``common`` to both only at the loop variable, and have fewer axes than one of them.
        """
        loop = total_loop(kernel, group.extent)
        if loop is None or not _reads_only_at(kernel, common, loop.variable):
            return False
        if kernel.axes and any(loops(loop.body)):
            return False
        if all(is_short(extent, MAX_SUMS_IN_LOOP) for extent in self.shapes[kernel.array]):
            common = common | (self.flow.reads(kernel) & group.read)
        return len(kernel.axes) < max(len(self.shapes[name]) for name in common)

    def weight(self, kernel: Kernel) -> int:
        """Return the number of operations in the body of a kernel, from a cache."""
        if id(kernel) not in self.weights:
            self.weights[id(kernel)] = weight(kernel.body)
        return self.weights[id(kernel)]

    def add(self, kernel: Kernel, group: _Group) -> None:
        """Add `kernel` to `group`, and record the arrays that it fills and reads."""
        group.weight += self.weight(kernel)
        own = self.flow.reads(kernel) & group.filled
        if group.kernels and not (self.is_row(kernel, group) and _reads_only_at(kernel, own, kernel.axes[0])):
            group.totals.add(kernel.array)
        group.kernels.append(kernel)
        group.filled.add(kernel.array)
        group.read |= self.flow.reads(kernel)

    # ------------------------------------------------------------------------ the common loop

    def fused(self, group: _Group) -> FusedKernels:
        """Return the kernels of `group` fused into one step. Their common loop gets one variable, and names that
        several kernels use for different things are made distinct.
        """
        depth = self.depth(group)
        taken = {*self.taken}
        axes: list[str] = []
        for name in group.kernels[0].axes[:depth]:
            axes.append(unique(name, taken))
            taken.add(axes[-1])
        tried: dict[str, int] = {}
        parts: list[Kernel] = []
        for kernel in group.kernels:
            loop = total_loop(kernel, group.extent) if kernel.array in group.totals else None
            own = (loop.variable,) if loop else kernel.axes[:depth]
            parts.append(renamed(kernel, dict(zip(own, axes, strict=True)), taken, tried))
        inner = tuple(zip(axes[1:], self.shapes[group.kernels[0].array][1:depth], strict=True))
        return FusedKernels(
            axes[0], group.extent, tuple(parts), frozenset(group.totals), self.rows(group, depth), inner
        )

    def depth(self, group: _Group) -> int:
        """Return how many leading axes all kernels of `group` can share as outer loops, at least 1. The more they
        share, the less of each intermediate array is stored at a time.

        At least one kernel has further axes, along which its innermost loops run.
        """
        depth, shapes = 1, [self.shapes[kernel.array] for kernel in group.kernels]
        while not group.totals and all(len(shape) > depth for shape in shapes):
            ends = {shape[depth] for shape in shapes}
            rows = [shape[depth + 1 :] for shape in shapes]
            if len(ends) > 1 or not any(rows) or any(row and is_short(row[-1]) for row in rows):
                break
            if not all(self.runs_at(kernel, group, depth + 1) for kernel in group.kernels):
                break
            depth += 1
        return depth

    def runs_at(self, kernel: Kernel, group: _Group, depth: int) -> bool:
        """Return whether `kernel` can run inside of loops over its first `depth` axes: it reads each array of `group`
        only at the current values of the axes.
        """
        is_row = len(kernel.axes) > depth or not self.has_row_plan(kernel)
        return is_row and _reads_only_at(kernel, self.flow.reads(kernel) & group.filled, *kernel.axes[:depth])

    def rows(self, group: _Group, depth: int) -> tuple[Array, ...]:
        """Return the temporaries that only the kernels of `group` fill and read, as arrays without their first `depth`
        axes, because only one row of each is stored at a time.
        """
        inside = Counter(name for kernel in group.kernels for name in self.flow.reads(kernel))
        return tuple(
            Array(name, self.shapes[name][depth:])
            for name in (kernel.array for kernel in group.kernels)
            if name not in group.totals and self.flow.writer(name) and inside[name] == len(self.flow.readers[name])
        )


def _functions_in_loops(kernel: Kernel) -> frozenset[str | External]:
    """Return the functions that `kernel` calls in its innermost loops, without loops of few steps. If one of them, such
    as tanh, is computed from a single exponential, `EXPONENTIAL` is added.
    """
    bodies = [loop.body for loop in loops(kernel.body) if not has_few_steps(loop) and not any(loops(loop.body))]
    if len(kernel.axes) == 1 and not any(loops(kernel.body)):
        bodies.append(kernel.body)
    found = {
        part.function
        for body in bodies
        for part in scalars(body)
        if isinstance(part, Operation) and is_vectorised(part)
    }
    return frozenset(found if found.isdisjoint(OF_ONE_EXPONENTIAL) else {*found, EXPONENTIAL})


class Reduction(NamedTuple):
    """The statements of a kernel that consists of one reduction: scalars that it computes first, the initial value of
    the accumulator, the loop, and the store of the result.
    """

    constants: tuple[Set, ...]
    """Scalars that are computed before the loop; there are none where the result has axes."""
    start: Set
    loop: Loop
    store: Set


def single_reduction(kernel: Kernel) -> Reduction | None:
    """Return the statements of a kernel that consists of one reduction: initialisation, loop and store. None for other
    kernels.
    """
    if len(kernel.body) < 3:
        return None
    *before, loop, store = kernel.body
    scalars_before = [one for one in before if defines(one)]
    starts = [one for one in scalars_before if is_accumulator(one)]
    constants = tuple([one for one in scalars_before if one not in starts])
    if len(before) > len(scalars_before) or len(starts) != 1 or (constants and kernel.axes):
        return None
    if isinstance(loop, Loop) and is_store(store):
        return Reduction(constants, starts[0], loop, store)
    return None


def total_loop(kernel: Kernel, extent: Affine) -> Loop | None:
    """Return the loop of a kernel that consists of one reduction over ``range(extent)``; None for other kernels."""
    found = single_reduction(kernel)
    ends = (Bound(ZERO),), (Bound(extent - 1),)
    return found.loop if found is not None and (found.loop.lows, found.loop.highs) == ends else None


def _reads_only_at(kernel: Kernel, arrays: AbstractSet[str], *variables: str) -> bool:
    """Return whether every read of one of `arrays` in `kernel` has ``variables`` as its first indices. The read ``a[i,
    2*j]`` has ``i``, but not ``i, j``.
    """
    if any(entry.tensor in arrays for entry in data_entries(forms(kernel.body))):
        return False
    wanted = tuple(map(Affine.variable, variables))
    return all(
        node.index[: len(wanted)] == wanted
        for node in scalars(kernel.body)
        if isinstance(node, Load) and node.array in arrays
    )


def runs_in_blocks(step: Step, prover: Prover) -> bool:
    """Return whether each of several threads can compute a block of rows of `step`'s result.

    No prefix scan may run along its first axis, and sums over this axis in fused kernels must be plain totals; scatters
    and constants do not qualify.
    """
    if isinstance(step, Correlation):
        return True
    if isinstance(step, ContractionStep | Trapezoid):
        return bool(step.output)
    if isinstance(step, FusedKernels):
        return all(is_plain_total(kernel) for kernel in step.kernels if kernel.array in step.totals)
    if not isinstance(step, Kernel) or isinstance(step, Scatter | ConstantKernel):
        return False
    plan = row_plan(step, prover)
    return len(step.axes) > (plan is not None and bool(plan.scans))


def is_plain_total(kernel: Kernel) -> bool:
    """Return whether each entry of `kernel` is a single sum, stored unchanged, so that several threads can compute
    partial sums of it.
    """
    found = single_reduction(kernel)
    if not kernel.axes or found is None:
        return False
    return reduction_of(found.start) == "sum" and found.store.value == found.start.target


# ---------------------------------------------------------------------------- the nests of kernels that run together


def nest_of(step: Kernel | FusedKernels, site: ScheduleContext) -> Nest:
    """Schedule the loop nest of `step` in the context `site`, verify and return it. Return the unscheduled nest if an
    access in the scheduled one cannot be proved to be in bounds.
    """
    nest = scheduled_together(step, site) if isinstance(step, FusedKernels) else scheduled(step, site)
    used, totals = uses(step), step.totals if isinstance(step, FusedKernels) else ()
    known = {*used.scalars, *used.integers, *used.arrays, *([step.array] if isinstance(step, Scatter) else [])}
    NestLaws(known, filled_arrays(step), site.block, totals).check((*nest.arrays, *nest.body))
    try:
        check_bounds((*nest.arrays, *nest.body), step, site.prover, site.block)
    except VerificationError as error:
        return in_plain_loops(step, site, error)
    return nest


def in_plain_loops(step: Kernel | FusedKernels, site: ScheduleContext, error: VerificationError) -> Nest:
    """Return the loop nest of `step` without scheduling, to use after the check of its scheduled nest has raised
    `error`. Raise `error` again if that nest was not scheduled either.
    """
    if site.is_plain:
        raise error
    nest = nest_of(step, replace(site, is_plain=True, fired={}, ends=set()))
    site.fired.clear()
    site.fired[PLAIN] = None
    return nest


def scheduled_together(step: FusedKernels, site: ScheduleContext) -> Nest:
    """Return the nest of fused kernels: loops over their common axes, in which each kernel computes its row."""
    bare = site.bare.union(array.name for array in step.rows if not array.shape)
    shapes = {array.name: array.shape for array in step.rows}
    whole = [
        span(axis, ZERO, end) for axis, end in zip(step.axes, (step.extent, *(e for _, e in step.inner)), strict=True)
    ]
    inner = replace(site, bare=bare, outer=(), block=None, is_within=True, like=step.filled[0], buffers=[], rows=shapes)
    inner = replace(inner, around=tuple(whole))
    parts = _Parts(step, inner)
    names = [name for kernel in step.kernels for name in own_names(kernel) if name not in step.axes]
    if len(set(names)) != len(names):
        raise VerificationError(f"kernels that run together have a name in common: {step.array}")
    for kernel in step.kernels:
        if kernel.array in step.totals:
            parts.total(kernel)
        else:
            parts.row(kernel)
    parts.join_constants()
    first, stop = map(Affine.variable, site.block) if site.block is not None else (ZERO, step.extent)
    ends = [(first, stop), *((ZERO, end) for _, end in step.inner)]
    *around, row = [span(axis, low, end) for axis, (low, end) in zip(step.axes, ends, strict=True)]
    together = replace(row, body=tuple(common_loops(parts.inside, inner.lengths, site)))
    loops: tuple[Statement, ...] = (together,)
    if (usual := usual_rows(together, site)) is not None:
        loops = usual
    else:
        together = distributed_rows(together, parts.site)
        parts.arrays += parts.site.buffers
        loops = (together,)
    for loop in reversed(around):
        loops = (replace(loop, body=loops),)
    if parts.sums and not (step.extent.is_constant and step.extent.constant <= PART):
        loops = split_sums(together, parts.sums, PART, site.fresh)
    rows = [parts.alloc(array) for array in step.rows if array.shape]
    return Nest((*rows, *parts.arrays), (*parts.before, *loops, *parts.after), bare)


@dataclass
class _Parts:
    """Builds the loop nest of fused kernels from three lists of statements: those before their common loop, inside of
    it, and after it.
    """

    step: FusedKernels
    site: ScheduleContext
    arrays: list[Alloc] = field(default_factory=list)
    before: list[Statement] = field(default_factory=list)
    inside: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = frozenset(array.name for array in self.step.rows)

    def alloc(self, array: Array) -> Alloc:
        """Return the allocation of `array`, a temporary that stores one row at a time. An extent that may be negative
        is clamped at 0.
        """
        proves = self.site.prover.proves
        shape = [exactly(e) if proves(Constraint("ge", e)) else Ends((Bound(ZERO), Bound(e))) for e in array.shape]
        return Alloc(array.name, tuple(shape), self.step.filled[0])

    def row(self, kernel: Kernel) -> None:
        """Add the statements that compute one row of `kernel` to the body of the loop over rows that the fused kernels
        share.
        """
        axes = self.step.axes
        outer = () if kernel.array in self.rows else axes
        nest = scheduled(self.local(kernel, kernel.axes[len(axes) :], kernel.body), replace(self.site, outer=outer))
        self.arrays += nest.arrays
        self.inside += nest.body

    def total(self, kernel: Kernel) -> None:
        """Add `kernel`, a reduction over the loop that all fused kernels share. The entries of its result are
        initialised before the loop; each iteration updates all of them.
        """
        if (found := single_reduction(kernel)) is None or total_loop(kernel, self.step.extent) is None:
            raise VerificationError(f"{kernel.array} has no loop over all values of {self.step.axis}")
        (constants, accumulator, loop, store), axes = found, kernel.axes
        own = accumulator.target
        entry = kernel.entry if axes else own
        first: Statement = Set(entry, accumulator.value)
        for number, axis in reversed(list(enumerate(axes))):
            first = span(axis, ZERO, extent(kernel.array, number), [first])
        self.before += [*constants, first]
        self.sums += [accumulator.name] if not axes and reduction_of(accumulator) == "sum" else []
        self.inside += self.iteration(kernel, loop.body, {accumulator.name: entry})
        if not axes or store.value != own:
            self.after += self.iteration(kernel, [store], {accumulator.name: entry})

    def join_constants(self) -> None:
        """Give equal scalars that are set before the common loop one name, so that loops that are joined compute once
        what they compute from them: ``1/s[0]`` of several kernels. The same scalars inside of the loop are dropped.
        """
        filled = {*self.step.filled}
        times = Counter(p.name for p in statements((*self.before, *self.inside, *self.after)) if isinstance(p, Set))
        names: dict[str, str] = {}
        values: dict[Scalar, str] = {}

        def with_one_name(part: Sequence[Statement], is_before: bool) -> list[Statement]:
            """Return the statements ``part`` without definitions of scalars that are equal to an earlier one."""
            statements_left: list[Statement] = []
            for statement in part:
                (new,) = Renaming(names).body((statement,))
                is_own = is_let(new) and times[new.name] == 1 and used_names(new) <= {*values.values()}
                if is_let(new) and is_own and filled.isdisjoint(load.array for load in loads([new])):
                    first = values.setdefault(new.value, new.name) if is_before else values.get(new.value, new.name)
                    if first != new.name:
                        names[new.name] = first
                        continue
                statements_left.append(new)
            return statements_left

        self.before = with_one_name(self.before, True)
        self.inside = with_one_name(self.inside, False)
        self.after = [*Renaming(names).body(tuple(self.after))]

    def iteration(
        self, kernel: Kernel, body: Sequence[Statement], entry: dict[str, Name | Load]
    ) -> Sequence[Statement]:
        """Return the statements `body` of ``kernel``, scheduled for one iteration of the loop that it shares with other
        kernels. ``entry`` maps accumulators to the scalars or array entries that replace them; local arrays are added
        to ``self.arrays``.
        """
        nest = scheduled(self.local(kernel, kernel.axes, body), replace(self.site, entries=entry))
        self.arrays += nest.arrays
        return nest.body

    def local(self, kernel: Kernel, axes: tuple[str, ...], body: Sequence[Statement]) -> Kernel:
        """Return `kernel` with the given axes and body, to run inside of the common loops. An array of which only the
        current row is stored is read and filled without the indices of the common axes.
        """
        for _ in self.step.axes:
            body = localise(body, self.rows)
        return replace(kernel, axes=axes, body=tuple(body))
