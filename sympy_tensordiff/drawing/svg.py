"""A picture written as SVG, with boxes and edges at the places of `layout`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from sympy_tensordiff.drawing.labels import cut
from sympy_tensordiff.drawing.layout import GAP, Layout
from sympy_tensordiff.drawing.picture import Cluster
from sympy_tensordiff.drawing.writers import LONGEST_BOX, checked_size, edges, face

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
