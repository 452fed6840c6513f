"""The values of terms at their points: kernels for groups of terms, and one that adds values into their entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.structure.pattern import Group, Pattern
from sympy_tensordiff.structure.sharing import with_common_parts
from sympy_tensordiff.structure.terms import Binder, Term
from sympy_tensordiff.symbolic.indices import Substitution, data_of
from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.traversal import free_symbols_in

Points = Sequence[NDArray[np.int64]]


class ValueKernel:
    """A compiled function of the values of several groups, each term at all points of its group.

    Over a box the indices are loops. Over other points they are entries of the arrays of coordinates, so that the
    kernel takes as many steps as there are points.

    Attributes
    ----------
    groups : tuple of Group
    arguments, results_of_terms : tuple
    function : CompiledFunction
        Takes the arguments of the derivative, then the coordinates of the points of each group that is not a box.
        Returns the values of one group after the other.
    """

    def __init__(self, args: Sequence[Any], groups: Sequence[Group], options: dict[str, Any]) -> None:
        self.groups = tuple(groups)
        self._are_boxes = [_is_box(group) for group in groups]
        self._numbers = [len(group.values) for group in groups]
        arguments = list(args)
        results: list[Any] = []
        for number, (group, is_box) in enumerate(zip(groups, self._are_boxes, strict=True)):
            if is_box:
                moved, axes = over_box(group.binders)
            else:
                step = sympy.Dummy("t", integer=True)
                count = sympy.Symbol(unused(f"points_{number}", arguments), integer=True)
                names = [unused(f"at_{number}_{n}", arguments) for n in range(len(group.binders))]
                lists = [TensorSymbol(name, count, dtype=int) for name in names]
                moved = {b.index: coordinates[step] for b, coordinates in zip(group.binders, lists, strict=True)}
                axes = [(step, count)]
                arguments += lists
            values = [*map(Replacement(Substitution(moved)), group.values)]
            results += [TensorComprehension(value, *axes) for value in with_common_parts(values, axes)]
        self.arguments, self.results_of_terms = tuple(arguments), tuple(results)
        self.function = lambdify(self.arguments, self.results_of_terms, **options)

    @property
    def terms(self) -> list[Term]:
        """The terms, each with the name of its result instead of its value."""
        found: list[Term] = []
        first = 0
        for group, number in zip(self.groups, self._numbers, strict=True):
            names = {value: sympy.Symbol(f"result{first + n}") for n, value in enumerate(group.values)}
            found += [term._replace(value=names[term.value]) for term in group.terms]
            first += number
        return found

    def counts(self, points: Sequence[Points]) -> list[int]:
        """Return how many values each group has."""
        return [n * (len(at[0]) if at else 1) for n, at in zip(self._numbers, points, strict=True)]

    def coordinates(self, points: Sequence[Points]) -> list[NDArray[np.int64]]:
        """Return the arguments that follow those of the derivative."""
        return [c for at, is_box in zip(points, self._are_boxes, strict=True) if not is_box for c in at]

    def results(self, buffer: NDArray[Any], points: Sequence[Points]) -> tuple[NDArray[Any], ...]:
        """Return the views of a flat array that the results are written to."""
        views: list[NDArray[Any]] = []
        parts = np.split(buffer, np.cumsum(self.counts(points))[:-1])
        for part, number, at, is_box in zip(parts, self._numbers, points, self._are_boxes, strict=True):
            shape = [int(c[-1] - c[0]) + 1 for c in at] if is_box and at else [-1]
            views += [one.reshape(shape) for one in part.reshape(number, -1)]
        return tuple(views)


def over_box(binders: Sequence[Binder]) -> tuple[dict[Any, Any], list[tuple[Any, Any]]]:
    """Indices that count from 0 in place of those of a box, and the axes over them; no binders have one point."""
    names = {b.index: sympy.Dummy(b.index.name, integer=True) for b in binders}
    axes = [(names[b.index], b.high - b.low + 1) for b in binders]
    return {b.index: names[b.index] + b.low for b in binders}, axes or [(sympy.Dummy("t", integer=True), sympy.S.One)]


def _is_box(group: Group) -> bool:
    """Whether the points are those of a box whose corners are known from the sizes."""
    indices = {b.index for b in group.binders}
    ends = [end for b in group.binders for end in (b.low, b.high)]
    conditional = any(condition.free_symbols & indices for condition in group.conditions)
    return not conditional and not any(end.free_symbols & indices or data_of(end) for end in ends)


def unused(name: str, args: Sequence[Any]) -> str:
    """A name that no argument has."""
    taken = {str(getattr(a, "name", a)) for a in args} | {str(s) for s in free_symbols_in(args)}
    while name in taken:
        name += "_"
    return name


def directions_of(tensors: Sequence[Any], args: Sequence[Any], name: str = "direction") -> tuple[TensorSymbol, ...]:
    """A tensor of the shape of each of some tensors or scalars, under a name that no argument has."""
    shapes = [tuple(getattr(tensor, "shape", ())) for tensor in tensors]
    return tuple(TensorSymbol(unused(f"{name}_{n}", args), shape) for n, shape in enumerate(shapes))


class _Workspace(NamedTuple):
    """Memory for the values of all terms, and the views of it that the kernel fills."""

    buffer: NDArray[Any]
    results: tuple[NDArray[Any], ...]


class Entries:
    """The values of the entries of a pattern, for arguments of the sizes and integers that the pattern is for.

    Parameters
    ----------
    pattern : Pattern
    groups : sequence of Group
        Those of the pattern.
    kernel : callable
        From groups to their `ValueKernel`.
    """

    def __init__(
        self, pattern: Pattern, groups: Sequence[Group], kernel: Callable[[tuple[Group, ...]], ValueKernel]
    ) -> None:
        self.pattern = pattern
        pairs = [(group, at) for group, at in zip(groups, pattern.points, strict=True) if at is not None]
        self._groups, self._points = tuple(group for group, _ in pairs), [at for _, at in pairs]
        self._make = kernel
        self._runs: dict[np.dtype[Any], Callable[..., None]] = {}
        self._free: dict[np.dtype[Any], list[_Workspace]] = {}

    def __call__(self, values: Sequence[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Fill ``out`` with the values of all entries; ``values`` are arguments as `Call.values` has them."""
        if not self._groups:
            return out
        free = self._free.setdefault(out.dtype, [])
        try:
            workspace = free.pop()
        except IndexError:  # the first call, or another thread works with it
            workspace = self._workspace(out.dtype)
        given = (*values, *self._coordinates)
        run = self._runs.get(out.dtype)
        if run is None:
            self._runs[out.dtype] = self._kernel.function.runner(given, workspace.results)
        else:
            run(given, workspace.results)
        pattern = self.pattern
        if pattern.starts is None:
            np.take(workspace.buffer, pattern.sources, out=out, mode="clip")
        elif self._kernel.function.backend == "numpy":
            np.add.reduceat(np.take(workspace.buffer, pattern.sources), pattern.starts[:-1], out=out)
        else:
            _compiled()(out, pattern.starts, pattern.sources, workspace.buffer)
        if not free:
            free.append(workspace)
        return out

    def _workspace(self, dtype: Any) -> _Workspace:
        buffer = np.empty(sum(self._kernel.counts(self._points)), dtype)
        return _Workspace(buffer, self._kernel.results(buffer, self._points))

    @cached_property
    def _kernel(self) -> ValueKernel:
        return self._make(self._groups)

    @cached_property
    def _coordinates(self) -> list[NDArray[np.int64]]:
        return self._kernel.coordinates(self._points)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_runs": {}, "_free": {}}


@cache
def _compiled() -> Callable[..., None]:
    from numba import njit  # here, so that to import the package takes no compiler

    try:
        return njit(nogil=True, cache=True)(_sums)  # type: ignore[no-any-return]
    except RuntimeError:  # there is no folder to keep compiled code in
        return njit(nogil=True)(_sums)  # type: ignore[no-any-return]


def _sums(out: NDArray[Any], starts: NDArray[Any], sources: NDArray[Any], values: NDArray[Any]) -> None:
    for entry in range(out.shape[0]):
        total = values[sources[starts[entry]]]
        for n in range(starts[entry] + 1, starts[entry + 1]):
            total += values[sources[n]]
        out[entry] = total
