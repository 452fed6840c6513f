"""Derivatives of functions on whole tensors that papers use, each with the form that they print.

The forms follow the papers, not what the package answers: they are what it is measured by.
"""

import sympy
from corpus_forms import Form, vectors

import sympy_tensordiff as td

n, m, d, c = td.indices("n m d c")
N, I = td.name, td.DeltaTensor
a, b, eps, lam, nu, sigma, tau, rho = sympy.symbols("a b epsilon lamda nu sigma tau rho", positive=True)
HALF = sympy.Rational(1, 2)


def matrices(names, *shape, **facts):
    """Tensors of one shape."""
    return [td.TensorSymbol(name, shape, **facts) for name in names.split()]


x, y, v, e = vectors("x y v e", n)
w, u, s = vectors("w u s", d)
g, h = vectors("g h", m)
z, o = vectors("z o", c)
X, Z, Q, G = matrices("X Z Q G", n, d)
K, V, E = matrices("K V E", m, d)
M, C, R = matrices("M C R", n, m)
W, U = matrices("W U", d, c)
Y, L = matrices("Y L", n, c)
A, B, F, H = matrices("A B F H", n, n)
O, D = matrices("O D", d, d)
S, S0 = matrices("S S0", n, n, symmetric=True, positive=True)
J, P0 = matrices("J P0", n, n, symmetric=True)
T = matrices("T", m, m, symmetric=True)[0]
POSITIVE = {"low": 0.1, "high": 2.0}


def rows(matrix):
    """The sums of the rows, as a column."""
    return td.sum(matrix, axis=1, keepdims=True)


def soft(matrix):
    """The softmax of the rows."""
    return td.softmax(matrix, axis=1)


# Attention.
score, scaled = Q @ K.T, Q @ K.T / sympy.sqrt(d)
P = N(soft(score), "P")
Pd = N(soft(scaled), "P")
inner_slopes = N(G @ V.T, "dP")
slopes = N(P * (inner_slopes - rows(P * inner_slopes)), "dS")
scaled_slopes = N(Pd * (inner_slopes - rows(Pd * inner_slopes)), "dS")
masked = N(soft(score + M), "P")
weights = N(td.softmax(td.tanh(X @ W) @ z), "a")
query, key = matrices("Wq Wk", d, d)
own = N(soft(X @ query @ (X @ key).T), "P")
own_slopes = N(own * (G @ X.T - rows(own * (G @ X.T))), "dS")
ATTENTION = [
    Form("attention by the keys", td.sum(G * (soft(score) @ V)), K, slopes.T @ Q),
    Form("attention, scaled, by the keys", td.sum(G * (soft(scaled) @ V)), K, scaled_slopes.T @ Q / sympy.sqrt(d)),
    Form(
        "attention by a bias of its scores",
        td.sum(G * (soft(score + M) @ V)),
        M,
        masked * (inner_slopes - rows(masked * inner_slopes)),
    ),
    Form(
        "attention of a sequence to itself by the map of queries",
        td.sum(G * (soft(X @ query @ (X @ key).T) @ X)),
        query,
        X.T @ own_slopes @ X @ key,
    ),
    Form(
        "attention of a sequence to itself by the map of values",
        td.sum(G * (soft(X @ X.T) @ X @ D)),
        D,
        (soft(X @ X.T) @ X).T @ G,
    ),
    Form("linear attention by the values", td.sum(G * (td.exp(Q) @ (td.exp(K).T @ V))), V, td.exp(K) @ td.exp(Q).T @ G),
    Form(
        "linear attention by the queries",
        td.sum(G * (td.exp(Q) @ (td.exp(K).T @ V))),
        Q,
        td.exp(Q) * (G @ V.T @ td.exp(K)),
    ),
    Form(
        "attention pooling by the context",
        w @ X.T @ td.softmax(td.tanh(X @ W) @ z),
        z,
        td.tanh(X @ W).T @ (weights * (X @ w - weights @ X @ w)),
    ),
    Form(
        "retrieval from an associative memory",
        x @ x / 2 - td.logsumexp(a * B @ x) / a,
        x,
        x - B.T @ td.softmax(a * B @ x),
    ),
    Form("bilinear scores", td.sum(G * (Q @ O)), O, Q.T @ G),
]

# Norms and normalisation.
inverse_norms = 1 / td.sqrt(td.sum(X**2, axis=1))
unit = N(X * inverse_norms[:, None], "Z")
root = N(td.sqrt(td.mean(x**2) + eps), "r")
xhat = N((x - td.mean(x)) / td.sqrt(td.var(x) + eps), "xh")
direction = N(x / td.norm(x), "u")
variances = td.sqrt(td.var(X, axis=0) + eps)
NORMS = [
    Form(
        "rows of unit length",
        td.sum(G * X / td.sqrt(td.sum(X**2, axis=1))[:, None]),
        X,
        inverse_norms[:, None] * (G - rows(G * unit) * unit),
        low=0.1,
    ),
    Form(
        "root mean square normalisation",
        td.sum(v * x) / td.sqrt(td.mean(x**2) + eps),
        x,
        v / root - (v @ x) * x / (n * root**3),
    ),
    Form(
        "layer normalisation of whole tensors",
        v @ ((x - td.mean(x)) / td.sqrt(td.var(x) + eps)),
        x,
        (v - td.mean(v) - xhat * td.mean(v * xhat)) / td.sqrt(td.var(x) + eps),
    ),
    Form(
        "weight normalisation, its direction",
        a * (v @ x) / td.norm(x),
        x,
        a * (v - (v @ direction) * direction) / td.norm(x),
    ),
    Form("weight normalisation, its length", td.sum(v * (x * a / td.norm(x))), a, v @ x / td.norm(x)),
    Form("group lasso", td.sum(td.sqrt(td.sum(X**2, axis=1))), X, td.diag(inverse_norms) @ X),
    Form(
        "smoothed group lasso",
        td.sum(td.sqrt(td.sum(X**2, axis=1) + eps)),
        X,
        td.diag(1 / td.sqrt(td.sum(X**2, axis=1) + eps)) @ X,
    ),
    Form("power of a norm", td.norm(x) ** 3, x, 3 * td.norm(x) * x),
    Form("distance from the unit sphere", (td.norm(x) - 1) ** 2, x, 2 * (1 - 1 / td.norm(x)) * x),
    Form("logarithm of a norm", td.log(td.norm(x)), x, x / (x @ x)),
    Form("log determinant as a rank", td.logdet(X.T @ X + eps * I(d)), X, 2 * X @ td.inv(X.T @ X + eps * I(d))),
    Form("norm of a residual of matrices", td.norm(A @ X @ O - Z) ** 2, X, 2 * A.T @ (A @ X @ O - Z) @ O.T),
    Form("distance of orthogonal frames", td.norm(X.T @ X - I(d)) ** 2 / 4, X, X @ (X.T @ X - I(d))),
    Form("soft thresholds", td.sum(td.sqrt(x**2 + eps)), x, x / td.sqrt(x**2 + eps)),
    Form("p-norm to its power", td.sum(td.abs(x) ** a), x, a * td.sign(x) * td.abs(x) ** (a - 1)),
    Form("norm of the gradient of a quadratic", td.norm(J @ x + y), x, J @ (J @ x + y) / td.norm(J @ x + y)),
]

# Contrastive losses, embeddings, preferences.
pairs = Q @ Z.T
by_rows, by_columns = N(soft(pairs / tau), "P"), N(td.softmax(pairs / tau, axis=0), "P1")
cross = N(Q.T @ Z / n - I(d), "C")
centred = N(X - td.mean(X, axis=0), "Xc")
same = matrices("Lb", n, n)[0]
CONTRASTIVE = [
    Form(
        "symmetric contrastive loss",
        (td.sum(td.logsumexp(pairs / tau, axis=1)) + td.sum(td.logsumexp(pairs / tau, axis=0))) / 2
        - td.trace(pairs) / tau,
        Q,
        ((by_rows + by_columns) / 2 - I(n)) @ Z / tau,
    ),
    Form(
        "contrastive loss by its temperature",
        td.sum(td.logsumexp(pairs / tau, axis=1)) - td.trace(pairs) / tau,
        tau,
        td.sum((I(n) - by_rows) * pairs) / tau**2,
    ),
    Form(
        "sigmoid contrastive loss",
        td.sum(td.softplus(-same * (a * pairs + b))),
        Q,
        -a * (same * td.sigmoid(-same * (a * pairs + b))) @ Z,
    ),
    Form(
        "sigmoid contrastive loss by its bias",
        td.sum(td.softplus(-same * (a * pairs + b))),
        b,
        -td.sum(same * td.sigmoid(-same * (a * pairs + b))),
    ),
    Form("redundancy of embeddings", td.sum((Q.T @ Z / n - I(d)) ** 2), Q, 2 * Z @ cross.T / n),
    Form("redundancy of embeddings, weighted", td.sum(O * (Q.T @ Z / n - I(d)) ** 2), Q, 2 * Z @ (O * cross).T / n),
    Form(
        "covariance of embeddings",
        td.norm((X - td.mean(X, axis=0)).T @ (X - td.mean(X, axis=0))) ** 2,
        X,
        4 * centred @ centred.T @ centred,
    ),
    Form("alignment", td.norm(Q - Z) ** 2 / n, Q, 2 * (Q - Z) / n),
    Form("personalised ranking", -td.log(td.sigmoid(w @ (u - s))), w, -td.sigmoid(-(w @ (u - s))) * (u - s)),
    Form("margin ranking", td.sum(td.relu(1 - y * (x - v))), x, -y * td.greater(1 - y * (x - v), 0)),
    Form(
        "triplet loss of whole tensors",
        td.relu(td.norm(w - u) ** 2 - td.norm(w - s) ** 2 + a),
        u,
        -2 * (w - u) * td.greater(td.norm(w - u) ** 2 - td.norm(w - s) ** 2 + a, 0),
        raised=u,
    ),
    Form("comparisons of pairs", td.sum(td.softplus(-(X @ w - Z @ w))), w, -(X - Z).T @ td.sigmoid(-(X @ w - Z @ w))),
    Form("preferences against a reference", td.sum(td.softplus(-b * (x - y))), x, -b * td.sigmoid(-b * (x - y))),
    Form(
        "distillation",
        tau**2 * td.sum(td.logsumexp(Y / tau, axis=1)) - tau * td.sum(L * Y),
        Y,
        tau * (soft(Y / tau) - L),
    ),
    Form(
        "smoothed labels", td.logsumexp(z) - (1 - a) * (o @ z) - a * td.mean(z), z, td.softmax(z) - (1 - a) * o - a / c
    ),
    Form("importance weights", -td.sum(td.exp(x - y) * v) / n, x, -td.exp(x - y) * v / n),
    Form(
        "entropy of a policy",
        -td.sum(td.softmax(z) * (z - td.logsumexp(z))),
        z,
        -td.softmax(z) * (z - td.softmax(z) @ z),
    ),
]

# Mixtures and likelihoods.
responsible = N(soft(Y + z), "r")
rate = N(td.exp(X @ w), "mu")
residual = N(X @ w - y, "r")
MIXTURES = [
    Form(
        "mixture by the logits of its weights",
        n * td.logsumexp(z) - td.sum(td.logsumexp(Y + z, axis=1)),
        z,
        n * td.softmax(z) - td.sum(responsible, axis=0),
    ),
    Form("mixture by the densities of its parts", -td.sum(td.logsumexp(Y + z, axis=1)), Y, -soft(Y + z)),
    Form(
        "mixture of experts by its gates", td.logsumexp(z) - td.logsumexp(z + o), z, td.softmax(z) - td.softmax(z + o)
    ),
    Form(
        "step of a hidden Markov model",
        td.logsumexp(x[:, None] + A + y[None, :]),
        x,
        td.sum(td.softmax(x[:, None] + A + y[None, :], axis=(0, 1)), axis=1),
    ),
    Form("gamma regression", td.sum(y * td.exp(-X @ w) + X @ w), w, X.T @ (1 - y * td.exp(-X @ w))),
    Form(
        "negative binomial regression",
        td.sum((y + a) * td.log(a + td.exp(X @ w)) - y * (X @ w)),
        w,
        X.T @ ((y + a) * rate / (a + rate) - y),
    ),
    Form(
        "multinomial regression",
        td.sum(v * td.logsumexp(X @ W, axis=1)) - td.sum(Y * (X @ W)),
        W,
        X.T @ (v[:, None] * soft(X @ W) - Y),
    ),
    Form(
        "Cauchy loss",
        a**2 / 2 * td.sum(td.log(1 + ((X @ w - y) / a) ** 2)),
        w,
        X.T @ (residual / (1 + (residual / a) ** 2)),
    ),
    Form(
        "Geman-McClure loss",
        td.sum((X @ w - y) ** 2 / (1 + (X @ w - y) ** 2)) / 2,
        w,
        X.T @ (residual / (1 + residual**2) ** 2),
    ),
    Form("Welsch loss", -td.sum(td.exp(-((X @ w - y) ** 2) / 2)), w, X.T @ (residual * td.exp(-(residual**2) / 2))),
    Form("von Mises", -a * td.sum(td.cos(x - y)), y, -a * td.sin(x - y)),
    Form("exponential lifetimes", td.sum(v * td.exp(X @ w) - y * (X @ w)), w, X.T @ (v * td.exp(X @ w) - y)),
    Form(
        "log-normal by its location",
        td.sum((td.log(y) - x) ** 2) / (2 * sigma**2),
        x,
        (x - td.log(y)) / sigma**2,
        **POSITIVE,
    ),
    Form(
        "heteroscedastic regression by the logarithms of the variances",
        td.sum(v + (y - x) ** 2 * td.exp(-v)) / 2,
        v,
        (1 - (y - x) ** 2 * td.exp(-v)) / 2,
    ),
    Form(
        "multivariate t",
        (nu + n) / 2 * td.log(1 + x @ td.inv(S) @ x / nu),
        x,
        (nu + n) * td.inv(S) @ x / (nu + x @ td.inv(S) @ x),
    ),
    Form("Gaussian precision", td.trace(A @ J) - td.logdet(J), J, (A + A.T) / 2 - td.inv(J), raised=J),
    Form(
        "graphical lasso",
        td.trace(S0 @ S) - td.logdet(S) + lam * td.sum(td.abs(S)),
        S,
        S0 - td.inv(S) + lam * td.sign(S),
    ),
    Form(
        "calibration by a temperature",
        td.sum(td.logsumexp(a * Y, axis=1)) - a * td.sum(L * Y),
        a,
        td.sum((soft(a * Y) - L) * Y),
    ),
    Form(
        "order of a ranking",
        td.sum(td.log(td.flip(td.cumsum(td.flip(td.exp(x)))))) - td.sum(x),
        x,
        td.exp(x) * td.cumsum(1 / td.flip(td.cumsum(td.flip(td.exp(x))))) - 1,
    ),
]

# Divergences and variational bounds.
shift = N(x - y, "d")
lower = matrices("Lo", n, n)[0]
Z0 = N((x - b) / sigma, "z")
VARIATIONAL = [
    Form(
        "divergence of a Gaussian code by its deviations",
        td.sum(x**2 + v**2 - 1 - 2 * td.log(v)) / 2,
        v,
        v - 1 / v,
        **POSITIVE,
    ),
    Form(
        "divergence of Gaussians by the covariance",
        (td.trace(td.inv(S0) @ S) + td.logdet(S0) - td.logdet(S)) / 2,
        S,
        (td.inv(S0) - td.inv(S)) / 2,
    ),
    Form("divergence of Gaussians by the mean", (x - y) @ td.inv(S0) @ (x - y) / 2, y, td.inv(S0) @ (y - x)),
    Form(
        "divergence of Gaussians by the prior's covariance",
        (td.trace(td.inv(S0) @ S) + td.logdet(S0) + (x - y) @ td.inv(S0) @ (x - y)) / 2,
        S0,
        (td.inv(S0) - td.inv(S0) @ (S + td.outer(shift, shift)) @ td.inv(S0)) / 2,
    ),
    Form(
        "divergence by the factor of a covariance",
        td.trace(td.inv(S0) @ A @ A.T) / 2 - td.logdet(A),
        A,
        td.inv(S0) @ A - td.inv(A).T,
        raised=A,
    ),
    Form(
        "Bayesian regression by the mean",
        td.sum((X @ w - y) ** 2) / (2 * sigma**2) + w @ w / 2,
        w,
        X.T @ (X @ w - y) / sigma**2 + w,
    ),
    Form(
        "Bayesian regression by the variances",
        (td.sum(X**2 @ u) / sigma**2 + td.sum(u - td.log(u))) / 2,
        u,
        (td.sum(X**2, axis=0) / sigma**2 + 1 - 1 / u) / 2,
        **POSITIVE,
    ),
    Form(
        "reparametrised regression by the deviations",
        td.sum((X @ (w + s * u) - y) ** 2) / 2,
        s,
        u * (X.T @ (X @ (w + s * u) - y)),
    ),
    Form("bound by several samples", td.log(n) - td.logsumexp(x), x, -td.softmax(x)),
    Form(
        "Renyi divergence",
        td.log(td.sum(x**a * y ** (1 - a))) / (a - 1),
        y,
        -(x**a * y**-a) / td.sum(x**a * y ** (1 - a)),
        **POSITIVE,
    ),
    Form("relative entropy by the model", td.sum(x * td.log(x / y)), y, -x / y, **POSITIVE),
    Form("relative entropy", td.sum(x * td.log(x / y) - x + y), x, td.log(x / y), **POSITIVE),
    Form(
        "Jensen-Shannon divergence",
        td.sum(x * td.log(2 * x / (x + y)) + y * td.log(2 * y / (x + y))) / 2,
        x,
        td.log(2 * x / (x + y)) / 2,
        **POSITIVE,
    ),
    Form("Hellinger distance", td.sum((td.sqrt(x) - td.sqrt(y)) ** 2), x, 1 - td.sqrt(y / x), **POSITIVE),
    Form("chi-squared divergence", td.sum((x - y) ** 2 / y), y, 1 - x**2 / y**2, **POSITIVE),
    Form("Itakura-Saito divergence", td.sum(x / y - td.log(x / y) - 1), y, (y - x) / y**2, **POSITIVE),
    Form("adversarial loss of the discriminator", td.sum(td.softplus(-x)) + td.sum(td.softplus(y)), x, -td.sigmoid(-x)),
    Form(
        "denoising scores",
        td.sum((B @ (x + sigma * e) + e / sigma) ** 2) / 2,
        B,
        td.outer(B @ (x + sigma * e) + e / sigma, x + sigma * e),
    ),
    Form(
        "change of variables, planar flow",
        -td.log(td.abs(1 + (x @ y) * (1 - td.tanh(x @ v) ** 2))),
        y,
        -(1 - td.tanh(x @ v) ** 2) * x / (1 + (x @ y) * (1 - td.tanh(x @ v) ** 2)),
    ),
    Form("entropy of probabilities", -td.sum(x * td.log(x)), x, -td.log(x) - 1, **POSITIVE),
]

# Gaussian processes and kernels.
gram = X @ X.T + sigma**2 * I(n)
Kx = N(gram, "K")
al = N(td.inv(Kx) @ y, "alpha")
inducing = matrices("Km", m, m, symmetric=True, positive=True)[0]
centre = I(n) - td.ones((n, n)) / n
noisy = N(S + a * I(n), "Ka")
PROCESSES = [
    Form("Gaussian process by its data", y @ td.inv(S) @ y / 2, y, td.inv(S) @ y),
    Form(
        "Gaussian process by its noise as a variance",
        y @ td.inv(S + a * I(n)) @ y / 2 + td.logdet(S + a * I(n)) / 2,
        a,
        (td.trace(td.inv(noisy)) - y @ td.inv(noisy) @ td.inv(noisy) @ y) / 2,
    ),
    Form(
        "Gaussian process of latent inputs",
        (y @ td.inv(gram) @ y + td.logdet(gram)) / 2,
        X,
        (td.inv(Kx) - td.outer(al, al)) @ X,
    ),
    Form(
        "trace of a sparse process by the cross covariance",
        td.trace(S - C @ td.inv(inducing) @ C.T),
        C,
        -2 * C @ td.inv(inducing),
    ),
    Form(
        "trace of a sparse process by the inducing covariance",
        td.trace(S - C @ td.inv(inducing) @ C.T),
        inducing,
        td.inv(inducing) @ C.T @ C @ td.inv(inducing),
    ),
    Form("predictive variance", a - x @ td.inv(S) @ x, x, -2 * td.inv(S) @ x),
    Form(
        "predictive mean",
        x @ td.inv(S) @ y,
        S,
        -(td.outer(td.inv(S) @ x, td.inv(S) @ y) + td.outer(td.inv(S) @ y, td.inv(S) @ x)) / 2,
    ),
    Form("leave one out", td.sum((td.inv(S) @ y) ** 2) / 2, y, td.inv(S) @ td.inv(S) @ y),
    Form(
        "alignment of kernels",
        td.trace(J @ P0) / td.norm(J),
        J,
        (P0 - td.trace(J @ P0) / td.norm(J) ** 2 * J) / td.norm(J),
    ),
    Form("independence criterion", td.trace(A @ centre @ J @ centre), A, centre @ J @ centre),
    Form(
        "discrepancy of feature means",
        td.norm(td.mean(X, axis=0) - u) ** 2,
        X,
        2 * td.outer(td.ones(n), td.mean(X, axis=0) - u) / n,
    ),
    Form(
        "hyperparameters of ridge regression", y @ td.inv(S + a * I(n)) @ y, a, -y @ td.inv(noisy) @ td.inv(noisy) @ y
    ),
    Form(
        "expected improvement",
        td.sum(
            (x - b) * (1 + td.erf((x - b) / (sigma * sympy.sqrt(2)))) / 2
            + sigma * td.exp(-(((x - b) / sigma) ** 2) / 2) / sympy.sqrt(2 * sympy.pi)
        ),
        x,
        (1 + td.erf(Z0 / sympy.sqrt(2))) / 2,
    ),
    Form("log determinant along a direction", td.logdet(S), S, -td.inv(S) @ J @ td.inv(S), along=J),
]

# Optimal transport.
plan = N(td.exp((x[:, None] + g[None, :] - C) / eps), "P")
TRANSPORT = [
    Form(
        "transport, its dual",
        eps * td.sum(td.exp((x[:, None] + g[None, :] - C) / eps)) - v @ x - h @ g,
        x,
        td.sum(plan, axis=1) - v,
    ),
    Form(
        "transport, its dual by the other potential",
        eps * td.sum(td.exp((x[:, None] + g[None, :] - C) / eps)) - v @ x - h @ g,
        g,
        td.sum(plan, axis=0) - h,
    ),
    Form(
        "transport, its dual by the costs",
        eps * td.sum(td.exp((x[:, None] + g[None, :] - C) / eps)),
        C,
        -td.exp((x[:, None] + g[None, :] - C) / eps),
    ),
    Form(
        "transport, half of the dual",
        eps * (h @ td.logsumexp((x[:, None] - C) / eps, axis=0)) - v @ x,
        x,
        td.softmax((x[:, None] - C) / eps, axis=0) @ h - v,
    ),
    Form(
        "transport with entropy", td.sum(M * C) + eps * td.sum(M * (td.log(M) - 1)), M, C + eps * td.log(M), **POSITIVE
    ),
    Form(
        "transport, marginals as a penalty",
        td.norm(td.sum(M, axis=1) - x) ** 2,
        M,
        2 * td.outer(td.sum(M, axis=1) - x, td.ones(m)),
    ),
    Form("Gromov-Wasserstein", -td.trace(J @ M @ T @ M.T), M, -2 * J @ M @ T),
    Form(
        "unbalanced transport",
        td.sum(td.sum(M, axis=1) * td.log(td.sum(M, axis=1) / x) - td.sum(M, axis=1)),
        M,
        td.outer(td.log(td.sum(M, axis=1) / x), td.ones(m)),
        **POSITIVE,
    ),
    Form("barycentre", td.sum(y * td.log(y / (A @ x))), x, -A.T @ (y / (A @ x)), **POSITIVE),
]

# Graphs.
hidden = N(td.relu(A @ X @ W), "H")
link = N(td.sigmoid(X @ X.T) - J, "E")
neighbours = N(soft(x[:, None] + y + B), "P")
GRAPHS = [
    Form(
        "graph convolution, last weights",
        td.sum((A @ td.relu(A @ X @ W) @ (Wo := matrices("Wo", c, c)[0]) - Y) ** 2) / 2,
        Wo,
        (A @ hidden).T @ (A @ hidden @ Wo - Y),
    ),
    Form(
        "graph convolution, first weights",
        td.sum(L * (A @ td.relu(A @ X @ W))),
        W,
        X.T @ A.T @ (A.T @ L * td.greater(A @ X @ W, 0)),
    ),
    Form("smoothness on a graph", td.trace(X.T @ J @ X), X, 2 * J @ X),
    Form(
        "attention on a graph",
        v @ soft(x[:, None] + y + B) @ e,
        y,
        neighbours.T @ v * e - neighbours.T @ (v * (neighbours @ e)),
    ),
    Form("links of a graph", td.sum(td.softplus(X @ X.T) - J * (X @ X.T)), X, 2 * link @ X),
    Form("random walk with restarts", td.norm(x - a * B @ x - y) ** 2 / 2, x, (I(n) - a * B.T) @ (x - a * B @ x - y)),
    Form("translated entities", td.norm(w + u - s), u, (w + u - s) / td.norm(w + u - s)),
    Form("bilinear relations", td.softplus(-(w @ D @ u)), D, -td.sigmoid(-(w @ D @ u)) * td.outer(w, u)),
    Form("modularity", td.trace(X.T @ J @ X) / (2 * a), X, J @ X / a),
    Form(
        "pooling of a minimal cut",
        -td.trace(X.T @ J @ X) / td.trace(X.T @ S @ X),
        X,
        2 * (N(td.trace(X.T @ J @ X) / td.trace(X.T @ S @ X), "rho") * S @ X - J @ X) / td.trace(X.T @ S @ X),
    ),
    Form(
        "diffusion on a graph",
        x @ td.inv(I(n) + a * J) @ y,
        a,
        -x @ td.inv(I(n) + a * J) @ J @ td.inv(I(n) + a * J) @ y,
        raised=J,
    ),
]

# Networks, factorisations, optimisation.
inner = N(td.tanh(X @ W), "H")
error = N(td.tanh(X @ W) @ z - y, "r")
design = N(td.inv(X.T @ td.diag(v) @ X), "Mi")
softly = N(td.softmax(A @ x), "p")
slack = x @ x
low = N(X - Q @ D, "R")
FACTORS = [
    Form(
        "two layers, hyperbolic tangent",
        td.sum((td.tanh(X @ W) @ z - y) ** 2) / 2,
        W,
        X.T @ (td.outer(error, z) * (1 - inner**2)),
    ),
    Form("residual block", y @ (x + B @ td.tanh(A @ x)), x, y + A.T @ ((1 - td.tanh(A @ x) ** 2) * (B.T @ y))),
    Form(
        "gated linear unit by its gate",
        td.sum(Y * td.sigmoid(X @ W) * (X @ U)),
        W,
        X.T @ (Y * (X @ U) * td.sigmoid(X @ W) * (1 - td.sigmoid(X @ W))),
    ),
    Form("gated linear unit by its values", td.sum(Y * td.sigmoid(X @ W) * (X @ U)), U, X.T @ (Y * td.sigmoid(X @ W))),
    Form(
        "adapters of low rank",
        td.sum((X @ (O + D @ matrices("Lr", d, d)[0]) - Z) ** 2) / 2,
        D,
        X.T @ (X @ (O + D @ matrices("Lr", d, d)[0]) - Z) @ matrices("Lr", d, d)[0].T,
    ),
    Form(
        "linear autoencoder",
        td.norm(X @ W @ (Wd := matrices("Wd", c, d)[0]) - X) ** 2,
        W,
        2 * X.T @ (X @ W @ Wd - X) @ Wd.T,
    ),
    Form("factorisation with weights", td.sum(M * (R - Q @ V.T) ** 2), Q, -2 * (M * (R - Q @ V.T)) @ V),
    Form(
        "factorisation with penalties",
        td.norm(R - Q @ V.T) ** 2 + lam * td.norm(Q) ** 2,
        Q,
        2 * (lam * Q - (R - Q @ V.T) @ V),
    ),
    Form(
        "nonnegative factors, divergence of whole tensors",
        td.sum(Q @ V.T - M * td.log(Q @ V.T)),
        Q,
        (1 - M / (Q @ V.T)) @ V,
        **POSITIVE,
    ),
    Form(
        "independent components",
        td.sum(td.log(td.cosh(A @ X))) - td.logdet(A),
        A,
        td.tanh(A @ X) @ X.T - td.inv(A).T,
        raised=A,
    ),
    Form("Procrustes", td.norm(X @ D - Z) ** 2, D, 2 * X.T @ (X @ D - Z)),
    Form(
        "Sylvester residual",
        td.norm(A @ X + X @ O - Z) ** 2 / 2,
        X,
        A.T @ N(A @ X + X @ O - Z, "R") + N(A @ X + X @ O - Z, "R") @ O.T,
    ),
    Form("optimal design", -td.logdet(X.T @ td.diag(v) @ X), v, -td.sum(X @ design * X, axis=1), low=0.5),
    Form("metric learning", (w - u) @ D.T @ D @ (w - u), D, 2 * td.outer(D @ (w - u), w - u)),
    Form("dictionary", td.norm(X - Q @ D) ** 2 / 2 + lam * td.sum(td.abs(D)), D, lam * td.sign(D) - Q.T @ low),
    Form("deconvolution of counts", td.sum(A @ x - y * td.log(A @ x)), x, A.T @ (1 - y / (A @ x)), **POSITIVE),
    Form(
        "augmented Lagrangian",
        x @ J @ x / 2 + v @ (A @ x - y) + rho / 2 * td.norm(A @ x - y) ** 2,
        x,
        J @ x + A.T @ (v + rho * (A @ x - y)),
    ),
    Form("barrier of a cone", -td.log(a**2 - x @ x), x, 2 * x / (a**2 - x @ x), low=-0.2, high=0.2),
    Form("dual of maximal entropy", td.logsumexp(A @ x) - y @ x, x, A.T @ td.softmax(A @ x) - y),
    Form("risk parity", x @ S @ x / 2 - b * td.sum(td.log(x)), x, S @ x - b / x, **POSITIVE),
    Form("growth of a portfolio", -td.sum(td.log(A @ x)), x, -A.T @ (1 / (A @ x)), **POSITIVE),
    Form("soft maximum along a direction", td.logsumexp(A @ x), x, A.T @ (softly * (A @ y - softly @ A @ y)), along=y),
    Form("norm along a direction", td.norm(x), x, (y - (x @ y) / (x @ x) * x) / td.norm(x), along=y),
    Form(
        "tensor of third order by a factor",
        td.sum(
            (
                td.einsum("ir,jr,kr->ijk", X, V, (Cr := matrices("Cr", c, d)[0]))
                - (Tn := td.TensorSymbol("Tn", (n, m, c)))
            )
            ** 2
        ),
        X,
        2 * td.einsum("ijk,jr,kr->ir", td.einsum("ir,jr,kr->ijk", X, V, Cr) - Tn, V, Cr),
    ),
    Form("canonical correlation", w @ D @ u - lam * (w @ D @ D.T @ w - 1) / 2, w, D @ u - lam * D @ D.T @ w),
]

FORMS = ATTENTION + NORMS + CONTRASTIVE + MIXTURES + VARIATIONAL + PROCESSES + TRANSPORT + GRAPHS + FACTORS
