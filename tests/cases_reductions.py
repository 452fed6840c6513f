"""Products over index ranges; factors are small integers where they are to vanish."""

from __future__ import annotations

from cases import Case, case
from sympy import Eq, Expr, KroneckerDelta, Max, Min, Piecewise, Rational, Symbol, exp, floor, log

from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedProduct as Product
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as Sum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as Tensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

i, j, k, l, n, m, p = indices("i j k l n m p")
t = Symbol("t", real=True)
x5, y5, v3 = TensorSymbol("x", 5), TensorSymbol("y", 5), TensorSymbol("v", 3)
A, B = TensorSymbol("A", (3, 3)), TensorSymbol("B", (3, 4))
x, W = TensorSymbol("x", n), TensorSymbol("W", (n, m))


def one(name: str, body: Expr, *limits: tuple[Symbol, int | Expr], by: tuple = (), **kwargs: object) -> None:
    """A case whose expression is at hand; without limits it is a scalar."""
    case(name)(lambda: Case(Tensor(body, *limits) if limits else body, by, **kwargs))


one("V20", Product(A[i, k] + A[k, i], (k, 0, 2)), (i, 3), (j, 3), by=(A,))
one("range_product", Product(x5[i], (i, 0, 4)), by=(x5,))
one("range_product_of_zeros", Product(x5[i], (i, 0, 4)), by=(x5,), values={x5: [2, 0, -3, 0, 5]})
one(
    "range_product_with_a_zero",
    Product(x5[i] + y5[i], (i, 0, 4)),
    by=(x5, y5),
    values={x5: [1, 2, 3, 4, 5], y5: [1, 2, -3, 1, 1]},
)
_x4 = TensorSymbol("x", 4)
one(
    "range_product_of_differences",
    Product(_x4[j] - _x4[i], (i, 0, j - 1), (j, 0, 3)),
    by=(_x4,),
    values={_x4: [1, 3, 1, 2]},
)
one("range_product_of_roots", Product(t - x5[k], (k, 0, 4)), by=(t, x5))
one("range_product_of_one", Product(x5[k] * t, (k, 2, 2)), by=(t, x5))
one("range_product_of_none", Product(x5[k] * t, (k, 2, 1)) * t, by=(t, x5))
one("range_product_likelihood", Product(t * exp(-t * x5[k]), (k, 0, 4)), by=(t, x5), low=0.5, high=1)
one("range_product_logarithm", log(Product(1 + W[i, j] ** 2, (j, 0, m - 1))), (i, n), by=(W,), sizes={n: 2, m: 3})
one("range_product_geometric_mean", Product(x[i], (i, 0, n - 1)) ** Rational(1, 3), by=(x,), sizes={n: 3}, low=0.5)
one("range_product_of_sums", Product(Sum(B[i, k] * x5[k], (k, 0, i)), (i, 0, 2)), by=(B, x5))
one("range_sum_of_products", Sum(Product(B[i, k] + x5[i + k], (k, 0, i)), (i, 0, 2)), by=(B, x5))
one("range_product_of_products", Product(x5[i] * Product(B[i, k] + t, (k, i, 3)), (i, 0, 2)), by=(B, x5, t))
one("range_products_multiplied", Product(x5[i] + p, (i, 0, p)) * Product(x5[i], (i, p, 4)), by=(x5,), sizes={p: 2})
one("range_product_squared", Product(x5[i] * x5[4 - i], (i, 0, 4)), by=(x5,))
one("range_product_two_places", Product(x5[i] + x5[i + 1] * x5[0], (i, 0, 3)), by=(x5,))
one("range_product_of_three", Product(x5[i + j] + v3[l] * A[i, j], (l, 0, j), (j, 0, 2), (i, 0, 1)), by=(x5, v3, A))
one("range_product_up_to", Product(x[k], (k, 0, i)), (i, n), by=(x,), sizes={n: 4})
one("range_product_window", Product(x[k], (k, Max(0, i - 1), Min(n - 1, i + 1))), (i, n), by=(x,), sizes={n: 5})
one("range_product_strided", Product(x[2 * k] - x[k], (k, 1, floor((n - 1) / 2))), by=(x,), sizes={n: 7})
one("range_product_of_a_diagonal", Product(A[i, k] + KroneckerDelta(i, k) * v3[k], (k, 0, 2)), (i, 3), by=(A, v3))
one("range_product_condition", Product(Piecewise((x5[k], k >= i), (1, True)), (k, 0, 4)), (i, 5), by=(x5,))
one("range_product_guard", Product(Piecewise((x5[k], k >= i), (0, True)), (k, 1, 4)), (i, 5), by=(x5,))
one("range_product_choice", Product(Piecewise((x5[k], x5[k] > 0), (t, True)), (k, 0, 4)), by=(x5, t))
one("range_product_at_an_index", Product(Piecewise((x5[k], Eq(k, p)), (t, True)), (k, 0, 4)), by=(x5, t), sizes={p: 2})
one("range_product_of_indices", Product(x5[k] ** k + k, (k, 0, 4)), by=(x5,))
one("range_product_in_exponent", exp(-Product(x5[k], (k, 1, 4))) * x5[0], by=(x5,), low=-1, high=1)
one("range_product_of_a_table", Product(Tensor(x5[i] ** 2 + t, (i, 5))[k], (k, 0, 4)), by=(x5, t))
