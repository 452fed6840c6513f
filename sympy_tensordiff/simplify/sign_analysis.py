"""Sign analysis: the sign of a node, and whether its derivative is 0 wherever its value is 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import sympy
from sympy.codegen.cfunctions import Cbrt, hypot

from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint


class SignFacts(NamedTuple):
    """The sign of a value, as far as known, and whether it is flat. Flat means that its derivative is 0 wherever the
    value is 0, as for ``x**2``.

    `sign` is 1 for a positive value, 0 for a nonnegative one, -1 if unknown.
    """

    sign: int
    flat: bool


_UNKNOWN = SignFacts(-1, False)
_SQUARE = SignFacts(0, True)

FactsOfArguments = Sequence[SignFacts]
"""What is known of the sign of each argument of a node."""


def sign_facts(graph: Graph, node: Node) -> SignFacts:
    """Return the sign of `node`, as far as its structure shows it, and whether `node` is flat (derivative 0 where the
    value is 0). Results are stored in ``graph.signs``.
    """
    known = graph.signs
    for part in reachable(node, known=known):
        rule = _RULES.get(part.op)
        known[part] = _UNKNOWN if rule is None else rule(graph, part, [known[arg] for arg in part.args])
    found: SignFacts = known[node]
    return found


def _common_facts(arguments: FactsOfArguments) -> SignFacts:
    """Return the facts that hold for all of `arguments`: the weakest sign, and "flat" (derivative 0 where the value is
    0) if all of them are flat.
    """
    return SignFacts(min(argument.sign for argument in arguments), all(argument.flat for argument in arguments))


def _const(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of the number `node`. It counts as flat (derivative 0 where the value is 0). ``arguments`` is not
    used.
    """
    return SignFacts((node.data > 0) - (node.data < 0), True)


def _index(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of the index form `node`: nonnegative if its variables are free and no coefficient is negative,
    else unknown. It counts as flat (derivative 0 where the value is 0), since its derivative is 0. ``arguments`` is not
    used.
    """
    form = node.data
    sizes = all(isinstance(v, int) and v >= 0 and c > 0 for v, c in form.terms)
    return SignFacts(0 if sizes and form.constant >= 0 else -1, True)


def _scalar(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of a scalar symbol from its SymPy assumptions. It is not flat (derivative 0 where it is 0) unless
    it is positive. ``arguments`` is not used.
    """
    symbol = node.data
    return SignFacts(1, True) if symbol.is_positive else SignFacts(0 if symbol.is_nonnegative else -1, False)


def _power(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of the power `node`, and whether its derivative is 0 wherever it is 0 (it is flat), from the same
    facts ``arguments[0]`` about its base.

    For an exponent that is not constant, the facts of a nonnegative base are returned; else nothing is known.
    """
    base, exponent = arguments[0], node.args[1]
    if exponent.op != "const":
        return base if base.sign >= 0 else _UNKNOWN
    power = exponent.data
    odd = isinstance(power, int) and power % 2 == 1
    if power < 0:
        return SignFacts(1 if base.sign >= 0 or not odd else -1, True)
    return SignFacts(base.sign if odd else max(base.sign, 0), power > 1 or base.flat)


def _addition(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of the addition `node` from the signs of its ``arguments``; unknown if the sign of a term is. It
    is flat (derivative 0 where the value is 0) if all terms are.
    """
    if len(node.args) == 2 and node.args[1].op == "const" and _touches_zero(graph, *node.args):
        return _SQUARE
    if any(argument.sign < 0 for argument in arguments):
        return _UNKNOWN
    return SignFacts(max(argument.sign for argument in arguments), all(argument.flat for argument in arguments))


def _touches_zero(graph: Graph, term: Node, constant: Node) -> bool:
    """Return whether ``term + constant`` is nonnegative with derivative 0 wherever it is 0, as ``1 - cos(u)`` and
    ``cosh(u) - 1``, so that its square root has a kink there.
    """
    factor, value = graph.split_view(term)
    if value.op == "pow" and value.args[1].op == "const" and value.args[1].data == 2:
        value, factor = value.args[0], min(factor, 0)
    if value.op == "call" and value.data is sympy.cosh:
        return bool(factor == -constant.data > 0)
    if value.op != "call" or abs(factor) != constant.data:
        return False
    if value.data is sympy.exp and factor < 0:
        exponent = sign_facts(graph, graph.neg(value.args[0]))
        return exponent.sign >= 0 and exponent.flat
    return value.data in (sympy.sin, sympy.cos)


def _call(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the `SignFacts` of a function call: the sign of its value, and whether it is flat, that is, has the
    derivative 0 wherever the value is 0.

    They follow from the function and from the facts of its ``arguments``.
    """
    if record_of(node.data).is_positive:
        return SignFacts(1, True)
    if node.data is sympy.besseli and node.args[0] is graph.zero:
        return SignFacts(1, True)
    if node.data is hypot:
        return _SQUARE
    if node.data is Cbrt:
        return arguments[0]
    if node.data is sympy.Abs:
        return SignFacts(max(arguments[0].sign, 0), True)
    if node.data is sympy.Max:
        return SignFacts(max(argument.sign for argument in arguments), all(argument.flat for argument in arguments))
    return _common_facts(arguments) if node.data is sympy.Min else _UNKNOWN


def _total(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of the sum `node` over a range, at best "nonnegative" if the range may be empty. It is flat
    (derivative 0 where it is 0) if the summand, in ``arguments``, is flat and nonnegative.

    A sum of values of both signs may be 0 where none of them is, so it is flat only if they are nonnegative.
    """
    (argument,) = arguments
    if argument.sign == 1 and _is_over_axes(node):
        return SignFacts(1, True)
    return _SQUARE if argument.sign >= 0 and argument.flat else SignFacts(min(argument.sign, 0), False)


def _is_over_axes(node: Node) -> bool:
    """Return whether each index of the sum `node` runs over a whole axis of a tensor that the sum reads. Its range is
    then not empty, since extents are positive.
    """
    reads = [part for part in reachable(node.args[0]) if part.op == "read" and part.args[0].op == "tensor"]
    axes = {axis for part in reads for axis in zip(part.data, part.args[0].shape, strict=True)}
    rows = {Constraint("ge", side) for v, extent in axes for side in (v, extent - 1 - v)}
    return rows.issuperset(node.data)


def _guarded(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the `SignFacts` of a guard or an extremum: the sign of its body, but at best "nonnegative", since the
    value may be 0, and whether it is flat, that is, has the derivative 0 wherever the value is 0. ``arguments[0]`` has
    the facts of the body.
    """
    return SignFacts(min(arguments[0].sign, 0), arguments[0].flat)


def _contraction(graph: Graph, node: Node, arguments: FactsOfArguments) -> SignFacts:
    """Return the sign of an einsum, and whether its derivative is 0 wherever it is 0 (it is flat), from the same facts
    about its ``arguments``. Equal operands with equal labels, as in ``x[i]*x[i]``, count as a square.
    """
    coefficient, inputs, output, extents = node.data
    if is_view(node):
        return SignFacts(
            min([0, *(argument.sign for argument in arguments)]) if coefficient >= 0 else -1,
            all(argument.flat for argument in arguments),
        )
    # An axis with one entry is one place under whatever label: a' a of one column is a square.
    places = [tuple([-1 if extents[label] == Affine.of(1) else label for label in labels]) for labels in inputs]
    times = Counter(zip(node.args, places, strict=True))
    own = dict(zip(node.args, arguments, strict=True))
    found = _common_facts([own[arg] if count % 2 else _SQUARE for (arg, _), count in times.items()])
    if len(output) == len(extents):
        return found
    return _SQUARE if found.sign >= 0 and found.flat else SignFacts(min(found.sign, 0), False)


_RULES: dict[str, Callable[[Graph, Node, FactsOfArguments], SignFacts]] = {
    "const": _const,
    "index": _index,
    "scalar": _scalar,
    "pow": _power,
    "mul": lambda graph, node, arguments: _common_facts(arguments),
    "add": _addition,
    "call": _call,
    "select": lambda graph, node, arguments: _common_facts(arguments[1:]),
    "sum": _total,
    "prod": lambda graph, node, arguments: arguments[0],
    "max": _guarded,
    "min": _guarded,
    "guard": _guarded,
    "read": lambda graph, node, arguments: arguments[0],
    "comprehension": lambda graph, node, arguments: arguments[0],
    "ein": _contraction,
}
