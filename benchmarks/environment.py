"""The same number of threads for all: set before NumPy, Numba, JAX or PyTorch are imported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC")


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(arguments: Sequence[str]) -> int:
    """The number of threads that the command line asks for."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_threads(parser)
    return max(int(parser.parse_known_args(arguments)[0].threads), 1)


def add_threads(parser: argparse.ArgumentParser) -> None:
    default = available_cores()
    parser.add_argument("--threads", type=int, default=default, help=f"threads of every library (default {default})")


def limit_threads(threads: int) -> None:
    """Tell every library, and keep the process on as many cores: XLA sizes its pool by the cores it may use."""
    if "numpy" in sys.modules:
        raise RuntimeError("NumPy has been imported, so its number of threads is fixed: set it before")
    for variable in VARIABLES:
        os.environ[variable] = str(threads)
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
