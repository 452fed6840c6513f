"""Derivatives of physics, mechanics, images and optimisation, each with the form that textbooks and papers print."""

import sympy
from corpus_forms import Form, at, vectors
from sympy import Eq, Ge, Le, Ne, Piecewise, cos, exp, log, sin, sqrt

import sympy_tensordiff as td

i, j, k, l, n, m, d, p, q, t = td.indices("i j k l n m d p q t")
S, T, N = td.IndexedSum, td.TensorComprehension, td.name
a, b, lam, mu, gamma, eps, dt = sympy.symbols("a b lamda mu gamma epsilon dt", positive=True)
I, J, K = (i, 0, n - 1), (j, 0, n - 1), (k, 0, d - 1)
BEFORE = (j, 0, i - 1)

x, y, v, z, f = vectors("x y v z f", n)
w, g = vectors("w g", m)
W, Q, B = (td.TensorSymbol(name, (n, n), symmetric=True, positive=name == "W") for name in ("W", "Q", "B"))
X, R, H = td.TensorSymbol("X", (n, d)), td.TensorSymbol("R", (n, n)), td.TensorSymbol("H", (n, n))
F, E = td.TensorSymbol("F", (n, n)), td.TensorSymbol("E", (n, n))
A, U, V = td.TensorSymbol("A", (m, n)), td.TensorSymbol("U", (n, m)), td.TensorSymbol("V", (n, m))


def only(value, condition):
    return Piecewise((value, condition), (0, True))


def others(body):
    return S(only(body, Ne(p, j)), J)


# Particles.
square = S((X[i, k] - X[j, k]) ** 2, K)
separations = N(T(sqrt(S((X[i, k] - X[j, k]) ** 2, K)), (i, n), (j, n)), "r")
distances = T(sqrt(square), (i, n), (j, n))
towards = X[p, q] - X[j, q]
start, end = (td.TensorSymbol(name, m, dtype=int, below=n) for name in ("start", "end"))
bond = sqrt(S((X[start[t], k] - X[end[t], k]) ** 2, K))
bonds = N(T(bond, (t, m)), "r")
pull = w[t] * (1 - g[t] / bonds[t]) * (X[start[t], q] - X[end[t], q])
morse = N(T(exp(-a * (separations[i, j] - b)), (i, n), (j, n)), "e")
angle = N(x @ y / (td.norm(x) * td.norm(y)), "rho")
PARTICLES = [
    Form(
        "Lennard-Jones",
        S(4 * (square**-6 - square**-3), BEFORE, I),
        X[p, q],
        24 * others((separations[p, j] ** -8 - 2 * separations[p, j] ** -14) * towards),
    ),
    Form(
        "Coulomb",
        S(v[i] * v[j] / sqrt(square), BEFORE, I),
        X[p, q],
        -v[p] * others(v[j] * towards / separations[p, j] ** 3),
    ),
    Form(
        "screened charges by a table of distances",
        S(only(v[i] * v[j] * exp(-a * distances[i, j]) / distances[i, j], Ne(i, j)), I, J) / 2,
        X[p, q],
        -v[p]
        * others(v[j] * (a + 1 / separations[p, j]) * exp(-a * separations[p, j]) * towards / separations[p, j] ** 2),
    ),
    Form(
        "charges in screened surroundings",
        S(only(v[i] * v[j] * exp(-a * distances[i, j]) / distances[i, j], Ne(i, j)), I, J) / 2,
        v[p],
        others(v[j] * exp(-a * distances[p, j]) / distances[p, j]),
    ),
    Form(
        "gravity",
        -S(v[i] * v[j] / sqrt(square + eps**2), BEFORE, I),
        X[p, q],
        v[p] * others(v[j] * towards / (at(square, {i: p}) + eps**2) ** sympy.Rational(3, 2)),
    ),
    Form(
        "Morse",
        S((1 - exp(-a * (sqrt(square) - b))) ** 2, BEFORE, I),
        X[p, q],
        2 * a * others(morse[p, j] * (1 - morse[p, j]) * towards / separations[p, j]),
    ),
    Form(
        "Stillinger-Weber, two bodies",
        S(only((a * R[i, j] ** -4 - 1) * exp(1 / (R[i, j] - b)), sympy.Lt(R[i, j], b)), J, I),
        R[p, q],
        only(
            -exp(1 / (R[p, q] - b)) * (4 * a * R[p, q] ** -5 + (a * R[p, q] ** -4 - 1) / (R[p, q] - b) ** 2),
            sympy.Lt(R[p, q], b),
        ),
        low=0.5,
    ),
    Form(
        "Stillinger-Weber, three bodies by the cosines",
        S(exp(a / (R[i, j] - b) + a / (R[i, k] - b)) * (x[j] + sympy.Rational(1, 3)) ** 2, (k, 0, n - 1), J, I),
        x[p],
        2 * (x[p] + sympy.Rational(1, 3)) * S(exp(a / (R[i, p] - b) + a / (R[i, k] - b)), (k, 0, n - 1), I),
        low=0.5,
    ),
    Form(
        "harmonic bonds",
        S(w[t] * (bond - g[t]) ** 2 / 2, (t, 0, m - 1)),
        X[p, q],
        S(only(pull, Eq(start[t], p)), (t, 0, m - 1)) - S(only(pull, Eq(end[t], p)), (t, 0, m - 1)),
    ),
    Form(
        "angle between bonds",
        (x @ y / (td.norm(x) * td.norm(y)) - a) ** 2,
        x,
        2 * (angle - a) * (y / (td.norm(x) * td.norm(y)) - angle * x / td.norm(x) ** 2),
    ),
    Form("Kuramoto", -S(W[i, j] * cos(x[i] - x[j]), J, I) / 2, x[p], S(W[p, j] * sin(x[p] - x[j]), J)),
    Form(
        "Ising, all couplings",
        -S(W[i, j] * x[i] * x[j], J, I) / 2 - S(v[i] * x[i], I),
        x[p],
        -S(W[p, j] * x[j], J) - v[p],
    ),
    Form(
        "Ising, a chain",
        -a * S(x[i] * x[i + 1], (i, 0, n - 2)) - b * S(x[i], I),
        x[p],
        -a * (only(x[p - 1], Ge(p, 1)) + only(x[p + 1], Le(p, n - 2))) - b,
    ),
    Form(
        "harmonic chain",
        S((x[i + 1] - x[i]) ** 2 / 2, (i, 0, n - 2)),
        x[p],
        only(x[p] - x[p - 1], Ge(p, 1)) - only(x[p + 1] - x[p], Le(p, n - 2)),
    ),
]

# Elasticity: stresses, and the tangent along a direction.
green = N((F.T @ F - td.DeltaTensor((n,))) / 2, "E")
strain = (F.T @ F - td.DeltaTensor((n,))) / 2
neo = mu * (td.trace(F.T @ F) - n) / 2 - mu * td.logdet(F) + lam * td.logdet(F) ** 2 / 2
ELASTICITY = [
    Form("Neo-Hooke, stress", neo, F, mu * (F - td.inv(F).T) + lam * td.logdet(F) * td.inv(F).T, raised=F),
    Form(
        "Neo-Hooke, tangent",
        neo,
        F,
        mu * H
        + (mu - lam * td.logdet(F)) * td.inv(F).T @ H.T @ td.inv(F).T
        + lam * td.trace(td.inv(F) @ H) * td.inv(F).T,
        along=H,
        raised=F,
    ),
    Form(
        "Saint Venant-Kirchhoff, stress",
        lam * td.trace(strain) ** 2 / 2 + mu * td.trace(strain @ strain),
        F,
        F @ (lam * td.trace(green) * td.DeltaTensor((n,)) + 2 * mu * green),
    ),
    Form(
        "linear elasticity",
        lam * td.trace(E) ** 2 / 2 + mu * td.sum(E * E),
        E,
        lam * td.trace(E) * td.DeltaTensor((n,)) + 2 * mu * E,
    ),
]

# Images, stencils.
image, filtered = td.TensorSymbol("x_", n + m - 1), S(w[k] * td.TensorSymbol("x_", n + m - 1)[i + k], (k, 0, m - 1))
picture, stencil = td.TensorSymbol("Im", (n + 2, n + 2)), td.TensorSymbol("w_", (3, 3))
window = S(stencil[k, l] * picture[i + k, j + l], (l, 0, 2), (k, 0, 2)) - R[i, j]
right = lambda i: sqrt((x[i + 1] - x[i]) ** 2 + eps)  # noqa: E731
flow_x, flow_y, flow_t = td.TensorSymbol("Ix", (n, m)), td.TensorSymbol("Iy", (n, m)), td.TensorSymbol("It", (n, m))
second = lambda u, i: u[i - 1] - 2 * u[i] + u[i + 1]  # noqa: E731
IMAGES = [
    Form(
        "convolution by its weights",
        S((filtered - y[i]) ** 2, I),
        w[p],
        2 * S((filtered - y[i]) * image[i + p], I),
    ),
    Form(
        "convolution by its signal",
        S(v[i] * filtered, I),
        image[p],
        S(w[k] * v[p - k], (k, sympy.Max(0, p - n + 1), sympy.Min(m - 1, p))),
    ),
    Form(
        "convolution of an image",
        S(window**2, J, I),
        stencil[p, q],
        2 * S(window * picture[i + p, j + q], J, I),
    ),
    Form(
        "total variation of a signal",
        S(right(i), (i, 0, n - 2)),
        x[p],
        only((x[p] - x[p - 1]) / right(p - 1), Ge(p, 1)) - only((x[p + 1] - x[p]) / right(p), Le(p, n - 2)),
    ),
    Form(
        "optical flow",
        td.sum((flow_x * U + flow_y * V + flow_t) ** 2),
        U,
        2 * flow_x * (flow_x * U + flow_y * V + flow_t),
    ),
    Form(
        "denoising",
        S((x[i] - y[i]) ** 2, I) / 2 + lam * S((x[i + 1] - x[i]) ** 2, (i, 0, n - 2)) / 2,
        x[p],
        x[p] - y[p] + lam * (only(x[p] - x[p - 1], Ge(p, 1)) - only(x[p + 1] - x[p], Le(p, n - 2))),
    ),
    Form(
        "Poisson's equation",
        S((U[i + 1, j] - U[i, j]) ** 2 / 2, (j, 0, m - 1), (i, 0, n - 2)) - S(U[i, j] * V[i, j], (j, 0, m - 1), I),
        U[p, q],
        only(U[p, q] - U[p - 1, q], Ge(p, 1)) - only(U[p + 1, q] - U[p, q], Le(p, n - 2)) - V[p, q],
    ),
    Form(
        "reaction and diffusion, linearised",
        T(second(x, i + 1) / dt**2 + x[i + 1] * (1 - x[i + 1]), (i, n - 2)),
        x,
        T(second(v, i + 1) / dt**2 + (1 - 2 * x[i + 1]) * v[i + 1], (i, n - 2)),
        kind="jvp",
        along=v,
    ),
    Form(
        "heat equation, one step",
        T(x[i + 1] + a * second(x, i + 1), (i, n - 2)),
        x,
        T(v[i + 1] + a * second(v, i + 1), (i, n - 2)),
        kind="jvp",
        along=v,
    ),
]

# Optimisation, filters, Gaussian processes.
length, scale, noise = sympy.symbols("l s e", positive=True)
D = T(S((X[i, k] - X[j, k]) ** 2, K), (i, n), (j, n))
gram = scale**2 * td.exp(-D / (2 * length**2)) + noise**2 * td.DeltaTensor((n,))
likelihood = y @ td.inv(gram) @ y / 2 + td.logdet(gram) / 2
dist, kernel = N(D, "D"), N(scale**2 * td.exp(-N(D, "D") / (2 * length**2)), "K0")
noisy = N(kernel + noise**2 * td.DeltaTensor((n,)), "K")
alpha = N(td.inv(noisy) @ y, "alpha")
inner = N(td.inv(noisy) - td.outer(alpha, alpha), "M")
prior, sensor = td.TensorSymbol("Pr", (n, n), symmetric=True), td.TensorSymbol("Rr", (m, m), symmetric=True)
OPTIMISATION = [
    Form(
        "quadratic program with a barrier",
        x @ Q @ x / 2 + y @ x - mu * td.sum(td.log(g - A @ x)),
        x,
        Q @ x + y + mu * A.T @ (1 / (g - A @ x)),
        raised=g,
    ),
    Form("trust region", y @ x + x @ B @ x / 2 + lam * (x @ x - a**2) / 2, x, y + B @ x + lam * x),
    Form("analytic centre", -S(log(x[i]), I) - S(log(1 - x[i]), I), x[p], 1 / (1 - x[p]) - 1 / x[p], low=0.1, high=0.9),
    Form("barrier of definite matrices", -td.logdet(F), F, -td.inv(F).T, raised=F),
    Form("volume of a Gram matrix", td.logdet(U.T @ U), U, 2 * U @ td.inv(U.T @ U)),
    Form("portfolio", y @ x - gamma * x @ W @ x / 2, x, y - gamma * W @ x),
    Form(
        "Sharpe ratio",
        y @ x / sqrt(x @ W @ x),
        x,
        (y - N(y @ x / (x @ W @ x), "c_") * W @ x) / sqrt(x @ W @ x),
    ),
    Form("norm of a matrix", td.norm(F), F, F / td.norm(F)),
    Form(
        "Kalman update",
        (g - A @ x) @ td.inv(sensor) @ (g - A @ x) + (x - y) @ td.inv(prior) @ (x - y),
        x,
        2 * td.inv(prior) @ (x - y) - 2 * A.T @ td.inv(sensor) @ (g - A @ x),
    ),
    Form(
        "Gaussian process by its length",
        likelihood,
        length,
        td.sum(inner * kernel * dist) / (2 * length**3),
    ),
    Form("Gaussian process by its scale", likelihood, scale, td.sum(inner * kernel) / scale),
    Form("Gaussian process by its noise", likelihood, noise, noise * td.trace(inner)),
    Form("linear system", td.norm(A @ x - g), x, A.T @ (A @ x - g) / td.norm(A @ x - g)),
]

FORMS = PARTICLES + ELASTICITY + IMAGES + OPTIMISATION
