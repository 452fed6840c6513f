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
# The turns that cases take. Chosen greedily, at the least time: their texts for Numba and CUDA hold every construct
# inside of every other one (which operator, function, condition, loop or read stands in which) that those of all cases
# hold in all turns.
CHOSEN = {
    (0,): """
        V20 V55 map_two_axes map_upsampling range_greatest_of_equal_entries range_product_of_differences
        range_product_window symbolic_product
    """,
    (0, 1, 3): "H8 map_interpolation",
    (0, 2): "net range_soft",
    (0, 3): "V13 error_function range_greatest_of_rows_of_all range_product_logarithm",
    (1,): """
        P7 X6 chain choice_implied hole_2i-3j map_interleaved map_periodic_laplacian piecewise_or piecewise_parity
        range_product_of_three
    """,
    (1, 2): """
        D5 L25 L5 T7 V34 choice_domain_of_a_sum choice_in_a_function range_greatest_in_a_window range_greatest_inside
        range_greatest_of_values_chosen range_product_choice range_product_of_roots range_product_squared
        range_product_up_to
    """,
    (1, 3): """
        H9_hyperbolic H9_inverse_hyperbolic H9_inverse_trigonometric H9_kinks H9_powers H9_trigonometric V10 V11 V6 V7
        V9 choice_domain_of_a_tensor choice_domain_of_exp choice_domain_of_exponent choice_domain_of_neither
        choice_domain_of_two choice_heaviside choice_max_of_a_constant_entry choice_max_of_four choice_not choice_sign
        clamp_difference clamp_mirror clamp_nested clamp_of_quotients clamp_two_in_one_index clamp_with_stride
        hyperbolic index_value_inside inverse map_shared_index max_of_index max_of_min maximum_squared min_with_number
        range_greatest_of_strides trigonometric two_arguments
    """,
    (2,): "L21 V19 clamp_upper_bounds range_greatest_of_sums range_product_at_an_index",
    (3,): """
        V5 choice_domain_of_power choice_tuned clamp_of_a_remainder map_circle map_kronecker overlapping_strides
    """,
}
TURNS = {name: turns for turns, chosen in CHOSEN.items() for name in chosen.split()}
SIMULATED = [name for name in names() if name not in NARROW]


def check(name: str) -> None:
    """A thread of CUDA is a thread of Python here, so the tensors are small."""
    case = small(name)
    kernels = [KERNELS[turn] for turn in TURNS.get(name, (SIMULATED.index(name) % 4,))]
    with pytest.MonkeyPatch.context() as patch:
        for function in ("sqrt", "log", "sin", "cos", "tan"):  # a choice that is not taken may ask for these
            patch.setattr(math, function, as_compiled(getattr(math, function)))
        assert_kernel_exact(case.function, case.variables, order=2, kernels=kernels, **options(case, seed=5))


def check_named(name: str, backend: str) -> None:
    named_functions()[name].check_kernel(backend)
