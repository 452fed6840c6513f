"""Random programs of the kinds that devices have schedules for, with their values in NumPy, for any sizes.

Products in tiles, also of triangles and transposed operands, functions of rows and columns, long sums, pairs of points,
windows, reads down columns, gathers and scatters, and their pullbacks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy import Piecewise, Symbol

import sympy_tensordiff as td

Arrays = Mapping[str, Any]
LENGTHS = (1, 2, 3, 5, 8, 16, 17, 24, 31, 33, 47, 63, 65, 100, 129, 260)
EXTENTS = td.indices("n m p")
i, j, k, d = td.indices("i j k d")
BATCHES = [text.split() for text in ("bik bjk bij", "bki bkj bij", "bik bjk jbi", "bik bik bi", "bik bik i")]


class Value(NamedTuple):
    """A tensor expression, and the function that computes it from arrays and sizes in NumPy."""

    expr: Any
    shape: tuple[Any, ...]
    of: Callable[[Arrays], Any]


class DeviceProgram(NamedTuple):
    """Arguments, results, and the values of the first results in NumPy.

    Attributes
    ----------
    sizes : list of dict
        Sizes for calls, among them odd numbers, 1 and 0.
    rows
        The extent that the argument ``index`` selects from.
    """

    arguments: list[Any]
    results: list[Any]
    values: list[Value]
    sizes: list[dict[Symbol, int]]
    rows: Any

    def given(self, sizes: Mapping[Symbol, int], seed: int, dtype: str) -> list[Any]:
        """Arrays for a call."""
        rng, found = np.random.default_rng(seed), []
        for argument in self.arguments:
            shape = [int(sympy.sympify(extent).subs(sizes)) for extent in argument.shape]
            if argument.name == "index":
                found.append(rng.integers(0, max(1, int(sympy.sympify(self.rows).subs(sizes))), shape))
            else:
                found.append(rng.uniform(-1, 1, shape).astype(dtype).astype(float))
        return found


class _Maker:
    """Makes one program: a pool of tensors, to which each step adds a function of some of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        # One extent in five is a number.
        self.extents = [n if self.random.random() < 0.8 else self.random.choice((3, 24, 40)) for n in EXTENTS]
        self.symbols: list[Any] = []
        self.pool: list[Value] = []
        n, m, p = self.extents
        for name, shape in {
            "A": (n, m),
            "B": (m, p),
            "C": (n, m),
            "x": (n,),
            "y": (m,),
            "X": (n, 3),
            "T": (2, n, m),
        }.items():
            symbol = td.TensorSymbol(name, shape)
            self.symbols.append(symbol)
            self.pool.append(Value(symbol, shape, lambda arrays, name=name: arrays[name]))
        self.index = td.TensorSymbol("index", m, dtype=int)

    def pick(self, rank: int) -> Value:
        """A tensor of this rank, rather a new one."""
        found = [value for value in self.pool if len(value.shape) == rank]
        return self.random.choice(found[-4:] if self.random.random() < 0.7 else found)

    def matrix_like(self, value: Value) -> Value:
        """A matrix of the same shape, or the one itself."""
        return self.random.choice([other for other in self.pool if other.shape == value.shape])

    def vector(self, extent: Any) -> Value | None:
        found = [value for value in self.pool if value.shape == (extent,)]
        return self.random.choice(found) if found else None

    # ------------------------------------------------------------------------ steps

    def product(self) -> Value | None:
        """Sums over an index of two matrices, of any function of two entries, over a triangle or under a condition."""
        a = self.pick(2)
        n, m = a.shape
        turned = self.random.random() < 0.5
        others = [v for v in self.pool if len(v.shape) == 2 and v.shape[1 if turned else 0] == m]
        if not others:
            return None
        b = self.random.choice(others)
        p = b.shape[0 if turned else 1]
        entry = b.expr[j, k] if turned else b.expr[k, j]

        def pair(arrays: Arrays) -> tuple[Any, Any]:
            """Operands as ``[i, k, j]``."""
            right = b.of(arrays).T if turned else b.of(arrays)
            return a.of(arrays)[:, :, None], right[None, :, :]

        kinds: list[tuple[Any, Callable[[Any, Any], Any]]] = [
            (a.expr[i, k] * entry, lambda u, v: u * v),
            ((a.expr[i, k] - entry) ** 2, lambda u, v: (u - v) ** 2),
            (sympy.tanh(a.expr[i, k] + 2 * entry), lambda u, v: np.tanh(u + 2 * v)),
            (sympy.Abs(a.expr[i, k]) * entry + 1, lambda u, v: np.abs(u) * v + 1),
        ]
        term, function = self.random.choice(kinds)
        scale = self.vector(m)
        if scale is not None and self.random.random() < 0.3:
            inner = function
            term = term * scale.expr[k]
        else:
            inner, scale = function, None
        lows, highs, remaining = 0, m - 1, lambda a, b, c: a + b + c >= 0
        shape = self.random.choice(("all", "all", "until", "from", "until column"))
        if shape == "until":
            highs, remaining = sympy.Min(i, m - 1), lambda a, b, c: b <= a
        elif shape == "from":
            lows, remaining = i, lambda a, b, c: b >= a
        elif shape == "until column":
            highs, remaining = sympy.Min(j, m - 1), lambda a, b, c: b <= c

        def of(arrays: Arrays) -> Any:
            u, v = pair(arrays)
            terms = np.where(remaining(*np.indices(np.broadcast_shapes(u.shape, v.shape))), inner(u, v), 0)
            return (terms if scale is None else terms * scale.of(arrays)[None, :, None]).sum(1)

        total = td.IndexedSum(term, (k, lows, highs))
        if self.random.random() < 0.3:
            chosen = Piecewise((total, i >= j), (0, True))
            return Value(td.TensorComprehension(chosen, (i, n), (j, p)), (n, p), lambda arrays: np.tril(of(arrays)))
        return Value(td.TensorComprehension(total, (i, n), (j, p)), (n, p), of)

    def rows(self) -> Value | None:
        """Functions of rows and of columns."""
        a, axis = self.pick(2), self.random.randrange(2)
        rest = (a.shape[1 - axis],)
        kinds: list[Callable[[], Value]] = [
            lambda: Value(td.softmax(a.expr, axis=axis), a.shape, lambda s: _softmax(a.of(s), axis)),
            lambda: Value(td.logsumexp(a.expr, axis=axis), rest, lambda s: np.log(np.exp(a.of(s)).sum(axis))),
            lambda: Value(td.max(a.expr, axis=axis), rest, lambda s: a.of(s).max(axis)),
            lambda: Value(td.sum(a.expr, axis=axis), rest, lambda s: a.of(s).sum(axis)),
            lambda: Value(td.sum(td.exp(a.expr), axis=axis), rest, lambda s: np.exp(a.of(s)).sum(axis)),
        ]  # fmt: skip
        return self.random.choice(kinds)()

    def normed(self) -> Value | None:
        """Layer norm, written by indices."""
        a = self.pick(2)
        n, m = a.shape
        mean = td.IndexedSum(a.expr[i, k], (k, 0, m - 1)) / m
        centred = td.TensorComprehension(a.expr[i, j] - mean, (i, n), (j, m))
        spread = td.TensorComprehension(td.IndexedSum(centred[i, k] ** 2, (k, 0, m - 1)) / m + 1, (i, n))
        result = td.TensorComprehension(centred[i, j] / sympy.sqrt(spread[i]), (i, n), (j, m))

        def of(arrays: Arrays) -> Any:
            value = a.of(arrays)
            rest = value - value.mean(1, keepdims=True)
            return rest / np.sqrt((rest**2).mean(1, keepdims=True) + 1)

        return Value(result, a.shape, of)

    def turned(self) -> Value | None:
        """Reads down columns."""
        a = self.pick(2)
        n, m = a.shape
        body = td.TensorComprehension(sympy.sin(a.expr[j, i]) + i - 2 * j, (i, m), (j, n))
        return Value(body, (m, n), lambda s: _turned(a.of(s)))

    def pairs(self) -> Value | None:
        """Sums of values of pairs of points."""
        a = self.pick(2)
        n, m = a.shape
        b = self.vector(n)
        if b is None or (m not in (2, 3) and self.random.random() < 0.6):
            a = self.pool[5]
            n, m = a.shape
            b = self.vector(n)
        assert b is not None
        distance = td.IndexedSum((a.expr[i, d] - a.expr[j, d]) ** 2, (d, 0, m - 1))
        value = td.TensorComprehension(td.IndexedSum(sympy.exp(-distance) * b.expr[j], (j, 0, n - 1)), (i, n))

        def of(arrays: Arrays) -> Any:
            points = a.of(arrays)
            far = ((points[:, None] - points[None]) ** 2).sum(2)
            return np.exp(-far) @ b.of(arrays)

        return Value(value, (n,), of)

    def total(self) -> Value | None:
        """A sum over all entries, or over all but those of the last axis."""
        a = self.pick(self.random.choice((1, 2, 2, 3)))
        if self.random.random() < 0.5 or len(a.shape) == 1:
            return Value(td.sum(td.sin(a.expr) * a.expr), (), lambda s: (np.sin(a.of(s)) * a.of(s)).sum())
        axes = tuple(range(len(a.shape) - 1))
        return Value(td.sum(a.expr * a.expr, axis=axes), a.shape[-1:], lambda s: (a.of(s) ** 2).sum(axes))

    def outer(self) -> Value | None:
        """Products of vectors, with a condition."""
        a, b = self.pick(1), self.pick(1)
        entry = Piecewise((a.expr[i] * b.expr[j], i < j + 2), (a.expr[i] - b.expr[j], True))
        value = td.TensorComprehension(entry, (i, *a.shape), (j, *b.shape))

        def of(arrays: Arrays) -> Any:
            u, v = a.of(arrays)[:, None], b.of(arrays)[None, :]
            first, second = np.indices(np.broadcast_shapes(u.shape, v.shape))
            return np.where(first < second + 2, u * v, u - v)

        return Value(value, (*a.shape, *b.shape), of)

    def gathered(self) -> Value | None:
        """Entries that data select; the pullback scatters."""
        n, m = self.extents[:2]
        a = self.random.choice([value for value in self.pool if len(value.shape) in (1, 2) and value.shape[0] == n])
        if len(a.shape) == 1:
            value = td.TensorComprehension(a.expr[self.index[i]] ** 2, (i, m))
            return Value(value, (m,), lambda s: a.of(s)[s["index"]] ** 2)
        value = td.TensorComprehension(sympy.cos(a.expr[self.index[i], j]), (i, m), (j, a.shape[1]))
        return Value(value, (m, a.shape[1]), lambda s: np.cos(a.of(s)[s["index"]]))

    def running(self) -> Value | None:
        """Sums over all entries before one, or over differences."""
        a = self.pick(1)
        (n,) = a.shape
        if self.random.random() < 0.5:
            value = td.TensorComprehension(td.IndexedSum(a.expr[k] * (k + 1), (k, 0, i)), (i, n))
            return Value(value, (n,), lambda s: (a.of(s) * np.arange(1, len(a.of(s)) + 1)).cumsum())
        value = td.TensorComprehension(td.IndexedSum(sympy.sin(a.expr[i] - a.expr[k]), (k, 0, n - 1)), (i, n))
        return Value(value, (n,), lambda s: np.sin(a.of(s)[:, None] - a.of(s)[None]).sum(1))

    def entries(self) -> Value | None:
        """Functions of the entries of two tensors of one shape, or of a matrix and a vector."""
        a = self.pick(self.random.choice((1, 2, 2, 3)))
        b = self.matrix_like(a)
        if len(a.shape) == 2 and (v := self.vector(a.shape[0])) is not None and self.random.random() < 0.4:
            body = td.TensorComprehension(
                a.expr[i, j] * v.expr[i] + sympy.tanh(a.expr[i, j]), (i, a.shape[0]), (j, a.shape[1])
            )
            return Value(body, a.shape, lambda s: a.of(s) * v.of(s)[:, None] + np.tanh(a.of(s)))
        return Value(td.tanh(a.expr) * b.expr - 2 * b.expr, a.shape, lambda s: np.tanh(a.of(s)) * b.of(s) - 2 * b.of(s))

    def batched(self) -> Value | None:
        """Products of matrices in a batch, with one of several orders of axes."""
        a, b = self.pick(3), self.pick(3)
        if a.shape != b.shape:
            return None
        first, second, out = self.random.choice(BATCHES)
        axes = dict(zip(first, a.shape, strict=True)) | dict(zip(second, b.shape, strict=True))
        subscripts = f"{first},{second}->{out}"
        shape = tuple([axes[axis] for axis in out])
        return Value(td.einsum(subscripts, a.expr, b.expr), shape, lambda s: np.einsum(subscripts, a.of(s), b.of(s)))

    def program(self) -> DeviceProgram:
        """The program: some values and the pullbacks of the last one."""
        steps = [
            self.product, self.product, self.rows, self.rows, self.normed, self.turned, self.pairs, self.total,
            self.outer, self.gathered, self.running, self.entries, self.batched,
        ]  # fmt: skip
        made: list[Value] = []
        for _ in range(self.random.choice((1, 1, 2, 2, 3, 4))):
            new = self.random.choice(steps)()
            if new is not None:
                self.pool.append(new)
                made.append(new)
        made = (made or [self.total()])[-2:]
        last = made[-1]
        cotangent = td.TensorSymbol("G", last.shape) if last.shape else sympy.Integer(1)
        used = [symbol for symbol in self.symbols if last.expr.has(symbol)]
        results = [value.expr for value in made]
        if used:
            results += td.vjp(last.expr, tuple(used), cotangent)
        present = [s for s in (*self.symbols, self.index) if any(r.has(s) for r in results)]
        present += [cotangent] if last.shape and any(r.has(cotangent) for r in results) else []
        free = {n for a in present for n in a.shape if isinstance(n, Symbol)}
        missing = {s for r in results for s in r.free_symbols if s in EXTENTS} - free
        present += [t for t in self.symbols if missing & {*t.shape}]
        return DeviceProgram(present, results, made, self.sizes(), self.extents[0])

    def sizes(self) -> list[dict[Symbol, int]]:
        """Three odd ones, all of length 1, and one with an empty axis."""
        found = [{n: self.random.choice(LENGTHS) for n in EXTENTS} for _ in range(2)]
        found.append(dict.fromkeys(EXTENTS, 1))
        found.append({**found[0], self.random.choice(EXTENTS): 0})
        return found


def _softmax(value: Any, axis: int) -> Any:
    powers = np.exp(value - value.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _turned(value: Any) -> Any:
    first, second = np.indices(value.T.shape)
    return np.sin(value.T) + first - 2 * second


def device_program(seed: int) -> DeviceProgram:
    """The program of a seed."""
    return _Maker(seed).program()
