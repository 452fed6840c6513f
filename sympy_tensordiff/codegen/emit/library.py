"""Library calls (BLAS, LAPACK) as Python functions, for the backends that work in host memory.

A contraction becomes a matrix product: axes are ordered by batch axes, free axes and summed axes, and each group is
reshaped to one axis. The result arrays are dense, so that reshaping makes no copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from sympy_tensordiff.codegen.emit.base import signed_text
from sympy_tensordiff.codegen.emit.driver import head_text, passed_names
from sympy_tensordiff.codegen.emit.forms import INDENT, FormNames
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    CofactorTangent,
    ContractionStep,
    Operand,
    ProductStep,
    Program,
    Solve,
    Trapezoid,
)

Groups = Sequence[Sequence[int]]

LIBRARY_HELPERS: dict[str, str] = {
    "solve": '''
def solve(matrix, right, name):
    """The solution x of matrix @ x = right."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError as error:
        raise np.linalg.LinAlgError(f"{name} is singular: it has no inverse") from error
''',
    "log_determinant": '''
def log_determinant(x):
    """The logarithm of the determinant without its overflow; nan where it is negative."""
    sign, value = np.linalg.slogdet(x)
    return np.where(sign >= 0, value, math.nan)
''',
    "factorized": '''
def factorized(matrix, kind, name):
    """The triangular factors of the transpose of a matrix, and the exchanged rows, -1 for those of Cholesky.

    kind: 2 for a positive definite matrix, 1 for a symmetric one, which may be that, 0 for any. Of many matrices,
    those of each.
    """
    *batch, n, _ = matrix.shape
    result = np.empty((*batch, n + 1, n), matrix.dtype)
    result[..., :n, :] = matrix
    letter = "s" if matrix.dtype.itemsize == 4 else "d"
    cholesky, exchange = getattr(lapack, letter + "potrf"), getattr(lapack, letter + "getrf")
    given, each = matrix.reshape(-1, n, n).transpose(0, 2, 1), result.reshape(-1, n + 1, n)
    for original, triangles, exchanged in zip(given, each[:, :n].transpose(0, 2, 1), each[:, n]):
        if kind:
            if not cholesky(triangles, lower=1, clean=0, overwrite_a=1)[1]:
                exchanged[...] = -1
                continue
            if kind == 2:
                raise np.linalg.LinAlgError(f"{name} is not positive definite: Cholesky's method finds no factors")
            triangles[...] = original
        exchanged[...] = exchange(triangles, overwrite_a=1)[1]
    return result
''',
    "nonsingular": '''
def nonsingular(factors, name):
    """The factors of each of many matrices, none of which is singular."""
    n = factors.shape[-1]
    if not factors[..., :n, :].diagonal(0, -2, -1).all():
        raise np.linalg.LinAlgError(f"{name} is singular: it has no inverse")
    return factors.reshape(-1, n + 1, n)
''',
    "solve_factorized": '''
def solve_factorized(factors, right, transposed, name):
    """The solution x of matrix @ x = right, or of the transposed matrix, from the factors of the matrix."""
    n = factors.shape[-1]
    letter = "s" if factors.dtype.itemsize == 4 else "d"
    of_cholesky, of_exchanges = getattr(lapack, letter + "potrs"), getattr(lapack, letter + "getrs")
    each = nonsingular(factors, name)
    columns, exchanged = right.reshape(len(each), n, -1), each[:, n].astype(np.int32)
    result = np.empty(columns.shape, right.dtype)
    for solution, triangles, exchanges, column in zip(result, each, exchanged, columns):
        if exchanges[0] < 0:
            solution[...] = of_cholesky(triangles[:n].T, column, lower=1)[0]
        else:
            solution[...] = of_exchanges(triangles[:n].T, exchanges, column, trans=0 if transposed else 1)[0]
    return result.reshape(right.shape)
''',
    "inverse_factorized": '''
def inverse_factorized(factors, name):
    """The inverse of a matrix from its factors."""
    n = factors.shape[-1]
    letter = "s" if factors.dtype.itemsize == 4 else "d"
    of_cholesky, of_exchanges = getattr(lapack, letter + "potri"), getattr(lapack, letter + "getri")
    each = nonsingular(factors, name)
    result, exchanged = each[:, :n].copy(), each[:, n].astype(np.int32)
    for inverse, exchanges in zip(result.transpose(0, 2, 1), exchanged):
        if exchanges[0] < 0:
            of_cholesky(inverse, lower=1, overwrite_c=1)  # which leaves the other triangle as it is
            lower = np.tril(inverse, -1)
            inverse[...] = np.diag(inverse.diagonal()) + lower + lower.T
        else:
            of_exchanges(inverse, exchanges, lwork=32*n, overwrite_lu=1)  # the default has no room for blocks
    return result.reshape(*factors.shape[:-2], n, n)
''',
    "inverse": '''
def inverse(matrix, name):
    """The inverse of a matrix, or those of many matrices."""
    if matrix.ndim == 2:
        return inverse_factorized(factorized(matrix, 0, name), name)
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError as error:
        raise np.linalg.LinAlgError(f"{name} is singular: it has no inverse") from error
''',
    "log_determinant_factorized": '''
def log_determinant_factorized(factors, is_absolute):
    """The logarithm of the determinant, or of its absolute value, from the factors; nan where it is negative."""
    n = factors.shape[-1]
    diagonal, exchanged = factors[..., :n, :].diagonal(0, -2, -1), factors[..., n, :]
    value = np.log(np.abs(diagonal)).sum(-1)
    is_negative = (exchanged != np.arange(n)).sum(-1) + (diagonal < 0).sum(-1) & 1
    signed = np.where(is_negative & (not is_absolute) & diagonal.all(-1), math.nan, value)
    return np.where(exchanged[..., 0] < 0, 2*value, signed)
''',
    "determinant_factorized": '''
def determinant_factorized(factors):
    """The determinant from the factors."""
    n = factors.shape[-1]
    value, exchanged = factors[..., :n, :].diagonal(0, -2, -1).prod(-1), factors[..., n, :]
    is_negative = (exchanged != np.arange(n)).sum(-1) & 1
    return np.where(exchanged[..., 0] < 0, value*value, np.where(is_negative, -value, value))
''',
    "determinant_and_inverse": '''
def determinant_and_inverse(x, factors=None):
    """The determinant and the inverse of x from one factorization; None where x is too close to a singular matrix."""
    factors = factorized(x, 0, "x") if factors is None else factors
    with np.errstate(all="ignore"):
        value = determinant_factorized(factors)
        if not np.finfo(x.dtype).tiny < np.abs(value) < math.inf:
            return None
        inverse = inverse_factorized(factors, "x")
        condition = np.abs(x).sum(0).max()*np.abs(inverse).sum(0).max()
        return (value, inverse) if condition**3*np.finfo(x.dtype).eps < 1 else None
''',
    "cofactor": '''
def cofactor(x, order, factors=None):
    """The derivative of the determinant of x, order times by x, at singular x too: axes i1 j1 ... ik jk.

    With x = u diag(s) v it is that of diag(s), products of all s but some, under u and v; the first derivative at a
    matrix far from singular ones is the determinant times the inverse, from its triangular factors. Of many matrices,
    those of all of them.
    """
    n = x.shape[-1]
    if x.ndim > 2:
        matrices = x.reshape(-1, n, n)
        known = [None]*len(matrices) if factors is None else factors.reshape(-1, n + 1, n)
        each = [cofactor(matrix, order, own) for matrix, own in zip(matrices, known)]
        return np.stack(each).reshape(x.shape[:-2] + (n,)*(2*order))
    result = np.zeros((n,)*(2*order), x.dtype)
    if not np.isfinite(x).all():
        return result + math.nan
    found = determinant_and_inverse(x, factors) if order == 1 else None
    if found:
        return found[0]*found[1].T
    u, s, v = np.linalg.svd(x)
    orders = list(itertools.permutations(range(order)))
    signs = [(-1)**sum(a > b for a, b in itertools.combinations(places, 2)) for places in orders]
    for chosen in itertools.combinations(range(n), order):
        rest = np.prod(np.delete(s, chosen))
        for rows, row_sign in zip(orders, signs):
            for columns, column_sign in zip(orders, signs):
                index = tuple(chosen[a] for pair in zip(rows, columns) for a in pair)
                result[index] = row_sign*column_sign*rest
    for axis in range(0, 2*order, 2):
        # Each product takes the first axis away and appends it, so that all are in place at the end.
        result = np.tensordot(np.tensordot(result, u, (0, 1)), v, (0, 0))
    return np.round(np.linalg.det(u)*np.linalg.det(v))*result
''',
    "cofactor_tangent": '''
def cofactor_tangent(x, direction):
    """The derivative of the cofactors of x, a matrix, in a direction, at singular x too.

    With x = u diag(s) v it is that at diag(s), u m v, without division: rest[i, j] is the product
    of all s but two. Far from singular matrices, the determinant times the inverse is differentiated.
    """
    if not (np.isfinite(x).all() and np.isfinite(direction).all()):
        return np.full(x.shape, math.nan, x.dtype)
    found = determinant_and_inverse(x)
    if found:
        value, inverse = found
        product = inverse @ direction
        return value*(np.trace(product)*inverse - product @ inverse).T
    u, s, v = np.linalg.svd(x)
    n = len(s)
    before, behind = np.ones_like(s), np.ones_like(s)
    before[1:] = np.cumprod(s[:-1])
    behind[:-1] = np.cumprod(s[:0:-1])[::-1]
    rest = np.zeros_like(x)
    for i in range(n - 1):
        between = np.ones_like(s[i + 1:])
        between[1:] = np.cumprod(s[i + 1:-1])
        rest[i, i + 1:] = before[i]*between*behind[i + 1:]
    rest += rest.T
    turned = u.T @ direction @ v.T
    m = np.diag(rest @ np.diag(turned)) - rest*turned.T
    return np.round(np.linalg.det(u)*np.linalg.det(v))*(u @ m @ v)
''',
}
"""The functions that library calls need in addition to NumPy's."""

LIBRARY_NAMES = frozenset({"itertools", "lapack", *LIBRARY_HELPERS})
"""The names that the functions of library calls use."""

MATRIX_FUNCTIONS = {
    "inv": ("inverse({0}, {1})", "inverse_factorized({0}, {1})"),
    "det": ("np.linalg.det({0})", "determinant_factorized({0})"),
    "logdet": ("log_determinant({0})", "log_determinant_factorized({0}, False)"),
    "logabsdet": ("np.linalg.slogdet({0})[1]", "log_determinant_factorized({0}, True)"),
    "cofactor": ("cofactor({0}, {2})", "cofactor({3}, {2}, {0})"),
    "factors": ("factorized({0}, {2}, {1})",),
}
"""The calls that compute functions of a matrix {0}, or of its factors; {1} is its name in messages, {2} are options,
{3} is the matrix of factors {0}.
"""


def library_text(step: ProductStep | Apply, program: Program, names: FormNames) -> str:
    """Return the text of the function that runs a linear-algebra step."""
    printer = LibraryCall(step, program, names)
    if isinstance(step, ContractionStep):
        lines = printer.contraction(step)
    else:
        what, value = printer.value(step)
        lines = [printer.docstring(what), f"{names(step.array)}[...] = {value}"]
    if step.factor != 1:
        lines.append(f"{names(step.array)} *= {signed_text(step.factor)}")
    return "\n".join([head_text(step, passed_names(step, names)), *(INDENT + line for line in lines)])


class LibraryCall:
    """Prints the body of a function that computes one linear-algebra step by calls of NumPy and SciPy."""

    functions: ClassVar[Mapping[str, tuple[str, ...]]] = MATRIX_FUNCTIONS
    solves: ClassVar[tuple[str, str]] = "solve({0}, {1}, {3})", "solve_factorized({0}, {1}, {2}, {3})"
    """The solutions of equations with a matrix {0}, or its factors, and right-hand sides {1}; {2}: whether the matrix
    is transposed, {3}: its name in messages.
    """

    def __init__(self, step: ProductStep | Apply, program: Program, names: FormNames) -> None:
        self.step = step
        self.target = names(step.array)
        self.names = names
        self.given = {a.name: a.label for a in program.arguments}
        self.lengths = {} if isinstance(step, Apply) else lengths(step, names)

    def value(self, step: ProductStep | Apply) -> tuple[str, str]:
        """Return ``(description, expression text)`` for the result of a linear-algebra step: a solution, a function of
        a matrix, or a derivative of cofactors. The step's numeric factor is not included.
        """
        if isinstance(step, Solve):
            return self.solve(step)
        if isinstance(step, Apply):
            return self.apply(step)
        assert isinstance(step, CofactorTangent)
        return self.cofactor_tangent(step)

    def title(self, array: str) -> str:
        """Return the Python literal of a description of a matrix for error messages, such as ``'the matrix A'``. An
        array that the user has not named is described by its name in the plan.
        """
        label = self.given.get(array)
        return ascii(f"the matrix {label}" if label is not None else f"the matrix {array} (see .plan)")

    def docstring(self, what: str) -> str:
        """Return the docstring of the function, which says that it fills the target with ``what``."""
        return f'"""Fill {self.target} with {what}."""'

    # -------------------------------------------------------------- functions of one array

    def apply(self, step: Apply) -> tuple[str, str]:
        """Return ``(description, expression text)`` of a function of one matrix, such as inverse or determinant."""
        matrix, options = self.names(step.operand), ", ".join(map(str, step.options))
        original = self.names(step.factored or step.operand)
        text = self.functions[step.function][bool(step.factored)].format(
            matrix, self.title(step.factored or step.operand), options, original
        )
        return f"a function of {matrix}", _with_axis_order(text, range(len(step.axes)), step.axes)

    # -------------------------------------------------------------- products

    def contraction(self, step: ContractionStep) -> list[str]:
        """Return the lines of a contraction: a matrix product of reshaped operands."""
        left, right, both, rows, columns, terms = found = as_matrices(step)
        lines = [self.docstring(f"the sums of {entries_text(self.names, left)}*{entries_text(self.names, right)}")]
        pair = (
            f"{self.grouped(left, both, [rows, terms] if rows or both else [terms])}, "
            f"{self.grouped(right, both, [terms, columns] if columns or both else [terms])}"
        )
        groups = [rows, columns] if both else [group for group in (rows, columns) if group]
        if found.order == list(step.output):
            return [*lines, f"np.matmul({pair}, out={self.reshaped(self.target, both, groups)})"]
        product = self.split(f"np.matmul({pair})", both, groups)
        return [*lines, f"{self.target}[...] = {_with_axis_order(product, found.order, step.output)}"]

    def solve(self, step: Solve) -> tuple[str, str]:
        """Return ``(description, expression text)`` of the solution of a linear system."""
        matrix, right, out = step.left, step.right, step.output
        *batch, row, column = matrix.labels
        summed, free = (column, row) if row in out else (row, column)
        rest = [label for label in out if label != free and label not in batch]
        is_transposed = row == summed
        left = self.names(matrix.array)
        if is_transposed and not step.factored:
            left = _with_axis_order(left, matrix.labels, [*batch, column, row])
        groups = [rest] if rest or batch else []  # a batch of vectors is one of matrices of one column
        columns = self.grouped(right, batch, [[summed], *groups])
        title = self.title(step.factored or matrix.array)
        solution = self.solves[bool(step.factored)].format(left, columns, is_transposed, title)
        solution = self.split(solution, batch, [[free], *groups])
        what = f"the solution of equations with {left}"
        return what, _with_axis_order(solution, [*batch, free, *rest], out)

    def cofactor_tangent(self, step: CofactorTangent) -> tuple[str, str]:
        """Return ``(description, expression text)`` of the derivative of a matrix's cofactors in a direction."""
        # The derivative at a transposed matrix, in a transposed direction, is transposed, too.
        matrix, direction = (_with_axis_order(self.names(op.array), op.labels, step.output) for op in step.operands)
        what = f"the derivative of the cofactors of {matrix} in the direction {direction}"
        return what, f"cofactor_tangent({matrix}, {direction})"

    def grouped(self, operand: Operand, batch: Sequence[int], groups: Groups) -> str:
        """Return NumPy text that transposes and reshapes an operand for a matrix product: first one axis for each label
        in ``batch``, then one axis for each group of labels, whose axes are merged.
        """
        text, labels = self.names(operand.array), operand.labels
        distinct = tuple(dict.fromkeys(labels))
        if distinct != labels:
            numbers = {label: n for n, label in enumerate(distinct)}
            text = f"np.einsum({text}, {[numbers[label] for label in labels]}, {list(numbers.values())})"
        text = _with_axis_order(text, distinct, [*batch, *(label for group in groups for label in group)])
        return self.reshaped(text, batch, groups)

    def reshaped(self, text: str, batch: Sequence[int], groups: Groups) -> str:
        """Return the NumPy expression that merges axes of the array ``text``: those of each group of labels in
        ``groups`` become one axis, after the axes ``batch``, which are kept.
        """
        if all(len(group) == 1 for group in groups):
            return text
        axes = [self.lengths[label] for label in batch]
        axes += ["*".join(self.lengths[label] for label in group) or "1" for group in groups]
        return f"{text}.reshape({', '.join(axes)})"

    def split(self, text: str, batch: Sequence[int], groups: Groups) -> str:
        """Return the NumPy expression that undoes `reshaped`: in the array expression ``text``, it splits the axis of
        each group of labels in ``groups`` into one axis for each label. ``batch`` are the labels of the leading axes.
        """
        if all(len(group) == 1 for group in groups):
            return text
        labels = [*batch, *(label for group in groups for label in group)]
        return f"{text}.reshape({', '.join(self.lengths[label] for label in labels)})"


def lengths(step: ProductStep, names: FormNames) -> dict[int, str]:
    """Return a dictionary from the labels of the product ``step`` to their lengths as text, such as ``A.shape[1]``.
    ``names`` maps names of arrays to identifiers.
    """
    found: dict[int, str] = {}
    for operand in step.operands:
        is_factorized = isinstance(step, Solve) and bool(step.factored) and operand is step.left
        for axis, label in enumerate(operand.labels):
            axis += is_factorized and axis == len(operand.labels) - 2  # factors have a row more
            found.setdefault(label, f"{names(operand.array)}.shape[{axis}]")
    return found


def entries_text(names: FormNames, operand: Operand) -> str:
    """Return the general entry of ``operand`` as text for a comment, such as ``A[i, j]``: its name in ``names``, and a
    letter for each label.
    """
    letters = "ijklmnopqrstuvwxyzabcdefgh"
    return f"{names(operand.array)}[{', '.join(letters[n % 26] for n in operand.labels)}]"


class LibraryMatrices(NamedTuple):
    """A contraction as a batched matrix product: the two operands, and four lists of labels: those of the batch, of the
    rows, of the columns, and the summed ones.

    ``both`` are the batch labels, which both operands and the result have.
    """

    left: Operand
    right: Operand
    both: list[int]
    rows: list[int]
    columns: list[int]
    terms: list[int]

    @property
    def order(self) -> list[int]:
        """The labels of the result of the matrix product: batch, row and column labels."""
        return [*self.both, *self.rows, *self.columns]

    def transposed(self) -> LibraryMatrices:
        """Return the equivalent product with exchanged operands, ``(A B).T == B.T A.T``."""
        return LibraryMatrices(self.right, self.left, self.both, self.columns, self.rows, self.terms)


def as_matrices(step: ContractionStep | Trapezoid) -> LibraryMatrices:
    """Return a contraction as a batched matrix product, ``B.T A.T`` if its result is stored transposed."""
    (left, right), out = step.operands, list(step.output)
    rows = [label for label in out if label not in right.labels]
    columns = [label for label in out if label not in left.labels]
    both = [label for label in out if label not in (*rows, *columns)]
    terms = [label for label in dict.fromkeys(left.labels) if label not in out]
    found = LibraryMatrices(left, right, both, rows, columns, terms)
    return found.transposed() if columns and found.transposed().order == out else found


def _with_axis_order(text: str, labels: Sequence[int], wanted: Sequence[int]) -> str:
    """Return the text of the array ``text``, whose axes have the ``labels``, transposed so that its axes are in the
    order ``wanted``.
    """
    if list(labels) == list(wanted):
        return text
    places: Mapping[int, int] = {label: n for n, label in enumerate(labels)}
    order = [places[label] for label in wanted]
    return f"{text}.T" if order == [1, 0] else f"{text}.transpose({', '.join(map(str, order))})"
