"""Whole-tensor nodes evaluated with NumPy, and random graphs of them: an oracle of its own for the sweeps."""

from itertools import permutations

import numpy as np
import sympy

from sympy_tensordiff.graph.functions import sigmoid, softplus
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.integer.affine import Affine

FUNCTIONS = {
    sympy.exp: np.exp, sympy.log: np.log, sympy.sin: np.sin, sympy.cos: np.cos, sympy.tanh: np.tanh,
    sympy.Abs: np.abs, sympy.sign: np.sign, sympy.tan: np.tan, sympy.atan: np.arctan,
    sympy.sinh: np.sinh, sympy.cosh: np.cosh, "<": np.less,
    sigmoid: lambda x: 1 / (1 + np.exp(-x)), softplus: lambda x: np.log1p(np.exp(x)),
}  # fmt: skip


def evaluate(root, values):
    """The value of a node; ``values`` are the arrays of the variables by their nodes."""
    done = dict(values)
    for node in reachable(root):
        if node not in done:
            done[node] = _evaluate(node, [done[arg] for arg in node.args])
    return done[root]


def _evaluate(node, args):
    match node.op:
        case "const":
            return float(node.data)
        case "index":
            return float(node.data.constant)
        case "read" if not node.data:
            return args[0]
        case "add":
            return sum(args)
        case "mul":
            return np.prod(args)
        case "pow":
            return np.power(np.asarray(args[0]), args[1])
        case "call" | "compare":
            return FUNCTIONS[node.data](*args)
        case "inv" | "select":
            return {"inv": np.linalg.inv, "select": np.where}[node.op](*args)
        case "lse":
            top = np.max(np.real(args[0]), axis=node.data, keepdims=True)
            return np.log(np.sum(np.exp(args[0] - top), axis=node.data)) + np.squeeze(top, node.data)
        case "cof":
            return cofactor(node.data, args[0])
        case "ein":
            return contraction(node.data, args)
    raise AssertionError(node.op)


def contraction(data, args):
    coefficient, inputs, output, extents = data
    sizes = [extent.constant for extent in extents]
    letters = "abcdefghijklmnopqrstuvwxyz"
    distinct = list(dict.fromkeys(output))
    missing = [label for label in range(len(sizes)) if not any(label in labels for labels in inputs)]
    operands = [*args, *(np.ones(sizes[label]) for label in missing)]
    terms = [*inputs, *((label,) for label in missing)]
    text = ",".join("".join(letters[label] for label in labels) for labels in terms)
    value = np.einsum(f"{text}->{''.join(letters[label] for label in distinct)}", *operands) if terms else 1.0
    result = np.zeros([sizes[label] for label in output], np.result_type(float, value))
    for point in np.ndindex(*(sizes[label] for label in distinct)):
        where = dict(zip(distinct, point, strict=True))
        result[tuple(where[label] for label in output)] = coefficient * np.asarray(value)[point]
    return result if output else result[()]


def cofactor(order, matrix):
    """The derivative of the determinant from its sum over permutations."""
    n = len(matrix)
    result = np.zeros((n, n) * order, np.result_type(matrix))
    for permutation in permutations(range(n)):
        sign = np.linalg.det(np.eye(n)[list(permutation)])
        for rows in permutations(range(n), order):
            rest = np.prod([matrix[i, permutation[i]] for i in range(n) if i not in rows])
            result[tuple(axis for i in rows for axis in (i, permutation[i]))] += sign * rest
    return result if order else result[()]


def size(*roots):
    """Nodes and edges below nodes; a product of K operands counts as K - 1 products of two."""
    total = 0
    for node in reachable(*roots):
        operands = len(node.args)
        total += 3 * (operands - 1) if node.op in ("ein", "mul") and operands > 2 else 1 + operands
    return total


def random_graph(rng, size):
    """A graph, its variables with values, and a root: products, functions, powers, inverses over shared nodes."""
    graph = Graph()
    sizes = [Affine.of(n) for n in (2, 3, 4)]
    values, nodes = {}, []
    shapes = [(), (0,), (1,), (2,), (0, 1), (1, 2), (1, 1), (2, 2), (0, 1, 2)]
    for n, shape in enumerate(shapes):
        variable = graph.tensor(f"x{n}", tuple(sizes[k] for k in shape))
        value = rng.uniform(0.3, 0.9, [(2, 3, 4)[k] for k in shape]) * rng.choice([-1, 1])
        if shape in ((1, 1), (2, 2)):
            value = value / 3 + np.eye(len(value))
        values[variable] = value if shape else float(value)
        nodes.append(variable)
    variables = list(nodes)
    for _ in range(size):
        nodes.append(_random_node(rng, graph, nodes))
    root = graph.add([graph.ein(1, [(node, range(len(node.shape)))], ()) for node in nodes[-3:]])
    return graph, values, variables, nodes, root


def _random_node(rng, graph, nodes):
    def some(condition=lambda node: True):
        candidates = [node for node in nodes[-8:] + nodes[:9] if condition(node)]
        return candidates[rng.integers(len(candidates))]

    kind = rng.choice(["ein", "ein", "ein", "call", "add", "pow", "inv", "cof", "lse", "view"])
    node = some()
    labels = tuple(range(len(node.shape)))
    if kind == "ein":
        return _random_product(rng, graph, some)
    if kind == "call":
        return graph.call(rng.choice([sympy.sin, sympy.tanh, sympy.cos]), (node,))
    if kind == "add":
        other = some(lambda other: other.shape == node.shape)
        return graph.add([graph.scale(2, node), other, graph.one])
    if kind == "pow":
        return graph.pow(graph.add([graph.mul((node, node)), graph.one]), graph.const(rng.choice([-1, 2, 3]).item()))
    if kind in ("inv", "cof"):
        matrix = some(lambda m: len(m.shape) == 2 and m.shape[0] == m.shape[1] and m.depth < 4)
        if kind == "inv":
            return graph.inverse(matrix)
        return graph.cofactor(int(rng.integers(2)), matrix)
    if kind == "lse" and node.shape:
        return graph.logsumexp((int(rng.integers(len(node.shape))),), node)
    return graph.ein(2, [(node, labels)], labels[::-1])


def _random_product(rng, graph, some):
    operands, extents = [], {}
    for _ in range(rng.integers(1, 6)):
        node = some()
        labels = []
        for extent in node.shape:
            fitting = [label for label, known in extents.items() if known == extent]
            label = len(extents)
            if fitting and rng.random() < 0.7:
                label = fitting[rng.integers(len(fitting))]
            extents[label] = extent
            labels.append(label)
        operands.append((node, labels))
    output = [label for label in extents if rng.random() < 0.4][:3]
    if output and rng.random() < 0.15:
        output.append(output[0])
    product = graph.ein(1, operands, output)
    return graph.call(sympy.sin, (product,))
