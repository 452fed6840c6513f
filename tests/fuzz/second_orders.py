"""Functions for which second derivatives have gone wrong, and all ways to a second derivative against each other.

`paired` makes functions of values that rules of simplification pair with their opposites or transposes, among them
some that are their own: ``sigmoid(0)``, ``exp(A - A.T)``. `selected` makes functions in which index arrays select
rows of products.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy import Eq, Expr, KroneckerDelta, Ne, Piecewise, Symbol

from sympy_tensordiff.derivative.api import gradient, hessian, hvp, jvp, vjp
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference import hvp as exact_hvp
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import entrywise_functions as entrywise
from sympy_tensordiff.symbolic.whole_tensors import functions, reductions
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid, softplus
from sympy_tensordiff.testing.values import random_values, shape_of

from .costs import assert_within_law
from .equality import as_scalar, assert_equal

i, j, k, t, n, m, d = indices("i j k t n m d")


class SecondOrder(NamedTuple):
    """A scalar function, its variables, the sizes and the entries of its index arrays."""

    function: Expr
    variables: tuple[Expr, ...]
    sizes: Mapping[Symbol, int]
    data: Mapping[Expr, Any]


# ---------------------------------------------------------------- all ways to a second derivative


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


Way = Callable[[Expr, Sequence[Any], Sequence[Expr], Sequence[Expr]], list[Any]]


def _by_hvp(f: Expr, slopes: Sequence[Any], variables: Sequence[Expr], along: Sequence[Expr]) -> list[Any]:
    return [*hvp(f, tuple(variables), tuple(along))]


def _by_jvp(f: Expr, slopes: Sequence[Any], variables: Sequence[Expr], along: Sequence[Expr]) -> list[Any]:
    return [jvp(slope, tuple(variables), tuple(along)) for slope in slopes]


def _by_vjp(f: Expr, slopes: Sequence[Any], variables: Sequence[Expr], along: Sequence[Expr]) -> list[Any]:
    parts = [vjp(slope, tuple(variables), v) for slope, v in zip(slopes, along, strict=True)]
    return [*zip(*parts, strict=True)]


def _by_gradient(f: Expr, slopes: Sequence[Any], variables: Sequence[Expr], along: Sequence[Expr]) -> list[Any]:
    terms = [as_scalar(slope, v) for slope, v in zip(slopes, along, strict=True)]
    return [*gradient(sympy.Add(*terms), tuple(variables))]


WAYS: Mapping[str, Way] = {
    "hvp": _by_hvp,
    "jvp of gradient": _by_jvp,
    "vjp of gradient": _by_vjp,
    "gradient of gradient": _by_gradient,
}
"""The derivative of the gradient along a direction: for each variable an expression, or several to be added."""

ALL: Sequence[str] = (*WAYS, "hessian")


def check_ways(
    f: Expr, variables: Sequence[Expr], sizes: Mapping[Any, int], seed: int, ways: Sequence[str] = ALL, **options: Any
) -> None:
    """Check the gradient of a scalar, and its derivative along a random direction in some ways.

    The ``options`` are those of `random_values`.

    Raises
    ------
    DerivativeMismatch
        One of them differs from that of the exact interpreter.
    CostExceededError
        One of them takes more operations than the law of cost allows.
    """
    along = tuple(TensorSymbol(f"along_{n}", shape_of(v)) for n, v in enumerate(variables))
    values = random_values((f, *variables, *along), sizes, seed, **options)
    expected = exact_hvp(f, {v: values[a] for v, a in zip(variables, along, strict=True)}, values)
    slopes = gradient(f, tuple(variables))
    for v, slope, (first, _) in zip(variables, slopes, expected, strict=True):
        assert_equal(evaluate(slope, values), first, f"the gradient by {v}")
    for form in ways:
        if form == "hessian":
            found = _contracted([[evaluate(b, values) for b in row] for row in hessian(f, variables)], along, values)
        else:
            parts = WAYS[form](f, slopes, variables, along)
            if not options.get("given"):
                flat = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
                assert_within_law(f, variables, slopes, flat)
            found = [_value(part, values) for part in parts]
        for v, second, (_, right) in zip(variables, found, expected, strict=True):
            assert_equal(second, right, f"the {form} by {v}")


def _value(part: Any, values: Mapping[Any, Any]) -> Any:
    return _sum([evaluate(one, values) for one in part]) if isinstance(part, tuple) else evaluate(part, values)


def _contracted(blocks: Sequence[Sequence[Any]], along: Sequence[Expr], values: Mapping[Any, Any]) -> list[Any]:
    """The blocks of a Hessian times a direction."""
    arrays = [np.asarray(values[v], dtype=object) for v in along]
    rows = []
    for row in blocks:
        rows.append(_sum([_times(np.asarray(b, dtype=object), v) for b, v in zip(row, arrays, strict=True)]))
    return rows


def _times(block: Any, direction: Any) -> Any:
    return np.tensordot(block, direction, direction.ndim) if direction.ndim else block * direction


# ---------------------------------------------------------------- values and their opposites

_OF_ENTRIES: Sequence[Callable[[Any], Any]] = (
    *(sympy.exp, sigmoid, sigmoid, softplus, sympy.cosh, sympy.sinh, sympy.tanh, sympy.sech, sympy.cos, sympy.sin),
    *(lambda u: sympy.exp(2 * u), lambda u: 1 / (1 + sympy.exp(u)), lambda u: 1 - sigmoid(u)),
    *(lambda u: sympy.log(1 + sympy.exp(u)), lambda u: sympy.sinh(u) / sympy.cosh(u), lambda u: sigmoid(u) ** 2),
    *(lambda u: sympy.log(sigmoid(u)), lambda u: u, lambda u: u**2, lambda u: 1 - u, sympy.Abs, sympy.sign),
)
_OF_TENSORS: Sequence[Callable[[Any], Any]] = (
    *(entrywise.exp, sigmoid, softplus, entrywise.cosh, entrywise.sinh, entrywise.tanh),
    *(lambda u: entrywise.exp(2 * u), lambda u: 1 / (1 + entrywise.exp(u)), lambda u: 1 - sigmoid(u)),
    *(lambda u: entrywise.log(1 + entrywise.exp(u)), lambda u: sigmoid(u) ** 2, lambda u: u**2),
    *(lambda u: u, lambda u: 1 - u, entrywise.abs, entrywise.sign),
)


def paired(seed: int) -> SecondOrder:
    """Return a random function of values next to their opposites; of whole tensors also next to their transposes."""
    rng = random.Random(seed)
    return _paired_tensors(rng) if seed % 3 == 0 else _paired_entries(rng)


def _paired_entries(rng: random.Random) -> SecondOrder:
    x, y, s = TensorSymbol("x", n), TensorSymbol("y", n), Symbol("s", real=True)

    def argument(at: Any) -> Any:
        u = rng.choice((x[at], x[at], -x[at], 2 * x[at], x[at] * y[at], x[at] - y[at], s * x[at]))
        condition = rng.choice((at > 0, at > 0, Eq(at, 0), Ne(at, 1), at < n - 1))
        other = rng.choice((0, 0, 0, 0, 1, sympy.Float(0), -u, y[at]))
        return Piecewise((u, condition), (other, True)) if rng.random() < 0.8 else u

    def summand(at: Any) -> Any:
        u = argument(at)
        terms = []
        for _ in range(rng.choice((1, 2, 2, 3))):
            factors = [rng.choice(_OF_ENTRIES)(rng.choice((u, -u))) for _ in range(rng.choice((1, 1, 2)))]
            terms.append(sympy.Mul(rng.choice((1, -1, 2, y[at], 1 - y[at], s)), *factors))
        return sympy.Add(*terms)

    f = IndexedSum(summand(j), (j, 0, n - 1))
    f = rng.choice((f, f * x[0], f * s * y[0], f**2, f * IndexedSum(summand(i), (i, 0, n - 1)), sympy.tanh(f)))
    return SecondOrder(f, tuple(v for v in (x, y, s) if f.has(v)) or (x,), {n: 3}, {})


def _paired_tensors(rng: random.Random) -> SecondOrder:
    A, B, x = TensorSymbol("A", (n, n)), TensorSymbol("B", (n, n)), TensorSymbol("x", n)
    u = rng.choice((A, A.T, A + A.T, A - A.T, A - A, A @ A.T, A @ B, A * B, B - A, A @ B - (A @ B).T))
    terms = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        operands = [rng.choice(_OF_TENSORS)(rng.choice((u, -u, u.T, -u.T))) for _ in range(rng.choice((1, 1, 2)))]
        product = operands[0]
        for other in operands[1:]:
            product = rng.choice((product * other, product @ other))
        terms.append(rng.choice((1, -1, 2)) * product)
    total = _sum(terms)
    f = rng.choice((reductions.sum(total), functions.trace(total), functions.dot(x, total @ x)))
    f = rng.choice((f, f, f**2, sympy.tanh(f)))
    return SecondOrder(f, tuple(v for v in (A, B, x) if f.has(v)) or (A,), {n: 2}, {})


# ---------------------------------------------------------------- rows that index arrays select


def selected(seed: int) -> SecondOrder:
    """Return a random function in which index arrays select entries, rows and entries of products."""
    rng = random.Random(seed)
    below = {"below": n} if rng.random() < 0.7 else {}
    idx, jdx, kdx = (TensorSymbol(name, m, dtype=int, **below) for name in ("idx", "jdx", "kdx"))
    A, B, x, w = TensorSymbol("A", (n, d)), TensorSymbol("B", (d, n)), TensorSymbol("x", n), TensorSymbol("w", m)
    sizes = {n: rng.choice((2, 3)), m: rng.choice((2, 3)), d: 2}
    arrays = {array: [rng.randrange(sizes[n]) for _ in range(sizes[m])] for array in (idx, jdx, kdx)}

    def place(at: Any) -> Any:
        return rng.choice((idx[at], idx[at], jdx[at], kdx[at], idx[0], jdx[1]))

    def value(at: Any) -> Any:
        p, q = place(at), place(at)
        row = TensorComprehension(A[place(0), k], (k, d))
        column = TensorComprehension(B[k, q], (k, d)) if q in (idx[0], jdx[1]) else row
        return rng.choice((
            *(x[p], w[at] * x[p], x[p] + x[q] - 2 * x[place(at)], x[p] - x[q], w[at]),
            *(IndexedSum(A[p, k] * B[k, q], (k, 0, d - 1)), IndexedSum(A[p, k] * A[q, k], (k, 0, d - 1))),
            *((A @ B)[p, q], entrywise.exp(A @ B)[p, q], (A @ row)[p], entrywise.tanh(A @ column)[p] * w[at]),
            *(reductions.softmax(x)[p], reductions.sum(entrywise.tanh(A @ column)), functions.dot(row, column)),
            IndexedSum(KroneckerDelta(p, jdx[i]) * w[i] * x[q], (i, 0, m - 1)),
        ))  # fmt: skip

    def function(u: Any) -> Any:
        return rng.choice((u, u**2, sympy.exp(u), sympy.tanh(u), sympy.log(1 + u**2), 1 / (2 + u**2)))

    def summand(at: Any) -> Any:
        made = sympy.Mul(*(function(value(at)) for _ in range(rng.choice((1, 1, 2)))))
        test = rng.choice(
            (1, 1, KroneckerDelta(place(at), place(at)), Piecewise((w[at], Eq(idx[at], jdx[at])), (1, True)))
        )
        return made * test

    f = IndexedSum(summand(t), (t, 0, m - 1))
    if rng.random() < 0.1:
        f = IndexedMax(value(t) * function(x[place(t)]), (t, 0, m - 1))
    elif rng.random() < 0.2:
        inner = IndexedSum(KroneckerDelta(idx[t], rng.choice((jdx, idx))[i]) * function(value(i)), (i, 0, m - 1))
        f = IndexedSum(function(inner) * rng.choice((1, w[t], x[idx[t]])), (t, 0, m - 1))
    elif rng.random() < 0.2:
        row = TensorComprehension(A[idx[0], k] * rng.choice((1, w[idx[0] - idx[0]])), (k, d))
        f = rng.choice(
            (reductions.sum(entrywise.exp(A @ row)), reductions.logsumexp(row), sympy.log(reductions.sum(row**2)))
        )
    f = rng.choice((f, f, f**2, sympy.tanh(f)))
    variables = tuple(v for v in (A, B, x, w) if f.has(v)) or (x,)
    return SecondOrder(f, variables, sizes, {a: v for a, v in arrays.items() if f.has(a)})


MADE: Mapping[str, Callable[[int], SecondOrder]] = {"pairs": paired, "selections": selected}


def check_second_order(kind: str, seed: int, ways: Sequence[str] = ()) -> None:
    """Check a random function: its gradient, and one of the ways to its second derivative if none are given."""
    made = MADE[kind](seed)
    chosen = ways or (ALL[seed % len(ALL)],)
    check_ways(made.function, made.variables, made.sizes, seed, chosen, given=made.data)
