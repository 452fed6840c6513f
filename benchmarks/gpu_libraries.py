"""The libraries on a GPU: the same formulations, arrays that lie on the device, single precision as it is named."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contestants import Host
from benchmarks.libraries import Call, CompiledTorch, Jax, Keops, Library, Torch
from benchmarks.row import Array, Arrays, ByHand, Formulation

# Before any of them is imported: no TF32, and memory for all.
os.environ["CUPY_TF32"] = os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"


class CupyOnDevice:
    """Code written by hand for NumPy, run by CuPy."""

    def __init__(self) -> None:
        self.cupy = importlib.import_module("cupy")
        self.version = str(self.cupy.__version__)
        self.cupy.zeros(1)  # fails where there is no device

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        if not isinstance(formulation, ByHand):
            raise TypeError("CuPy has no derivatives: its formulations are written by hand")
        inputs, function, cupy = [self.cupy.asarray(array) for array in arrays], formulation.function, self.cupy
        return finished(lambda: function(cupy, *inputs), cupy.cuda.Device().synchronize)

    def placed(self, array: Array) -> Any:
        return self.cupy.asarray(array)

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(self.cupy.asnumpy(leaf))


class JaxOnDevice(Jax):
    def __init__(self) -> None:
        super().__init__()
        if self.jax.default_backend() != "gpu":
            raise RuntimeError(f"JAX works on {self.jax.default_backend()} here")
        self.jax.config.update("jax_default_matmul_precision", "highest")


class TorchOnDevice(Torch):
    def __init__(self) -> None:
        super().__init__()
        self.torch.backends.cuda.matmul.allow_tf32 = self.torch.backends.cudnn.allow_tf32 = False
        self.torch.zeros(1, device="cuda")

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        return finished(super().prepare(formulation, arrays), self.torch.cuda.synchronize)

    def placed(self, array: Array) -> Any:
        return self.torch.from_numpy(array.copy()).to("cuda")

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf.detach().cpu().numpy())


class CompiledTorchOnDevice(TorchOnDevice, CompiledTorch):
    """The order of the bases: arrays on the device, derivatives of what is compiled."""


class KeopsOnDevice(Keops):
    def __init__(self) -> None:
        super().__init__()
        self.torch = TorchOnDevice()
        self.lazy = importlib.import_module("pykeops.torch").LazyTensor

    def prepare(self, formulation: Formulation, arrays: Arrays) -> Call:
        inputs, function, lazy = [self.torch.placed(array) for array in arrays], formulation.function, self.lazy
        return finished(lambda: function(lazy, *inputs), self.torch.torch.cuda.synchronize)

    def to_numpy(self, leaf: Any) -> Array:
        return self.torch.to_numpy(leaf)


def finished(call: Call, synchronize: Callable[[], Any]) -> Call:
    """A call that has finished when it returns."""

    def run() -> Any:
        result = call()
        synchronize()
        return result

    return run


LIBRARIES: dict[str, Callable[[], Library]] = {
    "cupy": CupyOnDevice,
    "jax": JaxOnDevice,
    "torch": TorchOnDevice,
    "torch.compile": CompiledTorchOnDevice,
    "keops": KeopsOnDevice,
}


class Device(Host):
    """The device, which runs our kernels on arrays of CuPy or PyTorch if installed, else of Numba."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.cuda = importlib.import_module("numba.cuda")
        self.owner = found.get("cupy", found.get("torch"))

    def prepare(self, function: Any, arrays: Arrays) -> Call:
        placed = self.cuda.to_device if self.owner is None else self.owner.placed
        inputs = [placed(array) for array in arrays]
        return finished(lambda: function(*inputs), self.cuda.synchronize)

    def to_numpy(self, leaf: Any) -> Array:
        return np.asarray(leaf.copy_to_host() if self.owner is None else self.owner.to_numpy(leaf))
