"""Deblurring a photograph, with total variation.

A photograph was blurred, and is noisy. Undoing the blur alone makes the noise far
worse. A price on differences of neighbours, the total variation, keeps edges and
removes noise: image and price are written down in index notation, and the gradient of
their sum is derived.
"""

# %%
# ## The loss
#
# The camera sums `X` over a window, with the weights `K`; it is compared with the
# photograph `B`.

import numpy as np
import sympy
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image

import sympy_tensordiff as td

i, j, k, l, h, w = td.indices("i j k l h w")
X, B, K = (
    td.TensorSymbol("X", (h + 8, w + 8)),
    td.TensorSymbol("B", (h, w)),
    td.TensorSymbol("K", (9, 9)),
)
camera = td.TensorComprehension(
    td.IndexedSum(K[k, l] * X[i + k, j + l], (l, 0, 8), (k, 0, 8)), (i, h), (j, w)
)
Y = td.TensorSymbol("Y", (h, w))
misfit = td.sum((Y - B) ** 2) / 2
camera

# %%
# Differences downward and to the right, as lengths of vectors; `epsilon` rounds the
# corner at zero.

epsilon = sympy.Symbol("epsilon", positive=True)
square = (X[i + 1, j] - X[i, j]) ** 2 + (X[i, j + 1] - X[i, j]) ** 2
variation = td.IndexedSum(sympy.sqrt(square + epsilon**2), (j, 0, w + 6), (i, 0, h + 6))
variation

# %%
# ## Its derivatives
#
# The derivative `G` of the misfit by `Y` is pulled back through the camera: a sum over
# the windows that read a pixel, which are fewer at the border.

G = td.TensorSymbol("G", (h, w))
td.vjp(camera, X, G)

# %%
# Of the variation, a pixel is in three terms: as itself, as the one below and as the
# one to the right, where there are these. One of the three:

td.gradient(variation, X).body.args[0]

# %%
# ## The kernel
#
# Both put together, one function for the loss and its gradient:

lam = sympy.Symbol("lamda", positive=True)  # "lambda" is a word of Python
loss = misfit.subs(Y, camera) + lam * variation
fit = td.lambdify((X, B, K, lam, epsilon), (loss, td.gradient(loss, X)))
blur = td.lambdify((X, K), camera)

photograph = (
    load_sample_image("flower.jpg")
    .mean(axis=2)[:426]
    .reshape(213, 2, 320, 2)
    .mean(axis=(1, 3))
    / 255
)
truth = photograph[20:152, 90:270]
y, x = np.mgrid[-4:5, -4:5]
along, across = (x + y) / np.sqrt(2), (x - y) / np.sqrt(2)
weights = np.exp(-((along / 2.5) ** 2) / 2 - (across / 0.7) ** 2 / 2)
weights /= weights.sum()
rng = np.random.default_rng(0)
blurred = blur(truth, weights) + 0.01 * rng.standard_normal(
    (truth.shape[0] - 8, truth.shape[1] - 8)
)
inside = np.pad(blurred, 4, mode="edge")

_, slope = fit(inside, blurred, weights, 0.001, 0.02)
for _ in range(5):
    direction = rng.standard_normal(truth.shape)
    ahead, behind = (
        fit(inside + size * direction, blurred, weights, 0.001, 0.02)[0]
        for size in (1e-6, -1e-6)
    )
    assert np.isclose((slope * direction).sum(), (ahead - behind) / 2e-6, rtol=1e-5)
windows = np.lib.stride_tricks.sliding_window_view(truth, (9, 9))
assert np.allclose(blur(truth, weights), np.einsum("ijkl,kl->ij", windows, weights))
print("the camera agrees with NumPy, the gradient with central differences")

# %%
# ## The result
#
# Accelerated descent. The curvature is at most 1 for the camera, whose weights sum to
# 1, and `8*lam/epsilon` for the variation.


def restore(lam, count, epsilon=0.02):
    image, look, momentum, losses = inside, inside, 1.0, []
    for _ in range(count):
        loss, slope = fit(look, blurred, weights, lam, epsilon)
        losses.append(loss)
        following = np.clip(look - slope / (1 + 8 * lam / epsilon), 0, 1)
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        look = following + (momentum - 1) / grown * (following - image)
        image, momentum = following, grown
    return image, losses


def quality(image):
    """Peak signal to noise in dB, away from the border of the photograph."""
    return -10 * np.log10(np.mean((image - truth)[8:-8, 8:-8] ** 2))


sharp, _ = restore(1e-6, 100)
restored, losses = restore(0.001, 60)
pictures = {
    "photograph": truth,
    "blurred, noisy": inside,
    "sharpened only": sharp,
    "with total variation": restored,
}
for name, picture in list(pictures.items())[1:]:
    print(f"{name}: {quality(picture):.1f} dB")
assert quality(restored) > quality(inside) + 2 > quality(sharp)
assert losses[-1] < losses[0] / 2

figure, axes = plt.subplots(2, 2, figsize=(9, 6.8), layout="constrained")
for axis, (name, picture) in zip(axes.flat, pictures.items(), strict=True):
    axis.imshow(picture[4:-4, 4:-4], cmap="gray", vmin=0, vmax=1)
    axis.set_title(name if picture is truth else f"{name}: {quality(picture):.1f} dB")
    axis.set_axis_off()
plt.show()
