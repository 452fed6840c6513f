"""``python -m benchmarks.gpu``: the rows of the suite on a GPU, compared with the CPU, timed, with the card's limits;
each kernel with its least time by the static model.

It needs this package with the extra ``cuda``; CuPy, PyTorch, JAX and KeOps take part where they are installed. With
``NUMBA_ENABLE_CUDASIM=1``, ``--quick --compare-only`` runs it without a device. With ``--sanitize``, NVIDIA's sanitizer
looks at the kernels.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu_libraries, libraries, report
from benchmarks.command import DTYPES, chosen
from benchmarks.contestants import OURS, DisagreementError, compiled, gather
from benchmarks.gpu_kernels import kernel_times
from benchmarks.gpu_limits import measured
from benchmarks.measure import in_turn
from benchmarks.result import Result, Run
from benchmarks.row import Peer, Row, Sizes
from sympy_tensordiff.codegen.schedule.gpu_model import CARD, LaunchCosts, figures
from sympy_tensordiff.codegen.schedule.launches import on_device
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.errors import UnsupportedError

Times = Sequence[tuple[str, float]]
"""The names and seconds of launches, one after another."""

Launches = dict[str, list[LaunchCosts]]
"""The costs of the launches of a row, as the static model predicts them, by row and element type."""

MOST_WORK, MOST_ENTRIES = 1e10, 4e7
"""A row grows to about as many additions and multiplications, or entries of arguments and results."""

LIMITS = {False: (8192, 2**27), True: (4, 64)}
"""The length of matrices and vectors by which the card's limits are measured."""

SANITIZERS = ("memcheck", "racecheck", "synccheck")
"""The tools of NVIDIA's sanitizer for places outside of arrays, shared memory, and threads that wait."""

SANITIZED = (("--quick",), ("--rows", "fir"))
"""What they look at: all rows at tiny sizes, and one with sums that are long enough for several parts."""


def parser() -> argparse.ArgumentParser:
    peers = list(gpu_libraries.LIBRARIES)
    result = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    result.add_argument("--rows", nargs="*", default=["*"], metavar="PATTERN", help="names or patterns, as conv-*")
    result.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=DTYPES)
    result.add_argument("--peers", nargs="*", default=peers, choices=peers, help=f"default {' '.join(peers)}")
    result.add_argument("--budget", type=float, default=5.0, help="seconds of timing for each row and element type")
    result.add_argument("--limit", type=float, default=120.0, help="seconds that a first call may take")
    result.add_argument("--quick", action="store_true", help="tiny sizes: a test, no benchmark")
    result.add_argument("--compare-only", action="store_true", help="compare the results with the CPU, time nothing")
    result.add_argument("--sanitize", action="store_true", help="run the kernels under NVIDIA's sanitizer instead")
    result.add_argument("--json", type=Path, help="write all times to this file")
    result.add_argument("--markdown", type=Path, help="write the table to this file")
    return result


def grown(row: Row) -> Sizes:
    """The sizes of a row for a GPU: one of them is doubled as often as the work allows."""
    sizes = dict(row.sizes)
    while True:
        twice = {**sizes, row.doubled: 2 * sizes[row.doubled]}
        work = row.work(twice)
        if work.flops + 20 * work.functions > MOST_WORK or work.elements > MOST_ENTRIES:
            return sizes
        sizes = twice


def with_cupy(row: Row) -> Row:
    """The row, in which CuPy computes what is written by hand for NumPy."""
    (hand,) = (peer for peer in row.peers if peer.library == "numpy")
    return replace(row, peers=(*row.peers, Peer("cupy", hand.form, hand.formulation)))


def predicted(function: Any, sizes: Sizes, dtype: str) -> list[LaunchCosts]:
    """The costs of the launches of one of our functions, by the static model."""
    return figures(on_device(prepared(function.program, "cuda")), sizes, np.dtype(dtype).itemsize)


def predicted_lines(launches: Sequence[LaunchCosts], times: Times = ()) -> str:
    """Each launch with the least time on the card of the model, and the measured ``times``. Launches of a
    library are not in the model: where there are some, the measured times come after those of the model.
    """
    texts = [f"{report.milliseconds(seconds):>9} ms" for _, seconds in times]
    is_same = len(times) == len(launches)
    lines = [
        f"  {one.name:<36} {f'{text}, ' if text else ''}{report.milliseconds(one.seconds):>9} ms at least on an "
        f"{CARD.name}, {one.sectors:.2g} of the ideal sectors, {one.occupancy:.0%} occupancy"
        for one, text in zip(launches, texts if is_same else [""] * len(launches), strict=True)
    ]
    lines += [] if is_same else [f"  {name:<36} {text}" for (name, _), text in zip(times, texts, strict=True)]
    return "\n".join(lines)


def card() -> dict[str, str]:
    """Return the names of the device and of its driver."""
    cuda = importlib.import_module("numba.cuda")
    if "NUMBA_ENABLE_CUDASIM" in os.environ:
        return {"card": "none: Numba's simulator"}
    if not cuda.is_available():
        raise SystemExit(
            "there is no CUDA device here. To compare all rows at tiny sizes in Numba's simulator: "
            "NUMBA_ENABLE_CUDASIM=1 python -m benchmarks.gpu --quick --compare-only"
        )
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    capability = ".".join(map(str, device.compute_capability))
    return {"card": name, "capability": capability, "runtime": ".".join(map(str, cuda.runtime.get_version()))}


def sanitize(dtypes: Sequence[str]) -> int:
    """Compare the rows under each of the sanitizer's tools; 2 where nothing can be looked at."""
    tool = shutil.which("compute-sanitizer")
    if tool is None or "NUMBA_ENABLE_CUDASIM" in os.environ:
        lack = "compute-sanitizer is not on the path" if tool is None else "Numba's simulator has no code of a device"
        print(f"no kernel has been looked at: {lack}; the tool comes with NVIDIA's CUDA toolkit, and needs a device")
        return 2
    failed = []
    for name in SANITIZERS:
        for options in SANITIZED:
            under = [tool, "--tool", name, "--error-exitcode", "1", sys.executable, "-m", "benchmarks.gpu", *options]
            done = subprocess.run([*under, "--compare-only", "--peers", "--dtype", *dtypes], check=False)
            failed += [f"{name} {' '.join(options)}"] * (done.returncode != 0)
    print(f"failed: {', '.join(failed)}" if failed else f"nothing found by {', '.join(SANITIZERS)}")
    return 1 if failed else 0


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.sanitize:
        return sanitize(options.dtype)
    found, missing = libraries.load(options.peers, gpu_libraries.LIBRARIES)
    device = gpu_libraries.Device(found)
    run = Run.of(found, missing, 1, options.quick)
    about = card() | {"date": datetime.date.today().isoformat()}
    print("\n".join([*(f"{key}: {value}" for key, value in about.items()), run.head()]), flush=True)
    if not options.compare_only:
        run.limits = {dtype: measured(device, dtype, *LIMITS[options.quick]) for dtype in options.dtype}
    failures = 0
    launches: Launches = {}
    kernels: dict[str, Times] = {}
    for row in map(with_cupy, chosen(options.rows)):
        sizes = row.quick if options.quick else grown(row)
        try:
            ours = compiled(row, sizes, ["cuda"])
        except UnsupportedError as error:  # inverses and determinants need CuPy
            print(f"{row.name}: left out: {error}", flush=True)
            continue
        for dtype in options.dtype:
            try:
                field = gather(row, sizes, dtype, found, missing, ours, options.limit, device)
            except DisagreementError as error:
                failures += 1
                print(f"{row.name} {dtype}: DISAGREEMENT, not timed: {error}", flush=True)
                continue
            result = Result.of(row, sizes, dtype, field)
            if not options.compare_only:
                result.times = in_turn({c.label: c.call for c in field.contestants}, options.budget)
            run.results.append(result)
            function = next(iter(ours.values()))
            launches[result.name] = predicted(function, sizes, dtype)
            if not options.compare_only:
                kernels[result.name] = kernel_times(function._cuda, field.contestants[0].call)
            prediction = predicted_lines(launches[result.name], kernels.get(result.name, ()))
            print(report.lines(run, result), prediction, sep="\n", flush=True)
    if options.json:
        model = {name: [one._asdict() for one in found] for name, found in launches.items()}
        text = json.dumps(about | run.as_json() | {"model": model, "kernels": kernels}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.markdown and not options.compare_only:
        options.markdown.write_text(table(run, about, launches), encoding="utf-8")
    print(f"{len(run.results)} rows agree, {failures} disagree")
    return 1 if failures else 0


def table(run: Run, about: dict[str, str], launches: Launches) -> str:
    """Date, card and versions, and a line for each row and element type."""
    text = [", ".join(about.values()), "", ", ".join(f"{name} {version}" for name, version in run.versions.items()), ""]
    text += [
        f"{dtype}: products of matrices {limits.flops / 1e12:.3g} TF/s, copy {limits.bandwidth / 1e9:.4g} GB/s"
        for dtype, limits in run.limits.items()
    ]
    best = [ratio for result in run.results if (ratio := _to_best(result)) is not None]
    if best:
        text.append(
            f"geometric mean of the ratios to the best peers: {math.exp(sum(map(math.log, best)) / len(best)):.2f}"
        )
    head = ("row", "sizes", "type", "ours ms", "best peer", "ms", "ratio", "to KeOps", "limit ms", "share", "model ms")
    text += ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    least = {name: sum(one.seconds for one in found) for name, found in launches.items()}
    rows = [[*_cells(run, result), report.milliseconds(least[result.name])] for result in run.results]
    text += ["| " + " | ".join(cells) + " |" for cells in rows]
    text += ["", *(f"- {r.name}: {label} {why}" for r in run.results for label, why in r.gaps.items())]
    return "\n".join(text) + "\n"


def _peer(result: Result) -> str | None:
    return result.fastest(gpu_libraries.LIBRARIES)


def _to_best(result: Result) -> float | None:
    peer = _peer(result)
    ratio = None if peer is None else result.ratio(peer)
    return None if ratio is None else ratio.median


def _cells(run: Run, result: Result) -> list[str]:
    ours, peer, keops = result.fastest([OURS]), _peer(result), result.fastest(["keops"])
    cells = [result.row.name, " ".join(f"{name}={size}" for name, size in result.sizes.items()), result.dtype]
    cells.append("" if ours is None else report.milliseconds(result.median(ours)))
    cells += ["", "", ""] if peer is None else [peer, report.milliseconds(result.median(peer))]
    cells += [] if peer is None else [report.spread(result.ratio(peer))]
    cells.append("" if keops is None else report.spread(result.ratio(keops)))
    return [*cells, report.milliseconds(run.limit(result)), "" if ours is None else f"{run.share(result, ours):.0%}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
