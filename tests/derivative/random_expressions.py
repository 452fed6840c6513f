"""Random expressions of whole tensors, that can be built in a graph in any order of operands and terms."""

import sympy

from sympy_tensordiff.integer.affine import Affine

SIZES = (2, 3, 4)
LEAVES = {
    "s": (), "r": (), "a": (0,), "b": (1,), "c": (2,), "d": (1,), "A": (0, 1), "B": (1, 2), "M": (1, 1), "N": (2, 2),
}  # fmt: skip
KINDS = ["product", "product", "product", "sum", "sum", "common", "call", "call", "power", "softmax", "logistic", "inv"]


def random_expression(rng, steps):
    """A nested tuple ``(shape, kind, data, parts)``; parts that are the same object are shared."""
    pool = [(shape, "leaf", name, ()) for name, shape in LEAVES.items()]
    for _ in range(steps):
        pool.append(_step(rng, pool))
    return _total(pool[-3:])


def _total(parts):
    return ((), "add", None, tuple(((), "ein", (1, (tuple(range(len(p[0]))),), ()), (p,)) for p in parts))


def _some(rng, pool, condition=lambda part: True):
    candidates = [part for part in pool[-7:] + pool[: len(LEAVES)] if condition(part)]
    return candidates[rng.integers(len(candidates))]


def _step(rng, pool):
    kind = rng.choice(KINDS)
    part = _some(rng, pool)
    shape = part[0]
    own = tuple(range(len(shape)))
    if kind == "product":
        return _product(rng, pool)
    if kind == "sum":
        others = [_some(rng, pool, lambda p: p[0] == shape) for _ in range(rng.integers(1, 4))]
        return (shape, "add", None, (part, *(_scaled(p, rng.choice([-1, 1, 2]).item()) for p in others)))
    if kind == "common":
        factor = _some(rng, pool, lambda p: p[0] == () or p[0] == shape)
        others = [_some(rng, pool, lambda p: p[0] == shape) for _ in range(2)]
        labels = own if factor[0] else ()
        terms = [(shape, "ein", (c, (labels, own), own), (factor, p)) for c, p in zip((1, -1), others, strict=True)]
        return (shape, "add", None, tuple(terms))
    if kind == "call":
        function = (sympy.tanh, sympy.sin)[rng.integers(2)]
        if len(shape) == 2 and rng.random() < 0.3:
            part, shape = (shape[::-1], "ein", (1, (own,), own[::-1]), (part,)), shape[::-1]
        return (shape, "call", function, (part,))
    if kind == "power":
        return (shape, "pow", 2, (part,))
    exponential = (shape, "call", sympy.exp, ((shape, "call", sympy.tanh, (part,)),))
    if kind == "softmax" and shape:
        total = (shape[1:], "ein", (1, (own,), own[1:]), (exponential,))
        if rng.random() < 0.3:
            return (shape[1:], "call", sympy.log, (total,))
        return (shape, "ein", (1, (own, own[1:]), own), (exponential, (shape[1:], "pow", -1, (total,))))
    if kind == "logistic":
        total = (shape, "add", None, (exponential, ((), "number", 1, ())))
        if rng.random() < 0.3:
            return (shape, "call", sympy.log, (total,))
        inverse = (shape, "pow", -1, (total,))
        return inverse if rng.random() < 0.5 else (shape, "ein", (1, (own, own), own), (exponential, inverse))
    matrix = _some(rng, pool, lambda p: p[1] == "leaf" and len(p[0]) == 2 and p[0][0] == p[0][1])
    return (matrix[0], "inv", None, (matrix,))


def _scaled(part, factor):
    own = tuple(range(len(part[0])))
    return (part[0], "ein", (factor, (own,), own), (part,))


def _product(rng, pool):
    parts, labels, extents = [], [], []
    for _ in range(rng.integers(1, 5)):
        part = _some(rng, pool)
        own = []
        for extent in part[0]:
            fitting = [label for label, known in enumerate(extents) if known == extent]
            if fitting and rng.random() < 0.7:
                own.append(fitting[rng.integers(len(fitting))])
            else:
                own.append(len(extents))
                extents.append(extent)
        parts.append(part)
        labels.append(tuple(own))
    output = tuple(label for label in range(len(extents)) if rng.random() < 0.4)[:2]
    shape = tuple(extents[label] for label in output)
    product = (shape, "ein", (rng.choice([1, 1, -1, 3]).item(), tuple(labels), output), tuple(parts))
    return (shape, "call", sympy.tanh, (product,)) if rng.random() < 0.3 else product


def build(graph, expression, shuffled=lambda parts: parts, renamed=lambda name: name):
    """The node of an expression and the leaves by name; ``shuffled`` is applied to operands and to terms."""
    leaves = {}
    for name in shuffled(list(LEAVES)):
        leaves[name] = graph.tensor(renamed(name), tuple(Affine.of(SIZES[k]) for k in LEAVES[name]))
    done = {}

    def visit(part):
        if id(part) not in done:
            done[id(part)] = make(part)
        return done[id(part)]

    def make(part):
        _, kind, data, parts = part
        if kind == "leaf":
            return leaves[data]
        if kind == "number":
            return graph.const(data)
        if kind == "ein":
            coefficient, labels, output = data
            operands = [(visit(p), own) for p, own in shuffled(list(zip(parts, labels, strict=True)))]
            return graph.ein(coefficient, operands, output)
        args = [visit(p) for p in (shuffled(list(parts)) if kind == "add" else parts)]
        if kind == "add":
            return graph.add(args)
        if kind == "pow":
            return graph.pow(args[0], graph.const(data))
        return graph.inverse(args[0]) if kind == "inv" else graph.call(data, args)

    return visit(expression), leaves
