"""Notations: the printed form of a whole tensor as a small tree, before it becomes text, LaTeX or a picture.

The tree has products of matrices, elementwise products with their scalars in front, and sums with signs. It has the
value of the node, not its structure: factors are merged and signs pulled out, so that three printers need not do it
three times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sympy import Basic, Mul, S, Symbol


class Leaf(NamedTuple):
    """The printed form of a scalar, a tensor symbol or a comprehension: the ``node`` itself, which SymPy's printer
    prints.
    """

    node: Any


class Constant(NamedTuple):
    """The printed form of a tensor of ``ones`` or ``zeros``, or of the unit tensor ``identity`` of shape ``shape +
    shape``.
    """

    name: str
    shape: tuple[Any, ...]


class Sum(NamedTuple):
    """The printed form of a sum: ``terms`` are pairs ``(is_subtracted, term)``, added terms first."""

    terms: tuple[tuple[bool, Any], ...]


class Divisor(NamedTuple):
    """One divisor of an elementwise product: a tensor, printed below the fraction bar, and its number of axes."""

    tensor: Any
    rank: int


class Product(NamedTuple):
    """The printed form of an elementwise product: a number, SymPy scalars, scalars computed from tensors (``inner``),
    tensor factors and divisors.
    """

    number: Any
    scalars: tuple[Any, ...]
    inner: tuple[Any, ...]
    factors: tuple[Any, ...]
    divisors: tuple[Divisor, ...]

    @property
    def scalar(self) -> Any:
        """Return the scalar factor of the product: its number times its SymPy scalars, as one expression."""
        rest = Mul(*self.scalars)
        if self.number == 1 or not self.scalars:
            return rest if self.number == 1 else self.number
        return Mul(self.number, *Mul.make_args(rest), evaluate=False)


class Chain(NamedTuple):
    """A matrix product in the notation tree, as the tuple of its factors from left to right; a writer turns it into
    text. The first factor may be a `RowVector`, the last one a column vector.
    """

    factors: tuple[Any, ...]


class RowVector(NamedTuple):
    """The printed form of a transposed vector, ``x.T``, printed as a row."""

    vector: Any


class Outer(NamedTuple):
    """The printed form of a column vector times a row vector, ``outer(x, y)``."""

    column: Any
    row: Any


class Diagonal(NamedTuple):
    """The printed form of the diagonal matrix of a vector, ``diag(x)``."""

    vector: Any


class Transposed(NamedTuple):
    """The printed form of a transposed matrix, ``A.T``."""

    matrix: Any


class Inverse(NamedTuple):
    """The printed form of the inverse of a matrix, ``inv(A)``."""

    matrix: Any


class Power(NamedTuple):
    """The printed form of an elementwise power, ``A**n``."""

    base: Any
    exponent: Any


class Call(NamedTuple):
    """The printed form of a call of a function of this package by its name, with keyword arguments."""

    name: str
    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()


class Applied(NamedTuple):
    """The printed form of an elementwise function that has no name in this package: its formula and its arguments."""

    template: Any
    args: tuple[Any, ...]


class Repeated(NamedTuple):
    """The printed form of a scalar that is added to every entry of a tensor of the given shape."""

    scalar: Leaf
    shape: tuple[Any, ...]


class Expanded(NamedTuple):
    """The printed form of a tensor with new axes of extent 1, such as ``x[:, None]``. For each axis of the result,
    ``new`` is True if the axis is new.
    """

    tensor: Any
    new: tuple[bool, ...]


class Variant(NamedTuple):
    """Two printed forms of one expression: one for Python text and one for formulas, such as ``X*v[:, None]`` and
    ``diag(v) X``.
    """

    text: Any
    formula: Any


def variant(text: Any, formula: Any) -> Any:
    """Return a `Variant` of two printed forms, one for Python text and one for formulas; the form itself if both are
    equal.
    """
    text, formula = getattr(text, "text", text), getattr(formula, "formula", formula)
    return text if text == formula else Variant(text, formula)


def in_forms(change: Callable[..., Any], *notations: Any) -> Any:
    """Return ``change(*notations)``, where ``notations`` are printed forms. If one of them is a `Variant`, apply
    ``change`` to the forms for Python text and to those for formulas, and return a `Variant` of the two results.
    """
    if not any(isinstance(notation, Variant) for notation in notations):
        return change(*notations)
    return variant(*(change(*(getattr(n, form, n) for n in notations)) for form in Variant._fields))


class Relation(NamedTuple):
    """The printed form of a comparison of entries: its sign as in Python, and both sides."""

    sign: str
    left: Any
    right: Any


class Connected(NamedTuple):
    """The printed form of conditions joined by ``and`` or ``or``, or of one negated by ``not``."""

    name: str
    conditions: tuple[Any, ...]


class Indicator(NamedTuple):
    """The printed form of a tensor that is 1 where a condition holds for the entries, else 0."""

    condition: Any


class Choice(NamedTuple):
    """The printed form of ``where``: the value of the first branch whose condition holds, or ``rest`` if none holds."""

    branches: tuple[tuple[Any, Any], ...]
    rest: Any


class Einsum(NamedTuple):
    """The printed form of a product that needs indices: operands with their labels, and the labels of the result."""

    inputs: tuple[str, ...]
    output: str
    operands: tuple[Any, ...]


NOTHING = Product(S.One, (), (), (), ())


def total(terms: Iterable[Any]) -> Any:
    """Return the printed form of the sum of ``terms``: nested sums flattened, positive terms first, scalars last."""
    signed: list[tuple[bool, Any]] = []
    for term in terms:
        signed += term.terms if isinstance(term, Sum) else [_signed(term)]
    # A matrix comes before its own transpose: M + M.T.
    written = [term for _, term in signed]
    signed.sort(key=lambda item: (_is_scalar(item[1]), item[0], _comes_after(item[1], written)))
    if signed[0][0] and not signed[-1][0]:
        signed.insert(0, signed.pop())
    return Sum(tuple(signed))


def _comes_after(term: Any, terms: Sequence[Any]) -> bool:
    """Return whether ``term`` is the transpose ``M.T`` of one of ``terms``: a sum is then written ``M + M.T``, not
    ``M.T + M``.
    """
    return isinstance(term, Transposed) and any(is_same(term.matrix, other) for other in terms)


def product(
    number: Any = S.One,
    scalars: Iterable[Any] = (),
    inner: Iterable[Any] = (),
    factors: Iterable[Any] = (),
    divisors: Iterable[Divisor] = (),
) -> Any:
    """Return the printed form, as a tree, of the elementwise product of a number, SymPy scalars, scalars computed from
    tensors (``inner``) and ``factors``, over the ``divisors``. Products among the factors are merged, and sums come
    last.
    """
    factors, all_scalars, all_inner, all_divisors = list(factors), list(scalars), list(inner), list(divisors)
    if any(isinstance(factor, Variant) for factor in factors):
        forms = ([getattr(factor, form, factor) for factor in factors] for form in Variant._fields)
        return Variant(*(product(number, all_scalars, all_inner, form, all_divisors) for form in forms))
    all_factors: list[Any] = []
    for factor in factors:
        if isinstance(factor, Product):
            number *= factor.number
            all_scalars += factor.scalars
            all_inner += factor.inner
            all_factors += factor.factors
            all_divisors += factor.divisors
        else:
            all_factors.append(factor)
    if number == 1 and not (all_scalars or all_divisors) and len(all_inner) + len(all_factors) == 1:
        return (all_inner + all_factors)[0]
    all_factors.sort(key=lambda factor: isinstance(factor, Sum))
    return Product(number, tuple(all_scalars), tuple(all_inner), tuple(all_factors), tuple(all_divisors))


def transposed(matrix: Any, *, by_terms: bool = True) -> Any:
    """Return the transpose of ``matrix`` in printed form, as a tree with few transposes in it; `matrix` itself if its
    form shows that it is symmetric.

    With ``by_terms``, sums are transposed term by term, which is wrong if a term is a vector that broadcasting repeats.
    """
    match matrix:
        case Transposed(inner):
            return inner
        case Variant(text, formula):
            return Variant(transposed(text, by_terms=False), transposed(formula))
        case Leaf(variable) if getattr(variable, "symmetric", False):
            return matrix
        case Inverse(inner) | Call("adj", (inner,)) | Power(inner, Leaf()) if (
            transposed(inner, by_terms=by_terms) is inner
        ):
            return matrix
        case Power(_, Leaf()) | Call(args=(_,), keywords=()) if by_terms:
            return _transposed_function(matrix, by_terms)
        case Sum(terms) if by_terms and not any(isinstance(term, Variant) for _, term in terms):
            return _with_fewest_transposes(matrix, Sum(tuple((sign, transposed(term)) for sign, term in terms)))
        case Repeated(scalar, shape):
            return Repeated(scalar, shape[::-1])
        case Outer(column, row):
            return matrix if is_same(column, row) else Outer(row, column)
        case Diagonal() | Constant("identity"):
            return matrix
        case Constant(name, shape):
            return Constant(name, shape[::-1])
        case Product() | Chain():
            return _transposed_product(matrix, by_terms)
    return Transposed(matrix)


def _transposed_function(matrix: Power | Call, by_terms: bool) -> Any:
    """Return the printed form, as a tree, of the transpose of ``matrix``, a function or power of a matrix: ``f(A.T)``,
    or ``f(A).T`` if that has fewer transposes. With ``by_terms``, a sum in ``A`` is transposed term by term.
    """
    inner = matrix.base if isinstance(matrix, Power) else matrix.args[0]
    moved = transposed(inner, by_terms=by_terms)
    if count_transposes(moved) > count_transposes(inner):
        return Transposed(matrix)
    return matrix._replace(base=moved) if isinstance(matrix, Power) else matrix._replace(args=(moved,))


def _transposed_product(matrix: Product | Chain, by_terms: bool) -> Any:
    """Return the tree for printing the transpose of the product ``matrix``: either with transposed factors or as
    ``(product).T``, whichever contains fewer transposes.

    Without ``by_terms``, a sum among the factors is not transposed term by term.
    """
    moved = tuple(transposed(factor, by_terms=by_terms) for factor in matrix.factors)
    if isinstance(matrix, Chain):
        return _with_fewest_transposes(matrix, Chain(moved[::-1]))
    if any(divisor.rank != 2 or not by_terms for divisor in matrix.divisors) or any(map(_is_vector, matrix.factors)):
        return Transposed(matrix)
    below = tuple(Divisor(transposed(divisor.tensor, by_terms=by_terms), 2) for divisor in matrix.divisors)
    return _with_fewest_transposes(matrix, matrix._replace(factors=moved, divisors=below))


def _is_vector(notation: Any) -> bool:
    """Return whether ``notation`` is a vector, or an elementwise function or sum of vectors. As a factor of a matrix,
    it is repeated by broadcasting.
    """
    match notation:
        case Leaf(tensor):
            return len(getattr(tensor, "shape", ())) == 1
        case Power(inner, _) | Call(args=(inner,), keywords=()):
            return _is_vector(inner)
        case Sum(terms):
            return all(_is_vector(term) for _, term in terms)
    return False


def entrywise(function: Callable[[Any], Any], matrix: Any) -> Any:
    """Return the printed form ``function(matrix)`` of an elementwise function; ``function(matrix.T).T`` if that
    contains fewer transposes.
    """
    turned = transposed(matrix) if count_transposes(matrix) > 1 else matrix
    if count_transposes(turned) + 1 < count_transposes(matrix):
        return transposed(function(turned))
    return function(matrix)


def is_same(one: Any, other: Any) -> bool:
    """Return whether the printed forms ``one`` and ``other`` are equal. Unlike ``==``, this tells apart forms of
    different classes with equal parts, which are tuples.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _has_same_terms(one: Sum, other: Sum) -> bool:
    """Return whether two sums have the same terms with the same signs, in any order."""
    rest = list(other.terms)
    for term in one.terms:
        place = next((n for n, own in enumerate(rest) if is_same(term, own)), None)
        if place is None:
            return False
        del rest[place]
    return True


def _with_fewest_transposes(matrix: Any, moved: Any) -> Any:
    """Return the printed form of the transpose of ``matrix`` that has fewer transposes: ``moved``, in which each term
    or factor is transposed, or ``matrix.T``. If ``moved`` equals ``matrix``, it is symmetric: return ``matrix``.
    """
    if _has_same_terms(moved, matrix) if isinstance(matrix, Sum) else is_same(moved, matrix):
        return matrix
    most = count_transposes(matrix) + 1
    is_one_factor = isinstance(matrix, Product) and len(matrix.factors) == 1
    return moved if is_one_factor or count_transposes(moved) <= most else Transposed(matrix)


def count_transposes(notation: Any) -> int:
    """Return the number of transposes among the factors or terms of ``notation``, nested ones included."""
    match notation:
        case Variant(text):
            return count_transposes(text)
        case Transposed(matrix):
            return 1 + count_transposes(matrix)
        case Product(factors=factors, divisors=divisors):
            return sum(map(count_transposes, (*factors, *(divisor.tensor for divisor in divisors))))
        case Chain(factors):
            return sum(map(count_transposes, factors))
        case Power(inner, Leaf()) | Call(args=(inner,), keywords=()):
            return count_transposes(inner)
        case Sum(terms):
            return sum(count_transposes(term) for _, term in terms)
    return 0


def split_scalar(notation: Any) -> tuple[Product, Any]:
    """Split a printed form into ``(scalars in front, tensor without them)``: ``2*a`` and ``X`` for ``2*a*X``."""
    if not isinstance(notation, Product):
        return NOTHING, notation
    bare = product(factors=notation.factors, divisors=notation.divisors)
    return notation._replace(factors=(), divisors=()), bare


def in_front(scalar: Any) -> Product:
    """Return the printed form of a scalar as a `Product` without tensors, so that it can be put in front of a product
    of tensors.
    """
    if isinstance(scalar, Product):
        return scalar
    if not isinstance(scalar, Leaf):
        return NOTHING._replace(inner=(scalar,))
    number, rest = scalar.node.as_coeff_Mul(rational=True)
    return NOTHING._replace(number=number, scalars=() if rest == 1 else (rest,))


def _signed(term: Any) -> tuple[bool, Any]:
    """Split a minus sign off ``term``: return ``(is_subtracted, term without its minus sign)`` for printing it in a
    sum.
    """
    if isinstance(term, Product) and term.number.is_negative:
        return True, product(*term._replace(number=-term.number))
    if isinstance(term, Leaf) and term.node.could_extract_minus_sign():
        return True, Leaf(-term.node)
    if isinstance(term, Repeated):
        minus, scalar = _signed(term.scalar)
        return minus, term._replace(scalar=scalar)
    if isinstance(term, Variant):
        (minus, text), (other, formula) = _signed(term.text), _signed(term.formula)
        return (minus, Variant(text, formula)) if minus is other else (False, term)
    return False, term


def _is_scalar(notation: Any) -> bool:
    """Return whether ``notation`` denotes a scalar."""
    return isinstance(notation, Repeated) or (isinstance(notation, Leaf) and not getattr(notation.node, "rank", 0))


def is_filled_with_ones(notation: Any) -> bool:
    """Return whether ``notation`` denotes a tensor of ones of any rank."""
    return isinstance(notation, Constant) and notation.name == "ones"


def is_ones(notation: Any) -> bool:
    """Return whether ``notation`` is a vector of ones; a product with it is a sum."""
    return is_filled_with_ones(notation) and len(notation.shape) == 1


def index_names(notation: Einsum) -> dict[str, str]:
    """Return an index name for each label of a contraction: the label itself, unless a symbol in an operand has this
    name.
    """
    labels = dict.fromkeys("".join(notation.inputs))
    taken = {str(symbol) for operand in notation.operands for symbol in _symbols(operand)}
    free = [letter for letter in "ijklmnpqrstuvwabcdefgh" if letter not in taken and letter not in labels]
    return {label: free.pop(0) if label in taken and free else label for label in labels}


def _symbols(part: Any) -> set[Any]:
    """Return the symbols in ``part``, which is a printed form or a part of one."""
    if isinstance(part, tuple):
        return set().union(*map(_symbols, part))
    if isinstance(part, Basic):
        return {part} if getattr(part, "is_symbol", False) else part.atoms(Symbol)
    return set()
