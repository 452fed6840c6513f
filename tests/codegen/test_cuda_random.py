"""Random functions with all index maps, and their pullbacks, on CUDA: some seeds; `random_cuda.py` takes any number."""

from __future__ import annotations

from collections import Counter

import assembler
import in_cuda
import pytest
import random_cuda


# Of odd seeds at several sizes, extents of 1 among them; of even ones with all index maps and reductions.
@pytest.mark.in_turns(3)
@pytest.mark.parametrize("seed", [1, 5, 8, 14])
def test_random_functions_in_the_simulator(seed, simulator):
    assert simulator(random_cuda.simulate, seed) > 0


# Of all index maps, ranges, whole tensors and schedules of devices; 14 has a row that begins with an entry.
@pytest.mark.in_turns(4)
@pytest.mark.parametrize(
    "seeds", [(0, 1, 3, 7, 14), *(pytest.param(range(n, n + 10), marks=pytest.mark.thorough) for n in (20, 30))]
)
def test_random_programs_in_cuda_c(seeds, tmp_path):
    if in_cuda.COMPILER is None:
        pytest.skip("no C++ compiler")
    counts = Counter()
    random_cuda.run_compiled(seeds, tmp_path, counts)
    assert not counts["wrong"] and counts["programs"] >= 0.8 * len(seeds)
    assert counts["with shared memory"] and counts["float32"] and counts["float64"]


@pytest.mark.skipif(assembler.tools() is None, reason="needs pip install '.[ptx]'")
@pytest.mark.parametrize("seed", [6, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_random_functions_as_machine_code(seed, tmp_path):
    assert random_cuda.assemble(seed, tmp_path) > 1
