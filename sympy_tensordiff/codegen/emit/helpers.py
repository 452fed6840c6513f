"""Helper functions in Python, which generated modules contain if they use them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

CALL = re.compile(r"(?<![\w.])(\w+)\(")
"""The name of a function, not of a method, at a call."""


def called_by(texts: Collection[str], functions: Mapping[str, str]) -> dict[str, str]:
    """Return a dictionary of those ``functions`` (texts by name) that the ``texts`` call, directly or through others. A
    function comes before the functions that call it.

    >>> called_by(["f(x)"], {"g": "def g(x): return x", "f": "def f(x): return g(x)", "h": "def h(x): return f(x)"})
    {'g': 'def g(x): return x', 'f': 'def f(x): return g(x)'}
    """
    found: dict[str, str] = {}
    called = {name for text in texts for name in CALL.findall(text)}
    for name, text in reversed(list(functions.items())):
        if name in called:
            found[name] = text.strip("\n")
            called.update(CALL.findall(text))
    return dict(reversed(found.items()))


NUMPY_HELPERS: dict[str, str] = {
    "called": '''
def called(function, condition, *values):
    """A function of values where a condition holds, and 0 elsewhere."""
    condition, *values = np.broadcast_arrays(condition, *values)
    result = np.zeros(condition.shape)
    if condition.any():
        result[condition] = function(*[value[condition] for value in values])
    return result
''',
    "erf": '''
def erf(x):
    """The error function, entry by entry."""
    return np.vectorize(math.erf, otypes=[float])(x)
''',
    "erfc": '''
def erfc(x):
    """The complementary error function, entry by entry."""
    return np.vectorize(math.erfc, otypes=[float])(x)
''',
    "gamma": '''
def gamma(x):
    """The gamma function, entry by entry; nan at its poles."""

    def one(y):
        try:
            return math.gamma(y)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.copysign(math.inf, y) if y == 0 else math.nan

    return np.vectorize(one, otypes=[float])(x)
''',
    "nearest": '''
def nearest(x, *index):
    """The entries of x, which may have none, that are nearest to an index; then 0."""
    if not x.size:
        return np.zeros(np.broadcast_shapes(*map(np.shape, index)), x.dtype)
    return x[tuple([np.clip(place, 0, length - 1) for place, length in zip(index, x.shape)])]
''',
    "inside": '''
def inside(x, condition, *index):
    """The entries of x at an index where a condition holds, and 0 elsewhere."""
    return np.where(condition, nearest(x, *index), 0)
''',
    "lgamma": '''
def lgamma(x):
    """The logarithm of the absolute value of the gamma function, entry by entry."""

    def one(y):
        try:
            return math.lgamma(y)
        except (OverflowError, ValueError):
            return math.inf

    return np.vectorize(one, otypes=[float])(x)
''',
    "power": '''
def power(x, n):
    """x**n for a positive integer n by multiplication, which is faster than np.power."""
    result = x
    for bit in bin(n)[3:]:
        result = result*result*x if bit == "1" else result*result
    return result
''',
    "running": '''
def running(function, values, start):
    """What a function makes of none, the first, the first two, ... of the values along the first axis."""
    result = np.empty((len(values) + 1, *values.shape[1:]), values.dtype)
    result[0] = start
    function.accumulate(values, out=result[1:])
    return result
''',
    "recurrence": '''
def recurrence(factors, terms, is_reversed):
    """The numbers s[i] = factors[i]*s[i - 1] + terms[i] along the last axis; with s[i + 1] if reversed."""
    if is_reversed:
        return np.flip(recurrence(np.flip(factors, (-1,)), np.flip(terms, (-1,)), False), (-1,))
    n = 1
    while n < terms.shape[-1]:
        terms = np.concatenate([terms[..., :n], terms[..., n:] + factors[..., n:]*terms[..., :-n]], -1)
        factors = np.concatenate([factors[..., :n], factors[..., n:]*factors[..., :-n]], -1)
        n = 2*n
    return terms
''',
    "sigmoid": '''
def sigmoid(x):
    """1/(1 + exp(-x)) without overflow, entry by entry."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, np.ones_like(small))/(1 + small)
''',
    "logistic_density": '''
def logistic_density(x):
    """The derivative of 1/(1 + exp(-x)), entry by entry."""
    small = np.exp(-np.abs(x))
    below = 1 + small
    below *= below
    small /= below
    return small
''',
    "softplus": '''
def softplus(x):
    """log(1 + exp(x)) without overflow, entry by entry."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
''',
    "spherical_bessel": '''
def spherical_bessel(n, x):
    """The spherical Bessel function of order n = 0, 1, 2, ...: its series near 0, and the recurrence elsewhere."""
    n, x = int(n), np.asarray(x, np.result_type(x, np.float32))
    is_near, is_wide, zero = np.abs(x) <= n + 1, np.isinf(x), np.zeros_like(x)
    near, far = np.where(is_near, x, zero), np.where(is_near | is_wide, zero + 1, x)
    term = np.ones_like(near)
    for k in range(1, n + 1):
        term = term*near/(2*k + 1)
    total = term
    for k in range(1, n + 11):
        term = term*(near*near)/(-2*k*(2*(n + k) + 1))
        total = total + term
    before, value = np.cos(far)/far, np.sin(far)/far
    for k in range(n):
        before, value = value, (2*k + 1)/far*value - before
    return np.where(is_near, total, np.where(is_wide, zero, value))
''',
    "view": '''
def view(x, start, lengths, *steps, write=False):
    """The entries x[start + n*steps[0] + m*steps[1] + ...] for n, m, ... below the lengths, in the memory of x."""
    strides = [sum(n*stride for n, stride in zip(step, x.strides)) for step in steps]
    first = x[tuple([slice(s, None) for s in start])]
    return np.lib.stride_tricks.as_strided(first, lengths, strides, writeable=write)
''',
}
"""The helpers for NumPy, by their names."""

SCALAR_HELPERS: dict[str, str] = {
    "cbrt": '''
def cbrt(x):
    """The real cube root: a power, and one step of Newton's method."""
    y = abs(x)**(1/3)
    return math.copysign(y - (y - abs(x)/(y*y))/3 if y > 0 and y < math.inf else y, x)
''',
    "heaviside": '''
def heaviside(x, at_zero):
    """0 or 1, at_zero at 0; nan where x is nan."""
    return x if x != x else at_zero if x == 0 else 1 if x > 0 else 0
''',
    "maximum": '''
def maximum(x, y):
    """The greater one; nan where one of them is nan."""
    return x if x >= y or x != x else y
''',
    "minimum": '''
def minimum(x, y):
    """The lesser one; nan where one of them is nan."""
    return x if x <= y or x != x else y
''',
    "sign": '''
def sign(x):
    """-1, 0 or 1; nan where x is nan."""
    return x if x != x else 1 if x > 0 else -1 if x < 0 else 0
''',
    "spherical_bessel": '''
def spherical_bessel(n, x):
    """The spherical Bessel function of order n = 0, 1, 2, ...: its series near 0, and the recurrence elsewhere."""
    if abs(x) <= n + 1:
        term = 1.0
        for k in range(1, int(n) + 1):
            term *= x/(2*k + 1)
        total = term
        for k in range(1, int(n) + 11):
            term *= -x*x/(2*k*(2*(n + k) + 1))
            total += term
        return total
    if abs(x) == math.inf:
        return 0.0
    before, value = math.cos(x)/x, math.sin(x)/x
    for k in range(int(n)):
        before, value = value, (2*k + 1)/x*value - before
    return value
''',
}
"""The helpers for the backends that compile scalar Python."""

TYPED_HELPERS: dict[str, str] = {
    "cbrt": '''
def cbrt(x, real):
    """The real cube root: a power, and one step of Newton's method."""
    y = abs(x)**real(1/3)
    return math.copysign(y - (y - abs(x)/(y*y))/real(3) if y > 0 and y < math.inf else y, x)
''',
    "ceil": '''
def ceil(x, real):
    """The least integer not below x; what is too large for an integer type is one already."""
    return real(math.ceil(x)) if abs(x) < real(4503599627370496) else x
''',
    "floor": '''
def floor(x, real):
    """The greatest integer not above x; what is too large for an integer type is one already."""
    return real(math.floor(x)) if abs(x) < real(4503599627370496) else x
''',
    "heaviside": '''
def heaviside(x, at_zero, real):
    """0 or 1, at_zero at 0; nan where x is nan."""
    return x if x != x else at_zero if x == 0 else real(1 if x > 0 else 0)
''',
    "sigmoid": '''
def sigmoid(x, real):
    """1/(1 + exp(-x)) without overflow."""
    small = math.exp(-abs(x))
    return (small if x < 0 else real(1))/(real(1) + small)
''',
    "logistic_density": '''
def logistic_density(x, real):
    """The derivative of 1/(1 + exp(-x))."""
    small = math.exp(-abs(x))
    below = real(1) + small
    return small/(below*below)
''',
    "sign": '''
def sign(x, real):
    """-1, 0 or 1; nan where x is nan."""
    return x if x != x else real(1 if x > 0 else -1 if x < 0 else 0)
''',
    "softplus": '''
def softplus(x, real):
    """log(1 + exp(x)) without overflow."""
    return (real(0) if x < 0 else x) + math.log1p(math.exp(-abs(x)))
''',
}
"""The helpers for CUDA that take the type of their result as a parameter, so that none is wider."""

_OF_WARP = """
def warp_{name}(x, threads):
    \"\"\"The {task} of x in so many neighbouring threads, at most those of a warp; each of them gets it.\"\"\"
    step = min(threads, 32) // 2
    while step > 0:
        other = from_lane(x, step)
        x = {update}
        step //= 2
    return x
"""

WARP_HELPERS: dict[str, str] = {
    "from_lane": '''
def exchanged(x, step):
    """The value of x in the thread whose number in its warp differs in the bit ``step``."""
    return cuda.shfl_xor_sync(0xFFFFFFFF, x, step)


@cuda.jit(device=True)
def exchanged_in_memory(x, step):
    """The same for Numba's simulator, which has no exchange in warps."""
    values = cuda.shared.array(1024, np.float64)
    number = cuda.threadIdx.y*cuda.blockDim.x + cuda.threadIdx.x
    values[number] = x
    cuda.syncthreads()
    other = values[number ^ step]
    cuda.syncthreads()
    return type(x)(other)


from_lane = exchanged if hasattr(cuda, "shfl_xor_sync") else exchanged_in_memory
''',
    "warp_max": _OF_WARP.format(name="max", task="greatest value", update="maximum(x, other)"),
    "warp_min": _OF_WARP.format(name="min", task="least value", update="minimum(x, other)"),
    "warp_sum": _OF_WARP.format(name="sum", task="sum", update="x + other"),
}
"""The functions of several threads for CUDA, called by all threads of a block."""

CUDA_HELPERS: dict[str, str] = dict(sorted((SCALAR_HELPERS | TYPED_HELPERS | WARP_HELPERS).items()))
"""All helpers for CUDA."""
