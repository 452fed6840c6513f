"""Conversion of index notation to einsums, and of einsums of sparse tensors to index notation.

``Sum_k A[i, k] E[k]`` with ``E[k] = [k == p]`` is ``A[i, p]``: entry by entry, the deltas of tensors that are mostly
zeros take the sums away (`without_sparse_operands`). Such tensors are the cotangents of entries and the directions of
derivatives with respect to entries; banded matrices that a user writes are others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.cost import CostModel
from sympy_tensordiff.graph.einsums import scalar_of, tensor_of
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, ranges, reachable
from sympy_tensordiff.graph.pairs import in_pairs
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.polynomials import grows_faster
from sympy_tensordiff.simplify.deltas import summation
from sympy_tensordiff.simplify.products import counted


def as_einsums(graph: Graph, roots: Sequence[Node], written: Collection[Node]) -> list[Node]:
    """Return `roots` with sums and comprehensions rewritten as einsums (matrix products) where possible, except those
    in `written`, which the user wrote.

    A comprehension that is used only transposed gets its axes in that order. Nothing is rewritten if operations or
    memory would grow faster with the sizes.

    Nodes in `written` are the user's and stay as they are.
    """
    nodes = reachable(*roots)
    if not any(_is_made_by_program(node, written) for node in nodes):
        return list(roots)
    uses = counted(nodes, roots)
    changed: dict[Node, Node] = {}
    for node in nodes:
        new = graph.with_args(node, [changed.get(arg, arg) for arg in node.args])
        if _is_made_by_program(node, written):
            found = _as_einsum(graph, new)
            new = new if new.op == "comprehension" and _needs_ones(found, written) else found
        elif _is_transposed(new) and uses[node.args[0]] == 1:
            new = _in_order(graph, new)
        if new is not node:
            changed[node] = new
    results = [changed.get(root, root) for root in roots]
    return list(roots) if changed and _grow_faster(graph, results, roots, nodes) else results


def _is_made_by_program(node: Node, written: Collection[Node]) -> bool:
    """Return whether `node` is a comprehension or sum that uses no index of an outer sum and is not in `written`, the
    nodes in the expressions that the user wrote.
    """
    return node.op in ("comprehension", "sum") and node not in written and all(variable >= 0 for variable in node.free)


def _as_einsum(graph: Graph, node: Node) -> Node:
    """Return the sum or comprehension `node` as an einsum, or as an addition of einsums and comprehensions: those terms
    that no einsum computes stay comprehensions.
    """
    if node.op == "sum":
        return scalar_of(graph, node)
    axes, _, body = graph.open(node)
    return tensor_of(graph, axes, node.shape, body)


def _needs_ones(found: Node, written: Collection[Node]) -> bool:
    """Return whether the printed form of `found` would contain a tensor of ones: NumPy's broadcasting repeats an
    operand along leading axes only, and a term of an addition repeats its operand along another axis. Terms in
    `written` do not count.
    """
    additions = (part for part in reachable(found) if part.op == "add" and part.has_tensor_ops)
    return any(_is_repeated(term) and term not in written for part in additions for term in part.args)


def _is_repeated(term: Node) -> bool:
    """Return whether the view `term` repeats the entries of its operand along an axis that is not leading. NumPy's
    broadcasting only repeats them along leading axes.
    """
    if not (is_view(term) and term.args and term.args[0].shape):
        return False
    (labels,), output = term.data.inputs, term.data.output
    return not set(output) <= set(labels) and labels != output[len(output) - len(labels) :]


def _is_transposed(node: Node) -> bool:
    """Return whether `node` is a number times a transposed comprehension."""
    if not (is_view(node) and node.args and node.args[0].op == "comprehension"):
        return False
    (labels,) = node.data.inputs
    return labels != node.data.output and sorted(labels) == sorted(node.data.output) and len(set(labels)) == len(labels)


def _in_order(graph: Graph, node: Node) -> Node:
    """Return `node`, a multiple of a transposed comprehension, ``c*transpose([f]_ij)``, as ``c*[f]_ji``: the axes of
    the comprehension are permuted.
    """
    (comprehension,), (labels,), output = node.args, node.data.inputs, node.data.output
    axes, _, body = graph.open(comprehension)
    named = dict(zip(labels, axes, strict=True))
    ordered = graph.comprehension([named[label] for label in output], node.shape, body)
    return graph.ein(node.data.coefficient, [(ordered, output)], output)


def without_sparse_operands(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with each einsum that has a sparse operand, a comprehension with deltas such as a diagonal matrix,
    rewritten as sums from which the deltas are eliminated.

    If these sums grow faster with the sizes than the einsums, which are multiplied in the cheapest order, all einsums
    become products of two operands first: such a product has no fewer loops than its sum.
    """
    nodes = reachable(*roots)
    if not any(_takes_sparse(graph, part) for part in nodes):
        return list(roots)
    found = _by_entries_everywhere(graph, roots)
    if _grow_faster(graph, found, roots, nodes):
        return _by_entries_everywhere(graph, in_pairs(graph, roots, Hints()))
    return found


def _grow_faster(graph: Graph, new: Sequence[Node], old: Sequence[Node], nodes: Sequence[Node]) -> bool:
    """Return whether the operations or the memory of the roots `new` grow asymptotically faster with the sizes than
    those of the roots `old`. Memory may also grow as fast as the tensors among ``nodes``, the nodes that `old` uses.
    """
    model = CostModel(graph, Hints().for_graph(old, nodes))
    given = model.growth(node for node in nodes if node.op == "tensor")
    before, after = model.of(old), model.of(new)
    is_larger = grows_faster(after.stored, before.stored | given)
    return is_larger or grows_faster(after.operations.growth, before.operations.growth)


def _by_entries_everywhere(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with each einsum that has a sparse operand rewritten by `_by_entries`."""
    done: dict[Node, Node] = {}
    return [trampoline(_rewritten(graph, root, done)) for root in roots]


def _takes_sparse(graph: Graph, node: Node) -> bool:
    """Return whether `node` is an einsum, other than a view, with an operand that is a comprehension with a delta (a
    sparse tensor).
    """
    return is_core(node) and any(_is_sparse(graph, arg) for arg in node.args)


def _rewritten(graph: Graph, node: Node, done: dict[Node, Node]) -> Recursion[Node]:
    """Return `node` with sums in place of each einsum that has a sparse operand: a comprehension with Kronecker deltas,
    such as a diagonal matrix. Results are cached in `done`.

    Binders are opened from the outside in, before anything inside changes its height.
    """
    if node in done or not node.has_tensor_ops:
        return done.get(node, node)
    if node.op in BINDERS:
        variables, rows, opened = graph.open(node)
        body: Node = yield _rewritten(graph, opened, done)
        if node.op in RANGED:
            result = graph.reduce(node.op, variables, rows, body)
        else:
            result = graph.comprehension(variables, node.data, body)
    else:
        args = yield from in_turn(_rewritten(graph, arg, done) for arg in node.args)
        result = graph.with_args(node, args)
        if _takes_sparse(graph, result):
            result = _by_entries(graph, result)
    done[node] = result
    return result


def _is_sparse(graph: Graph, node: Node) -> bool:
    """Return whether `node` is a comprehension whose entries are guarded by an equation in its indices, such as a
    diagonal matrix.
    """
    if node.op != "comprehension" or node.args[0].op != "guard":
        return False
    variables, _, body = graph.inside(node, ())
    return any(row.kind == "eq" and not row.form.atoms().isdisjoint(variables) for row in body.data)


def _by_entries(graph: Graph, node: Node) -> Node:
    """Return the einsum `node` as a comprehension of explicit sums, with deltas eliminated."""
    _, inputs, output, extents = node.data
    variables = [graph.fresh("ijklmn"[label % 6]) for label in range(len(extents))]
    forms = [Affine.variable(v) for v in variables]
    factors = []
    for arg, labels in zip(node.args, inputs, strict=True):
        index = [forms[label] for label in labels]
        if arg.op == "comprehension" and _is_sparse(graph, arg):
            factors.append(graph.entry(arg, index))
        else:
            factors.append(graph.read(arg, index))
    summed = [label for label in range(len(extents)) if label not in output]
    over = [variables[label] for label in summed]
    entry = summation(graph, over, ranges(over, [extents[label] for label in summed]), graph.mul(factors))
    return tensor_of(graph, [variables[label] for label in output], node.shape, entry)
