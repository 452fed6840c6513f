"""Expressions of whole tensors with their values in NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import sympy

import sympy_tensordiff as td

n, m, p, q, i, k = td.indices("n m p q i k")
SIZES = {"n": 3, "m": 4, "p": 5, "q": 2}
TENSORS = {
    "A": (n, m), "B": (m, p), "C": (p, q), "D": (n, m), "S": (n, n), "T": (n, n, m), "U": (m, n, p), "V": (n, m, p),
    "x": (n,), "y": (m,), "z": (p,), "s": (),
}  # fmt: skip
A, B, C, D, S, T, U, V, x, y, z, s = (td.TensorSymbol(name, shape) for name, shape in TENSORS.items())
lam = sympy.Symbol("lam", real=True)
SYMBOLS = [A, B, C, D, S, T, U, V, x, y, z, s, lam]


def values(dtype=np.float64, seed=0):
    """Random values of all symbols, by name; S is not symmetric and not singular."""
    rng = np.random.default_rng(seed)
    shapes = {name: tuple(SIZES[str(e)] for e in shape) for name, shape in TENSORS.items()}
    found = {name: rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape) for name, shape in shapes.items()}
    found["S"] = found["S"] + 3 * np.eye(3)
    return {name: value.astype(dtype) for name, value in found.items()} | {"lam": dtype(0.75)}


AB = td.einsum("ij,jk->ik", A, B)
TURNED_A = td.einsum("ij->ji", A)
TURNED = td.einsum("ijk->ikj", T)
PRODUCTS = {
    "ij,jk->ik": (A, B), "ij,jk->ki": (A, B), "ij,kj->ki": (A, D), "ij,j->i": (A, y), "ij,i->j": (A, x),
    "i,i->": (x, x), "ij,ij->": (A, D), "ij,ji->": (A, td.einsum("ij->ji", D)), "i,j->ij": (x, y),
    "ij,ij->ij": (A, D), "ij,ij->ji": (A, D), "ij,i->ij": (A, x), "ij->": (A,), "ij->j": (A,), "ij->ji": (A,),
    "ii->": (S,), "ii->i": (S,), "iij->ij": (T,), "iij->": (T,), "iij,j->i": (T, y), "iji,j->i": (TURNED, y),
    "iji,ij->": (TURNED, A), "iij,kj->ki": (T, D), "ijk,jk->i": (V, B), "ijk,ij->k": (V, A), "ijk,jil->kl": (V, U),
    "ijk,lij->kl": (V, td.einsum("ijk->kij", V)), "bij,bij->b": (V, V), "bij,bkj->bik": (T, T),
    "ibj,bk->ibjk": (U, A), "bij,bj->bi": (T, A), "ibj,bj->ib": (U, AB), "ijb,ijb->b": (V, V), "bi,bj,b->ij": (A, D, x),
    "ij,jk,kl->il": (A, B, C), "i,ij,jk,k->": (x, A, B, z), "a,b,ab,b->": (x, y, A, y), "ij,ik,il->jkl": (A, D, A),
    "ab,bc,cd,de,ef->af": (S, A, B, C, td.einsum("ij->ji", C)), ",ij->ij": (2, A), ",ij,->i": (lam, A, s),
    "ij,k->jk": (A, z), "i,j,k->kij": (x, y, z), "ijj,k->ik": (td.einsum("ijk->kij", T), z),
    "abc,abc,ab,c->a": (V, V, A, z), "ij,ij,ij->": (A, D, A), "ij,ij,kj->i": (A, D, A),
}  # fmt: skip


def array_of(operand, given):
    """The value of an operand, through NumPy."""
    if isinstance(operand, td.EinsumProduct):
        subscripts = f"{','.join(operand.inputs)}->{operand.output}"
        return np.einsum(subscripts, *(array_of(inner, given) for inner in operand.operands))
    return given[str(operand)] if isinstance(operand, sympy.Symbol | td.TensorSymbol) else float(operand)


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def add(*terms):
    return td.TensorAdd(*terms)


def mul(*factors):
    return td.TensorMul(*factors)


ENTRY = {
    "sums of tensors and numbers": (add(A, mul(2, D), lam, -1), lambda v: v["A"] + 2 * v["D"] + v["lam"] - 1),
    "functions": (td.exp(add(A, td.sin(D))), lambda v: np.exp(v["A"] + np.sin(v["D"]))),
    "powers": (td.TensorPow(td.abs(A), D), lambda v: abs(v["A"]) ** v["D"]),
    "quotients": (mul(A, td.TensorPow(D, -1), s), lambda v: v["A"] / v["D"] * v["s"]),
    "choices": (td.maximum(A, 0), lambda v: np.maximum(v["A"], 0)),
    "a variable": (A, lambda v: v["A"]),
    "a delta": (td.DeltaTensor((n,)), lambda v: np.eye(3)),
    "ones": (td.ones((n, p)), lambda v: np.ones((3, 5))),
    "a diagonal": (td.diag(x), lambda v: np.diag(v["x"])),
    "a function of a product": (td.tanh(AB), lambda v: np.tanh(v["A"] @ v["B"])),
    "a product of functions": (
        td.einsum("ij,jk->ik", td.sin(A), td.exp(B)),
        lambda v: np.sin(v["A"]) @ np.exp(v["B"]),
    ),
    "a multiple of a product": (mul(2, AB), lambda v: 2 * v["A"] @ v["B"]),
    "a transposed multiple": (td.einsum("ij->ji", mul(-1, AB)), lambda v: -(v["A"] @ v["B"]).T),
    "a part of a product": (
        mul(sympy.Rational(-1, 3), td.einsum("ijk,jk->i", V, B)),
        lambda v: -np.einsum("ijk,jk->i", v["V"], v["B"]) / 3,
    ),
    "a multiple in between": (
        td.logsumexp(mul(-2.5, td.einsum("ij,j->i", A, y))),
        lambda v: np.log(np.exp(-2.5 * v["A"] @ v["y"]).sum()),
    ),
    "a multiple of a scalar's": (
        mul(lam, s, td.einsum("ij,j->i", A, y)),
        lambda v: v["lam"] * v["s"] * v["A"] @ v["y"],
    ),
    "a scalar and a residual": (
        mul(2, lam, TURNED_A @ add(mul(A, D) @ y, mul(-1, x))),
        lambda v: 2 * v["lam"] * v["A"].T @ ((v["A"] * v["D"]) @ v["y"] - v["x"]),
    ),
    "an average": (mul(1 / n, TURNED_A @ add(x, mul(s, x))), lambda v: v["A"].T @ (v["x"] * (1 + v["s"])) / 3),
    "a norm": (td.norm(AB), lambda v: np.linalg.norm(v["A"] @ v["B"])),
    "a softmax": (td.softmax(A), lambda v: softmax(v["A"], 1)),
    "a softmax of a product": (td.softmax(AB, axis=0), lambda v: softmax(v["A"] @ v["B"], 0)),
    "logsumexp": (td.logsumexp(V, axis=(0, 2)), lambda v: np.log(np.exp(v["V"]).sum((0, 2)))),
    "logsumexp of all": (td.logsumexp(A), lambda v: np.log(np.exp(v["A"]).sum())),
    "sigmoid": (td.sigmoid(A), lambda v: 1 / (1 + np.exp(-v["A"]))),
    "softplus": (td.softplus(A), lambda v: np.log1p(np.exp(v["A"]))),
    "a mean": (td.mean(td.exp(A), axis=0), lambda v: np.exp(v["A"]).mean(0)),
    "entries": (td.IndexedSum(AB[i, 1] * x[i], (i, 0, n - 1)), lambda v: (v["A"] @ v["B"])[:, 1] @ v["x"]),
    "a comprehension as operand": (
        td.einsum("ij,jk->ik", td.TensorComprehension(A[i, k] * (i + 1), (i, n), (k, m)), B),
        lambda v: (v["A"] * np.arange(1, 4)[:, None]) @ v["B"],
    ),
    "a product in a comprehension": (
        td.TensorComprehension(td.IndexedSum(AB[i, k] * z[k], (k, 0, p - 1)) + x[i], (i, n)),
        lambda v: v["A"] @ v["B"] @ v["z"] + v["x"],
    ),
    "a scalar of its own": (mul(td.exp(td.sum(A)), x), lambda v: np.exp(v["A"].sum()) * v["x"]),
    "transposed back and forth": (
        add(td.einsum("ij->ji", AB), td.einsum("ij,kj->ik", td.einsum("ij->ji", B), A)),
        lambda v: 2 * (v["A"] @ v["B"]).T,
    ),
}
MATRICES = {
    "inverse": (td.inv(S), lambda v: np.linalg.inv(v["S"])),
    "transposed inverse": (td.einsum("ij->ji", td.inv(S)), lambda v: np.linalg.inv(v["S"]).T),
    "multiple of an inverse": (mul(-1, td.inv(S)), lambda v: -np.linalg.inv(v["S"])),
    "transposed multiple of an inverse": (
        td.einsum("ij->ji", td.inv(mul(4, S))),
        lambda v: np.linalg.inv(v["S"]).T / 4,
    ),
    "multiple of a solution": (
        mul(-2, td.einsum("ij,jk->ki", td.inv(S), A)),
        lambda v: -2 * np.linalg.solve(v["S"], v["A"]).T,
    ),
    "inverse of a sum with a multiple": (
        td.inv(add(S, mul(2, td.einsum("ij,kj->ik", A, D)))),
        lambda v: np.linalg.inv(v["S"] + 2 * v["A"] @ v["D"].T),
    ),
    "multiple of an adjugate": (
        mul(0.5, td.adj(S)),
        lambda v: np.linalg.det(v["S"]) * np.linalg.inv(v["S"]) / 2,
    ),
    "adjugate of a multiple": (
        td.adj(mul(2, td.einsum("ij,kj->ik", A, D))),
        lambda v: cofactor(2 * v["A"] @ v["D"].T, 1).T,
    ),
    "multiple of a derivative": (
        mul(3, td.jvp(td.adj(S), S, td.einsum("i,j->ij", x, x))),
        lambda v: 3 * np.einsum("jiab,a,b->ij", cofactor(v["S"], 2), v["x"], v["x"]),
    ),
    "solution": (td.einsum("ij,jk->ik", td.inv(S), A), lambda v: np.linalg.solve(v["S"], v["A"])),
    "solution of a vector": (td.einsum("ij,j->i", td.inv(S), x), lambda v: np.linalg.solve(v["S"], v["x"])),
    "from the other side": (td.einsum("ij,ik->jk", td.inv(S), A), lambda v: np.linalg.solve(v["S"].T, v["A"])),
    "in another order": (td.einsum("ij,jk->ki", td.inv(S), A), lambda v: np.linalg.solve(v["S"], v["A"]).T),
    "of many columns": (
        td.einsum("ij,jkl->lik", td.inv(S), V),
        lambda v: np.einsum("ij,jkl->lik", np.linalg.inv(v["S"]), v["V"]),
    ),
    "between two vectors": (
        td.einsum("i,ij,j->", x, td.inv(S), x),
        lambda v: v["x"] @ np.linalg.solve(v["S"], v["x"]),
    ),
    "two inverses and a vector": (
        td.einsum("ij,jk,k->i", td.inv(S), td.inv(add(S, td.diag(x))), x),
        lambda v: np.linalg.solve(v["S"], np.linalg.solve(v["S"] + np.diag(v["x"]), v["x"])),
    ),
    "trace of an inverse": (td.trace(td.inv(S)), lambda v: np.trace(np.linalg.inv(v["S"]))),
    "trace of a solution": (
        td.einsum("ij,jk,ik->", td.inv(S), A, D),
        lambda v: np.trace(np.linalg.solve(v["S"], v["A"] @ v["D"].T)),
    ),
    "inverse of a diagonal part": (
        td.einsum("ij,j,i->ij", td.inv(S), x, x),
        lambda v: np.linalg.inv(v["S"]) * np.outer(v["x"], v["x"]),
    ),
    "determinant": (td.det(S), lambda v: np.linalg.det(v["S"])),
    "of a product": (
        td.det(td.einsum("ij,kj->ik", A, D)),
        lambda v: np.linalg.det(v["A"] @ v["D"].T),
    ),
    "logarithm": (td.log(td.abs(td.det(S))), lambda v: np.linalg.slogdet(v["S"])[1]),
    "logarithm of a square": (
        td.log(td.det(td.einsum("ij,kj->ik", A, A))),
        lambda v: np.linalg.slogdet(v["A"] @ v["A"].T)[1],
    ),
    "adjugate": (td.adj(S), lambda v: np.linalg.det(v["S"]) * np.linalg.inv(v["S"])),
    "cofactor of order 2": (td.TensorCofactor(2, S), lambda v: cofactor(v["S"], 2)),
    "cofactor of order 3": (td.TensorCofactor(3, S), lambda v: cofactor(v["S"], 3)),
    "cofactor of order 4": (td.TensorCofactor(4, S), lambda v: np.zeros((3,) * 8)),
}  # fmt: skip


def cofactor(matrix, order):
    """The derivative of the determinant by sums over permutations, entry by entry."""
    size = len(matrix)
    result = np.zeros((size,) * (2 * order))
    for index in np.ndindex(result.shape):
        rows, columns = index[::2], index[1::2]
        if len(set(rows)) < order or len(set(columns)) < order:
            continue
        marked = np.array(matrix, dtype=float)
        for row, column in zip(rows, columns, strict=True):
            marked[row] = 0
            marked[row, column] = 1
        result[index] = np.linalg.det(marked)
    return result


@cache
def cases():
    """All cases by name: the expression and its value."""
    products = {
        subscripts: (
            td.einsum(subscripts, *operands),
            lambda v, subscripts=subscripts, operands=operands: np.einsum(
                subscripts, *(array_of(operand, v) for operand in operands)
            ),
        )
        for subscripts, operands in PRODUCTS.items()
    }
    return products | ENTRY | MATRICES


def arguments_of(expr):
    """The symbols that an expression needs, and sizes that nothing else fixes."""
    found = [symbol for symbol in SYMBOLS if expr.has(symbol)]
    fixed = {size for symbol in found if isinstance(symbol, td.TensorSymbol) for size in symbol.shape}
    sizes = {size for size in expr.free_symbols if size in (n, m, p, q)} - fixed
    sizes |= {size for size in getattr(expr, "shape", ()) if size in (n, m, p, q)} - fixed
    return [*found, *sorted(sizes, key=str)]


def check(name, backend, dtype=np.float64):
    """Compare a case with NumPy."""
    return check_together([name], backend, dtype)


def check_together(names, backend, dtype=np.float64):
    """Compare cases with NumPy, the results of one kernel."""
    exprs = [cases()[name][0] for name in names]
    listed = dict.fromkeys(argument for expr in exprs for argument in arguments_of(expr))
    fixed = {size for symbol in listed if isinstance(symbol, td.TensorSymbol) for size in symbol.shape}
    arguments = [argument for argument in listed if argument not in fixed]
    given = values(dtype)
    function = td.lambdify(arguments, exprs, backend)
    results = function(*(given[str(a)] if str(a) in given else SIZES[str(a)] for a in arguments))
    for name, found in zip(names, results, strict=True):
        wanted = np.asarray(cases()[name][1](values()))
        assert found.shape == wanted.shape
        assert found.dtype == (dtype if any(str(a) in TENSORS or a == lam for a in arguments) else np.float64)
        tolerance = 1e-11 if dtype == np.float64 else 2e-4
        np.testing.assert_allclose(
            found, wanted, rtol=tolerance, atol=tolerance * max(1.0, abs(wanted).max()), err_msg=function.source
        )
    return function
