"""A tensor expression as a function of JAX, with all of its transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from sympy_tensordiff.bridges.operators import Function, library, over_axis, pulled_back, with_integers
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic.calls import explained


@explained
def jax_function(
    args: Any, expr: Any = None, wrt: Any = None, backend: str = "llvm", **options: Any
) -> Callable[..., Any]:
    """A function of JAX's arrays that computes ``expr``, with the derived derivatives.

    ``jax_function(expr, wrt)`` is short for ``jax_function(wrt, expr, wrt)``.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    expr : Expr or tuple of Expr
        A tensor expression or a scalar; a tuple gives a function that returns one.
    wrt : TensorSymbol, Symbol or sequence of them, optional
        The arguments that derivatives are for; by default all tensors of real numbers and all real symbols.
    backend : {"llvm", "numba", "numpy"}
    **options
        Those of `lambdify`, for all kernels.

    Returns
    -------
    callable
        It takes arrays and numbers, returns arrays, and goes through ``jit``, ``grad``, ``jvp``, ``vjp``, ``jacfwd``,
        ``jacrev``, ``hessian`` and ``vmap``, in any order and to any order of derivative. Integer symbols take Python
        integers. All arrays of real numbers become float32, or float64 where one of them is and JAX works with 64
        bits; so do the results.

    Raises
    ------
    BackendError
        If JAX is not installed.
    ArgumentError
        If ``wrt`` holds something that is not in ``args``, or ``backend`` is another one. In a call: if the shapes do
        not fit, or something is differentiated with respect to an argument that is not in ``wrt``.
    ArgumentTypeError
        In a call: if an integer symbol is traced, or an array has another type.

    Notes
    -----
    The kernels run on the CPU. The function is a primitive of JAX, whose rule for ``jvp`` is `jvp` and whose transpose
    is `vjp`; both give primitives of the same kind, whose kernels are compiled when they are first run. ``vmap`` calls
    the kernel for each entry of the axis: a formula with that axis is faster. What `vjp` says about kinks holds.

    References
    ----------
    R. Frostig, M. J. Johnson, D. Maclaurin, A. Paszke, A. Radul, *Decomposing reverse-mode automatic differentiation*,
    2021: reverse mode as forward mode and transposition.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x = td.TensorSymbol("x", n)
    >>> energy = td.IndexedSum((x[i + 1] - x[i]**2)**2, (i, 0, n - 2))
    >>> f = td.jax_function(x, energy)  # doctest: +SKIP
    >>> jax.jit(jax.hessian(f))(jnp.ones(3))  # doctest: +SKIP
    """
    jax = _load()
    if backend not in ("llvm", "numba", "numpy"):
        raise ArgumentError(f"jax_function works with the backends 'llvm', 'numba' and 'numpy', not with {backend!r}")
    function = Function(args, expr, wrt, backend, options)

    def call(*values: Any) -> Any:
        function.checker.check_count(values)
        arrays, integers = _converted(jax, function, values)
        results = jax.primitive.bind(*arrays, f=function.operator, integers=integers)
        return tuple(results) if function.is_tuple else results[0]

    return call


def _converted(jax: Any, function: Function, values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """The arrays of a call, those of real numbers of one type, and its integers."""
    integers, arrays = [], {}
    for position, value in enumerate(values):
        if position not in function.integers:
            arrays[position] = jax.numpy.asarray(value)
            continue
        try:
            integers.append(value.__index__())
        except (AttributeError, jax.TracerIntegerConversionError):
            raise ArgumentTypeError(
                f"argument {function.labels[position]} must be a known integer, not {value!r}: "
                "pass a Python int, under jit by static_argnums"
            ) from None
    reals = [position for position in arrays if position in function.reals]
    for position, array in arrays.items():
        kinds = ("float32", "float64", *_INTEGERS) if position in function.reals else _INTEGERS
        if str(array.dtype) not in kinds:
            raise ArgumentTypeError(
                f"argument {function.labels[position]} has the type {array.dtype}, which kernels do not take: "
                f"use .astype({'jnp.float32' if position in function.reals else 'int'})"
            )
    single = all(arrays[position].dtype == np.float32 or arrays[position].weak_type for position in reals) and any(
        arrays[position].dtype == np.float32 and not arrays[position].weak_type for position in reals
    )
    dtype = jax.canonicalize(np.float32 if single else np.float64)
    arrays.update({position: arrays[position].astype(dtype) for position in reals})
    return list(arrays.values()), tuple(integers)


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@cache
def _load() -> SimpleNamespace:
    """What is used of JAX, and the primitive, which all functions share."""
    jax = library("jax", "JAX", "jax")
    core, ad, batching, mlir = (
        library(f"jax.{name}", "JAX", "jax")
        for name in ("extend.core", "interpreters.ad", "interpreters.batching", "interpreters.mlir")
    )
    primitive = core.Primitive("sympy_tensordiff")
    primitive.multiple_results = True
    own = SimpleNamespace(
        numpy=jax.numpy,
        zero=ad.Zero,
        is_linear=ad.is_undefined_primal,
        primitive=primitive,
        canonicalize=jax.dtypes.canonicalize_dtype,
        shaped=jax.core.ShapedArray,
        TracerIntegerConversionError=jax.errors.TracerIntegerConversionError,
        callback=mlir.emit_python_callback,
    )
    primitive.def_impl(lambda *values, f, integers: [jax.numpy.asarray(r) for r in _compute(f, integers, values)])
    primitive.def_abstract_eval(lambda *values, f, integers: _abstract(own, f, integers, values))
    ad.primitive_jvps[primitive] = lambda values, tangents, **what: _jvp(own, values, tangents, **what)
    ad.primitive_transposes[primitive] = lambda cotangents, *values, **what: _transpose(own, cotangents, values, **what)
    batching.primitive_batchers[primitive] = lambda values, axes, **what: _batch(own, values, axes, **what)
    mlir.register_lowering(primitive, lambda context, *values, **what: _lower(own, context, values, **what), "cpu")
    return own


def _compute(f: Any, integers: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """The results, of the type that the arrays of real numbers have."""
    return tuple(f(*with_integers(f.function, [np.asarray(v) for v in values], integers)))


def _abstract(own: Any, f: Any, integers: Sequence[int], values: Sequence[Any]) -> list[Any]:
    shapes = f.shapes(with_integers(f.function, [v.shape for v in values], integers))
    types = [v.dtype for v in values if v.dtype in (np.float32, np.float64)]
    return [own.shaped(shape, types[0] if types else own.canonicalize(np.float64)) for shape in shapes]


def _lower(own: Any, context: Any, values: Sequence[Any], f: Any, integers: Sequence[int]) -> Any:
    """A call from the compiled program. The callback must not call JAX, which waits for it."""

    def call(*arrays: Any) -> tuple[Any, ...]:
        results = _compute(f, integers, arrays)
        return tuple(np.asarray(r, aval.dtype) for r, aval in zip(results, context.avals_out, strict=True))

    results, _, _ = own.callback(
        context, call, None, list(values), context.avals_in, context.avals_out, has_side_effect=False
    )
    return results


def _apply(own: Any, f: Any, *values: Any) -> Any:
    """The results for all arguments in order."""
    arrays = [v for p, v in enumerate(values) if p not in f.function.integers]
    return own.primitive.bind(*arrays, f=f, integers=tuple(values[p] for p in sorted(f.function.integers)))


def _jvp(own: Any, values: Any, tangents: Any, f: Any, integers: Any) -> Any:
    results = own.primitive.bind(*values, f=f, integers=integers)
    along = with_integers(
        f.function, [None if isinstance(t, own.zero) else t for t in tangents], [None] * len(integers)
    )
    moving = tuple(p for p, tangent in enumerate(along) if tangent is not None)
    _refuse_others(f, moving)
    if not moving:
        return results, [own.zero.from_primal_value(r) for r in results]
    every = with_integers(f.function, values, integers)
    return results, _apply(own, f.pushforward(moving), *every, *(along[p] for p in moving))


def _refuse_others(f: Any, positions: Sequence[int]) -> None:
    for position in positions:
        if position < len(f.function.args) and position not in f.function.variables:
            raise ArgumentError(
                f"a derivative with respect to {f.function.labels[position]} is asked for, which is not in wrt: "
                "add it, or pass it through jax.lax.stop_gradient"
            )


def _transpose(own: Any, cotangents: Any, values: Any, f: Any, integers: Any) -> Any:
    every = with_integers(f.function, values, integers)
    asked = [p for p, v in enumerate(every) if own.is_linear(v)]
    given = [None if isinstance(c, own.zero) else c for c in cotangents]
    results = pulled_back(partial(_apply, own), f, every, asked, given)
    return [result for p, result in enumerate(results) if p not in f.function.integers]


def _batch(own: Any, values: Any, axes: Any, f: Any, integers: Any) -> Any:
    every, along = with_integers(f.function, values, integers), with_integers(f.function, axes, [None] * len(integers))
    results = over_axis(partial(_apply, own), lambda v, axis: own.numpy.moveaxis(v, axis, 0), f, every, along)
    return results, [0] * len(f.outputs)
