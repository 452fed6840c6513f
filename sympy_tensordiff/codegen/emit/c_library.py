"""What a C file brings along where it uses it: small functions, and linear algebra by triangular factors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sympy_tensordiff.codegen.emit.c_nests import CForms
from sympy_tensordiff.codegen.emit.c_products import MULTIPLIED
from sympy_tensordiff.codegen.emit.forms import INDENT, Names
from sympy_tensordiff.codegen.ir.programs import Apply, Solve
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.errors import NotInCError
from sympy_tensordiff.integer.affine import Affine

HELPERS: dict[str, str] = {
    "divided": """\
/* The quotient of integers, rounded down. Calls in which a divisor is 0 are refused, but have a size of scratch. */
static inline ptrdiff_t divided(ptrdiff_t a, ptrdiff_t b) {
    return b == 0 ? 0 : a/b - (a % b != 0 && (a < 0) != (b < 0));
}""",
    "greatest": """\
static inline ptrdiff_t greatest(ptrdiff_t a, ptrdiff_t b) {
    return a > b ? a : b;
}""",
    "least": """\
static inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) {
    return a < b ? a : b;
}""",
    "least_of": """\
static inline ptrdiff_t least_of(const int64_t *values, ptrdiff_t count) {
    int64_t found = values[0];
    for (ptrdiff_t i = 1; i < count; i++) {
        found = values[i] < found ? values[i] : found;
    }
    return (ptrdiff_t)found;
}""",
    "greatest_of": """\
static inline ptrdiff_t greatest_of(const int64_t *values, ptrdiff_t count) {
    int64_t found = values[0];
    for (ptrdiff_t i = 1; i < count; i++) {
        found = values[i] > found ? values[i] : found;
    }
    return (ptrdiff_t)found;
}""",
    "is_symmetric": """\
static int is_symmetric(const real *a, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        for (ptrdiff_t j = 0; j < i; j++) {
            if (a[i*n + j] != a[j*n + i] && (a[i*n + j] == a[i*n + j] || a[j*n + i] == a[j*n + i])) {
                return 0;
            }
        }
    }
    return 1;
}""",
    "maximum": """\
/* The greater one; nan where one of them is nan. */
static inline real maximum(real x, real y) {
    return x >= y || x != x ? x : y;
}""",
    "minimum": """\
/* The lesser one; nan where one of them is nan. */
static inline real minimum(real x, real y) {
    return x <= y || x != x ? x : y;
}""",
    "sign": """\
/* -1, 0 or 1; nan where x is nan. */
static inline real sign(real x) {
    return x != x ? x : (real)((x > 0) - (x < 0));
}""",
    "heaviside": """\
/* 0 or 1, at_zero at 0; nan where x is nan. */
static inline real heaviside(real x, real at_zero) {
    return x != x ? x : x == 0 ? at_zero : (real)(x > 0);
}""",
    "factorized": """\
/* Replace a matrix of n rows, behind which there is one row more, by its triangular factors.

   The last row says how rows were exchanged, and is -1 for the factors of Cholesky's method, which lie below.
   kind: 2 for a positive definite matrix, 1 for a symmetric one, which may be that, 0 for any. The value is 1 where
   a matrix of kind 2 is not positive definite. */
static int factorized(real *f, ptrdiff_t n, int kind) {
    real *exchanged = f + n*n;
    for (ptrdiff_t i = 0; i < n; i++) {
        exchanged[i] = f[i*n + i];
    }
    int is_definite = kind > 0;
    for (ptrdiff_t i = 0; is_definite && i < n; i++) {
        for (ptrdiff_t j0 = 0; j0 <= i; j0 += 4) {
            const ptrdiff_t rows = least(4, i + 1 - j0);
            const real *a = f + i*n, *b = f + j0*n;
            real s[4] = {0, 0, 0, 0};
            if (rows == 4) {
                real s0 = 0, s1 = 0, s2 = 0, s3 = 0;
                SUMS(s0, s1, s2, s3)
                for (ptrdiff_t k = 0; k < j0; k++) {
                    s0 += a[k]*b[k];
                    s1 += a[k]*b[n + k];
                    s2 += a[k]*b[2*n + k];
                    s3 += a[k]*b[3*n + k];
                }
                s[0] = s0;
                s[1] = s1;
                s[2] = s2;
                s[3] = s3;
            }
            for (ptrdiff_t j = j0; j < j0 + rows; j++) {
                real total = s[j - j0];
                for (ptrdiff_t k = rows == 4 ? j0 : 0; k < j; k++) {
                    total += a[k]*f[j*n + k];
                }
                total = a[j] - total;
                if (j < i) {
                    f[i*n + j] = total/f[j*n + j];
                } else {
                    is_definite = total > 0 && total <= LARGEST;
                    f[i*n + i] = is_definite ? (real)sqrt(total) : total;
                }
            }
        }
    }
    if (is_definite) {
        for (ptrdiff_t i = 0; i < n; i++) {
            exchanged[i] = -1;
        }
        return 0;
    }
    if (kind == 2) {
        return 1;
    }
    if (kind == 1) {
        for (ptrdiff_t i = 0; i < n; i++) {
            for (ptrdiff_t j = 0; j < i; j++) {
                f[i*n + j] = f[j*n + i];
            }
            f[i*n + i] = exchanged[i];
        }
    }
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t pivot = k;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            pivot = fabs(f[i*n + k]) > fabs(f[pivot*n + k]) ? i : pivot;
        }
        exchanged[k] = (real)pivot;
        for (ptrdiff_t j = 0; pivot != k && j < n; j++) {
            const real other = f[k*n + j];
            f[k*n + j] = f[pivot*n + j];
            f[pivot*n + j] = other;
        }
        for (ptrdiff_t i = k + 1; f[k*n + k] != 0 && i < n; i++) {
            const real factor = f[i*n + k]/f[k*n + k];
            f[i*n + k] = factor;
            for (ptrdiff_t j = k + 1; j < n; j++) {
                f[i*n + j] -= factor*f[k*n + j];
            }
        }
    }
    return 0;
}""",
    "subtracted": """\
/* Subtract multiples of rows from the first to the one before the last from row i: factors have a step. */
static void subtracted(real *x, ptrdiff_t i, ptrdiff_t first, ptrdiff_t last, const real *factors, ptrdiff_t step,
                       ptrdiff_t m) {
    real *to = x + i*m;
    ptrdiff_t k = first;
    for (; k + 4 <= last; k += 4) {
        const real *y = x + k*m, f0 = factors[k*step], f1 = factors[(k + 1)*step];
        const real f2 = factors[(k + 2)*step], f3 = factors[(k + 3)*step];
        VECTOR
        for (ptrdiff_t j = 0; j < m; j++) {
            to[j] -= f0*y[j] + f1*y[m + j] + (f2*y[2*m + j] + f3*y[3*m + j]);
        }
    }
    for (; k < last; k++) {
        const real *y = x + k*m, factor = factors[k*step];
        VECTOR
        for (ptrdiff_t j = 0; j < m; j++) {
            to[j] -= factor*y[j];
        }
    }
}""",
    "solved": """\
/* Replace n rows of m numbers by the solution of equations with the factors of a matrix; 1 where it is singular. */
static int solved(const real *f, real *x, ptrdiff_t n, ptrdiff_t m, int transposed) {
    const real *exchanged = f + n*n;
    const int is_cholesky = exchanged[0] < 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        if (f[i*n + i] == 0) {
            return 1;
        }
    }
    for (ptrdiff_t k = 0; !is_cholesky && !transposed && k < n; k++) {
        const ptrdiff_t other = (ptrdiff_t)exchanged[k];
        for (ptrdiff_t j = 0; other != k && j < m; j++) {
            const real moved = x[k*m + j];
            x[k*m + j] = x[other*m + j];
            x[other*m + j] = moved;
        }
    }
    /* The lower triangle, or the upper one of the transposed matrix. */
    for (ptrdiff_t i = 0; i < n; i++) {
        const int in_row = is_cholesky || !transposed;
        subtracted(x, i, 0, i, in_row ? f + i*n : f + i, in_row ? 1 : n, m);
        for (ptrdiff_t j = 0; (is_cholesky || transposed) && j < m; j++) {
            x[i*m + j] /= f[i*n + i];
        }
    }
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        const int in_column = is_cholesky || transposed;
        subtracted(x, i, i + 1, n, in_column ? f + i : f + i*n, in_column ? n : 1, m);
        for (ptrdiff_t j = 0; (is_cholesky || !transposed) && j < m; j++) {
            x[i*m + j] /= f[i*n + i];
        }
    }
    for (ptrdiff_t k = n - 1; !is_cholesky && transposed && k >= 0; k--) {
        const ptrdiff_t other = (ptrdiff_t)exchanged[k];
        for (ptrdiff_t j = 0; other != k && j < m; j++) {
            const real moved = x[k*m + j];
            x[k*m + j] = x[other*m + j];
            x[other*m + j] = moved;
        }
    }
    return 0;
}""",
    "determinant": """\
/* The determinant (kind 0), its logarithm (1, nan where it is negative), or that of its absolute value (2). */
static real determinant(const real *f, ptrdiff_t n, int kind) {
    const real *exchanged = f + n*n;
    const int is_cholesky = n > 0 && exchanged[0] < 0;
    int is_negative = 0;
    real value = kind ? 0 : 1;
    for (ptrdiff_t i = 0; i < n; i++) {
        const real entry = f[i*n + i];
        is_negative ^= !is_cholesky && (exchanged[i] != (real)i) != (entry < 0);
        value = kind ? value + (real)log(fabs(entry)) : value*(real)fabs(entry);
    }
    if (is_cholesky) {
        return kind ? 2*value : value*value;
    }
    return !is_negative ? value : !kind ? -value : kind == 1 && value > -INFINITY ? (real)NAN : value;
}""",
}
"""In an order in which each stands before those that call it."""


def helpers(texts: Iterable[str], powers: Iterable[int]) -> list[str]:
    """The functions that the texts call, and what these call."""
    found: list[str] = []
    texts = list(texts)
    known = HELPERS | MULTIPLIED
    for name in reversed(known):
        if any(re.search(rf"\b{name}\(", text) for text in (*texts, *found)):
            found.insert(0, known[name])
    return found + [_power(exponent) for exponent in sorted(powers)]


def _power(exponent: int) -> str:
    """A power by multiplications."""
    lines = [f"static inline real power_{exponent}(real x) {{", f"{INDENT}real result = x;"]
    for bit in f"{exponent:b}"[1:]:
        lines.append(f"{INDENT}result = result*result{'*x' * (bit == '1')};")
    return "\n".join([*lines, f"{INDENT}return result;", "}"])


KINDS = {"det": 0, "logdet": 1, "logabsdet": 2}


class CallPrinter:
    """The body of the function of a library call, which computes matrix by matrix in ``work``."""

    def __init__(self, step: Solve | Apply, names: Names, shapes: Shapes, factor: str) -> None:
        self.step = step
        self.names = names
        self.forms = CForms(names, shapes)
        self.factor = factor
        self.lines: list[str] = []
        operand = step.operand if isinstance(step, Apply) else step.left.array
        *batch, _, n = shapes[operand]
        self.operand, self.batch, self.n = operand, list(batch), n
        self.work = names.fresh("work")
        self.code = names.fresh("code")
        self.entries: list[list[Affine]] = []
        """The shapes of the arrays in ``work``."""

    def loops(self, axes: Sequence[tuple[str, Affine]], line: str) -> None:
        """Append loops over axes around a line."""
        self.lines += self.forms.loops(axes, [line])

    def array(self, wish: str, shape: Sequence[Affine]) -> str:
        """An array in ``work``."""
        name = self.names.fresh(wish)
        place = "".join(f" + {self.forms.entries(one)}" for one in self.entries)
        self.lines.append(f"real *{name} = {self.work}{place};")
        self.forms.shapes[name] = shape
        self.entries.append(list(shape))
        return name

    def entry(self, array: str, index: Sequence[str]) -> str:
        own = self.names(array)
        return f"{own}[{self.forms.flat(array, list(map(Affine.variable, index)))}]"

    def printed(self) -> list[str]:
        """The lines."""
        step, n = self.step, self.n
        fresh = self.names.fresh
        batch = [fresh(f"b{number}") for number in range(len(self.batch))]
        head = list(zip(batch, self.batch, strict=True))
        row, column = fresh("i"), fresh("j")
        if isinstance(step, Apply) and step.function == "factors":
            self.factors(step, batch, row, column)
        else:
            if step.factored:
                factors = fresh("factors")
                self.forms.shapes[factors] = (n + 1, n)
                place = self.forms.flat(self.operand, [*map(Affine.variable, batch), Affine(), Affine()])
                self.lines.append(f"const real *{factors} = {self.names(self.operand)} + {place};")
            else:
                factors = self.array("factors", (n + 1, n))
                source = self.entry(self.operand, [*batch, row, column])
                self.loops([(row, n), (column, n)], f"{self.entry(factors, [row, column])} = {source};")
                self.lines.append(f"factorized({factors}, {self.forms.form(n)}, 0);")
            if isinstance(step, Solve):
                self.solve(step, factors, batch)
            else:
                self.apply(step, factors, batch, row, column)
        return [INDENT + line for line in self.forms.loops(head, self.lines)]

    def factors(self, step: Apply, batch: list[str], row: str, column: str) -> None:
        source = self.entry(self.operand, [*batch, row, column])
        target = self.entry(step.array, [*batch, row, column])
        self.loops([(row, self.n), (column, self.n)], f"{target} = {source};")
        place = self.forms.flat(step.array, [*map(Affine.variable, batch), Affine(), Affine()])
        call = f"factorized({self.names(step.array)} + {place}, {self.forms.form(self.n)}, {step.options[0]})"
        self.lines.append(f"{self.code} |= {call};")

    def apply(self, step: Apply, factors: str, batch: list[str], row: str, column: str) -> None:
        value = [*batch, row, column] if step.function == "inv" else batch
        index = [value[axis] for axis in step.axes] if step.axes else value
        n = self.forms.form(self.n)
        if step.function in KINDS:
            text = f"determinant({factors}, {n}, {KINDS[step.function]})"
            self.lines.append(f"{self.entry(step.array, index)} = {self.factor}{text};")
            return
        if step.function != "inv":
            raise NotInCError(
                f"C has no routine for {step.array}, which is a {step.function} (a determinant's derivative, which "
                "holds at singular matrices, too): use another backend, or write det(A)*inv(A) where A is not singular"
            )
        columns = self.array("columns", (self.n, self.n))
        axes = [(row, self.n), (column, self.n)]
        self.loops(axes, f"{self.entry(columns, [row, column])} = {row} == {column};")
        self.lines.append(f"{self.code} |= solved({factors}, {columns}, {n}, {n}, 0);")
        self.loops(axes, f"{self.entry(step.array, index)} = {self.factor}{self.entry(columns, [row, column])};")

    def solve(self, step: Solve, factors: str, batch: list[str]) -> None:
        *labels, first, second = step.left.labels
        summed, free = (second, first) if first in step.output else (first, second)
        names = dict(zip(labels, batch, strict=True))
        extents = dict(zip(step.right.labels, self.forms.shapes[step.right.array], strict=True))
        rest = [label for label in step.output if label != free and label not in labels]
        axes = [(names.setdefault(label, self.names.fresh(f"k{n}")), extents[label]) for n, label in enumerate(rest)]
        names[summed] = names[free] = row = self.names.fresh("k")
        columns = self.array("columns", (self.n, *(extent for _, extent in axes)))
        own = self.entry(columns, [row, *(name for name, _ in axes)])
        axes = [(row, self.n), *axes]
        source = self.entry(step.right.array, [names[label] for label in step.right.labels])
        self.loops(axes, f"{own} = {source};")
        count = self.forms.entries([extent for _, extent in axes[1:]])
        call = f"solved({factors}, {columns}, {self.forms.form(self.n)}, {count}, {int(first == summed)})"
        self.lines.append(f"{self.code} |= {call};")
        target = self.entry(step.array, [names[label] for label in step.output])
        self.loops(axes, f"{target} = {self.factor}{own};")
