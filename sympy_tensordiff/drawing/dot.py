"""A picture in the language of graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from sympy_tensordiff.drawing.labels import cut
from sympy_tensordiff.drawing.picture import Cluster, Drawn, Picture

COLOURS = ("#fdd0a2", "#c6dbef", "#c7e9c0", "#dadaeb", "#fcc5c0", "#fee391", "#c5e8e7", "#e5d8bd")
"""Of nodes and their pullbacks, over again where there are more."""

LONGEST = 60
"""Longer texts are cut."""

HEAD = """\
  graph [ordering=out, nodesep=0.3, ranksep=0.35, fontname="Helvetica,Arial,sans-serif", fontsize=12];
  node [shape=box, style="rounded,filled", fillcolor=white, color="#555555", height=0.3, width=0.35,
        margin="0.1,0.04", fontname="Helvetica,Arial,sans-serif", fontsize=12];
  edge [color="#555555", arrowsize=0.6, fontcolor="#555555", fontname="Helvetica,Arial,sans-serif", fontsize=9];"""


def dot_text(picture: Picture) -> str:
    """The graphs of a picture side by side, each node drawn once in each."""
    lines = ["digraph {", HEAD]
    for n, part in enumerate(picture.clusters):
        body = _nodes_and_edges(part, "ed"[n])
        if len(picture.clusters) == 1:
            lines += [f"  {line}" for line in body]
        else:
            frame = [f"label={quoted(cut(part.title, LONGEST))};", 'style="rounded"; color="#aaaaaa"; margin=12;']
            lines += [f"  subgraph cluster_{n} {{", *(f"    {line}" for line in [*frame, *body]), "  }"]
    return "\n".join([*lines, "}", ""])


def _nodes_and_edges(part: Cluster, letter: str) -> Iterator[str]:
    for n, drawn in enumerate(part.nodes):
        yield f"{letter}{n} [{_attributes(drawn)}];"
    # The layout keeps left and right in trees only.
    is_tree = all(drawn.parents < 2 for drawn in part.nodes)
    for n, drawn in enumerate(part.nodes):
        count = len(drawn.children)
        texts = [""] * count
        if drawn.node.op == "select":
            texts = ["if", "then", "else"]
        elif drawn.ordered and count > 1 and not is_tree:
            texts = [str(place) for place in range(1, count + 1)]
        for child, text in zip(drawn.children, texts, strict=True):
            yield f"{letter}{n} -> {letter}{child}" + (f' [label=" {text}"];' if text else ";")


def _attributes(drawn: Drawn) -> str:
    lines = [cut(drawn.text, LONGEST)]
    if drawn.has_pullback and not drawn.is_leaf:
        lines[0] = f"#{drawn.number}   {lines[0]}"
    if drawn.pullback_of:
        lines.append(f"pullback of {cut(', '.join(drawn.pullback_of), LONGEST)}")
    attributes = {"label": quoted(*lines), "tooltip": quoted(cut(f"{drawn.text}: {drawn.hint}", 4 * LONGEST))}
    if drawn.node.op in ("tensor", "scalar"):
        attributes["style"] = '"filled"'
        attributes["fillcolor"] = '"#eeeeee"'
    if drawn.colour:
        attributes["fillcolor"] = f'"{COLOURS[(drawn.colour - 1) % len(COLOURS)]}"'
    return ", ".join(f"{name}={value}" for name, value in attributes.items())


def quoted(*lines: str) -> str:
    """Lines of printable text as one string of graphviz, which shows them as they are.

    Quotes and backslashes would end the string or be read as commands, an ampersand as the name of a character.
    """
    escaped = [line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'
