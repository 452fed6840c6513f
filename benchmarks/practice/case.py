"""Define a function of practice: its formula in this package, the same for NumPy and JAX, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

import sympy_tensordiff as td
from benchmarks.row import Array, Sizes

Random = np.random.Generator
tensor, total, table = td.TensorSymbol, td.IndexedSum, td.TensorComprehension


@dataclass(frozen=True)
class Formula:
    """A number as a formula of `arguments`, and ``function(xp, *arrays)``, the same number in an array library.

    ``inputs(random, **sizes)`` returns a value for each argument: an array of floats or integers, or a float. The
    formula is differentiated with respect to the arguments in ``wrt``.
    """

    arguments: tuple[Any, ...]
    value: Any
    wrt: tuple[Any, ...]
    function: Callable[..., Any]
    inputs: Callable[..., tuple[Any, ...]]

    @property
    def places(self) -> tuple[int, ...]:
        """The places of `wrt` among the arguments."""
        names = [str(argument) for argument in self.arguments]
        return tuple(names.index(str(variable)) for variable in self.wrt)

    def derive(self) -> tuple[Any, ...]:
        """Return the value and its gradients."""
        return (self.value, *td.gradient(self.value, self.wrt))

    def arrays(self, sizes: Sizes, dtype: str) -> tuple[Any, ...]:
        """Return the inputs from a fixed seed, floats with element type `dtype`."""
        return tuple(_with_type(value, dtype) for value in self.inputs(np.random.default_rng(0), **sizes))


def _with_type(value: Any, dtype: str) -> Any:
    """Convert a number to a scalar of type `dtype`, and an array of floats to that type."""
    if isinstance(value, float):
        return np.dtype(dtype).type(value)
    return np.ascontiguousarray(value, dtype=dtype if value.dtype.kind == "f" else None)


@dataclass(frozen=True)
class Case:
    """One function of practice. ``build`` writes its formula, which takes a while, so it is called when needed."""

    name: str
    what: str
    notation: str
    sizes: Sizes
    quick: Sizes
    build: Callable[[], Formula]


def case(notation: str, sizes: Sizes, quick: Sizes) -> Callable[[Callable[[], Formula]], Case]:
    """Return the decorator that makes a case of a builder; name and description are the builder's."""

    def decorate(build: Callable[[], Formula]) -> Case:
        return Case(build.__name__.replace("_", "-"), str(build.__doc__).rstrip("."), notation, sizes, quick, build)

    return decorate


def cases_of(module: ModuleType) -> list[Case]:
    """Return the cases of a module in the order of definition."""
    return [value for value in vars(module).values() if isinstance(value, Case)]


def special(xp: Any) -> Any:
    """Return the special functions of an array library."""
    if xp is np:
        import scipy.special

        return scipy.special
    if xp.__name__ == "torch":
        return xp.special
    import jax

    return jax.scipy.special


def logsumexp(xp: Any, x: Any, axis: Any = None) -> Any:
    return special(xp).logsumexp(x, axis=axis)


def softplus(xp: Any, x: Any) -> Any:
    return xp.logaddexp(x, xp.zeros_like(x))


def norms(xp: Any, x: Any) -> Any:
    """Return the norms along the last axis."""
    return xp.sqrt((x * x).sum(-1))


def distances(xp: Any, x: Any) -> Any:
    """Return the distances of all pairs of points, with 1 on the diagonal, which no function here reads."""
    return xp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + xp.eye(len(x), dtype=x.dtype))


def cluster(random: Random, n: int, gap: float = 1.1, noise: float = 0.1) -> Array:
    """Return `n` points of a cubic lattice with spacing `gap`, each moved by at most `noise`."""
    side = int(np.ceil(n ** (1 / 3)))
    points = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    return gap * points + noise * random.uniform(-1, 1, (n, 3))


def normal(random: Random, *shape: int, scale: float = 1.0) -> Array:
    return scale * random.standard_normal(shape)


def covariance(random: Random, n: int) -> Array:
    """Return a well-conditioned positive definite matrix."""
    root = random.standard_normal((n, 2 * n))
    return root @ root.T / (2 * n) + 0.1 * np.eye(n)


def edges(random: Random, n: int, m: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the ends of `m` edges between `n` nodes; no edge is a loop, and all nodes but a few end one."""
    source = random.integers(n, size=m)
    return source, (source + random.integers(1, n, size=m)) % n
