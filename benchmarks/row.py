"""A row of the suite: one function, its derivative in this package, and the same elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Sizes = Mapping[str, int]
Array = npt.NDArray[Any]
Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class ByHand:
    """A derivative that a person wrote: ``function(xp, *arrays)`` is the result, or a tuple of results."""

    function: Callable[..., Any]


@dataclass(frozen=True)
class Vjp:
    """``function(xp, *arrays)``, of all arrays but the last, is differentiated by the arrays ``wrt``.

    The last array is the cotangent.

    ``backward_only``: what the function itself computes is not part of the time. It is for functions
    that are linear in each variable, where no derivative with respect to one needs the value.
    """

    function: Callable[..., Any]
    wrt: tuple[int, ...]
    backward_only: bool = False


@dataclass(frozen=True)
class Gradient:
    """A number, ``function(xp, *arrays)``, is differentiated by the arrays ``wrt``."""

    function: Callable[..., Any]
    wrt: tuple[int, ...]


@dataclass(frozen=True)
class Hessian:
    """All blocks of second derivatives of a number by the arrays ``wrt``; ``select(xp, blocks)`` takes some of it."""

    function: Callable[..., Any]
    wrt: tuple[int, ...]
    select: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class HessianProduct:
    """The product of the Hessian of a number by the array ``wrt`` with a tangent of its shape, the last array."""

    function: Callable[..., Any]
    wrt: int


@dataclass(frozen=True)
class Third:
    """The third derivative of a number by the array ``wrt``."""

    function: Callable[..., Any]
    wrt: int


Formulation = ByHand | Vjp | Gradient | Hessian | HessianProduct | Third


@dataclass(frozen=True)
class Peer:
    """One way in which one of the other libraries computes the row."""

    library: str  # a key of `benchmarks.libraries.LIBRARIES`
    form: str
    formulation: Formulation

    @property
    def label(self) -> str:
        return f"{self.library}, {self.form}"


def automatic(form: str, formulation: Formulation) -> tuple[Peer, ...]:
    """The same function in the two libraries that differentiate."""
    return (Peer("jax", form, formulation), Peer("torch", form, formulation))


def by_hand(function: Callable[..., Any]) -> Peer:
    return Peer("numpy", "by hand", ByHand(function))


@dataclass(frozen=True)
class Work:
    """The work of the best algorithm known for a row, counted by hand."""

    flops: int  # additions and multiplications, at least those inside of the innermost sums
    elements: int  # entries that have to be read or written at least once: arguments and results
    functions: int = 0  # evaluations of exp, log, tanh, square roots


@dataclass(frozen=True)
class Row:
    """One line of the table, for any element type."""

    name: str
    what: str
    sizes: Sizes
    quick: Sizes  # tiny, for tests of the suite itself
    doubled: str  # the size that is doubled to see how the time grows
    ours: Callable[[Sizes], tuple[Any, Any]]  # arguments and expression of `td.lambdify`
    inputs: Callable[[np.random.Generator, Sizes], Arrays]  # float64, and int64 for arrays of integers
    peers: tuple[Peer, ...]  # exactly one of them is NumPy by hand: all others have to agree with it
    work: Callable[[Sizes], Work]
    expand: bool = False  # whether ours runs with sums of sums multiplied out, too, as a peer does by hand
