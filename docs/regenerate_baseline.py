"""Write baseline.md: 42 derivatives by SymPy alone and by this package, judged and side by side.

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
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "derivative")]

from baseline import Task, tasks  # noqa: E402
from baseline_truth import Answer, Answers, answers  # noqa: E402

HEAD = """\
# Comparison with SymPy alone

<!-- Written by docs/regenerate_baseline.py; do not edit. -->

42 derivatives by SymPy {version} and by this package. All are written in SymPy's own notation, `sympy.Sum` over entries
of `sympy.IndexedBase`, and differentiated three ways: by `sympy.diff`, by `.doit()` of that, and by `td.diff`.

| | `sympy.diff` | then `.doit()` | `td.diff` |
|---|---|---|---|
{summary}

Each answer is compared with the sum written out over small arrays and differentiated by each entry: with random
rational entries, at every value of the free indices inside of the arrays, for two choices of the sizes. The answers of
`td.diff` are evaluated by an exact interpreter and as NumPy kernels. "Wrong at 8 of 20" counts these points.

- Arrays are real and have shapes. `td.diff` uses the shapes: a result without a condition is right for all entries.
- An empty range is 0 in `td.IndexedSum`; `sympy.Sum` follows Karr's convention. Both agree at the sizes compared.
- `sympy.diff` alone is wrong where the index of a sum has the name of an index of the variable
  ([#21891](https://github.com/sympy/sympy/issues/21891), [#13994](https://github.com/sympy/sympy/issues/13994)).
  `.doit()` solves for indices over the rationals: it reads `y[p/2]` at odd `p`.
- Where this package refuses, SymPy has an answer; some of these answers are right.

In the table, δ says that Kronecker deltas are left under a sum. The numbers lead to formulas where
SymPy's answer is wrong, keeps a delta or differs otherwise.

| | function | `sympy.diff` | then `.doit()` | `td.diff` |
|---|---|---|---|---|
"""


class Part(NamedTuple):
    """The part of the page about one task: a row of the table, and a section with the formulas."""

    row: str
    section: str


def part(name: str, task: Task, three: Answers) -> Part:
    verdicts = [verdict(answer) for answer in three]
    cells = " | ".join(verdicts)
    if verdicts[1:] == ["right", "right"]:
        return Part(f"| {name} | {task.title} | {cells} |\n", "")
    return Part(f"| [{name}](#case-{name}) | {task.title} | {cells} |\n", section(name, task, three))


def verdict(answer: Answer, unit: str = "") -> str:
    if isinstance(answer.result, Exception):
        return "refused"
    deltas = ", δ" if answer.deltas else ""
    if answer.right < 0:
        return f"not evaluated{deltas}"
    wrong = answer.points - answer.right
    return f"**wrong** at {wrong} of {answer.points}{unit}{deltas}" if wrong else f"right{deltas}"


def section(name: str, task: Task, three: Answers) -> str:
    bases = sorted({entry.base for entry in (task.function + sum(task.by)).atoms(sympy.Indexed)}, key=str)
    sizes = [(base.name, r" \times ".join(map(sympy.latex, base.shape))) for base in bases]
    lines = [
        f"(case-{name})=\n### {name}: {task.title}\n",
        display(sympy.Derivative(task.function, *task.by)),
        "with " + ", ".join(rf"${name} \in \mathbb{{R}}^{{{shape}}}$" for name, shape in sizes) + "\n",
    ]
    for way, answer in zip(("`sympy.diff`, `.doit()`", "`td.diff`"), (three.doit, three.ours), strict=True):
        lines.append(f"{way}: {verdict(answer, ' points')}\n")
        lines.append(f"> {answer.result}\n" if isinstance(answer.result, Exception) else display(answer.result))
    return "\n".join(lines) + "\n"


def display(expr: sympy.Expr) -> str:
    # The number of a dummy differs from run to run.
    plain = expr.xreplace({dummy: sympy.Symbol("h") for dummy in expr.atoms(sympy.Dummy)})
    return f"$$\n{sympy.latex(plain)}\n$$\n"


def summary(rows: list[str]) -> str:
    """Return the number of rows with each verdict, by column."""
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
