"""The forward sweep: the tangent of every node from the tangents of its arguments.

The pullback of a scalar node is linear in the cotangent and has no other use for it, so the rules
of `derivative.pullbacks` are the pushforwards, too: the tangent of ``f(a, b)`` is the sum of
``pull(f, tangent of a, 0)`` and ``pull(f, tangent of b, 1)``. A read of a variable becomes the read
of its tangent at the same place, a read of a comprehension the read of the comprehension of
tangents; sums, ranges and guards stay around as they are. So the loops of the result are those of
the function, and no equation is to be solved. (Griewank & Walther 2008, *Evaluating Derivatives*,
section 3.1.)

Of whole tensors, an einsum is linear in each operand, and an element-wise rule is its own transpose; the others are the
derivatives of the inverse, of the cofactors and of log-sum-exp applied to a direction. Parts that are given entry by
entry are swept in index notation.

Each node is visited once, without recursion; a tangent that is zero is not built.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction

import sympy

from sympy_tensordiff.derivative.product_trees import directional, product_tree
from sympy_tensordiff.derivative.pullbacks import CONDITIONS, pull
from sympy_tensordiff.derivative.range_pullbacks import opened_product, share_among_ties
from sympy_tensordiff.derivative.tensor_pullbacks import DIRECT, axes_of, contraction, softmax
from sympy_tensordiff.derivative.tensor_sweep import ENTRYWISE, Names, closed_parts, diagonal_terms
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsum_normal_form import Label, Operand
from sympy_tensordiff.graph.einsums import entry, tensor_of
from sympy_tensordiff.graph.interning import Recursion, Shape, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.simplify.tables import tabulated


class Pushforward:
    """A forward sweep through an expression in index notation: computes its tangent, given the tangents of all
    variables at once.

    `tangents` maps each leaf to the terms of its tangent, tensors of its shape or scalars. Variables in `sizes` are
    never bound. The tangent of a leaf in `symmetric` is the mean of those of the two equal entries. `outer` are the
    variables of the directions' own axes, which are the last ones of the tangents.
    """

    def __init__(
        self,
        graph: Graph,
        tangents: Mapping[Node, Sequence[Node]],
        sizes: frozenset[int],
        symmetric: Container[Node] = (),
        outer: Sequence[int] = (),
    ) -> None:
        self.graph = graph
        self._outer_variables = frozenset(outer)
        self._outer = tuple(map(Affine.variable, outer))
        self._sizes = sizes
        self._symmetric = symmetric
        self._given = tangents
        self._done: dict[Node, Node] = {}
        self._written: dict[Node, tuple[tuple[int, ...], Node] | None] = {}

    def tangent(self, node: Node) -> Node:
        """Return the tangent of a scalar `node`; zero where it does not depend on a leaf."""
        return trampoline(self._visit(node))

    def _visit(self, node: Node) -> Recursion[Node]:
        """Return the tangent of `node`, from the cache or by the rule for its op."""
        if node not in self._done:
            if node.op in CONDITIONS:
                self._done[node] = self.graph.zero
            elif node in self._given and not node.shape and node.op != "tensor":
                self._done[node] = self.graph.add([self._entry_for_direction(table, ()) for table in self._given[node]])
            else:
                special = getattr(self, f"_{node.op}", self._all_arguments)
                self._done[node] = yield special(node)
        return self._done[node]

    def _all_arguments(self, node: Node) -> Recursion[Node]:
        """Return the tangent of `node` by the chain rule: the sum over its arguments of partial derivative times
        tangent.
        """
        parts = []
        for position, arg in enumerate(node.args):
            tangent = yield self._visit(arg)
            if tangent is not self.graph.zero:
                parts.append(pull(self.graph, node, tangent, position))
        return self.graph.add(parts)

    def _select(self, node: Node) -> Recursion[Node]:
        """Return the tangent of the select `node`: the select between the tangents of both branches."""
        condition, value, otherwise = node.args
        value = yield self._visit(value)
        otherwise = yield self._visit(otherwise)
        return self.graph.select(condition, value, otherwise)

    def _guard(self, node: Node) -> Recursion[Node]:
        """Return the tangent of a guard: the tangent of its body under the same constraints."""
        return self.graph.guard(node.data, (yield self._visit(node.args[0])))

    def _open(self, node: Node) -> tuple[tuple[int, ...], Rows, Node]:
        """Return ``(variables, constraints, body)`` of the sum or comprehension `node`. Its variables are renamed where
        they would clash with the index variables of the directions.
        """
        return self.graph.open_shared(node, self._outer_variables)

    def _sum(self, node: Node) -> Recursion[Node]:
        """Return the tangent of a sum over a range: the sum of the summand's tangent."""
        variables, rows, body = self._open(node)
        return self.graph.sum(variables, rows, (yield self._visit(body)))

    def _ein(self, node: Node) -> Recursion[Node]:
        """Return the tangent of an einsum or log-sum-exp with a scalar value, which is written out in index notation
        first.
        """
        tangent: Node = yield self._visit(entry(self.graph, node, ()))
        return tangent

    _lse = _ein

    def _max(self, node: Node) -> Recursion[Node]:
        """Return the tangent of a maximum or minimum over a range: the mean of the tangents of the values that attain
        it.
        """
        variables, rows, body = self._open(node)
        tangent = yield self._visit(body)
        return self.graph.sum(variables, rows, share_among_ties(self.graph, node, body, tangent))

    _min = _max

    def _prod(self, node: Node) -> Recursion[Node]:
        """Return the tangent of a product over a range: the sum of each factor's tangent times the others."""
        variables, rows, body, others = opened_product(self.graph, node)
        tangent = yield self._visit(body)
        return self.graph.sum(variables, rows, self.graph.mul((tangent, others)))

    def _call(self, node: Node) -> Recursion[Node]:
        """Return the tangent of the function call `node`, such as ``f(a, b)``, by the chain rule. The logarithm of a
        product is differentiated factor by factor: ``D log(a*b) = D log(a) + D log(b)``.

        The same holds for `mul` and `pow`; other functions have their slopes.
        """
        graph, argument = self.graph, node.args[0]
        op = argument.op if node.data is sympy.log and argument not in self._given else ""
        if op == "prod":
            variables, rows, body = graph.open(argument)
            return graph.sum(variables, rows, (yield self._visit(graph.call(sympy.log, (body,)))))
        if op == "mul":
            slopes = yield from in_turn(self._visit(graph.call(sympy.log, (factor,))) for factor in argument.args)
            return graph.add(slopes)
        if op == "pow" and argument.args[1].op == "const":
            return graph.mul((argument.args[1], (yield self._visit(graph.call(sympy.log, (argument.args[0],))))))
        tangent: Node = yield self._all_arguments(node)
        return tangent

    def _read(self, node: Node) -> Recursion[Node]:
        """Return the tangent of a read ``x[i]``: the same read of the tangent of ``x``; for a symmetric tensor the mean
        with the transposed read.
        """
        tensor = node.args[0]
        if tensor.op == "tensor" or tensor in self._given:
            tables = self._given.get(tensor, ())
            moved = self.graph.add([self._entry_for_direction(table, node.data) for table in tables])
            if tensor not in self._symmetric:
                return moved
            exchanged = self.graph.add([self._entry_for_direction(table, node.data[::-1]) for table in tables])
            return self.graph.scale(Fraction(1, 2), self.graph.add((moved, exchanged)))
        if tensor.op != "comprehension" and (written := entry(self.graph, tensor, node.data)) is not node:
            tangent: Node = yield self._visit(written)  # a tensor that depends on an index of a sum around it
            return tangent
        table = yield self._visit(tensor)
        return self._entry(table, node.data)

    def _comprehension(self, node: Node) -> Recursion[Node]:
        """Return the tangent of the comprehension `node`: the comprehension of its body's tangent, or the scalar zero
        if that is 0.
        """
        variables, _, body = self._open(node)
        entry = yield self._visit(body)
        return entry if entry is self.graph.zero else self.graph.comprehension(variables, node.data, entry)

    def _entry_for_direction(self, table: Node, index: Sequence[Affine]) -> Node:
        """Return the tangent of a variable's entry at `index` in the direction that the sweep computes. `table` is the
        tensor of the variable's tangents in all directions; its last axes number the directions.
        """
        return self._entry(table, (*index, *self._outer))

    def _entry(self, table: Node, index: Sequence[Affine]) -> Node:
        """Return the entry at `index` of the tensor of tangents `table`. Sparse terms of a comprehension, such as
        Kronecker deltas, are written out as formulas; dense terms are read from a comprehension that is computed once.
        """
        if table not in self._written:
            self._written[table] = None
            if table.op == "comprehension":
                variables, _, entry = self.graph.open(table)
                self._written[table] = variables, tabulated(self.graph, variables, table.data, entry, self._sizes)
        written = self._written[table]
        if written is None:
            return self.graph.read(table, index) if index and table is not self.graph.zero else table
        return self.graph.substitute(written[1], dict(zip(written[0], index, strict=True)))


class TensorPushforward:
    """A forward sweep (forward-mode differentiation) over operations on whole tensors. It computes tangents of nodes
    from those of the variables, for all directions at once.

    `tangents` maps each leaf to the terms of its tangent: scalars, or tensors of its shape followed by `outer`, the
    extents of the directions' own axes (none for a single direction, the shape of a variable for a Jacobian). Variables
    in `sizes` are never bound, `names` makes names for axes, and the nodes in `numbers` are finite wherever the
    function is.
    """

    def __init__(
        self,
        graph: Graph,
        tangents: Mapping[Node, Sequence[Node]],
        sizes: frozenset[int],
        names: Names,
        outer: Shape = (),
        numbers: Container[Node] = (),
    ) -> None:
        self.graph = graph
        self._sizes = sizes
        self._names = names
        self._outer = outer
        self._labels = axes_of(len(outer))
        self._numbers = numbers
        self._done = {leaf: graph.add(parts) for leaf, parts in tangents.items()}

    def tangent(self, node: Node) -> Node:
        """Return the tangent of `node`, with the axes of `node` first and those of the directions last; the scalar zero
        if the tangent is 0.
        """
        return trampoline(self._visit(node))

    def _visit(self, node: Node) -> Recursion[Node]:
        """Return the tangent of `node`, which is computed once and stored; the scalar zero if it is 0."""
        if node not in self._done:
            if node.op in ENTRYWISE:
                tangent = yield self._entries(node)
            else:
                args = yield from in_turn(self._visit(arg) for arg in node.args)
                tangent = self._rule(node, args)
            self._done[node] = self.graph.zero if self.graph.is_zero(tangent) else tangent
        return self._done[node]

    def _rule(self, node: Node, tangents: Sequence[Node]) -> Node:
        """Return the tangent of `node` from the `tangents` of its arguments; scalar zero if these are all zero."""
        graph = self.graph
        if all(tangent is graph.zero for tangent in tangents):
            return graph.zero
        if node.op == "ein":
            return self._contraction(node, tangents)
        if node.op in ("inv", "cof", "lse"):
            return self._matrix(node, tangents[0])
        if node.op == "select" and not self._outer:
            return graph.select(node.args[0], *tangents[1:])
        parts = []
        for position, (arg, tangent) in enumerate(zip(node.args, tangents, strict=True)):
            if tangent is graph.zero:
                continue
            if not self._outer:
                parts.append(pull(graph, node, graph.broadcast(tangent, node.shape), position))
                continue
            own = tuple(range(len(node.shape)))
            slope = graph.broadcast(pull(graph, node, graph.one, position), node.shape)
            labels = own if arg.shape else ()
            for term in diagonal_terms(graph, tangent):
                parts.append(self._product((term, (*labels, *self._labels)), slope, node))
        return graph.add(parts)

    def _product(self, tangent: Operand, slope: Node, node: Node) -> Node:
        """Return the product of `tangent`, the tangent of an argument of `node`, and `slope`, the derivative of `node`.
        It is 0 where the tangent is 0, even if the slope is infinite.
        """
        own = tuple(range(len(node.shape)))
        labels = (*own, *self._labels)
        extents = dict(zip(labels, (*node.shape, *self._outer), strict=True))
        certain = node in self._numbers
        return contraction(self.graph, tangent, [(slope, own)], labels, extents, certain=certain)

    def _contraction(self, node: Node, tangents: Sequence[Node]) -> Node:
        """Return the tangent of an einsum by the product rule: ``D(A*B) = dA*B + A*dB``."""
        graph = self.graph
        coefficient, inputs, output, extents = node.data
        moving = [tangent is not graph.zero for tangent in tangents]
        operands: list[Operand] = list(zip(node.args, inputs, strict=True))
        directions: list[Operand] = [(t, (*labels, *self._labels)) for t, labels in zip(tangents, inputs, strict=True)]
        sizes: dict[Label, Affine] = dict(enumerate(extents))
        sizes.update(zip(self._labels, self._outer, strict=True))
        is_elementwise = len(operands) <= DIRECT and len(set(map(frozenset, inputs))) == 1
        if is_view(node) or sum(moving) == 1 or is_elementwise or len(operands) == 2:
            parts = []
            for n, direction in enumerate(directions):
                if moving[n]:
                    factors = [*operands[:n], direction, *operands[n + 1 :]]
                    parts.append(graph.ein(coefficient, factors, (*output, *self._labels), sizes))
            return graph.add(parts)
        tree = product_tree(graph, operands, output, moving.__getitem__)
        given = [direction if moving[n] else None for n, direction in enumerate(directions)]
        tangent = directional(graph, tree, given, self._labels)
        return graph.ein(coefficient, [(tangent, (*tree.labels, *self._labels))], (*output, *self._labels), sizes)

    def _matrix(self, node: Node, tangent: Node) -> Node:
        """Return the tangent of an inverse, a cofactor or a log-sum-exp.

        D inv(X)[H] = -inv(X) H inv(X), D cof(k, X)[H] = cof(k + 1, X) : H, D lse(X)[H] = sum(softmax(X) H).
        """
        graph, outer = self.graph, self._labels
        if node.op == "inv":
            batch = tuple(range(4, 2 + len(node.shape)))
            factors = [(node, (*batch, 0, 1)), (tangent, (*batch, 1, 2, *outer)), (node, (*batch, 2, 3))]
            return graph.ein(-1, factors, (*batch, 0, 3, *outer))
        own = tuple(range(len(node.shape)))
        if node.op == "cof":
            derivative = graph.cofactor(node.data + 1, node.args[0])
            batch = own[: len(node.args[0].shape) - 2]
            return graph.ein(1, [(derivative, (*own, "a", "b")), (tangent, (*batch, "a", "b", *outer))], (*own, *outer))
        labels = tuple(range(len(node.args[0].shape)))
        operands: list[Operand] = [(softmax(graph, node), labels), (tangent, (*labels, *outer))]
        return graph.ein(1, operands, [*(axis for axis in labels if axis not in node.data), *outer])

    def _entries(self, node: Node) -> Recursion[Node]:
        """Return the tangent of a `node` in index notation; the whole tensors that it reads get their tangents from
        this sweep.
        """
        graph = self.graph
        variables: tuple[int, ...] = ()
        body = node
        if node.op == "comprehension":
            variables, _, body = graph.open(node)
        tangents = {}
        for part in closed_parts(body, frozenset(variables), node):
            tangent = yield self._visit(part)
            tangents[part] = [] if tangent is graph.zero else [tangent]
        outer = tuple(graph.fresh(name) for name in self._names(len(self._outer)))
        entry = Pushforward(graph, tangents, self._sizes, outer=outer).tangent(body)
        if entry is graph.zero:
            return entry
        return tensor_of(graph, (*variables, *outer), (*node.shape, *self._outer), entry)
