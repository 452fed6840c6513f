"""Normal form of arrays up to shifts: candidates that differ by a shift get the same axes and share an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.lower.plan import StorageCandidate, index_forms
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.indirect import data_entries


class ShiftNormaliser:
    """Finds values that are equal up to a shift of their axes, such as ``exp(x[a])`` and ``exp(x[a + 1])``, and changes
    them to one common value, so that one array stores them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._first: dict[Node, tuple[Affine, ...]] = {}
        """The starts of the first candidate, by its node with axes that start at 0."""

    def with_known_axes(self, found: StorageCandidate) -> StorageCandidate:
        """Return `found`, the description of an array, in the normal form of all descriptions that differ by shifts of
        their axes only, such as ``exp(x[a])`` and ``exp(x[a + 1])``, so that these share an array. The first one that
        was passed is the normal form.
        """
        starts = _least_shifts(found)
        first = self._first.setdefault(
            self.graph.substitute(found.node, _shift_substitution(found, [-s for s in starts])), starts
        )
        return _shifted_candidate(self.graph, found, [one - start for one, start in zip(first, starts, strict=True)])


def at_origin(graph: Graph, found: StorageCandidate) -> StorageCandidate:
    """Return the storage candidate `found` with its axes shifted so that the smallest offset in its reads is 0: the
    value ``x[a - 1] + x[a]`` becomes ``x[a] + x[a + 1]``.
    """
    return _shifted_candidate(graph, found, [-start for start in _least_shifts(found)])


def _shifted_candidate(graph: Graph, found: StorageCandidate, by: Sequence[Affine]) -> StorageCandidate:
    """Return the description `found` of an array with its axes shifted by the forms `by`, one for each axis. Shifted by
    1, an array of ``x[a]`` stores ``x[a + 1]`` at the index a.
    """
    if all(n == Affine() for n in by):
        return found
    places = _shift_substitution(found, by)
    return replace(
        found,
        node=graph.substitute(found.node, places),
        forms=tuple([form - n for form, n in zip(found.forms, by, strict=True)]),
        rows=tuple([row.substitute(places) for row in found.rows]),
        lows=tuple([tuple([low - n for low in lows]) for lows, n in zip(found.lows, by, strict=True)]),
        highs=tuple([tuple([high - n for high in highs]) for highs, n in zip(found.highs, by, strict=True)]),
    )


def _shift_substitution(found: StorageCandidate, by: Sequence[Affine]) -> dict[int, Affine]:
    """Return the substitution ``{axis: axis + shift}`` for the axes of the candidate ``found``, whose shifts are
    ``by``. Axes with the shift 0 are left out.
    """
    return {axis: Affine.variable(axis) + n for axis, n in zip(found.axes, by, strict=True) if n != Affine()}


def _least_shifts(candidate: StorageCandidate) -> tuple[Affine, ...]:
    """Return the smallest offset c of the indices ``i + c`` in ``candidate``, for each axis i: -1 for ``x[i - 1] +
    x[i]``, -n for ``x[i - n]*y[i - n]``, and 0 for an axis without such indices.

    Sizes are part of c where all indices have the same ones.
    """
    constants: dict[int, tuple[int, int]] = {}
    sizes: dict[int, set[Affine]] = {axis: set() for axis in candidate.axes}
    own = frozenset(candidate.axes)
    for form in (form for part in reachable(candidate.node) for form in index_forms(part)):
        axes = form.atoms() & own
        if len(axes) == 1 and (factor := form.coefficient(axis := next(iter(axes)))):
            constant = abs(factor), (form.constant if factor > 0 else -form.constant) // abs(factor)
            constants[axis] = min(constant, constants.get(axis, constant))
            rest = form - Affine({axis: factor}) - form.constant
            is_size = abs(factor) == 1 and axis not in form.hidden() and not data_entries([rest])
            sizes[axis].add(rest * factor if is_size else Affine())
        for axis in axes if len(axes) > 1 else ():
            sizes[axis].add(Affine())
    common = (one.copy().pop() if len(one := sizes[axis]) == 1 else Affine() for axis in candidate.axes)
    return tuple([size + constants.get(axis, (1, 0))[1] for axis, size in zip(candidate.axes, common, strict=True)])
