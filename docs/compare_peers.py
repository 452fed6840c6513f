"""Write the table of calls in comparison.md: run ``python docs/compare_peers.py``.

It needs the extra ``bench`` (JAX, PyTorch, KeOps) and a compiler for KeOps. Each cell is what a call returned.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pykeops
import sympy
import torch
from pykeops.numpy import LazyTensor

import sympy_tensordiff as td

PAGE = Path(__file__).resolve().parent / "comparison.md"
BEGIN, END = "<!-- written by docs/compare_peers.py -->", "<!-- end of what is written -->"

N, RANK = 200, 5
rng = np.random.default_rng(0)
jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)
i, j, k, q, n, m, r = td.indices("i j k q n m r")
x = td.TensorSymbol("x", n)
s = sympy.Symbol("s", real=True)


def torch_gradient(function: Callable[[Any], Any], at: Any) -> Any:
    variable = torch.tensor(at, requires_grad=True)
    function(variable).backward()
    return variable.grad.numpy()


def own_gradient(expression: Any, wrt: Any, at: Any) -> Any:
    return td.lambdify([wrt], td.gradient(expression, wrt), "numpy")(np.asarray(at) if np.ndim(at) else at)


def answer(call: Callable[[], Any]) -> str:
    """Return the result of a call as text, or the class of its exception."""
    try:
        value = call()
    except Exception as error:
        return f"`{type(error).__name__}`"
    if isinstance(value, str):
        return value
    array = np.asarray(value, dtype=float)
    return ", ".join(f"{entry:.4g}" for entry in array.ravel())


def primitives(function: Callable[[Any], Any], at: Any) -> str:
    """Return the operation of JAX that writes the derivative."""
    names = [equation.primitive.name for equation in jax.make_jaxpr(function)(at).jaxpr.eqns]
    return f"`{next(name for name in reversed(names) if name.startswith(('scatter', 'gather', 'pad')))}`"


def hessian_text(hessian: Any) -> str:
    array = np.asarray(hessian)
    return f"{array.nbytes / 1e6:g} MB, one entry in {round(1 / (array != 0).mean())} is not 0"


def factorization(matrix: Any) -> tuple[Any, Any, Any, Any]:
    return tuple(matrix(rng.standard_normal(shape)) for shape in ((N, RANK), (N, RANK), (N, N)))


def own_hessian() -> str:
    U, V, A = td.TensorSymbol("U", (n, r)), td.TensorSymbol("V", (m, r)), td.TensorSymbol("A", (n, m))
    error = td.IndexedSum(U[i, k] * V[j, k], (k, 0, r - 1)) - A[i, j]
    return f"`{td.hessian(td.IndexedSum(error**2, (j, 0, m - 1), (i, 0, n - 1)), U).body}`"


def rows() -> list[tuple[str, str, str, str]]:
    window = 2 * np.arange(6)[:, None] + 3 * np.arange(5)
    U, V, A = factorization(jnp.asarray)
    tU, tV, tA = factorization(torch.tensor)
    signal = td.TensorSymbol("signal", 23)
    taps = td.TensorSymbol("w", 5)
    own = td.IndexedSum(taps[k] * signal[2 * i + 3 * k], (i, 0, 5), (k, 0, 4))
    chosen = td.IndexedSum(sympy.Piecewise((sympy.log(x[k]), x[k] > 0), (0, True)), (k, 0, n - 1))
    greatest = td.IndexedMax(x[k], (k, 0, n - 1))
    return [
        (
            "derivative of `abs` at 0",
            answer(lambda: jax.grad(jnp.abs)(0.0)),
            answer(lambda: torch_gradient(torch.abs, 0.0)),
            answer(lambda: own_gradient(sympy.Abs(s), s, 0.0)),
        ),
        (
            "of `max(x, 0)` at 0",
            answer(lambda: jax.grad(lambda t: jnp.maximum(t, 0.0))(0.0)),
            answer(lambda: torch_gradient(lambda t: torch.maximum(t, torch.tensor(0.0)), 0.0)),
            answer(lambda: own_gradient(sympy.Max(s, 0), s, 0.0)),
        ),
        (
            "of `relu` at 0",
            answer(lambda: jax.grad(jax.nn.relu)(0.0)),
            answer(lambda: torch_gradient(torch.relu, 0.0)),
            answer(lambda: own_gradient(td.relu(s), s, 0.0)),
        ),
        (
            "of the maximum of 1, 1, 0",
            answer(lambda: jax.grad(jnp.max)(jnp.array([1.0, 1.0, 0.0]))),
            answer(lambda: torch_gradient(torch.max, [1.0, 1.0, 0.0])),
            answer(lambda: own_gradient(greatest, x, [1.0, 1.0, 0.0])),
        ),
        (
            "of `log(x)` where `x > 0`, else 0; at 0 and 4",
            answer(lambda: jax.grad(lambda v: jnp.where(v > 0, jnp.log(v), 0).sum())(jnp.array([0.0, 4.0]))),
            answer(lambda: torch_gradient(lambda v: torch.where(v > 0, torch.log(v), 0.0).sum(), [0.0, 4.0])),
            answer(lambda: own_gradient(chosen, x, [0.0, 4.0])),
        ),
        (
            "entry 30 of 23 entries 0, 1, …",
            answer(lambda: jnp.arange(23.0)[30]),
            answer(lambda: torch.arange(23.0)[30]),
            answer(lambda: signal[30]),
        ),
        (
            "the gradient of $\\sum_{ik} w_k\\, x_{2i+3k}$ is written by",
            primitives(jax.grad(lambda v: jnp.sum(v[window] @ jnp.ones(5))), jnp.arange(23.0)),
            f"`{type(torch.arange(23.0, requires_grad=True)[torch.tensor(window)].grad_fn).__name__.rstrip('0')}`",
            f"`{td.gradient(own, signal).body}`",
        ),
        (
            f"Hessian of $\\lVert U V^\\top - A \\rVert^2$ by $U$, {N} by {RANK}",
            hessian_text(jax.hessian(lambda u: jnp.sum((u @ V.T - A) ** 2))(U)),
            hessian_text(torch.func.hessian(lambda u: ((u @ tV.T - tA) ** 2).sum())(tU)),
            own_hessian(),
        ),
    ]


def beside_keops() -> str:
    """Compare value and gradient of a sum over pairs by KeOps and by this package."""
    d = td.indices("d")
    X, Y, b = td.TensorSymbol("X", (n, d)), td.TensorSymbol("Y", (m, d)), td.TensorSymbol("b", m)
    distance = td.IndexedSum((X[i, k] - Y[j, k]) ** 2, (k, 0, d - 1))
    field = td.TensorComprehension(td.IndexedSum(sympy.exp(-distance) * b[j], (j, 0, m - 1)), (i, n))
    arrays = [rng.standard_normal(shape) for shape in ((300, 3), (400, 3), (400, 1))]
    xi, yj, bj = LazyTensor(arrays[0][:, None]), LazyTensor(arrays[1][None]), LazyTensor(arrays[2][None])
    formula = (-((xi - yj) ** 2).sum(-1)).exp() * bj
    by_keops = formula.sum(axis=1)
    by_us = td.lambdify((X, Y, b), field, "numpy")(arrays[0], arrays[1], arrays[2][:, 0])
    return f"{np.abs(by_keops[:, 0] - by_us).max() / np.abs(by_us).max():.0e}"


def table() -> str:
    head = f"| | JAX {jax.__version__} | PyTorch {torch.__version__.partition('+')[0]} | this package |"
    lines = [head, "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows())]
    return "\n".join([
        *lines,
        "",
        f"A sum of Gaussians over 300 and 400 points by KeOps {pykeops.__version__} and by this package differs by "
        f"{beside_keops()}, relative to the greatest value. "
        f"(Python {platform.python_version()}, NumPy {np.__version__}, SymPy {sympy.__version__}, on a CPU.)",
    ])  # fmt: skip


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
