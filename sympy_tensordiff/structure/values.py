"""The values of terms at their points: kernels for groups of terms, and one that adds values into their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numba
import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.structure.pattern import Group, Pattern
from sympy_tensordiff.symbolic.indices import data_of
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, TensorSymbol

Points = Sequence[NDArray[np.int64]]


class GroupKernel:
    """The values of all terms of a group at all of its points.

    Over a box the indices are loops. Over other points they are entries of the arrays of coordinates, so that the kernel
    takes as many steps as there are points.
    """

    def __init__(self, args: Sequence[Any], group: Group, options: dict[str, Any]) -> None:
        self.distinct = list(dict.fromkeys(term.value for term in group.terms))
        self.which = [self.distinct.index(term.value) for term in group.terms]
        self._is_box = _is_box(group)
        self._buffers: list[tuple[NDArray[Any], ...]] = []
        arguments = list(args)
        if not group.binders:
            axis = (sympy.Dummy("t", integer=True), sympy.S.One)
            results = [TensorComprehension(value, axis) for value in self.distinct]
        elif self._is_box:
            names = {b.index: sympy.Dummy(b.index.name, integer=True) for b in group.binders}
            moved = {b.index: names[b.index] + b.low for b in group.binders}
            axes = [(names[b.index], b.high - b.low + 1) for b in group.binders]
            results = [TensorComprehension(value.xreplace(moved), *axes) for value in self.distinct]
        else:
            step, count = sympy.Dummy("t", integer=True), sympy.Symbol(unused("points", args), integer=True)
            lists = [TensorSymbol(unused(f"at_{n}", args), count, dtype=int) for n in range(len(group.binders))]
            at = {b.index: coordinates[step] for b, coordinates in zip(group.binders, lists, strict=True)}
            results = [TensorComprehension(value.xreplace(at), (step, count)) for value in self.distinct]
            arguments += lists
        self._kernel = lambdify(tuple(arguments), tuple(results), "numba", **options)

    def __call__(self, arrays: Sequence[Any], points: Points) -> tuple[NDArray[Any], ...]:
        """One flat array for each of ``distinct``. Give them to `release` when they have been read."""
        given = (*arrays, *points) if points and not self._is_box else tuple(arrays)
        try:
            buffer = self._buffers.pop()
        except IndexError:
            return self._kernel(*given)  # type: ignore[no-any-return]
        count = len(points[0]) if points else 1
        if buffer[0].size != count or any(np.result_type(np.float64, a) != buffer[0].dtype for a in _real(arrays)):
            return self._kernel(*given)  # type: ignore[no-any-return]
        self._kernel(*given, out=buffer)
        return buffer

    def release(self, buffer: tuple[NDArray[Any], ...]) -> None:
        """Use the arrays again in a later call: new memory costs as much as the values."""
        if len(self._buffers) < 2:
            self._buffers.append(buffer)


def _real(arrays: Sequence[Any]) -> list[Any]:
    return [a for a in arrays if getattr(a, "dtype", None) == np.float32]


def _is_box(group: Group) -> bool:
    """Whether the points are those of a box whose corners are known from the sizes."""
    indices = {b.index for b in group.binders}
    ends = [end for b in group.binders for end in (b.low, b.high)]
    conditional = any(condition.free_symbols & indices for condition in group.conditions)
    return not conditional and not any(end.free_symbols & indices or data_of(end) for end in ends)


def unused(name: str, args: Sequence[Any]) -> str:
    """A name that no argument has."""
    taken = {str(getattr(a, "name", a)) for a in args} | {str(s) for a in args for s in a.free_symbols}
    while name in taken:
        name += "_"
    return name


def add_values(
    out: NDArray[Any], kernels: Sequence[GroupKernel], pattern: Pattern, arrays: Sequence[Any]
) -> NDArray[Any]:
    """Add the values of all terms into ``out``, in the order of the pattern."""
    for kernel, points, targets in zip(kernels, pattern.points, pattern.targets, strict=True):
        if points is None:
            continue
        values = kernel(arrays, points)
        for which, both in zip(kernel.which, targets, strict=True):
            for target in both:
                if target is not None:
                    _add()(out, target, np.ravel(values[which]))
        kernel.release(values)
    return out


@cache
def _add() -> Callable[..., None]:
    return numba.njit(nogil=True)(_add_at)  # type: ignore[no-any-return]


def _add_at(out: NDArray[Any], target: NDArray[Any], values: NDArray[Any]) -> None:
    length = out.shape[0]
    for n in range(target.shape[0]):
        if target[n] < length:
            out[target[n]] += values[n]


def integer_tensors(args: Sequence[Any]) -> list[TensorSymbol]:
    """The arguments that are tensors of integers: a pattern may depend on their entries."""
    return [a for a in args if isinstance(a, TensorSymbol) and a.dtype is int]


def reads_in(expressions: Sequence[Any]) -> set[Any]:
    """The tensors of which entries are read in expressions of integers."""
    found = {entry.tensor for e in expressions for entry in e.atoms(TensorEntry)}
    return found | {t for e in expressions for t in e.atoms(TensorSymbol)}
