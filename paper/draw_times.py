"""Draw the figure of paper.md, the recorded times of functions beside JAX: run ``python paper/draw_times.py``.

The last run in ``benchmarks/history`` is drawn; a test compares it with the description in the file. It needs
matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAPER = Path(__file__).resolve().parent
FILE = PAPER / "times.png"
sys.path.insert(0, str(PAPER.parent))

from benchmarks.history.page import Run, runs  # noqa: E402

INK, OURS, OTHER = "#1b2733", "#0b6bcb", "#c2571a"


def run_drawn() -> Run:
    """Return the last recorded run of the functions of practice."""
    return runs("practice")[-1]


def double_precision(run: Run) -> dict[str, tuple[float, float]]:
    """Return the milliseconds of ours and of JAX in double precision, the best ratio first."""
    rows = {name.split()[0]: times for name, times in run.rows.items() if name.endswith("float64")}
    return dict(sorted(rows.items(), key=lambda row: row[1][0] / row[1][1]))


def description(run: Run) -> str:
    """Return the numbers in the picture as text."""
    rows = [f"{name} {ours:g} {other:g}" for name, (ours, other) in double_precision(run).items()]
    return "\n".join([f"{run.day}, {run.machine}", *rows])


def draw(run: Run, file: Path) -> None:
    """Draw the ratio of the times of each function on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = double_precision(run)
    ratios = [other / ours for ours, other in rows.values()]
    with matplotlib.rc_context({"font.family": "sans-serif", "font.size": 8, "text.color": INK}):
        figure, axes = plt.subplots(figsize=(6.3, 4.6), layout="constrained")
        places = range(len(rows), 0, -1)
        axes.hlines(places, 1, ratios, color="#c8d4e3", linewidth=2)
        axes.scatter(ratios, places, color=[OURS if ratio >= 1 else OTHER for ratio in ratios], s=16, zorder=3)
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_yticks(list(places), list(rows))
        marks = [mark for mark in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64) if _near(mark, ratios)]
        axes.set(xscale="log", xlabel="time of JAX / time of sympy_tensordiff (LLVM)", ylim=(0.3, len(rows) + 0.7))
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
        axes.minorticks_off()
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.savefig(file, dpi=200, metadata={"Software": None, "Description": description(run)})
        plt.close(figure)


def _near(mark: float, ratios: list[float]) -> bool:
    """Return whether a mark of the axis is among the ratios, or next to them."""
    return min(1, *ratios) / 2 < mark < 2 * max(1, *ratios)


if __name__ == "__main__":
    draw(run_drawn(), FILE)
