"""Library calls on a CUDA device: CuPy, whose matrix products are cuBLAS."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence

from sympy_tensordiff.codegen.emit.driver import passed_names, shape_text
from sympy_tensordiff.codegen.emit.forms import FormNames, FormPrinter
from sympy_tensordiff.codegen.emit.helpers import called_by
from sympy_tensordiff.codegen.emit.library import LIBRARY_HELPERS, LIBRARY_NAMES
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.programs import Apply, CofactorTangent, ContractionStep, ProductStep, Step
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import filled_arrays
from sympy_tensordiff.errors import UnsupportedError

IMPORT = """
try:
    import cupy
    import cupyx
except ImportError:  # products of matrices have kernels of their own then
    cupy = None
"""

SHAPED = '''
def shaped(array, shape):
    """An array of a device with its axes, as CuPy takes it."""
    return cupy.asarray(array.bind()).reshape(shape)


def of_library(stream):
    """Where calls of CuPy work: on a stream, and with an error where a matrix is singular."""
    stack = contextlib.ExitStack()
    stack.enter_context(cupy.cuda.ExternalStream(int(stream)) if stream else cupy.cuda.Stream.null)
    stack.enter_context(cupyx.errstate(linalg="raise"))
    return stack
'''

OWN_NAMES = LIBRARY_NAMES | {"cupyx", "shaped", "of_library"}


def library_pieces(texts: Sequence[str]) -> list[str]:
    """Return the source texts of a CUDA module for ``texts``, functions that call a library: a text for array shapes
    (`SHAPED`), the helpers that they call, and the functions themselves, with CuPy in place of NumPy.
    """
    pieces = [*called_by(texts, LIBRARY_HELPERS).values(), *texts]
    return [SHAPED.strip("\n"), *(re.sub(r"\bnp\.(?!linalg\.LinAlgError)", "cupy.", piece) for piece in pieces)]


def library_arguments(step: ProductStep | Apply, names: FormNames, shapes: Shapes) -> list[str]:
    """Return the arguments of a library call as texts: the arrays that it fills and reads, with their shapes. ``names``
    maps names of the program to identifiers.
    """
    printer = FormPrinter(names)
    arrays = dict.fromkeys([*filled_arrays(step), *uses(step).arrays])
    assert list(map(names, arrays)) == passed_names(step, names)
    return [f"shaped({names(array)}, {shape_text(shapes[array], printer)})" for array in arrays]


def has_cupy() -> bool:
    """Return whether to use CuPy: it is installed, and Numba's CUDA simulator is off."""
    is_simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
    return not is_simulated and importlib.util.find_spec("cupy") is not None


def require_library(step: Step) -> None:
    """Raise UnsupportedError if CuPy is not available. The message says what ``step`` computes."""
    if not has_cupy():
        raise UnsupportedError(
            f"{_computed_value(step)} cannot be computed without a library for matrices, which there is none of "
            "on a CUDA device: install CuPy, or use backend='numba' or 'numpy'"
        )


def _computed_value(step: Step) -> str:
    """Return a description of the result of a library step, such as "a determinant", for an error message."""
    names = {
        "inv": "an inverse",
        "cofactor": "a cofactor",
        "det": "a determinant",
    }
    if isinstance(step, Apply):
        return names.get(step.function, "the logarithm of a determinant")
    if isinstance(step, CofactorTangent):
        return names["cofactor"]
    assert not isinstance(step, ContractionStep)
    return "the solution of equations with a matrix (its inverse)"
