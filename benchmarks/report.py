"""The result as text: lines while it runs, a Markdown table at the end."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.contestants import OURS
from benchmarks.measure import Quartiles
from benchmarks.result import CAP, Result, Run

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
PAGE = f"""# Benchmarks

{BEGIN}
{END}
"""
METHOD = f"""\
All forms of a row are compared in double precision before they are timed. They run in turn, with the same number of
threads. Times are medians in milliseconds. A ratio of times is computed in each round, and the table has the median
over the rounds. *Rival* is the fastest form of JAX or PyTorch that differentiates on its own, *hand* is NumPy code
written by hand. The *limit* is the longer of two times: that of the row's operations at the rate of a matrix product,
and that of its bytes at the rate at which memory is read in order. The *share* is the limit divided by our time. In the
geometric mean each ratio is capped at {CAP:g}.
"""


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def spread(ratio: Quartiles | None) -> str:
    return "" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f} … {ratio.high:.2f})"


def lines(run: Run, result: Result) -> str:
    """A result while the run goes on."""
    sizes = ", ".join(f"{name} = {value}" for name, value in result.sizes.items())
    text = [f"{result.name} ({sizes})"]
    for label in result.libraries:
        if label in result.times:
            quartiles = Quartiles.of(result.times[label])
            text.append(
                f"  {label:<36} {milliseconds(quartiles.median):>9} ms, ratio {spread(result.ratio(label))}, "
                f"share {run.share(result, label):.0%}"
            )
        else:
            text.append(f"  {label:<36} agrees")
    if result.doubled is not None:
        time, flops = result.doubled
        text.append(f"  with {result.row.doubled} doubled {time:.2f} times the time, {flops:.2f} times the operations")
    text += [f"  gap: {label} {why}" for label, why in result.gaps.items()]
    return "\n".join(text)


def summary(run: Run) -> str:
    """The mean over all rows, and the limits of the machine."""
    mean = run.mean_ratio()
    text = [] if mean is None else [f"geometric mean of the ratios to the rivals, each capped at {CAP:g}: {mean:.2f}"]
    text += [
        f"{dtype}: products of matrices {limits.flops / 1e9:.1f} GF/s, stream {limits.bandwidth / 1e9:.1f} GB/s"
        for dtype, limits in run.limits.items()
        if limits.flops
    ]
    return "\n".join(text)


HEAD = ("row", "type", "ours", "rival", "time", "ratio", "hand", "ratio", "limit", "share")


def table(run: Run) -> str:
    """One line for each row and element type."""
    text = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for result in run.results:
        ours = result.fastest([OURS])
        rival, hand = result.rival, result.fastest(["numpy"])
        cells = [result.row.name, result.dtype, "" if ours is None else milliseconds(result.median(ours))]
        for label, names in ((rival, [rival or ""]), (hand, [])):
            cells += names
            ratio = None if label is None else result.ratio(label)
            cells += [
                "" if label is None else milliseconds(result.median(label)),
                f"{ratio.median:.2f}" if ratio else "",
            ]
        cells += [milliseconds(run.limit(result)), "" if ours is None else f"{run.share(result, ours):.0%}"]
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def write_forms(run: Run, path: Path) -> None:
    """A table in CSV of every form that was timed, with the quartiles of its ratio, and of every gap."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("row", "type", "form", "ms", "ratio", "lower quartile", "upper quartile", "gap"))
        for result in run.results:
            for label in result.times:
                ratio = result.ratio(label)
                numbers = [] if ratio is None else [f"{x:.2f}" for x in (ratio.median, ratio.low, ratio.high)]
                time = milliseconds(result.median(label))
                rows.writerow((result.row.name, result.dtype, label, time, *(numbers or ("", "", "")), ""))
            for label, why in result.gaps.items():
                rows.writerow((result.row.name, result.dtype, label, "", "", "", "", why))


def write_page(run: Run, page: Path, plot: Path | None) -> None:
    """Put the table between the marks of ``page``, which may be new, and all forms into a file of its name."""
    if not page.exists():
        page.write_text(PAGE, encoding="utf-8")
    picture = [] if plot is None else [f"![Ratios of times]({relative(plot, page)})", ""]
    described = {r.row.name: (r.row.what, ", ".join(f"{k}={v}" for k, v in r.sizes.items())) for r in run.results}
    rows = "\n".join(f"- `{name}` ({sizes}): {what}" for name, (what, sizes) in described.items())
    forms = (page.parent if plot is None else plot.parent) / f"{page.stem}_forms.csv"
    parts = [METHOD, run.head().replace("\n", "; "), "", summary(run).replace("\n", "; "), "", *picture]
    parts += [table(run), "", f"{{download}}`Every form with its quartiles <{relative(forms, page)}>`", ""]
    parts += ["## Rows", "", rows, ""]
    replace_between(page, BEGIN, END, "\n\n" + "\n".join(parts) + "\n")
    write_forms(run, forms)


def replace_between(page: Path, begin: str, end: str, new: str) -> None:
    """Write `new` between the marks `begin` and `end` of a page; exit where they are missing."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page}: the marks {begin} and {end} are missing")
    page.write_text(before + begin + new + end + after, encoding="utf-8")


def relative(path: Path, page: Path) -> str:
    path, folder = path.resolve(), page.resolve().parent
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
