"""A convolution with stride and dilation.

Stride and dilation are coefficients of indices, `x[2*i + 3*k, 2*j + 3*l]`. The
derivative with respect to the weights is another convolution. That with respect to the
image makes networks draw checkerboards: pixels are read by differently many windows.
"""

# %%
# ## The function
#
# Every second window place, every third pixel in a window of 3 x 3. The sizes are
# symbols.

import numpy as np
from matplotlib import pyplot as plt
from scipy.signal import correlate2d
from sklearn.datasets import load_sample_image

import sympy_tensordiff as td

i, j, k, l, n, m = td.indices("i j k l n m")
x, w = td.TensorSymbol("x", (2 * n + 5, 2 * m + 5)), td.TensorSymbol("w", (3, 3))
window = td.IndexedSum(x[2 * i + 3 * k, 2 * j + 3 * l] * w[k, l], (l, 0, 2), (k, 0, 2))
y = td.TensorComprehension(window, (i, n), (j, m))
y

# %%
# ## Its derivatives
#
# By the weights, `g` being the derivative of a loss by `y`:

g = td.TensorSymbol("g", y.shape)
by_x, by_w = td.vjp(y, (x, w), g)
by_w

# %%
# A pixel `p` is read at the solutions of `2*i + 3*k = p` in integers. They lie on a
# line, so one sum along each axis is left, over exactly the solutions that are inside;
# no remainder is tested.

by_x

# %%
# ## The kernels
#
# Both, and the convolution, against SciPy: dilation puts zeros between the weights,
# stride drops places.

forward = td.lambdify((x, w), y)
backward = td.lambdify((x, w, g), (by_x, by_w))

photograph = load_sample_image("flower.jpg").mean(axis=2)[60:380:2, 120:520:2] / 255
image = photograph[
    : 2 * (len(photograph) // 2) - 1, : 2 * (photograph.shape[1] // 2) - 1
]
edges = np.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])


def dilated(weights):
    wide = np.zeros((7, 7))
    wide[::3, ::3] = weights
    return wide


result = forward(image, edges)
assert np.allclose(result, correlate2d(image, dilated(edges), "valid")[::2, ::2])

rng = np.random.default_rng(0)
cotangent = rng.standard_normal(result.shape)
by_image, by_weights = backward(image, edges, cotangent)
spread = np.zeros((2 * result.shape[0] - 1, 2 * result.shape[1] - 1))
spread[::2, ::2] = cotangent
assert np.allclose(by_image, correlate2d(spread, dilated(edges)[::-1, ::-1], "full"))
assert np.allclose(by_weights, correlate2d(image, spread, "valid")[::3, ::3])
print("convolution and both derivatives agree with SciPy")

# %%
# ## The result
#
# The weights are found again from the photograph and what became of it, by steepest
# descent; the misfit is quadratic, so that two more convolutions tell how long a step
# should be. And with all weights and all of `g` equal to 1, the derivative with
# respect to the image counts the windows that read a pixel: 4, 2 or 1.

weights, losses = np.zeros((3, 3)), []
for _ in range(120):
    misfit = forward(image, weights) - result
    losses.append((misfit**2).sum() / 2)
    _, slope = backward(image, weights, misfit)
    weights = weights - (slope**2).sum() / (forward(image, slope) ** 2).sum() * slope
print(f"misfit {losses[0]:.0f} to {losses[-1]:.1e}, weights found:\n{weights.round(2)}")
assert losses[-1] < 1e-3 * losses[0]

counts, _ = backward(image, np.ones((3, 3)), np.ones(result.shape))
assert set(np.unique(counts[8:-8, 8:-8])) == {1.0, 2.0, 4.0}

figure, ((first, second), (third, fourth)) = plt.subplots(
    2, 2, figsize=(9, 6), layout="constrained"
)
first.imshow(image, cmap="gray")
first.set_title("photograph")
second.imshow(result, cmap="RdBu", vmin=-3, vmax=3)
second.set_title("edges: stride 2, dilation 3")
picture = third.imshow(counts[20:36, 20:44], cmap="viridis")
third.set_title("windows that read a pixel (detail)")
figure.colorbar(picture, ax=third, ticks=(1, 2, 4), shrink=0.8)
for axis in (first, second, third):
    axis.set_axis_off()
fourth.semilogy(losses)
fourth.set(title="the weights are found again", xlabel="step", ylabel="misfit")
plt.show()
