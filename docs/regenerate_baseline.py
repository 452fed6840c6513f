"""Writes baseline.md: 42 derivatives by SymPy alone and by this package, judged and side by side.

Run ``python docs/regenerate_baseline.py`` from a checkout after a change of what `td.diff` gives,
or of SymPy's version. The tasks and the judgement are in ``tests/derivative``, where a test checks
that the page is up to date.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import sympy

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "baseline.md"
sys.path.insert(0, str(ROOT / "tests" / "derivative"))

from baseline import Task, tasks  # noqa: E402
from baseline_truth import Answer, Answers, answers  # noqa: E402

HEAD = """\
# Beside SymPy alone

<!-- Written by docs/regenerate_baseline.py; do not edit. -->

What SymPy {version} makes of 42 derivatives on its own, and what this package makes of them. All are written in SymPy's
own notation, `sympy.Sum` over entries of `sympy.IndexedBase`, and differentiated three ways: by `sympy.diff`, by
`.doit()` of that, which eliminates deltas where SymPy can, and by `td.diff`, which takes the same input.

| | `sympy.diff` | then `.doit()` | `td.diff` |
|---|---|---|---|
{summary}

How it is judged: every sum is written out over small arrays, and the scalar function that results is differentiated
by each entry. Each answer is then evaluated with random rational entries for every value of the free indices at which
what is read lies inside of the arrays, for two choices of the sizes: the `td.diff` answers by an exact interpreter
and as NumPy kernels. "Wrong at 8 of 20" counts these points.

What to bear in mind:

- Arrays are real and have shapes; a free index of the variable runs over the shape. `td.diff` uses that (a result
  without a condition is right for all entries there are), SymPy does not, and its conditions are right for indices
  beyond the shape, too.
- An empty range is 0 in `td.IndexedSum`; in `sympy.Sum` it follows Karr's convention, which is the same at the sizes
  compared here.
- A delta between two free indices is an answer. One under a sum is a loop over a box for the sake of one point of it.
- What SymPy's `diff` gets wrong alone is capture: the index of a sum has the name of the index that one differentiates
  by ([#21891](https://github.com/sympy/sympy/issues/21891), [#13994](https://github.com/sympy/sympy/issues/13994)).
  `.doit()` solves for indices over the rationals: `y[p/2]` is read at odd `p` as well.
- Where this package refuses, it says why, and SymPy has an answer; some of these answers are right.

In the table, δ says that Kronecker deltas are left under a sum. The numbers lead to the formulas.

| | function | `sympy.diff` | then `.doit()` | `td.diff` |
|---|---|---|---|---|
"""


class Part(NamedTuple):
    """What the page says about one task: a row of the table, and a section with the formulas."""

    row: str
    section: str


def part(name: str, task: Task, three: Answers) -> Part:
    cells = " | ".join(verdict(answer) for answer in three)
    return Part(f"| [{name}](#case-{name}) | {task.title} | {cells} |\n", section(name, task, three))


def verdict(answer: Answer) -> str:
    if isinstance(answer.result, Exception):
        return "refused"
    deltas = ", δ" if answer.deltas else ""
    if answer.right < 0:
        return f"not evaluated{deltas}"
    wrong = answer.points - answer.right
    return f"**wrong** at {wrong} of {answer.points}{deltas}" if wrong else f"right{deltas}"


def section(name: str, task: Task, three: Answers) -> str:
    bases = sorted({entry.base for entry in (task.function + sum(task.by)).atoms(sympy.Indexed)}, key=str)
    sizes = [(base.name, r" \times ".join(map(sympy.latex, base.shape))) for base in bases]
    lines = [
        f"(case-{name})=\n### {name}: {task.title}\n",
        display(sympy.Derivative(task.function, *task.by)),
        "with " + ", ".join(rf"${name} \in \mathbb{{R}}^{{{shape}}}$" for name, shape in sizes) + "\n",
    ]
    for way, answer in zip(("`sympy.diff`", "then `.doit()`", "`td.diff`"), three, strict=True):
        lines.append(f"{way}: {verdict(answer)}\n")
        lines.append(f"> {answer.result}\n" if isinstance(answer.result, Exception) else display(answer.result))
    return "\n".join(lines) + "\n"


def display(expr: sympy.Expr) -> str:
    # The number of a dummy differs from run to run.
    plain = expr.xreplace({dummy: sympy.Symbol("h") for dummy in expr.atoms(sympy.Dummy)})
    return f"$$\n{sympy.latex(plain)}\n$$\n"


def summary(rows: list[str]) -> str:
    """How many rows say what in each column."""
    columns = list(zip(*([cell.strip() for cell in row.split("|")[3:6]] for row in rows), strict=True))

    def counted(says: str) -> str:
        return " | ".join(str(sum(says in cell for cell in column)) for column in columns)

    texts = {"right at every point": "right", "wrong somewhere": "wrong", "not evaluated": "not evaluated"}
    texts |= {"refused, with the reason": "refused", "with deltas under a sum": "δ"}
    return "\n".join(f"| {text} | {counted(says)} |" for text, says in texts.items())


def page(parts: list[Part], version: str) -> str:
    head = HEAD.format(version=version, summary=summary([p.row for p in parts]))
    return (
        head
        + "".join(p.row for p in parts)
        + "\n## The formulas\n\n"
        + "".join(p.section for p in parts).rstrip()
        + "\n"
    )


def main() -> None:
    parts = [part(name, task, answers(task)) for name, task in tasks().items()]
    PAGE.write_text(page(parts, sympy.__version__), encoding="utf-8")
    print(f"{PAGE}: {Counter(p.row.split('|')[5].strip() for p in parts)}")


if __name__ == "__main__":
    main()
