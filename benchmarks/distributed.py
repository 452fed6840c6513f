"""Blocks on Dask compared with Dask, NumPy and JAX by hand: CPU seconds and peak memory of two workers.

``python -m benchmarks.distributed`` runs all rows, each in a process of its own, and writes their data (5 GB) into the
folder ``--data``; ``--row logistic --way ours`` runs one. Ways by hand and "ours, chunks" take dask arrays of the
files, "ours" the files. ``memory`` is the largest resident size of a worker, ``over idle`` without what it has before
the call. The second of two calls counts: the first one compiles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
os.environ.update(dict.fromkeys(THREADS, "1"))

import numpy as np  # noqa: E402
import psutil  # noqa: E402
import sympy  # noqa: E402

import sympy_tensordiff as td  # noqa: E402

i, j, k, d, n, m, p, r = td.indices("i j k d n m p r")
FRACTION = 10
"""The peers of the Gaussian sums compute the gradient with respect to one point in so many."""


class Watch:
    """The CPU time and the peak memory of some processes."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.processes = [psutil.Process(pid) for pid in pids]
        self.initial = [q.memory_info().rss for q in self.processes]
        self.peak, self.over = 0, 0
        self.cpu, self.wall = self._cpu(), time.perf_counter()
        self.running = True
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()

    def _cpu(self) -> float:
        return sum(sum(q.cpu_times()[:2]) for q in self.processes)

    def _sample(self) -> None:
        while self.running:
            sizes = [q.memory_info().rss for q in self.processes]
            self.peak = max(self.peak, *sizes)
            self.over = max(self.over, *(size - initial for size, initial in zip(sizes, self.initial, strict=True)))
            time.sleep(0.005)

    def stop(self) -> str:
        self.running = False
        self.thread.join()
        cpu, wall = self._cpu() - self.cpu, time.perf_counter() - self.wall
        memory = f"memory {self.peak / 1e6:5.0f} MB  over idle {self.over / 1e6:5.0f} MB"
        return f"CPU {cpu:7.1f} s  wall {wall:6.1f} s  {memory}"


# ---------------------------------------------------------------------------- data in files


def written(path: Path, count: int) -> Path:
    """A file of normal deviates."""
    if not path.exists() or path.stat().st_size != 8 * count:
        rng = np.random.default_rng(0)
        with path.open("wb") as file:
            for start in range(0, count, 10**7):
                rng.standard_normal(min(10**7, count - start)).tofile(file)
    return path


class File:
    """The rows of a file as an array that is sliced along its first axis."""

    chunks = None

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path, self.shape, self.dtype, self.ndim = path, shape, np.dtype(float), len(shape)

    def __getitem__(self, cut: Any) -> Any:
        start, stop, _ = cut[0].indices(self.shape[0])
        width = int(np.prod(self.shape[1:]))
        array = np.fromfile(self.path, count=(stop - start) * width, offset=start * width * 8)
        return array.reshape(-1, *self.shape[1:])[(slice(None), *cut[1:])]


def from_file(method: str, path: Path, shape: tuple[int, ...], chunk: int) -> Any:
    """A file for "ours", which reads parts of it, and a dask array of its rows for all others."""
    import dask.array as da

    file = File(written(path, int(np.prod(shape))), shape)
    return file if method == "ours" else da.from_array(file, chunks=(chunk, *shape[1:]))


# ---------------------------------------------------------------------------- rows: lazy results of a way


def logistic(method: str, data: Path, scale: int) -> Any:
    """Gradient and Hessian of a logistic regression of 10**7 rows and 32 columns."""
    import dask
    import dask.array as da

    rows, columns, chunk = 2_500_000 * scale, 32, 100_000
    X = from_file(method, data / f"X{scale}", (rows, columns), chunk)
    y = from_file(method, data / f"y{scale}", (rows,), chunk)
    w = np.random.default_rng(1).normal(size=columns) / 10
    if method == "dask":
        s = 1 / (1 + da.exp(-(X @ w)))
        return [X.T @ (s - y), X.T @ (X * (s * (1 - s))[:, None])]
    if method == "one pass":

        def one(X: Any, y: Any) -> Any:
            s = 1 / (1 + np.exp(-(X @ w)))
            return np.concatenate([(X.T @ (s - y))[None], X.T @ (X * (s * (1 - s))[:, None])])

        parts = [dask.delayed(one)(a, b) for a, b in zip(X.to_delayed().ravel(), y.to_delayed(), strict=True)]
        while len(parts) > 1:
            parts = [dask.delayed(sum)(parts[at : at + 8]) for at in range(0, len(parts), 8)]
        total = da.from_delayed(parts[0], (33, 32), float)
        return [total[0], total[1:]]
    X_, y_, w_ = td.TensorSymbol("X", (n, m)), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
    loss = td.sum(td.softplus(X_ @ w_)) - td.dot(y_, X_ @ w_)
    both = td.gradient(loss, w_), td.hessian(loss, w_)
    return td.lambdify((X_, y_, w_), both, "dask", blocks={n: chunk})(X, y, w)


def convolution(method: str, data: Path, scale: int) -> Any:
    """Both pullbacks of a convolution of 4*10**7 entries with stride 2."""
    import dask.array as da

    count, chunk = 10_000_000 * scale, 1_000_000
    x = from_file(method, data / f"x{scale}", (2 * count + 1,), 2 * chunk)
    dy, w = from_file(method, data / f"dy{scale}", (count,), chunk), np.array([1.0, -2.0, 0.5])
    if method == "map_overlap":

        def back(b: Any) -> Any:  # one entry of halo on the left; Dask wants it on both sides
            b = b[:-1]
            out = np.zeros(2 * (b.size - 1))
            out[0::2] = b[1:] * w[0] + b[:-1] * w[2]
            out[1::2] = b[1:] * w[1]
            return out

        chunks = (tuple(2 * c for c in dy.chunks[0]),)
        body = da.map_overlap(back, dy, depth=1, boundary=0, trim=False, chunks=chunks, dtype=float, meta=np.empty(0))
        dx = da.concatenate([body, dy[-1:] * w[2]])
        dw = da.stack([(dy * x[t : t + 2 * count : 2]).sum() for t in range(3)])
    else:
        x_, w_, dy_ = td.TensorSymbol("x", 2 * n + 1), td.TensorSymbol("w", 3), td.TensorSymbol("dy", n)
        y = td.TensorComprehension(td.IndexedSum(x_[2 * i + k] * w_[k], (k, 0, 2)), (i, n))
        dx, dw = td.lambdify((x_, w_, dy_), td.vjp(y, (x_, w_), dy_), "dask", blocks={n: chunk})(x, w, dy)
    return [dx.sum(), (dx * dx).sum(), dw]


def variation(method: str, data: Path, scale: int) -> Any:
    """The gradient of the total variation of a picture of 8000 x 8000 in chunks of rows."""
    import dask.array as da

    rows, columns, chunk, smooth = 2000 * scale, 8000, 500, 0.1
    u = from_file(method, data / f"u{scale}", (rows, columns), chunk)
    if method == "map_overlap":

        def back(a: Any, block_info: Any = None) -> Any:  # one row of halo on both sides; columns are whole
            (first, last), _ = block_info[None]["array-location"]
            down, right = a[1:, :-1] - a[:-1, :-1], a[:-1, 1:] - a[:-1, :-1]
            s = 1 / np.sqrt(down**2 + right**2 + smooth)
            s[0] *= first > 0
            s[-1] *= last < rows
            g = np.zeros_like(a)
            g[1:, :-1] += down * s
            g[:-1, 1:] += right * s
            g[:-1, :-1] -= (down + right) * s
            return g[1:-1]

        g = da.map_overlap(
            back,
            u,
            depth={0: 1, 1: 0},
            boundary={0: 0, 1: "none"},
            trim=False,
            chunks=u.chunks,
            dtype=float,
            meta=np.empty((0, 0)),
        )
    else:
        u_, e = td.TensorSymbol("u", (n, m)), sympy.Symbol("e", positive=True)
        down, right = u_[i + 1, j] - u_[i, j], u_[i, j + 1] - u_[i, j]
        total = td.IndexedSum(sympy.sqrt(down**2 + right**2 + e), (j, 0, m - 2), (i, 0, n - 2))
        g = td.lambdify((u_, e), td.gradient(total, u_), "dask", blocks={n: chunk})(u, smooth)
    return [g.sum(), (g * g).sum()]


def points(scale: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    count = 25_000 * scale
    return rng.normal(size=(count, 3)), rng.normal(size=count)


def gaussian(method: str, data: Path, scale: int) -> Any:
    """The gradient of sum_ij b_i b_j exp(-|x_i - x_j|^2) with respect to 10**5 points in three dimensions."""
    import dask.array as da

    P, b = points(scale)
    count, chunk = len(b), 5000
    if method == "numpy":

        def pair(z: Any, s: Any, P: Any, b: Any) -> Any:
            e = z[:, None, :] - P[None]
            kernel = np.exp(-(e**2).sum(2))
            return -4 * s[:, None] * np.einsum("ij,ijd->id", kernel * b[None], e)

        def block(z: Any, s: Any) -> Any:
            return sum(pair(z, s[:, 0], P[a : a + 1000], b[a : a + 1000]) for a in range(0, count, 1000))

        some, weights = (da.from_array(a[: count // FRACTION], chunks=(500, -1)) for a in (P, b[:, None]))
        g = da.map_blocks(block, some, weights, chunks=some.chunks, dtype=float, meta=np.empty((0, 0)))
        return [g]
    X, c = td.TensorSymbol("X", (n, m)), td.TensorSymbol("c", n)
    squares = td.IndexedSum((X[i, d] - X[j, d]) ** 2, (d, 0, m - 1))
    energy = td.IndexedSum(c[i] * td.IndexedSum(sympy.exp(-squares) * c[j], (j, 0, n - 1)), (i, 0, n - 1))
    g = td.lambdify((X, c), td.gradient(energy, X), "dask", blocks={n: 4 * chunk})(P, b)
    return [g[: count // FRACTION]] if method == "ours, a part" else [g]


def mttkrp(method: str, data: Path, scale: int) -> Any:
    """T[i,j,k] V[j,r] W[k,r] for 26 GB of T, whose chunks are made when they are read."""
    import dask.array as da

    shape, rank = (500 * scale, 1600, 1000), 16
    rng = np.random.default_rng(0)
    V, W = rng.normal(size=(shape[1], rank)), rng.normal(size=(shape[2], rank))
    make = lambda block_info: np.full(block_info[None]["chunk-shape"], 0.5)  # noqa: E731
    chunks = ((20,) * (shape[0] // 20), (400,) * 4, (1000,))
    T = da.map_blocks(lambda block_info=None: make(block_info), chunks=chunks, dtype=float, meta=np.empty((0, 0, 0)))
    if method == "dask":
        return [da.einsum("ijk,jr,kr->ir", T, V, W)]
    T_, V_, W_ = td.TensorSymbol("T", (n, m, p)), td.TensorSymbol("V", (m, r)), td.TensorSymbol("W", (p, r))
    product = td.einsum("ijk,jr,kr->ir", T_, V_, W_)
    return [td.lambdify((T_, V_, W_), product, "dask", blocks={n: 20, m: 400})(T, V, W)]


ROWS: dict[str, tuple[Callable[[str, Path, int], Any], tuple[str, ...]]] = {
    "logistic": (logistic, ("ours", "ours, chunks", "one pass", "dask")),
    "convolution": (convolution, ("ours", "ours, chunks", "map_overlap")),
    "variation": (variation, ("ours", "ours, chunks", "map_overlap")),
    "gaussian": (gaussian, ("ours", "numpy", "jax")),
    "mttkrp": (mttkrp, ("ours", "dask")),
}


# ---------------------------------------------------------------------------- one run


def on_workers(row: str, method: str, data: Path, scale: int, memory: str) -> None:
    import dask
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": memory, "dashboard_address": None}
    with dask.config.set({"distributed.worker.daemon": False}), LocalCluster(**options) as cluster, Client(cluster):
        start = time.perf_counter()
        lazy = ROWS[row][0](method, data, scale)
        build = time.perf_counter() - start
        tasks = len(dict(dask.base.collections_to_expr(lazy).__dask_graph__()))
        for _ in range(2):
            watch = Watch([worker.process.pid for worker in cluster.workers.values()])
            results = dask.compute(*lazy)
            text = watch.stop()
        check = " ".join(f"{float(np.abs(np.asarray(result)).sum()):.12g}" for result in results)
        print(f"{row:12} x{scale} {method:13} {text}  build {build:4.1f} s  {tasks:5} tasks  check {check}", flush=True)


def gaussian_in_jax(scale: int) -> None:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    P, b = points(scale)

    def row(z: Any, s: Any) -> Any:
        e = z - P
        return -4 * s * ((jnp.exp(-(e**2).sum(1)) * b) @ e)

    step = jax.jit(lambda some, weights: jax.lax.map(lambda a: row(*a), (some, weights), batch_size=64))
    some = P[: len(b) // FRACTION], b[: len(b) // FRACTION]
    for _ in range(2):
        watch = Watch([os.getpid()])
        g = np.asarray(step(*some))
        text = watch.stop()
    print(f"gaussian     x{scale} jax           {text}  check {np.abs(g).sum():.12g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", choices=ROWS)
    parser.add_argument("--way")
    parser.add_argument("--scale", type=int, default=4, help="4: the sizes in the descriptions; 1: a quarter of them")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "tensordiff-distributed")
    parser.add_argument("--memory", default="1GB", help="of a worker")
    given = parser.parse_args()
    given.data.mkdir(exist_ok=True)
    if given.row and given.way == "jax":
        gaussian_in_jax(given.scale)
    elif given.row and given.way:
        on_workers(given.row, given.way, given.data, given.scale, given.memory)
    else:
        for row in [given.row] if given.row else ROWS:
            for method in ROWS[row][1]:
                options = ["--row", row, "--way", method, "--scale", str(given.scale), "--data", str(given.data)]
                command = [sys.executable, "-m", "benchmarks.distributed", *options, "--memory", given.memory]
                subprocess.run(command, check=False)


if __name__ == "__main__":
    main()
