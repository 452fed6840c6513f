"""Every example runs, and becomes a page of the gallery with formulas and figures that fit."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def gallery() -> dict[str, Any]:
    pytest.importorskip("matplotlib", reason="examples draw with matplotlib (extra `test`)")
    return runpy.run_path(str(ROOT / "docs" / "_extensions" / "gallery.py"))


def run(name: str) -> tuple[int, list[str]]:
    """The number of formulas, and the pictures, of which none is cut off."""
    page = gallery()["run"](ROOT / "examples" / f"{name}.py")
    return len(page.formulas), list(page.pictures)


# All of them run when the documentation is built, where Dask is missing all but one.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "larger_than_memory" else pytest.mark.thorough) for name in EXAMPLES],
)
def test_example_runs(name: str, elsewhere) -> None:
    """An example asserts its own numbers."""
    for needed in gallery()["NEEDED"].get(name, ()):
        pytest.importorskip(needed)
    pytest.importorskip("sklearn", reason="the data come with scikit-learn (extra `test`)")
    formulas, pictures = elsewhere(run, name)
    assert formulas >= 2
    assert any(picture.endswith(".png") for picture in pictures)


def test_a_page_holds_what_a_notebook_shows(tmp_path: Path) -> None:
    script = tmp_path / "square.py"
    script.write_text(
        '"""A square.\n\nIts derivative.\n"""\n\n# %%\n# Some *text*.\n\nimport sympy_tensordiff as td\n\n'
        'x = td.TensorSymbol("x", 3)\nprint("shape", x.shape)\ntd.gradient(td.sum(x*x), x)\n'
        "# %%\nfrom matplotlib import pyplot as plt\n\nplt.plot([1, 4, 9])\nplt.show()\n"
    )
    page = gallery()["run"](script)
    assert page.title == "A square"
    assert page.formulas == ["2 x"] and list(page.pictures) == ["square_0.png"] == [page.thumbnail]
    parts = [
        "# A square",
        "Some *text*.",
        "```python\nimport",
        "```text\nshape (3,)",
        "$$\n2 x\n$$",
        "](pictures/square_0",
    ]
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)


def test_what_is_cut_off_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures are those of matplotlib (extra `test`)")
    script = tmp_path / "wide.py"
    script.write_text(
        '"""Wide."""\n\n# %%\n# Text.\n\nfrom matplotlib import pyplot as plt\n\n'
        'plt.figure(layout="constrained").suptitle("a title that is much too long for a figure " * 5)\n'
    )
    with pytest.raises(AssertionError, match="wide: something is cut off at the border of figure 1"):
        gallery()["run"](script)


def test_an_error_names_the_line_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text('"""Wrong."""\n\n# %%\n# Text.\n\nx = 1\n# %%\n# More.\n\nx = 2\nassert x == 1\n')
    with pytest.raises(AssertionError) as caught:
        gallery()["run"](script)
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno + 1) == (script, 11)


def test_all_examples_are_in_the_gallery() -> None:
    assert sorted(gallery()["ORDER"]) == EXAMPLES
