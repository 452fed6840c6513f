"""``python -m tests.judges isl 10000``: ask a judge about so many generated cases."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from .report import Verdicts, run

JUDGES = {"isl": "questions", "snf": "smith_forms", "jax": "programs", "index": "indexed", "mpmath": "accuracy"}
"""The module of each judge; its ``judge`` takes a seed."""

TOTALS = Path(__file__).with_name("totals.txt")
"""A line for each kept run: judge, first and last seed, wrong answers and crashes, cases beyond the time limit."""


def kept_runs() -> list[tuple[str, int, int, int, int]]:
    """Return the lines of `TOTALS`."""
    lines = (line.split() for line in TOTALS.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#"))
    return [(name, *map(int, numbers)) for name, *numbers in lines]  # type: ignore[misc]


def totals() -> dict[str, tuple[int, int, int, int]]:
    """Return for each judge the number of kept cases, of those with a wrong answer or a crash, of those beyond the time
    limit, and the first seed that no run has had.
    """
    found = {}
    for name in JUDGES:
        runs = [run for run in kept_runs() if run[0] == name]
        cases = sum(last - first + 1 for _, first, last, _, _ in runs)
        new = max((last + 1 for _, _, last, _, _ in runs), default=0)
        found[name] = cases, sum(run[3] for run in runs), sum(run[4] for run in runs), new
    return found


def judge_named(name: str) -> Callable[[int], Verdicts]:
    """Return the function of a judge that takes a seed; raise ImportError if its library is not installed."""
    found: Callable[[int], Verdicts] = import_module(f"{__package__}.{JUDGES[name]}").judge
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 where an answer was wrong or a case crashed, 2 for a library that is missing."""
    options = parser().parse_args(arguments)
    if options.recorded and (options.judge != "isl" or options.keep):
        parser().error("--recorded is for isl, and has no seeds to --keep")
    if options.recorded is None and options.number is None:
        parser().error("how many cases?")
    try:
        judge = judge_named(options.judge)
        if options.recorded:
            recording = import_module(f"{__package__}.recording")
            questions = recording.read(options.recorded)
            judge = partial(recording.verdicts, questions)
            options.number = min(options.number or len(questions), max(len(questions) - options.seed, 0))
    except ImportError as error:
        print(f"{options.judge}: {error}", file=sys.stderr)
        return 2
    if options.keep:
        options.seed = max(options.seed, totals()[options.judge][-1])
    start = time.process_time()
    seeds = range(options.seed, options.seed + options.number)
    report = run(judge, seeds, seconds=options.seconds, limit=options.limit, write=lambda line: print(line, flush=True))
    judged = report.counts["cases"]
    last = options.seed + judged - 1
    print(f"{options.judge}: seeds {options.seed} to {last}, {time.process_time() - start:.0f} s of CPU time")
    print("\n".join(report.lines()))
    if options.keep and judged:
        late = report.counts["cases beyond the time limit"]
        with TOTALS.open("a", encoding="utf-8") as stream:
            stream.write(f"{options.judge} {options.seed} {last} {len(report.wrong)} {late}\n")
        cases, bad, _, _ = totals()[options.judge]
        print(f"kept: {cases} cases in all, {bad} wrong or crashed")
    return int(bool(report.wrong))


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    result = argparse.ArgumentParser(prog="python -m tests.judges", description=sys.modules[__package__].__doc__)
    result.add_argument("judge", choices=sorted(JUDGES))
    result.add_argument("number", type=int, nargs="?", help="how many cases; all of those in a file")
    help_recorded = "judge the questions of a run of tests, written by: python -m pytest --record-questions FILE"
    result.add_argument("--recorded", type=Path, metavar="FILE", help=help_recorded)
    result.add_argument("--seed", type=int, default=0, help="of the first case; the next has the next (default 0)")
    result.add_argument("--keep", action="store_true", help="take seeds that no kept run had, and keep this one")
    result.add_argument("--seconds", type=float, default=0, help="start no case after so much CPU time")
    result.add_argument("--limit", type=float, default=60, help="CPU seconds until a case is given up (default 60)")
    return result


if __name__ == "__main__":
    sys.exit(main())
