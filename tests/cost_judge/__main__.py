"""``python -m tests.cost_judge 2000``: values and costs of so many random functions."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .generate import KINDS, random_function
from .judge import judge
from .shrink import shrunk


class _TooSlowError(BaseException):
    """Ends a case that takes too much CPU time; no handler on the way catches it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Limit the CPU time of what runs inside; 0 for ever."""

    def ring(*_: Any) -> None:
        raise _TooSlowError

    if not seconds:
        yield
        return
    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a function breaks the law, is wrong, crashes or takes too long."""
    options = parser().parse_args(given)
    counts: Counter[str] = Counter()
    worst: dict[str, tuple[float, str]] = {}
    start = time.process_time()
    for seed in range(options.seed, options.seed + options.number):
        function = random_function(seed)
        if options.kind and not function.name.startswith(options.kind):
            continue
        where = f"seed {seed} ({function.name.split()[0]}{', indices' if function.indexed else ''}, by {function.wrt})"
        try:
            with at_most(options.limit):
                verdict = judge(function, values=options.values, orders=options.orders)
        except _TooSlowError:
            counts["too slow"] += 1
            print(f"{where}: more than {options.limit:g} s of CPU time\n    {function.text()}", flush=True)
            continue
        except Exception as error:
            counts["crashed"] += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = " ".join(str(error).split())[:300]
            print(f"{where}: {type(error).__name__}: {message} ({Path(last.filename).name}:{last.lineno})", flush=True)
            continue
        counts["judged"] += 1
        counts["within the law"] += not verdict.breaches
        for breach in verdict.breaches:
            counts[breach.kind] += 1
            worst[breach.kind] = max(worst.get(breach.kind, (0.0, "")), (breach.ratio, where))
            print(f"{where}: {breach.text}", flush=True)
            if options.shrink:
                smaller, again = shrunk(function, breach)
                print(f"    smaller, by {smaller.wrt}: {again.text}\n    {smaller.text()}", flush=True)
        if verdict.seconds > options.slow:
            counts["slow to derive"] += 1
            print(f"{where}: {verdict.seconds:.1f} s of CPU time for the expressions", flush=True)
    for kind, (ratio, where) in sorted(worst.items()):
        print(f"worst {kind}: {ratio:.3g} times the limit, {where}")
    print(f"{dict(counts)}; {time.process_time() - start:.0f} s of CPU time")
    return int(counts["judged"] != counts["within the law"] or bool(counts["crashed"] + counts["too slow"]))


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    result = argparse.ArgumentParser(prog="python -m tests.cost_judge", description=__doc__)
    result.add_argument("number", type=int, help="how many functions")
    result.add_argument("--seed", type=int, default=0, help="of the first; the next has the next (default 0)")
    result.add_argument("--kind", choices=sorted(set(KINDS)), help="only functions of this kind")
    result.add_argument("--orders", default="fghH", help="results: function, gradient, hvp, Hessian (default fghH)")
    result.add_argument("--no-values", dest="values", action="store_false", help="costs only")
    result.add_argument("--shrink", action="store_true", help="look for smaller functions with the same breach")
    result.add_argument("--limit", type=float, default=120, help="CPU seconds until a function is given up")
    result.add_argument(
        "--slow", type=float, default=5, help="CPU seconds of symbolic work above which a case is listed"
    )
    return result


if __name__ == "__main__":
    sys.exit(main())
