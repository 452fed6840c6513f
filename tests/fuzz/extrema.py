"""Random extrema and masked sums whose gradients are compared with those of an interpreter in dual numbers.

The interpreter shares nothing with the package: each part of a program knows its SymPy text and how to evaluate itself.
Reads are periodic, clamped, rounded, through index arrays, and behind conditions outside of which they leave the shape.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy import Expr, Max, Min, Mod, Piecewise, Symbol, floor

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import gradient
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

from .equality import assert_equal

n = indices("n")
J, K, P = indices("j k p")
VARIABLES = (TensorSymbol("x", n), TensorSymbol("y", n))
WEIGHTS = TensorSymbol("w", n)
IDX = TensorSymbol("idx", n, dtype=int, below=n)
DRAWS = (1, 2, 3, 4, 5, 6, 7)
_CLOSE = 1e-9
"""Values this close that are not equal are one number or two, as they are rounded: nothing is compared there."""

Env = Mapping[Symbol, int]


class NearTieError(Exception):
    """Two values differ by rounding only."""


class Dual(NamedTuple):
    """A value and its gradient by all entries of the variables."""

    value: float
    slope: NDArray[np.float64]

    def __add__(self, other: Dual) -> Dual:  # type: ignore[override]
        return Dual(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other: Dual) -> Dual:  # type: ignore[override]
        return Dual(self.value * other.value, self.value * other.slope + other.value * self.slope)

    def scaled(self, factor: float) -> Dual:
        return Dual(factor * self.value, factor * self.slope)


@dataclass
class Data:
    """The numbers of one draw."""

    size: int
    arrays: Mapping[TensorSymbol, NDArray[Any]]

    @property
    def zero(self) -> Dual:
        return Dual(0.0, np.zeros(2 * self.size))

    def entry(self, tensor: TensorSymbol, at: int) -> Dual:
        slope = np.zeros(2 * self.size)
        assert 0 <= at < self.size
        if tensor in VARIABLES:
            slope[VARIABLES.index(tensor) * self.size + at] = 1.0
        return Dual(float(self.arrays[tensor][at]), slope)


@dataclass(frozen=True)
class Integer:
    """An index form and how to evaluate it."""

    written: Expr
    at: Callable[[Env, Data], int]


@dataclass(frozen=True)
class Real:
    """A scalar and how to evaluate it."""

    written: Expr
    at: Callable[[Env, Data], Dual]


def variable(index: Symbol) -> Integer:
    return Integer(index, lambda env, data: env[index])


def number(value: int) -> Integer:
    return Integer(sympy.Integer(value), lambda env, data: value)


SIZE = Integer(n, lambda env, data: data.size)


def sum_of(left: Integer, right: Integer, factor: int = 1) -> Integer:
    return Integer(
        left.written + factor * right.written, lambda env, data: left.at(env, data) + factor * right.at(env, data)
    )


def quotient(form: Integer, divisor: Integer) -> Integer:
    return Integer(floor(form.written / divisor.written), lambda env, data: form.at(env, data) // divisor.at(env, data))


def remainder(form: Integer, divisor: Integer) -> Integer:
    return Integer(Mod(form.written, divisor.written), lambda env, data: form.at(env, data) % divisor.at(env, data))


def clamped(form: Integer, high: Integer) -> Integer:
    return Integer(
        Max(0, Min(form.written, high.written)), lambda env, data: max(0, min(form.at(env, data), high.at(env, data)))
    )


LAST = sum_of(SIZE, number(-1))


class Programs:
    """Draws the parts of one program."""

    def __init__(self, seed: int, masks: bool) -> None:
        self.random = random.Random(seed)
        self.masks = masks

    def choice(self, *options: Any) -> Any:
        return self.random.choice(options)

    # ------------------------------------------------------------------------ index forms

    def affine(self, scope: Sequence[Symbol]) -> Integer:
        """A combination of the indices in scope."""
        first = variable(self.choice(*scope))
        form = sum_of(number(self.choice(0, 0, 1, 1, 2, -1, -2)), first, self.choice(1, 1, 1, 1, 2, -1))
        if len(scope) > 1 and self.random.random() < 0.3:
            form = sum_of(form, variable(self.choice(*scope)), self.choice(1, -1))
        return form

    def place(self, scope: Sequence[Symbol]) -> Integer:
        """A form with values inside of an extent of ``n``."""
        form = self.affine(scope)
        match self.random.randrange(7):
            case 0 | 1 | 6:
                return remainder(form, SIZE)
            case 2:
                return clamped(form, LAST)
            case 3:
                return clamped(quotient(form, number(self.choice(2, 3))), LAST)
            case 4:
                return remainder(quotient(form, number(2)), SIZE)
        return clamped(remainder(form, number(self.choice(2, 3))), LAST)

    def gathered(self, scope: Sequence[Symbol]) -> Integer:
        place = self.place(scope)
        if self.random.random() < (0.5 if self.masks else 0.1):
            return self.entry(place)
        return place

    def entry(self, place: Integer) -> Integer:
        return Integer(IDX[place.written], lambda env, data: int(data.arrays[IDX][place.at(env, data)]))

    # ------------------------------------------------------------------------ values

    def read(self, scope: Sequence[Symbol]) -> Real:
        tensor, place = self.choice(*VARIABLES, VARIABLES[0]), self.gathered(scope)
        return Real(tensor[place.written], lambda env, data: data.entry(tensor, place.at(env, data)))

    def factor(self, scope: Sequence[Symbol]) -> Real:
        inner = self.read(scope)
        match self.random.randrange(5):
            case 0:
                return Real(sympy.exp(inner.written), lambda env, data: _mapped(inner.at(env, data), np.exp, np.exp))
            case 1:
                return Real(inner.written**2, lambda env, data: inner.at(env, data) * inner.at(env, data))
            case 2:
                return Real(sympy.sin(inner.written), lambda env, data: _mapped(inner.at(env, data), np.sin, np.cos))
        return inner

    def term(self, scope: Sequence[Symbol]) -> Real:
        scale = self.choice(1, 2, -1, -3)
        factors = [self.factor(scope) for _ in range(self.choice(1, 1, 2))]

        def at(env: Env, data: Data) -> Dual:
            result = factors[0].at(env, data)
            for other in factors[1:]:
                result = result * other.at(env, data)
            return result.scaled(scale)

        return Real(scale * sympy.Mul(*(factor.written for factor in factors)), at)

    def masked(self, scope: Sequence[Symbol]) -> Real:
        """A product that reads inside of its shapes only where a condition holds."""
        index, step, shift = self.choice(*scope), self.choice(2, 2, 3), self.choice(-2, -1, 1, 2)
        tensor, scale, other = self.choice(*VARIABLES), self.choice(1, 2, -1), self.read(scope)
        moved = sum_of(variable(index), number(shift))
        place = quotient(moved, number(step)) if self.random.random() < 0.5 else moved
        inside = sympy.And(place.written >= 0, place.written < n)
        gathered = self.random.random() < 0.7
        source = self.entry(place) if gathered else place
        if gathered and self.random.random() < 0.3:
            source = self.entry(source)
        rest = self.choice(0, 1) if self.random.random() < 0.6 else None
        condition = inside if rest is None else sympy.And(inside, sympy.Eq(Mod(index, step), rest))

        def at(env: Env, data: Data) -> Dual:
            found = place.at(env, data)
            if not 0 <= found < data.size or (rest is not None and env[index] % step != rest):
                return data.zero
            return (data.entry(tensor, source.at(env, data)) * other.at(env, data)).scaled(scale)

        return Real(Piecewise((scale * tensor[source.written] * other.written, condition), (0, True)), at)

    def body(self, scope: Sequence[Symbol]) -> Real:
        terms = [self.term(scope) for _ in range(self.choice(1, 2, 2))]
        if self.masks:
            terms = [*terms[:1], *(self.masked(scope) for _ in range(self.choice(1, 1, 2)))]
        return _added(terms)

    # ------------------------------------------------------------------------ reductions

    def limit(self, index: Symbol, outer: Sequence[Symbol]) -> tuple[Integer, Integer]:
        """The bounds of an index, at least one value apart."""
        low = number(self.choice(0, 0, 0, 1, -1, 2))
        if outer and self.random.random() < 0.25:
            low = variable(outer[-1])
        length = self.choice(SIZE, SIZE, SIZE, number(3), number(2), quotient(sum_of(SIZE, number(1)), number(2)))
        if self.random.random() < 0.15:
            length = sum_of(SIZE, SIZE)
        return low, sum_of(sum_of(low, length), number(-1))

    def reduction(self, outer: Sequence[Symbol]) -> Real:
        """An extremum, or of ``masks`` also a sum, over one index or two."""
        names = [s for s in (J, K) if s not in outer][: self.choice(1, 1, 1, 2)]
        limits: list[tuple[Symbol, Integer, Integer]] = []
        for index in names:
            limits.append((index, *self.limit(index, [*outer, *(each[0] for each in limits)])))
        body = self.body([*outer, *names])
        binder = self.choice(IndexedMax, IndexedMin, *[IndexedSum] * (3 if self.masks else 0))
        written = [(index, low.written, high.written) for index, low, high in reversed(limits)]

        def at(env: Env, data: Data) -> Dual:
            values = [body.at(point, data) for point in _points(limits, env, data)]
            return _total(values, data) if binder is IndexedSum else extreme(values, binder is IndexedMax)

        return Real(binder(body.written, *written), at)

    def function(self) -> Real:
        if self.random.random() < 0.5:
            first = self.reduction(())
            return first if self.random.random() < 0.8 else _added([first, self.reduction(())])
        inner, index = self.reduction((P,)), variable(P)
        return Real(
            IndexedSum(WEIGHTS[P] * inner.written, (P, 0, n - 1)),
            lambda env, data: _total(
                [
                    inner.at({P: p}, data).scaled(float(data.arrays[WEIGHTS][index.at({P: p}, data)]))
                    for p in range(data.size)
                ],
                data,
            ),
        )


def _mapped(value: Dual, function: Callable[[float], float], slope: Callable[[float], float]) -> Dual:
    return Dual(float(function(value.value)), float(slope(value.value)) * value.slope)


def _added(terms: Sequence[Real]) -> Real:
    def at(env: Env, data: Data) -> Dual:
        return _total([term.at(env, data) for term in terms], data)

    return Real(sympy.Add(*(term.written for term in terms)), at)


def _total(values: Sequence[Dual], data: Data) -> Dual:
    result = data.zero
    for value in values:
        result = result + value
    return result


def _points(limits: Sequence[tuple[Symbol, Integer, Integer]], env: Env, data: Data) -> Iterator[Env]:
    if not limits:
        yield env
        return
    index, low, high = limits[0]
    for value in range(low.at(env, data), high.at(env, data) + 1):
        yield from _points(limits[1:], {**env, index: value}, data)


def extreme(values: Sequence[Dual], is_greatest: bool) -> Dual:
    """The greatest or the least value; values that are tied share the derivative."""
    numbers = np.array([value.value for value in values])
    best = numbers.max() if is_greatest else numbers.min()
    tied = numbers == best
    if (np.abs(numbers - best) <= _CLOSE * max(1.0, abs(best))).sum() > tied.sum():
        raise NearTieError
    slopes = np.array([value.slope for value in itertools.compress(values, tied)])
    return Dual(float(best), slopes.mean(axis=0))


def check_extrema(seed: int, masks: bool = False, backends: Sequence[str] | None = None) -> None:
    """Check the value and the gradient of one random program in the texts of some backends: NumPy's, and LLVM's for
    every eighth seed, since compiling takes seconds.

    Raises
    ------
    DerivativeMismatch
        A backend's value or gradient differs from the interpreter's.
    UnsupportedError
        The program is refused.
    """
    function = Programs(seed, masks).function()
    results = (function.written, gradient(function.written, VARIABLES))
    expected: list[tuple[Data, Dual]] = []
    generator = np.random.default_rng(seed)
    for size in DRAWS:
        arrays: dict[TensorSymbol, NDArray[Any]] = {v: generator.normal(size=size) for v in (*VARIABLES, WEIGHTS)}
        data = Data(size, {**arrays, IDX: generator.integers(0, size, size)})
        try:
            expected.append((data, function.at({}, data)))
        except NearTieError:
            continue
    arguments = (*VARIABLES, WEIGHTS, IDX)
    for backend in backends or ("numpy", "llvm")[: 1 + (seed % 8 == 0)]:
        kernel = lambdify(arguments, (results[0], *results[1]), backend, temporaries=seed % 4 != 0)
        for data, right in expected:
            value, *slopes = kernel(*(data.arrays[tensor] for tensor in arguments))
            assert_equal(value, right.value, f"the value of {backend} at {data.size}", 1e-9)
            assert_equal(np.concatenate(slopes), right.slope, f"the gradient of {backend} at {data.size}", 1e-9)
