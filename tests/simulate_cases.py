"""All cases by all variables in kernels that run as plain Python.

``cuda`` wants NUMBA_ENABLE_CUDASIM=1, ``numba`` wants NUMBA_DISABLE_JIT=1 in the environment.
Prints one line for each case that fails and ends with status 1 if one did.
"""

from __future__ import annotations

import sys
import traceback

from cases import Case, build, names
from cases_peers import GRID, convolution
from numba import config

from sympy_tensordiff.testing import assert_kernel_exact


def simulated() -> dict[str, Case]:
    """The cases; a thread of CUDA is a thread of Python here, so convolutions are few and small."""
    cases = {name: build(name) for name in names()}
    for number, (width, stride, dilation) in enumerate(GRID, start=36):
        del cases[f"V{number}"]
        if width == 3:
            cases[f"V{number}"] = convolution(7, width, stride, dilation)
    return cases


def main(backend: str) -> int:
    assert config.ENABLE_CUDASIM if backend == "cuda" else config.DISABLE_JIT
    failed = 0
    for name, case in (cases := simulated()).items():
        options = {"sizes": case.sizes, "values": case.values, "low": case.low, "high": case.high}
        try:
            assert_kernel_exact(case.function, case.variables, backend=backend, seed=5, **options)
        except Exception:
            failed += 1
            print(f"{name}: {traceback.format_exc(limit=-2)}", flush=True)
    print(f"{failed} of {len(cases)} cases fail" if failed else f"all {len(cases)} cases agree")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
