"""Random programs of whole arrays: each step calls one function of this package and its namesake in JAX.

A step is a function of a library and of operands, applied to both libraries; so no program is translated. The
vocabulary is NumPy's: views, paddings, joins, cumulative and other reductions, choices, gathers. Networks, solvers and
recurrences are in `cost_judge.generate`. A step is not taken where its value is at a kink or a singularity.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import scipy.special

import sympy_tensordiff as td
from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.testing.values import shape_of

jax.config.update("jax_enable_x64", True)

SIZES = {"n": 4, "m": 3, "k": 5}
MARGIN = 1e-4
"""The least distance of a value from a kink or a singularity."""

XP = SimpleNamespace(
    **{name: getattr(jnp, name) for name in td.__all__ if hasattr(jnp, name)}
    | {name: getattr(jax.nn, name) for name in ("relu", "sigmoid", "softplus", "softmax")}
    | {name: getattr(special, name) for name in ("erf", "logsumexp", "xlogy", "entr", "log_ndtr")}
    | {"norm": jnp.linalg.norm, "take": lambda x, data: x[data], "arctan": jnp.arctan, "abs": jnp.abs}
)
"""JAX's functions by the names that they have here."""

NP = SimpleNamespace(
    **{name: getattr(np, name) for name in td.__all__ if hasattr(np, name)}
    | {name: getattr(scipy.special, name) for name in ("softmax", "erf", "logsumexp", "xlogy", "entr", "log_ndtr")}
    | {"relu": lambda x: np.maximum(x, 0), "sigmoid": scipy.special.expit, "softplus": lambda x: np.logaddexp(x, 0)}
    | {"norm": np.linalg.norm, "take": lambda x, data: x[data], "arctan": np.arctan, "abs": np.abs}
)
"""NumPy's, with which programs are built: JAX compiles each function for each shape."""


def _take(x: Any, data: Any) -> Any:
    """Select entries along the first axis."""
    indices = td.indices(" ".join(f"i{axis}" for axis in range(len(x.shape))) + " i_")[:-1]
    first, *others = indices
    limits = [(first, data.shape[0]), *zip(others, x.shape[1:], strict=True)]
    return td.TensorComprehension(x[(data[first], *others)], *limits)


TD = SimpleNamespace(**{name: getattr(td, name) for name in td.__all__} | {"take": _take})

Call = Callable[..., Any]


class Step(NamedTuple):
    """A value: ``call(library, *operands)``, written as ``text``."""

    text: str
    call: Call
    operands: tuple[int, ...]


@dataclass
class Program:
    """A function of its first inputs, in both languages.

    Attributes
    ----------
    symbols : list
        The inputs here; the last may be data of integers.
    arrays : list of numpy.ndarray
    steps : list of Step
        The last one is a number.
    wrt : int
        The input by which the program is differentiated.
    refusals : list of str
        Steps that this package refused.
    """

    symbols: list[Any]
    arrays: list[Any]
    steps: list[Step] = field(default_factory=list)
    wrt: int = 0
    refusals: list[str] = field(default_factory=list)

    def values(self, library: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs and the values of all steps."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.call(library, *(values[n] for n in step.operands)))
        return values

    def text(self) -> str:
        """Return the inputs and a line for each step."""
        lines = [f"v{n} = {symbol}{symbol.shape}" for n, symbol in enumerate(self.symbols)]
        lines += [
            f"v{n} = {step.text}({', '.join(f'v{o}' for o in step.operands)})"
            for n, step in enumerate(self.steps, len(self.symbols))
        ]
        return "; ".join([*lines, f"by v{self.wrt}"])


class Operation(NamedTuple):
    """An operation on operands of these ranks; ``is_safe`` says whether it is smooth at the values of them."""

    call: Call
    ranks: str
    is_safe: Callable[..., Any] = lambda *_: True
    is_equal_shape: bool = False


def _is_away(x: Any, *centers: float) -> bool:
    return all(bool(np.all(np.abs(x - c) > MARGIN)) for c in centers)


def _is_untied(x: Any) -> bool:
    """Return whether no two entries are nearly equal."""
    entries = np.sort(np.ravel(x))
    return bool(np.all(np.diff(entries) > MARGIN))


UNARY: dict[str, Operation] = {
    "exp": Operation(lambda L, x: L.exp(x / 4), "*"),
    "tanh": Operation(lambda L, x: L.tanh(x), "*"),
    "sin": Operation(lambda L, x: L.sin(x), "*"),
    "cosh": Operation(lambda L, x: L.cosh(x / 3), "*"),
    "arctan": Operation(lambda L, x: L.arctan(x), "*"),
    "sigmoid": Operation(lambda L, x: L.sigmoid(x), "*"),
    "softplus": Operation(lambda L, x: L.softplus(x), "*"),
    "expm1": Operation(lambda L, x: L.expm1(x / 3), "*"),
    "log1p": Operation(lambda L, x: L.log1p(x**2), "*"),
    "sqrt": Operation(lambda L, x: L.sqrt(2 + x**2), "*"),
    "erf": Operation(lambda L, x: L.erf(x), "*"),
    "log_ndtr": Operation(lambda L, x: L.log_ndtr(x), "*"),
    "square": Operation(lambda L, x: L.square(x), "*"),
    "power": Operation(lambda L, x: x**3 / 2, "*"),
    "reciprocal": Operation(lambda L, x: 1 / x, "*", lambda x: bool(np.all(abs(x) > 0.2))),
    "logarithm": Operation(lambda L, x: L.log(x), "*", lambda x: bool(np.all(x > 0.1))),
    "abs": Operation(lambda L, x: L.abs(x), "*", lambda x: _is_away(x, 0)),
    "relu": Operation(lambda L, x: L.relu(x), "*", lambda x: _is_away(x, 0)),
    "clip": Operation(lambda L, x: L.clip(x, -0.6, 0.7), "*", lambda x: _is_away(x, -0.6, 0.7)),
    "where": Operation(lambda L, x: L.where(L.greater(x, 0.2), x**2, -3 * x), "*", lambda x: _is_away(x, 0.2)),
    "where less": Operation(lambda L, x: L.where(L.less(x, 0.1), 0, L.exp(x / 2)), "*", lambda x: _is_away(x, 0.1)),
    "softmax": Operation(lambda L, x: L.softmax(x, axis=0), "+"),
    "softmax of rows": Operation(lambda L, x: L.softmax(x, axis=1), "2"),
    "cumsum": Operation(lambda L, x: L.cumsum(x, axis=0), "+"),
    "cumsum of rows": Operation(lambda L, x: L.cumsum(x, axis=1), "2"),
    "cumprod": Operation(lambda L, x: L.cumprod(x, axis=0), "+", lambda x: _is_away(x, 0)),
    "flip": Operation(lambda L, x: L.flip(x, axis=0), "+"),
    "backwards": Operation(lambda L, x: x[:, ::-1], "2"),
    "tail": Operation(lambda L, x: x[1:], "+"),
    "stride": Operation(lambda L, x: x[::2], "+"),
    "columns": Operation(lambda L, x: x[:, :-1], "2"),
    "row": Operation(lambda L, x: x[1], "+"),
    "column": Operation(lambda L, x: x[:, 0], "2"),
    "roll": Operation(lambda L, x: L.roll(x, 1, axis=0), "+"),
    "roll back": Operation(lambda L, x: L.roll(x, -2, axis=1), "2"),
    "pad": Operation(lambda L, x: L.pad(x, ((1, 2),)), "1"),
    "pad matrix": Operation(lambda L, x: L.pad(x, ((0, 1), (2, 0))), "2"),
    "twice": Operation(lambda L, x: L.concatenate([x, x**2], axis=0), "+"),
    "stack": Operation(lambda L, x: L.stack([x, 2 * x], axis=0), "1"),
    "tril": Operation(lambda L, x: L.tril(x), "2"),
    "triu": Operation(lambda L, x: L.triu(x, 1), "2"),
    "transpose": Operation(lambda L, x: x.T, "2"),
    "diag": Operation(lambda L, x: L.diag(x), "1"),
    "ravel": Operation(lambda L, x: L.ravel(x), "2"),
    "differences": Operation(lambda L, x: x[1:] - x[:-1], "+"),
    "self product": Operation(lambda L, x: x @ x.T, "2"),
    "centred": Operation(lambda L, x: x - L.mean(x, axis=0), "1"),
    "centred rows": Operation(lambda L, x: x - L.mean(x, axis=1, keepdims=True), "2"),
    "scaled": Operation(lambda L, x: x / (1 + L.sum(x**2)), "+"),
}
REDUCTIONS: dict[str, Operation] = {
    "sum": Operation(lambda L, x: L.sum(x, axis=0), "+"),
    "mean": Operation(lambda L, x: L.mean(x, axis=-1), "+"),
    "max": Operation(lambda L, x: L.max(x, axis=0), "+", _is_untied),
    "min": Operation(lambda L, x: L.min(x, axis=-1), "+", _is_untied),
    "prod": Operation(lambda L, x: L.prod(x, axis=-1), "+", lambda x: _is_away(x, 0)),
    "var": Operation(lambda L, x: L.var(x, axis=0), "+"),
    "std": Operation(lambda L, x: L.std(x), "+", lambda x: bool(np.std(x) > 0.01)),
    "logsumexp": Operation(lambda L, x: L.logsumexp(x, axis=0), "+"),
    "norm": Operation(lambda L, x: L.norm(x), "+", lambda x: bool(np.linalg.norm(x) > 0.01)),
    "trace": Operation(lambda L, x: L.trace(x @ x.T), "2"),
}
BINARY: dict[str, Operation] = {
    "add": Operation(lambda L, x, y: x + y, "**", is_equal_shape=True),
    "subtract": Operation(lambda L, x, y: x - 2 * y, "**", is_equal_shape=True),
    "multiply": Operation(lambda L, x, y: x * y, "**", is_equal_shape=True),
    "divide": Operation(lambda L, x, y: x / (2 + y**2), "**", is_equal_shape=True),
    "maximum": Operation(lambda L, x, y: L.maximum(x, y), "**", lambda x, y: _is_away(x - y, 0), is_equal_shape=True),
    "minimum": Operation(
        lambda L, x, y: L.minimum(x, y / 2), "**", lambda x, y: _is_away(x - y / 2, 0), is_equal_shape=True
    ),
    "hypot": Operation(
        lambda L, x, y: L.hypot(x, y), "**", lambda x, y: bool(np.all(x**2 + y**2 > 0.01)), is_equal_shape=True
    ),
    "logaddexp": Operation(lambda L, x, y: L.logaddexp(x, y), "**", is_equal_shape=True),
    "select": Operation(
        lambda L, x, y: L.where(L.greater(x, y), x * y, L.sin(y)),
        "**",
        lambda x, y: _is_away(x - y, 0),
        is_equal_shape=True,
    ),
    "xlogy": Operation(lambda L, x, y: L.xlogy(x, 1 + y**2), "**", lambda x, y: _is_away(x, 0), is_equal_shape=True),
    "join": Operation(lambda L, x, y: L.concatenate([x, y], axis=0), "11"),
    "outer": Operation(lambda L, x, y: L.outer(x, y), "11"),
    "kron": Operation(lambda L, x, y: L.kron(x, y), "11"),
    "all differences": Operation(lambda L, x, y: L.sin(x[:, None] - y[None, :]), "11"),
    "matmul": Operation(lambda L, x, y: x @ y, "22"),
    "apply": Operation(lambda L, x, y: x @ y, "21"),
    "scale rows": Operation(lambda L, x, y: x * y[:, None], "21"),
    "shift columns": Operation(lambda L, x, y: x + y, "21"),
    "times a number": Operation(lambda L, x, y: x * y, "+0"),
    "bilinear": Operation(lambda L, x, y: L.einsum("i,ij,ij->j", y, x, x), "21"),
}
SQUARES = Operation(lambda L, x: L.sum(x**2), "+")
OPERATIONS = UNARY | REDUCTIONS | BINARY


class _Builder:
    """Adds random steps to a program, and keeps the values that it has in both languages."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        rng = np.random.default_rng(seed)
        is_symbolic = self.random.random() < 0.7
        letters = dict(zip(SIZES, td.indices(" ".join(SIZES)), strict=True)) if is_symbolic else SIZES
        axes = {"x": "n", "y": self.random.choice("nm"), "A": self.random.choice(("nm", "nn", "mk")), "s": ""}
        symbols = [td.TensorSymbol(name, tuple(letters[a] for a in own)) for name, own in axes.items()]
        arrays = [rng.standard_normal([SIZES[a] for a in own]) for own in axes.values()]
        self.has_data = self.random.random() < 0.4
        if self.has_data:
            symbols.append(td.TensorSymbol("idx", (letters["k"],), dtype=int))
            arrays.append(rng.integers(0, 2, SIZES["k"]))
        self.program = Program(symbols, arrays)
        self.ours, self.theirs = list(symbols), list(arrays)
        self.live = list(range(len(axes)))
        self.refusals: list[str] = []

    def add(self, name: str, operation: Operation, *operands: int) -> bool:
        """Add a step if it is defined and smooth there; say whether it was added."""
        theirs = [self.theirs[n] for n in operands]
        ours = [self.ours[n] for n in operands]
        if operation.is_equal_shape and shape_of(ours[0]) != shape_of(ours[1]):
            return False
        try:
            with np.errstate(all="ignore"):
                value = operation.call(NP, *theirs)
                if not operation.is_safe(*theirs):
                    return False
        except (TypeError, ValueError, IndexError):
            return False  # shapes that do not fit
        if not bool(np.all(np.isfinite(value))) or float(np.max(np.abs(value), initial=0)) > 1e4 or value.size == 0:
            return False
        if value.ndim > 2 or value.size > 80:
            return False
        try:
            result = operation.call(TD, *ours)
        except TensorDiffError as error:
            self.refusals.append(f"{name}: {error}")
            return False
        self.ours.append(result)
        self.theirs.append(value)
        self.program.steps.append(Step(name, operation.call, operands))
        self.live = [n for n in self.live if n not in operands or self.random.random() < 0.4]
        self.live.append(len(self.ours) - 1)
        return True

    def step(self) -> None:
        """Try random steps until one fits."""
        for _ in range(40):
            if self.has_data and self.random.random() < 0.05:
                name, operation = "take", Operation(lambda L, x, data: L.take(x, data), "+i")
            else:
                name = self.random.choice(list(OPERATIONS))
                operation = OPERATIONS[name]
            operands = [self.operand(kind) for kind in operation.ranks]
            if None not in operands and self.add(name, operation, *operands):
                return

    def operand(self, kind: str) -> int | None:
        """Return a value whose rank fits: of later steps more often."""
        if kind == "i":
            return len(self.program.symbols) - 1
        ranks = {"*": (0, 1, 2), "+": (1, 2)}.get(kind) or (int(kind),)
        fitting = [n for n in self.live if self.theirs[n].ndim in ranks]
        return self.random.choice(fitting) if fitting else None


def random_program(seed: int) -> Program:
    """Return the program of a seed; the same seed gives the same program."""
    builder = _Builder(seed)
    chance = builder.random
    for _ in range(chance.randint(1, 8)):
        builder.step()
    last = len(builder.ours) - 1
    while builder.theirs[last].ndim:
        kinds = [(name, one) for name, one in REDUCTIONS.items() if one.ranks in ("+", str(builder.theirs[last].ndim))]
        builder.add(*chance.choice([*kinds, ("sum", REDUCTIONS["sum"]), ("squares", SQUARES)]), last)
        last = len(builder.ours) - 1
    program = builder.program
    used = {n for step in program.steps for n in step.operands}
    variables = [n for n in range(4) if n in used] or [0]
    # A scalar has one second derivative: a vector or a matrix tests more.
    program.wrt = chance.choice([n for n in variables if builder.theirs[n].ndim] or variables)
    program.refusals = builder.refusals
    return program
