"""Derivatives of whole tensors as a reader sees them."""

from every import every

import sympy_tensordiff as td

n, m = 3, 4
x, t, w = (td.TensorSymbol(name, (n,)) for name in "xtw")
y = td.TensorSymbol("y", (m,))
A = td.TensorSymbol("A", (n, n))
X = td.TensorSymbol("X", (m, n))

BY_HAND = -td.sum(t * td.log(td.exp(x) / td.sum(td.exp(x))))
LOGISTIC = td.sum(td.log(1 + td.exp(-(y * (X @ w)))))
MARGIN = "sigmoid(-y*(X @ w))"
READINGS = {
    "least squares": (lambda: td.gradient((X @ w - y) @ (X @ w - y), w), "2*X.T @ (X @ w - y)"),
    "least squares, expanded": (
        lambda: td.gradient(w @ X.T @ X @ w - 2 * (y @ X @ w) + y @ y, w),
        "2*X.T @ (X @ w - y)",
    ),
    "cross-entropy": (lambda: td.gradient(BY_HAND, x), "sum(t)*softmax(x) - t"),
    "cross-entropy, Hessian": (
        lambda: td.hessian(BY_HAND, x),
        "sum(t)*(diag(softmax(x)) - outer(softmax(x), softmax(x)))",
    ),
    "logistic": (lambda: td.gradient(LOGISTIC, w), f"-X.T @ (y*{MARGIN})"),
    "logistic, Hessian": (lambda: td.hessian(LOGISTIC, w), f"X.T @ diag({MARGIN}*y**2*(1 - {MARGIN})) @ X"),
    "quadratic form": (lambda: td.gradient(x @ A @ x, x), "(A + A.T) @ x"),
    "orthogonality": (
        lambda: td.gradient(td.norm(X.T @ X - td.DeltaTensor(n)) ** 2, X),
        "4*X @ (X.T @ X - DeltaTensor(3))",
    ),
    "divergence": (lambda: td.gradient(td.sum(x * td.log(x / t)), x), "log(x/t) + 1"),
}


@every("name", [*READINGS])
def test_readings(name):
    derivative, expected = READINGS[name]
    assert str(derivative()) == expected
