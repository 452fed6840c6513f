"""The laws of the graph: equal structure is one node, binders are closed to heights, nothing is captured."""

from fractions import Fraction

import pytest
import sympy

from sympy_tensordiff.errors import ShapeError
from sympy_tensordiff.graph.nodes import Graph, ranges, reachable
from sympy_tensordiff.integer.affine import Affine, Row

V = Affine.variable
N = Affine.of


def vector(graph, name="x", size=9):
    return graph.tensor(name, (N(size),))


def total(graph, body_at, name="k", low=0, high=3):
    k = graph.fresh(name)
    return graph.sum([k], [Row("ge", V(k) - low), Row("ge", high - V(k))], body_at(V(k)))


def test_alpha_equivalent_sums_are_one_node():
    graph = Graph()
    x = vector(graph)
    first = total(graph, lambda k: graph.read(x, [k]), "k")
    second = total(graph, lambda k: graph.read(x, [k]), "m")
    assert first is second
    assert first.free == frozenset()
    assert total(graph, lambda k: graph.read(x, [k + 1])) is not first


def test_nested_binders_of_one_name_stay_apart():
    graph = Graph()
    x, y = vector(graph, "x"), vector(graph, "y")
    nested = total(graph, lambda k: graph.mul((graph.read(x, [k]), total(graph, lambda m: graph.read(y, [k + m])))))
    (outer,), _, body = graph.open(nested)
    inner = next(node for node in reachable(body) if node.op == "sum")
    assert inner.free == {outer}
    (bound,), _, summand = graph.open(inner)
    assert summand.data == (V(outer) + V(bound),)
    assert bound != outer


def test_substitution_reaches_into_binders_and_captures_nothing():
    graph = Graph()
    x = vector(graph)
    i, j = graph.fresh("i"), graph.fresh("k")
    inner = total(graph, lambda k: graph.read(x, [k + V(i)]))
    moved = graph.substitute(inner, {i: V(j)})
    assert moved.free == {j}
    assert graph.substitute(moved, {j: V(i)}) is inner
    (bound,), _, body = graph.open(moved)
    assert body.data == (V(j) + V(bound),)


def test_substitution_that_changes_heights_closes_anew():
    graph = Graph()
    x = vector(graph)
    i = graph.fresh("i")
    guarded = graph.guard([Row("ge", V(i))], total(graph, lambda m: graph.read(x, [m])))
    outer = total(graph, lambda k: graph.add([graph.read(x, [k]), guarded]))
    without = graph.substitute(outer, {i: N(-1)})
    assert without is total(graph, lambda k: graph.read(x, [k]))


def test_opening_and_closing_is_the_identity():
    graph = Graph()
    A = graph.tensor("A", (N(3), N(4)))
    i, j = graph.fresh("i"), graph.fresh("j")
    table = graph.comprehension([i, j], [N(4), N(3)], graph.read(A, [V(j), V(i)]))
    variables, rows, body = graph.open(table)
    assert rows == ranges(variables, table.data)
    assert graph.comprehension(variables, table.data, body) is table


def test_numbers_are_collected_exactly():
    graph = Graph()
    x = graph.read(vector(graph), [N(2)])
    third = graph.const(Fraction(1, 3))
    assert graph.add([x, x, graph.neg(graph.add([x, x]))]) is graph.zero
    assert graph.add([graph.mul((third, x)), graph.mul((third, x)), graph.mul((third, x))]) is x
    assert graph.mul((x, graph.pow(x, graph.const(-1)))) is graph.one
    assert graph.const(2) is graph.const(Fraction(4, 2))
    assert graph.const(0.5) is not graph.const(Fraction(1, 2))


def test_even_roots_are_not_cancelled():
    graph = Graph()
    x = graph.read(vector(graph), [N(2)])
    square = graph.pow(x, graph.const(2))
    assert graph.pow(square, graph.const(Fraction(1, 2))) is not x
    assert graph.pow(square, graph.const(3)) is graph.pow(x, graph.const(6))


def test_guards_leave_products_and_decided_guards_vanish():
    graph = Graph()
    x = graph.read(vector(graph), [N(2)])
    i = graph.fresh("i")
    row = Row("ge", V(i) - 2)
    product = graph.mul((x, graph.guard([row], x)))
    assert product is graph.guard([row], graph.pow(x, graph.const(2)))
    assert graph.guard([Row("ge", N(-1))], x) is graph.zero
    assert graph.guard([Row("ge", N(0))], x) is x
    assert graph.substitute(product, {i: N(1)}) is graph.zero


def test_a_guard_that_is_left_of_a_case_makes_it_one_with_another_case():
    graph = Graph()
    i, j = graph.fresh("i"), graph.fresh("j")
    a, b, c = (graph.read(vector(graph), [N(n)]) for n in range(3))
    outer, inner = Row("ge", V(i) - 1), Row("ge", V(j) - 1)
    mixed = graph.guard([outer], graph.add([graph.guard([inner], a), b]))
    total = graph.add([mixed, graph.guard([outer], graph.neg(b)), graph.guard([outer, inner], c)])
    assert total is graph.guard([outer, inner], graph.add([a, c]))


def test_guards_of_a_chosen_value_stay_around_its_condition():
    graph = Graph()
    x = vector(graph)
    i = graph.fresh("i")
    read = graph.read(x, [V(i)])
    chosen = graph.select(graph.compare("lt", read, graph.one), graph.guard([Row("ge", V(i))], read), graph.zero)
    assert chosen.op == "guard" and chosen.args[0].op == "select"


def test_calls_are_interned_by_function():
    graph = Graph()
    x = graph.read(vector(graph), [N(2)])
    assert graph.call(sympy.sin, [x]) is graph.call(sympy.sin, [x])
    assert graph.call(sympy.sin, [x]) is not graph.call(sympy.cos, [x])


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
