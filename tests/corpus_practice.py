"""Derivatives that papers print of attention, contrast, bounds, processes, transport, graphs, elements, molecules and
robots; the forms were written before any was derived."""

import sympy
from corpus_forms import Form, vectors

import sympy_tensordiff as td

n, m, d = td.indices("n m d")
i, j, k, p, q = td.indices("i j k p q")
tau, length, a, kappa, lam, mu = sympy.symbols("tau length a kappa lamda mu", positive=True)
eps, nu, gap = sympy.symbols("epsilon nu h", positive=True)
S, N, HALF = td.IndexedSum, td.name, sympy.Rational(1, 2)
exp, sqrt, log = sympy.exp, sympy.sqrt, sympy.log


def matrices(names, *shape, **facts):
    """Tensors of one shape."""
    return [td.TensorSymbol(name, shape, **facts) for name in names.split()]


def cases(*pairs):
    """A sum of values under conditions."""
    return sympy.Add(*(sympy.Piecewise((value, condition), (0, True)) for value, condition in pairs))


x, y, b, r, g, alpha, kay = vectors("x y b r g alpha k", n)
w, s, z, v = vectors("w s z v", d)
u, theta = vectors("u theta", m)
A, B, M = matrices("A B M", n, n)
H = matrices("H", n, n, symmetric=True)[0]
Q, X, Z, G, Y, W1, W2 = matrices("Q X Z G Y W1 W2", n, d)
K, V, U = matrices("K V U", m, d)
C, T = matrices("C T", n, m)
D = matrices("D", m, m, symmetric=True)[0]
Sigma = matrices("Sigma", d, d, symmetric=True, positive=True)[0]
F = matrices("F", d, d)[0]
Qs, Rs = matrices("Qs Rs", d, d, symmetric=True)
controls = matrices("controls", n, d)[0]
I, J, L, UNIT, UNITS = (i, 0, n - 1), (j, 0, n - 1), (j, 0, m - 1), td.DeltaTensor(n), td.DeltaTensor(d)
POSITIVE = {"low": 0.2, "high": 2.0}

# Attention and layers
P = N(td.softmax(C / tau, axis=1), "P")
own = N(td.softmax(Q @ X.T / sqrt(d), axis=1), "P")
keys = td.exp(Q) @ td.sum(td.exp(K), axis=0)
gate = N(td.sigmoid(W1 @ w), "s")
size, places = td.mean(x**2) + eps, td.sigmoid(A @ x)

# Contrast and bounds
margin = td.sum((X - Y) ** 2, axis=1) - td.sum((X - Z) ** 2, axis=1) + a
gram, scores = X @ X.T, td.logsumexp(X @ F, axis=1)
cover, latent = F @ F.T + a**2 * UNITS, w + td.exp(s / 2) * z
inner = N(td.inv(cover), "J")
logits = kappa * X @ U.T + td.log(u)


def part(one):
    """A density of a mixture in one dimension, times its weight."""
    return u[one] * exp(-((x[i] - theta[one]) ** 2) / (2 * a**2))


likelihood = S(log(S(part(j), L)), I)
precision = X.T @ td.einsum("i,ij->ij", x, X) + Sigma

# Processes
slope = exp(-S((w[k] - X[i, k]) ** 2, (k, 0, d - 1)) / (2 * length**2))
relevance = exp(-S((X[i, k] - X[j, k]) ** 2 / w[k] ** 2, (k, 0, d - 1)) / 2)
waves = sympy.sin((x[i] - x[j]) / 2) ** 2
kernel, noisy = a * H + UNIT, H + a * UNIT
gain = N(td.inv(kernel), "J")
innovation = N(td.inv(X @ Sigma @ X.T + H), "J")
away = sqrt(3) / length


# Transport and graphs
plan = N(td.softmax(-C / tau, axis=1), "P")
flow = td.relu(x[:, None] + u - C)
residual = N(x - a * A.T @ x - b, "r")
degrees = td.sum(H, axis=1)

# Elements
strain = N((F.T @ F - UNITS) / 2, "E")
written = (F.T @ F - UNITS) / 2


def square(one, other):
    """A squared distance."""
    return S((X[one, k] - X[other, k]) ** 2, (k, 0, d - 1))


def distance(one, other):
    """A distance."""
    return sqrt(square(one, other))


def others(value):
    """A sum over all particles but one."""
    return S(sympy.Piecewise((value * (X[p, q] - X[j, q]), sympy.Ne(j, p)), (0, True)), J)


rho, PAIRS = distance(p, j), ((j, 0, i - 1), I)
turn = N(td.sum(G * (X @ F - Z), axis=1), "r")

FORMS = [
    Form(
        "linear attention, normalised",
        td.sum(G * td.einsum("i,ij->ij", 1 / keys, td.exp(Q) @ td.exp(K).T @ V)),
        V,
        td.exp(K) @ td.exp(Q).T @ td.einsum("i,ij->ij", 1 / keys, G),
    ),
    Form(
        "attention by its temperature",
        td.sum(G * (td.softmax(C / tau, axis=1) @ V)),
        tau,
        -td.sum(P * (G @ V.T) * (C - td.sum(P * C, axis=1)[:, None])) / tau**2,
    ),
    Form(
        "attention with a sink",
        td.sum(G * (td.exp(C) @ V) / (1 + td.sum(td.exp(C), axis=1))[:, None]),
        V,
        td.exp(C).T @ td.einsum("i,ij->ij", 1 / (1 + td.sum(td.exp(C), axis=1)), G),
    ),
    Form(
        "attention, the map of outputs",
        td.sum((td.softmax(Q @ X.T / sqrt(d), axis=1) @ X @ F - G) ** 2) / 2,
        F,
        X.T @ own.T @ (own @ X @ F - G),
    ),
    Form("swish units", td.sum(g * (W1 @ w) * td.sigmoid(W1 @ w) * (W2 @ w)), W2, td.outer(g * (W1 @ w) * gate, w)),
    Form(
        "swish units by their gate",
        td.sum(g * td.sigmoid(W1 @ w) * (W1 @ w)),
        w,
        W1.T @ (g * gate * (1 + (W1 @ w) * (1 - gate))),
    ),
    Form(
        "root mean square norm times gain",
        td.sum(g * b * x / td.sqrt(size)),
        x,
        b * g / td.sqrt(size) - x * (x @ (b * g)) / (n * size ** (3 * HALF)),
    ),
    Form(
        "gate of a highway",
        td.sum(g * (places * td.tanh(B @ x) + (1 - places) * x)),
        A,
        td.outer(g * (td.tanh(B @ x) - x) * places * (1 - places), x),
    ),
    Form("state space step", td.sum((A @ x + b * y - r) ** 2) / 2, A, td.outer(A @ x + b * y - r, x)),
    Form("logits with a cap", td.sum(g * a * td.tanh(x / a)), x, g * (1 - td.tanh(x / a) ** 2)),
    Form(
        "size of the logits",
        td.mean(scores**2),
        F,
        2 * X.T @ td.einsum("i,ij->ij", scores, td.softmax(X @ F, axis=1)) / n,
    ),
    Form("cross entropy of rows", td.sum(scores) - td.sum(Y * (X @ F)), F, X.T @ (td.softmax(X @ F, axis=1) - Y)),
    Form(
        "spectral contrast",
        -2 * td.trace(Z @ Y.T) / n + td.sum((Z @ Y.T) ** 2) / n**2,
        Z,
        2 * (Z @ Y.T @ Y / n - Y) / n,
    ),
    Form("cross correlation of views", td.sum((Z.T @ Y / n - UNITS) ** 2), Z, 2 * Y @ (Z.T @ Y / n - UNITS).T / n),
    Form("hard triplets", td.sum(td.relu(margin)), X, 2 * td.einsum("i,ij->ij", td.greater(margin, 0), Z - Y)),
    Form("noise contrast", -td.sum(td.log(td.exp(x) / (td.exp(x) + b))), x, -b / (td.exp(x) + b), **POSITIVE),
    Form(
        "alignment with labels",
        td.sum(gram * H) / td.sqrt(td.sum(gram**2)),
        X,
        2 * (H - td.sum(gram * H) * gram / td.sum(gram**2)) @ X / td.norm(gram),
    ),
    Form("coding rate", td.logdet(UNITS + a * X.T @ X) / 2, X, a * X @ td.inv(UNITS + a * X.T @ X)),
    Form("design of least variance", td.trace(td.inv(X.T @ X)), X, -2 * X @ td.inv(X.T @ X) @ td.inv(X.T @ X)),
    Form(
        "mixture in one dimension by its centres",
        likelihood,
        theta[p],
        S(part(p) * (x[i] - theta[p]) / S(part(j), L), I) / a**2,
        **POSITIVE,
    ),
    Form(
        "mixture in one dimension by its weights",
        likelihood,
        u[p],
        S(part(p) / u[p] / S(part(j), L), I),
        **POSITIVE,
    ),
    Form(
        "mixture in one dimension by its width",
        likelihood,
        a,
        S(S(part(j) * (x[i] - theta[j]) ** 2, L) / S(part(j), L), I) / a**3,
        **POSITIVE,
    ),
    Form(
        "directions in a mixture",
        td.sum(td.logsumexp(logits, axis=1)),
        U,
        kappa * td.softmax(logits, axis=1).T @ X,
        **POSITIVE,
    ),
    Form("factor of a Gaussian", (td.trace(F @ F.T) + w @ w - td.logdet(F @ F.T)) / 2, F, F - td.inv(F).T, raised=F),
    Form("entropy of a Gaussian through a map", td.logdet(F @ Sigma @ F.T) / 2, F, td.inv(F).T, raised=F),
    Form(
        "reparametrised decoder",
        td.sum((y - X @ latent) ** 2) / 2,
        s,
        -(X.T @ (y - X @ latent)) * z * td.exp(s / 2) / 2,
    ),
    Form(
        "Student's t by its scale",
        (nu + 1) / 2 * S(log(1 + (x[i] - mu) ** 2 / (nu * a**2)), I) + n * log(a),
        a,
        n / a - (nu + 1) / a * S((x[i] - mu) ** 2 / (nu * a**2 + (x[i] - mu) ** 2), I),
    ),
    Form(
        "factor analysis",
        (td.trace(td.inv(cover) @ Sigma) + td.logdet(cover)) / 2,
        F,
        (inner - inner @ Sigma @ inner) @ F,
    ),
    Form("code of unit deviation", S(exp(x[i]) + y[i] ** 2 - 1 - x[i], I) / 2, x[p], (exp(x[p]) - 1) / 2),
    Form(
        "expected logarithm of a Gaussian",
        -S(y[i] / 2 + ((x[i] - b[i]) ** 2 + exp(r[i])) / (2 * exp(y[i])), I),
        y[p],
        ((x[p] - b[p]) ** 2 + exp(r[p])) * exp(-y[p]) / 2 - HALF,
    ),
    Form(
        "Bernoulli decoder",
        td.sum(x * td.log(td.sigmoid(A @ y)) + (1 - x) * td.log(1 - td.sigmoid(A @ y))),
        y,
        A.T @ (x - td.sigmoid(A @ y)),
    ),
    Form("Poisson decoder", td.sum(x * (A @ y) - td.exp(A @ y)), y, A.T @ (x - td.exp(A @ y))),
    Form(
        "Laplace's bound",
        td.logdet(precision) / 2,
        x,
        td.sum(X * (X @ td.inv(precision)), axis=1) / 2,
        raised=Sigma,
        **POSITIVE,
    ),
    Form(
        "effective sample",
        td.sum(td.softmax(x) ** 2),
        x,
        2 * (td.softmax(x) ** 2 - td.sum(td.softmax(x) ** 2) * td.softmax(x)),
    ),
    Form(
        "relevance of inputs",
        S(y[i] * y[j] * relevance, I, J) / 2,
        w[q],
        S(y[i] * y[j] * relevance * (X[i, q] - X[j, q]) ** 2, I, J) / (2 * w[q] ** 3),
        **POSITIVE,
    ),
    Form("predicted slope", S(y[i] * slope, I), w[q], -S(y[i] * (w[q] - X[i, q]) * slope, I) / length**2),
    Form(
        "periodic kernel",
        S(y[i] * y[j] * exp(-2 * waves / length**2), I, J) / 2,
        length,
        2 * S(y[i] * y[j] * waves * exp(-2 * waves / length**2), I, J) / length**3,
    ),
    Form(
        "rational quadratic kernel",
        S(y[i] * y[j] / (1 + (x[i] - x[j]) ** 2 / (2 * a * length**2)) ** a, I, J),
        y[p],
        2 * S(y[j] / (1 + (x[p] - x[j]) ** 2 / (2 * a * length**2)) ** a, J),
    ),
    Form(
        "Matern kernel",
        S(y[i] * y[j] * (1 + away * abs(x[i] - x[j])) * exp(-away * abs(x[i] - x[j])), I, J) / 2,
        x[p],
        -3 * y[p] * S(y[j] * (x[p] - x[j]) * exp(-away * abs(x[p] - x[j])), J) / length**2,
    ),
    Form(
        "evidence by a scale",
        (y @ td.inv(kernel) @ y + td.logdet(kernel)) / 2,
        a,
        (td.trace(gain @ H) - y @ gain @ H @ gain @ y) / 2,
        raised=H,
    ),
    Form("variance at new points", td.trace(M @ td.inv(noisy) @ M.T), M, 2 * M @ td.inv(noisy), raised=H),
    Form("polarisation", y @ td.inv(noisy) @ y / 2, a, -y @ td.inv(noisy) @ td.inv(noisy) @ y / 2, raised=H),
    Form(
        "innovations by the covariance",
        (y @ td.inv(X @ Sigma @ X.T + H) @ y + td.logdet(X @ Sigma @ X.T + H)) / 2,
        Sigma,
        X.T @ (innovation - innovation @ td.outer(y, y) @ innovation) @ X / 2,
        raised=H,
    ),
    Form(
        "transport, its dual by columns",
        alpha @ x - tau * alpha @ td.logsumexp((u - C) / tau, axis=1),
        u,
        -td.softmax((u - C) / tau, axis=1).T @ alpha,
    ),
    Form(
        "softest plan by its costs",
        td.sum(td.softmax(-C / tau, axis=1) * C),
        C,
        plan + plan * (td.sum(plan * C, axis=1)[:, None] - C) / tau,
    ),
    Form(
        "barycentric projection",
        td.sum((td.softmax(-C / tau, axis=1) @ V - G) ** 2) / 2,
        V,
        plan.T @ (plan @ V - G),
    ),
    Form(
        "transport with squared penalty",
        td.sum(C * T) + a / 2 * (td.sum((td.sum(T, axis=1) - x) ** 2) + td.sum((td.sum(T, axis=0) - u) ** 2)),
        T,
        C + a * ((td.sum(T, axis=1) - x)[:, None] + td.sum(T, axis=0) - u),
    ),
    Form("transport regularised by squares", td.sum(flow**2) / (2 * a), x, td.sum(flow, axis=1) / a),
    Form("Gromov-Wasserstein, matrices", -2 * td.trace(T.T @ H @ T @ D), T, -4 * H @ T @ D),
    Form("sliced transport", td.sum((X @ w - y) ** 2) / n, w, 2 * X.T @ (X @ w - y) / n),
    Form("Dirichlet energy of a graph", td.sum(H * (x[:, None] - x) ** 2) / 4, x, degrees * x - H @ x),
    Form(
        "propagation of labels",
        td.sum((x - y) ** 2) / 2 + a * td.sum(H * (x[:, None] - x) ** 2) / 4,
        x,
        x - y + a * (degrees * x - H @ x),
    ),
    Form("pairs without an edge", td.sum(H * td.softplus(-Z @ Z.T)), Z, -2 * (H * td.sigmoid(-Z @ Z.T)) @ Z),
    Form(
        "messages over lengths",
        S(A[i, j] * td.tanh(square(i, j)), I, J),
        X[p, q],
        2 * S((A[p, j] + A[j, p]) * (1 - sympy.tanh(square(p, j)) ** 2) * (X[p, q] - X[j, q]), J),
    ),
    Form("rank of pages", td.sum((x - a * A.T @ x - b) ** 2) / 2, x, residual - a * A @ residual),
    Form(
        "messages by gates",
        td.sum(g * (td.sigmoid(A) @ x)),
        A,
        td.einsum("i,ij,j->ij", g, td.sigmoid(A) * (1 - td.sigmoid(A)), x),
    ),
    Form(
        "block model",
        td.sum(A * td.log(X @ F @ X.T) - X @ F @ X.T),
        F,
        X.T @ (A / (X @ F @ X.T) - 1) @ X,
        **POSITIVE,
    ),
    Form(
        "bar of two-node elements",
        S(kay[i] * (x[i + 1] - x[i]) ** 2, (i, 0, n - 2)) / (2 * gap) - S(b[i] * x[i], I),
        x[p],
        cases((kay[p - 1] * (x[p] - x[p - 1]) / gap, p >= 1), (kay[p] * (x[p] - x[p + 1]) / gap, p <= n - 2)) - b[p],
    ),
    Form(
        "Saint Venant in whole tensors",
        lam / 2 * td.trace(written) ** 2 + mu * td.sum(written**2),
        F,
        F @ (lam * td.trace(strain) * UNITS + 2 * mu * strain),
    ),
    Form(
        "second invariant",
        (td.trace(F.T @ F) ** 2 - td.trace(F.T @ F @ F.T @ F)) / 2,
        F,
        2 * F @ (td.trace(F.T @ F) * UNITS - F.T @ F),
    ),
    Form(
        "logarithmic volume",
        lam * td.log(td.det(F)) ** 2 / 2 - mu * td.log(td.det(F)),
        F,
        (lam * td.log(td.det(F)) - mu) * td.inv(F).T,
        raised=F,
    ),
    Form(
        "isochoric stretch",
        td.trace(F.T @ F) / td.det(F) ** sympy.Rational(2, 3),
        F,
        (2 * F - 2 * td.trace(F.T @ F) * td.inv(F).T / 3) / td.det(F) ** sympy.Rational(2, 3),
        raised=F,
    ),
    Form("small strains", td.trace((F + F.T) @ (F + F.T)) / 8, F, (F + F.T) / 2),
    Form(
        "phase field",
        a * S((x[i + 1] - x[i]) ** 2, (i, 0, n - 2)) / 2 + S((x[i] ** 2 - 1) ** 2, I) / 4,
        x[p],
        cases((a * (x[p] - x[p - 1]), p >= 1), (a * (x[p] - x[p + 1]), p <= n - 2)) + x[p] ** 3 - x[p],
    ),
    Form(
        "length of a curve",
        S(sqrt((x[i + 1] - x[i]) ** 2 + (y[i + 1] - y[i]) ** 2), (i, 0, n - 2)),
        x[p],
        cases(
            ((x[p] - x[p - 1]) / sqrt((x[p] - x[p - 1]) ** 2 + (y[p] - y[p - 1]) ** 2), p >= 1),
            ((x[p] - x[p + 1]) / sqrt((x[p] - x[p + 1]) ** 2 + (y[p] - y[p + 1]) ** 2), p <= n - 2),
        ),
    ),
    Form(
        "screened charges",
        S(y[i] * y[j] * exp(-kappa * distance(i, j)) / distance(i, j), *PAIRS),
        X[p, q],
        -y[p] * others(y[j] * (kappa * rho + 1) * exp(-kappa * rho) / rho**3),
    ),
    Form(
        "Buckingham",
        S(a * exp(-kappa * distance(i, j)) - lam / square(i, j) ** 3, *PAIRS),
        X[p, q],
        others(6 * lam / square(p, j) ** 4 - a * kappa * exp(-kappa * rho) / rho),
    ),
    Form(
        "Gaussian charges",
        S(y[i] * y[j] * sympy.erf(kappa * distance(i, j)) / distance(i, j), *PAIRS),
        X[p, q],
        y[p]
        * others(
            y[j]
            * (2 * kappa * exp(-(kappa**2) * square(p, j)) / sqrt(sympy.pi) - sympy.erf(kappa * rho) / rho)
            / square(p, j)
        ),
    ),
    Form(
        "symmetry function",
        S(exp(-kappa * (distance(i, j) - a) ** 2), *PAIRS),
        X[p, q],
        -2 * kappa * others((rho - a) * exp(-kappa * (rho - a) ** 2) / rho),
    ),
    Form(
        "reach of an arm",
        S(y[i] * sympy.cos(S(x[j], (j, 0, i))), I),
        x[p],
        -S(y[i] * sympy.sin(S(x[j], (j, 0, i))), (i, p, n - 1)),
    ),
    Form(
        "scan matching",
        td.sum(td.sum(G * (X @ F - Z), axis=1) ** 2) / 2,
        F,
        X.T @ td.einsum("i,ij->ij", turn, G),
    ),
    Form("pairs of equal rank", td.trace(td.exp(-((x[:, None] - y) ** 2))), x, -2 * (x - y) * td.exp(-((x - y) ** 2))),
    Form("logistic loss of a transpose", td.trace(td.log(1 + td.exp(A.T)) @ B), A, B * td.sigmoid(A)),
    Form("linear quadratic cost", td.trace(X @ Qs @ X.T + controls @ Rs @ controls.T) / 2, X, X @ Qs),
    Form("attitude", td.sum((Z - Y @ F.T) ** 2) / 2, F, (Y @ F.T - Z).T @ Y),
    Form("damped least squares", td.sum((F @ w - v) ** 2) / 2 + lam * td.sum(w**2) / 2, w, F.T @ (F @ w - v) + lam * w),
    Form(
        "smooth obstacles",
        td.sum(td.exp(-td.sum((X - w) ** 2, axis=1) / (2 * a**2))),
        X,
        -td.einsum("i,ij->ij", td.exp(-td.sum((X - w) ** 2, axis=1) / (2 * a**2)), X - w) / a**2,
    ),
    Form(
        "range measurements",
        td.sum((td.sqrt(td.sum((X - w) ** 2, axis=1)) - y) ** 2) / 2,
        w,
        (w - X).T @ (1 - y / td.sqrt(td.sum((X - w) ** 2, axis=1))),
    ),
]
