"""Random cases checked one after the other, in one process or two: what was right, wrong and refused."""

from __future__ import annotations

import multiprocessing
import re
import signal
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from sympy_tensordiff.errors import (
    CertificateError,
    DerivativeMismatch,
    IndexExpressionError,
    OutOfShapeError,
    UnsupportedError,
    VerificationError,
)

from . import convexity, extrema, formulas, function_checks, recurrences, second_orders, special_checks, system_checks
from .costs import CostExceededError

KINDS = (
    *("systems", "functions", "tensors", "maps", "named", "large", "strides", "formulas", "convexity"),
    *("pairs", "selections", "extrema", "masked", "recurrences"),
)
_IN_A_BATCH = {**dict.fromkeys(KINDS, 1), "systems": 20}
_WRONG = (CertificateError, CostExceededError, DerivativeMismatch, VerificationError, OutOfShapeError)
_FORMULA = re.compile(r"\S*[^\w\s,;:.'-]\S*|\S*\d\S*|\b[A-Za-z]\b|\b_\w+")
_EVERY = 10.0
_LONGEST = 300  # characters of a message


class Outcome(NamedTuple):
    """The outcome of one case.

    ``verdict`` is "right", "wrong" (a result differs, or breaks the law of cost), "crash" (an error that is not a
    refusal), "refused" or "too slow"; ``detail`` says why, ``ratio`` is that of the loops.
    """

    kind: str
    seed: int
    verdict: str
    detail: str = ""
    ratio: float = 0.0


class _TooSlowError(BaseException):
    """Ends a case that takes too long; no handler of errors on the way catches it."""


def check(kind: str, seed: int, limit: float = 0) -> Outcome:
    """Check one case, for at most ``limit`` seconds of CPU time where the system can count them (0: for ever)."""
    clock = _Clock(limit)
    try:
        with clock:
            outcome = _check(kind, seed)
    except _TooSlowError:
        clock.stop()
    # Where code in C calls back, what the clock raises is lost, and the code goes on with half a result.
    return Outcome(kind, seed, "too slow", f"more than {limit:g} seconds") if clock.has_rung else outcome


def _check(kind: str, seed: int) -> Outcome:
    checks: dict[str, Callable[[int], float | None]] = {
        "systems": system_checks.check_system,
        "functions": function_checks.check_function,
        "tensors": lambda n: function_checks.check_function(n, "tensors"),
        "maps": lambda n: function_checks.check_function(n, "maps"),
        "named": special_checks.check_named_functions,
        "large": special_checks.check_large_values,
        "strides": special_checks.check_strides,
        "formulas": formulas.check_formula,
        "convexity": convexity.check_convexity,
        "pairs": lambda n: second_orders.check_second_order("pairs", n),
        "selections": lambda n: second_orders.check_second_order("selections", n),
        "extrema": extrema.check_extrema,
        "masked": lambda n: extrema.check_extrema(n, masks=True),
        "recurrences": recurrences.check_recurrence,
    }
    try:
        return Outcome(kind, seed, "right", "", checks[kind](seed) or 0.0)
    except (UnsupportedError, IndexExpressionError) as error:
        return Outcome(kind, seed, "refused", f"{type(error).__name__}: {reason(str(error))}")
    except _WRONG as error:
        return Outcome(kind, seed, "wrong", _message(error))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(kind, seed, "crash", f"{_message(error)} ({Path(last.filename).name}:{last.lineno})")


def _message(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def reason(message: str) -> str:
    """A message without its formulas and names, so that equal reasons are counted together.

    >>> reason("tensor x has the extent M*N + 1: products of sizes are not supported yet")
    'tensor … has the extent … products of sizes are not supported yet'
    """
    text = _FORMULA.sub("…", " ".join(message.split()))
    return re.sub(r"…(?:[\s+:-]*…)*", "…", text)[:_LONGEST]


class _Clock:
    """Raises `_TooSlowError` after so many seconds of CPU time: other processes do not make a case slow."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.is_running = self.has_rung = False

    def __enter__(self) -> _Clock:
        if self.limit and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGPROF, self.ring)
            self.is_running = True
            # Again and again: what is raised while an object is destroyed is lost.
            signal.setitimer(signal.ITIMER_PROF, self.limit, self.limit)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal, which may still come when the case has ended."""
        if self.is_running:
            self.has_rung = True
            raise _TooSlowError

    def stop(self) -> None:
        """Stop. The signal stays handled: one that is on its way would end the process."""
        if self.is_running:
            self.is_running = False
            signal.setitimer(signal.ITIMER_PROF, 0)


Case = tuple[str, int]


def batches(counts: Mapping[str, int | None], seed: int) -> Iterator[list[Case]]:
    """All cases, kinds in turn; ``counts`` says how many of each, None for ever. The n-th has the seed ``seed + n``.

    >>> list(batches({"functions": 2, "tensors": 1}, 5))
    [[('functions', 5), ('tensors', 5)], [('functions', 6)]]
    """
    given = dict.fromkeys(counts, 0)
    while True:
        batch: list[Case] = []
        for kind, most in counts.items():
            number = _IN_A_BATCH[kind] if most is None else min(_IN_A_BATCH[kind], most - given[kind])
            batch += [(kind, seed + given[kind] + n) for n in range(number)]
            given[kind] += number
        if not batch:
            return
        yield batch


def check_batch(batch: list[Case], limit: float) -> list[Outcome]:
    """Check some cases."""
    return [check(kind, seed, limit) for kind, seed in batch]


def outcomes(work: Iterator[list[Case]], limit: float, jobs: int) -> Iterator[Outcome]:
    """The outcomes in order, from so many processes."""
    if jobs == 1:
        for batch in work:
            yield from check_batch(batch, limit)
        return
    # A process that is started anew inherits no threads in an unknown state.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting: deque[Future[list[Outcome]]] = deque()
        for batch in work:
            waiting.append(pool.submit(check_batch, batch, limit))
            if len(waiting) > 2 * jobs:
                yield from waiting.popleft().result()
        for future in waiting:
            yield from future.result()


@dataclass
class Tally:
    """Counts of outcomes; ``failures`` are those that are wrong, crashed or too slow."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    worst: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        self.counts[outcome.kind, outcome.verdict] += 1
        if outcome.verdict == "refused":
            self.reasons[outcome.detail] += 1
        elif outcome.verdict != "right":
            self.failures.append(outcome)
        if outcome.ratio and (self.worst is None or outcome.ratio > self.worst.ratio):
            self.worst = outcome

    @property
    def exit_code(self) -> int:
        """1 where a result was wrong or a check crashed."""
        return int(any(outcome.verdict in ("wrong", "crash") for outcome in self.failures))

    def line(self) -> str:
        """All counts in a line."""
        kinds = [kind for kind in KINDS if any(k == kind for k, _ in self.counts)]
        parts = []
        for kind in kinds:
            own = [f"{n} {verdict}" for (k, verdict), n in sorted(self.counts.items()) if k == kind]
            parts.append(f"{kind}: {', '.join(own)}")
        return "; ".join(parts) or "nothing was checked"


def command(outcome: Outcome) -> str:
    """Return the command that repeats an outcome."""
    return f"python -m tests.fuzz --seed {outcome.seed} --{outcome.kind} 1"


def fuzz(
    counts: Mapping[str, int | None],
    seed: int = 0,
    *,
    seconds: float | None = None,
    limit: float = 60,
    jobs: int = 1,
    write: Callable[[str], object] = print,
) -> Tally:
    """Check random cases until all are checked, the time is over or the user interrupts.

    Parameters
    ----------
    counts : mapping
        How many cases of each kind of `KINDS`; None for ever.
    seed : int
        Of the first case of each kind; the next has the next.
    seconds : float, optional
        For how long cases are started.
    limit : float
        Seconds of CPU time after which a case is given up as too slow; 0 for ever.
    jobs : int
        Processes.
    write : callable
        Takes the lines of the report.

    Examples
    --------
    >>> fuzz({"systems": 40}, seed=7).exit_code
    systems: 40 right
    the most loop values for a point: 1, python -m tests.fuzz --seed 14 --systems 1
    0
    """
    tally = Tally()
    began = written = time.monotonic()

    def in_time() -> Iterator[list[Case]]:
        for batch in batches(counts, seed):
            if seconds is not None and time.monotonic() - began >= seconds:
                return
            yield batch

    try:
        for outcome in outcomes(in_time(), limit, jobs):
            tally.add(outcome)
            if outcome.verdict not in ("right", "refused"):
                write(f"{outcome.kind} {outcome.seed}: {outcome.verdict}, {outcome.detail}\n    {command(outcome)}")
            if time.monotonic() - written >= _EVERY:
                written = time.monotonic()
                write(f"{written - began:.0f} s  {tally.line()}")
    except KeyboardInterrupt:
        write("interrupted")
    write(tally.line())
    for text, number in tally.reasons.most_common():
        write(f"refused {number} times: {text}")
    if tally.worst is not None:
        write(f"the most loop values for a point: {tally.worst.ratio:.3g}, {command(tally.worst)}")
    return tally
