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


def fits(figure: Any) -> bool:
    """Whether nothing of a figure is cut off at its border."""
    figure.canvas.draw()  # places what the layout places
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()
    return min(box.x0, box.y0, width - box.x1, height - box.y1) > -0.01


def run(name: str) -> tuple[int, list[str], list[bool]]:
    """The number of formulas, the pictures, and whether each figure fits."""
    from matplotlib.figure import Figure

    fitting = []
    save = Figure.savefig

    def checked(figure: Any, *args: Any, **options: Any) -> None:
        fitting.append(fits(figure))
        save(figure, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", checked)
        page = gallery()["run"](ROOT / "examples" / f"{name}.py")
    return len(page.formulas), list(page.pictures), fitting


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name: str, elsewhere) -> None:
    """An example asserts its own numbers."""
    gallery()
    pytest.importorskip("sklearn", reason="the data come with scikit-learn (extra `test`)")
    formulas, pictures, fitting = elsewhere(run, name)
    assert formulas >= 2
    assert len(fitting) == sum(picture.endswith(".png") for picture in pictures) >= 1
    assert all(fitting)


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


def test_what_is_cut_off_is_seen() -> None:
    plt = pytest.importorskip("matplotlib.pyplot", reason="figures are those of matplotlib (extra `test`)")
    figure, axis = plt.subplots(layout="constrained")
    axis.set_title("fits")
    assert fits(figure)
    axis.set_title("a title that is much too long for a figure " * 5)
    assert not fits(figure)
    plt.close(figure)


def test_an_error_names_the_line_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text('"""Wrong."""\n\n# %%\n# Text.\n\nx = 1\n# %%\n# More.\n\nx = 2\nassert x == 1\n')
    with pytest.raises(AssertionError) as caught:
        gallery()["run"](script)
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno + 1) == (script, 11)


def test_all_examples_are_in_the_gallery() -> None:
    assert sorted(gallery()["ORDER"]) == EXAMPLES
