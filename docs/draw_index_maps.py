"""Draw the pictures of index_equations.md: run ``python docs/draw_index_maps.py`` from a checkout.

It needs matplotlib (extra ``plot``), whose version decides the bytes of the files; a test checks what they show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import sympy

import sympy_tensordiff as td

STATIC = Path(__file__).resolve().parent / "_static"

# Text stays text, and the same picture is the same file.
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "index maps", "font.family": "sans-serif"}

i, j, k = td.indices("i j k")

PICTURES: dict[str, Callable[[], Any]] = {
    "index_line": lambda: td.plot_index_map(2 * i + 3 * k, [(i, 6), (k, 5)], at=12),
    "index_congruence": lambda: td.plot_index_map(2 * i + 4 * j, [(i, 6), (j, 4)], at=7),
    "index_range": lambda: td.plot_index_map(i + j, [(i, 0, 7), (j, 0, sympy.Min(i, 4))], at=6),
    "index_kernel": lambda: td.plot_index_map(
        i - 2 * j - 2 * k, [(i, 1, 5), (j, 0, 4), (k, -5, 1)], at=3, space="kernel"
    ),
}


def draw_all(folder: Path) -> None:
    for name, draw in PICTURES.items():
        with matplotlib.rc_context(SETTINGS):
            draw().figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    matplotlib.use("Agg")
    draw_all(STATIC)
