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

ROOM = 0.8
"""Round the lattice, in steps."""


def draw_indices(axes: Any, index_map: IndexMap, inside: Sequence[Point], solved: Solutions | None) -> None:
    """The lattice of the indices: the ranges, the image of each point, the solutions, the kernel basis."""
    kernel = kernel_basis(index_map.matrix(), index_map.rank) if index_map.is_affine else ()
    canvas = _Canvas(axes, frame_of(inside, _near(solved)), index_map.names, index_map, index_map.rows)
    found = set(solved.points) if solved is not None else set()
    slope = _slope(index_map.matrix())
    with_images = canvas.write({point: _tuple_text(index_map.image(point)) for point in inside}, found, slope)
    canvas.dots(inside, "lattice", "index, with its image" if with_images else "index", s=12, color=GREY)
    if solved is None:
        _basis(canvas, kernel, inside, inside)
        names = dict(enumerate(index_map.names))
        canvas.finish(", ".join(form_text(form, names) for form in index_map.forms))
        return
    for number, ends in enumerate(lines(index_map, solved.at, canvas.frame) if index_map.is_affine else ()):
        label = "rational solutions" if number == 0 else None
        axes.plot(*zip(*ends, strict=True), color=BLUE, lw=1, ls="--", gid="line", label=label, zorder=2)
    canvas.dots(solved.points, "solutions", f"solutions in the ranges: {len(found)}", s=60, color=BLUE)
    if solved.particular:
        _solutions(canvas, solved)
        if len(kernel) == 1:
            canvas.write({point: f"z = {z}" for (z,), point in solved.by_kernel.items()}, found, slope, -1)
    canvas.finish(_title(index_map, solved))


def draw_kernel(axes: Any, index_map: IndexMap, solved: Solutions) -> None:
    """The lattice of z: the ranges as Fourier-Motzkin elimination sees them, and the index that belongs to each z."""
    tight = frame_of(list(solved.by_kernel) or [(0,) * len(solved.kernel)])
    room = (1, 1, 0)
    frame = Frame(tuple(map(sub, tight.low, room)), tuple(map(add, tight.high, room)))
    canvas = _Canvas(axes, frame, list(_kernel_names(solved).values()), index_map, solved.rows)
    _, shown = points(frame.rows(), len(solved.kernel))
    canvas.dots(shown, "lattice", None, s=12, color=GREY)
    texts = {z: _tuple_text(point) for z, point in solved.by_kernel.items()}
    with_indices = canvas.write(texts, solved.by_kernel, 1)
    label = f"solution, with its index ({', '.join(index_map.names)})" if with_indices else "solution"
    canvas.dots(solved.by_kernel, "solutions", label, s=45, color=BLUE)
    canvas.finish(_title(index_map, solved))


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


class _Canvas:
    """The axes with a frame of a lattice: the outlines of the ranges, and the names and values of its indices."""

    def __init__(self, axes: Any, frame: Frame, names: Sequence[str], index_map: IndexMap, rows: Sequence[Row]) -> None:
        self.axes, self.frame = axes, frame
        (left, low), (right, high) = frame.corners()
        axes.set_xlim(left - ROOM, right + ROOM)
        axes.set_ylim(low - ROOM, high + ROOM)
        if len(frame.low) == 3:  # a line of text for the names of the layers
            axes.set_ylim(low - ROOM, high + ROOM + 0.3 / _step(axes))
            for layer in frame.layers:
                middle = ((frame.low[0] + frame.high[0]) / 2, frame.high[1] + 0.5 + 0.05 / _step(axes), layer)
                text = f"{names[2]} = {layer}"
                axes.text(*frame.position(middle), text, ha="center", va="bottom", fontsize="small")
        label: str | None = f"ranges of {', '.join(index_map.names)}"
        for corners in outlines(rows, frame):
            style = {"facecolor": LIGHT, "edgecolor": "black", "lw": 1, "zorder": 1}
            axes.fill(*zip(*corners, strict=True), gid="ranges", label=label, **style)
            label = None
        across, up = (self.ticks(v) for v in (0, 1))
        places = [x + n * frame.pitch for n in range(len(frame.layers)) for x in across]
        axes.set_xticks(places, [str(x) for _ in frame.layers for x in across])
        axes.set_yticks(up, list(map(str, up)))
        axes.set_xlabel(names[0], parse_math=False)
        if len(names) > 1:
            axes.set_ylabel(names[1], parse_math=False)
        axes.spines[["top", "right"] if len(names) > 1 else ["top", "right", "left"]].set_visible(False)

    def ticks(self, v: int) -> list[int]:
        """The values of an index that are written at its axis, as many as there is room for."""
        if v >= len(self.frame.low):
            return []
        low, high = self.frame.low[v], self.frame.high[v]
        room = 0.1 + 0.08 * max(len(str(low)), len(str(high))) if v == 0 else 0.16
        every = ceil(room / _step(self.axes))
        return [x for x in range(low, high + 1) if x % every == 0]

    def dots(self, where: Iterable[Point], gid: str, label: str | None, **style: Any) -> None:
        """Points of one kind."""
        places = [self.frame.position(point) for point in where]
        style["s"] *= min(1, (4 * _step(self.axes)) ** 2)
        if places:
            self.axes.scatter(*zip(*places, strict=True), gid=gid, label=label, **{"zorder": 3, **style})

    def write(self, texts: Mapping[Point, str], large: Container[Point], slope: int, side: int = 1) -> bool:
        """Texts at the right of the points (or at the left), off the line through them; none where two would meet."""
        longest = max(map(len, texts.values()), default=0)
        if len(texts) > LABELLED or longest * WIDTH_OF_LETTER >= _step(self.axes):
            return False
        style = {"color": "black" if side > 0 else BLUE, "ha": "left" if side > 0 else "right", "zorder": 7}
        style |= {"va": "top" if side * slope > 0 else "bottom", "fontsize": 7, "textcoords": "offset points"}
        for point, text in texts.items():
            away = side * (7 if point in large else 3)
            self.axes.annotate(text, self.frame.position(point), xytext=(away, -slope * away), **style)
        return bool(texts)

    def finish(self, title: str) -> None:
        """Equal steps, the title, and the legend below."""
        from matplotlib.transforms import offset_copy

        self.axes.set_title(title, fontsize="medium", parse_math=False)
        self.axes.set_aspect("equal")
        below = offset_copy(self.axes.transAxes, fig=self.axes.figure, y=-36, units="points")
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
        self.axes.legend(**place, ncols=2, fontsize="small", frameon=False)


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


def _solutions(canvas: _Canvas, solved: Solutions) -> None:
    """Solutions outside of the ranges, the particular one, and the kernel basis from one of them."""
    _, found = points(in_kernel(canvas.frame.rows(), solved.particular, solved.kernel), len(solved.kernel))
    inside = set(solved.points)
    outside = [point for point in map(solved.of, found) if point not in inside]
    style = {"s": 40, "facecolor": "white", "edgecolor": BLUE}
    canvas.dots(outside, "outside", "solutions outside of the ranges", **style)
    if canvas.frame.holds(solved.particular):
        style = {"s": 130, "marker": "s", "facecolor": "none", "edgecolor": "black", "zorder": 4}
        text = f"particular solution {_tuple_text(solved.particular)}"
        canvas.dots([solved.particular], "particular", text, **style)
        outside = [solved.particular, *outside]
    _basis(canvas, solved.kernel, [*solved.points, *outside], solved.points)


def _basis(canvas: _Canvas, kernel: Sequence[Point], starts: Sequence[Point], inside: Collection[Point]) -> None:
    """The kernel basis as arrows, from one point where that is possible; best if that and the heads are ``inside``."""
    best = set(inside)

    def heads(start: Point, vectors: Sequence[Point]) -> tuple[int, int]:
        ends = [tuple(map(add, start, vector)) for vector in vectors]
        return sum(end in best for end in ends) + (start in best), sum(map(canvas.frame.holds, ends))

    for (color, line), vector in zip(ARROWS, kernel, strict=False):
        fitting = [start for start in starts if canvas.frame.holds(tuple(map(add, start, vector)))]
        label = f"kernel basis {_tuple_text(vector)}"
        if not fitting:
            canvas.axes.plot([], [], color=color, ls=line, label=f"{label}: longer than the picture")
            continue
        tail = max(fitting, key=lambda start: heads(start, kernel))
        style = {"arrowstyle": "-|>", "color": color, "lw": 2, "ls": line, "shrinkA": 0, "shrinkB": 0}
        head = tuple(map(add, tail, vector))
        canvas.axes.annotate(
            "",
            canvas.frame.position(head),
            xytext=canvas.frame.position(tail),
            arrowprops=style,
            gid="kernel",
            zorder=6,
        )
        # An annotation has no entry in a legend.
        canvas.axes.plot([], [], color=color, lw=2, ls=line, marker=">", label=label)


# ---------------------------------------------------------------- texts


def _tuple_text(point: Sequence[int]) -> str:
    return str(point[0]) if len(point) == 1 else f"({', '.join(map(str, point))})"


def _kernel_names(solved: Solutions) -> dict[int, str]:
    count = len(solved.kernel)
    return {v: "z" if count == 1 else f"z{v + 1}" for v in range(count)}


def _title(index_map: IndexMap, solved: Solutions) -> str:
    """``i - 2*j = -1``, one for each axis, and what is known of its solutions."""
    names = dict(enumerate(index_map.names))
    pairs = zip(index_map.forms, solved.at, strict=True)
    return ", ".join(f"{form_text(form, names)} = {value}" for form, value in pairs) + f"\n{_answer(index_map, solved)}"


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
