"""Derivatives of models in papers on learning, physics, statistics and finance; the gradients were written down from
the textbooks, before the package was asked for them."""

import sympy
from corpus_forms import Form, vectors
from sympy import Mod, Ne, Piecewise, Rational, cos, exp, log, pi, sin, sqrt

import sympy_tensordiff as td

n, d = td.indices("n d")
i, j, k, p, q = td.indices("i j k p q")
S, N, C = td.IndexedSum, td.name, td.TensorComprehension
a, b, c, h, beta, lam, eps, mu, g, r, T = sympy.symbols("a b c h beta lamda epsilon mu g r T", positive=True)
x, y, v, w, s = vectors("x y v w s", n)
X, Y = (td.TensorSymbol(name, (n, d)) for name in "XY")
A, M, W = (td.TensorSymbol(name, (n, n)) for name in "AMW")
V, Q = td.TensorSymbol("V", (d, d)), td.TensorSymbol("Q", (d, d))
e = td.TensorSymbol("e", d)
P, R = td.TensorSymbol("P", (d, d), positive=True), td.TensorSymbol("R", (n, n), positive=True)
I, J, K = (i, 0, n - 1), (j, 0, n - 1), (k, 0, d - 1)
POSITIVE = {"low": 0.3, "high": 1.5}


def only(value, condition):
    return Piecewise((value, condition), (0, True))


def square(one, other):
    return S((X[one, k] - X[other, k]) ** 2, K)


def difference(one, other):
    return sqrt(square(one, other))


def cyclic(index):
    return Mod(index, n)


one = N(C(difference(i, j), (i, n), (j, n)), "r")
score = N(X @ V @ X.T / sqrt(d), "S")
posterior = N(td.inv(td.inv(P) + X.T @ X), "C")
bracket = N(V @ Q - Q @ V, "C")
hidden = N(td.tanh(X @ V), "H")
chosen = N(td.softmax(x / T), "p")
power = N(M * (X @ X.T + c) ** 2, "U")
unit = N(td.sigmoid(X @ e), "sigma")
field = N(td.tanh(W @ x + v), "f")
error = N(Y - X @ V, "E")
whole = N(td.exp(-td.sum((X[:, None, :] - X) ** 2, axis=2) / (2 * h**2)), "K")
both = N(M * whole + (M * whole).T, "U")
spread = N(X @ P @ X.T + R, "Sigma")
weighted = N(td.inv(spread) @ y, "alpha")
excited = N(C(S(exp(-b * (x[i] - x[j])), (j, 0, i - 1)), (i, n)), "A")

LEARNING = [
    Form(
        "self-distillation of features",
        td.sum((td.tanh(X @ V) @ Q - Y) ** 2) / 2,
        V,
        X.T @ (((hidden @ Q - Y) @ Q.T) * (1 - hidden**2)),
    ),
    Form(
        "bilinear attention logits by one weight for both sides",
        td.sum(td.exp(score.definition) * M),
        V,
        X.T @ (td.exp(score) * M) @ X / sqrt(d),
    ),
    Form("power of a polynomial kernel", td.sum(M * (X @ X.T + c) ** 3), X, 3 * (power + power.T) @ X),
    Form("Brier score", td.sum((td.sigmoid(X @ e) - y) ** 2), e, 2 * X.T @ ((unit - y) * unit * (1 - unit))),
    Form("exponential loss", td.sum(td.exp(-y * (X @ e))), e, -X.T @ (y * td.exp(-y * (X @ e)))),
    Form("Tweedie loss", td.sum(td.exp(a * (X @ e)) / a - y * (X @ e)), e, X.T @ (td.exp(a * (X @ e)) - y)),
    Form(
        "decorrelation of features",
        td.norm(X.T @ X / n - td.DeltaTensor(d)) ** 2,
        X,
        4 * X @ (X.T @ X / n - td.DeltaTensor(d)) / n,
    ),
    Form(
        "Barlow terms off the diagonal",
        td.sum((X.T @ Y - td.DeltaTensor(d)) ** 2),
        X,
        2 * Y @ (Y.T @ X - td.DeltaTensor(d)),
    ),
    Form(
        "energy of a Hopfield layer",
        -td.logsumexp(beta * (X @ e)) / beta + td.dot(e, e) / 2,
        e,
        e - X.T @ td.softmax(beta * (X @ e)),
    ),
    Form("temperature of a softmax", td.dot(y, td.softmax(x / T)), x, chosen * (y - td.dot(y, chosen)) / T),
    Form(
        "implicit layer residual",
        td.sum((td.tanh(W @ x + v) - x) ** 2) / 2,
        x,
        W.T @ ((field - x) * (1 - field**2)) - field + x,
    ),
    Form(
        "quantised codes, commitment",
        td.sum((X @ V - Y) ** 2) + beta * td.sum((X - Y) ** 2),
        X,
        2 * (X @ V - Y) @ V.T + 2 * beta * (X - Y),
    ),
    Form(
        "Gaussian kernel of rows",
        td.sum(M * whole.definition),
        X,
        (both @ X - td.sum(both, axis=1)[:, None] * X) / h**2,
    ),
    Form("information of a Gaussian channel", td.logdet(X @ P @ X.T + R) / 2, X, td.inv(spread) @ X @ P),
    Form(
        "evidence of a linear Gaussian model",
        td.dot(y, td.inv(X @ P @ X.T + R) @ y),
        X,
        -2 * td.outer(weighted, weighted) @ X @ P,
    ),
    Form("trace of a posterior", td.trace(td.inv(td.inv(P) + X.T @ X)), X, -2 * X @ posterior @ posterior),
    Form(
        "low-rank update with decay",
        td.sum((Y - X @ V) ** 2) / 2 + lam * td.norm(V) ** 2 / 2,
        V,
        -X.T @ error + lam * V,
    ),
    Form(
        "total correlation of a spectrum",
        td.sum(td.log(td.sum((X @ V) ** 2, axis=0))),
        V,
        2 * X.T @ (X @ V / td.sum((X @ V) ** 2, axis=0)),
    ),
    Form("squared norm of a commutator", td.norm(V @ Q - Q @ V) ** 2 / 2, V, bracket @ Q.T - Q.T @ bracket),
]

FIELDS = [
    Form(
        "sine-Gordon chain",
        S((x[cyclic(i + 1)] - x[i]) ** 2 / 2 + 1 - cos(x[i]), I),
        x[p],
        2 * x[p] - x[cyclic(p + 1)] - x[cyclic(p - 1)] + sin(x[p]),
    ),
    Form(
        "Toda lattice",
        S(exp(x[cyclic(i + 1)] - x[i]), I),
        x[p],
        exp(x[p] - x[cyclic(p - 1)]) - exp(x[cyclic(p + 1)] - x[p]),
    ),
    Form(
        "Fermi-Pasta-Ulam chain",
        S((x[cyclic(i + 1)] - x[i]) ** 2 / 2 + a * (x[cyclic(i + 1)] - x[i]) ** 3 / 3, I),
        x[p],
        2 * x[p]
        - x[cyclic(p + 1)]
        - x[cyclic(p - 1)]
        + a * ((x[p] - x[cyclic(p - 1)]) ** 2 - (x[cyclic(p + 1)] - x[p]) ** 2),
    ),
    Form(
        "Frenkel-Kontorova",
        S((x[i + 1] - x[i] - a) ** 2, (i, 0, n - 2)) / 2 - b * S(cos(2 * pi * x[i]), I),
        x[p],
        2 * pi * b * sin(2 * pi * x[p]) + only(x[p] - x[p - 1] - a, p >= 1) + only(x[p] - x[p + 1] + a, p <= n - 2),
    ),
    Form(
        "XY model on a square lattice",
        -S(cos(A[cyclic(i + 1), j] - A[i, j]) + cos(A[i, cyclic(j + 1)] - A[i, j]), I, J),
        A[p, q],
        sin(A[p, q] - A[cyclic(p + 1), q])
        + sin(A[p, q] - A[cyclic(p - 1), q])
        + sin(A[p, q] - A[p, cyclic(q + 1)])
        + sin(A[p, q] - A[p, cyclic(q - 1)]),
    ),
    Form(
        "Mie potential",
        S(only((a / difference(i, j)) ** b - (a / difference(i, j)) ** c, Ne(i, j)), J, I) / 2,
        X[p, q],
        S(
            only(
                (c * (a / one[p, j]) ** c - b * (a / one[p, j]) ** b) * (X[p, q] - X[j, q]) / one[p, j] ** 2, Ne(p, j)
            ),
            J,
        ),
    ),
    Form(
        "Gaussian core",
        S(only(exp(-square(i, j) / h**2), Ne(i, j)), J, I) / 2,
        X[p, q],
        -2 * S((X[p, q] - X[j, q]) * exp(-square(p, j) / h**2), J) / h**2,
    ),
    Form(
        "logarithmic gas",
        S(x[i] ** 2, I) / 2 - beta * S(only(log((x[i] - x[j]) ** 2), Ne(i, j)), J, I) / 4,
        x[p],
        x[p] - beta * S(only(1 / (x[p] - x[j]), Ne(p, j)), J),
    ),
    Form(
        "vortices in the plane",
        -S(only(w[i] * w[j] * log((x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2), Ne(i, j)), J, I) / 4,
        x[p],
        -w[p] * S(only(w[j] * (x[p] - x[j]) / ((x[p] - x[j]) ** 2 + (y[p] - y[j]) ** 2), Ne(p, j)), J),
    ),
    Form(
        "Lagrangian of a string",
        S((x[i + 1] - x[i]) ** 2 / (2 * h) + h * g * w[i] * x[i], (i, 0, n - 2)),
        x[p],
        only((x[p] - x[p - 1]) / h, p >= 1) + only((x[p] - x[p + 1]) / h + h * g * w[p], p <= n - 2),
    ),
    Form(
        "Manning friction", S(w[i] * x[i] ** Rational(5, 3), I), x[p], 5 * w[p] * x[p] ** Rational(2, 3) / 3, **POSITIVE
    ),
    Form(
        "gamma likelihood by its rate",
        S(a * log(b) + (a - 1) * log(x[i]) - b * x[i], I),
        b,
        n * a / b - S(x[i], I),
        **POSITIVE,
    ),
    Form("Pareto tail by its index", S(log(a) - (a + 1) * log(x[i]), I), a, n / a - S(log(x[i]), I), **POSITIVE),
    Form(
        "Laplace prior, smoothed",
        S((y[i] - S(X[i, k] * e[k], K)) ** 2, I) / 2 + lam * S(sqrt(e[k] ** 2 + eps), K),
        e[q],
        lam * e[q] / sqrt(e[q] ** 2 + eps) - S(X[i, q] * (y[i] - S(X[i, k] * e[k], K)), I),
    ),
    Form(
        "Hawkes excitation",
        S(log(mu + a * S(exp(-b * (x[i] - x[j])), (j, 0, i - 1))), I),
        a,
        S(excited[i] / (mu + a * excited[i]), I),
    ),
    Form(
        "Bradley-Terry by strengths",
        S(W[i, j] * (log(x[i]) - log(x[i] + x[j])), I, J),
        x[p],
        S(W[p, j], J) / x[p] - S((W[p, j] + W[j, p]) / (x[p] + x[j]), J),
        **POSITIVE,
    ),
    Form(
        "Vasicek yields by the mean",
        S((y[i] - mu - (r - mu) * exp(-a * s[i])) ** 2, I),
        mu,
        -2 * S((y[i] - mu - (r - mu) * exp(-a * s[i])) * (1 - exp(-a * s[i])), I),
    ),
    Form(
        "Nelson-Siegel by a decay",
        S((y[i] - a - b * exp(-s[i] / c)) ** 2, I) / 2,
        c,
        -b * S((y[i] - a - b * exp(-s[i] / c)) * s[i] * exp(-s[i] / c), I) / c**2,
    ),
    Form(
        "exponential utility of a portfolio",
        log(S(exp(-a * S(X[i, k] * e[k], K)), I) / n) / a,
        e[q],
        -S(exp(-a * S(X[i, k] * e[k], K)) * X[i, q], I) / S(exp(-a * S(X[i, k] * e[k], K)), I),
    ),
    Form("bond price by yields", S(w[i] * exp(-x[i] * s[i]), I), x[p], -s[p] * w[p] * exp(-s[p] * x[p])),
    Form(
        "Black-Scholes call, delta",
        S(w[i] * (x[i] * (1 + sympy.erf((log(x[i] / y[i]) + a) / sqrt(2)))), I) / 2,
        x[p],
        w[p]
        * (
            (1 + sympy.erf((log(x[p] / y[p]) + a) / sqrt(2))) / 2
            + exp(-((log(x[p] / y[p]) + a) ** 2) / 2) / sqrt(2 * pi)
        ),
        **POSITIVE,
    ),
    Form(
        "market impact",
        S(a * (x[i + 1] - x[i]) ** 2 + b * x[i] ** 2, (i, 0, n - 2)),
        x[p],
        only(2 * a * (x[p] - x[p - 1]), p >= 1) + only(2 * a * (x[p] - x[p + 1]) + 2 * b * x[p], p <= n - 2),
    ),
]

FORMS = LEARNING + FIELDS
