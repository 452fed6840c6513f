"""Hyperparameters of a Gaussian process.

How smooth, how large and how noisy a function is, is read off data by the likelihood,
which contains the inverse and the determinant of a matrix. It is differentiated as a
whole, and agrees with scikit-learn's.
"""

# %%
# ## The likelihood
#
# Of values `y`, for a covariance matrix `K`; a constant is left out.

import numpy as np
import sympy
from matplotlib import pyplot as plt
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import sympy_tensordiff as td

i, j, n = td.indices("i j n")
K, y, x = td.TensorSymbol("K", (n, n)), td.TensorSymbol("y", n), td.TensorSymbol("x", n)
likelihood = -td.dot(y, td.inv(K) @ y) / 2 - td.log(td.det(K)) / 2
likelihood

# %%
# Its gradient by the matrix:

td.gradient(likelihood, K)

# %%
# ## The covariance
#
# Of two places it falls with their distance, on the length `ell`; noise is on the
# diagonal.

ell, sigma, eta = hyperparameters = sympy.symbols("ell sigma eta", positive=True)
covariance = td.TensorComprehension(
    sigma**2 * sympy.exp(-((x[i] - x[j]) ** 2) / (2 * ell**2))
    + eta**2 * sympy.KroneckerDelta(i, j),
    (i, n),
    (j, n),
)
covariance

# %%
# ## The derivatives
#
# The covariance is put in, and the likelihood differentiated by the three numbers.
# Behind the derivation the matrix is called `K` again, to read it:

total = likelihood.subs(K, covariance)
by_ell, by_sigma, by_eta = td.gradient(total, hyperparameters)
by_ell.xreplace({covariance: K})
by_eta.xreplace({covariance: K})

# %%
# ## The kernel
#
# Value and gradient at once; NumPy's inverse and logarithm of the determinant are
# behind it. scikit-learn has the same by the logarithms of the squares of the numbers,
# but for the length.

fit = td.lambdify(
    (x, y, *hyperparameters), (total, (by_ell, by_sigma, by_eta)), "numpy"
)

rng = np.random.default_rng(3)
places = np.sort(rng.uniform(0, 10, 40))
values = 0.6 * places * np.sin(places) / 3 + 0.3 * rng.standard_normal(40)


def log_likelihood(logarithms):
    """The negative likelihood and its gradient by the logarithms of the numbers."""
    numbers = np.exp(logarithms)
    value, slopes = fit(places, values, *numbers)
    return -value, -np.array(slopes) * numbers


logarithms = np.log([0.7, 1.3, 0.2])
length, amplitude, noise = np.exp(logarithms)
theirs = GaussianProcessRegressor(
    ConstantKernel(amplitude**2) * RBF(length) + WhiteKernel(noise**2), optimizer=None
).fit(places[:, None], values)
expected, by_theta = theirs.log_marginal_likelihood(
    theirs.kernel_.theta, eval_gradient=True
)
value, slope = log_likelihood(logarithms)
assert np.isclose(-value - 20 * np.log(2 * np.pi), expected)
assert np.allclose(-slope, by_theta[[1, 0, 2]] * [1, 2, 2])
print(f"log likelihood {-value:.4f}; value and gradient agree with scikit-learn's")

# %%
# ## The result
#
# The numbers of greatest likelihood, found by a method of SciPy, and the function with
# a band of two standard deviations.

path = [logarithms]
best = minimize(
    log_likelihood, logarithms, jac=True, method="BFGS", callback=path.append
)
length, amplitude, noise = np.exp(best.x)
print(
    f"length {length:.2f}, amplitude {amplitude:.2f}, noise {noise:.2f} (truth: 0.30)"
)
assert best.fun < value and np.abs(best.jac).max() < 1e-3
assert abs(noise - 0.3) < 0.1


def between(first, second):
    return amplitude**2 * np.exp(-((first[:, None] - second) ** 2) / (2 * length**2))


at = np.linspace(-1, 11, 200)
matrix = between(places, places) + noise**2 * np.eye(40)
mean = between(at, places) @ np.linalg.solve(matrix, values)
variance = amplitude**2 - (
    between(at, places) * np.linalg.solve(matrix, between(places, at)).T
).sum(axis=1)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(1, 1.3)
)
lengths, noises = np.meshgrid(np.geomspace(0.3, 5, 30), np.geomspace(0.1, 1.2, 30))
heights = np.vectorize(
    lambda one, other: fit(places, values, one, amplitude, other)[0]
)(lengths, noises)
left.contourf(
    lengths, noises, np.maximum(heights, heights.max() - 60), levels=20, cmap="viridis"
)
steps = np.exp(path)
left.plot(steps[:, 0], steps[:, 2], "o-", color="white", ms=3, lw=1)
left.plot(length, noise, "*", color="tab:red", ms=12)
left.set(
    xscale="log",
    yscale="log",
    xlim=(0.3, 5),
    ylim=(0.1, 1.2),
    xlabel="length",
    ylabel="noise",
)
left.set(
    xticks=(0.5, 1, 2, 4),
    xticklabels=["0.5", "1", "2", "4"],
    yticks=(0.1, 0.3, 1),
    yticklabels=["0.1", "0.3", "1"],
)
left.minorticks_off()
left.set_title("log likelihood, and the path of the optimizer")
right.fill_between(
    at,
    mean - 2 * variance**0.5,
    mean + 2 * variance**0.5,
    alpha=0.3,
    label="two standard deviations",
)
right.plot(at, mean, label="mean")
right.plot(at, 0.6 * at * np.sin(at) / 3, ":", color="black", label="truth")
right.plot(places, values, ".", color="tab:red", label="data")
right.set(title="the function", xlabel="x", ylim=(-4.2, 2.2))
right.legend(loc="lower left", fontsize=9)
plt.show()
