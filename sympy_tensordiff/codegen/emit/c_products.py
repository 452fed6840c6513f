"""Products of matrices in C: contractions and correlations, whose operands are read at steps of their own.

Each label moves the place of an entry in the arrays that it stands in by a step. Labels of the left operand and of
the result are the rows of a matrix, those of the right operand and of the result the columns, those of both operands
are summed over; over others there are loops. Blocks of both operands are copied into the order in which they are used.
"""

from __future__ import annotations

from sympy_tensordiff.codegen.emit.c_nests import CForms
from sympy_tensordiff.codegen.emit.forms import INDENT, UNARY, Names
from sympy_tensordiff.codegen.ir.programs import Contraction, Correlation
from sympy_tensordiff.codegen.ir.scalars import Load
from sympy_tensordiff.codegen.ir.steps import Shapes, in_views
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.products import slope

TERMS, ROWS, COLUMNS, TILE = 256, 64, 512, (4, 16)
"""Lengths of the blocks, and rows and columns of a tile, whose sums stay in registers.

Compiled by gcc 12 for AVX-512, a tile of double precision of 16 columns makes 71 operations in a nanosecond, of 8 40.
"""

MULTIPLIED = {
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


def is_product(step: object) -> bool:
    """Whether a step is a product of matrices with rows, columns and terms; others are loops."""
    if isinstance(step, Contraction):
        left, right, out = set(step.left.labels), set(step.right.labels), set(step.output)
        return bool(left & out - right and right & out - left and left & right - out)
    return isinstance(step, Correlation)


class ProductPrinter:
    """The body of the function of a product."""

    def __init__(self, step: Contraction | Correlation, names: Names, shapes: Shapes, factor: str) -> None:
        self.names = names
        self.forms = CForms(names, shapes)
        self.shapes = shapes
        self.factor = factor or "1"
        self.work = names.fresh("work")
        found = step if isinstance(step, Correlation) else in_views(step, shapes, names.fresh)
        self.views, self.labels = found.views, found.labels
        self.steps = [{name: self.step(view, name) for name, _ in self.labels} for view in self.views]
        wanted: dict[tuple[int, ...], str] = {(0, 1): "rows", (0, 2): "columns", (1, 2): "terms"}
        self.groups: dict[str, list[tuple[str, Affine]]] = {group: [] for group in (*wanted.values(), "loops")}
        for name, extent in self.labels:
            inside = tuple([n for n in range(3) if self.steps[n][name]])
            self.groups[wanted.get(inside, "loops")].append((name, extent))
        # The last axis of the result is the last of its group.
        index = self.views[0].index
        place = {name: n for n, form in enumerate(index) for name, _ in self.labels if name in form.atoms()}
        for group in self.groups.values():
            group.sort(key=lambda label: place.get(label[0], -1))

    def step(self, view: Load, label: str) -> str:
        """By how much a label moves the place in an array; "" if it does not."""
        texts = []
        for axis, form in enumerate(view.index):
            if label in form.atoms():
                found = slope(form, label)
                assert found is not None
                own = [found[0], *self.shapes[view.array][axis + 1 :]]
                factors = [self.forms.form(one, UNARY) for one in own if one != Affine.of(1)]
                texts.append("*".join(factors) or "1")
        return " + ".join(texts)

    def size(self) -> str:
        """The entries of the memory that the blocks need."""
        terms, columns = (
            self.forms.entries(extent for _, extent in self.groups[group]) for group in ("terms", "columns")
        )
        return f"least({TERMS}, {terms})*({ROWS} + least({COLUMNS}, {columns} + {TILE[1] - 1}))"

    def start(self, view: Load) -> str:
        """Where an array is read, or written, at the first values of all labels but those of loops."""
        inner = {name: Affine() for group in ("rows", "columns", "terms") for name, _ in self.groups[group]}
        return f"{self.names(view.array)} + {self.forms.flat(view.array, [f.substitute(inner) for f in view.index])}"

    def printed(self) -> list[str]:
        """The lines."""
        out = self.views[0]
        count = self.forms.entries(self.shapes[out.array])
        index = self.names.fresh("n")
        lines = [f"for (ptrdiff_t {index} = 0; {index} < {count}; {index}++) {{"]
        lines += [f"{INDENT}{self.names(out.array)}[{index}] = 0;", "}"]
        passed = []
        for group, pair in (("rows", (0, 1)), ("columns", (0, 2)), ("terms", (1, 2))):
            own = [(self.forms.form(e), *(self.steps[n][name] for n in pair)) for name, e in self.groups[group]]
            name = self.names.fresh(group)
            table = ", ".join(f"{{{', '.join(row)}}}" for row in own or [("1", "0", "0")])
            lines.append(f"const ptrdiff_t {name}[][3] = {{{table}}};")
            passed.append(f"{max(1, len(own))}, {name}")
        axes = [(self.names(name), extent) for name, extent in self.groups["loops"]]
        starts = ", ".join(map(self.start, self.views))
        lines += self.forms.loops(axes, [f"multiplied({starts}, {self.factor}, {', '.join(passed)}, {self.work});"])
        return [INDENT + line for line in lines]
