"""Common subexpressions of functions of whole arrays: each is computed once, and unused values are not computed.

Operations of a library that runs without a compiler take time for each call and each pass over memory; a library that
traces them takes time for each. All functions are pure, so that equal expressions of unchanged names are equal values.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sympy_tensordiff.codegen.emit.forms import INDENT

_INTEGER_FUNCTIONS = frozenset({"min", "max", "len", "range", "slice", "int", "abs", "sum"})
"""The functions of Python that return no array."""

_OPAQUE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.GeneratorExp, ast.ListComp)
"""Expressions with parts that Python may not evaluate, or evaluates with other variables."""


def with_common_values(lines: Sequence[str], integers: Collection[str], fresh: Callable[[str], str]) -> list[str]:
    r"""Return the `lines` of a function body, indented once, with each array computed once and without assignments of
    unused names. `integers` are the parameters that are not arrays; ``fresh`` makes new names.

    >>> from itertools import count
    >>> names = (f"v{n}" for n in count())
    >>> print(*with_common_values(["    return np.exp(x)/(1 + np.exp(x))"], (), lambda _: next(names)), sep="\n")
        v0 = np.exp(x)
        return v0/(1 + v0)
    """
    (function,) = ast.parse("\n".join(["def function():", *lines])).body
    assert isinstance(function, ast.FunctionDef)
    if any(node.lineno != node.end_lineno for node in ast.walk(function) if isinstance(node, ast.expr)):
        return list(lines)
    sharing = _Sharing(lines, integers, fresh)
    sharing.read_block(function.body, (sharing.top,))
    return without_unused_names(sharing.block_lines(function.body, INDENT))


def without_unused_names(lines: Sequence[str]) -> list[str]:
    """Return `lines` of code without assignments of names that no other line contains.

    >>> without_unused_names(["i = arange(n)", "mask = i != 0", "return x"])
    ['return x']
    """
    found = list(lines)
    while True:
        words = Counter(word for line in found for word in set(re.findall(r"[A-Za-z_]\w*", line)))
        rest = list[str]()
        for line, after in zip(found, [*found[1:], ""], strict=True):
            head = re.match(r"( *)(\w+) = ", line)
            is_alone = bool(rest) and rest[-1].endswith(":") and not after.startswith(head[1] if head else "")
            if head is None or words[head[2]] > 1 or is_alone:
                rest.append(line)
        if len(rest) == len(found):
            return found
        found = rest


@dataclass(eq=False)
class _CommonValue:
    """A value that expressions of a function share: the number of its uses, the ``name`` that has it ("" if there is
    none yet), and the name that a ``later`` assignment in the same block gives to it.
    """

    count: int = 0
    name: str = ""
    later: str = ""


class _Sharing:
    """Eliminates common subexpressions in the text of one function: it finds equal values of expressions, and prints
    the function with each of them computed once and named.
    """

    def __init__(self, lines: Sequence[str], integers: Collection[str], fresh: Callable[[str], str]) -> None:
        self.lines = ["def function():", *lines]
        self.fresh = fresh
        self.integers = {*integers, "BLOCK"}
        self.top: dict[int, _CommonValue] = {}
        self.assigned = Counter(re.findall(r"^\s*(\w+) = ", "\n".join(lines), re.MULTILINE))
        """How often each name is assigned."""
        self.numbers: dict[Any, int] = {}
        """The numbers of expressions: equal numbers are equal values."""
        self.current: dict[str, int] = {}
        """The numbers of the present values of names."""
        self.values: dict[ast.expr, _CommonValue] = {}
        self.replaced: dict[str, str] = {}
        """Names whose values have another name, too, and these."""

    # ------------------------------------------------------------------------ finding equal values

    def read_block(self, body: Sequence[ast.stmt], scopes: tuple[dict[int, _CommonValue], ...]) -> None:
        """Count how often each value occurs in the statements `body`. ``scopes`` are dictionaries of the values
        available there, by their numbers: those of the enclosing blocks and, last, that of `body`, which is filled.
        """
        for statement in body:
            if isinstance(statement, ast.For | ast.If):
                if isinstance(statement, ast.For):
                    self.integers.update(name.id for name in _names(statement.target))
                changed = [name.id for one in ast.walk(statement) for name in _targets(one)]
                self.forget(changed)
                self.read_block(statement.body, (*scopes, {}))
                self.forget(changed)
                self.read_block(statement.orelse, (*scopes, {}))
                self.forget(changed)
            elif isinstance(statement, ast.Assign | ast.Return) and statement.value is not None:
                self.count(statement.value, scopes)
                own = self.values.get(statement.value)
                if own is not None and scopes[-1].get(self.number(statement.value)) is own:
                    own.later = own.later or next(
                        (name.id for name in _targets(statement) if self.assigned[name.id] == 1), ""
                    )
                for name in _targets(statement):
                    if not self.is_array(statement.value):
                        self.integers.add(name.id)
                    self.forget([name.id])
                    if self.assigned[name.id] == 1:
                        self.current[name.id] = self.number(statement.value)

    def forget(self, names: Sequence[str]) -> None:
        """Record that the variables `names` may change here: each gets a new value number, different from that of every
        expression.
        """
        for name in names:
            self.current[name] = self.numbers.setdefault((name, len(self.numbers)), len(self.numbers))

    def number(self, node: ast.AST) -> int:
        """Return the value number of the expression `node`; expressions with equal numbers have equal values."""
        key: Any
        if isinstance(node, ast.Name):
            if node.id in self.current:
                return self.current[node.id]
            key = node.id
        elif isinstance(node, ast.Constant):
            key = type(node.value), repr(node.value)
        elif isinstance(node, _OPAQUE):
            key = id(node)
        else:
            head = node.func if isinstance(node, ast.Call) else node
            own = [getattr(head, name, None) for name in ("id", "attr", "arg")]
            kinds = ast.operator | ast.unaryop | ast.cmpop
            operations = [type(one) for one in ast.iter_child_nodes(node) if isinstance(one, kinds)]
            # The bounds of a slice may be missing.
            parts = [node.lower, node.upper, node.step] if isinstance(node, ast.Slice) else list(_parts(node))
            key = type(node), *own, *operations, *(part and self.number(part) for part in parts)
        return self.numbers.setdefault(key, len(self.numbers))

    def count(self, node: ast.AST, scopes: tuple[dict[int, _CommonValue], ...]) -> None:
        """Count one use of the value of `node` and, unless this value is available in ``scopes`` already, of the values
        of its parts.
        """
        if isinstance(node, _OPAQUE):
            return
        if isinstance(node, ast.expr) and self.is_operation(node):
            number = self.number(node)
            known = next((scope[number] for scope in scopes if number in scope), None)
            value = self.values[node] = scopes[-1].setdefault(number, _CommonValue()) if known is None else known
            value.count += 1
            if known is not None:
                return
        for part in _parts(node):
            self.count(part, scopes)

    def is_operation(self, node: ast.expr) -> bool:
        """Return whether `node` is an operation of the library whose result is an array."""
        return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call | ast.Subscript) and self.is_array(
            node
        )

    def is_array(self, node: ast.AST) -> bool:
        """Return whether the value of `node` is an array, not an integer, a type or a tuple."""
        if isinstance(node, ast.Name):
            return node.id not in self.integers
        if isinstance(node, ast.Constant | ast.Tuple | ast.List):
            return False
        if isinstance(node, ast.Attribute):
            return node.attr == "T"
        if isinstance(node, ast.Call):
            return not (isinstance(node.func, ast.Name) and node.func.id in _INTEGER_FUNCTIONS)
        if isinstance(node, ast.Subscript):
            return self.is_array(node.value)
        return any(self.is_array(part) for part in _parts(node))

    # ------------------------------------------------------------------------ printing

    def block_lines(self, body: Sequence[ast.stmt], indent: str) -> list[str]:
        """Return the lines of the statements `body`, with names for values that occur several times."""
        found = list[str]()
        for statement in body:
            line = self.lines[statement.lineno - 1]
            if isinstance(statement, ast.For | ast.If):
                inner = indent + INDENT
                found += [line, *(self.block_lines(statement.body, inner) or [f"{inner}pass"])]
                if statement.orelse:
                    found += [f"{indent}else:", *(self.block_lines(statement.orelse, inner) or [f"{inner}pass"])]
                continue
            if not isinstance(statement, ast.Assign | ast.Return) or statement.value is None:
                found.append(line)
                continue
            value = self.values.get(statement.value)
            names = [name.id for name in _targets(statement)]
            is_single = len(names) == 1 and self.assigned[names[0]] == 1
            if value is not None and is_single and value.name:
                if value.name != names[0]:
                    self.replaced[names[0]] = value.name
                continue
            before = list[str]()
            text = self.inner_text(statement.value, before)
            if value is not None and value.count > 1 and not value.name:
                if is_single:
                    value.name = names[0]
                else:
                    value.name = self.fresh("w")
                    before.append(f"{value.name} = {text}")
                    text = value.name
            elif value is not None and value.name:
                text = value.name
            found += [indent + one for one in before]
            found.append(line[: statement.value.col_offset] + text + line[statement.value.end_col_offset or 0 :])
        return found

    def text(self, node: ast.AST, before: list[str]) -> str:
        """Return the text of `node`: the name of its value if it occurs several times. Append the assignments of new
        names to ``before``, the lines that come before the statement.
        """
        value = self.values.get(node) if isinstance(node, ast.expr) else None
        if value is None or (value.count < 2 and not value.name):
            return self.inner_text(node, before)
        if not value.name:
            text = self.inner_text(node, before)
            value.name = value.later or self.fresh("w")
            before.append(f"{value.name} = {text}")
        return value.name

    def inner_text(self, node: Any, before: list[str]) -> str:
        """Return the text of `node` with its parts printed by `text`."""
        line: str = self.lines[node.lineno - 1]
        begin, end = node.col_offset, node.end_col_offset
        if isinstance(node, ast.Name | ast.Lambda | ast.GeneratorExp | ast.ListComp):
            return re.sub(r"[A-Za-z_]\w*", lambda word: self.replaced.get(word[0], word[0]), line[begin:end])
        result, place = "", begin
        for part in self.parts_with_places(node):
            text = self.text(part, before)
            first, last = part.col_offset, part.end_col_offset
            if text.isidentifier() and not isinstance(part, ast.Name):
                while _is_in_own_parentheses(line, first, last) and first > place:
                    first, last = first - 1, last + 1
            result += line[place:first] + text
            place = last
        return result + line[place:end]

    def parts_with_places(self, node: ast.AST) -> Iterator[Any]:
        """Yield the direct subexpressions of `node` in the order of the text, without the names of called functions. In
        place of a slice or keyword argument, yield the subexpressions of that.
        """
        found: list[Any] = []
        for part in _parts(node):
            found += _parts(part) if isinstance(part, ast.Slice | ast.keyword) else [part]
        return iter(sorted(found, key=lambda part: part.col_offset))


def _is_in_own_parentheses(line: str, first: int, last: int) -> bool:
    """Return whether ``line[first:last]`` is in parentheses that are neither a call nor a tuple."""
    inside = line[first - 1 : first] == "(" and line[last : last + 1] == ")"
    return inside and not re.match(r"[\w\])]", line[first - 2 : first - 1])


def _parts(node: ast.AST) -> list[ast.AST]:
    """Return the direct subexpressions of `node`. For a call, these are the arguments and, if it calls a method, the
    object.
    """
    if isinstance(node, ast.Call):
        method = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*method, *node.args, *node.keywords]
    return [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr | ast.keyword | ast.Slice)]


def _targets(statement: ast.AST) -> list[ast.Name]:
    """Return the names that `statement` itself assigns."""
    if isinstance(statement, ast.Assign):
        return [name for target in statement.targets for name in _names(target)]
    return _names(statement.target) if isinstance(statement, ast.For) else []


def _names(target: ast.AST) -> list[ast.Name]:
    """Return the names in the target of an assignment or a loop."""
    return [node for node in ast.walk(target) if isinstance(node, ast.Name)]
