"""The times of single kernels on a device, between two events of each launch."""

from __future__ import annotations

import importlib
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

RUNS = 5
"""The calls of which the median counts."""


class Launched(NamedTuple):
    """A launch of a kernel, and the events before and after it."""

    name: str
    start: Any
    end: Any


def kernel_times(module: ModuleType, call: Callable[[], Any]) -> list[tuple[str, float]]:
    """The names of the kernels that a call launches, one after another, and their seconds. ``module`` has the kernels;
    the call has run before.
    """
    runs = []
    for _ in range(RUNS):
        with _timed(module) as launched:
            call()
            importlib.import_module("numba.cuda").synchronize()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the simulator, whose events have no times
            runs.append([1e-3 * one.start.elapsed_time(one.end) for one in launched])
    names = [one.name for one in launched]
    return [(name, statistics.median(each)) for name, each in zip(names, zip(*runs, strict=True), strict=True)]


@contextmanager
def _timed(module: ModuleType) -> Iterator[list[Launched]]:
    """Replace the kernels of a module by ones that note their launches."""
    launched: list[Launched] = []
    kernels = {name: value for name, value in vars(module).items() if _is_kernel(value)}
    vars(module).update({name: _Timed(name, kernel, launched) for name, kernel in kernels.items()})
    try:
        yield launched
    finally:
        vars(module).update(kernels)


def _is_kernel(value: Any) -> bool:
    """Return whether a value is a kernel of Numba, or of its simulator."""
    options = getattr(value, "targetoptions", None)
    return not options.get("device") if isinstance(options, dict) else getattr(value, "_device", None) is False


class _Timed:
    """A kernel that notes its launches."""

    def __init__(self, name: str, kernel: Any, launched: list[Launched]) -> None:
        self.name, self.kernel, self.launched = name, kernel, launched

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        launch, stream = self.kernel[configuration], configuration[2]
        event = importlib.import_module("numba.cuda").event

        def launch_between_events(*arguments: Any) -> None:
            one = Launched(self.name, event(), event())
            one.start.record(stream)
            launch(*arguments)
            one.end.record(stream)
            self.launched.append(one)

        return launch_between_events
