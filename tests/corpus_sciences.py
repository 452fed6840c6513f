"""Derivatives of chemistry, medicine, optics, geodesy, economics, ecology, lifetimes, queues and embeddings; the forms
were written before ours were looked at."""

import sympy
from corpus_forms import Form, vectors
from sympy import Abs, Mod, Ne, Piecewise, cos, erf, exp, log, pi, sin, sqrt

import sympy_tensordiff as td

n, m, d = td.indices("n m d")
i, j, k, p, q, t = td.indices("i j k p q t")
S, N, C = td.IndexedSum, td.name, td.TensorComprehension
a, b, c, h, K, T, r, al, be, ga, la, mu, si, ta, ka, rho = sympy.symbols(
    "a b c h K T r alpha beta gamma lamda mu sigma tau kappa rho", positive=True
)
x, y, u, v, w, s, z = vectors("x y u v w s z", n)
X, Y, M = (td.TensorSymbol(name, (n, d)) for name in "XYM")
A, B, D = (td.TensorSymbol(name, (n, n)) for name in "ABD")
G, H = (td.TensorSymbol(name, (n, m)) for name in "GH")
e, f = (td.TensorSymbol(name, m) for name in "ef")
weights, g, F, Q = (td.TensorSymbol(*pair) for pair in (("w", d), ("g", m), ("F", (m, n)), ("Q", (m, n, n))))
I, J, L, E = (i, 0, n - 1), (j, 0, n - 1), (k, 0, d - 1), (k, 0, m - 1)
POSITIVE = {"low": 0.3, "high": 1.5}


def only(value, condition):
    return Piecewise((value, condition), (0, True))


def square(one, other, tensor=X):
    return S((tensor[one, k] - tensor[other, k]) ** 2, L)


CHEMISTRY = [
    Form(
        "rates of an enzyme by the half saturation",
        S((y[i] - a * x[i] / (b + x[i])) ** 2, I) / 2,
        b,
        S((y[i] - a * x[i] / (b + x[i])) * a * x[i] / (b + x[i]) ** 2, I),
        **POSITIVE,
    ),
    Form(
        "rates of an enzyme by the largest rate",
        S((y[i] - a * x[i] / (b + x[i])) ** 2, I) / 2,
        a,
        -S((y[i] - a * x[i] / (b + x[i])) * x[i] / (b + x[i]), I),
        **POSITIVE,
    ),
    Form(
        "Arrhenius by the energy",
        S((y[i] - a * exp(-b / (r * x[i]))) ** 2, I) / 2,
        b,
        a * S((y[i] - a * exp(-b / (r * x[i]))) * exp(-b / (r * x[i])) / x[i], I) / r,
        **POSITIVE,
    ),
    Form(
        "cooperative binding by the order",
        S((y[i] - x[i] ** a / (K**a + x[i] ** a)) ** 2, I) / 2,
        K,
        a * K ** (a - 1) * S((y[i] - x[i] ** a / (K**a + x[i] ** a)) * x[i] ** a / (K**a + x[i] ** a) ** 2, I),
        **POSITIVE,
    ),
    Form(
        "free energy of a mixture",
        td.dot(x, td.log(x)) + td.dot(x, A @ x) / 2,
        x,
        1 + td.log(x) + (A + A.T) @ x / 2,
        **POSITIVE,
    ),
    Form(
        "chemical equilibrium by the logarithms of amounts",
        td.sum((td.exp(G.T @ x) - e) ** 2) / 2,
        x,
        G @ ((td.exp(G.T @ x) - e) * td.exp(G.T @ x)),
    ),
]

MEDICINE = [
    Form(
        "one compartment by the rate",
        S((y[i] - a * exp(-b * x[i])) ** 2, I) / 2,
        b,
        a * S((y[i] - a * exp(-b * x[i])) * exp(-b * x[i]) * x[i], I),
        **POSITIVE,
    ),
    Form(
        "several decays by their rates",
        S((y[i] - S(e[k] * exp(-f[k] * x[i]), E)) ** 2, I) / 2,
        f[p],
        e[p] * S((y[i] - S(e[k] * exp(-f[k] * x[i]), E)) * exp(-f[p] * x[i]) * x[i], I),
        **POSITIVE,
    ),
    Form(
        "dose and response",
        -S(y[i] * (a + b * log(x[i])) - log(1 + exp(a + b * log(x[i]))), I),
        b,
        S((1 / (1 + exp(-a - b * log(x[i]))) - y[i]) * log(x[i]), I),
        **POSITIVE,
    ),
    Form(
        "Weibull lifetimes by the shape",
        S(log(a) + (a - 1) * log(x[i]) - a * log(b) - (x[i] / b) ** a, I),
        b,
        a * S((x[i] / b) ** a - 1, I) / b,
        **POSITIVE,
    ),
    Form(
        "accelerated failure by its scale",
        td.sum(td.exp((y - X @ weights) / si)),
        weights,
        -X.T @ td.exp((y - X @ weights) / si) / si,
    ),
    Form(
        "images of several coils",
        td.sum((F @ (u * x) - e) ** 2) / 2,
        x,
        u * (F.T @ (F @ (u * x) - e)),
    ),
]

OPTICS = [
    Form(
        "phase retrieval",
        td.sum(((A @ x) ** 2 - y) ** 2) / 4,
        x,
        A.T @ (((A @ x) ** 2 - y) * (A @ x)),
    ),
    Form(
        "phase retrieval by amplitudes",
        td.sum((td.abs(A @ x) - y) ** 2) / 2,
        x,
        A.T @ (A @ x - y * td.sign(A @ x)),
    ),
    Form(
        "intensity of two waves by the phase",
        S((y[i] - a - b * cos(x[i] + c)) ** 2, I) / 2,
        c,
        b * S((y[i] - a - b * cos(x[i] + c)) * sin(x[i] + c), I),
    ),
    Form(
        "structure factor",
        S((S(w[j] * cos(2 * pi * G[j, k]), J)) ** 2, E),
        G[p, q],
        -4 * pi * w[p] * sin(2 * pi * G[p, q]) * S(w[j] * cos(2 * pi * G[j, q]), J),
    ),
    Form(
        "beam of an array",
        S(S(x[i] * cos(G[i, k]), I) ** 2 + S(x[i] * sin(G[i, k]), I) ** 2, E),
        x[p],
        2 * S(cos(G[p, k]) * S(x[i] * cos(G[i, k]), I) + sin(G[p, k]) * S(x[i] * sin(G[i, k]), I), E),
    ),
    Form(
        "width of a spot",
        S(x[i] * u[i] ** 2, I) / S(x[i], I) - (S(x[i] * u[i], I) / S(x[i], I)) ** 2,
        x[p],
        (u[p] ** 2 - S(x[i] * u[i] ** 2, I) / S(x[i], I)) / S(x[i], I)
        - 2 * S(x[i] * u[i], I) * (u[p] - S(x[i] * u[i], I) / S(x[i], I)) / S(x[i], I) ** 2,
        **POSITIVE,
    ),
]

EARTH = [
    Form(
        "arrival times of waves by the origin",
        S((y[i] - a - sqrt(S((X[i, k] - weights[k]) ** 2, L)) / v[i]) ** 2, I) / 2,
        weights[q],
        S(
            (y[i] - a - sqrt(S((X[i, k] - weights[k]) ** 2, L)) / v[i])
            * (X[i, q] - weights[q])
            / (v[i] * sqrt(S((X[i, k] - weights[k]) ** 2, L))),
            I,
        ),
        low=0.3,
        high=2.0,
    ),
    Form(
        "flow through a porous ground",
        S(u[i] * (x[i + 1] - x[i]) ** 2, (i, 0, n - 2)) / 2,
        u[p],
        only((x[p + 1] - x[p]) ** 2, p <= n - 2) / 2,
    ),
    Form(
        "variogram by its range",
        S((D[i, j] - a * (1 - exp(-B[i, j] / b))) ** 2, J, I) / 2,
        b,
        a * S((D[i, j] - a * (1 - exp(-B[i, j] / b))) * B[i, j] * exp(-B[i, j] / b), J, I) / b**2,
        **POSITIVE,
    ),
    Form(
        "kriging",
        td.dot(w, A @ w) - 2 * td.dot(w, v) + la * (td.sum(w) - 1),
        w,
        (A + A.T) @ w - 2 * v + la,
    ),
    Form(
        "waves on a string",
        S((x[Mod(i + 1, n)] - x[i]) ** 2 / 2 + a * (x[Mod(i + 1, n)] - x[i]) ** 3 / 3, I),
        x[p],
        2 * x[p]
        - x[Mod(p + 1, n)]
        - x[Mod(p - 1, n)]
        + a * ((x[p] - x[Mod(p - 1, n)]) ** 2 - (x[Mod(p + 1, n)] - x[p]) ** 2),
    ),
    Form(
        "Lorenz in a ring",
        S(v[i] * (x[Mod(i + 1, n)] - x[Mod(i - 2, n)]) * x[Mod(i - 1, n)], I),
        x[p],
        v[Mod(p - 1, n)] * x[Mod(p - 2, n)]
        - v[Mod(p + 2, n)] * x[Mod(p + 1, n)]
        + v[Mod(p + 1, n)] * (x[Mod(p + 2, n)] - x[Mod(p - 1, n)]),
    ),
]

ECONOMICS = [
    Form(
        "production with shares",
        td.exp(td.dot(w, td.log(x))),
        x,
        w * td.exp(td.dot(w, td.log(x))) / x,
        **POSITIVE,
    ),
    Form(
        "constant elasticity of substitution",
        S(w[i] * x[i] ** rho, I) ** (1 / rho),
        x[p],
        w[p] * x[p] ** (rho - 1) * S(w[i] * x[i] ** rho, I) ** (1 / rho - 1),
        **POSITIVE,
    ),
    Form(
        "shares of a market",
        S(y[i] * x[i] - y[i] * log(1 + S(exp(x[j]), J)), I),
        x[p],
        y[p] - S(y[i], I) * exp(x[p]) / (1 + S(exp(x[j]), J)),
    ),
    Form(
        "nested choices",
        log(1 + S(exp(x[j] / ta), J) ** ta),
        x[p],
        S(exp(x[j] / ta), J) ** (ta - 1) * exp(x[p] / ta) / (1 + S(exp(x[j] / ta), J) ** ta),
    ),
    Form(
        "smile of volatilities by its centre",
        S((y[i] - a - b * (rho * (x[i] - c) + sqrt((x[i] - c) ** 2 + si**2))) ** 2, I) / 2,
        c,
        b
        * S(
            (y[i] - a - b * (rho * (x[i] - c) + sqrt((x[i] - c) ** 2 + si**2)))
            * (rho + (x[i] - c) / sqrt((x[i] - c) ** 2 + si**2)),
            I,
        ),
    ),
    Form(
        "inequality",
        S(Abs(x[i] - x[j]), J, I) / (2 * n * S(x[i], I)),
        x[p],
        S(sympy.sign(x[p] - x[j]), J) / (n * S(x[i], I)) - S(Abs(x[i] - x[j]), J, I) / (2 * n * S(x[i], I) ** 2),
        **POSITIVE,
    ),
    Form(
        "concentration of a market",
        td.sum(x**2) / td.sum(x) ** 2,
        x,
        2 * (x - td.sum(x**2) / td.sum(x)) / td.sum(x) ** 2,
        **POSITIVE,
    ),
    Form(
        "times of travel on roads",
        S(u[i] * (x[i] + b * x[i] ** 5 / (5 * v[i] ** 4)), I),
        x[p],
        u[p] * (1 + b * (x[p] / v[p]) ** 4),
        **POSITIVE,
    ),
    Form(
        "delay in queues",
        S(x[i] / (v[i] - x[i]), I),
        x[p],
        v[p] / (v[p] - x[p]) ** 2,
        low=0.3,
        high=0.9,
        raised=v,
    ),
]

LIFE = [
    Form(
        "stock and recruits by the crowding",
        S((log(y[i]) - log(x[i]) - a + b * x[i]) ** 2, I) / 2,
        b,
        S((log(y[i]) - log(x[i]) - a + b * x[i]) * x[i], I),
        **POSITIVE,
    ),
    Form(
        "growth to a limit by the rate",
        S((y[i] - K / (1 + exp(-r * (x[i] - c)))) ** 2, I) / 2,
        K,
        -S((y[i] - K / (1 + exp(-r * (x[i] - c)))) / (1 + exp(-r * (x[i] - c))), I),
        **POSITIVE,
    ),
    Form(
        "growth of Gompertz",
        S((y[i] - a * exp(-b * exp(-c * x[i]))) ** 2, I) / 2,
        b,
        a * S((y[i] - a * exp(-b * exp(-c * x[i]))) * exp(-b * exp(-c * x[i])) * exp(-c * x[i]), I),
        **POSITIVE,
    ),
    Form(
        "mean fitness",
        td.dot(x, A @ x) / td.sum(x) ** 2,
        x,
        ((A + A.T) @ x - 2 * td.dot(x, A @ x) / td.sum(x)) / td.sum(x) ** 2,
        **POSITIVE,
    ),
    Form(
        "spikes with history",
        td.sum(td.exp(A @ x + y) - u * (A @ x + y)),
        x,
        A.T @ (td.exp(A @ x + y) - u),
    ),
    Form(
        "energy of a network of rates",
        -td.dot(td.tanh(x), A @ td.tanh(x)) / 2,
        x,
        -(1 - td.tanh(x) ** 2) * ((A + A.T) @ td.tanh(x)) / 2,
    ),
    Form(
        "diversity",
        -S(x[i] / S(x[j], J) * log(x[i] / S(x[j], J)), I),
        x[p],
        -(log(x[p] / S(x[j], J)) - S(x[i] * log(x[i] / S(x[j], J)), I) / S(x[j], J)) / S(x[j], J),
        **POSITIVE,
    ),
    Form(
        "channel by its inputs",
        S(x[i] * G[i, k] * log(G[i, k] / S(x[j] * G[j, k], J)), E, I),
        x[p],
        S(G[p, k] * log(G[p, k] / S(x[j] * G[j, k], J)), E)
        - S(G[p, k] * S(x[i] * G[i, k], I) / S(x[j] * G[j, k], J), E),
        **POSITIVE,
    ),
]

distance = sqrt(square(i, j))
near = N(C(distance, (i, n), (j, n)), "r")
CURVES = [
    Form(
        "smoothing kernel of two branches",
        S(
            Piecewise(
                (1 - distance**2 / 2 + distance**3, distance < 1),
                ((2 - distance) ** 3 / 4, distance < 2),
                (0, True),
            ),
            J,
            I,
        ),
        X[p, q],
        -2
        * S(
            Piecewise(
                (1 - 3 * near[p, j], near[p, j] < 1),
                (3 * (2 - near[p, j]) ** 2 / (4 * near[p, j]), near[p, j] < 2),
                (0, True),
            )
            * (X[p, q] - X[j, q]),
            J,
        ),
        low=0.1,
        high=1.8,
    ),
    Form(
        "barrier of balls",
        S(w[i] * log(1 - S(X[i, k] ** 2, L)), I),
        X[p, q],
        -2 * w[p] * X[p, q] / (1 - S(X[p, k] ** 2, L)),
        low=-0.4,
        high=0.4,
    ),
    Form(
        "neighbourhood components",
        S(D[i, j] * exp(-square(i, j)), J, I),
        X[p, q],
        -2 * S((D[p, j] + D[j, p]) * exp(-square(p, j)) * (X[p, q] - X[j, q]), J),
    ),
    Form(
        "layout by attraction",
        S(only(D[i, j] * log(1 + a * square(i, j) ** b), Ne(i, j)), J, I),
        X[p, q],
        2
        * a
        * b
        * S(
            only(
                (D[p, j] + D[j, p]) * square(p, j) ** (b - 1) * (X[p, q] - X[j, q]) / (1 + a * square(p, j) ** b),
                Ne(p, j),
            ),
            J,
        ),
    ),
    Form(
        "probit regression",
        -S(log((1 + erf(y[i] * S(X[i, k] * weights[k], L) / sqrt(2))) / 2), I),
        weights[p],
        -sqrt(2 / pi)
        * S(
            y[i]
            * X[i, p]
            * exp(-(y[i] ** 2) * S(X[i, k] * weights[k], L) ** 2 / 2)
            / (1 + erf(y[i] * S(X[i, k] * weights[k], L) / sqrt(2))),
            I,
        ),
        low=-0.8,
        high=0.8,
    ),
    Form(
        "discriminant ratio",
        td.dot(x, A @ x) / td.dot(x, B @ x),
        x,
        ((A + A.T) @ x - td.dot(x, A @ x) / td.dot(x, B @ x) * ((B + B.T) @ x)) / td.dot(x, B @ x),
        low=0.3,
        high=1.5,
    ),
    Form(
        "matrix sensing",
        td.sum((td.einsum("mij,ik,jk->m", Q, X, X) - e) ** 2) / 2,
        X,
        td.einsum("m,mij,jk->ik", td.einsum("mij,ik,jk->m", Q, X, X) - e, Q, X)
        + td.einsum("m,mji,jk->ik", td.einsum("mij,ik,jk->m", Q, X, X) - e, Q, X),
    ),
    Form(
        "radial functions by their centres",
        td.sum((G @ g - y) ** 2) / 2 + al * td.sum(td.exp(-(G**2))),
        G,
        td.outer(G @ g - y, g) - 2 * al * G * td.exp(-(G**2)),
    ),
    Form(
        "truss",
        S(A[i, j] * (square(i, j) - B[i, j] ** 2) ** 2, J, I) / 8,
        X[p, q],
        S((A[p, j] * (square(p, j) - B[p, j] ** 2) + A[j, p] * (square(p, j) - B[j, p] ** 2)) * (X[p, q] - X[j, q]), J)
        / 2,
    ),
]

FORMS = [*CHEMISTRY, *MEDICINE, *OPTICS, *EARTH, *ECONOMICS, *LIFE, *CURVES]
