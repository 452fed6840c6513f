"""Logistic regression by Newton's method.

Handwritten digits are classified. The loss is written as one would write it in NumPy;
gradient and Hessian are derived, and have the form of textbooks. Newton's
method takes a handful of steps, and ends where scikit-learn does.
"""

# %%
# ## The loss
#
# Examples are the rows of `X`, labels `y` are 0 or 1, `w` are the weights. What is
# written is the logarithm of a likelihood, and a penalty.

import numpy as np
import sympy
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import sympy_tensordiff as td

n, m = td.indices("n m")
X, y, w = td.TensorSymbol("X", (n, m)), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
lam = sympy.Symbol("lamda", positive=True)  # "lambda" is a word of Python
loss = td.sum(td.softplus(X @ w)) - td.dot(y, X @ w) + lam / 2 * td.dot(w, w)
loss

# %%
# ## Its derivatives

gradient = td.gradient(loss, w)
gradient

# %%
# The derivative of the sigmoid of a vector is diagonal, and the product is never built
# from a full matrix:

hessian = td.hessian(loss, w)
hessian

# %%
# The loss is convex, so what Newton's method finds is the minimum. The proof is read
# off the Hessian: squares with positive weights.

certificate = td.certify_convex(loss, w)
certificate.check()
certificate

# %%
# ## The kernels
#
# Loss and gradient, and the Hessian; its products are left to BLAS.

slope = td.lambdify((X, y, w, lam), (loss, gradient), "numpy")
curvature = td.lambdify((X, y, w, lam), hessian, "numpy")
print(td.generate_code((X, y, w, lam), hessian, "numpy").partition("def run")[2])

# %%
# Against central differences, of the loss and of the gradient:

images, digits = load_digits(return_X_y=True)
images = images / 16
first, second = (
    np.arange(len(images)) % 3 > 0,
    np.arange(len(images)) % 3 == 0,
)  # to learn from, to test
one = (digits[first] == 1).astype(float)
data = (images[first], one)

point = 0.1 * np.random.default_rng(0).standard_normal(64)
_, at_point = slope(*data, point, 1.0)
for entry in range(2, 64, 10):
    move = 1e-5 * np.eye(64)[entry]
    (ahead, slope_ahead), (behind, slope_behind) = (
        slope(*data, point + move, 1.0),
        slope(*data, point - move, 1.0),
    )
    assert np.isclose(at_point[entry], (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-6)
    assert np.allclose(
        curvature(*data, point, 1.0)[entry],
        (slope_ahead - slope_behind) / 2e-5,
        rtol=1e-5,
        atol=1e-6,
    )
print("gradient and Hessian agree with central differences")

# %%
# ## The result
#
# One classifier for each digit, which tells it from all others. The norm of the
# gradient is squared by each step in the end; gradient descent, with a step that is
# safe everywhere, has hardly begun.


def newton(labels):
    weights, norms = np.zeros(64), []
    for _ in range(11):
        _, by_weights = slope(images[first], labels, weights, 1.0)
        norms.append(np.linalg.norm(by_weights))
        weights = weights - np.linalg.solve(
            curvature(images[first], labels, weights, 1.0), by_weights
        )
    return weights, norms


def descent(labels):
    weights, norms = np.zeros(64), []
    length = 1 / (np.linalg.eigvalsh(images[first].T @ images[first])[-1] / 4 + 1)
    for _ in range(25):
        _, by_weights = slope(images[first], labels, weights, 1.0)
        norms.append(np.linalg.norm(by_weights))
        weights = weights - length * by_weights
    return norms


classifiers, norms = zip(
    *(newton((digits[first] == digit).astype(float)) for digit in range(10)),
    strict=True,
)
theirs = (
    LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=2000)
    .fit(*data)
    .coef_[0]
)
difference = np.abs(classifiers[1] - theirs).max()
print(f"largest difference from scikit-learn's weights: {difference:.1e}")
assert difference < 1e-4
assert max(norm[-1] for norm in norms) < 1e-9

right = np.mean(
    (images[second] @ np.transpose(classifiers)).argmax(axis=1) == digits[second]
)
print(f"{right:.1%} of {second.sum()} digits that were not learned from are right")
assert right > 0.93

figure = plt.figure(figsize=(9, 3.4), layout="constrained")
left, side = figure.subfigures(1, 2, width_ratios=(1, 1.15))
axis = left.subplots()
for digit, norm in enumerate(norms):
    axis.semilogy(
        norm,
        color="tab:blue",
        lw=1,
        label="Newton, ten classifiers" if digit == 0 else None,
    )
axis.semilogy(descent(one), color="tab:red", label="gradient descent")
axis.set(xlabel="step", ylabel="norm of the gradient")
axis.legend(fontsize=9)
for digit, axis in enumerate(side.subplots(2, 5).flat):
    axis.imshow(classifiers[digit].reshape(8, 8), cmap="RdBu_r", vmin=-3, vmax=3)
    axis.set_title(digit)
    axis.set_axis_off()
side.suptitle("weights: red speaks for the digit")
plt.show()
