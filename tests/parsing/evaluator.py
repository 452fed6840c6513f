"""The text language by NumPy, straight from the grammar: recursive descent that computes as it reads."""

from __future__ import annotations

import re
from functools import reduce

import numpy as np
import scipy.special

import sympy_tensordiff as td

TOKEN = re.compile(
    r"\s*(\([^()]*->[^()]*\)|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|\*_?|[-+/^(),])"
)


def adjugate(matrix):
    """By cofactors, so that singular matrices have one."""
    rows = range(len(matrix))
    return np.array(
        [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(matrix, i, 0), j, 1)) for i in rows] for j in rows]
    )


ENTRYWISE = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "tanh", "exp", "log", "sign", "abs")
OF_MATRICES = {"det": np.linalg.det, "inv": np.linalg.inv, "adj": adjugate}
FUNCTIONS = {
    **{name: getattr(np, name) for name in ENTRYWISE},
    **OF_MATRICES,
    "relu": lambda value: np.maximum(value, 0),
    **{
        name: getattr(np, name)
        for name in ("sqrt", "sinh", "cosh", "greater", "less", "where", "logical_and", "logical_or")
    },
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    **{name: getattr(scipy.special, name) for name in ("erf", "xlogy", "entr", "log1p", "expm1")},
    **{"sigmoid": scipy.special.expit, "softplus": lambda value: np.logaddexp(0, value)},
    **{"sec": lambda value: 1 / np.cos(value), "csc": lambda value: 1 / np.sin(value)},
    **{"cot": lambda value: 1 / np.tan(value), "coth": lambda value: 1 / np.tanh(value)},
    **{"sech": lambda value: 1 / np.cosh(value), "csch": lambda value: 1 / np.sinh(value)},
    **{"maximum": lambda *values: reduce(np.maximum, values), "minimum": lambda *values: reduce(np.minimum, values)},
    **{"not_equal": np.not_equal, "atan2": np.arctan2},
    **{name: getattr(np, name) for name in ("less_equal", "greater_equal", "floor", "hypot")},
}


class SizeNeeded(Exception):
    """The length of an axis is not that of any operand here."""


class Evaluator:
    """Reads an expression over arrays; ``size`` is the length of axes that no operand fixes on the spot."""

    def __init__(self, text: str, arrays: dict[str, np.ndarray], size: int | None) -> None:
        self.tokens = TOKEN.findall(text)
        self.arrays = arrays
        self.size = size

    def value(self):
        result = self.expr()
        assert not self.tokens
        return result

    def peek(self):
        return self.tokens[0] if self.tokens else ""

    def take(self):
        return self.tokens.pop(0)

    def expr(self):
        result = self.term()
        while self.peek() in ("+", "-"):
            result = result + self.term() if self.take() == "+" else result - self.term()
        return result

    def term(self):
        result = self.factor()
        while self.peek() in ("*", "*_", "/"):
            if self.take() == "/":
                result = result / self.factor()
            else:
                letters = self.take()
                result = self.product(letters, result, self.factor())
        return result

    def factor(self):
        if self.peek() == "-":
            self.take()
            return -self.factor()
        if self.peek() == "*_":
            self.take()
        if "->" in self.peek():
            letters = self.take()
            return self.product(letters, self.factor())
        return self.power()

    def power(self):
        result = self.atom()
        while self.peek() == "^":
            self.take()
            result = result ** self.atom()
        return result

    def atom(self):
        token = self.take()
        if token == "(":
            result = self.expr()
            assert self.take() == ")"
            return result
        if token == "delta":
            assert self.take() == "("
            order = int(self.take())
            assert self.take() == ")"
            size = self.length() if order else 1
            return np.eye(size**order).reshape((size,) * 2 * order) if order else np.float64(1)
        if token in self.arrays:
            return self.arrays[token]
        if token[0].isalpha():
            assert self.take() == "("
            arguments = [self.expr()]
            while (mark := self.take()) == ",":
                arguments.append(self.expr())
            assert mark == ")"
            if token in OF_MATRICES and not np.ndim(arguments[0]):
                arguments = [np.full((self.length(), self.length()), arguments[0])]
            return FUNCTIONS[token](*arguments)
        return np.float64(token)

    def length(self):
        if self.size is None:
            raise SizeNeeded
        return self.size

    def product(self, letters, *values):
        inputs, output = "".join(letters.split())[1:-1].split("->")
        groups = inputs.split(",")
        sizes = {}
        for group, value in zip(groups, values, strict=True):
            sizes.update(zip(group, np.shape(value), strict=False))
        full = []
        for group, value in zip(groups, values, strict=True):
            shape = [sizes[letter] if letter in sizes else self.length() for letter in group]
            full.append(value if np.shape(value) else np.full(shape, value))
        return np.einsum(f"{','.join(groups)}->{output}", *full)


def value(text, arrays, length):
    """The value of an expression at some arrays, all of whose axes have one length; NaN by a singular matrix."""
    try:
        return Evaluator(text, arrays, length).value()
    except np.linalg.LinAlgError:
        return np.nan


def arrays(tensors, length=2, seed=0, low=0.2):
    """An array for each tensor, all axes of one length, with entries up to 0.9; of both signs where ``low`` is not."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, tensor in tensors.items():
        shape = (length,) * tensor.rank
        sign = rng.choice([-1, 1], shape) if low < 0 else 1
        found[name] = np.asarray(rng.uniform(abs(low), 0.9, shape) * sign)
    return found


def computed(expr, tensors, values, length=2):
    """The value of an expression; sizes that no tensor fixes are ``length`` as well."""
    fixed = {symbol for tensor in tensors.values() for extent in tensor.shape for symbol in extent.free_symbols}
    extents = {symbol for extent in getattr(expr, "shape", ()) for symbol in extent.free_symbols}
    inside = {symbol for symbol in expr.free_symbols if symbol.is_integer}
    sizes = sorted((extents | inside) - fixed, key=str)
    function = td.lambdify([*tensors.values(), *sizes], expr, backend="numpy")
    return function(*(values[name] for name in tensors), *(length for _ in sizes))
