"""Special functions for C files that ``math.h`` lacks; they compute in double precision."""

from __future__ import annotations

import math

import sympy

_RATIOS = [float(sympy.bernoulli(k) / sympy.factorial(k)) for k in range(2, 22, 2)]

_A = 0.147
"""The constant of Winitzki's approximation of the inverse error function, which has a relative error of 0.002."""

SPECIAL = {
    "polygamma": f"""\
/* The derivative of order n + 1 of log(abs(gamma(x))): first terms, and the formula of Euler and Maclaurin. */
static real polygamma(real n, real x) {{
    static const double ratios[{len(_RATIOS)}] = {{{", ".join(map(repr, _RATIOS))}}};
    const double order = n;
    double at = x, total = 0.0, factorial = 1.0, turned = 0.0;
    if (order < 0.0 || order != floor(order) || (order == 0.0 && at < 0.0 && at == floor(at))) {{
        return NAN;
    }}
    if (at <= 0.0 && at == floor(at)) {{
        return order == 0.0 ? -copysign(INFINITY, at) : fmod(order, 2.0) == 1.0 ? INFINITY : -INFINITY;
    }}
    if (order == 0.0 && at < 0.0) {{
        turned = {math.pi!r}/tan({math.pi!r}*(at - floor(at)));
        at = 1.0 - at;
    }}
    for (double k = 1.0; k <= order; k++) {{
        factorial *= k;
    }}
    /* At negative x, a part of the sum over all integers: zeta(s, x) from three values at positive numbers. */
    double mirrored = fmod(order, 2.0) == 1.0 ? 1.0 : -1.0, x0 = at;
    for (int part = 0; part < (x0 > 0.0 ? 1 : 3); part++) {{
        double sign = part == 0 ? 1.0 : part == 1 ? mirrored : -mirrored;
        if (!(x0 > 0.0)) {{
            at = part == 0 ? x0 - floor(x0) : part == 1 ? ceil(x0) - x0 : 1.0 - x0;
        }}
        double value = 0.0;
        for (; at < 10.0 + order; at++) {{
            value += pow(at, -order - 1.0);
        }}
        value += (order == 0.0 ? -log(at) : pow(at, -order)/order) + 0.5*pow(at, -order - 1.0);
        double term = (order + 1.0)*pow(at, -order - 2.0);
        if (order == 0.0) {{
            term = 1.0/(at*at);
        }}
        for (int k = 0; k < {len(_RATIOS)}; k++) {{
            value += ratios[k]*term;
            term *= (order + 2*k + 2.0)*(order + 2*k + 3.0)/(at*at);
        }}
        total += sign*value;
    }}
    return (real)((fmod(order, 2.0) == 1.0 ? factorial : -factorial)*total - turned);
}}""",
    "inverse_erf": f"""\
/* The x with erf(x) = y: Winitzki's approximation, and Halley's method for erf, or for erfc where that is small. */
static real inverse_erf(real y) {{
    const double size = fabs((double)y), rest = 1.0 - size;
    if (size < 1e-8) {{
        return (real)({math.sqrt(math.pi) / 2!r}*y);
    }}
    if (!(rest > 0.0)) {{
        return rest == 0.0 ? (real)copysign(INFINITY, y) : NAN;
    }}
    const double power = size < 0.5 ? log1p(-size*size) : log(rest*(1.0 + size));
    const double half = {2 / (math.pi * _A)!r} + 0.5*power;
    double x = sqrt(-power/{_A}/(sqrt(half*half - power/{_A}) + half));
    for (int k = 0; k < 3; k++) {{
        const double step = {math.sqrt(math.pi) / 2!r}*exp(x*x)*(size < 0.5 ? erf(x) - size : rest - erfc(x));
        x -= step/(1.0 + x*step);
    }}
    return (real)copysign(x, y);
}}""",
    "spherical_bessel": """\
/* The spherical Bessel function of order n = 0, 1, 2, ...: its series near 0, and the recurrence elsewhere. */
static real spherical_bessel(real n, real x) {
    const double at = x;
    const int order = (int)n;
    double total = 1.0, term = 1.0;
    if (fabs(at) <= order + 1) {
        for (int k = 1; k <= order; k++) {
            term *= at/(2*k + 1);
        }
        total = term;
        for (int k = 1; k <= order + 10; k++) {
            term *= -at*at/(2.0*k*(2*(order + k) + 1));
            total += term;
        }
        return (real)total;
    }
    if (fabs(at) == INFINITY) {
        return 0;
    }
    term = cos(at)/at;
    total = sin(at)/at;
    for (int k = 0; k < order; k++) {
        const double next = (2*k + 1)/at*total - term;
        term = total;
        total = next;
    }
    return (real)total;
}""",
}
"""The C functions by their names."""

SPECIAL_NAMES = {"polygamma": "polygamma", "erfinv": "inverse_erf"}
"""The names in C of SymPy's special functions."""
