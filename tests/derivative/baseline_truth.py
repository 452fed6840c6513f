"""The true derivatives of the baseline: sums written out, one number per entry.

`native_value` evaluates anything of SymPy's over arrays by plain loops. With a symbol per entry it gives an explicit
scalar function, and SymPy's scalar calculus gives the truth; with a number per entry it evaluates an answer that SymPy
has given. `sympy_tensordiff.reference` does not read these answers, and is not a judge between SymPy and this package.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import sympy
from baseline import SIZES, K, L, M, N, Task
from native_values import native_value
from sympy import Dummy, Expr, Indexed, KroneckerDelta, Product, Rational, Sum

import sympy_tensordiff as td
from sympy_tensordiff import IndexedSum
from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.reference import evaluate, symbols_of, tensors_of

SETTINGS = ({K: 2, L: 6, M: 3, N: 4}, {K: 3, L: 8, M: 2, N: 6})
"""Values of the sizes for which answers are compared."""

DIGITS = 30


class Point(NamedTuple):
    """Sizes and free indices, the entries of the arrays, and the derivative there."""

    numbers: dict[Any, int]
    arrays: dict[str, dict[tuple[int, ...], Any]]
    derivative: Any


# ------------------------------------------------------------------ the truth


def points(task: Task) -> list[Point]:
    """All values of the sizes and free indices for which the function and its variable are there."""
    return [point for sizes in SETTINGS for point in _points(task, sizes)]


def _points(task: Task, sizes: dict[Any, int]) -> Iterator[Point]:
    arrays = _arrays(task, sizes)
    symbol = cache(lambda name, place: Dummy(f"{name}{place}", real=True))
    numbers_of = {symbol(name, place): number for name, cells in arrays.items() for place, number in cells.items()}

    def as_symbol(name: str, place: tuple[Any, ...]) -> Any:
        cell = arrays[name][place]  # a KeyError outside of the array
        return cell if cell.is_Integer else symbol(name, place)  # integers choose entries

    @cache
    def written_out(inner: frozenset[Any]) -> Any:
        try:
            return native_value(task.function, as_symbol, {**sizes, **dict(inner)})
        except KeyError:
            return None

    outer, inner = sorted(free_indices(*task.by), key=str), free_indices(task.function)
    names = sorted({*outer, *inner}, key=str)
    longest = max(place[axis] for cells in arrays.values() for place in cells for axis in range(len(place)))
    for values in product(range(longest + 1), repeat=len(names)):
        numbers = dict(zip(names, values, strict=True))
        function = written_out(frozenset((n, v) for n, v in numbers.items() if n in inner))
        if function is None:
            continue
        try:
            by = [native_value(entry, as_symbol, {**sizes, **numbers}) for entry in task.by]
        except KeyError:
            continue
        derivative = reduce(sympy.diff, by, function).xreplace(numbers_of)
        yield Point({**sizes, **numbers}, arrays, derivative.doit())


def free_indices(*exprs: Any) -> set[Any]:
    """The integer symbols that are not sizes and not bound (SymPy counts ``x[i]`` itself as a free symbol)."""
    found: set[Any] = set()
    for expr in exprs:
        if isinstance(expr, (Sum, Product)):
            bounds = {s for limit in expr.limits for bound in limit[1:] for s in free_indices(bound)}
            found |= (free_indices(expr.function) | bounds) - set(expr.variables)
        elif expr.is_Symbol and expr.is_integer:
            found.add(expr)
        else:
            found |= free_indices(*(expr.indices if isinstance(expr, Indexed) else expr.args))
    return found - set(SIZES)


def _arrays(task: Task, sizes: dict[Any, int]) -> dict[str, dict[tuple[int, ...], Any]]:
    """Random entries: rationals without ties and zeros, places for an array of integers."""
    generator = random.Random(7)
    bases = sorted({entry.base for expr in (task.function, *task.by) for entry in expr.atoms(Indexed)}, key=str)
    arrays = {}
    for base in bases:
        shape = [int(extent.subs(sizes)) for extent in base.shape]
        places = list(product(*map(range, shape)))
        if base.label.is_integer:
            arrays[base.name] = {place: sympy.Integer(generator.randrange(shape[0])) for place in places}
            continue
        odd = generator.sample(range(-99, 100, 2), len(places))
        arrays[base.name] = {place: Rational(n, 16) for place, n in zip(places, odd, strict=True)}
    return arrays


# ------------------------------------------------------------------ judging


def is_right(answer: Any, point: Point) -> bool | None:
    """Return whether an answer of SymPy's has the right value; None where a derivative in it is left undone."""
    if answer.has(sympy.Derivative):
        return None

    def entry(name: str, place: tuple[Any, ...]) -> Any:
        return point.arrays[name][place]

    try:
        return equal(native_value(answer, entry, point.numbers), point.derivative)
    except KeyError:
        return False


def equal(got: Expr, expected: Expr) -> bool:
    """Exactly where both are rational, to 20 digits otherwise."""
    got, expected = sympy.sympify(got), sympy.sympify(expected)
    if got.is_Rational and expected.is_Rational:
        return bool(got == expected)
    error = abs((got - expected).evalf(DIGITS, chop=True))
    return bool(error <= abs(expected.evalf(DIGITS)) * Rational(1, 10**20) + Rational(1, 10**25))


class Answer(NamedTuple):
    """An answer to a task, and what is to be said of it.

    Attributes
    ----------
    result : Expr or Exception
    right : int
        The number of points at which it has the right value; -1 where a derivative in it is left undone.
    points : int
    """

    result: Any
    right: int
    points: int

    @property
    def deltas(self) -> int:
        """The Kronecker deltas that are under a sum."""
        summed = [node.args[0] for node in self._nodes() if isinstance(node, (Sum, IndexedSum))]
        return len(set().union(*(body.atoms(KroneckerDelta) for body in summed)))

    @property
    def sums(self) -> int:
        """The sums."""
        return len({node for node in self._nodes() if isinstance(node, (Sum, IndexedSum))})

    def _nodes(self) -> Iterator[Any]:
        return sympy.preorder_traversal(self.result) if isinstance(self.result, sympy.Basic) else iter(())


class Answers(NamedTuple):
    """The results of SymPy's `diff`, of its `doit` after that, and of `td.diff`."""

    diff: Answer
    doit: Answer
    ours: Answer


def answers(task: Task) -> Answers:
    """All three, judged."""
    where = points(task)
    native = sympy.diff(task.function, *task.by)
    return Answers(_judged(native, where), _judged(native.doit(), where), judged_ours(task, where))


def _judged(result: Any, where: list[Point]) -> Answer:
    verdicts = [is_right(result, point) for point in where]
    return Answer(result, -1 if None in verdicts else verdicts.count(True), len(where))


def judged_ours(task: Task, where: list[Point]) -> Answer:
    """`td.diff`, evaluated by the reference interpreter and as a NumPy kernel; both must be right."""
    try:
        result = td.diff(task.function, *task.by)
    except TensorDiffError as error:
        return Answer(error, 0, 0)
    kernel = None
    right = 0
    for point in where:
        values = values_of(result, point)
        kernel = kernel or td.lambdify(list(values), result, backend="numpy")
        number = float(point.derivative.evalf(DIGITS))
        exact = equal(_as_sympy(evaluate(result, values)), point.derivative)
        inputs = [value.astype(s.dtype) if isinstance(value, np.ndarray) else value for s, value in values.items()]
        right += exact and bool(abs(kernel(*inputs) - number) <= 1e-12 * max(1, abs(number)))
    return Answer(result, right, len(where))


def values_of(result: Any, point: Point) -> dict[Any, Any]:
    """The inputs of a result of ours: arrays by tensor, then numbers by symbol."""
    values: dict[Any, Any] = {}
    numbers = dict(point.numbers)
    for tensor in tensors_of(result):
        cells = point.arrays[tensor.name]
        values[tensor] = np.empty([1 + max(axis) for axis in zip(*cells, strict=True)], dtype=object)
        for place, number in cells.items():
            values[tensor][place] = Fraction(int(number.p), int(number.q))
        # The extents that an array without a shape was given.
        numbers |= {s: n for s, n in zip(tensor.shape, values[tensor].shape, strict=True) if s not in numbers}
    return values | {symbol: numbers[symbol] for symbol in symbols_of(result)}


def _as_sympy(number: Any) -> Any:
    """A number of the reference interpreter, a fraction or a float of 30 digits."""
    return (
        Rational(number.numerator, number.denominator) if isinstance(number, (int, Fraction)) else sympy.sympify(number)
    )
