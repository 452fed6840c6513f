"""The history of times: what runs have recorded is on the page, with the rows that became slower."""

import runpy

from PIL import Image

from benchmarks.history.page import DOCS, FOLDER, Run, record, runs, slower, table, write


def a_run(day, **ratios):
    return Run("practice", day, "a machine", {name: (2.0, 2.0 * ratio) for name, ratio in ratios.items()})


def test_runs_are_read_again_and_compared(tmp_path):
    first, second = a_run("2026-01-02", one=2.0, two=1.0), a_run("2026-02-01", one=1.5, two=0.7, three=16.0)
    for run in (second, first):
        record(run, tmp_path)
    found = runs("practice", tmp_path)
    assert [run.day for run in found] == ["2026-01-02", "2026-02-01"]
    assert found[0].rows == first.rows
    assert slower(*found) == ["`two` 1.00 → 0.70", "`one` 2.00 → 1.50"]
    assert abs(found[1].mean - (1.5 * 0.7 * 8) ** (1 / 3)) < 1e-12
    assert "| 2026-02-01 | 3 | 2.03 | 0.70 | 1 | `two` 1.00 → 0.70, `one` 2.00 → 1.50 |" in table(found)


def test_the_page_has_all_runs(tmp_path):
    (tmp_path / "_static").mkdir()
    write(tmp_path)
    assert (tmp_path / "history.md").read_text(encoding="utf-8") == (DOCS / "history.md").read_text(encoding="utf-8")
    assert (tmp_path / "_static" / "history.svg").stat().st_size > 1000
    assert len(list(FOLDER.glob("*.json"))) == len(runs("rows")) + len(runs("practice"))


def test_the_figure_of_the_paper_shows_the_last_run(tmp_path):
    paper = DOCS.parent / "paper"
    script = runpy.run_path(str(paper / "draw_times.py"))
    last = script["run_drawn"]()
    assert last.day == max(run.day for run in runs("practice"))
    script["draw"](last, tmp_path / "times.png")
    with Image.open(paper / "times.png") as shown, Image.open(tmp_path / "times.png") as new:
        assert shown.text["Description"] == new.text["Description"], "run paper/draw_times.py"
        assert shown.size == new.size
    assert new.text["Description"].startswith(f"{last.day}, {last.machine}\n")
    assert (paper / "times.png").stat().st_size < 200_000
    assert "(times.png)" in (paper / "paper.md").read_text(encoding="utf-8")


def test_the_figure_has_the_best_ratio_first(tmp_path):
    script = runpy.run_path(str(DOCS.parent / "paper" / "draw_times.py"))
    run = Run(
        "practice",
        "2026-01-02",
        "a machine",
        {"a float64": (2.0, 3.0), "b float64": (2.0, 0.5), "c float64": (1.0, 4.0), "c float32": (1.0, 9.0)},
    )
    script["draw"](run, tmp_path / "times.png")
    with Image.open(tmp_path / "times.png") as picture:
        assert picture.text["Description"] == "2026-01-02, a machine\nc 1 4\na 2 3\nb 2 0.5"
