"""Symmetric and antisymmetric tensors, recognised from their structure, as ``X^T X``, ``A + A^T`` and ``x_i - x_j``.

A product is symmetric where it is the same product after the exchange of its two axes. To see that, products are
brought into one order first: inner products are multiplied out, and a symmetric operand, which may be read as
``S[i, j]`` or as ``S[j, i]``, is read in one of the two ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

from sympy_tensordiff.functions.table import record_of
from sympy_tensordiff.graph.contractions import is_core
from sympy_tensordiff.graph.einsum_normal_form import Label, Labels, Operand, in_order
from sympy_tensordiff.graph.interning import Number, form_key
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.nodes import rewritten as with_changed_nodes
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.canonical_signs import with_canonical_signs
from sympy_tensordiff.simplify.products import counted, inner_parts, product_of, rewritten

Exchange: TypeAlias = tuple[Node, int, int]
"""A tensor, and the positions of two of its axes in ascending order."""

MOST_FACTORS = 16
"""A product of more operands, inner products multiplied out, is not looked at."""


def is_symmetric(graph: Graph, node: Node, known: dict[Node, bool]) -> bool:
    """Return whether the matrix `node` provably equals its transpose, as ``X^T X`` does; answers for comprehensions are
    cached in `known`.

    The symmetric matrices among the arguments of `node` must be in `known`.
    """
    for arg in node.args:
        if arg.op == "comprehension" and arg not in known:
            known[arg] = _has_symmetric_entries(graph, arg)
    if node.op == "cof":
        return bool(node.data == 1 and known.get(node.args[0]))
    is_exchangeable = _may_be_exchanged(node) and exchange_sign(graph, node, 0, 1) == 1
    if node.op == "ein":
        return is_exchangeable or _is_symmetric_product(graph, node, known)
    if is_exchangeable:
        return True
    if node.op == "add" and not all(known.get(arg, not arg.shape) for arg in node.args):
        rest = [arg for arg in node.args if not known.get(arg, not arg.shape)]
        flipped = Counter(_canonical(graph, arg, known, flip=True) for arg in rest)
        return flipped == Counter(_canonical(graph, arg, known) for arg in rest)
    return bool(node.args) and node.op not in _OTHER and all(known.get(arg, not arg.shape) for arg in node.args)


def exchange_sign(graph: Graph, node: Node, a: int, b: int) -> int:
    """Return 1 if exchanging the axes `a` and `b` of `node` provably leaves it unchanged (symmetric), -1 if it changes
    the sign (antisymmetric), 0 if neither is known.
    """
    found = graph.exchange_signs
    stack: list[Exchange] = [(node, min(a, b), max(a, b))]
    while stack:
        key = stack[-1]
        needed = [] if key in found else [other for other in _exchanged_parts(*key) if other not in found]
        if needed:
            stack += needed
            continue
        stack.pop()
        if key not in found:
            found[key] = _exchange_sign(graph, *key)
    return found[node, min(a, b), max(a, b)]


def _may_be_exchanged(node: Node) -> bool:
    """Return whether `node` may be symmetric in two axes, by a quick test before the slow one: its operation may make
    it so, and one of its arguments is a computed tensor.
    """
    return node.op in _EXCHANGED and any(arg.shape and arg.args for arg in node.args)


def _exchanged_parts(node: Node, a: int, b: int) -> list[Exchange]:
    """Return triples ``(argument, first axis, second axis)``: the arguments of `node` whose symmetry matters for that
    of `node` in the axes `a` and `b`, each with the two axes that correspond to these.
    """
    if node.op in _ENTRYWISE:
        return [(arg, a, b) for arg in node.args if len(arg.shape) == len(node.shape)]
    if node.op == "inv":
        return [(node.args[0], a, b)]
    if node.op != "ein":
        return []
    first, second = node.data.output[a], node.data.output[b]
    found: list[Exchange] = []
    for arg, labels in zip(node.args, node.data.inputs, strict=True):
        if first != second and labels.count(first) == labels.count(second) == 1:
            places = labels.index(first), labels.index(second)
            found.append((arg, min(places), max(places)))
    return found


def _entrywise_args(node: Node) -> tuple[Node, ...]:
    """Return the arguments of `node` if it is an operation applied entry by entry; some of them may have fewer axes and
    are then repeated. Return () for other nodes.
    """
    return node.args if node.op in _ENTRYWISE else ()


def _exchange_sign(graph: Graph, node: Node, a: int, b: int) -> int:
    """Return 1 if exchanging the axes `a` and `b` of `node` provably leaves it unchanged, -1 if it changes the sign, 0
    if neither is known. The answers for its arguments are already stored in the graph.
    """
    signs = graph.exchange_signs
    if node.shape[a] != node.shape[b] or any(0 < len(arg.shape) < len(node.shape) for arg in _entrywise_args(node)):
        return 0
    if len(node.shape) == 2 and graph.symmetric.get(node):
        return 1
    own = {signs[key] for key in _exchanged_parts(node, a, b)}
    match node.op:
        case "add":
            return _sign_of_sum(graph, node, a, b)
        case "pow" if node.args[1].op == "const" and isinstance(node.args[1].data, int):
            return own.pop() if node.args[1].data % 2 else abs(own.pop())
        case "call" if own == {-1} and len(node.args) == 1:
            return record_of(node.data).parity
        case "inv":
            return own.pop()
        case "ein":
            return _sign_of_product(graph, node, a, b)
    return int(node.op in _ENTRYWISE and own == {1})


def _sign_of_sum(graph: Graph, node: Node, a: int, b: int) -> int:
    """Return 1 if exchanging the axes `a` and `b` leaves the addition `node` unchanged, -1 if it changes its sign, 0 if
    neither is proved. Terms may have the symmetry themselves, or be exchanged with one another.
    """
    own = {arg: graph.exchange_signs[arg, a, b] if arg.shape else 1 for arg in node.args}
    pairs = [arg for arg, sign in own.items() if not sign]
    found = set(own.values()) - {0}
    if pairs:
        axes = list(range(len(node.shape)))
        axes[a], axes[b] = b, a
        exchanged = {graph.ein(1, [(arg, axes)], range(len(axes))) for arg in pairs}
        found |= {sign for sign in (1, -1) if exchanged == {graph.scale(sign, arg) for arg in pairs}} or {0}
    return found.pop() if len(found) == 1 else 0


def _sign_of_product(graph: Graph, node: Node, a: int, b: int) -> int:
    """Return 1 if exchanging the axes `a` and `b` leaves the einsum `node` unchanged, -1 if it changes the sign, 0 if
    neither is known.

    It is the product of the signs of operands with both axes, if the product of the other operands is invariant.
    """
    first, second = node.data.output[a], node.data.output[b]
    if first == second:
        return 1
    if node.data.output.count(first) > 1 or node.data.output.count(second) > 1:
        return 0
    sign, rest, seen = 1, list[Operand](), set[Label]()
    for arg, labels in zip(node.args, node.data.inputs, strict=True):
        if labels.count(first) == labels.count(second) == 1:
            places = labels.index(first), labels.index(second)
            sign *= graph.exchange_signs[arg, min(places), max(places)]
            seen.update(labels)
        elif labels:
            rest.append((arg, labels))
    output = [label for label in node.data.output if any(label in labels for _, labels in rest)]
    output += sorted({label for _, labels in rest for label in labels if label in seen}.difference(output))
    if not sign or first not in output or second not in output:
        return sign if first not in output and second not in output else 0
    turned = [{first: second, second: first}.get(label, label) for label in output]
    one, other = (_ordered_product(graph, rest, own, {}, graph.symmetric) for own in (output, turned))
    return sign if one is other else 0


def with_axes_in_order(graph: Graph, parts: Sequence[Operand], output: Labels) -> tuple[int, list[Operand]]:
    """Return ``(sign, operands)``: the operands `parts` of an einsum with the labels of symmetric axes sorted, first
    the first label of `output`, then summed labels, then others. Each exchange of two antisymmetric axes changes the
    sign.
    """

    def sort_key(label: Label) -> int:
        """Return the sort key of a label: 0 for the first axis of the result, 1 for a summed label, 2 for other axes of
        the result.
        """
        return (0 if label == output[0] else 2) if label in output else 1

    found: list[Operand] = []
    sign = 1
    for arg, labels in parts:
        new = list(labels)
        for a, b in combinations(range(len(labels) if arg.args else 0), 2):
            is_turned = (
                arg.shape[a] == arg.shape[b]
                and sort_key(new[a]) > sort_key(new[b])
                and 1 in (sort_key(new[a]), sort_key(new[b]))
            )
            if is_turned and new.count(new[a]) == new.count(new[b]) == 1 and (own := exchange_sign(graph, arg, a, b)):
                sign, new[a], new[b] = sign * own, new[b], new[a]
        found.append((arg, tuple(new)))
    return sign, found


def multiplied_out(parts: Sequence[Operand], level: int = 0) -> list[Operand]:
    """Return the operands ``parts`` of a product, with each inner product replaced by its own operands. The summed
    labels of inner products are renamed to labels that contain the number ``level``, so that calls with different
    levels cause no clashes.
    """
    found: list[Operand] = []
    for n, (node, labels) in enumerate(parts):
        if is_core(node):
            outer = set(labels)
            for arg, own in inner_parts(node, labels):
                found.append((arg, tuple(label if label in outer else (level, n, label) for label in own)))
        elif node.op == "mul":
            found += [(factor, ()) for factor in node.args]
        else:
            found.append((node, labels))
    return found


def with_equal_terms_joined(graph: Graph, addition: Node, known: Mapping[Node, bool]) -> Node | None:
    """Return `addition` with equal products, such as ``(A B) C`` and ``A (B C)``, added up to one term; None if there
    are none. `known` maps symmetric matrices to True.
    """
    groups: dict[tuple[int, ...], list[Node]] = {}
    for term in addition.args if addition.shape else ():
        parts = _factors(product_of(graph, term).parts) if term.op == "ein" and term.args else None
        if parts is not None:
            groups.setdefault(tuple(sorted(arg.id for arg, _ in parts)), []).append(term)
    if len(groups) == len(addition.args):
        return None
    multiples: dict[Node, Number] = {}  # of the terms that are left
    for group in groups.values():
        first: dict[Node, tuple[Node, Number]] = {}
        for term in group if len(group) > 1 else ():
            factor, canonical = graph.split_view(_canonical(graph, term, known))
            other, own = first.setdefault(canonical, (term, factor))
            if other is not term:
                multiples[term] = 0
                multiples[other] = multiples.get(other, 1) + Fraction(factor) / Fraction(own)
    if not multiples:
        return None
    terms = [graph.scale(multiples.get(term, 1), term) for term in addition.args]
    return graph.add([graph.broadcast(term, addition.shape) for term in terms])


def with_equal_products(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return ``roots`` in which products that differ only in grouping, such as ``X (W v)`` and ``(X W) v``, are one and
    the same node.
    """
    nodes = reachable(*roots)
    first: dict[Node, Node] = {}

    def rewriting(node: Node) -> Node:
        """Return the node that represents all products equal to `node` up to grouping: the first one of these that was
        visited. A node without equals represents itself.
        """
        same = _canonical(graph, node, {}) if is_core(node) and node.shape else node
        return first.setdefault(same, node)

    return rewritten(graph, roots, nodes, rewriting, counted(nodes, roots))


def with_outer_factors(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return ``roots`` with each product split into separate products of the operands that share labels, directly or
    through others. So ``outer(A @ x, B @ y)`` has the operands ``A @ x`` and ``B @ y``, which other expressions may
    share.
    """
    nodes, known = reachable(*roots), symmetric_nodes(graph, roots)

    def rewriting(node: Node) -> Node:
        """Return the product `node` with its operands partitioned into groups that share no labels, each group as a
        product of its own. It is unchanged if there is only one group, or no group has two operands.
        """
        if not is_core(node):
            return node
        parts: list[Operand] = []
        for n, (arg, labels) in enumerate(zip(node.args, node.data.inputs, strict=True)):
            own = list(zip(arg.args, arg.data.inputs, strict=True)) if is_core(arg) else []
            parts += multiplied_out([(arg, labels)], n) if len(_groups(own)) > 1 else [(arg, labels)]
        groups = _groups(parts)
        if len(groups) < 2 or all(len(operands) < 2 for operands in groups):
            return node
        coefficient, _, output, extents = node.data
        sizes: dict[Label, Affine] = dict(enumerate(extents))
        factors: list[Operand] = []
        for operands in groups:
            remaining = tuple(label for label in output if any(label in labels for _, labels in operands))
            operands = in_order(operands, remaining, known)
            factors.append((graph.ein(1, operands, remaining, sizes), remaining) if len(operands) > 1 else operands[0])
        return graph.ein(coefficient, factors, output, sizes)

    return rewritten(graph, roots, nodes, rewriting, counted(nodes, roots))


def _groups(parts: Sequence[Operand]) -> list[list[Operand]]:
    """Partition the operands `parts` into groups: operands that share a label, directly or through others, are in one
    group.
    """
    groups: list[tuple[set[Label], list[Operand]]] = []
    for part in parts:
        linked = [group for group in groups if not group[0].isdisjoint(part[1])]
        rest = [group for group in groups if group not in linked]
        own = [operand for _, operands in linked for operand in operands]
        groups = [*rest, (set(part[1]).union(*(labels for labels, _ in linked)), [*own, part])]
    return [operands for _, operands in groups]


def symmetric_nodes(graph: Graph, roots: Sequence[Node]) -> dict[Node, bool]:
    """Return, for each square matrix below ``roots``, whether it is provably symmetric."""
    known = dict(graph.symmetric)
    for node in reachable(*roots):
        if len(node.shape) == 2 and node.shape[0] == node.shape[1] and node not in known:
            is_table = node.op == "comprehension"
            known[node] = _has_symmetric_entries(graph, node) if is_table else is_symmetric(graph, node, known)
    return known


def with_symmetric_reads(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with the indices of entries of computed symmetric matrices in one order, ``inv(K)[p, i]`` for
    ``inv(K)[i, p]``. If anything changes, the signs are made canonical, too.
    """
    tensors = {node.args[0] for node in reachable(*roots) if node.op == "read" and len(node.data) == 2}
    known = symmetric_nodes(graph, [tensor for tensor in tensors if tensor.op != "tensor"])
    if not any(known.get(tensor) for tensor in tensors):
        return list(roots)

    def in_order(node: Node) -> Node:
        """Return the entry `node` of a matrix with its indices in order if ``known`` says that the matrix is symmetric;
        other nodes are unchanged.
        """
        if node.op != "read" or not known.get(node.args[0]):
            return node
        return graph.read(node.args[0], sorted(node.data, key=form_key))

    found = with_changed_nodes(graph, roots, in_order)
    return found if found == list(roots) else with_canonical_signs(graph, found, mixed=True)


def _is_symmetric_product(graph: Graph, node: Node, known: Mapping[Node, bool]) -> bool:
    """Return whether the einsum `node` is symmetric in its two result axes: it is the same product after exchanging
    them. False if it has too many operands to test.

    `known` says which nodes are symmetric matrices.
    """
    product = product_of(graph, node)
    if len(product.output) != 2:
        return False
    parts = _factors(product.parts)
    if parts is None or not _may_be_flipped(parts, product.output):
        return False
    return _ordered_product(graph, parts, product.output, product.extents, known) is _ordered_product(
        graph, parts, tuple(product.output)[::-1], product.extents, known
    )


def _canonical(graph: Graph, term: Node, known: Mapping[Node, bool], *, flip: bool = False) -> Node:
    """Return the matrix `term`, transposed if `flip` is set, in a canonical form: products that differ only in the
    grouping and order of their factors become the same node. `known` says which nodes are symmetric matrices.
    """
    if not term.shape or known.get(term):
        return term
    if term.op != "ein":
        return graph.transposed(term) if flip else term
    product = product_of(graph, term)
    parts = _factors(product.parts)
    output = tuple(product.output)
    if parts is None:
        return graph.transposed(term) if flip else term
    found = _ordered_product(graph, parts, output[::-1] if flip else output, product.extents, known)
    return graph.scale(product.coefficient, found)


def _factors(parts: Sequence[Operand]) -> list[Operand] | None:
    """Return the operands ``parts`` of a product with all inner products replaced by their operands; None for more than
    `MOST_FACTORS`.
    """
    found, level = list(parts), 0
    while len(found) <= MOST_FACTORS:
        if not any(is_core(node) or node.op == "mul" for node, _ in found):
            return found
        found, level = multiplied_out(found, level), level + 1
    return None


def _ordered_product(
    graph: Graph, parts: Sequence[Operand], output: Labels, extents: Mapping[Label, Affine], known: Mapping[Node, bool]
) -> Node:
    """Return the einsum of `parts` with the result labels `output`, in a standard form: the two labels of each
    symmetric operand are ordered, so that equal products are equal nodes.

    ``known`` maps symmetric operands to True.
    """
    return graph.ein(1, in_order(parts, output, known), output, dict(extents))


def _may_be_flipped(parts: Sequence[Operand], output: Labels) -> bool:
    """Return whether the product of `parts`, with the two result labels ``output``, may be symmetric: the operands with
    only the first label are the same tensors as those with only the second. This is necessary, not sufficient.
    """
    first, second = output
    at_first = sorted(arg.id for arg, labels in parts if first in labels and second not in labels)
    return at_first == sorted(arg.id for arg, labels in parts if second in labels and first not in labels)


def _has_symmetric_entries(graph: Graph, matrix: Node) -> bool:
    """Return whether the entries ``(i, j)`` and ``(j, i)`` of the comprehension `matrix` are the same expression, up to
    signs that cancel.
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        return False
    (first, second), _, body = graph.open(matrix)
    turned = graph.substitute(body, {first: Affine.variable(second), second: Affine.variable(first)})
    one, other = with_canonical_signs(graph, [body, turned])
    return one is other


_ENTRYWISE = frozenset({"add", "pow", "call", "select", "compare", "and", "or", "not"})
"""Operations entry by entry."""

_EXCHANGED = _ENTRYWISE | {"ein", "inv"}
"""Operations whose result `exchange_sign` may know."""

_OTHER = frozenset({"comprehension", "lse"})
"""Matrices that are not made entry by entry of matrices: the inverse may count as if it were."""
