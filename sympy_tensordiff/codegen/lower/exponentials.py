"""Sums of exponentials scaled by their largest term, wherever their logarithm or quotient does not overflow.

``log(Sum_k exp(e(k)))`` is ``M + log(Sum_k exp(e(k) - M))`` with the greatest ``M = max_k e(k)``, and the derivatives
of it are quotients: ``exp(e(p)) / Sum_k exp(e(k))`` is ``exp(e(p) - M) / Sum_k exp(e(k) - M)``. So each value below a
logarithm, or in a product with the inverse of a sum, is split into ``exp(shift) * rest``::

    exp(u)                 shift u, rest 1
    a * b, a**n            shifts are added, multiplied by n
    Sum_k exp(e(k)) r(k)   shift M = max_k e(k), rest Sum_k exp(e(k) - M) r(k)
    exp(u) r + exp(v) s    shift M = Max(u, v), rest exp(u - M) r + exp(v - M) s

and the logarithm of it is ``shift + log(rest)``. ``M`` counts as 0 where it is infinite, as it is over an empty range.
A sum that is neither a divisor nor the argument of a logarithm is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import sympy

from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.instances import instance
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.simplify.growing_functions import is_call

_EXPONENT_OF_ZERO = -(10**38)
"""A shift whose exponential is 0 in any precision: that of the branch that a choice does not take."""


MAX_BOUNDED_EXPONENT = 16
"""Exponents that are never greater are not shifted: sums of ``exp(tanh(u))`` and their powers do not overflow."""


@dataclass(frozen=True)
class Scaled:
    """A value written as ``exp(shift)*rest``: ``shift`` maps nodes to factors, and stands for the sum of the products.
    The other fields describe the exponentials in it.

    ``degree`` is the number of exponentials that are factors, less that of those divided by, where ``exp(2*u)`` counts
    twice; ``above`` and ``below`` say whether there are any, ``summed`` whether some stand in a sum.
    """

    shift: Mapping[Node, Any]
    rest: Node
    degree: Any = 0
    above: bool = False
    below: bool = False
    summed: bool = False

    @property
    def is_quotient(self) -> bool:
        """Whether exponentials occur both above and below a fraction bar and in a sum, so that one of them may overflow
        although the quotient does not.
        """
        return self.above and self.below and self.summed

    @property
    def grows(self) -> bool:
        """Whether exponentials are divided by a root of their sum, as in the derivative of ``sqrt(sum(exp(u)))``, so
        that the quotient grows like the root. Scaling it would raise the largest exponent from 700 to 1400 only, at the
        price of a maximum and of another exponential for each term.
        """
        return self.degree > 0 and any(factor < 0 and factor % 1 for factor in self.shift.values())


def without_large_exponentials(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with no exponential that overflows in logarithms and quotients of sums: ``log(sum(exp(u)))``
    becomes ``m + log(sum(exp(u - m)))`` with ``m = max(u)``.
    """
    parts = reachable(*roots)
    divided = (part.op == "pow" or (part.op == "call" and part.data is sympy.log) for part in parts)
    if not any(is_call(part, sympy.exp) for part in parts) or not any(divided):
        return list(roots)
    work = Exponentials(graph)
    return [trampoline(work.final(root)) for root in roots]


class Exponentials:
    """Rewrites logarithms, quotients and sums so that no exponential in them overflows (see
    `without_large_exponentials`). Results are cached by node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.done: dict[Node, Node] = {}
        self.known: dict[Node, Scaled] = {}
        self.opened: dict[Node, tuple[tuple[int, ...], tuple[Constraint, ...], Node]] = {}
        self.terms: dict[Node, tuple[tuple[int, ...], Node]] = {}
        """For each shift that is a maximum over a range: the variables of the range and the values."""

    # -------------------------------------------------------------- values as they are computed

    def final(self, node: Node) -> Recursion[Node]:
        """Return `node` rewritten so that no exponential in it overflows. Results are cached."""
        if node not in self.done:
            self.done[node] = yield self._final(node)
        return self.done[node]

    def _final(self, node: Node) -> Recursion[Node]:
        """Return `node` rewritten by the rules for logarithms and quotients of sums of exponentials, in its arguments
        too.
        """
        graph = self.graph
        if node.op in BINDERS:
            variables, _, body = self.open(node)
            new = yield self.final(body)
            return node if new is body else graph.over(node, variables, new)
        if node.op == "call" and node.data is sympy.log:
            found = yield self.scaled(node.args[0])
            if found.summed:
                return graph.add((self.sum_of(found.shift), graph.call(sympy.log, (found.rest,))))
        if node.op == "mul":
            spread = yield self._spread(node)
            if spread is not node:
                result: Node = yield self.final(spread)
                return result
            found = yield self._product(node)
            if found.is_quotient and not found.grows:
                return self._quotient(found)
        args = yield from in_turn(map(self.final, node.args))
        return graph.with_args(node, args)

    def open(self, node: Node) -> tuple[tuple[int, ...], tuple[Constraint, ...], Node]:
        """Return the variables, constraints and body of a sum or comprehension, with new variables that are the same at
        each call.
        """
        if node not in self.opened:
            self.opened[node] = self.graph.open(node)
        return self.opened[node]

    def sum_of(self, shift: Mapping[Node, Any]) -> Node:
        """Return ``sum(factor*node)`` as a node, for a dictionary ``shift`` from nodes to factors."""
        return self.graph.add([self.graph.scale(c, node) for node, c in shift.items()])

    def _spread(self, node: Node) -> Recursion[Node]:
        """Return the product `node` multiplied out if one of its factors is an addition with an exponential under a
        guard, so that the exponential can be scaled; else `node`.
        """
        for n, factor in enumerate(node.args):
            for part in _behind_guards(factor) if factor.op == "add" else ():
                found: Scaled = yield self.scaled(part)
                if found.shift:
                    others = (*node.args[:n], *node.args[n + 1 :])
                    return self.graph.add([self.graph.mul((*others, term)) for term in factor.args])
        return node

    def _quotient(self, value: Scaled) -> Node:
        """Return `value` as a product with ``exp(u)/exp(m)`` written as ``exp(u - m)``, which does not overflow. m is
        the largest exponent in a sum that is a divisor.
        """
        graph = self.graph
        shift, factors = dict(value.shift), [value.rest]
        for greatest in [node for node in shift if shift[node] < 0 and node in self.terms]:
            variables, term = self.terms[greatest]
            for node in [node for node in shift if node is not greatest and shift[node] > 0]:
                own = [v for v in variables if v in term.free]
                if shift[greatest] <= -1 and shift[node] >= 1 and instance(graph, term, own, node) is not None:
                    factors.append(graph.call(sympy.exp, (graph.add((node, graph.neg(greatest))),)))
                    shift = {**shift, greatest: shift[greatest] + 1, node: shift[node] - 1}
        rest = self.sum_of(shift)
        return graph.mul(factors if rest is graph.zero else (*factors, graph.call(sympy.exp, (rest,))))

    # -------------------------------------------------------------- values in scaled form

    def scaled(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest``, so that the exponential can be divided by another one. The shift is 0
        if nothing in it can overflow.
        """
        if node not in self.known:
            self.known[node] = yield self._scaled(node)
        return self.known[node]

    def degree(self, exponent: Node) -> Any:
        """Return the common factor of the terms of `exponent`, without its sign: 2 for ``2*x - 2*y``; 1 if their
        factors differ.
        """
        terms = exponent.args if exponent.op == "add" else (exponent,)
        sizes = {abs(self.graph.split_view(term)[0]) for term in terms}
        return sizes.pop() if len(sizes) == 1 else 1

    def _scaled(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest`` if exponentials in it may overflow and can be scaled; else with the
        shift 0 and the rewritten `node` as the rest.
        """
        found: Scaled = yield self._rule(node)
        if found.shift and not (found.is_quotient and (found.degree == 0 or found.grows)):
            return found
        return Scaled({}, (yield self.final(node)))

    def _rule(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest``, by the rule for its op; the shift is 0 if there is no rule."""
        found = Scaled({}, node)
        if is_call(node, sympy.exp):
            if (size := bounded_size(node.args[0])) is not None and size <= MAX_BOUNDED_EXPONENT:
                return found
            exponent = yield self.final(node.args[0])
            return Scaled({exponent: 1}, self.graph.one, self.degree(node.args[0]), above=True)
        if node.op == "pow" and node.args[1].op == "const":
            found = yield self._root(node)
        elif node.op == "mul":
            found = yield self._product(node)
        elif node.op == "sum":
            found = yield self._sum(node)
        elif node.op == "add":
            found = yield self._addition(node)
        elif node.op == "read" and node.args[0].op == "comprehension":
            entry: Scaled = yield self.scaled(self.graph.entry(node.args[0], node.data))
            found = entry if entry.summed and _depends_on_arguments(entry.shift) else found
        elif node.op == "select" and self.graph.is_choice(node):
            found = yield self._choice(node)
        return found

    def _root(self, node: Node) -> Recursion[Scaled]:
        """Return a power as ``exp(shift)*rest``: the shift of the base times the exponent."""
        found: Scaled = yield self.scaled(node.args[0])
        graph, power = self.graph, node.args[1].data
        is_divided = power < 0 and found.summed
        rest = inverse_of_sum(graph, found.rest, power) if is_divided else graph.pow(found.rest, node.args[1])
        return replace(
            found,
            shift={part: c * power for part, c in found.shift.items()},
            rest=rest,
            degree=found.degree * power,
            above=found.above if power > 0 else found.below,
            below=found.below if power > 0 else found.above,
        )

    def _product(self, node: Node) -> Recursion[Scaled]:
        """Return a product as ``exp(shift)*rest``: the shifts of the factors are added."""
        factors = yield from in_turn(map(self.scaled, node.args))
        shift: dict[Node, Any] = {}
        for factor in factors:
            for part, c in factor.shift.items():
                shift[part] = shift.get(part, 0) + c
        return Scaled(
            {part: c for part, c in shift.items() if c},
            self.graph.mul([factor.rest for factor in factors]),
            sum(factor.degree for factor in factors),
            any(factor.above for factor in factors),
            any(factor.below for factor in factors),
            any(factor.summed for factor in factors),
        )

    def _choice(self, node: Node) -> Recursion[Scaled]:
        """Return a select between a value and 0 as ``exp(shift)*rest``. Where it is 0, the shift is very negative, so
        that it is never the greatest.
        """
        graph = self.graph
        condition = yield self.final(node.args[0])
        chosen = 2 if node.args[1] is graph.zero else 1
        found: Scaled = yield self.scaled(node.args[chosen])
        if not found.shift:
            return found

        def where(value: Node, otherwise: Node) -> Node:
            """Return ``select(condition, value, otherwise)``, with the two branches exchanged if the given select has
            its 0 in the first one.
            """
            return graph.select(condition, *((value, otherwise) if chosen == 1 else (otherwise, value)))

        shift = where(self.sum_of(found.shift), graph.const(_EXPONENT_OF_ZERO))
        return replace(found, shift={shift: 1}, rest=where(found.rest, graph.zero))

    def _sum(self, node: Node) -> Recursion[Scaled]:
        """Return a sum of exponentials over a range as ``exp(shift)*rest``: the shift is the greatest exponent of a
        term.
        """
        graph = self.graph
        variables, rows, body = self.open(node)
        inner_rows, body = (rows + body.data, body.args[0]) if body.op == "guard" else (rows, body)
        found: Scaled = yield self.scaled(body)
        shift: dict[Node, Any] = {}
        for part, c in found.shift.items():
            part = graph.substitute(part, _equal_entries(inner_rows, variables))
            shift[part] = shift.get(part, 0) + c
        own = {part: c for part, c in shift.items() if not part.free.isdisjoint(variables)}
        shift = {part: c for part, c in shift.items() if part not in own}
        if not own:
            return replace(found, shift=shift, rest=graph.sum(variables, inner_rows, found.rest))
        term = self.sum_of(own)
        greatest = finite(graph, graph.reduce("max", variables, inner_rows, term))
        self.terms[greatest] = variables, term
        entries = _equal_entries(inner_rows, variables).items()
        selected = {v: Affine.variable(e) for e, form in entries for v, _ in form.terms if form == Affine.variable(v)}
        # In the form of other values that the entries select, so that their exponentials are computed once.
        below = graph.call(sympy.exp, (graph.add((term, graph.neg(graph.substitute(greatest, selected)))),))
        rest = graph.sum(variables, inner_rows, graph.mul((below, found.rest)))
        return replace(found, shift={**shift, greatest: shift.get(greatest, 0) + 1}, rest=rest, summed=True)

    def _addition(self, node: Node) -> Recursion[Scaled]:
        """Return an addition of exponentials as ``exp(shift)*rest``: the shift is the greatest exponent of a term."""
        graph = self.graph
        terms = yield from in_turn(map(self.scaled, node.args))
        if not any(term.shift for term in terms):
            return Scaled({}, node)
        shifts = [self.sum_of(term.shift) for term in terms]
        greatest = graph.call(sympy.Max, shifts)
        if greatest not in shifts:
            greatest = finite(graph, greatest)
        parts = []
        for shift, term in zip(shifts, terms, strict=True):
            below = graph.add((shift, graph.neg(greatest)))
            parts.append(
                graph.mul((graph.call(sympy.exp, (below,)), term.rest)) if below is not graph.zero else term.rest
            )
        return self.joined(terms, greatest, graph.add(parts))

    def joined(self, terms: Sequence[Scaled], shift: Node, rest: Node) -> Scaled:
        """Return ``exp(shift)*rest``, which is the sum of `terms`, as a `Scaled` record; its description of
        exponentials is combined from those of the terms.
        """
        return Scaled(
            {shift: 1},
            rest,
            max(term.degree for term in terms),
            any(term.above for term in terms),
            any(term.below for term in terms),
            True,
        )


def bounded_size(node: Node) -> Any:
    """Return a number that the absolute value of the scalar `node` never exceeds, as 2 for ``tanh(u) + sin(v)``; None
    if none is known.
    """
    sizes: dict[Node, Any] = {}
    for part in reachable(node):
        sizes[part] = _size_of(part, sizes)
    return sizes[node]


def _size_of(part: Node, sizes: Mapping[Node, Any]) -> Any:
    """Return a bound on the absolute value of `part`, given those of its arguments in ``sizes``; None if unknown."""
    if part.op == "const":
        return abs(part.data)
    if part.op == "call":
        values = record_of(part.data).values
        return None if values.low is None or values.high is None else max(abs(values.low), abs(values.high))
    own: list[Any] = [sizes.get(arg) for arg in part.args[part.op == "select" :]]
    if part.op == "pow":
        exponent = part.args[1].data if part.args[1].op == "const" else None
        return own[0] ** exponent if isinstance(exponent, int) and exponent > 0 and own[0] is not None else None
    if part.op not in ("add", "mul", "select") or None in own:
        return None
    return sum(own) if part.op == "add" else prod(own) if part.op == "mul" else max(own)


def inverse_of_sum(graph: Graph, total: Node, power: Any = -1) -> Node:
    """Return ``total**power``, a negative power of a sum of exponentials; 0 where the sum is 0."""
    inverse = graph.pow(total, graph.const(power))
    if "left out" not in graph.kinds:
        return inverse
    return graph.select(graph.compare("ne", total, graph.zero), inverse, graph.zero)


def _equal_entries(rows: Sequence[Constraint], variables: Sequence[int]) -> dict[IndirectIndex, Affine]:
    """Return a dictionary from integer-array entries that contain one of `variables` to equal forms without them, found
    in the equations in `rows`: ``{dst[e]: v}`` for ``v == dst[e]`` and the variable e.
    """
    found = {}
    for row in rows:
        entries = [part for part, c in row.form.terms if isinstance(part, IndirectIndex) and abs(c) == 1]
        for entry in entries if row.kind == "eq" else ():
            form = Affine({entry: 1}) - row.form.coefficient(entry) * row.form
            if form.atoms().isdisjoint(variables) and not entry.atoms().isdisjoint(variables):
                found[entry] = form
    return found


def _depends_on_arguments(shift: Mapping[Node, Any]) -> bool:
    """Return whether the exponents `shift` depend on tensors or scalars that the user passes. If they depend on indices
    alone, they are the same in all calls.
    """
    parts = reachable(*shift)
    return any(p.op in ("tensor", "scalar") or (p.op == "index" and bool(data_entries([p.data]))) for p in parts)


def finite(graph: Graph, shift: Node) -> Node:
    """Return ``shift`` where it is finite, else 0: subtracting an infinite exponent would give nan."""
    size = graph.call(sympy.Abs, (shift,))
    # No infinite constant is needed to tell: twice infinity is not greater.
    return graph.select(graph.compare("lt", size, graph.scale(2, size)), shift, graph.zero)


def _behind_guards(total: Node) -> list[Node]:
    """Return the bodies of all guards among the terms of an addition, and among the factors of its terms: b and c for
    ``a + [i == j]*b + d*([i < j]*c)``.
    """
    found, stack = [], list(total.args)
    while stack:
        part = stack.pop()
        if part.op == "guard":
            found.append(part.args[0])
        elif part.op in ("add", "mul"):
            stack += part.args
    return found
