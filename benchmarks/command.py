"""``python -m benchmarks``: all rows, compared, timed in turn and reported."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.contestants import OURS, DisagreementError, Field, compiled, gather
from benchmarks.environment import add_threads
from benchmarks.history.page import record_today
from benchmarks.libraries import LIBRARIES, load
from benchmarks.limits import stream
from benchmarks.measure import in_turn
from benchmarks.result import Result, Run, times_when_doubled
from benchmarks.row import Row, Sizes
from benchmarks.rows import ROWS

DTYPES = ("float64", "float32")
PEERS = [name for name in LIBRARIES if name != "torch.compile"]
DOCS = Path(__file__).resolve().parent.parent / "docs"
SIZES_OF_LIMITS = {False: (1024, 8_000_000), True: (64, 4096)}


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    result.add_argument("--rows", nargs="*", default=["*"], metavar="PATTERN", help="names or patterns, as conv-*")
    result.add_argument("--list", action="store_true", help="print the rows and stop")
    result.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=DTYPES)
    add_threads(result)
    result.add_argument("--peers", nargs="*", default=PEERS, choices=list(LIBRARIES), help=f"default {' '.join(PEERS)}")
    result.add_argument("--backends", nargs="*", default=["llvm"], choices=["llvm", "numba", "numpy"])
    result.add_argument("--budget", type=float, default=15.0, help="seconds of timing for each row and element type")
    result.add_argument("--limit", type=float, default=60.0, help="seconds that a first call may take")
    result.add_argument("--quick", action="store_true", help="tiny sizes: a test of the suite, no benchmark")
    result.add_argument("--compare-only", action="store_true", help="compare the results, time nothing")
    result.add_argument("--doubled", action="store_true", help="also time ours at twice the size")
    result.add_argument("--plans", action="store_true", help="print how ours computes each row")
    result.add_argument("--json", type=Path, help="write all times to this file")
    result.add_argument("--markdown", type=Path, help="write the table into this page")
    result.add_argument("--plot", type=Path, help="write a plot to this file")
    result.add_argument("--docs", action="store_true", help="--markdown and --plot with those of docs/, and history")
    return result


def chosen(patterns: Sequence[str]) -> list[Row]:
    """The rows that match one of the patterns, in their order."""
    for pattern in patterns:
        if not fnmatch.filter(ROWS, pattern):
            raise SystemExit(f"no row matches {pattern!r}; the rows are {', '.join(ROWS)}")
    return [row for name, row in ROWS.items() if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    rows = chosen(options.rows)
    if options.list:
        print("\n".join(f"{row.name:<24} {row.what}" for row in rows))
        return 0
    used = {peer.library for row in rows for peer in row.peers} | {"torch.compile"}
    libraries, missing = load(["numpy", *(name for name in options.peers if name != "numpy" and name in used)])
    run = Run.of(libraries, missing, options.threads, options.quick)
    print(run.head(), flush=True)
    failures = 0
    for row in rows:
        sizes = row.quick if options.quick else row.sizes
        ours = compiled(row, sizes, options.backends)
        if options.plans:
            print("\n".join(f"{row.name}, {label}:\n{function.plan}" for label, function in ours.items()))
        for dtype in options.dtype:
            try:
                found = gather(row, sizes, dtype, libraries, missing, ours, options.limit)
            except DisagreementError as error:
                failures += 1
                print(f"{row.name} {dtype}: DISAGREEMENT, not timed: {error}", flush=True)
                continue
            result = timed(run, row, sizes, dtype, found, options)
            run.results.append(result)
            print(report.lines(run, result), flush=True)
    if not options.compare_only:
        print(report.summary(run))
    write(run, options)
    print(f"{len(run.results)} rows agree, {failures} disagree")
    return 1 if failures else 0


def timed(run: Run, row: Row, sizes: Sizes, dtype: str, found: Field, options: argparse.Namespace) -> Result:
    """The times of all contestants of a row, compared with the limits of the machine."""
    result = Result.of(row, sizes, dtype, found)
    if options.compare_only:
        return result
    calls = {contestant.label: contestant.call for contestant in found.contestants}
    result.times = in_turn(calls, options.budget)
    if options.doubled:
        result.doubled = times_when_doubled(row, sizes, dtype, options.backends, options.budget, options.limit)
    n, length = SIZES_OF_LIMITS[options.quick]
    run.limits[dtype].measure(dtype, n=n, length=length)
    result.stream = stream(dtype, min(result.work.elements // 3, length))
    return result


def write(run: Run, options: argparse.Namespace) -> None:
    """The files that were asked for."""
    page, plot = options.markdown, options.plot
    if options.docs:
        page, plot = page or DOCS / "benchmarks.md", plot or DOCS / "_static" / "benchmarks.svg"
    if options.json:
        options.json.write_text(json.dumps(run.as_json(), indent=1) + "\n", encoding="utf-8")
    if options.compare_only and (page or plot):
        print("no table and no plot: nothing was timed", file=sys.stderr)
        return
    if options.docs and not options.quick:
        rivals = {result.name: (result, result.rival) for result in run.results}
        times = {n: (r.median(o), r.median(v)) for n, (r, v) in rivals.items() if v and (o := r.fastest([OURS]))}
        record_today("rows", run.head().split("\n")[0], {n: (1e3 * a, 1e3 * b) for n, (a, b) in times.items()})
    if page:
        report.write_page(run, page, plot)
    if plot:
        from benchmarks.plot import draw

        draw(run, plot)
