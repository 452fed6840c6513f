"""Random matrix formulas: their values against NumPy, their texts read back, damaged texts refused with a place."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sympy_tensordiff.codegen.api import evaluate
from sympy_tensordiff.errors import DerivativeMismatch, ParseError, UnsupportedError
from sympy_tensordiff.parsing.api import parse
from sympy_tensordiff.parsing.to_text import to_text

SIZES = {"n": 2, "m": 3}
DECLARED = "declare c, x[n], y[n], u[m], A[n, m], B[n, m], S[n, n], T[m, m]  "
Shape = tuple[str, ...]
NAMES: dict[str, Shape] = {
    **{"c": (), "x": ("n",), "y": ("n",), "u": ("m",), "A": ("n", "m"), "B": ("n", "m"), "S": ("n", "n")},
    "T": ("m", "m"),
}
_RTOL = 1e-8
_DAMAGE = "'*./^@()+-,[]=x A2#\\"


class Formula(NamedTuple):
    """A text, and what computes its value from the arrays."""

    text: str
    value: Callable[[Mapping[str, Any]], Any]


def check_formula(seed: int) -> None:
    """Check one random formula.

    Raises
    ------
    DerivativeMismatch
        If its value, or that of its text written and read again, differs from NumPy's.
    """
    draw = random.Random(seed)
    shape = draw.choice([(), (), ("n",), ("m",), ("n", "m"), ("n", "n")])
    formula = _Maker(draw).make(shape, draw.randint(1, 5))
    generator = np.random.default_rng(seed)
    arrays = {name: generator.uniform(0.5, 1.5, [SIZES[size] for size in axes]) for name, axes in NAMES.items()}
    parsed = parse(DECLARED + formula.text, language="matrix")
    _compare(parsed, arrays, formula.value(arrays), formula.text)
    try:
        written = to_text(parsed, language="matrix")
    except UnsupportedError:
        written = ""
    if written:
        _compare(parse(written, language="matrix"), arrays, formula.value(arrays), written)
    for text in (formula.text, _damaged(draw, formula.text), _damaged(draw, DECLARED + formula.text)):
        try:
            parse(text, language="matrix")
        except ParseError as error:
            if error.line != 1 or not 1 <= error.column <= len(text) + 1:
                raise DerivativeMismatch(f"the place of the error is outside of the text {text}: {error}") from None


def _compare(parsed: Any, arrays: Mapping[str, Any], expected: Any, text: str) -> None:
    sizes = {symbol: SIZES[str(symbol)] for tensor in parsed.tensors.values() for symbol in tensor.shape}
    values = {tensor: arrays[name] for name, tensor in parsed.tensors.items()}
    found = evaluate(parsed.expression, {**values, **sizes})
    if np.shape(found) != np.shape(expected) or np.abs(found - expected).max() >= _RTOL * (1 + np.abs(expected).max()):
        raise DerivativeMismatch(f"the value of {text} is {found!r}, expected {expected!r}")


def _damaged(draw: random.Random, text: str) -> str:
    """A text with some characters replaced, removed or added."""
    characters = list(text)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(characters) + 1)
        characters[place : place + draw.randint(0, 1)] = draw.choices(_DAMAGE, k=draw.randint(0, 2))
    return "".join(characters)


class _Maker:
    """Makes formulas of a shape, whose values stay moderate; rows occur as transposes in products only."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    def make(self, shape: Shape, depth: int) -> Formula:
        """A formula."""
        if depth == 0:
            return self.leaf(shape)
        rules = [self.total, self.entries, self.function, self.scaled]
        rules += [self.product, self.product] if shape else [self.reduced, self.reduced, self.inner]
        return self.draw.choice(rules)(shape, depth - 1)

    def leaf(self, shape: Shape) -> Formula:
        known = [name for name, axes in NAMES.items() if axes == shape]
        if not known:  # the other way round
            inner = self.leaf(shape[::-1])
            return Formula(f"{inner.text}'", lambda v: inner.value(v).T)
        name = self.draw.choice(known)
        if not shape and self.draw.random() < 0.5:
            number = self.draw.choice(["2", "0.5", "3"])
            return Formula(number, lambda v: float(number))
        return Formula(name, lambda v: v[name])

    def total(self, shape: Shape, depth: int) -> Formula:
        a, b = self.make(shape, depth), self.make(shape, depth)
        if self.draw.random() < 0.5:
            return Formula(f"({a.text} + {b.text})", lambda v: a.value(v) + b.value(v))
        return Formula(f"({a.text} - {b.text})", lambda v: a.value(v) - b.value(v))

    def entries(self, shape: Shape, depth: int) -> Formula:
        a, b = self.make(shape, depth), self.make(shape, depth)
        if self.draw.random() < 0.3:
            return Formula(f"({a.text}).^2", lambda v: a.value(v) ** 2)
        if self.draw.random() < 0.3:
            return Formula(f"({a.text}./(2 + ({b.text}).^2))", lambda v: a.value(v) / (2 + b.value(v) ** 2))
        return Formula(f"({a.text}.*{b.text})", lambda v: a.value(v) * b.value(v))

    def function(self, shape: Shape, depth: int) -> Formula:
        a = self.make(shape, depth)
        functions: dict[str, Callable[[Any], Any]] = {"sin": np.sin, "tanh": np.tanh, "cos": np.cos, "abs": np.abs}
        name = self.draw.choice([*functions])
        return Formula(f"{name}({a.text})", lambda v: functions[name](a.value(v)))

    def scaled(self, shape: Shape, depth: int) -> Formula:
        a, b = self.make((), depth), self.make(shape, depth)
        if self.draw.random() < 0.3:
            return Formula(f"(-({b.text})/3)", lambda v: -b.value(v) / 3)
        return Formula(f"(({a.text})*{b.text})", lambda v: a.value(v) * b.value(v))

    def product(self, shape: Shape, depth: int) -> Formula:
        size = self.draw.choice([*SIZES])
        if len(shape) == 2 and self.draw.random() < 0.3:
            a, b = self.make(shape[:1], depth), self.make(shape[1:], depth)
            return Formula(f"({a.text}*({b.text})')", lambda v: np.outer(a.value(v), b.value(v)))
        a, b = self.make((shape[0], size), depth), self.make((size, *shape[1:]), depth)
        return Formula(f"({a.text}*{b.text})", lambda v: a.value(v) @ b.value(v))

    def inner(self, shape: Shape, depth: int) -> Formula:
        size = self.draw.choice([*SIZES])
        a, b = self.make((size,), depth), self.make((size,), depth)
        return Formula(f"(({a.text})'*{b.text})", lambda v: a.value(v) @ b.value(v))

    def reduced(self, shape: Shape, depth: int) -> Formula:
        a = self.make(self.draw.choice([("n",), ("n", "m"), ("n", "n")]), depth)
        reductions: dict[str, Callable[[Any], Any]] = {
            **{"sum": np.sum, "norm2": np.linalg.norm, "norm1": lambda value: np.abs(value).sum()},
            "logsumexp": lambda value: np.logaddexp.reduce(np.ravel(value)),
        }
        name = self.draw.choice([*reductions])
        return Formula(f"{name}({a.text})", lambda v: reductions[name](a.value(v)))
