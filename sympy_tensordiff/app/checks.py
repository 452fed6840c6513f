"""Central differences of ``sum(df * f)``, one entry or one direction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

# The step balances truncation (step**2) against rounding (1e-16 / step) in double precision.
STEP = 1e-5
# What a central difference with this step can promise for f of order 1; a wrong derivative is
# off by far more.
TOLERANCE = 1e-7


class Comparison(NamedTuple):
    """A derivative from the formula beside its central difference."""

    what: str
    formula: float
    difference: float

    @property
    def relative_error(self) -> float:
        """``|formula - difference| / max(|formula|, |difference|)``, 0 where both are exactly 0."""
        scale = max(abs(self.formula), abs(self.difference))
        return abs(self.formula - self.difference) / scale if scale else 0.0

    @property
    def good(self) -> bool:
        """Whether the error is within the tolerance (NaN is not)."""
        return self.relative_error <= TOLERANCE


def central_difference(
    function: Callable[..., Array],
    arguments: Sequence[Array],
    position: int,
    direction: Array,
    cotangent: Array,
) -> float:
    """The derivative of ``sum(cotangent * function(*arguments))`` along ``direction`` of one argument."""
    ahead, behind = list(arguments), list(arguments)
    ahead[position] = arguments[position] + STEP * direction
    behind[position] = arguments[position] - STEP * direction
    # The difference is taken before the sum: entries that do not move cancel without a rounding error.
    return float(np.sum(cotangent * (function(*ahead) - function(*behind))) / (2 * STEP))


def directions(
    name: str, shape: tuple[int, ...], entries: Sequence[tuple[int, ...]], rng: np.random.Generator
) -> Iterator[tuple[str, Array]]:
    """One random direction, then the unit directions of ``entries``, each with a name."""
    yield f"d{name} along a random direction", rng.standard_normal(shape)
    for entry in entries:
        unit = np.zeros(shape)
        unit[entry] = 1.0
        yield f"d{name}[{', '.join(map(str, entry))}]", unit


def random_entries(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """``count`` random entries of an array of ``shape``."""
    return [tuple(int(rng.integers(n)) for n in shape) for _ in range(count)]
