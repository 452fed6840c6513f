"""The notation of recurrences in texts: where times are, what is between lines, how formulas collect the steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class RecurrenceReader(Protocol):
    """The methods that a parser offers to the code that reads the lines after "where" in a text with a recurrence (a
    `typing.Protocol`).
    """

    notation: Notation
    tensors: dict[str, Any]

    def error(self, message: str, part: str = "") -> Exception:
        """Return (do not raise) the error with this `message` at `part` of the text."""

    def size(self, text: str) -> Any:
        """Return the size that `text` states, such as ``n + 1``."""

    def name_for(self, expr: Any) -> str:
        """Return a new name for the expression `expr`. A text in which the caller writes this name is then parsed with
        `expr` in its place.
        """

    def is_declared(self, name: str) -> bool:
        """Return whether `name` is that of a declared tensor."""

    def expression(self, text: str, left: str | None = None, letter: str = "") -> Any:
        """Return the expression that `text` stands for. In index notation, ``left`` has the indices of the entry that
        the text defines, which the text may use; ``letter`` is the name of the time variable, such as ``t``.
        """


class Notation(NamedTuple):
    """The notation of recurrences in one language, as regular expressions: the word "where", a name, the brackets
    behind it with a time and indices, and the separator of lines.
    """

    where: str
    base: str
    at: str
    separator: str
    is_latex: bool = False
    has_left_sides: bool = False


_BRACKETS = Notation(
    r"\bwhere\b(?!\s*\()", r"(?<![\w.])[A-Za-z]\w*", r"\[\s*(?P<time>[^\[\],]+?)\s*(?:,(?P<rest>[^\[\]]*))?\]", r"[,;]"
)
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_COMMANDS = r"\\(?!left|right|sum|frac|text|begin|end|quad|log|exp|tanh|top|odot|cdot)[A-Za-z]+"
NOTATIONS: Mapping[str, Notation] = {
    "matrix": _BRACKETS,
    "index": _BRACKETS._replace(has_left_sides=True),
    "latex": Notation(
        r"\\text\s*\{\s*where\s*\}",
        rf"(?:(?:\\mathrm\{{d\}})?(?:\\mathrm\{{\w+\}}|{_COMMANDS}|(?<![A-Za-z\\])[A-Za-z])|{_BRACES})",
        r"_(?:\{\s*(?P<time>[^{},]+?)\s*\}|(?P<short>[a-z]))(?P<rest>(?!))?",
        r",|\\\\",
        is_latex=True,
    ),
}


HEADS = {
    "stack": r"\\left\[(?P<body>.*)\\right\]_\{(?P<letter>[^{}<]*)<(?P<end>[^{}]*)\}",
    "sum": r"\\sum_\{(?P<letter>[^{}=]*)=\s*0\s*\}\^\{(?P<end>[^{}]*)\}(?P<body>.*)",
    "last": r"\\left\.(?P<body>.*)\\right\|_\{(?P<letter>[^{}=]*)=(?P<end>[^{}]*)\}",
}
"""How LaTeX writes all values of the steps, their sum, and the last one."""


def plain_name(name: str) -> str:
    """Return the plain form of a LaTeX name, without braces, spaces and ``mathrm``: ``h_0`` for ``h_{0}``, and ``dh``
    for an upright d before h.
    """
    return re.sub(r"\\(mathrm|left|right)|[\\{}() ]", "", name)


def inside_of(text: str) -> str:
    """Return `text`, in LaTeX, without the braces or parentheses around it."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return inside_of(text[1:-1])
    return text.removeprefix(r"\left(").removesuffix(r"\right)") if text.startswith(r"\left(") else text


def with_braced_rows(text: str, letter: str) -> str:
    r"""Return LaTeX `text` with ``\left(...\right)_{t}`` replaced by ``{...}_{t}``, where ``t`` is the time index
    `letter`. The subscript then belongs to the whole expression.
    """
    ending = re.compile(rf"\\right\)\s*(?=_(\{{\s*{letter}\s*\}}|{letter}(?![A-Za-z])))")
    position = 0
    while found := ending.search(text, position):
        start, _ = group_around(text, found.start(), True)
        inside = text[start : found.start()]
        text = f"{text[: start - len(chr(92) + 'left(')]}{{{inside}}}{text[found.end() :]}"
        position = start
    return text


def split_lines(text: str, separator: str) -> list[str]:
    """Return the parts of `text` between separators; separators inside of parentheses, brackets or braces do
    not count.
    """
    parts, depth, start = [], 0, 0
    for found in re.finditer(rf"\\[{{}},;:! ]|[()\[\]{{}}]|{separator}", text):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
        elif depth == 0 and re.fullmatch(separator, found[0]):
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]


def group_around(text: str, middle: int, is_latex: bool) -> tuple[int, int]:
    r"""Return the start and end of the text inside the parentheses around the position `middle`; of the whole text if
    there are none. With `is_latex`, parentheses are ``\left(`` and ``\right)``.
    """
    pairs = (r"\left(", r"\right)") if is_latex else ("(", ")")
    start = stop = None
    depth = 0
    for found in reversed([*re.finditer("|".join(map(re.escape, pairs)), text[:middle])]):
        depth += 1 if found[0] == pairs[1] else -1
        if depth < 0:
            start = found.end()
            break
    depth = 0
    for found in re.finditer("|".join(map(re.escape, pairs)), text[middle:]):
        depth += 1 if found[0] == pairs[0] else -1
        if depth < 0:
            stop = middle + found.start()
            break
    return start or 0, len(text) if stop is None else stop
