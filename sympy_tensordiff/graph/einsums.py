"""From index notation to einsums of whole tensors, and back: one entry of a whole tensor, one level deep.

``[p == q] Sum_k A[p, k] x[k]`` over all of ``p, q`` is a view of a product. A node that reads a tensor at other indices
than one plain variable per axis, runs over a part of a range, or uses an index as a number has no form as an einsum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.einsum_normal_form import Label
from sympy_tensordiff.graph.interning import Recursion, Shape, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Constraint

LabelledOperands: TypeAlias = list[tuple[Node, Sequence[int]]]
"""Whole tensors and the variables of their axes: their product is the scalar."""

ELEMENTWISE = frozenset({"add", "pow", "call", "compare", "and", "or", "not", "select"})

ONE = Affine.of(1)


def tensor_of(graph: Graph, axes: Sequence[int], shape: Shape, value: Node) -> Node:
    """Return the tensor whose entry at the indices ``axes`` is ``value``: an einsum such as ``A @ x`` if possible, else
    a comprehension.
    """
    if not shape:
        return value
    tensors, rest, inside = [], [], frozenset(ranges(axes, shape))
    for term in value.args if value.op == "add" else (value,):
        if term.op == "guard":
            term = graph.guard([row for row in term.data if row not in inside], term.args[0])
        whole = Recognition(graph, dict(zip(axes, shape, strict=True))).tensor(term, axes)
        if whole is None:
            rest.append(term)
        else:
            tensors.append(whole)
    if rest:
        tensors.append(graph.comprehension(axes, shape, graph.add(rest)))
    return graph.add(tensors)


def scalar_of(graph: Graph, node: Node) -> Node:
    """Return the sum ``node`` in index notation as a contraction of whole tensors: ``x @ y`` for ``Sum_i x[i]*y[i]``.
    Return ``node`` unchanged if that is impossible.
    """
    return Recognition(graph, {}).tensor(node, ()) or node


class Recognition:
    """Converts formulas in index notation to einsums of whole tensors: ``Sum_j A[i, j]*x[j]`` to ``A @ x``. In between,
    a product is a list of pairs: a whole tensor, and the index variables that label its axes.

    `extents` maps the variables that label axes to extents, in the order of the axes of the result. If the extents in
    `known` are given, sums may only run over these, which are positive, and factors and terms that are not entries of
    whole tensors become comprehensions, whose axes are never variables in `selected`.
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
        self.summed: set[int] = set()
        self._is_partial = known is not None
        self._done: dict[tuple[Node, bool], LabelledOperands | None] = {}

    def tensor(self, node: Node, output: Sequence[int]) -> Node | None:
        """Return the whole tensor whose entry at the index variables ``output`` is the formula ``node``, as an einsum:
        ``A @ x`` for ``Sum_j A[i, j]*x[j]``. None if that is impossible.
        """
        operands = trampoline(self._visit_sum(node) if node.op == "sum" else self.visit(node))
        if operands is None:
            return None
        used = self._used_axes(operands)
        spare = [v for v in output if v not in used and self.extents[v] == ONE]
        units = dict(zip((v for v in used if v in self.units), spare, strict=False))
        return self._contract([(arg, [units.get(v, v) for v in labels]) for arg, labels in operands], output)

    def _contract(self, operands: LabelledOperands, output: Sequence[int]) -> Node:
        """Return the product of the labelled `operands`, summed over all labels that are not in ``output``, as an
        einsum node. A square ``x**2`` with a summed label may become two operands ``x``.
        """
        graph, factors = self.graph, LabelledOperands()
        for node, labels in operands:
            square = node.op == "pow" and node.args[1] is graph.const(2) and not set(labels) <= set(output)
            factors += [(node.args[0], labels)] * 2 if square and self.known is not None else [(node, labels)]
        scalars = [] if output else [node for node, labels in factors if not labels]
        product = graph.ein(1, [part for part in factors if output or part[1]], output, self.extents)
        if self.known is not None:
            self._note_label_names(product, factors)
        return graph.mul([*scalars, product]) if scalars else product

    def _note_label_names(self, product: Node, operands: LabelledOperands) -> None:
        """Record names for the labels of the einsum ``product``, for printing: those of the index variables that label
        the same operand in ``operands``. An operand that simplification has changed gives no names.
        """
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

    def visit(self, node: Node) -> Recursion[LabelledOperands | None]:
        """Convert the scalar formula ``node`` to a product of whole tensors: a list of tensors, each with index
        variables as the labels of its axes. None if that is impossible. Results are cached.
        """
        key = node, self._is_partial
        if key not in self._done:
            if all(v >= 0 and v not in self.extents for v in node.free):
                self._done[key] = [(node, ())]
            else:
                special = (
                    self._visit_elementwise if node.op in ELEMENTWISE else getattr(self, f"_visit_{node.op}", None)
                )
                self._done[key] = None if special is None else (yield special(node))
        return self._done[key]

    def _visit_read(self, node: Node) -> Recursion[LabelledOperands | None]:
        """Return the read `node`, such as ``A[i, j]``, as the labelled operand ``A`` with labels ``i`` and ``j``. None
        if an index is not a plain variable that runs over the whole axis.

        An index 0 of an axis of length 1 may get a new label, and an entry of a comprehension that depends on labels
        may be expanded.
        """
        graph, tensor = self.graph, node.args[0]
        if any(v < 0 or v in self.extents for v in tensor.free):
            if tensor.op != "comprehension" or self.known is None:
                return None
            product: LabelledOperands | None = yield self.visit(graph.entry(tensor, node.data))
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

    def _visit_mul(self, node: Node) -> Recursion[LabelledOperands | None]:
        """Return a product of scalars as labelled operands, ``x[i]*A[i, j]`` as ``x`` with the label i and ``A`` with
        the labels i and j; None if a factor cannot be converted.
        """
        factors = yield self._convert_all(node.args, self.graph.mul, self._group_by_axes)
        return None if factors is None else [operand for factor in factors for operand in factor]

    def _group_by_axes(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """Partition `nodes` into groups that share index variables, directly or through other nodes."""
        groups: list[tuple[frozenset[int], list[Node]]] = []
        for node in nodes:
            free = node.free & self.extents.keys()
            touching = [group for group in groups if group[0] & free]
            groups = [group for group in groups if group not in touching]
            groups.append(
                (
                    free.union(*(members for members, _ in touching)),
                    [*(n for _, members in touching for n in members), node],
                )
            )
        return [members for _, members in groups]

    def _convert_all(
        self,
        nodes: Sequence[Node],
        join: Callable[[Sequence[Node]], Node] | None = None,
        groups: Callable[[Sequence[Node]], list[list[Node]]] = lambda nodes: [[*nodes]],
    ) -> Recursion[list[LabelledOperands] | None]:
        """Convert each of ``nodes`` to a product of whole tensors, or to a comprehension if that fails; None if neither
        is possible. With ``join``, the nodes that fail are first merged, each group that ``groups`` makes of them into
        one.

        With ``join``, the nodes that fail become one comprehension of ``join(group)`` for each group into which
        ``groups`` divides them, at the end of the list.

        Comprehensions are made only in a partial recognition (`_is_partial`), and only besides a product with axes.
        """
        products = yield from in_turn(self.visit(node) for node in nodes)
        fit = [part for part in products if part is not None]
        unfit = [node for node, part in zip(nodes, products, strict=True) if part is None]
        if not unfit:
            return fit
        if not self._is_partial or not any(map(self._used_axes, fit)):
            return None
        if join is None:
            products = [
                self._comprehension_of(node) if part is None else part
                for node, part in zip(nodes, products, strict=True)
            ]
        else:
            products = [*fit, *(self._comprehension_of(join(group)) for group in groups(unfit))]
        converted = [part for part in products if part is not None]
        return converted if len(converted) == len(products) else None

    def _comprehension_of(self, node: Node) -> LabelledOperands | None:
        """Return `node` as one labelled operand: the comprehension over all index variables in it, which are its
        labels.

        If a variable is in ``self.selected``, and so cannot be an axis, add it to ``self.refused`` and return None.
        """
        axes = [v for v in self.extents if isinstance(v, int) and v in node.free]
        self.refused.update(v for v in axes if v in self.selected)
        if self.refused:
            return None
        return [(self.graph.comprehension(axes, [self.extents[v] for v in axes], node), axes)]

    def _used_axes(self, operands: LabelledOperands) -> list[int]:
        """Return the variables that label axes of `operands`, in a fixed order."""
        used = {v for _, labels in operands for v in labels}
        return [v for v in self.extents if isinstance(v, int) and v in used]

    def _common_axes(self, products: Sequence[LabelledOperands]) -> list[int]:
        """Return the labels of the axes of all operands in `products`, each once. If a product is a single tensor with
        all of these axes, return them in its order, so that it needs no transpose.
        """
        axes = self._used_axes([operand for product in products for operand in product])
        orders = [list(product[0][1]) for product in products if len(product) == 1]
        orders = [order for order in orders if sorted(order) == sorted(axes)]
        return axes if axes in orders or not orders or self.known is None else orders[0]

    def _visit_elementwise(self, node: Node) -> Recursion[LabelledOperands | None]:
        """Convert an element-wise operation on entries, ``exp(x[i])``, to one on whole tensors, ``exp(x)``. Return it
        as labelled operands to be multiplied; None if that is impossible.
        """
        partial, self._is_partial = self._is_partial, self._is_partial and node.op in ("add", "pow", "call")
        products = yield self._convert_all(node.args, self.graph.add if node.op == "add" else None)
        self._is_partial = partial
        if products is None:
            return None
        if node.op == "add":
            return self._add_products(products)
        outer = self._independent_factors(products) if node.op == "select" else []
        products = [[operand for operand in product if operand not in outer] for product in products]
        labels = self._common_axes(products)
        return [(self.graph.rebuild(node, [self._with_axes(product, labels) for product in products]), labels), *outer]

    def _independent_factors(self, choice: Sequence[LabelledOperands]) -> LabelledOperands:
        """Return the factors that can be moved out of a sum of selects, such as ``a[i]`` in
        ``Sum_k where(c[k], a[i]*b[k], 0)``; [] if there are none. ``choice`` lists the condition and the branches of
        the select, each as a product of tensors.

        Sums that differ in these factors only are then computed once.

        Scalars and factors with an axis of the condition stay inside: where it is false, they may be infinite.
        """
        condition, *values = choice
        tested = {label for _, labels in condition for label in labels}
        nonzero = [value for value in values if [node for node, _ in value] != [self.graph.zero]]
        if tested.isdisjoint(self.summed) or len(nonzero) != 1:
            return []
        inside = tested | self.summed
        return [(node, labels) for node, labels in nonzero[0] if labels and inside.isdisjoint(labels)]

    def _visit_sum(self, node: Node) -> Recursion[LabelledOperands | None]:
        """Return a sum as a contraction of whole tensors; None if it does not run over the whole axis, or the axis may
        be empty.
        """
        graph = self.graph
        variables, rows, body = graph.open(node)
        extents = [_extent_by_rows(v, rows) for v in variables]
        known = [extent for extent in extents if extent is not None]
        if len(known) != len(extents) or set(rows) != set(ranges(variables, known)):
            return None
        if any(v in self.extents or v in variables for extent in known for v in extent.atoms()):
            return None  # a triangular range: it depends on another index
        if self.known is not None and any(extent not in self.known and not _is_positive(extent) for extent in known):
            return None  # which may be empty
        self.extents.update(zip(variables, known, strict=True))
        self.summed.update(variables)
        if body.op == "add" and self.known is not None:
            terms = yield self._convert_all(body.args, graph.add)
            if terms is not None and len({tuple(self._used_axes(term)) for term in terms}) > 1:
                return self._add_products([self._sum_over(term, variables) for term in terms])
        operands = yield self.visit(body)
        return None if operands is None else self._sum_over(operands, variables)

    def _sum_over(self, operands: LabelledOperands, variables: Sequence[int]) -> LabelledOperands:
        """Return the contraction of `operands` over ``variables``. A variable that labels no operand contributes its
        extent as a factor.
        """
        used = self._used_axes(operands)
        counts: LabelledOperands = [(self.graph.index(self.extents[v]), ()) for v in variables if v not in used]
        over = [v for v in used if v in variables]
        if not over:
            return [*operands, *counts]
        inner = [operand for operand in operands if operand[1]]
        outer = [operand for operand in operands if not operand[1]]
        output = [v for v in used if v not in over and v not in self.units]
        return [(self._contract(inner, output), output), *outer, *counts]

    def _add_products(self, terms: Sequence[LabelledOperands]) -> LabelledOperands:
        """Return the sum of the labelled products ``terms`` as one labelled operand."""
        labels = self._common_axes(terms)
        return [(self.graph.add([self._with_axes(term, labels) for term in terms]), labels)]

    def _with_axes(self, operands: LabelledOperands, labels: Sequence[int]) -> Node:
        """Return the product of `operands` as one tensor with the axes ``labels``; a scalar if no operand has axes."""
        return self.graph.ein(1, operands, labels if any(own for _, own in operands) else (), self.extents)

    def _visit_guard(self, node: Node) -> Recursion[LabelledOperands | None]:
        """Return a guard ``[i == j]`` of two axis variables as a product with a unit matrix; None for other guards."""
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
    """Return the form ``v - w``."""
    return Affine.variable(v) - Affine.variable(w)


def _is_positive(extent: Affine) -> bool:
    """Return whether an extent is a positive number."""
    return extent.is_constant and extent.constant > 0


def _extent_by_rows(v: int, rows: Sequence[Constraint]) -> Affine | None:
    """Return the extent ``n`` of the index ``v`` if one of the constraints ``rows`` is ``v <= n - 1``; else None."""
    for row in rows:
        if row.kind == "ge" and row.form.coefficient(v) == -1:
            return row.form + Affine.variable(v) + 1
    return None


OPAQUE = frozenset({"inv", "cof", "scan", "tensor", "comprehension"})
"""Operations whose entries are read as they are: without index notation, or already in it."""


def entry(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """Return the entry of the tensor ``node`` at ``index``. That of an operation is written with entries of its
    operands, ``x[i] + y[i]`` for ``x + y``; that of any other tensor is a read.

    A scalar other than an einsum or log-sum-exp is returned unchanged.

    Summed labels become the variables of a sum, repeated output labels equations of a guard.
    """
    if not node.shape and node.op not in ("ein", "lse"):
        return node
    if node.op in OPAQUE:
        return graph.read(node, index)
    if node.op == "ein":
        return _entry_of_einsum(graph, node, index)
    if node.op == "lse":
        return _entry_of_logsumexp(graph, node, index)
    args = [graph.read(arg, index) if arg.shape else arg for arg in node.args]
    return graph.rebuild(node, args)


def written_out(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """Return the entry of ``node`` at ``index`` with element-wise operations and comprehensions in index notation:
    ``x[i] + y[i]`` for ``(x + y)[i]``. Variables, matrix products and inverses are still whole tensors.

    Nodes that are used several times at one index are shared in the result.
    """
    done: dict[tuple[Node, tuple[Affine, ...]], Node] = {}
    stack = [(node, tuple(index))]
    while stack:
        key = stack[-1]
        top, forms = key
        if key in done:
            stack.pop()
        elif not top.shape or _has_summed_label(top) or top.op in ("inv", "cof", "lse", "scan", "tensor"):
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


def _has_summed_label(node: Node) -> bool:
    """Return whether a node is a contraction over at least one label."""
    return is_core(node) and len(node.data.output) < len(node.data.extents)


def _entry_of_einsum(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """Return the entry of the einsum `node` at `index`, as a sum over its summed labels. If an output label is
    repeated, as in a diagonal, the entry has a guard that the indices are equal.
    """
    coefficient, inputs, output, extents = node.data
    forms: dict[int, Affine] = {}
    rows: list[Constraint] = []
    for label, form in zip(output, index, strict=True):
        if label in forms:
            rows.append(Constraint("eq", forms[label] - form))
        else:
            forms[label] = form
    summed = [label for label in range(len(extents)) if label not in forms]
    variables = [graph.fresh(_index_name(n)) for n in range(len(summed))]
    forms.update(zip(summed, map(Affine.variable, variables), strict=True))
    factors = [
        graph.read(arg, [forms[label] for label in labels]) for arg, labels in zip(node.args, inputs, strict=True)
    ]
    body = graph.mul((graph.const(coefficient), *factors))
    if summed:
        body = graph.sum(variables, ranges(variables, [extents[label] for label in summed]), body)
    return graph.guard(rows, body)


def _entry_of_logsumexp(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """Return the entry of a log-sum-exp as the logarithm of a sum of exponentials."""
    (tensor,) = node.args
    variables = {axis: graph.fresh(_index_name(n)) for n, axis in enumerate(node.data)}
    rest = iter(index)
    forms = [Affine.variable(variables[a]) if a in variables else next(rest) for a in range(len(tensor.shape))]
    body = graph.call(sympy.exp, (graph.read(tensor, forms),))
    over = tuple(variables.values())
    return graph.call(sympy.log, (graph.sum(over, ranges(over, [tensor.shape[axis] for axis in variables]), body),))


def _index_name(n: int) -> str:
    """Return the name of the ``n``-th new index variable: k, l, m, n, k4, k5, ..."""
    return "klmn"[n] if n < 4 else f"k{n}"
