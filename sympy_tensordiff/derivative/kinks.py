"""Slopes that are infinite at a point where what they are multiplied by is an exact 0, which wins.

``sqrt(S)`` of a sum of squares ``S`` has where ``S`` is 0 what `Abs` has at 0, a kink. The chain rule says ``0*inf``
there; the derivative is 0, and so are those of it. So a choice, ``Piecewise((1/sqrt(S), Ne(S, 0)), (0, True))``, stands
in place of each root in a slope whose base is *flat*: the derivative of the base is 0 wherever the base is. What is
never 0, as ``1 + S``, needs no choice; and what is not flat, as ``x[i]``, has roots with an infinite derivative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sympy
from sympy.codegen.cfunctions import Cbrt, hypot

from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.nodes import Graph, Node

_LIMIT = 64
"""So many nodes are looked at to learn what a base is."""


class Kind(NamedTuple):
    """What is known of a value: 1 for a positive one, 0 for one that is not negative, -1; and whether it is flat."""

    sign: int
    flat: bool


_UNKNOWN = Kind(-1, False)
_POSITIVE = Kind(1, True)
_SQUARE = Kind(0, True)


def zero_at_kinks(graph: Graph, node: Node, slope: Node) -> Node:
    """The slope of a function, 0 where a root in it, or the function where it divides by itself, is flat and 0."""
    for factor in graph.factors(slope):
        if factor.op == "pow" and (_is_pole(factor.args[1]) or factor.args[0] is node):
            slope = zero_at_kink(graph, factor.args[0], slope)
    return slope


def zero_at_kink(graph: Graph, base: Node, slope: Node) -> Node:
    """A slope, 0 where the base is 0 if the base is flat and has its least value there.

    What changes its sign at 0 may have a root with a slope: that of ``u**3`` is ``u``.
    """
    kind = kind_of(graph, base)
    if kind.sign != 0 or not kind.flat or all(map(_is_never_zero, graph.factors(base))):
        return slope
    while base.op == "call" and base.data in (sympy.Abs, Cbrt):
        base = base.args[0]
    return graph.select(graph.compare("ne", base, graph.zero), slope, graph.zero)


def _is_never_zero(factor: Node) -> bool:
    """Whether a factor is a number or a quotient: ``1/u`` is 0 for no number ``u``."""
    return factor.op == "const" or (factor.op == "pow" and factor.args[1].op == "const" and factor.args[1].data < 0)


def _is_pole(exponent: Node) -> bool:
    """Whether a power may be infinite at base 0, and is the slope of one that is not."""
    return exponent.op != "const" or (exponent.data < 0 and not isinstance(exponent.data, int))


def kind_of(graph: Graph, node: Node) -> Kind:
    """The sign of a node, and whether its derivative is 0 wherever it is 0, as far as its structure shows."""
    return _Kinds(graph, _LIMIT).of(node)


class _Kinds:
    def __init__(self, graph: Graph, room: int) -> None:
        self.graph = graph
        self.room = room

    def of(self, node: Node) -> Kind:
        rule = _RULES.get(node.op)
        self.room -= 1
        return _UNKNOWN if rule is None or self.room < 0 else rule(self, node)

    def all(self, nodes: Sequence[Node]) -> list[Kind]:
        return [self.of(node) for node in nodes]

    def const(self, node: Node) -> Kind:
        return Kind((node.data > 0) - (node.data < 0), True)

    def index(self, node: Node) -> Kind:
        form = node.data
        sizes = all(isinstance(v, int) and v >= 0 and c > 0 for v, c in form.terms)
        return Kind(0 if sizes and form.constant >= 0 else -1, True)

    def scalar(self, node: Node) -> Kind:
        symbol = node.data
        if symbol.is_positive:
            return _POSITIVE
        return Kind(0, False) if symbol.is_nonnegative else _UNKNOWN

    def power(self, node: Node) -> Kind:
        base, exponent = node.args
        kind = self.of(base)
        if exponent.op != "const":
            return Kind(min(kind.sign, 1), kind.flat) if kind.sign >= 0 else _UNKNOWN
        power = exponent.data
        odd = isinstance(power, int) and power % 2 == 1
        if power < 0:
            return Kind(1 if kind.sign >= 0 or not odd else -1, True)
        sign = kind.sign if odd else max(kind.sign, 0)
        return Kind(sign, power > 1 or kind.flat)

    def product(self, node: Node) -> Kind:
        kinds = self.all(node.args)
        return Kind(min(kind.sign for kind in kinds), all(kind.flat for kind in kinds))

    def addition(self, node: Node) -> Kind:
        if len(node.args) == 2 and node.args[1].op == "const" and self._is_distance(*node.args):
            return _SQUARE
        kinds = self.all(node.args)
        if any(kind.sign < 0 for kind in kinds):
            return _UNKNOWN
        return Kind(max(kind.sign for kind in kinds), all(kind.flat for kind in kinds))

    def _is_distance(self, term: Node, constant: Node) -> bool:
        """Whether an addition is the distance of a bounded function from a bound, where it turns: ``1 - cos(u)**2``."""
        factor, value = self.graph.split_view(term)
        if value.op == "pow" and value.args[1].op == "const" and value.args[1].data == 2:
            value, factor = value.args[0], min(factor, 0)
        if value.op == "call" and value.data is sympy.cosh:
            return bool(factor == -constant.data > 0)
        if value.op != "call" or abs(factor) != constant.data:
            return False
        if value.data is sympy.exp and factor < 0:
            exponent = self.of(self.graph.neg(value.args[0]))
            return exponent.sign >= 0 and exponent.flat
        return value.data in (sympy.sin, sympy.cos)

    def call(self, node: Node) -> Kind:
        if node.data in _POSITIVE_FUNCTIONS:
            return _POSITIVE
        if node.data is hypot:
            return _SQUARE
        if node.data is Cbrt:
            return self.of(node.args[0])
        if node.data is sympy.Abs:
            return Kind(max(self.of(node.args[0]).sign, 0), True)
        if node.data in (sympy.Max, sympy.Min):
            kinds = self.all(node.args)
            sign = (max if node.data is sympy.Max else min)(kind.sign for kind in kinds)
            return Kind(sign, all(kind.flat for kind in kinds))
        return _UNKNOWN

    def choice(self, node: Node) -> Kind:
        kinds = self.all(node.args[1:])
        return Kind(min(kind.sign for kind in kinds), all(kind.flat for kind in kinds))

    def total(self, node: Node) -> Kind:
        kind = self.of(node.args[0])
        return _SQUARE if kind.sign >= 0 and kind.flat else Kind(min(kind.sign, 0), False)

    def guarded(self, node: Node) -> Kind:
        kind = self.of(node.args[0])
        return Kind(min(kind.sign, 0), kind.flat)

    def entry(self, node: Node) -> Kind:
        return self.of(node.args[0])

    def contraction(self, node: Node) -> Kind:
        coefficient, inputs, _, _ = node.data
        if is_view(node):
            kind = self.of(node.args[0]) if node.args else _POSITIVE
            return Kind(min(kind.sign, 0) if coefficient >= 0 else -1, kind.flat)
        times = Counter(zip(node.args, inputs, strict=True))
        kinds = [self.of(arg) if count % 2 else _SQUARE for (arg, _), count in times.items()]
        return _SQUARE if all(kind.sign >= 0 and kind.flat for kind in kinds) else _UNKNOWN


_POSITIVE_FUNCTIONS = frozenset({sympy.exp, sympy.cosh, sympy.sech, sympy.erfc, sigmoid, softplus})

_RULES: dict[str, Callable[[_Kinds, Any], Kind]] = {
    "const": _Kinds.const,
    "index": _Kinds.index,
    "scalar": _Kinds.scalar,
    "pow": _Kinds.power,
    "mul": _Kinds.product,
    "add": _Kinds.addition,
    "call": _Kinds.call,
    "select": _Kinds.choice,
    "sum": _Kinds.total,
    "prod": _Kinds.guarded,
    "max": _Kinds.guarded,
    "min": _Kinds.guarded,
    "guard": _Kinds.guarded,
    "read": _Kinds.entry,
    "comprehension": _Kinds.entry,
    "ein": _Kinds.contraction,
}
