"""Removable singularities: entries whose terms cancel near 0, replaced there by a power series.

``(exp(u) - 1 - u)/u**2`` is 1/2 at ``u = 0``; in floating point it is NaN there and has no digits nearby. Such an entry
becomes a choice of two forms::

    c[0] + c[1]*u + c[2]*u**2 + ...     where abs(u) < r
    the entry as it is                  elsewhere

The coefficients are exact. The radius ``r`` is the one of `RADII` for which both forms keep the most digits.

Found are products and sums of functions with known series (see `power_series`), of powers of one ``u`` and of factors
that all terms share, such as all derivatives of ``sin(u)/u`` and ``(1 - cos(u))/u**2``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from itertools import islice
from itertools import product as product_of
from typing import Any, NamedTuple

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.large_squares import is_of_large_values
from sympy_tensordiff.simplify.power_series import (
    KNOWN,
    ErrorIntegral,
    Series,
    monomial,
    product,
    series_of,
    shifted,
    total,
)

RADII = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)
"""The radii that are tried."""

MAX_COEFFICIENTS = 32
"""Series with more coefficients that matter are not used."""

LENGTH = 64
"""The number of coefficients that are worked out; of even functions half are 0."""

MAX_NODES = 120
"""Larger entries are left as they are."""

MAX_FUNCTIONS = 6
"""Entries with more calls of functions are left as they are: coefficients of nested functions have long numerators.

CPU of a chain of 8 hyperbolic tangents and its gradient: 1 s with series, 0.1 s without.
"""

MAX_ENTRIES = 500
"""The number of entries of arrays that are looked into at most."""

MAX_SPREAD_TERMS = 12
"""More terms than these are not looked at with their products multiplied out."""

MAX_LETTERS = 3
"""The number of letters that are tried as large ones."""

_COEFFICIENTS_TO_TELL = 14
"""The number of coefficients by which cancellation is recognised."""

_ROUNDING = sys.float_info.epsilon / 8
"""The coefficients that are left out are together this much smaller than the first one."""

_ARITHMETIC = ("add", "mul", "pow", "call")

_REGULAR = frozenset({sympy.exp, sympy.sin, sympy.cos, sympy.sinh, sympy.cosh, sympy.tanh, sympy.erf, sigmoid}) | {
    expm1,
    log1p,
    sympy.asinh,
    sympy.atan,
}
"""Functions that are finite at 0."""

_LARGEST_FRACTION = 10**6
"""Coefficients with larger numerators or denominators are floating point numbers in kernels."""


class Powers(dict[Node, Number]):
    """The variable ``u`` of power series, as a dictionary from its factors to their exponents: ``{x: 1, y: -1}`` for
    ``u = x/y``. It caches the series of nodes in ``u``.
    """

    def __init__(self, exponents: Mapping[Node, Number]) -> None:
        super().__init__(exponents)
        self._memos: dict[int, dict[Node, Series | None]] = {}
        self._products: dict[tuple[int, tuple[Node, ...], int], Series | None] = {}
        self.terms: dict[Node, list[SeriesTerm]] = {}
        """The results of `_terms_in`."""

    def series(self, node: Node, length: int) -> Series | None:
        """Return the series of `node` in ``u``, computed with `length` coefficients; None if it is not known."""
        return series_of(node, self, length, self._memos.setdefault(length, {}))

    def series_of_product(self, order: int, factors: tuple[Node, ...], length: int) -> Series | None:
        """Return the series of ``u**order`` times `factors` in the variable ``u`` of this object, computed with
        `length` coefficients; None if the series of a factor is not known.
        """
        key = order, factors, length
        if key not in self._products:
            found = [self.series(factor, length) for factor in factors]
            known = [one for one in found if one is not None]
            self._products[key] = None if len(known) < len(found) else shifted(product(known, length), order)
        return self._products[key]


class Variable(NamedTuple):
    """The variable ``u`` in which a function is expanded in a power series. ``node`` is ``u`` itself, and ``powers``
    maps its bases to their exponents: ``{x: 1, y: -1}`` for ``u = x/y``.

    ``u`` may be a product: then ``lead`` is one of its bases, whose powers are recognised as those of ``u``, and
    ``others`` is the product of the other ones; else ``lead`` is ``u`` itself, and ``others`` is 1.
    """

    node: Node
    powers: Powers
    lead: Node
    others: Node
    side: int | None = None
    """If ``u`` is ``1/lead``, so that its series hold where that is large: the sign that it has there, 0 for both."""

    @property
    def is_far_out(self) -> bool:
        """Return whether this variable is ``u = 1/lead`` for an expression ``lead``: series in powers of ``u`` then
        hold for large values of ``lead``, not for small ones.
        """
        return self.side is not None


class SeriesTerm(NamedTuple):
    """A term ``rest*u**order*f(u)*g(u)*...``, where ``factors`` are f(u), g(u), ... and ``rest`` does not depend on
    ``u``.
    """

    rest: Node
    order: int
    factors: tuple[Node, ...]


def regular_at_zero(
    graph: Graph, roots: Sequence[Node], arrays: Mapping[Node, Node], choices: Mapping[Node, Node]
) -> list[Node]:
    """Return the entries `roots` with terms that cancel near 0, as in ``(exp(u) - 1 - u)/u**2``, replaced by a power
    series there. `arrays` maps stored arrays to their formulas; `choices` maps selects between two accurate forms to a
    formula that has a series.

    An entry inside of one that is replaced stays as it is.

    `arrays` maps tensors that are computed before to their comprehensions: terms may be read from them. `choices` maps
    differences that are a choice between two accurate forms to a formula that has a series. These stay as they are, if
    they are not terms of another entry.
    """
    nodes = reachable(*roots)
    outer = set(roots)
    ratios = _ratios(graph, nodes)
    whole = _with_entries_of(graph, nodes, arrays, choices, ratios)
    accurate = {*choices, *choices.values()}
    parts = ArithmeticSubexpressions(accurate)
    found: dict[Node, list[SeriesChoice]] = {}
    for node in reversed(nodes):
        if node in outer:
            chosen = by_series(graph, parts, node, whole) if _may_cancel(node) and node not in accurate else []
            inside = {arg for choice in chosen for arg in choice.members}
            if chosen:
                found[node] = chosen
            if node not in inside:
                outer.update(arg for arg in _separate_arguments(parts, whole, node) if arg not in inside)
    if not found:
        return list(roots)
    graph.laws["series at 0"] = sum(map(len, found.values()))
    done: dict[Node, Node] = {}
    # All terms of a direct form have one rounding error of u in common, which does not grow as they cancel.
    members = [member for chosen in found.values() for choice in chosen for member in choice.members]
    by_ratio = {node for node in reachable(*members) if node.op == "add" and not node.shape} if ratios else set()
    for node in nodes:
        done[node] = graph.with_args(node, [done[arg] for arg in node.args])
        if node in by_ratio:
            done[node] = _by_ratio(graph, done[node], ratios)
        if node in found:
            done[node] = _with_choices(graph, node, found[node], done, whole)
    return [done[root] for root in roots]


class SeriesChoice(NamedTuple):
    """A series that replaces some terms of an entry near 0: where the node ``condition`` is true, ``series`` is
    computed in place of the sum of the terms ``members``.

    The members are terms of the entry, an addition, or the entry itself as the only one.
    """

    condition: Node
    series: Node
    members: tuple[Node, ...]


def _with_choices(
    graph: Graph, node: Node, chosen: Sequence[SeriesChoice], done: Mapping[Node, Node], whole: Mapping[Node, Node]
) -> Node:
    """Return `node` with a select for each group of terms in `chosen`: the power series near the point at which the
    terms cancel, their sum elsewhere. `done` maps `node` and its terms to the forms that are computed elsewhere,
    `whole` to their formulas without reads of arrays, of which series are made.

    A factor that does not take part in the cancellation has one form near that point and elsewhere. Entries and scalars
    among such factors are written in front of the choice, which then depends on fewer indices.
    """
    if chosen[0].members == (node,):
        condition, near, _ = chosen[0]
        factors = graph.factors(near)
        shared = [arg for arg in node.args if whole[arg] in factors] if node.op == "mul" else []
        common = [arg for arg in shared if arg.op in ("read", "scalar")]
        own = {whole[arg] for arg in shared}
        both = [done[arg] for arg in shared if arg not in common]
        near = graph.mul([*both, *(part for part in factors if part not in own)])
        direct = graph.mul([done[arg] for arg in node.args if arg not in common]) if common else done[node]
        return graph.mul((*(done[arg] for arg in common), graph.select(condition, near, direct)))
    inside = {arg for choice in chosen for arg in choice.members}
    terms = [done[arg] for arg in node.args if arg not in inside]
    for condition, series, members in chosen:
        terms.append(graph.select(condition, series, graph.add([done[arg] for arg in members])))
    return graph.add(terms)


def _may_cancel(node: Node) -> bool:
    """Return whether `node` is a scalar sum, product or logarithm, in which terms may cancel."""
    is_logarithm = node.op == "call" and node.data is sympy.log
    return not node.shape and (node.op in ("add", "mul") or is_logarithm)


def _with_entries_of(
    graph: Graph,
    nodes: Sequence[Node],
    arrays: Mapping[Node, Node],
    choices: Mapping[Node, Node],
    ratios: AbstractSet[Node],
) -> dict[Node, Node]:
    """Return a dictionary from `nodes` to equal nodes without reads of stored arrays, whose formulas `arrays` and
    `choices` give, so that rules can see these. A sum ``a + b`` for which ``a/b`` is in `ratios` becomes
    ``b*(1 + a/b)``.

    `arrays` maps the stored tensors to their formulas; `choices` maps reads to formulas to use instead.

    Entries that read further arrays are treated alike, each once, up to `MAX_ENTRIES` in all. For the quotients
    ``a/b`` in `ratios`, sums ``a + b`` become ``b*(1 + a/b)``, which have a series in the quotient.
    """
    done: dict[Node, Node] = {}
    entries: dict[Node, Node] = dict(choices)
    pending = list(reversed(nodes))
    while pending:
        node = pending[-1]
        table = arrays.get(node.args[0]) if node.op == "read" and len(entries) < MAX_ENTRIES else None
        if table is not None and node not in entries:
            body = table.args[0] if table.op == "comprehension" else table
            if not body.shape and is_arithmetic(body):
                entries[node] = graph.entry(table, node.data) if body is not table else table
        if node.op == "select" and not node.shape and is_of_large_values(node.args[0]):
            entries[node] = node.args[2]
        needed = () if node.shape else (entries[node],) if node in entries else node.args
        missing = [arg for arg in needed if arg not in done]
        if missing:
            pending += missing
            continue
        if node in entries:
            done[node] = done[entries[node]]
        else:
            done[node] = node if node.shape else graph.with_args(node, [done[arg] for arg in node.args])
            if ratios and node.op == "add" and not node.shape:
                done[node] = _by_ratio(graph, done[node], ratios)
            if node.op == "pow" and not node.shape and node.args[1].op != "const" and node.args[0].op != "const":
                # Where the base is negative, no entry is near 0: the logarithm is NaN.
                done[node] = _by_exponential(graph, *done[node].args)
        pending.pop()
    return done


def _ratios(graph: Graph, nodes: Sequence[Node]) -> set[Node]:
    """Return the quotients r, such as ``x/y``, for which `nodes` contain a function with a power series, as
    ``exp(2*x/y)``, and the squares ``r**2``. Quotients with sums as factors are left out. The set is empty if `nodes`
    contain no sum ``x + y``.
    """
    found: set[Node] = set()
    if not any(_is_sum_of_two(node) for node in nodes):
        return found
    for node in nodes:
        is_function = (node.op == "call" and node.data in KNOWN) or (node.op == "pow" and node.args[0].op == "add")
        argument = node.args[0] if is_function else graph.one
        if argument.op == "select" and is_of_large_values(argument.args[0]):
            argument = argument.args[2]
        for term in _terms_of(argument):
            if term.op == "mul" and _is_quotient(term) and not any(_is_of_sum(arg) for arg in term.args):
                _, ratio = graph.split_coefficient(term)
                found |= {ratio, graph.pow(ratio, graph.const(2))}
    return found


def _is_divided(ratio: Node, bases: AbstractSet[Node]) -> bool:
    """Return whether each of `bases` is a divisor in `ratio`."""
    divisors = {part.args[0] for part in ratio.args if _is_quotient(part)}
    return bases <= divisors


def _is_of_sum(factor: Node) -> bool:
    """Return whether `factor` is a sum or a power of one."""
    return factor.op == "add" or (factor.op == "pow" and factor.args[0].op == "add")


def _is_sum_of_two(node: Node) -> bool:
    """Return whether `node` is a scalar sum of two terms that are not numbers."""
    return node.op == "add" and not node.shape and len(node.args) == 2 and all(arg.op != "const" for arg in node.args)


def _by_ratio(graph: Graph, node: Node, ratios: AbstractSet[Node]) -> Node:
    """Return a sum ``a + b`` as ``b*(1 + a/b)`` if the quotient ``a/b`` is one of `ratios` times a number; another node
    unchanged.
    """
    if _is_sum_of_two(node):
        for a, b in (node.args, node.args[::-1]):
            bases = {_base_and_exponent(part)[0] for part in graph.factors(graph.split_coefficient(b)[1])}
            if not any(_is_divided(ratio, bases) for ratio in ratios):
                continue
            ratio = graph.mul((a, graph.pow(b, graph.const(-1))))
            if graph.split_coefficient(ratio)[1] in ratios:
                return graph.mul((b, graph.add((graph.one, ratio))))
    return node


def _by_exponential(graph: Graph, base: Node, exponent: Node) -> Node:
    """Return ``base**exponent``, for a positive `base`, as ``exp(exponent*log(base))``. If `base` is a sum, negative
    numbers in the exponent remain a power: ``(u + v)**(x - 1)`` becomes ``exp(x*log(u + v))*(u + v)**-1``.
    """
    numbers = [number for number in _constants(exponent) if base.op == "add" and number.data < 0]
    logarithm = graph.call(sympy.log, (base,))
    if base.op == "add" and graph.one in base.args:
        logarithm = graph.call(log1p, (graph.add([arg for arg in base.args if arg is not graph.one]),))
    rest = graph.add((exponent, *map(graph.neg, numbers)))
    power = graph.call(sympy.exp, (graph.mul((rest, logarithm)),))
    return graph.mul((power, *(graph.pow(base, number) for number in numbers)))


def _separate_arguments(parts: ArithmeticSubexpressions, whole: Mapping[Node, Node], node: Node) -> Sequence[Node]:
    """Return the arguments of `node` that power series may replace separately: all of them, except factors of a product
    with exponentials if there are several such factors. `whole` maps nodes to formulas without reads of arrays; `parts`
    gives the subexpressions of these.

    Exponentials in several factors of a product may grow beyond all numbers while the product does not: kernels scale
    them together, and need all of them as they are.
    """
    growing = [
        arg
        for arg in node.args
        if node.op == "mul" and any(part.data is sympy.exp for part in parts.functions(whole[arg]))
    ]
    return node.args if len(growing) < 2 else [arg for arg in node.args if arg not in growing]


def by_series(
    graph: Graph, parts: ArithmeticSubexpressions, node: Node, whole: Mapping[Node, Node]
) -> list[SeriesChoice]:
    """Return the power series that replace `node`, or some of its terms, near 0, where the terms cancel; [] if no terms
    cancel, or if `node` has too many functions. `whole` maps nodes to formulas without reads of arrays; `parts` gives
    the subexpressions of these.
    """
    form = whole[node]
    if len(parts.functions(form)) > MAX_FUNCTIONS or parts.is_one_regular_term(form):
        return []
    for variables in (_variables(graph, parts, form), variables_far_out(graph, parts, form)):
        terms = _terms_of(form) if variables else ()
        while terms:
            groups = _first_groups(graph, parts, terms, variables)
            if groups and not _is_inside_of_term(graph, parts, node, whole, [terms[n] for n in groups[0].members]):
                choice = _of_entry(graph, node, terms, groups)
                if choice is not None:
                    return [choice]
            terms = parts.multiplied_out(graph, terms)
        if node.op == "add" and (found := _by_terms(graph, parts, node, whole, variables)):
            return found
    return []


def _is_inside_of_term(
    graph: Graph, parts: ArithmeticSubexpressions, node: Node, whole: Mapping[Node, Node], members: Sequence[Node]
) -> bool:
    """Return whether the terms `members`, which cancel, all result from multiplying out a single term of the addition
    `node`: a power series then replaces this term alone. `whole` maps terms to formulas without reads of arrays;
    `parts` caches the terms multiplied out.
    """
    if node.op != "add":
        return False
    for arg in node.args:
        terms = _terms_of(whole[arg])
        while terms:
            if len(terms) > 1 and set(members) <= set(terms):
                return True
            terms = parts.multiplied_out(graph, terms)
    return False


def _of_entry(graph: Graph, node: Node, terms: Sequence[Node], groups: Sequence[Group]) -> SeriesChoice | None:
    """Return a `SeriesChoice` that computes the sum `node` of `terms` near 0 as a power series for each of the `groups`
    of terms that cancel there, plus the other terms. None if no such form is safe.

    None if the groups have different variables, or if one of the other terms may be infinite at 0.
    """
    series = {n for group in groups for n in group.members}
    others = [term for n, term in enumerate(terms) if n not in series]
    if others and (len(terms) == len(node.args) or any(map(_is_quotient, others))):
        return None
    variable, radius = groups[0].variable, min(group.radius for group in groups)
    if any(group.variable is not variable for group in groups):
        return None
    return SeriesChoice(_is_near(graph, variable, radius), graph.add([*(g.near for g in groups), *others]), (node,))


def _by_terms(
    graph: Graph, parts: ArithmeticSubexpressions, node: Node, whole: Mapping[Node, Node], variables: Sequence[Variable]
) -> list[SeriesChoice]:
    """Return a `SeriesChoice` for each group of terms of the addition `node` that cancel near 0 in one of `variables`,
    the first in which any do; [] if no terms cancel. `parts` gives the subexpressions of the terms.

    `whole` maps each term to an equal form without reads of arrays.
    """
    args = [(arg, term) for arg in node.args for term in _terms_of(whole[arg])]
    found: list[SeriesChoice] = []
    taken: set[Node] = set()
    for group in _first_groups(graph, parts, [term for _, term in args], variables):
        members = dict.fromkeys(args[n][0] for n in group.members)
        is_whole = sum(arg in members for arg, _ in args) == len(group.members)  # no other terms in the same array
        if len(members) > 1 and is_whole and taken.isdisjoint(members):
            taken.update(members)
            found.append(SeriesChoice(_is_near(graph, group.variable, group.radius), group.near, tuple(members)))
    return found


def _terms_of(node: Node) -> tuple[Node, ...]:
    """Return the terms of an addition; another node as the only one."""
    return node.args if node.op == "add" else (node,)


def _is_near(graph: Graph, variable: Variable, radius: float) -> Node:
    """Return the condition ``abs(u) < radius`` for `variable` u; for ``u = 1/b`` it is ``1/radius < abs(b)``."""
    sizes = [graph.call(sympy.Abs, (variable.node,)), graph.const(_number(radius))]
    if variable.side is not None:
        size = graph.scale(variable.side, variable.lead) if variable.side else graph.call(sympy.Abs, (variable.lead,))
        sizes = [graph.const(_number(1 / radius)), size]
    return graph.compare("lt", *sizes)


def _multiplied_out(graph: Graph, terms: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return `terms` with products multiplied out in which a sum meets a division: ``(c + d*x)/t`` gives ``c/t`` and
    ``d*x/t``. One sum in each product is multiplied out. Return () if there is none, or if more than `MAX_SPREAD_TERMS`
    terms result.

    What is added in the sum may depend on more than ``u``, or have a pole that no series in ``s*t`` has.
    """
    found: list[Node] = []
    for term in terms:
        factors = graph.factors(term)
        is_divided = any(map(_is_quotient, factors))
        totals = [part for part in factors if part.op == "add"]
        total = next((part for part in totals if is_divided or any(map(_is_quotient, part.args))), None)
        rest = [part for part in factors if part is not total]
        found += [term] if total is None or not rest else [graph.mul((*rest, part)) for part in total.args]
    return tuple(found) if len(terms) < len(found) <= MAX_SPREAD_TERMS else ()


def _is_quotient(node: Node) -> bool:
    """Return whether `node` is a power with a negative exponent, or a product with such a power as a factor."""
    parts = node.args if node.op == "mul" else (node,)
    return any(part.op == "pow" and part.args[1].op == "const" and part.args[1].data < 0 for part in parts)


class Group(NamedTuple):
    """Terms of an expression that cancel each other near ``u = 0``: their positions ``members``, and the power series
    ``near`` of their sum in the ``variable`` u, which replaces them where ``abs(u) < radius``.
    """

    members: tuple[int, ...]
    variable: Variable
    radius: float
    near: Node


def _first_groups(
    graph: Graph, parts: ArithmeticSubexpressions, addends: Sequence[Node], variables: Sequence[Variable]
) -> list[Group]:
    """Return groups of `addends` that cancel each other near ``u = 0``, for the first ``u`` in `variables` for which
    there are any; [] if there are none. The terms of a group are functions of ``u`` times a common factor. `parts`
    gives the subexpressions of the addends.
    """
    for variable in variables:
        groups: dict[Node, _Terms] = {}
        for n, addend in enumerate(addends):
            for term in _terms_in(graph, parts, addend, variable):
                groups.setdefault(term.rest, []).append((n, term))
        joined = _with_common_members(groups) if variable.is_far_out else [{key: own} for key, own in groups.items()]
        if found := [one for own in joined if (one := _joined_group(graph, parts, variable, own)) is not None]:
            return found
    return []


def _terms_in(graph: Graph, parts: ArithmeticSubexpressions, addend: Node, variable: Variable) -> list[SeriesTerm]:
    """Return `addend` as a list of terms ``rest*u**order*f(u)*...`` of a power series in u, the `variable`. The list is
    cached in ``variable``, because many sums have an addend in common. ``parts`` maps nodes to their subexpressions.
    """
    known = variable.powers.terms
    if addend not in known:
        known[addend] = (
            _terms_far_out(graph, parts, addend, variable)
            if variable.is_far_out
            else [_term(graph, parts, addend, variable)]
        )
    return known[addend]


def _series_of_group(
    graph: Graph,
    parts: ArithmeticSubexpressions,
    terms: Sequence[SeriesTerm],
    few: Series,
    rest: Node,
    variable: Variable,
) -> tuple[float, Node] | None:
    """Return ``(radius, series)`` for the sum of `terms` times `rest`: the power series replaces the sum where
    ``abs(u)``, for the `variable` u, is below the radius. None if the terms do not cancel near 0, or if the sum is
    accurate already.

    ``few`` has the first coefficients.
    """
    if all(factor.op == "const" for term in terms for factor in term.factors):
        return None
    has_pole = not variable.is_far_out and any(_has_pole(term, variable) for term in terms)
    if (few.order < 0 and not variable.is_far_out) or not (few.order > few.terms_order or has_pole):
        return None
    values = [graph.mul((graph.pow(variable.node, graph.const(term.order)), *term.factors)) for term in terms]
    if not parts.accurate.isdisjoint((graph.add(values), graph.add(map(graph.neg, values)))):
        return None
    series = _series(terms, variable.powers, LENGTH)
    if series is None or (chosen := _radius(terms, variable.powers, series)) is None:
        return None
    radius, count = chosen
    return radius, graph.mul((rest, _polynomial(graph, variable.node, series, count)))


# ---------------------------------------------------------------------------- far out


def variables_far_out(graph: Graph, parts: ArithmeticSubexpressions, node: Node) -> list[Variable]:
    """Return the variables ``u = 1/b`` for which `node` may be expanded in a series for large ``b``, a scalar or an
    entry of an array. `parts` maps nodes to their subexpressions.

    Sums like ``b + 1`` are ``b*(1 + 1/b)``: their powers and logarithms are those of b times, or plus, a series.
    Logarithms of b have to cancel.
    """
    has_roots = any(part.op == "pow" and isinstance(part.args[1].data, Fraction) for part in parts.functions(node))
    sides = (0, 1, -1) if has_roots else (0,)  # the root of b**2 is abs(b)
    found = []
    for base, side in product_of(_letters(parts, node), sides):
        inverse = graph.pow(base, graph.const(-1))
        found.append(parts.variable(Variable(inverse, Powers({base: -1}), base, graph.one, side)))
    return found


_Terms = list[tuple[int, SeriesTerm]]


def _with_common_members(groups: Mapping[Node, _Terms]) -> list[dict[Node, _Terms]]:
    """Partition `groups`, a dictionary from common factors to terms, into several dictionaries. Groups that contain
    terms of the same addend are put together, also groups that are connected only through other groups.

    A term is a pair ``(number of the addend, term)``.
    """
    found: list[dict[Node, _Terms]] = []
    for rest, terms in groups.items():
        own = {n for n, _ in terms}
        same = [one for one in found if any(n in own for other in one.values() for n, _ in other)]
        found = [one for one in found if one not in same]
        found.append({key: value for one in (*same, {rest: terms}) for key, value in one.items()})
    return found


def _joined_group(
    graph: Graph, parts: ArithmeticSubexpressions, variable: Variable, groups: Mapping[Node, _Terms]
) -> Group | None:
    """Return the `Group` of all terms in `groups`, a dictionary from common factors to terms, with the power series in
    `variable` that replaces their sum near 0. None unless the terms of each group cancel near 0 and have known series.
    `parts` gives subexpressions of nodes.

    A group whose terms cancel everywhere adds nothing to the series; if all groups do, the result is None as well.
    """
    radii: list[float] = []
    near: list[Node] = []
    for rest, members in groups.items():
        terms = [term for _, term in members]
        if all(not term.factors for term in terms):
            return None
        found = [variable.powers.series_of_product(term.order, term.factors, _COEFFICIENTS_TO_TELL) for term in terms]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        if (few := total(known)) is None:
            continue  # they cancel everywhere
        chosen = _series_of_group(graph, parts, terms, few, rest, variable)
        if chosen is None:
            return None
        radii.append(chosen[0])
        near.append(chosen[1])
    positions = tuple(sorted({n for own in groups.values() for n, _ in own}))
    return Group(positions, variable, min(radii), graph.add(near)) if near else None


def _letters(parts: ArithmeticSubexpressions, node: Node) -> list[Node]:
    """Return the first `MAX_LETTERS` scalars and array entries b that occur in `node` under a power or in a logarithm.
    They may be large; a series in 1/b is then used. `parts` maps nodes to their subexpressions.
    """
    sums = [part.args[0] for part in parts.functions(node) if part.op == "pow" or part.data in (sympy.log, log1p)]
    letters = {part: None for inner in sums for part in parts[inner] if part.op in ("read", "scalar")}
    return sorted(letters, key=lambda part: part.id)[:MAX_LETTERS]


def _terms_far_out(graph: Graph, parts: ArithmeticSubexpressions, node: Node, variable: Variable) -> list[SeriesTerm]:
    """Return the term `node`, for large values of ``b = variable.lead``, as a list of terms ``rest*u**order*f(u)*...``
    with ``u = 1/b``; each f has a power series.

    The list has one term, or two for a logarithm of a sum: ``log(b + 1)`` is ``log(1 + u) + log(b)``.
    """
    base = variable.lead
    if base not in parts[node]:
        number, other = graph.split_coefficient(node)
        return [SeriesTerm(other, 0, () if number == 1 else (graph.const(number),))]
    degrees = [Fraction(0), Fraction(0)]  # of b, and of abs(b)
    rest: list[Node] = []
    factors: list[Node] = []
    sums: list[list[Node]] = [[]]
    for factor in node.args if node.op == "mul" else (node,):
        own, exponent = _base_and_exponent(factor)
        if own is base and isinstance(exponent, int | Fraction):
            degrees[0] += exponent
            continue
        inner = own if isinstance(exponent, Fraction) else factor.args[0] if _is_logarithm(factor) else None
        if inner is not None and factor.data is log1p:
            inner = graph.add((graph.one, inner))
        unit = None if inner is None else _leading_power(graph, inner, variable)
        if unit is None and (factor.op == "const" or variable.powers.series(factor, _COEFFICIENTS_TO_TELL) is not None):
            factors.append(factor)
        elif unit is None or (len(sums[0]) > 0 and own is not inner):
            rest.append(factor)
        elif own is inner:
            degrees[1 - unit.degree % 2] += unit.degree * Fraction(exponent)
            factors.append(graph.pow(unit.node, graph.const(exponent)))
        else:
            size = base if unit.degree % 2 else graph.call(sympy.Abs, (base,))
            sums = [[graph.call(sympy.log, (unit.node,))], [graph.const(unit.degree), graph.call(sympy.log, (size,))]]
    order = 0
    if variable.side and degrees[1].denominator == 1:  # abs(b) is b or -b
        factors += [graph.const(-1)] if variable.side < 0 and degrees[1] % 2 else []
        degrees = [degrees[0] + degrees[1], Fraction(0)]
    for size, degree, step in zip((base, graph.call(sympy.Abs, (base,))), degrees, (1, 2), strict=True):
        whole = step * math.ceil(degree / step)  # what is left has no positive exponent, and does not overflow
        order -= whole
        rest.append(graph.pow(size, graph.const(_number(degree - whole))))
    found = []
    for extra in sums:
        is_known = [part.op == "const" or (part.data is sympy.log and part.args[0].op == "add") for part in extra]
        known = [part for part, fits in zip(extra, is_known, strict=True) if fits]
        own_rest = [part for part in extra if part not in known]
        found.append(SeriesTerm(graph.mul((*rest, *own_rest)), order, (*factors, *known)))
    return found


class _LeadingPower(NamedTuple):
    """A sum with its leading power in a base ``b`` factored out, ``b**degree*node``: ``degree`` is the growth order for
    large ``b``, and the remaining factor ``node`` tends to 1 there.
    """

    degree: int
    node: Node


def _leading_power(graph: Graph, total: Node, variable: Variable) -> _LeadingPower | None:
    """Return the sum `total` as a power of ``b``, the base of `variable`, times a factor that tends to 1 for large
    ``b``: ``b**2 + b + 1`` is ``b**2*(1 + 1/b + 1/b**2)``. None if it has no such form.
    """
    series = variable.powers.series(total, _COEFFICIENTS_TO_TELL) if total.op == "add" else None
    if series is None or series.order >= 0 or series.coefficients[0] != 1:
        return None
    inverse = graph.pow(variable.lead, graph.const(series.order))
    return _LeadingPower(-series.order, graph.add([graph.mul((inverse, part)) for part in total.args]))


def _is_logarithm(node: Node) -> bool:
    """Return whether `node` is a logarithm."""
    return node.op == "call" and node.data in (sympy.log, log1p)


# ---------------------------------------------------------------------------- variables and terms


class ArithmeticSubexpressions(dict[Node, frozenset[Node]]):
    """A dictionary from a node to the set of its arithmetic subexpressions: the node, its arguments if it is an
    arithmetic operation or a function call, their arguments, and so on. Entries are computed on demand; the set is
    empty if it would have `MAX_NODES` or more nodes.

    `accurate` are the sums that laws have made accurate.
    """

    def __init__(self, accurate: AbstractSet[Node]) -> None:
        super().__init__()
        self.accurate = accurate
        self._functions: dict[Node, list[Node]] = {}
        self._multiplied_out: dict[tuple[Node, ...], tuple[Node, ...]] = {}
        self._variables: dict[tuple[Node, Node, int | None], Variable] = {}
        """The variables so far: nodes of one graph have most of them in common."""

    def variable(self, found: Variable) -> Variable:
        """Return the stored variable of power series that is equal to ``found``, so that the series known for it can be
        used again. If there is none, store ``found`` and return it.
        """
        return self._variables.setdefault((found.node, found.lead, found.side), found)

    def __missing__(self, node: Node) -> frozenset[Node]:
        """Return the nodes in the arithmetic of `node`."""
        found = frozenset(islice(breadth_first(node, _arithmetic), MAX_NODES))
        self[node] = found if len(found) < MAX_NODES else frozenset()
        return self[node]

    def functions(self, node: Node) -> list[Node]:
        """Return the nodes inside of `node` that have a power series: calls of known functions, and powers like ``1/(1
        + u)``.
        """
        if node not in self._functions:
            found = [part for part in self[node] if part.op == "call" and part.data in KNOWN]
            found += [part for part in self[node] if part.op == "pow" and _constants(part.args[0])]
            self._functions[node] = sorted(found, key=lambda part: part.id)
        return self._functions[node]

    def is_one_regular_term(self, node: Node) -> bool:
        """Return whether nothing in `node` cancels: it has no additions, no divisors, and no functions that may be
        infinite at 0. False for large nodes.
        """
        own = self[node]
        return bool(own) and not any(
            part.op == "add"
            or (part.op == "pow" and not (part.args[1].op == "const" and part.args[1].data > 0))
            or (part.op == "call" and part.data not in _REGULAR)
            for part in own
        )

    def multiplied_out(self, graph: Graph, terms: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return `terms` with one sum multiplied out in each product with divisors, such as ``a/c + b/c`` for ``(a +
        b)/c``. Return () if there is no such sum, or if there would be too many terms. The result is cached.
        """
        if terms not in self._multiplied_out:
            self._multiplied_out[terms] = _multiplied_out(graph, terms)
        return self._multiplied_out[terms]


def _constants(entry: Node) -> list[Node]:
    """Return the terms of the addition `entry` that are numbers; [] for other entries."""
    return [term for term in entry.args if entry.op == "add" and term.op == "const"]


def is_arithmetic(entry: Node) -> bool:
    """Return whether `entry` is made of numbers, reads and scalars by arithmetic and functions, and not too large."""
    parts = list(islice(breadth_first(entry, lambda part: part.args), MAX_NODES))
    return len(parts) < MAX_NODES and all(
        part.op in _ARITHMETIC or not part.args or part.op == "read" for part in parts
    )


def _arithmetic(node: Node) -> Sequence[Node]:
    """Return the arguments of `node` if it is an arithmetic operation or a function call; () for other nodes."""
    return node.args if node.op in _ARITHMETIC else ()


def _variables(graph: Graph, parts: ArithmeticSubexpressions, node: Node) -> list[Variable]:
    """Return the variables ``u`` in which the functions in `node`, as ``parts`` lists them, can be expanded as power
    series, each once.
    """
    found: dict[int, Variable] = {}
    for part in parts.functions(node):
        argument = part.args[0]
        if part.op == "pow" or part.data is sympy.log:
            argument = graph.add((argument, *map(graph.neg, _constants(argument))))
        _, base = graph.split_coefficient(argument)
        for variable in map(parts.variable, _variables_of(graph, base)):
            found[id(variable)] = variable
    return list(found.values())


def _variables_of(graph: Graph, node: Node) -> Iterator[Variable]:
    """Yield variables ``u`` in which a function of `node` could be expanded as a power series: `node` itself, the base
    of a power, or ``x/y`` for ``x**2/y**2``, once with each base as ``lead``.

    There are none for a constant, a power with another exponent than an integer or 1/2, or a product with exponents
    that are not integers.
    """
    if node.op == "const":
        return
    if node.op == "mul":
        bases = dict(map(_base_and_exponent, node.args))
        if all(isinstance(exponent, int) for exponent in bases.values()):
            common = math.gcd(*(int(exponent) for exponent in bases.values()))
            powers = {base: int(exponent) // common for base, exponent in bases.items()}
            factors = {base: graph.pow(base, graph.const(exponent)) for base, exponent in powers.items()}
            for lead in powers:
                others = graph.mul([factor for base, factor in factors.items() if base is not lead])
                yield Variable(graph.mul(factors.values()), Powers(powers), lead, others)
        return
    base, exponent = _base_and_exponent(node)
    if isinstance(exponent, int):
        yield Variable(base, Powers({base: 1}), base, graph.one)
    elif exponent == Fraction(1, 2):
        yield Variable(node, Powers({base: exponent}), node, graph.one)


def _base_and_exponent(factor: Node) -> tuple[Node, Number]:
    """Return the base and the exponent of `factor` if it is a power with a number as exponent; ``(factor, 1)`` for
    other nodes.
    """
    base, exponent = factor.args if factor.op == "pow" else (factor, factor)
    return (base, exponent.data) if exponent.op == "const" and factor.op == "pow" else (factor, 1)


def _term(graph: Graph, parts: ArithmeticSubexpressions, node: Node, variable: Variable) -> SeriesTerm:
    """Return the term `node` as ``rest*u**order*f(u)*...``, where u is the `variable`, the factors f(u) have power
    series, and ``rest`` contains all other factors.
    """
    rest: list[Node] = []
    factors: list[Node] = []
    order = 0

    def is_known(factor: Node) -> bool:
        """Return whether `factor` is a number or has a known power series in ``u``, the ``variable`` of the outer
        function.
        """
        if parts[factor].isdisjoint(variable.powers):
            return factor.op == "const"
        return variable.powers.series(factor, _COEFFICIENTS_TO_TELL) is not None

    for factor in node.args if node.op == "mul" else (node,):
        if factor.op == "call" and factor.data is sympy.erf:
            rest.append(graph.pow(graph.scalar(sympy.pi), graph.const(Fraction(-1, 2))))
            factor = graph.call(ErrorIntegral, factor.args)
        base, exponent = _base_and_exponent(factor)
        if variable.others is not graph.one and base is variable.lead and isinstance(exponent, int):
            step = int(variable.powers[base])
            power, remainder = exponent // step, exponent % step
            order += power
            rest += [graph.pow(variable.others, graph.const(-power)), graph.pow(base, graph.const(remainder))]
        elif is_known(factor):
            factors.append(factor)
        else:
            rest.append(factor)
    return SeriesTerm(graph.mul(rest), order, tuple(factors))


def _series(terms: Sequence[SeriesTerm], powers: Powers, length: int) -> Series | None:
    """Return the first `length` terms of the power series of the sum of `terms`, in the variable of `powers`. None if a
    term has no series.

    The series lacks ``rest``, the common factor of all terms.
    """
    found = [powers.series_of_product(term.order, term.factors, length) for term in terms]
    known = [one for one in found if one is not None]
    return None if len(known) < len(found) else total(known)


def _has_pole(term: SeriesTerm, variable: Variable) -> bool:
    """Return whether a factor of `term`, other than a power of `variable` itself, is infinite where `variable` is 0."""
    found = [variable.powers.series(factor, _COEFFICIENTS_TO_TELL) for factor in term.factors]
    is_divisor = variable.powers.get(variable.lead, 1) < 0
    return (term.order < 0 and not is_divisor) or any(one is not None and one.order < 0 for one in found)


# ---------------------------------------------------------------------------- the choice of the radius


def _radius(terms: Sequence[SeriesTerm], powers: Powers, series: Series) -> tuple[float, int] | None:
    """Choose the radius below which the power `series` is computed in place of the sum of `terms`, so that the bound of
    the rounding error is smallest. Return ``(radius, number of coefficients)``; None if no radius is accurate enough.
    `powers` is the variable of the series.
    """
    best: tuple[float, float, int] | None = None
    sizes = [abs(float(c)) for c in series.coefficients]
    for radius in RADII:
        parts = [size * radius**k for k, size in enumerate(sizes)]
        count = next((k for k in range(len(parts)) if sum(parts[k:]) <= _ROUNDING * parts[0]), len(parts))
        # The coefficients beyond the known ones are at most about as large as the last of these.
        if (
            sum(parts[-_COEFFICIENTS_TO_TELL:]) > _ROUNDING * parts[0]
            or sum(1 for size in sizes[:count] if size) > MAX_COEFFICIENTS
        ):
            continue
        error = max(_error(terms, powers, series, sign * radius) for sign in (1, -1))
        if best is None or error < best[0]:
            best = error, radius, count
    return None if best is None else best[1:]


def _error(terms: Sequence[SeriesTerm], powers: Powers, series: Series, u: float) -> float:
    """Return a bound of the relative rounding error at the value `u` of the variable, in units of the last place: the
    larger one of those of the sum of `terms` and of the power `series` that may replace it.

    `powers` is the variable of the series as a product of powers.
    """
    value = abs(sum(float(c) * u ** (k + series.order) for k, c in enumerate(series.coefficients)))
    near = sum(abs(float(c) * u ** (k + series.order)) for k, c in enumerate(series.coefficients))
    far = 0.0
    for term in terms:
        sizes = [abs(u) ** term.order, *(_magnitude(factor, powers, u)[1] for factor in term.factors)]
        far += math.prod(sizes)
    return max(near, far) / value if value and math.isfinite(value) else math.inf


def _magnitude(node: Node, powers: Powers, u: float) -> tuple[float, float]:
    """Evaluate `node` at the value `u` of the variable of `powers`. Return ``(value, sum of the absolute values of its
    terms)``, from which a bound of the rounding error follows. A power or function without a value gives ``(nan,
    inf)``.
    """
    if (power := monomial(node, powers)) is not None:
        value = float(power[0]) * u ** power[1]
        return value, abs(value)
    if node.op == "const":
        return float(node.data), abs(float(node.data))
    found = [_magnitude(arg, powers, u) for arg in node.args]
    values, sizes = [value for value, _ in found], [size for _, size in found]
    if node.op == "add":
        return sum(values), sum(sizes)
    if node.op == "mul":
        return math.prod(values), math.prod(sizes)
    if not values[0] and node.op == "pow":
        return math.nan, math.inf
    try:
        value = values[0] ** values[1] if node.op == "pow" else _value_of_function(node.data, values[0])
    except (ValueError, OverflowError):
        return math.nan, math.inf
    return (value, abs(value)) if isinstance(value, float) else (math.nan, math.inf)


def _value_of_function(function: Any, x: float) -> float:
    """Return the value of a function with a known series at ``x``."""
    if function is sigmoid:
        return 1 / (1 + math.exp(-x))
    if function is ErrorIntegral:
        return math.sqrt(math.pi) * math.erf(x)
    record = record_of(function)
    if record.numeric is not None:
        return record.numeric(x)
    return 1 / _value_of_function(record.reciprocal_of, x)


def _polynomial(graph: Graph, u: Node, series: Series, count: int) -> Node:
    """Return a node for the first `count` terms of `series` in `u`, evaluated by Horner's rule."""
    exponents = [k for k in range(count) if series.coefficients[k]]
    result = graph.zero
    for n in reversed(range(len(exponents))):
        step = exponents[n] - exponents[n - 1] if n else series.order + exponents[0]
        inner = graph.add((graph.const(_number(series.coefficients[exponents[n]])), result))
        result = graph.mul((graph.pow(u, graph.const(step)), inner))
    return result


def _number(value: Fraction | float) -> Number:
    """Return a number as an int or a short fraction if it equals one, else as a float."""
    exact = Fraction(value)
    if exact.denominator == 1 and abs(exact.numerator) < _LARGEST_FRACTION:
        return exact.numerator
    return exact if max(abs(exact.numerator), exact.denominator) < _LARGEST_FRACTION else float(exact)
