"""Runs programs in the CUDA simulator; started by test_cuda.py with NUMBA_ENABLE_CUDASIM=1 set."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    from generator import Generator
    from numba import config
    from oracle import check
    from programs import CASES

    assert config.ENABLE_CUDASIM
    first, last = int(sys.argv[1]), int(sys.argv[2])
    for name, (program, arguments) in list(CASES.items())[first:last]:
        print(name, flush=True)
        check(program, "cuda", arguments(np.random.default_rng(1)))
    for seed in range(first, last, 4):
        print("seed", seed, flush=True)
        generator = Generator(seed)
        program = generator.program()
        rng = np.random.default_rng(seed)
        check(
            program,
            "cuda",
            [rng.uniform(-1, 1, [f.evaluate(generator.sizes) for f in a.shape]) for a in program.arguments],
        )
    print("all agree")


if __name__ == "__main__":
    main()
