"""The table of functions that the whole project is tested against.

A case is built when it is asked for (`build`), since building runs the code under test. Names
that start with T, D, P, V, X, H are those of the peers' tests (TensorAlgDiff, DeepNet, the
paper, TVM, this study, Halide); the others are ours. Indices count from 0. The functions are
in `cases_peers` and `cases_own`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

Array = list[Any]


@dataclass(frozen=True)
class Case:
    """A function, what to differentiate it by, and what is known about it.

    Attributes
    ----------
    function : tensor expression or scalar
    variables : tuple
        Tensor symbols and scalar symbols.
    sizes : mapping
        Values of the integer symbols: sizes and free indices.
    low, high : float
        The range of the random inputs.
    values : mapping
        Inputs that are not random (ties, given examples).
    second : bool
        Whether second derivatives are checked, too.
    value : nested lists, optional
        The value at ``values``, from the source of the case.
    gradient : mapping
        Derivatives of a scalar at ``values`` by variable, from the source of the case.
    """

    function: Any
    variables: tuple[Any, ...]
    sizes: Mapping[Any, int] = field(default_factory=dict)
    low: float = -2
    high: float = 2
    values: Mapping[Any, Any] = field(default_factory=dict)
    second: bool = False
    value: Any = None
    gradient: Mapping[Any, Any] = field(default_factory=dict)


_BUILDERS: dict[str, Callable[[], Case]] = {}


def case(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Enter a builder into the table."""

    def enter(builder: Callable[[], Case]) -> Callable[[], Case]:
        assert name not in _BUILDERS, name
        _BUILDERS[name] = builder
        return builder

    return enter


def names(prefix: str = "") -> list[str]:
    """The names of all cases."""
    for module in ("cases_peers", "cases_own"):
        import_module(module)
    return [name for name in _BUILDERS if name.startswith(prefix)]


@cache
def build(name: str) -> Case:
    """The case of that name."""
    names()
    return _BUILDERS[name]()
