"""Every function of the table, by every variable, in every backend, against the oracle."""

from __future__ import annotations

from itertools import combinations_with_replacement
from random import Random

import exact_checks
import numpy as np
import pytest
import simulate_cases
import sympy
from cases import build, names, options, small
from counting import FACTORS, conditions_on_loops, hidden_masks, masks
from exact_checks import assert_derivative_exact, assert_kernel_exact, assert_second_exact
from fuzz.equality import assert_equal
from loop_counts import check_loops

from sympy_tensordiff.derivative.api import vjp
from sympy_tensordiff.reference import differentiate, evaluate
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.testing import check_derivative, random_values

ALL = names()

# Numba compiles for half a second per function. These were chosen greedily: together with the kernels
# that the tests of `codegen` compile, the loops printed for them hold nearly every construct inside of
# every other one (which operator, function, condition, loop or read is in which) that those of any
# case hold, at the least time; those of `MORE` have few of their own. All cases run uncompiled, from the same text.
NUMBA = ["T7", "D5", "V13", "hole_2i+4j,3j", "inverse", "H9_trigonometric", "H9_powers", "H9_kinks", "symbolic_stride"]
MORE = [
    *("P9", "index_value_inside", "steps", "clamp_several", "H9_hyperbolic", "choice_not", "choice_domain_of_a_tensor"),
    *("choice_domain_of_an_index", "choice_domain_of_a_sum", "T10", "chain_of_three", "chain_deep"),
    *("H9_two_numbers", "max_of_min", "choice_heaviside", "choice_sign"),
]
# NumPy's texts of these hold every construct inside of another one (which operator, call, condition, loop or slice
# is in which) that those of second derivatives of any case hold, and those of the first ones do not.
SECOND = [
    *("D4", "D4_symbolic", "H8", "H9_hyperbolic", "H9_inverse_hyperbolic", "H9_kinks", "H9_powers", "L27", "L3"),
    *("V11", "V13", "V17", "V19", "V20", "V31_softmax", "V33", "V34", "X3", "attention", "chain_deep"),
    *("chain_of_three", "chain_same_names", "choice_domain_of_a_sum", "choice_domain_of_a_tensor"),
    *("choice_domain_of_an_index", "choice_in_a_function", "clamp_lower_bounds", "clamp_nested"),
    *("clamp_two_in_one_index", "clamp_with_stride", "hyperbolic", "laplacian_squared", "logarithms"),
    *("map_dilated_circle", "maximum_squared", "multi_dot", "net", "range_greatest_in_a_function"),
    *("range_greatest_of_a_diagonal", "range_greatest_of_a_sum_squared", "range_greatest_of_strides"),
    *("range_greatest_soft", "range_product_choice", "range_product_of_a_diagonal", "range_product_of_indices"),
    *("range_product_of_three", "range_product_squared", "range_product_strided", "range_products_multiplied"),
    *("range_soft", "rank_four_out", "trigonometric"),
]
LONG = {"range_product_of_three", "T7"}
"""Cases that take seconds in the simulator; the loops printed for them are compiled by Numba, or in others."""
DIFFERENCES = ["T10", "X7", "net", "padding", "symbolic_stride"]


@pytest.fixture
def derived(monkeypatch):
    """All derivatives and kernels that the checks ask for."""
    found = []

    def noted(derive):
        def function(*args, **options):
            found.append(derive(*args, **options))
            return found[-1]

        return function

    for derive in ("vjp", "jacobian", "gradient", "hessian", "hvp", "lambdify"):
        monkeypatch.setattr(exact_checks, derive, noted(getattr(exact_checks, derive)))
    return found


def assert_no_masks(derived):
    """A loop over the full box with a mask passes every numeric test: no sum runs over indices that it sorts out."""
    results = dict.fromkeys(result for result in derived if isinstance(result, sympy.Basic))
    assert results
    for result in results:
        assert not masks(result), result
        assert not hidden_masks(result), result


# Chosen greedily, at the least time: each part of the package that runs for any case runs for two of these.
OTHERS = """
    D6 H1 H5_repeat_edge H9_inverse_trigonometric L10 L11_clamp L11_pad L20 L23 L26 L7 L8 V16 V30 V31_log_softmax
    V35 V42 V43 V50 V52 V59 V64 V65 V70 band bounded_in_a_floor choice_domain_in_a_sum choice_domain_of_a_choice
    choice_domain_of_exponent choice_domain_of_nothing choice_domain_of_two choice_equivalent choice_heaviside
    choice_if_then_never choice_implied choice_index_and_value choice_max_of_a_constant_entry choice_max_of_four
    choice_scalar_threshold choice_sign clamp_a_distance_as_bound clamp_as_a_bound clamp_both_bounds
    clamp_in_a_condition clamp_mirror_image clamp_mirror_interior clamp_of_a_remainder clamp_of_quotients
    clamp_repeat_image clamp_under_a_table clamp_upper_bounds hole_i+2 map_adaptive_to_a_size map_butterfly
    map_flattened map_grouped_convolution map_index_and_quotient map_interleaved map_interpolation
    map_pixel_unshuffle map_quotient_of_remainder map_rolled_twice map_tiled map_transposed_convolution
    map_two_rates max_of_three max_with_number normalised output_name_inside piecewise_equal
    piecewise_in_denominator piecewise_parity piecewise_unequal range_greatest_inside range_greatest_of_a_constant
    range_greatest_of_a_row range_greatest_of_multiples_of_indices range_greatest_of_sums
    range_greatest_of_values_chosen range_product_at_an_index range_product_geometric_mean
    range_product_in_exponent range_product_logarithm range_product_of_a_table range_product_of_none
    range_product_of_zeros range_product_window rank_zero rank_zero_only sums_three_deep symbolic_convolution
    symbolic_padding symbolic_product
"""
FULL = {*NUMBA, *SECOND, *OTHERS.split()}

QUICK = [*NUMBA[::2], *SECOND[::6]]


def marks(name):
    return pytest.mark.quick if name in QUICK else () if name in FULL else pytest.mark.thorough


@pytest.mark.in_turns(7)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in ALL])
def test_derivatives_equal_the_oracle(name, derived, thorough):
    """Value, first derivatives, plain `diff`, a second derivative, loops, and a kernel of all pullbacks at once."""
    case = build(name)
    for wrt in case.variables:
        # The kernels of these pullbacks are checked in one with each other, below.
        check_plain_diff(case, wrt, *assert_derivative_exact(case.function, wrt, backends=(), **options(case)))
        check_loops(name, case, wrt)
    check_given(case)
    if name not in FACTORS:
        assert_no_masks(derived)
    assert_kernel_exact(case.function, case.variables, **options(case, seed=2))
    kernel = derived[-1]
    for step in kernel.program.nests if name not in FACTORS else ():
        assert not conditions_on_loops(step.body), step.array
    pairs = list(combinations_with_replacement(range(len(case.variables)), 2))
    for pair in pairs if thorough else {pairs[0 if name in SECOND else Random(name).randrange(len(pairs))]}:
        check_second(name, *pair, derived)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("first", range(4))
def test_pullbacks_equal_the_oracle(first, derived):
    """The kernel of value and pullbacks of the cases that are checked in full with ``--thorough`` only."""
    for name in [name for name in ALL if name not in FULL][first::4]:
        derived.clear()
        case = build(name)
        assert_kernel_exact(case.function, case.variables, **options(case, seed=2))
        check_given(case)
        if name not in FACTORS:
            pullbacks, kernel = derived
            assert_no_masks(pullbacks)
            assert not any(conditions_on_loops(step.body) for step in kernel.program.nests), name


def check_second(name, n, m, derived):
    derived.clear()
    case = small(name)
    # Kernels of all blocks at once are among those that run as Python, below.
    more = options(case, seed=1, backends=("numpy",) if n == m == 0 and name in SECOND else ())
    assert_second_exact(case.function, case.variables[n], second=case.variables[m], **more)
    # By its scalar, the factors of this product hold conditions, too.
    if name not in FACTORS and (name != "range_product_of_a_table" or m == 0):
        assert_no_masks(derived)


def check_plain_diff(case, wrt, values, jacobian):
    """By an entry, `diff` is that part of the exact Jacobian at the same values: at the first entry and two others."""
    if not isinstance(wrt, TensorSymbol):
        return
    # Named as the indices that are bound inside, which they must not be taken for.
    entry = [s for s in indices("i j k l a b c") if s not in case.sizes][: len(wrt.shape)]
    derivative = sympy.diff(case.function, wrt[tuple(entry)])
    for position in list(np.ndindex(np.shape(values[wrt])))[:: max(1, np.size(values[wrt]) // 2)]:
        got = evaluate(derivative, {**values, **dict(zip(entry, position, strict=True))})
        expected = jacobian[(slice(None),) * (jacobian.ndim - len(position)) + position]
        if derivative == 0:  # the quick exit of SymPy, where the variable does not occur, knows no shapes
            assert not np.any(expected != 0)
        else:
            assert_equal(got, expected, f"diff by {wrt}{list(position)}")


def check_given(case):
    """The values that the sources of a case give."""
    values = random_values((case.function, *case.variables), case.sizes) | dict(case.values)
    if case.value is not None:
        assert np.array_equal(evaluate(case.function, values), case.value)
    for wrt, expected in case.gradient.items():
        assert differentiate(case.function, wrt, values).tolist() == expected


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", [*NUMBA, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE)])
def test_numba_kernels_equal_the_oracle(name):
    case = build(name)
    kernels = (("numba", True),)
    assert_kernel_exact(case.function, case.variables, **options(case, seed=3, with_value=False, kernels=kernels))


@pytest.mark.parametrize("name", ["T10", "X7", "net"])
def test_kernels_without_temporaries_equal_the_oracle(name):
    case = build(name)
    assert_kernel_exact(case.function, case.variables, **options(case, seed=4, kernels=(("numpy", False),)))


@pytest.mark.in_turns(8)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in simulate_cases.TURNS.keys() - LONG else pytest.mark.thorough)
        for name in simulate_cases.SIMULATED
    ],
)
def test_kernels_run_as_python_equal_the_oracle(name, simulator):
    simulator(simulate_cases.check, name)


@pytest.mark.in_turns(10)
@pytest.mark.parametrize(("turn", "name"), [*enumerate(simulate_cases.NAMED)])
def test_named_kernels_run_as_python_equal_the_oracle(turn, name, simulator):
    simulator(simulate_cases.check_named, name, ("numba", "cuda")[turn % 2])


@pytest.mark.parametrize("name", DIFFERENCES)
def test_central_differences_agree(name):
    case = build(name)
    assert check_derivative(case.function, case.variables, case.sizes) < 1e-7


def test_a_nest_of_shared_chains_stays_small():
    # Twice as many paths per level: written out, the function has 2**24 terms.
    i = indices("i")
    x, df = TensorSymbol("x", 4), TensorSymbol("df", 4)
    T = TensorComprehension(x[i], (i, 4))
    for _ in range(24):
        T = TensorComprehension((T[i] + T[3 - i]) / 2, (i, 4))
    values = {x: [1, 2, 3, 4], df: [1, 2, 3, 4]}
    assert evaluate(T, values).tolist() == [2.5] * 4
    assert np.array_equal(evaluate(vjp(T, x, df), values), [2.5] * 4)
