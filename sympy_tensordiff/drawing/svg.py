"""A picture written as SVG, with boxes and edges at the places of `layout`."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate, pairwise

from sympy_tensordiff.drawing.labels import cut
from sympy_tensordiff.drawing.picture import Cluster
from sympy_tensordiff.drawing.writers import LONGEST_BOX, checked_size, edges, face
from sympy_tensordiff.errors import UnsupportedError

# Of the font, in pixels: letters of a monospaced font have one width, so that texts fit their boxes everywhere.
LETTER, LINE = 7.25, 15.0
PITCH, TITLE, MARGIN = 72.0, 24.0, 12.0

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.1f} {1:.1f}"
 font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="12" text-anchor="middle">
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>
<rect width="100%" height="100%" fill="white"/>"""


def svg_text(clusters: Sequence[Cluster]) -> str:
    """The graphs of a picture side by side, each node drawn once in each.

    Raises
    ------
    UnsupportedError
        If the picture is too large.
    """
    checked_size(clusters)
    graphs = [_Graph(part, framed=len(clusters) > 1) for part in clusters]
    lines, left = [], 0.0
    for graph in graphs:
        lines += [f'<g transform="translate({left:.1f},0)">', *graph.frame(), *graph.edges(), *graph.boxes(), "</g>"]
        left += graph.width
    return "\n".join([HEAD.format(left, max(graph.height for graph in graphs)), *lines, "</svg>\n"])


class _Graph:
    """One graph of a picture, with the places of all that is drawn."""

    def __init__(self, part: Cluster, framed: bool) -> None:
        self.part = part
        self.title = cut(part.title, LONGEST_BOX) if framed else ""
        self.faces = [face(drawn) for drawn in part.nodes]
        widths = [max(map(len, found.lines)) * LETTER + GAP for found in self.faces]
        self.heights = [len(found.lines) * LINE + 8 for found in self.faces]
        self.layout = layout = Layout([drawn.children for drawn in part.nodes], widths)
        left = min(x - width / 2 for x, width in zip(layout.x, layout.widths, strict=True))
        right = max(x + width / 2 for x, width in zip(layout.x, layout.widths, strict=True))
        top = (TITLE if framed else 0.0) + 2 * MARGIN + LINE
        self.width = max(right - left, len(self.title) * LETTER) + 4 * MARGIN
        self.x = [x + (self.width - left - right) / 2 for x in layout.x]
        self.y = [top + layer * PITCH for layer in layout.layer]
        self.height = max(self.y) + LINE + 2 * MARGIN

    def frame(self) -> list[str]:
        if not self.title:
            return []
        size = f'width="{self.width - MARGIN:.1f}" height="{self.height - MARGIN:.1f}"'
        return [
            f'<rect x="{MARGIN / 2}" y="{MARGIN / 2}" {size} rx="8" fill="none" stroke="#aaa"/>',
            f'<text x="{self.width / 2:.1f}" y="{MARGIN + LINE}">{escape(self.title)}</text>',
        ]

    def boxes(self) -> Iterator[str]:
        places = zip(self.x, self.y, self.layout.widths, self.heights, strict=False)  # those of bends are not read
        for found, (x, y, width, height) in zip(self.faces, places, strict=False):
            place = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}"'
            rounded = ' rx="6"' if found.rounded else ""
            yield f'<g class="node"><title>{escape(found.hint)}</title>'
            yield f'<rect {place}{rounded} fill="{found.fill}" stroke="#555"/>'
            for n, line in enumerate(found.lines, start=1):
                yield f'<text x="{x:.1f}" y="{y - height / 2 + LINE * n:.1f}">{escape(line)}</text>'
            yield "</g>"

    def edges(self) -> Iterator[str]:
        for node, place, text in edges(self.part):
            children = self.part.nodes[node].children
            below = zip(self.layout.bends[node], children, strict=True)
            ends = [(self.x[(bends or [child])[0]], n) for n, (bends, child) in enumerate(below)]
            rank = sum(end < ends[place] for end in ends)
            room = min(14.0, self.layout.widths[node] / (len(children) + 1))
            start = self.x[node] + (rank - (len(children) - 1) / 2) * room
            points = [(start, self.y[node] + self.heights[node] / 2)]
            for bend in self.layout.bends[node][place]:
                points += [(self.x[bend], self.y[bend] - LINE), (self.x[bend], self.y[bend] + LINE)]
            child = children[place]
            yield from _edge([*points, (self.x[child], self.y[child] - self.heights[child] / 2)], text)


def _edge(points: Sequence[tuple[float, float]], text: str) -> list[str]:
    """An edge through the points, vertical at each of them, with its text beside its beginning."""
    (x, y), *others = points
    path = f"M{x:.1f} {y:.1f}"
    for n, (x_next, y_next) in enumerate(others):
        middle = (y + y_next) / 2
        path += f"C{x:.1f} {middle:.1f} {x_next:.1f} {middle:.1f} {x_next:.1f} {y_next:.1f}"
        if n == 0 and text:
            beside, below = x + (x_next - x) / 4 + 8, y + (y_next - y) / 4 + 6
        x, y = x_next, y_next
    lines = [f'<g class="edge"><path d="{path}" fill="none" stroke="#555" marker-end="url(#head)"/>']
    if text:
        lines.append(f'<text x="{beside:.1f}" y="{below:.1f}" font-size="9" fill="#555">{escape(text)}</text>')
    return [*lines, "</g>"]


# ---------------------------------------------------------------------------- places


SWEEPS = 8
"""How often the order and the places of all layers are improved, downwards and upwards by turns."""
GAP = 16.0
"""The room between neighbours of a layer."""
MOST_POINTS = 20_000
"""Nodes, and bends of long edges, that are laid out in a second or two."""


class Layout:
    """The layers and places of nodes, and of the bends of the edges that pass through layers.

    Parameters
    ----------
    children : sequence of sequences of int
        The children of each node, from left to right. A tree keeps this order.
    widths : sequence of float

    Attributes
    ----------
    layer : list of int
        Of each node, then of each bend: the length of the longest path to it.
    x : list of float
        Their centres.
    bends : list of lists of lists of int
        For each child of each node the bends of the edge, from above to below.
    """

    def __init__(self, children: Sequence[Sequence[int]], widths: Sequence[float]) -> None:
        self.layer = _longest_paths(children)
        self.widths = list(widths)
        self.bends: list[list[list[int]]] = []
        self._below: list[list[int]] = [[] for _ in children]
        for node, those in enumerate(children):
            self.bends.append([self._edge(node, child) for child in those])
        self._above: list[list[int]] = [[] for _ in self._below]
        for node, those in enumerate(self._below):
            for child in those:
                self._above[child].append(node)
        self._order = self._fewest_crossings(self._depth_first())
        self.x = [0.0] * len(self.layer)
        self._align()

    def _edge(self, node: int, child: int) -> list[int]:
        """The new bends of an edge, one in each layer that it passes through."""
        bends = []
        for layer in range(self.layer[node] + 1, self.layer[child]):
            bends.append(len(self.layer))
            self.layer.append(layer)
            self.widths.append(0.0)
            self._below.append([])
        if len(self.layer) > MOST_POINTS:
            raise UnsupportedError(
                f"the long edges of this picture have more than {MOST_POINTS:,} bends: its text (str) and its .source "
                "need no layout; or draw a part of the expression"
            )
        for upper, lower in zip([node, *bends], [*bends, child], strict=True):
            self._below[upper].append(lower)
        return bends

    def _depth_first(self) -> list[list[int]]:
        """The nodes of each layer in the order of a reader, in which the edges of a tree do not cross."""
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

    def _fewest_crossings(self, order: list[list[int]]) -> list[list[int]]:
        """The best of the orders in which each layer is sorted by the mean position of its neighbours."""
        best, fewest = order, self._crossings(order)
        for sweep in range(SWEEPS):
            if not fewest:
                break
            order = [list(layer) for layer in order]
            near, layers = (self._below, order[-2::-1]) if sweep % 2 else (self._above, order[1:])
            at = {node: position for layer in order for position, node in enumerate(layer)}
            for layer in layers:
                means = {node: _mean([at[other] for other in near[node]], at[node]) for node in layer}
                layer.sort(key=means.__getitem__)
                at.update((node, position) for position, node in enumerate(layer))
            count = self._crossings(order)
            if count < fewest:
                best, fewest = order, count
        return best

    def _crossings(self, order: list[list[int]]) -> int:
        at = {node: position for layer in order for position, node in enumerate(layer)}
        count = 0
        for layer in order:
            ends: list[int] = []
            for node in layer:
                those = [at[child] for child in self._below[node]]
                count += sum(len(ends) - bisect_right(ends, end) for end in those)
                for end in those:
                    insort(ends, end)
        return count

    def _align(self) -> None:
        """Moves nodes towards the means of their neighbours, above and below by turns, and of both at last."""
        for sweep in range(SWEEPS + 1):
            for layer in self._order[::-1] if sweep % 2 == 0 else self._order:
                gaps = [0.0]
                for left, right in pairwise(layer):
                    gaps.append((self.widths[left] + self.widths[right]) / 2 + GAP)
                wanted = []
                for node in layer:
                    near = (self._above[node], self._below[node])[sweep % 2 == 0]
                    near = near if 0 < sweep < SWEEPS else self._above[node] + self._below[node]
                    wanted.append(_mean([self.x[other] for other in near], self.x[node]))
                for node, place in zip(layer, spread(wanted, gaps), strict=True):
                    self.x[node] = place


def _longest_paths(children: Sequence[Sequence[int]]) -> list[int]:
    """The length of the longest path from above to each node."""
    parents = [0] * len(children)
    for those in children:
        for child in those:
            parents[child] += 1
    found = [0] * len(children)
    ready = [node for node, count in enumerate(parents) if not count]
    while ready:
        node = ready.pop()
        for child in children[node]:
            found[child] = max(found[child], found[node] + 1)
            parents[child] -= 1
            if not parents[child]:
                ready.append(child)
    return found


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def spread(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places closest to the wanted ones, by least squares, of which each has its gap to the one before.

    Less the sum of the gaps, the places are a monotone sequence; adjacent violators are pooled.

    Examples
    --------
    >>> spread([0.0, 0.0, 10.0], [0.0, 2.0, 2.0])
    [-1.0, 1.0, 10.0]
    """
    offsets = list(accumulate(gaps))
    pools: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=True):
        mean, count = place - offset, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
