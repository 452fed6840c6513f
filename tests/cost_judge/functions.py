"""Functions as lists of named steps: one record per operation says how it is written here and in array libraries.

A step has a shape in letters, one for each axis; a letter is a symbolic size. So one function has three forms of the
same text: this package's whole tensors, NumPy's and JAX's arrays; `indexed` writes it in index notation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import sympy

import sympy_tensordiff as td

Sizes = Mapping[str, int]


class Operation(NamedTuple):
    """An operation and its text: ``{0}`` and ``{1}`` are operands, other fields options.

    ``cost`` gives the scalar operations from the numbers of entries of the operands, then of the value. ``array`` is
    the same for arrays; without it ``here`` serves both, with ``td.`` for the name of the library.
    """

    here: str
    array: str = ""
    cost: Callable[..., int] = lambda *entries: entries[-1]


def _sums(*entries: int) -> int:
    return entries[0]


# Activations, each with what it costs: a call of a function counts as one.
ACTIVATIONS: dict[str, Operation] = {
    "tanh": Operation("td.tanh({0})"),
    "sin": Operation("td.sin({0})"),
    "cos": Operation("td.cos({0})"),
    "sigmoid": Operation("td.sigmoid({0})", "1/(1 + xp.exp(-{0}))"),
    "softplus": Operation("td.softplus({0})", "xp.logaddexp({0}, 0.0)"),
    "relu": Operation("td.relu({0})", "xp.maximum({0}, 0.0)"),
    "arctan": Operation("td.arctan({0})"),
    "exp": Operation("td.exp({0}/4)", cost=lambda *n: 2 * n[-1]),
    "gauss": Operation("td.exp(-{0}**2)", cost=lambda *n: 2 * n[-1]),
    "square": Operation("{0}**2/4", cost=lambda *n: 2 * n[-1]),
    "log": Operation("td.log(1 + {0}**2)", cost=lambda *n: 3 * n[-1]),
    "sqrt": Operation("td.sqrt(1 + {0}**2)", cost=lambda *n: 3 * n[-1]),
    "swish": Operation("{0}*td.sigmoid({0})", "{0}/(1 + xp.exp(-{0}))", cost=lambda *n: 2 * n[-1]),
    "rational": Operation("{0}/(1 + {0}**2)", cost=lambda *n: 3 * n[-1]),
}

OPERATIONS: dict[str, Operation] = {
    **ACTIVATIONS,
    "add": Operation("{0} + {1}"),
    "sub": Operation("{0} - {1}"),
    "mul": Operation("{0}*{1}"),
    "div": Operation("{0}/(2 + {1}**2)", cost=lambda *n: 3 * n[-1]),
    "quotient": Operation("{0}/{1}"),
    "half": Operation("{0}/2"),
    "mul_scalar": Operation("{0}*{1}"),
    "div_scalar": Operation("{0}/{1}"),
    "add_row": Operation("{0} + {1}[None, :]"),
    "add_column": Operation("{0} + {1}[:, None]"),
    "sub_column": Operation("{0} - {1}[:, None]"),
    "mul_row": Operation("{0}*{1}[None, :]"),
    "mul_column": Operation("{0}*{1}[:, None]"),
    "div_row": Operation("{0}/{1}[None, :]"),
    "div_column": Operation("{0}/{1}[:, None]"),
    "transpose": Operation("{0}.T", cost=lambda *n: 0),
    "outer": Operation("td.einsum('i,j->ij', {0}, {1})"),
    "row": Operation("{0}[{at}]", cost=lambda *n: 0),
    "sum": Operation("td.sum({0})", cost=_sums),
    "sum_axis": Operation("td.sum({0}, axis={axis})", cost=_sums),
    "mean_axis": Operation("td.mean({0}, axis={axis})", cost=_sums),
    "dot": Operation("td.dot({0}, {1})", "xp.sum({0}*{1})", cost=lambda *n: 2 * n[0]),
    "inner": Operation("td.sum({0}*{1})", cost=lambda *n: 2 * n[0]),
    "squares": Operation("td.sum({0}**2)", cost=lambda *n: 2 * n[0]),
    "norm": Operation("td.norm({0})", "xp.sqrt(xp.sum({0}**2))", cost=lambda *n: 2 * n[0]),
    "softmax": Operation("td.softmax({0}, axis={axis})", "softmax(xp, {0}, {axis})", cost=lambda *n: 4 * n[0]),
    "logsumexp": Operation("td.logsumexp({0}, axis={axis})", "logsumexp(xp, {0}, {axis})", cost=lambda *n: 3 * n[0]),
    "trace": Operation("td.trace({0})", "xp.trace({0})", cost=lambda *n: 0),
    "shifted": Operation("{0} + 4*td.DeltaTensor({0}.shape[0])", "{0} + 4*xp.eye({0}.shape[0])", cost=lambda *n: n[0]),
    "distances": Operation(
        "td.sum({0}**2, axis=1)[:, None] + td.sum({0}**2, axis=1)[None, :] - 2*({0} @ {0}.T)",
        "xp.sum(({0}[:, None] - {0}[None])**2, axis=2)",
    ),
    # The cost of those that follow depends on axes, see `Step.cost`.
    "matmul": Operation("{0} @ {1}"),
    "einsum": Operation("td.einsum('{subscripts}', {operands})"),
    "solve": Operation("td.solve({0}, {1})", "xp.linalg.solve({0}, {1})"),
    "inv": Operation("td.inv({0})", "xp.linalg.inv({0})"),
    "det": Operation("td.det({0})", "xp.linalg.det({0})"),
    "logdet": Operation("td.logdet({0})", "xp.log(xp.linalg.det({0}))"),
}


def softmax(xp: Any, x: Any, axis: int) -> Any:
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


def logsumexp(xp: Any, x: Any, axis: int) -> Any:
    most = xp.max(x, axis=axis, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - most), axis=axis)) + xp.squeeze(most, axis)


@dataclass(frozen=True)
class Step:
    """One value: an ``operation`` of earlier ones, or an input (""), with one letter for each axis in ``axes``."""

    name: str
    axes: str
    operation: str = ""
    operands: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def text(self, form: str) -> str:
        """The operation on the names of the operands, ``form`` being "here" or "array"."""
        operation = OPERATIONS[self.operation]
        template = operation.here
        if form == "array":
            template = operation.array or operation.here.replace("td.", "xp.")
        return template.format(*self.operands, operands=", ".join(self.operands), **dict(self.options))

    def cost(self, axes: Mapping[str, str], sizes: Sizes) -> int:
        """The scalar operations of this step as written; ``axes`` are those of the operands."""
        shapes = [[sizes[letter] for letter in axes[name]] for name in self.operands]
        shapes.append([sizes[letter] for letter in self.axes])
        if self.operation == "matmul":
            return 2 * prod(shapes[2]) * shapes[1][0]
        if self.operation == "distances":
            return 3 * shapes[0][0] ** 2 * shapes[0][1]
        if self.operation == "einsum":  # from left to right
            return self._einsum_cost(shapes)
        if self.operation in ("solve", "inv", "det", "logdet"):
            n = shapes[0][0]
            right = {"solve": 2 * n * prod(shapes[1]), "inv": 4 * n**3 // 3}.get(self.operation, n)
            return 2 * n**3 // 3 + right
        return OPERATIONS[self.operation].cost(*map(prod, shapes))

    def _einsum_cost(self, shapes: Sequence[Sequence[int]]) -> int:
        inputs, output = dict(self.options)["subscripts"].split("->")
        labels = inputs.split(",")
        lengths = {
            label: n for own, shape in zip(labels, shapes, strict=False) for label, n in zip(own, shape, strict=True)
        }
        total, left = 0, set(labels[0])
        for number, own in enumerate(labels[1:], 1):
            every = left | set(own)
            total += 2 * prod(lengths[label] for label in every)
            left = every & (set(output).union(*labels[number + 1 :]))
        return total


@dataclass(frozen=True)
class Function:
    """A number that is the last of ``steps``, and the input ``wrt`` by which it is differentiated."""

    name: str
    steps: tuple[Step, ...]
    wrt: str
    penalty: str = ""
    """An input: the function is then the squared norm of the gradient of what the steps say by this input."""
    indexed: int = 0
    """0: whole tensors; otherwise index notation, with this seed for what is a table and what is written out."""

    @property
    def inputs(self) -> list[Step]:
        return [step for step in self.steps if not step.operation]

    @property
    def axes(self) -> dict[str, str]:
        return {step.name: step.axes for step in self.steps}

    def symbols(self) -> dict[str, Any]:
        """The tensors of the inputs by name."""
        sizes = {letter: td.indices(letter) for step in self.steps for letter in step.axes}
        return {s.name: td.TensorSymbol(s.name, tuple(sizes[a] for a in s.axes)) for s in self.inputs}

    def expression(self, symbols: Mapping[str, Any]) -> Any:
        """The function in this package."""
        value = self._expression(symbols)
        return td.sum(td.gradient(value, symbols[self.penalty]) ** 2) if self.penalty else value

    def _expression(self, symbols: Mapping[str, Any]) -> Any:
        if self.indexed:
            from .indexed import written

            return written(self, symbols)
        values = dict(symbols)
        for step in self.steps:
            if step.operation:
                values[step.name] = eval(step.text("here"), {"td": td, **values})
        return values[self.steps[-1].name]

    def of_arrays(self, xp: Any, arrays: Mapping[str, Any]) -> Any:
        """The value for arrays of a library ``xp``, NumPy or `jax.numpy`."""
        if self.penalty:
            import jax

            plain = replace(self, penalty="")
            gradient = jax.grad(lambda x: plain.of_arrays(xp, {**arrays, self.penalty: x}))(arrays[self.penalty])
            return (gradient**2).sum()
        values = dict(arrays)
        known = {"xp": xp, "softmax": softmax, "logsumexp": logsumexp}
        for step in self.steps:
            if step.operation:
                values[step.name] = eval(step.text("array"), {**known, **values})
        return values[self.steps[-1].name]

    def arrays(self, sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Random inputs."""
        random = np.random.default_rng(seed)
        found = {}
        for step in self.inputs:
            shape = [sizes[letter] for letter in step.axes]
            found[step.name] = random.standard_normal(shape) / np.sqrt(max(shape[-1:] or [1]))
        return found

    def cost(self, sizes: Sizes) -> int:
        """The scalar operations of all steps as they are written."""
        total = sum(step.cost(self.axes, sizes) for step in self.steps if step.operation)
        if self.penalty:
            total = 5 * total + 2 * prod(sizes[letter] for letter in self.axes[self.penalty])
        return total

    def largest(self, sizes: Sizes) -> int:
        """The number of entries of the largest value of a step, or of the product of two operands of one."""
        return max(max(prod(sizes[letter] for letter in axes) for axes in self._values(step)) for step in self.steps)

    def _values(self, step: Step) -> list[str]:
        """The axes of a value, and of the products of two operands that a product of three or more may begin with."""
        if step.operation != "einsum" or len(step.operands) < 3:
            return [step.axes]
        inputs, output = dict(step.options)["subscripts"].split("->")
        labels = inputs.split(",")
        letters = dict(zip("".join(labels), "".join(self.axes[name] for name in step.operands), strict=True))
        found = [step.axes]
        for one, other in itertools.combinations(range(len(labels)), 2):
            rest = set(output).union(*(own for n, own in enumerate(labels) if n not in (one, other)))
            found.append("".join(letters[label] for label in {*labels[one], *labels[other]} & rest))
        return found

    def text(self) -> str:
        """One line of Python that makes the tensors and the function ``f``."""
        letters = sorted({letter for step in self.steps for letter in step.axes})
        symbols = self.symbols()
        lines = [f"{', '.join(letters)}, = td.indices({' '.join(letters)!r})"]
        made = [f"td.TensorSymbol({s.name!r}, ({''.join(a + ', ' for a in s.axes)}))" for s in self.inputs]
        lines.append(f"{', '.join(symbols)}, = {', '.join(made)},")
        penalty = [f"f = td.sum(td.gradient(f, {self.penalty})**2)"] if self.penalty else []
        if self.indexed:
            lines.append(f"f = {sympy.sstr(self._expression(symbols))}")
            return "; ".join([*lines, *penalty])
        uses = [name for step in self.steps for name in step.operands]
        texts: dict[str, str] = {}
        for step in self.steps:
            if not step.operation:
                continue
            inner = replace(step, operands=tuple(texts.get(name, name) for name in step.operands))
            one = inner.text("here")
            if uses.count(step.name) == 1 and self._is_short(step):
                texts[step.name] = one if one.endswith(")") and one.startswith("td.") else f"({one})"
            else:
                lines.append(f"{step.name if uses.count(step.name) else 'f'} = {one}")
        return "; ".join([*lines, *penalty])

    def _is_short(self, step: Step) -> bool:
        """Return whether the only use of a step writes it once."""
        (user,) = [other for other in self.steps if step.name in other.operands]
        place = user.operands.index(step.name)
        return OPERATIONS[user.operation].here.count(f"{{{place}}}") <= 1

    def live(self) -> Function:
        """The function without steps that nothing needs."""
        needed = {self.steps[-1].name, self.wrt}
        remaining = []
        for step in reversed(self.steps):
            if step.name in needed or step.name == self.penalty:
                needed |= set(step.operands)
                remaining.append(step)
        return replace(self, steps=tuple(remaining[::-1]))


@dataclass
class Builder:
    """Writes a function step by step; each method returns the name of the new value."""

    steps: list[Step] = field(default_factory=list)

    def axes(self, name: str) -> str:
        return next(step.axes for step in self.steps if step.name == name)

    def input(self, name: str, axes: str) -> str:
        if all(step.name != name for step in self.steps):
            self.steps.append(Step(name, axes))
        assert self.axes(name) == axes, (name, axes)
        return name

    def do(self, operation: str, *operands: str, axes: str | None = None, **options: Any) -> str:
        name = f"s{len(self.steps)}"
        axes = self._axes(operation, [self.axes(one) for one in operands], options) if axes is None else axes
        self.steps.append(Step(name, axes, operation, operands, tuple(options.items())))
        return name

    def _axes(self, operation: str, axes: Sequence[str], options: Mapping[str, Any]) -> str:
        """The axes of a value."""
        if operation == "matmul":
            assert axes[0][-1] == axes[1][0], axes
            return axes[0][:-1] + axes[1][1:]
        if operation == "einsum":
            inputs, output = options["subscripts"].split("->")
            known = dict(zip(inputs.replace(",", ""), "".join(axes), strict=True))
            return "".join(known[label] for label in output)
        if operation in ("sum", "dot", "inner", "squares", "norm", "trace", "det", "logdet"):
            return ""
        if operation in ("sum_axis", "mean_axis", "logsumexp"):
            return "".join(a for n, a in enumerate(axes[0]) if n != options["axis"])
        if operation == "transpose":
            return axes[0][::-1]
        if operation == "outer":
            return axes[0] + axes[1]
        if operation == "distances":
            return axes[0][0] * 2
        if operation == "row":
            return axes[0][1:]
        if operation == "solve":
            return axes[1]
        assert operation not in ("add", "sub", "mul", "div", "quotient") or axes[0] == axes[1], (operation, axes)
        return axes[0]

    def function(self, name: str, wrt: str, **options: Any) -> Function:
        assert self.steps[-1].axes == "", self.steps[-1]
        return Function(name, tuple(self.steps), wrt, **options).live()
