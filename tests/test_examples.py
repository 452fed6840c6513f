"""Every example runs, at its small size, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_runs(script: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the examples draw with matplotlib (extra `test`)")
    pytest.importorskip("sklearn", reason="the data come with scikit-learn (extra `test`)")
    root = str(script.parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 10_000


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["deblur.py", "motif.py", "newton.py", "text_language.py"]
