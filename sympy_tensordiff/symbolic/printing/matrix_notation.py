"""Einsum products written as matrix products, if they have such a form.

The labels are the vertices of a graph, vectors belong to its vertices and matrices are its edges. A tree becomes a
product along the path between the labels of the result, or between two ends if all labels are summed; a subtree at a
vertex of the path becomes a diagonal matrix there. A cycle is a trace. Other graphs are reduced to trees or cycles: two
edges in series become one product, which is multiplied elementwise with an edge between the same vertices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sympy_tensordiff.symbolic.printing.notation import (
    Call,
    Chain,
    Constant,
    Diagonal,
    Einsum,
    Inverse,
    Leaf,
    Outer,
    RowVector,
    Transposed,
    Variant,
    count_transposes,
    in_forms,
    in_front,
    is_ones,
    product,
    split_scalar,
    transposed,
    variant,
)

MAX_TRANSPOSED_FACTORS = 2
"""A product with more transposed factors than its transpose, and more than so many, is written as ``(A @ B @ C).T``."""


def einsum_notation(inputs: Sequence[str], output: str, operands: Sequence[Any], extents: Mapping[str, Any]) -> Any:
    """Return the einsum of ``operands`` as a tree for printing: elementwise or matrix products where possible, such as
    ``A @ x``, else index notation.

    ``inputs`` are the labels of the operands, which are given in printed form, ``output`` those of the result;
    ``extents`` has the extent of each label.
    """
    if any(isinstance(operand, Variant) for operand in operands):
        return in_forms(lambda *forms: einsum_notation(inputs, output, forms, extents), *operands)
    fronts, tensors = [], []
    for labels, operand in zip(inputs, operands, strict=True):
        front, tensor = split_scalar(operand) if labels else (in_front(operand), None)
        fronts.append(front)
        if tensor is not None:
            tensors.append((labels, tensor))
    if all(labels == output for labels, _ in tensors):
        return product(factors=[*fronts, *(tensor for _, tensor in tensors)])
    parts = None
    if len(output) <= 2 and all(len(labels) <= 2 for labels, _ in tensors):
        parts = _Network(tensors, extents).to_matrix_products(output)
    if parts is None:
        parts = [], _contraction(tensors, output)
    inner, tensor = parts
    return product(inner=inner, factors=fronts if tensor is None else [*fronts, tensor])


def added_labels(inputs: Sequence[str], output: str) -> list[str]:
    """Return the summed labels of an einsum whose sum is printed as ``sum(A, axis=0)``, and not as a matrix product
    ``A @ B``. ``inputs`` has the labels of each operand, ``output`` those of the result.

    They are summed, and one operand alone has them, or matrices over the same label of the result, as ``ij,ij->i``.
    """
    summed = dict.fromkeys(label for labels in inputs for label in labels if label not in output)
    found = []
    for label in summed:
        own = [labels for labels in inputs if label in labels]
        others = {other for labels in own for other in labels if other != label}
        is_entrywise = all(len(set(labels)) == len(labels) == 2 for labels in own) and len(others) == 1
        if "".join(own).count(label) == 1 or (is_entrywise and others <= set(output)):
            found.append(label)
    return found


def _contraction(tensors: Sequence[tuple[str, Any]], output: str) -> Einsum:
    """Return the tree for printing the contraction of ``tensors``, pairs ``(labels, printed form)``, to the labels
    ``output``.

    Outer products are replaced by their two vectors, and tensors with three or more equal labels are multiplied.
    """
    factors: list[tuple[str, Any]] = []
    for labels, tensor in tensors:
        is_outer = isinstance(tensor, Outer)
        factors += [(labels[0], tensor.column), (labels[1], tensor.row)] if is_outer else [(labels, tensor)]
    for labels in dict.fromkeys(labels for labels, _ in tensors if len(labels) > 2):
        own = [factor for factor in factors if factor[0] == labels]
        if len(own) > 1:
            place = factors.index(own[0])
            factors = [factor for factor in factors if factor[0] != labels]
            factors.insert(place, (labels, product(factors=[tensor for _, tensor in own])))
    return Einsum(tuple(labels for labels, _ in factors), output, tuple(tensor for _, tensor in factors))


class _Network:
    """An einsum as a graph, from which it is written as matrix products: labels are vertices, a matrix is an edge
    between its two labels, and a vector belongs to one vertex.
    """

    def __init__(self, tensors: Sequence[tuple[str, Any]], extents: Mapping[str, Any]) -> None:
        self.extents = extents
        self.tensors = tensors
        self.vectors: dict[str, list[Any]] = {label: [] for labels, _ in tensors for label in labels}
        self.matrices: dict[str, dict[str, Any]] = {label: {} for label in self.vectors}
        for labels, tensor in tensors:
            row, column = labels[0], labels[-1]
            if row != column:
                self._connect(row, column, tensor)
            else:
                factor = tensor if len(labels) == 1 else Call("diag", (tensor,))
                self.vectors[row] += [] if is_ones(factor) else [factor]

    def _connect(self, row: str, column: str, matrix: Any) -> None:
        """Add ``matrix`` as an edge between the labels ``row`` and ``column``. If there is an edge already, the two
        matrices are multiplied elementwise.
        """
        known = self.matrices[row].get(column)
        if known is not None and isinstance(known, Transposed):
            row, column, known, matrix = column, row, self.matrices[column][row], transposed(matrix)
        joined = matrix if known is None else product(factors=(known, matrix))
        self.matrices[row][column] = joined
        self.matrices[column][row] = transposed(joined)

    def to_matrix_products(self, output: str) -> tuple[list[Any], Any] | None:
        """Write the einsum with the result labels ``output`` by matrix products. Return its printed factors
        ``(scalars, tensor)``, where ``tensor`` is None for a scalar result; None if there is no such form.
        """
        scalars: list[Any] = []
        columns: dict[str, Any] = {}
        matrix = None
        for component in self._components():
            remaining = [label for label in output if label in component]
            while self._edges(component) > len(component) - (1 if remaining else 0):
                label = self._between_neighbours(component, remaining)
                if label is None:
                    return None
                self._join(label)
                component.remove(label)
            if not remaining:
                scalars.append(self._trace(component) or self._scalar(component))
            elif len(remaining) == 1:
                columns[remaining[0]] = self._column(remaining[0], ())
            else:
                matrix = self._matrix_product(self._path(*remaining))
        if len(columns) == 2:
            return scalars, Outer(*(columns[label] for label in output))
        return scalars, next(iter(columns.values()), matrix)

    def _edges(self, component: Sequence[str]) -> int:
        """Return the number of matrices (edges of the graph) whose labels are in ``component``, a set of connected
        labels.
        """
        return sum(len(self.matrices[label]) for label in component) // 2

    def _between_neighbours(self, component: Sequence[str], remaining: Collection[str]) -> str | None:
        """Return a label in ``component`` that is an axis of exactly two matrices, so that `_join` can multiply them
        over it; None if there is none. Labels in ``remaining``, the axes of the result, are left out.

        A label whose two neighbours are connected by a matrix is preferred.
        """
        ends = {label: list(self.matrices[label]) for label in component if label not in remaining}
        found = [label for label in ends if len(ends[label]) == 2]
        return next((label for label in found if ends[label][0] in self.matrices[ends[label][1]]), (*found, None)[0])

    def _join(self, label: str) -> None:
        """Replace the two matrices that share the summed ``label``, and the vectors at it, by their product: ``A_ij
        B_jk`` becomes one matrix between i and k.
        """
        ends = list(self.matrices[label])
        vectors = self.vectors[label]
        between = [Diagonal(product(factors=vectors))] if vectors else []
        row, column, matrix = min(
            (
                (row, column, _chain([self.matrices[row][label], *between, self.matrices[label][column]]))
                for row, column in (ends, ends[::-1])
            ),
            key=lambda edge: count_transposes(edge[2]),
        )
        for end in ends:
            del self.matrices[end][label]
        del self.matrices[label]
        self._connect(row, column, matrix)

    def _components(self) -> list[list[str]]:
        """Return the labels in groups: two labels are in one group if matrices connect them, directly or through other
        labels. Within a group, labels are in the order of the operands.
        """
        found: list[list[str]] = []
        seen: set[str] = set()
        for label in self.vectors:
            if label not in seen:
                reached = self._breadth_first(label)
                seen.update(reached)
                found.append([other for other in self.vectors if other in reached])
        return found

    def _breadth_first(self, label: str) -> dict[str, str]:
        """Return a dictionary from each label that chains of matrices connect with ``label`` to the label before it in
        its chain, nearest labels first. ``label`` itself is mapped to itself.
        """
        before = {label: label}
        queue = [label]
        for current in queue:
            for other in self.matrices[current]:
                if other not in before:
                    before[other] = current
                    queue.append(other)
        return before

    def _path(self, start: str, end: str) -> list[str]:
        """Return the labels on a shortest path from ``start`` to ``end``, both included, found breadth-first in the
        graph in which a matrix connects the labels of its two axes.
        """
        before = self._breadth_first(end)
        path = [start]
        while path[-1] != end:
            path.append(before[path[-1]])
        return path

    def _vectors_at(self, label: str, without: Collection[str]) -> list[Any]:
        """Return the printed vectors to multiply along the axis ``label``: the vector operands with this label, and
        ``A @ v`` for each matrix ``A`` from it to another label, where ``v`` is the vector at the other label.

        Matrices whose other label is in ``without`` are skipped.
        """
        hanging = [
            Chain((matrix, *self._columns(other, label)))
            for other, matrix in self.matrices[label].items()
            if other not in without
        ]
        return self.vectors[label] + hanging

    def _columns(self, label: str, before: str) -> tuple[Any, ...]:
        """Return the factors to print after the matrix with the row label ``before`` and the column label ``label``:
        ``(B, v)`` after ``A`` in ``A @ B @ v``. The last factor is a vector.
        """
        others = [other for other in self.matrices[label] if other != before]
        if self.vectors[label] or len(others) != 1:
            return (self._column(label, (before,)),)
        return (self.matrices[label][others[0]], *self._columns(others[0], label))

    def _column(self, label: str, without: Collection[str]) -> Any:
        """Return the printed vector at ``label``: the elementwise product of the vector operands with this label and of
        ``A @ v`` for each matrix ``A`` from it to another label; ones if there are none. Labels in ``without`` are
        skipped.
        """
        return product(factors=self._vectors_at(label, without) or [self._ones(label)])

    def _path_product(self, path: Sequence[str], open_ends: bool) -> Any:
        """Return the product of the matrices along ``path``, a sequence of connected labels. With ``open_ends``, the
        first and last label are axes of the result; otherwise the product is multiplied by the vectors at both ends and
        is a scalar.
        """
        factors: list[Any] = []
        for place, label in enumerate(path):
            neighbours = [*path[max(place - 1, 0) : place], *path[place + 1 : place + 2]]
            if open_ends or len(neighbours) == 2:
                vectors = self._vectors_at(label, neighbours)
                factors += [Diagonal(product(factors=vectors))] if vectors else []
            else:
                column = self._column(label, neighbours)
                factors.append(column if place else RowVector(column))
            factors += [self.matrices[label][path[place + 1]]] if place + 1 < len(path) else []
        return _chain(factors)

    def _matrix_product(self, path: Sequence[str]) -> Any:
        """Return the matrix product along `path`, whose ends are axes of the result; ``(C @ B @ A).T`` for ``A.T @ B.T
        @ C.T``.
        """
        there = self._path_product(path, open_ends=True)
        if count_transposes(there) <= MAX_TRANSPOSED_FACTORS:
            return there
        back = self._path_product(path[::-1], open_ends=True)
        return Transposed(back) if count_transposes(back) + MAX_TRANSPOSED_FACTORS < count_transposes(there) else there

    def _scalar(self, component: Sequence[str]) -> Any:
        """Return the printed scalar, such as ``x.T @ A @ y``, of the connected labels ``component``, all of which are
        summed. The factors are the matrices along the longest path and the vectors at its ends.

        The component must not contain a cycle.
        """
        first = list(self._breadth_first(component[0]))[-1]
        last = list(self._breadth_first(first))[-1]
        if first == last:
            vectors = self.vectors[first]
            left, right = vectors if len(vectors) == 2 else (self._ones(first), self._column(first, ()))
            return Chain((RowVector(left), right))
        ends = sorted((first, last), key=component.index)
        paths = [self._path(*ends), self._path(*ends[::-1])]
        return min((self._path_product(path, open_ends=False) for path in paths), key=count_transposes)

    def _ones(self, label: str) -> Any:
        """Return the printed form, as a tree, of a vector of ones along ``label``."""
        return Constant("ones", (self.extents[label],))

    def _trace(self, component: Sequence[str]) -> Any | None:
        """Return the notation of ``trace(A @ B ...)`` for labels ``component`` that link tensors in a ring, such as i
        and j in ``A[i, j]*B[j, i]``. None if they do not form one.
        """
        own = [(labels, tensor) for labels, tensor in self.tensors if labels[0] in component]
        if len(own) == 1 and len(component) == 1 and len(own[0][0]) == 2:
            return Call("trace", (own[0][1],))
        if len(own) == 2 and len(component) == 2 and all(len(set(labels)) == 2 for labels, _ in own):
            (labels, left), (others, right) = own
            found = Call("trace", (_chain([transposed(left) if labels == others else left, right]),))
            # Of functions of entries the sum of products says it more shortly; formulas have no sum over all axes.
            is_sum = labels == others and not all(isinstance(part, (Leaf, Chain, Inverse)) for part in (left, right))
            return variant(Call("sum", (product(factors=[left, right]),)), found) if is_sum else found
        ring = self._cycle(component)
        if not ring:
            return None
        there, back = self._cyclic_product(ring), self._cyclic_product([ring[0], *ring[:0:-1]])
        return Call("trace", (min(there, back, key=count_transposes),))

    def _cycle(self, component: Sequence[str]) -> list[str]:
        """Return the labels of the cycle in the connected labels ``component``, each next to its neighbour; [] if there
        is no cycle.
        """
        left = {label: set(self.matrices[label]) for label in component}
        ends = [label for label in component if len(left[label]) <= 1]
        while ends:
            end = ends.pop()
            for other in left.pop(end):
                left[other].discard(end)
                ends += [other] if len(left[other]) <= 1 and other not in ends else []
        ring: list[str] = [next(iter(left))] if left else []
        while len(ring) < len(left):
            ring.append(next(label for label in self.matrices[ring[-1]] if label in left and label not in ring))
        return ring

    def _cyclic_product(self, ring: Sequence[str]) -> Any:
        """Return the product of the matrices that link the labels of the cycle `ring`, in their order; vectors at a
        label become diagonal matrices. The contraction is the trace of this product.
        """
        factors: list[Any] = []
        for label, previous, following in zip(ring, [ring[-1], *ring], [*ring[1:], ring[0]], strict=False):
            vectors = self._vectors_at(label, (previous, following))
            factors += [Diagonal(product(factors=vectors))] if vectors else []
            factors.append(self.matrices[label][following])
        return _chain(factors)


def _chain(factors: list[Any]) -> Any:
    """Return the printed form, as a tree, of the matrix product of ``factors``. A unit matrix is left out if the
    product contains a diagonal matrix.
    """
    factors = [part for factor in factors for part in (factor.factors if isinstance(factor, Chain) else (factor,))]
    if any(isinstance(factor, Diagonal) for factor in factors):
        factors = [factor for factor in factors if not (isinstance(factor, Constant) and factor.name == "identity")]
    return factors[0] if len(factors) == 1 else Chain(tuple(factors))
