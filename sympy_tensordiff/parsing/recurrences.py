r"""Recurrences in texts: a formula, the word "where", and lines such as ``h[t] = tanh(W@h[t-1] + x[t]), h[-1] = h0``.

The formula and the right sides are texts of a language without recurrences: states and rows at a time, ``h[t-1]`` or
``h_{t-1}``, are read as tensors with names of our own, in whose places the variables of a scan are put.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sympy import sympify

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.parsing.recurrence_lines import Lines
from sympy_tensordiff.parsing.recurrence_notation import NOTATIONS, Notation, group_around, plain_name
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of

Read = Callable[[str], ParsedExpression]


def read_recurrences(language: str, read: Read, text: str) -> ParsedExpression:
    """Parse `text`, which may define recurrences after "where". The function `read` parses texts of this `language`
    without recurrences.
    """
    notation = NOTATIONS[language]
    found = re.search(notation.where, text) if isinstance(text, str) else None
    if found is None or not _has_steps(text[found.end() :], notation):
        return read(text)
    return RecurrenceText(text, notation, read).result()


def _has_steps(lines: str, notation: Notation) -> bool:
    """Return whether ``lines`` define a recurrence: one of them gives the value of a name at the time -1, or defines a
    name by its own value at the previous or next time.
    """
    for left in re.finditer(rf"(?P<base>{notation.base})\s*{notation.at}\s*&?\s*=(?!=)", lines):
        time = (left["time"] or (left["short"] if notation.is_latex else "")).replace(" ", "")
        again = rf"{re.escape(left['base'])}\s*(?:_\{{|\[)\s*{re.escape(time)}\s*[+-]\s*\d"
        if time == "-1" or (re.fullmatch(r"[a-z](_\d+)?", time) and re.search(again, lines)):
            return True
    return False


class RecurrenceText:
    """A parsed text with recurrences: a formula, and the lines that define names in it. ``tensors`` maps the names of
    declared tensors to their symbols.

    ``places`` maps the names that replace subexpressions in the text to the parsed subexpressions.
    """

    def __init__(self, text: str, notation: Notation, read: Read) -> None:
        self.text, self.notation, self.reader = text, notation, read
        one = r"(?:int\s+)?\\?[A-Za-z]\w*\s*(?:\[[^\]]*\])?"
        found = re.match(rf"\s*declare\s+({one}(?:\s*,\s*{one})*)", text)
        self.declared = re.findall(one, found[1]) if found else []
        rest = text[found.end() :] if found else text
        end = re.search(r"(?:\s*derivative\s+wrt\s+\\?\w+)+\s*$", rest)
        self.formula, self.arguments = (rest[: end.start()], end[0]) if end else (rest, "")
        self.tensors: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        for entry in self.declared:
            kind, name, extents = re.fullmatch(r"(int\s+)?\\?(\w+)\s*(?:\[(.*)\])?", entry.strip()).groups()  # type: ignore[union-attr]
            shape = [self.size(part) for part in extents.split(",")] if extents else []
            if not (kind and extents is None):
                self.tensors[name] = TensorSymbol(name, shape, dtype=int if kind else float)

    def size(self, text: str) -> Any:
        """Return the size that `text` states, such as ``n + 1``; raise `ParseError` if it is not one."""
        names = {name: indices(name) for name in re.findall(r"[A-Za-z]\w*", text)}
        try:
            return sympify(text, locals=names) if re.fullmatch(r"[\w\s+*-]+", text) else int(text)
        except (ValueError, SyntaxError, TypeError):
            raise self.error(f"{text.strip()} is not a size: it consists of names and integers", text) from None

    def is_declared(self, name: str) -> bool:
        """Return whether a tensor called `name` is declared. `name` is in LaTeX: ``h_{0}`` may be declared as ``h_0``
        or ``h0``.
        """
        plain = plain_name(name)
        return plain in self.tensors or plain.replace("_", "") in self.tensors

    def error(self, message: str, part: str = "") -> ParseError:
        """Return (do not raise) the error with this `message` at `part` of the text."""
        return ParseError(message, self.text, max(0, self.text.find(part)))

    def result(self) -> ParsedExpression:
        """Return the parsed text as a `ParsedExpression`."""
        expression = self.expression(self.formula)
        names = re.findall(r"wrt\s+\\?(\w+)", self.arguments)
        for name in names:
            if name not in self.tensors:
                raise self.error(f"{name} is not declared; declared are {', '.join(self.tensors)}", f"wrt {name}")
        return ParsedExpression(self.tensors, expression, tuple(self.tensors[name] for name in names))

    def expression(self, text: str, left: str | None = None, letter: str = "") -> Any:
        """Parse `text`, which may contain recurrences in parentheses, and return its expression. ``left`` are the
        indices of the entry that the text defines (in index notation), ``letter`` is the name of a time variable in it.
        """
        while found := re.search(self.notation.where, text):
            start, stop = group_around(text, found.start(), self.notation.is_latex)
            lines = Lines(self, text[found.end() : stop])
            head, left_side = text[start : found.start()].strip(), ""
            if self.notation.has_left_sides:
                left_side, _, head = head.partition("=")
            value = lines.value(head)
            if left_side.strip():
                return self.read(f"{left_side}= {head}", None, lines.stacked_values())
            text = f"{text[:start]} {self.name_for(value)} {text[stop:]}"
        return self.read(text, left, letter=letter)

    def name_for(self, expr: Any) -> str:
        """Return a placeholder name for the expression `expr`, the same one each time for the same object. When a text
        that contains the name is parsed, the name stands for this expression.
        """
        known = next((name for name, value in self.places.items() if value is expr), None)
        letters = "".join("abcdefghij"[int(digit)] for digit in str(len(self.places)))
        name = known or f"place{letters}"
        self.places[name] = expr
        return rf"\mathrm{{{name}}}" if self.notation.is_latex else name

    def read(
        self, text: str, left: str | None = None, stacked_values: Mapping[str, Any] | None = None, letter: str = ""
    ) -> Any:
        """Parse `text`, a formula without recurrences, and return its expression. ``left`` are the indices of the entry
        that the formula defines, such as "i" for ``y[i] = ...``.

        ``stacked_values`` maps names defined by recurrences to the tensors of their values at all times; ``letter`` is
        the time variable.
        """
        known = {**self.tensors, **self.places, **(stacked_values or {})}
        alone = re.sub(r"\\mathrm|[\\{}() ]|left|right", "", text)
        if not left and alone in known:
            return known[alone]
        used = {
            name: expr
            for name, expr in known.items()
            if re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", text)
        }
        own = [f"{name}{_shape_text(expr)}" for name, expr in used.items() if name not in self.tensors]
        declared = [one for one in self.declared if one.split("[")[0].strip() not in (stacked_values or {})]
        if letter and re.search(rf"(?<![A-Za-z\\]){letter}(?![A-Za-z])", text):
            own += [f"int {letter}"] * (self.notation.is_latex or self.notation.has_left_sides)
        side = f" value{f'[{left}]' if left else ''} = " if left is not None and self.notation.has_left_sides else " "
        whole = (f"declare {', '.join([*declared, *own])}" if declared or own else "") + side + text
        try:
            parsed = self.reader(whole)
        except ParseError as error:
            raise self.error(f"in {text.strip()[:60]}: {error.message}", text.strip()[:20]) from None
        if strange := [name for name in parsed.tensors if name not in known]:
            raise self.error(
                f"{strange[0]} is not declared: with recurrences, all tensors are declared with their shapes, as in "
                "declare W[n, n], x[T, n]", strange[0]
            )  # fmt: skip
        return parsed.expression.xreplace({t: known[n] for n, t in parsed.tensors.items() if t != known[n]})


def _shape_text(expr: Any) -> str:
    """Return the shape of `expr` as in a declaration, such as ``[n, m]``; "" for a scalar."""
    shape = shape_of(expr)
    return f"[{', '.join(map(str, shape))}]" if shape else ""


def with_recurrences(languages: Mapping[str, Read]) -> dict[str, Read]:
    """Return a copy of ``languages``, a dictionary from the names of languages to their parse functions, in which the
    functions also read recurrences if the language has a notation for them.
    """
    return {
        name: partial(read_recurrences, name, read) if name in NOTATIONS else read for name, read in languages.items()
    }
