"""Random products of dense tensors with sparse ones, whose entries are zero unless an equation of indices holds."""

from __future__ import annotations

import random

import sympy
from sympy import KroneckerDelta

import sympy_tensordiff as td

i, j, k, n = td.indices("i j k n")
VECTORS = [td.TensorSymbol(name, n) for name in "uvw"]
MATRICES = [td.TensorSymbol(name, (n, n)) for name in "ABC"]
EQUATIONS = {
    2: [
        KroneckerDelta(i, j + 1),
        KroneckerDelta(i + j, n - 1),
        KroneckerDelta(i, 2 * j),
        KroneckerDelta(i, j),
        KroneckerDelta(i, j) + KroneckerDelta(i, j + 2),
    ],
    3: [
        KroneckerDelta(i, j + k),
        KroneckerDelta(i, j),
        KroneckerDelta(i + 1, k),
        KroneckerDelta(i, j) * KroneckerDelta(j, k),
        KroneckerDelta(i + j, k + 1),
    ],
}


def sparse(r, axes):
    """A sparse tensor with so many axes."""
    factor = r.choice([1, td.TensorSymbol("g", n)[i], td.TensorSymbol("G", (n, n))[i, j]])
    return td.TensorComprehension(r.choice(EQUATIONS[axes]) * factor, *((index, n) for index in (i, j, k)[:axes]))


def dense(r, axes):
    """A dense vector or matrix, perhaps a function or a product of matrices."""
    if axes == 1:
        vector = r.choice(VECTORS)
        return r.choice([vector, td.tanh(r.choice(MATRICES) @ vector)])
    one, other = r.choices(MATRICES, k=2)
    return r.choice([one, td.tanh(one), one @ other])


def product(r):
    """A product of two to five tensors, one or two of them sparse, that share axes."""
    count = r.randint(2, 5)
    places = r.sample(range(count), r.choice([1, 1, 2]))
    operands, labels, used = [], [], [r.choice("abcdef")]
    for place in range(count):
        axes = r.choice([2, 2, 3] if place in places else [1, 2, 2])
        first = r.choice(used)
        own = [first, *r.sample(sorted(set("abcdef") - {first}), axes - 1)]
        r.shuffle(own)
        used += own
        labels.append("".join(own))
        operands.append(sparse(r, axes) if place in places else dense(r, axes))
    output = r.sample(sorted(set(used[1:])), r.choice([0, 1, 1, 2]))
    return td.einsum(f"{','.join(labels)}->{''.join(output)}", *operands)


def random_product(seed):
    """A scalar with such a product, and a variable of it."""
    r = random.Random(seed)
    value = product(r)
    value = td.sum(r.choice([td.tanh, td.exp, lambda x: x, lambda x: x**2])(value)) if value.shape else sympy.exp(value)
    return value, r.choice(sorted(value.atoms(td.TensorSymbol), key=str) or VECTORS)
