"""The benchmark suite: that what it times is the same function everywhere. No test looks at a time."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import contestants, environment, libraries, limits, measure, plot, report, result
from benchmarks.command import chosen
from benchmarks.row import Row, Work
from benchmarks.rows import MODULES, ROWS

ROOT = Path(__file__).parent.parent
SMALL = ROWS["matmul"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
    )


@pytest.mark.in_turns(8)
def test_all_rows_agree_with_numpy_by_hand(tmp_path: Path, in_turns: Callable) -> None:
    """With NumPy alone, at tiny sizes."""
    names = in_turns(ROWS, 5)  # 5 and 8 have no common factor: the days of this test would else have the same rows
    file = tmp_path / "results.json"
    options = ("--compare-only", "--peers", "numpy", "--backends", "numpy", "--threads", "1", "--json", str(file))
    done = command("--quick", "--rows", *names, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert [(r["row"], r["dtype"]) for r in found["results"]] == [
        (name, dtype) for name in names for dtype in ("float64", "float32")
    ]
    for r in found["results"]:
        expanded = ["ours, numpy, expand=True"] if ROWS[r["row"]].expand else []
        assert r["agree"] == ["ours, numpy", *expanded, "numpy, by hand"]


@pytest.mark.in_turns(8)
def test_a_row_with_all_peers_that_are_here(tmp_path: Path) -> None:
    """Timed at tiny sizes, with table and plot: a library that is missing is a gap with a name."""
    pytest.importorskip("matplotlib", reason="the plot is drawn with matplotlib (extra `plot`)")
    file, page, picture = (tmp_path / name for name in ("results.json", "page.md", "plot.svg"))
    files = ("--json", str(file), "--markdown", str(page), "--plot", str(picture))
    done = command("--quick", "--rows", "logistic-g*", "--dtype", "float32", "--budget", "0.1", "--doubled", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(file.read_text())["results"]
    forms = {peer.label for peer in ROWS["logistic-gradient"].peers}
    assert {*found["agree"], *found["gaps"]} == forms | {"ours, llvm"}
    assert {"ours, llvm", "numpy, by hand"} <= set(found["times"]) == set(found["agree"])
    assert found["doubled"][1] == 2.0
    text = page.read_text(encoding="utf-8")
    assert "| logistic-gradient | float32 |" in text and "- `logistic-gradient` (n=7, d=3): " in text
    assert 'logistic-gradient,float32,"ours, llvm",' in (tmp_path / "page_forms.csv").read_text(encoding="utf-8")
    assert picture.read_text(encoding="utf-8").count("<svg") == 1


def test_unknown_rows_are_refused() -> None:
    assert [row.name for row in chosen(["mat*", "fir"])] == ["matmul", "fir"]
    with pytest.raises(SystemExit, match="no row matches 'matmull'; the rows are paper, matmul,"):
        chosen(["fir", "matmull"])


def test_every_row_is_independent() -> None:
    assert len(ROWS) == sum(len(module.ROWS) for module in MODULES)  # no name twice
    for row in ROWS.values():
        assert [peer.library for peer in row.peers].count("numpy") == 1
        assert {"jax", "torch"} <= {peer.library for peer in row.peers}
        assert len({peer.label for peer in row.peers}) == len(row.peers)
        assert set(row.sizes) == set(row.quick) and row.doubled in row.sizes
        assert all(row.quick[name] <= row.sizes[name] for name in row.sizes)
        counted = [row.work({**row.sizes, row.doubled: factor * row.sizes[row.doubled]}) for factor in (1, 2)]
        assert 0 < counted[0].flops < counted[1].flops


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_wrong_result_is_not_timed(dtype: str) -> None:
    right = [np.array([1.0, -100.0]), np.zeros((2, 1))]
    given = [array.astype(dtype) for array in right]
    contestants.compare("x", given, dtype, right)
    wrong: list[tuple[list[np.ndarray], str]] = [
        (given[:1], "1 results, expected 2"),
        ([given[0], given[1].T], r"result 1: .* \(1, 2\), expected"),
        ([given[0].astype("float16"), given[1]], "result 0: float16"),
        ([given[0] * (1 + 4 * contestants.TOLERANCE[dtype]), given[1]], "result 0: differs by"),
        ([given[0], given[1] + 1], "result 1: differs by 1 where the largest entry is 0"),
        ([given[0] * np.nan, given[1]], "result 0: differs by nan"),
    ]
    for found, message in wrong:
        with pytest.raises(contestants.DisagreementError, match=message):
            contestants.compare("x", [np.asarray(a, dtype=a.dtype) for a in found], dtype, right)


def field_of(row: Row) -> contestants.Field:
    found, gaps = libraries.load(["numpy"])
    ours = contestants.compiled(row, row.quick, ["numpy"])
    return contestants.gather(row, row.quick, "float64", found, gaps, ours, 60)


def test_a_derivative_of_ours_that_disagrees_is_an_error() -> None:
    def other(sizes):
        arguments, (dA, dB) = SMALL.ours(sizes)
        return arguments, (2 * dA, dB)

    assert [c.label for c in field_of(SMALL).contestants] == ["ours, numpy", "numpy, by hand"]
    with pytest.raises(contestants.DisagreementError, match="ours, numpy, result 0: differs by"):
        field_of(replace(SMALL, ours=other))


def test_peers_that_fail_are_gaps() -> None:
    found = contestants.Field()
    with contestants.gap(found, "jax, broken", (contestants.DisagreementError,)):
        raise ValueError("first line\nsecond line")
    assert found.gaps == {"jax, broken": "does not run: ValueError: first line"}
    with pytest.raises(ValueError, match="ours"), contestants.gap(found, "ours, llvm", ()):
        raise ValueError("ours must not fail")


def test_libraries_that_are_missing_are_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pykeops", None)
    found, gaps = libraries.load(["numpy", "keops"])
    assert list(found) == ["numpy"]
    assert gaps["keops"].startswith("not available: ModuleNotFoundError")


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs a timer that signals")
def test_long_calls_are_interrupted() -> None:
    end = time.monotonic() + 60
    with pytest.raises(contestants.TooSlowError, match=r"longer than 0\.05 s"), contestants.at_most(0.05):
        while time.monotonic() < end:
            pass


def test_all_run_in_turn_and_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure.gc, "collect", lambda: 0)  # of all that other tests left behind
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    times = measure.in_turn(calls, 0.0)
    assert {name: len(values) for name, values in times.items()} == dict.fromkeys("abc", measure.FEWEST)
    turns = [name for n, name in enumerate(order) if n == 0 or order[n - 1] != name]
    assert turns == list("abc") * (1 + measure.FEWEST)  # the first round says how many calls make a turn


def results() -> result.Run:
    """Two rows with invented times: ratios 2 and 32, so 4 in the mean, where 32 counts as 8."""
    run = result.Run({}, {}, 1, True, {"float64": limits.Limits(1e9, 1e9)})  # a second for each 1e9
    for factor in (2.0, 32.0):
        times = {"ours, llvm": [1e-3, 2e-3, 3e-3], "jax, best": [factor * t for t in (1e-3, 2e-3, 4e-3)]}
        times["jax, naive"] = [2 * t for t in times["jax, best"]]
        names = {"ours, llvm": "ours", "jax, best": "jax", "jax, naive": "jax"}
        run.results.append(result.Result(SMALL, SMALL.quick, "float64", Work(10**6, 10), names, {}, times))
    return run


def test_ratios_are_paired_and_capped() -> None:
    run = results()
    first = run.results[0]
    assert first.rival == "jax, best"
    ratio = first.ratio("jax, best")
    assert ratio is not None
    assert (ratio.low, ratio.median) == (2.0, 2.0) and ratio.high == pytest.approx(2 * (1 + 1 / 6))
    assert run.mean_ratio() == pytest.approx(math.sqrt(2 * result.CAP))
    assert run.share(first, "ours, llvm") == 0.5  # a million operations at 1e9 a second, in 2 ms


def test_the_limit_is_the_longer_one() -> None:
    rates = limits.Limits(2e9, 1e9)
    assert rates.seconds(Work(4 * 10**9, 10**8), 8, 0.0) == 2.0  # of operations
    assert rates.seconds(Work(10**9, 10**9), 8, 0.0) == 8.0  # of bytes, through memory
    assert rates.seconds(Work(10**9, 10**9), 8, 4e9) == 2.0  # or out of a cache


def test_a_page_keeps_what_is_written_around_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{report.BEGIN}\nold\n{report.END}\nbelow\n", encoding="utf-8")
    report.write_page(results(), page, tmp_path / "_static" / "plot.svg")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n") and text.endswith("\nbelow\n") and "\nold\n" not in text
    assert "](_static/plot.svg)" in text
    assert "| matmul | float64 | 2 | jax, best | 4 | 2.00 |" in text
    assert "<_static/page_forms.csv>" in text
    forms = (tmp_path / "_static" / "page_forms.csv").read_text(encoding="utf-8")
    assert 'matmul,float64,"jax, best",4,2.00,2.00,2.33,' in forms
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"marks .* are missing"):
        report.write_page(results(), page, None)


def test_the_plot_has_a_dot_for_each_row(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot is drawn with matplotlib (extra `plot`)")
    plot.draw(results(), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 5_000


def test_threads_are_set_before_the_libraries_are_imported() -> None:
    assert environment.threads_of(["--quick", "--threads", "3"]) == 3
    with pytest.raises(RuntimeError, match="NumPy has been imported"):
        environment.limit_threads(1)
    code = "from benchmarks.environment import *; limit_threads(1); import numba; print(numba.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "1"
