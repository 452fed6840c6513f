"""Inputs in the text language of Lippmann's thesis: differentiated, printed in three notations, drawn, run and checked.

The inputs are the examples of sections 2.3 and 4.5 and some of the appendix. Each derivative is printed
in the language itself, in LaTeX and in index notation; its kernel runs on random arrays, and what it
computes is compared with central differences of the expression that are taken here, entry by entry.

Run it with ``python examples/text_language.py``; formulas and a graph are written to ``examples/output``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import sympy

import sympy_tensordiff as td

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INPUTS = [
    "declare A 2 x 1 expression (A + 1) *(ij,j->i) x derivative wrt A",
    "declare v 1 expression v *(i,i->i) v derivative wrt v",
    "declare A 3 x 0 expression A *(ijk,->ijk) exp(x) derivative wrt x",
    "declare v 1 expression sin(v) + cos(sin(v)) derivative wrt v",
    "declare X 2 expression log(det(X)) derivative wrt X",
    "declare A 2 x 1 expression x *(i,i->) (A *(ij,j->i) x) derivative wrt x derivative wrt x",
    "declare X 2 y 1 w 1 expression (i->) log(1 + exp(-(y *(i,i->i) (X *(ij,j->i) w)))) derivative wrt w",
]
STEP = 1e-5


# %% Text in, text out


def show(parsed, derivative) -> None:
    """The derivative in three notations."""
    print(parsed)
    print(f"    text:  {td.to_text(derivative)}")
    print(f"    LaTeX: {sympy.latex(derivative)}")
    print(f"    index: {derivative.rewrite(td.IndexedSum)}")


# %% Kernels and differences


def random_inputs(parsed, rng):
    """An array for each tensor; matrices are near the unit matrix, so that inverses and logarithms exist."""
    sizes: dict = {}
    arrays = []
    for tensor in parsed.tensors.values():
        shape = tuple(sizes.setdefault(extent, 3 + len(sizes)) for extent in tensor.shape)
        array = 0.2 * rng.standard_normal(shape)
        arrays.append(array + np.eye(*shape) if len(shape) == 2 else array)
    return arrays


def differences(kernel, arrays, position):
    """The derivative of a kernel by one of its arrays, by central differences; the axes of the array come last."""
    columns = []
    for entry in np.ndindex(arrays[position].shape):
        move = np.zeros(arrays[position].shape)
        move[entry] = STEP
        moved = [
            kernel(*[array + sign * move if n == position else array for n, array in enumerate(arrays)])
            for sign in (1, -1)
        ]
        columns.append((moved[0] - moved[1]) / (2 * STEP))
    result = np.stack(columns, axis=-1)
    return result.reshape(result.shape[:-1] + arrays[position].shape)


def compare(parsed, derivative, rng) -> float:
    """The largest difference between the kernel of the derivative and differences of what it is the derivative of."""
    tensors = tuple(parsed.tensors.values())
    *before, last = parsed.arguments
    value = parsed.expression
    for argument in before:
        value = td.jacobian(value, argument)
    kernels = td.lambdify(tensors, (derivative, value), backend="numpy")
    arrays = random_inputs(parsed, rng)
    found = kernels(*arrays)[0]
    wanted = differences(lambda *moved: kernels(*moved)[1], arrays, tensors.index(last))
    assert found.shape == wanted.shape
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


# %% Pictures


def draw_formulas(path: Path, rows) -> None:
    """Every expression beside its derivative, typeset."""
    figure = plt.figure(figsize=(9, 0.6 * len(rows) + 0.4))
    for number, (parsed, derivative) in enumerate(rows):
        names = ", ".join(str(argument) for argument in parsed.arguments)
        for column, text in (
            (0.02, f"${sympy.latex(parsed.expression)}$"),
            (0.40, f"by ${names}$"),
            (0.50, f"${sympy.latex(derivative)}$"),
        ):
            figure.text(column, 1 - (number + 0.7) / (len(rows) + 0.4), text, fontsize=13)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_graph(folder: Path, parsed) -> None:
    """The graph of an expression and of its derivative, as a picture where graphviz is installed."""
    drawing = td.draw_graph(parsed, simplify=True)
    try:
        drawing.save(folder / "text_language.svg")
        print(f"graph: {folder / 'text_language.svg'}")
    except td.errors.BackendError as error:
        print(f"no picture of the graph ({error}); as text:\n{drawing}")


# %% All together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first inputs only")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output", help="folder of the pictures")
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    rows, errors = [], []
    for text in INPUTS[: 4 if options.quick else None]:
        parsed = td.parse(text)
        derivative = parsed.derivative()
        show(parsed, derivative)
        errors.append(compare(parsed, derivative, rng))
        print(f"    largest relative difference from central differences: {errors[-1]:.1e}\n")
        rows.append((parsed, derivative))

    options.output.mkdir(parents=True, exist_ok=True)
    draw_formulas(options.output / "text_language.png", rows)
    print(f"formulas: {options.output / 'text_language.png'}")
    draw_graph(options.output, rows[3][0])
    assert max(errors) < 1e-7, "a derivative differs from central differences"


if __name__ == "__main__":
    main()
