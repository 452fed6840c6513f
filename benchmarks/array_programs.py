"""Printed programs of JAX or PyTorch compared with the library's own derivatives: ``python -m
benchmarks.array_programs``.

    $ python -m benchmarks.array_programs                          functions of practice, value and gradients
    $ python -m benchmarks.array_programs --rows                   the rows of the benchmarks that JAX computes too
    $ python -m benchmarks.array_programs --folder FOLDER          functions of practice in another folder
    $ python -m benchmarks.array_programs --kernels                kernels that JAX calls, compared with JAX's functions
    $ python -m benchmarks.array_programs --library torch          PyTorch without its compiler, also --rows
    $ python -m benchmarks.array_programs --library torch.compile  PyTorch's programs compiled by Inductor

Both run under `jax.jit`, or as the library says, in one thread, in turn, in double precision. Times are CPU seconds: of
a call, the least of several means; of the first call, all of tracing and compilation in this process. Deriving and
printing have a column of their own. In PyTorch, the other derivative is that of `torch.autograd`; functions of practice
are written for NumPy's names, and `benchmarks/torch_names.py` gives them PyTorch's functions.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.environment import limit_threads

if __name__ == "__main__":
    limit_threads(1)

import numpy as np

import sympy_tensordiff as td
from benchmarks.libraries import CompiledTorch, Jax, Torch, leaves
from benchmarks.practice.fields import CASES
from benchmarks.result import CAP
from benchmarks.rows import ROWS

TOLERANCE = 1e-8
"""The greatest difference of results, as a part of the greatest entry of the array."""
SHORTEST = 0.06
"""CPU seconds of one measurement, at least."""


class Contest(NamedTuple):
    """A function of `arguments` and its derivatives: `results` as formulas, and as the function `theirs` of JAX."""

    arguments: Sequence[Any]
    results: Any
    theirs: Callable[..., Any]
    arrays: Sequence[Any]
    value: Any = None
    """The function itself, of which `theirs` is the derivative with respect to the arguments at `places`."""
    places: tuple[int, ...] = ()


class Times(NamedTuple):
    """CPU seconds: to derive and to print, of the first calls, and of a later one."""

    printing: float
    first: float
    first_jax: float
    ours: float
    jax: float


def of_practice(quick: bool) -> Iterator[tuple[str, Callable[[], Contest]]]:
    """The value and the gradients of the functions of practice."""
    import jax

    for name, case in CASES.items():

        def build(case: Any = case) -> Contest:
            formula = case.build()
            pair = jax.value_and_grad(lambda *arrays: formula.function(jax.numpy, *arrays), formula.places)
            arrays = formula.arrays(case.quick if quick else case.sizes, "float64")
            return Contest(formula.arguments, formula.derive(), pair, arrays, formula.function, formula.places)

        yield name, build


def of_rows(quick: bool) -> Iterator[tuple[str, Callable[[], Contest]]]:
    """The rows of the benchmarks that JAX computes, in JAX's first form."""
    jax = Jax()
    for name, row in ROWS.items():
        peer = next((peer for peer in row.peers if peer.library == "jax"), None)
        if peer is None:
            continue

        def build(row: Any = row, peer: Any = peer) -> Contest:
            from benchmarks.contestants import inputs

            sizes = row.quick if quick else row.sizes
            arguments, results = row.ours(sizes)
            return Contest(arguments, results, jax._derivative(peer.formulation), inputs(row, sizes, "float64"))

        yield name, build


def of_folder(folder: Path, quick: bool) -> Iterator[tuple[str, Callable[[], Contest]]]:
    """The value and the gradients of the functions in a folder with a module ``practice`` and modules ``cases_*``."""
    import jax

    sys.path.insert(0, str(folder))
    module: Any = importlib.import_module("practice")
    for path in sorted(folder.glob("cases_*.py")):
        importlib.import_module(path.stem)
    for name, _, _, found, _ in module.CASES:

        def build(found: Any = found) -> Contest:
            case = module.Case("", "", **found())
            places = tuple(next(k for k, one in enumerate(case.args) if one == wrt) for wrt in case.wrt)
            results = case.f, *td.gradient(case.f, tuple(case.wrt))
            arrays = module.arrays(case, case.small[0] if quick else case.big, 5)
            return Contest(case.args, results, jax.value_and_grad(case.jaxf, places), arrays, case.jaxf, places)

        yield name, build


def torch_rows(quick: bool) -> Iterator[tuple[str, Callable[[], Contest]]]:
    """Return the rows of the benchmarks that PyTorch computes, in its first form; see `torch_contests`."""
    for name, row in ROWS.items():
        peer = next((peer for peer in row.peers if peer.library == "torch"), None)
        if peer is None:
            continue

        def build_row(row: Any = row, peer: Any = peer) -> Contest:
            from benchmarks.contestants import inputs

            sizes = row.quick if quick else row.sizes
            arguments, results = row.ours(sizes)

            def prepared(tensors: list[Any], compiled: bool) -> Callable[[], Any]:
                library = CompiledTorch() if compiled else Torch()
                return library.derivative(peer.formulation, tensors)

            return Contest(arguments, results, prepared, inputs(row, sizes, "float64"))

        yield name, build_row


def torch_contests(form: str, folder: Path | None, quick: bool) -> Iterator[tuple[str, Callable[[], Contest]]]:
    """Return the contests of functions of practice, of a folder or of the rows, for PyTorch.

    `theirs` takes tensors, and returns a function of no arguments that computes the results.
    """
    import torch

    from benchmarks.torch_names import in_torch, names

    own = names(torch)
    if form == "rows":
        yield from torch_rows(quick)
        return
    if form == "folder":
        assert folder is not None
        found_cases = of_folder(folder, quick)
    else:
        found_cases = of_practice(quick)
    for name, build in found_cases:

        def build_function(name: str = name, build: Any = build) -> Contest:
            contest = build()
            function, places = contest.value, contest.places
            if form == "folder":
                value = in_torch(function, torch)
            else:

                def value(*arrays: Any) -> Any:
                    return function(own, *arrays)

            def prepared(tensors: list[Any], compiled: bool) -> Callable[[], Any]:
                called = torch.compile(value, fullgraph=True, dynamic=False) if compiled else value
                variables = [tensors[place].requires_grad_(True) for place in places]

                def both() -> Any:
                    result = called(*tensors)
                    return result.detach(), torch.autograd.grad(result, variables)

                return both

            return contest._replace(theirs=prepared)

        yield name, build_function


def timed_in_torch(contest: Contest, compiled: bool, seconds: float, rounds: int, begin: float) -> Times:
    """Return the times in PyTorch of a contest that began to be built at the CPU time `begin`."""
    import torch

    torch.compiler.reset()
    ours = td.lambdify(contest.arguments, contest.results, "torch")
    printing = time.process_time() - begin

    def tensors() -> list[Any]:
        return [one if isinstance(one, int) else torch.as_tensor(np.array(one)) for one in contest.arrays]

    own, function = tensors(), torch.compile(ours, fullgraph=True, dynamic=False) if compiled else ours
    calls = [lambda: function(*own), contest.theirs(tensors(), compiled)]
    firsts, results = [], []
    for call in calls:
        start = time.process_time()
        results.append([leaf.detach().numpy() for leaf in leaves(call())])
        firsts.append(time.process_time() - start)
    compare(*results)
    pairs = [[rate(call, seconds) for call in calls] for _ in range(rounds)]
    return Times(printing, *firsts, *map(min, zip(*pairs, strict=True)))


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Raise if results differ."""
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        error = np.max(np.abs(one - other), initial=0) / np.max(np.abs(other), initial=1e-30)
        if not error < TOLERANCE:
            raise AssertionError(f"result {number} differs from the library's by {error:.1e} of its greatest entry")


def timed(contest: Contest, seconds: float, rounds: int, begin: float) -> Times:
    """Return the times of a contest that began to be built at the CPU time `begin`; raise if results differ."""
    import jax

    ours = td.lambdify(contest.arguments, contest.results, "jax")
    printing = time.process_time() - begin
    static = tuple(place for place, one in enumerate(contest.arrays) if isinstance(one, int))
    placed = [one if isinstance(one, int) else jax.device_put(one) for one in contest.arrays]
    firsts, calls, results = [], [], []
    for function in (ours, contest.theirs):
        compiled = jax.jit(function, static_argnums=static)
        start = time.process_time()
        results.append([np.asarray(leaf) for leaf in leaves(jax.block_until_ready(compiled(*placed)))])
        firsts.append(time.process_time() - start)
        calls.append(lambda compiled=compiled: jax.block_until_ready(compiled(*placed)))
    compare(*results)
    pairs = [[rate(call, seconds) for call in calls] for _ in range(rounds)]
    return Times(printing, *firsts, *map(min, zip(*pairs, strict=True)))


def rate(call: Callable[[], Any], seconds: float) -> float:
    """Return CPU seconds of a call, the mean over as many as take `seconds`."""
    count, begin = 0, time.process_time()
    while count < 2 or time.process_time() - begin < seconds:
        call()
        count += 1
    return (time.process_time() - begin) / count


def mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of `ratios`, each limited to a factor of `CAP` in either direction."""
    return math.exp(sum(math.log(min(max(ratio, 1 / CAP), CAP)) for ratio in ratios) / len(ratios))


def kernels() -> Iterator[tuple[str, int, Contest]]:
    """The functions of the table in `docs/howto_jax.md`, with their numbers of entries."""
    import jax

    jnp = jax.numpy
    i, k, n = td.indices("i k n")
    x, w = td.TensorSymbol("x", n), td.TensorSymbol("w", 3)
    window = td.TensorComprehension(td.sin(td.IndexedSum(w[k] * x[i + k], (k, 0, 2))), (i, n - 2))
    waves = td.sum(window**2)
    valley = td.IndexedSum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2, (i, 0, n - 2))

    def by_jax(x: Any, w: Any) -> Any:
        return jnp.sin(jnp.convolve(x, w[::-1], "valid"))

    def rosenbrock(x: Any) -> Any:
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    for size in (50, 1_000_000):
        arrays = np.linspace(0, 1, size), np.array([0.2, 0.5, 0.3])
        yield "`sin` of a convolution with three weights", size, Contest((x, w), window, by_jax, arrays)
        slope = jax.grad(lambda x, w: jnp.sum(by_jax(x, w) ** 2))
        yield "gradient of the sum of its squares", size, Contest((x, w), td.gradient(waves, x), slope, arrays)
    arrays = (np.linspace(0, 1, 1_000_000),)
    yield "Rosenbrock's function", 1_000_000, Contest((x,), valley, rosenbrock, arrays)
    yield "its gradient", 1_000_000, Contest((x,), td.gradient(valley, x), jax.grad(rosenbrock), arrays)


def print_kernels(rounds: int) -> None:
    """Print the table of kernels that JAX calls under `jax.jit`: the least wall time of many calls."""
    import jax

    print("| function | n | this package | the same in JAX |\n|---|---|---|---|")
    for name, size, contest in kernels():
        ours = td.jax_function(contest.arguments, contest.results, backend="llvm")
        placed = [jax.device_put(array) for array in contest.arrays]
        functions = [jax.jit(function) for function in (ours, contest.theirs)]
        for found, wanted in zip(*(leaves(function(*placed)) for function in functions), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)
        least = [math.inf, math.inf]
        for _ in range(rounds * (500 if size < 1000 else 10)):
            for number, function in enumerate(functions):
                begin = time.perf_counter()
                jax.block_until_ready(function(*placed))
                least[number] = min(least[number], time.perf_counter() - begin)
        texts = [f"{1e6 * one:.0f} µs" if one < 1e-3 else f"{1e3 * one:.1f} ms" for one in least]
        print(f"| {name} | {size:,} | {' | '.join(texts)} |", flush=True)


def summary(found: dict[str, Times], library: str) -> str:
    """Return the means over all functions, and those that take more than 1.1 times as long as the library's."""
    ratios = {name: times.ours / times.jax for name, times in found.items()}
    firsts = [times.first / times.first_jax for times in found.values()]
    slow = sorted((name for name in ratios if ratios[name] > 1.1), key=lambda name: -ratios[name])
    printing = sorted(times.printing for times in found.values())[len(found) // 2]
    least, most = min(ratios.values()), max(ratios.values())
    return (
        f"{len(found)} functions. Time of {library}'s own derivatives = 1: {mean(list(ratios.values())):.2f} in the "
        f"geometric mean (each ratio from 1/{CAP:g} to {CAP:g}), from {least:.2f} to {most:.2f}; "
        f"first calls {mean(firsts):.2f}; derivation and printing {printing:.2f} s in the median, not included.\n"
        f"Above 1.1: {', '.join(f'{name} {ratios[name]:.2f}' for name in slow) or 'none'}."
    )


def main() -> int:
    """Run the command; return 1 if a function fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="store_true", help="the rows of the benchmarks")
    parser.add_argument("--folder", type=Path, help="a folder with functions of practice")
    parser.add_argument("--kernels", action="store_true", help="kernels that JAX calls")
    parser.add_argument("--library", choices=["jax", "torch", "torch.compile"], default="jax")
    parser.add_argument("--only", nargs="*", default=["*"], metavar="PATTERN", help="names, or patterns such as *-sum")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny sizes and a round: a test, no benchmark")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    rounds, seconds = (1, 0.0) if options.quick else (options.rounds, SHORTEST)
    version = jax.__version__
    if options.library != "jax":
        import torch

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        version = torch.__version__
    print(f"{options.library} {version}, one thread, load {os.getloadavg()[0]:.1f}", flush=True)
    if options.kernels:
        print_kernels(rounds)
        return 0
    if options.library != "jax":
        form = "rows" if options.rows else "folder" if options.folder else "practice"
        contests = torch_contests(form, options.folder, options.quick)
    elif options.folder:
        contests = of_folder(options.folder, options.quick)
    else:
        contests = of_rows(options.quick) if options.rows else of_practice(options.quick)
    jax.block_until_ready(jax.jit(jax.grad(lambda x: jax.numpy.sin(x) @ x))(jax.numpy.ones(3)))  # start JAX
    found: dict[str, Times] = {}
    failures = 0
    print(
        "| function | printing (s) | first (s) | first, theirs (s) | ours (ms) | theirs (ms) | ratio |\n|" + "---|" * 7
    )
    for name, build in contests:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.only):
            continue
        begin = time.process_time()
        try:
            if options.library == "jax":
                times = timed(build(), seconds, rounds, begin)
            else:
                compiled = options.library == "torch.compile"
                times = timed_in_torch(build(), compiled, seconds, rounds, begin)
            found[name] = times
        except Exception as error:
            failures += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        head = f"| {name} | {times.printing:.2f} | {times.first:.2f} | {times.first_jax:.2f} | {1e3 * times.ours:.3f}"
        print(f"{head} | {1e3 * times.jax:.3f} | {times.ours / times.jax:.2f} |", flush=True)
    if found:
        print(summary(found, options.library))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
