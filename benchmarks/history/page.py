"""Record the times of runs, and show how the ratios to other libraries change from run to run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent.parent / "docs"
CAP = 8.0
"""The largest ratio of a row in a mean."""
CHANGE = 1.3
"""A ratio that falls by this factor from run to run is listed."""
SUITES = {"rows": "rows of `python -m benchmarks`", "practice": "functions of `python -m benchmarks.practice`"}


@dataclass(frozen=True)
class Run:
    """The milliseconds of ours and of the fastest other form, for each row, on a date."""

    suite: str
    day: str
    machine: str
    rows: Mapping[str, tuple[float, float]]

    @property
    def ratios(self) -> dict[str, float]:
        return {name: other / ours for name, (ours, other) in self.rows.items()}

    @property
    def mean(self) -> float:
        """Return the geometric mean of the ratios, each capped."""
        return math.exp(sum(math.log(min(ratio, CAP)) for ratio in self.ratios.values()) / len(self.rows))


def record(run: Run, folder: Path = FOLDER) -> Path:
    """Write the file of a run, which replaces one of the same day."""
    path = folder / f"{run.suite}-{run.day}.json"
    path.write_text(json.dumps(vars(run), indent=0) + "\n", encoding="utf-8")
    return path


def record_today(suite: str, machine: str, rows: Mapping[str, tuple[float, float]]) -> None:
    """Record a run of today; times are in milliseconds."""
    rounded = {name: (float(f"{ours:.4g}"), float(f"{other:.4g}")) for name, (ours, other) in rows.items()}
    record(Run(suite, date.today().isoformat(), machine, rounded))


def runs(suite: str, folder: Path = FOLDER) -> list[Run]:
    """Return the runs of a suite, the oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{suite}-*.json"))]
    return [
        Run(one["suite"], one["day"], one["machine"], {k: tuple(v) for k, v in one["rows"].items()}) for one in found
    ]


def slower(before: Run, after: Run) -> list[str]:
    """Return the rows whose ratio fell, with both ratios."""
    old, new = before.ratios, after.ratios
    pairs = [(name, old[name], new[name]) for name in new if name in old and old[name] > CHANGE * new[name]]
    return [f"`{name}` {one:.2f} → {two:.2f}" for name, one, two in sorted(pairs, key=lambda pair: pair[2] / pair[1])]


def table(found: Sequence[Run]) -> str:
    """Return a line for each run."""
    lines = ["| date | rows | mean ratio | lowest | below 0.8 | slower than in the run before |", "|" + "---|" * 6]
    for before, run in zip([None, *found], found, strict=False):
        ratios = run.ratios.values()
        fallen = ", ".join(slower(before, run)) if before is not None else ""
        low = sum(ratio < 0.8 for ratio in ratios)
        lines.append(f"| {run.day} | {len(run.rows)} | {run.mean:.2f} | {min(ratios):.2f} | {low} | {fallen} |")
    return "\n".join(lines)


PAGE = """\
# History of times

Each run of the [benchmarks](benchmarks.md) that writes its table also writes a file into `benchmarks/history/`. This
page and its plot are written by `python -m benchmarks.history`. A ratio is the time of the fastest other library
divided by ours; a mean is geometric, with each ratio capped at 8. Runs differ in the load of the machine. The counts of
operations in `tests/operation_counts.txt` have no noise.

![Mean and lowest ratios of all runs](_static/history.svg)
"""


def write(docs: Path = DOCS, folder: Path = FOLDER) -> None:
    """Write the page and the plot."""
    suites = {suite: found for suite in SUITES if (found := runs(suite, folder))}
    parts = [PAGE, *(f"## {SUITES[suite].capitalize()}\n\n{table(found)}\n" for suite, found in suites.items())]
    (docs / "history.md").write_text("\n".join(parts), encoding="utf-8")
    draw(suites, docs / "_static" / "history.svg")


def draw(suites: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Draw the mean and the lowest ratio of each suite over the runs."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "history"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    for number, (suite, found) in enumerate(suites.items()):
        days = [date.fromisoformat(run.day) for run in found]
        axes.plot(days, [run.mean for run in found], "o-", color=f"C{number}", label=f"{suite}, mean")
        lowest = [min(run.ratios.values()) for run in found]
        axes.plot(days, lowest, "o:", color=f"C{number}", label=f"{suite}, lowest")
    axes.axhline(1.0, color="grey", linewidth=1)
    axes.set(yscale="log", ylabel="time of others / ours")
    axes.tick_params(axis="x", rotation=30)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
