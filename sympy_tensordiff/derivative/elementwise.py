"""Derivatives of expressions, SymPy in and SymPy out, by one sweep each.

`Differentiation` holds the state that the derivatives of one call share: the graph, the facts of its input, the
result's last simplification. Everything that leaves is again an expression of the same classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from fractions import Fraction
from html import escape
from itertools import chain, islice
from itertools import count as count_up
from typing import Any

import sympy

from sympy_tensordiff.derivative.pushforward import Pushforward, TensorPushforward
from sympy_tensordiff.derivative.sweep import Sweep
from sympy_tensordiff.derivative.tensor_sweep import TensorSweep
from sympy_tensordiff.errors import ShapeError, UnsupportedError
from sympy_tensordiff.graph.einsums import entry, written_out
from sympy_tensordiff.graph.interning import no_collection
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import write, write_all
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.rows import Rows, ranges, shape_rows
from sympy_tensordiff.simplify.components import with_sums_over_components
from sympy_tensordiff.simplify.einsums import without_sparse_operands
from sympy_tensordiff.simplify.facts import size_variables
from sympy_tensordiff.simplify.node_properties import FiniteNodes
from sympy_tensordiff.simplify.pipeline import checked_facts, is_whole, read_function, simplify_derivatives
from sympy_tensordiff.symbolic.conversion.lift import lift_native
from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.expressions.base import TensorNode as Base
from sympy_tensordiff.symbolic.expressions.base import no_variable, refuse_array
from sympy_tensordiff.symbolic.expressions.traversal import named_in, names_in
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorEntry, TensorExpr, TensorSymbol
from sympy_tensordiff.symbolic.recurrences.scans import Scan

AXES = "pqrstuvw"
"""Names for the axes of a variable that is differentiated by, where the expression leaves them free."""


class Differentiation:
    """The state shared by all derivatives of one expression: its graph, the reader that converted it from SymPy, and
    the known constraints on its sizes and indices.

    The extents of the inputs in `also` (such as a cotangent) and of the tensors in `by` (the variables) count as facts.
    With `names`, named expressions are variables rather than their definitions; with `scans`, scans are variables, and
    are refused otherwise.
    """

    @no_collection()
    def __init__(self, expr: Any, *also: Any, by: Sequence[Any] = (), names: bool = False, scans: bool = False) -> None:
        self.graph = Graph()
        self.keeps_names = names
        self.reader = Reader(self.graph, names=names, scans="leaf" if scans else "")
        self.reader.use((expr, *also, *by))
        given, (self.root, *self.inputs) = read_function(self.reader, (expr, *also))
        tensors = self._tensors(by)
        self.facts = checked_facts(self.reader, given, [self.root, *self.inputs, *tensors])
        whole = [self.reader.tensor(v) for v in map(self.variable, by) if isinstance(v, TensorSymbol)]
        if "add" in self.graph.kinds:
            self.root = with_sums_over_components(self.graph, [self.root], whole)[0]
        self.names = names_in([expr, *also])
        self._values: tuple[Node, ...] = ()
        self._sizes: tuple[tuple[Node, ...], frozenset[int]] = (), frozenset()

    def of(self, node: Node) -> Differentiation:
        """Return a copy of this `Differentiation` for another expression, the `node` of the same graph."""
        other = copy(self)
        other.root = node
        return other

    def states_of_derivatives(self, nodes: Sequence[Node]) -> list[Differentiation]:
        """Return one `Differentiation` for each of `nodes`, which are derivatives of this expression that will be
        differentiated again. It assumes that the value of this expression is finite, which saves guards against
        ``0*nan``.
        """
        values = self.root, self.simplified(self.root)
        states = [self.of(node) for node in nodes]
        for state in states:
            state._values = values
        return states

    @property
    def is_whole(self) -> bool:
        """Return whether the expression contains operations on whole tensors, not index notation alone."""
        return is_whole(self.root)

    # -------------------------------------------------------------- leaves

    def variable(self, wrt: Any) -> Any:
        """Return the variable `wrt` as an object of this package: SymPy's `IndexedBase` ``x``, for instance, as the
        tensor with the name ``x``.
        """
        if isinstance(wrt, Base):
            return wrt
        refuse_array(wrt)
        return lift_native(wrt, self.reader.tensors.values())

    def _tensors(self, variables: Sequence[Any]) -> list[Node]:
        """Return the nodes of the tensors among `variables`; an entry ``x[i]`` counts as its tensor ``x``."""
        lifted = [self.variable(v) for v in variables]
        found = [v.tensor if isinstance(v, TensorEntry) else v for v in lifted]
        scans = [self.reader.scan_leaf(v) for v in found if isinstance(v, Scan)]
        return scans + [self.reader.tensor(v) for v in found if isinstance(v, (TensorSymbol, NamedTensor))]

    def leaf(self, wrt: Any) -> Node:
        """Return the node of the variable `wrt`, a tensor or a real scalar symbol.

        Raises `UnsupportedError`, or an argument error, for a variable that nothing can be differentiated by.
        """
        wrt = self.variable(wrt)
        if isinstance(wrt, Scan):
            return self.reader.scan_leaf(wrt)
        if isinstance(wrt, NamedTensor) and not self.keeps_names:
            raise UnsupportedError(
                f"{wrt} is the name of an expression: td.gradient, td.vjp, td.jvp and td.hvp differentiate with "
                "respect to it; for "
                f"other derivatives, put a TensorSymbol in the place of {wrt}"
            )
        if isinstance(wrt, (TensorSymbol, NamedTensor)):
            if wrt.dtype is int:
                raise UnsupportedError(
                    f"nothing has a derivative with respect to {wrt}, a tensor of integers: between two integers "
                    "there is no value; "
                    "differentiate with respect to tensors of real numbers"
                )
            return self.reader.tensor(wrt)
        if isinstance(wrt, sympy.Symbol) and not self.reader.is_integer(wrt):
            return self.reader.read(wrt)
        if isinstance(wrt, TensorExpr):
            raise UnsupportedError(
                f"cannot differentiate with respect to {wrt}: it is an expression; name it as a TensorSymbol"
            )
        raise no_variable(wrt)

    def extents(self, leaf: Node) -> tuple[Affine, ...]:
        """Return the extents of the axes of the variable `leaf`; () for a scalar."""
        return leaf.data[1] if leaf.op == "tensor" else ()

    def axes(self, count: int, avoid: Sequence[str] = ()) -> list[str]:
        """Return `count` names for new indices of a result, such as ``p`` and ``q``; none occurs in the expression or
        in `avoid`.
        """
        names = [name for name in AXES if name not in self.names and name not in avoid]
        more = (name for n in count_up() if (name := f"p_{n}") not in self.names and name not in avoid)
        return [*islice(chain(names, more), count)]

    # -------------------------------------------------------------- results

    def finish(self, node: Node, facts: Sequence[Constraint] = ()) -> Any:
        """Return the derivative `node`, simplified under the further constraints `facts`, as a SymPy expression."""
        return write(self.reader, self.simplified(node, facts))

    def finish_all(self, nodes: Sequence[Node]) -> list[Any]:
        """Return the derivatives `nodes`, simplified, as SymPy expressions that share common subexpressions."""
        return write_all(self.reader, self.simplified_all(nodes))

    def simplified(self, node: Node, facts: Sequence[Constraint] = ()) -> Node:
        """Return the derivative `node` simplified, given the known constraints on the input and the further constraints
        `facts`.
        """
        return self.simplified_all([node], facts)[0]

    @no_collection()
    def simplified_all(self, nodes: Sequence[Node], facts: Sequence[Constraint] = ()) -> list[Node]:
        """Return the derivatives `nodes` simplified, given the known constraints on the input and the further
        constraints `facts`.
        """
        function = (self.root, *self.inputs)
        return simplify_derivatives(self.graph, nodes, (*self.facts, *facts), self.sizes(), function)

    def sizes(self) -> frozenset[int]:
        """Return the variables that are sizes, such as ``n`` in a shape ``(n, 3)``; sums never bind them."""
        nodes = (*self.reader.leaves(), self.root, *self.inputs)
        if self._sizes[0] != nodes:
            self._sizes = nodes, size_variables(nodes)
        return self._sizes[1]

    def pullbacks(self, leaves: Sequence[Node], cotangent: Node) -> list[Node]:
        """Return the cotangents of the variables `leaves`, as tensors of their shapes, for the given `cotangent` of the
        expression. One reverse sweep computes all of them.
        """
        if self.is_whole:
            sweep = self.tensor_sweep(leaves).start(self.root, cotangent, numbers=self.finite_nodes(self.root))
            return [self.symmetric_part(leaf, sweep.of(leaf)) for leaf in leaves]
        return self.pullbacks_of_entries(leaves, lambda axes: self.graph.read(cotangent, [*map(Affine.variable, axes)]))

    def pullbacks_of_entries(self, leaves: Sequence[Node], cotangent: Callable[[Sequence[int]], Node]) -> list[Node]:
        """Return the cotangents of `leaves` for an expression in index notation. `cotangent` is a function: given the
        index variables of the expression's axes, it returns the cotangent of the entry there.
        """
        axes, rows, body = self.entry()
        sweep = self.entrywise_sweep(leaves, axes, rows, body, cotangent(axes))
        return [self.tabulate(leaf, sweep) for leaf in leaves]

    def entrywise_sweep(
        self, leaves: Sequence[Node], axes: Sequence[int], rows: Rows, body: Node, cotangent: Node
    ) -> Sweep:
        """Return the reverse sweep, already run, from one entry of the expression to `leaves`. The entry is `body`,
        with the index variables `axes` in the ranges `rows`; `cotangent` is its cotangent.
        """
        numbers = self.finite_nodes(self.root if rows else body)
        return Sweep(self.graph, leaves, self.sizes()).start(axes, rows, body, cotangent, numbers)

    def finite_nodes(self, root: Node) -> FiniteNodes:
        """Return the set of the nodes below `root` that are finite whenever `root` is. Such a node times a cotangent of
        0 is exactly 0, so that the product needs no guard.
        """
        return FiniteNodes(self.graph, root, self._values)

    def tensor_sweep(self, leaves: Sequence[Node]) -> TensorSweep:
        """Return a new, not yet started reverse sweep over whole tensors (not entries) to `leaves`."""
        return TensorSweep(self.graph, leaves, self.sizes(), self.axes)

    def pushforward(self, leaves: Sequence[Node], directions: Sequence[Node]) -> Node:
        """Return the tangent (jvp) of the expression if each of `leaves` moves in the direction at the same position of
        `directions`. A leaf that is given twice moves in the sum of both directions.
        """
        tangents: dict[Node, list[Node]] = {}
        for leaf, tangent in zip(leaves, directions, strict=True):
            tangents.setdefault(leaf, []).append(self.symmetric_part(leaf, tangent) if self.is_whole else tangent)
        if self.is_whole:
            found = TensorPushforward(self.graph, tangents, self.sizes(), self.axes).tangent(self.root)
            return self.graph.broadcast(found, self.root.shape)
        axes, _, body = self.entry()
        shape = self.root.shape
        node = Pushforward(self.graph, tangents, self.sizes(), self.graph.symmetric).tangent(body)
        return self.graph.comprehension(axes, shape, node) if shape else node

    def tabulate(self, leaf: Node, sweep: Sweep) -> Node:
        """Return the cotangent of `leaf` in a finished `sweep`, as a tensor over the axes of the leaf."""
        extents = self.extents(leaf)
        axes = [self.graph.fresh(name) for name in self.axes(len(extents))]
        entry = self.cotangent_at(sweep, leaf, [Affine.variable(v) for v in axes])
        return self.graph.comprehension(axes, extents, entry) if extents else entry

    def cotangent_at(self, sweep: Sweep, leaf: Node, index: Sequence[Affine]) -> Node:
        """Return the derivative with respect to ``leaf[index]``, read from a finished `sweep`; for a symmetric `leaf`
        the mean with ``leaf[index[::-1]]``.
        """
        graph = self.graph
        entry = sweep.at(leaf, index)
        if leaf not in graph.symmetric:
            return entry
        return graph.scale(Fraction(1, 2), graph.add((entry, sweep.at(leaf, index[::-1]))))

    def symmetric_part(self, leaf: Node, node: Node) -> Node:
        """Return ``(node + node.T)/2`` if `leaf` is declared symmetric, since a symmetric matrix can only change
        symmetrically; else `node`.

        That is the projection onto the space in which a symmetric matrix moves, in the last two axes of `node`.
        """
        graph = self.graph
        if leaf not in graph.symmetric or not node.shape or graph.symmetric.get(node):
            return node
        half = Fraction(1, 2)
        if node.op != "comprehension":
            labels = range(len(node.shape))
            exchanged = graph.ein(1, [(node, labels)], (*labels[:-2], labels[-1], labels[-2]))
            return graph.scale(half, graph.add((node, exchanged)))
        variables, _, body = graph.open(node)
        p, q = variables[-2:]
        exchanged = graph.substitute(body, {p: Affine.variable(q), q: Affine.variable(p)})
        return graph.comprehension(variables, node.shape, graph.scale(half, graph.add((body, exchanged))))

    def entry(self) -> tuple[Sequence[int], Rows, Node]:
        """Return ``(axes, ranges, entry)``: new index variables ``axes``, the constraints on them, and the formula of
        the expression's entry at these indices. For a scalar, ``((), (), scalar)``.
        """
        graph, root = self.graph, self.root
        if root.op == "comprehension":
            return graph.open(root)
        if root.op == "tensor":
            extents = root.data[1]
            axes = [graph.fresh(name) for name in self.axes(len(extents))]
            return axes, ranges(axes, extents), graph.read(root, [Affine.variable(v) for v in axes])
        return (), (), root

    def jacobian(self, leaf: Node) -> Node:
        """Return the Jacobian with respect to `leaf`: axes of the value first, axes of the variable last."""
        return self.jacobians([leaf])[0]

    def jacobians(self, leaves: Sequence[Node]) -> list[Node]:
        """Return the Jacobians with respect to `leaves`. Those of operations on whole tensors come out of one common
        sweep.
        """
        return self.jacobians_with_pullbacks(leaves)[0]

    def jacobians_with_pullbacks(self, leaves: Sequence[Node]) -> tuple[list[Node], dict[Node, Node]]:
        """Return the Jacobians with respect to `leaves`, and a dictionary from the nodes that the sweep visits to the
        Jacobians with respect to them (in index notation, of `leaves` only).
        """
        if not self.is_whole:
            results = [self.entrywise_jacobian(leaf) for leaf in leaves]
            return results, dict(zip(leaves, results, strict=True))
        shape = self.root.shape
        unit = self.graph.delta(shape) if shape else self.graph.one
        sweep = self.tensor_sweep(leaves).start(self.root, unit, shape, self.finite_nodes(self.root))
        return [self.symmetric_part(leaf, sweep.of(leaf)) for leaf in leaves], sweep.cotangents

    def forward_jacobian(self, leaf: Node) -> Node:
        """Return the Jacobian with respect to `leaf` by forward mode, with the same axes as `jacobian`."""
        graph, extents = self.graph, self.extents(leaf)
        shape = (*self.root.shape, *extents)
        unit = graph.delta(extents) if extents else graph.one
        if self.is_whole:
            tangents = {leaf: [self.symmetric_part(leaf, unit)]}
            sweep = TensorPushforward(graph, tangents, self.sizes(), self.axes, extents, self.finite_nodes(self.root))
            tangent = sweep.tangent(self.root)
            return graph.filled(0, shape) if tangent is graph.zero else graph.broadcast(tangent, shape)
        value_axes, _, body = self.entry()
        axes = self.leaf_axes(leaf, value_axes)
        if extents:
            both = *(graph.fresh(graph.names[v]) for v in axes), *axes
            unit = graph.comprehension(both, unit.shape, entry(graph, unit, [*map(Affine.variable, both)]))
        node = Pushforward(graph, {leaf: [unit]}, self.sizes(), graph.symmetric, axes).tangent(body)
        return graph.comprehension((*value_axes, *axes), shape, node) if shape else node

    def leaf_axes(self, leaf: Node, value_axes: Sequence[int]) -> list[int]:
        """Return new index variables for the axes of `leaf`, with names that differ from those of the variables
        `value_axes`.
        """
        graph = self.graph
        names = self.axes(len(self.extents(leaf)), [graph.names[v] for v in value_axes])
        return [graph.fresh(name) for name in names]

    def entrywise_jacobian(self, leaf: Node) -> Node:
        """Return the Jacobian of an expression in index notation: axes of the value first, then those of `leaf`."""
        graph = self.graph
        value_axes, _, body = self.entry()
        shape = self.root.shape
        axes = self.leaf_axes(leaf, value_axes)
        sweep = self.entrywise_sweep([leaf], (), (), body, graph.one)
        node = self.cotangent_at(sweep, leaf, [Affine.variable(v) for v in axes])
        shape = (*shape, *self.extents(leaf))
        return graph.comprehension((*value_axes, *axes), shape, node) if shape else node

    def derivative(self, variable: Any) -> tuple[Node, tuple[Constraint, ...]]:
        """Return the derivative with respect to `variable` (a tensor, an entry ``x[i]`` or a scalar), and the
        constraints ``0 <= i < n`` if it is an entry.

        With respect to an entry it has the shape of the expression, else it is the Jacobian.
        """
        variable = self.variable(variable)
        if not isinstance(variable, TensorEntry):
            return self.jacobian(self.leaf(variable)), ()
        if not isinstance(variable.tensor, TensorSymbol):
            raise UnsupportedError(f"cannot differentiate with respect to {variable}: it is an entry of an expression")
        leaf = self.leaf(variable.tensor)
        index = [self.reader.affine(i) for i in variable.indices]
        facts = shape_rows(index, self.extents(leaf))
        if self.is_whole:
            return self.by_entry(leaf, index), facts
        axes, _, body = self.entry()
        shape = self.root.shape
        sweep = self.entrywise_sweep([leaf], (), (), body, self.graph.one)
        node = self.cotangent_at(sweep, leaf, index)
        return self.graph.comprehension(axes, shape, node) if shape else node, facts

    def by_entry(self, leaf: Node, index: Sequence[Affine]) -> Node:
        """Return the derivative of a whole-tensor expression with respect to ``leaf[index]``.

        Of a scalar that is the entry of its gradient.
        """
        graph = self.graph
        if not self.root.shape:
            (gradient,) = without_sparse_operands(graph, self.pullbacks([leaf], graph.one))
            return written_out(graph, gradient, index)
        axes = [graph.fresh(name) for name in self.axes(len(index))]
        rows = [Constraint("eq", Affine.variable(v) - form) for v, form in zip(axes, index, strict=True)]
        unit = graph.guard(rows, graph.one)
        return self.pushforward([leaf], [graph.comprehension(axes, leaf.shape, unit) if axes else unit])


def entry_derivative(expr: Any, variable: Any) -> Any:
    """Return the derivative of `expr` with respect to `variable`: an entry ``A[p, q]``, a scalar symbol, or a whole
    tensor (then `expr` is one too). SymPy's ``diff`` calls it for the classes of this package.
    """
    work = Differentiation(expr, by=(variable,))
    return work.finish(*work.derivative(variable))


def check_shape(tensor: Any, like: Any, what: str) -> None:
    """Raise `ShapeError` unless `tensor`, which the message calls `what`, has the shape of `like`."""
    got, wanted = getattr(tensor, "shape", ()), getattr(like, "shape", ())
    if len(got) != len(wanted) or any(sympy.expand(a - b) != 0 for a, b in zip(got, wanted, strict=True)):
        raise ShapeError(f"{what} has shape {tuple(got)}, but {tuple(wanted)} is needed: the shape of {like}")


class Derivatives(tuple[Any, ...]):
    """A tuple of derivatives, which Jupyter shows as formulas one below the other."""

    __slots__ = ()

    @property
    def flat(self) -> list[Any]:
        """The derivatives in one flat list, with the rows of a Hessian one after another."""
        return [part for row in self for part in (row if isinstance(row, Derivatives) else (row,))]

    def _repr_latex_(self) -> str:
        """Return the derivatives as one LaTeX formula."""
        return rf"$\displaystyle {hooks.formula(self.flat)}$"

    def _repr_html_(self) -> str:
        """Return the derivatives as an HTML table for notebooks: a Hessian in its rows and columns, other derivatives
        in one column.

        Derivatives with named parts are one formula, followed by the meaning of the names.
        """
        rows = (row if isinstance(row, Derivatives) else (row,) for row in self)
        table = [[hooks.formula([part]) for part in row] for row in rows]
        if named_in(self.flat):
            table = [[hooks.formula(self.flat)]]
        cells = ("".join(f"<td>$\\displaystyle {escape(part)}$</td>" for part in row) for row in table)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
