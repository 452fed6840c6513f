"""Helper functions of modules that change no array, for CuPy, JAX and PyTorch; ``np`` stands for the library."""

from __future__ import annotations

from sympy_tensordiff.codegen.emit.helpers import NUMPY_HELPERS

HELPERS: dict[str, str] = {
    "over_time": '''
def over_time(step, states, rows, length, is_reversed):
    """The last states, and the results of all steps stacked: step(states, (rows at a time, time)) returns both."""
    found = [None]*length
    for time in range(length - 1, -1, -1) if is_reversed else range(length):
        states, found[time] = step(states, ([row[time] for row in rows], time))
    return states, [np.stack(values) for values in zip(*found)]
''',
    "nearest": '''
def nearest(x, *index):
    """The entries of x, which may have none, that are nearest to an index; then 0."""
    if 0 in x.shape:
        return np.broadcast_to(x.sum(), np.broadcast_shapes(*[getattr(place, "shape", ()) for place in index]))
    index = [
        place.clip(0, length - 1) if hasattr(place, "clip") else min(max(place, 0), length - 1)
        for place, length in zip(index, x.shape)
    ]
    return x[tuple(index)]
''',
    "inside": NUMPY_HELPERS["inside"],
    "part": '''
def part(x, *spans, outside=0):
    """The part of x with a (start, length) along each axis; its entries outside of x are all the same."""
    around = [(max(-start, 0), max(start + count - n, 0)) for n, (start, count) in zip(x.shape, spans)]
    inside = [slice(max(start, 0), max(start, 0) + count) for start, count in spans]
    return np.pad(x, around, constant_values=outside)[tuple(inside)]
''',
    "power": NUMPY_HELPERS["power"],
    "recurrence": NUMPY_HELPERS["recurrence"],
    "logistic_density": '''
def logistic_density(x):
    """The derivative of 1/(1 + exp(-x)), entry by entry."""
    small = np.exp(-np.abs(x))
    return small/(1 + small)**2
''',
    "sigmoid": NUMPY_HELPERS["sigmoid"],
    "softplus": '''
def softplus(x):
    """log(1 + exp(x)) without overflow, entry by entry."""
    return np.where(x > 0, x, 0*x) + np.log1p(np.exp(-np.abs(x)))
''',
    "heaviside": '''
def heaviside(x, at_zero):
    """0 or 1, at_zero at 0; nan where x is nan."""
    return np.where(x == 0, at_zero, (np.sign(x) + 1)/2)
''',
    "spherical_bessel": '''
def spherical_bessel(n, x):
    """The spherical Bessel function of order n = 0, 1, 2, ...: its series near 0, and the recurrence elsewhere."""
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
    "running": '''
def running(reduction, values, start):
    """The reductions of none, the first, the first two, ... of the values along the first axis."""
    values = np.concatenate([np.full((1, *values.shape[1:]), start, values.dtype), values])
    if reduction in ("sum", "prod"):
        return {"sum": np.cumsum, "prod": np.cumprod}[reduction](values, axis=0)
    extreme, n = {"max": np.maximum, "min": np.minimum}[reduction], 1
    while n < len(values):
        values, n = np.concatenate([values[:n], extreme(values[n:], values[:-n])]), 2*n
    return values
''',
    "maximum_at": '''
def maximum_at(x, index, values):
    """The array x with its entries at an index replaced by the greater ones of them and the values."""
    x = x.copy()
    np.maximum.at(x, index, values)
    return x
''',
    "minimum_at": '''
def minimum_at(x, index, values):
    """The array x with its entries at an index replaced by the lesser ones of them and the values."""
    x = x.copy()
    np.minimum.at(x, index, values)
    return x
''',
    "added": '''
def added(x, index, values):
    """The array x with the values added to its entries at an index; repeated ones count each time."""
    x = x.copy()
    np.add.at(x, index, values)
    return x
''',
    "spread": '''
def spread(values, fill, *spans):
    """An array of one value with others at start, start + step, ... along the axes that have such a span.

    A span is (start, step, count, length); None stands for a whole axis.
    """
    values = np.reshape(values, (1,)*(len(spans) - values.ndim) + values.shape)
    shape = [n if span is None else span[3] for n, span in zip(values.shape, spans)]
    result = np.full(shape, fill, values.dtype)
    index = [np.arange(n) if span is None else span[0] + span[1]*np.arange(span[2]) for n, span in zip(shape, spans)]
    result[np.ix_(*index)] = values
    return result
''',
}
"""The helpers of all libraries, each before its callers."""

MATRIX_HELPERS: dict[str, str] = {
    "log_determinant": '''
def log_determinant(x):
    """The logarithm of the determinant without its overflow; nan where it is negative."""
    sign, value = np.linalg.slogdet(x)
    return np.where(sign >= 0, value, np.full_like(value, math.nan))
''',
    "factorized": '''
def factorized(matrix, kind):
    """The factors of a matrix for later solves: the matrix itself."""
    return matrix
''',
    "solve_factorized": '''
def solve_factorized(factors, right, transposed):
    """The solution x of matrix @ x = right, or of the transposed matrix."""
    return np.linalg.solve(factors.swapaxes(-1, -2) if transposed else factors, right)
''',
    "inverse_factorized": '''
def inverse_factorized(factors):
    """The inverse of a matrix from its factors."""
    return np.linalg.inv(factors)
''',
    "log_determinant_factorized": '''
def log_determinant_factorized(factors, is_absolute):
    """The logarithm of the determinant, or of its absolute value, from the factors; nan where it is negative."""
    sign, value = np.linalg.slogdet(factors)
    return value if is_absolute else np.where(sign >= 0, value, np.full_like(value, math.nan))
''',
    "determinant_factorized": '''
def determinant_factorized(factors):
    """The determinant from the factors."""
    return np.linalg.det(factors)
''',
    "products_of_others": '''
def products_of_others(s, order):
    """For all tuples of indices, so many in each, the products of the entries of s at all other indices."""
    n = s.shape[-1]
    is_chosen = np.eye(n, dtype=bool)
    result = is_chosen
    for _ in range(order - 1):
        result = result[..., None, :] | is_chosen
    s = s[(..., *(None,)*order, slice(None))]
    return np.where(result, np.ones_like(s), s).prod(-1)
''',
    "cofactor": '''
def cofactor(x, order):
    """The derivative of the determinant of x, order times by x, at singular x too: axes i1 j1 ... ik jk.

    With x = u diag(s) v it is that of diag(s), products of all s but some, under u and v.
    """
    u, s, v = np.linalg.svd(x)
    rest = products_of_others(s, order)
    chosen, rows, columns = "abcdefgh"[:order], "ijklmnop"[:order], "qrstuvwx"[:order]
    total = 0
    for places in itertools.permutations(range(order)):
        sign = (-1)**sum(a > b for a, b in itertools.combinations(places, 2))
        parts = ["..." + row + one for row, one in zip(rows, chosen)]
        parts += ["..." + chosen[place] + column for place, column in zip(places, columns)]
        subscripts = f"...{chosen},{','.join(parts)}->..." + "".join(a + b for a, b in zip(rows, columns))
        total = total + sign*np.einsum(subscripts, rest, *[u]*order, *[v]*order)
    sign = np.round(np.linalg.det(u)*np.linalg.det(v))
    return sign[(..., *(None,)*(2*order))]*total
''',
    "cofactor_tangent": '''
def cofactor_tangent(x, direction):
    """The derivative of the cofactors of x, a matrix, in a direction, at singular x too.

    With x = u diag(s) v it is that at diag(s), u m v, without division.
    """
    u, s, v = np.linalg.svd(x)
    eye = np.eye(s.shape[0], dtype=bool)
    rest = np.where(eye, 0*x, products_of_others(s, 2))
    turned = u.T @ direction @ v.T
    m = np.where(eye, (rest @ np.diag(turned))[:, None], -rest*turned.T)
    return np.round(np.linalg.det(u)*np.linalg.det(v))*(u @ m @ v)
''',
}
"""The helpers of functions of matrices, each before its callers."""

JAX_HELPERS: dict[str, str] = {
    "root": '''
def root(x):
    """The square roots of sums of squares x, whose derivatives are 0 where x is 0."""
    return jnp.where(x == 0, 0, jnp.sqrt(jnp.where(x == 0, 1, x)))
''',
    "cosh": '''
def cosh(x):
    """The hyperbolic cosine, with one exponential: that of XLA has errors of 12 units in the last place."""
    root = jnp.exp(x/2)
    return 0.5*root*root + 0.5/root/root
''',
    "running": '''
def running(reduction, values, start):
    """The reductions of none, the first, the first two, ... of the values along the first axis."""
    values = jnp.concatenate([jnp.full((1, *values.shape[1:]), start, values.dtype), values])
    function = {"sum": jnp.cumsum, "prod": jnp.cumprod, "max": jax.lax.cummax, "min": jax.lax.cummin}[reduction]
    return function(values, axis=0)
''',
    "recurrence": '''
def recurrence(factors, terms, is_reversed):
    """The numbers s[i] = factors[i]*s[i - 1] + terms[i] along the last axis; with s[i + 1] if reversed."""
    join = lambda first, last: (last[0]*first[0], last[0]*first[1] + last[1])
    return jax.lax.associative_scan(join, (factors, terms), reverse=is_reversed, axis=terms.ndim - 1)[1]
''',
    "part": '''
def part(x, *spans, outside=0):
    """The part of x with a (start, length) along each axis; its entries outside of x are all the same."""
    around = [(-start, start + count - n, 0) for n, (start, count) in zip(x.shape, spans)]
    return jax.lax.pad(x, jnp.asarray(outside, x.dtype), around)
''',
    "maximum_at": '''
def maximum_at(x, index, values):
    """The array x with its entries at an index replaced by the greater ones of them and the values."""
    return x.at[index].max(values)
''',
    "minimum_at": '''
def minimum_at(x, index, values):
    """The array x with its entries at an index replaced by the lesser ones of them and the values."""
    return x.at[index].min(values)
''',
    "added": '''
def added(x, index, values):
    """The array x with the values added to its entries at an index; repeated ones count each time."""
    return x.at[index].add(values)
''',
    "spread": '''
def spread(values, fill, *spans):
    """An array of one value with others at start, start + step, ... along the axes that have such a span.

    A span is (start, step, count, length); None stands for a whole axis.
    """
    values = values.reshape((1,)*(len(spans) - values.ndim) + values.shape)
    shape = [n if span is None else span[2] for n, span in zip(values.shape, spans)]
    turned = [axis for axis, span in enumerate(spans) if span and span[1] < 0]
    values = jnp.flip(jnp.broadcast_to(values, shape), turned)
    spans = [span and (span[0] + min(span[1], 0)*(span[2] - 1), abs(span[1]), *span[2:]) for span in spans]
    around = [(0, 0, 0) if span is None else
              (span[0], span[3] - span[0] - span[1]*(span[2] - 1) - 1, span[1] - 1) for span in spans]
    return jax.lax.pad(values, jnp.asarray(fill, values.dtype), around)
''',
    "computed_once": '''
def computed_once(x):
    """The array x out of a loop: XLA computes others again where they are read, rounded in another way."""
    return jax.lax.scan(lambda kept, time: (jnp.where(time == 0, x, kept), None), jnp.zeros_like(x), jnp.arange(2))[0]
''',
    "computed_first": '''
def computed_first(x):
    """The array x, computed before it is summed: in sums, XLA computes each operation of CPUs in a pass of its own."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return jax.lax.reduce_precision(x, jnp.finfo(x.dtype).nexp, jnp.finfo(x.dtype).nmant)
''',
    "factorized": '''
def factorized(matrix, kind):
    """The factors of a matrix: Cholesky's of a positive definite one (kind 2), else those of LU with the exchanges."""
    return jnp.linalg.cholesky(matrix) if kind == 2 else linalg.lu_factor(matrix)
''',
    "solve_factorized": '''
def solve_factorized(factors, right, transposed):
    """The solution x of matrix @ x = right, or of the transposed matrix, from the factors of the matrix."""
    if isinstance(factors, tuple):
        is_vector = right.ndim == 1
        columns = right[:, None] if is_vector else right
        solution = linalg.lu_solve(factors, columns, trans=1 if transposed else 0)
        return solution[:, 0] if is_vector else solution
    return linalg.cho_solve((factors, True), right)
''',
    "inverse_factorized": '''
def inverse_factorized(factors):
    """The inverse of a matrix from its factors."""
    triangles = factors[0] if isinstance(factors, tuple) else factors
    eye = jnp.eye(triangles.shape[-1], dtype=triangles.dtype)
    return solve_factorized(factors, jnp.broadcast_to(eye, triangles.shape), False)
''',
    "sign_and_diagonal": '''
def sign_and_diagonal(factors):
    """The sign of the determinant, and the diagonal of the factors."""
    if not isinstance(factors, tuple):
        diagonal = jnp.diagonal(factors, 0, -2, -1)
        return jnp.ones_like(diagonal[..., 0]), diagonal
    diagonal, exchanged = jnp.diagonal(factors[0], 0, -2, -1), factors[1]
    is_negative = (exchanged != jnp.arange(exchanged.shape[-1])).sum(-1) % 2 == 1
    return jnp.where(is_negative, -1.0, 1.0)*jnp.sign(diagonal).prod(-1), diagonal
''',
    "log_determinant_factorized": '''
def log_determinant_factorized(factors, is_absolute):
    """The logarithm of the determinant, or of its absolute value, from the factors; nan where it is negative."""
    sign, diagonal = sign_and_diagonal(factors)
    value = jnp.log(jnp.abs(diagonal)).sum(-1)
    if not isinstance(factors, tuple):
        return 2*value
    return value if is_absolute else jnp.where(sign >= 0, value, math.nan)
''',
    "determinant_factorized": '''
def determinant_factorized(factors):
    """The determinant from the factors."""
    sign, diagonal = sign_and_diagonal(factors)
    value = jnp.abs(diagonal).prod(-1)
    return sign*value if isinstance(factors, tuple) else value*value
''',
}
"""The helpers for JAX in place of those of all libraries."""

TORCH_HELPERS: dict[str, str] = {
    "root": '''
def root(x):
    """The square roots of sums of squares x, whose derivatives are 0 where x is 0."""
    return torch.sqrt(x.masked_fill(x == 0, 1)).masked_fill(x == 0, 0)
''',
    "maximum": '''
def maximum(x, y):
    """The greater one of two integers or tensors of integers."""
    return torch.maximum(torch.as_tensor(x), torch.as_tensor(y))
''',
    "minimum": '''
def minimum(x, y):
    """The lesser one of two integers or tensors of integers."""
    return torch.minimum(torch.as_tensor(x), torch.as_tensor(y))
''',
    "logical_not": '''
def logical_not(x):
    """Whether x does not hold."""
    return ~x if isinstance(x, torch.Tensor) else not x
''',
    "selected": '''
def selected(x, *places):
    """The entries of x at one place along each axis that has a place, which may be a tensor; None is a whole axis."""
    for axis, place in reversed(list(enumerate(places))):
        if place is not None:
            x = x.index_select(axis, torch.as_tensor(place, device=x.device).reshape(1)).squeeze(axis)
    return x
''',
    "nearest": HELPERS["nearest"]
    .replace("np.", "torch.")
    .replace(
        "    return x[tuple(index)]\n",
        """    if any(getattr(place, "ndim", 0) for place in index):
        return x[tuple([place[None] if getattr(place, "ndim", 1) == 0 else place for place in index])]
    return selected(x, *index)
""",
    ),
    "gamma": '''
def gamma(x):
    """The gamma function; nan at its poles."""
    is_pole = (x <= 0) & (x == torch.floor(x))
    sign = torch.where((x < 0) & (torch.floor(x) % 2 != 0), -torch.ones_like(x), torch.ones_like(x))
    value = sign*torch.exp(torch.lgamma(x))
    return torch.where(is_pole, torch.where(x == 0, 1/x, math.nan*torch.ones_like(x)), value)
''',
    "cbrt": '''
def cbrt(x):
    """The real cube root: a power, and one step of Newton's method."""
    size = torch.abs(x)
    y = size**(1/3)
    is_normal = (y > 0) & (y < math.inf)
    near = torch.where(is_normal, y, torch.ones_like(y))
    return torch.sign(x)*torch.where(is_normal, near - (near - size/(near*near))/3, y)
''',
    "running": '''
def running(reduction, values, start):
    """The reductions of none, the first, the first two, ... of the values along the first axis."""
    values = torch.cat([torch.full_like(values[:1], start), values])
    if reduction in ("sum", "prod"):
        return values.cumsum(0) if reduction == "sum" else values.cumprod(0)
    return (values.cummax(0) if reduction == "max" else values.cummin(0)).values
''',
    "part": '''
def part(x, *spans, outside=0):
    """The part of x with a (start, length) along each axis; its entries outside of x are all the same."""
    around = [(max(-start, 0), max(start + count - n, 0)) for n, (start, count) in zip(x.shape, spans)]
    padded = torch.nn.functional.pad(x, [width for pair in reversed(around) for width in pair], value=outside)
    return padded[tuple([slice(max(start, 0), max(start, 0) + count) for start, count in spans])]
''',
    "extreme_at": '''
def extreme_at(x, index, values, reduction):
    """The tensor x with its entries at an index replaced by the greater or lesser ones of them and the values."""
    if not x.numel():
        return x
    index = torch.broadcast_tensors(*[torch.as_tensor(place, device=x.device) for place in index])
    heads, rest, place = x.shape[:len(index)], x.shape[len(index):], 0
    for own, length in zip(index, heads):
        place = place*length + own
    dtype = torch.promote_types(x.dtype, values.dtype)  # under autocast, values may be in half precision
    values = values.to(dtype).expand((*place.shape, *rest)).reshape((-1, *rest))
    place = place.reshape((-1, *[1]*len(rest))).expand(values.shape)
    return x.to(dtype).reshape((-1, *rest)).scatter_reduce(0, place, values, reduction).reshape(x.shape)
''',
    "maximum_at": '''
def maximum_at(x, index, values):
    """The tensor x with its entries at an index replaced by the greater ones of them and the values."""
    return extreme_at(x, index, values, "amax")
''',
    "minimum_at": '''
def minimum_at(x, index, values):
    """The tensor x with its entries at an index replaced by the lesser ones of them and the values."""
    return extreme_at(x, index, values, "amin")
''',
    "added": '''
def added(x, index, values):
    """The tensor x with the values added to its entries at an index; repeated ones count each time."""
    if not x.numel():
        return x
    index = [torch.as_tensor(place, device=x.device) for place in index]
    dtype = torch.promote_types(x.dtype, values.dtype)  # under autocast, x may be a product in half precision
    x = x.to(dtype).contiguous()  # PyTorch's compiler adds to an expanded tensor as if its entries were one
    return x.index_put(torch.broadcast_tensors(*index), values.to(dtype), accumulate=True)
''',
    "spread": '''
def spread(values, fill, *spans):
    """A tensor of one value with others at start, start + step, ... along the axes that have such a span.

    A span is (start, step, count, length); None stands for a whole axis.
    """
    values = values.reshape((1,)*(len(spans) - values.ndim) + values.shape)
    values = values.expand([n if span is None else span[2] for n, span in zip(values.shape, spans)])
    for axis, span in enumerate(spans):
        if span is not None:
            start, step, count, length = span
            if step < 0:
                values, start, step = values.flip(axis), start + step*(count - 1), -step
            if step == 1:
                around = (0, 0)*(values.ndim - 1 - axis) + (start, length - start - count)
                values = torch.nn.functional.pad(values, around, value=fill)
                continue
            shape = [length if one == axis else n for one, n in enumerate(values.shape)]
            whole = torch.full(shape, fill, dtype=values.dtype, device=values.device)
            values = torch.slice_scatter(whole, values, axis, start, start + step*(count - 1) + 1, step)
    return values
''',
    "correlate": '''
def correlate(x, w, mode):
    """The sums of x[i + k]*w[k] over k at all places i at which w is inside of x ("valid"), or reaches it ("full")."""
    around = len(w) - 1 if mode == "full" else 0
    return torch.nn.functional.conv1d(x[None, None], w[None, None], padding=around)[0, 0]
''',
    "convolve": '''
def convolve(x, w, mode="full"):
    """The sums of x[i - k]*w[k] over k at all places i at which w is inside of x ("valid"), or reaches it ("full")."""
    x, w = (w, x) if len(w) > len(x) else (x, w)
    return correlate(x, w.flip(0), mode)
''',
    "factorized": '''
def factorized(matrix, kind):
    """The factors of a matrix: Cholesky's of a positive definite one (kind 2), else those of LU with the exchanges."""
    return torch.linalg.cholesky(matrix) if kind == 2 else torch.linalg.lu_factor(matrix)
''',
    "solve_factorized": '''
def solve_factorized(factors, right, transposed):
    """The solution x of matrix @ x = right, or of the transposed matrix, from the factors of the matrix."""
    triangles = factors[0] if isinstance(factors, tuple) else factors
    columns = (right[:, None] if right.ndim == 1 else right).to(triangles.dtype)  # under autocast, of half precision
    if not isinstance(factors, tuple):
        solution = torch.cholesky_solve(columns, factors)
    elif transposed:
        solution = torch.linalg.lu_solve(*factors, columns, adjoint=True)
    else:
        solution = torch.linalg.lu_solve(*factors, columns)
    return solution[:, 0] if right.ndim == 1 else solution
''',
    "inverse_factorized": '''
def inverse_factorized(factors):
    """The inverse of a matrix from its factors."""
    triangles = factors[0] if isinstance(factors, tuple) else factors
    eye = torch.eye(triangles.shape[-1], dtype=triangles.dtype, device=triangles.device)
    return solve_factorized(factors, eye.expand(triangles.shape), False)
''',
    "sign_and_diagonal": '''
def sign_and_diagonal(factors):
    """The sign of the determinant, and the diagonal of the factors."""
    if not isinstance(factors, tuple):
        diagonal = factors.diagonal(0, -2, -1)
        return torch.ones_like(diagonal[..., 0]), diagonal
    diagonal, exchanged = factors[0].diagonal(0, -2, -1), factors[1]
    places = torch.arange(1, exchanged.shape[-1] + 1, device=exchanged.device)
    return (-1.0)**((exchanged != places).sum(-1) % 2)*torch.sign(diagonal).prod(-1), diagonal
''',
    "log_determinant_factorized": '''
def log_determinant_factorized(factors, is_absolute):
    """The logarithm of the determinant, or of its absolute value, from the factors; nan where it is negative."""
    sign, diagonal = sign_and_diagonal(factors)
    value = torch.log(torch.abs(diagonal)).sum(-1)
    if not isinstance(factors, tuple):
        return 2*value
    return value if is_absolute else torch.where(sign >= 0, value, torch.full_like(value, math.nan))
''',
    "determinant_factorized": JAX_HELPERS["determinant_factorized"].replace("jnp.", "torch."),
    "products_of_others": '''
def products_of_others(s, order):
    """For all tuples of indices, so many in each, the products of the entries of s at all other indices."""
    is_chosen = torch.eye(s.shape[-1], dtype=torch.bool, device=s.device)
    result = is_chosen
    for _ in range(order - 1):
        result = result[..., None, :] | is_chosen
    s = s[(..., *(None,)*order, slice(None))]
    return torch.where(result, torch.ones_like(s), s).prod(-1)
''',
    "cofactor_tangent": MATRIX_HELPERS["cofactor_tangent"].replace(
        "np.eye(s.shape[0], dtype=bool)", "torch.eye(s.shape[0], dtype=torch.bool, device=s.device)"
    ),
}
"""The helpers for PyTorch in place of those of all libraries."""


TYPE_HELPERS: dict[str, str] = {
    "cupy": '''
def type_of(*values):
    """The type of the results: float32 if all arrays have it, else float64."""
    strong = [v.dtype if v.dtype.kind == "f" else cp.float64 for v in values if hasattr(v, "dtype")]
    return cp.result_type(*strong) if strong else cp.float64


def checked(name, value, is_index=False):
    """The value; TypeError for complex numbers, and for an index that is not an integer."""
    found = cp.asarray(value).dtype
    if found.kind not in ("iu" if is_index else "biuf"):
        raise TypeError(f"{name} has the type {found}; {'integers' if is_index else 'real numbers'} are needed")
    return value
''',
    "jax": '''
def type_of(*values):
    """The type of the results: the widest one of the arrays; integers count as the default type of JAX."""
    typed = [v for v in values if hasattr(v, "dtype") and not getattr(v, "weak_type", False)]
    return jnp.result_type(*[v.dtype if jnp.issubdtype(v.dtype, jnp.floating) else float for v in typed] or [float])


def checked(name, value, is_index=False):
    """The value; TypeError for complex numbers, and for an index that is not an integer."""
    found = jnp.asarray(value).dtype
    is_wrong = not jnp.issubdtype(found, jnp.integer) if is_index else jnp.issubdtype(found, jnp.complexfloating)
    if is_wrong:
        raise TypeError(f"{name} has the type {found}; {'integers' if is_index else 'real numbers'} are needed")
    return value
''',
    "torch": '''
def type_of(*values):
    """The type of the results: the widest one of the tensors; integers count as float64."""
    typed = [torch.as_tensor(v) for v in values if hasattr(v, "dtype")]
    types = [v.dtype if v.is_floating_point() else torch.float64 for v in typed]
    return functools.reduce(torch.promote_types, types) if types else torch.float64


def device_of(*values):
    """The device of the first tensor; None without one."""
    return next((v.device for v in values if isinstance(v, torch.Tensor)), None)


def checked(name, value, is_index=False):
    """The value; TypeError for complex numbers, and for an index that is not an integer."""
    found = torch.as_tensor(value)
    is_wrong = found.is_complex() or (is_index and (found.is_floating_point() or found.dtype == torch.bool))
    if is_wrong:
        raise TypeError(f"{name} has the type {found.dtype}; {'integers' if is_index else 'real numbers'} are needed")
    return value
''',
}
"""The functions that ``compute`` calls, by backend."""
