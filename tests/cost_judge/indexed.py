"""The same functions in index notation: each step a scalar at indices, some of them kept as tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy

import sympy_tensordiff as td

from .functions import ACTIVATIONS, Function, Step

Entry = Callable[..., Any]

_MOST = 24
"""Values of more operations than this are tables."""


def written(function: Function, symbols: Mapping[str, Any]) -> Any:
    """The function in index notation."""
    return _Writer(function, symbols).value()


class _Writer:
    def __init__(self, function: Function, symbols: Mapping[str, Any]) -> None:
        self.function = function
        self.random = random.Random(function.indexed)
        self.entries: dict[str, Entry] = {name: self.read(tensor) for name, tensor in symbols.items()}
        self.tensors: dict[str, Any] = dict(symbols)
        self.count = 0
        self.sizes = {letter: td.indices(letter) for step in function.steps for letter in step.axes}
        self.weights: dict[str, int] = {}

    @staticmethod
    def read(tensor: Any) -> Entry:
        return lambda *indices: tensor[indices] if indices else tensor

    def index(self) -> Any:
        self.count += 1
        return td.indices(f"i{self.count}")

    def total(self, axes: str, body: Callable[..., Any]) -> Any:
        """The sum over fresh indices."""
        indices = [self.index() for _ in axes]
        limits = [(i, 0, self.sizes[letter] - 1) for i, letter in zip(indices, axes, strict=True)]
        value = body(*indices)
        return td.IndexedSum(value, *limits) if limits else value

    def value(self) -> Any:
        steps = self.function.steps
        uses = [name for step in steps for name in step.operands]
        for step in steps:
            if not step.operation:
                continue
            entry = self.entry(step)
            weight = 1 + sum(self.weights.get(name, 0) for name in step.operands)
            is_table = uses.count(step.name) > 1 or weight > _MOST or self.random.random() < 0.6
            if step.axes and (is_table or step.operation in ("softmax", "logsumexp", "norm", "swish", "rational")):
                weight = 0
                entry = self.read(self.table(step.name, step.axes, entry))
            self.entries[step.name], self.weights[step.name] = entry, weight
        return self.entries[steps[-1].name]()

    def table(self, name: str, axes: str, entry: Entry) -> Any:
        indices = [self.index() for _ in axes]
        limits = [(i, self.sizes[letter]) for i, letter in zip(indices, axes, strict=True)]
        self.tensors[name] = td.TensorComprehension(entry(*indices), *limits)
        return self.tensors[name]

    def tensor(self, name: str) -> Any:
        """The whole tensor of a step."""
        return self.tensors.get(name) or self.table(name, self.function.axes[name], self.entries[name])

    def entry(self, step: Step) -> Entry:
        """The scalar at the indices of a step."""
        options = dict(step.options)
        parts = [self.entries[name] for name in step.operands]
        axes = [self.function.axes[name] for name in step.operands]
        name = step.operation
        if name in ACTIVATIONS:
            return lambda *at: _scalar(name, parts[0](*at))
        if name in ("mul_scalar", "div_scalar"):
            return lambda *at: _PAIRS["mul" if name == "mul_scalar" else "quotient"](parts[0](*at), parts[1]())
        if name in _PAIRS:
            return lambda *at: _PAIRS[name](parts[0](*at), parts[1](*at))
        if name in ("solve", "inv", "det", "logdet"):
            whole = eval(step.text("here"), {"td": td, **{one: self.tensor(one) for one in step.operands}})
            if not step.axes:
                return lambda: whole[()] if name == "det" else whole
            return self.read(whole)
        if name.partition("_")[2] in ("row", "column") and name != "row":
            kind, _, place = name.partition("_")
            pair = _PAIRS[{"div": "quotient"}.get(kind, kind)]
            return lambda i, j: pair(parts[0](i, j), parts[1](j if place == "row" else i))
        return self.rearranged(name, options, parts) or self.reduction(name, options, parts, axes)

    @staticmethod
    def rearranged(name: str, options: Mapping[str, Any], parts: Sequence[Entry]) -> Entry | None:
        """An operation that sums nothing."""
        a = parts[0]
        forms: dict[str, Entry] = {
            "half": lambda *at: a(*at) / 2,
            "transpose": lambda i, j: a(j, i),
            "outer": lambda i, j: a(i) * parts[1](j),
            "row": lambda *at: a(options["at"], *at),
            "shifted": lambda i, j: a(i, j) + 4 * sympy.KroneckerDelta(i, j),
        }
        return forms.get(name)

    def reduction(self, name: str, options: Mapping[str, Any], parts: Sequence[Entry], axes: Sequence[str]) -> Entry:
        a = parts[0]
        if name == "trace":
            return lambda: self.total(axes[0][0], lambda i: a(i, i))
        if name == "distances":
            return lambda i, j: self.total(axes[0][1], lambda k: (a(i, k) - a(j, k)) ** 2)
        if name in ("sum", "squares", "norm"):
            power = 1 if name == "sum" else 2
            outer = sympy.sqrt if name == "norm" else lambda value: value
            return lambda: outer(self.total(axes[0], lambda *at: a(*at) ** power))
        if name in ("dot", "inner"):
            return lambda: self.total(axes[0], lambda *at: a(*at) * parts[1](*at))
        if name == "matmul":
            inner = axes[1][0]
            rank = len(axes[0]) - 1
            return lambda *at: self.total(inner, lambda k: a(*at[:rank], k) * parts[1](k, *at[rank:]))
        if name == "einsum":
            return self.einsum(options["subscripts"], parts, axes)
        return self.along(name, options["axis"], a, axes[0])

    def along(self, name: str, place: int, a: Entry, axes: str) -> Entry:
        """A reduction of one axis."""

        def total(function: Callable[[Any], Any], at: tuple[Any, ...]) -> Any:
            return self.total(axes[place], lambda k: function(a(*at[:place], k, *at[place:])))

        if name == "sum_axis":
            return lambda *at: total(lambda value: value, at)
        if name == "mean_axis":
            return lambda *at: total(lambda value: value, at) / self.sizes[axes[place]]
        if name == "logsumexp":
            return lambda *at: sympy.log(total(sympy.exp, at))
        assert name == "softmax", name
        return lambda *at: sympy.exp(a(*at)) / total(sympy.exp, (*at[:place], *at[place + 1 :]))

    def einsum(self, subscripts: str, parts: Sequence[Entry], axes: Sequence[str]) -> Entry:
        inputs, output = subscripts.split("->")
        labels = inputs.split(",")
        lengths = dict(zip("".join(labels), "".join(axes), strict=True))
        summed = [label for label in lengths if label not in output]

        def entry(*at: Any) -> Any:
            known = dict(zip(output, at, strict=True))

            def body(*inner: Any) -> Any:
                every = known | dict(zip(summed, inner, strict=True))
                factors = [p(*(every[label] for label in own)) for own, p in zip(labels, parts, strict=True)]
                return sympy.Mul(*factors)

            return self.total("".join(lengths[label] for label in summed), body)

        return entry


_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (2 + b**2),
    "quotient": lambda a, b: a / b,
}


def _scalar(name: str, x: Any) -> Any:
    """An activation of a number."""
    return eval(ACTIVATIONS[name].here.format("x"), {"td": td, "x": x})
