"""The evals of GradBench in PyTorch, for comparison: values and derivatives by autograd, with the inputs
of `evals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.boards import inputs
from benchmarks.boards.evals import array, expansion

torch.set_num_threads(1)
Prepared = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments, which are tensors."""


def least_squares(x: Any, t: Any) -> Any:
    powers = t[:, None] ** torch.arange(len(x))
    return ((torch.sign(t) - powers @ x) ** 2).sum() / 2


def runge_kutta(x: Any, s: int) -> Any:
    h, y = 2 / s, torch.zeros_like(x)

    def slope(y: Any) -> Any:
        return x * torch.cat([torch.ones(1, dtype=y.dtype), y[:-1]])

    for _ in range(s):
        one = slope(y)
        two = slope(y + h / 2 * one)
        three = slope(y + h / 2 * two)
        y = y + h / 6 * (one + 2 * two + 2 * three + slope(y + h * three))
    return y


def minors(A: Any, first: Any, signs: Any, before: Any) -> Any:
    minor = first
    for row in A:
        minor = (signs * row * minor[before]).sum(1)
    return minor[-1]


def clusters(centroids: Any, points: Any) -> Any:
    return ((points[:, None] - centroids) ** 2).sum(2).min(1).values.sum()


def newton(centroids: Any, points: Any) -> Any:
    """The gradient by the diagonal of the Hessian, which is the product with a vector of ones."""
    at = centroids.detach().requires_grad_()
    (slope,) = torch.autograd.grad(clusters(at, points), at, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), at)
    return slope.detach() / curvature


def mixture(alpha: Any, mu: Any, q: Any, lower: Any, x: Any, gamma: float, freedom: float) -> Any:
    offset = x[:, None] - mu
    root = torch.exp(q) * offset + torch.einsum("kab,ikb->ika", lower, offset)
    data = torch.logsumexp(alpha - (root**2).sum(2) / 2 + q.sum(1), 1).sum()
    prior = freedom * q.sum() - gamma**2 / 2 * (torch.exp(2 * q).sum() + (lower**2).sum())
    return data - len(x) * (x.shape[1] * math.log(2 * math.pi) / 2 + torch.logsumexp(alpha, 0)) + prior


def projected(camera: Any, point: Any, weight: Any, image: Any) -> Any:
    turn, offset = camera[:3], point - camera[3:6]
    angle = torch.sqrt(turn @ turn)
    axis = turn / angle
    along = axis @ offset * (1 - torch.cos(angle))
    seen = offset * torch.cos(angle) + torch.linalg.cross(axis, offset) * torch.sin(angle) + axis * along
    flat = seen[:2] / seen[2]
    squared = flat @ flat
    return weight * (flat * (1 + camera[9] * squared + camera[10] * squared**2) * camera[6] + camera[7:9] - image)


def bundle(cameras: Any, points: Any, weights: Any, by: Any, of: Any, image: Any) -> Any:
    return torch.vmap(projected)(cameras[by], points[of], weights, image), 1 - weights**2


def blocks(cameras: Any, points: Any, weights: Any, by: Any, of: Any, image: Any) -> Any:
    """The entries of the sparse Jacobian by observation: of a camera, a point and a weight."""
    own = torch.vmap(torch.func.jacfwd(projected, argnums=(0, 1, 2)))(cameras[by], points[of], weights, image)
    return own, -2 * weights


def memory(main: Any, extra: Any, state: Any, now: Any, new: Any) -> Any:
    layers, width = len(main) // 2, main.shape[1] // 4
    weights, biases = main[::2].reshape(layers, 4, width), main[1::2].reshape(layers, 4, width)
    hidden, cells, loss = list(state[::2]), list(state[1::2]), 0.0
    for given, expected in zip(now, new, strict=True):
        x = given * extra[0]
        for layer in range(layers):
            weight, bias = weights[layer], biases[layer]
            forget = torch.sigmoid(x * weight[0] + bias[0])
            ingate = torch.sigmoid(hidden[layer] * weight[1] + bias[1])
            outgate = torch.sigmoid(x * weight[2] + bias[2])
            change = torch.tanh(hidden[layer] * weight[3] + bias[3])
            cells[layer] = cells[layer] * forget + ingate * change
            x = hidden[layer] = outgate * torch.tanh(cells[layer])
        y = x * extra[1] + extra[2]
        loss = loss + (expected * (y - torch.log(2 + torch.exp(y).sum()))).sum()
    return -loss / new.numel()


def slopes(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """Return the function of the gradients with respect to the first arguments; one gradient is not in a tuple."""

    def compute(*arguments: Any) -> Any:
        at = [argument.detach().requires_grad_() for argument in arguments[:count]]
        found = torch.autograd.grad(function(*at, *arguments[count:]), at)
        return found if count > 1 else found[0]

    return compute


def prepared(module: str, function: str, given: Mapping[str, Any]) -> Prepared | None:
    """Return the function of an eval in PyTorch, or None if it is not written here."""
    is_value = function in ("primal", "objective", "cost")
    if module == "lse":
        value = partial(torch.logsumexp, dim=0)
        return _placed(value if is_value else slopes(value), (array(given["x"]),))
    if module == "llsq":
        return _placed(least_squares if is_value else slopes(least_squares), inputs.least_squares(given))
    if module == "ode":
        solve = partial(runge_kutta, s=given["s"])
        return _placed(solve if is_value else slopes(lambda x: solve(x)[-1]), (array(given["x"]),))
    if module == "det":
        return _placed(minors if is_value else slopes(minors), expansion(given))
    if module == "kmeans":
        return _placed(clusters if is_value else newton, (array(given["centroids"]), array(given["points"])))
    if module == "gmm":
        return _placed(mixture if is_value else slopes(mixture, 4), inputs.mixture(given))
    if module == "ba":
        return _placed(bundle if is_value else blocks, inputs.bundle(given))
    if module == "lstm":
        return _placed(memory if is_value else slopes(memory, 2), inputs.memory(given))
    return None


def _placed(function: Callable[..., Any], arguments: Sequence[Any]) -> Prepared:
    return function, tuple(torch.as_tensor(a) if isinstance(a, np.ndarray) else a for a in arguments)
