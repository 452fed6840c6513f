"""Counts of the iterations of a pullback's loops and of the index tuples that contribute to it, by case."""

from __future__ import annotations

from typing import Any

import exact_checks
from cases import Case, names
from counting import conditions_on_loops, contributing_tuples, size_values, visits
from fuzz.count import count

from sympy_tensordiff import TensorSymbol
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.testing import call_arguments, random_values
from sympy_tensordiff.testing.values import shape_of

ALL = names()
COTANGENT = "cotangent"


def cotangent_of(function):
    return TensorSymbol(COTANGENT, shape_of(function))


def program_of(case, result, **options):
    values = random_values((case.function, cotangent_of(case.function), *case.variables), case.sizes)
    arguments, _ = call_arguments((case.function, cotangent_of(case.function), *case.variables), values)
    return build_program(arguments, result, **options)


def iterations(program, sizes=()):
    return count(program, size_values(program, dict(sizes))).iterations


CHAINED = {"V21", "V26", "H1", "H2", "H4", "H6", "symbolic_chain", "net", "relu_net", "attention", "multi_dot"}
CHAINED |= {"H3", "clamp_under_a_table", "V33", "V33_swapped", "map_rolled_twice", "V30", "V35"}
CHAINED |= {name for name in ALL if name.startswith(("chain", "H5_", "V31_"))}

# What a read shares with its neighbours is summed before: there are fewer visits than tuples.
BOUNDS = [("upper_bounds", "x"), ("upper_bounds", "y"), ("both_bounds", "x"), ("both_bounds", "A")]
FEWER = {
    **dict.fromkeys([("V4", "A"), ("V5", "A"), ("V6", "A"), ("V7", "A")], "the derivative of a step is 0"),
    **dict.fromkeys([("padding", "w"), ("padding_squared", "w"), ("symbolic_padding", "w")], "0 in the padding"),
    **dict.fromkeys([("index_value_inside", "x"), ("index_power", "x")], "the derivative of a power 0 is 0"),
    **dict.fromkeys([("sum_of_constant", "x")], "a constant range is a factor"),
    **dict.fromkeys(
        [
            ("K1", "x"),
            ("L3", "x"),
            ("normalised", "x"),
            ("one_name_side_by_side", "x"),
            ("bounded_in_a_floor", "x"),
            ("output_name_inside", "x"),
        ],
        "sums are factored",
    ),
    **dict.fromkeys(
        [("sum_in_function_in_sum", "x"), ("square_of_square", "A"), ("one_name_side_by_side", "x")],
        "sums are factored",
    ),
    **dict.fromkeys([("L15", "r_"), ("L15", "x")], "the other operand is summed along its diagonal before"),
    **dict.fromkeys([("L27", "M"), ("piecewise_unequal", "x")], "sums over equal points share their loops"),
    **dict.fromkeys([("L11_clamp", "x"), ("clamp_two_in_one_index", "z")], "a number at the end is counted"),
    **dict.fromkeys([("L11_mod", "x"), ("clamp_nested", "x")], "equal values are counted, however many there are"),
    **dict.fromkeys([("clamp_of_quotients", "x"), ("clamp_with_stride", "x")], "pieces of one value are one"),
    **dict.fromkeys([("clamp_constant_exterior", "y")], "0 outside of the image"),
    **dict.fromkeys([(f"clamp_{name}", v) for name, v in BOUNDS], "what an index does not matter to is summed apart"),
    **dict.fromkeys([("softmax", "x")], "sums are before the entries, and the greatest exponent has a loop of its own"),
    **dict.fromkeys([("map_backwards", "x"), ("map_periodic_laplacian", "x")], "two reads are of one place"),
}

# Two reads of one tensor whose sums run over ranges in another order; indices that differ, which a loop tests.
SPLIT = {("T7", "V"), ("piecewise_equal", "x")}

BY_DATA = {"V34", "L8", "H8"}  # no loop runs over the tuples that data choose: tests of gathers count their scatters

UNCOUNTED = CHAINED | BY_DATA | {"piecewise_on_values", "H9_kinks", "V20"}


def counted(case: Case, variable: Any) -> tuple[int, int, int]:
    """Tuples by brute force, visits of the cotangent and innermost iterations of the pullback without temporaries."""
    pullback = exact_checks.vjp(case.function, variable, cotangent_of(case.function))
    program = program_of(case, pullback, temporaries=False)
    assert not any(conditions_on_loops(kernel.body) for kernel in program.kernels)
    tuples = contributing_tuples(case.function, variable, case.sizes)
    return tuples, visits(program, COTANGENT, case.sizes), iterations(program, case.sizes)


def check_loops(name: str, case: Case, variable: Any) -> None:
    """The loops of a pullback run once for each tuple that contributes, or less often."""
    pair = name, str(variable)
    skipped = name in UNCOUNTED or name.startswith(("choice_", "range_"))
    if skipped and pair not in FEWER.keys() | SPLIT:
        return
    tuples, visited, innermost = counted(case, variable)
    if pair in FEWER:
        assert visited < tuples
    elif pair in SPLIT:  # only sums over the same ranges in the same order share their loops
        assert visited > tuples
    else:  # where the cotangent does not depend on its loops it is before them
        assert tuples in (visited, innermost), (tuples, visited, innermost)
