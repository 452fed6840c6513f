"""The other libraries: which are here, and how each runs a formulation of a row."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from benchmarks.row import Array, Arrays, ByHand, Formulation, Gradient, Hessian, HessianProduct, Third, Vjp

Call = Callable[[], Any]  # one run, finished when it returns; nothing is converted on the way


class Library(Protocol):
    """A library that is installed."""

    version: str

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call: ...

    def to_numpy(self, leaf: Any) -> Array: ...


class NumPy:
    def __init__(self) -> None:
        self.version = np.__version__

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        if not isinstance(formulation, ByHand):
            raise TypeError("NumPy has no derivatives: its formulations are written by hand")
        function = formulation.function
        return lambda: function(np, *arrays)

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf)


class Jax:
    """Compiled as a whole, called with arrays that are JAX's already."""

    def __init__(self) -> None:
        self.jax = importlib.import_module("jax")
        self.jax.config.update("jax_enable_x64", True)
        self.version = str(self.jax.__version__)

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        inputs = [self.jax.device_put(array) for array in arrays]
        compiled, wait = self.jax.jit(self._derivative(formulation)), self.jax.block_until_ready
        return lambda: wait(compiled(*inputs))

    def _derivative(self, formulation: Formulation) -> Callable[..., Any]:
        jax, function = self.jax, formulation.function

        def value(*arrays: Any) -> Any:
            return function(jax.numpy, *arrays)

        if isinstance(formulation, Gradient):
            gradient: Callable[..., Any] = jax.grad(value, formulation.wrt)
            return gradient
        if isinstance(formulation, Hessian):
            blocks, select = jax.hessian(value, formulation.wrt), formulation.select
            return blocks if select is None else lambda *arrays: select(jax.numpy, blocks(*arrays))
        if isinstance(formulation, Third):
            third: Callable[..., Any] = jax.jacfwd(jax.hessian(value, formulation.wrt), formulation.wrt)
            return third
        if isinstance(formulation, HessianProduct):
            place = formulation.wrt

            def product(*arrays: Any) -> Any:
                def of_variable(variable: Any) -> Any:
                    return value(*replaced(arrays[:-1], (place,), (variable,)))

                return jax.jvp(jax.grad(of_variable), (arrays[place],), (arrays[-1],))[1]

            return product
        if isinstance(formulation, Vjp):
            wrt = formulation.wrt

            def pulled_back(*arrays: Any) -> Any:
                def of_variables(*variables: Any) -> Any:
                    return value(*replaced(arrays[:-1], wrt, variables))

                return jax.vjp(of_variables, *(arrays[n] for n in wrt))[1](arrays[-1])

            return pulled_back
        return value

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf)


class Torch:
    """Eager, with the graph of reverse mode built in each run, or before for `backward_only`."""

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")
        self.version = str(self.torch.__version__)

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        return self.derivative(formulation, [self.placed(array) for array in arrays])

    def placed(self, array: Array) -> Any:
        return self.torch.from_numpy(array.copy())

    def derivative(self, formulation: Formulation, inputs: list[Any]) -> Call:
        torch, function = self.torch, formulation.function
        if isinstance(formulation, ByHand):
            return lambda: function(torch, *inputs)
        if isinstance(formulation, HessianProduct):
            return self._product(formulation, inputs)
        if isinstance(formulation, Third):
            value = functools.partial(self._at, formulation.function, inputs, formulation.wrt)
            third = torch.func.jacfwd(torch.func.hessian(value))
            return lambda: third(inputs[formulation.wrt])
        variables = [inputs[n] for n in formulation.wrt]
        if isinstance(formulation, Hessian):
            return self._hessian(formulation, inputs, variables)
        for variable in variables:
            variable.requires_grad_(True)
        grad = torch.autograd.grad
        if isinstance(formulation, Gradient):
            return lambda: grad(function(torch, *inputs), variables)
        cotangent = inputs[-1]
        if formulation.backward_only:
            value = function(torch, *inputs[:-1])
            return lambda: grad(value, variables, cotangent, retain_graph=True)
        return lambda: grad(function(torch, *inputs[:-1]), variables, cotangent)

    def _at(self, function: Callable[..., Any], inputs: list[Any], place: int, variable: Any) -> Any:
        return function(self.torch, *replaced(tuple(inputs), (place,), (variable,)))

    def _product(self, formulation: HessianProduct, inputs: list[Any]) -> Call:
        *arrays, tangent = inputs
        variable, grad = arrays[formulation.wrt].requires_grad_(True), self.torch.autograd.grad

        def product() -> Any:
            (slope,) = grad(formulation.function(self.torch, *arrays), variable, create_graph=True)
            return grad(slope, variable, tangent)[0]

        return product

    def _hessian(self, formulation: Hessian, inputs: list[Any], variables: list[Any]) -> Call:
        torch, wrt, select = self.torch, formulation.wrt, formulation.select

        def value(*given: Any) -> Any:
            return formulation.function(torch, *replaced(tuple(inputs), wrt, given))

        blocks = torch.func.hessian(value, tuple(range(len(wrt))))
        if select is None:
            return lambda: blocks(*variables)
        return lambda: select(torch, blocks(*variables))

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf.detach().numpy())


class CompiledTorch(Torch):
    """The function itself through `torch.compile`; the reverse sweep is compiled with it."""

    def derivative(self, formulation: Formulation, inputs: list[Any]) -> Call:
        if not isinstance(formulation, Vjp | Gradient) or (isinstance(formulation, Vjp) and formulation.backward_only):
            raise NotImplementedError("only functions of a first derivative are compiled")
        torch, function = self.torch, formulation.function

        def value(*arrays: Any) -> Any:
            return function(torch, *arrays)

        # What is compiled is kept with the code object, which all rows would share, up to a number of them.
        own = types.FunctionType(value.__code__.replace(), value.__globals__, closure=value.__closure__)
        compiled = torch.compile(own, fullgraph=True, dynamic=False)
        return super().derivative(type(formulation)(lambda _, *arrays: compiled(*arrays), formulation.wrt), inputs)


class Keops:
    """Sums over pairs, with formulas that are compiled when they are first used."""

    def __init__(self) -> None:
        pykeops = importlib.import_module("pykeops")
        pykeops.set_verbose(False)
        self.lazy = importlib.import_module("pykeops.numpy").LazyTensor
        self.version = str(pykeops.__version__)

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        function = formulation.function
        return lambda: function(self.lazy, *arrays)

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf)


def replaced(arrays: tuple[Any, ...], places: tuple[int, ...], values: tuple[Any, ...]) -> list[Any]:
    """``arrays`` with ``values`` at ``places``."""
    result = list(arrays)
    for place, value in zip(places, values, strict=True):
        result[place] = value
    return result


def leaves(result: Any) -> list[Any]:
    """The arrays of a result, out of tuples in tuples, from left to right."""
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


LIBRARIES: dict[str, Callable[[], Library]] = {
    "numpy": NumPy,
    "jax": Jax,
    "torch": Torch,
    "torch.compile": CompiledTorch,
    "keops": Keops,
}
DIFFERENTIATING = ("jax", "torch", "torch.compile")


def load(
    names: Iterable[str], libraries: Mapping[str, Callable[[], Library]] = LIBRARIES
) -> tuple[dict[str, Library], dict[str, str]]:
    """The libraries that can be imported, and why the others cannot."""
    found: dict[str, Library] = {}
    gaps: dict[str, str] = {}
    for name in names:
        try:
            found[name] = libraries[name]()
        except Exception as error:  # an installation that does not import may raise anything
            gaps[name] = f"not available: {type(error).__name__}: {first_line(error)}"
    return found, gaps


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]
