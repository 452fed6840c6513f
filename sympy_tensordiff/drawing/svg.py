"""A picture as SVG, with boxes and edges at the positions of `Layout`."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate, pairwise

from sympy_tensordiff.drawing.labels import truncate
from sympy_tensordiff.drawing.picture import Cluster
from sympy_tensordiff.drawing.writers import MAX_BOX_LENGTH, check_size, iterate_edges, node_style
from sympy_tensordiff.errors import UnsupportedError

# Font sizes in pixels: the font is monospaced, so that labels fit their boxes everywhere.
LETTER, LINE = 7.25, 15.0
PITCH, TITLE, MARGIN = 72.0, 24.0, 12.0

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.1f} {1:.1f}"
 font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="12" text-anchor="middle">
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>
<rect width="100%" height="100%" fill="white"/>"""


def svg_text(clusters: Sequence[Cluster]) -> str:
    """Return the graphs of a picture, ``clusters``, side by side as SVG, each node once per graph.

    Raise `UnsupportedError` if the picture is too large.
    """
    check_size(clusters)
    graphs = [_SvgGraph(part, has_frame=len(clusters) > 1) for part in clusters]
    lines, left = [], 0.0
    for graph in graphs:
        lines += [f'<g transform="translate({left:.1f},0)">', *graph.frame(), *graph.edges(), *graph.boxes(), "</g>"]
        left += graph.width
    return "\n".join([HEAD.format(left, max(graph.height for graph in graphs)), *lines, "</svg>\n"])


class _SvgGraph:
    """One graph of a picture, with the positions of everything drawn."""

    def __init__(self, part: Cluster, has_frame: bool) -> None:
        self.part = part
        self.title = truncate(part.title, MAX_BOX_LENGTH) if has_frame else ""
        self.styles = [node_style(drawn) for drawn in part.nodes]
        widths = [max(map(len, style.lines)) * LETTER + NODE_GAP for style in self.styles]
        self.heights = [len(style.lines) * LINE + 8 for style in self.styles]
        self.layout = layout = Layout([drawn.children for drawn in part.nodes], widths)
        left = min(x - width / 2 for x, width in zip(layout.x, layout.widths, strict=True))
        right = max(x + width / 2 for x, width in zip(layout.x, layout.widths, strict=True))
        top = (TITLE if has_frame else 0.0) + 2 * MARGIN + LINE
        self.width = max(right - left, len(self.title) * LETTER) + 4 * MARGIN
        self.x = [x + (self.width - left - right) / 2 for x in layout.x]
        self.y = [top + layer * PITCH for layer in layout.layer]
        self.height = max(self.y) + LINE + 2 * MARGIN

    def frame(self) -> list[str]:
        """Return the SVG of the frame and its title; [] without a title."""
        if not self.title:
            return []
        size = f'width="{self.width - MARGIN:.1f}" height="{self.height - MARGIN:.1f}"'
        return [
            f'<rect x="{MARGIN / 2}" y="{MARGIN / 2}" {size} rx="8" fill="none" stroke="#aaa"/>',
            f'<text x="{self.width / 2:.1f}" y="{MARGIN + LINE}">{escape(self.title)}</text>',
        ]

    def boxes(self) -> Iterator[str]:
        """Yield the SVG of the boxes and labels of all nodes."""
        boxes = zip(self.x, self.y, self.layout.widths, self.heights, strict=False)  # bends are not drawn
        for style, (x, y, width, height) in zip(self.styles, boxes, strict=False):
            attributes = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}"'
            rounded = ' rx="6"' if style.rounded else ""
            yield f'<g class="node"><title>{escape(style.hint)}</title>'
            yield f'<rect {attributes}{rounded} fill="{style.fill}" stroke="#555"/>'
            for n, line in enumerate(style.lines, start=1):
                yield f'<text x="{x:.1f}" y="{y - height / 2 + LINE * n:.1f}">{escape(line)}</text>'
            yield "</g>"

    def edges(self) -> Iterator[str]:
        """Yield the SVG of all edges."""
        for node, position, text in iterate_edges(self.part):
            children = self.part.nodes[node].children
            below = zip(self.layout.bends[node], children, strict=True)
            ends = [(self.x[(bends or [child])[0]], n) for n, (bends, child) in enumerate(below)]
            rank = sum(end < ends[position] for end in ends)
            spacing = min(14.0, self.layout.widths[node] / (len(children) + 1))
            start = self.x[node] + (rank - (len(children) - 1) / 2) * spacing
            points = [(start, self.y[node] + self.heights[node] / 2)]
            for bend in self.layout.bends[node][position]:
                points += [(self.x[bend], self.y[bend] - LINE), (self.x[bend], self.y[bend] + LINE)]
            child = children[position]
            yield from _edge_svg([*points, (self.x[child], self.y[child] - self.heights[child] / 2)], text)


def _edge_svg(points: Sequence[tuple[float, float]], text: str) -> list[str]:
    """Return the SVG of an edge: a curve through ``points``, vertical at each, with ``text`` next to its start."""
    (x, y), *others = points
    path = f"M{x:.1f} {y:.1f}"
    for n, (x_next, y_next) in enumerate(others):
        middle = (y + y_next) / 2
        path += f"C{x:.1f} {middle:.1f} {x_next:.1f} {middle:.1f} {x_next:.1f} {y_next:.1f}"
        if n == 0 and text:
            text_x, text_y = x + (x_next - x) / 4 + 8, y + (y_next - y) / 4 + 6
        x, y = x_next, y_next
    lines = [f'<g class="edge"><path d="{path}" fill="none" stroke="#555" marker-end="url(#head)"/>']
    if text:
        lines.append(f'<text x="{text_x:.1f}" y="{text_y:.1f}" font-size="9" fill="#555">{escape(text)}</text>')
    return [*lines, "</g>"]


# ---------------------------------------------------------------------------- layout


LAYOUT_SWEEPS = 8
"""Number of passes that improve the order and the positions of all layers, downwards and upwards in turn."""
NODE_GAP = 16.0
"""Space between neighbours in a layer."""
MAX_POINTS = 20_000
"""Largest number of nodes and bends of edges; their layout takes a second or two."""


class Layout:
    """A drawing of a graph in layers: it has the layer and the centre of each node, and of each bend of an edge that
    passes through a layer.

    `children` are those of each node, from left to right; a tree keeps this order. `widths` are those of the nodes.
    `layer` is the length of the longest path to each node, then to each bend; `x` has the centres of nodes and bends.
    `bends` lists, for each node and child, the bends of the edge from top to bottom.
    """

    def __init__(self, children: Sequence[Sequence[int]], widths: Sequence[float]) -> None:
        self.layer = _longest_paths(children)
        self.widths = list(widths)
        self.bends: list[list[list[int]]] = []
        self._below: list[list[int]] = [[] for _ in children]
        for node, children_of_node in enumerate(children):
            self.bends.append([self._add_bends(node, child) for child in children_of_node])
        self._above: list[list[int]] = [[] for _ in self._below]
        for node, children_of_node in enumerate(self._below):
            for child in children_of_node:
                self._above[child].append(node)
        self._order = self._reduce_crossings(self._depth_first_order())
        self.x = [0.0] * len(self.layer)
        self._align_nodes()

    def _add_bends(self, node: int, child: int) -> list[int]:
        """Lead the edge from ``node`` to ``child`` through new bends, one in each layer between them, and return these;
        raise `UnsupportedError` beyond `MAX_POINTS`.
        """
        bends = []
        for layer in range(self.layer[node] + 1, self.layer[child]):
            bends.append(len(self.layer))
            self.layer.append(layer)
            self.widths.append(0.0)
            self._below.append([])
        if len(self.layer) > MAX_POINTS:
            raise UnsupportedError(
                f"the long edges of this picture have more than {MAX_POINTS:,} bends: its text (str) and its .source "
                "need no layout; or draw a part of the expression"
            )
        for upper, lower in zip([node, *bends], [*bends, child], strict=True):
            self._below[upper].append(lower)
        return bends

    def _depth_first_order(self) -> list[list[int]]:
        """Return the nodes of each layer in depth-first order. The edges of a tree do not cross then."""
        order: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        stack = [node for node in reversed(range(len(self._above))) if not self._above[node]]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                order[self.layer[node]].append(node)
                stack += reversed(self._below[node])
        return order

    def _reduce_crossings(self, order: list[list[int]]) -> list[list[int]]:
        """Return the order of the nodes in each layer with the fewest edge crossings found, by sorting nodes by the
        mean position of their neighbours.
        """
        best, fewest = order, self._count_crossings(order)
        for sweep in range(LAYOUT_SWEEPS):
            if not fewest:
                break
            order = [list(layer) for layer in order]
            neighbours, layers = (self._below, order[-2::-1]) if sweep % 2 else (self._above, order[1:])
            at = {node: position for layer in order for position, node in enumerate(layer)}
            for layer in layers:
                means = {node: _mean([at[other] for other in neighbours[node]], at[node]) for node in layer}
                layer.sort(key=means.__getitem__)
                at.update((node, position) for position, node in enumerate(layer))
            count = self._count_crossings(order)
            if count < fewest:
                best, fewest = order, count
        return best

    def _count_crossings(self, order: list[list[int]]) -> int:
        """Return how many pairs of edges cross if the nodes of each layer are in this `order`."""
        at = {node: position for layer in order for position, node in enumerate(layer)}
        count = 0
        for layer in order:
            ends: list[int] = []
            for node in layer:
                positions = [at[child] for child in self._below[node]]
                count += sum(len(ends) - bisect_right(ends, end) for end in positions)
                for end in positions:
                    insort(ends, end)
        return count

    def _align_nodes(self) -> None:
        """Move the nodes horizontally towards the mean position of their neighbours, layer by layer, in several sweeps.

        The first and the last sweep use the neighbours in both adjacent layers, the others those in one, in turn above
        and below.
        """
        for sweep in range(LAYOUT_SWEEPS + 1):
            for layer in self._order[::-1] if sweep % 2 == 0 else self._order:
                gaps = [0.0]
                for left, right in pairwise(layer):
                    gaps.append((self.widths[left] + self.widths[right]) / 2 + NODE_GAP)
                targets = []
                for node in layer:
                    neighbours = (self._above[node], self._below[node])[sweep % 2 == 0]
                    neighbours = neighbours if 0 < sweep < LAYOUT_SWEEPS else self._above[node] + self._below[node]
                    targets.append(_mean([self.x[other] for other in neighbours], self.x[node]))
                for node, place in zip(layer, place_with_gaps(targets, gaps), strict=True):
                    self.x[node] = place


def _longest_paths(children: Sequence[Sequence[int]]) -> list[int]:
    """Return the layer of each node of a graph: the length of the longest path from a root to it. ``children`` has the
    children of each node.
    """
    parents = [0] * len(children)
    for children_of_node in children:
        for child in children_of_node:
            parents[child] += 1
    lengths = [0] * len(children)
    ready = [node for node, count in enumerate(parents) if not count]
    while ready:
        node = ready.pop()
        for child in children[node]:
            lengths[child] = max(lengths[child], lengths[node] + 1)
            parents[child] -= 1
            if not parents[child]:
                ready.append(child)
    return lengths


def _mean(values: Sequence[float], otherwise: float) -> float:
    """Return the mean of ``values``, or ``otherwise`` if there are none."""
    return sum(values) / len(values) if values else otherwise


def place_with_gaps(targets: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return positions as close as possible to ``targets`` (least squares), with position n at least ``gaps[n]`` after
    the one before.

    Minus the cumulative gaps, the positions are a monotone sequence: isotonic regression by pooling adjacent violators.

    Examples
    --------
    >>> place_with_gaps([0.0, 0.0, 10.0], [0.0, 2.0, 2.0])
    [-1.0, 1.0, 10.0]
    """
    offsets = list(accumulate(gaps))
    pools: list[tuple[float, int]] = []
    for place, offset in zip(targets, offsets, strict=True):
        mean, count = place - offset, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
