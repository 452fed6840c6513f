"""Cases by all variables, first and second order, in kernels that run as plain Python.

For the process of the fixture `simulator`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from cases import names, options, small
from cases_peers import NARROW
from named_functions import named_functions

from sympy_tensordiff.testing import assert_kernel_exact

# Up to the third derivative, some functions that have names.
NAMED = ("softmax cross-entropy", "layernorm", "volterra", "mttkrp", "gaussian kernel matrix", "circulant")

# Each backend with and without temporaries, by turns.
KERNELS = ((("numba", True), ("cuda", False)), (("numba", False), ("cuda", True)))


SIMULATED = [name for name in names() if name not in NARROW]


def as_compiled(function: Callable[..., float]) -> Callable[..., float]:
    """A function of `math` that is NaN outside of its domain, as in compiled code, where Python raises."""

    def compiled(*args: float) -> float:
        try:
            return function(*args)
        except ValueError:
            return math.nan

    return compiled


def check(name: str) -> None:
    """A thread of CUDA is a thread of Python here, so the tensors are small."""
    case, kernels = small(name), KERNELS[SIMULATED.index(name) % 2]
    with pytest.MonkeyPatch.context() as patch:
        for function in ("sqrt", "log", "sin", "cos", "tan"):  # a choice that is not taken may ask for these
            patch.setattr(math, function, as_compiled(getattr(math, function)))
        assert_kernel_exact(case.function, case.variables, order=2, kernels=kernels, **options(case, seed=5))


def check_named(name: str, backend: str) -> None:
    named_functions()[name].check_kernel(backend)
