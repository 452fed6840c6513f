"""Times of 38 derivatives of native SymPy sums: `sympy.diff` and `doit` against `td.diff`.

Run with ``python benchmarks/baseline.py`` from a checkout; see README.md in this folder. Both
ways are run in turn, case by case in a new order each round, so that what else the machine does
meets both.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sympy
from sympy.core.cache import clear_cache

import sympy_tensordiff as td

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "derivative"))

from baseline import tasks

TASKS = {name: task for name, task in tasks().items() if not task.refused}
Times = dict[str, tuple[list[float], list[float]]]


def sympy_alone(name: str) -> Any:
    task = TASKS[name]
    return sympy.diff(task.function, *task.by).doit()


def ours(name: str) -> Any:
    task = TASKS[name]
    return td.diff(task.function, *task.by)


WAYS: tuple[Callable[[str], Any], ...] = (sympy_alone, ours)


def milliseconds(method: int, name: str) -> float:
    begin = time.process_time()  # of this process alone, whatever else runs
    WAYS[method](name)
    return (time.process_time() - begin) * 1e3


def measured(rounds: int, before: Callable[[], None], once: Callable[[int, str], float] = milliseconds) -> Times:
    """All cases in both ways, ``rounds`` times, each time in another order."""
    generator = random.Random(0)
    times: Times = {name: ([], []) for name in TASKS}
    for _ in range(rounds):
        for name in generator.sample(list(TASKS), len(TASKS)):
            for method in generator.sample((0, 1), 2):
                before()
                times[name][method].append(once(method, name))
    return times


def first_calls(rounds: int) -> Times:
    """Each call in a process of its own, forked after the import: what the first call of a session takes."""
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        return measured(rounds, lambda: None, lambda method, name: pool.apply(milliseconds, (method, name)))


def clear_caches() -> None:
    """SymPy's caches and those of this package."""
    clear_cache()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "sympy_tensordiff":
            for value in list(vars(module).values()):
                getattr(value, "cache_clear", lambda: None)()


def report(what: str, times: Times, worst: int) -> None:
    medians = {name: tuple(statistics.median(column) for column in pair) for name, pair in times.items()}
    alone, mine = (statistics.median(pair[method] for pair in medians.values()) for method in (0, 1))
    ratios = {name: pair[1] / pair[0] for name, pair in medians.items()}
    print(f"{what}: median SymPy {alone:.2f} ms, this package {mine:.2f} ms; ", end="")
    print(f"median of the ratios {statistics.median(ratios.values()):.2f}, total {_total(medians):.2f}")
    for name in sorted(ratios, key=ratios.__getitem__, reverse=True)[:worst]:
        print(
            f"    {name:>4} {medians[name][0]:9.2f} {medians[name][1]:9.2f}   {ratios[name]:.2f}  {TASKS[name].title}"
        )


def _total(medians: dict[str, tuple[float, ...]]) -> float:
    return sum(pair[1] for pair in medians.values()) / sum(pair[0] for pair in medians.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="runs of each case in each way (default 7)")
    parser.add_argument("--worst", type=int, default=5, help="how many of the slowest cases to list (default 5)")
    options = parser.parse_args()
    clear_caches()
    if "fork" in multiprocessing.get_all_start_methods():
        report("first call in a process", first_calls(options.rounds), options.worst)
    for name in TASKS:
        for method in (0, 1):
            milliseconds(method, name)
    report("caches cleared before each call", measured(options.rounds, clear_caches), options.worst)
    report("warm", measured(options.rounds, lambda: None), options.worst)


if __name__ == "__main__":
    main()
