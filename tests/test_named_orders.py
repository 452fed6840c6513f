"""Functions that have names: right up to the third derivative, nested no deeper and with no more sums than needed."""

import pytest
import sympy
from counting import conditions_on_loops
from every import every
from fuzz.equality import assert_equal
from named_functions import named_functions
from sympy import Basic

from sympy_tensordiff import IndexedSum
from sympy_tensordiff.codegen.ir.walk import loops
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.compile import BACKENDS, print_source
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.testing import random_values

NAMED = named_functions()

# The greatest exponent has a loop of its own. That of attention and the sum of the weights compute the exponents again.
AGAIN = {"logsumexp": 1, "softmax cross-entropy": 1, "attention row": 3}


def texts() -> str:
    """Everything that is printed about some derivatives."""
    found = []
    for name in ("softmax cross-entropy", "layernorm", "volterra", "strided and dilated convolution", "pixel shuffle"):
        for result in NAMED[name].orders[1:3]:
            program = build_program(sorted(result.free_symbols, key=str), result)
            found += [str(result), sympy.latex(result), *(print_source(program, backend) for backend in BACKENDS)]
    return "\n".join(found)


def depth(expression: Basic) -> int:
    """Return the number of summed indices around the innermost part."""
    own = len(expression.limits) if isinstance(expression, IndexedSum) else 0
    return own + max([depth(arg) for arg in expression.args], default=0)


@every("name", [*NAMED], turns=8)
def test_all_orders_equal_the_oracle(name):
    named, orders = NAMED[name], NAMED[name].orders
    for sizes in named.sizes:
        values = random_values(orders, sizes, 2, low=named.low, high=named.high)
        for order, got in enumerate(evaluate(orders, values)):
            expected = derivative(named.function, (named.variable,) * order, values)
            assert_equal(got, expected, f"order {order} at {sizes}")


@every("name", [*NAMED][::2], turns=8)
def test_kernels_of_all_orders_equal_the_oracle(name):
    NAMED[name].check_kernel("numpy")


@every("name", [*NAMED], turns=8)
def test_each_sum_is_computed_once(name):
    for order, result in enumerate(NAMED[name].orders[1:], start=1):
        values = sorted(result.free_symbols, key=str)
        program = build_program(values, result)
        ran = [loop for kernel in program.nests for loop in loops(kernel.body)]
        needed = sum(len(total.limits) for total in result.atoms(IndexedSum))
        assert len(ran) <= needed + AGAIN.get(name, 0), order
        assert not any(conditions_on_loops(kernel.body) for kernel in program.nests), order


@pytest.mark.parametrize(("name", "count"), [("logsumexp", 2), ("layernorm", 4), ("softmax cross-entropy", 4)])
def test_results_share_their_sums(name, count):
    orders = NAMED[name].orders
    program = build_program(sorted(orders[-1].free_symbols, key=str), orders)
    assert sum(1 for kernel in program.nests for _ in loops(kernel.body)) == count


def test_a_delta_is_no_axis_of_an_array():
    n = NAMED["logsumexp"].sizes[0]
    program = build_program([NAMED["logsumexp"].variable], NAMED["logsumexp"].orders[3])
    (size,) = n
    assert all(extent.evaluate({str(size): 50}) <= 50 for array in program.temporaries for extent in array.shape)


@pytest.mark.in_turns(8)
def test_texts_are_the_same_in_every_process(elsewhere):
    assert elsewhere(texts) == texts()
