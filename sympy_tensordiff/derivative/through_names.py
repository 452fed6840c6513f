"""Derivatives through named expressions, whose names stay in the result.

A named expression is a variable of the expression that contains it: one sweep for each definition hands its cotangent
on to the variables and to the names in it. The cotangent of ``K`` is a part of the result with a name of its own,
``dK``, so that nothing in it is written twice, and the next derivative goes through both in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, count
from typing import Any

from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.graph.einsums import written_out
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write_all
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.simplify.node_properties import is_conditional, may_be_infinite
from sympy_tensordiff.symbolic.expressions.traversal import named_in, names_in
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, in_full

MAX_CONDITIONS_AROUND = 2
"""Under so many conditions, two for ``i != j``, a cotangent has them around it; more would hide the computation."""


class ThroughNames:
    """Computes pullbacks and pushforwards of an expression with named parts (`NamedTensor`): one sweep over the
    expression and one over the definition of each part.

    `others` are variables, cotangents and tangents, whose names no new part gets.
    """

    def __init__(self, value: Any, *others: Any) -> None:
        self.value = value
        self.names = named_in([value])
        self._taken = names_in([value, *others])

    def pullbacks(self, variables: Sequence[Any], cotangent: Any) -> list[Any]:
        """Return the cotangents of `variables` for the ``cotangent`` of the expression.

        The cotangent of a named part is completed first, from all uses of the part, and then propagated through its
        definition once.
        """
        found: dict[Any, list[Any]] = {}
        results: dict[Any, Any] = {}
        self._sweep_definition(self.value, variables, cotangent, found)
        for part in reversed(self.names):
            if part in found:
                results[part] = total = _total(found.pop(part))
                self._sweep_definition(
                    part.definition, variables, self._with_unused_name(f"d{part.name}", total), found
                )
        work = Differentiation(self.value, by=variables, names=True)
        zeros = [work.graph.filled(0, work.extents(work.leaf(v))) for v in variables]
        absent = dict(zip(variables, write_all(work.reader, zeros), strict=True))
        return [results.get(v) or (_total(found[v]) if v in found else absent[v]) for v in variables]

    def _sweep_definition(
        self, definition: Any, variables: Sequence[Any], cotangent: Any, found: dict[Any, list[Any]]
    ) -> None:
        """Sweep `definition` backwards once from `cotangent`, and append the cotangents of its named parts and
        variables to the lists in `found`.
        """
        leaves = [*named_in([definition]), *(v for v in variables if not isinstance(v, NamedTensor))]
        work = Differentiation(definition, cotangent, by=leaves, names=True)
        wanted = [work.leaf(leaf) for leaf in leaves]
        nodes = work.pullbacks(wanted, work.inputs[0])
        if isinstance(cotangent, NamedTensor) and may_be_infinite(nodes):
            nodes = _pullbacks_where_nonzero(work, wanted, definition, cotangent)
        for leaf, part in zip(leaves, _expressions_or_none(work, nodes), strict=True):
            if part is not None:
                found.setdefault(leaf, []).append(part)

    def pushforward(self, variables: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Return the tangent of the expression for the `tangents` of `variables`. For a named part among `variables`,
        its given tangent is added to the computed one.
        """
        moves: dict[Any, list[Any]] = {}
        for v, tangent in zip(variables, tangents, strict=True):
            moves.setdefault(v, []).append(tangent)
        for part in self.names:
            (tangent,) = self._tangent(part.definition, moves, _expressions_or_none)
            if tangent is not None:
                moves.setdefault(part, []).append(self._with_unused_name(f"d{part.name}", tangent))
        return self._tangent(self.value, moves, lambda work, nodes: work.finish_all(nodes))[0]

    def _tangent(
        self, value: Any, moves: dict[Any, list[Any]], written: Callable[[Differentiation, list[Node]], list[Any]]
    ) -> list[Any]:
        """Return the tangent of `value` as a list of one expression, which ``written`` makes from a node. ``moves``
        maps each variable to a list of tangents, whose sum is its tangent.

        ``written(work, [node])`` converts the node of the tangent to an expression.

        The node is one of ``work``, a new `Differentiation`.
        """
        pairs = [(leaf, tangent) for leaf, tangents in moves.items() for tangent in tangents]
        work = Differentiation(value, *(tangent for _, tangent in pairs), by=list(moves), names=True)
        return written(work, [work.pushforward([work.leaf(leaf) for leaf, _ in pairs], work.inputs)])

    def _with_unused_name(self, name: str, expr: Any) -> Any:
        """Return `expr` as a `NamedTensor` with an unused name like `name`; a number or a symbol unchanged."""
        if expr.is_number or getattr(expr, "is_symbol", False):
            return expr
        free = next(n for k in count() if (n := name if k == 0 else f"{name}_{k}") not in self._taken)
        self._taken.add(free)
        return NamedTensor(free, expr)


def _expressions_or_none(work: Differentiation, nodes: list[Node]) -> list[Any]:
    """Return `nodes` as SymPy expressions, simplified by ``work``; None for those that are 0."""
    simplified = work.simplified_all(nodes)
    results = write_all(work.reader, simplified)
    return [None if _is_zero(work.graph, node) else result for node, result in zip(simplified, results, strict=True)]


def _is_infinite_on_a_diagonal(definition: Any) -> bool:
    """Return whether `definition` divides by 0 where two of its indices are equal, as ``1/(x[i] - x[j])`` does."""
    graph = Graph()
    root = Reader(graph).read(in_full(definition))
    variables = [graph.fresh(f"i{n}") for n in range(len(root.shape))]
    body = written_out(graph, root, [Affine.variable(v) for v in variables])
    pairs = (graph.substitute(body, {v: Affine.variable(w)}) for v, w in combinations(variables, 2))
    return any(p.op == "pow" and p.args[0] is graph.zero for found in pairs for p in reachable(found))


def _pullbacks_where_nonzero(
    work: Differentiation, leaves: Sequence[Node], definition: Any, cotangent: NamedTensor
) -> list[Node]:
    """Return the cotangents of `leaves`, the variables of a named expression `definition`, given the `cotangent` of its
    value. Where the cotangent is 0, they are exactly 0, even if the derivative is infinite there.

    `work` differentiates the expression.

    The cotangent is a name for an expression, which says under which conditions it is not 0. If it says so in a form
    that cannot be used, the expression replaces the name.
    """
    graph, named = work.graph, work.inputs[0]
    value = work.reader.read(cotangent.definition)

    def entry(variables: Sequence[int]) -> Node:
        """Return the entry of the named cotangent at the indices `variables`: a read of its name, under the guards or
        selects outside of which it is 0. If there are too many of these, return the read alone; if they cannot be
        written around the name, return the formula of the entry.

        Too many are more than `MAX_CONDITIONS_AROUND` guards, unless the derivative is infinite where two indices are
        equal.
        """
        index = [Affine.variable(v) for v in variables]
        found, name = written_out(graph, value, index), graph.read(named, index) if index else named
        chosen = _name_under_conditions(graph, found, name)
        if chosen is None:
            return found
        conditions = sum(part.op == "guard" for part in reachable(chosen))
        return chosen if conditions <= MAX_CONDITIONS_AROUND or _is_infinite_on_a_diagonal(definition) else name

    if not work.is_whole:
        return work.pullbacks_of_entries(leaves, entry)
    if value.op == "comprehension":
        variables, _, _ = graph.open(value)
        chosen: Node | None = graph.comprehension(variables, value.data, entry(variables))
    else:
        chosen = _name_under_conditions(graph, value, named)
    # An entry of the name that no term reads may be infinite: no operand is known to be finite.
    sweep = work.tensor_sweep(leaves).start(work.root, value if chosen is None else chosen, numbers=())
    return [work.symmetric_part(leaf, sweep.of(leaf)) for leaf in leaves]


def _name_under_conditions(graph: Graph, value: Node, entry: Node) -> Node | None:
    """Return `entry`, which is read in place of the formula `value`, under the guards or selects of `value`, so that it
    is 0 where they make `value` 0. None if the conditions of `value` are not a guard, disjoint guards or a select.
    """
    if not is_conditional(graph, value):
        return entry
    parts = [arg for arg in value.args if is_conditional(graph, arg)]
    match value.op:
        case "guard":
            inner = _name_under_conditions(graph, value.args[0], entry)
            return None if inner is None else graph.guard(value.data, inner)
        case "mul" if len(parts) == 1:
            return _name_under_conditions(graph, parts[0], entry)
        case "add" if all(term.op == "guard" for term in value.args) and _are_disjoint(value.args):
            terms = [_name_under_conditions(graph, term, entry) for term in value.args]
            return None if None in terms else graph.add([term for term in terms if term is not None])
        case "select" if value.args[0].is_guard_free and any(map(graph.is_zero, value.args[1:])):
            sides = [
                side if graph.is_zero(side) else _name_under_conditions(graph, side, entry) for side in value.args[1:]
            ]
            return None if None in sides else graph.select(value.args[0], *(side for side in sides if side is not None))
    return None


def _are_disjoint(guards: Sequence[Node]) -> bool:
    """Return whether no two of `guards` can hold at once."""
    return all(is_empty((*one.data, *other.data)) for one, other in combinations(guards, 2))


def _is_zero(graph: Graph, node: Node) -> bool:
    """Return whether the result `node` is 0 at all entries."""
    return graph.is_zero(node.args[0] if node.op == "comprehension" else node)


def _total(contributions: list[Any]) -> Any:
    """Return the simplified sum of ``contributions``, a list of expressions; a single one is returned unchanged."""
    if len(contributions) == 1:
        return contributions[0]
    total = contributions[0]
    for contribution in contributions[1:]:
        total = total + contribution
    work = Differentiation(total, names=True, scans=True)
    return work.finish(work.root)
