"""Partial differential equations: residuals, energies and inverse problems on grids and meshes."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from sympy import Mod, sqrt

import sympy_tensordiff as td
from benchmarks.gathers import at
from benchmarks.practice.case import Formula, Random, case, normal, norms, tensor, total

e, i, j, k, m, n, t = td.indices("e i j k m n t")


@case("index", {"n": 100000}, {"n": 7})
def burgers_midpoint() -> Formula:
    """Squared residual of an implicit midpoint step of Burgers' equation on a circle."""
    u, w = tensor("u", n), tensor("w", n)
    nu, dt, dx = sympy.symbols("nu dt dx", positive=True)

    def middle(s: int) -> Any:
        return (u[Mod(i + s, n)] + w[Mod(i + s, n)]) / 2

    flux = (middle(1) ** 2 - middle(-1) ** 2) / (4 * dx)
    bend = nu * (middle(1) - 2 * middle(0) + middle(-1)) / dx**2
    value = total(((w[i] - u[i]) / dt + flux - bend) ** 2, (i, 0, n - 1)) / 2

    def function(xp: Any, u: Any, w: Any, nu: Any, dt: Any, dx: Any) -> Any:
        middle = (u + w) / 2
        right, left = xp.roll(middle, -1), xp.roll(middle, 1)
        flux, bend = (right**2 - left**2) / (4 * dx), nu * (right - 2 * middle + left) / dx**2
        return (((w - u) / dt + flux - bend) ** 2).sum() / 2

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        return normal(random, n), normal(random, n), 0.1, 0.2, 0.5

    return Formula((u, w, nu, dt, dx), value, (u, w), function, inputs)


@case("index", {"n": 256, "m": 256}, {"n": 4, "m": 5})
def phase_separation() -> Formula:
    """Squared residual of an implicit step of the Cahn-Hilliard equation on a torus."""
    u, w = tensor("u", (n, m)), tensor("w", (n, m))
    eps, dt = sympy.symbols("eps dt", positive=True)
    axes = (1, 0), (-1, 0), (0, 1), (0, -1)

    def moved(p: int, q: int) -> Any:
        return w[Mod(i + p, n), Mod(j + q, m)]

    def potential(p: int, q: int) -> Any:
        bend = sum(moved(p + r, q + s) for r, s in axes) - 4 * moved(p, q)
        return moved(p, q) ** 3 - moved(p, q) - eps**2 * bend

    spread = sum(potential(r, s) for r, s in axes) - 4 * potential(0, 0)
    value = total(((w[i, j] - u[i, j]) / dt - spread) ** 2, (j, 0, m - 1), (i, 0, n - 1)) / 2

    def function(xp: Any, u: Any, w: Any, eps: Any, dt: Any) -> Any:
        def laplacian(x: Any) -> Any:
            return sum(xp.roll(x, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * x

        return (((w - u) / dt - laplacian(w**3 - w - eps**2 * laplacian(w))) ** 2).sum() / 2

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        return normal(random, n, m), normal(random, n, m), 0.7, 0.3

    return Formula((u, w, eps, dt), value, (u, w), function, inputs)


@case("tensor", {"n": 256, "m": 256}, {"n": 3, "m": 4})
def shallow_water() -> Formula:
    """Misfit of a Lax-Friedrichs step of the shallow water equations on a torus."""
    h, p, q = (tensor(name, (n, m)) for name in "hpq")
    H, P, Q = (tensor(name, (n, m)) for name in "HPQ")
    la, gr = sympy.symbols("la gr", positive=True)

    def step(u: Any, f: Any, g: Any, roll: Any = td.roll) -> Any:
        mean = (roll(u, 1, axis=0) + roll(u, -1, axis=0) + roll(u, 1, axis=1) + roll(u, -1, axis=1)) / 4
        return mean - la / 2 * (roll(f, -1, axis=0) - roll(f, 1, axis=0) + roll(g, -1, axis=1) - roll(g, 1, axis=1))

    pressure = gr / 2 * h**2
    new = step(h, p, q), step(p, p**2 / h + pressure, p * q / h), step(q, p * q / h, q**2 / h + pressure)
    value = sum(td.sum((u - U) ** 2) for u, U in zip(new, (H, P, Q), strict=True)) / 2

    def function(xp: Any, h: Any, p: Any, q: Any, H: Any, P: Any, Q: Any, la: Any, gr: Any) -> Any:
        def step(u: Any, f: Any, g: Any) -> Any:
            mean = sum(xp.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)) / 4
            return mean - la / 2 * (xp.roll(f, -1, 0) - xp.roll(f, 1, 0) + xp.roll(g, -1, 1) - xp.roll(g, 1, 1))

        pressure, mixed = gr / 2 * h**2, p * q / h
        new = step(h, p, q), step(p, p**2 / h + pressure, mixed), step(q, mixed, q**2 / h + pressure)
        return sum(((u - U) ** 2).sum() for u, U in zip(new, (H, P, Q), strict=True)) / 2

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        return random.uniform(1, 2, (n, m)), *(normal(random, n, m) for _ in range(5)), 0.2, 1.5

    return Formula((h, p, q, H, P, Q, la, gr), value, (h, p, q), function, inputs)


@case("tensor", {"n": 256, "m": 256}, {"n": 5, "m": 4})
def wave_inversion() -> Formula:
    """Misfit of a wave field after three leapfrog steps, by the speed and the initial fields."""
    c, u0, u1, seen = (tensor(name, (n, m)) for name in ("c", "u0", "u1", "seen"))
    dt = sympy.Symbol("dt", positive=True)
    before, now = u0, u1
    for _ in range(3):
        bend = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * now[1:-1, 1:-1]
        before, now = now, 2 * now - before + dt**2 * c**2 * td.pad(bend, ((1, 1), (1, 1)))
    value = td.sum((now - seen) ** 2) / 2

    def function(xp: Any, c: Any, before: Any, now: Any, seen: Any, dt: Any) -> Any:
        for _ in range(3):
            bend = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * now[1:-1, 1:-1]
            before, now = now, 2 * now - before + dt**2 * c**2 * xp.pad(bend, 1)
        return ((now - seen) ** 2).sum() / 2

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        return random.uniform(0.5, 1.5, (n, m)), *(normal(random, n, m) for _ in range(3)), 0.4

    return Formula((c, u0, u1, seen, dt), value, (c, u0, u1), function, inputs)


@case("index", {"n": 512, "m": 512}, {"n": 5, "m": 4})
def bent_plate() -> Formula:
    """Energy of a Kirchhoff plate with variable stiffness under a load."""
    u, D, load = (tensor(name, (n, m)) for name in ("u", "D", "load"))
    nu = sympy.Symbol("nu", positive=True)
    xx, yy = u[i + 1, j] - 2 * u[i, j] + u[i - 1, j], u[i, j + 1] - 2 * u[i, j] + u[i, j - 1]
    xy = (u[i + 1, j + 1] - u[i + 1, j - 1] - u[i - 1, j + 1] + u[i - 1, j - 1]) / 4
    bent = D[i, j] / 2 * ((xx + yy) ** 2 - 2 * (1 - nu) * (xx * yy - xy**2))
    value = total(bent - load[i, j] * u[i, j], (j, 1, m - 2), (i, 1, n - 2))

    def function(xp: Any, u: Any, D: Any, load: Any, nu: Any) -> Any:
        w = u[1:-1, 1:-1]
        xx, yy = u[2:, 1:-1] - 2 * w + u[:-2, 1:-1], u[1:-1, 2:] - 2 * w + u[1:-1, :-2]
        xy = (u[2:, 2:] - u[2:, :-2] - u[:-2, 2:] + u[:-2, :-2]) / 4
        bent = D[1:-1, 1:-1] / 2 * ((xx + yy) ** 2 - 2 * (1 - nu) * (xx * yy - xy**2))
        return (bent - load[1:-1, 1:-1] * w).sum()

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        return normal(random, n, m), random.uniform(0.5, 1.5, (n, m)), normal(random, n, m), 0.3

    return Formula((u, D, load, nu), value, (u, D), function, inputs)


@case("index", {"n": 10000, "e": 19602}, {"n": 9, "e": 8})
def soap_film() -> Formula:
    """Area of a triangulated surface with a penalty for its volume."""
    x, tri = tensor("x", (n, 3)), tensor("tri", (e, 3), dtype=int, below=n)
    rho, goal = sympy.symbols("rho goal", positive=True)

    def cross(u: Any, w: Any) -> list[Any]:
        return [u((s + 1) % 3) * w((s + 2) % 3) - u((s + 2) % 3) * w((s + 1) % 3) for s in range(3)]

    def corner(s: int) -> Any:
        return lambda axis: x[tri[t, s], axis]

    def side(s: int) -> Any:
        return lambda axis: x[tri[t, s], axis] - x[tri[t, 0], axis]

    area = total(sqrt(sum(z**2 for z in cross(side(1), side(2)))), (t, 0, e - 1)) / 2
    triple = sum(x[tri[t, 0], s] * z for s, z in enumerate(cross(corner(1), corner(2))))
    volume = total(triple, (t, 0, e - 1)) / 6
    value = area + rho / 2 * (volume - goal) ** 2

    def function(xp: Any, x: Any, tri: Any, rho: Any, goal: Any) -> Any:
        p = at(xp, x, tri)
        area = norms(xp, xp.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])).sum() / 2
        volume = (p[:, 0] * xp.cross(p[:, 1], p[:, 2])).sum() / 6
        return area + rho / 2 * (volume - goal) ** 2

    def inputs(random: Random, n: int, e: int) -> tuple[Any, ...]:
        side = round(n**0.5)
        node = np.arange(n).reshape(side, side)
        square = node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:]
        halves = [np.stack([square[s] for s in corners], -1).reshape(-1, 3) for corners in ((0, 1, 2), (0, 2, 3))]
        plane = np.stack(np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side), indexing="ij"), -1).reshape(
            -1, 2
        )
        height = 1 + 0.3 * np.sin(3 * plane.sum(1)) + 0.1 / side * random.standard_normal(n)
        return np.column_stack([plane, height]), np.concatenate(halves), 2.0, 0.8

    return Formula((x, tri, rho, goal), value, (x,), function, inputs)
