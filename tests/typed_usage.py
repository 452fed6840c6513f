"""The types of the package as type checkers see them: mypy reads this file (in `.ci/run`), nothing runs it."""

from typing import Any

from typing_extensions import assert_type

import sympy_tensordiff as td
from sympy_tensordiff.symbolic import TensorExpr

n, m = td.indices("n m")
A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
assert_type(x, td.TensorSymbol)
loss = td.sum(td.sin(A @ x))

assert_type(td.gradient(loss, x), TensorExpr)
assert_type(td.gradient(loss, (A, x)), tuple[TensorExpr, ...])
assert_type(td.jacobian(A @ x, [A, x]), tuple[TensorExpr, ...])
assert_type(td.hessian(loss, x), TensorExpr)
assert_type(td.hessian(loss, (A, x)), tuple[tuple[TensorExpr, ...], ...])
assert_type(td.vjp(A @ x, x, td.TensorSymbol("y", n)), TensorExpr)
assert_type(td.hvp(loss, x, x), TensorExpr)
assert_type(td.gradient(n * n, n), Any)
assert_type(td.lambdify((A, x), loss), td.CompiledFunction)
assert_type(td.lambdify((A, x), loss, "dask", blocks={n: 3}).footprint((0,), n=9, m=2), dict[str, tuple[slice, ...]])
assert_type(td.generate_code((A, x), loss), str)
assert_type(td.parse("x'*A*x"), td.ParsedExpression)
assert_type(td.to_text(loss, language="matrix"), str)
assert_type(td.check_derivative(loss, x), float)
assert_type(td.clear_cache(), int)

td.gradient("nonsense", 5)  # type: ignore[call-overload]
td.gradient(loss, "x")  # type: ignore[arg-type]
td.hvp(loss, x, "v")  # type: ignore[arg-type]
td.jvp("nonsense", x, x)  # type: ignore[arg-type]
td.inv("nonsense")  # type: ignore[arg-type]
td.sum(7)  # type: ignore[arg-type]
td.sin("nonsense")  # type: ignore[arg-type]
td.to_text("x", language=3)  # type: ignore[arg-type]
td.gradiant(loss, x)  # type: ignore[attr-defined]
