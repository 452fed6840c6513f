"""Front end of all text languages: text to tree by lark's LALR parser, limits, names, and error messages.

The parser builds the tree as it reduces rules, so deep inputs need no recursion.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import lark
from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from sympy_tensordiff.errors import ParseError

MAX_SHOWN = 40
"""Subexpressions longer than these characters are shortened in messages."""
NAMING = frozenset({"NAME", "NUMBER", "LETTERS"})
"""The terminals that give a node its text; other nodes have the text of their first token."""
MistakeHint: TypeAlias = Callable[[Token, Collection[str], list[Token]], str]


@dataclass(eq=False, slots=True)
class Tree:
    """A node of a syntax tree: a subexpression, a declaration, a derivative clause (``derivative wrt x``), or the whole
    input.

    `kind` is the rule of the grammar; `text` is the token that identifies the node: a number, a name, the letters of a
    product with their parentheses, or an operator. `tokens` are those between the `children`, from left to right.
    ``start`` and ``end`` are its range in `source`, enclosing parentheses included; `position` is that of `text`, at
    which errors point. `depth` is the height of the tree, including this node; `is_enclosed` says whether it is in
    parentheses.
    """

    kind: str
    text: str
    tokens: tuple[Token, ...]
    children: tuple[Tree, ...]
    start: int
    end: int
    position: int
    depth: int
    is_enclosed: bool = False
    source: str = ""

    @property
    def shown(self) -> str:
        """The source text of the node for messages, on one line and shortened."""
        return short(" ".join(self.source[self.start : self.end][: 4 * MAX_SHOWN].split()))

    def error(self, message: str, position: int | None = None) -> ParseError:
        """Return (do not raise) a `ParseError` with ``message`` at this node, or at ``position``."""
        return ParseError(message, self.source, self.position if position is None else position)

    @property
    def body(self) -> Tree:
        """The child that is the formula itself, and not a declaration, heading or derivative clause."""
        return next(part for part in self.children[::-1] if part.kind not in ("declaration", "heading", "argument"))

    def of_kind(self, kind: str) -> list[Tree]:
        """Return the children whose kind is ``kind``, such as "declaration"."""
        return [part for part in self.children if part.kind == kind]


@dataclass(frozen=True, eq=False)
class Language:
    """The definition of a text language: grammar, lexer, and texts for error messages.

    Attributes
    ----------
    grammar : str
        The file of the grammar.
    display_name : str
        The name of the language in messages.
    max_length, max_depth : int
        The greatest number of characters of an input, and of nested levels.
    example : str
        A complete input.
    signs : Mapping
        Hints for characters that the language lacks; "" is the key of the default.
    groups : tuple
        For messages: terminals, the phrase that names them if all are expected, and the terminals it also covers.
    mistake_hint : callable
        Returns a hint about a frequent mistake, or "", given the unexpected token, the expected terminals and the
        preceding tokens.
    lexer : str
        The kind of lark's lexer: "basic", or "contextual" where the parser's state decides how characters are read.
    postlex : object or None
        A filter of the tokens, as lark defines it.
    """

    grammar: str
    display_name: str
    max_length: int
    max_depth: int
    example: str
    signs: Mapping[str, str]
    groups: tuple[tuple[frozenset[str], str, frozenset[str]], ...]
    mistake_hint: MistakeHint
    lexer: str = "basic"
    postlex: Any = None


def read(language: Language, source: str) -> Tree:
    """Return the syntax tree of the text ``source``; raise `ParseError` if it is too long, too deep or not valid in
    ``language``.
    """
    if len(source) > language.max_length:
        raise ParseError(
            f"the input has {len(source):,} characters, and at most {language.max_length:,} are read; split the "
            "expression, or build it with the classes of the package",
            source[: language.max_length],
        )
    try:
        root: Tree = _parser(language.grammar, language.lexer, language.postlex).parse(source)  # type: ignore[assignment]
    except UnexpectedCharacters as error:
        place = error.pos_in_stream or 0
        hint = language.signs.get(source[place], language.signs[""])
        raise ParseError(
            f"{source[place]!r} does not belong to {language.display_name}; {hint}", source, place
        ) from None
    except UnexpectedToken as error:
        raise _unexpected_token(language, error, source) from None
    for node in bottom_up(root):
        node.source = source
        if node.depth > language.max_depth:
            raise node.error(
                f"the expression has more than {language.max_depth} levels inside of each other; build it with the "
                "classes of the package"
            )
    return root


@cache
def _parser(grammar: str, lexer: Any, postlex: Any) -> lark.Lark:
    """Return lark's parser for the grammar in the file ``grammar``; cached. ``lexer`` is the kind of lark's lexer,
    ``postlex`` a filter of the tokens or None.
    """
    text = files(__package__).joinpath(grammar).read_text(encoding="utf-8")
    return lark.Lark(text, parser="lalr", lexer=lexer, postlex=postlex, transformer=_TreeBuilder())


class _TreeBuilder(lark.Transformer[Token, Tree]):
    """Builds a `Tree` for each rule of the grammar that lark recognises."""

    def __default__(self, data: Any, children: list[Any], meta: Any) -> Any:
        if data.startswith("_"):  # lark takes its children
            return lark.Tree(data, children)
        children = [child for child in children if child is not None]
        tokens = tuple(child for child in children if isinstance(child, Token))
        parts = tuple(child for child in children if isinstance(child, Tree))
        named = next((token for token in tokens if token.type in NAMING), next(iter(tokens), None))
        is_entry = isinstance(children[0], Tree) and (named is None or named.type == "LEFT_BRACKET")
        place = children[0].position if named is None or is_entry else _start(named)  # points at what is read
        depth = max((part.depth for part in parts), default=0) + (data not in ("start", "declaration", "heading"))
        return Tree(str(data), str(named or ""), tokens, parts, _start(children[0]), _end(children[-1]), place, depth)

    def norm(self, children: list[Any]) -> Any:
        """Build the node of ``||x||``, whose parts are ``children``: the call ``norm2(x)``."""
        return replace(self.__default__("call", children, None), text="norm2")

    def enclosed(self, children: list[Any]) -> Any:
        """Return the node between the parentheses in ``children``, marked as enclosed; several values between them
        become one node of kind "tuple".
        """
        left, inside, *others = children
        if len(others) > 1:  # several values in parentheses
            return self.__default__("tuple", children, None)
        inside.start, inside.end, inside.is_enclosed = _start(left), _end(others[0]), True
        return inside


def _start(part: Token | Tree) -> int:
    """Return the position in the source of the first character of ``part``."""
    return part.start if isinstance(part, Tree) else part.start_pos or 0


def _end(part: Token | Tree) -> int:
    """Return the position in the source after the last character of ``part``."""
    return part.end if isinstance(part, Tree) else part.end_pos or 0


def bottom_up(root: Tree) -> list[Tree]:
    """Return all nodes of the tree ``root``, children before their parent, from left to right."""
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.children
    return found[::-1]


def short(text: str) -> str:
    """Return ``text``, shortened in the middle if it is long."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN // 2]}…{text[-MAX_SHOWN // 3 :]}"


# ---------------------------------------------------------------------------- names


def check_declarations(names: Iterable[Tree]) -> None:
    """Raise `ParseError` if a name is declared twice or is a keyword of Python."""
    found: set[str] = set()
    for node in names:
        if node.text in found:
            raise node.error(f"{short(node.text)} is declared twice; remove one declaration")
        found.add(node.text)
        check_not_keyword(node)


def check_not_keyword(node: Tree) -> None:
    """Raise `ParseError` if the name of ``node`` is a keyword of Python."""
    name = node.text
    if keyword.iskeyword(name):
        raise node.error(f"{name} is a word of Python, in which kernels are written; take another name, e.g. {name}1")


def names_hint(names: Collection[str]) -> str:
    """Return advice for an error about an undeclared name: a list of the declared ``names``."""
    if not names:
        return "declare a tensor first: there is none"
    return f"take a declared name: {', '.join(map(short, [*names][:10]))}{', …' if len(names) > 10 else ''}"


# ---------------------------------------------------------------------------- complaints

TERMINALS = {
    "DECLARE": "`declare`",
    "EXPRESSION": "`expression`",
    "DERIVATIVE": "`derivative wrt`",
    "WRT": "`wrt`",
    "EQUALS": "`=` and the entry",
    "NAME": "a name",
    "NUMBER": "a number",
    "LEFT": "`(`",
    "RIGHT": "`)`",
    "LEFT_BRACKET": "`[`",
    "RIGHT_BRACKET": "`]`",
    "COMMA": "`,`",
    "SIGN": "an operator",
    "BARS": "`||`",
    "BAR": "`|`",
    "LETTERS": "the letters of the product, as in `*(ij,j->i)`",
}


def _unexpected_token(language: Language, error: UnexpectedToken, source: str) -> ParseError:
    """Return, but do not raise, the `ParseError` for lark's ``error`` about the text ``source`` in this ``language``: a
    token that the grammar does not allow at its position.
    """
    token, expected = error.token, set(error.expected)
    values = error.interactive_parser.parser_state.value_stack if error.interactive_parser else []
    before = [value for value in values if isinstance(value, Token)]
    if token.type == "$END" and "DECLARE" in expected:
        return ParseError(f"the input is empty; an input reads {language.example}", source, len(source.rstrip()))
    opened = [value for value in before if value.type == "LEFT"]
    expected.discard("DERIVATIVE" if opened else "RIGHT")
    place = len(source.rstrip()) if token.type == "$END" else token.start_pos or 0
    message = language.mistake_hint(token, expected, before) or (
        f"{token_text(token)} is not expected here, but {_describe_expected(language, expected)}"
    )
    if opened and "RIGHT" in expected:
        line, column = opened[-1].line, opened[-1].column
        message += f"; the parenthesis of line {line}, column {column} is still open"
    return ParseError(message, source, place)


def token_text(token: Token) -> str:
    """Return what to call ``token`` in a message: its text in backquotes, or "the end of the input"."""
    return "the end of the input" if token.type == "$END" else f"`{short(token)}`"


def _describe_expected(language: Language, expected: set[str]) -> str:
    """Return in words which tokens are allowed at an error. ``expected`` are the names of these tokens in the grammar,
    ``language`` has phrases for groups of them.
    """
    words = []
    for group, word, covered in language.groups:
        if group <= expected:
            words.append(word)
            expected = expected - group - covered
    return " or ".join([*words, *(word for name, word in TERMINALS.items() if name in expected)])


def tensor_named(node: Tree, tensors: Mapping[str, Any]) -> Any:
    """Return the tensor named at `node`, in a clause such as ``derivative wrt x``. Raise `ParseError` if the formula
    does not contain it.
    """
    if node.text not in tensors:
        raise node.error(
            f"{short(node.text)} does not occur; differentiate with respect to {', '.join(map(short, tensors))}"
        )
    return tensors[node.text]
