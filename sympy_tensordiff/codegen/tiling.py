"""How the blocks of a `Correlation` lie in its arrays: which labels run inside of a block, and which count blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from sympy_tensordiff.codegen.loops import Correlation
from sympy_tensordiff.codegen.scalars import Load
from sympy_tensordiff.codegen.steps import Shapes
from sympy_tensordiff.integer.affine import Affine

ROWS = 8
"""Rows of a block, each of which a number of the one operand is multiplied with."""

LANES = 16
"""Numbers side by side, in single precision."""

UNKNOWN = 32
"""How long axes of unknown length are taken for."""

TASKS = 8
"""At least so many blocks of the result are computed side by side, where that can be."""

_WORTH = 0.2

_SERVES = 128


def spares_copies(step: Correlation, kept: Sequence[tuple[Affine, ...]]) -> bool:
    """Whether copies of these shapes take long beside the products: each entry serves a few of them only.

    Where it serves many, a library, which lays out both operands in blocks first, is faster than blocks in place.
    """
    entries = sum(prod(map(length, shape)) for shape in kept)
    return prod(length(extent) for _, extent in step.labels) <= _SERVES * entries


@dataclass(frozen=True)
class Tiling:
    """The roles of labels: a block is ``output[rows, lanes] += left[rows, terms]*right[terms, lanes]``.

    ``lanes`` are an axis of the output and of ``right``. For each of the ``tasks``, which are axes of the output, an
    array with the other axes is filled apart. One of them may be an index with several labels, of which ``solved``
    is computed.
    """

    left: Load
    right: Load
    rows: str
    lanes: str
    terms: str
    tasks: tuple[int, ...]
    solved: str | None


def tiling(step: Correlation, shapes: Shapes) -> Tiling | None:
    """The roles with the best use of a block; None where a good part of it is empty."""
    lengths = {label: length(extent) for label, extent in step.labels}
    own = {
        label: place
        for label, extent in step.labels
        if (place := _whole(step.output, label, extent, shapes)) is not None
    }
    best: tuple[tuple[float, int], Tiling] | None = None
    for left, right in ((step.left, step.right), (step.right, step.left)):
        inside = [_labels(view, lengths) for view in (step.output, left, right)]
        lanes = [v for v, n in step.labels if v in own and _whole(right, v, n, shapes) is not None]
        rows = [v for v in lengths if v in inside[0] and v in inside[1] and v not in inside[2]]
        terms = [v for v in lengths if v not in inside[0]]
        lane = _longest([v for v in lanes if v not in inside[1]], lengths)
        row, term = _longest(rows, lengths), _longest(terms, lengths)
        if lane is None or row is None or term is None:
            continue
        use = _use(lengths[lane], LANES) * _use(lengths[row], ROWS) * min(lengths[term], UNKNOWN) / UNKNOWN
        rank = use, -prod(lengths[v] for v in inside[2])  # the second operand is copied
        if use >= _WORTH and (best is None or rank > best[0]):
            best = rank, Tiling(left, right, row, lane, term, *_tasks(step, row, lane, lengths, own))
    return None if best is None else best[1]


def own_axis(view: Load, label: str) -> int | None:
    """The axis of which a label is the index, if it stands in no other one."""
    places = [place for place, form in enumerate(view.index) if label in form.atoms()]
    return places[0] if len(places) == 1 and view.index[places[0]] == Affine.variable(label) else None


def length(extent: Affine) -> int:
    """About how long an axis is."""
    return extent.constant if extent.is_constant else UNKNOWN


def _whole(view: Load, label: str, extent: Affine, shapes: Shapes) -> int | None:
    """The axis which a label runs along from its first entry to its last one."""
    place = own_axis(view, label)
    return place if place is not None and shapes[view.array][place] == extent else None


def _tasks(
    step: Correlation, row: str, lane: str, lengths: Mapping[str, int], own: Mapping[str, int]
) -> tuple[tuple[int, ...], str | None]:
    """Axes of the output for enough tasks, longest first; an index with several labels if no others are enough."""
    found, number = [], 1
    counts = {own[v]: -(-n // ROWS) if v == row else n for v, n in lengths.items() if v in own and v != lane}
    for place in sorted(counts, key=lambda place: -counts[place]):
        if number < TASKS:
            found.append(place)
            number *= max(counts[place], 1)
    for place, form in enumerate(step.output.index):
        if number < TASKS and place not in counts and place != own[lane]:
            inside = [v for v in form.variables() if v in lengths and v != row]
            solved = _longest(inside, lengths)
            if solved is not None and row not in form.atoms() and _occurs_once(step.output, solved):
                return (*found, place), solved
    return tuple(found), None


def _occurs_once(view: Load, label: str) -> bool:
    return sum(label in form.atoms() for form in view.index) == 1


def _longest(labels: Sequence[str], lengths: Mapping[str, int]) -> str | None:
    """The longest of some axes, of several the last one."""
    return max(reversed(labels), key=lambda v: lengths[v]) if labels else None


def _labels(view: Load, lengths: Mapping[str, int]) -> set[str]:
    return {name for form in view.index for name in form.atoms() if name in lengths}


def _use(size: int, block: int) -> float:
    """What part of the blocks that an axis takes it fills."""
    return size / (max(-(-size // block), 1) * block)
