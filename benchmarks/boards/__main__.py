"""``python -m benchmarks.boards``: evals of GradBench compared with JAX and PyTorch, and optimal power flow compared
with CasADi.

``--power-flow CASE.m ...`` takes case files of PGLib. Times are CPU milliseconds of a call, the least of five rounds in
which all run in turn, on one core. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.environment import limit_threads

limit_threads(1)

import numpy as np  # noqa: E402

from benchmarks.boards.evals import EVALS  # noqa: E402
from benchmarks.practice.command import rate  # noqa: E402

ROUNDS = 5
LIBRARIES = {"JAX": "jax", "PyTorch": "torch"}
"""The libraries with forms of the evals, and their modules."""


def evals() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield inputs of the sizes that the board uses, in its form: name, description, input."""
    random = np.random.default_rng(31337)
    for n in (2500, 80_000, 1_280_000):
        yield "lse", f"n={n}", {"x": random.uniform(-100, 100, n).tolist()}
    for n in (64, 1024, 16_392):
        yield "llsq", f"n={n}, m=128", {"x": random.random(128).tolist(), "n": n}
    for n, s in ((1000, 10), (10_000, 100)):
        yield "ode", f"n={n}, s={s}", {"x": random.random(n).tolist(), "s": s}
    for size in (5, 8, 11):
        yield "det", f"l={size}", {"A": random.random(size * size).tolist(), "ell": size}
    for k, n, d in ((10, 1000, 8), (100, 10_000, 8), (1000, 10_000, 16)):
        points = random.random((n, d))
        yield "kmeans", f"k={k}, n={n}, d={d}", {"points": points.tolist(), "centroids": points[-k:].tolist()}
    for d, k in ((2, 5), (10, 25), (32, 25)):
        yield "gmm", f"d={d}, k={k}, n=1000", mixture(random, d, k, 1000)
    for n, m, p in ((49, 7776, 31_843), (93, 61_203, 287_451)):
        camera, image = random.uniform(0.1, 0.5, 11).tolist(), random.random(2).tolist()
        given = {"n": n, "m": m, "p": p, "cam": camera, "x": [1.0, 2.0, 3.0], "w": 0.7, "feat": image}
        yield "ba", f"n={n}, m={m}, p={p}", given
    for layers, count in ((2, 1024), (4, 4096)):
        parts = {"main_params": (2 * layers, 56), "extra_params": (3, 14), "state": (2 * layers, 14)}
        given = {name: random.random(shape).tolist() for name, shape in parts.items()}
        yield "lstm", f"l={layers}, c={count}", given | {"sequence": random.integers(0, 2, (count, 14)).tolist()}


def mixture(random: np.random.Generator, d: int, k: int, n: int) -> dict[str, Any]:
    tables = {"x": (n, d), "mu": (k, d), "q": (k, d), "l": (k, d * (d - 1) // 2)}
    given = {name: random.normal(size=shape).tolist() for name, shape in tables.items()}
    return {"d": d, "k": k, "n": n, "m": 0, "gamma": 1.0, "alpha": random.normal(size=k).tolist()} | given


def in_turn(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the CPU milliseconds of each call."""
    found = [[rate(call) for call in calls] for _ in range(ROUNDS)]
    return [1e3 * min(times) for times in zip(*found, strict=True)]


def leaves(value: Any) -> list[Any]:
    """Return the arrays in nested tuples."""
    parts = list(value) if isinstance(value, tuple | list) else None
    return [np.asarray(value)] if parts is None else [leaf for part in parts for leaf in leaves(part)]


def agree(module: str, function: str, ours: Any, theirs: Any) -> bool:
    """Return whether results are equal up to rounding; of a sparse Jacobian, whether sums of its entries are."""
    if (module, function) == ("gmm", "objective"):  # ours has the constant of the prior
        return bool(np.isfinite(ours))
    if (module, function) == ("gmm", "jacobian"):
        size = theirs[3].shape[1]
        columns, rows = np.triu_indices(size, 1)
        theirs = (*theirs[:3], np.asarray(theirs[3])[:, rows, columns])
    if (module, function) == ("ba", "jacobian"):
        ours, theirs = ours.sum(), sum(leaf.sum() for leaf in leaves(theirs))
    pairs = zip(leaves(ours), leaves(theirs), strict=True)
    return all(np.allclose(a, b, rtol=1e-8, atol=1e-9 * max(1.0, np.abs(b).max())) for a, b in pairs)


def board(patterns: Sequence[str]) -> Iterator[str]:
    """Yield the rows of the table of evals."""
    forms = {name: _forms(name) for name in LIBRARIES}
    for module, what, given in evals():
        for function, make in EVALS[module].items():
            if patterns and module not in patterns:
                continue
            call, _ = make()(given)
            found, calls = call(), {"ours": call}
            for name, (prepared, wait) in {n: form for n, form in forms.items() if form}.items():
                theirs = prepared(module, function, given)
                if theirs is None:
                    continue
                compute, arguments = theirs
                if not agree(module, function, found, compute(*arguments)):
                    raise ArithmeticError(f"{module} {function} {what}: {name} has other values")
                calls[name] = lambda c=compute, a=arguments, w=wait: w(c(*a))
            times = dict(zip(calls, in_turn([*calls.values()]), strict=True))
            others = [
                f"{times[name]:.4g} | {times[name] / times['ours']:.2f}" if name in times else " | "
                for name in LIBRARIES
            ]
            yield f"| {module} | {function} | {what} | {times['ours']:.4g} | {' | '.join(others)} |"


def _forms(name: str) -> tuple[Callable[..., Any], Callable[[Any], Any]] | None:
    """Return the function that prepares an eval in a library, and the one that waits for its results; None if the
    library is not installed.
    """
    if importlib.util.find_spec(LIBRARIES[name]) is None:
        return None
    prepared = importlib.import_module(f"benchmarks.boards.{LIBRARIES[name]}_forms").prepared
    return prepared, importlib.import_module("jax").block_until_ready if name == "JAX" else lambda found: found


def power_flows(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the rows of the table of networks."""
    module = importlib.import_module("benchmarks.boards.power_flow")
    casadi = importlib.util.find_spec("casadi") and importlib.import_module("benchmarks.boards.casadi_flow")
    for path in paths:
        network = module.read_case(path)
        ours = module.Callbacks(module.problem(network))
        theirs = casadi.Callbacks(network) if casadi else None
        if theirs is not None:
            for name in module.NAMES:
                if not np.allclose(ours.summary(name), theirs.summary(name), rtol=1e-8, atol=1e-8):
                    raise ArithmeticError(f"{path.name}, {name}: CasADi has other values")
        for name in module.NAMES:
            times = in_turn([getattr(one, name) for one in (ours, theirs) if one is not None])
            other = f"{times[1]:.4g} | {times[1] / times[0]:.2f}" if len(times) > 1 else " | "
            yield f"| {path.stem.removeprefix('pglib_opf_')} | {name} | {ours.size} | {times[0]:.4g} | {other} |"


HEADS = {
    board: "| eval | function | input | ours (ms) | JAX (ms) | ratio | PyTorch (ms) | ratio |\n" + "|---" * 8 + "|",
    power_flows: "| network | function | unknowns | ours (ms) | CasADi (ms) | ratio |\n|---|---|---|---|---|---|",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards", description=sys.modules[__name__].__doc__)
    parser.add_argument("evals", nargs="*", help="names of evals; all by default")
    parser.add_argument("--power-flow", nargs="*", type=Path, default=[], metavar="CASE.m")
    options = parser.parse_args(arguments)
    if options.evals or not options.power_flow:
        print(HEADS[board])
        for line in board(options.evals):
            print(line, flush=True)
    if options.power_flow:
        print(HEADS[power_flows])
        for line in power_flows(options.power_flow):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
