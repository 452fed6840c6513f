"""Derivatives in which some terms of a sum share factors, of magnets, fluids, species, robots, images, epidemics and
estimates; the forms were written before the pass that finds such factors."""

import sympy
from corpus_forms import Form, vectors
from sympy import Mod, Ne, Piecewise, cos, exp, log, sin, sqrt

import sympy_tensordiff as td

n, m, d = td.indices("n m d")
i, j, k, p, q, t = td.indices("i j k p q t")
S, N, C = td.IndexedSum, td.name, td.TensorComprehension
a, b, h, beta, lam, eps, one, two, f, g, E, R = sympy.symbols("a b h beta lamda epsilon l_1 l_2 f g E R", positive=True)
x, y, u, v, w, s, z = vectors("x y u v w s z", n)
X, V, M = (td.TensorSymbol(name, (n, d)) for name in "XVM")
A, D, H, W = (td.TensorSymbol(name, (n, n)) for name in "ADHW")
Ix, Iy, It, U1, U2 = (td.TensorSymbol(name, (n, n)) for name in ("Ix", "Iy", "It", "U1", "U2"))
B, G = (td.TensorSymbol(name, (n, m)) for name in "BG")
I, J, K, STEPS = (i, 0, n - 1), (j, 0, n - 1), (k, 0, d - 1), (t, 0, n - 2)
POSITIVE = {"low": 0.3, "high": 1.5}


def only(value, condition):
    return Piecewise((value, condition), (0, True))


def square(one, other, tensor=X):
    return S((tensor[one, k] - tensor[other, k]) ** 2, K)


def difference(one, other):
    return sqrt(square(one, other))


def heat(one, other):
    return exp(-square(one, other) / h**2)


def cyclic(index):
    return Mod(index, n)


# Particles
r = N(C(difference(i, j), (i, n), (j, n)), "r")
near = N(C(1 / (1 + square(i, j)), (i, n), (j, n)), "c")
total = N(S(only(1 / (1 + square(i, j)), Ne(i, j)), J, I), "Z")
density = N(C(S(w[j] * heat(i, j), J), (i, n)), "rho")
towards, lean = X[p, q] - X[j, q], S(M[j, k] * (X[p, k] - X[j, k]), K)
PARTICLES = [
    Form(
        "peridynamics",
        S(only(W[i, j] * (difference(i, j) - D[i, j]) ** 2 / D[i, j], Ne(i, j)), J, I) / 2,
        X[p, q],
        S(
            only((W[p, j] * (1 / D[p, j] - 1 / r[p, j]) + W[j, p] * (1 / D[j, p] - 1 / r[p, j])) * towards, Ne(p, j)),
            J,
        ),
    ),
    Form(
        "t-SNE in the plane",
        S(only(W[i, j] * log(1 + square(i, j)), Ne(i, j)), J, I) + log(S(only(1 / (1 + square(i, j)), Ne(i, j)), J, I)),
        X[p, q],
        S(only((2 * W[p, j] + 2 * W[j, p] - 4 * near[p, j] / total) * near[p, j] * towards, Ne(p, j)), J),
    ),
    Form(
        "smoothed particles",
        S(w[i] * S(w[j] * heat(i, j), J) ** (a - 1), I),
        X[p, q],
        2 * (1 - a) / h**2 * w[p] * S(w[j] * (density[p] ** (a - 2) + density[j] ** (a - 2)) * heat(p, j) * towards, J),
        **POSITIVE,
    ),
    Form(
        "flocking",
        S((1 + square(i, j)) ** (-beta) * square(i, j, V), J, I) / 2,
        X[p, q],
        -2 * beta * S(square(p, j, V) * towards * (1 + square(p, j)) ** (-beta - 1), J),
    ),
    Form(
        "dipoles",
        S(
            only(
                S(M[i, k] * M[j, k], K) / difference(i, j) ** 3
                - 3 * S(M[i, k] * (X[i, k] - X[j, k]), K) * S(M[j, k] * (X[i, k] - X[j, k]), K) / difference(i, j) ** 5,
                Ne(i, j),
            ),
            J,
            I,
        )
        / 2,
        M[p, q],
        S(only(M[j, q] / r[p, j] ** 3 - 3 * lean * towards / r[p, j] ** 5, Ne(p, j)), J),
    ),
    Form(
        "swarm",
        S(only(a * exp(-difference(i, j) / one) - b * exp(-difference(i, j) / two), Ne(i, j)), J, I) / 2,
        X[p, q],
        S(only((b / two * exp(-r[p, j] / two) - a / one * exp(-r[p, j] / one)) * towards / r[p, j], Ne(p, j)), J),
    ),
    Form(
        "phases with two harmonics",
        -S(W[i, j] * (a * cos(x[j] - x[i]) + b * cos(2 * (x[j] - x[i]))), J, I) / 2,
        x[p],
        -S((W[p, j] + W[j, p]) * (a * sin(x[j] - x[p]) + 2 * b * sin(2 * (x[j] - x[p]))), J) / 2,
    ),
]

# Images
flow = Ix[i, j] * U1[i, j] + Iy[i, j] * U2[i, j] + It[i, j]
neighbours = U1[cyclic(p + 1), q] + U1[cyclic(p - 1), q] + U1[p, cyclic(q + 1)] + U1[p, cyclic(q - 1)]
edges = S(s[i] ** 2 * (x[cyclic(i + 1)] - x[i]) ** 2 + a * (x[i] - y[i]) ** 2, I)
IMAGES = [
    Form(
        "optical flow, smooth",
        S(flow**2 + lam * ((U1[cyclic(i + 1), j] - U1[i, j]) ** 2 + (U1[i, cyclic(j + 1)] - U1[i, j]) ** 2), J, I),
        U1[p, q],
        2 * Ix[p, q] * flow.subs({i: p, j: q}) + 2 * lam * (4 * U1[p, q] - neighbours),
    ),
    Form(
        "edges of an image",
        edges + b * S(eps * (s[cyclic(i + 1)] - s[i]) ** 2 + (1 - s[i]) ** 2 / (4 * eps), I),
        s[p],
        2 * s[p] * (x[cyclic(p + 1)] - x[p]) ** 2
        + b * (2 * eps * (2 * s[p] - s[cyclic(p + 1)] - s[cyclic(p - 1)]) - (1 - s[p]) / (2 * eps)),
    ),
    Form(
        "image with edges",
        edges,
        x[p],
        2 * a * (x[p] - y[p])
        - 2 * s[p] ** 2 * (x[cyclic(p + 1)] - x[p])
        + 2 * s[cyclic(p - 1)] ** 2 * (x[p] - x[cyclic(p - 1)]),
    ),
]

# Residuals


def rate(time):
    return a * exp(-E / (R * w[time]))


def prey(time):
    return u[time + 1] - u[time] - h * u[time] * (a - b * v[time])


def infected(time):
    return u[time + 1] - u[time] + beta * h * u[time] * v[time]


def recovered(time):
    return v[time + 1] - v[time] - h * (beta * u[time] * v[time] - g * v[time])


right = one * cos(x[i]) + two * cos(x[i] + y[i]) - u[i]
up = one * sin(x[i]) + two * sin(x[i] + y[i]) - v[i]
reach = S(right**2 + up**2, I) / 2
column, row = f * x[i] / z[i] - u[i], f * y[i] / z[i] - v[i]
RESIDUALS = [
    Form(
        "predator and prey",
        S(prey(t) ** 2, STEPS) / 2,
        u[p],
        only(-(1 + h * (a - b * v[p])) * prey(p), p <= n - 2) + only(prey(p - 1), p >= 1),
    ),
    Form("predators by their rate", S(prey(t) ** 2, STEPS) / 2, b, h * S(u[t] * v[t] * prey(t), STEPS)),
    Form(
        "epidemic by its contacts",
        S(infected(t) ** 2 + recovered(t) ** 2, STEPS) / 2,
        beta,
        h * S(u[t] * v[t] * (infected(t) - recovered(t)), STEPS),
    ),
    Form(
        "reaction by its energy",
        S((y[i] - rate(i)) ** 2, I) / 2,
        E,
        a / R * S((y[i] - rate(i)) * exp(-E / (R * w[i])) / w[i], I),
        **POSITIVE,
    ),
    Form(
        "two links, the first angle",
        reach,
        x[p],
        (-right * (one * sin(x[i]) + two * sin(x[i] + y[i])) + up * (one * cos(x[i]) + two * cos(x[i] + y[i]))).subs(
            i, p
        ),
    ),
    Form(
        "two links, the second angle",
        reach,
        y[p],
        (two * (up * cos(x[i] + y[i]) - right * sin(x[i] + y[i]))).subs(i, p),
    ),
    Form(
        "depth of a camera",
        S(column**2 + row**2, I) / 2,
        z[p],
        (-f / z[i] ** 2 * (x[i] * column + y[i] * row)).subs(i, p),
        **POSITIVE,
    ),
]

# Whole tensors
unit, coefficients = td.DeltaTensor(m), N(td.inv(B.T @ B) @ B.T @ x, "c")
spread, gain = td.mean((x - td.mean(x)) ** 2) + eps, N(x - td.mean(x), "z")
mean = td.mean(X, axis=1)
centred = X - mean[:, None]
deviation = N(td.sqrt(td.mean(centred**2, axis=1) + eps), "s")
whitened = N(centred / deviation[:, None], "Z")
WHOLE = [
    Form(
        "orthogonal columns",
        td.sum((B.T @ B - unit) ** 2) / 4 + td.sum((A @ B - G) ** 2) / 2,
        B,
        B @ (B.T @ B - unit) + A.T @ (A @ B - G),
    ),
    Form(
        "length of a projection", x @ B @ td.inv(B.T @ B) @ B.T @ x, B, 2 * td.outer(x - B @ coefficients, coefficients)
    ),
    Form(
        "batch normalisation of a vector",
        td.sum(y * (x - td.mean(x)) / td.sqrt(spread)),
        x,
        (y - td.mean(y) - (y @ gain) * gain / (n * spread)) / td.sqrt(spread),
        **POSITIVE,
    ),
    Form(
        "normalisation of rows",
        td.sum(V * centred / td.sqrt(td.mean(centred**2, axis=1) + eps)[:, None]),
        X,
        (V - td.mean(V, axis=1)[:, None] - whitened * td.mean(V * whitened, axis=1)[:, None]) / deviation[:, None],
        **POSITIVE,
    ),
    Form(
        "independence by kernels",
        td.sum((H @ td.tanh(A @ A.T) @ H) * (X @ X.T + 1) ** 2),
        X,
        2 * ((N(H @ td.tanh(A @ A.T) @ H, "L") + N(H @ td.tanh(A @ A.T) @ H, "L").T) * (X @ X.T + 1)) @ X,
    ),
]

FORMS = [*PARTICLES, *IMAGES, *RESIDUALS, *WHOLE]
