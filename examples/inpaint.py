"""Missing pixels of a photograph, by Newton's method with a sparse Hessian.

Two thirds of the pixels of a photograph are lost. The image with the least total
variation that agrees with the others is found by Newton's method: the Hessian has
eight thousand rows, and the formula says where its entries are.
"""

# %%
# ## The loss
#
# Differences to the right and downward, as lengths of vectors with a rounded corner;
# the mask `M` says which pixels of `B` are known.

import numpy as np
import sympy
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image

import sympy_tensordiff as td

i, j, h, w = td.indices("i j h w")
X, B, M = (td.TensorSymbol(name, (h, w)) for name in "XBM")
epsilon, weight = sympy.symbols("epsilon weight", positive=True)
square = (X[i + 1, j] - X[i, j]) ** 2 + (X[i, j + 1] - X[i, j]) ** 2
variation = td.IndexedSum(sympy.sqrt(square + epsilon**2), (j, 0, w - 2), (i, 0, h - 2))
loss = variation + weight * td.sum(M * (X - B) ** 2)
loss

# %%
# ## Its Hessian
#
# A pixel meets itself and six neighbours. The terms are values at places, for all
# points of a range:

arguments = (X, B, M, epsilon, weight)
hessian = td.structured_hessian(arguments, loss, X)
for term in hessian.terms[-3:]:
    print(term)

# %%
# ## Newton's method
#
# The rounding of the corner goes down in two steps, each with a few equations of
# Newton. Which method solves them is a choice by the pattern:

value, slope = (
    td.lambdify(arguments, loss),
    td.lambdify(arguments, td.gradient(loss, X)),
)
photograph = load_sample_image("china.jpg").mean(axis=2)[150:246, 230:318] / 255
rng = np.random.default_rng(0)
known = (rng.random(photograph.shape) < 1 / 3).astype(float)


def restored(image):
    """The image with the least variation, and how many equations were solved."""
    count = 0
    for rounding in (0.3, 0.1):
        for _ in range(30):
            at = image, photograph * known, known, rounding, 50.0
            down = slope(*at)
            operator = hessian(*at)
            step = operator.solve(down.ravel(), shift=1e-6).reshape(image.shape)
            count += 1
            length = 1.0
            decrease = (down * step).sum()
            while (
                value(image - length * step, *at[1:])
                > value(*at) - length * decrease / 1e4
            ):
                length /= 2
            image = image - length * step
            if decrease < 1e-2:
                break
    return image, count, operator.method


start = np.where(known, photograph, photograph[known > 0].mean())
found, count, method = restored(start)
print(f"{count} equations with {photograph.size} unknowns, each by")
print(method)

# %%
# Products with the Hessian agree with differences of the gradient:

at = found, photograph * known, known, 0.1, 50.0
direction = rng.standard_normal(found.shape)
ahead, behind = (slope(found + size * direction, *at[1:]) for size in (1e-6, -1e-6))
product = hessian(*at) @ direction.ravel()
assert np.allclose(product, (ahead - behind).ravel() / 2e-6, rtol=1e-4, atol=1e-3)

# %%
# ## The result


def quality(image):
    """Peak signal to noise in dB."""
    return -10 * np.log10(np.mean((image - photograph) ** 2))


seen = np.where(known, photograph, np.nan)
assert quality(found) > quality(start) + 4
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
pictures = {
    "photograph": photograph,
    "known pixels": seen,
    f"found: {quality(found):.1f} dB": found,
}
for axis, (name, picture) in zip(axes, pictures.items(), strict=False):
    axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axis.set_title(name)
    axis.set_axis_off()
small = (array[:9, :9] if np.ndim(array) else array for array in at)
hessian.spy(*small, ax=axes[3], markersize=1)
axes[3].set_xlabel("Hessian of 9 by 9 pixels")
plt.show()
