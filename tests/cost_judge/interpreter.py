"""Loop nests executed entry by entry, every operation counted as it happens: what `oracle.figures` has to say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.programs import ContractionStep, FusedKernels, Kernel, Program, Step, Trapezoid
from sympy_tensordiff.codegen.ir.scalars import Ends, Identity, IndexValue, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.steps import calls_in_loops

from .oracle import operation_cost, shapes_of, span_of, values_of

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda *v: sum(v), "mul": lambda *v: math.prod(v), "max": max, "min": min, "neg": lambda x: -x,
    "and": lambda *v: all(v), "or": lambda *v: any(v), "not": lambda x: not x,
    "pow": lambda x, y: np.float64(x) ** y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "select": lambda c, x, y: x if c else y,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softplus": lambda x: np.logaddexp(x, 0), "infinity": lambda: np.inf,
    "logistic_density": lambda x: np.exp(-abs(x)) / (1 + np.exp(-abs(x))) ** 2,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y, "prod": lambda x, y: x * y, "max": max, "min": min, "any": lambda x, y: x or y,
}  # fmt: skip


class Execution:
    """The arrays of a program after it has run on ``arrays``, and the ``operations`` of its loops.

    Products of matrices are run as loops, too: their operations are counted one by one.
    """

    def __init__(self, program: Program, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        self.integers = values_of(program, sizes)
        shapes = shapes_of(program, self.integers)
        self.arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        for step in program.kernels:
            if isinstance(step, FusedKernels):  # run one after the other, with all rows
                extents = [step.extent, *(extent for _, extent in step.inner)]
                for array in step.rows:
                    rows = [form.evaluate(self.integers) for form in (*extents, *array.shape)]
                    self.arrays[array.name] = np.zeros(rows)
        self.arrays |= arrays
        self.operations = 0
        for step in calls_in_loops(program).kernels:
            self.step(step)

    def step(self, step: Step) -> None:
        for kernel in step.kernels if isinstance(step, FusedKernels) else (step,):
            assert isinstance(kernel, Kernel), kernel
            for entry in itertools.product(*map(range, self.arrays[kernel.array].shape)):
                self.integers.update(zip(kernel.axes, entry, strict=True))
                self.block(kernel.body, {}, {})

    def block(self, body: Iterable[Statement], names: dict[str, Any], known: dict[Scalar, Any]) -> None:
        """Statements; ``names`` are the scalars of the kernel, ``known`` what has been computed in this pass."""
        known = dict(known)
        for statement in body:
            if isinstance(statement, Loop):
                for value in span_of(statement, self.integers):
                    self.integers[statement.variable] = value
                    self.block(statement.body, names, known)
            elif isinstance(statement, If):
                if all(row.holds(self.integers) for row in statement.conditions):
                    self.block(statement.body, names, known)
            else:
                self.set(statement, names, known)

    def set(self, statement: Statement, names: dict[str, Any], known: dict[Scalar, Any]) -> None:
        assert isinstance(statement, Set), statement
        value: Any = statement.value
        if isinstance(value, Ends):
            ends = value.lows or value.highs
            places = [b.form.evaluate(self.integers) / b.divisor for b in ends]
            new: Any = max(map(math.ceil, places)) if value.lows else min(map(math.floor, places)) + 1
        else:
            new = self.value(value.value if isinstance(value, Identity) else value, names, known)
        target = statement.target
        store, key = (names, target.name) if isinstance(target, Name) else self.entry(target)
        if statement.reduction:
            self.operations += 1
            new = _REDUCTIONS[statement.reduction](store[key], new)
        store[key] = new

    def entry(self, load: Load) -> tuple[Any, Any]:
        return self.arrays[load.array], tuple([form.evaluate(self.integers) for form in load.index])

    def value(self, scalar: Scalar, names: Mapping[str, Any], known: dict[Scalar, Any]) -> Any:
        if isinstance(scalar, Number):
            return float(scalar.value)
        if isinstance(scalar, IndexValue):
            return float(scalar.form.evaluate(self.integers))
        if isinstance(scalar, Name):
            return names[scalar.name] if scalar.name in names else self.integers[scalar.name]
        if isinstance(scalar, Load):
            array, place = self.entry(scalar)
            return array[place]
        assert isinstance(scalar, Operation), scalar
        if scalar not in known:
            arguments = [self.value(argument, names, known) for argument in scalar.arguments]
            self.operations += operation_cost(scalar)[0]
            known[scalar] = _FUNCTIONS.get(scalar.function) or getattr(np, str(scalar.function))
            known[scalar] = known[scalar](*arguments)
        return known[scalar]


def is_loops_only(program: Program) -> bool:
    """Return whether a program calls nothing but products of matrices."""
    return all(isinstance(step, Kernel | FusedKernels | ContractionStep | Trapezoid) for step in program.kernels)
