"""Derivatives of whole tensors in control, communications, statistics, kernels, networks and decompositions; the forms
were written before ours were looked at."""

import sympy
from corpus_forms import Form, vectors

import sympy_tensordiff as td

n, m, d = td.indices("n m d")
al, be, ga, la, si, ta, eps = sympy.symbols("alpha beta gamma lamda sigma tau epsilon", positive=True)
x, y, u, v, w = vectors("x y u v w", n)
e, f = vectors("e f", m)
A, B, Q = (td.TensorSymbol(name, (n, n)) for name in "ABQ")
S, R = (td.TensorSymbol(name, (n, n), symmetric=True, positive=True) for name in "SR")
X, Y, Z, M = (td.TensorSymbol(name, (n, d)) for name in "XYZM")
H, G, W = (td.TensorSymbol(name, (n, m)) for name in "HGW")
U, V = (td.TensorSymbol(name, (m, d)) for name in "UV")
K = td.TensorSymbol("K", (m, n))
I, ID, IM = td.DeltaTensor(n), td.DeltaTensor(d), td.DeltaTensor(m)
POSITIVE = {"low": 0.3, "high": 1.5}


def squares(tensor):
    return td.sum(tensor**2)


CONTROL = [
    Form(
        "feedback by its gain",
        td.trace((A - H @ K) @ S @ (A - H @ K).T),
        K,
        -2 * H.T @ (A - H @ K) @ S,
    ),
    Form(
        "Lyapunov residual",
        squares(A @ S + S @ A.T + R) / 2,
        A,
        2 * (A @ S + S @ A.T + R) @ S,
    ),
    Form(
        "dynamic modes",
        squares(Y - A @ X) / 2,
        A,
        (A @ X - Y) @ X.T,
    ),
    Form(
        "observer by its gain",
        squares(A @ x + W @ (e - K @ x) - y) / 2,
        W,
        td.outer(A @ x + W @ (e - K @ x) - y, e - K @ x),
    ),
    Form(
        "two steps of a linear system",
        squares(A @ (A @ x) - y) / 2,
        A,
        td.outer(A @ (A @ x) - y, A @ x) + td.outer(A.T @ (A @ (A @ x) - y), x),
    ),
    Form(
        "gain of a filter",
        td.trace((I - W @ K) @ S @ (I - W @ K).T + al * W @ W.T),
        W,
        2 * (al * W - (I - W @ K) @ S @ K.T),
    ),
]

CHANNELS = [
    Form(
        "capacity of a channel by its inputs",
        td.logdet(I + H @ H.T / si),
        H,
        2 * td.inv(I + H @ H.T / si) @ H / si,
    ),
    Form(
        "capacity of a channel by powers",
        td.logdet(I + H @ td.diag(e) @ H.T),
        e,
        td.einsum("ij,ik,kj->j", H, td.inv(I + H @ td.diag(e) @ H.T), H),
        **POSITIVE,
    ),
    Form(
        "signal to noise of a beam",
        td.dot(w, v) ** 2 / td.dot(w, S @ w),
        w,
        2 * td.dot(w, v) / td.dot(w, S @ w) * (v - td.dot(w, v) / td.dot(w, S @ w) * (S @ w)),
        raised=S,
        **POSITIVE,
    ),
    Form(
        "equaliser",
        td.trace(IM - K @ W - W.T @ K.T + K @ (W @ W.T + si * I) @ K.T),
        K,
        2 * (K @ (W @ W.T + si * I) - W.T),
    ),
    Form(
        "sum of rates",
        td.sum(td.log(1 + x * u / (si + v))),
        x,
        u / (si + v + x * u),
        **POSITIVE,
    ),
]

STATISTICS = [
    Form(
        "Stein's loss",
        td.trace(td.inv(S) @ R) + td.logdet(S),
        S,
        td.inv(S) - td.inv(S) @ R @ td.inv(S),
        raised=S,
    ),
    Form(
        "shrinkage of a covariance",
        squares(la * A + (1 - la) * B - Q),
        la,
        2 * td.sum((A - B) * (la * A + (1 - la) * B - Q)),
    ),
    Form(
        "matrix normal by its mean",
        td.trace(td.inv(S) @ (X - M) @ (X - M).T) / 2,
        M,
        -td.inv(S) @ (X - M),
        raised=S,
    ),
    Form(
        "probabilistic components by the noise",
        td.logdet(W @ W.T + si * I) / 2 + td.dot(x, td.inv(W @ W.T + si * I) @ x) / 2,
        W,
        td.inv(W @ W.T + si * I) @ W - td.outer(td.inv(W @ W.T + si * I) @ x, td.inv(W @ W.T + si * I) @ x) @ W,
    ),
    Form(
        "reduced rank regression",
        squares(Z - H @ U) / 2,
        H,
        (H @ U - Z) @ U.T,
    ),
    Form(
        "partial correlation",
        td.dot(x, v) / td.sqrt(td.dot(x, x) * td.dot(v, v)),
        x,
        v / td.sqrt(td.dot(x, x) * td.dot(v, v))
        - td.dot(x, v) * x / (td.dot(x, x) * td.sqrt(td.dot(x, x) * td.dot(v, v))),
    ),
    Form(
        "errors in variables",
        squares(A @ x - y) / (1 + td.dot(x, x)),
        x,
        2 * (A.T @ (A @ x - y) - squares(A @ x - y) * x / (1 + td.dot(x, x))) / (1 + td.dot(x, x)),
    ),
    Form(
        "linear mixed effects",
        td.dot(y - H @ e, td.inv(S) @ (y - H @ e)) / 2,
        e,
        -H.T @ td.inv(S) @ (y - H @ e),
        raised=S,
    ),
    Form(
        "weighted mean of squares",
        td.sum(w * (y - H @ e) ** 2) / td.sum(w),
        w,
        ((y - H @ e) ** 2 - td.sum(w * (y - H @ e) ** 2) / td.sum(w)) / td.sum(w),
        **POSITIVE,
    ),
]

KERNELS = [
    Form(
        "kernel of inner products",
        squares((X @ X.T + al) ** 2 - A) / 4,
        X,
        (((X @ X.T + al) ** 2 - A) * (X @ X.T + al) + (((X @ X.T + al) ** 2 - A) * (X @ X.T + al)).T) @ X,
    ),
    Form(
        "sparse features",
        squares(td.relu(X @ V.T) - G) / 2,
        V,
        (td.where(td.greater(X @ V.T, 0), td.relu(X @ V.T) - G, 0)).T @ X,
    ),
    Form(
        "random features",
        squares(td.cos(X @ V.T) @ f - y) / 2,
        V,
        -(td.sin(X @ V.T) * td.outer(td.cos(X @ V.T) @ f - y, f)).T @ X,
    ),
    Form(
        "mean embedding of a product kernel",
        td.sum(td.exp(X @ Z.T)),
        X,
        td.exp(X @ Z.T) @ Z,
        low=-1.0,
        high=1.0,
    ),
    Form(
        "centred alignment",
        td.sum(A * (X @ X.T)) / td.norm(X @ X.T),
        X,
        (A + A.T) @ X / td.norm(X @ X.T) - 2 * td.sum(A * (X @ X.T)) * (X @ X.T @ X) / td.norm(X @ X.T) ** 3,
    ),
    Form(
        "Nystrom",
        td.trace(H @ td.inv(H.T @ H + al * IM) @ H.T),
        H,
        2 * al * H @ td.inv(H.T @ H + al * IM) @ td.inv(H.T @ H + al * IM),
    ),
]

NETWORKS = [
    Form(
        "orthogonal weights",
        squares(H.T @ H - IM) / 4,
        H,
        H @ (H.T @ H - IM),
    ),
    Form(
        "temporal difference",
        squares(x + ga * (A @ v) - v) / 2,
        v,
        ga * A.T @ (x + ga * (A @ v) - v) - (x + ga * (A @ v) - v),
    ),
    Form(
        "mixture of two networks",
        squares(td.sigmoid(A @ x) * (B @ x) - y) / 2,
        B,
        td.outer(td.sigmoid(A @ x) * (td.sigmoid(A @ x) * (B @ x) - y), x),
    ),
    Form(
        "two hidden layers",
        squares(K @ td.tanh(A @ td.tanh(B @ x)) - e) / 2,
        A,
        td.outer(
            (1 - td.tanh(A @ td.tanh(B @ x)) ** 2) * (K.T @ (K @ td.tanh(A @ td.tanh(B @ x)) - e)), td.tanh(B @ x)
        ),
    ),
    Form(
        "penalty on the gradient of a layer",
        squares(K.T @ (f * td.sigmoid(K @ x))) / 2,
        f,
        td.sigmoid(K @ x) * (K @ (K.T @ (f * td.sigmoid(K @ x)))),
    ),
    Form(
        "knowledge of relations",
        td.sum(td.softplus(-w * td.sum(X * Y * Z, axis=1))),
        X,
        -td.diag(w * td.sigmoid(-w * td.sum(X * Y * Z, axis=1))) @ (Y * Z),
    ),
    Form(
        "mixing of tokens",
        squares(td.tanh(A @ X) - Y) / 2,
        X,
        A.T @ ((td.tanh(A @ X) - Y) * (1 - td.tanh(A @ X) ** 2)),
    ),
    Form(
        "modulated features",
        squares(X * u[:, None] + v[:, None] - Y) / 2,
        u,
        td.sum(X * (X * u[:, None] + v[:, None] - Y), axis=1),
    ),
    Form(
        "dropout of rows",
        squares(A @ (X * u[:, None]) - Y) / 2,
        X,
        td.diag(u) @ A.T @ (A @ (X * u[:, None]) - Y),
    ),
    Form(
        "soft assignment",
        td.sum(td.softmax(X, axis=1) * Y),
        X,
        td.softmax(X, axis=1) * (Y - td.sum(td.softmax(X, axis=1) * Y, axis=1)[:, None]),
    ),
]

DECOMPOSITIONS = [
    Form(
        "robust components",
        td.sum(td.sqrt((X - H @ U) ** 2 + eps)),
        H,
        -((X - H @ U) / td.sqrt((X - H @ U) ** 2 + eps)) @ U.T,
        **POSITIVE,
    ),
    Form(
        "three factors",
        squares(X - A @ H @ U) / 2,
        H,
        -A.T @ (X - A @ H @ U) @ U.T,
    ),
    Form(
        "binary matrix",
        td.sum(td.softplus(H @ U) - X * (H @ U)),
        U,
        H.T @ (td.sigmoid(H @ U) - X),
    ),
    Form(
        "smooth factors",
        squares(X - H @ U) / 2 + al * td.trace(H.T @ S @ H) / 2,
        H,
        (H @ U - X) @ U.T + al * S @ H,
    ),
    Form(
        "similar factors of two tables",
        squares(A - X @ X.T) / 4 + squares(X - Y) / 2,
        X,
        X @ X.T @ X - (A + A.T) @ X / 2 + X - Y,
    ),
    Form(
        "product of a matrix with its inverse",
        td.trace(td.inv(A) @ B @ A @ Q),
        A,
        (Q @ td.inv(A) @ B).T - (td.inv(A) @ B @ A @ Q @ td.inv(A)).T,
        raised=A,
    ),
    Form(
        "determinant of a Gram matrix",
        td.det(H.T @ H),
        H,
        2 * td.det(H.T @ H) * H @ td.inv(H.T @ H),
    ),
    Form(
        "generalised quotient",
        td.trace(td.inv(H.T @ R @ H) @ H.T @ S @ H),
        H,
        2 * (S @ H - R @ H @ td.inv(H.T @ R @ H) @ H.T @ S @ H) @ td.inv(H.T @ R @ H),
        raised=R,
    ),
]

FORMS = [*CONTROL, *CHANNELS, *STATISTICS, *KERNELS, *NETWORKS, *DECOMPOSITIONS]
