"""The ratios as a picture; needs Matplotlib."""

from __future__ import annotations

from pathlib import Path

from benchmarks.result import CAP, Run


def draw(run: Run, path: Path) -> None:
    """A bar from quartile to quartile and a dot at the median for each row, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = list(dict.fromkeys(result.row.name for result in run.results))
    figure, axes = plt.subplots(figsize=(8, 1 + 0.3 * len(rows)), layout="constrained")
    for offset, (dtype, colour) in zip((-0.17, 0.17), (("float64", "C0"), ("float32", "C1")), strict=True):
        name: str | None = dtype
        for result in run.results:
            ratio = None if result.rival is None or result.dtype != dtype else result.ratio(result.rival)
            if ratio is not None:
                y = rows.index(result.row.name) + offset
                axes.plot((ratio.low, ratio.high), (y, y), color=colour, linewidth=4, alpha=0.4)
                axes.plot(ratio.median, y, "o", color=colour, markersize=4, label=name)
                name = None  # one entry of the legend
    for place, style in ((1.0, "-"), (CAP, ":")):
        axes.axvline(place, color="grey", linestyle=style, linewidth=1)
    axes.set(xscale="log", yticks=range(len(rows)), yticklabels=rows, xlabel="time of the fastest rival / ours")
    axes.invert_yaxis()
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
