"""A tensor expression as a function of PyTorch: the kernel forward, the kernel of its derivative backward."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

from sympy_tensordiff.codegen.api import lambdify
from sympy_tensordiff.derivative.api import vjp
from sympy_tensordiff.errors import ArgumentError, BackendError
from sympy_tensordiff.symbolic.integers import is_integer_in
from sympy_tensordiff.symbolic.tensors import TensorSymbol


def torch_function(
    args: Any, expr: Any = None, wrt: Any = None, backend: str = "numba", **options: Any
) -> Callable[..., Any]:
    """A function of PyTorch's tensors that computes ``expr``, and whose gradient is the derived one.

    ``torch_function(expr, wrt)`` is short for ``torch_function(wrt, expr, wrt)``: the expression comes first, and its
    function takes what it is differentiated by.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    expr : Expr
        A tensor expression, or a scalar; one.
    wrt : TensorSymbol, Symbol or sequence of them, optional
        The arguments that gradients are for; by default all tensors of real numbers and all real symbols.
    backend : {"numba", "numpy", "cuda"}
    **options
        Those of `lambdify`, for both kernels.

    Returns
    -------
    callable
        Takes tensors in the memory of the host (also numbers and NumPy arrays), or, with ``backend="cuda"``, on the
        device, where everything stays on PyTorch's current stream; and returns a tensor. It takes part
        in PyTorch's differentiation, once: the backward kernel computes ``vjp(expr, wrt, cotangent)`` for all of
        ``wrt`` in one sweep. A second derivative is an expression of its own, `hvp` or `hessian`.

    Raises
    ------
    BackendError
        If PyTorch is not installed.
    ArgumentError
        If ``expr`` is a tuple, or ``wrt`` holds something that is not in ``args``. In a call: if a tensor that
        requires a gradient is not in ``wrt``, or is in a memory that the backend does not reach.

    Notes
    -----
    What `vjp` says about kinks holds: ``abs`` has slope 0 at 0, tied maxima share theirs.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k = td.indices("i k")
    >>> x, w = td.TensorSymbol("x", 10), td.TensorSymbol("w", 3)
    >>> f = td.TensorComprehension(td.IndexedSum(x[2*i + k]*w[k], (k, 0, 2)), (i, 4))
    >>> layer = td.torch_function((x, w), f)  # doctest: +SKIP
    >>> layer(signal, weights).square().sum().backward()  # doctest: +SKIP
    """
    torch = _torch()
    if isinstance(args, sympy.Expr) and not isinstance(args, TensorSymbol | sympy.Symbol):
        expr, wrt = args, wrt if expr is None else expr
        args = wrt if wrt is not None else ()
    args = tuple(args) if isinstance(args, Sequence) else (args,)
    if isinstance(expr, tuple | list):
        raise ArgumentError(f"torch_function takes one expression, not {len(expr)}: make a function of each")
    variables = _variables(args, wrt, expr)
    cotangent = _cotangent(args, expr)
    forward = lambdify(args, expr, backend, **options)
    pullback = lambdify((*args, cotangent), vjp(expr, variables, cotangent), backend, **options)
    places = [args.index(variable) for variable in variables]
    labels = [str(arg.name) for arg in args]

    def gradients_of(ctx: Any, slope: Any) -> tuple[Any, ...]:
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if value is None else value for value in ctx.others]
        arrays = [_array(label, value, backend) for label, value in zip(labels, values, strict=True)]
        found = pullback(*arrays, _array("the cotangent", slope, backend))
        gradients: list[Any] = [None] * len(values)
        for place, gradient in zip(places, found, strict=True):
            if ctx.needs_input_grad[place]:
                gradients[place] = _tensor(torch, gradient).to(values[place])
        return tuple(gradients)

    class Function(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            for place, needed in enumerate(ctx.needs_input_grad):
                if needed and place not in places:
                    raise ArgumentError(
                        f"argument {labels[place]} requires a gradient, but is not in wrt: add it, or pass .detach()"
                    )
            arrays = [_array(label, value, backend) for label, value in zip(labels, values, strict=True)]
            ctx.save_for_backward(*[value for value in values if isinstance(value, torch.Tensor)])
            ctx.others = [None if isinstance(value, torch.Tensor) else value for value in values]
            return _tensor(torch, forward(*arrays))

        backward = staticmethod(torch.autograd.function.once_differentiable(gradients_of))

    return Function.apply  # type: ignore[no-any-return]


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise BackendError(f"PyTorch is not installed ({error}): pip install '.[torch]'") from error


def _variables(args: Sequence[Any], wrt: Any, expr: Any) -> tuple[Any, ...]:
    """The arguments that gradients are for."""
    if wrt is None:
        exprs = [part for part in (*args, expr) if isinstance(part, sympy.Basic)]
        return tuple(
            arg
            for arg in args
            if (isinstance(arg, TensorSymbol) and arg.dtype is not int)
            or (isinstance(arg, sympy.Symbol) and not is_integer_in(arg, *exprs))
        )
    variables = tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
    for variable in variables:
        if variable not in args:
            raise ArgumentError(f"{variable} is in wrt, but not in args: add it to args")
    return variables


def _cotangent(args: Sequence[Any], expr: Any) -> Any:
    """A symbol of the shape of the expression that nothing else is called."""
    name = "cotangent"
    while name in {str(arg.name) for arg in args}:
        name += "_"
    shape = getattr(expr, "shape", ())
    return TensorSymbol(name, shape) if shape else sympy.Symbol(name, real=True)


def _tensor(torch: Any, result: Any) -> Any:
    """What a kernel gives, as a tensor where it lies."""
    return result if isinstance(result, torch.Tensor) else torch.from_numpy(np.asarray(result))


def _array(label: str, value: Any, backend: str) -> Any:
    """What a kernel takes."""
    if not hasattr(value, "detach"):
        return value
    if value.device.type == backend == "cuda":
        return value.detach().contiguous()  # gradients of sums repeat one entry
    if value.device.type != "cpu":
        raise ArgumentError(f"argument {label} is in the memory of {value.device}: pass .cpu()")
    return value.detach().numpy()
