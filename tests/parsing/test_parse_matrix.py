"""Matrix formulas as text: values and derivatives by numbers, inference, ambiguity, errors."""

import math
import random
import re

import numpy as np
import pytest
import sympy
from every import every
from scipy.special import logsumexp, softmax

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, ParseError

NAMES = {"np": np, "math": math, "softmax": softmax, "logsumexp": logsumexp, **np.__dict__, **np.linalg.__dict__}
NAMES |= {"tr": np.trace}

TABLE = """
x'*A*x                                  | x @ A @ x
b'*A*x                                  | b @ A @ x
a'*X*b                                  | a @ X @ b
a'*X'*b                                 | a @ X.T @ b
a'*X*X'*a                               | a @ X @ X.T @ a
tr(A*X)                                 | tr(A @ X)
tr(A*X*B)                               | tr(A @ X @ B)
tr(X'*A*X)                              | tr(X.T @ A @ X)
tr(X'*A*X*B)                            | tr(X.T @ A @ X @ B)
tr(A*X')                                | tr(A @ X.T)
tr(X^3)                                 | tr(X @ X @ X)
tr(inv(X)*A)                            | tr(inv(X) @ A)
tr(X^-1*A)                              | tr(inv(X) @ A)
a'*inv(X)*b                             | a @ inv(X) @ b
a'*X^(-2)*b                             | a @ inv(X) @ inv(X) @ b
det(X)                                  | det(X)
log(det(X))                             | log(det(X))
logdet(X'*X)                            | log(det(X.T @ X))
det(A*X*B)                              | det(A @ X @ B)
det(X)^2                                | det(X)**2
tr(adj(X))                              | tr(det(X)*inv(X))
norm2(A*x - y)^2                        | norm(A @ x - y)**2
norm2(A*x - y)                          | norm(A @ x - y)
norm2(X)^2                              | norm(X)**2
||A*x - y||^2                           | norm(A @ x - y)**2
||A*x - ||y||*b|| + |c|*||x||           | norm(A @ x - norm(y)*b) + abs(c)*norm(x)
f(x) = x'*A*x                           | x @ A @ x
f(x, y) = ||x - y||/(1 + |c|)           | norm(x - y)/(1 + abs(c))
f = exp(-||x||^2)                       | exp(-norm(x)**2)
declare A[n, m], x[m] f (x) = A*x       | A @ x
norm1(A*x + b)                          | abs(A @ x + b).sum()
(x - b)'*inv(S)*(x - b)                 | (x - b) @ inv(S) @ (x - b)
norm2(x - a)                            | norm(x - a)
(x - a)/norm2(x - a)                    | (x - a)/norm(x - a)
sin(x)'*y                               | sin(x) @ y
exp(x)'*A*cos(x)                        | exp(x) @ A @ cos(x)
sum(log(1 + exp(-y.*(X*w))))            | log(1 + exp(-y*(X @ w))).sum()
sum(log(vector(1) + exp(-y.*(X*w))))    | log(1 + exp(-y*(X @ w))).sum()
w'*w*c/2 + sum(exp(-y.*(X*w)))          | w @ w*c/2 + exp(-y*(X @ w)).sum()
lam*norm2(w)^2 + norm2(X*w - y)^2       | lam*norm(w)**2 + norm(X @ w - y)**2
X.T @ (sigmoid(X @ w) - y)              | X.T @ (1/(1 + exp(-X @ w)) - y)
-2*A.T @ (y - A @ x)                    | -2*A.T @ (y - A @ x)
exp(-norm2(x - y)^2/(2*s^2))            | exp(-norm(x - y)**2/(2*s**2))
tr((A*X*B - C)'*(A*X*B - C))            | norm(A @ X @ B - C)**2
A*x + b                                 | A @ x + b
tanh(A*x + b)                           | tanh(A @ x + b)
x.*y                                    | x*y
x.*y./(1 + x.^2)                        | x*y/(1 + x**2)
x'*diag(y)*x                            | x @ np.diag(y) @ x
diag(A)'*x                              | np.diag(A) @ x
vector(1)'*x                            | x.sum()
A*B*x                                   | A @ B @ x
A*B'                                    | A @ B.T
x*y'                                    | outer(x, y)
declare y[n] y*x'*z                     | outer(y, x) @ z
(A + A')*x                              | (A + A.T) @ x
x'*(A.*B)*y                             | x @ (A*B) @ y
sum(A.*exp(B))                          | (A*exp(B)).sum()
2.*A.^2                                 | 2*A**2
a'*exp(X*b)                             | a @ exp(X @ b)
softmax(A*x)'*y                         | softmax(A @ x) @ y
logsumexp(A*x)                          | logsumexp(A @ x)
x'*x*eye*y                              | x @ x*y
tr((eye + X)*A)                         | tr((np.eye(3) + X) @ A)
relu(A*x)'*y                            | np.maximum(A @ x, 0) @ y
sum(sqrt(x.*x + vector(c)))             | sqrt(x*x + c).sum()
maximum(A @ x, y) @ z                   | np.maximum(A @ x, y) @ z
mean(A) + dot(x, y)                     | A.mean() + x @ y
x' * outer(y, z) * b                    | x @ outer(y, z) @ b
declare c, x[n] x @ ones(n) * c ** 2    | x.sum()*c**2
(x'*A*x)/(x'*x)                         | (x @ A @ x)/(x @ x)
transpose(A)*x - pi*x                   | A.T @ x - math.pi*x
det(eye + x*y')                         | 1 + x @ y
declare y[n] (A @ x) ** 2 / (1 + y)     | (A @ x)**2/(1 + y)
"""
FORMULAS = dict(re.split(r"\s+\| ", row) for row in TABLE.strip().splitlines())
SIZE, STEP = 3, 1e-6


def values(parsed, seed=0):
    """Positive entries, and matrices that are far from singular."""
    draw = np.random.default_rng(seed)
    return {
        name: draw.uniform(0.5, 1.5, [SIZE] * len(tensor.shape)) + (2 * np.eye(SIZE) if len(tensor.shape) == 2 else 0)
        for name, tensor in parsed.tensors.items()
    }


def evaluated(parsed, expression, arrays):
    sizes = {s: SIZE for s in expression.free_symbols if getattr(s, "is_integer", False)}
    return td.evaluate(expression, {**{tensor: arrays[name] for name, tensor in parsed.tensors.items()}, **sizes})


@every("text", list(FORMULAS), turns=8)
def test_values_and_derivatives(text):
    parsed = td.parse(text)
    arrays = values(parsed)

    def by_hand(arrays):
        return eval(FORMULAS[text], NAMES, dict(arrays))

    assert np.allclose(evaluated(parsed, parsed.expression, arrays), by_hand(arrays), rtol=1e-10)
    for name, array in arrays.items():
        direction = np.random.default_rng(1).uniform(-1, 1, array.shape)
        ends = [by_hand({**arrays, name: array + sign * STEP * direction}) for sign in (1, -1)]
        derivative = evaluated(parsed, parsed.derivative(wrt=name), arrays)
        along = np.tensordot(derivative, direction, array.ndim)
        assert np.allclose(along, (ends[0] - ends[1]) / (2 * STEP), rtol=2e-6, atol=1e-6)


@every("text", [text for text in FORMULAS if "mean" not in text], turns=8)
def test_texts_are_read_back(text):
    parsed = td.parse(text)
    again = td.parse(td.to_text(parsed, language="matrix"), language="matrix")
    assert again.tensors == parsed.tensors
    arrays = values(parsed)
    found, expected = (evaluated(parsed, p.expression, arrays) for p in (again, parsed))
    assert np.allclose(found, expected, rtol=1e-12)


INDEXED = ["x'*A*x", "A*x + b", "tr(A*X)", "norm2(A*x - y)", "sum(log(1 + exp(-y.*(X*w))))", "x*y'", "softmax(A*x)'*y"]


@every("text", INDEXED)
def test_texts_in_index_notation(text):
    parsed = td.parse(text)
    by_first = parsed.with_respect_to(next(iter(parsed.tensors)))
    again = td.parse(td.to_text(by_first, language="index"))
    assert (again.tensors, again.arguments) == (by_first.tensors, by_first.arguments)
    arrays = values(parsed)
    assert np.allclose(*(evaluated(p, p.expression, arrays) for p in (again, parsed)), rtol=1e-12)


def test_what_is_not_read_in_index_notation():
    assert td.to_text(td.parse("x'*y").expression, language="index") == "IndexedSum(x[i]*y[i], (i, 0, n - 1))"
    with pytest.raises(td.errors.UnsupportedError, match=r"to_text: td\.parse_indexed would not read the text"):
        td.to_text(td.parse("det(X) derivative wrt X"), language="index")


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "logsumexp", "softmax", "cumsum", "cumprod"])
def test_functions_along_an_axis(name):
    A = td.parse("tr(A*B)").tensors["A"]
    for axis, written in ((0, "0"), (0, "-2"), (1, "1"), (1, " -1 ")):
        parsed = td.parse(f"declare A[n, m] {name}(A, axis={written})")
        assert parsed.expression.subs(parsed.tensors["A"], A) == getattr(td, name)(A, axis=axis)
        if name in ("sum", "mean", "logsumexp", "softmax"):
            assert td.parse(f"declare A[n, m] {td.to_text(parsed.expression, 'matrix')}") == parsed


OTHER_SIZES = """
declare A[n, n], x[n] solve(A, x) | A (n, n) x (n,)
solve(A, B) @ x | A (n, n) B (n, m) x (m,)
declare x[n] flip(x) | x (n,)
declare A[n, m] flip(A) | A (n, m)
declare A[n, m] flip(A, axis=0) | A (n, m)
kron(A, B) @ x | A (n, m) B (l, p) x (m*p,)
declare x[n], y[m] kron(x, y) | x (n,) y (m,)
kron(A, B) + kron(B, A) | A (n, m) B (l, p)
reshape(x, (n, m)) @ y | x (m*n,) y (m,)
reshape(A, -1) + x | A (n, m) x (m*n,)
declare A[n, m] reshape(A, (m, n)) | A (n, m)
reshape(x, (2, 3)) @ A | x (6,) A (3, n)
"""
LENGTHS = dict(zip("nmlp", (4, 3, 2, 5), strict=True))


@every("row", OTHER_SIZES.strip().splitlines())
def test_values_of_functions_of_other_shapes(row):
    """Solutions, Kronecker products and reshaped tensors are those of NumPy; a size may be a product of two."""
    text, shapes = row.split(" | ")
    parsed = td.parse(text)
    assert " ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in parsed.tensors.items()) == shapes
    sizes = {td.indices(name): length for name, length in LENGTHS.items()}
    draw = np.random.default_rng(0)
    arrays = {
        name: draw.uniform(-1, 1, [int(sympy.sympify(extent).subs(sizes)) for extent in tensor.shape])
        for name, tensor in parsed.tensors.items()
    }
    expected = eval(re.sub(r"declare (\w+(\[[^]]*\])?,? )*", "", text), NAMES, {**LENGTHS, **arrays})
    named = {parsed.tensors[name]: array for name, array in arrays.items()}
    used = {size: length for size, length in sizes.items() if size in parsed.expression.free_symbols}
    assert np.allclose(td.evaluate(parsed.expression, {**named, **used}), expected, rtol=1e-9)


def test_a_size_is_a_number():
    parsed = td.parse("declare Q[n, d], K[m, d] softmax(Q @ K.T/sqrt(d), axis=1)")
    assert parsed.expression == td.softmax(
        parsed.tensors["Q"] @ parsed.tensors["K"].T / sympy.sqrt(td.indices("d")), axis=1
    )
    assert [*parsed.tensors] == ["Q", "K"]


def test_what_is_not_written_as_a_matrix_formula():
    by_w = td.parse("norm2(X*w - y)^2 derivative wrt w").derivative()
    three = td.parse("A*x derivative wrt A").derivative()
    with pytest.raises(td.errors.UnsupportedError, match="to_text: matrix formulas cannot say EinsumProduct"):
        td.to_text(three, language="matrix")
    assert td.to_text(td.indices("n") * td.sum(td.parse("mean(x)").tensors["x"]), language="matrix") == "n*sum(x)"
    with pytest.raises(ArgumentError, match="to_text writes the languages 'thesis', 'index' and 'matrix', not 'c'"):
        td.to_text(by_w, language="c")


READ = {
    "A*x": "A (n, m) x (m,)",
    "declare A[3, n] A*x": "A (3, n) x (n,)",
    "declare n[m] n'*x": "n (m,) x (m,)",
    "ones(k)'*x": "x (k,)",
    "a*det(X)": "a () X (n, n)",
    "A*x + b + c": "A (n, m) x (m,) b (n,) c ()",
    "sum(X)": "X (n, m)",
}


@every("text", [text for text in READ if text != "A*x + b + c"])
def test_sizes(text):
    tensors = td.parse(text).tensors
    assert " ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items()) == READ[text]


def test_arguments():
    parsed = td.parse("x'*A*x derivative wrt x derivative wrt x")
    assert [argument.name for argument in parsed.arguments] == ["x", "x"]
    assert str(parsed.derivative()) == "A + A.T"
    bare = td.parse("x'*A*x")
    assert bare.with_respect_to(("x", "x")).arguments == parsed.arguments
    assert bare.derivative(wrt=bare.tensors["x"]) == bare.derivative(wrt="x")
    assert td.parse("norm2(x)^2").derivative() == 2 * td.parse("norm2(x)^2").argument
    with pytest.raises(ArgumentError, match="the text does not say what to differentiate with respect to: give wrt="):
        bare.derivative()
    with pytest.raises(ArgumentError, match="wrt names z; the input has x, A"):
        bare.derivative(wrt="z")


def test_languages():
    assert td.parse("declare x 1 expression x *(i,i->) x derivative wrt x", language="thesis").expression.shape == ()
    index = "declare x[n]  s = sum(x[i]**2, i)  derivative wrt x"
    assert td.parse(index) == td.parse_indexed(index) == td.parse(index, language="index")
    with pytest.raises(ArgumentError, match="there is no language 'matlab'; the languages are 'thesis', 'index'"):
        td.parse("x", language="matlab")


def test_headings():
    """The left side of a formula names its argument, if there is one."""
    for text in ("f(x) = x'*A*x", "declare x[n], A[n, n]  # a form\n f (x)=x'*A*x"):
        assert td.parse(text).arguments == (td.parse(text).tensors["x"],)
        assert td.parse(text).derivative() == td.parse(text + " derivative wrt x").derivative()
    assert td.parse("f(x) = x'*A*x derivative wrt A").argument.name == "A"
    assert td.parse("f(x, y) = x'*y").arguments == td.parse("f = x'*y").arguments == ()
    assert td.parse("f(z) = ||x||").arguments == ()
    index = "declare x[n]  f = sum(x[i]**2, i)  derivative wrt x"
    assert td.parse(index) == td.parse_indexed(index)


ERRORS = """
f(x) = x = y | a formula is an expression without `=`; index notation reads f[i] = …; `f(x) =` may precede
sum(f(x) = x) | a formula is an expression without `=`
declare A[n, n] |A|*c | |A| takes a number, not a matrix; write abs(x) for the entries, ||x|| for the norm, det(A) for
sum(|x|) | |x| takes a number, not a column vector
||x | the end of the input is not expected here, but `||`
x || y | `||` is not expected here
‖x‖ | does not belong to matrix formulas; the norm is ||x||
a*x | x may be a vector or a number, and nothing here decides; write `declare x[n] a*x` or `declare x a*x`
x + y | x and y may be vectors or numbers, and nothing here decides
declare A[n, n] tr(A)*exp(y) | write `declare y[n], A[n, n] tr(A)*exp(y)` or `declare y, A[n, n]
declare x[n], y[n] x*y | multiplies a column vector by a column vector; write x'*y for the inner product
declare x[n], A[n, n] x + A | the operands of + have different orders, a column vector and a matrix; transpose one
declare x[n], A[m, n] A*x/x | the divisor x is a column vector; write ./ or inv(…)
declare c, x[n] c @ x | the product @ takes vectors and matrices; write * for a factor that is a number
declare x[n] x^2 | of a column vector needs a square matrix and a whole number up to 20; write .^ for the powers
declare A[n, n], c A^c | needs a square matrix
foo(x) | foo is not a function of matrix formulas: these are DeltaTensor, Heaviside, abs
sin(x, y) | sin takes 1 arguments, and 2 are given
max(x) | max takes 2 or more arguments
declare x[n] det(x) | det takes a matrix, not a column vector
declare x[n] vector(x) | vector takes a number, not a column vector
declare x[n], A[n, m] solve(A, x') | solve takes a column vector or a matrix, not a row vector
declare c, A[n, m] solve(c, A) | solve takes a matrix, not a number
declare c, x[n] kron(c, x) | kron takes a column vector or a row vector or a matrix, not a number
declare x[n], A[n, m] kron(x, A) | kron takes two matrices or two vectors alike, not a column vector and a matrix
kron(A, A) + A | the formula makes an axis as long as a product with its own length
declare x[k] kron(A, B)*x | the formula makes axes of sizes k and m*p equally long
declare A[2, 2], B[3, 3], x[5] kron(A, B)*x | the formula makes axes of sizes 5 and 6 equally long
declare c flip(c) | flip takes a column vector or a row vector or a matrix, not a number
reshape(A, n, m) | reshape takes 2 arguments, and 3 are given; the shape is one argument, as in reshape(A, (n, m))
declare A[n, m] reshape(A, (n, m, k)) | reshape gives at most two axes, as in reshape(A, (n, m)), not 3
declare A[n, m] reshape(A, (p, n)) | reshape: (n, m) and (p, n) have different numbers of entries
ones(n, m, k) | ones takes 1 or more arguments, and 3 are given
ones(1 + n)'*x | is not a size: a size is a name or an integer
zeros((n, m, k))*x | zeros takes one size or two, as in ones(n)
x'*(y, z) | several values in parentheses occur only in sizes
x'*A@x | `@` is an operator of NumPy, in which `*` is the product of the entries, and `'` one of MATLAB
declare A[n, m, k] sum(A) | A has 3 axes, and matrix formulas have two at most
declare x[n], n x'*x*n | n is the name of a size and of a number or tensor
declare x[1.5] x'*x | the size 1.5 is not an integer from 1 to 999999
declare x[3], y[4] x'*y | the formula makes axes of sizes 3 and 4 equally long
x'*x derivative wrt y | y does not occur; differentiate with respect to x
x'*sin | sin is a function: write sin(…), or take another name
x'*lambda | lambda is a word of Python
x y | `y` follows an operand; write a product with `*`, and `derivative wrt` at the end
A[i, j] | entries such as A[i, j] are index notation, which reads declare A[n, n]
A\\b | does not belong to matrix formulas; write inv(A)*b
sum(A, dim=1) | a formula is an expression without `=`; index notation reads f[i] = …
norm(A, axis=1) | norm takes no axis; cumprod, cumsum, flip, logsumexp, mean, prod, softmax, std, sum, var do
sum(A, axis=2) | a matrix has the axes 0 and 1, not 2
declare x[n] sum(x, axis=0) | sum takes a matrix, not a column vector
declare A[n, m] softmax(A) | softmax of a matrix runs along its rows or its columns: write softmax(A, axis=1) or axis=0
x'*(y | is not expected here
x' + | the end of the input is not expected here, but an operand: a number, a name or `(`
sin(1/0*x)'*x | the operand zoo is not a finite real number
10^(10^10)*x'*x | has a power of a number with more than
"""


@every("row", ERRORS.strip().splitlines())
def test_errors(row):
    text, message = row.split(" | ")
    with pytest.raises(ParseError, match=re.escape(message)) as raised:
        td.parse(text)
    assert 1 <= raised.value.column <= len(text) + 1


def test_too_many_names():
    names = [f"x{number}" for number in range(15)]
    with pytest.raises(ParseError, match="15 names are not declared, which is too many to tell their orders; begin"):
        td.parse("+".join(names))
    assert len(td.parse(f"declare {', '.join(names)} {'+'.join(names)}").tensors) == 15


PIECES = [
    *"xyabABX",
    *[
        "||",
        "|",
        "f(x) =",
        "'",
        "*",
        ".*",
        "./",
        "+",
        "-",
        "^",
        ".^",
        "@",
        ".T",
        "(",
        ")",
        "2",
        "0.5",
        "eye",
        "vector(1)",
    ],
]
PIECES += ["sin(", "tr(", "inv(", "det(", "norm2(", "sum(", "log(", "diag(", ",", "declare ", "[n]", "derivative wrt x"]


def test_any_text_is_answered_or_refused():
    draw = random.Random(0)
    read = 0
    for _ in range(400):
        text = "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 9)))
        try:
            parsed = td.parse(text, language="matrix")
        except ParseError as error:
            assert error.line == 1 and 1 <= error.column <= len(text) + 1 and str(error).count("\n") == 2
        else:
            read += 1
            try:
                written = td.to_text(parsed, language="matrix")
            except td.errors.UnsupportedError:
                continue
            assert td.parse(written, language="matrix").tensors == parsed.tensors
    assert read > 5
