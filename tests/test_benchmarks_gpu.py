"""The benchmark of GPUs, in the simulator: results against the CPU, what is written, how large the rows get."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from benchmarks import gpu
from benchmarks.libraries import load
from benchmarks.rows import ROWS

QUICK = ("--quick", "--peers")


def compare(name: str, dtype: str) -> int:
    return gpu.main([*QUICK, "--compare-only", "--rows", name, "--dtype", dtype])


# One of the convolutions by the images, one by the weights: there are four strides and dilations of each.
SIMULATED = [n for n in ROWS if not n.startswith("conv") or n == "conv-X-2-1"]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SIMULATED[::4], marks=pytest.mark.in_turns(4)),
        pytest.param(SIMULATED[2::4], marks=pytest.mark.thorough),
    ],
)
def test_rows_agree_with_the_cpu(names, simulator):
    """With arrays that lie on the device."""
    for name in names:
        assert simulator(compare, name, ("float64", "float32")[len(name) % 2]) == 0, name


def test_what_a_run_writes(simulator, tmp_path):
    files = [tmp_path / "gpu.json", tmp_path / "gpu.md"]
    options = ("--rows", "matmul", "--dtype", "float32", "--budget", "0", "--json", *map(str, files[:1]))
    assert simulator(gpu.main, [*QUICK, *options, "--markdown", str(files[1])]) == 0
    found = json.loads(files[0].read_text())
    assert found["card"] == "none: Numba's simulator" and len(found["date"]) == 10
    assert found["limits"]["float32"]["bandwidth"] > 0
    (row,) = found["results"]
    assert row["agree"] == ["ours, cuda"] == list(row["times"])
    assert "| matmul | n=" in files[1].read_text() and "| model ms |" in files[1].read_text()
    assert [one["threads"] > 0 < one["seconds"] for one in found["model"]["matmul float32"]] == [True, True]
    times = found["kernels"]["matmul float32"]
    assert [name for name, _ in times] == ["fill_result0", "fill_result0"]  # both products have one function
    assert all(isinstance(seconds, float) for _, seconds in times)  # the simulator has no clock: 0 or -1 ms


def test_measured_times_and_the_model() -> None:
    """Of launches one after another; those of a library are not in the model."""
    row = ROWS["matmul"]
    launches = gpu.predicted(gpu.compiled(row, row.quick, ["cuda"])["ours, cuda"], row.quick, "float64")
    both = gpu.predicted_lines(launches, [("fill_result0", 2e-3), ("fill_result0", 3e-3)]).splitlines()
    assert "2 ms," in both[0] and "at least on an H200" in both[0] and "3 ms," in both[1]
    more = gpu.predicted_lines(launches, [("fill_result0", 2e-3)]).splitlines()
    assert "2 ms" in more[2] and "ms, " not in more[0]
    assert gpu.predicted_lines(launches).count("at least on an H200") == 2


def test_without_a_device(monkeypatch) -> None:
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    if not gpu.importlib.import_module("numba.cuda").is_available():
        with pytest.raises(SystemExit, match="there is no CUDA device here"):
            gpu.main(["--rows", "matmul"])


def wrong_result() -> int:
    right = ROWS["matmul"].ours

    def other(sizes):
        arguments, (first, second) = right(sizes)
        return arguments, (2 * first, second)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ROWS, "matmul", replace(ROWS["matmul"], ours=other))
        return compare("matmul", "float64")


def test_a_wrong_result_fails_the_run(simulator):
    assert simulator(wrong_result) == 1


def test_rows_grow_with_what_a_gpu_does() -> None:
    for row in ROWS.values():
        sizes = gpu.grown(row)
        work = row.work(sizes)
        assert work.flops <= gpu.MOST_WORK and work.elements <= gpu.MOST_ENTRIES
        assert {name for name in sizes if sizes[name] != row.sizes[name]} <= {row.doubled}
        assert work.flops > gpu.MOST_WORK / 20 or work.elements > gpu.MOST_ENTRIES / 10


def test_libraries_without_a_device_are_gaps() -> None:
    found, gaps = load(gpu.gpu_libraries.LIBRARIES, gpu.gpu_libraries.LIBRARIES)
    assert not found.keys() & gaps.keys() and found.keys() | gaps.keys() == gpu.gpu_libraries.LIBRARIES.keys()
    labels = [peer.label for peer in gpu.with_cupy(ROWS["matmul"]).peers]
    assert labels[-1] == "cupy, by hand" and "numpy, by hand" in labels


def test_the_sanitizer_runs_all_rows(monkeypatch, tmp_path, capfd) -> None:
    """A script stands in for the tool: it tells what it is asked for, and finds something in one case."""
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    script = tmp_path / "compute-sanitizer"
    script.write_text('#!/bin/sh\necho "$@"\ncase "$*" in *"$FINDS"*) exit 1;; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("FINDS", "no such option")
    assert gpu.main(["--sanitize", "--dtype", "float32"]) == 0
    *calls, last = capfd.readouterr().out.splitlines()
    assert last == "nothing found by memcheck, racecheck, synccheck"
    wanted = f"--error-exitcode 1 {sys.executable} -m benchmarks.gpu --quick --compare-only --peers --dtype float32"
    assert len(calls) == 6 and f"--tool racecheck {wanted}" in calls
    monkeypatch.setenv("FINDS", "racecheck")
    assert gpu.main(["--sanitize"]) == 1
    assert "failed: racecheck --quick, racecheck --rows fir" in capfd.readouterr().out


def test_without_the_sanitizer(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.main(["--sanitize"]) == 2
    assert "no kernel has been looked at: compute-sanitizer is not on the path" in capsys.readouterr().out
