"""Nodes taken apart for the text language: signs and numbers of terms, held scalars, letters, names in messages."""

from __future__ import annotations

from typing import Any

from sympy import Mul, S

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.parsing.axes_of_text import axis_letters
from sympy_tensordiff.parsing.pieces import LETTERS, decimal_places
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.elementwise import TensorMul
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.measures import measures
from sympy_tensordiff.symbolic.subscripts import Subscripts, parse_subscripts
from sympy_tensordiff.symbolic.tensors import TensorComprehension


def refused(node: Any, reason: str, way_out: str) -> UnsupportedError:
    """The error about a node that the language cannot say."""
    return UnsupportedError(f"to_text: {shown(node)} has no text in the text language of td.parse: {reason}; {way_out}")


def split(term: Any) -> tuple[Any, tuple[Any, ...]]:
    """A number and the other factors of a product, entry by entry or not, or of anything else."""
    if term.is_Number:
        return term, ()
    if isinstance(term, (Mul, TensorMul)):
        first, *rest = term.args
        return (first, tuple(rest)) if first.is_Number else (S.One, tuple(term.args))
    return S.One, (term,)


def fraction(number: Any) -> tuple[Any, Any]:
    """What to multiply by and what to divide by: ``x / 4``, but ``0.75`` as a decimal number."""
    if number.is_Float or (abs(number.p) != 1 and decimal_places(number) is not None):
        return number, S.One
    return S(number.p), S(number.q)


def is_subtracted(term: Any) -> bool:
    """Whether a term of a sum is read back as it is, where its opposite is subtracted."""
    coefficient, factors = split(term)
    return bool(coefficient < 0) and (not isinstance(term, TensorMul) or len(factors) == 1)


def held(node: Any) -> Any:
    """The scalar that an entry or a comprehension without axes is; None for all others."""
    tensor = node.tensor if isinstance(node, TensorEntry) else node
    return tensor.body if isinstance(tensor, TensorComprehension) and not tensor.rank else None


def in_lower_case(product: EinsumProduct) -> Subscripts:
    """The subscripts of a product in the letters of the language, with others in place of A-Z."""
    found = parse_subscripts(product.subscripts)
    used = dict.fromkeys(found.output + "".join(found.inputs))
    others = [letter for letter in used if letter not in LETTERS]
    free = axis_letters(len(others), "".join(letter for letter in used if letter in LETTERS))
    letters = str.maketrans(dict(zip(others, free, strict=True)))
    return parse_subscripts(product.subscripts.translate(letters))


def shown(node: Any) -> str:
    """A node in a message."""
    return f"a {type(node).__name__}" if measures(node).is_unprintable else str(node)
