"""A tensor expression as a PyTorch operator, differentiable to any order."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from functools import cache, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import sympy

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
def torch_function(
    args: Any, expr: Any = None, wrt: Any = None, backend: str = "torch", **options: Any
) -> Callable[..., Any]:
    """Return a function of PyTorch tensors that computes ``expr`` from the values of ``args``. PyTorch can
    differentiate it with respect to ``wrt``; the derivatives are found symbolically.

    ``torch_function(expr, wrt)`` is short for ``torch_function(wrt, expr, wrt)``: the arguments are the variables.

    Parameters
    ----------
    args : sequence
        The arguments in call order, as `lambdify` takes them.
    expr : Expr or tuple of Expr
        A tensor expression, or a scalar; a tuple gives a function that returns one.
    wrt : TensorSymbol, Symbol or sequence of them, optional
        The arguments that gradients are for; by default all tensors of real numbers and all real symbols.
    backend : {"torch", "llvm", "numba", "numpy", "cuda"}
        ``"torch"``: programs of PyTorch, on any device. The others: kernels that PyTorch calls.
    **options
        Those of `lambdify`, for all kernels.

    Returns
    -------
    callable
        Takes tensors (also numbers and NumPy arrays), in the memory of the host for the kernels of ``"llvm"``,
        ``"numba"`` and ``"numpy"``, on the device for ``"cuda"``; and returns a tensor. It takes part in PyTorch's
        differentiation, to any order, in ``torch.func`` and in ``torch.compile(fullgraph=True)``. One kernel computes
        the gradients of all arguments that need one. Tensors of real numbers are converted to the type to which PyTorch
        promotes their types, where tensors of integers count as float64; the result has this type. Only ``"torch"``
        takes bfloat16 and float16, with the operations that PyTorch has for them, and follows ``torch.autocast``.

    Raises
    ------
    BackendError
        If PyTorch is not installed.
    ArgumentError
        If ``wrt`` contains a symbol that is not in ``args``. In a call: if a tensor that requires a gradient is not in
        ``wrt``, or is in a memory that the backend cannot access.
    ArgumentTypeError
        In a call: if a tensor has another type.

    Notes
    -----
    With ``"torch"`` the function is a ``torch.autograd.Function`` whose forward and backward passes are programs of
    PyTorch, the latter derived at its first use; ``torch.compile`` sees the operations of the forward pass, and
    differentiates these itself, with PyTorch's values at kinks. With kernels it is an operator of
    ``torch.library.custom_op``, named after its content, and ``torch.func.vmap`` calls the kernel for each entry of the
    axis: a formula with that axis is faster. Otherwise, what `vjp` says about kinks is valid here.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k = td.indices("i k")
    >>> x, w = td.TensorSymbol("x", 10), td.TensorSymbol("w", 3)
    >>> f = td.TensorComprehension(td.IndexedSum(x[2*i + k]*w[k], (k, 0, 2)), (i, 4))
    >>> layer = td.torch_function((x, w), f)  # doctest: +SKIP
    >>> layer(signal, weights).square().sum().backward()  # doctest: +SKIP
    """
    if backend not in ("torch", "llvm", "numba", "numpy", "cuda"):
        known = "'torch', 'llvm', 'numba', 'numpy' and 'cuda'"
        raise ArgumentError(f"torch_function works with the backends {known}, not with {backend!r}")
    torch = import_optional("torch", "PyTorch", "torch")
    function = BridgedFunction(args, expr, wrt, backend, options)
    if backend == "torch":
        return _traced_function(torch, function)
    _register_function(function)
    apply, op, key = (
        _load().OperatorCall.apply,
        torch.ops.sympy_tensordiff.call.default,
        _operator_key(function.operator),
    )

    def call(*values: Any) -> Any:
        """Check and convert the arguments, and return the results of the operator. PyTorch records them for
        derivatives, unless it is compiling.
        """
        function.checker.check_count(values)
        tensors = _convert_arguments(torch, function, values)
        if torch.compiler.is_compiling():  # the compiler traces operators, but not the tangents of an autograd.Function
            if torch.autograd.forward_ad._current_level >= 0:
                raise ArgumentError("tangents do not pass through a compiled torch_function: compile without jvp")
            results = op(*_arrays_and_integers(torch, tensors), key)
        else:
            results = apply(function.operator, *tensors)
        return tuple(results) if function.is_tuple else results[0]

    call.key = key  # type: ignore[attr-defined]
    return call


def _traced_function(torch: Any, function: BridgedFunction) -> Callable[..., Any]:
    """Return a function of PyTorch tensors that computes ``function`` by PyTorch operations, both the values and the
    derivatives, so that ``torch.compile`` can compile it. ``torch`` is the PyTorch module.
    """
    operator, kernel = function.operator, function.operator.kernel

    def call(*values: Any) -> Any:
        """Check and convert the arguments, and return the results, computed by PyTorch operations. PyTorch records them
        for derivatives, unless it is compiling.
        """
        function.checker.check_count(values)
        tensors = _convert_arguments(torch, function, values)
        results = kernel(*tensors) if torch.compiler.is_compiling() else _autograd_of(torch, operator).apply(*tensors)
        return tuple(results) if function.is_tuple else results[0]

    return call


def _autograd_of(torch: Any, operator: Any) -> Any:
    """Return the `torch.autograd.Function` of ``operator``, created at the first call. Its forward and backward passes
    are PyTorch operations, so that PyTorch can compile them. ``torch`` is the PyTorch module.
    """
    if operator.autograd is not None:
        return operator.autograd

    def apply(derived: Any, *values: Any) -> Any:
        """Call ``derived``, an operator derived from ``operator`` (a derivative, or its application to a batch), with
        the arguments ``values``, and return the results. PyTorch can differentiate them again.
        """
        return _autograd_of(torch, derived).apply(*values)

    class TracedOperator(torch.autograd.Function):  # type: ignore[misc]
        """The `torch.autograd.Function` of one operator, whose results are computed by PyTorch operations, so that
        PyTorch can trace them.
        """

        generate_vmap_rule = True

        @staticmethod
        def forward(*values: Any) -> Any:
            """Return the results of an operator, computed by PyTorch operations (autograd's forward pass)."""
            return operator.trace(torch.func.vmap, values)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Save the arguments ``inputs`` of the forward pass in the autograd context ``ctx`` for the derivatives.
            ``output`` is not needed.
            """
            tensors, ctx.integers = _arrays_and_integers(torch, inputs)
            ctx.operator = operator
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            """Return the cotangents of the arguments of a call, given those of its results, or None for an argument
            that needs none. It is the backward pass for autograd; ``ctx`` is autograd's record of the call.
            """
            positions = [p for p, need in enumerate(ctx.needs_input_grad) if need]
            return tuple(apply_pullback(apply, operator, _saved_arguments(ctx), positions, cotangents))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            """Return the tangents of the results for the ``tangents`` of the arguments (autograd's forward mode).
            ``ctx`` is autograd's record of the call.
            """
            positions = tuple(p for p, t in enumerate(tangents) if t is not None)
            moving = [tangents[p] for p in positions]
            return apply(operator.pushforward(positions), *_saved_arguments(ctx), *moving)

    operator.autograd = TracedOperator
    return TracedOperator


def key_of(function: Callable[..., Any]) -> str:
    """Return the text by which compiled code finds ``function``, a result of `torch_function` with kernels. Tests pass
    it to ``torch.library.opcheck``, as an argument of the operator ``torch.ops.sympy_tensordiff.call``.
    """
    return str(function.key)  # type: ignore[attr-defined]


def _convert_arguments(torch: Any, function: BridgedFunction, values: Sequence[Any]) -> list[Any]:
    """Convert the arguments ``values`` of ``function`` to tensors of a common type, and ints. Raise an error for a
    value of another type, or a tensor that requires a gradient though ``function`` is not differentiated with respect
    to it.

    ``torch`` is PyTorch's module.
    """
    tensors: list[Any] = []
    types = []
    for position, (label, value) in enumerate(zip(function.labels, values, strict=True)):
        if position in function.integers:
            # To PyTorch's compiler, an integer that differs between calls is an int without methods. That of
            # PyTorch 2.7 does not trace `int | float`.
            is_plain = isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)
            tensors.append(value if is_plain else _to_integer(label, value))
            continue
        is_number = isinstance(value, (int, float))
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        if position in function.reals and not is_number:
            types.append(tensor.dtype if tensor.is_floating_point() else torch.float64)
        if tensor.is_complex():
            raise ArgumentTypeError(f"argument {label} has the type {tensor.dtype}; real numbers are needed")
        is_half = tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64)
        if is_half and function.backend != "torch":
            raise ArgumentTypeError(f"argument {label} has the type {tensor.dtype}, kernels take float32: use .float()")
        if tensor.requires_grad and position not in function.variables and torch.is_grad_enabled():
            raise ArgumentError(f"argument {label} requires a gradient, but is not in wrt: add it, or pass .detach()")
        tensors.append(tensor)
    dtype = reduce(torch.promote_types, types) if types else torch.float64
    return [t.to(dtype) if position in function.reals else t for position, t in enumerate(tensors)]


def _to_integer(label: str, value: Any) -> int:
    """Return ``value`` as an int; raise `ArgumentTypeError`, which calls it ``label``, if it is not an integer."""
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise ArgumentTypeError(f"argument {label} must be an integer, not {value!r}") from None


@cache
def _load() -> SimpleNamespace:
    """Create once and return the two objects by which PyTorch calls kernels: the custom operator ``op``, for
    ``torch.compile``, and the autograd function ``OperatorCall``, for eager calls.
    """
    torch = import_optional("torch", "PyTorch", "torch")

    op = _custom_op(torch)

    class OperatorCall(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """The autograd function through which an operator is called in eager mode, outside of ``torch.compile``. Unlike
        a custom operator, it supports all of `torch.func`.
        """

        @staticmethod
        def forward(operator: Any, *values: Any) -> Any:
            """Return the results of ``operator`` for the arguments ``values`` (autograd's forward pass)."""
            return tuple(op(*_arrays_and_integers(torch, values), _operator_key(operator)))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Save the operator and its arguments, both in ``inputs``, in ``ctx`` for the derivatives; ``output`` is
            not used.
            """
            ctx.operator, (tensors, ctx.integers) = inputs[0], _arrays_and_integers(torch, inputs[1:])
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            """Return the cotangents of the arguments, given the cotangents of the results, for PyTorch's backward pass;
            None for an argument that needs none. ``ctx`` has the arguments.
            """
            positions = [p for p, need in enumerate(ctx.needs_input_grad[1:]) if need]
            return None, *apply_pullback(OperatorCall.apply, ctx.operator, _saved_arguments(ctx), positions, cotangents)

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            """Return the tangents of the results for the ``tangents`` of the arguments, None where an argument has none
            (autograd's forward mode). ``ctx`` is autograd's record of the call.
            """
            positions = tuple(p for p, t in enumerate(tangents) if t is not None)
            derivative = ctx.operator.pushforward(positions)
            return OperatorCall.apply(derivative, *_saved_arguments(ctx), *(tangents[p] for p in positions))

        @staticmethod
        def vmap(info: Any, axes: Any, operator: Any, *values: Any) -> Any:
            """Return the results of ``operator`` for ``values`` with a batch axis, for `torch.func.vmap`. ``axes`` has
            the number of this axis for ``operator`` and for each value, None without one. ``info`` is not used.
            """
            return _vmap_operator(OperatorCall.apply, operator, axes[1:], values)

    return SimpleNamespace(OperatorCall=OperatorCall, op=op)


def _saved_arguments(ctx: Any) -> list[Any]:
    """Return the arguments that a call saved in its autograd context ``ctx``, in order."""
    return merge_arguments(ctx.operator.function, ctx.saved_tensors, ctx.integers)


def _vmap_operator(apply: Any, operator: Any, axes: Any, values: Sequence[Any]) -> Any:
    """Return ``(results, positions)``, as `torch.func.vmap` needs them: the results of ``operator`` mapped over one
    axis of its arguments ``values``, and the position of this axis in each result, always 0. Raise `ArgumentError` for
    the backend "cuda".

    ``axes`` has the position of the axis in each argument; ``apply`` calls the operator.
    """
    if operator.function.backend == "cuda":
        raise ArgumentError("vmap works with the backends 'llvm', 'numba' and 'numpy': put the axis into the formula")
    results = apply_over_axis(apply, lambda value, axis: value.movedim(axis, 0), operator, values, axes)
    return tuple(results), (0,) * len(operator.outputs)


def _arrays_and_integers(torch: Any, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Split ``values``, the arguments of a call, into ``(tensors, integers)``: PyTorch tensors, and all others.
    ``torch`` is the PyTorch module.
    """
    arrays = [v for v in values if isinstance(v, torch.Tensor)]
    return arrays, [v for v in values if not isinstance(v, torch.Tensor)]


def _operator_key(operator: Any) -> str:
    """Return the text by which compiled code finds ``operator``, also in other processes: the key of its function, and
    the steps that derive the operator from it.
    """
    return json.dumps([operator.function.key, operator.path])


def _register_function(function: BridgedFunction) -> None:
    """Register ``function`` under a key and store the key in it, so that compiled code can find its operators by the
    key. The key is a hash of the content, or random if that is not possible.
    """
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


_functions: dict[str, BridgedFunction] = {}


@cache
def _operator_of_key(key: str) -> Any:
    """Return the operator with the ``key`` that `_operator_key` has returned: JSON text of the key of a registered
    function, and of the steps, such as a pullback, that derive the operator from it.
    """
    name, path = json.loads(key)
    operator: Any = _functions[name].operator
    for step in path:
        operator = operator.derive(tuple(tuple(part) if isinstance(part, list) else part for part in step))
    return operator


def _custom_op(torch: Any) -> Any:
    """Create and return the PyTorch operator that all functions share. It gets the key of the function as an argument,
    so that compiled code is valid in other processes. ``torch`` is the module.
    """

    def apply(operator: Any, *values: Any) -> Any:
        """Return the results of the PyTorch operator for the arguments ``values``, tensors and integers in the order of
        the function's arguments.
        """
        return op(*_arrays_and_integers(torch, values), _operator_key(operator))

    def operator_and_values(tensors: Sequence[Any], integers: Sequence[Any], key: str) -> tuple[Any, list[Any]]:
        """Return the operator that is registered under ``key``, and its arguments, ``tensors`` and ``integers`` merged
        in their order.
        """
        operator = _operator_of_key(key)
        return operator, merge_arguments(operator.function, tensors, integers)

    def run(tensors: Any, integers: Any, key: str) -> Any:
        """Run the kernel that is registered under ``key`` on the ``tensors`` and ``integers`` and return its results.
        This function implements the PyTorch operator.
        """
        operator, values = operator_and_values(tensors, integers, key)
        results = operator(
            *[_to_kernel_argument(torch, operator, position, value) for position, value in enumerate(values)]
        )
        return [r if isinstance(r, torch.Tensor) else torch.from_numpy(np.asarray(r)) for r in results]

    def fake(tensors: Any, integers: Any, key: str) -> Any:
        """Return uninitialised tensors in the shapes and types of the results of the operator with this ``key``, for
        the arguments ``tensors`` and ``integers``. PyTorch needs them to trace a program without computing.
        """
        operator, values = operator_and_values(tensors, integers, key)
        shapes = operator.shapes([v.shape if isinstance(v, torch.Tensor) else v for v in values])
        real = next((v for v in tensors if v.is_floating_point()), None)
        dtype, device = (torch.float64, "cpu") if real is None else (real.dtype, real.device)
        return [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Save the arguments of a call, ``inputs``, in PyTorch's record of the call, ``ctx``, for the backward pass.
        ``output`` is not used.
        """
        tensors, ctx.integers, key = inputs
        ctx.operator = _operator_of_key(key)
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, cotangents: Any) -> Any:
        """Return the gradients for PyTorch's backward pass: those of the tensors, given the `cotangents` of the
        results, and None for the other arguments, which are integers and a key.
        """
        function = ctx.operator.function
        needed = merge_arguments(function, ctx.needs_input_grad[0], [False] * len(ctx.integers))
        positions = [p for p, need in enumerate(needed) if need]
        cotangents_of_arguments = apply_pullback(apply, ctx.operator, _saved_arguments(ctx), positions, cotangents)
        gradients = [c for position, c in enumerate(cotangents_of_arguments) if position not in function.integers]
        return gradients, None if ctx.integers else [], None  # PyTorch treats an empty list as a list of tensors

    def vmap(info: Any, axes: Any, tensors: Any, integers: Any, key: str) -> Any:
        """PyTorch's batching rule: return the results of the operator with this ``key`` for ``tensors`` and
        ``integers``, mapped over one axis of each tensor (``axes``), and the position of this axis in each result.
        ``info`` is not used.
        """
        operator, values = operator_and_values(tensors, integers, key)
        results, positions = _vmap_operator(
            apply, operator, merge_arguments(operator.function, axes[0], [None] * len(integers)), values
        )
        return list(results), list(positions)

    schema = "(Tensor[] tensors, SymInt[] integers, str key) -> Tensor[]"
    op = torch.library.custom_op("sympy_tensordiff::call", run, mutates_args=(), schema=schema)
    op.register_fake(fake)
    op.register_autograd(backward, setup_context=setup_context)
    op.register_vmap(vmap)
    return op


def _to_kernel_argument(torch: Any, operator: Any, position: int, value: Any) -> Any:
    """Convert ``value``, the argument number ``position`` of ``operator``, to the form that its kernel takes: a host
    array, for CUDA a contiguous tensor on the device, or an int. Raise `ArgumentError` if a tensor is in another
    memory.

    ``torch`` is PyTorch's module.
    """
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
