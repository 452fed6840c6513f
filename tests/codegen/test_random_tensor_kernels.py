"""Random expressions of whole tensors, built next to their values in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sympy_tensordiff as td

SIZES = dict(zip(td.indices("n m p"), (2, 3, 4), strict=True))
i, j, k = td.indices("i j k")
LIMIT = 100.0
"""Larger values are dropped: rounding errors are compared to the values."""


class Expressions:
    """A pool of expressions with their values; each step makes a new one of some in the pool."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.pool = []
        for number in range(4):
            shape = tuple(list(SIZES)[axis] for axis in self.rng.integers(0, 3, self.rng.integers(0, 4)))
            values = self.rng.uniform(-1, 1, [SIZES[extent] for extent in shape])
            self.pool.append((td.TensorSymbol(f"T{number}", shape), values))
        self.inputs = list(self.pool)
        steps = [self.product, self.product, self.sum, self.function, self.reduction, self.matrix, self.indices]
        for _ in range(self.rng.integers(3, 20)):
            made = steps[self.rng.integers(len(steps))](*self.pick())
            if made is not None and np.abs(made[1]).max() < LIMIT:
                self.pool.append(made)

    def pick(self):
        return self.pool[self.rng.integers(max(0, len(self.pool) - 6), len(self.pool))]

    def product(self, *first):
        """Any einsum of up to three operands."""
        operands = [first] + [self.pick() for _ in range(self.rng.integers(0, 3))]
        extents, inputs = {}, []
        for operand, _ in operands:
            labels = ""
            for extent in shape_of(operand):
                known = [label for label in extents if extents[label] == extent]
                if not known or self.rng.random() < 0.4:
                    known = ["abcdefghijkl"[len(extents)]]
                    extents[known[0]] = extent
                labels += known[self.rng.integers(len(known))]
            inputs.append(labels)
        output = [label for label in extents if self.rng.random() < 0.45][:3]
        subscripts = f"{','.join(inputs)}->{''.join(self.rng.permutation(output))}"
        return td.einsum(subscripts, *(e for e, _ in operands)), np.einsum(subscripts, *(v for _, v in operands))

    def sum(self, expr, value):
        if not shape_of(expr):
            return None
        same = [pair for pair in self.pool if shape_of(pair[0]) in ((), shape_of(expr))]
        other, its = same[self.rng.integers(len(same))]
        if self.rng.random() < 0.5:
            return td.TensorAdd(expr, td.TensorMul(-2, expr, other), 3), value - 2 * value * its + 3
        return td.TensorMul(expr, other, td.TensorPow(expr, 2)), value**3 * its

    def function(self, expr, value):
        name = ("sin", "tanh", "sigmoid", "softplus", "relu")[self.rng.integers(5)]
        known = {
            "sigmoid": lambda t: 1 / (1 + np.exp(-t)),
            "softplus": lambda t: np.logaddexp(0, t),
            "relu": lambda t: np.maximum(t, 0),
        }
        return getattr(td, name)(expr), known.get(name, getattr(np, name, None))(value)

    def reduction(self, expr, value):
        if not shape_of(expr):
            return None
        axis = int(self.rng.integers(value.ndim))
        if self.rng.random() < 0.5:
            return td.logsumexp(expr, axis=axis), np.log(np.exp(value).sum(axis))
        return td.softmax(expr, axis=axis), np.exp(value) / np.exp(value).sum(axis, keepdims=True)

    def matrix(self, expr, value):
        """Far from singular, not symmetric."""
        shape = shape_of(expr)
        if len(shape) == 1:
            return td.diag(expr), np.diag(value)
        if len(shape) != 2 or shape[0] != shape[1]:
            return None
        regular = td.TensorAdd(td.tanh(expr), td.einsum(",ij->ij", 5, td.DeltaTensor(shape[:1])))
        values = np.tanh(value) + 5 * np.eye(len(value))
        if self.rng.random() < 0.3:
            return td.log(td.det(regular)), np.log(np.linalg.det(values))
        return td.inv(regular), np.linalg.inv(values)

    def indices(self, expr, value):
        shape = shape_of(expr)
        if len(shape) != 2:
            return None
        if self.rng.random() < 0.5:
            swapped = td.TensorComprehension(expr[i, j] * (i + 1), (j, shape[1]), (i, shape[0]))
            return swapped, (value * np.arange(1, len(value) + 1)[:, None]).T
        squares = td.IndexedSum(expr[i, k] ** 2, (k, 0, shape[1] - 1))
        return td.TensorComprehension(squares, (i, shape[0])), (value**2).sum(1)


def shape_of(expr):
    return getattr(expr, "shape", ())


def compare(seed, backend):
    made = Expressions(seed)
    exprs, wanted = zip(*made.pool[-3:], strict=True)
    arguments = [symbol for symbol, _ in made.inputs]
    function = td.lambdify([*arguments, *SIZES], exprs, backend, temporaries=bool(seed % 3))
    found = function(*(value for _, value in made.inputs), *SIZES.values())
    for expr, result, right in zip(exprs, found, wanted, strict=True):
        assert result.shape == np.shape(right)
        np.testing.assert_allclose(result, right, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}: {expr}")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_numpy(first):
    for seed in range(first, first + 20):
        compare(seed, "numpy")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", range(1))
def test_numba(seed):
    compare(seed, "numba")
