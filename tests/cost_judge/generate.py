"""Random functions of the kinds that people differentiate twice: `random_function` of a seed, `KINDS` by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .functions import ACTIVATIONS, Builder, Function

WIDTHS = "nmk"


class Generator:
    """Writes one random function; a method for each kind returns the input by which it is differentiated."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.builder = Builder()
        self.depth = self.random.choice((1, 2, 2, 3, 3, 4, 5, 6, 7, 8))

    @property
    def do(self) -> Callable[..., str]:
        return self.builder.do

    @property
    def input(self) -> Callable[..., str]:
        return self.builder.input

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def activation(self, x: str) -> str:
        return self.do(self.random.choice(list(ACTIVATIONS)), x)

    # ---------------------------------------------------------------- parts

    def head(self, x: str) -> str:
        """A number of a value."""
        axes = self.builder.axes(x)
        choices = ["sum", "squares", "norm", "inner", "inner"]
        if axes:
            choices += ["logsumexp"]
        if len(axes) == 2 and axes[0] == axes[1]:
            choices += ["trace"]
        kind = self.random.choice(choices)
        if kind == "inner":
            return self.do("dot" if len(axes) == 1 else "inner", self.input("w" if len(axes) == 1 else "Y", axes), x)
        if kind == "logsumexp":
            while axes:
                x = self.do("logsumexp", x, axis=len(axes) - 1)
                axes = axes[:-1]
            return x
        return self.do(kind, x)

    def normalized(self, x: str) -> str:
        """Rows, or a vector, with the mean 0 and the variance 1, or the softmax, or divided by the norm."""
        axes = self.builder.axes(x)
        kind = self.random.choice(("norm", "softmax", "layer"))
        if kind == "softmax" or (kind == "layer" and len(axes) == 1):
            return self.do("softmax", x, axis=len(axes) - 1)
        if kind == "norm":
            return self.do("div_scalar", x, self.do("norm", x))
        centred = self.do("sub_column", x, self.do("mean_axis", x, axis=1))
        variance = self.do("mean_axis", self.do("mul", centred, centred), axis=1)
        return self.do("div_column", centred, self.do("sqrt", variance))

    def dense(self, x: str, weight: str, width: str, bias: bool) -> str:
        """A layer without its activation: of a vector ``W @ x``, of rows ``X @ W``."""
        axes = self.builder.axes(x)
        if len(axes) == 1:
            y = self.do("matmul", self.input(weight, width + axes), x)
            return self.do("add", y, self.input(f"b{weight}", width)) if bias else y
        y = self.do("matmul", x, self.input(weight, axes[-1] + width))
        return self.do("add_row", y, self.input(f"b{weight}", width)) if bias else y

    def layers(self, x: str, depth: int) -> tuple[str, list[str]]:
        """A network, and its weights."""
        is_shared, has_skips, has_bias = self.chance(0.25), self.chance(0.35), self.chance(0.3)
        is_equal = is_shared or has_skips or self.chance(0.3)
        state, weights = x, []
        for layer in range(depth):
            width = "n" if is_equal else self.random.choice(WIDTHS)
            axes = self.builder.axes(state)
            weight = "W" if is_shared and axes[-1] == width else f"W{layer}"
            weights.append(weight)
            new = self.activation(self.dense(state, weight, width, has_bias))
            if self.chance(0.12):
                new = self.normalized(new)
            if self.chance(0.1):
                new = self.do("mul", new, self.activation(new))
            if has_skips and self.builder.axes(new) == axes and self.chance(0.6):
                new = self.do("add", new, state)
            state = new
        return state, weights

    # ---------------------------------------------------------------- kinds

    def network(self) -> str:
        x = self.input("q", self.random.choice(("d", "d", "bd")))
        state, weights = self.layers(x, self.depth)
        self.head(state)
        return "q" if self.chance(0.6) else self.random.choice(weights)

    def classifier(self) -> str:
        """Cross-entropy of the softmax of a network of rows."""
        x = self.input("X", "bd")
        state, weights = self.layers(x, min(self.depth, 4))
        scores = self.dense(state, "C", "k", self.chance(0.5))
        total = self.do("sum", self.do("logsumexp", scores, axis=1))
        self.do("sub", total, self.do("inner", self.input("Y", "bk"), scores))
        return self.random.choice([*weights, "C", "X"])

    def autoencoder(self) -> str:
        """Tied weights: every decoder is the transpose of its encoder."""
        x = self.input("X", "bn") if self.chance(0.7) else self.input("x", "n")
        depth = min(self.depth, 3)
        state, widths = x, ["n", *self.random.sample("mk", min(depth, 2)), "d"][: depth + 1]
        for layer in range(depth):
            state = self.activation(self.dense(state, f"W{layer}", widths[layer + 1], False))
        for layer in reversed(range(depth)):
            turned = self.do("transpose", f"W{layer}")
            is_row = len(self.builder.axes(state)) > 1
            state = self.do("matmul", *((state, turned) if is_row else (turned, state)))
            state = self.activation(state) if layer else state
        self.do("squares", self.do("sub", state, x))
        return self.random.choice((x, "W0"))

    def chain(self) -> str:
        """Products of matrices, some of them the same, functions between them."""
        state = self.input("v", "n") if self.chance(0.5) else self.input("V", "nm")
        variables = [state]
        for place in range(self.depth):
            name = self.random.choice(("A", "A", f"B{place}"))
            matrix = self.input(name, "nn")
            variables.append(name)
            if self.chance(0.3):
                matrix = self.do("transpose", matrix)
            state = self.do("matmul", matrix, state)
            if self.chance(0.4):
                state = self.activation(state)
            if self.chance(0.2):
                axes = self.builder.axes(state)
                state = self.do("mul", state, self.input("u" if axes == "n" else "U", axes))
        self.head(state)
        return self.random.choice(variables)

    def tree(self) -> str:
        """A tree of operations on vectors and matrices."""
        variables: list[str] = []

        def value(axes: str, depth: int) -> str:
            if depth <= 0 or self.chance(0.1):
                name = {"": "a", "n": "x", "m": "y", "k": "z", "nn": "A", "nm": "B", "mk": "C"}.get(axes, f"T{axes}")
                variables.append(name)
                return self.input(name, axes)
            kinds = ["function", "pair", "pair", "matmul", "matmul"]
            kinds += ["normalized"] if axes else ["reduced", "reduced"]
            kinds += ["outer", "einsum", "broadcast", "transpose"] if len(axes) == 2 else []
            kinds += ["solve"] if axes and axes[0] == "n" else []
            kinds += ["inv"] if axes == "nn" else []
            kind = self.random.choice([one for one in kinds if axes or one in ("function", "pair", "reduced")])
            if kind == "function":
                return self.activation(value(axes, depth - 1))
            if kind == "pair":
                pair = self.random.choice(("add", "sub", "mul", "mul", "div"))
                return self.do(pair, value(axes, depth - 1), value(axes, depth - 2))
            if kind == "reduced":
                return self.head(value(self.random.choice(("n", "m", "nm", "nn")), depth - 1))
            if kind == "normalized":
                return self.normalized(value(axes, depth - 1))
            if kind == "outer":
                return self.do("outer", value(axes[0], depth - 1), value(axes[1], depth - 1))
            if kind == "transpose":
                return self.do("transpose", value(axes[::-1], depth - 1))
            if kind == "einsum":
                inner = self.random.choice(WIDTHS)
                parts = value(axes[0] + inner, depth - 1), value(inner, depth - 2), value(inner + axes[1], depth - 1)
                return self.do("einsum", *parts, subscripts="ik,k,kj->ij")
            if kind == "broadcast":
                operation = self.random.choice(("add_row", "mul_row", "add_column", "mul_column"))
                own = axes[1] if operation.endswith("row") else axes[0]
                return self.do(operation, value(axes, depth - 1), value(own, depth - 2))
            if kind in ("solve", "inv"):
                matrix = self.regular(value("nn", depth - 2))
                return self.do("inv", matrix) if kind == "inv" else self.do("solve", matrix, value(axes, depth - 1))
            inner = self.random.choice(WIDTHS)
            return self.do("matmul", value(axes[0] + inner, depth - 1), value(inner + axes[1:], depth - 1))

        self.head(value(self.random.choice(("n", "nm", "nn")), min(self.depth, 4)))
        return self.random.choice(variables)

    def regular(self, matrix: str) -> str:
        """A matrix whose eigenvalues stay away from 0: ``A @ A.T + 4*I``, or a bounded function of it and that."""
        if self.chance(0.6):
            return self.do("shifted", self.do("matmul", matrix, self.do("transpose", matrix)))
        return self.do("shifted", self.do("half", self.do("sin", matrix)))

    def recurrence(self) -> str:
        """The same step several times, the state kept or read out each time."""
        h, reads = self.input("h", "n"), self.chance(0.4)
        kind = self.random.choice(("plain", "input", "gated"))
        steps, losses = min(self.depth + 1, 6), []
        activation = self.random.choice(list(ACTIVATIONS))
        for time in range(steps):
            new = self.do("matmul", self.input("W", "nn"), h)
            if kind != "plain":
                new = self.do("add", new, self.do("matmul", self.input("U", "nd"), self.input(f"x{time}", "d")))
            new = self.do(activation, new)
            if kind == "gated":
                gate = self.do("sigmoid", self.do("matmul", self.input("G", "nn"), h))
                new = self.do("add", self.do("mul", gate, new), self.do("sub", h, self.do("mul", gate, h)))
            h = new
            if reads:
                losses.append(self.do("squares", h))
        if not reads:
            self.head(h)
        else:
            total = losses[0]
            for one in losses[1:]:
                total = self.do("add", total, one)
            if total != self.builder.steps[-1].name:
                self.do("half", total)
        return self.random.choice(("h", "W"))

    def attention(self) -> str:
        names = self.random.choice((("Q", "K", "V"), ("X", "X", "X")))
        if names[0] == "X":
            x = self.input("X", "bd")
            q, k, v = (self.do("matmul", x, self.input(f"W{name}", "dn")) for name in "qkv")
        else:
            q, k, v = self.input("Q", "bn"), self.input("K", "mn"), self.input("V", "mk")
        scores = self.do("half", self.do("matmul", q, self.do("transpose", k)))
        self.head(self.do("matmul", self.do("softmax", scores, axis=1), v))
        return self.random.choice(("X", "Wq", "Wv") if names[0] == "X" else names)

    def gaussian_process(self) -> str:
        """A likelihood by the points, or by the targets."""
        x, y = self.input("X", "nd"), self.input("y", "n")
        if self.chance(0.5):
            x = self.do("mul_row", x, self.input("s", "d"))
        kernel = self.do("shifted", self.do(self.random.choice(("exp", "rational")), self.do("distances", x)))
        value = self.do("dot", y, self.do("solve", kernel, y))
        if self.chance(0.7):
            self.do("add", value, self.do("logdet", kernel))
        return self.random.choice(("X", "y", "s") if "s" in [s.name for s in self.builder.steps] else ("X", "y"))

    def matrices(self) -> str:
        """Determinants, inverses and solutions of a function of a matrix."""
        matrix = self.regular(self.input("A", "nn"))
        kind = self.random.choice(("logdet", "logdet", "det", "inv", "solve", "quadratic"))
        if kind in ("logdet", "det"):
            value = self.do(kind, matrix)
            self.do("log", value) if kind == "det" else value
        elif kind == "inv":
            self.head(self.do("inv", matrix))
        elif kind == "solve":
            b = self.input("b", "n") if self.chance(0.6) else self.input("B", "nm")
            self.head(self.do("solve", matrix, self.activation(b)))
        else:
            b = self.input("b", "n")
            self.do("dot", b, self.do("solve", matrix, b))
        return self.random.choice(("A", "A", "b")) if kind in ("quadratic",) else "A"

    def sinkhorn(self) -> str:
        kernel = self.do("exp", self.input("C", "nm"))
        turned = self.do("transpose", kernel)
        u = self.input("u", "n")
        for _ in range(min(self.depth, 5)):
            v = self.do("quotient", self.input("b", "m"), self.do("matmul", turned, u))
            u = self.do("quotient", self.input("a", "n"), self.do("matmul", kernel, v))
        self.do("inner", self.do("mul_column", self.do("mul_row", kernel, v), u), "C")
        return self.random.choice(("C", "u"))

    def batches(self) -> str:
        """Products of batches of matrices and vectors."""
        x = self.input("X", "bn")
        form = self.random.choice(("bilinear", "matrices", "factors"))
        if form == "bilinear":
            y = self.do("einsum", x, self.input("W", "nm"), self.input("Z", "bm"), subscripts="bi,ij,bj->b")
        elif form == "matrices":
            y = x
            for place in range(min(self.depth, 4)):
                y = self.do("einsum", self.input(f"A{place}", "bnn"), y, subscripts="bij,bj->bi")
                y = self.activation(y)
        else:
            parts = self.input("F", "nd"), self.input("G", "md"), self.input("H", "kd")
            y = self.do("einsum", *parts, subscripts="ir,jr,kr->ijk")
            y = self.do("sub", y, self.input("T", "nmk"))
            self.do("squares", y)
            return self.random.choice("FG")
        self.head(self.activation(y))
        return self.random.choice(("X", "W") if form == "bilinear" else ("X", "A0"))

    def penalty(self) -> str:
        """A network whose gradient by its input is a loss."""
        x = self.input("q", "d")
        state, weights = self.layers(x, min(self.depth, 3))
        self.head(state)
        return self.random.choice(weights)


KINDS = (
    *("network", "network", "network", "classifier", "autoencoder", "chain", "tree", "tree", "recurrence"),
    *("attention", "gaussian_process", "matrices", "sinkhorn", "batches", "penalty"),
)


def random_function(seed: int) -> Function:
    """The function of a seed; a third of them are in index notation.

    Examples
    --------
    >>> random_function(3) == random_function(3)
    True
    """
    choice = random.Random(seed)
    kind = choice.choice(KINDS)
    generator = Generator(seed)
    wrt: Any = getattr(generator, kind)()
    is_indexed = choice.random() < 0.33 and generator.depth <= 5
    options: dict[str, Any] = {"indexed": seed + 1 if is_indexed else 0}
    if kind == "penalty":
        options["penalty"] = "q"
    return generator.builder.function(f"{kind} {seed}", wrt, **options)
