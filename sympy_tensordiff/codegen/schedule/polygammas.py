"""Vector functions for trigamma and tetragamma, the polygamma functions of order 1 and 2.

SciPy's polygamma is a call of a function of unknown effect, which keeps loops from being vectorised. `elementary` has
functions of its own for orders that gradients contain. Other orders, and the steps of recurrences, which may run on
NumPy, keep SciPy's function, as do calls for which users supply a polygamma function.
"""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.ir.programs import Kernel, Program
from sympy_tensordiff.codegen.ir.scalars import External, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import externals, with_values

POLYGAMMA = External("polygamma", (0, 0), is_special=True)
"""The polygamma function of an order and an argument, as SciPy computes it."""

BY_ORDER = {1: "trigamma", 2: "tetragamma"}
"""The vector functions, by the order of the polygamma function."""


def with_polygammas(program: Program) -> Program:
    """Return `program` with calls of polygamma functions replaced by calls of vector functions, for those constant
    orders for which there is a vector function.
    """
    if POLYGAMMA not in externals(program):
        return program
    steps = [
        replace(step, body=with_values(step.body, _vector_function)) if isinstance(step, Kernel) else step
        for step in program.kernels
    ]
    return program.with_steps(steps)


def _vector_function(node: Scalar) -> Scalar:
    """Return a polygamma function as a call of its vector function, if it has one; other nodes unchanged."""
    if not isinstance(node, Operation) or node.function != POLYGAMMA:
        return node
    order, argument = node.arguments
    name = BY_ORDER.get(int(order.value)) if isinstance(order, Number) and order.value in BY_ORDER else None
    return Operation(name, (argument,)) if name else node
