"""Cases by all variables, first and second order, in kernels that run as plain Python.

Wants NUMBA_ENABLE_CUDASIM=1 and NUMBA_DISABLE_JIT=1 in the environment. The argument says which
share of the cases is run, "0/2" or "1/2". Prints one line for each case that fails and ends with
status 1 if one did.
"""

from __future__ import annotations

import sys
import traceback

from cases import names, options, small
from cases_peers import NARROW
from numba import config

from sympy_tensordiff.testing import assert_kernel_exact


def check(name: str) -> None:
    """A thread of CUDA is a thread of Python here, so the tensors are small."""
    case = small(name)
    more = options(case, seed=5, backends=("numba", "cuda"), temporaries=(True, False))
    assert_kernel_exact(case.function, case.variables, order=2, **more)


def main(share: str) -> int:
    assert config.ENABLE_CUDASIM and config.DISABLE_JIT
    start, step = map(int, share.split("/"))
    chosen = [name for name in names() if name not in NARROW][start::step]
    failed = 0
    for name in chosen:
        try:
            check(name)
        except Exception:
            failed += 1
            print(f"{name}: {traceback.format_exc(limit=-2)}", flush=True)
    print(f"{failed} of {len(chosen)} cases fail" if failed else f"all {len(chosen)} cases agree")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
