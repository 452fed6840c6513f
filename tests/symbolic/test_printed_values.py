"""Printed forms have the value of the expression: the text typed in again, and the formula as a reader takes it."""

import random
from fractions import Fraction

import numpy as np
import sympy
from every import every
from latex_values import latex_value
from sympy import Rational, latex

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.reference import evaluate

SIZE = 2
SYMBOLS = {
    0: [td.TensorSymbol(name, ()) for name in ("r", "s")],
    1: [td.TensorSymbol(name, SIZE) for name in ("x", "y", "z")],
    2: [td.TensorSymbol(name, (SIZE, SIZE)) for name in ("A", "B", "C", "D")],
    3: [td.TensorSymbol("T", (SIZE, SIZE, SIZE))],
}
ALL = [symbol for symbols in SYMBOLS.values() for symbol in symbols]
OPERANDS = {
    0: [lambda pick: sympy.Integer(pick([-1, 2, 3])), lambda pick: pick(SYMBOLS[0]) ** -1],
    1: [lambda pick: td.ones(SIZE), lambda pick: pick(SYMBOLS[2]) @ pick(SYMBOLS[1])],
    2: [
        lambda pick: td.DeltaTensor(SIZE),
        lambda pick: pick(SYMBOLS[2]).T,
        lambda pick: pick(SYMBOLS[2]) @ pick(SYMBOLS[2]),
        lambda pick: td.outer(pick(SYMBOLS[1]), pick(SYMBOLS[1])),
        lambda pick: td.diag(pick(SYMBOLS[1])),
        lambda pick: td.inv(pick(SYMBOLS[2])),
    ],
    3: [],
}
ANY = [
    lambda tensor, other, pick: pick([-1, 2, Rational(2, 3)]) * tensor,
    lambda tensor, other, pick: tensor + other,
    lambda tensor, other, pick: tensor - other,
    lambda tensor, other, pick: tensor * other,
    lambda tensor, other, pick: tensor**2,
]
OUTSIDE = [
    lambda expr, pick: 1 - expr,
    lambda expr, pick: pick([-1, 3, SYMBOLS[0][0]]) * expr + expr**2,
    lambda expr, pick: expr / td.exp(expr) ** pick([1, 2]),
    lambda expr, pick: expr / pick(SYMBOLS[0]) - 2,
]


def operand(rng, rank):
    symbol = rng.choice(SYMBOLS[rank])
    chance = rng.random()
    if chance < 0.3 and OPERANDS[rank]:
        return rng.choice(OPERANDS[rank])(rng.choice)
    if chance < 0.5 and rank:
        return rng.choice(ANY)(symbol, rng.choice(SYMBOLS[rank]), rng.choice)
    return symbol


def expression(seed):
    """A contraction over few labels, so that trees, rings, parallel edges and diagonals of all kinds come."""
    rng = random.Random(seed)
    ranks = rng.choices(range(4), [1, 3, 6, 0.3], k=rng.randint(1, 5))
    inputs = ["".join(rng.choice("ijkl") for _ in range(rank)) for rank in ranks]
    labels = sorted(set("".join(inputs)))
    output = "".join(rng.sample(labels, min(len(labels), rng.choice([0, 1, 2, 2, 3]))))
    expr = td.einsum(f"{','.join(inputs)}->{output}", *(operand(rng, rank) for rank in ranks))
    if output and rng.random() < 0.4:
        expr = rng.choice(OUTSIDE)(expr, rng.choice)
    if len(output) == 2 and rng.random() < 0.3:
        expr = td.einsum(rng.choice(["ij,jk->ik", "ji,jk->ik", "ij,ij->", "ij,ji->"]), expr, rng.choice(SYMBOLS[2]))
    return expr if output or rng.random() < 0.5 else 3 * expr * SYMBOLS[0][1] - SYMBOLS[0][0]


def values(seed):
    rng = random.Random(seed)

    def array(rank):
        return [array(rank - 1) for _ in range(SIZE)] if rank else Fraction(rng.choice([-3, -2, -1, 1, 2, 3, 5]), 2)

    return {symbol: array(symbol.rank) for symbol in ALL}


def value(expr, at):
    try:
        return np.array(evaluate(expr, at), dtype=float)
    except (ZeroDivisionError, ArgumentError):
        return None  # a quotient by 0, a singular matrix


BATCHES = [range(start, start + 60) for start in range(0, 300, 60)]


@every("seeds", BATCHES, ids=str, turns=8)
def test_text(seeds):
    names: dict = {}
    exec("from sympy_tensordiff import *", names)
    names.update({symbol.name: symbol for symbol in ALL})
    compared = 0
    for seed in seeds:
        expr, at = expression(seed), values(seed)
        expected = value(expr, at)
        if expected is None:
            continue
        again = value(eval(str(expr), names), at)
        assert again.shape == expected.shape, (seed, str(expr))
        assert np.allclose(again, expected, rtol=1e-9), (seed, str(expr))
        compared += 1
    assert compared > 40


@every("seeds", BATCHES, ids=str)
def test_matrix_notation_in_latex(seeds):
    compared = 0
    for seed in seeds:
        expr, at = expression(seed), values(seed)
        expected, formula = value(expr, at), latex(expr)
        if expected is None or any(sign in formula for sign in (r"\sum", r"\left[", "*_")):
            continue  # index notation
        columns = {symbol.name: np.array(at[symbol], dtype=float) for symbol in ALL}
        columns = {name: array[:, None] if array.ndim == 1 else array for name, array in columns.items()}
        read = latex_value(formula, columns, SIZE)
        read = read[:, 0] if read.shape == (SIZE, 1) else read
        assert read.shape == expected.shape, (seed, formula)
        assert np.allclose(read, expected, rtol=1e-9), (seed, formula)
        compared += 1
    assert compared > 30
