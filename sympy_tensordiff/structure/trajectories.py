"""Sums over time in structured derivatives: scans whose results need no state, such as losses of neighbouring rows."""

from __future__ import annotations

from typing import Any, ClassVar

from sympy import Symbol

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.binders import fresh_index
from sympy_tensordiff.symbolic.expressions.traversal import EMPTY, Recursion, Rewriting, Rules, names_in, nodes_in
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry
from sympy_tensordiff.symbolic.recurrences.scans import Scan, needed_states
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


def over_time(expr: Any) -> Any:
    """Return ``expr`` with each scan replaced by a comprehension or sum over time. Raise `UnsupportedError` if a result
    depends on states that change.
    """
    return _OverTime().run(expr, EMPTY) if any(isinstance(node, Scan) for node in nodes_in([expr])) else expr


class _OverTime(Rewriting):
    """A rewriting that replaces each scan without dependent states by a comprehension or sum over its time, so that it
    is an ordinary formula. A scan with states that depend on earlier ones is refused.
    """

    def visit_scan(self, expr: Scan, scope: Any) -> Recursion[Any]:
        """Return the formula, in index notation, that replaces a scan: a comprehension or a sum over its time. Raise
        `UnsupportedError` if its states change.
        """
        if needed_states([(s.variable, s.update) for s in expr.states if not s.is_constant], [expr.value]):
            raise UnsupportedError(
                f"a structured derivative of {expr}: each state depends on all rows before it, so that the derivative "
                "is dense; make the states variables, tied by the step: td.scan over xs=(X[:-1], X[1:]) with the "
                "output td.sum((X[t+1] - step(X[t]))**2), or constraints of td.nlp"
            )
        taken = names_in([expr])
        index = fresh_index(Symbol("t", integer=True), taken)
        rule = {expr.time: index} | {state.variable: state.initial for state in expr.states}
        for variable, sequence in expr.sequences:
            own = [fresh_index(Symbol("q", integer=True), taken) for _ in variable.shape]
            entry = TensorEntry(sequence, index, *own)
            rule[variable] = TensorComprehension(entry, *zip(own, variable.shape, strict=True)) if own else entry
        value = yield self.visit(expr.value.xreplace(rule), EMPTY)
        axes = [fresh_index(Symbol("q", integer=True), taken) for _ in shape_of(value)]
        limits = [*zip(axes, shape_of(value), strict=True)]
        entry = TensorEntry(value, *axes) if axes else value
        if expr.kind == "stack":
            return TensorComprehension(entry, (index, expr.length), *limits)
        if expr.kind == "sum":
            entry = IndexedSum(entry, (index, 0, expr.length - 1))
        else:
            entry = entry.xreplace({index: 0 if expr.reverse else expr.length - 1})
        return TensorComprehension(entry, *limits) if axes else entry

    rules: ClassVar[Rules] = {Scan: visit_scan}
