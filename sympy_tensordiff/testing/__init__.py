"""Checks of derivatives, random inputs and random functions."""

from sympy_tensordiff.testing.differences import check_derivative
from sympy_tensordiff.testing.exact import assert_equal
from sympy_tensordiff.testing.generate_tensors import random_tensors
from sympy_tensordiff.testing.languages import RandomFunction
from sympy_tensordiff.testing.random_functions import random_function
from sympy_tensordiff.testing.values import call_arguments, random_values, to_double

__all__ = [
    "RandomFunction",
    "assert_equal",
    "call_arguments",
    "check_derivative",
    "random_function",
    "random_tensors",
    "random_values",
    "to_double",
]
