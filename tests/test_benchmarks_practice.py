"""The functions of practice in `benchmarks/practice/`: their values and gradients, without JAX and without times."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sympy_tensordiff as td
from benchmarks.practice import command
from benchmarks.practice.case import Formula
from benchmarks.practice.fields import CASES

STEP = 1e-5


def along(formula: Formula, arrays: tuple, place: int, direction: np.ndarray) -> float:
    """Return the central difference of NumPy's function along a direction of one argument."""
    ends = [[a + s * STEP * direction if n == place else a for n, a in enumerate(arrays)] for s in (1, -1)]
    return (formula.function(np, *ends[0]) - formula.function(np, *ends[1])) / (2 * STEP)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("name", CASES)
def test_a_row_has_the_values_and_slopes_of_numpy(name: str) -> None:
    case = CASES[name]
    formula = case.build()
    arrays = formula.arrays(case.quick, "float64")
    value, *gradients = td.lambdify(formula.arguments, formula.derive(), "llvm")(*arrays)
    assert value == pytest.approx(formula.function(np, *arrays), rel=1e-10)
    random = np.random.default_rng(1)
    for place, gradient in zip(formula.places, gradients, strict=True):
        direction = random.standard_normal(np.shape(arrays[place]))
        scale = np.abs(np.asarray(gradient) * direction).sum()
        slope = along(formula, arrays, place, direction)
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=0, abs=1e-6 * max(scale, 1)), place


def test_there_are_thirty_rows_with_real_sizes() -> None:
    assert len(CASES) == 30
    assert {case.notation for case in CASES.values()} == {"index", "tensor", "mixed", "sympy"}
    for case in CASES.values():
        assert set(case.sizes) == set(case.quick) and case.what
        assert all(case.quick[name] < size for name, size in case.sizes.items())


def test_a_row_that_disagrees_with_jax_is_not_timed(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    pytest.importorskip("jax")
    arguments = ["--quick", "--rows", "risk-parity", "--dtype", "float64"]
    assert command.main(arguments) == 0
    assert "| risk-parity | float64 | " in capsys.readouterr().out
    case = CASES["risk-parity"]
    formula = case.build()
    wrong = replace(formula, function=lambda *given: 2 * formula.function(*given))
    monkeypatch.setitem(CASES, case.name, replace(case, build=lambda: wrong))
    assert command.main(arguments) == 1
    assert "DisagreementError: risk-parity, ours, result 0: differs by" in capsys.readouterr().out


def test_page_and_readme_are_written_between_the_marks(tmp_path: Path) -> None:
    cases = list(CASES.values())[:2]
    found = [
        command.Times(case.name, case.what, "float64", 1e-3, factor * 1e-3, 1.0, 0.5)
        for case, factor in zip(cases, (2.0, 32.0), strict=True)
    ]
    page, readme = tmp_path / "page.md", tmp_path / "README.md"
    for file in (page, readme):
        file.write_text(f"above\n{command.BEGIN}old{command.END}\nbelow\n", encoding="utf-8")
    command.write(found, cases, "a machine", page, readme)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n") and text.endswith("\nbelow\n") and "old" not in text
    assert f"| {cases[0].name} | float64 | 1 | 2 | 2.00 | 1.00 | 0.50 |" in text
    assert "a machine; geometric mean of the ratios, each capped at 8: 4.00; lowest 2.00" in text
    figure = "4.00 times as fast; from 2.0 to 32"
    assert readme.read_text(encoding="utf-8") == f"above\n{command.BEGIN}{figure}{command.END}\nbelow\n"
