"""Programs of JAX's and PyTorch's documentation in the words of this package: value, gradient, second derivative, text.

``python benchmarks/words.py`` evaluates each program by this package and by JAX, and by PyTorch where that has all
its words. The gradient is that of the sum of the squares of the results by the first tensor, and so is the product
of the Hessian with a vector. Every gradient is also written as text and read again where a language has it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

import sympy_tensordiff as td
from sympy_tensordiff.errors import ParseError, TensorDiffError

SIZES = {"n": 4, "m": 3, "N": 5}
SHAPES = {
    "x": "n", "y": "n", "z": "n", "b": "m", "c": "m", "A": "nm", "B": "nm", "S": "nn", "T": "nn", "W": "mn", "X": "Nm",
    "Y": "Nm", "Z": "Nn", "t": "N", "H": "Nnm", "K": "Nnn", "V": "Nnm", "u": "3", "v": "3", "Q": "mm",
}  # fmt: skip
"""The shapes of all tensors by their axes."""

# One program in a line: the tensors that it takes, and what it computes of them with the words of `f`.
ACTIVATIONS = {
    "relu": lambda f, x: f.relu(x - 1),
    "leaky relu": lambda f, x: f.where(f.greater(x, 1), x, 0.01 * x),
    "elu": lambda f, x: f.where(f.greater(x - 1, 0), x, 0.5 * (f.exp(x) - 1)),
    "selu": lambda f, x: 1.0507 * f.where(f.greater(x - 1, 0), x, 1.6733 * (f.exp(x) - 1)),
    "celu": lambda f, x: f.maximum(0, x) + f.minimum(0, 1.5 * (f.exp((x - 2) / 1.5) - 1)),
    "gelu by tanh": lambda f, x: 0.5 * x * (1 + f.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    "gelu": lambda f, x: 0.5 * x * (1 + f.erf(x / 2**0.5)),
    "silu": lambda f, x: x * f.sigmoid(x),
    "mish": lambda f, x: x * f.tanh(f.softplus(x)),
    "hardtanh": lambda f, x: f.clip(x, -1, 1) + f.clip(2 * x, 0.1, 1),
    "relu6": lambda f, x: f.minimum(f.maximum(4 * x, 0), 6),
    "hardswish": lambda f, x: x * f.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda f, x: f.clip(x / 6 + 0.5, 0, 1),
    "softsign": lambda f, x: x / (1 + f.abs(x)),
    "log sigmoid": lambda f, x: f.log(f.sigmoid(x)),
    "softplus": lambda f, x: f.softplus(3 * x) / 3,
    "softshrink": lambda f, x: f.where(f.greater(x, 0.9), x - 0.9, f.where(f.less(x, -0.9), x + 0.9, 0 * x)),
    "hardshrink": lambda f, x: f.where(f.greater(f.abs(x), 0.9), x, 0 * x),
    "tanhshrink": lambda f, x: x - f.tanh(x),
    "threshold": lambda f, x: f.where(f.greater(x, 0.9), x, 20 + 0 * x),
    "softmin": lambda f, x: f.softmax(-x, axis=0),
    "log softmax": lambda f, x: x - f.logsumexp(x, axis=0),
    "squareplus": lambda f, x: (x + f.sqrt(x**2 + 4)) / 2,
    "sparse plus": lambda f, x: f.where(f.less(x, 1), (x + 1) ** 2 / 4, x),
    "swish of two": lambda f, x, y: x * f.sigmoid(y * x),
    "prelu": lambda f, A, b: f.maximum(A - 1, 0) + b * f.minimum(A - 1, 0),
    "glu": lambda f, X, Y: X * f.sigmoid(Y),
    "swiglu": lambda f, X, Q: (X @ Q) * f.sigmoid(X @ Q) * X,
}
LOSSES = {
    "mean squared error": lambda f, x, y: f.mean((x - y) ** 2),
    "mean absolute error": lambda f, x, y: f.mean(f.abs(x - y)),
    "smooth l1": lambda f, x, y: f.mean(f.where(f.less(f.abs(x - y), 0.3), (x - y) ** 2 / 0.6, f.abs(x - y) - 0.15)),
    "huber": lambda f, x, y: f.sum(f.where(f.less(f.abs(x - y), 0.5), (x - y) ** 2 / 2, 0.5 * (f.abs(x - y) - 0.25))),
    "log cosh": lambda f, x, y: f.mean(f.log(f.cosh(x - y))),
    "cross entropy": lambda f, X, Y: -f.mean(f.sum(Y * (X - f.logsumexp(X, axis=1, keepdims=True)), axis=1)),
    "soft cross entropy": lambda f, X, Y: -f.sum(f.softmax(Y, axis=1) * f.log(f.softmax(X, axis=1))),
    "label smoothing": lambda f, X, Y: -f.sum((0.9 * Y + 0.1 / 3) * f.log(f.softmax(X, axis=-1))),
    "negative log-likelihood": lambda f, X, Y: -f.sum(X * Y) / f.sum(Y),
    "kl divergence": lambda f, x, y: f.sum(f.softmax(y, axis=0) * (f.log(f.softmax(y, axis=0)) - x)),
    "binary cross entropy": lambda f, x, y: -f.mean(y * f.log(f.sigmoid(x)) + (1 - y) * f.log(1 - f.sigmoid(x))),
    "with logits": lambda f, x, y: f.mean(f.maximum(x, 0) - x * y + f.log(1 + f.exp(-f.abs(x)))),
    "weighted logits": lambda f, x, y, z: f.mean(z * y * f.softplus(-x) + (1 - y) * f.softplus(x)),
    "focal": lambda f, x, y: -f.mean(y * (1 - f.sigmoid(x)) ** 2 * f.log(f.sigmoid(x))),
    "margin ranking": lambda f, x, y: f.mean(f.maximum(0, y - x + 0.5)),
    "hinge embedding": lambda f, x: f.mean(f.maximum(0, 1.2 - x)),
    "hinge": lambda f, x, Z, t: f.mean(f.maximum(0, 1 - t * (Z @ x))) + f.sum(x**2),
    "squared hinge": lambda f, x, Z, t: f.sum(f.maximum(0, 1 - t * (Z @ x)) ** 2),
    "cosine embedding": lambda f, x, y: 1 - x @ y / (f.norm(x) * f.norm(y)),
    "triplet margin": lambda f, X, Y, b: f.mean(f.maximum(f.sum((X - Y) ** 2, 1) - f.sum((X - b) ** 2, 1) + 1, 0)),
    "poisson": lambda f, x, y: f.mean(f.exp(x) - y * x),
    "gaussian likelihood": lambda f, x, y, z: f.mean(f.log(z**2 + 1) + (x - y) ** 2 / (z**2 + 1)) / 2,
    "soft margin": lambda f, x, y: f.mean(f.log(1 + f.exp(-y * x))),
    "multi label soft margin": lambda f, X, Y: -f.mean(Y * f.log(f.sigmoid(X)) + (1 - Y) * f.log(f.sigmoid(-X))),
    "dice": lambda f, x, y: 1 - (2 * f.sum(x * y) + 1) / (f.sum(x) + f.sum(y) + 1),
    "jaccard": lambda f, x, y: 1 - f.sum(x * y) / f.sum(x + y - x * y),
    "tversky": lambda f, x, y: 1 - f.sum(x * y) / (f.sum(x * y) + 0.3 * f.sum((1 - y) * x) + 0.7 * f.sum(y * (1 - x))),
    "quantile": lambda f, x, y: f.mean(f.maximum(0.9 * (x - y), -0.1 * (x - y))),
    "charbonnier": lambda f, A, B: f.sum(f.sqrt((A - B) ** 2 + 0.01)),
    "contrastive": lambda f, X, Y: -f.mean(f.sum(X * Y, axis=1) - f.logsumexp(X @ Y.T, axis=1)),
    "info nce": lambda f, X, Y: -f.trace(X @ Y.T) / 5 + f.mean(f.logsumexp(X @ Y.T / 0.5, axis=1)),
    "barlow twins": lambda f, X, Y: f.sum((X.T @ Y / 5 - 1) ** 2),
    "evidence lower bound": lambda f, x, y: -f.sum(1 + y - x**2 - f.exp(y)) / 2,
    "wasserstein critic": lambda f, x, Z, X: f.mean(Z @ x) + f.mean((f.norm(x) - 1) ** 2) + f.sum(X),
    "softmax regression": lambda f, W, Z, Y: -f.sum(Y * f.log(f.softmax(Z @ W.T, axis=1))),
    "logistic regression": lambda f, x, Z, t: f.sum(f.softplus(-t * (Z @ x))) + 0.1 * x @ x,
    "ridge": lambda f, x, Z, t: f.sum((Z @ x - t) ** 2) + 0.3 * f.sum(x**2),
    "lasso": lambda f, x, Z, t: f.mean((Z @ x - t) ** 2) + 0.3 * f.norm(x, 1),
    "elastic net": lambda f, x, Z, t: f.sum((Z @ x - t) ** 2) + f.norm(x, 1) / 2 + x @ x / 3,
    "poisson regression": lambda f, x, Z, t: f.sum(f.exp(Z @ x) - t * (Z @ x)),
    "cox": lambda f, x, Z: f.sum(f.log(f.cumsum(f.exp(Z @ x))) - Z @ x),
}
LAYERS = {
    "linear": lambda f, W, Z, b: Z @ W.T + b,
    "bilinear": lambda f, S, x, y: x @ S @ y,
    "two layers": lambda f, W, Z, A, x: f.tanh(Z @ W.T) @ A.T + x,
    "residual": lambda f, S, Z: Z + f.relu(Z @ S) @ S.T,
    "layer norm": lambda f, A, b, c: (
        (A - f.mean(A, axis=1, keepdims=True)) / f.sqrt(f.var(A, axis=1, keepdims=True) + 0.1) * b + c
    ),
    "batch norm": lambda f, X, b, c: (X - f.mean(X, axis=0)) / f.sqrt(f.var(X, axis=0) + 0.1) * b + c,
    "instance norm": lambda f, H: (
        (H - f.mean(H, axis=1, keepdims=True)) / f.sqrt(f.var(H, axis=1, keepdims=True) + 0.1)
    ),
    "rms norm": lambda f, A, b: A / f.sqrt(f.mean(A**2, axis=1, keepdims=True) + 0.1) * b,
    "weight norm": lambda f, W, b, Z: Z @ (b[:, None] * W / f.sqrt(f.sum(W**2, axis=1, keepdims=True))).T,
    "l2 normalize": lambda f, A: A / f.sqrt(f.sum(A**2, axis=1, keepdims=True)),
    "standardize": lambda f, x: (x - f.mean(x)) / f.std(x),
    "attention": lambda f, A, B: f.softmax(A @ B.T / 3**0.5, axis=1) @ B,
    "masked attention": lambda f, A, B: f.softmax(f.tril(A @ B.T) + f.triu(A @ B.T - 30, 1), axis=1) @ B,
    "batched attention": lambda f, H, V: f.einsum("bij,bjk->bik", f.softmax(f.einsum("bik,bjk->bij", H, V), axis=2), V),
    "linear attention": lambda f, A, B: (f.exp(A) @ (f.exp(B).T @ B)) / (f.exp(A) @ f.sum(f.exp(B), axis=0))[:, None],
    "additive attention": lambda f, A, B, b: f.softmax(f.tanh(A[:, None] + B[None]) @ b, axis=1) @ B,
    "gated unit": lambda f, S, T, x, y: f.sigmoid(S @ x) * f.tanh(T @ y) + (1 - f.sigmoid(S @ x)) * y,
    "rnn cell": lambda f, S, A, x, b: f.tanh(S @ x + A @ b),
    "gru cell": lambda f, S, T, x, y: (
        (1 - f.sigmoid(S @ x)) * f.tanh(T @ (f.sigmoid(S @ y) * x)) + f.sigmoid(S @ x) * x
    ),
    "lstm cell": lambda f, S, T, x, y, z: (
        f.sigmoid(T @ x) * f.tanh(f.sigmoid(S @ x) * z + f.sigmoid(S @ y) * f.tanh(T @ y))
    ),
    "highway": lambda f, S, T, x: f.sigmoid(T @ x) * f.relu(S @ x) + (1 - f.sigmoid(T @ x)) * x,
    "mixture of experts": lambda f, A, x, S: f.softmax(A.T @ x, axis=0) @ f.tanh(A.T @ (S @ x)),
    "graph convolution": lambda f, S, A, Q: f.relu(S / f.sum(S, axis=1, keepdims=True) @ A @ Q),
    "graph attention": lambda f, A, x, y: f.softmax(f.relu(f.sum(A, 1)[:, None] * x + y[None]), axis=1) @ A,
    "squeeze and excite": lambda f, H, Q: H * f.sigmoid(f.mean(H, axis=1) @ Q)[:, None, :],
    "average pooling": lambda f, Z: (Z[:, ::2] + Z[:, 1::2]) / 2,
    "max pooling": lambda f, Z: f.maximum(Z[:, ::2], Z[:, 1::2]),
    "global pooling": lambda f, H: f.max(H, axis=(1, 2)) + f.mean(H, axis=(1, 2)),
    "logsumexp pooling": lambda f, H: f.logsumexp(H, axis=(1, 2)),
    "pixel shuffle": lambda f, K: f.reshape(f.moveaxis(f.reshape(K, (5, 2, 2, 4)), 2, 1), (5, 2, 8)),
    "channel shuffle": lambda f, Z: f.reshape(f.moveaxis(f.reshape(Z, (5, 2, 2)), 2, 1), (5, 4)),
    "positional": lambda f, A, b: A * f.cos(b) + f.concatenate((-A[:, 1:], A[:, :1]), axis=1) * f.sin(b),
    "dropout mask": lambda f, A, B: (
        A * f.greater(B, 0.8) / 0.8 if False else f.where(f.greater(B, 0.8), A / 0.8, 0 * A)
    ),
    "convolution of three": lambda f, x, u: x[:-2] * u[0] + x[1:-1] * u[1] + x[2:] * u[2],
    "padded convolution": lambda f, x, u: f.pad(x, 1)[:-2] * u[0] + f.pad(x, 1)[1:-1] * u[1] + f.pad(x, 1)[2:] * u[2],
    "circular convolution": lambda f, x, u: u[0] * x + u[1] * f.roll(x, 1) + u[2] * f.roll(x, 2),
    "causal convolution": lambda f, x, u: u[0] * x + u[1] * f.pad(x, (1, 0))[:-1] + u[2] * f.pad(x, (2, 0))[:-2],
    "difference": lambda f, x: x[1:] - x[:-1],
    "second difference": lambda f, x: x[2:] - 2 * x[1:-1] + x[:-2],
    "laplacian": lambda f, S: S[2:, 1:-1] + S[:-2, 1:-1] + S[1:-1, 2:] + S[1:-1, :-2] - 4 * S[1:-1, 1:-1],
    "total variation": lambda f, S: f.sum(
        f.sqrt((S[1:, :-1] - S[:-1, :-1]) ** 2 + (S[:-1, 1:] - S[:-1, :-1]) ** 2 + 0.1)
    ),
    "causal mean": lambda f, x: f.cumsum(x) / (1 + f.cumsum(0 * x + 1)),
    "discounted": lambda f, x: f.cumprod(x) / x,
    "reversed sum": lambda f, A: f.flip(f.cumsum(f.flip(A, 0), axis=0), 0),
}
ALGEBRA = {
    "quadratic form": lambda f, x, S: x @ S @ x,
    "bilinear in matrices": lambda f, S, T: f.trace(S @ T @ S.T),
    "gram": lambda f, A: A.T @ A,
    "frobenius": lambda f, A: f.norm(A),
    "squared frobenius": lambda f, A, B: f.norm(A - B, "fro") ** 2,
    "norm 3": lambda f, x: f.norm(x, 3),
    "norm inf": lambda f, x, y: f.norm(x - y, np.inf),
    "trace": lambda f, S, T: f.trace(S.T @ T),
    "trace of a power": lambda f, S: f.trace(S @ S @ S),
    "determinant": lambda f, S: f.det(S),
    "log determinant": lambda f, S: f.logdet(S @ S.T + S.T @ S),
    "inverse": lambda f, S, T: f.inv(S @ S.T + T @ T.T + 2 * f.eye(4)),
    "solve": lambda f, S, x: f.solve(S + 6 * f.eye(4), x),
    "solve a matrix": lambda f, S, A: f.solve(S + 6 * f.eye(4), A),
    "normal equations": lambda f, A, x: f.solve(A.T @ A + f.eye(3), A.T @ x),
    "batched inverse": lambda f, K: f.inv(K + 6 * f.eye(4)),
    "batched determinant": lambda f, K: f.det(K + 2 * f.eye(4)),
    "batched solve": lambda f, K, Z: f.solve(K + 6 * f.eye(4), Z[:, :, None]),
    "batched log determinant": lambda f, K: f.logdet(f.einsum("bij,bkj->bik", K, K) + f.eye(4)),
    "mahalanobis": lambda f, x, y, S: (x - y) @ f.solve(S @ S.T + f.eye(4), x - y),
    "gaussian": lambda f, x, S: -x @ f.solve(S @ S.T + f.eye(4), x) / 2 - f.logdet(S @ S.T + f.eye(4)) / 2,
    "kl of gaussians": lambda f, S, x: (f.trace(S @ S.T) + x @ x - 4 - f.logdet(S @ S.T + f.eye(4))) / 2,
    "rayleigh": lambda f, x, S: x @ S @ x / (x @ x),
    "generalized rayleigh": lambda f, x, S, T: x @ S @ x / (x @ (T @ T.T) @ x),
    "polynomial": lambda f, S: f.eye(4) + S + S @ S / 2 + S @ S @ S / 6,
    "neumann": lambda f, S: f.inv(f.eye(4) - S / 9),
    "cayley": lambda f, S: f.inv(f.eye(4) + (S - S.T)) @ (f.eye(4) - (S - S.T)),
    "householder": lambda f, x, y: y - 2 * x * (x @ y) / (x @ x),
    "projection": lambda f, A, x: A @ f.solve(A.T @ A + f.eye(3), A.T @ x),
    "newton step": lambda f, S, T: S @ (2 * f.eye(4) - T @ S),
    "schur complement": lambda f, S, A: S - A @ f.inv(A.T @ A + f.eye(3)) @ A.T,
    "woodbury": lambda f, A: f.inv(f.eye(4) + A @ A.T),
    "factorization": lambda f, A, Z, X: f.sum((X - Z @ A) ** 2),
    "nonnegative factors": lambda f, A, Z, X: f.sum((Z**2) @ (A**2) - X * f.log((Z**2) @ (A**2))),
    "principal components": lambda f, A, Z: f.sum((Z - Z @ A @ A.T) ** 2),
    "canonical correlation": lambda f, x, y, S: x @ S @ y / f.sqrt((x @ x) * (y @ y)),
    "fisher": lambda f, x, S, T: (x @ S @ x) ** 2 / (x @ (T @ T.T + f.eye(4)) @ x),
    "stein": lambda f, S, T: f.logdet((S @ S.T + T @ T.T) / 2 + f.eye(4)) - f.logdet(S @ S.T + f.eye(4)) / 2,
    "orthogonality": lambda f, A: f.norm(A.T @ A - f.eye(3)) ** 2,
    "kron of matrices": lambda f, A, S: f.kron(A, S),
    "kron sum": lambda f, S, Q: f.kron(S, f.eye(3)) + f.kron(f.eye(4), Q),
    "khatri rao": lambda f, A, B: f.reshape(A[:, None, :] * B[None, :, :], (16, 3)),
    "outer": lambda f, x, b: f.outer(x, b),
    "diagonal": lambda f, x, S: f.diag(x) @ S,
    "hadamard": lambda f, S, T: f.sum(S * T * S),
    "cross": lambda f, u, v: f.cross(u, v),
    "triple product": lambda f, u, v, b: f.dot(u, f.cross(v, b)),
    "lower triangle": lambda f, S: f.tril(S) @ f.tril(S).T,
    "from a factor": lambda f, S, x: x @ f.tril(S) @ f.tril(S).T @ x - 2 * f.sum(f.log(x)),
    "symmetrized": lambda f, S: f.triu(S) + f.triu(S, 1).T,
}
EINSUM = {
    "matrix times vector": lambda f, A, b: f.einsum("ij,j->i", A, b),
    "batch of products": lambda f, H, V: f.einsum("bij,bkj->bik", H, V),
    "batch outer": lambda f, X, Z: f.einsum("bi,bj->bij", X, Z),
    "bilinear layer": lambda f, H, X, Z: f.einsum("bj,bij,bi->b", X, H, Z),
    "trace by einsum": lambda f, S: f.einsum("ii->", S),
    "diagonal by einsum": lambda f, S, T: f.einsum("ii->i", S @ T),
    "transpose by einsum": lambda f, H: f.einsum("bij->bji", H),
    "permute": lambda f, H: f.einsum("...ij->...ji", H),
    "sum of an axis": lambda f, H: f.einsum("bij->bj", H),
    "implicit": lambda f, A, S: f.einsum("ji,jk", A, S),
    "of three": lambda f, A, S, B: f.einsum("ij,ik,kl->jl", A, S, B),
    "cp": lambda f, A, B, Z: f.einsum("ir,jr,bi->bjr", A, B, Z),
    "cp loss": lambda f, A, H, Q, X: f.sum((H - f.einsum("br,ir,jr->bij", X, A, Q)) ** 2),
    "tucker": lambda f, A, H, X: f.einsum("bij,ik,bl->kjl", H, A, X),
    "tensor train": lambda f, H, K, A: f.einsum("bij,bki,kj->b", H, K, A),
    "mode product": lambda f, S, H: f.einsum("ik,bkj->bij", S, H),
    "covariance": lambda f, X: f.einsum("bi,bj->ij", X - f.mean(X, axis=0), X - f.mean(X, axis=0)) / 4,
    "heads": lambda f, K, Z: f.einsum("bi,bij->bj", Z, f.softmax(K, axis=-1)),
    "kernel of features": lambda f, X, Y: f.einsum("ai,bi->ab", f.exp(X), f.cos(Y)) ** 2,
    "broadcast": lambda f, A, x, b: f.einsum("ij,i,j->ij", A, x, b),
}
DISTANCES = {
    "pairwise": lambda f, X, Y: f.sum((X[:, None] - Y[None]) ** 2, axis=2),
    "by a product": lambda f, X, Y: f.sum(X**2, 1)[:, None] + f.sum(Y**2, 1) - 2 * X @ Y.T,
    "gaussian kernel": lambda f, X, Y: f.exp(-f.sum((X[:, None] - Y[None]) ** 2, axis=2) / 2),
    "laplace kernel": lambda f, X, Y: f.exp(-f.sum(f.abs(X[:, None] - Y[None]), axis=2)),
    "rational quadratic": lambda f, X, Y: 1 / (1 + f.sum((X[:, None] - Y[None]) ** 2, axis=2) / 3),
    "polynomial kernel": lambda f, X, Y: (X @ Y.T + 1) ** 3,
    "cosine": lambda f, X, Y: X @ Y.T / f.sqrt(f.outer(f.sum(X**2, 1), f.sum(Y**2, 1))),
    "maximum mean discrepancy": lambda f, X, Y: (
        f.mean(f.exp(X @ X.T)) - 2 * f.mean(f.exp(X @ Y.T)) + f.mean(f.exp(Y @ Y.T))
    ),
    "student kernel": lambda f, X: 1 / (1 + f.sum((X[:, None] - X[None]) ** 2, axis=2)),
    "t-sne": lambda f, X, t: (
        f.log(f.sum(1 / (1 + f.sum((X[:, None] - X[None]) ** 2, axis=2)))) - f.sum(t * f.sum(X, 1))
    ),
    "k-means": lambda f, X, Y: f.sum(f.min(f.sum((X[:, None] - Y[None]) ** 2, axis=2), axis=1)),
    "soft k-means": lambda f, X, Y: -f.sum(f.logsumexp(-f.sum((X[:, None] - Y[None]) ** 2, axis=2), axis=1)),
    "mixture": lambda f, Y, X, t: (
        -f.sum(f.logsumexp(f.log(t) - f.sum((X[:, None] - Y[None]) ** 2, axis=2) / 2, axis=1))
    ),
    "chamfer": lambda f, X, Y: f.mean(f.min(f.sum((X[:, None] - Y[None]) ** 2, axis=2), axis=0)),
    "sinkhorn step": lambda f, S, x: x / (f.exp(-S) @ (x / (f.exp(-S).T @ x))),
    "lennard-jones": lambda f, x: f.sum((x[1:] - x[:-1]) ** -12 - (x[1:] - x[:-1]) ** -6),
    "coulomb": lambda f, x, y: f.sum(f.outer(x, y) / f.sqrt(1 + (x[:, None] - y[None]) ** 2)),
}
STATISTICS = {
    "mean": lambda f, A: f.mean(A, axis=0),
    "variance": lambda f, A: f.var(A, axis=0, ddof=1),
    "deviation": lambda f, A: f.std(A, axis=1),
    "standard score": lambda f, A: (A - f.mean(A)) / f.std(A),
    "correlation": lambda f, x, y: f.mean((x - f.mean(x)) * (y - f.mean(y))) / (f.std(x) * f.std(y)),
    "covariance matrix": lambda f, X: (X - f.mean(X, axis=0)).T @ (X - f.mean(X, axis=0)) / 4,
    "skewness": lambda f, x: f.mean((x - f.mean(x)) ** 3) / f.var(x) ** 1.5,
    "kurtosis": lambda f, x: f.mean((x - f.mean(x)) ** 4) / f.var(x) ** 2,
    "geometric mean": lambda f, x: f.prod(x) ** 0.25,
    "harmonic mean": lambda f, x: 4 / f.sum(1 / x),
    "power mean": lambda f, x: f.mean(x**3) ** (1 / 3),
    "entropy": lambda f, x: -f.sum(f.softmax(x, axis=0) * f.log(f.softmax(x, axis=0))),
    "perplexity": lambda f, X: f.exp(-f.mean(f.sum(f.softmax(X, axis=1) * f.log(f.softmax(X, axis=1)), axis=1))),
    "gini": lambda f, x: 1 - f.sum(f.softmax(x, axis=0) ** 2),
    "range": lambda f, A: f.max(A, axis=0) - f.min(A, axis=0),
    "min-max scaling": lambda f, A: (A - f.min(A, axis=0)) / (f.max(A, axis=0) - f.min(A, axis=0)),
    "explained variance": lambda f, x, y: 1 - f.sum((x - y) ** 2) / f.sum((y - f.mean(y)) ** 2),
    "log mean exp": lambda f, A: f.logsumexp(A, axis=0) - np.log(4),
    "expected improvement": lambda f, x, y: (
        (x - 1) * (1 + f.erf((x - 1) / y)) / 2 + y * f.exp(-(((x - 1) / y) ** 2) / 2)
    ),
    "sharpe": lambda f, x, A: f.mean(A.T @ x) / f.std(A.T @ x),
    "markowitz": lambda f, x, S, y: x @ (S @ S.T) @ x / 2 - y @ x + f.sum(f.log(x)) / 9,
}
TABLES = {
    "rows": lambda f, A: A[0] * A[3],
    "block": lambda f, S: S[1:3, :2] @ S[:2, 2:],
    "reversed": lambda f, x: x * x[::-1],
    "rotated": lambda f, A, B: f.roll(A, (1, -1), axis=(0, 1)) * B,
    "stacked": lambda f, x, y: f.stack((x, y, x * y), axis=1),
    "joined": lambda f, A, S: f.concatenate((A, f.sin(S)), axis=1),
    "split and merged": lambda f, A: f.concatenate((A[2:], A[:2] ** 2), axis=0),
    "reshaped": lambda f, A, S: S[:3] @ f.reshape(f.ravel(A), (4, 3)),
    "padded": lambda f, A: f.pad(A, ((1, 0), (0, 2))),
    "moved": lambda f, H: f.moveaxis(H, 0, 2) ** 2,
    "new axes": lambda f, x, b: x[:, None, None] * b[None, :, None] * x[None, None, :],
    "every second column": lambda f, Z: Z[:, 1::2] / Z[:, ::2],
    "mask of a triangle": lambda f, S, T: f.where(f.greater(f.tril(T), 0), S, 1),
    "relu of differences": lambda f, x: f.relu(x[:, None] - x[None]),
    "sorted penalty": lambda f, x: f.sum(f.maximum(x[:-1] - x[1:], 0) ** 2),
}
PROGRAMS = {
    name: program
    for table in (ACTIVATIONS, LOSSES, LAYERS, ALGEBRA, EINSUM, DISTANCES, STATISTICS, TABLES)
    for name, program in table.items()
}


def tensors_of(program: Any) -> list[str]:
    """The names of the tensors that a program takes."""
    return list(program.__code__.co_varnames[1 : program.__code__.co_argcount])


def arrays(seed: int = 0) -> dict[str, Any]:
    """Random arrays for all names, positive and with a greatest ratio of 4."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 2, [SIZES.get(axis, 3) for axis in axes]) for name, axes in SHAPES.items()}


def total(f: Any, result: Any) -> Any:
    """The sum of the squares of the entries."""
    return f.sum(result * result)


class Words:
    """The words of this package."""

    def __getattr__(self, name: str) -> Any:
        return getattr(td, name)

    def eye(self, n: int) -> Any:
        """The unit matrix."""
        return td.DeltaTensor(n)


def ours(name: str, values: dict[str, Any], direction: Any) -> tuple[list[Any], Any]:
    """Value, gradient and Hessian times a direction, by the NumPy backend; and the gradient as an expression."""
    program = PROGRAMS[name]
    symbols = {t: td.TensorSymbol(t, tuple(SIZES.get(axis, 3) for axis in SHAPES[t])) for t in tensors_of(program)}
    first = next(iter(symbols.values()))
    along = td.TensorSymbol("along", first.shape)
    words = Words()
    result = program(words, *symbols.values())
    loss = total(words, result)
    gradient = td.gradient(loss, first)
    given = {symbol: values[t] for t, symbol in symbols.items()}
    found = td.evaluate((result, gradient, td.hvp(loss, first, along)), {**given, along: direction})
    return list(found), gradient


def by_jax(name: str, values: dict[str, Any], direction: Any) -> list[Any]:
    """The same by JAX."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    own = {"inv": jnp.linalg.inv, "det": jnp.linalg.det, "solve": jnp.linalg.solve, "norm": jnp.linalg.norm}
    own |= {"sigmoid": jax.nn.sigmoid, "softplus": jax.nn.softplus, "relu": jax.nn.relu, "softmax": jax.nn.softmax}
    own |= {"logsumexp": jax.scipy.special.logsumexp, "erf": jax.scipy.special.erf}
    own |= {"logdet": lambda a: jnp.linalg.slogdet(a)[1]}
    words = SimpleNamespace(**{**vars(jnp), **own})
    program = PROGRAMS[name]
    first, *others = (values[t] for t in tensors_of(program))

    def loss(first: Any) -> Any:
        return total(words, program(words, first, *others))

    first = jnp.asarray(first)
    others = [jnp.asarray(other) for other in others]
    tangent = jax.jvp(jax.grad(loss), (first,), (jnp.asarray(direction),))
    return [program(words, first, *others), *tangent]


def by_torch(name: str, values: dict[str, Any], direction: Any) -> list[Any] | None:
    """The same by PyTorch; None where it has other words."""
    import torch

    own = {"inv": torch.linalg.inv, "det": torch.linalg.det, "solve": torch.linalg.solve, "norm": torch.linalg.norm}
    own |= {"logdet": torch.logdet, "softplus": torch.nn.functional.softplus, "concatenate": torch.cat}
    own |= {"eye": lambda n: torch.eye(n, dtype=torch.float64)}
    own |= {"cross": torch.linalg.cross}
    for name_of in ("var", "std"):  # which divide by n - 1 where nothing is said

        def by_n(a: Any, *args: Any, of: str = name_of, ddof: int = 0, **keywords: Any) -> Any:
            return getattr(torch, of)(a, *args, correction=ddof, **keywords)

        own[name_of] = by_n
    words = SimpleNamespace(**{**vars(torch), **own})
    program = PROGRAMS[name]
    first, *others = (torch.tensor(values[t]) for t in tensors_of(program))
    first.requires_grad_()
    try:
        result = program(words, first, *others)
        (gradient,) = torch.autograd.grad(total(words, result), first, create_graph=True)
        (along,) = torch.autograd.grad(gradient, first, torch.tensor(direction), allow_unused=True)
    except (TypeError, AttributeError, RuntimeError, ValueError, IndexError):
        return None
    along = torch.zeros_like(first) if along is None else along
    return [found.detach().numpy() for found in (result, gradient, along)]


def texts(gradient: Any) -> Iterator[tuple[str, str]]:
    """A gradient as inputs of the text languages that can say it."""
    symbols = sorted(gradient.atoms(td.TensorSymbol), key=str)
    shaped = ", ".join(f"{s.name}[{', '.join(map(str, s.shape))}]" for s in symbols)
    axes = td.indices("i j k l")[: len(gradient.shape)]
    for language in ("thesis", "matrix", "index"):
        try:
            text = td.to_text(
                gradient[axes].doit(deep=False) if axes and language == "index" else gradient, language=language
            )
        except TensorDiffError:
            continue
        if language == "index":
            target = f"G[{', '.join(map(str, axes))}]" if axes else "G"
            given = ", ".join(filter(None, [shaped, axes and f"G[{', '.join(map(str, gradient.shape))}]"]))
            yield language, f"declare {given}\n{target} = {text}\nderivative wrt {symbols[0].name}"
        elif language == "matrix":
            yield language, f"declare {shaped} {text}" if symbols else text
        else:
            orders = " ".join(f"{s.name} {s.rank}" for s in symbols)
            yield language, f"declare {orders} expression {text} derivative wrt {symbols[0].name}"


def texts_come_back(gradient: Any) -> list[str]:
    """The languages in which a gradient is read as the same values; an error where it is read as others."""
    values = arrays(1)
    given = {s: values[s.name] for s in gradient.atoms(td.TensorSymbol)}
    expected = td.evaluate(gradient, given)
    found = []
    for language, text in texts(gradient):
        try:
            again = td.parse(text, language).expression
        except ParseError:  # inverses of matrices in index notation
            continue
        if again.free_symbols - again.atoms(td.TensorSymbol):  # a size that no tensor has
            continue
        theirs = {s: values[s.name] for s in again.atoms(td.TensorSymbol)}
        if not agree([td.evaluate(again, theirs)], [expected]):
            raise AssertionError(f"another value by its text: {text}")
        found.append(language)
    return found


def agree(one: list[Any], other: list[Any]) -> bool:
    """Return whether results are equal to ten digits of their greatest entries."""
    return all(
        np.shape(a) == np.shape(b) and np.abs(np.asarray(a) - np.asarray(b)).max() <= 1e-10 * (1 + np.abs(b).max())
        for a, b in zip(one, other, strict=True)
    )


def main() -> int:
    values = arrays()
    counts = dict.fromkeys(
        ("programs", "equal to JAX", "equal to PyTorch", "not in PyTorch's words", "texts", "no text"), 0
    )
    for name, program in PROGRAMS.items():
        counts["programs"] += 1
        shape = values[tensors_of(program)[0]].shape
        direction = np.random.default_rng(1).normal(size=shape)
        try:
            found, gradient = ours(name, values, direction)
        except TensorDiffError as error:
            print(f"{name}: refused: {error}")
            continue
        if agree(found, by_jax(name, values, direction)):
            counts["equal to JAX"] += 1
        else:
            print(f"{name}: another result than JAX")
        torch = by_torch(name, values, direction)
        if torch is None:
            counts["not in PyTorch's words"] += 1
        elif agree(found, torch):
            counts["equal to PyTorch"] += 1
        else:
            print(f"{name}: another result than PyTorch")
        back = texts_come_back(gradient)
        counts["texts" if back else "no text"] += 1
    print("; ".join(f"{what}: {count}" for what, count in counts.items()))
    return int(counts["equal to JAX"] < counts["programs"])


if __name__ == "__main__":
    sys.exit(main())
