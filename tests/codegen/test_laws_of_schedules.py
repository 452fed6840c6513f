"""Parts of schedules on their own: the entries of the threads of a block, the backends of time steps."""

from __future__ import annotations

from itertools import product
from math import prod

from every import every

from sympy_tensordiff.codegen.schedule import gpu_model, passes


@every("shape", list(product((1, 2, 3), (1, 2, 5), (1, 4, 6), (2, 3))))
def test_threads_of_a_block_have_different_entries(shape):
    """The threads of one block compute each entry of the block once; threads beyond the array compute none."""
    threads = gpu_model._Threads.__new__(gpu_model._Threads)
    threads.axes, threads.box = ["h", "i", "j", "k"], list(shape)
    threads.extents = (shape[3], shape[2], shape[0] * shape[1])
    threads.start = [0, 0, 0]
    for block in ((2, 2, 2), (3, 1, 4), (4, 6, 6)):
        threads.block = block
        entries = [threads.lane(number) for number in range(prod(block))]
        found = [tuple(entry[axis] for axis in threads.axes) for entry in entries if entry is not None]
        columns, rows, outer = (min(size, extent) for size, extent in zip(block, threads.extents, strict=True))
        expected = {
            (*divmod(number, shape[1]), row, column)
            for number, row, column in product(range(outer), range(rows), range(columns))
        }
        assert len(found) == len(set(found)) and set(found) == expected


def test_the_backend_of_time_steps(monkeypatch):
    """Steps that a backend cannot compile are NumPy's; others are compiled by the backend of the recurrence."""

    class Step:
        body = None

    for backend, is_compiled, uncompiled in product(
        ("numpy", "numba", "llvm", "c", "cuda"), (False, True), ((), ("x",))
    ):
        monkeypatch.setattr(passes, "is_compiled_step", lambda step, found=is_compiled: found)
        monkeypatch.setattr(passes, "uncompiled_arrays", lambda body, found=uncompiled: found)
        is_left_out = bool(uncompiled) if backend == "numba" else backend == "llvm" and not is_compiled
        assert passes._backend_of(Step(), backend) == ("numpy" if is_left_out else backend)
