"""What lark found in place of what the grammar expects, in words."""

from __future__ import annotations

from collections.abc import Collection

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.tree import cut

FUNCTIONS = (
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "tanh", "exp", "log", "sign", "relu", "abs"),
    *("det", "inv", "adj"),
)
WORDS = {
    "DECLARE": "`declare`",
    "EXPRESSION": "`expression`",
    "DERIVATIVE": "`derivative wrt`",
    "WRT": "`wrt`",
    "NAME": "a name",
    "NUMBER": "a number",
    "LEFT": "`(`",
    "RIGHT": "`)`",
    "LETTERS": "the letters of the product, as in `*(ij,j->i)`",
}
OPERAND = "a number, a name, a function, `delta(n)`, `(` or `-`"
OPERATOR = "an operator (`+`, `-`, `/`, `^` or a product `*(ij,j->i)`)"
RESERVED = {"DECLARE", "EXPRESSION", "DERIVATIVE", "WRT", "DELTA", "FUNCTION"}


def unexpected_character(error: UnexpectedCharacters, source: str) -> ParseError:
    """The error about a character that no token starts with."""
    place = error.pos_in_stream or 0
    character = source[place]
    hint = HINTS.get(character, "inputs consist of letters a-z and A-Z, digits, + - * / ^ ( ) and blanks")
    return ParseError(f"{character!r} does not belong to the language; {hint}", source, place)


HINTS = {
    ",": "a comma separates the letters of a product, as in `a *(i,i->) b`",
    ">": "the arrow stands between the letters of a product, as in `a *(i,i->) b`",
    "_": "names are letters and digits, beginning with a letter",
    ".": "a number has a digit before or behind the point",
    "@": "write the product with its letters, as in `A *(ij,jk->ik) B`",
    "[": "parentheses are round; tensors are written without indices (`parse_indexed` reads entries such as x[i])",
    "]": "parentheses are round; tensors are written without indices (`parse_indexed` reads entries such as x[i])",
    "'": "write the transpose as `(ij->ji)A`",
    "=": "an input states an expression, and no equation (`parse_indexed` reads f[i] = …)",
}


def unexpected_token(error: UnexpectedToken, source: str) -> ParseError:
    """The error about a token where the grammar expects another."""
    token, expected = error.token, set(error.expected)
    values = error.interactive_parser.parser_state.value_stack if error.interactive_parser else []
    before = [value for value in values if isinstance(value, Token)]
    opened = [value for value in before if value.type == "LEFT"]
    expected.discard("DERIVATIVE" if opened else "RIGHT")
    place = len(source.rstrip()) if token.type == "$END" else token.start_pos or 0
    if _is_called(token, expected, before):
        place = before[-1].start_pos or 0
    message = _special(token, expected, before) or _plain(token, expected)
    if opened and "RIGHT" in expected:
        line, column = opened[-1].line, opened[-1].column
        message += f"; the parenthesis of line {line}, column {column} is still open"
    return ParseError(message, source, place)


def _special(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """What is said about frequent slips; nothing where it is none of them."""
    if token.type == "$END" and "DECLARE" in expected:
        return 'the input is empty; an input reads "declare x 1 expression x *(i,i->) x derivative wrt x"'
    if set(expected) == {"NUMBER"} and before[-1].type == "NAME":
        return f"{_found(token)} stands where a number is expected: the order of the tensor `{cut(before[-1])}`"
    if token.type in RESERVED and "NAME" in expected and "LEFT" not in expected:
        return f"`{token}` is a word of the language, which cannot be the name of a tensor; take another name"
    if "LETTERS" in expected and before and before[-1].type == "STAR" and "LEFT" not in expected:
        return (
            "a product needs its letters: two operands' and the result's, as in `a *(i,i->i) b` for element-wise "
            f"products, `A *(ij,j->i) x` or, for scalars, `a *(,->) b`; not {_found(token)}"
        )
    if "PLUS" not in expected:
        return "an exponent that is no number or name stands in parentheses, as in `x^(-1)`" * (
            token.type == "MINUS" and bool(before) and before[-1].type == "CARET"
        )
    if token.type in ("NAME", "NUMBER", "FUNCTION", "DELTA"):
        return (
            f"{_found(token)} stands beside an operand without an operator; write a product with its letters, as in "
            "`2 *(,i->i) x`"
        )
    if _is_called(token, expected, before):
        return (
            f"`{cut(before[-1])}` is no function: the functions are {', '.join(FUNCTIONS)}; write a product with "
            "its letters, as in `a *(i,i->i) (b + c)`"
        )
    if token.type in ("LEFT", "LETTERS"):
        return "an operator is missing before the parenthesis: write a product as `a *(i,i->i) (b + c)`"
    return ""


def _is_called(token: Token, expected: Collection[str], before: list[Token]) -> bool:
    """Whether a parenthesis stands behind a name, as if that were a function."""
    return token.type == "LEFT" and "PLUS" in expected and bool(before) and before[-1].type == "NAME"


def _plain(token: Token, expected: Collection[str]) -> str:
    return f"{_found(token)} is not expected here, but {_words(expected)}"


def _words(expected: Collection[str]) -> str:
    """The expected tokens in words."""
    rest = set(expected)
    words = []
    for group, word in ((OPERANDS, OPERAND), (OPERATORS, OPERATOR)):
        if group <= rest:
            words.append(word)
            rest -= group | {"STAR", "SLASH", "CARET", "LETTERS"}
    words += [WORDS[name] for name in WORDS if name in rest]
    return " or ".join(words)


OPERANDS = {"NUMBER", "NAME", "FUNCTION", "DELTA", "LEFT", "MINUS"}
OPERATORS = {"PLUS", "MINUS"}


def _found(token: Token) -> str:
    if token.type == "$END":
        return "the end of the input"
    return f"`{cut(token)}`"
