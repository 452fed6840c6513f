"""Draw the picture of the README, formula, derivative and kernel: run ``python docs/draw_overview.py``.

All texts are outputs of the package: a test compares them with the description in the file. It needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import sympy

import sympy_tensordiff as td

FILE = Path(__file__).resolve().parent / "_static" / "overview.svg"
SETTINGS = {"svg.hashsalt": "overview", "font.family": "sans-serif", "mathtext.fontset": "cm"}
INK, ACCENT, PAPER = "#1b2733", "#0b6bcb", "#f4f7fb"
RUN = "td.lambdify(\n    [x, w, dy], dx,\n    temporaries=False)"


class Texts(NamedTuple):
    """The texts in the picture."""

    code: str
    formula: str
    call: str
    derivative: str
    kernel: str

    def description(self) -> str:
        """Return all texts as one, the description in the file."""
        return "\n\n".join(self)


def texts() -> Texts:
    """Return the texts of a convolution of stride 2, of its pullback, and of the loops of the Numba kernel."""
    i, k, n, p = td.indices("i k n p")
    x, w, dy = td.TensorSymbol("x", 2 * n + 1), td.TensorSymbol("w", 3), td.TensorSymbol("dy", n)
    total = td.IndexedSum(x[2 * i + k] * w[k], (k, 0, 2))
    pullback = td.vjp(td.TensorComprehension(total, (i, n)), x, dy)
    kernel = td.generate_code([x, w, dy], pullback, "numba", temporaries=False)
    lines = kernel[kernel.index("    for p in range") :].split("\n\n")[0].splitlines()
    return Texts(
        f"td.{total}",
        f"y_i = {sympy.latex(total)}",
        "td.vjp(y, x, dy)",
        f"dx_p = {sympy.latex(pullback[p].doit())}",
        "\n".join(line[4:] for line in lines),
    )


def draw(shown: Texts, file: Path) -> None:
    """Write the picture of the texts ``shown`` to ``file``."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(8.6, 4.4), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 86), ylim=(0, 44))
        axes.axis("off")
        _panel(axes, (1, 18.5, 36, 24.5), "Write", shown.code, shown.formula)
        _panel(axes, (45, 18.5, 40, 24.5), "Differentiate, and read", shown.call, shown.derivative)
        _panel(axes, (1, 1, 84, 13.5), "Run", RUN)
        kernel = axes.text(31, 12, shown.kernel, family="monospace", size=9.5, va="top", color=INK, linespacing=1.4)
        _check_inside(axes, kernel, right=85)
        arrow = {"arrowstyle": "-|>", "color": ACCENT, "lw": 2.5}
        axes.annotate("", (44.6, 30.5), (37.4, 30.5), arrowprops=arrow)
        axes.annotate("", (65, 14.6), (65, 18.4), arrowprops=arrow)
        figure.savefig(file, metadata={"Date": None, "Creator": None, "Description": shown.description()})


def _check_inside(axes: Any, text: Any, right: float) -> None:
    """Raise `AssertionError` if ``text`` extends beyond the horizontal position ``right`` of the axes."""
    box = text.get_window_extent().transformed(axes.transData.inverted())
    assert box.x1 < right, f"a line of the kernel ends at {box.x1:.1f}, its box at {right}"


def _panel(axes: Any, box: tuple[float, float, float, float], title: str, code: str, formula: str = "") -> None:
    """Draw a rounded ``box`` (left, bottom, width, height) with a title, code and a formula below."""
    from matplotlib.patches import FancyBboxPatch

    left, bottom, width, height = box
    style = {"boxstyle": "round,pad=0.5", "fc": PAPER, "ec": "#c8d4e3", "lw": 1.2}
    axes.add_patch(FancyBboxPatch((left + 0.5, bottom + 0.5), width - 1, height - 1, **style))
    axes.text(left + 2, bottom + height - 2.8, title, size=13, weight="bold", color=ACCENT, va="center")
    axes.text(left + 2, bottom + height - 5.6, code, family="monospace", size=9.5, color=INK, va="top", linespacing=1.4)
    if formula:
        axes.text(left + width / 2, bottom + 8.5, f"${formula}$", size=16, color=INK, ha="center", va="center")


if __name__ == "__main__":
    draw(texts(), FILE)
