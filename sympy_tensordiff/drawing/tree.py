"""A picture as plain text: a tree in which a shared node stands once and is referred to by its number."""

from __future__ import annotations

from collections import deque

from sympy_tensordiff.drawing.labels import cut
from sympy_tensordiff.drawing.picture import Cluster, Drawn, Picture

DEEPEST = 24
"""Further down a branch goes on at the left margin, so that the text of a deep chain does not grow quadratically."""

LONGEST = 120
"""Longer texts of nodes are cut."""


def tree_text(picture: Picture) -> str:
    """The trees of all graphs of a picture."""
    number = max((drawn.number for part in picture.clusters for drawn in part.nodes), default=0)
    text: list[str] = []
    for part in picture.clusters:
        lines, number = _lines(part, number)
        if len(picture.clusters) > 1:
            text.append(f"{cut(part.title, LONGEST)}:")
        text += lines
    return "\n".join(text)


def _lines(part: Cluster, count: int) -> tuple[list[str], int]:
    """The lines of one graph; ``count`` is the last number that is taken."""
    lines: list[str] = []
    shown: set[int] = set()
    numbers = {n: drawn.number for n, drawn in enumerate(part.nodes) if drawn.number}
    later = deque(part.roots)
    # What stands in front of a node and of the nodes below it.
    stack: list[tuple[int, str, str]] = []
    while stack or later:
        place, front, indent = stack.pop() if stack else (later.popleft(), "", "")
        drawn = part.nodes[place]
        deep = bool(drawn.children) and place not in shown and len(indent) >= 3 * DEEPEST
        if deep and place not in numbers:
            count += 1
            numbers[place] = count
        if deep and place not in later:
            later.append(place)
        if deep or (drawn.children and place in shown):
            if front or place in part.roots:
                lines.append(f"{front}see #{numbers[place]}: {cut(drawn.text, LONGEST)}")
            continue
        lines.append(front + _line(drawn, numbers.get(place, 0), first=place not in shown))
        shown.add(place)
        last = len(drawn.children) - 1
        for n in range(last, -1, -1):
            corner, rest = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
            stack.append((drawn.children[n], indent + corner, indent + rest))
    return lines, count


def _line(drawn: Drawn, number: int, first: bool) -> str:
    text = (f"#{number} " if number else "") + cut(drawn.text, LONGEST)
    return text + (
        f"   (pullback of {cut(', '.join(drawn.pullback_of), LONGEST)})" if drawn.pullback_of and first else ""
    )
