"""Random functions with all index maps, and their pullbacks, on CUDA: some seeds; `random_cuda.py` takes any number."""

from __future__ import annotations

import assembler
import pytest
import random_cuda


# Of odd seeds at several sizes, extents of 1 among them; of even ones with all index maps and reductions.
@pytest.mark.parametrize("seed", [1, 5, 8, 14])
def test_random_functions_in_the_simulator(seed, simulator):
    assert simulator(random_cuda.simulate, seed) > 0


@pytest.mark.skipif(assembler.tools() is None, reason="needs pip install '.[ptx]'")
@pytest.mark.parametrize("seed", [6, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_random_functions_as_machine_code(seed, tmp_path):
    assert random_cuda.assemble(seed, tmp_path) > 1
