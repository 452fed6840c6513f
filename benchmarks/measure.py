"""Times of contestants in turn, A B C A B C, so that what else the machine does meets all of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.libraries import Call

PAUSE = 0.004  # seconds in which no thread does anything, before each turn
PATIENCE = 1.0
TURN = 0.003  # seconds of one turn, at least: many calls where one is short
LONG = 0.1  # a call that takes longer needs no run before it that warms the caches
FEWEST, MOST = 5, 30  # rounds


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles."""

    low: float
    median: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Quartiles:
        if len(values) == 1:
            return Quartiles(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Quartiles(low, median, high)


def in_turn(calls: Mapping[str, Call], budget: float) -> dict[str, list[float]]:
    """Seconds of one call of each, in each round; about ``budget`` seconds in all."""
    expected = {label: _turn(call, 1, warm=False) for label, call in calls.items()}
    repeats = {label: max(1, math.ceil(TURN / max(seconds, 1e-7))) for label, seconds in expected.items()}
    one_round = sum(PAUSE + expected[label] * (repeats[label] + (expected[label] < LONG)) for label in calls)
    rounds = min(MOST, max(FEWEST, int(budget / one_round)))
    times: dict[str, list[float]] = {label: [] for label in calls}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for label, call in calls.items():
                times[label].append(_turn(call, repeats[label], warm=expected[label] < LONG))
            gc.collect()
    finally:
        if collecting:
            gc.enable()
    return times


def _turn(call: Call, repeats: int, *, warm: bool) -> float:
    """Seconds of one call: the mean over ``repeats``."""
    rest()
    if warm:
        call()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats


def rest() -> None:
    """Wait until no thread spins: pools do so for a while after a call, on the cores that the next contestant needs."""
    latest = time.perf_counter() + PATIENCE
    while time.perf_counter() < latest:
        begin = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - begin < PAUSE / 10:
            break


def ratios(times: Sequence[float], ours: Sequence[float]) -> Quartiles:
    """Return the quartiles of the ratios to our time, each taken within one round."""
    return Quartiles.of([theirs / own for theirs, own in zip(times, ours, strict=True)])
