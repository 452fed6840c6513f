"""Attention with a causal mask.

A position attends to itself and to what came before. In index notation the mask is the
end of a sum, `j <= i`, and in the derivatives it stays one: no loop visits what is
masked, and no entry is set to minus infinity.
"""

# %%
# ## The function
#
# The scores `S` are an argument at first; the softmax over the positions up to `i`
# weighs the values `V`.

import numpy as np
import sympy
from matplotlib import pyplot as plt

import sympy_tensordiff as td

i, j, c, n, d, e = td.indices("i j c n d e")
S, V = td.TensorSymbol("S", (n, n)), td.TensorSymbol("V", (n, e))
weight = sympy.exp(S[i, j])
row = td.IndexedSum(weight * V[j, c], (j, 0, i)) / td.IndexedSum(weight, (j, 0, i))
attention = td.TensorComprehension(row, (i, n), (c, e))
attention

# %%
# ## Its derivatives
#
# By the values, the sum runs over the positions that *can* see position `p`, from `p`
# to the end:

G = td.TensorSymbol("G", (n, e))
by_S, by_V = td.vjp(attention, (S, V), G)
by_V

# %%
# By the scores, the mask is a condition on the entry:

by_S

# %%
# ## The kernel
#
# The scores are put in: products of queries and keys. The value
# and its derivatives with respect to all three are one function; its plan has products
# of matrices, and all else in two loops over the rows:

Q, K = td.TensorSymbol("Q", (n, d)), td.TensorSymbol("K", (n, d))
head = attention.subs(S, Q @ K.T / sympy.sqrt(d))
step = td.lambdify((Q, K, V, G), (head, td.vjp(head, (Q, K, V), G)))
forward = td.lambdify((Q, K, V), head)
print(step.plan.partition("\nkernels:\n")[2])

# %%
# Against the usual formulas, with a mask:


def by_hand(Q, K, V, G):
    scores = np.where(
        np.tri(len(Q), dtype=bool), Q @ K.T / np.sqrt(Q.shape[1]), -np.inf
    )
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    by_P = G @ V.T
    by_scores = P * (by_P - (by_P * P).sum(axis=1, keepdims=True)) / np.sqrt(Q.shape[1])
    return P @ V, (by_scores @ K, by_scores.T @ Q, P.T @ G)


rng = np.random.default_rng(0)
arrays = [rng.standard_normal((20, size)) for size in (6, 6, 4, 4)]
value, slopes = step(*arrays)
expected, expected_slopes = by_hand(*arrays)
assert np.allclose(value, expected)
for name, slope, wanted in zip("QKV", slopes, expected_slopes, strict=True):
    print(f"by {name}: largest difference {np.abs(slope - wanted).max():.1e}")
    assert np.allclose(slope, wanted)

# %%
# ## The result
#
# Queries and keys, one row for each position, learn to copy: the output at position `t`
# shall be the token at `t - 2`, or the first one. The tokens are new in each step, so
# it is positions that have to be learned. The weights of the attention are read off
# with the unit matrix as values.

size = 24
target = np.maximum(np.arange(size) - 2, 0)
query, key = 0.5 * rng.standard_normal((2, size, 16))
moments = np.zeros((2, 2, size, 16))
losses, before = [], forward(query, key, np.eye(size))
for t in range(1, 151):
    tokens = rng.choice([-1.0, 1.0], (size, 8))
    error = forward(query, key, tokens) - tokens[target]
    losses.append((error**2).mean())
    _, (by_query, by_key, _) = step(query, key, tokens, error)
    for part, slope, (mean, square) in zip(
        (query, key), (by_query, by_key), moments, strict=True
    ):  # Adam
        mean += 0.1 * (slope - mean)
        square += 0.01 * (slope**2 - square)
        part -= 0.05 * mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.99**t)) + 1e-8)
after = forward(query, key, np.eye(size))
found = np.mean(after.argmax(axis=1) == target)
print(f"mean square error {losses[0]:.2f} to {losses[-1]:.5f}")
print(f"{found:.0%} of the positions look at the right one")
assert found == 1 and losses[-1] < 0.05
assert np.all(np.triu(after, 1) == 0)

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axis, weights, title in (
    (left, before, "weights, before"),
    (middle, after, "weights, learned"),
):
    axis.imshow(weights, cmap="viridis", vmin=0, vmax=1)
    axis.set(title=title, xlabel="position attended to", ylabel="position")
right.semilogy(losses)
right.set(title="copying from two before", xlabel="step", ylabel="mean square error")
plt.show()
