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
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import sympy
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.graph.interning import Number, breadth_first
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
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

MAX_SPREAD_TERMS = 8
"""More terms than these are not looked at with their products multiplied out."""

_COEFFICIENTS_TO_TELL = 14
"""The number of coefficients by which cancellation is recognised."""

_ROUNDING = sys.float_info.epsilon / 8
"""The coefficients that are left out are together this much smaller than the first one."""

_ARITHMETIC = ("add", "mul", "pow", "call")

_LARGEST_FRACTION = 10**6
"""Coefficients with larger numerators or denominators are floating point numbers in kernels."""


class Powers(dict[Node, Number]):
    """The bases whose powers make up a variable ``u``, with their exponents: ``{x: 1, y: -1}`` for ``u = x/y``. It also
    stores the power series in ``u`` that are known so far.
    """

    def __init__(self, exponents: Mapping[Node, Number]) -> None:
        super().__init__(exponents)
        self._memos: dict[int, dict[Node, Series | None]] = {}

    def series(self, node: Node, length: int) -> Series | None:
        """Return the series of `node` in ``u``, computed with `length` coefficients; None if it is not known."""
        return series_of(node, self, length, self._memos.setdefault(length, {}))


class Variable(NamedTuple):
    """The variable ``u`` of a series: ``node`` is ``u``, ``powers`` has its bases.

    ``u`` may be a product: then ``lead`` is one of its bases, whose powers are recognised as those of ``u``, and
    ``others`` is the product of the other ones; else ``lead`` is ``u`` itself, and ``others`` is 1.
    """

    node: Node
    powers: Powers
    lead: Node
    others: Node


class SeriesTerm(NamedTuple):
    """A term ``rest*u**order*f(u)*g(u)*...``, where ``factors`` are f(u), g(u), ... and ``rest`` does not depend on
    ``u``.
    """

    rest: Node
    order: int
    factors: tuple[Node, ...]

    def series(self, powers: Powers, length: int) -> Series | None:
        """Return the series in ``u`` of the term without ``rest``, computed with `length` coefficients; None if a
        factor has no known series. `powers` has the exponents of the nodes that are powers of ``u``.
        """
        found = [powers.series(factor, length) for factor in self.factors]
        known = [one for one in found if one is not None]
        return None if len(known) < len(found) else shifted(product(known, length), self.order)


def regular_at_zero(
    graph: Graph, roots: Sequence[Node], arrays: Mapping[Node, Node], choices: Mapping[Node, Node]
) -> list[Node]:
    """Return the entries `roots` with terms that cancel near 0, as in ``(exp(u) - 1 - u)/u**2``, replaced there by a
    series. `arrays` maps stored tensors to the comprehensions that they store.

    An entry inside of one that is replaced stays as it is.

    `arrays` maps tensors that are computed before to their comprehensions: terms may be read from them. `choices` maps
    differences that are a choice between two accurate forms to a formula that has a series. These stay as they are,
    if they are not terms of another entry.
    """
    nodes = reachable(*roots)
    outer = set(roots)
    whole = _with_entries_of(graph, nodes, arrays, choices)
    accurate = {*choices, *choices.values()}
    parts = ArithmeticParts()
    found: dict[Node, tuple[Node, Node]] = {}
    for node in reversed(nodes):
        if node in outer:
            choice = by_series(graph, parts, whole[node]) if _may_cancel(node) and node not in accurate else None
            if choice is None:
                outer.update(_separate_arguments(parts, whole, node))
            else:
                found[node] = choice
    if not found:
        return list(roots)
    graph.laws["series at 0"] = len(found)
    done: dict[Node, Node] = {}
    for node in nodes:
        args = [done[arg] for arg in node.args]
        if node not in found:
            done[node] = graph.with_args(node, args)
            continue
        inside, near = found[node]
        common = _common_entries(graph, node, near) if node.op == "mul" else []
        near = graph.mul([part for part in graph.factors(near) if part not in common])
        others = [new for arg, new in zip(node.args, args, strict=True) if arg not in common]
        direct = graph.mul(others) if common else graph.with_args(node, others)
        done[node] = graph.mul((*common, graph.select(inside, near, direct)))
    return [done[root] for root in roots]


def _common_entries(graph: Graph, product: Node, near: Node) -> list[Node]:
    """Return the entries of tensors and the scalars that are factors of `product` and of its series `near`: they stay
    outside of the choice between the two, so that it depends on few indices.
    """
    factors = graph.factors(near)
    return [arg for arg in product.args if arg.op in ("read", "scalar") and arg in factors]


def _may_cancel(node: Node) -> bool:
    """Whether `node` is a scalar sum, product or logarithm, in which terms may cancel."""
    is_logarithm = node.op == "call" and node.data is sympy.log
    return not node.shape and (node.op in ("add", "mul") or is_logarithm)


def _with_entries_of(
    graph: Graph, nodes: Sequence[Node], arrays: Mapping[Node, Node], choices: Mapping[Node, Node]
) -> dict[Node, Node]:
    """Return a dictionary from each of ``nodes`` to its form with reads of `arrays` replaced by the formulas of the
    entries; only formulas of plain arithmetic are inserted. Those of `choices` are replaced by the formulas there.

    Entries that read further arrays are treated alike, each once, up to `MAX_ENTRIES` in all.
    """
    done: dict[Node, Node] = {}
    entries: dict[Node, Node] = dict(choices)
    pending = list(reversed(nodes))
    while pending:
        node = pending[-1]
        table = arrays.get(node.args[0]) if node.op == "read" and len(entries) < MAX_ENTRIES else None
        if table is not None and node not in entries and table.op == "comprehension" and is_arithmetic(table.args[0]):
            entries[node] = graph.entry(table, node.data)
        needed = () if node.shape else (entries[node],) if node in entries else node.args
        missing = [arg for arg in needed if arg not in done]
        if missing:
            pending += missing
            continue
        if node in entries:
            done[node] = done[entries[node]]
        else:
            done[node] = node if node.shape else graph.with_args(node, [done[arg] for arg in node.args])
            if node.op == "pow" and not node.shape and node.args[1].op != "const" and node.args[0].op != "const":
                # Where the base is negative, no entry is near 0: the logarithm is NaN.
                done[node] = _by_exponential(graph, *done[node].args)
        pending.pop()
    return done


def _by_exponential(graph: Graph, base: Node, exponent: Node) -> Node:
    """Return ``base**exponent`` for a positive base by the exponential. Where the base is a sum, a negative number in
    the exponent, as derivatives have it, is an exponent of its own.
    """
    numbers = [number for number in _constants(exponent) if base.op == "add" and number.data < 0]
    logarithm = graph.call(sympy.log, (base,))
    if base.op == "add" and graph.one in base.args:
        logarithm = graph.call(log1p, (graph.add([arg for arg in base.args if arg is not graph.one]),))
    rest = graph.add((exponent, *map(graph.neg, numbers)))
    power = graph.call(sympy.exp, (graph.mul((rest, logarithm)),))
    return graph.mul((power, *(graph.pow(base, number) for number in numbers)))


def _separate_arguments(parts: ArithmeticParts, whole: Mapping[Node, Node], node: Node) -> Sequence[Node]:
    """Return the arguments of `node` that may be rewritten separately. Factors with exponentials are left out if there
    are several, because kernels scale these together.

    ``whole`` maps each argument to its form without reads. Exponentials in several factors of a product may grow
    beyond all numbers while the product does not: kernels scale them together, and need all of them as they are.
    """
    growing = [
        arg
        for arg in node.args
        if node.op == "mul" and any(part.data is sympy.exp for part in parts.functions(whole[arg]))
    ]
    return node.args if len(growing) < 2 else [arg for arg in node.args if arg not in growing]


def by_series(graph: Graph, parts: ArithmeticParts, node: Node) -> tuple[Node, Node] | None:
    """Return ``(condition, series)``: where the condition holds, near 0, `node` is to be replaced by the series because
    its terms cancel there. None if no terms cancel, or if `node` has too many functions.
    """
    if len(parts.functions(node)) > MAX_FUNCTIONS:
        return None
    plain = node.args if node.op == "add" else (node,)
    spread = _multiplied_out(graph, plain)
    return _by_series_of_terms(graph, parts, node, plain) or (
        _by_series_of_terms(graph, parts, node, spread) if spread else None
    )


def _multiplied_out(graph: Graph, terms: Sequence[Node]) -> list[Node]:
    """Return `terms` with products like ``(t + 1/s)*exp(-s*t)`` multiplied out: in front of the exponential is a sum
    with a pole, which no series in ``s*t`` has. [] if there is no such product, or more than `MAX_SPREAD_TERMS`.
    """
    found: list[Node] = []
    for term in terms if len(terms) > 1 else ():
        factors = graph.factors(term)
        total = next((part for part in factors if part.op == "add" and any(map(_is_quotient, part.args))), None)
        rest = [part for part in factors if part is not total]
        found += [term] if total is None or not rest else [graph.mul((*rest, part)) for part in total.args]
    return found if len(terms) < len(found) <= MAX_SPREAD_TERMS else []


def _is_quotient(node: Node) -> bool:
    """Whether `node` is a power with a negative exponent, or a product with one."""
    parts = node.args if node.op == "mul" else (node,)
    return any(part.op == "pow" and part.args[1].op == "const" and part.args[1].data < 0 for part in parts)


def _by_series_of_terms(
    graph: Graph, parts: ArithmeticParts, node: Node, addends: Sequence[Node]
) -> tuple[Node, Node] | None:
    """Return what `by_series` returns for `node`, the sum of `addends`."""
    for variable in _variables(graph, parts, node):
        terms: list[SeriesTerm] = []
        for part in addends:
            terms.append(_term(graph, parts, part, variable))
            if terms[-1].rest is not terms[0].rest:
                break
        rest = terms[0].rest
        if terms[-1].rest is not rest or all(factor.op == "const" for term in terms for factor in term.factors):
            continue
        few = _series(terms, variable.powers, _COEFFICIENTS_TO_TELL)
        has_pole = any(_has_pole(term, variable) for term in terms)
        if few is None or few.order < 0 or not (few.order > few.terms_order or has_pole):
            continue
        series = _series(terms, variable.powers, LENGTH)
        if series is not None and (chosen := _radius(terms, variable.powers, series)) is not None:
            radius, count = chosen
            inside = graph.compare("lt", graph.call(sympy.Abs, (variable.node,)), graph.const(_number(radius)))
            near = graph.mul((rest, _polynomial(graph, variable.node, series, count)))
            return inside, near
    return None


# ---------------------------------------------------------------------------- variables and terms


class ArithmeticParts(dict[Node, frozenset[Node]]):
    """A cache from each node to the nodes that it is made of by arithmetic; an empty set if there are `MAX_NODES` or
    more.

    ``variables`` are those of all nodes so far by ``u`` and its lead: nodes of one graph have most of them in common.
    """

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[tuple[Node, Node], Variable] = {}

    def __missing__(self, node: Node) -> frozenset[Node]:
        """Return the nodes in the arithmetic of `node`."""
        found = frozenset(islice(breadth_first(node, _arithmetic), MAX_NODES))
        self[node] = found if len(found) < MAX_NODES else frozenset()
        return self[node]

    def functions(self, node: Node) -> list[Node]:
        """Return the nodes inside of `node` that have a power series: calls of known functions, and powers like ``1/(1
        + u)``.
        """
        found = [part for part in self[node] if part.op == "call" and part.data in KNOWN]
        found += [part for part in self[node] if part.op == "pow" and _constants(part.args[0])]
        return sorted(found, key=lambda part: part.id)


def _constants(entry: Node) -> list[Node]:
    """Return the terms of the addition `entry` that are numbers; [] for other entries."""
    return [term for term in entry.args if entry.op == "add" and term.op == "const"]


def is_arithmetic(entry: Node) -> bool:
    """Whether `entry` is made of numbers, reads and scalars by arithmetic and functions, and is not too large."""
    parts = list(islice(breadth_first(entry, lambda part: part.args), MAX_NODES))
    return len(parts) < MAX_NODES and all(
        part.op in _ARITHMETIC or not part.args or part.op == "read" for part in parts
    )


def _arithmetic(node: Node) -> Sequence[Node]:
    """Return the arguments of an arithmetic operation or function call; () for other nodes."""
    return node.args if node.op in _ARITHMETIC else ()


def _variables(graph: Graph, parts: ArithmeticParts, node: Node) -> Iterator[Variable]:
    """Yield the variables ``u`` in which functions in `node` can be expanded as power series, each once."""
    seen: set[tuple[Node, Node]] = set()
    for part in parts.functions(node):
        argument = part.args[0]
        if part.op == "pow" or part.data is sympy.log:
            argument = graph.add((argument, *map(graph.neg, _constants(argument))))
        _, base = graph.split_coefficient(argument)
        for variable in _variables_of(graph, base):
            key = variable.node, variable.lead
            if key not in seen:
                seen.add(key)
                yield parts.variables.setdefault(key, variable)


def _variables_of(graph: Graph, node: Node) -> Iterator[Variable]:
    """Yield the candidates for the series variable ``u`` that `node` offers: the node itself, the base of a power, or a
    product. Those of ``x**2/y**2`` are ``x/y`` with each of its bases.
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
    """Return the base and the exponent of a power with a number as exponent; ``(factor, 1)`` for other nodes."""
    base, exponent = factor.args if factor.op == "pow" else (factor, factor)
    return (base, exponent.data) if exponent.op == "const" and factor.op == "pow" else (factor, 1)


def _term(graph: Graph, parts: ArithmeticParts, node: Node, variable: Variable) -> SeriesTerm:
    """Return the term `node` as ``rest*u**order*f(u)*...``, where u is `variable` and the rest does not depend
    on it.
    """
    rest: list[Node] = []
    factors: list[Node] = []
    order = 0

    def is_known(factor: Node) -> bool:
        """Whether `factor` is a number or has a known power series in ``u``."""
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
    """Return the series of the sum of `terms`, without their common ``rest``; None if a term has no series."""
    found = [term.series(powers, length) for term in terms]
    known = [one for one in found if one is not None]
    return None if len(known) < len(found) else total(known)


def _has_pole(term: SeriesTerm, variable: Variable) -> bool:
    """Whether a factor of `term` is infinite where ``u`` is 0; a divisor of ``u`` is not."""
    found = [variable.powers.series(factor, _COEFFICIENTS_TO_TELL) for factor in term.factors]
    is_divisor = variable.powers.get(variable.lead, 1) < 0
    return (term.order < 0 and not is_divisor) or any(one is not None and one.order < 0 for one in found)


# ---------------------------------------------------------------------------- the choice of the radius


def _radius(terms: Sequence[SeriesTerm], powers: Powers, series: Series) -> tuple[float, int] | None:
    """Return ``(radius, number of coefficients)`` with the smallest error bound: below the radius the series is used.
    None if no radius is accurate enough.
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
    """Return a bound of the relative rounding error at `u`, in units of the last place: the larger one of two bounds,
    for the sum of `terms` and for its `series`.
    """
    value = abs(sum(float(c) * u ** (k + series.order) for k, c in enumerate(series.coefficients)))
    near = sum(abs(float(c) * u ** (k + series.order)) for k, c in enumerate(series.coefficients))
    far = 0.0
    for term in terms:
        sizes = [abs(u) ** term.order, *(_magnitude(factor, powers, u)[1] for factor in term.factors)]
        far += math.prod(sizes)
    return max(near, far) / value if value and math.isfinite(value) else math.inf


def _magnitude(node: Node, powers: Powers, u: float) -> tuple[float, float]:
    """Return the value of `node` at `u`, and the sum of the absolute values of its terms, which bounds the rounding
    error.
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
        value = values[0] ** values[1] if node.op == "pow" else _VALUES[node.data](values[0])
    except (ValueError, OverflowError):
        return math.nan, math.inf
    return (value, abs(value)) if isinstance(value, float) else (math.nan, math.inf)


_VALUES: dict[Any, Callable[[float], float]] = {
    **{
        getattr(sympy, name): getattr(math, name)
        for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{getattr(sympy, name): getattr(math, name) for name in ("asin", "asinh", "atan", "atanh")},
    expm1: math.expm1,
    log1p: math.log1p,
    sigmoid: lambda x: 1 / (1 + math.exp(-x)),
    ErrorIntegral: lambda x: math.sqrt(math.pi) * math.erf(x),
    sympy.sec: lambda x: 1 / math.cos(x),
    sympy.csc: lambda x: 1 / math.sin(x),
    sympy.cot: lambda x: 1 / math.tan(x),
    sympy.sech: lambda x: 1 / math.cosh(x),
    sympy.csch: lambda x: 1 / math.sinh(x),
    sympy.coth: lambda x: 1 / math.tanh(x),
}
"""The functions with known series."""


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
