"""Modified Bessel functions of the orders 0 and 1 as polynomials, for all backends.

``exp(-abs(x))*I_n(x)`` does not overflow. It is ``x**n`` times a polynomial in ``abs(x)/4 - 1`` up to 8. Beyond, it is
a polynomial in ``16/abs(x) - 1``, divided by ``sqrt(abs(x))`` (Abramowitz & Stegun 9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import sympy

from sympy_tensordiff.codegen.ir.scalars import Number, Operation, Scalar
from sympy_tensordiff.graph.functions import scaled_besseli
from sympy_tensordiff.graph.nodes import Node

_POLYNOMIALS_UP_TO_8 = (
    (
        0.2070019212239867, -0.11300432688620549, 0.09451562853995103, -0.08904344136075991, 0.08734341617552291,
        -0.08496338091615124, 0.07927522590716898, -0.06954119561742342, 0.056777032019843215, -0.04298594945226738,
        0.03017791202356886, -0.019682654708082413, 0.011960077903963348, -0.006792399792271578,
        0.0036171264596770616, -0.0018118870527295522, 0.0008563152483951447, -0.0003829015089457559,
        0.0001624054672701359, -6.550956130635514e-05, 2.5202271984440893e-05, -9.25059710625537e-06,
        3.2293850630678377e-06, -1.0891964284507317e-06, 3.675592893288293e-07, -1.1339523685907105e-07,
        2.6273368345256394e-08, -7.860369707508212e-09, 4.469372581856615e-09, -1.1662904878442954e-09,
    ),
    (
        0.044687709875608835, -0.06112433802966629, 0.0680575999095116, -0.0684826062058255, 0.0637674037134072,
        -0.05528003922705058, 0.044674572621255064, -0.03367135551994034, 0.023686016957724227,
        -0.01557130925657511, 0.00958396215077406, -0.005534567760544582, 0.003005762419557192,
        -0.0015388749636515487, 0.000744512345281566, -0.0003411747437353928, 0.00014842124144631648,
        -6.142651349494123e-05, 2.4233756432468166e-05, -9.131846315273642e-06, 3.2938951625746042e-06,
        -1.1380759138279984e-06, 3.759400376008922e-07, -1.2000364861910367e-07, 3.8028049651067336e-08,
        -1.1191257727176943e-08, 2.6037822441041467e-09, -7.379291130374042e-10, 3.727630409237771e-10,
        -9.365751909742237e-11,
    ),
)  # fmt: skip
_POLYNOMIALS_BEYOND = (
    (
        0.40217650944500816, 0.003360551983667876, 0.00013621607437737268, 1.1143033791893046e-05,
        1.483848150861771e-06, 2.973597885290274e-07, 8.871293193604678e-08, 3.9327123085832934e-08,
        2.162446034312458e-08, 7.543775238250733e-09, -7.116744499757987e-09, -1.335632771743214e-08,
        -4.270649721363825e-09, 7.396966587219158e-09, 5.1432089858622845e-09, -3.21251295103573e-09,
        -2.8927333669603943e-09, 1.1661396927314527e-09, 9.544598596408217e-10, -3.0719032844097364e-10,
        -1.4445666241808038e-10, 4.135870336904037e-11,
    ),
    (
        0.3893984590258723, -0.009749577193235751, -0.0002192357638187367, -1.5038547201402334e-05,
        -1.8349107416211804e-06, -3.483855125273481e-07, -1.0000323944983054e-07, -4.3130341641824356e-08,
        -2.3453111618217135e-08, -8.417810881556892e-09, 7.118573210000024e-09, 1.3986230294575344e-08,
        4.7942444927275885e-09, -7.500258824785232e-09, -5.508409408958088e-09, 3.158127700170617e-09,
        3.0582654028044287e-09, -1.1153074851895528e-09, -1.0032283190965858e-09, 2.8795297002473246e-10,
        1.513858549435606e-10, -3.8283098239014647e-11,
    ),
)  # fmt: skip
"""The coefficients of the polynomials of both orders, from the constant term on.

They interpolate at Chebyshev nodes. In double precision the values have errors of a few units in the last place.
"""


def has_polynomial(node: Node) -> bool:
    """Return whether the call `node` is a modified Bessel function that `modified_bessel` computes: ``besseli``, or the
    one scaled by ``exp(-abs(x))``, of the order 0 or 1.
    """
    return node.data in (sympy.besseli, scaled_besseli) and node.args[0].op == "const" and node.args[0].data in (0, 1)


def modified_bessel(order: int, is_scaled: bool, x: Scalar, named: Callable[[Scalar], Scalar]) -> Scalar:
    """Return code for the modified Bessel function ``I_order(x)`` of `order` 0 or 1; with ``is_scaled``, for
    ``exp(-abs(x))*I_order(x)``. The function ``named(value)`` assigns an expression that the code uses several times to
    a variable, and returns its name.
    """
    x = named(x)
    size = named(Operation("abs", (x,)))
    near = _polynomial(_POLYNOMIALS_UP_TO_8[order], named(_plus(_times(Number(Fraction(1, 4)), size), Number(-1))))
    inverse = Operation("pow", (size, Number(-1)))
    far = _polynomial(_POLYNOMIALS_BEYOND[order], named(_plus(_times(Number(16), inverse), Number(-1))))
    far = _times(far, Operation("pow", (Operation("pow", (size, Number(Fraction(1, 2)))), Number(-1))))
    if order:
        near, far = _times(x, near), _times(Operation("sign", (x,)), far)
    scaled: Scalar = Operation("select", (Operation("lt", (size, Number(8))), near, far))
    if is_scaled:
        return scaled
    # The function overflows later than the exponential.
    half = named(Operation("exp", (_times(Number(Fraction(1, 2)), size),)))
    return _times(_times(half, scaled), half)


def _polynomial(coefficients: Sequence[float], x: Scalar) -> Scalar:
    """Return code for the polynomial of ``x`` with these `coefficients`, by Horner's rule."""
    value: Scalar = Number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = _plus(Number(coefficient), _times(x, value))
    return value


def _times(one: Scalar, other: Scalar) -> Scalar:
    """Return the code expression ``one*other``."""
    return Operation("mul", (one, other))


def _plus(one: Scalar, other: Scalar) -> Scalar:
    """Return the code expression ``one + other``."""
    return Operation("add", (one, other))
