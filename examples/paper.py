"""The function of the paper.

Section 6 of Urban and van der Smagt, [*Automatic Differentiation for Tensor
Algebras*](https://arxiv.org/abs/1711.01348), differentiates one function of four
tensors by hand. It has what makes index notation hard for other tools: a diagonal `c[i,
i]`, a window `d[i + k]`, a sum inside of an exponential.
"""

# %%
# ## The function
#
# Indices count from 0, and the limits of a sum include the end, as in SymPy.

import ast

import numpy as np
import sympy
from matplotlib import pyplot as plt

import sympy_tensordiff as td

i, j, k = td.indices("i j k")
a, b = td.TensorSymbol("a", (3, 5)), td.TensorSymbol("b", (4, 5))
c, d = td.TensorSymbol("c", (3, 3)), td.TensorSymbol("d", 7)
total = td.IndexedSum((a[i, k] + b[j, k]) ** 2 * c[i, i] + d[i + k] ** 3, (k, 0, 4))
f = td.TensorComprehension(sympy.exp(-total), (i, 3), (j, 4))
f

# %%
# ## Its derivatives
#
# Given the derivative `g` of a loss by `f`, one reverse sweep gives that by each of the
# four. By `a` and `b` there is nothing to it:

g = td.TensorSymbol("g", f.shape)
by_a, by_b, by_c, by_d = td.vjp(f, (a, b, c, d), g)
by_a
by_b

# %%
# Of `c` only the diagonal was read. The delta has two *free* indices, it says
# that the rest is 0:

by_c

# %%
# And `d[p]` was read by all `f[i, j]` with `i + k = p`. The equation is solved for `i`,
# and its range is exact: there is no delta left, and a kernel loops over what counts
# only.

by_d

# %%
# ## The kernel
#
# The sum over `j` does not depend on `p` and `k` but on `p - k`: it becomes an array of
# its own, and each entry is computed once. These are the loops, which Numba compiles:

source = td.generate_code((d, a, b, c, g), by_d, "numba")
for part in ast.parse(source).body:
    if isinstance(part, ast.FunctionDef) and part.name.startswith("fill"):
        print(ast.get_source_segment(source, part), end="\n\n")

# %%
# ## The result
#
# All four as one function, on random arrays, with central differences of a function
# written in NumPy:

rng = np.random.default_rng(0)
arrays = [0.4 * rng.standard_normal(tensor.shape) for tensor in (a, b, c, d)]
cotangent = rng.standard_normal(f.shape)
value, *derivatives = td.lambdify((a, b, c, d, g), (f, by_a, by_b, by_c, by_d))(
    *arrays, cotangent
)


def by_hand(a, b, c, d):
    windows = np.lib.stride_tricks.sliding_window_view(d, 5)
    squares = ((a[:, None] + b) ** 2).sum(axis=2) * np.diag(c)[:, None]
    return np.exp(-squares - (windows**3).sum(axis=1)[:, None])


def difference(position, entry, step=1e-6):
    values = []
    for sign in (1, -1):
        moved = [array.copy() for array in arrays]
        moved[position][entry] += sign * step
        values.append((by_hand(*moved) * cotangent).sum())
    return (values[0] - values[1]) / (2 * step)


differences = [
    np.reshape(
        [difference(position, entry) for entry in np.ndindex(array.shape)], array.shape
    )
    for position, array in enumerate(arrays)
]
assert np.allclose(value, by_hand(*arrays))
for name, derivative, expected in zip("abcd", derivatives, differences, strict=True):
    print(f"by {name}: largest difference {np.abs(derivative - expected).max():.1e}")
    assert np.allclose(derivative, expected, atol=1e-7)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=(1, 1.6)
)
picture = left.imshow(value, cmap="viridis")
left.set(title="f", xlabel="j", ylabel="i", xticks=range(4), yticks=range(3))
figure.colorbar(picture, ax=left, shrink=0.8)
right.bar(range(7), derivatives[3], color="tab:blue", label="kernel")
right.plot(
    range(7), differences[3], "o", color="tab:orange", label="central differences"
)
right.axhline(0, color="black", lw=0.8)
right.set(title="derivative with respect to d", xlabel="p", xticks=range(7))
right.margins(y=0.1)
right.legend(loc="upper left")
plt.show()
