"""Products of matrices in compiled modules: which arrays are copied, and what comes out."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from as_python import as_python
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.codegen.lower import materialise

SIZES = {"i": 3, "j": 4, "k": 5, "l": 2, "a": 6, "b": 7, "c": 3, "d": 2}

PRODUCTS = {
    "ij,jk->ik": 0, "ij,jk->ki": 0, "ij,kj->ik": 0, "ji,jk->ki": 0, "ji,kj->ik": 0, "ij,j->i": 0, "i,ij->j": 0,
    "ij,ij->": 0, "i,i->": 0, "bij,bjk->bik": 0, "bij,bkj->bik": 0, "bij,bj->bi": 0, "abij,abjk->abik": 0,
    "ijk,jkl->il": 0, "jki,jkl->il": 0, "ijk,lk->lij": 0, "ij,jkl->ikl": 0,
    "iji,jk->ik": 1, "ijk,kjl->il": 1, "ijb,bkj->bik": 1, "ibj,bjk->bik": 1, "bij,bjk->ibk": 1, "ij,ji->": 1,
    "ijb,bkj->kbi": 2, "iaj,jbk->abik": 2, "iji,j->i": 1, "ll,ilj->ji": 2,
}  # fmt: skip
"""How many arrays are copied, operands or results."""


def operands(spec):
    shapes = [tuple(SIZES[letter] for letter in word) for word in spec.partition("->")[0].split(",")]
    return [td.TensorSymbol(name, shape) for name, shape in zip("xy", shapes, strict=True)], shapes


@every("spec", [*PRODUCTS])
@every("factor", [1, -3])
def test_product(monkeypatch, spec, factor):
    monkeypatch.setattr(materialise, "MAX_SMALL_PRODUCT", 0)
    source = compared(spec, factor)
    assert len(re.findall(r"np\.dot\(", source)) == 1
    assert len(re.findall(r"(?:_ordered|product) = np\.empty", source)) == PRODUCTS[spec]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_products(start):
    """Operands with diagonals, axes that one of them has alone, and results in any order."""
    for seed in range(start, start + 20):
        chosen = random.Random(seed)
        words = ["".join(chosen.choices("ijkl", k=chosen.choice([1, 2, 3, 4]))) for _ in "xy"]
        letters = sorted(set("".join(words)))
        compared(",".join(words) + "->" + "".join(chosen.sample(letters, chosen.randint(0, len(letters)))), 3)


def compared(spec, factor):
    """The text for a product, whose values are those of NumPy."""
    tensors, shapes = operands(spec)
    # A single call would be one of NumPy's, from Python.
    source = td.generate_code(tensors, (factor * td.einsum(spec, *tensors), tensors[0] + tensors[0]))
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, shape).astype(np.float32) for shape in shapes]
    expected = factor * np.einsum(spec, *values)
    out, doubled = np.full(expected.shape, np.nan, np.float32), np.zeros(shapes[0], np.float32)
    as_python(source)(*values, out, doubled)
    np.testing.assert_array_equal(doubled, 2 * values[0])
    np.testing.assert_array_equal(out, expected)
    return source


def test_compiled():
    specs = ["jki,jkl->il", "bij,bkj->bik", "ij,j->i", "ij,ij->", "ijb,bkj->kbi"]
    args, exprs, values = [], [], []
    rng = np.random.default_rng(0)
    for number, spec in enumerate(specs):
        for letter, shape in zip("xy", operands(spec)[1], strict=True):
            args.append(td.TensorSymbol(f"{letter}{number}", shape))
            values.append(rng.uniform(-1, 1, shape))
        exprs.append((-1) ** number * (number + 1) * td.einsum(spec, *args[-2:]))
    function = td.lambdify(args, tuple(exprs))
    for number, (spec, found) in enumerate(zip(specs, function(*values), strict=True)):
        expected = (-1) ** number * (number + 1) * np.einsum(spec, *values[2 * number : 2 * number + 2])
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        assert type(found) is type(expected)


def test_one_function_is_compiled_where_that_can_be():
    x, y = td.TensorSymbol("x", (3, 3)), td.TensorSymbol("y", (3, 3))
    compiled = r"@njit.*\n *def (\w+)"
    source = td.generate_code([x, y], td.exp(x @ y))
    assert re.findall(compiled, source) == ["run"]
    assert re.findall(r"@register_jitable.*\n *def (\w+)", source) == ["fill_t", "fill_result"]
    assert re.findall(compiled, td.generate_code([x, y], td.exp(x + y))) == ["fill_result"]
    assert re.findall(compiled, td.generate_code([x, y], x @ y)) == []
    assert "\ncompiled: one function\n" in td.lambdify([x, y], td.exp(x @ y)).plan
    assert "\ncompiled: nothing\n" in td.lambdify([x, y], x @ y, "numba").plan
    assert "\ncompiled: one function\n" in td.lambdify([x, y], x @ y).plan
    function = td.lambdify([x, y], td.exp(td.inv(x) @ y))
    assert "compiled: each kernel, called from Python, since the library call for t cannot be" in function.plan
    source = function.source
    assert re.findall(compiled, source) == ["fill_result"]
    assert "register_jitable" not in source
    assert 'with np.errstate(all="ignore"):' in source
