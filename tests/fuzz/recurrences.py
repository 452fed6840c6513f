"""Random recurrences: values, gradients and products with Hessians against dual numbers, in all kernels of a CPU."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import sympy_tensordiff as td
from sympy_tensordiff.errors import DerivativeMismatch
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import hvp

n, m, T = td.indices("n m T")
A, B, u, v, s = (td.TensorSymbol(name, shape) for name, shape in zip("ABuvs", ((n, n), (n, m), n, m, ()), strict=True))
X, Y, z = td.TensorSymbol("X", (T, n)), td.TensorSymbol("Y", (T, m)), td.TensorSymbol("z", T)
VARIABLES = A, B, u, v, s, X, Y, z
SHAPES: dict[str, tuple[Any, ...]] = {"n": (n,), "m": (m,), "": (), "nn": (n, n), "nm": (n, m)}


class RecurrenceGenerator:
    """Makes a random scalar with recurrences in it, whose steps are bounded rational functions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def any(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def term(self, axes: str, known: dict[str, list[Any]], depth: int) -> Any:
        """An expression of these axes, of known expressions by their axes."""
        leaf = lambda own: self.any(*known[own]) if known.get(own) else td.zeros(SHAPES[own])  # noqa: E731
        if depth <= 0 or self.random.random() < 0.2:
            return leaf(axes)
        inner = lambda own: self.term(own, known, depth - 1)  # noqa: E731
        forms: list[Callable[[], Any]] = [
            lambda: inner(axes) + inner(axes),
            lambda: inner(axes) * inner(""),
            lambda: inner(axes) * inner(axes) / (2 + inner(axes) ** 2),
            lambda: inner(axes) / (1 + inner(axes) ** 2),
        ]
        forms += {
            "n": [
                lambda: inner("nn") @ inner("n"),
                lambda: inner("nm") @ inner("m"),
                lambda: inner("nn").T @ inner("n"),
            ],
            "m": [lambda: inner("nm").T @ inner("n")],
            "": [lambda: td.dot(inner("n"), inner("n")), lambda: td.sum(inner("nm")), lambda: td.dot(inner("m"), v)],
            "nn": [lambda: td.outer(inner("n"), inner("n")), lambda: inner("nm") @ inner("nm").T],
            "nm": [lambda: td.outer(inner("n"), inner("m")), lambda: inner("nn") @ inner("nm")],
        }[axes]
        return self.any(*forms)()

    def damped(self, value: Any) -> Any:
        """An expression divided by a number that keeps it small over many steps."""
        return value / (2 + value**2)

    def recurrence(self, known: dict[str, list[Any]], depth: int) -> list[tuple[str, Any]]:
        """The results of a new scan of known expressions, each with its axes."""
        states = [self.any("n", "m", "", "n") for _ in range(self.random.randint(1, 3))]
        rows = [(tensor, axes) for tensor, axes in ((X, "n"), (Y, "m"), (z, "")) if self.random.random() < 0.5]
        rows += [(value, axes) for value, axes in self.stacks if self.random.random() < 0.4]
        length = T if rows or self.random.random() < 0.5 else self.random.randint(1, 3)
        first = {f"h{k}": self.term(axes, known, 1) for k, axes in enumerate(states)}
        outputs = [self.any("n", "m", "", "nm") for _ in range(self.random.randint(0, 2))]

        def step(**given: Any) -> Any:
            inside = {axes: [*values] for axes, values in known.items()}
            for k, axes in [
                *((f"h{k}", axes) for k, axes in enumerate(states)),
                *((f"x{k}", a) for k, (_, a) in enumerate(rows)),
            ]:
                inside.setdefault(axes, []).extend([given[k]] * 3)
            if self.random.random() < 0.3:
                inside.setdefault("", []).append(given["t"])
            if depth > 0 and self.random.random() < 0.3:
                remaining, self.stacks = self.stacks, []
                for axes, value in self.recurrence(inside, depth - 1):
                    inside.setdefault(axes, []).append(value)
                self.stacks = remaining
            new = tuple(self.damped(self.term(axes, inside, 2)) for axes in states)
            return (new, tuple(self.term(axes, inside, 2) for axes in outputs)) if outputs else new

        names = [*first, *(f"x{k}" for k in range(len(rows))), "t"]
        space: dict[str, Any] = {"step": step}
        call = eval(f"lambda {', '.join(names)}: step({', '.join(f'{name}={name}' for name in names)})", space)
        kind = self.any({}, {"last": True}, {"last": True, "total": True}, {"total": True})
        sequences = {f"x{k}": tensor for k, (tensor, _) in enumerate(rows)}
        found = td.scan(call, first, sequences or None, length=length, reverse=self.any(False, True), **kind)
        ends, others = found if outputs else (found, ())
        results = []
        for axes, value in zip(states, ends, strict=True):
            results.append((axes, value if kind.get("last") else self.stacked(value, axes, length)))
        for axes, value in zip(outputs, others, strict=True):
            results.append((axes, value if kind.get("total") else self.stacked(value, axes, length)))
        return results

    def stacked(self, value: Any, axes: str, length: Any) -> Any:
        """The sum of stacked values, or one of them; later scans may read the rows."""
        if length is T:
            self.stacks.append((value, axes))
        return td.sum(value, axis=0) if self.random.random() < 0.5 else value[0]

    def loss(self) -> Any:
        """A scalar of several recurrences, some of which read the results of others."""
        self.stacks: list[tuple[Any, str]] = []
        known = {"nn": [A], "nm": [B], "n": [u], "m": [v], "": [s, 1]}
        total: Any = 0
        for _ in range(self.random.randint(1, 3)):
            for axes, value in self.recurrence(known, 1):
                known[axes].append(value)
                total += td.sum(value * self.any(1, value)) if axes else value
        return total


def check_recurrence(seed: int) -> None:
    """Check a random scalar, its gradient and a product with its Hessian.

    Raises
    ------
    DerivativeMismatch
        One of them differs from dual numbers, or two kernels differ.
    """
    loss, rng = RecurrenceGenerator(seed).loss(), random.Random(seed)
    wrt = tuple(one for one in VARIABLES if one in loss.free_symbols and rng.random() < 0.5) or (u,)
    steps, sizes = rng.choice((1, 2, 3)), {n: 2, m: 3}
    shape = lambda one: [int(sizes.get(extent, steps)) for extent in one.shape]  # noqa: E731
    draw = np.random.default_rng(seed)
    values = {one: draw.integers(-2, 3, shape(one)) for one in VARIABLES}
    along = {one: td.TensorSymbol(f"d{one.name}", one.shape) for one in wrt}
    moves = {one: draw.integers(-2, 3, shape(one)) for one in wrt}
    exact = hvp(loss, moves, values) if any(one in loss.free_symbols for one in wrt) else []
    gradient, product = td.gradient(loss, wrt), td.hvp(loss, wrt, tuple(along.values()))
    given = {**values, **{along[one]: move for one, move in moves.items()}}
    results = [evaluate(loss, values), *(part for pair in zip(*exact, strict=True) for part in pair)]
    exprs = (loss, *gradient, *product)
    for backend in ("llvm", "numpy"):
        found = td.lambdify([*given], exprs, backend)(*(np.asarray(value, float) for value in given.values()))
        for own, other in zip(found, results, strict=False):
            assert_close(own, other, backend)


def assert_close(found: Any, exact: Any, what: str) -> None:
    """Raise `DerivativeMismatch` unless a result is near an exact one."""
    exact = np.asarray(exact).astype(float)
    scale = 1 + float(np.max(np.abs(exact), initial=0))
    if np.shape(found) != exact.shape or not np.all(np.abs(found - exact) <= 1e-9 * scale):
        raise DerivativeMismatch(f"{what}: {found} is not {exact}")
