"""Counts of verdicts over a run of seeds, and the cases that were wrong."""

from __future__ import annotations

import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

Verdicts = Counter[str]


class WrongAnswerError(AssertionError):
    """A result of this package contradicts the judge."""


class _TimeoutError(BaseException):
    """Ends a case that takes too much CPU time; no handler of errors catches it."""


@dataclass
class Report:
    """The verdicts of a run.

    Attributes
    ----------
    counts : Counter of str
        How often each verdict was given.
    wrong : list of str
        A line for each case with a wrong answer or a crash, with its seed.
    """

    counts: Verdicts = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the counts, one verdict in a line."""
        return [f"{count:9d} {verdict}" for verdict, count in sorted(self.counts.items())]


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `_TimeoutError` after ``seconds`` of CPU time inside; 0 sets no limit."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _TimeoutError

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


def run(
    judge: Callable[[int], Verdicts],
    seeds: range,
    *,
    seconds: float = 0,
    limit: float = 60,
    write: Callable[[str], None] = print,
) -> Report:
    """Judge the case of each seed and return the verdicts.

    Parameters
    ----------
    judge : callable
        Takes a seed and returns counted verdicts; raises `WrongAnswerError` for a wrong answer.
    seeds : range
    seconds : float
        Start no case after so much CPU time; 0 sets no limit.
    limit : float
        The CPU time of one case; 0 sets no limit.
    write : callable
        Receives a line for each wrong answer and each crash as they are met.
    """
    report = Report()
    start = time.process_time()
    for seed in seeds:
        if seconds and time.process_time() - start > seconds:
            break
        report.counts["cases"] += 1
        try:
            with cpu_limit(limit):
                report.counts += judge(seed)
        except _TimeoutError:
            report.counts["cases beyond the time limit"] += 1
        except Exception as error:
            is_wrong = isinstance(error, WrongAnswerError)
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = " ".join(str(error).split())[:600]
            kind = (
                "wrong" if is_wrong else f"crash, {type(error).__name__} ({Path(place.filename).name}:{place.lineno})"
            )
            report.counts["WRONG" if is_wrong else "CRASHED"] += 1
            report.wrong.append(f"seed {seed}: {kind}: {message}")
            write(report.wrong[-1])
    return report
