"""Writers of a picture: a tree in plain text, the language of graphviz, and PNG through the program ``dot``.

In a tree a shared node is written once; later uses refer to its number.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.drawing.labels import truncate
from sympy_tensordiff.drawing.picture import Cluster, DrawnNode
from sympy_tensordiff.errors import BackendError, UnsupportedError

MAX_TREE_DEPTH = 24
"""Deeper branches continue at the left margin, so that the text of a deep chain does not grow quadratically."""

MAX_LINE_LENGTH = 120
"""Longer labels are truncated in a tree."""

COLOURS = ("#fdd0a2", "#c6dbef", "#c7e9c0", "#dadaeb", "#fcc5c0", "#fee391", "#c5e8e7", "#e5d8bd")
"""Colours of nodes and their pullbacks, used cyclically."""

MAX_BOX_LENGTH = 60
"""Longer labels are truncated in a picture."""

HEAD = """\
  graph [ordering=out, nodesep=0.3, ranksep=0.35, fontname="Helvetica,Arial,sans-serif", fontsize=12];
  node [shape=box, style="rounded,filled", fillcolor=white, color="#555555", height=0.3, width=0.35,
        margin="0.1,0.04", fontname="Helvetica,Arial,sans-serif", fontsize=12];
  edge [color="#555555", arrowsize=0.6, fontcolor="#555555", fontname="Helvetica,Arial,sans-serif", fontsize=9];"""

MAX_PICTURE_NODES = 2000
"""The layout of larger pictures takes minutes, and they are unreadable."""

ALTERNATIVES = "its text (str) and its .source need no layout; or draw a part of the expression"

DOT_TIMEOUT = 60
"""Time limit of ``dot`` in seconds."""

MAX_CAREFUL_NODES = 200
"""Larger pictures get a cruder layout in a fraction of the time."""


def tree_text(clusters: Sequence[Cluster]) -> str:
    """Return all graphs of a picture, ``clusters``, as trees in plain text."""
    number = max((drawn.number for part in clusters for drawn in part.nodes), default=0)
    text: list[str] = []
    for part in clusters:
        lines, number = _tree_lines(part, number)
        if len(clusters) > 1:
            text.append(f"{truncate(part.title, MAX_LINE_LENGTH)}:")
        text += lines
    return "\n".join(text)


def _tree_lines(part: Cluster, count: int) -> tuple[list[str], int]:
    """Return ``(lines, last number)``: the lines of the graph ``part`` as a tree of text, and the last number given to
    a node. ``count`` is the last number that was given before.

    Nodes that are too deep are printed later, and get the numbers after ``count``, unless they have one already.
    """
    lines: list[str] = []
    shown: set[int] = set()
    numbers = {n: drawn.number for n, drawn in enumerate(part.nodes) if drawn.number}
    pending = deque(part.roots)
    # (node, prefix of its line, indentation of its children)
    stack: list[tuple[int, str, str]] = []
    while stack or pending:
        position, prefix, indent = stack.pop() if stack else (pending.popleft(), "", "")
        drawn = part.nodes[position]
        is_too_deep = bool(drawn.children) and position not in shown and len(indent) >= 3 * MAX_TREE_DEPTH
        if is_too_deep and position not in numbers:
            count += 1
            numbers[position] = count
        if is_too_deep and position not in pending:
            pending.append(position)
        if is_too_deep or (drawn.children and position in shown):
            if prefix or position in part.roots:
                lines.append(f"{prefix}see #{numbers[position]}: {truncate(drawn.text, MAX_LINE_LENGTH)}")
            continue
        lines.append(prefix + _node_line(drawn, numbers.get(position, 0), first=position not in shown))
        shown.add(position)
        last = len(drawn.children) - 1
        for n in range(last, -1, -1):
            corner, rest = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
            stack.append((drawn.children[n], indent + corner, indent + rest))
    return lines, count


def _node_line(drawn: DrawnNode, number: int, first: bool) -> str:
    """Return the line of text for the node ``drawn``, with its ``number`` unless that is 0. Only the line of its
    ``first`` occurrence also names the nodes whose pullback (cotangent) it is.
    """
    text = (f"#{number} " if number else "") + truncate(drawn.text, MAX_LINE_LENGTH)
    return text + (
        f"   (pullback of {truncate(', '.join(drawn.pullback_of), MAX_LINE_LENGTH)})"
        if drawn.pullback_of and first
        else ""
    )


def dot_text(clusters: Sequence[Cluster]) -> str:
    """Return the graphs of a picture, ``clusters``, in the language of graphviz, each node once per graph."""
    lines = ["digraph {", HEAD]
    for n, part in enumerate(clusters):
        body = _nodes_and_edges(part, "ed"[n])
        if len(clusters) == 1:
            lines += [f"  {line}" for line in body]
        else:
            frame = [
                f"label={quote_dot(truncate(part.title, MAX_BOX_LENGTH))};",
                'style="rounded"; color="#aaaaaa"; margin=12;',
            ]
            lines += [f"  subgraph cluster_{n} {{", *(f"    {line}" for line in [*frame, *body]), "  }"]
    return "\n".join([*lines, "}", ""])


def _nodes_and_edges(part: Cluster, letter: str) -> Iterator[str]:
    """Yield the graphviz statements of the graph ``part``, with node names starting with ``letter``."""
    for n, drawn in enumerate(part.nodes):
        style = node_style(drawn)
        attributes = {"label": quote_dot(*style.lines), "tooltip": quote_dot(style.hint)}
        if not style.rounded:
            attributes["style"] = '"filled"'
        if style.fill != "white":
            attributes["fillcolor"] = f'"{style.fill}"'
        yield f"{letter}{n} [{', '.join(f'{name}={value}' for name, value in attributes.items())}];"
    for n, position, text in iterate_edges(part):
        yield f"{letter}{n} -> {letter}{part.nodes[n].children[position]}" + (f' [label=" {text}"];' if text else ";")


def iterate_edges(part: Cluster) -> Iterator[tuple[int, int, str]]:
    """Yield ``(parent, child, label)`` for each edge of the graph ``part``: the positions of both nodes in it, and the
    text at the edge.
    """
    # The layout preserves the order of children in trees only.
    is_tree = all(drawn.parents < 2 for drawn in part.nodes)
    for n, drawn in enumerate(part.nodes):
        count = len(drawn.children)
        texts = [""] * count
        if drawn.node.op == "select":
            texts = ["if", "then", "else"]
        elif drawn.ordered and count > 1 and not is_tree:
            texts = [str(position) for position in range(1, count + 1)]
        for position, text in enumerate(texts):
            yield n, position, text


class NodeStyle(NamedTuple):
    """The appearance of a node: the lines of its label, its tooltip, its fill colour, whether it has round corners."""

    lines: list[str]
    hint: str
    fill: str
    rounded: bool


def node_style(drawn: DrawnNode) -> NodeStyle:
    """Return the `NodeStyle` (lines, tooltip, colour, shape) with which a node is drawn."""
    lines = [truncate(drawn.text, MAX_BOX_LENGTH)]
    if drawn.has_pullback and not drawn.is_leaf:
        lines[0] = f"#{drawn.number}   {lines[0]}"
    if drawn.pullback_of:
        lines.append(f"pullback of {truncate(', '.join(drawn.pullback_of), MAX_BOX_LENGTH)}")
    named = drawn.node.op in ("tensor", "scalar")
    fill = COLOURS[(drawn.colour - 1) % len(COLOURS)] if drawn.colour else "#eeeeee" if named else "white"
    return NodeStyle(lines, truncate(f"{drawn.text}: {drawn.hint}", 4 * MAX_BOX_LENGTH), fill, not named)


def quote_dot(*lines: str) -> str:
    """Return lines of printable text as one quoted graphviz string, with special characters escaped.

    Quotes and backslashes would end the string or be read as commands, an ampersand as the name of a character.
    """
    escaped = [line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'


def check_size(clusters: Sequence[Cluster]) -> int:
    """Return the number of nodes of a picture of the graphs ``clusters``; raise `UnsupportedError` beyond
    `MAX_PICTURE_NODES`.
    """
    size = sum(len(part.nodes) for part in clusters)
    if size > MAX_PICTURE_NODES:
        raise UnsupportedError(f"a picture of {size} nodes is larger than {MAX_PICTURE_NODES}: {ALTERNATIVES}")
    return size


def render_png(clusters: Sequence[Cluster]) -> bytes:
    """Return the picture of the graphs ``clusters`` as a PNG file, rendered by the program ``dot``.

    Raise `BackendError` if ``dot`` is not installed or fails, `UnsupportedError` if the picture is too large or its
    layout takes too long.
    """
    size = check_size(clusters)
    program = shutil.which("dot")
    if program is None:
        raise BackendError(
            "png pictures need the program dot: install graphviz (https://graphviz.org), or save as .svg, .txt or .dot"
        )
    options = ["-Tpng"]
    if size > MAX_CAREFUL_NODES:
        options += ["-Gnslimit=2", "-Gnslimit1=2", "-Gmclimit=0.2"]
    source = dot_text(clusters).encode()
    try:
        process = subprocess.run([program, *options], input=source, capture_output=True, timeout=DOT_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            f"the layout of {size} nodes takes dot longer than {DOT_TIMEOUT} s: {ALTERNATIVES}"
        ) from None
    if process.returncode != 0 or not process.stdout:
        problem = process.stderr.decode(errors="replace").strip()[:300]
        raise BackendError(f"{program} has drawn nothing (exit code {process.returncode}): {problem}")
    return process.stdout
