"""Handwritten digits are classified by softmax regression, fitted with Newton's method.

The loss is written as one would write it in NumPy: ``logsumexp(X @ W, axis=1)``, the scores of the
right classes, and a penalty. Its gradient, its Hessian and the product of the Hessian with a
direction are derived and compiled. The Hessian goes to `numpy.linalg.solve`; the product is all
that conjugate gradients need, and grows with the data only. Both take the same steps. Gradient,
Hessian and product are compared with NumPy formulas and differences that were written by hand.

Run it with ``python examples/newton.py``; the figure is written to ``examples/output``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
import sympy
from sklearn.datasets import load_digits, load_iris

import sympy_tensordiff as td

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PENALTY = 1.0
ACCURACY = 1e-9  # of the gradient, relative to that at the start
PROBES = 5


# %% The loss as whole tensors, and its derivatives


def derive():
    """Value and gradient, Hessian, and Hessian times direction of the loss, compiled."""
    n, m, k = td.indices("n m k")  # examples, features, classes
    X, Y = td.TensorSymbol("X", (n, m)), td.TensorSymbol("Y", (n, k))
    W, V = td.TensorSymbol("W", (m, k)), td.TensorSymbol("V", (m, k))
    lam = sympy.Symbol("lamda", real=True)  # SymPy's spelling: it prints as the Greek letter
    scores = X @ W
    loss = td.sum(td.logsumexp(scores, axis=1)) - td.sum(Y * scores) + lam / 2 * td.sum(W * W)
    gradient, hessian, product = td.gradient(loss, W), td.hessian(loss, W), td.hvp(loss, W, V)
    for name, formula in (("loss", loss), ("gradient", gradient), ("Hessian", hessian), ("Hessian * V", product)):
        print(f"{name}:\n    {formula}\n    {sympy.latex(formula)}\n")
    return (
        td.lambdify((X, Y, lam, W), (loss, gradient)),
        td.lambdify((X, Y, lam, W), hessian),
        td.lambdify((X, Y, lam, W, V), product),
    )


# %% The same by hand


def numpy_gradient(X, Y, lam, W):
    """The gradient, written by hand."""
    scores = X @ W
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return X.T @ (weights / weights.sum(axis=1, keepdims=True) - Y) + lam * W


def compare(functions, data, rng) -> dict[str, float]:
    """The largest relative differences between what was derived and what was written by hand."""
    value_and_gradient, hessian, product = functions
    W = 0.1 * rng.standard_normal((data[0].shape[1], data[1].shape[1]))
    by_hand = numpy_gradient(*data, W)
    found = {"gradient and NumPy": difference(value_and_gradient(*data, W)[1], by_hand)}
    step, blocks = 1e-5, hessian(*data, W)
    for _ in range(PROBES):
        V = rng.standard_normal(W.shape)
        times = product(*data, W, V)
        slopes = (numpy_gradient(*data, W + step * V) - numpy_gradient(*data, W - step * V)) / (2 * step)
        for name, error in {
            "Hessian * V and central differences": difference(times, slopes),
            "Hessian * V and the contracted Hessian": difference(times, np.tensordot(blocks, V, axes=2)),
        }.items():
            found[name] = max(error, found.get(name, 0.0))
    return found


def difference(first, second) -> float:
    return float(np.abs(first - second).max() / np.abs(second).max())


# %% Newton's method


def direct(functions, data, W, gradient):
    """The Newton step, by the whole Hessian."""
    hessian = functions[1](*data, W)
    return np.linalg.solve(hessian.reshape(W.size, W.size), -gradient.ravel()).reshape(W.shape)


def matrix_free(functions, data, W, gradient):
    """The same step by conjugate gradients, which need products with the Hessian only."""
    step, residual = np.zeros_like(W), -gradient
    direction, square = residual, np.vdot(gradient, gradient)
    enough = square * min(0.01, np.sqrt(square)) ** 2
    for _ in range(W.size):
        if square <= enough:
            break
        image = functions[2](*data, W, direction)
        length = square / np.vdot(direction, image)
        step, residual = step + length * direction, residual - length * image
        square, before = np.vdot(residual, residual), square
        direction = residual + square / before * direction
    return step


def steepest(functions, data, W, gradient):
    """A step along the gradient, as long as is safe at every point; the line search shortens nothing."""
    X, _, lam = data
    return -gradient / (np.linalg.eigvalsh(X.T @ X)[-1] / 2 + lam)


def minimise(method, functions, data, *, count: int):
    """The weights, and the norms of the gradient on the way."""
    W = np.zeros((data[0].shape[1], data[1].shape[1]))
    loss, gradient = functions[0](*data, W)
    norms = [np.linalg.norm(gradient)]
    while len(norms) <= count and norms[-1] > ACCURACY * norms[0]:
        step = method(functions, data, W, gradient)
        slope, factor, rounding = np.vdot(gradient, step), 1.0, 1e-12 * abs(loss)
        while (tried := functions[0](*data, W + factor * step))[0] > loss + 1e-4 * factor * slope + rounding:
            factor /= 2
        W, (loss, gradient) = W + factor * step, tried
        norms.append(np.linalg.norm(gradient))
    return W, norms


# %% All together


def load(quick: bool):
    """Features scaled to unit size with a constant one, and classes as unit vectors; two thirds to learn from."""
    features, classes = (load_iris if quick else load_digits)(return_X_y=True)
    X = np.column_stack([features / np.abs(features).max(), np.ones(len(features))])
    Y = np.eye(classes.max() + 1)[classes]
    learned = np.arange(len(X)) % 3 > 0
    return X[learned], Y[learned], X[~learned], Y[~learned]


def draw(path: Path, courses) -> None:
    """The norm of the gradient after each step of each method."""
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for (name, norms), style in zip(courses.items(), ("o-", "s--", "-"), strict=True):
        axis.semilogy(np.array(norms) / norms[0], style, label=name, markersize=4)
    axis.set_xlim(0, 3 * max(len(norms) for name, norms in courses.items() if name.startswith("Newton")))
    axis.set_xlabel("step")
    axis.set_ylabel("norm of the gradient, relative")
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="irises in place of digits")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output", help="folder of the figure")
    options = parser.parse_args()

    functions = derive()
    X, Y, others, classes = load(options.quick)
    data = (X, Y, PENALTY)
    errors = compare(functions, data, np.random.default_rng(0))
    print("largest relative differences:")
    for name, error in errors.items():
        print(f"    {name}: {error:.1e}")

    print(f"\n{X.shape[0]} examples, {X.shape[1]} x {Y.shape[1]} weights, {others.shape[0]} examples to test")
    methods = {
        "Newton, Hessian and solve": (direct, 30),
        "Newton, conjugate gradients": (matrix_free, 30),
        "gradient descent": (steepest, 300),
    }
    courses, weights = {}, {}
    for name, (method, count) in methods.items():
        begin = time.perf_counter()
        weights[name], courses[name] = minimise(method, functions, data, count=count)
        seconds = time.perf_counter() - begin
        right = np.mean((others @ weights[name]).argmax(axis=1) == classes.argmax(axis=1))
        last = courses[name][-1] / courses[name][0]
        print(f"{name}: {len(courses[name]) - 1} steps in {seconds:.2f} s, gradient {last:.0e}, {right:.1%} right")
    first, second, slow = courses
    print("gradient after each Newton step:", *(f"{norm / courses[first][0]:.0e}" for norm in courses[first]))

    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "newton.png", courses)
    print(f"figure: {options.output / 'newton.png'}")

    assert max(errors.values()) < 1e-6, "a derivative differs from what was written by hand"
    assert difference(weights[first], weights[second]) < 1e-6, "the two Newton methods end at different weights"
    assert courses[first][-1] < ACCURACY * courses[first][0] < courses[slow][-1], "Newton's method is no faster"


if __name__ == "__main__":
    main()
