"""The types that users' type checkers see."""

import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("typed_usage.py")


def test_types_of_public_functions(tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("typing_extensions")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(FILE)]
    done = subprocess.run(command, cwd=FILE.parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
