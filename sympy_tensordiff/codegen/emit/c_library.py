"""Helper functions that C files contain if they use them: integer functions, matrix products, triangular factors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sympy_tensordiff.codegen.emit.c_special import SPECIAL
from sympy_tensordiff.codegen.emit.forms import INDENT

TERMS, ROWS, COLUMNS, TILE = 256, 64, 512, (4, 16)
"""Lengths of the blocks, and the rows and columns of a tile, whose sums stay in registers.

Compiled by gcc 12 for AVX-512, a double-precision tile of 16 columns does 71 operations per ns, one of 8 does 40.
"""

PRODUCT_HELPERS = {
    "places": """\
/* Where some of the points of several axes lie in an array, of which steps[axis][of] is the step of an axis. */
static void places(ptrdiff_t *found, ptrdiff_t first, ptrdiff_t count, int rank, const ptrdiff_t (*steps)[3], int of) {
    for (ptrdiff_t n = 0; n < count; n++) {
        ptrdiff_t rest = first + n;
        found[n] = 0;
        for (int axis = rank - 1; axis >= 0; axis--) {
            found[n] += rest % steps[axis][0]*steps[axis][of];
            rest /= steps[axis][0];
        }
    }
}""",
    "tile": f"""\
/* The sums of products of {TILE[0]} rows and {TILE[1]} columns. */
static void tile(real *restrict sums, const real *restrict a, const real *restrict b, ptrdiff_t terms) {{
    real s0[{TILE[1]}] = {{0}}, s1[{TILE[1]}] = {{0}}, s2[{TILE[1]}] = {{0}}, s3[{TILE[1]}] = {{0}};
    for (ptrdiff_t k = 0; k < terms; k++) {{
        const real a0 = a[4*k], a1 = a[4*k + 1], a2 = a[4*k + 2], a3 = a[4*k + 3];
        VECTOR
        for (int j = 0; j < {TILE[1]}; j++) {{
            const real y = b[{TILE[1]}*k + j];
            s0[j] += a0*y;
            s1[j] += a1*y;
            s2[j] += a2*y;
            s3[j] += a3*y;
        }}
    }}
    for (int j = 0; j < {TILE[1]}; j++) {{
        sums[j] = s0[j];
        sums[{TILE[1]} + j] = s1[j];
        sums[{2 * TILE[1]} + j] = s2[j];
        sums[{3 * TILE[1]} + j] = s3[j];
    }}
}}""",
    "packed": """\
/* Copy a block, strip by strip: the lines of a strip side by side, term by term; zeros fill the last strip. */
static void packed(real *restrict to, const real *restrict from, const ptrdiff_t *lines, ptrdiff_t count,
                   const ptrdiff_t *terms, ptrdiff_t length, ptrdiff_t width) {
    for (ptrdiff_t first = 0; first < count; first += width) {
        for (ptrdiff_t k = 0; k < length; k++) {
            for (ptrdiff_t n = 0; n < width; n++) {
                *to++ = first + n < count ? from[lines[first + n] + terms[k]] : 0;
            }
        }
    }
}""",
    "multiplied": f"""\
/* Add factor times a product of matrices to c. Rows have steps in c and a, columns in c and b, terms in a and b. */
static void multiplied(real *c, const real *a, const real *b, real factor, int row_axes, const ptrdiff_t (*rows)[3],
                       int column_axes, const ptrdiff_t (*columns)[3], int term_axes, const ptrdiff_t (*terms)[3],
                       real *work) {{
    ptrdiff_t row_c[{ROWS}], row_a[{ROWS}], column_c[{COLUMNS}], column_b[{COLUMNS}], term_a[{TERMS}], term_b[{TERMS}];
    ptrdiff_t all_rows = 1, all_columns = 1, all_terms = 1;
    int is_dense[{COLUMNS // TILE[1]}];
    real sums[{TILE[0] * TILE[1]}];
    for (int axis = 0; axis < row_axes; axis++) {{
        all_rows *= rows[axis][0];
    }}
    for (int axis = 0; axis < column_axes; axis++) {{
        all_columns *= columns[axis][0];
    }}
    for (int axis = 0; axis < term_axes; axis++) {{
        all_terms *= terms[axis][0];
    }}
    for (ptrdiff_t j0 = 0; j0 < all_columns; j0 += {COLUMNS}) {{
        const ptrdiff_t n = least({COLUMNS}, all_columns - j0);
        places(column_c, j0, n, column_axes, columns, 1);
        places(column_b, j0, n, column_axes, columns, 2);
        for (ptrdiff_t j = 0; j < n; j += {TILE[1]}) {{
            is_dense[j/{TILE[1]}] = j + {TILE[1]} <= n;
            for (ptrdiff_t q = 1; q < {TILE[1]} && j + q < n; q++) {{
                is_dense[j/{TILE[1]}] &= column_c[j + q] == column_c[j] + q;
            }}
        }}
        for (ptrdiff_t k0 = 0; k0 < all_terms; k0 += {TERMS}) {{
            const ptrdiff_t length = least({TERMS}, all_terms - k0);
            real *const left = work, *const right = work + {ROWS}*length;
            places(term_a, k0, length, term_axes, terms, 1);
            places(term_b, k0, length, term_axes, terms, 2);
            packed(right, b, column_b, n, term_b, length, {TILE[1]});
            for (ptrdiff_t i0 = 0; i0 < all_rows; i0 += {ROWS}) {{
                const ptrdiff_t m = least({ROWS}, all_rows - i0);
                places(row_c, i0, m, row_axes, rows, 1);
                places(row_a, i0, m, row_axes, rows, 2);
                packed(left, a, row_a, m, term_a, length, {TILE[0]});
                for (ptrdiff_t j = 0; j < n; j += {TILE[1]}) {{
                    for (ptrdiff_t i = 0; i < m; i += {TILE[0]}) {{
                        tile(sums, left + i*length, right + j*length, length);
                        for (ptrdiff_t p = 0; p < {TILE[0]} && i + p < m; p++) {{
                            if (is_dense[j/{TILE[1]}]) {{
                                real *const to = c + row_c[i + p] + column_c[j];
                                VECTOR
                                for (int q = 0; q < {TILE[1]}; q++) {{
                                    to[q] += factor*sums[p*{TILE[1]} + q];
                                }}
                                continue;
                            }}
                            for (ptrdiff_t q = 0; q < {TILE[1]} && j + q < n; q++) {{
                                c[row_c[i + p] + column_c[j + q]] += factor*sums[p*{TILE[1]} + q];
                            }}
                        }}
                    }}
                }}
            }}
        }}
    }}
}}""",
}

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
    "cube_root": """\
/* The real cube root: that of the library, which may have an error of 4 units, and one step of Newton's method. */
static inline real cube_root(real x) {
    double y = cbrt(x);
    return (real)(x == 0 || x - x != 0 ? y : y - (y - x/(y*y))/3);
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
"""The helpers by their names, each before the helpers that call it."""


def c_helpers(texts: Iterable[str]) -> dict[str, str]:
    """Return all C helper functions by name, including a ``power_n`` for each integer power that ``texts`` call."""
    exponents = {int(exponent) for text in texts for exponent in re.findall(r"\bpower_(\d+)\(", text)}
    return (
        HELPERS | PRODUCT_HELPERS | SPECIAL | {f"power_{exponent}": _power(exponent) for exponent in sorted(exponents)}
    )


def _power(exponent: int) -> str:
    """Return the text of the C function ``power_<exponent>``, which computes the integer power `exponent` of a number
    by repeated squaring.
    """
    lines = [f"static inline real power_{exponent}(real x) {{", f"{INDENT}real result = x;"]
    for bit in f"{exponent:b}"[1:]:
        lines.append(f"{INDENT}result = result*result{'*x' * (bit == '1')};")
    return "\n".join([*lines, f"{INDENT}return result;", "}"])
