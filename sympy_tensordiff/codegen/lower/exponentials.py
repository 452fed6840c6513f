"""Sums of exponentials scaled by their largest term, wherever their logarithm or quotient does not overflow.

``log(Sum_k exp(e(k)))`` is ``M + log(Sum_k exp(e(k) - M))`` with the greatest ``M = max_k e(k)``, and the derivatives
of it are quotients: ``exp(e(p)) / Sum_k exp(e(k))`` is ``exp(e(p) - M) / Sum_k exp(e(k) - M)``. So each value below a
logarithm, or in a product with the inverse of a sum, is split into ``exp(shift) * rest``::

    exp(u)                 shift u, rest 1
    a * b, a**n            shifts are added, multiplied by n
    Sum_k exp(e(k)) r(k)   shift M = max_k e(k), rest Sum_k exp(e(k) - M) r(k)
    exp(u) r + exp(v) s    shift M = Max(u, v), rest exp(u - M) r + exp(v - M) s

and the logarithm of it is ``shift + log(rest)``. That of a sum ``1 + u`` is ``log1p(u)`` unless u is large. ``M``
counts as 0 where it is infinite, as it is over an empty range. ``Sum_k exp(a(i, k) + b(k, j))`` is a product of
matrices, of ``exp(a - max a)`` and ``exp(b - max b)``; where that underflows, it is computed as above.
``exp(u)/(exp(u) + exp(v))``, a share of two terms, is ``1/(1 + exp(v - u))`` and needs no maximum.

A sum that is neither a divisor nor the argument of a logarithm is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.codegen.lower.masked_exponentials import CommonScale, ScaleChoices, common_scale
from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.instances import instance
from sympy_tensordiff.graph.interning import Recursion, breadth_first, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.growing_functions import is_call
from sympy_tensordiff.simplify.sign_analysis import sign_facts

_EXPONENT_OF_ZERO = -(10**38)
"""A shift whose exponential is 0 in any precision: that of the branch that a choice does not take."""


_LARGE_VALUE = 2**60
"""Numbers beyond which 1 is negligible."""

MAX_BOUNDED_EXPONENT = 16
"""Exponents that are never greater are not shifted: sums of ``exp(tanh(u))`` and their powers do not overflow."""


@dataclass(frozen=True)
class Scaled:
    """A value written as ``exp(s)*rest`` against overflow. The exponent s is a linear combination of nodes, stored as
    the dictionary ``shift`` from nodes to coefficients. The other attributes describe the exponentials in the value.

    ``degree`` is the number of exponentials that are factors, less that of those divided by, where ``exp(2*u)`` counts
    twice; ``above`` and ``below`` say whether there are any, ``summed`` whether some are in a sum. ``bounded`` says
    that all those divided by are sums of which a term is a factor, as in a softmax times ``exp(v)``: they then do not
    count as ``below``.
    """

    shift: Mapping[Node, Any]
    rest: Node
    degree: Any = 0
    above: bool = False
    below: bool = False
    summed: bool = False
    bounded: bool = False

    @property
    def is_quotient(self) -> bool:
        """Return whether exponentials occur both in the numerator and the denominator of the value, and in a sum: one
        of them may then overflow although the quotient does not.
        """
        return self.above and self.below and self.summed

    @property
    def grows(self) -> bool:
        """Return whether the value is a sum of exponentials divided by a root of itself, like ``s/sqrt(s)``, as in the
        derivative of ``sqrt(sum(exp(u)))``.

        It grows only like the root, so that scaling against overflow is not worthwhile.

        The largest exponent would rise from 700 to 1400 only, at the price of a maximum and of another exponential for
        each term.
        """
        return self.degree > 0 and any(factor < 0 and factor % 1 for factor in self.shift.values())


def without_large_exponentials(graph: Graph, roots: Sequence[Node], has_products: bool = False) -> list[Node]:
    """Return `roots` rewritten so that exponentials in logarithms and in quotients of sums do not overflow:
    ``log(sum(exp(u)))`` becomes ``m + log(sum(exp(u - m)))`` with ``m = max(u)``. ``has_products`` says that the
    backend has matrix products.

    With ``has_products``, sums over k like ``exp(A[i, k] + B[k, j])`` are written as matrix products.

    With ``has_products``, the backend also computes one branch of a choice only. Sums over selected terms like ``[t[i]
    <= t[j]]*exp(u[j])`` then need one exponential for each j.
    """
    parts = reachable(*roots)
    divided = (part.op == "pow" or (part.op == "call" and part.data is sympy.log) for part in parts)
    if not any(is_call(part, sympy.exp) for part in parts) or not any(divided):
        return list(roots)
    inverses = (part.args[0] for part in parts if part.op == "pow" and part.args[1].op == "const")
    # Quotients by the sums need the exponentials scaled by the maximum of each sum.
    has_quotients = any(base.op == "sum" and any(is_call(p, sympy.exp) for p in reachable(base)) for base in inverses)
    work = Exponentials(graph, has_products and not has_quotients, has_products)
    return [trampoline(work.final(root)) for root in roots]


class Exponentials:
    """Rewrites logarithms, quotients and sums so that no exponential in them overflows (see
    `without_large_exponentials`). Results are cached by node.
    """

    def __init__(self, graph: Graph, has_products: bool = False, has_choices: bool = False) -> None:
        self.graph = graph
        self.has_products = has_products
        self.has_choices = has_choices
        """Whether one branch of a choice only is computed."""
        self.done: dict[Node, Node] = {}
        self.known: dict[Node, Scaled] = {}
        self.opened: dict[Node, tuple[tuple[int, ...], tuple[Constraint, ...], Node]] = {}
        self.terms: dict[Node, tuple[tuple[int, ...], Node]] = {}
        """For each shift that is a maximum over a range: the variables of the range and the values."""
        self.whole = self
        """The object that rewrites all exponentials: this one, unless `_restricted_to` made it."""
        self.rates: frozenset[Node] = frozenset()
        """Exponentials: others with one of these in the exponent, as ``exp(-t*exp(u))``, are not scaled."""
        self.restricted: dict[frozenset[Node], Exponentials] = {}
        """The objects that `_restricted_to` made, by their ``rates``."""
        self.nested: dict[Node, bool] = {}
        """Whether an exponential like ``exp(-t*exp(u))`` occurs in a node."""
        self.excesses: dict[Node, Node] = {}
        """For the rest of each sum ``1 + u``: u."""
        self.common: dict[Node, CommonScale] = {}
        """For each shift that the sums over selected terms have in common: the scale of all terms."""
        self.choices = ScaleChoices(graph)
        self.shares: set[Node] = set()
        """The shares of one of two exponentials, ``1/(a + b*exp(v - u))``, which need no scale."""

    # -------------------------------------------------------------- values as they are computed

    def final(self, node: Node) -> Recursion[Node]:
        """Return `node` rewritten so that no exponential in it overflows. Results are cached."""
        if self.whole is not self:
            whole: Node = yield self.whole.final(node)
            return whole
        if node not in self.done:
            self.done[node] = yield self._final(node)
        return self.done[node]

    def _final(self, node: Node) -> Recursion[Node]:
        """Return `node` rewritten, with its arguments, by the rules for logarithms and quotients of sums of
        exponentials.
        """
        graph = self.graph
        if node.op in BINDERS:
            variables, _, body = self.open(node)
            new = yield self.final(body)
            if new is body:
                return node
            return self.choices.sum(node, variables, new) if node.op == "sum" else graph.over(node, variables, new)
        if node.op == "call" and node.data is sympy.log:
            found = yield self.scaled(node.args[0])
            if found.summed:
                whole = self.logarithm(self.sum_of(found.shift), found.rest)
                entry: Node = yield self._as_product(node.args[0], whole)
                return entry
        if node.op == "mul":
            with_shares = self._with_shares(node)
            if with_shares is not node:
                parted: Node = yield self.final(with_shares)
                return parted
            spread = yield self._spread(node)
            if spread is not node:
                result: Node = yield self.final(spread)
                return result
            work = self._restricted_to(node)
            found = yield work._product(node)
            if (found.is_quotient or (work is not self and found.below)) and not found.grows:
                return self._quotient(found)
            if found.bounded:
                result = yield self._share(node)
                return result
        args = yield from in_turn(map(self.final, node.args))
        return graph.with_args(node, args)

    def _as_product(self, total: Node, whole: Node) -> Recursion[Node]:
        """Rewrite ``whole``, the node ``log(total)`` with ``total = Sum_k exp(a[i, k] + b[k, j])``, as the logarithm of
        the matrix product of ``exp(a)`` and ``exp(b)``. Return ``whole`` itself for a sum of another form.

        The exponentials of ``a`` and ``b`` are scaled by their own maxima. Where the product is so small that terms may
        have underflowed, the result is ``whole``.
        """
        graph = self.graph
        variables, rows, body = self.open(total) if total.op == "sum" else ((), (), total)
        if not self.has_products or not is_call(body, sympy.exp):
            return whole
        exponent = yield self.final(body.args[0])
        groups = _factors_of_exponential(exponent, variables)
        outer = exponent.free.difference(variables)
        if len(groups) < 2 or any(not row.form.atoms().isdisjoint(outer) for row in rows):
            return whole
        shifts, factors = [], []
        for group in groups:
            term = graph.add(group)
            shift = finite(graph, graph.reduce("max", variables, rows, term))
            shifts.append(shift)
            factors.append(graph.call(sympy.exp, (graph.add((term, graph.neg(shift))),)))
        product = graph.sum(variables, rows, graph.mul(factors))
        # The square is 0 below 1e-162 in double and 1e-23 in single precision: far above numbers that lose digits.
        is_accurate = graph.compare("lt", graph.zero, graph.pow(product, graph.const(2)))
        return graph.select(is_accurate, graph.add((*shifts, graph.call(sympy.log, (product,)))), whole)

    def open(self, node: Node) -> tuple[tuple[int, ...], tuple[Constraint, ...], Node]:
        """Return ``(variables, constraints, body)`` of a sum or comprehension, with new variables in place of the bound
        ones. Later calls for the same `node` return the same variables.
        """
        if node not in self.opened:
            self.opened[node] = self.graph.open(node)
        return self.opened[node]

    def sum_of(self, shift: Mapping[Node, Any]) -> Node:
        """Return ``sum(factor*node)`` as a node, for a dictionary ``shift`` from nodes to factors."""
        return self.graph.add([self.graph.scale(c, node) for node, c in shift.items()])

    def _with_shares(self, node: Node) -> Node:
        """Return the product `node` with each ``exp(u)/(exp(u) + c*exp(v))`` in it as ``1/(1 + c*exp(v - u))``, which
        overflows nowhere. Other products are unchanged.

        Additions are multiplied out if that gives each of their terms a share: ``exp(u)*(a/(exp(u) + exp(v))**2 +
        ...)`` and ``(a*exp(u) + b*exp(v))/(exp(u) + exp(v))``.
        """
        graph = self.graph
        for one in [arg for arg in node.args if is_call(arg, sympy.exp) or self._is_divisor(arg)]:
            others = [factor for factor in node.args if factor is not one]
            for place, factor in enumerate(others):
                terms = [
                    self._term_with_share(one, term) for term in (factor.args if factor.op == "add" else (factor,))
                ]
                found = [term for term in terms if term is not None]
                if len(found) == len(terms):
                    return graph.mul((*others[:place], graph.add(found), *others[place + 1 :]))
        return node

    def _term_with_share(self, one: Node, term: Node) -> Node | None:
        """Return the product ``one*term`` if ``one`` and a factor of `term` are ``exp(u)`` and ``1/(exp(u) + exp(v))``,
        in either order; `_share_of` replaces the two. None if `term` has no such factor.
        """
        factors = list(self.graph.factors(term))
        for place, factor in enumerate(factors):
            pair = (one, factor) if is_call(one, sympy.exp) else (factor, one)
            if (share := self._share_of(*pair)) is not None:
                return self.graph.mul((*factors[:place], share, *factors[place + 1 :]))
        return None

    def _is_divisor(self, node: Node) -> bool:
        """Return whether `node` is a negative power of a sum ``a*exp(u) + b*exp(v)``."""
        if node.op != "pow" or node.args[1].op != "const" or not node.args[1].data <= -1 or node.args[0].op != "add":
            return False
        terms = [self.graph.split_view(term)[1] for term in node.args[0].args]
        return len(terms) == 2 and all(is_call(core, sympy.exp) for core in terms)

    def _share_of(self, exponential: Node, divisor: Node) -> Node | None:
        """Return ``exponential*divisor`` in a form that does not overflow: ``exp(w)/(a + b*exp(v - u))`` for
        ``exp(u + w)`` times ``1/(a*exp(u) + b*exp(v))``. None for nodes of another form.

        If ``divisor`` is a higher negative power of the sum, the remaining power is another factor.
        """
        graph = self.graph
        if not is_call(exponential, sympy.exp) or not self._is_divisor(divisor):
            return None
        total, power = divisor.args[0], divisor.args[1].data
        terms = [graph.split_view(term) for term in total.args]
        whole = _terms_of(exponential.args[0])
        contained = [n for n, (_, core) in enumerate(terms) if _terms_of(core.args[0]) <= whole]
        if not contained:
            return None
        place = max(contained, key=lambda n: len(_terms_of(terms[n][1].args[0])))
        (a, own), (b, other) = terms[place], terms[1 - place]
        above = graph.add((other.args[0], graph.neg(own.args[0])))
        # Of two equal exponents, the difference keeps its digits as expm1.
        ratio = (
            graph.scale(b, graph.call(expm1, (above,)))
            if a == -b
            else graph.add((graph.const(a), graph.scale(b, graph.call(sympy.exp, (above,)))))
        )
        share = graph.pow(ratio, graph.const(-1))
        self.shares.add(share)
        rest = graph.add((exponential.args[0], graph.neg(own.args[0])))
        factors = [share, graph.pow(total, graph.const(power + 1))]
        return graph.mul(factors if graph.is_zero(rest) else (graph.call(sympy.exp, (rest,)), *factors))

    def _spread(self, node: Node) -> Recursion[Node]:
        """Multiply out the product `node` if a factor is an addition with a guarded exponential: ``a*(b + [i <
        j]*exp(u))`` becomes ``a*b + a*[i < j]*exp(u)``. Each term can then be scaled separately, against overflow.
        Other products are unchanged.
        """
        for n, factor in enumerate(node.args):
            for part in _behind_guards(factor) if factor.op == "add" else ():
                found: Scaled = yield self.scaled(part)
                if found.shift:
                    others = (*node.args[:n], *node.args[n + 1 :])
                    return self.graph.add([self.graph.mul((*others, term)) for term in factor.args])
        return node

    def _quotient(self, value: Scaled, scaled: bool = True) -> Node:
        """Return `value`, a quotient by a sum of exponentials, as a node that does not overflow: ``exp(u - m)`` for
        ``exp(u)/exp(m)``, where m is the largest exponent in the sum. With ``scaled``, a sum over selected terms may
        use the largest exponent of all terms as m.

        It does so where all exponents are close together.
        """
        graph = self.graph
        for greatest in value.shift if scaled else ():
            if value.shift[greatest] < 0 and greatest in self.common:
                near = self._in_common_scale(value, greatest)
                return self.choices.choice(self.common[greatest].are_close, near, self._quotient(value, False))
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

    def _in_common_scale(self, value: Scaled, greatest: Node) -> Node:
        """Return `value`, a quotient by a sum over selected terms, as a node, for the case that all exponents are close
        together: the maximum of all exponents then replaces `greatest`, that of the selected terms.

        Each ``exp(u - maximum)`` becomes a factor.
        """
        scale, shift, factors = self.common[greatest], dict(value.shift), [value.rest]
        count = -shift.pop(greatest)
        for node in list(shift):
            factor = scale.factor(self.graph, node) if shift[node] > 0 and count > 0 else None
            if factor is not None:
                power = min(count, shift[node])
                self.choices.factors.add(factor)
                factors += [self.graph.pow(factor, self.graph.const(power))] if power != 1 else [factor]
                count, shift[node] = count - power, shift[node] - power
        shift[scale.greatest] = shift.get(scale.greatest, 0) - count
        rest = {node: c for node, c in shift.items() if c}
        return self._quotient(replace(value, shift=rest, rest=self.graph.mul(factors)))

    # -------------------------------------------------------------- values in scaled form

    def scaled(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest``, so that two such values can be divided without overflow, by subtraction
        of their shifts. The shift is 0 if no exponential in `node` can overflow.
        """
        if node not in self.known:
            self.known[node] = yield self._scaled(node)
        return self.known[node]

    def degree(self, exponent: Node) -> Any:
        """Return the absolute value of the numeric coefficient that all terms of `exponent` share: 2 for ``2*x - 2*y``;
        1 if their coefficients differ in absolute value.
        """
        terms = exponent.args if exponent.op == "add" else (exponent,)
        sizes = {abs(self.graph.split_view(term)[0]) for term in terms}
        return sizes.pop() if len(sizes) == 1 else 1

    def _scaled(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest`` if exponentials in it may overflow and can be scaled; else with the
        shift 0 and the rewritten `node` as the rest.
        """
        if node in self.shares:
            return Scaled({}, (yield self.final(node)))
        found: Scaled = yield self._rule(node)
        is_closed = found.degree == 0 or found.grows
        if found.shift and not ((found.is_quotient or found.bounded) and is_closed):
            return found
        return Scaled({}, (yield self.final(node)))

    def _rule(self, node: Node) -> Recursion[Scaled]:
        """Return `node` as ``exp(shift)*rest``, by the rule for its op; the shift is 0 if there is no rule."""
        found = Scaled({}, node)
        if is_call(node, sympy.exp):
            if (size := bounded_size(node.args[0])) is not None and size <= MAX_BOUNDED_EXPONENT:
                return found
            if self.rates and not self.rates.isdisjoint(_exponentials_in(node.args[0])):
                return found
            exponent = yield self.final(node.args[0])
            return Scaled({exponent: 1}, self.graph.one, self.degree(node.args[0]), above=True)
        if node.op == "pow" and node.args[1].op == "const":
            found = yield self._root(node)
        elif node.op == "mul":
            with_shares = self._with_shares(node)
            found = yield (self._product(node) if with_shares is node else self.scaled(with_shares))
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
        """Return the power `node` as ``exp(shift)*rest``, from its base in this form: ``shift`` is multiplied by the
        exponent, ``rest`` is raised to it.
        """
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
        """Return the product `node` as ``exp(shift)*rest``, where the shift is the sum of the shifts of the factors."""
        factors = yield from in_turn(map(self.scaled, node.args))
        return self._multiplied(factors)

    def _restricted_to(self, node: Node) -> Exponentials:
        """Return the object that scales the product `node`. This is the object itself, except for quotients by
        differences, as ``(exp(-a*t) - exp(-b*t))/(a - b)`` with ``a = exp(u)``: for these, it is one that does not
        scale ``exp(-a*t)``.

        No scale of the divisor balances such exponentials, and all quotients by it have them in common. The two objects
        share all results but scaled forms.
        """
        if not self._has_nested(node):
            return self
        divisors = [part.args[0] for part in breadth_first(node, _terms_and_factors) if _is_inverse(part)]
        sums = [part for part in divisors if part.op in ("add", "sum")]
        if not all(map(self._is_difference, sums)):
            return self
        rates = frozenset(part for divisor in sums for part in _exponentials_in(divisor))
        if not rates:
            return self
        if rates not in self.restricted:
            self.restricted[rates] = found = copy(self)
            found.known, found.rates = {}, rates
        return self.restricted[rates]

    def _is_difference(self, node: Node) -> bool:
        """Return whether `node` is an addition with a subtracted term."""
        return node.op == "add" and any(self.graph.split_view(term)[0] < 0 for term in node.args)

    def _has_nested(self, node: Node) -> bool:
        """Return whether an exponential with an exponential in its exponent occurs in `node`, as ``exp(-t*exp(u))``."""
        for part in reachable(node, known=self.nested):
            own = is_call(part, sympy.exp) and next(_exponentials_in(part.args[0]), None) is not None
            self.nested[part] = own or any(self.nested[arg] for arg in part.args)
        return self.nested[node]

    def _multiplied(self, factors: Sequence[Scaled]) -> Scaled:
        """Return the product of `factors`, values of the form ``exp(s)*rest``, in the same form: the exponents s are
        added, the other factors are multiplied.
        """
        shift: dict[Node, Any] = {}
        for factor in factors:
            for part, c in factor.shift.items():
                shift[part] = shift.get(part, 0) + c
        shift = {part: c for part, c in shift.items() if c}
        below = any(factor.below for factor in factors)
        bounded = below and len(self._shared(shift)) > 0
        return Scaled(
            shift,
            self.graph.mul([factor.rest for factor in factors]),
            sum(factor.degree for factor in factors),
            any(factor.above for factor in factors),
            below and not bounded,
            any(factor.summed for factor in factors),
            bounded,
        )

    def _shared(self, shift: Mapping[Node, Any]) -> set[Node]:
        """Return the exponents in `shift` that belong to quotients of a term by its sum, such as ``exp(u)/(exp(u) +
        exp(v))``, which are at most 1. Return the empty set if another divisor occurs. `shift` maps exponents to their
        coefficients, which are negative for divisors.
        """
        found = {node for node, factor in shift.items() if factor < 0}
        for greatest in [*found]:
            if greatest not in self.terms:
                return set()
            terms = [node for node in shift if shift[node] > 0 and self._is_term(node, greatest)]
            if sum(shift[node] for node in terms) != -shift[greatest]:
                return set()
            found.update(terms)
        return found

    def _is_term(self, node: Node, greatest: Node) -> bool:
        """Return whether `node` is one of the exponents whose maximum is `greatest`."""
        variables, term = self.terms[greatest]
        return instance(self.graph, term, [v for v in variables if v in term.free], node) is not None

    def _share(self, node: Node) -> Recursion[Node]:
        """Rewrite the product `node` without overflow: a quotient of a term by the sum that contains it, such as
        ``exp(u)/sum(exp(v))``, becomes ``exp(u - m)/sum(exp(v - m))``. The other factors are then rewritten one by one.
        """
        factors = yield from in_turn(map(self.scaled, node.args))
        shared = self._shared(self._multiplied(factors).shift)
        own = [n for n, factor in enumerate(factors) if not shared.isdisjoint(factor.shift)]
        quotient = self._multiplied([factors[n] for n in own])
        others = yield from in_turn(self.final(arg) for n, arg in enumerate(node.args) if n not in own)
        return self.graph.mul((self._quotient(quotient), *others))

    def _choice(self, node: Node) -> Recursion[Scaled]:
        """Return `node`, a select between a value and 0, as ``exp(shift)*rest``, to avoid overflow.

        Where it is 0, its shift is so negative that another term of a sum has the greatest one.

        A value without a shift is returned as it is; `_scaled` does not use it.
        """
        graph = self.graph
        condition = yield self.final(node.args[0])
        chosen = 2 if node.args[1] is graph.zero else 1
        found: Scaled = yield self.scaled(node.args[chosen])
        if not found.shift:
            return found

        def select_for(value: Node, otherwise: Node) -> Node:
            """Return a select with the condition of the enclosing method's ``node``, which gives `value` where ``node``
            gives its value, and `otherwise` where it gives 0.
            """
            return graph.select(condition, *((value, otherwise) if chosen == 1 else (otherwise, value)))

        shift = select_for(self.sum_of(found.shift), graph.const(_EXPONENT_OF_ZERO))
        return replace(found, shift={shift: 1}, rest=select_for(found.rest, graph.zero))

    def _sum(self, node: Node) -> Recursion[Scaled]:
        """Return the sum `node` of exponentials over a range as ``exp(shift)*rest``, against overflow: ``shift`` is the
        greatest exponent of all terms, and ``rest`` the sum of the terms divided by ``exp(shift)``.
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
        greatest = finite(graph, greatest_term(graph, variables, inner_rows, term))
        self.terms[greatest] = variables, term
        scale = common_scale(graph, variables, inner_rows, term, finite) if self.has_choices else None
        if scale is not None:
            greatest = graph.select(scale.are_close, scale.greatest, greatest)
            self.terms[greatest], self.common[greatest] = (variables, term), scale
        entries = _equal_entries(inner_rows, variables).items()
        selected = {v: Affine.variable(e) for e, form in entries for v, _ in form.terms if form == Affine.variable(v)}
        # In the form of other values that the entries select, so that their exponentials are computed once.
        below = graph.call(sympy.exp, (graph.add((term, graph.neg(graph.substitute(greatest, selected)))),))
        rest = graph.sum(variables, inner_rows, graph.mul((below, found.rest)))
        if scale is not None:
            near = graph.sum(variables, inner_rows, scale.selected(graph, term, found.rest))
            rest = graph.select(scale.are_close, near, rest)
        return replace(found, shift={**shift, greatest: shift.get(greatest, 0) + 1}, rest=rest, summed=True)

    def _addition(self, node: Node) -> Recursion[Scaled]:
        """Return the addition `node` of exponentials as ``exp(shift)*rest``, against overflow, where the shift is the
        greatest exponent of a term.
        """
        graph = self.graph
        terms = yield from in_turn(map(self.scaled, node.args))
        if not any(term.shift for term in terms):
            return Scaled({}, node)
        greatest, scales = self.scales([self.sum_of(term.shift) for term in terms])
        return self.joined(
            terms, greatest, [graph.mul((scale, term.rest)) for scale, term in zip(scales, terms, strict=True)]
        )

    def scales(self, shifts: Sequence[Node]) -> tuple[Node, list[Node]]:
        """Return ``(greatest, factors)``: the greatest of the exponents `shifts`, and ``exp(shift - greatest)`` for
        each of them.

        For 0 and one other exponent, one of the factors is 1, so that a single exponential is computed. In other cases,
        unless one of `shifts` is the greatest everywhere, 0 replaces a greatest that is infinite.
        """
        graph = self.graph
        greatest = graph.call(sympy.Max, shifts)
        values = dict.fromkeys(value for shift in shifts for value in (shift.args if _is_maximum(shift) else (shift,)))
        others = [value for value in values if not graph.is_zero(value)]
        if len(others) == 1 and len(values) == 2 and greatest not in shifts:
            (other,) = others
            is_less = graph.compare("lt", other, graph.zero)
            least = graph.call(sympy.exp, (graph.neg(graph.call(sympy.Abs, (other,))),))
            own = graph.select(is_less, least, graph.one), graph.select(is_less, graph.one, least)
            # The greatest of max(u, 0) and u is max(u, 0).
            greatest = next(filter(_is_maximum, shifts), greatest)
            return greatest, [graph.one if shift is greatest else own[graph.is_zero(shift)] for shift in shifts]
        if greatest not in shifts:
            greatest = finite(graph, greatest)
        below = [graph.add((shift, graph.neg(greatest))) for shift in shifts]
        return greatest, [graph.one if graph.is_zero(one) else graph.call(sympy.exp, (one,)) for one in below]

    def joined(self, terms: Sequence[Scaled], shift: Node, rests: Sequence[Node]) -> Scaled:
        """Return the sum of `terms` as one `Scaled` record, ``exp(shift)*rest``: its `shift` is the greatest exponent,
        and `rests` are the terms divided by ``exp(shift)``.

        Other properties are combined from those of the terms.
        """
        graph, rest = self.graph, self.graph.add(rests)
        is_one = [not term.shift and graph.split_view(term.rest) == (1, graph.one) for term in terms]
        if sum(is_one) == 1:
            unit = rests[is_one.index(True)]
            tail = graph.add([part for part in rests if part is not unit])
            self.excesses[rest] = graph.mul((tail, graph.pow(unit, graph.const(-1))))
        return Scaled(
            {shift: 1},
            rest,
            max(term.degree for term in terms),
            any(term.above for term in terms),
            any(term.below for term in terms),
            True,
        )

    def logarithm(self, shift: Node, rest: Node) -> Node:
        """Return the logarithm of a sum of exponentials, given as ``exp(shift)*rest``: ``shift + log(rest)``, or
        ``log1p(u)`` if the sum is ``1 + u`` and u is not large. The latter is accurate for small u.
        """
        graph = self.graph
        far = graph.add((shift, graph.call(sympy.log, (rest,))))
        if (excess := self.excesses.get(rest)) is None:
            return far
        is_near = graph.compare("lt", excess, graph.const(_LARGE_VALUE))
        return graph.select(is_near, graph.call(log1p, (excess,)), far)


def _is_maximum(node: Node) -> bool:
    """Return whether `node` is the maximum of several values (not of one value over a range)."""
    return node.op == "call" and node.data is sympy.Max


def _is_inverse(node: Node) -> bool:
    """Return whether `node` is a power with a negative number as exponent."""
    return node.op == "pow" and node.args[1].op == "const" and node.args[1].data < 0


def _terms_and_factors(node: Node) -> Sequence[Node]:
    """Return the arguments of an addition or a product; () for another node."""
    return node.args if node.op in ("add", "mul") else ()


def _exponentials_in(node: Node) -> Iterator[Node]:
    """Yield the exponentials in the terms and factors of `node`, also in powers and stored tensors, but not in a
    logarithm or another function.
    """
    below = ("add", "mul", "pow", "read", "comprehension")
    parts = breadth_first(node, lambda part: part.args if part.op in below else ())
    return (part for part in parts if is_call(part, sympy.exp))


def _terms_of(exponent: Node) -> frozenset[Node]:
    """Return the set of the terms of ``exponent``, if it is an addition, else the set of ``exponent`` alone."""
    return frozenset(exponent.args if exponent.op == "add" else (exponent,))


def _factors_of_exponential(exponent: Node, variables: Sequence[int]) -> list[list[Node]]:
    """Group the terms of `exponent` so that different groups share no indices but `variables`: [a], [b] for ``a[i, k] +
    b[k, j]`` and the variable k. The sum of the exponential over `variables` is then a matrix product. Return the
    groups, or [] if there are fewer than two.

    Terms without other indices are in the first group. Also return [] if a term depends on none of `variables`.
    """
    groups: list[tuple[set[int], list[Node]]] = []
    for term in exponent.args if exponent.op == "add" else ():
        if term.free.isdisjoint(variables):
            return []
        indices, terms = set(term.free.difference(variables)), [term]
        for group in [group for group in groups if not indices.isdisjoint(group[0])]:
            groups.remove(group)
            indices, terms = indices | group[0], [*group[1], *terms]
        groups.append((indices, terms))
    shared = [terms for indices, terms in groups if not indices]
    found = [terms for indices, terms in groups if indices]
    if len(found) < 2:
        return []
    return [[*found[0], *(term for terms in shared for term in terms)], *found[1:]]


def bounded_size(node: Node) -> Any:
    """Return a number that the absolute value of the scalar `node` never exceeds, as 2 for ``tanh(u) + sin(v)``; None
    if none is known.
    """
    sizes: dict[Node, Any] = {}
    for part in reachable(node):
        sizes[part] = size_of(part, sizes)
    return sizes[node]


def size_of(part: Node, sizes: Mapping[Node, Any]) -> Any:
    """Return an upper bound of the absolute values of the entries of `part`; None if none is known. ``sizes`` has the
    upper bounds of its arguments.
    """
    if part.op == "const":
        return abs(part.data)
    if part.op in ("read", "comprehension", "guard"):
        return sizes.get(part.args[0])
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
    """Return ``total**power``, a negative power of a sum of exponentials. If the graph contains the exponent ``-oo``,
    the sum may be 0: return a select that is 0 there.
    """
    inverse = graph.pow(total, graph.const(power))
    if "left out" not in graph.kinds:
        return inverse
    return graph.select(graph.compare("ne", total, graph.zero), inverse, graph.zero)


def _equal_entries(rows: Sequence[Constraint], variables: Sequence[int]) -> dict[IndirectIndex, Affine]:
    """Solve the equations in `rows` for integer-array entries, and return a dictionary from these to the solutions:
    ``{dst[e]: v}`` for ``v == dst[e]``. An entry must contain one of `variables`, here e, and its solution none.
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


def greatest_term(graph: Graph, variables: Sequence[int], rows: Rows, term: Node, op: str = "max") -> Node:
    """Return a node for the maximum of `term` over `variables` in the range `rows` (the minimum for ``op="min"``), with
    parts that do not contain these variables moved out.

    The maximum of ``c*(p + q[k])`` is ``c*(p + max_k q[k])`` for ``c >= 0``. If the sign of c is unknown, a select
    chooses between maximum and minimum.
    """
    terms = term.args if term.op == "add" else (term,)
    own = [part for part in terms if not part.free.isdisjoint(variables)]
    if own and len(own) < len(terms):
        outer = [part for part in terms if part not in own]
        return graph.add((*outer, greatest_term(graph, variables, rows, graph.add(own), op)))
    factors = graph.factors(term)
    inner = [factor for factor in factors if not factor.free.isdisjoint(variables)]
    if len(inner) != 1 or len(factors) == 1 or inner[0].op != "add":
        return graph.reduce(op, variables, rows, term)
    if all(not part.free.isdisjoint(variables) for part in inner[0].args):
        return graph.reduce(op, variables, rows, term)
    factor = graph.mul([part for part in factors if part is not inner[0]])
    number, core = graph.split_coefficient(factor)
    opposite = "min" if op == "max" else "max"
    rising, falling = (
        graph.mul((factor, greatest_term(graph, variables, rows, inner[0], one))) for one in (op, opposite)
    )
    if sign_facts(graph, core).sign >= 0:
        return rising if number > 0 else falling
    return graph.select(graph.compare("lt", graph.zero, factor), rising, falling)


def finite(graph: Graph, shift: Node) -> Node:
    """Return ``shift`` where it is finite, else 0: subtracting an infinite exponent would give nan."""
    size = graph.call(sympy.Abs, (shift,))
    # No infinite constant is needed to tell: twice infinity is not greater.
    return graph.select(graph.compare("lt", size, graph.scale(2, size)), shift, graph.zero)


def _behind_guards(total: Node) -> list[Node]:
    """Return the bodies of all guards that are terms of the addition `total`, or factors of its terms: b and c for
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
