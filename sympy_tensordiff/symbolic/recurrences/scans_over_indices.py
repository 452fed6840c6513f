"""Scans inside of sums and comprehensions whose steps depend on the bound indices: one scan over all of their values.

Each state that depends on an index gets an axis for it, so that a step computes a batch, and the loop over the batch is
inside of the loop over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sympy import S, Symbol

from sympy_tensordiff.symbolic.expressions.binders import Binder, fresh_index
from sympy_tensordiff.symbolic.expressions.traversal import (
    EMPTY,
    Recursion,
    Rewriting,
    Rules,
    free_symbols_in,
    names_in,
)
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry
from sympy_tensordiff.symbolic.recurrences.scans import Scan, ScanVariable, State, fresh_name
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


def over_indices(expr: Any) -> Any:
    """Return ``expr`` without scans (recurrences over time) that depend on an index of an enclosing sum or
    comprehension. Each becomes an entry of one batched scan over all values of the index, unless the range of the index
    depends on other indices.
    """
    return _OverIndices().run(expr, EMPTY)


class _OverIndices(Rewriting):
    """Rewrites expressions in `over_indices`: replaces scans (loops over time) that depend on an index of an enclosing
    sum or comprehension. ``bound_indices`` has pairs ``(index, (first value, number of values))`` for these indices.
    """

    def symbol(self, expr: Any, bound_indices: Any) -> Any:
        """Return the symbol ``expr`` unchanged: the traversal replaces scans only."""
        return expr

    def visit_binder(self, expr: Any, bound_indices: Any) -> Recursion[Any]:
        """Return `expr`, a sum or comprehension, with its body rewritten. For the body, those indices of `expr` whose
        ranges depend on no other index are added to ``bound_indices``.
        """
        plain = [limit for limit in expr.ranges() if len(limit.lows + limit.highs) == 2]
        own = {index: (low, high - low + 1) for index, low, high in plain}
        bound = {*expr.variables, *(index for index, _ in bound_indices)}
        own = {index: ends for index, ends in own.items() if bound.isdisjoint(free_symbols_in(ends))}
        rest = [pair for pair in bound_indices if pair[0] not in expr.variables]
        body = yield self.visit(expr.body, frozenset([*rest, *own.items()]))
        return expr if body is expr.body else expr.func(body, *expr.limits)

    def visit_scan(self, expr: Any, bound_indices: Any) -> Recursion[Any]:
        """Return the scan (a recurrence over time) with rewritten arguments.

        If it contains indices that are bound in ``bound_indices``, return instead an entry of one new scan, which
        computes the values for all values of these indices.
        """
        found = sorted([pair for pair in bound_indices if pair[0] in expr.free_symbols], key=str)
        if not found:
            args = yield self.all(expr.args, EMPTY)
            return expr if all(new is old for new, old in zip(args, expr.args, strict=True)) else expr.func(*args)
        scan, entry = _batch(expr, [index for index, _ in found], [ends for _, ends in found])
        return entry((yield self.visit(scan, EMPTY)))

    rules: ClassVar[Rules] = {Binder: visit_binder, Scan: visit_scan}


def _batch(scan: Any, indices: Sequence[Any], ends: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return ``(batched scan, read)``: a scan (loop over time) that computes `scan` for all values of its free symbols
    ``indices`` at once, and a function that reads the value of `scan` from its result.

    ``ends`` has a pair ``(first value, number of values)`` for each index.
    """
    first = {index: index + low for index, (low, _) in zip(indices, ends, strict=True) if low != 0}
    whole = scan.subs(first, simultaneous=True) if first else scan
    extents, taken = [extent for _, extent in ends], names_in([scan])

    def axes(shape: Sequence[Any]) -> list[Any]:
        """Return new indices for the axes of a shape."""
        return [fresh_index(Symbol("q", integer=True), taken) for _ in shape]

    def over(expr: Any, front: Sequence[tuple[Any, Any]] = ()) -> Any:
        """Return the tensor of the values of `expr` for all values of the batch indices. Its axes are those in
        ``front``, pairs ``(index, extent)`` of the first axes of `expr`, then the batch axes, then the other axes of
        `expr`.
        """
        own = axes(shape_of(expr)[len(front) :])
        entry = TensorEntry(expr, *(index for index, _ in front), *own) if shape_of(expr) else expr
        limits = [*front, *zip(indices, extents, strict=True)]
        return TensorComprehension(entry, *limits, *zip(own, shape_of(expr)[len(front) :], strict=True))

    def row(tensor: Any, places: Sequence[Any], shape: Sequence[Any], front: int = 0) -> Any:
        """Return the element of the batched `tensor` at the batch indices ``places``, as a tensor of the shape
        ``shape``. The batch axes of `tensor` come after its first ``front`` axes.
        """
        own = axes(shape)
        entry = TensorEntry(tensor, *own[:front], *places, *own[front:])
        return TensorComprehension(entry, *zip(own, shape, strict=True)) if shape else entry

    rows = [pair for pair in whole.sequences if not free_symbols_in([pair[1]]).isdisjoint(indices)]
    moving = {*indices, *(variable for variable, _ in rows)}
    for _ in whole.states:
        moving |= {s.variable for s in whole.states if not moving.isdisjoint(free_symbols_in([s.initial, s.update]))}
    new = {v: ScanVariable(fresh_name(v.name), (*extents, *v.shape)) for v in whole.bound[:-1] if v in moving}
    rule = {variable: row(own, indices, variable.shape) for variable, own in new.items()}
    states = [
        State(new[s.variable], over(s.initial), over(s.update.xreplace(rule))) if s.variable in new else s
        for s in whole.states
    ]
    time = axes([S.One])
    sequences = [
        (new[v], over(tensor, [*zip(time, [scan.length], strict=True)])) if v in new else (v, tensor)
        for v, tensor in whole.sequences
    ]
    value = over(whole.value.xreplace(rule))
    batch = Scan(scan.kind, value, states, sequences, scan.time, scan.length, scan.reverse)
    places = [index - low for index, (low, _) in zip(indices, ends, strict=True)]
    return batch, lambda tensor: row(tensor, places, scan.shape, int(scan.kind == "stack"))
