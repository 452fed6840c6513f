"""mpmath decides how many digits kernels keep: values and derivatives of random formulas at points of any size.

A formula is a sequence of steps, which run on this package's scalars and on numbers with many digits.
Derivatives are differences with a step far below all rounding of doubles. An error is measured in units of what a
careful evaluation of the formula as it is written loses: the sum over all steps of the change that a relative change of
one unit in the last place of this step makes; of a derivative also the rounding of what it is the slope of.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp

import sympy_tensordiff as td

from .report import WrongAnswerError

DIGITS = 60
STEP = mpmath.mpf(10) ** -20
"""The step of differences: their error is about 1e-40."""
UNIT = float(np.finfo(float).eps)
MAX_LOSS = 2.0**26
"""An error beyond so many units has lost half of the digits: it is wrong. Smaller ones are counted by size."""

Function = Callable[..., Any]


class Operation(NamedTuple):
    """A function ``ours`` here and ``exact`` in mpmath, and where it may be applied."""

    ours: Function
    exact: Function
    is_inside: Callable[..., bool] = lambda *_: True


FUNCTIONS: dict[str, Operation] = {
    "exp": Operation(td.exp, mpmath.exp, lambda x: abs(x) < 300),
    "expm1": Operation(td.expm1, mpmath.expm1, lambda x: abs(x) < 300),
    "log": Operation(td.log, mpmath.log, lambda x: x > 1e-200),
    "log1p": Operation(td.log1p, mpmath.log1p, lambda x: x > -0.99),
    "sqrt": Operation(td.sqrt, mpmath.sqrt, lambda x: x > 1e-200),
    "sin": Operation(td.sin, mpmath.sin, lambda x: abs(x) < 1e4),
    "cos": Operation(td.cos, mpmath.cos, lambda x: abs(x) < 1e4),
    "tanh": Operation(td.tanh, mpmath.tanh),
    "sinh": Operation(td.sinh, mpmath.sinh, lambda x: abs(x) < 300),
    "cosh": Operation(td.cosh, mpmath.cosh, lambda x: abs(x) < 300),
    "atan": Operation(td.atan, mpmath.atan),
    "asinh": Operation(td.asinh, mpmath.asinh),
    "erf": Operation(td.erf, mpmath.erf, lambda x: abs(x) < 5),
    "sigmoid": Operation(td.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), lambda x: abs(x) < 300),
    "softplus": Operation(td.softplus, lambda x: mpmath.log1p(mpmath.exp(x)), lambda x: abs(x) < 300),
    "square": Operation(lambda x: x**2, lambda x: x**2, lambda x: abs(x) < 1e70),
    "cube": Operation(lambda x: x**3, lambda x: x**3, lambda x: abs(x) < 1e70),
    "reciprocal": Operation(lambda x: 1 / x, lambda x: 1 / x, lambda x: abs(x) > 1e-70),
    "one more": Operation(lambda x: x + 1, lambda x: x + 1),
    "one less": Operation(lambda x: x - 1, lambda x: x - 1),
    "negated": Operation(lambda x: -x, lambda x: -x),
    "third": Operation(lambda x: x / 3, lambda x: x / 3),
}
PAIRS: dict[str, Operation] = {
    "add": Operation(lambda x, y: x + y, lambda x, y: x + y),
    "subtract": Operation(lambda x, y: x - y, lambda x, y: x - y),
    "multiply": Operation(lambda x, y: x * y, lambda x, y: x * y, lambda x, y: abs(x) < 1e70 and abs(y) < 1e70),
    "divide": Operation(lambda x, y: x / y, lambda x, y: x / y, lambda x, y: abs(x) < 1e70 and abs(y) > 1e-70),
    "logaddexp": Operation(
        td.logaddexp,
        lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
        lambda x, y: 1e-3 < abs(max(x, y)) < 300 and abs(min(x, y)) < 300,
    ),
    "hypot": Operation(td.hypot, mpmath.hypot, lambda x, y: 1e-70 < max(abs(x), abs(y)) < 1e70),
}


class Formula(NamedTuple):
    """Steps on the variables 0 and 1 and on earlier steps, and the point at which they are taken."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]
    point: tuple[float, float]

    def ours(self, variables: Sequence[Any]) -> Any:
        """Return the formula of two scalars of this package."""
        values = list(variables)
        for name, operands in self.steps:
            values.append((FUNCTIONS | PAIRS)[name].ours(*(values[n] for n in operands)))
        return values[-1]

    def exact(self, shift: Any = 0, changed: int | None = None, size: Any = 0) -> Any:
        """Return the value with the first variable moved by ``shift``, a step ``changed`` by a relative ``size``."""
        values = [mp.mpf(self.point[0]) + shift, mp.mpf(self.point[1])]
        for number, (name, operands) in enumerate(self.steps):
            value = (FUNCTIONS | PAIRS)[name].exact(*(values[n] for n in operands))
            values.append(value * (1 + size) if number == changed else value)
        return values[-1]

    def text(self) -> str:
        """Return the steps and the point."""
        lines = [f"v{n} = {name}({', '.join(f'v{o}' for o in ops)})" for n, (name, ops) in enumerate(self.steps, 2)]
        return "; ".join([f"v0 = {self.point[0]!r}", f"v1 = {self.point[1]!r}", *lines])


def random_formula(seed: int) -> Formula:
    """Return the formula of a seed: two to six steps, at a point from 1e-12 to 1e6 in size."""
    generator = random.Random(seed)
    point = []
    for _ in range(2):
        exponent = generator.choice((generator.uniform(-2, 1), generator.uniform(-12, 6)))
        point.append(generator.choice((1, 1, -1)) * float(f"{10**exponent:.6g}"))
    values = [mp.mpf(one) for one in point]
    steps: list[tuple[str, tuple[int, ...]]] = []
    length = generator.randint(2, 6)
    while len(steps) < length:
        table = FUNCTIONS if generator.random() < 0.65 else PAIRS
        name = generator.choice(list(table))
        latest = [len(values) - 1, *range(len(values))]
        operands = tuple(generator.choice(latest) for _ in range(1 if table is FUNCTIONS else 2))
        given = [values[n] for n in operands]
        if not table[name].is_inside(*given):
            continue
        value = table[name].exact(*given)
        if value != 0 and not 1e-100 < abs(value) < 1e100:
            continue
        values.append(value)
        steps.append((name, operands))
    return Formula(tuple(steps), (point[0], point[1]))


def _differences(formula: Formula, changed: int | None = None, size: Any = 0) -> list[Any]:
    """Return the value and the first two derivatives with respect to the first variable."""
    step = STEP * max(abs(mp.mpf(formula.point[0])), mp.mpf(10) ** -15)
    low, middle, high = (formula.exact(shift, changed, size) for shift in (-step, 0, step))
    return [middle, (high - low) / (2 * step), (high - 2 * middle + low) / step**2]


def judge(seed: int) -> Counter[str]:
    """Compare the value and two derivatives of the formula of a seed with numbers of many digits."""
    with mp.workdps(4 * DIGITS):
        formula = random_formula(seed)
        exact = _differences(formula)
        size = mp.mpf(10) ** -30
        losses = [mp.mpf(0)] * 3
        for number in range(len(formula.steps)):
            for order, one in enumerate(_differences(formula, number, size)):
                losses[order] += abs(one - exact[order]) / size
        for order in (1, 2):  # as a difference quotient of the order before would have it
            losses[order] += sum(abs(exact[k] / mp.mpf(formula.point[0]) ** (order - k)) for k in range(order))
        for order in range(2):
            losses[order] += abs(exact[order + 1] * formula.point[0])
        wanted = [float(one) for one in exact]
        units = [float(loss) * UNIT for loss in losses]
    n = td.indices("n")
    i = td.indices("i")
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    entry = formula.ours((x[i], y[i]))
    total = td.IndexedSum(entry, (i, 0, n - 1))
    slope = td.gradient(total, x)
    curvature = td.gradient(td.sum(slope), x)
    at = np.array([formula.point[0]]), np.array([formula.point[1]])
    backend = "llvm" if seed % 8 == 0 else "numpy"
    with np.errstate(all="ignore"):
        found = td.lambdify([x, y], (total, slope, curvature), backend)(*at)
    verdicts: Counter[str] = Counter()
    for name, value, right, unit in zip(("value", "slope", "curvature"), found, wanted, units, strict=True):
        number = float(np.ravel(value)[0])
        if not math.isfinite(right) or abs(right) > 1e200 or unit < 1e-250:
            verdicts[f"{name}: beyond the range of doubles"] += 1
            continue
        loss = abs(number - right) / unit if math.isfinite(number) else math.inf
        if loss > MAX_LOSS:
            message = f"the {name} ({backend}) is {number!r} instead of {right!r}, {loss:.2g} units off"
            raise WrongAnswerError(f"{message}: {formula.text()}")
        verdicts[f"{name}: {'up to 4' if loss <= 4 else 'up to 64' if loss <= 64 else 'more than 64'} units"] += 1
    return verdicts
