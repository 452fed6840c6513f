"""Formulas in LaTeX: as papers print them, as the package prints them, and hostile texts."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff import reference
from sympy_tensordiff.errors import ParseError

FILE = Path(__file__).with_name("latex_formulas.txt")


def formulas() -> list[tuple[str, str]]:
    """The formulas with the NumPy expression or the message of each."""
    sections = re.split(r"^# .*\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    lines = [line for section in sections for line in section.splitlines() if line]
    return [*zip(lines[::2], lines[1::2], strict=True)]


def filled(random: Random, shape: tuple[int, ...]) -> Any:
    """Positive fractions; of a square matrix with a larger diagonal, so that its determinant is positive."""
    array = np.array([Fraction(random.randint(300, 900), 1000) for _ in range(int(np.prod(shape)))], dtype=object)
    array = array.reshape(shape)
    return array + 3 * np.eye(shape[0], dtype=int) if len(shape) == 2 and shape[0] == shape[1] else array


def compared(parsed: Any, expected: str) -> None:
    """Compare values of the parsed formula and of a NumPy expression at small sizes."""
    random = Random(1)
    symbols = {s for s in reference.symbols_of(parsed.expression) if isinstance(s, sympy.Symbol)}
    symbols |= {s for t in parsed.tensors.values() for extent in t.shape for s in extent.free_symbols}
    sizes = {s: {"n": 5, "i": 1, "k": 1}.get(s.name, 4) for s in symbols}
    arrays = {
        name: filled(random, tuple(int(extent.subs(sizes)) for extent in tensor.shape))
        for name, tensor in parsed.tensors.items()
    }
    values = {tensor: arrays[name].tolist() for name, tensor in parsed.tensors.items()}
    value = np.array(reference.evaluate(parsed.expression, {**values, **sizes}), dtype=object).astype(complex)
    names = {name: array.astype(float) for name, array in arrays.items()}
    names |= {s.name: k for s, k in sizes.items() if s.name not in names}
    other = np.asarray(eval(expected, {"np": np, **names}))
    assert value.shape == other.shape
    np.testing.assert_allclose(value, other, rtol=1e-9)


@pytest.mark.parametrize(("formula", "expected"), formulas())
def test_formulas_of_papers_have_their_values(formula: str, expected: str) -> None:
    if expected.startswith("refused: "):
        with pytest.raises(ParseError, match=re.escape(expected.removeprefix("refused: "))):
            td.parse(formula, language="latex")
    else:
        compared(td.parse(formula, language="latex"), expected)
