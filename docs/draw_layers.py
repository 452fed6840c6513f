"""Draw the layers and the data flow for the page of contributors: run ``python docs/draw_layers.py``.

It needs the program ``dot`` of graphviz. The layers are the packages in the table of ``tests/test_layers.py``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

FILE = Path(__file__).resolve().parent / "_static" / "layers.svg"

STAGES: dict[str, dict[str, str]] = {
    "symbolic": {"expression": "SymPy expression", "answer": "SymPy again:\nprint, LaTeX, diff"},
    "graph": {"nodes": "graph of tensors"},
    "derivative": {"swept": "graph with cotangents"},
    "simplify": {"plain": "sums over polyhedra,\nno delta"},
    "codegen": {"loops": "loop nests, verified", "source": "text of a module", "callable": "callable"},
    "structure": {"operator": "sparse operators"},
    "bridges": {"functions": "JAX, PyTorch, SciPy"},
    "convex": {"certificate": "certificates"},
    "distributed": {"blocks": "blocks on Dask"},
    "parsing": {"text": "text language,\nindex notation"},
    "drawing": {"pictures": "pictures"},
    "reference": {"oracle": "exact interpreter"},
    "testing": {"checks": "checks, random cases"},
    "app": {"commands": "command line, page"},
    "functions": {"table": "table of functions"},
    "integer": {"algebra": "exact algebra:\nSmith normal form,\nFourier–Motzkin,\npolyhedra;\nknows no tensor"},
}
"""The stages of the data flow in each package: name and label."""

FLOW = [
    ("text", "expression", "parse"),
    ("expression", "nodes", "read"),
    ("nodes", "swept", "sweep"),
    ("swept", "plain", "eliminate"),
    ("plain", "answer", "write"),
    ("plain", "loops", "plan, lower"),
    ("loops", "source", "print"),
    ("source", "callable", "compile"),
    ("nodes", "pictures", "draw"),
    ("callable", "operator", "gather"),
    ("callable", "functions", "hand over"),
    ("operator", "functions", ""),
    ("plain", "certificate", "prove"),
    ("callable", "blocks", "cut"),
]
CHECKS = [("commands", "checks"), ("checks", "oracle"), ("oracle", "nodes")]
USERS_OF_INTEGER = ["swept", "plain", "loops"]
COLOURS = {"symbolic": "#dcebfb", "codegen": "#e3f4e3", "integer": "#f3ead7", "derivative": "#fde5d8"}


def source() -> str:
    """Return the drawing in the language of graphviz."""
    lines = ["digraph layers {", "rankdir=TB; newrank=true; nodesep=0.35; ranksep=0.4; bgcolor=white;"]
    lines += ['fontname="Helvetica"; node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", '
              'fontsize=11]; edge [fontname="Helvetica", fontsize=10, color="#0b6bcb", penwidth=1.6];']  # fmt: skip
    for package, stages in STAGES.items():
        nodes = "; ".join(f'{name} [label="{label}"]' for name, label in stages.items()).replace("\n", "\\n")
        style = f'labeljust=l; fontsize=12; style="rounded,filled"; color="{COLOURS.get(package, "#f0f2f5")}"'
        lines.append(f'subgraph cluster_{package} {{ label="{package}/"; {style}; {nodes} }}')
    lines += [f'{tail} -> {head} [label=" {label} "];' for tail, head, label in FLOW]
    lines += [f'{tail} -> {head} [style=dashed, color="#8a97a6"];' for tail, head in CHECKS]
    lines += [f'{stage} -> algebra [style=dotted, color="#8a6d1f", arrowhead=none];' for stage in USERS_OF_INTEGER]
    lines += ["{ rank=same; expression; answer; }", "{ rank=same; swept; pictures; }", "{ rank=same; plain; algebra; }"]
    return "\n".join([*lines, "}"])


if __name__ == "__main__":
    subprocess.run(["dot", "-Tsvg", "-o", FILE], input=source(), text=True, check=True)
