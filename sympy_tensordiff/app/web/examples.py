"""The examples to start from."""

from __future__ import annotations

EXAMPLES: list[dict[str, str]] = [
    {
        "title": "Least squares",
        "language": "index",
        "source": "declare X[n, d], y[n], w[d]\nloss = sum((sum(X[i, j]*w[j], j) - y[i])**2, i)\nderivative wrt w",
    },
    {
        "title": "Convolution with stride and dilation",
        "language": "index",
        "source": "declare x[2*n + 3*m - 4], w[m], f[n]\nf[i] = sum(w[k]*x[2*i + 3*k], k)\nderivative wrt x",
    },
    {
        "title": "The function of the paper",
        "language": "index",
        "source": (
            "declare a[n, l], b[m, l], c[n, n], d[n + l - 1]\n"
            "f[i, j] = exp(-sum((a[i, k] + b[j, k])**2*c[i, i] + d[i + k]**3, k))\nderivative wrt d"
        ),
    },
    {
        "title": "Softmax cross-entropy",
        "language": "index",
        "source": "declare x[n], t[n]\nloss = sum(t[i]*(log(sum(exp(x[k]), k)) - x[i]), i)\nderivative wrt x",
    },
    {
        "title": "Energy of particles",
        "language": "index",
        "source": (
            "declare x[n, d]\nenergy = sum(sum((x[i, a] - x[j, a])**2, (a, 0, d - 1))**-1, "
            "(i, 0, j - 1), (j, 0, n - 1))\nderivative wrt x"
        ),
    },
    {
        "title": "Total variation",
        "language": "index",
        "source": "declare x[n]\nvariation = sum(sqrt((x[i + 1] - x[i])**2 + 1), (i, 0, n - 2))\nderivative wrt x",
    },
    {
        "title": "Attention with a causal mask",
        "language": "index",
        "source": (
            "declare q[n, d], k[n, d], v[n, e]\n"
            "out[i, c] = sum(exp(sum(q[i, a]*k[j, a], a))*v[j, c], (j, 0, i))"
            "/sum(exp(sum(q[i, a]*k[j, a], a)), (j, 0, i))\nderivative wrt v"
        ),
    },
    {
        "title": "Embedding: a gather by data",
        "language": "index",
        "source": "declare E[n, d], int word[m], g[m, d]\nloss = sum(g[s, a]*E[word[s], a]**2, a, s)\nderivative wrt E",
    },
    {
        "title": "A product with zeros",
        "language": "index",
        "source": "declare x[n]\np = prod(x[i], i)\nderivative wrt x",
    },
    {
        "title": "Quadratic form",
        "language": "text",
        "source": "declare A 2 x 1\nexpression x *(i,i->) (A *(ij,j->i) x)\nderivative wrt x",
    },
    {
        "title": "Logistic regression",
        "language": "text",
        "source": (
            "declare X 2 w 1 y 1\nexpression (i->)log(1 + exp(-(y *(i,i->i) (X *(ij,j->i) w))))\nderivative wrt w"
        ),
    },
    {
        "title": "Inverse of a matrix",
        "language": "text",
        "source": "declare A 2 b 1\nexpression b *(i,i->) (inv(A) *(ij,j->i) b)\nderivative wrt A",
    },
    {
        "title": "Logarithm of a determinant",
        "language": "text",
        "source": "declare X 2\nexpression log(det(X))\nderivative wrt X",
    },
]
