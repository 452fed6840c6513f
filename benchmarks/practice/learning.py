"""Machine learning: sequences, rendering, transport, embeddings, mixtures, ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from sympy import Ne, Piecewise, exp, log

import sympy_tensordiff as td
from benchmarks.gathers import at
from benchmarks.practice.case import (
    Formula,
    Random,
    case,
    logsumexp,
    normal,
    norms,
    softplus,
    tensor,
    total,
)

a, b, c, d, h, i, j, k, l, m, n, t = td.indices("a b c d h i j k l m n t")


@case("mixed", {"b": 32, "c": 40}, {"b": 2, "c": 3})
def sequence_labels() -> Formula:
    """Negative log-likelihood of a linear-chain random field, a batch of sequences of six labels."""
    E, A = tensor("E", (b, 6, c)), tensor("A", (c, c))
    y = tensor("y", (b, 6), dtype=int, below=c)
    forward = E[:, 0, :]
    for s in range(1, 6):
        forward = td.logsumexp(forward[:, :, None] + A[None, :, :], axis=1) + E[:, s, :]
    path = total(E[i, t, y[i, t]], (t, 0, 5), (i, 0, b - 1)) + total(A[y[i, t], y[i, t + 1]], (t, 0, 4), (i, 0, b - 1))
    value = td.sum(td.logsumexp(forward, axis=1)) - path

    def function(xp: Any, E: Any, A: Any, y: Any) -> Any:
        forward = E[:, 0]
        for s in range(1, 6):
            forward = logsumexp(xp, forward[:, :, None] + A, 1) + E[:, s]
        path = xp.take_along_axis(E, y[..., None], 2).sum() + A[y[:, :-1], y[:, 1:]].sum()
        return logsumexp(xp, forward, 1).sum() - path

    def inputs(random: Random, b: int, c: int) -> tuple[Any, ...]:
        return normal(random, b, 6, c), normal(random, c, c), random.integers(c, size=(b, 6))

    return Formula((E, A, y), value, (E, A), function, inputs)


@case("index", {"n": 1024, "m": 64}, {"n": 3, "m": 4})
def ray_colours() -> Formula:
    """Squared error of the colours of rays through a radiance field."""
    density, gap, colour = tensor("density", (n, m)), tensor("gap", (n, m)), tensor("colour", (n, m, 3))
    seen = tensor("seen", (n, 3))
    through = exp(-total(density[i, k] * gap[i, k], (k, 0, j - 1)))
    rendered = total(through * (1 - exp(-density[i, j] * gap[i, j])) * colour[i, j, c], (j, 0, m - 1))
    value = total((rendered - seen[i, c]) ** 2, (c, 0, 2), (i, 0, n - 1))

    def function(xp: Any, density: Any, gap: Any, colour: Any, seen: Any) -> Any:
        depth = density * gap
        weight = xp.exp(depth - xp.cumsum(depth, 1)) * (1 - xp.exp(-depth))
        return ((xp.einsum("ij,ijc->ic", weight, colour) - seen) ** 2).sum()

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        arrays = random.uniform(0, 2, (n, m)), random.uniform(0.02, 0.1, (n, m)), random.random((n, m, 3))
        return *arrays, random.random((n, 3))

    return Formula((density, gap, colour, seen), value, (density, colour), function, inputs)


@case("tensor", {"n": 200, "m": 150}, {"n": 4, "m": 3})
def entropic_transport() -> Formula:
    """Cost of an entropic transport plan after five of Sinkhorn's scalings."""
    C, p, q = tensor("C", (n, m)), tensor("p", n), tensor("q", m)
    reg = sympy.Symbol("reg", positive=True)
    K, right = td.exp(-C / reg), td.ones(m)
    for _ in range(5):
        left = p / (K @ right)
        right = q / (K.T @ left)
    value = td.dot(left, (K * C) @ right)

    def function(xp: Any, C: Any, p: Any, q: Any, reg: Any) -> Any:
        K, right = xp.exp(-C / reg), xp.ones_like(q)
        for _ in range(5):
            left = p / (K @ right)
            right = q / (K.T @ left)
        return left @ (K * C) @ right

    def inputs(random: Random, n: int, m: int) -> tuple[Any, ...]:
        return random.random((n, m)), np.full(n, 1 / n), np.full(m, 1 / m), 0.3

    return Formula((C, p, q, reg), value, (C, p, q, reg), function, inputs)


@case("tensor", {"n": 256, "d": 64}, {"n": 4, "d": 3})
def contrastive_pairs() -> Formula:
    """Symmetric contrastive loss of pairs of embeddings with a learnt temperature."""
    X, Y = tensor("X", (n, d)), tensor("Y", (n, d))
    heat = sympy.Symbol("heat", positive=True)
    U, V = (Z / td.sqrt(td.sum(Z**2, axis=1))[:, None] for Z in (X, Y))
    scores = U @ V.T / heat
    value = td.mean(td.logsumexp(scores, axis=1) + td.logsumexp(scores, axis=0)) / 2 - td.trace(scores) / n

    def function(xp: Any, X: Any, Y: Any, heat: Any) -> Any:
        U, V = (Z / norms(xp, Z)[:, None] for Z in (X, Y))
        scores = U @ V.T / heat
        return (logsumexp(xp, scores, 1) + logsumexp(xp, scores, 0)).mean() / 2 - xp.trace(scores) / len(X)

    def inputs(random: Random, n: int, d: int) -> tuple[Any, ...]:
        X = normal(random, n, d)
        return X, X + normal(random, n, d), 0.2

    return Formula((X, Y, heat), value, (X, Y, heat), function, inputs)


@case("index", {"n": 400}, {"n": 5})
def neighbour_embedding() -> Formula:
    """Divergence of Student's kernel of points in the plane from given similarities (t-SNE)."""
    Y, P = tensor("Y", (n, 2)), tensor("P", (n, n))
    kernel = 1 / (1 + total((Y[i, k] - Y[j, k]) ** 2, (k, 0, 1)))
    others = total(Piecewise((kernel, Ne(i, j)), (0, True)), (j, 0, n - 1), (i, 0, n - 1))
    value = log(others) - total(P[i, j] * log(kernel), (j, 0, n - 1), (i, 0, n - 1))

    def function(xp: Any, Y: Any, P: Any) -> Any:
        square = ((Y[:, None] - Y[None]) ** 2).sum(-1)
        return xp.log((1 / (1 + square)).sum() - len(Y)) + (P * xp.log1p(square)).sum()

    def inputs(random: Random, n: int) -> tuple[Any, ...]:
        P = random.random((n, n)) * (1 - np.eye(n))
        return normal(random, n, 2), (P + P.T) / (2 * P.sum())

    return Formula((Y, P), value, (Y,), function, inputs)


@case("tensor", {"b": 64, "d": 32, "h": 64}, {"b": 2, "d": 2, "h": 3})
def gated_recurrence() -> Formula:
    """Loss after four steps of a gated recurrent unit."""
    X, Y, H0 = tensor("X", (4, b, d)), tensor("Y", (b, h)), tensor("H0", (b, h))
    names = ["Wz", "Wr", "Wn", "Uz", "Ur", "Un"]
    Wz, Wr, Wn, Uz, Ur, Un = (tensor(name, (d if name[0] == "W" else h, h)) for name in names)
    H = H0
    for s in range(4):
        z, r = td.sigmoid(X[s] @ Wz + H @ Uz), td.sigmoid(X[s] @ Wr + H @ Ur)
        H = (1 - z) * td.tanh(X[s] @ Wn + r * (H @ Un)) + z * H
    value = td.sum((H - Y) ** 2) / 2
    weights = Wz, Wr, Wn, Uz, Ur, Un

    def function(xp: Any, X: Any, Y: Any, H: Any, Wz: Any, Wr: Any, Wn: Any, Uz: Any, Ur: Any, Un: Any) -> Any:
        def sigmoid(x: Any) -> Any:
            return 1 / (1 + xp.exp(-x))

        for x in X:
            z, r = sigmoid(x @ Wz + H @ Uz), sigmoid(x @ Wr + H @ Ur)
            H = (1 - z) * xp.tanh(x @ Wn + r * (H @ Un)) + z * H
        return ((H - Y) ** 2).sum() / 2

    def inputs(random: Random, b: int, d: int, h: int) -> tuple[Any, ...]:
        shapes = [(d, h)] * 3 + [(h, h)] * 3
        arrays = normal(random, 4, b, d), normal(random, b, h), normal(random, b, h)
        return *arrays, *(normal(random, *shape, scale=shape[0] ** -0.5) for shape in shapes)

    return Formula((X, Y, H0, *weights), value, weights, function, inputs)


@case("index", {"n": 2000, "m": 16, "d": 8}, {"n": 3, "m": 2, "d": 2})
def diagonal_mixture() -> Formula:
    """Negative log-likelihood of a mixture of Gaussians with diagonal precisions."""
    x, w = tensor("x", (n, d)), tensor("w", m)
    mu, s = tensor("mu", (m, d)), tensor("s", (m, d))
    exponent = w[j] + total(s[j, k] - exp(2 * s[j, k]) * (x[i, k] - mu[j, k]) ** 2 / 2, (k, 0, d - 1))
    likelihood = log(total(exp(exponent), (j, 0, m - 1))) - log(total(exp(w[l]), (l, 0, m - 1)))
    value = -total(likelihood, (i, 0, n - 1))

    def function(xp: Any, x: Any, w: Any, mu: Any, s: Any) -> Any:
        exponent = w + s.sum(1) - ((xp.exp(s) * (x[:, None] - mu)) ** 2).sum(2) / 2
        return len(x) * logsumexp(xp, w) - logsumexp(xp, exponent, 1).sum()

    def inputs(random: Random, n: int, m: int, d: int) -> tuple[Any, ...]:
        return normal(random, n, d), normal(random, m), normal(random, m, d), normal(random, m, d, scale=0.2)

    return Formula((x, w, mu, s), value, (w, mu, s), function, inputs)


@case("index", {"n": 2000, "m": 3000, "t": 20000, "d": 16}, {"n": 3, "m": 4, "t": 6, "d": 2})
def personal_ranking() -> Formula:
    """Pairwise ranking of items by a factorisation, over triples of a user and two items."""
    U, V = tensor("U", (n, d)), tensor("V", (m, d))
    user = tensor("user", t, dtype=int, below=n)
    liked, other = (tensor(name, t, dtype=int, below=m) for name in ("liked", "other"))
    lam = sympy.Symbol("lam", positive=True)
    margin = total(U[user[a], k] * (V[liked[a], k] - V[other[a], k]), (k, 0, d - 1))
    squares = total(U[i, k] ** 2, (k, 0, d - 1), (i, 0, n - 1)) + total(V[i, k] ** 2, (k, 0, d - 1), (i, 0, m - 1))
    value = total(log(1 + exp(-margin)), (a, 0, t - 1)) + lam / 2 * squares

    def function(xp: Any, U: Any, V: Any, user: Any, liked: Any, other: Any, lam: Any) -> Any:
        margin = (at(xp, U, user) * (at(xp, V, liked) - at(xp, V, other))).sum(1)
        return softplus(xp, -margin).sum() + lam / 2 * ((U**2).sum() + (V**2).sum())

    def inputs(random: Random, n: int, m: int, t: int, d: int) -> tuple[Any, ...]:
        items = random.integers(m, size=t), random.integers(m, size=t)
        return normal(random, n, d, scale=0.5), normal(random, m, d, scale=0.5), random.integers(n, size=t), *items, 0.1

    return Formula((U, V, user, liked, other, lam), value, (U, V), function, inputs)
