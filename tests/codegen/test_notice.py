"""One line while Numba compiles for long: on a terminal, once, and not where it is switched off."""

from __future__ import annotations

import io
import sys
import time

import pytest
from every import every

from sympy_tensordiff.codegen.run import compilation


class Terminal(io.StringIO):
    def isatty(self):
        return True


@every("stream, value, wait, expected", [
    (Terminal, "", 0.2, "sympy_tensordiff: compiling 3 kernels, once (SYMPY_TENSORDIFF_NOTICE=off silences this)\n"),
    (Terminal, "off", 0.2, ""),
    (io.StringIO, "", 0.2, ""),
    (Terminal, "", 0.0, ""),
])  # fmt: skip
def test_notice(stream, value, wait, expected):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "ANNOUNCE_AFTER_SECONDS", 0.05)
        patch.setattr(sys, "stderr", stream())
        patch.setenv(compilation.NOTICE, value)
        with compilation.announce_if_slow("compiling 3 kernels"):
            time.sleep(wait)
        assert sys.stderr.getvalue() == expected
