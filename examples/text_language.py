"""The language of the thesis, and graphs.

Lippmann's thesis, *Designing and Implementing a Tensor Calculus* (Jena, 2022),
differentiates text. Its example is `sin(v) + cos(sin(v))`: the sine is one node of a
graph with two ways to the top, and reverse mode adds what comes down both of them
before it goes on.
"""

# %%
# ## The function
#
# `declare` says how many axes a tensor has; their sizes follow from the expression.

import numpy as np
from matplotlib import pyplot as plt

import sympy_tensordiff as td

parsed = td.parse("declare v 1 expression sin(v) + cos(sin(v)) derivative wrt v")
parsed.expression

# %%
# ## Its derivative
#
# A vector by a vector is a matrix, here a diagonal one.

derivative = parsed.derivative()
derivative

# %%
# It is text again, in which `delta(1)` is the unit matrix, and can be written in index
# notation:

print(td.to_text(derivative))
derivative.rewrite(td.IndexedSum)

# %%
# ## The graph
#
# On the left the expression, on the right its derivative as the reverse sweep makes it.
# A pullback has the colour of the node that it belongs to: that of the sine is a sum of
# two, one from each way.

td.draw_graph(parsed)

# %%
# ## The kernel
#
# The other functions of the thesis are treated alike. Each is run on random arrays and
# compared with central differences of its expression; the formula is that of the last,
# which is logistic regression.

others = [
    "declare A 2 x 1 expression (A + 1) *(ij,j->i) x derivative wrt A",
    "declare A 2 x 1 expression x *(i,i->) (A *(ij,j->i) x) derivative wrt x",
    "declare X 2 expression log(det(X)) derivative wrt X",
    "declare X 2 y 1 w 1 "
    "expression (i->) log(1 + exp(-(y *(i,i->i) (X *(ij,j->i) w)))) derivative wrt w",
]
rng = np.random.default_rng(0)


def random_arrays(parsed):
    """Matrices are near the unit matrix, so that logarithms of determinants exist."""
    arrays = [
        0.2 * rng.standard_normal((4,) * tensor.rank)
        for tensor in parsed.tensors.values()
    ]
    return [array + np.eye(4) if array.ndim == 2 else array for array in arrays]


def largest_difference(parsed):
    tensors = list(parsed.tensors.values())
    run = td.lambdify(tensors, (parsed.expression, parsed.derivative()), "numpy")
    arrays, place = random_arrays(parsed), tensors.index(parsed.argument)
    _, slope = run(*arrays)
    differences = []
    for entry in np.ndindex(arrays[place].shape):
        both = []
        for step in (1e-5, -1e-5):
            moved = [array.copy() for array in arrays]
            moved[place][entry] += step
            both.append(run(*moved)[0])
        differences.append((both[0] - both[1]) / 2e-5)
    expected = np.stack(differences, axis=-1).reshape(slope.shape)
    return np.abs(slope - expected).max()


for text in others:
    problem = td.parse(text)
    difference = largest_difference(problem)
    print(text)
    print(f"    {td.to_text(problem.derivative())}")
    print(f"    largest difference {difference:.0e}")
    assert difference < 1e-7
problem.derivative()

# %%
# ## The result
#
# The function of the thesis and its derivative, entry by entry of a long vector, and
# central differences:

v = np.linspace(-4, 4, 200)
value, jacobian = td.lambdify(
    list(parsed.tensors.values()), (parsed.expression, derivative), "numpy"
)(v)
slope = np.diag(jacobian)
expected = (
    np.sin(v + 1e-5)
    + np.cos(np.sin(v + 1e-5))
    - np.sin(v - 1e-5)
    - np.cos(np.sin(v - 1e-5))
) / 2e-5
assert np.allclose(slope, expected, atol=1e-8)
assert np.count_nonzero(jacobian) == len(v)

figure, axis = plt.subplots(figsize=(9, 3.2), layout="constrained")
axis.plot(v, value, label="sin(v) + cos(sin(v))")
axis.plot(v, slope, label="derivative: the diagonal of the Jacobian")
axis.plot(v[::8], expected[::8], ".", color="black", label="central differences")
axis.axhline(0, color="black", lw=0.8)
axis.set(xlabel="v", ylim=(-1.6, 3.2))
axis.legend(loc="upper left", fontsize=9)
plt.show()
