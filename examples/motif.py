"""A pattern that is hidden in letters is found by gradient descent: data select what is read.

Half of the sequences hold the same six letters somewhere. Each letter has a vector, a row of ``E``
that the data select; a window of weights moves over the sequence, and repeats the last letter at
the end; the greatest score of a sequence says whether the pattern is there:

    scores[s, t] = sum over k, d of E[letters[s, min(t + k, T - 1)], d] * W[k, d]

The loss is the logistic one of ``max over t of scores[s, t]``. Its gradient by vectors, window and
threshold is derived, printed as text and in LaTeX, compiled, and compared with central differences.

Run it with ``python examples/motif.py``; the figure is written to ``examples/output``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import sympy

import sympy_tensordiff as td

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ALPHABET, PATTERN = "ACGT", "TATAAT"
DIMENSION = 3


# %% The loss in index notation, and its gradient


def derive():
    """The scores, and the loss with its gradient, compiled."""
    s, t, k, d = td.indices("s t k d")
    S, T, K, D, L = td.indices("S T K D L")  # sequences, positions, width of the window, dimension, letters
    letters = td.TensorSymbol("letters", (S, T), dtype=int)
    E, W, y = td.TensorSymbol("E", (L, D)), td.TensorSymbol("W", (K, D)), td.TensorSymbol("y", S)
    b, lam = sympy.Symbol("b", real=True), sympy.Symbol("lamda", real=True)  # SymPy's spelling of the Greek letter
    window = td.IndexedSum(E[letters[s, sympy.Min(t + k, T - 1)], d] * W[k, d], (d, 0, D - 1), (k, 0, K - 1))
    scores = td.TensorComprehension(window, (s, S), (t, T))
    best = td.IndexedMax(scores[s, t], (t, 0, T - 1)) + b
    penalty = lam / 2 * (td.sum(E * E) + td.sum(W * W))
    loss = td.IndexedSum(td.softplus(best) - y[s] * best, (s, 0, S - 1)) / S + penalty
    gradient = td.gradient(loss, (E, W, b))
    short = {scores: td.TensorSymbol("Z", (S, T))}
    for name, formula in (("loss", loss), *zip(("d E", "d W", "d b"), gradient, strict=True)):
        print(f"{name}, with Z for the scores:\n    {sympy.latex(formula.xreplace(short))}\n")
    step = td.lambdify((letters, y, lam, E, W, b), (loss, gradient))
    print(step.plan)
    return td.lambdify((letters, E, W), scores), step


# %% Data, the check, and the descent


def sequences(count: int, length: int, rng):
    """Random letters, as numbers; every second sequence holds the pattern."""
    letters = rng.integers(len(ALPHABET), size=(count, length))
    y = np.arange(count) % 2
    for row in np.flatnonzero(y):
        at = rng.integers(length - len(PATTERN) + 1)
        letters[row, at : at + len(PATTERN)] = [ALPHABET.index(letter) for letter in PATTERN]
    return letters, y.astype(float)


def compare(step, data, point, rng) -> float:
    """The slopes along random directions, by the gradient and by central differences: the largest difference."""
    worst, size = 0.0, 1e-6
    _, gradient = step(*data, *point)
    for _ in range(5):
        along = [rng.standard_normal(np.shape(part)) for part in point]
        ahead, behind = (
            step(*data, *(part + h * a for part, a in zip(point, along, strict=True)))[0] for h in (size, -size)
        )
        slope = sum(np.vdot(g, a) for g, a in zip(gradient, along, strict=True))
        worst = max(worst, abs(slope - (ahead - behind) / (2 * size)) / abs(slope))
    return worst


def descend(step, data, point, *, count: int):
    """Adam's method: the course of the loss, and where it ends."""
    mean, square, losses = [0.0] * len(point), [0.0] * len(point), []
    for n in range(1, count + 1):
        loss, gradient = step(*data, *point)
        losses.append(float(loss))
        for part, g in enumerate(gradient):
            mean[part] = 0.9 * mean[part] + 0.1 * g
            square[part] = 0.99 * square[part] + 0.01 * g * g
            length = 0.05 / (np.sqrt(square[part] / (1 - 0.99**n)) + 1e-8)
            point[part] = point[part] - length * mean[part] / (1 - 0.9**n)
    return losses, point


# %% All together


def draw(path: Path, losses, weights, scores, letters) -> None:
    """The course of the loss, what the window looks for, and the scores along one sequence."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    left.plot(losses)
    left.set(xlabel="step", ylabel="loss")
    middle.imshow(weights.T, cmap="coolwarm", vmin=-np.abs(weights).max(), vmax=np.abs(weights).max())
    middle.set(yticks=range(len(ALPHABET)), yticklabels=ALPHABET, xlabel="place in the window", title="weights")
    right.bar(range(len(scores)), scores, tick_label=[ALPHABET[letter] for letter in letters])
    right.set(title="scores along a sequence")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sequences and steps")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output", help="folder of the figure")
    options = parser.parse_args()

    scores, step = derive()
    rng = np.random.default_rng(0)
    count, steps = (600, 300) if options.quick else (2000, 600)
    letters, y = sequences(count, 24, rng)
    data = (letters, y, 1e-3)
    width = len(PATTERN) + 2  # wider than the pattern, of which a window may find a part only
    point = [
        rng.standard_normal((len(ALPHABET), DIMENSION)),
        0.3 * rng.standard_normal((width, DIMENSION)),
        0.0,
    ]
    error = compare(step, data, point, rng)
    print(f"gradient and central differences: {error:.1e}")

    losses, (E, W, b) = descend(step, data, point, count=steps)
    others, expected = sequences(1000, 24, rng)
    found = scores(others, E, W)
    right = np.mean((found.max(axis=1) + b > 0) == (expected > 0))
    weights = W @ E.T  # of each letter at each place
    best = "".join(ALPHABET[letter] for letter in weights.argmax(axis=1))
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {right:.1%} of 1000 other sequences right")
    print(f"hidden: {PATTERN}, letters of the greatest weights: {best}")

    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "motif.png", losses, weights, found[1], others[1])
    print(f"figure: {options.output / 'motif.png'}")

    assert error < 1e-5, "the gradient differs from central differences"
    assert right > 0.9 and PATTERN in best, "the pattern was not found"


if __name__ == "__main__":
    main()
