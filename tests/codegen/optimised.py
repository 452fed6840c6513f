"""The text of compiled functions after LLVM's optimisations."""

import numpy as np

from sympy_tensordiff.codegen.emit.llvm_driver import print_llvm
from sympy_tensordiff.codegen.run import llvm


def optimised(function, dtype=np.float64):
    """Return what LLVM makes of a function for results of a type on this machine."""
    text = print_llvm(function._fused, llvm.target(np.dtype(dtype))).text
    return str(llvm.optimised(text, {}, llvm._machine()))
