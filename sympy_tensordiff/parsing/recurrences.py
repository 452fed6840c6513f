r"""Recurrences in texts: a formula, the word "where", and lines such as ``h[t] = tanh(W@h[t-1] + x[t]), h[-1] = h0``.

The formula and the right sides are texts of a language without recurrences: states and rows at a time, ``h[t-1]`` or
``h_{t-1}``, are read as tensors with names of our own, in whose places the variables of a scan are put.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from sympy import Symbol, sympify

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.graph.scans import needed_states
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.einsum import FilledTensor
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.operations import shape_of
from sympy_tensordiff.symbolic.scans import Scan, ScanVariable, State, Time, fresh_name
from sympy_tensordiff.symbolic.tensors import TensorSymbol
from sympy_tensordiff.symbolic.traversal import free_symbols_in

Read = Callable[[str], ParsedExpression]


class Notation(NamedTuple):
    """The notation of recurrences in a language: patterns for the word "where", for a name, for a time and other
    indices behind it, and for what is between lines; ``is_latex`` for LaTeX, ``has_left_sides`` for index notation.
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


def read_recurrences(language: str, read: Read, text: str) -> ParsedExpression:
    """Return the parsed text of a language whose function `read` reads texts without recurrences."""
    notation = NOTATIONS[language]
    found = re.search(notation.where, text) if isinstance(text, str) else None
    if found is None or not re.search(rf"{notation.base}\s*{notation.at}\s*&?\s*=", text[found.end() :]):
        return read(text)
    return _Text(text, notation, read).result()


class _Text:
    """One text with recurrences; ``tensors`` has the declared tensors, ``places`` the expressions behind our names."""

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
        """Return the size that a text says."""
        names = {name: indices(name) for name in re.findall(r"[A-Za-z]\w*", text)}
        try:
            return sympify(text, locals=names) if re.fullmatch(r"[\w\s+*-]+", text) else int(text)
        except (ValueError, SyntaxError, TypeError):
            raise self.error(f"{text.strip()} is not a size: it consists of names and integers", text) from None

    def is_declared(self, name: str) -> bool:
        """Return whether a name, as LaTeX writes it, is that of a declared tensor: ``h_{0}`` is h_0 or h0."""
        plain = _plain(name)
        return plain in self.tensors or plain.replace("_", "") in self.tensors

    def error(self, message: str, part: str = "") -> ParseError:
        """Return (not raise) the error at a part of the text."""
        return ParseError(message, self.text, max(0, self.text.find(part)))

    def result(self) -> ParsedExpression:
        """Return the parsed text."""
        expression = self.expression(self.formula)
        names = re.findall(r"wrt\s+\\?(\w+)", self.arguments)
        for name in names:
            if name not in self.tensors:
                raise self.error(f"{name} is not declared; declared are {', '.join(self.tensors)}", f"wrt {name}")
        return ParsedExpression(self.tensors, expression, tuple(self.tensors[name] for name in names))

    def expression(self, text: str, left: str | None = None, letter: str = "") -> Any:
        """Return the expression of a text, which may contain recurrences in parentheses; ``left`` has the indices on the
        left side in index notation, ``letter`` is the name of a time that the text may read.
        """
        while found := re.search(self.notation.where, text):
            start, stop = self.group(text, found.start())
            lines = _Lines(self, text[found.end() : stop])
            head, left_side = text[start : found.start()].strip(), ""
            if self.notation.has_left_sides:
                left_side, _, head = head.partition("=")
            value = lines.value(head)
            if left_side.strip():
                return self.read(f"{left_side}= {head}", None, lines.wholes())
            text = f"{text[:start]} {self.place(value)} {text[stop:]}"
        return self.read(text, left, letter=letter)

    def group(self, text: str, middle: int) -> tuple[int, int]:
        """Return the ends of the inside of the parentheses around a place; those of the text without parentheses."""
        pairs = (r"\left(", r"\right)") if self.notation.is_latex else ("(", ")")
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

    def place(self, expr: Any) -> str:
        """Return a text that is read as an expression."""
        known = next((name for name, value in self.places.items() if value is expr), None)
        letters = "".join("abcdefghij"[int(digit)] for digit in str(len(self.places)))
        name = known or f"place{letters}"
        self.places[name] = expr
        return rf"\mathrm{{{name}}}" if self.notation.is_latex else name

    def read(
        self, text: str, left: str | None = None, wholes: Mapping[str, Any] | None = None, letter: str = ""
    ) -> Any:
        """Return the expression of a text without recurrences; ``wholes`` has tensors that it reads by their names."""
        known = {**self.tensors, **self.places, **(wholes or {})}
        alone = re.sub(r"\\mathrm|[\\{}() ]|left|right", "", text)
        if not left and alone in known:
            return known[alone]
        used = {name: expr for name, expr in known.items() if re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", text)}
        own = [f"{name}{_shape_text(expr)}" for name, expr in used.items() if name not in self.tensors]
        declared = [one for one in self.declared if one.split("[")[0].strip() not in (wholes or {})]
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
    """Return the shape of an expression as in a declaration; "" for a scalar."""
    shape = shape_of(expr)
    return f"[{', '.join(map(str, shape))}]" if shape else ""


class _Line(NamedTuple):
    """A line: the name on its left side, the time, the other indices, and the right side, all as text."""

    name: str
    time: str
    rest: str
    right: str


class _Lines:
    """The lines after one "where": ``steps`` has the line at the time ``t`` of each name, ``starts`` that of its first
    state, at the time -1, or ``T`` backwards in time.
    """

    def __init__(self, text: _Text, lines: str) -> None:
        self.whole_text, self.notation = text, text.notation
        self.steps: dict[str, _Line] = {}
        self.starts: dict[str, _Line] = {}
        self.constants: dict[str, str] = {}
        for part in _split(lines, self.notation.separator):
            line = self.line(part)
            if line is None:
                continue
            if not line.time:
                self.constants[line.name] = line.right
            else:
                is_step = re.fullmatch(r"[a-z](_\d+)?", line.time)
                (self.steps if is_step else self.starts)[line.name] = line
        if not self.steps:
            raise text.error("no line after where has a time on its left side, as in h[t] = …")
        self.letter = next(iter(self.steps.values())).time
        for line in self.starts.values():
            if line.name not in self.steps:
                raise text.error(f"{line.name} has a first value and no step: write it at the time {self.letter}")
        self.time = Time(fresh_name(self.letter))
        self.below, self.depends = self.names_below(False), self.names_below(True)
        self.head_lengths: list[Any] = []  # the numbers of steps that the formula before "where" says
        self.active: set[str] = set()  # the names whose recurrences are being read
        self.stacks: dict[tuple[str, bool], Any] = {}
        self.done: dict[str, tuple[Any, ...]] = {}  # the recurrence of each name: values, states, rows, length

    def line(self, part: str) -> _Line | None:
        """Return a line; None if it is empty."""
        if self.notation.is_latex:
            part = re.sub(r"\\[;,:! ]|\\(begin|end)\{aligned\}|&", " ", part)
        if not part.strip():
            return None
        left = re.match(rf"\s*(?P<name>{self.notation.base})\s*(?:{self.notation.at})?\s*=(?!=)", part)
        if left is None:
            raise self.whole_text.error(
                f"{part.strip()[:60]} is not a line of a recurrence, such as h[t] = … or h[-1] = …", part.strip()[:20]
            )
        time = left["time"] or (left["short"] if self.notation.is_latex else None) or ""
        return _Line(left["name"], time.replace(" ", ""), (left["rest"] or "").strip(), part[left.end() :])

    # ------------------------------------------------------------------------ dependence

    def reads(self, text: str) -> list[tuple[str, str]]:
        """Return the names that a text reads at a time, with the times; names without a time have the time ""."""
        found = re.finditer(rf"({self.notation.base})(?:\s*{self.notation.at})?", text)
        return [(m[1], (m["time"] or (m["short"] if self.notation.is_latex else "") or "").replace(" ", "")) for m in found]

    def names_below(self, with_starts: bool) -> dict[str, set[str]]:
        """Return the names that the step of each name needs, also through others, ``with_starts`` through first values,
        too.
        """
        texts = {one: [line.right for line in (self.steps[one], self.starts.get(one)) if line] for one in self.steps}
        own = {one: texts[one] if with_starts else texts[one][:1] for one in texts}
        needs = {one: {other for text in own[one] for other, _ in self.reads(text) if other in self.steps} for one in own}
        found = {}
        for one in needs:
            below: set[str] = set()
            stack = [*needs[one]]
            while stack:
                if (other := stack.pop()) not in below:
                    below.add(other)
                    stack += needs[other]
            found[one] = below
        return found

    def component(self, name: str) -> list[str]:
        """Return the states whose steps need each other and that of `name`, and `name`, in the order of the lines."""
        both = [one for one in self.starts if name in self.below[one] and one in self.below[name]]
        return [one for one in self.steps if one == name or one in both]

    # ------------------------------------------------------------------------ scans

    def recurrence(self, name: str) -> tuple[Any, ...]:
        """Return the recurrence of a name: values and states by names, rows, the length, whether it is reversed."""
        if name in self.done:
            return self.done[name]
        names = self.component(name)
        self.active.update(names)
        states = [one for one in names if one in self.starts]
        backwards = {self.starts[one].time != "-1" for one in states}
        if len(backwards) > 1:
            raise self.whole_text.error(f"{' and '.join(states)} need each other, and run in different directions")
        is_reversed = backwards == {True}
        length = [self.whole_text.size(self.starts[one].time) for one in states if is_reversed]
        length += [self.whole_text.tensors[one].shape[0] for one in names if one in self.whole_text.tensors]
        starts = {one: self.start(one) for one in states}
        candidates = self.shapes(starts)
        for shapes in candidates:
            initial = {
                one: value if shapes[one] == shape_of(value) else FilledTensor(value, shapes[one])
                for one, value in starts.items()
            }
            variables = {one: ScanVariable(fresh_name(_plain(one)), shape) for one, shape in shapes.items()}
            own: dict[str, tuple[Any, Any]] = {}
            try:
                values = self.values(names, variables, own, is_reversed)
            except ParseError:
                if len(candidates) == 1:
                    raise
                continue
            zeros = {one: FilledTensor(values[one], shape) for one, shape in shapes.items() if shape and values[one].is_number}
            values |= zeros
            if all(shape_of(values[one]) == shape for one, shape in shapes.items()):
                break
        else:
            raise self.whole_text.error(
                f"the shapes of {', '.join(states)} do not fit: write the first values with their shapes, or declare the "
                "states, as in declare h[T, n]", self.steps[states[0]].right.strip()[:20]
            )  # fmt: skip
        found = values, variables, initial, own, length, is_reversed
        self.done.update(dict.fromkeys(names, found))
        self.active.difference_update(names)
        return found

    def values(
        self, names: list[str], variables: Mapping[str, Any], rows: dict[str, tuple[Any, Any]], is_reversed: bool
    ) -> dict[str, Any]:
        """Return the values of names that need each other, in terms of the states before the step and of rows."""
        values: dict[str, Any] = {}
        for name in names:
            self.value_now(name, variables, values, rows, is_reversed)
        return values

    def value_now(
        self, name: str, variables: Mapping[str, Any], values: dict[str, Any],
        rows: dict[str, tuple[Any, Any]], is_reversed: bool,
    ) -> Any:  # fmt: skip
        """Return the value of a name at the time, and store it in ``values``."""
        if name not in values:
            values[name] = None
            values[name] = self.timed(self.steps[name].right, self.steps[name].rest, variables, values, rows, is_reversed)
        if values[name] is None:
            raise self.whole_text.error(f"{name} needs itself at the same time {self.letter}", name)
        return values[name]

    def start(self, name: str) -> Any:
        """Return the first value of a state; a number may stand for a tensor."""
        line = self.starts[name]
        if found := re.fullmatch(r"\s*\\mathbf\{0\}(?:_\{(.*)\})?\s*", line.right):
            shape = [self.whole_text.size(part) for part in re.split(r"\\times", found[1])] if found[1] else []
            return FilledTensor(0, shape) if shape else sympify(0)
        return sympify(0) if re.fullmatch(r"\s*0\s*", line.right) else self.plain(line.right, line.rest)

    def shapes(self, starts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the shapes that states may have: those of their first values, where a number may stand for a tensor
        as declared, as what the state is a derivative by, or else of any shape that occurs.
        """
        tensors = self.whole_text.tensors
        certain = {one: shape_of(value) for one, value in starts.items() if shape_of(value) or not value.is_number}
        certain |= {one: tensors[one].shape[1:] for one in starts if one in tensors and one not in certain}
        open_ones = [one for one in starts if one not in certain]
        if not open_ones:
            return [certain]
        guesses: list[dict[str, Any]] = [{}]
        for one in open_ones:
            other = next((name for name in self.steps if _plain(one) == f"d{_plain(name)}" and name not in self.active), None)
            if other is not None:
                guesses[0][one] = shape_of(self.stacked(other))[1:]
        every = [tensor.shape for tensor in tensors.values()]
        sizes = dict.fromkeys(extent for shape in every for extent in shape)
        trials = dict.fromkeys([(), *((size,) for size in sizes), *map(tuple, every), *(tuple(s[1:]) for s in every)])
        guesses += [dict.fromkeys(open_ones, shape) for shape in trials]
        return [{**certain, **guess} for guess in guesses if len(guess) == len(open_ones)]

    def timed(
        self, text: str, rest: str, variables: Mapping[str, Any], values: dict[str, Any],
        rows: dict[str, tuple[Any, Any]], is_reversed: bool,
    ) -> Any:  # fmt: skip
        """Return the expression of a step, in which states are ``variables``, and other names at the time are rows."""
        before = f"{self.letter}{'+' if is_reversed else '-'}1"

        def row(key: str, sequence: Any) -> Any:
            """Return the variable for the row of a sequence, which the text calls `key`."""
            if key not in rows:
                name = _plain(key.rpartition("@")[0])
                name = name if name.isidentifier() else "r"
                rows[key] = ScanVariable(fresh_name(name), shape_of(sequence)[1:]), sequence
            return rows[key][0]

        def replaced(match: re.Match[str]) -> str:
            """Return the text for what is read at a time."""
            name, time = match["base"], (match["time"] or (match["short"] if self.notation.is_latex else "")).replace(" ", "")
            rest = f"[{match['rest'].strip()}]" if match["rest"] else ""
            declared = self.whole_text.tensors.get(_plain(name))
            if time == before and name in variables:
                found = variables[name]
            elif time == self.letter and name in self.steps and (name in variables or name not in self.starts):
                found = self.value_now(name, variables, values, rows, is_reversed)
            elif name in self.steps and re.match(rf"{self.letter}(?![A-Za-z])", time):
                if name not in self.starts and time != self.letter:
                    raise self.whole_text.error(
                        f"{name} is read at {time}, and has no first value: add a line such as {self.first(name)}", match[0]
                    )
                if name in variables or (time != self.letter and time != self.before(name)):
                    raise self.whole_text.error(
                        f"{name} is read at {time}: a step reads states at {before}, and others at {self.letter}; for "
                        f"older states, add a state that stores {name}", match[0]
                    )  # fmt: skip
                found = row(f"{name}@{time}", self.stacked(name, time != self.letter))
            elif time == self.letter and name not in self.steps:
                sequence = declared if declared is not None else self.plain(_inside(name))
                found = row(f"{name}@", sequence)
            else:
                return match[0]
            return self.whole_text.place(found) + rest

        text = re.sub(r"^\s*\\mathbf\{0\}(_\{[^{}]*\})?\s*$", "0", text)
        text = _group_rows(text, self.letter, self.whole_text) if self.notation.is_latex else text
        text = re.sub(rf"(?P<base>{self.notation.base})\s*{self.notation.at}", replaced, text)
        value = self.plain(text, rest, self.letter)
        return value.xreplace({indices(self.letter): self.time, Symbol(self.letter, integer=True): self.time})

    def first(self, name: str) -> str:
        """Return an example of a line with the first value of a state."""
        return f"{name}_{{-1}} = h_0" if self.notation.is_latex else f"{name}[-1] = h0"

    def before(self, name: str) -> str:
        """Return the time before a step of a state; "" for other names."""
        return "" if name not in self.starts else f"{self.letter}{'-' if self.starts[name].time == '-1' else '+'}1"

    def plain(self, text: str, rest: str | None = None, letter: str = "") -> Any:
        """Return the expression of a text at no time, in which states are stacked, and last states have their time."""

        def replaced(match: re.Match[str]) -> str:
            """Return the text for a stacked or a last state."""
            name, time = match["base"], (match["time"] or (match["short"] if self.notation.is_latex else "") or "")
            if name in self.constants and not time:
                return self.whole_text.place(self.plain(self.constants[name]))
            if name not in self.steps or match["rest"] or self.whole_text.is_declared(match[0]):
                return match[0]
            if name in self.active:
                raise self.whole_text.error(f"{name} needs itself at other times than the one before", match[0])
            if not time:
                return self.whole_text.place(self.stacked(name))
            length, is_reversed = self.length(name), self.recurrence(name)[5]
            at = self.whole_text.size(time)
            if at - (0 if is_reversed else length - 1) != 0:
                return match[0]
            return self.whole_text.place(self.scan("last", name, self.recurrence(name)[0][name]))

        names = sorted(map(re.escape, [*self.steps, *self.constants]), key=len, reverse=True)
        guard = r"(?<![A-Za-z\\{])(?<!\\mathrm\{d\})" if self.notation.is_latex else r"(?<![\w.])"
        end = r"(?![A-Za-z}])" if self.notation.is_latex else r"(?!\w)"
        text = re.sub(rf"{guard}(?P<base>{'|'.join(names)}){end}(?:\s*{self.notation.at})?", replaced, text)
        return self.whole_text.expression(text, rest, letter)

    def length(self, name: str) -> Any:
        """Return the number of steps of the recurrence of a name."""
        _, _, _, rows, known, _ = self.recurrence(name)
        known = [*known, *(shape_of(sequence)[0] for _, sequence in rows.values()), *self.head_lengths]
        known += [self.whole_text.size(line.time) for line in self.starts.values() if line.time != "-1"]
        if not known:
            raise self.whole_text.error(f"the number of steps of {name} is not clear: declare it, as in declare h[T, n]")
        return known[0]

    def scan(self, kind: str, name: str, value: Any, more: Mapping[str, tuple[Any, Any]] | None = None) -> Any:
        """Return a scan over the recurrence of a name with this value; ``more`` are further rows."""
        values, variables, initial, rows, _, is_reversed = self.recurrence(name)
        needed = needed_states([(variables[one], values[one]) for one in variables], [value])
        states = [State(variables[one], initial[one], values[one]) for one in variables if variables[one] in needed]
        free = free_symbols_in([value, *(state.update for state in states)])
        used = [pair for pair in {**rows, **(more or {})}.values() if pair[0] in free]
        if not states and kind == "stack" and value in [variable for variable, _ in used]:
            return dict(used)[value]
        return Scan(kind, value, states, used, self.time, self.length(name), is_reversed)

    def stacked(self, name: str, is_before: bool = False) -> Any:
        """Return the values of a name at all times, or the states before them."""
        key = name, is_before
        if key not in self.stacks:
            self.stacks[key] = self._stacked(name, is_before)
        return self.stacks[key]

    def _stacked(self, name: str, is_before: bool) -> Any:
        """Return what `stacked` returns, made anew."""
        if name not in self.starts:
            return self.value_of_step("stack", self.steps[name].right, self.steps[name].rest)
        values, variables, *_ = self.recurrence(name)
        return self.scan("stack", name, variables[name] if is_before else values[name])

    def wholes(self) -> dict[str, Any]:
        """Return the stacked values of all names."""
        return {name: self.stacked(name) for name in self.steps}

    # ------------------------------------------------------------------------ the formula before the lines

    def value(self, head: str) -> Any:
        """Return the expression of the formula before "where"."""
        if self.notation.has_left_sides:
            return None
        head = re.sub(r"\\[;,:! ]", " ", head).strip() if self.notation.is_latex else head
        for kind, pattern in _HEADS.items() if self.notation.is_latex else ():
            found = re.fullmatch(pattern, head, re.DOTALL)
            if found is None or found["letter"].strip() != self.letter:
                continue
            end = self.whole_text.size(found["end"])
            self.head_lengths = [] if end == 0 else [end if kind == "stack" else end + 1]
            return self.value_of_step(kind, found["body"])
        return self.plain(head)

    def value_of_step(self, kind: str, body: str, rest: str = "") -> Any:
        """Return the stacked, last or summed values of a formula at the time: values of the recurrence that needs most
        others, if it reads any.
        """
        read = [name for name in self.states_in(body) if name in self.starts]
        if not read:
            rows: dict[str, tuple[Any, Any]] = {}
            value = self.timed(body, rest, {}, {}, rows, False)
            if kind == "stack" and value in (sequences := dict(rows.values())):
                return sequences[value]
            lengths = [*(shape_of(sequence)[0] for _, sequence in rows.values()), *self.head_lengths]
            if not lengths:
                raise self.whole_text.error("the number of steps is not clear: no line reads a declared row", body.strip())
            return Scan(kind, value, [], list(rows.values()), self.time, lengths[0], False)
        main = max(read, key=lambda name: len(self.depends[name]))
        values, variables, _, known, _, is_reversed = self.recurrence(main)
        more = dict(known)
        value = self.timed(body, rest, variables, dict(values), more, is_reversed)
        return self.scan(kind, main, value, more)

    def states_in(self, body: str) -> list[str]:
        """Return the names that a text reads at a time, also through lines without first values."""
        found: dict[str, None] = {}
        texts = [body]
        while texts:
            for name, time in self.reads(texts.pop()):
                if time and name in self.steps and name not in found:
                    found[name] = None
                    texts += [] if name in self.starts else [self.steps[name].right]
        return [*found]


_HEADS = {
    "stack": r"\\left\[(?P<body>.*)\\right\]_\{(?P<letter>[^{}<]*)<(?P<end>[^{}]*)\}",
    "sum": r"\\sum_\{(?P<letter>[^{}=]*)=\s*0\s*\}\^\{(?P<end>[^{}]*)\}(?P<body>.*)",
    "last": r"\\left\.(?P<body>.*)\\right\|_\{(?P<letter>[^{}=]*)=(?P<end>[^{}]*)\}",
}
"""How LaTeX writes all values of the steps, their sum, and the last one."""


def _plain(name: str) -> str:
    """Return a name as it is in an expression: ``h_0`` for ``h_{0}``, ``dh`` for an upright d before h."""
    return re.sub(r"\\(mathrm|left|right)|[\\{}() ]", "", name)


def _inside(text: str) -> str:
    """Return a text in LaTeX without the braces and parentheses around it."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        return _inside(text[1:-1])
    return text.removeprefix(r"\left(").removesuffix(r"\right)") if text.startswith(r"\left(") else text


def _group_rows(text: str, letter: str, whole: _Text) -> str:
    r"""Return a text in LaTeX with braces in place of the parentheses of ``\left(…\right)_{t}``."""
    ending = re.compile(rf"\\right\)\s*(?=_(\{{\s*{letter}\s*\}}|{letter}(?![A-Za-z])))")
    position = 0
    while found := ending.search(text, position):
        start, _ = whole.group(text, found.start())
        inside = text[start : found.start()]
        text = f"{text[: start - len(chr(92) + 'left(')]}{{{inside}}}{text[found.end() :]}"
        position = start
    return text


def _split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that are in no parentheses, brackets or braces."""
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


def with_recurrences(languages: Mapping[str, Read]) -> dict[str, Read]:
    """Return the functions that read the languages, also with recurrences where these have a notation for them."""
    return {
        name: partial(read_recurrences, name, read) if name in NOTATIONS else read for name, read in languages.items()
    }
