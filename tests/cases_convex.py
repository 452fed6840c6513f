"""Convex functions as users write them, and relatives that are not convex: function, variables, domain.

The domain is the tuple of what is positive, or the keywords of `certify_convex`.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Max, Min, Piecewise, Rational

import sympy_tensordiff as td

n, m, k, i, j = td.indices("n m k i j")
X, A, B = td.TensorSymbol("X", (n, m)), td.TensorSymbol("A", (m, m)), td.TensorSymbol("B", (m, m))
x, u, c, d, y, b = (td.TensorSymbol(s, e) for s, e in zip("xucdyb", (m, m, m, m, n, n), strict=True))
W, Y, C = td.TensorSymbol("W", (m, k)), td.TensorSymbol("Y", (n, k)), td.TensorSymbol("C", (m, k))
S = td.TensorSymbol("S", (m, m), positive=True)
T = td.TensorSymbol("T", (m, m), symmetric=True)
z = X @ x
table = td.TensorSymbol("table", m, dtype=int, below=m)
P, Q = td.TensorSymbol("P", (m, m), positive=True), td.TensorSymbol("Q", (m, m), positive=True)
lam, p = sympy.symbols("lam p", positive=True)
q = sympy.Symbol("q", integer=True, positive=True)
u_ = sympy.Symbol("u", real=True)
s, t, r = sympy.symbols("s t r", real=True)
half = Rational(1, 2)

# The differentiable atoms of cvxpy and the papers' examples, as users write them: function, variables, positive ones.
CONVEX = {
    "least squares": (td.sum((z - y) ** 2), x, ()),
    "ridge": (td.sum((z - y) ** 2) + lam * td.dot(x, x), x, ()),
    "logistic": (td.sum(td.softplus(z)) - td.dot(y, z), x, ()),
    "logistic, written out": (td.sum(td.log(1 + td.exp(z))), x, ()),
    "logistic, margin": (td.sum(td.log(1 + td.exp(-y * z))), x, ()),
    "Poisson": (td.sum(td.exp(z)) - td.dot(y, z), x, ()),
    "exponential loss": (td.sum(td.exp(-y * z)), x, ()),
    "logsumexp": (td.logsumexp(z), x, ()),
    "logsumexp, written out": (td.log(td.sum(td.exp(z))), x, ()),
    "entropy": (td.sum(x * td.log(x)), x, (x,)),
    "minus log": (-td.sum(td.log(x)), x, (x,)),
    "relative entropy": (td.sum(x * td.log(x / c)), x, (x, c)),
    "inverse": (td.sum(1 / x), x, (x,)),
    "cube": (td.sum(x**3), x, (x,)),
    "fourth power": (td.sum(x**4), x, ()),
    "power 3/2": (td.sum(x ** Rational(3, 2)), x, (x,)),
    "minus root": (-td.sum(td.sqrt(x)), x, (x,)),
    "smooth norm": (td.sqrt(td.dot(x, x) + 1), x, ()),
    "pseudo-Huber": (td.sum(td.sqrt(1 + (z - y) ** 2)), x, ()),
    "log cosh": (td.sum(td.log(td.cosh(z - y))), x, ()),
    "cosh": (td.sum(td.cosh(x)), x, ()),
    "quadratic form": (td.dot(x, A @ A.T @ x), x, ()),
    "quadratic over linear": (td.dot(x, x) / td.sum(c), x, (c,)),
    "softplus squared": (td.sum(td.softplus(z) ** 2), x, ()),
    "exp of a square": (td.exp(td.dot(x, x)), x, ()),
    "minus geometric mean": (-td.exp(td.sum(td.log(x)) / m), x, (x,)),
    "x log x - x + c": (td.sum(x * td.log(x) - x + c), x, (x, c)),
    "inverse product": (td.exp(-td.sum(td.log(x))), x, (x,)),
    "smooth hinge": (td.sum(td.softplus(1 - y * z)) + lam * td.dot(x, x), x, ()),
    "power 3/2 of 1 + x**2": (td.sum((x**2 + 1) ** Rational(3, 2)), x, ()),
    "exp minus log": (td.sum(td.exp(x) - td.log(x)), x, (x,)),
    # matrices and tensors of higher order as variables
    "matrix least squares": (td.sum((X @ W - Y) ** 2), W, ()),
    "softmax regression": (td.sum(td.logsumexp(X @ W, axis=1)) - td.sum(Y * (X @ W)), W, ()),
    "cross entropy": (-td.sum(Y * td.log(td.softmax(X @ W, axis=1))), W, (Y,)),
    "trace W'W": (td.trace(W.T @ W), W, ()),
    "trace W'SW": (td.trace(W.T @ S @ W), W, ()),
    "minus log det": (-td.logdet(S), S, ()),
    "Gauss": (td.trace(A @ S) - td.logdet(S), S, ()),
    "trace of the inverse": (td.trace(td.inv(S)), S, ()),
    "matrix fractional": (td.dot(x, td.solve(S, x)), (x, S), ()),
    "inverse determinant": (1 / td.det(S), S, ()),
    "matrix entropy": (td.sum(W * td.log(W)), W, (W,)),
    # jointly, index notation, products, p-norms
    "quadratic over linear, jointly": (td.dot(x, x) / td.sum(c), (x, c), (c,)),
    "Kullback-Leibler": (td.sum(x * td.log(x / c)), (x, c), (x, c)),
    "total squares": (td.IndexedSum((x[i + 1] - x[i]) ** 2, (i, 0, m - 2)), x, ()),
    "geometric mean": (-(td.prod(x) ** (1 / m)), x, (x,)),
    "3-norm": (td.sum(x**3) ** Rational(1, 3), x, (x,)),
    "log sum cosh": (td.log(td.sum(td.cosh(x))), x, ()),
    "barrier": (-td.sum(td.log(b - z)), x, ()),
    "variance": (td.var(x), x, ()),
    "definite quadratic": (td.sum(x**2 - x * u + u**2), (x, u), ()),
    # kinks
    "norm": (td.norm(z - y), x, ()),
    "sum of norms": (td.IndexedSum(td.sqrt(td.IndexedSum(W[i, j] ** 2, (j, 0, k - 1))), (i, 0, m - 1)), W, ()),
    "hinge": (td.sum(td.relu(1 - y * z)), x, ()),
    "1-norm": (td.sum(abs(z - y)), x, ()),
    "total variation": (td.IndexedSum(abs(x[i + 1] - x[i]), (i, 0, m - 2)), x, ()),
    "maximum": (td.max(z), x, ()),
    "maximum of convex": (Max(s**2, 1 - s, sympy.exp(s)), s, ()),
    "squared hinge": (td.sum(td.relu(z) ** 2), x, ()),
    "log sum exp of kinks": (td.logsumexp(abs(z - y)), x, ()),
    "log sum exp, jointly": (td.logsumexp(x - u) + td.logsumexp(td.exp(z) - z), (x, u), ()),
    "exp of a norm": (td.exp(td.norm(x)), x, ()),
    # powers of norms and absolute values, p-norms, forms under roots
    "cube of a norm": (td.norm(z - y) ** 3, x, ()),
    "power 3/2 of a norm": (td.norm(x) ** Rational(3, 2), x, ()),
    "cubes of absolute values": (td.sum(abs(z - y) ** 3), x, ()),
    "powers 3/2 of absolute values": (td.sum(abs(x) ** Rational(3, 2)), x, ()),
    "3-norm of anything": (td.norm(x, 3), x, ()),
    "4-norm": (td.norm(x, 4), x, ()),
    "4-norm, cubed": (td.norm(x, 4) ** 3, x, ()),
    "infinity norm": (td.norm(x, sympy.oo), x, ()),
    "p-norm": (td.sum(abs(x) ** p) ** (1 / p), x, {"bounds": {p: (1, None)}}),
    "root of a form": (td.sqrt(td.dot(x, S @ x)), x, ()),
    "standard deviation": (td.std(x), x, ()),
    "harmonic mean": (-1 / td.sum(1 / x), x, (x,)),
    "square times absolute value": (td.sum(x * abs(x)), x, (x,)),
    # proofs of signs by a derivative, sines, concave arguments of logarithms
    "complementary log-log": (-td.sum(td.log(1 - td.exp(-td.exp(z)))), x, ()),
    "complementary log-log, margin": (-td.sum(td.log(1 - td.exp(-td.exp(-y * z)))), x, ()),
    "minus sine": (-td.sum(td.sin(x)), x, {"bounds": {x: (0, sympy.pi)}}),
    "minus cosine": (-td.sum(td.cos(2 * x)), x, {"bounds": {x: (-sympy.pi / 4, sympy.pi / 4)}}),
    "barrier of a ball": (-td.log(1 - td.dot(x, x)), x, ()),
    "root of a ball": (-td.sqrt(4 - td.dot(x, x)), x, ()),
    # in pieces
    "Huber": (td.IndexedSum(Piecewise((x[i] ** 2 / 2, abs(x[i]) < 1), (abs(x[i]) - half, True)), (i, 0, m - 1)), x, ()),
    "Huber, any width": (
        Piecewise((s**2 / 2, abs(s - t) < lam), (lam * abs(s) - lam**2 / 2, True)).xreplace({t: 0}),
        s,
        (),
    ),
    "smooth hinge, in pieces": (
        *(Piecewise((half - r * s, r * s <= 0), ((1 - r * s) ** 2 / 2, r * s < 1), (0, True)), s, ()),
    ),
    "half a square": (Piecewise((0, s < t), ((s - t) ** 2, True)), (s), ()),
    "logarithm and its tangent": (Piecewise((-sympy.log(s), s < 1), (1 - s, True)), s, (s,)),
    "Huber of a convex scalar": (Piecewise((u_**2, u_ < 2), (4 * u_ - 4, True)).xreplace({u_: sympy.cosh(s)}), s, ()),
    # matrices
    "residual of matrices, squared": (td.norm(X @ W - Y) ** 2, W, ()),
    "residual of matrices": (td.norm(X @ W - Y), W, ()),
    "inverse between definite matrices": (td.trace(S @ td.inv(P)), P, ()),
    "inverse and definite matrix, entries": (td.sum(S * td.inv(P)), P, ()),
    "inverse and two definite matrices": (td.sum(S * Q * td.inv(P)), P, ()),
    "scaled inverse": (td.dot(x, (S * td.inv(P)) @ x), (x, P), ()),
    "inverse of a sum": (td.dot(x, td.inv(S + P) @ x), (x, S), ()),
    "inverse of a sum, jointly": (td.dot(x, td.inv(S + 2 * P) @ x), (x, S, P), ()),
    "inverse with a ridge": (td.trace(W.T @ td.inv(S + lam * td.eye(m)) @ W), (W, S), ()),
    "definite matrix and inverse of a sum": (td.trace(Q @ td.inv(2 * P + S)), (P, S), ()),
    "squared weights": (td.dot(c**2 * x, td.inv(P) @ (c**2 * x)), (x, P), ()),
    "squared weights, form": (td.sum(S * td.outer(c**2 * x, c**2 * x)), x, ()),
    "log-determinant of the inverse": (td.logdet(td.inv(S)), S, ()),
    "determinant of the inverse": (td.det(td.inv(S)), S, ()),
    "minus log-determinant of a difference": (-td.logdet(2 * S - P), (S, P), ()),
    "minus log-determinant along a line": (-td.logdet(S + t * P), t, ()),
    "trace of the cube": (td.trace(S @ S @ S), S, ()),
    "minus harmonic mean": (-1 / td.trace(td.inv(S)), S, ()),
    "minus parallel sum": (-1 / td.trace(td.inv(S + P)), S, ()),
    "log of the trace of the inverse": (td.log(td.trace(td.inv(S))), S, ()),
    "matrix fractional, matrices": (td.trace(W.T @ td.solve(S, W)), (W, S), ()),
    "square of matrix fractional": (td.dot(x, td.solve(S, x)) ** 2, (x, S), ()),
    "form in a definite matrix": (td.trace(P @ S @ P @ S), S, ()),
    "log det plus square": (td.norm(S - T) ** 2 - td.logdet(S), S, ()),
    "squares over a scalar": (td.sum(W**2) / lam, (W, lam), ()),
}

NOT_CONVEX = {
    "cube": (td.sum(x**3), x, ()),
    "sine": (td.sum(td.sin(x)), x, ()),
    "double well": (td.dot(x, x) ** 2 - td.dot(x, x), x, ()),
    "tanh": (td.sum(td.tanh(z)), x, ()),
    "sigmoid": (td.sum(td.sigmoid(z)), x, ()),
    "Cauchy": (td.sum(td.log(1 + (z - y) ** 2)), x, ()),
    "log": (td.sum(td.log(x)), x, (x,)),
    "log of squares": (-td.sum(td.log(x**2)), x, ()),
    "inverse square": (td.sum(1 / x**2), x, ()),
    "inverse": (td.sum(1 / x), x, ()),
    "bump": (td.exp(-td.dot(x, x)), x, ()),
    "exp of minus a norm": (td.exp(-td.norm(x)), x, ()),
    "distance from a sphere": ((td.norm(x) - 1) ** 2, x, ()),
    "factorization": (td.sum((X @ W - Y) ** 2), (X, W), ()),
    "bilinear": (td.dot(x, A @ u), (x, u), ()),
    "indefinite form": (td.dot(x, A @ x), x, ()),
    "symmetric form": (td.dot(x, T @ x), x, ()),
    "log det": (td.logdet(S), S, ()),
    "determinant": (td.det(S), S, ()),
    "smallest": (td.min(z), x, ()),
    "abs of a difference": (abs(s**2 - 1), s, ()),
    "Rosenbrock": (td.IndexedSum((x[i + 1] - x[i] ** 2) ** 2, (i, 0, m - 2)), x, ()),
    "square over anything": (s**2 / t, (s, t), ()),
    "indefinite quadratic": (td.sum(x**2 - 3 * x * u + u**2), (x, u), ()),
    "log of 1 + squares": (td.log(1 + td.dot(x, x)), x, ()),
    "inverse of a difference": (td.dot(x, td.inv(S - P) @ x), (x, S), ()),
    "log-determinant of a difference": (td.logdet(2 * S - P), S, ()),
    "determinant of a difference": (-td.det(2 * S - P), S, ()),
    "cube of definite matrices, jointly": (td.trace(P @ S @ S), (S, P), ()),
    "cube of any symmetric matrix": (td.trace(T @ T @ T), T, ()),
    "definite form, jointly": (td.dot(x, S @ x), (x, S), ()),
    "inverse and any matrix": (td.sum(A * td.inv(P)), P, ()),
    "inverse of a matrix fractional": (-1 / td.dot(x, td.inv(S) @ x), (x, S), ()),
    "trace of the inverse of any matrix": (td.trace(td.inv(A)), A, ()),
    "inverse form of a symmetric matrix": (td.dot(x, td.solve(T, x)), T, ()),
    "entropy of anything but positive": (td.sum(abs(x) * td.log(1 + x**2)), x, ()),
    # domains: holes, numbers without roots and logarithms, sizes and parameters without signs, empty ranges
    "log of a negative number": (sympy.log(-1 - s**2), s, ()),
    "root of a negative number": (sympy.sqrt(-1 - s**2), s, ()),
    "barrier of the outside": (-td.log(td.dot(x, x) - 1), x, ()),
    "power of the outside": ((td.dot(x, x) - 1) ** Rational(3, 2), x, ()),
    "pole in a ball": (1 / (1 - td.dot(x, x)), x, ()),
    "times a difference of sizes": ((n - m) * s**2, s, ()),
    "times a size minus 2": ((n - 2) * s**2, s, ()),
    "times a parameter": (td.sum(d * td.relu(x)), x, ()),
    "times a symbol that is an index elsewhere": (
        *(i * td.IndexedSum(x[i] ** 2, (i, 0, m - 1)) + td.IndexedSum(x[j] ** 2, (j, 0, m - 1)), x, ()),
    ),
    "any integer power": (td.sum(x**q), x, ()),
    "any power": (td.sum(x**p), x, (x,)),
    "inverse of an empty sum": (1 / td.IndexedSum(x[i], (i, 1, m - 1)), x, (x,)),
    "logarithm of an empty sum": (td.log(td.IndexedSum(td.exp(x[i]), (i, 2, m - 1))), x, ()),
    "square of an empty maximum": (td.IndexedMax(x[i], (i, 1, m - 1)) ** 2, x, (x,)),
    "product of entries by an index array": (td.IndexedSum(x[table[i]] * x[i], (i, 0, m - 1)), x, ()),
    # kinks with the wrong sign, maxima and minima mixed
    "minus an absolute value": (-abs(s), s, ()),
    "minus the root of a square": (-sympy.sqrt(s**2 + t**2), (s, t), ()),
    "difference of hinges": (td.relu(s) - td.relu(s - 1), s, ()),
    "maximum of a minimum": (Max(Min(s, 1), -t), (s, t), ()),
    "square of a minimum": (Min(s, t) ** 2, (s, t), ()),
    "absolute value of a maximum": (abs(Max(s, -1)), s, ()),
    "product of hinges": (Max(s, 0) * Max(t, 0), (s, t), ()),
    "cube of a kink in a kink": (abs(abs(s) - 1) ** 3, s, ()),
    "root of an absolute value": (td.sum(td.sqrt(abs(x))), x, ()),
    "cube with its sign": (td.sum(x * abs(x)), x, ()),
    "root of a norm": (td.sqrt(td.norm(x)), x, ()),
    "minus a 4-norm": (-td.norm(x, 4), x, ()),
    "half a 4-norm": (td.sum(x**4) ** Rational(1, 8), x, ()),
    "norm of squares": (td.norm(x**2 - 1), x, ()),
    "quasinorm": (td.sum(td.sqrt(abs(x))) ** 2, x, ()),
    "p-norm, any p": (td.sum(abs(x) ** p) ** (1 / p), x, ()),
    "minus the root of a form": (-td.sqrt(td.dot(x, S @ x)), x, ()),
    "root of any form": (td.sqrt(td.dot(x, T @ x)), x, ()),
    "logarithm of a form": (-td.log(td.dot(x, S @ x)), x, ()),
    # products and perspectives of convex ones
    "product of convex ones": (td.dot(x, x) * td.exp(td.sum(x)), x, ()),
    "product of squares": (s**2 * t**2, (s, t), ()),
    "perspective without a sign": (t * sympy.exp(s / t), (s, t), ()),
    "perspective off by one": (td.dot(x, x) / (s - 1), (x, s), (s,)),
    "norm over a sum": (td.norm(x) / td.sum(u), (x, u), (u,)),
    "concave of too high a degree": (-((s * t) ** Rational(2, 3)), (s, t), (s, t)),
    # sines and signs by derivatives
    "minus sine, too far": (-td.sum(td.sin(x)), x, {"bounds": {x: (0, 4)}}),
    "minus sine, twice as fast": (-td.sum(td.sin(2 * x)), x, {"bounds": {x: (0, 3)}}),
    "minus sine, shifted": (-td.sum(td.sin(x + 1)), x, {"bounds": {x: (0, 3)}}),
    "minus sine, shifted by anything": (-td.sum(td.sin(x + c)), x, {"bounds": {x: (0, 1)}}),
    "cosine": (td.sum(td.cos(x)), x, {"bounds": {x: (0, sympy.pi)}}),
    "Gumbel": (td.sum(td.exp(-td.exp(z))), x, ()),
    "complementary log-log of squares": (-td.sum(td.log(1 - td.exp(-(z**2)))), x, ()),
    # pieces
    "hole in a piece": (Piecewise((s**-2, abs(s) < 1), (3 - 2 * abs(s), True)), s, ()),
    "quotient by Huber": (1 / Piecewise((s**2 / 2, abs(s) < 1), (abs(s) - half, True)) ** 2, s, ()),
    "jump": (Piecewise((s, s < 0), (s + 1, True)), s, ()),
    "jump at a point": (Piecewise((s, s < 0), (s, s > 0), (5, True)), s, ()),
    "corner": (Piecewise((2 * s, s < 0), (s, True)), s, ()),
    "corner of a multiple": (r * Piecewise((s**2, s < 0), (0, True)), s, ()),
    "pieces in no order": (Piecewise((0, s < t), (s - r, True)), s, ()),
    "pieces of another variable": (Piecewise((s**2, t < 0), (s**2 + t**3, True)), (s, t), ()),
    "Huber, width without a sign": (Piecewise((s**2 / 2, abs(s) < r), (r * abs(s) - r**2 / 2, True)), s, ()),
    "piece without a value": (Piecewise((-sympy.log(s), s < 1), (1 - s, True)), s, ()),
    "Huber of a scalar of both signs": (
        *(Piecewise((u_**2, abs(u_) < 1), (2 * abs(u_) - 1, True)).xreplace({u_: s**2 - 2}), s, ()),
    ),
    # matrices
    "determinant of a definite matrix, negative": (-td.det(S), S, ()),
    "log det of any square": (-td.logdet(A @ A.T), A, ()),
    "trace of a square": (td.trace(A @ A), A, ()),
    "inverse of a definite matrix, any weight": (td.trace(A @ td.inv(S)), S, ()),
    "form of a symmetric matrix": (td.trace(W.T @ T @ W), W, ()),
}


def certified(function: Any, variables: Any, domain: Any, **options: Any) -> Any:
    """The certificate of a row."""
    declared = domain if isinstance(domain, dict) else {"positive": domain}
    return td.certify_convex(function, variables, **declared, **options)
