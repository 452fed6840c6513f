"""The size of derivatives: linear in that of the function, with small constants (Lippmann 2022, section 4.8)."""

import numpy as np
import pytest
import sympy
from every import every
from tensor_graphs import random_graph, size

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.derivative.tensor_sweep import TensorSweep
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.integer.affine import Affine

TABLE = 8
"""The size of a function of the thesis's table 4.1 and its gradient, relative to that of the function."""

ANY = 11
"""The same for any other function."""

PRODUCT = 36
"""The same for a Hessian-vector product, which is the gradient of a gradient."""


def names(count):
    return [f"p{n}" for n in range(count)]


def gradients(graph, root, leaves):
    sweep = TensorSweep(graph, leaves, frozenset(), names).start(root, graph.one)
    return [sweep.of(leaf) for leaf in leaves]


def growth(graph, root, leaves):
    return size(root, *gradients(graph, root, leaves)) / size(root)


def product_growth(graph, root, leaf):
    """The growth of a function with its gradient and a Hessian-vector product."""
    (gradient,) = gradients(graph, root, [leaf])
    labels = range(len(leaf.shape))
    slope = graph.ein(1, [(gradient, labels), (graph.tensor("direction", leaf.shape), labels)], ())
    return size(root, gradient, *gradients(graph, slope, [leaf])) / size(root)


def total(graph, node):
    return graph.ein(1, [(node, range(len(node.shape)))], ())


def matrix(graph, name="x"):
    n = Affine.variable(graph.fresh("n"))
    return graph.tensor(name, (n, n))


def applied(function):
    return lambda graph, x: graph.call(function, (x,))


FUNCTIONS = (
    *(sympy.sin, sympy.cos, sympy.tan, sympy.asin, sympy.acos, sympy.atan),
    *(sympy.exp, sympy.log, sympy.tanh, sympy.Abs, sympy.sign),
)
TABLE_4_1 = {
    **{function.__name__: applied(function) for function in FUNCTIONS},
    "negative": lambda graph, x: graph.scale(-1, x),
    "relu": lambda graph, x: graph.call(sympy.Max, (x, graph.zero)),
    # Reciprocals and inverses of themselves vanish; those of shifted ones do not.
    "reciprocal": lambda graph, x: graph.pow(graph.add((x, graph.one)), graph.const(-1)),
    "inverse": lambda graph, x: graph.inverse(graph.add((x, graph.tensor("a", x.shape)))),
    "determinant": lambda graph, x: graph.mul((graph.cofactor(0, x), graph.tensor("a", x.shape))),
}
OTHERS = {
    "sum": lambda graph, x: graph.add((x, graph.tensor("a", x.shape))),
    "base": lambda graph, x: graph.pow(x, graph.tensor("a", x.shape)),
    "exponent": lambda graph, x: graph.pow(graph.tensor("a", x.shape), x),
    "power of itself": lambda graph, x: graph.pow(x, x),
    "product": lambda graph, x: graph.mul((x, graph.tensor("a", x.shape), graph.tensor("b", x.shape))),
    "matrix product": lambda graph, x: graph.ein(1, [(x, "ij"), (graph.tensor("a", x.shape), "jk")], "ik"),
    "square of a matrix": lambda graph, x: graph.ein(1, [(x, "ij"), (x, "jk")], "ik"),
    "adjugate": lambda graph, x: graph.cofactor(1, x),
    "log-sum-exp": lambda graph, x: graph.broadcast(graph.logsumexp((0, 1), x), x.shape),
    "level": lambda graph, x: level(graph, x),
}


def level(graph, y):
    return graph.add([graph.mul([graph.call(sympy.sin, (y,)), graph.call(sympy.cos, (y,))]), y])


def chained(function, depth):
    """The sum over all entries of a function that is applied again and again."""
    graph = Graph()
    x = y = matrix(graph)
    for _ in range(depth):
        y = function(graph, y)
    return graph, total(graph, y), x


@every("depth", [1, 2, 10, 400])
@every("name", list(TABLE_4_1))
def test_a_function_of_the_table_grows_by_eight_at_most(name, depth):
    graph, root, x = chained(TABLE_4_1[name], depth)
    assert growth(graph, root, [x]) <= TABLE


@every("depth", [1, 2, 10, 100])
@every("name", list(OTHERS))
def test_any_other_function(name, depth):
    graph, root, x = chained(OTHERS[name], depth)
    assert growth(graph, root, [x]) <= ANY


@every("name", [*TABLE_4_1, *OTHERS], turns=8)
def test_products_with_the_hessian_grow_linearly(name):
    sizes = {}
    for depth in (1, 40, 80):
        graph, root, x = chained({**TABLE_4_1, **OTHERS}[name], depth)
        sizes[depth] = product_growth(graph, root, x)
    assert max(sizes.values()) <= PRODUCT
    assert sizes[80] <= 1.1 * sizes[40]


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", range(2))
def test_random_graphs(seed):
    rng = np.random.default_rng(seed)
    found = []
    for count in (250, 500, 1000, 2000):
        graph, _, variables, nodes, root = random_graph(rng, count)
        root = graph.add([root, *(total(graph, node) for node in nodes)])
        assert size(root) > 2 * count
        found.append(growth(graph, root, variables))
    assert max(found) <= ANY


def test_a_random_graph_with_products_of_its_hessian():
    graph, _, variables, _, root = random_graph(np.random.default_rng(7), 1000)
    assert product_growth(graph, root, variables[4]) <= PRODUCT


def test_a_chain_of_thousands():
    graph, root, x = chained(applied(sympy.tanh), 3_000)
    assert growth(graph, root, [x]) <= TABLE


def test_products_along_a_deep_chain_of_matrices():
    """``W1 W2 … Wn x`` by all of them: the cotangents are vectors, each the one before times a matrix."""
    graph = Graph()
    y = x = graph.tensor("x", (Affine.variable(graph.fresh("n")),))
    weights = [graph.tensor(f"W{layer}", (*x.shape, *x.shape)) for layer in range(1000)]
    for weight in weights:
        y = graph.ein(1, [(weight, "ij"), (y, "j")], "i")
    results = gradients(graph, total(graph, y), [x, *weights])
    assert growth(graph, total(graph, y), [x, *weights]) <= 4
    assert not [node for node in reachable(*results) if [len(arg.shape) for arg in node.args].count(2) > 1]


def test_scalars_along_a_chain():
    """Products of scalars are flat, but not those of all slopes along a chain."""
    found = {}
    for depth in (200, 400):
        graph = Graph()
        y = graph.tensor("x", ())
        leaves = [y]
        for layer in range(depth):
            leaves.append(graph.tensor(f"w{layer}", ()))
            y = graph.mul((graph.call(sympy.sin, (y,)), leaves[-1]))
        found[depth] = growth(graph, y, leaves)
        assert found[depth] <= ANY
    assert found[400] <= 1.05 * found[200]


@pytest.mark.parametrize("parents", [10, 1000])
def test_shared_nodes(parents):
    graph = Graph()
    x = matrix(graph)
    shared = graph.call(sympy.exp, (x,))
    terms = [graph.call(sympy.Function(f"f{n}"), (shared,)) for n in range(parents)]
    assert growth(graph, total(graph, graph.add(terms)), [x]) <= TABLE


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("count", [2, 3, 8, 75, 300])
def test_products_of_many_operands(count, shared):
    """The products that leave out one operand share their halves: size K log K, not K squared."""
    graph = Graph()
    x = graph.tensor("x", (Affine.variable(graph.fresh("n")),))
    if shared:
        leaves, operands = [x], [graph.call(sympy.Function(f"f{n}"), (x,)) for n in range(count)]
    else:
        leaves = operands = [graph.tensor(f"x{n}", x.shape) for n in range(count)]
    root = graph.ein(1, [(operand, "i") for operand in operands], "")
    assert growth(graph, root, leaves) <= TABLE


def test_chains_of_matrices_in_one_product():
    graph = Graph()
    n = Affine.variable(graph.fresh("n"))
    matrices = [graph.tensor(f"x{k}", (n, n)) for k in range(300)]
    root = graph.ein(1, [(matrix, (k, k + 1)) for k, matrix in enumerate(matrices)], ())
    assert growth(graph, root, matrices) <= TABLE


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_forty_levels_of_sharing(shape):
    graph = Graph()
    n = Affine.variable(graph.fresh("n"))
    x = y = graph.tensor("x", (n,) * shape)
    for _ in range(40):
        y = level(graph, y)
    assert growth(graph, total(graph, y), [x]) <= TABLE
    assert product_growth(graph, total(graph, y), x) <= PRODUCT


def test_a_jacobian_grows_as_the_gradient_does():
    """Along a chain of element-wise functions it is a diagonal until the end."""
    graph = Graph()
    x = y = graph.tensor("x", (Affine.variable(graph.fresh("n")),))
    for _ in range(100):
        y = level(graph, y)
    sweep = TensorSweep(graph, [x], frozenset(), names).start(y, graph.delta(y.shape), y.shape)
    assert size(y, sweep.of(x)) <= TABLE * size(y)


@pytest.mark.parametrize(
    "choice",
    [
        lambda t: sympy.Piecewise((sympy.log(t), t > 0), (t, True)),
        lambda t: sympy.Piecewise((t * sympy.log(t), t > 0), (t, True)),
        lambda t: sympy.Piecewise((t * sympy.log(t) * sympy.sqrt(t), t > 1), (sympy.sin(t), t > 0), (t, True)),
    ],
)
def test_chains_of_choices_grow_linearly(choice):
    """Each level chooses between slopes; a choice in a choice is multiplied once, not once for each branch."""

    def nodes(depth):
        y = td.TensorSymbol("x", td.indices("n"))
        leaf = y
        for _ in range(depth):
            y = td.elementwise(choice, y)
        work = Differentiation(td.sum(y))
        return len(reachable(*work.pullbacks([work.leaf(leaf)], work.graph.one)))

    sizes = [nodes(depth) for depth in (4, 8, 12)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
