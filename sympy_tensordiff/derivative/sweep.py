"""The reverse sweep over index notation, and Algorithm 4 at reads.

The cotangent of a node is a scalar expression in the indices that the node uses, together with
the rows that say where it is meant. Where a consumer uses more indices than the node, the
cotangent is first summed over those (staging): each is a function of its own, so the loops of
nested sums do not multiply (Urban & van der Smagt 2017, Algorithm 4, joins them into one system).
At a sum, the summation index joins the indices of its body and the cotangent goes down unchanged;
the sum itself stays in the values (eqs. (48)-(50); (51) would put one summand in its place). At a
read ``x[A v + c]`` the cotangent of the tensor is the sum over all ``v`` with ``A v + c = beta``.

Nodes are taken by falling depth, so each is visited once, after all its consumers, without
recursion. No Jacobian is built, and a cotangent that is zero is not handed on.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sympy_tensordiff.derivative.pullbacks import CONDITIONS, pull, pull_through_choices
from sympy_tensordiff.derivative.range_pullbacks import EXTREMA, product_pullback, share_among_ties
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.clamps import split_all_clamps
from sympy_tensordiff.integer.floor_elimination import relax_to_affine
from sympy_tensordiff.integer.fourier_motzkin import constraints_on_union, project, project_exactly
from sympy_tensordiff.integer.rows import Rows, atoms_in, normalise_rows, partition
from sympy_tensordiff.simplify.deltas import summation
from sympy_tensordiff.simplify.node_properties import is_conditional, may_be_infinite
from sympy_tensordiff.simplify.tables import tabulated

Contribution = TypeVar("Contribution")
Run = TypeVar("Run", bound="ReverseSweep[Any]")

FACES = 16
"""The maximal number of constraints of a projection: four indices can have hundreds of faces."""


class ReverseSweep(Generic[Contribution]):
    """The common base of both reverse sweeps. It visits each node once, after all contributions to its cotangent are
    known.

    `leaves` are the tensors and scalars to differentiate with respect to. Variables in `sizes` are never bound. The
    nodes in `constants` do not depend on a leaf, so nothing below them is visited.
    """

    def __init__(
        self, graph: Graph, leaves: Iterable[Node], sizes: frozenset[int], constants: Iterable[Node] = ()
    ) -> None:
        self.graph = graph
        self._sizes = sizes
        self._leaves = set(leaves)
        self._active = {**dict.fromkeys(constants, False), **dict.fromkeys(self._leaves, True)}
        self._contributions: dict[Node, list[Contribution]] = {}
        self._heap: list[tuple[int, bool, int, Node]] = []
        self._numbers: Container[Node] = ()

    def _visit(self, node: Node) -> None:
        """Add the contributions of `node`, whose own cotangent is complete, to the cotangents of its arguments."""
        raise NotImplementedError

    def _run(self: Run) -> Run:
        """Visit all nodes that have contributions, deepest first; return the sweep itself."""
        while self._heap:
            self._visit(heapq.heappop(self._heap)[3])
        return self

    def _push(self, node: Node) -> None:
        """Put `node` into the queue of nodes to visit."""
        heapq.heappush(self._heap, (-node.depth, _multiple(self.graph, node) is None, -node.id, node))

    def _contribute(self, node: Node, contribution: Contribution) -> None:
        """Add `contribution` to the contributions to the cotangent of `node`. With the first one, `node` enters the
        queue of nodes to visit.
        """
        if node not in self._contributions:
            self._contributions[node] = []
            self._push(node)
        self._contributions[node].append(contribution)

    def _is_active(self, node: Node) -> bool:
        """Return whether `node` depends on a leaf of the differentiation. Dependence through a condition alone does
        not count.
        """
        active = self._active
        for part in reachable(node, known=active) if node not in active else ():
            active[part] = part.op not in CONDITIONS and any(active[arg] for arg in part.args)
        return active[node]


class Sweep(ReverseSweep[tuple[Rows, Node]]):
    """One reverse sweep over index notation, from a scalar or the entries of a tensor to all of ``leaves``."""

    def __init__(
        self, graph: Graph, leaves: Iterable[Node], sizes: frozenset[int], constants: Iterable[Node] = ()
    ) -> None:
        super().__init__(graph, leaves, sizes, constants)
        # A bound variable of the sweep with its place in the order in which sums lose them.
        self._bound: dict[int, tuple[int, int]] = {}
        self._reads: dict[Node, list[tuple[Rows, Node, tuple[Affine, ...]]]] = {}

    # -------------------------------------------------------------- in and out

    def start(
        self,
        variables: Sequence[int],
        rows: Rows,
        body: Node,
        cotangent: Node,
        numbers: Container[Node],
    ) -> Sweep:
        """Begin the reverse sweep at `body`, the entry of the function at the indices `variables` in the ranges `rows`,
        with its cotangent `cotangent`; run it, and return this sweep. `numbers` are nodes that are finite wherever the
        function is.
        """
        self._numbers = numbers
        self._bind(variables, 0)
        self._add_cotangent(body, rows, cotangent)
        return self._run()

    def at(self, leaf: Node, index: Sequence[Affine]) -> Node:
        """Return the cotangent of the entry ``leaf[index]`` of the variable ``leaf``. If ``leaf`` is a scalar, the
        index is empty.
        """
        parts = self._reads.get(leaf, ())
        return self.graph.add([self._gather(leaf, *part, index, frozenset()) for part in parts])

    # -------------------------------------------------------------- the sweep

    def _add_cotangent(self, node: Node, rows: Rows, cotangent: Node) -> None:
        """Add `cotangent`, under the constraints `rows`, to the cotangent of `node`; do nothing if it is 0 or if `node`
        does not depend on a leaf.
        """
        if cotangent is not self.graph.zero and self._is_active(node):
            self._contribute(node, (rows, cotangent))

    def _visit(self, node: Node) -> None:
        """Merge the contributions to the cotangent of `node`, and pass the result on to its arguments."""
        if node.op == "comprehension":
            self._pass_to_body(node)
            return
        for rows, cotangent in self._merged(node, self._contributions.pop(node)):
            if cotangent is not self.graph.zero:
                self._pass_on(node, rows, cotangent)

    def _pass_on(self, node: Node, rows: Rows, cotangent: Node) -> None:
        """Add the contributions of `node` to the cotangents of its arguments. `cotangent` is the cotangent of `node`
        where the constraints `rows` are true. If `node` is a leaf, store its cotangent as a result instead.
        """
        if node in self._leaves:
            self._reads.setdefault(node, []).append((rows, cotangent, ()))
        elif node.op == "read":
            self._read(node, rows, cotangent)
        elif node.op == "guard":
            self._add_cotangent(node.args[0], rows + node.data, cotangent)
        elif node.op in RANGED:
            self._reduction(node, rows, cotangent)
        elif (product := _multiple(self.graph, node)) is not None:
            # ``u`` and ``-u`` have one cotangent, whose terms are collected.
            self._add_cotangent(product[1], rows, self.graph.scale(product[0], cotangent))
        elif node.op in ("ein", "lse"):  # a scalar of whole tensors inside of a sum
            self._add_cotangent(entry(self.graph, node, ()), rows, cotangent)
        else:
            for position, arg in enumerate(node.args):
                if self._is_active(arg):
                    self._add_cotangent(arg, rows, self._pulled(node, cotangent, position))

    def _pulled(self, node: Node, cotangent: Node, position: int) -> Node:
        """Return the cotangent of the argument of `node` at `position`, exactly 0 where `cotangent` is 0, even if the
        slope is infinite or undefined there.
        """

        def rule(part: Node) -> Node:
            """Return the contribution of ``node`` to the cotangent of its argument at ``position``, if `part` is the
            cotangent of ``node``, or a branch or term of it.
            """
            return pull(self.graph, node, part, position)

        return pull_through_choices(self.graph, cotangent, rule, certain=node.total or node in self._numbers)

    def _reduction(self, node: Node, rows: Rows, cotangent: Node) -> None:
        """Pass the cotangent of `node`, a sum, product or extremum over a range, on to its body. ``rows`` are the
        constraints under which it is valid.
        """
        if node.op == "prod":
            variables, more, body, cotangent = product_pullback(self.graph, node, cotangent)
        else:
            variables, more, body = self.graph.open(node)
            if node.op in EXTREMA:
                cotangent = share_among_ties(self.graph, node, body, cotangent)
        self._bind(variables, 1)
        self._add_cotangent(body, rows + more, cotangent)

    def _read(self, node: Node, rows: Rows, cotangent: Node) -> None:
        """Record ``cotangent`` as a contribution of the read `node`, ``x[i]``, to the cotangent of the tensor ``x``. If
        ``x`` is the result of an operation on whole tensors, add it to the cotangent of the entry's formula instead.

        ``rows`` are the constraints under which the entry is read.

        Raises `UnsupportedError` for a matrix function that depends on an index around it.
        """
        tensor = node.args[0]
        if tensor.op not in ("tensor", "comprehension") and tensor not in self._leaves:
            written = entry(self.graph, tensor, node.data)
            if written is node:
                raise UnsupportedError(
                    f"a matrix that depends on an index around it has no derivative here: {tensor.op}"
                )
            self._add_cotangent(written, rows, cotangent)
            return
        if tensor not in self._reads:
            self._reads[tensor] = []
            if tensor.op == "comprehension" and tensor not in self._leaves:
                self._push(tensor)
        self._reads[tensor].append((rows, cotangent, node.data))

    def _pass_to_body(self, tensor: Node) -> None:
        """Pass the cotangents of all reads of the comprehension `tensor` on to its body, as the cotangent of
        its entry.
        """
        variables, rows, body = self.graph.open(tensor)
        self._bind(variables, 0)
        forms = [Affine.variable(v) for v in variables]
        self._add_cotangent(body, rows + self._constraints_around_reads(tensor), self._entry_cotangent(tensor, forms))

    def _constraints_around_reads(self, tensor: Node) -> Rows:
        """Return the constraints on sizes and outer indices that hold at every read of `tensor`."""
        known = []
        for rows, cotangent, read in self._reads[tensor]:
            used = cotangent.free | atoms_in((*read, *rows))
            projected = self._projected(rows, self._in_elimination_order(used - tensor.free))
            known += [] if projected is None else [projected]
        return tuple(row for row in known[0] if all(row in others for others in known[1:])) if known else ()

    def _entry_cotangent(self, tensor: Node, index: Sequence[Affine]) -> Node:
        """Return the cotangent of the comprehension `tensor` at `index`: the sum of the contributions of all reads of
        the tensor. It may be the entry of a table of these sums for all indices.

        A table is used for dense contributions that are finite or unconditional.
        """
        graph = self.graph
        keep = tensor.free & self._bound.keys()
        names = graph.hints[tensor.id]
        axes = [graph.fresh(name) for name in names]
        forms = [Affine.variable(v) for v in axes]
        entry = graph.add([self._gather(tensor, *part, forms, keep) for part in self._reads.pop(tensor)])
        certain = tensor in self._numbers and not may_be_infinite(tensor.args)
        if certain or not is_conditional(graph, entry):
            entry = tabulated(graph, axes, tensor.data, entry, self._sizes)
        return graph.substitute(entry, dict(zip(axes, index, strict=True)))

    def _gather(
        self,
        tensor: Node,
        rows: Rows,
        cotangent: Node,
        read: Sequence[Affine],
        index: Sequence[Affine],
        keep: frozenset[int],
    ) -> Node:
        """Return the contribution of one read ``tensor[read]`` to the cotangent of ``tensor[index]``: the sum of
        `cotangent`, the read's cotangent, over all points in `rows` with ``read == index``. Variables in `keep` are not
        summed over.

        This is Algorithm 4 of the paper: the equations ``read = index`` are solved for bound indices.
        """
        equations = [Constraint("eq", a - b) for a, b in zip(read, index, strict=True)]
        own, around = atoms_in(read), atoms_in(rows)
        dropped = self._in_elimination_order(cotangent.free.union(own, around) - keep)
        if not own.isdisjoint(dropped):
            # The tensor that was read there is the entry at the index: no solution says it as shortly.
            graph = self.graph
            cotangent = replace(graph, cotangent, {graph.read(tensor, read): graph.read(tensor, index)})
        return summation(self.graph, dropped, [*equations, *rows], cotangent)

    def _merged(self, node: Node, parts: Sequence[tuple[Rows, Node]]) -> Iterable[tuple[Rows, Node]]:
        """Add up the contributions `parts`, pairs ``(constraints, cotangent)``, to the cotangent of `node` as far as
        possible: those that can be summed over the indices that `node` does not use become one. Yield this one and all
        others.
        """
        staged = []
        for part in parts:
            found = self._sum_unused_indices(node, *part)
            if found is None:
                yield part
            elif found[1] is not self.graph.zero:
                staged.append(found)
        if staged:
            common = tuple(row for row in staged[0][0] if all(row in rows for rows, _ in staged[1:]))
            guard = self.graph.guard
            terms = [guard([row for row in rows if row not in common], cotangent) for rows, cotangent in staged]
            yield common, self.graph.add(terms)

    def _sum_unused_indices(self, node: Node, rows: Rows, cotangent: Node) -> tuple[Rows, Node] | None:
        """Sum ``cotangent``, a contribution to the cotangent of `node`, over all indices that do not occur in `node`
        (staging). Return ``(constraints, sum)``, with the constraints on the other indices.

        ``rows`` are the constraints on all indices. None if the sum may be empty where `node` is undefined, since such
        points must stay excluded. A contribution without result stays inside of its sum.
        """
        used = cotangent.free | atoms_in(rows)
        dropped = self._in_elimination_order(used - node.free)
        if not dropped:
            return rows, cotangent
        inner = partition(rows, dropped)[1]
        sharp = all(_projects_exactly(row, set(dropped)) for row in normalise_rows(rows) or ())
        outer = self._projected(rows, dropped)
        if outer is None:
            return (), self.graph.zero
        if not sharp and not node.total:
            # The projection may hold points where the sum is empty, and the function does not evaluate the node.
            exact = project_exactly(inner, dropped)
            if exact is None:
                return None
            outer += exact
        cotangent = summation(self.graph, dropped, inner, cotangent)
        if cotangent.op == "guard":
            outer, cotangent = outer + cotangent.data, cotangent.args[0]
        normal = normalise_rows(outer)
        return ((), self.graph.zero) if normal is None else (normal, cotangent)

    def _projected(self, rows: Rows, dropped: Sequence[int]) -> Rows | None:
        """Eliminate the variables `dropped` from the constraints `rows`: return the constraints that follow for the
        other variables (a projection). None if `rows` are found to contradict each other, so that there is nothing to
        sum.
        """
        gone = frozenset(dropped)
        outer, inner = partition(rows, gone)
        if all(row.form.atoms() <= gone for row in inner):
            return outer
        systems = split_all_clamps(self.graph.names, gone, inner)
        found = (project(relax_to_affine(system, gone), dropped, outer, FACES) for system in systems)
        projected = [rows for rows in found if rows is not None]
        if not projected:
            return None
        stays = atoms_in(inner) - gone
        return outer + constraints_on_union(projected, self._in_elimination_order(stays))

    # -------------------------------------------------------------- variables

    def _bind(self, variables: Sequence[int], kind: int) -> None:
        """Register `variables` as bound indices, of tensor axes (`kind` 0) or of sums (1), which determines the order
        in which they are eliminated.

        Variables of tensors are eliminated before those of sums, later ones before earlier ones.
        """
        for v in variables:
            self._bound[v] = (kind, -v)

    def _in_elimination_order(self, variables: Iterable[int]) -> list[int]:
        """Return those of `variables` that this sweep has bound, sorted in the order in which sums eliminate them."""
        return sorted((v for v in variables if v in self._bound), key=self._bound.__getitem__)


def _multiple(graph: Graph, node: Node) -> tuple[Number, Node] | None:
    """Return ``(number, product)`` if `node` is a number times a product of at least two factors; None for others."""
    if node.op != "mul" or node.args[0].op != "const" or len(node.args) < 3:
        return None
    return graph.split_coefficient(node)


def _projects_exactly(row: Constraint, variables: set[int]) -> bool:
    """Return whether eliminating `variables` from the constraint `row` (in lowest terms) is exact over the integers,
    and not only over the rationals.
    """
    if not row.form.hidden().isdisjoint(variables):
        return False
    unit = all(abs(row.form.coefficient(v)) <= 1 for v in variables)
    # Equations are solved exactly by the sum itself; the remaining constraints become guards.
    return row.kind == "eq" or (unit and (row.kind == "ge" or row.form.atoms().isdisjoint(variables)))
