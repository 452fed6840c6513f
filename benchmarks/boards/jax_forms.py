"""The evals of GradBench in JAX, for comparison: values and derivatives under ``jit``, with the inputs of `evals`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from benchmarks.boards import inputs
from benchmarks.boards.evals import array, expansion

jax.config.update("jax_enable_x64", True)
Prepared = tuple[Callable[..., Any], tuple[Any, ...]]
"""A compiled function and its arguments on the device."""


def least_squares(x: Any, t: Any) -> Any:
    powers = t[:, None] ** jnp.arange(len(x))
    return ((jnp.sign(t) - powers @ x) ** 2).sum() / 2


def runge_kutta(x: Any, s: int) -> Any:
    h = 2 / s

    def slope(y: Any) -> Any:
        return x * jnp.concatenate([jnp.ones(1), y[:-1]])

    def step(y: Any, _: Any) -> Any:
        one = slope(y)
        two = slope(y + h / 2 * one)
        three = slope(y + h / 2 * two)
        return y + h / 6 * (one + 2 * two + 2 * three + slope(y + h * three)), None

    return jax.lax.scan(step, jnp.zeros_like(x), None, length=s)[0]


def minors(A: Any, first: Any, signs: Any, before: Any) -> Any:
    def expand(minor: Any, row: Any) -> Any:
        return (signs * row * minor[before]).sum(1), None

    return jax.lax.scan(expand, first, A)[0][-1]


def clusters(centroids: Any, points: Any) -> Any:
    return ((points[:, None] - centroids) ** 2).sum(2).min(1).sum()


def newton(centroids: Any, points: Any) -> Any:
    """The gradient by the diagonal of the Hessian, which is the product with a vector of ones."""
    slope, curvature = jax.jvp(lambda c: jax.grad(clusters)(c, points), (centroids,), (jnp.ones_like(centroids),))
    return slope / curvature


def mixture(alpha: Any, mu: Any, q: Any, lower: Any, x: Any, gamma: float, freedom: float) -> Any:
    offset = x[:, None] - mu
    root = jnp.exp(q) * offset + jnp.einsum("kab,ikb->ika", lower, offset)
    data = logsumexp(alpha - (root**2).sum(2) / 2 + q.sum(1), axis=1).sum()
    prior = freedom * q.sum() - gamma**2 / 2 * (jnp.exp(2 * q).sum() + (lower**2).sum())
    return data - len(x) * (x.shape[1] * jnp.log(2 * jnp.pi) / 2 + logsumexp(alpha)) + prior


def projected(camera: Any, point: Any, weight: Any, image: Any) -> Any:
    turn, offset = camera[:3], point - camera[3:6]
    angle = jnp.sqrt(turn @ turn)
    axis = turn / angle
    along = axis @ offset * (1 - jnp.cos(angle))
    seen = offset * jnp.cos(angle) + jnp.cross(axis, offset) * jnp.sin(angle) + axis * along
    flat = seen[:2] / seen[2]
    squared = flat @ flat
    return weight * (flat * (1 + camera[9] * squared + camera[10] * squared**2) * camera[6] + camera[7:9] - image)


def bundle(cameras: Any, points: Any, weights: Any, by: Any, of: Any, image: Any) -> Any:
    return jax.vmap(projected)(cameras[by], points[of], weights, image), 1 - weights**2


def blocks(cameras: Any, points: Any, weights: Any, by: Any, of: Any, image: Any) -> Any:
    """The entries of the sparse Jacobian by observation: of a camera, a point and a weight."""
    own = jax.vmap(jax.jacfwd(projected, argnums=(0, 1, 2)))(cameras[by], points[of], weights, image)
    return own, -2 * weights


def memory(main: Any, extra: Any, state: Any, now: Any, new: Any) -> Any:
    layers, width = len(main) // 2, main.shape[1] // 4

    def step(states: Any, row: Any) -> Any:
        hidden, cells, x = list(states[0]), list(states[1]), row[0] * extra[0]
        for layer in range(layers):
            weight, bias = main[2 * layer].reshape(4, width), main[2 * layer + 1].reshape(4, width)
            forget = jax.nn.sigmoid(x * weight[0] + bias[0])
            ingate = jax.nn.sigmoid(hidden[layer] * weight[1] + bias[1])
            outgate = jax.nn.sigmoid(x * weight[2] + bias[2])
            change = jnp.tanh(hidden[layer] * weight[3] + bias[3])
            cells[layer] = cells[layer] * forget + ingate * change
            x = hidden[layer] = outgate * jnp.tanh(cells[layer])
        y = x * extra[1] + extra[2]
        return (tuple(hidden), tuple(cells)), (row[1] * (y - jnp.log(2 + jnp.exp(y).sum()))).sum()

    init = tuple(state[2 * layer] for layer in range(layers)), tuple(state[2 * layer + 1] for layer in range(layers))
    losses = jax.lax.scan(step, init, (now, new))[1]
    return -losses.sum() / new.size


def prepared(module: str, function: str, given: Mapping[str, Any]) -> Prepared | None:
    """Return the function of an eval in JAX, or None if it is not written here."""
    is_value = function in ("primal", "objective", "cost")
    if module == "lse":
        return _placed(logsumexp if is_value else jax.grad(logsumexp), (array(given["x"]),))
    if module == "llsq":
        return _placed(least_squares if is_value else jax.grad(least_squares), inputs.least_squares(given))
    if module == "ode":
        solve = partial(runge_kutta, s=given["s"])
        return _placed(solve if is_value else jax.grad(lambda x: solve(x)[-1]), (array(given["x"]),))
    if module == "det":
        return _placed(minors if is_value else jax.grad(minors), expansion(given))
    if module == "kmeans":
        return _placed(clusters if is_value else newton, (array(given["centroids"]), array(given["points"])))
    if module == "gmm":
        return _placed(mixture if is_value else jax.grad(mixture, (0, 1, 2, 3)), inputs.mixture(given))
    if module == "ba":
        return _placed(bundle if is_value else blocks, inputs.bundle(given))
    if module == "lstm":
        return _placed(memory if is_value else jax.grad(memory, (0, 1)), inputs.memory(given))
    return None


def _placed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Prepared:
    return jax.jit(function), tuple(map(jax.device_put, arguments))
