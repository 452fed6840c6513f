"""Gathers in the CUDA simulator, and Numba's kernels as plain Python; started by test_gather_kernels.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    from gather_cases import CASES, check
    from numba import config

    assert config.ENABLE_CUDASIM
    assert config.DISABLE_JIT
    for name in CASES:
        print(name, flush=True)
        check(name, "cuda", "numba")
    print("all agree")


if __name__ == "__main__":
    main()
