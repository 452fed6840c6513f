"""The names that a C file cannot give to what users name."""

from __future__ import annotations

import re

from sympy_tensordiff.codegen.printers.c_library import HELPERS
from sympy_tensordiff.codegen.printers.c_nests import LIBRARY, OWN
from sympy_tensordiff.codegen.printers.c_products import MULTIPLIED
from sympy_tensordiff.codegen.printers.forms import Names


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "alignas alignof bool catch class compl concept consteval constexpr constinit decltype delete explicit export "
    "false friend mutable namespace new noexcept nullptr operator private protected public requires template this "
    "throw true try typeid typename using virtual xor and or not bitand bitor not_eq or_eq and_eq xor_eq"
)
"""Those of C and, for the header, of C++."""

MACROS = _words(
    "I NAN INFINITY NULL EOF HUGE_VAL HUGE_VALF HUGE_VALL EDOM ERANGE errno assert complex imaginary isnan isinf "
    "isfinite isnormal signbit fpclassify offsetof unix linux near far min max small BUFSIZ RAND_MAX stdin stdout "
    "stderr va_arg setjmp DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS"
)
"""Names that may be macros where the file or the header is compiled."""

MATH = _words(
    "acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 "
    "log1p log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint "
    "lrint llrint round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin "
    "fma j0 j1 jn y0 y1 yn gamma drem significand scalb signgam pow10 exp10 sincos finite abs labs malloc free"
)

OWN_NAMES = _words(
    "real scratch work count code SUMS VECTOR PARALLEL PRAGMA LARGEST SIMD ptrdiff_t size_t int32_t int64_t uint32_t "
    "uint64_t bits_of of_bits bits_of_double"
)
"""What a file itself has, besides functions."""

RESERVED = KEYWORDS | MACROS | MATH | OWN_NAMES | {f"{name}{ending}" for name in MATH for ending in "fl"}
RESERVED |= {*HELPERS, *MULTIPLIED, *LIBRARY.values(), *OWN.values()}


class CNames(Names):
    """Identifiers of C: none begins with an underscore, which C leaves to the compiler."""

    def spelled(self, name: str) -> str:
        name = re.sub("_+", lambda match: "_" if match.start() else "v_", name)
        return f"{name}_value" if re.fullmatch(r"power_\d+|\w+_(of_search|H|RESTRICT)", name) else name
