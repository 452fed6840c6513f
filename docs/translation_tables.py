"""Write the last column of the tables of the pages ``from_*.md``: run ``python docs/translation_tables.py``.

A row of such a table has three cells of code: an input in another notation, the same in this package, and the printed
result of the second cell. The ``python`` blocks of the page define the names. A test checks that the column is current.
"""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sympy_tensordiff as td

FOLDER = Path(__file__).resolve().parent
PAGES = tuple(FOLDER / f"from_{name}.md" for name in ("jax", "matrixcalculus", "sympy"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| `(.*)` \|$", re.MULTILINE)


def names_of(page: str) -> dict[str, Any]:
    """Return the namespace after the ``python`` blocks of the text ``page``."""
    names: dict[str, Any] = {}
    for block in BLOCK.findall(page):
        for example in doctest.DocTestParser().get_examples(block):
            exec(example.source, names)
    return names


def rows(page: str) -> Iterator[tuple[str, Any]]:
    """Yield for each row of the text ``page`` the first cell and the value of the second."""
    names = names_of(page)
    for row in ROW.finditer(page):
        yield row[1], eval(row[2], names)


def printed(value: Any) -> str:
    """Return the printed form of ``value``; of a compiled function its signature."""
    if isinstance(value, td.CompiledFunction):
        return f"function of {inspect.signature(value)}"
    return str(value)


def updated(page: str) -> str:
    """Return the text ``page`` with the last column of its tables computed again."""
    values = iter([printed(value) for _, value in rows(page)])
    return ROW.sub(lambda row: f"| `{row[1]}` | `{row[2]}` | `{next(values)}` |", page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
