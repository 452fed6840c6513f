"""A pattern in letters: data select what is read.

Half of the sequences hold the same six letters somewhere. Which letters, and where, is
found by descent: each letter has a vector, a window of weights moves over the sequence,
and the greatest score counts.
"""

# %%
# ## The scores
#
# `letters` is a tensor of integers: its entries are in an index, and select rows of
# `E`. The window repeats the last letter at the end of the sequence, by a minimum in
# the index.

import numpy as np
import sympy
from matplotlib import pyplot as plt

import sympy_tensordiff as td

s, t, k, d = td.indices("s t k d")
S, T, K, D, L = td.indices(
    "S T K D L"
)  # sequences, positions, width of the window, dimension, letters
letters = td.TensorSymbol("letters", (S, T), dtype=int)
E, W, y, b = (
    td.TensorSymbol("E", (L, D)),
    td.TensorSymbol("W", (K, D)),
    td.TensorSymbol("y", S),
    sympy.Symbol("b"),
)
window = td.IndexedSum(
    E[letters[s, sympy.Min(t + k, T - 1)], d] * W[k, d], (d, 0, D - 1), (k, 0, K - 1)
)
scores = td.TensorComprehension(window, (s, S), (t, T))
scores

# %%
# ## The loss
#
# The logistic loss of the greatest score of each sequence; `Z` stands for the scores.

Z = td.TensorSymbol("Z", (S, T))
best = td.IndexedMax(Z[s, t], (t, 0, T - 1)) + b
lam = sympy.Symbol("lamda", positive=True)  # "lambda" is a word of Python
likelihood = td.IndexedSum(td.softplus(best) - y[s] * best, (s, 0, S - 1)) / S
likelihood

# %%
# ## Its derivatives
#
# By the scores: what attains the maximum has the derivative, and what ties shares it.

td.gradient(likelihood, Z)

# %%
# By the vectors of the letters, given the derivative `G` by the scores: a letter
# collects from all places that read it.

G = td.TensorSymbol("G", (S, T))
td.vjp(scores, E, G)

# %%
# ## The kernel
#
# All together, with a small price on large weights. Data cannot be solved for: this is
# the one kind of derivative that scatters, into the rows that the data name.

loss = likelihood.subs(Z, scores) + lam / 2 * (td.sum(E * E) + td.sum(W * W))
step = td.lambdify((letters, y, lam, E, W, b), (loss, td.gradient(loss, (E, W, b))))
score = td.lambdify((letters, E, W), scores)

ALPHABET, PATTERN = "ACGT", "TATAAT"
rng = np.random.default_rng(0)


def sequences(count, length):
    """Random letters, as numbers; every second sequence holds the pattern."""
    letters = rng.integers(len(ALPHABET), size=(count, length))
    labels = np.arange(count) % 2
    for row in np.flatnonzero(labels):
        at = rng.integers(length - len(PATTERN) + 1)
        letters[row, at : at + len(PATTERN)] = [
            ALPHABET.index(letter) for letter in PATTERN
        ]
    return letters, labels.astype(float)


data = (*sequences(800, 24), 1e-3)
point = [rng.standard_normal((4, 3)), 0.3 * rng.standard_normal((8, 3)), 0.0]
_, slopes = step(*data, *point)
for _ in range(5):
    along = [rng.standard_normal(np.shape(part)) for part in point]
    ahead, behind = (
        step(
            *data,
            *(part + size * move for part, move in zip(point, along, strict=True)),
        )[0]
        for size in (1e-6, -1e-6)
    )
    slope = sum((one * move).sum() for one, move in zip(slopes, along, strict=True))
    assert np.isclose(slope, (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-7)
print("the gradient agrees with central differences")

# %%
# ## The result
#
# Adam's method. The window is wider than the pattern, and what it looks for is read off
# its weights.

mean, square = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
losses = []
for n in range(1, 151):
    value, slopes = step(*data, *point)
    losses.append(value)
    for part, slope in enumerate(slopes):
        mean[part] = 0.9 * mean[part] + 0.1 * slope
        square[part] = 0.99 * square[part] + 0.01 * slope**2
        length = 0.05 / (np.sqrt(square[part] / (1 - 0.99**n)) + 1e-8)
        point[part] = point[part] - length * mean[part] / (1 - 0.9**n)

vectors, weights, threshold = point
others, expected = sequences(1000, 24)
found = score(others, vectors, weights)
share = np.mean((found.max(axis=1) + threshold > 0) == (expected > 0))
table = weights @ vectors.T  # of each letter at each place of the window
read = "".join(ALPHABET[letter] for letter in table.argmax(axis=1))
print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")
print(f"{share:.1%} of 1000 other sequences are right")
print(f"hidden: {PATTERN}, letters of the greatest weights: {read}")
assert share > 0.9 and PATTERN in read

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
left.plot(losses)
left.set(xlabel="step", title="loss")
middle.imshow(
    table.T, cmap="coolwarm", vmin=-np.abs(table).max(), vmax=np.abs(table).max()
)
middle.set(
    yticks=range(4),
    yticklabels=ALPHABET,
    xlabel="place in the window",
    title="what the window looks for",
)
right.bar(range(24), found[1], tick_label=[ALPHABET[letter] for letter in others[1]])
right.tick_params(axis="x", labelsize=8)
right.set(title="scores along a sequence")
plt.show()
