"""Molecular mechanics and quantum chemistry."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from sympy import And, Ne, Piecewise, cos, erfc, exp, pi, sqrt

import sympy_tensordiff as td
from benchmarks.gathers import at
from benchmarks.practice.case import (
    Formula,
    Random,
    case,
    cluster,
    distances,
    normal,
    norms,
    special,
    table,
    tensor,
    total,
)

i, j, k, a, b, c, e, t, n, m, o, v, h = td.indices("i j k a b c e t n m o v h")


@case("index", {"n": 300}, {"n": 5})
def gupta_cluster() -> Formula:
    """Gupta's energy of a metal cluster: pair repulsion and the square root of a band sum."""
    x = tensor("x", (n, 3))
    A, p, xi, q = sympy.symbols("A p xi q", positive=True)
    r = sqrt(total((x[i, k] - x[j, k]) ** 2, (k, 0, 2)))
    band = total(Piecewise((exp(-2 * q * (r - 1)), Ne(i, j)), (0, True)), (j, 0, n - 1))
    value = total(A * exp(-p * (r - 1)), (j, 0, i - 1), (i, 0, n - 1)) - xi * total(sqrt(band), (i, 0, n - 1))

    def function(xp: Any, x: Any, A: Any, p: Any, xi: Any, q: Any) -> Any:
        r, off = distances(xp, x), 1 - xp.eye(len(x), dtype=x.dtype)
        band = (off * xp.exp(-2 * q * (r - 1))).sum(1)
        return A * (off * xp.exp(-p * (r - 1))).sum() / 2 - xi * xp.sqrt(band).sum()

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        return cluster(random, n), 0.1, 9.0, 1.2, 3.0

    return Formula((x, A, p, xi, q), value, (x, A, p, xi, q), function, inputs)


@case("mixed", {"n": 20003, "m": 20000}, {"n": 7, "m": 4})
def ryckaert_bellemans() -> Formula:
    """Torsions of a chain as polynomials of the cosine of the dihedral angle."""
    x, C = tensor("x", (n, 3)), tensor("C", (m, 6))
    atom = tensor("atom", (m, 4), dtype=int, below=n)

    def bond(s: int) -> Any:
        return table(x[atom[t, s + 1], k] - x[atom[t, s], k], (t, m), (k, 3))

    left, right = td.cross(bond(0), bond(1)), td.cross(bond(1), bond(2))
    cosine = td.sum(left * right, axis=1) / td.sqrt(td.sum(left**2, axis=1) * td.sum(right**2, axis=1))
    value = td.sum(sum(C[:, s] * cosine**s for s in range(6)))

    def function(xp: Any, x: Any, C: Any, atom: Any) -> Any:
        b = xp.diff(at(xp, x, atom), axis=1)
        left, right = xp.cross(b[:, 0], b[:, 1]), xp.cross(b[:, 1], b[:, 2])
        cosine = (left * right).sum(1) / (norms(xp, left) * norms(xp, right))
        return sum((C[:, s] * cosine**s).sum() for s in range(6))

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        zigzag = np.stack([np.arange(n) * 0.8, np.arange(n) % 2 * 0.6, np.arange(n) % 3 * 0.5], 1)
        return zigzag + normal(random, n, 3, scale=0.1), normal(random, m, 6), np.arange(m)[:, None] + np.arange(4)

    return Formula((x, C, atom), value, (x, C), function, inputs)


@case("index", {"n": 400}, {"n": 6})
def wolf_sum() -> Formula:
    """Wolf's sum of Coulomb energies, damped and shifted to 0 at a cutoff."""
    x, q = tensor("x", (n, 3)), tensor("q", n)
    al, R = sympy.symbols("al R", positive=True)
    r = sqrt(total((x[i, k] - x[j, k]) ** 2, (k, 0, 2)))
    pair = Piecewise((q[i] * q[j] * (erfc(al * r) / r - erfc(al * R) / R), r < R), (0, True))
    own = (erfc(al * R) / (2 * R) + al / sqrt(pi)) * total(q[i] ** 2, (i, 0, n - 1))
    value = total(pair, (j, 0, i - 1), (i, 0, n - 1)) - own

    def function(xp: Any, x: Any, q: Any, al: Any, R: Any) -> Any:
        erfc, r = special(xp).erfc, distances(xp, x)
        shift = erfc(al * R) / R
        near = xp.where(r < R, erfc(al * r) / r - shift, 0) * (1 - xp.eye(len(x), dtype=x.dtype))
        return q @ near @ q / 2 - (shift / 2 + al / np.pi**0.5) * q @ q

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        return cluster(random, n), normal(random, n), 0.6, 2.5

    return Formula((x, q, al, R), value, (x, q), function, inputs)


@case("tensor", {"o": 8, "v": 20}, {"o": 2, "v": 3})
def coupled_cluster() -> Formula:
    """Squared residual of linearised coupled-cluster doubles."""
    T, V, X = tensor("T", (o, o, v, v)), tensor("V", (o, o, v, v)), tensor("X", (o, v, v, o))
    W, O = tensor("W", (v, v, v, v)), tensor("O", (o, o, o, o))
    eo, ev = tensor("eo", o), tensor("ev", v)
    gap = (eo[:, None] + eo[None, :])[:, :, None, None] - (ev[:, None] + ev[None, :])[None, None, :, :]
    ladders = td.einsum("ijcd,abcd->ijab", T, W) / 2 + td.einsum("klab,klij->ijab", T, O) / 2
    residual = V + gap * T + ladders + td.einsum("ikac,kbcj->ijab", T, X)
    value = td.sum(residual**2) / 2

    def function(xp: Any, T: Any, V: Any, X: Any, W: Any, O: Any, eo: Any, ev: Any) -> Any:
        gap = (eo[:, None] + eo)[:, :, None, None] - (ev[:, None] + ev)
        ladders = xp.einsum("ijcd,abcd->ijab", T, W) / 2 + xp.einsum("klab,klij->ijab", T, O) / 2
        return ((V + gap * T + ladders + xp.einsum("ikac,kbcj->ijab", T, X)) ** 2).sum() / 2

    def inputs(random: Random, o: int, v: int) -> tuple[Any, ...]:
        shapes = (o, o, v, v), (o, o, v, v), (o, v, v, o), (v, v, v, v), (o, o, o, o)
        arrays = [normal(random, *shape, scale=0.2) for shape in shapes]
        return *arrays, random.uniform(-2, -1, o), random.uniform(0.5, 2, v)

    return Formula((T, V, X, W, O, eo, ev), value, (T, V, X), function, inputs)


@case("index", {"n": 48}, {"n": 5})
def stillinger_weber() -> Formula:
    """Three-body energy of silicon by Stillinger and Weber."""
    x = tensor("x", (n, 3))
    lam, gam, cut = sympy.symbols("lam gam cut", positive=True)
    r = table(sqrt(total((x[i, k] - x[j, k]) ** 2, (k, 0, 2))), (i, n), (j, n))
    near = Piecewise((exp(gam / (r[i, j] - cut)), And(Ne(i, j), r[i, j] < cut)), (0, True))
    g = table(near, (i, n), (j, n))
    dot = total((x[a, k] - x[i, k]) * (x[b, k] - x[i, k]), (k, 0, 2))
    cosine = Piecewise((dot / (r[i, a] * r[i, b]), And(Ne(i, a), Ne(i, b))), (0, True))
    angle = (cosine + sympy.Rational(1, 3)) ** 2
    value = lam * total(g[i, a] * g[i, b] * angle, (b, 0, a - 1), (a, 0, n - 1), (i, 0, n - 1))

    def function(xp: Any, x: Any, lam: Any, gam: Any, cut: Any) -> Any:
        r, off = distances(xp, x), 1 - xp.eye(len(x), dtype=x.dtype)
        near = (off > 0) & (r < cut)
        g = xp.where(near, xp.exp(gam / xp.where(near, r - cut, -1)), 0)
        unit = (x[None] - x[:, None]) / r[..., None]
        angle = (xp.einsum("iak,ibk->iab", unit, unit) + 1 / 3) ** 2
        return lam * xp.tril(g[:, :, None] * g[:, None] * angle, -1).sum()

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        return cluster(random, n), 2.1, 1.2, 1.8

    return Formula((x, lam, gam, cut), value, (x, lam, gam), function, inputs)


@case("mixed", {"n": 200, "e": 16, "h": 20}, {"n": 5, "e": 2, "h": 3})
def symmetry_functions() -> Formula:
    """Energy of a small network on radial symmetry functions of each atom (Behler and Parrinello)."""
    x, eta, shift = tensor("x", (n, 3)), tensor("eta", e), tensor("shift", e)
    W, bias, w = tensor("W", (e, h)), tensor("bias", h), tensor("w", h)
    cut = sympy.Symbol("cut", positive=True)
    r = table(sqrt(total((x[i, k] - x[j, k]) ** 2, (k, 0, 2))), (i, n), (j, n))
    smooth = Piecewise(((1 + cos(pi * r[i, j] / cut)) / 2, And(Ne(i, j), r[i, j] < cut)), (0, True))
    G = table(total(exp(-eta[a] * (r[i, j] - shift[a]) ** 2) * smooth, (j, 0, n - 1)), (i, n), (a, e))
    value = td.sum(td.tanh(G @ W + bias) @ w)

    def function(xp: Any, x: Any, eta: Any, shift: Any, W: Any, bias: Any, w: Any, cut: Any) -> Any:
        r, off = distances(xp, x), 1 - xp.eye(len(x), dtype=x.dtype)
        smooth = off * xp.where(r < cut, (1 + xp.cos(np.pi * r / cut)) / 2, 0)
        G = (xp.exp(-eta * (r[..., None] - shift) ** 2) * smooth[..., None]).sum(1)
        return (xp.tanh(G @ W + bias) @ w).sum()

    def inputs(random: Random, n: int, e: int, h: int) -> tuple[Any, ...]:
        weights = normal(random, e, h, scale=0.3), normal(random, h), normal(random, h)
        return cluster(random, n), random.uniform(0.5, 4, e), random.uniform(0.8, 2, e), *weights, 2.5

    return Formula((x, eta, shift, W, bias, w, cut), value, (x, eta, shift, W, bias, w), function, inputs)
