"""Cases by all variables, first and second order, in kernels that run as plain Python.

Wants NUMBA_ENABLE_CUDASIM=1 and NUMBA_DISABLE_JIT=1 in the environment. The argument says which
share of the cases is run, "0/2" or "1/2". Prints one line for each case that fails and ends with
status 1 if one did.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable
from functools import partial

from cases import names, options, small
from cases_peers import NARROW
from named_functions import named_functions
from numba import config

from sympy_tensordiff.testing import assert_kernel_exact

# Up to the third derivative, some functions that have names.
NAMED = ("softmax cross-entropy", "layernorm", "volterra", "mttkrp", "gaussian kernel matrix", "circulant")

# Each backend with and without temporaries, by turns.
KERNELS = ((("numba", True), ("cuda", False)), (("numba", False), ("cuda", True)))


def check(name: str, turn: int) -> None:
    """A thread of CUDA is a thread of Python here, so the tensors are small."""
    case = small(name)
    assert_kernel_exact(case.function, case.variables, order=2, kernels=KERNELS[turn % 2], **options(case, seed=5))


def as_compiled(function: Callable[..., float]) -> Callable[..., float]:
    """A function of `math` that is NaN outside of its domain, as in compiled code, where Python raises."""

    def compiled(*args: float) -> float:
        try:
            return function(*args)
        except ValueError:
            return math.nan

    return compiled


def main(share: str) -> int:
    assert config.ENABLE_CUDASIM and config.DISABLE_JIT
    for name in ("sqrt", "log"):  # a choice that is not taken may ask for these
        setattr(math, name, as_compiled(getattr(math, name)))
    start, step = map(int, share.split("/"))
    chosen = [name for name in names() if name not in NARROW][start::step]
    failed = 0
    checks: list[tuple[str, Callable[[], None]]] = [(name, partial(check, name, n)) for n, name in enumerate(chosen)]
    named = named_functions()
    for name in NAMED[start::step]:
        for backend in ("numba", "cuda"):
            checks.append((f"{name} on {backend}", partial(named[name].check_kernel, backend)))
    for name, run in checks:
        try:
            run()
        except Exception:
            failed += 1
            print(f"{name}: {traceback.format_exc(limit=-2)}", flush=True)
    print(f"{failed} of {len(checks)} cases fail" if failed else f"all {len(checks)} cases agree")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
