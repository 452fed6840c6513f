"""A plain interpreter of the loop nests, the oracle of the printers: floats, loops, nothing clever."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.special import spherical_jn

from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Statement,
    is_accumulator,
    is_addition,
    is_let,
    is_scatter,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import FusedKernels, Kernel, Program, Scatter
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Load, Name, Number, Scalar
from sympy_tensordiff.integer.affine import Affine

FUNCTIONS: dict[str, Any] = {
    "add": lambda *a: sum(a[1:], a[0]), "mul": lambda *a: math.prod(a[1:], start=a[0]),
    "max": lambda *a: np.maximum.reduce(np.array(a)), "min": lambda *a: np.minimum.reduce(np.array(a)),
    "neg": lambda a: -a, "pow": lambda a, b: np.float64(a) ** np.float64(b), "not": lambda a: not a,
    "and": lambda *a: all(a), "or": lambda *a: any(a),
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "infinity": lambda: math.inf, "erf": math.erf, "erfc": math.erfc, "gamma": math.gamma, "lgamma": math.lgamma,
    "logistic_density": lambda a: 1 / (2 + 2 * math.cosh(a)),
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "softplus": lambda a: np.logaddexp(a, 0),
    "spherical_bessel": lambda n, x: spherical_jn(int(n), x),
}  # fmt: skip


class Interpreter:
    """Runs a program on the values of its arguments, by name; ``reads`` counts the entries read."""

    def __init__(self, program: Program, values: dict[str, Any], sizes: dict[str, int]) -> None:
        self.program = program
        self.integers = dict(sizes)
        self.reals = {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}
        data = {a.name for a in program.arguments if a.dtype == "integer"}
        self.integers.update((name, values[name]) for name in data)
        self.arrays = {k: v for k, v in values.items() if isinstance(v, np.ndarray) and k not in data}
        self.reads = 0

    def run(self) -> list[np.ndarray]:
        for size in self.program.sizes:
            found = [f.evaluate(self.integers) for f in size.lows or size.highs]
            self.integers[size.name] = max(found) if size.lows else min(found)
        shapes = {a.name: a.shape for a in self.program.outputs + self.program.temporaries}
        with np.errstate(all="ignore"):
            for step in self.program.kernels:
                if isinstance(step, FusedKernels):
                    self.together(step, shapes)
                    continue
                shape = self.shape(step.box(shapes))
                if not isinstance(step, Scatter):
                    self.arrays[step.array] = np.empty(shape)
                for index in itertools.product(*map(range, shape)):
                    self.instance(step, index)
        return [self.arrays[a.name] for a in self.program.outputs]

    def shape(self, forms: tuple[Affine, ...]) -> list[int]:
        return [max(0, form.evaluate(self.integers)) for form in forms]

    def together(self, step: FusedKernels, shapes: dict[str, tuple[Affine, ...]]) -> None:
        """Each kernel for one value of the axis, then for the next; of kept rows all but the current one is lost."""
        points = {}
        for kernel in step.kernels:
            shape = self.shape(shapes[kernel.array])
            self.arrays[kernel.array] = np.full(shape, math.nan)
            points[kernel.array] = list(itertools.product(*map(range, shape)))
        remaining: dict[Any, dict[str, Any]] = {}
        for turn in range(*self.shape((step.extent,))):
            self.integers[step.axis] = turn
            for array in step.rows:
                self.arrays[array.name][...] = math.nan
            for kernel in step.kernels:
                for index in points[kernel.array]:
                    if kernel.array in step.totals:
                        self.turn(kernel, index, remaining.setdefault((kernel.array, index), {}), is_last=False)
                    elif index[0] == turn:
                        self.instance(kernel, index)
        for kernel in step.kernels:
            for index in points[kernel.array] if kernel.array in step.totals else ():
                self.turn(kernel, index, remaining.setdefault((kernel.array, index), {}), is_last=True)

    def turn(self, kernel: Kernel, index: tuple[int, ...], remaining: dict[str, Any], is_last: bool) -> None:
        """Return the amount that one iteration adds to an entry of a total; the entry itself at the end."""
        self.integers.update(zip(kernel.axes, index, strict=True))
        if not remaining:
            for statement in kernel.body:
                if is_accumulator(statement):
                    self.statement(statement)
                    remaining[statement.name] = self.reals[statement.name]
        self.reals.update(remaining)
        for statement in kernel.body:
            if isinstance(statement, Loop) and not is_last:
                for inner in statement.body:
                    self.statement(inner)
        remaining.update((name, self.reals[name]) for name in remaining)
        if is_last:
            self.arrays[kernel.array][index] = self.value(kernel.body[-1].value)

    def instance(self, kernel: Kernel, index: tuple[int, ...]) -> None:
        self.integers.update(zip(kernel.axes, index, strict=True))
        if isinstance(kernel, Scatter):
            self.target = self.arrays[kernel.array]
            for statement in kernel.body:
                self.statement(statement)
            return
        for statement in kernel.body[:-1]:
            self.statement(statement)
        self.arrays[kernel.array][index] = self.value(kernel.body[-1].value)

    def statement(self, statement: Statement) -> None:
        if is_let(statement):
            self.reals[statement.name] = self.value(statement.value)
        elif is_accumulator(statement):
            self.reals[statement.name] = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[
                reduction_of(statement)
            ]
        elif is_addition(statement):
            function = FUNCTIONS[{"sum": "add", "prod": "mul"}.get(statement.reduction, statement.reduction)]
            self.reals[statement.name] = function(self.reals[statement.name], self.value(statement.value))
        elif is_scatter(statement):
            place = tuple(form.evaluate(self.integers) for form in statement.index)
            assert all(0 <= n < extent for n, extent in zip(place, self.target.shape, strict=True)), statement
            self.target[place] += self.value(statement.value)
        elif isinstance(statement, If):
            if all(row.holds(self.integers) for row in statement.conditions):
                for inner in statement.body:
                    self.statement(inner)
        else:
            assert isinstance(statement, Loop)
            low = max(math.ceil(b.form.evaluate(self.integers) / b.divisor) for b in statement.lows)
            high = min(math.floor(b.form.evaluate(self.integers) / b.divisor) for b in statement.highs)
            for value in range(low, high + 1):
                self.integers[statement.variable] = value
                for inner in statement.body:
                    self.statement(inner)

    def value(self, node: Scalar) -> Any:
        if isinstance(node, Number):
            return float(node.value)
        if isinstance(node, IndexValue):
            return float(node.form.evaluate(self.integers))
        if isinstance(node, Name):
            return self.reals[node.name]
        if isinstance(node, Load):
            return self.load(node)
        if node.function == "select":
            condition, chosen, otherwise = node.arguments
            return self.value(chosen if self.value(condition) else otherwise)
        arguments = [self.value(a) for a in node.arguments]
        function = FUNCTIONS.get(node.function) or getattr(np, node.function)
        return function(*arguments)

    def load(self, node: Load) -> Any:
        index = tuple(form.evaluate(self.integers) for form in node.index)
        if node.array in self.reals:
            return self.reals[node.array]
        array = self.arrays[node.array]
        assert all(0 <= n < extent for n, extent in zip(index, array.shape, strict=True)), (node, index)
        self.reads += 1
        return np.float64(array[index])
