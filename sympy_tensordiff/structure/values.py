"""The values of terms at their points: kernels for groups of terms, and one that adds values into their positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.structure.pattern import Group, Pattern
from sympy_tensordiff.structure.terms import Binder
from sympy_tensordiff.symbolic.indices import data_of
from sympy_tensordiff.symbolic.replacement import Replacement
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.traversal import free_symbols_in, nodes_in

Points = Sequence[NDArray[np.int64]]


class GroupKernel:
    """The values of all terms of a group at all of its points.

    Over a box the indices are loops. Over other points they are entries of the arrays of coordinates, so that the
    kernel takes as many steps as there are points.
    """

    def __init__(self, args: Sequence[Any], group: Group, options: dict[str, Any]) -> None:
        self.number = len(group.values)
        self._is_box = _is_box(group)
        arguments = list(args)
        if self._is_box:
            moved, axes = over_box(group.binders)
        else:
            step, count = sympy.Dummy("t", integer=True), sympy.Symbol(unused("points", args), integer=True)
            lists = [TensorSymbol(unused(f"at_{n}", args), count, dtype=int) for n in range(len(group.binders))]
            moved = {b.index: coordinates[step] for b, coordinates in zip(group.binders, lists, strict=True)}
            axes = [(step, count)]
            arguments += lists
        values = [*map(Replacement(moved), group.values)]
        results = tuple(TensorComprehension(value, *axes) for value in _with_roots(values, axes))
        self._kernel = lambdify(tuple(arguments), results, "numba", **options)

    def fill(self, arrays: Sequence[Any], points: Points, out: NDArray[Any]) -> None:
        """Write the values, one after the other, into the flat array ``out``."""
        given = (*arrays, *points) if points and not self._is_box else tuple(arrays)
        shape = [-1]
        if points and self._is_box:
            shape = [int(c[-1] - c[0]) + 1 for c in points]
        self._kernel(*given, out=tuple(part.reshape(shape) for part in out.reshape(self.number, -1)))


def over_box(binders: Sequence[Binder]) -> tuple[dict[Any, Any], list[tuple[Any, Any]]]:
    """Indices that count from 0 in place of those of a box, and the axes over them; no binders have one point."""
    names = {b.index: sympy.Dummy(b.index.name, integer=True) for b in binders}
    axes = [(names[b.index], b.high - b.low + 1) for b in binders]
    return {b.index: names[b.index] + b.low for b in binders}, axes or [(sympy.Dummy("t", integer=True), sympy.S.One)]


def _with_roots(values: Sequence[Any], axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The values with the roots that several of them hold as entries of tensors, which are computed once.

    Half-integer powers of one base are powers of its square root.
    """
    roots_of = [{p for p in nodes_in([v]) if isinstance(p, sympy.Pow)} for v in values]
    powers = [{p for p in own if p.exp.is_Rational and p.exp.q == 2} for own in roots_of]
    counts = Counter(base for own in powers for base in {p.base for p in own})
    index = tuple(i for i, _ in axes)
    roots = {base: TensorComprehension(sympy.sqrt(base), *axes)[index] for base, n in counts.items() if n > 1}
    chosen = {p: roots[p.base] ** (2 * p.exp) for own in powers for p in own if p.base in roots}
    return [*map(Replacement(chosen), values)]


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


class Assembler:
    """Computes the values of patterns; the memory in between is used again, since new memory costs as much."""

    def __init__(self) -> None:
        self._buffers: list[NDArray[Any]] = []

    def assemble(
        self, kernels: Sequence[GroupKernel], pattern: Pattern, arrays: Sequence[Any], out: NDArray[Any]
    ) -> NDArray[Any]:
        """The values of all entries of a pattern into ``out``."""
        counts = [
            0 if points is None else kernel.number * (len(points[0]) if points else 1)
            for kernel, points in zip(kernels, pattern.points, strict=True)
        ]
        buffer = self._buffer(sum(counts), out.dtype)
        for kernel, points, part in zip(kernels, pattern.points, np.split(buffer, np.cumsum(counts)), strict=False):
            if points is not None:
                kernel.fill(arrays, points, part)
        if pattern.starts is None:
            np.take(buffer, pattern.sources, out=out, mode="clip")
        else:
            _compiled()(out, pattern.starts, pattern.sources, buffer)
        if not self._buffers:
            self._buffers.append(buffer)
        return out

    def _buffer(self, length: int, dtype: Any) -> NDArray[Any]:
        try:
            buffer = self._buffers.pop()
        except IndexError:
            return np.empty(length, dtype)
        return buffer if buffer.size == length and buffer.dtype == dtype else np.empty(length, dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {"_buffers": []}


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
