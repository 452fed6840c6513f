"""Final simplification of whole-tensor results: products and sums merged, rules applied, unless that costs more.

Nothing is expanded, nothing grows: a pass whose result weighs more (`products.size`), or costs more
(`graph.cost`), is dropped; a little more weight is allowed where the text is much shorter. The result is the same after
another time, and for operands and terms in another order.

Rules of one node (`recognition`); ``u``, ``x`` are any tensors or scalars:

- ``log(sum(exp(u)))`` over axes is ``lse(u)``
- ``(x**a)**n`` is ``x**(a n)``; ``exp(u)**-n`` is ``exp(-u)**n``; ``abs(x)**(2 n)`` is ``x**(2 n)``
- functions of a transposed or repeated tensor are transposed or repeated functions
- the diagonal of a function of repeated tensors is the function of the repeated tensors
- matrices such as ``X^T X``, ``A + A^T`` and distances, sums, functions and inverses of such are their own transposes
- ``c x - c y`` is ``c (x - y)``; ``x (1 - a) - x a`` is ``x (1 - 2 a)``; ``a sin(u)**2 + a cos(u)**2`` is ``a``
- sums over additions are distributed where their terms cancel then

Rules of the operands of a product (`products`):

- ``inv(A) A`` and ``A inv(A)`` are deltas; ``exp(u) exp(-u)`` is 1
- ``exp(u) / sum(exp(u))`` is ``exp(u - lse(u))``, whose sum is 1
- ``sign(x) abs(x)**n`` is ``x**n`` for odd n, ``x sign(x)`` is ``abs(x)``
- ``x (x y)**n`` is ``x**(n + 1) y**n``

Rules of products and sums as a whole:

- a product that one product alone needs is part of it, a sum that one sum alone needs likewise (`flattened`)
- operands that terms have in common in the same role are outside of the sum, where that is lighter (`factoring`)

What holds by construction: deltas in products, ``x/x``, powers of one base, equal addends, double
transposes, inverses of inverses, cofactors over the determinant (`graph.contractions`,
`graph.elementwise`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.cost import Cost, CostModel
from sympy_tensordiff.graph.einsum_normal_form import Operand
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.factoring import factored
from sympy_tensordiff.simplify.products import Uses, counted, inner_parts, operand_of_view, size, weight
from sympy_tensordiff.simplify.quotients import with_short_quotients
from sympy_tensordiff.simplify.recognition import SINGLE, recognise

MOST_ROUNDS = 20
"""The maximal number of rounds; a round that changes nothing is the last one."""

SLACK = 2.0
"""A form for readers may take so many times the operations of the first one at nominal sizes, never more in growth.

``s*(diag(p) - outer(p, p))`` takes 1.5 times those of ``s*diag(p) - s*outer(p, p)``, in loops that wait for memory;
``exp(x - lse(x))`` takes 1.7 times those of ``exp(x)/sum(exp(x))``.
"""

HEAVIER, SHORTER = 1.1, 0.9
"""A form may weigh so many times the first one where its text is so many times as long, or shorter.

The sum over the rows of a gradient of layer norm, one term of which is 0, is one operand heavier than that of the whole
gradient, which is computed in any case; its text is half as long.
"""

Step = Callable[[Graph, Sequence[Node], Sequence[Node]], list[Node]]
"""A pass: takes the graph, the roots and all nodes below them, and returns the new roots."""


def simplify(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return the derivatives `roots` in a short form: products merged, common factors taken out. Roots in pure index
    notation are returned unchanged.
    """
    if not any(root.has_tensor_ops for root in roots):
        return list(roots)
    work = _Simplification(graph, roots)
    for _ in range(MOST_ROUNDS):
        before = work.roots
        work.replace_unless_heavier(
            recognise, _recognised_and_flattened, *(partial(recognise, rules=rules) for rules in SINGLE)
        )
        work.replace_unless_heavier(_flattened)
        work.replace_unless_heavier(with_short_quotients)
        once = partial(factored, model=work.model, given=work.given)
        work.replace_unless_heavier(partial(_factored_repeatedly, factor=once), once)
        if work.roots == before:
            break
    return work.roots


class _Simplification:
    """The state of a call of `simplify`: the current roots, the nodes below them, their weight (the length as text) and
    cost, and the limits for weight and cost.
    """

    def __init__(self, graph: Graph, roots: Sequence[Node]) -> None:
        self.graph = graph
        self.roots = list(roots)
        self.nodes = reachable(*roots)
        self.weight = self.limit = size(self.nodes)
        self.model = CostModel(graph, Hints().for_graph(roots, self.nodes), shares=False)
        self.first = self.roots
        self.costs: dict[tuple[Node, ...], Cost] = {}
        self.given = self.model.growth(node for node in self.nodes if node.op == "tensor")

    def replace_unless_heavier(self, step: Step, *parts: Step) -> None:
        """Replace ``self.roots`` by the result of `step`, unless that is longer as text or more costly to compute.

        If it is, try each of the smaller steps `parts` under the same condition.
        """
        changed = step(self.graph, self.roots, self.nodes)
        if changed == self.roots:
            return
        nodes = reachable(*changed)
        weight, shorter = size(nodes), SHORTER * written_size(self.roots, self.nodes)
        is_light = weight <= max(self.limit, self.weight)
        if is_light or (weight <= HEAVIER * self.limit and written_size(changed, nodes) <= shorter):
            # A rewriting that only removes nodes, or terms of sums, adds no computation, in whatever order.
            goes = {node for node in nodes if not node.view and node.op != "add"}.issubset(self.nodes)
            goes = goes and _number_of_terms(nodes) <= _number_of_terms(self.nodes)
            if goes or self.costs_no_more(changed):
                self.roots, self.nodes, self.weight = changed, nodes, weight
                return
        for part in parts:
            self.replace_unless_heavier(part)

    def costs_no_more(self, changed: Sequence[Node]) -> bool:
        """Return whether the roots `changed` may replace the current ones: they cost no more (`CostModel.is_no_worse`),
        and take at most `SLACK` times the operations of the original roots.
        """
        value, current = self.model.value, self.cost(self.roots)
        most = SLACK * value(self.cost(self.first).operations)
        return self.model.is_no_worse(self.cost(changed), current, self.given, most / max(1, value(current.operations)))

    def cost(self, roots: Sequence[Node]) -> Cost:
        """Return the cost of `roots`; it is computed when first needed, and then remembered."""
        key = tuple(roots)
        if key not in self.costs:
            self.costs[key] = self.model.of(roots)
        return self.costs[key]


def _number_of_terms(nodes: Sequence[Node]) -> int:
    """Return the total number of terms of the additions in `nodes`."""
    return sum(len(node.args) for node in nodes if node.op == "add")


def written_size(roots: Sequence[Node], nodes: Sequence[Node]) -> int:
    """Return the length of the text of `roots`, where a shared node counts each time it is written. `nodes` are all
    nodes below, arguments first.
    """
    found: dict[Node, int] = {}
    for node in nodes:
        found[node] = weight(node) + sum(found[arg] for arg in node.args)
    return sum(found[root] for root in roots)


def _flattened(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Return `roots` with nested products and sums merged. If that changed anything, the rules of `recognise` (such as
    log-sum-exp for ``log(sum(exp(u)))``) are applied once more. `nodes` are all nodes below `roots`.
    """
    flat = flattened(graph, roots, nodes)
    return flat if flat == roots else recognise(graph, flat)


def _factored_repeatedly(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node], factor: Step) -> list[Node]:
    """Return `roots` with common factors taken out by `factor` and nested products and sums then merged, repeated until
    nothing changes, at most ``MOST_ROUNDS`` times. `nodes` are all nodes below `roots`.

    In the Hessian of a network each turn finds the common factors of one layer. The cost is compared once for all.
    """
    for _ in range(MOST_ROUNDS):
        found = factor(graph, roots, nodes)
        if found == roots:
            break
        flat = _flattened(graph, found, reachable(*found))
        roots, nodes = flat, reachable(*flat)
    return list(roots)


def _recognised_and_flattened(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Return `roots` rewritten by the rules of `recognise`, and then with nested products and sums merged. `nodes` are
    all nodes below the roots, arguments first.

    ``sum(p + q)*p - (p + q)`` of a softmax ``p`` is ``(1 + sum(q))*p - p - q``, which is shorter when its terms cancel.
    """
    found = recognise(graph, roots, nodes)
    return _flattened(graph, found, reachable(*found))


MOST_LABELS = 40
"""Subscripts have 52 letters."""

MOST_OPERANDS = 10
"""Of so many operands the best order is found; of more, one that is worse than the order that was written may be."""


def flattened(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Return `roots` with nested products, and nested sums, merged: ``(a + b) + c`` becomes ``a + b + c``, unless
    another node uses ``a + b``, too.

    `nodes` are all nodes below the roots, arguments first.
    """
    inside = _nodes_to_merge(graph, nodes, counted(nodes, roots))
    if not inside:
        return list(roots)
    done: dict[Node, Node] = {}
    for node in _remaining_nodes(roots, inside):
        if node.op == "ein" and not inside.isdisjoint(node.args):
            parts = [(done[arg], labels) for arg, labels in _operands(node, inside)]
            done[node] = graph.ein(1, parts, node.data.output, dict(enumerate(node.data.extents)))
        elif node.op == "add" and not inside.isdisjoint(map(operand_of_view, node.args)):
            done[node] = graph.add([graph.scale(factor, done[term]) for factor, term in _terms(node, inside)])
        else:
            done[node] = graph.with_args(node, [done[arg] for arg in node.args]) if node.args else node
    return [done[root] for root in roots]


def _remaining_nodes(roots: Sequence[Node], inside: set[Node]) -> list[Node]:
    """Return the nodes below `roots`, arguments first, that remain when the nodes in `inside` are merged into the nodes
    that use them.
    """
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        args: Sequence[Node] = node.args
        if node.op == "ein":
            args = [arg for arg, _ in _operands(node, inside)]
        elif node.op == "add":
            args = [term for _, term in _terms(node, inside)]
        for arg in args:
            if arg not in seen:
                seen.add(arg)
                stack.append(arg)
    return sorted(seen, key=lambda node: node.id)


def _operands(node: Node, inside: set[Node]) -> list[Operand]:
    """Return the operands of the product `node` with their labels; an operand in `inside`, a product itself, is
    replaced by its own operands.
    """
    parts: list[Operand] = []
    stack: list[Operand] = list(zip(node.args, node.data.inputs, strict=True))[::-1]
    while stack:
        arg, labels = stack.pop()
        if arg not in inside or is_view(node):
            parts.append((arg, labels))
        elif arg.op == "mul":
            stack += [(factor, ()) for factor in arg.args]
        else:
            stack += inner_parts(arg, labels)
    return parts


def _terms(node: Node, inside: set[Node]) -> list[tuple[Number, Node]]:
    """Return the sum `node` as pairs ``(number, term)``. A term in `inside` is replaced by its own terms."""
    terms: list[tuple[Number, Node]] = []
    stack: list[tuple[Number, Node]] = []
    stack += [(1, arg) for arg in reversed(node.args)]
    while stack:
        factor, term = stack.pop()
        inner = operand_of_view(term)
        if inner in inside and inner.op == "add":
            own = term.data.coefficient if term is not inner else 1
            stack.extend((factor * own, arg) for arg in inner.args)
        else:
            terms.append((factor, term))
    return terms


# ---------------------------------------------------------------- which


def _nodes_to_merge(graph: Graph, nodes: Sequence[Node], uses: Uses) -> set[Node]:
    """Return the products and sums in `nodes` that should be merged into the product or sum that contains them. Each of
    them has only this one use; `uses` counts the uses of nodes.
    """
    inside: set[Node] = set()
    weights: dict[Node, tuple[int, int]] = {}
    for node in nodes:
        if is_core(node):
            inside.update(_operands_to_merge(node, uses, weights))
        elif node.op == "add" and node.shape:
            inside.update(_sums_to_merge(graph, node, uses))
    return inside


def _operands_to_merge(node: Node, uses: Uses, weights: dict[Node, tuple[int, int]]) -> list[Node]:
    """Return the operands of the product `node` that should be merged into it: products without other uses, the
    smallest first, as many as the limits of labels and operands allow.

    Store the numbers of labels and operands of the merged product as ``weights[node]``.
    """
    candidates = [arg for arg in node.args if uses[arg] == 1 and (arg.op == "mul" or (arg in weights and arg.shape))]
    weight = {arg: weights.get(arg, (0, len(arg.args))) for arg in candidates}
    labels, operands = len(node.data.extents), len(node.args)
    chosen: list[Node] = []
    for _, group in groupby(sorted(candidates, key=weight.__getitem__), key=weight.__getitem__):
        # Equally heavy ones go together, or the choice would depend on how the expression was written.
        together = list(group)
        more = sum(weight[arg][0] - len(arg.shape) for arg in together)
        added = sum(weight[arg][1] - 1 for arg in together)
        if labels + more > MOST_LABELS or operands + added > MOST_OPERANDS:
            break
        chosen += together
        labels, operands = labels + more, operands + added
    weights[node] = (labels, operands)
    return chosen


def _sums_to_merge(graph: Graph, node: Node, uses: Uses) -> list[Node]:
    """Return the terms to merge into the addition `node`: sums, and multiples ``c*(a + b)`` whose multiplication
    cancels signs or joins equal terms. ``uses`` counts the uses of nodes; a sum with several uses is not merged.
    """
    chosen = []
    known = {graph.split_view(term)[1] for term in node.args}
    known.update(tensor for term in node.args if (tensor := _multiplied(graph, term)) is not None)
    for term in node.args:
        inner = operand_of_view(term)
        if inner.op != "add" or inner.shape != node.shape or uses[inner] > 1:
            continue
        factors = [graph.split_view(arg) for arg in inner.args]
        if term is inner:
            chosen.append(inner)
        elif term.data.is_multiple:
            lighter = term.data.coefficient == -1 and 2 * sum(factor == -1 for factor, _ in factors) + 1 >= len(factors)
            if lighter or any(rest in known for _, rest in factors):
                chosen.append(inner)
    return chosen


def _multiplied(graph: Graph, term: Node) -> Node | None:
    """Return the product of the other factors of `term` if one factor is a scalar sum with a number, such as ``x`` for
    ``x*(a - 1)``; else None.

    Multiplied out, such a term has a multiple of ``x``, which can be joined with other terms.
    """
    factors = graph.factors(term)
    for factor in factors:
        if factor.op == "add" and not factor.shape and factor.args[-1].op == "const":
            return graph.mul([other for other in factors if other is not factor])
    return None
