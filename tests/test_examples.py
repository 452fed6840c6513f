"""Every example runs, at its small size."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def run(script: Path, output: Path) -> None:
    sys.argv = [str(script), "--quick", "--output", str(output)]
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("script", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_runs(script: Path, tmp_path: Path, elsewhere) -> None:
    pytest.importorskip("matplotlib", reason="the examples draw with matplotlib (extra `test`)")
    pytest.importorskip("sklearn", reason="the data come with scikit-learn (extra `test`)")
    elsewhere(run, script, tmp_path)
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 10_000


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["deblur.py", "motif.py", "newton.py", "text_language.py"]
