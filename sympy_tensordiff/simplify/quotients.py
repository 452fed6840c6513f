"""Quotients and sums of them, of numbers and of whole tensors entry by entry, in their shortest form.

A product is a coefficient and rational exponents of its factors, a sum is a polynomial of such products. The laws are::

    1/(x/y)                y/x               (q/c + 1)**-1 / c        1/(q + c)
    x*(1 - y/x)            x - y             (a - b)/a                1 - b/a
    1/t - r**2/t**2        1/t**2            where t is r**2 + 1
    c + e*(u - 1) + e      c + e*u           x/(x + y) + y/(x + y)    1
    x*(x/b)**(a - 1)       b*(x/b)**a

with ``a`` that is computed, such as a norm, in ``(a - b)/a``: see `Quotients.shortest`. Each form of a node is compared
with the node itself by its printed length, and the shortest one is taken. Factors that cancel are not 0 and not
infinite where the node is a number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

import sympy

from sympy_tensordiff.graph.contractions import is_core, sums_labels
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.canonical_signs import content_of

MOST_TERMS = 12
"""Longer polynomials are left as they are."""

_LETTERS = frozenset({"const", "index", "read", "scalar", "tensor"})

SIGN = 100
"""The length of a sign; a divisor is so much longer than a factor as 1."""

Powers = Mapping[Node, Fraction]
Monomial = tuple[tuple[Node, Fraction], ...]
"""The exponents of factors, in the order of the ids of the factors."""

Polynomial = dict[Monomial, Fraction]


class _Inexact(Exception):
    """Raised inside of this module to give up a rewriting: a coefficient is a floating point number, or a polynomial
    has too many terms.
    """


class Term(NamedTuple):
    """A product ``coefficient * prod(base**exponent)``."""

    coefficient: Fraction
    powers: Powers


def with_short_quotients(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node] | None = None) -> list[Node]:
    """Return `roots` with sums and products replaced by equal forms with fewer operators, such as one fraction for
    several. `nodes` are all nodes below `roots`, arguments first; None to find them here.
    """
    nodes = reachable(*roots) if nodes is None else nodes
    # Derivatives of squared arccosines have forms of their own, which are finite at both ends.
    has_angle = any(node.op == "call" and node.data is sympy.acos for node in nodes)
    # Quotients of opposite exponentials stay as they are: kernels scale both, so that neither overflows.
    exponents = {node.args[0] for node in nodes if node.op == "call" and node.data is sympy.exp}
    has_opposites = any(graph.neg(exponent) in exponents for exponent in exponents)
    if has_angle or has_opposites or not any(map(_may_cancel, nodes)):
        return list(roots)
    work, done = quotients_of(graph), dict[Node, Node]()
    for node in nodes:
        new = graph.with_args(node, [done[arg] for arg in node.args]) if node.args else node
        new = _without_kinks_beside_poles(graph, new) if new.op == "add" else new
        new = work.shortest(new) if _may_cancel(new) else new
        done[node] = work.with_factors_inside(new) if is_core(new) else new
    return [done[root] for root in roots]


def quotients_of(graph: Graph) -> Quotients:
    """Return the `Quotients` of `graph`; they are created when they are first needed."""
    found: Quotients = graph.quotients or Quotients(graph)
    graph.quotients = found
    return found


def _may_cancel(node: Node) -> bool:
    """Return whether fractions in `node` might cancel or be merged: a cheap test, true more often than needed."""
    if node.op == "pow":
        return _is_quotient(node) and node.args[0].op != "add"
    if node.op == "add":
        return any(_has(arg, "add") or _has(arg, "pow") for arg in node.args)
    if any(part.op == "pow" and part.args[0].op == "mul" and part.args[1].op == "add" for part in _parts(node)):
        return True
    return _has(node, "pow") and (_has(node, "add") or any(_is_quotient(part) for part in _parts(node)))


def _without_kinks_beside_poles(graph: Graph, node: Node) -> Node:
    """Return the addition `node` with ``(a if u != 0 else 0) + b/u`` replaced by ``a + b/u``: at ``u = 0`` both are
    undefined. Unchanged without such terms.
    """
    poles = [{f.args[0] for f in graph.factors(term) if f.op == "pow" and _is_divisor(f)} for term in node.args]
    terms = list(node.args)
    for n, term in enumerate(node.args) if any(poles) else ():
        condition, value, otherwise = graph.split_select(term) or (term, term, term)
        base = condition.args[0] if condition.op == "compare" and condition.data == "ne" else None
        is_kink = base is not None and condition.args[1] is graph.zero and graph.is_zero(otherwise)
        if is_kink and any(base in other for m, other in enumerate(poles) if m != n):
            terms[n] = value
    return graph.add(terms)


def _parts(node: Node) -> Iterable[Node]:
    """Return the factors of `node` if it is a product or a multiple of one; `node` alone if it is a power; () for other
    nodes.
    """
    if node.op not in ("mul", "ein"):
        return (node,) if node.op == "pow" else ()
    return node.args[0].args if node.view and node.args and node.args[0].op == "ein" else node.args


def _has(node: Node, op: str) -> bool:
    """Return whether the product `node` has a factor with the operation `op`. A power counts only if its exponent is
    negative.
    """
    return any(part.op == op and (op != "pow" or _is_divisor(part)) for part in _parts(node))


def _is_divisor(node: Node) -> bool:
    """Return whether `node` is a power with a negative number as exponent."""
    exponent = node.args[1]
    return bool(exponent.op == "const" and exponent.data < 0)


def _is_quotient(node: Node) -> bool:
    """Return whether `node` is a power with a negative number as exponent, of a product or a sum."""
    return node.op == "pow" and _is_divisor(node) and node.args[0].op in ("add", "mul", "ein")


class Quotients:
    """Rewrites sums and products as fractions and polynomials in their subexpressions, and chooses the form with the
    shortest text.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lengths: dict[Node, int] = {}
        self.terms: dict[Node, Term | None] = {}
        """The products of `term`; None for nodes that have none."""
        self.polynomials: dict[Node, Polynomial | None] = {}
        """The sums as polynomials; None for those that have too many terms or a floating point number."""
        self.opposites: dict[Node, Node] = {}
        """From sums to the sums with all signs changed."""
        self.short: dict[Node, Node] = {}
        """The results of `shortest`: each round of simplification asks for most nodes again."""

    def shortest(self, node: Node) -> Node:
        """Return the shortest of the forms of `node`; `node` itself if no other one is shorter."""
        if node not in self.short:
            best, least = node, self.length(node)
            for form in self.forms(node):
                is_shorter = form is not node and form.shape == node.shape and self.length(form) < least
                if is_shorter and self._keeps_digits(node, form):
                    best, least = form, self.length(form)
            self.short[node] = best
        return self.short[node]

    def with_factors_inside(self, node: Node) -> Node:
        """Return the contraction `node` with scalars, and with factors along the same axes, multiplied into one of its
        quotients where that shortens it: ``X.T @ (r/(r**2/t + 1))/t`` becomes ``X.T @ (r/(r**2 + t))``.
        """
        operands = list(zip(node.args, node.data.inputs, strict=True))
        scalars = [arg for arg, own in operands if not own]
        for quotient, place in operands:
            under = self.graph.is_choice(quotient) and quotient.args[2] is self.graph.zero
            value = quotient.args[1] if under else quotient
            if not place or value.op != "pow" or not _is_divisor(value):
                continue
            others = [arg for arg, own in operands if own == place and arg is not quotient]
            product = self.graph.mul([*scalars, *others, value]) if scalars or (under and others) else value
            found = self.shortest(product)
            if found is not product:
                found = self.graph.select(quotient.args[0], found, quotient.args[2]) if under else found
                rest = [(arg, own) for arg, own in operands if own not in ((), place)]
                extents: dict[Hashable, Affine] = dict(enumerate(node.data.extents))
                return self.graph.ein(1, [(found, place), *rest], node.data.output, extents)
        return node

    def _keeps_digits(self, node: Node, form: Node) -> bool:
        """Return whether `form`, which is equal to `node`, is no less accurate: it still contains each difference of
        inputs, such as ``a - b``, or has fewer additions and divisions.

        ``(a - b)/a`` keeps the digits of a small difference, which ``1 - b/a`` loses to the rounding of the quotient. A
        difference of computed values has lost them before.
        """
        lost = self._sums_of_letters(node) - self._sums_of_letters(form)
        before, after = _size(node), _size(form)
        return not lost or (after != before and all(map(operator.le, after, before)))

    def _sums_of_letters(self, node: Node) -> set[frozenset[Node]]:
        """Return the additions of plain variables, entries and numbers in `node`, each as the set of its terms without
        coefficients: ``{a, b}`` for ``a - 2*b``.
        """
        found: set[frozenset[Node]] = set()
        for part in reachable(node):
            terms = {self.graph.split_view(arg)[1] for arg in part.args if part.op == "add"}
            if terms and all(term.op in _LETTERS for term in terms):
                found.add(frozenset(terms))
        return found

    def forms(self, node: Node) -> Iterator[Node]:
        """Yield nodes that are equal to the sum or product `node`, for a choice of the best one: as one fraction, in
        factored form, and with products multiplied out.
        """
        for form in self._sums(node) if node.op == "add" else self._products(node):
            with suppress(_Inexact):
                yield form()

    def _products(self, node: Node) -> Iterator[Callable[[], Node]]:
        """Yield functions without arguments, each of which builds an equal form of the product `node`: with common
        factors of its sums taken out, with a sum multiplied out, or with a factor joined with a power.
        """
        yield lambda: self._built(self.term(node))
        yield lambda: self._distributed(self.term(node))
        yield lambda: self._built(self._with_power_joined(self.term(node)))

    def _sums(self, node: Node) -> Iterator[Callable[[], Node]]:
        """Yield functions without arguments, each of which builds an equal form of the sum `node`: one fraction, or
        multiplied out.
        """
        with suppress(_Inexact):
            numerator, divisor = self._over_one_denominator(node)
            # Outside of the sum is the greatest power of a divisor that all terms have, or the least.
            greatest, least = (_content_of(numerator, common=True, greatest=which) for which in (True, False))
            yield lambda: self._fraction(numerator, divisor, greatest, node.shape)
            if least != greatest:
                yield lambda: self._fraction(numerator, divisor, least, node.shape)
        yield lambda: self._built_sum(self._opened(self.polynomial(node)), node.shape)

    # -------------------------------------------------------------- terms

    def term(self, node: Node) -> Term:
        """Return `node` as ``coefficient * prod(base**exponent)``, with opposite sums merged and common factors that
        cancel taken out; raise `_Inexact` if that is not possible.

        Raise `_Inexact` for a floating point number, and for a sum with too many terms.
        """
        if node not in self.terms:
            self.terms[node] = None
            self.terms[node] = self._term(node)
        found = self.terms[node]
        if found is None:
            raise _Inexact
        return found

    def _term(self, node: Node) -> Term:
        """Return `node` in the form ``coefficient * prod(base**exponent)``. Raise `_Inexact` if it has no such form.
        The cache is not consulted.
        """
        coefficient, powers = Fraction(1), dict[Node, Fraction]()
        stack = [(factor, Fraction(1)) for factor in self.graph.factors(node)]
        while stack:
            factor, exponent = stack.pop()
            if factor.op == "const":
                coefficient *= _as_fraction(factor.data) ** _as_int(exponent)
                continue
            is_power = factor.op == "pow" and factor.args[1].op == "const" and factor.args[0].shape == factor.shape
            if is_power and exponent.denominator == 1:
                stack.append((factor.args[0], exponent * _as_fraction(factor.args[1].data)))
                continue
            inner = self.graph.factors(factor)
            inner = inner if len(inner) > 1 else self._factors_of_all_axes(factor)
            if len(inner) > 1 and exponent.denominator == 1:
                stack += [(own, exponent) for own in inner]
            else:
                powers[factor] = powers.get(factor, Fraction(0)) + exponent
        found = self._without_opposites(Term(coefficient, powers))
        for base in list(powers):
            power = found.powers.get(base, Fraction(0))  # what is left of another sum may be this one
            if base.op == "add" and power and power.denominator == 1:
                found = self._without_content(found, base, int(power))
        return found._replace(powers={base: power for base, power in found.powers.items() if power})

    def _factors_of_all_axes(self, node: Node) -> tuple[Node, ...]:
        """Return the factors of a product like ``a_i b_j C_ij``: its number, each factor that has all axes of the
        product, here ``C``, and the outer product of the others, ``a_i b_j``. Return `node` alone if it is not such a
        product.
        """
        number, core = self.graph.split_view(node)
        if not is_core(core) or core.shape != node.shape or sums_labels(core):
            return (node,)
        output = core.data.output
        operands = list(zip(core.args, core.data.inputs, strict=True))
        whole = [arg for arg, labels in operands if labels == output]
        others = [(arg, labels) for arg, labels in operands if labels != output]
        covered = {label for _, labels in others for label in labels}
        if not whole or len(set(output)) < len(output) or covered != set(output):
            return (node,)  # ``diag(u) @ C`` is a product of matrices
        extents: dict[Hashable, Affine] = dict(enumerate(core.data.extents))
        return self.graph.const(number), *whole, self.graph.ein(1, others, output, extents)

    def _without_opposites(self, term: Term) -> Term:
        """Return `term` with powers of opposite sums, such as ``a - 1`` and ``1 - a``, as powers of one of them: ``(1 -
        a)/(a - 1)`` becomes -1.
        """
        sums = [base for base, power in term.powers.items() if base.op == "add" and power.denominator == 1]
        if len(sums) < 2 or not any(power < 0 for power in term.powers.values()):
            return term
        coefficient, powers = term.coefficient, dict(term.powers)
        for base in sums:
            if base not in self.opposites:
                terms = {key: -number for key, number in self.polynomial(base).items()}
                self.opposites[base] = self._built_sum(terms, base.shape)
            opposite = self.opposites[base]
            if opposite is not base and powers.get(base) and powers.get(opposite):
                power = powers.pop(base)
                coefficient *= Fraction(-1) ** int(power)
                powers[opposite] += power
        return Term(coefficient, powers)

    def _without_content(self, term: Term, base: Node, exponent: int) -> Term:
        """Return `term` with common factors of the terms of the sum `base` taken out of its factor ``base**exponent``:
        numbers, and what cancels with other factors of `term`, as in ``(a*x + a*y)/a``.
        """
        polynomial = self.polynomial(base)
        # Entries stay: the series of (1 - exp(-s/t))/s - (t/s + 1)*exp(-s/t)*s/t**2 is found in this form only.
        sums = [own for own, power in term.powers.items() if own.op == "add" and power * exponent > 0]
        content = _content_of(polynomial, cancelled=sums)
        cancels = {
            own: power for own, power in content.powers.items() if term.powers.get(own, 0) * power * exponent < 0
        }
        content = content._replace(powers=cancels)
        if not polynomial or (content.coefficient == 1 and not cancels):
            return term
        outside = Term(content.coefficient**exponent, {own: power * exponent for own, power in cancels.items()})
        rest = self._built_sum(_divided(polynomial, content), base.shape)
        powers = {own: power for own, power in term.powers.items() if own is not base}
        return _times(_times(term._replace(powers=powers), outside), Term(Fraction(1), {rest: Fraction(exponent)}))

    def polynomial(self, node: Node) -> Polynomial:
        """Return the sum `node` as a polynomial; raise `_Inexact` if it has floating point coefficients or too many
        terms.
        """
        if node not in self.polynomials:
            self.polynomials[node] = None
            self.polynomials[node] = self._polynomial(map(self.term, node.args))
        found = self.polynomials[node]
        if found is None:
            raise _Inexact
        return found

    def _polynomial(self, terms: Iterable[Term]) -> Polynomial:
        """Return the sum of `terms` as a polynomial, with equal monomials collected; raise `_Inexact` if it has too
        many.
        """
        found: Polynomial = {}
        for coefficient, powers in terms:
            key = _key(powers)
            found[key] = found.get(key, Fraction(0)) + coefficient
        if len(found) > MOST_TERMS:
            raise _Inexact
        return {key: coefficient for key, coefficient in found.items() if coefficient}

    # -------------------------------------------------------------- forms

    def _distributed(self, term: Term) -> Node:
        """Return the product `term` with its sum multiplied out, ``a*b + a*c`` for ``a*(b + c)``; raise `_Inexact`
        unless exactly one factor is a sum.
        """
        sums = [base for base, power in term.powers.items() if base.op == "add" and power == 1]
        if len(sums) != 1:
            raise _Inexact
        rest = Term(term.coefficient, {base: power for base, power in term.powers.items() if base is not sums[0]})
        return self._built_sum(self._polynomial(_times(rest, self.term(own)) for own in sums[0].args), sums[0].shape)

    def _with_power_joined(self, term: Term) -> Term:
        """Return the product `term` with a factor and a power that contains it merged: ``x*(x/b)**(a - 1)`` becomes
        ``b*(x/b)**a``. Raise `_Inexact` if there is no such pair.
        """
        for power, times in term.powers.items():
            base, exponent = power.args if power.op == "pow" else (power, power)
            if times != 1 or base.op != "mul" or exponent.op != "add" or exponent.args[-1] is not self.graph.const(-1):
                continue
            inner = self.term(base)
            if any(times > 0 and term.powers.get(own) == times for own, times in inner.powers.items()):
                joined = self.graph.pow(base, self.graph.add(exponent.args[:-1]))
                rest = {own: times for own, times in term.powers.items() if own is not power}
                inverse = Term(1 / inner.coefficient, {own: -times for own, times in inner.powers.items()})
                return _times(Term(term.coefficient, {joined: Fraction(1)}), _times(Term(Fraction(1), rest), inverse))
        raise _Inexact

    def _opened(self, polynomial: Polynomial) -> Polynomial:
        """Return `polynomial` with the first sum among the factors of each term multiplied out, ``a*(b + c)`` as ``a*b
        + a*c``.
        """
        terms: list[Term] = []
        for key, coefficient in polynomial.items():
            term = Term(coefficient, dict(key))
            inner = next((base for base, power in key if base.op == "add" and power == 1), None)
            if inner is None:
                terms.append(term)
            else:
                rest = Term(coefficient, {base: power for base, power in key if base is not inner})
                terms += [_times(rest, self.term(own)) for own in inner.args]
        return self._polynomial(terms)

    def _over_one_denominator(self, node: Node) -> tuple[Polynomial, Term]:
        """Return ``(numerator, divisor)`` of the sum `node` as one fraction, with common factors cancelled; the
        exponents in `divisor` are negative. Raise `_Inexact` if the numerator has more terms than `node`.
        """
        polynomial = self.polynomial(node)
        below = _common_roots(polynomial)
        count = len(polynomial)
        if below:
            polynomial = _divided(polynomial, Term(Fraction(1), below))
        for key in polynomial:
            for base, power in key:
                if base.op == "add" and power < 0 and power.denominator == 1:
                    below[base] = min(below.get(base, power), power)
        for base, power in below.items():
            polynomial = self._multiplied(polynomial, base, -int(power) if power.denominator == 1 else 0)
        for base in list(below):
            divisor = self.polynomial(base)
            while below[base] < 0 and (quotient := _quotient(polynomial, divisor)) is not None:
                polynomial, below[base] = quotient, below[base] + 1
        if len(polynomial) > count:
            raise _Inexact
        return polynomial, Term(Fraction(1), below)

    def _fraction(self, numerator: Polynomial, divisor: Term, content: Term, shape: tuple[Affine, ...]) -> Node:
        """Return the quotient ``numerator*divisor`` as a node of the given `shape`, with the common factor `content` of
        the numerator's terms in front. `divisor` is a product of powers with negative exponents.
        """
        if not numerator:
            return self.graph.filled(0, shape) if shape else self.graph.zero
        return self._built(_times(content, divisor), self._opened(_divided(numerator, content)), shape)

    def _multiplied(self, polynomial: Polynomial, base: Node, times: int) -> Polynomial:
        """Return ``polynomial*base**times``, multiplied out, for a sum `base`; in terms that are divided by `base`, it
        cancels. Raise `_Inexact` if a term would have to be multiplied by `base` more than twice, or by a fractional
        power of it.
        """
        terms: list[Term] = []
        factors = [self.term(arg) for arg in base.args]
        for key, coefficient in polynomial.items():
            powers = dict(key)
            left = powers.pop(base, Fraction(0)) + times
            if left.denominator > 1 or left > 2:
                raise _Inexact
            if left < 0:  # another sum that was multiplied out before is divided by `base`, too
                powers[base] = left
            own = [Term(coefficient, powers)]
            for _ in range(int(left)):
                own = [_times(term, factor) for term in own for factor in factors]
            terms += own
        return self._polynomial(terms)

    # -------------------------------------------------------------- nodes

    def _built(self, term: Term, rest: Polynomial | None = None, shape: tuple[Affine, ...] = ()) -> Node:
        """Return ``term*rest`` as a node, or `term` alone without `rest`. If a `shape` is given, a scalar is repeated
        to a tensor of this shape.
        """
        graph = self.graph
        factors = [graph.pow(base, graph.const(_number(power))) for base, power in term.powers.items() if power]
        if rest is not None and (len(rest) != 1 or rest.get((), 0) != 1):
            factors.append(self._built_sum(rest, shape))
        product = graph.mul(factors) if factors else graph.one
        product = graph.scale(_number(term.coefficient), product)
        return graph.broadcast(product, shape) if shape and not product.shape else product

    def _built_sum(self, polynomial: Polynomial, shape: tuple[Affine, ...]) -> Node:
        """Return `polynomial` as a node, repeated to a tensor of `shape` if it is a scalar."""
        terms = [self._built(Term(coefficient, dict(key))) for key, coefficient in polynomial.items()]
        total = self.graph.add(terms)
        return self.graph.broadcast(total, shape) if shape and not total.shape else total

    def length(self, node: Node) -> int:
        """Return a measure of the length of the formula of `node`: a weighted count of its operators and function
        names. Of two equally long formulas, the one with fewer divisors is shorter.
        """
        for part in reachable(node, known=self.lengths):
            own = sum(self.lengths[arg] for arg in part.args) + SIGN * (_coefficient(part) not in (1, -1))
            if part.op in ("add", "mul", "ein"):
                own += SIGN * max(0, sum(arg.op != "const" or part.op == "add" for arg in part.args) - 1)
                own += SIGN * (part.op == "ein" and bool(part.args) and not part.view and not _is_entrywise(part))
            elif part.op == "pow":
                own += SIGN * (not (part.args[1].op == "const" and part.args[1].data == -1)) + _is_divisor(part)
            elif part.op not in ("const", "tensor", "scalar", "index", "read"):
                own += SIGN
            self.lengths[part] = own
        return self.lengths[node]


def _size(node: Node) -> tuple[int, int]:
    """Return ``(additions, divisions)``: how many `node` contains; shared nodes count once."""
    parts = reachable(node)
    additions = sum(len(part.args) - 1 for part in parts if part.op == "add")
    return additions, sum(part.op == "pow" and _is_divisor(part) for part in parts)


def _coefficient(node: Node) -> Number:
    """Return the number in front of a product or of a scaled tensor; 1 for other nodes."""
    if node.op == "ein":
        return node.data.coefficient if node.args else 1
    return node.args[0].data if node.op == "mul" and node.args[0].op == "const" else 1


def _is_entrywise(node: Node) -> bool:
    """Return whether an einsum is an element-wise product of tensors of one shape and scalars."""
    return all(not labels or labels == node.data.output for labels in node.data.inputs)


def _as_fraction(number: object) -> Fraction:
    """Return an integer or fraction as a fraction; raise `_Inexact` for floating point numbers."""
    if not isinstance(number, (int, Fraction)):
        raise _Inexact
    return Fraction(number)


def _as_int(number: Fraction) -> int:
    """Return the integer `number` as an int; raise `_Inexact` for another fraction."""
    if number.denominator > 1:
        raise _Inexact
    return int(number)


def _number(number: Fraction) -> int | Fraction:
    """Return the fraction ``number`` as an int if it is integral, otherwise unchanged."""
    return int(number) if number.denominator == 1 else number


def _key(powers: Powers) -> Monomial:
    """Return the dictionary `powers` of exponents as a hashable tuple, equal for equal products."""
    return tuple(sorted(((base, power) for base, power in powers.items() if power), key=lambda pair: pair[0].id))


def _times(one: Term, other: Term) -> Term:
    """Return the product of the terms ``one`` and ``other``: the coefficients are multiplied, the exponents of equal
    bases are added. Bases with the exponent 0 are left out.
    """
    powers = dict(one.powers)
    for base, power in other.powers.items():
        powers[base] = powers.get(base, Fraction(0)) + power
    return Term(one.coefficient * other.coefficient, {base: power for base, power in powers.items() if power})


def _content_of(
    polynomial: Polynomial, *, common: bool = False, greatest: bool = False, cancelled: Sequence[Node] = ()
) -> Term:
    """Return the factor to take out of the sum `polynomial`: ``2/t`` for ``2*a/t + 4*b/t``, and with `common` also
    positive powers that all terms have. `greatest` and `cancelled` decide about divisors that only some terms have.

    With `greatest`, a divisor is taken out only if all terms have it.

    Divisors in `cancelled` are taken out even if only some terms have them.
    """
    if not polynomial:
        return Term(Fraction(1), {})
    coefficients = list(polynomial.values())
    number = Fraction(content_of(coefficients))
    least: dict[Node, Fraction] = {}
    keys = [dict(key) for key in polynomial]
    for base in dict.fromkeys(base for key in polynomial for base, _ in key if base.op != "index"):
        exponents = [key.get(base, Fraction(0)) for key in keys]
        is_letter = base.op in ("tensor", "scalar") or base in cancelled
        power = max(exponents) if max(exponents) <= 0 and (greatest or not is_letter) else min(exponents)
        if power < 0 or (common and power > 0):
            least[base] = power
    return Term(number, least)


def _common_roots(polynomial: Polynomial) -> dict[Node, Fraction]:
    """Find the sums t of which each term of `polynomial` contains a root, such as ``sqrt(t)``, and return a dictionary
    from t to its least exponent: ``{t: -1/2}`` for ``1/(2*sqrt(t)) - sqrt(t)/(t + 1)``. The exponents of t must differ
    by integers.
    """
    keys = [dict(key) for key in polynomial]
    found: dict[Node, Fraction] = {}
    for base, power in keys[0].items() if len(keys) > 1 else ():
        powers = [key.get(base, Fraction(0)) for key in keys]
        if base.op == "add" and power.denominator > 1 and all((own - power).denominator == 1 for own in powers):
            found[base] = min(powers)
    return found


def _divided(polynomial: Polynomial, content: Term) -> Polynomial:
    """Return `polynomial` divided by the product `content`."""
    inverse = Term(1 / content.coefficient, {base: -power for base, power in content.powers.items()})
    terms = (_times(Term(coefficient, dict(key)), inverse) for key, coefficient in polynomial.items())
    return {_key(term.powers): term.coefficient for term in terms}


def _quotient(polynomial: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """Return `polynomial` divided by a `divisor` of at least two terms; None if the division leaves a remainder."""
    bases = sorted({base for key in (*polynomial, *divisor) for base, _ in key}, key=lambda base: base.id)

    def leading(terms: Polynomial) -> Term:
        """Return the term with the highest exponents."""
        key = max(terms, key=lambda key: [dict(key).get(base, Fraction(0)) for base in bases])
        return Term(terms[key], dict(key))

    rest, found = dict(polynomial), Polynomial()
    top = leading(divisor)
    inverse = Term(1 / top.coefficient, {base: -power for base, power in top.powers.items()})
    while rest:
        own = _times(leading(rest), inverse)
        key = _key(own.powers)
        if len(found) == MOST_TERMS or key in found:
            return None
        found[key] = own.coefficient
        for part, coefficient in divisor.items():
            term = _times(own, Term(-coefficient, dict(part)))
            place = _key(term.powers)
            rest[place] = rest.get(place, Fraction(0)) + term.coefficient
        rest = {place: coefficient for place, coefficient in rest.items() if coefficient}
        if len(rest) > MOST_TERMS:
            return None
    return found
