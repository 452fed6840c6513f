"""Second derivatives of networks in one interleaved run: ours, JAX and NumPy by hand, with operations where known.

Run with ``python benchmarks/second_order_costs.py``; see README.md in this folder. The last columns are operations:
of ours by `td.cost`, and of JAX by XLA's own count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sympy_tensordiff as td
from benchmarks.rows.second_order import hand_hessian, hand_product, inputs, network

Call = Callable[[], Any]


@dataclass(frozen=True)
class Contest:
    """One line: the arguments and the expression of ours, and functions of the same arrays. JAX's gets `jax`."""

    name: str
    arguments: tuple[Any, ...]
    expression: Any
    arrays: tuple[Any, ...]
    by_jax: Callable[[Any], Callable[..., Any]]
    by_hand: Callable[..., Any] | None = None
    sizes: dict[str, int] | None = None


def network_contest(what: str, depth: int, n: int, d: int, function: str = "tanh", known: bool = False) -> Contest:
    """Return the contest for the Hessian ("hessian"), its trace or a product with it ("hvp") of a network."""
    sizes = {"n": n, "d": d}
    extent, entries = td.indices("n d")
    q, w = td.TensorSymbol("q", entries), td.TensorSymbol("w", extent)
    weights = [td.TensorSymbol(f"W{layer}", (extent, extent if layer else entries)) for layer in range(depth)]
    ours = getattr(td, function)
    value = q
    for weight in weights:
        value = ours(weight @ value)
    value = td.dot(w, value)
    v = td.TensorSymbol("v", q.shape)
    forms = {"hessian": lambda: td.hessian(value, q), "hvp": lambda: td.hvp(value, q, v)}
    forms["trace"] = lambda: td.trace(td.hessian(value, q))
    arrays = inputs(depth, what == "hvp")(np.random.default_rng(0), sizes)
    hand: dict[str, Callable[..., Any]] = {
        "hessian": lambda *given: hand_hessian(np, *given),
        "hvp": lambda *given: hand_product(np, *given),
        "trace": lambda *given: np.trace(hand_hessian(np, *given)),
    }

    def by_jax(jax: Any) -> Callable[..., Any]:
        class Library:
            tanh = staticmethod(getattr(jax.numpy, function))

        def f(q: Any, *others: Any) -> Any:
            return network(Library, q, *others)

        if what == "hvp":
            return lambda q, *others: jax.jvp(lambda x: jax.grad(f)(x, *others[:-1]), (q,), (others[-1],))[1]
        found = jax.hessian(f)
        return found if what == "hessian" else lambda *given: jax.numpy.trace(found(*given))

    return Contest(
        f"{what}, {depth} layers of {function}, n={n}, d={d}{', sizes given' if known else ''}",
        (q, w, *weights, *((v,) if what == "hvp" else ())),
        forms[what](),
        arrays,
        by_jax,
        hand[what] if function == "tanh" else None,
        sizes if known else None,
    )


def matrix_contest(b: int, d: int, n: int, m: int) -> Contest:
    """Return the contest for a product with the Hessian of ``sum(exp(tanh(X @ W1) @ W2))`` by ``W1``."""
    shapes = {"X": "bd", "W1": "dn", "W2": "nm", "V": "dn"}
    extents = dict(zip("bdnm", td.indices("b d n m"), strict=True))
    X, W1, W2, V = arguments = [td.TensorSymbol(k, tuple(extents[e] for e in own)) for k, own in shapes.items()]
    lengths = {"b": b, "d": d, "n": n, "m": m}
    random = np.random.default_rng(0)
    arrays = tuple(random.standard_normal([lengths[e] for e in own]) / 20 for own in shapes.values())

    def by_jax(jax: Any) -> Callable[..., Any]:
        def f(W1: Any, X: Any, W2: Any) -> Any:
            return jax.numpy.exp(jax.numpy.tanh(X @ W1) @ W2).sum()

        return lambda X, W1, W2, V: jax.jvp(lambda W: jax.grad(f)(W, X, W2), (W1,), (V,))[1]

    def by_hand(X: Any, W1: Any, W2: Any, V: Any) -> Any:
        h = np.tanh(X @ W1)
        slope, dh = 1 - h * h, X @ V
        dh *= slope
        e = np.exp(h @ W2)
        g = e @ W2.T
        return X.T @ (((e * (dh @ W2)) @ W2.T) * slope - 2 * g * h * dh)

    expression = td.hvp(td.sum(td.exp(td.tanh(X @ W1) @ W2)), W1, V)
    return Contest(f"hvp by a matrix, {b} x {d} x {n} x {m}", tuple(arguments), expression, arrays, by_jax, by_hand)


def contests() -> list[Callable[[], Contest]]:
    """Return functions that build the lines."""
    return [
        lambda: network_contest("hessian", 3, 512, 64),
        lambda: network_contest("hessian", 4, 96, 16),
        lambda: network_contest("hessian", 4, 256, 64),
        lambda: network_contest("hessian", 6, 64, 16, "sin"),
        lambda: network_contest("hessian", 4, 160, 32),
        lambda: network_contest("hvp", 3, 512, 64),
        lambda: matrix_contest(200, 100, 128, 128),
        lambda: network_contest("trace", 3, 256, 64),
        lambda: network_contest("trace", 3, 256, 64, known=True),
    ]


def best_times(calls: Sequence[Call], seconds: float) -> list[float]:
    """Return the least time of each of `calls`, which take turns for so many `seconds`."""
    best = [np.inf] * len(calls)
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for n, call in enumerate(calls):
            start, count = time.perf_counter(), 0
            while count < 3 or time.perf_counter() - start < 2e-3:
                call()
                count += 1
            best[n] = min(best[n], (time.perf_counter() - start) / count)
    return best


def line(contest: Contest, jax: Any, seconds: float) -> str:
    """Run one contest and return its line."""
    ours = td.lambdify(contest.arguments, contest.expression, sizes=contest.sizes)
    calls: dict[str, Call] = {"ours": lambda: ours(*contest.arrays)}
    if jax is not None:
        given = [jax.numpy.asarray(array) for array in contest.arrays]
        compiled = jax.jit(contest.by_jax(jax)).lower(*given).compile()
        calls["jax"] = lambda: jax.block_until_ready(compiled(*given))
        counted = compiled.cost_analysis()
        counted = counted[0] if isinstance(counted, list) else counted
    if contest.by_hand is not None:
        calls["hand"] = lambda hand=contest.by_hand: hand(*contest.arrays)  # type: ignore[misc]
    results = [np.asarray(call()) for call in calls.values()]
    for other in results[1:]:
        np.testing.assert_allclose(results[0], other, rtol=1e-8, atol=1e-8 * float(np.abs(other).max()))
    times = dict(zip(calls, best_times(list(calls.values()), seconds), strict=True))
    others = [value for name, value in times.items() if name != "ours"]
    lengths = {
        str(symbol): length
        for argument, array in zip(contest.arguments, contest.arrays, strict=True)
        for symbol, length in zip(argument.shape, array.shape, strict=True)
    }
    operations = float(td.cost(contest.expression, lengths).operations)
    text = "  ".join(f"{name} {1e3 * value:8.3f} ms" for name, value in times.items())
    text += f"  ours/best {times['ours'] / min(others, default=np.nan):5.2f}  operations {operations:.3g}"
    return f"{contest.name:52} {text}" + (f"  jax {counted.get('flops', np.nan):.3g}" if jax is not None else "")


def main(given: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="of timing for each line")
    parser.add_argument("--lines", type=int, nargs="*", help="numbers of lines; all without")
    options = parser.parse_args(given)
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
    except ImportError:
        jax = None
    for number, build in enumerate(contests()):
        if not options.lines or number in options.lines:
            print(line(build(), jax, options.seconds), flush=True)
    return 0


if __name__ == "__main__":
    main()
