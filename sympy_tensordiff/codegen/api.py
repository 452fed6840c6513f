"""`lambdify` and `generate_code`: from a SymPy expression to a callable or its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias, overload

from sympy_tensordiff.codegen.emit.dialects import PURE
from sympy_tensordiff.codegen.program import build_program, program_at
from sympy_tensordiff.codegen.run.array_functions import ArrayFunction, print_array_module
from sympy_tensordiff.codegen.run.compile import CompiledFunction, print_source
from sympy_tensordiff.codegen.run.compute import with_compute
from sympy_tensordiff.codegen.run.results import flatten
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.symbolic.expressions.call_errors import explained


class BlockFunction(Protocol):
    """The interface of the functions that `lambdify` returns for the backends on Dask. Such a function evaluates an
    expression block by block, and describes its plan, its costs and the entries that each block reads. `DaskFunction`
    implements it.
    """

    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any: ...

    def footprint(self, block: Any, kernel: int = 0, **sizes: int) -> dict[str, tuple[slice, ...]]:
        """Return which part of each argument kernel number ``kernel`` reads to compute the block at position ``block``
        of its result, at the given ``sizes``: a dictionary from arguments to tuples of slices, one for each axis.
        """

    def loads(self, block: Any, kernel: int = 0, **sizes: int) -> dict[str, list[tuple[slice, ...]]]:
        """Return a dictionary from the names of arguments to the slices of them that one task loads: the task of the
        block at position ``block`` in kernel number ``kernel``, at the given ``sizes``.
        """

    def cost(self, itemsize: int | None = None, **sizes: int) -> Any:
        """Return the predicted costs of a call at the given ``sizes``: its numbers of tasks, and the bytes that these
        read and need at a time. ``itemsize`` is the number of bytes of an entry.
        """

    @property
    def plan(self) -> str:
        """A text on the kernels of the function, their loops over blocks, and the reductions over blocks."""


Distribution: TypeAlias = Callable[..., BlockFunction]

_distribution: list[Distribution] = []


def register_distribution(function: Distribution) -> Distribution:
    """Register ``function``, called as ``function(args, expr, blocks, memory, backend, options)``, as the one that
    builds the results of `lambdify` for the backends on Dask. Return it, so that this is a decorator.
    """
    _distribution[:] = [function]
    return function


def distributed(args: Any, expr: Any, blocks: Any, memory: Any, backend: str, options: Any) -> BlockFunction:
    """Return a function that evaluates ``expr`` block by block on Dask arrays, made by the builder that
    `register_distribution` has registered.

    All parameters are those of `lambdify`; ``options`` has the remaining ones.
    """
    import_module("sympy_tensordiff.distributed.function")
    return _distribution[0](args, expr, blocks, memory, backend, options)


@overload
def lambdify(
    args: Any,
    expr: Any,
    backend: Literal["dask", "dask-numpy"],
    *,
    temporaries: bool = True,
    functions: Mapping[Any, Callable[..., Any]] | None = None,
    expand: bool = False,
    blocks: Mapping[Any, int | None] | None = None,
    memory: int | str | None = None,
) -> BlockFunction:
    """Return a function of Dask arrays that evaluates ``expr`` in blocks, for a backend on Dask. The options are
    explained in the last definition of `lambdify`.
    """


@overload
def lambdify(
    args: Any,
    expr: Any,
    backend: Literal["jax", "torch", "cupy"],
    *,
    temporaries: bool = True,
    functions: Mapping[Any, Callable[..., Any]] | None = None,
    parallel: bool | None = None,
    sizes: Mapping[Any, int] | None = None,
    expand: bool = False,
    blocks: None = None,
    memory: None = None,
) -> ArrayFunction:
    """Return a function of arrays of JAX, PyTorch or CuPy, as ``backend`` says, that evaluates ``expr`` at the values
    of the arguments ``args`` by calls of that library.

    The options are explained in the last definition of `lambdify`.
    """


@overload
def lambdify(
    args: Any,
    expr: Any,
    backend: str = "llvm",
    *,
    temporaries: bool = True,
    functions: Mapping[Any, Callable[..., Any]] | None = None,
    parallel: bool | None = None,
    sizes: Mapping[Any, int] | None = None,
    expand: bool = False,
    blocks: None = None,
    memory: None = None,
) -> CompiledFunction:
    """Return a function that evaluates ``expr``, compiled or in NumPy, for NumPy arrays (or arrays on a GPU) in the
    order of ``args``. The options are explained in the last definition of `lambdify`.
    """


@explained
def lambdify(
    args: Any,
    expr: Any,
    backend: str = "llvm",
    *,
    temporaries: bool = True,
    functions: Mapping[Any, Callable[..., Any]] | None = None,
    parallel: bool | None = None,
    sizes: Mapping[Any, int] | None = None,
    expand: bool = False,
    blocks: Mapping[Any, int | None] | None = None,
    memory: int | str | None = None,
) -> CompiledFunction | ArrayFunction | BlockFunction:
    """Return a callable that evaluates ``expr``, given values of the symbols ``args``, by a ``backend`` such as "llvm"
    or "numpy". The other arguments are options.

    Parameters
    ----------
    args : sequence
        Tensor symbols, real scalar symbols and integer symbols (free indices, sizes), in call order.
        A tensor of integers (``dtype=int``) takes an array of integers, signed or not, nothing else.
    expr : Expr, or tuple of Expr
        A tensor expression, a scalar, or several: tuples, also in tuples (the blocks that `hessian`
        gives), come back as such.
    backend : {"llvm", "numba", "numpy", "cuda", "jax", "torch", "cupy", "dask", "dask-numpy"}
        ``"llvm"`` compiles loops in the language of LLVM, which ``.llvm`` shows, while ``.source`` is their text for
        Numba. ``"numba"`` compiles that text, which takes ten times as long; where temporaries are large, it runs two
        to three times as long. ``"jax"``, ``"torch"`` and ``"cupy"`` make an `ArrayFunction` of the arrays of these
        libraries, which can trace it ([how to](howto_array_libraries.md)). The last two make a function of
        [dask arrays](howto_dask.md), with LLVM's or NumPy's kernels (extra ``dask``): a `DaskFunction`, whose results
        are lazy.
    temporaries : bool
        False: the form of the paper, without temporary memory: every entry recomputes the sums it
        needs. (Comprehensions read by others, and sums of sums inside of sums, are kept all the
        same: recomputing those costs exponentially. Operands and results of library calls, sums and expensive
        whole-tensor expressions are kept, too, and so are the values that the derivative of a maximum or a
        minimum compares with it: both sides have to be the same floating point numbers.)
    functions : mapping, optional
        Implementations of undefined functions and of their partial derivatives, also of SymPy
        functions that the backend cannot evaluate (``"polylog"``). A key is a name, ``"g"``, or a name with
        how often it is differentiated in each argument, ``("g", (0, 1))``; ``"g'"`` is short for
        one argument. NumPy, JAX, PyTorch and CuPy call them with arrays, compiled kernels with numbers (Numba compiles
        them), CUDA makes device functions of them.
    sizes : mapping, optional
        About how large sizes that are symbols will be, ``{n: 300}``: plans are compared for these, and for 100
        where nothing is said. The function works for all sizes all the same.
    expand : bool
        True: sums of sums in index notation are multiplied out where that needs fewer operations, so that
        ``Sum_k (a[i, k] + b[j, k])**2`` is two sums over one index and a product of matrices. It is off by default,
        since the remaining terms may cancel: the relative error of that sum grows with the square of a/(a + b), from
        2e-16 to 4e-12 where entries near 100 differ by 1.
    parallel : bool, optional
        Whether compiled kernels run on all cores. None: in calls where they compute so much that it pays (``.plan``
        says how much), and if there are several cores; compiled then, once more. The results do not depend on the
        number of threads, since no sum is divided. Products of matrices have the threads of their library, whatever
        this is.
        For the other backends it must not be True.

    blocks : mapping, optional
        For the backends on Dask: into how large blocks a size (or an index) is cut, ``{n: 200_000, m: None}``; None,
        and all sizes and indices that are not named, stay whole. By default the chunks of the arguments of each call
        decide.

    memory : int or str, optional
        For the backends on Dask: bytes, ``10**9`` or ``"1 GB"``, that one task may read and return, without the
        temporaries of its kernel: give a quarter of the memory of a worker's thread. A call with a larger block raises
        `UnsupportedError`, with the sizes.

    Returns
    -------
    CompiledFunction
        Takes arrays and numbers, reads symbolic sizes off the shapes, checks all arguments, returns new arrays (a NumPy
        scalar for a scalar) or fills ``out=``, which is nested as ``expr`` is. ``.source`` is the generated module (for
        LLVM, the same loops for Numba), and ``.plan`` lists its computations in order. float32 in, float32 out;
        integers count as float64. It pickles, if the functions do. A call in which a matrix to be inverted is singular
        raises `SingularMatrixError`, also where a condition keeps all of the inverse out of the result: operands of
        whole-array operations are computed first, and conditions choose between entries. A call whose arrays of
        integers lead a read out of its tensor, or contain values that ``below=`` excludes, raises `DataIndexError`
        before any kernel runs. For ``backend="cuda"``, arrays on the device stay there, and so do the results, on the
        caller's stream or on the one that a call passes as ``stream=``.

    Notes
    -----
    No two threads write one entry, except in a scatter, as ``.plan`` calls it: a sum with ``KroneckerDelta(p, idx[i])``
    fills its result with zeros and adds to the entries that the data select. The CPU adds one after the other, in the
    order of the sum, whatever ``temporaries`` is; CUDA adds atomically, in any order, so that the last bits may differ
    from run to run.

    Raises
    ------
    ArgumentError
        If a symbol of ``expr`` is missing from ``args``, an argument is given twice, a tuple of ``expr`` is empty,
        ``functions`` has a key that is not in ``expr``, a key of ``sizes`` is not a size, or ``parallel`` has another
        value.
    BackendError
        If the library of the backend is not installed.
    UnsupportedError
        If a function that no backend can evaluate is missing from ``functions``; the message lists all keys. Or, for
        ``backend="cuda"`` without CuPy, if an inverse, a determinant or an adjugate is needed. Or if a kernel cannot
        decide which value is compared with a maximum or a minimum.
    OutOfShapeError
        If a read leaves its tensor for all sizes.

    Examples
    --------
    >>> import numpy as np, sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    >>> dot = td.lambdify([x, y], td.IndexedSum(x[i]*y[i], (i, 0, n - 1)), "numpy")
    >>> float(dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    11.0
    >>> blocks = td.lambdify((x, y), td.hessian(td.dot(x, y), (x, y)), "numpy")
    >>> (by_x_x, by_x_y), (by_y_x, by_y_y) = blocks(np.ones(2), np.ones(2))
    >>> by_x_y
    array([[1., 0.],
           [0., 1.]])

    Data select entries, and a derivative adds to them:

    >>> chosen = td.TensorSymbol("chosen", 3, dtype=int)
    >>> total = td.IndexedSum(x[chosen[i]]**2, (i, 0, 2))
    >>> slope = td.lambdify((x, chosen), td.gradient(total, x), "numpy")
    >>> slope(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]))
    array([ 2.,  0., 16.])
    """
    if backend in ("dask", "dask-numpy"):
        if parallel is not None or sizes is not None:
            raise ArgumentError(f"parallel= and sizes= are not for backend={backend!r}: one thread runs each block")
        own = {"temporaries": temporaries, "functions": functions, "expand": expand}
        return distributed(args, expr, blocks, memory, backend, own)
    if blocks is not None or memory is not None:
        raise ArgumentError(f"blocks= and memory= are for backend='dask', not for backend={backend!r}")
    options = _options(backend, temporaries=temporaries, expand=expand)
    options["segments"] = backend in ("numba", "llvm", "numpy")
    program = build_program(args, expr, sizes=sizes, **options)
    build = partial(program_at, args, tuple(flatten(expr)[0]), program.structure, options)
    if backend in PURE:
        if parallel:
            raise ArgumentError(f"parallel=True is for 'llvm' and 'numba', not for {backend!r}: leave it out")
        return ArrayFunction(program, backend, functions, build)
    return CompiledFunction(program, backend, functions, parallel, build)


def _options(backend: str, **given: Any) -> dict[str, Any]:
    """Return the options of `build_program` for a `backend`: those ``given`` to `lambdify`, and those that follow from
    the backend, such as whether a library computes matrix products.
    """
    given |= {"library": backend not in ("cuda", "cuda_c"), "rows": backend in ("numba", "llvm", "c")}
    given |= {"arrays": backend in PURE}
    given |= {"norms": backend in ("numpy", "numba", "llvm", "c")}
    return given | dict.fromkeys(("trapezoids", "tables"), backend in ("numba", "llvm"))


@explained
def evaluate(expr: Any, values: Mapping[Any, Any], *, functions: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Return the value of ``expr`` where its symbols have the ``values``, without compiling: the result of a call of
    `lambdify` with the backend "numpy". ``functions`` maps functions in ``expr`` to Python functions.

    Each call translates ``expr`` again; `lambdify` does that once for many calls.

    Parameters
    ----------
    expr : Expr, or tuple of Expr
        As for `lambdify`.
    values : mapping
        Arrays, lists or numbers by the symbols of ``expr``: tensors, scalars, free indices, and those sizes that no
        shape determines.
    functions : mapping, optional
        As for `lambdify`.

    Returns
    -------
    numpy.ndarray, NumPy scalar, or tuple of them

    Raises
    ------
    ArgumentError
        If a symbol has no value, or a value does not fit.

    See Also
    --------
    lambdify : a function for many calls.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)
    >>> td.evaluate(A @ x, {A: [[1, 2], [3, 4]], x: [1, 10]})
    array([21., 43.])
    >>> td.evaluate(A[n - 1, 0], {A: [[1, 2], [3, 4]], n: 2})
    np.float64(3.0)
    """
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(f"the values of td.evaluate are a mapping such as {{x: array}}, not {values!r}")
    try:
        function = lambdify(tuple(values), expr, "numpy", functions=functions)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("in args", "in values").replace("to args", "to values")) from None
    return function(*values.values())


@explained
def generate_code(
    args: Any,
    expr: Any,
    backend: str = "numba",
    *,
    temporaries: bool = True,
    parallel: bool | None = None,
    sizes: Mapping[Any, int] | None = None,
    expand: bool = False,
    name: str | None = None,
    dtype: str | None = None,
    allocate: bool | None = None,
) -> str:
    """Return the text of the module that `lambdify` would compile for ``expr`` as a function of ``args``, for use
    without this package. The options are those of `lambdify`.

    For ``backend="c"`` it is [a file in C99](howto_c.md), with the text of its header as ``.header``; for
    ``backend="cuda_c"`` [a file in CUDA C++](howto_gpu.md) with the same functions for arrays on the device; for
    ``backend="llvm"`` a module of LLVM, whose ``run`` takes Python's objects. In Python, its
    ``compute`` takes the arguments, checks them and returns new results. Its ``run`` fills results that are
    given, checks nothing, and has the results of nested tuples as parameters from left to right.
    Nothing but this package needs to be installed, also for ``backend="cuda"``. Functions that no
    backend knows are listed in the text, under ``FUNCTIONS``; they are yours to supply.

    Parameters
    ----------
    args, expr, backend, temporaries, parallel, sizes, expand
        As for `lambdify`, but not for Dask; ``backend`` may also be ``"c"``, with pragmas of OpenMP if ``parallel`` is
        True, or ``"cuda_c"``.
    name : str, optional
        For C and CUDA C: the name of the function, ``"compute"`` by default.
    dtype : {"float64", "float32"}, optional
        For C, CUDA C and LLVM: the type of numbers.
    allocate : bool, optional
        For C: whether the function allocates its scratch memory. By default the caller passes it.

    Returns
    -------
    str
        The text of a Python module, or of a file in C or CUDA C++.

    Raises
    ------
    NotInCError
        If C with ``math.h``, or CUDA, has no such function, routine or type of numbers.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i = td.indices("i")
    >>> x = td.TensorSymbol("x", 4)
    >>> text = td.generate_code([x], td.TensorComprehension(x[3 - i], (i, 4)), "cuda")
    >>> "cuda.grid" in text, "atomic" in text
    (True, False)
    >>> module = {}
    >>> exec(td.generate_code([x], 2*x, "numpy"), module)
    >>> module["compute"]([1, 2, 3, 4])
    array([2., 4., 6., 8.])
    """
    given = (("name", name), ("dtype", dtype), ("allocate", allocate))
    of_c: dict[str, Any] = {key: value for key, value in given if value is not None}
    wrong = [key for key in of_c if backend not in ("c", "cuda_c") and (backend, key) != ("llvm", "dtype")]
    if wrong:
        raise ArgumentError(f"{wrong[0]}= is for backend='c', not for backend={backend!r}")
    options = _options(backend, temporaries=temporaries, expand=expand)
    program = build_program(args, expr, sizes=sizes, **options)
    if backend in ("c", "cuda_c"):
        from sympy_tensordiff.codegen.emit.c import COptions, print_c  # as other printers, where they are asked for
        from sympy_tensordiff.codegen.emit.cuda_c import print_cuda_c

        print_file = print_c if backend == "c" else print_cuda_c
        return print_file(program, COptions(parallel=parallel, **of_c))
    if backend in PURE:
        return print_array_module(program, backend)
    if backend == "llvm":
        return print_source(program, backend, parallel, **of_c)
    return with_compute(print_source(program, backend, parallel), program, backend)
