"""Random functions and index systems, and the command that checks them for as long as one likes."""

from .generate_tensors import random_tensors
from .languages import RandomFunction
from .random_functions import random_function

__all__ = ["RandomFunction", "random_function", "random_tensors"]
