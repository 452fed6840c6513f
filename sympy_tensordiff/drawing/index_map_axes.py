"""Index maps drawn into the axes of matplotlib, which are given: nothing is imported, no setting is changed.

The colours are those of Okabe and Ito, which differ for colour-blind readers and in brightness; what matters
differs in shape as well.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from math import ceil
from operator import add, sub
from typing import Any

from sympy_tensordiff.drawing.index_map import (
    Frame,
    IndexMap,
    Point,
    Solutions,
    frame_of,
    in_kernel,
    lines,
    nest_text,
    outlines,
    points,
)
from sympy_tensordiff.drawing.labels import form as form_text
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.smith import kernel_basis

BLUE, GREY, LIGHT = "#0072B2", "#777777", "#F0F0F0"
ARROWS = (("#D55E00", "-"), ("#009E73", "--"), ("#CC79A7", ":"))
"""Colours and lines of the vectors of a kernel basis."""

LABELLED = 150
"""Points with a text of their own; a larger picture has none."""

WIDTH_OF_LETTER = 0.052
"""Of the texts at points, in inches."""


def draw_indices(axes: Any, index_map: IndexMap, inside: Sequence[Point], solved: Solutions | None) -> None:
    """The lattice of the indices: the ranges, the image of each point, the solutions, the kernel basis."""
    kernel = kernel_basis(index_map.matrix(), index_map.rank) if index_map.is_affine else ()
    frame = frame_of(inside, _near(solved))
    found = set(solved.points) if solved is not None else set()
    slope = _slope(index_map.matrix())
    _ranges(axes, index_map.rows, frame, f"ranges of {', '.join(index_map.names)}")
    images = _readable(axes, {point: _tuple_text(index_map.image(point)) for point in inside})
    _dots(axes, frame, inside, "lattice", "index, with its image" if images else "index", s=12, color=GREY)
    _texts(axes, frame, images, slope, found)
    _layer_names(axes, index_map.names, frame)
    if solved is None:
        _basis(axes, frame, kernel, inside, inside)
        names = dict(enumerate(index_map.names))
        axes.set_title(
            ", ".join(form_text(form, names) for form in index_map.forms), fontsize="medium", parse_math=False
        )
        _finish(axes, index_map.names)
        return
    if not index_map.is_affine:
        _dots(axes, frame, solved.points, "solutions", f"solutions in the ranges: {len(found)}", s=60, color=BLUE)
    for number, ends in enumerate(lines(index_map, solved.at, frame) if index_map.is_affine else ()):
        label = "rational solutions" if number == 0 else None
        axes.plot(*zip(*ends, strict=True), color=BLUE, lw=1, ls="--", gid="line", label=label, zorder=2)
    if solved.particular:
        _solutions(axes, solved, frame)
        if len(kernel) == 1:
            texts = {point: f"z = {z}" for (z,), point in solved.by_kernel.items()}
            _texts(axes, frame, _readable(axes, texts), slope, found, -1)
    axes.set_title(f"{_equation(index_map, solved)}\n{_answer(index_map, solved)}", fontsize="medium", parse_math=False)
    _finish(axes, index_map.names)


def draw_kernel(axes: Any, index_map: IndexMap, solved: Solutions) -> None:
    """The lattice of z: the ranges as Fourier-Motzkin elimination sees them, and the index that belongs to each z."""
    found = list(solved.by_kernel) or [(0,) * len(solved.kernel)]
    tight = frame_of(found)
    room = (1, 1, 0)
    frame = Frame(tuple(map(sub, tight.low, room)), tuple(map(add, tight.high, room)))
    names = _kernel_names(solved)
    _ranges(axes, solved.rows, frame, f"ranges of {', '.join(index_map.names)}")
    _, shown = points(frame.rows(), len(solved.kernel))
    _dots(axes, frame, shown, "lattice", None, s=12, color=GREY)
    texts = _readable(axes, {z: _tuple_text(point) for z, point in solved.by_kernel.items()})
    label = f"solution, with its index ({', '.join(index_map.names)})" if texts else "solution"
    _dots(axes, frame, solved.by_kernel, "solutions", label, s=45, color=BLUE)
    _texts(axes, frame, texts, 1, solved.by_kernel)
    _layer_names(axes, list(names.values()), frame)
    axes.set_title(f"{_equation(index_map, solved)}\n{_answer(index_map, solved)}", fontsize="medium", parse_math=False)
    _finish(axes, list(names.values()))


def fit(axes: Any) -> None:
    """The size of a figure of its own, in inches: points far enough from each other, the texts round them."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    lines = axes.get_title().split("\n")
    entries = len(axes.get_legend_handles_labels()[0])
    step = _step(axes)
    inner_width, inner_height = step * (right - left), step * (high - low)
    width = max(5.2, 0.9 + inner_width, 0.3 + 0.085 * max(map(len, lines)))
    above, below = 0.15 + 0.18 * len(lines), 0.65 + 0.21 * ((entries + 1) // 2)
    height = above + inner_height + below
    axes.figure.set_size_inches(width, height)
    axes.set_position(((width - inner_width) / 2 / width, below / height, inner_width / width, inner_height / height))


def _step(axes: Any) -> float:
    """The distance of two points in inches."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return float(min(0.62, 13 / (right - left), 9 / (high - low)))


# ---------------------------------------------------------------- parts


def _finish(axes: Any, names: Sequence[str]) -> None:
    """Equal steps, names, and the legend below them."""
    from matplotlib.transforms import offset_copy

    axes.set_aspect("equal")
    axes.set_xlabel(names[0], parse_math=False)
    if len(names) > 1:
        axes.set_ylabel(names[1], parse_math=False)
    for side in ("top", "right") if len(names) > 1 else ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    below = offset_copy(axes.transAxes, fig=axes.figure, y=-36, units="points")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=2, fontsize="small", frameon=False
    )


def _ranges(axes: Any, rows: Sequence[Row], frame: Frame, label: str) -> None:
    (left, low), (right, high) = frame.corners()
    room = 0.8
    axes.set_xlim(left - room, right + room)
    axes.set_ylim(low - room, high + room)
    if len(frame.low) == 3:  # a line of text for the names of the layers
        axes.set_ylim(low - room, high + room + 0.3 / _step(axes))
    for number, corners in enumerate(outlines(rows, frame)):
        xs, ys = zip(*corners, strict=True)
        axes.fill(
            xs, ys, facecolor=LIGHT, edgecolor="black", lw=1, gid="ranges", label=None if number else label, zorder=1
        )
    across = _ticks(axes, frame, 0)
    axes.set_xticks([x + n * frame.pitch for n in range(len(frame.layers)) for x in across])
    axes.set_xticklabels([str(x) for _ in frame.layers for x in across])
    up = _ticks(axes, frame, 1) if len(frame.low) > 1 else []
    axes.set_yticks(up, list(map(str, up)))


def _ticks(axes: Any, frame: Frame, v: int) -> list[int]:
    """The values of an index that are written at its axis, as many as there is room for."""
    low, high = frame.low[v], frame.high[v]
    room = 0.1 + 0.08 * max(len(str(low)), len(str(high))) if v == 0 else 0.16
    every = ceil(room / _step(axes))
    return [x for x in range(low, high + 1) if x % every == 0]


def _dots(axes: Any, frame: Frame, where: Iterable[Point], gid: str, label: str | None, **style: Any) -> None:
    places = [frame.place(point) for point in where]
    style["s"] *= min(1, (4 * _step(axes)) ** 2)
    if places:
        axes.scatter(*zip(*places, strict=True), gid=gid, label=label, **{"zorder": 3, **style})


def _readable(axes: Any, texts: Mapping[Point, str]) -> Mapping[Point, str]:
    """The texts, or none of them where one would cover the next."""
    longest = max(map(len, texts.values()), default=0)
    return texts if len(texts) <= LABELLED and longest * WIDTH_OF_LETTER < _step(axes) else {}


def _texts(
    axes: Any, frame: Frame, texts: Mapping[Point, str], slope: int, large: Container[Point], side: int = 1
) -> None:
    """A text at the right of each point (or at the left), off the line through it."""
    for point, text in texts.items():
        away = 7 if point in large else 3
        axes.annotate(
            text,
            frame.place(point),
            xytext=(side * away, -side * slope * away),
            textcoords="offset points",
            fontsize=7,
            color="black" if side > 0 else BLUE,
            ha="left" if side > 0 else "right",
            va="top" if side * slope > 0 else "bottom",
            zorder=7,
        )


def _slope(matrix: Sequence[Sequence[int]]) -> int:
    """Whether the line of the solutions rises or falls."""
    ways = kernel_basis([row[:2] for row in matrix])
    return -1 if len(ways) == 1 and ways[0][0] * ways[0][-1] < 0 else 1


def _near(solved: Solutions | None) -> list[Point]:
    """What the picture should show beside the ranges: the particular solution, the kernel basis."""
    if solved is None or not solved.particular:
        return []
    found = set(solved.points)
    heads = [tuple(map(add, solved.particular, vector)) for vector in solved.kernel]
    inside = any(tuple(map(add, start, vector)) in found for start in found for vector in solved.kernel)
    return [solved.particular] if inside else [solved.particular, *heads]


def _layer_names(axes: Any, names: Sequence[str], frame: Frame) -> None:
    if len(frame.low) == 3:
        for layer in frame.layers:
            x, y = frame.place(((frame.low[0] + frame.high[0]) / 2, frame.high[1] + 0.5 + 0.05 / _step(axes), layer))
            axes.text(x, y, f"{names[2]} = {layer}", ha="center", va="bottom", fontsize="small")


def _solutions(axes: Any, solved: Solutions, frame: Frame) -> None:
    """Solutions in the ranges and outside of them, the particular one, and the kernel basis from one of them."""
    _dots(axes, frame, solved.points, "solutions", f"solutions in the ranges: {len(solved.points)}", s=60, color=BLUE)
    _, found = points(in_kernel(frame.rows(), solved.particular, solved.kernel), len(solved.kernel))
    inside = set(solved.points)
    outside = [point for point in map(solved.of, found) if point not in inside]
    style = {"s": 40, "facecolor": "white", "edgecolor": BLUE}
    _dots(axes, frame, outside, "outside", "solutions outside of the ranges", **style)
    if frame.holds(solved.particular):
        style = {"s": 130, "marker": "s", "facecolor": "none", "edgecolor": "black", "zorder": 4}
        text = f"particular solution {_tuple_text(solved.particular)}"
        _dots(axes, frame, [solved.particular], "particular", text, **style)
        outside = [solved.particular, *outside]
    _basis(axes, frame, solved.kernel, [*solved.points, *outside], solved.points)


def _basis(
    axes: Any, frame: Frame, kernel: Sequence[Point], starts: Sequence[Point], inside: Collection[Point]
) -> None:
    """The kernel basis as arrows, from one point where that is possible; best if that and the heads are ``inside``."""
    best = set(inside)

    def heads(start: Point, vectors: Sequence[Point]) -> tuple[int, int]:
        ends = [tuple(map(add, start, vector)) for vector in vectors]
        return sum(end in best for end in ends) + (start in best), sum(map(frame.holds, ends))

    for (color, line), vector in zip(ARROWS, kernel, strict=False):
        fitting = [start for start in starts if frame.holds(tuple(map(add, start, vector)))]
        label = f"kernel basis {_tuple_text(vector)}"
        if not fitting:
            axes.plot([], [], color=color, ls=line, label=f"{label}: longer than the picture")
            continue
        tail = max(fitting, key=lambda start: heads(start, kernel))
        style = {"arrowstyle": "-|>", "color": color, "lw": 2, "ls": line, "shrinkA": 0, "shrinkB": 0}
        head = tuple(map(add, tail, vector))
        axes.annotate("", frame.place(head), xytext=frame.place(tail), arrowprops=style, gid="kernel", zorder=6)
        # An annotation has no entry in a legend.
        axes.plot([], [], color=color, lw=2, ls=line, marker=">", label=label)


# ---------------------------------------------------------------- texts


def _tuple_text(point: Sequence[int]) -> str:
    return str(point[0]) if len(point) == 1 else f"({', '.join(map(str, point))})"


def _kernel_names(solved: Solutions) -> dict[int, str]:
    count = len(solved.kernel)
    return {v: "z" if count == 1 else f"z{v + 1}" for v in range(count)}


def _equation(index_map: IndexMap, solved: Solutions) -> str:
    """``i - 2*j = -1``, one for each axis."""
    names = dict(enumerate(index_map.names))
    pairs = zip(index_map.forms, solved.at, strict=True)
    return ", ".join(f"{form_text(form, names)} = {value}" for form, value in pairs)


def _answer(index_map: IndexMap, solved: Solutions) -> str:
    """The conditions that fail; or the solutions and the ranges of z."""
    if solved.failing:
        return f"no solution: {'; '.join(solved.failing)}"
    if not solved.particular:
        return f"{len(solved.points) or 'no'} solution{'s' * (len(solved.points) != 1)} in the ranges"
    names = _kernel_names(solved)
    values = [
        Affine({z: vector[v] for z, vector in enumerate(solved.kernel)}, constant)
        for v, constant in enumerate(solved.particular)
    ]
    left = ", ".join(index_map.names)
    right = ", ".join(form_text(value, names) for value in values)
    text = f"({left}) = ({right})" if len(values) > 1 else f"{left} = {right}"
    if not solved.points:
        return f"{text}: none in the ranges"
    return f"{text}\n{nest_text(solved.nest, names)}" if solved.kernel else text
