"""``python -m tests.judges isl 10000``: ask a judge about so many generated cases."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module

from .report import Verdicts, run

JUDGES = {"isl": "questions", "snf": "smith_forms", "jax": "programs", "mpmath": "accuracy"}
"""The module of each judge; its ``judge`` takes a seed."""


def judge_named(name: str) -> Callable[[int], Verdicts]:
    """Return the function of a judge that takes a seed; raise ImportError if its library is not installed."""
    found: Callable[[int], Verdicts] = import_module(f"{__package__}.{JUDGES[name]}").judge
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 where an answer was wrong or a case crashed, 2 for a library that is missing."""
    options = parser().parse_args(arguments)
    try:
        judge = judge_named(options.judge)
    except ImportError as error:
        print(f"{options.judge}: {error}", file=sys.stderr)
        return 2
    start = time.process_time()
    seeds = range(options.seed, options.seed + options.number)
    report = run(judge, seeds, seconds=options.seconds, limit=options.limit, write=lambda line: print(line, flush=True))
    judged = report.counts["cases"]
    last = options.seed + judged - 1
    print(f"{options.judge}: seeds {options.seed} to {last}, {time.process_time() - start:.0f} s of CPU time")
    print("\n".join(report.lines()))
    return int(bool(report.wrong))


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    result = argparse.ArgumentParser(prog="python -m tests.judges", description=sys.modules[__package__].__doc__)
    result.add_argument("judge", choices=sorted(JUDGES))
    result.add_argument("number", type=int, help="how many cases")
    result.add_argument("--seed", type=int, default=0, help="of the first case; the next has the next (default 0)")
    result.add_argument("--seconds", type=float, default=0, help="start no case after so much CPU time")
    result.add_argument("--limit", type=float, default=60, help="CPU seconds until a case is given up (default 60)")
    return result


if __name__ == "__main__":
    sys.exit(main())
