"""The table of functions that the whole project is tested against.

A case is built when it is asked for (`build`), since building runs the code under test. Names
that start with a capital letter and a number are those of the peers' tests: T TensorAlgDiff,
D DeepNet, P the paper, V TVM, X this study, H Halide, L Tullio, K KeOps. The others are ours.
Indices count from 0. The functions are in the modules below.
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
    value: Any = None
    gradient: Mapping[Any, Any] = field(default_factory=dict)


MODULES = (
    "cases_peers",
    "cases_tullio",
    "cases_functions",
    "cases_own",
    "cases_choices",
    "cases_reductions",
    "cases_extrema",
    "cases_clamps",
    "cases_maps",
)

_BUILDERS: dict[str, Callable[[], Case]] = {}
_SMALLER: dict[str, Callable[[], Case]] = {}


def case(name: str, smaller: Callable[[], Case] | None = None) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Enter a builder into the table, and one of the same function over smaller tensors."""

    def enter(builder: Callable[[], Case]) -> Callable[[], Case]:
        assert name not in _BUILDERS, name
        _BUILDERS[name] = builder
        if smaller is not None:
            _SMALLER[name] = smaller
        return builder

    return enter


def names(prefix: str = "") -> list[str]:
    """The names of all cases, in the order of the modules: whatever was imported first, each process has this order."""
    for module in MODULES:
        import_module(module)
    found = [name for name in _BUILDERS if name.startswith(prefix)]
    return sorted(found, key=lambda name: MODULES.index(module_of(_BUILDERS[name])))


def module_of(builder: Callable[[], Case]) -> str:
    """The name of the module that has a builder, which may be a partial of a function."""
    return str(getattr(builder, "func", builder).__module__)


@cache
def build(name: str) -> Case:
    """The case of that name."""
    names()
    return _BUILDERS[name]()


def small(name: str) -> Case:
    """The case of that name; of a convolution of the grid one of a smaller image."""
    build(name)
    return _SMALLER[name]() if name in _SMALLER else build(name)


def options(case: Case, **more: Any) -> dict[str, Any]:
    """Return the options that the checks of `sympy_tensordiff.testing` need for a case."""
    return {"sizes": case.sizes, "values": case.values, "low": case.low, "high": case.high, **more}
