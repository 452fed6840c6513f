"""Compare, time and report the functions of practice."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.command import DOCS, DTYPES
from benchmarks.contestants import compare
from benchmarks.history.page import record_today
from benchmarks.practice.case import Case, Formula
from benchmarks.practice.fields import CASES
from benchmarks.report import milliseconds, replace_between
from benchmarks.result import CAP

BEGIN, END = "<!-- practice: begin -->", "<!-- practice: end -->"
README = DOCS.parent / "README.md"
SHORTEST = 0.06  # CPU seconds of one measurement, at least
ROUNDS = 5
BUSY = 0.5
"""Load above which the page says that other programs ran."""


@dataclass(frozen=True)
class Times:
    """CPU seconds of a call, and of everything from the formula to the first result, of ours and of JAX."""

    name: str
    what: str
    dtype: str
    ours: float
    jax: float
    first_ours: float
    first_jax: float

    @property
    def ratio(self) -> float:
        """Return how many times as long as ours JAX takes."""
        return self.jax / self.ours

    @property
    def first_ratio(self) -> float:
        return self.first_jax / self.first_ours


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m benchmarks.practice", description=__doc__)
    result.add_argument("--rows", nargs="*", default=["*"], metavar="PATTERN", help="names or patterns, as *-sum")
    result.add_argument("--list", action="store_true", help="print the rows and stop")
    result.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=DTYPES)
    result.add_argument("--backend", default="llvm", choices=["llvm", "numba", "numpy"])
    result.add_argument("--quick", action="store_true", help="tiny sizes: a test of the suite, no benchmark")
    result.add_argument("--plans", action="store_true", help="print how ours computes each row")
    result.add_argument("--docs", action="store_true", help="write the table of docs/benchmarks.md and README's figure")
    return result


def chosen(patterns: Sequence[str]) -> list[Case]:
    """Return the cases that match one of `patterns`, in their order."""
    found = [case for name, case in CASES.items() if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if not found:
        raise SystemExit(f"no row matches {' '.join(patterns)}; the rows are {', '.join(CASES)}")
    return found


def jax_function(formula: Formula) -> Callable[..., Any]:
    """Return JAX's compiled value and gradients; arrays go in, and the results are finished when it returns."""
    import jax

    pair = jax.value_and_grad(lambda *arrays: formula.function(jax.numpy, *arrays), formula.places)
    compiled = jax.jit(pair)

    def call(*arrays: Any) -> tuple[Any, ...]:
        value, gradients = jax.block_until_ready(compiled(*arrays))
        return (value, *gradients)

    return call


def timed(case: Case, dtype: str, options: argparse.Namespace) -> Times:
    """Return the times of a case whose results agree with JAX's in double precision; raise where one does not."""
    import jax

    jax.config.update("jax_enable_x64", True)
    sizes = case.quick if options.quick else case.sizes
    begin = time.process_time()
    formula = case.build()
    written = time.process_time() - begin
    arrays = formula.arrays(sizes, dtype)
    placed = [jax.device_put(array) for array in arrays]

    begin = time.process_time()
    ours = td.lambdify(formula.arguments, formula.derive(), options.backend)
    found = ours(*arrays)
    first_ours = time.process_time() - begin + written
    begin = time.process_time()
    theirs = jax_function(formula)
    found_jax = theirs(*placed)
    first_jax = time.process_time() - begin

    exact = [np.asarray(a, dtype=np.float64) if np.asarray(a).dtype.kind == "f" else a for a in arrays]
    expected = [np.asarray(result) for result in jax_function(formula)(*exact)]
    for label, results in (("ours", found), ("jax", found_jax)):
        compare(f"{case.name}, {label}", [np.asarray(result) for result in results], dtype, expected)
    if options.plans:
        print(f"{case.name}:\n{ours.plan}")
    # The least of several: what else the machine does only adds. In turn, so that a phase of it meets both.
    pairs = [(rate(lambda: ours(*arrays)), rate(lambda: theirs(*placed))) for _ in range(ROUNDS)]
    return Times(case.name, case.what, dtype, *map(min, zip(*pairs, strict=True)), first_ours, first_jax)


def rate(function: Callable[[], Any]) -> float:
    """Return CPU seconds of a call: the mean over as many as take a while."""
    calls, begin = 0, time.process_time()
    while calls < 2 or time.process_time() - begin < SHORTEST:
        function()
        calls += 1
    return (time.process_time() - begin) / calls


def mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of `ratios`, each capped."""
    return math.exp(sum(math.log(min(ratio, CAP)) for ratio in ratios) / len(ratios))


def summary(found: Sequence[Times]) -> str:
    """Return the figures over all rows in a sentence."""
    ratios = [times.ratio for times in found]
    slow = sum(ratio < 0.8 for ratio in ratios)
    text = f"geometric mean of the ratios, each capped at {CAP:g}: {mean(ratios):.2f}; lowest {min(ratios):.2f}"
    return f"{text}; below 0.8: {slow} of {len(ratios)}; first calls: {mean([t.first_ratio for t in found]):.2f}"


def line(times: Times) -> str:
    """Return a row of the table."""
    first = f"{times.first_ours:.2f} | {times.first_jax:.2f}"
    durations = f"{milliseconds(times.ours)} | {milliseconds(times.jax)} | {times.ratio:.2f}"
    return f"| {times.name} | {times.dtype} | {durations} | {first} |"


HEAD = ("row", "type", "ours", "JAX", "ratio", "first call, ours (s)", "JAX (s)")
METHOD = """\
The table has times for the value and the gradients together of published functions. They are written as authors of the
field would write them; none was written for a mechanism of the planner. Our kernels and JAX run in turn on one core.
Times are CPU milliseconds of a call, the least of five measurements. A first call includes everything from the formula
to the first result, with an empty cache: derivatives, planning and compilation for our kernels, tracing and compilation
for JAX.
Below the table, brackets contain the sizes and how the function is written: entry by entry (`index`), with whole
tensors (`tensor`), with both (`mixed`), or with SymPy's own classes such as `IndexedBase` (`sympy`).
"""


def table(found: Sequence[Times]) -> str:
    head = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return "\n".join([*head, *(line(times) for times in found)])


def describe(cases: Sequence[Case]) -> str:
    """Return the list of the rows in words."""
    return "\n".join(
        f"- `{case.name}` ({', '.join(f'{name}={size}' for name, size in case.sizes.items())}; {case.notation}): "
        f"{case.what}"
        for case in cases
    )


def write(found: Sequence[Times], cases: Sequence[Case], head: str, page: Path, readme: Path) -> None:
    """Write the table into the page and the means into README, between the marks in each."""
    parts = [METHOD, f"{head}; {summary(found)}.", "", table(found), "", describe(cases)]
    replace_between(page, BEGIN, END, "\n\n" + "\n".join(parts) + "\n\n")
    ratios = [times.ratio for times in found]
    figure = f"{mean(ratios):.2f} times as fast; from {min(ratios):.1f} to {max(ratios):.0f}"
    replace_between(readme, BEGIN, END, figure)


def main(given: Sequence[str]) -> int:
    """Run the command; 1 where a row disagrees."""
    options = parser().parse_args(given)
    cases = chosen(options.rows)
    if options.list:
        print("\n".join(f"{case.name:<24} {case.notation:<7} {case.what}" for case in cases))
        return 0
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "jax"))
    head = f"{platform.machine()}, 1 thread, Python {platform.python_version()}; {versions}"
    head += f", while other programs ran (load {busy:.1f})" if busy > BUSY else ""
    print(head, flush=True)
    found, failures = [], 0
    for case in cases:
        for dtype in options.dtype:
            try:
                found.append(timed(case, dtype, options))
            except Exception as error:
                failures += 1
                print(f"{case.name} {dtype}: {type(error).__name__}: {error}", flush=True)
                continue
            print(line(found[-1]), flush=True)
    if found:
        print(summary(found))
    if options.docs and (failures or len(cases) < len(CASES)):
        print("nothing is written: some rows are missing")
    elif options.docs:
        write(found, cases, head, DOCS / "benchmarks.md", README)
        if not options.quick:
            record_today("practice", head, {f"{t.name} {t.dtype}": (1e3 * t.ours, 1e3 * t.jax) for t in found})
    return 1 if failures else 0
