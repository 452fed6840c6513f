"""Checks of derivatives, and random inputs for them."""

from sympy_tensordiff.testing.differences import check_derivative
from sympy_tensordiff.testing.values import assert_equal, call_arguments, random_values, to_double

__all__ = ["assert_equal", "call_arguments", "check_derivative", "random_values", "to_double"]
