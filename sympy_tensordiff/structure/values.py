"""The values of terms at their points: compiled kernels for groups of terms, with common subexpressions stored once,
and a kernel that adds values into entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import sympy

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.structure.pattern import SparsityPattern, TermGroup
from sympy_tensordiff.structure.terms import DerivativeTerm
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.expressions.traversal import (
    free_symbols_in,
    native_parts,
    nodes_in,
    postorder,
    with_args,
)
from sympy_tensordiff.symbolic.index_notation.indices import data_of
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, TensorSymbol

if TYPE_CHECKING:
    from numpy.typing import NDArray

Coordinates: TypeAlias = "Sequence[NDArray[np.int64]]"


class ValueKernel:
    """A compiled function that computes the values of several groups of terms, each at all of its index values.

    Box indices are loops. Other points are given as coordinate arrays, and one loop runs over them.

    `function` takes the arguments of the derivative, then the coordinates of the points of each group that is not a
    box; it returns the values of one group after the other.
    """

    def __init__(self, args: Sequence[Any], groups: Sequence[TermGroup], options: dict[str, Any]) -> None:
        self.groups = tuple(groups)
        self._are_boxes = [_is_box(group) for group in groups]
        self._value_counts = [len(group.values) for group in groups]
        arguments = list(args)
        results: list[Any] = []
        for number, (group, is_box) in enumerate(zip(groups, self._are_boxes, strict=True)):
            if is_box:
                substitution, axes = shift_to_origin(group.binders)
            else:
                step = sympy.Dummy("t", integer=True)
                count = sympy.Symbol(unused_name(f"points_{number}", arguments), integer=True)
                names = [unused_name(f"at_{number}_{n}", arguments) for n in range(len(group.binders))]
                lists = [TensorSymbol(name, count, dtype=int) for name in names]
                substitution = {b.index: coordinates[step] for b, coordinates in zip(group.binders, lists, strict=True)}
                axes = [(step, count)]
                arguments += lists
            values = [*map(Replacement(Substitution(substitution)), group.values)]
            results += [TensorComprehension(value, *axes) for value in extract_common_subexpressions(values, axes)]
        self.arguments, self.results_of_terms = tuple(arguments), tuple(results)
        self.function = lambdify(self.arguments, self.results_of_terms, **options)

    @property
    def terms(self) -> list[DerivativeTerm]:
        """Return the terms of all groups, in order, with ``result<n>`` as the value: the name of the kernel's result
        that has the values of this term. Terms of a group with equal values share a result.
        """
        terms: list[DerivativeTerm] = []
        first = 0
        for group, number in zip(self.groups, self._value_counts, strict=True):
            names = {value: sympy.Symbol(f"result{first + n}") for n, value in enumerate(group.values)}
            terms += [term._replace(value=names[term.value]) for term in group.terms]
            first += number
        return terms

    def counts(self, points: Sequence[Coordinates]) -> list[int]:
        """Return the number of values of each group of terms. ``points`` has, for each group, the coordinates (arrays
        of index values) at which it is evaluated; () if it has no indices.
        """
        return [n * (len(at[0]) if at else 1) for n, at in zip(self._value_counts, points, strict=True)]

    def coordinates(self, points: Sequence[Coordinates]) -> list[NDArray[np.int64]]:
        """Return the coordinates that the compiled function takes as its last arguments. ``points`` has, for each group
        of terms, an array of values for each index; those of groups over all combinations of index values are left out,
        since loops run over these.
        """
        return [c for at, is_box in zip(points, self._are_boxes, strict=True) if not is_box for c in at]

    def results(self, buffer: NDArray[Any], points: Sequence[Coordinates]) -> tuple[NDArray[Any], ...]:
        """Split the flat ``buffer`` of computed values into views: one for each formula of each group of terms, with
        its values at all ``points`` of the group.

        If these points form a full box of index values, the view has an axis for each index, else it is a vector.
        """
        views: list[NDArray[Any]] = []
        parts = np.split(buffer, np.cumsum(self.counts(points))[:-1])
        for part, number, at, is_box in zip(parts, self._value_counts, points, self._are_boxes, strict=True):
            shape = [int(c[-1] - c[0]) + 1 for c in at] if is_box and at else [-1]
            views += [one.reshape(shape) for one in part.reshape(number, -1)]
        return tuple(views)


def shift_to_origin(binders: Sequence[IndexRange]) -> tuple[dict[Any, Any], list[tuple[Any, Any]]]:
    """Return a substitution of the indices of ``binders`` by new ones that count from 0, ``i`` by ``k + 2`` if i begins
    at 2, and a list of pairs ``(new index, length of its range)``.

    Without `binders`, there is one axis of length 1.
    """
    names = {b.index: sympy.Dummy(b.index.name, integer=True) for b in binders}
    axes = [(names[b.index], b.high - b.low + 1) for b in binders]
    return {b.index: names[b.index] + b.low for b in binders}, axes or [(sympy.Dummy("t", integer=True), sympy.S.One)]


def _is_box(group: TermGroup) -> bool:
    """Return whether the ranges of ``group`` are constant, without conditions and index arrays, so that its points are
    all combinations of index values.
    """
    indices = {b.index for b in group.binders}
    ends = [end for b in group.binders for end in (b.low, b.high)]
    conditional = any(condition.free_symbols & indices for condition in group.conditions)
    return not conditional and not any(end.free_symbols & indices or data_of(end) for end in ends)


def unused_name(name: str, args: Sequence[Any]) -> str:
    """Return ``name``, with underscores appended until it differs from all names in ``args``."""
    taken = {str(getattr(a, "name", a)) for a in args} | {str(s) for s in free_symbols_in(args)}
    while name in taken:
        name += "_"
    return name


def direction_symbols(tensors: Sequence[Any], args: Sequence[Any], name: str = "direction") -> tuple[TensorSymbol, ...]:
    """Return a new tensor symbol for a direction along each of ``tensors``: it has the shape of the tensor, and a name
    that no argument has.
    """
    shapes = [tuple(getattr(tensor, "shape", ())) for tensor in tensors]
    return tuple(TensorSymbol(unused_name(f"{name}_{n}", args), shape) for n, shape in enumerate(shapes))


class _ValueBuffers(NamedTuple):
    """Memory for the values of all terms: the flat ``buffer`` and the views of it that the kernel fills."""

    buffer: NDArray[Any]
    results: tuple[NDArray[Any], ...]


class EntryEvaluator:
    """Computes the values of all entries of a sparsity pattern, for the sizes and index arrays for which the pattern
    was found.

    `groups` are those from which `pattern` was made; `kernel` returns the `ValueKernel` of a tuple of groups.
    """

    def __init__(
        self,
        pattern: SparsityPattern,
        groups: Sequence[TermGroup],
        kernel: Callable[[tuple[TermGroup, ...]], ValueKernel],
    ) -> None:
        self.pattern = pattern
        pairs = [(group, at) for group, at in zip(groups, pattern.points, strict=True) if at is not None]
        self._groups, self._points = tuple(group for group, _ in pairs), [at for _, at in pairs]
        self._make_kernel = kernel
        self._runners: dict[np.dtype[Any], Callable[..., None]] = {}
        self._spare_buffers: dict[np.dtype[Any], list[_ValueBuffers]] = {}

    def __call__(self, values: Sequence[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Fill ``out`` with the values of all entries and return it; ``values`` are `CheckedArguments.values`."""
        if not self._groups:
            return out
        free = self._spare_buffers.setdefault(out.dtype, [])
        try:
            workspace = free.pop()
        except IndexError:  # the first call, or another thread uses the buffers
            workspace = self._allocate_buffers(out.dtype)
        kernel_arguments = (*values, *self._coordinates)
        run = self._runners.get(out.dtype)
        if run is None:
            self._runners[out.dtype] = self._kernel.function.runner(kernel_arguments, workspace.results)
        else:
            run(kernel_arguments, workspace.results)
        pattern = self.pattern
        if pattern.starts is None:
            np.take(workspace.buffer, pattern.sources, out=out, mode="clip")
        elif self._kernel.function.backend == "numpy":
            np.add.reduceat(np.take(workspace.buffer, pattern.sources), pattern.starts[:-1], out=out)
        else:
            _compiled_sum_sources()(out, pattern.starts, pattern.sources, workspace.buffer)
        if not free:
            free.append(workspace)
        return out

    def _allocate_buffers(self, dtype: Any) -> _ValueBuffers:
        """Return newly allocated memory for the values of all terms."""
        buffer = np.empty(sum(self._kernel.counts(self._points)), dtype)
        return _ValueBuffers(buffer, self._kernel.results(buffer, self._points))

    @cached_property
    def _kernel(self) -> ValueKernel:
        """The compiled function that computes the values of all terms, without groups of terms that have no points at
        the current sizes.
        """
        return self._make_kernel(self._groups)

    @cached_property
    def _coordinates(self) -> list[NDArray[np.int64]]:
        """The index arrays that the kernel takes as arguments: one array for each index of each group of terms that is
        not over all combinations of index values.
        """
        return self._kernel.coordinates(self._points)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_runners": {}, "_spare_buffers": {}}


@cache
def _compiled_sum_sources() -> Callable[..., None]:
    """Return the function that adds up the values of each matrix entry (`_sum_sources`), compiled by Numba."""
    from numba import njit  # imported here: importing the package needs no compiler

    try:
        return njit(nogil=True, cache=True)(_sum_sources)  # type: ignore[no-any-return]
    except RuntimeError:  # no writable cache folder
        return njit(nogil=True)(_sum_sources)  # type: ignore[no-any-return]


def _sum_sources(out: NDArray[Any], starts: NDArray[Any], sources: NDArray[Any], values: NDArray[Any]) -> None:
    """Set ``out[e]``, the matrix entry number e, to the sum of ``values[sources[k]]`` for all k from ``starts[e]`` to
    ``starts[e + 1] - 1``; there is at least one such k.
    """
    for entry in range(out.shape[0]):
        total = values[sources[starts[entry]]]
        for n in range(starts[entry] + 1, starts[entry + 1]):
            total += values[sources[n]]
        out[entry] = total


CALL_COST, DIVISION_COST, REDUCTION_COST = 20, 5, 50
"""Estimated costs of a function call, a division and a reduction, in units of one addition."""


def extract_common_subexpressions(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return ``values`` with common subexpressions read from arrays, if storing them is cheaper than computing them
    again. The arrays are comprehensions over ``axes``, pairs of an index and its extent.
    """
    with_roots, index = _extract_square_roots(values, axes), tuple(i for i, _ in axes)
    nodes: dict[int, Any] = {}
    for value in with_roots:
        nodes.update((id(node), node) for node in postorder(value, nodes, _unconditional_args, id))
    stored = _choose_stored_nodes(nodes, {id(value) for value in with_roots})
    rewritten: dict[int, Any] = {}
    for key, node in nodes.items():
        new = with_args(node, [rewritten[id(arg)] for arg in node.args]) if _unconditional_args(node) else node
        rewritten[key] = TensorComprehension(new, *axes)[index] if key in stored else new
    return [rewritten[id(value)] for value in with_roots]


def _extract_square_roots(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return ``values`` with each square root that several of them contain replaced by an entry of a comprehension over
    ``axes``. So it is computed once.

    Half-integer powers of one base are powers of its square root.
    """
    powers = [{p for p in nodes_in([v]) if isinstance(p, sympy.Pow)} for v in values]
    half_powers = [{p for p in own if p.exp.is_Rational and p.exp.q == 2} for own in powers]
    counts = Counter(base for own in half_powers for base in {p.base for p in own})
    index = tuple(i for i, _ in axes)
    roots = {base: TensorComprehension(sympy.sqrt(base), *axes)[index] for base, n in counts.items() if n > 1}
    replacements = {p: roots[p.base] ** (2 * p.exp) for own in half_powers for p in own if p.base in roots}
    return [*map(Replacement(replacements), values)]


def _unconditional_args(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node`` that are computed whenever ``node`` is: none, (), for a `Piecewise`, and all
    arguments of other nodes.
    """
    return () if isinstance(node, sympy.Piecewise) else native_parts(node)


def _choose_stored_nodes(nodes: dict[int, Any], roots: set[int]) -> set[int]:
    """Return the ids of the nodes to store in arrays, because computing them again for each node that uses them costs
    more. ``nodes`` maps ids to nodes; ``roots`` are the ids of the results.

    ``nodes`` maps ids to nodes, arguments before their users.
    """
    consumers_without_storing = _find_consumers(nodes, roots, set())
    costs: dict[int, int] = {}
    stored: set[int] = set()
    for key, node in nodes.items():
        costs[key] = _count_own_operations(node) + sum(
            0 if id(p) in stored else costs[id(p)] for p in _unconditional_args(node)
        )
        if key not in roots and _is_storing_cheaper(costs[key], len(consumers_without_storing[key])):
            stored.add(key)
    consumers = _find_consumers(nodes, roots, stored)  # fewer if only other stored nodes use it
    return {key for key in stored if _is_storing_cheaper(costs[key], len(consumers[key]))}


def _is_storing_cheaper(cost: int, consumers: int) -> bool:
    """Return whether storing a value is cheaper than computing it again for each of its ``consumers``, given the
    ``cost`` of one computation in additions.
    """
    return cost * (consumers - 1) > 4 + 2 * consumers


def _find_consumers(nodes: dict[int, Any], roots: set[int], stored: set[int]) -> dict[int, set[int]]:
    """Return a dictionary from the ``id`` of each node to the ids of its consumers. These are the nodes in ``stored``
    or ``roots`` whose computation evaluates the node.

    A node that only a ``stored`` node uses has this one as its consumer.
    """
    consumers: dict[int, set[int]] = {key: {key} if key in roots else set() for key in nodes}
    for key, node in reversed(nodes.items()):
        for arg in _unconditional_args(node):
            consumers[id(arg)] |= {key} if key in stored else consumers[key]
    return consumers


def _count_own_operations(node: Any) -> int:
    """Return the estimated operations of ``node`` itself, its arguments excluded, in units of one addition."""
    if isinstance(node, sympy.Add | sympy.Mul):
        return sum(not arg.is_Number for arg in node.args) - isinstance(node, sympy.Mul)
    if isinstance(node, sympy.Pow):
        whole = node.exp.is_Integer
        return abs(int(node.exp)).bit_length() + DIVISION_COST * bool(node.exp < 0) if whole else CALL_COST
    if not node.args or isinstance(node, TensorEntry):
        return 0
    if isinstance(node, sympy.Piecewise | sympy.Abs | sympy.Max | sympy.Min):
        return len(node.args)
    return CALL_COST if native_parts(node) else REDUCTION_COST
