"""The result as text: lines while it runs, a Markdown table at the end."""

from __future__ import annotations

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
All ways to compute a row have been compared before they were timed, in double precision with the one by hand. They
run in turn, round by round, with the same number of threads. Times are medians; a ratio is the median of the ratios
within the rounds, with its quartiles. *Rival* is the fastest of all forms of JAX and PyTorch that differentiate on
their own. The *limit* is the time of the row's additions and multiplications, counted by hand, at the rate of
products of matrices, or that of its arguments and results at the rate of a stream of as many bytes (which is higher
where a cache holds them), whichever takes longer; the *share* is the part of it that the kernel reaches. In the mean
a ratio counts as {CAP:g} at most.
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
    text = [] if mean is None else [f"geometric mean of the ratios to the rivals, each {CAP:g} at most: {mean:.2f}"]
    text += [
        f"{dtype}: products of matrices {limits.flops / 1e9:.1f} GF/s, stream {limits.bandwidth / 1e9:.1f} GB/s"
        for dtype, limits in run.limits.items()
        if limits.flops
    ]
    return "\n".join(text)


def table(run: Run) -> str:
    """One line for each row and element type."""
    head = (
        "row",
        "sizes",
        "type",
        "ours ms",
        "rival",
        "ms",
        "ratio",
        "by hand in NumPy ms",
        "ratio",
        "limit ms",
        "share",
    )
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for result in run.results:
        ours = result.fastest([OURS])
        rival, hand = result.rival, result.fastest(["numpy"])
        cells = [result.row.name, " ".join(f"{k}={v}" for k, v in result.sizes.items()), result.dtype]
        cells.append("" if ours is None else milliseconds(result.median(ours)))
        for label, name in ((rival, True), (hand, False)):
            cells += [label or ""] * name
            cells += ["", ""] if label is None else [milliseconds(result.median(label)), spread(result.ratio(label))]
        cells += [milliseconds(run.limit(result)), "" if ours is None else f"{run.share(result, ours):.0%}"]
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def all_forms(run: Run) -> str:
    """Every form that was timed, and every gap."""
    text = ["| row | type | form | ms | ratio |", "|---|---|---|---|---|"]
    for result in run.results:
        for label in result.times:
            cells = (
                result.row.name,
                result.dtype,
                label,
                milliseconds(result.median(label)),
                spread(result.ratio(label)),
            )
            text.append("| " + " | ".join(cells) + " |")
        text += [f"| {result.row.name} | {result.dtype} | {label} | {why} | |" for label, why in result.gaps.items()]
    return "\n".join(text)


def write_page(run: Run, page: Path, plot: Path | None) -> None:
    """Put the tables between the marks of ``page``, which is begun where it does not exist; what is around stays."""
    text = page.read_text(encoding="utf-8") if page.exists() else PAGE
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page}: the marks {BEGIN} and {END} are missing")
    picture = [] if plot is None else [f"![Ratios of times]({relative(plot, page)})", ""]
    rows = "\n".join(f"- `{name}`: {what}" for name, what in {r.row.name: r.row.what for r in run.results}.items())
    parts = [METHOD, run.head().replace("\n", "; "), "", summary(run).replace("\n", "; "), "", *picture]
    parts += [table(run), "", "## Rows", "", rows, "", "## All forms", "", all_forms(run), ""]
    page.write_text(before + BEGIN + "\n\n" + "\n".join(parts) + "\n" + END + after, encoding="utf-8")


def relative(path: Path, page: Path) -> str:
    path, folder = path.resolve(), page.resolve().parent
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()
