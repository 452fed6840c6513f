"""The law of cost, and the values, of one function: what breaks them, as `Breach`es.

- A gradient needs at most 5 times the operations of the function, a Hessian-vector product 4 times those of the
  gradient, a Hessian as many of these products as the variable has entries.
- No array of a gradient or of a Hessian-vector product is larger than the largest input, the result and the largest
  value of a step of the function; in a Hessian such a value may have the entries of one axis of the variable more.
- The function itself needs no more than it is written with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import sympy_tensordiff as td

from .functions import Function, Sizes
from .oracle import Figures, executed, figures

SIZES: Sizes = {"n": 48, "m": 40, "k": 56, "d": 44, "b": 36}
"""Sizes at which costs are compared, all different."""

LARGE: Sizes = {letter: 4 * size for letter, size in SIZES.items()}
"""Sizes that tell a factor from one more loop."""

SMALL: Sizes = {"n": 3, "m": 4, "k": 2, "d": 3, "b": 2}
"""Sizes of arrays whose values are compared."""

GRADIENT, PRODUCT, OWN = 5, 4, 1.25
"""Operations of the gradient per operation of the function, of a product with the Hessian per operation of the
gradient, and of the function per operation of its steps as they are written."""

SPARE_ROW = 1.05
"""The factors of a matrix have one row more than it."""

MOST_HESSIAN = 3
"""Axes of a result beyond which no Hessian is asked for."""

TOLERANCE = 1e-7


@dataclass(frozen=True)
class Breach:
    """A defect: ``what`` is "operations", "largest" or "value" of the ``result``, with the figures."""

    result: str
    what: str
    detail: str
    ratio: float = 0.0
    growth: float = 1.0
    """How often the ratio at sizes four times as large is that ratio: about 1 for a factor, 4 for one more loop."""

    @property
    def kind(self) -> str:
        """The same for functions that break the law in the same way."""
        return f"{self.result} {self.what}"

    @property
    def text(self) -> str:
        """The breach in a line."""
        if self.what == "value":
            return f"the value of the {self.result} {self.detail}"
        return f"{self.kind} {self.detail} ({self.ratio:.3g} times the limit, {self.growth:.3g} at sizes times 4)"


@dataclass
class Verdict:
    """The judgement of one function."""

    breaches: list[Breach]
    costs: dict[str, Figures]
    seconds: float


def derivatives(function: Function, symbols: Mapping[str, Any], orders: str = "fghH") -> dict[str, Any]:
    """The function, its gradient, its product with a tangent and, of a vector, its Hessian."""
    value, wrt = function.expression(symbols), symbols[function.wrt]
    found = {"function": value}
    if "g" in orders:
        found["gradient"] = td.gradient(value, wrt)
    if "h" in orders:
        found["hvp"] = td.hvp(value, wrt, td.TensorSymbol("tangent", wrt.shape))
    if "H" in orders and 2 * len(wrt.shape) <= MOST_HESSIAN:
        found["hessian"] = td.hessian(value, wrt)
    return found


def arguments(function: Function, symbols: Mapping[str, Any]) -> list[Any]:
    """All inputs, and a tangent."""
    return [*symbols.values(), td.TensorSymbol("tangent", symbols[function.wrt].shape)]


def judge(
    function: Function, *, orders: str = "fghH", values: bool = True, by_jax: bool | None = None, seed: int = 0
) -> Verdict:
    """Check the cost law and the values of one function; these against JAX, or ``by_jax=False`` against differences.

    Where JAX has no number for a value, differences are the judge, too.
    """
    start = time.process_time()
    symbols = function.symbols()
    given = arguments(function, symbols)
    found = derivatives(function, symbols, orders)
    seconds = time.process_time() - start
    programs = {name: executed(given, one) for name, one in found.items()}
    costs = {name: figures(program, SIZES) for name, program in programs.items()}
    breaches = []
    for result, what, value, bound in limits(function, costs, SIZES):
        if value > bound * SPARE_ROW:
            large = {name: figures(program, LARGE) for name, program in programs.items()}
            again = {(r, w): a / max(b, 1) for r, w, a, b in limits(function, large, LARGE)}
            ratio = value / max(bound, 1)
            growth = again[result, what] / ratio
            breaches.append(Breach(result, what, f"{value:.0f} > {bound:.0f}", ratio, growth))
    if values:
        breaches += wrong_values(function, given, found, seed, has_jax() if by_jax is None else by_jax)
    return Verdict(breaches, costs, seconds)


def limits(function: Function, costs: Mapping[str, Figures], sizes: Sizes) -> list[tuple[str, str, float, float]]:
    """Results, what is limited, its value and its limit."""
    own = costs["function"]
    written, axes = function.cost(sizes), function.axes[function.wrt]
    entries = prod(sizes[letter] for letter in axes)
    spare = 2 * entries + 100  # a result is written, and a tangent read, whatever the function costs
    base = max(min(own.operations, written), own.arguments)
    found = [("function", "operations", own.operations, OWN * written + spare)]
    largest = max(own.largest_argument, function.largest(sizes))
    found.append(("function", "largest", own.largest, largest))
    if "gradient" in costs:
        limit = GRADIENT * base + spare
        one = costs["gradient"]
        found.append(("gradient", "operations", one.operations, limit))
        found.append(("gradient", "largest", one.largest, max(largest, one.largest_result)))
        base = min(max(one.operations, base), limit)
    if "hvp" in costs:
        limit = PRODUCT * base + spare
        one = costs["hvp"]
        found.append(("hvp", "operations", one.operations, limit))
        found.append(("hvp", "largest", one.largest, max(largest, one.largest_result)))
        base = min(max(one.operations, base), limit)
    if "hessian" in costs:
        one = costs["hessian"]
        axis = max((sizes[letter] for letter in axes), default=1)
        found.append(("hessian", "operations", one.operations, entries * base + 2 * entries**2))
        found.append(("hessian", "largest", one.largest, max(axis * function.largest(sizes), one.largest_result)))
    return found


# ---------------------------------------------------------------------------- values


def wrong_values(
    function: Function, given: list[Any], found: Mapping[str, Any], seed: int, by_jax: bool
) -> list[Breach]:
    """The results whose values differ from those of JAX, or of differences where that is not installed."""
    arrays = function.arrays(SMALL, seed)
    tangent = np.random.default_rng(seed + 1).standard_normal(arrays[function.wrt].shape)
    computed = td.lambdify(given, tuple(found.values()), "numpy")
    ours = dict(zip(found, computed(*arrays.values(), tangent), strict=True))
    names = list(found)
    expected, tolerance = {}, dict.fromkeys(names, TOLERANCE)
    if by_jax:
        expected = _by_jax(function, arrays, tangent, names)
    # JAX has no number for the derivative of a norm of nothing but zeros.
    if not by_jax or not all(np.isfinite(value).all() for value in expected.values()):
        own = {
            name: td.lambdify(given[:-1], found[name], "numpy") for name in ("function", "gradient") if name in found
        }
        expected = _differences(function, arrays, tangent, names, own)
        tolerance = dict.fromkeys(names, 1e-5) | {"function": 1e-7 if function.penalty else TOLERANCE}
    breaches: list[Breach] = []
    if np.isnan(expected["function"]):
        return breaches  # undefined there: 0/0, or the logarithm of a negative determinant
    for name, value in ours.items():
        wanted = np.asarray(expected[name])
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-3 * max(abs(float(ours["function"])), 1e-6))
        error = float(np.abs(np.asarray(value) - wanted).max(initial=0)) if np.shape(value) == wanted.shape else np.inf
        if not error <= tolerance[name] * scale:
            breaches.append(Breach(name, "value", f"differs by {error:.3g} where the largest entry is {scale:.3g}"))
    return breaches


def has_jax() -> bool:
    """Return whether JAX is installed; double precision is turned on."""
    try:
        import jax
    except ImportError:
        return False
    jax.config.update("jax_enable_x64", True)
    return True


def _by_jax(function: Function, arrays: Mapping[str, Any], tangent: Any, names: list[str]) -> dict[str, Any]:
    """The results of JAX."""
    has_jax()
    import jax
    import jax.numpy as jnp

    def value(x: Any) -> Any:
        return function.of_arrays(jnp, {**arrays, function.wrt: x})

    x = jnp.asarray(arrays[function.wrt])
    expected: dict[str, Any] = {"function": value(x)}
    if "hvp" in names:
        expected["gradient"], expected["hvp"] = jax.jvp(jax.grad(value), (x,), (jnp.asarray(tangent),))
    elif "gradient" in names:
        expected["gradient"] = jax.grad(value)(x)
    if "hessian" in names:
        along = jax.vmap(lambda v: jax.jvp(jax.grad(value), (x,), (v,))[1])
        expected["hessian"] = along(jnp.eye(x.size).reshape(x.size, *x.shape)).reshape(*x.shape, *x.shape)
    return expected


def _differences(
    function: Function, arrays: Mapping[str, Any], tangent: Any, names: list[str], own: Mapping[str, Callable[..., Any]]
) -> dict[str, Any]:
    """Differences of the NumPy form for a gradient, of our gradient for what is of second order.

    The value of a gradient penalty is made of differences of what it penalises; its gradient is held against
    differences of our own value, which is checked so.
    """

    def of_arrays(at: Any) -> Any:
        return function.of_arrays(np, {**arrays, function.wrt: at})

    def by(name: str) -> Callable[[Any], Any]:
        return lambda at: own[name](*{**arrays, function.wrt: at}.values())

    x = arrays[function.wrt]
    expected: dict[str, Any] = {}
    if function.penalty:
        plain, q = replace(function, penalty=""), arrays[function.penalty]
        inner = _gradient(lambda at: plain.of_arrays(np, {**arrays, function.penalty: at}), q)
        expected["function"] = (inner**2).sum()
    else:
        expected["function"] = of_arrays(x)
    if "gradient" in names:
        expected["gradient"] = _gradient(by("function") if function.penalty else of_arrays, x)
    if "hvp" in names:
        expected["hvp"] = _central(by("gradient"), x, tangent)
    if "hessian" in names:
        expected["hessian"] = _gradient(by("gradient"), x)
    return expected


def _gradient(f: Callable[[Any], Any], x: Any) -> Any:
    """Differences of ``f`` along each entry of ``x``, whose axes come first."""
    units = np.eye(x.size).reshape(x.size, *x.shape)
    found = np.array([_central(f, x, unit) for unit in units])
    return found.reshape(*x.shape, *found.shape[1:])


def _central(f: Callable[[Any], Any], x: Any, along: Any, step: float = 1e-3) -> Any:
    """A difference of fourth order."""
    one, two = ((np.asarray(f(x + h * along)) - np.asarray(f(x - h * along))) / (2 * h) for h in (step, 2 * step))
    return (4 * one - two) / 3
