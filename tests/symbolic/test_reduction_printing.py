"""Products, maxima and minima over ranges as a person writes them."""

from every import every
from sympy import Eq, Idx, Max, Min, Piecewise, latex, pretty, sqrt

import sympy_tensordiff as td

i, j, k, n, m, p = td.indices("i j k n m p")
A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", n)
I = Idx("i", n)
product = td.IndexedProduct(x[i], (i, 0, n - 1))
greatest = td.IndexedMax(x[i], (i, 0, n - 1))

LATEX = {
    "product": (product, r"\prod_{i=0}^{n - 1} x_{i}"),
    "of a sum of terms": (td.IndexedProduct(1 + x[i], (i, p, 4)), r"\prod_{i=p}^{4} \left(x_{i} + 1\right)"),
    "several limits": (
        td.IndexedProduct(A[i, k] * x[i], (k, 0, i), (i, 0, n - 1)),
        r"\prod_{i=0}^{n - 1} \prod_{k=0}^{i} A_{i k} x_{i}",
    ),
    "greatest": (greatest, r"\max_{0 \le i < n} x_{i}"),
    "least, of a number of them": (td.IndexedMin(x[i], (i, 1, 3)), r"\min_{1 \le i \le 3} x_{i}"),
    "up to another index": (
        td.IndexedMax(A[i, k], (k, 0, i - 1), (i, 0, n - 2)),
        r"\max_{0 \le i \le n - 2,\, 0 \le k < i} A_{i k}",
    ),
    "bounds of bounds": (
        td.IndexedMin(x[i], (i, Max(0, p - 2), Min(4, p))),
        r"\min_{\max\left(0, p - 2\right) \le i \le \min\left(4, p\right)} x_{i}",
    ),
    "an opposite": (td.IndexedMax(-x[i], (i, 0, n - 1)), r"\max_{0 \le i < n} \left(- x_{i}\right)"),
    "Idx": (td.IndexedMax(x[I], I), r"\max_{0 \le i < n} x_{i}"),
    "a factor in front": (greatest * product, r"\left(\max_{0 \le i < n} x_{i}\right) \prod_{i=0}^{n - 1} x_{i}"),
    "a power": (greatest**2, r"\left(\max_{0 \le i < n} x_{i}\right)^{2}"),
    "a root": (sqrt(product), r"\sqrt{\prod_{i=0}^{n - 1} x_{i}}"),
    "greatest of least": (
        td.IndexedMin(td.IndexedMax(A[i, k], (k, 0, i)), (i, 0, n - 1)),
        r"\min_{0 \le i < n} \; \max_{0 \le k \le i} A_{i k}",
    ),
    "how many are greatest": (
        1 / td.IndexedSum(Piecewise((1, Eq(x[i], greatest)), (0, True)), (i, 0, n - 1)),
        r"\frac{1}{\sum_{i=0}^{n - 1} \left[x_{i} = \max_{0 \le i < n} x_{i}\right]}",
    ),
    "how much is greatest": (
        td.IndexedSum(Piecewise((x[p], Eq(x[i], 0)), (0, True)), (i, 0, 1)),
        r"\sum_{i=0}^{1} \begin{cases} x_{p} & \text{for}\: x_{i} = 0 \\0 & \text{otherwise} \end{cases}",
    ),
    "in a sum": (
        td.IndexedSum(td.IndexedMax(A[i, j] - x[i], (j, 0, m - 1)), (i, 0, n - 1)),
        r"\sum_{i=0}^{n - 1} \max_{0 \le j < m} \left(A_{i j} - x_{i}\right)",
    ),
}

PRETTY = """
n - 1           
─┬─┬─           
 │ │  (x[i] + 1)
 │ │            
i = 0           
""".strip("\n")  # fmt: skip

MAXIMUM = """
   max    x[i]
0 ≤ i < n     
""".strip("\n")  # fmt: skip

ASCII = """
                  n - 1     
                  _____     
/   max     x[i]\\* | |  x[i]
\\0 <= i < n     /  | |      
                  i = 0     
""".strip("\n")  # fmt: skip


@every("expr, expected", LATEX.values(), ids=LATEX)
def test_latex(expr, expected):
    assert latex(expr) == expected


def test_two_dimensions():
    assert pretty(td.IndexedProduct(x[i] + 1, (i, 0, n - 1)), use_unicode=True) == PRETTY
    assert pretty(greatest, use_unicode=True) == MAXIMUM
    assert pretty(greatest * product, use_unicode=False) == ASCII
