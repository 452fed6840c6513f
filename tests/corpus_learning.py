"""Derivatives of statistics and machine learning, each with the form that textbooks and papers print.

The forms follow the sources, not what the package answers: they are what it is measured by.
"""

import sympy
from corpus_forms import Form, at, vectors
from sympy import Abs, Eq, Gt, Le, Lt, Max, Piecewise, cosh, exp, log, sign, sqrt, tanh

import sympy_tensordiff as td

i, j, k, l, n, m, d, c, p, q, t, s = td.indices("i j k l n m d c p q t s")
S, T, N = td.IndexedSum, td.TensorComprehension, td.name
a, b, lam, mu, nu, sigma, tau, eps = sympy.symbols("a b lamda mu nu sigma tau epsilon", positive=True)
I, J, K, L = (i, 0, n - 1), (j, 0, m - 1), (k, 0, d - 1), (l, 0, c - 1)

x, y, v, r, h = vectors("x y v r h", n)
w, o, u = vectors("w o u", d)
X, W, Y, P = (td.TensorSymbol(*pair) for pair in (("X", (n, d)), ("W", (d, c)), ("Y", (n, c)), ("P", (n, n))))
U, V, R, M = (td.TensorSymbol(*pair) for pair in (("U", (n, d)), ("V", (m, d)), ("R", (n, m)), ("M", (n, m))))
labels = td.TensorSymbol("labels", n, dtype=int, below=c)
G = td.TensorSymbol("G", (n, d))
gram = td.TensorSymbol("K", (n, n), symmetric=True)
score = S(X[i, k] * w[k], K)


def only(value, condition):
    return Piecewise((value, condition), (0, True))


# Linear models.
residual = score - y[i]
LINEAR = [
    Form("least squares", td.sum((X @ w - y) ** 2), w, 2 * X.T @ (X @ w - y)),
    Form("least squares by indices", S(residual**2, I), w[p], 2 * S(residual * X[i, p], I)),
    Form("least squares, the data first", S((y[i] - score) ** 2, I), w[p], 2 * S(residual * X[i, p], I)),
    Form(
        "ridge regression",
        td.sum((X @ w - y) ** 2) + lam * w @ w,
        w,
        2 * X.T @ (X @ w - y) + 2 * lam * w,
    ),
    Form("weighted least squares", td.sum(v * (X @ w - y) ** 2), w, 2 * X.T @ (v * (X @ w - y))),
    Form(
        "elastic net",
        td.sum((X @ w - y) ** 2) / 2 + a * td.sum(td.abs(w)) + b * td.sum(w**2) / 2,
        w,
        X.T @ (X @ w - y) + a * td.sign(w) + b * w,
    ),
    Form(
        "logistic regression, labels of both signs",
        S(log(1 + exp(-y[i] * score)), I),
        w[p],
        -S(y[i] * td.sigmoid(-y[i] * score) * X[i, p], I),
    ),
    Form(
        "logistic regression, whole tensors",
        td.sum(td.softplus(X @ w) - y * (X @ w)),
        w,
        X.T @ (td.sigmoid(X @ w) - y),
    ),
    Form(
        "logistic regression, cross entropy",
        -S(y[i] * log(td.sigmoid(score)) + (1 - y[i]) * log(1 - td.sigmoid(score)), I),
        w[p],
        S((td.sigmoid(score) - y[i]) * X[i, p], I),
    ),
    Form(
        "logistic regression, Hessian times vector",
        td.sum(td.softplus(X @ w) - y * (X @ w)),
        w,
        X.T @ (N(td.sigmoid(X @ w), "pi") * (1 - N(td.sigmoid(X @ w), "pi")) * (X @ u)),
        along=u,
    ),
    Form(
        "softmax regression",
        td.sum(td.logsumexp(X @ W, axis=1)) - td.sum(Y * (X @ W)),
        W,
        X.T @ (td.softmax(X @ W, axis=1) - Y),
    ),
    Form("Poisson regression", td.sum(td.exp(X @ w) - y * (X @ w)), w, X.T @ (td.exp(X @ w) - y)),
    Form(
        "hinge loss",
        lam * S(w[k] ** 2, K) / 2 + S(Max(0, 1 - y[i] * score), I),
        w[p],
        lam * w[p] - S(only(y[i] * X[i, p], Lt(y[i] * score, 1)), I),
    ),
    Form(
        "squared hinge loss",
        td.sum(td.relu(1 - y * (X @ w)) ** 2),
        w,
        -2 * X.T @ (y * td.relu(1 - y * (X @ w))),
    ),
    Form(
        "Huber loss",
        S(Piecewise(((x[i] - y[i]) ** 2 / 2, Le(Abs(x[i] - y[i]), a)), (a * (Abs(x[i] - y[i]) - a / 2), True)), I),
        x[p],
        Piecewise((x[p] - y[p], Le(Abs(x[p] - y[p]), a)), (a * sign(x[p] - y[p]), True)),
    ),
    Form(
        "pseudo-Huber loss",
        S(a**2 * (sqrt(1 + ((x[i] - y[i]) / a) ** 2) - 1), I),
        x[p],
        (x[p] - y[p]) / sqrt(1 + ((x[p] - y[p]) / a) ** 2),
    ),
    Form("log-cosh loss", S(log(cosh(x[i] - y[i])), I), x[p], tanh(x[p] - y[p])),
    Form(
        "quantile loss",
        S(Piecewise((a * (y[i] - x[i]), Gt(y[i], x[i])), ((a - 1) * (y[i] - x[i]), True)), I),
        x[p],
        Piecewise((-a, Gt(y[p], x[p])), (1 - a, True)),
    ),
    Form(
        "kernel ridge regression",
        td.sum((y - gram @ v) ** 2) + lam * v @ gram @ v,
        v,
        2 * gram @ (gram @ v - y + lam * v),
    ),
]

# Likelihoods.
time = N(T(score, (i, n)), "theta")
resp = b * exp(-((x[i] - v[p]) ** 2) / 2)
mixed = S(r[j] * exp(-((x[i] - v[j]) ** 2) / 2), (j, 0, n - 1))
covariance = td.TensorSymbol("S", (n, n), symmetric=True, positive=True)
gauss = td.inv(covariance)
z = N(x - y, "z")
LIKELIHOODS = [
    Form(
        "Cox's partial likelihood",
        -S(v[i] * (score - log(S(exp(S(X[j, k] * w[k], K)), (j, i, n - 1)))), I),
        w[p],
        -S(v[i] * (X[i, p] - S(exp(time[j]) * X[j, p], (j, i, n - 1)) / S(exp(time[j]), (j, i, n - 1))), I),
    ),
    Form(
        "Student's t by its location",
        (nu + 1) / 2 * S(log(1 + (x[i] - mu) ** 2 / nu), I),
        mu,
        (nu + 1) * S((mu - x[i]) / (nu + (x[i] - mu) ** 2), I),
    ),
    Form(
        "normal distribution by its deviation",
        n * log(sigma) + S((x[i] - mu) ** 2, I) / (2 * sigma**2),
        sigma,
        n / sigma - S((x[i] - mu) ** 2, I) / sigma**3,
    ),
    Form(
        "mixture of Gaussians by its means",
        -S(log(mixed), I),
        v[p],
        S(r[p] * exp(-((x[i] - v[p]) ** 2) / 2) * (v[p] - x[i]) / mixed, I),
    ),
    Form("Mahalanobis distance", (x - y) @ gauss @ (x - y), x, 2 * gauss @ (x - y)),
    Form(
        "normal distribution by its covariance",
        td.logdet(covariance) / 2 + (x - y) @ gauss @ (x - y) / 2,
        covariance,
        (gauss - td.outer(gauss @ z, gauss @ z)) / 2,
    ),
    Form(
        "Rayleigh quotient", x @ gram @ x / (x @ x), x, 2 * (gram @ x - N(x @ gram @ x / (x @ x), "rho") * x) / (x @ x)
    ),
    Form("divergence of a Gaussian code", -S(1 + v[i] - x[i] ** 2 - exp(v[i]), I) / 2, v[p], (exp(v[p]) - 1) / 2),
    Form(
        "variance by indices",
        S((x[i] - S(x[j], (j, 0, n - 1)) / n) ** 2, I) / n,
        x[p],
        2 * (x[p] - S(x[j], (j, 0, n - 1)) / n) / n,
    ),
    Form("variance", td.var(x), x, 2 * (x - td.mean(x)) / n),
    Form("squared deviations from the mean", td.sum((x - td.mean(x)) ** 2), x, 2 * (x - td.mean(x))),
    Form(
        "focal loss",
        -S((1 - x[i]) ** a * log(x[i]), I),
        x[p],
        a * (1 - x[p]) ** (a - 1) * log(x[p]) - (1 - x[p]) ** a / x[p],
        low=0.1,
        high=0.9,
    ),
]
centred, other = N(x - td.mean(x), "X"), N(y - td.mean(y), "Y")
LIKELIHOODS += [
    Form(
        "correlation",
        (x - td.mean(x)) @ (y - td.mean(y)) / (td.norm(x - td.mean(x)) * td.norm(y - td.mean(y))),
        x,
        other / (td.norm(centred) * td.norm(other))
        - N(centred @ other / (td.norm(centred) * td.norm(other)), "rho") * centred / td.norm(centred) ** 2,
    ),
]

# Softmax, attention, embeddings.
logits = td.TensorSymbol("Z", (n, c))
share = lambda row, column: exp(logits[row, column]) / S(exp(logits[row, l]), L)  # noqa: E731
soft = N(T(exp(x[i]) / S(exp(x[j]), (j, 0, n - 1)), (i, n)), "P")
entropy = N(-S(soft[i] * log(soft[i]), I), "H")
keys, values = vectors("keys values", (m, d))
attention = N(td.softmax(U @ keys.T, axis=1), "P")
slope = N(G @ values.T, "dP")
similar = N(td.softmax(U @ V.T / tau, axis=1), "P")
square = td.TensorSymbol("B", (n, d))
pairs = N(td.softmax(U @ square.T / tau, axis=1), "P")
weight = td.TensorSymbol("F", (n, m))
counts = td.TensorSymbol("C", (n, m))
biases, offsets = td.TensorSymbol("b_", n), td.TensorSymbol("c_", m)
glove = S(U[i, k] * V[j, k], K) + biases[i] + offsets[j] - log(counts[i, j])
negative = td.TensorSymbol("E", (m, d))
SOFTMAX = [
    Form(
        "cross entropy by the logits",
        S(log(S(exp(logits[i, l]), L)) - logits[i, labels[i]], I),
        logits[p, q],
        share(p, q) - only(1, Eq(labels[p], q)),
    ),
    Form("logsumexp", td.logsumexp(x), x, td.softmax(x)),
    Form("soft maximum", tau * log(S(exp(x[i] / tau), I)), x[p], exp(x[p] / tau) / S(exp(x[i] / tau), I)),
    Form(
        "softmax, its Jacobian",
        T(exp(x[i]) / S(exp(x[j]), (j, 0, n - 1)), (i, n)),
        x,
        T(soft[p] * (only(1, Eq(p, q)) - soft[q]), (p, n), (q, n)),
    ),
    Form(
        "entropy of a softmax",
        -S(soft.definition[i] * log(soft.definition[i]), I),
        x[p],
        -soft[p] * (log(soft[p]) + entropy),
    ),
    Form("attention by the values", td.sum(G * (td.softmax(U @ keys.T, axis=1) @ values)), values, attention.T @ G),
    Form(
        "attention by the queries",
        td.sum(G * (td.softmax(U @ keys.T, axis=1) @ values)),
        U,
        (attention * (slope - td.sum(attention * slope, axis=1, keepdims=True))) @ keys,
    ),
    Form(
        "contrastive loss",
        td.sum(td.logsumexp(U @ square.T / tau, axis=1)) - td.trace(U @ square.T) / tau,
        U,
        (pairs @ square - square) / tau,
    ),
    Form(
        "word2vec with negative samples",
        -log(td.sigmoid(S(o[k] * w[k], K))) - S(log(td.sigmoid(-S(negative[j, k] * w[k], K))), J),
        w[p],
        (td.sigmoid(S(o[k] * w[k], K)) - 1) * o[p] + S(td.sigmoid(S(negative[j, k] * w[k], K)) * negative[j, p], J),
    ),
    Form(
        "word2vec, whole tensors",
        td.softplus(-(o @ w)) + td.sum(td.softplus(negative @ w)),
        w,
        (td.sigmoid(o @ w) - 1) * o + negative.T @ td.sigmoid(negative @ w),
    ),
    Form(
        "GloVe",
        S(weight[i, j] * glove**2, J, I),
        U[p, q],
        2 * S(weight[p, j] * at(glove, {i: p}) * V[j, q], J),
        low=0.1,
    ),
    Form(
        "triplet loss",
        Max(0, S((w[k] - o[k]) ** 2, K) - S((w[k] - u[k]) ** 2, K) + a),
        w[p],
        only(2 * (u[p] - o[p]), Gt(S((w[k] - o[k]) ** 2, K) - S((w[k] - u[k]) ** 2, K) + a, 0)),
        raised=o,
    ),
    Form(
        "cosine similarity",
        x @ y / (td.norm(x) * td.norm(y)),
        x,
        y / (td.norm(x) * td.norm(y)) - N(x @ y / (td.norm(x) * td.norm(y)), "rho") * x / td.norm(x) ** 2,
    ),
]

# Networks.
mean = N(S(x[j], (j, 0, n - 1)) / n, "mu")
spread = N(sqrt(S((x[j] - mean) ** 2, (j, 0, n - 1)) / n + eps), "sigma")
hat = N(T((x[i] - mean) / spread, (i, n)), "xh")
layer_mean = S(x[j], (j, 0, n - 1)) / n
layer_spread = sqrt(S((x[j] - layer_mean) ** 2, (j, 0, n - 1)) / n + eps)
column = lambda of: S(of(j), (j, 0, n - 1)) / n  # noqa: E731
means = N(T(S(X[j, k], (j, 0, n - 1)) / n, (k, d)), "mu")
spreads = N(T(sqrt(S((X[j, k] - means[k]) ** 2, (j, 0, n - 1)) / n + eps), (k, d)), "sigma")
hats = N(T((X[i, k] - means[k]) / spreads[k], (i, n), (k, d)), "Xh")
batch_mean = S(X[j, k], (j, 0, n - 1)) / n
batch_spread = sqrt(S((X[j, k] - batch_mean) ** 2, (j, 0, n - 1)) / n + eps)
cell = N(td.sigmoid(x) * v + td.sigmoid(y) * td.tanh(r), "c1")
gate = N(td.sigmoid(x), "f")
inner, outer_ = td.TensorSymbol("H", (m, d)), td.TensorSymbol("O", (n, m))
hidden = td.TensorSymbol("b1", m)
NETWORKS = [
    Form(
        "layer normalisation",
        S(v[i] * (x[i] - layer_mean) / layer_spread, I),
        x[p],
        (v[p] - S(v[i], I) / n - hat[p] * S(v[i] * hat[i], I) / n) / spread,
        low=0.1,
    ),
    Form(
        "batch normalisation",
        S(G[i, k] * (X[i, k] - batch_mean) / batch_spread, K, I),
        X[p, q],
        (G[p, q] - S(G[i, q], I) / n - hats[p, q] * S(G[i, q] * hats[i, q], I) / n) / spreads[q],
        low=0.1,
    ),
    Form(
        "LSTM cell by the forget gate",
        td.sum(
            h * td.sigmoid(u_ := td.TensorSymbol("out", n)) * td.tanh(td.sigmoid(x) * v + td.sigmoid(y) * td.tanh(r))
        ),
        x,
        h * td.sigmoid(u_) * (1 - td.tanh(cell) ** 2) * v * gate * (1 - gate),
    ),
    Form(
        "recurrent cell",
        td.sum(hidden * td.tanh(inner @ w)),
        inner,
        td.outer(hidden * (1 - td.tanh(inner @ w) ** 2), w),
    ),
    Form(
        "two layers, the first weights",
        td.sum((outer_ @ td.relu(inner @ w) - y) ** 2),
        inner,
        td.outer(2 * outer_.T @ (outer_ @ td.relu(inner @ w) - y) * td.greater(inner @ w, 0), w),
    ),
    Form(
        "two layers, the last weights",
        td.sum((outer_ @ td.relu(inner @ w) - y) ** 2),
        outer_,
        td.outer(2 * (outer_ @ td.relu(inner @ w) - y), td.relu(inner @ w)),
    ),
    Form(
        "restricted Boltzmann machine",
        -S(x[i] * v[i], I) - S(log(1 + exp(hidden[j] + S(x[i] * R[i, j], I))), J),
        R[p, q],
        -x[p] * td.sigmoid(hidden[q] + S(x[i] * R[i, q], I)),
    ),
    Form(
        "Gauss-Newton product",
        td.tanh(X @ w) - y,
        w,
        X.T @ ((1 - td.tanh(X @ w) ** 2) ** 2 * (X @ u)),
        kind="gauss-newton",
        along=u,
    ),
]

# Factors, embeddings of distances, transport.
factors = td.TensorSymbol("A3", (n, d)), td.TensorSymbol("B3", (m, d)), td.TensorSymbol("C3", (c, d))
cube = td.TensorSymbol("T3", (n, m, c))
cp = S(factors[0][i, k] * factors[1][j, k] * factors[2][l, k], K) - cube[i, j, l]
core = td.TensorSymbol("core", (d, d))
tucker = S(core[k, s] * factors[0][i, k] * factors[1][j, s], (s, 0, d - 1), K) - R[i, j]
users = td.TensorSymbol("users", c, dtype=int, below=n)
items = td.TensorSymbol("items", c, dtype=int, below=m)
stars = td.TensorSymbol("stars", c)
rated = mu + S(U[users[t], k] * V[items[t], k], K) - stars[t]
product = S(U[i, k] * V[j, k], K)
near = N(T(1 / (1 + (x[i] - x[j]) ** 2), (i, n), (j, n)), "w_")
unequal = lambda body, one=i, two=j: only(body, sympy.Ne(one, two))  # noqa: E731
joint = td.TensorSymbol("P", (n, n), symmetric=True)
SQUARE = (j, 0, n - 1)
total = N(S(unequal(near[k, l], k, l), (l, 0, n - 1), (k, 0, n - 1)), "Z")
kernel = lambda one, two: exp(-((one - two) ** 2) / (2 * sigma**2))  # noqa: E731
low_rank = N(X - X @ core @ core.T, "R")
plan = lambda row: exp((x[row] + hidden[j] - R[row, j]) / eps)  # noqa: E731
centres = td.TensorSymbol("cen", (m, d))
FACTORS = [
    Form(
        "matrix factorisation",
        S(M[i, j] * (R[i, j] - product) ** 2, J, I),
        U[p, q],
        2 * S(M[p, j] * (at(product, {i: p}) - R[p, j]) * V[j, q], J),
    ),
    Form(
        "matrix factorisation of ratings",
        S(rated**2, (t, 0, c - 1)),
        U[p, q],
        2 * S(only(V[items[t], q] * (mu + S(U[p, k] * V[items[t], k], K) - stars[t]), Eq(users[t], p)), (t, 0, c - 1)),
    ),
    Form("nonnegative factors", td.sum((X - U @ core) ** 2), core, 2 * U.T @ (U @ core - X)),
    Form(
        "nonnegative factors, divergence",
        S(product - R[i, j] * log(product), J, I),
        U[p, q],
        S(V[j, q] * (1 - R[p, j] / at(product, {i: p})), J),
        low=0.1,
    ),
    Form(
        "CP decomposition",
        S(cp**2, L, J, I),
        factors[0][p, q],
        2 * S(at(cp, {i: p}) * factors[1][j, q] * factors[2][l, q], L, J),
    ),
    Form("Tucker core", S(tucker**2, J, I), core[p, q], 2 * S(tucker * factors[0][i, p] * factors[1][j, q], J, I)),
    Form(
        "principal components",
        td.sum((X - X @ core @ core.T) ** 2),
        core,
        -2 * (X.T @ low_rank + low_rank.T @ X) @ core,
    ),
    Form(
        "t-SNE",
        S(unequal(joint[i, j] * log(1 + (x[i] - x[j]) ** 2)), SQUARE, I)
        + log(S(unequal(1 / (1 + (x[i] - x[j]) ** 2)), SQUARE, I)),
        x[p],
        4 * S(unequal((joint[p, j] - near[p, j] / total) * near[p, j] * (x[p] - x[j]), p, j), SQUARE),
    ),
    Form(
        "Laplacian eigenmaps",
        S(joint[i, j] * S((U[i, k] - U[j, k]) ** 2, K), SQUARE, I),
        U[p, q],
        4 * S(joint[p, j] * (U[p, q] - U[j, q]), SQUARE),
    ),
    Form(
        "multidimensional scaling",
        S(unequal((sqrt(S((U[i, k] - U[j, k]) ** 2, K)) - joint[i, j]) ** 2), SQUARE, I),
        U[p, q],
        4 * S(unequal((1 - joint[p, j] / sqrt(S((U[p, k] - U[j, k]) ** 2, K))) * (U[p, q] - U[j, q]), p, j), SQUARE),
    ),
    Form(
        "k-means",
        S(R[i, j] * S((X[i, k] - centres[j, k]) ** 2, K), J, I),
        centres[p, q],
        2 * S(R[i, p] * (centres[p, q] - X[i, q]), I),
    ),
    Form(
        "Sinkhorn's dual",
        S(v[i] * x[i], I) + S(hidden[j] * td.TensorSymbol("bb", m)[j], J) - eps * S(plan(i), J, I),
        x[p],
        v[p] - S(plan(p), J),
    ),
    Form(
        "kernel mean embedding",
        S(kernel(x[i], x[j]), SQUARE, I) / n**2 - 2 * S(kernel(x[i], hidden[j]), J, I) / (n * m),
        x[p],
        2 * S(kernel(x[p], hidden[j]) * (x[p] - hidden[j]), J) / (n * m * sigma**2)
        - 2 * S(kernel(x[p], x[j]) * (x[p] - x[j]), SQUARE) / (n**2 * sigma**2),
    ),
    Form(
        "differences as a whole tensor",
        td.sum((T(x[i] - hidden[j], (i, n), (j, m)) - R) ** 2),
        x,
        T(2 * S(x[p] - hidden[j] - R[p, j], J), (p, n)),
    ),
    Form("a column minus a matrix", td.sum((T(x[i] - R[i, j], (i, n), (j, m))) ** 2), x[p], 2 * S(x[p] - R[p, j], J)),
    Form(
        "pairs of a chain, marginal",
        log(S(exp(x[i] + R[i, j] + hidden[j]), J, I)),
        x[p],
        S(exp(x[p] + R[p, j] + hidden[j]), J) / S(exp(x[i] + R[i, j] + hidden[j]), J, I),
    ),
    Form(
        "conditional random field, transitions",
        S(core_ := td.TensorSymbol("trans", (c, c))[labels[i], labels[i + 1]], (i, 0, n - 2)),
        td.TensorSymbol("trans", (c, c))[p, q],
        S(only(1, sympy.And(Eq(labels[i], p), Eq(labels[i + 1], q))), (i, 0, n - 2)),
    ),
]

FORMS = LINEAR + LIKELIHOODS + SOFTMAX + NETWORKS + FACTORS
