"""Bound indices: renaming, and substitution that never captures.

A binder has a body and limits ``(index, ...)``. Its indices are visible inside only: a free
symbol of the same name outside is another symbol. `subs` and `xreplace` rename bound indices
that would capture; a bound index itself is substituted by `xreplace` alone, which SymPy
defines to be unaware of scopes (with a bound index as key it renames body and limits alike).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from sympy import Basic, Dummy, Expr, Idx, Indexed, KroneckerDelta, Piecewise, Symbol, Tuple

from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.symbolic.expressions import depth, hooks, sympy_callers
from sympy_tensordiff.symbolic.expressions.base import TensorNode, argument, arguments
from sympy_tensordiff.symbolic.expressions.canonical import CanonicalNames, canonical
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.expressions.replacement import IndexRenaming, Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import free_symbols_in, names_in, nodes_in, postorder


class Binder(TensorNode):
    """The base class of indexed sums and comprehensions, which bind indices. ``args`` are the body and one tuple for
    each limit, which starts with the bound index.
    """

    _free: frozenset[Basic] | None = None

    is_binder = True

    body = argument(0, "The expression under the binder.")

    def compare(self, other: Any) -> int:
        """Override `Basic.compare`: return -1, 0 or 1 to sort this expression and ``other``. Deeply nested sums and
        comprehensions come last and are ordered by a digest (hash).
        """
        if self is other or type(self) is not type(other):
            return int(super().compare(other))
        mine, theirs = measures(self), measures(other)
        if not mine.is_deep and not theirs.is_deep:
            return int(super().compare(other))
        left, right = (mine.is_deep, mine.digest), (theirs.is_deep, theirs.digest)
        return (left > right) - (left < right)

    limits: tuple[Any, ...] = arguments(1, "The limits, SymPy tuples that start with the index.")

    @property
    def index_parts(self) -> tuple[Any, ...]:
        """Return the index expressions of the node: its bound indices, and their bounds or extents."""
        return tuple(part for limit in self.args[1:] for part in limit.args)

    @property
    def variables(self) -> tuple[Any, ...]:
        """Return the bound indices in the order of the limits."""
        return tuple(limit.args[0] for limit in self.args[1:])

    @property
    def bound_symbols(self) -> list[Any]:
        """Override `Basic.bound_symbols`: return the bound indices as a list."""
        return list(self.variables)

    @property
    def free_symbols(self) -> set[Basic]:
        """Override `Basic.free_symbols`: return the free symbols of body and limits, computed bottom-up and cached."""
        if self._free is None:
            done: set[int] = set()
            for node in postorder(self, done, _uncached_arguments, id):
                done.add(id(node))
                if isinstance(node, Binder) and node._free is None:
                    node._free = node._compute_free_symbols()
        return sympy_callers.free_symbols_for_caller(self, set(self._free or ()), sys._getframe(1))

    def _compute_free_symbols(self) -> frozenset[Basic]:
        """Return the free symbols of the body and limits without the bound indices. Inner sums and comprehensions have
        stored theirs.
        """
        free: set[Basic] = free_symbols_in(self.args)
        # SymPy hides the sizes in the range of an Idx.
        sizes = [s.args[1].free_symbols for s in free if isinstance(s, Idx) and len(s.args) > 1]
        free = free.union(*sizes).difference(self.variables)
        # An entry of SymPy's own IndexedBase calls itself a free symbol, whatever binds its indices.
        return frozenset(s for s in free if not (isinstance(s, Indexed) and self._clashing(s.free_symbols)))

    @classmethod
    def _trusted(cls, body: Expr, limits: Iterable[Any]) -> Any:
        """Return the sum or comprehension (the class `cls`) of ``body`` and ``limits`` without checking these; the
        caller guarantees that they are valid.
        """
        return cls._unchecked(body, *(limit if isinstance(limit, Tuple) else Tuple(*limit) for limit in limits))

    def ranges(self) -> tuple[Any, ...]:
        """Return the `IndexRange` of each bound index, outermost first."""
        raise NotImplementedError

    @property
    def canonical_variables(self) -> CanonicalNames:
        """Override `Basic.canonical_variables`: return the dictionary from bound indices to their canonical names.
        Passed to `xreplace`, it gives the canonical form.
        """
        return CanonicalNames(zip(self.variables, canonical(self).variables, strict=True))

    def without_clashes(self, symbols: set[Any]) -> Any:
        """Return this sum or comprehension with bound indices renamed that are in ``symbols`` or have the name of one
        of them.
        """
        clashing = self._clashing(symbols)
        return self.with_fresh_indices(clashing, symbols) if clashing else self

    def with_fresh_indices(self, clashing: Iterable[Basic], others: Iterable[Basic]) -> Any:
        """Return an equal sum or comprehension with new names for the bound indices in ``clashing``. The new names
        occur neither in it nor in ``others``.
        """
        taken = names_in(self.args) | names_in(others)
        clashing = set(clashing)
        renaming = IndexRenaming((index, fresh_index(index, taken)) for index in self.variables if index in clashing)
        return self._unchecked(*map(Replacement(renaming), self.args))

    def _eval_subs(self, old: Basic, new: Basic) -> Basic:
        """SymPy's hook for `subs`: substitute in the body and limits. Bound indices that would clash with a symbol in
        ``old`` or ``new`` are renamed first.

        Returns the binder itself if ``old`` is a bound index or does not occur.
        """
        bound = set(self.variables)
        if old in bound or (old.free_symbols and not old.free_symbols & self.free_symbols):
            return self
        clashing = self._clashing(old.free_symbols | new.free_symbols)
        scope = self.with_fresh_indices(clashing, (old, new)) if clashing else self
        result = scope._substituted(old, new)
        return self if result is scope else result

    def _replaced(self, rule: Any) -> tuple[Any, bool]:
        """Return ``(result, is_changed)`` of the substitution ``rule`` in the body and the limits. Bound indices that
        would clash with symbols in ``rule`` are renamed first.

        With a bound index as a key, body and limits are replaced alike; a `Substitution` skips bound indices.
        """
        if isinstance(rule, CanonicalNames):
            return canonical(self), True
        scope = self
        if isinstance(rule, Mapping) and self not in rule:
            bound = set(self.variables)
            if isinstance(rule, Substitution):
                if not bound.isdisjoint(rule):
                    rule = Substitution((old, new) for old, new in rule.items() if old not in bound)
                if self.free_symbols.isdisjoint(rule):
                    return self, False  # a tensor far below is not walked through
            if not any(old in bound for old in rule):
                free = self.free_symbols
                used = [(old, new) for old, new in rule.items() if not old.free_symbols.isdisjoint(free)]
                # What holds a bound index in the rule is another one outside, whether it occurs inside or not.
                outside = [s for s in (*rule, *(new for _, new in used)) if isinstance(s, Basic)]
                clashing = self._clashing(set().union(*(s.free_symbols for s in outside)))
                scope = self.with_fresh_indices(clashing, outside) if clashing else self
        result, changed = super(Binder, scope)._replaced(rule)
        return (result, True) if changed else (self, False)

    def _clashing(self, symbols: set[Any]) -> set[Any]:
        """Return the bound indices that could be confused with one of ``symbols``: the same symbol, the label of an
        `Idx`, or an undeclared symbol of the same name.
        """
        names = {s.name: bool(s.is_integer) for s in symbols if isinstance(s, Symbol)}
        return {
            v
            for v in self.variables
            if v in symbols
            or (isinstance(v, Idx) and v.label in symbols)
            or (v.name in names and not (v.is_integer and names[v.name]))
        }

    def _rewrite(self, pattern: Any, rule: Any, method: str, **hints: Any) -> Any:
        """Rewrite a sum or comprehension by rewriting its arguments, as SymPy's hook for `rewrite`; return it unchanged
        if this package cannot represent the result.

        If the target ``rule`` is a notation of this package, raise the error instead. The other arguments are SymPy's.
        """
        try:
            return super()._rewrite(pattern, rule, method, **hints)
        except TensorDiffError:
            if hooks.notation(rule) or hasattr(self, method):
                raise
            return self  # SymPy leaves what it cannot rewrite: here a complex body, or a bound other than an index

    def _eval_simplify(self, **kwargs: Any) -> Any:
        """SymPy's hook for `simplify`: simplify the body; before that, eliminate Kronecker deltas if there are any."""
        holds_delta = any(isinstance(node, KroneckerDelta) for node in nodes_in([self]))
        result = hooks.simplified(self) if holds_delta else self
        if measures(result).is_unwalkable:
            return result
        if isinstance(result, Piecewise):  # guards as they are: SymPy would simplify them over the reals
            cases = [(value.simplify(**kwargs), condition) for value, condition in result.args]
            return Piecewise(*cases, evaluate=False)
        if not isinstance(result, Binder):
            return result
        body = result.body.simplify(**kwargs)
        return result if body == result.body else result.func(body, *result.limits)

    def doit(self, **hints: Any) -> Any:
        """Override `Basic.doit`: return the sum or comprehension with its body evaluated; a sum is not written as its
        terms.
        """
        depth.refuse_walk(self, "doit")
        body = self.body.doit(**hints) if hints.get("deep", True) else self.body
        return self if body == self.body else self.func(body, *self.limits)


def _uncached_arguments(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node`` for a walk that collects free symbols. For a sum or comprehension with cached
    free symbols return (), since the walk need not enter it.
    """
    return () if isinstance(node, Binder) and node._free is not None else node.args


def fresh_index(index: Any, taken: set[str]) -> Any:
    """Return an index like ``index`` (same assumptions and range) with a new name that is not in ``taken``, and add the
    name to ``taken``. For a dummy, return a new dummy.
    """
    if isinstance(index, Dummy):
        return Dummy(index.name, **index._assumptions_orig)
    stem = re.sub(r"_\d+$", "", index.name)
    name = next(name for name in (f"{stem}_{n}" for n in count(1)) if name not in taken)
    taken.add(name)
    if isinstance(index, Idx):
        return Idx(Symbol(name, integer=True), *index.args[1:])
    return Symbol(name, **index._assumptions_orig)
