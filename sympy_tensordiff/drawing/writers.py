"""A picture written: as a tree in plain text, in the language of graphviz, and as PNG, which its program ``dot`` draws.

In a tree a shared node stands once and is referred to by its number.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.drawing.labels import cut
from sympy_tensordiff.drawing.picture import Cluster, Drawn
from sympy_tensordiff.errors import BackendError, UnsupportedError

DEEPEST = 24
"""Further down a branch goes on at the left margin, so that the text of a deep chain does not grow quadratically."""

LONGEST_LINE = 120
"""Longer texts of nodes are cut in a tree."""

COLOURS = ("#fdd0a2", "#c6dbef", "#c7e9c0", "#dadaeb", "#fcc5c0", "#fee391", "#c5e8e7", "#e5d8bd")
"""Of nodes and their pullbacks, over again where there are more."""

LONGEST_BOX = 60
"""Longer texts are cut in a picture."""

HEAD = """\
  graph [ordering=out, nodesep=0.3, ranksep=0.35, fontname="Helvetica,Arial,sans-serif", fontsize=12];
  node [shape=box, style="rounded,filled", fillcolor=white, color="#555555", height=0.3, width=0.35,
        margin="0.1,0.04", fontname="Helvetica,Arial,sans-serif", fontsize=12];
  edge [color="#555555", arrowsize=0.6, fontcolor="#555555", fontname="Helvetica,Arial,sans-serif", fontsize=9];"""

LARGEST = 2000
"""Nodes of a picture; the layout of larger ones takes minutes, and nobody can read them."""

WAY_OUT = "its text (str) and its .source need no layout; or draw a part of the expression"

SECONDS = 60
"""The longest time that ``dot`` may take."""

ROUGH = 200
"""Larger pictures are laid out with less care, which takes a fraction of the time."""


def tree_text(clusters: Sequence[Cluster]) -> str:
    """The trees of all graphs of a picture."""
    number = max((drawn.number for part in clusters for drawn in part.nodes), default=0)
    text: list[str] = []
    for part in clusters:
        lines, number = _lines(part, number)
        if len(clusters) > 1:
            text.append(f"{cut(part.title, LONGEST_LINE)}:")
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
                lines.append(f"{front}see #{numbers[place]}: {cut(drawn.text, LONGEST_LINE)}")
            continue
        lines.append(front + _line(drawn, numbers.get(place, 0), first=place not in shown))
        shown.add(place)
        last = len(drawn.children) - 1
        for n in range(last, -1, -1):
            corner, rest = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
            stack.append((drawn.children[n], indent + corner, indent + rest))
    return lines, count


def _line(drawn: Drawn, number: int, first: bool) -> str:
    text = (f"#{number} " if number else "") + cut(drawn.text, LONGEST_LINE)
    return text + (
        f"   (pullback of {cut(', '.join(drawn.pullback_of), LONGEST_LINE)})" if drawn.pullback_of and first else ""
    )


def dot_text(clusters: Sequence[Cluster]) -> str:
    """The graphs of a picture side by side, each node drawn once in each."""
    lines = ["digraph {", HEAD]
    for n, part in enumerate(clusters):
        body = _nodes_and_edges(part, "ed"[n])
        if len(clusters) == 1:
            lines += [f"  {line}" for line in body]
        else:
            frame = [f"label={quoted(cut(part.title, LONGEST_BOX))};", 'style="rounded"; color="#aaaaaa"; margin=12;']
            lines += [f"  subgraph cluster_{n} {{", *(f"    {line}" for line in [*frame, *body]), "  }"]
    return "\n".join([*lines, "}", ""])


def _nodes_and_edges(part: Cluster, letter: str) -> Iterator[str]:
    for n, drawn in enumerate(part.nodes):
        found = face(drawn)
        attributes = {"label": quoted(*found.lines), "tooltip": quoted(found.hint)}
        if not found.rounded:
            attributes["style"] = '"filled"'
        if found.fill != "white":
            attributes["fillcolor"] = f'"{found.fill}"'
        yield f"{letter}{n} [{', '.join(f'{name}={value}' for name, value in attributes.items())}];"
    for n, place, text in edges(part):
        yield f"{letter}{n} -> {letter}{part.nodes[n].children[place]}" + (f' [label=" {text}"];' if text else ";")


def edges(part: Cluster) -> Iterator[tuple[int, int, str]]:
    """All nodes with the place of each of their children, and what is written at the edge."""
    # The layout keeps left and right in trees only.
    is_tree = all(drawn.parents < 2 for drawn in part.nodes)
    for n, drawn in enumerate(part.nodes):
        count = len(drawn.children)
        texts = [""] * count
        if drawn.node.op == "select":
            texts = ["if", "then", "else"]
        elif drawn.ordered and count > 1 and not is_tree:
            texts = [str(place) for place in range(1, count + 1)]
        for place, text in enumerate(texts):
            yield n, place, text


class Face(NamedTuple):
    """What a node looks like: its lines, the text for a pointer above it, its colour, and whether it has corners."""

    lines: list[str]
    hint: str
    fill: str
    rounded: bool


def face(drawn: Drawn) -> Face:
    """How a node is drawn."""
    lines = [cut(drawn.text, LONGEST_BOX)]
    if drawn.has_pullback and not drawn.is_leaf:
        lines[0] = f"#{drawn.number}   {lines[0]}"
    if drawn.pullback_of:
        lines.append(f"pullback of {cut(', '.join(drawn.pullback_of), LONGEST_BOX)}")
    named = drawn.node.op in ("tensor", "scalar")
    fill = COLOURS[(drawn.colour - 1) % len(COLOURS)] if drawn.colour else "#eeeeee" if named else "white"
    return Face(lines, cut(f"{drawn.text}: {drawn.hint}", 4 * LONGEST_BOX), fill, not named)


def quoted(*lines: str) -> str:
    """Lines of printable text as one string of graphviz, which shows them as they are.

    Quotes and backslashes would end the string or be read as commands, an ampersand as the name of a character.
    """
    escaped = [line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'


def checked_size(clusters: Sequence[Cluster]) -> int:
    """The number of nodes of a picture.

    Raises
    ------
    UnsupportedError
        If the picture is too large.
    """
    size = sum(len(part.nodes) for part in clusters)
    if size > LARGEST:
        raise UnsupportedError(f"a picture of {size} nodes is larger than {LARGEST}: {WAY_OUT}")
    return size


def png(clusters: Sequence[Cluster]) -> bytes:
    """The picture as PNG, by the program ``dot``.

    Raises
    ------
    BackendError
        If ``dot`` is not installed, or fails.
    UnsupportedError
        If the picture is too large, or its layout takes too long.
    """
    size = checked_size(clusters)
    program = shutil.which("dot")
    if program is None:
        raise BackendError(
            "png pictures need the program dot: install graphviz (https://graphviz.org), or save as .svg, .txt or .dot"
        )
    options = ["-Tpng"]
    if size > ROUGH:
        options += ["-Gnslimit=2", "-Gnslimit1=2", "-Gmclimit=0.2"]
    source = dot_text(clusters).encode()
    try:
        done = subprocess.run([program, *options], input=source, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"the layout of {size} nodes takes dot longer than {SECONDS} s: {WAY_OUT}") from None
    if done.returncode != 0 or not done.stdout:
        problem = done.stderr.decode(errors="replace").strip()[:300]
        raise BackendError(f"{program} has drawn nothing (exit code {done.returncode}): {problem}")
    return done.stdout
