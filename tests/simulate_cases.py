"""Cases by all variables, first and second order, in kernels that run as plain Python.

For the process of the fixture `simulator`.
"""

from __future__ import annotations

import math

import pytest
from cases import names, options, small
from cases_peers import NARROW
from exact_checks import assert_kernel_exact
from named_functions import named_functions
from uncompiled import as_compiled

# Up to the third derivative, some functions that have names.
NAMED = ("softmax cross-entropy", "layernorm", "volterra", "mttkrp", "gaussian kernel matrix", "circulant")

# Each backend with and without temporaries, by turns.
KERNELS = (("numba", True), ("numba", False), ("cuda", False), ("cuda", True))
# The turns that cases take, chosen greedily, at the least time: nearly every construct of the texts of all cases inside
# of every other one (which operator, function, condition, loop or read is in which).
CHOSEN = {
    0: """
        V13 V20 V55 map_interpolation map_two_axes map_upsampling net range_greatest_of_equal_entries
        range_greatest_of_rows_of_all range_product_of_differences range_product_window symbolic_product
    """,
    1: """
        D5 H9_hyperbolic H9_inverse_trigonometric H9_powers L5 P7 V10 V34 V6 V9 X6 chain choice_domain_of_exp
        choice_domain_of_neither choice_heaviside choice_implied choice_in_a_function choice_max_of_four choice_sign
        clamp_mirror clamp_of_quotients clamp_with_stride hole_2i-3j index_value_inside map_interleaved
        map_periodic_laplacian map_shared_index max_of_min min_with_number piecewise_or piecewise_parity
        range_greatest_inside range_product_choice range_product_of_three range_product_squared trigonometric
    """,
    2: """
        L21 L25 T7 V19 choice_domain_of_a_sum clamp_upper_bounds range_greatest_in_a_window range_greatest_of_sums
        range_greatest_of_values_chosen range_product_at_an_index range_product_of_roots range_product_up_to
        range_soft
    """,
    3: """
        H8 H9_inverse_hyperbolic H9_kinks H9_trigonometric V11 V5 V7 choice_domain_of_a_tensor
        choice_domain_of_exponent choice_domain_of_power choice_domain_of_two choice_max_of_a_constant_entry
        choice_not choice_tuned clamp_difference clamp_nested clamp_of_a_remainder clamp_two_in_one_index
        error_function hyperbolic inverse map_circle map_kronecker max_of_index maximum_squared overlapping_strides
        range_greatest_of_strides range_product_logarithm two_arguments
    """,
}
TURNS = {name: turn for turn, chosen in CHOSEN.items() for name in chosen.split()}
SIMULATED = [name for name in names() if name not in NARROW]


def check(name: str) -> None:
    """A thread of CUDA is a thread of Python here, so the tensors are small."""
    case = small(name)
    kernels = [KERNELS[TURNS.get(name, SIMULATED.index(name) % 4)]]
    with pytest.MonkeyPatch.context() as patch:
        for function in ("sqrt", "log", "sin", "cos", "tan"):  # a choice that is not taken may ask for these
            patch.setattr(math, function, as_compiled(getattr(math, function)))
        assert_kernel_exact(case.function, case.variables, order=2, kernels=kernels, **options(case, seed=5))


def check_named(name: str, backend: str) -> None:
    named_functions()[name].check_kernel(backend)
