"""Graphs: attention over edges, comparisons of pairs, cameras and points."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from sympy import Eq, Piecewise, cos, exp, log, sin, sqrt

import sympy_tensordiff as td
from benchmarks.gathers import at, totals
from benchmarks.practice.case import Formula, Random, case, edges, normal, softplus, table, tensor, total

a, c, d, e, h, i, k, m, n, p = td.indices("a c d e h i k m n p")


@case("mixed", {"n": 2000, "m": 20000, "d": 32, "h": 8}, {"n": 4, "m": 7, "d": 3, "h": 2})
def graph_attention() -> Formula:
    """Squared error of one layer of attention over the edges of a graph."""
    X, W, Y = tensor("X", (n, d)), tensor("W", (d, h)), tensor("Y", (n, h))
    out, into = tensor("out", h), tensor("into", h)
    source, target = (tensor(name, m, dtype=int, below=n) for name in ("source", "target"))
    Z = X @ W
    left, right = Z @ out, Z @ into
    score = left[source[e]] + right[target[e]]
    weight = table(exp(Piecewise((score, score > 0), (score / 5, True))), (e, m))
    mass = table(total(Piecewise((weight[e], Eq(target[e], i)), (0, True)), (e, 0, m - 1)), (i, n))
    message = weight[e] / mass[target[e]] * Z[source[e], k]
    received = table(total(Piecewise((message, Eq(target[e], i)), (0, True)), (e, 0, m - 1)), (i, n), (k, h))
    value = td.sum((received - Y) ** 2) / 2

    def function(xp: Any, X: Any, W: Any, Y: Any, out: Any, into: Any, source: Any, target: Any) -> Any:
        Z = X @ W
        score = at(xp, Z @ out, source) + at(xp, Z @ into, target)
        weight = xp.exp(xp.where(score > 0, score, score / 5))
        share = weight / at(xp, totals(xp, weight, target, len(X)), target)
        received = totals(xp, share[:, None] * at(xp, Z, source), target, len(X))
        return ((received - Y) ** 2).sum() / 2

    def inputs(random: Random, n: int, m: int, d: int, h: int) -> tuple[Any, ...]:
        weights = normal(random, n, d), normal(random, d, h, scale=d**-0.5), normal(random, n, h)
        return *weights, normal(random, h), normal(random, h), *edges(random, n, m)

    return Formula((X, W, Y, out, into, source, target), value, (W, out, into), function, inputs)


@case("index", {"n": 3000, "m": 50000}, {"n": 4, "m": 6})
def paired_comparisons() -> Formula:
    """Bradley and Terry's likelihood of games, with an advantage at home."""
    s = tensor("s", n)
    won, lost = (tensor(name, m, dtype=int, below=n) for name in ("won", "lost"))
    home = tensor("home", m)
    edge, lam = sympy.Symbol("edge", real=True), sympy.Symbol("lam", positive=True)
    value = total(log(1 + exp(s[lost[e]] - s[won[e]] - edge * home[e])), (e, 0, m - 1)) + lam / 2 * total(
        s[i] ** 2, (i, 0, n - 1)
    )

    def function(xp: Any, s: Any, won: Any, lost: Any, home: Any, edge: Any, lam: Any) -> Any:
        return softplus(xp, at(xp, s, lost) - at(xp, s, won) - edge * home).sum() + lam / 2 * (s**2).sum()

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        return normal(random, n), *edges(random, n, m), random.choice([-1.0, 1.0], size=m), 0.3, 0.1

    return Formula((s, won, lost, home, edge, lam), value, (s, edge), function, inputs)


@case("index", {"c": 50, "p": 5000, "m": 20000}, {"c": 2, "p": 4, "m": 5})
def bundle_adjustment() -> Formula:
    """Robust reprojection error of points seen by cameras with rotation vectors."""
    camera, x, seen = tensor("camera", (c, 7)), tensor("x", (p, 3)), tensor("seen", (m, 2))
    view, point = tensor("view", m, dtype=int, below=c), tensor("point", m, dtype=int, below=p)
    r, y = [camera[view[e], s] for s in range(3)], [x[point[e], s] for s in range(3)]
    angle = sqrt(sum(z**2 for z in r))
    axis = [z / angle for z in r]
    along = sum(u * v for u, v in zip(axis, y, strict=True)) * (1 - cos(angle))
    turned = [
        y[s] * cos(angle)
        + (axis[s - 2] * y[s - 1] - axis[s - 1] * y[s - 2]) * sin(angle)
        + axis[s] * along
        + camera[view[e], 3 + s]
        for s in range(3)
    ]
    error = [camera[view[e], 6] * turned[s] / turned[2] - seen[e, s] for s in range(2)]
    value = total(sqrt(1 + sum(z**2 for z in error)) - 1, (e, 0, m - 1))

    def function(xp: Any, camera: Any, x: Any, seen: Any, view: Any, point: Any) -> Any:
        C, y = at(xp, camera, view), at(xp, x, point)
        angle = xp.sqrt((C[:, :3] ** 2).sum(1, keepdims=True))
        axis = C[:, :3] / angle
        along = (axis * y).sum(1, keepdims=True) * (1 - xp.cos(angle))
        turned = y * xp.cos(angle) + xp.cross(axis, y) * xp.sin(angle) + axis * along + C[:, 3:6]
        error = C[:, 6:] * turned[:, :2] / turned[:, 2:] - seen
        return (xp.sqrt(1 + (error**2).sum(1)) - 1).sum()

    def inputs(random: Random, c: int, p: int, m: int) -> tuple[Any, ...]:
        moved = normal(random, c, 3, scale=0.1) + np.array([0, 0, 5])
        camera = np.column_stack([normal(random, c, 3, scale=0.3), moved, random.uniform(1, 2, c)])
        points = random.uniform(-1, 1, (p, 3)), normal(random, m, 2, scale=0.3)
        return camera, *points, random.integers(c, size=m), random.integers(p, size=m)

    return Formula((camera, x, seen, view, point), value, (camera, x), function, inputs)
