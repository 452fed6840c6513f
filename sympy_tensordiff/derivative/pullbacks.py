"""The pullback rules of scalar nodes, one short formula each.

``rule(graph, node, cotangent, position)`` is the cotangent of the argument at ``position``:
``cotangent * d node / d argument``. Kinks: ``abs'(0) = 0``, ``sign' = floor' = 0``; in `Max` and
`Min` a number wins the tie, otherwise tied arguments share the derivative equally.

The product of a cotangent and a slope is annihilating: an exact 0 in a cotangent stays 0, whatever it is multiplied by.
The cotangent of ``log(x[i])`` in ``Piecewise((log(x[i]), x[i] > 0), (0, True))`` is 0 where the condition does not
hold, but floating point numbers say ``0 * 1/x[i] = nan`` at ``x[i] = 0``. Products lift a choice between something and
0 over such factors (`Graph.mul`), and guards over all. A node that is used under several conditions has an addition, or
a sum, of such choices as its cotangent. A pullback is linear in the cotangent, so `pull_through_choices` takes it in
each of them. That costs operations, and is not done for a node that the function evaluates unconditionally: where that
is a number, so is its slope. In a sum, a slope with indices of its own would cost a loop more than a product of
matrices, as ``Sum_j Piecewise((W[q, j]*x[i, p], g[i, j] > 0))``. It stays outside of
``Sum_j Piecewise((W[q, j], g[i, j] > 0))`` and counts where a term is chosen,
``Sum_j Piecewise((1, g[i, j] > 0)) > 0``: a condition, which has no derivative.

A slope may be infinite at a point where the cotangent is an exact 0, which wins. ``sqrt(S)`` of a sum of squares ``S``
has where ``S`` is 0 what `Abs` has at 0, a kink. The chain rule says ``0*inf`` there; the derivative is 0, and so are
those of it. So a choice, ``Piecewise((1/sqrt(S), Ne(S, 0)), (0, True))``, replaces each root in a slope whose base is
*flat*: the derivative of the base is 0 wherever the base is. A factor that is never 0, such as ``1 + S``, needs no
choice; and a factor that is not flat, such as ``x[i]``, has roots with an infinite derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy
from sympy.codegen.cfunctions import Cbrt

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.arithmetic import JOINED_LIMIT
from sympy_tensordiff.graph.functions import formula, partial
from sympy_tensordiff.graph.interning import BINDERS, breadth_first, outside_of_binders
from sympy_tensordiff.graph.nodes import Graph, Node, replace
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.simplify.node_properties import count_true_terms, is_conditional
from sympy_tensordiff.simplify.sign_analysis import sign_facts

Rule = Callable[[Graph, Node, Node, int], Node]


def pull(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the argument at `position`, from the `cotangent` of `node`.

    A derivative that SymPy does not know stays a `Partial`.
    """
    return PULLBACKS[node.op](graph, node, cotangent, position)


def pull_through_choices(graph: Graph, cotangent: Node, rule: Callable[[Node], Node], *, certain: bool) -> Node:
    """Return ``rule(cotangent)`` for a linear `rule`, such as the product with a slope, so that a cotangent of 0 stays
    exactly 0 even if the slope is infinite. With `certain`, the slope is known to be finite.

    For this, `rule` is applied to the branches of selects and the bodies of guards in the cotangent. With `certain`,
    the slope is known to be finite, and this is not needed.

    Of a table that is read, only some entries may matter: the guards of several reads select these.
    """
    guards = cotangent.op == "add" and all(term.op == "guard" for term in cotangent.args)
    if certain and not guards and (not _is_guarded(cotangent) or rule(graph.one).total):
        return rule(cotangent)
    return _apply_inside_choices(graph, cotangent, rule)


def _is_guarded(node: Node) -> bool:
    """Return whether all terms of the addition `node` are guarded, as in ``[c]*x + [d]*y``, so that it is 0 where no
    guard holds. A product also counts if one of its factors is such an addition, and a sum over indices if its body is.
    """
    if node.op in ("mul", "sum"):
        return any(map(_is_guarded, node.args))
    return node.op == "add" and all(term.op == "guard" or _is_guarded(term) for term in node.args)


def _apply_inside_choices(graph: Graph, cotangent: Node, rule: Callable[[Node], Node]) -> Node:
    """Return ``rule(cotangent)`` for a linear `rule`, applied separately to the branches of selects, the bodies of
    guards and the terms of sums in the cotangent. Branches of 0 then stay exactly 0.

    A cotangent that cannot be split is compared with 0, or the number of its chosen terms is.
    """
    if cotangent is graph.zero or not is_conditional(graph, cotangent):
        return rule(cotangent)
    if cotangent.op in ("sum", "ein", "comprehension"):
        slope = rule(graph.one)
        if slope.total:
            return rule(cotangent)
        if cotangent.op == "sum" and not _indices(slope) <= cotangent.free:
            chosen = graph.compare("lt", graph.zero, count_true_terms(graph, cotangent))
            return graph.select(chosen, rule(cotangent), graph.zero)
    match cotangent.op:
        case "select":
            return graph.select(
                cotangent.args[0], *(_apply_inside_choices(graph, side, rule) for side in cotangent.args[1:])
            )
        case "guard":
            return graph.guard(cotangent.data, _apply_inside_choices(graph, cotangent.args[0], rule))
        case "add":
            return graph.add([_apply_inside_choices(graph, term, rule) for term in cotangent.args])
        case "sum":
            variables, rows, body = graph.open(cotangent)
            return graph.sum(variables, rows, _apply_inside_choices(graph, body, rule))
        case "mul":
            choice = next(factor for factor in cotangent.args if is_conditional(graph, factor))
            others = [factor for factor in cotangent.args if factor is not choice]
            return _apply_inside_choices(graph, choice, lambda part: rule(graph.mul((*others, part))))
    chosen = graph.compare("lt", graph.zero, count_true_terms(graph, cotangent))
    return graph.select(chosen, rule(cotangent), graph.zero)


def _indices(node: Node) -> frozenset[int]:
    """Return the index variables that occur in `node`: those in its reads ``x[i]`` and the free ones of its sums and
    comprehensions.
    """
    parts = breadth_first(node, lambda part: () if part.op == "read" else outside_of_binders(part))
    return frozenset[int]().union(*(part.free for part in parts if part.op == "read" or part.op in BINDERS))


def _add(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the term number ``position`` of the addition `node`: it is the `cotangent` of the sum,
    because D (a + b) / d a = 1.
    """
    return cotangent


def _mul(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the factor at `position` of the product `node`: `cotangent` times all other factors."""
    return graph.mul((cotangent, *node.args[:position], *node.args[position + 1 :]))


def _pow(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the base (`position` 0) or of the exponent (1) of the power `node`, a**b: `cotangent`
    times ``b*a**(b - 1)`` or ``a**b*log(a)``. Raise `UnsupportedError` for the exponent of a negative number.
    """
    base, exponent = node.args
    if position == 1 and base.op == "const" and base.data <= 0:
        if base.data == 0:  # 0**b is 0 wherever it has a derivative
            return graph.zero
        raise UnsupportedError(
            f"({base.data})**b has no derivative with respect to b: it is real for integers b only; write "
            f"Abs({base.data})**b"
        )
    if position == 1:
        return graph.mul((cotangent, node, graph.call(sympy.log, (base,))))
    form = _integer_form(exponent)
    lower = graph.add((exponent, graph.const(-1))) if form is None else graph.index(form - 1)
    steep = graph.pow(base, lower)
    if form is None and (exponent.op != "const" or exponent.data > 0):
        steep = zero_at_kinks(graph, node, steep)
    slope = graph.mul((cotangent, exponent, steep))
    if exponent.op == "const":
        return slope
    # x**i has the derivative 0 at i = 0, where i x**(i - 1) would divide by 0 at x = 0.
    if form is not None:
        return graph.add(
            [graph.guard([Constraint("ge", form - 1)], slope), graph.guard([Constraint("ge", -form - 1)], slope)]
        )
    if _is_integer(exponent):
        return graph.select(graph.compare("ne", exponent, graph.zero), slope, graph.zero)
    return slope


def _integer_form(node: Node) -> Affine | None:
    """Return the affine index form, such as ``2*i + 1``, that the scalar `node` equals; None if it is not known to be
    one.
    """
    if node.op == "index":
        return node.data  # type: ignore[no-any-return]
    if node.op == "const":
        return Affine.of(node.data) if isinstance(node.data, int) else None
    if not node.free or node.op not in ("add", "mul"):
        return None
    total = Affine.of(0 if node.op == "add" else 1)
    for arg in node.args:
        # What an addition or a product of indices is made of is flat: products in an addition.
        form = _integer_form(arg) if node.op == "add" or arg.op in ("index", "const") else None
        if form is None or not (node.op == "add" or form.is_constant or total.is_constant):
            return None
        if node.op == "add":
            total = total + form
        else:
            total = form * total.constant if total.is_constant else total * form.constant
    return total


_ROUNDED = frozenset({sympy.floor, sympy.ceiling, sympy.sign, sympy.LeviCivita})
"""Functions with integer values."""


def _is_integer(node: Node) -> bool:
    """Return whether the scalar `node` provably has integer values only."""

    def is_rounded(part: Node) -> bool:
        """Return whether `part` is an operation, such as floor, whose value is an integer for all arguments."""
        return part.op == "index" or (part.op == "call" and part.data in _ROUNDED)

    def is_closed(part: Node) -> bool:
        """Return whether `part` is an operation that maps integers to integers."""
        if part.op == "pow":
            return part.args[1].op == "const" and part.args[1].data > 0
        if part.op == "call":
            return part.data in (sympy.Abs, sympy.Max, sympy.Min)
        return part.op in ("add", "mul") or (part.op == "const" and isinstance(part.data, int))

    parts = breadth_first(node, lambda part: () if is_rounded(part) else part.args)
    return all(is_rounded(part) or is_closed(part) for part in parts)


def _select(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the argument at `position` of the choice `node`: D (a if c else b) / d a = (1 if c else
    0); it is 0 for the condition.
    """
    if position == 0:
        return graph.zero
    if node.shape or cotangent.depth <= JOINED_LIMIT:
        # The choice inside of the one around it: so the cotangents of all branches choose by the same condition first.
        factors = graph.factors(cotangent)
        choice = next(filter(graph.is_choice, factors), None)
        if choice is not None:
            others = [factor for factor in factors if factor is not choice]
            values = [side if side is graph.zero else graph.mul((*others, side)) for side in choice.args[1:]]
            sides = [side if side is graph.zero else _select(graph, node, side, position) for side in values]
            return graph.select(choice.args[0], *sides)
    if position == 1:
        return graph.select(node.args[0], cotangent, graph.zero)
    return graph.select(node.args[0], graph.zero, cotangent)


def _zero(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return 0, the cotangent of the argument at ``position`` of ``node``, a step function or a condition on values: D
    f / d a = 0.
    """
    return graph.zero


def _call(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the argument at `position` of the function call `node`: D f(a, b) / d a = f_a(a, b)."""
    rule = FUNCTIONS.get(node.data)
    if rule is not None:
        return rule(graph, node, cotangent, position)
    return graph.mul((cotangent, zero_at_kinks(graph, node, _partial(graph, node, position))))


def _abs(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of ``a`` for the absolute value ``abs(a)``, the `node`: `cotangent` times ``sign(a)``.
    `position`, the number of the argument, is always 0.
    """
    return graph.mul((cotangent, graph.call(sympy.sign, node.args)))


def _extremum(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the argument at `position` of a maximum or minimum: D max(a, b) / d a = [a is greatest] /
    (number of greatest).

    It is 0 where a number is among the greatest.
    """
    mine = node.args[position]
    if mine.op == "const":
        return graph.zero
    numbers = [a for a in node.args if a.op == "const"]
    others = [a for a in node.args if a.op != "const" and a is not mine]

    def beyond(a: Node, b: Node) -> Node:
        """Return the condition under which `a` takes the place of `b` as the extremum: ``a > b`` if the node that is
        differentiated is a maximum, ``a < b`` if it is a minimum.
        """
        return graph.compare("lt", *((b, a) if node.data is sympy.Max else (a, b)))

    wins = [beyond(mine, a) for a in numbers]
    if not others:
        if cotangent.op == "select":  # where this one is the greatest, it is what a choice around it compares
            condition = replace(graph, cotangent.args[0], {node: mine})
            cotangent = graph.select(condition, *cotangent.args[1:])
        return graph.select(graph.logic("and", wins), cotangent, graph.zero)
    if len(others) == 1:
        half = graph.select(graph.compare("eq", mine, others[0]), graph.scale(Fraction(1, 2), cotangent), graph.zero)
        shared = graph.select(beyond(mine, others[0]), cotangent, half)
    else:
        ties = [graph.select(graph.compare("eq", a, node), graph.one, graph.zero) for a in (mine, *others)]
        shared = graph.mul((cotangent, ties[0], graph.pow(graph.add(ties), graph.const(-1))))
    return graph.select(graph.logic("and", wins), shared, graph.zero) if wins else shared


def _cube_root(graph: Graph, node: Node, cotangent: Node, position: int) -> Node:
    """Return the cotangent of the argument of the cube root `node`: D cbrt(a) / d a = 1 / (3 cbrt(a)**2), for negative
    numbers too. ``position`` is not used.
    """
    slope = zero_at_kinks(graph, node, graph.pow(node, graph.const(-2)))
    return graph.mul((cotangent, graph.const(Fraction(1, 3)), slope))


def _partial(graph: Graph, node: Node, position: int) -> Node:
    """Return the partial derivative of the function in `node` with respect to its argument at `position`, at the
    arguments of `node`. It is SymPy's formula, or an unevaluated derivative if SymPy has none.
    """
    derivative = partial(node.data, len(node.args), position)
    if derivative not in graph.slopes:
        found, dummies = formula(derivative)
        args = tuple([graph.scalar(dummy) for dummy in dummies])
        # Read once for each graph, as a function of its arguments.
        slope = graph.call(derivative, args) if found is None else Reader(graph).read(found)
        graph.slopes[derivative] = slope, graph.call(node.data, args), args
    slope, applied, args = graph.slopes[derivative]
    return replace(graph, slope, {**dict(zip(args, node.args, strict=True)), applied: node})


PULLBACKS: dict[str, Rule] = {
    "add": _add,
    "mul": _mul,
    "pow": _pow,
    "call": _call,
    "select": _select,
    "compare": _zero,
    "and": _zero,
    "or": _zero,
    "not": _zero,
}

CONDITIONS = frozenset(op for op, rule in PULLBACKS.items() if rule is _zero)
"""The ops of nodes whose derivative is 0: conditions on values."""

FUNCTIONS: dict[Any, Rule] = {
    sympy.Abs: _abs,
    sympy.Max: _extremum,
    sympy.Min: _extremum,
    sympy.sign: _zero,
    sympy.floor: _zero,
    sympy.ceiling: _zero,
    sympy.Heaviside: _zero,
    sympy.LeviCivita: _zero,
    sympy.frac: _add,
    Cbrt: _cube_root,
}


# ---------------------------------------------------------------- kinks


def zero_at_kinks(graph: Graph, node: Node, slope: Node) -> Node:
    """Return `slope`, a derivative of `node`, with the value 0 at the kinks of square roots and fractional powers in
    it. So the slope of ``norm(x)`` at 0 is 0 and not ``0/0``.
    """
    for factor in graph.factors(slope):
        if factor.op == "pow" and (_is_pole(factor.args[1]) or factor.args[0] is node):
            slope = zero_at_kink(graph, factor.args[0], slope)
    return slope


def zero_at_kink(graph: Graph, base: Node, slope: Node) -> Node:
    """Return `slope` where `base` is not 0, and 0 elsewhere, if `base` is nonnegative with derivative 0 at its zeros,
    like a sum of squares; for other bases `slope` itself.

    A base that changes its sign at 0 may have a root with a slope: that of ``u**3`` is ``u``.
    """
    kind = sign_facts(graph, base)
    if kind.sign != 0 or not kind.flat or all(map(_is_never_zero, graph.factors(base))):
        return slope
    while base.op == "call" and base.data in (sympy.Abs, Cbrt):
        base = base.args[0]
    return graph.select(graph.compare("ne", base, graph.zero), slope, graph.zero)


def _is_never_zero(factor: Node) -> bool:
    """Return whether `factor` is a number or a quotient ``1/u``, which is 0 for no number ``u``."""
    return factor.op == "const" or (factor.op == "pow" and factor.args[1].op == "const" and factor.args[1].data < 0)


def _is_pole(exponent: Node) -> bool:
    """Return whether ``u**exponent``, a factor in the derivative of a power of u, may be infinite at ``u = 0`` while
    the power is finite. True for ``u**(-1/2)``, from ``sqrt(u)``, and if ``exponent`` is not constant; false for
    ``u**(-2)``, from ``1/u``.
    """
    return exponent.op != "const" or (exponent.data < 0 and not isinstance(exponent.data, int))
