"""Samples of every exported class: a class that comes without one fails the test of citizenship.

`SAMPLES` maps the name of a class to expressions in which it occurs; `VALUES` gives a value to all that
is free in them. Built anew by `samples()` in every process.
"""

from fractions import Fraction
from typing import Any

import sympy
from sympy import Idx, KroneckerDelta, Max, Min, Piecewise, Symbol

import sympy_tensordiff as td
from sympy_tensordiff import (
    IndexedMax,
    IndexedMin,
    IndexedProduct,
    IndexedSum,
    TensorComprehension,
    TensorSymbol,
    indices,
)

i, j, k, n, m, p, q = indices("i j k n m p q")
c = Symbol("c", real=True)
A = TensorSymbol("A", (n, m))
x = TensorSymbol("x", m)
y = TensorSymbol("y", m)
s = TensorSymbol("s", ())
d = TensorSymbol("d", 8)
X = TensorSymbol("X", (n, n))
idx = TensorSymbol("idx", 4, dtype=int)
h, u, v = sympy.Function("h"), Symbol("u", real=True), Symbol("v", real=True)
THIRD = sympy.Rational(1, 3)
VALUES: dict[Any, Any] = {
    A: [[1, 2, Fraction(1, 3)], [-2, 1, 1], [Fraction(1, 2), 3, -1]],
    X: [[2, 1, 0], [-1, 1, Fraction(1, 2)], [1, 3, -1]],
    x: [Fraction(3, 2), 2, -1],
    y: [1, Fraction(1, 4), 2],
    s: Fraction(5, 4),
    d: [1, -1, 2, Fraction(1, 2), 3, 1, 2, -2],
    idx: [1, 0, -1, 1],
    c: Fraction(3, 5),
    h: sympy.Lambda((u, v), u**3 * v**2),
    n: 3,
    m: 3,
    **{i: 1, j: 2, k: 0, p: 2, q: 1},
}


def samples() -> dict[str, dict[str, Any]]:
    """The samples, by class and by their special properties."""
    label = Idx("i", n)
    row = IndexedSum(A[i, j] * x[j], (j, 0, m - 1))
    shifted = Piecewise((x[j - 1] * c, j > 0), (sympy.cos(y[j]), True))
    squares = TensorComprehension(x[j] ** 2 + c, (j, m))
    return {
        "IndexedSum": {
            "plain": row,
            "empty": IndexedSum(x[i], (i, 5, 2)),
            "nested": IndexedSum(row**2 + x[i] * row, (i, 0, n - 1)),
            "nested, one name": IndexedSum(x[j] * IndexedSum(x[j] ** 2 + y[k], (j, 0, m - 1)), (j, 0, m - 1)),
            "side by side, one name": IndexedSum(x[j], (j, 0, m - 1)) * IndexedSum(y[j] + c, (j, 0, m - 1)) + x[j],
            "dependent bounds": IndexedSum(A[i, j] * j, (j, 0, i), (i, 0, n - 1)),
            "bounds of bounds": IndexedSum(d[p - k] ** 3, (k, Max(0, p - 2), Min(4, p))),
            "idx": IndexedSum(A[label, j], label),
            "a scalar parameter": IndexedSum(sympy.exp(-c * x[j]) + c**2 * y[j], (j, 0, m - 1)),
            "a quotient": IndexedSum(x[sympy.floor((j + p) / 2)] + THIRD * x[j], (j, 0, 2)),
            "cases": IndexedSum(shifted, (j, 0, m - 1)),
            "delta": IndexedSum(x[j] * KroneckerDelta(i, j) * KroneckerDelta(j, k + 1), (j, 0, m - 1)),
            "no index in the body": IndexedSum(sympy.sqrt(2) * c, (j, 0, i)),
        },
        "IndexedProduct": {
            "plain": IndexedProduct(1 + A[i, j] * x[j], (j, 0, m - 1)),
            "nested": IndexedProduct(row + IndexedSum(x[j] * c, (j, 0, i)), (i, 0, n - 1)),
            "dependent bounds": IndexedProduct(A[i, j] + j, (j, 0, i), (i, 0, n - 1)),
            "empty": IndexedProduct(x[i], (i, 5, 2)),
        },
        "IndexedMax": {
            "plain": IndexedMax(A[i, j] * x[j], (j, 0, m - 1)),
            "idx": IndexedMax(A[label, j] - c, label),
            "side by side": IndexedMax(x[j], (j, 0, m - 1)) * IndexedMin(y[j], (j, 0, m - 1)) + x[j],
            "in a sum": IndexedSum(x[i] * IndexedMax(A[i, j] ** 2, (j, 0, i)), (i, 0, n - 1)),
        },
        "IndexedMin": {
            "plain": IndexedMin(A[i, j] * x[j], (j, 0, m - 1)),
            "cases": IndexedMin(shifted, (j, 0, m - 1)),
            "bounds of bounds": IndexedMin(d[p - k] ** 3, (k, Max(0, p - 2), Min(4, p))),
        },
        "TensorComprehension": {
            "plain": TensorComprehension(sympy.exp(-row) * KroneckerDelta(i, p), (i, n)),
            "cases": TensorComprehension(shifted * y[j] + x[k], (j, m)),
            "two axes, one name inside": TensorComprehension(A[i, j] * IndexedSum(x[j], (j, 0, i)), (i, n), (j, m)),
            "of entries": TensorComprehension(squares[j] * squares[p], (j, m)),
            "rank 0": TensorComprehension(s**2 + row.subs(i, 0)),
            "constant": TensorComprehension(THIRD, (i, 2 * n - 1)),
        },
        "TensorEntry": {
            "plain": A[i, 2],
            "affine": d[2 * i + k + 1],
            "quotient": x[sympy.floor(p / 2)] * x[sympy.Mod(p + 1, 2)],
            "of a comprehension": squares[p],
            "at data": x[idx[i] + 1] * idx[j],
            "of a sum": TensorComprehension(row * c, (i, n))[p],
            "of cases": TensorComprehension(shifted, (j, m))[k],
        },
        "TensorSymbol": {
            "rank 0": s,
            "vector": x,
            "matrix": A,
            "of integers": idx,
            "a name of its own": TensorSymbol("θ_1", (3, 2 * n + 1)),
        },
        **whole_samples(row, squares),
    }


def whole_samples(row: Any, squares: Any) -> dict[str, dict[str, Any]]:
    """The samples of operations on whole tensors."""
    table = TensorComprehension(row * c, (i, n))
    choice = td.elementwise(lambda a, b: Piecewise((a * c, a > b), (b**2, True)), x, y)
    scalar = td.det(X) + td.trace(X) * c
    return {
        "EinsumProduct": {
            "matrix product": A @ x,
            "a scalar": td.einsum("ij,i,j->", A, table, x),
            "diagonal": td.einsum("ii->i", X),
            "scalar factors": td.einsum(",,ij->ji", c, 3, A),
            "of a comprehension": td.einsum("j,j,->j", squares, x, THIRD),
            "three operands": td.einsum("ij,j,ik->k", A, x, X),
            "inside of SymPy's nodes": sympy.exp(-td.sum(x) / 9) * x[k] + td.dot(x, y),
        },
        "NamedTensor": {
            "an entry": td.name(A @ x, "product")[i] * x[k],
            "a scalar": td.name(td.sum(x * y), "total") + c,
            "of a name": td.name(td.name(squares, "squares") + 1, "more"),
        },
        "DeltaTensor": {
            "plain": td.DeltaTensor(n),
            "of rank 4": td.DeltaTensor((n, 2)),
            "rank 0": td.DeltaTensor(()) * c,
        },
        "FilledTensor": {"ones": td.ones((n, m)), "a parameter": td.FilledTensor(c + x[k], (n, 2))},
        "TensorAdd": {"plain": A + 2 * A + 1, "scalars": c + squares + x[p], "rank 1": x - y + s},
        "TensorMul": {"plain": 2 * A * X.T[k, 0], "quotient": c * x / (y + 3), "scalars": scalar * x},
        "TensorPow": {"plain": A**2, "a parameter": (y + 3) ** c, "of a number": 2**x, "both": (x**2 + 1) ** y},
        "TensorFunction": {
            "plain": td.sin(A),
            "two operands": td.elementwise(sympy.atan2, x, y),
            "a parameter": td.elementwise(lambda t: t**2 / (1 + c**2) + s, x),
            "cases": choice,
            "maximum": td.maximum(x, 0, y),
            "softmax": td.softmax(A),
            "an entry": choice[p] * 2,
        },
        "TensorInverse": {"plain": td.inv(X), "an entry": td.inv(X)[i, 2], "nested": td.inv(X @ X + td.DeltaTensor(n))},
        "TensorDeterminant": {
            "plain": td.det(X),
            "inside": sympy.log(td.det(X) ** 2 + 1) * c,
            "nested": td.det(X @ X.T),
        },
        "TensorAdjugate": {"plain": td.adj(X), "nested": td.adj(X + X.T)},
        "TensorCofactor": {"order 0": td.TensorCofactor(0, X), "order 2": td.TensorCofactor(2, X)},
        "TensorLogSumExp": {
            "all": td.logsumexp(x),
            "one axis": td.logsumexp(A, 0),
            "inside": c * td.logsumexp(A) + x[k],
        },
        "Subs": {
            "equal points": td.Subs(sympy.Derivative(h(u, v), u, v), (u, v), (x[k], x[k])),
            "one variable": td.Subs(sympy.Derivative(h(u, x[k]), u), u, x[i] + c),
        },
        "Scan": {
            "states": td.scan(lambda a, z: sympy.sin(a) * c + z, THIRD, x),
            "last state": td.scan(lambda a, z, t: a * y[k] + z * (t + 1), row, x, last=True) ** 2,
            "vectors": td.scan(lambda a, t: X @ a * x[j] + t, A @ squares, length=2)[1, p],
        },
        "Time": {"of a step": td.scan(lambda a, t: a * x[j] + t**2, c, length=3)[2]},
        "ScanVariable": {"backwards": td.scan(lambda a, z: a * z / 2 + s, 1, x, reverse=True)},
        "sigmoid": {"plain": td.sigmoid(c * x[k]), "of a tensor": td.sigmoid(x), "of a sum": td.sigmoid(td.sum(x)) * c},
        "softplus": {"plain": td.softplus(c * x[k]), "of a tensor": td.softplus(x - y)},
        "log1mexp": {"plain": td.log1mexp(-td.exp(x[k])), "of a tensor": td.log1mexp(x - y)},
        "erfcx": {"plain": td.erfcx(c * x[k]), "of a tensor": td.erfcx(x - y)},
        "log_ndtr": {"plain": td.log_ndtr(c * x[k]), "of a tensor": td.log_ndtr(x - y)},
        "xlogy": {"plain": td.xlogy(c, td.exp(x[k])), "of tensors": td.xlogy(x, td.exp(y))},
    }


def received(sent: dict[str, Any]) -> dict[str, tuple[Any, Any, str, str]]:
    """Compares what came out of a pickle with what is built anew here; what that is, and how it reads."""
    fresh = {f"{kind}, {what}": e for kind, group in samples().items() for what, e in group.items()}
    assert sent == fresh and set(sent.values()) == set(fresh.values())
    assert all(hash(sent[name]) == hash(fresh[name]) for name in fresh)
    assert all(str(td.canonical(sent[name])) == str(td.canonical(fresh[name])) for name in fresh)
    return {name: (e, td.canonical(e), str(e), str(td.canonical(e))) for name, e in fresh.items()}
