"""The demonstration at a small size, the checks it makes, and the command line."""

import io
import re

import numpy as np
import pytest

from sympy_tensordiff.app import checks, command_line, demo, section6
from sympy_tensordiff.app.progress import Progress

SMALL = (6, 5, 4)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def report() -> tuple[bool, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    good = demo.run(SMALL, output=output, errors=errors, repeats=2)
    return good, output.getvalue(), errors.getvalue()


def test_demo_passes_and_says_what_it_did(report: tuple[bool, str, str]) -> None:
    good, text, _ = report
    assert good, text
    for name in "abcd":
        assert f"d{name}: relative error" in text
    assert "cuda.jit" in text
    assert text.count("compiled in") >= 2
    assert "f lies in" in text
    assert "On the GPU" in text
    assert text.endswith("All checks passed.\n")


def test_progress_goes_to_the_other_stream_line_by_line(report: tuple[bool, str, str]) -> None:
    _, text, progress = report
    assert "\r" not in progress
    assert "checking da" in progress and "checking dd" in progress
    assert "checking da" not in text


def test_report_and_progress_share_a_terminal() -> None:
    """The progress line is gone whenever the report says something."""
    screen = Terminal()
    assert demo.run(SMALL, output=screen, errors=screen, repeats=1)
    for line in screen.getvalue().split("\n"):
        shown = line.rsplit("\r", 1)[-1]
        assert not re.search(r"\[\d+/\d+\]", shown), shown


def test_a_wrong_derivative_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is off by a millionth is found, and so is an entry that should be 0."""
    compare = demo.compare

    def spoiled(progress, function, arrays, name, position, derivative, rng):  # type: ignore[no-untyped-def]
        wrong = derivative * (1 + 1e-6) if name == "b" else derivative
        return compare(progress, function, arrays, name, position, wrong, rng)

    monkeypatch.setattr(demo, "compare", spoiled)
    output = io.StringIO()
    assert not demo.run(SMALL, output=output, errors=io.StringIO(), repeats=1)
    lines = [line for line in output.getvalue().splitlines() if line.startswith("d") and "FAIL" in line]
    assert [line[:2] for line in lines] == ["db"]


def test_output_is_ascii_where_the_stream_is() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    page = demo.Page(output)
    task = section6.problem(SMALL)
    demo.show_formulas(page, task, SMALL)
    page.say("not ASCII: ∑")
    text = raw.getvalue().decode("ascii")
    assert "dd[" in text and "\\u2211" in text


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 4, 5), (40, 30, 7)])
def test_inputs_keep_f_in_range(sizes: tuple[int, int, int]) -> None:
    a, b, c, d, df = section6.inputs(sizes, seed=3)
    rows, columns, terms = sizes
    windows = np.array([d[i : i + terms] for i in range(rows)])
    squares = ((a[:, None, :] + b[None, :, :]) ** 2).sum(2) * np.diag(c)[:, None]
    f = np.exp(-(squares + (windows**3).sum(1)[:, None]))
    assert f.shape == df.shape == (rows, columns)
    assert 0.1 <= f.min() <= f.max() <= 10


def test_central_difference_of_a_known_function() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    found = checks.central_difference(lambda u, v: u**2 * v, [x, y], 0, np.array([0.0, 1.0]), np.array([7.0, 1.0]))
    assert found == pytest.approx(2 * 2 * 5, rel=1e-9)


@pytest.mark.parametrize(
    ("formula", "difference", "good"),
    [(0.0, 0.0, True), (1.0, 1.0 + 1e-9, True), (1.0, 1.001, False), (1e-12, 0.0, False), (float("nan"), 1.0, False)],
)
def test_relative_error(formula: float, difference: float, good: bool) -> None:
    assert checks.Comparison("x", formula, difference).good is good


def test_progress_rewrites_its_line_on_a_terminal() -> None:
    stream = Terminal()
    progress = Progress(2, stream)
    progress.step("a long stage")
    progress.step("short")
    progress.clear()
    first, second, blank, end = stream.getvalue().split("\r")[1:]
    assert first == "[1/2] a long stage"
    assert second == "[2/2] short       "
    assert blank.strip() == "" and len(blank) >= len("[2/2] short") and end == ""


def test_exit_code_tells_of_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(demo, "run", lambda size, seed: bool(sizes.append(size)))
    assert command_line.main(["demo", "--quick"]) == 1
    assert sizes == [command_line.QUICK_SIZES]


@pytest.mark.parametrize("option", ["--fast", "--seed=x", "more"])
def test_a_wrong_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command_line.main(["demo", option])
    assert stop.value.code == 2
    assert "demo: error: " in capsys.readouterr().err
