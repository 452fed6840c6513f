"""The results of a run: times, limits, versions, and the ratios that follow."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

import sympy_tensordiff as td
from benchmarks.contestants import OURS, Field, compiled, gather
from benchmarks.libraries import DIFFERENTIATING, Library
from benchmarks.limits import Limits
from benchmarks.measure import Quartiles, in_turn, ratios
from benchmarks.row import Row, Sizes, Work

CAP = 8.0  # of the ratio of one row in the mean


@dataclass
class Result:
    """One row with one element type."""

    row: Row
    sizes: Sizes
    dtype: str
    work: Work
    libraries: dict[str, str]  # of each contestant
    gaps: dict[str, str]
    times: dict[str, list[float]] = field(default_factory=dict)  # seconds, in the same rounds
    stream: float = 0.0  # bytes per second, of arrays as large as those of the row
    doubled: tuple[float, float] | None = None  # time and flops at twice the size, as a multiple

    @staticmethod
    def of(row: Row, sizes: Sizes, dtype: str, found: Field) -> Result:
        libraries = {contestant.label: contestant.library for contestant in found.contestants}
        return Result(row, sizes, dtype, row.work(sizes), libraries, found.gaps)

    @property
    def name(self) -> str:
        return f"{self.row.name} {self.dtype}"

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    def median(self, label: str) -> float:
        return Quartiles.of(self.times[label]).median

    def fastest(self, libraries: Iterable[str]) -> str | None:
        """The label of the fastest contestant out of some libraries."""
        wanted = set(libraries)
        labels = [label for label in self.times if self.libraries[label] in wanted]
        return min(labels, key=self.median, default=None)

    def ratio(self, label: str) -> Quartiles | None:
        """Return the ratio of another contestant's time to ours."""
        ours = self.fastest([OURS])
        return None if ours is None else ratios(self.times[label], self.times[ours])

    @property
    def rival(self) -> str | None:
        """The fastest that differentiates on its own, in any form."""
        return self.fastest(DIFFERENTIATING)


@dataclass
class Run:
    """All results, on one machine with one number of threads."""

    versions: dict[str, str]
    missing: dict[str, str]
    threads: int
    quick: bool
    limits: dict[str, Limits]
    results: list[Result] = field(default_factory=list)

    @staticmethod
    def of(libraries: dict[str, Library], missing: dict[str, str], threads: int, quick: bool) -> Run:
        versions = {"sympy_tensordiff": td.__version__, "numba": numba.__version__}
        versions |= {name: library.version for name, library in libraries.items()}
        return Run(versions, missing, threads, quick, {"float64": Limits(), "float32": Limits()})

    def head(self) -> str:
        """Machine, versions and what is missing."""
        lines = [f"{platform.machine()}, {self.threads} threads, Python {platform.python_version()}"]
        lines.append(", ".join(f"{name} {version}" for name, version in self.versions.items()))
        lines += [f"gap: {name} {why}" for name, why in self.missing.items()]
        return "\n".join(lines)

    def limit(self, result: Result) -> float:
        """Seconds in which the machine may do the work of a row."""
        return self.limits[result.dtype].seconds(result.work, result.itemsize, result.stream)

    def share(self, result: Result, label: str) -> float:
        """Return that time as a fraction of the time taken."""
        return self.limit(result) / result.median(label)

    def mean_ratio(self) -> float | None:
        """The geometric mean over the rows of the fastest rival, the ratio of each row capped."""
        found = [result.ratio(result.rival) for result in self.results if result.rival is not None]
        capped = [min(ratio.median, CAP) for ratio in found if ratio is not None]
        return math.exp(sum(map(math.log, capped)) / len(capped)) if capped else None

    def as_json(self) -> dict[str, Any]:
        """Everything, with plain types."""
        return {
            "versions": self.versions,
            "missing": self.missing,
            "threads": self.threads,
            "quick": self.quick,
            "machine": platform.platform(),
            "limits": {d: {"flops": m.flops, "bandwidth": m.bandwidth} for d, m in self.limits.items()},
            "mean_ratio": self.mean_ratio(),
            "cap": CAP,
            "results": [
                {
                    "row": result.row.name,
                    "what": result.row.what,
                    "dtype": result.dtype,
                    "sizes": dict(result.sizes),
                    "work": vars(result.work),
                    "agree": list(result.libraries),
                    "gaps": result.gaps,
                    "times": result.times,
                    "ratios": {label: vars(r) for label in result.times if (r := result.ratio(label)) is not None},
                    "stream": result.stream,
                    "doubled": result.doubled,
                }
                for result in self.results
            ],
        }


def times_when_doubled(
    row: Row, sizes: Sizes, dtype: str, backends: list[str], budget: float, limit: float
) -> tuple[float, float] | None:
    """Return the growth of our time and of the work counted by hand when one size doubles."""
    twice = {**sizes, row.doubled: 2 * sizes[row.doubled]}
    fields = [gather(row, s, dtype, {}, {}, compiled(row, s, backends[:1]), limit) for s in (sizes, twice)]
    calls = {str(place): found.contestants[0].call for place, found in enumerate(fields) if found.contestants}
    if len(calls) < 2:
        return None
    times = in_turn(calls, budget)
    works = [row.work(s) for s in (sizes, twice)]
    growth = works[1].flops / works[0].flops
    return ratios(times["1"], times["0"]).median, growth
