"""Rows whose entries arrays of integers select: forces of pairs, a softmax of segments, an embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from sympy import KroneckerDelta

import sympy_tensordiff as td
from benchmarks.gathers import at, totals
from benchmarks.row import Arrays, ByHand, Gradient, Peer, Row, Sizes, Vjp, Work, automatic, by_hand

# The energy sum_e 1/r^12 - 1/r^6 of the pairs (first_e, second_e) of points, whose distance is r, by the points: those
# of a lattice, moved a little, each with its K nearest, of which opposite ones count once.


def ours_forces(sizes: Sizes) -> tuple[Any, Any]:
    points, pairs = sizes["n"] ** 3, sizes["n"] ** 3 * sizes["K"]
    e, k = td.indices("e k")
    x = td.TensorSymbol("x", (points, 3))
    first, second = (td.TensorSymbol(name, pairs, dtype=int, below=points) for name in ("first", "second"))
    square = td.IndexedSum((x[first[e], k] - x[second[e], k]) ** 2, (k, 0, 2))
    return (x, first, second), td.gradient(td.IndexedSum(square**-6 - square**-3, (e, 0, pairs - 1)), x)


def inputs_forces(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, K = sizes["n"], sizes["K"]
    lattice = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    steps = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij"), -1).reshape(-1, 3)
    steps = steps[len(steps) // 2 + 1 :]  # one of each two that are opposite
    steps = steps[np.argsort((steps**2).sum(1), kind="stable")][:K]
    # Those next to each other across the sides of the lattice are as far from each other as they are.
    second = ((lattice[:, None, :] + steps) % n) @ np.array([n * n, n, 1])
    first = np.broadcast_to(np.arange(n**3)[:, None], second.shape)
    return lattice + 0.1 * random.uniform(-1, 1, lattice.shape), first.reshape(-1), second.reshape(-1)


def energy(xp: Any, x: Any, first: Any, second: Any) -> Any:
    return _energy(x[first] - x[second])


def energy_of_library(xp: Any, x: Any, first: Any, second: Any) -> Any:
    return _energy(at(xp, x, first) - at(xp, x, second))


def _energy(difference: Any) -> Any:
    inverse = 1 / (difference * difference).sum(1)
    cube = inverse * inverse * inverse
    return (cube * cube - cube).sum()


def slopes(xp: Any, x: Any, first: Any, second: Any) -> Any:
    """By hand, with two sums of segments: the pairs are in the order of their first point."""
    difference = at(xp, x, first) - at(xp, x, second)
    inverse = 1 / (difference * difference).sum(1)
    cube = inverse * inverse * inverse
    slope = ((6 - 12 * cube) * cube * inverse)[:, None] * difference
    return totals(xp, slope, first, len(x), ordered=True) - totals(xp, slope, second, len(x))


# out_e = exp(z_e) / sum_{f: group_f = group_e} exp(z_f), where z_e = beta_{group_e} s_e: a softmax of each group of
# scores, as the edges that end in the same node of a graph have one, by the scores and by the sharpness of each group.


def ours_softmax(sizes: Sizes) -> tuple[Any, Any]:
    n, groups = sizes["n"], sizes["groups"]
    e, p = td.indices("e p")
    s, ds, beta = td.TensorSymbol("s", n), td.TensorSymbol("ds", n), td.TensorSymbol("beta", groups)
    group = td.TensorSymbol("group", n, dtype=int, below=groups)
    power = td.TensorComprehension(sympy.exp(beta[group[e]] * s[e]), (e, n))
    total = td.TensorComprehension(td.IndexedSum(power[e] * KroneckerDelta(p, group[e]), (e, 0, n - 1)), (p, groups))
    return (s, beta, group, ds), td.vjp(td.TensorComprehension(power[e] / total[group[e]], (e, n)), (s, beta), ds)


def inputs_softmax(random: np.random.Generator, sizes: Sizes) -> Arrays:
    n, groups = sizes["n"], sizes["groups"]
    scores, group, ds = random.standard_normal(n), random.integers(groups, size=n), random.standard_normal(n)
    return scores, random.uniform(0.5, 2, groups), group, ds


def softmax(xp: Any, s: Any, beta: Any, group: Any) -> Any:
    power = xp.exp(at(xp, beta, group) * s)
    return power / at(xp, totals(xp, power, group, len(beta)), group)


def softmax_of_shifted(xp: Any, s: Any, beta: Any, group: Any) -> Any:
    """The greatest score of each group is subtracted; no derivative runs through it."""
    scores = at(xp, beta, group) * s
    if xp.__name__ == "torch":
        top = xp.full_like(beta, -xp.inf).scatter_reduce(0, group, scores.detach(), "amax")
    else:
        import jax

        top = jax.ops.segment_max(jax.lax.stop_gradient(scores), group, len(beta), mode="promise_in_bounds")
    power = xp.exp(scores - at(xp, top, group))
    return power / at(xp, totals(xp, power, group, len(beta)), group)


def slopes_of_softmax(xp: Any, s: Any, beta: Any, group: Any, ds: Any) -> Any:
    """By hand, with three sums of segments."""
    sharpness = at(xp, beta, group)
    power = xp.exp(sharpness * s)
    part = power / at(xp, totals(xp, power, group, len(beta)), group)
    weighted = part * ds
    by_scores = weighted - part * at(xp, totals(xp, weighted, group, len(beta)), group)
    return sharpness * by_scores, totals(xp, s * by_scores, group, len(beta))


# sum_b softplus(-U_{word_b} V_{near_b}) + sum_bk softplus(U_{word_b} V_{other_bk}): words with those near
# them and with others drawn at random, by both tables.


def ours_embedding(sizes: Sizes) -> tuple[Any, Any]:
    words, D, B, K = (sizes[name] for name in ("words", "D", "B", "K"))
    b, k, d = td.indices("b k d")
    U, V = (td.TensorSymbol(name, (words, D)) for name in "UV")
    word, near = (td.TensorSymbol(name, B, dtype=int, below=words) for name in ("word", "near"))
    other = td.TensorSymbol("other", (B, K), dtype=int, below=words)
    reference = td.IndexedSum(U[word[b], d] * V[near[b], d], (d, 0, D - 1))
    without = td.IndexedSum(U[word[b], d] * V[other[b, k], d], (d, 0, D - 1))
    loss = td.softplus(-reference) + td.IndexedSum(td.softplus(without), (k, 0, K - 1))
    return (U, V, word, near, other), td.gradient(td.IndexedSum(loss, (b, 0, B - 1)), (U, V))


def inputs_embedding(random: np.random.Generator, sizes: Sizes) -> Arrays:
    words, D, B, K = (sizes[name] for name in ("words", "D", "B", "K"))
    tables = [random.standard_normal((words, D)) / np.sqrt(D) for _ in "UV"]
    return (*tables, *(random.integers(words, size=shape) for shape in (B, B, (B, K))))


def embedding(xp: Any, U: Any, V: Any, word: Any, near: Any, other: Any) -> Any:
    return _loss(xp, U[word], V[near], V[other])


def embedding_by_selection(xp: Any, U: Any, V: Any, word: Any, near: Any, other: Any) -> Any:
    return _loss(xp, at(xp, U, word), at(xp, V, near), at(xp, V, other))


def embedding_of_library(xp: Any, U: Any, V: Any, word: Any, near: Any, other: Any) -> Any:
    lookup = xp.nn.functional.embedding
    return _loss(xp, lookup(word, U), lookup(near, V), lookup(other, V))


def _loss(xp: Any, u: Any, v: Any, w: Any) -> Any:
    reference, without = (u * v).sum(1), (w @ u[:, :, None])[:, :, 0]
    if xp.__name__ == "torch":
        softplus = xp.nn.functional.softplus
    else:
        import jax

        softplus = jax.nn.softplus
    return softplus(-reference).sum() + softplus(without).sum()


def slopes_of_embedding(xp: Any, U: Any, V: Any, word: Any, near: Any, other: Any) -> Any:
    """By hand: all rows of a table are added at once."""
    u, v, w = at(xp, U, word), at(xp, V, near), at(xp, V, other)
    reference, without = (u * v).sum(1), (w @ u[:, :, None])[:, :, 0]
    by_beside, by_apart = -1 / (1 + xp.exp(reference)), 1 / (1 + xp.exp(-without))
    by_u = by_beside[:, None] * v + (by_apart[:, None, :] @ w)[:, 0]
    by_v = by_beside[:, None] * u
    by_w = by_apart[:, :, None] * u[:, None, :]
    both = xp.concatenate([by_v, by_w.reshape(-1, U.shape[1])])
    places = xp.concatenate([near, other.reshape(-1)])
    return totals(xp, by_u, word, len(U)), totals(xp, both, places, len(V))


def forms(hand: Any, *written: tuple[str, Any]) -> tuple[Peer, ...]:
    """NumPy by hand, and the libraries in all forms, by hand as well."""
    found = [peer for form, formulation in written for peer in automatic(form, formulation)]
    return (by_hand(hand), *found, *automatic("by hand", ByHand(hand)))


ROWS = (
    Row(
        "neighbour-forces",
        "gradient of a Lennard-Jones energy of pairs from a list of neighbours",
        {"n": 16, "K": 40},
        {"n": 3, "K": 4},
        "n",
        ours_forces,
        inputs_forces,
        forms(slopes, ("pairs", Gradient(energy, (0,))), ("selected pairs", Gradient(energy_of_library, (0,)))),
        lambda s: Work(24 * s["n"] ** 3 * s["K"], s["n"] ** 3 * (2 * s["K"] + 6)),
    ),
    Row(
        "segment-softmax",
        "gradients of the softmax of each group of scores",
        {"n": 200_000, "groups": 10_000},
        {"n": 9, "groups": 4},
        "n",
        ours_softmax,
        inputs_softmax,
        forms(
            slopes_of_softmax,
            ("sums of segments", Vjp(softmax, (0, 1))),
            ("shifted", Vjp(softmax_of_shifted, (0, 1))),
        ),
        lambda s: Work(10 * s["n"], 4 * s["n"] + 2 * s["groups"], s["n"]),
    ),
    Row(
        "embedding",
        "gradients of an embedding with negative samples with respect to both tables",
        {"words": 20_000, "D": 64, "B": 4096, "K": 5},
        {"words": 7, "D": 3, "B": 4, "K": 2},
        "B",
        ours_embedding,
        inputs_embedding,
        (
            *forms(
                slopes_of_embedding,
                ("indices", Gradient(embedding, (0, 1))),
                ("selections", Gradient(embedding_by_selection, (0, 1))),
            ),
            Peer("torch", "of the library", Gradient(embedding_of_library, (0, 1))),
        ),
        lambda s: Work(
            6 * s["B"] * (s["K"] + 1) * s["D"],
            2 * s["words"] * s["D"] + s["B"] * (s["K"] + 2) * (s["D"] + 1),
            s["B"] * (s["K"] + 1),
        ),
    ),
)
