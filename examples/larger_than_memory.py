"""A photograph larger than memory.

A noisy photograph lies in a zarr store, in tiles. Its total variation is minimised
block by block on Dask: each step reads the tiles of a store, with one row or column
of their neighbours, and writes the tiles of another one. No array of the size of the
photograph is made.
"""

# %%
# ## The store
#
# A measuring program would append tiles; here they are cut from a photograph, and
# noise is added.

import tempfile

import numpy as np
import sympy
import zarr
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image

import sympy_tensordiff as td

photograph = load_sample_image("china.jpg").mean(axis=2) / 255
tile, folder = (100, 160), tempfile.mkdtemp()
shape = {"shape": photograph.shape, "chunks": tile, "dtype": float}
noisy = zarr.create_array(f"{folder}/noisy", **shape)
rng = np.random.default_rng(0)
for top in range(0, photograph.shape[0], tile[0]):
    rows = photograph[top : top + tile[0]]
    noisy[top : top + tile[0]] = rows + rng.normal(scale=0.1, size=rows.shape)
print(f"{noisy.nchunks} tiles of {tile}")

# %%
# ## The loss and one step
#
# The distance from the noisy photograph, and the length of the differences to the
# right and downward. A step against the gradient is one formula of both images:

i, j, h, w = td.indices("i j h w")
U, B = td.TensorSymbol("U", (h, w)), td.TensorSymbol("B", (h, w))
epsilon, weight, length = sympy.symbols("epsilon weight length", positive=True)
square = (U[i + 1, j] - U[i, j]) ** 2 + (U[i, j + 1] - U[i, j]) ** 2
variation = td.IndexedSum(sympy.sqrt(square + epsilon**2), (j, 0, w - 2), (i, 0, h - 2))
loss = td.sum((U - B) ** 2) / 2 + weight * variation
loss

# %%

slope = td.gradient(loss, U)
slope

# %%
# Both in blocks of 200 x 320 pixels. The plan says what is added up, the footprint
# what the second block of rows and columns reads: one pixel more on each side.

arguments, blocks = (U, B, epsilon, weight, length), {h: 200, w: 320}
step = td.lambdify(arguments, U - length * slope, "dask", blocks=blocks)
value = td.lambdify(arguments[:4], loss, "dask", blocks=blocks)
at = 0.05, 0.12, 0.08
print(value(noisy, noisy, *at[:2]).compute())
footprint = step.footprint((1, 0), h=427, w=640)
print(footprint)

# %%
assert footprint == {
    "U": (slice(199, 401), slice(0, 321)),
    "B": (slice(200, 400), slice(0, 320)),
}

# %%
# ## From store to store
#
# Each step reads one store and writes the next one. `cost` counts the tasks and bytes
# of a step before there is any array.

losses, store = [], noisy
for count in range(40):
    losses.append(float(value(store, noisy, *at[:2]).compute()))
    lazy = step(store, noisy, *at).rechunk((200, 160))
    lazy.to_zarr(f"{folder}/step{count}")
    store = zarr.open_array(f"{folder}/step{count}", mode="r")
print(f"loss {losses[0]:.0f} -> {losses[-1]:.0f}")
print(step.cost(h=427, w=640))

# %%
# The whole photograph at once gives the same numbers, and the photograph without
# noise is nearer than before:

single = td.lambdify(arguments, U - length * slope, "numpy")
whole = noisy[:]
for _ in range(40):
    whole = single(whole, noisy[:], *at)
assert np.abs(store[:] - whole).max() < 1e-12
assert losses[-1] < 0.6 * losses[0]
before, after = (np.std(image[:] - photograph) for image in (noisy, store))
print(f"noise {before:.3f} -> {after:.3f}")
assert after < 0.7 * before

# %%
# ## The result

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for axis, image, title in zip(
    axes, (noisy, store), ("noisy", "after 40 steps"), strict=True
):
    axis.imshow(image[:], cmap="gray", vmin=0, vmax=1)
    axis.set_title(title)
    axis.set_axis_off()
plt.show()
