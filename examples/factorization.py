"""Matrix factorization, with holes.

A matrix is written as a product of two thin ones, although many of its entries are
missing: recommender systems do it. Here the rows are pictures of digits, and the
missing entries are pixels.
"""

# %%
# ## The loss
#
# `M` is 1 where an entry of `A` is known and 0 elsewhere; products with `*` are entry
# by entry.

import numpy as np
import sympy
from matplotlib import pyplot as plt
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import sympy_tensordiff as td

n, m, r = td.indices("n m r")
A, M = td.TensorSymbol("A", (n, m)), td.TensorSymbol("M", (n, m))
U, V = td.TensorSymbol("U", (n, r)), td.TensorSymbol("V", (m, r))
lam = sympy.Symbol("lamda", real=True)  # "lambda" is a word of Python
loss = td.sum(M * (U @ V.T - A) ** 2) / 2 + lam / 2 * (td.sum(U * U) + td.sum(V * V))
loss

# %%
# ## Its derivatives
#
# By both factors, in one reverse sweep.

by_U, by_V = td.gradient(loss, (U, V))
by_U
by_V

# %%
# ## The kernel
#
# Loss and both gradients are one function: what they share, the residual, is computed
# once. The plan says so: `t2` is in both products.

step = td.lambdify((A, M, U, V, lam), (loss, (by_U, by_V)), "numpy")
print(step.plan)

# %%
# ## The result
#
# A method of SciPy works on both factors as one vector.

rank = 12
digits = load_digits().data[:400] / 16
rng = np.random.default_rng(0)


def factorize(mask, penalty):
    rows, columns = digits.shape

    def flat(factors):
        left, right = (
            factors[: rows * rank].reshape(rows, rank),
            factors[rows * rank :].reshape(columns, rank),
        )
        value, slopes = step(digits, mask, left, right, penalty)
        losses.append(value)
        return value, np.concatenate([slope.ravel() for slope in slopes])

    losses = []
    start = 0.3 * rng.standard_normal((rows + columns) * rank)
    direction, slope = rng.standard_normal(start.shape), flat(start)[1]
    ahead, behind = (flat(start + size * direction)[0] for size in (1e-6, -1e-6))
    assert np.isclose(slope @ direction, (ahead - behind) / 2e-6, rtol=1e-6)
    best = minimize(
        flat, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}
    ).x
    left, right = (
        best[: rows * rank].reshape(rows, rank),
        best[rows * rank :].reshape(columns, rank),
    )
    return left @ right.T, losses[3:]


# %%
# Without holes the best factors are known, by the singular value decomposition; descent
# finds the same error:

complete, losses = factorize(np.ones_like(digits), 0.0)
singular = np.linalg.svd(digits, compute_uv=False)
known = (singular[rank:] ** 2).sum() / 2
print(f"error of rank {rank}: {losses[-1]:.4f}, by singular values {known:.4f}")
assert np.isclose(losses[-1], known, rtol=1e-3)

# %%
# With half of the pixels missing, the others tell what they were. The means of the
# pixels are the comparison.

mask = (rng.random(digits.shape) < 0.5).astype(float)
filled, course = factorize(mask, 1.0)
hidden = mask == 0
means = (digits * mask).sum(axis=0) / np.maximum(mask.sum(axis=0), 1)
error = np.sqrt(np.mean((filled - digits)[hidden] ** 2))
simple = np.sqrt(np.mean((means - digits)[hidden] ** 2))
print(f"error of the missing pixels: {error:.3f}, of their means {simple:.3f}")
assert error < 0.8 * simple

figure = plt.figure(figsize=(9, 2.9), layout="constrained")
left, side = figure.subfigures(1, 2, width_ratios=(1.7, 1))
rows = {
    "half is missing": np.where(mask > 0, digits, np.nan),
    "filled": filled,
    "truth": digits,
}
for axes, (title, pictures) in zip(left.subplots(3, 8), rows.items(), strict=True):
    for axis, picture in zip(axes, pictures, strict=False):
        axis.set_facecolor("tab:blue")
        axis.imshow(picture.reshape(8, 8), cmap="gray", vmin=0, vmax=1)
        axis.set(xticks=(), yticks=())
    axes[0].set_ylabel(title, fontsize=8)
axis = side.subplots()
axis.loglog(np.minimum.accumulate(losses), label="all pixels")
axis.axhline(known, color="black", ls=":", label="singular values")
axis.loglog(np.minimum.accumulate(course), label="half of them")
axis.set(xlabel="evaluation", ylabel="least loss so far")
axis.minorticks_off()
axis.set(yticks=(200, 500, 1000, 3000), yticklabels=("200", "500", "1000", "3000"))
axis.legend(fontsize=9)
plt.show()
