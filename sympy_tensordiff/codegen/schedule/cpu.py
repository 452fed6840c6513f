"""The CPU schedule of one kernel: ordered lists of rules, each with the reason for it.

Of `ROWS`, the first rule that applies says how the last axis runs; of `LOOPS`, the first that applies to a loop
rewrites it. A new optimisation is one more rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from sympy_tensordiff.codegen.ir.facts import Prover, is_vectorised
from sympy_tensordiff.codegen.ir.loops import Alloc, If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import (
    ZERO,
    exactly,
    extent,
    lengths,
    span,
    with_entries_as_scalars,
    with_scalars,
)
from sympy_tensordiff.codegen.ir.programs import Kernel, Scatter
from sympy_tensordiff.codegen.ir.rare_loops import condition_of_loop, with_usual_loop
from sympy_tensordiff.codegen.ir.scalars import EXTREMA, Bound, Ends, Load, Name, Operation
from sympy_tensordiff.codegen.ir.walk import bounds, forms, loads, loops, scalars, weight
from sympy_tensordiff.codegen.schedule.angles import with_near_angles
from sympy_tensordiff.codegen.schedule.common_loops import with_common_loops
from sympy_tensordiff.codegen.schedule.distribution import distributed
from sympy_tensordiff.codegen.schedule.interior import LoopContext, interior
from sympy_tensordiff.codegen.schedule.invariant_reads import InvariantReads, gathers_first
from sympy_tensordiff.codegen.schedule.primitives import NameMaker, carry, jam, rfactor, sink, split, split_sums
from sympy_tensordiff.codegen.schedule.rows import (
    SHORT,
    STRIP,
    RowPlan,
    cache_lines,
    has_few_steps,
    is_short,
    most_steps,
    runs_less_often,
    scans_plan,
    sums_plan,
)
from sympy_tensordiff.codegen.schedule.short_rows import PART, long_sums, short_row
from sympy_tensordiff.integer.affine import Affine, Constraint, Variable
from sympy_tensordiff.integer.indirect import data_entries

CHAINS = 8
"""As many maxima are computed side by side.

Half and twice as many take 0.98 to 1.02 of the time of the three benchmarks that change.
"""

CHAIN_WEIGHT = 8
"""Of values of no more operations and reads than this. Half and twice as much change no text of the benchmarks."""


JAMMED = 4
"""So many terms are added to a row of sums at a time.

Half and twice as many take 0.95 to 1.05 of the time of the nine benchmarks that change.
"""

JAM_WEIGHT = 16
"""Of no more operations and reads than this each.

Of 8, the batch norm takes 1.28 of the time; of 32, no text of the benchmarks changes.
"""

JAMMED_OPERATIONS = frozenset({"add", "mul", "neg", "pow"})
"""Other functions in a term of such a row take longer than the reads and writes that are saved."""


@dataclass(frozen=True)
class ScheduleContext:
    """The context in which a kernel is scheduled, passed to all rules: the loops around the kernel, the block of rows
    that one thread computes, the options, and the rules applied so far.

    ``outer`` are axes of its array over which something around it loops. ``block`` are the first value of the first
    axis and one past the last, where a function fills a part of the array only. ``is_within``: it may run often.
    ``is_plain``: no rule applies. ``entries`` replace accumulators. ``off`` are names of rules that
    are not applied. ``fired`` gets the rules that apply, ``ends`` the
    names of the ends at which loops stopped that go on for the next entry, most of them by one step. ``buffers`` gets
    the local arrays of rules for single loops, which have the dtype of the array ``like``; none are made without one.
    ``rows`` are the shapes of arrays of which one row at a time is stored. ``around`` are the loops around a statement,
    those over axes as if the kernel was not in blocks.
    """

    prover: Prover
    fresh: NameMaker
    bare: frozenset[str] = frozenset()
    outer: tuple[str, ...] = ()
    block: tuple[str, str] | None = None
    is_within: bool = False
    is_plain: bool = False
    off: frozenset[str] = frozenset()
    entries: Mapping[str, Name | Load] = field(default_factory=dict)
    fired: dict[Rule, None] = field(default_factory=dict)
    like: str = ""
    buffers: list[Alloc] = field(default_factory=list)
    ends: set[str] = field(default_factory=set)
    rows: Mapping[str, tuple[Affine, ...]] = field(default_factory=dict)
    around: tuple[Loop, ...] = ()

    @property
    def lengths(self) -> Mapping[Variable, Affine]:
        """A dictionary from the variables that stand for lengths of array axes in loop nests to their values, forms in
        the sizes.
        """
        found = self.prover.lengths
        for array, shape in self.rows.items():
            found = found | lengths(array, shape)
        return found

    def proves(self, row: Constraint, known: Sequence[Constraint]) -> bool:
        """Return whether `row` follows from the constraints `known`. Both may contain variables for the lengths of
        array axes.
        """
        row, *rest = (one.substitute(self.lengths) for one in (row, *known))
        return self.prover.proves(row, rest)

    def is_unrolled(self, loop: Loop) -> bool:
        """Return whether `loop` has so few iterations that compilers unroll it. Lengths of array axes in its bounds are
        replaced by their values.
        """
        lows, highs = (
            tuple([Bound(bound.form.substitute(self.lengths), bound.divisor) for bound in side])
            for side in (loop.lows, loop.highs)
        )
        return has_few_steps(replace(loop, lows=lows, highs=highs))


@dataclass(frozen=True)
class Nest:
    """The scheduled loop nest of one generated function: its statements, and the local arrays that they use.

    ``bare`` are arrays of rank 0 which are scalars there.
    """

    arrays: tuple[Alloc, ...]
    body: tuple[Statement, ...]
    bare: frozenset[str] = frozenset()


Made: TypeAlias = "tuple[tuple[Alloc, ...], tuple[Statement, ...]]"


class Rule(NamedTuple):
    """A scheduling rule for CPU loops: its name, the reason for it, and the function ``do``. The function returns the
    statements that replace a loop, or None if the rule does not apply.
    """

    name: str
    reason: str
    do: Callable[..., Made | tuple[Statement, ...] | None]


def scheduled(kernel: Kernel, site: ScheduleContext) -> Nest:
    """Return the loop nest of `kernel`, scheduled for a CPU: one rule of `ROWS` for the loops over its axes, then rules
    of `LOOPS` for single loops.
    """
    if kernel.array in site.bare:
        kernel = replace(kernel, body=with_entries_as_scalars(kernel.body, {kernel.array}))
    like = site.like or (kernel.array if kernel.array not in site.bare else "")
    site = replace(site, like=like, buffers=[])
    spans = _axes(kernel, site)
    rule, found = _first(ROWS, site, kernel, site, spans)
    arrays, body = found or ((), kernel.body)
    for loop in reversed(spans[:-1] if rule else _interchanged(kernel, site, spans)):
        body = (replace(loop, body=body),)
    body = with_scalars(body, site.entries)
    is_one = not (kernel.axes or site.outer or site.is_within)
    body = _refined(body, replace(site, around=(*site.around, *_whole_axes(kernel, site))), is_one)
    if rule != CARRY:
        new = _reading_once(body, kernel, site)
        site.fired.update({} if new == body else {ONCE: None})
        body = new
    return Nest((*arrays, *site.buffers), body, site.bare)


def _first(recipe: Sequence[Rule], site: ScheduleContext, *args: Any) -> tuple[Rule | None, Any]:
    """Return ``(rule, result)`` of the first rule of ``recipe`` that is switched on and returns a result for ``args``;
    ``(None, None)`` if there is none. Record the rule in ``site.fired``, for the plan.

    ``(None, None)``, too, if ``site`` is plain.
    """
    for rule in () if site.is_plain else recipe:
        if rule.name not in site.off and (found := rule.do(*args)) is not None:
            site.fired[rule] = None
            return rule, found
    return None, None


def _reading_once(body: Sequence[Statement], kernel: Kernel, site: ScheduleContext) -> tuple[Statement, ...]:
    """Return the statements ``body`` of `kernel` with loop-invariant reads moved out of loops. Entries of integer
    arrays, such as ``idx[i]``, are moved in any case, those of real arrays only if the kernel does not run within a
    fused loop (``site.is_within``).
    """
    box = kernel.box(site.prover.shapes)
    extents = {f"{kernel.array}.shape[{n}]": length for n, length in enumerate(box)}
    ends = [(Affine.variable(axis), length) for axis, length in zip(site.outer, box, strict=False)]
    if site.block is not None:
        ends += [(Affine.variable(name), box[0] + 1) for name in site.block]
    rows = tuple(Constraint("ge", form) for value, length in ends for form in (value, length - value - 1))
    return InvariantReads(site.prover, site.fresh, extents, has_values=not site.is_within).body(body, rows)


def _axes(kernel: Kernel, site: ScheduleContext) -> list[Loop]:
    """Return the loops over the axes of `kernel`, outer ones first. ``site`` has the loops around the kernel, and the
    block of rows that one thread computes.
    """
    found = []
    for number, axis in enumerate(kernel.axes):
        first, stop = ZERO, extent(kernel.array, len(site.outer) + number)
        if isinstance(kernel, Scatter):
            stop = kernel.extents[number]
        if site.block is not None and not number:
            first, stop = map(Affine.variable, site.block)
        found.append(span(axis, first, stop))
    return found


def _whole_axes(kernel: Kernel, site: ScheduleContext) -> tuple[Loop, ...]:
    """Return loops without bodies over all values of the axes of `kernel`, outer ones first."""
    numbers = enumerate(kernel.axes, len(site.outer))
    ends = kernel.extents if isinstance(kernel, Scatter) else [extent(kernel.array, number) for number, _ in numbers]
    return tuple([span(axis, ZERO, stop) for axis, stop in zip(kernel.axes, ends, strict=False)])


def _interchanged(kernel: Kernel, site: ScheduleContext, spans: Sequence[Loop]) -> Sequence[Loop]:
    """Return ``spans``, the loops over the axes of `kernel`, interchanged so that the innermost loop reads contiguous
    memory as often as possible.

    That is the last axis unless more reads are contiguous along another. Short axes, which are unrolled, stay in their
    places, and so do all where longer loops run inside, and where several instances of a scatter add to one entry.
    """
    moves = not site.is_plain and not (isinstance(kernel, Scatter) and not kernel.exclusive)
    if not moves or len(spans) < 2 or not all(map(has_few_steps, loops(kernel.body))):
        return spans
    box = kernel.box(site.prover.shapes)[-len(spans) :]  # the entry's own axes, behind those of an outer row
    long = [n for n, length in enumerate(box) if not is_short(length)]
    entries = [*loads(kernel.body)]
    lines = [sum(cache_lines(entry, spans[n].variable) for entry in entries) for n in long]
    if not long or lines[-1] <= min(lines):
        return spans
    site.fired[INTERCHANGE] = None
    last = long.pop(lines.index(min(lines)))
    order = iter([*long, last])
    return [spans[next(order)] if n in (*long, last) else loop for n, loop in enumerate(spans)]


def _jammed(kernel: Kernel, site: ScheduleContext, spans: Sequence[Loop]) -> Made | None:
    """Return the statements of `kernel` with its short last axis unrolled, so that its loops compute all entries along
    it at once (unroll-and-jam), as ``((), statements)``. None for other kernels, or if this saves no reads.

    The () says that there are no local arrays; ``spans`` is not used.
    """
    is_cut = site.block and len(kernel.axes) == 1
    body = None if is_cut else short_row(kernel, site.prover, site.fresh)
    return None if body is None else ((), body)


def _rows(kernel: Kernel, plan: RowPlan | None, spans: Sequence[Loop], site: ScheduleContext) -> Made | None:
    """Return ``(local arrays, statements)`` that compute `kernel` row by row, as `plan` says; None if `plan` is None.
    The loop along a row, the last of ``spans``, is moved inside other loops, such as sums, so that memory is read
    contiguously.

    A long row is cut into strips.
    """
    if plan is None:
        return None
    row = spans[-1]
    extent, is_cut = kernel.box(site.prover.shapes)[-1], bool(site.block) and len(kernel.axes) == 1
    in_strips = len(kernel.axes) == 1 and not plan.scans and not site.outer
    if is_short(extent, STRIP) and not (plan.scans or is_cut):
        # With a length that compilers know, sums stay in registers: 1.28 of the time of a batch norm without.
        row, in_strips = replace(row, highs=(Bound(extent - 1),)), False
    length, around = row.highs[0].form + 1, None
    if in_strips and site.block is not None:
        length -= row.lows[0].form
    elif in_strips:
        # The end of a strip is computed once: without, the row fir took 1.13 times as long in single precision.
        around, last = split(row, STRIP, site.fresh("first")), site.fresh("last")
        (inner,) = around.body
        assert isinstance(inner, Loop)
        length, row = Affine.of(STRIP), replace(inner, highs=(Bound(Affine.variable(last) - 1),))
        around = replace(around, body=(Set(Name(last), Ends((), inner.highs)),))
    arrays = [Alloc(name, (exactly(length),), kernel.array) for name in sorted(plan.expanded)]
    scans: list[Statement] = []
    done: list[str] = []
    for scan in plan.scans:
        begin, *carried = carry(row, extent - 1, scan, done, site.fresh)
        assert isinstance(begin, Set) and isinstance(begin.target, Name)
        site.ends.add(begin.target.name)
        scans += [begin, *carried]
        done += [accumulator.name for accumulator in scan.accumulators]
    if scans:
        # They come before the last segment, and use the results of the others.
        first, rest = (replace(plan, segments=part) for part in (plan.segments[:-1], plan.segments[-1:]))
        body = (*sink(row, first), *scans, *sink(row, rest))
    else:
        body = sink(row, plan)
    return tuple(arrays), body if around is None else (replace(around, body=(*around.body, *body)),)


def _refined(body: Sequence[Statement], site: ScheduleContext, is_one: bool) -> tuple[Statement, ...]:
    """Return the statements ``body`` with each loop, also an inner one, rewritten by the first rule in `LOOPS` that
    applies to it. With ``is_one``, for a kernel that computes one number, once per call, long sums are split into parts
    unless a loop around them is.
    """
    found: list[Statement] = []
    for statement in body:
        rule, new = _first(LOOPS, site, statement, site, is_one) if isinstance(statement, Loop) else (None, None)
        if rule is None and isinstance(statement, Loop | If):
            inner = replace(site, around=(*site.around, statement)) if isinstance(statement, Loop) else site
            new = [replace(statement, body=_refined(statement.body, inner, is_one))]
        found += [statement] if new is None else new
    return tuple(found)


def _in_chains(loop: Loop, site: ScheduleContext, is_one: bool) -> tuple[Statement, ...] | None:
    """Return `loop`, which computes a long maximum or minimum, with `CHAINS` independent accumulators: a comparison
    then need not wait for the previous one. None for other loops. ``is_one`` is not used.
    """
    goes_on = any(not bound.form.atoms().isdisjoint(site.ends) for bound in bounds(loop))
    return rfactor(loop, CHAINS, site.fresh) if is_extremum(loop) and not goes_on else None


def _in_parts(loop: Loop, site: ScheduleContext, is_one: bool) -> tuple[Statement, ...] | None:
    """Return ``loop`` with each long sum split into partial sums, which makes rounding errors smaller. None if there
    are no long sums, or unless the kernel computes one number, once per call (``is_one``).
    """
    sums = long_sums(loop) if is_one else []
    parts = split_sums(loop, sums, PART, site.fresh) if sums else ()
    inner = replace(site, around=(*site.around, loop))
    inside = [replace(s, body=_refined(s.body, inner, False)) if isinstance(s, Loop) else s for s in parts]
    return tuple(inside) or None


def is_extremum(loop: Loop) -> bool:
    """Return whether `loop` is a long maximum or minimum of cheap values, and nothing else."""
    add = loop.body[0]
    if len(loop.body) != 1 or not isinstance(add, Set) or add.reduction not in EXTREMA:
        return False
    if condition_of_loop(loop) is not None:  # rarely runs
        return False
    if not isinstance(add.target, Name) or weight(loop.body) > CHAIN_WEIGHT:
        return False
    return not runs_less_often(loop, CHAINS) and any(loop.variable in form.atoms() for form in forms(loop.body))


def _jammed_rows(loop: Loop, site: ScheduleContext, is_one: bool) -> tuple[Statement, ...] | None:
    """Return `loop`, which adds terms to a whole row, as ``for i: row[j] += a[i]*b[i, j] for all j``, with several i
    handled in one pass over the row, so that the row is read less often. None for other loops.

    ``site`` gives new names; ``is_one`` is not used.
    """
    if not is_sum_of_rows(loop):
        return None
    steps = most_steps(loop)
    return jam(loop, JAMMED if steps is None or steps > SHORT else steps, site.fresh)


def is_sum_of_rows(loop: Loop) -> bool:
    """Return whether `loop` is long and only adds simple terms to a row, entry by entry: ``row[j] += a[i]*b[i, j]`` for
    all j.

    The row is the same in each turn; that no term reads an entry which is not complete is a law of all nests.
    """
    row = loop.body[0]
    if len(loop.body) != 1 or not isinstance(row, Loop) or len(row.body) != 1 or runs_less_often(loop, JAMMED):
        return False
    add = row.body[0]
    if not isinstance(add, Set) or add.reduction != "sum" or not isinstance(add.target, Load):
        return False
    values = list(scalars(row.body))
    if len(values) > JAM_WEIGHT or any(
        isinstance(v, Operation) and v.function not in JAMMED_OPERATIONS for v in values
    ):
        return False
    if any(data_entries(forms(row.body))):  # rows that data select are not read faster: 0.84 of the row embedding
        return False
    return not any(loop.variable in form.atoms() for form in (*(b.form for b in bounds(row)), *add.target.index))


def _distributed(loop: Loop, site: ScheduleContext, is_one: bool) -> tuple[Statement, ...] | None:
    """Return the statements that replace ``loop``: a loop over short strips, in which one inner loop computes sums and
    another applies functions such as exp to them, with vector instructions. None if that is illegal or does not pay.

    For ``y[p[i]] += exp(x[i])``, the first computes the values and the second adds them. The local arrays between the
    inner loops are added to ``site.buffers``. With ``is_one``, for a kernel that computes one number, once per call,
    long sums are added up strip by strip.
    """
    found = distributed(loop, site.like, site.fresh) if site.like else None
    if found is None:
        return None
    buffers, strips = found
    site.buffers.extend(buffers)
    strips = replace(strips, body=_refined(strips.body, site, False))
    sums = long_sums(strips) if is_one else []
    return split_sums(strips, sums, PART, site.fresh) if sums else (strips,)


def usual_rows(loop: Loop, site: ScheduleContext) -> tuple[Statement, ...] | None:
    """Split `loop`, the common loop of fused kernels, by a rarely true condition. Return statements that run the loop
    without the inner loops that this condition guards and then, if it was true in some iteration, run the full loop
    again. None if there are no such inner loops.
    """
    found: tuple[Statement, ...] | None = _first((USUAL,), site, loop, site, False)[1]
    return found


def common_loops(
    body: Sequence[Statement], lengths: Mapping[Variable, Affine], site: ScheduleContext
) -> Sequence[Statement]:
    """Return the statements of fused kernels for one row, with two loops merged where they compute the same costly
    values. ``lengths`` maps the variables for axis lengths of arrays to extents.
    """
    return _first((COMMON,), site, body, lengths, site)[1] or body


def distributed_rows(loop: Loop, site: ScheduleContext) -> Loop:
    """Return ``loop``, the common loop of fused kernels, cut into strips: in each strip, one loop computes reductions,
    and a second, vectorised one computes functions of their results. Return `loop` itself if that is not possible.
    """
    found = _first((DISTRIBUTE,), site, loop, site, False)[1]
    if found is None:
        return loop
    (strips,) = found
    assert isinstance(strips, Loop)
    return strips


def _interior(loop: Loop, site: ScheduleContext, is_one: bool) -> tuple[Statement, ...] | None:
    """Split ``loop`` into loops over its first few, middle and last few iterations, so that all conditions are true in
    the middle loop and need no tests. Return the new statements; None if there is no such middle range.

    ``site`` is the context of the loop; ``is_one`` is not used.
    """
    context = LoopContext(site.lengths, lambda test: _is_dear(test.body), site.around, site.proves)
    parts = interior(loop, site.fresh, context)
    return None if parts is None else _with_near_angles(parts, site)


def _with_near_angles(body: Sequence[Statement], site: ScheduleContext) -> tuple[Statement, ...]:
    """Return ``body`` with its loops, also those in conditionals, rewritten by the rule `with_near_angles`: sines and
    cosines are computed by fast functions for small angles, and again by ordinary ones if an angle was large. Other
    loops stay unchanged.
    """
    found: list[Statement] = []
    for s in body:
        if isinstance(s, If):
            found.append(replace(s, body=_with_near_angles(s.body, site)))
        elif isinstance(s, Loop):
            found += _first((ANGLES,), site, s, site, False)[1] or (s,)
        else:
            found.append(s)
    return tuple(found)


def _is_dear(body: Sequence[Statement]) -> bool:
    """Return whether `body` calls a costly function that has a version with vector instructions, such as exp."""
    return any(map(is_vectorised, scalars(body)))


CARRY = Rule("carry", "entries of a row go on from each other", lambda k, p, s: _rows(k, scans_plan(k), s, p))

COMMON = Rule(
    "common loops",
    "values that several loops over one row need are computed once",
    lambda body, lengths, s: with_common_loops(body, lengths, s.fresh),
)

DISTRIBUTE = Rule("distribute", "functions of inner sums are computed in vectors", _distributed)

INTERCHANGE = Rule("interchange", "the axis along which most reads are contiguous runs innermost", lambda *_: None)

ONCE = Rule("read once", "what data select is read once for all passes of the loops inside", _reading_once)

PLAIN = Rule("plain loops", "another schedule is not proved to stay inside of arrays", lambda *_: None)

ROWS = (
    Rule("sink", "the last axis runs inside of sums", lambda k, p, s: _rows(k, sums_plan(k, p.prover), s, p)),
    CARRY,
    Rule("gather", "what data select is read first", lambda k, p, s: _rows(*gathers_first(k, p.fresh), s, p)),
    Rule("jam", "the sums of a short row are added up together", _jammed),
)
"""How the last axis runs."""

ANGLES = Rule(
    "near angles", "vectors of sines, again where angles are large", lambda s, p, _: with_near_angles(s, p.fresh)
)

USUAL = Rule(
    "usual", "what rarely runs is a loop of its own", lambda s, p, _: with_usual_loop(s, p.fresh, p.is_unrolled)
)
"""The rule for loops in which other loops run rarely; of fused kernels, it is applied to their common loop."""

LOOPS = (
    USUAL,
    Rule("rfactor", f"{CHAINS} extrema side by side do not wait for each other", _in_chains),
    Rule("jam rows", f"a row of sums is read and written once for {JAMMED} terms", _jammed_rows),
    DISTRIBUTE,
    Rule("split", "parts of a long sum are added up in double precision", _in_parts),
    Rule("interior", "remainders and guards are needed at the ends only", _interior),
    ANGLES,
)
"""The rules for a single loop."""
