"""What lies between, apart from what is computed: `run` makes its arrays, `run_in` is given them.

New pages of memory cost more than what is computed in them, so a callable keeps the arrays for its next call.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.loops import Array, Program, Scatter
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.driver import Temporaries, run_parameters, size_lines
from sympy_tensordiff.codegen.printers.forms import Names
from sympy_tensordiff.codegen.walk import filled_arrays


def scratch_arrays(program: Program, names: Names) -> list[Array]:
    """The temporaries that `run_in` is given, in the order in which they are filled."""
    temporaries = Temporaries(program, names)
    steps = [step for step in program.kernels if not isinstance(step, Scatter)]
    found = [temporaries.get(name) for step in steps for name in filled_arrays(step)]
    return [array for array in found if array is not None]


def scratch_text(program: Program, names: Names, arrays: Sequence[Array]) -> str:
    """The function that makes the temporaries, without decorator."""
    temporaries = Temporaries(program, names)
    dtype = f"{names(program.outputs[0].name)}.dtype"
    made = [f"np.empty({temporaries.shape(array)}, {dtype})" for array in arrays]
    lines = [
        f"def scratch({', '.join(map(names, run_parameters(program)))}):",
        f'{INDENT}"""The arrays of what lies between: {", ".join(names(array.name) for array in arrays)}."""',
        *(INDENT + line for line in size_lines(program, names)),
        f"{INDENT}return ({', '.join(made)}{',' * (len(made) == 1)})",
    ]
    return "\n".join(lines)


def run_text(program: Program, names: Names, arrays: Sequence[Array]) -> str:
    """The function that fills the results, without decorator."""
    passed = ", ".join(map(names, run_parameters(program)))
    texts = ", ".join(names(array.name) for array in arrays)
    lines = [
        f"def run({passed}):",
        f'{INDENT}"""Fill {" and ".join(names(output.name) for output in program.outputs)}."""',
        f"{INDENT}{texts}{',' * (len(arrays) == 1)} = scratch({passed})",
        f"{INDENT}run_in({passed}, {texts})",
    ]
    return "\n".join(lines)
