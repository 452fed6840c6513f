"""A tensor expression as an operator of PyTorch, differentiable to any order."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import sympy

from sympy_tensordiff.bridges.operators import Function, library, over_axis, pulled_back, with_integers
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic.calls import explained


@explained
def torch_function(
    args: Any, expr: Any = None, wrt: Any = None, backend: str = "llvm", **options: Any
) -> Callable[..., Any]:
    """A function of PyTorch's tensors that computes ``expr``, with the derived derivatives.

    ``torch_function(expr, wrt)`` is short for ``torch_function(wrt, expr, wrt)``: the expression comes first, and its
    function takes what it is differentiated by.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    expr : Expr or tuple of Expr
        A tensor expression, or a scalar; a tuple gives a function that returns one.
    wrt : TensorSymbol, Symbol or sequence of them, optional
        The arguments that gradients are for; by default all tensors of real numbers and all real symbols.
    backend : {"llvm", "numba", "numpy", "cuda"}
    **options
        Those of `lambdify`, for all kernels.

    Returns
    -------
    callable
        Takes tensors in the memory of the host (also numbers and NumPy arrays), or, with ``backend="cuda"``, on the
        device, where everything stays on PyTorch's current stream; and returns a tensor. It takes part in PyTorch's
        differentiation, to any order, in ``torch.func`` and in ``torch.compile(fullgraph=True)``. One kernel computes
        the gradients of all arguments that need one. Tensors of real numbers become float32, or float64 where one of
        them is or holds integers; so does the result.

    Raises
    ------
    BackendError
        If PyTorch is not installed.
    ArgumentError
        If ``wrt`` holds something that is not in ``args``. In a call: if a tensor that requires a gradient is not in
        ``wrt``, or is in a memory that the backend does not reach.
    ArgumentTypeError
        In a call: if a tensor has another type.

    Notes
    -----
    The function is an operator of ``torch.library.custom_op``, named after its content; its backward pass is such an
    operator, made when it is first needed. ``torch.func.vmap`` calls the kernel for each entry of the axis: a formula
    with that axis is faster. What `vjp` says about kinks is valid here.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k = td.indices("i k")
    >>> x, w = td.TensorSymbol("x", 10), td.TensorSymbol("w", 3)
    >>> f = td.TensorComprehension(td.IndexedSum(x[2*i + k]*w[k], (k, 0, 2)), (i, 4))
    >>> layer = td.torch_function((x, w), f)  # doctest: +SKIP
    >>> layer(signal, weights).square().sum().backward()  # doctest: +SKIP
    """
    torch = library("torch", "PyTorch", "torch")
    function = Function(args, expr, wrt, backend, options)
    _register(function)
    apply, op, key = _load().Call.apply, torch.ops.sympy_tensordiff.call.default, _key(function.operator)

    def call(*values: Any) -> Any:
        function.checker.check_count(values)
        tensors = _converted(torch, function, values)
        if torch.compiler.is_compiling():  # it traces operators, but not the tangents of an autograd.Function
            if torch.autograd.forward_ad._current_level >= 0:
                raise ArgumentError("tangents do not pass through a compiled torch_function: compile without jvp")
            results = op(*_arrays_and_integers(torch, tensors), key)
        else:
            results = apply(function.operator, *tensors)
        return tuple(results) if function.is_tuple else results[0]

    call.key = key  # type: ignore[attr-defined]
    return call


def key_of(function: Callable[..., Any]) -> str:
    """The key of a function in the operator ``torch.ops.sympy_tensordiff.call``, for ``torch.library.opcheck``."""
    return str(function.key)  # type: ignore[attr-defined]


def _converted(torch: Any, function: Function, values: Sequence[Any]) -> list[Any]:
    """Tensors of one type of real numbers, tensors of integers, and integers."""
    tensors: list[Any] = []
    types = []
    for position, (label, value) in enumerate(zip(function.labels, values, strict=True)):
        if position in function.integers:
            # To PyTorch's compiler, an integer that differs between calls is an int without methods.
            is_plain = isinstance(value, int | torch.SymInt) and not isinstance(value, bool)
            tensors.append(value if is_plain else _integer(label, value))
            continue
        is_number = isinstance(value, int | float)
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        if position in function.reals and not is_number:
            types.append(tensor.dtype if tensor.is_floating_point() else torch.float64)
        if tensor.is_complex() or (tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64)):
            raise ArgumentTypeError(f"argument {label} has the type {tensor.dtype}, kernels take float32: use .float()")
        if tensor.requires_grad and position not in function.variables and torch.is_grad_enabled():
            raise ArgumentError(f"argument {label} requires a gradient, but is not in wrt: add it, or pass .detach()")
        tensors.append(tensor)
    dtype = torch.float32 if types and torch.float64 not in types else torch.float64
    return [t.to(dtype) if position in function.reals else t for position, t in enumerate(tensors)]


def _integer(label: str, value: Any) -> int:
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise ArgumentTypeError(f"argument {label} must be an integer, not {value!r}") from None


@cache
def _load() -> SimpleNamespace:
    """What is made with PyTorch once: the function that eager calls go through."""
    torch = library("torch", "PyTorch", "torch")

    op = _custom_op(torch)

    class Call(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """An operator with all that `torch.func` asks for, its tangents included."""

        @staticmethod
        def forward(operator: Any, *values: Any) -> Any:
            return tuple(op(*_arrays_and_integers(torch, values), _key(operator)))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.operator, (tensors, ctx.integers) = inputs[0], _arrays_and_integers(torch, inputs[1:])
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            positions = [p for p, need in enumerate(ctx.needs_input_grad[1:]) if need]
            return None, *pulled_back(Call.apply, ctx.operator, _saved(ctx), positions, cotangents)

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            positions = tuple(p for p, t in enumerate(tangents) if t is not None)
            moved = ctx.operator.pushforward(positions)
            return Call.apply(moved, *_saved(ctx), *(tangents[p] for p in positions))

        @staticmethod
        def vmap(info: Any, axes: Any, operator: Any, *values: Any) -> Any:
            return _over_axis(Call.apply, operator, axes[1:], values)

    return SimpleNamespace(Call=Call, op=op)


def _saved(ctx: Any) -> list[Any]:
    """The arguments of a call."""
    return with_integers(ctx.operator.function, ctx.saved_tensors, ctx.integers)


def _over_axis(apply: Any, operator: Any, axes: Any, values: Sequence[Any]) -> Any:
    """The results for each entry of an axis, which comes first in them."""
    if operator.function.backend == "cuda":
        raise ArgumentError("vmap works with the backends 'llvm', 'numba' and 'numpy': put the axis into the formula")
    results = over_axis(apply, lambda value, axis: value.movedim(axis, 0), operator, values, axes)
    return tuple(results), (0,) * len(operator.outputs)


def _arrays_and_integers(torch: Any, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    arrays = [v for v in values if isinstance(v, torch.Tensor)]
    return arrays, [v for v in values if not isinstance(v, torch.Tensor)]


def _key(operator: Any) -> str:
    """A name of an operator that another process understands, which takes over compiled code."""
    return json.dumps([operator.function.key, operator.path])


def _register(function: Function) -> None:
    """Give a function a key by its content, or one of its own where that has callables or is taken by another one."""
    parts = sympy.Tuple(sympy.Tuple(*function.args), sympy.Tuple(*function.operator.outputs))
    content = sympy.srepr(parts), function.backend, function.is_tuple
    text = repr((*content, sorted(function.options.items())))
    key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    other = _functions.get(key)
    if "functions" in function.options or (
        other and (other.args, other.operator.outputs) != (function.args, function.operator.outputs)
    ):
        key = uuid.uuid4().hex
    function.key = key
    if key in _functions:
        function.operator = _functions[key].operator
    else:
        _functions[key] = function


_functions: dict[str, Function] = {}


@cache
def _operator(key: str) -> Any:
    """The operator of a key."""
    name, path = json.loads(key)
    operator: Any = _functions[name].operator
    for step in path:
        operator = operator.after(tuple(tuple(part) if isinstance(part, list) else part for part in step))
    return operator


def _custom_op(torch: Any) -> Any:
    """The one operator of PyTorch for all of ours: these have keys, since compiled code outlives a process."""

    def apply(operator: Any, *values: Any) -> Any:
        return op(*_arrays_and_integers(torch, values), _key(operator))

    def values_of(tensors: Sequence[Any], integers: Sequence[Any], key: str) -> tuple[Any, list[Any]]:
        operator = _operator(key)
        return operator, with_integers(operator.function, tensors, integers)

    def run(tensors: Any, integers: Any, key: str) -> Any:
        operator, values = values_of(tensors, integers, key)
        results = operator(*[_array(torch, operator, position, value) for position, value in enumerate(values)])
        return [r if isinstance(r, torch.Tensor) else torch.from_numpy(np.asarray(r)) for r in results]

    def fake(tensors: Any, integers: Any, key: str) -> Any:
        operator, values = values_of(tensors, integers, key)
        shapes = operator.shapes([v.shape if isinstance(v, torch.Tensor) else v for v in values])
        real = next((v for v in tensors if v.is_floating_point()), None)
        dtype, device = (torch.float64, "cpu") if real is None else (real.dtype, real.device)
        return [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        tensors, ctx.integers, key = inputs
        ctx.operator = _operator(key)
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, cotangents: Any) -> Any:
        function = ctx.operator.function
        needed = with_integers(function, ctx.needs_input_grad[0], [False] * len(ctx.integers))
        positions = [p for p, need in enumerate(needed) if need]
        pulled = pulled_back(apply, ctx.operator, _saved(ctx), positions, cotangents)
        gradients = [c for position, c in enumerate(pulled) if position not in function.integers]
        return gradients, None if ctx.integers else [], None  # PyTorch takes an empty list for one of tensors

    def vmap(info: Any, axes: Any, tensors: Any, integers: Any, key: str) -> Any:
        operator, values = values_of(tensors, integers, key)
        results, positions = _over_axis(
            apply, operator, with_integers(operator.function, axes[0], [None] * len(integers)), values
        )
        return list(results), list(positions)

    schema = "(Tensor[] tensors, SymInt[] integers, str key) -> Tensor[]"
    op = torch.library.custom_op("sympy_tensordiff::call", run, mutates_args=(), schema=schema)
    op.register_fake(fake)
    op.register_autograd(backward, setup_context=setup_context)
    op.register_vmap(vmap)
    return op


def _array(torch: Any, operator: Any, position: int, value: Any) -> Any:
    """What a kernel takes."""
    if not isinstance(value, torch.Tensor):
        return int(value)
    backend = operator.function.backend
    if value.device.type == backend == "cuda":
        return value.detach().contiguous()  # gradients of sums repeat one entry
    if value.device.type != "cpu":
        labels = operator.function.labels
        label = f"argument {labels[position]}" if position < len(labels) else "a derivative"
        raise ArgumentError(f"{label} is in the memory of {value.device}: pass .cpu()")
    return value.detach().numpy()
