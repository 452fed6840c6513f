"""Derivatives that other fields write, each with the form that they print; they were written before any was derived."""

import sympy
from corpus_forms import Form, vectors

import sympy_tensordiff as td

n, m, d, c = td.indices("n m d c")
i, j, k, p, q = td.indices("i j k p q")
rho, length, a = sympy.symbols("rho length a", positive=True)
t = sympy.Symbol("t")
S, N = td.IndexedSum, td.name


def matrices(names, *shape, **facts):
    """Tensors of one shape."""
    return [td.TensorSymbol(name, shape, **facts) for name in names.split()]


x, r, y, theta, g = vectors("x r y theta g", n)
b, alpha, eo = vectors("b alpha eo", m)
beta, w = vectors("beta w", d)
A, B = matrices("A B", n, n)
H, Sigma = matrices("H Sigma", n, n, symmetric=True)
S0, S1 = matrices("S0 S1", n, n, symmetric=True, positive=True)
X, U = matrices("X U", n, d)
V, Y = matrices("V Y", n, m)
Z, F = matrices("Z F", n, c)
G = matrices("G", c, m)[0]
W = matrices("W", c, c, symmetric=True)[0]
R, O = matrices("R O", d, d)
E = td.TensorSymbol("E", (n, n, n, n))
I, J = (i, 0, n - 1), (j, 0, m - 1)
POSITIVE = {"low": 0.2, "high": 2.0}

right = alpha[j] * (theta[i] - b[j])
answers = S(Y[i, j] * td.log(td.sigmoid(right)) + (1 - Y[i, j]) * td.log(1 - td.sigmoid(right)), I, J)
distances = td.sum((X[:, None, :] - X) ** 2, axis=2)
D = N(distances, "D")
kernel = td.exp(-distances / (2 * length**2)) + a**2 * td.DeltaTensor(n)
K = N(td.exp(-D / (2 * length**2)) + a**2 * td.DeltaTensor(n), "K")
evidence = (y @ td.inv(kernel) @ y + td.logdet(kernel)) / 2
divergence = (td.trace(td.inv(S1) @ S0) + (x - y) @ td.inv(S1) @ (x - y) + td.logdet(S1) - td.logdet(S0)) / 2
turned = td.sum((td.cos(A) * B - td.sin(A) * H - Sigma) ** 2 + (td.sin(A) * B + td.cos(A) * H) ** 2) / 2
l, ALL = td.indices("l"), [(index, 0, n - 1) for index in (i, j, k, td.indices("l"))]
repulsion = S((2 * E[i, j, k, l] - E[i, l, k, j]) * A[i, j] * A[k, l], *ALL) / 2
logits = N(td.softmax(V, axis=1), "P")
degrees = td.sum(A + td.DeltaTensor(n), axis=1)

FORMS = [
    Form("growth of a community", td.sum(x * (r + A @ x)), x, r + (A + A.T) @ x),
    Form(
        "utility of constant elasticity",
        td.sum(r * x**rho) ** (1 / rho),
        x,
        r * x ** (rho - 1) * td.sum(r * x**rho) ** (1 / rho - 1),
        **POSITIVE,
    ),
    Form(
        "moments with weights",
        (Z.T @ (y - X @ beta) / n) @ W @ (Z.T @ (y - X @ beta) / n),
        beta,
        -2 * X.T @ Z @ W @ Z.T @ (y - X @ beta) / n**2,
    ),
    Form("two parameters, abilities", answers, theta[p], S(alpha[j] * (Y[p, j] - td.sigmoid(right.subs(i, p))), J)),
    Form(
        "two parameters, discriminations",
        answers,
        alpha[p],
        S((theta[i] - b[p]) * (Y[i, p] - td.sigmoid(right.subs(j, p))), I),
    ),
    Form(
        "paired comparisons",
        S(A[i, j] * (td.log(x[i]) - td.log(x[i] + x[j])), I, (j, 0, n - 1)),
        x[p],
        S(A[p, j], (j, 0, n - 1)) / x[p] - S((A[p, j] + A[j, p]) / (x[p] + x[j]), (j, 0, n - 1)),
        **POSITIVE,
    ),
    Form(
        "ground state",
        (x @ H @ x) / (x @ x),
        x,
        2 * (H @ x - (x @ H @ x) / (x @ x) * x) / (x @ x),
    ),
    Form(
        "points to planes",
        td.sum(td.sum(U * (X @ R.T + w - X), axis=1) ** 2) / 2,
        w,
        U.T @ td.sum(U * (X @ R.T + w - X), axis=1),
    ),
    Form("spectra by factors", td.sum(V * td.log(V / (F @ G)) - V + F @ G), F, (1 - V / (F @ G)) @ G.T, **POSITIVE),
    Form(
        "divergence by the covariance",
        divergence,
        S1,
        (td.inv(S1) - td.inv(S1) @ (S0 + td.outer(x - y, x - y)) @ td.inv(S1)) / 2,
    ),
    Form("divergence by the other covariance", divergence, S0, (td.inv(S1) - td.inv(S0)) / 2),
    Form(
        "flow of power",
        S(A[i, j] * (1 - td.cos(x[i] - x[j])), I, (j, 0, n - 1)),
        x[p],
        -S((A[p, j] + A[j, p]) * td.sin(x[j] - x[p]), (j, 0, n - 1)),
    ),
    Form(
        "order of oscillators",
        (S(td.cos(x[i]), I) ** 2 + S(td.sin(x[i]), I) ** 2) / 2,
        x[p],
        td.cos(x[p]) * S(td.sin(x[i]), I) - td.sin(x[p]) * S(td.cos(x[i]), I),
    ),
    Form("barrier of a polytope", -td.sum(td.log(b - V.T @ x)), x, V @ (1 / (b - V.T @ x)), low=-0.2, high=0.2),
    Form("rotated fields", turned, B, B - td.cos(A) * Sigma),
    Form(
        "electrons by their density",
        repulsion,
        A[p, q],
        S((2 * E[i, j, p, q] - E[i, q, p, j]) * A[i, j], *ALL[:2]) / 2
        + S((2 * E[p, q, k, l] - E[p, l, k, q]) * A[k, l], *ALL[2:]) / 2,
    ),
    Form("a kernel of distances", y @ td.exp(-distances) @ y, y, 2 * td.exp(-D) @ y),
    Form(
        "positions in a kernel of distances",
        td.sum(td.exp(-distances)) / 4,
        X,
        -td.einsum("ij,ijk->ik", td.exp(-D), X[:, None, :] - X),
    ),
    Form("angles to each other", g @ td.cos(x[:, None] - x) @ g, g, 2 * td.cos(x[:, None] - x) @ g),
    Form("evidence by the noise", evidence, a, a * (td.trace(td.inv(K)) - y @ td.inv(K) @ td.inv(K) @ y)),
    Form(
        "one of several choices",
        td.sum(Y * td.softmax(V, axis=1)),
        V,
        logits * (Y - td.sum(Y * logits, axis=1)[:, None]),
    ),
    Form("one choice", td.sum(g * td.softmax(x)), x, N(td.softmax(x), "s") * (g - g @ N(td.softmax(x), "s"))),
    Form(
        "log-probabilities written out",
        td.log(td.sum(td.exp(A @ x))) * td.sum(x),
        x,
        td.sum(x) * A.T @ td.softmax(A @ x) + td.logsumexp(A @ x),
    ),
    Form(
        "softmax written out",
        td.sum(y * (td.exp(x) / td.sum(td.exp(x)))),
        x,
        N(td.softmax(x), "s") * (y - y @ N(td.softmax(x), "s")),
    ),
    Form("size of a vector", td.sum(x * td.abs(x)) / 2, x, td.abs(x)),
    Form("whitened by itself", td.trace(td.inv(S0) @ S0 @ A @ B), A, B.T),
    Form(
        "degrees with loops",
        td.sum(y * td.log(degrees)),
        A,
        td.outer(y / (td.sum(A, axis=1) + 1), td.ones(n)),
        **POSITIVE,
    ),
]
