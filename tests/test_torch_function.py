"""Functions of PyTorch: forward and backward kernels, checked by its own `gradcheck`."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, BackendError

i, j, k, n = td.indices("i j k n")
x, w = td.TensorSymbol("x", (10,)), td.TensorSymbol("w", (3,))
A, b = td.TensorSymbol("A", (n, 4)), td.TensorSymbol("b", (4,))
c = sympy.Symbol("c", real=True)
chosen = td.TensorSymbol("chosen", 3, dtype=int)
CONVOLUTION = td.TensorComprehension(td.IndexedSum(x[2 * i + k] * w[k], (k, 0, 2)), (i, 4))
LOSS = c * td.IndexedSum(sympy.exp(td.IndexedSum(A[i, k] * b[k], (k, 0, 3))), (i, 0, n - 1))


def test_without_torch(monkeypatch):
    def missing(name, package=None):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(BackendError, match=r"PyTorch is not installed \(No module named 'torch'\): pip install"):
        td.torch_function((x, w), CONVOLUTION)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="needs pip install '.[torch]'")


def test_the_formula_may_come_first(torch):
    signal, weights = random(torch, 10), random(torch, 3)
    short, long = td.torch_function(CONVOLUTION, (w, x)), td.torch_function((w, x), CONVOLUTION, (w, x))
    assert torch.equal(short(weights, signal), long(weights, signal))
    assert torch.autograd.gradcheck(short, (weights, signal))
    alone = td.torch_function(LOSS, wrt=(A, b, c))
    assert torch.autograd.gradcheck(alone, (random(torch, 2, 4), random(torch, 4), random(torch)))
    with pytest.raises(ArgumentError, match="x occurs in the expression, but not in args: add it to args"):
        td.torch_function(CONVOLUTION, w)


def random(torch, *shape, dtype="float64"):
    generator = torch.Generator().manual_seed(7)
    return torch.rand(shape, generator=generator, dtype=getattr(torch, dtype), requires_grad=True)


def test_gradients_of_tensors(torch):
    layer = td.torch_function((x, w), CONVOLUTION, backend="numpy")
    signal, weights = random(torch, 10), random(torch, 3)
    assert torch.autograd.gradcheck(layer, (signal, weights))
    value = layer(signal, weights)
    wanted = torch.nn.functional.conv1d(signal[None, None], weights[None, None], stride=2)[0, 0]
    torch.testing.assert_close(value, wanted)
    # Slices in strides, as a step of a larger graph.
    both = random(torch, 20)
    assert torch.autograd.gradcheck(lambda t: layer(t[::2], weights).square().sum(), (both,))


def test_gradients_of_a_number(torch):
    loss = td.torch_function((A, b, c), LOSS, backend="numpy")
    assert torch.autograd.gradcheck(loss, (random(torch, 5, 4), random(torch, 4), random(torch)))
    assert loss(random(torch, 2, 4), random(torch, 4), 2.0).ndim == 0


def test_single_precision(torch):
    layer = td.torch_function((x, w), CONVOLUTION, wrt=w)
    signal, weights = random(torch, 10, dtype="float32").detach(), random(torch, 3, dtype="float32")
    value = layer(signal, weights)
    value.sum().backward()
    assert value.dtype == weights.grad.dtype == torch.float32
    torch.testing.assert_close(weights.grad, torch.stack([signal[p : p + 7 : 2].sum() for p in range(3)]))
    with pytest.raises(RuntimeError, match="once_differentiable"):
        again = td.torch_function((x, w), CONVOLUTION, backend="numpy")(signal.requires_grad_(), weights)
        (slope,) = torch.autograd.grad(again.square().sum(), weights, create_graph=True)
        slope.sum().backward()


def test_data_select_entries(torch):
    total = td.torch_function((x, chosen), td.IndexedSum(x[chosen[i]] ** 2, (i, 0, 2)), backend="numpy")
    signal = random(torch, 10)
    total(signal, torch.tensor([2, 0, 2])).backward()
    assert signal.grad.tolist() == pytest.approx([2 * signal[0].item(), 0, 4 * signal[2].item(), *[0] * 7])


def test_refusals(torch):
    with pytest.raises(ArgumentError, match=r"torch_function takes one expression, not 2"):
        td.torch_function((x, w), (CONVOLUTION, CONVOLUTION))
    with pytest.raises(ArgumentError, match=r"b is in wrt, but not in args: add it to args"):
        td.torch_function((x, w), CONVOLUTION, wrt=b)
    layer = td.torch_function((x, w), CONVOLUTION, wrt=w, backend="numpy")
    with pytest.raises(ArgumentError, match=r"argument x requires a gradient, but is not in wrt"):
        layer(random(torch, 10), random(torch, 3))
    with pytest.raises(ArgumentError, match=r"argument x is in the memory of meta: pass .cpu\(\)"):
        layer(torch.empty(10, device="meta"), random(torch, 3))
