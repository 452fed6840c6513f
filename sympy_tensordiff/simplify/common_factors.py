"""Common factors of the terms of a sum of numbers: ``a*b*x + a*b*y + z`` is ``a*b*(x + y) + z``.

Factors that all terms have are in front of the sum (`factor_out_common`). Of the others, the group of terms whose
common factors save the most signs is written as a product, then the next one (`grouped`). So polynomials in one
variable stay as they are: ``3*x**2 + 2*x + 1`` has no common factor, since ``x**2`` and ``x`` are different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import NamedTuple

from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.canonical_signs import common_number, label_of
from sympy_tensordiff.simplify.quotients import SIGN, quotients_of

MAX_TERMS = 32
"""Longer additions are left as they are."""

MAX_TRIED_GROUPS = 8
"""The number of groups of terms, the best first, that are written as products to compare their lengths."""

WORTH_BRACKETS = 2 * SIGN
"""The least length that a group of terms saves: brackets are as long as one sign, ``a*x + a*y + z`` stays."""


def factor_out_common(graph: Graph, body: Node) -> Node:
    """Take the common factors of all terms out of the addition `body`: ``x*a + x*b`` becomes ``x*(a + b)``. Return
    `body` unchanged if there are none.
    """
    number, addition = graph.split_coefficient(body)
    if addition.op != "add" or len(addition.args) > MAX_TERMS:
        return body
    guards = [(term.data, term.args[0]) if term.op == "guard" else ((), term) for term in addition.args]
    if all(rows for rows, _ in guards):
        return body
    terms = [(rows, _powers_of(graph, term)) for rows, term in guards]
    shared: dict[Node, int | Fraction] = {}
    for base in terms[0][1]:
        exponents = [powers.get(base, 0) for _, powers in terms]
        least = min(exponents) if min(exponents) > 0 else max(exponents)
        if all(e * least > 0 and (e - least).denominator == 1 for e in exponents):
            # Keep n/s - S/s**3, as (n - S/s**2)/s is not shorter; write n/t - S/t**2 as (n - S/t)/t, which is.
            numbers = any(all(f is base or f.op == "const" for f in powers) for _, powers in terms)
            is_shorter = base.op == "add" and least == -1 and -2 in exponents
            if exponents.count(least) > 1 or is_shorter or (not base.is_guard_free and not numbers):
                shared[base] = least
    if not shared:
        return body
    rests = []
    for rows, powers in terms:
        left = [graph.pow(base, graph.const(e - shared.get(base, 0))) for base, e in powers.items()]
        rests.append(graph.guard(rows, graph.mul(left)))
    outside = [graph.pow(base, graph.const(exponent)) for base, exponent in shared.items()]
    # SymPy writes a - (b + c) as a - b - c, whose sign is another one's.
    flat = [inner for rest in rests for inner in _flat(graph, rest)]
    return graph.mul([graph.const(number), *outside, graph.add(flat)])


def _flat(graph: Graph, term: Node) -> list[Node]:
    """Return ``[c*a, c*b]`` for the term ``c*(a + b)`` with a number ``c``; ``[term]`` for any other term."""
    number, core = graph.split_coefficient(term)
    return [graph.scale(number, inner) for inner in core.args] if core.op == "add" else [term]


Powers = dict[Node, int | Fraction]
"""The exponents of the bases of a product: ``{x: 2, y: -1}`` for ``x**2/y``."""


def _powers_of(graph: Graph, term: Node) -> Powers:
    """Return the exponents of the factors of `term`: ``{x: 2, y: 1}`` for ``x**2*y``.

    A base with an exponent is a factor of all terms or leaves none: if one of them is not guarded, the factor is a
    number already, or it is not an addition.
    """
    powers: Powers = {}
    for factor in graph.factors(term):
        base, exponent = factor.args if factor.op == "pow" else (factor, graph.one)
        if exponent.op != "const" or not isinstance(exponent.data, (int, Fraction)):
            base, exponent = factor, graph.one
        powers[base] = powers.get(base, 0) + exponent.data
    return powers


class PowerProduct(NamedTuple):
    """A term ``number * prod(base**exponent)``."""

    number: Number
    powers: Powers


def product_of(graph: Graph, term: Node) -> PowerProduct:
    """Return the node `term` as a `PowerProduct`: a number times powers of other nodes."""
    number, core = graph.split_coefficient(term)
    return PowerProduct(number, {} if core is graph.one else _powers_of(graph, core))


def node_of(graph: Graph, product: PowerProduct) -> Node:
    """Return `product` as a node."""
    factors = [graph.pow(base, graph.const(exponent)) for base, exponent in product.powers.items() if exponent]
    return graph.scale(product.number, graph.mul(factors))


def grouped(graph: Graph, body: Node) -> Node:
    """Return the addition `body` with common factors of all terms taken out, then common factors of groups of terms
    where this makes the text shorter; other nodes unchanged.
    """
    if body.has_tensor_ops:
        return body
    body = factor_out_common(graph, body)
    return graph.mul([_in_groups(graph, factor) for factor in graph.factors(body)])


def _in_groups(graph: Graph, addition: Node) -> Node:
    """Return `addition` with terms that have common factors grouped, if that makes the formula shorter: ``a*b + a*c +
    d`` becomes ``a*(b + c) + d``. The group that shortens it most is formed first.
    """
    if addition.op != "add" or len(addition.args) > MAX_TERMS:
        return addition
    length = quotients_of(graph).length

    def factored(terms: Sequence[PowerProduct], common: Powers) -> PowerProduct | None:
        """Return the sum of `terms`, which all have the factors `common`, as ``common*(sum of the rest)``; None unless
        that is shorter when printed.
        """
        content = common_number([term.number for term in terms])
        scaled = [term._replace(number=term.number * Fraction(1, content)) for term in terms]
        found = with_common(graph, scaled, common, partial(grouped, graph))
        found = found._replace(number=found.number * content)
        old = sum(length(node_of(graph, term)) for term in terms) + SIGN * (len(terms) - 1)
        return found if length(node_of(graph, found)) + WORTH_BRACKETS <= old else None

    terms = [product_of(graph, term) for term in addition.args]
    found = joined_groups(graph, terms, factored)
    return addition if len(found) == len(terms) else graph.add([node_of(graph, term) for term in found])


def with_sums_joined(graph: Graph, addition: Node) -> Node:
    """Return `addition` with a multiple of an inner sum joined with the same terms outside: ``x*(a + b) - a - b``
    becomes ``(x - 1)*(a + b)``. Other additions are unchanged.
    """
    terms = [product_of(graph, term) for term in addition.args]
    keys = [frozenset(term.powers.items()) for term in terms]
    numbers = {key: term.number for key, term in zip(keys, terms, strict=True)}
    for n, term in enumerate(terms):
        for base in [base for base, exponent in term.powers.items() if base.op == "add" and exponent == 1]:
            parts = [product_of(graph, part) for part in base.args]
            own = [frozenset(part.powers.items()) for part in parts]
            if any(isinstance(numbers.get(key, 0.0), float) for key in own):
                continue
            if len(ratios := {numbers[key] / Fraction(part.number) for key, part in zip(own, parts, strict=True)}) == 1:
                rest = PowerProduct(term.number, {other: e for other, e in term.powers.items() if other is not base})
                factor = graph.add([node_of(graph, rest), graph.const(ratios.pop())])
                others = [arg for m, arg in enumerate(addition.args) if m != n and keys[m] not in own]
                found = graph.add([*others, graph.mul([factor, base])])
                return with_sums_joined(graph, found) if found.op == "add" else found
    return addition


def with_common(
    graph: Graph, terms: Sequence[PowerProduct], common: Powers, finish: Callable[[Node], Node]
) -> PowerProduct:
    """Return the sum of `terms`, which all have the factors `common`, as ``common*finish(rest)``, where the rest is the
    sum of the terms without these factors. ``finish(rest)`` returns an equal node, which may be simpler.
    """
    left = [
        node_of(graph, term._replace(powers={base: e - common.get(base, 0) for base, e in term.powers.items()}))
        for term in terms
    ]
    inner = product_of(graph, finish(graph.add([own for rest in left for own in _flat(graph, rest)])))
    return product_of(
        graph,
        node_of(
            graph, PowerProduct(inner.number, {**common, **{b: e + common.get(b, 0) for b, e in inner.powers.items()}})
        ),
    )


def joined_groups(
    graph: Graph,
    terms: Sequence[PowerProduct],
    joined: Callable[[Sequence[PowerProduct], Powers], PowerProduct | None],
) -> list[PowerProduct]:
    """Replace groups of `terms` that have common factors by ``joined(group, common factors)``, and return the new list
    of terms. Groups that shorten the formula most come first; where ``joined`` returns None, the group is unchanged.
    """
    terms = list(terms)
    while len(terms) > 1:
        for places, common in _groups(graph, terms):
            new = joined([terms[place] for place in places], common)
            if new is not None:
                terms[places[0]] = new
                terms = [term for place, term in enumerate(terms) if place not in places[1:]]
                break
        else:
            break
    return terms


def _groups(graph: Graph, terms: Sequence[PowerProduct]) -> list[tuple[tuple[int, ...], Powers]]:
    """Return ``(positions, factors)`` for each group of at least two `terms` with common factors: the positions of the
    terms, and these factors. The groups that shorten the text most come first, at most `MAX_TRIED_GROUPS`.

    At least two terms have the common exponent, so ``3*x**2 + 2*x`` is not a group. A size alone is not a common
    factor: it would turn the mean in each term into a bracket.
    """
    length = quotients_of(graph).length
    seen: set[frozenset[tuple[Node, Number]]] = set()
    groups: list[tuple[int, list[tuple[int, str]], tuple[int, ...], Powers]] = []
    items = [term.powers.items() for term in terms]
    for n, m in combinations(range(len(terms)), 2):
        common = {base: e for base, e in items[n] if base.op != "index" and terms[m].powers.get(base) == e}
        key = frozenset(common.items())
        if not common or key in seen:
            continue
        seen.add(key)
        places = tuple(place for place, term in enumerate(terms) if _is_divided(term.powers, common))
        own = sum(length(graph.pow(base, graph.const(e))) + SIGN for base, e in common.items())
        labels = sorted(label_of(base)[:2] for base in common)  # equal choices in terms at other indices
        groups.append((-(len(places) - 1) * own, labels, places, common))
    groups.sort(key=lambda group: group[:3])
    return [(places, common) for _, _, places, common in groups[:MAX_TRIED_GROUPS]]


def _is_divided(powers: Powers, common: Powers) -> bool:
    """Return whether a product with the exponents `powers` has the factors `common`."""
    rests = [(e, powers.get(base, 0) - e) for base, e in common.items()]
    return all(powers.get(base) for base in common) and all(
        Fraction(rest).denominator == 1 and rest * e >= 0 for e, rest in rests
    )
