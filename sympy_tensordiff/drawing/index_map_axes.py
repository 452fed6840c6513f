"""Draw index maps into given matplotlib axes; nothing is imported, no setting is changed.

The colours are those of Okabe and Ito, which differ for colour-blind readers and in brightness; different kinds of
marks differ in shape as well.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from math import ceil
from operator import add, sub
from typing import Any

from sympy_tensordiff.drawing.index_map import (
    IndexMap,
    IndexSolutions,
    LatticeFrame,
    Point,
    constraints_on_kernel,
    lattice_points,
    layer_outlines,
    make_frame,
    nest_text,
    rational_lines,
)
from sympy_tensordiff.drawing.labels import form_text
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.smith import kernel_basis

BLUE, GREY, LIGHT = "#0072B2", "#777777", "#F0F0F0"
ARROWS = (("#D55E00", "-"), ("#009E73", "--"), ("#CC79A7", ":"))
"""Colours and lines of the vectors of a kernel basis."""

MAX_LABELLED_POINTS = 150
"""Larger pictures have no text at each point."""

LETTER_WIDTH = 0.052
"""Width of a letter of the texts at points, in inches."""

MARGIN = 0.8
"""Margin around the lattice, in steps."""


def draw_indices(axes: Any, index_map: IndexMap, inside: Sequence[Point], solved: IndexSolutions | None) -> None:
    """Draw into ``axes`` the integer points of the index ranges, ``inside``, each with the entry that it reads; the
    solutions ``solved``, unless they are None; and the kernel basis as arrows.
    """
    kernel = kernel_basis(index_map.matrix(), index_map.number_of_indices) if index_map.is_affine else ()
    canvas = _LatticeAxes(axes, make_frame(inside, _extra_points(solved)), index_map.names, index_map, index_map.rows)
    found = set(solved.points) if solved is not None else set()
    slope = _slope_sign(index_map.matrix())
    with_images = canvas.write_texts({point: _tuple_text(index_map.image(point)) for point in inside}, found, slope)
    canvas.draw_points(inside, "lattice", "index, with its image" if with_images else "index", s=12, color=GREY)
    if solved is None:
        _draw_kernel_basis(canvas, kernel, inside, inside)
        names = dict(enumerate(index_map.names))
        canvas.finish(", ".join(form_text(form, names) for form in index_map.forms))
        return
    for number, ends in enumerate(rational_lines(index_map, solved.at, canvas.frame) if index_map.is_affine else ()):
        label = "rational solutions" if number == 0 else None
        axes.plot(*zip(*ends, strict=True), color=BLUE, lw=1, ls="--", gid="line", label=label, zorder=2)
    canvas.draw_points(solved.points, "solutions", f"solutions in the ranges: {len(found)}", s=60, color=BLUE)
    if solved.particular:
        _draw_solutions(canvas, solved)
        if len(kernel) == 1:
            canvas.write_texts({point: f"z = {z}" for (z,), point in solved.by_kernel.items()}, found, slope, -1)
    canvas.finish(_title_text(index_map, solved))


def draw_kernel(axes: Any, index_map: IndexMap, solved: IndexSolutions) -> None:
    """Draw the solutions ``solved`` of the index equation of ``index_map`` as points of the lattice of kernel
    coordinates, each with its indices as text. ``axes`` are the matplotlib axes.
    """
    tight = make_frame(list(solved.by_kernel) or [(0,) * len(solved.kernel)])
    margin = (1, 1, 0)
    frame = LatticeFrame(tuple(map(sub, tight.low, margin)), tuple(map(add, tight.high, margin)))
    canvas = _LatticeAxes(axes, frame, list(_kernel_names(solved).values()), index_map, solved.rows)
    _, shown = lattice_points(frame.constraints(), len(solved.kernel))
    canvas.draw_points(shown, "lattice", None, s=12, color=GREY)
    texts = {z: _tuple_text(point) for z, point in solved.by_kernel.items()}
    with_indices = canvas.write_texts(texts, solved.by_kernel, 1)
    label = f"solution, with its index ({', '.join(index_map.names)})" if with_indices else "solution"
    canvas.draw_points(solved.by_kernel, "solutions", label, s=45, color=BLUE)
    canvas.finish(_title_text(index_map, solved))


def fit_figure(axes: Any) -> None:
    """Set the size of the figure of ``axes`` in inches, so that points are far enough apart and all texts fit."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    title_lines = axes.get_title().split("\n")
    entries = len(axes.get_legend_handles_labels()[0])
    step = _inches_per_step(axes)
    inner_width, inner_height = step * (right - left), step * (high - low)
    width = max(5.2, 0.9 + inner_width, 0.3 + 0.085 * max(map(len, title_lines)))
    above, below = 0.15 + 0.18 * len(title_lines), 0.65 + 0.21 * ((entries + 1) // 2)
    height = above + inner_height + below
    axes.figure.set_size_inches(width, height)
    axes.set_position(((width - inner_width) / 2 / width, below / height, inner_width / width, inner_height / height))


def _inches_per_step(axes: Any) -> float:
    """Return how many inches one grid step of the drawing takes: 0.62, or less if the axes are long."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return float(min(0.62, 13 / (right - left), 9 / (high - low)))


# ---------------------------------------------------------------- parts


class _LatticeAxes:
    """A drawing, on matplotlib axes, of the integer points in the box that a picture shows, with outlines of the ranges
    of the indices, and with the names and values of the indices.
    """

    def __init__(
        self, axes: Any, frame: LatticeFrame, names: Sequence[str], index_map: IndexMap, rows: Sequence[Constraint]
    ) -> None:
        self.axes, self.frame = axes, frame
        (left, low), (right, high) = frame.corners()
        axes.set_xlim(left - MARGIN, right + MARGIN)
        axes.set_ylim(low - MARGIN, high + MARGIN)
        if len(frame.low) == 3:  # a line of text for the names of the layers
            axes.set_ylim(low - MARGIN, high + MARGIN + 0.3 / _inches_per_step(axes))
            for layer in frame.layers:
                middle = (
                    (frame.low[0] + frame.high[0]) / 2,
                    frame.high[1] + 0.5 + 0.05 / _inches_per_step(axes),
                    layer,
                )
                text = f"{names[2]} = {layer}"
                axes.text(*frame.position(middle), text, ha="center", va="bottom", fontsize="small")
        label: str | None = f"ranges of {', '.join(index_map.names)}"
        for corners in layer_outlines(rows, frame):
            style = {"facecolor": LIGHT, "edgecolor": "black", "lw": 1, "zorder": 1}
            axes.fill(*zip(*corners, strict=True), gid="ranges", label=label, **style)
            label = None
        across, up = (self.ticks(v) for v in (0, 1))
        positions = [x + n * frame.pitch for n in range(len(frame.layers)) for x in across]
        axes.set_xticks(positions, [str(x) for _ in frame.layers for x in across])
        axes.set_yticks(up, list(map(str, up)))
        axes.set_xlabel(names[0], parse_math=False)
        if len(names) > 1:
            axes.set_ylabel(names[1], parse_math=False)
        axes.spines[["top", "right"] if len(names) > 1 else ["top", "right", "left"]].set_visible(False)

    def ticks(self, v: int) -> list[int]:
        """Return the values of index ``v`` to write at its axis, as many as fit."""
        if v >= len(self.frame.low):
            return []
        low, high = self.frame.low[v], self.frame.high[v]
        space = 0.1 + 0.08 * max(len(str(low)), len(str(high))) if v == 0 else 0.16
        every = ceil(space / _inches_per_step(self.axes))
        return [x for x in range(low, high + 1) if x % every == 0]

    def draw_points(self, where: Iterable[Point], gid: str, label: str | None, **style: Any) -> None:
        """Draw the points `where` in one style, with `label` in the legend; `gid` identifies them in SVG."""
        positions = [self.frame.position(point) for point in where]
        style["s"] *= min(1, (4 * _inches_per_step(self.axes)) ** 2)
        if positions:
            self.axes.scatter(*zip(*positions, strict=True), gid=gid, label=label, **{"zorder": 3, **style})

    def write_texts(self, texts: Mapping[Point, str], large: Container[Point], slope: int, side: int = 1) -> bool:
        """Write `texts` next to their points, to the right (``side`` 1) or to the left (-1) of each; return False, and
        write none, if they do not fit. Points in ``large`` are drawn larger; ``slope`` is 1 if the line through the
        points, which the texts avoid, rises, else -1.
        """
        longest = max(map(len, texts.values()), default=0)
        if len(texts) > MAX_LABELLED_POINTS or longest * LETTER_WIDTH >= _inches_per_step(self.axes):
            return False
        style = {"color": "black" if side > 0 else BLUE, "ha": "left" if side > 0 else "right", "zorder": 7}
        style |= {"va": "top" if side * slope > 0 else "bottom", "fontsize": 7, "textcoords": "offset points"}
        for point, text in texts.items():
            away = side * (7 if point in large else 3)
            self.axes.annotate(text, self.frame.position(point), xytext=(away, -slope * away), **style)
        return bool(texts)

    def finish(self, title: str) -> None:
        """Set the title and equal scales of both axes, and put the legend below."""
        from matplotlib.transforms import offset_copy

        self.axes.set_title(title, fontsize="medium", parse_math=False)
        self.axes.set_aspect("equal")
        below = offset_copy(self.axes.transAxes, fig=self.axes.figure, y=-36, units="points")
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
        self.axes.legend(**place, ncols=2, fontsize="small", frameon=False)


def _slope_sign(matrix: Sequence[Sequence[int]]) -> int:
    """Return -1 if the line of the solutions of a map with this ``matrix`` falls from left to right, else 1, so that
    texts are placed away from the line.
    """
    directions = kernel_basis([row[:2] for row in matrix])
    return -1 if len(directions) == 1 and directions[0][0] * directions[0][-1] < 0 else 1


def _extra_points(solved: IndexSolutions | None) -> list[Point]:
    """Return the points that a picture of the solutions ``solved`` shows even outside of the index ranges: the
    particular solution and, in most cases, the ends of the kernel basis vectors drawn from it. Return [] if there is no
    solution.

    The ends are left out if two solutions in the ranges differ by a basis vector: the picture then shows the vector
    there.
    """
    if solved is None or not solved.particular:
        return []
    found = set(solved.points)
    heads = [tuple(map(add, solved.particular, vector)) for vector in solved.kernel]
    inside = any(tuple(map(add, start, vector)) in found for start in found for vector in solved.kernel)
    return [solved.particular] if inside else [solved.particular, *heads]


def _draw_solutions(canvas: _LatticeAxes, solved: IndexSolutions) -> None:
    """Draw on ``canvas`` the solutions ``solved`` of an index equation outside of the index ranges, mark the particular
    solution, and draw the kernel basis as arrows from a solution. The solutions inside of the ranges are drawn before.
    """
    _, found = lattice_points(
        constraints_on_kernel(canvas.frame.constraints(), solved.particular, solved.kernel), len(solved.kernel)
    )
    inside = set(solved.points)
    outside = [point for point in map(solved.solution_at, found) if point not in inside]
    style = {"s": 40, "facecolor": "white", "edgecolor": BLUE}
    canvas.draw_points(outside, "outside", "solutions outside of the ranges", **style)
    if canvas.frame.contains(solved.particular):
        style = {"s": 130, "marker": "s", "facecolor": "none", "edgecolor": "black", "zorder": 4}
        text = f"particular solution {_tuple_text(solved.particular)}"
        canvas.draw_points([solved.particular], "particular", text, **style)
        outside = [solved.particular, *outside]
    _draw_kernel_basis(canvas, solved.kernel, [*solved.points, *outside], solved.points)


def _draw_kernel_basis(
    canvas: _LatticeAxes, kernel: Sequence[Point], starts: Sequence[Point], inside: Collection[Point]
) -> None:
    """Draw on ``canvas`` each vector of the basis ``kernel`` as an arrow that starts at one of the points ``starts``,
    preferably such that its ends are among the points ``inside``.
    """
    best = set(inside)

    def heads(start: Point, vectors: Sequence[Point]) -> tuple[int, int]:
        """Return two counts that rate ``start`` as the beginning of arrows along ``vectors``: how many of their end
        points, ``start`` included, are solutions inside of the ranges, and how many of their heads are in the picture.
        """
        ends = [tuple(map(add, start, vector)) for vector in vectors]
        return sum(end in best for end in ends) + (start in best), sum(map(canvas.frame.contains, ends))

    for (color, line), vector in zip(ARROWS, kernel, strict=False):
        candidates = [start for start in starts if canvas.frame.contains(tuple(map(add, start, vector)))]
        label = f"kernel basis {_tuple_text(vector)}"
        if not candidates:
            canvas.axes.plot([], [], color=color, ls=line, label=f"{label}: longer than the picture")
            continue
        tail = max(candidates, key=lambda start: heads(start, kernel))
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
        # An empty plot, since annotations have no legend entry.
        canvas.axes.plot([], [], color=color, lw=2, ls=line, marker=">", label=label)


# ---------------------------------------------------------------- texts


def _tuple_text(point: Sequence[int]) -> str:
    """Return a point as text, without parentheses for a single coordinate."""
    return str(point[0]) if len(point) == 1 else f"({', '.join(map(str, point))})"


def _kernel_names(solved: IndexSolutions) -> dict[int, str]:
    """Return a dictionary from the number of each kernel coordinate of the solutions ``solved`` to its name: z for a
    single one, else z1, z2, ….
    """
    count = len(solved.kernel)
    return {v: "z" if count == 1 else f"z{v + 1}" for v in range(count)}


def _title_text(index_map: IndexMap, solved: IndexSolutions) -> str:
    """Return the title of a picture of ``index_map``: the equation of each axis, ``i - 2*j = -1``, and its solutions
    ``solved``.
    """
    names = dict(enumerate(index_map.names))
    pairs = zip(index_map.forms, solved.at, strict=True)
    return (
        ", ".join(f"{form_text(form, names)} = {value}" for form, value in pairs)
        + f"\n{_solution_text(index_map, solved)}"
    )


def _solution_text(index_map: IndexMap, solved: IndexSolutions) -> str:
    """Return text on the equation of ``index_map`` that ``solved`` solves: the failing conditions; otherwise the
    solutions, with free integers z (coordinates along the kernel basis), and the ranges of z.
    """
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
