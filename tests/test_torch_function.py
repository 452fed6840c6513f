"""Functions of PyTorch: forward and backward kernels, checked by its own `gradcheck`."""

from __future__ import annotations

import importlib
import sys

import pytest
import sympy
from bridge_cases import CASES
from every import every

import sympy_tensordiff as td
from sympy_tensordiff.bridges.operators import BridgedFunction
from sympy_tensordiff.bridges.torch import _to_kernel_argument, key_of
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, BackendError

# PyTorch's own use of what it has deprecated.
# What PyTorch's compiler and checks of operators use themselves.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

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


@pytest.fixture(autouse=True)
def forget_compiled():
    """PyTorch compiles one piece of code eight times at most, and the tests compile one of many functions."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].compiler.reset()


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


@every("name", ["square", "product", "waves", "strided", "softmax", "network", "numbers"])
def test_half_types(torch, name):
    """PyTorch has most operations for bfloat16 and float16; kernels have none."""
    function, values = case_of(torch, name, backend="torch")
    scale = float(function(*values).detach().abs().max())
    loss = lambda *args: (function(*args) / scale).sin().sum()  # noqa: E731
    wanted = [function(*values).detach(), *torch.autograd.grad(loss(*values), values)]
    for dtype in (torch.bfloat16, torch.float16):
        half = [value.detach().to(dtype).requires_grad_() for value in values]
        found = [function(*half).detach(), *torch.autograd.grad(loss(*half), half)]
        assert {result.dtype for result in found} == {dtype}
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=0.1, atol=0.02 * float(other.abs().max()))
    mixed = function(*[value.detach().half() for value in values[:-1]], values[-1].detach().float())
    assert mixed.dtype == torch.float32


B, v = td.TensorSymbol("B", (n, n)), td.TensorSymbol("v", n)
POSITIVE = B @ B.T + td.eye(n)
GREATEST = td.IndexedMax(
    sympy.Piecewise(((B @ v)[j] * v[chosen[k]], sympy.Eq(chosen[k], i)), (0, True)), (k, 0, 2), (j, 0, n - 1)
)
IN_HALF_PRECISION = {
    "logdet": td.logdet(POSITIVE) * td.sum(v),
    "det": td.det(POSITIVE) * td.sum(v),
    "solve": td.sum(td.solve(POSITIVE, B @ v) ** 2),
    "attention": td.sum((td.softmax(POSITIVE, axis=1) @ v) ** 2),
    "greatest": td.sum(td.TensorComprehension(GREATEST, (i, n))),
}


@every("name", list(IN_HALF_PRECISION))
def test_autocast(torch, name):
    """PyTorch chooses half types for products, and single precision for factorizations, operation by operation."""
    value = IN_HALF_PRECISION[name]
    args = (B, v, chosen) if name == "greatest" else (B, v)
    matrix, vector, places = random(torch, 3, 3, dtype="float32"), random(torch, 3, dtype="float32"), [2, 0, 2]
    given = (matrix, vector, torch.tensor(places))[: len(args)]
    loss, printed = td.torch_function(args, value), td.lambdify(args, value, "torch")
    slope = td.lambdify(args, td.gradient(value, B), "torch")
    wanted = torch.autograd.grad(loss(*given), matrix)[0]
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            assert (matrix @ matrix).dtype == dtype
            found = [slope(*given), *[torch.autograd.grad(f(*given), matrix)[0] for f in (loss, printed)]]
        for gradient in found:
            torch.testing.assert_close(gradient.float(), wanted, rtol=0.1, atol=0.03 * float(wanted.abs().max()))


def test_half_types_of_a_layer_in_front(torch):
    function = td.torch_function((x, w), CONVOLUTION)
    layer, signal = torch.nn.Linear(10, 10), torch.ones(10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = layer(signal)
        result = function(hidden, torch.ones(3))
    result.sum().backward()
    assert (hidden.dtype, layer.weight.grad.dtype) == (torch.bfloat16, torch.float32)
    assert layer.weight.grad[:, 0].tolist() == [1, 1, 2, 1, 2, 1, 2, 1, 1, 0]


def test_data_select_entries(torch):
    total = td.torch_function((x, chosen), td.IndexedSum(x[chosen[i]] ** 2, (i, 0, 2)), backend="numpy")
    signal = random(torch, 10)
    total(signal, torch.tensor([2, 0, 2])).backward()
    assert signal.grad.tolist() == pytest.approx([2 * signal[0].item(), 0, 4 * signal[2].item(), *[0] * 7])


def test_refusals(torch):
    with pytest.raises(ArgumentError, match=r"b is in wrt, but not in args: add it to args"):
        td.torch_function((x, w), CONVOLUTION, wrt=b)
    layer = td.torch_function((x, w), CONVOLUTION, wrt=w, backend="numpy")
    with pytest.raises(ArgumentError, match=r"argument x requires a gradient, but is not in wrt"):
        layer(random(torch, 10), random(torch, 3))
    with pytest.raises(ArgumentTypeError, match=r"argument w has the type torch.bfloat16, kernels take float32"):
        layer(random(torch, 10).detach(), random(torch, 3, dtype="bfloat16"))
    for backend in ("torch", "numpy"):
        with pytest.raises(ArgumentTypeError, match=r"argument w has the type torch.complex64; real numbers are need"):
            td.torch_function((x, w), CONVOLUTION, w, backend)(random(torch, 10).detach(), torch.ones(3) * 1j)
    with pytest.raises(ArgumentError, match=r"2 arguments are needed \(x, w\), 1 given"):
        layer(random(torch, 10).detach())
    on_device = td.torch_function((x, w), CONVOLUTION, backend="cuda")
    with pytest.raises(ArgumentError, match="vmap works with the backends 'llvm', 'numba' and 'numpy': put the"):
        torch.func.vmap(on_device, (0, None))(torch.ones(2, 10), torch.ones(3))
    entry = td.torch_function((A, n), A[n - 1, 0], backend="numpy")
    with pytest.raises(ArgumentTypeError, match=r"argument n must be an integer, not 2\.5"):
        entry(random(torch, 2, 4), 2.5)
    with pytest.raises(ArgumentError, match=r"argument x is in the memory of meta: pass .cpu\(\)"):
        operator = BridgedFunction((x, w), CONVOLUTION, w, "numpy", {}).operator
        _to_kernel_argument(torch, operator, 0, torch.empty(10, device="meta"))


TEN = ["square", "product", "quadratic", "inverse", "waves", "strided", "softmax", "network", "numbers", "kernel"]


def case_of(torch, name, backend="numpy"):
    """A function of the table with its arguments."""
    case = CASES[name]
    values = [0.5 + random(torch, *shape).detach() for shape in case.shapes]
    return td.torch_function(case.args, case.expr, backend=backend), [value.requires_grad_() for value in values]


def loss_of(function):
    return lambda *args: function(*args).sin().sum()


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@every("name", TEN)
def test_derivatives_by_differences(torch, name, backend):
    function, values = case_of(torch, name, backend)
    assert torch.autograd.gradcheck(function, values, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(loss_of(function), values, check_fwd_over_rev=True)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@every("name", TEN)
def test_transformations_agree(torch, name, backend):
    """The derivatives that `gradcheck` verifies are equal in all orders of `torch.func`."""
    function, values = case_of(torch, name, backend)
    loss, values = loss_of(function), [value.detach() for value in values]
    positions = tuple(range(len(values)))
    close = torch.testing.assert_close
    gradients = torch.func.grad(loss, positions)(*values)
    close(gradients, torch.autograd.grad(loss(*[v.requires_grad_() for v in values]), values))
    values = [value.detach() for value in values]
    close(torch.func.jacfwd(function, positions)(*values), torch.func.jacrev(function, positions)(*values))
    tangent = torch.func.jvp(loss, tuple(values), tuple(values))[1]
    close(tangent, sum((g * v).sum() for g, v in zip(gradients, values, strict=True)))
    second = torch.func.hessian(loss, positions)(*values)
    close(second, torch.func.jacrev(torch.func.jacrev(loss, positions), positions)(*values))
    axes = (0, *[None] * (len(values) - 1))
    batch = torch.stack([values[0], 2 * values[0]])
    each = [torch.func.grad(loss)(part, *values[1:]) for part in batch]
    close(torch.func.vmap(torch.func.grad(loss), axes)(batch, *values[1:]), torch.stack(each))
    total = torch.func.grad(lambda *args: torch.func.vmap(loss, axes)(*args).sum())(batch, *values[1:])
    close(total, torch.stack(each))
    moved = torch.func.vmap(function, (-1, *axes[1:]))(batch.movedim(0, -1), *values[1:])
    close(moved, torch.stack([function(part, *values[1:]) for part in batch]))


@every("name", TEN)
def test_the_operator_is_registered_well(torch, name):
    function, values = case_of(torch, name)
    torch.library.opcheck(torch.ops.sympy_tensordiff.call.default, (values, [], key_of(function)))


@every("name", TEN)
def test_compiled(torch, name):
    function, values = case_of(torch, name)
    torch.compiler.reset()
    compiled = torch.compile(loss_of(function), fullgraph=True, backend="aot_eager")
    wanted = torch.autograd.grad(loss_of(function)(*values), values)
    torch.testing.assert_close(torch.autograd.grad(compiled(*values), values), wanted)


def test_compiled_for_several_shapes(torch):
    function = td.torch_function(CASES["waves"].args, CASES["waves"].expr, backend="numpy")
    compiled = torch.compile(loss_of(function), fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (7, 9, 11):
        values = random(torch, length), random(torch, 3)
        wanted = torch.autograd.grad(loss_of(function)(*values), values)
        torch.testing.assert_close(torch.autograd.grad(compiled(*values), values), wanted)


REFUSED = "tangents do not pass through a compiled torch_function|ExceptionObjectVariable|does not know how to trace"
"""The message, or that of the compiler of PyTorch 2.7 in its place."""


def test_what_does_not_compile_is_refused(torch):
    """PyTorch would drop the tangents."""
    function, values = case_of(torch, "waves")
    values = tuple(value.detach() for value in values)

    def tangent(*args):
        return torch.func.jvp(function, args, args)[1]

    with pytest.raises(Exception, match=REFUSED):
        torch.compile(tangent, fullgraph=True, backend="aot_eager")(*values)
    torch.testing.assert_close(torch.compile(tangent, backend="aot_eager")(*values), tangent(*values))


def test_gradients_of_some_arguments(torch):
    function, (signal, weights) = case_of(torch, "waves")
    other = random(torch, 2)
    by_signal, nothing = torch.autograd.grad(
        function(signal, weights.detach()).sum(), (signal, other), allow_unused=True
    )
    assert nothing is None
    torch.testing.assert_close(by_signal, torch.autograd.grad(function(signal, weights).sum(), signal)[0])
    double = td.torch_function(A, 2 * A, backend="numpy")
    assert torch.compile(double, fullgraph=True, backend="aot_eager")(random(torch, 0, 4)).shape == (0, 4)
    value, twice = td.torch_function((c,), (c**2, 2 * c), backend="numpy")(torch.tensor(3.0, requires_grad=True))
    assert (value.item(), twice.item(), value.dtype) == (9, 6, torch.float32)
    slope = torch.func.grad(lambda t: td.torch_function((c,), (c**2, 2 * c), backend="numpy")(t)[1])
    assert slope(torch.tensor(3.0)) == 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_for_integers_that_change(torch, dynamic):
    """One graph for the first integer, or for all, and one for all others."""
    first = td.torch_function((A, k), td.TensorComprehension(A[i, 0] ** 2, (i, k)), backend="numpy")
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda t, size: first(t, size).sum(), fullgraph=True, backend=counted, dynamic=dynamic)
    for size in (2, 3, 4, 5, 2):
        matrix = random(torch, 6, 4)
        value = compiled(matrix, size)
        torch.testing.assert_close(value, matrix[:size, 0].square().sum())
        (slope,) = torch.autograd.grad(value, matrix)
        wanted = torch.zeros_like(matrix)
        wanted[:size, 0] = 2 * matrix[:size, 0].detach()
        torch.testing.assert_close(slope, wanted)
    assert len(graphs) == (1 if dynamic else 2)


def test_equal_functions_share_an_operator(torch):
    one, other = (td.torch_function((c,), c**2, backend=backend) for backend in ("numpy", "numpy"))
    assert key_of(one) == key_of(other) != key_of(td.torch_function((c,), c**3, backend="numpy"))
    f = sympy.Function("f")
    made = [td.torch_function((c,), f(c), backend="numpy", functions={"f": g}) for g in (abs, float)]
    assert key_of(made[0]) != key_of(made[1])
    assert [function(torch.tensor(-2.0)).item() for function in made] == [2, -2]


def test_sizes_are_arguments(torch):
    on_device = td.torch_function((x, w), CONVOLUTION, backend="cuda")
    with pytest.raises(ArgumentError, match="vmap works with the backends 'llvm', 'numba' and 'numpy': put the"):
        torch.func.vmap(on_device, (0, None))(torch.ones(2, 10), torch.ones(3))
    entry = td.torch_function((A, n), A[n - 1, 0] ** 2, backend="numpy")
    matrix = random(torch, 2, 4)
    assert torch.autograd.gradcheck(lambda t: entry(t, 2), matrix)
    assert torch.autograd.gradgradcheck(lambda t: entry(t, 2), matrix)
    torch.testing.assert_close(torch.compile(entry, fullgraph=True, backend="aot_eager")(matrix, 2), entry(matrix, 2))
