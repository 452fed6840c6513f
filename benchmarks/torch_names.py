"""PyTorch's functions under NumPy's names, for functions that are written for NumPy and JAX."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

SAME = """abs arange cos cosh cumsum cumprod einsum exp eye floor log log1p maximum minimum ones ones_like outer roll
 sin sinh sqrt stack tan tanh trace tril triu zeros zeros_like"""


def names(torch: Any) -> types.SimpleNamespace:
    """Return a namespace like `jax.numpy` of functions of PyTorch, as far as functions of practice use them."""

    def tensor(x: Any) -> Any:
        return torch.as_tensor(x, dtype=None if isinstance(x, torch.Tensor) else torch.get_default_dtype())

    def summed(x: Any, axis: Any = None) -> Any:
        return x.sum() if axis is None else x.sum(axis)

    def two(function: Any) -> Callable[..., Any]:
        """Return a function of two tensors that takes numbers too."""

        def of_two(x: Any, y: Any) -> Any:
            like = x if isinstance(x, torch.Tensor) else y
            return function(*(torch.as_tensor(one, dtype=like.dtype) for one in (x, y)))

        return of_two

    def rolled(x: Any, shift: int, axis: Any = None) -> Any:
        return torch.roll(x, shift, axis)

    def padded(x: Any, widths: Any, mode: str = "constant") -> Any:
        pairs = [widths] * x.ndim if isinstance(widths[0], int) else list(widths)
        flat = [number for pair in reversed(pairs) for number in pair]
        return torch.nn.functional.pad(x, flat, mode=mode)

    def logsumexp(x: Any, axis: Any = None) -> Any:
        return torch.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis)

    def softplus(x: Any) -> Any:
        return torch.logaddexp(x, torch.zeros_like(x))

    own = {
        "__name__": "torch",
        "pi": torch.pi,
        "sum": summed,
        "mean": lambda x, axis=None: x.mean() if axis is None else x.mean(axis),
        "diff": lambda x, axis=-1: torch.diff(x, dim=axis),
        "cross": lambda x, y: torch.linalg.cross(x, y),
        "where": torch.where,
        "maximum": two(torch.maximum),
        "minimum": two(torch.minimum),
        "logaddexp": two(torch.logaddexp),
        "take_along_axis": lambda x, places, axis: torch.take_along_dim(x, places, axis),
        "concatenate": lambda parts, axis=0: torch.cat(list(parts), axis),
        "stack": lambda parts, axis=0: torch.stack(list(parts), axis),
        "cumprod": lambda x, axis=0: torch.cumprod(x, axis),
        "cumsum": lambda x, axis=0: torch.cumsum(x, axis),
        "roll": rolled,
        "pad": padded,
        "arccos": torch.arccos,
        "arctan2": torch.arctan2,
        "array": tensor,
        "ones": lambda shape: torch.ones(shape),
        "zeros": lambda shape: torch.zeros(shape),
        "linalg": torch.linalg,
        "special": types.SimpleNamespace(
            erf=torch.special.erf, erfc=torch.special.erfc, gammaln=torch.lgamma, digamma=torch.digamma,
            logsumexp=logsumexp,
        ),
        "nn": types.SimpleNamespace(
            relu=torch.relu, sigmoid=torch.sigmoid, softplus=softplus, softmax=lambda x, axis=-1: torch.softmax(x, axis)
        ),
    }  # fmt: skip
    return types.SimpleNamespace(**{name: getattr(torch, name) for name in SAME.split()} | own)


def in_torch(function: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    """Return a function that calls JAX by the names `jax`, `jnp` and `jsp` with PyTorch in place of JAX."""
    own = names(torch)
    replaced = {"jnp": own, "jsp": own.special, "jax": types.SimpleNamespace(nn=own.nn, numpy=own)}
    assert isinstance(function, types.FunctionType)
    scope = function.__globals__ | replaced
    return types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
