"""The function `read_matrix`, the inference of the orders of names, and the definition of the language."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from lark import Token
from sympy import Mul

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.axes import AxisClasses, size_symbols
from sympy_tensordiff.parsing.frontend import (
    TERMINALS,
    Language,
    Tree,
    bottom_up,
    check_declarations,
    check_not_keyword,
    read,
    short,
    tensor_named,
    token_text,
)
from sympy_tensordiff.parsing.matrix.build import MatrixBuilder
from sympy_tensordiff.parsing.matrix.shapes import (
    COLUMN,
    CONSTANT_TENSORS,
    FUNCTIONS,
    MATRIX,
    NAMES_OF_TENSORS_TOO,
    NUMBER,
    ODD,
    SHAPE_NAMES,
    Axes,
    ShapeInference,
)
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

MAX_INPUT = 5_000
"""The greatest number of characters of an input."""
MAX_DEPTH = 60
"""The greatest nesting depth of parentheses and calls."""
EXAMPLE = '"x\'*A*x" or "declare A[m, n], x[n]  norm2(A*x)^2  derivative wrt x"'
_NUMPY = frozenset({"AT", "POWER", "DOT_T"})
_MATLAB = frozenset({"QUOTE", "DOT_STAR", "DOT_SLASH", "DOT_CARET"})


_EQUATION = "a formula is an expression without `=`; index notation reads f[i] = …"


def mistake_hint(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """Return a hint for the error message if the unexpected ``token`` is a frequent mistake, given the ``expected``
    terminals and the tokens ``before`` it; else "".
    """
    if token.type in ("NAME", "NUMBER", "LEFT") and "STAR" in expected:
        return f"{token_text(token)} follows an operand; write a product with `*`, and `derivative wrt` at the end"
    if token.type == "HEADING":
        return f"{_EQUATION}; `f(x) =` may precede a whole formula"
    if token.type == "LEFT_BRACKET":
        return "entries such as A[i, j] are index notation, which reads declare A[n, n]  s = sum(A[i, i], i)"
    return ""


FORMULAS = Language(
    grammar="matrix/grammar.lark",
    display_name="matrix formulas",
    max_length=MAX_INPUT,
    max_depth=MAX_DEPTH,
    example=EXAMPLE,
    signs={
        "": "names and operators consist of the letters and signs of ASCII",
        "=": _EQUATION,
        **dict.fromkeys("‖∥", "the norm is ||x||"),
        ".": "a number has a digit before or after the point, and the only attribute is .T",
        "\\": "write inv(A)*b",
        "_": "names begin with a letter",
        **dict.fromkeys("{}", "parentheses are round"),
        **dict.fromkeys("·×⋅∙", "the product is `*`, that of the entries `.*`"),
        "⊙": "the product of the entries is `.*`",
        **dict.fromkeys("−–", "the difference is `-`"),
        **dict.fromkeys("²³", "powers are written with `^`"),
        **{"⊤": "the transpose is `'`", "ᵀ": "the transpose is `'`", "√": "write sqrt(x)", "’": "the transpose is `'`"},
        **dict.fromkeys("<>", "conditions are read by index notation"),
    },
    groups=((frozenset({"NUMBER", "LEFT"}), "an operand: a number, a name or `(`", frozenset(TERMINALS)),),
    mistake_hint=mistake_hint,
)


_SYMPY_NAMES = {"Abs": "abs", "Max": "max", "Min": "min"}
"""Names under which SymPy prints functions of numbers."""
_WORD = re.compile(r"\w+")


def read_matrix(text: str) -> ParsedExpression:
    """Parse ``text``, a matrix formula, and return it as a `ParsedExpression`. The orders (number, vector or matrix)
    and sizes of names that are not declared are inferred.
    """
    root = read(FORMULAS, text)
    nodes = bottom_up(root.body)
    for node in nodes:
        if node.kind == "call":
            node.text = _SYMPY_NAMES.get(node.text, node.text)
    names = _first_occurrences(nodes)
    declared = {node.text: node for node in root.of_kind("declaration")}
    check_declarations(root.of_kind("declaration"))
    for part in [part for node in declared.values() for part in node.children]:
        if part.text not in declared:
            names.pop(part.text, None)  # a size, also as a number
    unknown = [node for name, node in declared.items() if name not in names]
    for node in unknown:  # it may be differentiated by all the same
        names[node.text] = node
    for node in names.values():
        check_not_keyword(node)
    for node in declared.values():
        if len(node.children) > 2:
            raise node.error(f"{short(node.text)} has {len(node.children)} axes, and matrix formulas have two at most")
    orders = {name: (0, 1, 3)[len(node.children)] for name, node in declared.items()}
    orders, assumed = infer_orders(nodes, names, orders, _is_numpy(nodes))
    tensors, expression = _build_expression(nodes, orders, declared)
    arguments = tuple(tensor_named(node, tensors) for node in root.of_kind("argument"))
    headed = [name for node in root.of_kind("heading") for name in _WORD.findall(node.text)[1:] if name in tensors]
    if len(headed) == 1 and not arguments:  # f(x) = … is a function of x
        arguments = (tensors[headed[0]],)
    assumptions = tuple(f"{name} is {order_word(order)}" for name, order in assumed.items())
    return ParsedExpression(tensors, expression, arguments, assumptions)


def _first_occurrences(nodes: list[Tree]) -> dict[str, Tree]:
    """Return a dictionary from the names of tensors and numbers in ``nodes`` to the node of their first occurrence."""
    sizes: set[Tree] = set()
    for node in nodes:
        if node.kind == "call" and (node.text in CONSTANT_TENSORS or node.text == "reshape"):
            operands = node.children[1:] if node.text == "reshape" else node.children
            sizes.update(part for operand in operands for part in bottom_up(operand))
    for node in nodes:
        if node.kind == "tuple" and node not in sizes:
            raise node.error("several values in parentheses occur only in sizes, as in zeros((n, m))")
    reserved = (FUNCTIONS - NAMES_OF_TENSORS_TOO) | {node.text for node in nodes if node.kind == "call"}
    found: dict[str, Tree] = {}
    for node in sorted(nodes, key=lambda node: node.position):
        if node.kind == "name" and node not in sizes and node.text not in ("eye", "pi"):
            if node.text in reserved:
                raise node.error(f"{node.text} is a function: write {node.text}(…), or take another name")
            found.setdefault(node.text, node)
    return found


def _is_numpy(nodes: list[Tree]) -> bool:
    """Return whether the formula with the syntax trees ``nodes`` uses NumPy's operators; raise `ParseError` if it mixes
    them with MATLAB's.
    """
    marks = {kind: [t for n in nodes for t in n.tokens if t.type in kind] for kind in (_NUMPY, _MATLAB)}
    numpy, matlab = marks.values()
    if numpy and matlab:
        source = nodes[-1]
        raise source.error(
            f"`{numpy[0]}` is an operator of NumPy, in which `*` is the product of the entries, and `{matlab[0]}` one "
            "of MATLAB, in which it is that of matrices; write the formula in one of the two ways",
            max(numpy[0].start_pos or 0, matlab[0].start_pos or 0),
        )
    return bool(numpy)


def _build_expression(
    nodes: list[Tree], orders: dict[str, int], declared: dict[str, Tree]
) -> tuple[dict[str, TensorSymbol], Any]:
    """Return ``(tensors by name, expression)`` of a parsed matrix formula, ``nodes``. ``orders`` says which name is a
    number, a vector or a matrix; ``declared`` has the shapes that the user declared.
    """
    unified = AxisClasses()
    sizes: dict[str, int] = {}
    axes: dict[str, Axes] = {}
    ordered = [*declared, *(name for name in orders if name not in declared)]
    for name in ordered:
        own = declared[name].children if name in declared else ()
        for part in own:
            if part.text not in sizes:
                (sizes[part.text],) = unified.new_axes(1)
        given = iter(sizes[part.text] for part in own)
        axes[name] = tuple(  # type: ignore[assignment]
            (next(given) if own else unified.new_axes(1)[0]) if orders[name] & bit else None for bit in (1, 2)
        )
    shapes = ShapeInference(orders, _is_numpy(nodes), unified, axes, sizes)
    shapes.run(nodes)
    known = _known_sizes(nodes[-1], unified, shapes.sizes, orders)
    lengths = lengths_of_axes(nodes[-1], shapes, {*orders, *shapes.sizes}, known)
    tensors = {
        name: TensorSymbol(name, tuple(lengths[unified.root(axis)] for axis in axes[name] if axis is not None))
        for name in ordered
    }
    return tensors, MatrixBuilder(shapes, lengths, tensors).expression(nodes)


def _known_sizes(root: Tree, unified: AxisClasses, sizes: dict[str, int], orders: dict[str, int]) -> dict[int, Any]:
    """Return a dictionary from axes to their declared sizes, such as ``n`` for the axis of ``x`` in ``declare x[n]``.
    Of the axes that ``unified`` records as equally long, only one is a key. Raise `ParseError` at ``root`` if two of
    these have different sizes.

    ``sizes`` maps the text of each size to an axis. A size must not have a name in ``orders``, those of tensors and
    numbers.
    """
    known: dict[int, tuple[str, Any]] = {}
    for name, axis in sizes.items():
        if name in orders:
            raise root.error(f"{short(name)} is the name of a size and of a number or tensor; rename one of them")
        if name[0].isdigit() and (not name.isdecimal() or not 0 < int(name[:10]) < 10**6):
            raise root.error(f"the size {short(name)} is not an integer from 1 to 999999")
        value = int(name) if name[0].isdigit() else indices(name)
        other, _ = known.setdefault(unified.root(axis), (name, value))
        if other != name:
            raise root.error(f"the formula makes axes of sizes {short(other)} and {short(name)} equally long")
    return {axis: value for axis, (_, value) in known.items()}


def lengths_of_axes(root: Tree, shapes: ShapeInference, taken: Collection[str], known: Mapping[int, Any]) -> Any:
    """Return a dictionary from axes to their lengths: those that are ``known``, products for the axes that ``shapes``
    records as such, and symbols with names that are not ``taken`` for the others. Of the axes that are equally long,
    only one is a key. Raise `ParseError` at ``root`` if lengths contradict each other.
    """
    assert shapes.unified is not None
    number = shapes.unified.root
    products = [(number(axis), [*map(number, factors)]) for axis, factors in shapes.products]
    lengths = size_symbols(shapes.unified, taken, {**{axis: None for axis, _ in products}, **known})
    while products:
        ready = [
            (axis, factors) for axis, factors in products if all(lengths[factor] is not None for factor in factors)
        ]
        if not ready:
            raise root.error("the formula makes an axis as long as a product with its own length")
        for axis, factors in ready:
            length = Mul(*(lengths[factor] for factor in factors))
            if lengths[axis] is not None and lengths[axis] != length:
                raise root.error(f"the formula makes axes of sizes {lengths[axis]} and {length} equally long")
            lengths[axis] = length
        products = [one for one in products if one not in ready]
    return lengths


# ---------------------------------------------------------------------------- orders


MAX_READINGS = 2_000
"""The greatest number of readings compared; beyond it, capitals are matrices, other names vectors or numbers."""
_CAPITAL = {MATRIX: 0, COLUMN: 4, NUMBER: 6}
_OTHER = {COLUMN: 0, NUMBER: 0, MATRIX: 4}
"""Penalties of the orders of a name, by its first letter."""
_PLURAL = {NUMBER: "numbers", COLUMN: "vectors", MATRIX: "matrices"}


Inference: TypeAlias = Callable[[Mapping[str, int], bool], ShapeInference]
"""A constructor of the inference of shapes, given the orders of the names and whether the formula is NumPy's."""


class Reading(NamedTuple):
    """One guess of the orders (number, vector or matrix) of all names, with penalties for unusual uses and unusual
    first letters.
    """

    orders: dict[str, int]
    use_penalty: int
    letter_penalty: int

    @property
    def penalty(self) -> int:
        """The penalty by which guesses are compared, greater for less plausible ones: it adds up unusual uses of names
        and unusual first letters, such as a capital for a vector.
        """
        return self.use_penalty + self.letter_penalty


def infer_orders(
    nodes: Sequence[Tree],
    names: Mapping[str, Tree],
    declared: Mapping[str, int],
    is_numpy: bool,
    inference: Inference = ShapeInference,
    tie_break: Callable[[Mapping[str, int]], int] = lambda orders: 0,
    capital_number: int = _CAPITAL[NUMBER],
) -> tuple[dict[str, int], dict[str, int]]:
    """Return ``(orders, guessed)`` for a matrix formula. ``orders`` has the most plausible order (number, vector or
    matrix) of each of ``names``, ``guessed`` those of these orders that are uncertain, because another one is
    plausible, too.

    ``nodes`` is the formula. ``declared`` has orders that the user fixed; the other arguments are options.

    ``inference`` is the class with the rules for shapes, ``is_numpy`` selects NumPy's operators instead of MATLAB's,
    ``tie_break`` decides between equally plausible orders, and ``capital_number`` is the penalty of a number with a
    capital letter.

    Raise `ParseError` if the formula has no reading, or two equally good ones; the message shows both.
    """
    readings = _readings(nodes, names, declared, is_numpy, inference, capital_number)
    best = min(readings, key=lambda reading: (reading.penalty, tie_break(reading.orders)))
    for other in readings:
        is_other = other is not best and other.penalty == best.penalty
        if is_other and tie_break(other.orders) == tie_break(best.orders):
            raise _ambiguous(nodes[-1], names, bool(declared), best.orders, other.orders)
    assumed = {
        name: order
        for name, order in best.orders.items()
        if any(r.orders[name] != order and r.use_penalty < ODD for r in readings)
    }
    return best.orders, assumed


def _readings(
    nodes: Sequence[Tree],
    names: Mapping[str, Tree],
    declared: Mapping[str, int],
    is_numpy: bool,
    inference: Inference,
    capital_number: int,
) -> list[Reading]:
    """Return guesses of the order (number, vector or matrix) of each of ``names`` that make the formula ``nodes``
    consistent, the most plausible first. Raise `ParseError` if there is none.

    ``declared`` are known orders; a number with a capital letter costs ``capital_number``.

    ``inference`` has the rules for shapes.
    """
    free = [name for name in names if name not in declared]
    choices = [{**_CAPITAL, NUMBER: capital_number} if name[0].isupper() else _OTHER for name in free]
    if prod(map(len, choices)) > MAX_READINGS:
        choices = [{order: cost for order, cost in choice.items() if not cost} for choice in choices]
    if prod(map(len, choices)) > MAX_READINGS:
        raise next(iter(names.values())).error(
            f"{len(free)} names are not declared, which is too many to tell their orders; begin with their shapes, as "
            "in declare A[m, n], x[n], a"
        )
    found: list[Reading] = []
    refusal: ParseError | None = None
    for orders in product(*choices):
        given = {**declared, **dict(zip(free, orders, strict=True))}
        shapes = inference(given, is_numpy)
        try:
            shapes.run(nodes)
        except ParseError as error:
            refusal = refusal or error
            continue
        letter_penalty = sum(choice[order] for choice, order in zip(choices, orders, strict=True))
        found.append(Reading(given, shapes.penalty, letter_penalty))
    if not found:
        assert refusal is not None
        raise refusal
    return sorted(found, key=lambda reading: reading.penalty)


def _ambiguous(
    root: Tree,
    names: Mapping[str, Tree],
    has_declarations: bool,
    first: Mapping[str, int],
    second: Mapping[str, int],
) -> ParseError:
    """Return the error, without raising it, that two guesses ``first`` and ``second`` of the orders of names (scalar,
    vector or matrix) are equally plausible. Its message suggests declarations that decide between them.

    They are added to the declarations in the text ``root`` if it ``has_declarations``.
    """
    differing = [name for name in first if first[name] != second[name]]
    listed = " and ".join(map(short, differing))
    is_one = len(differing) == 1
    words = [order_word(o[differing[0]]) if is_one else order_words(differing, o) for o in (first, second)]
    shown = short(" ".join(root.source.split()))
    declarations = [", ".join(declaration(name, orders[name]) for name in differing) for orders in (first, second)]
    shown = shown.replace("declare ", "", 1)
    ends = ", " + shown if has_declarations else f" {shown}"
    either = " or ".join(f"`declare {text}{ends}`" for text in declarations)
    return names[differing[0]].error(
        f"{listed} may be {words[0]} or {words[1]}, and nothing here decides; write {either}"
    )


def order_words(names: Sequence[str], orders: Mapping[str, int]) -> str:
    """Return the orders of ``names`` in words, such as "a vector and a matrix" or "vectors"."""
    kinds = {orders[name] for name in names}
    if len(kinds) == 1:
        return _PLURAL[kinds.pop()]
    return " and ".join(order_word(orders[name]) for name in names)


def order_word(order: int) -> str:
    """Return the words for the shape number ``order``, for messages: "a number", "a vector" (a column), "a row vector"
    or "a matrix" for 0 to 3.
    """
    return SHAPE_NAMES[order].replace("column ", "")


def declaration(name: str, order: int) -> str:
    """Return a declaration of ``name`` with this ``order``, such as ``x[n]`` for a vector, as advice in messages."""
    return f"{short(name)}{('', '[n]', '[n]', '[n, m]')[order]}"
