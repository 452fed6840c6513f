"""Block kernels: one compiled function for all blocks of the partial results that share their loops.

The origin and the extent of a block and the first index that it reads on each axis are integer arguments. If both
ends of a footprint are single affine forms, the kernel contains these forms: a row of a block is then a row of its
slice of the argument, and matrix products remain library calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.distributed.footprints import (
    ReadRanges,
    iterate_reads,
    range_constraints,
    read_ranges,
    reduction_domains,
    single_end,
    to_affine_form,
    to_expression,
    variable_name,
)
from sympy_tensordiff.distributed.loops import BlockLoop
from sympy_tensordiff.distributed.partials import PartialResult, rebuild
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.integer.affine import Constraint
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.integer.values import are_ranges_nonempty
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.sums import IndexedReduction
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, TensorSymbol

MAX_WHOLE_ENTRIES = 4096
"""Tensors of known size with at most this many entries are passed whole: slicing costs more than copying."""


class AxisSlice(NamedTuple):
    """The slice of one axis that a block reads: its first index and its length, as expressions in the position of the
    block.
    """

    start: Expr
    extent: Expr


class KernelInput(NamedTuple):
    """An argument of a kernel: a scalar, or one slice of a tensor for each block, which covers the entries that some
    reads of the tensor need.

    ``x[i] - x[j]`` with both indices in blocks has two slices of ``x`` as inputs: one that covers both may be all of
    ``x``.
    """

    arg: Any
    entries: frozenset[Any] = frozenset()
    cuts: tuple[AxisSlice | None, ...] = ()
    ranges: tuple[ReadRanges, ...] = ()
    local: Any = None
    """The symbol inside the kernel."""

    def slices(self, variables: Mapping[str, int], shape: Sequence[int], *, exact: bool = True) -> Any:
        """Return the part of an argument that a block reads, as one slice for each axis; None if it reads nothing.

        The block is given by its index values ``variables``; ``shape`` is the argument's. Without ``exact``, the slices
        may be too large.
        """
        nonempty = [ranges for read in self.ranges if (ranges := read.evaluate(variables, exact=exact)) is not None]
        if not nonempty:
            return None
        own = []
        for axis, length in enumerate(shape):
            each = [range(length) if ranges[axis] is None else ranges[axis] for ranges in nonempty]
            own.append(slice(min(r.start for r in each), max(r.stop for r in each)))
        return tuple(own)


class BlockKernel:
    """A compiled function that computes partial results for one block of indices, from the slices of arguments in
    ``inputs``.
    """

    def __init__(
        self, parts: Sequence[PartialResult], args: Sequence[Any], split: Mapping[str, Any], backend: str, options: Any
    ) -> None:
        self.parts = tuple(parts)
        self.loops = loops_of_part(parts[0])
        extents = [n for a in args if isinstance(a, TensorSymbol) for n in (*a.shape, a.below or 0)]
        extents += [n for part in parts for _, n, _ in part.axes]
        self.sizes = sorted({s for n in extents for s in sympy.sympify(n).free_symbols}, key=str)
        self.facts = self._make_facts()
        self.domains = [
            [read_ranges(domain, self.facts, part.indices) for domain in domains] if domains else None
            for part in parts
            for domains in [
                reduction_domains(part.value, _axis_constraints(part), {loop.origin for loop in part.loops})
            ]
        ]
        self.start_count = 0
        names = {str(arg.name) for arg in args}
        self.inputs: list[KernelInput] = []
        for arg in args:
            if isinstance(arg, TensorSymbol) and arg.rank:
                for number, one in enumerate(self._group_inputs(arg, split)):
                    name = unique(f"{arg.name}_block{number or ''}", names)
                    names.add(name)
                    self.inputs.append(one._replace(local=_block_symbol(arg, one.cuts, name)))
            elif any(part.value.has(arg) or _shape_depends_on(part, arg) for part in parts):
                self.inputs.append(KernelInput(arg, local=arg))
        self._input_of = {entry: one for one in self.inputs for entry in one.entries}
        results = tuple(map(self._block_expression, parts))
        given = [one.local for one in self.inputs]
        present = {s for e in results for s in e.free_symbols}
        for tensor in given:
            if isinstance(tensor, TensorSymbol):
                present |= {s for n in (*tensor.shape, tensor.below or 0) for s in sympy.sympify(n).free_symbols}
        own = [s for loop in self.loops for s in (loop.origin, loop.extent)]
        starts = [c.start for one in self.inputs for c in one.cuts if c and c.start in present.difference(own)]
        self.numbers = [s for s in dict.fromkeys((*own, *starts, *self.sizes)) if s in present and s not in given]
        self.function = lambdify([*given, *self.numbers], results, backend, **options)

    def _make_facts(self) -> Rows:
        """Return the constraints that hold in every block: each size is at least 1, each block has at least one index,
        and its first and last index are in the range that is split into blocks.
        """
        rows = [Constraint("ge", to_affine_form(size - 1)) for size in self.sizes]
        for loop in self.loops:
            first, last = to_affine_form(loop.origin), to_affine_form(loop.origin + loop.extent - 1)
            rows.append(Constraint("ge", to_affine_form(loop.extent - 1)))
            rows += [Constraint("ge", d * first - form) for form, d in loop.range.lows]
            rows += [Constraint("ge", form - d * last) for form, d in loop.range.highs]
        return tuple(rows)

    def _group_inputs(self, tensor: TensorSymbol, split: Mapping[str, Any]) -> list[KernelInput]:
        """Return the inputs of a block's kernel for all reads of ``tensor``: one slice for each group of reads that
        move by the same steps from block to block. ``split`` maps names of sizes to block sizes.

        A small tensor, or one that a group reads whole, is a single input.
        """
        found: dict[Any, dict[ReadRanges, None]] = {}
        for part in self.parts:
            for read in iterate_reads(part.value, _axis_constraints(part)):
                if read.entry.tensor == tensor:
                    found.setdefault(read.entry, {})[read_ranges(read, self.facts, part.indices)] = None
        if all(sympy.sympify(n).is_Integer for n in tensor.shape) and sympy.prod(tensor.shape) <= MAX_WHOLE_ENTRIES:
            every = tuple(dict.fromkeys(ranges for own in found.values() for ranges in own))
            return [KernelInput(tensor, frozenset(found), (None,) * tensor.rank, every)] if found else []
        groups: dict[Any, list[Any]] = {}
        for entry, own in found.items():
            directions = tuple(map(self._origin_coefficients, zip(*(ranges.axes for ranges in own), strict=True)))
            groups.setdefault(directions, []).append(entry)
        inputs = [self._make_input(tensor, entries, found, split) for entries in groups.values()]
        is_whole = any(not any(one.cuts) for one in inputs)
        return [self._make_input(tensor, list(found), found, split)] if is_whole and len(inputs) > 1 else inputs

    def _origin_coefficients(self, ranges: Sequence[Bounds | None]) -> frozenset[Any]:
        """Return the set of coefficients with which the first indices of blocks occur in the ends of ``ranges``. Reads
        with equal sets move by the same number of entries from block to block, so that one slice serves all of them.
        """
        origins, extents = ({variable_name(getattr(o, side)) for o in self.loops} for side in ("origin", "extent"))
        ends = [end for one in ranges if one for end in (*one.lows, *one.highs) if end[0].atoms() & origins]
        return frozenset((tuple((v, c) for v, c in form.terms if v not in extents), by) for form, by in ends)

    def _make_input(self, tensor: TensorSymbol, entries: Any, found: Any, split: Mapping[str, Any]) -> KernelInput:
        """Return the input of the kernel for the reads ``entries`` of ``tensor``: one slice that contains all of them.
        ``found`` maps reads to their ranges, ``split`` maps names of sizes to block sizes.
        """
        ranges = tuple(dict.fromkeys(r for entry in entries for r in found[entry]))
        is_always_read = all(
            not r.others and not r.rows and all(a and are_ranges_nonempty([a], self.facts) for a in r.axes)
            for r in ranges
        )
        cuts = tuple(
            self._slice_of_axis(tensor, axis, tuple(dict.fromkeys(r.axes[axis] for r in ranges)), split, is_always_read)
            for axis in range(tensor.rank)
        )
        return KernelInput(tensor, frozenset(entries), cuts, ranges)

    def _slice_of_axis(
        self, tensor: TensorSymbol, axis: int, ranges: Any, split: Mapping[str, Any], is_always_read: bool
    ) -> AxisSlice | None:
        """Return the slice of ``tensor`` along ``axis`` that contains all ``ranges`` of indices read there; None for
        the whole axis. Raise `UnsupportedError` if a range is unknown (None) and the axis is split into blocks.

        ``split`` maps sizes to their blocks. ``is_always_read`` says that every block makes the reads.
        """
        extent = sympy.sympify(tensor.shape[axis])
        if None in ranges:
            own = sorted(s.name for s in extent.free_symbols if split.get(s.name) is not None)
            if own:
                unsplit = ", ".join(f"{name}: None" for name in own)
                rest = any(block is not None for name, block in split.items() if name not in own)
                raise UnsupportedError(
                    f"data or an index that is not affine select the entries of {tensor} on axis {axis}, whose extent "
                    f"{extent} is split: every block may need all of it. "
                    + f"Do not split this size (blocks={{{unsplit}}}), so that every worker loads all of {tensor}, or "
                    * rest
                    + f"{'g' if rest else 'G'}ather {tensor} by data before the call and give the gathered array"
                    + ", or take another backend" * (not rest)
                )
            return None
        low, high = single_end(ranges, "lows"), single_end(ranges, "highs")
        symbols = {variable_name(s): s for s in (*self.sizes, *(s for p in self.loops for s in (p.origin, p.extent)))}
        if low is not None and high is not None and is_always_read and low.atoms() | high.atoms() <= symbols.keys():
            first, last = to_expression(low, symbols), to_expression(high, symbols)
            whole = first == 0 and sympy.expand(last - extent + 1) == 0
            return None if whole else AxisSlice(first, sympy.expand(last - first + 1))
        self.start_count += 1
        start = sympy.Dummy(f"{tensor.name}_start{self.start_count}", integer=True)
        return AxisSlice(start, sympy.Dummy(f"{tensor.name}_size{self.start_count}", integer=True, positive=True))

    # ------------------------------------------------------------------------ the expression of one block

    def _block_expression(self, part: PartialResult) -> Any:
        """Return the formula of the partial result ``part`` for one block. Indices in it count from the first index of
        the block, and reads use the sliced inputs.
        """
        body = rebuild(part.value, self._shift_node)
        body = body.xreplace({index: index + loop.origin for index, _, loop in part.axes if loop})
        body = rebuild(body, _expand_indices)
        limits = [(index, loop.extent if loop else extent) for index, extent, loop in part.axes]
        return TensorComprehension(body, *limits) if limits else body

    def _shift_node(self, old: Any, new: Any) -> Any:
        """Return ``new``, the node ``old`` with rebuilt arguments, as it is computed for one block: a read of an
        argument reads its slice, and the index of a sum over a split range counts from the first index of the block.
        """
        if old in self._input_of:
            one = self._input_of[old]
            return one.local[tuple(i - c.start if c else i for i, c in zip(new.indices, one.cuts, strict=True))]
        if not isinstance(old, IndexedReduction):
            return new
        moved, limits = {}, []
        for (index, low, high), (_, before, _) in zip(new.args[1:], old.args[1:], strict=True):
            loop = next((one for one in self.loops if before.has(one.origin)), None)
            if loop:
                moved[index] = index + loop.origin
                lows = low.args if isinstance(low, sympy.Max) else (low,)
                highs = high.args if isinstance(high, sympy.Min) else (high,)
                low = sympy.Max(*(sympy.expand(end - loop.origin) for end in lows))
                high = sympy.Min(*(sympy.expand(end - loop.origin) for end in highs))
            limits.append((index, low, high))
        return new.func(new.args[0].xreplace(moved), *((i, a.xreplace(moved), b.xreplace(moved)) for i, a, b in limits))

    # ------------------------------------------------------------------------ one block in numbers

    def values(self, block: Mapping[BlockLoop, tuple[int, int]], sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the values of all integer variables of a kernel for one block: ``block`` gives the first index and the
        length along each loop.
        """
        variables = dict(sizes)
        for loop, (origin, extent) in block.items():
            variables[variable_name(loop.origin)], variables[variable_name(loop.extent)] = origin, extent
        return variables

    def is_empty(self, variables: Mapping[str, int]) -> bool:
        """Return whether a block has nothing to sum, such as a block above the diagonal for ``k <= i``."""
        return all(
            domains and not any(one.evaluate(variables) is not None for one in domains) for domains in self.domains
        )

    def slices(
        self, variables: dict[str, int], shapes: Mapping[Any, tuple[int, ...]]
    ) -> list[tuple[slice, ...] | None]:
        """Return for each input the slices that the block reads, one for each axis; None for a scalar. ``shapes`` has
        the shapes of the arguments. The first indices of slices are added to ``variables``, by name.

        If a block reads nothing of an input, it loads one entry: kernels do not take empty arrays.
        """
        found: list[tuple[slice, ...] | None] = []
        for one in self.inputs:
            if not one.ranges:
                found.append(None)
                continue
            shape = shapes[one.arg]
            exact = not any(
                cut and not cut.start.is_Dummy for cut in one.cuts
            )  # otherwise forms give the first indices
            read = one.slices(variables, shape, exact=exact) or tuple(slice(0, 1) for _ in shape)
            cuts = [(cut, own, n) for cut, own, n in zip(one.cuts, read, shape, strict=True)]
            found.append(tuple(own if cut else slice(0, n) for cut, own, n in cuts))
            for cut, own, _ in cuts:
                if cut and cut.start.is_Dummy:
                    variables.setdefault(variable_name(cut.start), own.start)
        return found

    def integers(self, variables: Mapping[str, int]) -> list[int]:
        """Return the values of the kernel's integer arguments for one block; ``variables`` has the values of all index
        variables by name.
        """
        return [variables[variable_name(number)] for number in self.numbers]


def loops_of_part(part: PartialResult) -> tuple[BlockLoop, ...]:
    """Return the block loops of the partial result ``part`` in a fixed order: sorted by the names of their symbols
    ``origin``.
    """
    loops = {loop for _, _, loop in part.axes if loop} | part.loops
    return tuple(sorted(loops, key=lambda loop: str(loop.origin)))


def _shape_depends_on(part: PartialResult, arg: Any) -> bool:
    """Return whether ``arg``, an argument of the kernel, is a symbol that occurs in the extent of an axis of the
    partial result ``part``.
    """
    return isinstance(arg, sympy.Symbol) and any(sympy.sympify(n).has(arg) for _, n, _ in part.axes)


def _axis_constraints(part: PartialResult) -> Rows:
    """Return the constraints on the axis indices of the partial result ``part``: an index lies inside of one block or,
    if its axis is not split into blocks, anywhere on the axis.
    """
    ranges = []
    for index, extent, loop in part.axes:
        ends = (loop.origin, loop.origin + loop.extent - 1) if loop else (sympy.S.Zero, extent - 1)
        ranges.append(IndexRange(index, *ends))
    return range_constraints(ranges)


def _expand_indices(old: Any, new: Any) -> Any:
    """Return the tensor entry ``new`` with its indices multiplied out, as ``x[2*i + 2]`` for ``x[2*(i + 1)]``, so that
    they are recognised as affine. Return other nodes unchanged.

    ``old``, the node that ``new`` replaces, is not used.
    """
    return new.tensor[tuple(map(sympy.expand, new.indices))] if isinstance(new, TensorEntry) else new


def _block_symbol(tensor: TensorSymbol, cuts: Sequence[AxisSlice | None], name: str) -> TensorSymbol:
    """Return a tensor symbol ``name`` that represents the slice ``cuts`` of ``tensor`` in the kernel; ``tensor`` itself
    if no axis is sliced.
    """
    if not any(cuts):
        return tensor
    shape = tuple(cut.extent if cut else n for cut, n in zip(cuts, tensor.shape, strict=True))
    integers = {"dtype": int, "below": tensor.below} if tensor.dtype is int else {}
    return TensorSymbol(name, shape, **integers)
