"""Random programs of whole tensors, with entries, sums and comprehensions between them.

An expression is written for given axes, from the outside in; each axis is one of a few dimensions
of different lengths, so that an axis in a wrong place does not fit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sympy
from sympy import Expr, Symbol

from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import entrywise_functions as entrywise
from sympy_tensordiff.symbolic.whole_tensors import functions, reductions
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid, softplus

from .languages import Kind, RandomFunction

# The numbers of the dimensions of a tensor's axes.
Axes: TypeAlias = tuple[int, ...]

_VARIABLES: dict[str, Axes] = {
    **{"s": (), "u": (0,), "v": (1,), "w": (2,), "A": (0, 1), "B": (1, 2), "C": (0, 2)},
    **{"P": (0, 0), "Q": (1, 1), "R": (0, 1, 2), "S": (1, 1, 0)},
}


class TensorGenerator:
    """Makes one random program; `generate` is called once."""

    def __init__(self, seed: int, kind: Kind, kinks: bool, symbolic: bool) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.kinks = kinks
        lengths = self.random.sample((2, 3, 4), 3)
        symbols = sympy.symbols("N M K", integer=True)
        self.lengths: Sequence[Expr] = symbols if symbolic else [sympy.Integer(n) for n in lengths]
        self.sizes = dict(zip(symbols, lengths, strict=True)) if symbolic else {}
        self.least = lengths
        self.known: dict[Axes, list[Any]] = {}
        self.alpha = Symbol("alpha", real=True)

    def shape(self, axes: Axes) -> tuple[Expr, ...]:
        """The extents of some axes."""
        return tuple(self.lengths[axis] for axis in axes)

    def tensor(self, axes: Axes, depth: int) -> Any:
        """An expression of these axes, sometimes one that is there already."""
        if not axes:
            return self.scalar(depth)
        if axes in self.known and self.random.random() < 0.25:
            return self.random.choice(self.known[axes])
        if depth <= 0:
            return self.leaf(axes)
        choices: list[Callable[[Axes, int], Any]] = [
            *(self.product, self.product, self.product, self.arithmetic, self.arithmetic),
            *(self.function, self.function, self.comprehension),
        ]
        if len(axes) == 2 and axes[0] == axes[1]:
            choices += [self.matrix_function] * 4
        result = self.random.choice(choices)(axes, depth)
        self.known.setdefault(axes, []).append(result)
        return result

    def leaf(self, axes: Axes) -> Any:
        """A variable, its axes moved, or a constant tensor."""
        fitting = [name for name, own in _VARIABLES.items() if sorted(own) == sorted(axes)]
        if fitting and self.random.random() < 0.9:
            name = self.random.choice(fitting)
            own = _VARIABLES[name]
            variable = TensorSymbol(name, self.shape(own))
            return variable if own == axes else self.moved(variable, own, axes)
        if len(axes) == 2 and axes[0] == axes[1] and self.random.random() < 0.5:
            return DeltaTensor(self.lengths[axes[0]])
        return FilledTensor(self.number(), self.shape(axes))

    def moved(self, tensor: Any, own: Axes, axes: Axes) -> Any:
        """A tensor with its axes in another order."""
        labels = dict(enumerate("ijk"))
        left = list(range(len(own)))
        output = ""
        for axis in axes:
            place = next(n for n in left if own[n] == axis)
            left.remove(place)
            output += labels[place]
        return functions.einsum(f"{''.join(labels[n] for n in range(len(own)))}->{output}", tensor)

    def number(self) -> Expr:
        return sympy.Rational(self.random.choice((-3, -2, -1, 1, 2, 3)), self.random.choice((1, 1, 2)))

    # ------------------------------------------------------------------ whole tensors

    def product(self, axes: Axes, depth: int) -> Any:
        """An einsum product of one to four operands: diagonals, transposes, sums, outer products."""
        dimension = dict(zip("abc", axes, strict=False))
        output = "".join(dimension)
        for label in "xy"[: self.random.choice((0 if axes else 1, 1, 1, 2))]:
            dimension[label] = self.random.randrange(3)
        count = self.random.choice((1, 2, 2, 3, 4))
        operands = [self.labels(list(dimension)) for _ in range(count)]
        missing = "".join(label for label in output if not any(label in labels for labels in operands))
        if missing:
            operands.append(missing)
        self.random.shuffle(operands)
        if self.random.random() < 0.3:
            operands.append("")
        factors = [self.tensor(tuple(dimension[label] for label in labels), depth - 1) for labels in operands]
        return functions.einsum(f"{','.join(operands)}->{output}", *factors)

    def labels(self, available: list[str]) -> str:
        """The labels of an operand, sometimes one twice."""
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3))
        return "".join(self.random.choice(available) for _ in range(rank))

    def arithmetic(self, axes: Axes, depth: int) -> Any:
        left = self.tensor(axes, depth - 1)
        right = self.tensor(axes if self.random.random() < 0.7 else (), depth - 2)
        forms: list[Callable[[Any, Any], Any]] = [
            *(lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a * b, lambda a, b: a * b - a),
            *(lambda a, b: a / (2 + b**2), lambda a, b: -a + self.number() * b, lambda a, b: b / (1 + a**2)),
        ]
        return self.random.choice(forms)(left, right)

    def function(self, axes: Axes, depth: int) -> Any:
        """An element-wise function or a softmax."""
        inner = self.tensor(axes, depth - 1)
        forms: list[Callable[[Any], Any]] = [
            *(lambda a: a**2, lambda a: a**3, lambda a: (1 + a**2) ** -1, lambda a: -a),
            lambda a: entrywise.elementwise(lambda x: x / (1 + x**2), a),
        ]
        if self.kinks:
            other = self.tensor(axes, depth - 2)
            forms += [
                *(entrywise.relu, entrywise.abs, lambda a: entrywise.maximum(a, other)),
                *(lambda a: entrywise.sign(a) * a, lambda a: entrywise.minimum(a, 1)),
            ]
        if self.kind == "smooth":
            axis = self.random.randrange(len(axes))
            forms = [
                *(entrywise.sin, entrywise.cos, entrywise.tanh, sigmoid, softplus),
                *(lambda a: entrywise.exp(-(a**2)), lambda a: entrywise.sqrt(1 + a**2)),
                *(lambda a: reductions.softmax(a, axis=axis), lambda a: entrywise.log(1 + a**2)),
                *(lambda a: (1 + a**2) ** entrywise.sin(a), entrywise.arctan),
            ]
        return self.random.choice(forms)(inner)

    def matrix_function(self, axes: Axes, depth: int) -> Any:
        inner = self.tensor(axes, depth - 1)
        forms: list[Callable[[Any], Any]] = [
            # Shifted, so that it is not singular by structure.
            lambda a: functions.inv(a + 5 * DeltaTensor(self.lengths[axes[0]])),
            *(functions.adj, lambda a: a.T, lambda a: a @ a),
        ]
        return self.random.choice(forms)(inner)

    def comprehension(self, axes: Axes, depth: int) -> Any:
        """Entries of tensor expressions in index notation."""
        indices = sympy.symbols("i j p", integer=True)[: len(axes)]
        scope = list(zip(indices, axes, strict=True))
        body = self.entries(scope, depth)
        limits = zip(indices, self.shape(axes), strict=True)
        whole: TensorComprehension = TensorComprehension(body, *limits)
        return whole

    def entries(self, scope: list[tuple[Symbol, int]], depth: int) -> Any:
        """A scalar that reads entries at the indices in scope, under a sum or not."""
        if self.random.random() < 0.5:
            index, axis = self.random.choice(sympy.symbols("k l i", integer=True)), self.random.randrange(3)
            inner = [(symbol, own) for symbol, own in scope if symbol != index] + [(index, axis)]
            total = IndexedSum(self.entries(inner, depth - 1), (index, 0, self.lengths[axis] - 1))
            return total * self.read(scope, depth - 1)
        left, right = self.read(scope, depth - 1), self.read(scope, depth - 2)
        forms: list[Callable[[Any, Any], Any]] = [
            *(lambda a, b: a * b, lambda a, b: a + 2 * b, lambda a, b: a**2 - b, lambda a, b: a / (1 + b**2)),
        ]
        return self.random.choice(forms)(left, right)

    def read(self, scope: list[tuple[Symbol, int]], depth: int) -> Any:
        """An entry of a tensor at some of the indices, sometimes at one twice."""
        chosen = [self.random.choice(scope) for _ in range(self.random.choice((1, 2, 2, 3)))]
        tensor = self.tensor(tuple(axis for _, axis in chosen), depth)
        return tensor[tuple(index for index, _ in chosen)]

    # ------------------------------------------------------------------ scalars

    def scalar(self, depth: int) -> Any:
        draw = self.random.random()
        if depth <= 0 or draw < 0.2:
            return self.random.choice((self.alpha, TensorSymbol("s", ()), self.number()))
        if draw < 0.45:
            return self.native(depth)
        if draw < 0.6:
            return self.product((), depth)
        axes = self.random.choice(((0,), (1,), (2,), (0, 1), (1, 2), (0, 0), (1, 1)))
        inner = self.tensor(axes, depth - 1)
        forms: list[Callable[[Any], Any]] = [
            *(reductions.sum, reductions.mean, lambda a: reductions.norm(a) ** 2),
            lambda a: a[tuple(self.random.randrange(self.least[axis]) for axis in axes)],
        ]
        if len(axes) == 2 and axes[0] == axes[1]:
            forms += [functions.det, functions.det, functions.trace]
        if self.kind == "smooth":
            forms += [reductions.logsumexp, lambda a: reductions.norm(a + 3)]
        return self.random.choice(forms)(inner)

    def native(self, depth: int) -> Any:
        """Scalars joined by SymPy's own nodes."""
        left, right = self.scalar(depth - 1), self.scalar(depth - 2)
        forms: list[Callable[[Any, Any], Any]] = [
            *(lambda a, b: a * b, lambda a, b: a - 2 * b, lambda a, b: a**2 + b, lambda a, b: a / (1 + b**2)),
            *(lambda a, b: -a / self.square(), lambda a, b: a - b / self.square()),
        ]
        if self.kind == "smooth":
            forms += [lambda a, b: sympy.sin(a), lambda a, b: b * sympy.exp(-(a**2))]
        return self.random.choice(forms)(left, right)

    def square(self) -> Any:
        """A contraction that is positive, so that it may be a divisor."""
        vector = self.leaf((self.random.randrange(3),))
        return functions.dot(vector, vector)

    def generate(self, rank: int, depth: int) -> RandomFunction:
        axes = tuple(self.random.randrange(3) for _ in range(rank))
        function = self.tensor(axes, depth)
        variables: list[Expr] = [TensorSymbol(name, self.shape(own)) for name, own in _VARIABLES.items()]
        present = function.free_symbols
        variables = [v for v in [*variables, self.alpha] if v in present]
        return RandomFunction(function, variables, self.sizes, [self.sizes])


def random_tensors(
    seed: int,
    *,
    rank: int | None = None,
    depth: int = 3,
    kind: Kind = "rational",
    kinks: bool = False,
    symbolic: bool | None = None,
) -> RandomFunction:
    """A random program of whole tensors; same arguments, same program.

    Parameters
    ----------
    seed : int
    rank : int, optional
        Of the result, 0 to 3; random where it is left out.
    depth : int
        How deep the expression is nested.
    kind : {"rational", "smooth"}
        Rational functions, which the oracle differentiates exactly, or transcendental ones.
    kinks : bool
        With ``relu``, ``abs``, ``sign``, ``maximum`` and ``minimum``.
    symbolic : bool, optional
        With symbols ``N``, ``M`` and ``K`` as extents; random where it is left out.

    Examples
    --------
    >>> random_tensors(3).function == random_tensors(3).function
    True
    """
    generator = TensorGenerator(seed, kind, kinks, seed % 2 == 1 if symbolic is None else symbolic)
    return generator.generate(generator.random.randrange(4) if rank is None else rank, depth)
