"""Printed forms of expressions: `printed.txt` has inputs, each with its printed forms below it.

    python -m pytest tests/test_printed.py --update

writes the file anew. It is read as a session of Python's. A section starts with a line ``# heading`` and the names of
the lines before the first one; ``show`` has the forms that are printed of each of its inputs.
"""

from __future__ import annotations

import ast
import doctest
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import sympy

import sympy_tensordiff as td

FILE = Path(__file__).with_name("printed.txt")


def pretty(value: Any, **settings: Any) -> str:
    """The two-dimensional form, without blanks at the ends of lines."""
    lines = sympy.pretty(value, **{"use_unicode": True, **settings}).splitlines()
    return "\n".join(line.rstrip() or "<BLANKLINE>" for line in lines)


def in_ascii(value: Any) -> str:
    return pretty(value, use_unicode=False)


FORMS = {"text": str, "latex": sympy.latex, "pretty": pretty, "in_ascii": in_ascii}


@dataclass(frozen=True)
class Entry:
    """An input: what the file says of it, its value, the forms (a statement has none), and the names that it uses."""

    section: str
    source: str
    before: str
    value: Any
    forms: tuple[Any, ...]
    names: dict[str, Any]

    @cached_property
    def now(self) -> str:
        """Return the printed forms of now: most tests need the value only, which takes a third of the time."""
        return "".join(f"{form(self.value)}\n" for form in self.forms)

    def __str__(self) -> str:
        first, *rest = self.source.splitlines()
        return "\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in rest), self.now])


def read(text: str, names: dict[str, Any]) -> list[str | Entry]:
    """The inputs of a section, and the lines between them; the section's own names are added to the names."""
    found: list[str | Entry] = []
    heading = text.partition("\n")[0]
    for piece in doctest.DocTestParser().parse(text):
        if isinstance(piece, str):
            found.append(piece)
            continue
        try:
            value, forms = evaluated(piece.source, names)
        except Exception as error:
            raise AssertionError(f"{FILE.name}, {heading}: {piece.source}{type(error).__name__}: {error}") from error
        found.append(Entry(heading, piece.source, piece.want, value, forms, names))
    return found


def evaluated(source: str, names: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The value of an input, and the forms that are printed of it: none of a statement."""
    if not isinstance(ast.parse(source).body[0], ast.Expr):
        exec(source, names)
        return None, ()
    return eval(source, names), names["show"]


@cache
def sections() -> dict[str, str]:
    """The text of each section by its heading; the names that all have come first."""
    parts = re.split(r"^# ", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part for part in parts}


@cache
def common() -> dict[str, Any]:
    names = dict(FORMS)
    read(next(iter(sections().values())), names)
    return names


@cache
def pieces(heading: str) -> list[str | Entry]:
    return read(sections()[heading], dict(common()))


def entries(*headings: str) -> list[Entry]:
    """The inputs with a value, of some sections or of all."""
    found = (piece for heading in headings or sections() for piece in pieces(heading))
    return [piece for piece in found if isinstance(piece, Entry) and piece.forms]


def differences(pieces: list[str | Entry]) -> str:
    """Input, old and new text of each that differs."""
    changed = [piece for piece in pieces if isinstance(piece, Entry) and piece.before != piece.now]
    return "".join(f"# {e.section}\n>>> {e.source}was:\n{e.before}is:\n{e.now}\n" for e in changed)


def test_all_is_printed_as_the_file_says(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update"):
        FILE.write_text("# ".join("".join(map(str, pieces(heading))) for heading in sections()), encoding="utf-8")
    elif different := "".join(differences(pieces(heading)) for heading in sections()):
        pytest.fail(f"{different}\n(pytest tests/test_printed.py --update writes {FILE.name} anew)", pytrace=False)


def test_a_difference_has_input_old_and_new_text() -> None:
    text = "Numbers\n>>> show = text, in_ascii\n>>> 1 + 1\n3\n2\n\n>>> (2 +\n...  3)\n"
    assert differences(read(text, dict(FORMS))) == (
        "# Numbers\n>>> 1 + 1\nwas:\n3\n2\nis:\n2\n2\n\n# Numbers\n>>> (2 +\n 3)\nwas:\nis:\n5\n5\n\n"
    )
    again = "".join(map(str, read(text, dict(FORMS))))
    assert again == "Numbers\n>>> show = text, in_ascii\n>>> 1 + 1\n2\n2\n\n>>> (2 +\n...  3)\n5\n5\n"
    assert differences(read(again, dict(FORMS))) == ""
    with pytest.raises(AssertionError, match=r"printed.txt, Numbers: 1 / 0\nZeroDivisionError"):
        read("Numbers\n>>> 1 / 0\n", {})


def test_texts_can_be_typed_in_again() -> None:
    for entry in entries("Entries, sums and comprehensions"):
        if not entry.value.has(sympy.Idx, entry.names["lam"]):
            # Entries of small comprehensions are printed as their bodies.
            table = getattr(entry.value, "tensor", None)
            written = entry.value.doit() if isinstance(table, td.TensorComprehension) else entry.value
            assert eval(str(entry.value), dict(entry.names)) in (entry.value, written), entry.source


def plain() -> list[Entry]:
    """The inputs that are printed as they are, not what a function makes of them."""
    forms = {*FORMS.values(), sympy.srepr}
    return [entry for entry in entries() if {*entry.forms} <= forms and isinstance(entry.value, sympy.Basic)]


PAIR = {"ExprCondPair": sympy.functions.elementary.piecewise.ExprCondPair}  # srepr has it, SymPy's namespace has not


def test_srepr_gives_the_object_back() -> None:
    for entry in plain():
        assert eval(sympy.srepr(entry.value), {**vars(sympy), **vars(td), **PAIR}) == entry.value, entry.source


def test_notebooks_show_formulas() -> None:
    for entry in plain():
        if hasattr(entry.value, "_repr_latex_"):
            shown = entry.value._repr_latex_()
            whole = rf"$\displaystyle {sympy.latex(entry.value)}$"
            assert shown == whole or len(shown) < len(whole), entry.source


@pytest.mark.in_turns(8)
def test_formulas_can_be_typeset() -> None:
    """Every command and bracket is one that a typesetter knows; Matplotlib knows no environments."""
    parser = pytest.importorskip("matplotlib.mathtext").MathTextParser("path")
    for entry in entries("Whole tensors: products of matrices where they are, else index notation"):
        formula = sympy.latex(entry.value)
        if sympy.latex in entry.forms and r"\begin{" not in formula:
            assert parser.parse(f"${formula}$").width > 0, entry.source


def test_formulas_are_mathml() -> None:
    """The formulas of the page and the documentation: the converter knows every command, the markup is complete."""
    pytest.importorskip("math_core")
    from sympy_tensordiff.app.web.typesetting import to_mathml

    for entry in plain():
        element = ElementTree.fromstring(to_mathml(sympy.latex(entry.value)).replace("&ApplyFunction;", ""))
        assert element.tag == "math", entry.source
        assert not any("\\" in (part.text or "") for part in element.iter()), entry.source


@pytest.mark.in_turns(4)
def test_no_printer_fails() -> None:
    for entry in plain():
        assert repr(entry.value) == str(entry.value)
        for printer in (pretty, in_ascii, sympy.dotprint):
            assert printer(entry.value), entry.source


def shown_results() -> str:
    i, j, k, m = td.indices("i j k m")
    x = td.TensorSymbol("x", m)
    total = td.IndexedSum(x[i] * x[j] * x[k], (i, 0, j), (j, 0, m - 1))
    parts = (total.subs(k, i), total.subs(k, j + i), td.TensorComprehension(total, (k, m))[i + j].doit())
    return "; ".join(map(str, parts))


def test_text_does_not_depend_on_the_process(elsewhere: Any) -> None:
    """Same input, same text, under another hash seed."""
    assert elsewhere(shown_results) == shown_results()
    assert shown_results().startswith("IndexedSum(x[i]*x[i_1]*x[j], (i_1, 0, j), (j, 0, m - 1))")
