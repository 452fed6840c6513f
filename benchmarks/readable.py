"""Compare the lengths of derivatives with the forms that textbooks and papers print.

``python -m benchmarks.readable`` prints the operations of both for each form of ``tests/corpus_*.py``, the worst first,
with parts that have a name counted once. ``--forms`` prints the forms, too,
``--page FILE`` writes a page of both.
"""

from __future__ import annotations

import argparse
import html
import sys
from pathlib import Path
from statistics import median

import sympy

import sympy_tensordiff as td

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

PAGE = """<!doctype html><meta charset="utf-8"><title>Readable derivatives</title>
<style>
@font-face {{ font-family: Formulas; src: url("{font}"); }}
math {{ font-family: Formulas, math; font-size: 115%; }}
td {{ border-top: 1px solid #ccc; padding: 4px 12px; }}
</style>
<table>{rows}</table>"""


def main() -> None:
    from corpus_forms import of_ours, of_person
    from corpus_learning import FORMS as LEARNING
    from corpus_papers import FORMS as PAPERS
    from corpus_physics import FORMS as PHYSICS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forms", action="store_true", help="print both forms")
    parser.add_argument("--page", type=Path, help="write both forms as formulas")
    options = parser.parse_args()
    rows = []
    for form in (*LEARNING, *PHYSICS, *PAPERS):
        derivative = form.derivative()
        rows.append((of_ours(derivative), of_person(form), form, derivative))
    rows.sort(key=lambda row: -row[0] / row[1])
    for ours, person, form, derivative in rows:
        print(f"{ours / person:5.2f} {ours:4d} {person:4d}  {form.name}")
        if options.forms:
            print(f"      {form.person}\n      {derivative}")
    ratios = [ours / person for ours, person, _, _ in rows]
    print(f"{len(ratios)} derivatives, median {median(ratios):.2f}, worst {max(ratios):.2f}, ", end="")
    print(f"{sum(ratio > 1.5 for ratio in ratios)} above 1.5")
    if options.page:
        from sympy_tensordiff.app.web.typesetting import FONT_FILE, to_mathml

        cells = [
            f"<tr><td>{html.escape(form.name)}<td>{to_mathml(sympy.latex(form.person))}"
            f"<td>{to_mathml(td.latex(derivative, parts=True))}"
            for _, _, form, derivative in rows
        ]
        options.page.write_text(PAGE.format(rows="\n".join(cells), font=FONT_FILE.as_uri()))


if __name__ == "__main__":
    main()
