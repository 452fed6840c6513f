"""The demonstration at a small size, the checks it makes, and the command line."""

import io
import re

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.app import command_line, demo

SMALL = (6, 5, 4)


@pytest.fixture(scope="module")
def report() -> tuple[bool, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    good = demo.run(SMALL, cuda=True, output=output, errors=errors, repeats=2)
    return good, output.getvalue(), errors.getvalue()


def test_demo_passes_and_says_what_it_did(report: tuple[bool, str, str]) -> None:
    good, text, _ = report
    assert good, text
    assert all(re.search(rf"^  d{name} \d\.\de-\d\d  ok$", text, re.MULTILINE) for name in "abcd")
    assert "cuda.jit" in text
    assert text.count("compiled in") >= 2
    assert "On the GPU" in text
    assert text.endswith("All checks passed.\n")
    cpu = text[: text.index("The CUDA kernel")]
    assert len(cpu.splitlines()) <= 45 and "cuda" not in cpu


def test_a_wrong_derivative_fails() -> None:
    """A factor that is off by a millionth is found."""
    task, output = demo.problem(SMALL), io.StringIO()
    arguments = (*task.variables, task.cotangent)
    function = td.lambdify(task.variables, task.function)
    right = td.lambdify(arguments, td.vjp(task.function, task.variables, task.cotangent))

    arrays = demo.inputs(SMALL)
    wrong = [d * (1 + 1e-6) if position == 1 else d for position, d in enumerate(right(*arrays))]
    found = demo.relative_errors(task, function, wrong, arrays, 0)
    assert not demo.report_errors(demo.TextOutput(output), "errors", task.variables, found)
    lines = [line for line in output.getvalue().splitlines() if line.endswith("FAIL")]
    assert [line[:4] for line in lines] == ["  db"]
    assert not demo.report_errors(demo.TextOutput(output), "errors", "x", [float("nan")])


def test_output_is_ascii_where_the_stream_is() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    page = demo.TextOutput(output)
    task = demo.problem(SMALL)
    page.formula("dd", td.vjp(task.function, task.variables[-1], task.cotangent))
    page.write_line("not ASCII: ∑")
    text = raw.getvalue().decode("ascii")
    assert "dd[" in text and "\\u2211" in text


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 4, 5), (40, 30, 7)])
def test_inputs_keep_f_in_range(sizes: tuple[int, int, int]) -> None:
    a, b, c, d, df = demo.inputs(sizes, seed=3)
    rows, columns, terms = sizes
    windows = np.array([d[i : i + terms] for i in range(rows)])
    squares = ((a[:, None, :] + b[None, :, :]) ** 2).sum(2) * np.diag(c)[:, None]
    f = np.exp(-(squares + (windows**3).sum(1)[:, None]))
    assert f.shape == df.shape == (rows, columns)
    assert 0.1 <= f.min() <= f.max() <= 10


def test_exit_code_tells_of_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(demo, "run", lambda size, cuda, seed: bool(sizes.append(size)))
    assert command_line.main(["demo", "--quick"]) == 1
    assert sizes == [command_line.QUICK_SIZES]


@pytest.mark.parametrize("option", ["--fast", "--seed=x", "more"])
def test_a_wrong_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command_line.main(["demo", option])
    assert stop.value.code == 2
    assert "demo: error: " in capsys.readouterr().err
