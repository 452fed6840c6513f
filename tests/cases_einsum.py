"""Functions of whole tensors with derivatives known in closed form, written as NumPy writes them.

Rows of `PEERS` are what other tools are asked for, under fixed numbers; rows of `THESIS` are the
inputs of the thesis's appendix, in their order from 0 (but the last, which differentiates by a
variable that it does not declare); `FIGURES` are examples of the thesis's and of
the paper's figures. All axes of a function have lengths of their own, but where it needs them equal;
matrices are not symmetric. Axes of the value come first, those of the variables last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import einsum as ein
from sympy import Expr, Symbol, sinh

import sympy_tensordiff as td
from sympy_tensordiff import DeltaTensor, TensorSymbol, einsum

Array = Any


@dataclass(frozen=True)
class Row:
    """A function, the variables it is differentiated by in turn, and what comes out.

    Attributes
    ----------
    build : callable
        Makes the function; it runs code under test.
    wrt : tuple
        One variable per order.
    expected : callable
        The derivative from the values of the variables, its parameters, as NumPy arrays.
    low, high : float
        The range of the random inputs.
    shifted : tuple
        Square matrices to which a multiple of the unit matrix is added: their determinants are positive.
    """

    build: Callable[[], Expr]
    wrt: tuple[Expr, ...]
    expected: Callable[..., Array]
    low: float = -2
    high: float = 2
    shifted: tuple[TensorSymbol, ...] = ()


PEERS: dict[int, Row] = {}
THESIS: dict[int, Row] = {}
FIGURES: dict[str, Row] = {}


def row(number: int, build: Callable[[], Expr], wrt: Any, expected: Callable[..., Array], **more: Any) -> None:
    assert number not in PEERS
    PEERS[number] = Row(build, wrt if isinstance(wrt, tuple) else (wrt,), expected, **more)


def thesis(build: Callable[[], Expr], wrt: Expr, expected: Callable[..., Array], **more: Any) -> None:
    THESIS[len(THESIS)] = Row(build, (wrt,), expected, **more)


def softmax(x: Array) -> Array:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def spread(p: Array) -> Array:
    """The covariance of a draw with the probabilities p."""
    return np.diag(p) - np.outer(p, p)


def eye(n: int) -> Array:
    return np.identity(n)


inv, det = np.linalg.inv, np.linalg.det

# ---------------------------------------------------------------- peers

a, b, t, x, y, z = (TensorSymbol(name, 4) for name in "abtxyz")
c = Symbol("c", real=True)
A, K, X = (TensorSymbol(name, (4, 4)) for name in "AKX")
B = TensorSymbol("B", (5, 4))
U, V = TensorSymbol("U", (3, 2)), TensorSymbol("V", (5, 2))
W = TensorSymbol("W", (3, 5))
T = TensorSymbol("T", (4, 4, 4))
DATA, target, weights = TensorSymbol("X", (5, 3)), TensorSymbol("y", 5), TensorSymbol("w", 3)
POSITIVE = {"low": 0.25, "high": 1.75}

row(1, lambda: x @ A @ x, x, lambda A, x: (A + A.T) @ x)
row(2, lambda: x @ A @ x, (x, x), lambda A: A + A.T)
row(3, lambda: td.sum((DATA @ weights - target) ** 2), weights, lambda X, w, y: 2 * X.T @ (X @ w - y))
row(4, lambda: td.sum((DATA @ weights - target) ** 2), (weights, weights), lambda X: 2 * X.T @ X)

M34, M33 = TensorSymbol("X", (4, 3)), TensorSymbol("B", (3, 3))
row(5, lambda: td.trace(A @ M34 @ M33 @ M34.T), M34, lambda A, X, B: A @ X @ B + A.T @ X @ B.T)
row(
    6,
    lambda: td.trace(A @ M34 @ M33 @ M34.T),
    (M34, M34),
    lambda A, B: ein("ik,lj->ijkl", A, B) + ein("ki,jl->ijkl", A, B),
)

M35 = TensorSymbol("T", (3, 5))
row(7, lambda: td.sum((M35 - U @ V.T) ** 2), U, lambda T, U, V: 2 * (U @ V.T - T) @ V)
row(8, lambda: td.norm(M35 - U @ V.T) ** 2, (U, U), lambda V: 2 * ein("ij,ab->iajb", eye(3), V.T @ V))
row(
    9,
    lambda: td.sum((M35 - U @ V.T) ** 2),
    (U, V),
    lambda T, U, V: 2 * ein("ib,ja->iajb", U, V) + 2 * ein("ab,ij->iajb", eye(2), U @ V.T - T),
)


def logistic() -> Expr:
    return td.sum(td.log(1 + td.exp(-target * (DATA @ weights))))


row(10, logistic, weights, lambda X, w, y: -X.T @ (y * sigmoid(-y * (X @ w))))
row(
    11,
    logistic,
    (weights, weights),
    lambda X, w, y: X.T @ np.diag(y**2 * sigmoid(y * (X @ w)) * sigmoid(-y * (X @ w))) @ X,
)

row(12, lambda: td.softmax(x), x, lambda x: spread(softmax(x)))
row(13, lambda: td.logsumexp(x), (x, x), lambda x: spread(softmax(x)))


def cross_entropy() -> Expr:
    return -(t @ td.log(td.softmax(x)))


def third(p: Array) -> Array:
    """The third derivative of logsumexp where its gradient is p."""
    d = eye(len(p))
    pairs = ein("i,k,ij->ijk", p, p, d) + ein("i,j,ik->ijk", p, p, d) + ein("i,j,jk->ijk", p, p, d)
    return ein("i,ij,ik->ijk", p, d, d) - pairs + 2 * ein("i,j,k->ijk", p, p, p)


row(14, cross_entropy, x, lambda t, x: t.sum() * softmax(x) - t)
row(15, cross_entropy, (x, x), lambda t, x: t.sum() * spread(softmax(x)))
row(16, lambda: td.logsumexp(x), (x, x, x), lambda x: third(softmax(x)))
row(74, cross_entropy, (x, x, x), lambda t, x: t.sum() * third(softmax(x)))


def inverse_slope(A: Array) -> Array:
    return -ein("ik,lj->ijkl", inv(A), inv(A))


def adjugate_slope(A: Array) -> Array:
    return det(A) * (ein("ij,lk->ijkl", inv(A), inv(A)) - ein("ik,lj->ijkl", inv(A), inv(A)))


SHIFTED = {"shifted": (X,)}
row(17, lambda: td.log(td.det(X)), X, lambda X: inv(X).T, **SHIFTED)
row(18, lambda: td.log(td.det(X)), (X, X), lambda X: -ein("jk,li->ijkl", inv(X), inv(X)), **SHIFTED)
row(19, lambda: td.det(X), X, lambda X: det(X) * inv(X).T)
row(
    20,
    lambda: td.det(X),
    (X, X),
    lambda X: det(X) * (ein("ji,lk->ijkl", inv(X), inv(X)) - ein("jk,li->ijkl", inv(X), inv(X))),
)
row(21, lambda: td.inv(A), A, inverse_slope)
row(22, lambda: td.adj(A), A, adjugate_slope)
row(23, lambda: a @ td.inv(X) @ b, X, lambda X, a, b: -inv(X).T @ np.outer(a, b) @ inv(X).T)
row(
    24,
    lambda: a @ td.inv(X) @ b,
    (X, X),
    lambda X, a, b: (
        ein("i,jk,l->ijkl", a @ inv(X), inv(X), inv(X) @ b) + ein("k,li,j->ijkl", a @ inv(X), inv(X), inv(X) @ b)
    ),
)
row(25, lambda: td.trace(X @ X @ X), X, lambda X: 3 * (X @ X).T)
row(26, lambda: td.trace(X), X, lambda X: eye(4))
row(27, lambda: einsum("ii->i", X), X, lambda X: ein("ik,il->ikl", eye(4), eye(4)))
row(28, lambda: td.diag(x), x, lambda x: ein("ik,jk->ijk", eye(4), eye(4)))
row(29, lambda: einsum("ij->j", B), B, lambda B: ein("jl,k->jkl", eye(4), np.ones(5)))
row(30, lambda: einsum("ij,k->k", B, weights), B, lambda B, w: ein("k,ab->kab", w, np.ones((5, 4))))
row(31, lambda: einsum("ij,ij,ij->", B, B, B), B, lambda B: 3 * B**2)
row(32, lambda: einsum("i,i,j->j", x, x, x), x, lambda x: 2 * np.outer(x, x) + (x @ x) * eye(4))


def permuted(T: Array, *orders: str) -> Array:
    return sum(ein(f"{order}->pjk", T) for order in orders)


row(
    33,
    lambda: einsum("ijk,i,j,k->", T, x, x, x),
    x,
    lambda T, x: ein("pjk,j,k->p", permuted(T, "pjk", "jpk", "jkp"), x, x),
)
row(
    34,
    lambda: einsum("ijk,i,j,k->", T, x, x, x),
    (x, x, x),
    lambda T: permuted(T, "pjk", "pkj", "jpk", "jkp", "kpj", "kjp"),
)


def projector(x: Array) -> Array:
    return (eye(len(x)) - np.outer(x, x) / (x @ x)) / np.sqrt(x @ x)


row(35, lambda: td.norm(x), x, lambda x: x / np.sqrt(x @ x))
row(36, lambda: td.norm(x), (x, x), projector)
row(37, lambda: x / td.norm(x), x, projector)
row(38, lambda: td.norm(x, ord=1), x, lambda x: np.sign(x))
row(39, lambda: td.sum(td.relu(B @ x)), x, lambda B, x: B.T @ (B @ x > 0))
row(40, lambda: td.sum(td.relu(B @ x)), (x, x), lambda x: np.zeros((4, 4)))
row(41, lambda: td.sum(td.exp(B @ x)), (x, x), lambda B, x: B.T @ np.diag(np.exp(B @ x)) @ B)
row(42, lambda: W @ td.exp(B @ x), x, lambda W, B, x: W @ np.diag(np.exp(B @ x)) @ B)
row(43, lambda: x**y, y, lambda x, y: np.diag(x**y * np.log(x)), **POSITIVE)
row(44, lambda: x / y, y, lambda x, y: -np.diag(x / y**2))
row(45, lambda: x / x, x, lambda x: np.zeros((4, 4)))
row(46, lambda: c + x, c, lambda x: np.ones(4))
row(47, lambda: B + einsum("i,j->ij", td.ones(5), b), b, lambda b: ein("jk,i->ijk", eye(4), np.ones(5)))
row(48, lambda: einsum("i,j->ij", x, target), x, lambda x, y: ein("ik,j->ijk", eye(4), y))
row(49, lambda: einsum("ij,kl->ijkl", B, W), B, lambda W: ein("ia,jb,kl->ijklab", eye(5), eye(4), W))

B1, C1 = TensorSymbol("b", (2, 3, 4)), TensorSymbol("c", (2, 4, 5))
row(50, lambda: einsum("nij,njk->nik", B1, C1), B1, lambda c: ein("na,ib,ack->nikabc", eye(2), eye(3), c))
row(
    51,
    lambda: td.log(td.det(A + td.diag(x))),
    x,
    lambda A, x: np.diag(inv(A + np.diag(x))),
    shifted=(A,),
)
row(
    52,
    lambda: y @ td.inv(K) @ y / 2 + td.log(td.det(K)) / 2,
    K,
    lambda K, y: (inv(K).T - inv(K).T @ np.outer(y, y) @ inv(K).T) / 2,
    shifted=(K,),
)
row(
    53,
    lambda: (x @ A @ x) / (x @ x),
    x,
    lambda A, x: ((A + A.T) @ x - 2 * (x @ A @ x) / (x @ x) * x) / (x @ x),
)

H5, U4 = TensorSymbol("h", 5), TensorSymbol("U", (3, 4))
row(
    54,
    lambda: td.tanh(W @ H5 + U4 @ x),
    W,
    lambda W, h, U, x: ein("i,ia,b->iab", 1 - np.tanh(W @ h + U @ x) ** 2, eye(3), h),
)

KEYS, VALUES = TensorSymbol("K", (5, 4)), TensorSymbol("V", (5, 3))
row(
    55,
    lambda: VALUES.T @ td.softmax(KEYS @ x),
    x,
    lambda V, K, x: V.T @ spread(softmax(K @ x)) @ K,
)
row(56, lambda: x, x, lambda x: eye(4))
row(57, lambda: B, B, lambda B: ein("ik,jl->ijkl", eye(5), eye(4)))
row(58, lambda: B.T, B, lambda B: ein("il,jk->ijkl", eye(4), eye(5)))
row(59, lambda: B @ x, W, lambda W: np.zeros((5, 3, 5)))
row(60, lambda: B.T @ B, B, lambda B: ein("il,kj->ijkl", eye(4), B) + ein("jl,ki->ijkl", eye(4), B))
row(61, lambda: td.norm(B.T @ B - DeltaTensor(4)) ** 2, B, lambda B: 4 * B @ (B.T @ B - eye(4)))


def pairwise() -> Expr:
    ones = td.ones(5)
    return td.sum((einsum("ia,j->ija", B, ones) - einsum("ja,i->ija", B, ones)) ** 2)


row(63, pairwise, B, lambda B: 4 * (5 * B - np.ones((5, 5)) @ B))

T445 = TensorSymbol("T", (4, 4, 5))
row(64, lambda: einsum("iij,j->", T445, target), T445, lambda y: ein("ab,c->abc", eye(4), y))
row(65, lambda: einsum("i,i,i,i->", x, y, z, x), x, lambda x, y, z: 2 * x * y * z)
row(66, lambda: x - td.mean(x), x, lambda x: eye(4) - np.ones((4, 4)) / 4)

# ---------------------------------------------------------------- the thesis's appendix

a0, b0, c0, x0 = (TensorSymbol(name, ()) for name in "abcx")
a1, b1, c1, d1, v1, x1, y1 = (TensorSymbol(name, 4) for name in "abcdvxy")
A2, B2, P2 = TensorSymbol("A", (3, 4)), TensorSymbol("B", (3, 4)), TensorSymbol("a", (3, 4))
S2, X2 = TensorSymbol("A", (4, 4)), TensorSymbol("X", (3, 4))
X4 = TensorSymbol("X", (3, 4, 5, 2))

thesis(lambda: a0, a0, lambda a: 1.0)
thesis(lambda: einsum(",->", einsum("i,i->", a1, b1), c0), c0, lambda a, b: a @ b)
thesis(lambda: einsum(",->", a0, a0), a0, lambda a: 2 * a)
thesis(lambda: einsum(",->", einsum(",->", b0, a0), a0), a0, lambda a, b: 2 * a * b)
thesis(lambda: a0 + b0, a0, lambda a: 1.0)
thesis(lambda: a0 + a0 + b0, a0, lambda a: 2.0)
thesis(lambda: a0 + b0 + a0, a0, lambda a: 2.0)
thesis(lambda: a0 - b0, b0, lambda a: -1.0)
thesis(lambda: a0 - a0 - b0, a0, lambda b: 0.0)
thesis(lambda: a0 - b0 - a0, a0, lambda b: 0.0)
thesis(lambda: einsum("i,i->i", a1, a1) + b1 + c1, a1, lambda a: 2 * np.diag(a))
thesis(lambda: einsum("i,i->i", a1, b1) + einsum("i,i->i", a1, c1), a1, lambda b, c: np.diag(b + c))
thesis(lambda: einsum("i,i->", a1, b1) + c0, a1, lambda b: b)
thesis(lambda: einsum("ij,j->i", P2, b1), P2, lambda b: ein("ai,j->aij", eye(3), b))
thesis(lambda: einsum("ij,j->i", P2, b1), P2, lambda b: ein("ai,j->aij", eye(3), b))
thesis(lambda: einsum("ij,j->i", A2, x1) + einsum("ij,j->i", B2, x1), x1, lambda A, B: A + B)
thesis(lambda: einsum("ij,j->i", A2 + B2, x1), x1, lambda A, B: A + B)
thesis(lambda: einsum("ij,j->i", einsum("ij,ij->ij", A2, B2), x1), x1, lambda A, B: A * B)
thesis(lambda: einsum("i,i->", x1, x1), x1, lambda x: 2 * x)
thesis(
    lambda: einsum("i,i->", a1, b1) + einsum("i,i->", a1, c1) + einsum("i,i->", a1, d1),
    a1,
    lambda b, c, d: b + c + d,
)
thesis(lambda: einsum("i,i->i", a1, a1) - b1 - c1, a1, lambda a: 2 * np.diag(a))
thesis(lambda: einsum("i,i->i", a1, b1) - einsum("i,i->i", a1, c1), a1, lambda b, c: np.diag(b - c))
thesis(lambda: einsum("ij,j->i", A2 - B2, x1), x1, lambda A, B: A - B)
thesis(lambda: td.sin(x1), x1, lambda x: np.diag(np.cos(x)))
thesis(lambda: einsum("ij,j->i", A2, td.sin(x1)), x1, lambda A, x: A * np.cos(x))
thesis(lambda: td.sin(einsum("ij,j->i", A2, x1)), x1, lambda A, x: np.cos(A @ x)[:, None] * A)
thesis(lambda: td.cos(x1) + td.sin(x1), x1, lambda x: np.diag(np.cos(x) - np.sin(x)))
thesis(lambda: td.exp(x1), x1, lambda x: np.diag(np.exp(x)))
thesis(lambda: einsum("ij,j->i", A2, td.exp(x1)), x1, lambda A, x: A * np.exp(x))
thesis(lambda: y1 / x1, x1, lambda x, y: np.diag(-y / x**2))
thesis(lambda: td.tan(x1), x1, lambda x: np.diag(1 / np.cos(x) ** 2))
thesis(lambda: td.arcsin(x1), x1, lambda x: np.diag(1 / np.sqrt(1 - x**2)), low=-0.9, high=0.9)
thesis(lambda: td.arccos(x1), x1, lambda x: np.diag(-1 / np.sqrt(1 - x**2)), low=-0.9, high=0.9)
thesis(lambda: td.arctan(x1), x1, lambda x: np.diag(1 / (x**2 + 1)))
thesis(lambda: td.log(x1), x1, lambda x: np.diag(1 / x), **POSITIVE)
thesis(lambda: td.tanh(x1), x1, lambda x: np.diag(1 - np.tanh(x) ** 2))
thesis(lambda: td.abs(x1), x1, lambda x: np.diag(np.sign(x)))
thesis(lambda: td.sign(x1), x1, lambda x: np.zeros((4, 4)))
thesis(lambda: td.relu(x1), x1, lambda x: np.diag(x > 0))
thesis(lambda: x1**a0, x1, lambda x, a: np.diag(a * x ** (a - 1)), **POSITIVE)
thesis(lambda: einsum("i,i->", x1**a0, x1), x1, lambda x, a: x * a * x ** (a - 1) + x**a, **POSITIVE)
thesis(lambda: a1**x0, x0, lambda x, a: a**x * np.log(a), **POSITIVE)
thesis(lambda: x0**x0, x0, lambda x: x**x * (np.log(x) + 1), **POSITIVE)
thesis(lambda: td.inv(S2), S2, inverse_slope)
thesis(lambda: td.det(S2), S2, lambda A: det(A) * inv(A).T)
thesis(lambda: td.adj(S2), S2, adjugate_slope)
thesis(lambda: einsum("ij,ij->", td.ones((3, 4)), X2), X2, lambda X: np.ones((3, 4)))
thesis(lambda: X2 + X2, X2, lambda X: 2 * ein("ik,jl->ijkl", eye(3), eye(4)))
thesis(lambda: einsum("ij,ij->", td.ones((3, 4)), X2 + X2), X2, lambda X: 2 * np.ones((3, 4)))
thesis(
    lambda: einsum("ij,ij->", td.ones((3, 4)), X2) + einsum("ij,ij->", td.ones((3, 4)), X2),
    X2,
    lambda X: 2 * np.ones((3, 4)),
)
thesis(
    lambda: einsum("ij,ij->", td.ones((3, 4)), X2) + einsum("ij,ij->", td.ones((3, 4)), X2 + 1),
    X2,
    lambda X: 2 * np.ones((3, 4)),
)
thesis(lambda: einsum("i,i->", v1, v1) + einsum("i,i->", td.ones(4), v1), v1, lambda v: 2 * v + 1)
thesis(lambda: einsum("i,i->i", v1, v1) + einsum("i,i->i", v1, v1), v1, lambda v: 4 * np.diag(v))
thesis(lambda: einsum(",i->i", DeltaTensor(()) + 1, v1), v1, lambda v: 2 * eye(4))
thesis(lambda: einsum("ij,ij->", td.sin(DeltaTensor(4)), X), X, lambda X: np.sin(1) * eye(4))
thesis(
    lambda: einsum("ij,ijkl->ijkl", P2, X4) + td.cos(X4),
    X4,
    lambda a, X: ein("ia,jb,kc,ld,ijkl->ijklabcd", *map(eye, (3, 4, 5, 2)), a[:, :, None, None] - np.sin(X)),
)

# ---------------------------------------------------------------- figures

FIGURES["4.5"] = Row(lambda: einsum("ij,ij->ij", X2, X2), (X2,), lambda X: 2 * ein("ik,jl,ij->ijkl", eye(3), eye(4), X))
FIGURES["4.7"] = Row(
    lambda: td.sin(v1) + td.cos(td.sin(v1)), (v1,), lambda v: np.diag((1 - np.sin(np.sin(v))) * np.cos(v))
)
FIGURES["4.10"] = Row(lambda: einsum("ij,j->", A2, x1), (A2,), lambda x: np.outer(np.ones(3), x))

U1, U2, U3 = (TensorSymbol(name, ()) for name in ("x1", "x2", "x3"))


def shared_sum() -> Expr:
    both = U2 + U3
    return td.sin(td.sin(U1 * both + sinh(both)))


def _outer(x1: Array, x2: Array, x3: Array) -> Array:
    inner = x1 * (x2 + x3) + np.sinh(x2 + x3)
    return np.cos(np.sin(inner)) * np.cos(inner)


FIGURES["2, x1"] = Row(shared_sum, (U1,), lambda x1, x2, x3: _outer(x1, x2, x3) * (x2 + x3))
FIGURES["2, x2"] = Row(shared_sum, (U2,), lambda x1, x2, x3: _outer(x1, x2, x3) * (x1 + np.cosh(x2 + x3)))
FIGURES["2, x3"] = Row(shared_sum, (U3,), lambda x1, x2, x3: _outer(x1, x2, x3) * (x1 + np.cosh(x2 + x3)))
