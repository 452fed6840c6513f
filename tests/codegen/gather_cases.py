"""Functions of gathers by data, with data that repeat, leave some entries out, and lie outside where they may."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from exact_checks import assert_kernel_exact

import sympy_tensordiff as td

a, b, d, i, j, k, p, t = td.indices("a b d i j k p t")
n, m, K, T = td.indices("n m K T")
x, w = td.TensorSymbol("x", (n, m)), td.TensorSymbol("w", (K, m))
u, v, z, h, s = (td.TensorSymbol(name, size) for name, size in zip("uvzhs", (m, K, n, n, K), strict=True))
idx, r, c, bins = (td.TensorSymbol(name, K, dtype=int) for name in ("idx", "r", "c", "bins"))
jdx, tri = td.TensorSymbol("jdx", m, dtype=int), td.TensorSymbol("tri", (T, 3), dtype=int)
flat = td.TensorSymbol("flat", n * m)
start = td.TensorSymbol("start", n + 1, dtype=int)

SIZES = {n: 5, m: 3, K: 4, T: 3}
DATA = {idx: [4, 0, 4, 1], r: [0, 3, 3, 7], c: [2, 0, 2, 1], tri: [[0, 1, 2], [2, 1, 4], [0, 4, 2]], jdx: [1, 0, 1],
        bins: [1, 9, 1, -4], start: [0, 2, 2, 2, 3, 4]}  # fmt: skip


class Gather(NamedTuple):
    """A function, the variables it is differentiated by, and data in place of those above."""

    function: Any
    variables: tuple[Any, ...]
    data: dict[Any, Any] = {}  # noqa: RUF012

    @property
    def values(self) -> dict[Any, Any]:
        return {name: np.array(value) for name, value in (DATA | self.data).items() if self.function.has(name)}


def at(left: Any, right: Any) -> Any:
    return sp.KroneckerDelta(left, right)


def sparse(row: Any) -> Any:
    """A row of a sparse matrix in coordinates times ``u``."""
    return td.IndexedSum(v[i] * u[c[i]] * at(row, r[i]), (i, 0, K - 1))


def histogram(bin: Any) -> Any:
    """A histogram with soft weights."""
    return td.IndexedSum(sp.exp(s[i]) * at(bin, bins[i]), (i, 0, K - 1))


logsumexp = sp.log(td.IndexedSum(sp.exp(x[idx[i], k]), (k, 0, m - 1)))

CASES = {
    "embedding": Gather(td.IndexedSum(w[i, j] * sp.exp(x[idx[i], j]), (j, 0, m - 1), (i, 0, K - 1)), (x, w)),
    "rows of a table": Gather(td.TensorComprehension(x[idx[i], j] ** 2 * w[i, j], (i, K), (j, m)), (x, w)),
    "sparse product": Gather(td.TensorComprehension(sparse(p) + z[p] ** 2, (p, n)), (v, u, z)),
    "function of a sparse product": Gather(td.IndexedSum(sp.sin(sparse(p) + z[p]), (p, 0, n - 1)), (v, u, z)),
    "histogram": Gather(td.IndexedSum((histogram(p) - h[p]) ** 2, (p, 0, n - 1)), (s, h)),
    "ratio of a histogram": Gather(
        td.IndexedSum(histogram(p) ** 2 / (1 + histogram(p) ** 2), (p, 0, n - 1)), (s,)
    ),
    "one bin": Gather(histogram(2) * histogram(1), (s,)),
    "mesh": Gather(
        td.IndexedSum(
            (x[tri[t, a], d] - x[tri[t, b], d]) ** 2 * sp.exp(x[tri[t, a], d]),
            (d, 0, m - 1), (b, 0, 2), (a, 0, 2), (t, 0, T - 1),
        ), (x,),
    ),
    "window": Gather(
        td.IndexedSum(z[idx[i] + k] * w[i, k] ** 2, (k, 0, m - 1), (i, 0, K - 1)), (z, w), {idx: [2, 0, 1, 1]}
    ),
    "nested": Gather(
        td.IndexedSum(sp.sin(z[idx[jdx[j]]]) * u[j], (j, 0, m - 1)), (z, u), {idx: [4, 0, 9, 9]}
    ),
    "stride": Gather(td.IndexedSum(sp.sin(z[2 * jdx[j] + 1]) * u[j], (j, 0, m - 1)), (z, u)),
    "two ways": Gather(td.IndexedSum(sp.sin(z[idx[i]] * z[n - 1 - idx[i]]) * v[i], (i, 0, K - 1)), (z, v)),
    "triangle": Gather(
        td.IndexedSum(sp.exp(z[idx[i]]) * s[k] * z[k], (k, 0, i), (i, 0, K - 1)), (z, s)
    ),
    "rows by their starts": Gather(
        td.IndexedSum(td.IndexedSum(v[k] * u[c[k]], (k, start[i], start[i + 1] - 1)) ** 2, (i, 0, n - 1)), (v, u)
    ),
    "mask and padding": Gather(
        td.IndexedSum(
            sp.Piecewise((z[idx[i]] ** 2, idx[i] >= 0), (0, True)) * sp.Piecewise((v[i], bins[i] < 2), (1, True)),
            (i, 0, K - 1),
        ), (z, v), {idx: [4, -1, 4, -7]},
    ),
    "numbers": Gather(td.IndexedSum(idx[i] * sp.sin(idx[i] * z[idx[i]]) * v[i], (i, 0, K - 1)), (z, v)),
    "two axes": Gather(
        td.IndexedSum(
            td.IndexedSum(v[i] * at(p, r[i]) * at(j, c[i]), (i, 0, K - 1)) ** 2 * x[p, j], (p, 0, n - 1), (j, 0, m - 1)
        ), (v, x),
    ),
    "quotient": Gather(td.IndexedSum(u[sp.floor(idx[i] / 2)] ** 2 * v[i], (i, 0, K - 1)), (u, v)),
    "flattened": Gather(
        td.IndexedSum(sp.sin(flat[m * idx[i] + j]) * w[i, j], (j, 0, m - 1), (i, 0, K - 1)), (flat, w)
    ),
    "distances": Gather(
        td.IndexedSum(sp.exp(-((z[r[i]] - z[c[i]]) ** 2)), (i, 0, K - 1)), (z,), {r: [0, 3, 3, 4]}
    ),
    "mirrored": Gather(
        td.IndexedSum(
            td.IndexedMax(z[idx[sp.Min(sp.Mod(k, 2 * K), 2 * K - 1 - sp.Mod(k, 2 * K))]], (k, 0, i)) * v[i],
            (i, 0, K - 1)), (z, v),
    ),
    "sums inside": Gather(td.IndexedSum(w[i, j] * logsumexp * x[idx[i], j], (j, 0, m - 1), (i, 0, K - 1)), (x, w)),
}  # fmt: skip


def check(name: str, *kernels: tuple[str, bool]) -> None:
    """First and second derivatives with respect to all variables in backends with or without temporaries, and the
    interpreter's.
    """
    case = CASES[name]
    sizes = {size: value for size, value in SIZES.items() if case.function.has(size)}
    options = {"order": 2, "kernels": kernels, "low": -1, "high": 1}
    assert_kernel_exact(case.function, case.variables, sizes, values=case.values, **options)
