"""Random programs in index notation: each value is an entry here and an array of all entries in JAX.

A value has an entry for each row k and place i. Steps make values of values: functions of entries; shifts, gathers and
other reads at another place; reductions over places before, after or about i, over equal, smaller or ragged places,
with weights. So a row may hold running sums, scatters, windows and products, one inside of another. A step is not
taken where its value is at a kink or too large.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sympy

import sympy_tensordiff as td

MARGIN = 1e-4
"""The least distance of a value from a kink."""
LARGEST = 50.0
"""The largest absolute value of an entry of a step."""
SHAPES = (2, 13), (3, 4), (1, 1)
"""Rows and places; the first shape decides whether a step is taken."""

k, i, n, m = td.indices("k i n m")
SYMBOLS = {
    "x": td.TensorSymbol("x", (m, n)),
    "y": td.TensorSymbol("y", (m, n)),
    "v": td.TensorSymbol("v", n),
    "r": td.TensorSymbol("r", m),
    "A": td.TensorSymbol("A", (n, n)),
    "long": td.TensorSymbol("long", 2 * n),
    "g": td.TensorSymbol("g", n, dtype=int),
    "h": td.TensorSymbol("h", n, dtype=int),
    "first": td.TensorSymbol("first", m, dtype=int),
    "pointer": td.TensorSymbol("pointer", n + 1, dtype=int),
}
x, y, v, r, A, long, g, h, first, pointer = SYMBOLS.values()
VARIABLES = ("x", "y", "v", "r", "A", "long")

Arrays = dict[str, Any]
Entry = Callable[[Any, Any], Any]


def random_arrays(shape: tuple[int, int], seed: int) -> Arrays:
    """Return arrays of all inputs: places of ``g`` repeat, ``pointer`` rises, some of its ranges are empty."""
    rows, places = shape
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(0, 0.7, (rows, places)),
        "y": rng.normal(0, 0.7, (rows, places)),
        "v": rng.normal(0, 0.7, places),
        "r": rng.uniform(0.1, 0.9, rows),
        "A": rng.normal(0, 0.5, (places, places)),
        "long": rng.normal(0, 0.7, 2 * places),
        "g": rng.integers(0, places, places),
        "h": rng.integers(0, places, places),
        "first": rng.integers(0, places + 1, rows),
        "pointer": np.sort(np.concatenate([[0, places], rng.integers(0, places + 1, places - 1)])),
    }


class Value(NamedTuple):
    """A value with an entry for each row and place.

    Attributes
    ----------
    text : str
    entry : callable
        Return the entry of a row and a place in index notation.
    array : callable
        Return all entries, of shape (rows, places): ``array(library, arrays)`` with NumPy or ``jax.numpy``.
    is_smooth : callable
        Whether all steps are away from kinks and of moderate size: ``is_smooth(arrays)`` in NumPy.
    """

    text: str
    entry: Entry
    array: Callable[[Any, Arrays], Any]
    is_smooth: Callable[[Arrays], bool] = lambda arrays: True


def _places(arrays: Arrays) -> Any:
    return np.arange(arrays["v"].shape[0])


def _full(L: Any, arrays: Arrays, value: Any) -> Any:
    """Return the value broadcast to rows and places."""
    return L.broadcast_to(value, arrays["x"].shape)


LEAVES = (
    Value("x", lambda k, i: x[k, i], lambda L, a: a["x"]),
    Value("y", lambda k, i: y[k, i], lambda L, a: a["y"]),
    Value("v", lambda k, i: v[i], lambda L, a: _full(L, a, a["v"])),
    Value("r", lambda k, i: r[k], lambda L, a: _full(L, a, a["r"][:, None])),
    Value("diagonal", lambda k, i: A[i, i], lambda L, a: _full(L, a, L.diagonal(a["A"]))),
    Value("stride", lambda k, i: long[2 * i], lambda L, a: _full(L, a, a["long"][::2])),
    Value("window", lambda k, i: long[first[k] + i], lambda L, a: a["long"][a["first"][:, None] + _places(a)[None, :]]),
    Value("place", lambda k, i: (i + 1) / sympy.Integer(8), lambda L, a: _full(L, a, (_places(a) + 1) / 8)),
)

UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "sin": (sympy.sin, lambda L, u: L.sin(u)),
    "exp": (lambda u: sympy.exp(u / 4), lambda L, u: L.exp(u / 4)),
    "decay": (lambda u: sympy.exp(-(u**2)), lambda L, u: L.exp(-(u**2))),
    "tanh": (sympy.tanh, lambda L, u: L.tanh(u)),
    "root": (lambda u: sympy.sqrt(1 + u**2), lambda L, u: L.sqrt(1 + u**2)),
    "log": (lambda u: sympy.log(2 + u**2), lambda L, u: L.log(2 + u**2)),
    "softplus": (lambda u: sympy.log(1 + sympy.exp(u)), lambda L, u: L.logaddexp(u, 0)),
    "sigmoid": (lambda u: 1 / (1 + sympy.exp(-u)), lambda L, u: 1 / (1 + L.exp(-u))),
    "square": (lambda u: u**2 / 2, lambda L, u: u**2 / 2),
    "quotient": (lambda u: 1 / (2 + u**2), lambda L, u: 1 / (2 + u**2)),
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "add": (lambda u, w: u + w, lambda L, u, w: u + w),
    "subtract": (lambda u, w: u - 2 * w, lambda L, u, w: u - 2 * w),
    "multiply": (lambda u, w: u * w, lambda L, u, w: u * w),
    "divide": (lambda u, w: u / (2 + w**2), lambda L, u, w: u / (2 + w**2)),
    "squared difference": (lambda u, w: (u - w) ** 2, lambda L, u, w: (u - w) ** 2),
}


class Place(NamedTuple):
    """A read at another place: its index, the same for arrays, and the condition that it exists."""

    index: Callable[[Any, Any], Any]
    places: Callable[[Arrays, Any], Any]
    condition: Callable[[Any], Any] = lambda i: sympy.true


PLACES: dict[str, Place] = {
    "before": Place(lambda k, i: i - 1, lambda a, p: p - 1, lambda i: i >= 1),
    "after": Place(lambda k, i: i + 2, lambda a, p: p + 2, lambda i: i <= n - 3),
    "periodic": Place(lambda k, i: sympy.Mod(i + 1, n), lambda a, p: (p + 1) % len(p)),
    "periodic back": Place(lambda k, i: sympy.Mod(i - 2, n), lambda a, p: (p - 2) % len(p)),
    "reverse": Place(lambda k, i: n - 1 - i, lambda a, p: len(p) - 1 - p),
    "clamped": Place(lambda k, i: sympy.Max(0, i - 1), lambda a, p: np.maximum(0, p - 1)),
    "gather": Place(lambda k, i: g[i], lambda a, p: a["g"]),
    "gather twice": Place(lambda k, i: h[g[i]], lambda a, p: a["h"][a["g"]]),
}


class Mask(NamedTuple):
    """The places j of a reduction for a row k and a place i: limits, a condition, and the same for arrays."""

    limits: Callable[[Any], tuple[Any, Any]]
    condition: Callable[[Any, Any, Any], Any]
    array: Callable[[Arrays], Any]
    has_self: bool = False


def _limited(limits: Callable[[Any], tuple[Any, Any]], holds: Callable[[Any, Any], Any], has_self: bool) -> Mask:
    """Return the mask of limits that do not depend on data."""
    return Mask(
        limits,
        lambda k, i, j: sympy.true,
        lambda a: holds(_places(a)[:, None], _places(a)[None, :])[None],
        has_self,
    )


def _all(i: Any) -> tuple[Any, Any]:
    return 0, n - 1


MASKS: dict[str, Mask] = {
    "all": _limited(_all, lambda i, j: (i >= 0) & (j >= 0), True),
    "until": _limited(lambda i: (0, i), lambda i, j: j <= i, True),
    "earlier": _limited(lambda i: (0, i - 1), lambda i, j: j < i, False),
    "from": _limited(lambda i: (i, n - 1), lambda i, j: j >= i, True),
    "later": _limited(lambda i: (i + 1, n - 1), lambda i, j: j > i, False),
    "near": _limited(lambda i: (sympy.Max(0, i - 1), sympy.Min(n - 1, i + 1)), lambda i, j: abs(i - j) <= 1, True),
    "other": Mask(_all, lambda k, i, j: sympy.Ne(j, i), lambda a: ~np.eye(len(_places(a)), dtype=bool)[None]),
    "equal data": Mask(
        _all, lambda k, i, j: sympy.Eq(g[j], g[i]), lambda a: (a["g"][None, :] == a["g"][:, None])[None]
    ),
    "scatter": Mask(_all, lambda k, i, j: sympy.Eq(g[j], i), lambda a: (a["g"][None, :] == _places(a)[:, None])[None]),
    "smaller": Mask(_all, lambda k, i, j: v[j] < v[i], lambda a: (a["v"][None, :] < a["v"][:, None])[None]),
    "larger in row": Mask(_all, lambda k, i, j: x[k, j] > x[k, i], lambda a: a["x"][:, None, :] > a["x"][:, :, None]),
    "ragged": Mask(
        lambda i: (pointer[i], pointer[i + 1] - 1),
        lambda k, i, j: sympy.true,
        lambda a: ((_places(a)[None, :] >= a["pointer"][:-1, None]) & (_places(a)[None, :] < a["pointer"][1:, None]))[
            None
        ],
    ),
    "until data": Mask(
        lambda i: (0, h[i]), lambda k, i, j: sympy.true, lambda a: (_places(a)[None, :] <= a["h"][:, None])[None]
    ),
}

WEIGHTS: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Arrays, Any, Any], Any]]] = {
    "A[i, j]": (lambda k, i, j: A[i, j], lambda L, a, p, q: a["A"][None]),
    "A[j, i]": (lambda k, i, j: A[j, i], lambda L, a, p, q: a["A"].T[None]),
    "long[i + j]": (lambda k, i, j: long[i + j], lambda L, a, p, q: a["long"][p + q][None]),
    "long[n - 1 + i - j]": (
        lambda k, i, j: long[n - 1 + i - j],
        lambda L, a, p, q: a["long"][a["v"].shape[0] - 1 + p - q][None],
    ),
    "decay": (
        lambda k, i, j: sympy.exp(-r[k] * (i - j) ** 2),
        lambda L, a, p, q: L.exp(-a["r"][:, None, None] * (p - q)[None] ** 2),
    ),
    "wave": (
        lambda k, i, j: sympy.cos(r[k] * (i - j)),
        lambda L, a, p, q: L.cos(a["r"][:, None, None] * (p - q)[None]),
    ),
    "difference": (
        lambda k, i, j: x[k, i] - x[k, j],
        lambda L, a, p, q: a["x"][:, :, None] - a["x"][:, None, :],
    ),
    "kernel": (
        lambda k, i, j: sympy.exp(-((v[i] - v[j]) ** 2)),
        lambda L, a, p, q: L.exp(-((a["v"][:, None] - a["v"][None, :]) ** 2))[None],
    ),
    "ratio": (
        lambda k, i, j: sympy.exp(y[k, j] - y[k, i]),
        lambda L, a, p, q: L.exp(a["y"][:, None, :] - a["y"][:, :, None]),
    ),
    "distance": (lambda k, i, j: i - j, lambda L, a, p, q: (p - q)[None]),
}
RUNNING_WEIGHTS: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Arrays, Any, Any], Any]]] = {
    "fading": (
        lambda k, i, j: sympy.exp(-r[k] * (i - j)),
        lambda L, a, p, q: L.exp(-a["r"][:, None, None] * L.maximum(p - q, 0)[None]),
    ),
    "power": (
        lambda k, i, j: r[k] ** (i - j),
        lambda L, a, p, q: a["r"][:, None, None] ** L.maximum(p - q, 0)[None],
    ),
}
"""Weights that grow without bound where j > i."""


def unary(name: str, u: Value) -> Value:
    """Return a function of an entry."""
    ours, theirs = UNARY[name]
    return Value(
        f"{name}({u.text})", lambda k, i: ours(u.entry(k, i)), lambda L, a: theirs(L, u.array(L, a)), u.is_smooth
    )


def binary(name: str, u: Value, w: Value) -> Value:
    """Return a function of two entries."""
    ours, theirs = BINARY[name]
    return Value(
        f"{name}({u.text}, {w.text})",
        lambda k, i: ours(u.entry(k, i), w.entry(k, i)),
        lambda L, a: theirs(L, u.array(L, a), w.array(L, a)),
        lambda a: u.is_smooth(a) and w.is_smooth(a),
    )


def larger(u: Value, w: Value) -> Value:
    """Return the larger of two entries."""
    return Value(
        f"larger({u.text}, {w.text})",
        lambda k, i: sympy.Max(u.entry(k, i), w.entry(k, i)),
        lambda L, a: L.maximum(u.array(L, a), w.array(L, a)),
        lambda a: u.is_smooth(a) and w.is_smooth(a) and bool(np.all(np.abs(u.array(np, a) - w.array(np, a)) > MARGIN)),
    )


def chosen(u: Value, w: Value) -> Value:
    """Return one of two values where data say so."""
    return Value(
        f"chosen({u.text}, {w.text})",
        lambda k, i: sympy.Piecewise((u.entry(k, i), sympy.Eq(g[i], h[i])), (w.entry(k, i), True)),
        lambda L, a: L.where(a["g"] == a["h"], u.array(L, a), w.array(L, a)),
        lambda a: u.is_smooth(a) and w.is_smooth(a),
    )


def elsewhere(name: str, u: Value) -> Value:
    """Return the entries of another place, 0 where there is none."""
    place = PLACES[name]

    def entry(k: Any, i: Any) -> Any:
        value, condition = u.entry(k, place.index(k, i)), place.condition(i)
        return value if condition == sympy.true else sympy.Piecewise((value, condition), (0, True))

    def array(L: Any, a: Arrays) -> Any:
        places = place.places(a, _places(a))
        is_inside = (places >= 0) & (places < len(places))
        return L.where(is_inside, u.array(L, a)[:, np.clip(places, 0, len(places) - 1)], 0)

    return Value(f"{name}({u.text})", entry, array, u.is_smooth)


def reduction(kind: str, mask_name: str, weight_name: str, u: Value, letter: Any) -> Value:
    """Return a reduction of weighted entries over the places of a mask."""
    mask, weight = MASKS[mask_name], (WEIGHTS | RUNNING_WEIGHTS).get(weight_name)

    def entry(k: Any, i: Any) -> Any:
        term = u.entry(k, letter) * (weight[0](k, i, letter) if weight else 1)
        return _reduction_in_index_notation(kind, term, mask.condition(k, i, letter), (letter, *mask.limits(i)), k)

    def terms(L: Any, a: Arrays) -> tuple[Any, Any]:
        value = u.array(L, a)[:, None, :]
        if weight:
            value = value * weight[1](L, a, _places(a)[:, None], _places(a)[None, :])
        shape = (*a["x"].shape, a["v"].shape[0])
        return L.broadcast_to(value, shape), L.broadcast_to(mask.array(a), shape)

    def is_smooth(a: Arrays) -> bool:
        return u.is_smooth(a) and _is_smooth_reduction(kind, *terms(np, a))

    weighted = f"{weight_name} * {u.text}" if weight else u.text
    text = f"{kind} over {mask_name}({weighted})"
    return Value(text, entry, lambda L, a: _reduction_of_arrays(kind, L, *terms(L, a), a["y"]), is_smooth)


def _reduction_in_index_notation(kind: str, term: Any, condition: Any, limits: tuple[Any, Any, Any], k: Any) -> Any:
    """Return the reduction of ``term`` where a condition holds."""

    def guarded(value: Any, rest: int) -> Any:
        return value if condition == sympy.true else sympy.Piecewise((value, condition), (rest, True))

    powers = sympy.exp(term)
    by_kind: dict[str, Callable[[], Any]] = {
        "sum": lambda: td.IndexedSum(guarded(term, 0), limits),
        "product": lambda: td.IndexedProduct(guarded(1 + term / 16, 1), limits),
        "max": lambda: td.IndexedMax(term, limits),
        "logsumexp": lambda: sympy.log(td.IndexedSum(powers, limits)),
        "average": lambda: td.IndexedSum(powers * y[k, limits[0]], limits) / td.IndexedSum(powers, limits),
    }
    return by_kind[kind]()


def _reduction_of_arrays(kind: str, L: Any, value: Any, is_in: Any, weights: Any) -> Any:
    """Return the same along the last axis of ``value``, where ``is_in`` is true."""
    if kind == "sum":
        return L.sum(L.where(is_in, value, 0), axis=-1)
    if kind == "product":
        return L.prod(L.where(is_in, 1 + value / 16, 1), axis=-1)
    if kind == "max":
        return L.max(L.where(is_in, value, -L.inf), axis=-1)
    powers = L.where(is_in, L.exp(L.where(is_in, value, 0)), 0)
    if kind == "logsumexp":
        return L.log(L.sum(powers, axis=-1))
    return L.sum(powers * weights[:, None, :], axis=-1) / L.sum(powers, axis=-1)


def _is_smooth_reduction(kind: str, value: Any, is_in: Any) -> bool:
    """Return whether there is one greatest value, no factor near 0, and no large term."""
    if kind == "max":
        ordered = np.sort(np.where(is_in, value, -np.inf), axis=-1)
        return ordered.shape[-1] == 1 or bool(np.all(ordered[..., -1] - ordered[..., -2] > MARGIN))
    if kind == "product":
        return bool(np.all(np.abs(np.where(is_in, 1 + value / 16, 1)) > 0.05))
    return bool(np.all(np.abs(np.where(is_in, value, 0)) < LARGEST))


def over_rows(kind: str, u: Value, letter: Any) -> Value:
    """Return a sum over the rows, or the share of a row."""

    def entry(k: Any, i: Any) -> Any:
        if kind == "sum":
            return td.IndexedSum(r[letter] * u.entry(letter, i), (letter, 0, m - 1))
        return sympy.exp(u.entry(k, i)) / td.IndexedSum(sympy.exp(u.entry(letter, i)), (letter, 0, m - 1))

    def array(L: Any, a: Arrays) -> Any:
        value = u.array(L, a)
        if kind == "sum":
            return _full(L, a, L.sum(a["r"][:, None] * value, axis=0))
        return L.exp(value) / L.sum(L.exp(value), axis=0)

    return Value(f"{kind} of rows({u.text})", entry, array, u.is_smooth)


class Program(NamedTuple):
    """A number: the sum of a value over rows and places, or a function of it."""

    value: Value
    outer: str

    def expression(self) -> Any:
        total = td.IndexedSum(self.value.entry(k, i), (i, 0, n - 1), (k, 0, m - 1))
        return UNARY[self.outer][0](total) if self.outer else total

    def number(self, L: Any, arrays: Arrays) -> Any:
        total = L.sum(self.value.array(L, arrays))
        return UNARY[self.outer][1](L, total) if self.outer else total

    def text(self) -> str:
        return f"{self.outer or 'sum'} of the sum of {self.value.text}"


class _Builder:
    """Makes random values of the values that it has."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inputs = [random_arrays(shape, seed) for shape in SHAPES]
        self.letters = 0
        self.values = [self.random.choice(LEAVES) for _ in range(2)]

    def letter(self) -> Any:
        """Return a new index."""
        self.letters += 1
        return td.indices(f"j{self.letters}")

    def step(self) -> Value:
        """Return a random step on random values."""
        chance = self.random
        u = self.values[-1] if chance.random() < 0.6 else chance.choice(self.values)
        w = chance.choice([*self.values, chance.choice(LEAVES)])
        kind = chance.choice([*["unary", "rows", "choice"], *["binary", "place", "reduction"] * 2, *["sum"] * 5])
        if kind == "unary":
            return unary(chance.choice(list(UNARY)), u)
        if kind == "binary":
            return binary(chance.choice(list(BINARY)), u, w)
        if kind == "place":
            return elsewhere(chance.choice(list(PLACES)), u)
        if kind == "rows":
            return over_rows(chance.choice(("sum", "share")), u, self.letter())
        if kind == "choice":
            return chance.choice((larger, chosen))(u, w)
        name = kind if kind == "sum" else chance.choice(("product", "logsumexp", "average", "max"))
        has_self = name not in ("sum", "product")
        mask = chance.choice([one for one in MASKS if MASKS[one].has_self or not has_self])
        weights = [*WEIGHTS, *RUNNING_WEIGHTS] if mask in ("until", "earlier") else list(WEIGHTS)
        return reduction(name, mask, chance.choice(["", "", *weights]), u, self.letter())

    def fits(self, value: Value) -> bool:
        """Return whether all entries are smooth, finite and of moderate size, for all shapes."""
        with np.errstate(all="ignore"):
            for arrays in self.inputs:
                entries = value.array(np, arrays)
                if not np.all(np.isfinite(entries)) or np.max(np.abs(entries)) > LARGEST or not value.is_smooth(arrays):
                    return False
        return True


def random_program(seed: int) -> Program:
    """Return the program of a seed; the same seed gives the same program."""
    builder = _Builder(seed)
    for _ in range(builder.random.randint(3, 7)):
        steps = (builder.step() for _ in range(20))
        fitting = next((step for step in steps if builder.fits(step)), None)
        if fitting:
            builder.values.append(fitting)
    last = builder.values[-1]
    if builder.random.random() < 0.6:
        ending = unary(builder.random.choice(list(UNARY)), last)
        last = ending if builder.fits(ending) else last
    if builder.random.random() < 0.4:
        ending = binary("multiply", last, builder.random.choice(LEAVES))
        last = ending if builder.fits(ending) else last
    return Program(last, builder.random.choice(["", "", "", "root", "log"]))
