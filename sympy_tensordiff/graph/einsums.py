"""Index notation that is an einsum, as whole tensors, and its inverse: one entry of a whole tensor, one level deep.

``[p == q] Sum_k A[p, k] x[k]`` over all of ``p, q`` is a view of a product. What reads a tensor at other
places than the indices themselves, runs over a part of a range, or uses an index as a number has no
whole form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.gathering import Label
from sympy_tensordiff.graph.interning import Recursion, Shape, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Row

Product: TypeAlias = list[tuple[Node, Sequence[int]]]
"""Whole tensors and the variables of their axes: their product is the scalar."""

ELEMENTWISE = frozenset({"add", "pow", "call", "compare", "and", "or", "not", "select"})

ONE = Affine.of(1)


def tensor_of(graph: Graph, axes: Sequence[int], shape: Shape, value: Node) -> Node:
    """The tensor of an entry: whole tensors for the terms that are einsums, a comprehension for the others."""
    if not shape:
        return value
    parts, rest, inside = [], [], frozenset(ranges(axes, shape))
    for term in value.args if value.op == "add" else (value,):
        if term.op == "guard":
            term = graph.guard([row for row in term.data if row not in inside], term.args[0])
        whole = Recognition(graph, dict(zip(axes, shape, strict=True))).tensor(term, axes)
        if whole is None:
            rest.append(term)
        else:
            parts.append(whole)
    if rest:
        parts.append(graph.comprehension(axes, shape, graph.add(rest)))
    return graph.add(parts)


def scalar_of(graph: Graph, node: Node) -> Node:
    """A sum in which no bound variable is free, as a contraction of whole tensors where it is one."""
    return Recognition(graph, {}).tensor(node, ()) or node


class Recognition:
    """A scalar below some variables as a product of whole tensors, whose axes these variables label.

    Parameters
    ----------
    graph : Graph
    extents : mapping of int to Affine
        The variables that label axes, in the order of the axes of what is returned.
    known : set of Affine, optional
        The extents that are known to be positive, which the ranges of sums must have. Where it is given, factors
        and terms that are not entries of whole tensors, beside others that are, become comprehensions.
    selected : collection of int
        Variables that no comprehension may have as an axis.
    """

    def __init__(
        self,
        graph: Graph,
        extents: Mapping[int, Affine],
        known: Collection[Affine] | None = None,
        selected: Collection[int] = (),
    ) -> None:
        self.graph = graph
        self.extents: dict[Label, Affine] = {v: extent for v, extent in extents.items()}
        self.known = known
        self.selected = selected
        self.refused: set[int] = set()
        self.units: set[int] = set()
        self._is_partial = known is not None
        self._done: dict[tuple[Node, bool], Product | None] = {}

    def tensor(self, node: Node, output: Sequence[int]) -> Node | None:
        """The tensor of the entry ``node`` at the variables ``output``; None where it has no whole form."""
        operands = trampoline(self._sum(node) if node.op == "sum" else self.visit(node))
        if operands is None:
            return None
        used = self._labels(operands)
        spare = [v for v in output if v not in used and self.extents[v] == ONE]
        units = dict(zip((v for v in used if v in self.units), spare, strict=False))
        return self._product([(arg, [units.get(v, v) for v in labels]) for arg, labels in operands], output)

    def _product(self, operands: Product, output: Sequence[int]) -> Node:
        """The product with some axes; squares that are summed are products, which the user wrote perhaps."""
        graph, parts = self.graph, Product()
        for node, labels in operands:
            square = node.op == "pow" and node.args[1] is graph.const(2) and not set(labels) <= set(output)
            parts += [(node.args[0], labels)] * 2 if square and self.known is not None else [(node, labels)]
        scalars = [] if output else [node for node, labels in parts if not labels]
        product = graph.ein(1, [part for part in parts if output or part[1]], output, self.extents)
        if self.known is not None:
            self._name(product, parts)
        return graph.mul([*scalars, product]) if scalars else product

    def _name(self, product: Node, operands: Product) -> None:
        """Note the names of the variables for the labels of a product, where its operands are those that are given."""
        core = product.args[0] if is_view(product) and product.args else product
        if not is_core(core):
            return
        waiting, names = list(operands), dict[int, str]()
        for node, own in zip(core.args, core.data.inputs, strict=True):
            found = next((operand for operand in waiting if operand[0] is node), None)
            if found is not None:
                waiting.remove(found)
                names |= {label: self.graph.names[v] for label, v in zip(own, found[1], strict=True)}
        if names:
            self.graph.hints[core.id] = tuple([names.get(label, "") for label in range(len(core.data.extents))])

    def visit(self, node: Node) -> Recursion[Product | None]:
        key = node, self._is_partial
        if key not in self._done:
            if all(v >= 0 and v not in self.extents for v in node.free):
                self._done[key] = [(node, ())]
            else:
                special = self._elementwise if node.op in ELEMENTWISE else getattr(self, f"_{node.op}", None)
                self._done[key] = None if special is None else (yield special(node))
        return self._done[key]

    def _read(self, node: Node) -> Recursion[Product | None]:
        graph, tensor = self.graph, node.args[0]
        if any(v < 0 or v in self.extents for v in tensor.free):
            if tensor.op != "comprehension" or self.known is None:
                return None
            product: Product | None = yield self.visit(graph.entry(tensor, node.data))
            return product
        labels = []
        for form, extent in zip(node.data, tensor.shape, strict=True):
            v = form.terms[0][0] if len(form.terms) == 1 else None
            if self.known is not None and extent == ONE and form == Affine.of(0):
                v = graph.fresh("u")
                self.extents[v] = extent
                self.units.add(v)
            elif not isinstance(v, int) or form != Affine.variable(v) or self.extents.get(v) != extent:
                return None
            labels.append(v)
        return [(tensor, labels)]

    def _mul(self, node: Node) -> Recursion[Product | None]:
        factors = yield self._fitted(node.args, self.graph.mul, self._connected)
        return None if factors is None else [operand for factor in factors for operand in factor]

    def _connected(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The nodes in groups that have variables of axes in common."""
        groups: list[tuple[frozenset[int], list[Node]]] = []
        for node in nodes:
            free = node.free & self.extents.keys()
            touching = [group for group in groups if group[0] & free]
            groups = [group for group in groups if group not in touching]
            groups.append((free.union(*(own for own, _ in touching)), [*(n for _, own in touching for n in own), node]))
        return [own for _, own in groups]

    def _fitted(
        self,
        nodes: Sequence[Node],
        join: Callable[[Sequence[Node]], Node] | None = None,
        groups: Callable[[Sequence[Node]], list[list[Node]]] = lambda nodes: [[*nodes]],
    ) -> Recursion[list[Product] | None]:
        """The products that nodes are, comprehensions for those that are none; None where no part fits."""
        found = yield from in_turn(self.visit(node) for node in nodes)
        fit = [part for part in found if part is not None]
        unfit = [node for node, part in zip(nodes, found, strict=True) if part is None]
        if not unfit:
            return fit
        if not self._is_partial or not any(map(self._labels, fit)):
            return None
        if join is None:
            found = [self._leaf(node) if part is None else part for node, part in zip(nodes, found, strict=True)]
        else:
            found = [*fit, *(self._leaf(join(group)) for group in groups(unfit))]
        parts = [part for part in found if part is not None]
        return parts if len(parts) == len(found) else None

    def _leaf(self, node: Node) -> Product | None:
        """A comprehension over the variables of axes that a node depends on."""
        axes = [v for v in self.extents if isinstance(v, int) and v in node.free]
        self.refused.update(v for v in axes if v in self.selected)
        if self.refused:
            return None
        return [(self.graph.comprehension(axes, [self.extents[v] for v in axes], node), axes)]

    def _labels(self, operands: Product) -> list[int]:
        used = {v for _, labels in operands for v in labels}
        return [v for v in self.extents if isinstance(v, int) and v in used]

    def _axes(self, products: Sequence[Product]) -> list[int]:
        """The labels of several products, in an order for which one of them is not transposed, if there is one."""
        axes = self._labels([operand for product in products for operand in product])
        orders = [list(product[0][1]) for product in products if len(product) == 1]
        orders = [order for order in orders if sorted(order) == sorted(axes)]
        return axes if axes in orders or not orders or self.known is None else orders[0]

    def _elementwise(self, node: Node) -> Recursion[Product | None]:
        partial, self._is_partial = self._is_partial, self._is_partial and node.op in ("add", "pow", "call")
        products = yield self._fitted(node.args, self.graph.add if node.op == "add" else None)
        self._is_partial = partial
        if products is None:
            return None
        if node.op == "add":
            return self._added(products)
        labels = self._axes(products)
        return [(self.graph.rebuild(node, [self._with_axes(product, labels) for product in products]), labels)]

    def _sum(self, node: Node) -> Recursion[Product | None]:
        graph = self.graph
        variables, rows, body = graph.open(node)
        extents = [_extent(v, rows) for v in variables]
        known = [extent for extent in extents if extent is not None]
        if len(known) != len(extents) or set(rows) != set(ranges(variables, known)):
            return None
        if any(v in self.extents or v in variables for extent in known for v in extent.atoms()):
            return None  # a triangle: the range depends on another index
        if self.known is not None and any(extent not in self.known and not _is_positive(extent) for extent in known):
            return None  # which may be empty
        self.extents.update(zip(variables, known, strict=True))
        if body.op == "add" and self.known is not None:
            terms = yield self._fitted(body.args, graph.add)
            if terms is not None and len({tuple(self._labels(term)) for term in terms}) > 1:
                return self._added([self._summed(term, variables) for term in terms])
        operands = yield self.visit(body)
        return None if operands is None else self._summed(operands, variables)

    def _summed(self, operands: Product, variables: Sequence[int]) -> Product:
        used = self._labels(operands)
        counts: Product = [(self.graph.index(self.extents[v]), ()) for v in variables if v not in used]
        over = [v for v in used if v in variables]
        if not over:
            return [*operands, *counts]
        inner = [operand for operand in operands if operand[1]]
        outer = [operand for operand in operands if not operand[1]]
        kept = [v for v in used if v not in over and v not in self.units]
        return [(self._product(inner, kept), kept), *outer, *counts]

    def _added(self, terms: Sequence[Product]) -> Product:
        labels = self._axes(terms)
        return [(self.graph.add([self._with_axes(term, labels) for term in terms]), labels)]

    def _with_axes(self, operands: Product, labels: Sequence[int]) -> Node:
        """A product as an operand: a tensor with the labels as axes, or a scalar."""
        return self.graph.ein(1, operands, labels if any(own for _, own in operands) else (), self.extents)

    def _guard(self, node: Node) -> Recursion[Product | None]:
        partial, self._is_partial = self._is_partial, False  # the rows may guard what a comprehension would read
        inner = yield self.visit(node.args[0])
        self._is_partial = partial
        if inner is None:
            return None
        operands = list(inner)
        implied = {row for v, extent in self.extents.items() if isinstance(v, int) for row in ranges((v,), (extent,))}
        for row in node.data:
            if row in implied:
                continue
            pair = [v for v, _ in row.form.terms if isinstance(v, int)]
            equal = row.kind == "eq" and len(pair) == 2 and row.form in (_difference(*pair), _difference(*pair[::-1]))
            if not equal or any(v not in self.extents for v in pair) or self.extents[pair[0]] != self.extents[pair[1]]:
                return None
            operands.append((self.graph.delta((self.extents[pair[0]],)), pair))
        return operands


def _difference(v: int, w: int) -> Affine:
    return Affine.variable(v) - Affine.variable(w)


def _is_positive(extent: Affine) -> bool:
    return extent.is_constant and extent.constant > 0


def _extent(v: int, rows: Sequence[Row]) -> Affine | None:
    """The extent of a variable that runs from 0."""
    for row in rows:
        if row.kind == "ge" and row.form.coefficient(v) == -1:
            return row.form + Affine.variable(v) + 1
    return None


OPAQUE = frozenset({"inv", "cof", "tensor", "comprehension"})
"""What has no index notation, or is in it already: it is read as it is."""


def entry(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """The entry of ``node`` at ``index``, in which the operands of ``node`` appear as reads.

    Labels that are summed become the variables of a sum, output labels that are repeated equations
    of a guard. Scalars are themselves.
    """
    if not node.shape and node.op not in ("ein", "lse"):
        return node
    if node.op in OPAQUE:
        return graph.read(node, index)
    if node.op == "ein":
        return _contraction(graph, node, index)
    if node.op == "lse":
        return _logsumexp(graph, node, index)
    args = [graph.read(arg, index) if arg.shape else arg for arg in node.args]
    return graph.rebuild(node, args)


def written_out(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """The entry of ``node`` at ``index``, in index notation down to sums of products, inverses and variables.

    What the expression shares at one index the entry shares.
    """
    done: dict[tuple[Node, tuple[Affine, ...]], Node] = {}
    stack = [(node, tuple(index))]
    while stack:
        key = stack[-1]
        top, forms = key
        if key in done:
            stack.pop()
        elif not top.shape or _sums(top) or top.op in ("inv", "cof", "lse", "tensor"):
            done[key] = graph.read(top, forms)
        elif top.op == "comprehension":
            done[key] = graph.entry(top, forms)
        else:
            below = entry(graph, top, forms)
            reads = [part for part in reachable(below) if part.op == "read" and part.args[0] in top.args]
            missing = [(part.args[0], part.data) for part in reads if (part.args[0], part.data) not in done]
            stack += missing
            if not missing:
                done[key] = replace(graph, below, {part: done[part.args[0], part.data] for part in reads})
    return done[node, tuple(index)]


def _sums(node: Node) -> bool:
    """Whether a node is a product that is summed over a label."""
    return is_core(node) and len(node.data.output) < len(node.data.extents)


def _contraction(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    coefficient, inputs, output, extents = node.data
    forms: dict[int, Affine] = {}
    rows: list[Row] = []
    for label, form in zip(output, index, strict=True):
        if label in forms:
            rows.append(Row("eq", forms[label] - form))
        else:
            forms[label] = form
    summed = [label for label in range(len(extents)) if label not in forms]
    variables = [graph.fresh(_name(n)) for n in range(len(summed))]
    forms.update(zip(summed, map(Affine.variable, variables), strict=True))
    factors = [
        graph.read(arg, [forms[label] for label in labels]) for arg, labels in zip(node.args, inputs, strict=True)
    ]
    body = graph.mul((graph.const(coefficient), *factors))
    if summed:
        body = graph.sum(variables, ranges(variables, [extents[label] for label in summed]), body)
    return graph.guard(rows, body)


def _logsumexp(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    (tensor,) = node.args
    variables = {axis: graph.fresh(_name(n)) for n, axis in enumerate(node.data)}
    rest = iter(index)
    forms = [Affine.variable(variables[a]) if a in variables else next(rest) for a in range(len(tensor.shape))]
    body = graph.call(sympy.exp, (graph.read(tensor, forms),))
    over = tuple(variables.values())
    return graph.call(sympy.log, (graph.sum(over, ranges(over, [tensor.shape[axis] for axis in variables]), body),))


def _name(n: int) -> str:
    return "klmn"[n] if n < 4 else f"k{n}"
