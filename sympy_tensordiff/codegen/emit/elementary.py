"""Vectorisable elementary functions, as text for Numba's modules.

A call of the C library prevents the vectorisation of a loop. These functions have no calls and no branches: the
argument is reduced to a small interval, a minimax polynomial (by Remez' exchange) gives the value, and the values
at special arguments are selected at the end. Their error is below 2 units in the last place, that of erfc below 4;
overflow, denormal numbers, infinities, nan and zeros are as in NumPy.

Each function exists in both precisions and computes in its own, except that angles in single precision are reduced in
double precision. Constants like log(2) are sums of two numbers; the first one ends in so many zeros that its multiples
by small integers are exact. Fused multiply-add keeps the error bounds, reassociation would not: the functions are
compiled without it, whatever the loops around them are compiled with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import sympy

from sympy_tensordiff.codegen.emit.helpers import called_by
from sympy_tensordiff.codegen.schedule.angles import MAX_NEAR_ANGLE


@dataclass(frozen=True)
class Precision:
    """A floating-point type, single or double, with the coefficients and constants of elementary functions in this
    precision. Called with a number, it returns the literal of the number as Python text.
    """

    name: str
    bits: int
    digits: int
    """The binary digits of a significand after the point."""
    half_root: int
    """The square root of 1/2, its bits read as an integer."""
    ln2: tuple[float, float]
    two_thirds: tuple[float, float]
    """2/3 as a sum, the first term of half the digits."""
    exp_range: tuple[float, float]
    """Below, exp is 0, above, infinite."""
    exp: Sequence[float]
    """(exp(r) - 1 - r)/r**2 for abs(r) <= log(2)/2."""
    log: Sequence[float]
    """(2*atanh(s) - 2*s)/s**3 as a polynomial in s**2, for (1 + s)/(1 - s) from sqrt(1/2) to sqrt(2)."""
    tanh: Sequence[float]
    """(tanh(x) - x)/x**3 as a polynomial in x**2, for abs(x) <= 0.55."""
    sin: Sequence[float]
    """(sin(r) - r)/r**3 as a polynomial in r**2, for abs(r) <= pi/4."""
    cos: Sequence[float]
    """(cos(r) - 1 + r**2/2)/r**4 as a polynomial in r**2, for abs(r) <= pi/4."""
    erf: Sequence[float]
    """(erf(x) - x)/x as a polynomial in x**2, for abs(x) <= 1."""
    erf_range: float
    """Above, erf is 1."""
    erfc: Sequence[float]
    """exp(x**2)*(1 - erf(x)) as a polynomial in (x - 2)/(x + 2), from 1 to the end of ``erf_range``."""
    erfc_range: float
    """Above, erfc is 0."""
    erfc_variable: tuple[float, float]
    """Numbers a and b: a - b/(x + 3.75) is from -1 to 1 for x from 1/2 to the end of ``erfc_range``."""
    erfcx: Sequence[float]
    """(1 + 2*x)*exp(x**2)*(1 - erf(x)) as a polynomial in that variable, by interpolation at Chebyshev nodes."""
    atan: Sequence[float]
    """(atan(t) - t)/t**3 as a polynomial in t**2, for abs(t) <= 1/2, by interpolation at Chebyshev nodes."""
    asinh: Sequence[float]
    """(asinh(x) - x)/x**3 as a polynomial in x**2, for abs(x) <= 1/2, by interpolation at Chebyshev nodes."""
    atanh: Sequence[float]
    """(atanh(x) - x)/x**3 as a polynomial in x**2, for abs(x) <= 1/2, by interpolation at Chebyshev nodes."""
    quarter_pi: tuple[float, float]
    """The number pi/4 as a sum; the first term ends in zeros, so that its multiples up to 4 are exact."""
    acosh: Sequence[float]
    """(acosh(1 + t)/sqrt(2*t) - 1)/t as a polynomial in t from 0 to 1/2, by interpolation at Chebyshev nodes."""
    tan: Sequence[float]
    """(tan(r) - r)/r**3 as a polynomial in r**2, for abs(r) <= pi/4, by interpolation at Chebyshev nodes."""
    sine_of_turns: Sequence[float]
    """(sin(pi*f)/(pi*f) - 1)/f**2 as a polynomial in f**2, for abs(f) <= 1/2, by interpolation at Chebyshev nodes."""
    trigamma: Sequence[float]
    """(psi'(1/w) - w - w**2/2)/w**3 as a polynomial in w**2, for w from 0 to 1/6, by interpolation at Chebyshev
    nodes. The function psi is the derivative of log(gamma)."""
    tetragamma: Sequence[float]
    """(-psi''(1/w) - w**2 - w**3)/w**4 as a polynomial in w**2, for w from 0 to 1/6, likewise."""

    @property
    def bias(self) -> int:
        """The greatest exponent of this type. It is also the bias: the number that is added to exponents before they
        are stored.
        """
        return (1 << (self.bits - self.digits - 2)) - 1

    def __call__(self, value: float | str) -> str:
        """A constant of this type as text."""
        text = value if isinstance(value, str) else repr(value)
        return text if self.bits == 64 else f"real({text})"

    def polynomial(self, coefficients: Sequence[float], variable: str, p: str = "p") -> str:
        """Return the lines of code that compute a polynomial of ``variable`` by Horner's rule and store it in ``p``.
        ``coefficients`` begin with the constant term.
        """
        lines = [f"{p} = {self(coefficients[-1])}"]
        lines += [f"{p} = {p}*{variable} + {self(c)}" for c in reversed(coefficients[:-1])]
        return "\n    ".join(lines)

    def power(self, exponent: str) -> str:
        """Return code for ``2**exponent``, given the code of an integer expression; the result must be a normal (not
        denormal) number.
        """
        # NumPy, which runs the text as Python, shifts an integer within its type; Numba widens it.
        return f"whole(whole({exponent} + {self.bias}) << {self.digits}).view(real)"

    def stored(self, biased: str) -> str:
        """Return code for the power of 2 that a floating-point number with the stored exponent ``biased``, and zeros in
        all other bits, represents.
        """
        return f"natural({biased} << natural({self.digits})).view(real)"

    def leading(self, value: str) -> str:
        """Return code that keeps the leading half of the digits of ``value``, so that products of two such numbers are
        exact.
        """
        return f"whole(real({value}).view(whole) & -{1 << (self.digits + 2) // 2}).view(real)"

    @property
    def round(self) -> float:
        """The constant ``1.5*2**digits``. Adding it to a number rounds that number to an integer, which is then in the
        last bits of the sum.
        """
        return 1.5 * 2.0**self.digits

    @property
    def round_bits(self) -> int:
        """The bits of the floating-point constant `round`, read as an integer. The bits of ``n + round``, for a small
        integer n, minus these bits are n.
        """
        return (self.bias + self.digits << self.digits) + (1 << self.digits - 1)


HALF_PI = (1.5707963267923333, 2.5633441515839558e-12, 1.0562999066987428e-23)
"""The number pi/2 as a sum; the first two terms end in 16 zeros. Subtracting multiples of all three terms, or of the \
first two for results in single precision, reduces angles up to `MAX_NEAR_ANGLE` to the last place."""

DOUBLE = Precision(
    "double", 64, 52, 0x3FE6A09E667F3BCD,
    (0.6931471805598903, 5.497923018708371e-14),
    (0.6666666567325592, 9.934107462565104e-09),
    (-746.0, 710.0),
    (0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316685, 0.001388888888885845,
     0.00019841269897194648, 2.4801587373717812e-05, 2.7557234099199526e-06, 2.7557233381986343e-07,
     2.5112288463058624e-08, 2.0926936199759747e-09),
    (0.6666666666666666, 0.40000000000006264, 0.2857142856908016, 0.2222222264766127, 0.18181775596119903,
     0.15387093802036686, 0.13250049229755978, 0.13251958100570982),
    (-0.3333333333333333, 0.13333333333333075, -0.053968253968049086, 0.02186948852800698, -0.008863235339732522,
     0.0035921252049420276, -0.0014558061819135847, 0.0005898347869136302, -0.0002382200650231849,
     9.397999990898455e-05, -3.298154164719026e-05, 7.4571135883433565e-06),
    (-0.16666666666666632, 0.008333333333322413, -0.00019841269829807808, 2.755731369191808e-06,
     -2.5050758115276925e-08, 1.589679565383861e-10),
    (0.0416666666666666, -0.0013888888888874125, 2.4801587289482194e-05, -2.7557314352335047e-07,
     2.0875723273482756e-09, -1.1359647814766066e-11),
    (0.12837916709551256, -0.3761263890318352, 0.11283791670944184, -0.0268661706431112,
     0.0052239776061163935, -0.000854832592921875, 0.00012055293574147682, -1.4924712251076723e-05,
     1.644713096517641e-06, -1.6206309275766584e-07, 1.3710961647341593e-08, -7.779434597978067e-10),
    6.0,
    (0.25539567631050575, -0.4271858474139568, 0.2416581942424664, -0.07897858101645544, 0.0037328923986195,
     0.0069974617901496505, -0.0008471425728399713, -0.000981976583050537, 4.3535325763471085e-05,
     0.00017428766461939537, 2.7630449953636732e-05, -2.6588136850707595e-05, -1.2623030593551094e-05),
    27.5,
    (1.3148148148148149, 9.837962962962964),
    (1.2378426274917704, -0.10692464952301531, 0.001744134298121643, 0.03690999673233077, -0.03711942737115032,
     0.023982756310624964, -0.011613944069521069, 0.004272078463894611, -0.0011162232075812117,
     0.00015209038519186773, 1.9974564073460377e-05, -1.4740367988759332e-05, 1.9636986542560406e-06,
     6.68669911754814e-07, -2.5537586917101277e-07, -1.774973275712551e-08, 2.265250053659999e-08,
     -4.544145053986109e-10, -1.8280854097783138e-09, 1.1840701055336912e-10, 1.0922701687181971e-10,
     -8.921182178061822e-12),
    (-0.33333333333333326, 0.199999999999916, -0.14285714284106285, 0.11111110990139533, -0.09090904370311348,
     0.07692198451257941, -0.06665052856794013, 0.058664967492257074, -0.05157516225552972, 0.04283578705573422,
     -0.02895352123252625, 0.011152908092096216),
    (-0.16666666666666666, 0.0749999999999864, -0.044642857140252436, 0.030381944248546365, -0.022372151449922602,
     0.01735258771519257, -0.013962235682232349, 0.011526210169675569, -0.009591452221673173, 0.007622309427481728,
     -0.004992717198142511, 0.0018854117655039003),
    (0.3333333333333333, 0.20000000000000864, 0.14285714285490106, 0.11111111133938968, 0.09090907881509189,
     0.07692345940270638, 0.06665886352701884, 0.05893099692590042, 0.05160769881147162, 0.05441915418234587,
     0.012292448728540531, 0.13557903913692299, -0.14450491183414468, 0.21098097885975797),
    (0.7853981633974483, 3.061616997868383e-17),
    (-0.08333333333333333, 0.0187499999999966, -0.0055803571425315545, 0.0018988715155341478,
     -0.0006991297328100813, 0.0002711341830498839, -0.00010907996626744022, 4.502425847529519e-05,
     -1.8733305120455416e-05, 7.443661550275125e-06, -2.437850194405523e-06, 4.6030560681247566e-07),
    (0.3333333333333333, 0.13333333333333, 0.05396825396865669, 0.021869488517019687, 0.008863236004747537,
     0.003592120963192623, 0.0014559028934120557, 0.0005895746779513982, 0.0002412302318213227,
     8.99738179014065e-05, 5.561124272292848e-05, -1.1046556992740058e-05, 3.654645824603198e-05,
     -1.833169823906272e-05, 8.4872853977141e-06),
    (-1.6449340668482264, 0.8117424252833536, -0.19075182412208389, 0.026147847817640922, -0.002346081035170168,
     0.00014842878972770888, -6.975851212142348e-06, 2.5303274566671434e-07, -7.114052818770147e-09),
    (0.16666666666666644, -0.03333333333220509, 0.023809522948893713, -0.03333308110147455, 0.07572083203711484,
     -0.2501477294451848, 1.0286907996359482, -3.412961215232866),
    (0.4999999999999998, -0.1666666666653065, 0.1666666653490037, -0.29999950444642587, 0.8332389337040155,
     -3.280203272435419, 16.82395293130513, -93.09541213862052, 353.39160769467355),
)  # fmt: skip

SINGLE = Precision(
    "single", 32, 23, 0x3F3504F3,
    (0.693145751953125, 1.4286068e-06),
    (0.66650390625, 0.00016276042),
    (-104.0, 89.0),
    (0.5, 0.16666667, 0.04166627, 0.008333264, 0.0013946119, 0.00019918448),
    (0.6666666, 0.40000334, 0.28537273, 0.23582861),
    (-0.3333333, 0.13333295, -0.053959783, 0.021783685, -0.00841652, 0.0023986641),
    (-0.16666655, 0.008332178, -0.00019517235),
    (0.041666646, -0.0013887367, 2.443838e-05),
    (0.12837917, -0.37612626, 0.112835854, -0.026853811, 0.005188325, -0.0008010168, 7.853778e-05),
    4.0,
    (0.25539568, -0.42718586, 0.24165745, -0.07898113, 0.003769849, 0.007325149, 0.00011354597),
    10.5,
    (1.85, 12.1125),
    (1.2576861, -0.08327247, -0.018953621, 0.040179763, -0.029097332, 0.014373903, -0.005299691, 0.0014304123,
     -0.00023432344, 8.950748e-06),
    (-0.33333334, 0.19999875, -0.142798, 0.110068806, -0.08235506, 0.04225686),
    (-0.16666667, 0.07499973, -0.04463002, 0.030156178, -0.020526793, 0.009936504),
    (0.33333334, 0.1999996, 0.14288285, 0.1105083, 0.097519405, 0.04091623, 0.15629165),
    (0.785398006439209, 1.5695824e-07),
    (-0.08333332, 0.018748956, -0.005563314, 0.0017989754, -0.00044651589),
    (0.33333334, 0.13333231, 0.053994495, 0.021620877, 0.009963025, 0.0011839186, 0.0038439722),
    (-1.644934, 0.81174237, -0.19075006, 0.02612806, -0.0022550628),
    (0.16666664, -0.033320066, 0.02251096),
    (0.49999982, -0.16654943, 0.15514536),
)  # fmt: skip


def _exp(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable exp for the floating-point type ``a``."""
    low, high = map(a, a.exp_range)
    return f"""
    c = {low} if x < {low} else {high} if x > {high} else x
    {_nearest_integer(a)}
    r = c - n*{a(a.ln2[0])} - n*{a(a.ln2[1])}
    {a.polynomial(a.exp, "r")}
    value = {a(1.0)} + (r + r*r*p)
    k = {_biased_exponent(a, 2)}
    half = natural(k >> natural(1))
    return value*{a.stored("half")}*{a.stored("natural(k - half)")}"""


def _half_exponential(a: Precision) -> str:
    """Return lines of code, in the precision ``a``, that compute ``size = abs(x)`` and ``half = exp(size)/2``, which
    cosh and sinh need. The result is finite for some sizes at which ``exp(size)`` overflows.
    """
    high = a(a.exp_range[1] + 2)
    return f"""size = abs(x)
    c = {high} if size > {high} else size
    {_nearest_integer(a)}
    r = c - n*{a(a.ln2[0])} - n*{a(a.ln2[1])}
    {a.polynomial(a.exp, "r")}
    value = {a(1.0)} + (r + r*r*p)
    k = {_biased_exponent(a, 2, 1)}
    below = natural(k >> natural(1))
    half = value*{a.stored("below")}*{a.stored("natural(k - below)")}"""


def _cosh(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable cosh for the floating-point type ``a``."""
    return f"""
    {_half_exponential(a)}
    return half + {a(0.25)}/half"""


def _sinh(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable sinh for the floating-point type ``a``: a series for
    abs(x) < 1.
    """
    terms = 8 if a.bits == 64 else 5
    return f"""
    {_half_exponential(a)}
    z = x*x
    {a.polynomial([1 / math.factorial(2 * n + 3) for n in range(terms)], "z", "q")}
    return math.copysign(size + size*(z*q) if size < {a(1.0)} else half - {a(0.25)}/half, x)"""


def _nearest_integer(a: Precision) -> str:
    """Return code that sets ``n`` to the integer nearest to ``c/log(2)``, the first step of an exponential of ``c`` in
    the floating-point type ``a``.

    It also sets ``shifted`` to n plus a constant so large that the last bits of the sum are those of n.
    """
    return f"""shifted = c*{a(1.4426950408889634)} + {a(a.round)}
    n = shifted - {a(a.round)}"""


def _biased_exponent(a: Precision, times: int, less: int = 0) -> str:
    """Return code for the integer ``n - less + times*bias``, the exponent field of a power of 2 in the floating-point
    type ``a``. The code takes ``n`` from the last bits of its variable ``shifted``.
    """
    return f"natural(real(shifted).view(natural) - natural({a.round_bits + less - times * a.bias}))"


def _expm1(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable expm1 for the floating-point type ``a``."""
    low, high = a(-(a.digits + 2.0)), a(a.exp_range[1])
    return f"""
    c = {low} if x < {low} else {high} if x > {high} else x
    {_nearest_integer(a)}
    first = c - n*{a(a.ln2[0])}
    rest = n*{a(a.ln2[1])}
    r = first - rest
    rest = (first - r) - rest
    {a.polynomial(a.exp, "r")}
    half = {a.stored(_biased_exponent(a, 1, 1))}
    value = {a(2.0)}*(((half - {a(0.5)}) + half*r) + half*(r*r*p + rest))
    return x if abs(x) < {a(2.0 ** (-a.digits - 2))} else value"""


def _logarithm(a: Precision) -> str:
    """Return lines of code that compute ``n*log(2) + log(1 + f)``, the logarithm of a number ``2**n*(1 + f)``."""
    return f"""h = {a(0.5)}*f*f
    s = f/({a(2.0)} + f)
    z = s*s
    {a.polynomial(a.log, "z")}
    value = n*{a(a.ln2[0])} - ((h - (s*(h + z*p) + n*{a(a.ln2[1])})) - f)"""


def _log(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable log for the floating-point type ``a``."""
    least, scale, inf = a(2.0 ** (1 - a.bias)), a.digits + 2, a("math.inf")
    return f"""
    read = real(x*({a(2.0**scale)} if x < {least} else {a(1.0)})).view(whole)
    k = whole(read - {a.half_root}) >> {a.digits}
    f = whole(read - (k << {a.digits})).view(real) - {a(1.0)}
    n = real(np.int32(k - ({scale} if x < {least} else 0)))
    {_logarithm(a)}
    special = x if x > {a(0.0)} or x != x else -{inf} if x == {a(0.0)} else {a("math.nan")}
    return value if x > {a(0.0)} and x < {inf} else special"""


def _log1p(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable log1p for the floating-point type ``a``."""
    inf = a("math.inf")
    return f"""
    y = x + {a(1.0)}
    lost = (x - (y - {a(1.0)})) + ({a(1.0)} - (y - (y - {a(1.0)})))
    read = real(y).view(whole)
    k = whole(read - {a.half_root}) >> {a.digits}
    f = whole(read - (k << {a.digits})).view(real) - {a(1.0)}
    f = f + lost*{a.power("-min(k, 64)")}
    n = real(np.int32(k))
    {_logarithm(a)}
    special = x if x > {a(0.0)} or x != x else -{inf} if x == {a(-1.0)} else {a("math.nan")}
    value = value if x > {a(-1.0)} and x < {inf} else special
    return x if abs(x) < {a(2.0 ** (-a.digits - 2))} else value"""


def _tanh(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable tanh for the floating-point type ``a``; a loop with the
    derivative of tanh computes the exponential once for both.
    """
    return f"""
    size = abs(x)
    z = x*x
    {a.polynomial(a.tanh, "z")}
    small = exp(-abs({a(2.0)}*x))
    large = ({a(1.0)} - small)/({a(1.0)} + small)
    return math.copysign(size + size*(z*p) if size < {a(0.55)} else large, x)"""


def _erf(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable erf for the floating-point type ``a``."""
    return f"""
    size = abs(x)
    z = x*x
    {a.polynomial(a.erf, "z")}
    c = {a(a.erf_range)} if size > {a(a.erf_range)} else size
    t = (c - {a(2.0)})/(c + {a(2.0)})
    {a.polynomial(a.erfc, "t", "q")}
    large = {a(1.0)} - exp(-(c*c))*q
    return math.copysign(size + size*p if size < {a(1.0)} else large, x)"""


def _exponential_of_sum(a: Precision) -> str:
    """Return lines of code that compute ``exp(first + rest)`` in the precision ``a``, where ``rest`` is the rounding
    error of ``first``.
    """
    low, high = map(a, a.exp_range)
    return f"""total = first + rest
    c = {low} if total < {low} else {high} if total > {high} else total
    first = first if total == c else c
    rest = rest if total == c else {a(0.0)}
    {_nearest_integer(a)}
    r = ((first - n*{a(a.ln2[0])}) - n*{a(a.ln2[1])}) + rest
    {a.polynomial(a.exp, "r")}
    value = {a(1.0)} + (r + r*r*p)
    k = {_biased_exponent(a, 2)}
    half = natural(k >> natural(1))
    value = value*{a.stored("half")}*{a.stored("natural(k - half)")}"""


def _erfc(a: Precision) -> str:
    """Return the body, as Python text, of our own erfc for the floating-point type ``a``: ``1 - erf(x)`` near 0,
    elsewhere ``exp(-x**2)`` times a polynomial, with the square in two parts.
    """
    return f"""
    size = abs(x)
    z = x*x
    {a.polynomial(a.erf, "z")}
    near = {a(1.0)} - x - x*p
    c = {a(a.erfc_range)} if size > {a(a.erfc_range)} else size
    kept = c
    u = {a(a.erfc_variable[0])} - {a(a.erfc_variable[1])}/(c + {a(3.75)})
    {a.polynomial(a.erfcx, "u", "q")}
    upper = {a.leading("c")}
    first = -(upper*upper)
    rest = (upper - c)*(upper + c)
    {_exponential_of_sum(a)}
    large = value*(q/({a(1.0)} + {a(2.0)}*kept))
    return near if size < {a(0.5)} else {a(2.0)} - large if x < {a(0.0)} else large"""


def _sigmoid(a: Precision) -> str:
    """Return the body, as Python text, of our own sigmoid for the floating-point type ``a``: ``1/(1 + exp(-x))``,
    corrected for the rounding error of its denominator.
    """
    return f"""
    small = exp(-abs(x))
    below = {a(1.0)} + small
    lost = small - (below - {a(1.0)})
    value = (small if x < {a(0.0)} else {a(1.0)})/below
    return value - value*(lost*({a(1.0)} - value if x < {a(0.0)} else value))"""


def _logistic_density(a: Precision) -> str:
    """Return the body, as Python text, of the derivative of `sigmoid` for the floating-point type ``a``; in a loop with
    `sigmoid` or tanh its exponential is computed once.
    """
    return f"""
    small = exp(-abs(x))
    below = {a(1.0)} + small
    return small/(below*below)"""


def _softplus(a: Precision) -> str:
    """Return the body, as Python text, of our own vectorisable softplus for the floating-point type ``a``."""
    return f"""
    return ({a(0.0)} if x < {a(0.0)} else x) + log1p(exp(-abs(x)))"""


def _sine_near(a: Precision, quarters: int) -> str:
    """Return the body, as Python text, of the function ``sin(x + quarters*pi/2)`` (so cosine for ``quarters`` 1) for
    the floating-point type ``a``. It is valid for angles that are not large: a large one is taken as 0.
    """
    rest = "t - n*{1!r} - n*{2!r}" if a.bits == 64 else "real(t - n*{1!r})"
    value = f"value if abs(x) > {a(2.0**-26)} else x" if not quarters else "value"
    return f"""
    {_quarter_turns(a)}
    r = {rest.format(*HALF_PI)}
    z = r*r
    {a.polynomial(a.sin, "z", "p")}
    {a.polynomial(a.cos, "z", "q")}
    h = {a(0.5)}*z
    one = {a(1.0)} - h
    sine = r + r*(z*p)
    cosine = one + ((({a(1.0)} - one) - h) + z*z*q)
    k = np.float64(turns).view(np.int64){f" + {quarters}" * bool(quarters)}
    value = cosine if k & 1 else sine
    value = -value if k & 2 else value
    return {value}"""


def _quarter_turns(a: Precision) -> str:
    """Return Python code, in the precision ``a``, that begins to reduce an angle ``x`` modulo pi/2: it rounds
    ``x/(pi/2)`` to the integer ``n`` and stores ``x - n*HALF_PI[0]`` in ``t``.

    The smaller terms of `HALF_PI` are still to be subtracted from ``t``. The low bits of the double ``turns`` contain
    ``n``, which gives the quadrant.
    """
    return f"""c = np.float64(x if abs(x) <= {a(MAX_NEAR_ANGLE)} else x - x)
    turns = c*{2 / math.pi!r} + {DOUBLE.round}
    n = turns - {DOUBLE.round}
    t = c - n*{HALF_PI[0]!r}"""


def _tan_near(a: Precision) -> str:
    """Return the body of a tan function, as Python text, for the floating-point type ``a`` and for angles that are not
    large. The angle is first reduced by multiples of pi/2; the rounding error of this is corrected by the derivative of
    tan.
    """
    if a.bits == 64:
        rest = f"""r = t - n*{HALF_PI[1]!r}
    lost = ((t - r) - n*{HALF_PI[1]!r}) - n*{HALF_PI[2]!r}"""
    else:
        rest = f"""exact = t - n*{HALF_PI[1]!r}
    r = real(exact)
    lost = real(exact - np.float64(r))"""
    return f"""
    {_quarter_turns(a)}
    {rest}
    z = r*r
    {a.polynomial(a.tan, "z")}
    value = r*(z*p)
    slope = r + value
    value = r + (value + lost*({a(1.0)} + slope*slope))
    k = np.float64(turns).view(np.int64)
    value = {a(-1.0)}/value if k & 1 else value
    return value if abs(x) > {a(2.0**-26)} else x"""


def _arctangent(a: Precision) -> str:
    """Return lines of code that compute the arc tangent of ``low/high``, for ``0 <= low <= high``, as ``eighths*pi/4 +
    small``. If the variable ``is_steep`` of the code is true, they compute pi/2 minus this.

    A quotient above 1/2 is replaced by ``(low - high)/(low + high)``, whose arc tangent is less by pi/4.
    """
    return f"""is_near = low > {a(0.5)}*high
    half = {a(0.5)} if high > {a(1.0)} else {a(1.0)}
    above = half*low - half*high if is_near else low
    below = half*low + half*high if is_near else high
    t = above/below
    z = t*t
    {a.polynomial(a.atan, "z")}
    small = t + t*(z*p)
    eighths = {a(1.0)} if is_near else {a(0.0)}
    small = -small if is_steep else small
    eighths = {a(2.0)} - eighths if is_steep else eighths"""


def _arctan(a: Precision) -> str:
    """Return the body, as Python text, of our own atan for the floating-point type ``a``."""
    return f"""
    size = abs(x)
    is_steep = size > {a(1.0)}
    low = {a(1.0)} if is_steep else size
    high = size if is_steep else {a(1.0)}
    {_arctangent(a)}
    return math.copysign(eighths*{a(a.quarter_pi[0])} + (small + eighths*{a(a.quarter_pi[1])}), x)"""


def _arctan2(a: Precision) -> str:
    """Return the body, as Python text, of our own ``atan2(y, x)`` for the floating-point type ``a``."""
    return f"""
    width = abs(x)
    height = abs(y)
    is_steep = height > width
    low = width if is_steep else height
    high = height if is_steep else width
    are_infinite = low == {a("math.inf")} and high == {a("math.inf")}
    low = {a(1.0)} if are_infinite else low
    high = {a(1.0)} if high == {a(0.0)} or are_infinite else high
    {_arctangent(a)}
    is_left = math.copysign({a(1.0)}, x) < {a(0.0)}
    small = -small if is_left else small
    eighths = {a(4.0)} - eighths if is_left else eighths
    return math.copysign(eighths*{a(a.quarter_pi[0])} + (small + eighths*{a(a.quarter_pi[1])}), y)"""


def _arcsinh(a: Precision) -> str:
    """Return the body, as Python text, of our own asinh for the floating-point type ``a``: ``log(x + sqrt(x**2 + 1))``
    for positive x, a polynomial near 0.
    """
    large = a(2.0 ** (a.bias // 2 - 10))
    return f"""
    size = abs(x)
    z = x*x
    {a.polynomial(a.asinh, "z")}
    c = {a(1.0)} if size > {large} else size
    square = c*c
    more = c + square/({a(1.0)} + np.sqrt({a(1.0)} + square))
    value = log1p(size if size > {large} else more) + ({a(math.log(2))} if size > {large} else {a(0.0)})
    return math.copysign(size + size*(z*p) if size < {a(0.5)} else value, x)"""


def _arccosh(a: Precision) -> str:
    """Return the body, as Python text, of our own acosh for the floating-point type ``a``: ``log(x + sqrt(x**2 - 1))``,
    and near 1 a polynomial times ``sqrt(2*(x - 1))``.
    """
    large = a(2.0 ** (a.bias // 2 - 10))
    return f"""
    rest = x - {a(1.0)}
    c = {a(1.0)} if x > {large} else {a(0.0)} if x < {a(1.0)} else rest
    {a.polynomial(a.acosh, "c")}
    root = np.sqrt({a(2.0)}*c)
    more = c + np.sqrt(c*(c + {a(2.0)}))
    value = log1p(x if x > {large} else more) + ({a(math.log(2))} if x > {large} else {a(0.0)})
    value = root + root*(c*p) if c < {a(0.5)} else value
    return {a("math.nan")} if x < {a(1.0)} else value"""


def _arctanh(a: Precision) -> str:
    """Return the body, as Python text, of our own atanh for the floating-point type ``a``: ``log1p(2*x/(1 - x))/2`` for
    positive x, a polynomial near 0.
    """
    return f"""
    size = abs(x)
    z = x*x
    {a.polynomial(a.atanh, "z")}
    c = size if size < {a(1.0)} else {a(0.0)}
    value = {a(0.5)}*log1p({a(2.0)}*c/({a(1.0)} - c))
    special = {a("math.inf")} if size == {a(1.0)} else {a("math.nan")}
    value = value if size < {a(1.0)} else special
    return math.copysign(size + size*(z*p) if size < {a(0.5)} else value, x)"""


def _general_power(a: Precision) -> str:
    """Return the body, as Python text, of ``x**y`` for the floating-point type ``a``, as ``exp(y*log(x))``. The
    logarithm has one and a half times as many digits as the type, so that the power is accurate.

    Sums of two numbers keep these digits; the first has half of the digits, so that products of such are exact. The
    logarithm is ``n*log(2) + 2*atanh(s)``, and ``2*atanh(s)`` is ``2/3*s*(3 + s**2 + 3/5*s**4 + 3/7*s**6 + ...)``.
    """
    least, scale, inf = a(2.0 ** (1 - a.bias)), a.digits + 2, a("math.inf")
    series, two_thirds = [3 / (2 * k + 5) for k in range(a.digits // 5)], a.two_thirds
    return f"""
    size = abs(x)
    read = real(size*({a(2.0**scale)} if size < {least} else {a(1.0)})).view(whole)
    k = whole(read - {a.half_root}) >> {a.digits}
    f = whole(read - (k << {a.digits})).view(real) - {a(1.0)}
    n = real(np.int32(k - ({scale} if size < {least} else 0)))
    d = f + {a(2.0)}
    upper_d = {a.leading("d")}
    lower_d = f - (upper_d - {a(2.0)})
    inverse = {a(1.0)}/d
    s = f*inverse
    upper_s = {a.leading("s")}
    lower_s = inverse*((f - upper_s*upper_d) - upper_s*lower_d)
    z = s*s
    {a.polynomial(series, "z")}
    rest = z*z*p + lower_s*(upper_s + s)
    square = upper_s*upper_s
    upper = {a.leading(f"({a(3.0)} + square) + rest")}
    lower = rest - ((upper - {a(3.0)}) - square)
    rest = lower_s*upper + lower*s
    product = upper_s*upper
    upper = {a.leading("product + rest")}
    lower = rest - (upper - product)
    product = upper*{a(two_thirds[0])}
    rest = (upper*{a(two_thirds[1])} + lower*{a(2 / 3)}) + n*{a(a.ln2[1])}
    scaled = n*{a(a.ln2[0])}
    upper = {a.leading("(scaled + product) + rest")}
    lower = rest - ((upper - scaled) - product)
    upper_y = {a.leading("y")}
    first = upper_y*upper
    rest = (y - upper_y)*upper + y*lower
    {_exponential_of_sum(a)}
    is_limit = size == {a(0.0)} or size == {inf} or abs(y) == {inf}
    limit = {a(0.0)} if (size < {a(1.0)}) == (y > {a(0.0)}) else {inf}
    value = limit if is_limit else value
    even = np.floor({a(0.5)}*y)*{a(2.0)}
    value = -value if np.floor(y) == y and even != y and math.copysign({a(1.0)}, x) < {a(0.0)} else value
    value = {a("math.nan")} if x < {a(0.0)} and size < {inf} and np.floor(y) != y else value
    value = value if x == x and y == y else {a("math.nan")}
    return {a(1.0)} if y == {a(0.0)} or x == {a(1.0)} or (x == {a(-1.0)} and abs(y) == {inf}) else value"""


_X = sympy.Symbol("x")

_SHIFT = 6
"""The functions of `_beyond_first_pole` are moved by so many integers, to where the series in 1/x suffice."""


def _beyond_first_pole(a: Precision, power: int, series: Sequence[float]) -> str:
    """Return code that computes ``tail``, the sum of ``1/(abs(x) + k)**power`` over k = 1, 2, 3, ..., in the precision
    ``a``; ``power`` is 2 or 3.

    The first terms are a quotient of two polynomials, the others the asymptotic `series`. If abs(x) is large, ``tail``
    is the series alone, less the term for k = 0.

    The denominator is a power of the product of all ``c + k``, multiplied in pairs: the first and the last, and so on.
    """
    factors = [sympy.Poly(_X + k, _X) for k in range(1, _SHIFT)]
    others = (prod(factor for factor in factors if factor is not own) for own in factors)
    above = [float(c) for c in reversed(sum(other**power for other in others).all_coeffs())]
    pairs = [f"(c*d + {a(float(k * (_SHIFT - k)))})" for k in range(1, _SHIFT // 2)]
    first = "w + v*(half + w*p)" if power == 2 else f"v*({a(0.5)} + w*(half + {a(0.5)}*w*p))"
    return f"""size = abs(x)
    is_small = size < {a(float(_SHIFT))}
    c = size if is_small else {a(0.0)}
    {a.polynomial(above, "c", "above")}
    d = c + {a(float(_SHIFT))}
    q = {"*".join(pairs)}*(c + {a(_SHIFT / 2)})
    w = {a(1.0)}/(size + {a(float(_SHIFT))} if is_small else size)
    v = w*w
    {a.polynomial(series, "v")}
    half = {a(0.5)} if is_small else {a(-0.5)}
    tail = (above/({"*".join("q" * power)}) if is_small else {a(0.0)}) + ({first})"""


def _inverse_of_first_pole(a: Precision) -> str:
    """Return code that sets ``inverse``, for a function of ``x`` with poles at 0, -1, -2, ...: to ``1/x`` for positive
    x, to plus or minus ``pi/sin(pi*x)`` for negative x, and to infinity at a pole. ``a`` is the precision.
    """
    return f"""f = x - np.floor(x + {a(0.5)}) if size < {a(2.0**a.digits)} else {a(0.0)}
    v = f*f
    {a.polynomial(a.sine_of_turns, "v")}
    place = f + f*(v*p) if x < {a(0.0)} else size
    inverse = {a("math.inf")} if place == {a(0.0)} else {a(1.0)}/place"""


def _trigamma(a: Precision) -> str:
    """Return the body, as Python text, of our own trigamma, the second derivative of log(gamma), for the floating-point
    type ``a``. At negative x it is ``pi**2/sin(pi*x)**2 - trigamma(1 - x)``.
    """
    return f"""
    {_beyond_first_pole(a, 2, a.trigamma)}
    {_inverse_of_first_pole(a)}
    return inverse*inverse + (-tail if x < {a(0.0)} else tail)"""


def _tetragamma(a: Precision) -> str:
    """Return the body, as Python text, of our own tetragamma, the third derivative of log(gamma), for the
    floating-point type ``a``. At negative x it is ``tetragamma(1 - x) - 2*pi**3*cos(pi*x)/sin(pi*x)**3``.
    """
    return f"""
    {_beyond_first_pole(a, 3, a.tetragamma)}
    {_inverse_of_first_pole(a)}
    g = {a(0.5)} - abs(f)
    v = g*g
    {a.polynomial(a.sine_of_turns, "v")}
    cosine = {a(math.pi)}*(g + g*(v*p)) if x < {a(0.0)} else {a(1.0)}
    return {a(-2.0)}*(inverse*inverse*inverse*cosine + tail)"""


FUNCTIONS: Mapping[str, tuple[str, Callable[[Precision], str]]] = {
    "exp": ("exp(x)", _exp),
    "expm1": ("exp(x) - 1", _expm1),
    "log": ("log(x)", _log),
    "log1p": ("log(1 + x)", _log1p),
    "tanh": ("tanh(x)", _tanh),
    "sinh": ("sinh(x)", _sinh),
    "cosh": ("cosh(x)", _cosh),
    "erf": ("erf(x)", _erf),
    "erfc": ("1 - erf(x)", _erfc),
    "sigmoid": ("1/(1 + exp(-x)), without overflow", _sigmoid),
    "logistic_density": ("The derivative of 1/(1 + exp(-x))", _logistic_density),
    "softplus": ("log(1 + exp(x)), without overflow", _softplus),
    "arctan": ("atan(x)", _arctan),
    "arctan2": ("The angle of the point (x, y)", _arctan2),
    "arcsinh": ("asinh(x)", _arcsinh),
    "arccosh": ("acosh(x)", _arccosh),
    "arctanh": ("atanh(x)", _arctanh),
    "trigamma": ("The second derivative of log(gamma(x))", _trigamma),
    "tetragamma": ("The third derivative of log(gamma(x))", _tetragamma),
    "general_power": ("x**y", _general_power),
    "sin_near": (f"sin(x) for abs(x) <= {MAX_NEAR_ANGLE}", partial(_sine_near, quarters=0)),
    "cos_near": (f"cos(x) for abs(x) <= {MAX_NEAR_ANGLE}", partial(_sine_near, quarters=1)),
    "tan_near": (f"tan(x) for abs(x) <= {MAX_NEAR_ANGLE}", _tan_near),
}
"""The description and the body of each function, after the functions that it calls."""

PARAMETERS = dict.fromkeys(FUNCTIONS, ("x",)) | {"arctan2": ("y", "x"), "general_power": ("x", "y")}
"""The parameters of each function."""

# Without ``forceinline``, loops over erfc and powers are not vectorised, and take 4.4 times as long.
_DISPATCH = """
def elementary(single, double):
    \"\"\"The function of the two that fits the precision of the first argument, compiled without reassociation.\"\"\"

    def function(*values):
        return single(*values) if isinstance(values[0], np.float32) else double(*values)

    options = {"error_model": "numpy", "fastmath": {"contract"}, "forceinline": True}
    overload(function, options, strict=False)(lambda *values: single if values[0] == types.float32 else double)
    return function
"""

ELEMENTARY_NAMES = frozenset(name + ending for name in FUNCTIONS for ending in ("", "_single", "_double"))
ELEMENTARY_NAMES |= {"elementary", "overload", "types"}
"""The names that the texts define in a module."""


def elementary_functions(texts: Collection[str]) -> list[str]:
    """Return the texts of the elementary functions that ``texts`` call, directly or indirectly, in a stable order; []
    if none.
    """
    found = called_by(texts, {name: body(DOUBLE) for name, (_, body) in FUNCTIONS.items()})
    if not found:
        return []
    both = [_function_text(name, precision) for name in found for precision in (SINGLE, DOUBLE)]
    made = "\n".join(f"{name} = elementary({name}_single, {name}_double)" for name in found)
    return [*both, _DISPATCH.strip("\n"), made]


def _function_text(name: str, precision: Precision) -> str:
    """Return the text of the elementary function ``name`` for one floating-point type, given as ``precision``."""
    what, body = FUNCTIONS[name]
    lines = body(precision)
    kinds = {"real": "float", "whole": "int", "natural": "uint"}
    types = "".join(
        f"    {name} = np.{kind}{precision.bits}\n" for name, kind in kinds.items() if re.search(rf"\b{name}\b", lines)
    )
    docstring = f'    """{what}, in {precision.name} precision."""\n'
    return f"def {name}_{precision.name}({', '.join(PARAMETERS[name])}):\n{docstring}{types}{lines[1:]}"
