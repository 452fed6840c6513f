"""A tensor expression as a JAX function, with all of its transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from sympy_tensordiff.bridges.operators import (
    BridgedFunction,
    apply_over_axis,
    apply_pullback,
    import_optional,
    merge_arguments,
)
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic.expressions.call_errors import explained


@explained
def jax_function(
    args: Any, expr: Any = None, wrt: Any = None, backend: str = "jax", **options: Any
) -> Callable[..., Any]:
    """Return a function of JAX arrays that computes ``expr`` from the values of ``args``. JAX can differentiate it with
    respect to ``wrt``; the derivatives are found symbolically.

    ``jax_function(expr, wrt)`` is short for ``jax_function(wrt, expr, wrt)``.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    expr : Expr or tuple of Expr
        A tensor expression or a scalar; a tuple gives a function that returns one.
    wrt : TensorSymbol, Symbol or sequence of them, optional
        The arguments that derivatives are for; by default all tensors of real numbers and all real symbols.
    backend : {"jax", "llvm", "numba", "numpy"}
        ``"jax"``: programs of JAX, on any device. The others: kernels for the CPU, which JAX calls.
    **options
        Those of `lambdify`, for all kernels.

    Returns
    -------
    callable
        It takes arrays and numbers, returns arrays, and goes through ``jit``, ``grad``, ``jvp``, ``vjp``, ``jacfwd``,
        ``jacrev``, ``hessian`` and ``vmap``, in any order and to any order of derivative. Integer symbols take Python
        integers. All arrays of real numbers are converted to the type to which JAX promotes their types, where arrays
        of integers count as JAX's default type; the results have this type. Only ``"jax"`` takes bfloat16 and float16.

    Raises
    ------
    BackendError
        If JAX is not installed.
    ArgumentError
        If ``wrt`` contains a symbol that is not in ``args``, or ``backend`` is not one of these. In a call: if the
        shapes do not fit, or a derivative is taken with respect to an argument that is not in ``wrt``.
    ArgumentTypeError
        In a call: if an integer symbol is traced, or an array has another type.

    Notes
    -----
    The function is a primitive of JAX, whose rule for ``jvp`` is `jvp` and whose transpose is `vjp`; both give
    primitives of the same kind, whose programs are derived when they are first needed. With ``"jax"``, XLA compiles
    them together with everything around them, as if they had been written there. With kernels for the CPU, ``vmap``
    calls the kernel for each entry of the axis: a formula with that axis is faster. What `vjp` says about kinks holds.

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
    if backend not in ("jax", "llvm", "numba", "numpy"):
        known = "'jax', 'llvm', 'numba' and 'numpy'"
        raise ArgumentError(f"jax_function works with the backends {known}, not with {backend!r}")
    function = BridgedFunction(args, expr, wrt, backend, options)

    def call(*values: Any) -> Any:
        """Call the function in JAX: check and convert the arguments ``values``, and return the result, or the tuple of
        results.
        """
        function.checker.check_count(values)
        arrays, integers = _convert_arguments(jax, function, values)
        results = jax.primitive.bind(*arrays, f=function.operator, integers=integers)
        return tuple(results) if function.is_tuple else results[0]

    return call


def _convert_arguments(jax: Any, function: BridgedFunction, values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Convert the arguments ``values`` of a call of ``function``, and return ``(arrays, integers)``: real ones become
    arrays of a common type, integers Python integers. Raise `ArgumentTypeError` for an integer that JAX traces, or for
    an array of another type. ``jax`` is JAX's module.
    """
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
    types = []
    for position, array in arrays.items():
        label, is_real = function.labels[position], position in function.reals
        is_integer = jax.numpy.issubdtype(array.dtype, jax.numpy.integer)
        is_float = jax.numpy.issubdtype(array.dtype, jax.numpy.floating)
        if is_real and not array.weak_type:
            types.append(array.dtype if is_float else jax.canonicalize(np.float64))
        if function.backend == "jax":
            if not (is_real or is_integer) or jax.numpy.issubdtype(array.dtype, jax.numpy.complexfloating):
                needed = "real numbers" if is_real else "integers"
                raise ArgumentTypeError(f"argument {label} has the type {array.dtype}; {needed} are needed")
        elif not (is_integer or (is_real and str(array.dtype) in ("float32", "float64"))):
            advice = "jnp.float32" if is_real else "int"
            raise ArgumentTypeError(
                f"argument {label} has the type {array.dtype}, which kernels do not take: use .astype({advice})"
            )
    dtype = jax.numpy.result_type(*types) if types else jax.canonicalize(np.float64)
    arrays.update({p: array.astype(dtype) for p, array in arrays.items() if p in function.reals})
    return list(arrays.values()), tuple(integers)


@cache
def _load() -> SimpleNamespace:
    """Import JAX, register the primitive that all bridged functions call, and return the parts of JAX that are used."""
    jax = import_optional("jax", "JAX", "jax")
    core, ad, batching, mlir = (
        import_optional(f"jax.{name}", "JAX", "jax")
        for name in ("extend.core", "interpreters.ad", "interpreters.batching", "interpreters.mlir")
    )
    primitive = core.Primitive("sympy_tensordiff")
    primitive.multiple_results = True
    used = SimpleNamespace(
        numpy=jax.numpy,
        zero=ad.Zero,
        is_linear=ad.is_undefined_primal,
        primitive=primitive,
        canonicalize=jax.dtypes.canonicalize_dtype,
        shaped=jax.core.ShapedArray,
        TracerIntegerConversionError=jax.errors.TracerIntegerConversionError,
        callback=mlir.emit_python_callback,
        inline=mlir.lower_fun,
        vmap=jax.vmap,
    )
    compiled = lru_cache(_MAX_PROGRAMS)(lambda f, integers: jax.jit(partial(_trace, used, f, integers)))

    def evaluate(*values: Any, f: Any, integers: tuple[int, ...]) -> list[Any]:
        """Return the results of the operator ``f`` for a call outside of JAX's transformations: ``values`` are concrete
        arrays, ``integers`` the integer arguments.
        """
        if f.function.backend == "jax":
            return list(compiled(f, integers)(*values))
        return [jax.numpy.asarray(r) for r in _compute(f, integers, values)]

    primitive.def_impl(evaluate)
    primitive.def_abstract_eval(lambda *values, f, integers: _abstract_eval(used, f, integers, values))
    ad.primitive_jvps[primitive] = lambda values, tangents, **params: _jvp(used, values, tangents, **params)
    ad.primitive_transposes[primitive] = lambda cotangents, *values, **params: _transpose(
        used, cotangents, values, **params
    )
    batching.primitive_batchers[primitive] = lambda values, axes, **params: _batch(used, values, axes, **params)
    for platform in ("cpu", None):
        rule = partial(_lower, used, platform == "cpu")
        mlir.register_lowering(primitive, rule, platform)
    return used


_MAX_PROGRAMS = 256
"""The most programs that stay compiled for calls outside of all transformations."""


def _trace(jax: Any, f: Any, integers: Sequence[int], *values: Any) -> tuple[Any, ...]:
    """Return the results of the operator ``f``, a function of arrays, computed by JAX operations, so that JAX can
    differentiate and compile them. ``values`` are its array arguments, ``integers`` its integer arguments.
    """
    results: tuple[Any, ...] = f.trace(jax.vmap, merge_arguments(f.function, values, integers))
    return results


def _compute(f: Any, integers: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Run the kernel of the operator ``f``, a function of arrays, on the host arrays ``values`` and the integer
    arguments ``integers``; return the results in the type of the real arguments.
    """
    return tuple(f(*merge_arguments(f.function, [np.asarray(v) for v in values], integers)))


def _abstract_eval(jax: Any, f: Any, integers: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """JAX rule for tracing: return the shapes and types of the results of the operator ``f`` for the abstract arrays
    ``values``. ``integers`` are the values of its integer arguments.
    """
    shapes = f.shapes(merge_arguments(f.function, [v.shape for v in values], integers))
    types = [v.dtype for v in values if jax.numpy.issubdtype(v.dtype, jax.numpy.floating)]
    return [jax.shaped(shape, types[0] if types else jax.canonicalize(np.float64)) for shape in shapes]


def _lower(jax: Any, is_host: bool, context: Any, *values: Any, f: Any, integers: Sequence[int]) -> Any:
    """JAX's rule for compilation: return the lowered operations that compute the operator ``f`` from ``values``: those
    of its JAX program, or a callback that runs its kernel on the host. ``integers`` are its integer arguments.

    Raise `ArgumentError` if a kernel would run on another device (not ``is_host``). ``context`` is JAX's lowering
    context.
    """
    if f.function.backend == "jax":
        return jax.inline(partial(_trace, jax, f, integers), multiple_results=True)(context, *values)
    if not is_host:
        backend = f.function.backend
        raise ArgumentError(f"kernels of the backend {backend!r} run on the CPU: use backend='jax' on other devices")

    def call(*arrays: Any) -> tuple[Any, ...]:
        """Return the results of the kernel for the host ``arrays``, in the types that the compiled program expects."""
        results = _compute(f, integers, arrays)
        return tuple(np.asarray(r, aval.dtype) for r, aval in zip(results, context.avals_out, strict=True))

    results, _, _ = jax.callback(
        context, call, None, list(values), context.avals_in, context.avals_out, has_side_effect=False
    )
    return results


def _apply(jax: Any, f: Any, *values: Any) -> Any:
    """Call the operator ``f`` as a JAX primitive, so that JAX can trace the call, and return the results. ``values``
    are all arguments in order, arrays and integers.
    """
    arrays = [v for p, v in enumerate(values) if p not in f.function.integers]
    return jax.primitive.bind(*arrays, f=f, integers=tuple(values[p] for p in sorted(f.function.integers)))


def _jvp(jax: Any, values: Any, tangents: Any, f: Any, integers: Any) -> Any:
    """JAX's rule for forward mode: return ``(results, tangents)`` of the operator ``f``, given its array arguments
    ``values``, their ``tangents``, and its integer arguments ``integers``. Raise `ArgumentError` if an argument that is
    not in ``wrt`` has a tangent.
    """
    results = jax.primitive.bind(*values, f=f, integers=integers)
    tangent_of = merge_arguments(
        f.function, [None if isinstance(t, jax.zero) else t for t in tangents], [None] * len(integers)
    )
    moving = tuple(p for p, tangent in enumerate(tangent_of) if tangent is not None)
    _check_positions_in_wrt(f, moving)
    if not moving:
        return results, [jax.zero.from_primal_value(r) for r in results]
    arguments = merge_arguments(f.function, values, integers)
    return results, _apply(jax, f.pushforward(moving), *arguments, *(tangent_of[p] for p in moving))


def _check_positions_in_wrt(f: Any, positions: Sequence[int]) -> None:
    """Raise `ArgumentError` if an argument of the operator ``f`` at one of ``positions`` is not in ``wrt``, the
    arguments with respect to which it can be differentiated.
    """
    for position in positions:
        if position < len(f.function.args) and position not in f.function.variables:
            raise ArgumentError(
                f"a derivative with respect to {f.function.labels[position]} is asked for, which is not in wrt: "
                "add it, or pass it through jax.lax.stop_gradient"
            )


def _transpose(jax: Any, cotangents: Any, values: Any, f: Any, integers: Any) -> Any:
    """JAX's rule to transpose a linear function: return the cotangents of the arguments in which ``f`` is linear, given
    the ``cotangents`` of its results; None for other arguments.

    ``values`` are the array arguments, ``integers`` the integer ones.
    """
    arguments = merge_arguments(f.function, values, integers)
    positions = [p for p, v in enumerate(arguments) if jax.is_linear(v)]
    given = [None if isinstance(c, jax.zero) else c for c in cotangents]
    results = apply_pullback(partial(_apply, jax), f, arguments, positions, given)
    return [result for p, result in enumerate(results) if p not in f.function.integers]


def _batch(jax: Any, values: Any, axes: Any, f: Any, integers: Any) -> Any:
    """JAX's rule for ``vmap``: apply the operator ``f`` to each entry along one axis of its array arguments ``values``.
    ``axes`` has the number of this axis in each of them. Return the results, and the number of this axis in each
    result, which is 0.

    ``integers`` are the integer arguments.
    """
    arguments, axis_of = (
        merge_arguments(f.function, values, integers),
        merge_arguments(f.function, axes, [None] * len(integers)),
    )
    results = apply_over_axis(
        partial(_apply, jax), lambda v, axis: jax.numpy.moveaxis(v, axis, 0), f, arguments, axis_of
    )
    return results, [0] * len(f.outputs)
