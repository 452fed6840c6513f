"""Portfolios and volatility surfaces."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import IndexedBase, Rational, Sum, log, sqrt

import sympy_tensordiff as td
from benchmarks.practice.case import Formula, Random, case, covariance, normal, tensor, total

i, j, k, m, n = td.indices("i j k m n")


@case("sympy", {"n": 1000}, {"n": 4})
def portfolio_with_costs() -> Formula:
    """Mean, variance and trading costs of a portfolio."""
    w, old, mean, cost = (IndexedBase(name, shape=(n,)) for name in ("w", "old", "mean", "cost"))
    S = IndexedBase("S", shape=(n, n))
    risk, eps = sympy.symbols("risk eps", positive=True)
    trade = (w[i] - old[i]) ** 2 + eps
    variance = Sum(w[i] * Sum(S[i, j] * w[j], (j, 0, n - 1)), (i, 0, n - 1))
    costs = Sum(cost[i] * (sqrt(trade) + trade ** Rational(3, 4)), (i, 0, n - 1))
    value = risk / 2 * variance + costs - Sum(mean[i] * w[i], (i, 0, n - 1))

    def function(xp: Any, w: Any, old: Any, mean: Any, cost: Any, S: Any, risk: Any, eps: Any) -> Any:
        trade = (w - old) ** 2 + eps
        return risk / 2 * w @ S @ w + (cost * (xp.sqrt(trade) + trade**0.75)).sum() - mean @ w

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        vectors = [normal(random, n, scale=n**-0.5) for _ in range(3)]
        return *vectors, random.uniform(0.01, 0.1, n), covariance(random, n), 2.0, 0.01

    return Formula((w, old, mean, cost, S, risk, eps), value, (w,), function, inputs)


@case("index", {"n": 100, "m": 200}, {"n": 2, "m": 3})
def sabr_surface() -> Formula:
    """Calibration of SABR's parameters for each expiry to a surface of volatilities (Hagan's formula)."""
    alpha, rho, nu, time = (tensor(name, n) for name in ("alpha", "rho", "nu", "time"))
    strike, seen = tensor("strike", m), tensor("seen", (n, m))
    spot = sympy.Symbol("spot", positive=True)
    moneyness = log(spot / strike[j])
    z = nu[i] / alpha[i] * moneyness
    chi = log((sqrt(1 - 2 * rho[i] * z + z**2) + z - rho[i]) / (1 - rho[i]))
    late = 1 + time[i] * (rho[i] * nu[i] * alpha[i] / 4 + (2 - 3 * rho[i] ** 2) / 24 * nu[i] ** 2)
    value = total((alpha[i] * z / chi * late - seen[i, j]) ** 2, (j, 0, m - 1), (i, 0, n - 1)) / 2

    def function(xp: Any, alpha: Any, rho: Any, nu: Any, time: Any, strike: Any, seen: Any, spot: Any) -> Any:
        z = (nu / alpha)[:, None] * xp.log(spot / strike)
        r = rho[:, None]
        chi = xp.log((xp.sqrt(1 - 2 * r * z + z**2) + z - r) / (1 - r))
        late = 1 + time * (rho * nu * alpha / 4 + (2 - 3 * rho**2) / 24 * nu**2)
        return (((alpha * late)[:, None] * z / chi - seen) ** 2).sum() / 2

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        smile = random.uniform(0.1, 0.4, n), random.uniform(-0.6, 0.3, n), random.uniform(0.3, 0.9, n)
        strikes = random.choice([0.8, 1.25], size=m) * random.uniform(0.9, 1.1, m)
        return *smile, random.uniform(0.2, 2, n), strikes, random.uniform(0.1, 0.4, (n, m)), 1.0

    return Formula((alpha, rho, nu, time, strike, seen, spot), value, (alpha, rho, nu), function, inputs)


@case("sympy", {"n": 400}, {"n": 4})
def risk_parity() -> Formula:
    """Squared differences of the risks that the assets of a portfolio contribute."""
    w, S = IndexedBase("w", shape=(n,)), IndexedBase("S", shape=(n, n))

    def risk(i: Any) -> Any:
        return w[i] * Sum(S[i, k] * w[k], (k, 0, n - 1))

    value = Sum((risk(i) - risk(j)) ** 2, (j, 0, n - 1), (i, 0, n - 1))

    def function(xp: Any, w: Any, S: Any) -> Any:
        risk = w * (S @ w)
        return ((risk[:, None] - risk) ** 2).sum()

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        return random.uniform(0.5, 1.5, n) / n, covariance(random, n)

    return Formula((w, S), value, (w,), function, inputs)
