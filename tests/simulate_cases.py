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
KERNELS = (("numba", True), ("numba", False), ("cuda", False), ("cuda", True))
# These take two turns at once, one of each backend: with them, the texts for Numba and those for CUDA hold every
# construct inside of another one (which operator, call, condition, loop or read stands in which) that they hold
# where all cases take two.
BOTH = [
    *("D5", "D6", "H2", "H9_hyperbolic", "H9_inverse_hyperbolic", "H9_inverse_trigonometric", "H9_kinks"),
    *("H9_powers", "H9_trigonometric", "H9_two_numbers", "L21", "L25_smooth", "L8", "L9", "T10", "T5", "T7", "V10"),
    *("V11", "V13", "V19", "V34", "V6", "V7", "V9", "attention", "chain", "chain_of_three", "choice_domain_of_a_sum"),
    *("choice_domain_of_a_tensor", "choice_domain_of_exp", "choice_domain_of_exponent", "choice_domain_of_neither"),
    *("choice_domain_of_nothing", "choice_domain_of_two", "choice_heaviside", "choice_in_a_function"),
    *("choice_max_of_choices", "choice_max_of_four", "choice_not", "choice_sign", "choice_tuned", "clamp_difference"),
    *("clamp_mirror", "clamp_nested", "clamp_of_quotients", "clamp_several", "clamp_two_in_one_index"),
    *("clamp_upper_bounds", "delta_free", "error_function", "extent_one", "hyperbolic", "index_value_inside"),
    *("inverse", "map_interpolation", "max_of_index", "max_of_min", "maximum_squared", "min_with_number", "net"),
    *("range_greatest_inside", "range_greatest_of_multiples_of_indices", "range_greatest_of_rows_of_all"),
    *("range_greatest_of_strides", "range_product_at_an_index", "range_product_choice", "range_product_of_roots"),
    *("range_product_of_three", "range_product_up_to", "range_soft", "symbolic_product", "trigonometric"),
    *("two_arguments",),
]


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
    case, turn = small(name), SIMULATED.index(name)
    kernels = [KERNELS[turn % 4], *([KERNELS[(turn + 2) % 4]] if name in BOTH else [])]
    with pytest.MonkeyPatch.context() as patch:
        for function in ("sqrt", "log", "sin", "cos", "tan"):  # a choice that is not taken may ask for these
            patch.setattr(math, function, as_compiled(getattr(math, function)))
        assert_kernel_exact(case.function, case.variables, order=2, kernels=kernels, **options(case, seed=5))


def check_named(name: str, backend: str) -> None:
    named_functions()[name].check_kernel(backend)
