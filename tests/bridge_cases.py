"""Functions for the bridges to other libraries: ours, the shapes of the arguments, and the same for arrays of JAX."""

from typing import Any, NamedTuple

import sympy

import sympy_tensordiff as td

i, j, k, n, m = td.indices("i j k n m")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
w = td.TensorSymbol("w", 3)
odd = td.TensorSymbol("odd", 2 * n + 1)
A, B, v = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (n, m)), td.TensorSymbol("v", m)
M = td.TensorSymbol("M", (n, n))
c, d = sympy.symbols("c d", real=True)
chosen = td.TensorSymbol("chosen", 3, dtype=int)


class Case(NamedTuple):
    """Arguments, expression, shapes of the arguments, and the function of `jax.numpy` and the arguments."""

    args: tuple[Any, ...]
    expr: Any
    shapes: tuple[tuple[int, ...], ...]
    plain: Any


def total(body: Any, *limits: Any) -> Any:
    return td.IndexedSum(body, *limits)


def tensor(body: Any, *limits: Any) -> Any:
    return td.TensorComprehension(body, *limits)


def window(f: Any, a: Any, b: Any) -> Any:
    return f(sum(a[t : a.shape[0] - 2 + t] * b[t] for t in range(3)))


chain = total((x[i + 1] - x[i] ** 2) ** 2, (i, 0, n - 2))
waves = tensor(sympy.sin(total(odd[i + k] * w[k], (k, 0, 2))), (i, 2 * n - 1))
CASES: dict[str, Case] = {
    "square": Case((x,), total(x[i] ** 2, (i, 0, n - 1)), ((4,),), lambda np, x: np.sum(x**2)),
    "dot": Case((x, y), td.dot(x, y), ((4,), (4,)), lambda np, x, y: x @ y),
    "cubes": Case((x, y), x**3 * y, ((4,), (4,)), lambda np, x, y: x**3 * y),
    "outer": Case((x, v), td.outer(x, v), ((3,), (2,)), lambda np, x, v: np.outer(x, v)),
    "product": Case((A, v), A @ v, ((3, 2), (2,)), lambda np, A, v: A @ v),
    "matrices": Case((A, B), A @ B.T, ((3, 2), (3, 2)), lambda np, A, B: A @ B.T),
    "quadratic": Case((x, M), td.dot(x, M @ x), ((3,), (3, 3)), lambda np, x, M: x @ M @ x),
    "trace": Case((M,), td.trace(M @ M), ((3, 3),), lambda np, M: np.trace(M @ M)),
    "inverse": Case(
        (M,), td.inv(M + 3 * td.DeltaTensor((n,))), ((2, 2),), lambda np, M: np.linalg.inv(M + 3 * np.eye(2))
    ),
    "determinant": Case((M,), td.det(M), ((3, 3),), lambda np, M: np.linalg.det(M)),
    "sines": Case(
        (x,),
        tensor(sympy.sin(x[i]) * sympy.exp(x[n - 1 - i]), (i, n)),
        ((4,),),
        lambda np, x: np.sin(x) * np.exp(x[::-1]),
    ),
    "convolution": Case(
        (odd, w),
        tensor(total(odd[i + k] * w[k], (k, 0, 2)), (i, 2 * n - 1)),
        ((7,), (3,)),
        lambda np, a, b: window(lambda s: s, a, b),
    ),
    "waves": Case(
        (odd, w),
        waves,
        ((7,), (3,)),
        lambda np, a, b: window(np.sin, a, b),
    ),
    "strided": Case((odd,), tensor(odd[2 * i] * odd[2 * i + 1], (i, n)), ((7,),), lambda np, a: a[0:-1:2] * a[1::2]),
    "flipped": Case((x, y), tensor(x[n - 1 - i] * y[i], (i, n)), ((4,), (4,)), lambda np, x, y: x[::-1] * y),
    "chain": Case((x,), chain, ((4,),), lambda np, x: np.sum((x[1:] - x[:-1] ** 2) ** 2)),
    "differences": Case((x,), tensor(x[i + 1] - x[i], (i, n - 1)), ((4,),), lambda np, x: x[1:] - x[:-1]),
    "softmax": Case((x,), td.softmax(x), ((4,),), lambda np, x: np.exp(x) / np.sum(np.exp(x))),
    "logsumexp": Case((x,), td.logsumexp(x), ((4,),), lambda np, x: np.log(np.sum(np.exp(x)))),
    "logistic": Case(
        (A, v, x),
        td.sum(td.softplus(A @ v)) - td.dot(x, A @ v),
        ((3, 2), (2,), (3,)),
        lambda np, A, v, x: np.sum(np.logaddexp(A @ v, 0)) - x @ (A @ v),
    ),
    "network": Case(
        (A, v), td.tanh(A @ td.sigmoid(v)), ((3, 2), (2,)), lambda np, A, v: np.tanh(A @ (1 / (1 + np.exp(-v))))
    ),
    "norm": Case((x,), td.norm(x), ((4,),), lambda np, x: np.sqrt(np.sum(x**2))),
    "logarithms": Case((x,), td.log(x**2 + 1), ((4,),), lambda np, x: np.log(x**2 + 1)),
    "quotient": Case((x, y), x / (y**2 + 1), ((4,), (4,)), lambda np, x, y: x / (y**2 + 1)),
    "numbers": Case((c, d), sympy.sin(c * d) + c**2, ((), ()), lambda np, c, d: np.sin(c * d) + c**2),
    "scaled": Case((c, x), c * x, ((), (4,)), lambda np, c, x: c * x),
    "variance": Case((x,), td.var(x), ((4,),), lambda np, x: np.var(x)),
    "rows": Case((A,), td.sum(A, axis=0) ** 2, ((3, 2),), lambda np, A: np.sum(A, axis=0) ** 2),
    "kernel": Case(
        (x, y),
        tensor(total(sympy.exp(-((x[i] - x[j]) ** 2)) * y[j], (j, 0, n - 1)), (i, n)),
        ((4,), (4,)),
        lambda np, x, y: np.exp(-((x[:, None] - x[None, :]) ** 2)) @ y,
    ),
    "triple": Case(
        (x, y, v),
        td.einsum("i,j,i->ij", x, v, y),
        ((3,), (3,), (2,)),
        lambda np, x, y, v: np.einsum("i,j,i->ij", x, v, y),
    ),
}
