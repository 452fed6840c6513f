"""Printed programs under the transformations of JAX: batches over each argument, third orders, several shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy
from every import every
from jax_versions import enable_x64
from sympy import Piecewise, cos, exp, log, sqrt

import sympy_tensordiff as td

i, j, k, n, m, e = td.indices("i j k n m e")
x, y, w = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
X, A, U = td.TensorSymbol("X", (n, 3)), td.TensorSymbol("A", (n, m)), td.TensorSymbol("U", (n, m))
source, goal = (td.TensorSymbol(name, e, dtype=int, below=n) for name in ("source", "goal"))
c, d = sympy.symbols("c d", positive=True)
Sum = td.IndexedSum


class Function(NamedTuple):
    """A number as a formula of `args`, by whose first it is differentiated, and the same for `jax`.

    ``shapes`` gives the shapes of the arguments for the sizes n, m, and e.
    """

    args: tuple[Any, ...]
    value: Any
    shapes: Callable[[int, int, int], tuple[tuple[int, ...], ...]]
    plain: Callable[..., Any]


def pairs(jax, X, c):
    """The potential 12-6 without a loop over pairs."""
    np = jax.numpy
    squares = np.sum((X[:, None] - X) ** 2, -1) + np.eye(len(X))
    off = 1 - np.eye(len(X))
    return np.sum(off * ((c / squares) ** 6 - (c / squares) ** 3)) / 2


def options(jax, x, y, c, d):
    """Prices of options with the strikes y."""
    np, phi = jax.numpy, jax.scipy.stats.norm.cdf
    up = (np.log(x / y) + c**2 / 2 + d) / c
    return np.sum(x * phi(up) - y * np.exp(-d) * phi(up - c))


def likelihood(jax, x, y, c, d):
    """The logarithm of the likelihood of a Gaussian process at x."""
    np = jax.numpy
    K = np.exp(-((x[:, None] - x) ** 2) / (2 * c**2)) + d * np.eye(len(x))
    return y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1]


def filtered(jax, x, y, c):
    """The squared errors of a filter of first order."""

    def step(state, pair):
        state = jax.numpy.tanh(c * state + pair[0])
        return state, (state - pair[1]) ** 2

    return jax.numpy.sum(jax.lax.scan(step, jax.numpy.zeros(()), (x, y))[1])


def flow(jax, x, y, source, goal):
    """A loss of what flows along edges."""
    np = jax.numpy
    arrived = np.zeros_like(x).at[goal].add(np.sin(x[source] - x[goal]) * y[source])
    return np.sum(np.log(1 + arrived**2))


def phases(jax, A, w, c):
    """The energy of a field on a grid, free at the ends of one axis and periodic along the other."""
    np = jax.numpy
    steps = (A[1:] - A[:-1]) ** 2
    return c * np.sum(steps) + np.sum((1 - A**2) ** 2 * w) + np.sum(np.cos(A - np.roll(A, -1, 1)))


square = Sum((X[i, k] - X[j, k]) ** 2, (k, 0, 2))
up = (log(x[i] / y[i]) + c**2 / 2 + d) / c
phi = lambda u: (1 + sympy.erf(u / sqrt(2))) / 2  # noqa: E731
K = td.TensorComprehension(exp(-((x[i] - x[j]) ** 2) / (2 * c**2)), (i, n), (j, n)) + d * td.DeltaTensor((n,))
along_edge = sympy.sin(x[source[k]] - x[goal[k]]) * y[source[k]]
arrived = td.TensorComprehension(Sum(Piecewise((along_edge, sympy.Eq(goal[k], i)), (0, True)), (k, 0, e - 1)), (i, n))
states = td.scan(lambda state, x: sympy.tanh(c * state + x), 0, x)
FUNCTIONS: Mapping[str, Function] = {
    "physics: pairs of atoms": Function(
        (X, c),
        Sum(Piecewise(((c / square) ** 6 - (c / square) ** 3, sympy.Ne(i, j)), (0, True)), (j, 0, n - 1), (i, 0, n - 1))
        / 2,
        lambda n, m, e: ((n, 3), ()),
        pairs,
    ),
    "finance: options": Function(
        (x, y, c, d),
        Sum(x[i] * phi(up) - y[i] * exp(-d) * phi(up - c), (i, 0, n - 1)),
        lambda n, m, e: ((n,), (n,), (), ()),
        options,
    ),
    "statistics: Gaussian process": Function(
        (x, y, c, d),
        td.dot(y, td.inv(K) @ y) + td.logdet(K),
        lambda n, m, e: ((n,), (n,), (), ()),
        likelihood,
    ),
    "signals: filter": Function((x, y, c), td.sum((states - y) ** 2), lambda n, m, e: ((n,), (n,), ()), filtered),
    "networks: flow along edges": Function(
        (x, y, source, goal),
        Sum(log(1 + arrived[i] ** 2), (i, 0, n - 1)),
        lambda n, m, e: ((n,), (n,), (e,), (e,)),
        flow,
    ),
    "materials: phase field": Function(
        (A, w, c),
        c * Sum((A[i + 1, j] - A[i, j]) ** 2, (i, 0, n - 2), (j, 0, m - 1))
        + Sum((1 - A[i, j] ** 2) ** 2 * w[j], (i, 0, n - 1), (j, 0, m - 1))
        + Sum(cos(A[i, j] - A[i, sympy.Mod(j + 1, m)]), (i, 0, n - 1), (j, 0, m - 1)),
        lambda n, m, e: ((n, m), (m,), ()),
        phases,
    ),
}


def drawn(function, sizes, seed):
    """Arrays of a call: positive numbers, and indices below the first of `sizes`."""
    draw = np.random.default_rng(seed)
    return [
        draw.integers(0, sizes[0], shape) if getattr(argument, "dtype", float) is int else draw.uniform(0.6, 1.4, shape)
        for argument, shape in zip(function.args, function.shapes(*sizes), strict=True)
    ]


def is_real(array):
    return array.dtype.kind == "f"


@every("name", list(FUNCTIONS))
def test_transformations_equal_those_of_jax(name):
    """Batches over each argument; third orders of the value, of the gradient, and of products with the Hessian."""
    jax = pytest.importorskip("jax", reason="needs pip install '.[jax]'")
    function = FUNCTIONS[name]
    first = function.args[0]
    shape = getattr(first, "shape", ())
    along = td.TensorSymbol("along", shape)
    printed = td.lambdify(function.args, function.value, "jax")
    slope = td.lambdify(function.args, td.gradient(function.value, first), "jax")
    product = td.lambdify((*function.args, along), td.hvp(function.value, first, along), "jax")

    def plain(*arrays):
        return function.plain(jax, *arrays)

    def pushed(f, arrays, direction):
        """The derivative of f by the first array in a direction."""
        return jax.jvp(lambda one: f(one, *arrays[1:]), (arrays[0],), (direction,))[1]

    def second(*arrays):
        return pushed(jax.grad(plain), arrays, direction)

    def results(value, gradient, curved, arrays):
        places = [place for place, array in enumerate(arrays) if is_real(array)]
        batches = [
            jax.vmap(f, [0 if one == place else None for one in range(len(arrays))])(
                *arrays[:place], jax.numpy.stack([arrays[place], 1.1 * arrays[place]]), *arrays[place + 1 :]
            )
            for f in (value, gradient)
            for place in places
        ]
        third_of_value = pushed(lambda *a: pushed(jax.grad(value), a, direction), arrays, direction)
        third_of_slope = pushed(lambda *a: pushed(gradient, a, direction), arrays, direction)
        return (
            value(*arrays),
            gradient(*arrays),
            batches,
            third_of_value,
            third_of_slope,
            pushed(curved, arrays, direction),
        )

    with enable_x64(True):
        arrays = drawn(function, (4, 3, 5), 0)
        direction = np.cos(np.arange(arrays[0].size, dtype=float)).reshape(arrays[0].shape)
        ours = jax.jit(lambda a: results(printed, slope, lambda *b: product(*b, direction), a))(arrays)
        theirs = jax.jit(lambda a: results(plain, jax.grad(plain), second, a))(arrays)
        for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            scale = np.max(np.abs(other))
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * scale)


@every("name", list(FUNCTIONS))
def test_compiled_functions_take_several_shapes(name):
    jax = pytest.importorskip("jax", reason="needs pip install '.[jax]'")
    function = FUNCTIONS[name]
    with enable_x64(True):
        compiled = jax.jit(td.lambdify(function.args, td.gradient(function.value, function.args[0]), "jax"))
        wanted = jax.jit(jax.grad(lambda *arrays: function.plain(jax, *arrays)))
        for sizes in ((4, 3, 5), (1, 1, 1), (5, 2, 7), (4, 3, 5)):
            arrays = drawn(function, sizes, 1)
            np.testing.assert_allclose(compiled(*arrays), wanted(*arrays), rtol=1e-9, atol=1e-10)
