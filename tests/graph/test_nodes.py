"""The laws of the graph: equal structure is one node, binders are closed to heights, nothing is captured."""

from fractions import Fraction

import pytest
import sympy

from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.graph.interning import breadth_first
from sympy_tensordiff.graph.nodes import Graph, ranges, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint

V = Affine.variable
N = Affine.of


def vector(graph, name="x", size=9):
    return graph.tensor(name, (N(size),))


def total(graph, body_at, name="k", low=0, high=3):
    k = graph.fresh(name)
    return graph.sum([k], [Constraint("ge", V(k) - low), Constraint("ge", high - V(k))], body_at(V(k)))


def test_substitution_that_changes_heights_closes_anew():
    graph = Graph()
    x = vector(graph)
    i = graph.fresh("i")
    guarded = graph.guard([Constraint("ge", V(i))], total(graph, lambda m: graph.read(x, [m])))
    outer = total(graph, lambda k: graph.add([graph.read(x, [k]), guarded]))
    without = graph.substitute(outer, {i: N(-1)})
    assert without is total(graph, lambda k: graph.read(x, [k]))


def test_what_sums_have_in_common_is_one_node_in_them():
    """``Z_i`` of ``Sum_i x_i Z_i`` and ``Sum_i y_i Z_i``; no variable is one of those around."""
    graph = Graph()
    x, y = vector(graph), vector(graph, "y")

    def common(at):
        return total(graph, lambda k: graph.call(sympy.exp, [graph.add([graph.read(x, [at]), graph.read(y, [k])])]))

    def outer(factor):
        return total(graph, lambda i: graph.mul([graph.read(factor, [i]), common(i)]), "i")

    opened = [graph.open_shared(outer(factor), ()) for factor in (x, y)]
    (i,), rows, body = opened[0]
    assert opened[1][:2] == ((i,), rows)
    assert common(V(i)) in set(body.args) & set(opened[1][2].args)
    assert graph.sum([i], rows, body) is outer(x)
    assert graph.open_shared(outer(x), {i})[0] != (i,)
    assert graph.open(outer(x))[0] != (i,)
    inner = total(graph, lambda k: graph.mul([graph.read(x, [V(i)]), graph.read(y, [k])]), "i")
    assert graph.open_shared(inner, ())[0] != (i,)  # which is free in it


def test_shapes_of_element_wise_nodes():
    graph = Graph()
    matrix = graph.tensor("A", (N(9), N(9)))
    with pytest.raises(ShapeError, match=r"shapes \(.*\) and \(.*\) differ; only scalars are broadcast"):
        graph.add((vector(graph), graph.one, matrix))


def over(graph, tensor, names, factor):
    """``Sum_j factor(j) tensor[i, j]`` as a tensor over i, and the sum, the read and the variables."""
    i, j = (graph.fresh(name) for name in names)
    four = Affine.of(4)
    read = graph.read(tensor, [Affine.variable(i), Affine.variable(j)])
    inner = graph.sum([j], ranges([j], [four]), graph.mul([factor(i, j), read]))
    return graph.comprehension([i], [four], inner)


@pytest.mark.parametrize("uses_outer", [False, True])
def test_a_sum_made_inside_of_closed_bodies_captures_nothing(uses_outer):
    """Passes that go up from the leaves make binders where the numbers of those around are in use."""
    graph = Graph()
    four = Affine.of(4)
    A, z = graph.tensor("A", (four, four)), graph.tensor("z", (four,))

    def nested(i, j):
        k = graph.fresh("k")
        form = Affine.variable(i if uses_outer else j)
        return graph.sum([k], ranges([k], [four]), graph.mul([graph.read(z, [Affine.variable(k)]), graph.index(form)]))

    expected = over(graph, A, "ij", nested)
    plain = over(graph, A, "ij", lambda i, j: graph.one)
    total = plain.args[0]
    (read,) = (node for node in reachable(plain) if node.op == "read")
    outer, inner = (form.terms[0][0] for form in read.data)
    again = graph.with_args(plain, [graph.with_args(total, [graph.mul([nested(outer, inner), read])])])
    assert again is expected


def test_a_binder_over_nothing_of_its_own_keeps_what_is_bound_around_it():
    graph = Graph()
    four = Affine.of(4)
    x = graph.tensor("x", (four,))
    i, j = graph.fresh("i"), graph.fresh("j")
    table = graph.comprehension([i], [four], graph.read(x, [Affine.variable(i)]))
    closed = table.args[0]  # x at the variable that the table binds
    constant = graph.comprehension([j], [four], closed)
    assert constant is not table
    assert constant.free == closed.free


def test_cofactors_over_the_determinant_of_a_diagonal_are_its_inverse():
    graph = Graph()
    matrix = graph.scale(2, graph.delta((Affine.of(3),)))
    divisor = graph.pow(graph.cofactor(0, matrix), graph.const(-1))
    quotient = graph.ein(1, [(graph.cofactor(1, matrix), (0, 1)), (divisor, ())], (0, 1))
    assert quotient is graph.inverse(matrix) is graph.scale(Fraction(1, 2), graph.delta((Affine.of(3),)))
    total = graph.ein(1, [(graph.cofactor(1, matrix), (0, 1)), (divisor, ())], ())
    assert total is graph.const(Fraction(3, 2))


def test_walks_leave_out_what_is_known_and_begin_near():
    graph = Graph()
    a, b = graph.scalar("a"), graph.scalar("b")
    inner = graph.add((a, b))
    root = graph.pow(graph.mul((inner, graph.call(sympy.sin, (inner,)))), graph.const(Fraction(1, 2)))
    assert reachable(root, known={inner}) == [n for n in reachable(root) if n not in (inner, a, b)]
    assert reachable(inner, known={inner}) == []
    order = list(breadth_first(root, lambda node: () if node is inner else node.args))
    product, half = root.args
    assert order == [root, product, half, *product.args]
