"""The trend of a share's price, by Newton's method with a banded Hessian.

Four years of prices of a share. A trend is smooth where its second differences are
small; a misfit that grows like an absolute value lets single days go. Both are sums in
index notation, and the Hessian of their sum has five diagonals.
"""

# %%
# ## The loss
#
# `log cosh` is a square near zero and an absolute value far away.

import numpy as np
import sympy
from matplotlib import pyplot as plt
from matplotlib.cbook import get_sample_data

import sympy_tensordiff as td

i, n = td.indices("i n")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
stiffness, width = sympy.symbols("stiffness width", positive=True)
misfit = td.IndexedSum(
    width**2 * sympy.log(sympy.cosh((x[i] - y[i]) / width)), (i, 0, n - 1)
)
bending = td.IndexedSum((x[i] - 2 * x[i + 1] + x[i + 2]) ** 2, (i, 0, n - 3))
loss = misfit + stiffness * bending
loss

# %%
# ## Its Hessian
#
# The terms say at which rows and columns they have entries:

arguments = (x, y, stiffness, width)
hessian = td.structured_hessian(arguments, loss, x)
for term in hessian.terms:
    print(term)

# %%
# ## Newton's method
#
# Equations with five diagonals take a time that grows like the number of days:

value, slope = (
    td.lambdify(arguments, loss),
    td.lambdify(arguments, td.gradient(loss, x)),
)
prices = np.log(get_sample_data("goog.npz")["price_data"]["adj_close"].astype(float))


def trend(stiffness, width):
    """The trend with the least loss."""
    found, count = prices.copy(), 0
    while True:
        at = found, prices, stiffness, width
        down, operator = slope(*at), hessian(*at)
        step, length, count = operator.solve(down), 1.0, count + 1
        while (
            value(found - length * step, *at[1:])
            > value(*at) - length * (down @ step) / 1e4
        ):
            length /= 2
        found = found - length * step
        if down @ step < 1e-10:
            break
    return found, count, operator.method


slow, count, method = trend(1e5, 0.05)
fast, *_ = trend(1e2, 0.05)
print(f"{count} equations with {prices.size} unknowns, {method}")

# %%
# The gradient vanishes there, and the diagonals are those of a dense Hessian:

assert np.abs(slope(slow, prices, 1e5, 0.05)).max() < 1e-4
short = prices[:40], prices[40:80], 3.0, 0.05
dense = td.lambdify(arguments, td.hessian(loss, x))(*short)
assert np.allclose(hessian(*short).toarray(), dense)

# %%
# ## The result

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 3.8), width_ratios=(2.2, 1), layout="constrained"
)
left.plot(np.exp(prices), color="0.7", lw=0.8, label="price")
left.plot(np.exp(fast), label="stiffness 100")
left.plot(np.exp(slow), label="stiffness 100,000")
left.set(xlabel="days", ylabel="dollars")
left.legend()
hessian.spy(*short, ax=right, markersize=2)
right.tick_params(labeltop=False)
right.set_xlabel("Hessian of 40 days")
plt.show()
