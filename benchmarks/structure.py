"""Sparse Hessians: time to the first result, time of a later one, and memory, compared with `jax.hessian` at a small
size.

Run with ``python benchmarks/structure.py``; see README.md in this folder. Each case runs in a process of its own. The
times are of the processor, the least of several. ``--peers`` runs asdex, sparsejac and CasADi (extra ``bench``)
at a size between the two; all results are compared.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

REPEATS = 9
CASES = {"chain": (1_000_000, 1_000), "variation": (512, 24), "ratings": (5_000, 500)}
"""The size at which the sparse Hessian is measured, and the size at which it is compared with `jax.hessian`."""


def problem(name: str, size: int) -> tuple[Any, Any, Any, list[Any]]:
    """Arguments, loss, variables and arrays of a case."""
    import sympy

    import sympy_tensordiff as td

    i, j, n, m, k, t = td.indices("i j n m k t")
    rng = np.random.default_rng(0)
    if name == "chain":
        x = td.TensorSymbol("x", n)
        loss = td.IndexedSum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2, (i, 0, n - 2))
        return (x,), loss, x, [rng.normal(size=size)]
    if name == "variation":
        image = td.TensorSymbol("image", (n, m))
        right, down = image[i, j + 1] - image[i, j], image[i + 1, j] - image[i, j]
        loss = td.IndexedSum(sympy.sqrt(right**2 + down**2 + sympy.Rational(1, 1000)), (j, 0, m - 2), (i, 0, n - 2))
        return (image,), loss, image, [rng.normal(size=(size, size))]
    users, items, of = td.TensorSymbol("U", (n, k)), td.TensorSymbol("V", (m, k)), td.TensorSymbol("r", t)
    who, what = td.TensorSymbol("who", t, dtype=int), td.TensorSymbol("what", t, dtype=int)
    error = of[i] - td.IndexedSum(users[who[i], j] * items[what[i], j], (j, 0, k - 1))
    arrays = [rng.normal(size=(size // 50, 8)), rng.normal(size=(size // 100, 8))]
    arrays += [rng.integers(0, size // 50, size), rng.integers(0, size // 100, size), rng.normal(size=size)]
    return (users, items, who, what, of), td.IndexedSum(error**2, (i, 0, t - 1)), (users, items), arrays


def in_jax(name: str, arrays: list[Any]) -> tuple[Callable[[Any], Any], Any]:
    """The loss in JAX, of all variables in one vector, and that vector."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def chain(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def variation(x: Any) -> Any:
        image = x.reshape(arrays[0].shape)
        right, down = image[:-1, 1:] - image[:-1, :-1], image[1:, :-1] - image[:-1, :-1]
        return jnp.sqrt(right**2 + down**2 + 1e-3).sum()

    def ratings(x: Any) -> Any:
        cut = arrays[0].size
        users, items = x[:cut].reshape(arrays[0].shape), x[cut:].reshape(arrays[1].shape)
        return ((arrays[4] - (users[arrays[2]] * items[arrays[3]]).sum(1)) ** 2).sum()

    loss = {"chain": chain, "variation": variation, "ratings": ratings}[name]
    flat = np.concatenate([np.ravel(a) for a in (arrays[:2] if name == "ratings" else arrays[:1])])
    return loss, flat


def dense_in_jax(name: str, arrays: list[Any]) -> Callable[[], Any]:
    """The same Hessian by `jax.hessian`, as one dense matrix; compiled."""
    loss, flat = in_jax(name, arrays)
    import jax

    compiled = jax.jit(jax.hessian(loss))
    return lambda: np.asarray(compiled(flat))


# ---------------------------------------------------------------------------- peers: what makes the Hessian of a case


def by_asdex(name: str, arrays: list[Any], pattern: Any) -> Callable[[], Any]:
    """The pattern detected, a coloring, and as many products as colors."""
    import asdex

    loss, flat = in_jax(name, arrays)
    import jax

    compiled = jax.jit(asdex.hessian_from_coloring(loss, asdex.hessian_coloring(loss, flat)))
    return lambda: in_scipy(compiled(flat))


def by_sparsejac(name: str, arrays: list[Any], pattern: Any) -> Callable[[], Any]:
    """A coloring of the pattern, which is given, and as many products."""
    import sparsejac

    loss, flat = in_jax(name, arrays)
    import jax
    from jax.experimental.sparse import BCOO

    ones = pattern.tocoo()
    places = BCOO((np.ones(ones.nnz), np.stack([ones.row, ones.col], 1)), shape=ones.shape)
    compiled = jax.jit(sparsejac.jacrev(jax.grad(loss), places))
    return lambda: in_scipy(compiled(flat))


def in_scipy(matrix: Any) -> Any:
    """A sparse matrix of JAX as one of SciPy."""
    from scipy.sparse import csr_array

    rows, columns = np.asarray(matrix.indices).T
    return csr_array((np.asarray(matrix.data), (rows, columns)), shape=matrix.shape)


def by_casadi(name: str, arrays: list[Any], pattern: Any) -> Callable[[], Any]:
    """A graph of scalars, differentiated by coloring, in CasADi's virtual machine."""
    import casadi

    if name == "chain":
        x = casadi.SX.sym("x", len(arrays[0]))
        loss = casadi.sum1(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    elif name == "variation":
        x = casadi.SX.sym("x", arrays[0].size)
        image = casadi.reshape(x, *arrays[0].shape).T  # CasADi's order is that of columns
        right, down = image[:-1, 1:] - image[:-1, :-1], image[1:, :-1] - image[:-1, :-1]
        loss = casadi.sum1(casadi.sum2(casadi.sqrt(right**2 + down**2 + 1e-3)))
    else:
        x = casadi.SX.sym("x", arrays[0].size + arrays[1].size)
        rank = arrays[0].shape[1]
        users, items = (casadi.reshape(part, rank, -1) for part in (x[: arrays[0].size], x[arrays[0].size :]))
        chosen = users[:, arrays[2].tolist()] * items[:, arrays[3].tolist()]
        loss = casadi.sumsqr(arrays[4] - casadi.sum1(chosen).T)
    function = casadi.Function("hessian", [x], [casadi.hessian(loss, x)[0]])
    flat = np.concatenate([np.ravel(a) for a in (arrays[:2] if name == "ratings" else arrays[:1])])
    return lambda: function(flat).sparse()


PEERS = {"asdex": by_asdex, "sparsejac": by_sparsejac, "casadi": by_casadi}
BETWEEN = {"chain": 100_000, "variation": 128, "ratings": 2_000}


def measure_peers(name: str) -> None:
    """A line for each peer, and one of ours."""
    import sympy_tensordiff as td

    args, loss, wrt, arrays = problem(name, BETWEEN[name])
    start = time.process_time()
    hessian = td.structured_hessian(args, loss, wrt)
    pattern = hessian(*arrays).tocsr()
    first = time.process_time() - start
    again = least(lambda: hessian(*arrays).tocsr())
    print(f"{name:10} {pattern.nnz:9} nonzeros, ours: first {first:7.2f} s, again {again:8.2f} ms", flush=True)
    for peer, make in PEERS.items():
        start = time.process_time()
        try:
            compute = make(name, arrays, pattern)
            found = compute()
        except ImportError:
            print(f"{name:10} {peer} is not installed")
            continue
        first = time.process_time() - start
        assert abs(found - pattern).max() <= 1e-9 * (1 + abs(pattern).max()), f"{peer} has another Hessian"
        print(f"{name:10} {peer:12} first {first:7.2f} s, again {least(compute):8.2f} ms", flush=True)


def least(function: Callable[[], Any]) -> float:
    """The least processor time of several calls, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def measure(name: str, size: int, small: int) -> str:
    """A line of the table; the results are compared before anything is reported."""
    import sympy_tensordiff as td

    args, loss, wrt, arrays = problem(name, size)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    hessian = td.structured_hessian(args, loss, wrt)
    matrix = hessian(*arrays).tocsr()
    first = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    again = least(lambda: hessian(*arrays).tocsr())
    line = f"{name:10} {matrix.nnz:9} nonzeros: first {first:5.2f} s, again {again:7.2f} ms, {grown:5.0f} MB"
    *_, arrays = problem(name, small)
    try:
        dense = dense_in_jax(name, arrays)
    except ImportError:
        return line + "; JAX is not installed"
    np.testing.assert_allclose(hessian(*arrays).toarray(), dense(), atol=1e-9)
    ratio = least(dense) / least(lambda: hessian(*arrays).tocsr())
    return line + f"; at {len(dense())} unknowns jax.hessian takes {ratio:.0f} times as long"


def main() -> None:
    """Measure all cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--peers", action="store_true", help="compared with asdex, sparsejac and CasADi")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    for name in options.cases or CASES:
        if options.here and options.peers:
            measure_peers(name)
        elif options.here:
            print(measure(name, *CASES[name]))
        else:
            subprocess.run([sys.executable, __file__, name, "--here", *["--peers"] * options.peers], check=True)


if __name__ == "__main__":
    main()
